//! Room that is kept for those who were woken, until they come for it.

use tally_base::Txg;

use super::{Amount, Load, is_same};

/// Room that is kept for somebody.
struct Grant {
    number: u64,
    load: Load,
    /// The newest synced group when it was given.
    since: Txg,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Grants {
    list: Vec<Grant>,
    /// What all of them would bring. Each request that asks needs it, and there may be as many grants as requests.
    bytes: Amount,
}

impl Grants {
    /// Keeps room for who had the ticket `number`.
    pub(super) fn give(&mut self, number: u64, load: Load, since: Txg) {
        self.bytes = self.bytes.plus(Amount::of(&load));
        self.list.push(Grant { number, load, since });
    }

    /// Somebody has come for his room, if there is any.
    pub(super) fn take(&mut self, load: &Load) -> bool {
        let Some(at) = self.list.iter().position(|grant| is_same(&grant.load, load)) else { return false };
        let taken = self.list.swap_remove(at);
        self.bytes = self.bytes.without(Amount::of(&taken.load));
        true
    }

    /// Nobody comes for this one.
    pub(super) fn forget(&mut self, number: u64) {
        self.keep(|grant| grant.number != number);
    }

    /// `txg` is synced: who was woken before it began to be has had his time.
    pub(super) fn synced(&mut self, txg: Txg) {
        self.keep(|grant| grant.since.next() >= txg);
    }

    pub(super) fn clear(&mut self) {
        self.keep(|_| false);
    }

    /// What they would bring.
    pub(super) fn bytes(&self) -> Amount {
        self.bytes
    }

    fn keep(&mut self, keeps: impl Fn(&Grant) -> bool) {
        let bytes = &mut self.bytes;
        self.list.retain(|grant| {
            let keeps = keeps(grant);
            if !keeps {
                *bytes = bytes.without(Amount::of(&grant.load));
            }
            keeps
        });
    }
}
