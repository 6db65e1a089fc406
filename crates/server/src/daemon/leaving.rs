//! The end of the process over disks that hang.
//!
//! The first signal exports every pool. That needs every disk, and one that hangs may answer in a minute or never; a
//! command that met it before keeps the daemon's own thread, which then does not even see the signal. So a thread of
//! its own looks on from the first signal on. It says what the end waits for, and when that has taken too long the
//! process leaves as it does at the second signal: at once, with words on what the next start will do. Nothing that a
//! log has depends on the export; it spares the next start the replay. What clients of datasets with `sync=disabled`
//! were told is in memory alone, as before a power cut: the last words say how much of it there was.
//!
//! What takes too long depends on where the daemon's own thread is:
//!
//! - It lets go of a pool, at the end or for a command that had begun before. That may take long and be well, and
//!   leaving would cut it off. So only a silent disk of that very pool counts; those of the others have their turn
//!   later.
//! - It is anywhere else: at a command, an import, the last requests of clients, or the end of a copy. Most of that is
//!   over in a moment, what takes long says how far it is, and the disk that it waits for may be on no list yet. So it
//!   counts since when nothing has come on, whatever the disks say.

use std::fmt::Display;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::logging;
use super::patience::within;
use super::pools::Pools;
use super::silence::{self, News, SILENT_MIN, Told};

/// So long a disk may owe an answer or the daemon's thread be stuck, and so long the end may last, before the process
/// leaves without it: the time after which Linux begins to abort a request of a SCSI disk. A service manager waits
/// longer.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often the disks are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the last words may take to find: they ask pools that may be stuck.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// Where the daemon's own thread is, and for how long nothing has come of it.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It lets go of a pool: so long the most silent of its disks has owed an answer.
    LettingGo(Duration),
    /// It is anywhere else: so long it has not come on.
    Elsewhere(Duration),
}

impl Stage {
    fn now(pools: &Pools, began: Instant) -> Self {
        let going = pools.going();
        if going.is_empty() {
            return Self::Elsewhere(pools.came_on().max(began).elapsed());
        }
        let silences = silence::silent(&going).into_iter().map(|leg| leg.silent_for);
        Self::LettingGo(silences.max().unwrap_or_default())
    }

    /// Why the process should not wait any more, after an end that has lasted so long; `None` if it should.
    fn reason_to_leave(self, lasted: Duration) -> Option<&'static str> {
        let (waited, why) = match self {
            Self::LettingGo(silent_for) => (silent_for, "a disk does not answer"),
            Self::Elsewhere(stuck_for) => (stuck_for, "what still runs does not come to its end"),
        };
        (lasted.min(waited) >= WAIT_MAX).then_some(why)
    }
}

/// What the first signal begins.
pub(super) fn begin(pools: &Arc<Pools>) {
    let pools = Arc::clone(pools);
    let spawned = thread::Builder::new().name("leaving".into()).spawn(move || wait_with(&pools));
    if let Err(error) = spawned {
        tracing::warn!(%error, "nobody looks whether the end waits for a disk that hangs");
    }
}

/// For as long as the process lives.
fn wait_with(pools: &Arc<Pools>) {
    let (began, mut told, mut told_stuck) = (Instant::now(), Told::default(), false);
    loop {
        let silent = silence::silent(&pools.held());
        for leg in &silent {
            if told.news(leg.guid, leg.silent_for) == Some(News::Silent) {
                tell(leg);
            }
        }
        let stage = Stage::now(pools, began);
        let is_stuck = matches!(stage, Stage::Elsewhere(stuck_for) if stuck_for >= SILENT_MIN);
        if is_stuck && silent.is_empty() && !std::mem::replace(&mut told_stuck, true) {
            tell(&"a command, an import, a copy or a request that has not come to its end");
        }
        if let Some(why) = stage.reason_to_leave(began.elapsed()) {
            at_once(pools, why);
        }
        thread::sleep(LOOK);
    }
}

fn tell(what: &dyn Display) {
    logging::say(&format!(
        "tally: waiting for {what}. A second signal ends the server at once: the next start replays."
    ));
}

/// Ends the process without exports, after it has said why, and what the next start will do.
pub(super) fn at_once(pools: &Arc<Pools>, why: &str) -> ! {
    let pools = Arc::clone(pools);
    let words = within(LAST_WORDS_MAX, move || pools.last_words());
    // A pool that is being imported is none of those that are asked.
    let words = words.filter(|words| !words.is_empty());
    let words = words.unwrap_or_else(|| "The next start replays what the log holds.".to_owned());
    logging::say(&format!("tally: leaving at once: {why}. {words}"));
    logging::finish();
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of another pool that hung cut off a healthy export which took more than half a minute; and a disk that
    /// was part of no pool yet held up the end for ever.
    #[test]
    fn the_end_waits_for_what_comes_on_and_leaves_what_does_not() {
        let leaves = |lasted: u64, stage: Stage| stage.reason_to_leave(Duration::from_secs(lasted)).is_some();
        let seconds = Duration::from_secs;
        assert!(!leaves(600, Stage::LettingGo(seconds(0))), "an export over disks that answer");
        assert!(!leaves(600, Stage::LettingGo(seconds(29))));
        assert!(!leaves(29, Stage::LettingGo(seconds(600))), "a disk that hung long before may come back");
        assert!(leaves(30, Stage::LettingGo(seconds(30))));
        assert!(!leaves(600, Stage::Elsewhere(seconds(29))), "an import that says how far it is");
        assert!(leaves(30, Stage::Elsewhere(seconds(30))));
    }
}
