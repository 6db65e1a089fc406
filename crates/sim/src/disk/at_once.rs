//! Writes that are under way together when the power goes.
//!
//! Threads have no place in a world that a seed repeats, so what goes to several disks at once goes to one after the other
//! here, and a cut would find all but one of them whole or not begun. Where a cut is near, each write is first put into its
//! disk's cache: of what is there the cut keeps a part, in any order, and torn. Where every cut is tried, the events say the
//! same ([`Power::together`]). Work is opaque (labels, flushes): of that, every second cut finds the last disk ahead of the
//! others instead of the first.

use std::io;
use std::sync::Arc;

use tally_disk::{Disk, Durability, Fanout, Work};

use super::power::Power;

/// Writes that a piece of work has for its disk, at most: a label has two copies.
const WRITES_OF_WORK_MAX: u64 = 2;

/// The fan-out of a machine that may lose its power.
pub(crate) struct AtOnce {
    power: Arc<Power>,
}

impl AtOnce {
    pub(crate) fn new(power: &Arc<Power>) -> Self {
        Self { power: Arc::clone(power) }
    }
}

impl AtOnce {
    fn run(&self, work: Work) -> io::Result<()> {
        let disk = work.disk().cloned();
        self.power.ask(work.limit(), disk.as_ref(), || work.run())
    }

    fn write_one(&self, disk: &Arc<dyn Disk>, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        let Some((below, patience)) = disk.patient() else { return disk.write(offset, buf, durability) };
        let limit = patience.limit().map(|limit| (patience, limit));
        self.power.ask(limit, Some(&below), || below.write(offset, buf, durability))
    }
}

impl Fanout for AtOnce {
    fn each(&self, mut work: Vec<Work>) -> Vec<io::Result<()>> {
        let cut = self.power.goes_within(WRITES_OF_WORK_MAX * work.len() as u64);
        if cut.is_none_or(|left| left % 2 == 0) {
            return work.into_iter().map(|work| self.run(work)).collect();
        }
        work.reverse();
        let mut outcomes: Vec<_> = work.into_iter().map(|work| self.run(work)).collect();
        outcomes.reverse();
        outcomes
    }

    fn write(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8], durability: Durability) -> Vec<io::Result<()>> {
        let write = |(disk, offset): &(Arc<dyn Disk>, u64)| self.write_one(disk, *offset, buf, durability);
        if durability == Durability::Cached {
            return targets.iter().map(write).collect();
        }
        if self.power.goes_within(targets.len() as u64).is_some() {
            for (disk, offset) in targets.iter().rev() {
                // How it ends is told by the durable write below. Where other requests run inside of these writes, they may
                // meet the cut instead.
                let _ = self.write_one(disk, *offset, buf, Durability::Cached);
            }
        }
        self.power.together(|| targets.iter().map(write).collect())
    }

    fn begin(&self, work: Work) -> Result<(), Work> {
        Err(work)
    }
}
