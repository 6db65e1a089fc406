//! `tally mount` and `tally unmount`: datasets on this machine.
//!
//! The daemon serves a mount and does not make it: this command opens /dev/fuse, mounts, and hands the descriptor over beside its request. What is mounted is so for all who are in its mount
//! namespace, and the daemon need not be in it.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use clap::{Args, ValueHint};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::completion::Names;
use super::console::{Console, Failure, Session, ask, print_reply};
use super::table::{Align, Table, TableArgs};
use crate::control::client::Client;
use crate::control::message::{Reply, Request};
use crate::control::mounts::MountReport;

/// Words of `mount`.
#[derive(Debug, Args)]
pub struct MountArgs {
    /// Which dataset; none: show what is mounted
    #[arg(requires = "dir", add = Names::Dataset)]
    dataset: Option<String>,
    /// On which directory of this machine
    #[arg(value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    table: TableArgs,
}

/// Words of `unmount`.
#[derive(Debug, Args)]
pub struct UnmountArgs {
    /// The directory
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

const DEVICE: &str = "/dev/fuse";
/// What programs that list mounts show.
const KIND: &str = "fuse.tally";
/// How long the daemon may take to hear that something is mounted no more.
const HEARS_MAX: Duration = Duration::from_secs(5);

/// `tally mount`.
pub(super) fn mount(
    session: Session<'_>,
    args: &MountArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let (Some(dataset), Some(dir)) = (&args.dataset, &args.dir) else {
        let reply = ask(session, &Request::Mounts, console)?;
        return print_reply(session.json, reply, console, &|reply| match reply {
            Reply::Mounts(mounts) => Some(list(mounts, args.table)),
            _ => None,
        });
    };
    let dir = here.join(dir);
    let dir = fs::canonicalize(&dir).map_err(|error| failed(format!("cannot mount on {}: {error}", dir.display())))?;
    if !dir.is_dir() {
        return Err(failed(format!("{} is no directory; make one to mount on", dir.display())));
    }
    // Before anything is mounted that would have to be taken away again.
    ask(session, &Request::DatasetList { names: vec![dataset.clone()], recursive: false, users: Vec::new() }, console)?;
    let mut client = Client::connect(session.socket)?;
    let device = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {DEVICE}: load the kernel's module (modprobe fuse)"),
            io::ErrorKind::PermissionDenied => format!("cannot open {DEVICE}: {error}; mounting is root's (sudo)"),
            _ => format!("cannot open {DEVICE}: {error}"),
        })
    })?;
    let options =
        format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device.as_raw_fd());
    let options = CString::new(options).map_err(io::Error::from)?;
    rustix::mount::mount(dataset.as_str(), &dir, KIND, MountFlags::NODEV | MountFlags::NOSUID, options.as_c_str())
        .map_err(|errno| match errno {
            Errno::PERM => failed(format!("cannot mount on {}: {errno}; mounting is root's (sudo)", dir.display())),
            errno => failed(format!("cannot mount on {}: {errno}", dir.display())),
        })?;
    let request = Request::Mount { dataset: dataset.clone(), dir: dir.clone() };
    let reply = client.ask_with(&request, device.as_fd()).inspect_err(|_| {
        // Nobody serves it. Should this fail as well, whoever looks there is told that its other end is gone.
        let _ = rustix::mount::unmount(&dir, UnmountFlags::DETACH);
    })?;
    print_reply(session.json, reply, console, &|_| None)
}

/// `tally unmount`.
pub(super) fn unmount(
    session: Session<'_>,
    args: &UnmountArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let dir = place(&here.join(&args.dir));
    let mounts = mounts(session, console);
    let Some(mount) = mounts.as_ref().ok().and_then(|mounts| mounts.iter().rfind(|mount| mount.dir == dir)) else {
        return unmount_unserved(session, &dir, mounts.err(), console);
    };
    // What programs have mapped and changed goes to the daemon, and all of it to the disks: the kernel asks for neither at the end.
    let open = fs::File::open(&dir).map_err(|error| failed(format!("cannot open {}: {error}", dir.display())))?;
    rustix::fs::syncfs(&open)
        .map_err(|errno| failed(format!("{} stays mounted: it cannot be synced: {errno}", dir.display())))?;
    drop(open);
    ask(session, &Request::PoolSync { name: mount.pool.clone() }, console)?;
    detach(&dir, UnmountFlags::NOFOLLOW)?;
    let (begun, is_it) = (Instant::now(), |one: &MountReport| one.dir == mount.dir && one.dataset == mount.dataset);
    let count = mounts_of(&mounts, &is_it);
    while begun.elapsed() < HEARS_MAX && mounts_of(&self::mounts(session, console), &is_it) >= count {
        thread::sleep(Duration::from_millis(5));
    }
    print_reply(session.json, Reply::Done(Vec::new()), console, &|_| None)
}

fn mounts(session: Session<'_>, console: &mut Console<'_>) -> Result<Vec<MountReport>, Failure> {
    match ask(session, &Request::Mounts, console)? {
        Reply::Mounts(mounts) => Ok(mounts),
        _ => Err(Failure::Mismatch),
    }
}

fn mounts_of(mounts: &Result<Vec<MountReport>, Failure>, which: &dyn Fn(&MountReport) -> bool) -> usize {
    mounts.as_ref().map_or(0, |mounts| mounts.iter().filter(|mount| which(mount)).count())
}

/// A mount whose daemon is gone, or has been started anew since: there is nothing that could be synced.
fn unmount_unserved(
    session: Session<'_>,
    dir: &Path,
    why: Option<Failure>,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    if !is_ours(&table, dir) {
        return Err(why.unwrap_or_else(|| {
            failed(format!("{} is no mount of a dataset; `tally mount` shows those there are", dir.display()))
        }));
    }
    detach(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
    let told = "no daemon served it any more: what was written there and neither synced nor closed before that one ended may be lost";
    print_reply(session.json, Reply::Done(vec![told.into()]), console, &|_| None)
}

fn detach(dir: &Path, how: UnmountFlags) -> Result<(), Failure> {
    rustix::mount::unmount(dir, how).map_err(|errno| match errno {
        Errno::BUSY => {
            failed(format!("{0} is in use, and stays mounted: `fuser -vm {0}` shows by whom", dir.display()))
        }
        Errno::PERM => failed(format!("cannot unmount {}: {errno}; that is root's (sudo)", dir.display())),
        errno => failed(format!("cannot unmount {}: {errno}", dir.display())),
    })
}

/// The directory as it was mounted on. It is not looked at itself: one whose daemon is gone cannot be.
fn place(dir: &Path) -> PathBuf {
    let above = dir.parent().and_then(|above| fs::canonicalize(above).ok());
    match (above, dir.file_name()) {
        (Some(above), Some(name)) => above.join(name),
        _ => fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf()),
    }
}

/// Whether what is mounted there is a dataset, by the kernel's table (proc_pid_mountinfo(5)).
fn is_ours(table: &str, dir: &Path) -> bool {
    let is_it = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let at = before.split(' ').nth(4)?;
        (Path::new(&unescaped(at)) == dir).then(|| behind.split(' ').next() == Some(KIND))
    };
    // The last one covers those before it.
    table.lines().filter_map(is_it).next_back().unwrap_or(false)
}

/// Blanks and such stand there in octal.
fn unescaped(word: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(word.to_owned(), |word, (code, letter)| word.replace(code, letter))
}

fn failed(why: String) -> Failure {
    Failure::Mount(why)
}

fn list(mounts: &[MountReport], style: TableArgs) -> String {
    let mut table = Table::new(&[
        ("DATASET", Align::Left),
        ("MOUNTED ON", Align::Left),
        ("SINCE", Align::Right),
        ("WAITING", Align::Right),
    ]);
    for mount in mounts {
        let since = if style.exact { mount.since_seconds.to_string() } else { format!("{} s", mount.since_seconds) };
        table.row(vec![mount.dataset.clone(), mount.dir.display().to_string(), since, mount.waiting.to_string()]);
    }
    table.print(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_last_on_a_directory_is_what_is_there() {
        let table = "36 35 0:42 / /srv/my\\040files rw,nosuid - fuse.tally tank/a rw\n\
                     37 35 0:43 / /srv/b rw - fuse.tally tank/b rw\n\
                     38 35 0:44 / /srv/b rw - tmpfs none rw\n";
        assert!(is_ours(table, Path::new("/srv/my files")));
        assert!(!is_ours(table, Path::new("/srv/b")), "something else covers it");
        assert!(!is_ours(table, Path::new("/srv/c")));
    }
}
