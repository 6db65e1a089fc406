//! Rings of the intent log: frames with their headers and records, as recovery and inspection walk them.
//!
//! An input is a list of frames. Each has a control byte, a header, and a payload; where the control byte asks for it the
//! header is made to continue the chain, so that the fuzzer gets far into a ring, and everywhere else its own numbers
//! stand.
//!
//! ```text
//!   0        1        2         3                    per frame:
//!   +--------+--------+---------+----- ... ----+     +---------+------------+----------------+---------+
//!   | legs   | tail   | witness | frames       |     | control | header 128 | payload bytes 2 | payload |
//!   +--------+--------+---------+----- ... ----+     +---------+------------+----------------+---------+
//! ```

use std::io;
use std::sync::Arc;

use tally_base::{DatasetId, Dseq, LaneId, Lsn, PoolGuid, SECTOR, Txg, VdevGuid, log_checksum};
use tally_disk::{Disk, Durability, Geometry, Helpers, SerialFanout};
use tally_intent::recovery::{Cursor, LaneScan, Verdict, list_frames, merge, scan};
use tally_intent::{Checkpoint, LaneConfig, LaneFailed, LaneGeometry, Leg, StaleLeg};

use crate::heap;
use crate::input::Input;

/// The smallest ring: eight frames of the shortest Fmax.
const RING_BYTES: usize = 64 << 10;
const FRAME_BYTES_MAX: usize = RING_BYTES / 8;
pub(crate) const HEADER_BYTES: usize = 136;
/// The header without its checksum.
pub(crate) const FIELD_BYTES: usize = 128;

pub(crate) const POOL: PoolGuid = PoolGuid(0xfa11);
pub(crate) const LANE: LaneId = LaneId(0);
pub(crate) const EPOCH: u128 = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
const TAIL_PREV: u64 = 77;

/// A bit of the first byte: what inspection does, which takes as long as everything else.
const IS_LISTED: u8 = 128;

/// Bits of a control byte.
pub(crate) const CONTINUES: u8 = 1;
const PAYLOAD_IS_BAD: u8 = 2;
const HEADER_IS_BAD: u8 = 4;
const NOT_ON_FIRST: u8 = 8;
const NOT_ON_SECOND: u8 = 16;
/// The place of the frame stays empty, and the chain goes on behind it.
const IS_LOST: u8 = 32;

/// Fields of a header, by the drawing in `tally_intent`'s `frame`.
pub(crate) mod at {
    pub(crate) const RECORD_COUNT: usize = 12;
    pub(crate) const POOL: usize = 16;
    pub(crate) const LANE: usize = 24;
    pub(crate) const EPOCH: usize = 32;
    pub(crate) const POS: usize = 56;
    pub(crate) const SEQ: usize = 64;
    pub(crate) const PREV: usize = 72;
    pub(crate) const FIRST_LSN: usize = 80;
    pub(crate) const DURABLE_LSN: usize = 88;
    pub(crate) const TXG_MAX: usize = 104;
    pub(crate) const PAYLOAD_BYTES: usize = 112;
    pub(crate) const PAYLOAD_CHECKSUM: usize = 120;
}

/// Two legs' rings are read whole, and walked twice; payloads are kept once more for each record.
const HEAP_BYTES: usize = 16 << 20;

/// See the module's head.
pub(crate) fn ring(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES, || {
        let mut input = Input::new(data);
        let (legs, tail, witness) = (input.u8(), input.u8(), input.u8());
        let geometry = LaneGeometry::for_size(RING_BYTES as u64);
        let checkpoint = Checkpoint {
            epoch: EPOCH,
            tail_pos: u64::from(tail) * SECTOR as u64,
            tail_seq: 5,
            tail_prev: TAIL_PREV,
            next_lsn: Lsn(9),
            durable_lsn: Lsn(u64::from(witness)),
            clean: legs & 4 != 0,
        };
        let rings = Rings::written(&mut input, &checkpoint);
        let config = config(rings.bytes, legs, geometry);
        if legs & IS_LISTED != 0 {
            for frame in list_frames(&config, &checkpoint) {
                assert!(frame.offset + frame.header.frame_bytes() <= geometry.size, "a frame lies in its ring");
            }
        }
        let Ok(found) = scan(&config, &checkpoint, &mut |_| {}) else { return false };
        check(&found, &checkpoint);
        let has_records = !found.records.is_empty();
        let cursor = |id: DatasetId| {
            let next_dseq = (id.0.is_multiple_of(2)).then_some(Dseq(1));
            (id.0 != 3).then_some(Cursor { log_txg: Txg(3), replay_dseq: Dseq(2), next_dseq })
        };
        if let Ok(merged) = merge(vec![found], &cursor) {
            for replay in merged.datasets.values() {
                let in_order = replay.records.is_sorted_by(|one, next| one.head.dseq < next.head.dseq);
                assert!(in_order, "what is replayed is in the order of the dataset's history");
            }
        }
        has_records
    })
}

/// What recovery promises of whatever it finds.
fn check(found: &LaneScan, checkpoint: &Checkpoint) {
    assert!(found.witness >= checkpoint.durable_lsn, "the uberblock is a witness, too");
    let rises = found.records.is_sorted_by(|one, next| one.lsn < next.lsn);
    assert!(rises && found.records.iter().all(|record| record.lsn >= checkpoint.next_lsn), "records are in order");
    if let Verdict::Cut { last, .. } = found.verdict {
        assert!(found.witness <= last, "nothing that was witnessed is cut");
        let count = last.0 + 1 - checkpoint.next_lsn.0;
        assert_eq!(found.records.len() as u64, count, "up to the cut every record is there");
    }
}

struct Rings {
    bytes: [Vec<u8>; 2],
    /// Where the next frame belongs, and what it must say.
    pos: u64,
    seq: u64,
    prev: u64,
    lsn: u64,
}

impl Rings {
    fn written(input: &mut Input<'_>, checkpoint: &Checkpoint) -> Self {
        let bytes = [vec![0; RING_BYTES], vec![0; RING_BYTES]];
        let Checkpoint { tail_pos: pos, tail_seq: seq, tail_prev: prev, next_lsn, .. } = *checkpoint;
        let mut rings = Self { bytes, pos: placed(pos), seq, prev, lsn: next_lsn.0 };
        while !input.is_empty() {
            rings.add(input);
        }
        rings
    }

    fn add(&mut self, input: &mut Input<'_>) {
        let control = input.u8();
        let mut frame = input.bytes(FIELD_BYTES).to_vec();
        frame.resize(HEADER_BYTES, 0);
        frame.extend_from_slice(input.blob());
        frame.truncate(FRAME_BYTES_MAX);
        if control & CONTINUES != 0 {
            for (at, number) in [
                (at::POOL, POOL.0),
                (at::LANE, LANE.0),
                (at::POS, self.pos),
                (at::SEQ, self.seq),
                (at::PREV, self.prev),
                (at::FIRST_LSN, self.lsn),
            ] {
                put(&mut frame, at, &number.to_le_bytes());
            }
            put(&mut frame, at::EPOCH, &EPOCH.to_le_bytes());
        }
        let checksum = seal(&mut frame);
        if control & PAYLOAD_IS_BAD != 0
            && let Some(byte) = frame.get_mut(HEADER_BYTES)
        {
            *byte ^= 1;
        }
        if control & HEADER_IS_BAD != 0 {
            frame[at::SEQ] ^= 1;
        }
        let place = (number(&frame, at::POS) % RING_BYTES as u64) as usize;
        for (ring, mask) in self.bytes.iter_mut().zip([NOT_ON_FIRST, NOT_ON_SECOND]) {
            if control & (mask | IS_LOST) == 0 {
                let room = &mut ring[place..];
                let count = room.len().min(frame.len());
                room[..count].copy_from_slice(&frame[..count]);
            }
        }
        let count = u32::from_le_bytes(frame[at::RECORD_COUNT..at::RECORD_COUNT + 4].try_into().expect("four bytes"));
        self.pos = placed(self.pos + frame.len().next_multiple_of(SECTOR) as u64);
        self.seq += 1;
        self.prev = checksum;
        self.lsn = self.lsn.wrapping_add(u64::from(count));
    }
}

/// Where a frame begins when the one before it ended at `pos`.
fn placed(pos: u64) -> u64 {
    let left = RING_BYTES as u64 - pos % RING_BYTES as u64;
    if left < FRAME_BYTES_MAX as u64 { pos + left } else { pos }
}

pub(crate) fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
}

pub(crate) fn number(frame: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(frame[at..at + 8].try_into().expect("eight bytes"))
}

/// Sets length and checksums of a frame right; gives the header's.
pub(crate) fn seal(frame: &mut [u8]) -> u64 {
    let (header, payload) = frame.split_at_mut(HEADER_BYTES);
    put(header, 0, b"tallyfrm");
    put(header, at::PAYLOAD_BYTES, &(payload.len() as u32).to_le_bytes());
    put(header, at::PAYLOAD_CHECKSUM, &log_checksum(payload).to_le_bytes());
    let checksum = log_checksum(&header[..FIELD_BYTES]);
    put(header, FIELD_BYTES, &checksum.to_le_bytes());
    checksum
}

/// One leg or two; with bit 1 of `legs` the second has left the set.
fn config(rings: [Vec<u8>; 2], legs: u8, geometry: LaneGeometry) -> LaneConfig {
    let mut all = rings.into_iter().zip(1..).map(|(bytes, guid)| Leg {
        guid: VdevGuid(guid),
        disk: Arc::new(Ring(bytes)) as Arc<dyn Disk>,
        start: 0,
    });
    let mut set: Vec<Leg> = all.by_ref().take(1).collect();
    let mut stale_legs = Vec::new();
    match legs & 3 {
        0 => {}
        1 => set.extend(all),
        _ => stale_legs.extend(all.map(|leg| StaleLeg { leg, legset_gen_last: u64::from(legs >> 3) })),
    }
    LaneConfig {
        pool: POOL,
        lane: LANE,
        geometry,
        legset_gen: 1,
        legs: set,
        stale_legs,
        fanout: Arc::new(SerialFanout),
        helpers: Helpers::Serial,
        leg_failed: Arc::new(|_, _| Err(LaneFailed::Closed { lane: LANE })),
    }
}

/// A disk that is a ring and nothing else.
struct Ring(Vec<u8>);

impl Disk for Ring {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = self.0.get(start..start.saturating_add(buf.len())).ok_or(io::ErrorKind::InvalidInput)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8], _: Durability) -> io::Result<()> {
        panic!("recovery writes nothing")
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        panic!("recovery writes nothing")
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: self.0.len() as u64, rotational: false, write_through: true }
    }
}
