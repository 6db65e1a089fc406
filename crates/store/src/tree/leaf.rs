//! Leaves: entries of one class, sorted, with fixed-size keys and a table of ends in front of the values, so that
//! a lookup is a binary search in the block itself.
//!
//! ```text
//!   0      4       5      6       8        12     16                16+24n         16+28n
//!   +------+-------+------+-------+--------+------+------- ... ------+---- ... -----+---- ... ----+
//!   |"TLF2"| class | form | count | length | zero | n keys of 24     | n ends of 4  | values      |
//!   +------+-------+------+-------+--------+------+------- ... ------+---- ... -----+---- ... ----+
//! ```
//!
//! Form is 0: pointers in values have 64 bytes. A key is object, a, b, big-endian: [`Key::encode`] without the class. Value `i` lies between end `i - 1` and
//! end `i`, counted from the start of the values. `length` is that of the whole leaf.

use std::ops::Range;

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};

use crate::key::{Class, Key};

/// Bytes before the keys.
pub(super) const HEAD_BYTES: usize = 16;
/// Bytes of an entry beside its value.
pub(super) const ENTRY_BYTES: usize = REST_BYTES + END_BYTES;

const REST_BYTES: usize = 24;
const END_BYTES: usize = 4;
const MAGIC: u32 = u32::from_le_bytes(*b"TLF2");
const PLAIN: u8 = 0;
const WHAT: &str = "tree leaf";

/// The size at which a leaf is split: whole small files want large leaves, so that few sectors are padded;
/// everything else wants small ones, since changing one entry rewrites its leaf. (rules F10)
pub(super) const fn bytes_max(class: Class) -> usize {
    match class {
        Class::Small => 64 << 10,
        _ => 16 << 10,
    }
}

/// A key's order within its class.
type Rest = (u64, u64, u64);

fn rest_of(key: &Key) -> Rest {
    (key.object, key.a, key.b)
}

fn rest(bytes: &[u8; REST_BYTES]) -> Rest {
    let (parts, _) = bytes.as_chunks::<8>();
    let part = |at: usize| parts.get(at).map_or(0, |part| u64::from_be_bytes(*part));
    (part(0), part(1), part(2))
}

/// A leaf's parts, found in its bytes without copying them.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    class: Class,
    keys: &'a [[u8; REST_BYTES]],
    ends: &'a [[u8; END_BYTES]],
    values: &'a [u8],
}

impl<'a> Leaf<'a> {
    /// Finds the parts; checks only that they are there.
    #[inline]
    pub(super) fn view(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, WHAT);
        let magic = reader.u32()?;
        let class = reader.u8()?;
        let form = reader.u8()?;
        let count = usize::from(reader.u16()?);
        let (length, zero) = (reader.u32()? as usize, reader.u32()?);
        let keys = reader.bytes(count * REST_BYTES)?.as_chunks().0;
        let ends = reader.bytes(count * END_BYTES)?.as_chunks().0;
        let class = Class::of(class).ok_or(Malformed(WHAT))?;
        let sound = magic == MAGIC && form == PLAIN && zero == 0 && count > 0 && length == bytes.len();
        if sound { Ok(Self { class, keys, ends, values: reader.rest() }) } else { Err(Malformed(WHAT)) }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.keys.len()
    }

    /// The key of entry `at`, which must exist.
    #[inline]
    pub(super) fn key(&self, at: usize) -> Option<Key> {
        let (object, a, b) = rest(self.keys.get(at)?);
        Some(Key { class: self.class, object, a, b })
    }

    #[inline]
    fn end(&self, at: usize) -> usize {
        self.ends.get(at).map_or(0, |end| u32::from_le_bytes(*end) as usize)
    }

    /// Where value `at` lies in the leaf's bytes.
    #[inline]
    pub(super) fn value(&self, at: usize) -> Range<usize> {
        let start = if at == 0 { 0 } else { self.end(at - 1) };
        let values_at = HEAD_BYTES + self.count() * ENTRY_BYTES;
        values_at + start..values_at + self.end(at)
    }

    /// The entry with this key.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        let wanted = rest_of(key);
        if key.class != self.class {
            return None;
        }
        self.keys.binary_search_by(|bytes| rest(bytes).cmp(&wanted)).ok()
    }

    /// The number of entries below `key`.
    pub(super) fn lower_bound(&self, key: &Key) -> usize {
        let wanted = rest_of(key);
        match self.class.cmp(&key.class) {
            std::cmp::Ordering::Less => self.count(),
            std::cmp::Ordering::Greater => 0,
            std::cmp::Ordering::Equal => self.keys.partition_point(|bytes| rest(bytes) < wanted),
        }
    }

    fn is_in_order(&self) -> bool {
        let keys = self.keys.is_sorted_by(|before, after| before < after);
        let ends = self.ends.is_sorted_by_key(|end| u32::from_le_bytes(*end));
        keys && ends && self.end(self.count() - 1) == self.values.len()
    }
}

/// The number of the class of a leaf, known or not.
pub(super) fn class_number(bytes: &[u8]) -> Option<u8> {
    let mut reader = Reader::new(bytes, WHAT);
    let magic = reader.u32().ok()?;
    reader.u8().ok().filter(|_| magic == MAGIC)
}

/// What is checked once, when a leaf comes from a device: afterwards every value's range lies in the leaf.
pub(super) fn check(bytes: &[u8]) -> Result<(), Malformed> {
    if Leaf::view(bytes)?.is_in_order() { Ok(()) } else { Err(Malformed(WHAT)) }
}

/// An entry on its way into a new leaf.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: Bytes,
}

impl Entry {
    pub(super) fn bytes(&self) -> usize {
        ENTRY_BYTES + self.value.len()
    }
}

/// The leaf of these entries, all of one class and in order.
pub(super) fn encode(entries: &[Entry]) -> Vec<u8> {
    let first = entries.first().expect("a leaf has entries");
    let length = HEAD_BYTES + entries.iter().map(Entry::bytes).sum::<usize>();
    let mut bytes = Vec::with_capacity(length);
    bytes.put_u32(MAGIC);
    bytes.put_u8(first.key.class as u8);
    bytes.put_u8(PLAIN);
    bytes.put_u16(u16::try_from(entries.len()).expect("a leaf of 64 KiB has at most 2340 entries"));
    bytes.put_u32(length as u32);
    bytes.put_u32(0);
    for entry in entries {
        debug_assert_eq!(entry.key.class, first.key.class, "a leaf holds one class");
        bytes.put(&entry.key.encode()[1..]);
    }
    let mut end = 0_u32;
    for entry in entries {
        end += entry.value.len() as u32;
        bytes.put_u32(end);
    }
    for entry in entries {
        bytes.put(&entry.value);
    }
    bytes
}
