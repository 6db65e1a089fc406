//! RENAME: a name moves, atomically, over whatever stood there. One record, whatever happens on the way (rules F5). What is in its way and
//! somebody has open is held (rules V28).

use smallvec::{SmallVec, smallvec};
use tally_base::{ObjectId, Time};
use tally_vfs::permission::{self, WRITE};
use tally_vfs::{Change, FileKind, FsError, LINK_MAX, ObjectRef, OpCtx, Outcome, entry_charge};

use super::ancestry::Standing;
use super::remove::unlinked;
use super::{after, change, check_name, failed, is_dots, remember, unchanged};
use crate::admission::Ask;
use crate::filesystem::Filesystem;
use crate::inode::{HELD, Inode};
use crate::object::Locked;
use crate::record::{Record, RecordKind, SizeRule};
use crate::sight::Found;

/// One end of a rename.
#[derive(Clone, Copy)]
struct End<'a> {
    dir: ObjectRef,
    name: &'a [u8],
}

/// What becomes of a rename whose new name somebody has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfThere {
    /// What has it goes.
    Replaced,
    /// Nothing is done.
    Refused,
}

/// What is known before the locks, and must still be true under them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Peeked {
    source: Option<Found>,
    target: Option<Found>,
    source_is_directory: bool,
    /// Somebody has open what is in the way.
    target_is_open: bool,
    if_there: IfThere,
}

/// Whether a directory may get another parent.
#[allow(clippy::large_enum_variant)] // It goes from one function to the next.
enum Stood<'a> {
    /// It may, while this is held.
    Still(Standing<'a>),
    /// What was peeked is no longer true.
    Changed,
    Refused(Outcome<()>),
}

impl Peeked {
    /// The directory that gets another parent, if one does.
    fn directory_that_moves(self, from: End<'_>, to: End<'_>) -> Option<ObjectId> {
        let moves = self.source_is_directory && from.dir.id != to.dir.id;
        self.source.filter(|_| moves).map(|source| source.object)
    }

    /// What has to be locked.
    fn ids(self, from: End<'_>, to: End<'_>) -> SmallVec<[ObjectId; 4]> {
        let mut ids = smallvec![from.dir.id, to.dir.id];
        ids.extend([self.source, self.target].into_iter().flatten().map(|found| found.object));
        ids.extend(self.target_is_open.then_some(HELD));
        ids
    }
}

impl Filesystem {
    pub(crate) fn rename(
        &self,
        ctx: OpCtx<'_>,
        (from_dir, from): (ObjectRef, &[u8]),
        (to_dir, to): (ObjectRef, &[u8]),
        if_there: IfThere,
    ) -> Outcome<()> {
        if let Err(error) = check_name(from).and_then(|()| check_name(to)) {
            return failed(error);
        }
        if is_dots(from) || is_dots(to) {
            return failed(FsError::Invalid);
        }
        let (from, to) = (End { dir: from_dir, name: from }, End { dir: to_dir, name: to });
        loop {
            // Before anything is looked for: where the pool takes no changes, that is what is told.
            if let Err(refusal) = self.check_takes_changes() {
                return refusal.outcome();
            }
            let growth_bytes = match self.growth_of_rename(from, to) {
                Ok(growth_bytes) => growth_bytes,
                Err(error) => return self.failed_after_look(&[from_dir.id, to_dir.id], error),
            };
            let admitted = match self.admit(&Ask::rename().growing(growth_bytes)) {
                Ok(admitted) => admitted,
                Err(refusal) => return refusal.outcome(),
            };
            let peeked = match self.peek_rename(from, to, if_there) {
                Ok(peeked) => peeked,
                Err(error) => return self.failed_after_look(&[from_dir.id, to_dir.id], error),
            };
            if peeked.target_is_open
                && let Err(refusal) = self.make_room_to_hold()
            {
                return refusal.outcome();
            }
            let mut standing = match peeked.directory_that_moves(from, to) {
                None => None,
                Some(source) => match self.stand_for_rename(ctx, from, to, peeked, source) {
                    Stood::Still(standing) => Some(standing),
                    Stood::Changed => continue,
                    Stood::Refused(outcome) => return outcome,
                },
            };
            let mut locked = match self.lock(&peeked.ids(from, to)) {
                Ok(locked) => locked,
                Err(error) => return failed(error),
            };
            let planned = match self.plan_rename(ctx, &locked, from, to, peeked) {
                Ok(Some(planned)) => planned,
                Ok(None) => continue,
                Err(error) => return self.refused(&locked, self.seen_directories(&locked, from, to), error),
            };
            let changes = planned.changes(from, to);
            let Some(record) = planned.record else {
                return Outcome { result: Ok(()), changes, wait: self.wait_for_seen(&locked) };
            };
            if let (Some(standing), Some(source)) = (&mut standing, peeked.source) {
                standing.note(source.object);
            }
            let wait = self.carry_out(admitted, &mut locked, RecordKind::Rename, record);
            return Outcome { result: Ok(()), changes, wait };
        }
    }

    /// By how much a RENAME may make the dataset grow: by what the new name is longer, if nobody has it yet. Where that
    /// cannot be seen, no quota is to blame.
    fn growth_of_rename(&self, from: End<'_>, to: End<'_>) -> Result<u64, FsError> {
        let longer = entry_charge(to.name).saturating_sub(entry_charge(from.name));
        // Nobody asks without a quota.
        if longer == 0 || !self.has_quota() {
            return Ok(0);
        }
        // Should the target go before the locks are there, the quota is passed by one name.
        Ok(if self.peek_rename(from, to, IfThere::Replaced)?.target.is_some() { 0 } else { longer })
    }

    fn peek_rename(&self, from: End<'_>, to: End<'_>, if_there: IfThere) -> Result<Peeked, FsError> {
        let source = self.peek(from.dir, from.name)?;
        let target = self.peek(to.dir, to.name)?;
        let kind = source.and_then(|found| self.attr_of(found.object).ok()).map(|attr| attr.kind);
        let target_is_open = target.is_some_and(|target| self.may_be_open(target.object));
        Ok(Peeked { source, target, source_is_directory: kind == Some(FileKind::Directory), target_is_open, if_there })
    }

    /// The tree, standing still, for a directory's move to where it does not come to stand below itself. Who may not do this
    /// is refused for what a look costs, and before anything is told of directories that they may not search.
    fn stand_for_rename(
        &self,
        ctx: OpCtx<'_>,
        from: End<'_>,
        to: End<'_>,
        peeked: Peeked,
        source: ObjectId,
    ) -> Stood<'_> {
        {
            let locked = match self.lock(&peeked.ids(from, to)) {
                Ok(locked) => locked,
                Err(error) => return Stood::Refused(failed(error)),
            };
            match self.judge_rename(ctx, &locked, from, to, peeked) {
                Ok(None) => return Stood::Changed,
                Err(FsError::Access) => {
                    let seen = self.seen_directories(&locked, from, to);
                    return Stood::Refused(self.refused(&locked, seen, FsError::Access));
                }
                // Whether something is in the way is asked behind the walk, as elsewhere.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        let seen = self.see(from.dir.id, |sight| sight.rests_on());
        match self.stand_above(source, to.dir, seen) {
            Ok(Some(standing)) => Stood::Still(standing),
            Ok(None) => Stood::Changed,
            Err((error, seen)) => Stood::Refused(Outcome { wait: self.wait_for(seen), ..failed(error) }),
        }
    }

    fn seen_directories(&self, locked: &Locked, from: End<'_>, to: End<'_>) -> SmallVec<[Change; 2]> {
        [from, to]
            .into_iter()
            .map(|end| {
                locked
                    .state(end.dir.id)
                    .inode
                    .as_ref()
                    .map_or_else(Change::default, |inode| unchanged(end.dir.id, inode))
            })
            .collect()
    }

    /// Works the rename out under the locks. `None`: what was peeked is no longer true.
    fn plan_rename(
        &self,
        ctx: OpCtx<'_>,
        locked: &Locked,
        from: End<'_>,
        to: End<'_>,
        peeked: Peeked,
    ) -> Result<Option<Planned>, FsError> {
        let Some(judged) = self.judge_rename(ctx, locked, from, to, peeked)? else { return Ok(None) };
        let mut planned = Planned {
            from_before: judged.from_dir.clone(),
            to_before: judged.to_dir.clone(),
            from_after: judged.from_dir,
            to_after: judged.to_dir,
            record: None,
        };
        // Two names of one object: POSIX has nothing done.
        if let Some(Work { source, moved, replaced }) = judged.work {
            self.rename_record(ctx, locked, &mut planned, (from, source), (to, replaced), moved)?;
        }
        Ok(Some(planned))
    }

    /// Whether it may be done, and can be. `None`: what was peeked is no longer true.
    fn judge_rename(
        &self,
        ctx: OpCtx<'_>,
        locked: &Locked,
        from: End<'_>,
        to: End<'_>,
        peeked: Peeked,
    ) -> Result<Option<Judged>, FsError> {
        let from_dir = self.writable_directory(locked, from.dir, ctx.cred).map_err(|(error, _)| error)?;
        let to_dir = self.writable_directory(locked, to.dir, ctx.cred).map_err(|(error, _)| error)?;
        let source = self.sight(from.dir.id, locked.state(from.dir.id)).find(from.name)?;
        let target = self.sight(to.dir.id, locked.state(to.dir.id)).find(to.name)?;
        let source_is_directory = source == peeked.source && peeked.source_is_directory;
        // What has been closed meanwhile needs no more than was thought; what was opened needs the lock of where it is held.
        let target_is_open = peeked.target_is_open;
        let was_opened = !target_is_open && target.is_some_and(|target| self.may_be_open(target.object));
        if was_opened || (Peeked { source, target, source_is_directory, target_is_open, ..peeked }) != peeked {
            return Ok(None);
        }
        let source = source.ok_or(FsError::NotFound)?;
        if target.is_some() && peeked.if_there == IfThere::Refused {
            return Err(FsError::Exists);
        }
        if target.is_some_and(|target| target.object == source.object) {
            return Ok(Some(Judged { from_dir, to_dir, work: None }));
        }
        let moved = self.movable(ctx, locked, (from, &from_dir), to, source.object)?;
        let replaced = match target {
            Some(target) => Some((target, self.replaceable(ctx, locked, (to, &to_dir), target.object, &moved)?)),
            None => None,
        };
        let moved = self.gate_to(source.object, moved, ctx)?;
        let gated = |(target, inode): (Found, Inode)| Ok((target, self.gate_to_unlink(target.object, inode, ctx)?));
        let replaced = replaced.map(gated).transpose()?;
        Ok(Some(Judged { from_dir, to_dir, work: Some(Work { source, moved, replaced }) }))
    }

    fn movable(
        &self,
        ctx: OpCtx<'_>,
        locked: &Locked,
        (from, dir): (End<'_>, &Inode),
        to: End<'_>,
        id: ObjectId,
    ) -> Result<Inode, FsError> {
        let inode = locked.state(id).inode.clone().ok_or_else(|| self.broken(&"an entry without its object"))?;
        let attr = inode.attr(id);
        if permission::sticky_forbids(&dir.attr(from.dir.id), &attr, ctx.cred) || self.is_mountpoint(id) {
            return Err(FsError::Access);
        }
        // Its `..` changes, which is a write to the directory itself.
        let changes_parent = inode.kind == FileKind::Directory && from.dir.id != to.dir.id;
        if changes_parent && !permission::may(&attr, ctx.cred, WRITE) {
            return Err(FsError::Access);
        }
        Ok(inode)
    }

    fn replaceable(
        &self,
        ctx: OpCtx<'_>,
        locked: &Locked,
        (to, dir): (End<'_>, &Inode),
        id: ObjectId,
        moved: &Inode,
    ) -> Result<Inode, FsError> {
        let inode = locked.state(id).inode.clone().ok_or_else(|| self.broken(&"an entry without its object"))?;
        if permission::sticky_forbids(&dir.attr(to.dir.id), &inode.attr(id), ctx.cred) || self.is_mountpoint(id) {
            return Err(FsError::Access);
        }
        match (moved.kind == FileKind::Directory, inode.kind == FileKind::Directory) {
            (true, false) => Err(FsError::NotDirectory),
            (false, true) => Err(FsError::IsDirectory),
            (false, false) => Ok(inode),
            (true, true) => {
                if self.sight(id, locked.state(id)).is_empty_directory()? {
                    Ok(inode)
                } else {
                    Err(FsError::NotEmpty)
                }
            }
        }
    }

    fn rename_record(
        &self,
        ctx: OpCtx<'_>,
        locked: &Locked,
        planned: &mut Planned,
        (from, source): (End<'_>, Found),
        (to, replaced): (End<'_>, Option<(Found, Inode)>),
        mut moved: Inode,
    ) -> Result<(), FsError> {
        let now = self.now();
        let same_dir = from.dir.id == to.dir.id;
        let directory = moved.kind == FileKind::Directory;
        let mut record = Record::default();
        self.drop_entry(&mut record, from.dir.id, source.entry, from.name);
        planned.take(same_dir, (from.name, to.name), directory, now);
        // Whoever reads the directory meanwhile comes by once: the entry that is replaced keeps its place, and so does one
        // that moves within its directory. With a new place for each, a listing beside renames would have no end (F21).
        let entry = match &replaced {
            Some((target, _)) => target.entry,
            None if same_dir => source.entry,
            None => self.draw_id(),
        };
        if let Some((_, inode)) = &replaced {
            planned.lose_target(same_dir, to.name, inode.kind == FileKind::Directory);
        }
        if planned.to_after.nlink > LINK_MAX {
            return Err(FsError::TooManyLinks);
        }
        if let Some((target, inode)) = &replaced {
            if self.may_be_open(target.object) && self.note_to_be_held(target.object, inode) {
                self.hold(locked, &mut record, target.object, inode)?;
            } else {
                let gone = unlinked(to.dir.id, *target, inode, now);
                self.note_unlinked(&gone);
                record.inodes.push(gone);
            }
        }
        self.put_entry(&mut record, to.dir.id, entry, to.name, source.object, moved.kind);
        moved.touch(now);
        moved.gain_name(to.dir.id, entry);
        let rule = if moved.kind == FileKind::File { SizeRule::Keep } else { SizeRule::Exact };
        record.inodes.push(after(source.object, &moved, rule));
        record.inodes.push(after(to.dir.id, &planned.to_after, SizeRule::Exact));
        if !same_dir {
            record.inodes.push(after(from.dir.id, &planned.from_after, SizeRule::Exact));
        }
        remember(&mut record, ctx, Some(ObjectRef { id: source.object, generation: moved.generation }));
        planned.record = Some(record);
        Ok(())
    }
}

/// A rename that may be done.
struct Judged {
    from_dir: Inode,
    to_dir: Inode,
    /// `None` where nothing is to be done.
    work: Option<Work>,
}

/// What moves, and what is in its place.
struct Work {
    source: Found,
    moved: Inode,
    replaced: Option<(Found, Inode)>,
}

/// A rename that was worked out. In one directory both pairs are of the same inode.
struct Planned {
    from_before: Inode,
    to_before: Inode,
    from_after: Inode,
    to_after: Inode,
    /// `None` where nothing is to be done.
    record: Option<Record>,
}

impl Planned {
    /// The entry leaves one directory and enters the other.
    fn take(&mut self, same_dir: bool, (from, to): (&[u8], &[u8]), directory: bool, now: Time) {
        self.to_after.modify(now);
        self.from_after.modify(now);
        if same_dir {
            self.to_after.rename_entry(from, to);
            self.from_after = self.to_after.clone();
            return;
        }
        self.from_after.lose_entry(from, directory);
        self.to_after.gain_entry(to, directory);
    }

    /// What stood in the way goes.
    fn lose_target(&mut self, same_dir: bool, name: &[u8], directory: bool) {
        self.to_after.lose_entry(name, directory);
        if same_dir {
            self.from_after = self.to_after.clone();
        }
    }

    fn changes(&self, from: End<'_>, to: End<'_>) -> SmallVec<[Change; 2]> {
        smallvec![
            change(from.dir.id, &self.from_before, &self.from_after),
            change(to.dir.id, &self.to_before, &self.to_after)
        ]
    }
}
