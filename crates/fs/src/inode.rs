//! The inode: what the tree keeps of an object under [`Class::Inode`](tally_store::key::Class::Inode), and what log
//! records carry of every object that they touch.
//!
//! ```text
//!   0  version  u8 = 2        1  kind     u8        2  mode     u16       4  nlink    u32
//!   8  uid      u32          12  gid      u32      16  size     u64      24  used     u64
//!  32  rdev major u32        36  rdev minor u32
//!  40  atime    u64          48  mtime    u64      56  ctime    u64      64  change   u64
//!  72  generation u64        80  parent   u64 (where it has a name; 0: not known)
//!  88  layout   u8           89  record shift u8   90  flags    u16 (bit 0: create verifier present; bit 1: section 2;
//!                                                                       bit 2: section 3; bit 3: section 4)
//!  92  create verifier u64  100  birth    u64     108  reserved u64
//! 116  ACL kind u8 = 0      117  zero     3       120  project  u32 = 0      124  entry    u64 (of that name)
//! 132  inline length u16, then that many bytes (a short symbolic link's target)
//!      length of the sections u16, then the sections: id u16, length u16, bytes
//! ```
//!
//! What is drawn as 0, flags behind bit 3, and a record shift of 21 to 24 are for what comes: an inode that has them is of a
//! newer program, and refused as such ([`DecodeError::Newer`]), and not as a damaged one.
//! Section 1 is what was cut and is not freed yet ([`Cuts`]); it stands first, and only in the tree: no record has it. Where a file
//! was punched it is section 2, with a flag, so that no program serves what was punched that does not know of it. Section 3 is what the object has of
//! extended attributes ([`XattrAccount`]), and stands before all but those; who does not know bit 2 of the flags leaves the object as it is, as it would
//! free the object without them. Section 4 is what of a file is reserved ([`Reserved`]), with
//! what is still to be taken of it in the field of that name; like cuts only the tree has it, behind section 3 and with bit 3 of the flags. All others stay as they are. Together those take 512 bytes at most, as each record that names the object holds them beside
//! everything else (`RECORD_OVERHEAD_MAX`).
//!
//! An object tells **one of its names**, by directory and entry: who knows its id finds its path without looking through
//! all directories. It is the newest name; when that one goes before the others, none is known.
//!
//! `size` of a directory is its number of entries plus two, as `ls` shows it on other copy-on-write pools. `used` of a
//! directory is what its entries are charged ([`entry_charge`]), and that of a symbolic link the bytes of its target: the
//! dataset's account is the sum of what its objects use and of a charge for each, so both count against a quota, and an
//! object that goes takes with it exactly what it brought. Extended attributes are charged beside that, and `used` has nothing of them. Where faulty software wrote less it stops at zero.

use std::ops::{Range, RangeInclusive};

use bytes::Bytes;
use tally_base::codec::{DecodeError, Fixed, Malformed, Put, Reader};
use tally_base::{FileTime, Generation, ObjectId, Time, Txg};
use tally_store::tree::VALUE_BYTES_MAX;
use tally_vfs::{
    Attr, FILE_SIZE_MAX, FIRST_ID, FileKind, LINK_MAX, ObjectRef, SYMLINK_MAX, entry_charge, permission::has_xattrs,
};

use crate::cuts::{CUTS_BYTES_MAX, Cuts};
use crate::reserved::{FILE_CHARGE, RESERVED_BYTES_MAX, Reserved, room_of};
use crate::xattr::XattrAccount;

/// Where a file's content lies in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// Under one `Small` key (or nowhere, if empty).
    Small = 0,
    /// In blocks under `Extent` keys.
    Extents = 1,
}

/// What is known of an object beside its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Kind of object; never changes.
    pub kind: FileKind,
    /// Permission bits, 0..=0o7777.
    pub mode: u32,
    /// Names that it has; a directory counts itself and each directory in it besides. 0: an orphan.
    pub nlink: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the owner.
    pub gid: u32,
    /// Bytes of content (directories: entries + 2).
    pub size: u64,
    /// Bytes on disk at the last fold; for directories and symbolic links see the module's head.
    pub used: u64,
    /// Device number: major, minor.
    pub rdev: (u32, u32),
    /// Last access.
    pub atime: FileTime,
    /// Last change of content.
    pub mtime: FileTime,
    /// Last change of anything.
    pub ctime: Time,
    /// Issued time of the last change.
    pub change: Time,
    /// Drawn when it was made: a handle of another object with this id is stale.
    pub generation: Generation,
    /// The directory in which it has one of its names. 0 if none is known, but a directory's always is.
    pub parent: ObjectId,
    /// That name's entry; 0 for a root directory, which has none.
    pub entry: ObjectId,
    /// When it was made.
    pub birth: Time,
    /// Where the content lies. Decided by the fold alone.
    pub layout: Layout,
    /// Log2 of the block size that this file was made with, 12..=20.
    pub record_shift: u8,
    /// The verifier of an EXCLUSIVE create, until the first SETATTR (rules F23).
    pub create_verifier: Option<u64>,
    /// Target of a symbolic link.
    pub target: Bytes,
    /// What was cut and is not freed yet, as the tree has it. The fold alone decides of it, and goes by what is stored.
    pub cuts: Option<Box<Cuts>>,
    /// What of it is reserved. Records change it, and only the tree has it; what is still to be taken the fold alone knows.
    pub reserved: Option<Box<Reserved>>,
    /// What it has of extended attributes.
    pub xattrs: XattrAccount,
    /// What other programs have put there.
    pub sections: Bytes,
}

/// Entries of a directory that its `size` counts beside the real ones.
pub const DOT_ENTRIES: u64 = 2;

/// Links of a directory without subdirectories: its name and its own `.`.
const DIRECTORY_LINKS_MIN: u32 = 2;

/// The directory of files that have no name any more and that somebody has open (`held`). Numbers of objects begin with [`FIRST_ID`].
pub(crate) const HELD: ObjectId = ObjectId(1);
const _: () = assert!(HELD.0 < FIRST_ID);

const VERSION: u8 = 2;

/// The flag of a create verifier.
const HAS_VERIFIER: u16 = 1;
/// The flag of a section of punches.
const HAS_PUNCHES: u16 = 2;
/// The flag of extended attributes.
const HAS_XATTRS: u16 = 4;
/// The flag of reserved ranges.
const HAS_RESERVED: u16 = 8;
const FLAGS_KNOWN: u16 = HAS_VERIFIER | HAS_PUNCHES | HAS_XATTRS | HAS_RESERVED;

/// Bytes of all sections of an object, but for those of its cuts and of its extended attributes.
const SECTIONS_BYTES_MAX: usize = 512;

/// The section of what was cut.
const CUTS_SECTION: u16 = 1;
/// The section of what was cut, where something was punched.
const PUNCHES_SECTION: u16 = 2;

/// The section of extended attributes.
const XATTRS_SECTION: u16 = 3;
/// The section of reserved ranges.
const RESERVED_SECTION: u16 = 4;

/// Bytes before a section's own: its id and length.
const SECTION_HEAD_BYTES: usize = 4;

/// Log2 of the block sizes that a file can have.
const RECORD_SHIFTS: RangeInclusive<u8> = 12..=20;

/// The same of those that the format has room for: blocks as long as a pointer can claim.
const RECORD_SHIFTS_KEPT: RangeInclusive<u8> = 12..=24;

/// ACL kind and project of an object that has none of these.
const NOT_YET: [u8; 8] = [0; 8];

/// Bytes before the length of the target.
const HEAD_BYTES: usize = 132;

/// Bytes of the section of extended attributes, which no symbolic link has.
pub(crate) const XATTRS_SECTION_BYTES: usize = SECTION_HEAD_BYTES + XattrAccount::BYTES;

/// Most bytes of an inode, but for the target of a symbolic link.
pub(crate) const INODE_BYTES_MAX: usize = 136 + XATTRS_SECTION_BYTES + SECTIONS_BYTES_MAX;
// The tree has what was cut, and what is reserved, besides.
const TREE_BYTES_MAX: usize = SECTION_HEAD_BYTES + CUTS_BYTES_MAX + SECTION_HEAD_BYTES + RESERVED_BYTES_MAX;
const _: () = assert!(INODE_BYTES_MAX + TREE_BYTES_MAX + SYMLINK_MAX <= VALUE_BYTES_MAX);

/// No `change` is issued from here on, in the year 2262: later sums would overflow.
const CHANGE_END: u64 = 1 << 63;

impl Inode {
    /// Whether it is a directory without names.
    pub(crate) fn is_empty_directory(&self) -> bool {
        self.kind == FileKind::Directory && self.size <= DOT_ENTRIES
    }

    /// Whether it is a file without a name that anybody is shown.
    pub(crate) fn is_held(&self) -> bool {
        self.parent == HELD
    }

    /// From this offset on a file that is stored so has no blocks.
    pub(crate) fn blocks_end(&self) -> u64 {
        match self.layout {
            Layout::Small => 0,
            Layout::Extents => self.size.next_multiple_of(self.record_size()),
        }
    }

    /// From this offset on the tree has no extents of it, also none that were cut away and are not freed yet.
    pub(crate) fn extents_end(&self) -> u64 {
        self.blocks_end().max(self.cuts.as_ref().map_or(0, |cuts| cuts.end()))
    }

    /// Whether a block that the tree still has was cut away.
    #[must_use]
    pub fn has_cut(&self, start: u64, birth: Txg) -> bool {
        self.cuts.as_ref().is_some_and(|cuts| cuts.has(start, birth))
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
            atime: now.into(),
            mtime: now.into(),
            ctime: now,
            change: now,
            generation,
            parent: ObjectId(FIRST_ID),
            entry: ObjectId(0),
            birth: now,
            layout: Layout::Small,
            record_shift: 17,
            create_verifier: None,
            target: Bytes::new(),
            cuts: None,
            reserved: None,
            xattrs: XattrAccount::default(),
            sections: Bytes::new(),
        }
    }

    /// The attributes that this inode shows for `id`.
    #[must_use]
    pub fn attr(&self, id: ObjectId) -> Attr {
        Attr {
            object: ObjectRef { id, generation: self.generation },
            kind: self.kind,
            mode: self.mode,
            nlink: if self.is_held() { 0 } else { self.nlink },
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

    /// What its dataset is charged for it, beside what each object is.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.used.saturating_add(self.xattrs.bytes.into())
    }

    /// What is reserved for it and it has not taken, as of the last fold.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved.as_ref().map_or(0, |reserved| reserved.bytes)
    }

    /// What all that is reserved of it may take.
    #[must_use]
    pub(crate) fn reserved_room(&self) -> u64 {
        self.reserved_room_at(self.size)
    }

    fn reserved_room_at(&self, size: u64) -> u64 {
        let room = |reserved: &Reserved| reserved.room_bytes(size, self.record_size()).saturating_add(FILE_CHARGE);
        self.reserved.as_deref().map_or(0, room)
    }

    /// By how much more that is where the file becomes so long: by what its last block does, if that is reserved.
    #[must_use]
    pub(crate) fn reserved_more_at(&self, size: u64) -> u64 {
        self.reserved_room_at(size).saturating_sub(self.reserved_room())
    }

    /// What its stored blocks in ranges of whole ones take at the least, as of the last fold: whatever lies outside, and what was cut and is not freed yet, takes no more
    /// than it could.
    #[must_use]
    pub(crate) fn surely_taken(&self, ranges: &[Range<u64>]) -> u64 {
        if self.layout != Layout::Extents {
            return 0;
        }
        let end = self.extents_end();
        let room = |ranges: &[Range<u64>]| room_of(ranges, end, self.record_size());
        let outside_bytes = room(std::slice::from_ref(&(0..end))).saturating_sub(room(ranges));
        self.used.saturating_sub(outside_bytes)
    }

    /// What is still to be taken of what is reserved, where its blocks in that take so much with what is around them: for checks.
    #[must_use]
    pub fn reserved_beside(&self, taken_bytes: u64) -> u64 {
        self.reserved_room().saturating_sub(taken_bytes)
    }

    /// Whether the block that begins there is reserved.
    #[must_use]
    pub fn is_reserved(&self, start: u64) -> bool {
        self.reserved.as_ref().is_some_and(|reserved| reserved.has(start))
    }

    /// Whether a WRITE into that range was promised room: it lies in what is reserved, and in the file.
    pub(crate) fn is_promised(&self, range: &Range<u64>) -> bool {
        range.end <= self.size && self.reserved.as_ref().is_some_and(|reserved| reserved.covers(range))
    }

    /// A range is reserved. False: there is no room to note one more.
    #[must_use]
    pub(crate) fn reserve(&mut self, range: &Range<u64>) -> bool {
        let with = Reserved::with(self.reserved.as_deref(), range.clone(), self.record_size());
        with.map(|reserved| self.reserved = Some(Box::new(reserved))).is_some()
    }

    /// A range is reserved, and where there is no room to note one more, what lies between the two that are nearest to each other as well.
    pub(crate) fn reserve_closed(&mut self, range: &Range<u64>) {
        let closed = Reserved::closed(self.reserved.as_deref(), range.clone(), self.record_size());
        self.reserved = Some(Box::new(closed));
    }

    /// Nothing is reserved any more of the whole blocks in a range.
    pub(crate) fn unreserve(&mut self, range: &Range<u64>) {
        let record_size = self.record_size();
        self.reserved = self.reserved.take().and_then(|it| it.without(range, record_size)).map(Box::new);
    }

    /// Block size of the content, bytes.
    #[must_use]
    pub fn record_size(&self) -> u64 {
        1 << self.record_shift
    }

    /// It has a name there.
    pub(crate) fn gain_name(&mut self, dir: ObjectId, entry: ObjectId) {
        (self.parent, self.entry) = (dir, entry);
    }

    /// It has no name there any more.
    pub(crate) fn lose_name(&mut self, dir: ObjectId, entry: ObjectId) {
        if (self.parent, self.entry) == (dir, entry) {
            (self.parent, self.entry) = (ObjectId(0), ObjectId(0));
        }
    }

    /// Marks a change of metadata at an issued time.
    pub fn touch(&mut self, now: Time) {
        self.ctime = now;
        self.change = now;
    }

    /// Marks a change of content at an issued time.
    pub fn modify(&mut self, now: Time) {
        self.mtime = now.into();
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

    /// Appends the encoding drawn in the module's head, as records have it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_with(Vec::new(), 0, None, out);
    }

    /// Appends the encoding that the tree has.
    pub fn encode_stored(&self, out: &mut Vec<u8>) {
        let (mut section, mut flags) = (Vec::new(), 0);
        if let Some(cuts) = &self.cuts {
            let mut bytes = Vec::new();
            cuts.encode(&mut bytes);
            let is_punched = cuts.punch_count() > 0;
            flags = if is_punched { HAS_PUNCHES } else { 0 };
            section.put_u16(if is_punched { PUNCHES_SECTION } else { CUTS_SECTION });
            section.put_u16(bytes.len() as u16);
            section.put(&bytes);
        }
        self.encode_with(section, flags, self.reserved.as_deref(), out);
    }

    /// Behind `sections`, which may come first, and with the flags that say so.
    fn encode_with(&self, mut sections: Vec<u8>, flags: u16, reserved: Option<&Reserved>, out: &mut Vec<u8>) {
        if !self.xattrs.is_empty() {
            sections.put_u16(XATTRS_SECTION);
            sections.put_u16(XattrAccount::BYTES as u16);
            self.xattrs.encode(&mut sections);
        }
        if let Some(reserved) = reserved {
            sections.put_u16(RESERVED_SECTION);
            sections.put_u16((reserved.ranges().len() * 16) as u16);
            reserved.encode(&mut sections);
        }
        let mut head = Fixed::<HEAD_BYTES>::default();
        head.put_u8(VERSION);
        head.put_u8(self.kind as u8);
        head.put_u16(self.mode as u16);
        head.put_u32(self.nlink);
        head.put_u32(self.uid);
        head.put_u32(self.gid);
        head.put_u64(self.size);
        head.put_u64(self.used);
        head.put_u32(self.rdev.0);
        head.put_u32(self.rdev.1);
        for time in [self.atime, self.mtime] {
            head.put_u64(time.0.cast_unsigned());
        }
        for time in [self.ctime, self.change] {
            head.put_u64(time.0);
        }
        head.put_u64(self.generation.0);
        head.put_u64(self.parent.0);
        head.put_u8(self.layout as u8);
        head.put_u8(self.record_shift);
        let flag = |is_there: bool, flag| if is_there { flag } else { 0 };
        let own = flag(self.create_verifier.is_some(), HAS_VERIFIER) | flag(!self.xattrs.is_empty(), HAS_XATTRS);
        head.put_u16(flags | own | flag(reserved.is_some(), HAS_RESERVED));
        head.put_u64(self.create_verifier.unwrap_or(0));
        head.put_u64(self.birth.0);
        head.put_u64(reserved.map_or(0, |reserved| reserved.bytes));
        head.put(&NOT_YET);
        head.put_u64(self.entry.0);
        out.reserve(HEAD_BYTES + 4 + self.target.len() + sections.len() + self.sections.len());
        out.put(head.bytes());
        out.put_u16(self.target.len() as u16);
        out.put(&self.target);
        out.put_u16((sections.len() + self.sections.len()) as u16);
        out.put(&sections);
        out.put(&self.sections);
    }

    /// Reads one encoding from the front of `reader`.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let malformed = reader.malformed();
        match reader.u8()? {
            VERSION => {}
            version if version > VERSION => return Err(DecodeError::Newer("an inode of another form")),
            _ => return Err(malformed.into()),
        }
        let kind = kind_of(reader.u8()?).ok_or(malformed)?;
        let mode = u32::from(reader.u16()?);
        let (nlink, uid, gid) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (size, used) = (reader.u64()?, reader.u64()?);
        let rdev = (reader.u32()?, reader.u32()?);
        let [atime, mtime] = [reader.u64()?, reader.u64()?].map(|time| FileTime(time.cast_signed()));
        let [ctime, change] = [reader.u64()?, reader.u64()?].map(Time);
        let generation = Generation(reader.u64()?);
        let parent = ObjectId(reader.u64()?);
        let layout = match reader.u8()? {
            0 => Layout::Small,
            1 => Layout::Extents,
            _ => return Err(malformed.into()),
        };
        let record_shift = reader.u8()?;
        let flags = reader.u16()?;
        let verifier = reader.u64()?;
        let birth = Time(reader.u64()?);
        let reserved_bytes = reader.u64()?;
        let not_yet = reader.array()?;
        let entry = ObjectId(reader.u64()?);
        let target_length = usize::from(reader.u16()?);
        let target = Bytes::copy_from_slice(reader.bytes(target_length)?);
        let sections_length = usize::from(reader.u16()?);
        let (cuts, sections) = split_cuts(reader.bytes(sections_length)?, flags & HAS_PUNCHES != 0)?;
        let (xattrs, sections) = split_xattrs(sections)?;
        let (reserved, sections) = match flags & HAS_RESERVED {
            0 => (None, sections),
            _ => split_section(sections, RESERVED_SECTION)?,
        };
        // A sound checksum says that it was written so, not that it can be.
        let possible = sections.len() <= SECTIONS_BYTES_MAX
            && are_sections(sections)
            && mode <= 0o7777
            && nlink <= LINK_MAX
            && size <= FILE_SIZE_MAX
            && used <= FILE_SIZE_MAX
            && change.0 < CHANGE_END
            && RECORD_SHIFTS_KEPT.contains(&record_shift)
            && target_length <= SYMLINK_MAX
            // A record has room for the targets of two symbolic links, and not for those of four objects.
            && (target_length == 0 || kind == FileKind::Symlink)
            && xattrs.is_some() == (flags & HAS_XATTRS != 0)
            && (xattrs.is_none() || has_xattrs(kind))
            && reserved.is_some() == (flags & HAS_RESERVED != 0)
            && (reserved.is_none() || kind == FileKind::File);
        if !possible {
            return Err(malformed.into());
        }
        if let Some(what) = newer(flags, reserved_bytes, &not_yet, record_shift) {
            return Err(DecodeError::Newer(what));
        }
        let reserved =
            reserved.map(|section| Reserved::decode(section, reserved_bytes, 1 << record_shift)).transpose()?;
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
            entry,
            birth,
            layout,
            record_shift,
            create_verifier: (flags & HAS_VERIFIER != 0).then_some(verifier),
            target,
            cuts: cuts.map(Box::new),
            reserved: reserved.map(Box::new),
            xattrs: xattrs.unwrap_or_default(),
            sections: Bytes::copy_from_slice(sections),
        })
    }
}

/// What only newer programs put into an inode that could be one. What cannot be one is damage, whatever else it has.
fn newer(
    flags: u16,
    reserved_bytes: u64,
    [acl, _, _, _, p0, p1, p2, p3]: &[u8; 8],
    record_shift: u8,
) -> Option<&'static str> {
    let cases = [
        (flags & !FLAGS_KNOWN != 0, "an inode with a flag"),
        (flags & HAS_RESERVED == 0 && reserved_bytes != 0, "an inode with reserved space"),
        (*acl != 0, "an inode with an access control list"),
        ([p0, p1, p2, p3] != [&0; 4], "an inode of a project"),
        (!RECORD_SHIFTS.contains(&record_shift), "a file with blocks of more than 1 MiB"),
    ];
    cases.into_iter().find(|(is_met, _)| *is_met).map(|(_, what)| what)
}

/// The section of this id, where it stands first, and the others.
fn split_section(sections: &[u8], id: u16) -> Result<(Option<&[u8]>, &[u8]), Malformed> {
    let mut reader = Reader::new(sections, "inode sections");
    if sections.len() < SECTION_HEAD_BYTES || reader.u16()? != id {
        return Ok((None, sections));
    }
    let length = reader.u16()?;
    Ok((Some(reader.bytes(length.into())?), reader.rest()))
}

/// The section of extended attributes, and those behind it.
fn split_xattrs(sections: &[u8]) -> Result<(Option<XattrAccount>, &[u8]), Malformed> {
    let (section, rest) = split_section(sections, XATTRS_SECTION)?;
    Ok((section.map(XattrAccount::decode).transpose()?, rest))
}

/// The section of cuts, and the others. Where there are punches it has to be there.
fn split_cuts(sections: &[u8], is_punched: bool) -> Result<(Option<Cuts>, &[u8]), Malformed> {
    let id = if is_punched { PUNCHES_SECTION } else { CUTS_SECTION };
    let (section, rest) = split_section(sections, id)?;
    let cuts = section.map(Cuts::decode).transpose()?;
    if is_punched != cuts.as_ref().is_some_and(|cuts| cuts.punch_count() > 0) {
        return Err(Reader::new(sections, "inode sections").malformed());
    }
    Ok((cuts, rest))
}

/// Whether these bytes are sections, one behind the other.
fn are_sections(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes, "inode sections");
    while !reader.rest().is_empty() {
        let length = reader.u16().and_then(|_| reader.u16());
        if length.and_then(|length| reader.bytes(length.into())).is_err() {
            return false;
        }
    }
    true
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
