//! Keys of a dataset's tree: class first, so that what is read together lies together (rules F10).

use std::fmt;

/// Encoded size of a [`Key`].
pub const KEY_BYTES: usize = 25;

/// The ranges of the key space, in their order on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// `(object, 0, 0)` → inode.
    Inode = 0,
    /// `(directory, entry id, 0)` → name, object, kind.
    DirEntry = 1,
    /// `(directory, keyed hash of the name, entry id)` → object.
    DirHash = 2,
    /// `(object, hash of the name, number)` → extended attribute.
    Xattr = 3,
    /// `(file, offset in bytes, 0)` → block pointer.
    Extent = 4,
    /// `(object, 0, 0)` → the whole content of a small file.
    Small = 5,
    /// `(object, from offset, 0)` → cursor of the reaper.
    Orphan = 6,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Self; 7] =
        [Self::Inode, Self::DirEntry, Self::DirHash, Self::Xattr, Self::Extent, Self::Small, Self::Orphan];
}

/// A key of a dataset's tree. The derived order is the order of its encoded bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which range.
    pub class: Class,
    /// The object it belongs to.
    pub object: u64,
    /// First part of the rest, by class.
    pub a: u64,
    /// Second part of the rest, by class.
    pub b: u64,
}

impl Key {
    /// The smallest key of `class` and `object` with the given rest.
    #[must_use]
    pub const fn new(class: Class, object: u64, a: u64, b: u64) -> Self {
        Self { class, object, a, b }
    }

    /// Big-endian fields, so that byte order is key order: class 1, object 8, a 8, b 8.
    #[must_use]
    pub fn encode(&self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        bytes[0] = self.class as u8;
        bytes[1..9].copy_from_slice(&self.object.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.a.to_be_bytes());
        bytes[17..25].copy_from_slice(&self.b.to_be_bytes());
        bytes
    }

    /// The key of an encoding, or `None` for a class we do not know.
    #[must_use]
    pub fn decode(bytes: &[u8; KEY_BYTES]) -> Option<Self> {
        let class = *Class::ALL.get(usize::from(bytes[0]))?;
        let field = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes of twenty-five"));
        Some(Self { class, object: field(1), a: field(9), b: field(17) })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({}, {}, {})", self.class, self.object, self.a, self.b)
    }
}
