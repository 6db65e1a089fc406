//! EXCHANGE_ID (RFC 8881 §18.35; table D3, whose rows have the numbers that the text gives its cases).
//!
//! ```text
//!  to introduce itself: what is confirmed of the name      │ what comes of it
//!  ────────────────────────────────────────────────────────┼──────────────────────────────────────────────────────────────────────
//!  1  nothing, and nothing waits                           │ a record that waits, with a new id
//!  2  this verifier, of this one ([`Sender`])              │ its id; nothing changes
//!  3  of another one                                       │ that holds something under a lease: CLID_INUSE, nothing changes. That
//!                                                          │ holds nothing: it goes, then as 1. Whose lease is over: as 5. Whom this
//!                                                          │ one outranks: as 5. That outranks this one, and is elsewhere: CLID_INUSE
//!                                                          │ as long as its lease is not over
//!  4  nothing, but a record waits                          │ that one goes, then as 1; but if it outranks this one, CLID_INUSE
//!  5  another verifier, of this one                        │ a record that waits, with a new id: the confirmed one, and all it
//!                                                          │ holds, stays until that is confirmed
//!  to change what is known of it (UPD_CONFIRMED_REC_A)     │
//!  ────────────────────────────────────────────────────────┼──────────────────────────────────────────────────────────────────────
//!  6  this verifier, of this one                           │ its id: there is nothing yet that can be changed
//!  7  nothing                                              │ NOENT; what waits stays
//!  8  another verifier                                     │ NOT_SAME; nothing changes
//!  9  this verifier, of another one                        │ PERM; nothing changes
//! ```
//!
//! In 3 and 5 a record that waits goes, or stays, as in 4. The text lets go in 3 of what an expired client holds as soon as somebody says its name; here that
//! needs a confirmation too, so that a client which comes back late loses it to nobody who does not come (rules V20 and V22).

use std::time::Duration;

use super::creation::Slot;
use super::{CONFIRMED, ClientId, Clients, Introduction, Minor, Of, Record};
use crate::v4::status::Status;

/// How a client wants what it holds to be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// SP4_NONE.
    Nothing,
    /// SP4_MACH_CRED.
    Machine,
    /// SP4_SSV.
    Secret,
}

impl Protection {
    /// Both others ask for RPCSEC_GSS, which nobody can have used here: that is INVAL, and of the secret one no algorithm is there.
    pub fn grant(self) -> Result<(), Status> {
        match self {
            Self::Nothing => Ok(()),
            Self::Machine => Err(Status::Inval),
            Self::Secret => Err(Status::EncrAlgUnsupp),
        }
    }
}

/// What EXCHANGE_ID answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The client's id.
    pub id: ClientId,
    /// The sequence of its next CREATE_SESSION.
    pub sequence: u32,
    /// Whether it is confirmed (EXCHGID4_FLAG_CONFIRMED_R).
    pub is_confirmed: bool,
}

/// A row of D3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// 1, 4 and 5.
    Waits,
    /// 2 and 6.
    Known,
    /// 3.
    Collides,
    /// 7 to 9.
    Refused(Status),
}

/// Table D3: what is confirmed of the name, if anything is, is of this start, and of this one.
fn row(is_update: bool, confirmed: Option<(bool, bool)>) -> Row {
    match (is_update, confirmed) {
        (_, Some((true, true))) => Row::Known,
        (false, Some((_, false))) => Row::Collides,
        (false, None | Some((false, true))) => Row::Waits,
        (true, None) => Row::Refused(Status::NoEnt),
        (true, Some((false, _))) => Row::Refused(Status::NotSame),
        (true, Some((true, false))) => Row::Refused(Status::Perm),
    }
}

impl Clients {
    /// EXCHANGE_ID at `now`. `is_update` is UPD_CONFIRMED_REC_A; `holds` tells which clients hold something under a lease, beside sessions.
    pub fn exchange_id(
        &mut self,
        introduction: Introduction,
        is_update: bool,
        holds: &dyn Fn(ClientId) -> bool,
        now: Duration,
    ) -> Result<Exchanged, Status> {
        self.forget_late(now);
        let (name, sender) = ((Minor::One, introduction.name.clone()), introduction.sender);
        let known = self.ids(&name)[CONFIRMED].and_then(|id| self.with_slot(id));
        let is_same = |known: &Record| known.introduction.verifier == introduction.verifier;
        let of = known.map(|(known, _)| (is_same(known), sender.is(&known.sender())));
        match (row(is_update, of), known) {
            (Row::Refused(status), _) => return Err(status),
            (Row::Known, Some((known, slot))) => {
                return Ok(Exchanged { id: known.id, sequence: slot.next(), is_confirmed: true });
            }
            (Row::Collides, Some((known, _))) if known.is_held_from(&sender, holds, now) => {
                return Err(Status::ClidInUse);
            }
            _ if self.is_awaited(&name, &sender) => return Err(Status::ClidInUse),
            (Row::Collides, Some((known, slot))) if slot.sessions().is_empty() && !holds(known.id) => {
                self.forget(known.id, CONFIRMED);
            }
            _ => {}
        }
        let (id, slot) = (self.draw_id(), Slot::default());
        let sequence = slot.next();
        self.let_wait(id, introduction, Of::Minor1(slot), now);
        Ok(Exchanged { id, sequence, is_confirmed: false })
    }
}

#[cfg(test)]
mod tests;
