//! Room of the pool that is promised to WRITEs which have not come yet (rules V42): what roots say, what groups promise that are not synced, and what
//! WRITEs have drawn of it that only their group takes out of what its root says.

use std::collections::BTreeMap;

use tally_base::Txg;

/// What is promised, and what is drawn of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromisedRoom {
    /// Bytes that are promised.
    pub promised_bytes: u64,
    /// Bytes that WRITEs draw of it: what their folds may take counts as well, and nothing is to count twice.
    pub drawn_bytes: u64,
}

impl PromisedRoom {
    /// Both together.
    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            promised_bytes: self.promised_bytes.saturating_add(other.promised_bytes),
            drawn_bytes: self.drawn_bytes.saturating_add(other.drawn_bytes),
        }
    }

    /// What nobody has drawn. Who writes something anew draws for it, too, and what he replaces comes back: so more may be drawn than
    /// was promised.
    #[must_use]
    pub fn left_bytes(self) -> u64 {
        self.promised_bytes.saturating_sub(self.drawn_bytes)
    }

    pub(super) fn give_back(&mut self, other: Self) {
        let less = |all: u64, part| all.checked_sub(part).expect("no more is given back than was promised or drawn");
        self.promised_bytes = less(self.promised_bytes, other.promised_bytes);
        self.drawn_bytes = less(self.drawn_bytes, other.drawn_bytes);
    }
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Promises {
    /// By the newest durable roots.
    pub(super) durable_bytes: u64,
    /// Of operations that do not hold a group yet.
    pub(super) admitted: PromisedRoom,
    by_group: BTreeMap<Txg, PromisedRoom>,
}

impl Promises {
    pub(super) fn in_all(&self) -> PromisedRoom {
        let durable = PromisedRoom { promised_bytes: self.durable_bytes, drawn_bytes: 0 };
        self.by_group.values().fold(durable.and(self.admitted), |sum, room| sum.and(*room))
    }

    /// What was admitted holds a group.
    pub(super) fn take_hold(&mut self, txg: Txg, room: PromisedRoom) {
        if room != PromisedRoom::default() {
            self.admitted.give_back(room);
            let of_group = self.by_group.entry(txg).or_default();
            *of_group = of_group.and(room);
        }
    }

    pub(super) fn draw_less(&mut self, txg: Txg, drawn_bytes: u64) {
        self.by_group.entry(txg).or_default().give_back(PromisedRoom { promised_bytes: 0, drawn_bytes });
    }

    pub(super) fn synced(&mut self, txg: Txg, durable_bytes: u64) {
        self.by_group.retain(|group, _| *group > txg);
        self.durable_bytes = durable_bytes;
    }
}
