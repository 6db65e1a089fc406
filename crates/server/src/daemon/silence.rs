//! Which disks hang: the log says so, and so does whoever would have to wait for them.
//!
//! A disk that fails is struck off, and that is told where it happens. One that hangs fails nothing: the request that
//! met it sleeps in the kernel, with whatever locks it holds, and nobody is left to say so. So one thread looks at
//! every disk of every pool each second. It takes no lock that is held while a disk is waited for.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tally_base::VdevGuid;

use super::served::{ServedPool, Silence};
use super::ticker::Ticker;

/// A disk that owes an answer for so long is told of, here and by `status`: a busy hard disk takes less.
pub(super) const SILENT_MIN: Duration = Duration::from_secs(3);
/// How often the disks are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Starts the thread that looks at the pools that are `held` by then.
pub(super) fn watch(held: impl Fn() -> Vec<Arc<ServedPool>> + Send + 'static) -> io::Result<Ticker> {
    let mut told = Told::default();
    Ticker::start("silence", LOOK, move || look(&held(), &mut told))
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

/// The disks of these pools that hang.
pub(super) fn silent(pools: &[Arc<ServedPool>]) -> Vec<Silence> {
    disks(pools).filter(|leg| leg.silent_for >= SILENT_MIN).collect()
}

fn look(pools: &[Arc<ServedPool>], told: &mut Told) {
    for leg in disks(pools) {
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
