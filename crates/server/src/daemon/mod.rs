//! The process that owns the pools and serves them.

pub mod announce;
pub mod config;
mod dates;
pub mod first_pool;
pub mod listen;
pub mod logging;
pub mod process;
mod signals;
pub mod state;

/// What the daemon's own thread waits for.
enum Event {
    /// Export the pools and end.
    Stop,
    /// Read the exports of the configuration file again.
    Reload,
}
