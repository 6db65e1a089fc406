//! Objects that are being changed: their locks, their newest inode and their layers.
//!
//! An object is here from the first operation that locks it for a change until its last layer is durable; the
//! tree alone speaks for all others. There is no cache of clean inodes: the block cache has their leaves (rules P7).
//!
//! Lock order: objects by ascending id; no lock is held over a wait for the log or for a transaction group.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::HashMap;
use parking_lot::{ArcRwLockWriteGuard, Mutex, RawRwLock, RwLock};
use smallvec::SmallVec;
use tally_base::{Dseq, Lsn, ObjectId, Txg, blocking};
use tally_intent::Appended;

use crate::inode::Inode;
use crate::layer::{Layer, Piece, Seen, see_through};

/// Layers of one object: of the open group, the one that is quiescing, and the one that is being synced.
const LAYERS_MAX: usize = 3;

/// What is behind an object's lock.
#[derive(Debug, Default)]
pub(crate) struct ObjectState {
    /// Whether `inode` was read from the tree yet.
    pub(crate) loaded: bool,
    /// The newest inode; `None` if the object does not exist (any more).
    pub(crate) inode: Option<Inode>,
    /// Changes by transaction group, oldest first. All but the last are closed and may be shared with the fold: of those
    /// only what the log has is still noted, in a copy if need be.
    pub(crate) layers: SmallVec<[Arc<Layer>; 3]>,
    /// The newest record in the log that changed this object, in its dataset's lane (rules F9).
    pub(crate) last_lsn: Lsn,
    /// Its place in the dataset's history.
    pub(crate) last_dseq: Dseq,
    /// The newest group with a change, or a COMMIT, that should be in the log and is not, because the lane took no records:
    /// until it is synced nothing that builds on it is logged either, and whoever saw it waits for the group.
    pub(crate) unlogged: Txg,
    /// Bytes that COMMITs have logged part by part since the last one came to its end.
    pub(crate) parts_bytes: u64,
}

impl ObjectState {
    /// The log has taken a record of a change of this object.
    pub(crate) fn note_record(&mut self, appended: Appended) {
        assert!(appended.dseq > self.last_dseq, "the log tells of an object's changes in their order (F3)");
        self.last_dseq = appended.dseq;
        self.last_lsn = self.last_lsn.max(appended.lsn);
    }

    /// The log has taken what is seen of `range`, wherever it lies: content stays in the group in which it was written, whose
    /// fold brings it to the pool, and no other's (rules F17).
    pub(crate) fn note_logged(&mut self, range: Range<u64>) {
        for (layer, part, seen) in see_through(&self.layers, range) {
            if let Seen::Piece(Piece::Memory { bytes, logged: false }) = seen {
                // A fold that is at work has its own view of what it folds.
                let layer = Arc::make_mut(&mut self.layers[layer]);
                layer.data.insert(part.start, Piece::Memory { bytes, logged: true });
            }
        }
    }

    /// The layer of `txg`, made if this is the group's first change.
    pub(crate) fn layer_mut(&mut self, txg: Txg) -> &mut Layer {
        match self.layers.last().map(|layer| layer.txg) {
            Some(newest) if newest == txg => {}
            newest => {
                assert!(newest.is_none_or(|newest| newest < txg), "an object is never changed in an older group (F3)");
                assert!(self.layers.len() < LAYERS_MAX, "a group was synced, and its layers are still there");
                self.layers.push(Arc::new(Layer::new(txg, self.inode.clone())));
            }
        }
        let layer = self.layers.last_mut().expect("it was just made");
        Arc::get_mut(layer).expect("only closed layers are shared")
    }

    /// Whether it is a placed file: some of it was placed ahead, by a group that is not synced yet.
    #[must_use]
    pub(crate) fn is_placed(&self) -> bool {
        self.layers.iter().any(|layer| !layer.data.placed().is_empty())
    }

    /// Whether it was punched by a group that is not synced yet.
    #[must_use]
    pub(crate) fn is_punched(&self) -> bool {
        self.layers.iter().any(|layer| !layer.data.punched().is_empty())
    }

    /// Punches that are not folded yet.
    #[must_use]
    pub(crate) fn punch_count(&self) -> usize {
        self.layers.iter().map(|layer| layer.data.punched().count()).sum()
    }

    /// Bytes in memory that no record carries, as far as group `txg` has them.
    #[must_use]
    pub(crate) fn unlogged_bytes(&self, txg: Txg) -> u64 {
        self.layer(txg).map_or(0, |layer| layer.data.unlogged_bytes())
    }

    /// What an answer rests on that looked at it.
    #[must_use]
    pub(crate) fn rests_on(&self) -> RestsOn {
        RestsOn { last_lsn: self.last_lsn, unlogged: self.unlogged }
    }

    /// The layer of exactly `txg`.
    #[must_use]
    pub(crate) fn layer(&self, txg: Txg) -> Option<&Arc<Layer>> {
        self.layers.iter().find(|layer| layer.txg == txg)
    }
}

/// What an answer rests on that looked at objects: it may be told once that is durable (rules F9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestsOn {
    /// See [`ObjectState::last_lsn`].
    pub(crate) last_lsn: Lsn,
    /// See [`ObjectState::unlogged`].
    pub(crate) unlogged: Txg,
}

impl RestsOn {
    /// On both.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { last_lsn: self.last_lsn.max(other.last_lsn), unlogged: self.unlogged.max(other.unlogged) }
    }
}

/// An object with its lock.
pub(crate) type Object = Arc<RwLock<ObjectState>>;
/// A locked object, free of lifetimes.
pub(crate) type ObjectGuard = ArcRwLockWriteGuard<RawRwLock, ObjectState>;

const SHARDS: usize = 64;

/// Some of a dataset's objects; `None`: there are none.
type Shard = Option<Box<HashMap<ObjectId, Object>>>;

/// All objects of a dataset that are being changed. A pool may have ten thousand datasets, most of which nobody changes: a
/// shard without objects takes two words.
pub(crate) struct ObjectTable {
    shards: [Mutex<Shard>; SHARDS],
    /// Objects that came into the table since the last sweep, and those that it could not let go.
    arrivals: Mutex<Vec<ObjectId>>,
    /// With so many arrivals a sweep begins by itself: operations that were refused bring objects in, and dirty
    /// nothing that would be synced.
    sweep_at: AtomicUsize,
}

/// Fewer arrivals than this wait for the next group.
const SWEEP_ARRIVALS_MIN: usize = 16 << 10;

impl Default for ObjectTable {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            arrivals: Mutex::default(),
            sweep_at: AtomicUsize::new(SWEEP_ARRIVALS_MIN),
        }
    }
}

impl ObjectTable {
    fn shard(&self, id: ObjectId) -> &Mutex<Shard> {
        &self.shards[(id.0 % SHARDS as u64) as usize]
    }

    /// The object, if it is being changed.
    #[must_use]
    pub(crate) fn find(&self, id: ObjectId) -> Option<Object> {
        self.shard(id).lock().as_ref()?.get(&id).cloned()
    }

    /// A look at its state, of which nothing stays locked; at an empty one if it is not being changed.
    pub(crate) fn look<T>(&self, id: ObjectId, look: impl FnOnce(&ObjectState) -> T) -> T {
        match self.find(id) {
            Some(object) => look(&object.read()),
            None => look(&ObjectState::default()),
        }
    }

    /// The object, brought in if need be (and then not loaded).
    #[must_use]
    pub(crate) fn enter(&self, id: ObjectId) -> Object {
        let mut shard = self.shard(id).lock();
        let objects = shard.get_or_insert_default();
        if let Some(object) = objects.get(&id) {
            return Arc::clone(object);
        }
        let object = Object::default();
        objects.insert(id, Arc::clone(&object));
        drop(shard);
        let arrivals = {
            let mut arrivals = self.arrivals.lock();
            arrivals.push(id);
            arrivals.len()
        };
        if arrivals >= self.sweep_at.load(Ordering::Relaxed) {
            self.sweep();
        }
        object
    }

    /// All objects that are being changed.
    pub(crate) fn all(&self) -> Vec<Object> {
        let objects = |shard: &Mutex<Shard>| -> Vec<Object> {
            shard.lock().iter().flat_map(|objects| objects.values().cloned()).collect()
        };
        self.shards.iter().flat_map(objects).collect()
    }

    /// Lets go of arrivals that carry no layer and that nobody uses; the others stay for the next sweep.
    pub(crate) fn sweep(&self) {
        let arrivals = std::mem::take(&mut *self.arrivals.lock());
        let mut staying = Vec::new();
        for id in arrivals {
            let mut shard = self.shard(id).lock();
            let Some(objects) = shard.as_mut() else { continue };
            let Some(object) = objects.get(&id) else { continue };
            // Under the shard's lock nobody else can come by a reference, so a count of one is final.
            let idle = Arc::strong_count(object) == 1 && object.read().layers.is_empty();
            if idle {
                objects.remove(&id);
                if objects.is_empty() {
                    *shard = None;
                }
            } else {
                staying.push(id);
            }
        }
        let mut arrivals = self.arrivals.lock();
        arrivals.extend(staying);
        // Twice what stays: so each arrival is looked at twice on average, however many there are.
        self.sweep_at.store((arrivals.len() * 2).max(SWEEP_ARRIVALS_MIN), Ordering::Relaxed);
    }
}

/// Locks an object for a change. Whoever has it may be reading its leaf from a device.
fn locked(object: &Object) -> ObjectGuard {
    object.try_write_arc().unwrap_or_else(|| blocking(|| object.write_arc()))
}

/// Several objects, locked in id order.
pub(crate) struct Locked {
    guards: SmallVec<[(ObjectId, ObjectGuard); 4]>,
}

impl Locked {
    /// Locks `ids` for a change, in ascending order and each once.
    #[must_use]
    pub(crate) fn lock(table: &ObjectTable, ids: &[ObjectId]) -> Self {
        let mut sorted: SmallVec<[ObjectId; 4]> = SmallVec::from_slice(ids);
        sorted.sort_unstable();
        sorted.dedup();
        Self { guards: sorted.into_iter().map(|id| (id, locked(&table.enter(id)))).collect() }
    }

    /// Adds an object whose id was just drawn: higher than all that are locked, so that no order is broken. Somebody
    /// may hold it for a moment, who asks for a handle that no longer, or never, meant anything.
    pub(crate) fn add_new(&mut self, table: &ObjectTable, id: ObjectId) {
        debug_assert!(self.guards.iter().all(|(locked, _)| *locked < id), "ids are drawn in ascending order");
        self.guards.push((id, locked(&table.enter(id))));
    }

    /// A locked object's state.
    #[must_use]
    pub(crate) fn state(&self, id: ObjectId) -> &ObjectState {
        self.guards.iter().find(|(locked, _)| *locked == id).map(|(_, guard)| &**guard).expect("it was locked")
    }

    /// A locked object's state, to change it.
    pub(crate) fn state_mut(&mut self, id: ObjectId) -> &mut ObjectState {
        self.guards.iter_mut().find(|(locked, _)| *locked == id).map(|(_, guard)| &mut **guard).expect("it was locked")
    }

    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = (ObjectId, &mut ObjectState)> {
        self.guards.iter_mut().map(|(id, guard)| (*id, &mut **guard))
    }

    /// The newest group with a change to any of them that the log should have and has not.
    #[must_use]
    pub(crate) fn unlogged(&self) -> Txg {
        self.guards.iter().map(|(_, guard)| guard.unlogged).max().unwrap_or_default()
    }

    /// What an answer rests on that looked at all of them.
    #[must_use]
    pub(crate) fn rests_on(&self) -> RestsOn {
        self.guards.iter().map(|(_, guard)| guard.rests_on()).fold(RestsOn::default(), RestsOn::and)
    }
}

#[cfg(test)]
mod tests;
