//! `tally mount` and `tally unmount`: datasets on this machine.
//!
//! The daemon serves a mount and does not make it: this command opens /dev/fuse, mounts, and hands the descriptor over beside its request. What is mounted is so for all who are in its mount
//! namespace, and the daemon need not be in it. So it is this command that goes by `mountpoint` and `canmount`, as it is called by tally-mount.service, and not the daemon.

mod by_name;
mod options;
mod place;
mod standing;
mod unmount;
mod users;
mod wanted;

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

pub use self::by_name::words_by_name;
pub(super) use self::by_name::{MountProgram, UnmountProgram, mount_program, unmount_program};
use self::options::Options;
use self::place::{Care, is_roots, prepare};
pub(super) use self::standing::Standing;
pub(super) use self::unmount::{UnmountArgs, release, unmount};
use self::wanted::{Wanted, by_itself, mountpoint_of};
pub(super) use self::wanted::{request as mountpoints, request_of_pools as whether_accepted};
use super::completion::Names;
use super::console::{Console, Failure, Session, ask, print_reply};
use super::table::{Align, Table, TableArgs};
use crate::control::client::Client;
use crate::control::message::{Reply, Request};
use crate::control::mounts::MountReport;
use crate::mount_table::{self, KIND, Mounted};

/// Words of `mount`.
#[derive(Debug, Args)]
pub struct MountArgs {
    /// All datasets that have a mountpoint and canmount=on, and are not mounted
    #[arg(short, conflicts_with = "dataset")]
    all: bool,
    /// How, in the words of mount(8): ro, noexec, dev, suid; nodev and nosuid are so anyway
    #[arg(short = 'o', value_name = "OPTION,...")]
    options: Vec<String>,
    /// Also over what is in the directory
    #[arg(short = 'O')]
    over: bool,
    /// Which dataset; none: show what is mounted
    #[arg(add = Names::Dataset)]
    dataset: Option<String>,
    /// On which directory of this machine; none: where its property mountpoint says
    #[arg(value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    table: TableArgs,
}

const DEVICE: &str = "/dev/fuse";

/// `tally mount`.
pub(super) fn mount(
    session: Session<'_>,
    args: &MountArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let options = Options::parse(&args.options, false).map_err(Failure::Usage)?;
    let care = if args.over { Care::Over } else { Care::Usual };
    let remarks = match (&args.dataset, &args.dir) {
        (None, _) if args.all => all(session, &options, care, console)?,
        (None, _) => {
            let reply = ask(session, &Request::Mounts, console)?;
            return print_reply(session.json, reply, console, &|reply| match reply {
                Reply::Mounts(mounts) => Some(list(mounts, args.table)),
                _ => None,
            });
        }
        (Some(dataset), dir) => {
            let dir = match dir {
                Some(dir) => here.join(dir),
                None => {
                    let dir = mountpoint_of(session, dataset, console)?;
                    is_roots(&dir, dataset)?;
                    dir
                }
            };
            mount_on(session, dataset, &dir, &options, care, console)?
        }
    };
    print_reply(session.json, Reply::Done(remarks), console, &|_| None)
}

/// `tally mount -a`: whatever lies in another one behind that. One that cannot be mounted keeps none of the others, but for those in it.
fn all(session: Session<'_>, options: &Options, care: Care, console: &mut Console<'_>) -> Result<Vec<String>, Failure> {
    let (mut tally, mut remarks) = (Tally::default(), Vec::new());
    let mut missing: Vec<Wanted> = Vec::new();
    let (wanted, ignored) = by_itself(session, console)?;
    for ignored in ignored {
        tally.failed(failed(format!("{}; {}", ignored.found(), ignored.todo())), console)?;
    }
    for wanted in wanted {
        // One that another one is mounted in place of keeps nothing from that.
        let (table, pool) = (mount_table::Table::read()?, |dataset: &str| dataset.split('/').next().map(str::to_owned));
        let is_around = |around: &&Wanted| {
            wanted.dir.starts_with(&around.dir)
                && pool(&around.dataset) == pool(&wanted.dataset)
                && table.at(&around.dir).is_none_or(|there| !there.is_ours())
        };
        let outcome = match missing.iter().find(is_around) {
            Some(around) => Err(failed(format!(
                "{} is not mounted on {}, which is in {} on {}: that is not mounted",
                wanted.dataset,
                wanted.dir.display(),
                around.dataset,
                around.dir.display()
            ))),
            None => is_roots(&wanted.dir, &wanted.dataset)
                .and_then(|()| mount_on(session, &wanted.dataset, &wanted.dir, options, care, console)),
        };
        match outcome {
            Ok(told) => remarks.extend(told.into_iter().chain([format!(
                "{} is mounted on {}",
                wanted.dataset,
                wanted.dir.display()
            )])),
            Err(failure) => {
                tally.failed(failure, console)?;
                missing.push(wanted);
            }
        }
    }
    tally.end().map(|()| remarks)
}

/// Mounts a dataset on a directory, and gives what there is to say of it.
fn mount_on(
    session: Session<'_>,
    dataset: &str,
    dir: &Path,
    options: &Options,
    care: Care,
    console: &mut Console<'_>,
) -> Result<Vec<String>, Failure> {
    let session = Session { socket: options.socket.as_deref().or(session.socket), ..session };
    // Before anything is made or mounted that would have to be taken away again.
    ask(session, &Request::DatasetList { names: vec![dataset.into()], recursive: false, users: Vec::new() }, console)?;
    let (dir, mut remarks) = prepare(dir, care)?;
    let mut client = Client::connect(session.socket)?;
    let device = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {DEVICE}: load the kernel's module (modprobe fuse)"),
            io::ErrorKind::PermissionDenied => format!("cannot open {DEVICE}: {error}; mounting is root's (sudo)"),
            _ => format!("cannot open {DEVICE}: {error}"),
        })
    })?;
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device.as_raw_fd());
    let data = CString::new(data).map_err(io::Error::from)?;
    rustix::mount::mount(dataset, &dir, KIND, options.flags, data.as_c_str()).map_err(|errno| match errno {
        Errno::PERM => failed(format!("cannot mount on {}: {errno}; mounting is root's (sudo)", dir.display())),
        errno => failed(format!("cannot mount on {}: {errno}", dir.display())),
    })?;
    // The number by which the kernel knows it, whatever becomes of the directory. What is not served yet cannot be asked for it.
    let there = mount_table::Table::read().ok();
    let there = there.as_ref().and_then(|table| table.at(&dir)).filter(|it| it.is_ours() && it.source == dataset);
    let request = Request::Mount { dataset: dataset.into(), dir: dir.clone(), device: there.map(|there| there.device) };
    let reply = client.ask_with(&request, device.as_fd()).inspect_err(|_| {
        // Nobody serves it. Should this fail as well, whoever looks there is told that its other end is gone.
        let _ = rustix::mount::unmount(&dir, UnmountFlags::DETACH);
    })?;
    match reply {
        Reply::Done(told) => remarks.extend(told),
        _ => return Err(Failure::Mismatch),
    }
    Ok(remarks)
}

/// What of many has failed. Each is told when it fails but for the last one, which is the failure of all.
#[derive(Default)]
struct Tally {
    last: Option<Failure>,
}

impl Tally {
    fn failed(&mut self, failure: Failure, console: &mut Console<'_>) -> Result<(), Failure> {
        if let Some(before) = self.last.replace(failure) {
            writeln!(console.err, "tally: {before}")?;
        }
        Ok(())
    }

    fn end(self) -> Result<(), Failure> {
        self.last.map_or(Ok(()), Err)
    }
}

/// What the daemon serves, be it mounted here or not any more.
pub(super) fn mounts(session: Session<'_>, console: &mut Console<'_>) -> Result<Vec<MountReport>, Failure> {
    match ask(session, &Request::Mounts, console)? {
        Reply::Mounts(mounts) => Ok(mounts),
        _ => Err(Failure::Mismatch),
    }
}

/// Where something that is served is mounted, if it is: it may have been detached while a program had it open, or be another container's.
fn place_of<'a>(mount: &MountReport, table: &'a mount_table::Table) -> Option<&'a Mounted> {
    match mount.device {
        Some(device) => table.of(device, &mount.dir),
        // A daemon of before does not know.
        None => table.at(&mount.dir).filter(|there| there.is_ours()),
    }
}

/// Which of those that are served is mounted there.
fn served_at<'a>(there: &Mounted, served: &'a [MountReport]) -> Option<&'a MountReport> {
    let is_it = |mount: &&MountReport| mount.device.map_or(mount.dir == there.dir, |device| device == there.device);
    served.iter().rfind(is_it)
}

/// The directory as it was mounted on. It is not looked at itself: one whose daemon is gone cannot be.
fn place(dir: &Path) -> PathBuf {
    let above = dir.parent().and_then(|above| fs::canonicalize(above).ok());
    match (above, dir.file_name()) {
        (Some(above), Some(name)) => above.join(name),
        _ => fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf()),
    }
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
