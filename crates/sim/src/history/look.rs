//! Looking at what is there: all of it, or through the protocol as clients read.

use nfs3_types::nfs3::*;
use tally_vfs::{Attributes, Content, Cred, FileKind, Names};

use super::{Checked, State};
use crate::agree::tells_of;
use crate::chance::Chance;
use crate::client::{Call, handle, name_in};
use crate::op::{NAMES, Object};
use crate::same::same;

/// READs of one file in order.
const READS_IN_ORDER_MAX: u64 = 40;

impl State {
    /// Everything is as the model says, while alive.
    pub(super) fn look(&self) -> Checked<()> {
        for part in self.parts.iter().filter(|part| part.is_there) {
            let fs = self.machine.server().filer.by_name(&part.name).expect("it is there");
            let seen = same(&*fs, &part.oracle.live);
            if !self.is_in_trouble() {
                seen.map_err(|what| format!("{} while alive: {what}", part.name))?;
            }
        }
        Ok(())
    }

    /// Reads, lists or looks up something through the protocol.
    pub(super) fn read(&mut self, chance: &mut Chance) -> Checked<()> {
        let part = self.some_part(chance);
        match chance.below(3) {
            0 => self.read_file(chance, part),
            1 => self.list(chance, part),
            _ => self.look_up(chance, part),
        }
    }

    fn read_file(&mut self, chance: &mut Chance, part: usize) -> Checked<()> {
        let object = self.object(chance, part, Some(FileKind::File));
        let (offset, count) = (self.place(chance, &object), chance.below(200_000) as u32);
        self.read_at(&object, offset, count)
    }

    fn read_at(&mut self, object: &Object, offset: u64, count: u32) -> Checked<()> {
        let arguments = READ3args { file: handle(&object.handle), offset, count };
        let told = self.read_told(&Call::new(NFS_PROGRAM::NFSPROC3_READ, &arguments))?;
        let model = &self.parts[object.dataset].oracle.live;
        let expected = model.read(&Cred::root(), object.model, offset, count);
        match (told.status, expected) {
            (nfsstat3::NFS3ERR_IO | nfsstat3::NFS3ERR_JUKEBOX, _) if self.is_in_trouble() => Ok(()),
            _ if self.is_off() => Ok(()),
            (nfsstat3::NFS3_OK, Ok(expected)) if told.data == expected.data.concat() && told.eof == expected.eof => {
                Ok(())
            }
            (nfsstat3::NFS3_OK, _) => Err(format!("READ of {object:?} at {offset} gives something else")),
            (status, Err(error)) if tells_of(status, error) => Ok(()),
            (status, _) => Err(format!("READ of {object:?} at {offset} gives {status}")),
        }
    }

    /// A client reads a file in order, perhaps of what nobody has cached, forwards or backwards. What its READs leave behind
    /// to be fetched is fetched between them, or later, when something else may stand there.
    pub(super) fn read_in_order(&mut self, chance: &mut Chance) -> Checked<()> {
        if chance.one_in(2) {
            self.machine.server().filer.pool().io.drop_cache();
        }
        let part = self.some_part(chance);
        let object = self.object(chance, part, Some(FileKind::File));
        let size = self.parts[object.dataset].oracle.live.getattr(object.model).map_or(0, |attr| attr.size);
        let count = chance.pick(&[4096, 16_384, 131_072]);
        let mut places: Vec<u64> = (0..size.div_ceil(count).min(READS_IN_ORDER_MAX)).map(|at| at * count).collect();
        if chance.one_in(4) {
            places.reverse();
        }
        let hits = self.prefetch_hits();
        for offset in places {
            self.read_at(&object, offset, count as u32)?;
            self.fetch_ahead(chance.below(4));
        }
        self.totals.fetched_ahead += self.prefetch_hits() - hits;
        Ok(())
    }

    fn prefetch_hits(&self) -> u64 {
        self.machine.running().map_or(0, |server| server.filer.pool().io.prefetch_stats().hits)
    }

    /// Fetches some of what READs have left behind.
    pub(super) fn fetch_ahead(&self, times: u64) {
        let Some(server) = self.machine.running() else { return };
        for _ in 0..times {
            if self.is_off() || !server.filer.read_ahead_once() {
                return;
            }
        }
    }

    /// Lists a directory in small pages.
    fn list(&mut self, chance: &mut Chance, part: usize) -> Checked<()> {
        let dir = self.directory(chance, part);
        let count = 200 + chance.below(600) as u32;
        let expected = self.parts[dir.dataset].oracle.live.readdir(&Cred::root(), dir.model, 0, 10_000, false);
        let (mut names, mut cookie, mut cookieverf) = (Vec::new(), 0, cookieverf3::default());
        loop {
            let arguments = READDIR3args { dir: handle(&dir.handle), cookie, cookieverf, count };
            let told = self.read_told(&Call::new(NFS_PROGRAM::NFSPROC3_READDIR, &arguments))?;
            if told.status != nfsstat3::NFS3_OK {
                let is_refusal = expected.as_ref().is_err_and(|error| tells_of(told.status, *error));
                let is_right = self.is_in_trouble() || is_refusal;
                return if is_right { Ok(()) } else { Err(format!("READDIR of {dir:?} gives {}", told.status)) };
            }
            if told.entries.is_empty() && !told.eof {
                return Err(format!("READDIR of {dir:?} gives nothing, and not the end"));
            }
            cookie = told.entries.last().map_or(cookie, |(_, cookie)| *cookie);
            cookieverf = cookieverf3::default();
            names.extend(told.entries);
            if told.eof {
                break;
            }
        }
        let expected = expected.map_err(|error| format!("READDIR of {dir:?} is answered, and not: {error}"))?;
        if self.is_off() {
            return Ok(());
        }
        if expected.entries.iter().map(|entry| &entry.name[..]).eq(names.iter().map(|(name, _)| &name[..])) {
            return self.same_cookies(&dir, &names);
        }
        Err(format!("READDIR of {dir:?} gives {} names instead of {}", names.len(), expected.entries.len()))
    }

    /// A name that has stood in a directory all the time stands where it stood.
    fn same_cookies(&mut self, dir: &Object, names: &[(Vec<u8>, u64)]) -> Checked<()> {
        let part = &mut self.parts[dir.dataset];
        for (name, cookie) in names {
            let found = part.oracle.live.lookup(&Cred::root(), dir.model, name);
            let (attr, _) = found.map_err(|error| format!("the model lists {name:?}: {error}"))?;
            let same = part.seen.cookie(dir.model, name, attr.object, *cookie);
            same.map_err(|what| format!("in {dir:?} {what}"))?;
        }
        Ok(())
    }

    /// Finds a name; its handle is known from then on, whoever has made it, and whether or not they have an answer.
    fn look_up(&mut self, chance: &mut Chance, part: usize) -> Checked<()> {
        let (dir, name) = (self.directory(chance, part), chance.pick(&NAMES));
        self.look_up_in(&dir, name)
    }

    pub(super) fn look_up_in(&mut self, dir: &Object, name: &str) -> Checked<()> {
        let told = self
            .read_told(&Call::new(NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what: name_in(&dir.handle, name) }))?;
        let expected = self.parts[dir.dataset].oracle.live.lookup(&Cred::root(), dir.model, name.as_bytes());
        match (told.status, expected, told.handle) {
            (nfsstat3::NFS3ERR_IO | nfsstat3::NFS3ERR_JUKEBOX, ..) if self.is_in_trouble() => Ok(()),
            _ if self.is_off() => Ok(()),
            (nfsstat3::NFS3_OK, Ok((attr, _)), Some(handle)) => self.meet(dir.dataset, handle, &attr),
            (nfsstat3::NFS3_OK, ..) => Err(format!("LOOKUP of {name} in {dir:?} finds what is not there")),
            (status, Err(error), _) if tells_of(status, error) => Ok(()),
            (status, ..) => Err(format!("LOOKUP of {name} in {dir:?} gives {status}")),
        }
    }
}
