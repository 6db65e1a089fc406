//! Replay: the records that no uberblock has taken in are applied once more, in the order of the dataset's history.
//!
//! It is the same [`Filesystem::apply`] that carried the operation out. Two things differ. A file's size follows its
//! rule, because unlogged data may be in the tree already or be lost (rules F17). And quota, permissions and
//! `readonly` are not asked again: the operation was acknowledged.
//!
//! An inode that cannot be read is another thing: its object was there, or the record would not be. A record carries
//! the whole inode as it became, so it is believed, and the object is whole again; only its size may be that of data
//! that nobody promised. So one sector ends no import.
//!
//! A record for an object that is not there is damage, and ends the replay of this dataset: the order of records is
//! total (rules F13), so what it needs must have come before it. Only the record that makes an object finds none: it
//! brings the object's first name, takes no name away, and has the link count of something new.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::codec::{DecodeError, Malformed, Reader};
use tally_base::{Dseq, ObjectId};
use tally_store::key::{Class, Key};
use tally_vfs::{FileKind, FsError, WRITE_BYTES_MAX};

use crate::entry::decode_entry;
use crate::filesystem::Filesystem;
use crate::fold::SHARED_PIECE_BYTES_MIN;
use crate::inode::Inode;
use crate::object::Locked;
use crate::record::{Data, Record, SizeRule};

/// Why a record could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Its bytes are no record, although their checksum is right.
    #[error("record {dseq} is malformed: {source}")]
    Malformed {
        /// The record's number in the dataset's history.
        dseq: Dseq,
        /// What of its body could not be understood.
        source: Malformed,
    },
    /// Only a newer program can read it.
    #[error("record {dseq} has {what}, which only a newer version of tally knows; import with that version")]
    Newer {
        /// The record's number in the dataset's history.
        dseq: Dseq,
        /// What of it is not known.
        what: String,
    },
    /// It changes an object as it is in the tree, and only a newer program knows that.
    #[error(
        "record {dseq} changes object {object}, which is {what}, written by a newer version of tally; import with that version"
    )]
    NewerBelow {
        /// The record's number in the dataset's history.
        dseq: Dseq,
        /// The object that it is about.
        object: ObjectId,
        /// What of it is not known.
        what: &'static str,
    },
    /// It changes an object that does not exist, or another generation or kind of it.
    #[error("record {dseq} changes object {object}, which is not there")]
    Missing {
        /// The record's number in the dataset's history.
        dseq: Dseq,
        /// The object that it is about.
        object: ObjectId,
    },
    /// The tree below could not be read.
    #[error("record {dseq}: {source}")]
    Unreadable {
        /// The record's number in the dataset's history.
        dseq: Dseq,
        /// What looking at the object, or changing it, gave.
        source: FsError,
    },
}

impl Filesystem {
    /// Applies one record. The caller keeps the order, and syncs between records when much is dirty.
    pub(crate) fn replay(&self, dseq: Dseq, mut record: Record) -> Result<(), ReplayError> {
        let ids = touched(&record);
        let (mut locked, unreadable) = self.lock_to_replay(&ids, dseq)?;
        check_present(&record, &locked, &unreadable, dseq)?;
        resolve_sizes(&mut record, &locked, &unreadable, dseq)?;
        resolve_reserved(&mut record, &locked);
        self.learn_ids(&record);
        record.data.iter_mut().for_each(leave_the_frame);
        let data_bytes: u64 = record.data_parts().map(|part| part.len() as u64).sum();
        // Of names they are few, of an extended attribute all of it.
        let value_bytes: u64 = record.keys.iter().filter_map(|(_, value)| Some(value.as_ref()?.len() as u64)).sum();
        self.pool.replay_in(data_bytes + value_bytes, |txg| {
            self.apply(&mut locked, txg, record, true);
            self.resume_log_after(dseq, txg);
        });
        Ok(())
    }

    /// Before the first record, `dseq`: the tree holds no object whose id its root says was never drawn. So a replay,
    /// which makes many objects, need not look for them one by one.
    pub(crate) fn check_ids(&self, dseq: Dseq) -> Result<(), ReplayError> {
        let root = self.dataset.root();
        let (first, end) = (Key::new(Class::Inode, root.next_object.0, 0, 0), Key::new(Class::DirEntry, 0, 0, 0));
        let source = match self.io().range(&root.tree, &first, &end).next() {
            None => return Ok(()),
            Some(Ok((key, _))) => self.broken(&format!("object {} has an id that was never drawn", key.object)),
            // What cannot be read says nothing against it, and is nobody's who would be found.
            Some(Err(error)) => match self.io().check_damage(error) {
                Ok(_) => return Ok(()),
                Err(error) => self.broken(&error),
            },
        };
        Err(ReplayError::Unreadable { dseq, source })
    }

    /// Locks objects and loads those that the tree can have; also gives those whose inode cannot be read.
    /// A device that reads nothing for a moment is no damage: what it has is believed once it is back.
    fn lock_to_replay(&self, ids: &[ObjectId], dseq: Dseq) -> Result<(Locked, SmallVec<[ObjectId; 4]>), ReplayError> {
        let mut unreadable = SmallVec::new();
        let mut locked = Locked::lock(&self.objects, ids);
        // Read behind the locks: an object that was let go of in between is in this root's tree.
        let root = self.dataset.root();
        for (id, state) in locked.states_mut() {
            if id < root.next_object && self.load(id, state).is_err() {
                match self.io().get(&root.tree, &Key::new(Class::Inode, id.0, 0, 0)) {
                    Err(error) => {
                        let passing = |error| ReplayError::Unreadable { dseq, source: self.broken(&error) };
                        self.io().check_damage(error).map_err(passing)?;
                    }
                    // What a record says of it lacks what only a newer program knows, and would go over that.
                    Ok(stored) => {
                        let decoded = stored.map(|value| Inode::decode(&mut Reader::new(&value, "inode")));
                        if let Some(Err(DecodeError::Newer(what))) = decoded {
                            return Err(ReplayError::NewerBelow { dseq, object: id, what });
                        }
                    }
                }
                // It may be that it can be read by now.
                if self.load(id, state).is_err() {
                    unreadable.push(id);
                }
            }
            state.loaded = true;
        }
        Ok((locked, unreadable))
    }

    /// Ids that the record uses are never drawn again (rules F15), and time goes on behind what it issued (F14).
    fn learn_ids(&self, record: &Record) {
        let objects = record.inodes.iter().map(|after| after.object.0);
        let entries = record.keys.iter().filter(|(key, _)| key.class == Class::DirEntry).map(|(key, _)| key.a);
        let next = objects.chain(entries).max().map_or(0, |id| id + 1);
        self.next_object.fetch_max(next, std::sync::atomic::Ordering::Relaxed);
        if let Some(change) =
            record.inodes.iter().filter_map(|after| after.inode.as_ref()).map(|inode| inode.change).max()
        {
            self.pool.learn_time(change);
        }
    }
}

/// A long piece is going to stand in the cache as it came ([`SHARED_PIECE_BYTES_MIN`]). Here it is part of a frame, of up to
/// four mebibytes and of many records, so it gets buffers such as a WRITE has brought (rules P5).
fn leave_the_frame(data: &mut Data) {
    let buffer_bytes = WRITE_BYTES_MAX as usize;
    for (offset, bytes) in std::mem::take(&mut data.pieces) {
        if (bytes.len() as u64) < SHARED_PIECE_BYTES_MIN {
            data.pieces.push((offset, bytes));
            continue;
        }
        for (at, part) in (offset..).step_by(buffer_bytes).zip(bytes.chunks(buffer_bytes)) {
            data.pieces.push((at, Bytes::copy_from_slice(part)));
        }
    }
}

/// All objects whose layers the record changes.
fn touched(record: &Record) -> SmallVec<[ObjectId; 4]> {
    let mut ids: SmallVec<[ObjectId; 4]> = record.inodes.iter().map(|after| after.object).collect();
    ids.extend(record.keys.iter().map(|(key, _)| ObjectId(key.object)));
    ids.extend(record.truncate.iter().map(|(object, _)| *object));
    ids.extend(record.punch.iter().chain(&record.reserve).map(|(object, _)| *object));
    ids.extend(record.data.iter().map(|data| data.object));
    ids
}

/// Turns the size rules into sizes, by what is there now.
fn resolve_sizes(record: &mut Record, locked: &Locked, unreadable: &[ObjectId], dseq: Dseq) -> Result<(), ReplayError> {
    for after in &mut record.inodes {
        let Some(inode) = &mut after.inode else { continue };
        let at_least = match after.size {
            SizeRule::Exact => continue,
            SizeRule::Keep => 0,
            SizeRule::AtLeast(end) => end,
        };
        if unreadable.contains(&after.object) {
            inode.size = inode.size.max(at_least);
            continue;
        }
        let there = locked.state(after.object).inode.as_ref().filter(|there| there.generation == inode.generation);
        let there = there.ok_or(ReplayError::Missing { dseq, object: after.object })?;
        inode.size = there.size.max(at_least);
    }
    Ok(())
}

/// What is reserved of its files stands in no record's inode, but what it does to that: it is carried on from what is there.
fn resolve_reserved(record: &mut Record, locked: &Locked) {
    let of = |part: &Option<(ObjectId, Range<u64>)>, object| {
        part.as_ref().filter(|(of, _)| *of == object).map(|(_, range)| range.clone())
    };
    for after in &mut record.inodes {
        let Some(inode) = &mut after.inode else { continue };
        let there = locked.state(after.object).inode.as_ref().filter(|there| there.generation == inode.generation);
        inode.reserved = there.and_then(|there| there.reserved.clone());
        let cut = record.truncate.filter(|(object, _)| *object == after.object).map(|(_, size)| size..u64::MAX);
        for gone in cut.into_iter().chain(of(&record.punch, after.object)) {
            inode.unreserve(&gone);
        }
        // Where it cannot be noted beside what is there, more is promised, and never less.
        if let Some(range) = of(&record.reserve, after.object)
            && !inode.reserve(&range)
        {
            inode.reserve_closed(&range);
        }
    }
}

/// Finds everything that the record changes, or the first object that is not there, is another one, or is no file where
/// content is changed.
fn check_present(record: &Record, locked: &Locked, unreadable: &[ObjectId], dseq: Dseq) -> Result<(), ReplayError> {
    let missing = |object| Err(ReplayError::Missing { dseq, object });
    for after in &record.inodes {
        let is_right = match (&after.inode, &locked.state(after.object).inode) {
            (Some(inode), Some(there)) => (inode.generation, inode.kind) == (there.generation, there.kind),
            (Some(inode), None) => after.size == SizeRule::Exact && makes(record, after.object, inode),
            (None, there) => there.is_some(),
        };
        if !is_right && !unreadable.contains(&after.object) {
            return missing(after.object);
        }
    }
    // An operation that changes keys or content changes the inode above them, too.
    let inode_of = |object: ObjectId| record.inodes.iter().find(|after| after.object == object)?.inode.as_ref();
    let keyless = record.keys.iter().map(|(key, _)| ObjectId(key.object)).find(|object| inode_of(*object).is_none());
    let ranges = record.punch.iter().chain(&record.reserve).map(|(object, _)| *object);
    let cut = record.truncate.iter().map(|(object, _)| *object);
    let files = cut.chain(ranges).chain(record.data.iter().map(|data| data.object));
    let is_file = |object: &ObjectId| inode_of(*object).is_some_and(|inode| inode.kind == FileKind::File);
    keyless.or(files.into_iter().find(|object| !is_file(object))).map_or(Ok(()), missing)
}

/// Whether the record is the one that makes `object`.
fn makes(record: &Record, object: ObjectId, inode: &Inode) -> bool {
    let links = if inode.kind == FileKind::Directory { 2 } else { 1 };
    let names_it = |(key, value): &(Key, Option<Bytes>)| {
        let named = value.as_ref().filter(|_| key.class == Class::DirEntry).and_then(decode_entry);
        named.is_some_and(|(named, _)| named == object)
    };
    inode.nlink == links && record.keys.iter().all(|(_, value)| value.is_some()) && record.keys.iter().any(names_it)
}
