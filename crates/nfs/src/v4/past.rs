//! Requests of sessions that are dead: of a life of the server before this one (RFC 8881 §2.10.6.5 and §18.36.3; rules V6).
//!
//! **The problem.** A client has asked for a file that must not be there (O_EXCL, `mkdir`), or for a `rename`, and the server went down before it answered. The client asks again, in the
//! session and slot that it has asked in. Told that there is no such session it makes another one and asks once more there, and finds its own
//! file in its way.
//!
//! **The idea.** Of a persistent session the pools know what each slot's last request has changed (`tally_store::marks`). Such a request goes through once more, with its handles entered
//! under today's rules: what it has changed is answered from the marks, what it has read is read again, and the first operation that would change anything now, files or state, is
//! told that the session is dead. Nothing is done twice, and nothing new.
//!
//! ```text
//!  D13, what SEQUENCE of a session says that is not there
//!  ─────────────────────────────────────────────────────────────────────┬─────────────────────────────
//!  a  its id is of this start of the server: it is over                 │ BADSESSION
//!  b  a pool knows the request, and serves                              │ OK, and the compound goes on
//!  c  a pool that may know it is suspended, or not there, just yet      │ DELAY
//!  d  a pool knows the session                                          │ DEADSESSION
//!  e  none does                                                         │ BADSESSION
//! ```
//!
//! A request that was broken off in this life, as its pool was suspended, is told by the same marks what it did, once that pool was taken up anew: what stands in them then is on the disks. The session lives
//! and goes on, so what was not carried out is told SERVERFAULT, as all of such a request is where no mark tells of it.
//!
//! ```text
//!  SEQUENCE of a slot whose request was broken off (row f of D2), where the session is persistent and it was to change something
//!  ─────────────────────────────────────────────────────────────────────┬─────────────────────────────
//!  f  its pool is suspended, or not there                               │ DELAY
//!  g  it is another mount than that was, and knows the request          │ OK, and the compound goes on
//!  h  else                                                              │ SERVERFAULT behind SEQUENCE
//! ```
//!
//! Of row c the client keeps slot and sequence. A pool that stays away, or suspended, does not hold it back for longer than [`AWAY_MAX`] from the start on, as its claims in other
//! pools have their time (rules V26): each session would wait, also of a client that has nothing there.

use std::sync::Arc;

use tally_base::Known;
use tally_vfs::Vfs;

use super::compound::Compound;
use super::state::{Mounted, RESTART_RECLAIM_NEEDED, Sequence, Session, SessionId};
use super::status::Status;
use crate::exports::{Exports, Place, PoolExports};
use crate::xdr::Encoder;

/// How long pools that are not there yet, or suspended, are waited for, as a part of a lease: whoever is told DELAY meanwhile has three quarters of one left to claim what he has in others.
const AWAY_MAX: u32 = 4;

/// SEQUENCE of a session that is not there: D13.
pub(super) fn sequence(compound: &mut Compound<'_>, asked: &Sequence, out: &mut Encoder) -> Result<Status, Status> {
    let house = compound.scene.house;
    if house.is_of_this_start(asked.session) {
        return Err(Status::BadSession);
    }
    let mark = asked.mark();
    let (mut known, mut is_suspended, mut is_away) = (Known::Nothing, false, false);
    for pool in compound.scene.exports.pools() {
        match root_of(&*pool) {
            Some(vfs) if vfs.is_waited_for() => is_suspended = true,
            Some(vfs) => known = known.max(vfs.known(&mark)),
            None => is_away = true,
        }
    }
    match known {
        Known::Request => {}
        _ if (is_suspended || is_away) && house.now() < house.lease() / AWAY_MAX => return Err(Status::Delay),
        Known::Session => return Err(Status::DeadSession),
        Known::Nothing => return Err(Status::BadSession),
    }
    compound.go_through_again(mark, Status::DeadSession);
    out.raw(&asked.session.0).u32(asked.sequence).u32(asked.slot).u32(asked.slot).u32(asked.slot);
    out.u32(RESTART_RECLAIM_NEEDED);
    Ok(Status::Ok)
}

/// SEQUENCE of a request that was broken off in this life, on that mount: whether it is told what it did (rows f to h).
pub(super) fn broken_off(
    compound: &mut Compound<'_>,
    session: &Arc<Session>,
    asked: &Sequence,
    on: Option<Mounted>,
) -> Result<bool, Status> {
    let Some((on, pool)) = on.and_then(|on| Some((on, compound.scene.exports.pool(on.pool)?))) else {
        return Ok(false);
    };
    let vfs = match pool.place(on.dataset) {
        Place::Here(vfs) => vfs,
        Place::Away if pool.root().is_none() => return Err(Status::Delay),
        Place::Away | Place::Going | Place::Unknown => return Ok(false),
    };
    if vfs.is_waited_for() {
        return Err(Status::Delay);
    }
    // On the mount of then nobody can say what of it is durable.
    if Mounted::of(&*vfs) == on || vfs.known(&asked.mark()) != Known::Request {
        return Ok(false);
    }
    // Another one is told.
    compound.hold(session.take_up(asked, on).ok_or(Status::Delay)?);
    compound.go_through_again(asked.mark(), Status::ServerFault);
    Ok(true)
}

/// What is exported has changed: pools that came by that are told which sessions live, whose marks do not age.
pub(super) fn keep(exports: &dyn Exports, living: &[SessionId]) {
    if living.is_empty() {
        return;
    }
    let living: Vec<_> = living.iter().map(|session| session.0).collect();
    exports.pools().iter().filter_map(|pool| root_of(&**pool)).for_each(|vfs| vfs.keep_sessions(&living));
}

/// Sessions are over: no pool has to know what they have changed.
pub(super) fn forget(exports: &dyn Exports, over: &[SessionId]) {
    if over.is_empty() {
        return;
    }
    for vfs in exports.pools().iter().filter_map(|pool| root_of(&**pool)) {
        over.iter().for_each(|session| vfs.forget_session(&session.0));
    }
}

/// By which a pool is asked.
fn root_of(pool: &dyn PoolExports) -> Option<Arc<dyn Vfs>> {
    match pool.place(pool.root()?) {
        Place::Here(vfs) => Some(vfs),
        Place::Away | Place::Going | Place::Unknown => None,
    }
}
