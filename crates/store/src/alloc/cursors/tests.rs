use std::sync::Arc;

use tally_base::Txg;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::numbered;

use super::super::{Allocator, UNBORN};
use crate::bp::Dva;

const MIB: u64 = 1 << 20;

fn pool(mebibytes: u64) -> Allocator {
    let devs = numbered([Arc::new(MemBlockDev::new(mebibytes * MIB)) as _]);
    Allocator::create(&devs, &[])
}

/// How many pieces these runs lie in, in the order in which they were handed out.
fn pieces(runs: &[Dva]) -> usize {
    runs.chunk_by(|left, right| left.end() == right.offset).count()
}

/// The first 20 MiB of a file that was written in a stream lay in 20 pieces, ten mebibytes apart: a fold wrote them in runs
/// while WRITEs were placed.
#[test]
fn a_fold_and_what_is_placed_meanwhile_lie_in_one_piece_each() {
    let alloc = pool(512);
    let take = |txg| alloc.alloc_run(txg, MIB, MIB).expect("there is room");
    let (mut folded, mut placed) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        folded.push(take(Txg(1)));
        placed.extend([take(UNBORN), take(UNBORN)]);
    }
    assert_eq!((pieces(&folded), pieces(&placed)), (1, 1));
    // What was not needed is where the next one begins.
    for txg in [Txg(1), UNBORN] {
        let run = take(txg);
        alloc.shrink(run, MIB / 2);
        assert_eq!(take(txg).offset, run.offset + MIB / 2);
    }
}

/// Where there is no room but beside the others it is taken there, to the last sector, and in order.
#[test]
fn who_is_spared_is_not_spared_for_ever() {
    for mebibytes in [64, 128, 200, 256, 300] {
        let alloc = pool(mebibytes);
        let (mut folded, mut placed) = (Vec::new(), Vec::new());
        for at in 0..mebibytes {
            let txg = if at % 2 == 0 { Txg(1) } else { UNBORN };
            let run = alloc.alloc_run(txg, MIB, MIB).expect("there is room");
            if txg == UNBORN { placed.push(run) } else { folded.push(run) }
        }
        assert_eq!(alloc.space().free, 0, "{mebibytes} MiB");
        for (runs, txg) in [(placed, UNBORN), (folded, Txg(1))] {
            runs.iter().for_each(|run| alloc.abandon(*run));
            let again: Vec<_> =
                runs.iter().map(|_| alloc.alloc_run(txg, MIB, MIB).expect("as much as before")).collect();
            assert_eq!((again.len(), alloc.space().free), (runs.len(), 0));
        }
        assert_eq!(alloc.bad_free_count(), 0);
    }
}
