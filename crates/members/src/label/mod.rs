//! Labels: what each leg says about itself and about the pool it belongs to.
//!
//! The problem: the configuration must be found before anything else can be read, must survive a torn write and the
//! loss of any leg, and has to change *between* transaction groups, when a leg drops out and the next
//! acknowledgement may not wait for a sync (rules F6).
//!
//! The idea: each leg has two labels, at its front and at its end, and each label two slots for the configuration.
//! Configuration number `s` goes to slot `s mod 2`, first of the front label, then of the one at the end, each
//! write durable before the next; so at every moment at least three of four slots are whole, and one of them is
//! either the newest or the one before. The newest valid slot speaks for the leg.
//!
//! ```text
//!  leg:     0            256 KiB                                    size − 256 KiB       size
//!           ├────────────┼─────────────── data area ────────────────┼────────────────────┤
//!           │  label 0   │  blocks, and where there is one the ring │      label 1       │
//!
//!  label:   0            64 KiB           128 KiB                   192 KiB         256 KiB
//!           ├────────────┼────────────────┼─────────────────────────┼───────────────┤
//!           │ config 0   │ config 1       │ uberblocks, 16 × 4 KiB  │ zero          │
//!
//!  config:  0 ┌────────────────────────────┐  56 ┌──────────────────────────────┐
//!             │ magic "TALLYLBL"         8 │     │ sequence                   8 │
//!           8 ├────────────────────────────┤  64 ├──────────────────────────────┤
//!             │ version 4 │ payload size 4 │     │ open_gen                   8 │
//!          16 ├────────────────────────────┤  72 ├──────────────────────────────┤
//!             │ pool guid                8 │     │ xxh3-128 of the payload   16 │
//!          24 ├────────────────────────────┤  88 ├──────────────────────────────┤
//!             │ guid of this leg         8 │     │ crc-64 of bytes 0..88      8 │
//!          32 ├────────────────────────────┤  96 ├──────────────────────────────┤
//!             │ compat, ro_compat,         │     │ payload: sections, then      │
//!             │ incompat            3 × 8  │     │ zeroes                       │
//!          56 └────────────────────────────┘     └──────────────────────────────┘
//! ```
//!
//! Version and features stand in the fixed part, so that a program too old for the payload can say so. How the payload is
//! made, and what becomes of a part of it that a program does not know, is told in [`sections`].

mod config;
mod encoding;
mod features;
mod hang_limit;
mod missed;
mod rewind;
mod room;
mod sections;
mod spare;
mod supplement;

use std::io;

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{PoolGuid, SECTOR, VdevGuid, block_checksum, log_checksum};
use tally_disk::{AlignedBuf, Disk, Durability};

pub use config::{LaneConfigLine, LegConfig, PoolConfig, PoolState, RingArea, VdevClass, VdevConfig, VdevKind};
pub use features::{
    FIRST_RELEASE, Feature, FeatureLine, FeatureNotes, FeatureSet, FeatureState, Features, KNOWN, KNOWN_FEATURES,
    NoRelease, Release, Usable, reserved, this_release,
};
use features::{PROGRAM, in_words, who_knows};
pub use hang_limit::{HANG_LIMIT_SECONDS_MAX, HangLimit};
pub use missed::{MISSED_RANGES_MAX, MissedGroups, TxgRange};
pub(crate) use rewind::REWINDS_MAX;
pub use rewind::Rewind;
pub(crate) use room::Need;
pub use sections::Section;
pub use spare::{SPARES_MAX, Spare};
pub use supplement::{FailMode, LossReport, Supplement};

/// Size of each of a leg's two labels.
pub const LABEL_BYTES: u64 = 256 << 10;
/// The format that this program writes and reads. There is no converter from the first one.
pub const FORMAT_VERSION: u32 = 2;
/// Where the uberblocks begin in a label.
pub const UBERBLOCK_RING_OFFSET: u64 = 128 << 10;

/// Most lanes of a pool: that many fit into an uberblock beside the longest root.
pub const LANES_MAX: usize = 32;

const CONFIG_SLOT_BYTES: u64 = 64 << 10;
/// Slots for the configuration in a label.
pub(crate) const CONFIG_SLOTS: u64 = 2;
const MAGIC: [u8; 8] = *b"TALLYLBL";
const HEADER_BYTES: usize = 96;
const HEADER_CHECKED_BYTES: usize = 88;
/// Two labels and one sector between them: less is not a leg.
const LEG_BYTES_MIN: u64 = 2 * LABEL_BYTES + SECTOR as u64;

const _: () = assert!(CONFIG_SLOTS * CONFIG_SLOT_BYTES <= UBERBLOCK_RING_OFFSET);

/// What a leg's newest valid slot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Which leg this is.
    pub leg: VdevGuid,
    /// The pool's configuration as far as this leg knows.
    pub config: PoolConfig,
}

impl Label {
    /// Whether this disk waits as a spare: it has nothing of the pool, and votes for nothing.
    #[must_use]
    pub fn is_spare(&self) -> bool {
        self.config.leg(self.leg).is_none() && self.config.spare(self.leg).is_some()
    }
}

/// Why a label could not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum LabelError {
    /// The device said no.
    #[error("a label could not be written: {0}")]
    Io(#[from] io::Error),
    /// Too many legs, or too long paths.
    #[error(
        "the pool's configuration would take {bytes} bytes, and its labels have room for {limit}; give the pool's disks \
         shorter paths, or detach some of them"
    )]
    TooLarge { bytes: usize, limit: usize },
    /// Something in it is beyond what a label can say.
    #[error("the pool's configuration cannot be encoded: it has {0}")]
    Encode(&'static str),
}

/// Why a leg's label cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum Unreadable {
    /// No slot begins as one: not a leg of any pool.
    #[error("there is no valid label")]
    NoLabel,
    /// There were labels, and none is whole.
    #[error(
        "its labels are damaged, and no copy of them is whole; its pool is imported from its other disks, and `tally inspect` shows \
         what is left here"
    )]
    Damaged,
    /// A label is whole, and what it says cannot be: a program has written it so.
    #[error(
        "its label says what cannot be, although its checksum is right ({0}): it was written so, by a bug or by a newer program; \
         give the pool's other disks, or import it with a newer program"
    )]
    Malformed(Malformed),
    /// The format is newer than this program.
    #[error("its label has format version {version}, and this program knows {FORMAT_VERSION}; use a newer program")]
    Version {
        /// What the label says.
        version: u32,
    },
    /// The format is older than what this program reads.
    #[error(
        "it was made by a version before 0.1.0, in format {version}, and this program cannot read that; copy its content \
         with the program that made it"
    )]
    OldVersion {
        /// What the label says.
        version: u32,
    },
    /// The label says something that the format has room for and this program no notion of.
    #[error("it has {what}, which this program does not know; use a newer program")]
    Beyond { what: String },
    /// A feature that this program does not know.
    #[error("it uses what {PROGRAM} does not know: {}; use {}", in_words(unknown), who_knows(unknown))]
    Features {
        /// Those of `incompat` that are not known.
        unknown: Vec<FeatureLine>,
    },
    #[error("its labels cannot be read: {0}; look again when it answers")]
    Io(String),
}

/// Size of the data area that a leg of `size` bytes can have; `None` if it is too small to be a leg.
#[must_use]
pub fn data_bytes_of(size: u64) -> Option<u64> {
    let size = size / SECTOR as u64 * SECTOR as u64;
    (size >= LEG_BYTES_MIN).then(|| size - 2 * LABEL_BYTES)
}

/// Where the two labels begin on a disk of `size` bytes. They cannot overlap on anything that is a leg.
pub(crate) fn label_offsets(size: u64) -> Option<[u64; 2]> {
    let size = size / SECTOR as u64 * SECTOR as u64;
    (size >= LEG_BYTES_MIN).then(|| [0, size - LABEL_BYTES])
}

/// The bytes of one slot: header and payload, padded to whole sectors.
pub fn encode(leg: VdevGuid, config: &PoolConfig) -> Result<AlignedBuf, LabelError> {
    let payload = encoding::encode(config)?;
    if payload.len() > room::PAYLOAD_BYTES_MAX {
        return Err(LabelError::TooLarge { bytes: payload.len(), limit: room::PAYLOAD_BYTES_MAX });
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.put(&MAGIC);
    bytes.put_u32(FORMAT_VERSION);
    bytes.put_u32(u32::try_from(payload.len()).expect("at most 64 KiB"));
    bytes.put_u64(config.pool.0);
    bytes.put_u64(leg.0);
    bytes.put_u64(config.features.compat);
    bytes.put_u64(config.features.ro_compat);
    bytes.put_u64(config.features.incompat);
    bytes.put_u64(config.sequence);
    bytes.put_u64(config.open_gen);
    bytes.put_u128(block_checksum(&payload));
    debug_assert_eq!(bytes.len(), HEADER_CHECKED_BYTES);
    bytes.put_u64(log_checksum(&bytes));
    bytes.put(&payload);
    let mut slot = AlignedBuf::with_capacity(bytes.len().next_multiple_of(SECTOR));
    slot.extend_from_slice(&bytes);
    slot.resize(bytes.len().next_multiple_of(SECTOR));
    Ok(slot)
}

/// Why a slot is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// It was never written, or somebody else has what stands there.
    #[error("malformed label: it does not begin as one")]
    NoLabel,
    /// It begins as one, and is not what was written.
    #[error("malformed label: its checksum is wrong")]
    Damaged,
    /// It is what was written, and that cannot be.
    #[error("{0}")]
    Impossible(#[from] Malformed),
    /// A program of another age wrote it.
    #[error("{0}")]
    Unknown(Unreadable),
}

/// Reads a slot; every length and number is checked before it is used.
pub fn decode(slot: &[u8]) -> Result<Label, Bad> {
    if !slot.starts_with(&MAGIC) {
        return Err(Bad::NoLabel);
    }
    let checked = slot.get(..HEADER_CHECKED_BYTES).ok_or(Bad::Damaged)?;
    let mut reader = Reader::new(slot, "label");
    reader.bytes(MAGIC.len())?;
    let version = reader.u32()?;
    let payload_bytes = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    let (pool, leg) = (PoolGuid(reader.u64()?), VdevGuid(reader.u64()?));
    let features = Features { compat: reader.u64()?, ro_compat: reader.u64()?, incompat: reader.u64()? };
    let (sequence, open_gen) = (reader.u64()?, reader.u64()?);
    let payload_checksum = reader.u128()?;
    if reader.u64() != Ok(log_checksum(checked)) {
        return Err(Bad::Damaged);
    }
    if version < FORMAT_VERSION {
        return Err(Bad::Unknown(Unreadable::OldVersion { version }));
    }
    if version > FORMAT_VERSION {
        return Err(Bad::Unknown(Unreadable::Version { version }));
    }
    if let Usable::No(bits) = features.usable_by(&KNOWN) {
        // Of the payload only that is read which is there for this case. If it is not there, the bits speak for themselves.
        let payload = reader.bytes(payload_bytes).ok().filter(|payload| block_checksum(payload) == payload_checksum);
        let notes = payload.and_then(encoding::feature_notes).unwrap_or_default();
        return Err(Bad::Unknown(Unreadable::Features { unknown: notes.tell(FeatureSet::Incompat, bits) }));
    }
    let payload = reader.bytes(payload_bytes)?;
    if block_checksum(payload) != payload_checksum {
        return Err(Bad::Damaged);
    }
    let of_header = PoolConfig { pool, features, sequence, open_gen, ..PoolConfig::default() };
    let config = encoding::decode(payload, of_header)?;
    config.check().map_err(Malformed)?;
    Ok(Label { leg, config })
}

/// One slot as it was found, for tools that show everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Which of the two labels.
    pub label: usize,
    /// Which slot in it.
    pub slot: u64,
    /// Byte offset on the leg.
    pub offset: u64,
    /// What it says, or why it says nothing; `Ok(None)` if it was never written.
    pub content: Result<Option<Label>, String>,
}

/// Every slot of a leg, valid or not.
#[must_use]
pub fn inspect(disk: &dyn Disk) -> Vec<SlotReport> {
    slots(disk)
        .map(|(label, slot, offset)| {
            let content = match read_slot_bytes(disk, offset) {
                Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => Ok(None),
                Ok(bytes) => decode(&bytes).map(Some).map_err(|bad| bad.to_string()),
                Err(error) => Err(error.to_string()),
            };
            SlotReport { label, slot, offset, content }
        })
        .collect()
}

/// What a leg says: its newest valid slot. Two valid slots of different pools or legs cannot be of one leg's life;
/// then the one with the higher rank speaks, as [`wipe`] leaves none of an earlier life behind.
pub fn read(disk: &dyn Disk) -> Result<Label, Unreadable> {
    let mut newest: Option<Label> = None;
    let (mut unknown, mut impossible, mut is_damaged) = (None, None, false);
    let (mut slot_count, mut errors) = (0, Vec::new());
    for (_, _, offset) in slots(disk) {
        slot_count += 1;
        match read_slot(disk, offset) {
            Ok(Ok(label)) => {
                if newest.as_ref().is_none_or(|best| best.config.rank() < label.config.rank()) {
                    newest = Some(label);
                }
            }
            Ok(Err(Bad::Unknown(unreadable))) => unknown = Some(unreadable),
            Ok(Err(Bad::Impossible(why))) => impossible = Some(why),
            Ok(Err(Bad::Damaged)) => is_damaged = true,
            Ok(Err(Bad::NoLabel)) => {}
            Err(error) => errors.push(error.to_string()),
        }
    }
    // A slot in another format means that another program had this pool, and what stands beside it is history.
    match (unknown, newest) {
        (Some(unreadable), _) => Err(unreadable),
        (None, Some(label)) => Ok(label),
        (None, None) if slot_count > 0 && errors.len() == slot_count => Err(Unreadable::Io(errors.swap_remove(0))),
        (None, None) => {
            let otherwise = if is_damaged { Unreadable::Damaged } else { Unreadable::NoLabel };
            Err(impossible.map_or(otherwise, Unreadable::Malformed))
        }
    }
}

/// Whether a label of this leg begins at `start`: one of its slots is valid there.
pub(crate) fn begins_at(disk: &dyn Disk, start: u64, leg: VdevGuid) -> bool {
    let mut slots = (0..CONFIG_SLOTS).map(|slot| read_slot(disk, start + slot * CONFIG_SLOT_BYTES));
    slots.any(|slot| matches!(slot, Ok(Ok(label)) if label.leg == leg))
}

/// The bytes of the label at the end.
pub(crate) fn end_bytes(disk: &dyn Disk) -> Option<AlignedBuf> {
    let [_, start] = label_offsets(disk.geometry().size)?;
    let mut bytes = AlignedBuf::zeroed(usize::try_from(LABEL_BYTES).expect("256 KiB"));
    disk.read(start, &mut bytes).ok().map(|()| bytes)
}

/// Writes a configuration to both labels of a leg, one after the other, each durably.
pub fn write(disk: &dyn Disk, leg: VdevGuid, config: &PoolConfig) -> Result<(), LabelError> {
    Ok(write_encoded(disk, config.sequence, &encode(leg, config)?)?)
}

/// The same, of what [`encode`] gave for that leg and the configuration of this sequence number.
pub(crate) fn write_encoded(disk: &dyn Disk, sequence: u64, bytes: &[u8]) -> io::Result<()> {
    let too_small = || io::Error::new(io::ErrorKind::InvalidInput, "the disk is too small for two labels");
    for start in label_offsets(disk.geometry().size).ok_or_else(too_small)? {
        let offset = start + sequence % CONFIG_SLOTS * CONFIG_SLOT_BYTES;
        disk.write(offset, bytes, Durability::Durable)?;
    }
    Ok(())
}

/// Says on a disk that it is a spare of the pool, in every slot: what stood in one of them may have called it a leg.
pub(crate) fn write_spare(disk: &dyn Disk, spare: VdevGuid, config: &PoolConfig) -> Result<(), LabelError> {
    let bytes = encode(spare, config)?;
    // The older slot of a leg is the other one: what is newest is written first.
    for slot in 0..CONFIG_SLOTS {
        write_encoded(disk, config.sequence + slot, &bytes)?;
    }
    Ok(())
}

/// Overwrites both labels with zeroes, durably: nothing of an earlier pool may speak beside the new one.
pub fn wipe(disk: &dyn Disk) -> io::Result<()> {
    let zeroes = AlignedBuf::zeroed(usize::try_from(LABEL_BYTES).expect("256 KiB"));
    for start in label_offsets(disk.geometry().size).into_iter().flatten() {
        disk.write(start, &zeroes, Durability::Durable)?;
    }
    Ok(())
}

/// Overwrites what is still a label, durably. Behind another owner's data one may have survived at the other end of the disk, or
/// in a second slot: what is not a label any more is his.
pub fn erase(disk: &dyn Disk) -> io::Result<()> {
    let zeroes = AlignedBuf::zeroed(usize::try_from(LABEL_BYTES).expect("256 KiB"));
    let slot_bytes = usize::try_from(CONFIG_SLOT_BYTES).expect("64 KiB");
    for (label, start) in label_offsets(disk.geometry().size).into_iter().flatten().enumerate() {
        let own: Vec<u64> = slots(disk).filter(|slot| slot.0 == label).map(|slot| slot.2).collect();
        let mut is_whole = true;
        for at in own {
            if read_slot(disk, at)?.is_ok() {
                disk.write(at, &zeroes[..slot_bytes], Durability::Durable)?;
            } else {
                is_whole = false;
            }
        }
        if is_whole {
            disk.write(start, &zeroes, Durability::Durable)?;
        }
    }
    Ok(())
}

fn slots(disk: &dyn Disk) -> impl Iterator<Item = (usize, u64, u64)> {
    let starts = label_offsets(disk.geometry().size).into_iter().flatten().enumerate();
    starts.flat_map(|(label, start)| (0..CONFIG_SLOTS).map(move |slot| (label, slot, start + slot * CONFIG_SLOT_BYTES)))
}

fn read_slot(disk: &dyn Disk, offset: u64) -> io::Result<Result<Label, Bad>> {
    Ok(decode(&read_slot_bytes(disk, offset)?))
}

fn read_slot_bytes(disk: &dyn Disk, offset: u64) -> io::Result<AlignedBuf> {
    let mut slot = AlignedBuf::zeroed(usize::try_from(CONFIG_SLOT_BYTES).expect("64 KiB"));
    disk.read(offset, &mut slot)?;
    Ok(slot)
}

#[cfg(test)]
pub(crate) mod tests;
