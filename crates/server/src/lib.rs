//! Everything of the one binary, `tally`, but its `main`: the commands, the control socket, the daemon.
//!
//! It is a library so that tests can run the whole daemon over disks of their own making.

pub mod advise;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
mod dates;
pub mod exports;
mod mount_table;
mod places;
pub mod process;
