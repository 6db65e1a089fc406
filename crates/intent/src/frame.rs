//! Frames: what one device write of the log carries, and the only thing a ring is made of.
//!
//! A frame describes itself completely, so that recovery can judge any 4 KiB sector of a ring without
//! knowing where a frame begins. A copy of a frame elsewhere (an older lap, or a client's file that happens
//! to contain a log image) fails on `pos`; a frame of an earlier life of the ring fails on `epoch`. Header
//! and payload are checksummed apart, so that a frame whose payload is damaged still bears witness: its
//! `durable_lsn` says which records were durable when it was submitted (rules F7).
//!
//! ```text
//!   0 ┌────────────────────────────┬──────────────┬──────────────┐
//!     │ magic "tallyfrm"         8 │ version    4 │ records    4 │
//!  16 ├────────────────────────────┼──────────────┴──────────────┤
//!     │ pool guid                8 │ lane                      8 │
//!  32 ├────────────────────────────┴─────────────────────────────┤
//!     │ epoch                                                 16 │
//!  48 ├────────────────────────────┬─────────────────────────────┤
//!     │ legset_gen               8 │ pos                       8 │   pos = lap × ring size + offset
//!  64 ├────────────────────────────┼─────────────────────────────┤
//!     │ seq                      8 │ prev                      8 │   prev = checksum of the header before
//!  80 ├────────────────────────────┼─────────────────────────────┤
//!     │ first_lsn                8 │ durable_lsn               8 │   the watermark at submission
//!  96 ├────────────────────────────┼─────────────────────────────┤
//!     │ synced_txg               8 │ txg_max                   8 │   newest uberblock; newest record
//! 112 ├──────────────┬─────────────┼─────────────────────────────┤
//!     │ payload    4 │ zero      4 │ payload checksum          8 │
//! 128 ├──────────────┴─────────────┼─────────────────────────────┘
//!     │ header checksum          8 │   over bytes 0..128
//! 136 ├────────────────────────────┴─────────────────────────────┐
//!     │ records …, then zeroes up to the next sector             │
//!     └──────────────────────────────────────────────────────────┘
//!
//! record
//!   0 ┌──────────────┬──────┬──────┬─────────────────────────────┐
//!     │ body bytes 4 │ kind │ f, f │ dataset                   8 │   f, f: form u8, flags u8, both 0
//!  16 ├──────────────┴──────┴──────┼─────────────────────────────┤
//!     │ dseq                     8 │ txg                       8 │
//!  32 ├────────────────────────────┴─────────────────────────────┤
//!     │ body, then zeroes up to the next multiple of 8           │
//!     └──────────────────────────────────────────────────────────┘
//! ```
//!
//! All numbers are little-endian. The n-th record (from 0) of a frame has the LSN `first_lsn + n`. A frame
//! without records is a **seal** (rules F27): it is there for its `durable_lsn` alone.

use tally_base::codec::{Malformed, Reader};
use tally_base::{DatasetId, Dseq, LaneId, Lsn, PoolGuid, SECTOR, Txg, log_checksum, round_to_sector};

const MAGIC: u64 = u64::from_le_bytes(*b"tallyfrm");
/// That of the pool's format: a frame of another one is none.
const VERSION: u32 = 2;
const HEADER_CHECKSUM_AT: usize = 128;

/// Bytes of a frame before its first record.
pub(crate) const HEADER_BYTES: usize = 136;
/// Bytes of a record before its body.
pub(crate) const RECORD_HEAD_BYTES: usize = 32;
/// Records start on multiples of this, so that a reader in a debugger finds them and copies are aligned.
const RECORD_ALIGN: usize = 8;

/// Numbers of groups and records start near zero and stay below this: later sums would overflow.
const COUNTER_END: u64 = 1 << 62;

const _: () = assert!(HEADER_CHECKSUM_AT + 8 == HEADER_BYTES);
const _: () = assert!(HEADER_BYTES.is_multiple_of(RECORD_ALIGN) && RECORD_HEAD_BYTES.is_multiple_of(RECORD_ALIGN));
const _: () = assert!(HEADER_BYTES < SECTOR);

/// What the log must know of a record to order, trim and skip it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// Whose history it is part of.
    pub dataset: DatasetId,
    /// Its place in that history (rules F2).
    pub dseq: Dseq,
    /// The transaction group that will make it superfluous.
    pub txg: Txg,
    /// What the owner of the body calls it; opaque here.
    pub kind: u16,
    /// How the body is to be read, where that does not follow from its kind.
    pub shape: RecordShape,
}

/// How a record's body is encoded. Opaque here: what a newer program has written is found, ordered and skipped like others, and
/// whoever would have to understand it refuses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordShape {
    /// Layout of the body; 0 is the first one.
    pub form: u8,
    /// What was done to it; bit 0 is kept for bodies that are sealed.
    pub flags: u8,
}

impl RecordShape {
    /// The owner's encoding as it is.
    pub const PLAIN: Self = Self { form: 0, flags: 0 };
}

/// What the owner of a body says of it, so that a program that does not know that is told before it reads the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordName {
    /// What it is called.
    pub kind: u16,
    /// How it is encoded.
    pub shape: RecordShape,
}

impl From<u16> for RecordName {
    fn from(kind: u16) -> Self {
        Self { kind, shape: RecordShape::PLAIN }
    }
}

/// Bytes that a record takes in a frame.
pub(crate) const fn record_bytes(body_bytes: usize) -> usize {
    RECORD_HEAD_BYTES + body_bytes.next_multiple_of(RECORD_ALIGN)
}

/// Bytes that a frame with so much payload takes in the ring.
pub(crate) const fn frame_bytes(payload_bytes: usize) -> u64 {
    round_to_sector((HEADER_BYTES + payload_bytes) as u64)
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The pool that wrote it.
    pub pool: PoolGuid,
    /// The lane that it belongs to.
    pub lane: LaneId,
    /// The life of the ring: random, new whenever the ring starts empty (rules F6).
    pub epoch: u128,
    /// Which set of legs it was written to.
    pub legset_gen: u64,
    /// Absolute position: laps of the ring before it, in bytes, plus its offset.
    pub pos: u64,
    /// Dense from the start of the epoch.
    pub seq: u64,
    /// Checksum of the header before it.
    pub prev: u64,
    /// LSN of its first record; of a seal, the LSN that the next record will get.
    pub first_lsn: Lsn,
    /// Records in it; none in a seal.
    pub record_count: u32,
    /// Every record up to here was durable when this frame was submitted.
    pub durable_lsn: Lsn,
    /// The newest uberblock that was durable when this frame was submitted.
    pub synced_txg: Txg,
    /// The newest transaction group among its records; 0 in a seal.
    pub txg_max: Txg,
    /// Bytes of its records.
    pub payload_bytes: u32,
    /// Checksum of the `payload_bytes` behind the header.
    pub payload_checksum: u64,
}

impl FrameHeader {
    /// LSN of the record after the last one of this frame.
    #[must_use]
    pub fn lsn_end(&self) -> Lsn {
        // Decoding refuses a sum that does not fit.
        Lsn(self.first_lsn.0 + u64::from(self.record_count))
    }

    /// Bytes that the frame takes in the ring.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        frame_bytes(self.payload_bytes as usize)
    }

    /// Whether it carries no records.
    #[must_use]
    pub fn is_seal(&self) -> bool {
        self.record_count == 0
    }

    /// Writes the header over the first bytes of `frame` and returns its checksum, by which the next frame
    /// will name it.
    pub(crate) fn encode(&self, frame: &mut [u8]) -> u64 {
        let header = frame.first_chunk_mut::<HEADER_BYTES>().expect("a frame begins with room for its header");
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC.to_le_bytes());
        put(&VERSION.to_le_bytes());
        put(&self.record_count.to_le_bytes());
        put(&self.pool.0.to_le_bytes());
        put(&self.lane.0.to_le_bytes());
        put(&self.epoch.to_le_bytes());
        for number in [self.legset_gen, self.pos, self.seq, self.prev, self.first_lsn.0, self.durable_lsn.0] {
            put(&number.to_le_bytes());
        }
        put(&self.synced_txg.0.to_le_bytes());
        put(&self.txg_max.0.to_le_bytes());
        put(&self.payload_bytes.to_le_bytes());
        put(&[0; 4]);
        put(&self.payload_checksum.to_le_bytes());
        assert_eq!(at, HEADER_CHECKSUM_AT, "the fields fill the header");
        let checksum = log_checksum(&header[..HEADER_CHECKSUM_AT]);
        header[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// Reads a header from the start of a sector, with its checksum. `None`: there is no sound header here.
    #[must_use]
    pub fn decode(sector: &[u8]) -> Option<(Self, u64)> {
        let header = sector.first_chunk::<HEADER_BYTES>()?;
        if header.first_chunk::<8>() != Some(&MAGIC.to_le_bytes()) {
            return None;
        }
        let (fields, checksum) = header.split_last_chunk::<8>()?;
        let checksum = u64::from_le_bytes(*checksum);
        if log_checksum(fields) != checksum {
            return None;
        }
        Some((Self::decode_fields(fields).ok()?, checksum))
    }

    fn decode_fields(fields: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(fields, "frame header");
        let _magic = r.u64()?;
        if r.u32()? != VERSION {
            return Err(r.malformed());
        }
        let record_count = r.u32()?;
        let header = Self {
            record_count,
            pool: PoolGuid(r.u64()?),
            lane: LaneId(r.u64()?),
            epoch: r.u128()?,
            legset_gen: r.u64()?,
            pos: r.u64()?,
            seq: r.u64()?,
            prev: r.u64()?,
            first_lsn: Lsn(r.u64()?),
            durable_lsn: Lsn(r.u64()?),
            synced_txg: Txg(r.u64()?),
            txg_max: Txg(r.u64()?),
            payload_bytes: r.u32()?,
            payload_checksum: {
                r.u32()?;
                r.u64()?
            },
        };
        let plausible = header.first_lsn.0.checked_add(u64::from(record_count)).is_some()
            && header.seq < u64::MAX
            && header.pos.checked_add(header.frame_bytes()).is_some()
            && u64::from(record_count) * RECORD_HEAD_BYTES as u64 <= u64::from(header.payload_bytes)
            && header.durable_lsn < header.first_lsn
            && header.synced_txg.0 < COUNTER_END
            && header.txg_max.0 < COUNTER_END;
        if plausible { Ok(header) } else { Err(r.malformed()) }
    }
}

/// Writes a record's head. The caller appends the body and the padding.
pub(crate) fn encode_record_head(head: &RecordHead, body_bytes: u32) -> [u8; RECORD_HEAD_BYTES] {
    let mut bytes = [0; RECORD_HEAD_BYTES];
    bytes[0..4].copy_from_slice(&body_bytes.to_le_bytes());
    bytes[4..6].copy_from_slice(&head.kind.to_le_bytes());
    bytes[6..8].copy_from_slice(&[head.shape.form, head.shape.flags]);
    bytes[8..16].copy_from_slice(&head.dataset.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&head.dseq.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&head.txg.0.to_le_bytes());
    bytes
}

/// Walks the records of a payload whose checksum was right. `found` gets each head and where its body lies
/// in the payload.
pub(crate) fn decode_records(
    header: &FrameHeader,
    payload: &[u8],
    mut found: impl FnMut(Lsn, RecordHead, std::ops::Range<usize>),
) -> Result<(), Malformed> {
    let mut r = Reader::new(payload, "frame payload");
    for index in 0..u64::from(header.record_count) {
        let body_bytes = r.u32()? as usize;
        let kind = r.u16()?;
        let shape = RecordShape { form: r.u8()?, flags: r.u8()? };
        let (dataset, dseq, txg) = (DatasetId(r.u64()?), Dseq(r.u64()?), Txg(r.u64()?));
        let head = RecordHead { kind, shape, dataset, dseq, txg };
        if head.dseq.0 >= COUNTER_END || head.txg.0 >= COUNTER_END {
            return Err(r.malformed());
        }
        let body_start = payload.len() - r.rest().len();
        r.bytes(body_bytes.checked_next_multiple_of(RECORD_ALIGN).ok_or(r.malformed())?)?;
        found(Lsn(header.first_lsn.0 + index), head, body_start..body_start + body_bytes);
    }
    r.end()
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
