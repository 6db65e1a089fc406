//! Locked ranges, as pieces that are walked and never joined: what is told of one is a part of what there is.

use super::opens::check_is_file;
use super::state::State;
use crate::locks::{Kind, Lock, NotLocked, Range};
use crate::{Access, ClientNumber, Holder, ObjectRef, Right};

/// A piece that an owner has locked, and the open below which he began to lock in that file.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) object: ObjectRef,
    /// Nothing, where he has none.
    pub(super) below: Option<Holder>,
    lock: Lock,
}

impl State {
    pub(super) fn lock_range(&mut self, object: ObjectRef, below: Holder, wanted: Lock) -> Result<(), NotLocked> {
        check_is_file(&self.attr(object)?)?;
        let needed = if wanted.kind == Kind::Read { Access::READ } else { Access::WRITE };
        self.check_right(object, Right::Open(below), needed, false)?;
        self.lock_below(object, Some(below), wanted)
    }

    pub(super) fn lock_unopened(&mut self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        check_is_file(&self.attr(object)?)?;
        self.lock_below(object, None, wanted)
    }

    fn lock_below(&mut self, object: ObjectRef, below: Option<Holder>, wanted: Lock) -> Result<(), NotLocked> {
        self.conflict(object, wanted)?;
        self.gate(object, Some(wanted.holder.client), wanted.kind == Kind::Write)?;
        let is_his = |held: &&Held| held.object == object && held.lock.holder == wanted.holder;
        let below = self.locked.iter().find(is_his).map_or(below, |first| first.below);
        self.unlock_range(object, wanted.holder, wanted.range);
        self.locked.push(Held { object, below, lock: wanted });
        Ok(())
    }

    pub(super) fn unlock_range(&mut self, object: ObjectRef, holder: Holder, range: Range) {
        let cut = |held: Held| {
            let (first, last) = (held.lock.range.first(), held.lock.range.last());
            if held.object != object || held.lock.holder != holder || !overlap(held.lock.range, range) {
                return vec![held];
            }
            let before = (first < range.first()).then(|| Range::between(first, range.first() - 1).expect("a part"));
            let behind = (last > range.last()).then(|| Range::between(range.last() + 1, last).expect("a part"));
            let left = before.into_iter().chain(behind);
            left.map(|range| Held { lock: Lock { range, ..held.lock }, ..held.clone() }).collect()
        };
        self.locked = std::mem::take(&mut self.locked).into_iter().flat_map(cut).collect();
    }

    pub(super) fn test_range(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        check_is_file(&self.attr(object)?)?;
        self.conflict(object, wanted)?;
        Ok(self.gate(object, Some(wanted.holder.client), wanted.kind == Kind::Write)?)
    }

    pub(super) fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        self.locked.iter().any(|held| held.object == object && held.lock.holder == holder)
    }

    pub(super) fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        let held = self.locked.iter().filter(|held| held.object == object && held.lock.holder == holder);
        held.map(|held| held.lock).take(most).collect()
    }

    /// Whether another client has locked something, or something for writing.
    pub(super) fn is_locked_by_another(&self, object: ObjectRef, client: ClientNumber, to_write: bool) -> bool {
        let of_others = |held: &&Held| held.object == object && held.lock.holder.client != client;
        self.locked.iter().filter(of_others).any(|held| !to_write || held.lock.kind == Kind::Write)
    }

    fn conflict(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        let is_in_the_way = |held: &&Held| {
            let are_both_read = held.lock.kind == Kind::Read && wanted.kind == Kind::Read;
            let is_others = held.object == object && held.lock.holder != wanted.holder;
            is_others && !are_both_read && overlap(held.lock.range, wanted.range)
        };
        self.locked.iter().find(is_in_the_way).map_or(Ok(()), |held| Err(NotLocked::Held(held.lock)))
    }
}

fn overlap(one: Range, other: Range) -> bool {
    one.first() <= other.last() && other.first() <= one.last()
}
