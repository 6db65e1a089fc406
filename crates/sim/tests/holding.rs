//! What clients of version 4 hold over all lives of a server: a fixed share of what `cargo xtask holding` runs.

use tally_sim::holding::{FLOORS, Plan, run, sweep};

/// Steps of a history.
const STEPS: usize = 200;

/// Each class of events is met, and as often as a long run wants it.
#[test]
fn nobody_is_lied_to() {
    const SEEDS: u64 = 1200;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let totals = sweep(0..SEEDS, STEPS, threads).unwrap_or_else(|report| panic!("{report}"));
    println!("{totals:?}");
    for ((what, times), (of, floor)) in totals.each().into_iter().zip(FLOORS) {
        assert_eq!(what, of);
        assert!(times >= (floor * SEEDS / 1000).max(1), "{times} {what}, and {floor} are wanted of a thousand seeds");
    }
}

/// A seed alone repeats what it does, to the last write of the disks.
#[test]
fn a_seed_repeats_itself() {
    for seed in 0..5 {
        let [first, second] = [0; 2].map(|_| run(&Plan { seed, steps: STEPS }).expect("it holds"));
        assert_eq!(first, second);
    }
}

/// Seeds that have failed, each with what was wrong.
///
/// 2813: the ledger, and not the server. A client had a file to keep by one owner, and open by another one to write it; it claimed the first owner's open with what it keeps, and that was taken for in the way of the second.
///
/// 1734: the simulated client, and not the server. It locked bytes anew, and then claimed one of them as what it had before the restart; that was refused, and the ledger forgot that it had the byte.
///
/// 3398: the ledger, and not the server. An OPEN waited for what its own client kept; that client was told meanwhile what it had lost, and freed it; then the OPEN was answered with what its SEQUENCE had said when it began.
///
/// 3727: the ledger, and not the server. What a client was asked for was over, and its lease too: who opened the file took that from it alone, for the ledger, and the server ended the client, so that it had nothing to claim in the other pool.
#[test]
fn what_has_failed_holds() {
    for seed in [1734, 2813, 3398, 3727] {
        run(&Plan { seed, steps: STEPS }).expect("it holds");
    }
}
