//! A vdev that has been full and in use for years: nine tenths in use, the rest in holes of 16 KiB everywhere. Each run
//! was looked for region after region, from the first, and again for half the length: 4 ms of processor time on 4 TiB.
//! And each free made its region a candidate for the longest runs again.

use std::sync::Arc;
use std::time::Instant;

use tally_base::{SECTOR, Txg, VdevIndex};
use tally_members::blockdev::BlockDevs;

use super::bitmap::{Bitmap, REGION_SECTORS};
use super::maps::Maps;
use super::vdev_space::VdevSpace;
use crate::bp::Dva;

/// Sectors of a hole, and of its share of the vdev.
const HOLE: u32 = 4;
const SPACING: u32 = 40;
/// What a writer asks for: a mebibyte, or whatever there is.
const WANT: u32 = 256;

pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % count
    }
}

/// A hole somewhere in each stretch of [`SPACING`] sectors, but in the first ones.
pub(super) fn aged_region(dice: &mut Dice, whole: usize) -> Bitmap {
    let mut bitmap = Bitmap::empty();
    bitmap.set((0, REGION_SECTORS), true);
    for start in (0..REGION_SECTORS - SPACING).step_by(SPACING as usize).skip(whole) {
        bitmap.set((start + dice.below(u64::from(SPACING - HOLE)) as u32, HOLE), false);
    }
    bitmap
}

fn aged_vdev(region_count: u64, dice: &mut Dice) -> VdevSpace {
    let maps = Arc::new(Maps::new(&BlockDevs::new()));
    let mut vdev = VdevSpace::new(VdevIndex(0), region_count * u64::from(REGION_SECTORS) * SECTOR as u64, &maps);
    for region in &mut vdev.regions {
        let bitmap = aged_region(dice, 0);
        let figures = bitmap.figures(REGION_SECTORS);
        region.get_mut().restore(bitmap, figures);
    }
    vdev.recount();
    vdev
}

/// Runs are taken, and as many frees come in between as keep the vdev as full as it is. Gives the nanoseconds of each
/// run, and the most regions that one looked at.
fn churn(vdev: &VdevSpace, runs: usize, dice: &mut Dice) -> (Vec<u64>, u64) {
    let mut held: Vec<Dva> = Vec::new();
    let (mut times, mut most) = (Vec::with_capacity(runs), 0);
    for _ in 0..runs {
        let examined = vdev.examined();
        let start = Instant::now();
        let run = vdev.take(Txg(1), WANT, 1).expect("a tenth is free");
        times.push(start.elapsed().as_nanos() as u64);
        most = most.max(vdev.examined() - examined);
        held.push(run);
        while held.len() > 1000 {
            let run = held.swap_remove(dice.below(held.len() as u64) as usize);
            assert!(vdev.abandon(&run));
        }
    }
    (times, most)
}

#[test]
fn a_run_is_found_without_looking_everywhere() {
    let mut dice = Dice(7);
    let vdev = aged_vdev(512, &mut dice);
    let (_, most) = churn(&vdev, 3000, &mut dice);
    assert!(most <= 16, "one run looked at {most} of 512 regions");
    assert!(vdev.examined() <= 2 * 3000, "3000 runs looked at {} regions", vdev.examined());
    // A hole that is long enough is found wherever it is, and gone when it is taken.
    let place =
        Dva { vdev: VdevIndex(0), offset: 300 * u64::from(REGION_SECTORS) * SECTOR as u64, sectors: REGION_SECTORS };
    let mut freed = 0;
    for at in 0..u64::from(REGION_SECTORS) {
        let sector = Dva { offset: place.offset + at * SECTOR as u64, sectors: 1, ..place };
        freed += u64::from(freed < 600 && vdev.give(&sector, Txg(1)));
    }
    let long = vdev.take(Txg(1), WANT, WANT).expect("a hole of half a region");
    assert!(long.offset >= place.offset && long.end() <= place.end() && long.sectors == WANT, "{long}");
}

/// What one run costs on 4 TiB, nine tenths full and aged: the command stands in docs/benchmarks.md.
#[test]
#[ignore = "a measurement, in 400 MiB of memory"]
fn processor_time_of_a_run() {
    let mut dice = Dice(7);
    let vdev = aged_vdev(32 << 10, &mut dice);
    let (mut times, most) = churn(&vdev, 20_000, &mut dice);
    times.sort_unstable();
    let at = |permille: usize| times[(times.len() - 1) * permille / 1000] as f64 / 1000.0;
    println!(
        "us a run: median {:.1}, from {:.1} (10 %) to {:.1} (90 %), 99.9 % {:.1}, longest {:.1}; regions looked at by one, at most: {most}",
        at(500),
        at(100),
        at(900),
        at(999),
        at(1000)
    );
}
