//! Space maps and deferred frees.

use std::collections::BTreeMap;

use tally_base::VdevIndex;

use super::fact::{Fact, Part};
use super::trees::{Root, block_fact};
use super::view::PoolView;
use super::{Detail, Report};
use crate::alloc::SpaceVisit;

/// What is counted of one vdev.
#[derive(Default)]
struct Usage {
    sectors: u64,
    excluded: u64,
    maps: u64,
    used: u64,
}

/// Every sector of the allocator, and what they add up to.
pub(super) fn say_space(report: &mut Report<'_>, view: &PoolView<'_>, root: &Root) {
    let mut usage: BTreeMap<VdevIndex, Usage> = BTreeMap::new();
    let (mut lists, mut deferred, mut ripe) = (0u64, 0u64, 0u64);
    root.alloc.inspect(&view.block_devs(), &mut |visit| {
        match visit {
            SpaceVisit::Vdev { vdev, sectors, excluded } => {
                usage.insert(vdev, Usage { sectors, excluded, ..Usage::default() });
            }
            SpaceVisit::Map { vdev, used_sectors, .. } => {
                let usage = usage.entry(vdev).or_default();
                usage.maps += 1;
                usage.used += u64::from(used_sectors);
            }
            SpaceVisit::Deferred { ranges, is_ripe, .. } => {
                lists += 1;
                *(if is_ripe { &mut ripe } else { &mut deferred }) +=
                    ranges.iter().map(|range| u64::from(range.sectors)).sum::<u64>();
            }
            SpaceVisit::Index { .. } | SpaceVisit::Damage { .. } => {}
        }
        say_sector(report, view, &visit);
    });
    for (vdev, usage) in &usage {
        let fact = Fact::new(Part::Space, "vdev space")
            .at(root.source.clone())
            .with("vdev", *vdev)
            .with("sectors", usage.sectors)
            .with("excluded_sectors", usage.excluded)
            .with("used_sectors", usage.used)
            .with("maps", usage.maps);
        report.say(Detail::Summary, &fact);
    }
    let fact = Fact::new(Part::Space, "deferred frees").at(root.source.clone());
    let fact = fact.with("sectors_of_lists", lists).with("waiting_sectors", deferred);
    // Some of what a ripe list names may be in the maps already, and in use again.
    report.say(Detail::Summary, &fact.with("ripe_sectors_at_most", ripe));
    view.say_faults(report, Part::Space);
}

fn say_sector(report: &mut Report<'_>, view: &PoolView<'_>, visit: &SpaceVisit<'_>) {
    let of = |what, bp: &crate::bp::BlockPtr| Fact { part: Part::Space, ..block_fact(what, view.source(bp.dva), bp) };
    if let Some(bp) = visit.block() {
        view.say_damaged_copy(report, Part::Space, bp);
    }
    match visit {
        SpaceVisit::Vdev { .. } => {}
        SpaceVisit::Index { vdev, level, at, bp } => {
            let fact = of("space index", bp).with("vdev", *vdev).with("level", *level).with("at", *at);
            report.say(Detail::Lines, &fact);
        }
        SpaceVisit::Map { vdev, region, bp, line, used_sectors } => {
            let fact = of("space map", bp).with("vdev", *vdev).with("region", *region);
            let fact = fact.with("used_sectors", *used_sectors).with("free_sectors", line.figures.free);
            let fact = fact.with("longest_run", line.figures.longest).with("runs", line.figures.runs);
            report.say(Detail::Lines, &fact.with("applied", line.applied));
        }
        SpaceVisit::Deferred { txg, is_ripe, bp, ranges } => {
            let state = if *is_ripe { "ripe" } else { "waiting" };
            let fact = of("deferred frees", bp).with("txg", *txg).with("state", state).with("ranges", ranges.len());
            report.say(Detail::Lines, &fact);
            for range in *ranges {
                let fact = Fact::new(Part::Space, "freed").at(view.source(*range)).with("vdev", range.vdev);
                let fact = fact.with("txg", *txg).with("sectors", range.sectors);
                report.say(Detail::Verbose, &fact);
            }
        }
        SpaceVisit::Damage { bp, region, error } => {
            report.say(Detail::Summary, &of("space", bp).with_some("region", *region).damaged(error));
        }
    }
}
