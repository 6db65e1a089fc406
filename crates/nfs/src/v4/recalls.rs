//! Delegations that are in somebody's way: their clients are asked for them (RFC 8881 §10.4.5 and §20.2), and what does not come back is taken.
//!
//! ```text
//!  any operation, of any version: FsError::Delegated ─▶ kept_out ─▶ whose it is, of the file system ─▶ their leases are over? ─▶ they are ended (rules V20)
//!                                                                     │ recalled, once
//!                                                                     ▼
//!                                                     CB_RECALL ─▶ DELEGRETURN ─▶ given back below ─▶ who is parked goes on
//!                                                        │ twice a second: not answered, said no
//!                                                        └─▶ again;   a lease behind the first call ─▶ out of the lists (rules V24), taken
//! ```
//!
//! *Nobody waits for a client* (rules V15). Who is kept out is parked, which costs no worker, for [`PARKED`]; then it is told to come again (DELAY, JUKEBOX), as it is where too many are parked. The recall goes on.
//!
//! *One client does not keep others waiting.* What a client is called for is asked for client by client, and goes to the next where one has no slot or connection left.
//!
//! *What is taken* might be claimed again behind a crash, and by then be another's. So its client goes out of the lists before it is taken below, and comes into none before it knows
//! (FREE_STATEID): what it opens until then it cannot claim either.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use tally_vfs::{ClientNumber, ObjectRef, Vfs};

use super::below::{below, is_retained};
use super::house::House;
use super::parking::{KeptOut, Over};
use super::state::bounds::CALLS_OF_CLIENT_MAX;
use super::state::{
    Answer, Callback, ClientId, Delegated, DelegationNumber, Ending, Errand, FileId, Mounted, Recalled, Referred,
    Revoked, Stateid,
};
use super::status::Status;
use crate::exports::Exports;
use crate::xdr::Encoder;

mod fewer;
pub(super) mod looks;

const CB_RECALL: u32 = 4;

/// How often what has happened to delegations, since the start.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// They were given.
    pub granted: AtomicU64,
    /// They were asked for.
    pub recalled: AtomicU64,
    /// They were given back.
    pub returned: AtomicU64,
    /// They were taken.
    pub revoked: AtomicU64,
}

impl House {
    /// Somebody, this client if it is one, is kept out by what others have of an object. `may_wait`: he was not parked before.
    pub(crate) fn kept_out(
        &self,
        exports: &dyn Exports,
        (vfs, object): (&dyn Vfs, ObjectRef),
        who: Option<ClientId>,
        may_wait: bool,
    ) -> KeptOut {
        let file = FileId::of(vfs, object);
        // Before it is asked who that is: what comes back from here on is noticed.
        let parked = may_wait.then(|| self.parking.park(file)).flatten();
        let who = who.map(|client| ClientNumber(client.0));
        // Where others have nothing it is his own, which was given to another of his owners.
        let held = |is_own: bool| -> Vec<ClientNumber> {
            let all = vfs.delegated(object).into_iter().map(|(client, _)| client);
            all.filter(|client| (Some(*client) == who) == is_own).collect()
        };
        let others = held(false);
        let are_others = !others.is_empty();
        let asked = if are_others { others } else { held(true) };
        // They are gone already, or go now. What is there behind that nobody was told of, or it is whose who came since.
        let is_gone = asked.is_empty() || self.end_late(exports, &asked);
        let left = if is_gone { held(!are_others) } else { asked };
        let goes_on = left.is_empty() || self.recall_of(vfs, &file, &left);
        match parked {
            _ if goes_on && may_wait => KeptOut::Waits(Box::new(Over)),
            Some(parked) => KeptOut::Waits(Box::new(parked)),
            None => KeptOut::ComesAgain,
        }
    }

    /// Asks these clients for what they have of a file. Whether one of them had it by mistake, and has not any more.
    fn recall_of(&self, vfs: &dyn Vfs, file: &FileId, clients: &[ClientNumber]) -> bool {
        let mut is_less = false;
        for client in clients.iter().map(|number| ClientId(number.0)) {
            match self.delegations().recall(client, file, self.now()) {
                Recalled::Begun => {
                    self.delegated.recalled.fetch_add(1, Relaxed);
                    self.call_for_delegations(client);
                }
                Recalled::Known => {}
                Recalled::Nobodys => {
                    let Some(orphan) = self.delegations().orphan(client, *file) else { continue };
                    self.end_below(vfs, orphan.ending()).returned();
                    is_less = true;
                }
            }
        }
        is_less
    }

    /// Calls a client for what it is asked for, as far as it can be called for now.
    pub(super) fn call_for_delegations(&self, client: ClientId) {
        for _ in 0..CALLS_OF_CLIENT_MAX {
            let Some(delegated) = self.delegations().next_call(client, self.now()) else { return };
            if !self.delegations().call(delegated.number, self.now()) {
                continue;
            }
            let errand = Errand::Recall(client, delegated.number);
            let callback = Callback { operation: cb_recall(&delegated), refers_to: delegated.by };
            if self.call(None, &errand, &callback).is_none() {
                // Nor can it be for the others, and they are looked at with the first answer or half a second later.
                return self.delegations().answered(delegated.number, Answer::NotCalled, self.now());
            }
        }
    }

    /// Twice a second: who is to be called is, and what was not given back in time is taken.
    pub(super) fn look_after_recalls(&self, exports: &dyn Exports) {
        self.parking.end_late();
        if !self.delegations().has_recalled() {
            return;
        }
        self.wait_with_recalls(exports);
        let mut overdue = self.delegations().overdue(self.now());
        overdue.retain(|number| !self.goes_on_uncalled(*number));
        overdue.iter().for_each(|number| self.take_delegation(exports, *number));
        if !overdue.is_empty() {
            self.tracking.let_go_of_doomed();
        }
        self.delegations().to_call(self.now()).into_iter().for_each(|client| self.call_for_delegations(client));
    }

    /// Nothing can be given back to a pool that is away, and what is claimed again in a grace is given back behind it: until then the time for that does not begin.
    fn wait_with_recalls(&self, exports: &dyn Exports) {
        let end_of_grace = |of: &Mounted| self.tracking.end_of_grace(of.pool);
        let begins = |of: &Mounted| if is_retained(exports, of) { Some(self.now()) } else { end_of_grace(of) };
        self.delegations().begin_at(&begins);
    }

    /// Whether a recall whose time is over goes on, as its client can be called and was not.
    fn goes_on_uncalled(&self, number: DelegationNumber) -> bool {
        let client = self.delegations().uncalled(number).filter(|client| self.can_call(*client));
        client.is_some() && self.delegations().put_off(number, self.now())
    }

    fn take_delegation(&self, exports: &dyn Exports, number: DelegationNumber) {
        let Some((ending, denied)) = self.delegations().take(number, self.now()) else { return };
        if denied.is_some_and(|by| self.has_read_answer(&by)) {
            // It has given it back, or never learned of it, and has nothing that it could free.
            self.delegated.returned.fetch_add(1, Relaxed);
            return self.end_wherever(exports, ending).returned();
        }
        // The other way round it would be others' before it is known that its client may not claim it again.
        let client = ending.client();
        self.note_lost(client);
        self.end_wherever(exports, ending).revoked(Revoked::Recalled);
        // It may have freed another one between, and be in a list again.
        self.note_lost(client);
        self.delegated.revoked.fetch_add(1, Relaxed);
        self.tell_of_taken(client);
    }

    /// Whether a client has the answer to a request, or waits for none any more: it uses the slot again, or its session is over (RFC 8881 §2.10.6.1).
    fn has_read_answer(&self, of: &Referred) -> bool {
        self.sessions().find(of.session).is_none_or(|session| session.is_past(of.slot, of.sequence))
    }

    /// A client is out of the lists until it knows what it has lost.
    fn note_lost(&self, client: ClientId) {
        let presence = self.clients().presence_of(client);
        if let Some(presence) = presence {
            presence.note_lost(true);
            self.tracking.lose(presence.key());
        }
    }

    /// It is nobody's below any more, and who was kept out by it goes on.
    fn end_below<'a>(&self, vfs: &dyn Vfs, ending: Ending<'a>) -> Ending<'a> {
        let file = ending.file();
        if FileId::of(vfs, file.object) == *file {
            vfs.give_back(file.object, ClientNumber(ending.client().0));
        }
        self.parking.wake(file);
        ending
    }

    /// The same, where its dataset may be away.
    fn end_wherever<'a>(&self, exports: &dyn Exports, ending: Ending<'a>) -> Ending<'a> {
        self.give_back_wherever(exports, ending.file(), ending.client());
        ending
    }

    fn give_back_wherever(&self, exports: &dyn Exports, file: &FileId, client: ClientId) {
        if let Some(below) = below(exports, file) {
            below.give_back(file.object, ClientNumber(client.0));
        }
        self.parking.wake(file);
    }

    /// DELEGRETURN.
    pub(super) fn return_delegation(
        &self,
        vfs: &dyn Vfs,
        asked: &Stateid,
        client: ClientId,
        object: ObjectRef,
    ) -> Result<(), Status> {
        let ending = self.delegations().give_back(asked, client, &FileId::of(vfs, object))?;
        self.end_below(vfs, ending).returned();
        self.delegated.returned.fetch_add(1, Relaxed);
        Ok(())
    }

    /// What was given, and its client was not told of.
    pub(super) fn withdraw_delegation(&self, vfs: &dyn Vfs, ending: Ending<'_>) {
        self.end_below(vfs, ending).returned();
    }

    /// What the file system has given to a client, and nothing is known of here: others are in a moment, or it is kept for nobody.
    pub(super) fn give_up_unknown(&self, vfs: &dyn Vfs, client: ClientId, object: ObjectRef) {
        if let Some(orphan) = self.delegations().orphan(client, FileId::of(vfs, object)) {
            self.withdraw_delegation(vfs, orphan.ending());
        }
    }

    /// FREE_STATEID of one that was taken: behind the last its client may be in the lists again.
    pub(super) fn free_delegation(&self, asked: &Stateid, client: ClientId) -> Result<(), Status> {
        self.delegations().free(asked, client)?;
        if self.delegations().has_lost(client) {
            return Ok(());
        }
        let presence = self.clients().presence_of(client);
        if let Some(presence) = presence {
            presence.note_lost(false);
            if self.delegations().has_lost(client) {
                // Another one was taken meanwhile, and that was noted before this was.
                self.note_lost(client);
            }
        }
        Ok(())
    }

    /// A client is gone, and so is what was delegated to it. Gives how many.
    pub(super) fn forget_delegations(&self, exports: &dyn Exports, client: ClientId) -> usize {
        let files = self.delegations().forget_client(client);
        files.iter().for_each(|file| self.give_back_wherever(exports, file, client));
        files.len()
    }
}

/// `CB_RECALL4args`: nothing is about to be cut.
fn cb_recall(delegated: &Delegated) -> Bytes {
    let mut words = Encoder::new();
    words.u32(CB_RECALL).raw(&delegated.stateid.to_wire()).bool(false).opaque(&delegated.handle);
    words.into_vec().into()
}
