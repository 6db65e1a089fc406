//! Locks of version 3: the lock manager and the status monitor, as far as requests come to them. What each does stands with the clients of version 4 (`v4/hosts.rs`); here is asked which file that is, and whether who
//! asks may lock it.
//!
//! | the handle | LOCK, TEST | LOCK that claims again | UNLOCK, CANCEL |
//! |---|---|---|---|
//! | is of a file that the host sees | carried out | carried out | carried out |
//! | its pool or dataset is away, or comes | DENIED_GRACE_PERIOD: the host asks again | no answer, until it is there | as LOCK: it has it still |
//! | is of nothing any more | STALE_FH | STALE_FH | GRANTED: nobody has anything there |
//! | the host does not see it, or not from that port | FAILED, or AUTH_TOOWEAK | the same | carried out: it may give up what it has |
//!
//! Linux claims a lock again once: what is told to come again then is lost to its process, without a word. So such a LOCK is held in the house (N8), and where there is no room it is dropped: hosts send again what is not
//! answered. As long as one is not answered its host claims nothing else of us, in no pool: so other pools that it may claim something in wait for it meanwhile, and shortly before one of them does so no longer the claim is told to come again all the same, as of many locks one is lost then.
//!
//! Whoever may read a file or write it, or owns it, may lock it for reading. To keep others out of it one has to own it, or may write it, and over an export and a dataset that take changes: a lock has no end but its host's, and who only reads would keep out all others for ever with some of them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tally_vfs::locks::Kind;
use tally_vfs::{ObjectRef, Vfs, permission};

use super::job::{Job, Pending};
use super::{Service, Step};
use crate::entry::{Closed, Entry, Target};
use crate::nlm::wire::{Asked, How, Request, answer, held};
use crate::nlm::{self, Verdict, nsm, wire};
use crate::numbers::{ACCESS_MODIFY, ACCESS_READ, access_bits};
use crate::rpc::{AcceptError, Call, Refusal, Reply};
use crate::stats::count;
use crate::v3::About;
use crate::v4::{Asks, Heard, Holding, HostCall, House, LockTold};
use crate::xdr::Encoder;

/// Draws the number by which hosts know a start, durably: odd, and higher than all before.
pub type DrawsStart = Box<dyn Fn() -> io::Result<u32> + Send + Sync>;

/// What a server has that locks for version 3.
pub(super) struct Locks {
    draw: DrawsStart,
    /// What it calls itself to hosts.
    names: Vec<Vec<u8>>,
    /// Whether those that are told of a start would find it.
    can_be_found: AtomicBool,
}

/// What is done to a file that is there.
type GiveUp<'a> = &'a dyn Fn(&Asks<'_>, (&Arc<dyn Vfs>, ObjectRef)) -> Verdict;

impl Service {
    /// The same, which locks for version 3, too, if it speaks version 4. Hosts are told by each of these names that it has started anew, and by which number, for which one is drawn each time.
    #[must_use]
    pub fn locking_for_3(self, draw: DrawsStart, names: &[&str]) -> Self {
        let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let locks = self.house.is_some().then(|| Locks { draw, names, can_be_found: AtomicBool::new(true) });
        Self { locks, ..self }
    }

    /// The same, which tells no host of its start before it [can be found](Self::can_be_found): who is told asks this machine's portmapper where that is, and claims nothing more where it does not say.
    #[must_use]
    pub fn telling_when_found(self) -> Self {
        self.locks.iter().for_each(|locks| locks.can_be_found.store(false, Relaxed));
        self
    }

    /// It is registered with the portmapper, or will not be.
    pub fn can_be_found(&self) {
        self.locks.iter().for_each(|locks| locks.can_be_found.store(true, Relaxed));
    }

    /// Whether it does.
    #[must_use]
    pub fn locks_for_3(&self) -> bool {
        self.locks.is_some()
    }

    /// Several times a second, in a thread of its own: what hosts wait for, and are to be told.
    pub fn look_after_hosts(&self) {
        if let (Some(locks), Some(house)) = (&self.locks, &self.house) {
            let draw: &dyn Fn() -> io::Result<u32> = &*locks.draw;
            house.look_after_hosts(&*self.exports, locks.can_be_found.load(Relaxed).then_some(draw));
        }
    }

    /// The next call to a host that is to be made.
    pub fn next_host_call(&self) -> Option<HostCall> {
        let (locks, house) = self.locks.as_ref().zip(self.house.as_ref())?;
        house.next_host_call(&locks.names)
    }

    /// What was heard of one.
    pub fn host_call_done(&self, call: &HostCall, heard: &Heard) {
        if let (Some(locks), Some(house)) = (&self.locks, &self.house) {
            house.host_call_done(&*self.exports, call, heard, locks.names.len());
        }
    }

    /// Waits until there is one, for so long at most.
    pub fn wait_for_host_call(&self, most: Duration) {
        match &self.house {
            Some(house) => house.wait_for_host_call(most),
            None => std::thread::sleep(most),
        }
    }

    /// The server ends: what hosts claim again is kept no more, and not answered.
    pub fn end_holding(&self) {
        if let Some(house) = &self.house {
            house.end_holding();
        }
    }

    /// The answer to a datagram, of which only the status monitor takes any.
    #[must_use]
    pub fn answer_datagram(&self, record: Bytes, peer: std::net::IpAddr) -> Option<Reply> {
        let call = match Call::parse(record) {
            Ok(call) => call,
            Err(Refusal::Answer(reply)) => return Some(*reply),
            Err(Refusal::NotACall) => return None,
        };
        let told = match (call.program, call.version) {
            (nsm::PROGRAM, nsm::VERSION) => self.monitor(&call, peer),
            (nsm::PROGRAM, _) => Err(AcceptError::ProgramMismatch { low: nsm::VERSION, high: nsm::VERSION }),
            _ => Err(AcceptError::ProgramUnavailable),
        };
        Some(match told {
            Ok(results) => Reply::success(call.xid, results),
            Err(error) => Reply::accept_error(call.xid, error),
        })
    }

    /// What a host says of itself, by the address that it says it from: its name is anybody's to say. To programs of this machine that would know whether its own status monitor runs there is none (N5).
    fn monitor(&self, call: &Call, peer: std::net::IpAddr) -> Result<Encoder, AcceptError> {
        let (Some(_), Some(house)) = (&self.locks, &self.house) else { return Err(AcceptError::ProgramUnavailable) };
        if peer.to_canonical().is_loopback() && call.procedure != nsm::NOTIFY {
            return Err(AcceptError::ProgramUnavailable);
        }
        if let Some(state) = nsm::decode(call.procedure, &mut call.arguments())? {
            house.host_started_anew(&*self.exports, peer, Some(state));
        }
        Ok(Encoder::new())
    }

    /// The same over a connection.
    pub(super) fn monitored(&self, job: &Job) -> Step {
        let told = self.monitor(&job.call, job.link.peer().ip());
        self.replied(job, told)
    }

    fn replied(&self, job: &Job, told: Result<Encoder, AcceptError>) -> Step {
        Step::Reply(match told {
            Ok(results) => Reply::success(job.call.xid, results),
            Err(error) => {
                count(&self.stats.refused);
                Reply::accept_error(job.call.xid, error)
            }
        })
    }

    /// A call of the lock manager.
    pub(super) fn lock_for_3(&self, job: &mut Job, house: &House) -> Step {
        // Cheap to share: the words are the record's.
        let call = job.call.clone();
        let request = match Request::decode(call.procedure, &mut call.arguments()) {
            Ok(request) => request,
            Err(error) => return self.replied(job, Err(error)),
        };
        match request {
            Request::Nothing => self.replied(job, Ok(Encoder::new())),
            Request::Refused(cookie, verdict, is_share) => self.replied(job, Ok(answer(cookie, verdict, is_share))),
            Request::FreeAll { .. } => {
                house.host_frees_all(&*self.exports, &job.link);
                self.replied(job, Ok(Encoder::new()))
            }
            Request::Test(asked) => self.on_file(job, house, &asked, None),
            Request::Lock(asked, how) => self.on_file(job, house, &asked, Some(how)),
            Request::Cancel(asked) => self.give_up(job, &asked, &|asks, below| house.host_cancels(asks, below)),
            Request::Unlock(asked) => self.give_up(job, &asked, &|asks, below| house.host_unlocks(asks, below)),
        }
    }

    /// TEST, or LOCK.
    fn on_file(&self, job: &mut Job, house: &House, asked: &Asked<'_>, how: Option<How>) -> Step {
        let link = job.link.clone();
        let call = job.call.clone();
        let entry = Entry::new(&*self.exports, &link, &call.identity);
        let target = entry.target(asked.file);
        job.about = About { dataset: entry.dataset().or(job.about.dataset), ..About::default() };
        if let Some(dataset) = entry.too_weak() {
            return Step::Reply(self.too_weak(job, dataset));
        }
        let target = match target {
            Ok(target) => match may_lock(&target, asked.kind) {
                Ok(()) => target,
                Err(verdict) => return self.says(job, asked, verdict),
            },
            Err(Closed::BadHandle | Closed::Out | Closed::TooWeak) => {
                return self.says(job, asked, Verdict::Failed);
            }
            Err(Closed::Stale) => return self.says(job, asked, Verdict::Stale),
            Err(Closed::Away) if how.is_some_and(|how| how.is_reclaim) => return self.hold(job, house, asked),
            Err(Closed::Away) => return self.says(job, asked, Verdict::Grace),
        };
        house.note_v3_use((target.vfs.pool(), target.vfs.dataset()));
        let asks = Asks { exports: &*self.exports, link: &link, asked, came: job.came, may_wait: !job.was_kept_out };
        let told = match how {
            None => house.host_tests(&asks, &target),
            Some(how) => house.host_locks(&asks, &target, how),
        };
        match told {
            LockTold::Says(verdict) => self.says(job, asked, verdict),
            LockTold::SaysBehind(verdict, promise) => {
                let reply = Reply::success(job.call.xid, answer(asked.cookie, verdict, false));
                job.pending = Some(Pending::Whole(reply));
                Step::Wait(promise)
            }
            LockTold::Again(promise) => {
                job.was_kept_out = true;
                Step::Again(promise)
            }
            LockTold::Later => self.hold(job, house, asked),
            LockTold::Held(lock, named) => {
                // Of a client of version 4 a process has no number.
                let nobody = wire::Process { handle: b"", number: 0 };
                let by = named.as_ref().map_or(nobody, |named| named.process());
                self.replied(job, Ok(held(asked.cookie, (lock.range, lock.kind), by)))
            }
        }
    }

    /// UNLOCK, or CANCEL: what somebody has he may give up, whether or not he still sees it.
    fn give_up(&self, job: &Job, asked: &Asked<'_>, act: GiveUp<'_>) -> Step {
        let entry = Entry::new(&*self.exports, &job.link, &job.call.identity);
        let Some((vfs, object)) = entry.unseen(asked.file) else {
            let is_away = entry.target(asked.file).err() == Some(Closed::Away);
            return self.says(job, asked, if is_away { Verdict::Grace } else { Verdict::Granted });
        };
        let asks = Asks { exports: &*self.exports, link: &job.link, asked, came: job.came, may_wait: false };
        self.says(job, asked, act(&asks, (&vfs, object)))
    }

    /// Keeps what a host claims again until more is known; or drops it, where it would not be heard any more, or there is no room.
    fn hold(&self, job: &mut Job, house: &House, asked: &Asked<'_>) -> Step {
        let is_there = job.link.is_alive();
        match is_there.then(|| house.hold_for_host(job.link.peer().ip())) {
            Some(Holding::Held(held)) => Step::Again(held),
            Some(Holding::TooLong) => self.says(job, asked, Verdict::Grace),
            None | Some(Holding::NoRoom) => {
                job.owed = false;
                Step::Attached
            }
        }
    }

    fn says(&self, job: &Job, asked: &Asked<'_>, verdict: Verdict) -> Step {
        self.replied(job, Ok(answer(asked.cookie, verdict, false)))
    }

    /// A server that has no locks says so.
    pub(super) fn refuse_lock(&self, job: &Job) -> Step {
        let call = &job.call;
        let told = nlm::refuse(call.procedure, &mut call.arguments());
        if call.procedure != 0 && !self.locks_refused.swap(true, Relaxed) {
            tracing::warn!(
                peer = %job.link.peer(),
                "a client asked for a lock, and this server has none for NFSv3: programs there get \"No locks available\". Set `nlm = true` in the \
                 configuration, mount with version 4, or with nolock for locks between the programs of one client; this is said once"
            );
        }
        self.replied(job, told)
    }
}

/// Whether who asks may lock a file so.
fn may_lock(target: &Target, kind: Kind) -> Result<(), Verdict> {
    if kind == Kind::Write && (target.rule.read_only || target.vfs.is_read_only()) {
        return Err(Verdict::ReadOnly);
    }
    let Ok(attr) = target.vfs.getattr(target.object) else { return Ok(()) };
    let needed = if kind == Kind::Read { ACCESS_READ | ACCESS_MODIFY } else { ACCESS_MODIFY };
    let may = permission::owns(&attr, &target.cred) || access_bits(&attr, &target.cred) & needed != 0;
    if may { Ok(()) } else { Err(Verdict::Failed) }
}
