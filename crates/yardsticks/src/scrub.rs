//! A scrub of a pool with one long file, and a copy of it to a disk that joins, beside a sequential read of as many bytes of a file
//! with O_DIRECT; and a scrub on a disk that has a turn for each request. And how long a lone client's CREATE, WRITE and COMMIT take
//! beside scrubs, and beside copies, against alone: by turns, alone, beside, beside, alone. And a scrub of a pool that is nearly
//! full of files of all sizes, a third of which were replaced again and again, and a copy of that pool to a disk that joins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use hdrhistogram::Histogram;
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, Stable};
use tally_disk::{Opener, SystemOpener};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, POOL_FILE, Setup, slowness};
use crate::load::{self, FILE_BYTES, file_name, noise};
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
    /// Files that the client beside the scrub makes, in all six turns of a run together, so that each kind has 100,000 times; 0
    /// leaves it out.
    #[arg(long, default_value_t = 300_000)]
    files: u64,
    /// Size of the pool that has aged, MiB; 0 leaves it out.
    #[arg(long, default_value_t = 2048)]
    aged_mebibytes: u64,
}

const HERE: &str = "scrub, quick disk";
const COPY: &str = "copy to a disk that joins";
const DIRECT: &str = "sequential read of a file with O_DIRECT";
const SHARE_HERE: &str = "scrub against a sequential read, quick disk";
const SHARE_COPY: &str = "copy to a disk that joins, against a sequential read";
const SHARE_SLOW_COPY: &str = "copy between disks that turn, against what one gives in reads of 1 MiB";
const SHARE_SLOW: &str = "scrub against what a disk that turns gives in reads of 1 MiB";

const AGED: &str = "scrub of an aged pool, of allocated bytes";
const FULL: &str = "how full it is";
const SHARE_AGED: &str = "scrub of an aged pool, against a sequential read";
const AGED_COPY: &str = "copy of an aged pool to a disk that joins, of allocated bytes";
const SHARE_AGED_COPY: &str = "copy of an aged pool to a disk that joins, against a sequential read";

const ALONE: &str = "CREATE, WRITE of 4 KiB and COMMIT, p99 alone";
const BESIDE: &str = "CREATE, WRITE of 4 KiB and COMMIT, p99 beside scrubs";
const BESIDE_COPY: &str = "CREATE, WRITE of 4 KiB and COMMIT, p99 beside copies";
const RATIO: &str = "p99 beside scrubs, against alone";
const RATIO_COPY: &str = "p99 beside copies, against alone";
const RATE_COPY: &str = "copies beside the client";

/// The file of the disk that joins.
const NEW_FILE: &str = "new.img";

/// What goes on beside the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Scrubs,
    Copies,
}

impl Scrub {
    /// Runs it on new pools, each time by turns with the file.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            let rate = |time: Duration| self.mebibytes as f64 / time.as_secs_f64();
            figures.add(HERE, "MiB/s", rate(self.scrub(&binaries, Vec::new(), self.mebibytes)?));
            figures.add(COPY, "MiB/s", rate(self.copy(&binaries, Vec::new(), self.mebibytes)?));
            let (_, read) = direct_file(&self.site.folder()?.join("scrub.raw"), self.mebibytes)?;
            figures.add(DIRECT, "MiB/s", rate(read));
            let slow = self.scrub(&binaries, slowness("--turning", POOL_FILE, self.delay_ms), self.slow_mebibytes)?;
            let alone = Duration::from_millis(self.delay_ms * self.slow_mebibytes);
            figures.add(SHARE_SLOW, "", alone.as_secs_f64() / slow.as_secs_f64());
            let both = [POOL_FILE, NEW_FILE].map(|file| slowness("--turning", file, self.delay_ms)).concat();
            let slow = self.copy(&binaries, both, self.slow_mebibytes)?;
            figures.add(SHARE_SLOW_COPY, "", alone.as_secs_f64() / slow.as_secs_f64());
            if self.files > 0 {
                self.beside(&binaries, &mut figures)?;
            }
            if self.aged_mebibytes > 0 {
                self.aged(&binaries, &mut figures)?;
            }
        }
        figures.add_ratios(SHARE_HERE, HERE, DIRECT);
        figures.add_ratios(SHARE_COPY, COPY, DIRECT);
        if self.aged_mebibytes > 0 {
            figures.add_ratios(SHARE_AGED, AGED, DIRECT);
            figures.add_ratios(SHARE_AGED_COPY, AGED_COPY, DIRECT);
        }
        if self.files > 0 {
            figures.add_ratios(RATIO, BESIDE, ALONE);
            figures.add_ratios(RATIO_COPY, BESIDE_COPY, ALONE);
        }
        figures.finish("scrub")?;
        figures.row("bench scrub", SHARE_HERE, Bar::AtLeast(0.7));
        figures.row("bench scrub", SHARE_COPY, Bar::AtLeast(0.7));
        figures.row("bench scrub", SHARE_SLOW, Bar::AtLeast(0.7));
        figures.row("bench scrub", SHARE_SLOW_COPY, Bar::AtLeast(0.7));
        if self.aged_mebibytes > 0 {
            figures.row("bench scrub", SHARE_AGED, Bar::Stated);
            figures.row("bench scrub", SHARE_AGED_COPY, Bar::Stated);
        }
        if self.files > 0 {
            figures.row("bench scrub", RATIO, Bar::AtMost(1.5));
        }
        Ok(())
    }

    /// A sixth of the files in each turn. The p99 is that of both turns of a kind.
    fn beside(&self, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
        let content = (self.files * FILE_BYTES as u64) >> 20;
        let setup =
            Setup { pool_bytes: (2048 + self.mebibytes * 4 / 3 + 2 * content) << 20, sparse: true, ..Setup::default() };
        let pool_bytes = setup.pool_bytes;
        let filer = Filer::make(binaries, setup, &self.site.folder()?)?;
        let target = filer.target(POOL);
        load::write_stream(&target, self.mebibytes)?;
        filer.write_all_out()?;
        let root = Connection::mount(&target)?;
        let mut connection = Connection::open(target.nfs)?;
        let [mut alone, mut scrubs, mut copies] = [Histogram::<u64>::new(3)?, Histogram::new(3)?, Histogram::new(3)?];
        let turns = [Beside::Nothing, Beside::Scrubs, Beside::Copies, Beside::Copies, Beside::Scrubs, Beside::Nothing];
        for (turn, beside) in turns.into_iter().enumerate() {
            let folder = connection.mkdir(&root, &format!("turn {turn}"))?;
            let over = AtomicBool::new(false);
            let made = std::thread::scope(|scope| {
                let other = scope.spawn(|| match beside {
                    Beside::Nothing => Ok(()),
                    Beside::Scrubs => scrub_until(&filer, &over),
                    Beside::Copies => copy_until(&filer, pool_bytes, &over),
                });
                let made = make_files(&mut connection, &folder, self.files / turns.len() as u64);
                over.store(true, Ordering::Relaxed);
                match beside {
                    Beside::Nothing => {}
                    // It may have come to its end by itself.
                    Beside::Scrubs => _ = filer.command(&["pool", "scrub", "-s", POOL]),
                    Beside::Copies => {
                        figures.add(RATE_COPY, "MiB/s", filer.status()?.copy_rate() / f64::from(1 << 20));
                        _ = filer.command(&["pool", "detach", "-f", POOL, NEW_FILE]);
                    }
                }
                load::joined(other.join())?;
                made
            })?;
            match beside {
                Beside::Nothing => alone.add(made)?,
                Beside::Scrubs => scrubs.add(made)?,
                Beside::Copies => copies.add(made)?,
            }
        }
        let micros = |times_ns: &Histogram<u64>| times_ns.value_at_quantile(0.99) as f64 / 1000.0;
        figures.add(ALONE, "µs", micros(&alone));
        figures.add(BESIDE, "µs", micros(&scrubs));
        figures.add(BESIDE_COPY, "µs", micros(&copies));
        Ok(())
    }

    /// How long a disk takes to join a server that was just started, until it counts.
    fn copy(&self, binaries: &Binaries, slowness: Vec<std::ffi::OsString>, mebibytes: u64) -> Result<Duration> {
        let mut filer = self.filled(binaries, slowness, mebibytes)?;
        let new = new_disk(&filer, (1024 + mebibytes * 4 / 3) << 20, false)?;
        filer.stop()?;
        filer.start()?;
        let started = Instant::now();
        filer.command(&["pool", "attach", POOL, POOL_FILE, &new])?;
        Ok(started.elapsed())
    }

    /// A scrub of a pool that has aged, and then a copy of it, each by a server that was just started.
    fn aged(&self, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
        let setup = Setup { pool_bytes: self.aged_mebibytes << 20, ..Setup::default() };
        let mut filer = Filer::make(binaries, setup, &self.site.folder()?)?;
        age(&filer, self.aged_mebibytes)?;
        filer.stop()?;
        filer.start()?;
        let started = Instant::now();
        filer.command(&["pool", "scrub", "-w", POOL])?;
        let elapsed = started.elapsed();
        let status = filer.status()?;
        let rate = |elapsed: Duration| status.allocated as f64 / f64::from(1 << 20) / elapsed.as_secs_f64();
        figures.add(AGED, "MiB/s", rate(elapsed));
        figures.add(FULL, "", status.allocated as f64 / status.size as f64);
        let new = new_disk(&filer, self.aged_mebibytes << 20, false)?;
        filer.stop()?;
        filer.start()?;
        let started = Instant::now();
        filer.command(&["pool", "attach", POOL, POOL_FILE, &new])?;
        figures.add(AGED_COPY, "MiB/s", rate(started.elapsed()));
        Ok(())
    }

    /// A pool with one long file.
    fn filled(&self, binaries: &Binaries, slowness: Vec<std::ffi::OsString>, mebibytes: u64) -> Result<Filer> {
        let setup = Setup { slowness, pool_bytes: (1024 + mebibytes * 4 / 3) << 20, ..Setup::default() };
        let filer = Filer::make(binaries, setup, &self.site.folder()?)?;
        load::write_stream(&filer.target(POOL), mebibytes)?;
        Ok(filer)
    }

    /// How long a scrub takes of a server that was just started.
    fn scrub(&self, binaries: &Binaries, slowness: Vec<std::ffi::OsString>, mebibytes: u64) -> Result<Duration> {
        let mut filer = self.filled(binaries, slowness, mebibytes)?;
        filer.stop()?;
        filer.start()?;
        let started = Instant::now();
        filer.command(&["pool", "scrub", "-w", POOL])?;
        Ok(started.elapsed())
    }
}

/// Fills the pool with files of 4 KiB to 1 MiB, and replaces a third of them, drawn anew, by others, again and again.
fn age(filer: &Filer, mebibytes: u64) -> Result<()> {
    const ROUNDS: u64 = 5;
    let target = filer.target(POOL);
    let root = Connection::mount(&target)?;
    let mut connection = Connection::open(target.nfs)?;
    let mut random = Random::new(mebibytes, 0);
    let (mut files, mut next): (Vec<u64>, u64) = (Vec::new(), 0);
    for round in 0..=ROUNDS {
        if round > 0 {
            let (stay, go): (Vec<u64>, Vec<u64>) = files.iter().partition(|_| random.below(3) > 0);
            for number in go {
                connection.remove(&root, &file_name(number))?;
            }
            files = stay;
            // What they had is free behind the group.
            filer.write_all_out()?;
        }
        // 0.9 of all, and some of it is metadata.
        while filer.status()?.allocated < (mebibytes * 89 / 100) << 20 {
            for _ in 0..16 {
                let file = connection.create(&root, &file_name(next))?;
                let bytes = 4096 << random.below(9);
                connection.write(&file, 0, &random.bytes(bytes), Stable::Unstable)?;
                files.push(next);
                next += 1;
            }
            filer.write_all_out()?;
        }
    }
    Ok(())
}

fn scrub_until(filer: &Filer, over: &AtomicBool) -> Result<()> {
    while !over.load(Ordering::Relaxed) {
        // The last one is stopped.
        let outcome = filer.command(&["pool", "scrub", "-w", POOL]);
        anyhow::ensure!(outcome.is_ok() || over.load(Ordering::Relaxed), "a scrub failed: {outcome:?}");
    }
    Ok(())
}

/// A disk joins, and leaves as soon as it has joined.
fn copy_until(filer: &Filer, bytes: u64, over: &AtomicBool) -> Result<()> {
    while !over.load(Ordering::Relaxed) {
        let new = new_disk(filer, bytes, true)?;
        // The last one is stopped.
        let outcome = filer.command(&["pool", "attach", "-f", POOL, POOL_FILE, &new]);
        anyhow::ensure!(outcome.is_ok() || over.load(Ordering::Relaxed), "a copy failed: {outcome:?}");
        if !over.load(Ordering::Relaxed) {
            filer.command(&["pool", "detach", "-f", POOL, NEW_FILE])?;
        }
    }
    Ok(())
}

/// A file for a disk that joins, new each time.
fn new_disk(filer: &Filer, bytes: u64, sparse: bool) -> Result<String> {
    let path = filer.folder().join(NEW_FILE);
    let _before = std::fs::remove_file(&path);
    if sparse {
        std::fs::File::create(&path)?.set_len(bytes)?;
    } else {
        SystemOpener.create(&path, bytes, false, &mut |_| true)?;
    }
    Ok(path.to_string_lossy().into_owned())
}

/// How long each file took: CREATE, an UNSTABLE WRITE, and its COMMIT.
fn make_files(connection: &mut Connection, folder: &Handle, count: u64) -> Result<Histogram<u64>> {
    let data = noise(FILE_BYTES)?;
    let mut times_ns = Histogram::new(3)?;
    for number in 0..count {
        let started = Instant::now();
        let file = connection.create(folder, &file_name(number))?;
        connection.write(&file, 0, &data, Stable::Unstable)?;
        connection.commit(&file)?;
        times_ns.record(u64::try_from(started.elapsed().as_nanos())?)?;
    }
    Ok(times_ns)
}
