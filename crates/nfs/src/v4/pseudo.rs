//! What stands above the exports (RFC 7530 §7.3): from the root of all down to each export that a client may see, and nothing else.
//!
//! The ancestors of a dataset are datasets, so what a client meets on its way is the root of all, and *ways*: datasets that it may not
//! see, but one below which it may. A way has no content of its own, takes no change, and its names are those of the datasets
//! below it that lead on.
//!
//! ```text
//!  /                 root      tank leads on
//!  └ tank            way       sharenfs=off, and tank/home has a rule
//!    ├ home          object    its root directory; what the covered directory in tank has nobody sees
//!    └ secret        NOENT     nothing below it has a rule for this client
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tally_base::{DatasetId, Generation, ObjectId};
use tally_vfs::{Attr, FileKind, ObjectRef, Vfs};

use super::naming::Teller;
use super::status::Status;
use crate::entry::{Closed, Entry, Target, fsid};
use crate::exports::{Exports, Place, PoolExports};
use crate::handle::{Above, HANDLE_BYTES};

/// A handle as it is sent.
pub(super) type Handle = SmallVec<[u8; HANDLE_BYTES]>;

/// What a handle names.
#[derive(Clone)]
pub(super) enum Node {
    /// Something of an export.
    Object(Target),
    /// A dataset that the client may only pass.
    Way(Arc<dyn PoolExports>, DatasetId),
    /// The root of all.
    Root,
}

/// What a handle names that names nothing for this client.
#[derive(Clone)]
pub(super) struct Shut {
    /// What is said to who asks for it.
    pub(super) told: Status,
    /// An object whose dataset no rule lets the client into, with its handle: what the client has of it, it may give up (rules V36).
    pub(super) unseen: Option<(Handle, Arc<dyn Vfs>, ObjectRef)>,
}

impl From<Status> for Shut {
    fn from(told: Status) -> Self {
        Self { told, unseen: None }
    }
}

impl From<Shut> for Status {
    fn from(shut: Shut) -> Self {
        shut.told
    }
}

/// Asks as one client.
pub(super) struct Tree<'a> {
    pub(super) exports: &'a dyn Exports,
    pub(super) entry: &'a Entry<'a>,
    pub(super) client: IpAddr,
    /// Which attributes there are for it.
    pub(super) minor: u32,
    /// How long it may say nothing.
    pub(super) lease: Duration,
    /// Who tells it owners.
    pub(super) names: Teller<'a>,
}

/// The file id of the root; those of ways are random.
const ROOT_ID: u64 = 2;
/// `r-xr-xr-x`.
const MODE: u32 = 0o555;

impl Node {
    /// Its handle.
    pub(super) fn handle(&self) -> Handle {
        match self {
            Self::Object(target) => Handle::from_slice(&target.seal(target.object)),
            Self::Way(pool, dataset) => Handle::from_slice(&Above::Dataset(pool.guid(), *dataset).encode()),
            Self::Root => Handle::from_slice(&Above::Root.encode()),
        }
    }

    /// The export that it is something of.
    pub(super) fn target(&self) -> Option<&Target> {
        match self {
            Self::Object(target) => Some(target),
            Self::Way(..) | Self::Root => None,
        }
    }
}

/// The id of a dataset where it stands as a name above the exports. What a handle of 1 or 2 would be is taken.
pub(super) fn way_id(pool: &dyn PoolExports, dataset: DatasetId) -> u64 {
    fsid(pool.guid(), dataset) | 1 << 63
}

impl Tree<'_> {
    /// What a handle of a client's own names. One whose dataset it may not see any more is none that it may use: each operation that does so says that.
    pub(super) fn of_handle(&self, handle: &[u8]) -> Result<Node, Shut> {
        self.node(handle).map_err(|told| match told {
            Status::Access => {
                let unseen = self.entry.unseen(handle);
                Shut { told, unseen: unseen.map(|(vfs, object)| (Handle::from_slice(handle), vfs, object)) }
            }
            _ => told.into(),
        })
    }

    /// What a handle names, for this client.
    pub(super) fn node(&self, handle: &[u8]) -> Result<Node, Status> {
        match Above::parse(handle) {
            None => Ok(Node::Object(self.entry.target(handle)?)),
            Some(Above::Root) => Ok(Node::Root),
            Some(Above::Dataset(pool, dataset)) => {
                let pool = self.exports.pool(pool).ok_or(Status::Stale)?;
                match pool.place(dataset) {
                    // Who has a rule by now has to look up what it opens.
                    Place::Here(_) if pool.rule(dataset, self.client).is_none() && pool.leads(dataset, self.client) => {
                        Ok(Node::Way(pool, dataset))
                    }
                    Place::Here(_) | Place::Unknown => Err(Status::Stale),
                    Place::Away | Place::Going => Err(Status::Delay),
                }
            }
        }
    }

    /// Attributes. What stands above the exports changes by what leads where.
    pub(super) fn attr(&self, node: &Node) -> Result<Attr, Status> {
        let id = match node {
            Node::Object(target) => return Ok(target.vfs.getattr(target.object)?),
            Node::Way(pool, dataset) => way_id(&**pool, *dataset),
            Node::Root => ROOT_ID,
        };
        let changed = self.exports.changed();
        Ok(Attr {
            object: ObjectRef { id: ObjectId(id), generation: Generation(0) },
            kind: FileKind::Directory,
            mode: MODE,
            nlink: 2,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev: (0, 0),
            atime: changed.into(),
            mtime: changed.into(),
            ctime: changed,
            change: changed,
        })
    }

    /// What a dataset is to this client; nothing, if neither it nor one below it has a rule for the client.
    pub(super) fn dataset(&self, pool: Arc<dyn PoolExports>, dataset: DatasetId) -> Result<Node, Closed> {
        match self.entry.dataset_root(&pool, dataset) {
            Ok(target) => Ok(Node::Object(target)),
            Err(Closed::Out) if pool.leads(dataset, self.client) => Ok(Node::Way(pool, dataset)),
            Err(closed) => Err(closed),
        }
    }

    /// What a name in a node above the exports stands for.
    pub(super) fn below(&self, node: &Node, name: &[u8]) -> Result<Node, Status> {
        let found = match node {
            Node::Object(_) => None,
            Node::Way(pool, dataset) => {
                let name = std::str::from_utf8(name).ok();
                name.and_then(|name| pool.child_named(*dataset, name)).map(|child| (Arc::clone(pool), child))
            }
            Node::Root => {
                let pool = self.exports.pools().into_iter().find(|pool| pool.pool_name().as_bytes() == name);
                let pool = pool.ok_or(Status::NoEnt)?;
                let root = pool.root().ok_or(Status::Delay)?;
                Some((pool, root))
            }
        };
        let (pool, dataset) = found.ok_or(Status::NoEnt)?;
        self.dataset(Arc::clone(&pool), dataset).map_err(|closed| match closed {
            // That there is something it need not know.
            Closed::Out => Status::NoEnt,
            other => self.entry.told(other, (pool.guid(), dataset)).into(),
        })
    }

    /// What a node above the exports leads to, by name, in the order of their ids, from behind one.
    pub(super) fn list(&self, node: &Node, behind: u64) -> impl Iterator<Item = (u64, String, Node)> {
        type Below = (String, Arc<dyn PoolExports>, DatasetId);
        let below: Vec<Below> = match node {
            Node::Object(_) => Vec::new(),
            Node::Way(pool, dataset) => {
                let children = pool.children(*dataset).into_iter();
                children.map(|(name, child)| (name, Arc::clone(pool), child)).collect()
            }
            // Of a pool that is away nobody knows whom it lets in.
            Node::Root => {
                let roots = self.exports.pools().into_iter().filter_map(|pool| {
                    let root = pool.root()?;
                    Some((pool.pool_name().to_owned(), pool, root))
                });
                roots.collect()
            }
        };
        let with_ids = below.into_iter().map(|(name, pool, dataset)| (way_id(&*pool, dataset), name, pool, dataset));
        let mut below: Vec<_> = with_ids.filter(|(id, ..)| *id > behind).collect();
        below.sort_by_key(|(id, ..)| *id);
        // Each is asked for when its turn comes: a page may be full before.
        below.into_iter().filter_map(|(id, name, pool, dataset)| Some((id, name, self.dataset(pool, dataset).ok()?)))
    }

    /// What a dataset is to this client that is mounted on a name and that it may not see.
    pub(super) fn way_to_child(&self, dir: &Target, name: &[u8]) -> Option<Node> {
        let child = dir.pool.child(dir.vfs.dataset(), dir.object, name)?;
        dir.pool.leads(child, self.client).then(|| Node::Way(Arc::clone(&dir.pool), child))
    }

    /// The id of the directory on which the dataset of this root is mounted, if the client sees that one's dataset.
    pub(super) fn mounted_on(&self, root: &Target) -> Option<u64> {
        let name = root.pool.name(root.vfs.dataset())?;
        let parent = self.entry.dataset_root(&root.pool, root.pool.parent(root.vfs.dataset())?).ok()?;
        let component = name.rsplit('/').next()?;
        let (found, _) = parent.vfs.look(&parent.cred, parent.object, component.as_bytes());
        Some(found.ok()?.object.id.0)
    }

    /// What stands above the root directory of a dataset.
    pub(super) fn above(&self, pool: &Arc<dyn PoolExports>, dataset: DatasetId) -> Result<Node, Status> {
        match pool.parent(dataset) {
            Some(parent) => Ok(self.dataset(Arc::clone(pool), parent)?),
            None => Ok(Node::Root),
        }
    }
}
