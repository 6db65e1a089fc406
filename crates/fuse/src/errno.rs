//! What a program is told of an error.

use rustix::io::Errno;
use tally_vfs::FsError;

/// The number of an error. What is tried again (see `door`) has one for where that has taken too long.
pub(crate) fn errno(error: FsError) -> Errno {
    match error {
        FsError::NotOwner => Errno::PERM,
        FsError::NotFound => Errno::NOENT,
        FsError::Io => Errno::IO,
        // As the kernel's NFS client says of files that others have opened and share with nobody.
        FsError::Access | FsError::ShareDenied | FsError::Locked => Errno::ACCESS,
        FsError::Exists => Errno::EXIST,
        FsError::NotDirectory => Errno::NOTDIR,
        FsError::IsDirectory => Errno::ISDIR,
        FsError::Invalid | FsError::BadType | FsError::NotSync => Errno::INVAL,
        FsError::BehindEnd => Errno::NXIO,
        FsError::TooBig => Errno::FBIG,
        FsError::NoSpace => Errno::NOSPC,
        FsError::ReadOnly => Errno::ROFS,
        FsError::TooManyLinks => Errno::MLINK,
        FsError::NameTooLong => Errno::NAMETOOLONG,
        FsError::NotEmpty => Errno::NOTEMPTY,
        FsError::Quota => Errno::DQUOT,
        FsError::Stale => Errno::STALE,
        FsError::IsSymlink => Errno::LOOP,
        FsError::NotOpened | FsError::OpenMode => Errno::BADF,
        FsError::NoXattr => Errno::NODATA,
        FsError::XattrTooBig => Errno::TOOBIG,
        FsError::TooManyClaims => Errno::NFILE,
        FsError::Delegated(_) | FsError::Unavailable | FsError::Throttled => Errno::IO,
    }
}
