//! What the keys and values of datasets' trees mean, as far as the store goes by it.
//!
//! The store keeps trees for somebody else, and three works of its own have to see through the values: a scrub comes to every
//! block that a value names, whoever destroys a dataset frees those, and an inspection reads them. They ask the schema of
//! whoever fills the datasets, which is given when a pool is opened.
//!
//! Not in it: which classes of keys there are, their order, and how large the leaves of each are. That is the format of trees
//! ([`crate::key`]), of which a merge and the check of a leaf must know without asking anybody; docs/design/0056 has the reasons.

use tally_base::ObjectId;

use crate::bp::BlockPtr;
use crate::key::{Class, Key};

/// Whoever fills the datasets of a pool tells the store this of them.
pub trait Schema: Send + Sync {
    /// The one class whose values name blocks. Who is after those reads no leaf of another.
    fn blocks(&self) -> Class;

    /// The block that this value names; none if it is of a class that names none, or is damaged.
    fn block(&self, key: &Key, value: &[u8]) -> Option<BlockPtr>;

    /// Of a key of [`Self::blocks`]: whose content the block is, and from which offset on.
    fn content_of(&self, key: &Key) -> (ObjectId, u64);
}
