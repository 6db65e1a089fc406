//! Every type of log record in every situation in which a replay can find it.
//!
//! A table of shapes (`shapes.rs`) says how each type comes about, and a table of cells what happens then. Each cell is a
//! test that goes through all types; the last one to end prints how much was checked where. A new type without a
//! shape does not compile, and a cell that finds nothing to check for a type fails.
//!
//! ```text
//! cargo test -p tally-fs --test cells -- --show-output
//! ```

mod cuts;
mod legs;
mod replay;
#[path = "../../../sim/src/same.rs"]
#[allow(dead_code, unreachable_pub)]
mod same;
mod shapes;
#[path = "../../../sim/src/sound.rs"]
#[allow(dead_code, unreachable_pub)]
mod sound;
mod story;
mod tail;
#[path = "../world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use tally_fs::record::RecordKind;

use shapes::{Shape, shapes};

/// A situation: how many states of the disks it has checked, or what is wrong.
type Check = fn(RecordKind, &Shape) -> Result<u64, String>;

macro_rules! cells {
    ($($name:ident: $check:path,)*) => {
        /// The columns of the matrix.
        const CELLS: &[&str] = &[$(stringify!($name),)*];

        $(#[test]
        fn $name() {
            column(stringify!($name), $check);
        })*
    };
}

cells! {
    replayed_once: replay::once,
    replayed_twice: replay::twice,
    power_cut_during_replay: replay::cut,
    power_cut_during_replay_in_groups: replay::cut_in_groups,
    torn_tail: tail::torn,
    stale_frame_behind_the_tail: tail::stale,
    log_leg_missing: legs::one_leg,
    log_leg_missing_and_power_cut: legs::one_leg_and_cut,
    log_missing: legs::the_log,
}

/// States checked, by type and cell.
static MATRIX: Mutex<BTreeMap<(u16, &str), u64>> = Mutex::new(BTreeMap::new());

fn column(cell: &'static str, check: Check) {
    let mut failures = String::new();
    for kind in RecordKind::ALL {
        let mut count = 0;
        for shape in shapes(*kind) {
            // A panic names a line, and not what was being checked.
            let checked = catch_unwind(AssertUnwindSafe(|| check(*kind, shape)));
            match checked.unwrap_or_else(|_| Err("it panicked, see above".to_owned())) {
                Ok(states) => count += states,
                Err(why) => writeln!(failures, "{kind:?} ({}): {why}", shape.name).unwrap(),
            }
        }
        assert!(count > 0 || !failures.is_empty(), "{kind:?} has no shape");
        MATRIX.lock().unwrap().insert((*kind as u16, cell), count);
    }
    assert!(failures.is_empty(), "{cell}:\n{failures}");
    let matrix = MATRIX.lock().unwrap();
    if matrix.len() == RecordKind::ALL.len() * CELLS.len() {
        println!("{}", shown(&matrix));
    }
}

/// The matrix as a table: states of the disks that were checked.
fn shown(matrix: &BTreeMap<(u16, &str), u64>) -> String {
    let mut table = format!("{:<12}", "");
    CELLS.iter().for_each(|cell| write!(table, " {cell}").unwrap());
    for kind in RecordKind::ALL {
        write!(table, "\n{:<12}", format!("{kind:?}")).unwrap();
        for cell in CELLS {
            write!(table, " {:>width$}", matrix[&(*kind as u16, *cell)], width = cell.len()).unwrap();
        }
    }
    table
}
