//! What the server calls clients with, as somebody is kept out by what they keep; and what they say to that.

use std::collections::BTreeMap;
use std::time::Duration;

use tally_nfs::rpc::Outgoing;
use tally_nfs::v4::state::CallId;
use tally_wire::nfs4::CbSequence4Args;
use tally_wire::nfs4::Nfsstat4::*;

use super::files::Handle;
use super::kept::Kept;
use super::leases::LEASE;
use super::ledger::{By, Grant, State};
use super::{Checked, Story};
use crate::words::{self, Called};

/// For so long a client has to say that it has none before that counts (rules V41).
const DENIED: Duration = Duration::from_secs(5);
/// For so long nobody is given a file that was asked for.
const LATELY: Duration = Duration::from_secs(30);
/// What the server looks at twice a second it has seen by then.
const SLACK: Duration = Duration::from_secs(5);
/// Calls that are answered in a row.
const CALLS_MAX: usize = 1000;

/// What a client does about a call, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It says that it comes, and does or not.
    Takes,
    /// It says DELAY until it comes.
    Delays,
    /// It says that it has none, and believes so.
    Denies,
}

/// Something was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Not before.
    since: Duration,
    /// Since then for certain.
    certainly: Option<Duration>,
    /// Its client was first called for it.
    called: Option<Duration>,
    /// Its client says that it has none.
    denied: Option<Duration>,
    /// It was claimed again, so that the time for it begins at the end of the grace, which is two leases at the latest.
    is_claimed: bool,
}

impl Asked {
    fn is_over(&self, now: Duration) -> bool {
        self.since + LEASE <= now || self.denied.is_some_and(|denied| denied + DENIED <= now)
    }
}

/// What was asked for, in this life of the server.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    /// Of which client.
    asked: BTreeMap<(Handle, usize), Asked>,
    lately: BTreeMap<Handle, Duration>,
    /// Or may have been.
    perhaps_lately: BTreeMap<Handle, Duration>,
}

impl Recalls {
    /// It was given with that word.
    pub(super) fn note(&mut self, file: &[u8], client: usize, now: Duration) {
        let asked = self.note_perhaps(file, client, now);
        asked.certainly.get_or_insert(now);
    }

    /// The same of one that was claimed again.
    pub(super) fn note_claimed(&mut self, file: &[u8], client: usize, now: Duration) {
        self.note(file, client, now);
        self.note_perhaps(file, client, now).is_claimed = true;
    }

    fn note_perhaps(&mut self, file: &[u8], client: usize, since: Duration) -> &mut Asked {
        let new = Asked { since, certainly: None, called: None, denied: None, is_claimed: false };
        self.asked.entry((file.to_vec(), client)).or_insert(new)
    }

    fn is_asked(&self, file: &[u8], client: usize) -> bool {
        self.asked.contains_key(&(file.to_vec(), client))
    }

    /// Somebody is kept out by it, or its client is called for the first time.
    fn note_asked(&mut self, file: &[u8], client: usize, now: Duration) {
        self.note(file, client, now);
        self.lately.insert(file.to_vec(), now);
    }

    /// It may be that.
    fn note_perhaps_asked(&mut self, file: &[u8], client: usize, now: Duration) {
        self.note_perhaps(file, client, now);
        self.perhaps_lately.insert(file.to_vec(), now);
    }

    fn note_called(&mut self, file: &[u8], client: usize, now: Duration) {
        self.note_perhaps(file, client, now).called.get_or_insert(now);
    }

    fn deny(&mut self, file: &[u8], client: usize, now: Duration) {
        self.note_perhaps(file, client, now).denied.get_or_insert(now);
    }

    /// Nobody is kept out by it any more.
    pub(super) fn forget(&mut self, file: &[u8], client: usize) {
        self.asked.remove(&(file.to_vec(), client));
    }

    pub(super) fn forget_client(&mut self, client: usize) {
        self.asked.retain(|(_, of), _| *of != client);
    }

    /// Whether it may have been taken by now.
    pub(super) fn is_overdue(&self, file: &[u8], client: usize, now: Duration) -> bool {
        self.asked.get(&(file.to_vec(), client)).is_some_and(|asked| asked.is_over(now))
    }

    /// Whether it has to be: a lease behind the first call, and two behind its beginning.
    pub(super) fn is_over_long_since(&self, file: &[u8], client: usize, now: Duration) -> bool {
        let until = |asked: &Asked| {
            let begun = asked.certainly?;
            let called = asked.called.unwrap_or(begun).clamp(begun, begun + LEASE);
            Some(if asked.is_claimed { begun + LEASE * 3 } else { called + LEASE })
        };
        self.asked.get(&(file.to_vec(), client)).and_then(until).is_some_and(|until| until + SLACK < now)
    }

    /// Whether something may have been taken from a client.
    pub(super) fn may_have_lost(&self, client: usize, now: Duration) -> bool {
        self.asked.iter().any(|((_, of), asked)| *of == client && asked.is_over(now))
    }

    /// These are mounted anew.
    pub(super) fn forget_lately(&mut self, which: impl Fn(&[u8]) -> bool) {
        self.lately.retain(|file, _| !which(file));
    }

    pub(super) fn may_have_been_asked_for_lately(&self, file: &[u8], now: Duration) -> bool {
        let perhaps = self.perhaps_lately.get(file).is_some_and(|at| *at + LATELY > now);
        perhaps || self.was_asked_for_lately(file, now)
    }

    pub(super) fn was_asked_for_lately(&self, file: &[u8], now: Duration) -> bool {
        self.lately.get(file).is_some_and(|at| *at + LATELY > now)
    }
}

impl Story {
    /// Somebody was told to come again who reads, or changes, one of these files: whether one of them is kept from him, and asked for from now on at the latest.
    pub(super) fn is_kept_out(&mut self, by: By, changes: bool, files: &[Handle]) -> bool {
        let in_the_way: Vec<_> = files.iter().flat_map(|file| self.kept_from(file, by, changes)).collect();
        self.are_in_the_way(in_the_way, by, true)
    }

    /// What is in somebody's way, or was when he asked: it may have come back while he waited for something else.
    fn kept_from(&self, file: &Handle, by: By, changes: bool) -> Vec<Grant> {
        let came_back = self.gave_back.iter().filter(|kept| kept.keeps_from(file, by, changes)).cloned();
        came_back.chain(self.ledger.kept_from(file, by, changes)).collect()
    }

    /// Somebody may be, or by something else.
    pub(super) fn may_be_kept_out(&mut self, by: By, changes: bool, files: &[Handle]) {
        let in_the_way = files.iter().flat_map(|file| self.kept_from(file, by, changes)).collect();
        self.are_in_the_way(in_the_way, by, false);
    }

    /// The same of who looks at a file that somebody has for writing: that is asked for, or will be when he looks again.
    pub(super) fn is_kept_from_looking(&mut self, by: By, file: &Handle) -> bool {
        let in_the_way = self.kept_from(file, by, false);
        self.are_in_the_way(in_the_way, by, false)
    }

    /// The same of a name that goes: if it is the last one, and nobody has the file open, its own client's is in the way as well.
    pub(super) fn is_kept_from_unlinking(&mut self, client: usize, names: &[Handle], gone: Option<&Handle>) -> bool {
        let of = gone.map_or(By::Client(client), |file| self.unlinking(client, file));
        let of_gone = gone.map_or_else(Vec::new, |file| self.kept_from(file, of, true));
        let of_others = names.iter().flat_map(|file| self.kept_from(file, By::Client(client), true));
        let in_the_way: Vec<_> = of_others.chain(of_gone).collect();
        self.are_in_the_way(in_the_way, By::Client(client), true)
    }

    /// As whom a client takes the name of a file.
    fn unlinking(&mut self, client: usize, file: &Handle) -> By {
        let pool = self.pool_of(file);
        let is_open = self.with_ledger(pool, |ledger, moment| ledger.has_open(file, moment));
        if is_open { By::Client(client) } else { By::Nobody }
    }

    fn are_in_the_way(&mut self, mut in_the_way: Vec<Grant>, by: By, is_told: bool) -> bool {
        let now = self.leases.now();
        in_the_way.retain(|kept| {
            let is_gone = self.recalls.is_over_long_since(&kept.file, kept.who.0, now);
            matches!(kept.state, State::Held | State::Doubtful) && !is_gone
        });
        let is_kept_out = !in_the_way.is_empty();
        in_the_way.retain(|kept| self.ledger.kept(&kept.file, kept.who.0).is_some());
        // Of several files the first is asked for, whichever that is; and his own where others have none.
        let is_own = |kept: &Grant| match by {
            By::Nobody => false,
            By::Client(client) | By::Owner((client, _)) => kept.who.0 == client,
        };
        let are_all_own = in_the_way.iter().all(is_own);
        let is_of_one = in_the_way.iter().all(|kept| kept.file == in_the_way[0].file);
        for kept in &in_the_way {
            match is_told && is_of_one && (are_all_own || !is_own(kept)) {
                true => self.recalls.note_asked(&kept.file, kept.who.0, now),
                false => self.recalls.note_perhaps_asked(&kept.file, kept.who.0, now),
            }
        }
        self.totals.kept_out += u64::from(is_kept_out);
        is_kept_out
    }

    /// A request that wants one file waits for what others keep: they are called, and if one of them gives it back that request goes on.
    pub(super) fn wait_for_what_is_kept(&mut self, is_woken: &dyn Fn() -> bool) -> Checked<()> {
        self.totals.parked += 1;
        self.came_back.clear();
        self.said.clear();
        self.answer_calls()?;
        let has_come_back = self.wanted.len() == 1 && self.came_back.contains(&self.wanted[0]);
        let is_said = self.wanted.len() == 1 && self.said.contains(&self.wanted[0]);
        match is_woken() {
            false if has_come_back => Err("somebody waits for what was given back".into()),
            false if is_said => Err("somebody waits for what a client has said".into()),
            _ => Ok(()),
        }
    }

    /// The server makes the calls that it has to make, and clients say what they say.
    pub(super) fn answer_calls(&mut self) -> Checked<()> {
        for _ in 0..CALLS_MAX {
            let Some((link, id, call)) = self.world.next_call() else { return Ok(()) };
            match self.callers.iter().position(|caller| caller.is_on(link)) {
                Some(client) => self.answer_call(client, id, &call)?,
                None => self.world.call_lost(&id, false),
            }
        }
        Err("the server calls without end".into())
    }

    fn answer_call(&mut self, client: usize, id: CallId, call: &Outgoing) -> Checked<()> {
        let (sequence, called) = words::called_for(call)?;
        let stateid = match called {
            Called::Recall(stateid) => stateid,
            Called::Look(file) => return self.answer_look(client, id, (&sequence, &file)),
        };
        self.totals.recalls += 1;
        let is_it = |kept: &Kept| kept.stateid.as_ref() == Some(&stateid);
        let Some(at) = self.callers[client].kept.iter().position(is_it) else {
            self.world.call_returned(&id, &words::answer_to(&sequence, Nfs4ErrBadStateid));
            return Ok(());
        };
        let (file, now) = (self.callers[client].kept[at].file.clone(), self.leases.now());
        if self.recalls.is_asked(&file, client) {
            self.recalls.note(&file, client, now);
        } else {
            self.recalls.note_asked(&file, client, now);
        }
        self.recalls.note_called(&file, client, now);
        let drawn = self.chance.below(32);
        if self.callers[client].is_silent || drawn == 0 {
            self.note(|| format!("client {client} is called, and says nothing"));
            self.callers[client].unanswered.push((id, sequence));
            return Ok(());
        }
        if drawn == 1 {
            self.note(|| format!("client {client} is called, and its connection is lost"));
            self.callers[client].unanswered.push((id, sequence));
            self.callers[client].reconnect(&self.world);
            return Ok(());
        }
        let manner = match self.callers[client].kept[at].manner {
            Some(manner) => manner,
            None => self.draw_manner(client, at),
        };
        self.note(|| format!("client {client} is called: {manner:?}"));
        let status = match manner {
            Manner::Takes => Nfs4Ok,
            Manner::Delays => Nfs4ErrDelay,
            Manner::Denies => {
                self.recalls.deny(&file, client, now);
                Nfs4ErrBadStateid
            }
        };
        self.world.call_returned(&id, &words::answer_to(&sequence, status));
        self.give_back_due(client)
    }

    /// A client is asked how a file is by now that it has for writing.
    fn answer_look(&mut self, client: usize, id: CallId, (sequence, file): (&CbSequence4Args, &[u8])) -> Checked<()> {
        self.totals.looks += 1;
        let is_it = |kept: &&Kept| kept.file == file && kept.writes && kept.stateid.is_some() && !kept.is_over;
        let kept = self.callers[client].kept.iter().find(is_it).cloned();
        let says_nothing = self.callers[client].is_silent || self.chance.one_in(24);
        let is = match kept {
            _ if says_nothing => None,
            None => {
                self.world.call_returned(&id, &words::attributes_are(sequence, None));
                return Ok(());
            }
            Some(kept) => kept.attributes(),
        };
        self.note(|| format!("client {client} is asked how what it keeps is: {is:?}"));
        match is {
            None => self.callers[client].unanswered.push((id, sequence.clone())),
            is => {
                self.world.call_returned(&id, &words::attributes_are(sequence, is));
                self.said.push(file.to_vec());
            }
        }
        Ok(())
    }

    fn draw_manner(&mut self, client: usize, at: usize) -> Manner {
        let mut kept = self.callers[client].kept[at].clone();
        match self.chance.below(16) {
            0 => kept.manner = Some(Manner::Denies),
            1 | 2 => {
                (kept.manner, kept.returns_at) = (Some(Manner::Delays), Some(self.some_time_from_now(40)));
            }
            _ => self.draw_return(&mut kept),
        }
        let manner = kept.manner.expect("it was drawn");
        self.callers[client].kept[at] = kept;
        manner
    }

    fn some_time_from_now(&mut self, seconds: u64) -> Duration {
        self.leases.now() + Duration::from_secs(self.chance.below(seconds))
    }

    /// When it gives back what it was asked for: at once, some time later, which may be too late, or never.
    pub(super) fn draw_return(&mut self, kept: &mut Kept) {
        kept.manner = Some(Manner::Takes);
        kept.returns_at = match self.chance.below(8) {
            0 => None,
            1..4 => Some(self.some_time_from_now(120)),
            _ => Some(self.leases.now()),
        };
    }

    /// It gives back what it was to give back by now.
    fn give_back_due(&mut self, client: usize) -> Checked<()> {
        let now = self.leases.now();
        let mut due = Vec::new();
        for kept in self.callers[client].kept.iter_mut().filter(|kept| kept.stateid.is_some()) {
            // What it is about to give back it does not give back once more where it is called for another one meanwhile.
            if self.world.is_here(kept.pool) && kept.returns_at.take_if(|at| *at <= now).is_some() {
                due.push(kept.file.clone());
            }
        }
        due.into_iter().try_for_each(|file| self.give_back(client, &file))
    }

    /// Time has passed: the server looks after those that it waits for, and they do what they were to do.
    pub(super) fn look_after_recalls(&mut self) -> Checked<()> {
        if !self.world.look_after_waiters() {
            return Ok(());
        }
        self.answer_calls()?;
        for client in 0..self.callers.len() {
            if !self.callers[client].is_silent && self.callers[client].session.is_some() {
                self.give_back_due(client)?;
            }
        }
        Ok(())
    }

    /// A client answers a call that it was made a while ago, which may be too late.
    pub(super) fn answer_late(&mut self, client: usize) {
        if let Some((id, sequence)) = self.callers[client].unanswered.pop() {
            self.note(|| format!("client {client} answers a call of a while ago"));
            self.world.call_returned(&id, &words::answer_to(&sequence, Nfs4Ok));
        }
    }
}
