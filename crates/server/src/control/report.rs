//! What the daemon tells about its pools. This is also what `--json` prints, so a field is never renamed.

mod disks;
mod event;
mod found;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::disks::{ErrorCounters, IoActive, IoCounters, IoSizes, IoTimes, LateReport, VdevReport, VdevSpace};
pub(crate) use self::event::errors_of;
pub use self::event::{EventClass, EventReport};
pub use self::found::{Found, FoundPool, RefusedDisk};
use super::spread::{Quantiles, Spread};

/// One imported pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Its guid, 16 hexadecimal digits.
    pub guid: String,
    /// `ONLINE`, `DEGRADED`, `SUSPENDED`, ...
    pub state: String,
    /// Whether it was imported without permission to write.
    pub read_only: bool,
    /// Bytes in all.
    pub size: u64,
    /// Bytes taken.
    pub allocated: u64,
    /// Bytes free.
    pub free: u64,
    /// The newest transaction group on disk.
    pub txg: u64,
    /// Seconds since it was imported: what the counters are averaged over.
    pub imported_seconds: f64,
    /// Reads and writes of all its data vdevs.
    pub io: IoCounters,
    /// Its top-level vdevs, data and log.
    pub vdevs: Vec<VdevReport>,
    /// Disks that wait for one to go away, and those that stand in.
    #[serde(default)]
    pub spares: Vec<SpareReport>,
    /// The lanes of its intent log.
    pub lanes: Vec<LaneReport>,
    /// Acknowledged and not yet durable: only under `sync=disabled`.
    pub exposure: Exposure,
    /// What a person should know, one sentence or two each.
    pub messages: Vec<String>,
    /// Acknowledged changes that were given up by `import --accept-loss`, ever: when, and what is known of them.
    #[serde(default)]
    pub losses: Vec<String>,
    /// What could not be read, by dataset and object, also before the import.
    #[serde(default)]
    pub damage: Vec<DamagedObject>,
    /// How often something more could not be read than is kept for `damage`.
    #[serde(default)]
    pub damage_beyond: u64,
    /// Blocks that name others and could not be read when those were to be given back: their space is lost.
    #[serde(default)]
    pub leaks: u64,
    /// Places that are named twice, or were named and free, by who names them: the first that scrubs of this import have found.
    #[serde(default)]
    pub space_alarms: Vec<String>,
    /// `wait` or `continue`.
    #[serde(default)]
    pub failmode: String,
    /// How often it is scrubbed by itself: `off`, `weekly` or `monthly`.
    #[serde(default)]
    pub scrub_every: String,
    /// When the next scrub is due, in seconds since 1970.
    #[serde(default)]
    pub scrub_due: Option<u64>,
    /// After how long a leg that hangs is struck off: `auto`, `off`, or seconds.
    #[serde(default)]
    pub hang_limit: String,
    /// Whether what it says of mountpoints and shares holds on this machine: `accept` or `ignore`.
    #[serde(default)]
    pub mountpoints: String,
    /// The transaction group that takes changes.
    #[serde(default)]
    pub txg_open: u64,
    /// The newest groups that were synced, oldest first.
    #[serde(default)]
    pub txgs: Vec<TxgReport>,
    /// Why groups were closed since the import: `time`, `memory`, `ring`, `patches`, `slope`, `reply`, `refusal`, `chore`.
    #[serde(default)]
    pub txg_causes: BTreeMap<String, u64>,
    /// Bytes changed and not synced yet.
    #[serde(default)]
    pub dirty_bytes: u64,
    /// The most there may be of them.
    #[serde(default)]
    pub dirty_bytes_max: u64,
    /// Bytes of data that no group has written yet, or that are about to come.
    #[serde(default)]
    pub ahead_bytes: u64,
    /// Near so many of them those who bring more wait until some are written, for now.
    #[serde(default)]
    pub ahead_bytes_max: u64,
    /// Requests that wait for that.
    #[serde(default)]
    pub ahead_waiting: u64,
    /// Blocks that were found damaged since the import and are right on no disk.
    #[serde(default)]
    pub unrepaired: u64,
    /// Whether something that was removed or cut off is not given back yet.
    #[serde(default)]
    pub freeing: bool,
    /// Copies to its disks, checks of them, and a scrub, that run now.
    #[serde(default)]
    pub copies: Vec<CopyReport>,
    /// What came of the last of each vdev since the import, and how the scrub stands unless it runs, in words.
    #[serde(default)]
    pub copies_ended: Vec<String>,
    /// The scrub that runs or is paused, or the last one.
    #[serde(default)]
    pub scrub: Option<ScrubReport>,
    /// Bytes of blocks that are written in part, and that the open group has to read and write whole.
    #[serde(default)]
    pub patch_bytes: u64,
    /// The most that one group may have of them, for now.
    #[serde(default)]
    pub patch_bytes_max: u64,
    /// The most that the block cache may hold.
    #[serde(default)]
    pub cache_bytes_max: u64,
    /// What it holds, by kind of block.
    #[serde(default)]
    pub cache: Vec<CacheReport>,
    /// What was fetched ahead of readers.
    #[serde(default)]
    pub prefetch: PrefetchReport,
    /// Only features of this version and older ones are enabled; or `off`.
    #[serde(default)]
    pub compatibility: String,
    /// Its features.
    #[serde(default)]
    pub features: Vec<FeatureReport>,
}

/// A feature of a pool: of those that the daemon knows, and of those that the pool has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureReport {
    /// `feature@NAME`, or `unsupported@NAME` of one that the daemon does not know.
    pub property: String,
    /// `disabled`, `enabled` or `active`; of an unsupported one `inactive`, `compatible` or `readonly`.
    pub state: String,
    /// The first version that knows it; empty where nothing tells.
    pub since: String,
    /// Whether `pool upgrade` would enable it.
    pub lacking: bool,
}

/// A disk that joins or leaves, or a scrub of all of them, and how far that is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyReport {
    /// `resilver`: it joins and is given everything; `check`: it leaves, and every block must be on another; `scrub`.
    pub what: String,
    /// The disk; of a scrub none.
    pub device: String,
    /// It gets only what it has missed.
    #[serde(default)]
    pub partial: bool,
    /// `preparing`, `copying`, `checking` or `stopping`.
    pub phase: String,
    /// Bytes that were copied and checked.
    pub done_bytes: u64,
    /// Bytes to copy and to check in all.
    pub total_bytes: u64,
    /// Since it began.
    pub seconds: f64,
    /// On average.
    pub bytes_per_second: f64,
    /// Until its end, if it goes on so.
    pub seconds_left: Option<f64>,
}

/// A scrub, as the pool remembers it over imports. Of one that runs the numbers are those of its cursor; `copies` has newer ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// `running`, `paused`, `interrupted` (it goes on with the next import), `finished` or `stopped`.
    pub state: String,
    /// The same for a person; empty while it runs.
    pub words: String,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// When it was paused or ended; else when it began.
    pub changed: u64,
    /// For how long it has been running.
    pub ran_seconds: f64,
    /// Bytes that were checked.
    pub done_bytes: u64,
    /// Bytes that were in use when it began.
    pub total_bytes: u64,
    /// Ranges that were given to a disk that lacked them.
    pub repaired: u64,
    /// Blocks that are right on no disk.
    pub errors: u64,
    /// What it has found out of space; none while it runs, or if it went on behind an interruption.
    #[serde(default)]
    pub space: Option<SpaceReport>,
}

/// What a scrub in one piece has found out of space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceReport {
    /// Bytes that were in use and named by nothing that could be read.
    pub leaked_bytes: u64,
    /// Something that cannot be read may name them: they are perhaps in use.
    pub hidden: bool,
    /// Those of them that were given back.
    pub given_bytes: u64,
    /// Places that are named twice, or were named and free.
    pub alarms: u64,
}

/// A hot spare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpareReport {
    /// Its path.
    pub name: String,
    /// Its guid, 16 hexadecimal digits.
    pub guid: String,
    /// `AVAIL`, `INUSE`, or `UNAVAIL`: it was not found where it should be.
    pub state: String,
    /// Bytes of the device.
    pub size: u64,
    /// The path of the disk for which it stands.
    pub stands_for: Option<String>,
    /// Why it cannot be used.
    pub why: Option<String>,
}

/// One kind of block in the cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheReport {
    /// `data`, `leaves` and `nodes` of trees, `replies`.
    pub kind: String,
    /// Bytes in the cache now.
    pub bytes: u64,
    /// Reads since import that it answered.
    pub hits: u64,
    /// Reads since import that went to a disk.
    pub misses: u64,
}

/// What was fetched ahead of readers since import. Hits and misses are blocks of files that were not cached otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefetchReport {
    /// Those that a reader found, since they were fetched ahead of him.
    pub hits: u64,
    /// Those that a reader had to read from a disk.
    pub misses: u64,
    /// Bytes of content that were fetched ahead.
    pub bytes: u64,
    /// Of these, what left the cache before a reader came.
    pub unread_bytes: u64,
}

/// Part of an object that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedObject {
    /// Its dataset.
    pub dataset: String,
    /// Its number in the dataset.
    pub object: u64,
    /// One of its paths in the dataset, if it was found.
    pub path: Option<String>,
    /// `content`, `attributes`, `names` or `space`.
    pub what: String,
    /// Where in the content: the first byte of its block.
    pub offset: Option<u64>,
}

/// A transaction group that was synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TxgReport {
    /// Its number.
    pub txg: u64,
    /// How long ago it was opened.
    pub age_seconds: f64,
    /// For how long it took changes.
    pub open_seconds: f64,
    /// Until the last of its changes was complete.
    pub quiescing_seconds: f64,
    /// Until it was durable.
    pub syncing_seconds: f64,
    /// Bytes that were dirty in it.
    pub dirty_bytes: u64,
}

/// What was done to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolHistory {
    /// Its name.
    pub name: String,
    /// Its guid, 16 hexadecimal digits.
    pub guid: String,
    /// The oldest first.
    pub commands: Vec<DoneCommand>,
}

/// A command that has changed a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneCommand {
    /// When, in ns since 1970.
    pub time_ns: u64,
    /// Who asked for it.
    pub user: String,
    /// On which machine.
    pub host: String,
    /// As it is typed.
    pub words: String,
}

impl PoolReport {
    /// Whether there is nothing to do about it: `status -x` is silent on it.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let is_whole = self.damage.is_empty() && self.damage_beyond == 0 && self.unrepaired == 0 && self.leaks == 0;
        // A scrub's word for what has no name.
        let is_whole = is_whole && self.scrub.as_ref().is_none_or(|scrub| scrub.errors == 0);
        self.state == "ONLINE" && self.messages.is_empty() && is_whole
    }

    /// It says of mountpoints and shares what this machine has not accepted.
    pub(crate) const MOUNTPOINTS_IGNORED: &str = "ignore";

    /// State of a pool that should be there and is not imported; it has a name, a guid and messages, and nothing else.
    pub const UNAVAILABLE: &str = "UNAVAIL";

    /// Whether it is there, and its numbers mean something.
    #[must_use]
    pub fn is_imported(&self) -> bool {
        self.state != Self::UNAVAILABLE
    }
}

/// Acknowledged and not yet durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exposure {
    /// Whether any dataset has `sync=disabled`.
    pub possible: bool,
    /// Bytes that a power cut would take now.
    pub bytes: u64,
    /// Age of the oldest of them.
    pub seconds: f64,
}

/// One lane of the intent log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneReport {
    /// Its number.
    pub lane: u64,
    /// The vdev it lives on.
    pub vdev: String,
    /// Bytes of its ring.
    pub size: u64,
    /// Bytes of it that may not be overwritten yet.
    pub used: u64,
    /// Records that wait for a frame now.
    #[serde(default)]
    pub pending: u64,
    /// Frames written since import.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of the records' bodies.
    #[serde(default)]
    pub record_bytes: u64,
    /// Frames of up to 4 KiB, below 32 KiB, and larger ones.
    #[serde(default)]
    pub frames_by_size: [u64; 3],
    /// As many bytes of a file go into it by `logbias=auto`.
    #[serde(default)]
    pub commit_bytes: u64,
    /// How long device writes took.
    #[serde(default)]
    pub write: Spread,
    /// Median duration of a device write.
    pub write_ns_p50: u64,
    /// 99th percentile of it.
    pub write_ns_p99: u64,
}

/// One dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetReport {
    /// Its name, with the pool's.
    pub name: String,
    /// Its number in the pool, which handles carry.
    pub id: u64,
    /// Bytes that it and what is below it take.
    pub used: u64,
    /// Bytes that could still be written.
    pub available: u64,
    /// Bytes that it takes itself.
    pub referenced: u64,
    /// Where this machine mounts it: its property, `none` and `legacy` included.
    #[serde(default)]
    pub mountpoint: String,
    /// Whether this machine has it mounted, there or elsewhere.
    #[serde(default)]
    pub mounted: bool,
    /// The path by which clients of NFS name it.
    #[serde(default)]
    pub exportpath: String,
    /// When it was made, seconds since 1970-01-01 UTC.
    pub created: u64,
    /// In which transaction group.
    pub created_txg: u64,
    /// The same wherever its content is sent.
    pub guid: u64,
    /// Files that have lost their last name, and stay for as long as a client of NFSv4 has them open; not there where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// Properties that users name, of those that were asked for; one that is set nowhere is not there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub user: BTreeMap<String, String>,
}

/// One property of a pool or dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PropertyLine {
    /// Whose it is.
    pub name: String,
    /// Its name.
    pub property: String,
    /// Its value for people: sizes rounded.
    pub value: String,
    /// Its value for scripts: sizes in bytes.
    pub exact: String,
    /// `default`, `local`, `inherited from NAME`, `[[export]] of NAME` where the configuration says it, or `-` for what
    /// cannot be set.
    pub source: String,
}

impl PropertyLine {
    /// On which dataset above it was set, if it was on one.
    #[must_use]
    pub fn inherited_from(&self) -> Option<&str> {
        self.source.strip_prefix("inherited from ")
    }
}

/// What clients have called since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpsReport {
    /// Procedures that were called at least once, in the order of their numbers.
    pub procedures: Vec<OpReport>,
    /// Operations of compounds, in the order of their numbers; what stands for none is `illegal`.
    #[serde(default)]
    pub operations: Vec<OpReport>,
    /// Modifying requests, from their last byte read to their reply handed to the socket.
    pub whole: Quantiles,
    /// Their distribution.
    #[serde(default)]
    pub whole_times: Spread,
    /// The same, less the time that the working thread itself spent writing the log.
    pub own: Quantiles,
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were closed because they held too much, for too long, or a place that others needed.
    pub connections_dismissed: u64,
    /// Connections that were refused because there were too many, and none that could go.
    #[serde(default)]
    pub connections_refused: u64,
    /// Operations that ended in a panic, and were answered with an error.
    #[serde(default)]
    pub panics: u64,
    /// Bytes of requests that can be carried out.
    pub work_bytes: u64,
    /// Bytes of what waits for clients: incomplete requests, replies that are not taken, and requests behind those.
    pub debt_bytes: u64,
    /// Calls of programs, versions and procedures that we lack, garbage, and bad credentials.
    pub refused: u64,
    /// Retransmissions that were answered from memory.
    pub retransmissions: u64,
    /// Requests run again because too much was not in the pool yet.
    pub throttled: u64,
    /// Calls that were made to clients of NFSv4.
    #[serde(default)]
    pub calls_made: u64,
    /// Replies to no call that was made on their connection.
    #[serde(default)]
    pub replies_unmatched: u64,
}

/// One procedure of NFSv3; all compounds of version 4 that modify something (`compound_modify`), or all others (`compound`); or one of
/// their operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpReport {
    /// As RFC 1813 calls it, or of operations RFC 7530, RFC 8881 and RFC 7862, in small letters as `nfsstat` has it.
    pub procedure: String,
    /// Of a WRITE: `UNSTABLE`, `DATA_SYNC` or `FILE_SYNC`.
    #[serde(default)]
    pub stable_how: Option<String>,
    /// Calls that were carried out.
    pub calls: u64,
    /// Those that did not answer `NFS3_OK`, or `NFS4_OK`.
    pub errors: u64,
    /// Bytes of file content that they brought or took.
    #[serde(default)]
    pub data_bytes: u64,
    /// From the start of the work to its outcome.
    pub execute: Quantiles,
    /// Until what the reply promises was durable. Of operations those alone that had their compound wait.
    pub wait: Quantiles,
}
