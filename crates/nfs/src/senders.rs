//! Who sent a request that the pool remembers: the connection, by a number that stands in the pool beside the answer.
//!
//! The problem: two live connections of one client are two senders (see [`crate::replies`]), and what they mean by equal
//! requests are two things. The reply cache knows on which connection it has made an answer, and forgets most answers
//! long before the pool does. Then a repetition of the one's request was told what had been the other's, and a new request
//! of the other the one's answer.
//!
//! The idea: on one connection, equal requests are one request and its repetitions. So what the pool keeps beside an answer
//! is the connection's number, and here stands which of them live. A repetition gets the answer of its own connection; else the last one
//! that was given on no connection that lives, as a client comes on another one when its first is gone. It does not get what
//! was given on one that lives (rules F12).
//!
//! It costs a line for each connection that is open, and for each that is gone and has left a request in doubt to one, but
//! nothing for requests: a connection knows of itself that it stands here ([`Link`]), until lines go. A process begins to count at random, as the pool keeps the numbers over restarts: those of
//! another life are nobody's here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use foldhash::HashMap;
use parking_lot::RwLock;

use crate::link::Link;

/// The connections that have sent something which a pool remembers.
pub struct Senders {
    /// The number of the connection with the id 0.
    first: u64,
    /// How often lines have gone, and one more: who has seen his line since the last time need not look for it. It changes under the lock of `lines`.
    round: AtomicU64,
    lines: RwLock<Lines>,
}

struct Lines {
    links: HashMap<u64, Weak<Link>>,
    /// When there are so many it is looked which of them are gone.
    look_at: usize,
}

/// Before there are so many nobody looks.
const LINES_FEW: usize = 64;
/// Four for each connection that there can be. Who finds no line counts as gone.
const LINES_MAX: usize = 16 << 10;

impl Senders {
    /// None yet; their numbers begin here.
    #[must_use]
    pub fn numbered_from(first: u64) -> Self {
        Self {
            first,
            round: AtomicU64::new(1),
            lines: RwLock::new(Lines { links: HashMap::default(), look_at: LINES_FEW }),
        }
    }

    /// The number of a connection.
    #[must_use]
    pub fn number(&self, link: &Link) -> u64 {
        self.first.wrapping_add(link.id())
    }

    /// A pool may get to remember an answer of this connection.
    pub fn enter(&self, link: &Arc<Link>) {
        // Before it is looked: lines that go behind that look begin another round.
        let round = self.round.load(Ordering::Acquire);
        if link.is_entered(round) {
            return;
        }
        let number = self.number(link);
        let is_there = || self.lines.read().links.contains_key(&number);
        if is_there() || self.insert(number, link) {
            link.note_entered(round);
        }
    }

    /// What was sent under this number is the heir's from now on.
    pub fn hand_over(&self, number: u64, heir: &Arc<Link>) {
        self.insert(number, heir);
    }

    /// Whether there was room for it.
    fn insert(&self, number: u64, link: &Arc<Link>) -> bool {
        let mut lines = self.lines.write();
        if lines.is_full() {
            lines.forget_closed();
            self.round.fetch_add(1, Ordering::Release);
        }
        lines.insert(number, link)
    }

    /// Whether what was sent under this number was sent on `link`.
    #[must_use]
    pub fn is(&self, link: &Link, number: u64) -> bool {
        self.number(link) == number || self.find(number).is_some_and(|sender| sender.id() == link.id())
    }

    /// Whether the connection lives on which something was sent under this number.
    #[must_use]
    pub fn is_alive(&self, number: u64) -> bool {
        self.find(number).is_some_and(|sender| sender.is_alive())
    }

    fn find(&self, number: u64) -> Option<Arc<Link>> {
        self.lines.read().links.get(&number)?.upgrade()
    }
}

impl Lines {
    fn is_full(&self) -> bool {
        self.links.len() >= self.look_at
    }

    fn forget_closed(&mut self) {
        self.links.retain(|_, link| link.upgrade().is_some_and(|link| link.is_open()));
        self.look_at = (2 * self.links.len()).clamp(LINES_FEW, LINES_MAX);
    }

    fn insert(&mut self, number: u64, link: &Arc<Link>) -> bool {
        let has_room = self.links.len() < LINES_MAX;
        if has_room {
            self.links.insert(number, Arc::downgrade(link));
        }
        has_room
    }
}

#[cfg(test)]
mod tests;
