use std::sync::Barrier;

use super::*;
use crate::Geometry;

fn targets<const N: usize>(disks: [Arc<dyn Disk>; N]) -> Vec<(Arc<dyn Disk>, u64)> {
    disks.into_iter().enumerate().map(|(index, disk)| (disk, index as u64 * 4096)).collect()
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

/// One that waits for nobody.
fn lone(panics: bool) -> Arc<dyn Disk> {
    Arc::new(Gate { barrier: Arc::new(Barrier::new(1)), panics })
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
    let [good, bad] = [false, true].map(|panics| move || lone(panics));
    let outcomes = fanout.write(&targets([good(), bad(), good()]), &[1; 4096], Durability::Durable);
    let failed: Vec<_> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false]);
    let outcomes = fanout.write(&targets([good(), good(), good()]), &[1; 4096], Durability::Durable);
    assert!(outcomes.iter().all(Result::is_ok));
}

#[test]
fn helpers_are_used_again() {
    let fanout = ThreadFanout::default();
    for _ in 0..20 {
        let outcomes = fanout.write(&targets([false; 4].map(lone)), &[1; 4096], Durability::Durable);
        assert!(outcomes.iter().all(Result::is_ok));
    }
    assert!(fanout.pool.lock().helper_count <= 3);
}
