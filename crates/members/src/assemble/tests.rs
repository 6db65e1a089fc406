//! Imports from legs that are missing, stale, corrupt, copied, held or foreign.

use tally_disk::{Durability, Host};
use tally_fakes::World;

use super::*;
use crate::roster::tests::{LEG_BYTES, claim, commit, pool, reopen};
use crate::uberblock::slot_offsets;

/// The state of every leg as `a:ONLINE b:STALE`.
fn states(assembled: &Assembled) -> String {
    let legs = assembled.vdevs.iter().chain(&assembled.logs).flat_map(|vdev| vdev.legs());
    let shown = legs.map(|leg| {
        let name = leg.path().file_name().unwrap().to_string_lossy().into_owned();
        format!("{name}:{}", leg.state().word())
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn mirror() -> World {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
    drop(pool(&world, "mirror /d/a /d/b"));
    world
}

/// Imports, commits these txgs, and crashes.
fn live(world: &World, txgs: std::ops::RangeInclusive<u64>) {
    let (assembled, _) = reopen(world).unwrap();
    claim(world, &assembled.roster);
    for txg in txgs {
        commit(&assembled.roster, txg).unwrap();
    }
}

#[test]
fn a_whole_pool_comes_back() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES), ("d", LEG_BYTES), ("l", LEG_BYTES)]);
    let made = pool(&world, "mirror /d/a /d/b mirror /d/c /d/d log /d/l");
    commit(&made.roster, 2).unwrap();
    let config = made.roster.config();
    drop(made);
    let (assembled, chosen) = reopen(&world).unwrap();
    assert_eq!(assembled.config, config);
    assert_eq!(chosen.uberblock.txg, Txg(2));
    assert_eq!(states(&assembled), "a:ONLINE b:ONLINE c:ONLINE d:ONLINE l:ONLINE");
    assert!(assembled.notes.is_empty());
    assert_eq!((assembled.vdevs.len(), assembled.logs.len()), (2, 1));
}

#[test]
fn a_missing_leg_degrades_and_is_stale_when_it_returns() {
    let world = mirror();
    world.present(&["a"]);
    let (assembled, _) = reopen(&world).unwrap();
    assert_eq!(states(&assembled), "a:ONLINE b:MISSING");
    assert_eq!(assembled.notes.len(), 1);
    drop(assembled);
    // An import that was given up has marked nothing.
    world.present(&["a", "b"]);
    assert_eq!(states(&reopen(&world).unwrap().0), "a:ONLINE b:ONLINE");
    // One that was claimed has.
    world.present(&["a"]);
    live(&world, 2..=3);
    world.present(&["a", "b"]);
    let (assembled, chosen) = reopen(&world).unwrap();
    assert_eq!(states(&assembled), "a:ONLINE b:STALE");
    assert_eq!(chosen.uberblock.txg, Txg(3));
    drop(assembled);
    world.present(&["b"]);
    let (alone, _) = reopen(&world).expect("b cannot know what it has missed");
    assert_eq!(states(&alone), "a:MISSING b:ONLINE");
}

/// Both halves of a mirror were used alone: whichever is taken, acknowledged changes of the other are lost, so
/// nobody but the operator may choose.
#[test]
fn halves_that_went_on_apart_are_refused() {
    for (a_lives, b_lives) in [(1, 1), (1, 3), (3, 1)] {
        let world = mirror();
        world.present(&["a"]);
        (0..a_lives).for_each(|_| live(&world, 2..=3));
        world.present(&["b"]);
        (0..b_lives).for_each(|_| live(&world, 2..=9));
        world.present(&["a", "b"]);
        let outcome = reopen(&world).map(|_| ());
        assert!(matches!(outcome, Err(ImportError::SplitBrain { .. })), "{a_lives}, {b_lives}: {outcome:?}");
    }
}

/// Seed 115 of the simulated world. The power was cut inside an import, when one leg had the claim and
/// the other one not; the next import was without that leg, and served. When the leg came back it was taken for one that
/// had gone on by itself, and the pool could not be imported. It had served nobody: it is stale.
#[test]
fn a_leg_with_a_claim_that_was_cut_short_is_stale_when_it_returns() {
    for later_lives in [1, 2, 9] {
        let mut world = mirror();
        let b = world.disk("b").copy();
        let (assembled, _) = reopen(&world).unwrap();
        claim(&world, &assembled.roster);
        drop(assembled);
        world.swap("b", &b);
        world.present(&["b"]);
        (0..later_lives).for_each(|life| live(&world, 2 + 10 * life..=9 + 10 * life));
        world.present(&["a", "b"]);
        let (assembled, chosen) = reopen(&world).unwrap_or_else(|error| panic!("{later_lives}: {error}"));
        assert_eq!(states(&assembled), "a:STALE b:ONLINE", "{later_lives}");
        assert_eq!(chosen.uberblock.txg, Txg(9 + 10 * (later_lives - 1)), "{later_lives}");
    }
}

/// The same with one leg after the other alone: neither claim came to anything, so either may be taken.
#[test]
fn two_claims_that_were_cut_short_are_no_split() {
    let world = mirror();
    for name in ["a", "b"] {
        world.present(&[name]);
        let (assembled, _) = reopen(&world).unwrap();
        claim(&world, &assembled.roster);
    }
    world.present(&["a", "b"]);
    let (assembled, chosen) = reopen(&world).unwrap();
    assert_eq!(chosen.uberblock.txg, Txg(1));
    assert_eq!(assembled.vdevs[0].legs().iter().filter(|leg| leg.state() == LegState::Online).count(), 1);
}

/// A leg without a readable uberblock may have served for years: its claim is no idle one, and a leg that it has struck
/// off long ago is not the pool.
#[test]
fn a_leg_whose_uberblocks_are_gone_is_not_overruled_by_an_older_one() {
    let world = mirror();
    world.present(&["a"]);
    live(&world, 2..=40);
    let (slots, size) = (1..=16, world.disk("a").geometry().size);
    for offset in slots.flat_map(|txg| slot_offsets(size, Txg(txg)).unwrap()) {
        world.disk("a").write(offset, &[0; 4096], Durability::Durable).unwrap();
    }
    world.present(&["a", "b"]);
    let outcome = reopen(&world).map(|(assembled, chosen)| (states(&assembled), chosen.uberblock.txg));
    assert!(matches!(outcome, Err(ImportError::Choose { .. })), "{outcome:?}");
}

#[test]
fn an_older_copy_of_a_leg_is_stale() {
    let mut world = mirror();
    let copy = world.disk("b").copy();
    live(&world, 2..=6);
    world.swap("b", &copy);
    let (assembled, chosen) = reopen(&world).unwrap();
    assert_eq!(states(&assembled), "a:ONLINE b:STALE");
    assert_eq!(chosen.uberblock.txg, Txg(6));
    drop(assembled);
    // Its turn comes when the good leg is away: it must not be taken for the pool once that was claimed with both.
    live(&world, 7..=7);
    let (assembled, _) = reopen(&world).unwrap();
    assert_eq!(states(&assembled), "a:ONLINE b:STALE");
}

/// A copy made in the same import, so that its label is right: only its uberblocks give it away.
#[test]
fn an_older_copy_with_a_right_label_is_known_by_its_uberblocks() {
    for (behind, expected) in [(1, "a:ONLINE b:ONLINE"), (2, "a:ONLINE b:STALE"), (9, "a:ONLINE b:STALE")] {
        let mut world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
        let made = pool(&world, "mirror /d/a /d/b");
        let copy = world.disk("b").copy();
        (2..2 + behind).for_each(|txg| commit(&made.roster, txg).unwrap());
        drop(made);
        world.swap("b", &copy);
        assert_eq!(states(&reopen(&world).unwrap().0), expected, "{behind} behind");
    }
}

/// An older copy of the only leg of a vdev has nothing beside it to be repaired from.
#[test]
fn an_older_copy_of_a_lone_vdev_is_refused() {
    let mut world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
    drop(pool(&world, "/d/a /d/b"));
    let copy = world.disk("b").copy();
    live(&world, 2..=3);
    live(&world, 4..=5);
    world.swap("b", &copy);
    assert!(matches!(reopen(&world), Err(ImportError::VdevUnavailable { vdev: VdevIndex(1), .. })));
}

/// Power is cut after each single write of a claim in turn: every import after it works, and no leg has missed anything,
/// as nothing can be synced before the claim is over. With the first group it has.
#[test]
fn a_power_cut_inside_a_claim_costs_no_pool() {
    for words in ["mirror /d/a /d/b", "/d/a /d/b"] {
        for writes in 0..=4 {
            let mut world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES)]);
            drop(pool(&world, words));
            // The disks as they are after so many writes of the claim: a first, both labels, then b.
            let before = [world.disk("a").copy(), world.disk("b").copy()];
            let (assembled, _) = reopen(&world).unwrap();
            claim(&world, &assembled.roster);
            drop(assembled);
            let after = [world.disk("a").copy(), world.disk("b").copy()];
            let mut left = writes;
            for (name, (old, new)) in ["a", "b"].into_iter().zip(before.into_iter().zip(after)) {
                // Each label is one write; the second one is at the end of the disk.
                for start in [0, LEG_BYTES - label::LABEL_BYTES] {
                    if left == 0 {
                        break;
                    }
                    left -= 1;
                    let label = new.bytes(start, label::LABEL_BYTES as usize);
                    old.write(start, &label, Durability::Durable).unwrap();
                }
                world.swap(name, &old);
            }
            let (again, _) = reopen(&world).unwrap();
            assert_eq!(states(&again), "a:ONLINE b:ONLINE", "{words}, {writes} writes");
        }
    }
}

/// A copy of a leg, made in the moment before a claim, is as far behind in its label as a claim that was cut would leave it.
/// One group of the new generation tells them apart (rules F8).
#[test]
fn a_leg_from_before_the_claim_is_stale_once_a_group_was_synced() {
    for (is_synced, expected) in [(false, "a:ONLINE b:ONLINE"), (true, "a:ONLINE b:STALE")] {
        let mut world = mirror();
        let (assembled, _) = reopen(&world).unwrap();
        let copy = world.disk("b").copy();
        claim(&world, &assembled.roster);
        if is_synced {
            commit(&assembled.roster, 2).unwrap();
        }
        drop(assembled);
        world.swap("b", &copy);
        assert_eq!(states(&reopen(&world).unwrap().0), expected);
    }
}

#[test]
fn a_corrupt_leg_counts_as_missing_and_the_pool_goes_on() {
    let world = mirror();
    for start in [0, LEG_BYTES - label::LABEL_BYTES] {
        for slot in [0, 64 << 10] {
            world.disk("b").rot(start + slot);
        }
    }
    assert_eq!(states(&reopen(&world).unwrap().0), "a:ONLINE b:MISSING");
    // One label is enough for a leg.
    let world = mirror();
    world.disk("b").rot(0);
    world.disk("b").rot(64 << 10);
    assert_eq!(states(&reopen(&world).unwrap().0), "a:ONLINE b:ONLINE");
}

#[test]
fn a_leg_that_has_shrunk_cannot_be_used() {
    let mut world = mirror();
    let small = tally_fakes::FaultyDisk::new("b", LEG_BYTES - 4096, &world.journal);
    let front = world.disk("b").bytes(0, label::LABEL_BYTES as usize);
    small.write(0, &front, Durability::Durable).unwrap();
    world.swap("b", &small);
    assert_eq!(states(&reopen(&world).unwrap().0), "a:ONLINE b:MISSING");
}

#[test]
fn a_torn_newest_uberblock_falls_back_unless_it_is_witnessed() {
    for witnessed in [false, true] {
        let world = World::new(&[("a", LEG_BYTES)]);
        let made = pool(&world, "/d/a");
        commit(&made.roster, 2).unwrap();
        commit(&made.roster, 3).unwrap();
        if witnessed {
            made.roster.update(|config| config.synced_txg = Txg(3)).unwrap();
        }
        drop(made);
        for offset in slot_offsets(LEG_BYTES, Txg(3)).unwrap() {
            world.disk("a").rot(offset);
        }
        match reopen(&world) {
            Ok((_, chosen)) => assert_eq!((witnessed, chosen.uberblock.txg), (false, Txg(2))),
            Err(error) => {
                assert!(witnessed, "{error}");
                assert!(matches!(error, ImportError::Choose { why: ChooseError::Witnessed { .. }, .. }), "{error}");
            }
        }
    }
}

#[test]
fn one_owner_at_a_time() {
    let world = mirror();
    let (owner, _) = reopen(&world).unwrap();
    let error = reopen(&world).map(|_| ()).unwrap_err();
    assert!(matches!(error, ImportError::InUse { .. }), "{error}");
    drop(owner);
    reopen(&world).expect("the locks went with the pool");
}

#[test]
fn a_pool_that_lives_on_another_machine_is_refused() {
    let world = mirror();
    let elsewhere = Platform { host: Host { id: 8, name: "there".into() }, ..world.platform() };
    let source = ImportSource { paths: Vec::new(), dirs: vec!["/d".into()] };
    let name = PoolSelect::Name("tank".into());
    let plain = ImportOptions::default();
    let error = import(&elsewhere, &source, &name, &plain).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("last in use by here"), "{error}");
    import(&elsewhere, &source, &name, &ImportOptions { force: true, ..plain }).expect("forced");
    let (owner, _) = reopen(&world).unwrap();
    claim(&world, &owner.roster);
    owner.roster.export(Txg(1)).unwrap();
    drop(owner);
    import(&elsewhere, &source, &name, &plain).expect("exported");
}

#[test]
fn destroyed_pools_are_passed_over_unless_asked_for() {
    let world = mirror();
    let (owner, _) = reopen(&world).unwrap();
    claim(&world, &owner.roster);
    owner.roster.destroy(Txg(1)).unwrap();
    drop(owner);
    assert!(matches!(reopen(&world), Err(ImportError::Destroyed { .. })));
    let source = ImportSource { paths: vec!["/d/a".into(), "/d/b".into()], dirs: Vec::new() };
    let options = ImportOptions { destroyed: true, ..ImportOptions::default() };
    let (back, _) = import(&world.platform(), &source, &PoolSelect::Name("tank".into()), &options).unwrap();
    claim(&world, &back.roster);
    assert_eq!(back.roster.config().state, PoolState::Active);
}

#[test]
fn pools_are_told_apart() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("c", LEG_BYTES)]);
    let guid = pool(&world, "/d/a").config.pool;
    drop(pool(&world, "/d/b"));
    let error = reopen(&world).map(|_| ()).unwrap_err();
    assert!(matches!(&error, ImportError::Ambiguous { guids, .. } if guids.len() == 2), "{error}");
    let source = ImportSource { paths: Vec::new(), dirs: vec!["/d".into()] };
    let options = ImportOptions::default();
    let (found, _) = import(&world.platform(), &source, &PoolSelect::Guid(guid), &options).unwrap();
    assert_eq!(states(&found), "a:ONLINE");
    let absent =
        import(&world.platform(), &source, &PoolSelect::Name("pond".into()), &options).map(|_| ()).unwrap_err();
    let text = absent.to_string();
    assert!(text.starts_with("no pool pond was found; seen: tank (") && text.contains(&guid.to_string()), "{text}");
}

#[test]
fn two_disks_with_one_guid_are_refused() {
    let world = mirror();
    let copy = world.disk("b").copy();
    world.opener.put("/d/copy", copy as Arc<dyn Disk>);
    assert!(matches!(reopen(&world), Err(ImportError::TwoCopies { .. })));
}

#[test]
fn every_data_vdev_is_needed_and_a_log_is_reported() {
    let world = World::new(&[("a", LEG_BYTES), ("b", LEG_BYTES), ("l", LEG_BYTES)]);
    drop(pool(&world, "/d/a /d/b log /d/l"));
    world.present(&["a", "l"]);
    let error = reopen(&world).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("/d/b is MISSING"), "{error}");
    world.present(&["a", "b"]);
    let (assembled, _) = reopen(&world).unwrap();
    assert_eq!(states(&assembled), "a:ONLINE b:ONLINE l:MISSING");
    assert!(assembled.roster.lane_config(&assembled.config.lanes[0]).legs.is_empty(), "the lane is missing");
}

/// Any single sector of a label may be anything: an import succeeds from the other leg or says why not.
#[test]
fn no_damaged_label_sector_causes_a_panic() {
    for sector in 0..label::LABEL_BYTES / 4096 {
        let world = mirror();
        world.disk("a").rot(sector * 4096);
        let (assembled, _) = reopen(&world).unwrap();
        assert_eq!(states(&assembled), "a:ONLINE b:ONLINE", "sector {sector}");
    }
}
