//! What a service manager is told: that the daemon serves, that it ends, and that a long way there goes on.
//!
//! systemd ends a start after `TimeoutStartSec` and a stop after `TimeoutStopSec`, however far they are, unless it is told in
//! time to wait longer. A replay and an export may take longer than any time that somebody has set beforehand; ending them
//! gains nothing, as the next start begins with them. So each sign of progress asks for [`PATIENCE`] more, and nothing else
//! does: a start or a stop that stands still is ended as ever. What counts as a sign is what an import tells of itself, and for
//! an export that its pool's disks have answered something since the last look.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use super::pools::Pools;
use super::served::ServedPool;
use super::ticker::Ticker;
use crate::control::message::Progress;

/// How long there may be no sign of progress once the set time is over: a group of some GiB on slow disks is synced without
/// one.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often progress is told.
const BETWEEN_WORDS: Duration = Duration::from_millis(200);
/// How often the disks of a pool that is exported are looked at.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Tells of what is on its way.
#[derive(Default)]
pub(super) struct Way {
    told: Option<Instant>,
}

impl Way {
    /// Progress, which is told some times a second at most.
    pub(super) fn goes_on(&mut self, progress: &Progress) {
        if self.told.is_none_or(|told| told.elapsed() >= BETWEEN_WORDS) {
            self.told = Some(Instant::now());
            goes_on(&progress.in_words());
        }
    }
}

/// Everything is served.
pub(super) fn serves() {
    notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// The end has begun.
pub(super) fn ends() {
    notify(&[NotifyState::Stopping]);
}

/// A pool's export begins.
pub(super) fn exports(pool: &str) {
    goes_on(&format!("exporting pool '{pool}'"));
}

/// Tells that exports go on, for as long as this is kept.
pub(super) fn watch_exports(pools: &Arc<Pools>) -> io::Result<Ticker> {
    let (pools, mut seen) = (Arc::clone(pools), 0);
    Ticker::start("exports", BETWEEN_LOOKS, move || {
        for pool in pools.going() {
            let answered = answered(&pool);
            if std::mem::replace(&mut seen, answered) != answered {
                exports(&pool.filer.name());
            }
        }
    })
}

/// How much the disks of a pool have answered.
fn answered(pool: &ServedPool) -> u64 {
    let legs = pool.filer.pool().roster.vdevs().iter().flat_map(|vdev| vdev.legs());
    legs.map(|leg| leg.counts()).map(|counts| counts.reads + counts.writes + counts.flushes).sum()
}

fn goes_on(what: &str) {
    // A line each, whatever a path holds.
    let what: String = what.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let patience_us = u32::try_from(PATIENCE.as_micros()).unwrap_or(u32::MAX);
    notify(&[NotifyState::Status(&what), NotifyState::ExtendTimeoutUsec(patience_us)]);
}

/// There may be no service manager, or it may be deaf.
fn notify(words: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(words);
}
