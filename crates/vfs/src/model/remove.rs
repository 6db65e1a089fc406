//! Removing and moving names.

use tally_base::{ObjectId, Time};

use super::state::{Body, State, check_name};
use crate::permission::{self, EXECUTE, WRITE};
use crate::{Attr, Cred, FileKind, FsError, LINK_MAX, ObjectRef, OpCtx, RENAME_PARENTS_MAX};

impl State {
    pub(super) fn remove(&mut self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Result<(), FsError> {
        let victim = self.find_removable(ctx.cred, dir, name)?;
        if victim.kind == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        self.gate_to_unlink(&victim, ctx)?;
        let now = self.issue_time();
        self.leave(dir.id, name);
        self.touch_content(dir.id, now);
        self.unlink(victim.object.id, now);
        Ok(())
    }

    /// A name goes. What nobody has open goes with its last one, and then what its own client was given is in its way as well.
    fn gate_to_unlink(&self, attr: &Attr, ctx: OpCtx<'_>) -> Result<(), FsError> {
        let goes = attr.kind == FileKind::File && attr.nlink == 1 && !self.is_open(attr.object);
        self.gate(attr.object, if goes { None } else { ctx.actor() }, true)
    }

    pub(super) fn rmdir(&mut self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> Result<(), FsError> {
        if name == b".." {
            // The parent has this directory in it.
            return self.directory(dir).and(Err(FsError::NotEmpty));
        }
        let victim = self.find_removable(cred, dir, name)?;
        self.check_empty(&victim)?;
        let now = self.issue_time();
        self.leave(dir.id, name);
        self.inodes.remove(&victim.object.id);
        self.named(dir.id).attr.nlink -= 1;
        self.touch_content(dir.id, now);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        ctx: OpCtx<'_>,
        from_dir: ObjectRef,
        from: &[u8],
        to_dir: ObjectRef,
        to: &[u8],
        replaces: bool,
    ) -> Result<(), FsError> {
        let cred = ctx.cred;
        self.directory(to_dir)?;
        check_name(to, FsError::Invalid)?;
        let (from_attr, moved) = self.find_changeable(cred, from_dir, from)?;
        let to_attr = self.may_change_dir(cred, to_dir)?;
        let target = self.directory(to_dir)?.1.find(to).map(|id| self.named(id).attr.clone());
        if target.is_some() && !replaces {
            return Err(FsError::Exists);
        }
        if target.as_ref().is_some_and(|target| target.object == moved.object) {
            // Nothing is taken away from anybody, whoever owns it.
            return Ok(());
        }
        let forbids = |dir: &Attr, entry: &Attr| permission::sticky_forbids(dir, entry, cred);
        if forbids(&from_attr, &moved) || target.as_ref().is_some_and(|target| forbids(&to_attr, target)) {
            return Err(FsError::NotOwner);
        }
        self.check_move(cred, &moved, from_dir, to_dir)?;
        self.check_replace(&moved, target.as_ref())?;
        self.gate(moved.object, ctx.actor(), true)?;
        if let Some(target) = &target {
            self.gate_to_unlink(target, ctx)?;
        }
        let directory_moves = moved.kind == FileKind::Directory && from_dir != to_dir;
        if directory_moves && target.is_none() && to_attr.nlink >= LINK_MAX {
            return Err(FsError::TooManyLinks);
        }
        self.apply_rename(&moved, target, (from_dir, from), (to_dir, to));
        Ok(())
    }

    /// A directory cannot move into itself or below, and who moves it elsewhere changes its `..`.
    fn check_move(&self, cred: &Cred, moved: &Attr, from_dir: ObjectRef, to_dir: ObjectRef) -> Result<(), FsError> {
        if moved.kind != FileKind::Directory {
            return Ok(());
        }
        if from_dir != to_dir && !permission::may(moved, cred, WRITE) {
            return Err(FsError::Access);
        }
        let parents = self.parents_up_to(to_dir.id, moved.object.id).ok_or(FsError::Invalid)?;
        // What has no directories in it stands above nothing.
        let is_too_deep = from_dir != to_dir && moved.nlink > 2 && parents > RENAME_PARENTS_MAX;
        if is_too_deep { Err(FsError::NameTooLong) } else { Ok(()) }
    }

    fn check_replace(&self, moved: &Attr, target: Option<&Attr>) -> Result<(), FsError> {
        let Some(target) = target else { return Ok(()) };
        match (moved.kind == FileKind::Directory, target.kind == FileKind::Directory) {
            (true, false) => Err(FsError::NotDirectory),
            (false, true) => Err(FsError::IsDirectory),
            (true, true) => self.check_empty(target),
            (false, false) => Ok(()),
        }
    }

    fn apply_rename(
        &mut self,
        moved: &Attr,
        target: Option<Attr>,
        (from_dir, from): (ObjectRef, &[u8]),
        (to_dir, to): (ObjectRef, &[u8]),
    ) {
        let now = self.issue_time();
        // Whoever reads the directory meanwhile comes by once: what is replaced keeps its place, and so does what moves
        // within a directory.
        let entry = match &target {
            Some(_) => self.directory_mut(to_dir.id).by_name[to],
            None if from_dir == to_dir => self.directory_mut(from_dir.id).by_name[from],
            None => self.draw_id(),
        };
        if let Some(target) = target {
            self.leave(to_dir.id, to);
            if target.kind == FileKind::Directory {
                self.inodes.remove(&target.object.id);
                self.named(to_dir.id).attr.nlink -= 1;
            } else {
                self.unlink(target.object.id, now);
            }
        }
        self.leave(from_dir.id, from);
        self.enter(to_dir.id, entry, to, moved.object.id);
        if moved.kind == FileKind::Directory && from_dir != to_dir {
            self.directory_mut(moved.object.id).parent = to_dir.id;
            self.named(from_dir.id).attr.nlink -= 1;
            self.named(to_dir.id).attr.nlink += 1;
        }
        self.touch(moved.object.id, now);
        self.touch_content(from_dir.id, now);
        self.touch_content(to_dir.id, now);
    }

    /// The object of a name that `cred` may take out of `dir`.
    fn find_removable(&mut self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> Result<Attr, FsError> {
        let (parent, victim) = self.find_changeable(cred, dir, name)?;
        if permission::sticky_forbids(&parent, &victim, cred) {
            return Err(FsError::NotOwner);
        }
        Ok(victim)
    }

    /// A directory that `cred` may change, and the object of a name in it.
    fn find_changeable(&mut self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> Result<(Attr, Attr), FsError> {
        let (attr, directory) = self.directory(dir)?;
        check_name(name, FsError::Invalid)?;
        if !permission::may(attr, cred, EXECUTE) {
            return Err(FsError::Access);
        }
        let id = directory.find(name).ok_or(FsError::NotFound)?;
        let parent = self.may_change_dir(cred, dir)?;
        Ok((parent, self.named(id).attr.clone()))
    }

    fn check_empty(&self, victim: &Attr) -> Result<(), FsError> {
        let (_, directory) = self.directory(victim.object)?;
        if directory.entries.is_empty() { Ok(()) } else { Err(FsError::NotEmpty) }
    }

    fn unlink(&mut self, id: ObjectId, now: Time) {
        let attr = &mut self.named(id).attr;
        attr.nlink -= 1;
        let (object, is_gone) = (attr.object, attr.nlink == 0);
        if is_gone && !self.is_open(object) {
            self.inodes.remove(&id);
            self.forget_given(object);
        } else {
            self.touch(id, now);
        }
    }

    /// How many directories there are from `id` to the root; `None` if `above` is among them.
    fn parents_up_to(&self, mut id: ObjectId, above: ObjectId) -> Option<usize> {
        for parents in 0.. {
            if id == above {
                return None;
            }
            match self.inodes.get(&id).map(|inode| &inode.body) {
                Some(Body::Directory(directory)) if directory.parent != id => id = directory.parent,
                _ => return Some(parents),
            }
        }
        None
    }
}
