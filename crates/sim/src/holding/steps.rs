//! What is done in a step.

use std::time::Duration;

use tally_wire::nfs4::Nfsstat4::*;

use super::caller::{Believed, Caller};
use super::judge::{READ, WRITE};
use super::ledger::{BYTES, By, State, What, Who};
use super::world::{FOLDERS, POOLS};
use super::{CALLERS, Checked, Story};
use crate::words::{self, How};

/// Owners of each client.
const OWNERS: u64 = 2;
/// How many of them ask in a step in which nothing else happens.
const TURNS: u64 = 3;

impl Story {
    pub(super) fn step(&mut self, step: usize) -> Checked<()> {
        if step > 0 && self.chance.one_in(3) && self.come_back()? {
            return Ok(());
        }
        match self.chance.below(100) {
            0 => self.crash(true),
            1 | 2 => self.crash(false),
            3 if self.chance.one_in(2) => {
                let is_durable = self.chance.one_in(2);
                self.note(|| format!("it will be killed in a request, which is durable by then: {is_durable}"));
                self.world.plan_kill(is_durable);
                Ok(())
            }
            3 => {
                let (pool, events) = (self.chance.below(POOLS as u64) as usize, 1 + self.chance.below(30));
                self.note(|| format!("the power will go in pool {pool}"));
                self.world.plan_cut(pool, Some(events));
                Ok(())
            }
            4 | 5 => self.import_late(),
            6 if self.chance.one_in(2) => self.export(),
            6 => self.blink(),
            7..10 => {
                let time = Duration::from_secs(1 + self.chance.below(20));
                self.pass(time)
            }
            10..14 => {
                let time = Duration::from_secs(60 + self.chance.below(140));
                self.note(|| format!("{} s go by", time.as_secs()));
                self.pass(time)
            }
            14 if self.chance.one_in(2) => self.jump(),
            15..19 => {
                let client = self.chance.below(CALLERS as u64) as usize;
                let is_silent = self.chance.one_in(2);
                self.note(|| format!("client {client} is silent: {is_silent}"));
                self.callers[client].is_silent = is_silent;
                Ok(())
            }
            19 if self.chance.one_in(2) => self.start_anew(),
            20 | 21 => self.look_after_clients(),
            22 | 23 => {
                self.world.sync();
                Ok(())
            }
            24..27 => self.claim_out_of_turn(),
            27..35 => self.third_step(),
            _ => self.ask_in_turns(),
        }
    }

    /// Clients ask, one after the other.
    fn ask_in_turns(&mut self) -> Checked<()> {
        for _ in 0..TURNS {
            if !self.world.is_off() {
                self.ask_something()?;
            }
        }
        Ok(())
    }

    /// A client that is there does something.
    fn ask_something(&mut self) -> Checked<()> {
        let client = self.chance.below(CALLERS as u64) as usize;
        if self.callers[client].session.is_none() || self.callers[client].is_silent {
            return Ok(());
        }
        if !self.callers[client].is_reachable && self.chance.one_in(2) {
            self.callers[client].bind(&self.world)?;
        }
        match self.chance.below(8) {
            0 | 1 => return self.ask_to_keep(client),
            2 => return self.ask_kept(client),
            3 if self.has_lost[client] => return self.ask_what_is_lost(client),
            3 => self.answer_late(client),
            4 if self.chance.one_in(2) => return self.ask_look(client),
            _ => {}
        }
        let open = self.some_open(client);
        match (self.chance.below(100), open) {
            (0..24, _) | (_, None) => self.ask_open(client),
            (24..33, Some(open)) => self.ask_close(client, &open),
            (33..37, Some(open)) => self.ask_downgrade(client, &open),
            (37..54, Some(open)) => self.ask_lock(client, &open),
            (54..57, Some(open)) => self.ask_unlock(client, &open),
            (57..60, Some(open)) => self.ask_test(client, &open),
            (60..78, Some(open)) => self.ask_io(client, &open),
            (78..87, _) => self.ask_io_by_nobody(client),
            (87..91, _) => self.ask_names(client),
            (91..93, _) => self.ask_directory(client),
            (93..96, _) => self.ask_falsely(client),
            _ => self.ask_by_old(client),
        }
    }

    fn some_open(&mut self, client: usize) -> Option<Believed> {
        let is_there = |open: &&Believed| open.stateid.is_some() && self.world.is_here(open.pool);
        let opens: Vec<_> = self.callers[client].opens.iter().filter(is_there).cloned().collect();
        if opens.is_empty() { None } else { Some(self.chance.pick(&opens)) }
    }

    fn ask_open(&mut self, client: usize) -> Checked<()> {
        let (at, owner) = (self.somewhere(), self.chance.below(OWNERS) as u8);
        let how = match self.chance.below(8) {
            0..3 => How::Find,
            3..5 => How::Make,
            5 => How::Cut,
            6 => How::New,
            _ => How::Exclusive(self.chance.next()),
        };
        let access = if how == How::Cut { READ | WRITE } else { self.chance.pick(&[READ, WRITE, 3, 3, 3]) };
        let share = (access, self.chance.pick(&[0, 0, 0, WRITE, READ, 3]));
        self.open((client, owner), at, (how, share))
    }

    /// OPEN of a name.
    pub(super) fn open(
        &mut self,
        (client, owner): Who,
        (folder, name): (usize, &'static str),
        (how, share): (How, (u32, u32)),
    ) -> Checked<()> {
        let pool = FOLDERS[folder].0;
        let root = self.world.root(folder);
        let ops = [
            words::put(root),
            words::open(&Caller::owner(owner), share, how, name),
            words::get_handle(),
            words::get_change(),
        ];
        self.listed[pool].insert(client);
        if share.0 & WRITE != 0 && !self.callers[client].is_older() {
            self.may_write[folder].insert(client);
        }
        self.note_wanted(&self.files_of(folder, &[name]), Some(client));
        if let Some(file) = self.files.file_named(folder, name) {
            let wanted = What::Open(share.0 | if how == How::Cut { WRITE } else { 0 }, share.1);
            self.note_asked(&file, (client, owner), wanted);
        }
        if how != How::Find {
            self.is_to_make(folder, name);
        }
        let before = self.callers[client].session.is_some();
        let told = self.ask(client, &ops)?;
        if before && self.callers[client].session.is_none() {
            return Ok(());
        }
        let status = told.as_ref().map(|told| told.status);
        self.note(|| format!("{:?} opens {name} of {folder} {how:?} {share:?}: {status:?}", (client, owner)));
        if told.is_none() && !self.world.is_here(pool) {
            return Ok(());
        }
        if !self.world.is_here(pool) {
            let status = status.expect("it was told");
            return self.judge_refusal(client, pool, status);
        }
        self.judge_open((client, owner), (folder, name), (how, share), told.as_ref())
    }

    /// Whether an open is a client's for certain.
    pub(super) fn is_held(&self, client: usize, open: &Believed) -> bool {
        self.ledger.open(&open.file, (client, open.owner)).is_some_and(|grant| grant.state == State::Held)
    }

    pub(super) fn ask_close(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let Some(stateid) = &open.stateid else { return Ok(()) };
        let Some(told) = self.ask(client, &[words::put(&open.file), words::close(stateid)])? else { return Ok(()) };
        self.note(|| format!("client {client} closes: {:?}", told.status));
        if !told.is_ok() && self.is_held(client, open) {
            return Err(format!("CLOSE is told {:?}", told.status));
        }
        self.totals.given_up += 1;
        self.ledger.close(&open.file, (client, open.owner));
        self.callers[client].opens.retain(|other| other.file != open.file || other.owner != open.owner);
        Ok(())
    }

    fn ask_downgrade(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let Some(stateid) = &open.stateid else { return Ok(()) };
        let share = self.chance.pick(&open.shares);
        let needs = |writes: &bool| share.0 & if *writes { WRITE } else { READ } != 0;
        if !open.bytes.iter().flatten().all(needs) {
            // What it has locked it could not claim below that.
            return Ok(());
        }
        let Some(told) = self.ask(client, &[words::put(&open.file), words::downgrade(stateid, share)])? else {
            return Ok(());
        };
        self.note(|| format!("client {client} downgrades to {share:?}: {:?}", told.status));
        if !told.is_ok() {
            return if self.is_held(client, open) {
                Err(format!("OPEN_DOWNGRADE is told {:?}", told.status))
            } else {
                Ok(())
            };
        }
        self.totals.given_up += 1;
        self.ledger.downgrade(&open.file, (client, open.owner), share);
        if let Some(open) = self.callers[client].believed(&open.file, open.owner) {
            open.stateid = told.stateid();
            open.shares.retain(|one| one.0 & !share.0 == 0 && one.1 & !share.1 == 0);
        }
        Ok(())
    }

    fn some_bytes(&mut self) -> std::ops::Range<usize> {
        let from = self.chance.below(BYTES as u64) as usize;
        from..(from + 1 + self.chance.below(4) as usize).min(BYTES)
    }

    fn ask_lock(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let Some(stateid) = &open.stateid else { return Ok(()) };
        let (bytes, access) = (self.some_bytes(), open.share().0);
        let writes = access & WRITE != 0 && (access & READ == 0 || self.chance.one_in(2));
        let range = (bytes.start as u64, bytes.len() as u64);
        for byte in bytes.clone() {
            self.note_asked(&open.file, (client, open.owner), What::Byte(byte, writes));
        }
        let lock = words::lock(stateid, &Caller::owner(open.owner), writes, range, false);
        let Some(told) = self.ask(client, &[words::put(&open.file), lock])? else { return Ok(()) };
        self.note(|| format!("{:?} locks {range:?} to write: {writes}: {:?}", (client, open.owner), told.status));
        if told.is_ok() && !self.callers[client].is_complete && !self.callers[client].is_older() {
            return Err(format!("client {client} locks something new, and may still claim something"));
        }
        self.judge_lock((client, open.owner), (&open.file, bytes, writes), &told)
    }

    fn ask_unlock(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let (Some(stateid), bytes) = (open.locks.clone(), self.some_bytes()) else { return Ok(()) };
        let unlock = words::unlock(&stateid, (bytes.start as u64, bytes.len() as u64));
        let Some(told) = self.ask(client, &[words::put(&open.file), unlock])? else { return Ok(()) };
        self.note(|| format!("client {client} unlocks {bytes:?}: {:?}", told.status));
        if !told.is_ok() {
            return if self.is_held(client, open) { Err(format!("LOCKU is told {:?}", told.status)) } else { Ok(()) };
        }
        self.totals.given_up += 1;
        self.ledger.unlock(&open.file, (client, open.owner), bytes.clone());
        if let Some(open) = self.callers[client].believed(&open.file, open.owner) {
            open.locks = told.stateid();
            for byte in bytes {
                (open.bytes[byte], open.lost[byte]) = (None, false);
            }
        }
        Ok(())
    }

    fn ask_test(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let (bytes, writes, who) = (self.some_bytes(), self.chance.one_in(2), (client, 7));
        let test = words::test(&Caller::owner(7), writes, (bytes.start as u64, bytes.len() as u64));
        bytes.clone().for_each(|byte| self.note_asked(&open.file, who, What::Byte(byte, writes)));
        let Some(told) = self.ask(client, &[words::put(&open.file), test])? else { return Ok(()) };
        self.note(|| format!("client {client} asks for {bytes:?} to write: {writes}: {:?}", told.status));
        let is_kept_out = bytes.clone().any(|byte| self.ledger.keeps_out(&open.file, who, What::Byte(byte, writes)));
        match told.status {
            Nfs4Ok => bytes.clone().try_for_each(|byte| {
                let what = What::Byte(byte, writes);
                let lives = self.ledger.lives_in_the_way(&open.file, who, what);
                match lives.into_iter().find(|client| !self.is_late(*client)) {
                    Some(client) => Err(format!("byte {byte} is free, says LOCKT, and client {client} has it")),
                    None => Ok(()),
                }
            }),
            Nfs4ErrDenied if is_kept_out => Ok(()),
            Nfs4ErrStale if !self.is_held(client, open) => Ok(()),
            // Who keeps it locks it without a word, to read what he has to read.
            Nfs4ErrDelay if self.is_kept_out(By::Client(client), writes, std::slice::from_ref(&open.file)) => Ok(()),
            status => self.judge_refusal(client, open.pool, status).map_err(|what| format!("LOCKT: {what}")),
        }
    }

    /// Another request comes for a slot.
    fn ask_falsely(&mut self, client: usize) -> Checked<()> {
        let slot = self.chance.below(Caller::slots() as u64) as usize;
        if self.session_of[client] != self.life || self.is_late(client) || self.callers[client].is_older() {
            return Ok(());
        }
        if self.chance.one_in(2) {
            self.totals.repetitions += 1;
            return self.callers[client].repeat(&self.world, slot).map(drop);
        }
        match self.callers[client].repeat_falsely(&self.world, slot)? {
            None => Ok(()),
            Some(Nfs4ErrSeqFalseRetry) => {
                self.totals.false_repetitions += 1;
                Ok(())
            }
            Some(status) => Err(format!("another request for a slot is told {status:?}")),
        }
    }

    /// A stateid of a session that is over names nothing.
    fn ask_by_old(&mut self, client: usize) -> Checked<()> {
        let old = self.callers[client].old.clone();
        let old: Vec<_> = old
            .into_iter()
            .filter(|(file, _)| self.files.has_name(file) && self.world.is_here(self.pool_of(file)))
            .collect();
        if old.is_empty() {
            return Ok(());
        }
        let (file, stateid) = self.chance.pick(&old);
        let Some(told) = self.ask(client, &[words::put(&file), words::read(&stateid, 0, 10)])? else { return Ok(()) };
        self.totals.old_stateids += 1;
        match told.status {
            Nfs4ErrBadStateid | Nfs4ErrStaleStateid | Nfs4ErrExpired => Ok(()),
            status => Err(format!("a stateid of a session that is over is told {status:?}")),
        }
    }
}
