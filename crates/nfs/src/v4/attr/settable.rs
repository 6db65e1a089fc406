//! Attributes that a client sets (RFC 7530 §5.5 and §16.32, RFC 8275 §4).

use bytes::Bytes;
use tally_base::FileTime;
use tally_vfs::{SetAttr, SetTime};

use super::super::naming::{Meant, Naming};
use super::super::status::Status;
use super::set::{
    AttrSet, MODE_UMASK, OWNER, OWNER_GROUP, READABLE, SIZE, TIME_ACCESS_SET, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY,
    TIME_MODIFY_SET, WRITE_ONLY,
};
use crate::xdr::Decoder;

/// Longest values of attributes that a client may send.
pub(in super::super) const VALUES_BYTES_MAX: usize = 64 << 10;

const MODE: u32 = 33;

/// All that what is made may have, in the order in which values come; with EXCLUSIVE4_1 as well, as its verifier has a place of its own.
pub(super) const SETTABLE: [u32; 7] = [SIZE, MODE, OWNER, OWNER_GROUP, TIME_ACCESS_SET, TIME_MODIFY_SET, MODE_UMASK];
/// Of what is there besides, by who has it for writing.
const KEPT: [u32; 2] = [TIME_DELEG_ACCESS, TIME_DELEG_MODIFY];
/// Bits of a mode that a mask may take away.
const UMASK: u32 = 0o777;

/// In which words a client sets attributes.
#[derive(Clone, Copy)]
pub(in super::super) struct Dialect<'a> {
    /// Which attributes there are for it.
    pub(in super::super) minor: u32,
    /// What owners are called.
    pub(in super::super) naming: &'a Naming,
}

/// Owners that a client calls by name: who they are is asked once it is known that it may set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Called {
    pub(in super::super) user: Option<Box<str>>,
    pub(in super::super) group: Option<Box<str>>,
}

impl Called {
    /// Whether nobody has to be asked.
    pub(in super::super) fn is_nobody(&self) -> bool {
        self.user.is_none() && self.group.is_none()
    }
}

/// What is to be set: which attributes those are, what to do, and for whom.
pub(in super::super) type ToSet = (AttrSet, SetAttr, Called);

/// A `fattr4` that an object is to have which is made: which attributes it has, and what to do.
pub(in super::super) fn given(words: &mut Decoder<'_>, dialect: Dialect<'_>) -> Result<ToSet, Status> {
    decode(words, dialect, |set| if set.meets(&AttrSet::of(&KEPT)) { Err(Status::Inval) } else { Ok(()) })
}

/// The same for EXCLUSIVE4_1: what cannot be set with that is INVAL, whether it is there or not (RFC 8881 §18.16.3).
pub(in super::super) fn given_exclusively(words: &mut Decoder<'_>, dialect: Dialect<'_>) -> Result<ToSet, Status> {
    given(words, dialect).map_err(|status| if status == Status::AttrNotSupp { Status::Inval } else { status })
}

/// The same of an object that is there.
pub(in super::super) fn settable(words: &mut Decoder<'_>, dialect: Dialect<'_>) -> Result<ToSet, Status> {
    // A mask is of who makes something (RFC 8275 §4).
    decode(words, dialect, |set| if set.has(MODE_UMASK) { Err(Status::Inval) } else { Ok(()) })
}

fn decode(
    words: &mut Decoder<'_>,
    dialect: Dialect<'_>,
    check: impl FnOnce(&AttrSet) -> Result<(), Status>,
) -> Result<ToSet, Status> {
    let set = AttrSet::decode(words, dialect.minor)?;
    let values = Bytes::copy_from_slice(words.opaque(VALUES_BYTES_MAX)?);
    if set.exceeds(&AttrSet::of(&READABLE).or(&AttrSet::of(&WRITE_ONLY))) {
        return Err(Status::AttrNotSupp);
    }
    // There, and only to be read; or the mode twice.
    if set.exceeds(&AttrSet::of(&SETTABLE).or(&AttrSet::of(&KEPT))) || set.has(MODE) && set.has(MODE_UMASK) {
        return Err(Status::Inval);
    }
    check(&set)?;
    let mut values = Decoder::new(&values, 0);
    let (mut wanted, mut called) = (SetAttr::default(), Called::default());
    for number in SETTABLE.into_iter().chain(KEPT).filter(|number| set.has(*number)) {
        match number {
            SIZE => wanted.size = Some(values.u64()?),
            MODE => wanted.mode = Some(values.u32()?),
            OWNER => (wanted.uid, called.user) = owner(&mut values, dialect)?,
            OWNER_GROUP => (wanted.gid, called.group) = owner(&mut values, dialect)?,
            TIME_ACCESS_SET => wanted.atime = Some(set_time(&mut values)?),
            TIME_MODIFY_SET => wanted.mtime = Some(set_time(&mut values)?),
            // One alone of a time and of what a client has set already.
            TIME_DELEG_ACCESS if wanted.atime.is_none() => wanted.atime = Some(SetTime::Kept(kept_time(&mut values)?)),
            TIME_DELEG_MODIFY if wanted.mtime.is_none() => wanted.mtime = Some(SetTime::Kept(kept_time(&mut values)?)),
            MODE_UMASK => wanted.mode = Some(masked_mode(&mut values)?),
            _ => return Err(Status::Inval),
        }
    }
    if values.is_at_end() { Ok((set, wanted, called)) } else { Err(Status::BadXdr) }
}

/// `mode_umask4`: nothing is inherited here that would stand for the mask (RFC 8275 §4).
fn masked_mode(values: &mut Decoder<'_>) -> Result<u32, Status> {
    let (mode, umask) = (values.u32()?, values.u32()?);
    if umask & !UMASK == 0 { Ok(mode & !umask) } else { Err(Status::Inval) }
}

/// A number, or a name.
fn owner(values: &mut Decoder<'_>, dialect: Dialect<'_>) -> Result<(Option<u32>, Option<Box<str>>), Status> {
    Ok(match dialect.naming.meant(values.opaque(VALUES_BYTES_MAX)?)? {
        Meant::Id(id) => (Some(id), None),
        Meant::Called(name) => (None, Some(name)),
    })
}

/// `settime4`: the server's time, or the client's.
fn set_time(values: &mut Decoder<'_>) -> Result<SetTime, Status> {
    match values.u32()? {
        0 => Ok(SetTime::Server),
        1 => time(values).map(SetTime::Client),
        _ => Err(Status::BadXdr),
    }
}

/// The same of one that a program was told is set: the nearest that there is, as nobody could be told that there is none.
pub(in super::super) fn kept_time(values: &mut Decoder<'_>) -> Result<FileTime, Status> {
    Ok(FileTime::new(values.u64()?.cast_signed(), values.u32()?.min(999_999_999)))
}

/// `nfstime4`: from 1677 to 2262, to the nanosecond. What is outside of that is the nearest that there is, as file systems of Linux have it
/// (RFC 8881 §3.3.1).
fn time(values: &mut Decoder<'_>) -> Result<FileTime, Status> {
    let (seconds, nanoseconds) = (values.u64()?.cast_signed(), values.u32()?);
    if nanoseconds < 1_000_000_000 { Ok(FileTime::new(seconds, nanoseconds)) } else { Err(Status::Inval) }
}
