//! Random histories with power cuts, on the real server and on the model: a fixed share of what `cargo xtask sim` runs.

use tally_fs::filer::ImportOptions;
use tally_sim::chance::Chance;
use tally_sim::history::{Plan, Syncs, Totals, Trouble};
use tally_sim::machine::{Machine, Shape};
use tally_sim::sweep::{Sweep, sweep};
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;

fn run(seeds: std::ops::Range<u64>, syncs: Syncs) -> Totals {
    let plan =
        |seed| Plan { seed, steps: 150, syncs, trouble: Trouble::None, reserves: seed % 3 == 0, skipped: Vec::new() };
    let outcome = sweep(&Sweep::over(seeds, &plan));
    let totals = outcome.totals;
    println!("{totals:?}");
    if let Some(report) = outcome.first_failure(true) {
        panic!("{report}");
    }
    totals
}

#[test]
fn one_after_the_other() {
    let totals = run(0..40, Syncs::Between);
    assert!(totals.rewinds > 10 && totals.rewinds_cut > 0 && totals.given_up > 0, "{totals:?}");
    assert!(totals.went_on > 0 && totals.refused_meanwhile > 0, "{totals:?}");
    assert!(totals.over_quota > 0 && totals.access_asked > 0 && totals.reads_denied > 0, "{totals:?}");
}

#[test]
fn with_requests_inside_of_syncs() {
    let totals = run(0..40, Syncs::Around);
    assert!(totals.pieces_listed > 0, "{totals:?}");
}

/// Some twenty thousand looks: none at all would prove nothing.
#[test]
fn with_syncs_from_another_thread() {
    let totals = run(0..8, Syncs::Beside);
    assert!(totals.looks_beside > 0 && totals.pieces_listed > 0, "{totals:?}");
}

/// A seed of `cargo xtask sim` as it was drawn when it failed.
fn kept(seed: u64, syncs: Syncs, trouble: Trouble) -> Totals {
    let plan = |seed| Plan { seed, steps: 400, syncs, trouble, reserves: false, skipped: Vec::new() };
    let outcome = sweep(&Sweep::over(seed..seed + 1, &plan));
    let totals = outcome.totals;
    if let Some(report) = outcome.first_failure(true) {
        panic!("{report}");
    }
    totals
}

/// Seed 511, as it was drawn on 2026-11-23. A RENAME was refused for want of its source, waited to say so until what
/// made that true was durable, and was dropped with its connection. Then a file of the source's name was made, and the
/// repetition moved it. So it must be: what was refused has left nothing to answer from. The history wanted a refusal.
#[test]
fn a_refused_request_that_was_dropped_is_carried_out_like_any_other() {
    assert!(kept(511, Syncs::Between, Trouble::Rot).dropped > 0);
}

/// Seed 1047, as it was drawn on the same day. A WRITE into many blocks was not answered when the power went, and was
/// lost, as it may be. One block of the file had rotted, and the comparison left all of the file out: so the oracle
/// took the WRITE for survived, and when the rotten block was overwritten it missed the bytes. One block that cannot be
/// read excuses no other.
#[test]
fn what_a_rotten_block_hides_is_no_more_than_the_block() {
    assert!(kept(1047, Syncs::Between, Trouble::Rot).above_rot > 0);
}

/// Seed 2594, as it was drawn on the same day. A CREATE found its file, so that it changed nothing, and was dropped
/// with its connection; the file was renamed, and the repetition made a new one. So it must be, as above.
#[test]
fn a_request_without_effect_that_was_dropped_is_carried_out_like_any_other() {
    assert!(kept(2594, Syncs::Around, Trouble::None).dropped > 0);
}

/// Seed 4313, as it was drawn on the same day. A WRITE that a power cut had taken came again, was refused for a quota,
/// and came once more when there was none: then it got the answer of before, which the history took for a new one.
#[test]
fn a_repetition_that_was_refused_is_answered_so_again() {
    assert!(kept(4313, Syncs::Between, Trouble::Legs).over_quota > 0);
}

/// Seeds 1803 and 2520, as they were drawn on the same day: `fs/tests/brim.rs` tells what they found.
#[test]
fn a_quota_holds_where_disks_fail_and_beside_a_sync() {
    assert!(kept(1803, Syncs::Between, Trouble::Turns).over_quota > 0);
    assert!(kept(2520, Syncs::Around, Trouble::None).over_quota > 0);
}

/// Seed 30149, as it was drawn on 2026-11-23. The power went when a file had been removed and another one made under its
/// name, neither of which was answered. Neither was on disk; but names and bytes look alike before and behind, and the
/// state behind was taken for the one found, in which the handle of the old file has to be stale.
#[test]
fn an_object_tells_states_apart_that_look_alike_by_name() {
    kept(30149, Syncs::Around, Trouble::Refusals);
}

/// Seed 20283, as it was drawn on the same day: `fs/tests/rot.rs` tells what it found, of a last block that had rotted.
#[test]
fn what_is_written_anew_above_rot_is_kept() {
    kept(20283, Syncs::Between, Trouble::Rot);
}

/// Seed 810045, as it was drawn on 2026-11-25: `fs/tests/brim.rs` tells what it found, of a quota and a read that the disk
/// refused.
#[test]
fn a_quota_is_not_blamed_for_what_a_disk_refuses() {
    assert!(kept(810_045, Syncs::Between, Trouble::Refusals).over_quota > 0);
}

/// Seed 810117, as it was drawn on the same day. A SETATTR of the mode of a symbolic link was lost, as it may be; but the
/// comparison left such modes out, took the state behind it for the one found, and missed the mode in an ACCESS.
#[test]
fn the_mode_of_a_symbolic_link_tells_states_apart() {
    assert!(kept(810_117, Syncs::Around, Trouble::Refusals).access_asked > 0);
}

/// Seed 810385, as it was drawn on the same day. One leg of a mirror had rotted, and the pool was imported from that one
/// alone: space maps that nobody else has any more could not be read, and the import said so, as it has to.
#[test]
fn a_leg_that_has_rotted_is_not_enough_by_itself() {
    kept(810_385, Syncs::Between, Trouble::Legs);
}

/// Seed 831295, as it was drawn on 2026-11-26. Between two parts of a COMMIT somebody wrote over the first one, so that both
/// together were more than the log takes, and the rest waited for its group. The history expected it in the log.
#[test]
fn all_parts_of_a_commit_go_by_the_bound_together() {
    kept(831_295, Syncs::Between, Trouble::Rot);
}

/// Seed 832407, as it was drawn on the same day. Between the look at what a rotten leaf would cost and the rot itself a
/// neighbour of the leaf became empty, so that the leaf stood for its keys, too: those of the blocks of a file that has none,
/// since all that was written into it were zeroes. The history held that file for sound, but nobody knew any more that it
/// has no blocks.
#[test]
fn a_leaf_that_rots_later_damages_what_it_stands_for_by_then() {
    kept(832_407, Syncs::Between, Trouble::Rot);
}

/// Seed 920105, as it was drawn on 2026-11-26. A COMMIT waited for its group, since a WRITE that was placed had taken along what it
/// was of, and the power went; a SETATTR behind it was answered from the log. The history knew that nobody waits for such a
/// COMMIT, and yet expected it before whatever was logged later.
#[test]
fn what_is_logged_behind_a_commit_that_waits_is_there_without_it() {
    kept(920_105, Syncs::Between, Trouble::Legs);
}

/// Seed 920215, drawn on the same day. Another node rotted while all that was below it was in memory, and the power went: so the
/// first who could not read an inode was the replay, which then believed its record. The history had asked when it could
/// still be read, and again when it could be read again.
#[test]
fn an_inode_that_only_the_replay_misses_is_believed() {
    kept(920_215, Syncs::Between, Trouble::Rot);
}

/// Seed 841102, as it was drawn on the same day. A WRITE that was placed took along what stayed in memory before it, so that a
/// COMMIT of that waited for its group; the history believed it in the log, and that whoever was refused meanwhile had
/// waited for it.
#[test]
fn nobody_waits_for_the_commit_of_what_a_write_took_along() {
    kept(841_102, Syncs::Between, Trouble::Disks);
}

/// Seed 1000360, as it was drawn on 2026-11-27. A file was cut, and grew again before the reaper had come by. What was cut and not
/// freed yet counted as the file's when the WRITE was charged, so that it grew for nothing, and the quota was passed for
/// good. That the pool had gone back in between had no part in it.
#[test]
fn a_quota_holds_for_a_file_that_was_cut_and_grows_again() {
    assert!(kept(1_000_360, Syncs::Around, Trouble::None).over_quota > 0);
}

/// Seed 46, drawn on the same day. A sector could not be read while a disk joined, and the copy was cut off; what went on with it, lives
/// later, could read everything and said all the same that it could not, as the job had kept the count and not the place.
#[test]
fn what_could_not_be_read_before_a_copy_was_cut_off_is_asked_again() {
    kept(46, Syncs::Between, Trouble::Disks);
}

/// Seed 4200126, drawn on the same day. A disk had fallen silent and nobody had asked it yet, so that its mirror looked whole, and the other
/// one was pulled: the group found none of the two. The history knew of silent disks only once they owed an answer.
#[test]
fn no_disk_is_pulled_beside_a_silent_one() {
    kept(4_200_126, Syncs::Between, Trouble::Disks);
}

/// Seed 478, drawn on 2026-11-28. A copy to a disk was cut off, and then one that was to replace that disk: both were to go on. When the
/// second copy was over the first one's disk had left, and the history asked for it all the same.
#[test]
fn a_copy_does_not_go_on_to_a_disk_that_was_replaced_meanwhile() {
    kept(478, Syncs::Between, Trouble::Disks);
}

/// Seed 814, drawn on the same day. A sector of the only disk could not be read while a scrub ran, which was paused; the one that went on,
/// lives later, could read everything, and its count had that sector still, as its report is of the whole scrub.
#[test]
fn what_a_scrub_could_not_read_before_it_was_paused_stays_in_its_count() {
    kept(814, Syncs::Between, Trouble::Disks);
}

/// Seed 39 of the first version. An import raises the labels' sequence number on one disk after the other. Cut there,
/// the log disk was one behind, which the next import accepts; cut there again it was two behind, was taken for an
/// older copy, and the pool with everything acknowledged in its log could not be imported any more.
#[test]
fn imports_that_are_cut_short_one_after_the_other_cost_no_disk() {
    let shape = Shape {
        vdevs: ["/d/data", "log", "/d/slog"].map(str::to_owned).to_vec(),
        data_bytes: 16 << 20,
        log_bytes: 16 << 20,
        tuning: Tuning::default(),
    };
    for first in 1..10 {
        for second in 1..10 {
            let mut machine = Machine::new(shape.clone(), first);
            machine.create(PropertySet::new()).expect("empty disks");
            for (number, cut) in [first, second, first].into_iter().enumerate() {
                machine.lose_power(&mut Chance::new(number as u64 + 1, 0));
                machine.power().plan_cut(Some(cut));
                let _cut_short = machine.import(&ImportOptions::default());
            }
            machine.lose_power(&mut Chance::new(4, 0));
            if let Err(error) = machine.import(&ImportOptions::default()) {
                panic!("cut after {first}, {second} and {first} writes: {error}");
            }
        }
    }
}

/// Seed 3100077, as it was drawn on 2026-11-27. An UNSTABLE WRITE was answered, the pool was suspended and went on. The server forgets
/// with its life what it answered without having waited, and carried the WRITE out again, as it says; the oracle wanted the first answer.
#[test]
fn what_was_answered_at_once_is_forgotten_with_a_life_of_its_pool() {
    assert!(kept(3_100_077, Syncs::Between, Trouble::Refusals).went_on > 0);
}

/// Seed 1840, as it was drawn on 2026-11-28. A dataset was destroyed, and the removal of the directory below it waited for its promise, in a world in
/// which nobody writes groups but the command that waited: for ever. It has a group written itself where there is no room, and else waits
/// for nothing.
#[test]
fn a_destroyed_dataset_does_not_wait_for_its_directory() {
    kept(1840, Syncs::Around, Trouble::None);
}

/// Seed 1126, as it was drawn on 2026-11-28. One look had two errands: a copy to go on with, and a spare to take for a disk that left when that copy had
/// ended. The daemon drops such a one; the history asked for the disk.
#[test]
fn an_errand_for_a_disk_that_has_left_is_dropped() {
    kept(1126, Syncs::Between, Trouble::Disks);
}

/// Seed 1350, as it was drawn on 2026-11-28. A spare in use did not answer, answered again, and was given back. Its disk had failed a flush, so it takes
/// no label until it is opened anew: the daemon's next look does that. The history wanted the label before it.
#[test]
fn the_label_of_a_spare_that_had_failed_is_set_right_by_the_next_look() {
    kept(1350, Syncs::Between, Trouble::Disks);
}

/// Seed 6238, as it was drawn on 2026-11-28. The same disk fell silent again before that look, which cannot open it until it has answered.
#[test]
fn the_label_of_a_spare_that_owes_an_answer_is_set_right_when_it_has_answered() {
    kept(6238, Syncs::Between, Trouble::Disks);
}

/// Seed 6055, as it was drawn on 2026-11-28. A client wrote zeroes into a hole of a file, and later the leaf rotted in which the file has no block there. That
/// it was written before the rot, and as a whole, was taken for a reason why it had to be readable.
#[test]
fn a_hole_that_was_written_is_hidden_by_the_leaf_that_rots() {
    kept(6055, Syncs::Between, Trouble::Rot);
}
