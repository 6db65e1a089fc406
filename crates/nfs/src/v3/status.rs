//! `nfsstat3` (RFC 1813 §2.6), and which error of the file system becomes which.

use tally_vfs::FsError;

use crate::repeats::Told;

/// A procedure's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u32)]
pub enum Status {
    Ok = 0,
    Perm = 1,
    NoEnt = 2,
    Io = 5,
    Acces = 13,
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
    NotSync = 10002,
    TooSmall = 10005,
    ServerFault = 10006,
    BadType = 10007,
    JukeBox = 10008,
}

impl From<FsError> for Status {
    fn from(error: FsError) -> Self {
        match error {
            FsError::NotOwner => Self::Perm,
            FsError::NotFound => Self::NoEnt,
            FsError::Io => Self::Io,
            FsError::Access => Self::Acces,
            FsError::Exists => Self::Exist,
            FsError::NotDirectory => Self::NotDir,
            FsError::IsDirectory => Self::IsDir,
            // BADTYPE belongs to CREATE-like procedures only (RFC 1813 §2.6); reading a link that is none,
            // or a pipe, is an invalid argument.
            FsError::Invalid | FsError::BadType => Self::Inval,
            FsError::TooBig => Self::FBig,
            FsError::NoSpace => Self::NoSpc,
            FsError::ReadOnly => Self::RoFs,
            FsError::TooManyLinks => Self::MLink,
            FsError::NameTooLong => Self::NameTooLong,
            FsError::NotEmpty => Self::NotEmpty,
            FsError::Quota => Self::DQuot,
            FsError::Stale => Self::Stale,
            FsError::NotSync => Self::NotSync,
            FsError::Unavailable | FsError::Throttled | FsError::Delegated(_) => Self::JukeBox,
            // Of opens, of which there are none here, and of what nobody can ask.
            FsError::IsSymlink
            | FsError::BehindEnd
            | FsError::ShareDenied
            | FsError::Locked
            | FsError::NotOpened
            | FsError::OpenMode
            | FsError::NoXattr
            | FsError::XattrTooBig
            | FsError::TooManyClaims => Self::ServerFault,
        }
    }
}

impl From<Status> for Told {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::JukeBox => Self::ComeAgain,
            Status::ServerFault => Self::Fault,
            _ => Self::Failed,
        }
    }
}
