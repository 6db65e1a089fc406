//! Keys of trees, a dataset's or the catalog of all datasets: class first, so that what is read together lies together (rules
//! F10).
//!
//! Classes of a dataset's tree are below 32, those of the catalog from 32 on: 33 to 51 are spoken for, see
//! docs/on-disk-trees.md.

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
    /// `(object, kind, 0)` → what the reaper is to free of it.
    Orphan = 6,
    /// In the catalog: `(dataset, 0, 0)` → its entry ([`crate::dataset`]).
    Dataset = 32,
    /// In the catalog: `(kind, target, 0)` → how far a job is ([`crate::pool::ScrubJob`]).
    Job = 41,
    /// In the catalog: `(dataset, object, spot)` → damage that was met there ([`crate::pool::MetDamage`]).
    Damage = 42,
    /// In the catalog: `(number, 0, 0)` → a command that changed the pool ([`crate::pool::Command`]).
    History = 47,
    /// In the catalog: `(session, rest of the session, slot and operation)` → what that has changed ([`crate::marks`]).
    Mark = 51,
    /// In the catalog: `(number, 0, 0)` → what happened to the pool ([`crate::pool::Event`]).
    Event = 52,
}

impl Class {
    /// All classes of a dataset's tree, in order.
    pub const ALL: [Self; 7] =
        [Self::Inode, Self::DirEntry, Self::DirHash, Self::Xattr, Self::Extent, Self::Small, Self::Orphan];

    /// All classes of the catalog that this program knows, in order.
    pub const CATALOG: [Self; 6] = [Self::Dataset, Self::Job, Self::Damage, Self::History, Self::Mark, Self::Event];

    /// Whether it stands in the catalog, and not in a dataset's tree.
    #[must_use]
    pub const fn is_of_catalog(self) -> bool {
        self as u8 >= Self::Dataset as u8
    }

    /// What newer programs keep under a class that is spoken for, and that this one neither writes nor reads; the numbers stand
    /// in docs/on-disk-trees.md.
    pub(crate) const fn reserved(number: u8) -> Option<&'static str> {
        Some(match number {
            7 => "names of objects in its trees",
            33 => "snapshots in its catalog",
            34 => "names in its catalog",
            35 => "properties in its catalog",
            36 => "holds in its catalog",
            37 => "bookmarks in its catalog",
            38 => "dead lists in its catalog",
            39 => "shared blocks in its catalog",
            40 => "trees being freed in its catalog",
            43 => "streams being received in its catalog",
            44 => "keys in its catalog",
            45 => "parked records in its catalog",
            46 => "quotas in its catalog",
            48 => "tombstones in its catalog",
            49 => "remaps in its catalog",
            50 => "replies in its catalog",
            _ => return None,
        })
    }

    /// The class of this number, or `None` for one that we do not know.
    #[must_use]
    pub const fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Inode,
            1 => Self::DirEntry,
            2 => Self::DirHash,
            3 => Self::Xattr,
            4 => Self::Extent,
            5 => Self::Small,
            6 => Self::Orphan,
            32 => Self::Dataset,
            41 => Self::Job,
            42 => Self::Damage,
            47 => Self::History,
            51 => Self::Mark,
            52 => Self::Event,
            _ => return None,
        })
    }
}

/// A key of a tree. The derived order is the order of its encoded bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What the entry is; keys of a class stand together, in the order of the classes.
    pub class: Class,
    /// The object it belongs to; in the catalog the dataset.
    pub object: u64,
    /// First part of the rest, by class.
    pub a: u64,
    /// Second part of the rest, by class.
    pub b: u64,
}

impl Key {
    /// The greatest key that there can be.
    pub const MAX: Self = Self::new(Class::Event, u64::MAX, u64::MAX, u64::MAX);
    /// The smallest key that there can be.
    pub(crate) const MIN: Self = Self::new(Class::Inode, 0, 0, 0);

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
        let class = Class::of(bytes[0])?;
        let field = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes of twenty-five"));
        Some(Self { class, object: field(1), a: field(9), b: field(17) })
    }
}

/// Extents of a file stand at least so many bytes apart: the smallest record size.
const EXTENT_STEP_MIN: u64 = 4 << 10;

/// That the keys of one class and object end somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// From here on there are none but those that are put.
    pub from: Key,
    /// There were none before either: else they are deleted now, found or not.
    pub is_new: bool,
}

/// What is known of the keys around one that is put, from the key alone. Only the merge above an unreadable node asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// From this key on ...
    pub(crate) from: Key,
    /// ... up to, not including, this one there is no other key in the tree; none: to the end.
    pub(crate) to: Option<Key>,
    /// Whether the tree holds none of them now, the key itself neither.
    pub(crate) is_new: bool,
}

impl Key {
    /// The gap in which the key stands, in a tree that was written while no id from `first_new` on was drawn: objects
    /// and directory entries have their ids from the same source, and none is drawn twice. Of `absence` see there.
    pub(crate) fn gap(&self, first_new: u64, absence: Option<Absence>) -> Gap {
        let Self { class, object, a, b } = *self;
        let gap = |from, to| Gap { from, to, is_new: true };
        let of_object =
            |object: u64| object.checked_add(1).map_or(class.end(), |next| Some(Self::new(class, next, 0, 0)));
        match class {
            // Drawn by nobody in order.
            Class::Mark => Gap { from: *self, to: self.behind(), is_new: false },
            _ if object >= first_new => gap(Self::new(class, first_new, 0, 0), class.end()),
            _ if let Some(Absence { from, is_new }) = absence.filter(|absence| absence.from <= *self) => {
                Gap { from, to: of_object(object), is_new }
            }
            Class::DirEntry if a >= first_new => gap(Self::new(class, object, first_new, 0), of_object(object)),
            Class::DirHash if b >= first_new => {
                let next = a.checked_add(1).map_or(of_object(object), |a| Some(Self::new(class, object, a, 0)));
                gap(Self::new(class, object, a, first_new), next)
            }
            _ => Gap { from: *self, to: self.behind(), is_new: false },
        }
    }

    /// The next key that there can be.
    fn behind(&self) -> Option<Self> {
        let Self { class, object, a, b } = *self;
        let next_object = || object.checked_add(1).map(|object| Self::new(class, object, 0, 0));
        let next_a = |step: u64| a.checked_add(step).map(|a| Self::new(class, object, a, 0)).or_else(next_object);
        let next = match class {
            Class::Inode | Class::Small | Class::Dataset | Class::History | Class::Event => next_object(),
            Class::DirEntry => next_a(1),
            Class::Extent => next_a(EXTENT_STEP_MIN),
            Class::DirHash | Class::Xattr | Class::Orphan | Class::Job | Class::Damage | Class::Mark => {
                b.checked_add(1).map(|b| Self::new(class, object, a, b)).or_else(|| next_a(1))
            }
        };
        next.or(class.end())
    }
}

impl Class {
    /// The first key behind those of this class; none: it is the last one of its kind of tree.
    pub(crate) fn end(self) -> Option<Key> {
        let kind: &[Self] = if self.is_of_catalog() { &Self::CATALOG } else { &Self::ALL };
        kind.iter().find(|class| **class > self).map(|next| Key::new(*next, 0, 0, 0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({}, {}, {})", self.class, self.object, self.a, self.b)
    }
}
