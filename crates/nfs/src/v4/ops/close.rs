//! CLOSE, OPEN_DOWNGRADE, TEST_STATEID, FREE_STATEID (RFC 8881 §18.2, §18.18, §18.48 and §18.38), OPEN_CONFIRM (RFC 7530 §16.18) (rules V36).

use tally_vfs::FsError;

use super::super::compound::Compound;
use super::super::state::{Brought, ClientId, FileId, OwnerKey, Stateid, Told};
use super::super::status::Status;
use super::open::share;
use super::order::{self, Arrival, Turn};
use super::stateid;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

/// `NFS4ERR_*` of one stateid each, of no more than a compound may bring.
const STATEIDS_MAX: u32 = 1024;

/// The file of the current handle.
fn file<'a>(compound: &'a Compound<'_>) -> Result<&'a Target, Status> {
    compound.current()?.target().ok_or(Status::BadStateid)
}

/// Who asks: a session's client, or in minor version 0 an owner in its order.
enum Asker {
    Client(ClientId),
    Owner(OwnerKey),
}

impl Asker {
    fn client(&self) -> Option<ClientId> {
        match self {
            Self::Client(client) => Some(*client),
            Self::Owner(_) => None,
        }
    }
}

/// Who asks for that, or what he was told before.
fn asker(compound: &mut Compound<'_>, by: &Stateid, asked: Arrival<'_>) -> Result<Result<Asker, Told>, Status> {
    if compound.minor() > 0 {
        return Ok(Ok(Asker::Client(compound.presence()?.client())));
    }
    Ok(match order::take_by(compound, by, asked)? {
        Turn::Of(owner, _) => Ok(Asker::Owner(owner)),
        Turn::Told(told) => Err(told),
    })
}

pub(in super::super) fn close(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Status> {
    let at = words.position();
    let (seqid, asked) = (words.u32()?, stateid(words)?);
    let brought = Arrival { brought: Brought::Other, seqid, arguments: words.since(at) };
    let asker = match asker(compound, &asked, brought)? {
        Ok(asker) => asker,
        Err(told) => return order::tell(compound, &told, out),
    };
    let (vfs, object) = compound.to_give_up()?;
    let asked = compound.present(asked)?;
    let (house, of) = (compound.scene.house, FileId::of(&*vfs, object));
    let changing = house.opens().change(&asked, compound.minor(), asker.client(), Some(&of))?;
    vfs.close(object, changing.found().holder());
    // Below that is nothing locked any more.
    house.locks().closed(changing.found().holder());
    if let Asker::Owner(owner) = asker {
        house.orders().note_closed(&owner, seqid, asked.other);
    }
    let (open, closed) = (changing.found().holder(), changing.closed());
    house.freed_below(compound.scene.exports, &of, open);
    out.raw(&closed.to_wire());
    compound.note_stateid(closed);
    Ok(Status::Ok)
}

pub(in super::super) fn downgrade(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Status> {
    let at = words.position();
    let (asked, seqid) = (stateid(words)?, words.u32()?);
    let (access, deny) = (words.u32()?, words.u32()?);
    let brought = Arrival { brought: Brought::Other, seqid, arguments: words.since(at) };
    let asker = match asker(compound, &asked, brought)? {
        Ok(asker) => asker,
        Err(told) => return order::tell(compound, &told, out),
    };
    let share = share(access, deny)?;
    let target = file(compound)?;
    let asked = compound.present(asked)?;
    let of = FileId::of(&*target.vfs, target.object);
    let changing = compound.scene.house.opens().change(&asked, compound.minor(), asker.client(), Some(&of))?;
    target.vfs.downgrade(target.object, changing.found().holder(), share).map_err(|error| match error {
        FsError::NotOpened => Status::BadStateid,
        error => error.into(),
    })?;
    let downgraded = changing.downgraded(share);
    out.raw(&downgraded.to_wire());
    compound.note_stateid(downgraded);
    Ok(Status::Ok)
}

/// OPEN_CONFIRM (RFC 7530 §16.18): of minor version 0 alone.
pub(in super::super) fn confirm(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Status> {
    let at = words.position();
    let (asked, seqid) = (stateid(words)?, words.u32()?);
    let brought = Arrival { brought: Brought::Confirm, seqid, arguments: words.since(at) };
    let owner = match order::take_by(compound, &asked, brought)? {
        Turn::Of(owner, _) => owner,
        Turn::Told(told) => return order::tell(compound, &told, out),
    };
    let (house, target) = (compound.scene.house, file(compound)?);
    let confirmed = house.opens().confirm(&asked, &FileId::of(&*target.vfs, target.object))?;
    house.orders().confirm(&owner);
    out.raw(&confirmed.to_wire());
    Ok(Status::Ok)
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
        out.u32(house.test_stateid(&asked, client) as u32);
    }
    Ok(())
}

pub(in super::super) fn free(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let asked = stateid(words)?;
    let (client, house) = (compound.presence()?.client(), compound.scene.house);
    let asked = compound.present(asked)?;
    house.end_if_over(compound.scene.exports, &asked, client);
    house.free_stateid(compound.scene.exports, &asked, client)
}
