//! Where the control socket is.

use std::path::{Path, PathBuf};

/// The socket's name in a daemon's data directory.
pub const SOCKET_NAME: &str = "tally.sock";
/// The data directory of `tally serve` without a word about it.
pub const DATA_DIR_DEFAULT: &str = "./tally-data";
/// The socket of a daemon that the system started.
pub const SOCKET_SYSTEM: &str = "/run/tally/tally.sock";

/// Where a command looks, in order. A socket that was named (by flag or environment) is the only candidate: a
/// command must not end up at another daemon than the one that was meant.
#[must_use]
pub fn candidates(named: Option<&Path>) -> Vec<PathBuf> {
    match named {
        Some(path) => vec![path.to_path_buf()],
        None => vec![Path::new(DATA_DIR_DEFAULT).join(SOCKET_NAME), SOCKET_SYSTEM.into()],
    }
}
