//! What a call is to the statistics: its procedure, and for a WRITE how stable it was to be.

use tally_vfs::Stability;

use crate::procedure::{PROCEDURE_COUNT, Procedure};

/// How many kinds there are: WRITE comes in three.
pub const KIND_COUNT: usize = PROCEDURE_COUNT + 2;

/// A procedure, and for a WRITE its `stable_how`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    procedure: Procedure,
    stability: Stability,
}

impl Kind {
    /// Of a call. `stability` counts for a WRITE alone.
    #[must_use]
    pub fn new(procedure: Procedure, stability: Stability) -> Self {
        let is_write = procedure == Procedure::Write;
        Self { procedure, stability: if is_write { stability } else { Stability::Unstable } }
    }

    /// All of them, in the order of the procedures' numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        Procedure::ALL.into_iter().flat_map(|procedure| {
            let stabilities = [Stability::Unstable, Stability::DataSync, Stability::FileSync];
            let count = if procedure == Procedure::Write { 3 } else { 1 };
            stabilities.into_iter().take(count).map(move |stability| Self { procedure, stability })
        })
    }

    /// The procedure.
    #[must_use]
    pub fn procedure(self) -> Procedure {
        self.procedure
    }

    /// `stable_how` of a WRITE, as RFC 1813 §3.3.7 spells it.
    #[must_use]
    pub fn stable_how(self) -> Option<&'static str> {
        (self.procedure == Procedure::Write).then_some(match self.stability {
            Stability::Unstable => "UNSTABLE",
            Stability::DataSync => "DATA_SYNC",
            Stability::FileSync => "FILE_SYNC",
        })
    }

    /// Its place among [`KIND_COUNT`].
    pub(super) fn index(self) -> usize {
        let after = if self.procedure == Procedure::Write { self.stability as usize } else { 0 };
        match self.procedure.number() as usize {
            number if number > Procedure::Write as usize => number + 2,
            number => number + after,
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
