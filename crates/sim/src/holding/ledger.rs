//! Who was given what, as an outsider writes it down who reads all replies and knows no more of the server than the RFCs say: what this asks of the server it asks by no code
//! of the server's.
//!
//! A *grant* is an owner's open of a file, one byte of it that an owner has locked, or a client's delegation of it, to keep it as it is, or for writing. It is, at a moment,
//!
//! ```text
//!                 ┌───────────── claimed again ◀──────────────┐
//!   given ──▶ Held ── crash ──▶ Claimable ────────────────────┘
//!              │  │                  │ its client lets the grace go by, and others are given something in the pool; or a crash comes then
//!              │  │                  ▼
//!              │  └── may be over ▶ Doubtful ── claimed again ──▶ Held
//!              ▼                     │
//!     closed, unlocked, client       └── another one is given what excludes it ──▶ Taken: whoever is given it again is lied to
//!     started anew: not there
//! ```
//!
//! *L1*: what excludes a Held grant is given to nobody, but if its client's lease is over: then all that client has is in doubt. *L2*: nor is what excludes a Claimable one, as long as
//! its client may claim it, and nothing new at all is given in a pool of which somebody may claim something. *L3*: a Claimable one is given to who claims it, in time. *L4*: a Taken one is
//! given to nobody again. *L5*: whoever is refused is kept out by something. *L6*: nobody changes what somebody else keeps, but where its client is late or has not given it back in
//! time: then it is Taken. *L7*: what somebody keeps for writing nobody else reads either, and what he may claim so nobody reads or changes before he has, or his time is over (rules V27). *L8*: as
//! far as opens go another owner of the same client is somebody else.

use super::judge::{READ, WRITE};
use super::{Checked, OLDER};

/// Bytes that may be locked, of any file.
pub(super) const BYTES: usize = 6;

/// Who it is: a client, and which of its owners.
pub(super) type Who = (usize, u8);

/// As which of its owners a client keeps something.
pub(super) const KEEPER: u8 = u8::MAX;

/// How it stands with a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Held,
    Claimable,
    Doubtful,
    Taken,
}

/// What excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Access, and what is denied to others.
    Open(u32, u32),
    /// A byte, and whether for writing.
    Byte(usize, bool),
    /// The file, to keep: a client's, which had opened it as this owner. Either as it is, or for writing, and then it is nobody else's to read, too.
    Keep { writes: bool, owner: u8 },
}

/// Who does something with a file that somebody may keep.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// Version 3, or whoever else says no client: it is another one for all.
    Nobody,
    Client(usize),
    /// An open: of another owner of the same client it is another one's.
    Owner(Who),
}

impl By {
    /// A client, if it is one.
    pub(super) fn of(client: Option<usize>) -> Self {
        client.map_or(Self::Nobody, Self::Client)
    }
}

impl What {
    pub(super) fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Open(access, deny), Self::Open(others, denied)) => access & denied != 0 || deny & others != 0,
            (Self::Byte(at, writes), Self::Byte(other, written)) => at == other && (writes || written),
            (Self::Keep { writes, .. }, Self::Open(access, deny))
            | (Self::Open(access, deny), Self::Keep { writes, .. }) => {
                writes || access & WRITE != 0 || deny & READ != 0
            }
            (Self::Keep { writes, .. }, Self::Keep { writes: others, .. }) => writes || others,
            (Self::Keep { writes, .. }, Self::Byte(..)) | (Self::Byte(..), Self::Keep { writes, .. }) => writes,
            _ => false,
        }
    }

    /// Whether to open it so is to change it, for who keeps it as it is: also where nobody else could write any more.
    pub(super) fn changes(self) -> bool {
        matches!(self, Self::Open(access, deny) if access & WRITE != 0 || deny != 0)
    }

    pub(super) fn is_kept(self) -> bool {
        matches!(self, Self::Keep { .. })
    }

    fn is_open(self) -> bool {
        matches!(self, Self::Open(..))
    }
}

/// A grant.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) pool: usize,
    pub(super) file: Vec<u8>,
    pub(super) who: Who,
    pub(super) what: What,
    pub(super) state: State,
    /// It was taken by a change that is not durable: behind a crash neither may be.
    pub(super) is_loose: bool,
}

impl Grant {
    /// Whether it is kept, and in the way of who reads this file, or changes it.
    pub(super) fn keeps_from(&self, file: &[u8], by: By, changes: bool) -> bool {
        let What::Keep { writes, owner } = self.what else { return false };
        let is_others = match by {
            By::Nobody => true,
            By::Client(client) => self.who.0 != client,
            By::Owner((client, of)) => self.who.0 != client || owner != of,
        };
        self.file == file && is_others && (writes || changes)
    }
}

/// What the ledger has to be told of a client at the moment of a grant.
pub(super) struct Moment<'a> {
    /// Whether its lease is over.
    pub(super) is_late: &'a dyn Fn(usize) -> bool,
    /// Whether it may claim something in the pool, as far as time goes.
    pub(super) may_claim: &'a dyn Fn(usize) -> bool,
    /// Whether something that a client keeps was asked for, and may have been taken by now.
    pub(super) is_overdue: &'a dyn Fn(&Grant) -> bool,
}

/// All grants.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    grants: Vec<Grant>,
    /// How often a client was ended for another one.
    pub(super) ended: u64,
}

/// Whether something was given anew, or claimed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Anew,
    Again,
}

impl Ledger {
    fn find(&self, file: &[u8], who: Who, matches: impl Fn(What) -> bool) -> Option<usize> {
        self.grants.iter().position(|grant| grant.file == file && grant.who == who && matches(grant.what))
    }

    /// An owner's open of a file.
    pub(super) fn open(&self, file: &[u8], who: Who) -> Option<&Grant> {
        self.find(file, who, What::is_open).map(|at| &self.grants[at])
    }

    /// A byte that an owner has locked.
    pub(super) fn byte(&self, file: &[u8], who: Who, byte: usize) -> Option<&Grant> {
        self.find(file, who, |what| matches!(what, What::Byte(at, _) if at == byte)).map(|at| &self.grants[at])
    }

    /// What a client keeps of a file.
    pub(super) fn kept(&self, file: &[u8], client: usize) -> Option<&Grant> {
        self.find(file, (client, KEEPER), What::is_kept).map(|at| &self.grants[at])
    }

    /// What is kept of a file that is in the way of who reads it, or changes it.
    pub(super) fn kept_from(&self, file: &[u8], by: By, changes: bool) -> Vec<Grant> {
        self.grants.iter().filter(|grant| grant.keeps_from(file, by, changes)).cloned().collect()
    }

    /// What others than this client keep of a file, if it is one.
    pub(super) fn kept_by_others(&self, file: &[u8], client: Option<usize>) -> Vec<Grant> {
        self.kept_from(file, By::of(client), true)
    }

    fn others<'a>(&'a self, file: &'a [u8], who: Who, what: What) -> impl Iterator<Item = usize> + 'a {
        let is_others = move |grant: &Grant| match (grant.what, what) {
            (What::Keep { owner, .. }, What::Open(..)) => grant.who.0 != who.0 || owner != who.1,
            (What::Open(..), What::Keep { owner, .. }) => grant.who.0 != who.0 || grant.who.1 != owner,
            (What::Keep { .. }, _) | (_, What::Keep { .. }) => grant.who.0 != who.0,
            _ => grant.who != who,
        };
        let in_the_way = move |grant: &Grant| grant.file == file && is_others(grant) && grant.what.excludes(what);
        self.grants.iter().enumerate().filter(move |(_, grant)| in_the_way(grant)).map(|(at, _)| at)
    }

    /// Whether something open or locked that may be there keeps this from being given (L5).
    pub(super) fn keeps_out(&self, file: &[u8], who: Who, what: What) -> bool {
        let may_be_there = |grant: &Grant| grant.state != State::Taken && !grant.what.is_kept();
        self.others(file, who, what).any(|at| may_be_there(&self.grants[at]))
    }

    /// The clients of which something is in the way of this.
    pub(super) fn in_the_way(&self, file: &[u8], who: Who, what: What) -> Vec<usize> {
        self.others(file, who, what).map(|at| self.grants[at].who.0).collect()
    }

    /// The clients that have something for certain which is in the way of this.
    pub(super) fn lives_in_the_way(&self, file: &[u8], who: Who, what: What) -> Vec<usize> {
        let is_held = |at: &usize| self.grants[*at].state == State::Held;
        self.others(file, who, what).filter(is_held).map(|at| self.grants[at].who.0).collect()
    }

    /// Whether a client may claim something in a pool (L2).
    pub(super) fn who_may_claim(&self, pool: usize, moment: &Moment<'_>) -> Option<usize> {
        let mut claims = self.grants.iter().filter(|grant| grant.pool == pool && grant.state == State::Claimable);
        claims.find(|grant| (moment.may_claim)(grant.who.0)).map(|grant| grant.who.0)
    }

    /// Somebody was told that this is his.
    pub(super) fn given(&mut self, new: &Grant, how: Given, moment: &Moment<'_>) -> Checked<()> {
        let Grant { pool, file, who, what, .. } = new;
        if how == Given::Anew
            && let Some(client) = self.who_may_claim(*pool, moment)
        {
            return Err(format!(
                "{who:?} was given {what:?} while client {client} may claim what it had in pool {pool}"
            ));
        }
        let own = match what {
            What::Open(..) => self.find(file, *who, What::is_open),
            What::Byte(at, _) => self.find(file, *who, |what| matches!(what, What::Byte(own, _) if own == *at)),
            What::Keep { .. } => self.find(file, *who, What::is_kept),
        };
        let was = own.map(|own| self.grants[own].state);
        // Minor version 0 has no word for that a client claims nothing more: who claimed a part, and was away for the rest, is in the list with all that it had, also behind
        // the next restart (docs/nfs4.md says so; seed 417 as drawn on 2026-11-30).
        let is_in_the_list_with_all = who.0 == OLDER;
        if (how, was) == (Given::Again, Some(State::Taken)) && !is_in_the_list_with_all {
            return Err(format!("{who:?} was given {what:?} again, which was somebody else's meanwhile"));
        }
        // What is claimed is kept out by nothing that its own client keeps: by that it opens what it is about to give back. Nor is what it keeps by what it has open, which it is given
        // with the first open of the file that it claims, whichever of its owners had it.
        let is_own = |at: &usize| {
            let other = &self.grants[*at];
            let is_kept = what.is_open() && other.who == (who.0, KEEPER);
            how == Given::Again && (is_kept || what.is_kept() && other.what.is_open() && other.who.0 == who.0)
        };
        let in_the_way: Vec<usize> = self.others(file, *who, *what).filter(|at| !is_own(at)).collect();
        let mut ended = Vec::new();
        for at in in_the_way {
            self.doubt_the_late(at, moment);
            let other = &mut self.grants[at];
            match other.state {
                State::Held if (moment.is_overdue)(other) => {}
                State::Held if (moment.is_late)(other.who.0) => ended.push(other.who.0),
                State::Claimable if !(moment.may_claim)(other.who.0) => {}
                State::Doubtful | State::Taken => {}
                state => {
                    return Err(format!(
                        "{who:?} was given {what:?} ({how:?}) beside {:?} of {:?}, which is {state:?}",
                        other.what, other.who
                    ));
                }
            }
            other.state = State::Taken;
        }
        self.ended += ended.len() as u64;
        ended.into_iter().for_each(|client| self.doubt(client));
        if how == Given::Anew {
            // The list is written by now: whoever has let the time go by is not in it.
            self.pass_over(*pool);
        }
        let new = Grant { state: State::Held, ..new.clone() };
        match own {
            Some(own) => self.grants[own] = new,
            None => self.grants.push(new),
        }
        Ok(())
    }

    /// Somebody read or wrote without an open what a client had denied, or keeps: that one is ended, if its lease is over.
    pub(super) fn passed(&mut self, file: &[u8], access: u32, client: usize, moment: &Moment<'_>) -> Checked<()> {
        let nobody = (usize::MAX, 0);
        let is_own = |at: &usize| self.grants[*at].who == (client, KEEPER);
        let in_the_way: Vec<usize> =
            self.others(file, nobody, What::Open(access, 0)).filter(|at| !is_own(at)).collect();
        for at in in_the_way {
            self.doubt_the_late(at, moment);
            let (who, state) = (self.grants[at].who, self.grants[at].state);
            match state {
                // Whoever reads waits for nothing, so its client may still be in the list behind a crash.
                State::Held if (moment.is_overdue)(&self.grants[at]) => {
                    (self.grants[at].state, self.grants[at].is_loose) = (State::Taken, access == READ);
                }
                State::Held if (moment.is_late)(who.0) => self.doubt(who.0),
                State::Doubtful | State::Taken => {}
                State::Claimable if !(moment.may_claim)(who.0) => {}
                _ => return Err(format!("somebody passed what {who:?} denies, which is {state:?}")),
            }
        }
        Ok(())
    }

    /// Somebody has changed a file, be it a client or not: whoever kept it has it no more, and had to lose it by a rule.
    pub(super) fn changed(
        &mut self,
        file: &[u8],
        client: Option<usize>,
        is_stable: bool,
        moment: &Moment<'_>,
    ) -> Checked<()> {
        for kept in self.kept_by_others(file, client) {
            let at = self.find(file, kept.who, What::is_kept).expect("it is there");
            let writes = matches!(kept.what, What::Keep { writes: true, .. });
            self.doubt_the_late(at, moment);
            match kept.state {
                State::Held | State::Doubtful if (moment.is_overdue)(&kept) => {}
                State::Held if (moment.is_late)(kept.who.0) => {
                    self.doubt(kept.who.0);
                    self.ended += 1;
                }
                State::Held => return Err(format!("a file was changed, and client {} keeps it", kept.who.0)),
                State::Claimable if writes && (moment.may_claim)(kept.who.0) => {
                    return Err(format!(
                        "a file was changed that client {} may claim with what it has written",
                        kept.who.0
                    ));
                }
                // What it has written it has to be kept from sending.
                State::Claimable | State::Doubtful if writes => {}
                // Who changes something without opening it is told of no claims, and who claims looks at it again.
                State::Claimable | State::Doubtful => continue,
                State::Taken => {
                    self.grants[at].is_loose &= !is_stable;
                    continue;
                }
            }
            (self.grants[at].state, self.grants[at].is_loose) = (State::Taken, !is_stable);
        }
        Ok(())
    }

    /// Somebody has read a file, be it a client or not: nobody else kept it for writing, nor may claim that.
    pub(super) fn read(&mut self, file: &[u8], by: By, moment: &Moment<'_>) -> Checked<()> {
        for kept in self.kept_from(file, by, false) {
            match kept.state {
                State::Held if (moment.is_overdue)(&kept) => {}
                State::Held if (moment.is_late)(kept.who.0) => {
                    self.doubt(kept.who.0);
                    self.ended += 1;
                }
                State::Held => return Err(format!("a file was read that client {} has for writing", kept.who.0)),
                State::Claimable if (moment.may_claim)(kept.who.0) => {
                    return Err(format!(
                        "a file was read that client {} may claim with what it has written",
                        kept.who.0
                    ));
                }
                State::Claimable | State::Doubtful | State::Taken => continue,
            }
            let at = self.find(file, kept.who, What::is_kept).expect("it is there");
            self.doubt_the_late(at, moment);
            // Whoever reads waits for nothing, so its client may still be in the list behind a crash.
            (self.grants[at].state, self.grants[at].is_loose) = (State::Taken, true);
        }
        Ok(())
    }

    /// A client does not keep a file any more.
    pub(super) fn give_back(&mut self, file: &[u8], client: usize) {
        let is_it = |grant: &Grant| grant.what.is_kept() && grant.file == file && grant.who.0 == client;
        self.grants.retain(|grant| !is_it(grant));
    }

    /// What it keeps may be gone.
    pub(super) fn doubt_kept(&mut self, file: &[u8], client: usize) {
        if let Some(at) = self.find(file, (client, KEEPER), What::is_kept)
            && self.grants[at].state != State::Taken
        {
            self.grants[at].state = State::Doubtful;
        }
    }

    /// What was asked for of a client whose lease is over is taken from it, or the client was ended as a whole.
    fn doubt_the_late(&mut self, at: usize, moment: &Moment<'_>) {
        let Grant { who: (client, _), state, .. } = self.grants[at];
        if state == State::Held && (moment.is_overdue)(&self.grants[at]) && (moment.is_late)(client) {
            self.doubt(client);
        }
    }

    /// What a client has may be ended.
    pub(super) fn doubt(&mut self, client: usize) {
        self.each(|grant| {
            if grant.who.0 == client && grant.state != State::Taken {
                grant.state = State::Doubtful;
            }
        });
    }

    /// The same, in one pool.
    pub(super) fn doubt_in(&mut self, pool: usize, client: usize) {
        self.each(|grant| {
            if (grant.pool, grant.who.0) == (pool, client) && grant.state != State::Taken {
                grant.state = State::Doubtful;
            }
        });
    }

    /// Whoever has let the time of claims go by may have nothing any more.
    pub(super) fn pass_over(&mut self, pool: usize) {
        self.each(|grant| {
            if grant.pool == pool && grant.state == State::Claimable {
                grant.state = State::Doubtful;
            }
        });
    }

    fn each(&mut self, change: impl FnMut(&mut Grant)) {
        self.grants.iter_mut().for_each(change);
    }

    /// The server's memory is gone. Of these pools the time of claims was over.
    pub(super) fn crash(&mut self, was_over: &dyn Fn(usize) -> bool) {
        self.each(|grant| match grant.state {
            State::Held => grant.state = State::Claimable,
            State::Claimable if was_over(grant.pool) => grant.state = State::Doubtful,
            State::Taken if std::mem::take(&mut grant.is_loose) => grant.state = State::Doubtful,
            _ => {}
        });
    }

    /// An owner has given up an open, and what it has locked below.
    pub(super) fn close(&mut self, file: &[u8], who: Who) {
        self.grants.retain(|grant| grant.file != file || grant.who != who);
    }

    /// An owner has no more than this of an open.
    pub(super) fn downgrade(&mut self, file: &[u8], who: Who, share: (u32, u32)) {
        if let Some(at) = self.find(file, who, What::is_open) {
            self.grants[at].what = What::Open(share.0, share.1);
        }
    }

    pub(super) fn unlock(&mut self, file: &[u8], who: Who, bytes: std::ops::Range<usize>) {
        let is_in = |what| matches!(what, What::Byte(at, _) if bytes.contains(&at));
        self.grants.retain(|grant| grant.file != file || grant.who != who || !is_in(grant.what));
    }

    /// A client has given up all that it had, in these pools.
    pub(super) fn give_up(&mut self, client: usize, in_pool: &dyn Fn(usize) -> bool, which: &dyn Fn(State) -> bool) {
        self.grants.retain(|grant| grant.who.0 != client || !in_pool(grant.pool) || !which(grant.state));
    }

    /// Whether somebody has a file open for certain, or may claim it.
    pub(super) fn has_open(&self, file: &[u8], moment: &Moment<'_>) -> bool {
        let is_there = |grant: &Grant| match grant.state {
            State::Held => !(moment.is_late)(grant.who.0),
            State::Claimable => (moment.may_claim)(grant.who.0),
            State::Doubtful | State::Taken => false,
        };
        self.grants.iter().any(|grant| grant.file == file && grant.what.is_open() && is_there(grant))
    }

    /// Whether nobody has a file open, and nobody may claim that.
    pub(super) fn is_opened_by_nobody(&self, file: &[u8]) -> bool {
        !self.grants.iter().any(|grant| grant.file == file && grant.what.is_open())
    }

    /// Whether nobody has it, for certain.
    pub(super) fn is_nobodys(&self, file: &[u8]) -> bool {
        self.grants.iter().all(|grant| grant.file != file)
    }
}
