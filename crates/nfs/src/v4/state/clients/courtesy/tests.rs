use std::time::Duration;

use super::*;
use crate::v4::state::clients::desk::{Desk, sequence_on};
use crate::v4::state::{COURTESY, Created, LEASE_DEFAULT as LEASE};

const MOMENT: Duration = Duration::from_secs(5);

fn id(created: &Created) -> ClientId {
    ClientId(u64::from_be_bytes(*created.session.0.first_chunk().unwrap()))
}

/// Three with sessions that hold something, heard one after the other, and one lease behind the second of them.
fn desk() -> (Desk, [Created; 3]) {
    let mut desk = Desk::new(1);
    let created = ["first", "second", "third"].map(|name| {
        desk.now += MOMENT;
        desk.known(name, 1)
    });
    created.iter().for_each(|created| _ = desk.held.insert(id(created)));
    desk.now += LEASE - MOMENT / 2;
    (desk, created)
}

impl Desk {
    fn end_silent(&mut self, of: Option<IpAddr>) -> bool {
        self.clients.end_silent(of, &|id| self.held.contains(&id), self.now)
    }
}

#[test]
fn all_in_the_way_are_late_or_nobody_is_ended() {
    let (mut desk, [first, second, third]) = desk();
    let ids = [&first, &second, &third].map(id);
    assert!(!desk.clients.end_late(&ids, desk.now), "the third one is there");
    assert!(desk.lives(&first) && desk.lives(&second));
    assert!(desk.clients.end_late(&ids[..2], desk.now));
    assert!(!desk.lives(&first) && !desk.lives(&second) && desk.lives(&third));
    assert_eq!(desk.clients.take_gone().iter().map(|gone| gone.client).collect::<Vec<_>>(), ids[..2]);
    assert!(desk.clients.end_late(&ids[..2], desk.now), "who is gone is in nobody's way any more");
    desk.clients.check();
}

/// What it waits for may be a disk.
#[test]
fn who_waits_for_an_answer_is_not_late() {
    let (mut desk, [first, ..]) = desk();
    let before = desk.now;
    desk.now = Duration::ZERO;
    let under_way = desk.new_on(&first, 0, 1);
    desk.now = before;
    assert!(!desk.clients.end_late(&[id(&first)], desk.now));
    under_way.finish(b"told");
    assert!(desk.clients.end_late(&[id(&first)], desk.now));
}

#[test]
fn for_want_of_room_the_one_that_was_silent_for_longest_goes() {
    let (mut desk, [first, second, third]) = desk();
    assert!(!desk.end_silent(Some([10, 0, 0, 2].into())), "none from there");
    let (mut both, [of_two, other, _]) = self::desk();
    assert!(both.end_silent(None) && !both.lives(&of_two) && both.lives(&other), "of two that are late");
    // Who has nothing takes no room.
    desk.held.remove(&id(&first));
    assert!(desk.end_silent(Some([10, 0, 0, 1].into())));
    assert!(desk.lives(&first) && !desk.lives(&second));
    assert!(!desk.end_silent(None), "the lease of the third one is not over");
    desk.held.insert(id(&first));
    desk.begin(&sequence_on(&first, 0, 1)).unwrap();
    assert!(!desk.end_silent(None), "it has said a word");
    desk.now += MOMENT;
    assert!(desk.end_silent(None));
    assert!(desk.lives(&first) && !desk.lives(&third));
}

/// Rules V20: a day.
#[test]
fn courtesy_has_an_end() {
    let (mut desk, [first, second, third]) = desk();
    desk.begin(&sequence_on(&first, 0, 1)).unwrap();
    desk.now += COURTESY - MOMENT;
    desk.exchange("another", 1, super::super::Principal::Nobody).unwrap();
    assert!(desk.lives(&first) && !desk.lives(&second) && !desk.lives(&third));
    assert_eq!(desk.clients.take_gone().len(), 2);
}

#[test]
fn neighbours_are_of_one_address() {
    let (desk, [first, second, third]) = desk();
    let (address, mut neighbours) = desk.clients.neighbours(id(&second)).unwrap();
    neighbours.sort_unstable();
    assert_eq!((address, neighbours), ([10, 0, 0, 1].into(), [first, second, third].iter().map(id).collect()));
    assert_eq!(desk.clients.neighbours(ClientId(9)), None);
}

/// Who has started anew is in the lists by its key, which stays; who was ended goes out of them, however fast it comes again (rules V24).
#[test]
fn who_was_ended_goes_out_of_the_lists_though_it_is_there_again() {
    let (mut desk, [first, second, third]) = desk();
    desk.clients.evict(id(&first));
    assert!(desk.clients.end_late(&[id(&second)], desk.now));
    desk.known("first", 1);
    desk.known("second", 1);
    desk.known("third", 2);
    let gone = desk.clients.take_gone();
    let told: Vec<_> = gone.iter().map(|gone| (gone.client, gone.key.is_some())).collect();
    assert_eq!(told, [(id(&first), true), (id(&second), true), (id(&third), false)]);
}
