//! What was given up a moment ago, and may overtake a LOCK that came before it (N3).
//!
//! Requests run side by side, also those of one connection. A process waits for a LOCK, which waits here for a disk, and is killed: its host sends UNLOCK, which waits for nothing. Carried out behind that the LOCK would be of a process that is
//! gone, and nobody would ever unlock it. So each request has a number, in the order in which they came, and a LOCK finds what came behind it and was carried out before. It is told to come again, which a process that is there does,
//! and so is one of which that is not known any more, as it has waited here while many others gave something up.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use tally_vfs::locks::Range;

use super::hosts::HostProcess;

/// So much is remembered: more UNLOCKs than come while a LOCK is in the house.
pub const KEPT_MAX: usize = 1024;

#[derive(Debug)]
struct GivenUp<F> {
    came: u64,
    /// Of its process.
    hash: u64,
    file: F,
    range: Range,
}

/// The newest of what was given up.
#[derive(Debug)]
pub struct Overtaking<F> {
    hasher: RandomState,
    past: VecDeque<GivenUp<F>>,
    /// The latest that is remembered no more.
    forgotten: Option<u64>,
}

impl<F> Default for Overtaking<F> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), past: VecDeque::new(), forgotten: None }
    }
}

impl<F: PartialEq> Overtaking<F> {
    fn hash(&self, who: &HostProcess<'_>) -> u64 {
        self.hasher.hash_one((who.address.to_canonical(), who.is_privileged, who.process))
    }

    /// A process gives this up, by a request of that number.
    pub fn note(&mut self, came: u64, who: &HostProcess<'_>, file: F, range: Range) {
        let hash = self.hash(who);
        if self.past.len() >= KEPT_MAX {
            self.forgotten = self.forgotten.max(self.past.pop_front().map(|past| past.came));
        }
        self.past.push_back(GivenUp { came, hash, file, range });
    }

    /// Whether something that came behind this one is remembered no more.
    #[must_use]
    pub fn has_forgotten(&self, came: u64) -> bool {
        self.forgotten > Some(came)
    }

    /// Whether it has done so by one that came behind this one, by which it would have it.
    #[must_use]
    pub fn is_behind(&self, came: u64, who: &HostProcess<'_>, file: &F, range: Range) -> bool {
        let mut later = self.past.iter().filter(|past| past.came > came).peekable();
        if later.peek().is_none() {
            return false;
        }
        let hash = self.hash(who);
        later.any(|past| past.hash == hash && past.file == *file && past.range.overlaps(range))
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Process;
    use super::*;

    fn who(number: u32, is_privileged: bool) -> HostProcess<'static> {
        let process = Process { handle: b"p@h", number };
        HostProcess { address: [10, 0, 0, 1].into(), is_privileged, name: b"", process }
    }

    #[test]
    fn what_comes_behind_a_request_and_is_done_before_it_is_found() {
        let range = |first, last| Range::between(first, last).unwrap();
        let mut given_up = Overtaking::default();
        given_up.note(5, &who(1, true), 1, range(10, 19));
        assert!(!given_up.has_forgotten(4));
        let is_behind = |given_up: &Overtaking<u8>, came, who: HostProcess<'_>, file, range| {
            given_up.is_behind(came, &who, &file, range)
        };
        assert!(is_behind(&given_up, 4, who(1, true), 1, range(0, 10)));
        assert!(!is_behind(&given_up, 6, who(1, true), 1, range(0, 10)), "it came behind it");
        assert!(!is_behind(&given_up, 4, who(1, true), 1, range(0, 9)), "of other bytes");
        assert!(!is_behind(&given_up, 4, who(1, true), 2, range(0, 10)), "of another file");
        assert!(!is_behind(&given_up, 4, who(2, true), 1, range(0, 10)), "of another process");
        assert!(!is_behind(&given_up, 4, who(1, false), 1, range(0, 10)), "of a user's");
        (0..KEPT_MAX as u64).for_each(|came| given_up.note(100 + came, &who(2, true), 1, range(0, 0)));
        assert!(!is_behind(&given_up, 4, who(1, true), 1, range(0, 10)) && given_up.past.len() == KEPT_MAX);
        assert!(given_up.has_forgotten(4) && !given_up.has_forgotten(5));
    }
}
