//! A region of a vdev: which of its sectors are in use, and which txg made them so.
//!
//! Allocations of several txgs are under way at once: the syncing one's, and the open one's early writes. The
//! space map that txg N persists must not name what N + 1 has taken, or a crash would leak it. So each region
//! keeps two bitmaps: `busy`, what may not be handed out, and `synced`, what the newest space map says; and for
//! each uncommitted txg the sectors that it **takes** and **gives**.
//!
//! Invariants:
//!
//!  1. takes of different txgs are disjoint, and busy;
//!  2. what is given is free in `busy`, unless a txg of the same or a higher number has taken it since, so that
//!     applying the txgs in order, in each the gives before the takes, turns `synced` into `busy` less claims;
//!  3. giving back what was never committed edits the take itself: a pair "took, gave" would free somebody
//!     else's sectors if they were taken in between by another txg.

use std::ops::Range;

use tally_base::Txg;

use super::UNBORN;
use super::bitmap::Bitmap;
use super::longest::Sectors;

/// `(start, length)` in sectors of the region.
pub(super) type Run = (u32, u32);

/// What one uncommitted txg changes.
struct Pending {
    txg: Txg,
    gives: Vec<Run>,
    takes: Vec<Run>,
}

/// See the module's head. The bitmaps exist only once something is in use, so that a large and empty vdev costs
/// no memory.
pub(super) struct Region {
    sectors: u32,
    free: u32,
    /// No free run is longer than this.
    longest_at_most: u32,
    maps: Option<Maps>,
    pending: Vec<Pending>,
    /// Must be written at the next commit although no txg changed it.
    pub(super) stale: bool,
}

struct Maps {
    busy: Box<Bitmap>,
    synced: Box<Bitmap>,
}

impl Region {
    pub(super) fn new(sectors: u32) -> Self {
        Self { sectors, free: sectors, longest_at_most: sectors, maps: None, pending: Vec::new(), stale: false }
    }

    /// The region of a space map that was read. Sectors behind the region's end must be free in it.
    pub(super) fn restore(&mut self, bitmap: Box<Bitmap>) {
        self.free = self.sectors - bitmap.count(self.sectors);
        self.longest_at_most = bitmap.longest(self.sectors);
        self.maps = Some(Maps { busy: bitmap.clone(), synced: bitmap });
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// No free run is longer.
    pub(super) fn longest_at_most(&self) -> Sectors {
        Sectors::try_from(self.longest_at_most.min(self.free)).expect("a region is no longer")
    }

    fn maps(&mut self) -> &mut Maps {
        self.maps.get_or_insert_with(|| Maps { busy: Bitmap::empty(), synced: Bitmap::empty() })
    }

    fn pending(&mut self, txg: Txg) -> &mut Pending {
        let at = self.pending.partition_point(|pending| pending.txg < txg);
        if self.pending.get(at).is_none_or(|pending| pending.txg != txg) {
            self.pending.insert(at, Pending { txg, gives: Vec::new(), takes: Vec::new() });
        }
        &mut self.pending[at]
    }

    /// Takes the first free run of at least `want` sectors within `range`, at most `most` of it. The range may go beyond the
    /// region.
    pub(super) fn take(&mut self, txg: Txg, range: Range<u32>, want: u32, most: u32) -> Option<Run> {
        if self.free < want || self.longest_at_most < want {
            return None;
        }
        let (from, to) = (range.start, range.end.min(self.sectors));
        let whole = (from, to.saturating_sub(from));
        let found = match &self.maps {
            Some(maps) => maps.busy.find(from, to, want),
            None if whole.1 >= want => Ok(whole),
            None => Err(whole.1),
        };
        match found {
            Ok((start, length)) => {
                let run = (start, length.min(most));
                self.occupy(run);
                self.pending(txg).takes.push(run);
                Some(run)
            }
            Err(longest) => {
                if (from, to) == (0, self.sectors) {
                    self.longest_at_most = longest;
                }
                None
            }
        }
    }

    fn occupy(&mut self, run: Run) {
        debug_assert!(self.all(run, false), "sectors {run:?} are handed out twice");
        self.maps().busy.set(run, true);
        self.free -= run.1;
    }

    fn vacate(&mut self, run: Run) {
        debug_assert!(self.all(run, true), "sectors {run:?} are given back twice");
        let sectors = self.sectors;
        let busy = &mut self.maps().busy;
        busy.set(run, false);
        let around = busy.free_around(run, sectors);
        self.free += run.1;
        self.longest_at_most = self.longest_at_most.max(around);
    }

    /// Whether all of the run is busy, or free.
    pub(super) fn all(&self, run: Run, busy: bool) -> bool {
        run.0.saturating_add(run.1) <= self.sectors && self.maps.as_ref().map_or(!busy, |maps| maps.busy.all(run, busy))
    }

    /// Makes the run busy without a txg that takes it: part of the pool that is never allocated.
    pub(super) fn exclude(&mut self, run: Run) {
        self.occupy(run);
        self.maps().synced.set(run, true);
        self.stale = true;
    }

    /// Makes the run busy in memory only. False if it is not free.
    pub(super) fn claim(&mut self, run: Run) -> bool {
        let free = self.all(run, false);
        if free {
            self.occupy(run);
        }
        free
    }

    /// A claimed run becomes an allocation of `txg`.
    pub(super) fn adopt(&mut self, run: Run, txg: Txg) {
        self.pending(txg).takes.push(run);
    }

    /// Gives up a claim.
    pub(super) fn unclaim(&mut self, run: Run) {
        self.vacate(run);
    }

    /// Frees an allocation that was committed; the change belongs to `txg`. False if it was not allocated.
    pub(super) fn give(&mut self, run: Run, txg: Txg) -> bool {
        let busy = self.all(run, true);
        if busy {
            self.vacate(run);
            self.pending(txg).gives.push(run);
        }
        busy
    }

    /// Takes back an allocation that no txg has committed. False if there is none.
    pub(super) fn abandon(&mut self, run: Run) -> bool {
        let untaken = self.untake(run, Txg(0));
        if untaken {
            self.vacate(run);
        }
        untaken
    }

    /// Moves an allocation of no group to `txg`. False if there is none: a group's own is not to be had.
    pub(super) fn settle(&mut self, run: Run, txg: Txg) -> bool {
        assert!(txg < UNBORN, "only a group can name a block");
        let untaken = self.untake(run, UNBORN);
        if untaken {
            self.pending(txg).takes.push(run);
        }
        untaken
    }

    /// What belongs to no group yet.
    pub(super) fn unborn(&self) -> &[Run] {
        // It has the highest number of all.
        self.pending.last().filter(|pending| pending.txg == UNBORN).map_or(&[], |pending| &pending.takes)
    }

    /// Takes `run` out of what a txg from `oldest` on has taken.
    fn untake(&mut self, run: Run, oldest: Txg) -> bool {
        let (start, end) = (run.0, run.0 + run.1);
        let holds = |take: &Run| take.0 <= start && end <= take.0 + take.1;
        for pending in self.pending.iter_mut().rev().take_while(|pending| pending.txg >= oldest) {
            let Some(at) = pending.takes.iter().rposition(holds) else { continue };
            let take = pending.takes.swap_remove(at);
            let pieces = [(take.0, start - take.0), (end, take.0 + take.1 - end)];
            pending.takes.extend(pieces.into_iter().filter(|piece| piece.1 > 0));
            return true;
        }
        false
    }

    /// Whether the space map of `txg` differs from the one before it.
    pub(super) fn is_touched(&self, txg: Txg) -> bool {
        let touches = |pending: &Pending| pending.txg <= txg && !(pending.gives.is_empty() && pending.takes.is_empty());
        self.stale || self.pending.iter().any(touches)
    }

    /// Applies what the txgs up to `txg` changed and writes the space map to `out`, a sector.
    pub(super) fn commit(&mut self, txg: Txg, out: &mut [u8]) {
        let rest = self.pending.split_off(self.pending.partition_point(|pending| pending.txg <= txg));
        let done = std::mem::replace(&mut self.pending, rest);
        let synced = &mut self.maps().synced;
        for pending in done {
            for run in pending.gives {
                synced.set(run, false);
            }
            for run in pending.takes {
                debug_assert!(synced.all(run, false), "sectors {run:?} are taken twice");
                synced.set(run, true);
            }
        }
        synced.encode(out);
        self.stale = false;
    }
}
