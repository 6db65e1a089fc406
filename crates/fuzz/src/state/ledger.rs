//! What clients were told that they have, written down apart from the server: no two may have what keeps each other out.
//!
//! It errs to one side alone. Whose lease may be over, and what may have been taken, is in nobody's way here, though the server may keep it.

use std::collections::BTreeMap;
use std::time::Duration;

/// `share_access`, `share_deny`.
const READ: u32 = 1;
const WRITE: u32 = 2;

pub(super) type Other = [u8; 12];

/// Who: a client's id, and its owner.
pub(super) type Who = (u64, u8);

#[derive(Debug)]
struct Open {
    who: Who,
    file: u64,
    access: u32,
    deny: u32,
    /// Its owner of minor version 0 has not confirmed it.
    is_loose: bool,
}

#[derive(Debug)]
struct Kept {
    client: u64,
    file: u64,
    writes: bool,
    since: Duration,
    /// Its client has said that it has none.
    is_denied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    /// The last byte.
    pub(super) end: u64,
    pub(super) writes: bool,
}

#[derive(Debug)]
struct Locked {
    who: Who,
    file: u64,
    /// The opens that it was locked below.
    below: Vec<Other>,
    ranges: Vec<Range>,
}

#[derive(Default)]
pub(super) struct Ledger {
    lease: Duration,
    opens: BTreeMap<Other, Open>,
    locks: BTreeMap<Other, Locked>,
    kept: BTreeMap<Other, Kept>,
    /// When each client was last told that it is known.
    heard: BTreeMap<u64, Duration>,
}

impl Ledger {
    pub(super) fn new(lease: Duration) -> Self {
        Self { lease, ..Self::default() }
    }

    pub(super) fn heard(&mut self, client: u64, now: Duration) {
        self.heard.insert(client, now);
    }

    /// All of it is over, as the server has started anew.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.lease);
    }

    /// Whatever it has may be gone.
    pub(super) fn let_go_of(&mut self, client: u64) {
        self.heard.remove(&client);
    }

    fn is_there(&self, client: u64, now: Duration) -> bool {
        self.heard.get(&client).is_some_and(|heard| now < *heard + self.lease)
    }

    /// The file of a stateid.
    pub(super) fn file_of(&self, other: &Other) -> Option<u64> {
        let lock = || self.locks.get(other).map(|lock| lock.file);
        let kept = || self.kept.get(other).map(|kept| kept.file);
        self.opens.get(other).map(|open| open.file).or_else(lock).or_else(kept)
    }

    /// Whose a stateid is.
    pub(super) fn owner_of(&self, other: &Other) -> Option<Who> {
        self.opens.get(other).map(|open| open.who).or_else(|| self.locker_of(other))
    }

    /// Who has locked by a stateid.
    pub(super) fn locker_of(&self, other: &Other) -> Option<Who> {
        self.locks.get(other).map(|lock| lock.who)
    }

    pub(super) fn opened(
        &mut self,
        other: Other,
        who: Who,
        file: u64,
        (access, deny): (u32, u32),
        now: Duration,
        is_loose: bool,
    ) {
        self.heard(who.0, now);
        for (there, open) in self.opens.iter().filter(|(there, open)| **there != other && open.file == file) {
            let excludes = access & open.deny != 0 || open.access & deny != 0;
            let is_there = self.is_there(open.who.0, now) && !open.is_loose && !is_loose;
            assert!(!excludes || !is_there, "{who:?} has {access} and denies {deny} of what {there:x?} is: {open:?}");
        }
        for kept in self.kept.values().filter(|kept| kept.file == file && kept.client != who.0) {
            let excludes = kept.writes || access & WRITE != 0 || deny & READ != 0;
            assert!(!excludes || self.may_be_taken(kept, now), "{who:?} opens for {access} what is kept: {kept:?}");
        }
        let open = self.opens.entry(other).or_insert(Open { who, file, access: 0, deny: 0, is_loose });
        assert_eq!((open.who, open.file), (who, file), "a stateid is of one owner and file");
        open.access |= access;
        open.deny |= deny;
    }

    fn may_be_taken(&self, kept: &Kept, now: Duration) -> bool {
        kept.is_denied || !self.is_there(kept.client, now) || now >= kept.since + self.lease
    }

    pub(super) fn confirmed(&mut self, other: &Other) {
        if let Some(open) = self.opens.get_mut(other) {
            open.is_loose = false;
        }
    }

    pub(super) fn downgraded(&mut self, other: &Other, access: u32, deny: u32) {
        if let Some(open) = self.opens.get_mut(other) {
            assert!(access & !open.access == 0 && deny & !open.deny == 0, "{open:?} became {access} and {deny}");
            (open.access, open.deny) = (access, deny);
        }
    }

    pub(super) fn closed(&mut self, other: &Other) {
        self.opens.remove(other);
        // Whoever locks one file below two opens is freed of all by the first that is closed.
        self.locks.values_mut().filter(|lock| lock.below.contains(other)).for_each(|lock| lock.ranges.clear());
    }

    /// A delegation was given.
    pub(super) fn keeps(&mut self, other: Other, client: u64, file: u64, writes: bool, now: Duration) {
        for open in self.opens.values().filter(|open| open.file == file && open.who.0 != client) {
            let excludes = writes || open.access & WRITE != 0;
            let is_there = self.is_there(open.who.0, now) && !open.is_loose;
            assert!(!excludes || !is_there, "{client:x} keeps for writing: {writes} what is open: {open:?}");
        }
        for kept in self.kept.values().filter(|kept| kept.file == file && kept.client != client) {
            assert!(!writes && !kept.writes || self.may_be_taken(kept, now), "{client:x} keeps what is kept: {kept:?}");
        }
        self.kept.insert(other, Kept { client, file, writes, since: now, is_denied: false });
    }

    /// One was given back, or freed.
    pub(super) fn gave_back(&mut self, other: &Other) {
        self.kept.remove(other);
    }

    /// A client has answered that it has none.
    pub(super) fn denied(&mut self, other: &Other) {
        if let Some(kept) = self.kept.get_mut(other) {
            kept.is_denied = true;
        }
    }

    /// A range is free but for who has it, or was given to him.
    pub(super) fn is_free(&self, who: Who, file: u64, range: Range, now: Duration) {
        for lock in self.locks.values().filter(|lock| lock.file == file && lock.who != who) {
            let in_the_way = lock
                .ranges
                .iter()
                .find(|other| other.start <= range.end && range.start <= other.end && (other.writes || range.writes));
            let is_there = self.is_there(lock.who.0, now);
            assert!(
                in_the_way.is_none() || !is_there,
                "{who:?} has {range:?}, and there is {in_the_way:?} of {lock:?}"
            );
        }
    }

    pub(super) fn locked(
        &mut self,
        other: Other,
        who: Who,
        file: u64,
        range: Range,
        below: Option<Other>,
        now: Duration,
    ) {
        self.heard(who.0, now);
        self.is_free(who, file, range, now);
        self.unlocked(&other, range);
        let lock =
            self.locks.entry(other).or_insert_with(|| Locked { who, file, below: Vec::new(), ranges: Vec::new() });
        assert_eq!((lock.who, lock.file), (who, file), "a stateid is of one owner and file");
        lock.below.extend(below);
        lock.ranges.push(range);
        // Where one owner has two, one is free of what the other has.
        let others =
            self.locks.iter_mut().filter(|(there, lock)| **there != other && (lock.who, lock.file) == (who, file));
        others.for_each(|(_, lock)| cut(&mut lock.ranges, range));
    }

    pub(super) fn unlocked(&mut self, other: &Other, range: Range) {
        let Some((who, file)) = self.locks.get(other).map(|lock| (lock.who, lock.file)) else { return };
        let of_owner = self.locks.values_mut().filter(|lock| (lock.who, lock.file) == (who, file));
        of_owner.for_each(|lock| cut(&mut lock.ranges, range));
    }
}

/// Takes a range out of others.
fn cut(ranges: &mut Vec<Range>, out: Range) {
    let mut left = Vec::new();
    for range in ranges.drain(..) {
        if range.end < out.start || out.end < range.start {
            left.push(range);
            continue;
        }
        if range.start < out.start {
            left.push(Range { end: out.start - 1, ..range });
        }
        if range.end > out.end {
            left.push(Range { start: out.end + 1, ..range });
        }
    }
    *ranges = left;
}
