use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::{Broken, DatasetId, Dseq, Keeper, Lsn, SECTOR, SystemClock, Txg, VdevGuid, Wait};

use super::Lane;
use crate::recovery::Verdict;
use crate::testdisk::{DATASET, RING_SIZE, TestDisk, World, config, frame_offset, leg_guid, lsns};
use crate::{Appended, BySize, Checkpoint, LaneFailed, LegSet, RingFull};

/// Registers a waiter that notes its LSN and outcome.
fn note(world: &World, lsn: Lsn, notes: &Arc<Mutex<Vec<(u64, bool)>>>) {
    let notes = Arc::clone(notes);
    match world.lane.promise(lsn, 0) {
        Wait::Ready => notes.lock().push((lsn.0, true)),
        Wait::On(promise) => promise.then(Box::new(move |outcome| notes.lock().push((lsn.0, outcome.is_ok())))),
    }
}

fn ok() -> io::Result<()> {
    Ok(())
}

fn refused() -> io::Result<()> {
    Err(io::Error::other("refused"))
}

#[test]
fn a_record_of_a_kibibyte_is_one_durable_write_of_a_sector() {
    let world = World::new(1);
    for count in 1..=10 {
        assert_eq!(world.log(&[5; 1024]), Lsn(count));
        assert_eq!(world.legs[0].write_count.load(Ordering::Relaxed), count);
        assert_eq!(world.legs[0].write_bytes.load(Ordering::Relaxed), count * SECTOR as u64);
    }
    assert!(!world.lane.drive_frame(), "nothing is left to write");
    let stats = world.lane.stats();
    assert_eq!((stats.frame_count, stats.record_count, stats.body_bytes, stats.seal_count), (10, 10, 10 * 1024, 0));
}

#[test]
fn records_that_wait_together_go_out_together_in_order() {
    let world = World::new(1);
    world.lane.set_frames_in_flight(1);
    let numbered = |number: u64| Appended { lsn: Lsn(number), dseq: Dseq(number), body_bytes: 5 };
    for number in 1..=20 {
        assert_eq!(world.append(b"small"), numbered(number));
    }
    assert!(world.lane.drive_frame() && !world.lane.drive_frame());
    assert_eq!(world.lane.durable_lsn(), Lsn(20));
    assert_eq!(world.lane.stats().records_per_frame(), 20.0);
    assert_eq!(lsns(&world.scan()), (1..=20).collect::<Vec<_>>());
}

#[test]
fn those_who_wait_together_share_what_their_frame_took() {
    let world = World::new(1);
    let told = Arc::new(Mutex::new(Vec::new()));
    for body in [&[1; 3000], &[2; 500][..]] {
        let appended = world.append(body);
        let Wait::On(promise) = world.lane.promise(appended.lsn, appended.body_bytes) else {
            panic!("it is not written")
        };
        let told = Arc::clone(&told);
        promise.then(Box::new(move |fate| told.lock().push(fate.expect("the disk is well"))));
    }
    assert!(world.lane.drive_frame());
    let told = told.lock();
    let by = Keeper::Log(world.lane.id());
    assert!(told.iter().all(|kept| kept.by == by), "{told:?}");
    assert_eq!(told.iter().map(|kept| kept.record_bytes).collect::<Vec<_>>(), [3000, 500]);
    // One sector for both.
    assert_eq!(told.iter().map(|kept| kept.frame_bytes).collect::<Vec<_>>(), [3000 * 4096 / 3500, 500 * 4096 / 3500]);
    assert_eq!(world.lane.stats().frames_by_size, BySize { small: 1, ..BySize::default() });
}

#[test]
fn a_frame_is_closed_when_the_next_record_does_not_fit() {
    let world = World::new(1);
    let longest = world.lane.geometry().record_bytes_max();
    world.append(&vec![1; longest]);
    world.append(b"in the next frame");
    assert!(world.lane.drive_frame());
    assert_eq!(world.lane.durable_lsn(), Lsn(1));
    assert!(world.lane.drive_frame());
    assert_eq!(world.scan().records[0].body.len(), longest);
}

#[test]
fn the_parts_of_a_body_are_joined() {
    let world = World::new(1);
    let room = world.lane.reserve(100).expect("the ring is empty");
    world.lane.append(room, DatasetId(1), &world.dseq, Txg(7), 9, &[b"one ", b"", b"two"]).expect("open");
    assert_eq!(world.lane.fill().used, SECTOR as u64);
    world.lane.drive_frame();
    let found = world.scan();
    assert_eq!((found.records[0].body.as_ref(), found.records[0].head.kind), (&b"one two"[..], 9));
}

#[test]
fn a_ring_that_is_full_says_so_and_takes_back_what_is_not_used() {
    let world = World::new(1);
    let mut held = Vec::new();
    let full = loop {
        match world.lane.reserve(3000) {
            Ok(room) => held.push(room),
            Err(full) => break full,
        }
    };
    let used_bytes = RING_SIZE - u64::from(world.lane.geometry().frame_bytes_max);
    assert_eq!(full, RingFull::Full { needed_bytes: 4096, used_bytes, size_bytes: RING_SIZE });
    held.pop();
    // Every reservation can be used, frame by frame, without a transaction group.
    world.append(b"the last");
    for room in held {
        world.lane.append(room, DATASET, &world.dseq, Txg(7), 1, &[&[0; 3000]]).expect("open");
        assert!(world.lane.drive_frame());
    }
    assert_eq!(world.scan().records.len() as u64, used_bytes / 4096);
    let too_long = world.lane.geometry().record_bytes_max() + 1;
    assert!(matches!(world.lane.reserve(too_long), Err(RingFull::RecordTooLong { .. })));
}

#[test]
fn trimming_lags_one_checkpoint_behind() {
    let world = World::new(1);
    world.log_frames(10);
    let used = || world.lane.fill().used / SECTOR as u64;
    let first = world.lane.checkpoint(Txg(7));
    assert_eq!((first.tail_pos, first.tail_seq, first.next_lsn), (frame_offset(11), 11, Lsn(11)));
    world.lane.release(Txg(7), &first);
    assert_eq!(used(), 10, "the uberblock before this one may still be needed");
    world.append_in(Txg(8), b"x");
    world.lane.drive_frame();
    let second = world.lane.checkpoint(Txg(8));
    world.lane.release(Txg(8), &second);
    assert_eq!(used(), 1);
    world.lane.release(Txg(9), &world.lane.checkpoint(Txg(9)));
    assert_eq!(used(), 0);
}

#[test]
fn the_tail_is_the_first_frame_with_a_newer_record() {
    let world = World::new(1);
    // Transaction groups do not rise with the LSN: a record may get its place after one of the next group.
    for txgs in [&[5][..], &[6, 5], &[5], &[6]] {
        for txg in txgs {
            world.append_in(Txg(*txg), b"x");
        }
        world.lane.drive_frame();
    }
    for (synced, tail_seq, next_lsn) in [(4, 1, 1), (5, 2, 2), (6, 5, 6)] {
        let checkpoint = world.lane.checkpoint(Txg(synced));
        assert_eq!((checkpoint.tail_seq, checkpoint.next_lsn), (tail_seq, Lsn(next_lsn)), "synced {synced}");
    }
}

#[test]
fn a_checkpoint_amid_gathered_and_flying_frames_finds_all_of_them_later() {
    let mut world = World::new(1);
    world.log_frames(2);
    world.append_in(Txg(8), b"flying");
    let flight = world.lane.begin().expect("a slot is free");
    world.append_in(Txg(9), b"gathered");
    for (synced, first) in [(7, 3), (8, 4)] {
        world.checkpoint = world.lane.checkpoint(Txg(synced));
        assert_eq!(world.checkpoint.next_lsn, Lsn(first));
        world.lane.release(Txg(synced), &world.checkpoint);
    }
    world.legs[0].poke(frame_offset(3), flight.bytes());
    flight.land([ok()].into_iter().collect(), Duration::ZERO);
    assert!(world.lane.drive_frame());
    assert_eq!(lsns(&world.scan()), [4]);
}

#[test]
fn a_checkpoint_is_read_back() {
    let world = World::new(1);
    world.log_frames(3);
    let checkpoint = Checkpoint { clean: true, ..world.lane.checkpoint(Txg(6)) };
    let mut bytes = Vec::new();
    checkpoint.encode(&mut bytes);
    let mut reader = tally_base::codec::Reader::new(&bytes, "checkpoint");
    assert_eq!(Checkpoint::decode(&mut reader), Ok(checkpoint));
    assert_eq!(reader.end(), Ok(()));
}

#[test]
fn the_watermark_moves_only_without_gaps_and_waiters_follow_it_in_order() {
    let world = World::new(1);
    let notes = Arc::new(Mutex::new(Vec::new()));
    let mut flights = Vec::new();
    for _ in 0..3 {
        world.append(b"a");
        world.append(b"b");
        flights.push(world.lane.begin().expect("four slots"));
    }
    for lsn in [6, 2, 5, 1, 4, 3] {
        note(&world, Lsn(lsn), &notes);
    }
    let mut land = |index: usize| flights.remove(index).land([ok()].into_iter().collect(), Duration::ZERO);
    land(2);
    assert_eq!((world.lane.durable_lsn(), notes.lock().len()), (Lsn(0), 0));
    land(0);
    assert_eq!(world.lane.durable_lsn(), Lsn(2));
    land(0);
    assert_eq!(world.lane.durable_lsn(), Lsn(6));
    assert_eq!(*notes.lock(), (1..=6).map(|lsn| (lsn, true)).collect::<Vec<_>>());
}

#[test]
fn slots_are_bounded() {
    let world = World::new(1);
    for (policy, slots) in [(1, 1), (3, 3), (9, 4), (0, 1)] {
        world.lane.set_frames_in_flight(policy);
        let flights: Vec<_> = std::iter::from_fn(|| {
            world.append(b"x");
            world.lane.begin()
        })
        .collect();
        assert_eq!(flights.len(), slots, "policy {policy}");
        for flight in flights {
            flight.land([ok()].into_iter().collect(), Duration::ZERO);
        }
        while world.lane.drive_frame() {}
    }
}

#[test]
fn a_failed_write_is_never_acknowledged() {
    let world = World::new(1);
    let (notes, failures) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&failures);
    world.lane.on_failure(Box::new(move |failed| seen.lock().push(failed)));
    world.log_frames(1);
    world.legs[0].fail_writes(1);
    note(&world, world.append(b"fails").lsn, &notes);
    assert!(world.lane.drive_frame());
    assert_eq!(*notes.lock(), [(2, false)]);
    assert_eq!(world.lane.durable_lsn(), Lsn(1));
    let room = world.lane.reserve(10).expect("there is room");
    let before = world.dseq.load(Ordering::Relaxed);
    let failed = world.lane.append(room, DATASET, &world.dseq, Txg(7), 1, &[b"x"]).unwrap_err();
    assert!(matches!(&failed, LaneFailed::Write { seq: 2, cause, .. } if cause.contains("as the test asked")));
    assert_eq!(*failures.lock(), [failed]);
    assert_eq!(world.dseq.load(Ordering::Relaxed), before, "no dseq was taken");
    assert!(matches!(world.lane.promise(Lsn(2), 0).block(), Err(Broken(_))));
    assert!(matches!(world.lane.promise(Lsn(1), 0), Wait::Ready));
    assert!(!world.lane.drive_frame());
}

#[test]
fn a_failed_frame_poisons_those_behind_it() {
    let world = World::new(1);
    let notes = Arc::new(Mutex::new(Vec::new()));
    world.append(b"fails");
    let first = world.lane.begin().expect("a slot");
    world.append(b"lands");
    let second = world.lane.begin().expect("a slot");
    for lsn in [1, 2] {
        note(&world, Lsn(lsn), &notes);
    }
    first.land([refused()].into_iter().collect(), Duration::ZERO);
    second.land([ok()].into_iter().collect(), Duration::ZERO);
    assert_eq!((world.lane.durable_lsn(), notes.lock().clone()), (Lsn(0), vec![(1, false), (2, false)]));
}

#[test]
fn a_leg_that_fails_leaves_the_set_before_anything_is_acknowledged() {
    let mut world = World::new(2);
    let notes: Arc<Mutex<Vec<(u64, bool)>>> = Arc::default();
    let dropped: Arc<Mutex<Vec<(VdevGuid, usize)>>> = Arc::default();
    let (seen_notes, seen) = (Arc::clone(&notes), Arc::clone(&dropped));
    world.config.leg_failed = Arc::new(move |guid, _| {
        seen.lock().push((guid, seen_notes.lock().len()));
        Ok(LegSet { generation: 2, legs: vec![leg_guid(0)] })
    });
    world.lane = Lane::open(world.config.clone(), &world.checkpoint, world.clock.clone());
    world.lane.set_frames_in_flight(4);
    world.append(b"misses leg 1");
    let first = world.lane.begin().expect("a slot");
    world.append(b"misses it too");
    let second = world.lane.begin().expect("a slot");
    note(&world, Lsn(1), &notes);
    first.land([ok(), refused()].into_iter().collect(), Duration::ZERO);
    second.land([ok(), refused()].into_iter().collect(), Duration::ZERO);
    assert_eq!(*dropped.lock(), [(leg_guid(1), 0)], "once, and before the waiter heard of it");
    assert_eq!((world.lane.durable_lsn(), notes.lock().clone()), (Lsn(2), vec![(1, true)]));
    world.append(b"on leg 0 alone");
    let third = world.lane.begin().expect("a slot");
    assert_eq!((third.header().legset_gen, world.lane.stats().leg_failure_count), (2, 1));
    third.land([ok()].into_iter().collect(), Duration::ZERO);
}

#[test]
fn a_frame_that_no_leg_of_the_set_has_is_lost_even_if_a_dropped_leg_has_it() {
    let world = World::new(2);
    world.append(b"only on leg 0");
    let first = world.lane.begin().expect("a slot");
    world.append(b"only on leg 1");
    let second = world.lane.begin().expect("a slot");
    first.land([ok(), refused()].into_iter().collect(), Duration::ZERO);
    assert_eq!(world.lane.durable_lsn(), Lsn(1));
    second.land([refused(), ok()].into_iter().collect(), Duration::ZERO);
    assert_eq!(world.lane.durable_lsn(), Lsn(1));
    assert!(world.lane.promise(Lsn(2), 0).block().is_err());
}

/// A third disk, as a leg.
fn another_leg() -> (Arc<TestDisk>, crate::Leg) {
    let disk = TestDisk::new(RING_SIZE, false);
    let leg = crate::Leg { guid: leg_guid(7), disk: disk.clone(), start: crate::testdisk::RING_START };
    (disk, leg)
}

#[test]
fn a_leg_joins_and_is_trusted_alone_once_every_live_frame_is_on_it() {
    let mut world = World::new(1);
    world.log_frames(3);
    let (_, leg) = another_leg();
    world.lane.join_leg(leg.clone());
    for txg in [7, 8] {
        assert!(!world.lane.take_in_leg(leg.guid), "before txg {txg}");
        world.append_in(Txg(txg + 1), b"on both");
        assert!(world.lane.drive_frame());
        world.checkpoint = world.lane.checkpoint(Txg(txg));
        world.lane.release(Txg(txg), &world.checkpoint);
    }
    assert!(world.lane.take_in_leg(leg.guid));
    world.lane.follow(&LegSet { generation: 2, legs: vec![leg_guid(0), leg.guid] }, &|_| false);
    assert!(world.lane.writes_to(leg.guid));
    // Only the new leg is there at the next import.
    world.config.legs = vec![leg];
    assert_eq!(lsns(&world.scan()), [5]);
    world.checkpoint = Checkpoint { tail_pos: frame_offset(4), tail_seq: 4, next_lsn: Lsn(4), ..world.checkpoint };
    world.checkpoint.tail_prev = crate::FrameHeader::decode(&world.legs[0].peek(frame_offset(3), SECTOR)).unwrap().1;
    assert_eq!(lsns(&world.scan()), [4, 5], "also from the uberblock before");
}

#[test]
fn a_leg_that_fails_while_it_joins_is_nobodys_loss() {
    let mut world = World::new(1);
    world.config.leg_failed = Arc::new(|_, _| panic!("the labels need not know"));
    world.lane = Lane::open(world.config.clone(), &world.checkpoint, world.clock.clone());
    let (disk, leg) = another_leg();
    world.lane.join_leg(leg.clone());
    disk.fail_writes(1);
    assert_eq!(world.log(b"on leg 0 alone"), world.lane.durable_lsn());
    assert!(!world.lane.take_in_leg(leg.guid));
    world.lane.join_leg(leg);
    world.legs[0].fail_writes(1);
    let lsn = world.log(b"on the joining leg alone");
    assert!(world.lane.promise(lsn, 0).block().is_err(), "a leg that only joins cannot carry the lane");
}

#[test]
fn a_leg_that_was_removed_is_not_waited_for() {
    let world = World::new(2);
    world.append(b"on both, as it seems");
    let flight = world.lane.begin().expect("a slot");
    world.lane.follow(&LegSet { generation: 2, legs: vec![leg_guid(0)] }, &|_| false);
    flight.land([ok(), refused()].into_iter().collect(), Duration::ZERO);
    assert_eq!(world.lane.durable_lsn(), Lsn(1));
    world.log(b"on leg 0");
    assert_eq!(world.legs[1].write_count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_smaller_set_that_cannot_be_recorded_ends_the_lane() {
    let mut world = World::new(2);
    let lane = world.lane.id();
    let refusal = LaneFailed::LegSet { lane, cause: "no label could be written".to_owned() };
    let answer = refusal.clone();
    world.config.leg_failed = Arc::new(move |_, _| Err(answer.clone()));
    world.lane = Lane::open(world.config.clone(), &world.checkpoint, world.clock.clone());
    world.legs[0].fail_writes(1);
    let lsn = world.append(b"on leg 1 alone").lsn;
    world.lane.drive_frame();
    assert_eq!(world.lane.promise(lsn, 0).block(), Err(Broken(refusal.to_string())));
}

/// The labels had struck leg 1 off, and the lane was not told. When leg 0 missed a frame, the labels kept it as the
/// last of its set, with a generation that had risen before, and the lane went on on leg 1 alone.
#[test]
fn a_lane_does_not_go_on_without_a_leg_that_the_labels_name() {
    let kept = LegSet { generation: 2, legs: vec![leg_guid(0)] };
    let other = LegSet { generation: 2, legs: vec![leg_guid(7)] };
    let none = LegSet { generation: 2, legs: Vec::new() };
    for answer in [kept, other, none] {
        let mut world = World::new(2);
        let labels = answer.clone();
        world.config.leg_failed = Arc::new(move |_, _| Ok(labels.clone()));
        world.lane = Lane::open(world.config.clone(), &world.checkpoint, world.clock.clone());
        world.legs[0].fail_writes(1);
        let lsn = world.append(b"on leg 1 alone").lsn;
        world.lane.drive_frame();
        assert!(world.lane.promise(lsn, 0).block().is_err(), "{answer:?}");
    }
}

/// The lane hears of each change of the labels, in whatever order the calls arrive.
#[test]
fn a_lane_writes_to_all_legs_that_the_labels_name_and_to_none_that_they_have_struck_off() {
    let set = |generation, legs: &[usize]| LegSet { generation, legs: legs.iter().map(|leg| leg_guid(*leg)).collect() };
    let counts =
        |world: &World| world.legs.iter().map(|leg| leg.write_count.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let world = World::new(3);
    world.lane.follow(&set(3, &[0, 2]), &|guid| guid == leg_guid(1));
    world.lane.follow(&set(2, &[0, 1]), &|guid| guid == leg_guid(2));
    world.log(b"on legs 0 and 2");
    assert_eq!(counts(&world), [1, 0, 1]);
    let (disk, joining) = another_leg();
    world.lane.join_leg(joining.clone());
    world.log(b"on the joining one as well");
    assert_eq!(disk.write_count.load(Ordering::Relaxed), 1);
    world.lane.follow(&set(3, &[0, 2]), &|guid| guid == joining.guid);
    world.log(b"it was struck off");
    assert_eq!(disk.write_count.load(Ordering::Relaxed), 1);
    world.lane.follow(&set(4, &[0, 1, 2]), &|_| false);
    assert!(world.lane.has_ended(), "what the labels name must have every frame");
}

/// The last leg was taken out of a lane, which then wrote nowhere and took that for success.
#[test]
fn a_frame_that_goes_nowhere_has_not_landed() {
    let world = World::new(1);
    world.lane.state.lock().legs.clear();
    let lsn = world.append(b"on no leg").lsn;
    world.lane.drive_frame();
    assert!(world.lane.promise(lsn, 0).block().is_err());
}

/// Records whose promise was dropped were never written: they kept their room until every operation was refused.
#[test]
fn records_that_nobody_waits_for_are_written_in_time() {
    let world = World::new(1);
    let pending = || world.lane.stats().pending_count;
    world.append(b"a");
    world.clock.advance(Duration::from_millis(500));
    world.append(b"b");
    assert!(!world.lane.write_overdue(), "company may come");
    world.clock.advance(Duration::from_millis(500));
    assert!(world.lane.write_overdue() && !world.lane.write_overdue());
    assert_eq!((pending(), world.lane.durable_lsn()), (0, Lsn(2)));
    world.append(b"belongs to a group that is closed");
    world.lane.write_gathered();
    assert_eq!((pending(), world.lane.durable_lsn()), (0, Lsn(3)));
}

/// The same by the lane's own thread, which sleeps without end when nothing comes.
#[test]
fn the_lane_thread_writes_what_nobody_waits_for() {
    let mut world = World::new(1);
    world.lane = Lane::open(world.config.clone(), &world.checkpoint, Arc::new(SystemClock::default()));
    std::thread::scope(|scope| {
        scope.spawn(|| world.lane.run());
        let wait_for = |lsn: Lsn| {
            let given_up = std::time::Instant::now() + Duration::from_secs(60);
            while world.lane.durable_lsn() < lsn {
                assert!(std::time::Instant::now() < given_up, "record {lsn} is not written");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for(world.append(b"the first").lsn);
        wait_for(world.append(b"another one").lsn);
        let longest = world.lane.geometry().record_bytes_max();
        world.append(&vec![1; longest]);
        wait_for(world.append(b"begins the next frame").lsn);
        world.lane.close();
    });
}

/// Nobody who writes his own frame is disturbed: the thread is asked once to look, and not for each record.
#[test]
fn the_lane_thread_is_not_asked_for_each_record() {
    let world = World::new(1);
    assert!(!world.lane.state.lock().watch.age_watched);
    for round in 0..3 {
        let lsn = world.append(b"x").lsn;
        assert!(world.lane.promise(lsn, 0).block().is_ok());
        let state = world.lane.state.lock();
        assert!(state.watch.age_watched && !state.watch.is_wanted, "round {round}");
    }
}

/// Nor is it woken by a client alone, whose every frame wants a seal and whose every record is the first of its frame: a switch of
/// threads for each of them, twice.
#[test]
fn the_lane_thread_sleeps_while_a_client_alone_works() {
    let mut world = World::new(1);
    world.lane = Lane::open(world.config.clone(), &world.checkpoint, Arc::new(SystemClock::default()));
    std::thread::scope(|scope| {
        scope.spawn(|| world.lane.run());
        let started = std::time::Instant::now();
        for _ in 0..45 {
            let lsn = world.append(b"x").lsn;
            // As long as a device takes: whoever was woken looks meanwhile.
            std::thread::sleep(Duration::from_millis(2));
            assert!(world.lane.promise(lsn, 0).block().is_ok());
            std::thread::sleep(Duration::from_millis(2));
        }
        // Once for each time that a seal would have been due, and again for what it then finds.
        let turns = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX) / 50;
        let slept = world.lane.state.lock().watch.slept;
        world.lane.close();
        assert!(slept <= 10 + 3 * turns, "{slept} times in {turns} times 50 ms");
    });
}

#[test]
fn a_writer_that_panics_ends_the_lane_and_leaves_nobody_waiting() {
    let world = World::new(1);
    let notes = Arc::new(Mutex::new(Vec::new()));
    world.legs[0].panic_in_writes(1);
    note(&world, world.append(b"x").lsn, &notes);
    assert!(catch_unwind(AssertUnwindSafe(|| world.lane.drive_frame())).is_err());
    assert_eq!(*notes.lock(), [(1, false)]);
}

#[test]
fn a_waiter_that_panics_takes_nobody_with_it() {
    let world = World::new(1);
    let notes = Arc::new(Mutex::new(Vec::new()));
    world.append(b"a");
    let Wait::On(promise) = world.lane.promise(Lsn(1), 0) else { panic!("nothing was written yet") };
    promise.then(Box::new(|_| panic!("a waiter that panics, as the test asked for")));
    note(&world, world.append(b"b").lsn, &notes);
    assert!(world.lane.drive_frame());
    note(&world, world.append(b"c").lsn, &notes);
    assert!(world.lane.drive_frame());
    assert_eq!(*notes.lock(), [(2, true), (3, true)]);
}

#[test]
fn closing_breaks_what_is_not_durable() {
    let world = World::new(1);
    let notes = Arc::new(Mutex::new(Vec::new()));
    world.lane.on_failure(Box::new(|_| panic!("closing is no failure")));
    world.log_frames(1);
    note(&world, world.append(b"x").lsn, &notes);
    world.lane.close();
    assert_eq!(*notes.lock(), [(2, false)]);
    assert_eq!(world.lane.fill().used, SECTOR as u64);
    world.lane.run();
}

#[test]
fn a_seal_is_written_once_after_idling_and_only_where_it_witnesses_something() {
    let world = World::new(1);
    let idle = |world: &World, millis| {
        world.clock.advance(Duration::from_millis(millis));
        world.lane.seal_if_idle()
    };
    assert!(!idle(&world, 100), "nothing to witness");
    world.log_frames(1);
    assert!(!idle(&world, 49));
    assert!(idle(&world, 1));
    assert!(!idle(&world, 100), "once");
    world.log_frames(1);
    world.lane.release(Txg(7), &world.lane.checkpoint(Txg(7)));
    assert!(!idle(&world, 100), "the uberblock is the witness");
    let stats = world.lane.stats();
    assert_eq!((stats.frame_count, stats.seal_count, stats.record_count), (2, 1, 2));
    assert_eq!(world.legs[0].write_count.load(Ordering::Relaxed), 3);
}

#[test]
fn a_seal_leaves_the_slot_to_requests() {
    let world = World::new(1);
    world.lane.set_frames_in_flight(1);
    world.log_frames(1);
    world.clock.advance(Duration::from_millis(50));
    let seal = world.lane.begin_seal().expect("it is due");
    let lsn = world.append(b"does not wait for it").lsn;
    let frame = world.lane.begin().expect("the slot is free beside a seal");
    world.legs[0].poke(frame_offset(3), frame.bytes());
    frame.land([ok()].into_iter().collect(), Duration::ZERO);
    assert_eq!(world.lane.durable_lsn(), Lsn(1), "but the watermark has no gaps");
    seal.land([ok()].into_iter().collect(), Duration::ZERO);
    assert_eq!(world.lane.durable_lsn(), lsn);
}

#[test]
fn a_rotational_lane_writes_no_seals() {
    let legs = vec![TestDisk::new(RING_SIZE, true)];
    let world = World::over(legs, Checkpoint::fresh(&crate::testdisk::TestRng::new(3)));
    world.log_frames(1);
    world.clock.advance(Duration::from_secs(1));
    assert!(!world.lane.seal_if_idle());
}

#[test]
fn a_waiter_writes_in_place_unless_the_lane_thread_is_to_do_everything() {
    for legs in [1, 2] {
        let world = World::new(legs);
        let Wait::On(promise) = world.lane.promise(world.append(b"x").lsn, 0) else {
            panic!("nothing was written yet")
        };
        assert!(promise.drive().is_some_and(|fate| fate.is_ok()), "{legs} legs");
        world.lane.set_inline(false);
        let Wait::On(promise) = world.lane.promise(world.append(b"y").lsn, 0) else {
            panic!("nothing was written yet")
        };
        assert_eq!(promise.drive(), None, "{legs} legs");
    }
}

/// Several clients in real threads, each waiting for its own records one by one, and the lane thread.
fn clients_are_all_answered(leg_count: usize, frames_in_flight: u32, inline: bool) {
    const CLIENTS: u64 = 6;
    const RECORDS: u64 = 300;
    let disks: Vec<_> = (0..leg_count).map(|_| TestDisk::new(16 << 20, false)).collect();
    let checkpoint = Checkpoint::fresh(&crate::testdisk::TestRng::new(4));
    let lane = Lane::open(config(&disks), &checkpoint, Arc::new(SystemClock::default()));
    lane.set_frames_in_flight(frames_in_flight);
    lane.set_inline(inline);
    let dseq = AtomicU64::new(1);
    std::thread::scope(|scope| {
        let runner = scope.spawn(|| lane.run());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (lane, dseq) = (&lane, &dseq);
                scope.spawn(move || {
                    for number in 0..RECORDS {
                        let body = [client as u8; 700];
                        let room = lane.reserve(body.len()).expect("16 MiB hold all");
                        let lsn = lane.append(room, DATASET, dseq, Txg(number), 1, &[&body]).expect("open").lsn;
                        assert!(lane.promise(lsn, 0).block().is_ok());
                        assert!(lane.durable_lsn() >= lsn);
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("a client ends well");
        }
        lane.close();
        runner.join().expect("the lane thread ends with the lane");
    });
    let stats = lane.stats();
    assert_eq!(stats.record_count, CLIENTS * RECORDS);
    let found = crate::recovery::scan(&config(&disks), &checkpoint, &mut |_| {}).expect("no contradiction");
    assert_eq!(found.verdict, Verdict::Cut { last: Lsn(CLIENTS * RECORDS), dropped_frames: 0 });
    assert!(found.records.windows(2).all(|pair| pair[0].head.dseq < pair[1].head.dseq), "dseq follows the LSN");
}

#[test]
fn clients_in_threads_are_all_answered() {
    for (legs, frames_in_flight, inline) in
        [(1, 1, true), (1, 1, false), (1, 4, true), (2, 1, true), (2, 2, false), (2, 4, true)]
    {
        clients_are_all_answered(legs, frames_in_flight, inline);
    }
}

/// A scrub knows which leg has lost a frame that an import would need, and says nothing of those that nobody needs any more.
#[test]
fn a_look_at_the_ring_tells_whose_copy_of_a_live_frame_is_wrong() {
    let world = World::new(2);
    let frames: Vec<_> = (0..3).map(|_| world.log(&[5; 1024])).collect();
    let sound = world.lane.look_at_ring();
    assert_eq!((sound.right_bytes, sound.wrong.len()), (2 * 3 * SECTOR as u64, 0), "{frames:?}");
    let at = frame_offset(2);
    world.legs[1].poke(at + 600, &[0x55; 8]);
    let look = world.lane.look_at_ring();
    assert_eq!((look.right_bytes, look.wrong), (5 * SECTOR as u64, vec![(leg_guid(1), 1)]));
    let checkpoint = world.lane.checkpoint(Txg(u64::MAX >> 8));
    world.lane.release(Txg(u64::MAX >> 8), &checkpoint);
    assert_eq!(world.lane.look_at_ring(), crate::RingLook::default(), "nobody needs them");
}
