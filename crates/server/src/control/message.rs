//! The messages of the control socket.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::exports::ExportReport;
use super::holdings::{ClientList, Held, LockReport, OpenReport, Page, SessionReport};
use super::load::RecordedLoad;
use super::mounts::MountReport;
use super::observation::Observation;
use super::report::{DatasetReport, EventReport, Found, OpsReport, PoolHistory, PoolReport, PropertyLine};
use super::server::ServerReport;
use super::smb::SmbReport;

/// Longest request line, bytes: a runaway peer does not fit.
pub const LINE_BYTES_MAX: u64 = 16 << 20;
/// Longest answer line, bytes: all properties of ten thousand datasets with the longest names fit.
pub const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// `property=value`, as typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The property's name.
    pub property: String,
    /// Its value, unparsed.
    pub value: String,
}

/// What may be asked. Paths are absolute: the daemon's working directory is not the asker's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)] // The fields are the words of the commands.
pub enum Request {
    /// State of the named pools, or of all: the source of `list`, `status` and `iostat`.
    PoolStatus {
        names: Vec<String>,
    },
    /// Makes a pool of the words after its name. With `file_bytes`, missing vdev files are made that large.
    PoolCreate {
        name: String,
        vdevs: Vec<String>,
        force: bool,
        file_bytes: Option<u64>,
        properties: Vec<Assignment>,
        /// Of the pool, and not of its root dataset.
        #[serde(default)]
        pool_properties: Vec<Assignment>,
    },
    /// Pools that could be imported from these directories; with `destroyed` those that were destroyed.
    PoolFind {
        dirs: Vec<PathBuf>,
        #[serde(default)]
        destroyed: bool,
    },
    /// Imports by name or guid.
    PoolImport {
        pool: String,
        dirs: Vec<PathBuf>,
        force: bool,
        read_only: bool,
        accept_loss: bool,
        #[serde(default)]
        destroyed: bool,
        /// What it says of mountpoints and shares is to hold on this machine.
        #[serde(default)]
        accept_mountpoints: bool,
    },
    /// Imports as of an older group, of this number or the newest that can be read. With `from`, only while that is the newest
    /// group. With `look`, tells what that gives up, and changes nothing.
    PoolRewind {
        pool: String,
        dirs: Vec<PathBuf>,
        force: bool,
        read_only: bool,
        destroyed: bool,
        to: Option<u64>,
        from: Option<u64>,
        look: bool,
    },
    PoolExport {
        name: String,
    },
    PoolDestroy {
        name: String,
    },
    /// Waits no more for a pool that is away, by name or guid.
    PoolForget {
        pool: String,
    },
    PoolGet {
        names: Vec<String>,
        properties: Vec<String>,
    },
    PoolSet {
        name: String,
        assignments: Vec<Assignment>,
    },
    /// Enables all features that the daemon knows, in these pools or in all.
    PoolUpgrade {
        names: Vec<String>,
    },
    /// Makes `device` a mirror, or a wider one, with `new_device`.
    PoolAttach {
        name: String,
        device: String,
        new_device: PathBuf,
        force: bool,
    },
    /// What a command on the disks of a pool would do; nothing is done.
    PoolTry {
        what: Box<Self>,
    },
    /// Takes disks in as spares: the words behind the pool's name.
    PoolAdd {
        name: String,
        vdevs: Vec<String>,
        force: bool,
    },
    /// Takes a spare out.
    PoolRemove {
        name: String,
        device: String,
    },
    /// With `force`, although the disks that stay may lack something.
    PoolDetach {
        name: String,
        device: String,
        #[serde(default)]
        force: bool,
    },
    /// `new_device` may be left out when the same path holds another disk now.
    PoolReplace {
        name: String,
        device: String,
        new_device: Option<PathBuf>,
        force: bool,
    },
    /// Takes a disk out of use; with `temporary`, until the next import.
    PoolOffline {
        name: String,
        device: String,
        #[serde(default)]
        temporary: bool,
    },
    /// Takes a disk back that was away, and gives it what it has missed.
    PoolOnline {
        name: String,
        device: String,
    },
    /// Counts the errors of a disk, or of all, anew; a pool that is suspended goes on, if its disks answer again.
    PoolClear {
        name: String,
        device: Option<String>,
    },
    /// Erases the labels of a disk; with `dry_run`, only says whose they are.
    PoolLabelClear {
        device: PathBuf,
        force: bool,
        #[serde(default)]
        dry_run: bool,
    },
    /// Takes back all disks that failed or were missing.
    PoolReopen {
        name: String,
    },
    /// Waits until all that was changed so far is in a transaction group on the disks.
    PoolSync {
        name: String,
    },
    /// The commands that changed these pools, or all.
    PoolHistory {
        names: Vec<String>,
    },
    /// What has happened since the event of this number; 0: all that is remembered.
    Events {
        since: u64,
    },
    /// Begins to look at every block on every disk, or goes on with that; with `wait`, does all of it; with `stop`, ends it
    /// instead, and with `pause` until it is asked for again.
    PoolScrub {
        name: String,
        #[serde(default)]
        stop: bool,
        #[serde(default)]
        pause: bool,
        #[serde(default)]
        wait: bool,
    },
    /// With `parents`, missing ancestors are made, too.
    DatasetCreate {
        name: String,
        parents: bool,
        properties: Vec<Assignment>,
    },
    DatasetDestroy {
        name: String,
        recursive: bool,
    },
    /// The named datasets, or all; with `recursive`, also what is below them. `users`: which of the properties that users
    /// name are to be told.
    DatasetList {
        names: Vec<String>,
        recursive: bool,
        #[serde(default)]
        users: Vec<String>,
    },
    /// Properties by name; none means all.
    DatasetGet {
        names: Vec<String>,
        recursive: bool,
        properties: Vec<String>,
    },
    DatasetSet {
        name: String,
        assignments: Vec<Assignment>,
    },
    DatasetInherit {
        name: String,
        property: String,
    },
    DatasetRename {
        from: String,
        to: String,
    },
    /// What is exported, to whom, by which rule, and who has it mounted.
    Exports,
    /// What clients have called, and how long it took.
    StatOps,
    /// Records what clients do for so many seconds, and tells it.
    Record {
        seconds: f64,
    },
    /// What clients of NFSv4 hold, of all or of those that are named by id or address, and no more than so much.
    Holdings {
        what: Held,
        client: Option<String>,
        most: u64,
    },
    /// Ends clients of NFSv4, by id.
    ClientEvict {
        clients: Vec<String>,
    },
    /// Serves a dataset to the kernel of this machine, which has it mounted on `dir`: over a descriptor of /dev/fuse, which comes beside this.
    Mount {
        dataset: String,
        dir: PathBuf,
        /// The number by which the kernel knows the file system.
        #[serde(default)]
        device: Option<(u32, u32)>,
    },
    /// What is mounted so.
    Mounts,
    /// What Samba is to share.
    Smb,
    /// What the daemon says of itself, and of how clients find it.
    Server,
    /// Everything that somebody who watches wants to know: the source of `zilstat`, `stat` and `top`.
    Observe,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// What changes something has been begun, and will be carried out.
    Begun,
    /// How far it is; any number of these before the last line.
    Progress(Progress),
    /// It is done, and this is what came of it. The last line of an answer.
    Done(Reply),
    /// It was not done. The last line of an answer.
    Refused {
        /// What happened, to what, and what to do next.
        message: String,
    },
    /// It was not begun, and will not be, since the asker had closed his side. The last line of an answer.
    Withdrawn,
}

/// How far something long has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// In words: "replaying the log".
    pub what: String,
    /// Units done.
    pub done: u64,
    /// Units in all; 0 where nobody knows.
    pub total: u64,
}

/// Hears how far something is.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress);

impl Progress {
    /// `replaying, 75 %`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let percent = self.done.saturating_mul(100).checked_div(self.total);
        self.what.clone() + &percent.map(|percent| format!(", {percent} %")).unwrap_or_default()
    }
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Reply {
    /// Nothing to show but remarks for the person, if any.
    Done(Vec<String>),
    /// Pools.
    Pools(Vec<PoolReport>),
    /// Pools that are not imported, and disks of which none is made.
    Found(Found),
    /// Datasets.
    Datasets(Vec<DatasetReport>),
    /// Properties of pools or datasets.
    Properties(Vec<PropertyLine>),
    /// What is exported.
    Exports(Vec<ExportReport>),
    /// Calls of clients.
    Ops(Box<OpsReport>),
    /// Everything at one moment.
    Observation(Box<Observation>),
    /// Clients of NFSv4.
    Clients(ClientList),
    /// Their sessions.
    Sessions(Page<SessionReport>),
    /// What they have open.
    Opens(Page<OpenReport>),
    /// What they have locked.
    Locks(Page<LockReport>),
    /// What clients did.
    Load(RecordedLoad),
    /// What was done to pools.
    History(Vec<PoolHistory>),
    /// What has happened.
    Events(Vec<EventReport>),
    /// What is mounted on this machine.
    Mounts(Vec<MountReport>),
    /// What Samba is to share.
    Smb(SmbReport),
    /// The daemon itself.
    Server(ServerReport),
    /// What going back to an older group gives up.
    Rewind(RewindShown),
}

/// What going back to an older group gives up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindShown {
    /// The group that it goes back to.
    pub to: u64,
    /// The newest one that there was.
    pub from: u64,
    /// In words.
    pub lines: Vec<String>,
}
