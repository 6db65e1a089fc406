//! How much clients may claim (rules V35), of all datasets of a pool together: a client that is refused here would only go on in the next one otherwise.

use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::holder::ClientNumber;
use crate::refused::{Counted, Refused, Within};

/// Most opens in all: at most some 80 MB, if each is of another object.
pub const OPENS_MAX: usize = 262_144;
/// Most of a client, so that it takes four to keep others from opening anything.
pub const OPENS_OF_CLIENT_MAX: usize = 65_536;
/// Most of an object: who is refused has all of them looked at.
pub const OPENS_OF_OBJECT_MAX: usize = 16_384;
/// Most of a client of one object, so that it takes four to keep others from opening it.
pub const OPENS_OF_OBJECT_AND_CLIENT_MAX: usize = 4096;

/// Most locked ranges in all: at most some 200 MB, if each is of another object, and some 20 if not.
pub const RANGES_MAX: usize = 262_144;
/// Most of a client.
pub const RANGES_OF_CLIENT_MAX: usize = 65_536;
/// Most of all clients of a second door together ([`Series::is_beside`]), which end with none of them by themselves: so others have as many.
///
/// [`Series::is_beside`]: crate::holder::Series::is_beside
pub const RANGES_BESIDE_MAX: usize = RANGES_MAX / 2;
/// Most of one of those.
pub const RANGES_OF_CLIENT_BESIDE_MAX: usize = RANGES_MAX / 16;
/// Most of an object.
pub const RANGES_OF_OBJECT_MAX: usize = 16_384;

/// Most delegations in all: at most some 20 MB, if each is of another object.
pub const DELEGATIONS_MAX: usize = 65_536;
/// Most of a client, so that it takes four to leave others without any.
pub const DELEGATIONS_OF_CLIENT_MAX: usize = 16_384;
/// Most of an object: who is in their way has all of them called back.
pub const DELEGATIONS_OF_OBJECT_MAX: usize = 1024;

const _: () = assert!(OPENS_OF_OBJECT_AND_CLIENT_MAX < OPENS_OF_OBJECT_MAX);
const _: () = assert!(OPENS_OF_OBJECT_MAX <= OPENS_OF_CLIENT_MAX && OPENS_OF_CLIENT_MAX < OPENS_MAX);
const _: () = assert!(RANGES_OF_OBJECT_MAX <= RANGES_OF_CLIENT_MAX && RANGES_OF_CLIENT_MAX < RANGES_MAX);
const _: () =
    assert!(RANGES_OF_OBJECT_MAX <= RANGES_OF_CLIENT_BESIDE_MAX && RANGES_OF_CLIENT_BESIDE_MAX < RANGES_BESIDE_MAX);
const _: () =
    assert!(DELEGATIONS_OF_OBJECT_MAX <= DELEGATIONS_OF_CLIENT_MAX && DELEGATIONS_OF_CLIENT_MAX < DELEGATIONS_MAX);

const SHARD_COUNT: usize = 16;

/// How many claims there are. One is shared by the tables of all datasets of a pool.
#[derive(Default)]
pub struct Account {
    opens: AtomicUsize,
    ranges: AtomicUsize,
    /// Those of them that are of a second door.
    ranges_beside: AtomicUsize,
    delegations: AtomicUsize,
    /// Clients that have claims, in shards by their number.
    clients: [Mutex<HashMap<ClientNumber, Count>>; SHARD_COUNT],
}

/// So many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Opens: one for each holder and object.
    pub opens: usize,
    /// Locked ranges.
    pub ranges: usize,
    /// Delegations: one for each client and object.
    pub delegations: usize,
}

impl Account {
    /// All there are.
    #[must_use]
    pub fn totals(&self) -> Count {
        let now = |total: &AtomicUsize| total.load(Ordering::Relaxed);
        Count { opens: now(&self.opens), ranges: now(&self.ranges), delegations: now(&self.delegations) }
    }

    /// Those of a client.
    #[must_use]
    pub fn of_client(&self, client: ClientNumber) -> Count {
        self.shard(client).lock().get(&client).copied().unwrap_or_default()
    }

    /// Takes room for so many more, or says whose bound is reached: the client's own is asked first.
    pub(crate) fn take(&self, client: ClientNumber, what: Counted, more: usize) -> Result<(), Refused> {
        if more == 0 {
            return Ok(());
        }
        let beside = self.beside(client, what);
        let (total, max, of_client_max) = match what {
            Counted::Opens => (&self.opens, OPENS_MAX, OPENS_OF_CLIENT_MAX),
            Counted::Ranges if beside.is_some() => (&self.ranges, RANGES_MAX, RANGES_OF_CLIENT_BESIDE_MAX),
            Counted::Ranges => (&self.ranges, RANGES_MAX, RANGES_OF_CLIENT_MAX),
            Counted::Delegations => (&self.delegations, DELEGATIONS_MAX, DELEGATIONS_OF_CLIENT_MAX),
        };
        let mut clients = self.shard(client).lock();
        let mut count = clients.get(&client).copied().unwrap_or_default();
        let own = count.of(what);
        *own += more;
        if *own > of_client_max {
            return Err(Refused::TooMany { what, within: Within::Client });
        }
        let take = |total: &AtomicUsize, max: usize| {
            let taken = |total: usize| Some(total + more).filter(|&total| total <= max);
            let told = total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
            told.map_err(|_| Refused::TooMany { what, within: Within::All })
        };
        take(total, max)?;
        if let Some(beside) = beside {
            take(beside, RANGES_BESIDE_MAX).inspect_err(|_| _ = total.fetch_sub(more, Ordering::Relaxed))?;
        }
        clients.insert(client, count);
        Ok(())
    }

    /// What a client's claims of that are counted in besides.
    fn beside(&self, client: ClientNumber, what: Counted) -> Option<&AtomicUsize> {
        (what == Counted::Ranges && client.series().is_beside()).then_some(&self.ranges_beside)
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, client: ClientNumber, what: Counted, fewer: usize) {
        if fewer == 0 {
            return;
        }
        let mut clients = self.shard(client).lock();
        let count = clients.get_mut(&client).expect("what is given back was taken");
        let own = count.of(what);
        *own = own.checked_sub(fewer).expect("no more is given back than was taken");
        if *count == Count::default() {
            clients.remove(&client);
        }
        let total = match what {
            Counted::Opens => &self.opens,
            Counted::Ranges => &self.ranges,
            Counted::Delegations => &self.delegations,
        };
        total.fetch_sub(fewer, Ordering::Relaxed);
        if let Some(beside) = self.beside(client, what) {
            beside.fetch_sub(fewer, Ordering::Relaxed);
        }
    }

    fn shard(&self, client: ClientNumber) -> &Mutex<HashMap<ClientNumber, Count>> {
        &self.clients[client.0 as usize % SHARD_COUNT]
    }
}

impl Count {
    fn of(&mut self, what: Counted) -> &mut usize {
        match what {
            Counted::Opens => &mut self.opens,
            Counted::Ranges => &mut self.ranges,
            Counted::Delegations => &mut self.delegations,
        }
    }
}

#[cfg(test)]
mod tests;
