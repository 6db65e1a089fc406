//! The catalog: a tree ([`crate::tree`]) above all datasets, named by the pool's root. Each has one key in it
//! ([`Class::Dataset`]) and its entry as the value. Beside them stands what the pool remembers over imports ([`super::kept`]).
//!
//! **The problem.** A pool may have a hundred thousand datasets, of which a group changes three. What the root block holds is
//! written by every group, so it can hold none of them.
//!
//! **The idea.** The tree that files stand in does for datasets: a group merges the entries that it has changed, which writes
//! their leaves and the way up to the root, and frees what was there. What would change in *every* entry with every
//! group, up to which group the log's records are in the trees, is one number for all of them, in the pool's root
//! ([`PoolRoot::log_txg`]).
//!
//! **What memory knows.** An imported pool has all its datasets in memory, and never reads an entry again: the catalog is read
//! by an import, and by merges for the entries beside those that change. So a node of it that has rotted costs
//! nothing as long as the pool is imported. The merge that meets it, or a scrub, lets the whole catalog be written anew
//! from memory. An import that meets it is refused, as by a rotten root: whatever it left out would be gone for good.
//!
//! See docs/design/0040.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use tally_base::codec::Malformed;
use tally_base::{DatasetId, Txg};

use super::TIME_ROOM_END;
use super::kept::READ_MAX;
use super::open::OpenError;
use super::root::PoolRoot;
use crate::block::BlockError;
use crate::bp::{BlockKind, BlockPtr, Dva};
use crate::dataset::{DATASET_NAME_MAX, DatasetEntry, EntryError};
use crate::io::BlockIo;
use crate::key::{Class, KEY_BYTES, Key};
use crate::marks::{self, LostMarks};
use crate::run::RunWriter;
use crate::tree::{Change, RangeIter, Tree, Visit, of_newer_programs};

/// The one above a pool's own dataset: no id is 0.
const NO_DATASET: DatasetId = DatasetId(0);

const MALFORMED: EntryError = EntryError::Malformed(Malformed("dataset"));

/// For the nodes above, and sectors that are not full.
const ROOM_BESIDE_BYTES: u64 = 64 << 10;

/// Values by key: what a group changes, or all.
pub(super) type Entries = BTreeMap<Key, Bytes>;

/// The catalog as the newest group has left it.
pub(super) struct Catalog {
    tree: Tree,
    /// Part of it cannot be read.
    is_damaged: bool,
    /// Places that merges have given up, since what was read there was not what belonged there.
    foreign: Vec<Dva>,
    /// What it was told of all datasets: in a build with debug assertions, to find a change that nobody has noted.
    told: Entries,
}

impl Catalog {
    pub(super) fn new(tree: Tree) -> Self {
        Self { tree, is_damaged: false, foreign: Vec::new(), told: Entries::new() }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The next group writes it anew.
    pub(super) fn note_damage(&mut self) {
        self.is_damaged = true;
    }

    /// An import has read the entry of a dataset.
    pub(super) fn note_found(&mut self, id: DatasetId, entry: impl FnOnce() -> Bytes) {
        if cfg!(debug_assertions) {
            self.told.insert(key_of(id), entry());
        }
    }

    /// A group has these entries of datasets anew, and those are gone.
    pub(super) fn note_datasets(&mut self, changed: &Entries, gone: &[Key]) {
        if cfg!(debug_assertions) {
            self.told.extend(changed.iter().map(|(key, entry)| (*key, entry.clone())));
            self.told.retain(|key, _| !gone.contains(key));
        }
    }

    /// Whether it was told of every dataset that there is, as it is: of use in a build with debug assertions alone.
    pub(super) fn was_told(&self, entries: &Entries) -> bool {
        self.told == *entries
    }

    /// Takes in what a group has changed: new entries, and datasets that are gone. `all` gives every entry there is.
    pub(super) fn fold(
        &mut self,
        io: &BlockIo,
        out: &mut RunWriter,
        changed: Entries,
        gone: &[Key],
        all: impl FnOnce() -> Entries,
    ) -> Result<(), BlockError> {
        let was_damaged = self.is_damaged;
        if !was_damaged {
            self.take_in(io, out, changed.clone(), gone)?;
        }
        if !self.is_damaged {
            return Ok(());
        }
        let all = all();
        if has_room(io, &all) {
            tracing::warn!(txg = %out.txg(), "part of the catalog of datasets cannot be read; it is written anew from memory");
            give_up(&self.tree, &std::mem::take(&mut self.foreign), io, out.txg());
            self.tree = Tree::empty().apply(io, out, &puts(all))?;
            self.is_damaged = false;
            return Ok(());
        }
        tracing::error!(
            txg = %out.txg(),
            "part of the catalog of datasets cannot be read, and there is no room to write it anew from memory: remove files, or \
             the pool cannot be imported again"
        );
        if was_damaged { self.take_in(io, out, changed, gone) } else { Ok(()) }
    }

    /// Merges changes into the tree, around what cannot be read of it.
    fn take_in(&mut self, io: &BlockIo, out: &mut RunWriter, changed: Entries, gone: &[Key]) -> Result<(), BlockError> {
        let deletes = gone.iter().map(|key| (*key, Change::Delete));
        let mut changes: Vec<_> = puts(changed).into_iter().chain(deletes).collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        let (tree, has_gone_around) = self.tree.apply_noting(io, out, &changes)?;
        if has_gone_around {
            // What a merge has given up does not tell any more why; the tree before it does.
            let is_foreign = |(bp, damage): (BlockPtr, _)| (damage == Some(Damage::Foreign)).then_some(bp.dva);
            self.foreign.extend(blocks_of(&self.tree, io).into_iter().filter_map(is_foreign));
        }
        self.tree = tree;
        self.is_damaged |= has_gone_around;
        Ok(())
    }
}

pub(super) fn key_of(id: DatasetId) -> Key {
    Key::new(Class::Dataset, id.0, 0, 0)
}

fn puts(entries: Entries) -> Vec<(Key, Change)> {
    entries.into_iter().map(|(key, entry)| (key, Change::Put(entry))).collect()
}

/// Whether a catalog of these entries can be written, without compression, and leaves as much room again for the rest of its
/// group. A group that fails for want of room ends the pool, and no import would get by what is damaged.
fn has_room(io: &BlockIo, entries: &Entries) -> bool {
    let bytes: usize = entries.values().map(|entry| entry.len() + KEY_BYTES).sum();
    io.alloc.space().free / 2 >= bytes as u64 + ROOM_BESIDE_BYTES
}

/// Frees every block of a catalog that can be found, but for `foreign` ones. What a node names that cannot be read stays
/// allocated.
fn give_up(tree: &Tree, foreign: &[Dva], io: &BlockIo, txg: Txg) {
    for (bp, damage) in blocks_of(tree, io) {
        // One that was read and says what it must not may be named elsewhere, too.
        let is_own = damage != Some(Damage::Foreign) && !foreign.contains(&bp.dva);
        if is_own {
            io.free(&bp, txg);
        }
        // Below what the merge itself has given up there is nothing.
        let hides = damage.is_some() && bp.kind != BlockKind::Leaf && bp.birth != txg;
        if !is_own || hides {
            io.note_leak();
        }
    }
}

/// What is the matter with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// A device refuses it, which it may not do tomorrow.
    Refused,
    /// Its bytes are gone.
    Rotten,
    /// It was read, and is not what belongs in its place.
    Foreign,
}

/// The blocks of a catalog, and what is the matter with those that cannot be read.
pub(super) fn blocks_of(tree: &Tree, io: &BlockIo) -> Vec<(BlockPtr, Option<Damage>)> {
    let mut blocks: Vec<(BlockPtr, Option<Damage>)> = Vec::new();
    tree.check(io, &mut |visit| match visit {
        Visit::Block { bp, .. } => blocks.push((*bp, None)),
        Visit::Damage { bp, error, .. } => {
            // It may have been read before it turned out to hold what it must not.
            blocks.retain(|(other, _)| other != bp);
            let damage = match error {
                error if error.is_of_device() => Damage::Refused,
                BlockError::Unreadable { .. } | BlockError::GivenUp { .. } => Damage::Rotten,
                _ => Damage::Foreign,
            };
            blocks.push((*bp, Some(damage)));
        }
        Visit::Entry { .. } => {}
    });
    blocks
}

/// Whatever stands in a catalog, of other classes, too: what does not belong there must not be passed over.
fn all_of<'io>(tree: &Tree, io: &'io BlockIo) -> RangeIter<'io> {
    tree.range(io, &Key::MIN, &Key::MAX)
}

/// Every entry of a catalog.
pub(super) fn entries_of(tree: &Tree, io: &BlockIo) -> Result<Entries, BlockError> {
    all_of(tree, io).collect()
}

/// The pool's root and all datasets, as an import finds them.
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) root: PoolRoot,
    /// In the order of their ids.
    pub(crate) datasets: Vec<DatasetEntry>,
    /// Their full names. `None`, which an import refuses: the one above it is not there, it stands below itself, or the name is
    /// longer than names are.
    pub(crate) names: Vec<Option<String>>,
    /// What else stands in the catalog ([`super::kept`]).
    pub(crate) kept: Entries,
    /// What requests of sessions have changed ([`crate::marks`]).
    pub(crate) marks: Entries,
    /// Which of those cannot be read.
    pub(crate) lost_marks: LostMarks,
}

impl Top {
    /// Reads the catalog below `root`, around marks that cannot be read.
    pub(super) fn read(root: PoolRoot, io: &BlockIo) -> Result<Self, OpenError> {
        let (mut datasets, mut kept, mut marks) = (Vec::new(), Entries::new(), Entries::new());
        let mut lost_marks = LostMarks::default();
        for entry in all_of(&root.catalog, io).around_damage() {
            let (key, value) = match entry {
                Ok(entry) => entry,
                // All of them are found at once.
                Err(_) if !lost_marks.is_empty() => continue,
                Err(error) => {
                    lost_marks = lost_marks_of(&root.catalog, io)
                        .filter(|lost| !lost.is_empty())
                        .ok_or_else(|| unreadable(io, error))?;
                    continue;
                }
            };
            match key.class {
                Class::Job | Class::Damage | Class::History | Class::Event if kept.len() < READ_MAX => {
                    kept.insert(key, value);
                }
                Class::Mark if marks.len() < marks::READ_MAX => {
                    marks.insert(key, value);
                }
                _ => datasets.push(entry_of(&root, &key, &value)?),
            }
        }
        let (found, all) = ((datasets.len() + kept.len() + marks.len()) as u64, root.catalog.entry_count());
        if if lost_marks.is_empty() { found != all } else { found >= all } {
            return Err(Malformed("number of datasets").into());
        }
        let names = names_of(&datasets);
        let top = Self { root, datasets, names, kept, marks, lost_marks };
        let names: HashSet<_> = top.names.iter().flatten().collect();
        if names.len() == top.datasets.len() { Ok(top) } else { Err(Malformed("name of a dataset").into()) }
    }

    pub(crate) fn find(&self, id: DatasetId) -> Option<&DatasetEntry> {
        self.datasets.get(place_of(&self.datasets, id)?)
    }

    pub(crate) fn name_of(&self, id: DatasetId) -> Option<&str> {
        self.names.get(place_of(&self.datasets, id)?)?.as_deref()
    }

    /// Every dataset with its name, if it has one.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&DatasetEntry, Option<&str>)> {
        self.datasets.iter().zip(self.names.iter().map(Option::as_deref))
    }
}

/// Which marks of a catalog cannot be read; `None`: others cannot either, or a newer program has put something in their place.
fn lost_marks_of(tree: &Tree, io: &BlockIo) -> Option<LostMarks> {
    let (mut lost, mut are_all) = (LostMarks::default(), true);
    tree.check(io, &mut |visit| {
        if let Visit::Damage { from, to, error, .. } = visit {
            are_all &= lost.note(from, to) && newer_in(io, error).is_none();
        }
    });
    are_all.then_some(lost)
}

/// A node that this program takes for none may be that of a newer one, although no feature in the labels has said so.
fn unreadable(io: &BlockIo, error: BlockError) -> OpenError {
    newer_in(io, &error).map_or(OpenError::Catalog(error), OpenError::newer)
}

fn newer_in(io: &BlockIo, error: &BlockError) -> Option<&'static str> {
    match error {
        BlockError::Malformed { bp, .. } => io.read(bp).ok().and_then(|bytes| of_newer_programs(&bytes)),
        _ => None,
    }
}

fn place_of(datasets: &[DatasetEntry], id: DatasetId) -> Option<usize> {
    datasets.binary_search_by_key(&id, |entry| entry.birth.id).ok()
}

/// The full names of datasets in the order of their ids; see [`Top::names`].
pub(crate) fn names_of(datasets: &[DatasetEntry]) -> Vec<Option<String>> {
    let name_of = |entry: &DatasetEntry| {
        let mut components = vec![&*entry.line.name];
        let (mut bytes, mut parent) = (entry.line.name.len(), entry.line.parent);
        while parent != NO_DATASET {
            let above = &datasets.get(place_of(datasets, parent)?)?.line;
            components.push(&above.name);
            // A component has a byte at least: so whoever goes in a circle comes to an end here.
            bytes += 1 + above.name.len();
            parent = above.parent;
            if bytes > DATASET_NAME_MAX {
                return None;
            }
        }
        components.reverse();
        Some(components.join("/"))
    };
    datasets.iter().map(name_of).collect()
}

/// The dataset of an entry of the catalog.
pub(crate) fn entry_of(root: &PoolRoot, key: &Key, value: &[u8]) -> Result<DatasetEntry, EntryError> {
    let id = DatasetId(key.object);
    let entry = if *key == key_of(id) { DatasetEntry::decode(id, value)? } else { return Err(MALFORMED) };
    let is_possible = entry.is_possible(root.next_dataset, root.life.number) && entry.root.change_floor < TIME_ROOM_END;
    if is_possible { Ok(entry) } else { Err(MALFORMED) }
}

#[cfg(test)]
mod tests;
