//! The binary over disks that fail, hang and lose: a folder that is passed through FUSE, with rules.
//!
//! The simulator has disks that do all this, and knows nothing of the daemon, its commands and its files; the ledger
//! runs the binary, over disks that work. Between the two lies what a disk command does with an error, and what
//! `status` says of it. Device mapper has targets for some of it and needs a kernel that has them; this needs /dev/fuse
//! and root.
//!
//! - [`rules`]: which request meets what.
//! - [`disk`]: a file, and what a power cut would take from it.
//! - [`folder`]: the folder of disks, as the kernel asks for it.
//! - [`server`]: the binary, its commands, and a client.
//! - [`cases`]: what was seen to go wrong, and must not again.

pub mod cases;
pub mod disk;
pub mod folder;
pub mod rules;
pub mod server;

#[cfg(test)]
mod tests;
