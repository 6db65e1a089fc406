//! The words of `tally bench`.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint, value_parser};
use tally_base::Size;
use tally_bench::case::{Case, HOME_FILES, MEDIA_FILES};
use tally_bench::client::As;
use tally_bench::target::Url;

use crate::cli::table::TableArgs;

/// The cases, and what to do with their results.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// tar -x of files of 4K, 64 to a folder: as root six durable requests each, as a user four
    Untar {
        /// Files
        #[arg(long, default_value_t = 4096, value_parser = value_parser!(u64).range(1..))]
        files: u64,
        #[command(flatten)]
        args: BenchArgs,
    },
    /// One file of 4K, truncated and written over and over: two durable requests each time
    Loop {
        /// How often
        #[arg(long, default_value_t = 4096, value_parser = value_parser!(u64).range(1..))]
        rounds: u64,
        #[command(flatten)]
        args: BenchArgs,
    },
    /// cp -a of a home directory of 85 MB: 2,837 files from 200 bytes to 4M, always the same sizes
    Copy {
        #[command(flatten)]
        args: BenchArgs,
    },
    /// cp -a of a home directory of 20,000 files from 128 bytes to 50M, with folders and links, always the same sizes
    Home {
        /// How much of it: 0.1 is 2,000 files
        #[arg(long, default_value = "1", value_parser = scale)]
        scale: f64,
        #[command(flatten)]
        args: BenchArgs,
    },
    /// cp -r of a library of files of 1K to 8K, 1,000 to a folder; then all of them looked at
    Library {
        /// Files
        #[arg(long, default_value_t = 300_000, value_parser = value_parser!(u64).range(1..))]
        files: u64,
        /// Music and photographs of their real sizes instead, by cp -a: how much of 306,000; 0.001 is 306, 1.2G
        #[arg(long, value_parser = scale, conflicts_with = "files")]
        scale: Option<f64>,
        #[command(flatten)]
        args: BenchArgs,
    },
    /// Empty files, made by several connections at once
    Create {
        /// Files in all, for each number of connections
        #[arg(long, default_value_t = 4096, value_parser = value_parser!(u64).range(1..))]
        files: u64,
        /// Numbers of connections, one after the other
        #[arg(long, default_value = "1,4,16,64", value_delimiter = ',', value_parser = value_parser!(u16).range(1..=1024))]
        connections: Vec<u16>,
        #[command(flatten)]
        args: BenchArgs,
    },
    /// One long file: written and committed, then read and checked
    Seq {
        /// Its length
        #[arg(long, default_value = "1G")]
        size: Size,
        #[command(flatten)]
        args: BenchArgs,
    },
    /// Only the referee: 200 lone requests of each kind, and what the disks did before each reply
    Probe {
        #[command(flatten)]
        args: BenchArgs,
    },
    /// Saved results side by side; those that do not keep their promises are never ranked beside others
    Compare {
        /// Files that `-o` has written; their names stand for the servers
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        reports: Vec<PathBuf>,
        #[command(flatten)]
        table: TableArgs,
    },
}

/// Where to work: one of the two.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct PlaceArgs {
    /// An export: nfs://HOST[:PORT]/EXPORT[?mountport=PORT&uid=UID&gid=GID]; no mount and no root is needed
    #[arg(long, value_name = "URL")]
    target: Option<Url>,

    /// A mounted directory, through the kernel's client
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// What all cases take.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// A disk below a server on this machine, whose counters the referee looks at; may be repeated [default: those of
    /// the daemon behind --socket, if it serves the target]
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::AnyPath)]
    pub(super) device: Vec<PathBuf>,

    /// How often
    #[arg(long, default_value_t = 3, value_parser = runs)]
    pub(super) runs: usize,

    /// In whose name, and so with which requests: root or user
    #[arg(long = "as", value_name = "WHO", default_value = "root", value_parser = whose)]
    pub(super) whose: As,

    /// Seconds without a write after which the disks have done all there was to do; 0 does not wait for that
    #[arg(long, value_name = "SECONDS", default_value_t = 6, value_parser = value_parser!(u64).range(0..=3600))]
    pub(super) quiet: u64,

    /// Leave the files behind
    #[arg(long)]
    pub(super) keep: bool,

    /// Save the result as JSON, for `tally bench compare`
    #[arg(short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) table: TableArgs,
}

fn whose(text: &str) -> Result<As, String> {
    match text {
        "root" => Ok(As::Root),
        "user" => Ok(As::User),
        _ => Err("write root or user".into()),
    }
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| (1e-6..=100.0).contains(scale));
    scale.ok_or_else(|| "write a share, as 0.1, or how often, as 2".into())
}

/// So much of so many files, and at least one.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Both have bounds.
fn scaled(files: u64, scale: f64) -> u64 {
    ((files as f64 * scale).round() as u64).max(1)
}

fn runs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|runs| (1..=1000).contains(runs)).ok_or_else(|| "write a number from 1 to 1000".into())
}

/// Where a benchmark works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An export.
    Target(Url),
    /// A mounted directory.
    Dir(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(url) => url.fmt(f),
            Self::Dir(path) => path.display().fmt(f),
        }
    }
}

impl BenchArgs {
    /// Which of the two was named.
    pub(super) fn place(&self) -> Result<Place, String> {
        match (&self.place.target, &self.place.dir) {
            (Some(url), None) => Ok(Place::Target(url.clone())),
            (None, Some(path)) => Ok(Place::Dir(path.clone())),
            _ => Err("name either --target or --dir".into()),
        }
    }
}

impl BenchCommand {
    /// The case, if it is one.
    pub(super) fn case(&self) -> Option<(Case, &BenchArgs)> {
        Some(match self {
            Self::Untar { files, args } => (Case::Untar { files: *files }, args),
            Self::Loop { rounds, args } => (Case::Loop { rounds: *rounds }, args),
            Self::Copy { args } => (Case::Copy, args),
            Self::Home { scale, args } => (Case::Home { files: scaled(HOME_FILES, *scale) }, args),
            Self::Library { files, scale: None, args } => (Case::Library { files: *files }, args),
            Self::Library { scale: Some(scale), args, .. } => {
                (Case::Media { files: scaled(MEDIA_FILES, *scale) }, args)
            }
            Self::Create { files, connections, args } => {
                let connections = connections.iter().copied().map(usize::from).collect();
                (Case::Create { files: *files, connections }, args)
            }
            Self::Seq { size, args } => (Case::Seq { bytes: size.0 }, args),
            Self::Probe { args } => (Case::Probe, args),
            Self::Compare { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(words: &str) -> Result<(Case, String), String> {
        let cli = Cli::try_parse_from(["tally", "bench"].into_iter().chain(words.split(' ')));
        let Command::Bench(command) = cli.map_err(|error| error.to_string())?.command else { unreachable!("bench") };
        let (case, args) = command.case().ok_or("no case")?;
        Ok((case, args.place()?.to_string()))
    }

    #[test]
    fn words_that_make_a_case() {
        let cases = [
            ("untar --target nfs://h/e", Case::Untar { files: 4096 }, "nfs://h/e"),
            ("loop --rounds 7 --dir /mnt", Case::Loop { rounds: 7 }, "/mnt"),
            ("copy --dir /mnt --as user -o x.json", Case::Copy, "/mnt"),
            ("library --target nfs://h:1/e?uid=7", Case::Library { files: 300_000 }, "nfs://h:1/e"),
            ("library --dir /mnt --scale 0.01", Case::Media { files: 3060 }, "/mnt"),
            ("home --dir /mnt", Case::Home { files: 20_000 }, "/mnt"),
            ("home --dir /mnt --scale 0.00001", Case::Home { files: 1 }, "/mnt"),
            ("create --dir /mnt --connections 1,8", Case::Create { files: 4096, connections: vec![1, 8] }, "/mnt"),
            ("seq --dir /mnt --size 2M --device sda --device sdb", Case::Seq { bytes: 2 << 20 }, "/mnt"),
            ("probe --dir /mnt --runs 1 --quiet 0 --keep", Case::Probe, "/mnt"),
        ];
        for (words, case, place) in cases {
            assert_eq!(parse(words), Ok((case, place.to_owned())), "{words}");
        }
    }

    #[test]
    fn words_that_make_none() {
        let wrong = [
            "untar",
            "untar --target nfs://h/e --dir /mnt",
            "untar --target h:/e",
            "untar --dir /mnt --files 0",
            "untar --dir /mnt --runs 0",
            "untar --dir /mnt --as somebody",
            "create --dir /mnt --connections 0",
            "create --dir /mnt --connections 1,,2",
            "home --dir /mnt --scale 0",
            "home --dir /mnt --scale all",
            "library --dir /mnt --scale 0.1 --files 7",
            "seq --dir /mnt --size long",
            "compare",
        ];
        for words in wrong {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
