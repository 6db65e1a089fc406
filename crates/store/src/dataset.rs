//! Datasets as the pool keeps them: a name below another one, local properties, and a root that changes with every transaction group.

mod belongings;
mod changes;
mod entry;
mod io;
mod schema;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::RwLock;
use tally_base::{DatasetId, Dseq, Generation, LaneId, ObjectId, Time, Txg};

use crate::block::BlockError;
use crate::properties::{Effective, PropertySet};
use crate::tree::Tree;

pub use belongings::Belongings;
pub(crate) use changes::Changes;
pub(crate) use entry::{DatasetEntry, EntryError};
pub use io::{DatasetIo, DatasetWriter, Placed, Placer};
pub use schema::Schema;

/// Longest full name of a dataset, bytes.
pub const DATASET_NAME_MAX: usize = 255;

/// What one transaction group leaves of a dataset.
#[derive(Clone, Debug)]
pub struct DatasetRoot {
    /// Inodes, entries and extents of everything in it.
    pub tree: Tree,
    /// Log records up to this one are in the tree, whatever their group. Moves during replay only. Up to which group they are
    /// the pool's root says, for all datasets (rules F1).
    pub replay_dseq: Dseq,
    /// Whether operations are logged (`sync` is not `disabled`), and from which group on (rules F13).
    pub logged: bool,
    /// The first group from which on `logged` holds.
    pub log_from: Txg,
    /// Object ids from here on were never used.
    pub next_object: ObjectId,
    /// The pool's life in which this was written (rules F15, F16).
    pub life: u64,
    /// Its part of the write verifier, for ever: the other one is the life's (rules F16).
    pub verifier: u64,
    /// No file of it shows an older change.
    pub change_floor: Time,
    /// Bytes charged to the dataset: what each object uses (content, a directory's entries, a link's target), and
    /// [`OBJECT_CHARGE`] per object.
    pub used_bytes: u64,
    /// Objects in the tree.
    pub object_count: u64,
    /// Removed objects whose extents are still being freed.
    pub orphan_count: u64,
    /// Bytes that files of it may still take of what was reserved for them, with what goes around these (rules V42).
    pub reserved_bytes: u64,
}

/// What an object costs beside what it uses, for quota and `used`.
pub const OBJECT_CHARGE: u64 = 512;

/// Numbers that are drawn one by one stay below this; from here on later sums would overflow.
pub(crate) const DRAWN_END: u64 = 1 << 62;
/// No account of bytes or objects is larger. Accounts only inform, so one that claims more does not keep the pool from
/// being imported.
pub const ACCOUNT_MAX: u64 = 1 << 62;

/// The part of a dataset that only commands change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetLine {
    /// Below which dataset it stands; 0 is none, of the pool's own.
    pub parent: DatasetId,
    /// The last component of its name.
    pub name: String,
    /// Those that were set on it; all others come from above.
    pub local: PropertySet,
    /// Sections of its entry that this program does not know, as they were read.
    pub carried: Bytes,
}

/// What never changes in a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetBirth {
    /// Never reused in its pool.
    pub id: DatasetId,
    /// Drawn for it, and the same wherever its content is sent.
    pub guid: u64,
    /// When it was made.
    pub created: Time,
    /// The group that had it first.
    pub created_txg: Txg,
    /// The lane that takes its records.
    pub lane: LaneId,
    /// Keys the hash of its directory entries' names.
    pub name_key: u64,
    /// Id of its root directory.
    pub root_object: ObjectId,
    /// The root directory's generation.
    pub root_generation: Generation,
}

/// A dataset of an imported pool.
pub struct Dataset {
    /// What was drawn when it was made, and never changes.
    pub birth: DatasetBirth,
    line: RwLock<DatasetLine>,
    /// Its own and those above it: not stored, but worked out from all of them.
    full_name: RwLock<Arc<str>>,
    effective: ArcSwap<Effective>,
    root: ArcSwap<DatasetRoot>,
    client: OnceLock<Weak<dyn DatasetClient>>,
    /// What it has of its pool, once it is in one.
    joined: OnceLock<Joined>,
    /// The newest group in which it is noted as changed.
    changed_in: AtomicU64,
}

/// What a dataset has of its pool.
struct Joined {
    changes: Arc<Changes>,
    io: DatasetIo,
}

/// Who fills a dataset: asked once per transaction group for what it changed.
pub trait DatasetClient: Send + Sync {
    /// Whether `txg`, for which a change was noted, leaves anything to fold, or to be told of its end. Nothing changes in it
    /// any more.
    fn has_changed(&self, txg: Txg, root: &DatasetRoot) -> bool {
        let _ = (txg, root);
        true
    }

    /// Whether the group behind the one that made `root` is to fold it again, whatever is noted.
    fn is_due_again(&self, root: &DatasetRoot) -> bool {
        let _ = root;
        true
    }

    /// Whether it has changes of `txg`, which were noted then: to be asserted.
    fn holds_changes_of(&self, txg: Txg) -> bool {
        let _ = txg;
        false
    }

    /// Writes the changes of `txg` as blocks, and gives the root above them. Nothing changes in `txg` any more.
    fn fold(&self, txg: Txg, root: &DatasetRoot, out: DatasetWriter<'_>) -> Result<DatasetRoot, BlockError>;

    /// The uberblock of `txg` is durable and its root published: the layers of `txg` can go.
    fn synced(&self, txg: Txg);
}

impl Dataset {
    /// A dataset with its full name and its last synced root.
    #[must_use]
    pub fn new(birth: DatasetBirth, line: DatasetLine, name: &str, effective: Effective, root: DatasetRoot) -> Self {
        Self {
            birth,
            line: RwLock::new(line),
            full_name: RwLock::new(name.into()),
            effective: ArcSwap::from_pointee(effective),
            root: ArcSwap::from_pointee(root),
            client: OnceLock::new(),
            joined: OnceLock::new(),
            changed_in: AtomicU64::new(0),
        }
    }

    /// The newest durable root. While somebody keeps it, none of its blocks is reused.
    #[must_use]
    pub fn root(&self) -> Arc<DatasetRoot> {
        self.root.load_full()
    }

    pub(crate) fn publish(&self, root: DatasetRoot) -> Arc<DatasetRoot> {
        self.root.swap(Arc::new(root))
    }

    /// Its full name: pool, and one component per level.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.full_name.read())
    }

    /// It, or one above it, was renamed.
    pub fn take_name(&self, name: &str) {
        *self.full_name.write() = name.into();
    }

    /// Its part of its name, and local properties.
    #[must_use]
    pub fn line(&self) -> DatasetLine {
        self.line.read().clone()
    }

    /// Changes name or local properties; they are durable after the next sync.
    pub fn change_line(&self, change: impl FnOnce(&mut DatasetLine)) {
        change(&mut self.line.write());
        self.note_look();
    }

    /// Notes that the next group is to look whether it has changed.
    pub fn note_look(&self) {
        if let Some(Joined { changes, .. }) = self.joined.get() {
            changes.note(self.birth.id, Txg(0), &self.changed_in);
        }
    }

    /// Notes that `txg` changes it, under a hold on that group: only then is it folded, and told of the group's end.
    pub fn note_change(&self, txg: Txg) {
        // A younger group may have noted it already while this one is being closed.
        if self.changed_in.load(Ordering::Relaxed) != txg.0
            && let Some(Joined { changes, .. }) = self.joined.get()
        {
            changes.note(self.birth.id, txg, &self.changed_in);
        }
    }

    /// It is in a pool.
    pub(crate) fn join(&self, changes: &Arc<Changes>, io: DatasetIo) {
        let joined = Joined { changes: Arc::clone(changes), io };
        assert!(self.joined.set(joined).is_ok(), "a dataset is in one pool");
    }

    /// The door to its blocks.
    #[must_use]
    #[inline]
    pub fn io(&self) -> &DatasetIo {
        &self.joined.get().expect("only a dataset of a pool is read or written").io
    }

    /// The properties in force.
    #[must_use]
    pub fn effective(&self) -> Arc<Effective> {
        self.effective.load_full()
    }

    /// Puts other properties in force.
    pub fn take_effect(&self, effective: Effective) {
        self.effective.store(Arc::new(effective));
    }

    /// Says who fills the dataset; once.
    pub fn attach(&self, client: Weak<dyn DatasetClient>) {
        assert!(self.client.set(client).is_ok(), "a dataset is filled by one file system");
    }

    pub(crate) fn client(&self) -> Option<Arc<dyn DatasetClient>> {
        self.client.get().and_then(Weak::upgrade)
    }
}

impl Dataset {
    /// Its entry in the catalog, with this root.
    pub(crate) fn entry(&self, root: &DatasetRoot) -> Bytes {
        entry::encode(&self.birth, &self.line.read(), root)
    }
}
