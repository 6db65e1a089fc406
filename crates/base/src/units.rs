//! Quantities that must not be confused, each a type of its own.

use std::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The value after this one. Overflow is a bug: these counters start near zero and 2^64 is out of reach.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("a 64-bit counter ran out"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

unit!(
    /// A transaction group. Never used twice in the life of a pool, not even across a crash (rules F1).
    Txg
);
unit!(
    /// The position of a record in one lane of the intent log: dense from 1, and meaningless in another lane.
    /// 0 means "before the first record".
    Lsn
);
unit!(
    /// The position of a record in one dataset's history: dense from 1 over all lanes (rules F2).
    /// 0 means "before the first record".
    Dseq
);
unit!(
    /// A file, directory or other object of one dataset, or a directory entry's cookie, drawn from the same
    /// counter. Never reused; at least 3 and below 2^63 (rules F21).
    ObjectId
);
unit!(
    /// A dataset of one pool. Never reused, and independent of its name.
    DatasetId
);
unit!(
    /// A lane of a pool's intent log: its index in the pool's configuration, stable for the life of the lane.
    LaneId
);
unit!(
    /// 64 random bits drawn when an object is made: a handle with another generation is stale (rules F15).
    Generation
);

/// A top-level vdev: its place in the pool's configuration, for ever. What block pointers name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VdevIndex(pub u16);

impl VdevIndex {
    /// No vdev: what a block pointer says where it has no second place.
    pub const NONE: Self = Self(u16::MAX);

    /// The vdev in this place of a configuration, if it can be named.
    #[must_use]
    pub fn at(place: usize) -> Option<Self> {
        u16::try_from(place).ok().map(Self).filter(|index| *index != Self::NONE)
    }

    /// Its place in the configuration.
    #[must_use]
    pub fn place(self) -> usize {
        self.0.into()
    }
}

impl fmt::Display for VdevIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for VdevIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VdevIndex({})", self.0)
    }
}

macro_rules! guid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:016x})"), self.0)
            }
        }
    };
}

guid!(
    /// Names a pool, for ever and on every machine: 64 random bits drawn at creation.
    PoolGuid
);
guid!(
    /// Names one leg (a disk or file) or one top-level vdev of a pool.
    VdevGuid
);

/// Server time: nanoseconds since 1970-01-01 UTC. The times of changes and the change attribute are of this type;
/// those that the server issues itself never repeat and never go back (rules F14).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(pub u64);

impl Time {
    /// From whole seconds and nanoseconds; nanoseconds beyond a second are carried, overflow saturates.
    #[must_use]
    pub const fn new(seconds: u64, nanoseconds: u32) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds as u64))
    }

    /// Whole seconds since the epoch.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Nanoseconds within the second, below 10^9.
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        (self.0 % 1_000_000_000) as u32
    }
}

/// What a program says of a file: when it was last changed or read. Nanoseconds since 1970-01-01 UTC, from 1677 to 2262; what is
/// from before 1970 is below zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FileTime(pub i64);

impl FileTime {
    /// From whole seconds, and nanoseconds behind them; what is outside of the range is the nearest that is not.
    #[must_use]
    pub const fn new(seconds: i64, nanoseconds: u32) -> Self {
        let exact = seconds as i128 * NS as i128 + nanoseconds as i128;
        if exact < i64::MIN as i128 {
            Self(i64::MIN)
        } else if exact > i64::MAX as i128 {
            Self(i64::MAX)
        } else {
            Self(exact as i64)
        }
    }

    /// Whole seconds since the epoch, below zero before it.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(NS)
    }

    /// Nanoseconds behind those, below 10^9.
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        self.0.rem_euclid(NS) as u32
    }
}

/// Nanoseconds in a second.
const NS: i64 = 1_000_000_000;

impl From<Time> for FileTime {
    /// The last that there is stands for what is later.
    fn from(time: Time) -> Self {
        Self(i64::try_from(time.0).unwrap_or(i64::MAX))
    }
}
