//! Which uberblock holds: the decision from which every import starts (rules F8).
//!
//! The order is by (open generation, txg), over every copy on every leg that may vote. The rest is about not
//! believing too easily that the newest one found is the newest one there was:
//!
//! | case | what is on disk | decision |
//! |---|---|---|
//! | whole | the newest is valid on some voting leg | take it |
//! | torn | slot of N damaged everywhere, N−1 valid, nothing tells of N | take N−1: the write of N never returned |
//! | witnessed | a label, a stale leg or a frame tells of a newer one | refuse: what it committed is lost, not torn |
//! | stale | a leg that dropped out holds older ones | it has no vote |
//! | split | two different ones with equal (open generation, txg) | refuse: two writers |
//! | empty | no valid one at all | refuse: creation never finished, or every copy is damaged |
//!
//! The intent log is trimmed one uberblock behind, so taking N−1 in the torn case loses nothing.

use tally_base::{PoolGuid, Txg, VdevGuid};

use crate::uberblock::Uberblock;

/// What one leg contributes.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Which leg.
    pub leg: VdevGuid,
    /// It has missed writes: it cannot vote, but it can tell that something newer existed.
    pub stale: bool,
    /// Every valid uberblock on it, in any order, copies included.
    pub uberblocks: Vec<Uberblock>,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// From here the pool is read.
    pub uberblock: Uberblock,
    /// No txg up to this one may be used again: the highest one on any leg, stale ones included (rules F1).
    pub txg_max: Txg,
}

/// Why no uberblock can be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// There is none.
    #[error("no leg has a valid uberblock: the pool's creation never finished, or every copy is damaged")]
    Nothing,
    /// Two writers.
    #[error(
        "two different uberblocks have open generation {open_gen} and txg {txg} (on legs {first} and {second}): two \
         machines wrote to this pool; take away the legs of the one whose changes are to be given up"
    )]
    Conflict {
        /// Generation of both.
        open_gen: u64,
        /// Txg of both.
        txg: Txg,
        /// A leg with the one.
        first: VdevGuid,
        /// A leg with the other.
        second: VdevGuid,
    },
    /// A newer one existed.
    #[error(
        "the newest uberblock that can be read is of txg {found}, but {witness} tells of txg {expected}: what that one \
         committed would be lost without a word; bring back the disks that are missing"
    )]
    Witnessed {
        /// What can be read.
        found: Txg,
        /// What there was.
        expected: Txg,
        /// Who tells.
        witness: String,
    },
}

/// Decides. `label_txg` is the highest `synced_txg` in any label's configuration.
pub fn choose(pool: PoolGuid, candidates: &[Candidate], label_txg: Txg) -> Result<Chosen, ChooseError> {
    let copies = |stale: bool| {
        let legs = candidates.iter().filter(move |candidate| candidate.stale == stale);
        legs.flat_map(|candidate| candidate.uberblocks.iter().map(|uberblock| (candidate.leg, uberblock)))
            .filter(|(_, uberblock)| uberblock.pool == pool)
    };
    let (leg, newest) = copies(false).max_by_key(|(_, uberblock)| uberblock.rank()).ok_or(ChooseError::Nothing)?;
    for (other, uberblock) in copies(false) {
        if uberblock.rank() == newest.rank() && uberblock != newest {
            let (open_gen, txg) = newest.rank();
            return Err(ChooseError::Conflict { open_gen, txg, first: leg, second: other });
        }
    }
    for (stale, uberblock) in copies(true) {
        if uberblock.rank() > newest.rank() {
            let (found, expected) = (newest.txg, uberblock.txg);
            return Err(ChooseError::Witnessed { found, expected, witness: format!("the stale leg {stale}") });
        }
    }
    let txg_max = copies(false).chain(copies(true)).map(|(_, uberblock)| uberblock.txg).max();
    let chosen = Chosen { uberblock: newest.clone(), txg_max: txg_max.unwrap_or(newest.txg).max(label_txg) };
    chosen.witness(label_txg, "a label")?;
    Ok(chosen)
}

impl Chosen {
    /// Hears a further witness, such as the `synced_txg` of a frame in the intent log (case n of rules F7).
    pub fn witness(&self, synced: Txg, witness: &str) -> Result<(), ChooseError> {
        if synced <= self.uberblock.txg {
            return Ok(());
        }
        Err(ChooseError::Witnessed { found: self.uberblock.txg, expected: synced, witness: witness.to_owned() })
    }
}

#[cfg(test)]
mod tests;
