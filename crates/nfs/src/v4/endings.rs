//! What ends state that its client has not given up: the client is gone, or what it has open is.
//!
//! *A client* that is gone ([`Clients::take_gone`](super::state::Clients::take_gone)) loses all that it had, by whoever made it go. One whose lease is over goes when it is in
//! somebody's way, or when there is no room for others (rules V20 and V35).
//!
//! *A mount.* What is open is known below for as long as its dataset is mounted, and above by the mount ([`Mounted`]). Behind a `pool clear`, a
//! rollback or the end of a dataset nothing below knows of it, and whoever was kept out by it is not any more. So it is revoked, and its client told: by SEQUENCE, which looks
//! whether what is exported was another thing at its last look, and by every use, which finds another mount than it was opened on (rules V37).
//!
//! *An export.* What clients have of a pool that was exported is kept for a lease, and is what it was if the pool is back by then, by the same mounts ([`PoolExports::retained`](crate::exports::PoolExports::retained)). Meanwhile nobody gets at its
//! files, so nothing is given and nobody is kept out; what ends, ends in what is kept.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::blocking;

use super::below::{close_below, file_system, is_over};
use super::house::House;
use super::state::{ClientId, FileId, Gone, Known, Mounted, Revoked, Stateid, Which, Why, printable};
use crate::exports::Exports;

/// Who is at it.
pub(super) struct Endings {
    /// Closes what those had who are gone.
    closing: Mutex<()>,
    /// Looks which mounts are over.
    looking: Mutex<()>,
    /// As of which state of the exports nobody has anything of a mount that is over.
    seen: AtomicU64,
    lines: Mutex<Lines>,
}

/// What was told in the newest [`INTERVAL`], and how much was not.
#[derive(Default)]
struct Lines {
    since: Duration,
    told: u32,
    untold: u64,
}

/// Clients may come and go as they like, and the log is not theirs to fill: no more than [`LINES_MAX`] in so long, by the clock of leases.
const INTERVAL: Duration = Duration::from_secs(60);
const LINES_MAX: u32 = 30;

/// As much of a client's name as a line of the log has.
const NAME_MAX: usize = 120;

impl Lines {
    /// How many were not told of, if one more may be.
    fn speak(&mut self, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.since) >= INTERVAL {
            (self.since, self.told) = (now, 0);
        }
        if self.told >= LINES_MAX {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

impl Endings {
    /// A client has gone, of which so many opens, stateids of locks and delegations were ended with it. One that went by itself, or had nothing, is nothing to tell.
    fn tell_of_gone(&self, gone: &Gone, (opens, locks, delegations): (usize, usize, usize), now: Duration) {
        let why = match gone.why {
            Why::Itself => return,
            Why::Late | Why::Forgotten if opens + locks + delegations == 0 => return,
            Why::Late => "its lease was over, and it was in somebody's way, or there was no room",
            Why::Forgotten => "nobody has heard of it for a day",
            Why::Evicted => "it was evicted",
        };
        let told = self.lines.lock().speak(now);
        // Nobody evicts as many as would fill the log.
        let Some(untold) = told.or((gone.why == Why::Evicted).then_some(0)) else { return };
        let (client, name, address) = (Hex(gone.client), short(&gone.name), gone.address);
        tracing::info!(%client, name, %address, opens, locks, delegations, untold, "a client of NFSv4 was ended with all that it held: {why}");
    }

    /// So many opens and delegations of a client were revoked, as their mount is over.
    fn tell_of_revoked(&self, of: Option<&Known>, count: usize, now: Duration) {
        let Some((known, untold)) = of.and_then(|known| Some((known, self.lines.lock().speak(now)?))) else { return };
        let (client, name, address) = (Hex(known.client), short(&known.name), known.address);
        tracing::info!(
            %client, name, %address, count, untold,
            "revoked what a client of NFSv4 had open of datasets that are not there any more, or anew"
        );
    }
}

/// A client's id as it is shown.
struct Hex(ClientId);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0.0)
    }
}

fn short(name: &[u8]) -> String {
    printable(&name[..name.len().min(NAME_MAX)])
}

impl Default for Endings {
    fn default() -> Self {
        let (closing, looking, lines) = Default::default();
        Self { closing, looking, seen: AtomicU64::new(u64::MAX), lines }
    }
}

impl House {
    /// Closes what clients had open who are gone since this was asked last.
    pub(super) fn close_for_the_gone(&self, exports: &dyn Exports) {
        // Whoever answers behind this finds all of it closed, also what another one is at.
        let closing = &self.endings.closing;
        let one_at_a_time = closing.try_lock().unwrap_or_else(|| blocking(|| closing.lock()));
        let mut closed = Vec::new();
        let gone = self.clients().take_gone();
        gone.iter().filter_map(|gone| gone.key).for_each(|key| self.tracking.doom(key));
        for gone in &gone {
            let client = gone.client;
            self.orders().forget_client(client);
            self.forget_waiters(client);
            let (closing, locks) = (self.opens().forget_client(client), self.locks().count_of(client));
            close_below(exports, &closing);
            self.locks().forget_client(client);
            let delegations = self.forget_delegations(exports, client);
            closed.extend(closing.iter().map(|closing| closing.file));
            self.endings.tell_of_gone(gone, (closing.len(), locks, delegations), self.now());
        }
        super::past::forget(exports, &self.sessions().take_over());
        drop(one_at_a_time);
        if !gone.is_empty() {
            self.tracking.let_go_of_doomed();
        }
        let files: HashSet<_> = closed.into_iter().collect();
        files.iter().for_each(|file| self.freed(exports, file, None));
    }

    /// Ends clients of which nobody has heard for as long as courtesy goes.
    pub(crate) fn end_forgotten(&self, exports: &dyn Exports) {
        let now = self.now();
        self.clients().forget_late(now);
        self.end_with_mounts(exports);
        self.close_for_the_gone(exports);
        self.forget_idle_writes();
    }

    /// Revokes what clients have open of mounts that are over, if there may be such since this was asked last.
    pub(super) fn end_with_mounts(&self, exports: &dyn Exports) {
        let changed = exports.changed().0;
        if self.endings.seen.load(Relaxed) == changed {
            return;
        }
        // Who comes meanwhile need not wait: what he uses tells him as well.
        let Some(_alone) = self.endings.looking.try_lock() else { return };
        let mut over = self.opens().mounts();
        over.extend(self.delegations().mounts());
        over.retain(|mounted| is_over(exports, mounted));
        if !over.is_empty() {
            self.revoke(exports, &|mounted| over.contains(mounted));
        }
        self.tracking.end_with_pools(exports);
        super::past::keep(exports, &self.sessions().persistent());
        self.endings.seen.store(changed, Relaxed);
    }

    /// The same, of what this stateid names, before it is tested or freed.
    pub(super) fn end_if_over(&self, exports: &dyn Exports, asked: &Stateid, client: ClientId) {
        let file = self.file_of(asked, client);
        if let Some(over) = file.ok().map(|file| file.of).filter(|mounted| is_over(exports, mounted)) {
            self.revoke(exports, &|mounted| *mounted == over);
        }
    }

    /// Where a client has too much that was revoked all that it has goes with it, which is closed below as far as it is known there.
    fn revoke(&self, exports: &dyn Exports, is_over: &dyn Fn(&Mounted) -> bool) {
        // What was open of a mount that is over, and the locks below: nothing of it is known to the file system that is there now.
        let revoked = self.opens().revoke(None, &|found| is_over(&found.file.of), Revoked::Admin);
        for closing in &revoked {
            self.locks().revoke_below(closing.holder(), Revoked::Admin);
        }
        close_below(exports, &revoked);
        let delegated = self.delegations().revoke_of(is_over);
        self.delegated.revoked.fetch_add(delegated.len() as u64, Relaxed);
        revoked.iter().for_each(|closing| self.waiters.close(&closing.file, closing.holder()));
        let files: HashSet<_> = revoked.iter().map(|closing| closing.file).collect();
        files.iter().for_each(|file| self.freed(exports, file, None));
        let mut counts: BTreeMap<ClientId, usize> = BTreeMap::new();
        let clients = revoked.iter().map(|closing| closing.client).chain(delegated);
        clients.for_each(|client| *counts.entry(client).or_default() += 1);
        for (client, count) in counts {
            let (known, _) = self.clients().known(Which { client: Some(client), most: 1 });
            self.endings.tell_of_revoked(known.first(), count, self.now());
        }
    }

    /// Whether a file is of the mount that is there now: what is opened of another one would be kept for nobody.
    pub(super) fn is_of_today(&self, exports: &dyn Exports, file: &FileId) -> bool {
        file_system(exports, file).is_some()
    }
}

impl House {
    /// A delegation was taken from a client that did not give it back.
    pub(super) fn tell_of_taken(&self, client: ClientId) {
        let (known, _) = self.clients().known(Which { client: Some(client), most: 1 });
        let Some(known) = known.first() else { return };
        let Some(untold) = self.endings.lines.lock().speak(self.now()) else { return };
        let (client, name, address) = (Hex(client), short(&known.name), known.address);
        tracing::info!(%client, name, %address, untold, "a client of NFSv4 did not give back what it was called for within a lease: that was taken from it");
    }
}

#[cfg(test)]
mod tests;
