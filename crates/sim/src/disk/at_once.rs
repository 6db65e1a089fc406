//! Writes that are under way together when the power goes.
//!
//! Threads have no place in a world that a seed repeats, so what goes to several disks at once goes to one after the other
//! here, and a cut would find all but one of them whole or not begun. Where a cut is near, each write is first put into its
//! disk's cache: of what is there the cut keeps a part, in any order, and torn. Where every cut is tried, the events say the
//! same ([`Power::together`]). Work is opaque (labels, flushes): of that, every second cut finds the last disk ahead of the
//! others instead of the first.

use std::io;
use std::sync::Arc;

use tally_disk::{Disk, Durability, Fanout, SerialFanout, Work};

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

impl Fanout for AtOnce {
    fn each(&self, mut work: Vec<Work>) -> Vec<io::Result<()>> {
        let cut = self.power.goes_within(WRITES_OF_WORK_MAX * work.len() as u64);
        if cut.is_none_or(|left| left % 2 == 0) {
            return SerialFanout.each(work);
        }
        work.reverse();
        let mut outcomes = SerialFanout.each(work);
        outcomes.reverse();
        outcomes
    }

    fn write_durable(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8]) -> Vec<io::Result<()>> {
        if self.power.goes_within(targets.len() as u64).is_some() {
            for (disk, offset) in targets.iter().rev() {
                // How it ends is told by the durable write below. Where other requests run inside of these writes, they may
                // meet the cut instead.
                let _ = disk.write(*offset, buf, Durability::Cached);
            }
        }
        self.power.together(|| SerialFanout.write_durable(targets, buf))
    }
}
