use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{Lsn, Rng};

/// A lane's line in the uberblock: where its live part begins and what it must contain.
///
/// ```text
///   0 ┌──────────────────────────────────────────────┐
///     │ epoch                                     16 │
///  16 ├───────────────────────┬──────────────────────┤
///     │ tail_pos            8 │ tail_seq           8 │
///  32 ├───────────────────────┼──────────────────────┤
///     │ tail_prev           8 │ next_lsn           8 │
///  48 ├───────────────────────┼───────┬──────────────┘
///     │ durable_lsn         8 │ clean │
///  57 └───────────────────────┴───────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The life of the ring; frames of another one are not there.
    pub epoch: u128,
    /// Where the first live frame is, or would be.
    pub tail_pos: u64,
    /// Sequence number of that frame, 1 at least.
    pub tail_seq: u64,
    /// The checksum of the header before it. Random in a fresh ring, so that no frame of an earlier life can
    /// continue from it.
    pub tail_prev: u64,
    /// LSN of the first record of that frame.
    pub next_lsn: Lsn,
    /// The watermark when the uberblock was made: a witness (rules F7).
    pub durable_lsn: Lsn,
    /// The pool was exported with an empty ring. Set by the pool; recovery only remarks on a contradiction.
    pub clean: bool,
}

impl Checkpoint {
    /// An empty ring in a new life: what a new lane and a lane after its replay start from.
    #[must_use]
    pub fn fresh(rng: &dyn Rng) -> Self {
        Self {
            epoch: rng.next_u128(),
            tail_pos: 0,
            tail_seq: 1,
            tail_prev: rng.next_u64(),
            next_lsn: Lsn(1),
            durable_lsn: Lsn(0),
            clean: false,
        }
    }

    /// Appends the 57 bytes drawn above.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.tail_seq > 0 && self.next_lsn > Lsn(0), "frames and records are numbered from 1");
        let start = out.len();
        out.put_u128(self.epoch);
        out.put_u64(self.tail_pos);
        out.put_u64(self.tail_seq);
        out.put_u64(self.tail_prev);
        out.put_u64(self.next_lsn.0);
        out.put_u64(self.durable_lsn.0);
        out.put_u8(u8::from(self.clean));
        let read = Self::decode(&mut Reader::new(&out[start..], "checkpoint"));
        debug_assert_eq!(read.as_ref(), Ok(self), "what is written is what will be read");
    }

    /// Reads what [`Checkpoint::encode`] wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let checkpoint = Self {
            epoch: r.u128()?,
            tail_pos: r.u64()?,
            tail_seq: r.u64()?,
            tail_prev: r.u64()?,
            next_lsn: Lsn(r.u64()?),
            durable_lsn: Lsn(r.u64()?),
            clean: r.u8()? != 0,
        };
        // The counters start near zero; values near the end of their range would overflow in later sums.
        let sane = [checkpoint.tail_pos, checkpoint.tail_seq, checkpoint.next_lsn.0, checkpoint.durable_lsn.0];
        let sane = sane.into_iter().all(|counter| counter < 1 << 62)
            && checkpoint.tail_pos.is_multiple_of(tally_base::SECTOR as u64)
            && checkpoint.tail_seq > 0
            && checkpoint.next_lsn.0 > 0;
        if sane { Ok(checkpoint) } else { Err(r.malformed()) }
    }
}
