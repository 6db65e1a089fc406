//! A leg is struck off whose pool's labels have no room left.

use std::io;

use tally_base::{Txg, VdevGuid};
use tally_fakes::World;

use super::tests::{LEG_BYTES, claim, commit, pool, reopen};
use super::{Roster, RosterError};
use crate::label::{self, PoolConfig, Section, TxgRange};
use crate::vdev::LegState;

fn guid(roster: &Roster, name: &str) -> VdevGuid {
    roster.legs().find(|leg| leg.path().ends_with(name)).expect("a leg of the pool").guid()
}

/// What a newer program would have left in the labels: so many bytes.
fn carry(config: &mut PoolConfig, bytes: usize) {
    config.carried = vec![Section { id: 900, must_be_known: false, bytes: vec![7; bytes] }];
}

/// How many bytes such a section can have until a label refuses it.
fn room(config: &PoolConfig) -> usize {
    let fits = |bytes: &usize| {
        let mut config = config.clone();
        carry(&mut config, *bytes);
        label::encode(VdevGuid(1), &config).is_ok()
    };
    let (mut low, mut high) = (0, 1 << 16);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if fits(&middle) { low = middle } else { high = middle }
    }
    low
}

/// The pool was suspended: the strike made the label longer than its slot, and could not be written down.
#[test]
fn a_wish_leaves_room_for_strikes() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
    let pool = pool(&world, "mirror /d/a /d/b /d/c");
    let roster = &pool.roster;
    let (before, room) = (roster.config(), room(&roster.config()));
    let refused = roster.update(|config| carry(config, room - (4 << 10) + 1));
    assert!(matches!(&refused, Err(RosterError::NoRoom(why)) if why.contains("shorter paths")), "{refused:?}");
    assert_eq!((roster.config(), label::read(world.disk("a")).unwrap().config), (before.clone(), before));
    roster.update(|config| carry(config, room - (4 << 10))).unwrap();
    for name in ["b", "c"] {
        roster.drop_leg(guid(roster, name), &io::Error::other("gone")).unwrap();
    }
    let said = label::read(world.disk("a")).unwrap().config;
    assert!(said.vdevs[0].legs[1..].iter().all(|leg| !leg.missed.is_empty()), "{:?}", said.vdevs[0].legs);
    assert_eq!(said.lanes[0].left.len(), 2);
    roster.update(|config| carry(config, room - (4 << 10))).expect("it is no longer than it was");
    commit(roster, 2).unwrap();
}

/// Somebody else has filled the labels to their last byte. What the strike needs is taken from what can be spared.
#[test]
fn a_strike_goes_into_a_label_that_is_full() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
    let first = pool(&world, "mirror /d/a /d/b /d/c");
    commit(&first.roster, 2000).unwrap();
    let mut config = first.roster.config();
    let ranges = |at: u64| TxgRange { from: Txg(100 * at), to: Txg(100 * at + at) };
    let c = &mut config.vdevs[0].legs[2];
    (c.stale_since, c.missed) = (Some(config.sequence + 1), Default::default());
    (1..=16).for_each(|at| c.missed.note(ranges(at)));
    config.sequence += 1;
    let room = room(&config);
    carry(&mut config, room);
    let legs: Vec<_> = config.vdevs[0].legs.iter().map(|leg| leg.guid).collect();
    for (name, guid) in ["a", "b", "c"].iter().zip(legs) {
        label::write(world.disk(name), guid, &config).unwrap();
    }
    drop(first);
    let (again, _) = reopen(&world).unwrap();
    claim(&world, &again.roster);
    let b = guid(&again.roster, "b");
    again.roster.drop_leg(b, &io::Error::other("gone")).unwrap();
    commit(&again.roster, 2001).unwrap();
    let said = label::read(world.disk("a")).unwrap().config;
    let missed: Vec<_> = said.vdevs[0].legs.iter().map(|leg| leg.missed.clone()).collect();
    assert_eq!(missed[1].ranges(), [TxgRange { from: Txg(2001), to: Txg(u64::MAX) }]);
    assert!((1..=16).all(|at| missed[2].has(Txg(100 * at))) && missed[2].ranges().len() < 16, "{:?}", missed[2]);
    assert_eq!(again.roster.legs().nth(1).unwrap().state(), LegState::Faulted);
    assert_eq!(said.carried, config.carried, "what others have said stays");
}
