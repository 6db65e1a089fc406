//! Delegations, as a list that is walked, and the two tables said once more in other words.

use smallvec::SmallVec;
use tally_claims::{ClientNumber, Delegation};

use super::state::State;
use crate::ObjectRef;

/// What one client holds of one object.
#[derive(Clone, Copy)]
pub(super) struct Given {
    object: ObjectRef,
    client: ClientNumber,
    kind: Delegation,
}

impl State {
    pub(super) fn delegated(&self, object: ObjectRef) -> SmallVec<[(ClientNumber, Delegation); 1]> {
        let of_it = self.given.iter().filter(|given| given.object == object);
        let mut all: SmallVec<[_; 1]> = of_it.map(|given| (given.client, given.kind)).collect();
        all.sort_unstable();
        all
    }

    pub(super) fn give_back(&mut self, object: ObjectRef, client: ClientNumber) {
        self.given.retain(|given| (given.object, given.client) != (object, client));
    }
}
