//! The users and groups of this machine, as its name service has them (nsswitch.conf(5)): files, or a directory on another machine.

use std::io;

use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User};
use tally_nfs::v4::naming::{Kind, NameService};

/// Asks getpwuid_r(3), getgrgid_r(3), getpwnam_r(3) and getgrnam_r(3).
pub(super) struct Users;

impl NameService for Users {
    fn name(&self, kind: Kind, id: u32) -> io::Result<Option<String>> {
        said(match kind {
            Kind::User => User::from_uid(Uid::from_raw(id)).map(|user| user.map(|user| user.name)),
            Kind::Group => Group::from_gid(Gid::from_raw(id)).map(|group| group.map(|group| group.name)),
        })
    }

    fn id(&self, kind: Kind, name: &str) -> io::Result<Option<u32>> {
        said(match kind {
            Kind::User => User::from_name(name).map(|user| user.map(|user| user.uid.as_raw())),
            Kind::Group => Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw())),
        })
    }
}

/// What stands for "there is none", besides that none is found (getpwnam(3), "Errors"); and ERANGE: whose entry takes more than a megabyte is not known here.
const NONE: [Errno; 5] = [Errno::ENOENT, Errno::ESRCH, Errno::EBADF, Errno::EPERM, Errno::ERANGE];

fn said<T>(outcome: Result<Option<T>, Errno>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if NONE.contains(&error) => Ok(None),
        outcome => Ok(outcome?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_errors_say_that_there_is_none() {
        for (outcome, expected) in [
            (Ok(Some(7)), Some(Some(7))),
            (Ok(None), Some(None)),
            (Err(Errno::ENOENT), Some(None)),
            (Err(Errno::ESRCH), Some(None)),
            (Err(Errno::EBADF), Some(None)),
            (Err(Errno::EPERM), Some(None)),
            (Err(Errno::ERANGE), Some(None)),
            (Err(Errno::EIO), None),
            (Err(Errno::EMFILE), None),
            (Err(Errno::EINTR), None),
        ] {
            assert_eq!(said(outcome).ok(), expected, "{outcome:?}");
        }
    }

    /// Every machine has these.
    #[test]
    fn the_superuser_and_his_group_are_known_both_ways() {
        for kind in [Kind::User, Kind::Group] {
            assert_eq!(Users.name(kind, 0).unwrap().as_deref(), Some("root"));
            assert_eq!(Users.id(kind, "root").unwrap(), Some(0));
            assert_eq!(Users.id(kind, "nobody-is-called-so").unwrap(), None);
            assert_eq!(Users.id(kind, "ro\0ot").unwrap(), None);
            assert_eq!(Users.name(kind, 4_000_000_000).unwrap(), None);
        }
    }
}
