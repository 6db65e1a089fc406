//! Hosts that lock by NLM, as clients of version 3 do: what each of their calls does to files, to who waits, and to the lists of those who may claim something behind a restart. Who they are stands in
//! [`Hosts`]; their ranges are in the one table of claims, where those of version 4 are.
//!
//! ```text
//!  LOCK ─▶ grant: is it in the list of the pool, is there a grace? ─▶ the file system ─▶ given ─▶ GRANTED, once its record is durable (N1)
//!                                                                       ├ another one has it ─▶ DENIED, or a place and BLOCKED
//!                                                                       └ a client of version 4 keeps the file ─▶ recalled, and asked again (N7)
//!  what others free ─▶ lock_for_hosts ─▶ locked for who waits first ─▶ a call: GRANTED ─▶ he takes it, or it is given up     (giving)
//!  a pool comes, with hosts in its list ─▶ a number of its own ─▶ a call to each: SM_NOTIFY                                  (calls)
//! ```
//!
//! *What is claimed again* is told to come again only to save other locks (N8): Linux does that once, and what is refused then its process has lost without a word. So as long as it is not known whether it may be claimed, as its pool is
//! away or its list cannot be read, it is kept without an answer ([`LockTold::Later`]).
//!
//! *Order of locks.* One at a time for a file ([`Singly`]); then that of the hosts; then those of the lists of pools ([`Tracking::doom`](super::tracking::Tracking::doom)) and of the table of claims, which are leaves. The second is held
//! over nothing that waits for a disk.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tally_base::Promise;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{ClientNumber, FsError, Holder, ObjectRef, Series, Vfs};

use self::giving::{has_all, held_of};
use self::singly::Singly;
use super::below::{Below, below};
use super::compound::{Halt, Stop};
use super::house::House;
use super::parking::KeptOut;
use super::state::{BootId, ClientId, ClientKey, FileId, Presence};
use super::status::Status;
use super::way;
use crate::entry::Target;
use crate::exports::Exports;
use crate::link::Link;
use crate::nlm::Verdict;
use crate::nlm::hosts::{HostProcess, Hosts, Named};
use crate::nlm::notices::Notices;
use crate::nlm::overtaking::Overtaking;
use crate::nlm::waiting::HostWait;
use crate::nlm::wire::{Asked, How};
pub use calls::{Heard, HostCall};

mod calls;
mod giving;
mod seen;
mod singly;

/// All bytes.
const ALL: Range = Range::between(0, u64::MAX).expect("it begins before it ends");

/// From one complaint to the next.
const BETWEEN_COMPLAINTS: Duration = Duration::from_secs(60);

/// What of them the house has.
pub(super) struct HostDesk {
    hosts: Mutex<Hosts<FileId>>,
    /// How many wait, for who looks without a lock.
    waiting: Arc<AtomicUsize>,
    singly: Singly,
    given_up: Mutex<Overtaking<FileId>>,
    notices: Mutex<Notices>,
    swept: Mutex<Duration>,
    /// When it was said last that hosts cannot be told of our start.
    complained: Mutex<Option<Duration>>,
    /// How many calls were asked for.
    calls: AtomicUsize,
    /// Whether there is a call to be made that nobody has looked for.
    bell: (Mutex<bool>, Condvar),
}

impl HostDesk {
    /// Nobody: in a start whose clients of version 4 have these ids, so that none of them is a host's.
    pub(super) fn new(boot: BootId) -> Self {
        let hosts = Hosts::new(Series::drawn(boot.0).beside().number());
        let (singly, given_up, notices, swept, complained, calls, bell) = Default::default();
        Self {
            waiting: hosts.waiting.counter(),
            hosts: Mutex::new(hosts),
            singly,
            given_up,
            notices,
            swept,
            complained,
            calls,
            bell,
        }
    }

    /// What is tried several times a second in vain is said once, and again each minute.
    fn is_to_complain(&self, now: Duration) -> bool {
        let mut complained = self.complained.lock();
        let is_due = complained.is_none_or(|last| last + BETWEEN_COMPLAINTS <= now);
        if is_due {
            *complained = Some(now);
        }
        is_due
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
    pub link: &'a Link,
    pub asked: &'a Asked<'a>,
    /// How many such calls came before this one.
    pub came: u64,
    /// It was not kept waiting before for what another client has.
    pub may_wait: bool,
}

impl<'a> Asks<'a> {
    fn address(&self) -> IpAddr {
        self.link.peer().ip()
    }

    fn process(&self) -> HostProcess<'a> {
        HostProcess {
            address: self.address(),
            is_privileged: self.link.is_privileged(),
            name: self.asked.host,
            process: self.asked.process,
        }
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
    /// Nothing, as long as nobody knows whether it may claim that.
    Later,
    /// Another one has this, and is a host of that name.
    Held(Lock, Option<Named>),
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
        let holder = self.hosts.hosts.lock().find(&asks.process());
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
        let begun = {
            let mut hosts = self.hosts.hosts.lock();
            let begun = hosts.begin(&asks.process(), self.now());
            begun.inspect(|holder| hosts.note_state(*holder, how.state))
        };
        let Ok(holder) = begun else { return LockTold::Says(Verdict::NoLocks) };
        let file = FileId::of(&*target.vfs, target.object);
        let under_way = LockUnderWay { house: self, target, holder, file, is_over: false };
        let wanted = Lock { holder, range, kind: asks.asked.kind };
        let told = self.lock_for_host(asks, target, wanted, how);
        match under_way.end() {
            true => told,
            // Its host has started anew meanwhile: of which start this is nobody knows.
            false => LockTold::Says(Verdict::Grace),
        }
    }

    fn lock_for_host(&self, asks: &Asks<'_>, target: &Target, wanted: Lock, how: How) -> LockTold {
        let (pool, presence) = (&*target.pool, self.presence_of_host(asks.address(), wanted.holder.client));
        let file = FileId::of(&*target.vfs, target.object);
        let has = || has_all(&held_of(&*target.vfs, target.object, wanted), &wanted);
        let given = match how.is_reclaim {
            // A notice is of all pools, also of those in which it has what it had.
            true if has() => None,
            true => match self.host_may_reclaim(pool, &presence) {
                Some(true) => None,
                Some(false) => return LockTold::Says(Verdict::Grace),
                None => return LockTold::Later,
            },
            false => match self.grant(pool, &presence, None) {
                Ok(given) => Some(given),
                Err(Stop::Failed(Status::Grace)) if has() => return LockTold::Says(Verdict::Granted),
                Err(stop) => return not_now(stop),
            },
        };
        let (mut had, mut is_overtaken) = (Vec::new(), false);
        let outcome = self.past_late(asks.exports, || {
            let _alone = self.hosts.singly.begin(file);
            is_overtaken = {
                let given_up = self.hosts.given_up.lock();
                given_up.is_behind(asks.came, &asks.process(), &file, wanted.range)
                    || !how.is_reclaim && given_up.has_forgotten(asks.came, &asks.process())
            };
            if is_overtaken {
                return Ok(());
            }
            had = held_of(&*target.vfs, target.object, wanted);
            target.vfs.lock_unopened(target.object, wanted)?;
            self.hosts.hosts.lock().waiting.has(&wanted, &file);
            Ok(())
        });
        if is_overtaken {
            // Its process has given that up since, or may have: one that is there comes again.
            return LockTold::Says(Verdict::Grace);
        }
        let is_held = match outcome {
            Ok(()) => false,
            Err(NotLocked::Held(_)) => true,
            Err(NotLocked::Failed(error)) => {
                return match self.host_kept_out(asks, target, error) {
                    LockTold::Says(Verdict::Grace) if how.is_reclaim => LockTold::Later,
                    told => told,
                };
            }
        };
        if is_held && (how.is_reclaim || !how.blocks) {
            return LockTold::Says(Verdict::Denied);
        }
        let promise = match given.map(|given| self.given(pool, &presence, given)) {
            None => None,
            Some(Ok(noted)) => noted.promise,
            Some(Err(stop)) => {
                if !is_held {
                    self.give_up(asks.exports, &file, wanted, &had);
                }
                return not_now(stop);
            }
        };
        let verdict = if is_held { self.blocks(asks, file, wanted) } else { self.has_got(wanted, &had) };
        promise.map_or(LockTold::Says(verdict), |promise| LockTold::SaysBehind(verdict, promise))
    }

    /// Somebody has a place from now on, if there is room; else he asks again by himself.
    fn blocks(&self, asks: &Asks<'_>, file: FileId, Lock { holder, range, kind }: Lock) -> Verdict {
        let (handle, by) = (Bytes::copy_from_slice(asks.asked.file), asks.link.local_ip());
        let wait = HostWait { holder, file, range, kind, handle, by };
        let _has_a_place = self.hosts.hosts.lock().waiting.join(wait, self.now());
        Verdict::Blocked
    }

    fn has_got(&self, wanted: Lock, had: &[Lock]) -> Verdict {
        if wanted.kind == Kind::Read && !had.is_empty() {
            // Where it had it for writing others may read now: whoever looks several times a second tells them.
            self.hosts.ring();
        }
        Verdict::Granted
    }

    /// CANCEL: what it has got meanwhile it gives up.
    pub(crate) fn host_cancels(&self, asks: &Asks<'_>, (vfs, object): (&Arc<dyn Vfs>, ObjectRef)) -> Verdict {
        let Some(range) = asks.asked.range else { return Verdict::Granted };
        let (file, below) = (FileId::of(&**vfs, object), Below::Here(vfs.clone()));
        let called = {
            let _alone = self.hosts.singly.begin(file);
            self.hosts.given_up.lock().note(asks.came, &asks.process(), file, range);
            let called = {
                let mut hosts = self.hosts.hosts.lock();
                let holder = hosts.find(&asks.process());
                let called =
                    hosts.waiting.leave(holder, &file, |wait| (wait.range, wait.kind) == (range, asks.asked.kind));
                hosts.forget_left(self.now());
                called
            };
            called.iter().for_each(|called| self.take_back(&below, &file, called.wait.lock(), &called.had));
            called
        };
        called.iter().for_each(|called| self.freed(asks.exports, &file, Some(called.wait.range)));
        Verdict::Granted
    }

    /// UNLOCK: what was never locked is not locked now.
    pub(crate) fn host_unlocks(&self, asks: &Asks<'_>, (vfs, object): (&Arc<dyn Vfs>, ObjectRef)) -> Verdict {
        let Some(range) = asks.asked.range else { return Verdict::Granted };
        let file = FileId::of(&**vfs, object);
        let is_within =
            |wait: &HostWait<FileId>| range.first() <= wait.range.first() && wait.range.last() <= range.last();
        let unlocked = {
            let _alone = self.hosts.singly.begin(file);
            self.hosts.given_up.lock().note(asks.came, &asks.process(), file, range);
            let holder = {
                let mut hosts = self.hosts.hosts.lock();
                let holder = hosts.find(&asks.process());
                // What is locked for him is unlocked with the rest.
                let _called = hosts.waiting.leave(holder, &file, is_within);
                hosts.waiting.had(holder, &file, range);
                holder
            };
            let unlocked = vfs.unlock_range(object, holder, range);
            let mut hosts = self.hosts.hosts.lock();
            hosts.note(holder, file, vfs.has_ranges(object, holder), self.now());
            hosts.forget_left(self.now());
            unlocked
        };
        self.freed(asks.exports, &file, Some(range));
        // There is no room for two ranges in the place of one.
        if unlocked.is_ok() { Verdict::Granted } else { Verdict::NoLocks }
    }

    /// FREE_ALL: a host says that it has nothing any more. From another port than a superuser's that is nothing to what its kernel has.
    pub(crate) fn host_frees_all(&self, exports: &dyn Exports, link: &Link) {
        let address = link.peer().ip();
        if self.hosts.hosts.lock().speaks_for(address, link.is_privileged()) {
            self.host_started_anew(exports, address, None);
        }
    }

    /// A host says that it has started anew, with that number if it names one, or has nothing any more: by its address alone. What it had is others' once the pools know that it may not claim
    /// it again (rules V24); one that has locked something since stays in their lists, as one does that unlocks a part.
    pub(crate) fn host_started_anew(&self, exports: &dyn Exports, address: IpAddr, state: Option<u32>) {
        let address = address.to_canonical();
        let freed = {
            let mut hosts = self.hosts.hosts.lock();
            if state.is_some_and(|state| hosts.said_before(address, state)) {
                return;
            }
            let is_known = hosts.number_of(address).is_some();
            let freed = hosts.free(address, state, self.now());
            // One that is not known may be in a list of a life before.
            if freed.as_ref().is_some_and(|freed| freed.is_all) || !is_known {
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
            // Its pool is suspended, or has no room for a moment.
            FsError::Throttled | FsError::Unavailable => LockTold::Says(Verdict::Grace),
            _ => LockTold::Says(Verdict::Failed),
        }
    }

    /// A client of version 4 whose lease is over loses what it has, and the range is asked for anew (rules V20).
    fn past_late(&self, exports: &dyn Exports, ask: impl FnMut() -> Result<(), NotLocked>) -> Result<(), NotLocked> {
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
struct LockUnderWay<'a> {
    house: &'a House,
    target: &'a Target,
    holder: Holder,
    file: FileId,
    is_over: bool,
}

impl LockUnderWay<'_> {
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

impl Drop for LockUnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.settle();
        }
    }
}

/// Nothing new is given for now.
fn not_now(stop: Stop) -> LockTold {
    match stop {
        Stop::Halted(Halt::Waits(promise) | Halt::Parked(promise)) => LockTold::Again(promise),
        Stop::Halted(_) | Stop::Failed(_) => LockTold::Says(Verdict::Grace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is tried four times a second, where the file cannot be written for hours.
    #[test]
    fn what_goes_on_in_vain_is_said_once_a_minute() {
        let desk = HostDesk::new(BootId(7));
        let said: Vec<_> = (0..300).filter(|second| desk.is_to_complain(Duration::from_secs(*second))).collect();
        assert_eq!(said, [0, 60, 120, 180, 240]);
    }
}
