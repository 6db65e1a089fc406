//! The copy-on-write pool.

pub mod alloc;
pub mod block;
pub mod bp;
pub mod cache;
pub mod dataset;
pub mod inspect;
pub mod io;
pub mod key;
pub mod marks;
pub mod pool;
pub mod properties;
pub mod replies;
pub mod run;
pub mod tree;
pub mod tuning;
pub mod txg;
