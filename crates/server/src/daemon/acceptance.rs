//! Whether what a pool says of this machine's directories holds here: where its datasets are mounted by themselves, and what Samba shares of them.
//!
//! Both are properties, and come along with a pool that somebody else has made: at the next start root's programs would find his files in a directory that he has named. So they hold of pools
//! that were made on this machine, and of those that its administrator has accepted, by `pool import --accept-mountpoints` or `pool set mountpoints=accept`. That is kept in the list of pools, over an export as well, and
//! ends when another machine has had the pool: the labels say so, until this one claims it.
//!
//! ```text
//!   made here ───────────────▶ accepted ──export, import──▶ accepted
//!                                ▲   │
//!              mountpoints=accept│   │ another machine's name in the labels, or mountpoints=ignore
//!                                │   ▼
//!   imported ───────────────▶ not accepted: nothing is mounted by itself, and nothing is shared
//! ```

use std::path::Path;
use std::sync::atomic::Ordering;

use tally_fs::filer::Named;
use tally_members::label::PoolConfig;
use tally_store::properties::{CanMount, Mountpoint};

use super::pools::Pools;
use super::served::ServedPool;
use super::state::StateError;
use crate::control::message::Assignment;

/// So many of each are named; the others are counted.
const NAMED_MAX: usize = 8;

impl Pools {
    /// Whether a pool that is about to be imported is accepted. One that another machine has had is not any more, and that is written before the labels name this one.
    pub(super) fn accepts(&self, config: &PoolConfig) -> bool {
        let is_accepted = self.state.lock().accepts(config.pool, &config.handle_key, config.host.id);
        if !is_accepted {
            // If it is not written, the list is tried again.
            let _told_by_status = self.change_list(|state| state.accept_no_more(config.pool));
        }
        is_accepted
    }

    /// Has mountpoints and shares of a pool hold from now on, or not any more, and writes that down.
    pub(super) fn accept(&self, pool: &ServedPool, is_accepted: bool) -> Result<(), StateError> {
        pool.is_accepted.store(is_accepted, Ordering::Relaxed);
        self.bell.ring();
        self.change_list(|state| match is_accepted {
            true => state.accept(pool.accepted()),
            false => state.accept_no_more(pool.guid()),
        })
    }

    /// What whoever has imported a pool should know of what it brings; nothing where it has been here before. `is_new`: it was accepted by that.
    pub(super) fn brought(&self, pool: &ServedPool, is_new: bool) -> Option<String> {
        let is_accepted = pool.is_accepted();
        if is_accepted && !is_new {
            return None;
        }
        let (name, what) = (pool.filer.name(), self.what_it_brings(pool)?);
        Some(match is_accepted {
            true => format!("note: of '{name}' hold from now on: {what}"),
            false => format!(
                "note: this machine has not accepted where '{name}' is mounted and what it shares, and does neither by itself: {what}. \
                 `tally pool set mountpoints=accept {name}` accepts that"
            ),
        })
    }

    /// What whoever has set this on a dataset should know: it is ignored as long as the pool's mountpoints are.
    pub(super) fn is_ignored(&self, dataset: &str, assignments: &[Assignment]) -> Option<String> {
        let ignored =
            assignments.iter().find(|set| ["mountpoint", "canmount", "sharesmb"].contains(&&*set.property))?;
        let pool = self.pool(dataset.split('/').next()?).ok().filter(|pool| !pool.is_accepted())?.filer.name();
        Some(format!(
            "note: {} does nothing by itself, as this machine has not accepted where '{pool}' is mounted and what it shares; `tally pool set mountpoints=accept {pool}` does",
            ignored.property
        ))
    }

    /// Its mountpoints, and its shares.
    fn what_it_brings(&self, pool: &ServedPool) -> Option<String> {
        let names = pool.filer.names();
        let place = |Named { name, filesystem }: &Named| {
            let in_force = filesystem.in_force();
            let at = match in_force.mountpoint.of(name) {
                Mountpoint::At(at) if in_force.canmount == CanMount::On => at,
                _ => return None,
            };
            Some(format!("{name} on {at}"))
        };
        let places = named("mountpoints", &names.iter().filter_map(place).collect::<Vec<_>>());
        let shares = self.smb_shares().into_iter().filter(|share| names.find(&share.dataset).is_some());
        let share = |dir: Option<&Path>, name: String, dataset: &str| match dir {
            Some(dir) => format!("{name} of {dataset} on {}", dir.display()),
            None => format!("{name} of {dataset}"),
        };
        let shares = shares.filter_map(|it| Some(share(it.dir.as_deref(), it.name?.to_string(), &it.dataset)));
        let shares = named("shares", &shares.collect::<Vec<_>>());
        let all: Vec<String> = [places, shares].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

fn named(what: &str, all: &[String]) -> Option<String> {
    let named = all.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(NAMED_MAX);
    match (all.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("{what}: {named}")),
        (false, more) => Some(format!("{what}: {named}, and {more} more")),
    }
}
