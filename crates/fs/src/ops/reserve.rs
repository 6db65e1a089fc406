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
use crate::inode::Inode;
use crate::record::{Record, RecordKind, SizeRule};

/// What a reservation is let in with.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// By how much more is promised, at the most.
    promised_bytes: u64,
    /// Whether the file is reserved so already, and as long: there is nothing to ask for.
    is_there: bool,
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
        let (fold, asked) = match self.look_to_reserve(object, &range) {
            Ok(both) => both,
            Err(error) => return failed(error),
        };
        let promised_bytes = asked.promised_bytes;
        let is_too_much = end > FILE_SIZE_MAX || self.pool.is_more_than_all(promised_bytes);
        // Who may not is told so, and what there never is room for nobody waits for.
        let room = PromisedRoom { promised_bytes: if is_too_much { 0 } else { promised_bytes }, drawn_bytes: 0 };
        // What is reserved already is a SETATTR of times.
        let class = if asked.is_there { SpaceClass::Remove } else { SpaceClass::Write };
        let ask = Ask { room, ..Ask::metadata(class) }.growing(room.promised_bytes).folding(fold);
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
        let needed = Asked::of(&before, &inode, locked.state(object.id).layers.is_empty());
        if needed.promised_bytes > asked.promised_bytes || (asked.is_there && !needed.is_there) {
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

    /// What a reservation will cost and promise, from a look without the lock.
    fn look_to_reserve(&self, object: ObjectRef, range: &Range<u64>) -> Result<(FoldCost, Asked), FsError> {
        let mut asked = Asked::default();
        let is_at_rest = self.objects.look(object.id, |state| state.layers.is_empty());
        let fold = self.fold_cost(object, |inode, layer| {
            if let Some(after) = reserved_after(inode, range) {
                asked = Asked::of(inode, &after, is_at_rest);
            }
            let grows = range.end > inode.size;
            if grows { FoldCost::of_resize(inode, layer, range.end) } else { FoldCost::default() }
        })?;
        Ok((fold, asked))
    }
}

impl Asked {
    /// Of a file that is at rest it is known what its blocks take as long as nothing else is folded: of that nothing more is promised.
    fn of(before: &Inode, after: &Inode, is_at_rest: bool) -> Self {
        let more_bytes = after.reserved_room().saturating_sub(before.reserved_room());
        let gained = after.reserved.as_deref().map(|it| it.beside(before.reserved.as_deref())).unwrap_or_default();
        // What the reaper is at is taken by a root's word, and not by the next one's.
        let is_at_rest = is_at_rest && before.cuts.is_none();
        let taken_bytes = if is_at_rest { before.surely_taken(&gained) } else { 0 };
        let is_there = gained.is_empty() && after.size == before.size;
        Self { promised_bytes: more_bytes.saturating_sub(taken_bytes), is_there }
    }
}

/// A file of which that range is reserved as well, and which reaches as far; `None` where that cannot be noted.
fn reserved_after(before: &Inode, range: &Range<u64>) -> Option<Inode> {
    let mut inode = before.clone();
    inode.size = inode.size.max(range.end);
    (inode.kind == FileKind::File && inode.reserve(range)).then_some(inode)
}
