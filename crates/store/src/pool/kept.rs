//! What the catalog says beside the entries of datasets: damage that was met ([`super::damage`]), and how far jobs are
//! ([`super::job`]), and the last commands that changed the pool and events ([`super::chronicle`]).
//!
//! All of it is in memory, as all entries are, byte for byte as it was read: what another program has written in a form that
//! this one does not know stays as it is. Whoever learns something notes it here, and the next group whose catalog is not
//! written yet takes it along (rules S56): nothing is noted in a group that is being written, since that may be folding while a
//! reader finds the next bad block.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::key::{Class, Key};

/// Places of damage that are kept, of all datasets together: half a megabyte of catalog.
pub const DAMAGE_PLACES_MAX: usize = 4096;

/// More values than this program ever writes: a catalog with more of them was written by faulty software.
pub(super) const READ_MAX: usize = 4 * DAMAGE_PLACES_MAX;

/// See the module's head.
#[derive(Default)]
pub(super) struct Kept(Mutex<State>);

#[derive(Default)]
struct State {
    known: BTreeMap<Key, Bytes>,
    /// What the next group takes along.
    changed: BTreeSet<Key>,
}

impl Kept {
    /// As an import finds it.
    pub(super) fn new(known: BTreeMap<Key, Bytes>) -> Self {
        Self(Mutex::new(State { known, changed: BTreeSet::new() }))
    }

    /// Notes a value, or that there is none any more. Whether that changes anything.
    pub(super) fn note(&self, key: Key, value: Option<Bytes>) -> bool {
        let mut state = self.0.lock();
        if state.known.get(&key) == value.as_ref() {
            return false;
        }
        match value {
            Some(value) => _ = state.known.insert(key, value),
            None => _ = state.known.remove(&key),
        }
        state.changed.insert(key);
        true
    }

    /// Notes a value of a class under the number behind its last one. Of more than `max` the oldest are gone.
    pub(super) fn append(&self, class: Class, value: Bytes, max: usize) {
        let mut state = self.0.lock();
        let keys: Vec<_> = state.known.range(range_of(class)).map(|(key, _)| *key).collect();
        let new = Key::new(class, keys.last().map_or(1, |last| last.object + 1), 0, 0);
        for oldest in &keys[..(keys.len() + 1).saturating_sub(max)] {
            state.known.remove(oldest);
            state.changed.insert(*oldest);
        }
        state.known.insert(new, value);
        state.changed.insert(new);
    }

    pub(super) fn value(&self, key: &Key) -> Option<Bytes> {
        self.0.lock().known.get(key).cloned()
    }

    /// All values of a class and an object.
    pub(super) fn values_of(&self, class: Class, object: u64) -> Vec<(Key, Bytes)> {
        let range = Key::new(class, object, 0, 0)..=Key::new(class, object, u64::MAX, u64::MAX);
        self.0.lock().known.range(range).map(|(key, value)| (*key, value.clone())).collect()
    }

    /// All values of a class.
    pub(super) fn all_of(&self, class: Class) -> Vec<(Key, Bytes)> {
        self.0.lock().known.range(range_of(class)).map(|(key, value)| (*key, value.clone())).collect()
    }

    /// How many values of a class there are.
    pub(super) fn count_of(&self, class: Class) -> usize {
        self.0.lock().known.range(range_of(class)).count()
    }

    /// What a group takes along: values, and keys that are gone.
    pub(super) fn take(&self) -> (BTreeMap<Key, Bytes>, Vec<Key>) {
        let mut state = self.0.lock();
        let changed = std::mem::take(&mut state.changed);
        let (there, gone): (Vec<_>, Vec<_>) = changed.into_iter().partition(|key| state.known.contains_key(key));
        let value = |key: Key| state.known.get(&key).map(|value| (key, value.clone()));
        (there.into_iter().filter_map(value).collect(), gone)
    }

    /// Everything. What was noted since [`Self::take`] is among it, and comes again with the next group.
    pub(super) fn all(&self) -> BTreeMap<Key, Bytes> {
        self.0.lock().known.clone()
    }

    /// The keys that no group has taken along yet.
    pub(super) fn pending(&self) -> BTreeSet<Key> {
        self.0.lock().changed.clone()
    }
}

const fn range_of(class: Class) -> RangeInclusive<Key> {
    Key::new(class, 0, 0, 0)..=Key::new(class, u64::MAX, u64::MAX, u64::MAX)
}
