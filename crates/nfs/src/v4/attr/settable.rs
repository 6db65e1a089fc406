//! Attributes that a client sets (RFC 7530 §5.5 and §16.32, RFC 8275 §4).

use bytes::Bytes;
use tally_base::Time;
use tally_vfs::{SetAttr, SetTime};

use super::super::status::Status;
use super::set::{
    AttrSet, MODE_UMASK, READABLE, SIZE, TIME_ACCESS_SET, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY, TIME_MODIFY_SET,
    WRITE_ONLY,
};
use crate::xdr::Decoder;

/// Longest values of attributes that a client may send.
pub(in super::super) const VALUES_BYTES_MAX: usize = 64 << 10;

const MODE: u32 = 33;
const OWNER: u32 = 36;
const OWNER_GROUP: u32 = 37;

/// All that what is made may have, in the order in which values come; with EXCLUSIVE4_1 as well, as its verifier has a place of its own.
pub(super) const SETTABLE: [u32; 7] = [SIZE, MODE, OWNER, OWNER_GROUP, TIME_ACCESS_SET, TIME_MODIFY_SET, MODE_UMASK];
/// Of what is there besides, by who has it for writing.
const KEPT: [u32; 2] = [TIME_DELEG_ACCESS, TIME_DELEG_MODIFY];
/// Bits of a mode that a mask may take away.
const UMASK: u32 = 0o777;

/// A `fattr4` that an object is to have which is made: which attributes it has, and what to do.
pub(in super::super) fn given(words: &mut Decoder<'_>, minor: u32) -> Result<(AttrSet, SetAttr), Status> {
    decode(words, minor, |set| if set.meets(&AttrSet::of(&KEPT)) { Err(Status::Inval) } else { Ok(()) })
}

/// The same for EXCLUSIVE4_1: what cannot be set with that is INVAL, whether it is there or not (RFC 8881 §18.16.3).
pub(in super::super) fn given_exclusively(words: &mut Decoder<'_>, minor: u32) -> Result<(AttrSet, SetAttr), Status> {
    given(words, minor).map_err(|status| if status == Status::AttrNotSupp { Status::Inval } else { status })
}

/// The same of an object that is there.
pub(in super::super) fn settable(words: &mut Decoder<'_>, minor: u32) -> Result<(AttrSet, SetAttr), Status> {
    // A mask is of who makes something (RFC 8275 §4).
    decode(words, minor, |set| if set.has(MODE_UMASK) { Err(Status::Inval) } else { Ok(()) })
}

fn decode(
    words: &mut Decoder<'_>,
    minor: u32,
    check: impl FnOnce(&AttrSet) -> Result<(), Status>,
) -> Result<(AttrSet, SetAttr), Status> {
    let set = AttrSet::decode(words, minor)?;
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
    let mut wanted = SetAttr::default();
    for number in SETTABLE.into_iter().chain(KEPT).filter(|number| set.has(*number)) {
        match number {
            SIZE => wanted.size = Some(values.u64()?),
            MODE => wanted.mode = Some(values.u32()?),
            OWNER => wanted.uid = Some(owner(&mut values)?),
            OWNER_GROUP => wanted.gid = Some(owner(&mut values)?),
            TIME_ACCESS_SET => wanted.atime = Some(set_time(&mut values)?),
            TIME_MODIFY_SET => wanted.mtime = Some(set_time(&mut values)?),
            // One alone of a time and of what a client has set already.
            TIME_DELEG_ACCESS if wanted.atime.is_none() => wanted.atime = Some(SetTime::Kept(kept_time(&mut values)?)),
            TIME_DELEG_MODIFY if wanted.mtime.is_none() => wanted.mtime = Some(SetTime::Kept(kept_time(&mut values)?)),
            MODE_UMASK => wanted.mode = Some(masked_mode(&mut values)?),
            _ => return Err(Status::Inval),
        }
    }
    if values.is_at_end() { Ok((set, wanted)) } else { Err(Status::BadXdr) }
}

/// `mode_umask4`: nothing is inherited here that would stand for the mask (RFC 8275 §4).
fn masked_mode(values: &mut Decoder<'_>) -> Result<u32, Status> {
    let (mode, umask) = (values.u32()?, values.u32()?);
    if umask & !UMASK == 0 { Ok(mode & !umask) } else { Err(Status::Inval) }
}

/// A number, as a string (RFC 7530 §5.9). A name is of nobody here, and what is given to nobody is given away (rules V38).
fn owner(values: &mut Decoder<'_>) -> Result<u32, Status> {
    let name = values.opaque(VALUES_BYTES_MAX)?;
    if name.is_empty() {
        return Err(Status::Inval);
    }
    let name = std::str::from_utf8(name).map_err(|_| Status::BadOwner)?;
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let id = is_number.then(|| name.parse().ok()).flatten();
    // The highest one stands for none.
    id.filter(|id| *id != u32::MAX).ok_or(Status::BadOwner)
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
pub(in super::super) fn kept_time(values: &mut Decoder<'_>) -> Result<Time, Status> {
    let (seconds, nanoseconds) = (values.u64()?.cast_signed(), values.u32()?.min(999_999_999));
    let Ok(seconds) = u64::try_from(seconds) else { return Ok(Time(0)) };
    Ok(if seconds < u64::MAX / 1_000_000_000 { Time::new(seconds, nanoseconds) } else { Time(u64::MAX) })
}

/// `nfstime4`: from 1970 to 2554, to the nanosecond.
fn time(values: &mut Decoder<'_>) -> Result<Time, Status> {
    let (seconds, nanoseconds) = (values.u64()?.cast_signed(), values.u32()?);
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds < u64::MAX / 1_000_000_000);
    match seconds {
        Some(seconds) if nanoseconds < 1_000_000_000 => Ok(Time::new(seconds, nanoseconds)),
        _ => Err(Status::Inval),
    }
}
