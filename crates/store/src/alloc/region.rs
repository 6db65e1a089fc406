//! A region of a vdev: which of its sectors are in use, and which txg made them so.
//!
//! Allocations of several txgs are under way at once: the syncing one's, and the open one's early writes. The
//! space map that txg N persists must not name what N + 1 has taken, or a crash would leak it. So each region
//! has a bitmap of what may not be handed out, and for each uncommitted txg the sectors that it **takes** and **gives**:
//! what its next space map says is the bitmap less what is not committed by then.
//!
//! Most regions of a large pool have neither in memory, but their line of the index only:
//!
//! ```text
//!            ┌──────────── take, exclude ───────────┐
//!        all free                                   ▼          load fails
//!                         on disk ── load ──► in memory      on disk ──► fenced
//!                            ▲                      │               ╲
//!                            └─ unload, if clean ───┘                ╲ refused by a device ──► refused ── ask again ──► in memory
//! ```
//!
//! A fenced region has a map that was read, and is not what its line says; a refused one has a map that a device has not given
//! so far. Nothing is taken from either, and what is freed in it waits on its list.
//!
//! Invariants:
//!
//!  1. takes of different txgs are disjoint, and busy;
//!  2. what is given is free in the bitmap, unless a txg of the same or a higher number has taken it since, so that
//!     undoing the txgs from the last one on, in each the takes before the gives, turns the bitmap into the one that was
//!     committed before them;
//!  3. giving back what was never committed edits the take itself: a pair "took, gave" would free somebody
//!     else's sectors if they were taken in between by another txg;
//!  4. whatever changes a map has it in memory: its owner loads it first.

use std::ops::Range;

use tally_base::Txg;

use super::UNBORN;
use super::bitmap::{Bitmap, Figures};
use super::longest::Sectors;
use super::space_line::{LINE_BYTES, NO_LINE, SpaceLine};

/// `(start, length)` in sectors of the region.
pub(super) type Run = (u32, u32);

/// What one uncommitted txg changes.
struct Pending {
    txg: Txg,
    gives: Vec<Run>,
    takes: Vec<Run>,
}

/// See the module's head. Kept small: a large pool has a million of them.
pub(super) struct Region {
    /// As it stands in the index; it was checked when it was read.
    line: [u8; LINE_BYTES],
    map: Option<Box<Map>>,
    sectors: Sectors,
    free: Sectors,
    /// No free run is longer than this.
    longest_at_most: Sectors,
    fence: Fence,
    /// While a scrub looks for what nothing names: what was allocated when it began, was not given back since, and was not met.
    unmet: Option<Box<Bitmap>>,
}

/// Why nothing is taken from a region.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    /// It may be.
    None,
    /// A device refuses its map, which it may not do in a while.
    Refused,
    /// Its map is wrong.
    Wrong,
}

/// What is in memory of a region that is in use.
struct Map {
    busy: Bitmap,
    pending: Vec<Pending>,
    /// Must be written at the next commit although no txg changed it.
    is_stale: bool,
    /// It stands in its vdev's list of those that may have changed.
    is_listed: bool,
    /// Somebody wanted it since it was last looked at whether it may go.
    was_used: bool,
}

fn short(sectors: u32) -> Sectors {
    Sectors::try_from(sectors).expect("a region is no longer")
}

impl Region {
    pub(super) fn new(sectors: u32) -> Self {
        let sectors = short(sectors);
        Self {
            line: NO_LINE,
            map: None,
            sectors,
            free: sectors,
            longest_at_most: sectors,
            fence: Fence::None,
            unmet: None,
        }
    }

    /// The region of a line that was read. False if the line cannot be of it.
    pub(super) fn restore_line(&mut self, bytes: &[u8; LINE_BYTES], line: &SpaceLine) -> bool {
        let Figures { free, longest, .. } = line.figures;
        (self.line, self.free, self.longest_at_most) = (*bytes, free, longest);
        free <= self.sectors
    }

    pub(super) fn line_bytes(&self) -> &[u8; LINE_BYTES] {
        &self.line
    }

    pub(super) fn line(&self) -> Option<SpaceLine> {
        // It was decoded once before it came here.
        SpaceLine::decode(&self.line).ok().flatten()
    }

    /// The index names this map from now on.
    pub(super) fn set_line(&mut self, line: &SpaceLine) {
        self.line = line.encode();
    }

    /// Whether what is in use stands on disk alone.
    pub(super) fn needs_map(&self) -> bool {
        self.map.is_none() && self.fence == Fence::None && self.line != NO_LINE
    }

    pub(super) fn has_map(&self) -> bool {
        self.map.is_some()
    }

    /// Whether nothing is taken from it for now.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence != Fence::None
    }

    /// Whether that is so because a device has refused its map.
    pub(super) fn is_refused(&self) -> bool {
        self.fence == Fence::Refused
    }

    /// The map that the line names, which adds up to what the line says.
    pub(super) fn restore(&mut self, busy: Bitmap, figures: Figures) {
        (self.free, self.longest_at_most) = (figures.free, figures.longest);
        let map = Map { busy, pending: Vec::new(), is_stale: false, is_listed: false, was_used: true };
        (self.map, self.fence) = (Some(Box::new(map)), Fence::None);
    }

    /// What is in use, if that is in memory: all of it is where nothing has been used yet.
    pub(super) fn busy(&self) -> Option<Bitmap> {
        let is_known_free = self.map.is_none() && self.line == NO_LINE && !self.is_fenced();
        self.map.as_ref().map(|map| map.busy.clone()).or_else(|| is_known_free.then(Bitmap::empty))
    }

    /// Its map cannot be had: nothing of it can. `for_now`: a device has refused it.
    pub(super) fn fence(&mut self, for_now: bool) {
        self.fence = if for_now { Fence::Refused } else { Fence::Wrong };
        (self.map, self.free, self.longest_at_most) = (None, 0, 0);
        // What is in use there is not known any more.
        self.unmet = None;
    }

    /// The vdev has grown, and this was its last region.
    pub(super) fn grow(&mut self, sectors: u32) {
        let more = short(sectors) - self.sectors;
        self.sectors += more;
        if !self.is_fenced() {
            self.free += more;
            self.longest_at_most = (self.longest_at_most + more).min(self.free);
            self.map().is_stale = true;
        }
    }

    /// The vdev had fewer sectors when the line was written.
    pub(super) fn shrink_to(&mut self, sectors: u32) {
        self.sectors = short(sectors);
    }

    /// Gives the memory back of a map that is on disk as it is, and that nobody has used since the last time. Whether it did.
    pub(super) fn unload(&mut self) -> bool {
        let Some(map) = &mut self.map else { return true };
        let was_used = std::mem::replace(&mut map.was_used, false);
        let may_go = !was_used && map.pending.is_empty() && !map.is_stale;
        if may_go {
            self.map = None;
        }
        may_go
    }

    /// Whether it has to be listed, as it may have changed; it is from now on.
    pub(super) fn note_listed(&mut self) -> bool {
        let Some(map) = &mut self.map else { return false };
        let is_new = !map.is_listed && (map.is_stale || !map.pending.is_empty());
        map.is_listed |= is_new;
        is_new
    }

    /// Whether nothing is left that is not on disk; it is not listed any more then.
    pub(super) fn note_unlisted(&mut self) -> bool {
        let Some(map) = &mut self.map else { return true };
        map.pending.retain(|pending| !(pending.gives.is_empty() && pending.takes.is_empty()));
        map.is_listed = map.is_stale || !map.pending.is_empty();
        !map.is_listed
    }

    pub(super) fn free(&self) -> u32 {
        self.free.into()
    }

    pub(super) fn sectors(&self) -> u32 {
        self.sectors.into()
    }

    /// No free run is longer.
    pub(super) fn longest_at_most(&self) -> Sectors {
        self.longest_at_most.min(self.free)
    }

    fn map(&mut self) -> &mut Map {
        debug_assert!(!self.needs_map() && !self.is_fenced(), "a map that is on disk is loaded first");
        let map = self.map.get_or_insert_with(|| {
            let busy = Bitmap::empty();
            Box::new(Map { busy, pending: Vec::new(), is_stale: false, is_listed: false, was_used: true })
        });
        map.was_used = true;
        map
    }

    fn pending(&mut self, txg: Txg) -> &mut Pending {
        let pending = &mut self.map().pending;
        let at = pending.partition_point(|pending| pending.txg < txg);
        if pending.get(at).is_none_or(|pending| pending.txg != txg) {
            pending.insert(at, Pending { txg, gives: Vec::new(), takes: Vec::new() });
        }
        &mut pending[at]
    }

    /// `txg` is going to change it.
    pub(super) fn expect_changes(&mut self, txg: Txg) {
        self.pending(txg);
    }

    /// Whether it may have a free run of so many sectors.
    pub(super) fn may_have(&self, want: u32) -> bool {
        u32::from(self.longest_at_most()) >= want
    }

    /// Takes the first free run of at least `want` sectors within `range`, at most `most` of it. The range may go beyond the
    /// region.
    pub(super) fn take(&mut self, txg: Txg, range: Range<u32>, want: u32, most: u32) -> Option<Run> {
        if !self.may_have(want) {
            return None;
        }
        let sectors = u32::from(self.sectors);
        let (from, to) = (range.start, range.end.min(sectors));
        let whole = (from, to.saturating_sub(from));
        let found = match &self.map {
            Some(map) => map.busy.find(from, to, want),
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
                if (from, to) == (0, sectors) {
                    self.longest_at_most = short(longest);
                }
                None
            }
        }
    }

    fn occupy(&mut self, run: Run) {
        debug_assert!(self.all(run, false), "sectors {run:?} are handed out twice");
        self.map().busy.set(run, true);
        self.free -= short(run.1);
    }

    fn vacate(&mut self, run: Run) {
        debug_assert!(self.all(run, true), "sectors {run:?} are given back twice");
        let sectors = self.sectors.into();
        self.meet(run);
        let busy = &mut self.map().busy;
        busy.set(run, false);
        let around = busy.free_around(run, sectors);
        self.free += short(run.1);
        self.longest_at_most = self.longest_at_most.max(short(around));
    }

    /// Whether all of the run is busy, or free. What cannot be known is busy.
    pub(super) fn all(&self, run: Run, busy: bool) -> bool {
        let is_known_free = self.map.is_none() && self.line == NO_LINE;
        run.0.saturating_add(run.1) <= u32::from(self.sectors)
            && self.map.as_ref().map_or(busy != is_known_free, |map| map.busy.all(run, busy))
    }

    /// Makes the run busy without a txg that takes it: part of the pool that is never allocated.
    pub(super) fn exclude(&mut self, run: Run) {
        self.occupy(run);
        self.map().is_stale = true;
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
        // It has the highest number of all, and a map that something is pending in stays.
        let newest = self.map.as_ref().and_then(|map| map.pending.last());
        newest.filter(|pending| pending.txg == UNBORN).map_or(&[], |pending| &pending.takes)
    }

    /// Takes `run` out of what a txg from `oldest` on has taken.
    fn untake(&mut self, run: Run, oldest: Txg) -> bool {
        let Some(map) = &mut self.map else { return false };
        let (start, end) = (run.0, run.0 + run.1);
        let holds = |take: &Run| take.0 <= start && end <= take.0 + take.1;
        for pending in map.pending.iter_mut().rev().take_while(|pending| pending.txg >= oldest) {
            let Some(at) = pending.takes.iter().rposition(holds) else { continue };
            let take = pending.takes.swap_remove(at);
            let pieces = [(take.0, start - take.0), (end, take.0 + take.1 - end)];
            pending.takes.extend(pieces.into_iter().filter(|piece| piece.1 > 0));
            return true;
        }
        false
    }

    /// A scrub begins to look for what nothing names: what is allocated by a group that was committed has yet to be met. `busy`:
    /// all that is in use. What is excluded is never met, and is for the caller to take out.
    pub(super) fn begin_survey(&mut self, mut busy: Bitmap) {
        let pending = self.map.iter().flat_map(|map| &map.pending);
        pending.flat_map(|pending| &pending.takes).for_each(|run| busy.set(*run, false));
        self.unmet = Some(Box::new(busy));
    }

    /// The scrub is over, or has not come to its end.
    pub(super) fn end_survey(&mut self) {
        self.unmet = None;
    }

    /// Somebody names the run, or it is given back. Whether all of it was still to be met; so it is where nobody knows.
    pub(super) fn meet(&mut self, run: Run) -> bool {
        let Some(unmet) = &mut self.unmet else { return true };
        let is_first = unmet.all(run, true);
        unmet.set(run, false);
        is_first
    }

    /// Runs that nothing has named, in order.
    pub(super) fn unmet(&self) -> impl Iterator<Item = Run> + use<'_> {
        let (mut at, sectors) = (0, u32::from(self.sectors));
        let unmet = self.unmet.as_deref();
        std::iter::from_fn(move || {
            let run = unmet?.busy_run(at, sectors)?;
            at = run.0 + run.1;
            Some(run)
        })
    }

    /// Makes what is free of a run an allocation of `txg`. Gives the sectors of that.
    pub(super) fn take_back(&mut self, run: Run, txg: Txg) -> u32 {
        let (mut at, end, mut taken) = (run.0, run.0 + run.1, 0);
        while let Some((start, length)) = self.map.as_ref().and_then(|map| map.busy.find(at, end, 1).ok()) {
            self.occupy((start, length));
            self.pending(txg).takes.push((start, length));
            (at, taken) = (start + length, taken + length);
        }
        taken
    }

    /// Whether the space map of `txg` differs from the one before it.
    pub(super) fn is_touched(&self, txg: Txg) -> bool {
        let touches = |pending: &Pending| pending.txg <= txg && !(pending.gives.is_empty() && pending.takes.is_empty());
        self.map.as_ref().is_some_and(|map| map.is_stale || map.pending.iter().any(touches))
    }

    /// Writes the space map as of `txg` to `out`, a sector, and forgets who made the changes that are in it. Gives what it adds
    /// up to.
    pub(super) fn commit(&mut self, txg: Txg, out: &mut [u8]) -> Figures {
        let sectors = self.sectors.into();
        let map = self.map();
        map.pending.drain(..map.pending.partition_point(|pending| pending.txg <= txg));
        map.is_stale = false;
        let mut image = map.busy.clone();
        for pending in map.pending.iter().rev() {
            for run in &pending.takes {
                debug_assert!(image.all(*run, true), "sectors {run:?} are taken twice");
                image.set(*run, false);
            }
            for run in &pending.gives {
                image.set(*run, true);
            }
        }
        image.encode(out);
        image.figures(sectors)
    }
}
