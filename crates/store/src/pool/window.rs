//! How far back an import can go: the roots behind the newest one that are still whole.
//!
//! **The problem.** What a group frees is named by the root before it, and by those before that. An import that goes back to
//! one of them (`super::rewind`), since the newest cannot be read or says what nobody wanted, must find all of it.
//!
//! **The idea.** Frees wait until [`DEPTH_MAX`] more groups are durable, where space is not scarce, and the uberblock says for how
//! many that is so. It is a promise (rules S55): what its group freed and the ones before it stays until the next
//! uberblock says otherwise. Where space is short the newest two roots stay, as a torn uberblock needs them (rules F8).
//!
//! ```text
//!                R0        …         N-1        N          kept; depth = 4
//!   frees of:  ≤ R0                                        may be used again
//!                    R0+1  …         N-1        N          wait
//! ```

use std::collections::VecDeque;

use tally_base::Txg;
use tally_base::codec::Malformed;

use crate::bp::{BLOCK_PTR_BYTES, BlockPtr};

/// Roots before the newest that are kept whole, at most: some twenty seconds of a pool that is written to.
pub const DEPTH_MAX: u16 = 4;
/// More is kept than must be while it waits for no more than this part of what is free.
const SHARE_OF_FREE: u64 = 8;

/// What an uberblock carries for the pool.
///
/// ```text
///  0  pointer of the root block 64 · rewind depth u16 · zero 6     72
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootArea {
    pub(crate) root: BlockPtr,
    /// Roots before this one that are whole.
    pub(crate) depth: u16,
}

const ROOT_AREA_BYTES: usize = BLOCK_PTR_BYTES + 8;

impl RootArea {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.root.encode().to_vec();
        out.extend(self.depth.to_le_bytes());
        out.resize(ROOT_AREA_BYTES, 0);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed("uberblock root");
        let (pointer, rest) = bytes.split_first_chunk::<BLOCK_PTR_BYTES>().ok_or(malformed)?;
        match rest {
            [low, high, 0, 0, 0, 0, 0, 0] => {
                Ok(Self { root: BlockPtr::decode(pointer)?, depth: u16::from_le_bytes([*low, *high]) })
            }
            _ => Err(malformed),
        }
    }
}

/// The groups whose roots are whole, the newest durable one last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    kept: VecDeque<Txg>,
}

impl Window {
    /// Behind an import of `newest`, whose uberblock says that as many are whole of those `before` it, the last of them
    /// first.
    pub(super) fn found(newest: Txg, depth: u16, before: impl IntoIterator<Item = Txg>) -> Self {
        let mut kept = VecDeque::from([newest]);
        before.into_iter().take(usize::from(depth)).for_each(|txg| kept.push_front(txg));
        Self { kept }
    }

    /// With `txg` as the newest, and no more than so many before it.
    pub(super) fn with(&self, txg: Txg, depth: u16) -> Self {
        let surplus = self.kept.len().saturating_sub(usize::from(depth));
        Self { kept: self.kept.iter().copied().skip(surplus).chain([txg]).collect() }
    }

    pub(super) fn depth(&self) -> u16 {
        self.kept.len().saturating_sub(1) as u16
    }

    /// What groups before this one have freed is named by none of the kept roots.
    pub(super) fn reusable_before(&self) -> Txg {
        match (self.kept.front(), self.kept.back()) {
            (Some(oldest), Some(newest)) => oldest.next().min(*newest),
            _ => Txg(0),
        }
    }

    /// How deep it may be with `txg` as the newest, where `free` sectors are free and `waiting` tells how many groups between
    /// these two, the first of them left out, have freed.
    pub(super) fn depth_for(&self, free: u64, is_short: bool, waiting: impl Fn(Txg, Txg) -> u64) -> u16 {
        let Some(before) = self.kept.back().filter(|_| !is_short) else { return 1 };
        let may_wait = |depth: &u16| {
            let oldest = self.kept.iter().rev().nth(usize::from(*depth) - 1).unwrap_or(before);
            waiting(*oldest, *before).saturating_mul(SHARE_OF_FREE) <= free
        };
        (1..=DEPTH_MAX).rev().find(may_wait).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests;
