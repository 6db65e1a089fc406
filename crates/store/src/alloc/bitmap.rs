//! One bit for each sector of a region; a set bit is a sector in use. Exactly one sector large, which is why a
//! region has the size it has: a changed region costs one sector on disk, the least that anything can cost, so
//! that no log of changes to it could be cheaper.

use std::fmt;

use tally_base::SECTOR;

/// Sectors of a region: as many as one sector has bits. 128 MiB.
pub(super) const REGION_SECTORS: u32 = SECTOR as u32 * 8;

const WORDS: usize = SECTOR / 8;

/// What a region's free runs add up to, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Figures {
    /// Free sectors.
    pub free: u16,
    /// Those of the longest run.
    pub longest: u16,
    /// Stretches of free sectors, the longest among them.
    pub runs: u16,
}

impl Figures {
    /// Whether a bitmap can have these.
    pub(super) fn is_sensible(&self) -> bool {
        let Self { free, longest, runs } = *self;
        u32::from(free) <= REGION_SECTORS
            && longest <= free
            && runs <= free
            && u32::from(free) <= u32::from(longest) * u32::from(runs)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { free, longest, runs } = self;
        write!(f, "{free} free sectors in {runs} runs of at most {longest}")
    }
}

/// A region's bits. A run is `(start, length)` in sectors.
#[derive(Clone)]
pub(super) struct Bitmap([u64; WORDS]);

impl Bitmap {
    pub(super) const fn empty() -> Self {
        Self([0; WORDS])
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bitmap = Self::empty();
        if bytes.len() != SECTOR {
            return None;
        }
        for (word, chunk) in bitmap.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        Some(bitmap)
    }

    pub(super) fn encode(&self, out: &mut [u8]) {
        for (word, chunk) in self.0.iter().zip(out.as_chunks_mut::<8>().0) {
            *chunk = word.to_le_bytes();
        }
    }

    /// The first sector from `from` on whose bit is `busy`, or [`REGION_SECTORS`].
    fn next(&self, from: u32, busy: bool) -> u32 {
        let flip = if busy { 0 } else { u64::MAX };
        let mut index = (from / 64) as usize;
        let mut mask = u64::MAX << (from % 64);
        while let Some(word) = self.0.get(index) {
            let found = (word ^ flip) & mask;
            if found != 0 {
                return index as u32 * 64 + found.trailing_zeros();
            }
            mask = u64::MAX;
            index += 1;
        }
        REGION_SECTORS
    }

    /// The first free run of at least `want` sectors in `from..limit`; else the length of the longest.
    pub(super) fn find(&self, from: u32, limit: u32, want: u32) -> Result<(u32, u32), u32> {
        let (mut at, mut longest) = (from, 0);
        loop {
            let start = self.next(at, false);
            if start >= limit {
                return Err(longest);
            }
            let end = self.next(start, true).min(limit);
            if end - start >= want {
                return Ok((start, end - start));
            }
            longest = longest.max(end - start);
            at = end;
        }
    }

    /// The first run of busy sectors in `from..limit`.
    pub(super) fn busy_run(&self, from: u32, limit: u32) -> Option<(u32, u32)> {
        let start = self.next(from, true);
        (start < limit).then(|| (start, self.next(start, false).min(limit) - start))
    }

    /// What the free runs in `0..limit` add up to.
    pub(super) fn figures(&self, limit: u32) -> Figures {
        let (mut free, mut longest, mut runs, mut at) = (0, 0, 0, 0);
        loop {
            let start = self.next(at, false);
            if start >= limit {
                return Figures { free, longest, runs };
            }
            let end = self.next(start, true).min(limit);
            // A region is no longer than 16 bits can say.
            let length = (end - start) as u16;
            (free, longest, runs, at) = (free + length, longest.max(length), runs + 1, end);
        }
    }

    /// The length of the free run that `run` is part of, in `0..limit`.
    pub(super) fn free_around(&self, (start, length): (u32, u32), limit: u32) -> u32 {
        self.next(start + length, true).min(limit) - self.free_from(start)
    }

    /// Where the free run begins that ends at `end`.
    fn free_from(&self, end: u32) -> u32 {
        let mut index = (end / 64) as usize;
        let mut mask = !(u64::MAX << (end % 64));
        loop {
            let busy = self.0.get(index).map_or(0, |word| word & mask);
            if busy != 0 {
                return (index as u32 + 1) * 64 - busy.leading_zeros();
            }
            let Some(before) = index.checked_sub(1) else { return 0 };
            (index, mask) = (before, u64::MAX);
        }
    }

    /// Whether every bit of the run is `busy`.
    pub(super) fn all(&self, (start, length): (u32, u32), busy: bool) -> bool {
        self.next(start, !busy) >= start + length
    }

    /// Sets or clears the run's bits.
    pub(super) fn set(&mut self, (start, length): (u32, u32), busy: bool) {
        let (mut at, end) = (start, start + length);
        while at < end {
            let within = at % 64;
            let count = (64 - within).min(end - at);
            let mask = (u64::MAX >> (64 - count)) << within;
            let word = &mut self.0[(at / 64) as usize];
            if busy {
                *word |= mask
            } else {
                *word &= !mask
            }
            at += count;
        }
    }

    /// Number of busy sectors below `limit`.
    pub(super) fn count(&self, limit: u32) -> u32 {
        let whole: u32 = self.0.iter().take((limit / 64) as usize).map(|word| word.count_ones()).sum();
        let rest = self
            .0
            .get((limit / 64) as usize)
            .map_or(0, |word| (word & !(u64::MAX.checked_shl(limit % 64).unwrap_or(0))).count_ones());
        whole + rest
    }
}
