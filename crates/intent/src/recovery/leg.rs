use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tally_base::{SECTOR, log_checksum, round_to_sector};
use tally_disk::{AlignedBuf, Begun, Helpers};

use crate::config::Leg;
use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::ring::LaneGeometry;

/// How much is read ahead: long enough that a disk streams, so that a ring of 1 GiB takes seconds.
const CHUNK_BYTES: u64 = 4 << 20;
/// How much is read where nothing was read before: most logs are short, and end in it.
const FIRST_BYTES: u64 = 128 << 10;
/// So many chunks are read at a time behind the one that is looked at.
const CHUNKS_AHEAD: usize = 2;

const _: () = assert!(CHUNK_BYTES.is_multiple_of(SECTOR as u64) && FIRST_BYTES.is_multiple_of(SECTOR as u64));

/// Reads one leg's copy of the ring, in long pieces, forward. Once a second piece follows the first, the next ones
/// are read by helpers meanwhile: half of the time of a long scan is the disk's.
pub(crate) struct LegReader<'a> {
    pub(super) leg: &'a Leg,
    /// Frames of later generations are not believed; `u64::MAX` for a leg of the set.
    pub(super) legset_gen_last: u64,
    geometry: LaneGeometry,
    helpers: Helpers,
    chunk: AlignedBuf,
    /// Offset of the chunk in the ring.
    chunk_offset: u64,
    /// The memory of chunks that are done with, for those that are read ahead.
    spare: Vec<AlignedBuf>,
    /// What is being read of the ring behind the chunk, in its order.
    ahead: VecDeque<Ahead>,
    /// Bytes that were asked for across the end of a chunk.
    across: Vec<u8>,
    /// Sectors and frames that could not be read.
    pub(super) unreadable_count: u64,
}

/// The next chunk on its way; nothing if it cannot be read.
type Ahead = Begun<Option<AlignedBuf>>;

/// What stands at a place of a ring.
#[derive(Clone, Debug)]
pub(crate) enum AtPlace {
    /// A whole frame, with its header's checksum and its records.
    Sound(FrameHeader, u64, Bytes),
    /// A sound header; the records behind it are damaged or cannot be read.
    PayloadBad(FrameHeader, u64),
    /// A sound header of this lane from another epoch.
    OtherEpoch(FrameHeader),
    /// Nothing that belongs here: never written, torn, an old lap, another lane, unreadable.
    Absent,
}

impl<'a> LegReader<'a> {
    pub(crate) fn new(leg: &'a Leg, legset_gen_last: u64, geometry: LaneGeometry, helpers: Helpers) -> Self {
        let chunk = AlignedBuf::with_capacity(0);
        Self {
            leg,
            legset_gen_last,
            geometry,
            helpers,
            chunk,
            chunk_offset: 0,
            spare: Vec::new(),
            ahead: VecDeque::new(),
            across: Vec::new(),
            unreadable_count: 0,
        }
    }

    /// `length` bytes at an offset of the ring; `None` if they cannot be read or lie beyond its end.
    pub(super) fn bytes(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.geometry.size)?;
        let is_here = self.chunk_offset <= offset && end <= self.chunk_end();
        if !is_here && self.advance(offset, end) {
            return Some(&self.across);
        }
        let is_here = self.chunk_offset <= offset && end <= self.chunk_end();
        if !is_here && !self.load(offset, length as u64) {
            self.unreadable_count += 1;
            return None;
        }
        let start = usize::try_from(offset - self.chunk_offset).ok()?;
        self.chunk.get(start..start.checked_add(length)?)
    }

    fn chunk_end(&self) -> u64 {
        self.chunk_offset + self.chunk.len() as u64
    }

    /// Goes on to the chunk that was read ahead, if that is where the bytes end. True: they began in the chunk before,
    /// and stand in `across`.
    fn advance(&mut self, offset: u64, end: u64) -> bool {
        let chunk_end = self.chunk_end();
        if !(self.chunk_offset..=chunk_end).contains(&offset) {
            self.ahead.clear();
            return false;
        }
        let Some(next) = self.ahead.pop_front().and_then(Begun::result).flatten() else { return false };
        let before = self.chunk.get((offset - self.chunk_offset) as usize..).unwrap_or_default();
        let rest = next.get(..end.saturating_sub(chunk_end) as usize).filter(|_| !before.is_empty());
        self.across.clear();
        if let Some(rest) = rest {
            self.across.extend_from_slice(before);
            self.across.extend_from_slice(rest);
        }
        let is_across = rest.is_some();
        self.spare.push(std::mem::replace(&mut self.chunk, next));
        self.chunk_offset = chunk_end;
        self.read_ahead();
        is_across
    }

    /// Starts to read what follows the chunk.
    fn read_ahead(&mut self) {
        while self.ahead.len() < CHUNKS_AHEAD {
            let offset = self.chunk_end() + self.ahead.len() as u64 * CHUNK_BYTES;
            let length = CHUNK_BYTES.min(self.geometry.size.saturating_sub(offset)) as usize;
            let Some(at) = self.leg.start.checked_add(offset).filter(|_| length > 0) else { return };
            let disk = Arc::clone(&self.leg.disk);
            let mut chunk = self.spare.pop().unwrap_or_else(|| AlignedBuf::with_capacity(0));
            chunk.resize(length);
            let read = move || disk.read(at, &mut chunk).is_ok().then_some(chunk);
            // Without a thread the bytes are read when they are asked for.
            let Some(read) = self.helpers.begin("log-read", read) else { return };
            self.ahead.push_back(read);
        }
    }

    /// Reads a chunk that begins at `offset`; where that fails, just the sectors that were asked for.
    fn load(&mut self, offset: u64, length: u64) -> bool {
        let length = round_to_sector(length);
        let goes_on = !self.chunk.is_empty() && (self.chunk_offset..=self.chunk_end()).contains(&offset);
        let left = self.geometry.size - offset;
        let ahead = length.max(if goes_on { CHUNK_BYTES } else { FIRST_BYTES }).min(left);
        if self.load_exactly(offset, ahead) {
            if goes_on && ahead == CHUNK_BYTES {
                self.read_ahead();
            }
            return true;
        }
        ahead > length && self.load_exactly(offset, length)
    }

    fn load_exactly(&mut self, offset: u64, length: u64) -> bool {
        let Ok(length) = usize::try_from(length) else { return false };
        let Some(at) = self.leg.start.checked_add(offset) else { return false };
        self.ahead.clear();
        self.chunk.resize(length);
        self.chunk_offset = offset;
        let is_read = self.leg.disk.read(at, &mut self.chunk).is_ok();
        if !is_read {
            self.chunk.clear();
        }
        is_read
    }

    /// The header at a position, if it is a sound one that may stand there.
    pub(super) fn header(&mut self, identity: &Identity, pos: u64) -> Option<(FrameHeader, u64)> {
        let gen_last = self.legset_gen_last;
        self.header_of_any_set(identity, pos).filter(|(header, _)| header.legset_gen <= gen_last)
    }

    /// The same, also of a generation to which the leg did not belong.
    pub(super) fn header_of_any_set(&mut self, identity: &Identity, pos: u64) -> Option<(FrameHeader, u64)> {
        let geometry = self.geometry;
        let offset = geometry.offset(pos);
        let (header, hash) = FrameHeader::decode(self.bytes(offset, SECTOR)?)?;
        let length = header.frame_bytes();
        let belongs = header.pool == identity.pool
            && header.lane == identity.lane
            && header.pos == pos
            && length <= u64::from(geometry.frame_bytes_max)
            && offset + length <= geometry.size;
        belongs.then_some((header, hash))
    }

    /// The header at the beginning of the ring, where each life begins, of whatever life it is.
    pub(super) fn first_header(&mut self, identity: &Identity) -> Option<FrameHeader> {
        let (header, _) = FrameHeader::decode(self.bytes(0, SECTOR)?)?;
        let belongs = header.pool == identity.pool && header.lane == identity.lane;
        (belongs && self.geometry.offset(header.pos) == 0).then_some(header)
    }

    /// What stands at a position.
    pub(crate) fn look_at(&mut self, identity: &Identity, pos: u64) -> AtPlace {
        let Some((header, hash)) = self.header(identity, pos) else { return AtPlace::Absent };
        if header.epoch != identity.epoch {
            return AtPlace::OtherEpoch(header);
        }
        let payload_bytes = header.payload_bytes as usize;
        let payload = self
            .bytes(self.geometry.offset(pos), HEADER_BYTES + payload_bytes)
            .and_then(|frame| frame.get(HEADER_BYTES..))
            .filter(|payload| log_checksum(payload) == header.payload_checksum);
        match payload {
            Some(payload) => AtPlace::Sound(header, hash, Bytes::copy_from_slice(payload)),
            None => AtPlace::PayloadBad(header, hash),
        }
    }
}

/// What every frame of a lane's present life says of itself.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) pool: tally_base::PoolGuid,
    pub(crate) lane: tally_base::LaneId,
    pub(crate) epoch: u128,
}
