//! A dataset as it stands in the catalog: the value of its key.
//!
//! ```text
//!   0 form 1 u8 · kind u8 · flags u16 · zero u32
//!   8 guid         16 created      24 created txg   32 lane
//!  40 name key     48 root object  56 root generation
//!  64 parent       72 life         80 verifier      88 change floor
//!  96 next object 104 log from    112 log cursor   120 replay dseq
//! 128 used bytes  136 objects     144 orphans      152 reserved bytes
//! 160 root of the tree (80)
//! 240 snapshots: border, newest, origin, unique (32) · 272 key: id 8, root's MAC 16
//! 296 parked records: pointer 64, first, last, bytes (88)
//! 384 length of the name u16, the name: its last component alone
//!     sections, to the end: number u16 · zero u16 · length u32 · bytes
//!
//! section 1, properties: number u16 · source u8 (0 local, 1 received) · length u16 · bytes, one after the other
//! ```
//!
//! Numbers without a size are u64. The name of a dataset is that of its parent and its own component, so that a dataset with
//! thousands below it is renamed in one key; nothing else stands between a name and an id, since an imported pool knows all
//! names by heart.
//!
//! **What a newer program may have written.** A section or a property that is not known says nothing about what this
//! program reads and writes, or a feature bit of the pool would say so: it is carried along, byte for byte. A kind, a
//! flag, or one of the fields from 240 to 384, changes what the others mean: the entry is refused, in other words than a
//! damaged one.

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, Dseq, Generation, LaneId, ObjectId, Time, Txg};

use super::{ACCOUNT_MAX, DATASET_NAME_MAX, DRAWN_END, DatasetBirth, DatasetLine, DatasetRoot};
use crate::properties::{PropertySet, SET_BYTES_MAX};
use crate::tree::{Tree, VALUE_BYTES_MAX};

const FORM: u8 = 1;
/// A file system; 1 is kept for volumes.
const KIND_FILES: u8 = 0;
/// The flag of a dataset whose operations are logged. Bit 1 is kept for one that is being received.
const LOGGED: u16 = 1;

/// Up to which group a dataset's records are in its tree, if that is not what the pool's root says of all: the place is kept
/// for datasets whose records are set aside one by one. 0 is none of them.
const LOG_CURSOR_OF_POOL: u64 = 0;

const SNAPSHOT_BYTES: usize = 32;
const KEY_BYTES: usize = 24;
const PARKED_BYTES: usize = 88;

const SECTION_HEAD_BYTES: usize = 8;
const PROPERTIES: u16 = 1;
/// Bytes of all sections that are carried along.
const CARRIED_BYTES_MAX: usize = 8 << 10;

const HEAD_BYTES: usize = 384;
const NAME_AND_PROPERTIES_BYTES_MAX: usize = 2 + DATASET_NAME_MAX + SECTION_HEAD_BYTES + SET_BYTES_MAX;
// What is carried along leaves room for every name and every property that can be set.
const _: () = assert!(HEAD_BYTES + NAME_AND_PROPERTIES_BYTES_MAX + CARRIED_BYTES_MAX <= VALUE_BYTES_MAX);

/// Why an entry cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    /// Its bytes are not what the format says.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// It has this, which only newer programs know.
    #[error("{0} that only a newer program knows")]
    Newer(&'static str),
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(crate) struct DatasetEntry {
    pub(crate) birth: DatasetBirth,
    pub(crate) line: DatasetLine,
    pub(crate) root: DatasetRoot,
}

impl DatasetEntry {
    #[cfg(test)]
    pub(crate) fn encode(&self) -> Bytes {
        encode(&self.birth, &self.line, &self.root)
    }

    /// The entry of dataset `id`.
    pub(crate) fn decode(id: DatasetId, bytes: &[u8]) -> Result<Self, EntryError> {
        let mut reader = Reader::new(bytes, "dataset");
        let malformed = reader.malformed();
        let (form, kind, flags, zero) = (reader.u8()?, reader.u8()?, reader.u16()?, reader.u32()?);
        refuse_newer(&[
            (form != FORM, "an entry of another form"),
            (kind != KIND_FILES, "a dataset that is no file system"),
            (flags & !LOGGED != 0 || zero != 0, "a flag of a dataset"),
        ])?;
        let (guid, created, created_txg) = (reader.u64()?, Time(reader.u64()?), Txg(reader.u64()?));
        let birth = DatasetBirth {
            id,
            guid,
            created,
            created_txg,
            lane: LaneId(reader.u64()?),
            name_key: reader.u64()?,
            root_object: ObjectId(reader.u64()?),
            root_generation: Generation(reader.u64()?),
        };
        let parent = DatasetId(reader.u64()?);
        let (life, verifier, change_floor) = (reader.u64()?, reader.u64()?, Time(reader.u64()?));
        let (next_object, log_from) = (ObjectId(reader.u64()?), Txg(reader.u64()?));
        let (log_cursor, replay_dseq) = (reader.u64()?, Dseq(reader.u64()?));
        let accounts = [reader.u64()?, reader.u64()?, reader.u64()?];
        let reserved_bytes = reader.u64()?;
        let tree = Tree::decode(&reader.array()?)?;
        let is_set = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
        refuse_newer(&[
            (log_cursor != LOG_CURSOR_OF_POOL, "a dataset with a log cursor of its own"),
            (is_set(reader.bytes(SNAPSHOT_BYTES)?), "a dataset with snapshots"),
            (is_set(reader.bytes(KEY_BYTES)?), "a dataset with a key"),
            (is_set(reader.bytes(PARKED_BYTES)?), "a dataset with parked records"),
        ])?;
        let name_bytes = usize::from(reader.u16()?);
        let name = String::from_utf8(reader.bytes(name_bytes)?.to_vec()).map_err(|_| malformed)?;
        let (local, carried) = decode_sections(&mut reader)?;
        // Every object and every orphan has a key of its own.
        let counted_max = tree.entry_count().min(ACCOUNT_MAX);
        let root = DatasetRoot {
            tree,
            replay_dseq,
            logged: flags & LOGGED != 0,
            log_from,
            next_object,
            life,
            verifier,
            change_floor,
            used_bytes: accounts[0].min(ACCOUNT_MAX),
            object_count: accounts[1].min(counted_max),
            orphan_count: accounts[2].min(counted_max),
            reserved_bytes: reserved_bytes.min(ACCOUNT_MAX),
        };
        Ok(Self { birth, line: DatasetLine { parent, name, local, carried }, root })
    }

    /// Numbers and lengths of the sections that are carried along.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (u16, usize)> {
        let mut reader = Reader::new(&self.line.carried, "dataset");
        std::iter::from_fn(move || {
            let (number, _, length) = (reader.u16().ok()?, reader.u16().ok()?, reader.u32().ok()? as usize);
            reader.bytes(length).ok().map(|_| (number, length))
        })
    }

    /// Whether its numbers can have been drawn in a pool in this life, whose next dataset is this one: a sound checksum does
    /// not say so.
    pub(crate) fn is_possible(&self, next_dataset: u64, life: u64) -> bool {
        let (birth, line, root) = (&self.birth, &self.line, &self.root);
        let drawn = [root.replay_dseq.0, root.log_from.0, root.next_object.0, birth.created_txg.0];
        // What others make directories and lines of.
        let is_plain = !matches!(&*line.name, "." | "..") && !line.name.chars().any(|c| c == '/' || c.is_control());
        let is_component = (1..=DATASET_NAME_MAX).contains(&line.name.len()) && is_plain;
        is_component
            && drawn.into_iter().all(|number| number < DRAWN_END)
            && birth.id.0.max(line.parent.0) < next_dataset
            && line.parent != birth.id
            && root.life <= life
            && birth.root_object < root.next_object
    }
}

fn refuse_newer(cases: &[(bool, &'static str)]) -> Result<(), EntryError> {
    cases.iter().find(|(is_met, _)| *is_met).map_or(Ok(()), |(_, what)| Err(EntryError::Newer(what)))
}

/// The properties, and what is carried along.
fn decode_sections(reader: &mut Reader<'_>) -> Result<(PropertySet, Bytes), EntryError> {
    let (mut local, mut carried, mut last) = (PropertySet::new(), Vec::new(), 0);
    while !reader.rest().is_empty() {
        let whole = reader.rest();
        let (number, zero, length) = (reader.u16()?, reader.u16()?, reader.u32()? as usize);
        let bytes = reader.bytes(length)?;
        if number <= last || zero != 0 {
            return Err(reader.malformed().into());
        }
        last = number;
        match number {
            PROPERTIES => {
                let set = PropertySet::decode(bytes)?;
                local = set.ok_or(EntryError::Newer("a property of a dataset with a value"))?;
            }
            _ => carried.extend_from_slice(&whole[..SECTION_HEAD_BYTES + length]),
        }
    }
    if carried.len() > CARRIED_BYTES_MAX { Err(reader.malformed().into()) } else { Ok((local, carried.into())) }
}

/// The entry of a dataset.
pub(super) fn encode(birth: &DatasetBirth, line: &DatasetLine, root: &DatasetRoot) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.put_u8(FORM);
    out.put_u8(KIND_FILES);
    out.put_u16(if root.logged { LOGGED } else { 0 });
    out.put_u32(0);
    let of_birth = [birth.guid, birth.created.0, birth.created_txg.0, birth.lane.0, birth.name_key];
    let of_root = [root.life, root.verifier, root.change_floor.0, root.next_object.0, root.log_from.0];
    let cursors = [LOG_CURSOR_OF_POOL, root.replay_dseq.0];
    let accounts = [root.used_bytes, root.object_count, root.orphan_count, root.reserved_bytes];
    let fields = of_birth
        .into_iter()
        .chain([birth.root_object.0, birth.root_generation.0, line.parent.0])
        .chain(of_root)
        .chain(cursors)
        .chain(accounts);
    fields.for_each(|field| out.put_u64(field));
    out.put(&root.tree.encode());
    out.put(&[0; SNAPSHOT_BYTES + KEY_BYTES + PARKED_BYTES]);
    assert_eq!(out.len(), HEAD_BYTES, "the head is of one length");
    out.put_u16(line.name.len() as u16);
    out.put(line.name.as_bytes());
    let properties = line.local.encode();
    if !properties.is_empty() {
        out.put_u16(PROPERTIES);
        out.put_u16(0);
        out.put_u32(properties.len() as u32);
        out.put(&properties);
    }
    out.put(&line.carried);
    out.into()
}

#[cfg(test)]
mod tests;
