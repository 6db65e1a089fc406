//! Who is told that something of an object was given up.
//!
//! Whoever waits for a range may wait at another door than the one by which it is freed. So each door that keeps somebody waiting watches the tables (rules V44), and is told of what is given up by all of them.
//! Nothing is asked for what somebody waits: a door knows that, and looks whether it is possible now.
//!
//! *Nothing is missed* by who watches first and asks then: what is freed behind his refusal he is told.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use smallvec::SmallVec;
use tally_base::ObjectId;

use crate::ranges::Range;

/// A door that keeps somebody waiting.
pub trait Watch: Send + Sync {
    /// In this range of an object there may be room: something was unlocked, a delegation was given back, or the table of that is gone. No lock of the table is held over this, but those may be
    /// of whoever has given it up: it waits for nothing, and asks the file system nothing.
    fn freed(&self, object: ObjectId, range: Range);
}

/// Those of one table: one of each mount of this machine at most, as they come once.
#[derive(Default)]
pub(crate) struct Watchers {
    all: RwLock<SmallVec<[Weak<dyn Watch>; 1]>>,
}

impl Watchers {
    /// One more, if it is not among them; those that are gone are forgotten.
    pub(crate) fn add(&self, watch: &Weak<dyn Watch>) {
        let is_known = |all: &[Weak<dyn Watch>]| all.iter().any(|known| known.ptr_eq(watch));
        if is_known(&self.all.read()) {
            return;
        }
        let mut all = self.all.write();
        all.retain(|known| known.strong_count() > 0);
        if !is_known(&all) {
            all.push(Weak::clone(watch));
        }
    }

    /// Tells all of them, with no lock held.
    pub(crate) fn tell(&self, object: ObjectId, range: Range) {
        let all: SmallVec<[Arc<dyn Watch>; 2]> = self.all.read().iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|watch| watch.freed(object, range));
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.all.read().len()
    }
}
