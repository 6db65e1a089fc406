//! Mirrors over disks that rot and fail, with a membership that records when a leg is struck off.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::{SystemClock, Time};
use tally_disk::{Geometry, SerialFanout};
use tally_fakes::{FaultyDisk, Journal, MemDisk};

use super::*;
use crate::label::tests::sample;

const LEG_BYTES: u64 = 4 << 20;

/// Strikes off whoever it is told to, if it can.
#[derive(Default)]
struct Members {
    struck_off: Mutex<Vec<VdevGuid>>,
    cannot: AtomicBool,
    read_only: AtomicBool,
    hurry: AtomicBool,
    visited: Arc<Visited>,
}

/// Time that goes by while a walk waits, and a little with each look; while it waits a client reads from these legs.
#[derive(Default)]
struct Visited {
    ms: AtomicU64,
    sleeps: AtomicU64,
    legs: Mutex<Vec<Arc<VdevLeg>>>,
}

impl Clock for Visited {
    fn now(&self) -> Time {
        Time(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.ms.fetch_add(1, Ordering::SeqCst))
    }

    fn sleep(&self, time: Duration) {
        self.ms.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        for leg in self.legs.lock().iter() {
            leg.read_data(0, &mut AlignedBuf::zeroed(SECTOR)).unwrap();
        }
    }
}

impl Membership for Members {
    fn leg_failed(&self, leg: VdevGuid, _: &io::Error) -> Result<(), String> {
        if self.cannot.load(Ordering::SeqCst) {
            return Err("no label took it".into());
        }
        let mut struck_off = self.struck_off.lock();
        if !struck_off.contains(&leg) {
            struck_off.push(leg);
        }
        Ok(())
    }

    fn fanout(&self) -> Arc<dyn Fanout> {
        Arc::new(SerialFanout)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.visited) as Arc<dyn Clock>
    }

    fn hang_limit(&self) -> HangLimit {
        HangLimit::Auto
    }

    fn may_leave(&self, _: &VdevLeg) -> bool {
        true
    }

    fn may_write(&self) -> bool {
        !self.read_only.load(Ordering::SeqCst)
    }

    fn walks_hurry(&self) -> bool {
        self.hurry.load(Ordering::SeqCst)
    }
}

struct Mirror {
    vdev: Vdev,
    disks: Vec<Arc<FaultyDisk>>,
    members: Arc<Members>,
}

fn mirror(leg_count: usize) -> Mirror {
    let journal = Journal::default();
    let names = ["a", "b", "c"];
    let disks: Vec<_> = names.iter().take(leg_count).map(|name| FaultyDisk::new(name, LEG_BYTES, &journal)).collect();
    let leg = |(index, disk): (usize, &Arc<FaultyDisk>)| {
        let disk = Arc::clone(disk) as Arc<dyn Disk>;
        Arc::new(VdevLeg::new(VdevGuid(index as u64), names[index].into(), Some(disk), LegState::Online))
    };
    let config = VdevConfig { data_bytes: LEG_BYTES - 2 * LABEL_BYTES, ..sample().vdevs[0].clone() };
    let vdev = Vdev::new(&config, disks.iter().enumerate().map(leg).collect());
    let members = Arc::new(Members::default());
    vdev.set_membership(Arc::downgrade(&members) as std::sync::Weak<dyn Membership>);
    Mirror { vdev, disks, members }
}

/// A block that knows itself.
fn block(seed: u8) -> Vec<u8> {
    vec![seed; 8192]
}

/// All of the data area, as if everything were in use.
fn whole(vdev: &Vdev) -> impl Iterator<Item = std::ops::Range<u64>> {
    std::iter::once(0..vdev.data_bytes())
}

fn is_block(seed: u8) -> impl Fn(&[u8]) -> bool {
    move |bytes| bytes == block(seed)
}

#[test]
fn what_is_written_is_on_every_leg_behind_the_label() {
    let mirror = mirror(3);
    let large = vec![5; 256 << 10];
    mirror.vdev.write(0, &block(1)).unwrap();
    mirror.vdev.write(1 << 20, &large).unwrap();
    mirror.vdev.flush().unwrap();
    for disk in &mirror.disks {
        assert_eq!(disk.bytes(LABEL_BYTES, 8192), block(1));
        assert_eq!(disk.bytes(LABEL_BYTES + (1 << 20), large.len()), large);
    }
    assert_eq!(*mirror.vdev.read(0, 8192, &is_block(1)).unwrap(), block(1));
}

#[test]
fn ranges_outside_the_data_area_are_refused() {
    let mirror = mirror(2);
    let end = mirror.vdev.data_bytes();
    for offset in [end, end - 4096, u64::MAX / 4096 * 4096] {
        let out_of_range = |outcome| matches!(outcome, Err(BlockDevError::OutOfRange { .. }));
        assert!(out_of_range(mirror.vdev.write(offset, &block(1))), "{offset}");
        assert!(out_of_range(mirror.vdev.read(offset, 8192, &|_| true).map(|_| ())), "{offset}");
        assert!(out_of_range(mirror.vdev.discard(offset, 8192)), "{offset}");
    }
}

/// Lets a client's clock go by with each read.
struct Taking {
    disk: MemDisk,
    clock: Arc<Visited>,
    ms: AtomicU64,
    reads: AtomicU64,
}

impl Disk for Taking {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.clock.ms.fetch_add(self.ms.load(Ordering::SeqCst), Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
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

/// A disk about to die answered each read, in 200 ms, and its sibling in one. It hung for nobody and failed nothing, and had half of
/// the reads: what is read around it is what a client waits for.
#[test]
fn a_slow_leg_is_read_around_until_it_is_well_again() {
    let members = Arc::new(Members::default());
    let taking = |ms| {
        let (disk, clock) = (MemDisk::new(LEG_BYTES), Arc::clone(&members.visited));
        Arc::new(Taking { disk, clock, ms: AtomicU64::new(ms), reads: AtomicU64::new(0) })
    };
    let disks = [taking(200), taking(1)];
    let leg = |(index, disk): (usize, &Arc<Taking>)| {
        let disk = Arc::clone(disk) as Arc<dyn Disk>;
        Arc::new(VdevLeg::new(VdevGuid(index as u64), "disk".into(), Some(disk), LegState::Online))
    };
    let config = VdevConfig { data_bytes: LEG_BYTES - 2 * LABEL_BYTES, ..sample().vdevs[0].clone() };
    let vdev = Vdev::new(&config, disks.iter().enumerate().map(leg).collect());
    vdev.set_membership(Arc::downgrade(&members) as std::sync::Weak<dyn Membership>);
    let reads_of_first = |count: u64, is_ahead: bool| {
        let before = disks[0].reads.load(Ordering::SeqCst);
        for number in 0..count {
            let offset = number % 2 * READ_STRIPE_BYTES;
            if is_ahead {
                assert!(vdev.read_ahead(offset, &mut [AlignedBuf::zeroed(4096)]));
            } else {
                vdev.read(offset, 4096, &|_| true).unwrap();
            }
        }
        disks[0].reads.load(Ordering::SeqCst) - before
    };
    let slow = reads_of_first(400, false);
    assert!((1..=20).contains(&slow), "{slow} of 400 reads are the slow one's");
    assert_eq!(reads_of_first(100, true), 0, "what nobody needs yet is no reason to wait either");
    let late = vdev.lateness(VdevGuid(0)).expect("it is told of");
    assert!(late.takes > Duration::from_millis(50) && late.quickest < Duration::from_millis(10), "{late:?}");
    assert_eq!(vdev.lateness(VdevGuid(1)), None);

    disks[0].ms.store(1, Ordering::SeqCst);
    reads_of_first(4000, false);
    assert_eq!(vdev.lateness(VdevGuid(0)), None, "probes have found it well");
    assert_eq!(reads_of_first(400, false), 200);
}

/// Which legs hold rot or cannot be read at a block; then every offset's turn must give the right bytes.
#[test]
fn reads_find_the_good_leg_and_repair_the_others() {
    let turns = [0, READ_STRIPE_BYTES, 2 * READ_STRIPE_BYTES];
    for offset in turns {
        for rotten in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2]] {
            let mirror = mirror(3);
            mirror.vdev.write(offset, &block(7)).unwrap();
            for index in rotten {
                mirror.disks[*index].rot(LABEL_BYTES + offset + 4096);
            }
            // Whose turn it is decides how many bad legs a read meets; reading all turns of the stripe meets all.
            let read = mirror.vdev.read(offset, 8192, &is_block(7)).unwrap();
            assert_eq!(*read, block(7), "{rotten:?} at {offset}");
            let found: u64 = mirror.vdev.legs().iter().map(|leg| leg.errors().checksum).sum();
            for (index, leg) in mirror.vdev.legs().iter().enumerate() {
                if leg.errors().checksum > 0 {
                    assert_eq!(mirror.disks[index].bytes(LABEL_BYTES + offset, 8192), block(7), "repaired");
                    assert!(rotten.contains(&index));
                }
            }
            assert!(found <= rotten.len() as u64);
            assert!(mirror.members.struck_off.lock().is_empty(), "rot alone costs no leg its place");
        }
    }
}

#[test]
fn a_leg_whose_turn_it_is_and_that_is_bad_is_repaired() {
    let mirror = mirror(2);
    mirror.vdev.write(0, &block(7)).unwrap();
    mirror.disks[0].rot(LABEL_BYTES);
    mirror.vdev.read(0, 8192, &is_block(7)).unwrap();
    assert_eq!(mirror.disks[0].bytes(LABEL_BYTES, 8192), block(7));
    assert_eq!(mirror.vdev.legs()[0].errors(), LegErrors { checksum: 1, repaired: 1, ..LegErrors::default() });
}

#[test]
fn a_leg_that_cannot_be_read_is_written_again() {
    let mirror = mirror(2);
    mirror.vdev.write(0, &block(7)).unwrap();
    FaultyDisk::set(&mirror.disks[0].reads_fail, true);
    mirror.disks[0].rot(LABEL_BYTES);
    assert_eq!(*mirror.vdev.read(0, 8192, &is_block(7)).unwrap(), block(7));
    assert_eq!(mirror.vdev.legs()[0].errors(), LegErrors { read: 1, repaired: 1, ..LegErrors::default() });
    assert_eq!(mirror.disks[0].bytes(LABEL_BYTES, 8192), block(7), "a drive maps a bad sector elsewhere on a write");
}

#[test]
fn without_a_good_leg_a_read_says_so() {
    let mirror = mirror(2);
    mirror.vdev.write(0, &block(7)).unwrap();
    mirror.disks[0].rot(LABEL_BYTES);
    mirror.disks[1].rot(LABEL_BYTES + 4096);
    assert!(matches!(mirror.vdev.read(0, 8192, &is_block(7)), Err(BlockDevError::NoGoodCopy)));
    FaultyDisk::set(&mirror.disks[1].reads_fail, true);
    assert!(matches!(mirror.vdev.read(0, 8192, &is_block(7)), Err(BlockDevError::Io(_))));
    for leg in mirror.vdev.legs() {
        leg.set_state(LegState::Stale);
    }
    let error = mirror.vdev.read(0, 8192, &is_block(7)).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no usable leg"), "{error}");
}

#[test]
fn a_pool_that_may_not_be_written_is_not_repaired_either() {
    let mirror = mirror(2);
    mirror.vdev.write(0, &block(7)).unwrap();
    mirror.disks[0].rot(LABEL_BYTES);
    FaultyDisk::set(&mirror.members.read_only, true);
    assert_eq!(*mirror.vdev.read(0, 8192, &is_block(7)).unwrap(), block(7));
    assert_ne!(mirror.disks[0].bytes(LABEL_BYTES, 8192), block(7));
    assert!(mirror.vdev.write(0, &block(8)).is_err());
    assert!(mirror.vdev.flush().is_err());
}

/// A write or flush that one leg refuses: success only once that leg is struck off, else an error.
#[test]
fn a_failing_leg_is_struck_off_before_success() {
    for (what, large) in [("write", false), ("write", true), ("flush", false)] {
        for can_strike_off in [true, false] {
            let mirror = mirror(2);
            let content = vec![1; if large { 256 << 10 } else { 4096 }];
            let switch = if what == "write" { &mirror.disks[1].writes_fail } else { &mirror.disks[1].flushes_fail };
            FaultyDisk::set(switch, true);
            FaultyDisk::set(&mirror.members.cannot, !can_strike_off);
            let outcome = mirror.vdev.write(0, &content).and_then(|()| mirror.vdev.flush());
            assert_eq!(outcome.is_ok(), can_strike_off, "{what}: {outcome:?}");
            let state = mirror.vdev.legs()[1].state();
            assert_eq!(state, if can_strike_off { LegState::Faulted } else { LegState::Failing }, "{what}");
            assert_eq!(mirror.vdev.legs()[1].errors().write, 1);
            // And so it stays: the next write waits for the strike, too.
            assert_eq!(mirror.vdev.write(0, &content).is_ok(), can_strike_off, "{what}, the next write");
            assert_eq!(mirror.members.struck_off.lock().len(), usize::from(can_strike_off));
        }
    }
}

#[test]
fn the_last_leg_is_not_struck_off() {
    let mirror = mirror(2);
    FaultyDisk::set(&mirror.disks[0].writes_fail, true);
    FaultyDisk::set(&mirror.disks[1].writes_fail, true);
    let error = mirror.vdev.write(0, &block(1)).unwrap_err();
    assert!(error.to_string().contains("fails on request"), "{error}");
    assert!(mirror.members.struck_off.lock().is_empty());
}

#[test]
fn flushes_go_only_to_legs_that_were_written() {
    let mirror = mirror(2);
    let flushes = || mirror.vdev.legs().iter().map(|leg| leg.counts().flushes).collect::<Vec<_>>();
    mirror.vdev.flush().unwrap();
    assert_eq!(flushes(), [0, 0]);
    mirror.vdev.write(0, &block(1)).unwrap();
    mirror.vdev.flush().unwrap();
    mirror.vdev.flush().unwrap();
    assert_eq!(flushes(), [1, 1]);
}

#[test]
fn neighbouring_reads_share_a_leg_and_distant_ones_do_not() {
    let mirror = mirror(2);
    for offset in [0, 4096, READ_STRIPE_BYTES - 4096, READ_STRIPE_BYTES, READ_STRIPE_BYTES + 4096] {
        mirror.vdev.read(offset, 4096, &|_| true).unwrap();
    }
    let reads: Vec<_> = mirror.vdev.legs().iter().map(|leg| leg.counts().reads).collect();
    assert_eq!(reads, [3, 2]);
}

#[test]
fn a_copied_leg_has_everything_and_writes_of_meanwhile() {
    let mirror = mirror(3);
    let data_bytes = mirror.vdev.data_bytes();
    mirror.vdev.legs()[2].set_state(LegState::Stale);
    for at in (0..data_bytes).step_by(1 << 19) {
        mirror.vdev.write(at, &block((at >> 19) as u8 + 1)).unwrap();
    }
    mirror.vdev.legs()[2].set_state(LegState::Resilvering);
    let report = mirror.vdev.resilver(VdevGuid(2), &mut whole(&mirror.vdev), &mut |done| {
        // Behind the copy and in front of it.
        mirror.vdev.write(0, &block(200)).unwrap();
        if done < data_bytes {
            mirror.vdev.write(data_bytes - 8192, &block(201)).unwrap();
        }
        true
    });
    assert_eq!(report.unwrap(), ResilverReport { copied_bytes: data_bytes, ..ResilverReport::default() });
    let area = |disk: &FaultyDisk| disk.bytes(LABEL_BYTES, data_bytes as usize);
    assert_eq!(area(&mirror.disks[2]), area(&mirror.disks[0]));
    assert_eq!(mirror.disks[2].bytes(LABEL_BYTES, 8192), block(200));
    assert_eq!(mirror.vdev.legs()[2].state(), LegState::Resilvering, "the roster says when it counts");
}

/// A range is read with nobody kept out, and may be written long after it was read: what somebody writes in between
/// must not be undone on the new leg, wherever it lies, and whoever it is.
#[test]
fn what_is_written_between_the_read_of_a_range_and_its_write_stays() {
    const LENGTH: usize = 128 << 10;
    for (at, is_repair) in [(0, false), (64 << 10, false), (LENGTH as u64 - 8192, false), (64 << 10, true)] {
        let mirror = mirror(3);
        let offset = 1 << 20;
        mirror.vdev.write(offset, &vec![7; LENGTH]).unwrap();
        let leg = &mirror.vdev.legs()[2];
        leg.set_state(LegState::Resilvering);
        mirror.disks[2].write(LABEL_BYTES + offset, &vec![9; LENGTH], Durability::Cached).unwrap();
        // Whoever repairs writes as well; here what the leg gets that is asked second.
        let between = |_: &[u8]| {
            match is_repair {
                true => drop(mirror.vdev.restore(offset + at, &AlignedBuf::copy_of(&block(8)), &[leg.guid()]).unwrap()),
                false => mirror.vdev.write(offset + at, &block(8)).unwrap(),
            }
            true
        };
        assert!(!mirror.vdev.bring(leg.guid(), offset, LENGTH, &between).unwrap(), "it says so");
        assert_eq!(mirror.disks[2].bytes(LABEL_BYTES + offset + at, 8192), block(8), "at {at}");
        // Nobody is in the way of the next one, and a write elsewhere is in nobody's.
        let elsewhere = |_: &[u8]| {
            mirror.vdev.write(offset - 8192, &block(3)).is_ok()
                && mirror.vdev.write(offset + LENGTH as u64, &block(3)).is_ok()
        };
        assert!(mirror.vdev.bring(leg.guid(), offset, LENGTH, &elsewhere).unwrap());
        let copy = |disk: usize| mirror.disks[disk].bytes(LABEL_BYTES + offset, LENGTH);
        assert!(is_repair || copy(2) == copy(0));
    }
}

/// What is brought is right: where the leg that is asked has rotted, or cannot be read, nothing is.
#[test]
fn nothing_is_brought_that_is_not_right() {
    let mirror = mirror(2);
    let leg = &mirror.vdev.legs()[1];
    mirror.vdev.write(0, &block(1)).unwrap();
    leg.set_state(LegState::Resilvering);
    mirror.disks[1].write(LABEL_BYTES, &block(9), Durability::Cached).unwrap();
    let bring = || mirror.vdev.bring(leg.guid(), 0, 8192, &is_block(1)).unwrap();
    mirror.disks[0].rot(LABEL_BYTES);
    assert!(!bring());
    assert_eq!(mirror.disks[1].bytes(LABEL_BYTES, 8192), block(9));
    mirror.disks[0].write(LABEL_BYTES, &block(1), Durability::Cached).unwrap();
    assert!(bring());
    assert_eq!(mirror.disks[1].bytes(LABEL_BYTES, 8192), block(1));
    mirror.disks[0].make_bad(LABEL_BYTES);
    assert!(!bring());
    leg.set_state(LegState::Online);
    assert!(!mirror.vdev.bring(leg.guid(), 0, 8192, &|_| true).unwrap(), "it joins no more");
}

/// A leg that refuses what it is brought is struck off, and whoever brings it hears why.
#[test]
fn a_leg_that_refuses_what_it_is_brought_is_struck_off() {
    let mirror = mirror(2);
    mirror.vdev.legs()[1].set_state(LegState::Resilvering);
    FaultyDisk::set(&mirror.disks[1].writes_fail, true);
    mirror.vdev.bring(VdevGuid(1), 0, 8192, &|_| true).unwrap_err();
    assert_eq!(*mirror.members.struck_off.lock(), [VdevGuid(1)]);
}

/// All of a disk was copied, however little was in use. Holes are read along where they are short, and never written.
#[test]
fn only_what_is_in_use_is_copied() {
    const KIB: u64 = 1 << 10;
    let mirror = mirror(2);
    let data_bytes = mirror.vdev.data_bytes();
    let content: Vec<u8> = (0..data_bytes).map(|at| (at / 4096 % 251) as u8 + 1).collect();
    mirror.vdev.write(0, &content).unwrap();
    mirror.disks[1].write(LABEL_BYTES, &vec![0; content.len()], Durability::Cached).unwrap();
    mirror.vdev.legs()[1].set_state(LegState::Resilvering);
    let (start, end) = (512 * KIB, data_bytes);
    let short = (0..40).map(|number| start + number * 8 * KIB..start + number * 8 * KIB + 4 * KIB);
    let occupied: Vec<_> = [0..4 * KIB, 68 * KIB..72 * KIB, 140 * KIB..144 * KIB]
        .into_iter()
        .chain(short)
        .chain([1024 * KIB..2324 * KIB, end - 4 * KIB..end])
        .collect();
    let bytes: u64 = occupied.iter().map(|range| range.end - range.start).sum();
    let counts = || mirror.vdev.legs().iter().map(|leg| leg.counts()).collect::<Vec<_>>();
    let (before, mut told) = (counts(), Vec::new());
    let report = mirror.vdev.resilver(VdevGuid(1), &mut occupied.clone().into_iter(), &mut |done| {
        told.push(done);
        true
    });
    assert_eq!(report.unwrap(), ResilverReport { copied_bytes: bytes, ..ResilverReport::default() });
    let after = counts();
    assert_eq!(after[1].write_bytes - before[1].write_bytes, bytes, "nothing else is written");
    // Two beside a hole of 64 KiB and one behind a longer one; sixteen at most; a mebibyte at most.
    assert_eq!(told.len(), 2 + 3 + 2 + 1, "{told:?}");
    assert_eq!((after[0].reads - before[0].reads, told.last()), (told.len() as u64, Some(&bytes)));
    let copy = mirror.disks[1].bytes(LABEL_BYTES, content.len());
    for (at, (found, right)) in (0..).step_by(4096).zip(copy.chunks(4096).zip(content.chunks(4096))) {
        let is_copied = occupied.iter().any(|range| range.contains(&at));
        assert!(if is_copied { found == right } else { found == [0; 4096] }, "at {at}");
    }
}

/// The copy went in steps of 1 MiB, and skipped a whole one where one sector of it could not be read: 255 good sectors
/// were dropped beside each bad one, and the copy was a success.
#[test]
fn a_bad_sector_costs_itself_and_no_neighbour() {
    let mirror = mirror(2);
    let data_bytes = mirror.vdev.data_bytes();
    let content: Vec<u8> = (0..data_bytes).map(|at| (at / 4096 % 251) as u8 + 1).collect();
    mirror.vdev.write(0, &content).unwrap();
    let bad = [0, 20, 21, 511, data_bytes / 4096 - 1].map(|sector| sector * 4096);
    bad.iter().for_each(|offset| mirror.disks[0].make_bad(LABEL_BYTES + offset));
    mirror.disks[1].write(LABEL_BYTES, &vec![0; content.len()], Durability::Cached).unwrap();
    mirror.vdev.legs()[1].set_state(LegState::Resilvering);
    let report = mirror.vdev.resilver(VdevGuid(1), &mut whole(&mirror.vdev), &mut |_| true).unwrap();
    assert_eq!(report.unreadable_bytes, 5 * 4096);
    assert_eq!(report.copied_bytes, data_bytes - 5 * 4096);
    let last = data_bytes - 4096;
    assert_eq!(report.unread, [0..4096, 20 * 4096..22 * 4096, 511 * 4096..512 * 4096, last..data_bytes]);
    let copy = mirror.disks[1].bytes(LABEL_BYTES, content.len());
    for (sector, (found, expected)) in copy.chunks(4096).zip(content.chunks(4096)).enumerate() {
        let is_bad = bad.contains(&(sector as u64 * 4096));
        assert_eq!(found == expected, !is_bad, "sector {sector}");
    }
}

/// Each of two legs had bad sectors, in the same step and at other places. No leg could read the whole step, and it was
/// skipped, although each sector of it could be had from one of them.
#[test]
fn bad_sectors_at_different_places_of_two_legs_cost_nothing() {
    let mirror = mirror(3);
    let data_bytes = mirror.vdev.data_bytes();
    let content: Vec<u8> = (0..data_bytes).map(|at| (at / 4096 % 251) as u8 + 1).collect();
    mirror.vdev.write(0, &content).unwrap();
    [3, 4, 300].iter().for_each(|sector| mirror.disks[0].make_bad(LABEL_BYTES + sector * 4096));
    [5, 6, 301].iter().for_each(|sector| mirror.disks[1].make_bad(LABEL_BYTES + sector * 4096));
    mirror.disks[2].write(LABEL_BYTES, &vec![0; content.len()], Durability::Cached).unwrap();
    mirror.vdev.legs()[2].set_state(LegState::Resilvering);
    let report = mirror.vdev.resilver(VdevGuid(2), &mut whole(&mirror.vdev), &mut |_| true).unwrap();
    assert_eq!((report.copied_bytes, report.unreadable_bytes), (data_bytes, 0));
    assert!(mirror.disks[2].bytes(LABEL_BYTES, content.len()) == content);
}

/// A group's flush took the mark of what is dirty before it asked the disk. A copy that ended meanwhile found its leg
/// clean, and was believed before its last writes were durable: the group's flush might still fail.
#[test]
fn a_copy_flushes_its_leg_whoever_else_does() {
    let mirror = mirror(2);
    mirror.vdev.legs()[1].set_state(LegState::Resilvering);
    let flushes = || mirror.disks[1].flush_count.load(Ordering::SeqCst);
    let mut at_the_end = 0;
    let report = mirror.vdev.resilver(VdevGuid(1), &mut whole(&mirror.vdev), &mut |done| {
        if done == mirror.vdev.data_bytes() {
            mirror.vdev.flush().unwrap();
            at_the_end = flushes();
        }
        true
    });
    assert!(report.is_ok());
    assert_eq!(flushes(), at_the_end + 1);
}

#[test]
fn a_leg_that_fails_while_it_is_copied_is_struck_off() {
    let mirror = mirror(2);
    mirror.vdev.legs()[1].set_state(LegState::Resilvering);
    FaultyDisk::set(&mirror.disks[1].writes_fail, true);
    assert!(mirror.vdev.resilver(VdevGuid(1), &mut whole(&mirror.vdev), &mut |_| true).is_err());
    assert_eq!(*mirror.members.struck_off.lock(), [VdevGuid(1)]);
    assert!(
        mirror.vdev.resilver(VdevGuid(1), &mut whole(&mirror.vdev), &mut |_| true).is_err(),
        "it is no longer being copied"
    );
    assert!(mirror.vdev.resilver(VdevGuid(9), &mut whole(&mirror.vdev), &mut |_| true).is_err(), "an unknown leg");
}

/// A leg was struck off for one refused write; the other has rotted since, elsewhere. A new disk takes the first one's place.
#[test]
fn what_only_a_leg_that_was_struck_off_has_right_is_taken_from_it() {
    let mirror = mirror(3);
    let legs = mirror.vdev.legs();
    mirror.vdev.write(0, &block(1)).unwrap();
    legs[0].set_state(LegState::Faulted);
    mirror.disks[1].rot(LABEL_BYTES);
    mirror.disks[2].rot(LABEL_BYTES);
    legs[2].set_state(LegState::Resilvering);
    mirror.vdev.resilver(legs[2].guid(), &mut whole(&mirror.vdev), &mut |_| true).unwrap();
    let secured = mirror.vdev.secure(0, 8192, &is_block(1), &[legs[2].guid()]).unwrap();
    assert_eq!(mirror.disks[0].bytes(LABEL_BYTES, 8192), block(1), "the old disk has it right");
    assert_eq!(secured, Secured::Repaired, "and may leave now");
}

/// The leg that was to stay refused what only the one that was to leave had right, and stayed, as it is the last that counts: the
/// block was called lost for good, and the other one left with it.
#[test]
fn what_the_last_leg_refuses_keeps_the_one_that_has_it() {
    let mirror = mirror(2);
    let legs = mirror.vdev.legs();
    mirror.vdev.write(0, &block(1)).unwrap();
    legs[1].set_state(LegState::Faulted);
    mirror.disks[0].rot(LABEL_BYTES);
    FaultyDisk::set(&mirror.disks[0].writes_fail, true);
    let secure = || mirror.vdev.secure(0, 8192, &is_block(1), &[legs[0].guid()]).unwrap();
    assert_eq!(secure(), Secured::Lost { unread: true });
    FaultyDisk::set(&mirror.disks[0].writes_fail, false);
    assert_eq!((secure(), secure()), (Secured::Repaired, Secured::Sound));
}

/// The same leg read from then on what it had refused; the next look called that sound, and the other one left.
#[test]
fn what_the_last_leg_refused_is_not_sound_as_it_can_be_read() {
    let mirror = mirror(2);
    let legs = mirror.vdev.legs();
    mirror.vdev.write(0, &block(1)).unwrap();
    legs[1].set_state(LegState::Faulted);
    mirror.disks[0].rot(LABEL_BYTES);
    FaultyDisk::set(&mirror.disks[0].writes_fail, true);
    FaultyDisk::set(&mirror.disks[0].refused_is_read, true);
    let secure = || mirror.vdev.secure(0, 8192, &is_block(1), &[legs[0].guid()]).unwrap();
    assert_eq!(secure(), Secured::Lost { unread: true });
    assert_eq!(mirror.disks[0].bytes(LABEL_BYTES, 8192), block(1), "it is read");
    assert!(!mirror.vdev.leg_has(legs[0].guid(), 0, 8192, &is_block(1)));
    assert_eq!(secure(), Secured::Lost { unread: true });
    FaultyDisk::set(&mirror.disks[0].writes_fail, false);
    assert_eq!((secure(), secure()), (Secured::Repaired, Secured::Sound));
    mirror.disks[0].lose_refused();
    assert_eq!(mirror.disks[0].bytes(LABEL_BYTES, 8192), block(1));
}

/// And where the other one is gone, it is given what is read there: nobody else has it.
#[test]
fn what_the_last_leg_refused_it_is_given_again_out_of_what_it_reads() {
    let mirror = mirror(2);
    let legs = mirror.vdev.legs();
    mirror.vdev.write(0, &block(1)).unwrap();
    legs[1].set_state(LegState::Faulted);
    mirror.disks[0].rot(LABEL_BYTES);
    FaultyDisk::set(&mirror.disks[0].writes_fail, true);
    FaultyDisk::set(&mirror.disks[0].refused_is_read, true);
    let secure = || mirror.vdev.secure(0, 8192, &is_block(1), &[legs[0].guid()]).unwrap();
    assert_eq!(secure(), Secured::Lost { unread: true });
    mirror.disks[1].rot(LABEL_BYTES);
    FaultyDisk::set(&mirror.disks[0].writes_fail, false);
    assert_eq!((secure(), secure()), (Secured::Repaired, Secured::Sound));
    mirror.disks[0].lose_refused();
    assert_eq!(mirror.disks[0].bytes(LABEL_BYTES, 8192), block(1));
}

/// A leg had refused a block and was struck off for it. When it came back it read as if it had it, so it was not given it; it counted, and when the power went
/// it had not.
#[test]
fn what_a_leg_that_joins_has_missed_it_is_given_though_it_can_be_read() {
    let mirror = mirror(2);
    let legs = mirror.vdev.legs();
    FaultyDisk::set(&mirror.disks[1].writes_fail, true);
    FaultyDisk::set(&mirror.disks[1].refused_is_read, true);
    mirror.vdev.write(0, &block(1)).unwrap();
    assert_eq!(mirror.disks[1].bytes(LABEL_BYTES, 8192), block(1), "it is read");
    FaultyDisk::set(&mirror.disks[1].writes_fail, false);
    legs[1].set_state(LegState::Resilvering);
    let secured = mirror.vdev.secure_missed(0, 8192, &is_block(1), legs[1].guid()).unwrap();
    assert_eq!(secured, Secured::Given);
    mirror.disks[1].lose_refused();
    assert_eq!(mirror.disks[1].bytes(LABEL_BYTES, 8192), block(1));
    // It may be the only one that has it.
    mirror.disks[0].rot(LABEL_BYTES);
    let secured = mirror.vdev.secure_missed(0, 8192, &is_block(1), legs[1].guid()).unwrap();
    assert_eq!((secured, mirror.disks[0].bytes(LABEL_BYTES, 8192)), (Secured::Repaired, block(1)));
}

/// Between the look at a block and its way to a leg that lacks it, its place is given to another block, which both legs get
/// (rules S5). What the place held before must not come behind that.
#[test]
fn what_is_written_while_a_leg_is_given_a_block_is_not_written_over() {
    let mirror = mirror(2);
    let (vdev, legs) = (&mirror.vdev, mirror.vdev.legs());
    vdev.write(0, &block(1)).unwrap();
    mirror.disks[1].rot(LABEL_BYTES);
    std::thread::scope(|scope| {
        let looks = AtomicUsize::new(0);
        let is_right = |bytes: &[u8]| {
            // The second one is at the leg that has it. Whoever writes now waits, or is over in a moment.
            if looks.fetch_add(1, Ordering::SeqCst) == 1 {
                let (over, is_over) = std::sync::mpsc::channel();
                scope.spawn(move || {
                    vdev.write(0, &block(2)).unwrap();
                    over.send(()).ok();
                });
                is_over.recv_timeout(std::time::Duration::from_millis(300)).ok();
            }
            bytes == block(1)
        };
        let secured = vdev.secure(0, 8192, &is_right, &[legs[1].guid()]).unwrap();
        assert_eq!((secured, looks.load(Ordering::SeqCst)), (Secured::Repaired, 2));
    });
    for disk in &mirror.disks {
        assert_eq!(disk.bytes(LABEL_BYTES, 8192), block(2));
    }
}

/// A disk was to leave a mirror of three. One that stayed had a block right, the other had rotten there; that was enough, and
/// when the good one died the block was gone, though the disk that left had had it.
#[test]
fn every_leg_that_stays_has_what_the_leaving_one_has() {
    let mirror = mirror(3);
    let legs = mirror.vdev.legs();
    let staying = [legs[1].guid(), legs[2].guid()];
    mirror.vdev.write(0, &block(1)).unwrap();
    mirror.disks[2].rot(LABEL_BYTES);
    let secure = || mirror.vdev.secure(0, 8192, &is_block(1), &staying).unwrap();
    assert_eq!(secure(), Secured::Repaired);
    assert_eq!(mirror.disks[2].bytes(LABEL_BYTES, 8192), block(1));
    assert_eq!(secure(), Secured::Sound);
    // One that refuses what it lacks is struck off, and the other has it.
    mirror.disks[2].rot(LABEL_BYTES);
    FaultyDisk::set(&mirror.disks[2].writes_fail, true);
    assert_eq!(secure(), Secured::Sound);
    assert_eq!(*mirror.members.struck_off.lock(), [legs[2].guid()]);
}

/// One leg read nothing for a moment, the other was rotten at a block, and that was given up: the vdev had answered, though
/// not the leg that had the block.
#[test]
fn a_mirror_answers_if_each_of_its_legs_does() {
    let mirror = mirror(2);
    assert!(mirror.vdev.answers());
    FaultyDisk::set(&mirror.disks[0].reads_fail, true);
    assert!(!mirror.vdev.answers(), "it may have what the other one has not");
    mirror.vdev.legs()[0].set_state(LegState::Faulted);
    assert!(mirror.vdev.answers(), "it is asked no more");
    mirror.vdev.legs()[1].set_state(LegState::Faulted);
    assert!(!mirror.vdev.answers());
}

/// A disk that keeps whoever reads it for as long as somebody holds this.
struct Hanging {
    below: Arc<FaultyDisk>,
    held: parking_lot::RwLock<()>,
    waiting: AtomicUsize,
}

impl Disk for Hanging {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _let_go = self.held.read();
        self.below.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: tally_disk::Durability) -> io::Result<()> {
        self.below.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.below.discard(offset, length)
    }

    fn geometry(&self) -> tally_disk::Geometry {
        self.below.geometry()
    }
}

struct Helped(Arc<dyn Fanout>);

impl Membership for Helped {
    fn leg_failed(&self, _: VdevGuid, _: &io::Error) -> Result<(), String> {
        Ok(())
    }

    fn fanout(&self) -> Arc<dyn Fanout> {
        Arc::clone(&self.0)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock::default())
    }

    fn hang_limit(&self) -> HangLimit {
        HangLimit::Auto
    }

    fn may_leave(&self, _: &VdevLeg) -> bool {
        true
    }

    fn may_write(&self) -> bool {
        true
    }
}

/// Within the second after which a leg that hangs is read last, many readers gave it more reads than there are helpers; the next
/// ones asked it themselves, and could not leave, nor could whoever wrote.
#[test]
fn readers_do_not_give_all_helpers_to_a_leg_that_hangs() {
    let Mirror { disks, .. } = mirror(2);
    let hanging = Arc::new(Hanging {
        below: Arc::clone(&disks[0]),
        held: parking_lot::RwLock::default(),
        waiting: AtomicUsize::new(0),
    });
    let leg = |guid, disk| Arc::new(VdevLeg::new(VdevGuid(guid), "leg".into(), Some(disk), LegState::Online));
    let legs = vec![leg(0, Arc::clone(&hanging) as Arc<dyn Disk>), leg(1, Arc::clone(&disks[1]) as Arc<dyn Disk>)];
    let config = VdevConfig { data_bytes: LEG_BYTES - 2 * LABEL_BYTES, ..sample().vdevs[0].clone() };
    let vdev = Vdev::new(&config, legs);
    let members: Arc<dyn Membership> = Arc::new(Helped(Arc::new(tally_disk::ThreadFanout::default())));
    vdev.set_membership(Arc::downgrade(&members));
    let held = hanging.held.write();
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..96 {
            scope.spawn(|| {
                while began.elapsed() < std::time::Duration::from_millis(1500) {
                    vdev.read(0, 8192, &|_| true).unwrap();
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(2000));
        let waiting = hanging.waiting.load(Ordering::SeqCst);
        // Whoever is stuck goes on before this is judged.
        drop(held);
        assert!(waiting > 0 && waiting < 256, "{waiting} reads are at the disk that hangs, and keep a helper each");
    });
}

/// How many requests a leg gets by something, those of clients in its waits aside; and how many waits there are.
fn requests_and_waits(mirror: &Mirror, leg: usize, work: impl FnOnce()) -> (u64, u64) {
    let (vdev_leg, visited) = (&mirror.vdev.legs()[leg], &mirror.members.visited);
    let is_visited = visited.legs.lock().iter().any(|visited| Arc::ptr_eq(visited, vdev_leg));
    let count = || vdev_leg.counts().reads + vdev_leg.counts().writes;
    let (before, slept) = (count(), visited.sleeps.load(Ordering::SeqCst));
    work();
    let slept = visited.sleeps.load(Ordering::SeqCst) - slept;
    (count() - before - if is_visited { slept } else { 0 }, slept)
}

/// A scrub read stretches of megabytes, two at once, however many clients waited behind them.
#[test]
fn a_walk_reads_a_busy_leg_piece_by_piece_and_one_that_is_left_alone_as_a_whole() {
    let mirror = mirror(2);
    let legs = mirror.vdev.legs();
    let has = |leg: usize| assert!(mirror.vdev.leg_has(legs[leg].guid(), 0, 1 << 20, &|_| true));
    legs.iter().for_each(|leg| leg.read_data(0, &mut AlignedBuf::zeroed(SECTOR)).unwrap());
    mirror.members.visited.legs.lock().push(Arc::clone(&legs[0]));
    assert_eq!(requests_and_waits(&mirror, 0, || has(0)), (4, 12), "three waits, of 50 ms in all, before each piece");
    assert_eq!(requests_and_waits(&mirror, 1, || has(1)), (1, 1), "the other leg's clients are not this one's");
    let secure = || {
        let secured = mirror.vdev.secure(0, 8192, &|_| true, &[legs[0].guid(), legs[1].guid()]);
        assert_eq!(secured.unwrap(), Secured::Sound);
    };
    assert_eq!(requests_and_waits(&mirror, 0, secure), (1, 3));
    mirror.members.visited.legs.lock().clear();
    assert_eq!(requests_and_waits(&mirror, 0, || has(0)), (1, 1), "they have gone");
    assert_eq!(requests_and_waits(&mirror, 0, || has(0)), (1, 0));
    assert_eq!(requests_and_waits(&mirror, 0, secure), (1, 0));
}

/// What a scrub writes to repair a block was taken for a client's request: of a disk that had rotted all over it repaired one
/// block in twenty milliseconds.
#[test]
fn a_walk_does_not_wait_for_its_own_repairs() {
    let mirror = mirror(2);
    let (legs, both) = (mirror.vdev.legs(), mirror.vdev.legs().iter().map(|leg| leg.guid()).collect::<Vec<_>>());
    let blocks: Vec<u64> = (0..8).map(|number| number * 8192).collect();
    let right = [7; 8192];
    blocks.iter().for_each(|offset| legs[0].write_data(*offset, &right).unwrap());
    let repair = |offset: &u64| {
        assert_eq!(mirror.vdev.secure(*offset, 8192, &|bytes| bytes == right, &both).unwrap(), Secured::Repaired);
        mirror.vdev.flush_legs(&both).unwrap();
        assert!(mirror.vdev.restore(*offset, &AlignedBuf::copy_of(&right), &both).unwrap());
    };
    repair(&blocks[0]);
    let (_, waits) = requests_and_waits(&mirror, 0, || blocks[1..].iter().for_each(repair));
    assert_eq!(waits, 0);
}

/// Walks hurry where what they hold keeps space from coming back. A copy holds nothing, and hurried as well: clients that had to wait for
/// room waited behind a mebibyte of it each time, at the moment when they were slowest anyway.
#[test]
fn a_copy_waits_for_clients_where_other_walks_hurry() {
    let mirror = mirror(2);
    let legs = mirror.vdev.legs();
    legs[1].set_state(LegState::Resilvering);
    mirror.members.hurry.store(true, Ordering::SeqCst);
    mirror.members.visited.legs.lock().push(Arc::clone(&legs[0]));
    legs[0].read_data(0, &mut AlignedBuf::zeroed(SECTOR)).unwrap();
    assert!(mirror.vdev.leg_has(legs[0].guid(), 0, 1 << 20, &|_| true));
    let waits = || mirror.members.visited.sleeps.load(Ordering::SeqCst);
    assert_eq!(waits(), 0, "another walk");
    let mut steps = Vec::new();
    let report = mirror.vdev.resilver(legs[1].guid(), &mut whole(&mirror.vdev), &mut |done| {
        steps.push(done);
        true
    });
    assert_eq!(report.unwrap().copied_bytes, mirror.vdev.data_bytes());
    assert!(steps.iter().zip(&steps[1..]).all(|(step, next)| next - step <= 256 << 10), "{steps:?}");
    assert!(waits() as usize >= steps.len() / 2, "{} waits", waits());
}

/// What is brought is held until it was written: beside clients it waits for its turns, piece by piece, and where walks hurry it does not.
#[test]
fn what_is_brought_waits_for_clients_unless_walks_hurry() {
    for hurry in [false, true] {
        let mirror = mirror(2);
        let legs = mirror.vdev.legs();
        legs[1].set_state(LegState::Resilvering);
        mirror.members.hurry.store(hurry, Ordering::SeqCst);
        mirror.members.visited.legs.lock().push(Arc::clone(&legs[0]));
        legs[0].read_data(0, &mut AlignedBuf::zeroed(SECTOR)).unwrap();
        let before = legs[1].counts().writes;
        assert!(mirror.vdev.bring(legs[1].guid(), 0, 1 << 20, &|_| true).unwrap());
        let (writes, waits) = (legs[1].counts().writes - before, mirror.members.visited.sleeps.load(Ordering::SeqCst));
        assert_eq!((writes, waits > 0), if hurry { (1, false) } else { (4, true) });
    }
}

/// A step writes what is in use, range by range, while writers wait. Where they do it writes few.
#[test]
fn a_piece_of_a_copy_has_few_ranges() {
    for (is_busy, ranges_max) in [(false, 16), (true, 4)] {
        let mirror = mirror(2);
        let legs = mirror.vdev.legs();
        legs[1].set_state(LegState::Resilvering);
        if is_busy {
            mirror.members.visited.legs.lock().push(Arc::clone(&legs[0]));
        }
        let mut ranges = (0..64).map(|number| number * 8192..number * 8192 + 4096);
        let mut steps = vec![0];
        mirror
            .vdev
            .resilver(legs[1].guid(), &mut ranges, &mut |done| {
                steps.push(done);
                true
            })
            .unwrap();
        let most = steps.iter().zip(&steps[1..]).map(|(step, next)| (next - step) >> 12).max();
        assert_eq!(most, Some(ranges_max), "{steps:?}");
    }
}

/// On which disks a copy looks for clients was settled when it began: those at a leg that joined later waited behind whole steps.
#[test]
fn a_copy_sees_the_clients_of_a_leg_that_joins_while_it_runs() {
    let mirror = mirror(3);
    let legs = mirror.vdev.legs();
    legs[1].set_state(LegState::Resilvering);
    legs[2].set_state(LegState::Stale);
    let mut steps = Vec::new();
    let report = mirror.vdev.resilver(legs[1].guid(), &mut whole(&mirror.vdev), &mut |done| {
        steps.push(done);
        if done >= 1 << 20 && legs[2].state() == LegState::Stale {
            legs[2].set_state(LegState::Resilvering);
            mirror.members.visited.legs.lock().push(Arc::clone(&legs[2]));
        }
        true
    });
    assert_eq!(report.unwrap().copied_bytes, mirror.vdev.data_bytes());
    let sizes: Vec<u64> = steps.iter().zip(&steps[1..]).map(|(step, next)| next - step).collect();
    let whole = sizes.iter().position(|size| *size == 1 << 20).expect("a step while nobody was there");
    let behind = &sizes[whole + 1..];
    assert!(behind.len() > 4 && behind.iter().all(|size| *size <= 256 << 10), "{steps:?}");
}

/// Two disks that join get all of it, also what is written meanwhile, and neither copy waits for the end of the other.
#[test]
fn two_copies_to_one_vdev_run_side_by_side() {
    let mirror = mirror(3);
    let (legs, data_bytes) = (mirror.vdev.legs(), mirror.vdev.data_bytes());
    for (place, seed) in (0..data_bytes).step_by(64 << 10).zip(0..) {
        mirror.vdev.write(place, &block(seed)).unwrap();
    }
    legs[1..].iter().for_each(|leg| leg.set_state(LegState::Resilvering));
    let both_run = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for (leg, seed) in legs[1..].iter().zip([200, 201]) {
            let (mirror, both_run) = (&mirror, &both_run);
            scope.spawn(move || {
                let mut is_first = true;
                let copied = mirror.vdev.resilver(leg.guid(), &mut whole(&mirror.vdev), &mut |_| {
                    if std::mem::take(&mut is_first) {
                        both_run.wait();
                        mirror.vdev.write(u64::from(seed) << 13, &block(seed)).unwrap();
                    }
                    true
                });
                assert_eq!(copied.unwrap().copied_bytes, data_bytes);
            });
        }
    });
    let content = |leg: usize| {
        let mut buf = AlignedBuf::zeroed(usize::try_from(data_bytes).unwrap());
        legs[leg].read_data(0, &mut buf).unwrap();
        buf
    };
    assert!(content(1)[..] == content(0)[..] && content(2)[..] == content(0)[..]);
}

/// A copy reads one leg and writes another, and clients may wait at either.
#[test]
fn a_copy_goes_by_pieces_while_clients_are_at_any_leg() {
    for busy in [0, 1] {
        let mirror = mirror(2);
        let legs = mirror.vdev.legs();
        legs[1].set_state(LegState::Resilvering);
        let (visited, mut steps) = (&mirror.members.visited, Vec::new());
        visited.legs.lock().push(Arc::clone(&legs[busy]));
        let end = mirror.vdev.data_bytes();
        let report = mirror.vdev.resilver(legs[1].guid(), &mut whole(&mirror.vdev), &mut |done| {
            steps.push(done);
            // The client goes.
            if done == 1 << 20 {
                visited.legs.lock().clear();
            }
            true
        });
        assert_eq!(report.unwrap().copied_bytes, end);
        // Two more, of a dozen milliseconds each by this clock: it is alone when nobody has come for twenty.
        let pieces = steps.iter().zip(&steps[1..]).take_while(|(step, next)| *next - *step == 256 << 10).count();
        assert_eq!((steps[3], pieces), (1 << 20, 5), "leg {busy}: {steps:?}");
        assert_eq!(steps.last(), Some(&end));
    }
}

/// Calls a hook once before a read is carried out.
struct Hooked {
    inner: Arc<FaultyDisk>,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Disk for Hooked {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        self.inner.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.inner.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.inner.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
}

/// A scrub repairs what a detach looks at: the detach has asked whether it was refused before, and reads what was refused then.
fn look_while_another_walk_repairs(by_stretch: bool) {
    let (journal, members) = (Journal::default(), Arc::new(Members::default()));
    let disks = ["a", "b"].map(|name| FaultyDisk::new(name, LEG_BYTES, &journal));
    let hooked = Arc::new(Hooked { inner: Arc::clone(&disks[0]), hook: Mutex::new(None) });
    let legs: Vec<Arc<VdevLeg>> = vec![
        Arc::new(VdevLeg::new(VdevGuid(0), "a".into(), Some(Arc::clone(&hooked) as Arc<dyn Disk>), LegState::Online)),
        Arc::new(VdevLeg::new(VdevGuid(1), "b".into(), Some(Arc::clone(&disks[1]) as Arc<dyn Disk>), LegState::Online)),
    ];
    let config = VdevConfig { data_bytes: LEG_BYTES - 2 * LABEL_BYTES, ..sample().vdevs[0].clone() };
    let vdev = Arc::new(Vdev::new(&config, legs.clone()));
    vdev.set_membership(Arc::downgrade(&members) as std::sync::Weak<dyn Membership>);
    vdev.write(0, &block(1)).unwrap();
    legs[1].set_state(LegState::Faulted);
    disks[0].rot(LABEL_BYTES);
    FaultyDisk::set(&disks[0].writes_fail, true);
    FaultyDisk::set(&disks[0].refused_is_read, true);
    let scrub = {
        let vdev = Arc::clone(&vdev);
        move || {
            let secured = vdev.secure(0, 8192, &is_block(1), &[VdevGuid(0)]).unwrap();
            assert_eq!(secured, Secured::Lost { unread: true });
        }
    };
    *hooked.hook.lock() = Some(Box::new(scrub));
    if by_stretch {
        assert!(!vdev.leg_has(VdevGuid(0), 0, 8192, &is_block(1)), "it had refused it");
    } else {
        let secured = vdev.secure(0, 8192, &is_block(1), &[VdevGuid(0)]).unwrap();
        assert_eq!(secured, Secured::Lost { unread: true }, "it had refused it");
    }
}

#[test]
fn what_is_refused_during_a_look_at_a_stretch_is_not_there() {
    look_while_another_walk_repairs(true);
}

#[test]
fn what_is_refused_during_a_look_at_a_block_is_not_there() {
    look_while_another_walk_repairs(false);
}

/// The only leg that reads it right was struck off, as it refused to be given what it reads, and the one that stayed had rot.
#[test]
fn who_alone_reads_it_right_stays_though_it_refuses_its_own_copy() {
    for keepers in [1, 2] {
        let mirror = mirror(2);
        let legs = mirror.vdev.legs();
        let secure = |keepers: &[VdevGuid]| mirror.vdev.secure(0, 8192, &is_block(1), keepers);
        mirror.vdev.write(0, &block(1)).unwrap();
        legs[1].set_state(LegState::Faulted);
        mirror.disks[0].rot(LABEL_BYTES);
        FaultyDisk::set(&mirror.disks[0].writes_fail, true);
        FaultyDisk::set(&mirror.disks[0].refused_is_read, true);
        secure(&[legs[0].guid()]).unwrap();
        // The other one is back, and its sector has rotted, and is refused.
        legs[1].set_state(LegState::Online);
        mirror.disks[1].rot(LABEL_BYTES);
        FaultyDisk::set(&mirror.disks[1].writes_fail, true);
        let guids: Vec<_> = legs.iter().take(keepers).map(|leg| leg.guid()).collect();
        assert_eq!(secure(&guids).unwrap(), Secured::Lost { unread: true });
        assert!(mirror.vdev.read(0, 8192, &is_block(1)).is_ok(), "it could be read before the look");
    }
}
