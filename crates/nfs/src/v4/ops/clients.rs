//! SETCLIENTID, SETCLIENTID_CONFIRM, RENEW: who a client of minor version 0 is.

use tally_base::SystemRng;

use super::super::compound::Compound;
use super::super::state::{ClientId, Introduced, Introduction, Unknown};
use super::super::status::Status;
use crate::xdr::{Decoder, Encoder};

/// Longest name of a client (RFC 7530, `NFS4_OPAQUE_LIMIT`).
pub(super) const NAME_BYTES_MAX: usize = 1024;
/// Longest word of where callbacks go: what is longer is no address.
const ADDRESS_BYTES_MAX: usize = 128;

/// Clients of minor version 0 are given no delegations and not called: where to is read and passed over. Who comes with another's name is told so.
pub(in super::super) fn introduce(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Status> {
    let (verifier, name) = (words.array()?, words.opaque(NAME_BYTES_MAX)?.to_owned());
    let (_program, _netid, _address) =
        (words.u32()?, words.opaque(ADDRESS_BYTES_MAX)?, words.opaque(ADDRESS_BYTES_MAX)?);
    let _ident = words.u32()?;
    let (introduction, now) = (Introduction { name, verifier, sender: compound.sender() }, compound.scene.house.now());
    let house = compound.scene.house;
    match house.clients().introduce(introduction, &|id| house.holds(id), &SystemRng, now) {
        Ok(Introduced { id, confirmation }) => {
            out.u64(id.0).raw(&confirmation);
            Ok(Status::Ok)
        }
        // Where the other one is he need not know.
        Err(Unknown::InUse) => {
            out.opaque(b"").opaque(b"");
            Ok(Status::ClidInUse)
        }
        Err(unknown) => Err(unknown.into()),
    }
}

pub(in super::super) fn confirm(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let said = Introduced { id: ClientId(words.u64()?), confirmation: words.array()? };
    let house = compound.scene.house;
    let sender = compound.sender();
    // What a client held that started anew is closed behind this.
    house.clients().confirm(said, &sender, &|id| house.holds(id), house.now())?;
    Ok(())
}

pub(in super::super) fn renew(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    Ok(compound.word_of(ClientId(words.u64()?)).map(drop)?)
}

impl From<Unknown> for Status {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::InUse => Self::ClidInUse,
            Unknown::Stale => Self::StaleClientId,
            Unknown::Gone => Self::Expired,
            Unknown::TooMany => Self::Delay,
        }
    }
}
