//! Frames under construction. Records are copied once (rules P9), straight to where the device write will take them
//! from: behind room for the header, in a 4 KiB-aligned buffer. While one buffer is being written the next one gathers,
//! and written ones come back, so that in the steady state nothing is allocated.
//!
//! Memory is bounded by the ring: nothing is gathered without a reservation.

use std::collections::VecDeque;
use std::time::Duration;

use tally_base::{Clock, Lsn, SECTOR, Txg};
use tally_disk::AlignedBuf;

use crate::frame::{HEADER_BYTES, RecordHead, encode_record_head, frame_bytes, record_bytes};

/// Buffers that are kept for later: one that gathers for each frame in flight, and one more.
const SPARE_COUNT_MAX: usize = 5;
/// What a new buffer has room for: a frame of the usual small records.
const FIRST_BYTES: usize = 64 << 10;
/// Longer buffers are given back, so that one burst does not hold memory for ever: a WRITE of 1 MiB fits, and small
/// records beside it.
const SPARE_BYTES_MAX: usize = (1 << 20) + FIRST_BYTES;

static ZEROES: [u8; SECTOR] = [0; SECTOR];

/// One frame that gathers records.
pub(crate) struct Gather {
    buf: AlignedBuf,
    /// LSN of its first record.
    pub(crate) first_lsn: Lsn,
    /// When that came.
    began: Duration,
    pub(crate) record_count: u32,
    /// The newest transaction group among them.
    pub(crate) txg_max: Txg,
    /// Ring bytes that they were charged.
    pub(crate) charged: u64,
    /// Bytes of their bodies.
    pub(crate) body_bytes: u64,
}

impl Gather {
    fn new(mut buf: AlignedBuf, first_lsn: Lsn, began: Duration) -> Self {
        buf.clear();
        buf.extend_from_slice(&ZEROES[..HEADER_BYTES]);
        Self { buf, first_lsn, began, record_count: 0, txg_max: Txg(0), charged: 0, body_bytes: 0 }
    }

    fn push(&mut self, head: &RecordHead, parts: &[&[u8]], body_bytes: usize) {
        let length = u32::try_from(body_bytes).expect("a record is shorter than a frame");
        self.make_room(frame_bytes(self.payload_bytes() + record_bytes(body_bytes)) as usize);
        self.buf.extend_from_slice(&encode_record_head(head, length));
        for part in parts {
            self.buf.extend_from_slice(part);
        }
        let padded = self.buf.len().next_multiple_of(8);
        self.pad_to(padded);
        self.record_count += 1;
        self.txg_max = self.txg_max.max(head.txg);
        self.body_bytes += body_bytes as u64;
    }

    /// Room for a whole frame of that length, before anything of it is copied: a long record would be moved some times
    /// while the buffer doubles below it, and leave one that is too long to be kept.
    fn make_room(&mut self, frame_bytes: usize) {
        let capacity = self.buf.capacity();
        if frame_bytes > capacity {
            self.buf.reserve_to(frame_bytes.next_multiple_of(FIRST_BYTES).max(2 * capacity));
        }
    }

    fn pad_to(&mut self, length: usize) {
        let missing = length - self.buf.len();
        self.buf.extend_from_slice(&ZEROES[..missing]);
    }

    /// Behind its last record.
    fn end_lsn(&self) -> Lsn {
        Lsn(self.first_lsn.0 + u64::from(self.record_count))
    }

    /// Bytes of the records so far.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.buf.len() - HEADER_BYTES
    }

    /// The finished buffer, padded to whole sectors; the header is still to be written.
    pub(crate) fn into_frame(mut self) -> AlignedBuf {
        self.pad_to(self.buf.len().next_multiple_of(SECTOR));
        self.buf
    }
}

/// The frames that wait for a write slot, the last of them open, and buffers for more. Guarded by the lane's `state`.
pub(crate) struct Gathering {
    waiting: VecDeque<Gather>,
    /// What the next record will be called.
    next_lsn: Lsn,
    spare: Vec<AlignedBuf>,
}

impl Gathering {
    /// Nothing, and what the first record will be called.
    pub(crate) fn new(next_lsn: Lsn) -> Self {
        Self { waiting: VecDeque::new(), next_lsn, spare: Vec::new() }
    }

    /// Copies a record into the open frame, or into a new one if that is full. Says whether it began a frame.
    pub(crate) fn push(
        &mut self,
        clock: &dyn Clock,
        frame_bytes_max: u64,
        head: &RecordHead,
        parts: &[&[u8]],
        charge: u64,
    ) -> bool {
        let body_bytes = parts.iter().map(|part| part.len()).sum();
        let has_room = |open: &Gather| frame_bytes(open.payload_bytes() + record_bytes(body_bytes)) <= frame_bytes_max;
        let begins = !self.waiting.back().is_some_and(has_room);
        if begins {
            let frame = self.empty(clock.monotonic());
            self.waiting.push_back(frame);
        }
        let open = self.waiting.back_mut().expect("there is an open frame by now");
        open.push(head, parts, body_bytes);
        open.charged += charge;
        self.next_lsn = self.next_lsn.next();
        assert!(open.charged >= open.payload_bytes() as u64, "records are charged at least what they take");
        begins
    }

    /// A frame without records, which begins with the next one.
    pub(crate) fn empty(&mut self, now: Duration) -> Gather {
        let buf = self.spare.pop().unwrap_or_else(|| AlignedBuf::with_capacity(FIRST_BYTES));
        Gather::new(buf, self.next_lsn, now)
    }

    /// Takes the oldest frame; the next record opens a new one if it was the last.
    pub(crate) fn pop(&mut self) -> Option<Gather> {
        self.waiting.pop_front()
    }

    /// Ring bytes that all that waits was charged.
    pub(crate) fn charged(&self) -> u64 {
        self.waiting.iter().map(|frame| frame.charged).sum()
    }

    /// What the next record will be called.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next_lsn
    }

    /// LSN of the first record that waits, or else of the next one.
    pub(crate) fn first_lsn(&self) -> Lsn {
        self.waiting.front().map_or(self.next_lsn, |frame| frame.first_lsn)
    }

    /// When the first record that waits came.
    pub(crate) fn began(&self) -> Option<Duration> {
        self.waiting.front().map(|frame| frame.began)
    }

    /// Whether a whole frame waits behind which another one has begun.
    pub(crate) fn has_full(&self) -> bool {
        self.waiting.len() > 1
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a written buffer back.
    pub(crate) fn recycle(&mut self, buf: AlignedBuf) {
        if self.spare.len() < SPARE_COUNT_MAX && buf.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(buf);
        }
    }

    /// Forgets all that waits: the lane has failed. Returns what its records were charged.
    pub(crate) fn discard(&mut self) -> u64 {
        let charged = self.charged();
        self.waiting.clear();
        charged
    }

    /// Each frame begins where the one before it ends, and the last ends with the newest record.
    pub(crate) fn invariant(&self) {
        let ends = self.waiting.iter().skip(1).map(|frame| frame.first_lsn).chain([self.next_lsn]);
        debug_assert!(
            self.waiting.iter().zip(ends).all(|(frame, end)| frame.end_lsn() == end && frame.first_lsn < end)
        );
    }
}

#[cfg(test)]
mod tests {
    use tally_base::{DatasetId, Dseq};

    use super::*;

    #[test]
    fn the_frame_of_the_longest_write_is_copied_once_and_its_buffer_kept() {
        let mut gathering = Gathering::new(Lsn(1));
        let head = RecordHead { dataset: DatasetId(1), dseq: Dseq(1), txg: Txg(1), kind: 1, shape: Default::default() };
        let mut frame = gathering.empty(Duration::ZERO);
        frame.push(&head, &[&[1; 100]], 100);
        let data = vec![2; 1 << 20];
        frame.push(&head, &[&[3; 200], &data], 200 + data.len());
        let place = frame.buf.as_ptr();
        let buf = frame.into_frame();
        assert_eq!(buf.as_ptr(), place, "moved for its padding");
        gathering.recycle(buf);
        assert_eq!(gathering.spare.len(), 1, "given back, and mapped anew for the next one");
    }
}
