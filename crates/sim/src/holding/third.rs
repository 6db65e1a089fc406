//! The client of version 3, which knows of nothing that others have open, and the looks that everything is compared by.

use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::{Opaque, Pack};

use super::files::{CELL, CELLS, Handle, Named, fill};
use super::ledger::By;
use super::world::{Begun, FOLDERS, Use};
use super::{Checked, NAMES, Story};
use crate::client::{Call, Told, bytes_of, handle, name_in, told};

type P = NFS_PROGRAM;

/// What the client of version 3 was told to come again with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Again {
    Remove(usize, &'static str),
    Rename(usize, &'static str, &'static str),
    Write(usize, &'static str),
}

impl Again {
    fn place(self) -> (usize, &'static str) {
        match self {
            Self::Remove(folder, name) | Self::Rename(folder, name, _) | Self::Write(folder, name) => (folder, name),
        }
    }
}

impl Story {
    /// One request; none, if the power went.
    fn ask_third(&mut self, folder: usize, procedure: P, arguments: &impl Pack) -> Checked<Option<Told>> {
        assert_ne!(self.world.use_of(folder), Use::AutoAmongClients, "it does not come there");
        self.totals.third += 1;
        self.gave_back.clear();
        let record = self.third.record(&Call::new(procedure, arguments));
        let mut begun = self.world.begin(record, self.third.link())?;
        while let Begun::Parked(parked) = begun {
            let is_for_what_is_kept = self.wanted.iter().any(|file| !self.ledger.kept_by_others(file, None).is_empty());
            self.totals.recalls_for_third += u64::from(is_for_what_is_kept);
            self.wait_for_what_is_kept(&|| parked.is_woken())?;
            begun = self.world.go_on(parked)?;
        }
        let reply = match begun {
            Begun::Answered(reply) => Some(reply),
            Begun::Waits(waiting) => self.world.end(waiting)?,
            Begun::Lost | Begun::Parked(_) => None,
        };
        let told = reply.map(|reply| told(procedure, &bytes_of(&reply))).transpose()?;
        if told.is_some() {
            // Also what is told to come again may have been carried out so far.
            self.is_heard_plainly[folder] = true;
        }
        Ok(told)
    }

    /// Whether version 3 is told to come again, as somebody keeps one of these files; then it does so later.
    fn comes_again(&mut self, told: Option<&Told>, files: &[Handle], again: Again) -> Checked<bool> {
        if told.is_none_or(|told| told.status != nfsstat3::NFS3ERR_JUKEBOX) {
            return Ok(false);
        }
        self.check_kept_out(again.place().0, files, true)?;
        self.third_again = Some(again);
        Ok(true)
    }

    /// It was told to come again: there is somebody who keeps what it reads or changes, or may claim what he had for writing in that dataset.
    fn check_kept_out(&mut self, folder: usize, files: &[Handle], changes: bool) -> Checked<()> {
        if self.waits_for_claims(folder, None) {
            self.totals.kept_out_by_claims += 1;
            // It may have come past that, and be kept out by what somebody keeps.
            self.may_be_kept_out(By::Nobody, changes, files);
            return Ok(());
        }
        if !self.is_kept_out(By::Nobody, changes, files) {
            return Err("version 3 is told to come again, and nobody is in its way".into());
        }
        Ok(())
    }

    /// What it does beside the others.
    pub(super) fn third_step(&mut self) -> Checked<()> {
        let again = if self.chance.one_in(2) { self.third_again.take() } else { None };
        let (folder, name) = again.map_or_else(|| self.somewhere_kept(), Again::place);
        if !self.world.is_here(FOLDERS[folder].0) || self.world.use_of(folder) == Use::AutoAmongClients {
            return Ok(());
        }
        let draw = match again {
            Some(Again::Remove(..)) => 0,
            Some(Again::Rename(..)) => 2,
            Some(Again::Write(..)) => 3,
            None => self.chance.below(9),
        };
        match draw {
            0 | 1 => self.third_removes(folder, name),
            2 => {
                let to = if let Some(Again::Rename(_, _, to)) = again { to } else { self.chance.pick(&NAMES) };
                self.third_renames(folder, (name, to))
            }
            3..6 => self.third_writes(folder, name),
            _ => match self.files.file_named(folder, name) {
                Some(file) if draw == 8 => self.third_looks(folder, &file),
                Some(file) => self.look_at(&file).map(drop),
                None => Ok(()),
            },
        }
    }

    /// GETATTR.
    fn third_looks(&mut self, folder: usize, file: &Handle) -> Checked<()> {
        self.note_wanted(std::slice::from_ref(file), None);
        let told = self.ask_third(folder, P::NFSPROC3_GETATTR, &GETATTR3args { object: handle(file) })?;
        let Some(told) = told else { return Ok(()) };
        let name = self.known_as(file);
        self.note(|| format!("version 3 looks at {name}: {:?}", told.status));
        match (told.status, told.attr) {
            // Of its change there is no more than the time, which may be the same for two.
            (nfsstat3::NFS3_OK, Some(attr)) => self.judge_size(By::Nobody, file, attr.size).map(drop),
            (nfsstat3::NFS3ERR_JUKEBOX, _) if self.is_kept_from_looking(By::Nobody, file) => Ok(()),
            (status, _) => Err(format!("a GETATTR of version 3 is told {status:?}")),
        }
    }

    fn third_removes(&mut self, folder: usize, name: &'static str) -> Checked<()> {
        let (root, files) = (self.world.root(folder).to_vec(), self.files_of(folder, &[name]));
        self.note_wanted(&files, None);
        let args = REMOVE3args { object: name_in(&root, name) };
        let told = self.ask_third(folder, P::NFSPROC3_REMOVE, &args)?;
        self.note(|| format!("version 3 removes {name} of {folder}: {:?}", told.as_ref().map(|told| told.status)));
        if self.comes_again(told.as_ref(), &files, Again::Remove(folder, name))? {
            return Ok(());
        }
        self.removed(folder, name, told.map(|told| told.status == nfsstat3::NFS3_OK), None)
    }

    fn third_renames(&mut self, folder: usize, (from, to): (&'static str, &'static str)) -> Checked<()> {
        let (root, files) = (self.world.root(folder).to_vec(), self.files_of(folder, &[from, to]));
        self.note_wanted(&files, None);
        let args = RENAME3args { from: name_in(&root, from), to: name_in(&root, to) };
        let told = self.ask_third(folder, P::NFSPROC3_RENAME, &args)?;
        let status = told.as_ref().map(|told| told.status);
        self.note(|| format!("version 3 renames {from} of {folder} to {to}: {status:?}"));
        if self.comes_again(told.as_ref(), &files, Again::Rename(folder, from, to))? {
            return Ok(());
        }
        self.renamed(folder, (from, to), told.map(|told| told.status == nfsstat3::NFS3_OK), None)
    }

    fn third_writes(&mut self, folder: usize, name: &'static str) -> Checked<()> {
        let Some(file) = self.files.file_named(folder, name) else { return Ok(()) };
        self.note_wanted(std::slice::from_ref(&file), None);
        let (cell, tag) = self.draw_cell();
        let is_stable = !self.chance.one_in(4);
        let stable = if is_stable { stable_how::FILE_SYNC } else { stable_how::UNSTABLE };
        let (offset, data) = ((cell * CELL) as u64, Opaque::owned(fill(tag)));
        let args = WRITE3args { file: handle(&file), offset, count: CELL as u32, stable, data };
        let told = self.ask_third(folder, P::NFSPROC3_WRITE, &args)?;
        self.note(|| format!("version 3 writes {tag} into cell {cell} of {name} of {folder}, stable: {is_stable}"));
        if self.comes_again(told.as_ref(), std::slice::from_ref(&file), Again::Write(folder, name))? {
            return Ok(());
        }
        match told {
            Some(told) if told.status != nfsstat3::NFS3_OK => {
                Err(format!("a WRITE of version 3 is told {:?}", told.status))
            }
            told => {
                self.files.written(&file, cell, tag, is_stable, told.is_some());
                self.note_written(&file, None, ((cell, tag), is_stable), told.is_some())
            }
        }
    }

    // ---- looks ----

    /// Whether a file is there; then what is in it is what may be. Where version 3 does not come, or has to come again, it is looked at past all protocols.
    pub(super) fn look_at(&mut self, file: &Handle) -> Checked<Option<bool>> {
        let folder = self.files.folder_of(file).expect("it was opened");
        let count = (CELLS * CELL) as u32;
        if self.world.use_of(folder) != Use::AutoAmongClients {
            let args = READ3args { file: handle(file), offset: 0, count };
            self.note_wanted(std::slice::from_ref(file), None);
            let Some(told) = self.ask_third(folder, P::NFSPROC3_READ, &args)? else { return Ok(None) };
            match told.status {
                nfsstat3::NFS3_OK => {
                    let before = self.ledger.ended;
                    self.with_ledger(FOLDERS[folder].0, |ledger, moment| ledger.read(file, By::Nobody, moment))?;
                    self.totals.ended += self.ledger.ended - before;
                    return self.files.read(file, &told.data).map(|()| Some(true));
                }
                nfsstat3::NFS3ERR_STALE => return Ok(Some(false)),
                nfsstat3::NFS3ERR_JUKEBOX => self.check_kept_out(folder, std::slice::from_ref(file), false)?,
                status => return Err(format!("a READ of version 3 is told {status:?}")),
            }
        }
        self.peep(folder, file)
    }

    fn peep(&mut self, folder: usize, file: &Handle) -> Checked<Option<bool>> {
        match self.world.content_is(folder, file, (CELLS * CELL) as u32)? {
            Some(data) => self.files.read(file, &data).map(|()| Some(true)),
            None => Ok(Some(false)),
        }
    }

    fn look_up(&mut self, folder: usize, name: &'static str) -> Checked<()> {
        if self.world.use_of(folder) == Use::AutoAmongClients {
            let is = self.world.name_is(folder, name)?;
            return self.files.found(folder, name, is);
        }
        let root = self.world.root(folder).to_vec();
        let args = LOOKUP3args { what: name_in(&root, name) };
        let Some(told) = self.ask_third(folder, P::NFSPROC3_LOOKUP, &args)? else {
            return Ok(());
        };
        match (told.status, told.handle) {
            (nfsstat3::NFS3_OK, handle @ Some(_)) => self.files.found(folder, name, handle),
            (nfsstat3::NFS3ERR_NOENT, _) => self.files.found(folder, name, None),
            (status, _) => Err(format!("a LOOKUP of version 3 is told {status:?}")),
        }
    }

    /// A pool has come: all names stand for what they may, all files have what they may, and what somebody may claim is there.
    pub(super) fn look_around(&mut self, pool: usize) -> Checked<()> {
        for folder in (0..FOLDERS.len()).filter(|folder| FOLDERS[*folder].0 == pool) {
            for name in NAMES {
                self.look_up(folder, name)?;
            }
        }
        for file in self.files.handles() {
            if self.files.folder_of(&file).map(|folder| FOLDERS[folder].0) != Some(pool) {
                continue;
            }
            let is_kept = self.files.has_name(&file) || self.is_open(&file);
            if self.look_at(&file)? == Some(false) {
                if is_kept {
                    return Err(format!("{} is gone behind an import", self.known_as(&file)));
                }
                self.files.is_gone(&file);
            }
        }
        Ok(())
    }

    /// Files that have no name and that nobody has, in a pool of which nobody may claim anything any more: they are gone.
    pub(super) fn look_for_what_is_gone(&mut self, pool: usize) -> Checked<()> {
        for file in self.files.handles() {
            let is_of = self.files.folder_of(&file).map(|folder| FOLDERS[folder].0) == Some(pool);
            if !is_of || !self.files.is_nameless(&file) {
                continue;
            }
            let folder = self.files.folder_of(&file).expect("it is of the pool");
            match self.peep(folder, &file)? {
                None => return Ok(()),
                Some(true) if self.ledger.is_nobodys(&file) => {
                    return Err(format!(
                        "{} has no name, and nobody has it open, and it is there",
                        self.known_as(&file)
                    ));
                }
                Some(false) if self.is_open(&file) => {
                    return Err(format!("{} is gone, and somebody has it open", self.known_as(&file)));
                }
                Some(true) if self.files.was_gone(&file) => {
                    return Err(format!("{} was gone, and is there again", self.known_as(&file)));
                }
                Some(true) => {}
                Some(false) => {
                    self.totals.nameless_gone += u64::from(self.files.is_gone(&file));
                }
            }
        }
        Ok(())
    }

    /// Whether somebody has it open, or may claim it.
    fn is_open(&mut self, file: &Handle) -> bool {
        self.with_ledger(self.pool_of(file), |ledger, moment| ledger.has_open(file, moment))
    }

    // ---- what a change of names does ----

    /// A REMOVE was answered so, or was not.
    pub(super) fn removed(
        &mut self,
        folder: usize,
        name: &'static str,
        told: Option<bool>,
        by: Option<usize>,
    ) -> Checked<()> {
        let was_there = self.files.file_named(folder, name).is_some();
        if let Some(file) = self.files.file_named(folder, name).filter(|_| told != Some(false)) {
            self.note_unlinked(&file, by, told.is_some())?;
        }
        match told {
            None if was_there => self.files.may_name(folder, name, Named::Nobody),
            Some(true) if was_there => self.files.name(folder, name, Named::Nobody),
            Some(done) if done != was_there => return Err(format!("a removal of {name} of {folder} is told {done}")),
            _ => {}
        }
        Ok(())
    }

    /// A RENAME was answered so, or was not.
    pub(super) fn renamed(
        &mut self,
        folder: usize,
        (from, to): (&'static str, &'static str),
        told: Option<bool>,
        by: Option<usize>,
    ) -> Checked<()> {
        let source = self.files.file_named(folder, from);
        if let Some(source) = source.clone().filter(|_| told != Some(false) && from != to) {
            self.note_change(&source, by, told.is_some())?;
            if let Some(replaced) = self.files.file_named(folder, to) {
                self.note_unlinked(&replaced, by, told.is_some())?;
            }
        }
        match (told, source) {
            (Some(done), source) if done != source.is_some() => {
                Err(format!("a rename of {from} of {folder} to {to} is told {done}"))
            }
            (_, Some(_)) if from == to => Ok(()),
            (None, Some(file)) => {
                self.files.may_name(folder, from, Named::Nobody);
                self.files.may_name(folder, to, Named::File(file));
                Ok(())
            }
            (Some(_), Some(file)) => {
                self.files.name(folder, from, Named::Nobody);
                self.files.name(folder, to, Named::File(file));
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// What has these names.
    pub(super) fn files_of(&self, folder: usize, names: &[&'static str]) -> Vec<Handle> {
        names.iter().filter_map(|name| self.files.file_named(folder, name)).collect()
    }

    /// Somebody is about to change these: who keeps one and is late may be ended for it.
    pub(super) fn note_wanted(&mut self, files: &[Handle], by: Option<usize>) {
        for kept in files.iter().flat_map(|file| self.ledger.kept_by_others(file, by)).collect::<Vec<_>>() {
            self.crossed[kept.who.0] |= self.is_late(kept.who.0);
        }
        self.wanted = files.to_vec();
    }

    pub(super) fn draw_cell(&mut self) -> (usize, u64) {
        self.next_tag += 1;
        (self.chance.below(CELLS as u64) as usize, self.next_tag)
    }

    pub(super) fn somewhere(&mut self) -> (usize, &'static str) {
        (self.chance.below(FOLDERS.len() as u64) as usize, self.chance.pick(&NAMES))
    }

    /// The same, one that somebody keeps three times of four.
    pub(super) fn somewhere_kept(&mut self) -> (usize, &'static str) {
        let names = self.files.names().into_iter();
        let is_kept = |(folder, name): &(usize, &'static str)| {
            let file = self.files.file_named(*folder, name);
            file.is_some_and(|file| !self.ledger.kept_by_others(&file, None).is_empty())
        };
        let kept: Vec<_> = names.filter(is_kept).collect();
        if kept.is_empty() || self.chance.one_in(4) { self.somewhere() } else { self.chance.pick(&kept) }
    }

    /// In words.
    pub(super) fn known_as(&self, file: &[u8]) -> String {
        let number = self.files.handles().iter().position(|known| known == file);
        let names: Vec<_> = self
            .files
            .names()
            .into_iter()
            .filter(|at| self.files.file_named(at.0, at.1).as_deref() == Some(file))
            .collect();
        format!("file {number:?} ({names:?})")
    }
}
