//! Whose a claim is.
//!
//! Several doors number their clients, and none asks another. So the upper half of a number is its series, and no two doors have one (rules V44):
//!
//! | series | whose numbers |
//! |---|---|
//! | what a start has drawn, of 1 to 2^31 - 1 | those of a protocol whose clients are told them, and bring them back: another start's are told from them |
//! | its complement | those of a second protocol beside it, whose clients have no leases: what they claim is counted together |
//! | 2^32 - 1 | those of what this machine itself has mounted |

/// What a drawn number may have of bits.
const DRAWN: u32 = u32::MAX / 2;

/// Who gives numbers to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series(u32);

impl Series {
    /// That of this machine's own mounts.
    pub const HERE: Self = Self(u32::MAX);

    /// One that a start has drawn: the lower 31 bits of this number, or the next of those whose complement mounts do not have.
    #[must_use]
    pub const fn drawn(number: u32) -> Self {
        match number & DRAWN {
            0 => Self(1),
            number => Self(number),
        }
    }

    /// The one beside a drawn one, for a second door.
    #[must_use]
    pub const fn beside(self) -> Self {
        assert!(self.0 != 0 && self.0 <= DRAWN, "it was drawn");
        Self(!self.0)
    }

    /// Whether it is one of a second door.
    #[must_use]
    pub const fn is_beside(self) -> bool {
        self.0 > DRAWN && self.0 != Self::HERE.0
    }

    /// The upper half of its numbers.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A client, of whichever protocol. Who it is its protocol knows; no two of one server have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNumber(pub u64);

impl ClientNumber {
    /// The client of a series with this number in it.
    #[must_use]
    pub const fn of(series: Series, number: u32) -> Self {
        Self((series.0 as u64) << 32 | number as u64)
    }

    /// Who has given it.
    #[must_use]
    pub const fn series(self) -> Series {
        Series((self.0 >> 32) as u32)
    }
}

/// One of a client's owners: a process, or what else its protocol takes for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerNumber(pub u64);

/// Who has claimed something: of an open its open-owner, of a range its lock-owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// Whose owner that is.
    pub client: ClientNumber,
    /// Which of its owners.
    pub owner: OwnerNumber,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_doors_have_one_series() {
        for drawn in [0, 1, 2, 7, u32::MAX / 2, 1 << 31, u32::MAX - 2, u32::MAX - 1, u32::MAX] {
            let one = Series::drawn(drawn);
            let all = [one, one.beside(), Series::HERE];
            assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{drawn}: {all:?}");
            assert_eq!(all.map(Series::is_beside), [false, true, false], "{drawn}");
            for series in all {
                assert_eq!([0, u32::MAX].map(|number| ClientNumber::of(series, number).series()), [series; 2]);
            }
        }
    }
}
