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

/// Names of the bits of `incompat` that are spoken for, from bit 0 on.
const INCOMPAT_NAMES: [&str; 7] =
    ["raidz", "reflow", "sealed blocks", "shared blocks", "removed vdevs", "special vdevs", "copies of data"];
/// Those of `ro_compat`.
const RO_COMPAT_NAMES: [&str; 1] = ["checkpoint"];

/// Bits of `incompat` in words: names where they have some, and numbers.
pub(super) fn incompat_words(bits: u64) -> String {
    words(bits, &INCOMPAT_NAMES)
}

/// The same of `ro_compat`.
pub(crate) fn ro_compat_words(bits: u64) -> String {
    words(bits, &RO_COMPAT_NAMES)
}

fn words(bits: u64, names: &[&str]) -> String {
    let of_bit = |bit: usize| names.get(bit).map_or_else(|| format!("bit {bit}"), |name| format!("{name} (bit {bit})"));
    let set = (0..64).filter(|bit| bits >> bit & 1 != 0).map(of_bit);
    set.collect::<Vec<_>>().join(", ")
}

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
