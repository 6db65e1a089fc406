//! Opening files: who has which one open, for what, and what he lets others do meanwhile.
//!
//! An open is given under the file's lock, together with all that the request makes and cuts (rules V29): what is opened is what is
//! there, and nobody else's open that forbids it comes in between. It ends with [`Opens::close`](crate::Opens::close), or with the mount; on disk there is nothing of it.

pub use tally_claims::{
    Access, Act, ClientNumber, Conflict, DELEGATIONS_MAX, DELEGATIONS_OF_CLIENT_MAX, Delegation, Deny, Holder,
    OPENS_MAX, OPENS_OF_CLIENT_MAX, OwnerNumber, Series, Share, conflict,
};

use crate::attributes::{Attr, ObjectRef};
use crate::names::CreateHow;
use crate::outcome::FsError;

/// By what right a request reads and writes what is in a file (rules V30).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Right {
    /// By the file's mode. What others have reserved binds nobody who opens nothing: NFSv3.
    #[default]
    Mode,
    /// By the file's mode, where nobody has it open who forbids it: NFSv4's special stateids.
    Unopened,
    /// By an open of this holder, whatever the mode says by now.
    Open(Holder),
    /// By what is delegated to this client: what it has opened there without a word may be read, or written.
    Delegated(ClientNumber),
}

impl Right {
    /// Whose it is, where it is somebody's.
    #[must_use]
    pub const fn client(self) -> Option<ClientNumber> {
        match self {
            Self::Mode | Self::Unopened => None,
            Self::Open(holder) => Some(holder.client),
            Self::Delegated(client) => Some(client),
        }
    }
}

/// What is to be opened.
#[derive(Clone, Copy, Debug)]
pub enum ToOpen<'a> {
    /// This file.
    Itself(ObjectRef),
    /// This file, which the same client had open before the server started anew: its owner may whatever its mode says by now.
    Again(ObjectRef),
    /// The one that has a name in a directory, or is made by it so. Then it is opened whatever its mode says. One that is there `Unchecked` cuts to nothing,
    /// where it gives that size, and sets nothing else of.
    Made(ObjectRef, &'a [u8], &'a CreateHow),
}

/// An open that is asked for.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    /// For what, and what others may not do meanwhile.
    pub share: Share,
    /// Who will have it; if he has the file open already that grows by this. It is asked which file it is, under its lock: before anybody else sees one that is
    /// made. An error is the answer.
    pub by: &'a dyn Fn(ObjectRef) -> Result<Holder, FsError>,
    /// What his client would like to be given besides, to keep until it is asked for it. It is for who opens it; that a client has the file open is what it is given for.
    pub wants: Option<Delegation>,
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub attr: Attr,
    /// Whether it was made.
    pub is_new: bool,
    /// What the client was given of what it wanted. The attributes are of then or later, and the reply may leave once [`Outcome::wait`](crate::Outcome::wait) is kept: should
    /// that be broken, whoever answers gives it back.
    pub delegated: Option<Delegation>,
}
