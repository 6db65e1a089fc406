//! Making a pool: plan, check every device, then write. Until the first label is written nothing has changed on
//! any device, so a mistake in the last argument costs nothing on the first.

mod spares;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_base::{LaneId, PoolGuid, SECTOR, Size, Txg, VdevGuid, VdevIndex};
use tally_disk::{Access, Disk, Platform, TrustedDisk};
use tally_intent::LaneGeometry;

pub use self::spares::{NewSpareError, add_spares, check_spares};
use crate::assemble::Assembled;
use crate::foreign;
use crate::grammar::VdevSpec;
use crate::label::{
    self, FeatureNotes, Features, HangLimit, LABEL_BYTES, LANES_MAX, LabelError, LaneConfigLine, LegConfig,
    MissedGroups, PoolConfig, PoolState, Release, RingArea, Spare, Supplement, Unreadable, VdevClass, VdevConfig,
    data_bytes_of,
};
use crate::roster::Roster;
use crate::vdev::{LegState, Vdev, VdevLeg, write_out_ring};

/// The smallest data device: below it reserves and the ring leave no room worth the name.
const DATA_LEG_BYTES_MIN: u64 = 16 << 20;
/// The smallest log device: two labels and the smallest ring.
const LOG_LEG_BYTES_MIN: u64 = 2 << 20;
/// A ring in the pool takes this part of its vdev.
const RING_PART: u64 = 64;
/// Bounds of a ring in the pool.
const POOL_RING_BYTES_MIN: u64 = 1 << 20;
/// See [`POOL_RING_BYTES_MIN`].
const POOL_RING_BYTES_MAX: u64 = 1 << 30;
/// Longest ring on a log device: more would only be scanned, never filled between two syncs.
const LOG_RING_BYTES_MAX: u64 = 16 << 30;
/// Longest name of a pool, as of a dataset.
const NAME_BYTES_MAX: usize = 200;

/// How to make a pool.
#[derive(Clone, Copy, Debug)]
pub struct CreateOptions {
    /// Use devices that belong to another pool.
    pub force: bool,
    /// Bound on the ring of each log device.
    pub log_bytes_max: u64,
    /// Write the rings out. A durable write into blocks that a file system has allocated but never written costs many
    /// times one into written blocks; devices and files that were written already need it not.
    pub prewrite_rings: bool,
    /// Enable only features that programs of this version know.
    pub compatibility: Option<Release>,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { force: false, log_bytes_max: LOG_RING_BYTES_MAX, prewrite_rings: true, compatibility: None }
    }
}

/// Why a pool cannot be made, or a device not be taken into one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum CreateError {
    /// A bad name.
    #[error(
        "{name:?} cannot be a pool's name: letters, digits, _ - . : and at most {NAME_BYTES_MAX} of them, a letter first, and none of zpool's words"
    )]
    Name { name: String },
    /// A device cannot be opened.
    #[error("cannot use {}: {cause}; see to that disk, or name another one", path.display())]
    Open { path: PathBuf, cause: io::Error },
    /// Nobody knows what is on a device.
    #[error(
        "cannot read what is on {}: {cause}; see to that disk, or name another one. With -f it is written over, whatever it holds",
        path.display()
    )]
    Unread { path: PathBuf, cause: io::Error },
    /// A device is open elsewhere, or in this process.
    #[error(
        "cannot use {}: it is in use by another process, or by a pool that is imported here. `tally pool status` shows the disks \
         of pools; whoever else has it must let go of it first",
        path.display()
    )]
    InUse { path: PathBuf },
    /// A device belongs to a pool.
    #[error("{} belongs to pool {pool} ({state}); force it if that pool is not needed any more", path.display())]
    Taken {
        path: PathBuf,
        /// Name of the pool.
        pool: String,
        /// As what, and of which pool.
        leg: (PoolGuid, VdevGuid),
        /// How that pool stands.
        state: &'static str,
    },
    /// A device was to be a disk of the very pool that it comes to, or was one, and left; its label could not be erased.
    #[error("{} has left this pool, or did not come so far, and its label says otherwise still; with -f it is taken in anew", path.display())]
    Left { path: PathBuf },
    /// A device has a label that this program cannot read.
    #[error("{} belongs to a pool ({why}); force it if that pool is not needed any more", path.display())]
    Foreign {
        path: PathBuf,
        /// Why its label cannot be read.
        why: Unreadable,
    },
    /// A device has something on it that is none of ours.
    #[error("{} holds {what}; with -f all of that is lost, or name another device", path.display())]
    Holds {
        path: PathBuf,
        /// What.
        what: &'static str,
    },
    /// A device is named twice.
    #[error("{} is named twice; a disk has one place in a pool", path.display())]
    Doubled { path: PathBuf },
    /// A device is too small.
    #[error("{} has {size} bytes and needs at least {needed} ({})", path.display(), Size(*needed))]
    TooSmall { path: PathBuf, size: u64, needed: u64 },
    /// More log vdevs than an uberblock has lines for.
    #[error("a pool takes at most {LANES_MAX} log vdevs, not {count}")]
    TooManyLogs {
        /// How many were asked for.
        count: usize,
    },
    /// Its labels cannot say what it is made of.
    #[error("{0}")]
    Labels(#[from] LabelError),
    #[error("cannot write to {}: {cause}; see to that disk and do this again, or name another one", path.display())]
    Write { path: PathBuf, cause: io::Error },
}

impl CreateError {
    /// The same, for whoever lets a device come to a pool of this configuration.
    #[must_use]
    pub fn seen_from(self, config: &PoolConfig) -> Self {
        let is_unknown = |leg| config.leg(leg).is_none() && config.spare(leg).is_none();
        match self {
            Self::Taken { path, leg: (pool, leg), .. } if pool == config.pool && is_unknown(leg) => Self::Left { path },
            other => other,
        }
    }
}

/// A device that is locked and may be used.
struct FreshLeg {
    guid: VdevGuid,
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

/// Looks whether the pool can be made, as far as that can be told without writing anything. Of devices that are not there
/// yet `size_of_new` says how large they will be.
pub fn check(
    platform: &Platform,
    name: &str,
    specs: &[VdevSpec],
    options: &CreateOptions,
    size_of_new: &dyn Fn(&Path) -> Option<u64>,
) -> Result<(), CreateError> {
    check_words(name, specs)?;
    // All of them stay open until the last one is: two names of one device are found.
    let (mut legs, mut is_all_there) = (Vec::new(), true);
    for spec in specs {
        let needed = smallest(spec);
        let mut opened = Vec::new();
        for path in &spec.paths {
            match size_of_new(path) {
                Some(size) if size < needed => {
                    return Err(CreateError::TooSmall { path: path.clone(), size, needed });
                }
                Some(_) => is_all_there = false,
                None => opened.push(open_leg(platform, path, needed, options.force)?),
            }
        }
        legs.push(opened);
    }
    if is_all_there {
        plan(platform, name, specs, &legs, options).check_room()?;
    }
    Ok(())
}

/// What is wrong whatever the devices are like.
fn check_words(name: &str, specs: &[VdevSpec]) -> Result<(), CreateError> {
    check_name(name)?;
    let log_count = specs.iter().filter(|spec| spec.class == VdevClass::Log).count();
    if log_count > LANES_MAX {
        return Err(CreateError::TooManyLogs { count: log_count });
    }
    let mut places = BTreeSet::new();
    for path in specs.iter().flat_map(|spec| &spec.paths) {
        if !places.insert(place_of(path)) {
            return Err(CreateError::Doubled { path: path.clone() });
        }
    }
    Ok(())
}

/// Where a path leads, links followed, also if there is nothing yet.
fn place_of(path: &Path) -> PathBuf {
    let of_new = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(of_new).unwrap_or_else(|| path.to_owned())
}

const fn smallest(spec: &VdevSpec) -> u64 {
    match spec.class {
        VdevClass::Data => DATA_LEG_BYTES_MIN,
        VdevClass::Log => LOG_LEG_BYTES_MIN,
    }
}

/// Makes the pool: its devices are locked, their labels erased and the rings written out. Nothing says yet that there is
/// a pool: the caller claims it ([`Roster::claim`] writes the labels) and then writes its first uberblock.
pub fn create(
    platform: &Platform,
    name: &str,
    specs: &[VdevSpec],
    options: &CreateOptions,
) -> Result<Assembled, CreateError> {
    check_words(name, specs)?;
    let mut legs = Vec::new();
    for spec in specs {
        let opened = spec.paths.iter().map(|path| open_leg(platform, path, smallest(spec), options.force));
        legs.push(opened.collect::<Result<Vec<_>, _>>()?);
    }
    let config = plan(platform, name, specs, &legs, options);
    config.check_room()?;
    for (vdev, legs) in config.vdevs.iter().zip(&legs) {
        for leg in legs {
            prepare(leg, vdev.ring.filter(|_| options.prewrite_rings))?;
        }
    }
    let vdevs: Vec<_> = config.vdevs.iter().zip(legs).map(|(vdev, legs)| Arc::new(vdev_of(vdev, legs))).collect();
    let roster = Roster::new(config, vdevs.clone(), platform);
    let (vdevs, logs) = vdevs.into_iter().partition(|vdev| vdev.class() == VdevClass::Data);
    Ok(Assembled { config: roster.config(), roster, vdevs, logs, notes: Vec::new() })
}

/// A disk that is locked and may become a spare.
pub struct NewSpare {
    guid: VdevGuid,
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl NewSpare {
    /// Its line in the labels.
    fn line(&self) -> Spare {
        Spare { guid: self.guid, stands_for: None, size: self.disk.geometry().size, path: self.path.clone() }
    }
}

/// Locks a device that may become a spare, and writes nothing.
fn new_spare(platform: &Platform, path: &Path, needed: u64, force: bool) -> Result<NewSpare, CreateError> {
    let FreshLeg { guid, path, disk } = open_leg(platform, path, needed, force)?;
    Ok(NewSpare { guid, path, disk })
}

/// Whether the device could join `vdev`; nothing is written.
pub fn check_new_leg(platform: &Platform, vdev: &VdevConfig, path: &Path, force: bool) -> Result<(), CreateError> {
    open_leg(platform, path, vdev.data_bytes + 2 * LABEL_BYTES, force).map(drop)
}

/// Locks a device and readies it to join `vdev`; [`Roster::add_leg`] takes it in.
pub fn new_leg(platform: &Platform, vdev: &VdevConfig, path: &Path, force: bool) -> Result<Arc<VdevLeg>, CreateError> {
    let leg = open_leg(platform, path, vdev.data_bytes + 2 * LABEL_BYTES, force)?;
    prepare(&leg, None)?;
    Ok(Arc::new(VdevLeg::new(leg.guid, leg.path, Some(leg.disk), LegState::Stale)))
}

fn vdev_of(config: &VdevConfig, legs: Vec<FreshLeg>) -> Vdev {
    let leg = |leg: FreshLeg| Arc::new(VdevLeg::new(leg.guid, leg.path, Some(leg.disk), LegState::Online));
    Vdev::new(config, legs.into_iter().map(leg).collect())
}

fn check_name(name: &str) -> Result<(), CreateError> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let is_good = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(is_word)
        && name.len() <= NAME_BYTES_MAX
        && !is_reserved_name(name);
    if is_good { Ok(()) } else { Err(CreateError::Name { name: name.to_owned() }) }
}

/// `mirror`, `raidz2` and their like would be read as keywords; `logbook` and `mirrors` would not.
fn is_reserved_name(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    ["mirror", "raidz", "draid", "spare", "log"].contains(&stem)
}

fn open_leg(platform: &Platform, path: &Path, min: u64, force: bool) -> Result<FreshLeg, CreateError> {
    let open_error = |cause: io::Error| match cause.kind() {
        io::ErrorKind::WouldBlock => CreateError::InUse { path: path.to_owned() },
        _ => CreateError::Open { path: path.to_owned(), cause },
    };
    let path = std::path::absolute(path).map_err(open_error)?;
    // Pools may be in use on the same device: what it loses here they have to hear of.
    let disk = Arc::new(TrustedDisk::new(platform.opener.open(&path, Access::Exclusive).map_err(open_error)?));
    match label::read(disk.as_ref()) {
        Ok(label) => {
            let state = match label.config.state {
                PoolState::Active => Some("in use, or its machine crashed"),
                PoolState::Exported => Some("exported"),
                PoolState::Destroyed => None,
            };
            if let Some(state) = state.filter(|_| !force) {
                let leg = (label.config.pool, label.leg);
                return Err(CreateError::Taken { path, pool: label.config.name, leg, state });
            }
        }
        // Nothing of ours there, or nothing to be had from it.
        Err(Unreadable::NoLabel | Unreadable::Damaged | Unreadable::Io(_)) => {
            // One that cannot be looked at is not empty.
            let content = if force { Ok(None) } else { foreign::content(disk.as_ref()) };
            match content {
                Ok(None) => {}
                Ok(Some(what)) => return Err(CreateError::Holds { path, what }),
                Err(cause) => return Err(CreateError::Unread { path, cause }),
            }
        }
        // A pool of a program of another age: it would be gone without a word.
        Err(why) if !force => return Err(CreateError::Foreign { path, why }),
        Err(_) => {}
    }
    let size = disk.geometry().size;
    if size < min {
        return Err(CreateError::TooSmall { path, size, needed: min });
    }
    Ok(FreshLeg { guid: VdevGuid(platform.rng.next_u64()), path, disk })
}

fn plan(
    platform: &Platform,
    name: &str,
    specs: &[VdevSpec],
    legs: &[Vec<FreshLeg>],
    options: &CreateOptions,
) -> PoolConfig {
    let mut vdevs: Vec<_> = (0..)
        .map(VdevIndex)
        .zip(specs.iter().zip(legs))
        .map(|(index, (spec, legs))| plan_vdev(platform, index, spec, legs, options))
        .collect();
    if !vdevs.iter().any(|vdev| vdev.class == VdevClass::Log)
        && let Some(first) = vdevs.iter_mut().find(|vdev| vdev.class == VdevClass::Data)
    {
        first.ring = Some(ring_in_pool(first.data_bytes));
    }
    let with_ring = vdevs.iter().filter_map(|vdev| Some((vdev, vdev.ring?)));
    let lanes = (0..).zip(with_ring).map(|(lane, (vdev, ring))| plan_lane(LaneId(lane), vdev, ring)).collect();
    let mut handle_key = [0; 32];
    platform.rng.fill(&mut handle_key);
    PoolConfig {
        pool: PoolGuid(platform.rng.next_u64()),
        name: name.to_owned(),
        features: Features::default(),
        feature_notes: FeatureNotes::of_new_pool(options.compatibility),
        vdevs,
        lanes,
        // The claim raises both to one: a configuration that no claim has touched is on no disk.
        sequence: 0,
        open_gen: 0,
        open_id: 0,
        synced_txg: Txg(0),
        host: platform.host.clone(),
        state: PoolState::Active,
        handle_key,
        created: platform.clock.now(),
        supplement: Supplement::default(),
        rewinds: Vec::new(),
        spares: Vec::new(),
        hang_limit: HangLimit::default(),
        carried: Vec::new(),
    }
}

fn plan_vdev(
    platform: &Platform,
    index: VdevIndex,
    spec: &VdevSpec,
    legs: &[FreshLeg],
    options: &CreateOptions,
) -> VdevConfig {
    let smallest = legs.iter().filter_map(|leg| data_bytes_of(leg.disk.geometry().size)).min();
    let mut data_bytes = smallest.expect("every vdev has a leg, and every leg has its least size");
    let mut ring = None;
    if spec.class == VdevClass::Log {
        // The lane's geometry wants a megabyte at least; a smaller bound of the user's is raised to that.
        let bound = options.log_bytes_max.max(POOL_RING_BYTES_MIN) / SECTOR as u64 * SECTOR as u64;
        data_bytes = data_bytes.min(LOG_RING_BYTES_MAX).min(bound);
        ring = Some(RingArea { start: 0, length: data_bytes });
    }
    let leg = |leg: &FreshLeg| LegConfig {
        guid: leg.guid,
        path: leg.path.clone(),
        stale_since: None,
        is_offline: false,
        slot: 0,
        size: leg.disk.geometry().size,
        joined_txg: Txg(0),
        missed: MissedGroups::default(),
    };
    VdevConfig {
        guid: VdevGuid(platform.rng.next_u64()),
        index,
        class: spec.class,
        kind: spec.kind,
        legs: legs.iter().map(leg).collect(),
        data_bytes,
        ring,
        removed: false,
    }
}

/// In the middle, where a seeking disk's arm is soonest from anywhere.
fn ring_in_pool(data_bytes: u64) -> RingArea {
    let sector = SECTOR as u64;
    let length = (data_bytes / RING_PART).clamp(POOL_RING_BYTES_MIN, POOL_RING_BYTES_MAX) / sector * sector;
    RingArea { start: (data_bytes - length) / 2 / sector * sector, length }
}

fn plan_lane(lane: LaneId, vdev: &VdevConfig, ring: RingArea) -> LaneConfigLine {
    let geometry = LaneGeometry::for_size(ring.length);
    LaneConfigLine {
        lane,
        vdev: vdev.index,
        size: geometry.size,
        frame_bytes_max: geometry.frame_bytes_max,
        frames_in_flight_max: geometry.frames_in_flight_max,
        legset: vdev.legs.iter().map(|leg| leg.guid).collect(),
        legset_gen: 1,
        left: Vec::new(),
    }
}

/// Erases what an earlier life has left in the labels, and writes the ring out.
fn prepare(leg: &FreshLeg, ring: Option<RingArea>) -> Result<(), CreateError> {
    let wiped = label::wipe(leg.disk.as_ref());
    let written = wiped.and_then(|()| ring.map_or(Ok(()), |ring| write_out_ring(leg.disk.as_ref(), ring)));
    written.map_err(|cause| CreateError::Write { path: leg.path.clone(), cause })
}

#[cfg(test)]
mod tests;
