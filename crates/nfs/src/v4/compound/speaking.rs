//! Who speaks in minor version 0, where no session says it: clients by their id or a stateid, and owners in their order.

use super::{Compound, Mark, Node, Results};
use crate::v4::state::{ClientId, FileId, Presence, Turns};
use crate::v4::status::Status;

impl Compound<'_> {
    /// A client of minor version 0 says a word by its id, or by a stateid: its lease begins anew (RFC 7530 §9.5).
    pub(in crate::v4) fn hear(&mut self, client: ClientId) -> Result<(), Status> {
        let house = self.scene.house;
        self.speaker = Some(house.clients().hear(client, house.heard())?);
        Ok(())
    }

    /// Whose session it is carried out in, or which client of minor version 0 spoke last.
    pub(in crate::v4) fn presence(&self) -> Result<&Presence, Status> {
        let of_session = self.guard().map(|guard| guard.session().presence());
        of_session.or(self.speaker.as_deref()).ok_or(Status::OpNotInSession)
    }

    /// What an owner's operation was told.
    pub(super) fn note_told(&mut self, mark: Mark, results: &Results) {
        if self.owed.turns.has(mark.operation()) {
            let target = self.current.as_ref().ok().and_then(Node::target);
            let file = target.map(|target| FileId::of(&*target.vfs, target.object));
            self.owed.turns.end(mark.operation(), results.status(), results.behind(mark), file);
        }
    }

    /// Whose operation is carried out, in the order of that owner.
    pub(in crate::v4) fn turns(&mut self) -> (&mut Turns, u32) {
        (&mut self.owed.turns, self.mark.map_or(0, Mark::operation))
    }
}
