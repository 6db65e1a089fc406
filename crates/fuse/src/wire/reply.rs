//! Replies: from what was found to bytes.

use bytes::Bytes;
use rustix::io::Errno;
use smallvec::SmallVec;
use tally_vfs::{Attr, DirEntry, FileKind, FsStat, NAME_MAX};
use zerocopy::IntoBytes;

use super::raw::{
    self, AttrOut, Dirent, EntryOut, InitOut, LkOut, OpenOut, OutHeader, SeekOut, SizeOut, StatFsOut, WriteOut,
};
use super::{MAJOR, MINOR};

/// How large blocks are that space is counted in, bytes.
const SPACE_BLOCK: u32 = 4096;
/// What programs are told to read and write at a time, bytes: a block of a file, unless its dataset says another.
const PREFERRED_BYTES: u32 = 128 << 10;
/// In what `st_blocks` counts, bytes.
const STAT_BLOCK: u64 = 512;

/// What is answered: an error, or a body of pieces.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    error: i32,
    body: SmallVec<[Bytes; 4]>,
}

impl From<Errno> for Reply {
    fn from(errno: Errno) -> Self {
        Self { error: -errno.raw_os_error(), body: SmallVec::new() }
    }
}

impl Reply {
    /// That it is done, and nothing else.
    #[must_use]
    pub fn done() -> Self {
        Self::default()
    }

    /// These bytes.
    #[must_use]
    pub fn data(body: SmallVec<[Bytes; 4]>) -> Self {
        Self { error: 0, body }
    }

    fn of(bytes: &[u8]) -> Self {
        Self::bytes(Bytes::copy_from_slice(bytes))
    }

    /// These.
    #[must_use]
    pub fn bytes(bytes: Bytes) -> Self {
        Self::data(SmallVec::from_iter([bytes]))
    }

    /// So many bytes were written.
    #[must_use]
    pub fn written(size: u32) -> Self {
        Self::of(WriteOut { size, padding: 0 }.as_bytes())
    }

    /// So much room is needed.
    #[must_use]
    pub fn size(size: u32) -> Self {
        Self::of(SizeOut { size, padding: 0 }.as_bytes())
    }

    /// This is what is locked, or that nothing is.
    #[must_use]
    pub fn lock(lock: LkOut) -> Self {
        Self::of(lock.as_bytes())
    }

    /// It is there.
    #[must_use]
    pub fn offset(offset: u64) -> Self {
        Self::of(SeekOut { offset }.as_bytes())
    }

    /// This, and then that.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.body.extend(other.body);
        self
    }

    /// Whether it says an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.error != 0
    }

    /// The head of the answer to that request, and what is behind it.
    #[must_use]
    pub fn framed(&self, unique: u64) -> ([u8; 16], &[Bytes]) {
        let body_bytes: usize = self.body.iter().map(Bytes::len).sum();
        let len = u32::try_from(size_of::<OutHeader>() + body_bytes).unwrap_or(u32::MAX);
        let mut head = [0; 16];
        // Both are sixteen bytes.
        let _ = OutHeader { len, error: self.error, unique }.write_to(&mut head);
        (head, &self.body)
    }
}

/// The answer to INIT: the version of both, and what of the kernel's offers is wanted, with the bits that follow.
#[must_use]
pub fn init(minor: u32, max_readahead: u32, (flags, flags2): (u32, u32), max_write: u32) -> Reply {
    let out = InitOut {
        major: MAJOR,
        minor: minor.min(MINOR),
        max_readahead,
        flags,
        flags2,
        max_background: 64,
        congestion_threshold: 48,
        max_write,
        time_gran: 1,
        max_pages: u16::try_from(max_write / 4096).unwrap_or(u16::MAX),
        ..InitOut::default()
    };
    Reply::of(out.as_bytes())
}

/// What is no answer: the kernel is to ask again for all that was read and not answered.
#[must_use]
pub fn ask_again() -> [u8; 16] {
    const RESEND: i32 = 7;
    let mut message = [0; 16];
    // Both are sixteen bytes.
    let _ = OutHeader { len: 16, error: RESEND, unique: 0 }.write_to(&mut message);
    message
}

/// Attributes, which the kernel asks for again whenever it needs them.
#[must_use]
pub fn attr(attr: &Attr) -> Reply {
    Reply::of(AttrOut { attr: raw_attr(attr), ..AttrOut::default() }.as_bytes())
}

/// What a name stands for, which is asked for again whenever it is used.
#[must_use]
pub fn entry(node: u64, attr: &Attr) -> Reply {
    Reply::of(raw_entry(node, attr).as_bytes())
}

/// An open, by this number.
#[must_use]
pub fn opened(fh: u64) -> Reply {
    // No flag: what is cached of the file is dropped now, and its pages are cached from here on.
    Reply::of(OpenOut { fh, ..OpenOut::default() }.as_bytes())
}

/// Room in the file system.
#[must_use]
pub fn space(stat: &FsStat) -> Reply {
    let block = u64::from(SPACE_BLOCK);
    let out = StatFsOut {
        blocks: stat.total_bytes / block,
        bfree: stat.free_bytes / block,
        bavail: stat.available_bytes / block,
        files: stat.total_files,
        ffree: stat.free_files,
        bsize: SPACE_BLOCK,
        namelen: NAME_MAX as u32,
        frsize: SPACE_BLOCK,
        ..StatFsOut::default()
    };
    Reply::of(out.as_bytes())
}

fn raw_entry(node: u64, attr: &Attr) -> EntryOut {
    EntryOut { node, attr: raw_attr(attr), ..EntryOut::default() }
}

fn raw_attr(attr: &Attr) -> raw::Attr {
    let ctime: tally_base::FileTime = attr.ctime.into();
    raw::Attr {
        ino: attr.object.id.0,
        size: attr.size,
        blocks: attr.used.div_ceil(STAT_BLOCK),
        atime: attr.atime.seconds(),
        mtime: attr.mtime.seconds(),
        ctime: ctime.seconds(),
        atime_ns: attr.atime.subsec_nanos(),
        mtime_ns: attr.mtime.subsec_nanos(),
        ctime_ns: ctime.subsec_nanos(),
        mode: format(attr.kind) | attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: device(attr.rdev),
        blksize: PREFERRED_BYTES,
        flags: 0,
    }
}

/// The kind of a file in `st_mode`.
const fn format(kind: FileKind) -> u32 {
    match kind {
        FileKind::Fifo => 0o010_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::Directory => 0o040_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::File => 0o100_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Socket => 0o140_000,
    }
}

/// A device's number as the kernel puts it into 32 bits: twelve for the major one, twenty for the minor one.
const fn device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)
}

/// Whether entries of a listing come with attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// READDIR.
    No,
    /// READDIRPLUS.
    Yes,
}

/// A listing that grows up to what the kernel has room for.
pub struct Listing {
    bytes: Vec<u8>,
    room: usize,
    plus: Plus,
}

impl Listing {
    /// An empty one.
    #[must_use]
    pub fn new(room: u32, plus: Plus) -> Self {
        Self { bytes: Vec::new(), room: room as usize, plus }
    }

    /// So many entries fit at most, and one is asked for in any case.
    #[must_use]
    pub fn entries_max(&self) -> usize {
        let least = size_of::<Dirent>() + 8 + if self.plus == Plus::Yes { size_of::<EntryOut>() } else { 0 };
        (self.room / least).clamp(1, ENTRIES_MAX)
    }

    /// Adds one, of this node; false: there is no room for it, nor for any behind it.
    #[must_use]
    pub fn add(&mut self, entry: &DirEntry, node: u64) -> bool {
        let is_dots = entry.name == b"."[..] || entry.name == b".."[..];
        let before = self.bytes.len();
        if self.plus == Plus::Yes {
            // One of node 0 is a name alone: the kernel knows `.` and `..`, and looks up what has gone meanwhile.
            let told =
                entry.attr.as_ref().filter(|_| !is_dots).map_or_else(EntryOut::default, |attr| raw_entry(node, attr));
            self.bytes.extend_from_slice(told.as_bytes());
        }
        let kind = if is_dots { Some(FileKind::Directory) } else { entry.attr.as_ref().map(|attr| attr.kind) };
        let namelen = entry.name.len() as u32;
        let kind = kind.map_or(0, |kind| format(kind) >> 12);
        let dirent = Dirent { ino: entry.object.0, off: entry.cookie, namelen, kind };
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(&entry.name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let fits = self.bytes.len() <= self.room;
        if !fits {
            self.bytes.truncate(before);
        }
        fits
    }

    /// All that fitted.
    #[must_use]
    pub fn into_reply(self) -> Reply {
        Reply::bytes(self.bytes.into())
    }
}

/// Most entries that are looked at for one answer, however much room there is.
const ENTRIES_MAX: usize = 1024;
