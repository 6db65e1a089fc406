//! The copy-on-write pool.

pub mod alloc;
pub mod assemble;
pub mod block;
pub mod blockdev;
pub mod bp;
pub mod cache;
pub mod choose;
pub mod create;
pub mod dataset;
pub mod discover;
#[cfg(test)]
pub(crate) mod faulty;
pub mod grammar;
pub mod inspect;
pub mod io;
pub mod key;
pub mod label;
pub mod platform;
pub mod pool;
pub mod properties;
pub mod replies;
pub mod roster;
pub mod run;
pub mod tree;
pub mod txg;
pub mod uberblock;
pub mod vdev;
