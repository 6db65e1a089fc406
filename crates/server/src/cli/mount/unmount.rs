//! `tally unmount`, and the unmounts before a pool or dataset goes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::standing::{is_dead, outermost_dead};
use super::users::users_of;
use super::{Tally, failed, mounts, place, place_of, served_at};
use crate::cli::completion::Names;
use crate::cli::console::{Console, Failure, Session, ask, print_reply};
use crate::control::client::ClientError;
use crate::control::message::{Reply, Request};
use crate::control::mounts::MountReport;
use crate::mount_table::{Mounted, Table};

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
    let (served, table) = (mounts(session, console), Table::read()?);
    let there = table.at(dir);
    if let Some(mount) = there.and_then(|there| served_at(there, served.as_ref().ok()?)) {
        return synced(session, mount, dir, console);
    }
    match (there.is_some_and(is_dead), unknown) {
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
fn synced(
    session: Session<'_>,
    mount: &MountReport,
    dir: &Path,
    console: &mut Console<'_>,
) -> Result<Vec<String>, Failure> {
    hand_over(dir)?;
    ask(session, &Request::PoolSync { name: mount.pool.clone() }, console)?;
    plainly(dir)?;
    let (begun, is_it) = (Instant::now(), |one: &&MountReport| one.dir == mount.dir && one.dataset == mount.dataset);
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
            let by = Table::read().ok().and_then(|table| in_the_way(&table, &[table.at(dir)?]));
            let by = by.unwrap_or_else(|| "by something that shows nowhere".into());
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
fn in_the_way(table: &Table, going: &[&Mounted]) -> Option<String> {
    let devices: BTreeSet<_> = going.iter().map(|there| there.device).collect();
    let is_going = |mount: &Mounted| devices.contains(&mount.device);
    let beneath = going.iter().flat_map(|there| table.below(&there.dir)).find(|mount| !is_going(mount));
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
    let is_served = |there: &&Mounted| served_at(there, &served).is_some();
    let dirs: BTreeSet<&Path> = table.ours().filter(is_served).map(|there| &*there.dir).collect();
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
    for dir in outermost_dead(&table, &served) {
        match unserved(dir) {
            Ok(told) => remarks.push(told),
            Err(failure) => tally.failed(failure, console)?,
        }
    }
    tally.end().map(|()| remarks)
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
    let meant = || served.iter().filter(|mount| mount.is_of(name));
    // What is mounted where this process does not see it stays, and the daemon says so; what uses one that was detached can be named.
    let detached = meant().filter(|mount| place_of(mount, &table).is_none());
    let detached = detached.filter_map(|mount| Some((mount, users_of(BTreeSet::from([mount.device?]))?))).next();
    if let Some((mount, by)) = detached {
        let told = format!("'{name}' stays as it is: {} was mounted on {}", mount.dataset, mount.dir.display());
        return Err(failed(format!("{told}, is not any more, and is still in use: {by}")));
    }
    let mut going: Vec<&Mounted> = meant().filter_map(|mount| place_of(mount, &table)).collect();
    if going.is_empty() {
        return Ok(Vec::new());
    }
    let goes = |device| going.iter().any(|there| there.device == device);
    if let Some(over) = going.iter().filter_map(|there| table.at(&there.dir)).find(|top| !goes(top.device)) {
        let dir = over.dir.display();
        return Err(failed(format!(
            "'{name}' stays as it is: {} is mounted over what is mounted of it on {dir}; unmount that first (umount {dir})",
            over.what()
        )));
    }
    // Whatever lies in another one, or over it, comes before it.
    going.sort_by(|a, b| a.dir.cmp(&b.dir));
    going.reverse();
    if let Some(behind) = behind {
        ask(session, &Request::PoolTry { what: Box::new(behind.clone()) }, console)?;
    }
    let dirs: Vec<_> = going.iter().map(|there| there.dir.display().to_string()).collect();
    if let Some(by) = in_the_way(&table, &going) {
        let where_to = dirs.join(", ");
        return Err(failed(format!("'{name}' stays as it is: what is mounted on {where_to} is in use: {by}")));
    }
    for there in &going {
        orderly(session, &there.dir, Unknown::Refused, console)?;
    }
    Ok(dirs.iter().map(|dir| format!("unmounted {dir}")).collect())
}
