//! LOCK, LOCKT, LOCKU (RFC 8881 §18.10 to §18.12, RFC 7530 §16.10 to §16.12): ranges of bytes of a file, which an owner locks below an open of it. RELEASE_LOCKOWNER
//! (RFC 7530 §16.37): it will lock nothing more.
//!
//! In minor version 0 they come in the order of their owner, and the LOCK by which one begins below an open in that of the open's owner as well (table D1 of
//! [`super::super::state`]): both go on, whatever comes of it, and it is the open's owner by whom it is told again. RFC 7530 §16.10.5 has such a LOCK refused (BAD_SEQID) where the
//! owner has a stateid there already; here it is carried out if it is in the order of both, as its first answer may be one that nobody has given.
//!
//! The order: what can be wrong with the request, and with the file; the stateid; the bounds of what is kept of it; the file system, which decides. Whoever
//! finds something in his way is told what, and whose it is. Who would wait (READW, WRITEW) has a place then, if his client can be called, and is told when it is free (`v4/waiting.rs`).

use std::sync::Arc;

use bytes::Bytes;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{FsError, Holder};

use super::super::compound::{Compound, Stop};
use super::super::state::bounds::OWNER_BYTES_MAX;
use super::super::state::{Brought, ClientId, FileId, LockOwner, LockWait, Locked, Locking, OwnerKey, Stateid, Told};
use super::super::status::Status;
use super::super::way;
use super::data::check_file;
use super::order::{self, Turn};
use super::stateid;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

/// `locker4`. Seqids are of minor version 0.
enum Locker<'a> {
    Below(NewOwner<'a>),
    /// `exist_lock_owner4`.
    Again(Stateid, u32),
}

/// `open_to_lock_owner4`.
struct NewOwner<'a> {
    open: Stateid,
    open_seqid: u32,
    seqid: u32,
    /// Who it is in minor version 0; else his session says.
    client: ClientId,
    name: &'a [u8],
}

impl<'a> Locker<'a> {
    fn decode(words: &mut Decoder<'a>) -> Result<Self, Status> {
        match words.u32()? {
            1 => {
                let (open_seqid, open) = (words.u32()?, stateid(words)?);
                let (seqid, client) = (words.u32()?, ClientId(words.u64()?));
                Ok(Self::Below(NewOwner { open, open_seqid, seqid, client, name: words.opaque(OWNER_BYTES_MAX)? }))
            }
            0 => Ok(Self::Again(stateid(words)?, words.u32()?)),
            _ => Err(Status::BadXdr),
        }
    }

    /// In minor version 0 it is its owners' turn; or what this was told before.
    fn take_turn(&self, compound: &mut Compound<'_>, arguments: &[u8]) -> Result<Option<Told>, Status> {
        let asked = |brought, seqid| order::Arrival { brought, seqid, arguments };
        let turn = match self {
            _ if compound.minor() > 0 => return Ok(None),
            Self::Below(owner) => owner.take_turn(compound, &asked)?,
            Self::Again(stateid, seqid) => order::take_by_lock(compound, stateid, asked(Brought::Other, *seqid))?,
        };
        Ok(turn.told())
    }

    /// What is kept of it will have room, and its client is there.
    fn begin<'b>(&self, compound: &Compound<'b>, file: &FileId) -> Result<Locking<'b>, Status> {
        let client = compound.client();
        let (house, minor) = (compound.scene.house, compound.minor());
        let locking = match self {
            Self::Below(owner) => {
                let open = house.opens().find(&compound.present(owner.open)?, minor, client, Some(file))?;
                house.locks().begin(&open, minor, owner.name)
            }
            Self::Again(asked, _) => house.locks().again(&compound.present(*asked)?, minor, client, Some(file)),
        }?;
        // Whoever goes from here on is told by what was begun; who has gone before would have it kept for nobody.
        house.check_there(compound.guard().map(|guard| guard.session().id()), locking.locked().client)?;
        // What is locked of a mount that is over would be kept for nobody.
        if house.is_of_today(compound.scene.exports, file) { Ok(locking) } else { Err(Status::Delay) }
    }
}

impl NewOwner<'_> {
    /// It is the turn of the open's owner, and of this one.
    fn take_turn<'b>(
        &self,
        compound: &mut Compound<'_>,
        asked: &dyn Fn(Brought, u32) -> order::Arrival<'b>,
    ) -> Result<Turn, Status> {
        compound.hear(self.client)?;
        let above = match order::take_by(compound, &self.open, asked(Brought::Other, self.open_seqid))? {
            Turn::Of(above, _) => above,
            told @ Turn::Told(_) => return Ok(told),
        };
        if above.client != self.client {
            return Err(Status::BadStateid);
        }
        let owner = OwnerKey { client: self.client, name: compound.scene.house.locks().name(self.name) };
        // DELAY would move the other one on alone; and what came before came by him.
        match order::take(compound, owner, asked(Brought::Lock, self.seqid)) {
            Err(Status::Delay) | Ok(Turn::Told(_)) => Err(Status::BadSeqid),
            turn => turn,
        }
    }
}

/// `nfs_lock_type4`.
fn kind(words: &mut Decoder<'_>) -> Result<Kind, Status> {
    kind_and_wait(words).map(|(kind, _)| kind)
}

/// The same, and whether he would wait who asks.
fn kind_and_wait(words: &mut Decoder<'_>) -> Result<(Kind, bool), Status> {
    match words.u32()? {
        1 => Ok((Kind::Read, false)),
        2 => Ok((Kind::Write, false)),
        3 => Ok((Kind::Read, true)),
        4 => Ok((Kind::Write, true)),
        _ => Err(Status::BadXdr),
    }
}

/// Offset and length (rules V31).
fn range((offset, length): (u64, u64)) -> Result<Range, Status> {
    Range::new(offset, length).ok_or(Status::Inval)
}

fn offset_and_length(words: &mut Decoder<'_>) -> Result<(u64, u64), Status> {
    Ok((words.u64()?, words.u64()?))
}

/// The file of the current handle.
fn file(compound: &Compound<'_>) -> Result<Target, Status> {
    let target = compound.current()?.target().ok_or(Status::IsDir)?;
    check_file(target, compound.minor())?;
    Ok(target.clone())
}

pub(in super::super) fn lock(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let at = words.position();
    let ((kind, would_wait), is_reclaim) = (kind_and_wait(words)?, words.bool()?);
    let (asked, locker) = (offset_and_length(words)?, Locker::decode(words)?);
    if let Some(told) = locker.take_turn(compound, words.since(at))? {
        return Ok(order::tell(compound, &told, out)?);
    }
    let range = range(asked)?;
    let target = file(compound)?;
    let given = if is_reclaim {
        compound.reclaim(&target)?;
        None
    } else {
        compound.check_completed()?;
        Some(compound.may_be_given(&target, false)?)
    };
    let locking = locker.begin(compound, &FileId::of(&*target.vfs, target.object))?;
    let (holder, below) = (locking.locked().holder, locking.locked().below);
    let wanted = Lock { holder, range, kind };
    // What it holds it keeps, whatever comes of this.
    let had_any = target.vfs.has_ranges(target.object, holder);
    let attempt = LockAttempt { target: &target, wanted, had_any, locking: Some(locking) };
    let answer = ask(compound, &target, || target.vfs.lock_range(target.object, below, wanted));
    if let (Ok(Answer::Given), Some(given)) = (&answer, given) {
        compound.was_given(&target, given)?;
    }
    let locking = attempt.ended();
    match answer? {
        Answer::Given => waits_no_more(compound, &target, &locking, wanted, had_any),
        Answer::Denied(_) if is_reclaim => return Err(Status::ReclaimConflict.into()),
        Answer::Denied(denied) => {
            wait(compound, &locking, wanted, would_wait, denied.held.holder)?;
            denied.encode(out);
            return Ok(Status::Denied);
        }
    }
    let stateid = locking.granted()?;
    out.raw(&stateid.to_wire());
    compound.note_stateid(stateid);
    Ok(Status::Ok)
}

/// Whose lock that is, by name.
fn owner(compound: &Compound<'_>, locking: &Locking<'_>) -> Option<LockOwner> {
    let (client, name) = compound.scene.house.locks().named(locking.locked().holder)?;
    Some(LockOwner { client, name })
}

/// Somebody has what he asked for. If he had it for writing, others may read there now.
fn waits_no_more(compound: &Compound<'_>, target: &Target, locking: &Locking<'_>, wanted: Lock, had_any: bool) {
    let house = compound.scene.house;
    if let Some(owner) = owner(compound, locking) {
        house.waits_no_more(&owner);
    }
    if had_any && wanted.kind == Kind::Read {
        house.freed(compound.scene.exports, &FileId::of(&*target.vfs, target.object), Some(wanted.range));
    }
}

/// Somebody was refused. If he would wait, and can be called, he has a place from now on, unless that leads back to himself; else he has none.
fn wait(
    compound: &Compound<'_>,
    locking: &Locking<'_>,
    wanted: Lock,
    would_wait: bool,
    held_by: Holder,
) -> Result<(), Status> {
    let Some((owner, guard)) = owner(compound, locking).zip(compound.guard()) else { return Ok(()) };
    let (house, session) = (compound.scene.house, guard.session());
    if !would_wait || !session.presence().is_reachable() {
        house.waits_no_more(&owner);
        return Ok(());
    }
    let handle = Bytes::copy_from_slice(compound.current()?.handle().as_slice());
    let Locked { below, file, .. } = *locking.locked();
    let Lock { range, kind, .. } = wanted;
    let wait = LockWait { owner, below, session: session.id(), file, handle, range, kind };
    house.wait_for(compound.scene.exports, wait, held_by)
}

pub(in super::super) fn test(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let (kind, asked) = (kind(words)?, offset_and_length(words)?);
    let (client, owner) = (ClientId(words.u64()?), words.opaque(OWNER_BYTES_MAX)?);
    if compound.minor() == 0 {
        compound.hear(client)?;
    }
    let range = range(asked)?;
    let target = file(compound)?;
    // What nobody has locked may be what somebody claims again.
    compound.unopened(&target)?;
    let holder = compound.scene.house.locks().holder(compound.presence()?.client(), owner);
    match ask(compound, &target, || target.vfs.test_range(target.object, Lock { holder, range, kind }))? {
        Answer::Given => Ok(Status::Ok),
        Answer::Denied(denied) => {
            denied.encode(out);
            Ok(Status::Denied)
        }
    }
}

pub(in super::super) fn unlock(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Status> {
    let at = words.position();
    let (_kind, seqid) = (kind(words)?, words.u32()?);
    let (locker, asked) = (Locker::Again(stateid(words)?, seqid), offset_and_length(words)?);
    if let Some(told) = locker.take_turn(compound, words.since(at))? {
        return order::tell(compound, &told, out);
    }
    let range = range(asked)?;
    let (vfs, object) = compound.to_give_up()?;
    let locking = locker.begin(compound, &FileId::of(&*vfs, object))?;
    vfs.unlock_range(object, locking.locked().holder, range)?;
    let stateid = locking.granted()?;
    compound.scene.house.freed(compound.scene.exports, &FileId::of(&*vfs, object), Some(range));
    out.raw(&stateid.to_wire());
    compound.note_stateid(stateid);
    Ok(Status::Ok)
}

pub(in super::super) fn release(compound: &mut Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let (client, owner) = (ClientId(words.u64()?), words.opaque(OWNER_BYTES_MAX)?);
    compound.hear(client)?;
    let house = compound.scene.house;
    house.release_owner(compound.scene.exports, &OwnerKey { client, name: house.locks().name(owner) })
}

/// A LOCK on its way. Where nobody tells what came of it, as it panicked, nobody may have a stateid for what it has locked: that is free then.
struct LockAttempt<'a> {
    target: &'a Target,
    wanted: Lock,
    /// Its owner had locked something of the file before.
    had_any: bool,
    locking: Option<Locking<'a>>,
}

impl<'a> LockAttempt<'a> {
    fn ended(mut self) -> Locking<'a> {
        self.locking.take().expect("it ends once")
    }
}

impl Drop for LockAttempt<'_> {
    fn drop(&mut self) {
        if self.locking.take().is_some_and(|locking| !locking.is_known()) && !self.had_any {
            let told = self.target.vfs.unlock_range(self.target.object, self.wanted.holder, self.wanted.range);
            // Of one range nothing is split.
            debug_assert!(told.is_ok(), "{told:?}");
        }
    }
}

/// What came of asking for a range.
enum Answer {
    Given,
    Denied(Denied),
}

/// `LOCK4denied`.
struct Denied {
    held: Lock,
    client: ClientId,
    owner: Arc<[u8]>,
}

impl Denied {
    fn encode(&self, out: &mut Encoder) {
        let (Lock { range, kind, .. }, kinds) = (self.held, (1, 2));
        out.u64(range.first()).u64(range.length()).u32(if kind == Kind::Read { kinds.0 } else { kinds.1 });
        out.u64(self.client.0).opaque(&self.owner);
    }
}

/// Asks the file system, until the range is given or somebody is in the way who is there to be named.
///
/// A holder whose lease is over loses what it has, and the range is asked for anew (rules V20).
fn ask(compound: &mut Compound<'_>, file: &Target, ask: impl Fn() -> Result<(), NotLocked>) -> Result<Answer, Stop> {
    let (house, exports) = (compound.scene.house, compound.scene.exports);
    let mut denied = None;
    let makes_way = |outcome: &Result<(), NotLocked>| {
        let Err(NotLocked::Held(held)) = *outcome else { return Ok(false) };
        if !house.is_of_version_4(held.holder.client) {
            // Hosts of NFSv3, and mounts of this machine, have no lease that could be over (rules V44). A host that is not to be named any more has gone.
            let named = house.named_without_lease(held.holder);
            denied = named.map(|owner| Denied { held, client: ClientId(0), owner });
            return Ok(denied.is_none());
        }
        if house.end_late(exports, &[held.holder.client]) {
            return Ok(true);
        }
        // Who is not to be named any more has gone.
        let named = house.locks().named(held.holder);
        denied = named.map(|(client, owner)| Denied { held, client, owner });
        Ok::<_, Status>(denied.is_none())
    };
    match way::past(ask, makes_way)? {
        Ok(()) => Ok(Answer::Given),
        // Its holder locks there without a word.
        Err(NotLocked::Failed(FsError::Delegated(object))) => Err(compound.kept_out(&*file.vfs, object)),
        Err(NotLocked::Failed(error)) => Err(not_locked(error, compound.minor()).into()),
        Err(NotLocked::Held(_)) => Ok(denied.map(Answer::Denied).ok_or(Status::Delay)?),
    }
}

fn not_locked(error: FsError, minor: u32) -> Status {
    match error {
        FsError::TooManyClaims if minor == 0 => Status::Resource,
        FsError::BadType => Status::WrongType,
        error => error.into(),
    }
}
