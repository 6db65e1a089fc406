//! Files, directories and attributes over a pool's datasets.

pub mod model;
pub mod permission;
pub mod vfs;
pub mod vfs_suite;
