//! Rot that stays. Each block of a pool in turn is spoilt for good, in a world of its own; clients go on above it, groups are
//! synced, the power goes, and the pool is imported, twice. One block was the end of a pool once, by a harmless change.

use tally_sim::history::{Plan, Syncs, Trouble, every_block};

#[test]
fn every_block_rots_in_turn_and_the_pool_goes_on() {
    let mut above_rot = 0;
    for seed in 0..8 {
        let plan = Plan {
            seed,
            steps: 120,
            syncs: Syncs::Between,
            trouble: Trouble::Rot,
            reserves: false,
            skipped: Vec::new(),
        };
        match every_block(&plan) {
            Ok(totals) => above_rot += totals.above_rot,
            Err(failure) => panic!("{}\nseed {seed}: {}", failure.trace.join("\n"), failure.message),
        }
    }
    assert!(above_rot > 400, "{above_rot} changes above rot are hardly any");
}
