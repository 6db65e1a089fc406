//! How an OPEN is carried out: the file system decides, and asks under the file's lock whose open of it that would be.

use std::cell::Cell;

use smallvec::SmallVec;
use tally_base::Wait;
use tally_vfs::{
    Access, Change, CreateHow, Delegation, Deny, FsError, ObjectRef, OpCtx, Opened, Opening, Outcome, ToOpen,
};

use super::Whose;
use super::asked::{How, Wanted, What};
use super::delegation::{Besides, WishFor};
use super::ledger::Ledger;
use crate::entry::Target;
use crate::v4::attr::Called;
use crate::v4::compound::{Compound, Stop};
use crate::v4::state::Stateid;
use crate::v4::status::Status;
use crate::v4::tracking::Given;

/// How often a name is looked up anew as something else has it by then, before the client is told to come again.
const LOOKS_MAX: u32 = 8;

/// What an OPEN came to.
pub(super) struct Done {
    pub(super) file: Target,
    /// None: what its client was given to keep stands for it.
    pub(super) stateid: Option<Stateid>,
    pub(super) is_new: bool,
    pub(super) dir: Option<Change>,
    pub(super) delegated: Besides,
}

/// Lets the file system decide, which asks under the file's lock whose open of it that would be.
pub(super) fn carry_out(
    compound: &mut Compound<'_>,
    place: &Target,
    asked: &Wanted<'_>,
    whose: Whose,
    (given, wish): (Option<Given>, WishFor),
) -> Result<Done, Stop> {
    let ledger = Ledger::of(compound, place, asked, (whose, wish));
    ledger.given.replace(given);
    let by = |object| ledger.enter(object);
    let opening = Opening { share: asked.share, by: &by, wants: ledger.wants.ok().map(|keeps| keeps.kind) };
    let (opened, dir) = match (&asked.what, &asked.how) {
        (What::Name(name), How::Make(how, _, called)) => made(compound, (place, name), (how, called), &ledger, opening),
        (What::Name(name), How::Find) => found(compound, (place, name), &ledger, opening),
        (What::Kept(stateid, Some(name)), _) => {
            by_name_kept(compound, (place, name), (*stateid, asked), &ledger, opening)
        }
        (What::Kept(stateid, None), _) => {
            check_kept(compound, *stateid, asked, place)?;
            by_handle(compound, place, ToOpen::Again(place.object), &ledger, opening)
        }
        (What::Again(_), _) => claimed(compound, place, &ledger, opening),
        (What::Handle | What::Nothing(_), _) => {
            by_handle(compound, place, ToOpen::Itself(place.object), &ledger, opening)
        }
    }?;
    granted(compound, place, asked, &ledger, (opened, dir))
}

/// What was opened, and the change of the directory in which it has the name that was asked for.
type OpenedIn = (Opened, Option<Change>);

/// The file of a name is made, or is there and is opened or cut, once, however often its client asks.
fn made(
    compound: &mut Compound<'_>,
    (place, name): (&Target, &[u8]),
    (how, called): (&CreateHow, &Called),
    ledger: &Ledger<'_>,
    opening: Opening<'_>,
) -> Result<OpenedIn, Stop> {
    compound.check_marks()?;
    compound.begin(place)?;
    let remembered = compound.remembered(place).and_then(|first| first.object);
    let given = if remembered.is_none() { compound.owners_made(place, how, called)? } else { how.clone() };
    let made = || match remembered {
        // It was made, or cut, behind which nobody was told: whoever asked then might open it, and may have.
        Some(object) => {
            ledger.is_again.set(true);
            place.vfs.open(OpCtx::of(&place.cred), ToOpen::Again(object), opening)
        }
        None => place.vfs.open(compound.ctx(place), ToOpen::Made(place.object, name, &given), opening),
    };
    let outcome = ledger.past_the_late(compound, made);
    let outcome = outcome.inspect_err(|_| compound.has_not_begun())?;
    let told = outcome.error().map(|error| ledger.told(error));
    let (opened, changes) = compound.opened(outcome, told)?;
    Ok((opened, changes.into_iter().next()))
}

/// What has the name.
fn found(
    compound: &mut Compound<'_>,
    (place, name): (&Target, &[u8]),
    ledger: &Ledger<'_>,
    opening: Opening<'_>,
) -> Result<OpenedIn, Stop> {
    let dir = Cell::new(None);
    let find = || {
        let (outcome, found_in) = find(place, name, opening);
        dir.set(found_in);
        outcome
    };
    let found = ledger.past_the_late(compound, find)?;
    Ok((settled(compound, ledger, found)?, dir.take()))
}

/// What has the name, if its client was given that to keep by this stateid.
fn by_name_kept(
    compound: &mut Compound<'_>,
    (place, name): (&Target, &[u8]),
    (stateid, asked): (Stateid, &Wanted<'_>),
    ledger: &Ledger<'_>,
    opening: Opening<'_>,
) -> Result<OpenedIn, Stop> {
    let (found, dir) = look(place, name);
    let object = found.map_err(Status::from)?;
    check_kept(compound, stateid, asked, &Target { object, ..place.clone() })?;
    let open = || place.vfs.open(OpCtx::of(&place.cred), ToOpen::Again(object), opening);
    let opened = ledger.past_the_late(compound, open)?;
    Ok((settled(compound, ledger, opened)?, dir))
}

/// The current handle's file, which its client had open before a restart: nobody who is late goes for that.
fn claimed(
    compound: &mut Compound<'_>,
    place: &Target,
    ledger: &Ledger<'_>,
    opening: Opening<'_>,
) -> Result<OpenedIn, Stop> {
    let outcome = place.vfs.open(OpCtx::of(&place.cred), ToOpen::Again(place.object), opening);
    let told = |stop| match stop {
        Stop::Failed(Status::ShareDenied) => Status::ReclaimConflict.into(),
        stop => stop,
    };
    Ok((settled(compound, ledger, outcome).map_err(told)?, None))
}

/// The current handle's file.
fn by_handle(
    compound: &mut Compound<'_>,
    place: &Target,
    file: ToOpen<'_>,
    ledger: &Ledger<'_>,
    opening: Opening<'_>,
) -> Result<OpenedIn, Stop> {
    let open = || place.vfs.open(OpCtx::of(&place.cred), file, opening);
    let opened = ledger.past_the_late(compound, open)?;
    Ok((settled(compound, ledger, opened)?, None))
}

/// It is open: what its client has of it from now on.
fn granted(
    compound: &mut Compound<'_>,
    place: &Target,
    asked: &Wanted<'_>,
    ledger: &Ledger<'_>,
    (opened, dir): OpenedIn,
) -> Result<Done, Stop> {
    let given = ledger.given.take();
    // What is claimed again is written down.
    let may_write = given.map_or(Ok(true), |given| compound.was_given(place, given))?;
    let file = Target { object: opened.attr.object, ..place.clone() };
    // Where nothing is denied that it would have to be known for, and nothing was open that would be closed.
    let takes_either = asked.wants_either && asked.share.deny == Deny::NONE;
    let stateid = ledger.granted(&file, asked.share)?;
    let is_claimed = matches!(asked.what, What::Again(_));
    let delegated = ledger.delegated(&file, (opened.delegated, opened.attr.change.0), (is_claimed, may_write));
    let covers = |kind| kind == Delegation::Write || !asked.share.access.has(Access::WRITE);
    let is_covered = takes_either && !is_claimed && delegated.as_ref().is_ok_and(|given| covers(given.keeps.kind));
    let is_kept_alone = is_covered && ledger.let_go(&file, &stateid);
    let stateid = (!is_kept_alone).then_some(stateid);
    Ok(Done { stateid, file, is_new: opened.is_new, dir, delegated })
}

/// What was opened; what its client was given to keep has to be durable as its attributes say it (rules V12).
fn settled(compound: &mut Compound<'_>, ledger: &Ledger<'_>, outcome: Outcome<Opened>) -> Result<Opened, Stop> {
    if let Some(FsError::Delegated(object)) = outcome.error() {
        return Err(ledger.kept_out(compound, object));
    }
    let opened = outcome.result.map_err(|error| ledger.told(error))?;
    if opened.delegated.is_some() {
        compound.wait_for(outcome.wait);
    }
    Ok(opened)
}

/// Whether that is a delegation of this file, by which it may have been opened so.
fn check_kept(compound: &Compound<'_>, asked: Stateid, wanted: &Wanted<'_>, file: &Target) -> Result<(), Status> {
    let asked = compound.present(asked)?;
    if !asked.is_of_delegation() {
        return Err(Status::BadStateid);
    }
    let delegated = compound.delegated(asked, file)?;
    let is_too_much = delegated.keeps.kind == Delegation::Read && wanted.share.access.has(Access::WRITE);
    if is_too_much { Err(Status::OpenMode) } else { Ok(()) }
}

/// What has a name, and the directory of that look.
fn look(place: &Target, name: &[u8]) -> (Result<ObjectRef, FsError>, Option<Change>) {
    let (found, dir) = place.vfs.look(&place.cred, place.object, name);
    (found.map(|attr| attr.object), dir.map(|attr| Change { before: Some((&attr).into()), after: Some(attr) }))
}

/// Opens what has the name. That it may be gone by then is seen, and looked for again; that it has another name is not: it is what had the name a moment ago.
fn find(place: &Target, name: &[u8], opening: Opening<'_>) -> (Outcome<Opened>, Option<Change>) {
    for _ in 0..LOOKS_MAX {
        let (found, dir) = look(place, name);
        let object = match found {
            Ok(object) => object,
            Err(error) => return (failed(error), dir),
        };
        let outcome = place.vfs.open(OpCtx::of(&place.cred), ToOpen::Itself(object), opening);
        if outcome.error() != Some(FsError::Stale) {
            return (outcome, dir);
        }
    }
    (failed(FsError::Unavailable), None)
}

fn failed<T>(error: FsError) -> Outcome<T> {
    Outcome { result: Err(error), changes: SmallVec::new(), wait: Wait::Ready }
}
