//! The copy-on-write pool.

pub mod key;
pub mod properties;
