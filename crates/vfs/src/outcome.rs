//! What an operation gives back: what happened, and what its reply waits for.

use smallvec::SmallVec;
use tally_base::Wait;

use crate::attributes::{Change, ObjectRef};

/// Why an operation failed. Each variant has one NFS status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum FsError {
    #[error("operation not permitted: only the owner may do this")]
    NotOwner,
    #[error("no such file or directory")]
    NotFound,
    #[error("input/output error")]
    Io,
    #[error("permission denied")]
    Access,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotDirectory,
    #[error("is a directory")]
    IsDirectory,
    #[error("invalid argument")]
    Invalid,
    #[error("no such offset: the file ends before it")]
    BehindEnd,
    #[error("file too large")]
    TooBig,
    #[error("no space left in the pool")]
    NoSpace,
    #[error("read-only dataset")]
    ReadOnly,
    #[error("too many links")]
    TooManyLinks,
    #[error("name too long")]
    NameTooLong,
    #[error("directory not empty")]
    NotEmpty,
    #[error("quota exceeded")]
    Quota,
    #[error("stale file handle")]
    Stale,
    #[error("object was changed in between")]
    NotSync,
    #[error("operation not supported on this kind of object")]
    BadType,
    #[error("is a symbolic link")]
    IsSymlink,
    #[error("somebody has the file open and shares it with nobody who asks for this")]
    ShareDenied,
    #[error("somebody has the file open, and nobody else may do this meanwhile")]
    Locked,
    #[error("not opened by this holder")]
    NotOpened,
    #[error("not opened for this")]
    OpenMode,
    #[error("no such extended attribute")]
    NoXattr,
    #[error("value of an extended attribute too long")]
    XattrTooBig,
    #[error("more opens or locks than are kept")]
    TooManyClaims,
    /// Another client was given this object to keep, and has to give it back first: whose it is [`Delegations::delegated`](crate::Delegations::delegated) says. Nothing was
    /// done and nothing is held; whoever answers calls it back, and asks again or has its client come again.
    #[error("delegated to another client, which has to give it back first")]
    Delegated(ObjectRef),
    /// The pool cannot answer for now (suspended, not imported yet); the client asks again later.
    #[error("temporarily unavailable")]
    Unavailable,
    /// Admission refused for now: ring, dirty data or space is being freed by a transaction group. Nothing
    /// was done and nothing is held; run the request again once [`Outcome::wait`] is over (rules F3). Or it is a long
    /// COMMIT, a part of which is on its way to the log.
    #[error("waiting for a transaction group")]
    Throttled,
}

/// Result of an operation that may change something.
#[derive(Debug)]
#[must_use = "the reply must wait"]
pub struct Outcome<T> {
    /// What happened.
    pub result: Result<T, FsError>,
    /// Attributes around the operation: of the object itself (SETATTR, WRITE, COMMIT, extended attributes), else of the directory
    /// (CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, LINK), else of source and target directory (RENAME).
    pub changes: SmallVec<[Change; 2]>,
    /// What the reply has to wait for, success or not (rules F9).
    pub wait: Wait,
}

impl<T> Outcome<T> {
    /// Why it failed, if it did.
    #[must_use]
    pub fn error(&self) -> Option<FsError> {
        self.result.as_ref().err().copied()
    }

    /// The same of what is made of the result.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Outcome<U> {
        Outcome { result: self.result.map(make), changes: self.changes, wait: self.wait }
    }
}
