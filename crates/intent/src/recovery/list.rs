use tally_base::{Lsn, SECTOR, VdevGuid};

use super::leg::{Identity, LegReader, Probe};
use crate::checkpoint::Checkpoint;
use crate::config::LaneConfig;
use crate::frame::{FrameHeader, RecordHead, decode_records};

/// A frame as `tally inspect` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// The leg that it was read from.
    pub leg: VdevGuid,
    /// Where on that leg's ring it begins.
    pub offset: u64,
    /// What it says of itself.
    pub header: FrameHeader,
    /// Whether its payload's checksum is right.
    pub is_sound: bool,
    /// Whether it belongs to the present life of the ring, behind the checkpoint's tail.
    pub is_live: bool,
    /// Its records, as far as they could be read.
    pub records: Vec<RecordInfo>,
}

/// A record as `tally inspect` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// Its position in the lane.
    pub lsn: Lsn,
    /// Whose it is.
    pub head: RecordHead,
    /// Bytes of its body.
    pub body_bytes: usize,
}

/// Every frame header on every leg, stale ones too, in the order of the disk: old laps, old epochs, frames behind
/// damage. Reads all of the ring, believes nothing, and goes on after errors.
#[must_use]
pub fn list_frames(config: &LaneConfig, checkpoint: &Checkpoint) -> Vec<FrameInfo> {
    if config.geometry.validate().is_err() {
        return Vec::new();
    }
    let legs = config.legs.iter().chain(config.stale_legs.iter().map(|stale| &stale.leg));
    legs.flat_map(|leg| {
        let mut reader = LegReader::new(leg, u64::MAX, config.geometry);
        list_leg(&mut reader, config, checkpoint)
    })
    .collect()
}

fn list_leg(reader: &mut LegReader<'_>, config: &LaneConfig, checkpoint: &Checkpoint) -> Vec<FrameInfo> {
    let mut frames = Vec::new();
    let mut offset = 0;
    while offset < config.geometry.size {
        let found = reader.bytes(offset, SECTOR).and_then(FrameHeader::decode);
        let info = found.and_then(|(header, _)| describe(reader, config, checkpoint, offset, header));
        offset += info.as_ref().filter(|info| info.is_sound).map_or(SECTOR as u64, |info| info.header.frame_bytes());
        frames.extend(info);
    }
    frames
}

/// `None`: a header that cannot be a frame of this lane here, such as a copy of a log in a client's file.
fn describe(
    reader: &mut LegReader<'_>,
    config: &LaneConfig,
    checkpoint: &Checkpoint,
    offset: u64,
    header: FrameHeader,
) -> Option<FrameInfo> {
    if config.geometry.offset(header.pos) != offset {
        return None;
    }
    let identity = Identity { pool: config.pool, lane: config.lane, epoch: header.epoch };
    let mut records = Vec::new();
    let is_sound = match reader.probe(&identity, header.pos) {
        Probe::Absent | Probe::OtherEpoch(_) => return None,
        Probe::PayloadBad(..) => false,
        Probe::Sound(_, _, payload) => decode_records(&header, &payload, |lsn, head, body| {
            records.push(RecordInfo { lsn, head, body_bytes: body.len() });
        })
        .is_ok(),
    };
    let is_live = header.epoch == checkpoint.epoch && header.pos >= checkpoint.tail_pos;
    Some(FrameInfo { leg: reader.leg.guid, offset, header, is_sound, is_live, records })
}
