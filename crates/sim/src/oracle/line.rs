//! What a power cut may leave.
//!
//! The live model says what operations answer. Beside it stands at least one *line*: what is on disk if a given
//! transaction group is the newest durable one and the log is whole. A line begins as a fork of the live model at the
//! moment its group was closed, and takes what is logged from then on: names and attributes always, data when it was
//! written stably or committed. While a group is being synced there are two lines, before and after; its end, or the
//! cut, decides between them.
//!
//! The log may end early, so a line keeps its states since the last one that somebody was promised (the *floor*). A
//! state after a cut is right if it is one of those. It is not enough that everything promised is there: nothing may be
//! there that no prefix of the history explains.
//!
//! A record carries the whole inode as it became. Where the inode below cannot be read the replay believes it, also in
//! its size, which may be that of data in memory alone. So a line knows what size each file would have then: that of
//! the first record about it, and behind it each one's rule, as for any other file.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use bytes::Bytes;
use tally_base::{Generation, ObjectId};
use tally_vfs::model::Model;
use tally_vfs::{Attributes, Content, Cred, ObjectRef, OpCtx, SetAttr, Stability};

use super::Limits;
use super::ranges::Ranges;
use super::reserved::Reserved;
use super::rewritten::Rewritten;
use crate::op::Op;

/// How a change reaches the disk.
pub(super) enum Effect {
    /// Its record carries everything: the same operation.
    Same,
    /// A write that only its group makes durable, and the part of it that is in the pool ahead.
    Unlogged { object: ObjectRef, offset: u64, length: u64, placed: Range<u64> },
    /// A write whose record carries the data.
    Written { object: ObjectRef, offset: u64, data: Bytes },
    /// A file was cut or extended.
    Resized { object: ObjectRef, size: u64 },
    /// Room is promised for a range, to the end of which the file reaches.
    Reserved { object: ObjectRef, range: Range<u64>, record_size: u64 },
    /// A range reads as zeroes. Up to `blocks_end` nothing else is in its last block.
    Punched { object: ObjectRef, range: Range<u64>, blocks_end: u64 },
    /// These dirty parts of the file went to the log, as they are now.
    Committed { object: ObjectRef, parts: Vec<Range<u64>> },
    /// Nothing goes to the log: what is dirty waits for its group.
    InGroup,
}

impl Effect {
    /// What it does to what is promised.
    pub(super) fn on_reserved(&self, reserved: &mut Reserved) {
        match self {
            Self::Reserved { object, range, record_size } => reserved.add(object.id, range, *record_size),
            Self::Punched { object, range, blocks_end } => reserved.remove(object.id, &(range.start..*blocks_end)),
            Self::Resized { object, size } => reserved.remove(object.id, &(*size..u64::MAX)),
            _ => {}
        }
    }
}

/// What is on disk after one group and so much of the log.
pub(super) struct Line {
    /// With the whole log.
    newest: Left,
    dirty: HashMap<ObjectId, Ranges>,
    /// Files of which something went to the pool ahead.
    placed: HashSet<ObjectId>,
    /// States by the number of the operation that led to them, oldest first.
    states: Vec<(usize, Left)>,
    /// Which group is the last one in it, counted from the first of this life.
    group: usize,
    /// COMMITs that wait for their group in this one, and went to the log in another.
    waiting: Vec<usize>,
}

/// What a cut may have left.
pub struct Left {
    /// If every inode can be read.
    pub model: Model,
    /// The files that records are about, and their sizes if their inodes cannot be read.
    pub believed: HashMap<ObjectId, u64>,
    /// The blocks of files in which nothing is left of what was there before all changes.
    pub rewritten: Rewritten,
    /// What of files is promised.
    pub reserved: Reserved,
}

impl Left {
    /// Another one like this.
    #[must_use]
    pub fn fork(&self) -> Self {
        let (believed, rewritten) = (self.believed.clone(), self.rewritten.clone());
        Self { model: self.model.fork(), believed, rewritten, reserved: self.reserved.clone() }
    }

    /// A record carries the inode of a file that has this size now, in memory. It is believed if it is the first one.
    fn carries(&mut self, live: &Model, id: ObjectId) {
        if let Ok(attr) = live.getattr(ObjectRef { id, generation: Generation(0) }) {
            self.believed.entry(id).or_insert(attr.size);
        }
    }

    /// A write that ends there is in the log.
    fn reaches(&mut self, id: ObjectId, end: u64) {
        let size = self.believed.get_mut(&id).expect("its record carries the inode");
        *size = (*size).max(end);
    }
}

impl Line {
    pub(super) fn new(live: &Model, (rewritten, reserved): (&Rewritten, &Reserved), op: usize) -> Self {
        let (rewritten, reserved) = (rewritten.clone(), reserved.clone());
        let left = Left { model: live.fork(), believed: HashMap::new(), rewritten, reserved };
        let states = vec![(op, left.fork())];
        Self { newest: left, dirty: HashMap::new(), placed: HashSet::new(), states, group: 0, waiting: Vec::new() }
    }

    /// The same behind one group more.
    pub(super) fn behind(self, line: Option<&Self>) -> Self {
        Self { group: line.map_or(0, |line| line.group + 1), ..self }
    }

    pub(super) fn group(&self) -> usize {
        self.group
    }

    /// Another line like this one, in which COMMIT `number` waits for its group.
    pub(super) fn waiting_for(&self, number: usize) -> Self {
        Self {
            newest: self.newest.fork(),
            dirty: self.dirty.clone(),
            placed: self.placed.clone(),
            states: self.states.iter().map(|(op, left)| (*op, left.fork())).collect(),
            group: self.group,
            waiting: self.waiting.iter().copied().chain([number]).collect(),
        }
    }

    /// Whether a COMMIT waits for its group here: this one, or any.
    pub(super) fn waits(&self, number: Option<usize>) -> bool {
        number.map_or(!self.waiting.is_empty(), |number| self.waiting.contains(&number))
    }

    /// See [`super::Oracle::forget_rewritten`].
    pub(super) fn forget_rewritten(&mut self, file: ObjectId) {
        let states = self.states.iter_mut().map(|(_, left)| left);
        states.chain([&mut self.newest]).for_each(|left| left.rewritten.forget(file));
    }

    /// See [`super::Oracle::forget_holes`].
    pub(super) fn forget_holes(&mut self, file: ObjectRef) {
        let states = self.states.iter_mut().map(|(_, left)| left);
        states.chain([&mut self.newest]).for_each(|left| left.rewritten.forget_holes(file, &left.model));
    }

    /// Nobody will ask for a state from before operation `op`.
    pub(super) fn forget_before(&mut self, op: usize) {
        let keep_from = self.first_at(op);
        self.states.drain(..keep_from);
    }

    /// The states in which operation `op` is done, the newest first.
    pub(super) fn states_from(&self, op: usize) -> impl Iterator<Item = (usize, &Left)> {
        self.states[self.first_at(op)..].iter().rev().map(|(op, left)| (*op, left))
    }

    /// Where the state behind operation `op` stands: the last one that it or an earlier one has led to.
    fn first_at(&self, op: usize) -> usize {
        self.states.iter().rposition(|(at, _)| *at <= op).unwrap_or(0)
    }

    pub(super) fn dirty(&mut self, object: ObjectRef) -> &mut Ranges {
        self.dirty.entry(object.id).or_default()
    }

    pub(super) fn is_placed(&self, object: ObjectRef) -> bool {
        self.placed.contains(&object.id)
    }

    /// Takes in what operation `number` did to the `changed` objects, `live` being the model after it.
    pub(super) fn take(
        &mut self,
        live: &Model,
        number: usize,
        effect: &Effect,
        (op, cred, changed): (&Op, &Cred, &[ObjectId]),
        limits: Limits,
    ) {
        let record_bytes_max = limits.record_bytes_max;
        if !matches!(effect, Effect::InGroup | Effect::Unlogged { .. }) {
            changed.iter().for_each(|id| self.newest.carries(live, *id));
        }
        effect.on_reserved(&mut self.newest.reserved);
        match effect {
            Effect::InGroup => return,
            Effect::Same => {
                op.run_on(&self.newest.model, cred).result.expect("what the live model did, too");
            }
            Effect::Unlogged { object, offset, length, placed } => {
                self.dirty(*object).insert(*offset..offset + length, false);
                self.dirty(*object).insert(placed.clone(), true);
                if !placed.is_empty() {
                    self.placed.insert(object.id);
                }
                return;
            }
            Effect::Written { object, offset, data } => {
                self.dirty(*object).remove(*offset..offset + data.len() as u64);
                self.write_in_records(number, *object, &[(*offset, data.clone())], record_bytes_max);
                self.newest.rewritten.take(live, op, *offset..*offset + data.len() as u64);
            }
            Effect::Resized { object, size } => {
                self.dirty(*object).remove(*size..u64::MAX);
                let root = Cred::root();
                let set = SetAttr { size: Some(*size), ..SetAttr::default() };
                let ctx = OpCtx::of(&root);
                self.newest.model.setattr(ctx, *object, &set, None).result.expect("the file is there");
                self.newest.believed.insert(object.id, *size);
            }
            Effect::Reserved { object, range, .. } => {
                op.run_on(&self.newest.model, cred).result.expect("what the live model did, too");
                self.newest.reaches(object.id, range.end);
            }
            Effect::Punched { object, range, .. } => {
                self.dirty(*object).remove(range.clone());
                // Of the file's length its record has so much, which may be in no other.
                let root = Cred::root();
                let ctx = OpCtx::of(&root);
                if self.newest.model.getattr(*object).is_ok_and(|attr| attr.size < range.end) {
                    let set = SetAttr { size: Some(range.end), ..SetAttr::default() };
                    self.newest.model.setattr(ctx, *object, &set, None).result.expect("the file is there");
                }
                let length = range.end - range.start;
                self.newest.model.deallocate(ctx, *object, range.start, length).result.expect("the file is there");
                self.newest.reaches(object.id, range.end);
            }
            Effect::Committed { object, parts } => {
                let read = |part: &Range<u64>| {
                    let read = live.read(&Cred::root(), *object, part.start, (part.end - part.start) as u32);
                    (part.start, Bytes::from(read.expect("the file is there").data.concat()))
                };
                let pieces: Vec<_> = parts.iter().map(read).collect();
                parts.iter().for_each(|part| self.dirty(*object).remove(part.clone()));
                self.write_in_records(number, *object, &pieces, record_bytes_max);
                parts.iter().for_each(|part| self.newest.rewritten.take(live, op, part.clone()));
            }
        }
        self.states.push((number, self.newest.fork()));
    }

    /// Writes piece by piece, and keeps the states between two records.
    fn write_in_records(&mut self, number: usize, object: ObjectRef, pieces: &[(u64, Bytes)], record_bytes_max: u64) {
        let mut room = record_bytes_max as usize;
        for (offset, bytes) in pieces {
            let mut at = 0;
            while at < bytes.len() {
                if room == 0 {
                    self.states.push((number, self.newest.fork()));
                    room = record_bytes_max as usize;
                }
                let part = bytes.slice(at..bytes.len().min(at + room));
                room -= part.len();
                let length = part.len();
                self.write(object, offset + at as u64, part);
                at += length;
            }
        }
    }

    fn write(&mut self, object: ObjectRef, offset: u64, data: Bytes) {
        let root = Cred::root();
        self.newest.reaches(object.id, offset + data.len() as u64);
        let ctx = OpCtx::of(&root);
        self.newest.model.write(ctx, object, offset, data, Stability::FileSync).result.expect("the file is there");
    }
}
