//! Random operations of a few clients, against a model that knows the tables in its own words.

use std::collections::{HashMap, HashSet};

use super::desk::{Desk, OTHER, ROOT, by, sequence_on, wants, word};
use super::{COURTESY, ClientId, Created, LEASE_DEFAULT as LEASE, Wanted};
use crate::v4::state::{Begun, Guard, Sequence};
use crate::v4::status::Status;

/// A client of the model. What it says is its name, its start and its principal.
#[derive(Clone)]
struct Known {
    id: ClientId,
    says: (u64, u8, super::Principal),
    is_confirmed: bool,
    heard: std::time::Duration,
    last: (u32, Result<Created, Status>),
    sessions: Vec<Created>,
}

type Place = ([u8; 16], u32);

#[derive(Default)]
struct Model {
    clients: Vec<Known>,
    complete: HashSet<ClientId>,
    /// All sessions that ever were.
    seen: Vec<Created>,
    /// Of each slot the last sequence and fingerprint, how a retry is answered, and with what.
    slots: HashMap<Place, (u32, u64, &'static str, Vec<u8>)>,
    guards: Vec<(Place, Guard)>,
}

impl Model {
    fn step(&mut self, desk: &mut Desk) {
        let session = self.seen.get(desk.rng.below(self.seen.len().max(1) as u64) as usize).copied();
        let client = self.clients.get(desk.rng.below(5) as usize).cloned();
        match (desk.rng.below(12), client, session) {
            (0 | 1, ..) => self.exchange(desk),
            (2 | 3, Some(client), _) => self.create(desk, &client),
            (4, Some(client), _) => self.destroy_client(desk, &client),
            (5, _, Some(session)) if desk.rng.below(8) == 0 => self.destroy_session(desk, &session),
            (6, _, Some(session)) => self.complete(desk, &session),
            (7, ..) => desk.now += LEASE * desk.rng.below(8) as u32 / 8,
            (8, ..) => self.end(desk),
            (_, _, Some(session)) => self.begin(desk, &session),
            _ => {}
        }
        desk.clients.check();
        let counts = [true, false].map(|is| self.clients.iter().filter(|known| known.is_confirmed == is).count());
        assert_eq!(desk.clients.counts(), counts.into());
    }

    fn forget_late(&mut self, desk: &Desk) {
        let kept = |known: &Known| if known.is_confirmed { COURTESY } else { LEASE };
        self.clients.retain(|known| known.heard + kept(known) >= desk.now);
    }

    fn exchange(&mut self, desk: &mut Desk) {
        let principal = if desk.rng.below(8) == 0 { OTHER } else { ROOT };
        let (name, start, is_update) = (desk.rng.below(2), (desk.rng.below(8) / 7) as u8, desk.rng.below(4) == 0);
        let told = desk.exchange_for(&name.to_string(), start, principal, is_update);
        self.forget_late(desk);
        let confirmed = self.clients.iter().find(|known| known.says.0 == name && known.is_confirmed).cloned();
        let expected = match &confirmed {
            Some(known) if known.says == (name, start, principal) => Ok(Some((known.id, known.last.0 + 1))),
            Some(known) if is_update && known.says.1 != start => Err(Status::NotSame),
            Some(_) if is_update => Err(Status::Perm),
            None if is_update => Err(Status::NoEnt),
            Some(known) if known.says.2 != principal && is_held(known, desk) => Err(Status::ClidInUse),
            _ => Ok(None),
        };
        assert_eq!(told.map(|told| told.is_confirmed.then_some((told.id, told.sequence))), expected);
        let Some(told) = told.ok().filter(|told| !told.is_confirmed) else { return };
        let holds_nothing = |known: &Known| known.sessions.is_empty() && !desk.held.contains(&known.id);
        let stays = |known: &Known| known.is_confirmed && (known.says.2 == principal || !holds_nothing(known));
        self.clients.retain(|known| known.says.0 != name || stays(known));
        let (says, last) = ((name, start, principal), (0, Err(Status::SeqMisordered)));
        let (is_confirmed, sessions) = Default::default();
        self.clients.push(Known { id: told.id, says, is_confirmed, heard: desk.now, last, sessions });
    }

    fn create(&mut self, desk: &mut Desk, known: &Known) {
        let principal = if desk.rng.below(4) == 0 { OTHER } else { known.says.2 };
        let sequence = known.last.0.wrapping_add([0, 1, 1, 1, 2, u32::MAX][desk.rng.below(6) as usize]);
        let told = desk.create(&Wanted { sender: by(principal), ..wants(known.id, sequence) });
        self.forget_late(desk);
        let before = self.clients.iter().find(|other| other.is_confirmed && other.says.0 == known.says.0).cloned();
        let before = before.filter(|_| !known.is_confirmed);
        let is_in_use = |before: &Known| before.says.2 != known.says.2 && is_held(before, desk);
        let Some(mine) = self.clients.iter_mut().find(|other| other.id == known.id) else {
            return assert_eq!(told, Err(Status::StaleClientId));
        };
        if sequence == known.last.0 {
            return assert_eq!(told, known.last.1.map(|created| (created, None)));
        }
        if sequence != known.last.0 + 1 {
            return assert_eq!(told, Err(Status::SeqMisordered));
        }
        if !known.is_confirmed && (principal != known.says.2 || before.as_ref().is_some_and(is_in_use)) {
            return assert_eq!(told, Err(Status::ClidInUse));
        }
        mine.last = (sequence, told.map(|(created, _)| created));
        if mine.sessions.len() == 16 {
            return assert_eq!(told, Err(Status::NoSpc));
        }
        let (created, gone) = told.unwrap();
        assert_eq!(gone, before.map(|before| before.id));
        mine.sessions.push(created);
        (mine.is_confirmed, mine.heard) = (true, if known.is_confirmed { mine.heard } else { desk.now });
        self.clients.retain(|other| Some(other.id) != gone);
        self.seen.push(created);
    }

    fn of(&mut self, session: &Created) -> Option<&mut Known> {
        self.clients.iter_mut().find(|known| known.sessions.contains(session))
    }

    fn destroy_session(&mut self, desk: &mut Desk, session: &Created) {
        let expected = self.of(session).map(|known| known.sessions.retain(|other| other != session));
        assert_eq!(desk.clients.destroy_session(session.session, 1), expected.ok_or(Status::BadSession));
    }

    fn destroy_client(&mut self, desk: &mut Desk, known: &Known) {
        // Now and then it opens something, or closes it.
        if desk.rng.below(2) == 0 && !desk.held.remove(&known.id) {
            desk.held.insert(known.id);
        }
        let is_busy = desk.held.contains(&known.id) || !known.sessions.is_empty();
        assert_eq!(desk.destroy_client(known.id), if is_busy { Err(Status::ClientIdBusy) } else { Ok(()) });
        self.clients.retain(|other| is_busy || other.id != known.id);
    }

    fn complete(&mut self, desk: &Desk, session: &Created) {
        let client = self.of(session).map(|known| known.id);
        let told = desk.sessions.find(session.session).map(|found| found.presence().reclaim_complete().is_ok());
        assert_eq!(told, client.map(|client| self.complete.insert(client)));
    }

    fn begin(&mut self, desk: &Desk, session: &Created) {
        let place = (session.session.0, desk.rng.below(3) as u32);
        let last = self.slots.get(&place).cloned();
        let at = last.as_ref().map_or(0, |last| last.0);
        let (sequence, fingerprint) = (at + [0, 1, 1, 2][desk.rng.below(4) as usize], desk.rng.below(8) / 7);
        let told = desk.begin(&Sequence { fingerprint, ..sequence_on(session, place.1, sequence) });
        let expected = match &last {
            _ if self.of(session).is_none() => "BadSession",
            Some((_, _, "in progress", _)) if sequence == at + 1 => "SeqMisordered",
            _ if sequence == at + 1 => "new",
            Some((_, of, ..)) if sequence == at && *of != fingerprint => "SeqFalseRetry",
            Some((_, _, word, _)) if sequence == at => word,
            _ => "SeqMisordered",
        };
        assert_eq!(word(&told), expected);
        if !matches!(told, Err(_) | Ok(Begun::InProgress)) {
            self.of(session).unwrap().heard = desk.now;
        }
        match (told, last) {
            (Ok(Begun::Retry(bytes)), Some((.., first))) => assert_eq!(bytes[..], first[..]),
            (Ok(Begun::New(guard, _)), _) => {
                self.slots.insert(place, (sequence, fingerprint, "in progress", Vec::new()));
                self.guards.push((place, guard));
            }
            _ => {}
        }
    }

    fn end(&mut self, desk: &Desk) {
        let Some(at) = (desk.rng.below(4) as usize).checked_rem(self.guards.len()) else { return };
        let (place, guard) = self.guards.swap_remove(at);
        let results = vec![desk.rng.below(256) as u8; desk.rng.below(4096) as usize];
        let is_broken = desk.rng.below(4) == 0;
        if is_broken {
            drop(guard)
        } else {
            guard.finish(&results)
        }
        let word = if results.len() <= 2048 { "retry" } else { "uncached" };
        let last = self.slots.get_mut(&place).unwrap();
        (last.2, last.3) = (if is_broken { "faulted" } else { word }, results);
    }
}

fn is_held(known: &Known, desk: &Desk) -> bool {
    known.heard + LEASE >= desk.now && (desk.held.contains(&known.id) || !known.sessions.is_empty())
}

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..200 {
        println!("seed {seed}");
        let (mut desk, mut model) = (Desk::new(seed), Model::default());
        (0..2_000).for_each(|_| model.step(&mut desk));
        model.guards.clear();
        let used: usize = model.seen.iter().filter_map(|it| desk.sessions.find(it.session)).map(|it| it.in_use()).sum();
        assert_eq!(used, 0);
    }
}
