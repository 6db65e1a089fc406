//! The frames that are on their way, in the order of their numbers, and the watermark that moves over those that have
//! landed. Guarded by the lane's `state`; the bytes are in the [`Flight`](super::drive::Flight) of whoever writes them.
//! A crash leaves of each frame all, a part, or nothing.

use std::collections::VecDeque;

use tally_base::Lsn;

use crate::frame::FrameHeader;

/// The frames on their way, and what has come of those before them.
pub(super) struct Flights {
    /// The front one is not durable.
    queue: VecDeque<InFlight>,
    /// Every record up to here is durable.
    durable_lsn: Lsn,
    /// The highest watermark that a durable frame or uberblock carries.
    witnessed_lsn: Lsn,
}

struct InFlight {
    seq: u64,
    /// Behind its last record.
    lsn_end: Lsn,
    /// The watermark that it carries.
    durable_lsn: Lsn,
    is_seal: bool,
    landed: bool,
}

impl Flights {
    /// None, over a ring that is durable up to here.
    pub(super) fn new(durable_lsn: Lsn) -> Self {
        Self { queue: VecDeque::new(), durable_lsn, witnessed_lsn: durable_lsn }
    }

    /// Every record up to here is durable.
    pub(super) fn durable_lsn(&self) -> Lsn {
        self.durable_lsn
    }

    /// The highest watermark that a durable frame or uberblock carries.
    pub(super) fn witnessed_lsn(&self) -> Lsn {
        self.witnessed_lsn
    }

    /// The first record that none of them has.
    pub(super) fn end_lsn(&self) -> Lsn {
        self.queue.back().map_or(self.durable_lsn.next(), |last| last.lsn_end)
    }

    /// The oldest of them: every frame before it is durable.
    pub(super) fn first_seq(&self) -> Option<u64> {
        self.queue.front().map(|flight| flight.seq)
    }

    /// How many there are, and how many of them are seals.
    pub(super) fn count(&self) -> (u32, u32) {
        let seals = self.queue.iter().filter(|flight| flight.is_seal).count();
        (self.queue.len() as u32, seals as u32)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A frame leaves.
    pub(super) fn push(&mut self, header: &FrameHeader) {
        assert_eq!(header.first_lsn, self.end_lsn(), "frame {} begins where the one before it ends", header.seq);
        let (lsn_end, durable_lsn, is_seal) = (header.lsn_end(), header.durable_lsn, header.is_seal());
        self.queue.push_back(InFlight { seq: header.seq, lsn_end, durable_lsn, is_seal, landed: false });
    }

    /// Marks a frame as landed and moves the watermark over all that have landed without a gap; says whether it moved.
    /// A frame that failed never lands, so whatever landed behind it is not durable: recovery would cut before it
    /// (rules F25).
    pub(super) fn advance(&mut self, seq: u64) -> bool {
        if let Some(flight) = self.queue.iter_mut().find(|flight| flight.seq == seq) {
            flight.landed = true;
        }
        let before = self.durable_lsn;
        while let Some(flight) = self.queue.pop_front_if(|front| front.landed) {
            self.durable_lsn = Lsn(flight.lsn_end.0 - 1);
            self.witnessed_lsn = self.witnessed_lsn.max(flight.durable_lsn);
        }
        assert!(before <= self.durable_lsn, "the watermark rises");
        assert!(self.witnessed_lsn <= self.durable_lsn, "nothing is witnessed that is not durable");
        before < self.durable_lsn
    }

    /// An uberblock carries that watermark.
    pub(super) fn witness(&mut self, durable_lsn: Lsn) {
        self.witnessed_lsn = self.witnessed_lsn.max(durable_lsn);
    }

    /// They follow each other, none carries a watermark that is not reached, and the front one has not landed.
    pub(super) fn invariant(&self) {
        debug_assert!(self.witnessed_lsn <= self.durable_lsn);
        debug_assert!(self.queue.front().is_none_or(|first| !first.landed && self.durable_lsn < first.lsn_end));
        debug_assert!(self.queue.iter().all(|flight| flight.durable_lsn <= self.durable_lsn));
        let follows = |a: &&InFlight, b: &&InFlight| a.seq + 1 == b.seq && a.lsn_end <= b.lsn_end;
        debug_assert!(self.queue.iter().is_sorted_by(follows));
    }
}
