//! The READs at the disks that belong to no stream: streams give way to them.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::Clock;

/// For so long streams give way to a READ. One that a disk keeps for longer needs nothing that they could take from it,
/// and it may be kept for ever, also after the disk has left.
const LONE_MAX: Duration = Duration::from_secs(2);

/// When each of them has come to the disks, of those that are still there: the first one first.
#[derive(Default)]
pub(super) struct AllLone(Mutex<VecDeque<Duration>>);

/// A READ of no stream, as long as it is at the disks.
pub(crate) struct Lone<'a> {
    all: &'a AllLone,
    came_at: Duration,
}

impl AllLone {
    pub(super) fn come(&self, clock: &dyn Clock) -> Lone<'_> {
        let mut all = self.0.lock();
        // Under the lock, so that they stand in order.
        let came_at = clock.monotonic();
        all.push_back(came_at);
        Lone { all: self, came_at }
    }

    /// Those that streams give way to.
    pub(super) fn count(&self, now: Duration) -> usize {
        let all = self.0.lock();
        all.len() - all.partition_point(|came_at| *came_at + LONE_MAX < now)
    }
}

impl Drop for Lone<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        let at = all.partition_point(|other| *other < self.came_at);
        all.remove(at);
    }
}
