//! Delegations, as far as the file system knows of them: who is kept out by one, and when one is given.
//!
//! *The gate* (rules V14). Whoever reads or changes a file asks it with the file's lock, behind all that refuses him anyway, and before the hold: so that what it was asked
//! of is what is changed, and that nothing is done, nor held, where somebody has to give something back first. What each operation asks:
//!
//! | asks | as |
//! |---|---|
//! | READ, SEEK | who reads; with the lock shared, or with none where nobody changes the file: then it is read as it was before the delegation was given |
//! | WRITE, DEALLOCATE, SETATTR that sets anything or has a guard, CREATE that cuts what is there | who changes |
//! | SETXATTR, REMOVEXATTR | who changes |
//! | OPEN | who reads, or who changes if it may write, denies something, or cuts; [`tally_claims`] asks it itself, together with the share |
//! | REMOVE | who changes what has the name; as if by no client, where that is the last one and nobody has it open |
//! | RENAME | who changes what moves, and as REMOVE what is in its way |
//! | LINK | who changes what gets the name |
//! | LOCK, and the question whether one could | who reads: whoever holds the Write locks without a word |
//! | COMMIT | nothing: it changes nothing that is seen |
//! | GETXATTR, LISTXATTRS | nothing: who holds even the Write sends what it sets at once |
//! | GETATTR, LOOKUP, READDIR, ACCESS | nothing here. Who holds the Write may know of newer attributes: whoever answers asks for them ([`tally_vfs::Delegations`]) |
//! | the fold, the reaper, a replay | nothing: what they bring to disk is there already. What the reaper frees nobody has open, and what was delegated of it went with its last open |
//!
//! Access times that reads leave are no change that anybody is told of by `change`, and pass.
//!
//! *When one is given* (rules V12, V13). With the file's lock held for a change, which the open had already: nobody looks at the file between the open, the delegation and the
//! attributes that the reply carries. And only of what is settled ([`Filesystem::is_settled`]).

use tally_base::ObjectId;
use tally_claims::{Act, ClientNumber, Delegation};
use tally_vfs::{Access, Attr, Cred, FileKind, FsError, Holder, ObjectRef, OpCtx, Opening, permission};

use super::open::check_may_open;
use crate::filesystem::Filesystem;
use crate::inode::Inode;
use crate::object::{Locked, ObjectState};
use crate::record::InodeAfter;

impl Filesystem {
    /// Whether nothing that others were given is in the way of what a client, or nobody's, is about to do with an object that is locked.
    pub(crate) fn gate(&self, object: ObjectRef, who: Option<ClientNumber>, act: Act) -> Result<(), FsError> {
        let Some(claims) = self.claims.get() else { return Ok(()) };
        claims.gate(object.id, who, act).map_err(|_| FsError::Delegated(object))
    }

    /// Gives a client what it wants of a file that somebody there has just opened, if it may have it. Whoever is told waits for all that the locked objects rest on.
    pub(super) fn delegate(
        &self,
        locked: &Locked,
        (attr, cred): (&Attr, &Cred),
        holder: Option<Holder>,
        opening: Option<Opening<'_>>,
    ) -> Option<Delegation> {
        let (wanted, holder, claims) = (opening?.wants?, holder?, self.claims.get()?);
        let id = attr.object.id;
        // By the Write alone it is read as well, whoever has opened it only to write.
        let may_have = wanted == Delegation::Read
            || permission::owns(attr, cred)
            || check_may_open(attr, cred, Access::READ).is_ok();
        let is_given =
            may_have && self.is_settled(locked.state(id)) && claims.delegate(id, holder, wanted).unwrap_or(false);
        is_given.then_some(wanted)
    }

    /// Whether all that is seen of a locked object is in the log, or in a group that is synced: what it rests on is durable once its newest record is, for which the reply waits that
    /// tells of it. Anything else might be gone behind a crash, while who holds a delegation believes what it has seen (rules V12).
    ///
    /// A file that this very OPEN has made is settled as well: its record is appended, the lock was never let go of, and the reply waits for that record.
    /// Without a log (`sync=disabled`, a lane that takes no records) nothing is settled before its group is synced.
    fn is_settled(&self, state: &ObjectState) -> bool {
        let (switch, synced) = (**self.log_switch.load(), self.pool.txgs.last_synced());
        if state.unlogged > synced || self.is_under_way(switch, self.pool.txgs.open()) {
            return false;
        }
        let mut dirty = state.layers.iter().filter(|layer| layer.txg > synced);
        dirty.all(|layer| {
            let data = &layer.data;
            switch.logged(layer.txg) && data.unlogged_bytes() == 0 && data.placed().is_empty()
        })
    }

    /// The same of an object by its inode, for whoever changes its names.
    pub(super) fn gate_to(&self, id: ObjectId, inode: Inode, ctx: OpCtx<'_>) -> Result<Inode, FsError> {
        let object = ObjectRef { id, generation: inode.generation };
        self.gate(object, ctx.actor(), Act::Changes).map(|()| inode)
    }

    /// The same where that name goes. With the last one goes what nobody has open; and what its own client has open by its delegation alone, as another mount of it may, nobody has open here.
    pub(super) fn gate_to_unlink(&self, id: ObjectId, inode: Inode, ctx: OpCtx<'_>) -> Result<Inode, FsError> {
        let goes = inode.nlink == 1 && inode.kind == FileKind::File && !self.is_open(id);
        let object = ObjectRef { id, generation: inode.generation };
        self.gate(object, if goes { None } else { ctx.actor() }, Act::Changes).map(|()| inode)
    }

    /// A name of an object goes, under its lock. If it was the last one nobody has it open, and whatever else was claimed of it goes, too: what was delegated to who removes it.
    pub(super) fn note_unlinked(&self, after: &InodeAfter) {
        if let Some(claims) = self.claims.get().filter(|claims| after.inode.is_none() && !claims.is_unclaimed()) {
            let is_open = claims.note_removed(after.object);
            debug_assert!(!is_open, "what is open is held");
        }
    }
}
