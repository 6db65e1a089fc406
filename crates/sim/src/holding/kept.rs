//! What clients were given to keep (delegations): what they have seen of it and answer themselves from, without a word to the server, what they have written and not sent, and how it goes.
//!
//! ```text
//!  OPEN ─▶ Held, its content seen ─┬─ given back, of its own accord or as it was asked for ─▶ not there
//!                                  ├─ somebody is kept out by it: asked for ([`super::recalls`]) ── a lease later ─▶ taken: told so, up to FREE_STATEID
//!                                  ├─ its client is late, and somebody wants the file ─▶ gone with its client
//!                                  └─ a crash ─▶ claimed again, with the file as it was seen ─▶ Held, and asked for
//! ```
//!
//! As long as one is Held nobody else's change of its file is answered, so what its client has seen is what is there. That was durable when it was given (rules V12): a crash changes none of it. What another one, who asks
//! for no claims (version 3), does to the file behind the crash is the client's to find; but for what it has for writing: that nobody has read or changed before it has claimed it (rules V27), and sent what it
//! had written.

use std::collections::BTreeMap;
use std::time::Duration;

use tally_wire::nfs4::Nfsstat4::{self, *};
use tally_wire::nfs4::Stateid4;

use super::caller::{SLOT_OF_CALLS, Way};
use super::files::{CELL, CELLS, Tag, fill, tags_of};
use super::judge::{READ, WRITE};
use super::ledger::{Given, KEEPER, State, What, Who};
use super::recalls::Manner;
use super::world::Use;
use super::{Checked, Story};
use crate::words::{self, How, Told};

/// As which owner a client opens what it would keep.
const KEEPS: u8 = 2;

/// A file that a client believes to keep.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) pool: usize,
    pub(super) file: Vec<u8>,
    /// Of this session; none: it is to be claimed again.
    pub(super) stateid: Option<Stateid4>,
    /// It has it for writing.
    pub(super) writes: bool,
    /// What it has written and not sent, by cells.
    dirty: BTreeMap<usize, Tag>,
    /// The change and size with which it was given, the size with all that its client has sent since; none: its client cannot say.
    given: Option<(u64, u64)>,
    /// Its client has sent something since.
    has_sent: bool,
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
        (self.given, self.has_sent) = (None, false);
        is_claimed
    }

    /// Its client has written a cell itself, and knows whether that is durable.
    fn write(&mut self, (cell, tag): (usize, Tag), is_stable: bool) {
        self.change = None;
        self.is_loose |= !is_stable;
        self.dirty.remove(&cell);
        self.has_sent = true;
        if let Some((_, size)) = &mut self.given {
            *size = (*size).max(end_of(cell));
        }
        if let Some(content) = &mut self.content {
            content[cell] = tag;
        }
    }

    /// What its client says of its change and size (RFC 8881 §10.4.3): another change than it was given with, if it has written anything since.
    pub(super) fn attributes(&self) -> Option<(u64, u64)> {
        let (change, size) = self.given?;
        let has_written = self.has_sent || !self.dirty.is_empty();
        let end = self.dirty.keys().next_back().map_or(0, |cell| end_of(*cell));
        Some((change + u64::from(has_written), size.max(end)))
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }
}

/// Where a cell ends.
fn end_of(cell: usize) -> u64 {
    ((cell + 1) * CELL) as u64
}

impl Story {
    fn kept_of(&mut self, client: usize, file: &[u8]) -> Option<&mut Kept> {
        self.callers[client].kept.iter_mut().find(|kept| kept.file == file)
    }

    fn forget_kept(&mut self, client: usize, file: &[u8]) {
        self.note_unlisted();
        self.gave_back.extend(self.ledger.kept(file, client).cloned());
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
    pub(super) fn judge_given(&mut self, (client, owner): Who, file: &[u8], told: &Told, how: Given) -> Checked<()> {
        let Some((stateid, is_asked_for, writes)) = told.given_to_keep()? else { return Ok(()) };
        let pool = self.pool_of(file);
        if how == Given::Anew {
            self.check_may_be_given(client, file, writes)?;
        }
        if is_asked_for != (how == Given::Again) {
            return Err(format!("what client {client} is given to keep ({how:?}) is asked for: {is_asked_for}"));
        }
        self.recalls.forget(file, client);
        self.give(pool, file, (client, KEEPER), What::Keep { writes, owner }, how)?;
        self.files.settle(file);
        let (before, now) = (self.kept_of(client, file).cloned(), self.leases.now());
        self.callers[client].kept.retain(|kept| kept.file != file);
        let before = before.filter(|_| how == Given::Again);
        let (content, dirty) = before.map_or_else(Default::default, |before| (before.content, before.dirty));
        let (change, is_touched, manner, is_over) = (told.change(), false, None, false);
        let mut kept = Kept {
            pool,
            file: file.to_vec(),
            stateid: Some(stateid),
            writes,
            dirty,
            given: told.change().zip(told.size()),
            has_sent: false,
            content,
            change,
            is_touched,
            is_loose: false,
            manner,
            returns_at: None,
            is_over,
        };
        if is_asked_for {
            self.recalls.note_claimed(file, client, now);
            self.draw_return(&mut kept);
        }
        self.callers[client].kept.push(kept);
        let total = match (how, writes) {
            (Given::Anew, false) => &mut self.totals.kept,
            (Given::Anew, true) => &mut self.totals.kept_to_write,
            (Given::Again, false) => &mut self.totals.kept_again,
            (Given::Again, true) => &mut self.totals.kept_to_write_again,
        };
        *total += 1;
        let file = self.known_as(file);
        self.note(|| format!("client {client} is given {file} to keep, to write: {writes}: {how:?}"));
        Ok(())
    }

    fn check_may_be_given(&mut self, client: usize, file: &[u8], writes: bool) -> Checked<()> {
        let folder = self.files.folder_of(file).expect("it was opened");
        if writes && self.world.use_of(folder) != Use::On && self.is_heard_plainly[folder] {
            return Err(format!("client {client} is given something for writing where version 3 was a moment ago"));
        }
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

    /// It opens something to read it, or to write it, so that it may be given it, looks at all of it, and perhaps closes it.
    pub(super) fn ask_to_keep(&mut self, client: usize) -> Checked<()> {
        let (folder, name) = self.somewhere();
        let (how, access) =
            self.chance.pick(&[(How::Find, READ), (How::Find, READ | WRITE), (How::Make, READ | WRITE)]);
        self.open((client, KEEPS), (folder, name), (how, (access, 0)))?;
        let Some(file) = self.files.file_named(folder, name) else { return Ok(()) };
        if self.kept_of(client, &file).is_some() && !self.chance.one_in(4) {
            self.read_kept(client, &file)?;
        }
        if self.writes(client, &file) && !self.chance.one_in(4) {
            self.write_kept(client, &file);
        }
        let open = self.callers[client].opens.iter().find(|open| open.file == file && open.owner == KEEPS).cloned();
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
        let writes = self.writes(client, &file);
        match self.chance.below(6) {
            0 => self.give_back(client, &file),
            1 if writes => self.send(client, &file).map(drop),
            2..4 if writes => {
                self.write_kept(client, &file);
                Ok(())
            }
            _ => self.read_kept(client, &file),
        }
    }

    fn writes(&mut self, client: usize, file: &[u8]) -> bool {
        self.kept_of(client, file).is_some_and(|kept| kept.writes && kept.stateid.is_some() && !kept.is_over)
    }

    /// It writes into what it has for writing, and says nothing of it.
    fn write_kept(&mut self, client: usize, file: &[u8]) {
        let (cell, tag) = self.draw_cell();
        let name = self.known_as(file);
        self.note(|| {
            format!("client {client} writes {tag} into cell {cell} of {name}, which it keeps, and sends nothing")
        });
        if let Some(kept) = self.kept_of(client, file) {
            kept.dirty.insert(cell, tag);
        }
        self.totals.written_to_send += 1;
    }

    /// It sends what it has written. Whether all of it was sent.
    fn send(&mut self, client: usize, file: &[u8]) -> Checked<bool> {
        loop {
            let Some(kept) = self.kept_of(client, file).filter(|kept| kept.stateid.is_some()) else { return Ok(false) };
            let Some((cell, tag)) = kept.dirty.first_key_value().map(|(cell, tag)| (*cell, *tag)) else {
                return Ok(true);
            };
            let write =
                words::write(kept.stateid.as_ref().expect("it was looked at"), (cell * CELL) as u64, &fill(tag), true);
            let had_session = self.callers[client].session.is_some();
            let told = self.ask_in(client, &[words::put(file), write], (SLOT_OF_CALLS, Way::Plain))?;
            if had_session && self.callers[client].session.is_none() {
                return Ok(false);
            }
            let (state, is_certain) = (self.state_of_kept(client, file), self.keeps_for_certain(client, file));
            let (name, status) = (self.known_as(file), told.as_ref().map(|told| told.status));
            self.note(|| format!("client {client} sends {tag} of cell {cell} of {name} ({state:?}): {status:?}"));
            match status {
                None | Some(Nfs4Ok) if state == Some(State::Taken) && status.is_some() => {
                    return Err(format!("client {client} writes {name} by what was taken from it"));
                }
                None | Some(Nfs4Ok) => {
                    self.files.written(file, cell, tag, true, status.is_some());
                    self.note_written(file, Some(client), ((cell, tag), true), status.is_some())?;
                }
                Some(status) if is_certain => {
                    return Err(format!("client {client} has {name} for writing, and a WRITE is told {status:?}"));
                }
                Some(_) => return Ok(false),
            }
            if status.is_none() {
                return Ok(false);
            }
            self.totals.sent += 1;
        }
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
        let size = told.size();
        let Some(kept) = self.kept_of(client, file) else { return Ok(()) };
        kept.given = kept.given.zip(size).map(|((change, _), size)| (change, size));
        if let (true, Some(was)) = (is_certain, kept.content)
            && was != is
        {
            return Err(format!("client {client} keeps {name}, and has seen {was:?} in it, and it is {is:?}"));
        }
        // What it has for writing is shown to be newer to each who looks, as long as it has something to send.
        if let (true, Some(was)) = (is_certain && !kept.writes, kept.change)
            && Some(was) != change
        {
            return Err(format!("client {client} keeps {name}, of which the change was {was}, and is {change:?}"));
        }
        (kept.content, kept.change) = (Some(is), change);
        Ok(())
    }

    /// Whether a client keeps a file whatever the server's rules say.
    pub(super) fn keeps_for_certain(&self, client: usize, file: &[u8]) -> bool {
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
            let keeps = self.keeps_for_certain(client, file);
            let may_claim = self.state_of_kept(client, file) == Some(State::Claimable) && self.may_claim(client, pool);
            let is_certain = is_answered && keeps;
            if let Some(kept) = self.kept_of(client, file) {
                kept.change = None;
                if kept.writes && (keeps || may_claim) && by != Some(client) {
                    // Nobody else does anything to that, whether or not he is answered.
                    continue;
                }
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
            let is_nobodys = self.ledger.is_opened_by_nobody(file);
            if is_answered && is_nobodys && self.keeps_for_certain(client, file) {
                return Err(format!(
                    "client {client} takes the name of what it keeps and nobody has open, and is not asked for it"
                ));
            }
            self.ledger.doubt_kept(file, client);
        }
        self.note_change(file, by, is_answered)
    }

    // ---- given up ----

    /// DELEGRETURN, behind what it has to send.
    pub(super) fn give_back(&mut self, client: usize, file: &[u8]) -> Checked<()> {
        if self.kept_of(client, file).is_some_and(|kept| kept.is_dirty())
            && !self.send(client, file)?
            && self.keeps_for_certain(client, file)
        {
            return Ok(());
        }
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

    /// Whether it claims this with the open of a file, and for writing.
    pub(super) fn claims_kept(&self, client: usize, file: &[u8]) -> Option<bool> {
        let mut kept = self.callers[client].kept.iter();
        kept.find(|kept| kept.file == file && kept.stateid.is_none()).map(|kept| kept.writes)
    }

    /// It has claimed what it kept, and was told so or not.
    pub(super) fn judge_claimed(&mut self, (client, owner): Who, file: &[u8], told: &Told) -> Checked<()> {
        let state = self.state_of_kept(client, file);
        let is_touched = self.kept_of(client, file).is_none_or(|kept| kept.is_touched);
        if told.given_to_keep()?.is_some() {
            self.judge_given((client, owner), file, told, Given::Again)?;
            return self.read_kept(client, file);
        }
        let (pool, now) = (self.pool_of(file), self.leases.now());
        let may_be_refused =
            is_touched || !self.callers[client].is_reachable || self.recalls.may_have_been_asked_for_lately(file, now);
        if state == Some(State::Claimable) && self.may_claim(client, pool) && !may_be_refused {
            let name = self.known_as(file);
            return Err(format!("client {client} kept {name}, and does not any more: {:?}", told.status));
        }
        self.totals.kept_refused += 1;
        self.forget_kept(client, file);
        Ok(())
    }
}
