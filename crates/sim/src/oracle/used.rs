//! What a dataset takes, by an account of the oracle's own: names, targets and objects to the byte, contents of files
//! from below and from above, since nobody here knows how well they are compressed.
//!
//! The numbers are written down once more, and not the server's: a charge that is forgotten there is missed here.

use std::collections::BTreeSet;
use std::iter::Sum;

use tally_base::Generation;
use tally_vfs::model::Model;
use tally_vfs::{Attr, Attributes, Cred, FileKind, Identity, Names, ObjectRef};

use super::{Before, Oracle, Reserved};
use crate::op::Op;

/// What an object takes beside its content.
const OBJECT_BYTES: u64 = 512;
/// What a name takes beside its letters: two keys of 25 bytes, and what they say.
const ENTRY_BYTES: u64 = 2 * 25 + 9 + 8;
/// Letters that a shorter name is counted with.
const NAME_BYTES_MIN: u64 = 32;
/// Bytes of the pieces in which the model keeps contents.
const PIECE_BYTES: u64 = 4096;
/// Blocks of files whose size nobody has noted.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// A property that bounds a dataset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bound {
    /// The quota in force.
    pub quota: Option<u64>,
    /// The one that a command has asked for; a cut in the middle leaves this one or that.
    pub asked: Option<u64>,
    /// What the dataset took when it came into force, which may be more.
    pub used_bytes: u64,
}

/// What a dataset takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// If content takes nothing.
    pub bytes_min: u64,
    /// If it cannot be compressed, and each block of which a byte was written is there.
    pub bytes_max: u64,
    /// Files that have content.
    pub file_count: u64,
    /// What is kept for what is promised: blocks that are there took their place of it.
    pub kept_min: u64,
    /// If no block is there.
    pub kept_max: u64,
    /// The last blocks of files of which something is promised, at full length: a CREATE that makes such a file longer asks no quota for it.
    pub last_bytes: u64,
}

/// What a name takes.
fn entry_bytes(name: &[u8]) -> u64 {
    ENTRY_BYTES + (name.len() as u64).max(NAME_BYTES_MIN)
}

/// What everything in this model takes, each file having blocks of its own size, and what is kept for what is promised.
pub fn used(model: &Model, reserved: &Reserved, record_size: impl Fn(ObjectRef) -> Option<u64>) -> Used {
    let (mut used, mut seen) = (Used::default(), BTreeSet::new());
    used.keep(model, reserved);
    let root = model.getattr(model.root()).expect("a root is always there");
    let mut directories = vec![root.object];
    used.add(&root, &record_size);
    while let Some(dir) = directories.pop() {
        let listed = model.readdir(&Cred::root(), dir, 0, usize::MAX, true).expect("a directory that is there");
        for entry in listed.entries.iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")) {
            used.take(entry_bytes(&entry.name));
            let attr = entry.attr.as_ref().expect("the superuser sees all attributes");
            if !seen.insert(attr.object.id) {
                continue;
            }
            used.add(attr, &record_size);
            if attr.kind == FileKind::Directory {
                directories.push(attr.object);
            }
        }
    }
    used
}

impl Sum for Used {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            bytes_min: sum.bytes_min + one.bytes_min,
            bytes_max: sum.bytes_max + one.bytes_max,
            file_count: sum.file_count + one.file_count,
            kept_min: sum.kept_min + one.kept_min,
            kept_max: sum.kept_max + one.kept_max,
            last_bytes: sum.last_bytes + one.last_bytes,
        })
    }
}

impl Used {
    fn take(&mut self, bytes: u64) {
        self.bytes_min += bytes;
        self.bytes_max += bytes;
    }

    fn keep(&mut self, model: &Model, reserved: &Reserved) {
        for (id, record_size) in reserved.files() {
            let Ok(attr) = model.getattr(ObjectRef { id, generation: Generation(0) }) else { continue };
            let kept = reserved.kept(id, attr.size);
            self.kept_min += kept.bytes_min;
            self.kept_max += kept.bytes_max;
            self.last_bytes += record_size;
        }
    }

    /// What counts against a quota, at the most.
    #[must_use]
    pub fn counted_max(&self) -> u64 {
        self.bytes_max + self.kept_max
    }

    fn add(&mut self, attr: &Attr, record_size: &impl Fn(ObjectRef) -> Option<u64>) {
        self.take(OBJECT_BYTES);
        match attr.kind {
            FileKind::Symlink => self.take(attr.size),
            FileKind::File => {
                let record = record_size(attr.object).unwrap_or(RECORD_BYTES_MAX);
                let pieces = attr.used / PIECE_BYTES;
                self.bytes_max += attr.size.next_multiple_of(record).min(pieces * record);
                self.file_count += u64::from(pieces > 0);
            }
            _ => {}
        }
    }
}

impl Oracle {
    /// By how much an operation may make the dataset grow, if it finds this; nothing for one that never does.
    #[must_use]
    pub fn growth(&self, op: &Op, before: &Before) -> u64 {
        match op {
            Op::Create { .. } if before.existing.is_some() => 0,
            Op::Create { name, .. } | Op::Mkdir { name, .. } | Op::Mknod { name, .. } => {
                OBJECT_BYTES + entry_bytes(name.as_bytes())
            }
            Op::Symlink { name, length, .. } => OBJECT_BYTES + entry_bytes(name.as_bytes()) + *length as u64,
            Op::Link { name, .. } => entry_bytes(name.as_bytes()),
            Op::Rename { to_dir, to, .. } if self.live.lookup(&Cred::root(), to_dir.model, to.as_bytes()).is_ok() => 0,
            Op::Rename { from, to, .. } => entry_bytes(to.as_bytes()).saturating_sub(entry_bytes(from.as_bytes())),
            Op::Write { object, offset, length, .. } if *length > 0 => {
                if self.is_promised_to(op) {
                    return 0;
                }
                let range = *offset..offset + length;
                let record = if object.record_size == 0 { RECORD_BYTES_MAX } else { object.record_size };
                let last_bytes = self.last_bytes(object.model, range.end);
                range.end.next_multiple_of(record) - offset / record * record + last_bytes
            }
            Op::SetAttr { object, set } => set.size.map_or(0, |size| self.last_bytes(object.model, size)),
            Op::Allocate { object, offset, length } => {
                let (file, range) = (object.model.id, *offset..offset + length);
                let size = self.size_of(object.model);
                let mut after = self.reserved.clone();
                after.add(file, &range, object.record_size.max(1));
                let room = after.kept(file, size.max(range.end)).bytes_max;
                room - self.reserved.kept(file, size).bytes_max
            }
            _ => 0,
        }
    }

    /// Whether it is a WRITE that was promised room: all of it is reserved, and none of it makes the file longer.
    #[must_use]
    pub fn is_promised_to(&self, op: &Op) -> bool {
        let Op::Write { object, offset, length, .. } = op else { return false };
        let range = *offset..offset + length;
        self.reserved.covers(object.model.id, &range) && range.end <= self.size_of(object.model)
    }

    fn size_of(&self, object: ObjectRef) -> u64 {
        self.live.getattr(object).map_or(0, |attr| attr.size)
    }

    /// A last block that is promised is so at full length, if its file grows.
    fn last_bytes(&self, object: ObjectRef, end: u64) -> u64 {
        let (size, end) = (self.size_of(object), end.max(self.size_of(object)));
        self.reserved.kept(object.id, end).bytes_max - self.reserved.kept(object.id, size).bytes_max
    }
}
