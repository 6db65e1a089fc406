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
//! | dropped | the newest were given up by an import that went back (`label::Rewind`) | they have no vote and tell of nothing (rules S55) |
//!
//! The intent log is trimmed one uberblock behind, so taking N−1 in the torn case loses nothing.

use std::collections::HashMap;

use tally_base::{PoolGuid, Time, Txg, VdevGuid};

use crate::label::Rewind;
use crate::uberblock::Uberblock;

/// What one leg contributes.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The one that all of this was read from.
    pub leg: VdevGuid,
    /// It has missed writes: it cannot vote, but it can tell that something newer existed.
    pub stale: bool,
    /// Every valid uberblock on it, in any order, copies included.
    pub uberblocks: Vec<Uberblock>,
}

/// The uberblock that holds, and what the others tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// From here the pool is read.
    pub uberblock: Uberblock,
    /// No txg up to this one may be used again: the highest one on any leg, stale and dropped ones included (rules F1).
    pub txg_max: Txg,
    /// Those before it, each the one before the last, as far as legs that vote have them.
    pub before: Vec<Uberblock>,
    /// The pool went back to it, or near it, and there is no group behind that yet: the log has nothing for it.
    pub rewind: Option<Rewind>,
    /// The highest open generation of any uberblock, dropped ones included.
    pub open_gen_max: u64,
    /// The latest lease of any uberblock, dropped ones included.
    pub time_lease_max: Time,
    /// A group that a label or a stale leg tells of, above the chosen one.
    pub lost: Option<(Txg, String)>,
}

/// Why no uberblock can be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum ChooseError {
    #[error(
        "no leg has a valid uberblock: the pool's creation never finished, or every copy is damaged or could not be read; see to its \
         disks and import it again"
    )]
    Nothing,
    /// Two writers.
    #[error(
        "two different uberblocks have open generation {open_gen} and txg {txg} (on legs {first} and {second}): two \
         machines wrote to this pool; take away the legs of the one whose changes are to be given up"
    )]
    Conflict {
        open_gen: u64,
        txg: Txg,
        /// A leg with the one.
        first: VdevGuid,
        /// A leg with the other.
        second: VdevGuid,
    },
    /// A newer one existed.
    #[error(
        "the newest uberblock that can be read is of txg {found}, but {witness} tells of txg {expected}: what that one \
         committed would be lost without a word; bring back the disks that are missing, or go back to an older group with `tally pool \
         import --rewind`"
    )]
    Witnessed {
        /// What can be read.
        found: Txg,
        expected: Txg,
        witness: String,
    },
}

/// Decides. `label_txg` is the highest `synced_txg` in any label's configuration; `rewinds`, what the pool has given up.
pub fn choose(
    pool: PoolGuid,
    candidates: &[Candidate],
    label_txg: Txg,
    rewinds: &[Rewind],
) -> Result<Chosen, ChooseError> {
    let chosen = choose_unheard(pool, candidates, label_txg, rewinds)?;
    match &chosen.lost {
        Some((txg, witness)) => chosen.witness(*txg, witness).map(|()| chosen.clone()),
        None => Ok(chosen),
    }
}

/// The same for who goes back on purpose: whoever tells of a newer one is noted, and not believed.
pub fn choose_unheard(
    pool: PoolGuid,
    candidates: &[Candidate],
    label_txg: Txg,
    rewinds: &[Rewind],
) -> Result<Chosen, ChooseError> {
    let is_dropped = |uberblock: &Uberblock| rewinds.iter().any(|rewind| rewind.drops(uberblock.rank()));
    let all = || {
        let legs = candidates.iter().flat_map(|leg| leg.uberblocks.iter().map(move |uberblock| (leg, uberblock)));
        legs.filter(|(_, uberblock)| uberblock.pool == pool)
    };
    let copies = |stale: bool| {
        let counting = all().filter(|(_, uberblock)| !is_dropped(uberblock));
        counting.filter(move |(leg, _)| leg.stale == stale).map(|(leg, uberblock)| (leg.leg, uberblock))
    };
    let (leg, newest) = copies(false).max_by_key(|(_, uberblock)| uberblock.rank()).ok_or(ChooseError::Nothing)?;
    for (other, uberblock) in copies(false) {
        if uberblock.rank() == newest.rank() && uberblock != newest {
            let (open_gen, txg) = newest.rank();
            return Err(ChooseError::Conflict { open_gen, txg, first: leg, second: other });
        }
    }
    let seen = all().map(|(_, uberblock)| uberblock.txg).chain(rewinds.iter().map(|rewind| rewind.dropped)).max();
    let mut chosen = Chosen {
        uberblock: newest.clone(),
        txg_max: seen.unwrap_or(newest.txg).max(label_txg),
        before: before(newest, copies(false).map(|(_, uberblock)| uberblock)),
        rewind: rewinds.last().copied().filter(|rewind| newest.open_gen < rewind.open_gen),
        open_gen_max: all().map(|(_, uberblock)| uberblock.open_gen).max().unwrap_or(0),
        time_lease_max: all().map(|(_, uberblock)| uberblock.time_lease).max().unwrap_or(newest.time_lease),
        lost: None,
    };
    let stale = copies(true).filter(|(_, uberblock)| uberblock.rank() > newest.rank());
    let of_stale = stale.map(|(leg, uberblock)| (uberblock.txg, format!("the stale leg {leg}")));
    let of_label = chosen.witness(label_txg, "a label").is_err().then(|| (label_txg, "a label".to_owned()));
    chosen.lost = of_stale.chain(of_label).max();
    Ok(chosen)
}

/// The uberblocks before one, by what each says of the one before it.
fn before<'a>(newest: &Uberblock, others: impl Iterator<Item = &'a Uberblock>) -> Vec<Uberblock> {
    let by_hash: HashMap<u64, &Uberblock> = others.map(|uberblock| (uberblock.hash(), uberblock)).collect();
    let mut before: Vec<Uberblock> = Vec::new();
    let mut last = newest;
    // A chain that runs in a circle is no chain.
    while let Some(found) = by_hash.get(&last.previous).filter(|found| found.rank() < last.rank()) {
        before.push((*found).clone());
        last = found;
    }
    before
}

impl Chosen {
    /// The newest group that there was, as far as anybody may tell of it.
    #[must_use]
    pub fn known(&self) -> Txg {
        self.rewind.map_or(self.uberblock.txg, |rewind| self.uberblock.txg.max(rewind.dropped))
    }

    /// Hears a further witness, such as the `synced_txg` of a frame in the intent log (case n of rules F7). What was given up
    /// bears none.
    pub fn witness(&self, synced: Txg, witness: &str) -> Result<(), ChooseError> {
        if synced <= self.known() {
            return Ok(());
        }
        Err(ChooseError::Witnessed { found: self.uberblock.txg, expected: synced, witness: witness.to_owned() })
    }
}

#[cfg(test)]
mod tests;
