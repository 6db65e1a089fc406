//! Hosts that lock by NLM, as clients of version 3 do: what each of their calls does to files, to who waits, and to the lists of those who may claim something behind a restart. Who they are stands in
//! [`Hosts`]; their ranges are in the one table of claims, where those of version 4 are.
//!
//! ```text
//!  LOCK ─▶ grant: is it in the list of the pool, is there a grace? ─▶ the file system ─▶ given ─▶ GRANTED, once its record is durable
//!                                                                       ├ another one has it ─▶ DENIED, or a place and BLOCKED
//!                                                                       └ a client of version 4 keeps the file ─▶ recalled, and asked again
//!  what others free ─▶ lock_for_hosts ─▶ locked for who waits first ─▶ an errand: GRANTED ─▶ he takes it, or it is given up
//!  a pool comes, with hosts in its list ─▶ an errand for each: SM_NOTIFY
//! ```
//!
//! *Errands* are calls to hosts, which go over connections of ours ([`Errand`]); a thread with sockets runs them, and tells what came of each.
//!
//! *Order of locks.* That of the hosts, then those of the lists of pools ([`Tracking::doom`](super::tracking::Tracking::doom)) and of the table of claims, which are leaves. It is held over nothing that waits for a disk.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tally_base::Promise;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{ClientNumber, FsError, Holder, ObjectRef, Series, Vfs};

use super::below::{below, file_system, is_over};
use super::compound::{Halt, Stop};
use super::house::House;
use super::parking::KeptOut;
use super::state::bounds::WAITERS_LOOKED_AT;
use super::state::{BootId, ClientId, ClientKey, FileId, Presence};
use super::status::Status;
use super::way;
use crate::entry::Target;
use crate::exports::{Exports, PoolExports};
use crate::nlm::hosts::{Caller, Hosts, Named};
use crate::nlm::notices::Notices;
use crate::nlm::waiting::{Called, Calling, Said, Wait};
use crate::nlm::wire::{Asked, How, granted, is_taken, notice};
use crate::nlm::{self, Verdict, nsm, procedure};

mod seen;

/// All bytes.
const ALL: Range = Range::between(0, u64::MAX).expect("it begins before it ends");
/// Most ranges of an owner that are looked at for what it has of another one.
const RANGES_LOOKED_AT: usize = 4096;
/// Between two looks for hosts that have nothing any more.
const SWEEP: Duration = Duration::from_secs(10);

/// What of them the house has.
pub(super) struct HostDesk {
    hosts: Mutex<Hosts<FileId>>,
    notices: Mutex<Notices>,
    swept: Mutex<Duration>,
    /// Whether there is an errand that nobody has looked for.
    bell: (Mutex<bool>, Condvar),
}

impl HostDesk {
    /// Nobody: in a start whose clients of version 4 have these ids, so that none of them is a host's.
    pub(super) fn new(boot: BootId) -> Self {
        let (notices, swept, bell) = Default::default();
        let series = Series::drawn(boot.0).beside();
        Self { hosts: Mutex::new(Hosts::new(series.number())), notices, swept, bell }
    }

    fn ring(&self) {
        *self.bell.0.lock() = true;
        self.bell.1.notify_all();
    }
}

/// Who asks for what.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Asks<'a> {
    pub exports: &'a dyn Exports,
    pub address: IpAddr,
    pub asked: &'a Asked<'a>,
    /// It was not kept waiting before for what another client has.
    pub may_wait: bool,
}

impl<'a> Asks<'a> {
    fn caller(&self) -> Caller<'a> {
        Caller { address: self.address, name: self.asked.host, process: self.asked.process }
    }
}

/// What a host is told.
pub enum LockTold {
    /// This.
    Says(Verdict),
    /// This, once something is durable.
    SaysBehind(Verdict, Box<dyn Promise>),
    /// Nothing: it is to be looked again when this is over.
    Again(Box<dyn Promise>),
    /// Another one has this, and is a host of that name.
    Held(Lock, Option<Named>),
}

/// A call to a host.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Errand {
    pub to: IpAddr,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    /// By a datagram; else over a connection.
    pub is_datagram: bool,
    pub arguments: Bytes,
    of: ErrandOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrandOf {
    Waiter(u64),
    Notice,
}

impl House {
    /// What an owner who is no client of version 4 is called to those: its host's name and its number there, or this machine, whose programs have no numbers here.
    pub(super) fn named_without_lease(&self, holder: Holder) -> Option<Arc<[u8]>> {
        let hosts = self.hosts.hosts.lock();
        if !hosts.is_of_host(holder.client) {
            return Some(Arc::from(&b"the server itself"[..]));
        }
        let named = hosts.named(holder)?;
        Some([&named.host[..], b":", named.process.to_string().as_bytes()].concat().into())
    }

    /// TEST.
    pub(crate) fn host_tests(&self, asks: &Asks<'_>, target: &Target) -> LockTold {
        let Some(range) = asks.asked.range else { return LockTold::Says(Verdict::TooBig) };
        // What nobody has locked may be what somebody claims again.
        if self.is_in_grace(&*target.pool) {
            return LockTold::Says(Verdict::Grace);
        }
        let holder = self.hosts.hosts.lock().find(asks.address, asks.asked.process);
        let wanted = Lock { holder, range, kind: asks.asked.kind };
        match self.past_late(asks.exports, || target.vfs.test_range(target.object, wanted)) {
            Ok(()) => LockTold::Says(Verdict::Granted),
            Err(NotLocked::Held(held)) => LockTold::Held(held, self.hosts.hosts.lock().named(held.holder)),
            Err(NotLocked::Failed(error)) => self.host_kept_out(asks, target, error),
        }
    }

    /// LOCK.
    pub(crate) fn host_locks(&self, asks: &Asks<'_>, target: &Target, how: How) -> LockTold {
        let Some(range) = asks.asked.range else { return LockTold::Says(Verdict::TooBig) };
        let is_anew = self.hosts.hosts.lock().has_started_anew(asks.address, how.state);
        if is_anew {
            self.host_started_anew(asks.exports, asks.address, Some(how.state));
        }
        let begun = {
            let mut hosts = self.hosts.hosts.lock();
            let begun = hosts.begin(&asks.caller(), self.now());
            hosts.note_state(asks.address, how.state);
            begun
        };
        let Ok(holder) = begun else { return LockTold::Says(Verdict::NoLocks) };
        let file = FileId::of(&*target.vfs, target.object);
        let attempt = Attempt { house: self, target, holder, file, is_over: false };
        let wanted = Lock { holder, range, kind: asks.asked.kind };
        let told = self.lock_for_host(asks, target, wanted, how);
        match attempt.end() {
            true => told,
            // Its host has started anew meanwhile: of which start this is nobody knows.
            false => LockTold::Says(Verdict::Grace),
        }
    }

    fn lock_for_host(&self, asks: &Asks<'_>, target: &Target, wanted: Lock, how: How) -> LockTold {
        let (pool, presence) = (&*target.pool, self.presence_of_host(asks.address, wanted.holder.client));
        let had = held_of(&*target.vfs, target.object, wanted);
        let has = had.iter().any(|held| {
            held.kind == wanted.kind
                && held.range.first() <= wanted.range.first()
                && held.range.last() >= wanted.range.last()
        });
        let given = match how.is_reclaim {
            // A notice is of all pools, also of those in which it has what it had.
            true if has => None,
            true if self.reclaim(pool, &presence).is_err() => return LockTold::Says(Verdict::Grace),
            true => None,
            false => match self.grant(pool, &presence, None) {
                Ok(given) => Some(given),
                Err(Stop::Failed(Status::Grace)) if has => return LockTold::Says(Verdict::Granted),
                Err(stop) => return not_now(stop),
            },
        };
        let outcome = self.past_late(asks.exports, || target.vfs.lock_unopened(target.object, wanted));
        let is_held = match outcome {
            Ok(()) => false,
            Err(NotLocked::Held(_)) => true,
            Err(NotLocked::Failed(error)) => return self.host_kept_out(asks, target, error),
        };
        if is_held && (how.is_reclaim || !how.blocks) {
            return LockTold::Says(Verdict::Denied);
        }
        let promise = match given.map(|given| self.given(pool, &presence, given)) {
            None => None,
            Some(Ok(noted)) => noted.promise,
            Some(Err(stop)) => {
                if !is_held {
                    self.give_up(asks.exports, &FileId::of(&*target.vfs, target.object), wanted, &had);
                }
                return not_now(stop);
            }
        };
        let verdict = if is_held { self.blocks(asks, target, wanted) } else { self.has(target, wanted, &had) };
        promise.map_or(LockTold::Says(verdict), |promise| LockTold::SaysBehind(verdict, promise))
    }

    /// Somebody has a place from now on, if there is room; else he asks again by himself.
    fn blocks(&self, asks: &Asks<'_>, target: &Target, Lock { holder, range, kind }: Lock) -> Verdict {
        let file = FileId::of(&*target.vfs, target.object);
        let wait = Wait { holder, file, range, kind, handle: Bytes::copy_from_slice(asks.asked.file) };
        let _has_a_place = self.hosts.hosts.lock().waiting.join(wait, self.now());
        Verdict::Blocked
    }

    fn has(&self, target: &Target, wanted: Lock, had: &[Lock]) -> Verdict {
        let file = FileId::of(&*target.vfs, target.object);
        self.hosts.hosts.lock().waiting.has(wanted.holder, &file, wanted.range, wanted.kind);
        if wanted.kind == Kind::Read && !had.is_empty() {
            // Where it had it for writing others may read now: whoever looks twice a second tells them.
            self.hosts.ring();
        }
        Verdict::Granted
    }

    /// CANCEL: what it has got meanwhile it gives up.
    pub(crate) fn host_cancels(&self, asks: &Asks<'_>, (vfs, object): (&dyn Vfs, ObjectRef)) -> Verdict {
        let Some(range) = asks.asked.range else { return Verdict::Granted };
        let file = FileId::of(vfs, object);
        let called = {
            let mut hosts = self.hosts.hosts.lock();
            let holder = hosts.find(asks.address, asks.asked.process);
            hosts.waiting.leave(holder, &file, |wait| (wait.range, wait.kind) == (range, asks.asked.kind))
        };
        self.give_up_called(asks.exports, &called);
        Verdict::Granted
    }

    /// UNLOCK: what was never locked is not locked now.
    pub(crate) fn host_unlocks(&self, asks: &Asks<'_>, (vfs, object): (&dyn Vfs, ObjectRef)) -> Verdict {
        let Some(range) = asks.asked.range else { return Verdict::Granted };
        let file = FileId::of(vfs, object);
        let is_within = |wait: &Wait<FileId>| range.first() <= wait.range.first() && wait.range.last() <= range.last();
        let holder = {
            let mut hosts = self.hosts.hosts.lock();
            let holder = hosts.find(asks.address, asks.asked.process);
            // What is locked for him is unlocked with the rest.
            let _called = hosts.waiting.leave(holder, &file, is_within);
            holder
        };
        let unlocked = vfs.unlock_range(object, holder, range);
        let mut hosts = self.hosts.hosts.lock();
        hosts.note(holder, file, vfs.has_ranges(object, holder), self.now());
        drop(hosts);
        self.freed(asks.exports, &file, Some(range));
        // There is no room for two ranges in the place of one.
        if unlocked.is_ok() { Verdict::Granted } else { Verdict::NoLocks }
    }

    /// A host says that it has started anew, with that number if it names one, or has nothing any more: by its address alone. What it had is others' once the pools know that it may not claim
    /// it again (rules V24).
    pub(crate) fn host_started_anew(&self, exports: &dyn Exports, address: IpAddr, state: Option<u32>) {
        let address = address.to_canonical();
        let freed = {
            let mut hosts = self.hosts.hosts.lock();
            let is_known = hosts.number_of(address).is_some();
            let freed = hosts.free(address, state, self.now());
            // One that is not known may be in a list of a life before.
            if freed.is_some() || !is_known {
                self.tracking.doom(ClientKey::of_host(address));
            }
            freed
        };
        self.tracking.let_go_of_doomed();
        let Some(freed) = freed else { return };
        if !freed.held.is_empty() {
            tracing::info!(%address, files = freed.held.len(), "a host that locks by NFSv3 has started anew: what it had is free");
        }
        for (holder, file) in &freed.held {
            if let Some(below) = below(exports, file) {
                // Of all of it nothing is split.
                let _unlocked = below.unlock_range(file.object, *holder, ALL);
            }
        }
        freed.held.iter().for_each(|(_, file)| self.freed(exports, file, None));
    }

    /// Something of a file may be free: it is locked for those hosts that wait for it, in their order, and they are to be called.
    pub(super) fn lock_for_hosts(&self, exports: &dyn Exports, file: &FileId) {
        let queue = self.hosts.hosts.lock().waiting.queue(file);
        if queue.is_empty() {
            return;
        }
        let Some((vfs, pool)) = file_system(exports, file).zip(exports.pool(file.of.pool)) else {
            if is_over(exports, &file.of) {
                self.hosts.hosts.lock().waiting.forget_file(file);
            }
            return;
        };
        for calling in queue.into_iter().take(WAITERS_LOOKED_AT) {
            if self.lock_for_waiter(exports, (&*vfs, &*pool), &calling) {
                self.hosts.ring();
            }
        }
    }

    /// Whether it is his.
    fn lock_for_waiter(
        &self,
        exports: &dyn Exports,
        (vfs, pool): (&dyn Vfs, &dyn PoolExports),
        calling: &Calling<FileId>,
    ) -> bool {
        let (file, wanted) = (&calling.wait.file, calling.wait.lock());
        let Some(named) = self.hosts.hosts.lock().named(wanted.holder) else { return false };
        let presence = self.presence_of_host(named.address, wanted.holder.client);
        let Ok(given) = self.grant(pool, &presence, None) else { return false };
        let had = held_of(vfs, file.object, wanted);
        match vfs.lock_unopened(file.object, wanted) {
            Ok(()) => {}
            Err(NotLocked::Failed(FsError::Delegated(object))) => {
                let _recalled = self.kept_out(exports, (vfs, object), None, false);
                return false;
            }
            Err(_) => return false,
        }
        // Not before its record is durable (N1): then it is locked for him half a second later.
        let is_given = match self.given(pool, &presence, given) {
            Ok(noted) => noted.promise.is_none_or(|promise| {
                promise.then(Box::new(|_| ()));
                false
            }),
            Err(_) => false,
        };
        let mut hosts = self.hosts.hosts.lock();
        if is_given && hosts.waiting.promote(calling.number, had.clone(), self.now()) {
            hosts.note(wanted.holder, *file, true, self.now());
            return true;
        }
        drop(hosts);
        give_up_below(vfs, file.object, wanted, &had);
        false
    }

    /// Several times a second: who waits for what is free by now, and who is to be told of our start; once in a while, who has nothing any more.
    pub(crate) fn look_after_hosts(&self, exports: &dyn Exports) {
        let now = self.now();
        for pool in exports.pools() {
            let listed = self.tracking.hosts_to_notify(&*pool, now);
            if !listed.is_empty() {
                tracing::info!(
                    pool = pool.pool_name(),
                    hosts = listed.len(),
                    "hosts that had locked by NFSv3 are told that the server has started anew"
                );
            }
            listed.into_iter().for_each(|address| self.hosts.notices.lock().add(address, now));
        }
        let files = {
            let mut hosts = self.hosts.hosts.lock();
            hosts.waiting.forget_silent(now);
            hosts.waiting.files()
        };
        files.iter().for_each(|file| self.lock_for_hosts(exports, file));
        let mut swept = self.hosts.swept.lock();
        if *swept + SWEEP <= now {
            *swept = now;
            drop(swept);
            self.sweep(exports, now);
        }
    }

    /// Mounts may be over, and hosts have nothing any more.
    fn sweep(&self, exports: &dyn Exports, now: Duration) {
        let held = self.hosts.hosts.lock().held();
        for (holder, file, _) in held {
            let below = below(exports, &file);
            let mut hosts = self.hosts.hosts.lock();
            match below {
                Some(below) => hosts.note(holder, file, below.has_ranges(file.object, holder), now),
                None if is_over(exports, &file.of) => hosts.note(holder, file, false, now),
                None => {}
            }
        }
        let mut hosts = self.hosts.hosts.lock();
        let idle = hosts.end_idle(now);
        // Whoever begins to lock behind this is written down anew.
        idle.iter().for_each(|address| self.tracking.doom(ClientKey::of_host(*address)));
        drop(hosts);
        if !idle.is_empty() {
            self.tracking.let_go_of_doomed();
        }
    }

    /// The next call to a host that is to be made.
    pub(crate) fn next_errand(&self, name: &[u8], state: u32) -> Option<Errand> {
        let now = self.now();
        if let Some(to) = self.hosts.notices.lock().next(now) {
            let (program, version, procedure) = (nsm::PROGRAM, nsm::VERSION, nsm::NOTIFY);
            let arguments = notice(name, state);
            return Some(Errand {
                to,
                program,
                version,
                procedure,
                is_datagram: true,
                arguments,
                of: ErrandOf::Notice,
            });
        }
        let mut hosts = self.hosts.hosts.lock();
        let Calling { number, wait } = hosts.waiting.next_call(now)?;
        let Some(named) = hosts.named(wait.holder) else {
            // It is gone with all that it had.
            let _nothing = hosts.waiting.said(number, Said::Refuses, now);
            return None;
        };
        let cookie = number.to_be_bytes();
        let arguments = granted(&cookie, &named.host, &wait.handle, named.process(), (wait.range, wait.kind));
        let (program, version, procedure) = (nlm::PROGRAM, nlm::VERSION, procedure::GRANTED);
        let of = ErrandOf::Waiter(number);
        Some(Errand { to: named.address, program, version, procedure, is_datagram: false, arguments, of })
    }

    /// What came of it: its results, or nothing.
    pub(crate) fn errand_done(&self, exports: &dyn Exports, errand: &Errand, results: Option<&Bytes>) {
        let now = self.now();
        match errand.of {
            ErrandOf::Notice => self.hosts.notices.lock().said(errand.to, results.is_some(), now),
            ErrandOf::Waiter(number) => {
                let said = match results.and_then(is_taken) {
                    Some(true) => Said::Takes,
                    Some(false) => Said::Refuses,
                    None => Said::Nothing,
                };
                let called = self.hosts.hosts.lock().waiting.said(number, said, now);
                self.give_up_called(exports, called.as_slice());
            }
        }
    }

    /// Waits until there is an errand, for so long at most.
    pub(crate) fn wait_for_errand(&self, most: Duration) {
        let mut rung = self.hosts.bell.0.lock();
        if !*rung {
            self.hosts.bell.1.wait_for(&mut rung, most);
        }
        *rung = false;
    }

    /// What was locked for who does not take it.
    fn give_up_called(&self, exports: &dyn Exports, called: &[Called<FileId>]) {
        for Called { wait, had } in called {
            self.give_up(exports, &wait.file, wait.lock(), had);
        }
    }

    fn give_up(&self, exports: &dyn Exports, file: &FileId, given_up: Lock, had: &[Lock]) {
        let Some(vfs) = file_system(exports, file) else { return };
        give_up_below(&*vfs, file.object, given_up, had);
        let mut hosts = self.hosts.hosts.lock();
        hosts.note(given_up.holder, *file, vfs.has_ranges(file.object, given_up.holder), self.now());
        drop(hosts);
        self.freed(exports, file, Some(given_up.range));
    }

    /// What a client of version 4 was given to keep is asked for; else why there is no lock.
    fn host_kept_out(&self, asks: &Asks<'_>, target: &Target, error: FsError) -> LockTold {
        match error {
            FsError::Delegated(object) => {
                match self.kept_out(asks.exports, (&*target.vfs, object), None, asks.may_wait) {
                    KeptOut::Waits(promise) => LockTold::Again(promise),
                    KeptOut::ComesAgain => LockTold::Says(Verdict::Grace),
                }
            }
            FsError::TooManyClaims => LockTold::Says(Verdict::NoLocks),
            FsError::Stale => LockTold::Says(Verdict::Stale),
            FsError::Throttled => LockTold::Says(Verdict::Grace),
            _ => LockTold::Says(Verdict::Failed),
        }
    }

    /// A client of version 4 whose lease is over loses what it has, and the range is asked for anew (rules V20).
    fn past_late(&self, exports: &dyn Exports, ask: impl Fn() -> Result<(), NotLocked>) -> Result<(), NotLocked> {
        let makes_way = |outcome: &Result<(), NotLocked>| {
            let Err(NotLocked::Held(held)) = *outcome else { return Ok::<_, Infallible>(false) };
            Ok(self.end_late(exports, &[held.holder.client]))
        };
        let Ok(outcome) = way::past(ask, makes_way);
        outcome
    }

    fn presence_of_host(&self, address: IpAddr, client: ClientNumber) -> Presence {
        Presence::of_host(ClientId(client.0), ClientKey::of_host(address), self.lease(), self.now())
    }
}

/// A LOCK that is under way. However it ends, it is looked up what its owner has by then.
struct Attempt<'a> {
    house: &'a House,
    target: &'a Target,
    holder: Holder,
    file: FileId,
    is_over: bool,
}

impl Attempt<'_> {
    /// False: its host has lost all that it had meanwhile.
    fn end(mut self) -> bool {
        self.settle()
    }

    fn settle(&mut self) -> bool {
        self.is_over = true;
        let (vfs, object) = (&*self.target.vfs, self.target.object);
        let mut hosts = self.house.hosts.hosts.lock();
        let is_there = hosts.settle(self.holder, self.file, vfs.has_ranges(object, self.holder), self.house.now());
        drop(hosts);
        if !is_there {
            // Of all of it nothing is split.
            let _unlocked = vfs.unlock_range(object, self.holder, ALL);
        }
        is_there
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.settle();
        }
    }
}

/// What an owner has of a range.
fn held_of(vfs: &dyn Vfs, object: ObjectRef, wanted: Lock) -> Vec<Lock> {
    let mut held = vfs.ranges(object, wanted.holder, RANGES_LOOKED_AT);
    held.retain(|held| held.range.overlaps(wanted.range));
    held
}

/// An owner has a range no more, but for what he had of it: that is his without a moment between.
fn give_up_below(vfs: &dyn Vfs, object: ObjectRef, given_up: Lock, had: &[Lock]) {
    let mut had = had.to_vec();
    had.sort_unstable_by_key(|held| held.range.first());
    // His own ranges are in nobody's way but others', who have had none of it.
    for held in &had {
        let _locked = vfs.lock_unopened(object, *held);
    }
    let mut from = Some(given_up.range.first());
    let mut left = Vec::new();
    for held in &had {
        let before = from.zip(held.range.first().checked_sub(1));
        left.extend(before.and_then(|(from, last)| Range::between(from, last)));
        from = held.range.last().checked_add(1);
    }
    left.extend(from.and_then(|from| Range::between(from, given_up.range.last())));
    for range in left {
        // Where there is no room for what is left of a range, it stays until its owner unlocks more.
        let _unlocked = vfs.unlock_range(object, given_up.holder, range);
    }
}

/// Nothing new is given for now.
fn not_now(stop: Stop) -> LockTold {
    match stop {
        Stop::Halted(Halt::Waits(promise) | Halt::Parked(promise)) => LockTold::Again(promise),
        Stop::Halted(_) | Stop::Failed(_) => LockTold::Says(Verdict::Grace),
    }
}
