//! READ (RFC 7530 §16.23).

use tally_vfs::FileKind;

use super::super::compound::Compound;
use super::super::status::Status;
use crate::v3::READ_BYTES_MAX;
use crate::xdr::{Decoder, Encoder};

/// A stateid: a sequence number, and who it belongs to.
const STATEID_BYTES: usize = 16;

pub(in super::super) fn read(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let stateid: [u8; STATEID_BYTES] = words.array()?;
    let (offset, count) = (words.u64()?, words.u32()?);
    let node = compound.current()?;
    // Nobody has opened anything: only those that stand for no state are known (RFC 7530 §9.1.4.3).
    if stateid != [0; STATEID_BYTES] && stateid != [0xff; STATEID_BYTES] {
        return Err(Status::BadStateid);
    }
    let target = node.target().ok_or(Status::IsDir)?;
    match target.vfs.getattr(target.object)?.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(Status::IsDir),
        _ => return Err(Status::Inval),
    }
    // Of several in one compound a later one gets what is left; one for which nothing is left may come by itself.
    let room = Compound::room(out).min(READ_BYTES_MAX);
    if room == 0 && count > 0 {
        return Err(Status::Resource);
    }
    let found = target.vfs.read(&target.cred, target.object, offset, count.min(room))?;
    out.bool(found.eof).opaque_shared(found.data);
    Ok(())
}
