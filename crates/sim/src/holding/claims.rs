//! How a client comes back: it introduces itself, claims what it believes to have had, and says that it claims nothing more.

use tally_wire::nfs4::Nfsstat4::*;

use super::caller::{Believed, Caller};
use super::judge::{READ, WRITE};
use super::ledger::{By, Given, State, What};
use super::world::POOLS;
use super::{CALLERS, Checked, OLDER, Story};
use crate::words::{self, Told};

/// As which owner a client opens what it kept.
const KEEPS: u8 = 3;

impl Story {
    /// One step of somebody who is coming back. False: there is nobody.
    pub(super) fn come_back(&mut self) -> Checked<bool> {
        let is_coming = |caller: &&Caller| !caller.is_silent && (caller.session.is_none() || !caller.is_complete);
        let coming: Vec<usize> = self.callers.iter().filter(is_coming).map(|caller| caller.number).collect();
        if coming.is_empty() {
            return Ok(false);
        }
        let client = self.chance.pick(&coming);
        if self.callers[client].session.is_none() {
            self.connect(client)?;
            return Ok(true);
        }
        self.claim_what_is_kept(client);
        let opens = &self.callers[client].opens;
        let is_lost = |open: &Believed| open.stateid.is_none() || open.lost.contains(&true);
        let here: Vec<usize> =
            (0..opens.len()).filter(|at| is_lost(&opens[*at]) && self.world.is_here(opens[*at].pool)).collect();
        let is_waiting = opens.iter().any(|open| is_lost(open) && !self.world.is_here(open.pool));
        let completes = if !here.is_empty() { self.chance.one_in(12) } else { !is_waiting || self.chance.one_in(4) };
        match here.is_empty() {
            _ if completes => self.complete(client)?,
            false => {
                let at = self.chance.pick(&here);
                self.claim(client, at)?;
            }
            true => {}
        }
        Ok(true)
    }

    fn connect(&mut self, client: usize) -> Checked<()> {
        self.callers[client].would_last = client > 0 && client != OLDER && !self.chance.one_in(4);
        self.lasting.forget(client);
        let is_there = self.callers[client].connect(&self.world)?;
        self.note(|| format!("client {client} introduces itself"));
        if is_there && !self.world.is_off() {
            self.session_of[client] = self.life;
            self.hears(client);
            let starts = std::mem::take(&mut self.starting[client]);
            if starts {
                // What it had before it started is gone by now.
                self.ledger.give_up(client, &|_| true, &|_| true);
                self.recalls.forget_client(client);
            }
        }
        Ok(())
    }

    /// It starts anew, and knows of nothing that it had.
    pub(super) fn start_anew(&mut self) -> Checked<()> {
        let client = self.chance.below(CALLERS as u64) as usize;
        self.totals.started_anew += 1;
        self.note(|| format!("client {client} starts anew"));
        self.ledger.doubt(client);
        self.callers[client].start_anew(&self.world);
        self.callers[client].is_silent = false;
        self.starting[client] = true;
        Ok(())
    }

    fn complete(&mut self, client: usize) -> Checked<()> {
        if !self.callers[client].is_older() {
            let Some(told) = self.ask(client, &[words::complete()])? else { return Ok(()) };
            self.note(|| format!("client {client} claims nothing more: {:?}", told.status));
            if !told.is_ok() {
                return Err(format!("RECLAIM_COMPLETE is told {:?}", told.status));
            }
        }
        self.completed[client] = Some(self.leases.now());
        let caller = &mut self.callers[client];
        caller.is_complete = true;
        caller.opens.retain(|open| open.stateid.is_some());
        caller.kept.retain(|kept| kept.stateid.is_some());
        for open in &mut caller.opens {
            for (byte, lost) in open.bytes.iter_mut().zip(&mut open.lost) {
                if std::mem::take(lost) {
                    *byte = None;
                }
            }
        }
        self.ledger.give_up(client, &|_| true, &|state| state != State::Held);
        Ok(())
    }

    /// Claims an open that it believes to have, or what it has locked below.
    fn claim(&mut self, client: usize, at: usize) -> Checked<()> {
        let open = self.callers[client].opens[at].clone();
        match open.stateid {
            None => self.claim_open(client, &open),
            Some(_) => self.claim_bytes(client, &open),
        }
    }

    /// What it kept of a file that it had not open it claims with an open.
    fn claim_what_is_kept(&mut self, client: usize) {
        let caller = &mut self.callers[client];
        let is_open = |file: &[u8]| caller.opens.iter().any(|open| open.file == file && open.stateid.is_none());
        let lost = caller.kept.iter().filter(|kept| kept.stateid.is_none() && !is_open(&kept.file));
        let opens: Vec<_> = lost
            .map(|kept| {
                Believed::to_claim((kept.pool, &kept.file), KEEPS, if kept.writes { READ | WRITE } else { READ })
            })
            .collect();
        for open in opens {
            caller.opens.retain(|other| other.file != open.file || other.owner != KEEPS);
            caller.opens.push(open);
        }
    }

    fn claim_open(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let (who, share) = ((client, open.owner), open.share());
        let keeps = self.claims_kept(client, &open.file);
        if keeps.is_some() && !self.callers[client].is_reachable && !self.chance.one_in(8) {
            self.callers[client].bind(&self.world)?;
        }
        let again = words::open_again(&Caller::owner(open.owner), share, keeps);
        let Some(told) = self.ask(client, &[words::put(&open.file), again, words::get_change()])? else {
            return Ok(());
        };
        let file = self.known_as(&open.file);
        self.note(|| format!("client {client} claims {share:?} of {file}: {:?}", told.status));
        let state = self.ledger.open(&open.file, who).map(|grant| grant.state);
        if told.is_ok() {
            self.give(open.pool, &open.file, who, What::Open(share.0, share.1), Given::Again)?;
            self.totals.claims += 1;
            self.totals.older_claims += u64::from(self.callers[client].is_older());
            let stateid = told.stateid();
            let believed = self.callers[client].believed(&open.file, open.owner).expect("it is there");
            (believed.stateid, believed.shares, believed.is_claimed) = (stateid, vec![share], true);
            if keeps.is_some() {
                self.judge_claimed(who, &open.file, &told)?;
            }
            return told.change().map_or(Ok(()), |change| self.files.shown(&open.file, change));
        }
        let changes = What::Open(share.0, share.1).changes();
        if told.status == Nfs4ErrDelay
            && self.is_kept_out(By::Client(client), changes, std::slice::from_ref(&open.file))
        {
            return Ok(());
        }
        self.check_refused(client, open.pool, state, &told)?;
        if keeps.is_some() {
            self.judge_claimed(who, &open.file, &told)?;
        }
        self.ledger.close(&open.file, who);
        self.callers[client].opens.retain(|other| other.file != open.file || other.owner != open.owner);
        Ok(())
    }

    /// A claim was refused: it was somebody else's meanwhile, or its time was over.
    fn check_refused(&mut self, client: usize, pool: usize, state: Option<State>, told: &Told) -> Checked<()> {
        self.totals.claims_refused += 1;
        if state == Some(State::Claimable) && self.may_claim(client, pool) {
            return Err(format!("client {client} is told {:?} of what nobody else was given", told.status));
        }
        match told.status {
            Nfs4ErrNoGrace | Nfs4ErrReclaimConflict | Nfs4ErrReclaimBad | Nfs4ErrStale => Ok(()),
            status => Err(format!("client {client} claims what it does not have any more, and is told {status:?}")),
        }
    }

    fn claim_bytes(&mut self, client: usize, open: &Believed) -> Checked<()> {
        let (Some(stateid), Some((from, count, writes))) = (&open.stateid, open.lost_run()) else { return Ok(()) };
        let (who, range) = ((client, open.owner), (from as u64, count as u64));
        let lock = words::lock(stateid, &Caller::owner(open.owner), writes, range, true);
        let Some(told) = self.ask(client, &[words::put(&open.file), lock])? else { return Ok(()) };
        self.note(|| format!("client {client} claims bytes {range:?} (to write: {writes}): {:?}", told.status));
        let states: Vec<_> =
            (from..from + count).map(|byte| self.ledger.byte(&open.file, who, byte).map(|grant| grant.state)).collect();
        if told.is_ok() {
            for byte in from..from + count {
                self.give(open.pool, &open.file, who, What::Byte(byte, writes), Given::Again)?;
            }
            self.totals.claims += 1;
            self.totals.older_claims += u64::from(self.callers[client].is_older());
        } else {
            let is_whole = states.iter().all(|state| *state == Some(State::Claimable));
            let state = if is_whole { Some(State::Claimable) } else { Some(State::Doubtful) };
            self.check_refused(client, open.pool, state, &told)?;
            self.ledger.unlock(&open.file, who, from..from + count);
        }
        let stateid = told.stateid();
        let Some(believed) = self.callers[client].believed(&open.file, open.owner) else { return Ok(()) };
        for byte in from..from + count {
            believed.lost[byte] = false;
            if stateid.is_none() {
                believed.bytes[byte] = None;
            }
        }
        believed.locks = stateid.or(believed.locks.take());
        Ok(())
    }

    /// Somebody claims who may not: he has said that he claims nothing more, or never had anything in that pool.
    pub(super) fn claim_out_of_turn(&mut self) -> Checked<()> {
        let client = self.chance.below(CALLERS as u64) as usize;
        let caller = &self.callers[client];
        if caller.session.is_none() || caller.is_silent || caller.is_older() {
            return Ok(());
        }
        let may = |pool: usize| !caller.is_complete && self.listed[pool].contains(&client);
        let of: Vec<_> = self.files.handles().into_iter().filter(|file| self.files.has_name(file)).collect();
        let of: Vec<_> =
            of.into_iter().filter(|file| self.world.is_here(self.pool_of(file)) && !may(self.pool_of(file))).collect();
        if of.is_empty() {
            return Ok(());
        }
        let file = self.chance.pick(&of);
        let ops = [words::put(&file), words::open_again(&Caller::owner(9), (1, 0), Some(false))];
        let Some(told) = self.ask(client, &ops)? else { return Ok(()) };
        self.totals.claims_out_of_turn += 1;
        self.note(|| format!("client {client} claims what it may not: {:?}", told.status));
        match told.status {
            Nfs4ErrNoGrace => Ok(()),
            status => Err(format!("client {client} claims what it may not, and is told {status:?}")),
        }
    }

    /// At the end all who are there come back, and whatever nobody has goes.
    pub(super) fn end(&mut self) -> Checked<()> {
        self.callers.iter_mut().for_each(|caller| caller.is_silent = false);
        for pool in 0..POOLS {
            if !self.world.is_here(pool) {
                self.import(pool, 0)?;
            }
        }
        self.renew()?;
        for _ in 0..100 {
            if !self.come_back()? {
                break;
            }
        }
        self.look_after_clients()
    }
}
