use bytes::Bytes;
use tally_base::{Lsn, SECTOR, VdevGuid};

use super::leg::{AtPlace, Identity, LegReader};
use crate::checkpoint::Checkpoint;
use crate::config::LaneConfig;
use crate::frame::{FrameHeader, HEADER_BYTES, RECORD_HEAD_BYTES, RecordHead, decode_records};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// Its position in the lane.
    pub lsn: Lsn,
    /// Its dataset, its number in that, and its group.
    pub head: RecordHead,
    /// Where on the leg's ring its head begins.
    pub offset: u64,
    /// What only the dataset can read.
    pub body: Bytes,
}

/// What a look through a ring comes to.
#[derive(Debug)]
pub enum RingVisit<'a> {
    /// A frame, or what is left of one.
    Frame(&'a FrameInfo),
    /// A sector that the device does not give.
    Unreadable {
        /// The leg.
        leg: VdevGuid,
        /// Where on its ring.
        offset: u64,
    },
}

/// Every frame header on every leg, stale ones too, in the order of the disk: old laps, old epochs, frames behind
/// damage. Reads all of the ring, believes nothing, and goes on after errors.
#[must_use]
pub fn list_frames(config: &LaneConfig, checkpoint: &Checkpoint) -> Vec<FrameInfo> {
    let mut frames = Vec::new();
    visit_ring(config, Some(checkpoint), &mut |visit| {
        if let RingVisit::Frame(frame) = visit {
            frames.push(frame.clone());
        }
    });
    frames
}

/// As [`list_frames`], one at a time and with what cannot be read. Without a checkpoint nobody knows which frames
/// are live.
pub fn visit_ring(config: &LaneConfig, checkpoint: Option<&Checkpoint>, visit: &mut dyn FnMut(RingVisit<'_>)) {
    if config.geometry.validate().is_err() {
        return;
    }
    let legs = config.legs.iter().chain(config.stale_legs.iter().map(|stale| &stale.leg));
    for leg in legs {
        let mut reader = LegReader::new(leg, u64::MAX, config.geometry, config.helpers);
        visit_leg(&mut reader, config, checkpoint, visit);
    }
}

fn visit_leg(
    reader: &mut LegReader<'_>,
    config: &LaneConfig,
    checkpoint: Option<&Checkpoint>,
    visit: &mut dyn FnMut(RingVisit<'_>),
) {
    let mut offset = 0;
    while offset < config.geometry.size {
        let found = match reader.bytes(offset, SECTOR) {
            Some(sector) => FrameHeader::decode(sector),
            None => {
                visit(RingVisit::Unreadable { leg: reader.leg.guid, offset });
                None
            }
        };
        let info = found.and_then(|(header, _)| describe(reader, config, checkpoint, offset, header));
        offset += info.as_ref().filter(|info| info.is_sound).map_or(SECTOR as u64, |info| info.header.frame_bytes());
        if let Some(info) = info {
            visit(RingVisit::Frame(&info));
        }
    }
}

/// `None`: a header that cannot be a frame of this lane here, such as a copy of a log in a client's file.
fn describe(
    reader: &mut LegReader<'_>,
    config: &LaneConfig,
    checkpoint: Option<&Checkpoint>,
    offset: u64,
    header: FrameHeader,
) -> Option<FrameInfo> {
    if config.geometry.offset(header.pos) != offset {
        return None;
    }
    let identity = Identity { pool: config.pool, lane: config.lane, epoch: header.epoch };
    let mut records = Vec::new();
    let is_sound = match reader.look_at(&identity, header.pos) {
        AtPlace::Absent | AtPlace::OtherEpoch(_) => return None,
        AtPlace::PayloadBad(..) => false,
        AtPlace::Sound(_, _, payload) => decode_records(&header, &payload, |lsn, head, body| {
            let before_body = (HEADER_BYTES + body.start - RECORD_HEAD_BYTES) as u64;
            records.push(RecordInfo { lsn, head, offset: offset + before_body, body: payload.slice(body) });
        })
        .is_ok(),
    };
    let is_live = checkpoint.is_some_and(|now| header.epoch == now.epoch && header.pos >= now.tail_pos);
    Some(FrameInfo { leg: reader.leg.guid, offset, header, is_sound, is_live, records })
}
