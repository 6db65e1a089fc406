//! Disks that lose, tear, rot and fail.

mod fault;
mod pages;
mod power;

pub use fault::{Fault, Faults};
pub use power::{Power, PowerDisk};
