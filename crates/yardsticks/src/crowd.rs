//! Many connections on a fast log: what a durable create takes of the processors, and whether anybody waits much longer
//! than the others. And a few beside one who writes a lot: what his transaction groups cost them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use hdrhistogram::Histogram;
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Stable, Target, random_u32};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::load::at_once;

/// Bytes of one unstable WRITE of whoever writes a lot: less than a record, so that they stay in memory until the group
/// is synced.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces of each of his files.
const PIECES: u64 = 2;

/// What `crowd` takes.
#[derive(Args)]
pub struct Crowd {
    #[command(flatten)]
    site: Site,
    /// The many connections.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Creates, and NULLs, of each connection in each run.
    #[arg(long, default_value_t = 1000)]
    requests: u64,
    /// Connections that create beside the one who writes.
    #[arg(long, default_value_t = 4)]
    few: usize,
    /// What he writes, MiB.
    #[arg(long, default_value_t = 1024)]
    mebibytes: u64,
}

const CPU: &str = "processor time for each durable create, all threads, over three times that of a NULL and 60 µs";
const CONVOY: &str = "durable creates, p99 against p50";
const PRESSURE: &str = "p99 of durable creates beside a gibibyte of dirty data, against nobody else";

impl Crowd {
    /// Runs both parts.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            self.many(&Filer::make(&binaries, Setup::default(), &self.site.folder()?)?, &mut figures)?;
            // A quarter of the dirty limit begins a group: the limit must not be what is measured.
            let setup = Setup { configuration: "dirty_data_max = \"2G\"\n".into(), ..Setup::default() };
            self.pressure(&Filer::make(&binaries, setup, &self.site.folder()?)?, &mut figures)?;
        }
        figures.finish("crowd")?;
        figures.row("bench crowd", CPU, Bar::AtMost(1.0));
        figures.row("bench crowd", CONVOY, Bar::AtMost(4.0));
        figures.row("bench crowd", PRESSURE, Bar::AtMost(2.0));
        Ok(())
    }

    fn many(&self, filer: &Filer, figures: &mut Figures) -> Result<()> {
        let target = filer.target(POOL);
        let all = self.requests * self.connections as u64;
        let before = filer.processor_time()?;
        at_once(target.nfs, self.connections, |_, connection| (0..self.requests).try_for_each(|_| connection.null()))?;
        let null = (filer.processor_time()? - before).as_secs_f64() * 1e6 / all as f64;
        let before = filer.processor_time()?;
        let (took, latency_ns) = self.creates(&target, self.connections, || false)?;
        // The groups that make them permanent count, too.
        filer.quiet()?;
        let create = (filer.processor_time()? - before).as_secs_f64() * 1e6 / all as f64;
        figures.add("processor time of a NULL", "µs", null);
        figures.add("processor time of a durable create, transaction groups included", "µs", create);
        figures.add(CPU, "", create / (3.0 * null + 60.0));
        figures.add("durable creates", "1/s", all as f64 / took.as_secs_f64());
        figures.add("a durable create, p50", "µs", micros(&latency_ns, 0.5));
        figures.add("a durable create, p99", "µs", micros(&latency_ns, 0.99));
        figures.add(CONVOY, "", micros(&latency_ns, 0.99) / micros(&latency_ns, 0.5));
        Ok(())
    }

    /// So many creates on each connection, or fewer if `enough`.
    fn creates(
        &self,
        target: &Target,
        connections: usize,
        enough: impl Fn() -> bool + Sync,
    ) -> Result<(Duration, Histogram<u64>)> {
        let root = Connection::mount(target)?;
        let folder = Connection::open(target.nfs)?.mkdir(&root, &format!("crowd-{:08x}", random_u32()?))?;
        let (took, brought) = at_once(target.nfs, connections, |index, connection| {
            let mut latency_ns = Histogram::<u64>::new(3)?;
            let own = connection.mkdir(&folder, &format!("client-{index}"))?;
            for number in 0..self.requests {
                let started = Instant::now();
                connection.create(&own, &format!("f{number:07}"))?;
                latency_ns.record(u64::try_from(started.elapsed().as_nanos())?)?;
                if enough() {
                    break;
                }
            }
            Ok(latency_ns)
        })?;
        let mut all = Histogram::new(3)?;
        brought.into_iter().try_for_each(|one| all.add(one))?;
        Ok((took, all))
    }

    fn pressure(&self, filer: &Filer, figures: &mut Figures) -> Result<()> {
        let target = filer.target(POOL);
        let long = Self { requests: u64::MAX, site: Site { runs: 1, folder: None }, ..*self };
        let started = Instant::now();
        let (_, alone) = long.creates(&target, self.few, || started.elapsed() > Duration::from_secs(8))?;
        let done = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let written = write_much(&target, self.mebibytes);
                done.store(true, Ordering::Relaxed);
                written
            });
            let beside = long.creates(&target, self.few, || done.load(Ordering::Relaxed));
            let took = writing.join().map_err(|_| anyhow::anyhow!("the thread that writes panicked"))??;
            figures.add("what is written beside the creates", "MiB/s", self.mebibytes as f64 / took.as_secs_f64());
            anyhow::Ok(beside?.1)
        })?;
        figures.add("durable creates, nobody else, p99", "µs", micros(&alone, 0.99));
        figures.add("durable creates beside him, p99", "µs", micros(&beside, 0.99));
        figures.add(PRESSURE, "", micros(&beside, 0.99) / micros(&alone, 0.99));
        Ok(())
    }
}

/// Small files in unstable WRITEs, never committed.
fn write_much(target: &Target, mebibytes: u64) -> Result<Duration> {
    let root = Connection::mount(target)?;
    let mut connection = Connection::open(target.nfs)?;
    let folder = connection.mkdir(&root, &format!("much-{:08x}", random_u32()?))?;
    let mut random = Random::new(random_u32()?.into(), 1);
    let started = Instant::now();
    for number in 0..(mebibytes << 20) / (PIECES * PIECE_BYTES as u64) {
        let file = connection.create(&folder, &format!("f{number:07}"))?;
        for piece in 0..PIECES {
            connection.write(&file, piece * PIECE_BYTES as u64, &random.bytes(PIECE_BYTES), Stable::Unstable)?;
        }
    }
    Ok(started.elapsed())
}

fn micros(latency_ns: &Histogram<u64>, quantile: f64) -> f64 {
    latency_ns.value_at_quantile(quantile) as f64 / 1000.0
}
