use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;
use crate::v4::state::clients::desk::{Desk, sequence_on, word};
use crate::v4::state::{Begun, Created, LEASE_DEFAULT as LEASE, Sequence};
use crate::v4::status::Status;

fn told(desk: &Desk, asked: &Sequence) -> String {
    word(&desk.begin(asked))
}

fn in_use(desk: &Desk, created: &Created) -> usize {
    desk.sessions.find(created.session).unwrap().in_use()
}

#[test]
fn row_a_the_next_request_does_not_begin_before_this_one_is_done() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let guard = desk.new_on(&created, 3, 1);
    assert_eq!(told(&desk, &sequence_on(&created, 3, 2)), "SeqMisordered");
    assert_eq!(told(&desk, &sequence_on(&created, 2, 1)), "new", "slots do not wait for each other");
    guard.finish(b"done");
    assert_eq!(told(&desk, &sequence_on(&created, 3, 2)), "new");
}

#[test]
fn row_b_the_next_one_is_new_whatever_became_of_the_last() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    desk.new_on(&created, 0, 1).finish(b"kept");
    desk.new_on(&created, 0, 2).finish(&[0; 4096]);
    drop(desk.new_on(&created, 0, 3));
    desk.new_on(&created, 0, 4).finish(b"");
    assert_eq!(in_use(&desk, &created), 0);
    // Sequences begin again behind the last.
    for life in [Life::Kept, Life::TooLong, Life::BrokenOff] {
        let last = Slot { sequence: u32::MAX, life, ..Slot::default() };
        assert_eq!((last.look(0, 0), last.look(1, 0)), (Row::New, Row::Misordered));
    }
}

#[test]
fn row_c_a_retry_finds_its_request_in_progress() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let guard = desk.new_on(&created, 0, 1);
    let elsewhere = Sequence { connection: 2, ..sequence_on(&created, 0, 1) };
    for asked in [sequence_on(&created, 0, 1), elsewhere] {
        assert_eq!(told(&desk, &asked), "in progress");
    }
    guard.finish(b"done");
    assert_eq!(told(&desk, &elsewhere), "retry");
}

#[test]
fn row_d_a_retry_gets_the_bytes_of_the_first() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let longest = [7; 2048];
    for (sequence, results) in (1..).zip([&b"first"[..], b"", &longest]) {
        desk.new_on(&created, 0, sequence).finish(results);
        for connection in [1, 2] {
            let again = Sequence { connection, cache_this: true, ..sequence_on(&created, 0, sequence) };
            let Ok(Begun::Retry(bytes)) = desk.begin(&again) else { panic!() };
            assert_eq!(&bytes[..], results);
        }
    }
}

#[test]
fn row_e_what_is_too_long_is_not_kept() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    desk.new_on(&created, 0, 1).finish(&[7; 2049]);
    for _ in 0..2 {
        assert_eq!(told(&desk, &sequence_on(&created, 0, 1)), "uncached");
    }
}

#[test]
fn row_f_a_request_that_was_broken_off_is_not_carried_out_again() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    desk.new_on(&created, 0, 1).finish(b"before");
    drop(desk.new_on(&created, 0, 2));
    for _ in 0..2 {
        assert_eq!(told(&desk, &sequence_on(&created, 0, 2)), "faulted");
    }
}

#[test]
fn row_g_nobody_gets_the_results_of_another_request() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let false_retry = |slot| Sequence { fingerprint: 78, ..sequence_on(&created, slot, 1) };
    desk.new_on(&created, 0, 1).finish(b"kept");
    desk.new_on(&created, 1, 1).finish(&[0; 4096]);
    drop(desk.new_on(&created, 2, 1));
    let guard = desk.new_on(&created, 3, 1);
    for slot in 0..4 {
        assert_eq!(told(&desk, &false_retry(slot)), "SeqFalseRetry");
    }
    guard.finish(b"done");
    assert_eq!(told(&desk, &sequence_on(&created, 3, 1)), "retry");
}

#[test]
fn row_h_any_other_sequence_is_misordered() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    for sequence in [0, 2, u32::MAX] {
        assert_eq!(told(&desk, &sequence_on(&created, 0, sequence)), "SeqMisordered", "never used");
    }
    desk.new_on(&created, 0, 1).finish(b"kept");
    for sequence in [0, 3, u32::MAX] {
        assert_eq!(told(&desk, &sequence_on(&created, 0, sequence)), "SeqMisordered");
    }
    assert_eq!(told(&desk, &sequence_on(&created, 0, 1)), "retry");
}

#[test]
fn a_sequence_that_fails_changes_nothing_and_renews_no_lease() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let session = desk.sessions.find(created.session).unwrap();
    let before = session.presence().heard();
    desk.new_on(&created, 0, 1).finish(b"kept");
    assert_eq!(session.presence().heard(), desk.now.max(before));
    desk.now += LEASE * 2;
    let mut strange = created;
    strange.session.0[15] ^= 1;
    let good = sequence_on(&created, 0, 2);
    for (asked, refused) in [
        (sequence_on(&strange, 0, 2), Status::BadSession),
        (Sequence { slot: 64, ..good }, Status::BadSlot),
        (Sequence { slot: u32::MAX, ..good }, Status::BadSlot),
        (Sequence { highest: 64, ..good }, Status::BadHighSlot),
        (Sequence { sequence: 3, ..good }, Status::SeqMisordered),
        (Sequence { sequence: 1, fingerprint: 78, ..good }, Status::SeqFalseRetry),
    ] {
        assert_eq!(told(&desk, &Sequence { connection: 2, ..asked }), format!("{refused:?}"));
    }
    assert!(session.presence().is_late(desk.now) && !session.is_bound(2));
    assert_eq!(told(&desk, &sequence_on(&created, 0, 1)), "retry");
    assert!(!session.presence().is_late(desk.now), "a retry is a word of the client");
}

/// A reply that is to be kept is as short as what is kept.
#[test]
fn who_wants_the_reply_kept_gets_a_shorter_one() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    assert_eq!(desk.new_on(&created, 0, 1).reply_bytes_max(), 1 << 20);
    let keeps = Sequence { cache_this: true, ..sequence_on(&created, 0, 2) };
    let Ok(Begun::New(guard, _)) = desk.begin(&keeps) else { panic!() };
    assert_eq!(guard.reply_bytes_max(), 2048);
}

/// A slot that stays in use is lost to its session for ever; another server lost one with each compound that ended unusually (rules V4).
#[test]
fn a_million_requests_that_are_broken_off_leave_no_slot_in_use() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let mut sequences = [0; 64];
    for round in 0..1_000_000_u32 {
        let slot = round % 64;
        sequences[slot as usize] += 1;
        let guard = desk.new_on(&created, slot, sequences[slot as usize]);
        match round % 1000 {
            0 => drop(catch_unwind(AssertUnwindSafe(move || {
                let _held = guard;
                resume_unwind(Box::new("a worker panics"));
            }))),
            1 => std::thread::spawn(move || drop(guard)).join().unwrap(),
            _ => drop(guard),
        }
    }
    assert_eq!(in_use(&desk, &created), 0);
}
