//! Bounds of all clients together (rules V35), which are too wide for a socket, and of what the log says of them.

use std::sync::Arc;
use std::time::Duration;

use tally_base::{DatasetId, Generation, ObjectId, PoolGuid, SystemRng};
use tally_vfs::{Access, MountNumber, ObjectRef, Share};

use super::*;
use crate::exports::{PoolExports, Resolved};
use crate::v4::state::bounds::{OPENS_MAX, OPENS_OF_ADDRESS_MAX, OPENS_OF_CLIENT_MAX};
use crate::v4::state::{Introduced, Introduction, LEASE_DEFAULT as LEASE, Principal, Proof, Sender};
use crate::v4::status::Status;

struct Nothing;

impl Exports for Nothing {
    fn resolve(&self, _: &str) -> Option<Resolved> {
        None
    }
    fn pool(&self, _: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        None
    }
    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        Vec::new()
    }
    fn list(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }
}

fn client(house: &House, number: u8, address: u8) -> ClientId {
    let (principal, address) = (Principal::User(0), [10, 0, 0, address].into());
    let sender = Sender { principal, address, proof: Proof::Superuser, is_named: true };
    let introduction = Introduction { name: vec![number], verifier: [1; 8], sender };
    let holds = |id| house.holds(id);
    let said: Introduced = house.clients().introduce(introduction, &holds, &SystemRng, house.now()).unwrap();
    house.clients().confirm(said, &sender, &holds, house.now()).unwrap();
    said.id
}

fn open(house: &House, client: ClientId, id: u64) -> Result<Stateid, Status> {
    let of = Mounted { pool: PoolGuid(1), dataset: DatasetId(1), mount: MountNumber(1) };
    let object = ObjectRef { id: ObjectId(id), generation: Generation(1) };
    house.opens().reserve(0, client, b"o", FileId { of, object })?.granted(Share::only(Access::READ))
}

fn fill(house: &House, client: ClientId, opens: usize) {
    (0..opens as u64).for_each(|id| _ = open(house, client, id).unwrap());
}

/// Looks at the clock until a lease is over.
fn pass_a_lease(house: &House) {
    let from = house.now();
    (0..200).for_each(|half| house.look_at_clock(from + Duration::from_millis(500) * half));
    assert!(house.now() > from + LEASE);
}

#[test]
fn one_address_has_a_quarter_of_all_at_most() {
    let house = House::default();
    house.look_at_clock(Duration::ZERO);
    let [a, b, c] = [(1, 1), (2, 1), (3, 1)].map(|(number, address)| client(&house, number, address));
    let other = client(&house, 4, 2);
    fill(&house, a, OPENS_OF_ADDRESS_MAX / 2);
    fill(&house, b, OPENS_OF_ADDRESS_MAX / 2 - 1);
    assert!(house.has_room_at_its_address(c));
    fill(&house, c, 1);
    assert_eq!([c, other].map(|client| house.has_room_at_its_address(client)), [false, true]);
    assert!(!house.make_room_for(&Nothing, c), "all of them are there");
    pass_a_lease(&house);
    house.clients().renew(a, house.heard()).unwrap();
    assert!(house.make_room_for(&Nothing, c));
    assert!(house.has_room_at_its_address(c) && house.holds(a) && !house.holds(b), "of those that are late");
}

#[test]
fn where_there_is_no_room_for_anybody_the_silent_make_some() {
    let house = House::default();
    house.look_at_clock(Duration::ZERO);
    let clients = [1, 2, 3, 4].map(|number| client(&house, number, number));
    clients[..3].iter().for_each(|client| fill(&house, *client, OPENS_OF_CLIENT_MAX));
    fill(&house, clients[3], OPENS_OF_CLIENT_MAX - 1);
    let newcomer = client(&house, 5, 5);
    assert!(!house.make_room_for(&Nothing, newcomer), "there is room");
    fill(&house, newcomer, 1);
    assert_eq!(house.opens().counts().1, OPENS_MAX);
    assert_eq!(open(&house, newcomer, 9), Err(Status::Resource));
    assert!(!house.make_room_for(&Nothing, newcomer), "all of them are there");
    pass_a_lease(&house);
    for number in [0, 1, 3] {
        house.clients().renew(clients[number], house.heard()).unwrap();
    }
    house.clients().renew(newcomer, house.heard()).unwrap();
    assert!(house.make_room_for(&Nothing, newcomer));
    assert!(open(&house, newcomer, 9).is_ok());
    assert_eq!(clients.map(|client| house.holds(client)), [true, true, false, true]);
}

#[test]
fn a_crowd_that_is_ended_is_some_lines_a_minute() {
    let (mut lines, at) = (Lines::default(), Duration::from_secs);
    let told = (0..100).filter(|_| lines.speak(at(5)).is_some()).count();
    assert_eq!(told, LINES_MAX as usize);
    assert_eq!((lines.speak(at(59)), lines.speak(at(60)), lines.speak(at(61))), (None, Some(71), Some(0)));
}
