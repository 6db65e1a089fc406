//! Attributes that a client sets (RFC 7530 §5.5 and §16.32).

use bytes::Bytes;
use tally_base::Time;
use tally_vfs::{SetAttr, SetTime};

use super::super::status::Status;
use super::set::{AttrSet, READABLE, SIZE, TIME_ACCESS_SET, TIME_MODIFY_SET, WRITE_ONLY};
use crate::xdr::Decoder;

/// Longest values of attributes that a client may send.
pub(in super::super) const VALUES_BYTES_MAX: usize = 64 << 10;

const MODE: u32 = 33;
const OWNER: u32 = 36;
const OWNER_GROUP: u32 = 37;

/// All that can be set, in the order in which values come.
const SETTABLE: [u32; 6] = [SIZE, MODE, OWNER, OWNER_GROUP, TIME_ACCESS_SET, TIME_MODIFY_SET];

/// A `fattr4` that is to be set: which attributes it has, and what to do.
pub(in super::super) fn settable(words: &mut Decoder<'_>) -> Result<(AttrSet, SetAttr), Status> {
    let set = AttrSet::decode(words)?;
    let values = Bytes::copy_from_slice(words.opaque(VALUES_BYTES_MAX)?);
    if set.exceeds(&AttrSet::of(&READABLE).or(&AttrSet::of(&WRITE_ONLY))) {
        return Err(Status::AttrNotSupp);
    }
    // There, and only to be read.
    if set.exceeds(&AttrSet::of(&SETTABLE)) {
        return Err(Status::Inval);
    }
    let mut values = Decoder::new(&values, 0);
    let mut wanted = SetAttr::default();
    for number in SETTABLE.into_iter().filter(|number| set.has(*number)) {
        match number {
            SIZE => wanted.size = Some(values.u64()?),
            MODE => wanted.mode = Some(values.u32()?),
            OWNER => wanted.uid = Some(owner(&mut values)?),
            OWNER_GROUP => wanted.gid = Some(owner(&mut values)?),
            TIME_ACCESS_SET => wanted.atime = Some(set_time(&mut values)?),
            _ => wanted.mtime = Some(set_time(&mut values)?),
        }
    }
    if values.is_at_end() { Ok((set, wanted)) } else { Err(Status::BadXdr) }
}

/// A number, as a string (RFC 7530 §5.9). A name is of nobody here, and what is given to nobody is given away (rules V38).
fn owner(values: &mut Decoder<'_>) -> Result<u32, Status> {
    let name = std::str::from_utf8(values.opaque(VALUES_BYTES_MAX)?).map_err(|_| Status::BadOwner)?;
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let id = is_number.then(|| name.parse().ok()).flatten();
    // The highest one stands for none.
    id.filter(|id| *id != u32::MAX).ok_or(Status::BadOwner)
}

/// `settime4`: the server's time, or the client's.
fn set_time(values: &mut Decoder<'_>) -> Result<SetTime, Status> {
    match values.u32()? {
        0 => Ok(SetTime::Server),
        1 => {
            let (seconds, nanoseconds) = (values.u64()?.cast_signed(), values.u32()?);
            // From 1970 to 2554, to the nanosecond.
            let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds < u64::MAX / 1_000_000_000);
            match seconds {
                Some(seconds) if nanoseconds < 1_000_000_000 => Ok(SetTime::Client(Time::new(seconds, nanoseconds))),
                _ => Err(Status::Inval),
            }
        }
        _ => Err(Status::BadXdr),
    }
}
