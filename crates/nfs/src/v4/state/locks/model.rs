//! Random operations of a few clients, against a model that knows the rules in its own words: a list of stateids, walked from its beginning.

use super::tests::{locks, open};
use super::*;
use crate::v4::state::clients::desk::Draws;

/// A stateid of the model. Those that are gone stay, so that they are asked for.
struct Known {
    client: ClientId,
    owner: u64,
    open: u64,
    holder: Holder,
    stateid: Stateid,
    is: Is,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    There,
    Revoked,
    Gone,
}

struct Model<'a> {
    locks: &'a Locks,
    rng: &'a Draws,
    known: Vec<Known>,
    /// LOCKs under way: whose, below what, and whether what they were of has ended before anything was granted.
    under_way: Vec<(ClientId, u64, u64, bool, Locking<'a>)>,
}

const CLIENTS: [ClientId; 3] = [ClientId(7 << 32 | 1), ClientId(7 << 32 | 2), ClientId(7 << 32 | 17)];

impl<'a> Model<'a> {
    fn below(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn client(&self) -> ClientId {
        CLIENTS[self.below(3) as usize]
    }

    fn open(&self) -> u64 {
        32 * (1 + self.below(3))
    }

    fn step(&mut self) {
        match self.below(16) {
            0..4 => self.begin(),
            4..7 => self.grant(),
            7..9 => self.again(),
            9 => self.close(),
            10 => self.revoke(),
            11 | 12 => self.free(),
            13 if self.below(8) == 0 => self.forget(),
            _ => self.find(),
        }
    }

    fn living(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().filter(|known| known.is == Is::There)
    }

    fn begin(&mut self) {
        let (client, owner, number) = (self.client(), self.below(2), self.open());
        let locking = self.locks.begin(&open(client, number), 1, &owner.to_be_bytes()).unwrap();
        let known = self.living().find(|known| (known.client, known.owner, known.open) == (client, owner, number));
        assert_eq!(known.map(|known| known.stateid), locking.is_known().then_some(locking.locked().stateid));
        let same_owner = self.living().find(|known| (known.client, known.owner) == (client, owner));
        assert!(same_owner.is_none_or(|known| known.holder == locking.locked().holder));
        self.under_way.push((client, owner, number, false, locking));
    }

    fn grant(&mut self) {
        let Some(at) = (self.below(8) as usize).checked_rem(self.under_way.len()) else { return };
        let (client, owner, number, is_dead, locking) = self.under_way.swap_remove(at);
        if self.below(4) == 0 {
            return;
        }
        let locked = *locking.locked();
        let told = locking.granted();
        match self.known.iter_mut().find(|known| known.stateid.other == locked.stateid.other) {
            Some(Known { is: Is::Revoked, .. }) => assert_eq!(told, Err(Status::Expired)),
            Some(Known { is: Is::Gone, .. }) => assert_eq!(told, Err(Status::BadStateid)),
            None if is_dead => assert_eq!(told, Err(Status::BadStateid)),
            Some(known) => {
                known.stateid.seqid += 1;
                assert_eq!(told, Ok(known.stateid));
            }
            None => {
                let stateid = told.unwrap();
                assert_eq!((stateid.seqid, stateid.other), (1, locked.stateid.other));
                let (open, holder) = (number, locked.holder);
                self.known.push(Known { client, owner, open, holder, stateid, is: Is::There });
            }
        }
    }

    /// One that is or was, mostly of the last.
    fn pick(&self) -> Option<(usize, Stateid, ClientId, Result<(), Status>)> {
        let back = (self.below(16) as usize).checked_rem(self.known.len())?;
        let at = self.known.len() - 1 - back;
        let known = &self.known[at];
        let client = if self.below(8) == 0 { self.client() } else { known.client };
        let present = known.stateid.seqid;
        let seqid = [present, present, present, 0, present - 1, present + 1][self.below(6) as usize];
        let told = match known.is {
            Is::Gone => Err(Status::BadStateid),
            _ if client != known.client => Err(Status::BadStateid),
            Is::Revoked => Err(Status::Expired),
            Is::There if seqid == present || seqid == 0 => Ok(()),
            Is::There if seqid > present => Err(Status::BadStateid),
            Is::There => Err(Status::OldStateid),
        };
        Some((at, Stateid { seqid, ..known.stateid }, client, told))
    }

    fn find(&mut self) {
        let Some((at, asked, client, expected)) = self.pick() else { return };
        let (known, told) = (&self.known[at], self.locks.find(&asked, 1, Some(client), None));
        assert_eq!(told.map(|_| ()), expected);
        let Ok(found) = told else { return };
        let of = (found.client, found.below, found.holder, found.stateid);
        assert_eq!(of, (known.client, open(known.client, known.open).holder(), known.holder, known.stateid));
        assert_eq!(self.locks.named(found.holder), Some((known.client, known.owner.to_be_bytes()[..].into())));
        assert_eq!(self.locks.holder(known.client, &known.owner.to_be_bytes()), known.holder);
    }

    fn again(&mut self) {
        let Some((at, asked, client, expected)) = self.pick() else { return };
        match self.locks.again(&asked, 1, Some(client), None) {
            Err(told) => assert_eq!(Err(told), expected),
            Ok(locking) => {
                assert_eq!(expected, Ok(()));
                let known = &self.known[at];
                self.under_way.push((known.client, known.owner, known.open, false, locking));
            }
        }
    }

    /// What is there of that ends so, and what was not granted of it ends.
    fn end(&mut self, to: Is, of: impl Fn(ClientId, u64) -> bool) {
        for (client, _, number, is_dead, locking) in &mut self.under_way {
            let other = locking.locked().stateid.other;
            let is_granted = self.known.iter().any(|known| known.stateid.other == other);
            *is_dead |= !is_granted && of(*client, *number);
        }
        // What was revoked is its client's to free, whatever becomes of the open.
        let goes = |known: &&mut Known| known.is == Is::There && of(known.client, known.open);
        self.known.iter_mut().filter(goes).for_each(|known| known.is = to);
    }

    fn close(&mut self) {
        let (client, number) = (self.client(), self.open());
        self.locks.closed(open(client, number).holder());
        self.end(Is::Gone, |of, below| (of, below) == (client, number));
    }

    fn revoke(&mut self) {
        let (client, number) = (self.client(), self.open());
        self.locks.revoke_below(open(client, number).holder(), Revoked::Expired);
        self.end(Is::Revoked, |of, below| (of, below) == (client, number));
    }

    fn free(&mut self) {
        let Some((at, asked, client, expected)) = self.pick() else { return };
        let other = self.known[at].stateid.other;
        let is_busy = self.under_way.iter().any(|(.., locking)| locking.locked().stateid.other == other);
        let told = self.locks.free(&asked, client);
        match expected {
            Err(Status::Expired) => {
                assert!(told.unwrap().is_none());
                self.known[at].is = Is::Gone;
            }
            Err(status) => assert_eq!(told.unwrap_err(), status),
            Ok(()) if is_busy => assert_eq!(told.unwrap_err(), Status::LocksHeld),
            Ok(()) => {
                let freeing = told.unwrap().unwrap();
                if self.rng.below(2) == 0 {
                    freeing.freed();
                    self.known[at].is = Is::Gone;
                }
            }
        }
    }

    fn forget(&mut self) {
        let client = self.client();
        self.locks.forget_client(client);
        self.end(Is::Gone, |of, _| of == client);
        let revoked = self.known.iter_mut().filter(|known| known.client == client);
        revoked.for_each(|known| known.is = Is::Gone);
    }
}

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..100 {
        println!("seed {seed}");
        let (locks, rng) = (locks(seed), Draws(seed.into()));
        let (known, under_way) = Default::default();
        let mut model = Model { locks: &locks, rng: &rng, known, under_way };
        for _ in 0..1_000 {
            model.step();
            locks.check();
        }
        model.under_way.clear();
        locks.check();
        let there = model.known.iter().filter(|known| known.is != Is::Gone).count();
        assert_eq!(locks.counts().2, there);
    }
}
