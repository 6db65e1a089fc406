//! GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276 §8.4).
//!
//! A client names an attribute without its name space, which is that of users (RFC 8276 §5): its prefix is put before the name here, and taken from what is told.
//! Other name spaces are nobody's to see or to set.

use smallvec::SmallVec;
use tally_vfs::permission::{self, READ, WRITE};
use tally_vfs::{Attr, FileKind, Outcome, Right, SetXattr, USER_PREFIX, XATTR_NAME_MAX, XattrName};

use super::super::compound::{Compound, Stop};
use super::super::status::Status;
use super::{put_change, put_change_of_before};
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

/// Longest listing in one reply, bytes: all names that an object can have, with their lengths.
const LISTING_BYTES_MAX: u32 = 64 << 10;
/// A listing without names: cookie, count, and whether it is the last one.
const FRAME_BYTES: usize = 8 + 4 + 4;

/// Bits of ACCESS (RFC 8276 §8.5): to read values, to set and remove them, to list their names.
const ACCESS_XAREAD: u32 = 0x40;
const ACCESS_XAWRITE: u32 = 0x80;
const ACCESS_XALIST: u32 = 0x100;

/// Those that mean something for a kind of object.
pub(super) fn meaningful_access(kind: FileKind) -> u32 {
    if permission::has_xattrs(kind) { ACCESS_XAREAD | ACCESS_XAWRITE | ACCESS_XALIST } else { 0 }
}

/// Those that the caller has.
pub(super) fn access(target: &Target, attr: &Attr) -> u32 {
    let is_read_only = target.rule.read_only || target.vfs.is_read_only();
    let may = |wanted, bits| if permission::may_xattr(attr, &target.cred, wanted).is_ok() { bits } else { 0 };
    let writes = if is_read_only { 0 } else { may(WRITE, ACCESS_XAWRITE) };
    may(READ, ACCESS_XAREAD | ACCESS_XALIST) | writes
}

/// A name as it is kept. Most are short.
type Name = SmallVec<[u8; 64]>;

/// `xattrkey4`, as it is kept.
fn name(words: &mut Decoder<'_>) -> Result<Result<Name, Status>, Status> {
    let told = words.opaque(usize::MAX)?;
    if told.is_empty() || told.contains(&0) {
        return Ok(Err(Status::Inval));
    }
    if told.len() > XATTR_NAME_MAX - USER_PREFIX.len() {
        return Ok(Err(Status::NameTooLong));
    }
    Ok(Ok(USER_PREFIX.iter().chain(told).copied().collect()))
}

/// The object of the current handle. What stands above the exports has no attributes of anybody.
fn target<'a>(compound: &'a Compound<'_>) -> Result<Option<&'a Target>, Status> {
    Ok(compound.current()?.target())
}

pub(in super::super) fn get(compound: &Compound<'_>, words: &mut Decoder<'_>, out: &mut Encoder) -> Result<(), Status> {
    let name = name(words)?;
    let target = target(compound)?.ok_or(Status::NoXattr)?;
    let value = target.vfs.xattr(&target.cred, target.object, &name?)?;
    out.opaque_shared([value]);
    Ok(())
}

pub(in super::super) fn list(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let (cookie, count) = (words.u64()?, words.u32()?);
    let names = match target(compound)? {
        Some(target) => target.vfs.list_xattrs(&target.cred, target.object, cookie)?,
        None => Vec::new(),
    };
    let left = compound.room(out);
    let room = count.min(LISTING_BYTES_MAX).min(left) as usize;
    let too_small = || if left < count { compound.too_big() } else { Status::TooSmall };
    if room < FRAME_BYTES {
        return Err(too_small());
    }
    let users = names.iter().filter_map(|name| Some((name, name.name.strip_prefix(USER_PREFIX)?)));
    let (mut told, mut bytes, mut next) = (Vec::new(), FRAME_BYTES, None);
    for (XattrName { cookie, .. }, name) in users {
        bytes += 4 + name.len().next_multiple_of(4);
        if bytes > room {
            next = Some(*cookie);
            break;
        }
        told.push(name);
    }
    if told.is_empty() && next.is_some() {
        return Err(too_small());
    }
    // Where the next one is to begin, and behind the last one nothing.
    out.u64(next.unwrap_or(u64::MAX)).u32(told.len() as u32);
    told.into_iter().for_each(|name| _ = out.opaque(name));
    out.bool(next.is_none());
    Ok(())
}

pub(in super::super) fn set(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let how = match words.u32()? {
        0 => SetXattr::Either,
        1 => SetXattr::Create,
        2 => SetXattr::Replace,
        _ => return Err(Status::BadXdr.into()),
    };
    let (name, value) = (name(words)?, words.opaque(usize::MAX)?);
    change(compound, name, out, |compound, target, name| {
        target.vfs.set_xattr(compound.ctx(target), target.object, name, value, how)
    })
}

pub(in super::super) fn remove(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let name = name(words)?;
    change(compound, name, out, |compound, target, name| {
        target.vfs.remove_xattr(compound.ctx(target), target.object, name)
    })
}

/// What both have in common: they tell how the object's change attribute went on (rules V10), and are carried out once.
fn change(
    compound: &mut Compound<'_>,
    name: Result<Name, Status>,
    out: &mut Encoder,
    change: impl FnOnce(&Compound<'_>, &Target, &[u8]) -> Outcome<()>,
) -> Result<Status, Stop> {
    let target = compound.to_change(compound.current())?;
    let name = name?;
    compound.begin(&target)?;
    if compound.remembered(&target).is_some() {
        put_change_of_before(out, compound, &target);
        return Ok(Status::Ok);
    }
    compound.past_claims(&target, Right::Unopened)?;
    let outcome = change(compound, &target, &name);
    let ((), changes) = compound.changed(outcome)?;
    put_change(out, changes.first());
    Ok(Status::Ok)
}
