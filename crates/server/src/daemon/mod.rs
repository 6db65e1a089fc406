//! The process that owns the pools and serves them.
//!
//! ```text
//!   configure, log, limits ─▶ data directory, control socket, lock, list of pools ─▶ NFS listeners, dashboard
//!                                                                                       │
//!   commands (`work`, `service`) ◀─ READY ◀─ serve ◀─ import or make pools (`opening`) ◀┘
//!     │
//!     └─▶ first SIGINT or SIGTERM ─▶ STOPPING ─▶ stop serving ─▶ export every pool (`letting_go`)
//!         or leave without it, at a second signal or for a disk that hangs (`leaving`)
//! ```
//!
//! Whatever can fail for reasons of the surroundings (a second daemon, a port that is taken) comes before the
//! first pool is touched. The control socket answers while logs are replayed; NFS begins afterwards.

mod absent;
mod acceptance;
pub mod announce;
mod bell;
mod by_name;
mod chronicle;
mod copies;
mod damage_report;
mod data_dir;
mod datasets;
mod disks;
pub mod error;
mod events;
mod exports_report;
mod fd_store;
mod features;
mod finding;
pub mod first_pool;
mod history;
mod holdings;
pub mod http;
mod importing;
mod label_clear;
mod leaving;
mod letting_go;
pub mod listen;
mod listing;
pub mod logging;
mod looking_back;
mod looks;
mod manager;
mod metrics;
mod mounting;
mod mounts;
mod new_files;
mod new_pool;
mod observe;
mod opening;
mod ops_report;
mod patience;
pub(crate) mod pool_properties;
mod pool_report;
pub mod pools;
mod pressure;
mod registration;
mod resuming;
mod rules_above;
mod run;
mod schedule;
mod scrub;
pub mod served;
mod service;
mod signals;
mod silence;
mod smb_file;
mod smb_shares;
mod spares;
mod start_number;
pub mod state;
mod ticker;
mod upgrade;
mod users;
mod work;
mod would;
pub(crate) mod zfs_space;
pub(crate) mod zfs_words;

pub use opening::Told;
pub use run::{Daemon, Launch, ServeError, Stopper};
