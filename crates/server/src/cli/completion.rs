//! What a shell offers at Tab: the words of the grammar, and beside them what there is on this server – pools, datasets, disks, properties and
//! their values.
//!
//! The grammar says of a word what it names ([`Names`]); `tally completions SHELL` prints a few lines for that shell, which call `tally complete` at
//! each Tab with the words so far. That asks the daemon. Where none answers at once, or does not answer this user, the grammar's words are what is left: Tab never
//! waits for a pool that hangs.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::ArgExt;
use clap::{Arg, Args, Command, CommandFactory, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete};

use super::args::Cli;
use super::columns::Column;
use super::console::{Console, Failure, Session, soon};
use super::dataset::DatasetColumn;
use super::pool::pool_columns;
use crate::control::client::Client;
use crate::control::message::{Reply, Request};
use crate::control::report::{PoolReport, VdevReport};
use crate::daemon::{pool_properties, zfs_space};
use tally_store::properties::{Property, usual_values};

/// So long a daemon is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shells for which there is a script.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    /// GNU bash 4 and newer
    Bash,
    /// fish
    Fish,
    /// The Z shell
    Zsh,
}

impl Shell {
    /// What it reads once.
    pub(super) const fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("completion/tally.bash"),
            Self::Fish => include_str!("completion/tally.fish"),
            Self::Zsh => include_str!("completion/_tally"),
        }
    }
}

/// What a word of the grammar names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Pool,
    /// A disk of the pool that was named before.
    Disk,
    /// Disks and files, and the words between them.
    Vdev,
    /// The word spare, disks and files.
    Spare,
    Dataset,
    /// With commas between them.
    PoolProperties,
    DatasetProperties,
    /// `property=value`, as often as one likes, and in the end the pool.
    PoolSettingsThenPool,
    DatasetSettingsThenDataset,
    PoolSetting,
    DatasetSetting,
    /// With commas between them.
    PoolColumns,
    DatasetColumns,
}

impl ArgExt for Names {}

/// Words of `complete`.
#[derive(Clone, Debug, Args)]
pub struct CompleteArgs {
    /// The words of a command line up to the cursor, the program's name first. The last one, which may be empty, is what is completed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<OsString>,
}

/// `tally complete`: a line for each candidate, with a tab and what it is behind it.
pub(super) fn run(
    session: Session<'_>,
    args: &CompleteArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let asked = Arc::new(Asked {
        socket: socket_of(&args.words).or_else(|| session.socket.map(Path::to_owned)),
        words: args.words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        here: here.into(),
    });
    let mut grammar = with_names(Cli::command(), &asked);
    let last = args.words.len().saturating_sub(1);
    // Nothing fits, which is no failure of a shell's.
    let candidates = complete(&mut grammar, args.words.clone(), last, Some(here)).unwrap_or_default();
    // Whoever has typed nothing wants no list of flags.
    let wants_flags = args.words.last().is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let fits = |it: &&CompletionCandidate| wants_flags || !it.get_value().as_encoded_bytes().starts_with(b"-");
    for candidate in candidates.iter().filter(fits) {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        let tab = if help.is_empty() { "" } else { "\t" };
        writeln!(console.out, "{}{tab}{help}", candidate.get_value().to_string_lossy())?;
    }
    Ok(())
}

/// The socket that is named on that line.
fn socket_of(words: &[OsString]) -> Option<PathBuf> {
    let at = words.iter().position(|word| word.as_encoded_bytes().starts_with(b"--socket"))?;
    let word = words.get(at)?.to_str()?;
    match word.strip_prefix("--socket=") {
        Some(path) => Some(path.into()),
        None => words.get(at + 1).map(PathBuf::from),
    }
}

/// The grammar, with what it takes to find what its words name.
fn with_names(command: Command, asked: &Arc<Asked>) -> Command {
    let with_name = |arg: Arg| match arg.get::<Names>().copied() {
        Some(names) => arg.add(ArgValueCompleter::new(Finder { names, asked: Arc::clone(asked) })),
        None => arg,
    };
    command.mut_args(with_name).mut_subcommands(|below| with_names(below, asked))
}

/// Finds what is named so.
struct Finder {
    names: Names,
    asked: Arc<Asked>,
}

impl ValueCompleter for Finder {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(typed) = current.to_str() else { return Vec::new() };
        let asked = &self.asked;
        let begun = |names: Vec<String>| -> Vec<CompletionCandidate> {
            names.into_iter().filter(|name| name.starts_with(typed)).map(CompletionCandidate::new).collect()
        };
        match self.names {
            Names::Pool => begun(asked.pool_names()),
            Names::Disk => begun(asked.disks()),
            Names::Dataset => begun(asked.datasets()),
            Names::Vdev | Names::Spare => {
                let words = if self.names == Names::Spare { &["spare"][..] } else { &["mirror", "log"] };
                let words = begun(words.iter().map(|word| (*word).to_owned()).collect());
                words.into_iter().chain(PathCompleter::any().current_dir(&asked.here).complete(current)).collect()
            }
            Names::PoolSetting => begun(pool_settings()),
            Names::DatasetSetting => begun(dataset_settings()),
            Names::PoolSettingsThenPool => begun(settings_then(pool_settings(), asked.pool_names(), typed)),
            Names::DatasetSettingsThenDataset => begun(settings_then(dataset_settings(), asked.datasets(), typed)),
            Names::PoolProperties => begun(one_more(typed, asked.pool_properties())),
            Names::DatasetProperties => begun(one_more(typed, asked.dataset_properties())),
            Names::PoolColumns => begun(one_more(typed, owned(pool_columns()))),
            Names::DatasetColumns => {
                let columns = DatasetColumn::NAMES.iter().chain(zfs_space::names_of_datasets()).copied();
                let properties = Property::ALL.map(Property::name).into_iter();
                let others = properties.filter(|name| !DatasetColumn::NAMES.contains(name));
                begun(one_more(typed, owned(columns.chain(others))))
            }
        }
    }
}

/// A property with each value that people type. Where there is but one, as of a quota, any other may follow.
fn settings(property: &str, values: &[&str]) -> Vec<String> {
    let other = (values.len() == 1).then_some("");
    values.iter().copied().chain(other).map(|value| format!("{property}={value}")).collect()
}

fn dataset_settings() -> Vec<String> {
    Property::ALL.into_iter().flat_map(|property| settings(property.name(), usual_values(property))).collect()
}

fn pool_settings() -> Vec<String> {
    pool_properties::usual_values().into_iter().flat_map(|(property, values)| settings(&property, &values)).collect()
}

fn owned(names: impl IntoIterator<Item = &'static str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// As long as there is no `=` it may be either.
fn settings_then(settings: Vec<String>, names: Vec<String>, typed: &str) -> Vec<String> {
    if typed.contains('=') { settings } else { names.into_iter().chain(settings).collect() }
}

/// A list with commas, and what may come next in it.
fn one_more(typed: &str, names: Vec<String>) -> Vec<String> {
    let (so_far, _) = typed.rsplit_once(',').map_or(("", typed), |(before, last)| (&typed[..=before.len()], last));
    let is_there = |name: &String| so_far.split(',').any(|there| there == name);
    names.into_iter().filter(|name| !is_there(name)).map(|name| format!("{so_far}{name}")).collect()
}

/// Who is asked, and about which line.
struct Asked {
    socket: Option<PathBuf>,
    words: Vec<String>,
    here: PathBuf,
}

impl Asked {
    /// An answer, if there is one soon.
    fn ask(&self, request: Request) -> Option<Reply> {
        let socket = self.socket.clone();
        let asked = move || Client::connect(socket.as_deref()).and_then(|mut client| client.ask(&request, &mut |_| {}));
        soon(PATIENCE, asked)?.ok()
    }

    fn pools(&self) -> Vec<PoolReport> {
        match self.ask(Request::PoolStatus { names: Vec::new() }) {
            Some(Reply::Pools(pools)) => pools,
            _ => Vec::new(),
        }
    }

    fn pool_names(&self) -> Vec<String> {
        self.pools().into_iter().map(|pool| pool.name).collect()
    }

    /// Disks of the pools that are named on the line; of all, if none is.
    fn disks(&self) -> Vec<String> {
        let pools = self.pools();
        let is_named = |pool: &&PoolReport| self.words.contains(&pool.name);
        let named: Vec<&PoolReport> = pools.iter().filter(is_named).collect();
        let chosen = if named.is_empty() { pools.iter().collect() } else { named };
        let of_vdevs = chosen.iter().flat_map(|pool| pool.vdevs.iter().flat_map(leaves));
        let spares = chosen.iter().flat_map(|pool| pool.spares.iter().map(|spare| spare.name.clone()));
        of_vdevs.chain(spares).collect()
    }

    fn datasets(&self) -> Vec<String> {
        match self.ask(Request::DatasetList { names: Vec::new(), recursive: false, users: Vec::new() }) {
            Some(Reply::Datasets(datasets)) => datasets.into_iter().map(|dataset| dataset.name).collect(),
            _ => Vec::new(),
        }
    }

    fn pool_properties(&self) -> Vec<String> {
        self.names_of(Request::PoolGet { names: Vec::new(), properties: Vec::new() })
    }

    /// Those that the program knows, and those of the pools' first datasets: of ten thousand it would take long to ask them all.
    fn dataset_properties(&self) -> Vec<String> {
        let roots = self.pool_names();
        let known = Property::ALL.map(|property| property.name().to_owned());
        let mut names = match roots.is_empty() {
            true => Vec::new(),
            false => self.names_of(Request::DatasetGet { names: roots, recursive: false, properties: Vec::new() }),
        };
        let more: Vec<_> = known.into_iter().filter(|name| !names.contains(name)).collect();
        names.extend(more);
        names
    }

    /// Each once, in the order of the answer.
    fn names_of(&self, request: Request) -> Vec<String> {
        let Some(Reply::Properties(lines)) = self.ask(request) else { return Vec::new() };
        let mut names = vec!["all".to_owned()];
        for line in lines {
            if !names.contains(&line.property) {
                names.push(line.property);
            }
        }
        names
    }
}

fn leaves(vdev: &VdevReport) -> Vec<String> {
    match vdev.children.as_slice() {
        [] => vec![vdev.name.clone()],
        children => children.iter().flat_map(leaves).collect(),
    }
}

#[cfg(test)]
mod tests;
