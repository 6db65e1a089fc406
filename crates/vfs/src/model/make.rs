//! Making objects and further names for them.

use bytes::Bytes;
use tally_base::ObjectId;

use super::content::Content;
use super::state::{Body, Directory, State, check_name};
use crate::permission;
use crate::{
    Attr, CreateHow, Cred, FILE_SIZE_MAX, FileKind, FsError, LINK_MAX, NodeKind, ObjectRef, OpCtx, Right, SYMLINK_MAX,
    SetAttr, SetTime,
};

impl State {
    pub(super) fn create(
        &mut self,
        ctx: OpCtx<'_>,
        dir: ObjectRef,
        name: &[u8],
        how: &CreateHow,
    ) -> Result<Attr, FsError> {
        let cred = ctx.cred;
        let (_, directory) = self.directory(dir)?;
        check_name(name, FsError::Exists)?;
        if !permission::may(&self.attr(dir)?, cred, permission::EXECUTE) {
            return Err(FsError::Access);
        }
        if let Some(existing) = directory.find(name) {
            return self.create_existing(ctx, existing, how);
        }
        let set = match how {
            CreateHow::Unchecked(set) | CreateHow::Guarded(set) => set.clone(),
            CreateHow::Exclusive(_) => SetAttr::default(),
            CreateHow::ExclusiveWith(_, set) => set.clone(),
        };
        if set.size.is_some_and(|size| size > FILE_SIZE_MAX) {
            return Err(FsError::TooBig);
        }
        let attr = self.make(cred, dir, name, FileKind::File, (0, 0), &set, |_| Body::Content(Content::default()))?;
        let inode = self.named(attr.object.id);
        inode.attr.size = set.size.unwrap_or(0);
        if let CreateHow::Exclusive(verifier) | CreateHow::ExclusiveWith(verifier, _) = how {
            inode.create_verifier = Some(*verifier);
        }
        Ok(inode.attr.clone())
    }

    fn create_existing(&mut self, ctx: OpCtx<'_>, id: ObjectId, how: &CreateHow) -> Result<Attr, FsError> {
        let inode = self.named(id);
        match how {
            CreateHow::Guarded(_) => Err(FsError::Exists),
            CreateHow::Exclusive(verifier) | CreateHow::ExclusiveWith(verifier, _) => {
                if inode.create_verifier == Some(*verifier) { Ok(inode.attr.clone()) } else { Err(FsError::Exists) }
            }
            CreateHow::Unchecked(_) if inode.attr.kind != FileKind::File => Err(FsError::Exists),
            CreateHow::Unchecked(set) => {
                let (object, old_size) = (inode.attr.object, inode.attr.size);
                let size = set.size.filter(|size| *size != old_size);
                if size.is_some() {
                    // As `open` would: other than by SETATTR, the owner needs the permission, too.
                    if !permission::may(&inode.attr, ctx.cred, permission::WRITE) {
                        return Err(FsError::Access);
                    }
                    let ctx = OpCtx { right: Right::Mode, ..ctx };
                    self.setattr(ctx, object, &SetAttr { size, ..SetAttr::default() }, None)?;
                }
                self.attr(object)
            }
        }
    }

    pub(super) fn mkdir(&mut self, cred: &Cred, dir: ObjectRef, name: &[u8], set: &SetAttr) -> Result<Attr, FsError> {
        if self.directory(dir)?.0.nlink >= LINK_MAX {
            return Err(FsError::TooManyLinks);
        }
        let attr = self.make(cred, dir, name, FileKind::Directory, (0, 0), set, |parent| {
            Body::Directory(Directory::new(parent))
        })?;
        self.named(dir.id).attr.nlink += 1;
        Ok(attr)
    }

    pub(super) fn symlink(
        &mut self,
        cred: &Cred,
        dir: ObjectRef,
        name: &[u8],
        target: &[u8],
        set: &SetAttr,
    ) -> Result<Attr, FsError> {
        if target.is_empty() || target.contains(&0) {
            return Err(FsError::Invalid);
        }
        if target.len() > SYMLINK_MAX {
            return Err(FsError::NameTooLong);
        }
        // The mode of a symbolic link means nothing; everybody shows 0777.
        let set = SetAttr { mode: Some(0o777), ..set.clone() };
        let target = Bytes::copy_from_slice(target);
        self.make(cred, dir, name, FileKind::Symlink, (0, 0), &set, |_| Body::Target(target))
    }

    pub(super) fn mknod(
        &mut self,
        cred: &Cred,
        dir: ObjectRef,
        name: &[u8],
        node: NodeKind,
        set: &SetAttr,
    ) -> Result<Attr, FsError> {
        let (kind, rdev) = match node {
            NodeKind::Fifo => (FileKind::Fifo, (0, 0)),
            NodeKind::Socket => (FileKind::Socket, (0, 0)),
            NodeKind::BlockDevice(major, minor) => (FileKind::BlockDevice, (major, minor)),
            NodeKind::CharDevice(major, minor) => (FileKind::CharDevice, (major, minor)),
        };
        if cred.uid != 0 && matches!(kind, FileKind::BlockDevice | FileKind::CharDevice) {
            return Err(FsError::NotOwner);
        }
        self.make(cred, dir, name, kind, rdev, set, |_| Body::Node)
    }

    pub(super) fn link(
        &mut self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        dir: ObjectRef,
        name: &[u8],
    ) -> Result<Attr, FsError> {
        let attr = self.attr(object)?;
        let (_, directory) = self.directory(dir)?;
        check_name(name, FsError::Exists)?;
        if directory.find(name).is_some() {
            return Err(FsError::Exists);
        }
        if attr.kind == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        self.may_change_dir(ctx.cred, dir)?;
        if attr.nlink == 0 {
            return Err(FsError::NotFound);
        }
        if attr.nlink >= LINK_MAX {
            return Err(FsError::TooManyLinks);
        }
        self.gate(object, ctx.actor(), true)?;
        let now = self.issue_time();
        let entry = self.draw_id();
        self.enter(dir.id, entry, name, object.id);
        self.named(object.id).attr.nlink += 1;
        self.touch(object.id, now);
        self.touch_content(dir.id, now);
        self.attr(object)
    }

    #[allow(clippy::too_many_arguments)]
    fn make(
        &mut self,
        cred: &Cred,
        dir: ObjectRef,
        name: &[u8],
        kind: FileKind,
        rdev: (u32, u32),
        set: &SetAttr,
        body: impl FnOnce(ObjectId) -> Body,
    ) -> Result<Attr, FsError> {
        let (_, directory) = self.directory(dir)?;
        check_name(name, FsError::Exists)?;
        if directory.find(name).is_some() {
            return Err(FsError::Exists);
        }
        let parent = self.may_change_dir(cred, dir)?;
        let (inherited, mode) = permission::inherit(&parent, cred, kind, set.mode.unwrap_or(0));
        let (uid, gid) = permission::owners_given(cred, (cred.uid, inherited), set);
        let id = ObjectId(self.draw_id());
        let entry = self.draw_id();
        let made = self.insert(id, kind, mode, (uid, gid), rdev, body(dir.id));
        let inode = self.named(id);
        for (field, time) in [(&mut inode.attr.atime, set.atime), (&mut inode.attr.mtime, set.mtime)] {
            if let Some(SetTime::Client(time)) = time {
                *field = time;
            }
        }
        self.enter(dir.id, entry, name, id);
        self.touch_content(dir.id, made.ctime);
        Ok(self.named(id).attr.clone())
    }
}
