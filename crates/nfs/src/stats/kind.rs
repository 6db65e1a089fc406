//! What a call is to the statistics: its procedure, for a WRITE how stable it was to be, and of a compound whether it changes something.

use tally_vfs::Stability;

use crate::procedure::{PROCEDURE_COUNT, Procedure};

/// How many kinds there are: WRITE comes in three, COMPOUND in two.
pub const KIND_COUNT: usize = COMPOUND + 2;

/// Where compounds stand, behind the procedures of version 3.
const COMPOUND: usize = PROCEDURE_COUNT + 2;

/// A procedure of version 3, and for a WRITE its `stable_how`; or a compound of version 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(Call);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Procedure(Procedure, Stability),
    /// Whether it was to change something.
    Compound(bool),
}

impl Kind {
    /// Of a call of version 3. `stability` counts for a WRITE alone.
    #[must_use]
    pub fn new(procedure: Procedure, stability: Stability) -> Self {
        let is_write = procedure == Procedure::Write;
        Self(Call::Procedure(procedure, if is_write { stability } else { Stability::Unstable }))
    }

    /// Of a compound, which was to change something or not.
    #[must_use]
    pub fn compound(changes: bool) -> Self {
        Self(Call::Compound(changes))
    }

    /// All of them, in the order of the procedures' numbers, and compounds behind.
    pub fn all() -> impl Iterator<Item = Self> {
        let procedures = Procedure::ALL.into_iter().flat_map(|procedure| {
            let stabilities = [Stability::Unstable, Stability::DataSync, Stability::FileSync];
            let count = if procedure == Procedure::Write { 3 } else { 1 };
            stabilities.into_iter().take(count).map(move |stability| Self::new(procedure, stability))
        });
        procedures.chain([false, true].map(Self::compound))
    }

    /// Its name in statistics and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Call::Procedure(procedure, _) => procedure.name(),
            Call::Compound(false) => "compound",
            Call::Compound(true) => "compound_modify",
        }
    }

    /// Whether its reply rests on a change, and waits for it.
    #[must_use]
    pub fn modifies(self) -> bool {
        match self.0 {
            Call::Procedure(procedure, _) => procedure.modifies(),
            Call::Compound(changes) => changes,
        }
    }

    /// `stable_how` of a WRITE, as RFC 1813 §3.3.7 spells it.
    #[must_use]
    pub fn stable_how(self) -> Option<&'static str> {
        match self.0 {
            Call::Procedure(Procedure::Write, stability) => Some(match stability {
                Stability::Unstable => "UNSTABLE",
                Stability::DataSync => "DATA_SYNC",
                Stability::FileSync => "FILE_SYNC",
            }),
            _ => None,
        }
    }

    /// Its place among [`KIND_COUNT`].
    pub(super) fn index(self) -> usize {
        match self.0 {
            Call::Procedure(Procedure::Write, stability) => Procedure::Write as usize + stability as usize,
            Call::Procedure(procedure, _) if procedure.number() > Procedure::Write.number() => procedure as usize + 2,
            Call::Procedure(procedure, _) => procedure as usize,
            Call::Compound(changes) => COMPOUND + usize::from(changes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_place_of_its_own() {
        assert_eq!(Kind::all().map(Kind::index).collect::<Vec<_>>(), (0..KIND_COUNT).collect::<Vec<_>>());
        let stable = Kind::all().filter_map(Kind::stable_how).collect::<Vec<_>>();
        assert_eq!(stable, ["UNSTABLE", "DATA_SYNC", "FILE_SYNC"]);
        assert_eq!(
            Kind::new(Procedure::Commit, Stability::FileSync),
            Kind::new(Procedure::Commit, Stability::Unstable)
        );
    }
}
