//! Going back to an older group (docs/design/0051): what is found is what that group had and nothing else, and nothing that
//! was given up comes back, whoever tells of it.

mod world;

use std::sync::Arc;

use tally_base::Txg;
use tally_fs::filer::{Filer, FilerError, ImportOptions, ImportReport};
use tally_members::label;
use tally_members::uberblock::{self, Uberblock};
use tally_store::pool::{RewindOrder, RewindTo};
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;
use tally_vfs::{Attributes, CreateHow, Cred, Identity, ObjectRef, OpCtx, ReplyKey, Stability, Vfs};
use world::{World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
const READ_ONLY: ImportOptions = ImportOptions { force: false, read_only: true, accept_loss: false, destroyed: false };

fn back_to(to: RewindTo) -> RewindOrder {
    RewindOrder { to, from: None }
}

fn go_back(world: &World, to: RewindTo) -> Result<(Arc<Filer>, ImportReport), FilerError> {
    world.try_to_go_back(&ImportOptions::default(), back_to(to))
}

fn import(world: &World) -> Arc<Filer> {
    world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap().0
}

fn create(fs: &dyn Vfs, name: &str) -> ObjectRef {
    done(fs.create(ctx(&Cred::root()), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)))).unwrap().object
}

fn write(fs: &dyn Vfs, file: ObjectRef, stability: Stability) -> u64 {
    done(fs.write(ctx(&Cred::root()), file, 0, vec![1; 9000].into(), stability)).unwrap().verifier
}

/// The names in the root directory of a dataset.
fn names(fs: &dyn Vfs) -> Vec<String> {
    ["a", "b", "c", "d", "e", "f", "g", "later"]
        .into_iter()
        .filter(|name| fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).is_ok())
        .map(str::to_owned)
        .collect()
}

/// Files a, b, c …, each made and filled in a group of its own. Gives these groups. Behind the last group there are records of
/// file `later`.
fn groups(filer: &Filer, files: &[&str]) -> Vec<Txg> {
    let fs = vfs(filer);
    let made = files.iter().map(|name| {
        let file = create(&*fs, name);
        write(&*fs, file, Stability::FileSync);
        filer.sync().unwrap()
    });
    let made = made.collect();
    let later = create(&*fs, "later");
    write(&*fs, later, Stability::FileSync);
    made
}

fn newest(world: &World, path: &str) -> Uberblock {
    let slots = uberblock::read_all(world.at(path)).into_iter().filter_map(|slot| slot.content.ok()?);
    slots.max_by_key(Uberblock::rank).unwrap()
}

/// Damages the root block that the newest uberblock names, in both places.
fn lose_the_root(world: &World) {
    let root = world.root_block();
    for dva in root.dvas() {
        world.poke("/disks/data", dva.offset + (256 << 10), &[0x5a; 64]);
    }
}

#[test]
fn what_is_found_is_what_that_group_had() {
    let world = World::new(128 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let made = groups(&filer, &["a", "b", "c", "d", "e", "f"]);
    let given_up = newest(&world.cut(), "/disks/data");
    for (back, expected) in [(1, "abcde"), (2, "abcd"), (3, "abc"), (4, "ab")] {
        let cut = world.cut();
        let to = made[made.len() - 1 - back];
        let (filer, report) = go_back(&cut, RewindTo::Group(to)).unwrap();
        assert_eq!(names(&*vfs(&filer)).concat(), expected);
        let rewind = report.rewind.unwrap();
        assert_eq!((rewind.groups.to.0, rewind.groups.newest()), (to, given_up.txg));
        let dropped: Vec<Txg> = rewind.groups.groups.iter().map(|(txg, _)| *txg).collect();
        assert_eq!(dropped, made.iter().rev().take(back).copied().collect::<Vec<_>>());
        // A create and a write of each file, as far as the ring has them still: the last ones in any case.
        let of_tank = &rewind.records[0];
        assert!(rewind.records.len() == 1 && of_tank.dataset == "tank" && of_tank.count >= 2, "{rewind:?}");
        let (first, last) = of_tank.times.unwrap();
        assert!(first <= last && rewind.groups.to.1 <= last, "{rewind:?}");
        // The new timeline goes on, over a crash and an export.
        create(&*vfs(&filer), "g");
        let filer = import(&cut.cut());
        assert_eq!(names(&*vfs(&filer)).concat(), expected.to_owned() + "g");
        assert!(filer.pool().check_catalog().is_ok());
        filer.export().unwrap();
    }
}

#[test]
fn without_a_number_it_is_the_newest_that_can_be_read() {
    let world = World::new(128 * MIB, 4 * MIB);
    let made = groups(&world.create_without_threads(&Default::default()), &["a", "b", "c"]);
    let cut = world.cut();
    lose_the_root(&cut);
    let refused = cut.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).err().unwrap();
    assert!(refused.to_string().contains("`tally pool import --rewind -n`"), "{refused}");
    let (filer, report) = go_back(&cut, RewindTo::Before).unwrap();
    assert_eq!((names(&*vfs(&filer)).concat(), report.rewind.unwrap().groups.to.0), ("ab".to_owned(), made[1]));
}

/// Who goes back further than what is whole finds what was written over since.
#[test]
fn too_far_is_refused_with_how_far_it_goes() {
    let world = World::new(128 * MIB, 4 * MIB);
    let made = groups(&world.create_without_threads(&Default::default()), &["a", "b", "c", "d", "e", "f"]);
    let cut = world.cut();
    let refused = go_back(&cut, RewindTo::Group(made[0])).err().unwrap().to_string();
    let possible: Vec<_> = made[1..5].iter().rev().map(Txg::to_string).collect();
    assert!(refused.contains(&format!("what is whole are groups {}", possible.join(", "))), "{refused}");
    let refused = go_back(&cut, RewindTo::Group(made[5])).err().unwrap().to_string();
    assert!(refused.contains("without --rewind"), "{refused}");
    // Nothing was written: it is there as it was.
    assert!(cut.is_same(&world));
    assert_eq!(names(&*vfs(&import(&cut))).concat(), "abcdeflater");
}

/// The frees of a group wait for the groups that the uberblock calls whole, and no longer.
#[test]
fn what_an_uberblock_calls_whole_is_not_used_again() {
    let world = World::new(128 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let mut roots = Vec::new();
    for round in 0..10 {
        groups(&filer, &["a"]);
        let fs = vfs(&filer);
        for name in ["a", "later"] {
            done(fs.remove(ctx(&Cred::root()), fs.root(), name.as_bytes())).unwrap();
        }
        roots.push(world.root_block());
        let is_busy: Vec<bool> =
            roots.iter().rev().map(|root| filer.pool().io.allocator().is_busy(&root.dva)).collect();
        let whole = is_busy.iter().take(5).all(|busy| *busy);
        assert!(whole && !is_busy.iter().skip(5).any(|busy| *busy), "{is_busy:?} in round {round}");
    }
}

/// Who was shown one thing and gives up another has not been asked.
#[test]
fn what_has_gone_on_since_it_was_shown_is_left_alone() {
    let world = World::new(128 * MIB, 4 * MIB);
    let made = groups(&world.create_without_threads(&Default::default()), &["a", "b", "c"]);
    let cut = world.cut();
    let (shown, report) = cut.try_to_go_back(&READ_ONLY, back_to(RewindTo::Group(made[1]))).unwrap();
    assert_eq!(names(&*vfs(&shown)).concat(), "ab");
    assert!(cut.is_same(&world), "a look changes nothing");
    drop(shown);
    let from = Some(report.rewind.unwrap().groups.newest());
    import(&cut).export().unwrap();
    let order = RewindOrder { to: RewindTo::Group(made[1]), from };
    let refused = cut.try_to_go_back(&ImportOptions::default(), order).err().unwrap().to_string();
    assert!(refused.contains("look again"), "{refused}");
}

/// Power goes after each write of an import that goes back, and of the next one: what is found is all of the old groups or
/// exactly the one that was asked for, and whoever is behind the claim stays there.
#[test]
fn a_cut_leaves_the_old_or_the_new_and_never_both() {
    let world = World::without_log(128 * MIB);
    let made = groups(&world.create_without_threads(&Default::default()), &["a", "b", "c", "d"]);
    // Else no number of writes would do.
    assert!(go_back(&world.cut(), RewindTo::Group(made[1])).is_ok());
    let mut has_gone_back = false;
    for writes in 0.. {
        let cut = world.cut();
        cut.lose_power_after(writes);
        let is_over = go_back(&cut, RewindTo::Group(made[1])).is_ok();
        let cut = cut.cut();
        cut.tear_uberblock();
        let found = names(&*vfs(&import(&cut))).concat();
        assert!(["abcdlater", "ab"].contains(&found.as_str()), "{found} after {writes} writes");
        assert!(!has_gone_back || found == "ab", "{found} after {writes} writes");
        if found == "ab" && !has_gone_back {
            has_gone_back = true;
            cut_the_next_import_too(&world, made[1], writes);
        }
        if is_over {
            break;
        }
    }
    assert!(has_gone_back);
}

/// The first import behind the claim of one that was cut.
fn cut_the_next_import_too(world: &World, to: Txg, claim: u64) {
    for writes in 0.. {
        let cut = world.cut();
        cut.lose_power_after(claim);
        let _cut_off = go_back(&cut, RewindTo::Group(to));
        let cut = cut.cut();
        cut.lose_power_after(writes);
        let is_over = cut.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).is_ok();
        let cut = cut.cut();
        let filer = import(&cut);
        assert_eq!(names(&*vfs(&filer)).concat(), "ab", "after {writes} writes");
        create(&*vfs(&filer), "g");
        assert_eq!(names(&*vfs(&import(&cut.cut()))).concat(), "abg", "after {writes} writes");
        if is_over {
            return;
        }
    }
}

/// A client wrote and another looked in what was given up: neither may take what comes after for that.
#[test]
fn what_was_shown_in_what_was_given_up_does_not_come_again() {
    let world = World::new(128 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let fs = filer.create_dataset("tank/kept", PropertySet::new(), (0, 0)).unwrap();
    create(&*fs, "a");
    // What it goes back to is the end of an export, of which an import would begin no life.
    filer.export().unwrap();
    let to = newest(&world, "/disks/data").txg;
    let filer = import(&world);
    let fs = filer.by_name("tank/kept").unwrap();
    let file = create(&*fs, "b");
    filer.sync().unwrap();
    // Another life, whose ids lie behind a gap.
    let world = world.cut();
    let filer = import(&world);
    let fs = filer.by_name("tank/kept").unwrap();
    let (verifier, later) = (write(&*fs, file, Stability::Unstable), create(&*fs, "c"));
    let change = fs.getattr(later).unwrap().change;
    let made_later = filer.create_dataset("tank/later", PropertySet::new(), (0, 0)).unwrap();
    let world = world.cut();
    // What was cut in the middle goes on the same way.
    for is_cut in [false, true] {
        let world = world.cut();
        let before = newest(&world, "/disks/data");
        let filer = if is_cut {
            world.lose_power_after(2 * 4);
            assert!(go_back(&world, RewindTo::Group(to)).is_err());
            import(&world.cut())
        } else {
            go_back(&world, RewindTo::Group(to)).unwrap().0
        };
        let fs = filer.by_name("tank/kept").unwrap();
        assert_eq!(names(&*fs).concat(), "a");
        assert!(filer.by_name("tank/later").is_none());
        let again = create(&*fs, "b");
        assert!(again.id > later.id, "{again:?} comes behind {later:?}");
        assert_ne!(write(&*fs, again, Stability::Unstable), verifier);
        let attr = fs.getattr(again).unwrap();
        assert!(attr.change > change, "{attr:?}, {change:?}");
        let root = fs.getattr(fs.root()).unwrap();
        assert!(root.change > change, "{root:?}, {change:?}");
        let made = filer.create_dataset("tank/other", PropertySet::new(), (0, 0)).unwrap();
        assert_ne!(made.dataset(), made_later.dataset());
        assert!(filer.pool().txgs.open() > before.txg);
    }
}

/// A client sends a request again that was carried out in what was given up.
#[test]
fn an_answer_of_what_was_given_up_is_not_given() {
    let world = World::new(128 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let made = groups(&filer, &["a", "b"]);
    let (fs, key) = (vfs(&filer), ReplyKey([7; 40]));
    let cred = Cred::root();
    let asked = OpCtx { reply: Some(key), ..OpCtx::of(&cred) };
    done(fs.create(asked, fs.root(), b"c", &CreateHow::Guarded(mode(0o600)))).unwrap();
    // Once in a root, once in the log alone.
    for is_synced in [false, true] {
        if is_synced {
            filer.sync().unwrap();
        }
        let (filer, _) = go_back(&world.cut(), RewindTo::Group(made[0])).unwrap();
        assert!(vfs(&filer).remembered(&key).is_none());
    }
}

/// A disk of a mirror was away while the pool went back: it has the higher group, and must not win.
#[test]
fn a_disk_that_was_away_does_not_bring_back_what_was_given_up() {
    let mut world = World::of(&[("/disks/one", 96 * MIB), ("/disks/two", 96 * MIB)], "mirror /disks/one /disks/two");
    let made = groups(&world.create_without_threads(&Default::default()), &["a", "b", "c", "d"]);
    for is_cut in [false, true] {
        let mut cut = world.cut();
        let away = cut.take(&["/disks/two"]);
        if is_cut {
            // The label that it found is written again, its claim is durable, and nothing else.
            cut.lose_power_after(4);
            assert!(go_back(&cut, RewindTo::Group(made[1])).is_err());
        } else {
            let (filer, _) = go_back(&cut, RewindTo::Group(made[1])).unwrap();
            create(&*vfs(&filer), "g");
        }
        let mut cut = cut.cut();
        cut.put(away);
        let filer = import(&cut);
        assert_eq!(names(&*vfs(&filer)).concat(), if is_cut { "ab" } else { "abg" });
        // It gets what it has missed.
        let stale = filer.pool().roster.config();
        assert!(stale.vdevs[0].legs.iter().any(|leg| leg.stale_since.is_some()));
    }
    world.take(&["/disks/two"]);
}

/// The power went inside of an uberblock, and the one disk that has it was away while the pool went back: beside it
/// the claim of the others looked like one behind which nothing had followed, since their own groups were older. It counted for nothing, and the given-up group came
/// back over blocks that were being used again.
#[test]
fn a_claim_that_goes_back_is_not_idle_beside_a_disk_with_more() {
    let disks = [("/disks/one", 96 * MIB), ("/disks/two", 96 * MIB), ("/disks/three", 96 * MIB)];
    let world = World::of(&disks, "mirror /disks/one /disks/two /disks/three");
    let filer = world.create_without_threads(&Default::default());
    let made = groups(&filer, &["a", "b", "c"]);
    let before = world.cut();
    filer.sync().unwrap();
    let newer = world.cut().take(&["/disks/two"]);
    let went_back = |writes: u64| {
        let mut cut = before.cut();
        cut.take(&["/disks/two"]);
        cut.lose_power_after(writes);
        let is_whole = go_back(&cut, RewindTo::Group(made[1])).is_ok();
        let mut cut = cut.cut();
        let has_note = |path| label::read(cut.at(path)).is_ok_and(|label| !label.config.rewinds.is_empty());
        let is_claimed = has_note("/disks/one") && has_note("/disks/three");
        cut.put(newer.iter().map(|(path, disk)| (path.clone(), World::copy(disk))).collect());
        let found = names(&*vfs(&import(&cut))).concat();
        (is_whole, is_claimed, found)
    };
    let (mut has_gone, mut writes) = (false, 0);
    loop {
        let (is_whole, is_claimed, found) = went_back(writes);
        assert!(found == "ab" || !is_claimed && !has_gone, "after {writes} writes what was given up is back: {found}");
        has_gone |= found == "ab";
        writes += 1;
        if is_whole {
            break;
        }
    }
    assert!(has_gone && writes > 6, "{writes}");
}

/// Where all uberblocks of the new groups are lost, the given-up ones are no way out: what they name is being written over.
#[test]
fn what_was_given_up_is_chosen_by_no_import() {
    let world = World::new(128 * MIB, 4 * MIB);
    let made = groups(&world.create_without_threads(&Default::default()), &["a", "b", "c", "d"]);
    let cut = world.cut();
    let given_up = newest(&cut, "/disks/data");
    go_back(&cut, RewindTo::Group(made[2])).unwrap().0.export().unwrap();
    let cut = cut.cut();
    let found: Vec<_> = uberblock::read_all(cut.at("/disks/data"));
    for slot in found {
        if slot.content.is_ok_and(|found| found.is_some_and(|found| found.open_gen > given_up.open_gen)) {
            for path in ["/disks/data", "/disks/slog"] {
                let size = |path| cut.content_of(path).len() as u64;
                let from_end = slot.offset >= size("/disks/data") / 2;
                let shift = if from_end { size("/disks/data") - size(path) } else { 0 };
                cut.poke(path, slot.offset - shift + 64, &[0x5a; 64]);
            }
        }
    }
    let refused = cut.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).err().unwrap();
    assert!(refused.to_string().contains("would be lost without a word"), "{refused}");
    let (filer, report) = go_back(&cut, RewindTo::Before).unwrap();
    assert!(!report.rewind.expect("it went back").groups.is_sure(), "two groups behind it cannot be read");
    assert_eq!(names(&*vfs(&filer)).concat(), "abc");
}

/// Twice, the second time behind the first one's group.
#[test]
fn it_goes_back_again_to_before_where_it_went_back_to() {
    let world = World::new(128 * MIB, 4 * MIB);
    let made = groups(&world.create_without_threads(&Default::default()), &["a", "b", "c", "d", "e", "f"]);
    let cut = world.cut();
    let (filer, _) = go_back(&cut, RewindTo::Group(made[3])).unwrap();
    write(&*vfs(&filer), create(&*vfs(&filer), "g"), Stability::FileSync);
    filer.sync().unwrap();
    let cut = cut.cut();
    let (filer, report) = go_back(&cut, RewindTo::Group(made[1])).unwrap();
    assert_eq!(names(&*vfs(&filer)).concat(), "ab", "{report:?}");
    let cut = cut.cut();
    assert_eq!(names(&*vfs(&import(&cut))).concat(), "ab");
}
