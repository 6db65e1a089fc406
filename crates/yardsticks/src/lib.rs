//! Benchmarks by a client that costs nothing (`tally_bench::wire`), against the bare floor (`floor`), this workspace's
//! server, a running server or a peer. Contenders run alternately; a figure is a median with its spread.

mod against;
pub mod attacks;
mod cold;
mod compare;
mod crowd;
mod datasets;
mod figures;
mod filer;
mod floor;
mod handles;
pub mod hoards;
mod import;
mod limits;
pub mod load;
mod lone;
mod memory_log;
mod million;
mod neighbour;
mod peers;
mod removal;
mod report;
mod rivals;
mod scrub;
pub mod server;
mod session;
mod sizes;
mod slope;
mod slow;
mod soak;
mod stream;
mod taken;
mod truncate;
mod versions;
mod ways;
mod wtmax;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};

use compare::{Options, compare, floor_alone};
use load::Load;

/// A benchmark.
#[derive(Subcommand)]
pub enum Bench {
    /// The bare loop alone: every load on 1, 16 and 64 connections.
    Floor(Options),
    /// tar's six requests a file.
    Untar(Options),
    /// CREATE, WRITE and COMMIT of 4 KiB.
    Mixed(Options),
    /// SETATTRs of one file, one at a time: the server's own time, and the device's.
    Lone(lone::Lone),
    /// Ways to serve a lone client on the bare loop: threads or tokio, the reader or a log thread writes.
    Ways(ways::Ways),
    /// Sequential WRITEs of 1 MiB and COMMIT, and READs after a restart, beside the same on a file with O_DIRECT.
    Stream(stream::Stream),
    /// Small files beside a long file that is cut.
    Truncate(truncate::Truncate),
    /// Small files beside ten million others that go.
    Removal(removal::Removal),
    /// A scrub beside a sequential read of as many bytes.
    Scrub(scrub::Scrub),
    /// Many connections against one on a slow log device; and cached READs while a client commits on one.
    Slow(slow::Slow),
    /// More than a slow disk takes, beside a fast log: how long anybody waits, and small files beside it.
    Slope(slope::Slope),
    /// Durable creates on many connections: processor time of each, and whether some wait much longer; and on a few,
    /// beside somebody who writes a lot.
    Crowd(crowd::Crowd),
    /// Untar with the log on memory: sync=standard against sync=disabled.
    MemoryLog(memory_log::MemoryLog),
    /// The start after a kill, with a long live log.
    Import(import::Import),
    /// A million small files: made, overwritten, changed, looked at; with the server's memory and the bytes written.
    Million(million::Million),
    /// Against the kernel's own server, NFS-Ganesha and OpenZFS, in the lab's guest; writes docs/peers.md.
    Peers(peers::Peers),
    /// How long others wait while one client writes a byte into each of many records.
    Neighbour(neighbour::Neighbour),
    /// A lone client beside busy loops that take all processors, against the bare loop beside the same.
    Taken(taken::Taken),
    /// This tree's server against another build of it, in pairs: what a change costs.
    Against(against::Against),
    /// Files of 4 KiB to 8 MiB with UNSTABLE WRITEs and COMMIT beside FILE_SYNC WRITEs of the same bytes, where the data
    /// disk is slow, where log and data share a slow disk, and here.
    Sizes(sizes::Sizes),
    /// Half an hour of six clients with files of all sizes: memory, descriptors, groups and waits over time.
    Soak(soak::Soak),
    /// Cold READs in order and at random, one by one and several under way, here and from a slow disk.
    Cold(cold::Cold),
    /// Ten thousand datasets in one pool: the idle server's memory and processor time, lists, creates, a property of all.
    Datasets(datasets::Datasets),
    /// Forged, damaged and foreign handles; fails if one of them is accepted.
    Handles(handles::Handles),
    /// NFSv4.1 beside NFSv3, by turns: a lone SETATTR, untar, creates on 64 connections; and what an idle client takes.
    Versions(versions::Versions),
    /// Files of 64 KiB to 1 MiB as one FILE_SYNC WRITE and as UNSTABLE WRITEs with COMMIT: what wtmax should be.
    #[command(name = "wtmax")]
    WtMax(wtmax::WtMax),
}

/// Where a benchmark runs, and how often.
#[derive(Args)]
pub struct Site {
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

impl Bench {
    /// Runs it.
    pub fn run(self) -> Result<()> {
        match self {
            Self::Floor(options) => floor_alone(&options),
            Self::Untar(options) => compare(&options, Load::Untar, "untar"),
            Self::Mixed(options) => compare(&options, Load::Mixed, "mixed"),
            Self::Lone(lone) => lone.run(),
            Self::Ways(ways) => ways.run(),
            Self::Stream(stream) => stream.run(),
            Self::Scrub(scrub) => scrub.run(),
            Self::Truncate(truncate) => truncate.run(),
            Self::Removal(removal) => removal.run(),
            Self::Slow(slow) => slow.run(),
            Self::Slope(slope) => slope.run(),
            Self::Crowd(crowd) => crowd.run(),
            Self::MemoryLog(memory_log) => memory_log.run(),
            Self::Import(import) => import.run(),
            Self::Million(million) => million.run(),
            Self::Peers(peers) => peers.run(),
            Self::Neighbour(neighbour) => neighbour.run(),
            Self::Taken(taken) => taken.run(),
            Self::Against(against) => against.run(),
            Self::Sizes(sizes) => sizes.run(),
            Self::Soak(soak) => soak.run(),
            Self::Cold(cold) => cold.run(),
            Self::Datasets(datasets) => datasets.run(),
            Self::Handles(handles) => handles.run(),
            Self::Versions(versions) => versions.run(),
            Self::WtMax(wtmax) => wtmax.run(),
        }
    }
}

fn prepared(folder: Option<&Path>) -> Result<PathBuf> {
    let folder = folder.map_or_else(|| tally_lab::cargo::target_folder().join("bench"), Path::to_owned);
    std::fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}
