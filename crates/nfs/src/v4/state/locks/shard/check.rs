//! What holds of a shard whenever its lock is free.

use super::*;

impl Shard {
    /// L1 to L3. Gives how many owners there are, the bytes of their names, and how many stateids.
    pub(in super::super) fn check(&self) -> (usize, usize, usize) {
        let living = || self.places.all().filter(|(_, state)| state.revoked.is_none());
        for (number, state) in living() {
            assert_eq!(self.below.get(&(state.asked.below, state.owner)), Some(&number), "L1");
        }
        assert_eq!(self.below.len(), living().count(), "L1");
        let of_client: BTreeSet<_> = self.places.all().map(|(number, state)| (state.asked.client, number)).collect();
        assert_eq!(of_client, self.of_client, "L2");
        let of_0 = living().filter(|(_, state)| state.asked.is_of_minor_0).map(|(number, state)| (state.owner, number));
        assert_eq!(of_0.collect::<BTreeSet<_>>(), self.of_owner, "L2");
        for (number, owner) in &self.owners {
            assert_eq!(living().filter(|(_, state)| state.owner == *number).count(), owner.locks, "L3");
            assert!(owner.locks > 0 && self.owner(&owner.key) == Some(*number), "L3");
        }
        for (client, known) in &self.clients {
            assert_eq!(of_client.iter().filter(|(of, _)| of == client).count(), known.locks, "L2");
            let names = known.owners.values().map(|owner| self.owners[owner].name.len());
            assert_eq!(names.sum::<usize>(), known.names_bytes, "L2");
            assert!(known.locks > 0 && known.locks <= LOCKS_OF_CLIENT_MAX, "L2");
            assert!(known.owners.len() <= OWNERS_OF_CLIENT_MAX, "L2");
            assert!(known.names_bytes <= LOCK_NAMES_BYTES_OF_CLIENT_MAX, "L2");
        }
        let owners = self.clients.values().map(|known| known.owners.len()).sum();
        assert_eq!(owners, self.owners.len(), "L3");
        (owners, self.clients.values().map(|known| known.names_bytes).sum(), self.of_client.len())
    }
}

impl Shard {
    /// What it has allocated, roughly.
    pub(in super::super) fn bytes(&self) -> usize {
        let of_owner = size_of::<(OwnerName, u64)>() + size_of::<(u64, Owner)>() + 2 + 16;
        let of_lock = (size_of::<((u64, u64), u64)>() + size_of::<(ClientId, u64)>() + size_of::<(u64, u64)>()) * 3 / 2;
        let names: usize = self.clients.values().map(|known| known.names_bytes).sum();
        self.places.bytes() + names + self.owners.capacity() * of_owner + self.of_client.len() * of_lock
    }
}
