//! One stream of READs: which way it goes, how long its window is, and what of that to ask for next.
//!
//! ```text
//!  READs ▶▶▶▶▶▶▶▶▶▶┃────────────────── window ─────────────────┃
//!                  ┃■■■■■■ asked for ■■■■■┃════════════ piece ═┃╌╌╌╌╌ behind ╌╌╌╌╌
//!                place                 reached
//! ```
//!
//! What lies between its place and what it has reached was asked for. Once that is a piece shorter than the window, the
//! next piece is due; behind that lies what will be wanted then. A run of READs that is no stream yet has no window.

use std::ops::Range;
use std::time::Duration;

use tally_store::io;

/// READs that make a stream.
const RUN_MIN: u32 = 3;
/// The same from the first block of a file on, where streams begin.
const RUN_FROM_START_MIN: u32 = 2;
/// READs that make a stream by steps: three that are in line may be so by chance.
const STRIDED_RUN_MIN: u32 = 4;
/// Blocks behind its place at which a stream still knows its READs: several connections send them. Less where that
/// would be most of a file, of which a stream would take whatever is read at random.
const DISORDER_BLOCKS: u64 = 64;
/// This part of its file at most.
const DISORDER_SHARE: u64 = 16;
/// But so many of its READs may one overtake in any case, also one that comes before anything was asked for there.
const OVERTAKEN_READS: u64 = 8;
/// A window is this many READs long at least.
const WINDOW_READS: u64 = 2;
/// Also where nobody waits, a window is as long as what its stream has read, up to so many bytes: who reads a little
/// has little fetched for nothing, and who reads much has it in long reads.
pub(super) const UNHURRIED_BYTES_MAX: u64 = 1 << 20;
/// Up to so many bytes a window grows by four where its reader waits, and then by two: of sixteen streams each short
/// read is a turn of the disk that the fifteen others wait for.
const HURRY_BYTES_MAX: u64 = 4 << 20;
/// The longest window: four flights. The next is asked for when three are left, so that a quick disk is never without.
pub(super) const WINDOW_BYTES_MAX: u64 = 4 * io::FLIGHT_BYTES_MAX;
/// Most bytes that are asked for at once: what one read of a device brings.
const PIECE_BYTES_MAX: u64 = io::FLIGHT_BYTES_MAX;

/// What a READ is the first to ask for.
#[derive(Clone, Debug)]
pub(super) struct Touch {
    pub(super) blocks: Range<u64>,
    pub(super) file_blocks: u64,
    /// It has to go to the disk for some of it.
    pub(super) is_missed: bool,
    /// Some of it is on its way.
    pub(super) is_late: bool,
}

/// What streams go by when a READ comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) now: Duration,
    pub(super) record_size: u64,
    /// For all streams together.
    pub(super) fetched_bytes_max: u64,
}

/// What is to be fetched: so many ranges of blocks, the starts of two being so far apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) first: Range<u64>,
    step: i64,
    count: u64,
    file_blocks: u64,
    /// Blocks that the READ itself waits for.
    asked: Range<u64>,
    /// What will be wanted next, if the reader goes on.
    behind: Range<u64>,
}

impl Wanted {
    /// Whether the READ itself waits for a block.
    pub(super) fn is_asked_for(&self, block: u64) -> bool {
        self.asked.contains(&block)
    }

    /// What will be wanted next.
    pub(super) fn behind(&self) -> Range<u64> {
        self.behind.start..self.behind.end.min(self.file_blocks)
    }

    /// The ranges, within the file.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let length = self.first.end - self.first.start;
        let range = move |at: u64| {
            let start = self.first.start.checked_add_signed(self.step.checked_mul(i64::try_from(at).ok()?)?)?;
            let end = start.saturating_add(length).min(self.file_blocks);
            (start < end).then_some(start..end)
        };
        (0..self.count).map_while(range)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not known yet.
    Open,
    Up,
    Down,
    /// By so many blocks from start to start.
    Steps(i64),
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// What was touched; of one by steps, the last READ.
    blocks: Range<u64>,
    way: Way,
    run: u32,
    /// READs by which it has grown at its lower end.
    run_down: u32,
    is_stream: bool,
    /// What comes next to be asked for: a block, or for a way down the one behind it, or for steps the start of a READ.
    reached: u64,
    window: u64,
    /// What it asked for last was for a READ that missed.
    hurries: bool,
    /// When it was last touched as a stream, as its table counts time.
    epoch: u64,
}

impl Stream {
    pub(super) fn new(touch: &Touch) -> Self {
        Self {
            blocks: touch.blocks.clone(),
            way: Way::Open,
            run: 1,
            run_down: 0,
            is_stream: false,
            reached: 0,
            hurries: false,
            window: 0,
            epoch: u64::MAX,
        }
    }

    /// The third of three that are so many blocks apart.
    pub(super) fn by_steps(touch: &Touch, step: i64) -> Self {
        Self { way: Way::Steps(step), run: 3, ..Self::new(touch) }
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// Where it starts, if it is a single READ of so many blocks.
    pub(super) fn single_start(&self, length: u64) -> Option<u64> {
        let is_single = self.way == Way::Open && self.run == 1 && self.blocks.end - self.blocks.start == length;
        is_single.then_some(self.blocks.start)
    }

    pub(super) fn is_live(&self, epoch: u64) -> bool {
        self.is_stream && self.epoch == epoch
    }

    /// Gives whether it has not lived in this epoch so far.
    pub(super) fn live_on(&mut self, epoch: u64) -> bool {
        std::mem::replace(&mut self.epoch, epoch) != epoch
    }

    pub(super) fn takes(&self, touch: &Touch) -> bool {
        let (own, other) = (&self.blocks, &touch.blocks);
        let overtaken = (OVERTAKEN_READS * (other.end - other.start)).min(DISORDER_BLOCKS);
        let disorder = (touch.file_blocks / DISORDER_SHARE).min(DISORDER_BLOCKS).max(overtaken);
        match self.way {
            Way::Open => other.start == own.end || other.end == own.start,
            Way::Up => {
                let ahead = self.reached.max(own.end).saturating_add(overtaken);
                other.start <= ahead && other.end.saturating_add(disorder) >= own.end
            }
            Way::Down => {
                let ahead = self.reached.min(own.start).saturating_sub(overtaken);
                other.end >= ahead && other.start <= own.start.saturating_add(disorder)
            }
            Way::Steps(step) => own.start.checked_add_signed(step) == Some(other.start),
        }
    }

    /// A READ that it takes.
    pub(super) fn go_on(&mut self, touch: &Touch) {
        self.run = self.run.saturating_add(1);
        match self.way {
            Way::Steps(_) => self.blocks = touch.blocks.clone(),
            Way::Open => {
                self.run_down += u32::from(touch.blocks.end == self.blocks.start);
                let (start, end) = (self.blocks.start, self.blocks.end);
                self.blocks = start.min(touch.blocks.start)..end.max(touch.blocks.end);
            }
            Way::Up => self.blocks.end = self.blocks.end.max(touch.blocks.end),
            Way::Down => self.blocks.start = self.blocks.start.min(touch.blocks.start),
        }
    }

    /// Runs that touch a run belong to it.
    pub(super) fn absorb(&mut self, others: &mut Vec<Self>) {
        if self.way != Way::Open {
            return;
        }
        others.retain(|other| {
            let is_beside = other.blocks.start == self.blocks.end || other.blocks.end == self.blocks.start;
            let belongs = other.way == Way::Open && is_beside;
            if belongs {
                self.run += other.run;
                self.run_down += other.run_down;
                self.blocks = self.blocks.start.min(other.blocks.start)..self.blocks.end.max(other.blocks.end);
            }
            !belongs
        });
    }

    /// Makes a stream of a run that is long enough. Gives whether it is one.
    pub(super) fn try_begin(&mut self) -> bool {
        if self.is_stream {
            return true;
        }
        let is_from_start = self.blocks.start == 0;
        let run_min = match self.way {
            Way::Steps(_) => STRIDED_RUN_MIN,
            _ if is_from_start => RUN_FROM_START_MIN,
            _ => RUN_MIN,
        };
        if self.run < run_min {
            return false;
        }
        if self.way == Way::Open {
            self.way = if self.run_down * 2 >= self.run && !is_from_start { Way::Down } else { Way::Up };
        }
        self.is_stream = true;
        self.reached = self.place();
        true
    }

    /// Where the next READ is expected.
    fn place(&self) -> u64 {
        match self.way {
            Way::Down => self.blocks.start,
            Way::Steps(step) => self.blocks.start.saturating_add_signed(step),
            Way::Open | Way::Up => self.blocks.end,
        }
    }

    /// What is to be fetched for it, now that this READ has come.
    pub(super) fn want(&mut self, touch: &Touch, limits: &Limits, live_count: u64) -> Option<Wanted> {
        self.widen(touch, limits, live_count);
        if self.window == 0 {
            return None;
        }
        if let Way::Steps(step) = self.way {
            return self.want_steps(step, touch);
        }
        // Half a window is read while the other half is fetched. Where others keep the disk busy meanwhile, longer
        // reads count for more. What is longer than a flight costs a turn for its rest.
        let piece = if live_count > 1 { self.window * 3 / 4 } else { self.window / 2 };
        let piece_max = (PIECE_BYTES_MAX / limits.record_size).max(1);
        let piece = piece.clamp(1, piece_max);
        let (place, next) = (self.place(), self.next_piece(touch, piece, piece_max));
        let (ahead, reached, behind) = match self.way {
            Way::Down => (place.saturating_sub(next.end), next.start, next.start.saturating_sub(piece)..next.start),
            _ => (next.start.saturating_sub(place), next.end, next.end..next.end.saturating_add(piece)),
        };
        let is_due = ahead <= self.window.saturating_sub(piece);
        if !is_due || next.is_empty() {
            return None;
        }
        self.reached = reached;
        let asked = if touch.is_missed { touch.blocks.clone() } else { 0..0 };
        Some(Wanted { first: next, step: 0, count: 1, file_blocks: touch.file_blocks, asked, behind })
    }

    /// How long its window is from now on.
    fn widen(&mut self, touch: &Touch, limits: &Limits, live_count: u64) {
        let length = touch.blocks.end - touch.blocks.start;
        // One part is left for what others leave behind, and for one who begins.
        let most = (limits.fetched_bytes_max / (live_count + 1)).min(WINDOW_BYTES_MAX) / limits.record_size;
        let unhurried = (UNHURRIED_BYTES_MAX / limits.record_size).min(length * u64::from(self.run));
        let least = unhurried.max(WINDOW_READS * length);
        // It asked for this and has not got it, or not yet: more must be on its way.
        let is_behind = touch.is_missed || touch.is_late;
        // Beside others what follows a piece that it has waited for had better be long at once: it would wait for that
        // as well.
        let is_used_up = self.reached.abs_diff(self.place()) <= self.window / 4;
        let will_be_behind = self.hurries && is_used_up && live_count > 1 && !matches!(self.way, Way::Steps(_));
        self.hurries = touch.is_missed || (self.hurries && !is_used_up);
        // Three that are in line may be so by chance: what comes with the fourth is little.
        let begun = if matches!(self.way, Way::Steps(_)) { self.window } else { self.window.max(least) };
        let is_short = begun * limits.record_size < HURRY_BYTES_MAX;
        let factor = match (is_behind || will_be_behind, is_short) {
            (false, _) => 1,
            (true, true) => 4,
            (true, false) => 2,
        };
        // Where that is less than a block, what is fetched for one would push out what others have not come for yet.
        self.window = (begun * factor).max(least).min(most);
    }

    /// The next blocks to ask for. What the READ waits for comes with a piece behind it, by one read of the device
    /// where one brings as much.
    fn next_piece(&self, touch: &Touch, piece: u64, piece_max: u64) -> Range<u64> {
        let (place, own, file_blocks) = (self.place(), &touch.blocks, touch.file_blocks);
        match (self.way, touch.is_missed) {
            (Way::Down, true) => {
                own.start.min(place.saturating_sub(piece).max(own.end.saturating_sub(piece_max)))..own.end
            }
            (Way::Down, false) => {
                let to = self.reached.min(place);
                place.saturating_sub(self.window).max(to.saturating_sub(piece))..to
            }
            (_, true) => {
                let to = own.end.max(place.saturating_add(piece).min(own.start.saturating_add(piece_max)));
                own.start..to.min(file_blocks)
            }
            (_, false) => {
                let from = self.reached.max(place);
                from..place.saturating_add(self.window).min(from.saturating_add(piece)).min(file_blocks)
            }
        }
    }

    fn want_steps(&mut self, step: i64, touch: &Touch) -> Option<Wanted> {
        let (place, length) = (self.place(), touch.blocks.end - touch.blocks.start);
        if touch.is_missed {
            self.reached = place;
        }
        let has_passed = if step > 0 { self.reached < place } else { self.reached > place };
        if has_passed {
            self.reached = place;
        }
        let ahead = self.reached.abs_diff(place) / step.unsigned_abs();
        let count = (self.window / length.max(1)).saturating_sub(ahead);
        if count == 0 || ahead * length > self.window / 2 {
            return None;
        }
        let first = self.reached..self.reached.saturating_add(length);
        let steps = step.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
        self.reached = self.reached.saturating_add_signed(steps);
        Some(Wanted { first, step, count, file_blocks: touch.file_blocks, asked: 0..0, behind: 0..0 })
    }
}
