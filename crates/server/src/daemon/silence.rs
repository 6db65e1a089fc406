//! Which disks hang: the log says so, and so does whoever would have to wait for them.
//!
//! A disk that fails is struck off, and that is told where it happens. One that hangs fails nothing: the request that
//! met it sleeps in the kernel, with whatever locks it holds, and nobody is left to say so. So one thread looks at
//! every disk of every pool each second. It takes no lock that is held while a disk is waited for.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::VdevGuid;
use tally_members::vdev::VdevLeg;

use super::pools::{Pools, ServedPool};
use super::ticker::Ticker;

/// A disk that owes an answer for so long is told of, here and by `status`: a busy hard disk takes less.
pub(super) const SILENT_MIN: Duration = Duration::from_secs(3);
/// How often the disks are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the thread that looks.
pub(super) fn watch(pools: &Arc<Pools>) -> io::Result<Ticker> {
    let pools = Arc::clone(pools);
    let mut told = Told::default();
    Ticker::start("silence", LOOK, move || look(&pools, &mut told))
}

/// A disk, and for how long it has owed an answer.
pub(super) struct Silence {
    pub(super) guid: VdevGuid,
    pub(super) path: PathBuf,
    pub(super) silent_for: Duration,
    /// It is no part of its pool any more, but somebody waits for what it was asked for before it left.
    pub(super) has_left: bool,
}

impl Silence {
    fn of(leg: &VdevLeg) -> Self {
        let silent_for = leg.disk().and_then(|disk| disk.silent_for()).unwrap_or_default();
        Self { guid: leg.guid(), path: leg.path().to_owned(), silent_for, has_left: false }
    }
}

/// All disks of these pools, and those that have left them and still owe somebody an answer; most of them owe nothing.
fn disks(pools: &[Arc<ServedPool>]) -> impl Iterator<Item = Silence> {
    pools.iter().flat_map(|served| {
        let legs = served.filer.pool().roster.vdevs().iter().flat_map(|vdev| vdev.legs());
        let mut silences: Vec<_> = legs.map(|leg| Silence::of(&leg)).collect();
        silences.append(&mut served.left.silences());
        silences
    })
}

/// The disks that have left a pool. Whoever met one that hangs before it left sleeps on, with whatever locks are held,
/// so a detached disk is waited for like any other.
#[derive(Default)]
pub(super) struct Left(Mutex<Vec<(Weak<VdevLeg>, Instant)>>);

impl Left {
    /// One has left just now.
    pub(super) fn note(&self, leg: &Arc<VdevLeg>) {
        let mut left = self.0.lock();
        left.retain(|(leg, _)| leg.strong_count() > 0);
        left.push((Arc::downgrade(leg), Instant::now()));
    }

    /// Those that were asked for something before they left and have not answered. That their labels are erased
    /// afterwards concerns nobody.
    fn silences(&self) -> Vec<Silence> {
        let still_owes = |(leg, since): &(Weak<VdevLeg>, Instant)| {
            let silence = Silence { has_left: true, ..Silence::of(&*leg.upgrade()?) };
            (silence.silent_for > since.elapsed()).then_some(silence)
        };
        self.0.lock().iter().filter_map(still_owes).collect()
    }
}

/// In words, for whoever waits for them.
impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, which has owed an answer for {} s", self.path.display(), self.silent_for.as_secs())
    }
}

/// The disks of these pools that hang.
pub(super) fn silent(pools: &[Arc<ServedPool>]) -> Vec<Silence> {
    disks(pools).filter(|leg| leg.silent_for >= SILENT_MIN).collect()
}

fn look(pools: &Pools, told: &mut Told) {
    for leg in disks(&pools.held()) {
        let (disk, seconds) = (leg.path.display(), leg.silent_for.as_secs());
        match told.news(leg.guid, leg.silent_for) {
            Some(News::Silent) => tracing::warn!(%disk, seconds, "a disk owes an answer: it hangs"),
            Some(News::Answered) => tracing::info!(%disk, "a disk that hung answers again"),
            None => {}
        }
    }
}

/// What there is to say of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It hangs, still or from now on.
    Silent,
    /// It does not any more.
    Answered,
}

/// What was said of each disk that hangs, so that it is said again only when its silence has doubled.
#[derive(Default)]
pub(super) struct Told(BTreeMap<VdevGuid, Duration>);

impl Told {
    /// What there is to say of a disk that has been silent for so long, if anything is.
    pub(super) fn news(&mut self, leg: VdevGuid, silent_for: Duration) -> Option<News> {
        if silent_for < SILENT_MIN {
            return self.0.remove(&leg).map(|_| News::Answered);
        }
        let next = self.0.entry(leg).or_insert(SILENT_MIN);
        if silent_for < *next {
            return None;
        }
        *next = 2 * silent_for;
        Some(News::Silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_told_when_it_begins_and_doubles_and_when_it_ends() {
        let mut told = Told::default();
        let said = [0, 2, 3, 4, 5, 6, 7, 11, 12, 13, 0, 0, 3]
            .map(|seconds| told.news(VdevGuid(1), Duration::from_secs(seconds)));
        let (silent, answered) = (Some(News::Silent), Some(News::Answered));
        let none = None;
        assert_eq!(said, [none, none, silent, none, none, silent, none, none, silent, none, answered, none, silent]);
        assert_eq!(told.news(VdevGuid(2), Duration::from_secs(1)), None);
    }
}
