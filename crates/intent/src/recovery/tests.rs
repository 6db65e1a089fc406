//! Tests for each row of the decision table, over disks that were really written by a lane. The name begins with the
//! row's letter: see `table_tests`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tally_base::{Dseq, LaneId, Lsn, SECTOR, Txg, log_checksum};

use super::{
    Contradiction, Cursor, DatasetVerdict, Disowned, LegFault, ScanError, Verdict, list_frames, merge, scan,
    synced_at_the_beginning,
};
use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::testdisk::{DATASET, TestDisk, TestRng, World, frame_offset, leg_guid, lsns};
use crate::{Checkpoint, Lane, StaleLeg};

/// A byte of a frame's header, and one of its first record's body.
const IN_HEADER: u64 = 80;
const IN_BODY: u64 = HEADER_BYTES as u64 + 33;

/// What a frame says instead of the truth, under a sound checksum.
type Lie = fn(&mut FrameHeader);

fn cut(last: u64) -> Verdict {
    Verdict::Cut { last: Lsn(last), dropped_frames: 0 }
}

fn lost(first: u64, last: u64) -> Verdict {
    Verdict::Lost { ranges: vec![(Lsn(first), Lsn(last))] }
}

#[test]
fn case_a_nothing_was_ever_written() {
    let world = World::new(1);
    let found = world.scan();
    assert_eq!((found.verdict, found.records.len(), found.frames), (Verdict::Empty, 0, 0));
}

#[test]
fn case_b_the_log_ends_where_writing_ended() {
    let world = World::new(1);
    world.log_frames(3);
    let found = world.scan();
    assert_eq!(found.verdict, cut(3));
    assert_eq!(lsns(&found), [1, 2, 3]);
    assert_eq!(found.records[1].body.as_ref(), b"record 2");
    assert_eq!(found.records.iter().map(|record| record.witnessed).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!((found.max_txg, found.frames, found.bytes), (Txg(7), 3, 3 * SECTOR as u64));
}

/// Longer than the pieces in which a ring is read: frames lie across their ends, and what follows is read ahead.
#[test]
fn case_b_in_a_long_ring_nothing_is_lost_between_two_reads() {
    const FRAMES: u64 = 1500;
    let world = World::over(vec![TestDisk::new(32 << 20, false)], Checkpoint::fresh(&TestRng::new(5)));
    let body = |number: u64| vec![number as u8; 9000 + number as usize * 7];
    for number in 0..FRAMES {
        world.append(&body(number));
        assert!(world.lane.drive_frame());
    }
    let found = world.scan();
    assert_eq!((found.frames, found.records.len() as u64), (FRAMES, FRAMES));
    assert!(found.bytes > 16 << 20, "{} bytes are not long", found.bytes);
    for (number, record) in (0..).zip(&found.records) {
        assert_eq!(record.body, body(number), "record {number}");
    }
}

/// A ring is read in long pieces. One that a bad sector behind the last frame spoils is read again, just as far as the
/// frame goes; that was asked for to the byte, which no disk takes: the import ended with a panic, and the pool with
/// it.
#[test]
fn case_b_a_bad_sector_behind_the_log_costs_nothing() {
    let world = World::new(1);
    world.append(&[1; 9001]);
    assert!(world.lane.drive_frame());
    world.legs[0].make_unreadable(4 * SECTOR as u64..5 * SECTOR as u64);
    let found = world.scan();
    assert_eq!((found.frames, lsns(&found)), (1, vec![1]));
}

#[test]
fn case_b_the_last_frame_is_torn() {
    for kept_bytes in [512, HEADER_BYTES, 1024, SECTOR] {
        let world = World::new(1);
        world.log_frames(3);
        world.append(&[9; 6000]);
        let flight = world.lane.begin().expect("a slot is free");
        world.legs[0].poke(frame_offset(4), &flight.bytes()[..kept_bytes]);
        assert_eq!(world.scan().verdict, cut(3), "with {kept_bytes} bytes of the torn frame");
    }
}

#[test]
fn case_b_the_unwitnessed_end_cannot_be_read() {
    let world = World::new(1);
    world.log_frames(3);
    world.legs[0].make_unreadable(frame_offset(3)..frame_offset(4));
    assert_eq!(world.scan().verdict, cut(2));
}

#[test]
fn case_c_a_later_frame_arrived_first() {
    let world = World::new(1);
    world.log_frames(3);
    world.append(b"never arrives");
    let _first = world.lane.begin().expect("a slot is free");
    world.append(b"arrives");
    let second = world.lane.begin().expect("a second slot is free");
    world.legs[0].poke(frame_offset(5), second.bytes());
    let found = world.scan();
    assert_eq!(found.verdict, Verdict::Cut { last: Lsn(3), dropped_frames: 1 });
    assert_eq!(lsns(&found), [1, 2, 3]);
}

#[test]
fn case_d_an_acknowledged_frame_is_gone() {
    let world = World::new(2);
    world.log_frames(6);
    world.legs[0].rot(frame_offset(3) + IN_HEADER);
    world.legs[1].make_unreadable(frame_offset(3)..frame_offset(4));
    let found = world.scan();
    assert_eq!(found.verdict, lost(3, 3));
    assert_eq!(lsns(&found), [1, 2, 4, 5, 6], "what lies behind the loss is read all the same");
}

#[test]
fn case_d_the_uberblock_is_a_witness_too() {
    let mut world = World::new(1);
    world.log_frames(3);
    world.checkpoint = world.lane.checkpoint(Txg(6));
    assert_eq!((world.checkpoint.tail_seq, world.checkpoint.durable_lsn), (1, Lsn(3)));
    world.legs[0].rot(frame_offset(3) + IN_HEADER);
    assert_eq!(world.scan().verdict, lost(3, 3));
}

#[test]
fn case_e_one_leg_has_rotted() {
    let world = World::new(2);
    world.log_frames(4);
    world.legs[0].rot(frame_offset(2) + IN_BODY);
    world.legs[1].rot(frame_offset(3) + IN_HEADER);
    let found = world.scan();
    assert_eq!(found.verdict, cut(4));
    assert_eq!(lsns(&found), [1, 2, 3, 4]);
    let fault = |leg| LegFault { leg: leg_guid(leg), frame_count: 1 };
    assert_eq!(found.leg_faults, [fault(0), fault(1)]);
}

#[test]
fn case_f_each_leg_has_what_the_other_lacks() {
    let world = World::new(2);
    world.log_frames(1);
    world.append(b"on A");
    let on_a = world.lane.begin().expect("a slot is free");
    world.append(b"on B");
    let on_b = world.lane.begin().expect("a second slot is free");
    world.legs[0].poke(frame_offset(2), on_a.bytes());
    world.legs[1].poke(frame_offset(3), on_b.bytes());
    let found = world.scan();
    assert_eq!(found.verdict, cut(3));
    assert_eq!(found.leg_faults, [], "what was not acknowledged is no rot");
}

#[test]
fn case_g_two_writers() {
    let world = World::new(2);
    world.log_frames(2);
    let elsewhere = World::new(1);
    elsewhere.log(b"record 1");
    elsewhere.log(b"another second record");
    world.legs[1].poke(frame_offset(2), &elsewhere.legs[0].peek(frame_offset(2), SECTOR));
    assert_eq!(world.try_scan().unwrap_err(), ScanError::TwoWriters { lane: LaneId(0), pos: frame_offset(2) });
}

/// Leg 1 leaves the set after frame 2.
fn world_with_a_stale_leg() -> World {
    let mut world = World::new(2);
    world.log_frames(2);
    world.legs[1].fail_writes(1);
    world.log_frames(3);
    let leg = world.config.legs.pop().expect("there are two");
    world.config.stale_legs.push(StaleLeg { leg, legset_gen_last: 1 });
    world.config.legset_gen = 2;
    world
}

#[test]
fn case_h_a_stale_leg_repairs_what_was_written_while_it_belonged() {
    let world = world_with_a_stale_leg();
    world.legs[0].rot(frame_offset(2) + IN_HEADER);
    let found = world.scan();
    assert_eq!(found.verdict, cut(5));
    assert_eq!(lsns(&found), [1, 2, 3, 4, 5]);
}

#[test]
fn case_h_a_stale_leg_is_not_believed_for_later_generations() {
    let world = world_with_a_stale_leg();
    world.legs[1].poke(frame_offset(4), &world.legs[0].peek(frame_offset(4), SECTOR));
    world.legs[0].rot(frame_offset(4) + IN_HEADER);
    assert_eq!(world.scan().verdict, lost(4, 4));
}

#[test]
fn case_i_no_leg_of_the_set_is_present() {
    let mut world = World::new(1);
    world.log_frames(1);
    world.config.legs.clear();
    assert_eq!(world.scan().verdict, Verdict::Missing);
}

/// The log disk answered nothing behind its label; the import took the log for empty, and began it anew over acknowledged records.
#[test]
fn case_w_nothing_behind_the_last_frame_can_be_read() {
    for frames in [0, 1, 2] {
        let mut world = World::new(1);
        world.log_frames(2);
        let geometry = world.lane.geometry();
        let from = frames * SECTOR as u64;
        world.legs[0].make_unreadable(from..geometry.size);
        let found = world.scan();
        let lost = vec![(Lsn(frames + 1), Lsn(frames + 1))];
        assert_eq!((found.verdict, found.frames), (Verdict::Lost { ranges: lost }, frames));
        assert_eq!(found.unread_behind, Some(Lsn(frames)));
        // Behind an export nothing was there.
        world.checkpoint.clean = true;
        assert_eq!(world.scan().unread_behind, None);
    }
}

/// The uberblock says that there was more: it was told as gone, though the disk may answer again.
#[test]
fn case_w_what_cannot_be_read_is_known_to_have_been_there() {
    let mut world = World::new(1);
    world.log_frames(3);
    world.checkpoint.durable_lsn = Lsn(2);
    world.legs[0].make_unreadable(SECTOR as u64..world.lane.geometry().size);
    let found = world.scan();
    assert_eq!((found.verdict, found.unread_behind), (lost(2, 2), Some(Lsn(1))));
}

/// What a cut has torn is not readable on every disk; what follows it is.
#[test]
fn case_b_a_tail_that_cannot_be_read() {
    let world = World::new(1);
    world.log_frames(2);
    let window = world.lane.geometry().window_bytes();
    world.legs[0].make_unreadable(2 * SECTOR as u64..window);
    let found = world.scan();
    assert_eq!((found.verdict, found.unread_behind), (cut(2), None));
}

#[test]
fn case_w_another_leg_can_be_read() {
    let world = World::new(2);
    world.log_frames(2);
    world.legs[0].make_unreadable(0..world.lane.geometry().size);
    let found = world.scan();
    assert_eq!((found.verdict, found.frames, found.unread_behind), (cut(2), 2, None));
}

#[test]
fn case_j_frames_of_an_older_lap_are_not_there() {
    let mut world = World::new(1);
    let per_lap = world.lane.geometry().size / SECTOR as u64;
    for txg in 1..=per_lap {
        for _ in 0..2 {
            world.append_in(Txg(txg), b"x");
            assert!(world.lane.drive_frame());
        }
        world.checkpoint = world.lane.checkpoint(Txg(txg));
        world.lane.release(Txg(txg), &world.checkpoint);
    }
    assert!(world.checkpoint.tail_pos > world.lane.geometry().size, "more than one lap");
    assert_eq!(world.scan().verdict, Verdict::Empty);
    world.append_in(Txg(per_lap + 1), b"y");
    assert!(world.lane.drive_frame());
    assert_eq!(world.scan().frames, 1);
}

#[test]
fn case_j_frames_of_another_epoch_are_not_there() {
    let world = World::new(1);
    world.log_frames(3);
    let again = World::over(world.legs.clone(), Checkpoint::fresh(&TestRng::new(2)));
    assert_eq!(again.scan().verdict, Verdict::Empty);
    again.log(b"record 1 of the new life");
    let found = again.scan();
    assert_eq!((found.verdict, found.frames), (cut(1), 1));
}

#[test]
fn case_j_a_copy_of_a_frame_elsewhere_is_not_there() {
    let world = World::new(1);
    world.log_frames(3);
    world.legs[0].poke(frame_offset(4), &world.legs[0].peek(frame_offset(3), SECTOR));
    let found = world.scan();
    assert_eq!((lsns(&found), found.verdict), (vec![1, 2, 3], cut(3)));
}

#[test]
fn case_j_frames_of_another_pool_or_lane_are_not_there() {
    let lies: [Lie; 2] = [|header| header.pool.0 ^= 1, |header| header.lane.0 ^= 1];
    for lie in lies {
        let world = World::new(1);
        world.log_frames(3);
        world.forge(0, 3, lie);
        let found = world.scan();
        assert_eq!((lsns(&found), found.anomalies.len(), found.verdict), (vec![1, 2], 0, cut(2)));
    }
}

#[test]
fn case_k_a_damaged_payload_is_no_frame() {
    let world = World::new(1);
    world.log_frames(5);
    world.legs[0].rot(frame_offset(3) + IN_BODY);
    let found = world.scan();
    assert_eq!(found.verdict, lost(3, 3));
    assert_eq!(lsns(&found), [1, 2, 4, 5]);
}

#[test]
fn case_k_the_header_of_a_damaged_payload_bears_witness() {
    let world = World::new(1);
    world.log_frames(3);
    world.legs[0].rot(frame_offset(2) + IN_HEADER);
    world.legs[0].rot(frame_offset(3) + IN_BODY);
    let found = world.scan();
    assert_eq!(found.verdict, lost(2, 2), "frame 3 says that record 2 was durable; 3 itself nobody witnesses");
    assert_eq!(lsns(&found), [1]);
}

/// What it says of groups counts even where nothing comes after it: no number of a group is used twice.
#[test]
fn case_k_the_header_of_a_damaged_last_frame_tells_of_groups() {
    let world = World::new(1);
    world.log_frames(2);
    world.lane.release(Txg(6), &world.lane.checkpoint(Txg(6)));
    world.append_in(Txg(9), b"in a later group");
    assert!(world.lane.drive_frame());
    world.legs[0].rot(frame_offset(3) + IN_BODY);
    let found = world.scan();
    assert_eq!((found.max_txg, found.max_synced_txg, found.verdict), (Txg(9), Txg(6), cut(2)));
}

#[test]
fn case_l_a_break_of_the_chain_below_the_witness_is_loss() {
    let world = World::new(1);
    world.log_frames(4);
    world.forge(0, 3, |header| header.prev ^= 1);
    // Frame 4 named the old frame 3, so it breaks the chain as well, and nobody witnesses it.
    let found = world.scan();
    assert_eq!(found.verdict, lost(3, 3));
    assert_eq!(lsns(&found), [1, 2]);
}

#[test]
fn case_l_a_break_of_the_chain_above_the_witness_is_a_cut() {
    let world = World::new(1);
    world.log_frames(3);
    world.forge(0, 3, |header| header.prev ^= 1);
    let found = world.scan();
    assert_eq!(found.verdict, cut(2));
    assert_eq!(found.anomalies.len(), 1, "{:?}", found.anomalies);
}

#[test]
fn case_m_the_tail_frame_is_gone() {
    let world = World::new(1);
    world.log_frames(3);
    world.legs[0].rot(frame_offset(1) + IN_HEADER);
    let found = world.scan();
    assert_eq!(found.verdict, lost(1, 1));
    assert!(found.anomalies[0].contains("rolled-back"), "{:?}", found.anomalies);
}

#[test]
fn case_n_a_frame_knows_a_newer_uberblock() {
    let world = World::new(1);
    world.log_frames(2);
    // The uberblock of txg 7 becomes durable, a frame says so, and the uberblock is lost.
    world.lane.release(Txg(7), &world.lane.checkpoint(Txg(7)));
    world.log_frames(1);
    assert_eq!(world.scan().max_synced_txg, Txg(7));
}

/// The first uberblock of a new life is gone, and the import takes the one before it. Frames of the new life stand at
/// the beginning of the ring, of another epoch than the one that is walked; they know of the uberblock that is gone.
#[test]
fn case_n_a_frame_of_a_newer_life_knows_a_newer_uberblock() {
    let old = World::new(1);
    old.log_frames(3);
    let mut new = World::over(old.legs.clone(), Checkpoint::fresh(&TestRng::new(2)));
    new.lane.release(Txg(9), &new.checkpoint);
    assert_eq!(synced_at_the_beginning(&old.config), Txg(0));
    new.log_frames(1);
    assert_eq!(synced_at_the_beginning(&old.config), Txg(9));
    let found = old.scan();
    assert_eq!(found.max_synced_txg, Txg(9), "one that is met on the way tells, too");
    let leg = new.config.legs.pop().expect("there is one");
    new.config.stale_legs.push(StaleLeg { leg, legset_gen_last: 0 });
    assert_eq!(synced_at_the_beginning(&new.config), Txg(9), "a leg outside the set as well");
}

#[test]
fn case_o_a_failed_lane_is_continued_on_another() {
    let first = World::new(1);
    first.log_frames(3);
    // Frame 4 reaches the disk although its write reports an error; its record is appended to the other lane.
    first.append(b"record 4");
    let flight = first.lane.begin().expect("a slot is free");
    first.legs[0].poke(frame_offset(4), flight.bytes());
    let mut second = World::new(1);
    second.config.lane = LaneId(1);
    second.lane = Lane::open(second.config.clone(), &second.checkpoint, second.clock.clone());
    second.dseq.store(4, Ordering::Relaxed);
    second.log_frames(3);

    let cursor = Cursor { log_txg: Txg(6), replay_dseq: Dseq(0), next_dseq: Some(Dseq(1)) };
    let merged = merge(vec![second.scan(), first.scan()], &|_| Some(cursor)).expect("the duplicates are equal");
    let replay = &merged.datasets[&DATASET];
    assert_eq!((replay.duplicates, &replay.verdict), (1, &DatasetVerdict::Whole));
    let dseqs: Vec<_> = replay.records.iter().map(|record| record.head.dseq.0).collect();
    assert_eq!(dseqs, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn case_p_a_crash_during_recovery_is_decided_again() {
    let world = World::new(2);
    world.log_frames(5);
    world.legs[0].rot(frame_offset(2) + IN_HEADER);
    let images: Vec<_> = world.legs.iter().map(|leg| leg.image()).collect();
    let (before, again) = (world.scan(), world.scan());
    assert_eq!(before.records, again.records);
    assert_eq!(before.verdict, again.verdict);
    assert!(world.legs.iter().zip(images).all(|(leg, image)| leg.image() == image), "recovery writes nothing");
    // The replay had come to record 3 when its transaction group was synced.
    let cursor = Cursor { log_txg: Txg(6), replay_dseq: Dseq(3), next_dseq: None };
    let merged = merge(vec![again], &|_| Some(cursor)).expect("one lane");
    let dseqs: Vec<_> = merged.datasets[&DATASET].records.iter().map(|record| record.head.dseq.0).collect();
    assert_eq!(dseqs, [4, 5]);
}

#[test]
fn case_q_two_epochs_cannot_be_live() {
    let world = World::new(1);
    world.log_frames(3);
    world.forge(0, 2, |header| header.epoch ^= 1);
    let found = world.scan();
    assert_eq!(found.contradiction, Some(Contradiction::TwoEpochs { pos: frame_offset(2) }));
    assert_eq!((lsns(&found), found.verdict), (vec![1], lost(2, 2)));
}

/// Two epochs beside each other are the usual thing (row j). Here the other one's frame names the very frame before it.
#[test]
fn case_q_a_frame_of_another_epoch_that_does_not_continue_the_chain_is_no_contradiction() {
    let world = World::new(1);
    world.log_frames(2);
    world.forge(0, 2, |header| {
        header.epoch ^= 1;
        header.prev ^= 1;
    });
    assert_eq!(world.scan().verdict, cut(1));
}

#[test]
fn case_r_the_last_header_of_a_lane_with_one_leg_is_a_stated_limit() {
    let world = World::new(1);
    world.log_frames(3);
    world.legs[0].rot(frame_offset(3) + IN_HEADER);
    assert_eq!(world.scan().verdict, cut(2));
}

#[test]
fn case_r_a_mirror_narrows_the_limit() {
    let world = World::new(2);
    world.log_frames(3);
    world.legs[0].rot(frame_offset(3) + IN_HEADER);
    assert_eq!(world.scan().verdict, cut(3));
}

#[test]
fn case_r_a_seal_narrows_the_limit() {
    let world = World::new(1);
    world.log_frames(3);
    world.clock.advance(Duration::from_millis(50));
    assert!(world.lane.seal_if_idle());
    world.legs[0].rot(frame_offset(3) + IN_HEADER);
    assert_eq!(world.scan().verdict, lost(3, 3));
}

#[test]
fn case_s_a_lost_seal_loses_nothing() {
    let world = World::new(1);
    world.log_frames(3);
    world.clock.advance(Duration::from_millis(50));
    assert!(world.lane.seal_if_idle());
    world.log_frames(2);
    world.legs[0].rot(frame_offset(4) + IN_HEADER);
    let found = world.scan();
    assert_eq!(found.verdict, cut(5));
    assert_eq!(lsns(&found), [1, 2, 3, 4, 5]);
    assert_eq!(found.anomalies.len(), 1);
}

#[test]
fn case_t_numbers_that_do_not_continue_end_the_log_with_a_loss() {
    let lies: [(&str, Lie); 4] = [
        ("a later number in the epoch", |header| header.seq += 1),
        ("a record that was there before", |header| (header.first_lsn, header.durable_lsn) = (Lsn(2), Lsn(1))),
        ("a record too far", |header| header.first_lsn = Lsn(4)),
        ("a record that was there before, behind another frame", |header| {
            (header.first_lsn, header.durable_lsn) = (Lsn(2), Lsn(1));
            header.prev ^= 1;
        }),
    ];
    for (what, lie) in lies {
        let world = World::new(1);
        world.log_frames(3);
        world.forge(0, 3, lie);
        let found = world.scan();
        let contradiction = Contradiction::Misnumbered { pos: frame_offset(3) };
        assert_eq!(found.contradiction, Some(contradiction), "{what}");
        assert_eq!((lsns(&found), found.verdict), (vec![1, 2], lost(3, 3)), "{what}");
    }
}

#[test]
fn case_t_numbers_of_a_later_frame_that_were_there_before_end_the_log_with_a_loss() {
    let world = World::new(1);
    world.log_frames(4);
    world.legs[0].rot(frame_offset(3) + IN_HEADER);
    world.forge(0, 4, |header| (header.first_lsn, header.durable_lsn) = (Lsn(2), Lsn(1)));
    let found = world.scan();
    assert_eq!(found.contradiction, Some(Contradiction::Misnumbered { pos: frame_offset(3) }));
    assert_eq!((lsns(&found), found.verdict), (vec![1, 2], lost(3, 3)));
}

#[test]
fn case_u_records_that_are_none_under_a_sound_checksum_are_lost_and_what_follows_is_not() {
    let world = World::new(1);
    world.log_frames(2);
    let mut sector = world.legs[0].peek(frame_offset(2), SECTOR);
    let (mut header, _) = FrameHeader::decode(&sector).expect("there is a frame");
    let payload = HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize;
    // The record's length, longer than the frame.
    sector[HEADER_BYTES..HEADER_BYTES + 4].fill(0xff);
    header.payload_checksum = log_checksum(&sector[payload]);
    header.encode(&mut sector);
    world.legs[0].poke(frame_offset(2), &sector);
    let found = world.scan();
    assert_eq!(found.contradiction, Some(Contradiction::Malformed { pos: frame_offset(2) }));
    assert_eq!((lsns(&found), found.verdict), (vec![1], lost(2, 2)));
}

/// A lane that had not been told that leg 1 was struck off wrote its last frames there alone, and acknowledged them.
#[test]
fn case_v_a_leg_outside_the_set_has_what_no_other_has() {
    for (rotten, last) in [(6, 5), (5, 5), (4, 5)] {
        let mut world = world_with_a_stale_leg();
        for frame in 3..=5 {
            world.legs[1].poke(frame_offset(frame), &world.legs[0].peek(frame_offset(frame), SECTOR));
            if frame >= rotten {
                world.legs[0].rot(frame_offset(frame) + IN_HEADER);
            }
        }
        let found = world.scan();
        let gone = (rotten <= last).then_some((rotten, last));
        let leg = leg_guid(1);
        let disowned = gone.map(|(first, last)| Disowned { leg, first: Lsn(first), last: Lsn(last) });
        assert_eq!(found.disowned, disowned);
        assert_eq!(found.verdict, gone.map_or(cut(5), |(first, last)| lost(first, last)));
        // What the lane has not gone on to is nobody's.
        world.config.stale_legs[0].legset_gen_last = 2;
        assert_eq!(world.scan().disowned, None);
    }
}

#[test]
fn frames_behind_a_clean_export_are_remarked() {
    let mut world = World::new(1);
    world.checkpoint.clean = true;
    assert_eq!(world.scan().anomalies, [""; 0]);
    world.log_frames(1);
    assert!(world.scan().anomalies[0].contains("exported cleanly"));
}

#[test]
fn a_log_that_is_damaged_everywhere_is_read_to_its_end() {
    let world = World::new(1);
    world.log_frames(40);
    for frame in (2..40).step_by(2) {
        world.legs[0].rot(frame_offset(frame) + IN_HEADER);
    }
    let found = world.scan();
    let odd: Vec<u64> = (1..=40).filter(|lsn| lsn % 2 == 1 || *lsn == 40).collect();
    assert_eq!(lsns(&found), odd);
    assert!(matches!(&found.verdict, Verdict::Lost { ranges } if ranges.len() == 19), "{:?}", found.verdict);
}

#[test]
fn frames_of_all_lengths_are_found_over_several_laps() {
    let mut world = World::new(1);
    let geometry = world.lane.geometry();
    for txg in 1_u64.. {
        let length = usize::try_from(txg * 1117 % geometry.record_bytes_max() as u64).expect("it is short");
        world.append_in(Txg(txg), &vec![7; length]);
        assert!(world.lane.drive_frame());
        let found = world.scan();
        let last = found.records.last().expect("at least the newest record is live");
        assert_eq!((last.head.txg, last.body.len(), found.verdict), (Txg(txg), length, cut(txg)));
        world.checkpoint = world.lane.checkpoint(Txg(txg.saturating_sub(2)));
        world.lane.release(Txg(txg.saturating_sub(2)), &world.checkpoint);
        if world.checkpoint.tail_pos > 3 * geometry.size {
            break;
        }
    }
}

#[test]
fn a_ring_of_another_shape_is_refused() {
    let mut world = World::new(1);
    world.config.geometry.frame_bytes_max = 5000;
    assert!(matches!(world.try_scan(), Err(ScanError::Geometry { .. })));
    assert_eq!(list_frames(&world.config, &world.checkpoint), []);
}

#[test]
fn inspection_lists_every_frame_and_goes_on_after_damage() {
    let world = World::new(2);
    world.log_frames(4);
    world.legs[0].rot(frame_offset(1) + IN_HEADER);
    world.legs[0].rot(frame_offset(2) + IN_BODY);
    let frames = list_frames(&world.config, &world.checkpoint);
    let seen: Vec<_> =
        frames.iter().map(|frame| (frame.leg == leg_guid(0), frame.header.seq, frame.is_sound)).collect();
    let leg_0 = [(true, 2, false), (true, 3, true), (true, 4, true)];
    let leg_1 = [(false, 1, true), (false, 2, true), (false, 3, true), (false, 4, true)];
    assert_eq!(seen, [&leg_0[..], &leg_1[..]].concat());
    assert!(frames.iter().all(|frame| frame.is_live));
    assert_eq!(&frames[1].records[0].body[..], b"record 3");
    assert_eq!(frames[1].records[0].offset, frames[1].offset + 136, "the first record follows the header");
    let fresh = Checkpoint::fresh(&TestRng::new(9));
    assert!(list_frames(&world.config, &fresh).iter().all(|frame| !frame.is_live), "of an older life");
}

#[test]
fn a_disk_of_noise_is_an_empty_log() {
    let disk = TestDisk::new(256 << 10, false);
    let mut noise = vec![0; 256 << 10];
    tally_base::Rng::fill(&TestRng::new(77), &mut noise);
    disk.poke(0, &noise);
    let world = World::over(vec![Arc::clone(&disk)], Checkpoint::fresh(&TestRng::new(1)));
    assert_eq!(world.scan().verdict, Verdict::Empty);
    assert_eq!(scan(&world.config, &world.checkpoint, &mut |_| {}).expect("no contradiction").anomalies, [""; 0]);
}
