//! Rules S1: the bit before the structure, whenever the power goes.

use std::sync::Arc;

use tally_disk::{Disk, Durability};
use tally_fakes::{Entry, FaultyDisk, World};

use super::super::tests::{LEG_BYTES, claim, commit, pool, reopen};
use super::super::{Roster, RosterError};
use crate::blockdev::BlockDev;
use crate::label::{self, Feature, FeatureSet, FeatureState, Release, Section, Unreadable};
use crate::vdev::LegState;

const fn feature(set: FeatureSet, bit: u8, name: &'static str) -> Feature {
    Feature { set, bit, name, since: Release { major: 0, minor: 4 } }
}

/// What this program refuses, as an older one would.
const RAIDZ: Feature = feature(FeatureSet::Incompat, 0, "raidz");
/// What it may overlook.
const CACHE: Feature = feature(FeatureSet::Compat, 0, "cache_devices");

const SLOT_BYTES: usize = 64 << 10;
const DISKS: [&str; 3] = ["a", "b", "c"];

fn world() -> World {
    World::new(&DISKS.map(|name| (name, LEG_BYTES)))
}

/// What the disks hold after the first `count` of these writes, which take `before` to `after`.
fn cut(before: &[Arc<FaultyDisk>], after: &World, writes: &[Entry], count: usize) -> World {
    let mut world = world();
    for (name, disk) in DISKS.iter().zip(before) {
        let disk = disk.copy();
        for entry in writes.iter().take(count).filter(|entry| entry.disk == *name) {
            let length = SLOT_BYTES.min((LEG_BYTES - entry.offset) as usize);
            disk.write(entry.offset, &after.disk(name).bytes(entry.offset, length), Durability::Durable).unwrap();
        }
        world.swap(name, &disk);
    }
    world
}

/// Runs `change` on a pool, and gives the disks before it, and the writes of it.
fn recorded(world: &World, roster: &Roster, change: impl FnOnce()) -> (Vec<Arc<FaultyDisk>>, Vec<Entry>) {
    let before = DISKS.iter().map(|name| world.disk(name).copy()).collect();
    let seen = world.journal.lock().len();
    change();
    assert!(roster.closed().is_none());
    let writes = world.journal.lock()[seen..].to_vec();
    (before, writes)
}

/// `pool upgrade -n` showed what it would enable where labels had no room for it, or a vdev was gone, and the command itself
/// refused.
#[test]
fn what_would_be_refused_is_refused_by_the_same_words_and_nothing_is_done() {
    let worlds = [world(), world()];
    let (full, lost) = (pool(&worlds[0], "mirror /d/a /d/b /d/c"), pool(&worlds[1], "/d/a /d/b /d/c"));
    assert_eq!(full.roster.check_features(&[CACHE, RAIDZ]), Ok(()));
    fill(&full.roster);
    let leg = lost.vdevs[1].legs()[0].clone();
    assert!(leg.pass(LegState::Online, LegState::Failing));
    for (world, roster) in worlds.iter().zip([&full.roster, &lost.roster]) {
        let (before, writes) = (roster.config(), world.journal.lock().len());
        let shown = roster.check_features(&[CACHE, RAIDZ]).unwrap_err();
        assert_eq!((roster.config(), world.journal.lock().len(), roster.closed()), (before, writes, None));
        assert_eq!(roster.enable_features(&[CACHE, RAIDZ]), Err(shown.clone()));
        assert!(matches!(shown, RosterError::NoRoom(_) | RosterError::VdevLost(_)), "{shown:?}");
    }
}

/// What a newer program would have left in the labels: as much as a wish may, but for a few bytes.
fn fill(roster: &Roster) {
    let carry = |bytes: usize| {
        let section = Section { id: 900, must_be_known: false, bytes: vec![7; bytes] };
        roster.update(|config| config.carried = vec![section])
    };
    let (mut fits, mut too_long) = (0, 1 << 16);
    while too_long - fits > 1 {
        let middle = usize::midpoint(fits, too_long);
        if carry(middle).is_ok() { fits = middle } else { too_long = middle }
    }
    assert!(fits > 0);
}

#[test]
fn a_feature_is_used_when_somebody_has_allowed_it() {
    let world = world();
    let pool = pool(&world, "mirror /d/a /d/b /d/c");
    let roster = &pool.roster;
    assert_eq!(roster.config().features_lacking(&[CACHE, RAIDZ]), [CACHE, RAIDZ]);
    assert_eq!(roster.activate(&CACHE), Err(RosterError::FeatureDisabled { name: "cache_devices" }));
    roster.enable_features(&[CACHE]).unwrap();
    assert_eq!(roster.config().feature_state(&CACHE), FeatureState::Enabled);
    assert_eq!(roster.config().features.compat, 0);
    roster.activate(&CACHE).unwrap();
    assert_eq!(roster.config().feature_state(&CACHE), FeatureState::Active);
    let writes = world.journal.lock().len();
    roster.activate(&CACHE).unwrap();
    assert_eq!(world.journal.lock().len(), writes, "it is in the labels");
    roster.set_compatibility("0.3").unwrap();
    assert_eq!(roster.config().features_lacking(&[RAIDZ]), [], "it is of 0.4");
    roster.set_compatibility("0.4").unwrap();
    assert_eq!(roster.config().features_lacking(&[RAIDZ]), [RAIDZ]);
    roster.set_compatibility("0.4,of-a-newer-one").unwrap();
    assert_eq!(roster.config().features_lacking(&[RAIDZ]), [], "nobody here knows what that means");
    for name in DISKS {
        assert_eq!(label::read(world.disk(name)).unwrap().config, roster.config());
    }
}

/// The power is cut behind each write: where the structure is, every label on every leg refuses who does not know it.
#[test]
fn no_structure_is_on_a_disk_without_its_bit() {
    let world = world();
    let pool = pool(&world, "mirror /d/a /d/b /d/c");
    let roster = &pool.roster;
    roster.enable_features(&[RAIDZ]).unwrap();
    let (before, writes) = recorded(&world, roster, || {
        roster.activate(&RAIDZ).unwrap();
        pool.vdevs[0].write(0, &[0x5a; 4096]).unwrap();
    });
    let structure = label::LABEL_BYTES;
    assert_eq!(writes.iter().filter(|entry| entry.offset == structure).count(), 3);
    for count in 0..=writes.len() {
        let cut = cut(&before, &world, &writes, count);
        let has_structure = DISKS.iter().any(|name| cut.disk(name).bytes(structure, 4096)[0] == 0x5a);
        for name in DISKS {
            let read = label::read(cut.disk(name));
            assert!(!has_structure || read.is_err(), "{count} writes, {name}: {read:?}");
            if let Err(why) = read {
                let Unreadable::Features { unknown } = &why else { panic!("{why}") };
                assert_eq!((unknown.len(), unknown[0].since.as_str()), (1, "0.4"));
                assert!(why.to_string().contains("feature@raidz, of tally 0.4; use tally 0.4 or"), "{why}");
            }
        }
        // Who does not know the bit has what it needs, as long as a leg does not say it.
        let is_refused = DISKS.iter().all(|name| label::read(cut.disk(name)).is_err());
        assert_eq!(reopen(&cut).is_err(), is_refused, "{count} writes");
    }
}

/// The same for who knows the feature, or may overlook it: the pool is whole, and after the claim all labels say the same.
#[test]
fn a_cut_between_the_labels_costs_no_leg() {
    let world = world();
    let pool = pool(&world, "mirror /d/a /d/b /d/c");
    let roster = &pool.roster;
    roster.enable_features(&[CACHE]).unwrap();
    let (before, writes) = recorded(&world, roster, || roster.activate(&CACHE).unwrap());
    assert_eq!(writes.len(), 6, "two labels of each leg");
    for count in 0..=writes.len() {
        let cut = cut(&before, &world, &writes, count);
        let (again, _) = reopen(&cut).unwrap();
        claim(&cut, &again.roster);
        commit(&again.roster, 2).unwrap();
        let config = again.roster.config();
        assert_eq!(config.features.compat, u64::from(count > 0), "{count} writes");
        assert!(config.vdevs[0].legs.iter().all(|leg| leg.stale_since.is_none()), "{count} writes");
        for name in DISKS {
            assert_eq!(label::read(cut.disk(name)).unwrap().config, config, "{count} writes, {name}");
        }
    }
}

/// A leg that refuses the bit is none of the pool before the bit counts, and gets nothing any more.
#[test]
fn a_leg_that_does_not_take_the_bit_is_struck_off() {
    for writes_left in [0, 1] {
        let world = world();
        let pool = pool(&world, "mirror /d/a /d/b /d/c");
        let roster = &pool.roster;
        roster.enable_features(&[RAIDZ]).unwrap();
        world.disk("b").writes_left.store(writes_left, std::sync::atomic::Ordering::SeqCst);
        roster.activate(&RAIDZ).unwrap();
        // Were it well again at once, it would still be none of the pool.
        world.disk("b").writes_left.store(u64::MAX, std::sync::atomic::Ordering::SeqCst);
        pool.vdevs[0].write(0, &[0x5a; 4096]).unwrap();
        assert_eq!(world.disk("b").bytes(label::LABEL_BYTES, 4096)[0], 0);
        assert!(roster.config().vdevs[0].legs[1].stale_since.is_some());
        assert!(["a", "c"].iter().all(|name| label::read(world.disk(name)).is_err()));
    }
}
