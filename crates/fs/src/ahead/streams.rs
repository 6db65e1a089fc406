//! Which READs go on where others have ended, and who is forgotten where there are too many. How far ahead of a stream
//! to fetch is its own affair ([`stream`](super::stream)).
//!
//! Everything counts in blocks, and only blocks that a READ is the first to ask for are told here: READs of 4 KiB in
//! blocks of 128 KiB look like READs of a block, and whoever reads what is cached takes no lock.
//!
//! ```text
//!                 touches what lies beside it                       three in a row (two at the file's begin)
//!  single READ ──────────────────────────────▶ run of blocks ─────────────────────────────────────────────▶ stream, up
//!       │                                        (two runs that meet are one: READs overtake each other)      or down
//!       │ as far from a second one as that is from a third
//!       └──────────────────────────────────────▶ strided run ── a fourth ─────────────────────────────────▶ stream, by
//!                                                                                                            steps
//! ```
//!
//! Nothing is fetched for runs: a random reader makes many of them, and next to never a stream. A stream takes any READ
//! from a little behind its place up to as far as was asked for ahead of it, in whatever order they come.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::stream::{Limits, Stream, Touch, Wanted, Way};
use super::{DatasetId, ObjectId};

/// Streams and runs of one file. The one that was touched longest ago gives way.
const STREAMS_PER_FILE_MAX: usize = 32;
/// And one for so many of its blocks: were the last READs of a file most of it, two at random would always touch.
const BLOCKS_PER_STREAM: u64 = 64;
/// But so many in any case.
const STREAMS_PER_FILE_MIN: u64 = 2;
/// Files of which any are remembered: some kibibytes each.
const FILES_MAX: usize = 1024;
/// A stream that was not touched for so long does not count when the share of the cache is divided.
const LIVE: Duration = Duration::from_secs(1);

/// A file of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) dataset: DatasetId,
    pub(super) object: ObjectId,
}

/// What became of a READ.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) is_of_stream: bool,
    pub(super) wanted: Option<Wanted>,
}

/// All of a pool's streams.
#[derive(Default)]
pub(super) struct Streams {
    files: HashMap<FileId, Vec<Stream>>,
    /// The files in the order in which they came or were spared.
    order: VecDeque<FileId>,
    live: Live,
}

/// How many streams were touched lately: counted anew in each [`LIVE`].
#[derive(Default)]
struct Live {
    epoch: u64,
    count_now: u64,
    /// In the epoch before.
    count_before: u64,
}

impl Streams {
    /// Takes note of a READ.
    pub(super) fn note(&mut self, file: FileId, touch: &Touch, limits: &Limits) -> Noted {
        let epoch = self.live.begin(limits.now);
        if !self.files.contains_key(&file) {
            self.make_room();
            self.order.push_back(file);
        }
        let streams = self.files.entry(file).or_default();
        // The one that was touched last stands last.
        let mut stream = match taker(streams, touch) {
            Some(at) => {
                let mut stream = streams.remove(at);
                stream.go_on(touch);
                stream
            }
            None => {
                if let Some(in_line) = in_line(streams, touch) {
                    streams.push(in_line);
                }
                Stream::new(touch)
            }
        };
        stream.absorb(streams);
        let mut noted = Noted { is_of_stream: stream.try_begin(), wanted: None };
        if noted.is_of_stream {
            self.live.count_now += u64::from(stream.live_on(epoch));
            noted.wanted = stream.want(touch, limits, self.live.count());
        }
        streams.push(stream);
        let too_many = streams.len().saturating_sub(streams_max(touch.file_blocks));
        streams.drain(..too_many);
        noted
    }

    /// The file that came first goes, but one that has a live stream is spared, once.
    fn make_room(&mut self) {
        let epoch = self.live.epoch;
        for _ in 0..self.order.len() {
            if self.files.len() < FILES_MAX {
                return;
            }
            let Some(file) = self.order.pop_front() else { return };
            if self.files.get(&file).is_some_and(|streams| streams.iter().any(|stream| stream.is_live(epoch))) {
                self.order.push_back(file);
            } else {
                self.files.remove(&file);
            }
        }
        if self.files.len() >= FILES_MAX
            && let Some(file) = self.order.pop_front()
        {
            self.files.remove(&file);
        }
    }
}

impl Live {
    /// Gives the epoch. Who looked at the clock before another one may come after him.
    fn begin(&mut self, now: Duration) -> u64 {
        let epoch = u64::try_from(now.as_nanos() / LIVE.as_nanos()).unwrap_or(u64::MAX);
        if epoch > self.epoch {
            self.count_before = if epoch == self.epoch + 1 { self.count_now } else { 0 };
            self.count_now = 0;
            self.epoch = epoch;
        }
        self.epoch
    }

    fn count(&self) -> u64 {
        self.count_now.max(self.count_before).max(1)
    }
}

/// Streams and runs of a file of so many blocks.
fn streams_max(file_blocks: u64) -> usize {
    let most = (file_blocks / BLOCKS_PER_STREAM).max(STREAMS_PER_FILE_MIN);
    usize::try_from(most).unwrap_or(usize::MAX).min(STREAMS_PER_FILE_MAX)
}

/// The stream or run that a READ belongs to, the newest first: a stream before a run, and what goes by steps last,
/// since readers who begin at even distances look like that at first.
fn taker(streams: &[Stream], touch: &Touch) -> Option<usize> {
    let find = |fits: fn(&Stream) -> bool| streams.iter().rposition(|stream| fits(stream) && stream.takes(touch));
    find(|stream| matches!(stream.way(), Way::Up | Way::Down))
        .or_else(|| find(|stream| stream.way() == Way::Open))
        .or_else(|| find(|stream| matches!(stream.way(), Way::Steps(_))))
}

/// Two single READs of which one is as far from the other as that from this one: the three begin a run by steps. They
/// stay what they are beside it.
fn in_line(streams: &[Stream], touch: &Touch) -> Option<Stream> {
    let length = touch.blocks.end - touch.blocks.start;
    let starts = || streams.iter().rev().filter_map(|stream| stream.single_start(length));
    let step = starts().find_map(|middle| {
        let step = i64::try_from(touch.blocks.start).ok()?.checked_sub(i64::try_from(middle).ok()?)?;
        let first = middle.checked_add_signed(step.checked_neg()?)?;
        (step != 0 && starts().any(|start| start == first)).then_some(step)
    })?;
    Some(Stream::by_steps(touch, step))
}

#[cfg(test)]
mod tests;
