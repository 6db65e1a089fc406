//! A look at the attributes of a file that another client has for writing: it is asked for them (CB_GETATTR, RFC 8881 §10.4.3 and §20.1), as it may have written what it has not sent.
//!
//! ```text
//!  GETATTR ─▶ look: nobody has it for writing ─────────────────────────────▶ as it is here
//!               │ asked, once for all who look
//!               ▼
//!             parked, for a moment ─▶ look again ─▶ it has said so ─▶ as it was given, or newer ─▶ the size that it says, and the times of now
//!                                        └─ it says nothing, or what nobody can believe ─▶ it is recalled, and who looks comes again
//! ```
//!
//! *Who says nothing is recalled*, where one could wait for its answer with DELAY, as a client does that is slower than a moment. But who looks once looks again, and would be told DELAY each time: a file
//! that nobody can look at keeps a whole listing waiting. Behind the recall it is asked for no more. Linux's server does the same.
//!
//! *Newer* is what it has changed since: then the file has a new change and time here as well, by a record as of SETATTR, so that what is told never falls, also behind a crash, and each look finds another one as long
//! as something is to be sent. A client that could give any change could make it fall; so its own is compared and not told (rules V11).

use bytes::Bytes;
use tally_base::{Promise, Wait};
use tally_vfs::{
    Attr, ClientNumber, Cred, Delegation, FILE_SIZE_MAX, FsError, ObjectRef, OpCtx, Right, SetAttr, SetTime, Vfs,
};

use super::{House, KeptOut};
use crate::exports::Exports;
use crate::v4::attr::{self, AttrSet, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY};
use crate::v4::state::{
    Attributes, Callback, ClientId, Delegated, DelegationNumber, Errand, FileId, LookTicket, Looked, NotedLook,
};
use crate::xdr::{Decoder, Encoder, Garbage};

pub(in crate::v4) const CB_GETATTR: u32 = 3;
/// Of the attributes that it is asked for the first.
const CHANGE: u32 = 3;
/// Bytes of that and of the size.
const VALUES_BYTES: u32 = 16;

/// What a look comes to.
pub enum Seen {
    /// These.
    Attributes(Box<Attr>),
    /// There are none.
    Failed(FsError),
    /// He looks once more when this is over, with this.
    Asks(LookTicket, Box<dyn Promise>),
    /// They are not to be had for now.
    KeptOut(KeptOut),
}

impl From<Result<Attr, FsError>> for Seen {
    fn from(looked: Result<Attr, FsError>) -> Self {
        looked.map_or_else(Self::Failed, |attr| Self::Attributes(Box::new(attr)))
    }
}

/// Whether somebody else may know newer attributes of a file than there are here.
pub(crate) fn may_be_newer(vfs: &dyn Vfs, object: ObjectRef, who: Option<ClientNumber>) -> bool {
    writer(vfs, object, who).is_some()
}

fn writer(vfs: &dyn Vfs, object: ObjectRef, who: Option<ClientNumber>) -> Option<ClientNumber> {
    let held = vfs.delegated(object);
    held.into_iter().find(|(client, kind)| *kind == Delegation::Write && Some(*client) != who).map(|(client, _)| client)
}

impl House {
    /// Somebody, this client if it is one, looks at an object: for the first time, or again with his ticket.
    pub(crate) fn look(
        &self,
        exports: &dyn Exports,
        (vfs, object): (&dyn Vfs, ObjectRef),
        who: Option<ClientId>,
        ticket: Option<LookTicket>,
    ) -> Seen {
        let here = || vfs.getattr(object).into();
        let Some(holder) = writer(vfs, object, who.map(|client| ClientNumber(client.0))) else { return here() };
        if self.end_late(exports, &[holder]) {
            return here();
        }
        let (client, file) = (ClientId(holder.0), FileId::of(vfs, object));
        match ticket {
            None => {
                // Before it is asked: what it answers from here on is noticed.
                let parked = self.parking.park(file);
                match self.delegations().look(client, &file) {
                    Looked::NothingNewer => here(),
                    Looked::Nobodys if self.recall_of(vfs, &file, &[holder]) => here(),
                    Looked::Nobodys => Seen::KeptOut(KeptOut::ComesAgain),
                    Looked::Asks(ticket, call) => {
                        if let Some(delegated) = call {
                            self.ask(&delegated);
                        }
                        parked.map_or(Seen::KeptOut(KeptOut::ComesAgain), |parked| Seen::Asks(ticket, Box::new(parked)))
                    }
                }
            }
            Some(ticket) => match self.delegations().said(&ticket) {
                Some((said, noted)) => {
                    let seen = self.told(vfs, (object, holder), said, noted);
                    // Where it was not set it is to be set by the next look.
                    if matches!(seen, Seen::Attributes(_)) {
                        self.delegations().note_modified(&ticket, said.modified);
                    }
                    seen
                }
                // Also where there was no slot to ask it in: nobody knows that the next look finds one.
                None => self.recalls(vfs, &file, holder),
            },
        }
    }

    fn recalls(&self, vfs: &dyn Vfs, file: &FileId, holder: ClientNumber) -> Seen {
        self.recall_of(vfs, file, &[holder]);
        Seen::KeptOut(KeptOut::ComesAgain)
    }

    fn ask(&self, delegated: &Delegated) {
        let errand = Errand::Look(delegated.client, delegated.number);
        let callback = Callback { operation: cb_getattr(delegated), refers_to: delegated.by };
        if self.call(None, &errand, &callback).is_none() {
            self.delegations().not_asked(delegated.number);
        }
    }

    /// A client was asked, and has said this, or nothing that anybody knows.
    pub(in crate::v4) fn looked(&self, number: DelegationNumber, said: Option<Attributes>) {
        if let Some(file) = self.delegations().looked(number, said) {
            self.parking.wake(&file);
        }
    }

    /// What a file is like by what its holder says, of which this is known.
    fn told(
        &self,
        vfs: &dyn Vfs,
        (object, holder): (ObjectRef, ClientNumber),
        said: Attributes,
        noted: NotedLook,
    ) -> Seen {
        let attr = match vfs.getattr(object) {
            Ok(attr) => attr,
            Err(error) => return Seen::Failed(error),
        };
        let is_as_late =
            said.modified.is_none_or(|modified| [Some(attr.mtime), noted.modified].contains(&Some(modified)));
        if (said.change, said.size) == (noted.change, attr.size) && is_as_late {
            return Seen::Attributes(Box::new(attr));
        }
        // As if its holder had sent something: nobody waits for the record, as nobody does who looks at what another one writes.
        let mtime = said.modified.map_or(SetTime::Server, SetTime::Kept);
        let set = SetAttr { mtime: Some(mtime), atime: said.accessed.map(SetTime::Kept), ..SetAttr::default() };
        let cred = Cred::root();
        let ctx = OpCtx { client: Some(holder), right: Right::Delegated(holder), ..OpCtx::of(&cred) };
        let outcome = vfs.setattr(ctx, object, &set, None);
        match (outcome.result, outcome.wait) {
            (Ok(()), _) => vfs.getattr(object).map(|attr| Attr { size: said.size, ..attr }).into(),
            (Err(FsError::Throttled), Wait::On(_)) => Seen::KeptOut(KeptOut::ComesAgain),
            (Err(FsError::Stale), _) => Seen::Failed(FsError::Stale),
            // Where nothing can be changed, as for want of room, what it has is asked for: who looks has done nothing that could fail so.
            (Err(_), _) => self.recalls(vfs, &FileId::of(vfs, object), holder),
        }
    }
}

/// `CB_GETATTR4args`.
fn cb_getattr(delegated: &Delegated) -> Bytes {
    let mut words = Encoder::new();
    words.u32(CB_GETATTR).opaque(&delegated.handle);
    let asked: &[u32] =
        if delegated.keeps.times { &[CHANGE, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY] } else { &[CHANGE, SIZE] };
    AttrSet::of(asked).encode(&mut words);
    words.into_vec().into()
}

/// `CB_GETATTR4res` behind its number and status, of which change and size have to be there. What a client says besides stands behind them, as they are in the order of their numbers: times, if nothing is between.
pub(in crate::v4) fn attributes(words: &mut Decoder<'_>) -> Result<Attributes, Garbage> {
    let named = AttrSet::decode(words, 2)?;
    let are_first = named.has(CHANGE) && named.has(SIZE) && !(0..CHANGE).any(|number| named.has(number));
    if !are_first || words.u32()? < VALUES_BYTES {
        return Err(Garbage);
    }
    let (change, size) = (words.u64()?, words.u64()?);
    if size > FILE_SIZE_MAX {
        return Err(Garbage);
    }
    let are_next = !named.exceeds(&AttrSet::of(&[CHANGE, SIZE, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY]));
    let mut time_of = |number| {
        let is_told = are_next && named.has(number);
        is_told.then(|| attr::kept_time(words)).transpose().map_err(|_| Garbage)
    };
    let (accessed, modified) = (time_of(TIME_DELEG_ACCESS)?, time_of(TIME_DELEG_MODIFY)?);
    Ok(Attributes { change, size, accessed, modified })
}
