//! What clients of version 4 are to programs of this machine, which have a dataset mounted here: as they are to requests of version 3 ([`super::others`]), but who is kept out waits in his system call, and is not told
//! to come again.

use tally_base::{PoolGuid, Wait};
use tally_vfs::{ClientNumber, ObjectRef, Vfs};

use super::Service;
use crate::exports::PoolExports;

impl Service {
    /// Programs of this machine use a dataset: from now on `delegations=auto` gives none for writing there. Whether its files are nobody's for now, as others may still claim what they have written and not
    /// sent (rules V27).
    pub fn is_used_here(&self, vfs: &dyn Vfs) -> bool {
        let Some(house) = &self.house else { return false };
        house.note_v3_use((vfs.pool(), vfs.dataset()));
        // Before anybody looks for its pool, which may come meanwhile.
        let changed = self.exports.changed();
        let awaits = |pool: &dyn PoolExports| house.awaits_claims(&*self.exports, pool, vfs.dataset(), None);
        !house.is_open_to_all(changed) && self.exports.pool(vfs.pool()).is_some_and(|pool| awaits(&*pool))
    }

    /// Programs of this machine have unlocked something of an object: clients and hosts that wait for it are told.
    pub fn freed_here(&self, vfs: &dyn Vfs, object: ObjectRef) {
        if let Some(house) = &self.house {
            house.freed_by_others(&*self.exports, (vfs, object));
        }
    }

    /// These have what a program of this machine needs, and go out of its way where the lease of each is over (rules V20). Whether it is worth another try.
    #[must_use]
    pub fn make_way_here(&self, in_the_way: &[ClientNumber]) -> bool {
        self.house.as_ref().is_some_and(|house| house.end_late(&*self.exports, in_the_way))
    }

    /// Programs of this machine were given something in a pool that may have been a client's: what their answer waits for, so that this one does not claim it behind a restart (rules V24, V25). An error where
    /// that cannot be written down for now: when it is to be asked anew, or in a moment.
    ///
    /// # Errors
    ///
    /// As above; of a pool that is away nobody knows.
    pub fn given_here(&self, pool: PoolGuid) -> Result<Wait, Wait> {
        let Some(house) = &self.house else { return Ok(Wait::Ready) };
        self.exports.pool(pool).map_or(Err(Wait::Ready), |pool| house.given_here(&*pool))
    }

    /// What clients were given of an object is asked for. Whoever needs it asks again until it is back, or taken.
    pub fn recall(&self, vfs: &dyn Vfs, object: ObjectRef) {
        if let Some(house) = &self.house {
            let _he_asks_again = house.kept_out(&*self.exports, (vfs, object), None, false);
        }
    }
}
