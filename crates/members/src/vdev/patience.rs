//! For how long a leg is waited for: as long as it takes where it is the only one that counts, and else up to the pool's
//! limit. Who leaves it then has decided that it failed: it is struck off like one that has refused a write (rules S13).
//!
//! The decision is the membership's, for one leg at a time: of two that hang together one is left, and the other one waited for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use tally_base::VdevGuid;
use tally_disk::{Disk, Limit, Patience};

use super::{LegState, Membership, Vdev, VdevLeg};

/// What is known of a leg by whoever waits for it. It holds nothing, so that a leg can go.
struct LegPatience {
    guid: VdevGuid,
    rotational: bool,
    leg: Weak<VdevLeg>,
    siblings: Weak<RwLock<Vec<Arc<VdevLeg>>>>,
    membership: Weak<dyn Membership>,
}

impl Patience for LegPatience {
    fn limit(&self) -> Limit {
        let (Some(siblings), Some(membership)) = (self.siblings.upgrade(), self.membership.upgrade()) else {
            return Limit::Alone;
        };
        let stands_in = |other: &Arc<VdevLeg>| other.guid() != self.guid && other.state() == LegState::Online;
        if !siblings.read().iter().any(stands_in) {
            return Limit::Alone;
        }
        membership.hang_limit().of_disk(self.rotational).map_or(Limit::None, Limit::After)
    }

    fn may_leave(&self, waited: Duration) -> bool {
        // Somebody has put another one in its place, or the pool is closed: nothing rests on it.
        let (Some(leg), Some(membership)) = (self.leg.upgrade(), self.membership.upgrade()) else { return true };
        if leg.left_after().is_some() {
            return true;
        }
        let may = membership.may_leave(&leg);
        if may {
            leg.leave(waited);
            tracing::warn!(leg = %leg.guid(), path = %leg.path().display(), seconds = waited.as_secs(),
                "a leg hangs, and is waited for no longer");
        }
        may
    }

    fn has_left(&self) -> bool {
        self.leg.upgrade().is_none_or(|leg| leg.left_after().is_some())
    }
}

impl Vdev {
    /// From now on a leg of this vdev, or one that is about to be, is waited for as the pool says.
    pub(crate) fn limit_patience_with(&self, leg: &Arc<VdevLeg>) {
        let (Some(membership), Some(disk)) = (self.membership.get(), leg.patient()) else { return };
        let Some(members) = membership.upgrade() else { return };
        let patience = LegPatience {
            guid: leg.guid(),
            rotational: disk.geometry().rotational,
            leg: Arc::downgrade(leg),
            siblings: Arc::downgrade(&self.legs),
            membership: Weak::clone(membership),
        };
        disk.set_patience(members.fanout(), Arc::new(patience));
    }
}
