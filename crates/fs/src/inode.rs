//! The inode: what the tree keeps of an object under [`Class::Inode`](tally_store::key::Class::Inode), and what log
//! records carry of every object that they touch.
//!
//! ```text
//!   0  version  u8 = 1        1  kind     u8        2  mode     u16       4  nlink    u32
//!   8  uid      u32          12  gid      u32      16  size     u64      24  used     u64
//!  32  rdev major u32        36  rdev minor u32
//!  40  atime    u64          48  mtime    u64      56  ctime    u64      64  change   u64
//!  72  generation u64        80  parent   u64 (directories; 0 elsewhere)
//!  88  layout   u8           89  record shift u8   90  flags    u16 (bit 0: create verifier present)
//!  92  create verifier u64  100  inline length u16, then that many bytes (a short symbolic link's target)
//! ```
//!
//! `size` of a directory is its number of entries plus two, as `ls` shows it on other copy-on-write pools. `used` of a
//! directory is what its entries are charged ([`entry_charge`]), and that of a symbolic link the bytes of its target: the
//! dataset's account is the sum of what its objects use and of a charge for each, so both count against a quota, and an
//! object that goes takes with it exactly what it brought. Pools made before that have directories whose `used` does not
//! know all their entries: it stops at zero, so it never says more than there is, and is right again once they are gone.

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{Generation, ObjectId, Time};
use tally_vfs::{Attr, FILE_SIZE_MAX, FIRST_ID, FileKind, LINK_MAX, ObjectRef, SYMLINK_MAX, entry_charge};

/// Where a file's content lies in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// Under one `Small` key (or nowhere, if empty).
    Small = 0,
    /// In blocks under `Extent` keys.
    Extents = 1,
}

/// An object's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Kind of object; never changes.
    pub kind: FileKind,
    /// Permission bits, 0..=0o7777.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of content (directories: entries + 2).
    pub size: u64,
    /// Bytes on disk at the last fold; for directories and symbolic links see the module's head.
    pub used: u64,
    /// Device number: major, minor.
    pub rdev: (u32, u32),
    /// Last access.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Issued time of the last change.
    pub change: Time,
    /// Drawn at creation.
    pub generation: Generation,
    /// The directory that holds this directory.
    pub parent: ObjectId,
    /// Where the content lies. Decided by the fold alone.
    pub layout: Layout,
    /// Log2 of the block size that this file was made with, 12..=20.
    pub record_shift: u8,
    /// The verifier of an EXCLUSIVE create, until the first SETATTR (rules F23).
    pub create_verifier: Option<u64>,
    /// Target of a symbolic link.
    pub target: Bytes,
}

/// Entries of a directory that its `size` counts beside the real ones.
pub const DOT_ENTRIES: u64 = 2;

/// Links of a directory without subdirectories: its name and its own `.`.
const DIRECTORY_LINKS_MIN: u32 = 2;

/// No `change` is issued from here on, in the year 2262: later sums would overflow.
const CHANGE_END: u64 = 1 << 63;

impl Inode {
    /// Whether it is a directory without names.
    pub(crate) fn is_empty_directory(&self) -> bool {
        self.kind == FileKind::Directory && self.size <= DOT_ENTRIES
    }

    /// From this offset on a file that is stored so has no blocks.
    pub(crate) fn blocks_end(&self) -> u64 {
        match self.layout {
            Layout::Small => 0,
            Layout::Extents => self.size.next_multiple_of(self.record_size()),
        }
    }

    /// A dataset's root directory: its own parent.
    #[must_use]
    pub fn root_directory(generation: Generation, (uid, gid): (u32, u32), now: Time) -> Self {
        Self {
            kind: FileKind::Directory,
            mode: 0o755,
            nlink: 2,
            uid,
            gid,
            size: DOT_ENTRIES,
            used: 0,
            rdev: (0, 0),
            atime: now,
            mtime: now,
            ctime: now,
            change: now,
            generation,
            parent: ObjectId(FIRST_ID),
            layout: Layout::Small,
            record_shift: 17,
            create_verifier: None,
            target: Bytes::new(),
        }
    }

    /// The attributes that this inode shows for `id`.
    #[must_use]
    pub fn attr(&self, id: ObjectId) -> Attr {
        Attr {
            object: ObjectRef { id, generation: self.generation },
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            used: self.used,
            rdev: self.rdev,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            change: self.change,
        }
    }

    /// Block size of the content, bytes.
    #[must_use]
    pub fn record_size(&self) -> u64 {
        1 << self.record_shift
    }

    /// Marks a change of metadata at an issued time.
    pub fn touch(&mut self, now: Time) {
        self.ctime = now;
        self.change = now;
    }

    /// Marks a change of content at an issued time.
    pub fn modify(&mut self, now: Time) {
        self.mtime = now;
        self.touch(now);
    }

    /// A directory with one entry more.
    pub(crate) fn gain_entry(&mut self, name: &[u8], is_directory: bool) {
        self.size = self.size.saturating_add(1).min(FILE_SIZE_MAX);
        self.used = self.used.saturating_add(entry_charge(name)).min(FILE_SIZE_MAX);
        self.nlink = self.nlink.saturating_add(u32::from(is_directory));
    }

    /// A directory with one entry less. What faulty software wrote may count fewer entries than there are: the counts
    /// stop at those of an empty directory.
    pub(crate) fn lose_entry(&mut self, name: &[u8], is_directory: bool) {
        self.size = self.size.saturating_sub(1).max(DOT_ENTRIES);
        self.used = self.used.saturating_sub(entry_charge(name));
        self.nlink = self.nlink.saturating_sub(u32::from(is_directory)).max(DIRECTORY_LINKS_MIN);
    }

    /// A directory in which one entry has another name.
    pub(crate) fn rename_entry(&mut self, from: &[u8], to: &[u8]) {
        let without = self.used.saturating_sub(entry_charge(from));
        self.used = without.saturating_add(entry_charge(to)).min(FILE_SIZE_MAX);
    }

    /// Appends the encoding drawn in the module's head.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(1);
        out.put_u8(self.kind as u8);
        out.put_u16(self.mode as u16);
        out.put_u32(self.nlink);
        out.put_u32(self.uid);
        out.put_u32(self.gid);
        out.put_u64(self.size);
        out.put_u64(self.used);
        out.put_u32(self.rdev.0);
        out.put_u32(self.rdev.1);
        for time in [self.atime, self.mtime, self.ctime, self.change] {
            out.put_u64(time.0);
        }
        out.put_u64(self.generation.0);
        out.put_u64(self.parent.0);
        out.put_u8(self.layout as u8);
        out.put_u8(self.record_shift);
        out.put_u16(u16::from(self.create_verifier.is_some()));
        out.put_u64(self.create_verifier.unwrap_or(0));
        out.put_u16(self.target.len() as u16);
        out.put(&self.target);
    }

    /// Reads one encoding from the front of `reader`.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let malformed = reader.malformed();
        if reader.u8()? != 1 {
            return Err(malformed);
        }
        let kind = kind_of(reader.u8()?).ok_or(malformed)?;
        let mode = u32::from(reader.u16()?);
        let (nlink, uid, gid) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (size, used) = (reader.u64()?, reader.u64()?);
        let rdev = (reader.u32()?, reader.u32()?);
        let times = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?].map(Time);
        let generation = Generation(reader.u64()?);
        let parent = ObjectId(reader.u64()?);
        let layout = match reader.u8()? {
            0 => Layout::Small,
            1 => Layout::Extents,
            _ => return Err(malformed),
        };
        let record_shift = reader.u8()?;
        let has_verifier = reader.u16()? & 1 != 0;
        let verifier = reader.u64()?;
        let target_length = usize::from(reader.u16()?);
        let target = Bytes::copy_from_slice(reader.bytes(target_length)?);
        let [atime, mtime, ctime, change] = times;
        // A sound checksum says that it was written so, not that it can be.
        let possible = mode <= 0o7777
            && nlink <= LINK_MAX
            && size <= FILE_SIZE_MAX
            && used <= FILE_SIZE_MAX
            && change.0 < CHANGE_END
            && (12..=20).contains(&record_shift)
            && target_length <= SYMLINK_MAX;
        if !possible {
            return Err(malformed);
        }
        Ok(Self {
            kind,
            mode,
            nlink,
            uid,
            gid,
            size,
            used,
            rdev,
            atime,
            mtime,
            ctime,
            change,
            generation,
            parent,
            layout,
            record_shift,
            create_verifier: has_verifier.then_some(verifier),
            target,
        })
    }
}

/// The kind with this number on disk.
pub(crate) fn kind_of(number: u8) -> Option<FileKind> {
    Some(match number {
        1 => FileKind::File,
        2 => FileKind::Directory,
        3 => FileKind::Symlink,
        4 => FileKind::Fifo,
        5 => FileKind::Socket,
        6 => FileKind::BlockDevice,
        7 => FileKind::CharDevice,
        _ => return None,
    })
}
