//! One request, without its socket: which program it is for, whether it was answered before, running it, and
//! what then has to happen until its reply may leave.
//!
//! Whether it was answered before is asked in the middle of running it (see [`crate::repeats`]): behind rule, port and
//! handles, so that a stranger's requests neither take anything out of the reply cache nor put anything into it, and
//! before the operation.
//!
//! ```text
//!  record ──open──▶ Job ──run──▶ Step::Reply ───────────────────────────────▶ finish ──▶ reply
//!                    ▲           Step::Wait ── kept ── reply_after_wait ─────▶ finish ──▶ reply
//!                    └────────── Step::Again (admission refused, or a COMMIT goes on; after a wait)
//!                                Step::Attached: the first transmission's answer will do
//! ```
//!
//! **In doubt.** The pool is suspended while a job waits for its promise: nobody knows whether the change is on disk. Where
//! clients are to wait the job is kept unanswered ([`Service::stays_in_doubt`]), its repetitions are attached to it, and it is
//! run again when the pool serves. If its record had reached the log, the pool remembers the answer and gives that one; else it
//! is carried out as for the first time. It asks for its own sender's record alone ([`crate::senders`]): equal requests of
//! another connection may have been carried out before it and undone since (rules F12). JUKEBOX would say that nothing was done, and an error ends what only has to wait. A compound in a session is told SERVERFAULT in its slot: nothing tells yet what of it was carried out.
//!
//! A job can also go without any of this: its connection ended while it waited for something, whoever was to keep its
//! promise is gone, a bug unwound its worker. Then it is *abandoned*, so that the reply cache does not take it for
//! running ever after, and who was attached to it is answered.

mod compounds;
mod job;
mod lives;
mod locking;
mod others;
mod strangers;
mod this_machine;

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tally_base::{DatasetId, Fate, PoolGuid, Promise, Rng, SystemRng, Wait};
use tally_vfs::ReplyKey;

use crate::exports::{Exports, Place};
use crate::link::Link;
use crate::mount::{self, MountTable};
use crate::nlm::{self, nsm};
use crate::repeats::{Memo, Repeated, Told};
use crate::replies::{Begin, Kept, Replies};
use crate::rpc::{AcceptError, AuthProblem, Call, Outgoing, Refusal, Reply, Returned};
use crate::senders::Senders;
use crate::stats::{Stats, count};
use crate::v3::{self, About, Answer, Done, Procedure, Request, Status};
use crate::v4::holdings::Holdings;
use crate::v4::naming::NameService;
use crate::v4::{self, Ended, KeptOut, state::CallId};
use crate::xdr::Garbage;
pub use job::Job;
use job::{Memory, Pending};
use lives::Lives;
pub use locking::DrawsStart;
use locking::Locks;
use strangers::Strangers;

/// What has to happen next with a job.
pub enum Step {
    /// Send this at once: nothing that it rests on has to become durable.
    Reply(Reply),
    /// Wait for this promise, then [`Service::reply_after_wait`] and send.
    Wait(Box<dyn Promise>),
    /// Wait for this promise, then run the job again.
    Again(Box<dyn Promise>),
    /// Nothing: its first transmission is being worked on. Or nobody is to be answered, who sends it again.
    Attached,
}

/// Everything a request needs that outlives it.
pub struct Service {
    exports: Arc<dyn Exports>,
    mounts: MountTable,
    replies: Replies,
    stats: Arc<Stats>,
    start: Instant,
    /// Whether it was told already that there are no locks.
    locks_refused: AtomicBool,
    /// What a server has that locks for version 3.
    locks: Option<Locks>,
    /// How many calls of lock managers came.
    lock_calls: AtomicU64,
    strangers: Strangers,
    lives: Lives,
    senders: Senders,
    /// What compounds share, where version 4 is spoken.
    house: Option<v4::House>,
}

impl Service {
    /// A service for these exports.
    #[must_use]
    pub fn new(exports: Arc<dyn Exports>) -> Self {
        Self::numbering_from(exports, SystemRng.next_u64())
    }

    /// The same, whose connections are numbered from here on. Pools keep these numbers, so those of two lives should be apart.
    #[must_use]
    pub fn numbering_from(exports: Arc<dyn Exports>, first: u64) -> Self {
        Self::counting_in(Arc::default(), exports, first)
    }

    fn counting_in(stats: Arc<Stats>, exports: Arc<dyn Exports>, first: u64) -> Self {
        Self {
            exports,
            mounts: MountTable::default(),
            replies: Replies::default(),
            stats,
            start: Instant::now(),
            locks_refused: AtomicBool::new(false),
            locks: None,
            lock_calls: AtomicU64::new(0),
            strangers: Strangers::default(),
            lives: Lives::default(),
            senders: Senders::numbered_from(first),
            house: None,
        }
    }

    /// A service of the same exports that knows nobody, as one does behind a restart, and goes on counting where this one does: its statistics take
    /// half a megabyte, and a test may have many lives.
    #[must_use]
    pub fn restarted(&self, first: u64) -> Self {
        let anew = Self::counting_in(self.stats.clone(), self.exports.clone(), first);
        if self.speaks_4() { anew.speaking_4() } else { anew }
    }

    /// The same, which speaks version 4, too ([`v4`]).
    #[must_use]
    pub fn speaking_4(self) -> Self {
        self.speaking_4_for(v4::state::LEASE_DEFAULT)
    }

    /// The same, whose clients may say nothing for so long: [`v4::state::LEASE_MIN`] to [`v4::state::LEASE_MAX`].
    #[must_use]
    pub fn speaking_4_for(self, lease: Duration) -> Self {
        Self { house: Some(v4::House::new(lease)), ..self }
    }

    /// The same, of a server that clients know again behind a restart: the one of this machine that has its state in this place.
    #[must_use]
    pub fn known_as(self, host: u64, place: &[u8]) -> Self {
        Self { house: self.house.map(|house| house.known_as(host, place)), ..self }
    }

    /// The same, which calls owners by names of this domain as well (RFC 8881 §5.9), as this service knows the users and groups of this machine.
    ///
    /// # Errors
    ///
    /// A thread that asks it cannot be started.
    pub fn naming_owners(self, domain: &str, names: &Arc<dyn NameService>) -> io::Result<Self> {
        let house = self.house.map(|house| house.naming_owners(domain, names)).transpose()?;
        Ok(Self { house, ..self })
    }

    /// Once in a while: ends clients of which nobody has heard for as long as courtesy goes.
    pub fn look_after_clients(&self) {
        if let Some(house) = &self.house {
            house.end_forgotten(&*self.exports);
        }
    }

    /// Whether it speaks version 4.
    #[must_use]
    pub fn speaks_4(&self) -> bool {
        self.house.is_some()
    }

    /// Who holds what, where version 4 is spoken.
    #[must_use]
    pub fn holdings(&self) -> Option<Holdings<'_>> {
        self.house.as_ref().map(|house| Holdings { house, exports: &*self.exports })
    }

    /// Whether somebody may still claim again what he had open in this pool before a restart. Of one that is away nobody knows: it may be in the middle of an export; nor of one whose list somebody is reading,
    /// for whom nobody waits.
    #[must_use]
    pub fn is_in_grace(&self, pool: PoolGuid) -> bool {
        let Some(house) = &self.house else { return false };
        self.exports.pool(pool).is_none_or(|pool| house.may_be_in_grace(&*pool))
    }

    /// What it counts.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// A pool goes back to what it was, or gives something up: answers to that are not given again.
    pub fn forget_replies(&self, pool: PoolGuid) {
        self.replies.forget(pool);
    }

    /// A pool that was suspended is taken up as after a crash: what of it was answered from memory alone is not told again.
    pub fn forget_unwaited_replies(&self, pool: PoolGuid) {
        self.lives.begin(pool, true);
        self.replies.forget_unwaited(pool);
    }

    /// A pool is about to be taken in that need not be as it was when it was suspended here: what is in doubt there is not run
    /// again. Its clients may be long gone, and others may have built on what came since.
    pub fn leave_doubts(&self, pool: PoolGuid) {
        self.lives.begin(pool, false);
    }

    /// Whether a job that is in doubt is not to be run again, nor answered.
    #[must_use]
    pub fn is_left(&self, job: &Job) -> bool {
        let Some((pool, _)) = job.about.dataset else { return false };
        job.in_doubt.is_some_and(|since| self.lives.is_other_since(pool, since))
    }

    /// Whether the pool of a job was taken up anew since it began to run.
    fn is_outlived(&self, job: &Job) -> bool {
        job.about.dataset.is_some_and(|(pool, _)| self.lives.has_begun_since(pool, job.began_in))
    }

    /// A connection is closed. Said once more by whatever was under way on it then.
    pub fn disconnected(&self, link: &Link) {
        if let Some(house) = &self.house {
            house.disconnected(link.id());
        }
    }

    /// Whether clients have leases here, for which somebody has to look at a clock ([`Self::look_at_clock`]) several times in two seconds.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        self.house.is_some()
    }

    /// It is `at` by a clock that does not go back, and requests are carried out.
    pub fn look_at_clock(&self, at: Duration) {
        if let Some(house) = &self.house {
            house.look_at_clock(at);
        }
    }

    /// The next call that is to be made to a client, and over which connection: whoever has looked at something else asks for it.
    pub fn next_call(&self) -> Option<(u64, CallId, Outgoing)> {
        self.house.as_ref()?.next_call()
    }

    /// Such a call was answered.
    pub fn call_returned(&self, id: &CallId, returned: &Returned) {
        if let Some(house) = &self.house {
            house.call_returned(&*self.exports, id, returned);
        }
    }

    /// The connection of such a call is closed, or did not take it.
    pub fn call_lost(&self, id: &CallId, is_sent: bool) {
        if let Some(house) = &self.house {
            house.call_lost(id, is_sent);
        }
    }

    /// Whether clients wait for something, or are waited for, so that [`Self::look_after_waiters`] is to be asked for several times in two seconds.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.house.as_ref().is_some_and(v4::House::has_waiters)
    }

    /// Ends waits that are over, and tells who waits for what is free by now.
    pub fn look_after_waiters(&self) {
        if let Some(house) = &self.house {
            house.look_after_waiters(&*self.exports);
        }
    }

    /// Its mounts.
    #[must_use]
    pub fn mounts(&self) -> &MountTable {
        &self.mounts
    }

    /// Reads a record's header. `read_at` is when its last byte was read.
    pub fn open(&self, record: Bytes, link: &Arc<Link>, read_at: Instant) -> Result<Job, Refusal> {
        let call = Call::parse(record).inspect_err(|_| count(&self.stats.refused))?;
        let is_of_locks = call.program == nlm::PROGRAM;
        let mut job = Job::new(call, link.clone(), read_at, self.senders.number(link));
        if is_of_locks {
            job.came = self.lock_calls.fetch_add(1, Relaxed);
        }
        Ok(job)
    }

    /// Carries a job out. A panic in an operation costs that request alone.
    pub fn run(&self, job: &mut Job) -> Step {
        job.times.started = Instant::now();
        job.began_in = self.lives.newest();
        let step = catch_unwind(AssertUnwindSafe(|| self.dispatch(job))).unwrap_or_else(|_| {
            self.note_panic(job);
            Step::Reply(self.fault(job))
        });
        job.times.executed = Instant::now();
        job.times.wait_ended = job.times.executed;
        step
    }

    /// The wait of a job is over: this is its reply.
    pub fn reply_after_wait(&self, job: &mut Job, outcome: Fate) -> Reply {
        let pending = job.pending.take();
        let procedure = job.procedure;
        match (outcome, pending, procedure) {
            (Ok(_), Some(Pending::Whole(reply)), _) => reply,
            (Ok(_), Some(Pending::Compound(ended)), _) => {
                self.count_waits(job, &ended);
                Reply::success(job.call.xid, ended.kept())
            }
            (Err(broken), Some(Pending::Compound(ended)), _) => {
                self.count_waits(job, &ended);
                ended.broken_by().into_iter().for_each(|operation| count(&self.stats.operation(operation).errors));
                tracing::error!(procedure = "COMPOUND", %broken, "a reply was cut where an I/O error was");
                job.forget();
                job.told = Some(Told::Failed);
                Reply::success(job.call.xid, ended.broken())
            }
            (Err(broken), _, Some(procedure)) => {
                tracing::error!(procedure = procedure.name(), %broken, "a reply was replaced by an I/O error");
                job.forget();
                self.failure(job, procedure, Status::Io)
            }
            _ => Reply::accept_error(job.call.xid, AcceptError::SystemError),
        }
    }

    /// The operations of a compound have waited, kept or broken.
    fn count_waits(&self, job: &Job, ended: &Ended) {
        let waited = job.times.wait_ended.saturating_duration_since(job.times.executed);
        ended.waits().for_each(|operation| self.stats.operation(operation).wait.record(waited));
    }

    /// Whether a job that was carried out must not be answered yet: what it waited for, if anything, came to `outcome`, its pool
    /// is suspended or away, and its clients wait for that; or it was, and serves again by now. Then [`Self::may_go_on`] tells
    /// when it is to be run again.
    pub fn stays_in_doubt(&self, job: &mut Job, outcome: Option<&Fate>) -> bool {
        let stays = match outcome {
            Some(Ok(_)) => false,
            Some(Err(_)) => self.is_outlived(job) || !self.may_go_on(job),
            // Run again, and refused for now.
            None => job.in_doubt.is_some() && job.is_told_to_come_again(),
        };
        if stays {
            // Where it was refused for now nothing has changed.
            job.in_doubt = if outcome.is_some() { Some(job.began_in) } else { job.in_doubt };
            job.forget();
        }
        stays
    }

    /// Whether the pool of a job does not keep its clients waiting.
    #[must_use]
    pub fn may_go_on(&self, job: &Job) -> bool {
        let Some((pool, dataset)) = job.about.dataset else { return true };
        match self.exports.pool(pool).map_or(Place::Unknown, |pool| pool.place(dataset)) {
            Place::Here(vfs) => !vfs.is_waited_for(),
            Place::Away | Place::Going => false,
            Place::Unknown => true,
        }
    }

    /// The connection of a job in doubt is gone: gives one on which it was sent again, and whose it is from now on.
    pub fn hand_over(&self, job: &mut Job) -> Option<Arc<Link>> {
        let Memory::Begun(key) = job.memory.get() else { return None };
        let heir = self.replies.hand_over(&key)?;
        self.senders.hand_over(job.number, &heir);
        job.link = heir.clone();
        Some(heir)
    }

    /// A job that is in doubt when the server ends: nobody is answered. Its client asks again, and the next life of the pool
    /// knows what became of it.
    pub fn leave(&self, job: &mut Job) {
        job.forget();
        let reply = self.refusal(job, Told::ComeAgain);
        drop(self.finish(job, &reply));
    }

    /// The reply of a job is on its way: remembers it, and names the connections that wait for it besides.
    pub fn finish(&self, job: &mut Job, reply: &Reply) -> Vec<Arc<Link>> {
        job.owed = false;
        match job.memory.replace(Memory::None) {
            Memory::Begun(key) => {
                let keep = job.keep && !matches!(job.told, None | Some(Told::ComeAgain | Told::Fault));
                let about = job.about.dataset.filter(|_| keep);
                let about = about.map(|(pool, _)| Kept { pool, has_waited: job.has_waited });
                let is_good = |about: &Kept| about.has_waited || !self.is_outlived(job);
                self.replies.finish(&key, reply, || about.filter(is_good), self.now())
            }
            Memory::None | Memory::Apart(_) => Vec::new(),
        }
    }

    /// A job is dropped. If nobody was answered for it, gives what everybody is told instead, and the connections that
    /// wait for it beside its own; its next repetition is carried out.
    ///
    /// JUKEBOX, "nothing was done, come again", is true only of a job that was not carried out. Of one that waited for
    /// its change to become durable nobody knows.
    pub fn abandon(&self, job: &mut Job) -> Option<(Reply, Vec<Arc<Link>>)> {
        if !job.owed {
            return None;
        }
        let told = if job.told.is_some() { Told::Failed } else { Told::ComeAgain };
        let given_up = compounds::given_up(job);
        job.forget();
        let reply = match given_up {
            Some(words) => Reply::success(job.call.xid, words),
            None => self.refusal(job, told),
        };
        let attached = self.finish(job, &reply);
        Some((reply, attached))
    }

    /// The socket has the reply of a job: counts it.
    pub fn sent(&self, job: &Job, sent: Instant) {
        if let Some((payer, paid)) = job.bill(sent) {
            self.stats.enter((job.link.id(), job.link.newest()), payer, &paid, job.times);
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn dispatch(&self, job: &mut Job) -> Step {
        let xid = job.call.xid;
        let error = |error| Step::Reply(Reply::accept_error(xid, error));
        let mismatch = |version| error(AcceptError::ProgramMismatch { low: version, high: version });
        let step = match (job.call.program, job.call.version) {
            (v3::PROGRAM, v3::VERSION) => return self.nfs(job),
            (v3::PROGRAM, v4::VERSION) if let Some(house) = &self.house => return self.compound(job, house),
            (mount::PROGRAM, mount::VERSION) => return self.mount(job),
            (nlm::PROGRAM, nlm::VERSION) => return self.lock(job),
            (nsm::PROGRAM, nsm::VERSION) if self.locks.is_some() => return self.monitored(job),
            (v3::PROGRAM, _) if self.house.is_some() => {
                error(AcceptError::ProgramMismatch { low: v3::VERSION, high: v4::VERSION })
            }
            (v3::PROGRAM, _) => mismatch(v3::VERSION),
            (mount::PROGRAM, _) => mismatch(mount::VERSION),
            (nlm::PROGRAM, _) => mismatch(nlm::VERSION),
            (nsm::PROGRAM, _) if self.locks.is_some() => mismatch(nsm::VERSION),
            _ => error(AcceptError::ProgramUnavailable),
        };
        count(&self.stats.refused);
        step
    }

    fn mount(&self, job: &Job) -> Step {
        let call = &job.call;
        let words = &mut call.arguments();
        let done = mount::run(call.procedure, words, (&call.identity, &job.link), &*self.exports, &self.mounts);
        count(&self.stats.mount.calls);
        Step::Reply(match done {
            Ok(body) => Reply::success(call.xid, body),
            Err(mount::Refused::Error(error)) => {
                count(&self.stats.mount.errors);
                Reply::accept_error(call.xid, error)
            }
            Err(mount::Refused::TooWeak(pool, dataset)) => {
                count(&self.stats.mount.errors);
                self.too_weak(job, (pool, dataset))
            }
        })
    }

    fn lock(&self, job: &mut Job) -> Step {
        match &self.house {
            Some(house) if self.locks.is_some() => self.lock_for_3(job, house),
            _ => self.refuse_lock(job),
        }
    }

    fn nfs(&self, job: &mut Job) -> Step {
        let xid = job.call.xid;
        let Some(procedure) = Procedure::from_number(job.call.procedure) else {
            count(&self.stats.refused);
            return Step::Reply(Reply::accept_error(xid, AcceptError::ProcedureUnavailable));
        };
        job.procedure = Some(procedure);
        self.execute(job, procedure)
    }

    fn execute(&self, job: &mut Job, procedure: Procedure) -> Step {
        let has_passed = Cell::new(false);
        let begin = |user| {
            has_passed.set(true);
            self.begin(job, procedure.outlives_crashes(), user)
        };
        let request = Request::new(&job.call, (&job.link, &self.senders), &*self.exports, &begin);
        if let Some(kept_out) = self.keeps_waiting(procedure, &request, !job.was_kept_out) {
            (job.was_kept_out, job.keep) = (true, has_passed.get());
            return match kept_out {
                KeptOut::Waits(promise) => Step::Again(promise),
                KeptOut::ComesAgain => Step::Reply(self.failure(job, procedure, Status::JukeBox)),
            };
        }
        let done = v3::run(procedure, &request);
        let (about, too_weak) = (request.about(), request.too_weak());
        // Of one that is run again while its pool is away it is known already.
        job.about = About { dataset: about.dataset.or(job.about.dataset), ..about };
        if let (Some(house), Some(dataset)) = (&self.house, about.dataset) {
            house.note_v3_use(dataset);
        }
        if let Some(dataset) = too_weak {
            job.procedure = None;
            return Step::Reply(self.too_weak(job, dataset));
        }
        // What rule, port or handle refuse is not remembered: they may change before the request comes again.
        job.keep = has_passed.get();
        match done {
            Err(Garbage) => {
                count(&self.stats.refused);
                Step::Reply(Reply::accept_error(job.call.xid, AcceptError::GarbageArguments))
            }
            Ok(Done::Again(Wait::On(promise))) => {
                // A COMMIT is never refused: a part of a long one is on its way to the log.
                if procedure != Procedure::Commit {
                    count(&self.stats.throttled);
                }
                Step::Again(promise)
            }
            // Admission is refused and nobody says until when: the client asks again.
            Ok(Done::Again(Wait::Ready)) => Step::Reply(self.failure(job, procedure, Status::JukeBox)),
            Ok(Done::Repeated(repeated)) => self.repeat(job, repeated),
            Ok(Done::KeptOut(object)) => self.kept_out(job, procedure, object),
            Ok(Done::Asks(object, fsid)) => self.look(job, (object, fsid)),
            Ok(Done::Answer(Answer { status, body, wait })) => {
                job.told = Some(status.into());
                let reply = Reply::success(job.call.xid, body);
                job.has_waited = matches!(wait, Wait::On(_));
                match wait {
                    Wait::Ready => Step::Reply(reply),
                    Wait::On(promise) => {
                        job.pending = Some(Pending::Whole(reply));
                        Step::Wait(promise)
                    }
                }
            }
        }
    }

    /// Whether requests are parked, so that [`Self::end_parking`] is to be asked for as often as [`v4::PARKED`].
    #[must_use]
    pub fn has_parked(&self) -> bool {
        self.house.as_ref().is_some_and(v4::House::has_parked)
    }

    /// Those that have been parked for long enough go on.
    pub fn end_parking(&self) {
        if let Some(house) = &self.house {
            house.end_parking();
        }
    }

    /// A request has passed rule, port and handles: was it here before? On a further attempt that is known already: then only its own
    /// sender's record is its answer, as an equal one of another connection may have been carried out in between.
    fn begin(&self, job: &Job, outlives_crashes: bool, user: Option<u32>) -> Result<Memo, Repeated> {
        let runs_again = !matches!(job.memory.get(), Memory::None);
        if !runs_again {
            let key = reply_key(job, user);
            job.memory.set(match self.replies.begin(&key, &job.link, self.now()) {
                Begin::New => Memory::Begun(key),
                Begin::Apart => Memory::Apart(key),
                Begin::Again(reply) => return Err(Repeated::Answered(reply)),
                Begin::Attached => return Err(Repeated::UnderWay),
            });
        }
        let (key, runs_beside) = match job.memory.get() {
            Memory::Begun(key) => (Some(key), false),
            Memory::Apart(key) => (Some(key), true),
            Memory::None => (None, false),
        };
        let key = key.filter(|_| outlives_crashes).map(|key| key.numbered(job.number));
        if key.is_some() {
            self.senders.enter(&job.link);
        }
        Ok(Memo { key, is_own: runs_again || runs_beside || job.in_doubt.is_some() })
    }

    /// A request that was here before costs nobody anything: its first transmission pays.
    fn repeat(&self, job: &mut Job, repeated: Repeated) -> Step {
        match repeated {
            Repeated::Answered(reply) => {
                count(&self.stats.retransmissions);
                (job.procedure, job.counted) = (None, None);
                Step::Reply(reply)
            }
            Repeated::UnderWay => {
                count(&self.stats.retransmissions);
                job.owed = false;
                Step::Attached
            }
        }
    }

    /// The answer to who may come in, and not from there; its reason is in the log.
    fn too_weak(&self, job: &Job, (pool, dataset): (PoolGuid, DatasetId)) -> Reply {
        self.tell_of_stranger(job, pool, dataset);
        Reply::auth_error(job.call.xid, AuthProblem::TooWeak)
    }

    fn tell_of_stranger(&self, job: &Job, pool: PoolGuid, dataset: DatasetId) {
        count(&self.stats.refused);
        self.strangers.refused(&job.link, self.now(), || self.exports.pool(pool)?.name(dataset));
    }

    fn failure(&self, job: &mut Job, procedure: Procedure, status: Status) -> Reply {
        job.told = Some(status.into());
        Reply::success(job.call.xid, v3::failure_body(procedure, status))
    }

    fn fault(&self, job: &mut Job) -> Reply {
        job.forget();
        self.refusal(job, Told::Fault)
    }

    fn note_panic(&self, job: &Job) {
        count(&self.stats.panics);
        tracing::error!(
            program = job.call.program, procedure = job.call.procedure, peer = %job.link.peer(),
            "an operation panicked; its client got SERVERFAULT, the server goes on. Please report this with the log"
        );
    }

    /// An error that says this, if the job's procedure can say so.
    fn refusal(&self, job: &mut Job, told: Told) -> Reply {
        let (of_3, of_4) = match told {
            Told::ComeAgain => (Status::JukeBox, v4::Status::Delay),
            Told::Fault => (Status::ServerFault, v4::Status::ServerFault),
            Told::Ok | Told::Failed => (Status::Io, v4::Status::Io),
        };
        let refusal = match job.procedure {
            // GETATTR-like and modifying procedures can; NULL has no status.
            Some(Procedure::Null) => None,
            Some(procedure) => Some(v3::failure_body(procedure, of_3)),
            None => compounds::refusal(job, of_4),
        };
        match refusal {
            Some(words) => {
                job.told = Some(told);
                Reply::success(job.call.xid, words)
            }
            None => Reply::accept_error(job.call.xid, AcceptError::SystemError),
        }
    }
}

/// Address without port 16, xid 4, procedure 4, fingerprint of ids, or of the `user` who it is, and arguments 8; no number.
fn reply_key(job: &Job, user: Option<u32>) -> ReplyKey {
    let mut bytes = [0; 40];
    let address = match job.link.peer().ip() {
        std::net::IpAddr::V4(address) => address.to_ipv6_mapped(),
        std::net::IpAddr::V6(address) => address,
    };
    bytes[..16].copy_from_slice(&address.octets());
    bytes[16..20].copy_from_slice(&job.call.xid.to_be_bytes());
    bytes[20..24].copy_from_slice(&job.call.procedure.to_be_bytes());
    bytes[24..ReplyKey::COMMON_BYTES].copy_from_slice(&job.call.fingerprint(user).to_be_bytes());
    ReplyKey(bytes)
}
