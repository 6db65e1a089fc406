//! Opening files: who has which one open, for what, and what he lets others do meanwhile.
//!
//! An open is given under the file's lock, together with all that the request makes and cuts (rules V29): what is opened is what is
//! there, and nobody else's open that forbids it comes in between. It ends with [`Opens::close`](crate::Opens::close), or with the mount; on disk there is nothing of it.

pub use tally_claims::{Access, ClientNumber, Deny, Holder, OwnerNumber, Share};

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
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub attr: Attr,
    /// Whether it was made.
    pub is_new: bool,
}
