//! The commands: what they are called, what they ask of the daemon, and how they print the answer.
//!
//! Data goes to stdout and messages to stderr. Exit status: 0 done, 1 refused or failed, 2 not understood, and
//! 128 and a signal's number where that has ended the wait for an answer.

mod advise;
mod arcstat;
mod args;
mod ask;
mod bench;
mod columns;
mod completion;
mod console;
mod dataset;
mod doctor;
mod exports;
mod fields;
mod found;
mod holdings;
mod hooks;
mod init;
mod inspect;
mod interrupts;
mod iostat;
mod man;
mod mount;
mod nfsstat;
mod pool;
pub mod progress;
mod rewind;
mod sandbox;
mod short_names;
mod smb;
mod stat;
mod status;
mod table;
mod top;
mod upgrade;
mod watch;
mod which;
mod words;
mod zfs_words;
mod zilstat;

pub use args::{Cli, Command};
pub use ask::run;
pub use console::{Console, Failure};
pub use inspect::InspectArgs;
pub use interrupts::Interrupts;
pub use mount::words_by_name;
