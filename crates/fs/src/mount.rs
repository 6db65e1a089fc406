//! Which mount of a dataset it is, and what clients have claimed of it: what of a mount outlives its pool's export, for the import behind it ([`crate::filer::Handover`]).

use std::sync::{Arc, OnceLock};

use tally_claims::{Account, Claims, ClientNumber, Lock, Range};
use tally_vfs::{Holder, MountNumber, ObjectRef, Retained};

/// A mount, as those know it who have something open of it.
pub(crate) struct Mount {
    number: MountNumber,
    /// What is claimed of it, once anything is: a pool may have ten thousand datasets.
    claims: OnceLock<Box<Claims>>,
    /// How many claims there are of all the pool's datasets.
    account: Arc<Account>,
}

impl Mount {
    /// One that nobody has anything of.
    pub(crate) fn new(account: &Arc<Account>) -> Arc<Self> {
        Arc::new(Self { number: MountNumber::draw(), claims: OnceLock::new(), account: Arc::clone(account) })
    }

    pub(crate) fn number(&self) -> MountNumber {
        self.number
    }

    /// What is claimed of it, if anything ever was.
    pub(crate) fn get(&self) -> Option<&Claims> {
        self.claims.get().map(|claims| &**claims)
    }

    /// For who is about to claim something.
    pub(crate) fn get_or_init(&self) -> &Claims {
        self.claims.get_or_init(|| Box::new(Claims::new(Arc::clone(&self.account))))
    }
}

/// While the pool is away nothing of it can be changed: a file whose last close that was goes when files without a name are looked for behind the import.
impl Retained for Mount {
    fn mount(&self) -> MountNumber {
        self.number
    }

    fn close(&self, object: ObjectRef, holder: Holder) {
        if let Some(claims) = self.get() {
            claims.close(object.id, holder);
        }
    }

    fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        self.get().map_or_else(Vec::new, |claims| claims.ranges(object.id, holder, most))
    }

    fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        self.get().is_some_and(|claims| claims.has_ranges(object.id, holder))
    }

    fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> bool {
        self.get().is_none_or(|claims| claims.unlock(object.id, holder, range).is_ok())
    }

    fn give_back(&self, object: ObjectRef, client: ClientNumber) {
        if let Some(claims) = self.get() {
            claims.give_back(object.id, client);
        }
    }
}
