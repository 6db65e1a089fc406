//! Which mount of a dataset is asked, and what is left of one whose pool is away (rules V37).

use std::sync::atomic::{AtomicU64, Ordering};

use tally_claims::{ClientNumber, Holder, Lock, Range};

use crate::attributes::ObjectRef;

/// A mount: never that of another one in one start of the process, also not of the same dataset. What clients have open ends with it, so whoever remembers
/// an open remembers of which mount it is. One goes on behind an export where an import takes up what clients had open, as [`Retained`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MountNumber(pub u64);

impl MountNumber {
    /// One that nobody has.
    #[must_use]
    pub fn draw() -> Self {
        static DRAWN: AtomicU64 = AtomicU64::new(0);
        Self(DRAWN.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// What clients have of a dataset whose pool was exported a moment ago, and may come back: it can be looked at and given up, and nothing else.
pub trait Retained: Send + Sync {
    /// Of which mount it is, and which mount it will be again.
    fn mount(&self) -> MountNumber;
    /// Ends an open; there may be none.
    fn close(&self, object: ObjectRef, holder: Holder);
    /// What an owner has locked of an object, at most so many ranges.
    fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock>;
    /// Whether that is anything.
    fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool;
    /// An owner gives up a range, what of it is locked. False: there is no room for what would be left of it.
    fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> bool;
    /// A client has lost what it was given of an object; there may be nothing.
    fn give_back(&self, object: ObjectRef, client: ClientNumber);
}
