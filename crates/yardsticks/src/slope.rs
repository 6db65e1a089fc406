//! More than the disks take: a few clients write 1 MiB FILE_SYNC (or UNSTABLE, with COMMITs) as fast as they are let,
//! to a disk that turns once for each write, beside a log that does not; and one client makes small files beside them
//! (docs/design/0037).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use hdrhistogram::Histogram;
use tally_bench::wire::{Connection, Handle, Stable, Target};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, POOL_FILE, Setup, slowness};
use crate::load::{FILE_BYTES, file_name, joined, noise};

const MIB: usize = 1 << 20;
/// What each bulk client writes over and over: more than one group has.
const FILE_MIB: u64 = 384;
/// How often a client that writes UNSTABLE asks for a COMMIT: far more often than a file has more than the log takes.
const COMMIT_MIB: u64 = 8;

/// What `slope` takes.
#[derive(Args)]
pub struct Slope {
    #[command(flatten)]
    site: Site,
    /// How long each run lasts, seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Clients that write.
    #[arg(long, default_value_t = 6)]
    clients: usize,
    /// WRITEs are UNSTABLE, with a COMMIT after each 8 MiB.
    #[arg(long)]
    unstable: bool,
    /// What the disk takes for each write and flush, milliseconds; it does one at a time.
    #[arg(long, default_value_t = 8)]
    delay_ms: u64,
    /// Size of the log, MiB.
    #[arg(long, default_value_t = 1024)]
    log_mib: u64,
    /// A folder for the log, as /dev/shm [default: beside the pool]
    #[arg(long)]
    log_folder: Option<PathBuf>,
    /// Another `tally-slow`, to compare with.
    #[arg(long)]
    server: Option<PathBuf>,
}

/// What one client has seen.
struct Seen {
    times_ns: Histogram<u64>,
    /// When each second half of a run began, how many requests were over.
    early: u64,
}

const LONGEST_WRITE: &str = "bulk on a slow disk: the longest WRITE of any";
/// With COMMITs among them.
const LONGEST_WAIT: &str = "bulk on a slow disk: the longest wait of any";
const P99: &str = "bulk on a slow disk: p99";
const SHARE: &str = "data of all, second half of the run, against what the disk takes in writes of 1 MiB";
const WHOLE: &str = "bulk on a slow disk: the whole run";
const SMALL_P99: &str = "small files beside them, CREATE and WRITE of 4 KiB, p99";
const SMALL_LONGEST: &str = "small files beside them, the longest";
const SMALL_RATE: &str = "small files beside them";

impl Slope {
    /// Runs it on a new pool each time.
    pub fn run(&self) -> Result<()> {
        let mut binaries = Binaries::build()?;
        if let Some(server) = &self.server {
            binaries.slow = server.canonicalize().with_context(|| format!("no {}", server.display()))?;
        }
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            let setup = Setup {
                slowness: slowness("--turning", POOL_FILE, self.delay_ms),
                pool_bytes: 16 << 30,
                sparse: true,
                log_bytes: self.log_mib << 20,
                log_folder: self.log_folder.clone(),
                ..Setup::default()
            };
            let filer = Filer::make(&binaries, setup, &self.site.folder()?)?;
            self.measure(&filer.target(POOL), &mut figures)?;
        }
        // No share is promised of what is committed.
        let (name, command, share) = match self.unstable {
            true => ("slope unstable", "bench slope --unstable", Bar::Stated),
            false => ("slope", "bench slope", Bar::AtLeast(0.9)),
        };
        figures.finish(name)?;
        figures.row(command, self.longest(), Bar::AtMost(1.0));
        figures.row(command, SHARE, share);
        figures.row(command, SMALL_P99, Bar::AtMost(25.0));
        Ok(())
    }

    fn longest(&self) -> &'static str {
        if self.unstable { LONGEST_WAIT } else { LONGEST_WRITE }
    }

    fn measure(&self, target: &Target, figures: &mut Figures) -> Result<()> {
        let root = Connection::mount(target)?;
        let folder = Connection::open(target.nfs)?.mkdir(&root, "slope")?;
        let done = AtomicBool::new(false);
        let half = Duration::from_secs(self.seconds) / 2;
        let started = Instant::now();
        let until = || (!done.load(Ordering::Relaxed)).then(|| started.elapsed() < half);
        let (folder, until) = (&folder, &until);
        let (bulk, small) = std::thread::scope(|scope| {
            let write = |client| scope.spawn(move || self.write_on(target, folder, client, until));
            let bulk: Vec<_> = (0..self.clients).map(write).collect();
            let small = scope.spawn(move || make_files(target, folder, until));
            std::thread::sleep(half * 2);
            done.store(true, Ordering::Relaxed);
            let bulk = bulk.into_iter().map(|client| joined(client.join())).collect::<Result<Vec<_>>>();
            anyhow::Ok((bulk?, joined(small.join())?))
        })?;
        let elapsed = started.elapsed();
        let mut all = Histogram::<u64>::new(3)?;
        bulk.iter().try_for_each(|seen| all.add(&seen.times_ns))?;
        let early: u64 = bulk.iter().map(|seen| seen.early).sum();
        // Of what was asked for, this part are WRITEs.
        let writes = if self.unstable { COMMIT_MIB as f64 / (COMMIT_MIB + 1) as f64 } else { 1.0 };
        let late_rate = (all.len() - early) as f64 * writes / (elapsed - half).as_secs_f64();
        figures.add(self.longest(), "s", seconds(all.max()));
        figures.add(P99, "s", seconds(all.value_at_quantile(0.99)));
        let small_rate = (small.times_ns.len() - small.early) as f64 / (elapsed - half).as_secs_f64();
        let late_mib = late_rate + small_rate * FILE_BYTES as f64 / MIB as f64;
        figures.add(SHARE, "", late_mib * self.delay_ms as f64 / 1000.0);
        figures.add(WHOLE, "MiB/s", all.len() as f64 * writes / elapsed.as_secs_f64());
        figures.add(SMALL_P99, "ms", seconds(small.times_ns.value_at_quantile(0.99)) * 1000.0);
        figures.add(SMALL_LONGEST, "ms", seconds(small.times_ns.max()) * 1000.0);
        figures.add(SMALL_RATE, "files/s", small.times_ns.len() as f64 / elapsed.as_secs_f64());
        Ok(())
    }

    fn write_on(
        &self,
        target: &Target,
        folder: &Handle,
        client: usize,
        until: impl Fn() -> Option<bool>,
    ) -> Result<Seen> {
        let mut connection = Connection::open(target.nfs)?;
        let file = connection.create(folder, &format!("bulk-{client}"))?;
        let data = noise(MIB)?;
        let at = |place: u64| place % FILE_MIB * MIB as u64;
        timed(until, |number| {
            if !self.unstable {
                return connection.write(&file, at(number), &data, Stable::FileSync).map(drop);
            }
            match (number / (COMMIT_MIB + 1), number % (COMMIT_MIB + 1)) {
                (_, COMMIT_MIB) => connection.commit(&file).map(drop),
                (round, mib) => {
                    connection.write(&file, at(round * COMMIT_MIB + mib), &data, Stable::Unstable).map(drop)
                }
            }
        })
    }
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// Does something until there is no half of the run any more, in which it may go on.
fn timed(until: impl Fn() -> Option<bool>, mut act: impl FnMut(u64) -> Result<()>) -> Result<Seen> {
    let mut seen = Seen { times_ns: Histogram::new(3)?, early: 0 };
    while let Some(is_early) = until() {
        let started = Instant::now();
        act(seen.times_ns.len())?;
        seen.times_ns.record(u64::try_from(started.elapsed().as_nanos())?)?;
        seen.early += u64::from(is_early);
    }
    Ok(seen)
}

fn make_files(target: &Target, folder: &Handle, until: impl Fn() -> Option<bool>) -> Result<Seen> {
    let mut connection = Connection::open(target.nfs)?;
    let folder = connection.mkdir(folder, "small")?;
    let data = noise(FILE_BYTES)?;
    timed(until, |number| {
        let file = connection.create(&folder, &file_name(number))?;
        connection.write(&file, 0, &data, Stable::FileSync).map(drop)
    })
}
