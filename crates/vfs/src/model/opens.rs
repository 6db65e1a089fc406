//! Opens, as a list that is walked: the real table is held against it, and shares nothing with it.

use std::collections::BTreeSet;

use tally_claims::{Access, ClientNumber, Delegation, Holder, Share};

use super::state::State;
use crate::permission::{self, EXECUTE, READ, WRITE};
use crate::{Attr, CreateHow, Cred, FileKind, FsError, ObjectRef, OpCtx, Opened, Opening, Right, SetAttr};

/// One OPEN that was answered, and not closed.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) object: ObjectRef,
    pub(super) holder: Holder,
    pub(super) share: Share,
}

impl State {
    /// Opens what is there; again: its owner whatever its mode says.
    pub(super) fn open(
        &mut self,
        (cred, is_again): (&Cred, bool),
        object: ObjectRef,
        opening: Opening<'_>,
    ) -> Result<Opened, FsError> {
        let attr = self.attr(object)?;
        if bits(opening.share)[1] && self.read_only {
            return Err(FsError::ReadOnly);
        }
        let root = Cred::root();
        let as_whom = if is_again && permission::owns(&attr, cred) { &root } else { cred };
        check_may_open(&attr, as_whom, opening.share.access)?;
        let holder = self.give(object, opening)?;
        let delegated = self.delegate((object, cred), holder, opening.wants);
        Ok(Opened { attr, is_new: false, delegated })
    }

    /// Opens what is made, or there.
    pub(super) fn make_open(
        &mut self,
        cred: &Cred,
        (dir, name, how): (ObjectRef, &[u8], &CreateHow),
        opening: Opening<'_>,
    ) -> Result<Opened, FsError> {
        let there = self.directory(dir)?.1.find(name).map(|id| self.named(id).attr.clone());
        let may_search = permission::may(&self.attr(dir)?, cred, EXECUTE);
        let (Some(attr), CreateHow::Unchecked(set)) = (there.as_ref().filter(|_| may_search), how) else {
            // What is there is not changed by the others. What is made, and may not be opened, was not made.
            let before = there.is_none().then(|| self.clone());
            let attr = self.create(OpCtx::of(cred), dir, name, how)?;
            if there.is_some() && !permission::owns(&attr, cred) {
                check_may_open(&attr, cred, opening.share.access)?;
            }
            let holder = self.give(attr.object, opening).inspect_err(|_| {
                if let Some(before) = before {
                    *self = before;
                }
            })?;
            let delegated = self.delegate((attr.object, cred), holder, opening.wants);
            return Ok(Opened { attr, is_new: there.is_none(), delegated });
        };
        check_may_open(attr, cred, opening.share.access)?;
        let is_cut = set.size == Some(0) && attr.size > 0;
        if is_cut && !permission::may(attr, cred, WRITE) {
            return Err(FsError::Access);
        }
        let holder = (opening.by)(attr.object)?;
        self.check_opening(attr.object, holder, opening.share)?;
        if is_cut {
            self.check_opening(attr.object, holder, Share::only(Access::WRITE))?;
            let cut = SetAttr { size: Some(0), ..SetAttr::default() };
            let ctx = OpCtx { client: Some(holder.client), ..OpCtx::of(cred) };
            self.setattr(ctx, attr.object, &cut, None)?;
        }
        self.note_open(attr.object, holder, opening.share);
        let delegated = self.delegate((attr.object, cred), holder, opening.wants);
        Ok(Opened { attr: self.attr(attr.object)?, is_new: false, delegated })
    }

    fn give(&mut self, object: ObjectRef, Opening { share, by, .. }: Opening<'_>) -> Result<Holder, FsError> {
        let holder = by(object)?;
        self.check_opening(object, holder, share)?;
        self.note_open(object, holder, share);
        Ok(holder)
    }

    /// Whether somebody else is in the way.
    fn check_opening(&self, object: ObjectRef, holder: Holder, share: Share) -> Result<(), FsError> {
        if !self.in_the_way(object, Some(holder), share).is_empty() {
            return Err(FsError::ShareDenied);
        }
        let [_, writes, no_reads, no_writes] = bits(share);
        self.gate(object, Some(holder.client), writes || no_reads || no_writes)
    }

    pub(super) fn in_the_way(&self, object: ObjectRef, who: Option<Holder>, share: Share) -> Vec<ClientNumber> {
        let is_in_the_way = |open: &&Open| {
            let [reads, writes, no_reads, no_writes] = bits(open.share);
            let [may_read, may_write, denies_reads, denies_writes] = bits(share);
            open.object == object
                && Some(open.holder) != who
                && (no_reads && may_read || no_writes && may_write || denies_reads && reads || denies_writes && writes)
        };
        let clients = self.opens.iter().filter(is_in_the_way).map(|open| open.holder.client);
        clients.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn note_open(&mut self, object: ObjectRef, holder: Holder, share: Share) {
        self.opens.push(Open { object, holder, share });
    }

    /// Keeps those of a holder's opens that are part of what is left, if they come to it together.
    pub(super) fn downgrade(&mut self, object: ObjectRef, holder: Holder, left: Share) -> Result<(), FsError> {
        let is_his = |open: &Open| open.object == object && open.holder == holder;
        let wanted = bits(left);
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

    pub(super) fn forget_opens(&mut self) {
        self.opens.clear();
        self.locked.clear();
        self.given.clear();
    }

    /// Whether anybody has it open.
    pub(super) fn is_open(&self, object: ObjectRef) -> bool {
        self.opens.iter().any(|open| open.object == object)
    }

    pub(super) fn close(&mut self, object: ObjectRef, holder: Holder) {
        self.opens.retain(|open| (open.object, open.holder) != (object, holder));
        self.locked.retain(|held| (held.object, held.below) != (object, Some(holder)));
        // What has no name any more was there for those who had it open.
        let is_nameless = self.inode(object).is_ok_and(|inode| inode.attr.nlink == 0);
        if is_nameless && !self.is_open(object) {
            self.inodes.remove(&object.id);
            self.forget_given(object);
        }
    }

    /// Whether content may be read or written by this right, where its mode says `may`.
    pub(super) fn check_right(
        &self,
        object: ObjectRef,
        right: Right,
        wanted: Access,
        may: bool,
    ) -> Result<(), FsError> {
        let all = || self.opens.iter().filter(|open| open.object == object);
        let wanted = bits(Share::only(wanted));
        match right {
            Right::Open(holder) => {
                let mut his = all().filter(|open| open.holder == holder).peekable();
                if his.peek().is_none() {
                    return Err(FsError::NotOpened);
                }
                if his.any(|open| (0..2).any(|bit| wanted[bit] && bits(open.share)[bit])) {
                    Ok(())
                } else {
                    Err(FsError::OpenMode)
                }
            }
            Right::Delegated(client) => {
                let held = self.delegated(object).into_iter().find(|(holder, _)| *holder == client);
                match held {
                    None => Err(FsError::NotOpened),
                    Some((_, Delegation::Read)) if wanted[1] => Err(FsError::OpenMode),
                    Some(_) => Ok(()),
                }
            }
            _ if !may => Err(FsError::Access),
            Right::Mode => Ok(()),
            Right::Unopened => {
                let is_denied = |open: &Open| (0..2).any(|bit| wanted[bit] && bits(open.share)[bit + 2]);
                if all().any(is_denied) { Err(FsError::Locked) } else { Ok(()) }
            }
        }
    }
}

pub(super) fn check_is_file(attr: &Attr) -> Result<(), FsError> {
    match attr.kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(FsError::IsDirectory),
        FileKind::Symlink => Err(FsError::IsSymlink),
        _ => Err(FsError::BadType),
    }
}

fn check_may_open(attr: &Attr, cred: &Cred, access: Access) -> Result<(), FsError> {
    check_is_file(attr)?;
    let (granted, [reads, writes, ..]) = (permission::granted(attr, cred), bits(Share::only(access)));
    let is_refused = reads && granted & (READ | EXECUTE) == 0 || writes && granted & WRITE == 0;
    if is_refused { Err(FsError::Access) } else { Ok(()) }
}

/// To read, to write, that nobody reads, that nobody writes.
pub(super) fn bits(share: Share) -> [bool; 4] {
    let (access, deny) = (share.access.bits(), share.deny.bits());
    [access & 1 != 0, access & 2 != 0, deny & 1 != 0, deny & 2 != 0]
}
