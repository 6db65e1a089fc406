//! The door of a dataset: what a protocol server may ask of a file system, and what it gets back.
//!
//! Reads return at once with what they found. Everything that changes something returns an [`Outcome`], and
//! so do its failures: the reply may only leave once [`Outcome::wait`] is kept, because a client acts on an
//! error just as it acts on a success (rules F9).

mod attributes;
mod content;
mod door;
pub mod locks;
pub mod model;
mod mount;
mod names;
mod opens;
mod outcome;
pub mod permission;
mod request;
pub mod suite;
mod xattrs;

pub use attributes::{Attr, Change, FileKind, FsStat, ObjectRef, PreAttr, SetAttr, SetTime};
pub use content::{FILE_SIZE_MAX, FoundAt, ReadOut, Sought, Stability, WRITE_BYTES_MAX, Written};
pub use door::{Attributes, Content, Delegations, Gives, Identity, Locks, Names, Opens, Replies, Vfs, Xattrs};
pub use mount::{MountNumber, Retained};
pub use names::{
    CreateHow, DirEntry, DirPage, ENTRY_BYTES, FIRST_ID, LINK_MAX, NAME_MAX, NodeKind, RENAME_PARENTS_MAX, SYMLINK_MAX,
    entry_charge,
};
pub use opens::{
    Access, Act, ClientNumber, Conflict, DELEGATIONS_MAX, DELEGATIONS_OF_CLIENT_MAX, Delegation, Deny, Holder,
    OPENS_MAX, OPENS_OF_CLIENT_MAX, Opened, Opening, OwnerNumber, Right, Series, Share, ToOpen, conflict,
};
pub use outcome::{FsError, Outcome};
pub use request::{Cred, OpCtx, RememberedReply, ReplyKey};
pub use xattrs::{
    SetXattr, USER_PREFIX, XATTR_NAME_MAX, XATTR_VALUE_MAX, XATTRS_BYTES_MAX, XATTRS_MAX, XattrName, check_xattr_name,
    xattr_charge,
};
