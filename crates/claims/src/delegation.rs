//! What a client was given of an object to keep: that nobody else changes it, or that nobody else has it at all, until it is asked to give that back (RFC 8881 §10.4).
//!
//! A delegation is a client's, not an owner's, and one of a client and an object: who holds one is given no second. It is nobody's open: an object with no name any more goes
//! with its last open, and takes its delegations along (what a client still had open by one it has opened before it gave it back).
//!
//! **D9, whether one is given**, as far as this table knows. Whoever asks for it has opened the object by now, so that nobody denies it to him. That the object is settled, that its
//! holder can be reached, and that none was called back a moment ago, is asked by others.
//!
//! Owners count, and not clients alone: two mounts of one machine are often one client with two caches, and each mount has owners of its own.
//!
//! | row | wanted | of delegations there is | other owners have | then |
//! |---|---|---|---|---|
//! | a | either | his own | whatever it is | not given |
//! | b | either | a Write of another | whatever it is | not given: it would be in the way of his open |
//! | c | Read | none, or Reads of others | an open that may write, or lets nobody read; or another client a range that is locked for writing | not given |
//! | d | Read | none, or Reads of others | other opens, ranges that another client has locked for reading, or nothing | given |
//! | e | Write | Reads of others | whatever it is | not given |
//! | f | Write | none | an open, or another client a locked range | not given |
//! | g | Write | none | nothing | given |
//!
//! **D10, what is in whose way** (rules V14). Who acts without being a client (NFSv3, the server's own work) is always another.
//!
//! | row | whose it is | held | who acts | then |
//! |---|---|---|---|---|
//! | a | his own | either | does whatever it is | nothing |
//! | b | another's | Read | looks at attributes, or reads | nothing |
//! | c | another's | Read | changes anything of it | it is called back |
//! | d | another's | Write | looks at attributes | its holder is asked for them, who may have newer ones |
//! | e | another's | Write | reads | it is called back |
//! | f | another's | Write | changes anything of it | it is called back |
//!
//! To lock a range is to read or to change by its kind ([`Act::locking`]), with an open or without one: whoever holds a delegation locks at home, a Read what is for reading and a Write whatever it is, and nobody here knows of that (N7).
//!
//! Others may ask for more than row a: above, an OPEN by another owner of the client counts as another's, and below, the end of a last name that nobody has open.

use crate::holder::ClientNumber;
use crate::ranges::Kind;
use crate::share::{Access, Deny, Share};

/// What a client holds of an object, until it gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delegation {
    /// Nobody else changes it. Others may hold the same.
    Read,
    /// Nobody else reads or changes it.
    Write,
}

/// What somebody is about to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// To look at its attributes.
    Looks,
    /// To read what is in it, or to open or lock it for that.
    Reads,
    /// To change what is in it, its attributes or its names; to open it for that, or to open or lock it so that others may do less with it.
    Changes,
}

impl Act {
    /// What opening it comes to.
    #[must_use]
    pub fn opening(share: Share) -> Self {
        if share.access.has(Access::WRITE) || share.deny != Deny::NONE { Self::Changes } else { Self::Reads }
    }

    /// What locking a range of it comes to.
    pub(crate) const fn locking(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Reads,
            Kind::Write => Self::Changes,
        }
    }
}

/// What comes of a delegation when somebody acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Nothing.
    Nothing,
    /// Its holder is asked how the object is by now.
    Ask,
    /// It has to be given back first.
    Recall,
}

/// Table D10.
#[must_use]
pub const fn conflict(act: Act, is_own: bool, held: Delegation) -> Conflict {
    match (is_own, held, act) {
        (true, ..) | (false, Delegation::Read, Act::Looks | Act::Reads) => Conflict::Nothing,
        (false, Delegation::Write, Act::Looks) => Conflict::Ask,
        (false, _, Act::Changes) | (false, Delegation::Write, Act::Reads) => Conflict::Recall,
    }
}

/// Whose the delegations of an object are, to somebody who asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Not,
    ByHimself,
    ByOthers(Delegation),
}

/// What others have of an object: the opens of other owners, the ranges of other clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OthersHave {
    Nothing,
    /// Opens that neither write nor keep others from reading, or ranges that are locked for reading.
    Something,
    /// An open that may write, or that lets nobody read; or a range that is locked for writing.
    Conflicting,
}

/// Table D9.
pub(crate) const fn is_given(wanted: Delegation, held: Held, others: OthersHave) -> bool {
    match (held, wanted, others) {
        (Held::ByHimself | Held::ByOthers(Delegation::Write), ..) => false,
        (_, Delegation::Read, others) => !matches!(others, OthersHave::Conflicting),
        (Held::ByOthers(Delegation::Read), Delegation::Write, _) => false,
        (Held::Not, Delegation::Write, others) => matches!(others, OthersHave::Nothing),
    }
}

/// The delegations of one object: of one client the Write, or of some the Read.
#[derive(Debug, Default)]
pub(crate) enum Delegated {
    #[default]
    Not,
    /// In their order, and never none.
    Read(Vec<ClientNumber>),
    Write(ClientNumber),
}

impl Delegated {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::Not)
    }

    pub(crate) fn count(&self) -> usize {
        self.clients().len()
    }

    fn clients(&self) -> &[ClientNumber] {
        match self {
            Self::Not => &[],
            Self::Read(clients) => clients,
            Self::Write(client) => std::slice::from_ref(client),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (ClientNumber, Delegation)> {
        let kind = if matches!(self, Self::Write(_)) { Delegation::Write } else { Delegation::Read };
        self.clients().iter().map(move |&client| (client, kind))
    }

    pub(crate) fn of(&self, client: ClientNumber) -> Option<Delegation> {
        self.all().find(|(holder, _)| *holder == client).map(|(_, kind)| kind)
    }

    /// One that has to be given back before this client, or nobody's, acts so.
    pub(crate) fn in_the_way(&self, who: Option<ClientNumber>, act: Act) -> Option<(ClientNumber, Delegation)> {
        self.all().find(|&(holder, kind)| conflict(act, who == Some(holder), kind) == Conflict::Recall)
    }

    pub(crate) fn held(&self, client: ClientNumber) -> Held {
        match (self.of(client), self.all().next()) {
            (Some(_), _) => Held::ByHimself,
            (None, Some((_, kind))) => Held::ByOthers(kind),
            (None, None) => Held::Not,
        }
    }

    /// Gives one, which table D9 allows.
    pub(crate) fn give(&mut self, client: ClientNumber, kind: Delegation) {
        match (self, kind) {
            (this @ Self::Not, Delegation::Write) => *this = Self::Write(client),
            (this @ Self::Not, Delegation::Read) => *this = Self::Read(vec![client]),
            (Self::Read(clients), Delegation::Read) => {
                let at = clients.binary_search(&client).expect_err("who holds one is given none");
                clients.insert(at, client);
            }
            (Self::Read(_) | Self::Write(_), _) => unreachable!("a Write is beside no other (C8)"),
        }
    }

    /// Whether that client had one, which it has no more.
    pub(crate) fn take(&mut self, client: ClientNumber) -> bool {
        if let Self::Read(clients) = self
            && clients.len() > 1
        {
            return clients.binary_search(&client).map(|at| clients.remove(at)).is_ok();
        }
        let is_his = self.of(client).is_some();
        if is_his {
            *self = Self::Not;
        }
        is_his
    }
}

#[cfg(test)]
mod tests;
