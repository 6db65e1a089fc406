//! What may be found of one dataset: while it lives, and after a cut. See [`line`] for the idea.

mod line;
mod ranges;
mod reserved;
mod rewritten;
mod used;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tally_base::{ObjectId, Rng};
use tally_store::properties::SyncMode;
use tally_vfs::model::{Model, ModelOptions};
use tally_vfs::{Attributes, CreateHow, Cred, FsError, Names, ObjectRef, SetAttr, Stability};

use crate::clock::Ticks;
use crate::op::Op;
pub use line::Left;
use line::{Effect, Line};
pub use reserved::{Kept, Reserved};
pub use rewritten::Rewritten;
pub use used::{Bound, Used, used};

/// Lines that are followed at the most. Beyond, what may be so or so is taken for one of the two.
const LINES_MAX: usize = 16;

/// Generations mean nothing in the model: it never gives an id twice.
struct Zero;

impl Rng for Zero {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// An empty file system in memory.
#[must_use]
pub fn new_model() -> Model {
    Model::new(&ModelOptions { clock: Arc::<Ticks>::default(), rng: Arc::new(Zero), ..ModelOptions::default() })
}

/// What the server's log takes at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one request that go to the log; what is longer waits for its group.
    pub inline_bytes_max: u64,
    /// Bytes of a file, written unstably in one group, that stay in memory; beyond, whole blocks go to the pool ahead.
    pub gathered_bytes_max: u64,
    /// Bytes of a COMMIT that go to the log at once. A longer one has several parts, and others come between.
    pub part_bytes_max: u64,
    /// Bytes of content that one record carries. A longer request has several, and a cut between them leaves a part.
    pub record_bytes_max: u64,
    /// Whether no lane has ended. Behind an end, data waits for its group, and others do not wait for it with its
    /// author.
    pub is_whole: bool,
}

/// What a reply promises.
#[derive(Clone, Copy, Debug)]
pub enum Promised {
    /// Nothing: `sync=disabled`, or nothing that anybody could miss.
    Nothing,
    /// The history up to this operation.
    Log(usize),
    /// A durable group that contains this operation.
    Group(usize),
}

/// What stood there before an operation.
#[derive(Debug)]
pub struct Before {
    /// The file that a CREATE finds, and its size.
    pub existing: Option<(ObjectRef, u64)>,
    named: Vec<ObjectId>,
    /// The part of a WRITE that goes to the pool ahead; `None` if its record carries it.
    placed: Option<Range<u64>>,
    /// What a COMMIT finds to be done, and whether it is in the pool ahead.
    due: Vec<(Range<u64>, bool)>,
}

impl Before {
    /// The objects that it found under its names.
    #[must_use]
    pub fn named(&self) -> &[ObjectId] {
        &self.named
    }
}

/// What clients may find of one dataset, now and behind a cut.
pub struct Oracle {
    /// What operations answer.
    pub live: Model,
    /// The property in force.
    pub sync: SyncMode,
    /// Its quota: in force, and asked for.
    pub bound: Bound,
    /// What was written anew, as a group that is closed now has it.
    pub rewritten: Rewritten,
    /// What of its files is promised.
    pub reserved: Reserved,
    /// Before and after the group that is being synced; one while none is. Where it is not known whether a COMMIT waits for its
    /// group, one for each, those in which none does before the others.
    lines: Vec<Line>,
    last_change: HashMap<ObjectId, usize>,
    /// The newest write to a file, logged or not.
    last_write: HashMap<ObjectId, usize>,
    /// Objects of the model from here on were made in this life.
    first_id: ObjectId,
    /// Everything up to the second operation is promised; up to the first it was, before the last frame was written.
    floors: [usize; 2],
    /// The round of answers in which the second one was raised.
    raised_in: u64,
}

/// A state that fits what was found.
pub struct Found {
    /// All that is left of the dataset then.
    pub left: Left,
    /// The oldest and the newest operation behind which the history looks like this.
    pub ops: (usize, usize),
}

impl Oracle {
    /// Of a dataset that looks like `live`, all of it synced.
    #[must_use]
    pub fn new(live: Model, sync: SyncMode) -> Self {
        let (rewritten, reserved) = (Rewritten::default(), Reserved::default());
        let lines = vec![Line::new(&live, (&rewritten, &reserved), 0)];
        let first_id = ObjectId(0);
        let (last_change, last_write) = (HashMap::new(), HashMap::new());
        Self {
            live,
            sync,
            bound: Bound::default(),
            rewritten,
            reserved,
            lines,
            last_change,
            last_write,
            first_id,
            floors: [0, 0],
            raised_in: 0,
        }
    }

    /// Another oracle that knows what this one does of a dataset at rest: all that is there is durable, up to operation
    /// `op`.
    #[must_use]
    pub fn fork(&self, op: usize, newest: ObjectId) -> Self {
        let mut fork = Self::new(self.live.fork(), self.sync);
        let left = Left { rewritten: Rewritten::default(), ..self.as_group() };
        fork.begin_life(left, op, newest);
        fork
    }

    /// Looks at what an operation is about to change.
    pub fn before(&mut self, op: &Op, limits: Limits) -> Before {
        let (due, placed) = (self.due_of(op), self.placed(op, limits));
        Before { existing: self.existing(op), named: self.named(op), placed, due }
    }

    /// Whether the outcome of an operation is not known: states before and after a SETATTR may look alike, so what a
    /// file from an earlier life keeps of its EXCLUSIVE create is not known after a cut.
    #[must_use]
    pub fn cannot_know(&self, op: &Op, before: &Before) -> bool {
        let is_old = before.existing.is_some_and(|(object, _)| object.id < self.first_id);
        is_old && matches!(op, Op::Create { how: CreateHow::Exclusive(_), .. })
    }

    /// What the answer to a refused operation rests on: the newest change of what it looked at (rules F9).
    #[must_use]
    pub fn refused(&self, op: &Op, error: FsError) -> Promised {
        match self.sync {
            SyncMode::Disabled => Promised::Nothing,
            // Only the superuser makes devices, and no directory moves into itself: nobody has to look anything up to
            // say so.
            _ if matches!(error, FsError::NotOwner | FsError::Invalid) => Promised::Nothing,
            _ => Promised::Log(self.newest(op.objects().iter().map(|object| object.model.id))),
        }
    }

    fn newest(&self, objects: impl Iterator<Item = ObjectId>) -> usize {
        objects.filter_map(|id| self.last_change.get(&id)).copied().max().unwrap_or(0)
    }

    /// Takes in what a successful operation did, the live model being behind it. Gives what its answer promises.
    pub fn take(&mut self, (op, cred): (&Op, &Cred), number: usize, before: &Before, limits: Limits) -> Promised {
        let looked_at = op.objects();
        let mut changed: Vec<ObjectId> =
            looked_at.iter().map(|object| object.model.id).chain(before.named.iter().copied()).collect();
        let seen = self.newest(changed.iter().copied());
        let Some(effect) = self.effect(op, before, limits, &mut changed) else { return self.promise(seen) };
        effect.on_reserved(&mut self.reserved);
        if let Op::Write { object, offset, length, .. } = op {
            self.last_write.insert(object.model.id, number);
            self.rewritten.take(&self.live, op, *offset..offset + length);
        }
        if let Effect::InGroup = effect {
            let Op::Commit { object, .. } = op else { unreachable!("only a COMMIT waits for its group as a whole") };
            return Promised::Group(self.last_write.get(&object.model.id).copied().unwrap_or(0));
        }
        if self.sync == SyncMode::Disabled {
            return Promised::Nothing;
        }
        // A WRITE that is placed takes along what stayed in memory before it. Then a COMMIT of that waits for its group, and
        // nobody else for the COMMIT: what comes behind it may be there without it.
        let may_have_followed = matches!(effect, Effect::Committed { object, .. } if self.lines[0].is_placed(object));
        if may_have_followed && self.lines.len() <= LINES_MAX / 2 {
            let waiting = |line: Line| [line.waiting_for(number), line];
            let lines = std::mem::take(&mut self.lines);
            self.lines = lines.into_iter().flat_map(waiting).collect();
            self.lines.sort_by_key(|line| (line.group(), line.waits(None)));
        }
        for line in self.lines.iter_mut().filter(|line| !line.waits(Some(number))) {
            line.take(&self.live, number, &effect, (op, cred, &changed), limits);
        }
        if matches!(effect, Effect::Unlogged { .. }) {
            return if self.is_stable(op) { Promised::Group(number) } else { Promised::Nothing };
        }
        if (limits.is_whole || !matches!(effect, Effect::Written { .. })) && !may_have_followed {
            for id in changed {
                self.last_change.insert(id, number);
            }
        }
        Promised::Log(number)
    }

    /// Whether a successful operation changes anything.
    #[must_use]
    pub fn has_effect(&self, op: &Op, before: &Before, limits: Limits) -> bool {
        self.effect(op, before, limits, &mut Vec::new()).is_some()
    }

    fn promise(&self, op: usize) -> Promised {
        if self.sync == SyncMode::Disabled { Promised::Nothing } else { Promised::Log(op) }
    }

    /// `None`: nothing is changed.
    fn effect(&self, op: &Op, before: &Before, limits: Limits, changed: &mut Vec<ObjectId>) -> Option<Effect> {
        Some(match op {
            Op::Create { how, .. } if before.existing.is_some() => {
                let (object, was) = before.existing.expect("it was just seen");
                match how {
                    CreateHow::Unchecked(SetAttr { size: Some(size), .. }) if was != *size => {
                        *changed = vec![object.id];
                        Effect::Resized { object, size: *size }
                    }
                    _ => return None,
                }
            }
            Op::SetAttr { object, set } => match set.size {
                Some(size) => Effect::Resized { object: object.model, size },
                None if *set == SetAttr::default() => return None,
                None => Effect::Same,
            },
            Op::Write { length: 0, .. } => return None,
            Op::Allocate { object, offset, length } => Effect::Reserved {
                object: object.model,
                range: *offset..offset + length,
                record_size: object.record_size.max(1),
            },
            Op::Deallocate { object, offset, length } => {
                let size = self.live.getattr(object.model).map_or(0, |attr| attr.size);
                let range = *offset..size.min(offset + length);
                if range.is_empty() {
                    return None;
                }
                // To the end of the file its last block is whole.
                let record_size = object.record_size.max(1);
                let blocks_end = if range.end == size { size.next_multiple_of(record_size) } else { range.end };
                Effect::Punched { object: object.model, range, blocks_end }
            }
            // Two names of one object: nothing is done.
            Op::Rename { .. } if before.named.len() == 2 && before.named[0] == before.named[1] => return None,
            Op::Write { object, offset, length, .. } => match before.placed.clone() {
                Some(placed) => Effect::Unlogged { object: object.model, offset: *offset, length: *length, placed },
                None => Effect::Written { object: object.model, offset: *offset, data: op.data() },
            },
            Op::Commit { object, .. } => {
                let due = &before.due;
                let bytes: u64 = due.iter().filter(|(_, placed)| !placed).map(|(part, _)| part.end - part.start).sum();
                if due.is_empty() || self.sync == SyncMode::Disabled {
                    return None;
                }
                if due.iter().any(|(_, placed)| *placed) || bytes > limits.inline_bytes_max {
                    return Some(Effect::InGroup);
                }
                Effect::Committed { object: object.model, parts: due.iter().map(|(part, _)| part.clone()).collect() }
            }
            _ => Effect::Same,
        })
    }

    fn is_stable(&self, op: &Op) -> bool {
        let Op::Write { stability, .. } = op else { return true };
        *stability > Stability::Unstable || self.sync == SyncMode::Always
    }

    /// The file that a CREATE finds, and its size.
    fn existing(&self, op: &Op) -> Option<(ObjectRef, u64)> {
        let Op::Create { dir, name, .. } = op else { return None };
        let found = self.live.lookup(&Cred::root(), dir.model, name.as_bytes());
        found.ok().map(|(attr, _)| (attr.object, attr.size))
    }

    /// The objects that an operation finds under its names.
    fn named(&self, op: &Op) -> Vec<ObjectId> {
        let find = |(dir, name): &(&crate::op::Object, &str)| {
            self.live.lookup(&Cred::root(), dir.model, name.as_bytes()).ok().map(|(attr, _)| attr.object.id)
        };
        op.names().iter().filter_map(find).collect()
    }

    fn placed(&mut self, op: &Op, limits: Limits) -> Option<Range<u64>> {
        let Op::Write { object, offset, length, .. } = op else { return None };
        if self.is_stable(op) && *length <= limits.inline_bytes_max {
            return None;
        }
        if !self.is_stable(op) && self.is_gathered(object.model, *length, limits) {
            return Some(0..0);
        }
        let record_size = object.record_size.max(1);
        let (first, last) = (offset.next_multiple_of(record_size), (offset + length) / record_size * record_size);
        Some(if first < last { first..last } else { 0..0 })
    }

    /// Whether so many bytes more, written unstably, stay in memory.
    fn is_gathered(&mut self, object: ObjectRef, length: u64, limits: Limits) -> bool {
        let newest = self.lines.iter_mut().rfind(|line| !line.waits(None)).expect("there is always a line");
        let gathered = newest.dirty(object).bytes_in_memory();
        !self.lines[0].is_placed(object) && gathered + length <= limits.gathered_bytes_max
    }

    /// Takes in that a COMMIT has put its first part into the log, and goes on later. What that part was is promised to
    /// nobody.
    pub fn take_part(
        &mut self,
        (op, cred): (&Op, &Cred),
        number: usize,
        before: &Before,
        limits: Limits,
    ) -> Result<(), String> {
        let bytes: u64 = before.due.iter().map(|(part, _)| part.end - part.start).sum();
        if bytes <= limits.part_bytes_max {
            return Err(format!("{op:?} is to be run again, with {bytes} bytes due, which are one part"));
        }
        if bytes > limits.inline_bytes_max {
            return Err(format!("{op:?} goes to the log with {bytes} bytes, of which it takes {limits:?}"));
        }
        let mut left = limits.part_bytes_max;
        let mut due = before.due.clone();
        for (part, _) in &mut due {
            part.end = part.end.min(part.start + left);
            left -= part.end - part.start;
        }
        due.retain(|(part, _)| !part.is_empty());
        let first = Before { existing: None, named: Vec::new(), placed: None, due };
        match self.take((op, cred), number, &first, limits) {
            Promised::Log(_) => Ok(()),
            other => Err(format!("{op:?} is to be run again, and promises {other:?}")),
        }
    }

    fn due_of(&mut self, op: &Op) -> Vec<(Range<u64>, bool)> {
        let Op::Commit { object, offset, count } = op else { return Vec::new() };
        let size = self.live.getattr(object.model).map_or(0, |attr| attr.size);
        let end = if *count == 0 { size } else { size.min(offset + u64::from(*count)) };
        self.lines[0].dirty(object.model).within((*offset).min(end)..end)
    }

    // ---- promises and groups ----

    /// Everything up to operation `op` is promised. What is answered in one round may stand in one frame of the log.
    pub fn raise_floor(&mut self, op: usize, round: u64) {
        // A COMMIT that is answered waits no more.
        self.lines.retain(|line| !line.waits(Some(op)));
        if op > self.floors[1] {
            if round > self.raised_in {
                (self.floors[0], self.raised_in) = (self.floors[1], round);
            }
            self.floors[1] = op;
            self.lines.iter_mut().for_each(|line| line.forget_before(self.floors[0]));
        }
    }

    /// What was written into a file so far may be hidden by what rots now: it was written before.
    pub fn forget_rewritten(&mut self, file: ObjectId) {
        self.rewritten.forget(file);
        self.lines.iter_mut().for_each(|line| line.forget_rewritten(file));
    }

    /// The same of what was written as zeroes alone.
    pub fn forget_holes(&mut self, file: ObjectRef) {
        self.rewritten.forget_holes(file, &self.live);
        self.lines.iter_mut().for_each(|line| line.forget_holes(file));
    }

    /// A group is closed behind operation `op`, and its sync begins.
    pub fn begin_group(&mut self, op: usize) {
        let line = Line::new(&self.live, (&self.rewritten, &self.reserved), op).behind(self.lines.last());
        self.lines.push(line);
    }

    /// That group is durable.
    pub fn end_group(&mut self) {
        let oldest = self.lines[0].group();
        self.lines.retain(|line| line.group() > oldest);
    }

    /// What the group has that is closed now.
    #[must_use]
    pub fn as_group(&self) -> Left {
        let (rewritten, reserved) = (self.rewritten.clone(), self.reserved.clone());
        Left { model: self.live.fork(), believed: HashMap::new(), rewritten, reserved }
    }

    // ---- lives ----

    /// The pool has gone back to a group that had this, behind operation `op`: nothing else may be found.
    pub fn go_back(&mut self, left: Left, op: usize) {
        self.lines = vec![Line::new(&left.model, (&left.rewritten, &left.reserved), op)];
        (self.live, self.rewritten, self.reserved) = (left.model, left.rewritten, left.reserved);
        self.floors = [op, op];
    }

    /// Looks for a state that is the one found, the newest first. An error says how each of them differs. The last
    /// frame of the log may be missing if it was `damaged`: nothing bears witness to it (rules F27).
    pub fn find(&self, damaged: bool, same: impl Fn(&Left) -> Result<(), String>) -> Result<Found, String> {
        let floor = self.floors[usize::from(!damaged)];
        let mut differences = Vec::new();
        let mut found: Option<Found> = None;
        for (at, line) in self.lines.iter().enumerate().rev() {
            for (op, left) in line.states_from(floor) {
                match (same(left), &mut found) {
                    (Ok(()), None) => found = Some(Found { left: left.fork(), ops: (op, op) }),
                    (Ok(()), Some(found)) => found.ops = (found.ops.0.min(op), found.ops.1.max(op)),
                    (Err(what), _) => differences.push(format!("    group line {at}, after #{op}: {what}")),
                }
            }
        }
        found.ok_or_else(|| format!("the import has a state that never was:\n{}", differences.join("\n")))
    }

    /// A new life begins in this state, behind operation `op`; objects up to `newest` are known.
    pub fn begin_life(&mut self, left: Left, op: usize, newest: ObjectId) {
        (self.live, self.rewritten, self.reserved) = (left.model, left.rewritten, left.reserved);
        self.lines = vec![Line::new(&self.live, (&self.rewritten, &self.reserved), op)];
        self.floors = [op, op];
        self.first_id = ObjectId(newest.0 + 1);
        self.last_change.clear();
        self.last_write.clear();
    }
}

#[cfg(test)]
mod tests;
