//! DEALLOCATE: a range of a file becomes zeroes and a hole (rules V42), and what it took is free once the group is synced, or once the reaper has come by
//! ([docs/design/0072](../../../../docs/design/0072-punches-and-reservations.md)).
//!
//! However long it is, it is one record, and in memory two numbers. The fold writes the blocks at its borders anew and frees the whole
//! ones between; of a long one it notes that they do not exist, as of a long cut. An inode has room for so many notes, so who comes with
//! another long one then waits for the reaper.

use std::ops::Range;

use smallvec::smallvec;
use tally_claims::Act;
use tally_store::pool::SpaceClass;
use tally_vfs::{FILE_SIZE_MAX, FsError, ObjectRef, OpCtx, Outcome};

use super::setattr::strip_privileges;
use super::{after, change, failed, remember, unchanged};
use crate::admission::{Ask, Refusal};
use crate::cost::FoldCost;
use crate::cuts::SHORT_PUNCHES_MAX;
use crate::filesystem::Filesystem;
use crate::fold::{extents_at_most, whole_blocks};
use crate::object::ObjectState;
use crate::record::{Record, RecordKind, SizeRule};

impl Filesystem {
    pub(crate) fn deallocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        let Some(end) = offset.checked_add(length).filter(|end| *end > offset) else {
            return failed(FsError::Invalid);
        };
        if let Err(refusal) = self.check_takes_changes() {
            return refusal.outcome();
        }
        let fold = match self.cost_of_punch(object, &(offset..end)) {
            Ok(fold) => fold,
            Err(refusal) => return refusal.outcome(),
        };
        let admitted = match self.admit(&Ask::metadata(SpaceClass::Remove).folding(fold)) {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.outcome(),
        };
        let mut locked = match self.lock(&[object.id]) {
            Ok(locked) => locked,
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
        let content = offset..end.min(before.size);
        if content.is_empty() {
            let wait = self.wait_for_seen(&locked);
            return Outcome { result: Ok(()), changes: smallvec![unchanged(object.id, &before)], wait };
        }
        // To the end of the file the last block is whole. The record says so, as a replay may find the file shorter or longer.
        let blocks_end = before.size.next_multiple_of(before.record_size()).min(FILE_SIZE_MAX);
        let range = if content.end == before.size { offset..blocks_end } else { content.clone() };
        let mut inode = before.clone();
        inode.modify(self.now());
        inode.unreserve(&range);
        strip_privileges(&mut inode, ctx.cred);
        // What made the file so long may be in no log, and a COMMIT behind this finds nothing there that it could log.
        let mut record = Record {
            inodes: smallvec![after(object.id, &inode, SizeRule::AtLeast(content.end))],
            punch: Some((object.id, range)),
            ..Record::default()
        };
        remember(&mut record, ctx, Some(object));
        let wait = self.carry_out(admitted, &mut locked, RecordKind::Punch, record);
        Outcome { result: Ok(()), changes: smallvec![change(object.id, &before, &inode)], wait }
    }

    /// What a punch will cost its fold, from a look without the lock; or that there is no room to note another long one.
    fn cost_of_punch(&self, object: ObjectRef, range: &Range<u64>) -> Result<FoldCost, Refusal> {
        let freed_max = self.pool.tuning.reap_extents_max as u64;
        let (mut is_long, mut noted) = (false, 0);
        let fold = self.fold_cost(object, |inode, layer| {
            let range = range.start.min(inode.size)..range.end.min(inode.size);
            is_long = extents_at_most(inode, whole_blocks(inode, &range)) > freed_max;
            noted = inode.cuts.as_ref().map_or(0, |cuts| cuts.punch_count());
            FoldCost::of_punch(inode, layer, &range, freed_max)
        });
        if is_long && noted + self.objects.look(object.id, ObjectState::punch_count) >= SHORT_PUNCHES_MAX {
            return Err(Refusal::until(self.pool.txgs.next_sync()));
        }
        fold.map_err(Refusal::now)
    }
}
