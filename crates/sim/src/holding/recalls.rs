//! What the server calls clients with, as somebody is kept out by what they keep; and what they say to that.

use std::collections::BTreeMap;
use std::time::Duration;

use tally_nfs::rpc::Outgoing;
use tally_nfs::v4::state::CallId;
use tally_wire::nfs4::Nfsstat4::*;

use super::files::Handle;
use super::kept::Kept;
use super::leases::LEASE;
use super::ledger::State;
use super::words;
use super::{Checked, Story};

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
    /// Its client says that it has none.
    denied: Option<Duration>,
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
}

impl Recalls {
    /// It was given with that word.
    pub(super) fn note(&mut self, file: &[u8], client: usize, now: Duration) {
        let asked = self.note_perhaps(file, client, now);
        asked.certainly.get_or_insert(now);
    }

    fn note_perhaps(&mut self, file: &[u8], client: usize, since: Duration) -> &mut Asked {
        let new = Asked { since, certainly: None, denied: None };
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

    /// Whether it has to be.
    pub(super) fn is_over_long_since(&self, file: &[u8], client: usize, now: Duration) -> bool {
        self.asked
            .get(&(file.to_vec(), client))
            .and_then(|asked| asked.certainly)
            .is_some_and(|since| since + LEASE + SLACK < now)
    }

    /// Whether something may have been taken from a client.
    pub(super) fn may_have_lost(&self, client: usize, now: Duration) -> bool {
        self.asked.iter().any(|((_, of), asked)| *of == client && asked.is_over(now))
    }

    /// These are mounted anew.
    pub(super) fn forget_lately(&mut self, which: impl Fn(&[u8]) -> bool) {
        self.lately.retain(|file, _| !which(file));
    }

    pub(super) fn was_asked_for_lately(&self, file: &[u8], now: Duration) -> bool {
        self.lately.get(file).is_some_and(|at| *at + LATELY > now)
    }
}

impl Story {
    /// Somebody was told to come again: whether one of these files is kept by another one, who is asked for it from now on at the latest.
    pub(super) fn is_kept_out(&mut self, client: Option<usize>, files: &[Handle]) -> bool {
        let now = self.leases.now();
        let mut in_the_way: Vec<_> = files.iter().flat_map(|file| self.ledger.kept_by_others(file, client)).collect();
        in_the_way.retain(|kept| {
            let is_gone = self.recalls.is_over_long_since(&kept.file, kept.who.0, now);
            matches!(kept.state, State::Held | State::Doubtful) && !is_gone
        });
        // Of several files the first is asked for, whichever that is.
        let is_certain = in_the_way.iter().all(|kept| kept.file == in_the_way[0].file);
        for kept in &in_the_way {
            match is_certain {
                true => self.recalls.note_asked(&kept.file, kept.who.0, now),
                false => _ = self.recalls.note_perhaps(&kept.file, kept.who.0, now),
            }
        }
        let is_kept_out = !in_the_way.is_empty();
        self.totals.kept_out += u64::from(is_kept_out);
        is_kept_out
    }

    /// The same of an open of a client, or of a name that goes: where no other one keeps the file, its own one may, of which another owner has it, or nobody has it open.
    pub(super) fn is_kept_out_even_by(&mut self, client: usize, files: &[Handle]) -> bool {
        self.is_kept_out(Some(client), files) || self.is_kept_out(None, files)
    }

    /// A request that wants one file waits for what others keep: they are called, and if one of them gives it back that request goes on.
    pub(super) fn wait_for_what_is_kept(&mut self, is_woken: &dyn Fn() -> bool) -> Checked<()> {
        self.totals.parked += 1;
        self.came_back.clear();
        self.answer_calls()?;
        let has_come_back = self.wanted.len() == 1 && self.came_back.contains(&self.wanted[0]);
        if has_come_back && !is_woken() { Err("somebody waits for what was given back".into()) } else { Ok(()) }
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
        let (sequence, recall) = words::recall_of(call)?;
        self.totals.recalls += 1;
        let is_it = |kept: &Kept| kept.stateid.as_ref() == Some(&recall.stateid);
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
