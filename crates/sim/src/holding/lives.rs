//! Kills, cuts, imports and exports, and what is known behind them.

use std::time::Duration;

use super::caller::{SLOT_OF_CALLS, Way};
use super::leases::LEASE;
use super::ledger::State;
use super::world::{FOLDERS, POOLS};
use super::{CALLERS, Checked, Story};

/// Imports that may be cut short, one behind the other.
const IMPORTS_CUT_MAX: u64 = 3;

impl Story {
    /// The process ends without a word, be it with the power; and another one takes up what is there.
    pub(super) fn crash(&mut self, cuts: bool) -> Checked<()> {
        self.note_crash(cuts);
        self.world.crash(cuts, &mut self.chance);
        self.leases.begin_life(&self.world);
        self.third.reconnect();
        let (first, beside) = (self.chance.below(POOLS as u64) as usize, self.chance.below(3) > 0);
        self.import(first, IMPORTS_CUT_MAX)?;
        if beside && !self.world.is_here(1 - first) {
            self.import(1 - first, 0)?;
        }
        self.ask_what_was_done()
    }

    fn note_crash(&mut self, cuts: bool) {
        let in_grace = (0..POOLS)
            .any(|pool| self.with_ledger(pool, |ledger, moment| ledger.who_may_claim(pool, moment)).is_some());
        self.totals.crashes_in_grace += u64::from(in_grace);
        let total = if cuts { &mut self.totals.cuts } else { &mut self.totals.kills };
        *total += 1;
        self.note(|| format!("──── {} ────", if cuts { "the power goes" } else { "it is killed" }));
        for client in 0..CALLERS {
            if self.crossed[client] {
                // Whoever asked for what it had may have ended it, and was not answered.
                self.ledger.doubt(client);
            }
        }
        self.memory_is_gone();
    }

    /// Nothing is left of what the process knew.
    fn memory_is_gone(&mut self) {
        self.doubt_the_unlisted();
        (0..POOLS).for_each(|pool| self.doubt_the_incomplete(pool));
        let is_over = [0, 1].map(|pool| self.is_time_over(pool));
        self.ledger.crash(&|pool| is_over[pool]);
        self.files.crash();
        self.life += 1;
        (self.imported, self.looked, self.end_written) = ([None; POOLS], [None; POOLS], [false; POOLS]);
        (self.completed, self.given_anew) = Default::default();
        self.is_heard_plainly = Default::default();
        (self.recalls, self.unlisted, self.third_again) = Default::default();
        // Whatever they say in the next life they say anew.
        self.callers.iter_mut().for_each(|caller| caller.is_complete = false);
    }

    /// From whom something was taken is out of the lists until it has freed that, and has been given something new then (rules V24).
    fn doubt_the_unlisted(&mut self) {
        self.note_unlisted();
        for pool in 0..POOLS {
            for client in self.unlisted[pool].clone() {
                self.ledger.doubt_in(pool, client);
            }
        }
    }

    /// Before any of that is forgotten.
    pub(super) fn note_unlisted(&mut self) {
        let now = self.leases.now();
        for client in (0..CALLERS).filter(|client| self.recalls.may_have_lost(*client, now)) {
            self.unlisted.iter_mut().for_each(|unlisted| _ = unlisted.insert(client));
        }
    }

    fn is_time_over(&self, pool: usize) -> bool {
        self.imported[pool].is_some_and(|at| self.leases.now().saturating_sub(at) >= LEASE)
    }

    /// Whoever has not said in time that he claims nothing more may have lost a part of what he had, and be out of the list, until he is given something new: then what he has
    /// claimed he may not claim again behind another crash.
    fn doubt_the_incomplete(&mut self, pool: usize) {
        let Some(imported) = self.imported[pool].filter(|_| self.is_time_over(pool)) else { return };
        for client in 0..CALLERS {
            let is_in_time = self.completed[client].is_some_and(|at| at.saturating_sub(imported) < LEASE);
            if !is_in_time && !self.given_anew[pool].contains(&client) {
                self.ledger.doubt_in(pool, client);
            }
        }
    }

    /// Imports a pool; cut short where the seed says so, as often as it may be.
    pub(super) fn import(&mut self, pool: usize, cuts_left: u64) -> Checked<()> {
        if cuts_left > 0 && self.chance.one_in(4) {
            let events = 1 + self.chance.below(40);
            self.world.plan_cut(pool, Some(events));
        }
        let is_there = self.world.import(pool)?;
        if !is_there {
            self.totals.cuts_in_requests += 1;
            self.note(|| format!("the power goes while pool {pool} is imported"));
            self.totals.cuts += 1;
            // What was served beside it has crashed as well.
            self.memory_is_gone();
            self.world.crash(true, &mut self.chance);
            self.leases.begin_life(&self.world);
            return self.import(pool, cuts_left.saturating_sub(1));
        }
        self.world.plan_cut(pool, None);
        self.imported[pool] = Some(self.leases.now());
        (self.looked[pool], self.end_written[pool]) = (None, false);
        self.given_anew[pool].clear();
        self.note(|| format!("pool {pool} is imported"));
        self.look_around(pool)?;
        self.look_for_directories(pool)?;
        if self.chance.one_in(2) { self.look_after_clients() } else { Ok(()) }
    }

    /// A pool that was away comes beside the other one.
    pub(super) fn import_late(&mut self) -> Checked<()> {
        let Some(pool) = (0..POOLS).find(|pool| !self.world.is_here(*pool)) else { return Ok(()) };
        self.totals.late_imports += 1;
        self.import(pool, 0)
    }

    /// A pool goes, in order.
    pub(super) fn export(&mut self) -> Checked<()> {
        let pool = self.chance.below(POOLS as u64) as usize;
        if !self.world.is_here(pool) || !self.world.is_here(1 - pool) {
            return Ok(());
        }
        self.totals.exports += 1;
        self.note(|| format!("pool {pool} is exported"));
        if !self.world.export(pool)? {
            return Ok(());
        }
        self.doubt_the_incomplete(pool);
        if self.is_time_over(pool) {
            self.ledger.pass_over(pool);
        }
        (self.imported[pool], self.looked[pool]) = (None, None);
        self.note_unlisted();
        let is_of_pool = |file: &[u8]| self.files.folder_of(file).is_some_and(|folder| FOLDERS[folder].0 == pool);
        self.recalls.forget_lately(is_of_pool);
        for client in self.unlisted[pool].clone() {
            self.ledger.doubt_in(pool, client);
        }
        for client in 0..CALLERS {
            let here = self.callers[client].kept.iter_mut().filter(|kept| kept.pool == pool && kept.stateid.is_some());
            here.for_each(|kept| kept.is_over = true);
            // What is claimable stays so: a later life may find it.
            self.ledger.give_up(client, &|of| of == pool, &|state| {
                state != State::Claimable || self.callers[client].is_complete
            });
            self.callers[client].opens.retain(|open| open.pool != pool || open.stateid.is_none());
        }
        Ok(())
    }

    /// A pool goes and is back before anybody asks for it: all that anybody has is what it was (rules V37).
    pub(super) fn blink(&mut self) -> Checked<()> {
        let pool = self.chance.below(POOLS as u64) as usize;
        // Graces that are over end: nobody waits for claims that could still be made.
        self.look_after_clients()?;
        if self.world.is_off() || !self.world.is_here(pool) || self.may_be_in_grace(pool) {
            return Ok(());
        }
        self.totals.blinks += 1;
        self.note(|| format!("pool {pool} is exported and imported"));
        if self.world.blink(pool)? { self.look_after_clients() } else { Ok(()) }
    }

    /// What the daemon does once a minute.
    pub(super) fn look_after_clients(&mut self) -> Checked<()> {
        let is_over = self.world.look_after_clients();
        if self.world.is_off() {
            return Ok(());
        }
        let now = self.leases.now();
        for pool in (0..POOLS).filter(|pool| self.imported[*pool].is_some()).collect::<Vec<_>>() {
            let first = *self.looked[pool].get_or_insert(now);
            let claims = self.with_ledger(pool, |ledger, moment| ledger.who_may_claim(pool, moment));
            match (is_over[pool], claims) {
                (true, Some(client)) => {
                    return Err(format!(
                        "nothing may be claimed of pool {pool}, and client {client} has something to claim"
                    ));
                }
                (false, _) if !self.may_be_in_grace(pool) => {
                    return Err(format!("things may be claimed of pool {pool} since {} s", (now - first).as_secs()));
                }
                (true, None) => self.look_for_what_is_gone(pool)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// So much time goes by, in which those who are not silent say a word.
    pub(super) fn pass(&mut self, time: Duration) -> Checked<()> {
        const CHUNK: Duration = Duration::from_secs(25);
        let mut left = time;
        while !left.is_zero() && !self.world.is_off() {
            let chunk = left.min(CHUNK);
            left -= chunk;
            self.pass_chunk(chunk)?;
            self.note_unlisted();
            self.renew()?;
            if self.chance.one_in(2) {
                self.look_after_clients()?;
            }
        }
        Ok(())
    }

    fn pass_chunk(&mut self, mut left: Duration) -> Checked<()> {
        while !left.is_zero() && !self.world.is_off() {
            self.leases.pass(&mut left, &self.world);
            self.look_after_recalls()?;
        }
        Ok(())
    }

    pub(super) fn renew(&mut self) -> Checked<()> {
        for client in 0..CALLERS {
            if !self.callers[client].is_silent && self.callers[client].session.is_some() && !self.world.is_off() {
                // In a slot of its own: what others have done last is asked for again behind a crash.
                self.ask_in(client, &[], (SLOT_OF_CALLS, Way::Plain))?;
            }
        }
        Ok(())
    }

    /// Nobody is answered for a while: for one lease behind it nobody is late.
    pub(super) fn jump(&mut self) -> Checked<()> {
        self.totals.jumps += 1;
        let time = Duration::from_secs(10 + self.chance.below(200));
        self.note(|| format!("nobody is answered for {} s", time.as_secs()));
        self.leases.jump(time, &self.world);
        self.renew()
    }
}
