//! Which client may see which dataset: the seam to whoever owns the pools, the grammar of `sharenfs`, and files that exports(5) describes.

mod options;
mod seam;
mod sharenfs;
mod table;
mod zfs_form;

pub use seam::{Exports, Place, PoolExports, Resolved, Rule, Squash};
pub use sharenfs::{ShareError, ShareRules, parse_sharenfs, plain_sharenfs};
pub use table::{ExportsTable, Remark, TableExport, read_exports};
