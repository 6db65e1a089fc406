//! `tally doctor`: what is wrong or will be, one line for each check, and what to do about it.
//!
//! It asks the daemon as every command does, looks at the machine besides, and changes nothing. What is well is told, too: whoever reads
//! the list knows what was looked at.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tally_base::Size;

use super::console::{Console, Failure, Session, soon};
use super::mount::{Standing, mountpoints, whether_accepted};
use super::sandbox::{OutOfReach, Sandbox};
use super::smb::{SMB_CONF, Samba};
use rustix::process::Pid;

use crate::control::client::Client;
use crate::control::message::{Reply, Request};
use crate::control::mounts::MountReport;
use crate::control::observation::Observation;
use crate::control::report::{PoolReport, PropertyLine, VdevReport};
use crate::control::server::ServerReport;
use crate::control::smb::SmbReport;
use crate::dates::utc;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// What one check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    /// What is so.
    found: String,
    /// What to do, where there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), todo: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { check, level: Level::Warn, found: found.into(), todo: Some(todo.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(check, found, todo) }
    }

    fn line(&self) -> String {
        let level = match self.level {
            Level::Ok => "OK",
            Level::Warn => "WARN",
            Level::Fail => "FAIL",
        };
        let todo = self.todo.as_ref().map(|todo| format!("; {todo}")).unwrap_or_default();
        format!("{level:<4}  {:<10} {}{todo}", self.check, self.found).replace('\n', " ")
    }
}

/// All that checks go by.
struct Facts {
    server: ServerReport,
    seen: Observation,
    smb: SmbReport,
    samba: Samba,
    /// The time of the newest event, in ns since 1970.
    newest_event_ns: u64,
    now: Duration,
    /// Log devices whose cache is volatile.
    volatile_logs: BTreeSet<String>,
    /// Disks that the unit's settings keep from the daemon, where there is a unit.
    out_of_reach: Option<Vec<OutOfReach>>,
    mounts: Standing,
    /// Nobody knows, as the machine has not said for so long.
    is_machine_silent: bool,
}

/// What the daemon says.
struct Answers {
    server: ServerReport,
    seen: Observation,
    smb: SmbReport,
    newest_event_ns: u64,
    daemon: Option<Pid>,
    mounts: Vec<MountReport>,
    mountpoints: Vec<PropertyLine>,
    /// Of pools: whether that is accepted.
    accepted: Vec<PropertyLine>,
}

/// A scrub is older than this when a monthly one was left out.
const SCRUB_SECONDS_MAX: u64 = 40 * 24 * 3600;
/// One that is so late does not come by itself.
const OVERDUE_SECONDS_MAX: u64 = 10 * 24 * 3600;
/// A pool that is fuller finds long stretches of free space no more.
const FULL_PERCENT: u64 = 80;
/// Nearly nothing is left.
const FULLEST_PERCENT: u64 = 95;
/// A pool takes no vdev more, and does not see that a disk has grown.
const NO_ROOM: &str = "remove something, or make a pool of larger disks and copy to that: a pool does not grow yet";
/// A ring that is fuller at some moment has groups that do not keep up.
const RING_PERCENT: u64 = 90;
/// So long an answer is waited for: a daemon that says nothing is what is wrong.
const PATIENCE: Duration = Duration::from_secs(20);
/// And one of the machine's: it is not what was asked about.
const MACHINE_PATIENCE: Duration = Duration::from_secs(10);
/// As far as clocks of one machine may be apart.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// `tally doctor`.
pub(super) fn run(session: Session<'_>, console: &mut Console<'_>) -> Result<(), Failure> {
    let socket = session.socket.map(Path::to_owned);
    let asked = soon(PATIENCE, move || ask(socket.as_deref()));
    let findings = match asked.unwrap_or(Err(Failure::Silent(PATIENCE))) {
        Ok(answers) => examine(&Facts::of(answers)),
        Err(silent @ Failure::Silent(_)) => {
            let todo = "look into its log (journalctl -u tally) for what it waits for; a restart (systemctl restart tally) costs nothing, as clients wait";
            vec![Finding::fail("daemon", silent.to_string(), todo)]
        }
        Err(failure) => {
            let told = failure.to_string();
            let (found, todo) =
                told.split_once('\n').unwrap_or((&told, "Restart it (systemctl restart tally): clients wait for it."));
            vec![Finding::fail("daemon", found, format!("{todo} Nothing else can be looked at without it"))]
        }
    };
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (warned, failed) = (count(Level::Warn), count(Level::Fail));
    if session.json {
        writeln!(console.out, "{}", serde_json::to_string_pretty(&findings)?)?;
    } else {
        findings.iter().try_for_each(|finding| writeln!(console.out, "{}", finding.line()))?;
    }
    if warned + failed == 0 { Ok(()) } else { Err(Failure::Unwell { warned, failed }) }
}

/// Asks the daemon.
fn ask(socket: Option<&Path>) -> Result<Answers, Failure> {
    let mut client = Client::connect(socket)?;
    let Reply::Server(server) = client.ask(&Request::Server, &mut |_| {})? else { return Err(Failure::Mismatch) };
    let Reply::Observation(seen) = client.ask(&Request::Observe, &mut |_| {})? else { return Err(Failure::Mismatch) };
    let Reply::Events(events) = client.ask(&Request::Events { since: 0 }, &mut |_| {})? else {
        return Err(Failure::Mismatch);
    };
    let newest_event_ns = events.iter().map(|event| event.time_ns).max().unwrap_or(0);
    // A daemon of before does not know the question.
    let smb = match client.ask(&Request::Smb, &mut |_| {}) {
        Ok(Reply::Smb(smb)) => smb,
        _ => SmbReport::default(),
    };
    let Reply::Mounts(mounts) = client.ask(&Request::Mounts, &mut |_| {})? else { return Err(Failure::Mismatch) };
    // A daemon of before knows no such property.
    let mountpoints = match client.ask(&mountpoints(Vec::new()), &mut |_| {}) {
        Ok(Reply::Properties(lines)) => lines,
        _ => Vec::new(),
    };
    let accepted = match client.ask(&whether_accepted(), &mut |_| {}) {
        Ok(Reply::Properties(lines)) => lines,
        _ => Vec::new(),
    };
    let daemon = client.daemon();
    Ok(Answers { server, seen: *seen, smb, newest_event_ns, daemon, mounts, mountpoints, accepted })
}

impl Facts {
    /// What the daemon says, and the machine: whoever looks at a disk that hangs, or asks a systemd that does, is not waited for.
    fn of(answers: Answers) -> Self {
        let Answers { server, seen, smb, newest_event_ns, daemon, mounts, mountpoints, accepted } = answers;
        let names = |is_it: &dyn Fn(&VdevReport) -> bool| -> Vec<String> {
            let vdevs = seen.pools.iter().flat_map(|pool| &pool.vdevs).filter(|vdev| is_it(vdev));
            vdevs.flat_map(legs).map(|leg| leg.name.clone()).collect()
        };
        let (logs, all) = (names(&|vdev| vdev.class == "log"), names(&|_| true));
        let told = soon(MACHINE_PATIENCE, move || {
            let volatile_logs = logs.into_iter().filter(|path| is_volatile(Path::new(path))).collect();
            let objections =
                |sandbox: Sandbox| all.iter().filter_map(|leg| sandbox.objection(Path::new(leg))).collect();
            let standing = Standing::of(&mounts, mountpoints, &accepted);
            (volatile_logs, daemon.and_then(Sandbox::of_daemon).map(objections), standing)
        });
        let is_machine_silent = told.is_none();
        let (volatile_logs, out_of_reach, mounts) = told.unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let samba = Samba::look(&smb, Path::new(SMB_CONF));
        Self { server, seen, smb, samba, newest_event_ns, now, volatile_logs, out_of_reach, mounts, is_machine_silent }
    }
}

/// The disks of a vdev.
fn legs(vdev: &VdevReport) -> Vec<&VdevReport> {
    if vdev.children.is_empty() { vec![vdev] } else { vdev.children.iter().flat_map(legs).collect() }
}

/// Whether a device says of itself that a power cut takes what it has not been told to flush.
fn is_volatile(path: &Path) -> bool {
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    let Some(name) = path.strip_prefix("/dev").ok().and_then(Path::to_str) else { return false };
    // A partition has its disk's queue, which is one folder up.
    let Ok(device) = std::fs::canonicalize(format!("/sys/class/block/{name}")) else { return false };
    let caches = ["queue/write_cache", "../queue/write_cache"].map(|cache| std::fs::read_to_string(device.join(cache)));
    caches.into_iter().flatten().next().is_some_and(|cache| cache.trim() == "write back")
}

fn examine(facts: &Facts) -> Vec<Finding> {
    let Facts { server, seen, .. } = facts;
    let mut findings = vec![daemon(server)];
    if seen.pools.is_empty() {
        findings.push(Finding::warn(
            "pool",
            "no pool is imported",
            "make one with `tally init`, or bring one with `tally pool import`",
        ));
    }
    for pool in &seen.pools {
        findings.extend(health(pool));
        if pool.is_imported() {
            findings.extend([scrub(pool, facts.now.as_secs()), space(pool), features(pool)]);
            findings.extend(ring(pool));
        }
    }
    findings.extend(sync(seen));
    findings.extend(facts.volatile_logs.iter().map(|path| {
        let found =
            format!("{path} has a cache that a power cut empties, so that each durable write waits for a flush");
        Finding::warn(
            "log",
            found,
            "a device with power-loss protection answers sooner; `tally advise log` measures one",
        )
    }));
    if facts.is_machine_silent {
        let seconds = MACHINE_PATIENCE.as_secs();
        let found = format!(
            "systemd, or what is below a disk, has said nothing for {seconds} s: whether the service gets at all disks is not known"
        );
        findings.push(Finding::warn("machine", found, "see whether `systemctl show tally` answers"));
    }
    findings.extend(facts.out_of_reach.iter().flat_map(|disks| sandbox(disks)));
    findings.extend(mounted(&facts.mounts));
    findings.push(exports(server));
    findings.extend(smb(facts));
    findings.extend([portmapper(server), clock(facts)]);
    findings
}

fn daemon(server: &ServerReport) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    if server.version == ours {
        return Finding::ok("daemon", format!("version {ours} serves at port {}", server.port));
    }
    let found = format!("the daemon is version {}, and this program {ours}", server.version);
    Finding::warn(
        "daemon",
        found,
        "restart the daemon (systemctl restart tally): clients wait for it, and lose nothing",
    )
}

fn health(pool: &PoolReport) -> Vec<Finding> {
    let name = &pool.name;
    let todo = format!("`tally pool status -v {name}` tells more");
    let mut findings = Vec::new();
    match &*pool.state {
        "ONLINE" if pool.is_well() => {
            findings.push(Finding::ok("pool", format!("{name} is ONLINE, and nothing of it is damaged")))
        }
        "ONLINE" => {}
        "DEGRADED" => findings.push(Finding::warn("pool", format!("{name} is DEGRADED"), &*todo)),
        state => findings.push(Finding::fail("pool", format!("{name} is {state}"), &*todo)),
    }
    findings.extend(pool.messages.iter().map(|message| Finding::warn("pool", format!("{name}: {message}"), &*todo)));
    let damaged = pool.damage.len() as u64 + pool.damage_beyond + pool.unrepaired;
    if damaged > 0 {
        findings.push(Finding::fail("pool", format!("{name}: {damaged} places cannot be read"), &*todo));
    }
    if findings.is_empty() {
        findings.push(Finding::warn("pool", format!("{name} is ONLINE, and not well"), todo));
    }
    findings
}

fn scrub(pool: &PoolReport, now: u64) -> Finding {
    let name = &pool.name;
    let last = pool.scrub.as_ref();
    if let Some(scrub) = last.filter(|scrub| scrub.errors > 0) {
        let found = format!("the last scrub of {name} found {} errors", scrub.errors);
        return Finding::fail("scrub", found, format!("`tally pool status -v {name}` names them"));
    }
    let words = last.map_or_else(|| "it was not scrubbed yet".to_owned(), |scrub| scrub.words.clone());
    // The pool begins one by itself, but not while its disks are busy with something else.
    if let Some(due) = pool.scrub_due.filter(|due| now < due.saturating_add(OVERDUE_SECONDS_MAX)) {
        return Finding::ok("scrub", format!("{name}: {words}; the next one is due on {} UTC", utc(due)));
    }
    let todo = format!("`tally pool scrub {name}`, and `tally pool set scrub=monthly {name}` for the next ones");
    match last.map(|scrub| now.saturating_sub(scrub.changed)) {
        Some(age) if age <= SCRUB_SECONDS_MAX => Finding::ok("scrub", format!("{name}: {words}")),
        Some(age) => {
            Finding::warn("scrub", format!("the last scrub of {name} was {} days ago", age / (24 * 3600)), todo)
        }
        None => Finding::warn("scrub", format!("{name} was never scrubbed: what rots is found when it is read"), todo),
    }
}

fn space(pool: &PoolReport) -> Finding {
    let percent = pool.allocated.saturating_mul(100).checked_div(pool.size).unwrap_or(0);
    let found = format!("{} is {percent} % full, {} free", pool.name, Size(pool.free));
    match percent {
        FULLEST_PERCENT.. => Finding::fail("space", found, NO_ROOM),
        FULL_PERCENT.. => Finding::warn("space", found, format!("from here on writes become slower; {NO_ROOM}")),
        _ => Finding::ok("space", found),
    }
}

fn features(pool: &PoolReport) -> Finding {
    let lacking = pool.features.iter().filter(|feature| feature.lacking).count();
    if lacking == 0 {
        return Finding::ok("features", format!("{} has all that this version knows", pool.name));
    }
    let found = format!("{lacking} features of this version are not enabled in {}", pool.name);
    // To leave them is a choice, for a way back to an older version.
    Finding::ok(
        "features",
        format!("{found}; `tally pool upgrade {}` enables them, and older versions import it no more", pool.name),
    )
}

fn ring(pool: &PoolReport) -> Vec<Finding> {
    let of_lane = |used: u64, size: u64| used.saturating_mul(100).checked_div(size).unwrap_or(0);
    let fullest = pool.lanes.iter().map(|lane| of_lane(lane.used, lane.size)).max();
    let Some(percent) = fullest else { return Vec::new() };
    let found = format!("the intent log of {} is {percent} % full", pool.name);
    let todo = "the disks do not keep up with their clients: `tally pool iostat -l` shows which is slow";
    vec![if percent >= RING_PERCENT { Finding::warn("log", found, todo) } else { Finding::ok("log", found) }]
}

fn sync(seen: &Observation) -> Vec<Finding> {
    let disabled = seen.datasets.iter().filter(|dataset| dataset.sync == "disabled");
    let of_one = |name: &str, bytes: u64| {
        let found = format!(
            "{name} has sync=disabled: a power cut takes what clients were told is stable ({} now)",
            Size(bytes)
        );
        Finding::warn("sync", found, format!("`tally dataset inherit sync {name}`, unless all of it can be made again"))
    };
    let findings: Vec<_> = disabled.map(|dataset| of_one(&dataset.dataset.name, dataset.exposed_bytes)).collect();
    if findings.is_empty() { vec![Finding::ok("sync", "no dataset has sync=disabled")] } else { findings }
}

fn sandbox(out_of_reach: &[OutOfReach]) -> Vec<Finding> {
    let warn = |OutOfReach { found, todo }: &OutOfReach| Finding::warn("sandbox", found.as_str(), todo.as_str());
    match out_of_reach {
        [] => vec![Finding::ok("sandbox", "tally.service gets at the disks of all pools")],
        disks => disks.iter().map(warn).collect(),
    }
}

fn mounted(mounts: &Standing) -> Vec<Finding> {
    let missing = mounts.missing.iter().map(|(dataset, dir)| {
        let found = format!("{dataset} has mountpoint={}, and is not mounted", dir.display());
        Finding::warn(
            "mount",
            found,
            "`tally mount -a` mounts it, or says why not; it is what tally-mount.service does",
        )
    });
    let dead = mounts.dead_lines().map(|line| {
        let (found, todo) = line.split_once(": ").unwrap_or((&line, ""));
        Finding::fail("mount", found, todo)
    });
    let ignored = mounts.ignored.iter().map(|ignored| Finding::warn("mount", ignored.found(), ignored.todo()));
    let findings: Vec<_> = dead.chain(missing).chain(ignored).collect();
    match mounts.served {
        _ if !findings.is_empty() => findings,
        1 => vec![Finding::ok("mount", "this machine has 1 dataset mounted")],
        count => vec![Finding::ok("mount", format!("this machine has {count} datasets mounted"))],
    }
}

fn exports(server: &ServerReport) -> Finding {
    if server.exports == 0 {
        return Finding::warn(
            "exports",
            "nothing is exported",
            "`tally dataset set sharenfs='192.168.1.0/24(rw)' POOL` lets a network in",
        );
    }
    if server.exports_to_others && server.addresses.iter().all(std::net::IpAddr::is_loopback) {
        let found = "sharenfs lets other machines in, and the daemon listens on this machine's own addresses only";
        return Finding::fail("exports", found, "listen = [\"0.0.0.0\", \"::\"] in /etc/tally/tally.toml, or --listen");
    }
    let whom = if server.exports_to_others { "other machines" } else { "this machine alone" };
    Finding::ok("exports", format!("datasets that are exported: {}, to {whom}", server.exports))
}

fn smb(Facts { smb, samba, .. }: &Facts) -> Vec<Finding> {
    let of_samba = samba.troubles(smb).into_iter().map(|(found, todo)| Finding::warn("smb", found, todo));
    let away = smb.shares.iter().filter_map(|share| {
        let problem = share.problem.as_deref()?;
        let (found, todo) = problem.split_once("; ").unwrap_or((problem, "`tally smb` shows all shares"));
        Some(Finding::warn("smb", format!("{} is not shared: {found}", share.dataset), todo))
    });
    let findings: Vec<_> = of_samba.chain(away).collect();
    match smb.shares.len() {
        _ if !findings.is_empty() => findings,
        0 => vec![Finding::ok("smb", "no dataset is shared by SMB")],
        count => vec![Finding::ok("smb", format!("shares that Samba has: {count}"))],
    }
}

fn portmapper(server: &ServerReport) -> Finding {
    let standing = &server.portmapper;
    match &standing.trouble {
        Some(trouble) => {
            Finding::warn("rpcbind", trouble.clone(), "rpcbind = \"off\" in the configuration if nobody needs it")
        }
        None if standing.is_found => Finding::ok("rpcbind", "clients of NFSv3 find the port by themselves"),
        None if standing.setting == "off" => {
            Finding::ok("rpcbind", format!("off: mounts of NFSv3 name port {}", server.port))
        }
        None => Finding::ok("rpcbind", "only this machine reaches the server (listen): nobody asks for its port"),
    }
}

fn clock(facts: &Facts) -> Finding {
    let ahead = Duration::from_nanos(facts.newest_event_ns).saturating_sub(facts.now);
    if ahead > CLOCK_SLACK {
        let found =
            format!("the newest event is {} s from now: the clock of this machine was put back", ahead.as_secs());
        return Finding::warn("clock", found, "see that its time is kept (timedatectl)");
    }
    Finding::ok("clock", "no event is from the future")
}

#[cfg(test)]
mod tests;
