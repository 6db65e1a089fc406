//! `tally unmount`, and the unmounts before a pool or dataset goes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::table::Table;
use super::users::users_of;
use super::{Tally, failed, mounts, place};
use crate::cli::completion::Names;
use crate::cli::console::{Console, Failure, Session, ask, print_reply};
use crate::control::client::ClientError;
use crate::control::message::{Reply, Request};
use crate::control::mounts::MountReport;

/// Words of `unmount`.
#[derive(Debug, Args)]
pub struct UnmountArgs {
    /// The directory, or the dataset
    #[arg(value_name = "DIR|DATASET", required_unless_present = "all", conflicts_with = "all", value_hint = ValueHint::DirPath, add = Names::Dataset)]
    what: Option<String>,
    /// All that is mounted
    #[arg(short)]
    all: bool,
    /// At once, with all that is mounted in it, and whoever uses it: nothing is synced, and programs keep what they have open; also where the pool is suspended, or no daemon runs
    #[arg(short, conflicts_with = "all")]
    lazy: bool,
}

/// How long the daemon may take to hear that something is mounted no more.
const HEARS_MAX: Duration = Duration::from_secs(5);
/// How often it is asked.
const HEARS_PAUSE: Duration = Duration::from_millis(5);

/// `tally unmount`.
pub(in crate::cli) fn unmount(
    session: Session<'_>,
    args: &UnmountArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let remarks = match &args.what {
        None => all(session, console)?,
        Some(what) => one(session, what, here, args.lazy, console)?,
    };
    print_reply(session.json, Reply::Done(remarks), console, &|_| None)
}

/// What stands on the command line: a directory as it was mounted on, or a dataset that is mounted in one place.
fn one(
    session: Session<'_>,
    what: &str,
    here: &Path,
    lazy: bool,
    console: &mut Console<'_>,
) -> Result<Vec<String>, Failure> {
    let (typed, table) = (here.join(what), Table::read()?);
    let ours = |dir: &Path| table.at(dir).filter(|there| there.is_ours());
    // What hangs may be what has to be asked for another way to it.
    let dir = if ours(&typed).is_some() { typed } else { place(&typed) };
    let dirs: BTreeSet<&Path> = match ours(&dir) {
        Some(there) => BTreeSet::from([&*there.dir]),
        None => table.ours().filter(|mount| mount.source == what).map(|mount| &*mount.dir).collect(),
    };
    match dirs.into_iter().collect::<Vec<_>>()[..] {
        [only] if lazy => lazily(only).map(|()| Vec::new()),
        [only] => orderly(session, only, Unknown::Refused, console),
        [] => {
            // Without a daemon nobody knows the others.
            mounts(session, console)?;
            let told = format!("{} is no mount of a dataset; `tally mount` shows those there are", dir.display());
            Err(failed(told))
        }
        ref several => {
            let dirs: Vec<_> = several.iter().map(|dir| dir.display().to_string()).collect();
            Err(failed(format!("{what} is mounted on {}: name one of these", dirs.join(" and "))))
        }
    }
}

/// What becomes of a mount that is served, and not by the daemon that was asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// It stays.
    Refused,
    /// As umount(8) would do it without us: what was closed is durable.
    Plainly,
}

/// Unmounts what is mounted there, with all that is in it brought to the disks.
pub(super) fn orderly(
    session: Session<'_>,
    dir: &Path,
    unknown: Unknown,
    console: &mut Console<'_>,
) -> Result<Vec<String>, Failure> {
    let served = mounts(session, console);
    if let Some(mount) = served.as_ref().ok().and_then(|served| served.iter().rfind(|mount| mount.dir == dir)) {
        return synced(session, mount, console);
    }
    let is_dead = Table::read()?.at(dir).is_some_and(|there| there.is_dead());
    match (is_dead, unknown) {
        (true, _) => unserved(dir).map(|told| vec![told]),
        (false, Unknown::Plainly) => {
            hand_over(dir)?;
            plainly(dir).map(|()| Vec::new())
        }
        (false, Unknown::Refused) => {
            served?;
            Err(failed(format!(
                "{} stays mounted: another daemon serves it. Name its socket with --socket, or unmount it with -l, which syncs nothing",
                dir.display()
            )))
        }
    }
}

/// What programs have mapped and changed goes to the daemon, and all of it to the disks: the kernel asks for neither at the end.
fn synced(session: Session<'_>, mount: &MountReport, console: &mut Console<'_>) -> Result<Vec<String>, Failure> {
    let dir = &mount.dir;
    hand_over(dir)?;
    ask(session, &Request::PoolSync { name: mount.pool.clone() }, console)?;
    plainly(dir)?;
    let (begun, is_it) = (Instant::now(), |one: &&MountReport| one.dir == *dir && one.dataset == mount.dataset);
    // Another one may have been mounted there before, and is there again.
    let is_heard = |session, console: &mut Console<'_>| {
        mounts(session, console).is_ok_and(|now| now.iter().filter(is_it).all(|one| one.number != mount.number))
    };
    while !is_heard(session, console) {
        if begun.elapsed() >= HEARS_MAX {
            return Ok(vec![format!(
                "{} is unmounted here, and still served: a container or service with mounts of its own has a copy of it (lsns -t mnt), and keeps the pool from being exported",
                dir.display()
            )]);
        }
        thread::sleep(HEARS_PAUSE);
    }
    Ok(Vec::new())
}

fn hand_over(dir: &Path) -> Result<(), Failure> {
    let open = fs::File::open(dir).map_err(|error| failed(format!("cannot open {}: {error}", dir.display())))?;
    rustix::fs::syncfs(&open)
        .map_err(|errno| failed(format!("{} stays mounted: it cannot be synced: {errno}", dir.display())))
}

fn plainly(dir: &Path) -> Result<(), Failure> {
    rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW).map_err(|errno| match errno {
        Errno::BUSY => {
            let by = in_the_way(&[dir]).unwrap_or_else(|| "by something that shows nowhere".into());
            failed(format!("{} is in use, and stays mounted: {by}", dir.display()))
        }
        errno => not_unmounted(dir, errno),
    })
}

/// What is left of a daemon that is gone: there is nothing that could be synced.
fn unserved(dir: &Path) -> Result<String, Failure> {
    lazily(dir)?;
    Ok(format!(
        "no daemon served it any more: what was written in {} and neither synced nor closed before that one ended may be lost",
        dir.display()
    ))
}

pub(super) fn lazily(dir: &Path) -> Result<(), Failure> {
    rustix::mount::unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        .map_err(|errno| not_unmounted(dir, errno))
}

fn not_unmounted(dir: &Path, errno: Errno) -> Failure {
    match errno {
        Errno::PERM => failed(format!("cannot unmount {}: {errno}; that is root's (sudo)", dir.display())),
        Errno::NOTCONN => failed(format!(
            "cannot unmount {}: {errno}; it lies in another mount whose daemon is gone, and goes along with that",
            dir.display()
        )),
        errno => failed(format!("cannot unmount {}: {errno}", dir.display())),
    }
}

/// What keeps these from being unmounted together: programs that use them, and what else is mounted in them.
fn in_the_way(dirs: &[&Path]) -> Option<String> {
    let table = Table::read().ok()?;
    let devices = dirs.iter().filter_map(|dir| Some(table.at(dir)?.device)).collect();
    let is_going = |dir: &Path| dirs.contains(&dir);
    let beneath = dirs.iter().flat_map(|dir| table.below(dir)).find(|mount| !is_going(&mount.dir));
    let beneath = beneath.map(|mount| format!("{} is mounted on {} in it", mount.what(), mount.dir.display()));
    users_of(devices).or(beneath)
}

/// `tally unmount -a`: whatever lies in another one first. One that stays keeps none of the others.
fn all(session: Session<'_>, console: &mut Console<'_>) -> Result<Vec<String>, Failure> {
    let served = match mounts(session, console) {
        // What is left of a daemon that is gone goes without one.
        Err(Failure::Client(ClientError::NoDaemon { .. })) => Vec::new(),
        served => served?,
    };
    let table = Table::read()?;
    let is_served = |dir: &Path| served.iter().any(|mount| mount.dir == dir);
    let dirs: BTreeSet<&Path> = table.ours().map(|mount| &*mount.dir).filter(|dir| is_served(dir)).collect();
    let (mut tally, mut remarks) = (Tally::default(), Vec::new());
    for dir in dirs.into_iter().rev() {
        // What somebody else has mounted over one of ours is his.
        if let Some(over) = Table::read()?.at(dir).filter(|there| !there.is_ours()) {
            let told =
                format!("{} stays mounted: {} is mounted over it; unmount that first", dir.display(), over.what());
            tally.failed(failed(told), console)?;
            continue;
        }
        match orderly(session, dir, Unknown::Refused, console) {
            Ok(told) => remarks.extend(told),
            // systemd has unmounted it meanwhile.
            Err(_) if !Table::read()?.ours().any(|there| there.dir == *dir) => {}
            Err(failure) => tally.failed(failure, console)?,
        }
    }
    for dir in outermost_dead(&table, is_served) {
        match unserved(dir) {
            Ok(told) => remarks.push(told),
            Err(failure) => tally.failed(failure, console)?,
        }
    }
    tally.end().map(|()| remarks)
}

/// What nobody serves any more, but for what lies in another such one: no way leads there, and it goes along with that.
pub(super) fn outermost_dead(table: &Table, is_served: impl Fn(&Path) -> bool) -> BTreeSet<&Path> {
    let dead = table.ours().filter(|mount| !is_served(&mount.dir) && mount.is_dead());
    let dead: BTreeSet<&Path> = dead.map(|mount| &*mount.dir).collect();
    let is_in_another = |dir: &Path| dir.ancestors().skip(1).any(|above| dead.contains(above));
    dead.iter().copied().filter(|dir| !is_in_another(dir)).collect()
}

/// Unmounts what this machine has mounted of a pool, or of a dataset and those below it, where nothing uses it. What uses it is named, and then all of it stays: also where
/// what comes behind it would be refused, as far as that can be tried.
pub(in crate::cli) fn release(
    session: Session<'_>,
    name: &str,
    behind: Option<&Request>,
    console: &mut Console<'_>,
) -> Result<Vec<String>, Failure> {
    let (table, served) = (Table::read()?, mounts(session, console)?);
    let is_meant = |mount: &&MountReport| mount.is_of(name);
    // One that is mounted where this process does not see it stays, and the daemon says so.
    let is_here = |mount: &&MountReport| table.at(&mount.dir).is_some_and(|there| there.is_ours());
    let going: BTreeSet<&Path> = served.iter().filter(is_meant).filter(is_here).map(|mount| &*mount.dir).collect();
    let dirs: Vec<&Path> = going.into_iter().rev().collect();
    if dirs.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(behind) = behind {
        ask(session, &Request::PoolTry { what: Box::new(behind.clone()) }, console)?;
    }
    if let Some(by) = in_the_way(&dirs) {
        let where_to = dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
        return Err(failed(format!("'{name}' stays as it is: what is mounted on {where_to} is in use: {by}")));
    }
    for dir in &dirs {
        orderly(session, dir, Unknown::Refused, console)?;
    }
    Ok(dirs.iter().map(|dir| format!("unmounted {}", dir.display())).collect())
}
