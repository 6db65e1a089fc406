//! Carries a command out: asks the daemon and prints what it says.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::{CommandFactory, ValueEnum};

use super::advise::{self, AdviseCommand};
use super::args::{Cli, Command};
use super::dataset::{self, DatasetCommand};
use super::interrupts::{Interrupts, where_to_see};
use super::pool::{self, Activity, PoolCommand};
use super::progress::Bar;
use super::stat::{self, By, StatCommand};
use super::{bench, inspect, rewind, status, top, upgrade, watch};
use crate::advise::candidate::CandidateError;
use crate::config;
use crate::control::client::{Client, ClientError, Fate};
use crate::control::message::{Progress, Reply, Request};
use crate::control::report::PoolReport;

/// Where a command prints.
pub struct Console<'a> {
    /// Data.
    pub out: &'a mut dyn Write,
    /// Messages.
    pub err: &'a mut dyn Write,
    /// Where a person says that a command should not be any more.
    pub interrupts: Interrupts,
}

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The words make no sense together: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// Exit status 1.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The person pressed Ctrl-C. Exit status as of a process that such a signal ends.
    #[error("interrupted; {fate}{}", see(*fate, shown_by))]
    Interrupted {
        /// By which signal.
        signal: u8,
        /// What becomes of the command.
        fate: Fate,
        /// The command that shows it.
        shown_by: String,
    },
    /// Whoever reads our output is gone: no reason to say anything.
    #[error("cannot print: {0}")]
    Print(#[from] std::io::Error),
    /// Exit status 1.
    #[error("the answer cannot be printed as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Exit status 1.
    #[error("cannot listen for Ctrl-C: {0}")]
    Signals(#[source] std::io::Error),
    /// A device that was not measured.
    #[error(transparent)]
    Candidate(#[from] CandidateError),
    /// Nothing that a log device could make faster.
    #[error(
        "in {seconds:.0} seconds nobody waited for the intent log; ask again while clients work, with --seconds for longer"
    )]
    NoLoad {
        /// How long was waited.
        seconds: f64,
    },
    /// What was asked back was not agreed to.
    #[error("nothing was done; with --yes nobody is asked, and -n only shows what would be given up")]
    NotAgreed,
    /// A directory that cannot be listed.
    #[error("cannot look for pools: {0}")]
    Look(std::io::Error),
    /// Nothing to inspect.
    #[error("no pool was found there; name its disks, or their directory with -d DIR")]
    NoPool,
    /// A dataset to inspect that is not there.
    #[error("no dataset {name} was found; {damage_count} damaged places were")]
    NoDataset {
        /// What was asked for.
        name: String,
        /// What may explain it.
        damage_count: u64,
    },
    /// An inspection has found damage.
    #[error("{count} damaged {} found", if *count == 1 { "place was" } else { "places were" })]
    Damage {
        /// How many places.
        count: u64,
    },
    /// `status -x` has found some.
    #[error("{count} {} not well", if *count == 1 { "pool is" } else { "pools are" })]
    Sick {
        /// How many pools.
        count: usize,
    },
    /// A benchmark that could not be carried out.
    #[error("{0:#}")]
    Bench(anyhow::Error),
    /// Exit status 1.
    #[error("the daemon answered something else than was asked for; are command and daemon of the same version?")]
    Mismatch,
}

fn see(fate: Fate, shown_by: &str) -> String {
    if fate == Fate::Withdrawn { String::new() } else { format!("; `{shown_by}` shows how it stands") }
}

impl Failure {
    /// Whether nobody reads our output any more: nothing to complain about.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Print(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// The process's exit status.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted { signal, .. } => 128_u8.saturating_add(*signal),
            _ => 1,
        }
    }
}

/// Carries out any command but `serve`.
pub fn run(cli: &Cli, here: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
    match &cli.command {
        Command::Serve(_) => unreachable!("the binary serves by itself"),
        Command::Config => Ok(console.out.write_all(config::DOCUMENTED.as_bytes())?),
        Command::Inspect(args) => inspect::run(args, &tally_disk::SystemOpener, here, cli.json, console),
        Command::Bench(command) => bench::run(command, cli.socket.as_deref(), cli.json, console),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "tally", &mut script);
            Ok(console.out.write_all(&script)?)
        }
        Command::Pool(PoolCommand::Iostat { words, args }) => watch::iostat(cli, words, *args, console),
        Command::Events { follow } => watch::events(cli, *follow, console),
        Command::Advise(AdviseCommand::Log(args)) => advise::log(cli, args, console),
        Command::Top(args) => top::run(cli, args),
        Command::Zilstat(args) => watch::zilstat(cli, args, console),
        Command::Stat(StatCommand::Clients(args)) => watch::accounts(cli, By::Client, args, console),
        Command::Stat(StatCommand::Exports(args)) => watch::accounts(cli, By::Export, args, console),
        Command::Pool(PoolCommand::Status { names, verbose, only_sick: true }) => sick(cli, names, *verbose, console),
        Command::Pool(PoolCommand::Wait { activities, name }) => wait(cli, activities, name, console),
        Command::Pool(PoolCommand::Import(args)) if args.goes_back() => rewind::run(cli, args, here, console),
        Command::Pool(command) => {
            let request = command.request(here).map_err(Failure::Usage)?;
            let reply = ask(cli, &request, console)?;
            print_reply(cli.json, reply, console, &|reply| pool_text(command, reply))
        }
        Command::Dataset(command) => {
            let request = command.request().map_err(Failure::Usage)?;
            let reply = ask(cli, &request, console)?;
            print_reply(cli.json, reply, console, &|reply| dataset_text(command, reply))
        }
        Command::Stat(StatCommand::Cache { table }) => {
            let reply = ask(cli, &Request::PoolStatus { names: Vec::new() }, console)?;
            print_reply(cli.json, reply, console, &|reply| match reply {
                Reply::Pools(pools) => Some(stat::caches(pools, *table)),
                _ => None,
            })
        }
        Command::Stat(StatCommand::Prefetch { table }) => {
            let reply = ask(cli, &Request::PoolStatus { names: Vec::new() }, console)?;
            print_reply(cli.json, reply, console, &|reply| match reply {
                Reply::Pools(pools) => Some(stat::prefetch(pools, *table)),
                _ => None,
            })
        }
        Command::Stat(StatCommand::Ops { table }) => {
            let reply = ask(cli, &Request::StatOps, console)?;
            print_reply(cli.json, reply, console, &|reply| match reply {
                Reply::Ops(report) => Some(stat::ops(report, *table)),
                _ => None,
            })
        }
    }
}

/// `tally pool status -x`.
fn sick(cli: &Cli, names: &[String], verbose: bool, console: &mut Console<'_>) -> Result<(), Failure> {
    let request = Request::PoolStatus { names: names.to_vec() };
    let Reply::Pools(mut pools) = ask(cli, &request, console)? else { return Err(Failure::Mismatch) };
    let is_empty = pools.is_empty();
    pools.retain(|pool| !pool.is_well());
    let count = pools.len();
    if cli.json {
        print_json(Reply::Pools(pools), console)?;
    } else if is_empty {
        writeln!(console.err, "{}", nothing(&Reply::Pools(pools)))?;
    } else if count > 0 {
        console.out.write_all(status::print(&pools, verbose).as_bytes())?;
    } else if names.is_empty() {
        writeln!(console.out, "all pools are healthy")?;
    } else {
        names.iter().try_for_each(|name| writeln!(console.out, "pool '{name}' is healthy"))?;
    }
    if count == 0 { Ok(()) } else { Err(Failure::Sick { count }) }
}

/// `tally pool wait`.
fn wait(cli: &Cli, activities: &[Activity], name: &str, console: &mut Console<'_>) -> Result<(), Failure> {
    let activities = if activities.is_empty() { Activity::value_variants() } else { activities };
    let request = Request::PoolStatus { names: vec![name.into()] };
    loop {
        let Reply::Pools(pools) = ask(cli, &request, console)? else { return Err(Failure::Mismatch) };
        let goes_on = |pool: &PoolReport| activities.iter().any(|activity| activity.is_under_way(pool));
        if !pools.iter().any(goes_on) {
            return if cli.json { print_json(Reply::Done(Vec::new()), console) } else { Ok(()) };
        }
        std::thread::sleep(WAIT_INTERVAL);
    }
}

/// How often [`wait`] asks.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn ask(cli: &Cli, request: &Request, console: &mut Console<'_>) -> Result<Reply, Failure> {
    let mut client = Client::connect(cli.socket.as_deref())?;
    let mut bar = Bar::default();
    let mut show = |progress: &Progress| bar.show(progress);
    // Whoever only asks a question may go at any time.
    let Some(shown_by) = where_to_see(request) else { return Ok(client.ask(request, &mut show)?) };
    let interrupts = console.interrupts.listen().map_err(Failure::Signals)?;
    let outcome = client.ask_unless(interrupts.file(), request, &mut show);
    outcome.map_err(|error| match error {
        ClientError::Interrupted(fate) => Failure::Interrupted { signal: interrupts.signal(), fate, shown_by },
        error => error.into(),
    })
}

/// Prints remarks to stderr and data to stdout.
pub(super) fn print_reply(
    json: bool,
    reply: Reply,
    console: &mut Console<'_>,
    text: &dyn Fn(&Reply) -> Option<String>,
) -> Result<(), Failure> {
    if json {
        return print_json(reply, console);
    }
    if let Reply::Done(remarks) = &reply {
        for remark in remarks {
            writeln!(console.err, "{remark}")?;
        }
        return Ok(());
    }
    let text = text(&reply).ok_or(Failure::Mismatch)?;
    if text.is_empty() {
        writeln!(console.err, "{}", nothing(&reply))?;
    }
    Ok(console.out.write_all(text.as_bytes())?)
}

fn print_json(reply: Reply, console: &mut Console<'_>) -> Result<(), Failure> {
    let text = match reply {
        Reply::Done(remarks) => serde_json::to_string_pretty(&serde_json::json!({ "messages": remarks })),
        Reply::Pools(pools) => serde_json::to_string_pretty(&pools),
        Reply::Found(pools) => serde_json::to_string_pretty(&pools),
        Reply::Datasets(datasets) => serde_json::to_string_pretty(&datasets),
        Reply::Properties(lines) => serde_json::to_string_pretty(&lines),
        Reply::Ops(report) => serde_json::to_string_pretty(&report),
        Reply::Load(load) => serde_json::to_string(&load),
        Reply::History(pools) => serde_json::to_string_pretty(&pools),
        Reply::Events(events) => serde_json::to_string_pretty(&events),
        Reply::Observation(seen) => serde_json::to_string_pretty(&seen),
        Reply::Rewind(shown) => serde_json::to_string_pretty(&shown),
    }?;
    Ok(writeln!(console.out, "{text}")?)
}

/// What is said instead of an empty table.
const fn nothing(reply: &Reply) -> &'static str {
    match reply {
        Reply::Pools(_) | Reply::History(_) => "no pools are imported",
        Reply::Found(_) => {
            "no such pools were found; say where to look with -d DIR; -D finds destroyed ones, and those alone"
        }
        _ => "nothing to show",
    }
}

fn pool_text(command: &PoolCommand, reply: &Reply) -> Option<String> {
    match (command, reply) {
        (PoolCommand::List { table, .. }, Reply::Pools(pools)) => Some(pool::list(pools, *table)),
        (PoolCommand::Status { verbose, .. }, Reply::Pools(pools)) => Some(status::print(pools, *verbose)),
        (PoolCommand::History { long, .. }, Reply::History(pools)) => Some(pool::history(pools, *long)),
        (PoolCommand::Import(_), Reply::Found(pools)) => Some(pool::found(pools)),
        (PoolCommand::Upgrade(_), Reply::Pools(pools)) => Some(upgrade::lacking(pools)),
        (PoolCommand::Get { table, .. }, Reply::Properties(lines)) => Some(pool::properties(lines, *table)),
        _ => None,
    }
}

fn dataset_text(command: &DatasetCommand, reply: &Reply) -> Option<String> {
    match (command, reply) {
        (DatasetCommand::List { columns, table, .. }, Reply::Datasets(datasets)) => {
            Some(dataset::list(datasets, columns, *table))
        }
        (DatasetCommand::Get { table, .. }, Reply::Properties(lines)) => Some(pool::properties(lines, *table)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
