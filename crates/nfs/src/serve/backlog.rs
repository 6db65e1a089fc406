//! The requests of one connection that wait for a worker, or for the connection's socket.
//!
//! ```text
//!               push              taken, more is left
//!   Nowhere ──────────▶ Listed ◀─────────────────────┐
//!      ▲                 │  │  └─────────────────────┘
//!      └─ the last taken ┘  │ its replies are not taken ──▶ Parked ── they are again ──▶ Listed
//!                           └───────────────── closed ──▶ Closed ◀── closed ── from everywhere
//! ```
//!
//! The queue of all workers has a connection at most once, and takes one request of each in turn: who sends a thousand
//! at once waits for himself. While it is parked its requests are no work but its debt (`ledger`).

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::ledger::{Account, Debt};

/// Of what the requests are it knows only what each was charged.
pub(super) struct Backlog<W> {
    state: Mutex<State<W>>,
}

struct State<W> {
    /// Each with what it was charged.
    works: VecDeque<(W, usize)>,
    /// The same of all of them.
    bytes: usize,
    place: Place,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Listed,
    Parked,
    Closed,
}

/// What became of a request that was added.
pub(super) enum Added<W> {
    /// Its connection has to be listed.
    List,
    /// It waits; whether others may be read for that.
    Waits { crossed: bool },
    /// Nobody waits for it: drop it.
    Refused(W),
}

/// The next request, if there is one.
pub(super) enum Next<W> {
    /// It, and whether the connection has to be listed again.
    Work(W, bool),
    /// Its replies have to be taken first. Whether others may be read for that, and whether somebody has to go.
    Parked {
        crossed: bool,
        over: bool,
    },
    Nothing,
}

impl<W> Default for Backlog<W> {
    fn default() -> Self {
        Self { state: Mutex::new(State { works: VecDeque::new(), bytes: 0, place: Place::default() }) }
    }
}

impl<W> Backlog<W> {
    pub(super) fn push(&self, work: W, bytes: usize, account: &Account) -> Added<W> {
        let mut state = self.state.lock();
        if state.place == Place::Closed {
            return Added::Refused(work);
        }
        state.bytes += bytes;
        let mut crossed = false;
        if state.place == Place::Parked {
            crossed = account.give_back_work(bytes);
            account.owe(Debt::Backlog, state.bytes);
        }
        state.works.push_back((work, bytes));
        if state.place != Place::Nowhere {
            return Added::Waits { crossed };
        }
        state.place = Place::Listed;
        Added::List
    }

    /// The next request of a connection that was listed; `may_reply` says whether its replies are taken.
    pub(super) fn next(&self, account: &Account, may_reply: bool) -> Next<W> {
        let mut state = self.state.lock();
        if state.place != Place::Listed {
            return Next::Nothing;
        }
        if !may_reply && !state.works.is_empty() {
            state.place = Place::Parked;
            let crossed = account.give_back_work(state.bytes);
            return Next::Parked { crossed, over: account.owe(Debt::Backlog, state.bytes) };
        }
        let first = state.works.pop_front();
        if state.works.is_empty() {
            state.place = Place::Nowhere;
            // A burst leaves nothing behind.
            state.works = VecDeque::new();
        }
        let Some((work, bytes)) = first else { return Next::Nothing };
        state.bytes -= bytes;
        Next::Work(work, state.place == Place::Listed)
    }

    /// Whether something waits in it.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().works.is_empty()
    }

    pub(super) fn is_parked(&self) -> bool {
        self.state.lock().place == Place::Parked
    }

    /// Its replies are taken again; true if it was parked, and has to be listed.
    pub(super) fn unpark(&self, account: &Account) -> bool {
        let mut state = self.state.lock();
        if state.place != Place::Parked {
            return false;
        }
        state.place = Place::Listed;
        account.add_work(state.bytes);
        account.owe(Debt::Backlog, 0);
        true
    }

    /// Nothing is carried out any more. Gives what waited, to be dropped where no lock is held.
    pub(super) fn close(&self, account: &Account) -> VecDeque<(W, usize)> {
        let mut state = self.state.lock();
        if state.place == Place::Parked {
            account.add_work(state.bytes);
            account.owe(Debt::Backlog, 0);
        }
        state.place = Place::Closed;
        state.bytes = 0;
        std::mem::take(&mut state.works)
    }
}

#[cfg(test)]
mod tests;
