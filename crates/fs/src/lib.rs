//! Files, directories and attributes over a pool's datasets.

mod admission;
mod ahead;
mod cost;
pub mod damage;
mod entry;
pub mod filer;
mod filesystem;
mod fold;
pub mod inode;
pub mod inspect;
pub mod layer;
pub mod model;
mod mounted;
mod object;
mod ops;
pub mod permission;
mod read;
pub mod record;
pub mod replay;
mod sight;
pub mod vfs;
pub mod vfs_suite;

pub use filer::Filer;
pub use filesystem::Filesystem;
pub use ops::LogBounds;
