//! Benchmarks by a client that costs nothing (`wire`), against the bare floor (`floor`), this workspace's
//! server, a running server or a peer. Contenders run alternately; a figure is a median with its spread.

mod figures;
mod filer;
mod floor;
mod handles;
mod import;
mod load;
mod memory_log;
mod million;
mod random;
mod report;
mod server;
mod slow;
mod stream;
mod wire;
mod wtmax;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

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
    /// Sequential WRITEs of 1 MiB and COMMIT, and READs after a restart, beside the same on a file with O_DIRECT.
    Stream(stream::Stream),
    /// Many connections against one on a slow log device; and cached READs while a client commits on one.
    Slow(slow::Slow),
    /// Untar with the log on memory: sync=standard against sync=disabled.
    MemoryLog(memory_log::MemoryLog),
    /// The start after a kill, with a long live log.
    Import(import::Import),
    /// A million small files: made, overwritten, changed, looked at; with the server's memory and the bytes written.
    Million(million::Million),
    /// Forged, damaged and foreign handles; fails if one of them is accepted.
    Handles(handles::Handles),
    /// Files of 64 KiB to 1 MiB as one FILE_SYNC WRITE and as UNSTABLE WRITEs with COMMIT: what wtmax should be.
    #[command(name = "wtmax")]
    WtMax(wtmax::WtMax),
}

/// Where a benchmark runs, and how often.
#[derive(Args)]
pub(crate) struct Site {
    /// Runs of each contender.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Where pools are made; a folder on a disk [default: target/bench]
    #[arg(long)]
    folder: Option<PathBuf>,
}

impl Site {
    fn folder(&self) -> Result<PathBuf> {
        prepared(self.folder.as_deref())
    }
}

/// What all benchmarks take.
#[derive(Args)]
pub(crate) struct Options {
    /// Connections, each with its own thread.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Items in all: files or requests.
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
            Self::Stream(stream) => stream.run(),
            Self::Slow(slow) => slow.run(),
            Self::MemoryLog(memory_log) => memory_log.run(),
            Self::Import(import) => import.run(),
            Self::Million(million) => million.run(),
            Self::Handles(handles) => handles.run(),
            Self::WtMax(wtmax) => wtmax.run(),
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

fn folder(options: &Options) -> Result<PathBuf> {
    prepared(options.folder.as_deref())
}

fn prepared(folder: Option<&Path>) -> Result<PathBuf> {
    let folder = folder.map_or_else(|| crate::cargo::target_folder().join("bench"), Path::to_owned);
    std::fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

fn parse_target(text: &str) -> Result<Target> {
    let Some((address, export)) = text.split_once(":/") else { bail!("{text} is not HOST:PORT:/EXPORT") };
    let address = address.parse().with_context(|| format!("{address} is no address and port"))?;
    Ok(Target { nfs: address, mount: address, export: format!("/{export}") })
}
