//! Objects and what is told of them.

use tally_base::{FileTime, Generation, ObjectId, Time};

/// An object and the generation under which it was made: what a file handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its number in the dataset.
    pub id: ObjectId,
    /// Its generation; another one is stale.
    pub generation: Generation,
}

/// Kinds of objects. The numbers are ours and stand on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileKind {
    /// Regular file.
    File = 1,
    /// Directory.
    Directory = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Socket.
    Socket = 5,
    /// Block device node.
    BlockDevice = 6,
    /// Character device node.
    CharDevice = 7,
}

/// Attributes of an object. Times are what `stat` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number and generation, as handles carry them.
    pub object: ObjectRef,
    /// The same for as long as the object exists.
    pub kind: FileKind,
    /// Permission bits, 0..=0o7777.
    pub mode: u32,
    /// Hard links; directories count their sub-directories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes on disk, as far as known (dirty data counts in full).
    pub used: u64,
    /// Device number of a node: major, minor.
    pub rdev: (u32, u32),
    /// Last access.
    pub atime: FileTime,
    /// Last change of content.
    pub mtime: FileTime,
    /// Last change of anything.
    pub ctime: Time,
    /// The change attribute (NFSv4): the issued time of the last change (rules F14).
    pub change: Time,
}

/// The part of the attributes that weak cache consistency compares (RFC 1813 §2.6, `wcc_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreAttr {
    /// Bytes.
    pub size: u64,
    /// Last change of content.
    pub mtime: FileTime,
    /// Last change of anything.
    pub ctime: Time,
    /// Its [`Attr::change`].
    pub change: Time,
}

impl From<&Attr> for PreAttr {
    fn from(attr: &Attr) -> Self {
        Self { size: attr.size, mtime: attr.mtime, ctime: attr.ctime, change: attr.change }
    }
}

/// An object's attributes around an operation, both taken under its lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Before; `None` where it is not known.
    pub before: Option<PreAttr>,
    /// After; also on failure, where the object was reached.
    pub after: Option<Attr>,
}

/// A time in a SETATTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's time, as issued.
    Server,
    /// The client's.
    Client(FileTime),
    /// That of a client that has the file for writing, and has set it there already (RFC 9754 §5): by that right alone ([`Right::Delegated`](crate::Right)), and no later than now.
    Kept(FileTime),
}

/// What to change; `None` keeps a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits; higher bits are ignored.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// New size: truncates or extends with zeroes.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
}

impl SetAttr {
    /// Whether it sets a time that somebody has set already who has the file for writing.
    #[must_use]
    pub fn has_kept_time(&self) -> bool {
        [self.atime, self.mtime].iter().any(|time| matches!(time, Some(SetTime::Kept(_))))
    }

    /// Nothing, where all that it sets are such times and the object has them: a client that gives a file back says both, whether it has set them or not.
    #[must_use]
    pub fn without_what_is(&self, attr: &Attr, now: Time) -> Self {
        let kept = |set: Option<SetTime>, is: FileTime| match set {
            None => true,
            Some(SetTime::Kept(time)) => time.min(now.into()) == is,
            Some(_) => false,
        };
        let are_there = kept(self.atime, attr.atime) && kept(self.mtime, attr.mtime);
        let sets_times_alone = Self { atime: None, mtime: None, ..self.clone() } == Self::default();
        if are_there && sets_times_alone { Self::default() } else { self.clone() }
    }
}

/// Space of a dataset, under its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsStat {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Bytes that an ordinary user may take.
    pub available_bytes: u64,
    /// Objects that could exist.
    pub total_files: u64,
    /// Objects that could still be made.
    pub free_files: u64,
}
