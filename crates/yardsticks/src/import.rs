//! How long a start takes when a long log has to be replayed.
//!
//! The log is trimmed with every transaction group, so under an ordinary load it never grows long. Here the
//! pool's disk stops to answer flushes once the pool is made: the group under way never ends, clients go on as
//! their requests rest on the log, and the log grows until it has the length that was asked for. Then the
//! server is killed, and the ordinary binary starts over the same files, which are as quick as ever.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use tally_bench::wire::{Connection, Handle, Stable};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL_FILE, Setup, Status, slowness};
use crate::load;

/// The pool is only a size: every change sets aside the room that its fold might take at worst, and none is folded.
const POOL_BYTES: u64 = 2 << 40;
/// How long the log may take to grow.
const GROW_TIMEOUT: Duration = Duration::from_secs(1800);
/// Files in one directory.
const DIRECTORY_FILES: u64 = 10_000;
const MEBIBYTE: usize = 1 << 20;

/// What `import` takes.
#[derive(Args)]
pub struct Import {
    #[command(flatten)]
    site: Site,
    /// Length of the live log, MiB.
    #[arg(long, default_value_t = 1024)]
    mebibytes: u64,
    /// What the log is made by [default: all, one after the other]
    #[arg(long, value_enum)]
    by: Vec<By>,
    /// Limit on dirty memory while the log grows, MiB: all that is in the log is in memory, too.
    #[arg(long, default_value_t = 12 << 10)]
    dirty_mebibytes: u64,
}

/// Who wrote the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// One client makes files, one at a time: the fewest records for a byte of log.
    Lone,
    /// 64 clients make files: the most.
    Many,
    /// One client writes 1 MiB at a time, FILE_SYNC, over 256 MiB of one file.
    Writes,
}

impl By {
    fn connections(self) -> usize {
        if self == Self::Many { 64 } else { 1 }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Lone => "a lone client's creates",
            Self::Many => "64 clients' creates",
            Self::Writes => "1 MiB writes",
        }
    }
}

impl Import {
    /// Runs it.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let all = [By::Lone, By::Many, By::Writes];
        let by = if self.by.is_empty() { &all[..] } else { &self.by };
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            for &by in by {
                self.measure(&binaries, by, &mut figures).with_context(|| format!("log made by {}", by.words()))?;
            }
        }
        figures.finish("import")?;
        for &by in by {
            figures.row("bench import", &self.name(by, "start to ready"), Bar::AtMost(10.0));
            for what in ["records", "live log", "resident memory at most", "reports of progress"] {
                figures.row("bench import", &self.name(by, what), Bar::Stated);
            }
        }
        Ok(())
    }

    fn name(&self, by: By, what: &str) -> String {
        format!("{} MiB of log made by {}: {what}", self.mebibytes, by.words())
    }

    fn measure(&self, binaries: &Binaries, by: By, figures: &mut Figures) -> Result<()> {
        let folder = tempfile::Builder::new().prefix("import-").tempdir_in(self.site.folder()?)?;
        let gate = folder.path().join("held");
        let mut filer = self.filer(binaries, folder.path(), &gate)?;
        let grown = self.grow(&filer, by, &gate)?;
        filer.kill()?;
        filer.become_ordinary()?;
        let start = filer.start()?;
        for (folder, name) in &grown.last {
            Connection::open(filer.target("tank").nfs)?.lookup(folder, name)?;
        }
        let megabytes = |bytes: u64| (bytes >> 20) as f64;
        let mut add = |what, unit, value| figures.add(&self.name(by, what), unit, value);
        add("start to ready", "s", start.ready.as_secs_f64());
        add("records", "", grown.status.lanes(|lane| lane.records) as f64);
        add("frames", "", grown.status.lanes(|lane| lane.frames) as f64);
        add("live log", "MiB", megabytes(grown.status.lanes(|lane| lane.used)));
        add("resident memory at most", "MiB", megabytes(filer.take_memory_peak()?));
        add("reports of progress", "", start.progress.len() as f64);
        let (first, last) = (start.progress.first(), start.progress.last());
        println!("  {}", filer.replay_line().unwrap_or_default());
        println!("  progress from {first:?} to {last:?}");
        Ok(())
    }

    fn filer(&self, binaries: &Binaries, folder: &Path, gate: &Path) -> Result<Filer> {
        let setup = Setup {
            configuration: format!("dirty_data_max = \"{}M\"\n", self.dirty_mebibytes),
            slowness: slowness("--held", POOL_FILE, gate.display()),
            pool_bytes: POOL_BYTES,
            sparse: true,
            // A ring takes no more requests when three quarters of it are live.
            log_bytes: (self.mebibytes << 20) * 3 / 2 + (64 << 20),
            ..Setup::default()
        };
        Filer::make(binaries, setup, folder)
    }

    /// Lets clients work with the pool's disk held until the log is as long as it should be.
    fn grow(&self, filer: &Filer, by: By, gate: &Path) -> Result<Grown> {
        let target = filer.target("tank");
        let root = Connection::mount(&target)?;
        filer.quiet()?;
        std::fs::write(gate, "")?;
        let stop = AtomicBool::new(false);
        let (status, last) = std::thread::scope(|scope| {
            let working = scope.spawn(|| {
                load::at_once(target.nfs, by.connections(), |index, connection| match by {
                    By::Writes => write(connection, &root, &stop).map(|()| None),
                    By::Lone | By::Many => make_files(connection, &root, index, &stop).map(Some),
                })
            });
            let status = self.wait_for_length(filer, || working.is_finished());
            stop.store(true, Ordering::Relaxed);
            let (_, last) = working.join().map_err(|_| anyhow::anyhow!("the working thread panicked"))??;
            Ok::<_, anyhow::Error>((status?, last))
        })?;
        // Some more was acknowledged in the last moment.
        let status = filer.status().unwrap_or(status);
        Ok(Grown { status, last: last.into_iter().flatten().collect() })
    }

    fn wait_for_length(&self, filer: &Filer, ended: impl Fn() -> bool) -> Result<Status> {
        let started = Instant::now();
        let mut shown = Instant::now();
        while started.elapsed() < GROW_TIMEOUT {
            let status = filer.status()?;
            let used = status.lanes(|lane| lane.used);
            if used >= self.mebibytes << 20 {
                return Ok(status);
            }
            ensure!(!ended(), "the load ended with a log of {} MiB", used >> 20);
            if shown.elapsed() > Duration::from_secs(10) {
                shown = Instant::now();
                eprintln!("  {} MiB of log", used >> 20);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the log is not long enough after {GROW_TIMEOUT:?}: {:?}", filer.status()?)
    }
}

/// A log that is as long as it should be.
struct Grown {
    status: Status,
    /// The last file that each client was told it had made: it must be there afterwards.
    last: Vec<(Handle, String)>,
}

fn make_files(connection: &mut Connection, root: &Handle, index: usize, stop: &AtomicBool) -> Result<(Handle, String)> {
    for directory in 0_u64.. {
        let name = format!("made-{index}-{directory}");
        let folder = connection.mkdir(root, &name)?;
        for file in 0..DIRECTORY_FILES {
            let name = format!("f{file:07}");
            connection.create(&folder, &name)?;
            if stop.load(Ordering::Relaxed) {
                return Ok((folder, name));
            }
        }
    }
    bail!("directories are counted in 64 bits")
}

fn write(connection: &mut Connection, root: &Handle, stop: &AtomicBool) -> Result<()> {
    let file = connection.create(root, "written")?;
    let mut data = load::noise(MEBIBYTE)?;
    for index in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        data[..8].copy_from_slice(&index.to_le_bytes());
        connection.write(&file, index % 256 * MEBIBYTE as u64, &data, Stable::FileSync)?;
    }
    Ok(())
}
