//! A reply against the model's answer.

use nfs3_types::nfs3::{nfsstat3, stable_how};
use tally_vfs::{FsError, Stability};

use crate::client::{Told, same_fattr};
use crate::op::{Answer, Expected, Op};

/// Whether an answer is the one that the model gives.
pub fn agree(op: &Op, told: &Told, expected: &Expected) -> Result<(), String> {
    let wanted = match &expected.result {
        _ if op.is_across() => nfsstat3::NFS3ERR_XDEV,
        Ok(_) => nfsstat3::NFS3_OK,
        Err(error) => status_of(*error),
    };
    let is_type = |status| matches!(status, nfsstat3::NFS3ERR_INVAL | nfsstat3::NFS3ERR_BADTYPE);
    // Two handles, one of them stale and the other no directory: which is told first is nobody's concern.
    let is_handle = |status| matches!(status, nfsstat3::NFS3ERR_STALE | nfsstat3::NFS3ERR_NOTDIR);
    // Who may not look at a directory, or may not change it, may be told what is wrong there besides.
    let is_denied = |status| matches!(status, nfsstat3::NFS3ERR_ACCES | nfsstat3::NFS3ERR_PERM);
    let are_refusals = told.status != nfsstat3::NFS3_OK && wanted != nfsstat3::NFS3_OK;
    let alike = told.status == wanted
        || (are_refusals && (is_denied(told.status) || is_denied(wanted)))
        || (is_type(told.status) && is_type(wanted))
        || (is_handle(told.status) && is_handle(wanted) && op.objects().len() == 2);
    if !alike {
        return Err(format!("is answered with {} instead of {wanted}", told.status));
    }
    if told.status != nfsstat3::NFS3_OK {
        return Ok(());
    }
    if let (Some(attr), Some(expected)) = (&told.attr, &expected.attr) {
        same_fattr(attr, expected).map_err(|what| format!("tells attributes {what}"))?;
    }
    if let (Op::Write { stability, .. }, Ok(Answer::Written(count))) = (op, &expected.result) {
        let asked = match stability {
            Stability::Unstable => stable_how::UNSTABLE,
            Stability::DataSync => stable_how::DATA_SYNC,
            Stability::FileSync => stable_how::FILE_SYNC,
        };
        match told.written {
            Some((taken, stable)) if taken == *count && stable as u32 >= asked as u32 => {}
            other => return Err(format!("is answered with {other:?} instead of {count} {asked}")),
        }
    }
    Ok(())
}

/// Whether a request is refused for another reason than the model's: what the answer rests on is not known then.
#[must_use]
pub fn is_refused_otherwise(told: &Told, expected: &Expected) -> bool {
    matches!(&expected.result, Err(error) if told.status != status_of(*error))
}

/// Whether this is how a read tells of an error.
#[must_use]
pub fn tells_of(status: nfsstat3, error: FsError) -> bool {
    match error {
        // Only MKNOD has a word of its own for it.
        FsError::BadType => status == nfsstat3::NFS3ERR_INVAL,
        error => status == status_of(error),
    }
}

fn status_of(error: FsError) -> nfsstat3 {
    use nfsstat3 as S;
    match error {
        FsError::NotOwner => S::NFS3ERR_PERM,
        FsError::NotFound => S::NFS3ERR_NOENT,
        FsError::Io => S::NFS3ERR_IO,
        FsError::Access => S::NFS3ERR_ACCES,
        FsError::Exists => S::NFS3ERR_EXIST,
        FsError::NotDirectory => S::NFS3ERR_NOTDIR,
        FsError::IsDirectory => S::NFS3ERR_ISDIR,
        FsError::Invalid => S::NFS3ERR_INVAL,
        FsError::TooBig => S::NFS3ERR_FBIG,
        FsError::NoSpace => S::NFS3ERR_NOSPC,
        FsError::ReadOnly => S::NFS3ERR_ROFS,
        FsError::TooManyLinks => S::NFS3ERR_MLINK,
        FsError::NameTooLong => S::NFS3ERR_NAMETOOLONG,
        FsError::NotEmpty => S::NFS3ERR_NOTEMPTY,
        FsError::Quota => S::NFS3ERR_DQUOT,
        FsError::Stale => S::NFS3ERR_STALE,
        FsError::NotSync => S::NFS3ERR_NOT_SYNC,
        FsError::BadType => S::NFS3ERR_BADTYPE,
        FsError::Unavailable | FsError::Throttled | FsError::Delegated(_) => S::NFS3ERR_JUKEBOX,
        FsError::IsSymlink
        | FsError::BehindEnd
        | FsError::ShareDenied
        | FsError::Locked
        | FsError::NotOpened
        | FsError::OpenMode
        | FsError::TooManyClaims
        | FsError::NoXattr
        | FsError::XattrTooBig => S::NFS3ERR_SERVERFAULT,
    }
}
