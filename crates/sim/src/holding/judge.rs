//! How a client asks in its session, and what its reply means for what is known.

use std::slice;

use tally_wire::nfs4::Nfsstat4::{self, *};
use tally_wire::nfs4::Stateid4;

use super::caller::{Believed, Caller, Came, SLOT_OF_CALLS, Way};
use super::files::{Handle, Named};
use super::ledger::{BYTES, By, Given, Grant, State, What, Who};
use super::recalls::Manner;
use super::world::FOLDERS;
use super::{Checked, Story};
use crate::words::{How, Op, Told};

/// Of an owner that is nobody's.
pub(super) const NOBODY: Who = (usize::MAX, 0);

/// `OPEN4_SHARE_ACCESS_READ` and `_WRITE`.
pub(super) const READ: u32 = 1;
pub(super) const WRITE: u32 = 2;

/// An OPEN of a name, as somebody asked for it.
#[derive(Clone, Copy)]
struct AskedOpen {
    who: Who,
    folder: usize,
    name: &'static str,
    how: How,
    share: (u32, u32),
}

impl AskedOpen {
    fn pool(self) -> usize {
        FOLDERS[self.folder].0
    }

    fn is_wrong(self, what: &str) -> Checked<()> {
        let Self { who, folder, name, how, share } = self;
        Err(format!("{who:?} {share:?} {how:?} of {name} of {folder} {what}"))
    }
}

impl Story {
    /// One compound of a client. None: it was not told, as its session is over or the power went, which is noted.
    pub(super) fn ask(&mut self, client: usize, ops: &[Op]) -> Checked<Option<Told>> {
        let slot = self.chance.below(Caller::slots() as u64) as usize;
        let way = match self.chance.below(8) {
            0 => Way::ReplyLost,
            1 => Way::Twice,
            _ => Way::Plain,
        };
        self.ask_in(client, ops, (slot, way))
    }

    /// The same in a slot that it chooses. Where it is kept out by what others keep, they are called meanwhile.
    pub(super) fn ask_in(&mut self, client: usize, ops: &[Op], (slot, way): (usize, Way)) -> Checked<Option<Told>> {
        if slot != SLOT_OF_CALLS {
            // Else it may be within another one that waits for it.
            self.gave_back.clear();
        }
        let is_dead = self.callers[client].has_lasting_session() && self.session_of[client] < self.life;
        match is_dead {
            false => self.lasting.asks(client, slot),
            true => self.lasting.is_to_do_nothing(),
        }
        let had_lost = self.recalls.may_have_lost(client, self.leases.now());
        let mut came = self.callers[client].ask(&self.world, ops, (slot, way))?;
        while let Came::Parked(on_its_way) = came {
            self.wait_for_what_is_kept(&|| on_its_way.is_woken())?;
            came = self.callers[client].go_on(&self.world, on_its_way)?;
        }
        match came {
            Came::Parked(_) => unreachable!("it went on"),
            Came::Lost => Ok(None),
            Came::SessionOver => self.session_is_over(client).map(|()| None),
            Came::Told(told) if is_dead => Err(format!("a dead session carries something out: {:?}", told.statuses())),
            Came::Told(told) => {
                let statuses = told.statuses();
                self.lasting.told(client, slot, |nth| statuses.get(nth) == Some(&Nfs4Ok));
                match way {
                    Way::Plain => {}
                    Way::ReplyLost => self.totals.repetitions += 1,
                    Way::Twice if self.callers[client].is_older() => {}
                    Way::Twice => self.totals.repetitions_beside += 1,
                }
                self.hears(client);
                self.judge_lost(client, &told, had_lost)?;
                self.answer_calls()?;
                Ok(Some(told))
            }
        }
    }

    /// What SEQUENCE says of what was taken, which is so in each word until it is freed. A compound that waits is told what was so when it began: its client may have freed it meanwhile.
    fn judge_lost(&mut self, client: usize, told: &Told, had_lost: bool) -> Checked<()> {
        let Some(has_lost) = told.says_that_it_lost() else { return Ok(()) };
        if has_lost && !had_lost && !self.recalls.may_have_lost(client, self.leases.now()) {
            return Err(format!("client {client} is told that something was taken from it, and nothing was"));
        }
        if !has_lost && self.has_lost_for_certain(client) {
            return Err(format!("client {client} is not told that something was taken from it"));
        }
        self.has_lost[client] = has_lost;
        Ok(())
    }

    fn session_is_over(&mut self, client: usize) -> Checked<()> {
        if self.session_of[client] == self.life {
            if !self.is_late(client) {
                return Err(format!("client {client} is ended, and its lease is not over"));
            }
            self.ledger.doubt(client);
        } else {
            self.totals.dead_sessions += 1;
        }
        self.note(|| format!("client {client} has no session any more"));
        for kept in self.callers[client].kept.clone() {
            if kept.manner == Some(Manner::Denies) {
                self.ledger.give_back(&kept.file, client);
            }
        }
        self.recalls.forget_client(client);
        self.callers[client].session_is_over();
        Ok(())
    }

    // ---- OPEN ----

    /// A client asked for an open of a name.
    pub(super) fn judge_open(
        &mut self,
        who: Who,
        (folder, name): (usize, &'static str),
        (how, share): (How, (u32, u32)),
        told: Option<&Told>,
    ) -> Checked<()> {
        let Some(named) = self.files.named(folder, name) else { return Err("a name is not known".into()) };
        let asked = AskedOpen { who, folder, name, how, share };
        let Some(told) = told else { return self.open_was_not_told(asked, &named) };
        let file = match &named {
            Named::File(file) => Some(file),
            _ => None,
        };
        if !told.is_ok() {
            return self.judge_open_refused(asked, file, told.status);
        }
        let (client, owner) = who;
        if !self.callers[client].is_complete && !self.callers[client].is_older() {
            return asked.is_wrong("is given, and its client may still claim something");
        }
        let handle = told.handle().ok_or("OPEN leads to no handle")?;
        self.opened(asked, file, &handle)?;
        self.totals.opens += 1;
        self.totals.older_opens += u64::from(self.callers[client].is_older());
        let stateid = told.stateid().ok_or("OPEN gives no stateid")?;
        self.believe_open(asked, &handle, stateid);
        let (access, deny) = self.callers[client].believed(&handle, owner).expect("it is there by now").share();
        self.give(asked.pool(), &handle, who, What::Open(access, deny), Given::Anew)?;
        self.judge_given(who, &handle, told, Given::Anew)?;
        told.change().map_or(Ok(()), |change| self.files.shown(&handle, change))
    }

    /// It may have been made, or cut; whoever was not told has nothing.
    fn open_was_not_told(&mut self, asked: AskedOpen, named: &Named) -> Checked<()> {
        match named {
            Named::Nobody if asked.how != How::Find => self.files.may_name(asked.folder, asked.name, Named::New),
            Named::File(file) if asked.how == How::Cut => {
                self.files.cut(file, false);
                self.note_cut(file, asked.who.0, false)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// It is told this, of this file if the name has one.
    fn judge_open_refused(&mut self, asked: AskedOpen, file: Option<&Handle>, status: Nfsstat4) -> Checked<()> {
        let AskedOpen { who, how, share, .. } = asked;
        let wanted = What::Open(share.0 | if how == How::Cut { WRITE } else { 0 }, share.1);
        let is_kept_out = file.is_some_and(|file| self.ledger.keeps_out(file, who, wanted));
        // In minor version 0 what is denied is denied to the owner as well (RFC 7530 §9.9).
        let own = file.and_then(|file| self.ledger.open(file, who));
        let is_own = self.callers[who.0].is_older() && own.is_some_and(|own| own.what.excludes(wanted));
        let files = file.map(slice::from_ref).unwrap_or_default();
        match status {
            Nfs4ErrShareDenied if is_kept_out || is_own => {
                self.totals.share_denied += 1;
                Ok(())
            }
            Nfs4ErrDelay if self.is_kept_out(By::Owner(who), wanted.changes(), files) => Ok(()),
            Nfs4ErrExist if file.is_some() && matches!(how, How::New | How::Exclusive(_)) => Ok(()),
            Nfs4ErrNoent if file.is_none() && how == How::Find => Ok(()),
            status => self
                .judge_refusal(who.0, asked.pool(), status)
                .or_else(|_| asked.is_wrong(&format!("is told {status:?}"))),
        }
    }

    /// It is a file with this handle, where the name had this one before.
    fn opened(&mut self, asked: AskedOpen, file: Option<&Handle>, handle: &Handle) -> Checked<()> {
        match (file, asked.how) {
            (None, How::Find) => return asked.is_wrong("found what is not there"),
            (Some(_), How::New | How::Exclusive(_)) => return asked.is_wrong("made what was there"),
            (Some(file), _) if file != handle => return asked.is_wrong("opened another file"),
            (None, _) if self.files.handles().contains(handle) => {
                return asked.is_wrong("made a file that was there before");
            }
            (None, _) => self.files.name(asked.folder, asked.name, Named::File(handle.clone())),
            (Some(file), How::Cut) => {
                self.files.cut(file, true);
                self.note_cut(file, asked.who.0, true)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// From now on its client believes that it has that open.
    fn believe_open(&mut self, asked: AskedOpen, handle: &[u8], stateid: Stateid4) {
        let AskedOpen { who: (client, owner), share, .. } = asked;
        let caller = &mut self.callers[client];
        // What was to be claimed is not any more: in minor version 0 the time for that may be over without a word.
        caller.opens.retain(|open| open.file != handle || open.owner != owner || open.stateid.is_some());
        match caller.believed(handle, owner) {
            Some(open) => {
                open.shares.push(share);
                open.stateid = Some(stateid);
            }
            None => caller.opens.push(Believed {
                pool: asked.pool(),
                file: handle.to_vec(),
                owner,
                shares: vec![share],
                stateid: Some(stateid),
                bytes: [None; BYTES],
                locks: None,
                lost: [false; BYTES],
                is_claimed: false,
            }),
        }
    }

    /// The ledger hears that something was given.
    pub(super) fn give(&mut self, pool: usize, file: &[u8], who: Who, what: What, how: Given) -> Checked<()> {
        let grant = Grant { pool, file: file.to_vec(), who, what, state: State::Held, is_loose: false };
        let before = self.ledger.ended;
        self.with_ledger(pool, |ledger, moment| ledger.given(&grant, how, moment))?;
        self.totals.ended += self.ledger.ended - before;
        if how == Given::Anew && self.callers[who.0].is_older() {
            // What it has not claimed by then it does not claim behind the next crash: it is others' by now.
            self.callers[who.0].opens.retain(|open| open.pool != pool || open.stateid.is_some());
            self.ledger.give_up(who.0, &|of| of == pool, &|state| state != State::Held);
        }
        if how == Given::Anew {
            self.given_anew[pool].insert(who.0);
            if !self.recalls.may_have_lost(who.0, self.leases.now()) {
                self.unlisted[pool].remove(&who.0);
            }
        }
        Ok(())
    }

    /// What is told of a pool, and not of what is asked for.
    pub(super) fn judge_refusal(&mut self, client: usize, pool: usize, status: Nfsstat4) -> Checked<()> {
        match status {
            Nfs4ErrDelay if !self.world.is_here(pool) => Ok(()),
            Nfs4ErrGrace if !self.callers[client].is_complete || self.may_be_in_grace(pool) => {
                self.totals.grace += 1;
                Ok(())
            }
            _ => Err(format!("client {client} is told {status:?} of pool {pool}")),
        }
    }

    /// Something that is not to be given is asked for: whoever has it and is late may be ended for it.
    pub(super) fn note_asked(&mut self, file: &[u8], who: Who, what: What) {
        for client in self.ledger.in_the_way(file, who, what) {
            self.crossed[client] |= self.is_late(client);
        }
    }

    // ---- LOCK ----

    /// A client asked for bytes below an open.
    pub(super) fn judge_lock(
        &mut self,
        (client, owner): Who,
        (file, bytes, writes): (&[u8], std::ops::Range<usize>, bool),
        told: &Told,
    ) -> Checked<()> {
        let pool = self.pool_of(file);
        let who = (client, owner);
        if told.is_ok() {
            self.totals.locks += 1;
            for byte in bytes.clone() {
                self.give(pool, file, who, What::Byte(byte, writes), Given::Anew)?;
            }
            let stateid = told.stateid();
            if let Some(open) = self.callers[client].believed(file, owner) {
                open.locks = stateid;
                // What it had there before the restart it has no more to claim.
                bytes.for_each(|byte| (open.bytes[byte], open.lost[byte]) = (Some(writes), false));
            }
            return Ok(());
        }
        let is_kept_out = bytes.clone().any(|byte| self.ledger.keeps_out(file, who, What::Byte(byte, writes)));
        let is_open = self.ledger.open(file, who).is_some_and(|grant| grant.state == State::Held);
        match told.status {
            Nfs4ErrDenied if is_kept_out => {
                self.totals.lock_denied += 1;
                Ok(())
            }
            status if is_open => self
                .judge_refusal(client, pool, status)
                .map_err(|what| format!("a LOCK of {bytes:?} by {who:?}: {what}")),
            _ => Ok(()),
        }
    }

    pub(super) fn pool_of(&self, file: &[u8]) -> usize {
        FOLDERS[self.files.folder_of(file).expect("it was opened")].0
    }
}
