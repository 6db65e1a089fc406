//! Inner nodes: for each child the smallest key that may lie below it, and its pointer.
//!
//! ```text
//!   0      4        5      6       8        12     16               16+25n           16+89n
//!   +------+--------+------+-------+--------+------+------ ... ------+------- ... ------+
//!   |"TND2"| height | form | count | length | zero | n keys of 25    | n pointers of 64 |
//!   +------+--------+------+-------+--------+------+------ ... ------+------- ... ------+
//! ```
//!
//! Form is 0: pointers of 64 bytes. Height 1 stands above leaves. The first key is a lower bound like the others, but a key below it would still
//! be put into the first child.

use tally_base::codec::{Malformed, Put, Reader};

use crate::bp::{BLOCK_PTR_BYTES, BlockKind, BlockPtr};
use crate::key::{Class, KEY_BYTES, Key};

const HEAD_BYTES: usize = 16;
const CHILD_BYTES: usize = KEY_BYTES + BLOCK_PTR_BYTES;
const MAGIC: u32 = u32::from_le_bytes(*b"TND2");
const PLAIN: u8 = 0;
const WHAT: &str = "tree node";

/// Children of a full node: what fits into 16 KiB.
pub(super) const CHILDREN_MAX: usize = ((16 << 10) - HEAD_BYTES) / CHILD_BYTES;

/// Trees higher than this do not exist: 183 children to the 8th power are more than 2^60 leaves.
pub(super) const HEIGHT_MAX: u8 = 8;

/// A child: the smallest key that may lie below it, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) key: Key,
    pub(super) bp: BlockPtr,
}

/// A node's parts, found in its bytes without copying them.
#[derive(Clone, Copy)]
pub(super) struct Inner<'a> {
    height: u8,
    keys: &'a [[u8; KEY_BYTES]],
    pointers: &'a [[u8; BLOCK_PTR_BYTES]],
}

impl<'a> Inner<'a> {
    /// Finds the parts; checks only that they are there.
    #[inline]
    pub(super) fn view(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, WHAT);
        let magic = reader.u32()?;
        let (height, form) = (reader.u8()?, reader.u8()?);
        let count = usize::from(reader.u16()?);
        let (length, zero) = (reader.u32()? as usize, reader.u32()?);
        let keys = reader.bytes(count * KEY_BYTES)?.as_chunks().0;
        let pointers = reader.bytes(count * BLOCK_PTR_BYTES)?.as_chunks().0;
        reader.end()?;
        let sound = magic == MAGIC && form == PLAIN && zero == 0 && count > 0 && length == bytes.len();
        if sound { Ok(Self { height, keys, pointers }) } else { Err(Malformed(WHAT)) }
    }

    #[inline]
    pub(super) fn height(&self) -> u8 {
        self.height
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.keys.len()
    }

    /// The child `at`, which must exist.
    pub(super) fn child(&self, at: usize) -> Result<Child, Malformed> {
        let key = self.key(at).ok_or(Malformed(WHAT))?;
        Ok(Child { key, bp: self.pointer(at)? })
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> Option<Key> {
        Key::decode(self.keys.get(at)?)
    }

    #[inline]
    pub(super) fn pointer(&self, at: usize) -> Result<BlockPtr, Malformed> {
        BlockPtr::decode(self.pointers.get(at).ok_or(Malformed(WHAT))?)
    }

    /// The child below which `key` belongs.
    #[inline]
    pub(super) fn position(&self, key: &Key) -> usize {
        let wanted = key.encode();
        self.keys.partition_point(|bytes| *bytes <= wanted).saturating_sub(1)
    }

    /// Whether no key of `class` can lie in the leaf `at` below this node of height 1: a leaf holds keys of one class,
    /// that of the key above it.
    #[inline]
    pub(super) fn is_of_another_class(&self, at: usize, class: Class) -> bool {
        self.keys.get(at).is_some_and(|key| key[0] != class as u8)
    }

    /// Cuts a sorted slice into what belongs below each child, in order; `key_of` tells an element's key.
    pub(super) fn shares<'c, T>(
        &self,
        sorted: &'c [T],
        key_of: impl Fn(&T) -> &Key,
    ) -> impl Iterator<Item = (usize, &'c [T])> {
        let mut rest = sorted;
        (0..self.count()).map(move |at| {
            let count = match self.key(at + 1) {
                Some(next) => rest.partition_point(|element| *key_of(element) < next),
                None => rest.len(),
            };
            let (share, others) = rest.split_at(count);
            rest = others;
            (at, share)
        })
    }

    fn is_in_order(&self) -> bool {
        let kind = child_kind(self.height);
        (1..=HEIGHT_MAX).contains(&self.height)
            && self.keys.is_sorted_by(|before, after| before < after)
            && self.keys.iter().all(|key| Key::decode(key).is_some())
            && self.pointers.iter().all(|bytes| BlockPtr::decode(bytes).is_ok_and(|pointer| pointer.kind == kind))
    }
}

/// What a node of this height points to.
pub(super) const fn child_kind(height: u8) -> BlockKind {
    if height <= 1 { BlockKind::Leaf } else { BlockKind::TreeNode }
}

/// The numbers of the classes of a node's keys, known or not; none of what is no node.
pub(super) fn class_numbers(bytes: &[u8]) -> impl Iterator<Item = u8> {
    Inner::view(bytes).into_iter().flat_map(|node| node.keys.iter().map(|key| key[0]))
}

/// What is checked once, when a node comes from a device: afterwards every key and pointer can be decoded.
pub(super) fn check(bytes: &[u8]) -> Result<(), Malformed> {
    if Inner::view(bytes)?.is_in_order() { Ok(()) } else { Err(Malformed(WHAT)) }
}

/// Number of children in a node of this size.
pub(super) fn child_count(node_bytes: usize) -> usize {
    node_bytes.saturating_sub(HEAD_BYTES) / CHILD_BYTES
}

/// The node of these children, in order.
pub(super) fn encode(height: u8, children: &[Child]) -> Vec<u8> {
    assert!(!children.is_empty() && children.len() <= CHILDREN_MAX, "a node of {} children", children.len());
    let length = HEAD_BYTES + children.len() * CHILD_BYTES;
    let mut bytes = Vec::with_capacity(length);
    bytes.put_u32(MAGIC);
    bytes.put_u8(height);
    bytes.put_u8(PLAIN);
    bytes.put_u16(children.len() as u16);
    bytes.put_u32(length as u32);
    bytes.put_u32(0);
    for child in children {
        bytes.put(&child.key.encode());
    }
    for child in children {
        child.bp.put(&mut bytes);
    }
    bytes
}
