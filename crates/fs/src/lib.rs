//! Files, directories and attributes over a pool's datasets.

mod admission;
mod ahead;
mod cost;
mod cuts;
pub mod damage;
mod entry;
pub mod filer;
mod filesystem;
mod fold;
mod group;
mod held;
mod holes;
pub mod inode;
pub mod inspect;
pub mod layer;
mod mount;
mod mounted;
mod object;
mod ops;
mod read;
pub mod record;
pub mod replay;
mod reserved;
mod schema;
mod sight;
mod subtree;
mod xattr;

pub use filer::Filer;
pub use filesystem::Filesystem;
pub use ops::LogBounds;
pub use schema::Files;
