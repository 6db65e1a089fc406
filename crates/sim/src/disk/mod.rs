//! Disks that lose, tear, rot and fail.

mod at_once;
mod cuts;
mod fault;
mod pages;
mod power;

pub(crate) use at_once::AtOnce;
pub use cuts::{Cuts, FULL_MAX, Place};
pub use fault::{Fault, Faults, Left, Lie, Mishap, Sort};
pub use pages::Pages;
pub use power::{Event, Kept, Power, PowerDisk, What};
