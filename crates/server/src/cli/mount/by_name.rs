//! `mount.tally` and `umount.fuse.tally`: this program by other names, as mount(8) and umount(8) call it for what /etc/fstab says.
//!
//! mount(8) looks for `/sbin/mount.TYPE` by the type that it was told, which is `tally`, and umount(8) for `/sbin/umount.TYPE` by the one in the kernel's table, which is `fuse.tally`. Both
//! hand over a directory and options of theirs, of which most mean something to them alone.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::mount::UnmountFlags;

use super::options::Options;
use super::place::Care;
use super::unmount::{Unknown, orderly};
use super::{failed, mount_on, place};
use crate::cli::console::{Console, Failure, Session, print_reply};
use crate::control::message::Reply;
use crate::mount_table::Table;

/// Names of the program, and the command that each is.
const NAMES: [(&str, &str); 3] =
    [("mount.tally", "mount-program"), ("mount.fuse.tally", "mount-program"), ("umount.fuse.tally", "unmount-program")];

/// The words of the command line, with the command that the program's name stands for.
pub fn words_by_name(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let name = words.first().and_then(|word| Path::new(word).file_name()).map(OsStr::to_owned);
    let command = NAMES.iter().find(|(known, _)| name.as_deref() == Some(OsStr::new(known)));
    if let Some((_, command)) = command {
        words.insert(1, command.into());
    }
    words
}

/// Words of `mount.tally`.
#[derive(Debug, Args)]
pub struct MountProgram {
    /// The dataset
    dataset: String,
    /// The directory
    dir: PathBuf,
    /// Options
    #[arg(short = 'o')]
    options: Vec<String>,
    /// Pass over options that are not known
    #[arg(short = 's')]
    sloppy: bool,
    /// Do all but mount
    #[arg(short = 'f')]
    fake: bool,
    /// Do not write /etc/mtab, which nobody does
    #[arg(short = 'n')]
    no_table: bool,
    /// Say more
    #[arg(short = 'v')]
    verbose: bool,
    /// Of mount(8) alone
    #[arg(short = 'N')]
    namespace: Option<String>,
    /// The type, with that behind the dot
    #[arg(short = 't')]
    kind: Option<String>,
}

/// Words of `umount.fuse.tally`.
#[derive(Debug, Args)]
pub struct UnmountProgram {
    /// The directory
    dir: PathBuf,
    /// At once, whoever uses it
    #[arg(short = 'l')]
    lazy: bool,
    /// And whatever is under way comes to nothing
    #[arg(short = 'f')]
    force: bool,
    /// Have it read-only, where it is in use: that is not done
    #[arg(short = 'r')]
    read_only: bool,
    /// Do not write /etc/mtab, which nobody does
    #[arg(short = 'n')]
    no_table: bool,
    /// Say more
    #[arg(short = 'v')]
    verbose: bool,
    /// Of umount(8) alone
    #[arg(short = 'N')]
    namespace: Option<String>,
    /// The type, with that behind the dot
    #[arg(short = 't')]
    kind: Option<String>,
}

/// `mount.tally`.
pub(in crate::cli) fn mount_program(
    session: Session<'_>,
    args: &MountProgram,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let options = Options::parse(&args.options, args.sloppy).map_err(Failure::Usage)?;
    let (dataset, dir) = (dataset(&args.dataset, here), here.join(&args.dir));
    if args.fake {
        return Ok(());
    }
    if options.again {
        let flags = options.flags;
        return rustix::mount::mount_remount(&dir, flags, "")
            .map_err(|errno| failed(format!("cannot mount {} again: {errno}", dir.display())));
    }
    let remarks = mount_on(session, &dataset, &dir, &options, Care::Program, console)?;
    print_reply(session.json, Reply::Done(remarks), console, &|_| None)
}

/// mount(8) makes a path of it where a file of that name lies in the directory it was called in.
fn dataset(word: &str, here: &Path) -> String {
    let name = Path::new(word).strip_prefix(here).ok().and_then(Path::to_str).unwrap_or(word);
    if Path::new(word).is_absolute() { name.to_owned() } else { word.to_owned() }
}

/// `umount.fuse.tally`.
pub(in crate::cli) fn unmount_program(
    session: Session<'_>,
    args: &UnmountProgram,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let dir = place(&here.join(&args.dir));
    if !Table::read()?.at(&dir).is_some_and(|there| there.is_ours()) {
        return Err(failed(format!("{} is no mount of a dataset", dir.display())));
    }
    if !args.lazy && !args.force {
        let remarks = orderly(session, &dir, Unknown::Plainly, console)?;
        return print_reply(session.json, Reply::Done(remarks), console, &|_| None);
    }
    let flags = [(args.lazy, UnmountFlags::DETACH), (args.force, UnmountFlags::FORCE)];
    let flags =
        flags.into_iter().filter(|(is_meant, _)| *is_meant).fold(UnmountFlags::NOFOLLOW, |all, (_, flag)| all | flag);
    rustix::mount::unmount(&dir, flags).map_err(|errno| failed(format!("cannot unmount {}: {errno}", dir.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_command() {
        for (words, expected) in [
            (&["/sbin/mount.tally", "tank", "/srv"][..], &["/sbin/mount.tally", "mount-program", "tank", "/srv"][..]),
            (&["umount.fuse.tally", "/srv"], &["umount.fuse.tally", "unmount-program", "/srv"]),
            (&["/usr/bin/tally", "mount"], &["/usr/bin/tally", "mount"]),
            (&[], &[]),
        ] {
            let words = words_by_name(words.iter().map(OsString::from));
            assert_eq!(words, expected.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_dataset_is_one_whatever_mount_makes_of_it() {
        for (word, here, name) in [
            ("tank/home", "/root", "tank/home"),
            ("/root/tank/home", "/root", "tank/home"),
            ("/tank/home", "/", "tank/home"),
            ("/srv/tank", "/root", "/srv/tank"),
        ] {
            assert_eq!(dataset(word, Path::new(here)), name, "{word} in {here}");
        }
    }
}
