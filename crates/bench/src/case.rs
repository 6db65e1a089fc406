//! The cases: what people do over NFS all day, and what each sends.
//!
//! All content is noise of its own, so nothing can be compressed or found a second time.

mod home;
mod tree;

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tally_base::Size;

use crate::client::{As, Client, Pieces, Site, Tool};
use crate::random::Random;
use crate::stage::{Phase, Stage, Tick};
use crate::witness::Pace;

pub use home::HOME_BYTES;
pub use tree::{HOME_FILES, MEDIA_FILES};

/// A case with its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Case {
    /// Files of 4 KiB, 64 to a folder, as `tar -x` makes them.
    Untar {
        /// Files in all.
        files: u64,
    },
    /// One file of 4 KiB, truncated and written over and over.
    Loop {
        /// Rounds: a truncation and a write each.
        rounds: u64,
    },
    /// A home directory of 85 MB, copied with `cp -a`.
    Copy,
    /// A home directory of files from 128 bytes to 50 MiB with links, copied with `cp -a`.
    Home {
        /// Files in all.
        files: u64,
    },
    /// Music and photographs, copied with `cp -a`.
    Media {
        /// Files in all.
        files: u64,
    },
    /// Files of 1 to 8 KiB, 1,000 to a folder, copied with `cp -r`; then all of them looked at.
    Library {
        /// Files in all.
        files: u64,
    },
    /// Empty files by several connections at once.
    Create {
        /// How many in all, for each number of connections.
        files: u64,
        /// These many at once, one after the other.
        connections: Vec<usize>,
    },
    /// One long file: written and committed, then read.
    Seq {
        /// Length of the file.
        bytes: u64,
    },
    /// The lone probe, and nothing else.
    Probe,
}

/// A case, and how it is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is done.
    pub case: Case,
    /// How often it is measured; the median is reported.
    pub runs: usize,
    /// Who the server takes its clients for.
    pub whose: As,
    /// How long the disks must have written nothing until a part counts as ended; zero does not wait.
    pub quiet: Duration,
    /// Whether the folders stay.
    pub keep: bool,
    /// What is measured, in words.
    pub target: String,
    /// How thoroughly it is probed.
    pub pace: Pace,
}

/// Files in each folder of an archive.
const UNTAR_FOLDER: u64 = 64;
/// Files in each folder of a library.
const LIBRARY_FOLDER: u64 = 1000;
/// Bytes of a small file.
const SMALL_BYTES: usize = 4096;
/// Bytes of one piece of a long file.
const PIECE_BYTES: usize = 1 << 20;
/// Seed of the sizes, which are the same in every run, while the content never is.
const SIZES_SEED: u64 = 85;

impl Case {
    /// Its name as a command.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Untar { .. } => "untar",
            Self::Loop { .. } => "loop",
            Self::Copy => "copy",
            Self::Home { .. } => "home",
            Self::Library { .. } | Self::Media { .. } => "library",
            Self::Create { .. } => "create",
            Self::Seq { .. } => "seq",
            Self::Probe => "probe",
        }
    }

    /// Runs it once, in a folder of its own.
    pub(crate) fn run<S: Site>(&self, stage: &mut Stage<'_, S>) -> Result<Vec<Phase>> {
        match self {
            Self::Untar { files } => Ok(vec![untar(stage, *files)?]),
            Self::Loop { rounds } => Ok(vec![overwrite(stage, *rounds)?]),
            Self::Copy => Ok(vec![home::copy(stage)?]),
            Self::Home { files } => Ok(vec![tree::HOME.copy(stage, "home", *files)?]),
            Self::Media { files } => Ok(vec![tree::MEDIA.copy(stage, "library", *files)?]),
            Self::Library { files } => library(stage, *files),
            Self::Create { files, connections } => {
                connections.iter().map(|connections| create(stage, *files, *connections)).collect()
            }
            Self::Seq { bytes } => long_file(stage, bytes.div_ceil(PIECE_BYTES as u64)),
            Self::Probe => Ok(Vec::new()),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untar { files } => write!(f, "untar of {files} files of 4K"),
            Self::Loop { rounds } => write!(f, "one file of 4K overwritten {rounds} times"),
            Self::Copy => write!(f, "copy of a home directory: {} files, 85 MB", home::home().len()),
            Self::Home { files } => write!(f, "home directory: {files} files, {}", Size(tree::HOME.bytes(*files))),
            Self::Media { files } => {
                write!(f, "{files} files of music and photographs, {}", Size(tree::MEDIA.bytes(*files)))
            }
            Self::Library { files } => write!(f, "library of {files} files of 1K to 8K"),
            Self::Create { files, .. } => write!(f, "creation of {files} empty files"),
            Self::Seq { bytes } => write!(f, "one file of {}", Size(*bytes)),
            Self::Probe => write!(f, "lone probe"),
        }
    }
}

fn untar<S: Site>(stage: &mut Stage<'_, S>, files: u64) -> Result<Phase> {
    let tool = if stage.whose() == As::Root { Tool::TarAsRoot } else { Tool::TarAsUser };
    let (root, seed) = (stage.folder().clone(), stage.seed()?);
    stage.phase("untar", "files", files, 1, |_, client, tick| {
        let sizes = |_file| SMALL_BYTES;
        folders_of_files::<S>(client, tick, &root, (files, UNTAR_FOLDER), &sizes, tool, &mut Random::new(seed, 0))
    })
}

/// Files, so many to a folder, which gets its attributes when all of them are in it.
fn folders_of_files<S: Site>(
    client: &mut S::Client,
    tick: &Tick<'_>,
    root: &<S::Client as Client>::Node,
    (files, in_a_folder): (u64, u64),
    size: &dyn Fn(u64) -> usize,
    tool: Tool,
    random: &mut Random,
) -> Result<()> {
    for first in (0..files).step_by(usize::try_from(in_a_folder)?) {
        let folder = client.make_folder(root, &folder_name(first / in_a_folder))?;
        for file in first..files.min(first + in_a_folder) {
            client.add_file(&folder, &format!("f{file:07}"), &random.bytes(size(file)), tool)?;
            tick.done(1)?;
        }
        client.finish_folder(&folder, tool)?;
    }
    Ok(())
}

fn folder_name(number: u64) -> String {
    format!("d{number:04}")
}

fn overwrite<S: Site>(stage: &mut Stage<'_, S>, rounds: u64) -> Result<Phase> {
    let file = stage.lone()?.create(stage.folder(), "overwritten")?;
    let seed = stage.seed()?;
    stage.phase("loop", "rounds", rounds, 1, |_, client, tick| {
        let mut random = Random::new(seed, 0);
        for _ in 0..rounds {
            client.overwrite(&file, &random.bytes(SMALL_BYTES))?;
            tick.done(1)?;
        }
        Ok(())
    })
}

fn library<S: Site>(stage: &mut Stage<'_, S>, files: u64) -> Result<Vec<Phase>> {
    let (root, seed) = (stage.folder().clone(), stage.seed()?);
    let copied = stage.phase("library", "files", files, 1, |_, client, tick| {
        let sizes = |file| 1024 + Random::new(SIZES_SEED, file).below(7 * 1024 + 1);
        let (each, tool) = ((files, LIBRARY_FOLDER), Tool::CpRecursive);
        folders_of_files::<S>(client, tick, &root, each, &sizes, tool, &mut Random::new(seed, 0))
    })?;
    let mut lone = stage.lone()?;
    let folders = (0..files.div_ceil(LIBRARY_FOLDER)).map(|number| lone.find(&root, &folder_name(number)));
    let folders: Vec<_> = folders.collect::<Result<_>>()?;
    let listed = stage.phase("list", "names", files, 1, |_, client, tick| {
        for folder in &folders {
            let names = client.list(folder)?;
            tick.done(names)?;
        }
        Ok(())
    })?;
    Ok(vec![copied, listed])
}

fn create<S: Site>(stage: &mut Stage<'_, S>, files: u64, connections: usize) -> Result<Phase> {
    let mut lone = stage.lone()?;
    let folder = |index| lone.make_folder(stage.folder(), &format!("create-{connections}-{index}"));
    let folders: Vec<_> = (0..connections).map(folder).collect::<Result<_>>()?;
    let each = files.div_ceil(connections as u64);
    let name = format!("create x{connections}");
    stage.phase(&name, "files", each * connections as u64, connections, |index, client, tick| {
        for file in 0..each {
            client.create(&folders[index], &format!("f{file:07}"))?;
            tick.done(1)?;
        }
        Ok(())
    })
}

fn long_file<S: Site>(stage: &mut Stage<'_, S>, pieces: u64) -> Result<Vec<Phase>> {
    let file = stage.lone()?.create(stage.folder(), "long")?;
    let (seed, length) = (stage.seed()?, stage.site.piece_bytes(PIECE_BYTES));
    let count = pieces * (PIECE_BYTES / length) as u64;
    let per_mebibyte = (PIECE_BYTES / length) as u64;
    // Where a server takes less than a mebibyte at once, several pieces make one.
    let mebibyte = |tick: &Tick<'_>, done: &mut u64| {
        *done += 1;
        tick.done(u64::from(done.is_multiple_of(per_mebibyte)))
    };
    let written = stage.phase("write", "MiB", pieces, 1, |_, client, tick| {
        let mut done = 0;
        client.write_long(&file, &mut Pieces::new(count, length, seed, &mut || mebibyte(tick, &mut done)))
    })?;
    let read = stage.phase("read", "MiB", pieces, 1, |_, client, tick| {
        let mut done = 0;
        client.read_long(&file, &mut Pieces::new(count, length, seed, &mut || mebibyte(tick, &mut done)))
    })?;
    Ok(vec![written, read])
}
