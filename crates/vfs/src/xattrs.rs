//! Extended attributes: values that stand beside an object under names of their own (xattr(7), RFC 8276).
//!
//! A name carries its Linux prefix, by which its rules go. Only [`USER_PREFIX`] is taken: what the others stand for (access control lists, capabilities of
//! programs) would be believed by whoever reads it back. It is the protocol that puts the prefix before what a client calls its attribute.

use bytes::Bytes;

use crate::outcome::FsError;

/// What the names begin with that a user may set.
pub const USER_PREFIX: &[u8] = b"user.";
/// Longest name, bytes, with its prefix.
pub const XATTR_NAME_MAX: usize = 255;
/// Longest value, bytes.
pub const XATTR_VALUE_MAX: usize = 64 << 10;
/// Most of one object: a thousand of some bytes are what xfstests sets (generic/020), and what Linux' own server takes.
pub const XATTRS_MAX: u32 = 1024;
/// All of one object together, bytes by [`xattr_charge`]: an object that goes is freed with all of them, and who lists their names reads as much.
pub const XATTRS_BYTES_MAX: u32 = 256 << 10;

/// What one takes beside its name and its value, bytes: a key of the tree, and the lengths of both.
const XATTR_BYTES: u32 = 25 + 4 + 5;

/// What a dataset is charged for an extended attribute, bytes.
#[must_use]
pub fn xattr_charge(name: &[u8], value_bytes: usize) -> u32 {
    let bytes = name.len().saturating_add(value_bytes);
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(XATTR_BYTES)
}

/// Checks a name: [`FsError::NameTooLong`], or [`FsError::Invalid`] for one that is empty behind its prefix, has no such prefix as is taken, or a NUL in it.
pub fn check_xattr_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > XATTR_NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    match name.strip_prefix(USER_PREFIX) {
        Some(rest) if !rest.is_empty() && !rest.contains(&0) => Ok(()),
        _ => Err(FsError::Invalid),
    }
}

/// Whether an attribute of the name may be there when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    /// It may, or not.
    Either,
    /// It may not: [`FsError::Exists`].
    Create,
    /// It has to: [`FsError::NoXattr`].
    Replace,
}

impl SetXattr {
    /// Whether it may be set where one is, or is not, there.
    pub fn check(self, is_there: bool) -> Result<(), FsError> {
        match self {
            Self::Create if is_there => Err(FsError::Exists),
            Self::Replace if !is_there => Err(FsError::NoXattr),
            _ => Ok(()),
        }
    }
}

/// One name of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrName {
    /// Where the listing has it: the next one begins here if this one had no room. The same as long as it is there; no two have the same.
    pub cookie: u64,
    /// The name, with its prefix.
    pub name: Bytes,
}
