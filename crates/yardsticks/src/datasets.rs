//! Ten thousand datasets in one pool with a dashboard open: what the idle server takes for them, and what commands take
//! among them, by the commands themselves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tally_lab::port::free_port;

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::report::median;

/// What `datasets` takes.
#[derive(Args)]
pub struct Datasets {
    #[command(flatten)]
    site: Site,
    /// Datasets below the pool's own.
    #[arg(long, default_value_t = 10_000)]
    datasets: usize,
    /// Seconds for which the idle server is looked at.
    #[arg(long, default_value_t = 30)]
    idle: u64,
}

/// Creates that are timed, at the beginning and at the end.
const TIMED: usize = 21;
/// Lists that are made at once.
const LISTS: usize = 8;
/// Between two looks of the dashboard, as in its page.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// After a command the server gives memory back, and groups follow.
const REST: Duration = Duration::from_secs(15);

const FIRST: &str = "`dataset create`, the first ones";
const LAST: &str = "`dataset create`, the last ones";
const GROWTH: &str = "`dataset create`, the last against the first";
const MEMORY: &str = "memory of the idle server beyond that with one dataset";
const PROCESSOR: &str = "processor time of the idle server";
const LIST_MEMORY: &str = "eight `dataset list` at once: memory beyond idle";
const LIST_TIME: &str = "eight `dataset list` at once";
const PROPERTY: &str = "a property that all inherit";
const WRITES: &str = "device writes of a create";
const BYTES: &str = "bytes written by a create";

impl Datasets {
    /// Runs it on a new pool each time.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            self.once(&binaries, &mut figures)?;
        }
        figures.finish("datasets")?;
        figures.row("bench datasets", MEMORY, Bar::AtMost(64.0));
        figures.row("bench datasets", PROCESSOR, Bar::AtMost(1.0));
        figures.row("bench datasets", LIST_MEMORY, Bar::AtMost(64.0));
        figures.row("bench datasets", LIST_TIME, Bar::AtMost(1.0));
        figures.row("bench datasets", GROWTH, Bar::AtMost(2.0));
        figures.row("bench datasets", PROPERTY, Bar::AtMost(1.0));
        Ok(())
    }

    fn once(&self, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
        let http = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let configuration = format!("[http]\nlisten = \"{http}\"\n");
        let setup = Setup { configuration, pool_bytes: 4 << 30, sparse: true, ..Setup::default() };
        let filer = Filer::make(binaries, setup, &self.site.folder()?)?;
        let open = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let dashboard = scope.spawn(|| watch(http, &open));
            let measured = self.measure(&filer, figures);
            open.store(false, Ordering::Relaxed);
            let looks = dashboard.join().map_err(|_| anyhow::anyhow!("the dashboard's thread panicked"))?;
            measured.and(looks)
        })
    }

    fn measure(&self, filer: &Filer, figures: &mut Figures) -> Result<()> {
        let (memory_of_one, _) = self.idle(filer)?;
        let first = create(filer, 0..TIMED)?;
        create(filer, TIMED..self.datasets.saturating_sub(TIMED))?;
        let before = filer.status()?.io;
        let last = create(filer, self.datasets.saturating_sub(TIMED)..self.datasets)?;
        let after = filer.status()?.io;
        figures.add(FIRST, "ms", first);
        figures.add(LAST, "ms", last);
        figures.add(GROWTH, "times", last / first);
        figures.add(WRITES, "", (after.write_ops - before.write_ops) as f64 / TIMED as f64);
        figures.add(BYTES, "", (after.write_bytes - before.write_bytes) as f64 / TIMED as f64);
        let (memory, processor) = self.idle(filer)?;
        figures.add(MEMORY, "MiB", mebibytes(memory.saturating_sub(memory_of_one)));
        figures.add(PROCESSOR, "% of a core", processor);
        self.lists(filer, figures)?;
        let started = Instant::now();
        filer.command(&["dataset", "set", "atime=on", POOL])?;
        figures.add(PROPERTY, "s", started.elapsed().as_secs_f64());
        Ok(())
    }

    /// The most memory that the server has while nobody wants anything, and its share of a core in per cent.
    fn idle(&self, filer: &Filer) -> Result<(u64, f64)> {
        std::thread::sleep(REST);
        filer.take_memory_peak()?;
        let (before, started) = (filer.processor_time()?, Instant::now());
        std::thread::sleep(Duration::from_secs(self.idle));
        let used = filer.processor_time()?.saturating_sub(before);
        Ok((filer.take_memory_peak()?, 100.0 * used.as_secs_f64() / started.elapsed().as_secs_f64()))
    }

    fn lists(&self, filer: &Filer, figures: &mut Figures) -> Result<()> {
        std::thread::sleep(REST);
        filer.take_memory_peak()?;
        std::thread::sleep(LOOK_INTERVAL);
        let (idle, started) = (filer.take_memory_peak()?, Instant::now());
        let listed: Vec<Result<String>> = std::thread::scope(|scope| {
            let lists: Vec<_> = (0..LISTS).map(|_| scope.spawn(|| filer.command(&["dataset", "list"]))).collect();
            lists.into_iter().map(|list| list.join().unwrap_or_else(|_| Ok(String::new()))).collect()
        });
        figures.add(LIST_TIME, "s", started.elapsed().as_secs_f64());
        for list in listed {
            let count = list?.lines().count();
            ensure!(count > self.datasets, "a list has {count} lines");
        }
        figures.add(LIST_MEMORY, "MiB", mebibytes(filer.take_memory_peak()?.saturating_sub(idle)));
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss)] // It is rounded for people anyway.
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Makes datasets one after the other; the median of their times, milliseconds.
fn create(filer: &Filer, numbers: std::ops::Range<usize>) -> Result<f64> {
    let mut times = Vec::new();
    for number in numbers {
        let started = Instant::now();
        filer.command(&["dataset", "create", &format!("{POOL}/user-{number:05}")])?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(if times.is_empty() { 0.0 } else { median(times) })
}

/// What the page asks for, as often as it does.
fn watch(address: SocketAddr, open: &AtomicBool) -> Result<()> {
    while open.load(Ordering::Relaxed) {
        for path in ["/api/history?since=0", "/api/observation?accounts=none&datasets=100"] {
            let mut stream = TcpStream::connect(address).context("the dashboard is not there")?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{path} is not answered");
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}
