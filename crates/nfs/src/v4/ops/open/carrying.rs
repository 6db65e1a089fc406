//! How an OPEN is carried out: the file system decides, and asks under the file's lock whose open of it that would be.

use tally_vfs::{Change, FsError, OpCtx, Opened, Opening, ToOpen};

use super::Whose;
use super::asked::{How, Wanted, What};
use super::ledger::Ledger;
use crate::entry::Target;
use crate::v4::compound::{Compound, Stop};
use crate::v4::state::Stateid;
use crate::v4::status::Status;
use crate::v4::tracking::Given;

/// How often a name is looked up anew as something else has it by then, before the client is told to come again.
const LOOKS_MAX: u32 = 8;

/// What an OPEN came to.
pub(super) struct Done {
    pub(super) file: Target,
    pub(super) stateid: Stateid,
    pub(super) is_new: bool,
    pub(super) dir: Option<Change>,
}

/// Lets the file system decide, which asks under the file's lock whose open of it that would be.
pub(super) fn carry_out(
    compound: &mut Compound<'_>,
    place: &Target,
    asked: &Wanted<'_>,
    whose: Whose,
    given: Option<Given>,
) -> Result<Done, Stop> {
    let ledger = Ledger::of(compound, place, asked, whose);
    ledger.given.replace(given);
    let by = |object| ledger.enter(object);
    let opening = Opening { share: asked.share, by: &by, wants: None };
    let (opened, dir) = match (&asked.what, &asked.how) {
        (What::Name(name), How::Make(how, _)) => {
            compound.check_marks()?;
            compound.begin(place)?;
            let remembered = compound.remembered(place).and_then(|first| first.object);
            let made = || match remembered {
                // It was made, or cut, behind which nobody was told: whoever asked then might open it, and may have.
                Some(object) => {
                    ledger.is_again.set(true);
                    place.vfs.open(OpCtx::of(&place.cred), ToOpen::Again(object), opening)
                }
                None => place.vfs.open(compound.ctx(place), ToOpen::Made(place.object, name, how), opening),
            };
            let outcome = ledger.past_the_late(compound, made);
            let outcome = outcome.inspect_err(|_| compound.has_not_begun())?;
            let told = outcome.error().map(|error| ledger.told(error));
            let (opened, changes) = compound.opened(outcome, told)?;
            (opened, changes.into_iter().next())
        }
        (What::Name(name), How::Find) => {
            let find = || find(place, name, opening);
            let found = ledger.past_the_late(compound, find)?;
            found.map_err(|error| ledger.told(error))?
        }
        (What::Again, _) => {
            let outcome = place.vfs.open(OpCtx::of(&place.cred), ToOpen::Again(place.object), opening);
            let told = |error| match ledger.told(error) {
                Status::ShareDenied => Status::ReclaimConflict,
                status => status,
            };
            (outcome.result.map_err(told)?, None)
        }
        _ => {
            let open = || place.vfs.open(OpCtx::of(&place.cred), ToOpen::Itself(place.object), opening).result;
            let opened = ledger.past_the_late(compound, open)?;
            (opened.map_err(|error| ledger.told(error))?, None)
        }
    };
    if let Some(given) = ledger.given.take() {
        compound.was_given(place, given)?;
    }
    let file = Target { object: opened.attr.object, ..place.clone() };
    Ok(Done { stateid: ledger.granted(&file, asked.share)?, file, is_new: opened.is_new, dir })
}

/// Opens what has the name. That it may be gone by then is seen, and looked for again; that it has another name is not: it is what had the name a moment ago.
fn find(place: &Target, name: &[u8], opening: Opening<'_>) -> Result<(Opened, Option<Change>), FsError> {
    for _ in 0..LOOKS_MAX {
        let (found, dir) = place.vfs.look(&place.cred, place.object, name);
        let dir = dir.map(|attr| Change { before: Some((&attr).into()), after: Some(attr) });
        let outcome = place.vfs.open(OpCtx::of(&place.cred), ToOpen::Itself(found?.object), opening);
        match outcome.result {
            Err(FsError::Stale) => {}
            result => return result.map(|opened| (opened, dir)),
        }
    }
    Err(FsError::Unavailable)
}
