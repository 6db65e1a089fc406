//! How a frame gets to the disk: closing it, the one write, and what its landing sets free.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use std::io;
use std::sync::Arc;
use tally_base::{Fate, Keeper, Kept, LaneId, Lsn, VdevGuid, log_checksum};
use tally_disk::{AlignedBuf, Disk, Durability};

use super::legs::Member;
use super::ring::Place;
use super::unwaited::UNWAITED_MAX;
use super::{Lane, LiveFrame, State};
use crate::failure::LaneFailed;
use crate::frame::{FrameHeader, HEADER_BYTES, frame_bytes};
use crate::gather::Gather;

/// A lane that was idle for so long, with frames that nothing witnesses yet, writes a seal (rules F27). Longer than
/// a client's think time in a row of requests, shorter than a person can pull a plug.
const SEAL_IDLE: Duration = Duration::from_millis(50);

/// How many frames a waiter writes in place before it leaves the rest to the lane thread: its own is at most
/// the second when it came while another was gathering.
const INLINE_FRAMES_MAX: u32 = 2;

/// A frame on its way. Whoever holds it must [`land`](Flight::land) it; if that does not happen because the holder
/// panicked, nobody knows what is on the disk, and the lane fails.
pub(crate) struct Flight<'a> {
    lane: &'a Lane,
    buf: Option<AlignedBuf>,
    header: FrameHeader,
    body_bytes: u64,
    targets: SmallVec<[(Arc<dyn Disk>, u64); 2]>,
    guids: SmallVec<[VdevGuid; 2]>,
}

/// What a frame took: for the waiters that it sets free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Behind its last record.
    pub(super) lsn_end: Lsn,
    /// In the device.
    pub(super) latency: Duration,
    /// Bytes written to each leg.
    pub(super) frame_bytes: u64,
    /// Those of them that are bodies of records.
    pub(super) body_bytes: u64,
}

impl Cost {
    /// For somebody with so many bytes of records in it. Who has more than it holds has them in frames before it, of
    /// which this one is the measure.
    pub(super) fn kept(&self, lane: LaneId, record_bytes: u64) -> Kept {
        let frame_bytes = record_bytes.saturating_mul(self.frame_bytes) / self.body_bytes.max(1);
        Kept { by: Keeper::Log(lane), device: self.latency, record_bytes, frame_bytes }
    }
}

/// One result per target of a flight.
pub(crate) type Results = SmallVec<[io::Result<()>; 2]>;

impl Lane {
    /// Writes one frame if records are gathered and a slot is free; says whether it did.
    pub fn drive_frame(&self) -> bool {
        self.write_frame().is_some()
    }

    /// The same; gives what it took.
    fn write_frame(&self) -> Option<Cost> {
        Some(self.begin()?.fly())
    }

    /// The lane thread's body: drives until the lane is closed or fails, sleeps while there is nothing to do.
    pub fn run(&self) {
        let mut state = self.state.lock();
        let mut seen_lsn = state.gathering.next_lsn();
        while state.is_open() {
            let is_wanted = std::mem::take(&mut state.watch.is_wanted) && self.may_begin(&state);
            if is_wanted || self.overdue_in(&state) == Some(Duration::ZERO) {
                drop(state);
                while self.drive_frame() {}
                state = self.state.lock();
                continue;
            }
            let seal_due_in = self.seal_due_in(&state).filter(|_| !state.watch.seal_watched);
            if seal_due_in == Some(Duration::ZERO) {
                drop(state);
                self.seal_if_idle();
                state = self.state.lock();
                continue;
            }
            self.sleep(&mut state, seal_due_in, &mut seen_lsn);
        }
    }

    /// Until somebody wakes the thread, a seal is due, or gathered records may have waited for too long: of these it
    /// takes care as long as records come, so that whoever appends one need not wake it.
    fn sleep(&self, state: &mut MutexGuard<'_, State>, seal_due_in: Option<Duration>, seen_lsn: &mut Lsn) {
        let is_busy = state.gathering.next_lsn() != *seen_lsn || !state.gathering.is_empty();
        *seen_lsn = state.gathering.next_lsn();
        let look_in = self.overdue_in(state).or(is_busy.then_some(UNWAITED_MAX));
        let looks_again_in = seal_due_in.into_iter().chain(look_in).min();
        // Whatever comes before it wakes it finds then, whyever it does: else a client alone, behind whose every frame a seal is wanted, would
        // wake it for the seal, and with the next record again for its age.
        state.watch.age_watched = looks_again_in.is_some();
        #[cfg(test)]
        {
            state.watch.slept += 1;
        }
        match looks_again_in {
            None => self.wake.wait(state),
            Some(left) => {
                state.watch.seal_watched |= seal_due_in.is_some();
                self.wake.wait_for(state, left);
                state.watch.seal_watched &= seal_due_in.is_none();
            }
        }
    }

    /// Writes a seal if the lane has been idle for long enough, with frames that nothing witnesses; says whether
    /// it did. [`Lane::run`] does this by itself; it is here for the simulator.
    pub fn seal_if_idle(&self) -> bool {
        let Some(flight) = self.begin_seal() else { return false };
        flight.fly();
        true
    }

    /// For a waiter: writes in place as long as that helps it.
    pub(crate) fn drive_for(&self, lsn: Lsn, record_bytes: u64) -> Option<Fate> {
        let before = || self.outcome(lsn).map(|outcome| outcome.map(|()| self.kept_before(record_bytes)));
        if let Some(fate) = before() {
            return Some(fate);
        }
        if self.inline.load(Ordering::Relaxed) {
            let mut in_device = Duration::ZERO;
            for _ in 0..INLINE_FRAMES_MAX {
                let Some(cost) = self.write_frame() else { break };
                in_device += cost.latency;
                if let Some(outcome) = self.outcome(lsn) {
                    return Some(outcome.map(|()| Kept { device: in_device, ..cost.kept(self.id, record_bytes) }));
                }
            }
        }
        self.nudge();
        before()
    }

    /// Whether the lane thread has to be woken, because there is something that it could write; if so, it will.
    pub(super) fn wants_drive(&self, state: &mut State) -> bool {
        let is_work = self.may_begin(state);
        state.watch.is_wanted |= is_work;
        is_work
    }

    /// Whether records are gathered and a slot is free for them.
    pub(super) fn may_begin(&self, state: &State) -> bool {
        if state.gathering.is_empty() || !state.is_open() {
            return false;
        }
        let (in_all, seals) = state.flights.count();
        in_all < self.geometry.frames_in_flight_max && in_all - seals < self.flights_max.load(Ordering::Relaxed)
    }

    /// Takes a slot and closes the oldest gathered frame.
    pub(crate) fn begin(&self) -> Option<Flight<'_>> {
        // A first look without the chain's lock: most who come find the slot taken.
        if !self.may_begin(&self.state.lock()) {
            return None;
        }
        let mut chain = self.chain.lock();
        let mut state = self.state.lock();
        if !self.may_begin(&state) {
            return None;
        }
        let gather = state.gathering.pop()?;
        let flight = self.depart(&mut state, gather, *chain);
        drop(state);
        Some(flight.close(&mut chain))
    }

    /// Takes a slot of its own for a seal: never the last one, because a request may come at any moment.
    pub(crate) fn begin_seal(&self) -> Option<Flight<'_>> {
        let mut chain = self.chain.lock();
        let mut state = self.state.lock();
        if self.seal_due_in(&state) != Some(Duration::ZERO) {
            return None;
        }
        // Tried once for each watermark: if the ring is too full now, the next uberblock is the witness.
        state.watch.seal_tried_lsn = state.flights.durable_lsn();
        let charged = frame_bytes(0);
        self.budget.take(charged).ok()?;
        let mut gather = state.gathering.empty(Duration::ZERO);
        gather.charged = charged;
        let flight = self.depart(&mut state, gather, *chain);
        drop(state);
        Some(flight.close(&mut chain))
    }

    /// How long until a seal is due; `None` while none is wanted.
    fn seal_due_in(&self, state: &State) -> Option<Duration> {
        let wanted = state.is_open()
            && !self.rotational
            && self.geometry.frames_in_flight_max > 1
            && state.flights.is_empty()
            && state.gathering.is_empty()
            && state.flights.durable_lsn() > state.flights.witnessed_lsn().max(state.watch.seal_tried_lsn);
        wanted.then(|| (state.watch.idle_since + SEAL_IDLE).saturating_sub(self.clock.monotonic()))
    }

    /// Gives a gathered frame its place and name. Everything but the checksums is known after this.
    fn depart(&self, state: &mut State, gather: Gather, prev: u64) -> Flight<'_> {
        let payload_bytes = gather.payload_bytes();
        let Place { pos, seq, taken } = state.ring.take(&self.geometry, frame_bytes(payload_bytes));
        let header = FrameHeader {
            pool: self.pool,
            lane: self.id,
            epoch: self.epoch,
            legset_gen: state.legs.generation,
            pos,
            seq,
            prev,
            first_lsn: gather.first_lsn,
            record_count: gather.record_count,
            durable_lsn: state.flights.durable_lsn(),
            synced_txg: state.ring.synced_txg,
            txg_max: gather.txg_max,
            payload_bytes: u32::try_from(payload_bytes).expect("at most Fmax"),
            payload_checksum: 0,
        };
        self.budget.charge_frame(gather.charged, taken);
        state.flights.push(&header);
        if !header.is_seal() {
            let (first_lsn, txg_max) = (header.first_lsn, header.txg_max);
            state.ring.push(LiveFrame { pos, seq, prev, first_lsn, txg_max });
        }
        // What is reserved comes and goes without the lock, so this is all that is sure.
        let (live, gathered) = (state.ring.used(), state.gathering.charged());
        assert!(
            self.budget.fill().used >= live + gathered,
            "the ring has lent {live} + {gathered} bytes, and knows less"
        );
        state.invariant();
        let offset = self.geometry.offset(pos);
        let legs = state.legs.iter();
        Flight {
            lane: self,
            header,
            body_bytes: gather.body_bytes,
            targets: legs.clone().map(|Member { leg, .. }| (Arc::clone(&leg.disk), leg.start + offset)).collect(),
            guids: legs.map(|member| member.leg.guid).collect(),
            buf: Some(gather.into_frame()),
        }
    }

    /// A frame is on every leg that is left.
    fn landed(&self, header: &FrameHeader, buf: AlignedBuf, cost: Cost) {
        let mut state = self.state.lock();
        state.gathering.recycle(buf);
        state.watch.idle_since = self.clock.monotonic();
        state.books.note(header, &cost);
        if state.flights.advance(header.seq) {
            self.durable.store(state.flights.durable_lsn().0, Ordering::Release);
        }
        state.invariant();
        let is_work = self.wants_drive(&mut state);
        let is_seal_wanted = !state.watch.seal_watched && self.seal_due_in(&state).is_some();
        let is_due = state.waiters.is_due(state.flights.durable_lsn());
        drop(state);
        // First the next write, then the replies: the lane thread wakes up while they are sent.
        if is_work || is_seal_wanted {
            self.wake.notify_one();
        }
        if is_due {
            self.release_waiters();
        }
    }
}

impl Flight<'_> {
    /// Fills in the checksums, and leaves the header's for the next frame. The chain is locked, the state is not:
    /// appends go on meanwhile.
    fn close(mut self, chain: &mut u64) -> Self {
        let payload_bytes = self.header.payload_bytes as usize;
        let frame = self.buf.as_mut().expect("a flight holds its buffer until it lands");
        self.header.payload_checksum = log_checksum(&frame[HEADER_BYTES..HEADER_BYTES + payload_bytes]);
        *chain = self.header.encode(frame);
        self
    }

    /// The frame's bytes, and where they go.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buf.as_ref().expect("a flight holds its buffer until it lands")
    }

    /// Its header.
    #[cfg(test)]
    pub(crate) fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// How many legs it goes to.
    #[cfg(test)]
    pub(crate) fn leg_count(&self) -> usize {
        self.targets.len()
    }

    /// Writes it and lands it; gives what that took.
    fn fly(self) -> Cost {
        let start = self.lane.clock.monotonic();
        let results = self.write();
        let latency = self.lane.clock.monotonic().saturating_sub(start);
        let cost = self.cost(latency);
        self.land(results, latency);
        cost
    }

    fn cost(&self, latency: Duration) -> Cost {
        let frame_bytes = self.buf.as_ref().map_or(0, |buf| buf.len() as u64);
        Cost { lsn_end: self.header.lsn_end(), latency, frame_bytes, body_bytes: self.body_bytes }
    }

    /// The one device write, on every leg.
    fn write(&self) -> Results {
        let buf = self.buf.as_ref().expect("a flight holds its buffer until it lands");
        if let [(disk, offset)] = self.targets.as_slice() {
            return [disk.write(*offset, buf, Durability::Durable)].into_iter().collect();
        }
        let mut results: Results = self.lane.fanout.write(&self.targets, buf, Durability::Durable).into();
        // A fan-out that forgets a leg has not written it.
        results.resize_with(self.targets.len(), || Err(io::Error::other("the leg was not written")));
        results
    }

    /// The write has returned. Legs that failed leave the set first; only then is the frame durable.
    pub(crate) fn land(mut self, results: Results, latency: Duration) {
        // No failure is no success where nobody was asked.
        if self.guids.is_empty() {
            self.buf = None;
            let cause = "there is no leg left".to_owned();
            self.lane.fail(LaneFailed::Write { lane: self.lane.id, seq: self.header.seq, cause });
            return;
        }
        let failures: SmallVec<[(VdevGuid, io::Error); 2]> = self
            .guids
            .iter()
            .zip(results)
            .filter_map(|(guid, result)| result.err().map(|error| (*guid, error)))
            .collect();
        if !failures.is_empty()
            && let Err(failed) = self.lane.drop_legs(self.header.seq, &failures)
        {
            self.buf = None;
            self.lane.fail(failed);
            return;
        }
        let cost = self.cost(latency);
        let buf = self.buf.take().expect("a flight lands once");
        self.lane.landed(&self.header, buf, cost);
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.buf.is_some() {
            let cause = "its writer was interrupted, and what the device has kept is unknown".to_owned();
            self.lane.fail(LaneFailed::Write { lane: self.lane.id, seq: self.header.seq, cause });
        }
    }
}
