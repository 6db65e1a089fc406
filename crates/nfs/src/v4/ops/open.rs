//! OPEN (RFC 8881 §18.16, RFC 7530 §16.16): a file by its name, or by its handle, is found or made, and somebody has it open from then on.
//!
//! The order: what can be wrong with the request; the bounds of what is kept of it; the file system, which decides (rules V29); then the stateid, that
//! stands for what it has decided, and another one if the client is given the file to keep. What was open before a restart is claimed again by its handle, without a look at its mode (rules V26).
//!
//! Here is what becomes of each OPEN; [`asked`] says what it asks for, [`carrying`] lets the file system decide, for which [`ledger`] keeps what it has entered,
//! [`again`] answers those of dead sessions and [`delegation`] says whether one is given besides, and what is told of it.

use tally_vfs::{Access, Delegation};

use self::asked::{Asked, How, Wanted, What};
use self::carrying::{Done, carry_out};
use super::super::compound::{Compound, Stop};
use super::super::pseudo::Node;
use super::super::state::{Brought, ClientId, OwnerKey, SessionId, Stateid};
use super::super::status::Status;
use super::names::check_name;
use super::order::{self, Turn};
use super::put_change;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

pub(super) use self::asked::share;

mod again;
mod asked;
mod carrying;
mod delegation;
mod ledger;

/// `OPEN4_RESULT_LOCKTYPE_POSIX`.
const LOCKS_AS_POSIX: u32 = 4;
/// `OPEN4_RESULT_PRESERVE_UNLINKED`, which minor version 0 does not know: what is open outlives its last name (rules V28), so that a client need not give
/// it another one.
const STAYS_WITHOUT_A_NAME: u32 = 8;
/// `OPEN4_RESULT_NO_OPEN_STATEID` (RFC 9754 §4): there is a delegation in its place.
const KEPT_ALONE: u32 = 0x10;
/// `OPEN4_RESULT_MAY_NOTIFY_LOCK`: who waits for a lock may be told when it is free.
const LOCKS_ARE_TOLD: u32 = 0x20;
/// `OPEN4_RESULT_CONFIRM`.
const TO_BE_CONFIRMED: u32 = 2;

pub(in super::super) fn open(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let at = words.position();
    let asked = Asked::decode(words, compound.dialect())?;
    if compound.is_again() {
        return again::again(compound, asked, out);
    }
    let mut whose = match compound.minor() {
        0 => match turn(compound, &asked, words.since(at))? {
            Turn::Of(owner, is_confirmed) => {
                Whose { client: owner.client, session: None, owner: Some(owner), is_confirmed }
            }
            Turn::Told(told) => return Ok(order::tell(compound, &told, out)?),
        },
        _ => of_session(compound)?,
    };
    let asked = asked.check(compound.minor())?;
    asked.check_session(compound)?;
    let is_claimed = matches!(asked.what, What::Again(_));
    if !is_claimed {
        compound.check_completed()?;
    }
    let place = place_of(compound, &asked)?;
    if is_claimed {
        compound.reclaim(&place)?;
        // Nobody has to confirm that (RFC 7530 §9.1.11).
        whose.is_confirmed = true;
    }
    let mut wish = asked.delegation(compound, &place);
    let given = if is_claimed { None } else { Some(compound.may_be_given(&place, wish.is_to_write())?) };
    if given.as_ref().is_some_and(|given| !given.may_write()) {
        wish.is_not_to_write();
    }
    let Done { file, stateid, is_new, dir, delegated } = carry_out(compound, &place, &asked, whose, (given, wish))?;
    if let (true, Some(owner)) = (is_claimed, whose.owner) {
        compound.scene.house.orders().confirm(&owner);
    }
    // The anonymous one stands for none.
    out.raw(&stateid.map_or([0; Stateid::BYTES], |stateid| stateid.to_wire()));
    put_change(out, dir.as_ref());
    let to_be_confirmed = if whose.is_confirmed { 0 } else { TO_BE_CONFIRMED };
    let stays = if compound.minor() == 0 { 0 } else { STAYS_WITHOUT_A_NAME };
    // Who can be called: Linux asks less often then for what it waits for. Of a file that he has to write he keeps the locks himself, and
    // nobody here could tell him of one: Linux would wait half a minute for that word while its own processes pass the lock on.
    let keeps_locks = delegated.as_ref().is_ok_and(|delegated| delegated.keeps.kind == Delegation::Write);
    let is_told = !keeps_locks && compound.guard().is_some_and(|guard| guard.session().presence().is_reachable());
    let told = if is_told { LOCKS_ARE_TOLD } else { 0 };
    let alone = if stateid.is_some() { 0 } else { KEPT_ALONE };
    out.u32(LOCKS_AS_POSIX | to_be_confirmed | stays | alone | told);
    asked.attributes_set(is_new).encode(out);
    delegation::put(&delegated, (is_claimed, wish.space), asked.wants, out);
    compound.current = Ok(Node::Object(file));
    if let Some(stateid) = stateid.or(delegated.ok().map(|delegated| delegated.stateid)) {
        compound.note_stateid(stateid);
    }
    Ok(Status::Ok)
}

/// Whose an open becomes.
#[derive(Clone, Copy)]
struct Whose {
    client: ClientId,
    session: Option<SessionId>,
    owner: Option<OwnerKey>,
    /// Of an owner who is not what it opens is provisional.
    is_confirmed: bool,
}

/// Whose turn it is, in minor version 0.
fn turn(compound: &mut Compound<'_>, asked: &Asked<'_>, arguments: &[u8]) -> Result<Turn, Status> {
    compound.current()?;
    compound.hear(asked.client)?;
    let owner = OwnerKey { client: asked.client, name: compound.scene.house.opens().name(asked.owner) };
    order::take(compound, owner, order::Arrival { brought: Brought::Open, seqid: asked.seqid, arguments })
}

fn of_session(compound: &Compound<'_>) -> Result<Whose, Status> {
    let session = compound.guard().ok_or(Status::OpNotInSession)?.session();
    Ok(Whose { client: session.presence().client(), session: Some(session.id()), owner: None, is_confirmed: true })
}

/// The directory, or the file itself.
fn place_of(compound: &Compound<'_>, asked: &Wanted<'_>) -> Result<Target, Stop> {
    let node = compound.current()?;
    let name = match (&asked.what, &asked.how) {
        (What::Name(name), _) => {
            check_name(name)?;
            Some(*name)
        }
        (What::Kept(_, Some(name)), How::Find) => {
            check_name(name)?;
            Some(*name)
        }
        (_, How::Find) => None,
        // A file that has a handle is there.
        (_, How::Make(..)) => return Err(Status::Inval.into()),
    };
    let changes = matches!(asked.how, How::Make(..)) || asked.share.access.has(Access::WRITE);
    let Some(target) = node.target() else {
        // Above the exports there are directories alone.
        let told = match name {
            Some(_) if changes => Status::RoFs,
            Some(name) => compound.tree().below(node, name).err().unwrap_or(Status::IsDir),
            None => Status::IsDir,
        };
        return Err(told.into());
    };
    if changes && target.rule.read_only {
        return Err(Status::RoFs.into());
    }
    // What a dataset is mounted on is a directory.
    if name.is_some_and(|name| target.child(name).is_some()) {
        return Err(Status::IsDir.into());
    }
    Ok(target.clone())
}
