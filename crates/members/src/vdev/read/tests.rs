use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use tally_base::VdevGuid;
use tally_disk::{Disk, Durability, Geometry, Limit, Patience, ThreadFanout};
use tally_fakes::MemDisk;

use super::*;
use crate::vdev::LegState;

/// A disk that answers after so long, or not until it is let go.
struct Slow {
    disk: MemDisk,
    ms: AtomicU64,
    is_stuck: AtomicBool,
}

impl Slow {
    fn new(fill: u8) -> Arc<Self> {
        let disk = MemDisk::new(4 << 20);
        disk.write(LABEL_BYTES, &[fill; 4096], Durability::Cached).unwrap();
        Arc::new(Self { disk, ms: AtomicU64::new(0), is_stuck: AtomicBool::new(false) })
    }
}

impl Disk for Slow {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        thread::sleep(Duration::from_millis(self.ms.load(SeqCst)));
        while self.is_stuck.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        self.disk.read(offset, buf)
    }
    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.disk.write(offset, buf, durability)
    }
    fn flush(&self) -> io::Result<()> {
        self.disk.flush()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

/// Others can stand in for each, so each has helpers.
struct Stood;

impl Patience for Stood {
    fn limit(&self) -> Limit {
        Limit::None
    }
    fn may_leave(&self, _: Duration) -> bool {
        false
    }
    fn has_left(&self) -> bool {
        false
    }
}

fn leg_of(disk: &Arc<Slow>, number: u64) -> Arc<VdevLeg> {
    let disk = Some(Arc::clone(disk) as Arc<dyn Disk>);
    let leg = Arc::new(VdevLeg::new(VdevGuid(number), "disk".into(), disk, LegState::Online));
    leg.patient().unwrap().set_patience(Arc::new(ThreadFanout::default()), Arc::new(Stood));
    leg
}

/// Of three legs one was late, and asked besides to hear whether it is well again, just as the first one began to hang. Nobody was to
/// wait for the late one; and the third was asked only when that had taken far longer than it does anyhow.
#[test]
fn nobody_waits_for_a_leg_that_is_asked_besides() {
    let disks = [Slow::new(1), Slow::new(2), Slow::new(3)];
    let legs: Vec<_> = (0..).zip(&disks).map(|(number, disk)| leg_of(disk, number)).collect();
    disks[1].ms.store(500, SeqCst);
    legs[1].read_data(0, &mut AlignedBuf::zeroed(4096)).unwrap();
    disks[..2].iter().for_each(|disk| disk.is_stuck.store(true, SeqCst));
    let mut asking = Asking::of(legs.clone(), (0, 4096), (None, true));
    let (leg, outcome) = asking.next().unwrap();
    assert!(!is_slow(&legs[1]), "that one is not slow yet, for what it is");
    assert_eq!((leg.guid(), outcome.unwrap()[0]), (VdevGuid(2), 3));
    disks.iter().for_each(|disk| disk.is_stuck.store(false, SeqCst));
    let mut others: Vec<_> = std::iter::from_fn(|| asking.next()).map(|(leg, _)| leg.guid().0).collect();
    others.sort_unstable();
    assert_eq!(others, [0, 1], "each answers once");
}

/// Where nobody else is left it is waited for after all: the other leg may be the one that has the block wrong.
#[test]
fn a_leg_that_was_asked_besides_is_waited_for_where_it_is_the_last_one() {
    let disks = [Slow::new(1), Slow::new(2)];
    let legs: Vec<_> = (0..).zip(&disks).map(|(number, disk)| leg_of(disk, number)).collect();
    disks[1].is_stuck.store(true, SeqCst);
    let mut asking = Asking::of(legs, (0, 4096), (None, true));
    assert_eq!(asking.next().unwrap().0.guid(), VdevGuid(0));
    disks[1].is_stuck.store(false, SeqCst);
    assert_eq!(asking.next().unwrap().0.guid(), VdevGuid(1));
    assert!(asking.next().is_none());
}
