//! What all clients together were told, held against each other.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::belief::{BOXES, PARTS, Part};
use super::run::CLIENTS;
use super::{Result, violation};

/// How long nobody new may be kept out behind the last one that claimed something again and said so.
const GRACE_BEHIND_LAST: Duration = Duration::from_secs(2);

/// How long a grace is at most, in leases: claims prolong it.
const GRACE_LEASES_MAX: u32 = 2;

/// What was done, all in all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests that were answered.
    pub answered: u64,
    /// Opens and locks that were claimed again.
    pub reclaimed: u64,
    /// Requests that were under way at a kill, and were told behind it what they had done.
    pub done_before: u64,
    /// The same, which were told that they had done nothing.
    pub not_done: u64,
    /// Names that one made of all who wanted them.
    pub won: u64,
    /// Locks that somebody else had.
    pub denied: u64,
    /// Numbers that were counted up under a lock.
    pub counted: u64,
    /// Locks that were given to others while their client was away for longer than a lease.
    pub taken: u64,
    /// Claims of such clients that were refused.
    pub late: u64,
    /// Longest time for which somebody was kept out behind the last one that claimed something, in lives in which all came back.
    pub kept_out_max: Duration,
}

pub(super) struct Truth {
    told: Mutex<Told>,
    lease: Duration,
    /// How long anybody may be.
    kept_out_max: Duration,
}

#[derive(Default)]
struct Told {
    parts: [[OfPart; PARTS]; BOXES],
    /// Who made which name; nobody yet where it was only told that it is there.
    names: BTreeMap<String, Option<usize>>,
    counts: Counts,
    life: u64,
    complete: [bool; CLIENTS],
    /// Who stays away, or has not come back yet.
    away: [Option<Away>; CLIENTS],
    /// Somebody has stayed away in this life.
    is_missed: bool,
    all_complete: Option<Instant>,
    is_given: bool,
}

/// One that has not come in this life.
#[derive(Clone, Copy)]
struct Away {
    /// Since this life began.
    since: Instant,
    /// In one before it others could have been given what it had.
    may_have_lost: bool,
}

#[derive(Clone, Copy, Default)]
struct OfPart {
    holder: Option<usize>,
    /// Of whom it is not known whether he has it.
    busy: u32,
    /// How often any of that has changed.
    changes: u64,
    number: u64,
    /// Somebody counts it up, or has not come back from that.
    is_being_counted: bool,
}

/// How a part stood when its lock was asked for.
pub(super) struct Asked {
    was_free: bool,
    changes: u64,
}

impl Told {
    fn may_have_lost(&self, client: usize, lease: Duration) -> bool {
        self.away[client].is_some_and(|away| away.may_have_lost || away.since.elapsed() >= lease)
    }

    fn are_those_there_complete(&self) -> bool {
        self.complete.iter().zip(&self.away).all(|(is_complete, away)| *is_complete || away.is_some())
    }
}

impl OfPart {
    fn is_free_for(&self, client: usize) -> bool {
        self.holder.is_none_or(|holder| holder == client) && self.busy == 0
    }
}

impl Truth {
    /// Of clients with this lease; whether all of them say when they claim nothing more, or a grace may be as long as that.
    pub(super) fn new(lease: Duration, do_all_say_so: bool) -> Self {
        let longer = if do_all_say_so { Duration::ZERO } else { lease };
        Self { told: Mutex::default(), lease, kept_out_max: GRACE_BEHIND_LAST + longer }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.told().counts);
    }

    pub(super) fn counts(&self) -> Counts {
        self.told().counts
    }

    /// A client asks for a lock.
    pub(super) fn asks(&self, client: usize, part: Part) -> Asked {
        let mut told = self.told();
        let of = &mut told.parts[part.of][part.at];
        let was_free = of.is_free_for(client);
        (of.busy, of.changes) = (of.busy + 1, of.changes + 1);
        Asked { was_free, changes: of.changes }
    }

    /// And was told whether it has it.
    pub(super) fn is_told(&self, client: usize, part: Part, asked: &Asked, has_it: bool) -> Result<()> {
        let mut told = self.told();
        let of = &mut told.parts[part.of][part.at];
        let is_as_it_was = of.changes == asked.changes;
        (of.busy, of.changes) = (of.busy - 1, of.changes + 1);
        if has_it {
            if let Some(other) = of.holder.replace(client) {
                if !told.may_have_lost(other, self.lease) {
                    return violation(format!("{part:?} is given to client {client}, and client {other} has it"));
                }
                told.counts.taken += 1;
            }
        } else {
            if asked.was_free && is_as_it_was {
                return violation(format!("{part:?} is denied to client {client}, and nobody has it"));
            }
            told.counts.denied += 1;
        }
        Ok(())
    }

    /// A client gives a lock up: from here on others may be given it.
    pub(super) fn gives_up(&self, part: Part) {
        let mut told = self.told();
        let of = &mut told.parts[part.of][part.at];
        (of.holder, of.busy, of.changes) = (None, of.busy + 1, of.changes + 1);
    }

    /// And was told so, or that its server has gone.
    pub(super) fn has_given_up(&self, part: Part) {
        let mut told = self.told();
        let of = &mut told.parts[part.of][part.at];
        (of.busy, of.changes) = (of.busy - 1, of.changes + 1);
    }

    /// The number that whoever has the lock must find, and whether it may be one higher: who had it before has not come back from counting. From here on it is being counted.
    pub(super) fn number(&self, part: Part) -> (u64, bool) {
        let mut told = self.told();
        let of = &mut told.parts[part.of][part.at];
        (of.number, std::mem::replace(&mut of.is_being_counted, true))
    }

    /// Who has the lock has counted it up.
    pub(super) fn is_counted(&self, part: Part) {
        let mut told = self.told();
        let of = &mut told.parts[part.of][part.at];
        (of.number, of.is_being_counted) = (of.number + 1, false);
        told.counts.counted += 1;
    }

    /// A client was told whether it made a name that others want as well.
    pub(super) fn wanted(&self, client: usize, name: &str, is_made: bool) -> Result<()> {
        let mut told = self.told();
        let maker = told.names.entry(name.to_owned()).or_default();
        if !is_made {
            return Ok(());
        }
        if let Some(other) = maker.replace(client) {
            return violation(format!("clients {other} and {client} were told that they made {name}"));
        }
        told.counts.won += 1;
        Ok(())
    }

    /// Names of which somebody was told that they are there.
    pub(super) fn names(&self) -> Vec<String> {
        self.told().names.keys().cloned().collect()
    }

    /// Whether each name that is there was made by somebody who was told so.
    pub(super) fn check_names(&self) -> Result<()> {
        let told = self.told();
        let unmade = told.names.iter().find(|(_, maker)| maker.is_none());
        unmade.map_or(Ok(()), |(name, _)| violation(format!("{name} is there, and nobody was told that he made it")))
    }

    /// The server was killed, and is about to be started again; this client stays away, if any does.
    pub(super) fn new_life(&self, stays_away: Option<usize>) {
        let mut told = self.told();
        (told.life, told.complete, told.all_complete) = (told.life + 1, Default::default(), None);
        // A life begins with a grace: what nobody was given in those before is safe for a lease once more.
        let since = Instant::now();
        for client in 0..CLIENTS {
            let may_have_lost = told.may_have_lost(client, self.lease);
            if told.away[client].is_some() || stays_away == Some(client) {
                told.away[client] = Some(Away { since, may_have_lost });
            }
        }
        (told.is_given, told.is_missed) = (false, told.away.iter().any(Option::is_some));
    }

    /// Whether claims of a client may be refused: it was away for longer than a lease.
    pub(super) fn may_have_lost(&self, client: usize) -> bool {
        self.told().may_have_lost(client, self.lease)
    }

    /// A claim of it was.
    pub(super) fn is_late(&self) {
        self.told().counts.late += 1;
    }

    /// A client has claimed a lock again, which must be its own still.
    pub(super) fn is_claimed(&self, client: usize, part: Part) -> Result<()> {
        match self.told().parts[part.of][part.at].holder {
            Some(holder) if holder == client => Ok(()),
            other => violation(format!("{part:?} is claimed again by client {client}, and {other:?} has it")),
        }
    }

    /// A client has lost a lock, and whoever wants it may have it by now.
    pub(super) fn loses(&self, client: usize, part: Part) {
        let mut told = self.told();
        let of = &mut told.parts[part.of][part.at];
        if of.holder == Some(client) {
            (of.holder, of.changes) = (None, of.changes + 1);
        }
    }

    pub(super) fn life(&self) -> u64 {
        self.told().life
    }

    /// A client that came in this life claims nothing more.
    pub(super) fn is_complete(&self, client: usize, life: u64) {
        let mut told = self.told();
        if told.life == life {
            (told.complete[client], told.away[client]) = (true, None);
            if told.are_those_there_complete() {
                told.all_complete.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Somebody was given something new in this life: nobody is kept out any more.
    pub(super) fn is_given_something(&self, life: u64) {
        let mut told = self.told();
        told.is_given |= told.life == life;
    }

    pub(super) fn is_anything_given(&self) -> bool {
        self.told().is_given
    }

    pub(super) fn are_all_complete(&self) -> bool {
        self.told().all_complete.is_some()
    }

    /// A client is told that others may still claim something.
    pub(super) fn is_kept_out_by_grace(&self, life: u64) -> Result<()> {
        let mut told = self.told();
        let Some(since) = told.all_complete.filter(|_| told.life == life) else { return Ok(()) };
        let kept_out = since.elapsed();
        // Who is away is waited for.
        let longer = if told.is_missed { self.lease * GRACE_LEASES_MAX } else { Duration::ZERO };
        if !told.is_missed {
            told.counts.kept_out_max = told.counts.kept_out_max.max(kept_out);
        }
        if kept_out > self.kept_out_max + longer {
            return violation(format!("a grace goes on {kept_out:?} behind the last client"));
        }
        Ok(())
    }
}
