//! What a pool uses beyond the plain format, in three sets by what ignorance of it would break.

use std::fmt;

/// Three sets of bits. A program that does not know a bit of
/// `compat` may use the pool as if it were not there; of `ro_compat`, may only read; of `incompat`, may not open it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Harmless to those who do not know it.
    pub compat: u64,
    /// Harmless to readers.
    pub ro_compat: u64,
    /// Changes the meaning of what is on disk.
    pub incompat: u64,
}

/// What this program knows: nothing beyond the format. Numbers that are spoken for stand in docs/on-disk.md.
pub const KNOWN: Features = Features { compat: 0, ro_compat: 0, incompat: 0 };

/// What a pool's features allow this program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// Everything.
    ReadWrite,
    /// Reading; the bits are those of `ro_compat` that it does not know.
    ReadOnly(u64),
    /// Nothing; the bits are those of `incompat` that it does not know.
    No(u64),
}

impl Features {
    /// What a program that knows `known` may do with this pool.
    #[must_use]
    pub const fn usable_by(&self, known: &Self) -> Usable {
        let incompat = self.incompat & !known.incompat;
        let ro_compat = self.ro_compat & !known.ro_compat;
        if incompat != 0 {
            Usable::No(incompat)
        } else if ro_compat != 0 {
            Usable::ReadOnly(ro_compat)
        } else {
            Usable::ReadWrite
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compat {:#x}, ro_compat {:#x}, incompat {:#x}", self.compat, self.ro_compat, self.incompat)
    }
}
