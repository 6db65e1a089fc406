//! What must be in folders and files: as a reader sees it now, and as it may be found behind a crash.
//!
//! A file is some cells of equal size, each of which is filled with one tag by a WRITE. What may stand in a cell is a set: one tag, once somebody has been told or has seen it; more, where
//! an answer did not come, or was UNSTABLE. Likewise what a name stands for.

use std::collections::{BTreeMap, BTreeSet};

use super::Checked;

/// Cells of a file.
pub(super) const CELLS: usize = 4;
/// Bytes of a cell: a READ of all of them fits a slot.
pub(super) const CELL: usize = 160;

/// What is written into a cell.
pub(super) type Tag = u64;

/// A handle of a file.
pub(super) type Handle = Vec<u8>;

/// What a name may stand for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    Nobody,
    File(Handle),
    /// One that was made, and nobody was told.
    New,
}

/// What may stand in a cell.
#[derive(Clone, Debug)]
struct Cell {
    now: BTreeSet<Tag>,
    /// Behind a crash.
    below: BTreeSet<Tag>,
    /// Something was written in this life that may not be durable.
    is_loose: bool,
}

impl Default for Cell {
    fn default() -> Self {
        Self { now: [0].into(), below: [0].into(), is_loose: false }
    }
}

/// What is known of a file.
#[derive(Clone, Debug, Default)]
struct File {
    folder: usize,
    cells: [Cell; CELLS],
    /// The newest change that anybody was shown, and what was in the file, if all of it is known.
    change: Option<(u64, Option<[Tag; CELLS]>)>,
    /// It was found to be gone in this life. Nobody waited for that, so a crash may bring it back.
    is_gone: bool,
}

/// Names and files of all folders.
#[derive(Debug, Default)]
pub(super) struct Files {
    names: BTreeMap<(usize, &'static str), BTreeSet<Named>>,
    files: BTreeMap<Handle, File>,
}

/// A cell filled with a tag.
pub(super) fn fill(tag: Tag) -> Vec<u8> {
    tag.to_be_bytes().into_iter().cycle().take(CELL).collect()
}

/// Which tags stand in a file that was read from its start.
pub(super) fn tags_of(data: &[u8]) -> Checked<[Tag; CELLS]> {
    let mut tags = [0; CELLS];
    for (cell, tag) in tags.iter_mut().enumerate() {
        *tag = tag_of(data, cell)?;
    }
    Ok(tags)
}

/// Which tag a cell is filled with. What a file is too short for is zero.
fn tag_of(data: &[u8], cell: usize) -> Checked<Tag> {
    let from = (cell * CELL).min(data.len());
    let mut bytes = data[from..data.len().min((cell + 1) * CELL)].to_vec();
    bytes.resize(CELL, 0);
    let tag = u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
    if bytes == fill(tag) { Ok(tag) } else { Err(format!("cell {cell} is torn: {:x?}", &bytes[..16])) }
}

impl Files {
    pub(super) fn names(&self) -> Vec<(usize, &'static str)> {
        self.names.keys().copied().collect()
    }

    /// What a name stands for, if that is known.
    pub(super) fn named(&self, folder: usize, name: &'static str) -> Option<Named> {
        let may_be = self.names.get(&(folder, name)).cloned().unwrap_or_else(|| [Named::Nobody].into());
        if may_be.len() == 1 { may_be.into_iter().next() } else { None }
    }

    pub(super) fn file_named(&self, folder: usize, name: &'static str) -> Option<Handle> {
        match self.named(folder, name) {
            Some(Named::File(handle)) => Some(handle),
            _ => None,
        }
    }

    /// From now on a name stands for this.
    pub(super) fn name(&mut self, folder: usize, name: &'static str, is: Named) {
        if let Named::File(handle) = &is {
            self.files.entry(handle.clone()).or_insert_with(|| File { folder, ..File::default() });
        }
        self.names.insert((folder, name), [is].into());
    }

    /// It may, as nobody was answered.
    pub(super) fn may_name(&mut self, folder: usize, name: &'static str, is: Named) {
        self.names.entry((folder, name)).or_insert_with(|| [Named::Nobody].into()).insert(is);
    }

    /// A name was looked up, and stands for this.
    pub(super) fn found(&mut self, folder: usize, name: &'static str, handle: Option<Handle>) -> Checked<()> {
        let may_be = self.names.get(&(folder, name)).cloned().unwrap_or_else(|| [Named::Nobody].into());
        let is = match handle {
            None => Named::Nobody,
            Some(handle) if self.files.contains_key(&handle) || !may_be.contains(&Named::New) => Named::File(handle),
            Some(handle) => {
                self.name(folder, name, Named::File(handle));
                return Ok(());
            }
        };
        if !may_be.contains(&is) {
            return Err(format!("{name} of folder {folder} stands for {is:x?}, and can be one of {may_be:x?}"));
        }
        self.name(folder, name, is);
        Ok(())
    }

    /// Whether a file has a name for certain.
    pub(super) fn has_name(&self, handle: &[u8]) -> bool {
        self.names.values().any(|may_be| may_be.len() == 1 && may_be.iter().all(|is| is_it(is, handle)))
    }

    /// Whether it has none, for certain.
    pub(super) fn is_nameless(&self, handle: &[u8]) -> bool {
        !self.names.values().any(|may_be| may_be.iter().any(|is| is_it(is, handle)))
    }

    pub(super) fn folder_of(&self, handle: &[u8]) -> Option<usize> {
        self.files.get(handle).map(|file| file.folder)
    }

    pub(super) fn handles(&self) -> Vec<Handle> {
        self.files.keys().cloned().collect()
    }

    /// It is gone. Whether that is news.
    pub(super) fn is_gone(&mut self, handle: &[u8]) -> bool {
        self.files.get_mut(handle).is_some_and(|file| !std::mem::replace(&mut file.is_gone, true))
    }

    pub(super) fn was_gone(&self, handle: &[u8]) -> bool {
        self.files.get(handle).is_some_and(|file| file.is_gone)
    }

    /// A WRITE of a cell was answered, or was not.
    pub(super) fn written(&mut self, handle: &[u8], cell: usize, tag: Tag, is_stable: bool, is_answered: bool) {
        let Some(file) = self.files.get_mut(handle) else { return };
        let cell = &mut file.cells[cell];
        if is_answered {
            cell.now = [tag].into();
        } else {
            cell.now.insert(tag);
        }
        cell.is_loose = !(is_answered && is_stable);
        if cell.is_loose {
            cell.below.insert(tag);
        } else {
            cell.below = [tag].into();
        }
    }

    /// Somebody was given a file to keep: what it shows is durable (rules V12), whoever wrote it and however.
    pub(super) fn settle(&mut self, handle: &[u8]) {
        for cell in self.files.get_mut(handle).into_iter().flat_map(|file| &mut file.cells) {
            (cell.below, cell.is_loose) = (cell.now.clone(), false);
        }
    }

    /// A file was cut to nothing, or may be.
    pub(super) fn cut(&mut self, handle: &[u8], is_answered: bool) {
        (0..CELLS).for_each(|cell| self.written(handle, cell, 0, true, is_answered));
    }

    /// A file was read from its start.
    pub(super) fn read(&mut self, handle: &[u8], data: &[u8]) -> Checked<()> {
        let Some(file) = self.files.get_mut(handle) else { return Ok(()) };
        for (number, cell) in file.cells.iter_mut().enumerate() {
            let tag = tag_of(data, number)?;
            if !cell.now.contains(&tag) {
                return Err(format!("cell {number} has {tag}, and can have {:?} (below {:?})", cell.now, cell.below));
            }
            cell.now = [tag].into();
            if !cell.is_loose {
                // It was found behind a crash, and nothing came since.
                cell.below = [tag].into();
            }
        }
        Ok(())
    }

    /// A change of a file was shown: it never falls, and where it is the same so is what is in there.
    pub(super) fn shown(&mut self, handle: &[u8], change: u64) -> Checked<()> {
        let Some(file) = self.files.get_mut(handle) else { return Ok(()) };
        let single = |cell: &Cell| if cell.now.len() == 1 { cell.now.first().copied() } else { None };
        let known: Option<Vec<Tag>> = file.cells.iter().map(single).collect();
        let content = known.and_then(|tags| tags.try_into().ok());
        if let Some((before, was)) = file.change {
            if change < before {
                return Err(format!("the change of a file falls from {before} to {change}"));
            }
            if let (true, Some(was), Some(is)) = (change == before, was, content)
                && was != is
            {
                return Err(format!("the change of a file stays {change}, and it had {was:?} and has {is:?}"));
            }
        }
        file.change = Some((change, content));
        Ok(())
    }

    /// The newest change that anybody was shown.
    pub(super) fn last_shown(&self, handle: &[u8]) -> Option<u64> {
        self.files.get(handle)?.change.map(|(change, _)| change)
    }

    /// The server's memory is gone, be it with what was not durable.
    pub(super) fn crash(&mut self) {
        self.files.values_mut().for_each(|file| file.is_gone = false);
        for cell in self.files.values_mut().flat_map(|file| &mut file.cells) {
            (cell.now, cell.is_loose) = (cell.below.clone(), false);
        }
    }
}

fn is_it(named: &Named, handle: &[u8]) -> bool {
    matches!(named, Named::File(file) if file == handle)
}
