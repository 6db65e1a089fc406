//! Tests through real clients: the kill ledger, and disks that forget or are slow.
//!
//! The ledger asks one question: does the server keep what it promised? Clients of an independent protocol
//! crate (`nfs3_client`) work on files, each in a directory of its own, and write down what every reply
//! promised. The server is a child process; it is killed with SIGKILL at random moments and started again,
//! and the ledger is compared with what is there. No part of it knows how the server works inside.
//!
//! - [`wire`]: connections that keep the last request and reply, and send a request again as it was.
//! - [`child`]: the server as a process.
//! - [`model`]: what a client knows, and which states it allows.
//! - [`load`]: which operation comes next, and how it is sent.
//! - [`check`]: the comparison of the model with the server.
//! - [`client`]: one client through load, crash and recovery.
//! - [`ledger`]: the run.
//! - [`mounted`]: the same by programs of this machine, over a mount.
//! - [`holders`]: the same of clients of version 4, which hold something through the kills.
//! - [`volatile`]: disks that lose at a kill what was not flushed, as a power cut would have it.
//! - [`slow`]: disks that take their time, for benchmarks.

pub mod check;
pub mod child;
pub mod client;
pub mod holders;
pub mod ledger;
pub mod load;
pub mod model;
pub mod mounted;
pub mod random;
pub mod slow;
pub mod volatile;
pub mod wire;

#[cfg(test)]
mod tests;
