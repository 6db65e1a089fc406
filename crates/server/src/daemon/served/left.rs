//! For how long a disk has owed an answer, be it that it has left its pool meanwhile.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::VdevGuid;
use tally_members::vdev::VdevLeg;

/// A disk, and for how long it has owed an answer.
pub(in crate::daemon) struct Silence {
    pub(in crate::daemon) guid: VdevGuid,
    pub(in crate::daemon) path: PathBuf,
    pub(in crate::daemon) silent_for: Duration,
    /// It is no part of its pool any more, but somebody waits for what it was asked for before it left.
    pub(in crate::daemon) has_left: bool,
}

impl Silence {
    pub(in crate::daemon) fn of(leg: &VdevLeg) -> Self {
        let silent_for = leg.disk().and_then(|disk| disk.silent_for()).unwrap_or_default();
        Self { guid: leg.guid(), path: leg.path().to_owned(), silent_for, has_left: false }
    }
}

/// In words, for whoever waits for them.
impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, which has owed an answer for {} s", self.path.display(), self.silent_for.as_secs())
    }
}

/// The disks that have left a pool. Whoever met one that hangs before it left sleeps on, with whatever locks are held,
/// so a detached disk is waited for like any other.
#[derive(Default)]
pub(in crate::daemon) struct Left(Mutex<Vec<(Weak<VdevLeg>, Instant)>>);

impl Left {
    /// One has left just now.
    pub(in crate::daemon) fn note(&self, leg: &Arc<VdevLeg>) {
        let mut left = self.0.lock();
        left.retain(|(leg, _)| leg.strong_count() > 0);
        left.push((Arc::downgrade(leg), Instant::now()));
    }

    /// Those that were asked for something before they left and have not answered. That their labels are erased
    /// afterwards concerns nobody.
    pub(in crate::daemon) fn silences(&self) -> Vec<Silence> {
        let still_owes = |(leg, since): &(Weak<VdevLeg>, Instant)| {
            let silence = Silence { has_left: true, ..Silence::of(&*leg.upgrade()?) };
            (silence.silent_for > since.elapsed()).then_some(silence)
        };
        self.0.lock().iter().filter_map(still_owes).collect()
    }
}
