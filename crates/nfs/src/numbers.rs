//! Numbers that are the same in all versions of the protocol: bits of ACCESS (RFC 1813 §3.3.4, RFC 7530 §16.1), kinds of objects.

use tally_vfs::permission::{EXECUTE, READ, WRITE, granted};
use tally_vfs::{Attr, Cred, FileKind};

/// Read data, or list a directory.
pub(crate) const ACCESS_READ: u32 = 0x01;
/// Look a name up in a directory.
pub(crate) const ACCESS_LOOKUP: u32 = 0x02;
/// Rewrite data, or change the entries of a directory.
pub(crate) const ACCESS_MODIFY: u32 = 0x04;
/// Add data or entries.
pub(crate) const ACCESS_EXTEND: u32 = 0x08;
/// Remove an entry of a directory.
pub(crate) const ACCESS_DELETE: u32 = 0x10;
/// Run a file.
pub(crate) const ACCESS_EXECUTE: u32 = 0x20;
/// Those that change something.
pub(crate) const ACCESS_CHANGES: u32 = ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE;

/// Those that mean something for a kind: nobody looks up a name in a file, and nobody runs a directory.
pub(crate) fn meaningful_access(kind: FileKind) -> u32 {
    let of_all = ACCESS_READ | ACCESS_MODIFY | ACCESS_EXTEND;
    of_all | if kind == FileKind::Directory { ACCESS_LOOKUP | ACCESS_DELETE } else { ACCESS_EXECUTE }
}

/// What somebody may do with an object. For directories, changing means adding and removing names, and that needs search as well.
pub(crate) fn access_bits(attr: &Attr, cred: &Cred) -> u32 {
    let (granted, directory) = (granted(attr, cred), attr.kind == FileKind::Directory);
    let mut bits = 0;
    if granted & READ != 0 {
        bits |= ACCESS_READ;
    }
    if granted & EXECUTE != 0 {
        bits |= if directory { ACCESS_LOOKUP } else { ACCESS_EXECUTE };
    }
    if granted & WRITE != 0 && (!directory || granted & EXECUTE != 0) {
        bits |= ACCESS_MODIFY | ACCESS_EXTEND | if directory { ACCESS_DELETE } else { 0 };
    }
    bits
}

/// `ftype3` and `nfs_ftype4` of a kind.
pub(crate) fn kind_number(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => 1,
        FileKind::Directory => 2,
        FileKind::BlockDevice => 3,
        FileKind::CharDevice => 4,
        FileKind::Symlink => 5,
        FileKind::Socket => 6,
        FileKind::Fifo => 7,
    }
}
