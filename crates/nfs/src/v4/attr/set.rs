//! Sets of attributes, and which attributes there are.

use super::super::status::Status;
use crate::handle::HANDLE_BYTES;
use crate::xdr::{Decoder, Encoder, Garbage};

/// Words of a bitmap that say something; 96 attributes.
const WORDS: usize = 3;
/// Longest bitmap that is read. What is beyond [`WORDS`] is of other versions.
const WORDS_MAX: u32 = 64;

/// A set of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct AttrSet {
    words: [u32; WORDS],
    /// It has some of which nothing more is known.
    beyond: bool,
}

pub(in super::super) const RDATTR_ERROR: u32 = 11;
pub(in super::super) const SIZE: u32 = 4;
pub(super) const OWNER: u32 = 36;
pub(super) const OWNER_GROUP: u32 = 37;
pub(super) const TIME_ACCESS_SET: u32 = 48;
pub(super) const TIME_MODIFY_SET: u32 = 54;
pub(super) const MODE_UMASK: u32 = 81;
/// Times that a client has set which has a file for writing (RFC 9754 §5).
pub(in super::super) const TIME_DELEG_ACCESS: u32 = 84;
pub(in super::super) const TIME_DELEG_MODIFY: u32 = 85;

/// Highest numbers in each minor version; of a higher one nothing is known there.
const LAST: [u32; 3] = [55, 76, 32 * WORDS as u32 - 1];

/// All that there are to read.
pub(super) const READABLE: [u32; 50] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 26, 27, 28, 29, 30, 31, 33, 34, 35,
    36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 47, 51, 52, 53, 55, 75, 79, 82, 86,
];

/// Those that are only set.
pub(super) const WRITE_ONLY: [u32; 5] =
    [TIME_ACCESS_SET, TIME_MODIFY_SET, MODE_UMASK, TIME_DELEG_ACCESS, TIME_DELEG_MODIFY];

/// Those for which nothing of the object has to be known but its id.
const OF_ITS_ID: [u32; 10] = [0, 2, 10, 11, 20, 55, 75, 79, 82, 86];

/// Those that change with what is written: change, size, space_used, and two times.
const OF_ITS_CONTENT: [u32; 5] = [3, SIZE, 45, 52, 53];

impl AttrSet {
    /// These.
    pub(in super::super) fn of(numbers: &[u32]) -> Self {
        let mut set = Self::default();
        for number in numbers {
            set.words[(number / 32) as usize] |= 1 << (number % 32);
        }
        set
    }

    /// A bitmap of a minor version; the length is not believed.
    pub(in super::super) fn decode(words: &mut Decoder<'_>, minor: u32) -> Result<Self, Garbage> {
        let count = words.u32()?;
        if count > WORDS_MAX {
            return Err(Garbage);
        }
        let mut set = Self::default();
        for at in 0..count as usize {
            let word = words.u32()?;
            match set.words.get_mut(at) {
                Some(place) => *place = word,
                None => set.beyond |= word != 0,
            }
        }
        Ok(set.known_in(minor))
    }

    /// What a minor version has of it: of others it is known that there are some.
    pub(super) fn known_in(mut self, minor: u32) -> Self {
        let last = LAST.get(minor as usize).copied().unwrap_or(0);
        for (at, word) in (0..).zip(&mut self.words) {
            let known = match last.checked_sub(32 * at) {
                None => 0,
                Some(31..) => u32::MAX,
                Some(highest) => (2 << highest) - 1,
            };
            self.beyond |= *word & !known != 0;
            *word &= known;
        }
        self
    }

    /// Appends it, without words that say nothing.
    pub(in super::super) fn encode(&self, out: &mut Encoder) {
        let count = self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        out.u32(count as u32);
        for word in &self.words[..count] {
            out.u32(*word);
        }
    }

    /// Of it the size alone, if it has that.
    pub(in super::super) fn size_alone(&self) -> Self {
        self.and(&Self::of(&[SIZE]))
    }

    /// Whether an attribute is in it.
    pub(in super::super) fn has(&self, number: u32) -> bool {
        self.words.get((number / 32) as usize).is_some_and(|word| word & 1 << (number % 32) != 0)
    }

    /// Those of it that are in the other one, too.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        both.words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= other);
        both.beyond &= other.beyond;
        both
    }

    /// Those of either.
    pub(super) fn or(&self, other: &Self) -> Self {
        let mut all = *self;
        all.words.iter_mut().zip(other.words).for_each(|(word, other)| *word |= other);
        all.beyond |= other.beyond;
        all
    }

    /// Whether it has one that the other one has not.
    pub(in super::super) fn exceeds(&self, other: &Self) -> bool {
        self.and(other) != *self
    }

    /// Bytes that their values take at least.
    pub(in super::super) fn bytes_min(&self) -> usize {
        let bytes = |number| match number {
            19 => 4 + HANDLE_BYTES,
            8 => 16,
            47 | 51..=53 => 12,
            3 | 4 | 20..=23 | 27 | 30 | 31 | 36..=45 | 55 => 8,
            _ => 4,
        };
        READABLE.into_iter().filter(|number| self.has(*number)).map(bytes).sum()
    }

    /// Whether something has to be known of the object but its id.
    pub(in super::super) fn needs_attr(&self) -> bool {
        self.and(&Self::of(&READABLE)).exceeds(&Self::of(&OF_ITS_ID))
    }

    /// Whether it has one that a client knows better which has the file for writing.
    pub(in super::super) fn needs_writer(&self) -> bool {
        self.meets(&Self::of(&OF_ITS_CONTENT))
    }

    /// The others.
    pub(in super::super) fn without_content(mut self) -> Self {
        OF_ITS_CONTENT.into_iter().for_each(|number| self.words[(number / 32) as usize] &= !(1 << (number % 32)));
        self
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        self.and(other) != Self::default()
    }
}

/// What is only set cannot be read (RFC 7530 §5.5).
pub(in super::super) fn check_readable(wanted: &AttrSet) -> Result<(), Status> {
    if wanted.meets(&AttrSet::of(&WRITE_ONLY)) { Err(Status::Inval) } else { Ok(()) }
}

/// What can be compared: what can be read, but for the error of a listing.
pub(in super::super) fn check_comparable(wanted: &AttrSet) -> Result<(), Status> {
    check_readable(wanted)?;
    if wanted.has(RDATTR_ERROR) {
        return Err(Status::Inval);
    }
    if wanted.exceeds(&AttrSet::of(&READABLE)) { Err(Status::AttrNotSupp) } else { Ok(()) }
}
