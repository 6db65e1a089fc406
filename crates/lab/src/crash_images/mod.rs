//! Crash images: a recording of what a pool's disks were told while a client unpacked an archive, turned into the
//! disks that a power cut would have left, each imported by the release binary.
//!
//! ```text
//!   recording ──▶ media ──┬─ at every border ─────────────────┐
//!     marks               └─ at 1,000 moments between them ───┤ images ──▶ filer ──▶ tree
//!       │                    with a part of the caches        │              │
//!       └──────▶ steps: what was answered, what can be under way ──────────▶ explained, or a broken promise
//! ```
//!
//! A **border** is a moment at which something has just become durable: a flush that had something to do, or a write
//! through the cache. Its images hold what is durable and nothing else; where caches hold more, there is a second set
//! with all of it. A **cut** between two borders comes while one request to a disk is under way. What is durable stays,
//! and of every cached write and of the one under way any sectors may ([`media`]).
//!
//! What is found must be the tree after a number of steps between those that were answered and those that the client
//! can have asked for ([`expected`]). And it never goes back: what the images of a border held stood on the medium, so
//! every later moment has it too. That sees a lost answer within a system call that makes two requests.
//!
//! The recording knows nothing of what the server meant by a write, and the server nothing of the recording.

mod archive;
mod draw;
mod expected;
mod filer;
mod lies;
mod media;
mod run;
mod stations;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::recording::Recording;
use crate::tally::Tally;
use expected::Steps;
use filer::Filer;
use run::{Counts, Run};
use stations::{Station, What};

/// Marks of the client begin so; the number of answered steps follows.
const STEP: &str = "step:";

/// What is checked, and how much of it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The recording.
    recording: PathBuf,
    /// The archive that the client unpacked meanwhile.
    #[arg(long)]
    archive: PathBuf,
    #[command(flatten)]
    share: Share,
    /// Only the border with this number.
    #[arg(long, conflicts_with = "cut")]
    border: Option<usize>,
    /// Only the power cut with this number; it needs the run's seed.
    #[arg(long, requires = "seed")]
    cut: Option<u64>,
    /// The disk of this name lies: one time in two, what it calls durable is only in its cache. Or the server lies, and
    /// answers before the write that it should wait for. That must be noticed.
    #[arg(long, value_name = "DISK|server")]
    lying: Option<String>,
    /// Keep the last images, and say where.
    #[arg(long)]
    keep: bool,
}

/// How much of a recording is checked.
#[derive(Args, Clone, Copy, Debug)]
pub struct Share {
    /// Every so manieth border.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Power cuts between borders.
    #[arg(long, default_value_t = 1000)]
    cuts: u64,
    /// Where chance starts; drawn and printed if not given.
    #[arg(long)]
    seed: Option<u64>,
}

impl Options {
    /// What `lab` asks of a recording that it has just made.
    pub fn of(recording: PathBuf, archive: PathBuf, share: Share, lying: Option<&str>) -> Self {
        Self { recording, archive, share, border: None, cut: None, lying: lying.map(str::to_owned), keep: false }
    }
}

impl Share {
    /// All borders and a thousand cuts.
    pub const WHOLE: Self = Self { every: 1, cuts: 1000, seed: None };
    /// What continuous integration has time for.
    pub const SMALL: Self = Self { every: 16, cuts: 100, seed: None };
}

/// Checks a recording. Every set of images is one that passed or failed.
pub fn run(options: &Options) -> Result<Tally> {
    let binary = crate::cargo::build_tally()?;
    let recording = Recording::read(&options.recording)?;
    let members = archive::read(&options.archive)?;
    let seed = options.share.seed.map_or_else(drawn_seed, Ok)?;
    let events = match &options.lying {
        Some(liar) => lies::told(&recording, liar, seed)?,
        None => recording.events.clone(),
    };
    let stations = options.stations(stations::all(&events, recording.disks.len(), &options.share, seed));
    ensure!(!stations.is_empty(), "there is nothing to look at: no such border or cut, or the client never began");
    println!("{}: {} events, {} stations, seed {seed}", options.recording.display(), events.len(), stations.len());
    // Images are made and thrown away by the thousand: on a disk most of the time would be its own.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("crash-images-").tempdir_in(place)?;
    let filer = Filer::new(&binary, folder.path())?;
    let started = Instant::now();
    let run = Run { options, seed, steps: Steps::new(&members), filer, events: &events, counts: Counts::default() };
    let counts = run.all(&recording, stations)?;
    println!(
        "{} borders, {} of them also with all caches, and {} cuts in {:.1} s; {} failed",
        counts.borders,
        counts.full,
        counts.cuts,
        started.elapsed().as_secs_f64(),
        counts.failed
    );
    if options.keep {
        println!("the last images are kept in {}", folder.keep().display());
    }
    Ok(options.verdict(counts))
}

impl Options {
    fn stations(&self, all: Vec<Station>) -> Vec<Station> {
        match (self.border, self.cut) {
            (Some(wanted), _) => stations::alone(all, |what| matches!(what, What::Border(number) if *number == wanted)),
            (_, Some(wanted)) => stations::alone(all, |what| matches!(what, What::Cut(number, _) if *number == wanted)),
            (None, None) => all,
        }
    }

    fn verdict(&self, counts: Counts) -> Tally {
        match (&self.lying, counts.failed) {
            (None, failed) => Tally { passed: counts.borders + counts.full + counts.cuts - failed, failed, skipped: 0 },
            (Some(liar), 0) => {
                println!("FAIL {liar} lied, and nobody noticed");
                Tally::FAILED
            }
            (Some(_), _) => Tally { passed: 1, failed: 0, skipped: 0 },
        }
    }

    /// The command that looks at one station again.
    fn again(&self, what: &What, seed: u64) -> String {
        format!(
            "cargo xtask crash-images {} --archive {} --every {} --cuts {} --seed {seed} {}{}",
            self.recording.display(),
            self.archive.display(),
            self.share.every,
            self.share.cuts,
            what.option(),
            self.lying.as_ref().map(|liar| format!(" --lying {liar}")).unwrap_or_default()
        )
    }
}

fn drawn_seed() -> Result<u64> {
    Ok(tally_bench::wire::random_u32().context("the kernel gives no randomness")?.into())
}
