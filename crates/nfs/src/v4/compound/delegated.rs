//! What clients were given to keep: as whom operations act, and what becomes of one that finds another client's in its way.

use tally_base::Wait;
use tally_vfs::{Attr, ClientNumber, FsError, ObjectRef, OpCtx, Right, Vfs};

use super::{Compound, Halt, Mark, Stop};
use crate::entry::Target;
use crate::v4::parking::KeptOut;
use crate::v4::recalls::looks::Seen;
use crate::v4::state::{ClientId, Delegated, FileId, Referred, Stateid};
use crate::v4::status::Status;

impl Compound<'_> {
    /// In whose session it is carried out. In minor version 0 nobody has been given anything.
    pub(in crate::v4) fn client(&self) -> Option<ClientId> {
        self.guard().map(|guard| guard.session().presence().client())
    }

    /// As whom the file system knows that one.
    pub(in crate::v4) fn actor(&self) -> Option<ClientNumber> {
        self.client().map(|client| ClientNumber(client.0))
    }

    /// For an operation of which nothing is remembered.
    pub(in crate::v4) fn plain_ctx<'b>(&self, target: &'b Target, right: Right) -> OpCtx<'b> {
        OpCtx { right, client: self.actor(), ..OpCtx::of(&target.cred) }
    }

    /// As which its client knows this request, whose answer it may not have read when it is called.
    pub(in crate::v4) fn referred(&self) -> Option<Referred> {
        self.guard().map(|guard| guard.referred())
    }

    /// What a stateid names that is one of a delegation of this file.
    pub(in crate::v4) fn delegated(&self, asked: Stateid, file: &Target) -> Result<Delegated, Status> {
        let client = self.client().ok_or(Status::BadStateid)?;
        self.scene.house.delegations().find(&asked, client, Some(&FileId::of(&*file.vfs, file.object)))
    }

    /// The results of this operation may not leave before this is kept.
    pub(in crate::v4) fn wait_for(&mut self, wait: Wait) {
        if let (Wait::On(promise), Some(mark)) = (wait, self.mark) {
            self.owed.add(mark, promise);
        }
    }

    /// The operation found an object in its way that another client was given to keep: it goes on when that comes back, or comes again.
    pub(in crate::v4) fn kept_out(&mut self, vfs: &dyn Vfs, object: ObjectRef) -> Stop {
        let (at, house, exports) = (self.mark.map(Mark::operation), self.scene.house, self.scene.exports);
        let may_wait = at.is_some() && std::mem::replace(&mut self.owed.kept_out, at) != at;
        match house.kept_out(exports, (vfs, object), self.client(), may_wait) {
            KeptOut::Waits(promise) => Halt::Parked(promise).into(),
            KeptOut::ComesAgain => Status::Delay.into(),
        }
    }

    /// The attributes of an object, as another client knows them that has it for writing.
    pub(in crate::v4) fn look(&mut self, file: &Target) -> Result<Attr, Stop> {
        let (at, house, exports) = (self.mark.map(Mark::operation), self.scene.house, self.scene.exports);
        let ticket = self.owed.looks.filter(|(operation, _)| Some(*operation) == at).map(|(_, ticket)| ticket);
        match house.look(exports, (&*file.vfs, file.object), self.client(), ticket) {
            Seen::Attributes(attr) => Ok(*attr),
            Seen::Failed(error) => Err(Status::from(error).into()),
            Seen::Asks(ticket, promise) => {
                self.owed.looks = at.map(|operation| (operation, ticket));
                Err(Halt::Parked(promise).into())
            }
            Seen::KeptOut(KeptOut::Waits(promise)) => Err(Halt::Parked(promise).into()),
            Seen::KeptOut(KeptOut::ComesAgain) => Err(Status::Delay.into()),
        }
    }

    /// What came of asking for what is in a file, or locked there, of an operation that has changed nothing yet.
    pub(in crate::v4) fn found<T>(&mut self, file: &Target, outcome: Result<T, FsError>) -> Result<T, Stop> {
        match outcome {
            Err(FsError::Delegated(object)) => Err(self.kept_out(&*file.vfs, object)),
            outcome => Ok(outcome.map_err(Status::from)?),
        }
    }

    /// The same of an operation that was about to change something.
    pub(super) fn changes_kept_out(&mut self, object: ObjectRef) -> Stop {
        let Some(vfs) = self.current.as_ref().ok().and_then(|node| node.target()).map(|target| target.vfs.clone())
        else {
            return Status::Delay.into();
        };
        let stop = self.kept_out(&*vfs, object);
        if matches!(stop, Stop::Halted(_)) {
            self.has_not_begun();
        }
        stop
    }
}
