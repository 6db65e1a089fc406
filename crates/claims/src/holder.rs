//! Whose a claim is.

/// A client, of whichever protocol. Who it is its protocol knows; no two of one server have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNumber(pub u64);

/// One of a client's owners: a process, or what else its protocol takes for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerNumber(pub u64);

/// Who has claimed something: of an open its open-owner, of a range its lock-owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// Whose owner that is.
    pub client: ClientNumber,
    /// Which of its owners.
    pub owner: OwnerNumber,
}
