//! How a frame gets to the disk: closing it, the one write, and what its landing sets free.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use std::io;
use std::sync::Arc;
use tally_base::{Fate, Keeper, Kept, LaneId, Lsn, VdevGuid, log_checksum};
use tally_disk::{AlignedBuf, Disk, Durability};

use super::unwaited::UNWAITED_MAX;
use super::{FrameHeader, Gather, InFlight, Lane, LiveFrame, Member, State};
use crate::failure::LaneFailed;
use crate::frame::{HEADER_BYTES, frame_bytes};

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
    latency: Duration,
    /// Bytes written to each leg.
    frame_bytes: u64,
    /// Those of them that are bodies of records.
    body_bytes: u64,
}

impl Cost {
    /// For somebody with so many bytes of records in it. Who has more than it holds has them in frames before it, of
    /// which this one is the measure.
    pub(super) fn kept(&self, lane: LaneId, record_bytes: u64) -> Kept {
        let frame_bytes = record_bytes.saturating_mul(self.frame_bytes) / self.body_bytes.max(1);
        Kept { by: Keeper::Log(lane), device: self.latency, record_bytes, frame_bytes }
    }
}

/// Frames whose cost is remembered: more than can land between two looks for waiters.
pub(super) const COSTS_MAX: usize = 8;

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
        let mut seen_lsn = state.next_lsn;
        while state.is_open() {
            let is_wanted = std::mem::take(&mut state.is_wanted) && self.may_begin(&state);
            if is_wanted || self.overdue_in(&state) == Some(Duration::ZERO) {
                drop(state);
                while self.drive_frame() {}
                state = self.state.lock();
                continue;
            }
            let seal_due_in = self.seal_due_in(&state).filter(|_| !state.seal_watched);
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
        let is_busy = state.next_lsn != *seen_lsn || !state.gathering.is_empty();
        *seen_lsn = state.next_lsn;
        let look_in = self.overdue_in(state).or(is_busy.then_some(UNWAITED_MAX));
        state.age_watched = look_in.is_some();
        match seal_due_in.into_iter().chain(look_in).min() {
            None => self.wake.wait(state),
            Some(left) => {
                state.seal_watched |= seal_due_in.is_some();
                self.wake.wait_for(state, left);
                state.seal_watched &= seal_due_in.is_none();
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
        state.is_wanted |= is_work;
        is_work
    }

    /// Whether records are gathered and a slot is free for them.
    pub(super) fn may_begin(&self, state: &State) -> bool {
        if state.gathering.is_empty() || !state.is_open() {
            return false;
        }
        let in_all = state.in_flight.len() as u32;
        let seals = state.in_flight.iter().filter(|flight| flight.is_seal).count() as u32;
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
        state.seal_tried_lsn = state.durable_lsn;
        let charged = frame_bytes(0);
        self.budget.take(charged).ok()?;
        let first_lsn = state.next_lsn;
        let mut gather = state.gathering.empty(first_lsn, Duration::ZERO);
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
            && state.in_flight.is_empty()
            && state.gathering.is_empty()
            && state.durable_lsn > state.witnessed_lsn.max(state.seal_tried_lsn);
        wanted.then(|| (state.idle_since + SEAL_IDLE).saturating_sub(self.clock.monotonic()))
    }

    /// Gives a gathered frame its place and name. Everything but the checksums is known after this.
    fn depart(&self, state: &mut State, gather: Gather, prev: u64) -> Flight<'_> {
        let payload_bytes = gather.payload_bytes();
        let (pos, seq) = (state.head, state.next_seq);
        let end = pos + frame_bytes(payload_bytes);
        assert_eq!(self.geometry.place(pos), pos, "frame {seq} begins where a frame may begin");
        assert!(end - pos <= u64::from(self.geometry.frame_bytes_max), "frame {seq} is longer than Fmax");
        assert!(end - state.tail_released <= self.geometry.size, "frame {seq} would overwrite a live frame");
        let first_lsn = state.in_flight.back().map_or(state.durable_lsn.next(), |before| before.lsn_end);
        assert_eq!(gather.first_lsn, first_lsn, "frame {seq} begins where the one before it ends");
        let header = FrameHeader {
            pool: self.pool,
            lane: self.id,
            epoch: self.epoch,
            legset_gen: state.legset_gen,
            pos,
            seq,
            prev,
            first_lsn: gather.first_lsn,
            record_count: gather.record_count,
            durable_lsn: state.durable_lsn,
            synced_txg: state.synced_txg,
            txg_max: gather.txg_max,
            payload_bytes: u32::try_from(payload_bytes).expect("at most Fmax"),
            payload_checksum: 0,
        };
        state.head = self.geometry.place(end);
        state.next_seq += 1;
        self.budget.settle(gather.charged, state.head - pos);
        // What is reserved comes and goes without the lock, so this is all that is sure.
        let (live, gathered) = (state.head - state.tail_released, state.gathering.charged());
        assert!(
            self.budget.fill().used >= live + gathered,
            "the ring has lent {live} + {gathered} bytes, and knows less"
        );
        let (lsn_end, durable_lsn, is_seal) = (header.lsn_end(), header.durable_lsn, header.is_seal());
        state.in_flight.push_back(InFlight { seq, lsn_end, durable_lsn, is_seal, landed: false });
        if !is_seal {
            let (first_lsn, txg_max) = (header.first_lsn, header.txg_max);
            let ascends = |last: &LiveFrame| last.pos < pos && last.seq < seq && last.first_lsn < first_lsn;
            assert!(state.live.back().is_none_or(ascends), "frame {seq} follows the live ones");
            state.live.push_back(LiveFrame { pos, seq, prev, first_lsn, txg_max });
        }
        let offset = self.geometry.offset(pos);
        Flight {
            lane: self,
            header,
            body_bytes: gather.body_bytes,
            targets: state.legs.iter().map(|Member { leg, .. }| (Arc::clone(&leg.disk), leg.start + offset)).collect(),
            guids: state.legs.iter().map(|member| member.leg.guid).collect(),
            buf: Some(gather.into_frame()),
        }
    }

    /// A frame is on every leg that is left.
    fn landed(&self, header: &FrameHeader, buf: AlignedBuf, cost: Cost) {
        let mut state = self.state.lock();
        state.gathering.recycle(buf);
        state.latency.record(cost.latency);
        state.timing.note(cost.frame_bytes, cost.latency);
        state.idle_since = self.clock.monotonic();
        state.count(header, &cost);
        if state.advance(header.seq) {
            self.durable.store(state.durable_lsn.0, Ordering::Release);
        }
        let is_work = self.wants_drive(&mut state);
        let is_seal_wanted = !state.seal_watched && self.seal_due_in(&state).is_some();
        let is_due = state.waiters.is_due(state.durable_lsn);
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

impl State {
    /// Marks a frame as landed and moves the watermark over all that have landed without a gap. A frame that failed
    /// never lands, so whatever landed behind it is not durable: recovery would cut before it (rules F25).
    fn advance(&mut self, seq: u64) -> bool {
        if let Some(flight) = self.in_flight.iter_mut().find(|flight| flight.seq == seq) {
            flight.landed = true;
        }
        let before = self.durable_lsn;
        while let Some(flight) = self.in_flight.pop_front_if(|front| front.landed) {
            self.durable_lsn = Lsn(flight.lsn_end.0 - 1);
            self.witnessed_lsn = self.witnessed_lsn.max(flight.durable_lsn);
        }
        assert!(before <= self.durable_lsn && self.durable_lsn < self.next_lsn, "the watermark rises, up to the head");
        assert!(self.witnessed_lsn <= self.durable_lsn, "nothing is witnessed that is not durable");
        before < self.durable_lsn
    }

    fn count(&mut self, header: &FrameHeader, cost: &Cost) {
        let stats = &mut self.stats;
        if header.is_seal() {
            stats.seal_count += 1;
        } else {
            stats.frame_count += 1;
            stats.frames_by_size.count(cost.frame_bytes);
            if self.costs.len() == COSTS_MAX {
                self.costs.pop_front();
            }
            self.costs.push_back(*cost);
        }
        stats.record_count += u64::from(header.record_count);
        stats.body_bytes += cost.body_bytes;
        stats.frame_bytes += cost.frame_bytes;
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
