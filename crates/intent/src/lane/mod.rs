//! A lane: one ring, those who append to it, and those who wait.
//!
//! ```text
//!            append                 begin                  land (contiguous)
//!  reserved ────────▶ gathered ──────────────▶ in flight ─────────────────────▶ durable ──▶ trimmed
//!      │                 │      (a slot is free)   │                              release, one checkpoint late
//!      ▼ dropped         ▼ lane failed             ▼ failed on every leg, or writer interrupted
//!   given back         broken                    broken, and everything after it
//! ```
//!
//! | state | where it lives | under which lock | what a crash leaves |
//! |---|---|---|---|
//! | reserved | a number in the [`Budget`] | none | nothing |
//! | gathered | the open [`Gathering`] buffer | `state` | nothing |
//! | in flight | a [`Flight`](drive::Flight), held by whoever writes | none; its order in `state`, [`Flights`] | the frame, a torn one, or none |
//! | durable | the ring | `state`, its [`Flights`] say up to where; mirrored in an atomic | the frame |
//! | trimmed | nowhere | `state`, its [`Ring`] says up to where | an old frame that its position gives away |
//!
//! **Order.** LSNs, dseqs and places in the buffer are given under `state`, so log order is the order of
//! appends. A frame gets its position and sequence number under `chain` and `state` together; `chain` stays
//! locked until the header's checksum is known, because the next frame names it.
//!
//! **Slots.** At most `flights_max` frames with records are in flight: 1 but in tests, because a device
//! that does one thing at a time batches best so. The geometry's K bounds all frames for ever (recovery's
//! window is built on it).
//!
//! **Leadership** is nobody's property: whoever finds a free slot and gathered records writes. What keeps the
//! lane going is one rule: *when a slot is freed, or somebody begins to wait, while records are gathered
//! and a slot is free, the lane thread is woken.* A waiter that finds the slot taken may therefore sleep.
//!
//! **Records that nobody waits for** would keep their room in the ring for ever, and be lost with the power long after
//! they were given. So the lane thread writes a frame that is full, and one whose first record came [`UNWAITED_MAX`]
//! ago; and whoever closes a transaction group writes what belongs to it ([`Lane::write_gathered`]), before its
//! uberblock says where the ring begins. The thread is woken for that once after a pause, and then looks by itself as
//! long as records come: a request that waits pays nothing for it.
//!
//! **Locks**, in this order: `dropping` → `state`; `chain` → `state`. Callbacks, the leg hook and the failure
//! hook run under neither `chain` nor `state`.

mod books;
mod drive;
mod flights;
mod legs;
mod look;
mod ring;
mod unwaited;
mod waiting;

#[cfg(test)]
pub(crate) use drive::{Flight, Results};

pub use look::RingLook;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tally_base::{Broken, Clock, DatasetId, Dseq, LaneId, Lsn, PoolGuid, Speed, Txg, Wait};
use tally_disk::{Fanout, Helpers};

use self::books::Books;
use self::flights::Flights;
use self::legs::Legs;
use self::ring::{LiveFrame, Ring};
use crate::checkpoint::Checkpoint;
use crate::config::{LaneConfig, LegFailed};
use crate::failure::LaneFailed;
use crate::frame::{RecordHead, RecordName};
use crate::gather::Gathering;
use crate::promise::{LanePromise, Waiters};
use crate::ring::{Budget, Fill, LaneGeometry, RingFull};
use crate::stats::LaneStats;

/// One lane of the intent log, open for appends.
pub struct Lane {
    pool: PoolGuid,
    id: LaneId,
    epoch: u128,
    geometry: LaneGeometry,
    rotational: bool,
    fanout: Arc<dyn Fanout>,
    helpers: Helpers,
    leg_failed: Arc<LegFailed>,
    clock: Arc<dyn Clock>,
    budget: Budget,
    flights_max: AtomicU32,
    /// Whether a waiter may write a frame itself.
    inline: AtomicBool,
    /// Mirror of the watermark in `state.flights`, for those who only look.
    durable: AtomicU64,
    /// Whether `state.standing` has left `Open`.
    ended: AtomicBool,
    /// Checksum of the newest frame's header. Locked while a frame is being closed.
    chain: Mutex<u64>,
    /// Held while a leg leaves the set, so that each leaves once.
    dropping: Mutex<()>,
    state: Mutex<State>,
    /// Wakes the lane thread.
    wake: Condvar,
    hook: Mutex<Option<FailureHook>>,
}

type FailureHook = Box<dyn Fn(LaneFailed) + Send + Sync>;

/// What `Lane::state` guards, noun by noun. Each has its own invariant, and [`State::invariant`] ties them together.
struct State {
    standing: Standing,
    ring: Ring,
    gathering: Gathering,
    flights: Flights,
    legs: Legs,
    watch: Watch,
    waiters: Waiters,
    books: Books,
}

/// What the lane thread has to look for, and whether it does.
#[derive(Default)]
struct Watch {
    /// Whether somebody wants the gathered records written now.
    is_wanted: bool,
    /// Whether a lane thread looks, or has been asked to look, for records that have been gathered for too long.
    age_watched: bool,
    /// Whether a lane thread sleeps with a timer for the seal.
    seal_watched: bool,
    /// The watermark for which a seal was written or tried.
    seal_tried_lsn: Lsn,
    /// When the newest frame landed.
    idle_since: Duration,
    /// How often the lane thread has lain down.
    #[cfg(test)]
    slept: u64,
}

impl Watch {
    /// A seal witnesses what is durable; and whatever is gathered, the lane thread looks for its age, or has been asked to: else
    /// records for which nobody waits would stay where they are.
    fn invariant(&self, durable_lsn: Lsn, is_gathering: bool) {
        debug_assert!(self.seal_tried_lsn <= durable_lsn, "a seal witnesses what is durable");
        debug_assert!(self.age_watched || !is_gathering, "nobody looks for what is gathered");
    }
}

#[derive(Clone)]
enum Standing {
    Open,
    Ended(LaneFailed),
}

/// Room for one record. Dropping it gives the room back.
#[must_use]
pub struct Reservation {
    lane: Arc<Lane>,
    bytes: u64,
}

impl Reservation {
    /// Where the room is.
    #[must_use]
    pub fn lane(&self) -> Arc<Lane> {
        Arc::clone(&self.lane)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.lane.budget.give(self.bytes);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("lane", &self.lane.id).field("bytes", &self.bytes).finish()
    }
}

/// What an appended record was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its position in the lane.
    pub lsn: Lsn,
    /// Its position in its dataset.
    pub dseq: Dseq,
    /// Bytes of its body.
    pub body_bytes: u64,
}

impl Lane {
    /// An empty ring that starts at the checkpoint. Nothing is written.
    ///
    /// # Panics
    /// If the geometry is invalid or there is no leg: the pool checks both when it reads its configuration.
    #[must_use]
    pub fn open(config: LaneConfig, checkpoint: &Checkpoint, clock: Arc<dyn Clock>) -> Arc<Self> {
        config.geometry.validate().expect("the pool opens lanes with a valid geometry");
        assert!(!config.legs.is_empty(), "a lane without legs cannot be opened, only reported as missing");
        let rotational = config.legs.iter().any(|leg| leg.disk.geometry().rotational);
        let durable_lsn = Lsn(checkpoint.next_lsn.0 - 1);
        Arc::new(Self {
            pool: config.pool,
            id: config.lane,
            epoch: checkpoint.epoch,
            geometry: config.geometry,
            rotational,
            fanout: config.fanout,
            helpers: config.helpers,
            leg_failed: config.leg_failed,
            budget: Budget::new(&config.geometry),
            flights_max: AtomicU32::new(1),
            inline: AtomicBool::new(true),
            durable: AtomicU64::new(durable_lsn.0),
            ended: AtomicBool::new(false),
            chain: Mutex::new(checkpoint.tail_prev),
            dropping: Mutex::new(()),
            state: Mutex::new(State::new(&config.geometry, Legs::new(config.legs, config.legset_gen), checkpoint)),
            wake: Condvar::new(),
            hook: Mutex::new(None),
            clock,
        })
    }

    /// Which lane this is.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// Whether it takes no records any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether it has ended, and every record that is on stable storage belongs to a group up to `synced`: then no
    /// import from that group's uberblock needs its ring.
    #[must_use]
    pub fn is_spent(&self, synced: Txg) -> bool {
        let state = self.state.lock();
        !state.is_open() && state.ring.tail_behind(synced).is_none()
    }

    /// Shape of its ring.
    #[must_use]
    pub fn geometry(&self) -> LaneGeometry {
        self.geometry
    }

    /// Room for one record of `body_bytes`, worst padding included (rules F3, P10). Never blocks.
    pub fn reserve(self: &Arc<Self>, body_bytes: usize) -> Result<Reservation, RingFull> {
        let body_bytes_max = self.geometry.record_bytes_max();
        if body_bytes > body_bytes_max {
            return Err(RingFull::RecordTooLong { body_bytes, body_bytes_max });
        }
        let bytes = self.geometry.charge(body_bytes);
        // Gathered records take more room than the frame that they will be in.
        self.budget.take(bytes).inspect_err(|_| self.nudge())?;
        Ok(Reservation { lane: Arc::clone(self), bytes })
    }

    /// Appends one record, `parts` one after the other, and takes its dseq from `next_dseq`, all under the lane's
    /// lock. Never blocks on I/O and never fails for space. On an error no dseq was taken.
    ///
    /// # Panics
    /// If the record is longer than what was reserved, or reserved in another lane.
    pub fn append(
        &self,
        mut reservation: Reservation,
        dataset: DatasetId,
        next_dseq: &AtomicU64,
        txg: Txg,
        name: impl Into<RecordName>,
        parts: &[&[u8]],
    ) -> Result<Appended, LaneFailed> {
        let RecordName { kind, shape } = name.into();
        let body_bytes = parts.iter().map(|part| part.len()).sum();
        let charge = self.geometry.charge(body_bytes);
        assert!(
            std::ptr::eq(self, &*reservation.lane),
            "room in lane {} is no room in {}",
            reservation.lane.id,
            self.id
        );
        assert!(charge <= reservation.bytes, "{charge} bytes of ring for a reservation of {}", reservation.bytes);
        let (appended, needs_thread) = {
            let mut state = self.state.lock();
            if let Standing::Ended(failed) = &state.standing {
                return Err(failed.clone());
            }
            let dseq = Dseq(next_dseq.fetch_add(1, Ordering::Relaxed));
            let head = RecordHead { dataset, dseq, txg, kind, shape };
            let lsn = state.gathering.next_lsn();
            let frame_bytes_max = u64::from(self.geometry.frame_bytes_max);
            let clock = self.clock.as_ref();
            let begins = state.gathering.push(clock, frame_bytes_max, &head, parts, charge);
            let needs_thread = begins && self.needs_thread(&mut state);
            state.invariant();
            (Appended { lsn, dseq, body_bytes: body_bytes as u64 }, needs_thread)
        };
        if needs_thread {
            self.wake.notify_one();
        }
        // The charge now belongs to the gathered frame; what was reserved beyond it goes back with the drop.
        reservation.bytes -= charge;
        Ok(appended)
    }

    /// Every record up to here is on stable storage, on every leg of the set.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// What a reply that rests on the record must wait for, and `record_bytes` that were appended for it.
    #[must_use]
    pub fn promise(self: &Arc<Self>, lsn: Lsn, record_bytes: u64) -> Wait {
        if lsn <= self.durable_lsn() {
            return Wait::Ready;
        }
        Wait::On(Box::new(LanePromise::new(Arc::clone(self), lsn, record_bytes)))
    }

    /// How the lane stands in an uberblock that carries the state of `synced`: from the first frame that holds a
    /// newer record. The caller no longer holds that transaction group open, so no such record can still come.
    #[must_use]
    pub fn checkpoint(&self, synced: Txg) -> Checkpoint {
        let chain = self.chain.lock();
        let state = self.state.lock();
        let (tail_pos, tail_seq, tail_prev, next_lsn) = match state.ring.tail_behind(synced) {
            Some(tail) => (tail.pos, tail.seq, tail.prev, tail.first_lsn),
            None => (state.ring.head, state.ring.next_seq, *chain, state.gathering.first_lsn()),
        };
        let durable_lsn = state.flights.durable_lsn();
        Checkpoint { epoch: self.epoch, tail_pos, tail_seq, tail_prev, next_lsn, durable_lsn, clean: false }
    }

    /// That uberblock is durable. Room before the tail of the checkpoint released *before* this one may be
    /// written again: one uberblock may be torn or rot without loss (rules F8).
    pub fn release(&self, synced: Txg, checkpoint: &Checkpoint) {
        assert_eq!(checkpoint.epoch, self.epoch, "a checkpoint of another life of lane {}", self.id);
        let mut state = self.state.lock();
        let freed = state.ring.release(synced, checkpoint);
        self.budget.give(freed);
        state.flights.witness(checkpoint.durable_lsn);
        state.invariant();
    }

    /// How full the ring is: the pool syncs from a third on (rules F28).
    #[must_use]
    pub fn fill(&self) -> Fill {
        self.budget.fill()
    }

    /// What it has done since it was opened, and quantiles of its device's times, in nanoseconds.
    #[must_use]
    pub fn stats(&self) -> LaneStats {
        let state = self.state.lock();
        let pending_count = state.gathering.next_lsn().0 - state.gathering.first_lsn().0;
        LaneStats { pending_count, in_flight: state.flights.count().0, ..state.books.stats() }
    }

    /// How long device writes took: counts by upper end, since the lane was opened.
    #[must_use]
    pub fn write_times(&self) -> Vec<(Duration, u64)> {
        self.state.lock().books.latency.steps()
    }

    /// Most bytes that one client may put into it before others come: an eighth of the ring (rules F5).
    #[must_use]
    pub fn share_bytes(&self) -> u64 {
        self.geometry.size / 8
    }

    /// How fast the newest frames were written; `None` before the first.
    #[must_use]
    pub fn speed(&self) -> Option<Speed> {
        self.state.lock().books.timing.speed()
    }

    /// How many frames with records may be on their way at once: 1 to the geometry's K.
    #[cfg(test)]
    pub(crate) fn set_frames_in_flight(&self, k: u32) {
        self.flights_max.store(k.clamp(1, self.geometry.frames_in_flight_max), Ordering::Relaxed);
        self.nudge();
    }

    /// Whether waiters may write frames in place, as they do unless told otherwise; or all is left to the lane thread.
    #[cfg(test)]
    pub(crate) fn set_inline(&self, inline: bool) {
        self.inline.store(inline, Ordering::Relaxed);
    }
}

impl State {
    fn new(geometry: &LaneGeometry, legs: Legs, checkpoint: &Checkpoint) -> Self {
        let durable_lsn = Lsn(checkpoint.next_lsn.0 - 1);
        Self {
            standing: Standing::Open,
            ring: Ring::new(geometry, checkpoint),
            gathering: Gathering::new(checkpoint.next_lsn),
            flights: Flights::new(durable_lsn),
            legs,
            watch: Watch { seal_tried_lsn: durable_lsn, ..Watch::default() },
            waiters: Waiters::default(),
            books: Books::new(),
        }
    }

    /// What its nouns say of each other, after every transition: each says for itself what holds within. Only while the
    /// lane is open do records come out of one frame into the next.
    fn invariant(&self) {
        self.ring.invariant();
        self.gathering.invariant();
        self.flights.invariant();
        self.watch.invariant(self.flights.durable_lsn(), !self.gathering.is_empty());
        self.waiters.invariant(self.gathering.next_lsn());
        debug_assert!(
            !self.is_open() || self.gathering.first_lsn() == self.flights.end_lsn(),
            "no record lies between"
        );
        debug_assert!(self.flights.durable_lsn() < self.gathering.next_lsn(), "durable is what was appended");
    }

    fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Open)
    }

    /// What somebody who waits for `lsn` is told; `None`: it is not known yet.
    fn outcome(&self, lsn: Lsn) -> Option<Result<(), Broken>> {
        if lsn <= self.flights.durable_lsn() {
            return Some(Ok(()));
        }
        match &self.standing {
            Standing::Open => None,
            Standing::Ended(failed) => Some(Err(Broken(failed.to_string()))),
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("id", &self.id).field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
