//! Which client may see which dataset: the seam to whoever owns the pools, and the grammar of `sharenfs`.

mod seam;
mod sharenfs;

pub use seam::{Exports, Place, PoolExports, Resolved, Rule, Squash};
pub use sharenfs::{ShareError, ShareRules, parse_sharenfs};
