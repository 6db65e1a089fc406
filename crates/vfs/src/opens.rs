//! Opening files: who has which one open, for what, and what he lets others do meanwhile.
//!
//! An open is given under the file's lock, together with all that the request finds, makes and cuts (rules V29): what is opened is what is
//! there, and nobody else's open that forbids it comes in between. It ends with [`Opens::close`](crate::Opens::close), or with the mount; on disk there is nothing of it.

pub use tally_claims::{Access, ClientNumber, Deny, Holder, OwnerNumber, Share};

use tally_base::ObjectId;

use crate::attributes::{Attr, ObjectRef};
use crate::names::CreateHow;

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
    /// The one that has a name, or is made by it.
    Named(Named<'a>),
}

/// A name under which a file is made if there is none. Then it is opened whatever its mode says. One that is there `Unchecked` cuts to nothing, where it gives
/// that size, and sets nothing else of.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The directory.
    pub dir: ObjectRef,
    /// The name.
    pub name: &'a [u8],
    /// How it is made.
    pub how: &'a CreateHow,
    /// What whoever asks has seen there: he has to know whose open it becomes. Where it is something else by now nothing is done, and he is told
    /// [`NotSync`](crate::FsError::NotSync).
    pub seen: Option<ObjectId>,
}

/// An open that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Who will have it. If he has it already his open grows by this.
    pub holder: Holder,
    /// For what, and what others may not do meanwhile.
    pub share: Share,
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file.
    pub attr: Attr,
    /// Whether it was made.
    pub is_new: bool,
}
