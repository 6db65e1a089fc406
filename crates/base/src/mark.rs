//! How the protocol, the file system and the pool name one operation of a request in a session.

/// A session, by its id (RFC 8881 §2.10.3): 16 bytes that are no other session's, of this life of the server or of another.
pub type SessionBytes = [u8; 16];

/// An operation of a request in a session: in which slot it stands, and which request of that slot it is. By it the pool remembers what was changed
/// (persistent sessions, RFC 8881 §2.10.6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotMark {
    /// Whose slot.
    pub session: SessionBytes,
    /// Which slot of it.
    pub slot: u32,
    /// Which operation of the request, from 0 for SEQUENCE on.
    pub operation: u32,
    /// The slot's sequence.
    pub sequence: u32,
    /// Of all that the request says, and of who says it.
    pub fingerprint: u64,
}

/// What a pool knows of a request, whichever of its operations it is asked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Not even its session.
    #[default]
    Nothing,
    /// Its session has changed something, and this request has not.
    Session,
    /// It has changed something.
    Request,
}
