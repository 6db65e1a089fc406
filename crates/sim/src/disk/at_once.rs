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
        Power::ask(work.patience(), disk.as_ref(), || work.run())
    }

    fn write_one(&self, disk: &Arc<dyn Disk>, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        let Some((below, patience)) = disk.patient() else { return disk.write(offset, buf, durability) };
        let patience = Some(patience).filter(|patience| patience.limit().has_owner());
        Power::ask(patience, Some(&below), || below.write(offset, buf, durability))
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tally_disk::{Limit, Patience};
    use tally_fakes::MemDisk;

    use super::*;

    /// Whoever asks may leave after a second.
    struct ASecond;

    impl Patience for ASecond {
        fn limit(&self) -> Limit {
            Limit::After(Duration::from_secs(1))
        }

        fn may_leave(&self, _: Duration) -> bool {
            true
        }

        fn has_left(&self) -> bool {
            false
        }
    }

    /// A pool reads and writes blocks in several threads. With one note of the request under way for all of them, two that
    /// crossed left the first one's disk in it: a leg that was taken out of use and wanted back was "in use" for ever.
    #[test]
    fn requests_that_cross_leave_no_disk_open() {
        let fanout = &AtOnce::new(&Arc::default());
        let (one, other): (Arc<dyn Disk>, Arc<dyn Disk>) =
            (Arc::new(MemDisk::new(1 << 20)), Arc::new(MemDisk::new(1 << 20)));
        let ((first_is_in, wait_for_first), (second_is_in, wait_for_second)) = (mpsc::channel(), mpsc::channel());
        let (first_is_out, wait_until_first_is_out) = mpsc::channel();
        let first = Work::on(&one, Arc::new(ASecond), move |_| {
            first_is_in.send(()).expect("the second waits");
            wait_for_second.recv().map_err(io::Error::other)
        });
        let second = Work::on(&other, Arc::new(ASecond), move |_| {
            second_is_in.send(()).expect("the first waits");
            wait_until_first_is_out.recv().map_err(io::Error::other)
        });
        std::thread::scope(|scope| {
            scope.spawn(move || {
                wait_for_first.recv().expect("the first comes");
                fanout.run(second).expect("nothing is wrong with it");
            });
            fanout.run(first).expect("nothing is wrong with it");
            first_is_out.send(()).expect("the second is in still");
        });
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&other)), (1, 1), "somebody has a disk open still");
    }
}
