//! The datasets of a pool by name: one table that never changes, and is replaced as a whole by each command.
//!
//! Whoever lists, sums up or looks at all datasets takes the table, and holds no lock of anybody's meanwhile. The names
//! stand in the order of their paths: each dataset is followed by all that are below it, so that a subtree is a stretch
//! of the table, and one walk from front to end meets every dataset behind those above it.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::clients::is_hidden;
use crate::filesystem::Filesystem;

/// A mounted dataset under its name.
#[derive(Clone)]
pub struct Named {
    /// Full name: the pool's, and those of the datasets above it.
    pub name: Arc<str>,
    /// What is mounted under it.
    pub filesystem: Arc<Filesystem>,
}

/// All of a pool.
#[derive(Clone, Default)]
pub struct Names(Vec<Named>);

impl Names {
    /// All but those that nobody is shown.
    pub(super) fn new(filesystems: impl Iterator<Item = Arc<Filesystem>>) -> Self {
        let named = filesystems.map(|filesystem| Named { name: filesystem.name().into(), filesystem });
        let mut all: Vec<Named> = named.filter(|named| !is_hidden(&named.name)).collect();
        all.sort_unstable_by(|a, b| path_order(&a.name, &b.name));
        Self(all)
    }

    /// All of them, each behind those above it.
    pub fn iter(&self) -> std::slice::Iter<'_, Named> {
        self.0.iter()
    }

    /// The dataset of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Filesystem>> {
        let at = self.place(name).ok()?;
        self.0.get(at).map(|found| &found.filesystem)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The one at a place of [`Self::iter`].
    #[must_use]
    pub fn at(&self, place: usize) -> Option<&Named> {
        self.0.get(place)
    }

    /// Where the dataset of that name stands with all below it; empty if there is none.
    #[must_use]
    pub fn places(&self, name: &str) -> Range<usize> {
        let Ok(at) = self.place(name) else { return 0..0 };
        at..at + self.0[at..].partition_point(|other| is_or_holds(name, &other.name))
    }

    /// The dataset of that name and all below it; nothing if there is none.
    #[must_use]
    pub fn subtree(&self, name: &str) -> &[Named] {
        &self.0[self.places(name)]
    }

    pub(super) fn insert(&mut self, filesystem: &Arc<Filesystem>) {
        let named = Named { name: filesystem.name().into(), filesystem: Arc::clone(filesystem) };
        let at = self.place(&named.name).expect_err("a command has looked whether the name is free");
        self.0.insert(at, named);
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Ok(at) = self.place(name) {
            self.0.remove(at);
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|other| path_order(&other.name, name))
    }
}

impl<'a> IntoIterator for &'a Names {
    type Item = &'a Named;
    type IntoIter = std::slice::Iter<'a, Named>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Whether dataset `ancestor` is `name` or above it.
#[must_use]
pub fn is_or_holds(ancestor: &str, name: &str) -> bool {
    name.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Component by component: the slash stands before everything that a name may have.
fn path_order(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    a.bytes().map(rank).cmp(b.bytes().map(rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_dataset_comes_right_behind_it() {
        let mut names = ["t/a-b", "t/a/c", "t", "t/a.b/c", "t/a", "t/a:b", "t/a/c/d", "t/ab"];
        names.sort_unstable_by(|a, b| path_order(a, b));
        assert_eq!(names, ["t", "t/a", "t/a/c", "t/a/c/d", "t/a-b", "t/a.b/c", "t/a:b", "t/ab"]);
        assert!(is_or_holds("t/a", "t/a/c") && is_or_holds("t/a", "t/a") && !is_or_holds("t/a", "t/a-b"));
    }
}
