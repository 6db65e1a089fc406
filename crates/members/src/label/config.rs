//! What the pool is made of: the part of a label that is the same on every leg.

use std::path::PathBuf;

use tally_base::{LaneId, PoolGuid, Time, Txg, VdevGuid, VdevIndex};
use tally_disk::Host;
use tally_intent::LaneGeometry;

use super::{
    FeatureNotes, Features, HangLimit, LANES_MAX, MissedGroups, Rewind, SPARES_MAX, Section, Spare, Supplement,
};

/// The configuration of a pool. Numbered by `sequence`; the highest one over all labels holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolConfig {
    /// Its name for ever, unlike `name`.
    pub pool: PoolGuid,
    /// Its name, which is also its root dataset's.
    pub name: String,
    /// What it uses beyond the format's version.
    pub features: Features,
    /// What may be used, with names and versions.
    pub feature_notes: FeatureNotes,
    /// Top-level vdevs. A vdev's index is its place here, for ever: block pointers name it by that.
    pub vdevs: Vec<VdevConfig>,
    /// The intent log's lanes; a lane's id is its own, not its place.
    pub lanes: Vec<LaneConfigLine>,
    /// Raised by one with every change.
    pub sequence: u64,
    /// Raised with every import that may write, above the configuration that holds and the chosen uberblock (rules F8).
    pub open_gen: u64,
    /// Drawn with every raise of `open_gen`: two machines that both raised it to the same number differ here.
    pub open_id: u64,
    /// Txg of the newest durable uberblock when this was written: a witness that it existed.
    pub synced_txg: Txg,
    /// The machine that has, or had, the pool.
    pub host: Host,
    /// In use, put away, or given up.
    pub state: PoolState,
    /// Key of the file handles' MAC.
    pub handle_key: [u8; 32],
    /// When the pool was made.
    pub created: Time,
    /// Settings and accepted losses.
    pub supplement: Supplement,
    /// After how long a leg that hangs is struck off.
    pub hang_limit: HangLimit,
    /// Disks that wait for the place of one that goes away, and those that are in such a place.
    pub spares: Vec<Spare>,
    /// Groups that were given up, oldest note first.
    pub rewinds: Vec<Rewind>,
    /// Sections that this program does not know, as they were read.
    pub carried: Vec<Section>,
}

/// Whether a pool is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolState {
    /// In use by `host`, or that machine crashed.
    #[default]
    Active,
    /// Put away in good order: any machine may take it.
    Exported,
    /// Destroyed: the bytes may still be there, until somebody needs the disks.
    Destroyed,
}

/// What a vdev holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VdevClass {
    /// Blocks, and in the first of a pool without log vdevs a ring of the intent log.
    Data,
    /// A ring of the intent log and nothing else.
    Log,
}

/// How a vdev is made of its legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VdevKind {
    /// A single leg: what it loses has no second copy.
    Disk,
    /// Legs that all hold the same.
    Mirror,
}

/// A vdev as labels name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevConfig {
    /// Its name for ever.
    pub guid: VdevGuid,
    /// Its place in [`PoolConfig::vdevs`].
    pub index: VdevIndex,
    /// Blocks, or a ring of the log; fixed when it was made.
    pub class: VdevClass,
    /// How it is made.
    pub kind: VdevKind,
    /// All that belong to it, in use or left behind.
    pub legs: Vec<LegConfig>,
    /// Size of the area between the labels that is used, on each leg; fixed when the vdev was made.
    pub data_bytes: u64,
    /// The part of the data area that is a ring of the intent log and not for blocks.
    pub ring: Option<RingArea>,
    /// It was taken out of the pool; the entry keeps the place, so that no later vdev gets its index.
    pub removed: bool,
}

/// Where a ring lies in a vdev's data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingArea {
    /// Bytes from the beginning of the data area.
    pub start: u64,
    /// Its bytes, all of which are the ring.
    pub length: u64,
}

/// A leg as labels name it: who it is, where it was, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegConfig {
    /// Its name for ever.
    pub guid: VdevGuid,
    /// Where it was last seen: a hint, the guid in its label decides.
    pub path: PathBuf,
    /// Sequence of the configuration with which it dropped out: since then it has missed writes, and it may neither
    /// vote nor be read before it has been copied again. A label of its own with this sequence or a later one means
    /// that the leg went on without us.
    pub stale_since: Option<u64>,
    /// Somebody took it out of use by command, and no import takes it up again. Only ever beside `stale_since`.
    pub is_offline: bool,
    /// The column of the vdev that it fills. Legs of one slot are copies of each other; a disk and a mirror have one slot.
    pub slot: u16,
    /// Size of the device, in whole sectors, when it was taken in: where its label at the end was written first.
    pub size: u64,
    /// Newest durable group when it was taken in: what it has of that and the groups before was copied to it. Zero if the
    /// vdev was made with it.
    pub joined_txg: Txg,
    /// Groups that it lacks, as far as that is known: of one left behind with an empty list nothing is. One in use has an
    /// empty list, but where the copy to it lacked something.
    pub missed: MissedGroups,
}

/// One lane of the intent log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneConfigLine {
    /// The lane whose ring this is.
    pub lane: LaneId,
    /// Index of the vdev whose ring it is.
    pub vdev: VdevIndex,
    /// Size of the ring, bytes.
    pub size: u64,
    /// Longest frame, bytes.
    pub frame_bytes_max: u32,
    /// Most frames that are written at once.
    pub frames_in_flight_max: u32,
    /// The legs that every acknowledged frame is on.
    pub legset: Vec<VdevGuid>,
    /// Raised with every change of `legset`; stands in each frame.
    pub legset_gen: u64,
    /// Legs that left, with the last generation they belonged to: good for repairs of older frames (rules F6).
    pub left: Vec<(VdevGuid, u64)>,
}

impl LegConfig {
    /// Whether a leg that was dropped has taken part in changes behind that, as its own label has them, and does not know that
    /// it was.
    pub(crate) fn is_ahead_of_its_drop(&self, own: &PoolConfig) -> bool {
        let says_stale = || own.leg(self.guid).is_none_or(|(_, leg)| leg.stale_since.is_some());
        self.stale_since.is_some_and(|dropped| own.sequence >= dropped && !says_stale())
    }
}

impl LaneConfigLine {
    /// The shape of the ring, as the intent log wants it. Whoever reads a label has checked it.
    #[must_use]
    pub fn geometry(&self) -> LaneGeometry {
        LaneGeometry {
            size: self.size,
            frame_bytes_max: self.frame_bytes_max,
            frames_in_flight_max: self.frames_in_flight_max,
        }
    }
}

impl PoolConfig {
    /// Top-level vdevs in use.
    pub fn vdevs_present(&self) -> impl Iterator<Item = &VdevConfig> {
        self.vdevs.iter().filter(|vdev| !vdev.removed)
    }

    /// The vdev of this index. One that was removed is none: nothing lies there any more.
    #[must_use]
    pub fn vdev(&self, index: VdevIndex) -> Option<&VdevConfig> {
        self.vdevs.get(index.place()).filter(|vdev| !vdev.removed)
    }

    /// The vdev that a leg belongs to, and the leg.
    #[must_use]
    pub fn leg(&self, guid: VdevGuid) -> Option<(&VdevConfig, &LegConfig)> {
        self.vdevs_present().find_map(|vdev| Some((vdev, vdev.legs.iter().find(|leg| leg.guid == guid)?)))
    }

    /// The line of a spare, be it in use or not.
    #[must_use]
    pub fn spare(&self, guid: VdevGuid) -> Option<&Spare> {
        self.spares.iter().find(|spare| spare.guid == guid)
    }

    /// The spares that are in the place of a leg, each with its vdev.
    pub fn spares_in_use(&self) -> impl Iterator<Item = (&Spare, &VdevConfig)> {
        self.spares.iter().filter_map(|spare| Some((spare, self.leg(spare.guid)?.0)))
    }

    /// The spares that wait.
    pub fn spares_available(&self) -> impl Iterator<Item = &Spare> {
        self.spares.iter().filter(|spare| self.leg(spare.guid).is_none())
    }

    /// The leg, to change it.
    pub(crate) fn leg_mut(&mut self, guid: VdevGuid) -> Option<&mut LegConfig> {
        self.vdevs.iter_mut().filter(|vdev| !vdev.removed).flat_map(|vdev| &mut vdev.legs).find(|leg| leg.guid == guid)
    }

    /// Numbers of the sections that a program must know to write, and this one does not.
    #[must_use]
    pub fn sections_needed(&self) -> Vec<u16> {
        self.carried.iter().filter(|section| section.must_be_known).map(|section| section.id).collect()
    }

    /// Order among configurations of one pool: the later one holds.
    #[must_use]
    pub fn rank(&self) -> (u64, u64) {
        (self.open_gen, self.sequence)
    }

    /// Whether the parts fit each other. A label whose checksum is right can still have been written by a
    /// program with other ideas; what is checked here is what the code above relies on.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        for (place, vdev) in self.vdevs.iter().enumerate() {
            if VdevIndex::at(place) != Some(vdev.index) {
                return Err("a vdev's index is not its place");
            }
            if !vdev.data_bytes.is_multiple_of(tally_base::SECTOR as u64) || vdev.data_bytes >= 1 << 60 {
                return Err("the size of a data area");
            }
            let ring_fits = |ring: RingArea| {
                ring.start.is_multiple_of(tally_base::SECTOR as u64)
                    && ring.start.checked_add(ring.length).is_some_and(|end| end <= vdev.data_bytes)
            };
            if !vdev.ring.is_none_or(ring_fits) {
                return Err("a ring that is not inside its vdev");
            }
            if vdev.legs.is_empty() && !vdev.removed {
                return Err("a vdev without legs");
            }
            if vdev.legs.iter().any(|leg| leg.slot != 0) {
                return Err("a leg in a slot that its vdev does not have");
            }
            let is_size = |leg: &LegConfig| leg.size.is_multiple_of(tally_base::SECTOR as u64) && leg.size < 1 << 62;
            if !vdev.legs.iter().all(is_size) {
                return Err("the size of a leg");
            }
            // Groups are counted on from here.
            if vdev.legs.iter().any(|leg| leg.joined_txg.0 >= 1 << 62) {
                return Err("a counter near its end");
            }
        }
        if self.lanes.len() > LANES_MAX {
            return Err("more lanes than an uberblock can name");
        }
        for (place, line) in self.lanes.iter().enumerate() {
            self.check_lane(line)?;
            let is_same = |other: &LaneConfigLine| other.lane == line.lane || other.vdev == line.vdev;
            if self.lanes.iter().take(place).any(is_same) {
                return Err("two lanes in one ring, or of one name");
            }
        }
        if self.spares.len() > SPARES_MAX {
            return Err("more spares than there may be");
        }
        for (place, spare) in self.spares.iter().enumerate() {
            if self.spares.iter().take(place).any(|other| other.guid == spare.guid) {
                return Err("a spare twice");
            }
        }
        // Counters near the end of their range would overflow in later sums.
        if self.sequence >= 1 << 62 || self.open_gen >= 1 << 62 {
            return Err("a counter near its end");
        }
        Ok(())
    }

    /// What is wrong with one lane.
    fn check_lane(&self, line: &LaneConfigLine) -> Result<(), &'static str> {
        line.geometry().validate()?;
        let ring = self.vdev(line.vdev).and_then(|vdev| vdev.ring).ok_or("a lane on a vdev without a ring")?;
        if line.size > ring.length {
            return Err("a lane longer than its ring");
        }
        // Frames would go to a place of the other vdev that holds something else.
        let is_elsewhere = |guid: &VdevGuid| self.leg(*guid).is_some_and(|(vdev, _)| vdev.index != line.vdev);
        if line.legset.iter().any(is_elsewhere) {
            return Err("a lane on a leg of another vdev");
        }
        let generations = line.left.iter().map(|(_, last)| *last).chain([line.legset_gen]);
        if generations.into_iter().any(|generation| generation >= 1 << 62) {
            return Err("a counter near its end");
        }
        Ok(())
    }
}
