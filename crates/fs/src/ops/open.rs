//! OPEN and CLOSE: a file is found, or made, and somebody has it open from then on; all under its lock (rules V29).
//!
//! What makes a file is in [`super::make`], as CREATE is the same without the open. Who has what open stands in [`tally_claims`]; here is asked
//! whether he may, by the file's mode, once: what he reads and writes by his open goes by that (rules V30).

use smallvec::SmallVec;
use tally_base::Wait;
use tally_claims::{Act, Claim, Claims, Closed, Refused};
use tally_vfs::permission::{self, EXECUTE, READ, WRITE};
use tally_vfs::{
    Access, Attr, ClientNumber, Cred, Delegation, FileKind, FsError, Holder, Identity, ObjectRef, OpCtx, Opened,
    Opening, Outcome, Right, Share, ToOpen,
};

use super::failed;
use crate::filesystem::Filesystem;

impl Filesystem {
    pub(crate) fn open(&self, ctx: OpCtx<'_>, what: ToOpen<'_>, opening: Opening<'_>) -> Outcome<Opened> {
        match what {
            ToOpen::Made(dir, name, how) => self.make_open(ctx, dir, name, how, opening),
            ToOpen::Itself(object) | ToOpen::Again(object) => {
                let is_again = matches!(what, ToOpen::Again(_));
                match self.open_itself((ctx.cred, is_again), object, opening) {
                    Ok((opened, wait)) => Outcome { result: Ok(opened), changes: SmallVec::new(), wait },
                    Err(error) => failed(error),
                }
            }
        }
    }

    /// Nothing is changed, so nothing is waited for, but by who is given a delegation: what is there may not go any more (rules V12). Its owner opens again what he had open whatever its mode says by now (rules V26); others as that says, since nobody knows what they had open.
    fn open_itself(
        &self,
        (cred, is_again): (&Cred, bool),
        object: ObjectRef,
        opening: Opening<'_>,
    ) -> Result<(Opened, Wait), FsError> {
        if opening.share.access.has(Access::WRITE) && Identity::is_read_only(self) {
            return Err(FsError::ReadOnly);
        }
        let locked = self.lock(&[object.id])?;
        let inode = self.sight(object.id, locked.state(object.id)).live(object)?;
        let attr = inode.attr(object.id);
        check_is_file(&attr)?;
        if !(is_again && permission::owns(&attr, cred)) {
            check_may_open(&attr, cred, opening.share.access)?;
        }
        let holder = self.claim(object, opening)?;
        // Behind a restart nobody has noted that its last close frees it.
        if inode.is_held() {
            let _is_open = self.claims.get().is_some_and(|claims| claims.note_removed(object.id));
        }
        let delegated = self.delegate(&locked, (&attr, cred), Some(holder), Some(opening));
        let wait = if delegated.is_some() { self.wait_for_seen(&locked) } else { Wait::Ready };
        Ok((Opened { attr, is_new: false, delegated }, wait))
    }

    /// Registers an open, and says whose. The caller has the object's lock, and does nothing more that could be refused.
    pub(super) fn claim(&self, object: ObjectRef, Opening { share, by, .. }: Opening<'_>) -> Result<Holder, FsError> {
        let holder = by(object)?;
        self.claim_for(object, holder, share)?;
        Ok(holder)
    }

    fn claim_for(&self, object: ObjectRef, holder: Holder, share: Share) -> Result<(), FsError> {
        self.claims.get_or_init().open(object.id, holder, share).map_err(|refused| match refused {
            Refused::TooMany { .. } => FsError::TooManyClaims,
            Refused::Conflict { with: Claim::Delegation { .. } } => FsError::Delegated(object),
            _ => FsError::ShareDenied,
        })
    }

    /// The same of a file that is cut by it, whatever it is opened for: others may have it open and forbid that.
    pub(super) fn claim_to_cut(&self, object: ObjectRef, opening: Opening<'_>) -> Result<Holder, FsError> {
        let holder = (opening.by)(object)?;
        if let Some(claims) = self.claims.get() {
            claims.may_write(object.id, Some(holder)).map_err(|_| FsError::ShareDenied)?;
            self.gate(object, Some(holder.client), Act::Changes)?;
        }
        self.claim_for(object, holder, opening.share)?;
        Ok(holder)
    }

    pub(crate) fn downgrade(&self, object: ObjectRef, holder: Holder, left: Share) -> Result<(), FsError> {
        let claims = self.claims.get().ok_or(FsError::NotOpened)?;
        claims.downgrade(object.id, holder, left).map_err(|refused| match refused {
            Refused::NotOpened => FsError::NotOpened,
            _ => FsError::Invalid,
        })
    }

    pub(crate) fn close(&self, object: ObjectRef, holder: Holder) {
        let closed = self.claims.get().map(|claims| claims.close(object.id, holder));
        if closed == Some(Closed::LastOfRemoved) {
            self.let_go(object.id);
        }
    }

    /// Whether a file may be read by this right. The owner may always: an open file stays readable after a chmod. Executing is reading, too.
    pub(crate) fn check_may_read(&self, OpCtx { right, cred, .. }: OpCtx<'_>, attr: &Attr) -> Result<(), FsError> {
        match right {
            Right::Open(holder) => return self.check_open(attr, holder, Access::READ),
            Right::Delegated(client) => return self.check_delegated(attr, client, Access::READ),
            Right::Mode | Right::Unopened => {}
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
            Right::Delegated(client) => self.check_delegated(attr, client, Access::WRITE),
            _ if !may => Err(FsError::Access),
            _ => self.check_shared(right, attr, Access::WRITE),
        }
    }

    /// What somebody has open he may do, for which he opened it.
    fn check_open(&self, attr: &Attr, holder: Holder, wanted: Access) -> Result<(), FsError> {
        match self.claims.get().and_then(|claims| claims.share_of(attr.object.id, holder)) {
            None => Err(FsError::NotOpened),
            Some(share) if share.access.has(wanted) => Ok(()),
            Some(_) => Err(FsError::OpenMode),
        }
    }

    /// What is delegated to a client it may read, or write.
    fn check_delegated(&self, attr: &Attr, client: ClientNumber, wanted: Access) -> Result<(), FsError> {
        match self.claims.get().and_then(|claims| claims.delegated_to(attr.object.id, client)) {
            None => Err(FsError::NotOpened),
            Some(Delegation::Read) if wanted.has(Access::WRITE) => Err(FsError::OpenMode),
            Some(_) => Ok(()),
        }
    }

    /// Nobody asks where nobody has opened anything.
    fn check_shared(&self, right: Right, attr: &Attr, wanted: Access) -> Result<(), FsError> {
        let Some(claims) = self.claims.get().filter(|_| right != Right::Mode) else { return Ok(()) };
        let may = if wanted == Access::READ { Claims::may_read } else { Claims::may_write };
        may(claims, attr.object.id, None).map_err(|_| FsError::Locked)
    }
}

/// Whether an object can be opened at all.
pub(super) fn check_is_file(attr: &Attr) -> Result<(), FsError> {
    match attr.kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(FsError::IsDirectory),
        FileKind::Symlink => Err(FsError::IsSymlink),
        _ => Err(FsError::BadType),
    }
}

/// Whether an object may be opened for this, by its kind and its mode.
pub(super) fn check_may_open(attr: &Attr, cred: &Cred, access: Access) -> Result<(), FsError> {
    check_is_file(attr)?;
    let granted = permission::granted(attr, cred);
    let may_read = granted & (READ | EXECUTE) != 0 || !access.has(Access::READ);
    let may_write = granted & WRITE != 0 || !access.has(Access::WRITE);
    if may_read && may_write { Ok(()) } else { Err(FsError::Access) }
}
