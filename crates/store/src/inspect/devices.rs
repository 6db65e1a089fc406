//! The devices of an inspection, and the vdevs that they make up, read by somebody who believes no leg.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tally_base::{PoolGuid, SECTOR, VdevGuid};
use tally_disk::{Access, AlignedBuf, Disk, Opener};
use tally_members::blockdev::{BlockDev, BlockDevError};
use tally_members::discover::{ImportSource, is_around_leg, leg_inside};
use tally_members::label::{self, LABEL_BYTES, Label, SlotReport, VdevConfig, data_bytes_of};
use tally_members::uberblock::{self, Uberblock, UberblockSlot};

use super::fact::Source;

/// Remembered places where a leg of a mirror is wrong; further ones are found again by whoever looks again.
const FAULTS_MAX: usize = 4096;

/// A device that was opened, with everything that its labels hold.
pub(super) struct Device {
    pub(super) path: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    /// The user has named it, so that it must be spoken of even if it holds nothing.
    pub(super) is_named: bool,
    pub(super) slots: Vec<SlotReport>,
    pub(super) uberblocks: Vec<UberblockSlot>,
}

impl Device {
    fn read(path: PathBuf, disk: Arc<dyn Disk>, is_named: bool) -> Self {
        let (slots, uberblocks) = (label::inspect(disk.as_ref()), uberblock::read_all(disk.as_ref()));
        Self { path, disk, is_named, slots, uberblocks }
    }

    /// Valid slots with their places.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&SlotReport, &Label)> {
        self.slots.iter().filter_map(|slot| Some((slot, slot.content.as_ref().ok()?.as_ref()?)))
    }

    /// The newest valid slot.
    pub(super) fn label(&self) -> Option<(&SlotReport, &Label)> {
        self.labels().max_by_key(|(_, label)| label.config.rank())
    }

    /// Valid uberblocks with their places.
    pub(super) fn uberblocks(&self) -> impl Iterator<Item = (&UberblockSlot, &Uberblock)> {
        self.uberblocks.iter().filter_map(|slot| Some((slot, slot.content.as_ref().ok()?.as_ref()?)))
    }

    /// The pool that it says it belongs to: by its label, else by its newest uberblock.
    pub(super) fn pool(&self) -> Option<PoolGuid> {
        let by_uberblock = || self.uberblocks().max_by_key(|(_, found)| found.rank()).map(|(_, found)| found.pool);
        self.label().map(|(_, label)| label.config.pool).or_else(by_uberblock)
    }

    /// Whether it only ends with a leg, which may be one of these.
    pub(super) fn is_around_leg(&self, others: &[Self]) -> bool {
        let labels = others.iter().filter_map(|other| Some((other.disk.as_ref(), other.label()?.1)));
        self.label().is_some_and(|(_, label)| is_around_leg(self.disk.as_ref(), label, labels))
    }

    /// Where the leg begins with which it ends, if that tells itself.
    pub(super) fn leg_inside(&self) -> Option<u64> {
        self.label().and_then(|(_, label)| leg_inside(self.disk.as_ref(), label))
    }

    pub(super) fn at(&self, offset: u64) -> Source {
        Source::new(&self.path, offset)
    }
}

/// Every path that was looked at.
pub(super) struct Opened {
    pub(super) devices: Vec<Device>,
    /// Paths that could not be opened, whether the user has named them, and why.
    pub(super) refused: Vec<(PathBuf, bool, io::Error)>,
}

/// Opens every path, for reading.
pub(super) fn open_all(opener: &dyn Opener, source: &ImportSource) -> io::Result<Opened> {
    let mut paths: BTreeMap<PathBuf, bool> = source.paths.iter().map(|path| (path.clone(), true)).collect();
    for dir in &source.dirs {
        let listed = opener.list(dir);
        let with_name = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", dir.display()));
        for path in listed.map_err(with_name)? {
            paths.entry(path).or_insert(false);
        }
    }
    let mut opened = Opened { devices: Vec::new(), refused: Vec::new() };
    for (path, is_named) in paths {
        match opener.open(&path, Access::ReadOnly) {
            Ok(disk) => opened.devices.push(Device::read(path, disk, is_named)),
            Err(error) => opened.refused.push((path, is_named, error)),
        }
    }
    Ok(opened)
}

/// One leg as an inspection reads it.
#[derive(Clone)]
pub(super) struct LegView {
    pub(super) guid: VdevGuid,
    pub(super) path: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    /// It has missed writes: it is not read, since what is missing on it is no damage.
    pub(super) is_stale: bool,
}

/// A top-level vdev whose every leg is read and compared with the checksum, so that rot shows even where another leg
/// covers it. Nothing can be written through it.
pub(super) struct VdevView {
    pub(super) legs: Vec<LegView>,
    data_bytes: u64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Places where a leg was wrong and another one right.
    faults: BTreeMap<(u64, usize), String>,
    /// Places that were not served by the first leg.
    served: BTreeMap<u64, usize>,
}

impl VdevView {
    /// A vdev of these legs. Its size is bounded by what is there: a damaged configuration may claim any.
    pub(super) fn new(config: &VdevConfig, legs: Vec<LegView>) -> Self {
        let present = legs.iter().filter_map(|leg| data_bytes_of(leg.disk.geometry().size)).max();
        Self { legs, data_bytes: config.data_bytes.min(present.unwrap_or(0)), seen: Mutex::default() }
    }

    /// A vdev of one device of which no label tells.
    pub(super) fn assumed(device: &Device) -> Self {
        let leg =
            LegView { guid: VdevGuid(0), path: device.path.clone(), disk: Arc::clone(&device.disk), is_stale: false };
        let data_bytes = data_bytes_of(device.disk.geometry().size).unwrap_or(0);
        Self { legs: vec![leg], data_bytes, seen: Mutex::default() }
    }

    /// Where a block at `offset` of the data area was read, or would be.
    pub(super) fn source(&self, offset: u64) -> Option<Source> {
        let served = self.seen.lock().served.get(&offset).copied();
        let first = || self.legs.iter().find(|leg| !leg.is_stale);
        let leg = served.and_then(|leg| self.legs.get(leg)).or_else(first)?;
        Some(Source::new(&leg.path, LABEL_BYTES.checked_add(offset)?))
    }

    /// Takes out the places where one leg was wrong and another right.
    pub(super) fn drain_faults(&self) -> Vec<(Source, String)> {
        let faults = std::mem::take(&mut self.seen.lock().faults);
        let place = |(offset, leg): (u64, usize)| Some(Source::new(self.path(leg)?, LABEL_BYTES.checked_add(offset)?));
        faults.into_iter().filter_map(|(at, why)| Some((place(at)?, why))).collect()
    }

    fn path(&self, leg: usize) -> Option<&Path> {
        self.legs.get(leg).map(|leg| leg.path.as_path())
    }
}

impl BlockDev for VdevView {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn read(&self, offset: u64, length: usize, verify: &dyn Fn(&[u8]) -> bool) -> Result<AlignedBuf, BlockDevError> {
        let out_of_range = BlockDevError::OutOfRange { data_bytes: self.data_bytes };
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.data_bytes);
        let is_whole = offset.is_multiple_of(SECTOR as u64) && length.is_multiple_of(SECTOR);
        if end.is_none() || !is_whole {
            return Err(out_of_range);
        }
        let (mut good, mut bad) = (None, Vec::new());
        for (at, leg) in self.legs.iter().enumerate().filter(|(_, leg)| !leg.is_stale) {
            let mut buf = AlignedBuf::zeroed(length);
            match leg.disk.read(LABEL_BYTES + offset, &mut buf) {
                Ok(()) if verify(&buf) => good = good.or(Some((at, buf))),
                Ok(()) => bad.push((at, "its bytes do not have the checksum that was recorded".to_owned(), None)),
                Err(error) => bad.push((at, format!("it cannot be read: {error}"), Some(error))),
            }
        }
        let Some((served, buf)) = good else {
            let error = bad.into_iter().find_map(|(_, _, error)| error);
            let none = || BlockDevError::Other("no device of this vdev is given".into());
            let is_there = self.legs.iter().any(|leg| !leg.is_stale);
            let otherwise = if is_there { BlockDevError::NoGoodCopy } else { none() };
            return Err(error.map_or(otherwise, BlockDevError::Io));
        };
        if served > 0 || !bad.is_empty() {
            let mut seen = self.seen.lock();
            if seen.faults.len() < FAULTS_MAX {
                seen.served.insert(offset, served);
                seen.faults.extend(bad.into_iter().map(|(at, why, _)| ((offset, at), why)));
            }
        }
        Ok(buf)
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), BlockDevError> {
        Err(refused())
    }

    fn flush(&self) -> Result<(), BlockDevError> {
        Err(refused())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), BlockDevError> {
        Err(refused())
    }
}

fn refused() -> BlockDevError {
    BlockDevError::Other("an inspection changes nothing".into())
}
