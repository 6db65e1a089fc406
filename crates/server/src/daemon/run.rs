//! From the first line of the configuration to the last byte of an export.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::{PoolGuid, SystemClock, SystemRng};
use tally_disk::{Helpers, Host, Opener, Platform, ThreadFanout};
use tally_nfs::rpcbind;
use tally_nfs::serve::{self, ServeOptions, Server};
use tally_nfs::service::Service;
use tally_store::tuning::Tuning;

use super::announce::Announcement;
use super::chronicle::Said;
use super::data_dir::{self, DataDir, DataDirError};
use super::error::PoolsError;
use super::history;
use super::http::{self, HttpError, HttpServer, Look, Site};
use super::listen::ListenError;
use super::logging::LevelError;
use super::observe::{datasets, overview};
use super::opening::{OpenError, Tell, Told};
use super::pools::Pools;
use super::registration::{RPCBIND_SOCKET, Registration, Standing, Terms};
use super::service::{Counter, Desk};
use super::state::{State, StateError};
use super::ticker::Ticker;
use super::users::Users;
use super::work::{Begun, Event, Work};
use super::{
    events, letting_go, listen, listing, logging, manager, opening, pressure, schedule, signals, silence, smb_shares,
    spares, start_number,
};
use crate::config::{Config, ConfigError, ServeArgs};
use crate::control::listener::{self, ControlSocket};
use crate::control::message::{Reply, Request};
use crate::process;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum ServeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Level(#[from] LevelError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Control(#[from] listener::ListenError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Serve(#[from] serve::ServeError),
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

/// What a daemon is started with.
pub struct Launch {
    /// Flags; they name the configuration file.
    pub args: ServeArgs,
    /// Disks by path: the system's own, or a test's.
    pub opener: Arc<dyn Opener>,
    /// Whether signals of the process are the daemon's: not in a test with several daemons.
    pub signals: bool,
}

/// A running daemon.
pub struct Daemon {
    args: ServeArgs,
    desk: Arc<Desk>,
    control: ControlSocket,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// Threads that make files for commands, and whether they are to end.
    preparing: Vec<JoinHandle<()>>,
    ends: Arc<AtomicBool>,
    server: Server,
    port: u16,
    /// Kept for its end, when rpcbind is told that nobody listens any more.
    registration: Option<Registration>,
    watching: Option<Watching>,
    /// Disks that hang, scrubs that are due, memory that runs short, a list of pools that could not be written, and what clients have of exported pools: looked at until the pools are
    /// exported.
    _looks: [Ticker; 9],
    /// What Samba is to share is written down, also when nothing is any more.
    smb: smb_shares::Keeper,
    /// Other daemons keep away from its directory, until nobody here writes there any more: this is dropped last.
    _lock: data_dir::Lock,
}

/// What looks at the daemon while it runs: samples are taken, and shown.
struct Watching {
    http: HttpServer,
    /// Dropped with the rest, and its thread ends by that.
    _sampler: Ticker,
}

/// How often it is looked what of mounted files groups have made durable: longer than a group takes.
const SETTLE: Duration = Duration::from_secs(10);

/// The caches of all pools give way when the machine is short of memory.
fn watch_pressure(desk: &Arc<Desk>) -> io::Result<Ticker> {
    let desk = Arc::clone(desk);
    pressure::watch(move |share| {
        for served in desk.pools.all() {
            let io = &served.filer.pool().io;
            io.limit_cache(share.of(io.cache_bytes_max()));
        }
    })
}

impl Watching {
    /// Starts both, where there is a socket to show something on.
    fn start(config: &Config, desk: &Arc<Desk>) -> Result<Option<Self>, ServeError> {
        let Some(listener) = http::listen(config.http.listen)? else { return Ok(None) };
        let seen = Arc::clone(desk);
        let of_datasets = Arc::clone(desk);
        let look = Look {
            server: Box::new(move || overview(&seen.pools, &seen.nfs)),
            datasets: Box::new(move |most| datasets(&of_datasets.pools, most)),
        };
        let names = config.http.host_names.iter().cloned().chain([process::host_name()]);
        let site = Arc::new(Site::new(look, names));
        let (sampled, history) = (Arc::clone(&site), Arc::clone(site.history()));
        let sampler = history::sample(move || sampled.observation(), history, history::INTERVAL)?;
        Ok(Some(Self { http: HttpServer::start(listener, site)?, _sampler: sampler }))
    }
}

impl Daemon {
    /// Does everything up to serving; `tell` hears what the person who waits should know.
    pub fn start(launch: Launch, tell: Tell<'_>) -> Result<Self, ServeError> {
        let config = Config::load(&launch.args)?;
        logging::start(&config.log)?;
        if launch.signals {
            logging::log_panics();
        }
        process::raise_open_files(config.open_files);
        let data_dir = DataDir::open(&config.data_dir)?;
        // First: whoever finds it taken has removed no socket of the other one.
        let lock = data_dir.lock()?;
        let group = process::group(&config.socket_group);
        if group.is_none() && config.socket_group != Config::default().socket_group {
            tracing::warn!(group = %config.socket_group, "the machine has no such group (socket_group): nobody but root, and who runs this, can ask");
        }
        let control = ControlSocket::bind(&config.socket(), group)?;
        let data_dir = data_dir.path;
        let state = State::load(&data_dir)?;
        let listeners = listen::listen(&config.listen, config.port, state.port())?;
        let addresses: Vec<IpAddr> =
            listeners.iter().filter_map(|listener| Some(listener.local_addr().ok()?.ip())).collect();
        let port =
            listeners.first().and_then(|listener| listener.local_addr().ok()).map_or(0, |address| address.port());

        let pools = Pools::begin(platform(launch.opener, &config), tuning(&config), state, config.exports.clone());
        let pools = Arc::new(pools.keeping_clients(config.nfs4.then(|| config.lease_time.time())));
        let nfs = Service::new(pools.exports());
        let nfs = Arc::new(if config.nfs4 {
            // The same directory by another path is the same one.
            let place = std::fs::canonicalize(&data_dir).unwrap_or_else(|_| data_dir.clone());
            let nfs = nfs
                .speaking_4_for(config.lease_time.time())
                .known_as(pools.platform.host.id, place.as_os_str().as_encoded_bytes());
            let nfs = match &config.nfs4_domain {
                Some(domain) => nfs.naming_owners(domain.as_str(), &(Arc::new(Users) as _))?,
                None => nfs,
            };
            if config.nlm {
                let (place, name) = (data_dir.clone(), process::host_name());
                nfs.locking_for_3(Box::new(move || start_number::draw(&place)), &process::long_and_short(&name))
                    .telling_when_found()
            } else {
                nfs
            }
        } else {
            if config.nlm {
                tracing::warn!(
                    "`nlm = true` locks with what NFSv4 has of its clients, and `nfs4 = false` has nothing of it: clients of NFSv3 are told that there are no locks"
                );
            }
            nfs
        });
        let smb_conf = std::path::absolute(config.smb_conf())?;
        let desk = Arc::new(Desk {
            pools,
            addresses,
            port,
            dirs: places(data_dir),
            smb_conf,
            nfs,
            standing: Standing::default(),
        });
        let watching = Watching::start(&config, &desk)?;
        let pools = Arc::clone(&desk.pools);
        let silence = silence::watch(move || pools.held())?;
        let (sender, events) = channel();
        if launch.signals {
            signals::watch(sender.clone(), Arc::clone(&desk.pools))?;
        }
        control.serve(Arc::new(Counter { desk: Arc::clone(&desk), events: Mutex::new(sender.clone()) }))?;

        opening::open_pools(&desk, &config, &launch.args, tell)?;
        // Before anybody else may open or lock what their programs had.
        desk.take_over_mounts();
        // Not before: with the list the first start is over.
        if let Some(trouble) = desk.pools.remember_port(port) {
            tell(Told::Line(&trouble));
        }
        desk.pools.warn_of_rules_for_nothing();
        let server = Server::start_on(Arc::clone(&desk.nfs), listeners, &ServeOptions::default())?;
        let terms = Terms {
            setting: config.rpcbind,
            is_reachable: desk.addresses.iter().any(|address| !address.is_loopback()),
            rpcbind: rpcbind::ADDRESS,
            socket: RPCBIND_SOCKET.into(),
            addresses: desk.addresses.clone(),
            port,
            nfs4: config.nfs4,
            heard_by: server.heard_by(),
        };
        let registration = Registration::start(terms, &desk.standing)?;
        // Hosts that are told of the start ask where we are, at once.
        desk.nfs.can_be_found();
        manager::serves();
        let pools = Arc::clone(&desk.pools);
        let happenings = events::watch(move || pools.look_for_events())?;
        // The time for claims begins now, with that in which they can be made.
        schedule::begin_graces(&desk.pools, &desk.nfs);
        let schedule = schedule::watch(&desk.pools, &desk.nfs)?;
        let graces = schedule::watch_graces(&desk.pools, &desk.nfs)?;
        let spares = spares::watch(&desk.pools)?;
        let (pressure, listing) = (watch_pressure(&desk)?, listing::keep_writing(&desk.pools)?);
        let retained = letting_go::watch_retained(&desk.pools, sender.clone())?;
        let smb = smb_shares::keep_written(&desk.pools, &desk.smb_conf)?;
        let mounts = Arc::clone(&desk.pools.mounts);
        let settled = Ticker::start("mounts", SETTLE, move || mounts.settle())?;
        let looks = [silence, happenings, schedule, graces, spares, pressure, listing, retained, settled];
        Ok(Self {
            args: launch.args,
            desk,
            control,
            events,
            sender,
            preparing: Vec::new(),
            ends: Arc::default(),
            server,
            port,
            registration,
            watching,
            _lock: lock,
            _looks: looks,
            smb,
        })
    }

    /// The port of NFS and MOUNT.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The control socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.control.path()
    }

    /// Makes [`Self::run`] return, from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// How to mount what is served.
    #[must_use]
    pub fn announcement(&self) -> String {
        let table = self.desk.pools.exports().table();
        let mut paths: Vec<String> = Vec::new();
        for (path, _) in table.exported() {
            // In order of path: what is below an exported one comes with it.
            if !paths.iter().any(|above| path.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/'))) {
                paths.push(path.to_owned());
            }
        }
        let reaching = table.exported().any(|(_, rules)| rules.reaches_other_hosts());
        let addresses = &self.desk.addresses;
        let absent: Vec<String> = self.desk.pools.absent.reports(None).into_iter().map(|pool| pool.name).collect();
        Announcement {
            paths: &paths,
            absent: &absent,
            addresses,
            port: self.port,
            http: self.watching.as_ref().and_then(|watching| watching.http.address()),
            other_hosts: reaching && !addresses.iter().all(IpAddr::is_loopback),
            host_name: &process::host_name(),
            nfs4: self.desk.nfs.speaks_4(),
        }
        .text()
    }

    /// Carries out commands until it is told to stop, then exports all pools. Gives what went wrong there.
    #[must_use = "a pool that could not be exported has to be told"]
    pub fn run(mut self) -> Vec<String> {
        while let Ok(event) = self.events.recv() {
            self.desk.pools.comes_on();
            match event {
                Event::Stop => break,
                Event::Reload => self.reload(),
                Event::Work(work) if work.makes_files() => self.prepare_beside(work),
                Event::Work(work) if work.takes_long() => self.carry_out_beside(work),
                Event::Work(work) => {
                    if let Some(begun) = work.begin() {
                        carry_out(&self.desk, begun);
                    }
                }
                Event::Prepared(begun) => carry_out(&self.desk, begun),
                Event::RetainedTooLong => self.desk.pools.end_retaining(),
            }
        }
        self.stop()
    }

    /// In a thread of its own: it is for the pools to say what may run beside what.
    fn carry_out_beside(&self, work: Work) {
        let desk = Arc::clone(&self.desk);
        beside(work, move |begun| carry_out(&desk, begun));
    }

    /// Makes files in a thread of its own, and leaves the rest to this one.
    fn prepare_beside(&mut self, work: Work) {
        let (desk, sender, ends) = (Arc::clone(&self.desk), self.sender.clone(), Arc::clone(&self.ends));
        self.preparing.retain(|thread| !thread.is_finished());
        self.preparing.extend(beside(work, move |Begun { request, user, file, mut voice, .. }| {
            match desk.prepare(&request, &ends, &mut |state| voice.goes(state)) {
                // At the end nobody takes it any more, and the files go with it.
                Ok(files) => drop(sender.send(Event::Prepared(Begun { request, user, file, files, voice }))),
                Err(error) => voice.ends(Err(error)),
            }
        }));
    }

    /// Reads the exports of the configuration file again. A file with a mistake changes nothing.
    fn reload(&self) {
        match Config::load(&self.args) {
            Ok(config) => {
                tracing::info!(rules = config.exports.len(), "exports read again");
                self.desk.pools.set_rules_above(config.exports);
            }
            Err(error) => tracing::error!(%error, "the exports stay as they were"),
        }
    }

    fn stop(self) -> Vec<String> {
        manager::ends();
        self.ends.store(true, Ordering::Release);
        // With what was prepared, and what waits for its turn.
        drop(self.events);
        drop(self.registration);
        drop(self.watching);
        let handed = self.desk.pools.mounts.hand_over();
        if !handed.is_empty() {
            self.smb.leave();
        }
        let cut_off = self.server.stop();
        if cut_off > 0 {
            tracing::warn!(requests = cut_off, "these requests were still running when the server stopped");
        }
        let watched = manager::watch_exports(&self.desk.pools);
        let served: Vec<_> = self.desk.pools.all().iter().map(|pool| (pool.guid(), pool.filer.name())).collect();
        let failures = self.desk.pools.export_all();
        drop(watched);
        // What was promised is kept by now, and what was written is durable, of each pool that is not served any more.
        let is_away = |pool: &PoolGuid| {
            served.iter().any(|(guid, name)| guid == pool && failures.iter().all(|(failed, _)| failed != name))
        };
        handed.iter().filter(|(pool, _)| is_away(pool)).for_each(|(_, session)| session.ends_well());
        let failures = failures.into_iter().map(|(name, error)| format!("pool '{name}' was not exported: {error}"));
        let failures = failures.chain(self.desk.pools.last_words_on_list()).collect();
        // Not before: a disk that is slow with new files may be no pool's, and keeps no pool from its export.
        self.preparing.into_iter().for_each(|thread| drop(thread.join()));
        failures
    }
}

fn carry_out(desk: &Desk, Begun { request, user, file, files, mut voice }: Begun) {
    let said = Said::of(&request, user);
    let result = match request {
        Request::Mount { dataset, dir, device } => {
            desk.mount((&dataset, &dir), device, file).map(|()| Reply::Done(Vec::new()))
        }
        request => desk.carry_out(request, files, &said, &mut |state| voice.goes(state)),
    };
    let result = match result {
        Ok(reply) => {
            desk.pools.write_down(&said);
            Ok(reply)
        }
        Err(error) => Err(desk.pools.met_by(&said, error)),
    };
    desk.pools.look_for_events();
    voice.ends(result);
}

/// Begins work, and goes on with it in a thread of its own.
fn beside(work: Work, go_on: impl FnOnce(Begun) + Send + 'static) -> Option<JoinHandle<()>> {
    let voice = work.voice();
    let thread = move || {
        if let Some(begun) = work.begin() {
            go_on(begun);
        }
    };
    match thread::Builder::new().name("command".into()).spawn(thread) {
        Ok(thread) => Some(thread),
        Err(error) => {
            voice.ends(Err(PoolsError::Thread(error)));
            None
        }
    }
}

/// Makes a daemon stop, from any thread.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// As SIGTERM does.
    pub fn stop(&self) {
        // A daemon that is gone has stopped.
        let _ = self.0.send(Event::Stop);
    }
}

/// Where pools are looked for when nobody says: what an ordinary user has in /dev is of no use to anybody.
fn places(data_dir: PathBuf) -> Vec<PathBuf> {
    let devices = rustix::process::geteuid().is_root().then(|| PathBuf::from("/dev"));
    std::iter::once(data_dir).chain(devices).collect()
}

fn platform(opener: Arc<dyn Opener>, config: &Config) -> Platform {
    Platform {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SystemRng),
        opener,
        fanout: Arc::new(ThreadFanout::default()),
        helpers: Helpers::Threads,
        host: Host { id: process::host_id(config.host_id.as_deref()), name: process::host_name() },
    }
}

/// Below this a long WRITE, which has to wait for an empty group, may starve while short ones keep coming.
const DIRTY_DATA_MIN: u64 = 16 << 20;

fn tuning(config: &Config) -> Tuning {
    let memory = process::memory_bytes();
    Tuning {
        cache_bytes: config.cache.of(memory),
        dirty_bytes_max: config.dirty_data_max.of(memory).max(DIRTY_DATA_MIN),
        txg_interval: Duration::from_secs(config.txg_interval_seconds.into()),
        ..Tuning::default()
    }
}
