//! What records come to.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use foldhash::HashMap;
use smallvec::SmallVec;
use tally_base::ObjectId;
use tally_vfs::ObjectRef;
use tally_vfs::locks::{Kind, Range};

use super::{Entry, Gives, Locker};

/// Requests that append, of which it is known where: as many as may be under way, of which the newest are.
const APPENDS_MAX: usize = 8192;

/// All of a mount.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Chosen once, at random.
    pub(crate) id: [u8; 16],
    /// What its owner wrote of it.
    pub(crate) about: Bytes,
    /// Whether the kernel says again what it has asked; nothing, if it was never agreed upon.
    pub(crate) can_resend: Option<bool>,
    /// Every number of an open is below.
    pub(crate) next: u64,
    /// Opens by their numbers: the file, and for which request.
    pub(crate) opens: HashMap<u64, (ObjectRef, u64)>,
    /// How many of each file.
    open_count: HashMap<ObjectId, usize>,
    /// Who has locked something, by file.
    pub(crate) owners: BTreeMap<(ObjectId, u64), Owner>,
    /// What is to be said of files that were written.
    pub(crate) due: HashMap<ObjectId, Gives>,
    /// Requests that append, and where.
    pub(crate) appends: VecDeque<(u64, u64)>,
    /// Requests that nobody has carried out.
    pub(crate) left: Vec<Bytes>,
    /// Whether whoever kept it has carried out or left all that it had read.
    pub(crate) has_ended_well: bool,
}

/// One that has locked something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) object: ObjectRef,
    pub(crate) pid: u32,
    /// Opens through which he has.
    pub(crate) through: SmallVec<[u64; 1]>,
    /// Apart from each other, in order.
    pub(crate) ranges: Vec<(Range, Kind)>,
}

impl Owner {
    /// From here on this is locked so, or not at all.
    fn set(&mut self, range: Range, kind: Option<Kind>) {
        let mut all = Vec::with_capacity(self.ranges.len() + 2);
        let mut joined = range;
        for (held, of) in self.ranges.drain(..) {
            match kind {
                Some(kind) if kind == of && held.touches(joined) => joined = joined.joined(held),
                _ => all.extend(held.without(range).into_iter().flatten().map(|left| (left, of))),
            }
        }
        all.extend(kind.map(|kind| (joined, kind)));
        all.sort_by_key(|(range, _)| range.first());
        self.ranges = all;
    }
}

impl State {
    pub(super) fn apply(&mut self, entry: &Entry<'_>) {
        match *entry {
            Entry::Mount { id, about } => (self.id, self.about) = (id, Bytes::copy_from_slice(about)),
            Entry::Agreed { can_resend } => self.can_resend = Some(can_resend),
            Entry::Numbered { next } => self.next = self.next.max(next),
            Entry::Opened { unique, object, fh } => {
                self.next = self.next.max(fh.saturating_add(1));
                if self.opens.insert(fh, (object, unique)).is_none() {
                    *self.open_count.entry(object.id).or_default() += 1;
                }
            }
            Entry::Released { object, fh } => self.release(object, fh),
            Entry::Locked { object, by: Locker { owner, fh, pid }, range, kind } => {
                let none = || Owner { object, pid, through: SmallVec::new(), ranges: Vec::new() };
                let owner = self.owners.entry((object.id, owner)).or_insert_with(none);
                owner.pid = pid;
                if !owner.through.contains(&fh) {
                    owner.through.push(fh);
                }
                owner.set(range, Some(kind));
            }
            Entry::Unlocked { object, owner, range } => {
                if let Some(held) = self.owners.get_mut(&(object, owner)) {
                    held.set(range, None);
                    if held.ranges.is_empty() {
                        self.owners.remove(&(object, owner));
                    }
                }
            }
            Entry::Due { object, gives } => drop(self.due.insert(object, gives)),
            Entry::Settled { object } => {
                if matches!(self.due.get(&object), Some(Gives::Verifier(_))) {
                    self.due.remove(&object);
                }
            }
            Entry::EndsWell => {
                self.due.retain(|_, gives| !matches!(gives, Gives::Verifier(_)));
                self.has_ended_well = true;
            }
            Entry::Appends { unique, offset } => {
                self.appends.push_back((unique, offset));
                if self.appends.len() > APPENDS_MAX {
                    self.appends.pop_front();
                }
            }
            Entry::Left { message } => self.left.push(Bytes::copy_from_slice(message)),
            Entry::TakenUp => {
                self.left.clear();
                self.has_ended_well = false;
            }
        }
    }

    fn release(&mut self, object: ObjectId, fh: u64) {
        if self.opens.remove(&fh).is_none() {
            return;
        }
        let gone: Vec<_> = self
            .owners
            .range_mut((object, 0)..=(object, u64::MAX))
            .filter_map(|(key, owner)| {
                owner.through.retain(|through| *through != fh);
                owner.through.is_empty().then_some(*key)
            })
            .collect();
        gone.into_iter().for_each(|key| drop(self.owners.remove(&key)));
        if let Some(count) = self.open_count.get_mut(&object) {
            *count -= 1;
            if *count == 0 {
                self.open_count.remove(&object);
                self.due.remove(&object);
            }
        }
    }

    /// Records that come to this.
    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        let mut all = vec![Entry::Mount { id: self.id, about: &self.about }];
        all.extend(self.can_resend.map(|can_resend| Entry::Agreed { can_resend }));
        // Of what was written since it is told behind this.
        all.extend(self.has_ended_well.then_some(Entry::EndsWell));
        all.push(Entry::Numbered { next: self.next });
        all.extend(self.opens.iter().map(|(fh, (object, unique))| Entry::Opened {
            unique: *unique,
            object: *object,
            fh: *fh,
        }));
        for ((_, number), owner) in &self.owners {
            // The first through each open, the rest through any.
            let through = owner.through.iter().copied();
            let ranges = owner.ranges.iter().cycle().take(owner.ranges.len().max(owner.through.len()));
            let fhs = through.chain(std::iter::repeat(owner.through.first().copied().unwrap_or_default()));
            all.extend(ranges.zip(fhs).map(|((range, kind), fh)| Entry::Locked {
                object: owner.object,
                by: Locker { owner: *number, fh, pid: owner.pid },
                range: *range,
                kind: *kind,
            }));
        }
        all.extend(self.due.iter().map(|(object, gives)| Entry::Due { object: *object, gives: *gives }));
        all.extend(self.appends.iter().map(|(unique, offset)| Entry::Appends { unique: *unique, offset: *offset }));
        all.extend(self.left.iter().map(|message| Entry::Left { message }));
        all
    }
}
