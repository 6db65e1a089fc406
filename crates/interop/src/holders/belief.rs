//! What a client was told that it has.

use std::collections::BTreeMap;

use tally_wire::nfs4::Stateid4;

/// Files that all clients lock parts of.
pub(super) const BOXES: usize = 4;
/// What one of them is called.
pub(super) fn box_name(number: usize) -> String {
    format!("box-{number}")
}

/// Parts of each that are locked.
pub(super) const PARTS: usize = 4;
/// Bytes of a part: a number that is counted up under its lock.
pub(super) const PART_BYTES: usize = 8;

/// One part of one of these files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) of: usize,
    pub(super) at: usize,
}

impl Part {
    /// Offset and length in bytes.
    pub(super) fn range(self) -> (u64, u64) {
        ((self.at * PART_BYTES) as u64, PART_BYTES as u64)
    }
}

/// A file that it has open.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) handle: Vec<u8>,
    /// None: it is to be claimed again.
    pub(super) stateid: Option<Stateid4>,
    /// What it has locked of it, all by one owner.
    pub(super) parts: Vec<Part>,
    pub(super) locks: Option<Stateid4>,
}

impl Open {
    pub(super) fn new(handle: Vec<u8>, stateid: Option<Stateid4>) -> Self {
        Self { handle, stateid, parts: Vec::new(), locks: None }
    }
}

/// What has a name in its own directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

/// All of it.
#[derive(Default)]
pub(super) struct Belief {
    pub(super) boxes: Vec<Open>,
    /// The file that it has made last, open until its CLOSE.
    pub(super) made: Option<Open>,
    /// Files without a name that it has open, and what is in them.
    pub(super) nameless: Vec<(Open, Vec<u8>)>,
    /// Names of its own directory.
    pub(super) names: BTreeMap<String, Kind>,
}

impl Belief {
    /// All that is open.
    pub(super) fn opens(&mut self) -> impl Iterator<Item = &mut Open> {
        self.boxes.iter_mut().chain(&mut self.made).chain(self.nameless.iter_mut().map(|(open, _)| open))
    }

    /// The session is over: all of it is to be claimed again.
    pub(super) fn is_lost(&mut self) {
        self.opens().for_each(|open| (open.stateid, open.locks) = (None, None));
    }

    /// Parts that it has locked.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.boxes.iter().flat_map(|open| open.parts.iter().copied()).collect()
    }
}
