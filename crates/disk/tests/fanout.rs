//! Writes of the same bytes to several disks.

use std::sync::Arc;

use tally_disk::{Disk, Durability, Fanout, SerialFanout, ThreadFanout};
use tally_fakes::MemDisk;

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
