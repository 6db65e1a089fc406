//! The requests of the control socket, carried out.
//!
//! Questions are answered in the thread of their connection. What changes pools or datasets goes to the daemon's
//! own thread, one after the other: no two commands can get into each other's way, and none of them needs a
//! lock that a request of a client needs. What goes over a whole disk has a thread of its own, and so has what is only shown
//! (`-n`), as it opens the disks that it is about; the pool keeps apart what must not run beside each other
//! ([`super::copies`]).

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::{PoolGuid, Txg};
use tally_fs::filer::{Filer, ImportReport};
use tally_members::discover::ImportSource;
use tally_nfs::exports::parse_sharenfs;
use tally_store::pool::{RewindOrder, RewindTo};

use super::chronicle::Said;
use super::damage_report::Pending;
use super::error::PoolsError;
use super::holdings::Register;
use super::importing::ImportOrder;
use super::new_files::NewFile;
use super::new_pool::create_options;
use super::observe::{observe, record};
use super::pools::Pools;
use super::registration::Standing;
use super::served::ServedPool;
use super::work::{self, Answer, Event};
use super::{
    damage_report, exports_report, features, looking_back, ops_report, pool_report, silence, zfs_space, zfs_words,
};
use crate::control::listener::{Asker, NotDone, Service};
use crate::control::message::{Assignment, OnProgress, Progress, Reply, Request};
use crate::control::report::PoolReport;
use crate::control::server::ServerReport;

/// What commands need to know of the daemon.
pub(super) struct Desk {
    pub(super) pools: Arc<Pools>,
    /// Addresses that are listened on.
    pub(super) addresses: Vec<IpAddr>,
    /// The port of NFS.
    pub(super) port: u16,
    /// How clients find it that do not know it.
    pub(super) standing: Standing,
    /// Where pools are looked for when nobody says.
    pub(super) dirs: Vec<PathBuf>,
    /// The file that Samba's configuration is to include.
    pub(super) smb_conf: PathBuf,
    /// The programs that clients call.
    pub(super) nfs: Arc<tally_nfs::service::Service>,
}

/// Answers questions, and passes work on.
pub(super) struct Counter {
    pub(super) desk: Arc<Desk>,
    pub(super) events: Mutex<Sender<Event>>,
}

/// How often whoever waits for a command is told of disks that hang.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// How often it is looked whether somebody still waits.
const BETWEEN_WAKES: Duration = Duration::from_millis(100);
const SHUTTING_DOWN: &str = "the daemon is shutting down";

impl Service for Counter {
    fn handle(&self, request: Request, asker: &Asker) -> Result<Reply, NotDone> {
        if let Some(reply) = self.desk.question(&request, asker) {
            return reply.map_err(|error| NotDone::Refused(error.to_string()));
        }
        let shutting_down = || NotDone::Refused(SHUTTING_DOWN.into());
        let (work, order) = work::order(request, asker.clone());
        self.events.lock().send(Event::Work(work)).map_err(|_| shutting_down())?;
        let mut looked = Instant::now();
        loop {
            match order.answers.recv_timeout(BETWEEN_WAKES) {
                Ok(Answer::Begun) => asker.hears_of_beginning(),
                Ok(Answer::Progress(state)) => asker.hears(state),
                Ok(Answer::End(result)) => return result,
                Err(RecvTimeoutError::Disconnected) => return Err(shutting_down()),
                Err(RecvTimeoutError::Timeout) if asker.is_gone() && order.take_back() => {
                    return Err(NotDone::Withdrawn);
                }
                // It may wait for a disk that hangs, or for a command that does.
                Err(RecvTimeoutError::Timeout) if looked.elapsed() >= BETWEEN_LOOKS => {
                    looked = Instant::now();
                    if let Some(leg) = silence::silent(&self.desk.pools.held()).first() {
                        asker.hears(Progress { what: format!("waiting for {leg}"), done: 0, total: 0 });
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Desk {
    /// The answer to a request that changes nothing and locks nothing; `None` for the others.
    fn question(&self, request: &Request, asker: &Asker) -> Option<Result<Reply, PoolsError>> {
        Some(match request {
            Request::PoolStatus { names } => self.pools_with_damage(names).map(Reply::Pools),
            Request::PoolFind { dirs, destroyed } => self.find(dirs, *destroyed),
            Request::PoolGet { names, properties } => self.pool_properties(names, properties),
            Request::DatasetList { names, recursive, users } => {
                self.pools.list_datasets(names, *recursive, users).map(Reply::Datasets)
            }
            Request::DatasetGet { names, recursive, properties } => {
                self.pools.dataset_properties(names, *recursive, properties).map(Reply::Properties)
            }
            Request::Record { seconds } => record(self.nfs.stats(), *seconds, asker).map(Reply::Load),
            Request::Observe => Ok(Reply::Observation(Box::new(observe(&self.pools, &self.nfs)))),
            Request::Mounts => Ok(Reply::Mounts(self.pools.mounted())),
            Request::Smb => Ok(Reply::Smb(self.pools.smb_report(&self.smb_conf))),
            Request::Server => Ok(Reply::Server(self.server())),
            Request::PoolHistory { names } => self.pools.history(names).map(Reply::History),
            Request::Events { since } => {
                self.pools.look_for_events();
                Ok(Reply::Events(self.pools.events.since(*since)))
            }
            Request::Holdings { what, client, most } => self.register().held(*what, client.as_deref(), *most),
            Request::Exports => exports_report::exports(&self.pools, &self.nfs).map(Reply::Exports),
            Request::StatOps => Ok(Reply::Ops(Box::new(ops_report::report(self.nfs.stats())))),
            _ => return None,
        })
    }

    fn register(&self) -> Register<'_> {
        Register { pools: &self.pools, holdings: self.nfs.holdings() }
    }

    fn pools_with_damage(&self, names: &[String]) -> Result<Vec<PoolReport>, PoolsError> {
        let until = Instant::now() + damage_report::LOOK_MAX;
        let pending: Vec<Pending> = self.reports(names, |pool| damage_report::begin_report(pool, until))?;
        Ok(pending.into_iter().map(|pending| pending.end(until)).collect())
    }

    /// These pools, or all of them, with those that should be there and are not.
    fn reports<R: From<PoolReport>>(
        &self,
        names: &[String],
        report: impl Fn(&Arc<ServedPool>) -> R,
    ) -> Result<Vec<R>, PoolsError> {
        if names.is_empty() {
            let absent = self.pools.absent.reports(None).into_iter().map(R::from);
            return Ok(self.pools.all().iter().map(report).chain(absent).collect());
        }
        let mut reports = Vec::new();
        for name in names {
            // One of the name may be there, and an older one be missed.
            let absent = self.pools.absent.reports(Some(name));
            match self.pools.pool(name) {
                Ok(pool) => reports.push(report(&pool)),
                Err(error) if absent.is_empty() => return Err(error),
                Err(_) => {}
            }
            reports.extend(absent.into_iter().map(R::from));
        }
        Ok(reports)
    }

    /// What the daemon says of itself.
    fn server(&self) -> ServerReport {
        let table = self.pools.exports().table();
        ServerReport {
            version: env!("CARGO_PKG_VERSION").into(),
            addresses: self.addresses.clone(),
            port: self.port,
            nfs4: self.nfs.speaks_4(),
            exports_to_others: table.exported().any(|(_, rules)| rules.reaches_other_hosts()),
            exports: table.exported().count() as u64,
            portmapper: self.standing.lock().clone(),
        }
    }

    fn find(&self, dirs: &[PathBuf], destroyed: bool) -> Result<Reply, PoolsError> {
        let dirs = if dirs.is_empty() { &self.dirs } else { dirs };
        let source = ImportSource { paths: Vec::new(), dirs: dirs.to_vec() };
        Ok(Reply::Found(self.pools.find(&source, destroyed)?))
    }

    fn pool_properties(&self, names: &[String], properties: &[String]) -> Result<Reply, PoolsError> {
        let pools = self.reports(names, |pool| pool_report::report(pool))?;
        let foreign = |pool: &PoolReport| {
            let name = pool.name.clone();
            let so = |word: &String| zfs_words::of_pools(word).map(|it| it.line(&name, word));
            properties.iter().filter_map(|word| zfs_space::of_pool(pool, word).or_else(|| so(word))).collect::<Vec<_>>()
        };
        let of_pool = |pool| pool_report::properties(pool).into_iter().chain(foreign(pool));
        let lines: Vec<_> = pools.iter().flat_map(of_pool).collect();
        for name in properties.iter().filter(|name| *name != features::ALL) {
            let is_there = || lines.iter().any(|line| line.property == *name);
            let is_foreign = || zfs_space::is_of_pools(name) || zfs_words::of_pools(name).is_some();
            match pool_report::PROPERTIES.contains(&name.as_str()) || is_foreign() || is_there() {
                true => {}
                false if features::is_feature(name) => return Err(features::unknown(name)),
                false => return Err(PoolsError::NoPoolProperty { name: name.clone() }),
            }
        }
        let wanted = |name: &str| properties.is_empty() || properties.iter().any(|word| features::is_meant(word, name));
        Ok(Reply::Properties(lines.into_iter().filter(|line| wanted(&line.property)).collect()))
    }

    /// Makes the files that a request needs before it can be carried out. `ends` becomes true when it is not to be any more.
    pub(super) fn prepare(
        &self,
        request: &Request,
        ends: &AtomicBool,
        progress: OnProgress<'_>,
    ) -> Result<Vec<NewFile>, PoolsError> {
        let Request::PoolCreate { name, vdevs, force, file_bytes: Some(bytes), properties, pool_properties } = request
        else {
            return Ok(Vec::new());
        };
        let options = create_options(*force, properties, pool_properties)?;
        self.pools.make_files(name, vdevs, &options, *bytes, ends, progress)
    }

    /// Carries out a request that changes something, or locks disks. `files` were made for it.
    pub(super) fn carry_out(
        &self,
        request: Request,
        files: Vec<NewFile>,
        said: &Said,
        progress: OnProgress<'_>,
    ) -> Result<Reply, PoolsError> {
        // Nothing is changed, but disks are locked meanwhile: not while a start takes up its pools, which may be theirs.
        if let Request::PoolTry { what } = &request {
            return self.pools.would(what).map(Reply::Done);
        }
        self.pools.write_list_again();
        match request {
            Request::PoolCreate { name, vdevs, force, properties, pool_properties, .. } => {
                let options = create_options(force, &properties, &pool_properties)?;
                let pool = self.pools.create(&name, &vdevs, &options, files)?;
                self.listed(pool.guid(), vec![format!("created pool '{name}'; its files are at /{name}")], "")
            }
            Request::PoolImport { pool, dirs, force, read_only, accept_loss, destroyed, accept_mountpoints } => {
                let is_anywhere = dirs.is_empty();
                let paths = if is_anywhere { self.pools.known_paths(&pool) } else { Vec::new() };
                let dirs = if is_anywhere { self.dirs.clone() } else { dirs };
                let order = ImportOrder {
                    pool,
                    paths,
                    dirs,
                    force,
                    read_only,
                    accept_loss,
                    destroyed,
                    accepts_mountpoints: accept_mountpoints,
                    ..ImportOrder::default()
                };
                let (pool, report) = self.pools.import_after(&order, progress, &|guid| {
                    self.nfs.leave_doubts(guid);
                    // It may have been suspended, and nobody resumed it.
                    self.nfs.forget_unwaited_replies(guid);
                    // What was given up has no answers.
                    if accept_loss {
                        self.nfs.forget_replies(guid);
                    }
                })?;
                let mut done = import_remarks(&pool.filer, &report);
                done.extend(self.pools.brought(&pool, accept_mountpoints));
                self.listed(pool.guid(), done, "")
            }
            Request::PoolRewind { pool, dirs, force, read_only, destroyed, to, from, look } => {
                let is_anywhere = dirs.is_empty();
                let paths = if is_anywhere { self.pools.known_paths(&pool) } else { Vec::new() };
                let dirs = if is_anywhere { self.dirs.clone() } else { dirs };
                let to = to.map_or(RewindTo::Before, |txg| RewindTo::Group(Txg(txg)));
                let rewind = Some(RewindOrder { to, from: from.map(Txg) });
                let order = ImportOrder {
                    pool,
                    paths,
                    dirs,
                    force,
                    read_only,
                    accept_loss: false,
                    destroyed,
                    rewind,
                    resumes: None,
                    accepts_mountpoints: false,
                };
                if look {
                    return Ok(Reply::Rewind(self.pools.look_back(&order, progress)?));
                }
                // What was given up has no answers.
                let (pool, report) = self.pools.import_after(&order, progress, &|guid| {
                    self.nfs.leave_doubts(guid);
                    self.nfs.forget_replies(guid);
                })?;
                let mut done = import_remarks(&pool.filer, &report);
                done.extend(report.rewind.as_ref().map(looking_back::outcome));
                done.extend(self.pools.brought(&pool, false));
                self.listed(pool.guid(), done, "")
            }
            Request::PoolExport { name } => {
                let guid = self.pools.export(&name, Some(said))?;
                let gone = "a start before that imports it again.";
                self.listed(guid, vec![format!("exported pool '{name}'")], gone)
            }
            Request::PoolDestroy { name } => {
                let guid = self.pools.destroy(&name, Some(said))?;
                let gone = "a start before that finds it destroyed, and takes it off.";
                self.listed(guid, vec![format!("destroyed pool '{name}'")], gone)
            }
            Request::PoolForget { pool } => {
                let (name, guid) = self.pools.forget(&pool)?;
                let done = vec![
                    format!("forgot pool '{name}' ({guid}): nothing waits for it, and no start looks for it any more"),
                    "Its file handles are nobody's now: clients that have it mounted get 'stale file handle'. Its disks were \
                     not touched; if they come back, `tally pool import` takes it up, and the handles are good again."
                        .into(),
                ];
                self.listed(guid, done, "a start before that looks for it, and its clients wait again.")
            }
            Request::PoolSet { name, assignments } => {
                self.pools.set_pool_properties(&name, &assignments)?;
                let accepts = |set: &Assignment| set.property == "mountpoints" && set.value == "accept";
                let pool = self.pools.pool(&name)?;
                let brought = assignments.iter().any(accepts).then(|| self.pools.brought(&pool, true)).flatten();
                Ok(Reply::Done(brought.into_iter().collect()))
            }
            Request::PoolUpgrade { names } => Ok(Reply::Done(self.pools.upgrade(&names)?)),
            Request::PoolAttach { name, device, new_device, force } => {
                let remarks = self.pools.attach(&name, &device, &new_device, force, progress)?;
                Ok(done(format!("{} is now a mirror of {device}", new_device.display()), remarks))
            }
            Request::PoolAdd { name, vdevs, force } => Ok(Reply::Done(vec![self.pools.add(&name, &vdevs, force)?])),
            Request::PoolRemove { name, device } => {
                let remarks = self.pools.remove(&name, &device)?;
                Ok(done(format!("{device} is no spare of '{name}' any more"), remarks))
            }
            Request::PoolDetach { name, device, force } => {
                let remarks = self.pools.detach(&name, &device, force, progress)?;
                Ok(done(format!("{device} is no longer part of '{name}'"), remarks))
            }
            Request::PoolReplace { name, device, new_device, force } => {
                Ok(Reply::Done(self.pools.replace(&name, &device, new_device.as_deref(), force, progress)?))
            }
            Request::PoolOffline { name, device, temporary } => {
                let remarks = self.pools.offline(&name, &device, !temporary, progress)?;
                Ok(done(format!("{device} of '{name}' is offline; `tally pool online` takes it back"), remarks))
            }
            Request::PoolOnline { name, device } => {
                let remarks = self.pools.online(&name, &device, progress)?;
                Ok(done(format!("{device} of '{name}' is online"), remarks))
            }
            Request::PoolClear { name, device } => {
                // What was in memory alone is gone, and no answer may say that it is there.
                let before = |guid| self.nfs.forget_unwaited_replies(guid);
                let (guid, done) = self.pools.clear(&name, device.as_deref(), &self.dirs, (progress, &before))?;
                self.listed(guid, done, "")
            }
            Request::PoolReopen { name } => Ok(Reply::Done(self.pools.reopen(&name, progress)?)),
            Request::PoolSync { name } => {
                let served = self.pools.pool(&name)?;
                // What is only read has nothing that is not there.
                if !served.filer.pool().read_only() {
                    served.filer.sync()?;
                }
                Ok(Reply::Done(Vec::new()))
            }
            Request::PoolLabelClear { device, force, dry_run } => {
                Ok(Reply::Done(vec![self.pools.clear_label(&device, force, dry_run)?]))
            }
            Request::ClientEvict { clients } => self.register().evict(&clients),
            Request::PoolScrub { name, stop: true, .. } => {
                self.pools.pool(&name)?.stop_scrub()?;
                Ok(done(format!("the scrub of '{name}' was stopped"), Vec::new()))
            }
            Request::PoolScrub { name, pause: true, .. } => {
                self.pools.pool(&name)?.pause_scrub()?;
                let how =
                    format!("`tally pool scrub {name}` goes on with it, `tally pool scrub -s {name}` gives it up");
                Ok(done(format!("the scrub of '{name}' is paused"), vec![how]))
            }
            Request::PoolScrub { name, wait, .. } => Ok(Reply::Done(self.pools.pool(&name)?.scrub(wait, progress)?)),
            other => self.carry_out_on_datasets(other),
        }
    }

    /// What was done to a pool, if the list of pools has it, too.
    fn listed(&self, pool: PoolGuid, done: Vec<String>, gone: &str) -> Result<Reply, PoolsError> {
        self.pools.must_be_listed(pool, &done, gone)?;
        Ok(Reply::Done(done))
    }

    fn carry_out_on_datasets(&self, request: Request) -> Result<Reply, PoolsError> {
        let mut remarks = Vec::new();
        match request {
            Request::DatasetCreate { name, parents, properties } => {
                self.pools.create_dataset(&name, parents, &properties)?;
                remarks = self.remarks(&name, &properties);
            }
            Request::DatasetDestroy { name, recursive } => self.pools.destroy_dataset(&name, recursive)?,
            Request::DatasetSet { name, assignments } => {
                self.pools.set_properties(&name, &assignments)?;
                remarks = self.remarks(&name, &assignments);
                let changed: Vec<&str> = assignments.iter().map(|assignment| &*assignment.property).collect();
                remarks.extend(self.pools.mounts_stay(&name, &changed));
            }
            Request::DatasetInherit { name, property } => {
                self.pools.inherit_property(&name, &property)?;
                remarks.extend(self.pools.mounts_stay(&name, &[&property]));
            }
            Request::DatasetRename { from, to } => self.pools.rename_dataset(&from, &to)?,
            other => unreachable!("{other:?} is a question, or was carried out before"),
        }
        Ok(Reply::Done(remarks))
    }

    /// What whoever has set this on a dataset should know besides.
    fn remarks(&self, dataset: &str, assignments: &[Assignment]) -> Vec<String> {
        let mut remarks = self.reach(assignments);
        remarks.extend(self.pools.is_ignored(dataset, assignments));
        if assignments.iter().any(|assignment| assignment.property == "sharesmb") {
            remarks.extend(self.pools.smb_remarks(dataset));
        }
        remarks
    }

    /// Says so where a rule lets other machines in and the listeners do not.
    fn reach(&self, assignments: &[Assignment]) -> Vec<String> {
        let rules = assignments.iter().filter(|assignment| assignment.property == "sharenfs");
        let far = rules.filter_map(|rule| parse_sharenfs(&rule.value).ok()).any(|rules| rules.reaches_other_hosts());
        if far && self.addresses.iter().all(IpAddr::is_loopback) {
            let remark = "note: the daemon listens on this machine's own addresses only; for other machines, start \
                 it with --listen 0.0.0.0 (and --listen ::)";
            return vec![remark.into()];
        }
        Vec::new()
    }
}

/// That something is done, and what else there is to say.
fn done(what: String, remarks: Vec<String>) -> Reply {
    Reply::Done(std::iter::once(what).chain(remarks).collect())
}

/// What an import has to say: in one line, and one for everything that is not as it should be.
pub(super) fn import_remarks(filer: &Filer, report: &ImportReport) -> Vec<String> {
    let mut remarks = vec![outcome(&filer.name(), report)];
    let lost = if filer.pool().read_only() { "missing" } else { "given up" };
    remarks.extend(report.losses.iter().map(|loss| format!("{lost}: {loss}")));
    remarks.extend(report.remarks.iter().map(|remark| format!("note: {remark}")));
    remarks
}

fn outcome(name: &str, report: &ImportReport) -> String {
    if report.records_replayed == 0 {
        return format!("imported pool '{name}'; there was nothing to replay");
    }
    format!(
        "imported pool '{name}': replayed {} acknowledged changes ({}) from the intent log in {:.2} s",
        report.records_replayed,
        tally_base::Size(report.bytes),
        report.duration.as_secs_f64()
    )
}
