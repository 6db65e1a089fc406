//! Datasets as the pool keeps them: a name, local properties, and a root that changes with every transaction group.

mod changes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::RwLock;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, Dseq, Generation, LaneId, ObjectId, Time, Txg};

use crate::block::BlockError;
use crate::pool::{PoolRoot, TIME_ROOM_END};
use crate::properties::{Effective, PropertySet, SHARENFS_BYTES_MAX};
use crate::run::RunWriter;
use crate::tree::{Tree, VALUE_BYTES_MAX};

pub(crate) use changes::Changes;

/// Longest full name of a dataset, bytes.
pub const DATASET_NAME_MAX: usize = 255;

// An entry is one value of the catalog; all properties but the longest are a few bytes.
const _: () = assert!(DATASET_NAME_MAX + SHARENFS_BYTES_MAX + (1 << 10) < VALUE_BYTES_MAX);

/// What one transaction group leaves of a dataset.
#[derive(Clone, Debug)]
pub struct DatasetRoot {
    /// Everything in it.
    pub tree: Tree,
    /// Log records up to this one are in the tree, whatever their group. Moves during replay only. Up to which group they are
    /// the pool's root says, for all datasets (rules F1).
    pub replay_dseq: Dseq,
    /// Whether operations are logged (`sync` is not `disabled`), and from which group on (rules F13).
    pub logged: bool,
    /// See `logged`.
    pub log_from: Txg,
    /// Object ids from here on were never used.
    pub next_object: ObjectId,
    /// The pool's life in which this was written ([`crate::pool::Life`]).
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
}

/// Up to which group a dataset's records are in its tree, if that is not what the pool's root says of all: the place is kept
/// for datasets whose records are set aside one by one. 0 is none of them.
const FROZEN_TXG: u64 = 0;

/// What an object costs beside what it uses, for quota and `used`.
pub const OBJECT_CHARGE: u64 = 512;

/// Numbers that are drawn one by one stay below this; from here on later sums would overflow.
pub(crate) const DRAWN_END: u64 = 1 << 62;
/// No account of bytes or objects is larger. Accounts only inform, so one that claims more does not keep the pool from
/// being imported.
pub const ACCOUNT_MAX: u64 = 1 << 62;

impl DatasetRoot {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put(&self.tree.encode());
        out.put_u64(FROZEN_TXG);
        out.put_u64(self.replay_dseq.0);
        out.put_u8(u8::from(self.logged));
        out.put_u64(self.log_from.0);
        out.put_u64(self.next_object.0);
        out.put_u64(self.life);
        out.put_u64(self.verifier);
        out.put_u64(self.change_floor.0);
        out.put_u64(self.used_bytes);
        out.put_u64(self.object_count);
        out.put_u64(self.orphan_count);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let tree = Tree::decode(&reader.array()?)?;
        let frozen_txg = reader.u64()?;
        // Every object and every orphan has a key of its own.
        let counted_max = tree.entry_count().min(ACCOUNT_MAX);
        let root = Self {
            tree,
            replay_dseq: Dseq(reader.u64()?),
            logged: reader.u8()? != 0,
            log_from: Txg(reader.u64()?),
            next_object: ObjectId(reader.u64()?),
            life: reader.u64()?,
            verifier: reader.u64()?,
            change_floor: Time(reader.u64()?),
            used_bytes: reader.u64()?.min(ACCOUNT_MAX),
            object_count: reader.u64()?.min(counted_max),
            orphan_count: reader.u64()?.min(counted_max),
        };
        let drawn = [root.replay_dseq.0, root.log_from.0, root.next_object.0];
        let is_possible = frozen_txg == FROZEN_TXG
            && drawn.into_iter().all(|number| number < DRAWN_END)
            && root.change_floor < TIME_ROOM_END;
        if is_possible { Ok(root) } else { Err(Malformed("dataset root")) }
    }
}

/// The part of a dataset that only commands change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetLine {
    /// Full name: pool, and one component per level.
    pub name: String,
    /// Local properties.
    pub local: PropertySet,
}

/// What never changes in a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetBirth {
    /// Never reused in its pool.
    pub id: DatasetId,
    /// When it was made.
    pub created: Time,
    /// The lane that takes its records.
    pub lane: LaneId,
    /// Keys the hash of its directory entries' names.
    pub name_key: u64,
    /// Its root directory.
    pub root_object: ObjectId,
    /// The root directory's generation.
    pub root_generation: Generation,
}

/// A dataset of an imported pool.
pub struct Dataset {
    /// What never changes.
    pub birth: DatasetBirth,
    line: RwLock<DatasetLine>,
    effective: ArcSwap<Effective>,
    root: ArcSwap<DatasetRoot>,
    client: OnceLock<Weak<dyn DatasetClient>>,
    /// Its pool's, once it is in one.
    changes: OnceLock<Arc<Changes>>,
    /// The newest group in which it is noted as changed.
    changed_in: AtomicU64,
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
    fn fold(&self, txg: Txg, root: &DatasetRoot, out: &mut RunWriter) -> Result<DatasetRoot, BlockError>;

    /// The uberblock of `txg` is durable and its root published: the layers of `txg` can go.
    fn synced(&self, txg: Txg);
}

impl Dataset {
    /// A dataset with its last synced root.
    #[must_use]
    pub fn new(birth: DatasetBirth, line: DatasetLine, effective: Effective, root: DatasetRoot) -> Self {
        Self {
            birth,
            line: RwLock::new(line),
            effective: ArcSwap::from_pointee(effective),
            root: ArcSwap::from_pointee(root),
            client: OnceLock::new(),
            changes: OnceLock::new(),
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

    /// Name and local properties.
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
        if let Some(changes) = self.changes.get() {
            changes.note(self.birth.id, Txg(0), &self.changed_in);
        }
    }

    /// Notes that `txg` changes it, under a hold on that group: only then is it folded, and told of the group's end.
    pub fn note_change(&self, txg: Txg) {
        // A younger group may have noted it already while this one is being closed.
        if self.changed_in.load(Ordering::Relaxed) != txg.0
            && let Some(changes) = self.changes.get()
        {
            changes.note(self.birth.id, txg, &self.changed_in);
        }
    }

    /// It is in a pool.
    pub(crate) fn join(&self, changes: &Arc<Changes>) {
        assert!(self.changes.set(Arc::clone(changes)).is_ok(), "a dataset is in one pool");
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
        encode_entry(&self.birth, &self.line.read(), root)
    }
}

/// A dataset as it stands in the catalog.
///
/// ```text
///   0    8         16     24         32            40                48     52+n   56+n
///   +----+---------+------+----------+-------------+-----------------+------+------+------------+------+
///   | id | created | lane | name key | root object | root generation | name | size | properties | root |
///   +----+---------+------+----------+-------------+-----------------+------+------+------------+------+
///
///   name: its length u32, bytes          root: tree root (80) | 0 (frozen txg) u64 | replay dseq u64 | logged u8 |
///   properties: postcard                       log from u64 | next object u64 | life u64 | verifier u64 |
///                                              change floor u64 | used bytes u64 | objects u64 | orphans u64
/// ```
#[derive(Clone, Debug)]
pub(crate) struct DatasetEntry {
    pub(crate) birth: DatasetBirth,
    pub(crate) line: DatasetLine,
    pub(crate) root: DatasetRoot,
}

impl DatasetEntry {
    #[cfg(test)]
    pub(crate) fn encode(&self) -> Bytes {
        encode_entry(&self.birth, &self.line, &self.root)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, "dataset");
        let malformed = reader.malformed();
        let birth = DatasetBirth {
            id: DatasetId(reader.u64()?),
            created: Time(reader.u64()?),
            lane: LaneId(reader.u64()?),
            name_key: reader.u64()?,
            root_object: ObjectId(reader.u64()?),
            root_generation: Generation(reader.u64()?),
        };
        let name = String::from_utf8(reader.blob()?.to_vec()).map_err(|_| malformed)?;
        let local = postcard::from_bytes(reader.blob()?).map_err(|_| malformed)?;
        let root = DatasetRoot::decode(&mut reader)?;
        reader.end()?;
        Ok(Self { birth, line: DatasetLine { name, local }, root })
    }

    /// Whether its numbers can have been drawn below this root: a sound checksum does not say so.
    pub(crate) fn is_possible(&self, pool: &PoolRoot) -> bool {
        // A leaf may hold a longer value than may be put into one.
        let can_be_written = self.line.name.len() <= DATASET_NAME_MAX;
        can_be_written
            && self.birth.id.0 < pool.next_dataset
            && self.root.life <= pool.life.number
            && self.birth.root_object < self.root.next_object
    }
}

fn encode_entry(birth: &DatasetBirth, line: &DatasetLine, root: &DatasetRoot) -> Bytes {
    let mut out = Vec::with_capacity(256);
    for field in
        [birth.id.0, birth.created.0, birth.lane.0, birth.name_key, birth.root_object.0, birth.root_generation.0]
    {
        out.put_u64(field);
    }
    out.put_blob(line.name.as_bytes());
    out.put_blob(&postcard::to_stdvec(&line.local).expect("a property set is plain data"));
    root.encode(&mut out);
    out.into()
}
