//! An imported pool, with what runs and is known beside it.
//!
//! It stands below the list of pools: a scrub, a copy, a report is of one, and knows nothing of others.

mod left;
mod spares;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::{DatasetId, PoolGuid};
use tally_fs::filer::{Body, Filer};
use tally_intent::Lane;
use tally_vfs::{ObjectRef, Vfs};

use self::left::Left;
pub(super) use self::left::Silence;
use self::spares::Spares;
pub(super) use self::spares::path_of;
use super::copies::Copies;
use super::state::{Accepted, KnownPool};
use crate::exports::Mounted;

/// An imported pool with its threads.
pub struct ServedPool {
    /// The pool.
    pub filer: Arc<Filer>,
    /// When it was imported.
    pub since: Instant,
    /// What the import found, for `status`.
    pub remarks: Vec<String>,
    /// Copies to its disks, checks of them, and scrubs.
    pub copies: Arc<Copies>,
    /// Its disks that have left it.
    pub(super) left: Left,
    /// Its disks that wait for one to go away.
    pub(super) spares: Spares,
    /// Somebody looks for the paths of what is damaged, which may take as long as a disk hangs: one at a time.
    pub(super) looking: Mutex<()>,
    /// What is wrong with the list of pools, for `status`.
    pub(super) list_trouble: Mutex<Option<String>>,
    /// There may be files without a name that nobody has open, and whoever may claim them again can be asked for: the exports have the pool.
    pub(super) may_hold: AtomicBool,
    /// What it says of mountpoints and shares holds on this machine ([`super::acceptance`]).
    pub(super) is_accepted: AtomicBool,
    read_only: bool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Those that fetch ahead of readers.
    fetching_ahead: Mutex<Vec<JoinHandle<()>>>,
}

/// How long an export waits for a thread that fetches ahead. A disk that answers does so by then; one that hangs keeps a READ
/// as well, and an export waits for neither.
const FETCHING_AHEAD_WAIT_MAX: Duration = Duration::from_secs(2);
/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

impl ServedPool {
    pub(super) fn start(filer: Arc<Filer>, remarks: Vec<String>, read_only: bool) -> io::Result<Arc<Self>> {
        let spawn = |(name, body): (String, Body)| thread::Builder::new().name(name).spawn(body);
        let start = |bodies: Vec<_>| bodies.into_iter().map(spawn).collect::<io::Result<Vec<_>>>();
        let threads = Mutex::new(start(filer.needed())?);
        let fetching_ahead = Mutex::new(start(filer.fetching_ahead())?);
        let (since, copies) = (Instant::now(), Arc::<Copies>::default());
        let (left, looking, list_trouble) = (Left::default(), Mutex::default(), Mutex::default());
        Ok(Arc::new(Self {
            filer,
            since,
            remarks,
            copies,
            left,
            spares: Spares::default(),
            looking,
            list_trouble,
            may_hold: AtomicBool::new(false),
            is_accepted: AtomicBool::new(false),
            read_only,
            threads,
            fetching_ahead,
        }))
    }

    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> PoolGuid {
        self.filer.pool().guid()
    }

    /// Whether what it says of mountpoints and shares holds on this machine.
    pub(super) fn is_accepted(&self) -> bool {
        self.is_accepted.load(Ordering::Relaxed)
    }

    pub(super) fn handle_key(&self) -> [u8; 32] {
        self.filer.pool().roster.config().handle_key
    }

    /// As what it is accepted, if it is.
    pub(super) fn accepted(&self) -> Accepted {
        let config = self.filer.pool().roster.config();
        Accepted { guid: config.pool, handle_key: config.handle_key, host: Some(config.host.id) }
    }

    /// What to remember for the next start.
    pub(super) fn known(&self) -> KnownPool {
        let config = self.filer.pool().roster.config();
        let legs = config.vdevs_present().flat_map(|vdev| &vdev.legs).map(|leg| &leg.path);
        let mut paths: Vec<_> = legs.cloned().collect();
        paths.extend(config.spares_available().map(|spare| spare.path.clone()));
        let (name, guid, handle_key) = (config.name.clone(), config.pool, config.handle_key);
        KnownPool { name, guid, paths, read_only: self.read_only, handle_key }
    }

    /// Gives a lane that has got another disk its thread.
    pub(super) fn run_lane(&self, lane: Arc<Lane>) -> io::Result<()> {
        let name = format!("lane {}", lane.id());
        let thread = thread::Builder::new().name(name).spawn(move || lane.run())?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Waits for the threads, which an export or a destruction has told to end.
    pub(super) fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the pool had panicked");
            }
        }
        let (started, fetching_ahead) = (Instant::now(), std::mem::take(&mut *self.fetching_ahead.lock()));
        while !fetching_ahead.iter().all(JoinHandle::is_finished) && started.elapsed() < FETCHING_AHEAD_WAIT_MAX {
            thread::sleep(LOOK_INTERVAL);
        }
        let left = fetching_ahead.iter().filter(|thread| !thread.is_finished()).count();
        if left > 0 {
            tracing::warn!(
                "{left} threads that fetch ahead of readers still wait for a disk; they end when it answers"
            );
        }
    }
}

impl Mounted for ServedPool {
    fn vfs(&self, dataset: DatasetId) -> Option<Arc<dyn Vfs>> {
        Some(self.filer.filesystem(dataset)?)
    }

    fn is_going(&self, dataset: DatasetId) -> bool {
        self.filer.is_going(dataset)
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        self.filer.child(dataset, dir, name)
    }

    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        // What is imported for reading keeps nothing, and what is open of it is claimed again by nobody.
        let folder = if self.read_only { None } else { self.filer.clients() };
        Some(folder?)
    }
}
