//! The door itself, by noun: whoever asks for one thing alone names that one.
//!
//! The nine stand apart because their askers do. A door for local programs has no replies to remember, a look at names
//! needs no content, and a test that stands in for one noun has to write that noun alone. [`Vfs`] is their sum, and nothing is
//! to be written for it: who has the nine has it. A sum as a trait object is called as one trait would be, and whoever has
//! it can hand on one noun of it.

use std::sync::Weak;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{DatasetId, Known, ObjectId, PoolGuid, SessionBytes, SlotMark, Time};
use tally_claims::{ClientNumber, Delegation, Holder, Share};

use crate::attributes::{Attr, FsStat, ObjectRef, SetAttr};
use crate::content::{FoundAt, ReadOut, Sought, Stability, Written};
use crate::locks::{Lock, NotLocked, Range, Watch};
use crate::mount::MountNumber;
use crate::names::{CreateHow, DirPage, NodeKind};
use crate::opens::{Opened, Opening, ToOpen};
use crate::outcome::{FsError, Outcome};
use crate::request::{Cred, OpCtx, RememberedReply, ReplyKey};
use crate::xattrs::{SetXattr, XattrName};

/// A mounted dataset: all that can be asked of one. Permissions are checked behind this door, by `cred`.
pub trait Vfs: Identity + Attributes + Names + Opens + Delegations + Locks + Content + Xattrs + Replies {}

impl<T: Identity + Attributes + Names + Opens + Delegations + Locks + Content + Xattrs + Replies + ?Sized> Vfs for T {}

/// Which dataset it is, and whether it takes changes.
pub trait Identity: Send + Sync {
    /// The pool it is in.
    fn pool(&self) -> PoolGuid;
    /// Which dataset of that pool.
    fn dataset(&self) -> DatasetId;
    /// Which mount of it this is.
    fn mount(&self) -> MountNumber;
    /// Its root directory.
    fn root(&self) -> ObjectRef;
    /// Whether it takes no change from anybody: a property, or a pool that is only read.
    fn is_read_only(&self) -> bool;
    /// Whether whoever changes something is to wait for its pool, which serves nobody for now: what was under way there may be
    /// on disk or not, and is told once it is known.
    fn is_waited_for(&self) -> bool {
        false
    }
}

/// What is known of an object beside its names and its content, and of the dataset as a whole.
pub trait Attributes: Send + Sync {
    /// The object that has a number now, also one without a name that somebody has open: for a door whose clients name objects by that alone.
    fn numbered(&self, id: ObjectId) -> Result<ObjectRef, FsError>;
    /// Attributes, as they are here; no permission is needed.
    fn getattr(&self, object: ObjectRef) -> Result<Attr, FsError>;
    /// Changes attributes; with `guard`, only if the ctime is still that.
    fn setattr(&self, ctx: OpCtx<'_>, object: ObjectRef, set: &SetAttr, guard: Option<Time>) -> Outcome<()>;
    /// Bytes and objects that are there, and that are left.
    fn statfs(&self) -> Result<FsStat, FsError>;
}

/// Directories, and what makes and removes what stands in them.
///
/// Names are byte strings of 1..=255 bytes without `/` and NUL. `.` and `..` are understood by `look` and
/// refused where something would be made or removed. Other bytes are answered with [`FsError::Access`].
pub trait Names: Send + Sync {
    /// Finds a name: the object's attributes, or why there are none. With them the directory's of the same look, if it is a
    /// directory: whoever is told that a name is not there must not be told of a later state in which it is.
    fn look(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> (Result<Attr, FsError>, Option<Attr>);
    /// Finds a name. On success: the object's attributes and the directory's.
    fn lookup(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> Result<(Attr, Attr), FsError> {
        let (found, dir) = self.look(cred, dir, name);
        Ok((found?, dir.ok_or(FsError::Stale)?))
    }
    /// Lists at most `entries_max` entries behind `cookie` (0: from the start), with attributes if `plus`.
    fn readdir(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        cookie: u64,
        entries_max: usize,
        plus: bool,
    ) -> Result<DirPage, FsError>;
    /// Whether another dataset is mounted on this directory for others: what would be made in it nobody but who sees this dataset alone would find.
    fn is_covered(&self, _dir: ObjectRef) -> bool {
        false
    }
    /// Makes a regular file.
    fn create(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], how: &CreateHow) -> Outcome<Attr>;
    /// Makes a directory.
    fn mkdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], set: &SetAttr) -> Outcome<Attr>;
    /// Makes a symbolic link.
    fn symlink(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], target: &[u8], set: &SetAttr) -> Outcome<Attr>;
    /// Makes a special file.
    fn mknod(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], node: NodeKind, set: &SetAttr) -> Outcome<Attr>;
    /// Removes a name of anything but a directory.
    fn remove(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()>;
    /// Removes an empty directory.
    fn rmdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()>;
    /// Renames, replacing what stands in the way as rename(2) does.
    fn rename(&self, ctx: OpCtx<'_>, from_dir: ObjectRef, from: &[u8], to_dir: ObjectRef, to: &[u8]) -> Outcome<()>;
    /// Renames to a name that nobody has: [`FsError::Exists`], also where both are names of one object.
    fn rename_to_new(
        &self,
        ctx: OpCtx<'_>,
        from_dir: ObjectRef,
        from: &[u8],
        to_dir: ObjectRef,
        to: &[u8],
    ) -> Outcome<()>;
    /// Makes another name for a file. On success: the file's attributes.
    fn link(&self, ctx: OpCtx<'_>, object: ObjectRef, dir: ObjectRef, name: &[u8]) -> Outcome<Attr>;
}

/// Who has which file open.
pub trait Opens: Send + Sync {
    /// Opens a file. Nothing is registered, and nothing changed, where it fails. Only regular files are opened: [`FsError::IsDirectory`], [`FsError::IsSymlink`] and
    /// [`FsError::BadType`] say what else is there. Who asked that it be made waits, also for what he found (rules F9).
    fn open(&self, ctx: OpCtx<'_>, what: ToOpen<'_>, opening: Opening<'_>) -> Outcome<Opened>;
    /// Gives up a part of an open: what is left must be a union of what was opened (rules V32), else [`FsError::Invalid`].
    fn downgrade(&self, object: ObjectRef, holder: Holder, left: Share) -> Result<(), FsError>;
    /// Whose opens keep this one, or nobody's, from opening the file for that, or from doing it, each client once.
    fn in_the_way(&self, object: ObjectRef, who: Option<Holder>, share: Share) -> Vec<ClientNumber>;
    /// Ends an open; there may be none.
    fn close(&self, object: ObjectRef, holder: Holder);
}

/// Which client was given a file to keep (RFC 8881 §10.4): that nobody else changes it, or has it at all. It is given with an open ([`Opening::wants`]), decided under the file's
/// lock, and nobody else's operation gets past it: that is refused with [`FsError::Delegated`], and nothing is called back from here. A look at attributes passes: who holds the
/// Write may have newer ones, and whoever answers such a look asks for them.
pub trait Delegations: Send + Sync {
    /// Whether the dataset lets clients be given one of this kind: a property. Whoever answers an OPEN asks before it wants one, and nothing that was given is taken as
    /// the property changes. Who opens a file to write it alone is given the Write where he may read it as well: it lets its holder do both.
    fn gives(&self, kind: Delegation) -> Gives;
    /// Who holds what of an object.
    fn delegated(&self, object: ObjectRef) -> SmallVec<[(ClientNumber, Delegation); 1]>;
    /// A client gives back what it holds of an object, or has lost it; there may be nothing. A client that goes gives back all that it was given.
    fn give_back(&self, object: ObjectRef, client: ClientNumber);
}

/// Whether a dataset lets clients be given a delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// None.
    No,
    /// Where nobody comes who is no client: each look of his would wait for one.
    AmongClients,
    /// Whoever else comes.
    Yes,
}

/// Who has locked which bytes of a file.
pub trait Locks: Send + Sync {
    /// Locks a range of a file, or changes what for, below an open that may do that to it: else [`FsError::OpenMode`], and [`FsError::NotOpened`] where it is none.
    /// The owner keeps it until it unlocks, or until the open is closed below which it began to lock in this file.
    fn lock_range(&self, object: ObjectRef, below: Holder, wanted: Lock) -> Result<(), NotLocked>;
    /// The same by who has nothing open, as clients of NFSv3 have not: whether he may is asked by whoever lets him. He keeps it until he unlocks, or the file's last name goes.
    fn lock_unopened(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked>;
    /// Unlocks a range, what of it is locked. A range may become two by that, for which there has to be room.
    fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> Result<(), FsError>;
    /// Whether a range of a file could be locked, as far as others are concerned.
    fn test_range(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked>;
    /// Whether an owner has locked anything of an object.
    fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool;
    /// Up to so many of those, for who looks.
    fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock>;
    /// From here on this one is told where ranges are unlocked or delegations given back, at whichever door, for as long as this mount is there; perhaps also where nothing was. Once is enough.
    fn watch(&self, watch: &Weak<dyn Watch>);
}

/// What stands in a file or a symbolic link.
pub trait Content: Send + Sync {
    /// A symbolic link's target.
    fn readlink(&self, object: ObjectRef) -> Result<(Bytes, Attr), FsError>;
    /// Reads at most `count` bytes from `offset`.
    fn read_by(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Result<ReadOut, FsError>;
    /// The same by the file's mode, for nobody's client.
    fn read(&self, cred: &Cred, object: ObjectRef, offset: u64, count: u32) -> Result<ReadOut, FsError> {
        self.read_by(OpCtx::of(cred), object, offset, count)
    }
    /// Where content or a hole begins, at `offset` or behind it; [`FsError::BehindEnd`] where the file does not reach so far. Between, all is of the other kind (rules V42): what is
    /// passed over in a look for content reads as zeroes.
    fn seek(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, what: Sought) -> Result<FoundAt, FsError>;
    /// Writes `data` at `offset`.
    fn write(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Outcome<Written>;
    /// Takes `length` bytes from `offset` on away, by the right to write them: they read as zeroes, the file's size stays, and what they took is given back in
    /// time. What lies behind the end is passed over. [`FsError::Invalid`] for a length of 0 and a range that ends behind 2^64 - 1 (RFC 7862 §15.4).
    fn deallocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()>;
    /// Promises that each WRITE into `length` bytes from `offset` on finds room, whatever others take, until they are deallocated or cut; the file grows to their end.
    /// What is there stays as it is, and where nothing is it reads as zeroes. [`FsError::NoSpace`] or [`FsError::Quota`] where there is no room for all of it, and nothing is
    /// changed then; [`FsError::Invalid`] as above (RFC 7862 §15.1, rules V42).
    fn allocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()>;
    /// Makes unstable data stable (`count` 0: to the end of the file). Gives the write verifier.
    fn commit(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Outcome<u64>;
}

/// Extended attributes of files and directories: small values under names that begin with [`USER_PREFIX`](crate::USER_PREFIX). To read them and their names
/// takes permission to read the object, to change them permission to write it; whose directory is sticky changes them alone. Nothing else has any.
pub trait Xattrs: Send + Sync {
    /// The value under a name; [`FsError::NoXattr`] where there is none.
    fn xattr(&self, cred: &Cred, object: ObjectRef, name: &[u8]) -> Result<Bytes, FsError>;
    /// All names from a cookie on (0: from the start), in the order of their cookies.
    fn list_xattrs(&self, cred: &Cred, object: ObjectRef, cookie: u64) -> Result<Vec<XattrName>, FsError>;
    /// Sets one, as a whole: [`FsError::XattrTooBig`] for a longer value than [`XATTR_VALUE_MAX`](crate::XATTR_VALUE_MAX), and
    /// [`FsError::NoSpace`] where the object would have more than [`XATTRS_MAX`](crate::XATTRS_MAX) or [`XATTRS_BYTES_MAX`](crate::XATTRS_BYTES_MAX).
    fn set_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8], value: &[u8], how: SetXattr) -> Outcome<()>;
    /// Removes one; [`FsError::NoXattr`] where there is none.
    fn remove_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8]) -> Outcome<()>;
}

/// Answers that outlive the connection they were given on, and the server.
pub trait Replies: Send + Sync {
    /// The answer to a request that was carried out before, perhaps before a crash. Of several that are equal to `key` but for
    /// the number of their senders (see [`ReplyKey`]), of those whose number `is_his` says yes to, it is the last one's.
    fn remembered_of(&self, key: &ReplyKey, is_his: &dyn Fn(u64) -> bool) -> Option<RememberedReply>;

    /// The answer to an operation of a session that changed something in this file system.
    fn performed(&self, mark: &SlotMark) -> Option<RememberedReply>;

    /// What is known of its request in all the pool.
    fn known(&self, mark: &SlotMark) -> Known;

    /// A session is over, and nobody asks again for what it has changed in this pool.
    fn forget_session(&self, session: &SessionBytes);

    /// These sessions live, also where this pool came later: what they have changed in it is remembered as long as they do.
    fn keep_sessions(&self, living: &[SessionBytes]);

    /// The same of this very sender.
    fn remembered(&self, key: &ReplyKey) -> Option<RememberedReply> {
        self.remembered_of(key, &|number| number == key.number())
    }
}
