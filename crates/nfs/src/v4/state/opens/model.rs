//! Random operations of a few clients, against a model that knows the rules in its own words: a list of opens, walked from its beginning.

use tally_vfs::Access;

use super::tests::{BOTH, READ, client, file, opens, share};
use super::*;
use crate::v4::state::clients::desk::Draws;

/// An open of the model. Those that are gone stay, so that their stateids are asked for.
#[derive(Clone, Debug)]
struct Known {
    client: ClientId,
    owner: u64,
    file: u64,
    number: OpenNumber,
    stateid: Stateid,
    access: u32,
    deny: u32,
    is: Is,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Open,
    Revoked(Revoked),
    Gone,
    /// With its client.
    Ended,
}

impl Is {
    fn is_there(self) -> bool {
        !matches!(self, Self::Gone | Self::Ended)
    }
}

/// A stateid that is or was, asked for as it should be or by somebody else, and what is told.
struct Question {
    at: usize,
    asked: Stateid,
    minor: u32,
    client: Option<ClientId>,
    file: Option<FileId>,
    told: Result<(), Status>,
}

struct Model<'a> {
    opens: &'a Opens,
    rng: &'a Draws,
    known: Vec<Known>,
    /// OPENs under way, and whether what they were of was taken away before anything was granted.
    opening: Vec<(ClientId, u64, u64, bool, Reserved<'a>)>,
    changing: Vec<(usize, Changing<'a>)>,
}

/// Even ones are of minor version 0.
fn minor_of(client: ClientId) -> u32 {
    client.0 as u32 % 2
}

impl<'a> Model<'a> {
    fn below(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn client(&self) -> ClientId {
        // Two of them are of one shard.
        client([1, 2, 17, 18][self.below(4) as usize])
    }

    fn step(&mut self) {
        match self.below(16) {
            0..4 => self.reserve(),
            4..7 => self.grant(),
            7 => self.begin_change(),
            8 | 9 => self.end_change(),
            10 => self.revoke(),
            11 => self.free(),
            12 if self.below(8) == 0 => self.forget(),
            _ => self.find(),
        }
    }

    fn open_of(&self, client: ClientId, owner: u64, file: u64) -> Option<usize> {
        let is_it =
            |known: &Known| (known.client, known.owner, known.file, known.is) == (client, owner, file, Is::Open);
        self.known.iter().position(is_it)
    }

    fn reserve(&mut self) {
        let (client, owner, id) = (self.client(), self.below(2), self.below(3));
        let told = self.opens.reserve(minor_of(client), client, &owner.to_be_bytes(), file(id));
        let open = self.open_of(client, owner, id);
        if open.is_some_and(|open| self.changing.iter().any(|(at, _)| *at == open)) {
            return assert_eq!(told.unwrap_err(), Status::Delay);
        }
        let reserved = told.unwrap();
        assert_eq!(reserved.is_upgrade(), open.is_some());
        self.opening.push((client, owner, id, false, reserved));
    }

    fn grant(&mut self) {
        let Some(at) = (self.below(8) as usize).checked_rem(self.opening.len()) else { return };
        let (client, owner, id, is_dead, reserved) = self.opening.swap_remove(at);
        if self.below(4) == 0 {
            return;
        }
        let number = reserved.number();
        let (access, deny) = (self.below(3) as u32 + 1, self.below(4) as u32);
        let told = reserved.granted(share(access, deny));
        match self.known.iter_mut().find(|known| known.number == number) {
            Some(Known { is: Is::Revoked(why), .. }) => return assert_eq!(told, Err(why.status())),
            Some(Known { is: Is::Gone | Is::Ended, .. }) => return assert_eq!(told, Err(Status::Expired)),
            None if is_dead => return assert_eq!(told, Err(Status::Expired)),
            Some(known) => {
                assert_eq!(told, Ok(Stateid { seqid: known.stateid.seqid + 1, ..known.stateid }));
                (known.access, known.deny) = (known.access | access, known.deny | deny);
                known.stateid.seqid += 1;
            }
            None => {
                let stateid = told.unwrap();
                assert_eq!((stateid.seqid, self.open_of(client, owner, id)), (1, None));
                assert!(self.known.iter().all(|known| known.stateid.other != stateid.other), "never that of another");
                self.known.push(Known { client, owner, file: id, number, stateid, access, deny, is: Is::Open });
            }
        }
        assert_eq!(self.opens.by_number(number).map(|found| (found.client, found.file)), Some((client, file(id))));
    }

    /// What of the OPENs under way is of nothing that was granted, and is `of` those that go.
    fn give_up(&mut self, of: impl Fn(ClientId, u64) -> bool) {
        for (client, _, file, is_dead, reserved) in &mut self.opening {
            let is_granted = self.known.iter().any(|known| known.number == reserved.number());
            *is_dead |= !is_granted && of(*client, *file);
        }
    }

    fn question(&self) -> Option<Question> {
        // Mostly of the last.
        let count = self.known.len();
        let back = (self.below(24) as usize).checked_rem(count)?;
        let at = count - 1 - back;
        let known = &self.known[at];
        let mine = minor_of(known.client);
        let minor = if self.below(8) == 0 { 1 - mine } else { mine };
        let client = if self.below(8) == 0 { self.client() } else { known.client };
        let id = if self.below(8) == 0 { self.below(3) } else { known.file };
        let (client, asked_file) = ((minor > 0).then_some(client), (self.below(4) > 0).then_some(id));
        let present = known.stateid.seqid;
        let seqid = [present, present, present, 0, present - 1, present + 1][self.below(6) as usize];
        let told = match known.is {
            Is::Ended if minor == 0 && self.is_last_ended(at) => Err(Status::Expired),
            Is::Gone | Is::Ended => Err(Status::BadStateid),
            _ if minor != mine || client.is_some_and(|client| client != known.client) => Err(Status::BadStateid),
            _ if asked_file.is_some_and(|id| id != known.file) => Err(Status::BadStateid),
            Is::Revoked(Revoked::Expired) => Err(Status::Expired),
            Is::Revoked(_) => Err(Status::AdminRevoked),
            Is::Open if seqid == present || seqid == 0 && minor == 1 => Ok(()),
            Is::Open => Err(if seqid > present { Status::BadStateid } else { Status::OldStateid }),
        };
        let asked = Stateid { seqid, ..known.stateid };
        Some(Question { at, asked, minor, client, file: asked_file.map(file), told })
    }

    /// Of a place that was used again the last one is known that went with its client.
    fn is_last_ended(&self, at: usize) -> bool {
        let index = |known: &Known| known.stateid.index();
        let of = index(&self.known[at]);
        !self.known[at + 1..].iter().any(|known| known.is == Is::Ended && index(known) == of)
    }

    fn find(&mut self) {
        let Some(Question { at, asked, minor, client, file: id, told: expected }) = self.question() else { return };
        let told = self.opens.find(&asked, minor, client, id.as_ref());
        assert_eq!(told.map(|_| ()), expected, "{:?} {asked:?}", self.known[at]);
        let known = &self.known[at];
        let Ok(found) = told else { return };
        let of = (found.client, found.file, found.share, found.stateid);
        assert_eq!(of, (known.client, file(known.file), Some(share(known.access, known.deny)), known.stateid));
    }

    fn begin_change(&mut self) {
        let Some(Question { at, asked, minor, client, file: id, told: expected }) = self.question() else { return };
        let told = self.opens.change(&asked, minor, client, id.as_ref());
        let known = &self.known[at];
        let is_opening = self.opening.iter().any(|(.., reserved)| reserved.number() == known.number);
        let is_busy = is_opening || self.changing.iter().any(|(other, _)| *other == at);
        match expected {
            Ok(()) if is_busy => assert_eq!(told.unwrap_err(), Status::Delay),
            Ok(()) => self.changing.push((at, told.unwrap())),
            Err(status) => assert_eq!(told.unwrap_err(), status),
        }
    }

    fn end_change(&mut self) {
        let Some((at, changing)) = self.changing.pop() else { return };
        let known = &mut self.known[at];
        let next = Stateid { seqid: known.stateid.seqid + 1, ..known.stateid };
        match self.rng.below(3) {
            0 => drop(changing),
            1 => {
                assert_eq!(changing.downgraded(share(READ, 0)), next);
                if known.is.is_there() {
                    (known.stateid, known.access, known.deny) = (next, READ, 0);
                }
            }
            _ => {
                let told = changing.closed();
                assert_eq!(told, if minor_of(known.client) == 0 { next } else { Stateid::INVALID });
                if known.is.is_there() {
                    known.is = Is::Gone;
                }
            }
        }
    }

    fn revoke(&mut self) {
        let (of, id) = ((self.below(2) > 0).then(|| self.client()), self.below(3));
        let why = [Revoked::Expired, Revoked::Admin][self.below(2) as usize];
        let told = self.opens.revoke(
            of,
            &|found| found.file == file(id) && found.share.is_none_or(|share| share.access != Access::BOTH),
            why,
        );
        let mut count = 0;
        for known in &mut self.known {
            let is_of = of.is_none_or(|client| client == known.client) && known.file == id && known.access != BOTH;
            if known.is == Is::Open && is_of {
                (known.is, count) = (Is::Revoked(why), count + 1);
            }
        }
        self.give_up(|client, file| of.is_none_or(|of| of == client) && file == id);
        assert_eq!(told.len(), count);
        assert!(told.iter().all(|closing| closing.file == file(id)));
    }

    fn free(&mut self) {
        let Some(Question { at, asked, client: Some(client), file: None, told: expected, .. }) = self.question() else {
            return;
        };
        assert_eq!(self.opens.test(&asked, client), expected.err().unwrap_or(Status::Ok));
        let known = &mut self.known[at];
        let is_told_why = matches!(expected, Err(Status::Expired | Status::AdminRevoked));
        let told = self.opens.free(&asked, client);
        if is_told_why {
            assert_eq!(told, Ok(()));
            known.is = Is::Gone;
        } else {
            assert_eq!(told, Err(expected.err().unwrap_or(Status::LocksHeld)));
        }
    }

    fn forget(&mut self) {
        let client = self.client();
        let told = self.opens.forget_client(client).len();
        let of_client = |known: &&mut Known| known.client == client;
        let count = self.known.iter().filter(|known| known.client == client && known.is == Is::Open).count();
        self.known
            .iter_mut()
            .filter(of_client)
            .filter(|known| known.is.is_there())
            .for_each(|known| known.is = Is::Ended);
        self.give_up(|of, _| of == client);
        assert_eq!((told, self.opens.holds(client)), (count, false));
    }

    fn compare(&self) {
        self.opens.check();
        for client in [1, 2, 17, 18].map(client) {
            let mut told: Vec<_> = self.opens.of_client(client).iter().map(|found| found.stateid.to_wire()).collect();
            let of_client = self.known.iter().filter(|known| known.client == client && known.is.is_there());
            let mut known: Vec<_> = of_client.map(|known| known.stateid.to_wire()).collect();
            told.sort_unstable();
            known.sort_unstable();
            assert_eq!(told, known);
        }
    }
}

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..200 {
        println!("seed {seed}");
        let (opens, rng) = (opens(seed), Draws(seed.into()));
        let (known, opening, changing) = Default::default();
        let mut model = Model { opens: &opens, rng: &rng, known, opening, changing };
        for _ in 0..2_000 {
            model.step();
            model.compare();
        }
        model.opening.clear();
        model.changing.clear();
        model.compare();
        let living = model.known.iter().filter(|known| known.is.is_there()).count();
        assert_eq!(opens.counts().1, living);
    }
}
