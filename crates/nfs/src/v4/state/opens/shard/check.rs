//! What holds of a shard whenever its lock is free.

use super::*;

impl Shard {
    /// O1 to O3. Gives how many owners and opens there are.
    pub(in super::super) fn check(&self) -> (usize, usize) {
        self.places.check();
        for (number, open) in self.places.all() {
            let (known, index) = (&self.clients[&open.asked.client], number as u32);
            assert_eq!(known.opens[open.listed], index, "O3");
            let by_file = self.by_file.get(&(open.owner, open.asked.file)).copied();
            match open.revoked {
                Some(_) => assert_ne!(by_file, Some(index), "O1"),
                None => assert_eq!((by_file, known.owners[&open.asked.name].number), (Some(index), open.owner), "O1"),
            }
        }
        let living = self.places.all().filter(|(_, open)| open.revoked.is_none()).count();
        assert_eq!(self.by_file.len(), living, "O1");
        self.check_clients();
        (self.clients.values().map(|known| known.owners.len()).sum(), self.places.counts().0)
    }

    fn check_clients(&self) {
        for (client, known) in &self.clients {
            let opens: Vec<_> = known.opens.iter().map(|index| self.places.at(*index).unwrap().1).collect();
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
        self.places.wear();
    }

    /// What it has allocated, roughly.
    pub(in super::super) fn bytes(&self) -> usize {
        let of_clients = |known: &Client| {
            known.owners.capacity() * (size_of::<(OwnerName, Owner)>() + 1) + known.opens.capacity() * 4
        };
        self.places.bytes()
            + self.by_file.capacity() * (size_of::<(Opener, FileId, u32)>() + 1)
            + self.clients.values().map(of_clients).sum::<usize>()
    }
}
