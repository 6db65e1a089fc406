//! The process that owns the pools and serves them.

pub mod config;
#[allow(dead_code)] // Comes with the pool.
mod dates;
