//! Files, directories and attributes over a pool's datasets.

pub mod permission;
pub mod vfs;
