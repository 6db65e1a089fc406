//! Sessions that outlive the server (rules V5 to V7): behind a crash each client that has one asks once more what it asked last in each slot, in the session that is dead by then, and is told what that did, or that
//! it did nothing; nothing is done twice, and nothing new.
//!
//! ```text
//!   asked in a slot ──┬─ answered OK ──── crash ──▶ asked again ──▶ OK, once more: what it did is durable, and so is its mark, which is in the same record
//!                     ├─ answered no ──── crash ──▶ asked again ──▶ it did nothing: DEADSESSION, or BADSESSION where nothing is known of the session
//!                     └─ not answered ─── crash ──▶ asked again ──▶ OK if the name is as it would have left it, and refused as above if it is as before
//! ```
//!
//! A name that was made is told by no EXIST then, and one that is gone by no NOENT: that is what the client would tell its user.

use tally_wire::nfs4::Nfsstat4::{self, *};

use super::caller::Caller;
use super::files::{Handle, Named};
use super::world::{FOLDERS, POOLS};
use super::{CALLERS, Checked, Story};
use crate::words::{self, Op};

/// A name of each folder that is a directory's, or nobody's.
const DIRECTORY: &str = "d";

/// What a request was to do to names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// A file, or a directory.
    Makes(usize, &'static str),
    Removes(usize, &'static str),
    /// From one name to another one, what has the first.
    Renames(usize, [&'static str; 2], Option<Handle>),
}

impl Does {
    fn folder(&self) -> usize {
        match self {
            Self::Makes(folder, _) | Self::Removes(folder, _) | Self::Renames(folder, ..) => *folder,
        }
    }

    /// Which of its operations that is, behind SEQUENCE.
    fn operation(&self) -> usize {
        if matches!(self, Self::Renames(..)) { 3 } else { 2 }
    }
}

/// The last request of a slot that was to do something to names.
#[derive(Clone, Debug)]
pub(super) struct Did {
    does: Does,
    /// Whether it was told that it has; none: it was told nothing.
    told: Option<bool>,
}

/// What is known of these requests, by slots.
#[derive(Debug)]
pub(super) struct Lasting {
    slots: [[Option<Did>; Caller::SLOTS]; CALLERS],
    /// What the next request is to do.
    next: Option<Does>,
    /// Whether there may be a directory in a folder, and whether there may be none.
    directories: [(bool, bool); FOLDERS.len()],
}

impl Lasting {
    pub(super) fn new() -> Self {
        Self { slots: Default::default(), next: None, directories: [(false, true); FOLDERS.len()] }
    }

    /// The next request is to do this.
    pub(super) fn is_to(&mut self, does: Does) {
        self.next = Some(does);
    }

    /// It is not carried out, as its session is dead.
    pub(super) fn is_to_do_nothing(&mut self) {
        self.next = None;
    }

    /// A client asks in a slot.
    pub(super) fn asks(&mut self, client: usize, slot: usize) {
        self.slots[client][slot] = self.next.take().map(|does| Did { does, told: None });
    }

    /// It is answered: with this by its operation that is the nth.
    pub(super) fn told(&mut self, client: usize, slot: usize, is_done: impl Fn(usize) -> bool) {
        if let Some(did) = &mut self.slots[client][slot] {
            did.told = Some(is_done(did.does.operation()));
        }
    }

    /// A client has another session.
    pub(super) fn forget(&mut self, client: usize) {
        self.slots[client] = Default::default();
    }
}

impl Story {
    /// CREATE of a directory, or REMOVE of it.
    pub(super) fn ask_directory(&mut self, client: usize) -> Checked<()> {
        let folder = self.chance.below(FOLDERS.len() as u64) as usize;
        if !self.world.is_here(FOLDERS[folder].0) {
            return Ok(());
        }
        let root = words::put(self.world.root(folder));
        let makes = self.chance.one_in(2);
        let (op, does) = match makes {
            true => (words::make_directory(DIRECTORY), Does::Makes(folder, DIRECTORY)),
            false => (words::remove(DIRECTORY), Does::Removes(folder, DIRECTORY)),
        };
        let (may_be, may_not_be) = self.lasting.directories[folder];
        if !(if makes { may_be } else { may_not_be }) {
            self.lasting.is_to(does);
        }
        let had_session = self.callers[client].session.is_some();
        let told = self.ask(client, &[root, op])?;
        if had_session && self.callers[client].session.is_none() {
            return Ok(());
        }
        let status = told.map(|told| told.status);
        self.note(|| format!("client {client} makes: {makes} a directory in {folder}: {status:?}"));
        let (may_be, may_not_be) = &mut self.lasting.directories[folder];
        match status {
            None => (*may_be, *may_not_be) = (*may_be || makes, *may_not_be || !makes),
            Some(Nfs4Ok) if makes && *may_not_be => (*may_be, *may_not_be) = (true, false),
            Some(Nfs4Ok) if !makes && *may_be => (*may_be, *may_not_be) = (false, true),
            Some(Nfs4ErrExist) if makes && *may_be => (*may_be, *may_not_be) = (true, false),
            Some(Nfs4ErrNoent) if !makes && *may_not_be => (*may_be, *may_not_be) = (false, true),
            Some(Nfs4ErrGrace) if !makes && self.waits_for_claims(folder, Some(client)) => {}
            Some(status) => return Err(format!("a directory is made: {makes}, and that is told {status:?}")),
        }
        Ok(())
    }

    /// A pool has come: a directory is there or not.
    pub(super) fn look_for_directories(&mut self, pool: usize) -> Checked<()> {
        for folder in (0..FOLDERS.len()).filter(|folder| FOLDERS[*folder].0 == pool) {
            let is_there = self.world.name_is(folder, DIRECTORY)?.is_some();
            let (may_be, may_not_be) = self.lasting.directories[folder];
            if !(if is_there { may_be } else { may_not_be }) {
                return Err(format!("a directory of folder {folder} is there: {is_there}, and cannot be"));
            }
            self.lasting.directories[folder] = (is_there, !is_there);
        }
        Ok(())
    }

    /// What has this name now, past all protocols.
    fn now(&self, folder: usize, name: &str) -> Checked<Option<Handle>> {
        self.world.name_is(folder, name)
    }

    /// The server has come back: whoever has a session that outlives it asks once more for what it asked last.
    pub(super) fn ask_what_was_done(&mut self) -> Checked<()> {
        for client in 0..CALLERS {
            let is_dead = self.session_of[client] < self.life;
            if !is_dead || !self.callers[client].has_lasting_session() || self.callers[client].is_silent {
                continue;
            }
            for slot in 0..Caller::SLOTS {
                self.ask_again(client, slot)?;
                if self.world.is_off() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn ask_again(&mut self, client: usize, slot: usize) -> Checked<()> {
        if !self.callers[client].has_asked(slot) {
            return Ok(());
        }
        let did = self.lasting.slots[client][slot].clone();
        let before = self.names_now()?;
        if self.chance.one_in(4) {
            self.ask_falsely_again(client, slot)?;
        }
        let Some(told) = self.callers[client].retry(&self.world, slot)? else { return Ok(()) };
        self.totals.dead_retries += 1;
        let after = self.names_now()?;
        self.note(|| {
            format!("client {client} asks again in slot {slot} of its dead session: {:?}, {did:?}", told.statuses())
        });
        if before != after {
            return Err(format!("a request of a dead session is carried out: {before:x?} before, {after:x?} behind"));
        }
        let are_all_here = (0..POOLS).all(|pool| self.world.is_here(pool));
        let is_refused = told.is_refused_at_sequence();
        match told.status {
            Nfs4ErrBadsession | Nfs4ErrDeadsession if is_refused => {}
            Nfs4ErrDelay if is_refused && !are_all_here => return Ok(()),
            status if is_refused => return Err(format!("SEQUENCE of a dead session is told {status:?}")),
            _ => self.totals.dead_told += 1,
        }
        let Some(Did { does, told: was }) = did.filter(|did| self.world.is_here(FOLDERS[did.does.folder()].0)) else {
            return Ok(());
        };
        let own = told.statuses().get(does.operation()).copied();
        let is_told = own == Some(Nfs4Ok);
        if !is_told && !is_refused && own.is_some_and(|own| own != Nfs4ErrDeadsession) {
            return Err(format!("{does:?} of a dead session is told {own:?}"));
        }
        let is_done = match (was, &does) {
            (Some(was), _) => was,
            (None, Does::Makes(folder, name)) => self.now(*folder, name)?.is_some(),
            (None, Does::Removes(folder, name)) => self.now(*folder, name)?.is_none(),
            (None, Does::Renames(folder, [from, to], file)) => {
                self.now(*folder, from)?.is_none() && self.now(*folder, to)? == *file
            }
        };
        if is_told != is_done {
            return Err(format!(
                "{does:?} (told {was:?}) is done: {is_done}, and in a dead session it is told {own:?}"
            ));
        }
        self.totals.dead_lost += u64::from(was.is_none());
        Ok(())
    }

    /// Another request comes for that slot: nobody knows it, and it is not carried out.
    fn ask_falsely_again(&mut self, client: usize, slot: usize) -> Checked<()> {
        let folder = self.chance.below(FOLDERS.len() as u64) as usize;
        let other: [Op; 3] = [words::put(self.world.root(folder)), words::save(), words::remove("another")];
        let Some(told) = self.callers[client].retry_falsely(&self.world, slot, &other)? else { return Ok(()) };
        let refused: [Nfsstat4; 3] = [Nfs4ErrBadsession, Nfs4ErrDeadsession, Nfs4ErrDelay];
        if !told.is_refused_at_sequence() || !refused.contains(&told.status) {
            return Err(format!("another request for a slot of a dead session is told {:?}", told.statuses()));
        }
        self.totals.dead_false += 1;
        Ok(())
    }

    /// All names, past all protocols.
    fn names_now(&self) -> Checked<Vec<Option<Handle>>> {
        let here = (0..FOLDERS.len()).filter(|folder| self.world.is_here(FOLDERS[*folder].0));
        let names = here.flat_map(|folder| super::NAMES.into_iter().chain([DIRECTORY]).map(move |name| (folder, name)));
        names.map(|(folder, name)| self.now(folder, name)).collect()
    }

    /// An OPEN is about to be asked for, which may make its file.
    pub(super) fn is_to_make(&mut self, folder: usize, name: &'static str) {
        if self.files.named(folder, name) == Some(Named::Nobody) {
            self.lasting.is_to(Does::Makes(folder, name));
        }
    }
}
