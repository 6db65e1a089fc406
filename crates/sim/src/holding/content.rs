//! What clients of version 4 read and write, by what they have open and by nothing, and which names they change.

use tally_wire::nfs4::Nfsstat4::*;

use super::caller::Believed;
use super::files::{CELL, CELLS, Handle, fill};
use super::judge::{NOBODY, READ, WRITE};
use super::lasting::Does;
use super::ledger::{By, What};
use super::recalls::Manner;
use super::world::FOLDERS;
use super::{Checked, NAMES, Story};
use crate::words;

impl Story {
    /// READ or WRITE by an open.
    pub(super) fn ask_io(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let Some(stateid) = &open.stateid else { return Ok(()) };
        let (access, reads) = (open.share().0, self.chance.one_in(2));
        let by = open.locks.clone().filter(|_| self.chance.one_in(3)).unwrap_or_else(|| stateid.clone());
        let (told, may) = if reads {
            let ops = [words::put(&open.file), words::read(&by, 0, (CELLS * CELL) as u32), words::get_change()];
            let Some(told) = self.ask(client, &ops)? else { return Ok(()) };
            if let Some(data) = told.data() {
                self.files.read(&open.file, data)?;
            }
            // Who may write may read, where a server lets him (RFC 8881 §9.7).
            (told, access & READ != 0)
        } else {
            let ((cell, tag), is_stable) = (self.draw_cell(), !self.chance.one_in(3));
            let write = words::write(&by, (cell * CELL) as u64, &fill(tag), is_stable);
            let had_session = self.callers[client].session.is_some();
            let told = self.ask(client, &[words::put(&open.file), write, words::get_change()])?;
            if had_session && self.callers[client].session.is_none() {
                return Ok(());
            }
            let is_done = told.as_ref().is_none_or(|told| told.is_ok());
            self.note(|| format!("client {client} writes {tag} into cell {cell}, stable {is_stable}"));
            if is_done {
                self.files.written(&open.file, cell, tag, is_stable, told.is_some());
                self.note_written(&open.file, Some(client), ((cell, tag), is_stable), told.is_some())?;
            }
            let Some(told) = told else { return Ok(()) };
            if told.is_ok() && access & WRITE == 0 {
                return Err(format!("client {client} writes by an open for reading"));
            }
            (told, access & WRITE != 0)
        };
        let is_nameless = self.files.is_nameless(&open.file);
        let file = self.known_as(&open.file);
        self.note(|| format!("client {client} reads: {reads} by its open of {file}: {:?}", told.status));
        if told.is_ok() {
            self.totals.io_by_open += 1;
            self.totals.nameless_io += u64::from(is_nameless);
            self.totals.nameless_io_behind += u64::from(is_nameless && open.is_claimed);
            return told.change().map_or(Ok(()), |change| self.files.shown(&open.file, change));
        }
        match told.status {
            Nfs4ErrOpenmode if !may => Ok(()),
            status if self.is_held(client, open) => {
                Err(format!("client {client} has {file} open, and is told {status:?}"))
            }
            _ => Ok(()),
        }
    }

    /// READ or WRITE by the stateid that stands for no open.
    pub(super) fn ask_io_by_nobody(&mut self, client: usize) -> Checked<()> {
        let (folder, name) = self.somewhere();
        let pool = FOLDERS[folder].0;
        let Some(file) = self.files.file_named(folder, name).filter(|_| self.world.is_here(pool)) else {
            return Ok(());
        };
        let (reads, (cell, tag)) = (self.chance.one_in(2), self.draw_cell());
        let access = if reads { READ } else { WRITE };
        self.note_asked(&file, NOBODY, What::Open(access, 0));
        self.note_wanted(std::slice::from_ref(&file), Some(client));
        let ask = match reads {
            true => words::read(&words::nobodys(), 0, (CELLS * CELL) as u32),
            false => words::write(&words::nobodys(), (cell * CELL) as u64, &fill(tag), true),
        };
        let had_session = self.callers[client].session.is_some();
        let told = self.ask(client, &[words::put(&file), ask, words::get_change()])?;
        if had_session && self.callers[client].session.is_none() {
            return Ok(());
        }
        if !reads && told.as_ref().is_none_or(|told| told.is_ok()) {
            self.files.written(&file, cell, tag, true, told.is_some());
            self.note_written(&file, Some(client), ((cell, tag), true), told.is_some())?;
        }
        let Some(told) = told else { return Ok(()) };
        self.note(|| format!("client {client} reads {name} of {folder}: {reads} by no open: {:?}", told.status));
        if let Some(data) = told.data() {
            self.files.read(&file, data)?;
        }
        self.totals.io_by_nobody += 1;
        match told.status {
            Nfs4Ok => {
                self.with_ledger(pool, |ledger, moment| ledger.passed(&file, access, client, moment))?;
                told.change().map_or(Ok(()), |change| self.files.shown(&file, change))
            }
            Nfs4ErrLocked if self.ledger.keeps_out(&file, NOBODY, What::Open(access, 0)) => {
                self.totals.locked += 1;
                Ok(())
            }
            Nfs4ErrDelay if self.is_kept_out(By::Client(client), !reads, &[file]) => Ok(()),
            status => self.judge_refusal(client, pool, status),
        }
    }

    /// GETATTR.
    pub(super) fn ask_look(&mut self, client: usize) -> Checked<()> {
        let (folder, name) = self.somewhere_kept();
        let Some(file) = self.files.file_named(folder, name).filter(|_| self.world.is_here(FOLDERS[folder].0)) else {
            return Ok(());
        };
        self.note_wanted(std::slice::from_ref(&file), Some(client));
        let Some(told) = self.ask(client, &[words::put(&file), words::get_change()])? else { return Ok(()) };
        self.note(|| format!("client {client} looks at {name} of {folder}: {:?}", told.status));
        match (told.status, told.change().zip(told.size())) {
            (Nfs4Ok, Some(is)) => self.judge_look(By::Client(client), &file, is),
            (Nfs4ErrDelay, _) if self.is_kept_from_looking(By::Client(client), &file) => Ok(()),
            (status, _) => Err(format!("a GETATTR is told {status:?}")),
        }
    }

    /// Somebody was told of the change and size of a file: as its holder knows them who has it for writing.
    pub(super) fn judge_look(&mut self, by: By, file: &Handle, (change, size): (u64, u64)) -> Checked<()> {
        let last = self.files.last_shown(file);
        if self.judge_size(by, file, size)? && last.is_some_and(|last| change <= last) {
            return Err(format!("somebody has written into a file, and its change is told to be {change} still"));
        }
        self.files.shown(file, change)
    }

    /// The size alone. Whether its holder has something to send.
    pub(super) fn judge_size(&mut self, by: By, file: &Handle, size: u64) -> Checked<bool> {
        let mut is_newer = false;
        for kept in self.ledger.kept_from(file, by, false) {
            let client = kept.who.0;
            if !self.keeps_for_certain(client, file) {
                continue;
            }
            let own = self.callers[client].kept.iter().find(|kept| kept.file == *file && !kept.is_over).cloned();
            let Some(own) = own.filter(|own| own.stateid.is_some() && own.manner != Some(Manner::Denies)) else {
                continue;
            };
            let Some((_, is)) = own.attributes() else { continue };
            if is != size {
                return Err(format!("a file is told to have {size} bytes, and client {client} has {is} of it"));
            }
            self.totals.seen += 1;
            self.totals.seen_newer += u64::from(own.is_dirty());
            is_newer |= own.is_dirty();
        }
        Ok(is_newer)
    }

    /// REMOVE or RENAME.
    pub(super) fn ask_names(&mut self, client: usize) -> Checked<()> {
        let (folder, name) = self.somewhere();
        if !self.world.is_here(FOLDERS[folder].0) {
            return Ok(());
        }
        let (root, to) = (self.world.root(folder).to_vec(), self.chance.pick(&NAMES));
        let is_rename = self.chance.one_in(3);
        let ops = match is_rename {
            true => vec![words::put(&root), words::save(), words::rename(name, to)],
            false => vec![words::put(&root), words::remove(name)],
        };
        let moved = self.files.file_named(folder, name).filter(|_| is_rename && name != to);
        let gone =
            self.files.file_named(folder, if is_rename { to } else { name }).filter(|_| !is_rename || name != to);
        let files: Vec<_> = moved.iter().chain(&gone).cloned().collect();
        self.note_wanted(&files, Some(client));
        if let (true, Some(moved)) = (is_rename, &moved) {
            self.lasting.is_to(Does::Renames(folder, [name, to], Some(moved.clone())));
        } else if let (false, Some(_)) = (is_rename, &gone) {
            self.lasting.is_to(Does::Removes(folder, name));
        }
        let had_session = self.callers[client].session.is_some();
        let told = self.ask(client, &ops)?;
        if had_session && self.callers[client].session.is_none() {
            return Ok(());
        }
        let status = told.as_ref().map(|told| told.status);
        let to_name = if is_rename { to } else { "" };
        self.note(|| format!("client {client} removes or renames {name} of {folder} {to_name}: {status:?}"));
        match status {
            None | Some(Nfs4Ok | Nfs4ErrNoent) => {}
            Some(Nfs4ErrDelay) if self.is_kept_from_unlinking(client, moved.as_slice(), gone.as_ref()) => return Ok(()),
            Some(Nfs4ErrGrace) if self.waits_for_claims(folder, Some(client)) => {
                self.totals.kept_out_by_claims += 1;
                return Ok(());
            }
            Some(status) => return Err(format!("a change of a name is told {status:?}")),
        }
        let told = told.map(|told| told.is_ok());
        match is_rename {
            true => self.renamed(folder, (name, to), told, Some(client)),
            false => self.removed(folder, name, told, Some(client)),
        }
    }
}
