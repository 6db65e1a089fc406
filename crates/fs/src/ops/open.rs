//! OPEN and CLOSE: a file is found, or made, and somebody has it open from then on; all under its lock (rules V29).
//!
//! What makes a file is in [`super::make`], as CREATE is the same without the open. Who has what open stands in [`tally_claims`]; here is asked
//! whether he may, by the file's mode, once: what he reads and writes by his open goes by that (rules V30).

use smallvec::{SmallVec, smallvec};
use tally_base::{ObjectId, Wait};
use tally_claims::Refused;
use tally_vfs::permission::{self, EXECUTE, READ, WRITE};
use tally_vfs::{
    Access, Attr, Change, Cred, FileKind, FsError, Holder, ObjectRef, OpCtx, Opened, Opening, Outcome, Right, ToOpen,
};

use super::{failed, is_dots, unchanged};
use crate::filesystem::Filesystem;
use crate::inode::Inode;

impl Filesystem {
    pub(crate) fn open(&self, ctx: OpCtx<'_>, what: ToOpen<'_>, opening: Opening) -> Outcome<Opened> {
        match what {
            ToOpen::Made(dir, name, how) => self.make_open(ctx, dir, name, how, opening),
            ToOpen::Named(dir, name) => self.open_named(ctx, dir, name, opening),
            ToOpen::Itself(object) => {
                let result = self.open_found(ctx.cred, object.id, Some(object), opening);
                Outcome { result: result.and_then(|opened| opened.ok_or(FsError::Stale)), ..failed(FsError::Stale) }
            }
        }
    }

    /// Nothing is changed, so nothing is waited for.
    fn open_named(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], opening: Opening) -> Outcome<Opened> {
        let mut gone = None;
        loop {
            let (found, change) = match self.name_in(ctx.cred, dir, name) {
                Ok((found, attr)) => (found, Change { before: Some((&attr).into()), after: Some(attr) }),
                Err(error) => return failed(error),
            };
            let told = |result| Outcome { result, changes: smallvec![change.clone()], wait: Wait::Ready };
            let id = match found {
                Ok(_) if is_dots(name) => return told(Err(FsError::IsDirectory)),
                Ok(id) => id,
                Err(error) => return told(Err(error)),
            };
            match self.open_found(ctx.cred, id, None, opening) {
                Ok(Some(opened)) => return told(Ok(opened)),
                // It went between the two looks, and the directory is asked again.
                Ok(None) if gone != Some(id) => gone = Some(id),
                Ok(None) => return told(Err(self.broken(&format!("directory {} names {id}, which is gone", dir.id)))),
                Err(error) => return told(Err(error)),
            }
        }
    }

    /// Opens an object, of this generation if one is given; `None` where it is not there any more.
    fn open_found(
        &self,
        cred: &Cred,
        id: ObjectId,
        object: Option<ObjectRef>,
        opening: Opening,
    ) -> Result<Option<Opened>, FsError> {
        if opening.share.access.writes() && tally_vfs::Identity::is_read_only(self) {
            return Err(FsError::ReadOnly);
        }
        let locked = self.lock(&[id])?;
        let Some(inode) = &locked.state(id).inode else { return Ok(None) };
        let attr = inode.attr(id);
        if object.is_some_and(|object| object != attr.object) {
            return Ok(None);
        }
        check_may_open(&attr, cred, opening.share.access)?;
        self.claim(id, opening)?;
        Ok(Some(Opened { attr, is_new: false }))
    }

    /// Registers an open. The caller has the object's lock, and does nothing more that could be refused.
    pub(super) fn claim(&self, id: ObjectId, Opening { holder, share }: Opening) -> Result<(), FsError> {
        self.claims.open(id, holder, share).map_err(|refused| match refused {
            Refused::TooMany(_) => FsError::TooManyClaims,
            _ => FsError::ShareDenied,
        })
    }

    /// Whether whoever opens a file may cut it: others may have it open and forbid that.
    pub(super) fn check_may_cut(&self, id: ObjectId, opening: Opening) -> Result<(), FsError> {
        self.claims.may(id, Access::WRITE, Some(opening.holder)).map_err(|_| FsError::ShareDenied)
    }

    pub(crate) fn downgrade(&self, object: ObjectRef, left: Opening) -> Result<(), FsError> {
        self.claims.downgrade(object.id, left.holder, left.share).map_err(|refused| match refused {
            Refused::NotOpened => FsError::NotOpened,
            _ => FsError::Invalid,
        })
    }

    pub(crate) fn close(&self, object: ObjectRef, holder: Holder) {
        self.claims.close(object.id, holder);
    }

    /// Whether a file may be read by this right. The owner may always: an open file stays readable after a chmod. Executing is reading, too.
    pub(crate) fn check_may_read(&self, right: Right, attr: &Attr, cred: &Cred) -> Result<(), FsError> {
        if let Right::Open(holder) = right {
            return self.check_open(attr, holder, Access::READ);
        }
        let may = permission::granted(attr, cred) & (READ | EXECUTE) != 0;
        if !may && !permission::owns(attr, cred) {
            return Err(FsError::Access);
        }
        self.check_shared(right, attr, Access::READ)
    }

    /// Whether a file may be written, or cut, by this right, where its mode says `may`.
    pub(crate) fn check_may_write(&self, right: Right, attr: &Attr, may: bool) -> Result<(), FsError> {
        match right {
            Right::Open(holder) => self.check_open(attr, holder, Access::WRITE),
            _ if !may => Err(FsError::Access),
            _ => self.check_shared(right, attr, Access::WRITE),
        }
    }

    /// What somebody has open he may do, for which he opened it.
    fn check_open(&self, attr: &Attr, holder: Holder, wanted: Access) -> Result<(), FsError> {
        match self.claims.share_of(attr.object.id, holder) {
            None => Err(FsError::NotOpened),
            Some(share) if share.access.has(wanted) => Ok(()),
            Some(_) => Err(FsError::OpenMode),
        }
    }

    /// Nobody asks where nobody has opened anything.
    fn check_shared(&self, right: Right, attr: &Attr, wanted: Access) -> Result<(), FsError> {
        if right == Right::Mode || self.claims.is_unclaimed() {
            return Ok(());
        }
        self.claims.may(attr.object.id, wanted, None).map_err(|_| FsError::Locked)
    }
}

/// Whether an object may be opened for this, by its kind and its mode.
pub(super) fn check_may_open(attr: &Attr, cred: &Cred, access: Access) -> Result<(), FsError> {
    match attr.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(FsError::IsDirectory),
        FileKind::Symlink => return Err(FsError::IsSymlink),
        _ => return Err(FsError::BadType),
    }
    let granted = permission::granted(attr, cred);
    let may_read = granted & (READ | EXECUTE) != 0 || !access.reads();
    let may_write = granted & WRITE != 0 || !access.writes();
    if may_read && may_write { Ok(()) } else { Err(FsError::Access) }
}
