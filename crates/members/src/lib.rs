//! The disks of a pool: which they are, what their labels say, which uberblock holds, and how a block is had from those of
//! a mirror. What lies on them is nobody's business here.

pub mod assemble;
pub mod blockdev;
pub mod choose;
pub mod create;
pub mod discover;
pub mod foreign;
pub mod grammar;
pub mod label;
pub mod roster;
pub mod uberblock;
pub mod vdev;
