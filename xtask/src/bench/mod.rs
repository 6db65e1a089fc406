//! Benchmarks by a client that costs nothing (`wire`), against the bare floor (`floor`), this workspace's
//! server, a running server or a peer. Contenders run alternately; a figure is a median with its spread.

mod floor;
mod load;
mod report;
mod server;
mod wire;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use rustix::fs::OFlags;
use serde::Serialize;
use tally_disk::AlignedBuf;

use floor::Floor;
use load::Load;
use report::Report;
use server::Server;
use wire::Target;

/// A benchmark.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// The bare loop alone: every load on 1, 16 and 64 connections.
    Floor(Options),
    /// tar's six requests a file.
    Untar(Options),
    /// CREATE, WRITE and COMMIT of 4 KiB.
    Mixed(Options),
    /// SETATTRs of one file, one at a time (or one at a time on each of several connections).
    Lone(Options),
    /// Sequential WRITEs of 1 MiB, COMMIT, and READs, beside the same on a file with O_DIRECT.
    Stream(Options),
}

/// What all benchmarks take.
#[derive(Args)]
pub(crate) struct Options {
    /// Connections, each with its own thread.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Items in all: files or requests; for `stream`, MiB.
    #[arg(long, default_value_t = 4096)]
    items: u64,
    /// Runs of each contender.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Run the bare floor alternately and print the ratio.
    #[arg(long)]
    floor: bool,
    /// Run Debian's NFS-Ganesha alternately (packages nfs-ganesha, nfs-ganesha-vfs).
    #[arg(long)]
    ganesha: bool,
    /// Leave this workspace's own server out.
    #[arg(long)]
    no_tally: bool,
    /// A server that runs already: HOST:PORT:/EXPORT, an address in numbers.
    #[arg(long)]
    server: Option<String>,
    /// Where pools and the floor's file are made; a folder on a disk.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Size of the pool that is made.
    #[arg(long, default_value = "8G")]
    size: String,
}

impl Bench {
    /// Runs it.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Floor(options) => floor_alone(&options),
            Self::Untar(options) => compare(&options, Load::Untar, "untar"),
            Self::Mixed(options) => compare(&options, Load::Mixed, "mixed"),
            Self::Lone(options) => compare(&options, Load::Lone, "lone"),
            Self::Stream(options) => stream(&options),
        }
    }
}

fn floor_alone(options: &Options) -> Result<()> {
    let folder = folder(options)?;
    let floor = Floor::start(&folder)?;
    for (name, load) in [("lone", Load::Lone), ("untar", Load::Untar), ("mixed", Load::Mixed)] {
        let mut report = Report::default();
        for _ in 0..options.runs {
            for connections in [1, 16, 64] {
                let contender = format!("floor × {connections}");
                report.add(&contender, load::run(&floor.target(), load, connections, options.items)?);
            }
        }
        report.finish(&format!("floor {name}"), load.item())?;
    }
    Ok(())
}

/// Runs all contenders of a load alternately.
fn compare(options: &Options, load: Load, name: &str) -> Result<()> {
    let folder = folder(options)?;
    let floor = options.floor.then(|| Floor::start(&folder)).transpose()?;
    let servers = contenders(options, &folder)?;
    let mut targets: Vec<(&str, Target)> = servers.iter().map(|(name, s)| (*name, s.target().clone())).collect();
    targets.extend(options.server.as_deref().map(|s| parse_target(s).map(|t| ("server", t))).transpose()?);
    targets.extend(floor.as_ref().map(|floor| ("floor", floor.target())));
    let mut report = Report::default();
    for _ in 0..options.runs {
        for (contender, target) in &targets {
            report.add(contender, load::run(target, load, options.connections, options.items)?);
        }
    }
    report.finish(&format!("{name} x{}", options.connections), load.item())?;
    for contender in ["tally", "ganesha", "server"] {
        if let (Some(rate), Some(floor)) = (report.median(contender), report.median("floor")) {
            println!(
                "{contender} takes {:.2} times as long as the floor ({:.2} of its rate)",
                floor / rate,
                rate / floor
            );
        }
    }
    println!("{} requests for each of the {}", load.requests_per_item(), load.item());
    Ok(())
}

fn contenders(options: &Options, folder: &Path) -> Result<Vec<(&'static str, Server)>> {
    let mut servers = Vec::new();
    if !options.no_tally && options.server.is_none() {
        servers.push(("tally", Server::tally(&server::build_tally()?, folder, &options.size)?));
    }
    if options.ganesha {
        servers.push(("ganesha", Server::ganesha(folder)?));
    }
    Ok(servers)
}

#[derive(Serialize)]
struct StreamRun {
    contender: &'static str,
    write_mib_per_second: f64,
    read_mib_per_second: f64,
}

fn stream(options: &Options) -> Result<()> {
    let folder = folder(options)?;
    let mut runs = Vec::new();
    let rate = |time: std::time::Duration| options.items as f64 / time.as_secs_f64();
    for _ in 0..options.runs {
        // A server of its own for every run: the pool's size need not hold all of them.
        for (contender, server) in contenders(options, &folder)? {
            let (write, read) = load::stream(server.target(), options.items)
                .with_context(|| format!("{contender} in {}", server.folder().display()))?;
            runs.push(StreamRun { contender, write_mib_per_second: rate(write), read_mib_per_second: rate(read) });
        }
        let (write, read) = direct_file(&folder.join("stream.raw"), options.items)?;
        let contender = "O_DIRECT file";
        runs.push(StreamRun { contender, write_mib_per_second: rate(write), read_mib_per_second: rate(read) });
        for run in &runs[runs.len().saturating_sub(2)..] {
            let (write, read) = (run.write_mib_per_second, run.read_mib_per_second);
            println!("{:<16} write {write:>7.0} MiB/s   read {read:>7.0} MiB/s", run.contender);
        }
    }
    report::save("stream", &runs)
}

/// Sequential writes and an fsync, then reads, of a file with O_DIRECT: the disk's own rate.
fn direct_file(path: &Path, mebibytes: u64) -> Result<(std::time::Duration, std::time::Duration)> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).custom_flags(flags).open(path)?;
    let mut buffer = AlignedBuf::zeroed(1 << 20);
    rustix::rand::getrandom(&mut buffer[..], rustix::rand::GetRandomFlags::empty())?;
    let started = Instant::now();
    for index in 0..mebibytes {
        file.write_all_at(&buffer, index << 20)?;
    }
    file.sync_all()?;
    let written = started.elapsed();
    let started = Instant::now();
    for index in 0..mebibytes {
        file.read_exact_at(&mut buffer, index << 20)?;
    }
    let read = started.elapsed();
    std::fs::remove_file(path)?;
    Ok((written, read))
}

fn folder(options: &Options) -> Result<PathBuf> {
    let folder = options.folder.clone().unwrap_or_else(|| crate::cargo::target_folder().join("bench"));
    std::fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

fn parse_target(text: &str) -> Result<Target> {
    let Some((address, export)) = text.split_once(":/") else { bail!("{text} is not HOST:PORT:/EXPORT") };
    let address = address.parse().with_context(|| format!("{address} is no address and port"))?;
    Ok(Target { nfs: address, mount: address, export: format!("/{export}") })
}
