//! Who speaks: of clients whoever shows that he may, and in minor version 0, where no session says it, clients by their id or a stateid, and owners in their order (rules V43).

use std::sync::Arc;

use super::{Compound, Mark, Node, Results};
use crate::exports::PoolExports;
use crate::link::Link;
use crate::local::Owner;
use crate::rpc::Identity;
use crate::v4::state::{ClientId, FileId, Presence, Principal, Proof, Sender, Turns, Unknown};
use crate::v4::status::Status;

impl Compound<'_> {
    /// A client of minor version 0 says a word by its id, or by a stateid: its lease begins anew (RFC 7530 §9.5).
    pub(in crate::v4) fn hear(&mut self, client: ClientId) -> Result<(), Status> {
        self.speaker = Some(self.word_of(client)?);
        Ok(())
    }

    /// The same. For who may not speak for it there is none.
    pub(in crate::v4) fn word_of(&self, client: ClientId) -> Result<Arc<Presence>, Unknown> {
        let (house, heard) = (self.scene.house, self.scene.house.heard());
        let sender = self.unnamed();
        let told = house.clients().hear(client, &sender, heard);
        match told {
            // Of who comes from where he was introduced no rule is asked.
            Err(Unknown::InUse) if sender.proof == Proof::Superuser => {
                let sender = self.sender();
                house.clients().hear(client, &sender, heard)
            }
            told => told,
        }
        .map_err(|unknown| if unknown == Unknown::InUse { Unknown::Stale } else { unknown })
    }

    /// Who says something of clients. The rules of all datasets are asked whether they name his host.
    pub(in crate::v4) fn sender(&self) -> Sender {
        let address = self.scene.link.peer().ip();
        let leads = |pool: Arc<dyn PoolExports>| pool.root().is_some_and(|root| pool.leads(root, address));
        let sender = self.unnamed();
        // Of others than superusers it means nothing.
        let is_named = sender.proof == Proof::Superuser && self.scene.exports.pools().into_iter().any(leads);
        Sender { is_named, ..sender }
    }

    fn unnamed(&self) -> Sender {
        let principal = match &self.scene.call.identity {
            Identity::Nobody => Principal::Nobody,
            Identity::Unix(cred) => Principal::User(cred.uid),
        };
        Sender { principal, address: self.scene.link.peer().ip(), proof: Proof::of(self.scene.link), is_named: false }
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

impl Proof {
    /// What a connection shows, as to a rule that is `secure`.
    fn of(link: &Link) -> Self {
        if link.is_privileged() {
            return Self::Superuser;
        }
        match link.owner() {
            Owner::Root => Self::Superuser,
            Owner::User(user) => Self::User(user.uid),
            Owner::Unknown => Self::Nothing,
        }
    }
}
