//! What clients were given to keep (read delegations): what they have seen of it and answer themselves from, without a word to the server, and how it goes.
//!
//! ```text
//!  OPEN ─▶ Held, its content seen ─┬─ given back, of its own accord or as it was asked for ─▶ not there
//!                                  ├─ somebody is kept out by it: asked for ([`super::recalls`]) ── a lease later ─▶ taken: told so, up to FREE_STATEID
//!                                  ├─ its client is late, and somebody wants the file ─▶ gone with its client
//!                                  └─ a crash ─▶ claimed again, with the file as it was seen ─▶ Held, and asked for
//! ```
//!
//! As long as one is Held nobody else's change of its file is answered, so what its client has seen is what is there. That was durable when it was given (rules V12): a crash changes none of it. What another one, who asks
//! for no claims (version 3), does to the file behind the crash is the client's to find.

use std::time::Duration;

use tally_wire::nfs4::Nfsstat4::{self, *};
use tally_wire::nfs4::Stateid4;

use super::caller::{SLOT_OF_CALLS, Way};
use super::files::{CELL, CELLS, Tag, tags_of};
use super::judge::READ;
use super::ledger::{Given, KEEPER, State, What};
use super::recalls::Manner;
use super::words::{self, How, Told};
use super::{Checked, Story};

/// A file that a client believes to keep.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) pool: usize,
    pub(super) file: Vec<u8>,
    /// Of this session; none: it is to be claimed again.
    pub(super) stateid: Option<Stateid4>,
    /// What it has seen of it, and the change it goes with.
    content: Option<[Tag; CELLS]>,
    change: Option<u64>,
    /// Somebody else may have changed it meanwhile.
    is_touched: bool,
    /// Its client has written something that is not durable.
    is_loose: bool,
    /// How it is with giving it back, once it was asked for; and when it does.
    pub(super) manner: Option<Manner>,
    pub(super) returns_at: Option<Duration>,
    /// Its pool was exported meanwhile.
    pub(super) is_over: bool,
}

impl Kept {
    /// Its client's session is over. Whether it is to be claimed again.
    pub(super) fn session_is_over(&mut self) -> bool {
        let is_claimed = !self.is_over && self.manner != Some(Manner::Denies);
        if std::mem::take(&mut self.is_loose) {
            self.content = None;
        }
        (self.stateid, self.change, self.manner, self.returns_at) = (None, None, None, None);
        is_claimed
    }

    /// Its client has written a cell itself, and knows whether that is durable.
    fn write(&mut self, (cell, tag): (usize, Tag), is_stable: bool) {
        self.change = None;
        self.is_loose |= !is_stable;
        if let Some(content) = &mut self.content {
            content[cell] = tag;
        }
    }
}

impl Story {
    fn kept_of(&mut self, client: usize, file: &[u8]) -> Option<&mut Kept> {
        self.callers[client].kept.iter_mut().find(|kept| kept.file == file)
    }

    fn forget_kept(&mut self, client: usize, file: &[u8]) {
        self.note_unlisted();
        self.ledger.give_back(file, client);
        self.recalls.forget(file, client);
        self.callers[client].kept.retain(|kept| kept.file != file);
    }

    /// How it stands with what a client keeps, as far as the server's rules go.
    fn state_of_kept(&self, client: usize, file: &[u8]) -> Option<State> {
        self.ledger.kept(file, client).map(|grant| grant.state)
    }

    // ---- given ----

    /// An OPEN was answered: whether with something to keep.
    pub(super) fn judge_given(&mut self, client: usize, file: &[u8], told: &Told, how: Given) -> Checked<()> {
        let Some((stateid, is_asked_for)) = told.given_to_keep()? else { return Ok(()) };
        let pool = self.pool_of(file);
        if how == Given::Anew {
            self.check_may_be_given(client, file)?;
        }
        if is_asked_for != (how == Given::Again) {
            return Err(format!("what client {client} is given to keep ({how:?}) is asked for: {is_asked_for}"));
        }
        self.recalls.forget(file, client);
        self.give(pool, file, (client, KEEPER), What::Keep, how)?;
        self.files.settle(file);
        let (before, now) = (self.kept_of(client, file).cloned(), self.leases.now());
        self.callers[client].kept.retain(|kept| kept.file != file);
        let content = before.and_then(|before| before.content.filter(|_| how == Given::Again));
        let (change, is_touched, manner, is_over) = (told.change(), false, None, false);
        let mut kept = Kept {
            pool,
            file: file.to_vec(),
            stateid: Some(stateid),
            content,
            change,
            is_touched,
            is_loose: false,
            manner,
            returns_at: None,
            is_over,
        };
        if is_asked_for {
            self.recalls.note(file, client, now);
            self.draw_return(&mut kept);
        }
        self.callers[client].kept.push(kept);
        *(if how == Given::Anew { &mut self.totals.kept } else { &mut self.totals.kept_again }) += 1;
        let file = self.known_as(file);
        self.note(|| format!("client {client} is given {file} to keep: {how:?}"));
        Ok(())
    }

    fn check_may_be_given(&mut self, client: usize, file: &[u8]) -> Checked<()> {
        if let Some(kept) =
            self.kept_of(client, file).filter(|kept| !kept.is_over && kept.manner != Some(Manner::Denies))
        {
            return Err(format!("client {client} is given once more what it keeps: {kept:?}"));
        }
        if self.recalls.was_asked_for_lately(file, self.leases.now()) {
            return Err(format!("client {client} is given what was asked for a moment ago"));
        }
        if self.has_lost_for_certain(client) {
            return Err(format!("client {client} is given something to keep, and does not know what it has lost"));
        }
        Ok(())
    }

    /// It opens something to read it, so that it may be given it, looks at all of it, and perhaps closes it.
    pub(super) fn ask_to_keep(&mut self, client: usize) -> Checked<()> {
        let (folder, name) = self.somewhere();
        self.open((client, 2), (folder, name), (How::Find, (READ, 0)))?;
        let Some(file) = self.files.file_named(folder, name) else { return Ok(()) };
        if self.kept_of(client, &file).is_some() && !self.chance.one_in(4) {
            self.read_kept(client, &file)?;
        }
        let open = self.callers[client].opens.iter().find(|open| open.file == file && open.owner == 2).cloned();
        match open {
            Some(open) if self.chance.one_in(2) && self.world.is_here(open.pool) => self.ask_close(client, &open),
            _ => Ok(()),
        }
    }

    // ---- seen ----

    /// Looks at something that it keeps.
    pub(super) fn ask_kept(&mut self, client: usize) -> Checked<()> {
        let is_there = |kept: &&Kept| kept.stateid.is_some() && self.world.is_here(kept.pool) && !kept.is_over;
        let kept: Vec<_> = self.callers[client].kept.iter().filter(is_there).map(|kept| kept.file.clone()).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let file = self.chance.pick(&kept);
        if self.chance.one_in(6) { self.give_back(client, &file) } else { self.read_kept(client, &file) }
    }

    /// Reads what it keeps, by that: it is as it was seen.
    fn read_kept(&mut self, client: usize, file: &[u8]) -> Checked<()> {
        let Some(stateid) = self.kept_of(client, file).and_then(|kept| kept.stateid.clone()) else { return Ok(()) };
        let ops = [words::put(file), words::read(&stateid, 0, (CELLS * CELL) as u32), words::get_change()];
        let Some(told) = self.ask(client, &ops)? else { return Ok(()) };
        let (state, is_certain) = (self.state_of_kept(client, file), self.keeps_for_certain(client, file));
        let name = self.known_as(file);
        self.note(|| format!("client {client} reads {name}, which it keeps ({state:?}): {:?}", told.status));
        let Some(data) = told.data() else {
            return match is_certain {
                true => Err(format!("client {client} keeps {name}, and a READ is told {:?}", told.status)),
                false => Ok(()),
            };
        };
        if state == Some(State::Taken) {
            return Err(format!("client {client} reads {name} by what was taken from it"));
        }
        self.files.read(file, data)?;
        let (is, change) = (tags_of(data)?, told.change());
        change.map_or(Ok(()), |change| self.files.shown(file, change))?;
        let Some(kept) = self.kept_of(client, file) else { return Ok(()) };
        if let (true, Some(was)) = (is_certain, kept.content)
            && was != is
        {
            return Err(format!("client {client} keeps {name}, and has seen {was:?} in it, and it is {is:?}"));
        }
        if let (true, Some(was)) = (is_certain, kept.change)
            && Some(was) != change
        {
            return Err(format!("client {client} keeps {name}, of which the change was {was}, and is {change:?}"));
        }
        (kept.content, kept.change) = (Some(is), change);
        Ok(())
    }

    /// Whether a client keeps a file whatever the server's rules say.
    fn keeps_for_certain(&self, client: usize, file: &[u8]) -> bool {
        self.state_of_kept(client, file) == Some(State::Held)
            && !self.is_late(client)
            && !self.recalls.is_overdue(file, client, self.leases.now())
    }

    // ---- changed ----

    /// A file was changed, by this client if it was one; or may have been, as nobody was answered.
    pub(super) fn note_change(&mut self, file: &[u8], by: Option<usize>, is_answered: bool) -> Checked<()> {
        self.note_change_of(file, by, (is_answered, true))
    }

    fn note_change_of(
        &mut self,
        file: &[u8],
        by: Option<usize>,
        (is_answered, is_stable): (bool, bool),
    ) -> Checked<()> {
        let pool = self.pool_of(file);
        if is_answered {
            let before = self.ledger.ended;
            self.with_ledger(pool, |ledger, moment| ledger.changed(file, by, is_stable, moment))?;
            self.totals.ended += self.ledger.ended - before;
        }
        for client in 0..self.callers.len() {
            let is_certain = is_answered && self.keeps_for_certain(client, file);
            if let Some(kept) = self.kept_of(client, file) {
                kept.change = None;
                if by != Some(client) || !is_answered {
                    kept.is_touched = true;
                    kept.content = kept.content.filter(|_| is_certain && by != Some(client));
                }
            }
        }
        Ok(())
    }

    /// The same of a cell, which this client has filled.
    pub(super) fn note_written(
        &mut self,
        file: &[u8],
        by: Option<usize>,
        (cell, is_stable): ((usize, Tag), bool),
        is_answered: bool,
    ) -> Checked<()> {
        self.note_change_of(file, by, (is_answered, is_stable))?;
        let own = by.filter(|_| is_answered).and_then(|client| self.kept_of(client, file));
        own.into_iter().for_each(|kept| kept.write(cell, is_stable));
        Ok(())
    }

    /// The same of all of it, which this client has cut.
    pub(super) fn note_cut(&mut self, file: &[u8], by: usize, is_answered: bool) -> Checked<()> {
        (0..CELLS).try_for_each(|cell| self.note_written(file, Some(by), ((cell, 0), true), is_answered))
    }

    /// A client has taken a name from what it keeps itself: it goes with it, or not.
    pub(super) fn note_unlinked(&mut self, file: &[u8], by: Option<usize>, is_answered: bool) -> Checked<()> {
        if let Some(client) = by {
            self.ledger.doubt_kept(file, client);
        }
        self.note_change(file, by, is_answered)
    }

    // ---- given up ----

    /// DELEGRETURN.
    pub(super) fn give_back(&mut self, client: usize, file: &[u8]) -> Checked<()> {
        let Some(stateid) = self.kept_of(client, file).and_then(|kept| kept.stateid.clone()) else { return Ok(()) };
        let ops = [words::put(file), words::give_back(&stateid)];
        let Some(told) = self.ask_in(client, &ops, (SLOT_OF_CALLS, Way::Plain))? else { return Ok(()) };
        let (state, is_certain) = (self.state_of_kept(client, file), self.keeps_for_certain(client, file));
        let name = self.known_as(file);
        self.note(|| format!("client {client} gives back {name} ({state:?}): {:?}", told.status));
        match told.status {
            Nfs4Ok if state == Some(State::Taken) => Err(format!("client {client} gives back what was taken")),
            Nfs4Ok => {
                self.totals.returned += 1;
                self.came_back.push(file.to_vec());
                self.forget_kept(client, file);
                Ok(())
            }
            status if is_certain => Err(format!("client {client} gives back {name}, and is told {status:?}")),
            Nfs4ErrDelegRevoked => self.free(client, file, &stateid),
            _ => {
                self.forget_kept(client, file);
                Ok(())
            }
        }
    }

    /// FREE_STATEID of what was taken.
    fn free(&mut self, client: usize, file: &[u8], stateid: &Stateid4) -> Checked<()> {
        let ops = [words::free_stateid(stateid)];
        let Some(told) = self.ask_in(client, &ops, (SLOT_OF_CALLS, Way::Plain))? else { return Ok(()) };
        if !told.is_ok() {
            return Err(format!("FREE_STATEID of what was taken from client {client} is told {:?}", told.status));
        }
        self.totals.revoked += 1;
        self.forget_kept(client, file);
        Ok(())
    }

    /// It asks which of what it keeps it has lost, and frees that.
    pub(super) fn ask_what_is_lost(&mut self, client: usize) -> Checked<()> {
        for kept in self.callers[client].kept.clone() {
            let Some(stateid) = kept.stateid.clone() else { continue };
            let test = [words::test_stateid(&stateid)];
            let told = self.ask_in(client, &test, (SLOT_OF_CALLS, Way::Plain))?;
            let Some(status) = told.and_then(|told| told.tested()) else { return Ok(()) };
            self.note(|| format!("client {client} asks for what it keeps: {status:?}"));
            self.learn(client, &kept, status)?;
        }
        Ok(())
    }

    fn learn(&mut self, client: usize, kept: &Kept, status: Nfsstat4) -> Checked<()> {
        let (file, stateid) = (&kept.file, kept.stateid.as_ref().expect("it was asked for"));
        let (state, is_certain) = (self.state_of_kept(client, file), self.keeps_for_certain(client, file));
        match status {
            Nfs4Ok if state == Some(State::Taken) => {
                Err(format!("client {client} is told that it keeps what was taken from it"))
            }
            Nfs4Ok if self.recalls.is_over_long_since(file, client, self.leases.now()) => {
                Err(format!("client {client} keeps what was asked for longer than a lease ago"))
            }
            Nfs4Ok => Ok(()),
            status if is_certain => Err(format!("client {client} is told {status:?} of what it keeps")),
            Nfs4ErrDelegRevoked | Nfs4ErrAdminRevoked => self.free(client, file, stateid),
            _ => {
                self.forget_kept(client, file);
                Ok(())
            }
        }
    }

    /// Whether something was taken from a client that it has to know of by now, at its next word.
    pub(super) fn has_lost_for_certain(&self, client: usize) -> bool {
        self.callers[client].kept.iter().any(|kept| {
            let is_taken = self.state_of_kept(client, &kept.file) == Some(State::Taken);
            is_taken && kept.stateid.is_some() && !kept.is_over && kept.manner != Some(Manner::Denies)
        })
    }

    // ---- claimed again ----

    /// Whether it claims this with the open of a file.
    pub(super) fn claims_kept(&self, client: usize, file: &[u8]) -> bool {
        self.callers[client].kept.iter().any(|kept| kept.file == file && kept.stateid.is_none())
    }

    /// It has claimed what it kept, and was told so or not.
    pub(super) fn judge_claimed(&mut self, client: usize, file: &[u8], told: &Told) -> Checked<()> {
        let state = self.state_of_kept(client, file);
        let is_touched = self.kept_of(client, file).is_none_or(|kept| kept.is_touched);
        if told.given_to_keep()?.is_some() {
            self.judge_given(client, file, told, Given::Again)?;
            return self.read_kept(client, file);
        }
        let (pool, now) = (self.pool_of(file), self.leases.now());
        let may_be_refused =
            is_touched || !self.callers[client].is_reachable || self.recalls.was_asked_for_lately(file, now);
        if state == Some(State::Claimable) && self.may_claim(client, pool) && !may_be_refused {
            let name = self.known_as(file);
            return Err(format!("client {client} kept {name}, and does not any more: {:?}", told.status));
        }
        self.totals.kept_refused += 1;
        self.forget_kept(client, file);
        Ok(())
    }
}
