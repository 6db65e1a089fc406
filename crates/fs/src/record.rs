//! The record catalogue: what an operation leaves in the intent log.
//!
//! A record is a *result*, never a request: the inodes as they are afterwards, the tree keys that changed, the
//! bytes that were written. Carrying an operation out and replaying its record are therefore the same code
//! ([`crate::filesystem`] applies both), replay sets and never computes, and applying a record twice changes nothing
//! (invariant I3). Recording requests instead (as a battery-backed filer does) would be smaller, and replay
//! would have to come to the same ids, times and decisions a second time.
//!
//! Only a file's size is not simply set, because data may be in the pool without being in the log
//! (an unstable WRITE whose transaction group was synced): see [`SizeRule`].
//!
//! ```text
//!  0  flags u8: bit 0 reply, bit 1 truncate, bit 2 data, bit 3 mark (form 1), bit 4 punch (form 2),
//!              bit 5 reserve (form 3)     then, in this order, what is there:
//!     reply     key 40, has object u8, object u64, generation u64
//!     mark      session 16, slot u32, operation u32, sequence u32, fingerprint u64, then as behind a reply's key
//!     inodes    count u8, each: object u64, present u8, [size rule u8, at least u64, inode]
//!     keys      count u8, each: key 25, present u8, [value (length u32 + bytes)]
//!     truncate  object u64, size u64
//!     punch     object u64, from u64, to u64
//!     reserve   object u64, from u64, to u64
//!     data      object u64, count u16, each: offset u64, length u32; then the bytes of all, to the end of the record
//! ```
//!
//! A program that reads a record of a newer one has to say so before it takes it for damage: what is newer may not be lost, and
//! damage may. So a record says in its head, outside of the body, what is needed to read it: its kind, and its **form**
//! ([`PARTS_OF_FORM`]), the oldest one that has all its parts. What has no new part is as old programs write it, and they read it.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::codec::{DecodeError, Malformed, Put, Reader};
use tally_base::{Generation, ObjectId, SlotMark};
use tally_intent::{RecordHead, RecordName, RecordShape};
use tally_store::key::{Class, KEY_BYTES, Key};
use tally_store::pool::{DRAWN_ROOM_END, TIME_ROOM_END};
use tally_store::replies;
use tally_store::tree::VALUE_BYTES_MAX;
use tally_vfs::{FILE_SIZE_MAX, NAME_MAX, ObjectRef, RememberedReply, ReplyKey, SYMLINK_MAX, XATTR_NAME_MAX};

use crate::entry::decode_entry;
use crate::inode::{INODE_BYTES_MAX, Inode, XATTRS_SECTION_BYTES};
use crate::xattr::{self, PARTS_MAX};

/// The kinds and their numbers, so that one that is named here is in [`RecordKind::ALL`], too.
macro_rules! record_kinds {
    ($($kind:ident = $number:literal,)*) => {
        /// What kind of operation left the record: for people, statistics and tests. Replay does not look at it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum RecordKind {
            $($kind = $number,)*
        }

        impl RecordKind {
            /// Every kind, for tests that must cover all of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];
        }
    };
}

record_kinds! {
    Create = 1,
    Mkdir = 2,
    Symlink = 3,
    Mknod = 4,
    Remove = 5,
    Rmdir = 6,
    Rename = 7,
    Link = 8,
    SetAttr = 9,
    Truncate = 10,
    Write = 11,
    CommitData = 12,
    SetXattr = 16,
    RemoveXattr = 17,
    Punch = 18,
    Reserve = 19,
}

/// Flags of a body: what is in it.
const HAS_REPLY: u8 = 1;
const HAS_TRUNCATE: u8 = 2;
const HAS_DATA: u8 = 4;
const HAS_MARK: u8 = 8;
const HAS_PUNCH: u8 = 16;
const HAS_RESERVE: u8 = 32;
/// What may be in a body of each form. A new part, or one that means more than before, is a new form with all of the one before it, at
/// the end. A new kind is told by its number, and needs none.
const PARTS_OF_FORM: [u8; 4] = [
    HAS_REPLY | HAS_TRUNCATE | HAS_DATA,
    HAS_REPLY | HAS_TRUNCATE | HAS_DATA | HAS_MARK,
    HAS_REPLY | HAS_TRUNCATE | HAS_DATA | HAS_MARK | HAS_PUNCH,
    HAS_REPLY | HAS_TRUNCATE | HAS_DATA | HAS_MARK | HAS_PUNCH | HAS_RESERVE,
];

const _: () = {
    let mut form = 1;
    while form < PARTS_OF_FORM.len() {
        assert!(PARTS_OF_FORM[form - 1] & !PARTS_OF_FORM[form] == 0, "a form has what the one before it has");
        form += 1;
    }
};

/// What a record has that only newer programs know, if anything. It was acknowledged, and is not damaged: nobody may pass over
/// it.
pub(crate) fn newer(head: &RecordHead) -> Option<String> {
    let RecordShape { form, flags } = head.shape;
    if flags != 0 || parts_of(form).is_none() {
        return Some(format!("form {form} with flags {flags:#x}"));
    }
    RecordKind::of(head.kind).is_none().then(|| format!("kind {}", head.kind))
}

/// What may be in a body of this form, or `None` if only newer programs know that.
fn parts_of(form: u8) -> Option<u8> {
    PARTS_OF_FORM.get(usize::from(form)).copied()
}

impl RecordKind {
    /// The kind with this number in the log.
    #[must_use]
    pub fn of(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| *kind as u16 == number)
    }
}

/// How replay finds an inode's size (rules F17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// The size in the image. New objects, directories, truncation.
    Exact,
    /// What the file has by then: the operation did not touch it.
    Keep,
    /// At least this, for a WRITE, a punch or a reservation that ended here.
    AtLeast(u64),
}

/// An object after the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeAfter {
    /// The object that the change is about.
    pub object: ObjectId,
    /// Its inode, or `None` if its last link is gone.
    pub inode: Option<Inode>,
    /// How its size is to be taken at replay.
    pub size: SizeRule,
}

/// Bytes written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The file that it was written to.
    pub object: ObjectId,
    /// What, and where: offset and bytes.
    pub pieces: SmallVec<[(u64, Bytes); 1]>,
}

/// What one operation leaves behind: inodes and keys as they are afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The answer to remember for a retransmission (rules F12).
    pub reply: Option<(ReplyKey, RememberedReply)>,
    /// The answer to remember as that of an operation in a slot (rules V5).
    pub mark: Option<(SlotMark, RememberedReply)>,
    /// Metadata of the objects that it touched, as they are afterwards.
    pub inodes: SmallVec<[InodeAfter; 2]>,
    /// Tree keys after it; `None` is gone.
    pub keys: SmallVec<[(Key, Option<Bytes>); 2]>,
    /// The file was cut to this size, before `data`.
    pub truncate: Option<(ObjectId, u64)>,
    /// The file was punched there, before `data`: it reads as zeroes.
    pub punch: Option<(ObjectId, Range<u64>)>,
    /// Of the file that range was reserved: WRITEs into it were promised room.
    pub reserve: Option<(ObjectId, Range<u64>)>,
    /// Content that it wrote, to one file.
    pub data: Option<Data>,
}

/// Room for everything in a record that is not data, nor the value of an extended attribute. Most of it takes a RENAME from one directory to another that replaces
/// something: four inodes with their sections, two of them of symbolic links, and eight keys with names; or, where somebody has that
/// open, five, one of them of a link.
pub const RECORD_OVERHEAD_MAX: usize = 16 * 1024;

/// Most pieces of data in one record. Their places stand in the overhead, beside the one inode of the file.
pub const RECORD_PIECES_MAX: usize = 1000;

/// Flags, a reply, a mark, both counts, and what is said of a truncation, a punch and a reservation.
const PARTS_BYTES_MAX: usize = 1 + (40 + 17) + (36 + 17) + 2 + 16 + 24 + 24;
/// An object, how its size is to be taken, and its inode without a target.
const INODE_AFTER_BYTES_MAX: usize = 8 + 1 + 9 + INODE_BYTES_MAX;
/// A key, and an entry.
const KEY_AFTER_BYTES_MAX: usize = KEY_BYTES + 1 + 4 + 9 + NAME_MAX;
/// A symbolic link's target, in place of what it has not.
const TARGET_BYTES_MAX: usize = SYMLINK_MAX - XATTRS_SECTION_BYTES;
const NAMES_BYTES_MAX: usize = 5 * INODE_AFTER_BYTES_MAX + 2 * TARGET_BYTES_MAX + 8 * KEY_AFTER_BYTES_MAX;
/// Bytes of a piece's place.
const PLACE_BYTES: usize = 12;
const PLACES_BYTES_MAX: usize = INODE_AFTER_BYTES_MAX + 10 + RECORD_PIECES_MAX * PLACE_BYTES;

/// An inode, and the keys of an extended attribute with all but its value.
const XATTR_BYTES_MAX: usize =
    INODE_AFTER_BYTES_MAX + PARTS_MAX as usize * (KEY_BYTES + 1 + 4) + xattr::HEAD_BYTES + XATTR_NAME_MAX;

const _: () = assert!(PARTS_BYTES_MAX + XATTR_BYTES_MAX <= RECORD_OVERHEAD_MAX);
const _: () = assert!(PARTS_BYTES_MAX + NAMES_BYTES_MAX <= RECORD_OVERHEAD_MAX);
const _: () = assert!(PARTS_BYTES_MAX + PLACES_BYTES_MAX <= RECORD_OVERHEAD_MAX);

impl Record {
    /// The encoding up to, and without, the data's bytes: they follow as a second part, so that they are copied once.
    #[must_use]
    pub fn encode_head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.put_u8(self.parts());
        if let Some((key, reply)) = &self.reply {
            out.put(&key.0);
            out.put(&encode_reply(*reply));
        }
        if let Some((mark, reply)) = &self.mark {
            encode_mark(mark, &mut out);
            out.put(&encode_reply(*reply));
        }
        out.put_u8(u8::try_from(self.inodes.len()).expect("an operation touches at most five objects"));
        for after in &self.inodes {
            encode_inode_after(after, &mut out);
        }
        out.put_u8(u8::try_from(self.keys.len()).expect("an operation changes at most eight keys"));
        for (key, value) in &self.keys {
            out.put(&key.encode());
            out.put_u8(u8::from(value.is_some()));
            if let Some(value) = value {
                out.put_blob(value);
            }
        }
        if let Some((object, size)) = self.truncate {
            out.put_u64(object.0);
            out.put_u64(size);
        }
        for (object, range) in self.punch.iter().chain(&self.reserve) {
            out.put_u64(object.0);
            out.put_u64(range.start);
            out.put_u64(range.end);
        }
        if let Some(data) = &self.data {
            out.put_u64(data.object.0);
            out.put_u16(u16::try_from(data.pieces.len()).expect("a record takes at most RECORD_PIECES_MAX pieces"));
            for (offset, bytes) in &data.pieces {
                out.put_u64(*offset);
                out.put_u32(u32::try_from(bytes.len()).expect("a record's data is bounded by the frame"));
            }
        }
        out
    }

    /// What stands in its head: how an operation of this kind is to be read.
    #[must_use]
    pub fn name(&self, kind: RecordKind) -> RecordName {
        let parts = self.parts();
        let form =
            PARTS_OF_FORM.iter().position(|of_form| parts & !of_form == 0).expect("the newest form has all parts");
        RecordName { kind: kind as u16, shape: RecordShape { form: form as u8, flags: 0 } }
    }

    /// Which parts it has, as flags.
    fn parts(&self) -> u8 {
        let flag = |is_there: bool, flag| if is_there { flag } else { 0 };
        flag(self.reply.is_some(), HAS_REPLY)
            | flag(self.truncate.is_some(), HAS_TRUNCATE)
            | flag(self.data.is_some(), HAS_DATA)
            | flag(self.mark.is_some(), HAS_MARK)
            | flag(self.punch.is_some(), HAS_PUNCH)
            | flag(self.reserve.is_some(), HAS_RESERVE)
    }

    /// The data's bytes: the parts of the encoding that follow the head.
    pub fn data_parts(&self) -> impl Iterator<Item = &[u8]> {
        self.data.iter().flat_map(|data| data.pieces.iter().map(|(_, bytes)| &bytes[..]))
    }

    /// Reads a record back whose head says that it is of this form; `body` is kept alive by the data that is sliced out of it.
    pub fn decode(form: u8, body: &Bytes) -> Result<Self, DecodeError> {
        let parts = parts_of(form).ok_or(DecodeError::Newer("form of a log record"))?;
        let mut reader = Reader::new(body, "log record");
        let flags = reader.u8()?;
        if flags & !parts != 0 {
            return Err(reader.malformed().into());
        }
        let reply =
            if flags & HAS_REPLY != 0 { Some((ReplyKey(reader.array()?), decode_reply(&mut reader)?)) } else { None };
        let mark = match flags & HAS_MARK {
            0 => None,
            _ => Some((decode_mark(&mut reader)?, decode_reply(&mut reader)?)),
        };
        let mut inodes = SmallVec::new();
        for _ in 0..reader.u8()? {
            inodes.push(decode_inode_after(&mut reader)?);
        }
        let mut keys = SmallVec::new();
        for _ in 0..reader.u8()? {
            let key = Key::decode(&reader.array::<KEY_BYTES>()?).ok_or(reader.malformed())?;
            let value = if reader.u8()? != 0 { Some(Bytes::copy_from_slice(reader.blob()?)) } else { None };
            keys.push((key, value));
        }
        let truncate = if flags & HAS_TRUNCATE != 0 { Some((ObjectId(reader.u64()?), reader.u64()?)) } else { None };
        let mut range_of = |flag| match flags & flag {
            0 => Ok(None),
            _ => Ok::<_, Malformed>(Some((ObjectId(reader.u64()?), reader.u64()?..reader.u64()?))),
        };
        let (punch, reserve) = (range_of(HAS_PUNCH)?, range_of(HAS_RESERVE)?);
        let data = if flags & HAS_DATA != 0 { Some(decode_data(&mut reader, body)?) } else { None };
        let record = Self { reply, mark, inodes, keys, truncate, punch, reserve, data };
        let possible = record.is_possible().then_some(()).ok_or(reader.malformed());
        reader.end()?;
        Ok(possible.map(|()| record)?)
    }

    /// Before an operation is carried out: what its record says of an object is said of the one that is there, and what
    /// has lost its last link has no name in it. A replay finds out the same by itself, since a disk may say anything.
    pub(crate) fn assert_sound<'a>(&self, there: impl Fn(ObjectId) -> Option<&'a Inode>) {
        for InodeAfter { object, inode, .. } in &self.inodes {
            match inode {
                Some(inode) => {
                    assert!(inode.nlink > 0, "object {object} has no link left and is not gone");
                    let is_it = there(*object).is_none_or(|there| there.generation == inode.generation);
                    assert!(is_it, "a record of object {object} is of another generation");
                }
                None => assert!(!self.names(*object), "object {object} is gone and has a name"),
            }
        }
    }

    /// Whether an entry that it makes leads to the object.
    fn names(&self, object: ObjectId) -> bool {
        let leads_to_it = |(key, value): &(Key, Option<Bytes>)| {
            let entry = value.as_ref().filter(|_| key.class == Class::DirEntry).and_then(decode_entry);
            entry.is_some_and(|(named, _)| named == object)
        };
        self.keys.iter().any(leads_to_it)
    }

    /// Whether its numbers can have been issued, and leave room to go on: a sound checksum does not say so.
    fn is_possible(&self) -> bool {
        let objects = self.inodes.iter().map(|after| after.object.0).chain(self.keys.iter().map(|(key, _)| key.object));
        let entries = self.keys.iter().filter(|(key, _)| key.class == Class::DirEntry).map(|(key, _)| key.a);
        // Everything else in the tree is the fold's to write: two changes of one key would make a leaf that cannot be
        // read.
        let may_be = |key: &Key, value: &Option<Bytes>| match key.class {
            Class::DirEntry | Class::DirHash => true,
            Class::Xattr => value.as_ref().map_or(key.b < PARTS_MAX, |value| xattr::may_be_part(key.b, value)),
            _ => false,
        };
        let fits = |value: &Option<Bytes>| value.as_ref().is_none_or(|value| value.len() <= VALUE_BYTES_MAX);
        let keys = self.keys.iter().all(|(key, value)| may_be(key, value) && fits(value));
        let links = |after: &InodeAfter| after.inode.as_ref().is_none_or(|inode| inode.nlink > 0);
        let size = self.truncate.is_none_or(|(_, size)| size <= FILE_SIZE_MAX);
        let is_range = |(_, range): &(ObjectId, Range<u64>)| range.start < range.end && range.end <= FILE_SIZE_MAX;
        let ranges = self.punch.iter().chain(&self.reserve).all(is_range);
        let time = |after: &InodeAfter| after.inode.as_ref().is_none_or(|inode| inode.change < TIME_ROOM_END);
        let at_least = |after: &InodeAfter| !matches!(after.size, SizeRule::AtLeast(end) if end > FILE_SIZE_MAX);
        size && ranges
            && keys
            && objects.chain(entries).all(|id| id < DRAWN_ROOM_END)
            && self.inodes.iter().all(|after| links(after) && at_least(after) && time(after))
    }
}

fn encode_mark(mark: &SlotMark, out: &mut Vec<u8>) {
    out.put(&mark.session);
    out.put_u32(mark.slot);
    out.put_u32(mark.operation);
    out.put_u32(mark.sequence);
    out.put_u64(mark.fingerprint);
}

fn decode_mark(reader: &mut Reader<'_>) -> Result<SlotMark, Malformed> {
    let (session, slot, operation) = (reader.array()?, reader.u32()?, reader.u32()?);
    Ok(SlotMark { session, slot, operation, sequence: reader.u32()?, fingerprint: reader.u64()? })
}

fn encode_inode_after(after: &InodeAfter, out: &mut Vec<u8>) {
    out.put_u64(after.object.0);
    out.put_u8(u8::from(after.inode.is_some()));
    let Some(inode) = &after.inode else { return };
    let (rule, at_least) = match after.size {
        SizeRule::Exact => (0, 0),
        SizeRule::Keep => (1, 0),
        SizeRule::AtLeast(end) => (2, end),
    };
    out.put_u8(rule);
    out.put_u64(at_least);
    inode.encode(out);
}

fn decode_inode_after(reader: &mut Reader<'_>) -> Result<InodeAfter, DecodeError> {
    let object = ObjectId(reader.u64()?);
    if reader.u8()? == 0 {
        return Ok(InodeAfter { object, inode: None, size: SizeRule::Exact });
    }
    let rule = reader.u8()?;
    let at_least = reader.u64()?;
    let size = match rule {
        0 => SizeRule::Exact,
        1 => SizeRule::Keep,
        2 => SizeRule::AtLeast(at_least),
        _ => return Err(reader.malformed().into()),
    };
    Ok(InodeAfter { object, inode: Some(Inode::decode(reader)?), size })
}

/// A remembered reply, as a record has it behind its key, and the pool among those that it remembers.
pub(crate) fn encode_reply(reply: RememberedReply) -> replies::Value {
    let mut value = [0; 17];
    if let Some(object) = reply.object {
        value[0] = 1;
        value[1..9].copy_from_slice(&object.id.0.to_le_bytes());
        value[9..].copy_from_slice(&object.generation.0.to_le_bytes());
    }
    value
}

pub(crate) fn decode_reply(reader: &mut Reader<'_>) -> Result<RememberedReply, Malformed> {
    let present = reader.u8()? != 0;
    let object = ObjectRef { id: ObjectId(reader.u64()?), generation: Generation(reader.u64()?) };
    Ok(RememberedReply { object: present.then_some(object) })
}

fn decode_data(reader: &mut Reader<'_>, body: &Bytes) -> Result<Data, Malformed> {
    let object = ObjectId(reader.u64()?);
    let count = usize::from(reader.u16()?);
    let mut places = reader.clone();
    reader.bytes(count * PLACE_BYTES)?;
    let mut pieces = SmallVec::with_capacity(count);
    for _ in 0..count {
        let (offset, length) = (places.u64()?, places.u32()?);
        if offset.checked_add(u64::from(length)).is_none_or(|end| end > FILE_SIZE_MAX) {
            return Err(reader.malformed());
        }
        pieces.push((offset, body.slice_ref(reader.bytes(length as usize)?)));
    }
    Ok(Data { object, pieces })
}

#[cfg(test)]
mod tests;
