//! DELEGRETURN (RFC 8881 §18.6). DELEGPURGE has nothing to do, as nobody has what he had before a restart without having claimed it: NOTSUPP (§18.5).

use super::super::compound::Compound;
use super::super::status::Status;
use super::stateid;
use crate::xdr::Decoder;

/// Also of what its client may not see any more (rules V36).
pub(in super::super) fn give_back(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let asked = stateid(words)?;
    let client = compound.client().ok_or(Status::OpNotInSession)?;
    let (vfs, object) = compound.to_give_up()?;
    let asked = compound.present(asked)?;
    if !asked.is_of_delegation() {
        return Err(Status::BadStateid);
    }
    compound.scene.house.return_delegation(&*vfs, &asked, client, object)
}
