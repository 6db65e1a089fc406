//! `nfsstat4` (RFC 7530 §13.1), and which error of the file system becomes which.

use tally_vfs::FsError;

use crate::entry::Closed;
use crate::xdr::Garbage;

/// An operation's status, and a compound's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u32)]
pub enum Status {
    Ok = 0,
    Perm = 1,
    NoEnt = 2,
    Io = 5,
    Nxio = 6,
    Access = 13,
    Exist = 17,
    XDev = 18,
    NotDir = 20,
    IsDir = 21,
    Inval = 22,
    FBig = 27,
    NoSpc = 28,
    RoFs = 30,
    MLink = 31,
    NameTooLong = 63,
    NotEmpty = 66,
    DQuot = 69,
    Stale = 70,
    BadHandle = 10001,
    BadCookie = 10003,
    NotSupp = 10004,
    TooSmall = 10005,
    ServerFault = 10006,
    BadType = 10007,
    Delay = 10008,
    Same = 10009,
    Denied = 10010,
    Expired = 10011,
    Locked = 10012,
    Grace = 10013,
    ShareDenied = 10015,
    ClidInUse = 10017,
    Resource = 10018,
    NoFileHandle = 10020,
    MinorVersMismatch = 10021,
    StaleClientId = 10022,
    StaleStateid = 10023,
    OldStateid = 10024,
    BadStateid = 10025,
    BadSeqid = 10026,
    NotSame = 10027,
    Symlink = 10029,
    RestoreFh = 10030,
    AttrNotSupp = 10032,
    NoGrace = 10033,
    ReclaimConflict = 10035,
    BadXdr = 10036,
    LocksHeld = 10037,
    OpenMode = 10038,
    BadOwner = 10039,
    BadName = 10041,
    OpIllegal = 10044,
    Deadlock = 10045,
    AdminRevoked = 10047,
    BadSession = 10052,
    BadSlot = 10053,
    CompleteAlready = 10054,
    ConnNotBoundToSession = 10055,
    SeqMisordered = 10063,
    SequencePos = 10064,
    ReqTooBig = 10065,
    RepTooBig = 10066,
    RepTooBigToCache = 10067,
    RetryUncachedRep = 10068,
    TooManyOps = 10070,
    OpNotInSession = 10071,
    ClientIdBusy = 10074,
    SeqFalseRetry = 10076,
    BadHighSlot = 10077,
    DeadSession = 10078,
    EncrAlgUnsupp = 10079,
    NotOnlyOp = 10081,
    WrongType = 10083,
    DelegRevoked = 10087,
    UnionNotSupp = 10090,
    NoXattr = 10095,
    Xattr2Big = 10096,
}

impl From<FsError> for Status {
    fn from(error: FsError) -> Self {
        match error {
            FsError::NotOwner => Self::Perm,
            FsError::NotFound => Self::NoEnt,
            FsError::Io => Self::Io,
            FsError::Access => Self::Access,
            FsError::Exists => Self::Exist,
            FsError::NotDirectory => Self::NotDir,
            FsError::IsDirectory => Self::IsDir,
            // BADTYPE belongs to CREATE alone (RFC 7530 §13.1.2.5).
            FsError::Invalid | FsError::BadType | FsError::NotSync => Self::Inval,
            FsError::TooBig => Self::FBig,
            FsError::BehindEnd => Self::Nxio,
            FsError::NoSpace => Self::NoSpc,
            FsError::ReadOnly => Self::RoFs,
            FsError::TooManyLinks => Self::MLink,
            FsError::NameTooLong => Self::NameTooLong,
            FsError::NotEmpty => Self::NotEmpty,
            FsError::Quota => Self::DQuot,
            FsError::IsSymlink => Self::Symlink,
            FsError::ShareDenied => Self::ShareDenied,
            FsError::Locked => Self::Locked,
            FsError::NotOpened => Self::BadStateid,
            FsError::OpenMode => Self::OpenMode,
            FsError::NoXattr => Self::NoXattr,
            FsError::XattrTooBig => Self::Xattr2Big,
            FsError::Stale => Self::Stale,
            FsError::Unavailable | FsError::Throttled | FsError::TooManyClaims | FsError::Delegated(_) => Self::Delay,
        }
    }
}

impl From<Closed> for Status {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::BadHandle => Self::BadHandle,
            Closed::Stale => Self::Stale,
            Closed::Away => Self::Delay,
            // Operations before this one were carried out, so the whole call cannot be refused as v3's is.
            Closed::Out | Closed::TooWeak => Self::Access,
        }
    }
}

impl From<Garbage> for Status {
    /// An operation that cannot be decoded fails alone (RFC 8881 §15.1.1.1).
    fn from(Garbage: Garbage) -> Self {
        Self::BadXdr
    }
}
