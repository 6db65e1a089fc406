//! Who may do what to an object: mode bits as POSIX has them, with the superuser above them.

use crate::vfs::{Attr, Cred, FileKind};

/// Permission bits of one class: read 4, write 2, execute or search 1.
pub const READ: u32 = 4;
/// See [`READ`].
pub const WRITE: u32 = 2;
/// See [`READ`].
pub const EXECUTE: u32 = 1;

/// The bits of `READ | WRITE | EXECUTE` that `cred` has on `attr`. The superuser reads and writes
/// everything, searches every directory, and executes what anybody may execute.
#[must_use]
pub fn granted(attr: &Attr, cred: &Cred) -> u32 {
    if cred.uid == 0 {
        let execute = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
        return READ | WRITE | if execute { EXECUTE } else { 0 };
    }
    let class = if cred.uid == attr.uid {
        6
    } else if cred.in_group(attr.gid) {
        3
    } else {
        0
    };
    (attr.mode >> class) & 7
}

/// Whether all of `wanted` is granted.
#[must_use]
pub fn may(attr: &Attr, cred: &Cred, wanted: u32) -> bool {
    granted(attr, cred) & wanted == wanted
}

/// Whether `cred` owns the object or is the superuser.
#[must_use]
pub fn owns(attr: &Attr, cred: &Cred) -> bool {
    cred.uid == 0 || cred.uid == attr.uid
}

/// Whether the sticky bit of `dir` keeps `cred` from removing or renaming `entry`.
#[must_use]
pub fn sticky_forbids(dir: &Attr, entry: &Attr, cred: &Cred) -> bool {
    dir.mode & 0o1000 != 0 && !owns(dir, cred) && !owns(entry, cred)
}
