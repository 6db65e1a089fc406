use std::sync::Barrier;

use super::*;
use crate::{CountingDisk, Geometry, MemDisk};

fn targets<const N: usize>(disks: [Arc<dyn Disk>; N]) -> Vec<(Arc<dyn Disk>, u64)> {
    disks.into_iter().enumerate().map(|(index, disk)| (disk, index as u64 * 4096)).collect()
}

#[test]
fn every_target_gets_the_bytes_at_its_own_offset() {
    let threads = ThreadFanout::default();
    for (name, fanout) in [("serial", &SerialFanout as &dyn Fanout), ("threads", &threads)] {
        for round in 1..20_u8 {
            let disks: [_; 4] = std::array::from_fn(|_| Arc::new(MemDisk::new(64 << 10)));
            let targets = targets(disks.clone().map(|disk| disk as Arc<dyn Disk>));
            let outcomes = fanout.write(&targets, &[round; 8192], Durability::Durable);
            assert_eq!(outcomes.len(), 4);
            assert!(outcomes.iter().all(Result::is_ok), "{name}");
            for (index, disk) in disks.iter().enumerate() {
                let at = index * 4096;
                assert_eq!(disk.content()[at..at + 8192], [round; 8192], "{name}, target {index}");
            }
        }
    }
    assert!(threads.pool.lock().helper_count <= 3, "helpers are used again");
    assert!(threads.write(&[], &[], Durability::Durable).is_empty());
}

#[test]
fn an_error_stays_with_its_target() {
    for fanout in [&SerialFanout as &dyn Fanout, &ThreadFanout::default()] {
        for bad in 0..3 {
            let disks = std::array::from_fn::<_, 3, _>(|index| {
                Arc::new(MemDisk::new(if index == bad { 4096 } else { 64 << 10 })) as Arc<dyn Disk>
            });
            let targets: Vec<_> = disks.into_iter().map(|disk| (disk, 8192)).collect();
            let failed: Vec<_> =
                fanout.write(&targets, &[1; 4096], Durability::Durable).iter().map(Result::is_err).collect();
            assert_eq!(failed, std::array::from_fn::<_, 3, _>(|index| index == bad));
        }
    }
}

/// Lets a write end only when as many are under way as the barrier waits for; or panics.
struct Gate {
    barrier: Arc<Barrier>,
    panics: bool,
}

impl Disk for Gate {
    fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8], durability: Durability) -> io::Result<()> {
        assert_eq!(durability, Durability::Durable);
        assert!(!self.panics, "this disk panics when it is told to");
        self.barrier.wait();
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn geometry(&self) -> Geometry {
        Geometry { size: 1 << 20, rotational: false, write_through: true }
    }
}

/// The writes of one frame wait for each other here: a fanout that writes one after the other hangs.
#[test]
fn legs_are_written_at_the_same_time() {
    let barrier = Arc::new(Barrier::new(3));
    let gates =
        std::array::from_fn(|_| Arc::new(Gate { barrier: Arc::clone(&barrier), panics: false }) as Arc<dyn Disk>);
    let targets: Vec<_> = targets::<3>(gates);
    let fanout = ThreadFanout::default();
    let outcomes = fanout.write(&targets, &[1; 4096], Durability::Durable);
    assert!(outcomes.iter().all(Result::is_ok));
}

#[test]
fn a_helper_that_panics_is_an_error_and_is_replaced() {
    let fanout = ThreadFanout::default();
    let good = || Arc::new(CountingDisk::new(Arc::new(MemDisk::new(64 << 10))));
    let bad = Arc::new(Gate { barrier: Arc::new(Barrier::new(1)), panics: true });
    let outcomes = fanout.write(&targets([good(), bad, good()]), &[1; 4096], Durability::Durable);
    let failed: Vec<_> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false]);
    let outcomes = fanout.write(&targets([good(), good(), good()]), &[1; 4096], Durability::Durable);
    assert!(outcomes.iter().all(Result::is_ok));
}
