//! Which objects somebody has claims of, so that a client or an owner that goes is not looked for in the whole table.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tally_base::ObjectId;

use crate::holder::{ClientNumber, Holder, OwnerNumber};

const SHARD_COUNT: usize = 16;

/// Holders with the objects of which they have an open or a range, and clients with those of which they have a delegation, in shards by client.
#[derive(Default)]
pub(crate) struct Holdings {
    shards: [Mutex<BTreeSet<(Holder, ObjectId)>>; SHARD_COUNT],
    delegated: [Mutex<BTreeSet<(ClientNumber, ObjectId)>>; SHARD_COUNT],
}

impl Holdings {
    pub(crate) fn add(&self, holder: Holder, object: ObjectId) {
        self.shard(holder.client).lock().insert((holder, object));
    }

    pub(crate) fn remove(&self, holder: Holder, object: ObjectId) {
        self.shard(holder.client).lock().remove(&(holder, object));
    }

    pub(crate) fn of_owner(&self, holder: Holder) -> Vec<ObjectId> {
        self.between(holder, holder)
    }

    pub(crate) fn of_client(&self, client: ClientNumber) -> Vec<ObjectId> {
        let owned = |owner| Holder { client, owner: OwnerNumber(owner) };
        let mut objects = self.between(owned(0), owned(u64::MAX));
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    fn between(&self, first: Holder, last: Holder) -> Vec<ObjectId> {
        let held = self.shard(first.client).lock();
        let all = held.range((first, ObjectId(0))..=(last, ObjectId(u64::MAX)));
        all.map(|&(_, object)| object).collect()
    }

    pub(crate) fn add_delegated(&self, client: ClientNumber, object: ObjectId) {
        self.delegated_shard(client).lock().insert((client, object));
    }

    pub(crate) fn remove_delegated(&self, client: ClientNumber, object: ObjectId) {
        self.delegated_shard(client).lock().remove(&(client, object));
    }

    /// The objects of which a client has a delegation.
    pub(crate) fn delegated_to(&self, client: ClientNumber) -> Vec<ObjectId> {
        let held = self.delegated_shard(client).lock();
        held.range((client, ObjectId(0))..=(client, ObjectId(u64::MAX))).map(|&(_, object)| object).collect()
    }

    fn delegated_shard(&self, client: ClientNumber) -> &Mutex<BTreeSet<(ClientNumber, ObjectId)>> {
        &self.delegated[client.0 as usize % SHARD_COUNT]
    }

    fn shard(&self, client: ClientNumber) -> &Mutex<BTreeSet<(Holder, ObjectId)>> {
        &self.shards[client.0 as usize % SHARD_COUNT]
    }
}
