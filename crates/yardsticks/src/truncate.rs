//! A long file is cut to nothing, and another client makes small files beside it (docs/design/0047): how long each takes while
//! the reaper is at work, against as long before.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use tally_bench::wire::{Attributes, Connection};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::load::{self, joined, make_small_files};

/// What `truncate` takes.
#[derive(Args)]
pub struct Truncate {
    #[command(flatten)]
    site: Site,
    /// Length of the file, MiB; it is in records of 4 KiB, so that each MiB has 256 extents.
    #[arg(long, default_value_t = 4096)]
    mebibytes: u64,
    /// How long small files are made before the cut, and behind it, seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Another `tally`, to compare with.
    #[arg(long)]
    tally: Option<PathBuf>,
}

const BEFORE: &str = "CREATE and WRITE of 4 KiB, p99 before the cut";
const BESIDE: &str = "CREATE and WRITE of 4 KiB, p99 beside the reaper";
const RATIO: &str = "p99 beside the reaper, against before the cut";
const LONGEST: &str = "the longest beside the reaper";
const COUNT: &str = "files made beside the reaper";
const CUT: &str = "SETATTR of the size";
const MEMORY: &str = "resident memory beside the reaper, beyond that before the cut";

impl Truncate {
    /// Runs it on a new pool each time.
    pub fn run(&self) -> Result<()> {
        let binaries = match &self.tally {
            Some(tally) => Binaries::other(tally)?,
            None => Binaries::build()?,
        };
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            let setup = Setup { pool_bytes: (4096 + self.mebibytes * 3 / 2) << 20, sparse: true, ..Setup::default() };
            let filer = Filer::make(&binaries, setup, &self.site.folder()?)?;
            filer.command(&["dataset", "set", "recordsize=4K", POOL])?;
            self.measure(&filer, &mut figures)?;
        }
        figures.add_ratios(RATIO, BESIDE, BEFORE);
        figures.finish("truncate")?;
        figures.row("bench truncate", RATIO, Bar::AtMost(2.0));
        figures.row("bench truncate", LONGEST, Bar::Stated);
        Ok(())
    }

    fn measure(&self, filer: &Filer, figures: &mut Figures) -> Result<()> {
        let target = filer.target(POOL);
        let (file, _) = load::write_stream(&target, self.mebibytes)?;
        filer.settle()?;
        let root = Connection::mount(&target)?;
        let mut connection = Connection::open(target.nfs)?;
        let folders = [connection.mkdir(&root, "before")?, connection.mkdir(&root, "beside")?];
        let [before, beside] = &folders;
        let seconds = Duration::from_secs(self.seconds);
        let alone = make_small_files(&mut Connection::open(target.nfs)?, before, seconds)?;
        filer.settle()?;
        filer.take_memory_peak()?;
        let resident = filer.resident_bytes()?;
        let mut small = Connection::open(target.nfs)?;
        let (cut, reaped) = std::thread::scope(|scope| {
            let small = scope.spawn(move || make_small_files(&mut small, beside, seconds));
            let started = Instant::now();
            connection.set_attributes(&file, Attributes { size: Some(0), ..Attributes::default() })?;
            let cut = started.elapsed();
            anyhow::Ok((cut, joined(small.join())?))
        })?;
        let more = filer.take_memory_peak()?.saturating_sub(resident);
        let ms = |ns: u64| Duration::from_nanos(ns).as_secs_f64() * 1000.0;
        figures.add(BEFORE, "ms", ms(alone.value_at_quantile(0.99)));
        figures.add(BESIDE, "ms", ms(reaped.value_at_quantile(0.99)));
        figures.add(LONGEST, "ms", ms(reaped.max()));
        figures.add(COUNT, "", reaped.len() as f64);
        figures.add(CUT, "ms", cut.as_secs_f64() * 1000.0);
        figures.add(MEMORY, "MiB", more as f64 / f64::from(1 << 20));
        Ok(())
    }
}
