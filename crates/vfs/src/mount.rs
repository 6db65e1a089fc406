//! Which mount of a dataset is asked (rules V37).

use std::sync::atomic::{AtomicU64, Ordering};

/// A mount: never that of another one in one start of the process, also not of the same dataset. What clients have open ends with it, so whoever remembers
/// an open remembers of which mount it is.
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
