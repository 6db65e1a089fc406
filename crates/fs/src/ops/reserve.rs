//! ALLOCATE: each WRITE into a range finds room from then on, whatever others take (rules V42, [docs/design/0075](../../../../docs/design/0075-room-that-is-promised.md)).
//!
//! It is a record and a range in the inode; content it has none. What is promised is asked for when it is let in, as if all of it were written at once, of pool and quotas: from
//! then on it counts there, until its blocks take its place.

use std::ops::Range;

use smallvec::smallvec;
use tally_claims::Act;
use tally_store::pool::SpaceClass;
use tally_store::txg::PromisedRoom;
use tally_vfs::{FILE_SIZE_MAX, FileKind, FsError, ObjectRef, OpCtx, Outcome};

use super::setattr::strip_privileges;
use super::{after, change, failed, remember, unchanged};
use crate::admission::{Ask, Refusal};
use crate::cost::FoldCost;
use crate::filesystem::Filesystem;
use crate::inode::{Inode, Layout};
use crate::object::ObjectState;
use crate::record::{Record, RecordKind, SizeRule};
use crate::reserved::Reserved;

/// What a reservation was let in with.
#[derive(Clone, Copy, Default)]
struct Look {
    fold: FoldCost,
    /// By how much more may be reserved of the file.
    more_bytes: u64,
    /// What of that its blocks surely take already.
    taken_bytes: u64,
}

impl Filesystem {
    pub(crate) fn allocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        let Some(end) = offset.checked_add(length).filter(|end| *end > offset) else {
            return failed(FsError::Invalid);
        };
        if let Err(refusal) = self.check_takes_changes() {
            return refusal.outcome();
        }
        let range = offset..end.min(FILE_SIZE_MAX);
        let look = match self.look_to_reserve(object, &range) {
            Ok(look) => look,
            Err(error) => return failed(error),
        };
        let promised_bytes = look.more_bytes.saturating_sub(look.taken_bytes);
        let is_too_much = end > FILE_SIZE_MAX || self.pool.is_more_than_all(promised_bytes);
        // Who may not is told so, and what there never is room for nobody waits for.
        let room = PromisedRoom { promised_bytes: if is_too_much { 0 } else { promised_bytes }, drawn_bytes: 0 };
        let ask = Ask { room, ..Ask::metadata(SpaceClass::Write) }.growing(room.promised_bytes).folding(look.fold);
        let admitted = match self.admit(&ask) {
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
        let too_much = || match is_too_much {
            true if end > FILE_SIZE_MAX => Err(FsError::TooBig),
            true => Err(FsError::NoSpace),
            false => Ok(()),
        };
        let may = self.may_write(&before, object, ctx).and_then(|()| self.gate(object, ctx.actor(), Act::Changes));
        if let Err(error) = may.and_then(|()| too_much()) {
            return self.refused(&locked, smallvec![unchanged(object.id, &before)], error);
        }
        let Some(mut inode) = reserved_after(&before, &range) else {
            return self.refused(&locked, smallvec![unchanged(object.id, &before)], FsError::NoSpace);
        };
        let is_taken_away = |state: &ObjectState| state.is_punched() || state.is_cut();
        let may_be_less = look.taken_bytes > 0 && is_taken_away(locked.state(object.id));
        if may_be_less || more_reserved(&before, &inode) > look.more_bytes {
            // The file is another one since that look.
            return Refusal::until(self.pool.txgs.next_sync()).outcome();
        }
        inode.modify(self.now());
        strip_privileges(&mut inode, ctx.cred);
        let mut record = Record {
            inodes: smallvec![after(object.id, &inode, SizeRule::AtLeast(range.end))],
            reserve: Some((object.id, range)),
            ..Record::default()
        };
        remember(&mut record, ctx, Some(object));
        let wait = self.carry_out(admitted, &mut locked, RecordKind::Reserve, record);
        Outcome { result: Ok(()), changes: smallvec![change(object.id, &before, &inode)], wait }
    }

    /// What a reservation will take, from a look without the lock.
    fn look_to_reserve(&self, object: ObjectRef, range: &Range<u64>) -> Result<Look, FsError> {
        let mut look = Look::default();
        let is_at_rest = self.objects.look(object.id, |state| state.layers.is_empty());
        look.fold = self.fold_cost(object, |inode, layer| {
            if let Some(after) = reserved_after(inode, range) {
                look.more_bytes = more_reserved(inode, &after);
                look.taken_bytes = if is_at_rest { surely_taken(inode, &after) } else { 0 };
            }
            let grows = range.end > inode.size;
            if grows { FoldCost::of_resize(inode, layer, range.end) } else { FoldCost::default() }
        })?;
        Ok(look)
    }
}

/// A file of which that range is reserved as well, and which reaches as far; `None` where that cannot be noted.
fn reserved_after(before: &Inode, range: &Range<u64>) -> Option<Inode> {
    let mut inode = before.clone();
    inode.size = inode.size.max(range.end);
    (inode.kind == FileKind::File && inode.reserve(range)).then_some(inode)
}

/// By how much more is reserved of it.
fn more_reserved(before: &Inode, after: &Inode) -> u64 {
    after.reserved_room().saturating_sub(before.reserved_room())
}

/// What its blocks, all of them stored, take at the least of what was not reserved before: whatever lies outside takes no more than it could.
fn surely_taken(before: &Inode, after: &Inode) -> u64 {
    if before.layout != Layout::Extents || before.cuts.is_some() {
        return 0;
    }
    let whole = before.blocks_end();
    let within = |inode: &Inode| inode.reserved.as_deref().map_or(0, |it: &Reserved| it.content_bytes(whole));
    before.used.saturating_sub(whole - (within(after) - within(before)))
}
