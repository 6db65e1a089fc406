//! The copy-on-write pool.

pub mod alloc;
pub mod block;
pub mod blockdev;
pub mod bp;
pub mod cache;
pub mod io;
pub mod key;
pub mod run;
pub mod tree;
