//! From a handle to an object of a dataset, under the rule of whoever asks: what every version of the protocol does first.

use std::cell::Cell;
use std::sync::Arc;

use tally_base::{DatasetId, PoolGuid, Time};
use tally_vfs::{Attr, Change, Cred, Delegation, FileKind, ObjectRef, Vfs};

use crate::cred::{TooWeak, caller, known_user};
use crate::exports::{Exports, Place, PoolExports, Resolved, Rule};
use crate::handle::{Handle, HandleBytes};
use crate::link::Link;
use crate::numbers::{ACCESS_CHANGES, access_bits};
use crate::rpc::Identity;

/// Who asks, where from, and what it turned out to be about.
pub(crate) struct Entry<'a> {
    exports: &'a dyn Exports,
    link: &'a Link,
    identity: &'a Identity,
    /// The user as whom a request is carried out, if not as whom it names.
    user: Cell<Option<u32>>,
    dataset: Cell<Option<(PoolGuid, DatasetId)>>,
    too_weak: Cell<Option<(PoolGuid, DatasetId)>>,
}

/// An object of a dataset that the client may see.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) object: ObjectRef,
    pub(crate) cred: Cred,
    pub(crate) rule: Rule,
    pub(crate) fsid: u64,
    pub(crate) pool: Arc<dyn PoolExports>,
}

/// Why there is no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Not a handle of ours.
    BadHandle,
    /// Its pool or dataset is gone.
    Stale,
    /// Its pool cannot answer for now.
    Away,
    /// No rule lets the client in.
    Out,
    /// One does, from elsewhere.
    TooWeak,
}

impl Target {
    /// Whether a client has it for writing, and may know better what it is like: of an asker that is none.
    pub(crate) fn is_written(&self) -> bool {
        self.has_written(self.object)
    }

    /// The same of another object of its dataset.
    pub(crate) fn has_written(&self, object: ObjectRef) -> bool {
        self.vfs.delegated(object).iter().any(|(_, kind)| *kind == Delegation::Write)
    }
}

impl<'a> Entry<'a> {
    /// For one request.
    pub(crate) fn new(exports: &'a dyn Exports, link: &'a Link, identity: &'a Identity) -> Self {
        let (user, dataset, too_weak) = Default::default();
        Self { exports, link, identity, user, dataset, too_weak }
    }

    /// When what is exported was last another.
    pub(crate) fn changed(&self) -> Time {
        self.exports.changed()
    }

    /// As whom it is carried out, if not as whom it names.
    pub(crate) fn user(&self) -> Option<u32> {
        self.user.get()
    }

    /// The dataset of its first handle, if the client may see it.
    pub(crate) fn dataset(&self) -> Option<(PoolGuid, DatasetId)> {
        self.dataset.get()
    }

    /// The dataset whose rule asks for more than the connection can show.
    pub(crate) fn too_weak(&self) -> Option<(PoolGuid, DatasetId)> {
        self.too_weak.get()
    }

    /// Notes where it was closed to a connection that is too weak.
    pub(crate) fn told(&self, closed: Closed, dataset: (PoolGuid, DatasetId)) -> Closed {
        if closed == Closed::TooWeak {
            self.too_weak.set(Some(dataset));
        }
        closed
    }

    /// The object of a handle, if the handle is ours and the client may see the dataset.
    pub(crate) fn target(&self, handle: &[u8]) -> Result<Target, Closed> {
        let unchecked = Handle::parse(handle).ok_or(Closed::BadHandle)?;
        let pool = self.exports.pool(unchecked.pool()).ok_or(Closed::Stale)?;
        let Handle { dataset, object, .. } = unchecked.verify(pool.handle_key()).ok_or(Closed::BadHandle)?;
        match pool.place(dataset) {
            Place::Here(vfs) => self.enter_first(vfs, object, pool),
            Place::Unknown => Err(Closed::Stale),
            Place::Away | Place::Going => Err(Closed::Away),
        }
    }

    /// The object of a handle that is ours and whose dataset is there, whether or not the client may see that: it may give up what it has of it (rules V36).
    pub(crate) fn unseen(&self, handle: &[u8]) -> Option<(Arc<dyn Vfs>, ObjectRef)> {
        let unchecked = Handle::parse(handle)?;
        let pool = self.exports.pool(unchecked.pool())?;
        let Handle { dataset, object, .. } = unchecked.verify(pool.handle_key())?;
        match pool.place(dataset) {
            Place::Here(vfs) => Some((vfs, object)),
            Place::Unknown | Place::Away | Place::Going => None,
        }
    }

    /// The root of a dataset that was found by its path.
    pub(crate) fn root(&self, resolved: Resolved) -> Result<Target, Closed> {
        let Resolved { pool, vfs, .. } = resolved;
        let root = vfs.root();
        self.enter_first(vfs, root, pool)
    }

    /// The root of the dataset that is mounted on `name` in the directory `target`, if there is one. To find the name may have taken long: what
    /// the pool exports is asked anew.
    pub(crate) fn child(&self, target: &Target, name: &[u8]) -> Option<Result<Target, Closed>> {
        if !target.is_root() {
            return None;
        }
        let Some(pool) = self.exports.pool(target.vfs.pool()) else { return Some(Err(Closed::Stale)) };
        let child = match pool.place(target.vfs.dataset()) {
            Place::Here(_) => pool.child(target.vfs.dataset(), target.object, name)?,
            Place::Away | Place::Going => return Some(Err(Closed::Away)),
            Place::Unknown => return Some(Err(Closed::Stale)),
        };
        // Nobody is shown what is covered. What comes is there in a moment; to destroy may take minutes, for which a client that waits would
        // keep its own users out of the whole directory.
        Some(match pool.place(child) {
            Place::Unknown => Err(Closed::Away),
            Place::Going => Err(Closed::Out),
            Place::Here(_) | Place::Away => self.dataset_root(&pool, child),
        })
    }

    /// The root of a dataset of a pool.
    pub(crate) fn dataset_root(&self, pool: &Arc<dyn PoolExports>, dataset: DatasetId) -> Result<Target, Closed> {
        match pool.place(dataset) {
            Place::Here(vfs) => {
                let root = vfs.root();
                self.enter(vfs, root, Arc::clone(pool))
            }
            Place::Unknown => Err(Closed::Stale),
            Place::Away | Place::Going => Err(Closed::Away),
        }
    }

    /// What the whole request is about: where its connection is too weak, the request is.
    fn enter_first(&self, vfs: Arc<dyn Vfs>, object: ObjectRef, pool: Arc<dyn PoolExports>) -> Result<Target, Closed> {
        let whole = (vfs.pool(), vfs.dataset());
        self.enter(vfs, object, pool).map_err(|closed| self.told(closed, whole))
    }

    fn enter(&self, vfs: Arc<dyn Vfs>, object: ObjectRef, pool: Arc<dyn PoolExports>) -> Result<Target, Closed> {
        let (guid, dataset) = (vfs.pool(), vfs.dataset());
        let rule = pool.rule(dataset, self.link.peer().ip()).ok_or(Closed::Out)?;
        let known = known_user(self.link, &rule).map_err(|TooWeak| Closed::TooWeak)?;
        self.dataset.set(self.dataset.get().or(Some((guid, dataset))));
        self.user.set(known.map(|user| user.uid));
        let cred = caller(self.identity, known, &rule);
        Ok(Target { fsid: fsid(guid, dataset), vfs, object, cred, rule, pool })
    }
}

impl Target {
    /// The dataset that is mounted on `name`, if one is, or comes or goes. They stand in root directories only, so most requests ask nobody.
    pub(crate) fn child(&self, name: &[u8]) -> Option<Place> {
        let child = if self.is_root() { self.pool.child(self.vfs.dataset(), self.object, name)? } else { return None };
        Some(self.pool.place(child))
    }

    /// Whether it is its dataset's root directory.
    pub(crate) fn is_root(&self) -> bool {
        self.object == self.vfs.root()
    }

    /// What the caller may do with an object, as bits of ACCESS.
    pub(crate) fn access(&self, attr: &Attr) -> u32 {
        let granted = access_bits(attr, &self.cred);
        if self.rule.read_only || self.vfs.is_read_only() { granted & !ACCESS_CHANGES } else { granted }
    }

    /// A handle of another object of the same dataset.
    pub(crate) fn seal(&self, object: ObjectRef) -> HandleBytes {
        Handle { pool: self.vfs.pool(), dataset: self.vfs.dataset(), object }.seal(self.pool.handle_key())
    }

    /// The change that a repetition is told of: attributes of now, and nothing from before (rules F12).
    pub(crate) fn unchanged(&self, object: ObjectRef) -> Change {
        Change { before: None, after: self.vfs.getattr(object).ok() }
    }

    /// Whether both are of one dataset.
    pub(crate) fn shares_dataset(&self, other: &Self) -> bool {
        self.vfs.pool() == other.vfs.pool() && self.vfs.dataset() == other.vfs.dataset()
    }
}

/// Whether a child dataset may be mounted on an entry of this kind.
pub(crate) fn may_be_child(kind: FileKind) -> bool {
    kind == FileKind::Directory
}

/// The file system id that clients see: the same for ever, another one for each dataset. Pool guids are
/// random, so mixing is enough to keep datasets of several pools apart.
pub(crate) fn fsid(pool: PoolGuid, dataset: DatasetId) -> u64 {
    let mixed = pool.0 ^ dataset.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}
