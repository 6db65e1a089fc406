//! A lone client on a machine whose processors are taken: busy loops of the same priority run beside it, twice as many
//! as there are processors, and everybody who sleeps waits for a processor when he wakes. Server and floor take turns
//! under the same loops, ours first in one pair and last in the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Result;
use clap::Args;

use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::floor::Floor;
use crate::load::{self, Load};
use crate::prepared;

/// What `taken` takes.
#[derive(Args)]
pub struct Taken {
    /// Pairs of runs.
    #[arg(long, default_value_t = 21)]
    pairs: usize,
    /// Files in each run.
    #[arg(long, default_value_t = 128)]
    items: u64,
    /// Busy loops [default: two for each processor]
    #[arg(long)]
    loops: Option<usize>,
    /// Where pools are made; a folder on a disk [default: target/bench]
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
}

const FLOOR: &str = "untar beside busy loops, floor";
const OURS: &str = "untar beside busy loops, tally";
const BESIDE: &str = "untar beside busy loops: time over the floor's";
const SWITCHES: &str = "untar beside busy loops: the server's waits for something, a request";

impl Taken {
    /// Runs it.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let folder = prepared(self.folder.as_deref())?;
        let filer = Filer::make(&binaries, Setup { pool_bytes: 2 << 30, ..Setup::default() }, &folder)?;
        let floor = Floor::start(&folder)?;
        let loops = self.loops.unwrap_or(2 * thread::available_parallelism()?.get());
        let mut figures = Figures::default();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..loops {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let measured = (0..self.pairs).try_for_each(|pair| self.pair(pair, &filer, &floor, &mut figures));
            done.store(true, Ordering::Relaxed);
            measured
        })?;
        figures.add_ratios(BESIDE, FLOOR, OURS);
        figures.finish("taken")?;
        figures.row("bench taken", BESIDE, Bar::AtMost(1.5));
        figures.row("bench taken", SWITCHES, Bar::Stated);
        Ok(())
    }

    fn pair(&self, pair: usize, filer: &Filer, floor: &Floor, figures: &mut Figures) -> Result<()> {
        let ours_first = pair.is_multiple_of(2);
        for ours in [ours_first, !ours_first] {
            if ours {
                let before = filer.waits()?;
                let rate = load::run(&filer.target(POOL), Load::Untar, 1, self.items)?.rate();
                figures.add(OURS, "files/s", rate);
                let requests = self.items * Load::Untar.requests_per_item();
                figures.add(SWITCHES, "", (filer.waits()? - before) as f64 / requests as f64);
            } else {
                figures.add(FLOOR, "files/s", load::run(&floor.target(), Load::Untar, 1, self.items)?.rate());
            }
        }
        Ok(())
    }
}
