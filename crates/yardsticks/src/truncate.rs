//! Long files are cut to nothing, one after another, and another client makes small files beside it (docs/design/0047): how long
//! each takes while the reaper is at work, against as long before.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use tally_bench::wire::{Attributes, Connection, Handle};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::limits::Limits;
use crate::load::{self, joined, make_small_files};

/// What `truncate` takes.
#[derive(Args)]
pub struct Truncate {
    #[command(flatten)]
    site: Site,
    #[command(flatten)]
    limits: Limits,
    /// Length of a file, MiB; it is in records of 4 KiB, so that each MiB has 256 extents.
    #[arg(long, default_value_t = 4096)]
    mebibytes: u64,
    /// Files that are cut, at equal distances; 8 of 4096 MiB have as many extents as 1 TiB in records of 128 KiB.
    #[arg(long, default_value_t = 8)]
    files: u32,
    /// How long small files are made before the first cut, and from there on, seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Another `tally`, to compare with.
    #[arg(long)]
    tally: Option<PathBuf>,
}

const BEFORE: &str = "CREATE and WRITE of 4 KiB, p99 before the cuts";
const BESIDE: &str = "CREATE and WRITE of 4 KiB, p99 beside the reaper";
const RATIO: &str = "p99 beside the reaper, against before the cuts";
const LONGEST: &str = "the longest beside the reaper";
const COUNT: &str = "files made beside the reaper";
const CUT: &str = "the slowest SETATTR of a size";

impl Truncate {
    /// Makes the files once, and runs it on a copy of that pool each time.
    pub fn run(&self) -> Result<()> {
        let binaries = match &self.tally {
            Some(tally) => Binaries::other(tally)?,
            None => Binaries::build()?,
        };
        let mut figures = Figures::default();
        let mebibytes = 4096 + u64::from(self.files) * self.mebibytes * 3 / 2;
        let (pool_bytes, configuration) = (mebibytes << 20, self.limits.configuration());
        let setup = Setup { configuration, pool_bytes, sparse: true, ..Setup::default() };
        let mut filer = Filer::make(&binaries, setup, &self.site.folder()?)?;
        filer.command(&["dataset", "set", "recordsize=4K", POOL])?;
        let files = self.make(&mut filer)?;
        for _ in 0..self.site.runs {
            filer.go_back()?;
            self.measure(&filer, &files, &mut figures)?;
        }
        figures.add_ratios(RATIO, BESIDE, BEFORE);
        figures.finish("truncate")?;
        figures.row("bench truncate", RATIO, Bar::AtMost(2.0));
        figures.row("bench truncate", LONGEST, Bar::Stated);
        self.limits.row(&figures, "bench truncate");
        Ok(())
    }

    /// Makes the files and keeps the disks; behind each of them, so that its zeros take room for no longer.
    fn make(&self, filer: &mut Filer) -> Result<Vec<Handle>> {
        let mut files = Vec::new();
        for number in 1..=self.files {
            if number > 1 {
                filer.go_back()?;
            }
            let (file, time) = load::write_zeros(&filer.target(POOL), self.mebibytes)?;
            eprintln!("  file {number} of {} written in {time:.0?}", self.files);
            files.push(file);
            filer.keep_disks()?;
        }
        Ok(files)
    }

    fn measure(&self, filer: &Filer, files: &[Handle], figures: &mut Figures) -> Result<()> {
        let target = filer.target(POOL);
        let root = Connection::mount(&target)?;
        let mut connection = Connection::open(target.nfs)?;
        let folders = [connection.mkdir(&root, "before")?, connection.mkdir(&root, "beside")?];
        let [before, beside] = &folders;
        let seconds = Duration::from_secs(self.seconds);
        let mut small = Connection::open(target.nfs)?;
        let alone = make_small_files(&mut small, before, seconds)?;
        filer.write_all_out()?;
        filer.take_memory_peak()?;
        let (cut, reaped) = std::thread::scope(|scope| {
            let small = scope.spawn(move || make_small_files(&mut small, beside, seconds));
            let longest = self.cut(&mut connection, files)?;
            anyhow::Ok((longest, joined(small.join())?))
        })?;
        filer.quiet()?;
        self.limits.add_peak(figures, filer.take_memory_peak()?);
        let ms = |ns: u64| Duration::from_nanos(ns).as_secs_f64() * 1000.0;
        figures.add(BEFORE, "ms", ms(alone.value_at_quantile(0.99)));
        figures.add(BESIDE, "ms", ms(reaped.value_at_quantile(0.99)));
        figures.add(LONGEST, "ms", ms(reaped.max()));
        figures.add(COUNT, "", reaped.len() as f64);
        figures.add(CUT, "ms", cut.as_secs_f64() * 1000.0);
        Ok(())
    }

    /// Cuts each file to nothing when its turn has come. Gives how long the slowest of these requests took.
    fn cut(&self, connection: &mut Connection, files: &[Handle]) -> Result<Duration> {
        let (begun, mut longest) = (Instant::now(), Duration::ZERO);
        for (number, file) in (0..).zip(files) {
            let turn = Duration::from_secs(self.seconds) * number / self.files;
            std::thread::sleep(turn.saturating_sub(begun.elapsed()));
            let started = Instant::now();
            connection.set_attributes(file, Attributes { size: Some(0), ..Attributes::default() })?;
            longest = longest.max(started.elapsed());
        }
        Ok(longest)
    }
}
