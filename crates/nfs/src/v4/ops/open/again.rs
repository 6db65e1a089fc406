//! What the OPEN of a dead session is told.

use tally_vfs::CreateHow;

use super::asked::{Asked, How, What};
use super::{LOCKS_AS_POSIX, STAYS_WITHOUT_A_NAME, delegation, place_of};
use crate::entry::Target;
use crate::v4::compound::{Compound, Stop};
use crate::v4::ops::put_change_of_before;
use crate::v4::pseudo::Node;
use crate::v4::state::{Stateid, WhyNone};
use crate::v4::status::Status;
use crate::xdr::Encoder;

/// An OPEN of a dead session that has made its file, or cut it (rules V6): the file is the current one, and its stateid is as dead as all of that life, so that its
/// client claims it again. One that did neither has left no mark.
pub(super) fn again(compound: &mut Compound<'_>, asked: Asked<'_>, out: &mut Encoder) -> Result<Status, Stop> {
    let asked = asked.check(compound.minor())?;
    if !matches!((&asked.what, &asked.how), (What::Name(_), How::Make(..))) {
        return Err(compound.not_done().into());
    }
    let place = place_of(compound, &asked)?;
    compound.begin(&place)?;
    let object = compound.remembered(&place).and_then(|first| first.object).ok_or(Status::ServerFault)?;
    out.raw(&Stateid::OF_THE_DEAD.to_wire());
    put_change_of_before(out, compound, &place);
    out.u32(LOCKS_AS_POSIX | STAYS_WITHOUT_A_NAME);
    // What was there before nobody knows any more, but a file with a verifier, or under a new name, was made.
    let is_new = !matches!(asked.how, How::Make(CreateHow::Unchecked(_), ..));
    asked.attributes_set(is_new).encode(out);
    delegation::put(&Err(WhyNone::Resource), (false, 0), asked.wants, out);
    compound.current = Ok(Node::Object(Target { object, ..place }));
    compound.note_stateid(Stateid::OF_THE_DEAD);
    Ok(Status::Ok)
}
