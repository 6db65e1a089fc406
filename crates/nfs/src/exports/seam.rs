//! The seam between the protocol and whoever owns the pools: who sees which dataset, and how.

use std::net::IpAddr;
use std::sync::Arc;

use tally_base::{DatasetId, PoolGuid, Time};
use tally_vfs::{ObjectRef, Retained, Vfs};

/// What becomes of a client's user and group ids, as in exports(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// `no_root_squash`: ids are taken as they come.
    None,
    /// `root_squash`: uid 0 and gid 0 become anonymous.
    Root,
    /// `all_squash`: everybody is anonymous.
    All,
}

/// The rule that applies to one client for one dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `ro`: modifying procedures answer ROFS.
    pub read_only: bool,
    /// Whose ids are replaced.
    pub squash: Squash,
    /// The anonymous user; 65534 unless `anonuid=`.
    pub anon_uid: u32,
    /// The anonymous group; 65534 unless `anongid=`.
    pub anon_gid: u32,
    /// `secure`, unless `insecure` is said: only source ports below 1024 are believed, and users of this very machine
    /// whom the kernel names.
    pub secure: bool,
}

/// Where a dataset is.
pub enum Place {
    /// Served.
    Here(Arc<dyn Vfs>),
    /// Known, but it cannot answer for now (pool suspended or not imported yet, dataset just made): JUKEBOX, never STALE.
    Away,
    /// It is being destroyed, and may be there again behind a cut: as one that is away; by its name there is no way to it any more.
    Going,
    /// Nobody here has heard of it.
    Unknown,
}

/// A dataset that was found by its path.
pub struct Resolved {
    /// Its pool.
    pub pool: Arc<dyn PoolExports>,
    /// The dataset whose mount path is the longest prefix of the path.
    pub vfs: Arc<dyn Vfs>,
    /// What is left of the path below it, without a leading slash.
    pub below: String,
}

/// The server's view of its pools, as the protocol needs it.
pub trait Exports: Send + Sync {
    /// The dataset of a path that may be mounted.
    fn resolve(&self, path: &str) -> Option<Resolved>;

    /// A pool that is known, imported or not, as it is now.
    fn pool(&self, guid: PoolGuid) -> Option<Arc<dyn PoolExports>>;

    /// All of them, in the order of their names.
    fn pools(&self) -> Vec<Arc<dyn PoolExports>>;

    /// When what is exported, or how, was last another: it rises with each change, as clients keep what they have listed for as long as it does
    /// not.
    fn changed(&self) -> Time {
        Time(0)
    }

    /// Exported paths and who may mount them, in words, for MOUNT's EXPORT.
    fn list(&self) -> Vec<(String, Vec<String>)>;
}

/// What one pool exports: whether it is here, its datasets' names and their rules, as they are at one moment. It is asked for once for each
/// handle: asked piece by piece, a pool that goes away in between has a dataset without a rule, and its client, who has only to wait, is told that
/// it may not. Which file systems there are is as it is now, so a dataset can be here that has no rule yet, and one with a rule be gone.
pub trait PoolExports: Send + Sync {
    /// By which handles name it.
    fn guid(&self) -> PoolGuid;

    /// Its name.
    fn pool_name(&self) -> &str;

    /// The dataset that has the pool's name, above all others; `None` while it is away.
    fn root(&self) -> Option<DatasetId>;

    /// The dataset above this one.
    fn parent(&self, _dataset: DatasetId) -> Option<DatasetId> {
        None
    }

    /// The datasets below this one that no other one is between, by the last part of their names.
    fn children(&self, _dataset: DatasetId) -> Vec<(String, DatasetId)> {
        Vec::new()
    }

    /// One of these.
    fn child_named(&self, dataset: DatasetId, name: &str) -> Option<DatasetId> {
        self.children(dataset).into_iter().find(|(child, _)| child == name).map(|(_, child)| child)
    }

    /// Whether a client has access to a dataset, or to one anywhere below it.
    fn leads(&self, dataset: DatasetId, client: IpAddr) -> bool {
        self.rule(dataset, client).is_some()
    }

    /// A dataset of the pool.
    fn place(&self, dataset: DatasetId) -> Place;

    /// What clients have of a dataset, while its pool is away and may come back to it: as long as there is this they keep it. It is there from before the pool is away until the pool is back, or its
    /// clients have lost what they had: where there is none, they lose it with the export.
    fn retained(&self, _dataset: DatasetId) -> Option<Arc<dyn Retained>> {
        None
    }

    /// Whether what clients have of it is retained so.
    fn is_retained(&self) -> bool {
        false
    }

    /// The rule for `client`; `None` where it has no access at all.
    fn rule(&self, dataset: DatasetId, client: IpAddr) -> Option<Rule>;

    /// The dataset's name for people, if it is at hand.
    fn name(&self, _dataset: DatasetId) -> Option<String> {
        None
    }

    /// The dataset mounted on directory entry `name` of `dir` in a dataset, if there is one; one that is unknown where it comes or goes. Child
    /// datasets stand in their parent's root directory, on a directory of the same name that the server made.
    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId>;

    /// Where the pool keeps what the server has to know of its clients behind a restart: a folder that no client sees, the root of this file system. Nothing, where it is
    /// kept nowhere.
    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        None
    }

    /// The key that authenticates handles of this pool. It lives in the pool and survives restarts.
    fn handle_key(&self) -> &[u8; 32];
}
