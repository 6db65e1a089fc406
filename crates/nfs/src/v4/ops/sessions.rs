//! BACKCHANNEL_CTL, EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION, DESTROY_SESSION, DESTROY_CLIENTID, SEQUENCE, RECLAIM_COMPLETE (RFC 8881 §18.33 to §18.37, §18.46,
//! §18.50 and §18.51).

use bytes::Bytes;
use tally_base::SystemRng;

use super::super::compound::{Compound, Halt, Stop};
use super::super::past;
use super::super::state::{
    Begun, Channel, ClientId, Direction, Introduction, Protection, Sequence, SessionId, Shown, Terms, Wanted,
};
use super::super::status::Status;
use super::clients::NAME_BYTES_MAX;
use crate::rpc::{Caller, GROUPS_MAX, MACHINE_NAME_MAX};
use crate::xdr::{Decoder, Encoder, Garbage};

/// Flags of EXCHANGE_ID that a client may send: that it understands referrals and moved file systems, binds principals, and which of pNFS it wants.
const EXCHANGE_FLAGS: u32 = 0x0007_0103;
/// SUPP_FENCE_OPS, of minor version 2 (RFC 7862 §14).
const FENCES: u32 = 4;
/// UPD_CONFIRMED_REC_A.
const UPDATES: u32 = 1 << 30;
/// CONFIRMED_R.
const IS_CONFIRMED: u32 = 1 << 31;
/// USE_NON_PNFS: all that there is.
const NO_PNFS: u32 = 0x0001_0000;

/// Flags of CREATE_SESSION: PERSIST, CONN_BACK_CHAN, CONN_RDMA.
const SESSION_FLAGS: u32 = 7;
/// PERSIST.
const PERSISTS: u32 = 1;
/// CONN_BACK_CHAN.
const CALLS_BACK: u32 = 2;

/// Longest part of what a client says of its program, and of how it would be protected.
const PART_BYTES_MAX: usize = 1024;
/// Most parts of a list of those.
const PARTS_MAX: u32 = 64;

pub(in super::super) fn exchange_id(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let (verifier, name) = (words.array()?, words.opaque(NAME_BYTES_MAX)?.to_owned());
    let flags = words.u32()?;
    let protection = protection(words)?;
    implementation(words)?;
    let of_minor = if compound.minor() > 1 { FENCES } else { 0 };
    if flags & !(EXCHANGE_FLAGS | UPDATES | of_minor) != 0 {
        return Err(Status::Inval);
    }
    protection.grant()?;
    let introduction = Introduction { name, verifier, sender: compound.sender() };
    let house = compound.scene.house;
    let known = house.clients().exchange_id(introduction, flags & UPDATES != 0, &|id| house.holds(id), house.now())?;
    let confirmed = if known.is_confirmed { IS_CONFIRMED } else { 0 };
    out.u64(known.id.0).u32(known.sequence).u32(NO_PNFS | confirmed);
    // SP4_NONE; then whose sessions these are, as which all addresses of the server are one; and nothing of the program.
    out.u32(0).u64(0).opaque(house.identity()).opaque(house.identity()).u32(0);
    Ok(())
}

/// `state_protect4_a`.
fn protection(words: &mut Decoder<'_>) -> Result<Protection, Garbage> {
    match words.u32()? {
        0 => Ok(Protection::Nothing),
        1 => {
            list(words)?;
            list(words)?;
            Ok(Protection::Machine)
        }
        2 => {
            list(words)?;
            list(words)?;
            for _ in 0..2 {
                for _ in 0..count(words, PARTS_MAX)? {
                    words.opaque(PART_BYTES_MAX)?;
                }
            }
            words.u64()?;
            Ok(Protection::Secret)
        }
        _ => Err(Garbage),
    }
}

/// A bitmap of which nothing has to be known.
fn list(words: &mut Decoder<'_>) -> Result<(), Garbage> {
    for _ in 0..count(words, PARTS_MAX)? {
        words.u32()?;
    }
    Ok(())
}

fn count(words: &mut Decoder<'_>, most: u32) -> Result<u32, Garbage> {
    words.u32().and_then(|count| if count <= most { Ok(count) } else { Err(Garbage) })
}

/// `nfs_impl_id4`, at most once: domain, name, and when it was made.
fn implementation(words: &mut Decoder<'_>) -> Result<(), Garbage> {
    for _ in 0..count(words, 1)? {
        let (_domain, _name) = (words.opaque(PART_BYTES_MAX)?, words.opaque(PART_BYTES_MAX)?);
        let (_seconds, _nanoseconds) = (words.u64()?, words.u32()?);
    }
    Ok(())
}

pub(in super::super) fn create(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let (client, sequence, flags) = (ClientId(words.u64()?), words.u32()?, words.u32()?);
    let (fore, back) = (channel(words)?, channel(words)?);
    let (program, Callers { first, .. }) = (words.u32()?, callers(words)?);
    if flags & !SESSION_FLAGS != 0 {
        return Err(Status::Inval);
    }
    let (sender, connection) = (compound.sender(), compound.scene.link.id());
    let terms = Terms { minor: compound.minor(), program, caller: first };
    let (persists, calls_back) = (flags & PERSISTS != 0, flags & CALLS_BACK != 0);
    let wanted = Wanted { client, sequence, fore, back, calls_back, persists, terms, sender, connection };
    let house = compound.scene.house;
    // What the one held whose place it takes is closed behind this.
    let (created, _gone) = house.clients().create_session(&wanted, &|id| house.holds(id), &SystemRng, house.now())?;
    let granted = |is_granted: bool, flag: u32| if is_granted { flag } else { 0 };
    let flags = granted(created.persists, PERSISTS) | granted(created.calls_back, CALLS_BACK);
    out.raw(&created.session.0).u32(created.sequence).u32(flags);
    put_channel(out, &created.fore);
    put_channel(out, &created.back);
    Ok(())
}

/// `channel_attrs4`. What would be padded, or is asked of RDMA, is passed over.
fn channel(words: &mut Decoder<'_>) -> Result<Channel, Garbage> {
    let _padding = words.u32()?;
    let channel = Channel {
        request_bytes: words.u32()?,
        reply_bytes: words.u32()?,
        cached_bytes: words.u32()?,
        operations: words.u32()?,
        slots: words.u32()?,
    };
    for _ in 0..count(words, 1)? {
        words.u32()?;
    }
    Ok(channel)
}

fn put_channel(out: &mut Encoder, channel: &Channel) {
    let Channel { request_bytes, reply_bytes, cached_bytes, operations, slots } = *channel;
    out.u32(0).u32(request_bytes).u32(reply_bytes).u32(cached_bytes).u32(operations).u32(slots).u32(0);
}

/// As whom callbacks may come.
struct Callers {
    /// The first that we can be.
    first: Option<Caller>,
    /// A context of RPCSEC_GSS is named, of which there is none here.
    has_context: bool,
}

/// `callback_sec_parms4`, so many of them.
fn callers(words: &mut Decoder<'_>) -> Result<Callers, Garbage> {
    let mut callers = Callers { first: None, has_context: false };
    for _ in 0..count(words, PARTS_MAX)? {
        match words.u32()? {
            0 => drop(callers.first.get_or_insert(Caller::Nobody)),
            1 => {
                let at = words.position();
                let (_stamp, _machine) = (words.u32()?, words.opaque(MACHINE_NAME_MAX)?);
                let (_uid, _gid) = (words.u32()?, words.u32()?);
                for _ in 0..count(words, GROUPS_MAX)? {
                    words.u32()?;
                }
                callers.first.get_or_insert_with(|| Caller::Unix(Bytes::copy_from_slice(words.since(at))));
            }
            6 => {
                let (_service, _ours, _theirs) =
                    (words.u32()?, words.opaque(PART_BYTES_MAX)?, words.opaque(PART_BYTES_MAX)?);
                callers.has_context = true;
            }
            _ => return Err(Garbage),
        }
    }
    Ok(callers)
}

/// BACKCHANNEL_CTL (RFC 8881 §18.33).
pub(in super::super) fn change_back(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let (program, Callers { first, has_context }) = (words.u32()?, callers(words)?);
    if has_context {
        return Err(Status::NoEnt);
    }
    compound.guard().ok_or(Status::OpNotInSession)?.session().change_back(program, first);
    Ok(())
}

pub(in super::super) fn bind(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let session = SessionId(words.array()?);
    let asked = match words.u32()? {
        1 => Direction::Fore,
        2 => Direction::Back,
        3 => Direction::ForeOrBoth,
        7 => Direction::BackOrBoth,
        _ => return Err(Status::BadXdr),
    };
    let _rdma = words.bool()?;
    let ways = compound.scene.house.sessions().bind(session, compound.scene.link.id(), asked)?;
    out.raw(&session.0).u32(ways).bool(false);
    Ok(())
}

pub(in super::super) fn destroy(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let session = SessionId(words.array()?);
    let is_its_own = compound.guard().is_some_and(|guard| guard.session().id() == session);
    if is_its_own && !compound.is_at_last() {
        return Err(Status::NotOnlyOp);
    }
    compound.scene.house.clients().destroy_session(session, compound.scene.link.id())
}

pub(in super::super) fn destroy_client(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    let (client, sender) = (ClientId(words.u64()?), compound.sender());
    let house = compound.scene.house;
    house.clients().destroy_client(client, &sender, &|id| house.holds(id))
}

/// Of one file system, or of all: only the latter is once, and ends what the client may claim again.
pub(in super::super) fn reclaim_complete(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    if words.bool()? {
        return compound.current().map(drop);
    }
    let presence = compound.presence()?;
    if !presence.owns_key() && compound.sender().is_named {
        presence.note_owns_key();
    }
    compound.scene.house.reclaim_complete(presence)
}

/// Takes the slot in which the compound is carried out.
pub(in super::super) fn sequence(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let (session, sequence) = (SessionId(words.array()?), words.u32()?);
    let (slot, highest, cache_this) = (words.u32()?, words.u32()?, words.bool()?);
    let house = compound.scene.house;
    let fingerprint = compound.scene.call.fingerprint_from(words.position(), None);
    let connection = compound.scene.link.id();
    let asked = Sequence { session, slot, sequence, highest, cache_this, fingerprint, connection };
    let Some(found) = house.sessions().find(session) else {
        return Ok(past::sequence(compound, &asked, out)?);
    };
    // Before the slot is taken: what fails here has not been.
    if compound.scene.call.record_bytes() > found.fore().request_bytes as usize {
        return Err(Status::ReqTooBig.into());
    }
    if compound.operations() > found.fore().operations {
        return Err(Status::TooManyOps.into());
    }
    let (shown, then) = match house.sessions().begin(&asked, house.heard())? {
        Begun::New(guard, shown) => {
            compound.hold(guard);
            (shown, None)
        }
        Begun::Retry(results) => return Err(Halt::Told(results).into()),
        // Its first transmission is on its way, and its answer will come.
        Begun::InProgress => return Err(Status::Delay.into()),
        Begun::Uncached(shown) => (shown, Some(Status::RetryUncachedRep)),
        Begun::Faulted(shown, on) => match past::broken_off(compound, &found, &asked, on)? {
            true => (shown, None),
            false => (shown, Some(Status::ServerFault)),
        },
    };
    found.presence().note_minor(compound.minor());
    house.end_with_mounts(compound.scene.exports);
    let Shown { highest, target, flags } = shown;
    let client = found.presence().client();
    let flags = flags | house.opens().flags(client) | house.delegations().flags(client);
    out.raw(&session.0).u32(sequence).u32(slot).u32(highest).u32(target).u32(flags);
    compound.next_fails_with(then);
    Ok(Status::Ok)
}
