//! Why a claim is refused.

use crate::delegation::Delegation;
use crate::holder::{ClientNumber, Holder};
use crate::ranges::Lock;
use crate::share::Share;

/// Why something was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Somebody's claim is in the way. There may be others behind it.
    #[error("somebody else's claim is in the way: {with:?}")]
    Conflict {
        /// One that is.
        with: Claim,
    },
    /// There would be more of these than there may be.
    #[error("{what:?} {within:?}: there are as many as there may be")]
    TooMany {
        /// Of what.
        what: Counted,
        /// Which bound that is.
        within: Within,
    },
    /// The holder does not have the object open.
    #[error("it is not open")]
    NotOpened,
    /// The holder never opened the object that way.
    #[error("no opens of the holder come to that")]
    Invalid,
}

/// A claim that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// An open.
    Open {
        /// Whose.
        holder: Holder,
        /// What it may do and denies.
        share: Share,
    },
    /// A locked range.
    Lock(Lock),
    /// A delegation, which is to be given back first.
    Delegation {
        /// Whose.
        client: ClientNumber,
        /// Which.
        kind: Delegation,
    },
}

/// What there can be too many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Opens: one for each holder and object.
    Opens,
    /// Locked ranges.
    Ranges,
    /// Delegations: one for each client and object.
    Delegations,
}

/// Where there can be too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// Of one object.
    Object,
    /// Of one client.
    Client,
    /// In all datasets together.
    All,
}
