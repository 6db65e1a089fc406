//! `tally events run`: the programs of a directory, run for each event, so that somebody is told by mail or by whatever else.
//!
//! The daemon starts no program: it holds the disks, and a program that hangs, floods or is somebody else's has no business beside
//! them. This is a process of its own, with a user of its own, that asks for events as `tally events -f` does. One thread asks, so that nothing is
//! missed while programs run; another one runs them, one after the other.
//!
//! **Nothing is missed and nothing is told twice**, be the daemon started anew or this: [`memory`] says of each event whether it
//! is done, which is written down when all programs of it have ended. One that was cut off in between is begun again.
//!
//! **A flood stays a trickle.** What has been told is told again an hour later at the soonest, and then by the newest of it, so that the last word of a disk is how it is; and no more than
//! [`memory::TOLD_MAX`] events are told in an hour: what goes beyond that is one event more, of the class `flood`. So the line of events that
//! wait for programs is bounded as well.

mod hook;
mod memory;
mod orphans;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueHint};
use parking_lot::Mutex;

use super::console::{Console, Failure, Session};
use crate::control::client::{Client, ClientError};
use crate::control::message::{Reply, Request};
use crate::control::report::EventReport;
use hook::Hooks;
use memory::{Memory, Verdict};
use orphans::Orphans;

/// Words of `events run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The directory: every executable file in it is run for each event, in the order of their names
    #[arg(default_value = "/etc/tally/events.d", value_hint = ValueHint::DirPath)]
    dir: PathBuf,

    /// Where is kept which events are done
    #[arg(long, value_name = "FILE", default_value = "/var/lib/tally-events/done.json", value_hint = ValueHint::FilePath)]
    state: PathBuf,
}

/// How often the daemon is asked. Four thousand events are remembered by it.
const ASK_INTERVAL: Duration = Duration::from_millis(500);
/// How often a daemon is looked for that does not answer.
const CONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// What was not told again is summed up this often.
const SUM_INTERVAL: Duration = Duration::from_secs(60);
/// Events that wait for their programs, and the one that says that there were too many.
const WAITING_MAX: usize = memory::TOLD_MAX + 1;

/// `tally events run`, until somebody ends it.
pub(super) fn run(session: Session<'_>, args: &RunArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let failed = |source| Failure::Hooks { path: args.state.clone(), source };
    let _alone = memory::lock(&args.state).map_err(failed)?;
    let memory = Memory::load(&args.state).map_err(failed)?;
    // What cannot be written is found out before anything is told; a disk that is full says nothing of the next moment, and is told of.
    match memory.save(&args.state) {
        Err(error) if memory::is_full(&error) => say(&not_kept(&args.state, &error)),
        outcome => outcome.map_err(failed)?,
    }
    let memory = Arc::new(Mutex::new(memory));
    let (line, in_line) = sync_channel::<EventReport>(WAITING_MAX);
    let orphans = Orphans::adopt()?;
    let (dir, state, done) = (args.dir.clone(), args.state.clone(), Arc::clone(&memory));
    thread::Builder::new().name("hooks".into()).spawn(move || {
        let mut hooks = Hooks::of(dir, Some(orphans));
        while let Ok(event) = in_line.recv() {
            let times = {
                let mut memory = done.lock();
                let times = memory.begun(&event);
                keep(&memory, &state);
                times
            };
            if times <= memory::BEGUN_MAX {
                hooks.run(&event);
            } else {
                let (class, pool) = (&event.class, &event.pool);
                say(&format!(
                    "{class} of {pool} is given up: this was ended {BEGUN_MAX} times while programs ran for it",
                    BEGUN_MAX = memory::BEGUN_MAX
                ));
            }
            let mut memory = done.lock();
            memory.told(&event, now());
            keep(&memory, &state);
        }
    })?;
    let mut follower = Follower { memory, state: args.state.clone(), line, again: 0, summed: Instant::now() };
    let mut is_quiet = false;
    loop {
        let Err(error) = follower.follow(session.socket) else { continue };
        if !is_quiet {
            writeln!(console.err, "{error}\ntally events run waits for the daemon.")?;
        }
        is_quiet = matches!(error, ClientError::NoDaemon { .. } | ClientError::Connect { .. });
        thread::sleep(CONNECT_INTERVAL);
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Writes down what is done. A full disk keeps nobody from being told; after a restart some of it is told again.
fn keep(memory: &Memory, state: &Path) {
    if let Err(error) = memory.save(state) {
        say(&not_kept(state, &error));
    }
}

fn not_kept(state: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}; what is done is remembered until this process ends", state.display())
}

/// Prints for the journal. Nobody may be reading it, and that is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Who asks.
struct Follower {
    memory: Arc<Mutex<Memory>>,
    state: PathBuf,
    /// Of events that wait for their programs.
    line: SyncSender<EventReport>,
    /// Events that were not told, since they were told of already, and when that was last said.
    again: u64,
    summed: Instant,
}

impl Follower {
    /// Asks one daemon until it does not answer any more. With a new one the count of its events begins anew.
    fn follow(&mut self, socket: Option<&Path>) -> Result<(), ClientError> {
        let mut client = Client::connect(socket)?;
        let mut since = 0;
        loop {
            let Reply::Events(events) = client.ask(&Request::Events { since }, &mut |_| {})? else { return Ok(()) };
            since = self.take(events, since);
            for event in self.memory.lock().due(now()) {
                self.line.try_send(event).expect("room in the line of events");
            }
            self.sum_up();
            thread::sleep(ASK_INTERVAL);
        }
    }

    /// Takes in what has come behind the event of this number. Gives that of the newest.
    fn take(&mut self, events: Vec<EventReport>, since: u64) -> u64 {
        // The very first answer of all counts, also if it is empty: what comes behind it is news.
        let is_new = self.memory.lock().begin(&events, now());
        if is_new {
            say("what has happened so far is told to nobody: hooks run for what comes from now on");
            keep(&self.memory.lock(), &self.state);
        }
        let numbers = || events.iter().map(|event| event.number);
        let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else { return since };
        if since > 0 && first > since + 1 {
            say(&format!("{} events came and went faster than they could be asked for", first - since - 1));
        }
        let mut memory = self.memory.lock();
        let mut old = 0;
        for event in events {
            let told = match memory.judge(&event, now()) {
                Verdict::Done => None,
                Verdict::Old => {
                    old += 1;
                    None
                }
                Verdict::Tell => Some(event),
                Verdict::TooMany(flood) => {
                    self.again += 1;
                    flood
                }
                Verdict::Again => {
                    self.again += 1;
                    None
                }
            };
            if let Some(event) = told {
                // There is room, as the memory lets so many wait; and the thread of programs ends with the process.
                self.line.try_send(event).expect("room in the line of events");
            }
        }
        if old > 0 {
            say(&format!(
                "{old} events are older than a week, by this machine's clock, and told to nobody; `tally events` shows them"
            ));
        }
        keep(&memory, &self.state);
        last
    }

    /// Says what was not told.
    fn sum_up(&mut self) {
        if self.again > 0 && self.summed.elapsed() >= SUM_INTERVAL {
            say(&format!(
                "{} events ran no hooks yet: the same within an hour, or too many; the newest of each is told when that is over",
                self.again
            ));
            (self.again, self.summed) = (0, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
