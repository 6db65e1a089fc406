//! Hot spares: `tally pool add POOL spare DISK...`, `tally pool remove POOL DISK`, and the look that takes one when a disk is away.
//!
//! When one is taken, and when it is given back, [`tally_store::pool::spares::SpareWatch`] says; the steps are the same as of commands that somebody gives
//! ([`super::disks`]), and are kept apart from these by [`super::copies`]. A copy takes hours: each errand has a thread of its own.
//!
//! A spare that waits is looked at as well, by its label, so that `status` says UNAVAIL before it is needed. Such a look may
//! meet a disk that hangs; it has a thread, too, one for each pool, and a spare that it does not come back from is not taken.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use tally_members::create::{add_spares, check_spares};
use tally_members::grammar::parse_spare_args;
use tally_members::label::Spare;
use tally_members::roster::{SpareError, spare_label};
use tally_members::vdev::LegState;
use tally_store::pool::Pool;
use tally_store::pool::membership::MembershipError;
use tally_store::pool::spares::SpareErrand;

use super::by_name::spare_or_refusal;
use super::copies::{About, Purpose};
use super::error::{DiskError, PoolsError, of_spare};
use super::pools::Pools;
use super::served::{ServedPool, path_of};
use super::ticker::Ticker;
use crate::control::report::EventClass;

/// How often the pools are looked at. Behind an import a copy that was cut off waits no longer.
const LOOK: Duration = Duration::from_secs(1);
/// One look in so many also looks at the disks that wait.
const PRESENCE_LOOKS: u64 = 60;

impl Pools {
    /// Takes disks in as spares. Gives the words for what was done.
    pub fn add(&self, name: &str, words: &[String], force: bool) -> Result<String, PoolsError> {
        let paths = parse_spare_args(words)?;
        let served = self.pool(name)?;
        let roster = &served.filer.pool().roster;
        add_spares(roster, &self.platform, &paths, force).map_err(DiskError::from)?;
        // That it is not written down `status` tells; an import looks for spares by their labels.
        let _told_later = self.remember(&served);
        let shown: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        Ok(format!("{}: now waiting as spare of '{name}'", shown.join(", ")))
    }

    /// Takes a spare that waits out of the pool. Gives remarks.
    pub fn remove(&self, name: &str, device: &str) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        let roster = &served.filer.pool().roster;
        let spare = spare_or_refusal(&served, device)?.guid;
        let remark = roster.remove_spare(&self.platform, spare).map_err(of_spare)?;
        // That it is not written down `status` tells; an import looks for spares by their labels.
        let _told_later = self.remember(&served);
        Ok(remark.into_iter().collect())
    }

    /// Whether these disks could be taken in as spares. Gives their paths.
    pub(super) fn check_add(&self, name: &str, words: &[String], force: bool) -> Result<Vec<String>, PoolsError> {
        let paths = parse_spare_args(words)?;
        let served = self.pool(name)?;
        let roster = &served.filer.pool().roster;
        check_spares(roster, &self.platform, &paths, force).map_err(DiskError::from)?;
        Ok(paths.iter().map(|path| path.display().to_string()).collect())
    }

    /// Whether a spare could be taken out. Gives its path.
    pub(super) fn check_remove(&self, name: &str, device: &str) -> Result<PathBuf, PoolsError> {
        let served = self.pool(name)?;
        let roster = &served.filer.pool().roster;
        let Spare { guid, path, .. } = spare_or_refusal(&served, device)?;
        roster.check_changeable().map_err(DiskError::from)?;
        if roster.config().leg(guid).is_some() {
            return Err(of_spare(SpareError::InUse { path }).into());
        }
        Ok(path)
    }

    /// Carries an errand out. Gives what there is to tell.
    fn run_errand(&self, served: &ServedPool, errand: SpareErrand) -> Result<String, PoolsError> {
        let config = served.filer.pool().roster.config();
        let path = |guid| path_of(&config, guid).display().to_string();
        match errand {
            SpareErrand::Take { spare, away } => {
                self.tell(&config.name, EventClass::SpareTake, format!("{} is taken for {}", path(spare), path(away)));
                self.take_spare(served, (spare, away), &mut |_| {})?;
                Ok(format!("{} stands in for {}", path(spare), path(away)))
            }
            SpareErrand::Return { spare } => {
                self.go_on_joining(served, spare)?;
                Ok(format!("{}, a spare in use, is up to date again", path(spare)))
            }
            SpareErrand::GoOn { leg } => {
                let did =
                    if served.filer.pool().returns(leg) { "is up to date again" } else { "has joined its mirror" };
                self.go_on_joining(served, leg)?;
                Ok(format!("{} {did}", path(leg)))
            }
            SpareErrand::GiveBack { spare } => {
                self.give_back_spare(served, spare)?;
                Ok(format!("{} is available as a spare again: the disk that it stood for is back", path(spare)))
            }
            SpareErrand::Keep { vdev } => {
                let kept = served.filer.pool().roster.keep_orphaned_spares(vdev).map_err(DiskError::from)?;
                let kept: Vec<_> = kept.iter().map(|path| path.display().to_string()).collect();
                Ok(format!("{} is a disk of the mirror for good, and no spare any more", kept.join(", ")))
            }
        }
    }
}

/// Starts the thread that looks.
pub(super) fn watch(pools: &Arc<Pools>) -> io::Result<Ticker> {
    let pools = Arc::clone(pools);
    let mut count = 0_u64;
    Ticker::start("spares", LOOK, move || {
        for served in pools.all() {
            for errand in due(&served) {
                spawn(&pools, &served, errand);
            }
            if count.is_multiple_of(PRESENCE_LOOKS) {
                look_at_disks(&served);
            }
        }
        count += 1;
    })
}

/// What is to be done now, as far as nothing else runs there.
fn due(served: &ServedPool) -> Vec<SpareErrand> {
    let pool = served.filer.pool();
    if pool.read_only() || pool.fault().is_some() {
        return Vec::new();
    }
    let mut errands = served.spares.watch.lock().look(pool, pool.platform.clock.monotonic());
    errands.retain(|errand| !is_busy(served, *errand));
    errands
}

/// Whether something runs on the mirror that this is about.
fn is_busy(served: &ServedPool, errand: SpareErrand) -> bool {
    let leg = match errand {
        SpareErrand::Take { away, .. } => away,
        SpareErrand::GoOn { leg } => leg,
        SpareErrand::Return { spare } | SpareErrand::GiveBack { spare } => spare,
        SpareErrand::Keep { vdev } => return served.copies.runs_on(Some(vdev)),
    };
    let config = served.filer.pool().roster.config();
    let Some((vdev, leg)) = config.leg(leg) else { return true };
    match errand {
        SpareErrand::GoOn { .. } | SpareErrand::Return { .. } => {
            let (vdev, path, old) =
                (Some(vdev.guid), leg.path.as_path(), served.filer.pool().replaced_by(leg.guid).map(|old| old.path()));
            served.copies.check_beside(About { vdev, purpose: Purpose::Join, path, leaves: old.as_deref() }).is_err()
        }
        // While a disk joins there may be no need of it.
        _ => served.copies.runs_on(Some(vdev.guid)),
    }
}

fn spawn(pools: &Arc<Pools>, served: &Arc<ServedPool>, errand: SpareErrand) {
    let (pools, served) = (Arc::clone(pools), Arc::clone(served));
    let name = served.filer.name();
    let spawned = thread::Builder::new().name("spare".into()).spawn(move || carry_out(&pools, &served, errand));
    if let Err(error) = spawned {
        tracing::warn!(pool = %name, %error, "a spare cannot be taken or given back for now: there is no thread for it");
    }
}

/// Carries an errand out, and remembers what came of it.
fn carry_out(pools: &Pools, served: &ServedPool, errand: SpareErrand) {
    let (name, outcome) = (served.filer.name(), pools.run_errand(served, errand));
    if matches!(&outcome, Err(PoolsError::Disk(error)) if is_looked_at_again(error)) {
        return;
    }
    let pool = served.filer.pool();
    // One that was on its way back and has not come: somebody has to want it again.
    let stays_away = matches!(errand, SpareErrand::GoOn { leg } if pool.state_of(leg) != Some(LegState::Online));
    let next = if outcome.is_ok() { None } else { what_is_next(pool, errand) };
    let is_over = next.is_none();
    served.spares.watch.lock().note(errand, is_over, pool.platform.clock.monotonic());
    let (about, failed) = match errand {
        SpareErrand::GoOn { .. } => (EventClass::Join, EventClass::JoinFailed),
        _ => (EventClass::Spare, EventClass::SpareFailed),
    };
    match outcome {
        Ok(words) => {
            tracing::info!(pool = %name, "{words}");
            pools.tell(&name, about, words);
        }
        Err(error) => {
            let words = error.to_string();
            let words = next.map_or(words.clone(), |next| format!("{}. {next}", words.trim_end_matches('.')));
            tracing::warn!(pool = %name, "{words}");
            pools.tell(&name, if is_over && !stays_away { about } else { failed }, words);
        }
    }
}

/// Another command was faster, or the pool goes: the next look, of this daemon or another one, finds what is left.
const fn is_looked_at_again(error: &DiskError) -> bool {
    matches!(
        error,
        DiskError::Busy { .. }
            | DiskError::LettingGo
            | DiskError::Membership(MembershipError::Interrupted { .. } | MembershipError::NotDue { .. })
    )
}

/// Whether nobody but somebody takes up a spare that was in use.
const fn is_given_up(state: Option<LegState>) -> bool {
    matches!(state, None | Some(LegState::Failing | LegState::Faulted | LegState::Offline))
}

/// What comes of an errand that did not come to its end. None: it is over all the same, and what is left is for somebody to do.
fn what_is_next(pool: &Pool, errand: SpareErrand) -> Option<&'static str> {
    let again = "This is tried again later";
    let counts = |leg| pool.state_of(leg) == Some(LegState::Online);
    match errand {
        SpareErrand::GoOn { leg } if pool.join_job(leg).is_none() => None,
        SpareErrand::GoOn { leg } if !pool.goes_on_by_itself(leg) => {
            Some("`tally pool online` goes on with its copy when it is well, and `tally pool detach` gives it up")
        }
        SpareErrand::Take { spare, .. } | SpareErrand::Return { spare } if counts(spare) => None,
        SpareErrand::Return { spare } if is_given_up(pool.state_of(spare)) => {
            Some("Another spare stands in for its disk, if there is one; `tally pool online` takes this one back")
        }
        _ => Some(again),
    }
}

/// Looks whether the disks that wait are where they should be.
fn look_at_disks(served: &Arc<ServedPool>) {
    let pool = served.filer.pool();
    let (config, platform) = (pool.roster.config(), pool.platform.clone());
    if config.spares_available().next().is_none() {
        return;
    }
    if served.spares.looking.swap(true, Ordering::AcqRel) {
        // Since the look before.
        if let Some(silent) = *served.spares.looked_at.lock() {
            served.spares.watch.lock().note_presence(silent, Err("it does not answer".into()));
        }
        return;
    }
    // While a disk hangs the pool may be let go of.
    let pool = Arc::downgrade(served);
    let spawned = thread::Builder::new().name("spares".into()).spawn(move || {
        for guid in config.spares_available().map(|spare| spare.guid) {
            let Some(served) = pool.upgrade() else { return };
            *served.spares.looked_at.lock() = Some(guid);
            drop(served);
            let found = spare_label(&platform, &config, guid);
            let Some(served) = pool.upgrade() else { return };
            // One that still calls itself a leg is told otherwise.
            let found = found.and_then(|label| match label.is_spare() {
                true => Ok(()),
                false => served.filer.pool().roster.look_at_spare(&platform, guid),
            });
            served.spares.watch.lock().note_presence(guid, found);
        }
        if let Some(served) = pool.upgrade() {
            *served.spares.looked_at.lock() = None;
            served.spares.looking.store(false, Ordering::Release);
        }
    });
    if spawned.is_err() {
        served.spares.looking.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
