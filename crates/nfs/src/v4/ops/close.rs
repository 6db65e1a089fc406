//! CLOSE, OPEN_DOWNGRADE, TEST_STATEID, FREE_STATEID (RFC 8881 §18.2, §18.18, §18.48 and §18.38).

use tally_vfs::FsError;

use super::super::compound::Compound;
use super::super::state::FileId;
use super::super::status::Status;
use super::open::share;
use super::stateid;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

/// `NFS4ERR_*` of one stateid each, of no more than a compound may bring.
const STATEIDS_MAX: u32 = 1024;

/// The file of the current handle.
fn file<'a>(compound: &'a Compound<'_>) -> Result<&'a Target, Status> {
    compound.current()?.target().ok_or(Status::BadStateid)
}

pub(in super::super) fn close(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let (_seqid, asked) = (words.u32()?, stateid(words)?);
    let client = compound.presence()?.client();
    let (vfs, object) = compound.to_give_up()?;
    let asked = compound.present(asked)?;
    let of = FileId::of(&*vfs, object);
    let changing = compound.scene.house.opens().change(&asked, compound.minor(), Some(client), Some(&of))?;
    vfs.close(object, changing.found().holder());
    let closed = changing.closed();
    out.raw(&closed.to_wire());
    compound.note_stateid(closed);
    Ok(())
}

pub(in super::super) fn downgrade(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let (asked, _seqid) = (stateid(words)?, words.u32()?);
    let share = share(words.u32()?, words.u32()?)?;
    let client = compound.presence()?.client();
    let target = file(compound)?;
    let asked = compound.present(asked)?;
    let of = FileId::of(&*target.vfs, target.object);
    let changing = compound.scene.house.opens().change(&asked, compound.minor(), Some(client), Some(&of))?;
    target.vfs.downgrade(target.object, changing.found().holder(), share).map_err(|error| match error {
        FsError::NotOpened => Status::BadStateid,
        error => error.into(),
    })?;
    let downgraded = changing.downgraded(share.access.bits(), share.deny.bits());
    out.raw(&downgraded.to_wire());
    compound.note_stateid(downgraded);
    Ok(())
}

pub(in super::super) fn test(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let count = words.u32()?;
    if count > STATEIDS_MAX {
        return Err(Status::BadXdr);
    }
    let client = compound.presence()?.client();
    out.u32(count);
    for _ in 0..count {
        let (asked, house) = (stateid(words)?, compound.scene.house);
        house.end_if_over(compound.scene.exports, &asked, client);
        out.u32(house.opens().test(&asked, client) as u32);
    }
    Ok(())
}

pub(in super::super) fn free(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let asked = stateid(words)?;
    let (client, house) = (compound.presence()?.client(), compound.scene.house);
    let asked = compound.present(asked)?;
    house.end_if_over(compound.scene.exports, &asked, client);
    house.opens().free(&asked, client)
}
