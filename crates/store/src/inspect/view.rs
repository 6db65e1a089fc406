//! One pool as its devices show it: who is who, and which uberblocks there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tally_base::{PoolGuid, VdevGuid, VdevIndex};
use tally_disk::{Helpers, SerialFanout};
use tally_intent::{LaneConfig, LaneFailed, Leg, StaleLeg};
use tally_members::blockdev::{BlockDev, BlockDevs};
use tally_members::label::{LABEL_BYTES, LaneConfigLine, LegConfig, PoolConfig, VdevClass, VdevConfig};
use tally_members::uberblock::Uberblock;

use super::devices::{Device, LegView, VdevView};
use super::fact::{Fact, Part, Source};
use super::{Detail, Report};
use crate::block::damaged_copy;
use crate::bp::{BlockPtr, Dva};

/// The devices of one pool, put together as far as they can be.
pub(super) struct PoolView<'a> {
    pub(super) pool: PoolGuid,
    pub(super) devices: Vec<&'a Device>,
    /// The newest configuration of any label, and its place.
    pub(super) config: Option<(Source, &'a PoolConfig)>,
    /// Vdevs in use, in order.
    pub(super) vdevs: Vec<(VdevConfig, Arc<VdevView>)>,
    /// What block pointers name.
    pub(super) data: BTreeMap<VdevIndex, Arc<VdevView>>,
    /// Every uberblock with the place of its first copy, the newest first.
    pub(super) uberblocks: Vec<(Source, &'a Uberblock)>,
}

impl<'a> PoolView<'a> {
    pub(super) fn new(pool: PoolGuid, devices: Vec<&'a Device>) -> Self {
        let labels = devices.iter().flat_map(|device| device.labels().map(move |(slot, label)| (device, slot, label)));
        let newest = labels
            .filter(|(.., label)| label.config.pool == pool)
            // The first of equals, so that the source is the same in every run.
            .reduce(|best, next| if next.2.config.rank() > best.2.config.rank() { next } else { best });
        let config = newest.map(|(device, slot, label)| (device.at(slot.offset), &label.config));
        let vdevs: Vec<_> = config
            .iter()
            .flat_map(|(_, config)| config.vdevs_present().map(|vdev| (vdev.clone(), view_of(config, vdev, &devices))))
            .collect();
        let of_data = vdevs.iter().filter(|(config, _)| config.class == VdevClass::Data);
        // A vdev in use is named by its index; where no configuration tells, devices are by their order.
        let mut data: BTreeMap<_, _> = of_data.map(|(config, vdev)| (config.index, Arc::clone(vdev))).collect();
        if config.is_none() {
            let assumed = devices.iter().map(|device| Arc::new(VdevView::assumed(device)));
            data = (0..).map(VdevIndex).zip(assumed).collect();
        }
        let mut uberblocks = uberblocks_of(pool, &devices);
        // What the pool has given up comes last, however new it is.
        let rewinds = config.as_ref().map_or(&[][..], |(_, config)| &config.rewinds);
        uberblocks.sort_by_key(|(_, found)| rewinds.iter().any(|rewind| rewind.drops(found.rank())));
        Self { pool, devices, config, vdevs, data, uberblocks }
    }

    /// The data vdevs as block I/O wants them.
    pub(super) fn block_devs(&self) -> BlockDevs {
        self.data.iter().map(|(index, vdev)| (*index, Arc::clone(vdev) as Arc<dyn BlockDev>)).collect()
    }

    /// Where a block lies.
    pub(super) fn source(&self, dva: Dva) -> Option<Source> {
        self.data.get(&dva.vdev)?.source(dva.offset)
    }

    /// Legs that the configuration names and no device is.
    pub(super) fn missing_legs(&self) -> impl Iterator<Item = (&VdevConfig, &LegConfig)> {
        self.vdevs.iter().flat_map(|(config, vdev)| {
            let is_there = |leg: &&LegConfig| !vdev.legs.iter().any(|view| view.guid == leg.guid);
            config.legs.iter().filter(is_there).map(move |leg| (config, leg))
        })
    }

    /// Says where a leg of a mirror was wrong while another one was right.
    pub(super) fn say_faults(&self, report: &mut Report<'_>, part: Part) {
        for (source, why) in self.data.values().flat_map(|vdev| vdev.drain_faults()) {
            let fact = Fact::new(part, "block copy").at(source).damaged(format!("{why}; another leg has it"));
            report.say(Detail::Summary, &fact);
        }
    }

    /// Says where a block that is there twice is wrong, while its other copy is right.
    pub(super) fn say_damaged_copy(&self, report: &mut Report<'_>, part: Part, bp: &BlockPtr) {
        if let Some((dva, why)) = damaged_copy(&self.block_devs(), bp) {
            let fact =
                Fact::new(part, "block copy").at(self.source(dva)).damaged(format!("{why}; its other copy is right"));
            report.say(Detail::Summary, &fact);
        }
    }

    /// A lane as recovery reads it. Nothing will be written through it.
    pub(super) fn lane(&self, line: &LaneConfigLine) -> Option<LaneConfig> {
        let (config, vdev) = self.vdevs.iter().find(|(config, _)| config.index == line.vdev)?;
        let start = LABEL_BYTES.checked_add(config.ring?.start)?;
        let lane = line.lane;
        let of = |guid: &VdevGuid| {
            let view = vdev.legs.iter().find(|view| view.guid == *guid)?;
            Some((view.is_stale, Leg { guid: *guid, disk: Arc::clone(&view.disk), start }))
        };
        let stale = |(guid, last): &(VdevGuid, u64)| Some(StaleLeg { leg: of(guid)?.1, legset_gen_last: *last });
        Some(LaneConfig {
            pool: self.pool,
            lane,
            geometry: line.geometry(),
            legset_gen: line.legset_gen,
            legs: line.legset.iter().filter_map(of).filter(|(is_stale, _)| !is_stale).map(|(_, leg)| leg).collect(),
            stale_legs: line.left.iter().filter_map(stale).collect(),
            fanout: Arc::new(SerialFanout),
            helpers: Helpers::Threads,
            leg_failed: Arc::new(move |_, _| Err(LaneFailed::Closed { lane })),
        })
    }

    /// The path of a leg and where its ring begins.
    pub(super) fn ring_source(&self, line: &LaneConfigLine, leg: Option<VdevGuid>, offset: u64) -> Option<Source> {
        let (config, vdev) = self.vdevs.iter().find(|(config, _)| config.index == line.vdev)?;
        let view = vdev.legs.iter().find(|view| leg.is_none_or(|guid| view.guid == guid))?;
        Some(Source::new(&view.path, LABEL_BYTES + config.ring?.start + offset))
    }
}

/// The vdev, made of the devices that say, or must be taken, to be its legs.
fn view_of(newest: &PoolConfig, vdev: &VdevConfig, devices: &[&Device]) -> Arc<VdevView> {
    let best_open_gen = devices
        .iter()
        .filter_map(|device| device.label())
        .filter(|(_, label)| vdev.legs.iter().any(|leg| leg.guid == label.leg && leg.stale_since.is_none()))
        .map(|(_, label)| label.config.open_gen)
        .max();
    let mut legs: Vec<LegView> = vdev
        .legs
        .iter()
        .filter_map(|leg| {
            let device = device_of(leg, devices)?;
            // As at import (the table in `assemble`), without its refusals.
            let is_current = device.label().is_none_or(|(_, label)| {
                let own = &label.config;
                own.open_gen >= best_open_gen.unwrap_or(0) && own.sequence.saturating_add(1) >= newest.sequence
            });
            let is_stale = leg.stale_since.is_some() || !is_current;
            Some(LegView { guid: leg.guid, path: device.path.clone(), disk: Arc::clone(&device.disk), is_stale })
        })
        .collect();
    // With nothing better there, what is there is shown.
    if legs.iter().all(|leg| leg.is_stale) {
        legs.iter_mut().for_each(|leg| leg.is_stale = false);
    }
    Arc::new(VdevView::new(vdev, legs))
}

/// The device whose label says that it is this leg; else one that has lost its labels and stands where the leg stood.
fn device_of<'a>(leg: &LegConfig, devices: &[&'a Device]) -> Option<&'a Device> {
    let by_label = devices.iter().find(|device| device.label().is_some_and(|(_, label)| label.leg == leg.guid));
    let by_path = || devices.iter().find(|device| device.label().is_none() && device.path == leg.path);
    by_label.or_else(by_path).copied()
}

fn uberblocks_of<'a>(pool: PoolGuid, devices: &[&'a Device]) -> Vec<(Source, &'a Uberblock)> {
    let all =
        devices.iter().flat_map(|device| device.uberblocks().map(move |(slot, found)| (device.at(slot.offset), found)));
    let mut uberblocks: Vec<_> = all.filter(|(_, found)| found.pool == pool).collect();
    // A stable sort: among copies the first device and its first label lead.
    uberblocks.sort_by_key(|(_, found)| std::cmp::Reverse(found.rank()));
    let mut seen = BTreeSet::new();
    uberblocks.retain(|(_, found)| seen.insert((found.rank(), found.hash())));
    uberblocks
}
