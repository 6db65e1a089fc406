//! Who may claim again what was open before this start of the server, and from when on others get something new.
//!
//! A client that had something open is in the list of that pool before it is answered (rules V23). Behind a restart those in the list, and no others, may
//! claim it again; until they have, or have had the time to, nobody is given anything that could be theirs (the *grace* of the pool, rules V26; RFC 8881 §8.4.2). The list is kept
//! in the pool, so it moves with it: in a folder that nobody else sees ([`PoolExports::clients`]), a symbolic link for each client, which is one
//! change that is there or is not.
//!
//! ```text
//!  the pool comes ─▶ its list is read ─▶ nobody in it? ─▶ over
//!                          │
//!                          ▼
//!                        grace: claims of those in the list, who have not said that they claim nothing more
//!                          │ its time is over, or all have said so
//!                          ▼
//!     who has claimed nothing goes out of the list, durably, before the first new grant (rules V25) ─▶ over
//! ```
//!
//! *What a grant waits for.* What goes into the list, or out of it, is in the folder's order: one promise for the newest change is one for all before it. So a
//! grant asks for that promise as long as any change may not be durable, and once none is left asks for nothing.
//!
//! *Who is gone* goes out of the list, and the next grant waits for that: what was taken from a client that did not answer is somebody else's by then, and
//! may not be claimed again behind a crash (rules V24).
//!
//! *Locks.* `work`, which is held while the folder is looked at or changed, by one at a time; then the list's, held over nothing. That of all pools is held over where a folder is, and over its list, as a pool comes back. A grant where nothing is to be done
//! takes the list's alone.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tally_base::{DatasetId, PoolGuid, Promise, Time};
use tally_vfs::{MountNumber, Vfs};

use self::folder::Tracked;
pub use self::list::GraceSeen;
use self::list::{Came, List};
pub(super) use self::writes::Where;
use super::compound::Stop;
use super::state::{ClientId, ClientKey, Presence};
use super::status::Status;
use crate::exports::{Exports, PoolExports};

mod folder;
mod list;
mod writes;

/// The lists of all pools.
pub(super) struct Tracking {
    /// How long a client of this life may say nothing.
    lease: Duration,
    pools: Mutex<HashMap<PoolGuid, Arc<Tracked>>>,
    /// Who has said, since this start, that he claims nothing more.
    completed: Mutex<HashSet<ClientKey>>,
    /// As of which state of the exports nobody is kept out by what may be claimed for writing.
    open: AtomicU64,
}

/// Who asks, and when, by the clock of leases: a grace lasts for as long as those could be answered who may claim something (rules V21).
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) presence: &'a Presence,
    pub(super) now: Duration,
}

/// Somebody may be given something new: what his answer waits for, besides, as long as nobody else had to go out of the list behind this.
pub(super) struct Given {
    promise: Option<Box<dyn Promise>>,
    mount: Option<MountNumber>,
    dooms: u64,
    /// In which dataset, if any, that may be a delegation for writing: as it will be written down.
    may_write: Option<DatasetId>,
}

/// He was: what his answer waits for, and whether that may be a delegation for writing.
pub(super) struct Noted {
    pub(super) promise: Option<Box<dyn Promise>>,
    pub(super) may_write: bool,
}

impl Given {
    /// Whether that may be a delegation for writing.
    pub(super) fn may_write(&self) -> bool {
        self.may_write.is_some()
    }

    /// The same, if an answer waits for nothing besides; else for what.
    pub(super) fn at_once(self) -> Result<Self, Box<dyn Promise>> {
        match self.promise {
            Some(promise) => Err(promise),
            None => Ok(self),
        }
    }
}

impl Tracking {
    /// Of no pool yet, for clients with leases of this length.
    pub(super) fn new(lease: Duration) -> Self {
        let (pools, completed) = Default::default();
        Self { lease, pools, completed, open: AtomicU64::new(u64::MAX) }
    }

    /// The lists of pools that are away go, as far as nothing is retained of those: what was still to be changed in one is changed by nobody, and what is in it counts behind the next import.
    pub(super) fn end_with_pools(&self, exports: &dyn Exports) {
        let may_come_back = |pool: &dyn PoolExports| pool.is_retained() || pool.clients().is_some();
        let stays = |pool: &PoolGuid| exports.pool(*pool).is_some_and(|pool| may_come_back(&*pool));
        self.pools.lock().retain(|pool, tracked| tracked.is_here() || stays(pool));
    }

    /// Somebody is about to be given something new in this pool; in this dataset one for writing.
    pub(super) fn grant(
        &self,
        pool: &dyn PoolExports,
        asker: Asker<'_>,
        writes: Option<DatasetId>,
    ) -> Result<Given, Stop> {
        self.grant_with(pool, asker, writes, |tracked| Some(tracked.work()))
    }

    /// The same for who looks at many pools, and waits for nobody who may wait for the disks of one.
    pub(super) fn grant_or_not_now(&self, pool: &dyn PoolExports, asker: Asker<'_>) -> Result<Given, Stop> {
        self.grant_with(pool, asker, None, |tracked| tracked.work.try_lock())
    }

    fn grant_with(
        &self,
        pool: &dyn PoolExports,
        asker: Asker<'_>,
        writes: Option<DatasetId>,
        work: impl FnOnce(&Tracked) -> Option<MutexGuard<'_, ()>>,
    ) -> Result<Given, Stop> {
        let Some(vfs) = pool.clients() else {
            return Ok(Given { promise: None, mount: None, dooms: 0, may_write: None });
        };
        let (tracked, key) = (self.tracked(pool.guid(), &vfs, asker.now)?, asker.presence.key());
        let mount = Some(tracked.mount);
        // Who does not know yet that something was taken from it goes into no list: behind a crash it would claim that as well (rules V24).
        let has_lost = asker.presence.has_lost();
        let writes = writes.filter(|_| !has_lost);
        let whose = (key, asker.presence.client());
        let at_rest = |list: &mut List| {
            let is_noted = |list: &mut List| writes.is_none_or(|dataset| list.may_write(whose, dataset, asker.now));
            (list.is_at_rest(key, has_lost) && is_noted(list)).then(|| list.dooms())
        };
        if let Some(dooms) = tracked.list.lock().as_mut().and_then(at_rest) {
            return Ok(Given { promise: None, mount, dooms, may_write: writes });
        }
        let Some(_one_at_a_time) = work(&tracked) else { return Err(Status::Delay.into()) };
        tracked.read_in(&*vfs, asker.now)?;
        let (doomed, is_new, dooms) = tracked.with(|list| {
            self.advance(&tracked, list, asker.now);
            if list.is_in_grace() {
                Err(Status::Grace)
            } else {
                Ok((list.take_doomed(), !list.has(key) && !has_lost, list.dooms()))
            }
        })?;
        tracked.let_go(&*vfs, doomed)?;
        if is_new {
            tracked.note(&*vfs, asker)?;
        }
        let may_write = match writes {
            Some(dataset) => tracked.note_write(&*vfs, asker, dataset)?.then_some(dataset),
            None => None,
        };
        Ok(Given { promise: tracked.settle(&*vfs)?, mount, dooms, may_write })
    }

    /// He was given it: the promise that his answer waits for. An error where somebody had to go out of the list meanwhile, whose it may have been (rules V24), or it is written down no
    /// more that he may have something for writing: then it is to be asked for anew, there.
    pub(super) fn given(&self, pool: PoolGuid, given: Given) -> Result<Noted, Option<DatasetId>> {
        let Given { promise, mount, dooms, may_write } = given;
        let Some(mount) = mount else { return Ok(Noted { promise, may_write: false }) };
        let tracked = self.pools.lock().get(&pool).filter(|tracked| tracked.mount == mount).cloned();
        let is_as_then = |tracked: &Tracked| tracked.with(|list| list.dooms() == dooms);
        if tracked.is_some_and(|tracked| is_as_then(&tracked)) {
            Ok(Noted { promise, may_write: may_write.is_some() })
        } else {
            Err(may_write)
        }
    }

    /// Programs of this machine, which stand in no list, were given something in this pool: what their answer waits for, so that nobody may claim it who has lost it or did not come (rules V24 and V25).
    pub(super) fn given_here(&self, pool: &dyn PoolExports, now: Duration) -> Result<Option<Box<dyn Promise>>, Stop> {
        let Some(vfs) = pool.clients() else { return Ok(None) };
        let tracked = self.tracked(pool.guid(), &vfs, now)?;
        if tracked.list.lock().as_ref().is_some_and(List::is_sure) {
            return Ok(None);
        }
        // Who is beside another one, whose disk may hang, comes again.
        let _one_at_a_time = tracked.work.try_lock().ok_or(Status::Delay)?;
        tracked.read_in(&*vfs, now)?;
        let doomed = tracked.with(|list| {
            self.advance(&tracked, list, now);
            if list.is_in_grace() { Err(Status::Grace) } else { Ok(list.take_doomed()) }
        })?;
        if !doomed.is_empty() {
            tracked.let_go(&*vfs, doomed)?;
        }
        tracked.settle(&*vfs)
    }

    /// Whether a client may claim something again in this pool (table D12).
    pub(super) fn reclaim(&self, pool: &dyn PoolExports, asker: Asker<'_>) -> Result<(), Status> {
        let Some(vfs) = pool.clients() else { return Err(Status::NoGrace) };
        let tracked = self.tracked(pool.guid(), &vfs, asker.now)?;
        let _one_at_a_time = tracked.work();
        tracked.read_in(&*vfs, asker.now)?;
        let may = tracked.with(|list| {
            self.advance(&tracked, list, asker.now);
            list.reclaim(asker.presence.key(), asker.now)
        });
        if may && !asker.presence.has_reclaimed() { Ok(()) } else { Err(Status::NoGrace) }
    }

    /// The same of a host that locks by NLM, which must not be told to come again: nothing, as long as it is not known.
    pub(super) fn host_may_reclaim(&self, pool: &dyn PoolExports, asker: Asker<'_>) -> Option<bool> {
        let Some(vfs) = pool.clients() else { return Some(false) };
        let tracked = self.tracked(pool.guid(), &vfs, asker.now).ok()?;
        if tracked.list.lock().is_none() {
            // Nobody waits here for who is about it.
            let _one_at_a_time = tracked.work.try_lock()?;
            tracked.read_in(&*vfs, asker.now).ok()?;
        }
        tracked.list.lock().as_mut().map(|list| {
            self.advance(&tracked, list, asker.now);
            list.reclaim(asker.presence.key(), asker.now)
        })
    }

    /// A host claims something that cannot be answered yet, and nothing else before: where it may claim something it is waited for, as if it did. Whether it has to be answered now, to be
    /// in time there.
    pub(super) fn is_held_up(&self, key: ClientKey, now: Duration) -> bool {
        let mut is_late = false;
        for tracked in self.all().iter().filter(|tracked| tracked.is_here()) {
            if let Some(list) = &mut *tracked.list.lock() {
                self.advance(tracked, list, now);
                is_late |= list.is_held_up(key, now);
            }
        }
        is_late
    }

    /// Whether a client, that may claim something again in this pool, may claim something for writing in this dataset of it.
    pub(super) fn reclaim_write(&self, pool: &dyn PoolExports, asker: Asker<'_>, dataset: DatasetId) -> bool {
        let whose = (asker.presence.key(), asker.presence.client());
        let tracked = pool.clients().and_then(|vfs| self.tracked(pool.guid(), &vfs, asker.now).ok());
        tracked.is_some_and(|tracked| {
            tracked.list.lock().as_mut().is_some_and(|list| list.reclaim_write(whose, dataset, asker.now))
        })
    }

    /// Whether it is known of this state of the exports that nobody is kept out by what may be claimed for writing.
    pub(super) fn is_open_to_all(&self, changed: Time) -> bool {
        self.open.load(Relaxed) == changed.0
    }

    /// Whether somebody but this client may still claim something for writing in a dataset (rules V27).
    pub(super) fn awaits_claims(
        &self,
        exports: &dyn Exports,
        (pool, dataset): (&dyn PoolExports, DatasetId),
        who: Option<ClientKey>,
        now: Duration,
    ) -> bool {
        let changed = exports.changed();
        if self.is_open_to_all(changed) {
            return false;
        }
        let has_completed = |key: &ClientKey| self.completed.lock().contains(key);
        // As far as it was read by now: who only asks waits for no disk.
        let known = |tracked: &Tracked, dataset: Option<DatasetId>, who: Option<ClientKey>| {
            tracked.list.lock().as_mut().map(|list| {
                self.advance(tracked, list, now);
                list.awaits_claims(dataset, who, &has_completed)
            })
        };
        let is_kept_out = || {
            let Some(vfs) = pool.clients() else { return false };
            let Ok(tracked) = self.tracked(pool.guid(), &vfs, now) else { return true };
            let known_now = || known(&tracked, Some(dataset), who);
            if let Some(is_kept_out) = known_now() {
                // Whoever comes first writes down that it is over.
                return is_kept_out && !(tracked.ends_grace(&*vfs, now) && known_now() == Some(false));
            }
            let _one_at_a_time = tracked.work();
            let is_read = tracked.read_in(&*vfs, now).is_ok();
            // As long as nobody knows who may claim what somebody may; and not for ever.
            let read = is_read.then(|| known(&tracked, Some(dataset), who)).flatten();
            read.unwrap_or_else(|| !tracked.is_late(now))
        };
        let is_kept_out = is_kept_out();
        // Of the others only what is known is asked: their disks are nothing to who comes to this one.
        let may_keep_out = |pool: &dyn PoolExports| {
            let Some(vfs) = pool.clients() else { return false };
            let Ok(tracked) = self.tracked(pool.guid(), &vfs, now) else { return true };
            known(&tracked, None, None).unwrap_or_else(|| !tracked.is_late(now))
        };
        // Of one that is away it is not known, and whoever comes to it finds that it has changed.
        let is_anybody = || exports.pools().iter().any(|pool| may_keep_out(&**pool));
        if !is_kept_out && !is_anybody() {
            self.open.store(changed.0, Relaxed);
        }
        is_kept_out
    }

    /// Clients that have had nothing for writing for a while may not claim any. `holds`: whether one has some there.
    pub(super) fn forget_idle(&self, now: Duration, holds: &dyn Fn(ClientId, PoolGuid, Where) -> bool) {
        for tracked in self.all() {
            let idle = tracked.list.lock().as_ref().map_or_else(Vec::new, |list| list.idle(now));
            // Nothing else is asked with the list's lock.
            let (held, idle): (Vec<_>, Vec<_>) = idle
                .into_iter()
                .partition(|(flag, client)| client.is_some_and(|it| holds(it, tracked.pool, flag.place)));
            if let Some(list) = &mut *tracked.list.lock() {
                held.iter().for_each(|(flag, _)| list.is_held(*flag, now));
                list.forget_idle(idle.iter().map(|(flag, _)| *flag), now);
            }
        }
        self.let_go_of_doomed();
    }

    /// Whether something in this pool may still be claimed again.
    pub(super) fn is_in_grace(&self, pool: &dyn PoolExports, now: Duration) -> bool {
        let Some(vfs) = pool.clients() else { return false };
        let Ok(tracked) = self.tracked(pool.guid(), &vfs, now) else { return true };
        self.known_grace(&tracked, now).unwrap_or_else(|| {
            let _one_at_a_time = tracked.work();
            self.grace_of(&tracked, &*vfs, now)
        })
    }

    /// The same for who does not wait until another one has read the list, which may take as long as its disks: by then something may be.
    pub(super) fn may_be_in_grace(&self, pool: &dyn PoolExports, now: Duration) -> bool {
        let Some(vfs) = pool.clients() else { return false };
        let Ok(tracked) = self.tracked(pool.guid(), &vfs, now) else { return true };
        let ask = || tracked.work.try_lock().map(|_one_at_a_time| self.grace_of(&tracked, &*vfs, now));
        self.known_grace(&tracked, now).or_else(ask).unwrap_or(true)
    }

    /// If the list was read.
    fn known_grace(&self, tracked: &Tracked, now: Duration) -> Option<bool> {
        tracked.list.lock().as_mut().map(|list| {
            self.advance(tracked, list, now);
            list.is_in_grace()
        })
    }

    /// Once it is. As long as nobody knows who may claim what somebody may.
    fn grace_of(&self, tracked: &Tracked, folder: &dyn Vfs, now: Duration) -> bool {
        tracked.read_in(folder, now).is_err() || self.known_grace(tracked, now).unwrap_or(true)
    }

    /// The grace of a pool, if it is known by now and not over: nobody waits for its disks to be told.
    pub(super) fn grace(&self, pool: PoolGuid, now: Duration) -> Option<GraceSeen> {
        let tracked = self.pools.lock().get(&pool).cloned()?;
        let has_completed = |key: &ClientKey| self.completed.lock().contains(key);
        tracked.list.lock().as_ref()?.seen(now, &has_completed)
    }

    /// When that is over at the latest.
    pub(super) fn end_of_grace(&self, pool: PoolGuid) -> Option<Duration> {
        let tracked = self.pools.lock().get(&pool).cloned()?;
        tracked.list.lock().as_ref()?.latest_end()
    }

    /// Whether there are hosts that lock by NLM and may claim something again in this pool, and were not told that we have started anew.
    pub(super) fn has_hosts_to_notify(&self, pool: &dyn PoolExports, now: Duration) -> bool {
        let Some(vfs) = pool.clients() else { return false };
        // By that it is read, unless another one is about it.
        let _in_grace = self.may_be_in_grace(pool, now);
        let Ok(tracked) = self.tracked(pool.guid(), &vfs, now) else { return false };
        tracked.list.lock().as_ref().is_some_and(List::has_hosts_to_notify)
    }

    /// Those, once.
    pub(super) fn take_hosts_to_notify(&self, pool: PoolGuid) -> Vec<IpAddr> {
        let tracked = self.pools.lock().get(&pool).cloned();
        tracked.and_then(|tracked| tracked.list.lock().as_mut().map(List::take_hosts_to_notify)).unwrap_or_default()
    }

    /// A client has said that it claims nothing more.
    pub(super) fn complete(&self, presence: &Presence) {
        self.completed.lock().insert(presence.key());
    }

    /// A client is gone, and what it had is about to be others': from here on whoever is given something waits until it is out of the lists (rules V24).
    pub(super) fn doom(&self, key: ClientKey) {
        self.completed.lock().remove(&key);
        self.forget(key, true);
    }

    /// The same of one that is there, and from which something was taken.
    pub(super) fn lose(&self, key: ClientKey) {
        self.forget(key, false);
    }

    fn forget(&self, key: ClientKey, is_gone: bool) {
        for tracked in self.all() {
            if let Some(list) = &mut *tracked.list.lock() {
                list.forget(key, is_gone);
            }
        }
    }

    /// Takes out of the lists who is gone. Nobody waits for that here, and what fails is tried again before the next grant.
    pub(super) fn let_go_of_doomed(&self) {
        for tracked in self.all() {
            let has_some = || tracked.list.lock().as_ref().is_some_and(List::has_doomed);
            if let (true, Some(vfs)) = (has_some(), tracked.folder()) {
                // Beside another one, whose disk may hang, that is left to the next grant.
                let Some(_one_at_a_time) = tracked.work.try_lock() else { continue };
                let doomed = tracked.with(List::take_doomed);
                let _later = tracked.let_go(&*vfs, doomed);
            }
        }
    }

    /// Whether all lists are durable as they are, within this time.
    pub(super) fn are_durable_within(&self, time: Duration) -> bool {
        self.let_go_of_doomed();
        let newest: Result<Vec<_>, Stop> = self.all().iter().map(|tracked| tracked.newest_change()).collect();
        let Ok(newest) = newest else { return false };
        let (told, fates) = mpsc::channel();
        let tell = |promise: Box<dyn Promise>| {
            let told = told.clone();
            promise.then(Box::new(move |fate| _ = told.send(fate.is_ok())));
        };
        let count = newest.into_iter().flatten().map(tell).count();
        let until = Instant::now() + time;
        let left = || until.saturating_duration_since(Instant::now());
        (0..count).all(|_| fates.recv_timeout(left()).unwrap_or(false))
    }

    /// Whether the grace of a pool is over by now, of which one line tells.
    fn advance(&self, tracked: &Tracked, list: &mut List, now: Duration) {
        let Some(Came { claimed, idle, lost }) = list.advance(now, &|key| self.completed.lock().contains(key)) else {
            return;
        };
        tracing::info!(
            pool = %tracked.pool, claimed, idle, lost,
            "the time is over in which clients of NFSv4 claim again what they had open before the restart: so many did, came without claiming \
             anything, and did not come; what those had is free"
        );
    }

    fn all(&self) -> Vec<Arc<Tracked>> {
        self.pools.lock().values().cloned().collect()
    }

    /// That of a pool as it is mounted there. Who comes from an older mount has met the end of that, and comes again.
    fn tracked(&self, pool: PoolGuid, folder: &Arc<dyn Vfs>, now: Duration) -> Result<Arc<Tracked>, Status> {
        let (mut pools, mount) = (self.pools.lock(), folder.mount());
        match pools.get(&pool) {
            Some(tracked) if tracked.mount == mount => {
                tracked.comes_back(folder, now);
                return Ok(tracked.clone());
            }
            Some(newer) if newer.mount > mount => return Err(Status::Delay),
            _ => {}
        }
        let tracked = Arc::new(Tracked::new(self.lease, pool, folder));
        pools.insert(pool, tracked.clone());
        Ok(tracked)
    }
}
