//! `tally pool history`: what was done to pools, and with `-i` what they did by themselves.

use clap::Args;

use crate::cli::completion::Names;
use crate::cli::words::harmless;
use crate::control::message::Request;
use crate::control::report::{DoneCommand, EventReport, PoolHistory};
use crate::dates::utc_as_history;

/// Words of `pool history`.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// With who asked for them, and on which machine
    #[arg(short)]
    long: bool,
    /// Also what has happened to the pools by itself, as `tally events` has it
    #[arg(short)]
    pub(crate) internal: bool,
    /// Pools; all when none is named
    #[arg(add = Names::Pool)]
    names: Vec<String>,
}

impl HistoryArgs {
    /// What to ask the daemon.
    pub(crate) fn request(&self) -> Request {
        Request::PoolHistory { names: self.names.clone() }
    }

    /// The text. `events` are of all pools.
    pub(crate) fn print(&self, pools: &[PoolHistory], events: &[EventReport]) -> String {
        let pool = |pool: &PoolHistory| {
            let done = pool.commands.iter().map(|done| (done.time_ns, self.line(done)));
            let happened = events.iter().filter(|event| event.pool == pool.name);
            let happened = happened.map(|event| {
                let text = format!("[{}] {}", harmless(&event.class), harmless(&event.text));
                (event.time_ns, format!("{} {text}\n", utc_as_history(event.time_ns)))
            });
            let mut lines: Vec<_> = done.chain(happened).collect();
            lines.sort_by_key(|(time_ns, _)| *time_ns);
            format!("History for '{}':\n{}", pool.name, lines.into_iter().map(|(_, line)| line).collect::<String>())
        };
        pools.iter().map(pool).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, done: &DoneCommand) -> String {
        let by = if self.long { format!(" [user {} on {}]", done.user, done.host) } else { String::new() };
        format!("{} {}{by}\n", utc_as_history(done.time_ns), harmless(&done.words))
    }
}
