//! What stands in the labels, and when: rules F6 and F8 from the writer's side.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::Condvar;
use tally_disk::{Durability, Geometry, Platform, ThreadFanout};
use tally_fakes::{FaultyDisk, MemDisk, World};
use tally_intent::LegSet;

use super::*;
use crate::assemble::{Assembled, ImportError, ImportOptions, PoolSelect, import};
use crate::blockdev::{BlockDev, flush_all, numbered};
use crate::choose::Chosen;
use crate::create::{CreateOptions, create, new_leg};
use crate::discover::ImportSource;
use crate::grammar::parse_vdev_args;
use crate::uberblock::tests::sample;

pub(crate) const LEG_BYTES: u64 = 16 << 20;

/// A claimed pool `tank`, with uberblock 1.
pub(crate) fn pool(world: &World, words: &str) -> Assembled {
    let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
    let specs = parse_vdev_args(&words).unwrap();
    let mut pool = create(&world.platform(), "tank", &specs, &CreateOptions::default()).unwrap();
    claim(world, &pool.roster);
    pool.config = pool.roster.config();
    commit(&pool.roster, 1).unwrap();
    pool
}

pub(crate) fn claim(world: &World, roster: &Roster) {
    let platform = world.platform();
    roster.claim(&platform.host, platform.rng.as_ref(), 0).unwrap();
}

/// An empty transaction group.
pub(crate) fn commit(roster: &Roster, txg: u64) -> Result<(), RosterError> {
    let config = roster.config();
    let uberblock = Uberblock { pool: config.pool, lanes: Vec::new(), ..sample(config.open_gen, txg) };
    roster.write_uberblock(&uberblock)
}

pub(crate) fn reopen(world: &World) -> Result<(Assembled, Chosen), ImportError> {
    let source = ImportSource { paths: Vec::new(), dirs: vec!["/d".into()] };
    import(&world.platform(), &source, &PoolSelect::Name("tank".into()), &ImportOptions::default())
}

fn leg(roster: &Roster, name: &str) -> Arc<VdevLeg> {
    roster.legs().find(|leg| leg.path().ends_with(name)).expect("a leg of the pool")
}

/// All of the data area, as if everything were in use.
fn whole(vdev: &Vdev) -> impl Iterator<Item = std::ops::Range<u64>> {
    std::iter::once(0..vdev.data_bytes())
}

/// The sequence that a disk's label has, and whether it says that `other` was dropped.
fn label_says(world: &World, disk: &str, other: VdevGuid) -> (u64, bool) {
    let label = label::read(world.disk(disk)).unwrap();
    (label.config.sequence, label.config.leg(other).unwrap().1.stale_since.is_some())
}

#[test]
fn nothing_is_written_before_the_claim() {
    let world = World::new(&[("a", LEG_BYTES)]);
    drop(pool(&world, "/d/a"));
    let writes = world.journal.lock().len();
    let (assembled, _) = reopen(&world).unwrap();
    assert_eq!(commit(&assembled.roster, 2), Err(RosterError::NotClaimed));
    assert!(assembled.roster.update(|_| {}).is_err());
    assert!(assembled.vdevs[0].write(0, &[0; 4096]).is_err());
    assert_eq!(world.journal.lock().len(), writes);
    let open_gen = assembled.config.open_gen;
    claim(&world, &assembled.roster);
    assert_eq!(assembled.roster.config().open_gen, open_gen + 1);
    assert_eq!(label::read(world.disk("a")).unwrap().config, assembled.roster.config());
    commit(&assembled.roster, 2).unwrap();
}

#[test]
fn an_uberblock_of_another_generation_is_not_written() {
    let world = World::new(&[("a", LEG_BYTES)]);
    let pool = pool(&world, "/d/a");
    let old = Uberblock { pool: pool.config.pool, lanes: Vec::new(), ..sample(pool.config.open_gen - 1, 9) };
    assert_eq!(pool.roster.write_uberblock(&old), Err(RosterError::NotClaimed));
}

/// F6: the survivors say that the leg has gone before the write, the flush or the uberblock returns.
#[test]
fn survivors_know_before_success_is_returned() {
    for what in ["write", "flush", "uberblock", "second copy of an uberblock"] {
        let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
        let pool = pool(&world, "mirror /d/a /d/b /d/c");
        let (bad, before) = (leg(&pool.roster, "b").guid(), pool.roster.config().sequence);
        let switch = if what == "flush" { &world.disk("b").flushes_fail } else { &world.disk("b").writes_fail };
        match what {
            "second copy of an uberblock" => world.disk("b").writes_left.store(1, Ordering::SeqCst),
            _ => FaultyDisk::set(switch, true),
        }
        match what {
            "uberblock" | "second copy of an uberblock" => commit(&pool.roster, 2).unwrap(),
            _ => pool.vdevs[0].write(0, &[1; 4096]).and_then(|()| pool.vdevs[0].flush()).unwrap(),
        }
        for survivor in ["a", "c"] {
            assert_eq!(label_says(&world, survivor, bad), (before + 1, true), "{what}, {survivor}");
        }
        assert_eq!(label_says(&world, "b", bad), (before, false), "{what}: the bad leg is not touched again");
        assert_eq!(leg(&pool.roster, "b").state(), LegState::Faulted);
        let line = &pool.roster.config().lanes[0];
        assert_eq!((line.legset.contains(&bad), line.legset_gen), (false, 2), "its lane goes on without it");
        assert_eq!(line.left, [(bad, 1)]);
    }
}

/// A repair wrote to a disk while a command put it away: what it lacks was listed before, and another object stands for it since.
#[test]
fn what_a_leg_was_given_while_it_was_put_away_it_has_missed() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
    let pool = pool(&world, "mirror /d/a /d/b");
    commit(&pool.roster, 9).unwrap();
    let (vdev, b) = (&pool.vdevs[0], leg(&pool.roster, "b").guid());
    pool.roster.take_offline(vdev, b, true).unwrap();
    let has_missed = |txg| pool.roster.config().leg(b).unwrap().1.missed.has(Txg(txg));
    assert_eq!([3, 9, 10].map(has_missed), [false, false, true]);
    pool.roster.note_given(vdev, &[b], Txg(3), true).unwrap();
    assert_eq!([3, 9, 10].map(has_missed), [true, false, true]);
}

#[test]
fn a_leg_that_refuses_its_label_drops_out_with_the_next_change() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
    let pool = pool(&world, "mirror /d/a /d/b /d/c");
    let (b, c) = (leg(&pool.roster, "b").guid(), leg(&pool.roster, "c").guid());
    FaultyDisk::set(&world.disk("b").writes_fail, true);
    FaultyDisk::set(&world.disk("c").writes_fail, true);
    pool.roster.drop_leg(b, &io::Error::other("gone")).unwrap();
    let label = label::read(world.disk("a")).unwrap().config;
    assert!([b, c].iter().all(|guid| label.leg(*guid).unwrap().1.stale_since.is_some()));
    assert_eq!(leg(&pool.roster, "c").state(), LegState::Faulted);
}

#[test]
fn without_a_majority_of_vdevs_the_pool_is_suspended() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
    let pool = pool(&world, "/d/a /d/b /d/c");
    FaultyDisk::set(&world.disk("b").writes_fail, true);
    FaultyDisk::set(&world.disk("c").writes_fail, true);
    let error = pool.roster.update(|config| config.synced_txg = Txg(1)).unwrap_err();
    assert_eq!(error, RosterError::NoMajority { written: 1, total: 3 });
    FaultyDisk::set(&world.disk("b").writes_fail, false);
    FaultyDisk::set(&world.disk("c").writes_fail, false);
    assert!(matches!(pool.roster.update(|_| {}), Err(RosterError::Closed(_))), "nobody believes it again");
    assert!(matches!(commit(&pool.roster, 2), Err(RosterError::Closed(_))));
    assert!(pool.vdevs[0].write(0, &[1; 4096]).is_err(), "and nothing more is written");
}

#[test]
fn an_uberblock_needs_every_data_vdev() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
    let pool = pool(&world, "/d/a /d/b /d/c");
    FaultyDisk::set(&world.disk("c").writes_fail, true);
    assert_eq!(commit(&pool.roster, 2), Err(RosterError::VdevLost(pool.vdevs[2].guid())));
}

/// It was struck off in the labels of the other vdevs, and the pool could not be imported any more, although nothing
/// was the matter with any disk by then.
#[test]
fn the_last_leg_of_a_data_vdev_is_never_an_older_copy() {
    for vdevs in ["/d/a /d/b /d/c", "/d/a log /d/b log /d/c", "mirror /d/a /d/d log /d/b log /d/c"] {
        for failing_writes in [0, 1, 2, 3] {
            let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES), ("d", LEG_BYTES)]);
            let pool = pool(&world, vdevs);
            commit(&pool.roster, 2).unwrap();
            FaultyDisk::set(&world.disk("d").writes_fail, true);
            world.disk("a").writes_left.store(failing_writes, Ordering::SeqCst);
            // Everything that a pool may still try when it has lost a disk.
            let _ = commit(&pool.roster, 3);
            let _ = pool.roster.update(|config| config.synced_txg = Txg(1));
            let _ = pool.roster.drop_leg(leg(&pool.roster, "a").guid(), &io::Error::other("gone"));
            let _ = pool.roster.export(Txg(3));
            assert!(pool.roster.closed().is_some(), "{vdevs}, {failing_writes}");
            drop(pool);
            world.disk("a").writes_left.store(u64::MAX, Ordering::SeqCst);
            FaultyDisk::set(&world.disk("d").writes_fail, false);
            let (again, _) = reopen(&world).unwrap_or_else(|error| panic!("{vdevs}, {failing_writes}: {error}"));
            assert!(again.vdevs[0].is_usable(), "{vdevs}, {failing_writes}");
        }
    }
}

/// A leg was gone from memory before the labels said so. When they could not, it was still a leg of the pool in all of
/// them, and nobody saw its errors or its silence any more.
#[test]
fn a_leg_that_the_labels_still_name_is_still_there() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
    let pool = pool(&world, "mirror /d/a /d/b /d/c");
    for name in ["b", "c"] {
        FaultyDisk::set(&world.disk(name).writes_fail, true);
    }
    let a = leg(&pool.roster, "a");
    let refused = pool.roster.detach(&pool.vdevs[0], a.guid()).err().unwrap();
    assert!(pool.roster.closed().is_some(), "{refused}");
    assert!(pool.roster.config().leg(a.guid()).is_some());
    assert!(pool.vdevs[0].leg(a.guid()).is_some(), "the labels name it");
}

/// A failed strike is not followed by success in another thread: here the second writer finds the leg failing.
#[test]
fn nobody_succeeds_beside_a_leg_that_could_not_be_struck_off() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
    let pool = pool(&world, "mirror /d/a /d/b");
    FaultyDisk::set(&world.disk("b").writes_fail, true);
    // The survivor takes the block and refuses the label.
    world.disk("a").writes_left.store(1, Ordering::SeqCst);
    assert!(pool.vdevs[0].write(0, &[1; 4096]).is_err());
    world.disk("a").writes_left.store(u64::MAX, Ordering::SeqCst);
    assert!(pool.vdevs[0].write(4096, &[1; 4096]).is_err());
    assert!(commit(&pool.roster, 2).is_err());
}

#[test]
fn the_last_leg_of_a_lane_stays_in_its_set() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES)]);
    let pool = pool(&world, "/d/a log /d/l");
    let log = leg(&pool.roster, "l").guid();
    FaultyDisk::set(&world.disk("l").writes_fail, true);
    commit(&pool.roster, 2).expect("the data vdev has it");
    let line = pool.roster.config().lanes[0].clone();
    assert_eq!((line.legset.as_slice(), line.legset_gen), (&[log][..], 1));
    drop(pool);
    FaultyDisk::set(&world.disk("l").writes_fail, false);
    let (again, _) = reopen(&world).unwrap();
    assert_eq!(leg(&again.roster, "l").state(), LegState::Online, "it has every frame that was acknowledged");
    assert_eq!(again.roster.lane_config(&line).legs.len(), 1);
    claim(&world, &again.roster);
    again.roster.rejoin_lanes().unwrap();
    assert_eq!(again.roster.config().leg(log).unwrap().1.stale_since, None);
    drop(again);
    assert_eq!(leg(&reopen(&world).unwrap().0.roster, "l").state(), LegState::Online);
}

/// Seed 5 of the simulated world. The claim wrote the other disks first and took the leg back in the same change: cut
/// in the middle, it left a leg two changes behind, which is an older copy, and a pool that nobody could import without
/// giving up what was acknowledged. It had every frame all the time.
#[test]
fn the_last_leg_of_a_lane_survives_imports_that_are_cut_short() {
    for (claims, writes) in (0..3).flat_map(|claims| (0..12).map(move |writes| (claims, writes))) {
        let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES)]);
        let pool = pool(&world, "/d/a log /d/l");
        FaultyDisk::set(&world.disk("l").writes_fail, true);
        commit(&pool.roster, 2).expect("the data vdev has it");
        drop(pool);
        FaultyDisk::set(&world.disk("l").writes_fail, false);
        for _ in 0..claims {
            let (again, _) = reopen(&world).unwrap();
            claim(&world, &again.roster);
        }
        // A claim, the group that ends the replay, and the return, cut after so many writes on each disk.
        let (again, _) = reopen(&world).unwrap();
        for name in ["a", "l"] {
            world.disk(name).writes_left.store(writes, Ordering::SeqCst);
        }
        let platform = world.platform();
        let claimed = again.roster.claim(&platform.host, platform.rng.as_ref(), 0);
        let _cut = claimed.and_then(|_| commit(&again.roster, 3)).and_then(|()| again.roster.rejoin_lanes());
        drop(again);
        for name in ["a", "l"] {
            world.disk(name).writes_left.store(u64::MAX, Ordering::SeqCst);
        }
        let (after, _) = reopen(&world).unwrap();
        assert_eq!(leg(&after.roster, "l").state(), LegState::Online, "{claims} claims, then {writes} writes");
    }
}

/// Seeds 2669 and 2677, as they were drawn on 2026-11-28. The only data disk refused the label of each claim, and read as if it had taken it: so it was not
/// given it again, and the log device went on alone. When the power went its disk was so many changes behind, which is an older copy, and nobody
/// could import the pool.
#[test]
fn a_label_that_was_refused_is_written_again_though_it_can_be_read() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES)]);
    drop(pool(&world, "/d/a log /d/l"));
    let disk = world.disk("a");
    FaultyDisk::set(&disk.writes_fail, true);
    FaultyDisk::set(&disk.refused_is_read, true);
    for _ in 0..3 {
        let (again, _) = reopen(&world).unwrap();
        let platform = world.platform();
        let claimed = again.roster.claim(&platform.host, platform.rng.as_ref(), 0);
        assert!(matches!(claimed, Err(RosterError::NoMajority { written: 0, total: 1 })), "{claimed:?}");
    }
    FaultyDisk::set(&disk.writes_fail, false);
    disk.lose_refused();
    let (after, _) = reopen(&world).unwrap();
    assert_eq!(leg(&after.roster, "a").state(), LegState::Online);
    claim(&world, &after.roster);
    commit(&after.roster, 2).unwrap();
}

#[test]
fn a_lane_calls_for_the_smaller_set_and_gets_its_generation() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES), ("m", LEG_BYTES)]);
    let pool = pool(&world, "/d/a log mirror /d/l /d/m");
    let line = pool.roster.config().lanes[0].clone();
    let lane = pool.roster.lane_config(&line);
    assert_eq!(lane.legs.len(), 2);
    let bad = leg(&pool.roster, "m").guid();
    let left = LegSet { generation: 2, legs: vec![leg(&pool.roster, "l").guid()] };
    assert_eq!((lane.leg_failed)(bad, &io::Error::other("gone")), Ok(left.clone()));
    assert_eq!((lane.leg_failed)(bad, &io::Error::other("gone")), Ok(left), "the same answer again");
    assert!(label_says(&world, "a", bad).1 && label_says(&world, "l", bad).1);
    let line = pool.roster.config().lanes[0].clone();
    let after = pool.roster.lane_config(&line);
    assert_eq!((after.legs.len(), after.stale_legs.len(), after.stale_legs[0].legset_gen_last), (1, 1, 1));
}

/// Leg m was struck off, for a refused uberblock; then l missed a frame. The labels keep l, the last, and have no word
/// that anything may rest on m.
#[test]
fn the_last_leg_that_the_labels_name_is_not_struck_out_of_a_lane() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES), ("m", LEG_BYTES)]);
    let pool = pool(&world, "/d/a log mirror /d/l /d/m");
    let line = pool.roster.config().lanes[0].clone();
    let (l, m) = (leg(&pool.roster, "l").guid(), leg(&pool.roster, "m").guid());
    pool.roster.drop_leg(m, &io::Error::other("gone")).unwrap();
    let refused = pool.roster.drop_lane_leg(line.lane, l, &io::Error::other("gone"));
    assert!(matches!(refused, Err(RosterError::Leg { leg, .. }) if leg == l), "{refused:?}");
}

/// A leg that was struck off while it joined is not taken into the set: it may miss frames.
#[test]
fn a_leg_that_was_struck_off_is_not_taken_into_a_lane() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES), ("m", LEG_BYTES)]);
    let pool = pool(&world, "/d/a log mirror /d/l /d/m");
    let (lane, m) = (pool.roster.config().lanes[0].lane, leg(&pool.roster, "m").guid());
    pool.roster.drop_leg(m, &io::Error::other("gone")).unwrap();
    let before = pool.roster.config().lanes;
    assert!(pool.roster.take_in_lane_leg(lane, m).is_err());
    assert_eq!(pool.roster.config().lanes, before);
}

#[test]
fn a_stale_log_leg_rejoins_when_the_rings_are_empty() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES), ("m", LEG_BYTES)]);
    let first = pool(&world, "/d/a log mirror /d/l /d/m");
    first.roster.drop_leg(leg(&first.roster, "m").guid(), &io::Error::other("gone")).unwrap();
    drop(first);
    let (again, _) = reopen(&world).unwrap();
    assert_eq!(leg(&again.roster, "m").state(), LegState::Stale);
    claim(&world, &again.roster);
    let config = again.roster.rejoin_lanes().unwrap();
    assert_eq!((config.lanes[0].legset.len(), config.lanes[0].legset_gen), (2, 3));
    drop(again);
    let (third, _) = reopen(&world).unwrap();
    assert_eq!(leg(&third.roster, "m").state(), LegState::Online);
}

/// A leg that takes no label is not taken back: were it in the set, it could be believed to have what it has missed,
/// and the leg that has it all be struck off for a refused write as if there were another.
#[test]
fn a_log_leg_that_refuses_its_label_stays_out() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES), ("m", LEG_BYTES)]);
    let first = pool(&world, "/d/a log mirror /d/l /d/m");
    let (l, m) = (leg(&first.roster, "l").guid(), leg(&first.roster, "m").guid());
    first.roster.drop_leg(m, &io::Error::other("gone")).unwrap();
    drop(first);
    let (again, _) = reopen(&world).unwrap();
    FaultyDisk::set(&world.disk("m").writes_fail, true);
    claim(&world, &again.roster);
    let config = again.roster.rejoin_lanes().unwrap();
    assert_eq!(config.lanes[0].legset, [l]);
    assert!(config.leg(m).unwrap().1.stale_since.is_some());
    assert_eq!(leg(&again.roster, "m").state(), LegState::Faulted);
    again.roster.drop_leg(l, &io::Error::other("refused a frame")).unwrap();
    drop(again);
    FaultyDisk::set(&world.disk("m").writes_fail, false);
    let (third, _) = reopen(&world).unwrap();
    assert_eq!(leg(&third.roster, "l").state(), LegState::Online, "the lane ended with it");
    assert_eq!(leg(&third.roster, "m").state(), LegState::Stale);
}

/// attach, copy, finish; then the new leg alone carries the pool.
#[test]
fn a_new_leg_can_stand_alone_once_it_is_copied() {
    let world = World::new(&[("a", LEG_BYTES), ("n", LEG_BYTES)]);
    let first = pool(&world, "/d/a");
    let vdev = &first.vdevs[0];
    vdev.write(0, &[7; 4096]).unwrap();
    vdev.flush().unwrap();
    commit(&first.roster, 2).unwrap();
    let config = first.roster.config();
    let joining = new_leg(&world.platform(), &config.vdevs[0], "/d/n".as_ref(), false).unwrap();
    let guid = joining.guid();
    first.roster.add_leg(vdev, joining).unwrap();
    assert_eq!(leg(&first.roster, "n").state(), LegState::Resilvering);
    let report = vdev.resilver(guid, &mut whole(vdev), &mut |_| true).unwrap();
    let ring = config.vdevs[0].ring.unwrap();
    assert_eq!(report.copied_bytes, vdev.data_bytes() - ring.length, "the ring is the lane's");
    first.roster.finish_resilver(vdev, guid, true).unwrap();
    let lane = config.lanes[0].lane;
    let old = leg(&first.roster, "a").guid();
    let needed = first.roster.detach(vdev, old).err().unwrap();
    assert!(needed.to_string().contains("the only one with the frames"), "the lane does not write to the new one yet");
    assert_eq!(first.roster.take_in_lane_leg(lane, guid), Ok(LegSet { generation: 2, legs: vec![old, guid] }));
    first.roster.detach(vdev, old).unwrap().erase_label().unwrap();
    drop(first);
    world.present(&["n"]);
    let (again, chosen) = reopen(&world).unwrap();
    assert_eq!(chosen.uberblock.txg, Txg(2), "it brought the uberblocks of before along");
    assert_eq!(*again.vdevs[0].read(0, 4096, &|_| true).unwrap(), [7; 4096]);
    assert_eq!(again.config.lanes[0].legset, [guid]);
    world.present(&["a"]);
    assert!(matches!(reopen(&world), Err(ImportError::NoSuchPool { .. })), "a detached leg is no pool");
}

/// What the label says of a leg that joins: where its own end was, and which groups were copied to it. What it had missed is
/// forgotten with the copy; a strike notes from which group on it misses more.
#[test]
fn a_leg_has_its_size_and_the_group_it_joined_in_the_labels() {
    let world = World::new(&[("a", LEG_BYTES), ("n", LEG_BYTES + 4096 * 3 + 100)]);
    let pool = pool(&world, "/d/a");
    (2..=20).for_each(|txg| commit(&pool.roster, txg).unwrap());
    let says = |name: &str, guid: VdevGuid| label::read(world.disk(name)).unwrap().config.leg(guid).unwrap().1.clone();
    let first = leg(&pool.roster, "a").guid();
    let of_first = says("a", first);
    assert_eq!((of_first.size, of_first.joined_txg, of_first.slot), (LEG_BYTES, Txg(0), 0));
    let joining = new_leg(&world.platform(), &pool.config.vdevs[0], "/d/n".as_ref(), false).unwrap();
    let (guid, vdev) = (joining.guid(), &pool.vdevs[0]);
    pool.roster.add_leg(vdev, joining).unwrap();
    commit(&pool.roster, 21).unwrap();
    for name in ["a", "n"] {
        let says = says(name, guid);
        assert_eq!((says.size, says.joined_txg, says.slot), (LEG_BYTES + 4096 * 3, Txg(20), 0), "{name}");
    }
    let has_missed = || {
        let missed = label::TxgRange { from: Txg(5), to: Txg(7) };
        pool.roster.update(|config| config.leg_mut(guid).unwrap().missed.note(missed)).unwrap();
        assert_eq!(says("a", guid).missed.ranges(), [missed]);
    };
    let everything = label::TxgRange { from: Txg(0), to: Txg(u64::MAX) };
    assert_eq!(says("a", guid).missed.ranges(), [everything], "it has nothing yet");
    vdev.resilver(guid, &mut whole(vdev), &mut |_| true).unwrap();
    pool.roster.finish_resilver(vdev, guid, true).unwrap();
    assert_eq!((says("a", guid).missed.ranges(), says("a", guid).stale_since), (&[][..], None));
    has_missed();
    pool.roster.drop_leg(guid, &io::Error::other("gone")).unwrap();
    let ranges = [(5, 7), (22, u64::MAX)].map(|(from, to)| label::TxgRange { from: Txg(from), to: Txg(to) });
    assert!(says("a", guid).missed.ranges() == ranges && says("a", guid).stale_since.is_some());
    // Whoever was about to bring it the rest has not heard of that yet: what comes from now on would have been in no list.
    pool.roster.close_missed(guid, Txg(30)).unwrap_err();
    assert_eq!(says("a", guid).missed.ranges(), ranges);
    assert_eq!(says("a", first), of_first, "nothing of that is the other leg's");
}

/// The bytes of a leg's label behind the sections of this program, in the slot of a configuration.
fn unknown_bytes(world: &World, disk: &str, sequence: u64, count: usize) -> Vec<u8> {
    let slot = world.disk(disk).bytes(sequence % 2 * (64 << 10), 64 << 10);
    let payload_bytes = u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
    slot[96 + payload_bytes - count..96 + payload_bytes].to_vec()
}

/// A newer program has left a section. Its bytes are the same in the labels of every leg that stays, through all changes.
#[test]
fn what_this_program_does_not_know_goes_from_label_to_label() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("n", LEG_BYTES)]);
    let made = pool(&world, "mirror /d/a /d/b");
    let guids = ["a", "b"].map(|name| (name, leg(&made.roster, name).guid()));
    let mut config = made.roster.config();
    drop(made);
    let section = |id, bytes: &[u8]| label::Section { id, must_be_known: false, bytes: bytes.to_vec() };
    config.carried = vec![section(77, b"devices by their names"), section(0xfff0, &[])];
    for (_, (name, guid)) in (0..2).flat_map(|slot| guids.map(|named| (slot, named))) {
        label::write(world.disk(name), guid, &config).unwrap();
    }
    let expected =
        [&[77, 0, 0, 0, 22, 0, 0, 0], &b"devices by their names"[..], &[0xf0, 0xff, 0, 0, 0, 0, 0, 0]].concat();
    let (pool, _) = reopen(&world).unwrap();
    claim(&world, &pool.roster);
    pool.roster.set_failmode(FailMode::Continue).unwrap();
    let joining = new_leg(&world.platform(), &config.vdevs[0], "/d/n".as_ref(), false).unwrap();
    pool.roster.add_leg(&pool.vdevs[0], joining).unwrap();
    pool.roster.drop_leg(guids[1].1, &io::Error::other("gone")).unwrap();
    commit(&pool.roster, 2).unwrap();
    let sequence = pool.roster.config().sequence;
    assert!(sequence >= config.sequence + 4, "two slots were written twice");
    for (disk, sequence) in [("a", sequence), ("a", sequence - 1), ("n", sequence), ("n", sequence - 1)] {
        assert_eq!(unknown_bytes(&world, disk, sequence, expected.len()), expected, "{disk}, {sequence}");
    }
    pool.roster.export(Txg(2)).unwrap();
    drop(pool);
    assert_eq!(reopen(&world).unwrap().0.config.carried, config.carried);
}

/// A section of which a newer program has said that nobody may write without knowing it.
#[test]
fn a_section_that_must_be_known_lets_the_pool_be_read_alone() {
    let world = World::new(&[("a", LEG_BYTES)]);
    let made = pool(&world, "/d/a");
    made.vdevs[0].write(0, &[7; 4096]).unwrap();
    made.vdevs[0].flush().unwrap();
    commit(&made.roster, 2).unwrap();
    let (guid, mut config) = (leg(&made.roster, "a").guid(), made.roster.config());
    drop(made);
    let section = |id, must_be_known| label::Section { id, must_be_known, bytes: vec![1] };
    config.carried = vec![section(77, true), section(78, false), section(90, true)];
    config.sequence += 1;
    label::write(world.disk("a"), guid, &config).unwrap();
    let writes = world.journal.lock().len();
    let refused = reopen(&world).map(|_| ()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "pool tank has sections in its labels (77, 90) without which this program may only read it; import it with \
         --readonly, or use a newer program"
    );
    let source = ImportSource { paths: Vec::new(), dirs: vec!["/d".into()] };
    let options = ImportOptions { read_only: true, ..ImportOptions::default() };
    let (pool, chosen) =
        import(&world.platform(), &source, &PoolSelect::Name("tank".into()), &options).expect("to be read");
    assert_eq!(chosen.uberblock.txg, Txg(2));
    assert_eq!(*pool.vdevs[0].read(0, 4096, &|_| true).unwrap(), [7; 4096]);
    assert_eq!(pool.roster.set_failmode(FailMode::Continue), Err(RosterError::NotClaimed));
    assert_eq!(world.journal.lock().len(), writes, "nothing was written");
}

#[test]
fn an_unfinished_copy_is_stale_after_a_crash() {
    let world = World::new(&[("a", LEG_BYTES), ("n", LEG_BYTES)]);
    let first = pool(&world, "/d/a");
    let joining = new_leg(&world.platform(), &first.config.vdevs[0], "/d/n".as_ref(), false).unwrap();
    first.roster.add_leg(&first.vdevs[0], joining).unwrap();
    drop(first);
    let (again, _) = reopen(&world).unwrap();
    assert_eq!(leg(&again.roster, "n").state(), LegState::Stale);
    assert_eq!(leg(&again.roster, "a").state(), LegState::Online);
    drop(again);
    world.present(&["n"]);
    assert!(matches!(reopen(&world), Err(ImportError::VdevUnavailable { .. })));
}

#[test]
fn the_last_good_leg_cannot_be_detached() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
    let pool = pool(&world, "mirror /d/a /d/b");
    let (a, b) = (leg(&pool.roster, "a").guid(), leg(&pool.roster, "b").guid());
    pool.roster.drop_leg(b, &io::Error::other("gone")).unwrap();
    assert!(matches!(pool.roster.detach(&pool.vdevs[0], a), Err(RosterError::Leg { .. })));
    pool.roster.detach(&pool.vdevs[0], b).unwrap();
    assert_eq!(pool.roster.config().vdevs[0].legs.len(), 1);
}

#[test]
fn an_exported_pool_is_written_no_more() {
    let world = World::new(&[("a", LEG_BYTES)]);
    let pool = pool(&world, "/d/a");
    pool.roster.export(Txg(1)).unwrap();
    assert!(commit(&pool.roster, 2).is_err());
    let label = label::read(world.disk("a")).unwrap().config;
    assert_eq!((label.state, label.synced_txg), (PoolState::Exported, Txg(1)));
}

/// A disk that answers a flush or a durable write only when as many disks as there are have one.
struct Gate {
    disk: MemDisk,
    turnstile: Arc<Turnstile>,
}

#[derive(Default)]
struct Turnstile {
    /// How many must be there; 0 lets everybody pass.
    wanted: AtomicUsize,
    waiting: Mutex<usize>,
    all_there: Condvar,
}

impl Turnstile {
    fn pass(&self) -> io::Result<()> {
        let wanted = self.wanted.load(Ordering::SeqCst);
        if wanted == 0 {
            return Ok(());
        }
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        // Rounds follow each other: the last of one lets all of it go.
        let round = waiting.div_ceil(wanted) * wanted;
        while *waiting < round {
            // Whoever is alone here stays alone: the others come after it, or never.
            if self.all_there.wait_for(&mut waiting, Duration::from_secs(20)).timed_out() {
                return Err(io::Error::other(format!("{} requests at once, not {wanted}", *waiting % wanted)));
            }
        }
        self.all_there.notify_all();
        Ok(())
    }
}

impl Disk for Gate {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        if durability == Durability::Durable {
            self.turnstile.pass()?;
        }
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.turnstile.pass()
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

/// One disk after the other, 24 of 10 ms took a quarter of a second for each flush and each label, under the lock that
/// acknowledgements wait for.
#[test]
fn labels_uberblocks_and_flushes_go_to_all_legs_at_once() {
    // Of 48, both copies are more than there were helpers for: the caller did the others one by one, 32 of them.
    for (disks, width) in [(24, 1), (24, 2), (24, 24), (48, 1)] {
        let world = World::new(&[]);
        let turnstile = Arc::new(Turnstile::default());
        let paths: Vec<_> = (0..disks).map(|number| format!("/d/{number}")).collect();
        for path in &paths {
            let gate = Gate { disk: MemDisk::new(LEG_BYTES), turnstile: Arc::clone(&turnstile) };
            world.opener.put(path, Arc::new(gate));
        }
        let word = if width == 1 { "" } else { "mirror " };
        let words: Vec<_> = paths.chunks(width).map(|legs| format!("{word}{}", legs.join(" "))).collect();
        let words: Vec<_> = words.join(" ").split(' ').map(str::to_owned).collect();
        let platform = Platform { fanout: Arc::new(ThreadFanout::default()), ..world.platform() };
        let made = create(&platform, "tank", &parse_vdev_args(&words).unwrap(), &CreateOptions::default()).unwrap();
        let roster = &made.roster;
        roster.claim(&platform.host, platform.rng.as_ref(), 0).unwrap();
        commit(roster, 1).unwrap();
        turnstile.wanted.store(disks, Ordering::SeqCst);
        roster.update(|config| config.synced_txg = Txg(1)).unwrap();
        turnstile.wanted.store(2 * disks, Ordering::SeqCst);
        commit(roster, 2).unwrap();
        turnstile.wanted.store(disks, Ordering::SeqCst);
        let devs = numbered(made.vdevs.iter().map(|vdev| Arc::clone(vdev) as _));
        devs.values().for_each(|dev| dev.write(0, &[1; 4096]).unwrap());
        flush_all(&devs, platform.fanout.as_ref()).unwrap();
        assert!(roster.legs().all(|leg| leg.state() == LegState::Online), "{disks} disks in mirrors of {width}");
        let passed = *turnstile.waiting.lock();
        assert_eq!(passed, 5 * disks, "two labels, both copies of an uberblock at once, one flush");
    }
}

/// A disk that holds every cached write and flush while `held`, and then refuses them.
struct Sleepy {
    inner: MemDisk,
    held: parking_lot::Mutex<(bool, bool)>,
    rung: Condvar,
}

impl Sleepy {
    fn pass(&self) -> io::Result<()> {
        let mut held = self.held.lock();
        if !held.0 {
            return Ok(());
        }
        held.1 = true;
        self.rung.notify_all();
        while held.0 {
            self.rung.wait(&mut held);
        }
        Err(io::Error::other("timed out"))
    }
}

impl Disk for Sleepy {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, buf)
    }
    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.pass()?;
        self.inner.write(offset, buf, durability)
    }
    fn flush(&self) -> io::Result<()> {
        self.pass()?;
        self.inner.flush()
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
}

/// A write hangs in one leg of a mirror, its owner detaches that leg, and then the kernel gives up on it. The leg could
/// not be struck off, as the labels did not know it any more, and the pool was suspended for it.
#[test]
fn a_detached_leg_that_times_out_later_harms_nobody() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
    let sleepy = Arc::new(Sleepy {
        inner: MemDisk::new(LEG_BYTES),
        held: parking_lot::Mutex::new((false, false)),
        rung: Condvar::new(),
    });
    world.opener.put(std::path::Path::new("/d/b").to_owned(), Arc::clone(&sleepy) as Arc<dyn Disk>);
    let pool = pool(&world, "mirror /d/a /d/b");
    let b = leg(&pool.roster, "b").guid();
    sleepy.held.lock().0 = true;
    let vdev = Arc::clone(&pool.vdevs[0]);
    let writer = std::thread::spawn(move || vdev.write(0, &[1; 4096]));
    {
        let mut held = sleepy.held.lock();
        while !held.1 {
            sleepy.rung.wait(&mut held);
        }
    }
    // The administrator detaches the disk that hangs. That waits for nothing of it: only to erase its label would.
    pool.roster.detach(&pool.vdevs[0], b).unwrap();
    assert!(pool.roster.config().leg(b).is_none());
    // The kernel gives up on the disk.
    sleepy.held.lock().0 = false;
    sleepy.rung.notify_all();
    let outcome = writer.join().unwrap();
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
}

/// A disk that keeps both copies of an uberblock waiting while it is held.
struct Late {
    inner: MemDisk,
    txg: Txg,
    held: parking_lot::Mutex<bool>,
    released: Condvar,
}

impl Late {
    fn hold(&self, held: bool) {
        *self.held.lock() = held;
        self.released.notify_all();
    }
}

impl Disk for Late {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, buf)
    }
    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        if slot_offsets(LEG_BYTES, self.txg).unwrap().contains(&offset) {
            let mut held = self.held.lock();
            while *held {
                self.released.wait(&mut held);
            }
        }
        self.inner.write(offset, buf, durability)
    }
    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
}

fn has_uberblock(disk: &dyn Disk, txg: Txg) -> bool {
    let is_it =
        |slot: &crate::uberblock::UberblockSlot| matches!(&slot.content, Ok(Some(uberblock)) if uberblock.txg == txg);
    crate::uberblock::read_all(disk).iter().filter(|slot| is_it(slot)).count() == 2
}

/// An uberblock is on its way to the legs of a mirror, and on the medium of one. That one refuses a block or a label of
/// somebody else, or the label with which a third one leaves, and is struck off; then the power is cut. The other leg's label
/// said that it has no vote, and what it told of a group that nobody was told of made every import refuse.
#[test]
fn no_leg_is_struck_off_while_it_alone_has_an_uberblock() {
    let write = |made: &Assembled| made.vdevs[0].write(0, &[1; 4096]).map_err(|error| error.to_string());
    let change = |made: &Assembled| made.roster.set_failmode(FailMode::Continue).map_err(|error| error.to_string());
    let detach = |made: &Assembled| {
        let c = leg(&made.roster, "c").guid();
        made.roster.detach(&made.vdevs[0], c).map(drop).map_err(|error| error.to_string())
    };
    struck_off_beside_an_uberblock(&write);
    struck_off_beside_an_uberblock(&change);
    struck_off_beside_an_uberblock(&detach);
}

fn struck_off_beside_an_uberblock(refused: &(dyn Fn(&Assembled) -> Result<(), String> + Sync)) {
    let late = Late { inner: MemDisk::new(LEG_BYTES), txg: Txg(2), held: false.into(), released: Condvar::new() };
    let (world, late) = (World::new(&[("b", LEG_BYTES), ("c", LEG_BYTES)]), Arc::new(late));
    world.opener.put("/d/a", Arc::clone(&late) as Arc<dyn Disk>);
    let words: Vec<_> = ["mirror", "/d/a", "/d/b", "/d/c"].map(str::to_owned).into();
    let platform = Platform { fanout: Arc::new(ThreadFanout::default()), ..world.platform() };
    let made = create(&platform, "tank", &parse_vdev_args(&words).unwrap(), &CreateOptions::default()).unwrap();
    let roster = &made.roster;
    roster.claim(&platform.host, platform.rng.as_ref(), 0).unwrap();
    commit(roster, 1).unwrap();
    late.hold(true);
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| commit(roster, 2));
        while !has_uberblock(world.disk("b"), Txg(2)) {
            std::thread::yield_now();
        }
        FaultyDisk::set(&world.disk("b").writes_fail, true);
        let striking = scope.spawn(|| refused(&made));
        let asked = std::time::Instant::now();
        while !striking.is_finished() && asked.elapsed() < Duration::from_millis(300) {
            std::thread::yield_now();
        }
        let cut = World::new(&[]);
        cut.opener.put("/d/a", Arc::new(MemDisk::from_bytes(&late.inner.content())));
        cut.opener.put("/d/b", world.disk("b").copy());
        let found = reopen(&cut).map(|(_, chosen)| chosen.uberblock.txg);
        late.hold(false);
        committing.join().unwrap().unwrap();
        striking.join().unwrap().unwrap();
        assert_eq!(found.unwrap_or_else(|error| panic!("cut in between: {error}")), Txg(2), "b votes still");
    });
    let b = leg(roster, "b");
    assert_eq!(
        (b.state(), label::read(late.as_ref()).unwrap().config.sequence),
        (LegState::Faulted, roster.config().sequence)
    );
    assert!(roster.config().leg(b.guid()).unwrap().1.stale_since.is_some());
}

/// A disk that hangs in an uberblock keeps nobody from going on without another one (rules P1).
#[test]
fn a_leg_is_struck_off_although_an_uberblock_hangs() {
    let late = Late { inner: MemDisk::new(LEG_BYTES), txg: Txg(2), held: false.into(), released: Condvar::new() };
    let (world, late) = (World::new(&[("b", LEG_BYTES), ("c", LEG_BYTES)]), Arc::new(late));
    world.opener.put("/d/a", Arc::clone(&late) as Arc<dyn Disk>);
    let pool = pool(&world, "mirror /d/b /d/c /d/a");
    late.hold(true);
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| commit(&pool.roster, 2));
        while pool.roster.uberblocks.try_lock().is_some() {
            std::thread::yield_now();
        }
        pool.roster.drop_leg(leg(&pool.roster, "b").guid(), &io::Error::other("gone")).unwrap();
        assert!(!committing.is_finished());
        late.hold(false);
        committing.join().unwrap().unwrap();
    });
}

/// A leg that joins fails in another thread when its copy has just ended: no label needs to be written for that, as none
/// says yet that it counts. Then they said so, and it was taken for whole at the next import.
#[test]
fn a_leg_that_failed_at_the_end_of_its_copy_does_not_count() {
    let world = World::new(&[("a", LEG_BYTES), ("n", LEG_BYTES)]);
    let first = pool(&world, "/d/a");
    let (roster, vdev) = (&first.roster, &first.vdevs[0]);
    let joining = new_leg(&world.platform(), &roster.config().vdevs[0], "/d/n".as_ref(), false).unwrap();
    let n = Arc::clone(&joining);
    roster.add_leg(vdev, joining).unwrap();
    vdev.resilver(n.guid(), &mut whole(vdev), &mut |_| true).unwrap();
    // Somebody changes the labels just then, so both have to wait.
    let labels = roster.state.lock();
    std::thread::scope(|scope| {
        let finishing = scope.spawn(|| roster.finish_resilver(vdev, n.guid(), true));
        std::thread::sleep(Duration::from_millis(100));
        // What a strike comes to.
        n.set_state(LegState::Faulted);
        drop(labels);
        assert!(finishing.join().unwrap().is_err());
    });
    vdev.write(0, &[1; 4096]).unwrap();
    vdev.flush().unwrap();
    commit(roster, 2).unwrap();
    drop((first, n));
    let (again, _) = reopen(&world).unwrap();
    assert_eq!(leg(&again.roster, "n").state(), LegState::Stale, "it has missed a write");
}

/// The last leg of a lane stays in its set when it is struck off. It stayed also when a healthy one had joined, and the
/// lane ended with it.
#[test]
fn a_leg_that_was_struck_off_leaves_the_set_when_another_has_joined() {
    let world = World::new(&[("a", LEG_BYTES), ("l", LEG_BYTES), ("n", LEG_BYTES)]);
    let pool = pool(&world, "/d/a log /d/l");
    let (roster, log) = (&pool.roster, Arc::clone(&pool.logs[0]));
    let l = leg(roster, "l").guid();
    roster.drop_leg(l, &io::Error::other("it refused an uberblock")).unwrap();
    let line = roster.config().lanes[0].clone();
    assert_eq!(line.legset, [l], "the last one stays");
    let config = roster.config().vdevs[log.index().place()].clone();
    let fresh = new_leg(&world.platform(), &config, std::path::Path::new("/d/n"), true).unwrap();
    let n = fresh.guid();
    roster.add_leg(&log, fresh).unwrap();
    roster.finish_resilver(&log, n, true).unwrap();
    let set = roster.take_in_lane_leg(line.lane, n).unwrap();
    let _l = roster.drop_lane_leg(line.lane, l, &io::Error::other("it refused a frame")).unwrap();
    assert_eq!(set.legs, [n]);
}

fn is_ones(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 1)
}

/// A client's read repairs `a`, which refuses it: it is struck off, and the group of the block is not among what it has missed.
#[test]
fn what_is_refused_of_the_repair_of_a_read_is_missed() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
    let pool = pool(&world, "mirror /d/a /d/b");
    let (roster, vdev, platform) = (&pool.roster, &pool.vdevs[0], world.platform());
    let (a, b) = (leg(roster, "a").guid(), leg(roster, "b").guid());
    let at = 8 << 20;
    vdev.write(at, &[1; 4096]).unwrap();
    vdev.flush().unwrap();
    commit(roster, 9).unwrap();
    world.disk("a").rot(label::LABEL_BYTES + at);
    FaultyDisk::set(&world.disk("a").writes_fail, true);
    FaultyDisk::set(&world.disk("a").refused_is_read, true);
    vdev.read(at, 4096, &is_ones).unwrap();
    assert_eq!(leg(roster, "a").state(), LegState::Faulted);
    FaultyDisk::set(&world.disk("a").writes_fail, false);
    let again = roster.reopen(&platform, vdev, a).unwrap();
    roster.add_leg(vdev, again).unwrap();
    let missed = roster.close_missed(a, Txg(10)).unwrap();
    if missed.has(Txg(3)) {
        vdev.secure_missed(at, 4096, &is_ones, a).unwrap();
    }
    roster.finish_resilver(vdev, a, true).unwrap();
    let scrub = vdev.secure(at, 4096, &is_ones, &[a, b]).unwrap();
    let detach = vdev.secure(at, 4096, &is_ones, &[a]).unwrap();
    // Now `b` may leave.
    world.disk("a").lose_refused();
    assert!(
        is_ones(&world.disk("a").bytes(label::LABEL_BYTES + at, 4096)),
        "scrub: {scrub:?}, detach: {detach:?}, and it is gone; {missed:?}"
    );
}
