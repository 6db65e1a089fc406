//! The uberblock: the one commit point of a transaction group. What hangs from its root is the pool.
//!
//! Each leg holds two copies of the last sixteen, one in each label, in slots of 4 KiB. A write of one can be torn only
//! inside the new one, and the three before it are sixteen KiB away and more: a device whose own sectors are that long, and
//! that loses one of them while it writes a part of it, takes none of those along. Which of all copies holds is decided in
//! `choose`.
//!
//! ```text
//!    0 ┌──────────────────────────────┐  64 ┌──────────────────────────────────┐
//!      │ magic "TALLYUBR"           8 │     │ config_sequence                8 │
//!    8 ├──────────────────────────────┤  72 ├──────────────────────────────────┤
//!      │ version 4 │ clean 1 │ zero 3 │     │ root length 4 │ lane count     4 │
//!   16 ├──────────────────────────────┤  80 ├──────────────────────────────────┤
//!      │ pool guid                  8 │     │ root: block pointer and what the │
//!   24 ├──────────────────────────────┤     │ pool wants beside it      ≤ 1024 │
//!      │ open_gen                   8 │     ├──────────────────────────────────┤
//!   32 ├──────────────────────────────┤     │ per lane: lane 8, checkpoint 57  │
//!      │ txg                        8 │     │                     (at most 32) │
//!   40 ├──────────────────────────────┤     ├──────────────────────────────────┤
//!      │ hash of the one before     8 │     │ zeroes                           │
//!   48 ├──────────────────────────────┤ 4088├──────────────────────────────────┤
//!      │ time                       8 │     │ crc-64 of bytes 0..4088        8 │
//!   56 ├──────────────────────────────┤ 4096└──────────────────────────────────┘
//!      │ time_lease                 8 │
//!   64 └──────────────────────────────┘
//! ```

use std::io;

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{LaneId, PoolGuid, SECTOR, Time, Txg, log_checksum};
use tally_disk::{AlignedBuf, Disk};
use tally_intent::Checkpoint;

use crate::label::{FORMAT_VERSION, LANES_MAX, UBERBLOCK_RING_OFFSET, label_offsets};

/// Uberblocks that each label keeps.
pub const UBERBLOCK_SLOTS: u64 = 16;
/// Successive groups whose uberblocks share no sector of a device.
const GROUPS_APART: u64 = 4;
/// The longest sector of a device that is reckoned with.
const DEVICE_SECTOR_BYTES: u64 = UBERBLOCK_SLOTS / GROUPS_APART * SECTOR as u64;
/// The longest root: a block pointer takes 64 bytes, the rest is for what should not cost a block of its own.
pub const ROOT_BYTES_MAX: usize = 1024;

const MAGIC: [u8; 8] = *b"TALLYUBR";
const WHAT: &str = "uberblock";
const HEADER_BYTES: usize = 80;
const LANE_BYTES: usize = 8 + 57;
const CHECKED_BYTES: usize = SECTOR - 8;

const _: () = assert!(HEADER_BYTES + ROOT_BYTES_MAX + LANES_MAX * LANE_BYTES <= CHECKED_BYTES);
const _: () = assert!(UBERBLOCK_RING_OFFSET + UBERBLOCK_SLOTS * SECTOR as u64 <= crate::label::LABEL_BYTES);

/// One commit of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uberblock {
    /// The pool whose commit it is.
    pub pool: PoolGuid,
    /// Generation of the import that wrote it (rules F8).
    pub open_gen: u64,
    /// The transaction group that it closes.
    pub txg: Txg,
    /// [`Uberblock::hash`] of the one before it.
    pub previous: u64,
    /// When it was made.
    pub time: Time,
    /// No server time at or above this has been issued (rules F14).
    pub time_lease: Time,
    /// The pool root, opaque here; at most [`ROOT_BYTES_MAX`].
    pub root: Vec<u8>,
    /// Where each lane of the intent log begins.
    pub lanes: Vec<(LaneId, Checkpoint)>,
    /// The pool was put away in good order: the lanes are empty.
    pub clean: bool,
    /// Sequence of the newest configuration when it was made.
    pub config_sequence: u64,
}

impl Uberblock {
    /// The sector that goes to disk.
    ///
    /// # Panics
    /// With a longer root or more lanes than fit: both are bounded where they are made.
    #[must_use]
    pub fn encode(&self) -> AlignedBuf {
        assert!(self.root.len() <= ROOT_BYTES_MAX, "the pool root takes {} bytes", self.root.len());
        assert!(self.lanes.len() <= LANES_MAX, "{} lanes", self.lanes.len());
        let mut bytes = Vec::with_capacity(SECTOR);
        bytes.put(&MAGIC);
        bytes.put_u32(FORMAT_VERSION);
        bytes.put_u8(u8::from(self.clean));
        bytes.put(&[0; 3]);
        bytes.put_u64(self.pool.0);
        bytes.put_u64(self.open_gen);
        bytes.put_u64(self.txg.0);
        bytes.put_u64(self.previous);
        bytes.put_u64(self.time.0);
        bytes.put_u64(self.time_lease.0);
        bytes.put_u64(self.config_sequence);
        bytes.put_u32(u32::try_from(self.root.len()).expect("at most 1024"));
        bytes.put_u32(u32::try_from(self.lanes.len()).expect("at most 32"));
        bytes.put(&self.root);
        for (lane, checkpoint) in &self.lanes {
            bytes.put_u64(lane.0);
            checkpoint.encode(&mut bytes);
        }
        bytes.resize(CHECKED_BYTES, 0);
        bytes.put_u64(log_checksum(&bytes));
        let mut sector = AlignedBuf::with_capacity(SECTOR);
        sector.extend_from_slice(&bytes);
        sector
    }

    /// Reads a sector.
    pub fn decode(sector: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed(WHAT);
        let (checked, checksum) = sector.split_at_checked(CHECKED_BYTES).ok_or(malformed)?;
        if checksum != log_checksum(checked).to_le_bytes() {
            return Err(malformed);
        }
        let mut reader = Reader::new(checked, WHAT);
        if reader.array::<8>()? != MAGIC {
            return Err(malformed);
        }
        if reader.u32()? != FORMAT_VERSION {
            return Err(Malformed("uberblock: of another format version"));
        }
        let clean = reader.u8()? != 0;
        reader.bytes(3)?;
        let pool = PoolGuid(reader.u64()?);
        let (open_gen, txg, previous) = (reader.u64()?, Txg(reader.u64()?), reader.u64()?);
        let (time, time_lease) = (Time(reader.u64()?), Time(reader.u64()?));
        let config_sequence = reader.u64()?;
        let root_bytes = usize::try_from(reader.u32()?).map_err(|_| malformed)?;
        let lane_count = usize::try_from(reader.u32()?).map_err(|_| malformed)?;
        // Counters near the end of their range would overflow in later sums; times end in 2262.
        let ended = txg.0 >= 1 << 62 || open_gen >= 1 << 62 || time.0 >= 1 << 63 || time_lease.0 >= 1 << 63;
        if root_bytes > ROOT_BYTES_MAX || lane_count > LANES_MAX || ended {
            return Err(malformed);
        }
        let root = reader.bytes(root_bytes)?.to_vec();
        let lanes = (0..lane_count)
            .map(|_| Ok((LaneId(reader.u64()?), Checkpoint::decode(&mut reader)?)))
            .collect::<Result<_, Malformed>>()?;
        Ok(Self { pool, open_gen, txg, previous, time, time_lease, root, lanes, clean, config_sequence })
    }

    /// Names this uberblock in its successor.
    #[must_use]
    pub fn hash(&self) -> u64 {
        // Without the stored CRC: a CRC over bytes and their own CRC is the same for all bytes.
        log_checksum(self.encode().split_at(CHECKED_BYTES).0)
    }

    /// Order among the uberblocks of one pool.
    #[must_use]
    pub fn rank(&self) -> (u64, Txg) {
        (self.open_gen, self.txg)
    }
}

/// Where the uberblock of `txg` lies on a disk of `size` bytes, once for each label.
#[must_use]
pub fn slot_offsets(size: u64, txg: Txg) -> Option<[u64; 2]> {
    let starts = label_offsets(size)?;
    Some(starts.map(|start| start + UBERBLOCK_RING_OFFSET + slot_offset(txg)))
}

/// Whether these two lie far enough from each other for a torn write of the one to leave the other.
#[must_use]
pub fn are_apart(one: Txg, other: Txg) -> bool {
    one.0 % GROUPS_APART != other.0 % GROUPS_APART
}

/// Four groups in a row go to four sectors of the device, and the next four behind them in the same ones.
fn slot_offset(txg: Txg) -> u64 {
    txg.0 % GROUPS_APART * DEVICE_SECTOR_BYTES + txg.0 / GROUPS_APART % GROUPS_APART * SECTOR as u64
}

/// One slot as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UberblockSlot {
    /// Which of the two labels.
    pub label: usize,
    /// Byte offset on the leg.
    pub offset: u64,
    /// The uberblock; `Ok(None)` if the slot was never written.
    pub content: Result<Option<Uberblock>, String>,
}

/// Every uberblock slot of a leg, in order.
#[must_use]
pub fn read_all(disk: &dyn Disk) -> Vec<UberblockSlot> {
    let mut slots = Vec::new();
    for (label, start) in label_offsets(disk.geometry().size).into_iter().flatten().enumerate() {
        for slot in 0..UBERBLOCK_SLOTS {
            let offset = start + UBERBLOCK_RING_OFFSET + slot * SECTOR as u64;
            let content = read_slot(disk, offset).map_err(|error| error.to_string());
            slots.push(UberblockSlot { label, offset, content: content.and_then(|found| found) });
        }
    }
    slots
}

fn read_slot(disk: &dyn Disk, offset: u64) -> io::Result<Result<Option<Uberblock>, String>> {
    let mut sector = AlignedBuf::zeroed(SECTOR);
    disk.read(offset, &mut sector)?;
    if sector[..] == [0; SECTOR] {
        return Ok(Ok(None));
    }
    Ok(Uberblock::decode(&sector).map(Some).map_err(|malformed| malformed.to_string()))
}

#[cfg(test)]
pub(crate) mod tests;
