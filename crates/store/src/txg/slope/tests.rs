use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const MIB: u64 = 1 << 20;
/// Bulk has 14 MiB of it, and small requests 15.
const GROUP: u64 = 16 * MIB;

fn bulk(destination: u64) -> Load {
    Load {
        destination: Destination([1, destination, 0]),
        bytes: MIB,
        group_bytes_max: GROUP,
        ring_group_bytes_max: Some(GROUP),
    }
}

fn small(destination: u64) -> Load {
    Load {
        destination: Destination([2, destination, 0]),
        bytes: 64 << 10,
        group_bytes_max: GROUP,
        ring_group_bytes_max: Some(GROUP),
    }
}

/// Asks for so many at once; those that passed have settled in `txg`.
fn bring(slope: &mut Slope, txg: Txg, loads: impl Iterator<Item = Load>) -> Vec<u64> {
    loads.filter_map(|load| bring_one(slope, txg, load).err()).collect()
}

fn bring_one(slope: &mut Slope, txg: Txg, load: Load) -> Result<(), u64> {
    slope.ask(load)?;
    slope.add(txg, Brought { bytes: load.bytes, more_bytes: load.bytes, takes_ring: true });
    slope.give_back(&load);
    Ok(())
}

/// Writes down in which order tickets are called.
fn listen(slope: &mut Slope, tickets: &[u64]) -> Arc<parking_lot::Mutex<Vec<u64>>> {
    let called: Arc<parking_lot::Mutex<Vec<u64>>> = Arc::default();
    for ticket in tickets {
        let (called, ticket) = (Arc::clone(&called), *ticket);
        let over = slope.tell(ticket, Box::new(move |_| called.lock().push(ticket)));
        assert!(over.is_none(), "it waits");
    }
    called
}

fn call(woken: Vec<Then>) {
    woken.into_iter().for_each(|then| then(Ok(tally_base::Kept::default())));
}

#[test]
fn below_the_bound_nobody_waits_and_above_it_one_comes_for_each_that_is_written() {
    let mut slope = Slope::default();
    let tickets = bring(&mut slope, Txg(5), (0..20).map(bulk));
    assert_eq!(tickets.len(), 6, "seven eighths of 16 have passed");
    let called = listen(&mut slope, &tickets);
    for step in 1..=6 {
        // Others come all the time, and nobody passes those who wait.
        assert!(slope.ask(bulk(100 + step)).is_err());
        slope.wrote(Txg(5), MIB);
        call(slope.advance(Txg(4)));
        assert_eq!(*called.lock(), tickets[..step as usize], "in the order in which they came, one at a time");
        assert_eq!(slope.ahead_bytes(), 14 * MIB, "its room is kept");
        assert_eq!(bring_one(&mut slope, Txg(6), bulk(13 + step)), Ok(()), "it comes again");
        assert_eq!(slope.ahead_bytes(), 14 * MIB);
    }
}

#[test]
fn whoever_is_kept_room_for_finds_it_and_nobody_else_does() {
    let mut slope = Slope::default();
    let tickets = bring(&mut slope, Txg(5), (0..15).map(bulk));
    slope.wrote(Txg(5), MIB);
    assert!(slope.advance(Txg(4)).is_empty(), "nobody listens yet");
    assert!(!slope.is_waiting(tickets[0]));
    assert!(bring_one(&mut slope, Txg(6), bulk(99)).is_err(), "the room is somebody's");
    assert_eq!(bring_one(&mut slope, Txg(6), bulk(14)), Ok(()));
    assert!(bring_one(&mut slope, Txg(6), bulk(14)).is_err(), "once");
}

#[test]
fn room_that_nobody_comes_for_is_given_up() {
    let mut slope = Slope::default();
    bring(&mut slope, Txg(5), (0..15).map(bulk));
    slope.wrote(Txg(5), MIB);
    slope.advance(Txg(4));
    slope.synced(Txg(5));
    assert_eq!(slope.ahead_bytes(), MIB, "it may come while its own group is open");
    slope.synced(Txg(6));
    assert_eq!(slope.ahead_bytes(), 0);
    // And at once where it is known.
    bring(&mut slope, Txg(7), (0..14).map(bulk));
    let [first, second] = bring(&mut slope, Txg(7), (14..16).map(bulk))[..] else { panic!("two wait") };
    let called = listen(&mut slope, &[second]);
    slope.forget(first);
    slope.wrote(Txg(7), MIB);
    call(slope.advance(Txg(6)));
    assert_eq!(*called.lock(), [second], "who has gone is not waited for");
}

#[test]
fn small_requests_pass_those_that_wait_and_leave_them_a_share() {
    let mut slope = Slope::default();
    let waiting = bring(&mut slope, Txg(5), (0..16).map(bulk));
    assert_eq!(waiting.len(), 2);
    let refused = bring(&mut slope, Txg(5), (0..20).map(small));
    assert_eq!(refused.len(), 4, "there is a mebibyte more for them, and an end");
    // They keep all that is written, and bulk has its quarter all the same.
    let called = listen(&mut slope, &waiting);
    slope.synced(Txg(5));
    bring(&mut slope, Txg(6), (100..500).map(small));
    call(slope.advance(Txg(5)));
    assert!(called.lock().len() == 2, "{:?}", called.lock());
    assert!(slope.ahead_bytes() > 15 * MIB && slope.ahead_bytes() <= 15 * MIB + 2 * MIB, "{}", slope.ahead_bytes());
}

#[test]
fn what_is_larger_than_all_bounds_passes_when_no_other_bulk_is_there() {
    let mut slope = Slope::default();
    let huge = Load { bytes: 100 * MIB, ..bulk(0) };
    assert_eq!(bring_one(&mut slope, Txg(5), bulk(1)), Ok(()));
    let ticket = slope.ask(huge).expect_err("not beside another");
    assert!(slope.ask(bulk(2)).is_err(), "and others wait behind it");
    // Small ones go on and on.
    assert!(bring(&mut slope, Txg(6), (0..100).map(small)).is_empty());
    slope.synced(Txg(5));
    slope.advance(Txg(5));
    assert!(!slope.is_waiting(ticket));
    assert_eq!(slope.ask(huge), Ok(()));
}

/// A group's data is written once, however often it was written over, and however the group is written.
#[test]
fn what_a_sync_ends_is_gone_whatever_was_written_of_it() {
    let mut slope = Slope::default();
    bring(&mut slope, Txg(5), (0..10).map(bulk));
    slope.wrote(Txg(6), 3 * MIB);
    assert_eq!(slope.ahead_bytes(), 10 * MIB, "not its group");
    slope.wrote(Txg(5), 50 * MIB);
    bring(&mut slope, Txg(6), (0..2).map(bulk));
    assert_eq!(slope.ahead_bytes(), 2 * MIB, "leaves and patches are no progress of another group");
    slope.synced(Txg(5));
    assert_eq!((slope.ahead_bytes(), slope.bytes_of(Txg(6))), (2 * MIB, 2 * MIB));
}

#[test]
fn what_takes_nothing_of_a_ring_fills_memory_and_leaves_the_ring_to_others() {
    let mut slope = Slope::default();
    let in_memory = Load { group_bytes_max: 8 * GROUP, ring_group_bytes_max: None, ..bulk(1) };
    for _ in 0..50 {
        slope.ask(in_memory).expect("memory has room");
        slope.add(Txg(5), Brought { bytes: MIB, more_bytes: MIB, takes_ring: false });
        slope.give_back(&in_memory);
    }
    let logged = |load| Load { group_bytes_max: 8 * GROUP, ..load };
    assert!(logged(small(1)).is_light(slope.ahead_bytes(), slope.ring_bytes()), "no small promise waits");
    let tickets = bring(&mut slope, Txg(5), (0..20).map(|place| logged(bulk(place))));
    assert_eq!((tickets.len(), slope.ring_bytes()), (6, 14 * MIB), "seven eighths of the ring's 16");
}

#[test]
fn at_the_end_everybody_is_told() {
    let mut slope = Slope::default();
    let tickets = bring(&mut slope, Txg(5), (0..20).map(bulk));
    let told = Arc::new(AtomicU64::new(0));
    for ticket in &tickets {
        let told = Arc::clone(&told);
        let one_more = move |_| {
            told.fetch_add(1, Ordering::SeqCst);
        };
        assert!(slope.tell(*ticket, Box::new(one_more)).is_none());
    }
    call(slope.end());
    assert_eq!((told.load(Ordering::SeqCst), slope.waiting()), (6, 0));
}

/// Who writes over half of what is there already brings half of what it asks for. It is bulk all the same.
#[test]
fn bulk_that_is_half_written_over_is_bulk() {
    let mut slope = Slope::default();
    let load = |place| Load { destination: Destination([1, 1, place]), bytes: 2 * SMALL_BYTES_MAX, ..bulk(1) };
    let mut passed = 0;
    while passed < 1000 && slope.ask(load(passed)).is_ok() {
        slope.add(Txg(5), Brought { bytes: 2 * SMALL_BYTES_MAX, more_bytes: SMALL_BYTES_MAX, takes_ring: true });
        slope.give_back(&load(passed));
        passed += 1;
    }
    assert!(slope.ahead_bytes() <= bulk_max(GROUP), "{} MiB are ahead", slope.ahead_bytes() / MIB);
    assert_eq!(passed, bulk_max(GROUP) / SMALL_BYTES_MAX - 1);
}
