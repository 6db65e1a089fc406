//! Opens, as a list that is walked: the real table is held against it, and shares nothing with it.

use tally_claims::{Access, Deny, Holder, Share};

use super::state::State;
use crate::permission::{self, EXECUTE, READ, WRITE};
use crate::{Attr, CreateHow, Cred, FileKind, FsError, ObjectRef, Opened, Opening, Right};

/// One OPEN that was answered, and not closed.
#[derive(Clone)]
pub(super) struct Open {
    object: ObjectRef,
    holder: Holder,
    share: Share,
}

impl State {
    /// Opens what is there.
    pub(super) fn open(&mut self, cred: &Cred, object: ObjectRef, opening: Opening) -> Result<Opened, FsError> {
        let attr = self.attr(object)?;
        if opening.share.access.writes() && self.read_only {
            return Err(FsError::ReadOnly);
        }
        check_may_open(&attr, cred, opening.share.access)?;
        self.check_opening(object, opening)?;
        self.note_open(object, opening);
        Ok(Opened { attr, is_new: false })
    }

    /// Opens what is made, or there.
    pub(super) fn make_open(
        &mut self,
        cred: &Cred,
        dir: ObjectRef,
        name: &[u8],
        how: &CreateHow,
        opening: Opening,
    ) -> Result<Opened, FsError> {
        let there = match self.directory(dir) {
            Ok((_, directory)) => directory.find(name).map(|id| self.named(id).attr.clone()),
            Err(error) => return Err(error),
        };
        let may_search = permission::may(&self.attr(dir)?, cred, EXECUTE);
        if let Some(attr) = there.clone().filter(|_| may_search) {
            match how {
                CreateHow::Unchecked(set) => {
                    check_may_open(&attr, cred, opening.share.access)?;
                    let is_cut = set.size.is_some_and(|size| size != attr.size);
                    if is_cut && !permission::may(&attr, cred, WRITE) {
                        return Err(FsError::Access);
                    }
                    let cuts = Share { access: Access::WRITE, deny: Deny::NONE };
                    self.check_opening(attr.object, opening)?;
                    if is_cut {
                        self.check_opening(attr.object, Opening { share: cuts, ..opening })?;
                    }
                }
                // What is there is not changed by these.
                CreateHow::Guarded(_) | CreateHow::Exclusive(_) | CreateHow::ExclusiveWith(..) => {}
            }
        }
        let attr = self.create(cred, dir, name, how)?;
        self.check_opening(attr.object, opening)?;
        self.note_open(attr.object, opening);
        Ok(Opened { attr, is_new: there.is_none() })
    }

    /// Whether somebody else is in the way.
    fn check_opening(&self, object: ObjectRef, Opening { holder, share }: Opening) -> Result<(), FsError> {
        let is_in_the_way = |open: &&Open| {
            let (access, deny) = (open.share.access, open.share.deny);
            open.object == object
                && open.holder != holder
                && (deny.reads() && share.access.reads()
                    || deny.writes() && share.access.writes()
                    || share.deny.reads() && access.reads()
                    || share.deny.writes() && access.writes())
        };
        if self.opens.iter().any(|open| is_in_the_way(&open)) { Err(FsError::ShareDenied) } else { Ok(()) }
    }

    fn note_open(&mut self, object: ObjectRef, Opening { holder, share }: Opening) {
        self.opens.push(Open { object, holder, share });
    }

    /// Keeps those of a holder's opens that are part of what is left, if they come to it together.
    pub(super) fn downgrade(&mut self, object: ObjectRef, left: Opening) -> Result<(), FsError> {
        let is_his = |open: &Open| open.object == object && open.holder == left.holder;
        let bits = |share: Share| {
            let (access, deny) = (share.access, share.deny);
            [access.reads(), access.writes(), deny.reads(), deny.writes()]
        };
        let wanted = bits(left.share);
        let is_part = |open: &Open| bits(open.share).iter().zip(wanted).all(|(has, wanted)| wanted || !has);
        if !self.opens.iter().any(is_his) {
            return Err(FsError::NotOpened);
        }
        let parts = self.opens.iter().filter(|open| is_his(open) && is_part(open));
        let union = parts.fold([false; 4], |union, open| {
            let has = bits(open.share);
            std::array::from_fn(|at| union[at] || has[at])
        });
        if union != wanted {
            return Err(FsError::Invalid);
        }
        self.opens.retain(|open| !is_his(open) || is_part(open));
        Ok(())
    }

    pub(super) fn close(&mut self, object: ObjectRef, holder: Holder) {
        self.opens.retain(|open| (open.object, open.holder) != (object, holder));
    }

    /// Whether content may be read or written by this right, where its mode says `may`.
    pub(super) fn check_right(&self, object: ObjectRef, right: Right, wanted: Access, may: bool) -> Result<(), FsError> {
        let all = || self.opens.iter().filter(|open| open.object == object);
        let covers = |access: Access| access.reads() && wanted.reads() || access.writes() && wanted.writes();
        match right {
            Right::Open(holder) => {
                let mut his = all().filter(|open| open.holder == holder).peekable();
                if his.peek().is_none() {
                    return Err(FsError::NotOpened);
                }
                if his.any(|open| covers(open.share.access)) { Ok(()) } else { Err(FsError::OpenMode) }
            }
            _ if !may => Err(FsError::Access),
            Right::Mode => Ok(()),
            Right::Unopened => {
                let is_denied = |open: &Open| {
                    open.share.deny.reads() && wanted.reads() || open.share.deny.writes() && wanted.writes()
                };
                if all().any(is_denied) { Err(FsError::Locked) } else { Ok(()) }
            }
        }
    }
}

fn check_may_open(attr: &Attr, cred: &Cred, access: Access) -> Result<(), FsError> {
    match attr.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(FsError::IsDirectory),
        FileKind::Symlink => return Err(FsError::IsSymlink),
        _ => return Err(FsError::BadType),
    }
    let granted = permission::granted(attr, cred);
    let is_refused = access.reads() && granted & (READ | EXECUTE) == 0 || access.writes() && granted & WRITE == 0;
    if is_refused { Err(FsError::Access) } else { Ok(()) }
}
