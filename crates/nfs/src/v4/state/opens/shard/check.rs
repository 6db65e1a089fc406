//! What holds of a shard whenever its lock is free.

use super::*;

impl Shard {
    /// O1 to O3. Gives how many owners and opens there are.
    pub(in super::super) fn check(&self) -> (usize, usize) {
        let used: Vec<u32> =
            (0..self.slots.len() as u32).filter(|at| self.slots[*at as usize].open.is_some()).collect();
        let worn = self.slots.iter().filter(|slot| slot.open.is_none() && slot.generation == u32::MAX).count();
        assert_eq!(used.len() + self.free.len() + worn, self.slots.len(), "O2");
        assert!(self.free.iter().all(|at| self.slots[*at as usize].open.is_none()), "O2");
        for position in &used {
            let open = self.slots[*position as usize].open.as_ref().unwrap();
            let known = &self.clients[&open.asked.client];
            assert_eq!(known.opens[open.listed], *position, "O3");
            let by_file = self.by_file.get(&(open.owner, open.asked.file));
            match open.revoked {
                Some(_) => assert_ne!(by_file, Some(position), "O1"),
                None => {
                    assert_eq!((by_file, known.owners[&open.asked.name].number), (Some(position), open.owner), "O1")
                }
            }
        }
        let living =
            used.iter().filter(|at| self.slots[**at as usize].open.as_ref().unwrap().revoked.is_none()).count();
        assert_eq!(self.by_file.len(), living, "O1");
        self.check_clients();
        (self.clients.values().map(|known| known.owners.len()).sum(), used.len())
    }

    fn check_clients(&self) {
        for (client, known) in &self.clients {
            let opens: Vec<_> = known.opens.iter().map(|at| self.slots[*at as usize].open.as_ref().unwrap()).collect();
            assert!(opens.iter().all(|open| open.asked.client == *client), "O3");
            assert_eq!(opens.iter().filter(|open| open.revoked.is_some()).count(), known.revoked_count(), "O2");
            assert!(!opens.is_empty() && known.opens.len() <= OPENS_OF_CLIENT_MAX, "O3");
            assert!(known.owners.len() <= OWNERS_OF_CLIENT_MAX, "O2");
            let mut of_owners: HashMap<OwnerName, usize> = HashMap::new();
            let living = opens.iter().filter(|open| open.revoked.is_none());
            living.for_each(|open| *of_owners.entry(open.asked.name).or_default() += 1);
            let counted = known.owners.iter().map(|(name, owner)| (*name, owner.opens));
            assert_eq!(of_owners, counted.collect(), "O2, O3");
        }
    }

    /// As if every place had been used as often as it can be, but for once.
    pub(in super::super) fn wear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.generation = u32::MAX - 1);
    }

    /// What it has allocated, roughly.
    pub(in super::super) fn bytes(&self) -> usize {
        let of_clients = |known: &Client| {
            known.owners.capacity() * (size_of::<(OwnerName, Owner)>() + 1) + known.opens.capacity() * 4
        };
        self.slots.capacity() * size_of::<Slot>()
            + self.free.capacity() * 4
            + self.by_file.capacity() * (size_of::<(OwnerNumber, FileId, u32)>() + 1)
            + self.clients.values().map(of_clients).sum::<usize>()
    }
}
