//! Messages to stderr, and nobody who works waits for them.
//!
//! A terminal that somebody has stopped (Ctrl-S), a pipe that nobody reads, a disk that hangs under a log file: a write
//! there takes until somebody comes. If whoever serves wrote, the server stopped at the first line that did not fit, and
//! with it the thread that hears SIGTERM. So lines go to an [`Outlet`]: a buffer with a bound, and a thread of its own
//! that writes. What does not fit is dropped and counted; the count is told when there is room again, and by `/metrics`.
//! At the end of the process what is left is given a moment, and no more.

mod outlet;

use std::backtrace::Backtrace;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use self::outlet::Outlet;
use crate::config::{LogConfig, LogFormat};

/// So long the end of the process waits for who reads its last lines.
const LAST_LINES_MAX: Duration = Duration::from_secs(1);

/// The level is not understood.
#[derive(Debug, thiserror::Error)]
#[error("log.level '{level}': {source}; write error, warn, info, debug or trace, or parts like 'info,tally_nfs=debug'")]
pub struct LevelError {
    level: String,
    source: tracing_subscriber::filter::ParseError,
}

/// Sends all messages of the process to stderr from now on. Where somebody has done so before, as in a test
/// with several daemons, that stays.
pub fn start(config: &LogConfig) -> Result<(), LevelError> {
    let level = &config.level;
    let filter = EnvFilter::try_new(level).map_err(|source| LevelError { level: level.clone(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Lines(stderr()));
    // Only the first daemon of a process can install its log; the others write to the same place.
    let _ = match config.format {
        LogFormat::Text => builder.with_target(false).with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// The words of a panic go the way of all others: the thread that panicked may serve.
pub(super) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        tracing::error!("{panic}\n{backtrace}");
    }));
}

/// Says something on stderr to the person who started the daemon, whatever the level and the format of the log.
pub fn say(line: &str) {
    stderr().push(format!("{line}\n").as_bytes());
}

/// Says something on stdout.
pub fn print(line: &str) {
    stdout().push(format!("{line}\n").as_bytes());
}

/// Waits a moment for what was said to be read: the process is about to end.
pub fn finish() {
    stdout().flush(LAST_LINES_MAX);
    stderr().flush(LAST_LINES_MAX);
}

/// Lines that nobody got to read.
pub(super) fn lines_dropped() -> u64 {
    stderr().lines_dropped()
}

fn stderr() -> &'static Outlet {
    static STDERR: OnceLock<Outlet> = OnceLock::new();
    STDERR.get_or_init(|| {
        Outlet::start(io::stderr().as_fd().try_clone_to_owned().ok().map(Into::into), |dropped| {
            tracing::warn!(
                lines = dropped,
                in_all = lines_dropped(),
                "lines of the log were dropped: nobody read it, or it could not be written"
            );
        })
    })
}

fn stdout() -> &'static Outlet {
    static STDOUT: OnceLock<Outlet> = OnceLock::new();
    STDOUT.get_or_init(|| Outlet::start(io::stdout().as_fd().try_clone_to_owned().ok().map(Into::into), |_| {}))
}

/// What the log is written to, an event at a time.
struct Lines(&'static Outlet);

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.push(event);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
