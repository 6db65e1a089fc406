//! What is being asked: each question once, in the order in which they came, and whether answers come in time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;

use super::known::Question;
use crate::v4::parking::PARKED;

/// Most questions that are asked and not answered; of others nobody knows anything for now.
pub(super) const OPEN_MAX: usize = 1024;
/// Of these, places that only who gives something to a name may take: listings of many owners leave him some.
pub(super) const FOR_GIVERS: usize = 128;
/// An answer that takes longer nobody waits for.
const PATIENCE: Duration = PARKED;

/// When a question was asked, as a number in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::v4) struct Ticket(u64);

#[cfg(test)]
impl Ticket {
    pub(super) fn nth(number: u64) -> Self {
        Self(number)
    }
}

/// All questions that are open.
#[derive(Default)]
pub(super) struct Asking {
    state: Mutex<State>,
    /// There is something to ask, or it is over.
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Names whose numbers are asked for come first: who gives something waits for them.
    waiting: VecDeque<(Question, Ticket, Instant)>,
    open: HashMap<Question, Ticket>,
    /// Those of `open`.
    tickets: BTreeSet<Ticket>,
    /// Which of them are being asked, and since when.
    running: SmallVec<[(Ticket, Instant); 2]>,
    last: u64,
    /// When one was answered last that took no longer than anybody waits.
    prompt_at: Option<Instant>,
    /// The last answer took longer.
    was_late: bool,
    is_told: bool,
    is_over: bool,
}

impl State {
    fn is_hanging(&self, ticket: Ticket, now: Instant) -> bool {
        self.running
            .iter()
            .any(|(running, began)| *running == ticket && now.saturating_duration_since(*began) > PATIENCE)
    }

    /// Whether answers do not come in time. Of one that never comes that is told by those behind it.
    fn is_late(&self, now: Instant) -> bool {
        let hangs = |began: Instant| {
            now.saturating_duration_since(began) > PATIENCE && self.prompt_at.is_none_or(|prompt| prompt < began)
        };
        self.was_late || self.running.iter().any(|(_, began)| hangs(*began))
    }

    /// Whether so much is to be asked before, that nobody who comes now waits for that.
    fn is_backed_up(&self, now: Instant) -> bool {
        let first = self.waiting.iter().find(|(question, ..)| matches!(question, Question::Name(..)));
        first.is_some_and(|(.., since)| now.saturating_duration_since(*since) > PATIENCE)
    }

    fn begin(&mut self, now: Instant) -> Option<(Question, Ticket)> {
        let (question, ticket, _) = self.waiting.pop_front()?;
        self.running.push((ticket, now));
        Some((question, ticket))
    }

    /// The first that is worth waiting for, of those that are open.
    fn oldest(&self, now: Instant) -> Option<Ticket> {
        self.tickets.iter().copied().find(|ticket| !self.is_hanging(*ticket, now))
    }
}

impl Asking {
    /// Asks that, unless somebody has; `is_known` says whether it was answered since the caller looked. Gives what is worth waiting for.
    pub(super) fn ask(&self, question: Question, now: Instant, is_known: impl Fn() -> bool) -> Option<Ticket> {
        let is_given = matches!(question, Question::Id(..));
        let most = if is_given { OPEN_MAX } else { OPEN_MAX - FOR_GIVERS };
        let mut state = self.state.lock();
        let ticket = match state.open.get(&question) {
            Some(ticket) => *ticket,
            // Nothing is open that was asked before all.
            None if is_known() => return Some(Ticket(0)),
            None if state.open.len() >= most => return None,
            None => {
                state.last += 1;
                let ticket = Ticket(state.last);
                state.open.insert(question.clone(), ticket);
                state.tickets.insert(ticket);
                match is_given {
                    true => state.waiting.push_front((question, ticket, now)),
                    false => state.waiting.push_back((question, ticket, now)),
                }
                self.work.notify_one();
                ticket
            }
        };
        let is_backed_up = state.is_backed_up(now);
        let is_late = state.is_late(now);
        let is_news = is_late && !std::mem::replace(&mut state.is_told, is_late);
        drop(state);
        if is_news {
            tracing::warn!(
                "the name service of this machine keeps NFSv4 waiting: owners that are not known are told as numbers"
            );
        }
        (!is_late && !is_backed_up).then_some(ticket)
    }

    /// Whether something is open that was asked by then, and may still be answered in time.
    pub(super) fn is_open(&self, asked: Ticket, now: Instant) -> bool {
        self.state.lock().oldest(now).is_some_and(|oldest| oldest <= asked)
    }

    /// The next question, for who asks it; nothing, when all is over.
    pub(super) fn next(&self) -> Option<(Question, Ticket)> {
        let mut state = self.state.lock();
        loop {
            if state.is_over {
                return None;
            }
            match state.begin(Instant::now()) {
                Some(begun) => return Some(begun),
                None => self.work.wait(&mut state),
            }
        }
    }

    /// It was answered. Gives the first that is open still: who waits for those before it goes on.
    pub(super) fn answered(&self, question: &Question, ticket: Ticket, now: Instant) -> Option<Ticket> {
        let mut state = self.state.lock();
        state.was_late = state.is_hanging(ticket, now);
        state.prompt_at = if state.was_late { state.prompt_at } else { Some(now) };
        state.is_told &= state.was_late;
        state.running.retain(|(running, _)| *running != ticket);
        state.open.remove(question);
        state.tickets.remove(&ticket);
        state.oldest(now)
    }

    /// Nobody asks any more. A thread that is told nothing is left where it is.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.work.notify_all();
    }

    #[cfg(test)]
    pub(super) fn next_at(&self, now: Instant) -> Option<(Question, Ticket)> {
        self.state.lock().begin(now)
    }

    #[cfg(test)]
    pub(super) fn has_waiting(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }
}
