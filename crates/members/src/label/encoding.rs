//! The sections that this program knows, byte for byte.
//!
//! Fixed fields in little-endian order, and not what a serializer makes of the structs: their fields and variants can be
//! named and ordered anew without a thought of the disks, a number that means nothing here can be told from damage, and
//! every list is read against the bytes that are there before room is made for it. Numbers of classes, kinds and states
//! stand here and nowhere else; those that are reserved are refused by their name.
//!
//! ```text
//!  1 pool           open_id 8 · synced_txg 8 · created 8 · state 1 · handle key 32 · name · host: id 8, name
//!  2 vdevs          count 2, and for each, in the order of their indices:
//!                   guid 8 · index 2 · class 1 · kind 1 · removed 1 · sector_shift 1 · data_start 8 · data_bytes 8
//!                   rings: count 2, each start 8, length 8 · legs: count 2, each
//!                   guid 8 · slot 2 · state 1 · missed count 1 · size 8 · stale_since 8 · joined_txg 8
//!                   missed: each from 8, to 8 · path
//!  3 lanes          count 2, each: lane 8 · vdev index 2 · size 8 · frame_bytes_max 4 · frames_in_flight_max 4
//!                   legset_gen 8 · legset: count 2, guids 8 · left: count 2, each guid 8, last generation 8
//!  4 supplement     failmode 1 · losses: count 2, each time 8, txg 8, lines: count 2, texts
//!  5 features       compatibility · lines: count 2, each set 1, bit 1, name, version; by set and bit
//!  8 rewinds        count 2, each: kept txg 8 · kept open_gen 8 · dropped txg 8 · open_gen 8 · time 8 · depth 2
//! 10 hang limit     seconds 4, 0 for none
//! 11 spares         count 2, each: guid 8 · stands for 8, 0 for nobody · size 8 · path
//! ```
//!
//! A text, and a path, is its length in 2 bytes and as many bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{LaneId, Time, Txg, VdevGuid, VdevIndex};
use tally_disk::Host;

use super::features;
use super::missed::MissedGroups;
use super::sections::{self, Section};
use super::{
    Bad, FailMode, FeatureLine, FeatureNotes, FeatureSet, HangLimit, LABEL_BYTES, LabelError, LaneConfigLine,
    LegConfig, LossReport, PoolConfig, PoolState, Rewind, RingArea, Spare, Supplement, Unreadable, VdevClass,
    VdevConfig, VdevKind,
};

const POOL: u16 = 1;
const VDEVS: u16 = 2;
const LANES: u16 = 3;
const SUPPLEMENT: u16 = 4;
const FEATURES: u16 = 5;
const REWINDS: u16 = 8;
const HANG_LIMIT: u16 = 10;
const SPARES: u16 = 11;

const FEATURES_WHAT: &str = "label: the features";

/// Sectors of 2^12 bytes.
const SECTOR_SHIFT: u8 = 12;
const _: () = assert!(1 << SECTOR_SHIFT == tally_base::SECTOR);

/// Classes of vdevs by their numbers; this program has the first two.
const CLASSES: [&str; 4] = ["data", "log", "special", "bulk"];
/// Kinds of vdevs by their numbers; this program has the first two.
const KINDS: [&str; 7] = ["disk", "mirror", "raidz1", "raidz2", "raidz3", "removed", "object"];
/// States of legs by their numbers; this program has the first three.
const STATES: [&str; 4] = ["in use", "left behind", "offline", "joining"];
const OFFLINE: u8 = 2;

/// The payload: what this program knows, and what it carries along.
pub(super) fn encode(config: &PoolConfig) -> Result<Vec<u8>, LabelError> {
    let known = |id, bytes| Section { id, must_be_known: must_be_known(id), bytes };
    let mut all = config.carried.clone();
    all.push(known(POOL, encode_pool(config)?));
    all.push(known(VDEVS, encode_list(&config.vdevs, encode_vdev)?));
    all.push(known(LANES, encode_list(&config.lanes, encode_lane)?));
    if config.supplement != Supplement::default() {
        all.push(known(SUPPLEMENT, encode_supplement(&config.supplement)?));
    }
    if config.feature_notes != FeatureNotes::default() {
        all.push(known(FEATURES, encode_features(&config.feature_notes)?));
    }
    if !config.rewinds.is_empty() {
        let encode: Encode<Rewind> = |out, rewind| {
            rewind.encode(out);
            Ok(())
        };
        all.push(known(REWINDS, encode_list(&config.rewinds, encode)?));
    }
    if config.hang_limit != HangLimit::default() {
        all.push(known(HANG_LIMIT, encode_hang_limit(config.hang_limit)));
    }
    if !config.spares.is_empty() {
        all.push(known(SPARES, encode_list(&config.spares, |out, spare| spare.encode(out))?));
    }
    Ok(sections::join(all))
}

/// Whether a section of ours says so of itself: the pool is nothing without the first three, without its settings only a
/// setting is lost, without its spares only these, and what may not be done without a feature its bit says.
const fn must_be_known(id: u16) -> bool {
    !matches!(id, SUPPLEMENT | FEATURES | HANG_LIMIT | SPARES)
}

/// Reads a payload into `config`, which has what stands in the header.
pub(super) fn decode(payload: &[u8], mut config: PoolConfig) -> Result<PoolConfig, Bad> {
    let (mut pool, mut vdevs, mut lanes) = (None, None, None);
    for section in sections::split(payload)? {
        match section.id {
            POOL..=FEATURES | REWINDS | HANG_LIMIT | SPARES if section.must_be_known != must_be_known(section.id) => {
                return Err(Malformed("label: a flag on a section that never has it").into());
            }
            POOL => pool = Some(section),
            VDEVS => vdevs = Some(section),
            LANES => lanes = Some(section),
            SUPPLEMENT => config.supplement = whole(&section, "label: the supplement", decode_supplement)?,
            FEATURES => config.feature_notes = whole(&section, FEATURES_WHAT, decode_features)?,
            HANG_LIMIT => config.hang_limit = whole(&section, "label: the hang limit", decode_hang_limit)?,
            SPARES => {
                let decode = |reader: &mut Reader<'_>| decode_list(reader, Spare::decode);
                config.spares = whole(&section, "label: the spares", decode)?;
            }
            REWINDS => {
                let decode = |reader: &mut Reader<'_>| decode_list(reader, |reader| Ok(Rewind::decode(reader)?));
                config.rewinds = whole(&section, "label: the section of groups that were given up", decode)?;
            }
            _ => config.carried.push(section),
        }
    }
    let there = |section: Option<_>| section.ok_or(Malformed("label: it lacks a section"));
    whole(&there(pool)?, "label: the section of the pool", |reader| decode_pool(reader, &mut config))?;
    config.vdevs = whole(&there(vdevs)?, "label: the section of the vdevs", |reader| decode_list(reader, decode_vdev))?;
    config.lanes = whole(&there(lanes)?, "label: the section of the lanes", |reader| decode_list(reader, decode_lane))?;
    Ok(config)
}

/// What a payload tells of features, whatever else stands in it.
pub(super) fn feature_notes(payload: &[u8]) -> Option<FeatureNotes> {
    let section = sections::split(payload).ok()?.into_iter().find(|section| section.id == FEATURES)?;
    whole(&section, FEATURES_WHAT, decode_features).ok()
}

/// What a section says, up to its last byte.
fn whole<T>(
    section: &Section,
    what: &'static str,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, Bad>,
) -> Result<T, Bad> {
    let mut reader = Reader::new(&section.bytes, what);
    let content = decode(&mut reader)?;
    reader.end()?;
    Ok(content)
}

fn encode_pool(config: &PoolConfig) -> Result<Vec<u8>, LabelError> {
    let mut out = Vec::new();
    out.put_u64(config.open_id);
    out.put_u64(config.synced_txg.0);
    out.put_u64(config.created.0);
    out.put_u8(match config.state {
        PoolState::Active => 0,
        PoolState::Exported => 1,
        PoolState::Destroyed => 2,
    });
    out.put(&config.handle_key);
    put_text(&mut out, config.name.as_bytes())?;
    out.put_u64(config.host.id);
    put_text(&mut out, config.host.name.as_bytes())?;
    Ok(out)
}

fn decode_pool(reader: &mut Reader<'_>, config: &mut PoolConfig) -> Result<(), Bad> {
    config.open_id = reader.u64()?;
    config.synced_txg = Txg(reader.u64()?);
    config.created = Time(reader.u64()?);
    config.state = match reader.u8()? {
        0 => PoolState::Active,
        1 => PoolState::Exported,
        2 => PoolState::Destroyed,
        other => return Err(beyond(format!("a pool in state {other}"))),
    };
    config.handle_key = reader.array()?;
    config.name = text(reader)?;
    config.host = Host { id: reader.u64()?, name: text(reader)? };
    Ok(())
}

fn encode_vdev(out: &mut Vec<u8>, vdev: &VdevConfig) -> Result<(), LabelError> {
    out.put_u64(vdev.guid.0);
    out.put_u16(vdev.index.0);
    out.put_u8(match vdev.class {
        VdevClass::Data => 0,
        VdevClass::Log => 1,
    });
    out.put_u8(match vdev.kind {
        VdevKind::Disk => 0,
        VdevKind::Mirror => 1,
    });
    out.put_u8(u8::from(vdev.removed));
    out.put_u8(SECTOR_SHIFT);
    out.put_u64(LABEL_BYTES);
    out.put_u64(vdev.data_bytes);
    put_list(out, vdev.ring.as_slice(), |out, ring| {
        out.put_u64(ring.start);
        out.put_u64(ring.length);
        Ok(())
    })?;
    put_list(out, &vdev.legs, encode_leg)
}

fn decode_vdev(reader: &mut Reader<'_>) -> Result<VdevConfig, Bad> {
    let guid = VdevGuid(reader.u64()?);
    let index = VdevIndex(reader.u16()?);
    let class = match reader.u8()? {
        0 => VdevClass::Data,
        1 => VdevClass::Log,
        other => return Err(beyond_number("a vdev of class", &CLASSES, other)),
    };
    let kind = match reader.u8()? {
        0 => VdevKind::Disk,
        1 => VdevKind::Mirror,
        other => return Err(beyond_number("a vdev of kind", &KINDS, other)),
    };
    let removed = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(reader.malformed().into()),
    };
    let sector_shift = reader.u8()?;
    if sector_shift != SECTOR_SHIFT {
        return Err(beyond(format!("sectors of 2^{sector_shift} bytes")));
    }
    // Everything that reads or writes a leg counts from behind its first label.
    let data_start = reader.u64()?;
    if data_start != LABEL_BYTES {
        return Err(beyond(format!("a data area that begins at byte {data_start}")));
    }
    let data_bytes = reader.u64()?;
    let rings = decode_list(reader, |reader| Ok(RingArea { start: reader.u64()?, length: reader.u64()? }))?;
    let ring = match rings.as_slice() {
        [] => None,
        [ring] => Some(*ring),
        several => return Err(beyond(format!("a vdev with {} rings", several.len()))),
    };
    let legs = decode_list(reader, decode_leg)?;
    Ok(VdevConfig { guid, index, class, kind, legs, data_bytes, ring, removed })
}

fn encode_leg(out: &mut Vec<u8>, leg: &LegConfig) -> Result<(), LabelError> {
    out.put_u64(leg.guid.0);
    out.put_u16(leg.slot);
    out.put_u8(match leg.stale_since {
        None => 0,
        Some(_) => 1 + u8::from(leg.is_offline),
    });
    out.put_u8(leg.missed.count());
    out.put_u64(leg.size);
    out.put_u64(leg.stale_since.unwrap_or(0));
    out.put_u64(leg.joined_txg.0);
    leg.missed.encode(out);
    put_path(out, &leg.path)
}

fn decode_leg(reader: &mut Reader<'_>) -> Result<LegConfig, Bad> {
    let (guid, slot) = (VdevGuid(reader.u64()?), reader.u16()?);
    let state = reader.u8()?;
    let missed_count = reader.u8()?;
    let (size, since, joined_txg) = (reader.u64()?, reader.u64()?, Txg(reader.u64()?));
    let stale_since = match state {
        0 if since == 0 => None,
        0 => return Err(reader.malformed().into()),
        1 | OFFLINE => Some(since),
        other => return Err(beyond_number("a leg that is", &STATES, other)),
    };
    let missed = MissedGroups::decode(reader, missed_count)?;
    let path = path_of(reader)?;
    Ok(LegConfig { guid, path, stale_since, is_offline: state == OFFLINE, slot, size, joined_txg, missed })
}

fn encode_lane(out: &mut Vec<u8>, line: &LaneConfigLine) -> Result<(), LabelError> {
    out.put_u64(line.lane.0);
    out.put_u16(line.vdev.0);
    out.put_u64(line.size);
    out.put_u32(line.frame_bytes_max);
    out.put_u32(line.frames_in_flight_max);
    out.put_u64(line.legset_gen);
    put_list(out, &line.legset, |out, guid| {
        out.put_u64(guid.0);
        Ok(())
    })?;
    put_list(out, &line.left, |out, (guid, last)| {
        out.put_u64(guid.0);
        out.put_u64(*last);
        Ok(())
    })
}

fn decode_lane(reader: &mut Reader<'_>) -> Result<LaneConfigLine, Bad> {
    Ok(LaneConfigLine {
        lane: LaneId(reader.u64()?),
        vdev: VdevIndex(reader.u16()?),
        size: reader.u64()?,
        frame_bytes_max: reader.u32()?,
        frames_in_flight_max: reader.u32()?,
        legset_gen: reader.u64()?,
        legset: decode_list(reader, |reader| Ok(VdevGuid(reader.u64()?)))?,
        left: decode_list(reader, |reader| Ok((VdevGuid(reader.u64()?), reader.u64()?)))?,
    })
}

fn encode_supplement(supplement: &Supplement) -> Result<Vec<u8>, LabelError> {
    let mut out = Vec::new();
    out.put_u8(match supplement.failmode {
        FailMode::Wait => 0,
        FailMode::Continue => 1,
    });
    put_list(&mut out, &supplement.losses, |out, loss| {
        out.put_u64(loss.time.0);
        out.put_u64(loss.txg.0);
        put_list(out, &loss.lines, |out, line| put_text(out, line.as_bytes()))
    })?;
    Ok(out)
}

fn decode_supplement(reader: &mut Reader<'_>) -> Result<Supplement, Bad> {
    let failmode = match reader.u8()? {
        0 => FailMode::Wait,
        1 => FailMode::Continue,
        // Another mode comes with another section, which can be carried along.
        _ => return Err(reader.malformed().into()),
    };
    let losses = decode_list(reader, |reader| {
        let (time, txg) = (Time(reader.u64()?), Txg(reader.u64()?));
        Ok(LossReport { time, txg, lines: decode_list(reader, text)? })
    })?;
    Ok(Supplement { failmode, losses })
}

fn encode_hang_limit(limit: HangLimit) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(match limit {
        // It is what no section says.
        HangLimit::Auto | HangLimit::Off => 0,
        HangLimit::Seconds(seconds) => seconds,
    });
    out
}

fn decode_hang_limit(reader: &mut Reader<'_>) -> Result<HangLimit, Bad> {
    match reader.u32()? {
        0 => Ok(HangLimit::Off),
        seconds => HangLimit::of_seconds(seconds).ok_or_else(|| reader.malformed().into()),
    }
}

fn encode_features(notes: &FeatureNotes) -> Result<Vec<u8>, LabelError> {
    let mut out = Vec::new();
    put_text(&mut out, notes.compatibility.as_bytes())?;
    put_list(&mut out, &notes.lines, |out, line| {
        out.put_u8(match line.set {
            FeatureSet::Compat => 0,
            FeatureSet::RoCompat => 1,
            FeatureSet::Incompat => 2,
        });
        out.put_u8(line.bit);
        put_text(out, line.name.as_bytes())?;
        put_text(out, line.since.as_bytes())
    })?;
    Ok(out)
}

fn decode_features(reader: &mut Reader<'_>) -> Result<FeatureNotes, Bad> {
    let compatibility = text(reader)?;
    let lines = decode_list(reader, |reader| {
        let set = *FeatureSet::ALL.get(usize::from(reader.u8()?)).ok_or(reader.malformed())?;
        Ok(FeatureLine { set, bit: reader.u8()?, name: text(reader)?, since: text(reader)? })
    })?;
    let is_line = |line: &FeatureLine| {
        line.bit < 64 && !line.name.is_empty() && features::is_word(&line.name) && features::is_word(&line.since)
    };
    let is_sorted = lines.is_sorted_by(|one, next| (one.set, one.bit) < (next.set, next.bit));
    if !is_sorted || !lines.iter().all(is_line) || !features::is_word(&compatibility) {
        return Err(reader.malformed().into());
    }
    Ok(FeatureNotes { compatibility, lines })
}

type Encode<T> = fn(&mut Vec<u8>, &T) -> Result<(), LabelError>;

fn encode_list<T>(entries: &[T], encode: Encode<T>) -> Result<Vec<u8>, LabelError> {
    let mut out = Vec::new();
    put_list(&mut out, entries, encode)?;
    Ok(out)
}

fn put_list<T>(out: &mut Vec<u8>, entries: &[T], encode: Encode<T>) -> Result<(), LabelError> {
    let count = u16::try_from(entries.len());
    out.put_u16(count.map_err(|_| LabelError::Encode("a list of more than 65,535 entries"))?);
    entries.iter().try_for_each(|entry| encode(out, entry))
}

/// Room is made for an entry when its bytes were there.
fn decode_list<T>(reader: &mut Reader<'_>, decode: fn(&mut Reader<'_>) -> Result<T, Bad>) -> Result<Vec<T>, Bad> {
    let count = reader.u16()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(decode(reader)?);
    }
    Ok(entries)
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) -> Result<(), LabelError> {
    let length = u16::try_from(text.len());
    out.put_u16(length.map_err(|_| LabelError::Encode("a name or a path of more than 65,535 bytes"))?);
    out.put(text);
    Ok(())
}

pub(super) fn put_path(out: &mut Vec<u8>, path: &Path) -> Result<(), LabelError> {
    put_text(out, path.as_os_str().as_bytes())
}

pub(super) fn path_of(reader: &mut Reader<'_>) -> Result<PathBuf, Bad> {
    Ok(PathBuf::from(OsStr::from_bytes(text_bytes(reader)?)))
}

fn text_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = reader.u16()?;
    reader.bytes(usize::from(length))
}

fn text(reader: &mut Reader<'_>) -> Result<String, Bad> {
    let bytes = text_bytes(reader)?;
    let text = std::str::from_utf8(bytes).map_err(|_| reader.malformed())?;
    Ok(text.to_owned())
}

fn beyond(what: String) -> Bad {
    Bad::Unknown(Unreadable::Beyond { what })
}

fn beyond_number(what: &str, words: &[&str], number: u8) -> Bad {
    let word = words.get(usize::from(number));
    beyond(word.map_or_else(|| format!("{what} number {number}"), |word| format!("{what} {word}")))
}
