//! What a pool needs that nobody has asked for: a scrub when it is due (`scrub=weekly|monthly`), and the end of files that have no name (rules V28).
//!
//! When one is due the pool itself knows, by the times of its last one ([`tally_store::pool::ScrubEvery`]); so a restart changes
//! nothing. It is begun when nothing else runs over whole disks, and not in the first minutes of an import: whoever has started
//! the machine has other things to wait for, and a disk that is bad may come to light meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tally_base::Time;
use tally_nfs::service::Service;

use super::patience;
use super::pools::Pools;
use super::served::ServedPool;
use super::ticker::Ticker;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(60);
/// How often it is looked whether what is held for clients of a life before may go: until then no removed file is free.
const LOOK_AT_GRACE: Duration = Duration::from_secs(1);
/// So long who may claim something there is waited for, which the disks of the pool say. No other one waits for one whose disks hang: something may be claimed there.
const GRACE_ASKED_IN: Duration = Duration::from_secs(2);
/// How long a pool must have been imported.
const AFTER_IMPORT: Duration = Duration::from_secs(600);

/// Starts the thread that looks, also after the clients of `nfs`.
pub(super) fn watch(pools: &Arc<Pools>, nfs: &Arc<Service>) -> io::Result<Ticker> {
    let (pools, nfs) = (Arc::clone(pools), Arc::clone(nfs));
    Ticker::start("schedule", LOOK, move || {
        nfs.look_after_clients();
        for served in pools.all() {
            let_go_of_held(&served, &nfs);
            look(&served);
        }
    })
}

/// The same for pools behind whose import clients may claim again what they had.
pub(super) fn watch_graces(pools: &Arc<Pools>, nfs: &Arc<Service>) -> io::Result<Ticker> {
    let (pools, nfs) = (Arc::clone(pools), Arc::clone(nfs));
    Ticker::start("graces", LOOK_AT_GRACE, move || {
        pools.all().iter().filter(|served| served.filer.holds_for_clients()).for_each(|it| let_go_of_held(it, &nfs));
    })
}

/// The time for claims begins when it is first asked for: it is, of all pools, and those are waited for that know it soon.
pub(super) fn begin_graces(pools: &Pools, nfs: &Arc<Service>) {
    let until = Instant::now() + GRACE_ASKED_IN;
    let asked: Vec<_> = pools.all().iter().filter_map(|served| patience::begin(in_grace(served, nfs))).collect();
    asked.iter().for_each(|told| _ = told.recv_timeout(until.saturating_duration_since(Instant::now())));
}

/// Whether a pool is in its grace, for a thread that may meet its disks.
fn in_grace(served: &ServedPool, nfs: &Arc<Service>) -> impl FnOnce() -> bool + Send + 'static {
    let (nfs, guid) = (Arc::clone(nfs), served.guid());
    move || nfs.is_in_grace(guid)
}

/// Files that somebody had open, and that have no name, go when nobody may claim them again. Where version 4 is spoken a close may leave others at any
/// time, which it could not free.
fn let_go_of_held(served: &ServedPool, nfs: &Arc<Service>) {
    let pool = served.filer.pool();
    let is_over = || patience::within(GRACE_ASKED_IN, in_grace(served, nfs)) == Some(false);
    let may_go = || !pool.read_only() && pool.fault().is_none() && is_over();
    if served.may_hold.load(Ordering::Relaxed) && may_go() {
        served.may_hold.store(served.filer.let_go_of_held() > 0 || nfs.speaks_4(), Ordering::Relaxed);
    }
}

fn look(served: &Arc<ServedPool>) {
    let pool = served.filer.pool();
    let may_run = !pool.read_only() && pool.fault().is_none();
    if !may_run || !is_time(served.since.elapsed(), pool.now(), pool.scrub_due()) {
        return;
    }
    let every = pool.scrub_every().word();
    match served.begin_due_scrub() {
        Ok(()) => tracing::info!("a scrub of '{}' has begun, as it is due (scrub={every})", served.filer.name()),
        // It is looked again in a minute.
        Err(why) => tracing::debug!("a scrub of '{}' is due, and not begun: {why}", served.filer.name()),
    }
}

fn is_time(imported: Duration, now: Time, due: Option<Time>) -> bool {
    imported >= AFTER_IMPORT && due.is_some_and(|due| due <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_begins_when_it_is_due_and_not_in_the_first_minutes() {
        let (now, long) = (Time(1000), AFTER_IMPORT);
        assert!(is_time(long, now, Some(Time(1000))) && is_time(long, now, Some(Time(5))));
        assert!(!is_time(long, now, Some(Time(1001))), "it is not due yet");
        assert!(!is_time(long, now, None), "nobody wants one");
        assert!(!is_time(long - Duration::from_secs(1), now, Some(Time(5))), "the pool has just come");
    }
}
