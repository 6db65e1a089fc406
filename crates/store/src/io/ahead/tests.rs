//! Who comes for a node while somebody else reads it. Whoever serves many is told when its thread waits
//! ([`tally_base::Seat`]): right then the other one comes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Instant;

use tally_base::{Seat, Txg, seat_this_thread};
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::numbered;

use super::*;
use crate::alloc::Allocator;
use crate::bp::Compression;

/// Does this when its thread waits for the first time.
struct Once(RefCell<Option<Box<dyn FnOnce()>>>);

impl Seat for Once {
    fn sits_down(&self) {
        let act = self.0.borrow_mut().take();
        act.into_iter().for_each(|act| act());
    }

    fn stands_up(&self) {}
}

fn when_it_waits(act: impl FnOnce() + 'static) {
    seat_this_thread(Rc::new(Once(RefCell::new(Some(Box::new(act))))));
}

/// A block that is on its device alone.
fn cold(kind: BlockKind) -> (Arc<MemBlockDev>, Arc<BlockIo>, BlockPtr) {
    let mem = Arc::new(MemBlockDev::new(16 << 20));
    let devs = numbered([mem.clone() as _]);
    let io = BlockIo::new(devs.clone(), Arc::new(Allocator::create(&devs, &[])), 1 << 20, Helpers::Threads);
    let mut out = io.writer(Txg(1));
    let bp = out.put(kind, &[7; 5000], Compression::Off).expect("there is space");
    out.finish().expect("memory takes it");
    io.drop_cache();
    (mem, io, bp)
}

fn read(io: &BlockIo, bp: &BlockPtr) {
    assert_eq!(io.read_checked(bp, bp.kind, |_| Ok(())).expect("it was written"), vec![7; 5000]);
}

/// Sixteen readers who began in a cold tree each read its root, one after the other on a disk with no queue.
#[test]
fn a_node_that_somebody_reads_is_not_read_again() {
    for kind in [BlockKind::TreeNode, BlockKind::Leaf] {
        let (mem, io, bp) = cold(kind);
        let (other_io, (waits, comes)) = (Arc::clone(&io), channel());
        let (done, is_done) = channel();
        when_it_waits(move || {
            std::thread::spawn(move || {
                when_it_waits(move || waits.send(()).expect("somebody listens"));
                read(&other_io, &bp);
                done.send(()).expect("somebody listens");
            });
            comes.recv().expect("it waits, for whoever it may be");
        });
        read(&io, &bp);
        is_done.recv().expect("it has read");
        assert_eq!(mem.read_count(), 1, "{kind:?}");
        assert!(io.flights.is_empty(), "nobody is at it any more");
    }
}

/// An operation that came while another waited for the device, on the same thread, waited for itself.
#[test]
fn nobody_waits_for_his_own_thread() {
    let (mem, io, bp) = cold(BlockKind::Leaf);
    let other = Arc::clone(&io);
    let begun = Instant::now();
    when_it_waits(move || read(&other, &bp));
    read(&io, &bp);
    assert!(begun.elapsed() < JOIN_MAX, "{:?}", begun.elapsed());
    assert_eq!(mem.read_count(), 2);
    // Nor for a flight that it carries out itself.
    let (_, io, bp) = cold(BlockKind::Data);
    let flights = io.plan_ahead(&[ToFetch { bp, is_asked_for: false }]);
    let other = Arc::clone(&io);
    let begun = Instant::now();
    when_it_waits(move || read(&other, &bp));
    flights.iter().for_each(|flight| io.fetch(flight));
    assert!(flights.len() == 1 && begun.elapsed() < JOIN_MAX, "{:?}", begun.elapsed());
}

/// Who joins somebody who fails reads for himself, and hears of it.
#[test]
fn a_node_that_cannot_be_read_is_an_error_for_each() {
    let (mem, io, bp) = cold(BlockKind::Leaf);
    mem.rot(bp.dva.offset, 1);
    let (other_io, (waits, comes), (done, is_done)) = (Arc::clone(&io), channel(), channel());
    when_it_waits(move || {
        std::thread::spawn(move || {
            when_it_waits(move || waits.send(()).expect("somebody listens"));
            done.send(other_io.read_checked(&bp, bp.kind, |_| Ok(())).is_err()).expect("somebody listens");
        });
        comes.recv().expect("it waits");
    });
    assert!(io.read_checked(&bp, bp.kind, |_| Ok(())).is_err());
    assert_eq!(is_done.recv(), Ok(true));
    assert!(io.flights.is_empty());
}

/// A disk that neither answers nor refuses keeps whoever has asked it, and nobody else.
#[test]
fn who_waits_for_somebody_at_a_disk_that_hangs_reads_for_himself() {
    let (mem, io, bp) = cold(BlockKind::TreeNode);
    let (other_io, (done, is_done)) = (Arc::clone(&io), channel());
    let begun = Instant::now();
    when_it_waits(move || {
        std::thread::spawn(move || {
            read(&other_io, &bp);
            done.send(()).expect("somebody listens");
        });
        is_done.recv_timeout(15 * JOIN_MAX).expect("it waits no longer");
    });
    read(&io, &bp);
    assert!(begun.elapsed() >= JOIN_MAX, "it has waited");
    assert_eq!(mem.read_count(), 2);
    assert!(io.flights.is_empty());
}
