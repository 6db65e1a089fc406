//! The door of a dataset: what a protocol server may ask of a file system, and what it gets back.
//!
//! Reads return at once with what they found. Everything that changes something returns an [`Outcome`], and
//! so do its failures: the reply may only leave once [`Outcome::wait`] is kept, because a client acts on an
//! error just as it acts on a success (rules F9).

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{DatasetId, Generation, ObjectId, PoolGuid, Time, Wait};

/// Longest name of a directory entry, bytes.
pub const NAME_MAX: usize = 255;
/// Longest target of a symbolic link, bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Largest file, bytes: offsets stay in the positive range of a signed 64-bit number.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;
/// Most hard links of one file.
pub const LINK_MAX: u32 = 65_000;
/// A directory that has directories in it moves at most this deep: as many parents as a path of 4,096 bytes can name.
pub const RENAME_PARENTS_MAX: usize = 2048;

/// An object and the generation under which it was made: what a file handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The object.
    pub id: ObjectId,
    /// Its generation; another one is stale.
    pub generation: Generation,
}

/// Who asks, after squashing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// User; 0 is the superuser, who passes every check but `noexec` ones.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: SmallVec<[u32; 16]>,
}

impl Cred {
    /// The superuser.
    #[must_use]
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: SmallVec::new() }
    }

    /// Whether `gid` is the primary or one of the supplementary groups.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
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
    /// Which object.
    pub object: ObjectRef,
    /// Its kind.
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
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
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
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
}

impl From<&Attr> for PreAttr {
    fn from(attr: &Attr) -> Self {
        Self { size: attr.size, mtime: attr.mtime, ctime: attr.ctime }
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
    Client(Time),
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

/// How CREATE treats a name that exists (RFC 1813 §3.3.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// Take the existing file (and only its size is set), or make one.
    Unchecked(SetAttr),
    /// Fail with [`FsError::Exists`].
    Guarded(SetAttr),
    /// Fail, unless the existing file was made with this very verifier (rules F23).
    Exclusive(u64),
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

/// How stable a WRITE must be, or has become (RFC 1813 §3.3.7, `stable_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// May be lost until a COMMIT.
    Unstable,
    /// Data and what is needed to read it back.
    DataSync,
    /// Data and all attributes.
    FileSync,
}

/// Result of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes taken: all of them.
    pub count: u32,
    /// What the reply may promise once its wait is over.
    pub stability: Stability,
    /// Write verifier, captured under the file's lock (rules F16).
    pub verifier: u64,
}

/// One request's context.
#[derive(Clone, Copy)]
pub struct OpCtx<'a> {
    /// Who asks.
    pub cred: &'a Cred,
    /// Under which key the reply is to be remembered across crashes; `None` where a repetition does no harm.
    pub reply: Option<ReplyKey>,
}

/// What identifies a request across connections and crashes (rules F12): client address without port (16),
/// xid (4), procedure (4), hash of arguments and credentials (16). Opaque below the protocol server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyKey(pub [u8; 40]);

impl ReplyKey {
    /// The client's part of the key: its address, by which entries are bounded.
    #[must_use]
    pub fn client(&self) -> [u8; 16] {
        *self.0.first_chunk().expect("a key is longer than an address")
    }
}

/// The remembered first answer to a request that succeeded. Its body is rebuilt from the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedReply {
    /// The object that was made or changed, where there is one.
    pub object: Option<ObjectRef>,
}

/// Why an operation failed. Each variant has one NFS status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum FsError {
    #[error("operation not permitted: only the owner may do this")]
    NotOwner,
    #[error("no such file or directory")]
    NotFound,
    #[error("input/output error")]
    Io,
    #[error("permission denied")]
    Access,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotDirectory,
    #[error("is a directory")]
    IsDirectory,
    #[error("invalid argument")]
    Invalid,
    #[error("file too large")]
    TooBig,
    #[error("no space left in the pool")]
    NoSpace,
    #[error("read-only dataset")]
    ReadOnly,
    #[error("too many links")]
    TooManyLinks,
    #[error("name too long")]
    NameTooLong,
    #[error("directory not empty")]
    NotEmpty,
    #[error("quota exceeded")]
    Quota,
    #[error("stale file handle")]
    Stale,
    #[error("object was changed in between")]
    NotSync,
    #[error("operation not supported on this kind of object")]
    BadType,
    /// The pool cannot answer for now (suspended, not imported yet); the client asks again later.
    #[error("temporarily unavailable")]
    Unavailable,
    /// Admission refused for now: ring, dirty data or space is being freed by a transaction group. Nothing
    /// was done and nothing is held; run the request again once [`Outcome::wait`] is over (rules F3). Or it is a long
    /// COMMIT, a part of which is on its way to the log.
    #[error("waiting for a transaction group")]
    Throttled,
}

/// Result of an operation that may change something.
#[derive(Debug)]
#[must_use = "the reply must wait"]
pub struct Outcome<T> {
    /// What happened.
    pub result: Result<T, FsError>,
    /// Attributes around the operation: of the object itself (SETATTR, WRITE, COMMIT), else of the directory
    /// (CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, LINK), else of source and target directory (RENAME).
    pub changes: SmallVec<[Change; 2]>,
    /// What the reply has to wait for, success or not.
    pub wait: Wait,
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

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOut {
    /// The bytes, in order, as pieces; together at most what was asked for.
    pub data: SmallVec<[Bytes; 4]>,
    /// Whether they reach the end of the file.
    pub eof: bool,
    /// The file's attributes.
    pub attr: Attr,
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

/// A mounted dataset.
///
/// Names are byte strings of 1..=255 bytes without `/` and NUL. `.` and `..` are understood by `lookup` and
/// refused where something would be made or removed. Other bytes are answered with [`FsError::Access`]. Permissions are
/// checked here, by `cred`.
pub trait Vfs: Send + Sync {
    /// The pool it is in.
    fn pool(&self) -> PoolGuid;
    /// Which dataset of that pool.
    fn dataset(&self) -> DatasetId;
    /// Its root directory.
    fn root(&self) -> ObjectRef;
    /// Attributes; no permission is needed.
    fn getattr(&self, object: ObjectRef) -> Result<Attr, FsError>;
    /// Finds a name: the object's attributes, or why there are none. With them the directory's of the same look, if it is a
    /// directory: whoever is told that a name is not there must not be told of a later state in which it is.
    fn look(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> (Result<Attr, FsError>, Option<Attr>);
    /// Finds a name. On success: the object's attributes and the directory's.
    fn lookup(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> Result<(Attr, Attr), FsError> {
        let (found, dir) = self.look(cred, dir, name);
        Ok((found?, dir.ok_or(FsError::Stale)?))
    }
    /// A symbolic link's target.
    fn readlink(&self, object: ObjectRef) -> Result<(Bytes, Attr), FsError>;
    /// Reads at most `count` bytes from `offset`.
    fn read(&self, cred: &Cred, object: ObjectRef, offset: u64, count: u32) -> Result<ReadOut, FsError>;
    /// Lists at most `entries_max` entries behind `cookie` (0: from the start), with attributes if `plus`.
    fn readdir(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        cookie: u64,
        entries_max: usize,
        plus: bool,
    ) -> Result<DirPage, FsError>;
    /// Space.
    fn statfs(&self) -> Result<FsStat, FsError>;
    /// Whether it takes no change from anybody: a property, or a pool that is only read.
    fn is_read_only(&self) -> bool;
    /// The first answer to a request that was carried out before, perhaps before a crash.
    fn remembered(&self, key: &ReplyKey) -> Option<RememberedReply>;

    /// Changes attributes; with `guard`, only if the ctime is still that.
    fn setattr(&self, ctx: OpCtx<'_>, object: ObjectRef, set: &SetAttr, guard: Option<Time>) -> Outcome<()>;
    /// Writes `data` at `offset`.
    fn write(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Outcome<Written>;
    /// Makes unstable data stable (`count` 0: to the end of the file). Gives the write verifier.
    fn commit(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Outcome<u64>;
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
    /// Makes another name for a file. On success: the file's attributes.
    fn link(&self, ctx: OpCtx<'_>, object: ObjectRef, dir: ObjectRef, name: &[u8]) -> Outcome<Attr>;
}
