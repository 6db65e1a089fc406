//! A scrub of a pool with one long file, beside a sequential read of as many bytes of a file with O_DIRECT; and of one on a
//! disk that has a turn for each request.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, POOL_FILE, Setup, slowness};
use crate::load;
use crate::stream::direct_file;

/// What `scrub` takes.
#[derive(Args)]
pub struct Scrub {
    #[command(flatten)]
    site: Site,
    /// Length of the file, MiB.
    #[arg(long, default_value_t = 2048)]
    mebibytes: u64,
    /// The same on the slow disk.
    #[arg(long, default_value_t = 512)]
    slow_mebibytes: u64,
    /// What the slow disk takes for each request, milliseconds; it does one at a time.
    #[arg(long, default_value_t = 8)]
    delay_ms: u64,
}

const HERE: &str = "scrub, quick disk";
const DIRECT: &str = "sequential read of a file with O_DIRECT";
const SHARE_HERE: &str = "scrub against a sequential read, quick disk";
const SHARE_SLOW: &str = "scrub against what a disk that turns gives in reads of 1 MiB";

impl Scrub {
    /// Runs it on new pools, each time by turns with the file.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            let rate = |time: Duration| self.mebibytes as f64 / time.as_secs_f64();
            figures.add(HERE, "MiB/s", rate(self.scrub(&binaries, Vec::new(), self.mebibytes)?));
            let (_, read) = direct_file(&self.site.folder()?.join("scrub.raw"), self.mebibytes)?;
            figures.add(DIRECT, "MiB/s", rate(read));
            let slow = self.scrub(&binaries, slowness("--turning", POOL_FILE, self.delay_ms), self.slow_mebibytes)?;
            let alone = Duration::from_millis(self.delay_ms * self.slow_mebibytes);
            figures.add(SHARE_SLOW, "", alone.as_secs_f64() / slow.as_secs_f64());
        }
        figures.add_ratios(SHARE_HERE, HERE, DIRECT);
        figures.finish("scrub")?;
        figures.row("bench scrub", SHARE_HERE, Bar::AtLeast(0.7));
        figures.row("bench scrub", SHARE_SLOW, Bar::AtLeast(0.7));
        Ok(())
    }

    /// How long a scrub takes of a server that was just started.
    fn scrub(&self, binaries: &Binaries, slowness: Vec<std::ffi::OsString>, mebibytes: u64) -> Result<Duration> {
        let setup = Setup { slowness, pool_bytes: (1024 + mebibytes * 4 / 3) << 20, ..Setup::default() };
        let mut filer = Filer::make(binaries, setup, &self.site.folder()?)?;
        load::write_stream(&filer.target(POOL), mebibytes)?;
        filer.stop()?;
        filer.start()?;
        let started = Instant::now();
        filer.command(&["pool", "scrub", "-w", POOL])?;
        Ok(started.elapsed())
    }
}
