//! What could not be read: for `tally pool status -v`, which names it.
//!
//! An entry is an object and what is the matter with it, once, however often it is met. Their number is bounded:
//! whoever reads a file with a thousand bad blocks shall not fill the memory, so that beyond the bound they are counted
//! only.
//!
//! The list is the pool's, too, which writes it into its catalog ([`Pool::note_damage`](tally_store::pool::Pool::note_damage)): the next import
//! knows it. An entry goes when a read or a scrub finds the place whole, or when the list is shown and its object or block is
//! gone by then. Space that was lost is told until the next import alone: it is nobody's file; and so are extended attributes, which whoever wants them meets again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tally_base::{ObjectId, Txg};
use tally_store::block::BlockError;
use tally_store::bp::BlockPtr;
use tally_store::key::{Class, Key};
use tally_store::pool::{DamageList, MetBy, MetDamage, Spot};
use tally_vfs::{FileKind, FsError, RENAME_PARENTS_MAX};

use crate::entry::decode_entry;
use crate::filesystem::Filesystem;
use crate::inode::Layout;

/// Places that are kept of one dataset.
pub(crate) const PLACES_MAX: usize = 1000;

/// Directory entries that are looked at to find the paths of damaged objects: a tenth of a second, when they are
/// cached.
const ENTRIES_LOOKED_AT_MAX: usize = 100_000;

/// What of an object cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Its attributes.
    Attributes,
    /// Names in a directory.
    Names,
    /// Extended attributes.
    Xattrs,
    /// Content of a file, from this offset on.
    Content(u64),
    /// What it took of the pool, which was not given back: nobody knows any more where it is.
    Space,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attributes => f.write_str("attributes"),
            Self::Names => f.write_str("names in it"),
            Self::Xattrs => f.write_str("extended attributes"),
            Self::Content(offset) => write!(f, "content at offset {offset}"),
            Self::Space => f.write_str("space that was not given back"),
        }
    }
}

impl Part {
    /// As the pool's list has it; none: that has no such entries.
    const fn spot(self) -> Option<Spot> {
        match self {
            Self::Attributes => Some(Spot::Attributes),
            Self::Names => Some(Spot::Names),
            Self::Content(offset) => Some(Spot::Content(offset)),
            Self::Xattrs | Self::Space => None,
        }
    }

    const fn of(spot: Spot) -> Self {
        match spot {
            Spot::Attributes => Self::Attributes,
            Spot::Names => Self::Names,
            Spot::Content(offset) => Self::Content(offset),
        }
    }
}

/// Damage that was met.
#[derive(Default)]
pub(crate) struct Damage {
    met: Mutex<Met>,
    /// Whether there are places, for whoever reads something that is whole.
    has_places: AtomicBool,
}

#[derive(Default)]
struct Met {
    places: BTreeMap<(ObjectId, Part), MetDamage>,
    /// How often a place was met that is not among them because they are too many.
    beyond: u64,
}

impl Damage {
    /// As the pool has it.
    pub(crate) fn new(list: DamageList) -> Self {
        let DamageList { places, beyond } = list;
        let places: BTreeMap<_, _> =
            places.into_iter().map(|(object, spot, met)| ((object, Part::of(spot)), met)).collect();
        let has_places = AtomicBool::new(!places.is_empty());
        Self { met: Mutex::new(Met { places, beyond }), has_places }
    }

    /// Whether there are any.
    pub(crate) fn has_places(&self) -> bool {
        self.has_places.load(Ordering::Acquire)
    }

    fn change<R>(&self, change: impl FnOnce(&mut Met) -> R) -> R {
        let mut met = self.met.lock();
        let changed = change(&mut met);
        self.has_places.store(!met.places.is_empty(), Ordering::Release);
        changed
    }
}

/// A damaged object, as a person is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPlace {
    /// Its id, by which it can be named without a path.
    pub object: ObjectId,
    /// Which part of it cannot be read.
    pub part: Part,
    /// One of its paths within the dataset, with a slash at the front, if it was found.
    pub path: Option<String>,
}

/// Everything that is known of a dataset's damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamageReport {
    /// The places, in the order of their objects' ids.
    pub places: Vec<DamagedPlace>,
    /// How often more was met than is kept.
    pub beyond: u64,
}

impl Filesystem {
    /// Notes that part of an object cannot be read, and turns that into an error for the client.
    #[cold]
    pub(crate) fn damaged(&self, id: ObjectId, part: Part, error: &dyn fmt::Display) -> FsError {
        self.met_damage(id, part, (MetBy::Read, None), error)
    }

    /// The same where a block of content could not be read.
    #[cold]
    pub(crate) fn damaged_block(&self, id: ObjectId, start: u64, error: &BlockError) -> FsError {
        self.met_damage(id, Part::Content(start), (MetBy::Read, error.unreadable()), error)
    }

    /// The same for whoever knows the block, or not.
    pub(crate) fn met_damage(
        &self,
        id: ObjectId,
        part: Part,
        (by, block): (MetBy, Option<&BlockPtr>),
        error: &dyn fmt::Display,
    ) -> FsError {
        let now = MetDamage::new(self.pool.txgs.last_synced(), by, block);
        if self.damage.change(|met| self.note_damage(met, id, part, &now)) {
            tracing::error!(dataset = %self.dataset.birth.id, object = %id, "{part}: {error}");
        }
        FsError::Io
    }

    /// Whether it is new. What a read meets again is not written down again, or a client that reads on and on would make groups;
    /// but another block at the same place is.
    fn note_damage(&self, met: &mut Met, id: ObjectId, part: Part, now: &MetDamage) -> bool {
        let dataset = self.dataset.birth.id;
        let before = met.places.get(&(id, part)).copied();
        let known = before.map_or(*now, |before| before.again(now));
        let has_room = before.is_some() || met.places.len() < PLACES_MAX;
        let is_told = now.by_scrub || before.is_none_or(|before| before.block != known.block);
        let has_place = has_room
            && part.spot().filter(|_| is_told).is_none_or(|spot| self.pool.note_damage(dataset, id, spot, &known));
        if has_place || before.is_some() {
            met.places.insert((id, part), known);
        } else {
            met.beyond += 1;
            self.pool.note_damage_beyond(dataset, met.beyond);
        }
        has_place && before.is_none()
    }

    /// The damage is gone.
    fn forget_damage(&self, gone: &[(ObjectId, Part)]) {
        for (id, part) in gone {
            if let Some(spot) = part.spot() {
                self.pool.forget_damage(self.dataset.birth.id, *id, spot);
            }
        }
    }

    /// A block of content was read from disk, and is whole.
    pub(crate) fn is_whole(&self, id: ObjectId, start: u64) {
        let place = (id, Part::Content(start));
        // Under its lock, so that whoever meets it again meanwhile is not forgotten.
        self.damage.change(|met| {
            if met.places.remove(&place).is_some() {
                self.forget_damage(&[place]);
            }
        });
    }

    /// Whether anything was met.
    #[must_use]
    pub fn has_damage(&self) -> bool {
        let met = self.damage.met.lock();
        !met.places.is_empty() || met.beyond > 0
    }

    /// What was met, before the import too, without what can be read again and objects that are gone. With paths, as far as a
    /// bounded look through the directories finds them.
    #[must_use]
    pub fn damage_report(&self) -> DamageReport {
        let (places, beyond) = {
            let met = self.damage.met.lock();
            (met.places.clone(), met.beyond)
        };
        let (standing, healed): (Vec<_>, Vec<_>) =
            places.into_iter().partition(|((id, part), met)| self.is_still_damaged(*id, *part, met));
        self.damage.change(|met| {
            let is_as_seen = |(place, seen): &&((ObjectId, Part), MetDamage)| met.places.get(place) == Some(seen);
            let gone: Vec<_> = healed.iter().filter(is_as_seen).map(|(place, _)| *place).collect();
            gone.iter().for_each(|place| _ = met.places.remove(place));
            self.forget_damage(&gone);
        });
        let paths = if standing.is_empty() { HashMap::new() } else { self.paths_of(&standing) };
        let place = |((object, part), _): &((ObjectId, Part), MetDamage)| DamagedPlace {
            object: *object,
            part: *part,
            path: paths.get(object).cloned(),
        };
        DamageReport { places: standing.iter().map(place).collect(), beyond }
    }

    /// What was met, as it was met and without paths: no disk is asked, so some of it may be right by
    /// now.
    #[must_use]
    pub fn damage_met(&self) -> DamageReport {
        let met = self.damage.met.lock();
        let place = |(object, part): &(ObjectId, Part)| DamagedPlace { object: *object, part: *part, path: None };
        DamageReport { places: met.places.keys().map(place).collect(), beyond: met.beyond }
    }

    /// How often a place was met that there was no room for.
    pub(crate) fn damage_beyond(&self) -> u64 {
        self.damage.met.lock().beyond
    }

    /// Every block was looked at since this group, when `beyond` were without room, and `found` was found: content that was
    /// met before, and not since, is right again. What is left has the room of that.
    pub(crate) fn forget_content_met_before(
        &self,
        group: Txg,
        beyond: u64,
        found: &BTreeMap<(ObjectId, u64), Option<BlockPtr>>,
    ) {
        let is_right = |(place, met): (&(ObjectId, Part), &MetDamage)| {
            (matches!(place.1, Part::Content(_)) && met.last < group).then_some(*place)
        };
        let synced = self.pool.txgs.last_synced();
        let gone = self.damage.change(|met| {
            let gone: Vec<_> = met.places.iter().filter_map(is_right).collect();
            gone.iter().for_each(|place| _ = met.places.remove(place));
            self.forget_damage(&gone);
            met.beyond = met.beyond.saturating_sub(beyond);
            for ((id, offset), block) in found {
                let place = (*id, Part::Content(*offset));
                if met.places.len() < PLACES_MAX && !met.places.contains_key(&place) {
                    let now = MetDamage::new(synced, MetBy::Scrub, block.as_ref());
                    if self.note_damage(met, place.0, place.1, &now) {
                        met.beyond = met.beyond.saturating_sub(1);
                    }
                }
            }
            self.pool.note_damage_beyond(self.dataset.birth.id, met.beyond);
            gone.len()
        });
        if gone > 0 {
            tracing::info!(dataset = %self.dataset.birth.id, "{gone} places that were damaged are whole again");
        }
    }

    /// Content is not read for that, or each look would be another error of a disk: a block that was written since is
    /// good.
    fn is_still_damaged(&self, id: ObjectId, part: Part, met: &MetDamage) -> bool {
        match part {
            Part::Space => true,
            Part::Attributes => self.attr_of(id).is_err_and(|error| error == FsError::Io),
            Part::Names => {
                let first = Key::new(Class::DirEntry, id.0, 0, 0);
                let end = Key::new(Class::DirHash, id.0, u64::MAX, 0);
                self.see(id, |sight| match sight.inode() {
                    Ok(inode) => inode.is_some() && sight.range(first, end, ENTRIES_LOOKED_AT_MAX).is_err(),
                    Err(_) => true,
                })
            }
            Part::Xattrs => self.see(id, |sight| match sight.inode() {
                Ok(inode) => inode.is_some_and(|inode| sight.are_xattrs_damaged(&inode)),
                Err(_) => true,
            }),
            Part::Content(offset) => self.see(id, |sight| {
                let Ok(newest) = sight.inode() else { return true };
                if newest.is_none_or(|inode| offset >= inode.size) {
                    return false;
                }
                match self.stored_inode(&sight.root, id) {
                    Ok(Some(stored)) if stored.layout == Layout::Small => sight.content(0..1).is_err(),
                    Ok(None) => false,
                    Err(_) => true,
                    Ok(Some(stored)) => match self.stored_block(&sight.root, (id, &stored), offset) {
                        Ok(block) => block.is_some_and(|block| {
                            // A group's number may come again (rules S53), that of a durable one does not.
                            let is_it = met.block.map_or(block.written <= met.last, |met| met.is(&block));
                            block.is_given_up() || is_it
                        }),
                        Err(_) => true,
                    },
                }
            }),
        }
    }

    /// One of an object's paths within the dataset, with a slash at the front, by what it and the directories above it say of
    /// their names: no directory is gone through. `None` if it is gone, if one of them cannot be read, or if it knows none of
    /// its names ([`Inode::parent`](crate::inode::Inode::parent)).
    #[must_use]
    pub fn path_of(&self, id: ObjectId) -> Option<String> {
        let root = self.dataset.birth.root_object;
        let (mut at, mut names) = (id, Vec::new());
        while at != root {
            let inode = self.see(at, |sight| sight.inode()).ok().flatten()?;
            let first = Key::new(Class::DirEntry, inode.parent.0, inode.entry.0, 0);
            let end = Key { a: inode.entry.0.checked_add(1)?, ..first };
            let entries = self.see(inode.parent, |sight| sight.range(first, end, 1)).ok()?;
            let (object, name) = decode_entry(&entries.first()?.1)?;
            // Faulty software may have written parents in a circle; no walk up goes further (rules F22).
            if object != at || names.len() >= RENAME_PARENTS_MAX {
                return None;
            }
            names.push(format!("/{}", String::from_utf8_lossy(&name)));
            at = inode.parent;
        }
        names.reverse();
        Some(if names.is_empty() { "/".to_owned() } else { names.concat() })
    }

    /// Asks each object; for those that do not know goes through the directories, breadth first, until all are found or
    /// enough was looked at.
    fn paths_of(&self, wanted: &[((ObjectId, Part), MetDamage)]) -> HashMap<ObjectId, String> {
        let mut missing: BTreeSet<ObjectId> = wanted.iter().map(|((id, _), _)| *id).collect();
        let mut paths: HashMap<_, _> = missing.iter().filter_map(|id| Some((*id, self.path_of(*id)?))).collect();
        missing.retain(|id| !paths.contains_key(id));
        let root = self.dataset.birth.root_object;
        let mut directories = std::collections::VecDeque::from([(root, String::new())]);
        let mut left = ENTRIES_LOOKED_AT_MAX;
        while let Some((dir, path)) = directories.pop_front().filter(|_| left > 0 && !missing.is_empty()) {
            let first = Key::new(Class::DirEntry, dir.0, 0, 0);
            let end = Key::new(Class::DirEntry, dir.0, u64::MAX, 0);
            let Ok(entries) = self.see(dir, |sight| sight.range(first, end, left)) else { continue };
            left -= entries.len().min(left);
            for (object, name, kind) in entries.iter().filter_map(|(_, value)| {
                let (object, name) = decode_entry(value)?;
                Some((object, name, value.get(8).copied()?))
            }) {
                let path = format!("{path}/{}", String::from_utf8_lossy(&name));
                if missing.remove(&object) {
                    paths.insert(object, path.clone());
                }
                if kind == FileKind::Directory as u8 {
                    directories.push_back((object, path));
                }
            }
        }
        paths
    }
}
