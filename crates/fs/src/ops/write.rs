//! WRITE: into memory and the log, or, for full blocks of much that is written at once, ahead to their final place.
//!
//! What need not be stable stays in memory, for the COMMIT to log, until its file has more of it in the open group than
//! the log takes sooner than that group would be durable. From there on it is a placed file, whose full blocks go to their
//! place as they come, and whole blocks of what stayed in memory follow them, so that its group has less to write
//! ([docs/design/0035](../../../../docs/design/0035-the-log-takes-what-it-takes-sooner.md)).

use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use tally_base::{Txg, round_to_sector};
use tally_claims::Act;
use tally_store::block::{BlockError, NoSpace};
use tally_store::dataset::Placed;
use tally_store::pool::SpaceClass;
use tally_store::properties::SyncMode;
use tally_store::txg::{PromisedRoom, RingUse};
use tally_vfs::permission::{self, WRITE};
use tally_vfs::{Attr, FILE_SIZE_MAX, FileKind, FsError, ObjectRef, OpCtx, Outcome, Stability, Written};

use super::bounds::record_data_max_of;
use super::follow::{self, Claim, Follower};
use super::setattr::strip_privileges;
use super::{after, change, failed, unchanged};
use crate::admission::{Ask, Refusal};
use crate::cost::FoldCost;
use crate::filesystem::Filesystem;
use crate::fold::SMALL_MAX;
use crate::inode::{Inode, Layout};
use crate::layer::{DataLayer, Piece};
use crate::object::{Locked, ObjectState};
use crate::record::{Data, RECORD_OVERHEAD_MAX, Record, RecordKind, SizeRule};

/// The parts of a WRITE: what stays in memory, and what is in the pool already, which goes back unless it is settled.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) memory: SmallVec<[(u64, Bytes); 2]>,
    placed: Vec<(u64, Placed<'a>)>,
    /// What stayed in memory before and follows.
    followers: Vec<Follower<'a>>,
    /// That nobody else places the same.
    claim: Option<Claim>,
    /// Whether it stays in memory for a COMMIT, which will want a place in the ring for it.
    gathers: bool,
}

impl Parts<'_> {
    fn whole(offset: u64, data: &Bytes) -> Self {
        Self { memory: smallvec![(offset, data.clone())], ..Self::default() }
    }
}

/// What makes a WRITE stable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its records.
    Log,
    /// Its group, for which its reply waits.
    Group,
    /// A COMMIT, if one comes: its records, or its group.
    Unstable {
        /// Whether it seemed to stay in memory, for the log, when its data was let in.
        gathers: bool,
    },
}

/// What a WRITE is going to do. Dataset and lane may be others before it is done: then it was wrong about what is quicker, and never
/// about what is promised. Whether its data stays in memory is looked at once more, under the lock.
struct WritePlan {
    is_stable: bool,
    way: Way,
    /// What it takes of the ring.
    ring: RingUse,
    /// Its data, a part for each record; none where it goes into none.
    chunks: SmallVec<[Bytes; 1]>,
}

impl Way {
    /// What it takes of the ring of its log, if there is one, of so many bytes.
    fn ring_use(self, ring_bytes: Option<u64>) -> RingUse {
        match (self, ring_bytes) {
            (Self::Log, Some(bytes)) => RingUse::Logged(bytes),
            (Self::Unstable { gathers: true }, Some(bytes)) => RingUse::Unstable(bytes),
            (Self::Unstable { gathers: false } | Self::Group, _) | (_, None) => RingUse::None,
        }
    }
}

impl Filesystem {
    /// What a change of a file's content will cost the fold, as `estimate` sees it in the inode and the newest layer.
    pub(super) fn fold_cost(
        &self,
        object: ObjectRef,
        estimate: impl FnOnce(&Inode, Option<&DataLayer>) -> FoldCost,
    ) -> Result<FoldCost, FsError> {
        self.see(object.id, |sight| match sight.live(object) {
            Ok(inode) => Ok(estimate(&inode, sight.newest_data())),
            // What is not there will be refused under the lock.
            Err(FsError::Stale) => Ok(FoldCost::default()),
            // A disk may give under the lock what it refuses now, and nobody would have asked for the room.
            Err(error) => Err(error),
        })
    }

    /// What a WRITE may cost its fold, by how much it may make the dataset grow, and what it draws of room that was promised, if it was: from one
    /// look, without the lock.
    fn costs_of_write(
        &self,
        object: ObjectRef,
        range: &Range<u64>,
    ) -> Result<(FoldCost, u64, Option<PromisedRoom>), FsError> {
        let (mut growth_bytes, mut promised) = (0, None);
        let gives_back = self.has_quota() && self.objects.look(object.id, ObjectState::is_punched);
        let fold = self.fold_cost(object, |inode, layer| {
            // Nobody asks without a quota.
            let is_promised = inode.is_promised(range);
            if self.has_quota() && !is_promised {
                growth_bytes = growth(inode, range, gives_back).saturating_add(growth_of_reserved(inode, range));
            }
            let cost = FoldCost::of(inode, layer, std::iter::once(range.clone()));
            promised = is_promised.then(|| PromisedRoom { promised_bytes: 0, drawn_bytes: cost.block_bytes(inode) });
            cost
        })?;
        Ok((fold, growth_bytes, promised))
    }

    /// What a WRITE is going to do, by one look at its dataset and the lane; if it may begin at all.
    fn plan_write(&self, object: ObjectRef, data: &Bytes, asked: Stability) -> Result<WritePlan, Refusal> {
        let length = data.len() as u64;
        let (log, effective) = (self.log(), self.dataset.effective());
        let inline_max = log.as_ref().map_or(0, |lane| self.inline_max_of(lane, &effective));
        let is_stable = asked > Stability::Unstable || effective.sync == SyncMode::Always;
        let inline = is_stable && self.logs_now() && length <= inline_max;
        self.check_takes_changes()?;
        if !inline {
            self.check_lease()?;
        }
        let way = match (inline, is_stable) {
            (true, _) => Way::Log,
            (false, true) => Way::Group,
            (false, false) => {
                let gather_max = self.gather_max_of(inline_max);
                let gathers = self.objects.look(object.id, |state| self.gathers(state, length, gather_max));
                Way::Unstable { gathers }
            }
        };
        let ring = way.ring_use(log.as_ref().map(|lane| lane.geometry().size));
        let lane = log.filter(|_| inline);
        let chunks = lane.map_or(SmallVec::new(), |lane| chunks(data, record_data_max_of(&lane)));
        Ok(WritePlan { is_stable, way, ring, chunks })
    }

    pub(crate) fn write(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        data: &Bytes,
        asked: Stability,
    ) -> Outcome<Written> {
        let length = data.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > FILE_SIZE_MAX) {
            return failed(FsError::TooBig);
        }
        let WritePlan { is_stable, way, ring, chunks } = match self.plan_write(object, data, asked) {
            Ok(plan) => plan,
            Err(refusal) => return refusal.outcome(),
        };
        let inline = way == Way::Log;
        let range = offset..offset + length;
        let _while_it_is_brought = match self.pass(object, range.clone(), ring) {
            Ok(pass) => pass,
            // Who would wait for nothing is told so at once.
            Err(_) if self.is_sure_to_refuse(ctx, object, range.clone()) => None,
            Err(refusal) => return refusal.outcome(),
        };
        let records = chunks.iter().map(|chunk| chunk.len() + RECORD_OVERHEAD_MAX).collect();
        let (fold, growth_bytes, promised) = match self.costs_of_write(object, &range) {
            Ok(costs) => costs,
            Err(error) => return failed(error),
        };
        let class = if promised.is_some() { SpaceClass::Promised } else { SpaceClass::Write };
        let ask = Ask { data_bytes: length, records, fold, growth_bytes, class, room: promised.unwrap_or_default() };
        let admitted = match self.admit(&ask) {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.outcome(),
        };
        let (mut parts, mut locked) = match self.lock_with_parts(object, offset, data, way) {
            Ok(both) => both,
            Err(error) => return failed(error),
        };
        let before = match self.sight(object.id, locked.state(object.id)).live(object) {
            Ok(inode) => inode,
            Err(error) => return self.refused(&locked, smallvec![], error),
        };
        let may = self.may_write(&before, object, ctx).and_then(|()| self.gate(object, ctx.actor(), Act::Changes));
        if let Err(error) = may {
            return self.refused(&locked, smallvec![unchanged(object.id, &before)], error);
        }
        if promised.is_some() && !before.is_promised(&range) {
            // It was punched or cut since that look, and nothing is drawn of what nobody promises.
            return Refusal::until(self.pool.txgs.next_sync()).outcome();
        }
        let stability = if is_stable { Stability::FileSync } else { Stability::Unstable };
        let written = Written { count: length as u32, stability, verifier: self.verifier };
        if length == 0 {
            let wait = self.wait_for_seen(&locked);
            return Outcome { result: Ok(written), changes: smallvec![unchanged(object.id, &before)], wait };
        }
        let time = match if inline { Ok(self.now()) } else { self.unlogged_now() } {
            Ok(time) => time,
            Err(refusal) => return refusal.outcome(),
        };
        let mut inode = before.clone();
        inode.modify(time);
        inode.size = inode.size.max(offset + length);
        strip_privileges(&mut inode, ctx.cred);
        // Dirty bytes count in full until the fold knows better.
        inode.used = (inode.used + length).min(round_to_sector(inode.size));
        let changes = smallvec![change(object.id, &before, &inode)];
        let wait = if inline {
            let records = write_records(object, &inode, offset, chunks);
            self.carry_out_all(admitted, &mut locked, records)
        } else {
            let record = Record {
                inodes: smallvec![after(object.id, &inode, SizeRule::Keep)],
                data: Some(Data { object: object.id, pieces: std::mem::take(&mut parts.memory).into_iter().collect() }),
                ..Record::default()
            };
            let txg = self.carry_out_unlogged(admitted, &mut locked, object, record, parts);
            if is_stable { self.wait_for_group(txg) } else { tally_base::Wait::Ready }
        };
        Outcome { result: Ok(written), changes, wait }
    }

    /// Whether a WRITE is refused however long it waits: a look without the lock, for those who would have to.
    fn is_sure_to_refuse(&self, ctx: OpCtx<'_>, object: ObjectRef, range: Range<u64>) -> bool {
        let may_write = || self.see(object.id, |sight| self.may_write(&sight.live(object)?, object, ctx));
        let may_grow = || self.check_quota(self.costs_of_write(object, &range)?.1).map_err(Refusal::into_error);
        self.dataset.effective().readonly
            || [may_write(), may_grow()].iter().any(|look| look.is_err_and(|error| error != FsError::Throttled))
    }

    /// Places what is to be placed, and locks the file. Placing waits for a device, so it comes before the lock; whether
    /// there is anything to place is sure only under it, since other requests write the same file meanwhile.
    fn lock_with_parts(
        &self,
        object: ObjectRef,
        offset: u64,
        data: &Bytes,
        way: Way,
    ) -> Result<(Parts<'_>, Locked), FsError> {
        let mut in_memory = match way {
            Way::Log => return Ok((Parts::default(), self.lock(&[object.id])?)),
            Way::Group => false,
            Way::Unstable { gathers } => gathers,
        };
        loop {
            let parts = if in_memory {
                Parts { gathers: true, ..Parts::whole(offset, data) }
            } else {
                self.place_full_blocks(object, offset, data)?
            };
            let locked = self.lock(&[object.id])?;
            // What was placed and could have stayed costs its COMMIT a group, and is right.
            if !in_memory || self.may_gather(locked.state(object.id), data.len() as u64) {
                return Ok((parts, locked));
            }
            in_memory = false;
        }
    }

    /// Writes the full blocks of a WRITE to their final place, with nothing held (rules F5), behind as much of what earlier
    /// ones left in memory. The rest stays in memory.
    fn place_full_blocks(&self, object: ObjectRef, offset: u64, data: &Bytes) -> Result<Parts<'_>, FsError> {
        let end = offset + data.len() as u64;
        let whole = Parts::whole(offset, data);
        let Ok(inode) = self.see(object.id, |sight| sight.live(object)) else { return Ok(whole) };
        let record_size = inode.record_size();
        let first = offset.next_multiple_of(record_size);
        let last = end / record_size * record_size;
        if inode.kind != FileKind::File || first >= last {
            return Ok(whole);
        }
        let part = |from: u64, to: u64| data.slice((from - offset) as usize..(to - offset) as usize);
        // In the cache the blocks keep all that the WRITE brought: where they are not most of it, they are copied (rules P5).
        let shares = (last - first) * 5 >= (end - offset) * 4;
        let block = |from: u64| {
            let content = part(from, from + record_size);
            if shares { content } else { Bytes::copy_from_slice(&content) }
        };
        let compression = self.dataset.effective().compression.into();
        let failed = |error: BlockError| self.no_room_or_broken(&error);
        let (claim, blocks) = self.claim_followers(object, record_size, &(offset..end)).unzip();
        let blocks = blocks.unwrap_or_default();
        let mut out = self.io().placer(last - first + blocks.len() as u64 * record_size);
        // Behind the placer: what goes back does so before the rest of its run.
        let mut parts = Parts { claim, ..Parts::default() };
        follow::place(blocks, &mut out, compression, &mut parts.followers).map_err(failed)?;
        for start in (first..last).step_by(record_size as usize) {
            parts.placed.push((start, out.put(block(start), compression).map_err(failed)?));
        }
        out.finish().map_err(failed)?;
        for (from, to) in [(offset, first), (last, end)] {
            if from < to {
                parts.memory.push((from, part(from, to)));
            }
        }
        Ok(parts)
    }

    pub(crate) fn no_room_or_broken(&self, error: &BlockError) -> FsError {
        match error {
            BlockError::NoSpace(NoSpace { refused: 0, .. }) => FsError::NoSpace,
            other => self.broken(other),
        }
    }

    /// Carries an unlogged write out: to memory alone. Gives the group that will make it durable.
    fn carry_out_unlogged(
        &self,
        admitted: crate::admission::Admitted,
        locked: &mut Locked,
        object: ObjectRef,
        record: Record,
        parts: Parts<'_>,
    ) -> Txg {
        let mut spare = admitted.spare;
        self.with_hold(admitted, |txg| {
            self.charge_fold(locked, txg, &record, parts.gathers, &mut spare);
            self.apply(locked, txg, record, false);
            let layer = &mut locked.state_mut(object.id).layer_mut(txg).data;
            for (offset, block) in parts.placed {
                self.settle_placed(layer, txg, offset, block);
            }
            parts.claim.iter().for_each(|claim| claim.note_looked(txg, layer));
            for follower in parts.followers {
                if follower.is_current(layer) {
                    let bytes = u64::from(follower.block.bytes());
                    self.settle_placed(layer, txg, follower.offset, follower.block);
                    self.pool.txgs.note_placed(txg, bytes);
                }
            }
            txg
        })
    }

    /// A block that was placed becomes the content of the open group.
    fn settle_placed(&self, layer: &mut DataLayer, txg: Txg, offset: u64, block: Placed<'_>) {
        if self.gone.load(Ordering::Acquire) {
            // The dataset is destroyed: nobody will fold this layer, and the block goes back.
            return;
        }
        let block = block.settle(txg);
        layer.insert(offset, Piece::Placed { block, skip: 0, length: u64::from(block.lsize) });
    }
}

/// By how much a WRITE may make the dataset grow: by the blocks that it touches, however little of them, but not
/// beyond what the file takes if every block of it is written and none can be compressed. What was cut from it and is not
/// freed yet, or what it `gives_back` since it was punched, is no part of that: it goes, and whoever took its place for nothing would
/// stay.
fn growth(inode: &Inode, range: &Range<u64>, gives_back: bool) -> u64 {
    let record_size = inode.record_size();
    let size = inode.size.max(range.end);
    let is_small = inode.layout == Layout::Small && size <= SMALL_MAX;
    let used_max = if is_small { size } else { round_to_sector(size) };
    let touched =
        range.end.next_multiple_of(record_size).min(used_max).saturating_sub(range.start / record_size * record_size);
    let gives_back = gives_back || inode.cuts.as_ref().is_some_and(|cuts| cuts.is_waiting());
    let has_surely = if gives_back { 0 } else { inode.used };
    touched.min(used_max.saturating_sub(has_surely))
}

/// By how much more may be reserved of a file, where a WRITE makes the last block of that longer.
fn growth_of_reserved(inode: &Inode, range: &Range<u64>) -> u64 {
    if inode.reserved.is_some() && range.end > inode.size { inode.record_size() } else { 0 }
}

/// The data in parts of `most` bytes: one for each record.
fn chunks(data: &Bytes, most: usize) -> SmallVec<[Bytes; 1]> {
    let ends = (0..data.len()).step_by(most);
    ends.map(|at| data.slice(at..data.len().min(at + most))).collect()
}

impl Filesystem {
    pub(super) fn may_write(&self, inode: &Inode, object: ObjectRef, ctx: OpCtx<'_>) -> Result<(), FsError> {
        check_has_content(inode)?;
        let attr = inode.attr(object.id);
        self.check_may_write(ctx.right, &attr, writes_by_mode(&attr, ctx))
    }
}

/// Whether it is a file.
pub(super) fn check_has_content(inode: &Inode) -> Result<(), FsError> {
    match inode.kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::BadType),
    }
}

/// The owner may always write: an open file stays writable after a chmod.
pub(super) fn writes_by_mode(attr: &Attr, ctx: OpCtx<'_>) -> bool {
    permission::may(attr, ctx.cred, WRITE) || permission::owns(attr, ctx.cred)
}

fn write_records(
    object: ObjectRef,
    inode: &Inode,
    offset: u64,
    chunks: SmallVec<[Bytes; 1]>,
) -> SmallVec<[(RecordKind, Record); 1]> {
    let mut at = offset;
    chunks
        .into_iter()
        .map(|chunk| {
            let end = at + chunk.len() as u64;
            let record = Record {
                inodes: smallvec![after(object.id, inode, SizeRule::AtLeast(end))],
                data: Some(Data { object: object.id, pieces: smallvec![(at, chunk)] }),
                ..Record::default()
            };
            at = end;
            (RecordKind::Write, record)
        })
        .collect()
}
