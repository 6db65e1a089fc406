//! What every command has: where the daemon is and how to print, where to, and the ways in which it fails.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::interrupts::{Interrupts, where_to_see};
use super::progress::Bar;
use crate::advise::candidate::CandidateError;
use crate::config::ConfigError;
use crate::control::client::{Client, ClientError, Fate};
use crate::control::message::{Progress, Reply, Request};

/// What was said beside the command itself.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    /// The daemon's socket, if it was named.
    pub(super) socket: Option<&'a Path>,
    /// Whether answers are printed as JSON.
    pub(super) json: bool,
}

/// What comes of it, if that is soon. A daemon that hangs, or takes no connection, is left to its own thread, which ends with the process.
pub(super) fn soon<T: Send + 'static>(patience: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, outcome) = mpsc::channel();
    let work = move || drop(done.send(work()));
    thread::Builder::new().name("asks".into()).spawn(work).ok()?;
    outcome.recv_timeout(patience).ok()
}

/// How long another program is waited for: one that looks at a disk that hangs hangs as well.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(20);

/// What another program prints, if it does so soon.
pub(super) fn printed_by(command: Command) -> io::Result<Output> {
    printed_within(PROGRAM_PATIENCE, command)
}

fn printed_within(patience: Duration, mut command: Command) -> io::Result<Output> {
    let silent = || io::Error::new(io::ErrorKind::TimedOut, format!("it has not ended in {} s", patience.as_secs()));
    soon(patience, move || command.output()).unwrap_or_else(|| Err(silent()))
}

/// Where a command prints.
pub struct Console<'a> {
    /// Data.
    pub out: &'a mut dyn Write,
    /// Messages.
    pub err: &'a mut dyn Write,
    /// Where a person says that a command should not be any more.
    pub interrupts: Interrupts,
}

impl Console<'_> {
    /// Whether the person says yes. Nobody there says no.
    pub(super) fn agrees(&mut self, question: &str) -> Result<bool, Failure> {
        Ok(matches!(&*self.question(&format!("{question} [y/N]"))?, "y" | "Y" | "yes"))
    }

    /// A line that somebody types. At the end of the input it is empty.
    pub(super) fn question(&mut self, asked: &str) -> Result<String, Failure> {
        write!(self.err, "{asked} ")?;
        self.err.flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }
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
    /// There is a daemon that does not answer.
    #[error("the daemon has said nothing for {} s", .0.as_secs())]
    Silent(Duration),
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
    /// A configuration that cannot be read, or is wrong. Exit status 1.
    #[error(transparent)]
    Config(#[from] ConfigError),
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
    /// What `init` does not do. Exit status 1.
    #[error("{0}")]
    Init(String),
    /// What `events run` remembers.
    #[error(
        "cannot keep in {} which events are done: {source}\nName another file with --state, or have its folder belong to this user.",
        path.display()
    )]
    Hooks {
        /// The file.
        path: PathBuf,
        /// What the kernel says, or what is wrong with it.
        source: std::io::Error,
    },
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
    /// What `doctor` has found. Exit status 2 if something failed.
    #[error("{}", unwell(*failed, *warned))]
    Unwell {
        /// How many warn.
        warned: usize,
        /// How many failed.
        failed: usize,
    },
    /// `dataset share` of one that is not.
    #[error(
        "'{dataset}' is exported to nobody; `tally dataset set sharenfs=on {dataset}` exports it to everybody, and RULES to some (tally-exports(5))"
    )]
    NotShared {
        /// Which.
        dataset: String,
    },
    /// What is not mounted, or stays so. Exit status 1.
    #[error("{0}")]
    Mount(String),
    /// Shares that Samba does not have. Exit status 1.
    #[error("{0}")]
    Smb(String),
    /// A file that was to be read.
    #[error("cannot read {}: {error}", file.display())]
    Unread {
        /// Which.
        file: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A table of exports of which something was not understood.
    #[error("{count} {} not taken, see above{and}", if *count == 1 { "thing was" } else { "things were" })]
    NotTaken {
        /// How much.
        count: usize,
        /// What became of all else.
        and: &'static str,
    },
    /// A benchmark that could not be carried out.
    #[error("{0:#}")]
    Bench(anyhow::Error),
    /// Exit status 1.
    #[error("the daemon answered something else than was asked for; are command and daemon of the same version?")]
    Mismatch,
}

fn unwell(failed: usize, warned: usize) -> String {
    let told = |count: usize, verb: &str| {
        (count > 0).then(|| format!("{count} {} {verb}", if count == 1 { "check" } else { "checks" }))
    };
    let warned = told(warned, if warned == 1 { "warns" } else { "warn" });
    [told(failed, "failed"), warned].into_iter().flatten().collect::<Vec<_>>().join(", ")
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
            Self::Usage(_) | Self::Unwell { failed: 1.., .. } => 2,
            Self::Interrupted { signal, .. } => 128_u8.saturating_add(*signal),
            _ => 1,
        }
    }
}

/// Asks the daemon for an answer, and shows how far it is meanwhile.
pub(super) fn ask(session: Session<'_>, request: &Request, console: &mut Console<'_>) -> Result<Reply, Failure> {
    let mut client = Client::connect(session.socket)?;
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
    let is_nothing = match &reply {
        // Disks of which no pool is made are listed all the same.
        Reply::Found(found) => found.pools.is_empty(),
        _ => text.is_empty(),
    };
    if is_nothing {
        writeln!(console.err, "{}", nothing(&reply))?;
    }
    Ok(console.out.write_all(text.as_bytes())?)
}

pub(super) fn print_json(reply: Reply, console: &mut Console<'_>) -> Result<(), Failure> {
    let text = match reply {
        Reply::Done(remarks) => serde_json::to_string_pretty(&serde_json::json!({ "messages": remarks })),
        Reply::Pools(pools) => serde_json::to_string_pretty(&pools),
        Reply::Found(found) => serde_json::to_string_pretty(&found),
        Reply::Datasets(datasets) => serde_json::to_string_pretty(&datasets),
        Reply::Properties(lines) => serde_json::to_string_pretty(&lines),
        Reply::Exports(exports) => serde_json::to_string_pretty(&exports),
        Reply::Ops(report) => serde_json::to_string_pretty(&report),
        Reply::Clients(page) => serde_json::to_string_pretty(&page),
        Reply::Sessions(page) => serde_json::to_string_pretty(&page),
        Reply::Opens(page) => serde_json::to_string_pretty(&page),
        Reply::Locks(page) => serde_json::to_string_pretty(&page),
        Reply::Load(load) => serde_json::to_string(&load),
        Reply::History(pools) => serde_json::to_string_pretty(&pools),
        Reply::Events(events) => serde_json::to_string_pretty(&events),
        Reply::Observation(seen) => serde_json::to_string_pretty(&seen),
        Reply::Mounts(mounts) => serde_json::to_string_pretty(&mounts),
        Reply::Smb(report) => serde_json::to_string_pretty(&report),
        Reply::Server(server) => serde_json::to_string_pretty(&server),
        Reply::Rewind(shown) => serde_json::to_string_pretty(&shown),
    }?;
    Ok(writeln!(console.out, "{text}")?)
}

/// What is said instead of an empty table.
pub(super) const fn nothing(reply: &Reply) -> &'static str {
    match reply {
        Reply::Pools(_) | Reply::History(_) => "no pools are imported",
        Reply::Found(_) => {
            "no such pools were found; say where to look with -d DIR; -D finds destroyed ones, and those alone"
        }
        Reply::Exports(_) => "nothing is exported: `tally dataset set sharenfs=RULES DATASET` exports something",
        Reply::Smb(_) => "nothing is shared by SMB: `tally dataset set sharesmb=on DATASET` shares something",
        Reply::Mounts(_) => "nothing is mounted on this machine: `tally mount DATASET DIR` mounts something",
        _ => "nothing to show",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_not_waited_for() {
        let mut command = Command::new("sleep");
        command.arg("5");
        let outcome = printed_within(Duration::from_millis(1), command);
        assert_eq!(outcome.map_err(|error| error.kind()).unwrap_err(), io::ErrorKind::TimedOut);
        let mut command = Command::new("echo");
        command.arg("there");
        assert_eq!(printed_by(command).unwrap().stdout, b"there\n");
    }
}
