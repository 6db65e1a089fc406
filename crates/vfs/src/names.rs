//! Names in directories: how they are made and listed, and what they take.

use bytes::Bytes;
use tally_base::ObjectId;

use crate::attributes::{Attr, SetAttr};

/// Longest name of a directory entry, bytes.
pub const NAME_MAX: usize = 255;
/// Longest target of a symbolic link, bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Most hard links of one file.
pub const LINK_MAX: u32 = 65_000;
/// A directory that has directories in it moves at most this deep: as many parents as a path of 4,096 bytes can name.
pub const RENAME_PARENTS_MAX: usize = 2048;
/// Object and entry ids start here (rules F21): as cookies of a listing, 1 and 2 stand for `.` and `..`.
pub const FIRST_ID: u64 = 3;

/// What a directory entry takes beside its name, bytes: two keys of the tree, with object and kind under the one and the
/// object under the other.
pub const ENTRY_BYTES: u64 = 2 * 25 + 9 + 8;

/// A shorter name counts as one of so many bytes. Clients rename files that are open to such a name instead of removing
/// them (`.nfs` and 24 digits): that must not fail for a quota, or nothing could be removed from a full one.
const NAME_CHARGE_MIN: u64 = 32;

/// What a dataset is charged for a directory entry of this name, bytes.
#[must_use]
pub fn entry_charge(name: &[u8]) -> u64 {
    ENTRY_BYTES + (name.len() as u64).max(NAME_CHARGE_MIN)
}

/// How CREATE treats a name that exists (RFC 1813 §3.3.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// Take the existing file (and only its size is set), or make one.
    Unchecked(SetAttr),
    /// Fail with [`FsError::Exists`](crate::FsError::Exists).
    Guarded(SetAttr),
    /// Fail, unless the existing file was made with this very verifier (rules F23).
    Exclusive(u64),
    /// The same, and with these attributes where it is made (RFC 8881 §18.16.3, EXCLUSIVE4_1).
    ExclusiveWith(u64, SetAttr),
}

/// Special files for MKNOD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Block device: major, minor. Only the superuser may.
    BlockDevice(u32, u32),
    /// Character device: major, minor. Only the superuser may.
    CharDevice(u32, u32),
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Where the listing goes on behind this entry: its id, at least 3, never given to an entry anew (rules F21). An entry
    /// keeps it when it gets another name in its directory, or another object, by a rename. 1 and 2 stand for `.` and `..`.
    pub cookie: u64,
    /// Its name.
    pub name: Bytes,
    /// The object it names.
    pub object: ObjectId,
    /// Attributes, when asked for and readable.
    pub attr: Option<Attr>,
}

/// A part of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirPage {
    /// Entries in cookie order, `.` and `..` first.
    pub entries: Vec<DirEntry>,
    /// Whether the last entry of the directory is among them (or there was none left).
    pub eof: bool,
    /// The directory's attributes.
    pub attr: Attr,
}
