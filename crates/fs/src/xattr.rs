//! Extended attributes: what the tree keeps of one under [`Class::Xattr`], and what an object is charged for all of them.
//!
//! The key is (object, keyed hash of the name, part): a value may be longer than a value of the tree, so it stands in up to three parts, each under a key of
//! its own. They are set and removed together, in one record.
//!
//! ```text
//!  part 0     0  name length u8        1  value length u32        5  name, then the value's first 30 KiB
//!  part n     the value's next 30 KiB
//! ```
//!
//! How many an object has, and what they take, its inode knows ([`XattrAccount`]). So nobody asks the tree about an object that has none, which most are; bounds
//! are kept without a look at all of them; and they go with their object.
//!
//! Of two names of one object with one hash the second is refused, as if there was no room for it: with 1,024 names that is one object of 10^13, and the hash has a
//! key that no client knows.

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{ObjectId, name_hash};
use tally_store::key::{Class, Key};
use tally_store::tree::VALUE_BYTES_MAX;
use tally_vfs::{XATTR_NAME_MAX, XATTR_VALUE_MAX, XATTRS_BYTES_MAX, XATTRS_MAX, xattr_charge};

/// Bytes of the value in each part but the last one.
const PART_BYTES: usize = 30 << 10;
/// Most parts of one.
pub(crate) const PARTS_MAX: u64 = XATTR_VALUE_MAX.div_ceil(PART_BYTES) as u64;
/// Most keys of one object: a first part of each, and as many others as fit into what all may take.
pub(crate) const KEYS_MAX: usize = XATTRS_MAX as usize + XATTRS_BYTES_MAX as usize / PART_BYTES;
/// Bytes before the name.
pub(crate) const HEAD_BYTES: usize = 5;
/// As one extent that is freed count so many bytes of what goes: leaves with as many are about as long.
const EXTENT_BYTES: u64 = 128;

const _: () = assert!(HEAD_BYTES + XATTR_NAME_MAX + PART_BYTES <= VALUE_BYTES_MAX);

/// What an object has of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrAccount {
    /// How many.
    pub count: u32,
    /// What they are charged, bytes ([`xattr_charge`]).
    pub bytes: u32,
}

impl XattrAccount {
    /// Bytes of an encoding: count u32, bytes u32.
    pub(crate) const BYTES: usize = 8;

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether an object may have so many.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.count <= XATTRS_MAX && self.bytes <= XATTRS_BYTES_MAX
    }

    /// With one more that is charged so much.
    pub(crate) fn and(self, charge: u32) -> Self {
        Self { count: self.count.saturating_add(1), bytes: self.bytes.saturating_add(charge) }
    }

    /// Without one that is charged so much. What faulty software has counted stops at none.
    pub(crate) fn without(self, charge: u32) -> Self {
        let count = self.count.saturating_sub(1);
        Self { count, bytes: if count == 0 { 0 } else { self.bytes.saturating_sub(charge) } }
    }

    /// As how many extents they count for the reaper, at most.
    pub(crate) fn as_extents(&self) -> u64 {
        let keys = u64::from(self.count) + u64::from(self.bytes) / PART_BYTES as u64;
        keys + u64::from(self.bytes) / EXTENT_BYTES
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.count);
        out.put_u32(self.bytes);
    }

    /// One that is there: none is not written down.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, "account of extended attributes");
        let account = Self { count: reader.u32()?, bytes: reader.u32()? };
        let is_one = !account.is_empty() && account.is_possible();
        let checked = if is_one { Ok(account) } else { Err(reader.malformed()) };
        reader.end()?;
        checked
    }
}

/// As how many extents a part counts for the reaper.
pub(crate) fn part_as_extents(value: &[u8]) -> usize {
    1 + value.len() / EXTENT_BYTES as usize
}

/// How many parts a value of this length has.
pub(crate) fn parts_of(value_bytes: usize) -> u64 {
    value_bytes.div_ceil(PART_BYTES).max(1) as u64
}

/// The key of a part.
pub(crate) fn key(name_key: u64, object: ObjectId, name: &[u8], part: u64) -> Key {
    Key::new(Class::Xattr, object.0, name_hash(name_key, name), part)
}

/// The parts of an attribute with this value, in order. The caller has checked the lengths of both.
pub(crate) fn parts(name: &[u8], value: &[u8]) -> SmallVec<[Bytes; 1]> {
    let (first, rest) = value.split_at(value.len().min(PART_BYTES));
    let mut head = Vec::with_capacity(HEAD_BYTES + name.len() + first.len());
    head.put_u8(u8::try_from(name.len()).expect("a name is at most 255 bytes long"));
    head.put_u32(u32::try_from(value.len()).expect("a value is at most 64 KiB long"));
    head.put(name);
    head.put(first);
    std::iter::once(head.into()).chain(rest.chunks(PART_BYTES).map(Bytes::copy_from_slice)).collect()
}

/// The first part of an attribute.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) name: Bytes,
    /// The whole value.
    pub(crate) value_bytes: usize,
    /// What of it stands here.
    begin: Bytes,
}

impl First {
    pub(crate) fn decode(value: &Bytes) -> Option<Self> {
        let mut reader = Reader::new(value, "extended attribute");
        let (name_bytes, value_bytes) = (usize::from(reader.u8().ok()?), reader.u32().ok()? as usize);
        let (name, begin) = (HEAD_BYTES..HEAD_BYTES + name_bytes, HEAD_BYTES + name_bytes..value.len());
        let is_sound = name_bytes > 0
            && value_bytes <= XATTR_VALUE_MAX
            && begin.start <= begin.end
            && begin.len() == value_bytes.min(PART_BYTES);
        is_sound.then(|| Self { name: value.slice(name), value_bytes, begin: value.slice(begin) })
    }

    /// How many parts there are.
    pub(crate) fn parts(&self) -> u64 {
        parts_of(self.value_bytes)
    }

    /// What its object is charged for it.
    pub(crate) fn charge(&self) -> u32 {
        xattr_charge(&self.name, self.value_bytes)
    }

    /// The whole value, if these are the parts behind this one.
    pub(crate) fn whole(&self, behind: &[Bytes]) -> Option<Bytes> {
        if behind.is_empty() && self.begin.len() == self.value_bytes {
            return Some(self.begin.clone());
        }
        let all = std::iter::once(&self.begin).chain(behind);
        let is_whole = all.clone().map(|part| part.len()).sum::<usize>() == self.value_bytes;
        is_whole.then(|| all.flat_map(|part| part.iter().copied()).collect())
    }
}

/// Whether a value may stand in a part of this number: of a record nobody knows what wrote it.
pub(crate) fn may_be_part(part: u64, value: &Bytes) -> bool {
    match part {
        0 => First::decode(value).is_some(),
        _ => part < PARTS_MAX && (1..=PART_BYTES).contains(&value.len()),
    }
}

#[cfg(test)]
mod tests;
