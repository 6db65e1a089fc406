//! What was given up a moment ago, and may overtake a LOCK that came before it (N3).
//!
//! Requests run side by side, also those of one connection. A process waits for a LOCK, which waits here for a disk, and is killed: its host sends UNLOCK, which waits for nothing. Carried out behind that the LOCK would be of a process that is
//! gone, and nobody would ever unlock it. So each request has a number, in the order in which they came, and a LOCK finds what came behind it and was carried out before. It is told to come again, which a process that is there does,
//! and so is one of which that is not known any more, as it has waited here while its host gave much else up.
//!
//! What is remembered lies in [`RINGS`], one for each host but for those that chance puts into one: a host that gives up thousands in a moment leaves others alone.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use tally_vfs::locks::Range;

use super::hosts::HostProcess;

/// So much is remembered in each ring: more UNLOCKs of a host than come while one of its LOCKs is in the house.
pub const KEPT_MAX: usize = 1024;
/// How many of these there are: some 4 MB of them, if all are full.
pub const RINGS: usize = 64;

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
    rings: [Ring<F>; RINGS],
}

#[derive(Debug)]
struct Ring<F> {
    past: VecDeque<GivenUp<F>>,
    /// The latest that is remembered no more.
    forgotten: Option<u64>,
}

impl<F> Default for Overtaking<F> {
    fn default() -> Self {
        let ring = |_| Ring { past: VecDeque::new(), forgotten: None };
        Self { hasher: RandomState::new(), rings: std::array::from_fn(ring) }
    }
}

impl<F: PartialEq> Overtaking<F> {
    fn hash(&self, who: &HostProcess<'_>) -> u64 {
        self.hasher.hash_one((who.address.to_canonical(), who.is_privileged, who.process))
    }

    /// Which ring is a host's.
    fn ring(&self, who: &HostProcess<'_>) -> usize {
        self.hasher.hash_one(who.address.to_canonical()) as usize % RINGS
    }

    /// A process gives this up, by a request of that number.
    pub fn note(&mut self, came: u64, who: &HostProcess<'_>, file: F, range: Range) {
        let (hash, at) = (self.hash(who), self.ring(who));
        let Ring { past, forgotten } = &mut self.rings[at];
        if past.len() >= KEPT_MAX {
            *forgotten = (*forgotten).max(past.pop_front().map(|past| past.came));
        }
        past.push_back(GivenUp { came, hash, file, range });
    }

    /// Whether something of its host that came behind this one is remembered no more.
    #[must_use]
    pub fn has_forgotten(&self, came: u64, who: &HostProcess<'_>) -> bool {
        self.rings[self.ring(who)].forgotten > Some(came)
    }

    /// Whether it has done so by one that came behind this one, by which it would have it.
    #[must_use]
    pub fn is_behind(&self, came: u64, who: &HostProcess<'_>, file: &F, range: Range) -> bool {
        let past = &self.rings[self.ring(who)].past;
        let mut later = past.iter().filter(|past| past.came > came).peekable();
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
        assert!(!given_up.has_forgotten(4, &who(1, true)));
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
        assert!(
            !is_behind(&given_up, 4, who(1, true), 1, range(0, 10))
                && given_up.rings.iter().map(|ring| ring.past.len()).sum::<usize>() == KEPT_MAX
        );
        assert!(given_up.has_forgotten(4, &who(1, true)) && !given_up.has_forgotten(5, &who(1, true)));
    }

    /// A host that ends gives up all that it has in a moment; who locks elsewhere meanwhile would be told to come again.
    #[test]
    fn what_a_host_gives_up_is_nothing_to_others() {
        let mut given_up = Overtaking::default();
        let of = |host: u8| HostProcess { address: [10, 0, 0, host].into(), ..who(1, true) };
        (0..2 * KEPT_MAX as u64).for_each(|came| given_up.note(came, &of(1), 1, Range::between(0, 0).unwrap()));
        assert!(given_up.has_forgotten(1, &of(1)));
        // Chance puts a few of them with it.
        let others = (2..=255).filter(|host| !given_up.has_forgotten(1, &of(*host))).count();
        assert!(others > 200, "{others}");
    }
}
