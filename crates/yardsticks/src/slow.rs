//! A log on a slow device: what 64 connections get out of it, and whether reads wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use hdrhistogram::Histogram;
use tally_bench::wire::{Connection, Stable, Target};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, LOG_FILE, Setup, slowness};
use crate::load::{self, Load};

/// Bytes of the file that is read, and of each committed write.
const BYTES: usize = 4096;

/// What `slow` takes.
#[derive(Args)]
pub struct Slow {
    #[command(flatten)]
    site: Site,
    /// Time of a durable write on the log device, milliseconds; it does one at a time.
    #[arg(long, default_value_t = 5)]
    delay_ms: u64,
    /// The many connections.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Durable requests (SETATTRs, each connection on a file of its own) of each connection in each run.
    #[arg(long, default_value_t = 400)]
    requests: u64,
    /// Time of a durable write on the log while reads are measured, milliseconds.
    #[arg(long, default_value_t = 8)]
    read_delay_ms: u64,
    /// READs of a cached 4 KiB file in each run.
    #[arg(long, default_value_t = 50_000)]
    reads: u64,
}

impl Slow {
    /// Runs it.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let mut figures = Figures::default();
        self.batching(&binaries, &mut figures)?;
        self.reading(&binaries, &mut figures)?;
        figures.finish("slow")?;
        figures.row("bench slow", &self.gain(), Bar::AtLeast(20.0));
        figures.row("bench slow", &self.writes_per_request(), Bar::AtMost(0.1));
        figures.row("bench slow", &self.read_p99(), Bar::AtMost(1.0));
        Ok(())
    }

    fn batching(&self, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
        let filer = self.filer(binaries, self.delay_ms)?;
        let target = filer.target("tank");
        let rate = |connections| format!("durable requests, {connections} connections, {} ms log", self.delay_ms);
        for _ in 0..self.site.runs {
            for connections in [1, self.connections] {
                let before = filer.status()?;
                let measured = load::run(&target, Load::Lone, connections, self.requests * connections as u64)?;
                let after = filer.status()?;
                figures.add(&rate(connections), "1/s", measured.rate());
                if connections == self.connections {
                    let frames = after.lanes(|lane| lane.frames) - before.lanes(|lane| lane.frames);
                    // Beside the requests that are timed: one MKDIR, then MKDIR and CREATE of each connection.
                    let requests = measured.items + 2 * connections as u64 + 1;
                    figures.add(&self.writes_per_request(), "", frames as f64 / requests as f64);
                }
            }
        }
        figures.add_ratios(&self.gain(), &rate(self.connections), &rate(1));
        Ok(())
    }

    fn reading(&self, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
        let filer = self.filer(binaries, self.read_delay_ms)?;
        let target = filer.target("tank");
        for _ in 0..self.site.runs {
            let alone = self.read_alone(&target)?;
            figures.add("READ of a cached 4 KiB file, nobody commits, p99", "ms", milliseconds(&alone, 0.99));
            let (busy, commits) = self.read_beside_commits(&target)?;
            figures.add("READ while another client commits, p50", "ms", milliseconds(&busy, 0.5));
            figures.add(&self.read_p99(), "ms", milliseconds(&busy, 0.99));
            figures.add("READ while another client commits, slowest", "ms", milliseconds(&busy, 1.0));
            figures.add("COMMITs of the other client meanwhile", "", commits as f64);
        }
        Ok(())
    }

    fn read_alone(&self, target: &Target) -> Result<Histogram<u64>> {
        let root = Connection::mount(target)?;
        let mut connection = Connection::open(target.nfs)?;
        let file = connection.create(&root, "read")?;
        connection.write(&file, 0, &[7; BYTES], Stable::FileSync)?;
        let mut latency_ns = Histogram::new(3)?;
        for _ in 0..self.reads {
            let started = Instant::now();
            connection.send_read(&file, 0, BYTES as u32)?;
            connection.receive_read()?;
            latency_ns.record(u64::try_from(started.elapsed().as_nanos())?)?;
        }
        Ok(latency_ns)
    }

    fn read_beside_commits(&self, target: &Target) -> Result<(Histogram<u64>, u64)> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let committing = scope.spawn(|| commit_until(target, &stop));
            let read = self.read_alone(target);
            stop.store(true, Ordering::Relaxed);
            let commits = committing.join().map_err(|_| anyhow::anyhow!("the committing thread panicked"))??;
            Ok((read?, commits))
        })
    }

    fn filer(&self, binaries: &Binaries, delay_ms: u64) -> Result<Filer> {
        let slowness = slowness("--paced", LOG_FILE, delay_ms);
        Filer::make(binaries, Setup { slowness, ..Setup::default() }, &self.site.folder()?)
    }

    fn gain(&self) -> String {
        format!("{} connections against 1, {} ms a durable write, one at a time", self.connections, self.delay_ms)
    }

    fn writes_per_request(&self) -> String {
        format!("log writes per durable request, {} connections", self.connections)
    }

    fn read_p99(&self) -> String {
        format!("READ while another client commits on a {} ms log, p99", self.read_delay_ms)
    }
}

/// Writes 4 KiB and commits them, over and over; gives the number of COMMITs.
fn commit_until(target: &Target, stop: &AtomicBool) -> Result<u64> {
    let root = Connection::mount(target)?;
    let mut connection = Connection::open(target.nfs)?;
    let file = connection.create(&root, "committed")?;
    let mut commits = 0;
    while !stop.load(Ordering::Relaxed) {
        connection.write(&file, 0, &[9; BYTES], Stable::Unstable)?;
        connection.commit(&file)?;
        commits += 1;
    }
    Ok(commits)
}

fn milliseconds(latency_ns: &Histogram<u64>, quantile: f64) -> f64 {
    Duration::from_nanos(latency_ns.value_at_quantile(quantile)).as_secs_f64() * 1000.0
}
