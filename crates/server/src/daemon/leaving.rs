//! The end of the process over disks that hang.
//!
//! The first signal exports every pool. That needs every disk, and one that hangs may answer in a minute or never; a
//! command that met it before keeps the daemon's own thread, which then does not even see the signal. So a thread of
//! its own looks on from the first signal on. It says what the end waits for, and when a disk has been silent for too
//! long the process leaves as it does at the second signal: at once, with words on what the next start will do. Nothing
//! that a log has depends on the export; it spares the next start the replay. What clients of datasets with
//! `sync=disabled` were told is in memory alone, as before a power cut: the last words say how much of it there was.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::patience::within;
use super::pools::Pools;
use super::silence::{News, Told, silent};

/// So long a disk may owe an answer, and so long the end may last, before the process leaves without it: the time after
/// which Linux begins to abort a request of a SCSI disk. A service manager waits longer.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How often the disks are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the last words may take to find: they ask pools that may be stuck.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

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
    let (began, mut told) = (Instant::now(), Told::default());
    loop {
        let silent = silent(&pools.held());
        for leg in &silent {
            if told.news(leg.guid, leg.silent_for) == Some(News::Silent) {
                eprintln!("tally: waiting for {leg}. A second signal ends the server at once: the next start replays.");
            }
        }
        if began.elapsed() >= WAIT_MAX && silent.iter().any(|leg| leg.silent_for >= WAIT_MAX) {
            at_once(pools, "a disk does not answer");
        }
        thread::sleep(LOOK);
    }
}

/// Ends the process without exports, after it has said why, and what the next start will do.
pub(super) fn at_once(pools: &Arc<Pools>, why: &str) -> ! {
    let pools = Arc::clone(pools);
    let words = within(LAST_WORDS_MAX, move || pools.last_words());
    let words = words.unwrap_or_else(|| "The next start replays what the log holds.".to_owned());
    eprintln!("tally: leaving at once: {why}. {words}");
    std::process::exit(1);
}
