//! Changes above a node that cannot be read.
//!
//! **The problem.** A sector rots, and a transaction group has changes for the leaf that was on it, or for a leaf below
//! the inner node that was. They were acknowledged: a new file's inode goes behind all others, and nobody reads the
//! last leaf before it is told that the file is there. The merge cannot fail, or one sector would be the end of the
//! pool.
//!
//! **The idea.** What a node may have held is a range of keys, known from the node above. All of it cannot be read; but
//! of single keys in it something is known. What is put now is known. An id that was never drawn before is in no old
//! node, so between the last old id and the end there is nothing; nor is there behind the end that a file had, or in a
//! directory that had no names ([`Key::gap`]). So the node's range is cut into what is known, in new nodes that begin
//! where the knowledge does, and what is not. The first part of what is not goes on being the old node, whose pointer
//! stays; the other parts get *markers*: blocks that nobody can read ([`BlockPtr::given_up`]). Reads of known keys give
//! what was put, reads of all others fail, and none gives what is wrong.
//!
//! **A node that comes back.** A device may give later what it refuses now. If keys were deleted or replaced in the
//! node's range, or it lost a part of the range to a marker, it would then bring old content back: so it is *stale*,
//! and its own pointer is given up as well. Where only new keys came behind its range it stays as it is.
//!
//! **What it costs.** Nothing as long as nodes can be read. Then, for each stretch of keys that is put into the middle
//! of the range, a leaf and a marker of one sector.

use super::balance::Untouched;
use super::{Change, inner::Child};
use crate::bp::BlockPtr;
use crate::key::{Absence, Gap, Key};

/// What the caller of a merge knows, for when nodes cannot be read.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// No id from this one on is in the tree: of an object, or of a directory entry.
    pub first_new: u64,
    /// From where on there are no keys of the given key's class and object, if that is known. It is asked only where a
    /// node cannot be read.
    pub absence: &'a dyn Fn(&Key) -> Option<Absence>,
    /// Nodes that the caller could not read, and has passed over: they are not read again. Each change that rests on it
    /// must touch the node.
    pub lost: &'a [BlockPtr],
}

impl Around<'_> {
    /// Nothing is known.
    pub const NOTHING: Self = Self { first_new: u64::MAX, absence: &|_| None, lost: &[] };
}

/// A stretch of a node's range.
pub(super) enum Part {
    /// From this key on are these keys, and no others.
    Known(Key, Vec<(Key, Change)>),
    /// Nobody knows what is in it, from this key on.
    Unknown(Key),
}

/// What becomes of a node that cannot be read.
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    /// The node must not come back.
    pub(super) is_stale: bool,
}

impl Plan {
    pub(super) fn changes_anything(&self) -> bool {
        self.is_stale || self.parts.iter().any(|part| matches!(part, Part::Known(..)))
    }
}

/// A stretch of which everything is known.
struct Island {
    from: Key,
    to: Option<Key>,
    puts: Vec<(Key, Change)>,
}

/// Cuts the range of `untouched` by what is put into it.
pub(super) fn plan(untouched: &Untouched, height: u8, changes: &[(Key, Change)], around: &Around<'_>) -> Plan {
    let Child { key: start, .. } = untouched.child;
    // A leaf holds keys of one class.
    let to = match (untouched.bounds.to, start.class.end()) {
        (Some(to), Some(end)) if height == 0 && untouched.child.key != Key::MIN => Some(to.min(end)),
        (None, Some(end)) if height == 0 && untouched.child.key != Key::MIN => Some(end),
        (to, _) => to,
    };
    let is_within = |key: &Key| start <= *key && to.is_none_or(|to| *key < to);
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    let mut islands: Vec<Island> = Vec::new();
    let mut is_stale = false;
    for (key, change) in changes {
        let gap = key.gap(around.first_new, (around.absence)(key));
        is_stale |= is_within(key) && !gap.is_new;
        if *change == Change::Delete {
            continue;
        }
        let put = (*key, change.clone());
        match key {
            key if is_within(key) => add(&mut islands, gap, put, start),
            key if *key < start => before.push(put),
            _ => behind.push(put),
        }
    }
    let mut parts = Vec::new();
    push_known(&mut parts, None, before);
    let mut rest = Some(start);
    let mut unknown_count = 0;
    let mut starts_late = false;
    let mut push_unknown = |parts: &mut Vec<Part>, from: Key, until: Option<Key>| {
        for key in stretches(from, until, height) {
            starts_late |= unknown_count == 0 && key != start;
            unknown_count += 1;
            parts.push(Part::Unknown(key));
        }
    };
    for island in islands {
        if let Some(from) = rest.filter(|from| *from < island.from) {
            push_unknown(&mut parts, from, Some(island.from));
        }
        rest = island.to.filter(|end| to.is_none_or(|to| *end < to));
        push_known(&mut parts, Some(island.from), island.puts);
    }
    if let Some(from) = rest {
        push_unknown(&mut parts, from, to);
    }
    push_known(&mut parts, None, behind);
    is_stale |= unknown_count > 1 || starts_late;
    Plan { parts, is_stale }
}

/// Adds a key to the last island if nothing unknown is in between.
fn add(islands: &mut Vec<Island>, gap: Gap, put: (Key, Change), start: Key) {
    match islands.last_mut() {
        Some(last) if last.to.is_none_or(|to| gap.from <= to) => {
            last.to = if last.to.is_none() || gap.to.is_none() { None } else { last.to.max(gap.to) };
            last.puts.push(put);
        }
        _ => islands.push(Island { from: gap.from.max(start), to: gap.to, puts: vec![put] }),
    }
}

fn push_known(parts: &mut Vec<Part>, from: Option<Key>, puts: Vec<(Key, Change)>) {
    if let Some((first, _)) = puts.first() {
        parts.push(Part::Known(from.unwrap_or(*first), puts));
    }
}

/// Where unknown nodes begin: a leaf holds keys of one class, so one of unknown class becomes one of each.
fn stretches(from: Key, until: Option<Key>, height: u8) -> Vec<Key> {
    let mut starts = vec![from];
    let mut next = from.class.end().filter(|_| height == 0);
    while let Some(key) = next.filter(|key| until.is_none_or(|until| *key < until)) {
        starts.push(key);
        next = key.class.end();
    }
    starts
}

#[cfg(test)]
mod tests;
