//! Messages to stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::config::{LogConfig, LogFormat};

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
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Only the first daemon of a process can install its log; the others write to the same place.
    let _ = match config.format {
        LogFormat::Text => builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}
