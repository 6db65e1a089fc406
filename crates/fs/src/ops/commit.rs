//! COMMIT: what was written unstably becomes stable. The log takes the *current* content of what it does not have
//! yet, so that no copy of older content is needed (rules F17); what is too much for the log, or was placed in the
//! pool ahead, waits for its transaction group instead, which is as good a promise (rules F5). No record names a block
//! (rules F4).
//!
//! It changes nothing. The record is of the open group; the content stays in the group in which it was written, which may
//! be an older one, and only notes there that the log has it. So one fold writes it, and not two
//! ([docs/design/0035](../../../../docs/design/0035-the-log-takes-what-it-takes-sooner.md)).
//!
//! A long COMMIT goes to the log part by part. All who wait for the log wait for what was appended before them, so
//! whoever has a small change must not stand behind all of somebody's file: with its last part not yet in the log, a COMMIT
//! ends like a request that was not admitted, and is run again once the part is durable. It then looks anew at what is
//! due: each part has the content of its own moment, and nothing that was decided before it counts. But for one thing:
//! the file knows how much was logged in parts, and all parts of a COMMIT go by the bound together. Others may write over a
//! part as fast as the log takes it; then the groups are the promise, which has an end.

use std::ops::Range;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use tally_base::Wait;
use tally_store::pool::SpaceClass;
use tally_vfs::{FsError, ObjectRef, OpCtx, Outcome, Right};

use super::write::{check_has_content, writes_by_mode};
use super::{after, failed, unchanged};
use crate::admission::{Admitted, Ask};
use crate::cost::FoldCost;
use crate::filesystem::Filesystem;
use crate::inode::Inode;
use crate::layer::{Piece, Seen, see_through};
use crate::object::{Locked, ObjectState};
use crate::record::{Data, RECORD_OVERHEAD_MAX, RECORD_PIECES_MAX, Record, RecordKind, SizeRule};

/// What a COMMIT finds to be done.
#[derive(Default)]
struct Due {
    /// Dirty pieces in memory that no record carries, each as it is now.
    pieces: Vec<(u64, Bytes)>,
    /// Whether something in the range is in the pool ahead of its group.
    placed: bool,
    /// What was logged in parts since a COMMIT of the file came to its end.
    parts_bytes: u64,
}

impl Due {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

impl Filesystem {
    pub(crate) fn commit(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Outcome<u64> {
        if let Err(refusal) = self.check_takes_changes() {
            return refusal.outcome();
        }
        let end = if count == 0 { u64::MAX } else { offset.saturating_add(u64::from(count)) };
        loop {
            // How much there is to log is known only under the lock, and room must be had before: look, ask, look
            // again.
            let peeked = self.objects.look(object.id, |state| due(state, offset..end));
            let asked = self.next_part(&peeked);
            let admitted = match self.admit_part(object, &peeked, &asked) {
                Ok(admitted) => admitted,
                Err(error) => return failed(error),
            };
            let mut locked = match self.lock(&[object.id]) {
                Ok(locked) => locked,
                Err(error) => return failed(error),
            };
            let inode = match self.sight(object.id, locked.state(object.id)).live(object) {
                Ok(inode) => inode,
                Err(error) => return self.refused(&locked, smallvec![], error),
            };
            if let Err(error) = may_commit(&inode, object, ctx) {
                return self.refused(&locked, smallvec![unchanged(object.id, &inode)], error);
            }
            let verifier = self.verifier;
            let changes = smallvec![unchanged(object.id, &inode)];
            let now_due = due(locked.state(object.id), offset..end);
            let Some(admitted) = admitted.filter(|_| self.takes_log(&now_due)) else {
                locked.state_mut(object.id).parts_bytes = 0;
                let wait = self.wait_for_groups(&locked, object, &now_due);
                return Outcome { result: Ok(verifier), changes, wait };
            };
            let part = self.next_part(&now_due);
            if !fits(&part, &asked) {
                continue;
            }
            if part.is_empty() {
                locked.state_mut(object.id).parts_bytes = 0;
                let wait = self.wait_for_seen(&locked);
                return Outcome { result: Ok(verifier), changes, wait };
            }
            let part_bytes = part.iter().map(|batch| batch_bytes(batch) as u64).sum::<u64>();
            let is_last = part_bytes == now_due.bytes();
            locked.state_mut(object.id).parts_bytes = if is_last { 0 } else { now_due.parts_bytes + part_bytes };
            let records = commit_records(object, &inode, part);
            let mut spare_bytes = admitted.spare.fold_bytes;
            let wait = self.append_all(admitted, &mut locked, records, |locked, txg, record, is_logged| {
                self.charge_replay(locked, txg, &record, &mut spare_bytes);
                // What the log has not taken stays due.
                let pieces = record.data.filter(|_| is_logged).into_iter().flat_map(|data| data.pieces);
                pieces.for_each(|(at, bytes)| {
                    locked.state_mut(object.id).note_logged(at..at + bytes.len() as u64);
                });
            });
            if is_last {
                return Outcome { result: Ok(verifier), changes, wait };
            }
            if matches!(wait, Wait::On(_)) {
                return Outcome { result: Err(FsError::Throttled), changes, wait };
            }
        }
    }

    /// Whether the log makes all of this durable sooner than the groups that have it, or in time for everybody.
    fn takes_log(&self, due: &Due) -> bool {
        !due.placed && due.parts_bytes + due.bytes() <= self.inline_max() && self.logs_now()
    }

    /// Room for what goes to the log next; `None` where the groups are to be the promise, since that is better, or there is
    /// no room.
    fn admit_part(
        &self,
        object: ObjectRef,
        peeked: &Due,
        part: &[Vec<(u64, Bytes)>],
    ) -> Result<Option<Admitted>, FsError> {
        if !self.takes_log(peeked) {
            return Ok(None);
        }
        let ranges = part.iter().flatten().map(|(offset, bytes)| *offset..*offset + bytes.len() as u64);
        // Where an older group has it, no fold of this one's writes it. But once that group is synced a crash lets the replay
        // write it again, with the older blocks still there: it has to find room until this group is synced, too (rules F19).
        let fold = match part {
            [] => FoldCost::default(),
            _ => self.fold_cost(object, |inode, layer| FoldCost::of(inode, layer, ranges))?,
        };
        let fold = FoldCost { patch_bytes: 0, ..fold };
        let records = part.iter().map(|batch| batch_bytes(batch) + RECORD_OVERHEAD_MAX).collect();
        // All else was counted when it was written, for the group that has it.
        let ask = Ask { records, fold, ..Ask::metadata(SpaceClass::Remove) };
        Ok(self.admit(&ask).ok())
    }

    /// The wait when a whole transaction group is the promise: up to the newest layer of the file.
    fn wait_for_groups(&self, locked: &Locked, object: ObjectRef, due: &Due) -> Wait {
        match locked.state(object.id).layers.last() {
            Some(layer) if due.placed || !due.pieces.is_empty() => self.wait_for_group(layer.txg),
            _ => self.wait_for_seen(locked),
        }
    }

    /// The first of what is due, up to [`Self::part_max`], as records.
    fn next_part(&self, due: &Due) -> Vec<Vec<(u64, Bytes)>> {
        let most = self.record_data_max();
        let mut batches: Vec<Vec<(u64, Bytes)>> = Vec::new();
        let (mut left, mut room) = (self.part_max(), 0);
        for (offset, bytes) in &due.pieces {
            let mut at = 0;
            while at < bytes.len() && left > 0 {
                if room == 0 || batches.last().is_none_or(|batch| batch.len() >= RECORD_PIECES_MAX) {
                    batches.push(Vec::new());
                    room = most;
                }
                let part = bytes.slice(at..bytes.len().min(at + room.min(left)));
                room -= part.len();
                left -= part.len();
                at += part.len();
                batches.last_mut().expect("one was just made").push((offset + (at - part.len()) as u64, part));
            }
        }
        batches
    }
}

fn batch_bytes(batch: &[(u64, Bytes)]) -> usize {
    batch.iter().map(|(_, bytes)| bytes.len()).sum()
}

/// Whether what is there now needs no more room than what was asked for.
fn fits(now: &[Vec<(u64, Bytes)>], asked: &[Vec<(u64, Bytes)>]) -> bool {
    now.len() <= asked.len() && now.iter().zip(asked).all(|(now, asked)| batch_bytes(now) <= batch_bytes(asked))
}

/// Everything in `range` that is dirty and not logged, in order, as a reader sees it now.
fn due(state: &ObjectState, range: Range<u64>) -> Due {
    let size = state.inode.as_ref().map_or(0, |inode| inode.size);
    let range = range.start.min(size)..range.end.min(size);
    let mut due = Due { parts_bytes: state.parts_bytes, ..Due::default() };
    for (_, part, seen) in see_through(&state.layers, range) {
        match seen {
            Seen::Piece(Piece::Memory { bytes, logged: false }) => due.pieces.push((part.start, bytes)),
            Seen::Piece(Piece::Memory { logged: true, .. }) | Seen::Zero | Seen::Below => {}
            Seen::Piece(Piece::Placed { .. }) => due.placed = true,
        }
    }
    due
}

fn commit_records(
    object: ObjectRef,
    inode: &Inode,
    batches: Vec<Vec<(u64, Bytes)>>,
) -> SmallVec<[(RecordKind, Record); 1]> {
    batches
        .into_iter()
        .map(|batch| {
            let end = batch.iter().map(|(offset, bytes)| offset + bytes.len() as u64).max().unwrap_or(0);
            let record = Record {
                inodes: smallvec![after(object.id, inode, SizeRule::AtLeast(end))],
                data: Some(Data { object: object.id, pieces: batch.into_iter().collect() }),
                ..Record::default()
            };
            (RecordKind::CommitData, record)
        })
        .collect()
}

/// A COMMIT changes nothing that is seen. Where files are opened it says nothing of the open by which what it is about was written, so nobody's mode
/// is asked: who has the file open may have lost that right by now (rules V30).
fn may_commit(inode: &Inode, object: ObjectRef, ctx: OpCtx<'_>) -> Result<(), FsError> {
    check_has_content(inode)?;
    let may = ctx.right != Right::Mode || writes_by_mode(&inode.attr(object.id), ctx);
    if may { Ok(()) } else { Err(FsError::Access) }
}
