//! Writes that are under way together when the power goes.
//!
//! Threads have no place in a world that a seed repeats, so what goes to several disks at once goes to one after the other
//! here, and a cut would find all but one of them whole or not begun. Where a cut is near, all of them are first put where
//! what was not flushed is: what is cut off is kept in part of each, in any order, and torn. Where every cut is tried, the
//! events say the same. Of work that nobody looks into, labels and flushes, every second cut finds the last disk ahead of the
//! others instead of the first.

use std::io;
use std::sync::Arc;

use tally_disk::{Disk, Durability, Fanout, SerialFanout, Work};

use super::power::Power;

/// Writes of one disk in what goes to several: a label has two copies.
const WRITES_OF_DISK: u64 = 2;

/// Both copies of an uberblock, or the legs of a log, at once.
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
        let cut = self.power.goes_within(WRITES_OF_DISK * work.len() as u64);
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
                // What becomes of it is told below: by then the power is gone, but for what the clients of a hook took.
                let _ = disk.write(*offset, buf, Durability::Cached);
            }
        }
        self.power.together(|| SerialFanout.write_durable(targets, buf))
    }
}
