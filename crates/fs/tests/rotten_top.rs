//! A single disk, one sector of it rotten: each in turn. It costs the file that has its only bytes there, or remembered
//! answers; never the pool, for whose own blocks there is a second place. What it costs is named. Only a sector of the log that
//! has the only copy of what a client was told is stable refuses the import, until somebody accepts that loss.
//!
//! The root block, each space map, each list of what was freed, and each node of a tree used to be there once, and each
//! of them was enough to lose what hangs from it. The answers that are remembered for clients who ask twice, and which
//! take up to 64 blocks, used to be able to keep the pool from everybody. Labels and uberblocks have always been there
//! several times; a scrub sees to it that they still are.

mod world;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use tally_base::{SECTOR, Wait};
use tally_fs::filer::{Filer, FilerError, ImportOptions, ImportReport};
use tally_fs::inspect::FsWords;
use tally_members::discover::ImportSource;
use tally_members::label::{LABEL_BYTES, UBERBLOCK_RING_OFFSET};
use tally_members::uberblock;
use tally_store::bp::BlockPtr;
use tally_store::inspect::{Fact, Plan, Value, inspect};
use tally_store::key::Class;
use tally_store::pool::OpenError;
use tally_store::properties::PropertySet;
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, Identity, Names, OpCtx, Outcome, Replies, ReplyKey, Stability};
use world::{World, content, ctx, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
const DISK: &str = "/disks/data";
const CLIENTS: u8 = 40;
const ACCEPT: ImportOptions = ImportOptions { force: false, read_only: false, accept_loss: true, destroyed: false };
const READ_ONLY: ImportOptions = ImportOptions { force: false, read_only: true, accept_loss: false, destroyed: false };

fn key(client: u8) -> ReplyKey {
    let mut key = [0; 40];
    (key[0], key[20]) = (client, 1);
    ReplyKey(key)
}

fn name(client: u8) -> String {
    format!("of-{client}")
}

/// Forty clients have made a file each, and may ask again; all of it is in the pool, and some space was freed.
fn furnished() -> World {
    furnish(&World::without_log(16 * MIB))
}

fn furnish(world: &World) -> World {
    let filer = world.create_without_threads(&Default::default());
    let (fs, cred) = (vfs(&filer), Cred::root());
    let how = CreateHow::Guarded(mode(0o600));
    // Nobody syncs or writes frames by itself here: an unstable write waits for nothing.
    for client in 0..CLIENTS {
        let context = OpCtx { reply: Some(key(client)), ..OpCtx::of(&cred) };
        let file = fs.create(context, fs.root(), name(client).as_bytes(), &how).result.unwrap().object;
        let data = Bytes::from(vec![client; 5000]);
        fs.write(ctx(&cred), file, 0, data, Stability::Unstable).result.unwrap();
    }
    filer.sync().unwrap();
    fs.remove(ctx(&cred), fs.root(), name(0).as_bytes()).result.unwrap();
    filer.sync().unwrap();
    world.cut()
}

type Imported = Result<(std::sync::Arc<Filer>, ImportReport), FilerError>;

fn import(world: &World, at: u64, options: &ImportOptions) -> (World, Imported) {
    let rotten = world.cut();
    let sector = &world.content_of(DISK)[at as usize..][..SECTOR];
    let byte = sector.iter().position(|byte| *byte != 0).unwrap();
    rotten.poke(DISK, at + byte as u64, &[sector[byte] ^ 0x10]);
    let imported = rotten.try_import_without_threads(&Tuning::default(), options);
    (rotten, imported)
}

/// Files that can be read. The others must say that they cannot.
fn readable(filer: &Filer) -> usize {
    let (fs, cred) = (vfs(filer), Cred::root());
    let read = |client: u8| -> Result<Vec<u8>, FsError> {
        let found = fs.lookup(&cred, fs.root(), name(client).as_bytes())?;
        Ok(fs.read(&cred, found.0.object, 0, 10_000)?.data.concat())
    };
    let right = |client: &u8| match read(*client) {
        Ok(data) => {
            assert_eq!(data, vec![*client; 5000]);
            true
        }
        Err(error) => {
            assert_eq!(error, FsError::Io, "client {client}'s file is not gone");
            false
        }
    };
    (1..CLIENTS).filter(right).count()
}

fn remembered(filer: &Filer) -> usize {
    let fs = filer.by_name("tank").unwrap();
    (0..CLIENTS).filter(|client| fs.remembered(&key(*client)).is_some()).count()
}

/// The sectors of the disk that somebody has written, behind the front label and before the other one.
fn written(world: &World) -> Vec<u64> {
    let content = world.content_of(DISK);
    let blocks = LABEL_BYTES..content.len() as u64 - LABEL_BYTES;
    let sectors = content.chunks(SECTOR).zip(0..).filter(|(sector, _)| sector.iter().any(|byte| *byte != 0));
    sectors.map(|(_, number)| number * SECTOR as u64).filter(|at| blocks.contains(at)).collect()
}

#[test]
fn one_rotten_sector_costs_what_stood_in_it_alone() {
    let world = furnished();
    let written = written(&world);
    let (mut whole, mut buckets) = (0, 0);
    for at in &written {
        let (rotten, seen) = import(&world, *at, &READ_ONLY);
        let (filer, report) = seen.unwrap_or_else(|error| panic!("{at:#x}, only to be read: {error}"));
        assert!(rotten.is_same(&import(&world, *at, &READ_ONLY).0), "looking changes nothing");
        let found = readable(&filer);
        assert!(found + 1 >= usize::from(CLIENTS) - 1, "{at:#x}: {found} files are left");
        whole += usize::from(found == usize::from(CLIENTS) - 1);
        let said = report.remarks.join("; ");
        let mut lost_answers = 0;
        if said.contains("reply cache") {
            lost_answers = usize::from(CLIENTS) - remembered(&filer);
            assert!((1..10).contains(&lost_answers), "{at:#x}: {lost_answers} answers lost");
            buckets += 1;
        } else {
            assert_eq!((remembered(&filer), &*said), (usize::from(CLIENTS), ""), "{at:#x}");
        }
        let (rotten, imported) = import(&world, *at, &ImportOptions::default());
        let (filer, _) = imported.unwrap_or_else(|error| panic!("{at:#x}: {error}"));
        assert_eq!(remembered(&filer), usize::from(CLIENTS) - lost_answers);
        for _ in 0..3 {
            filer.sync().unwrap_or_else(|error| panic!("{at:#x}: {error}"));
        }
        assert_eq!((readable(&filer), filer.pool().io.allocator().bad_free_count()), (found, 0), "{at:#x}");
        assert_eq!(
            unnamed(&filer, 1..CLIENTS),
            Vec::<String>::new(),
            "{at:#x}: they cannot be read, and nobody says so"
        );
        // What was told once is mended: the damage is not named by anything any more.
        let (_, report) = rotten.cut().try_import_without_threads(&Tuning::default(), &READ_ONLY).unwrap();
        assert_eq!(report.remarks.join("; "), "", "{at:#x}");
    }
    println!("0 of {} sectors refuse, where no frame of the log is live", written.len());
    assert!(whole > written.len() / 2, "{whole} of {} rotten sectors cost no file", written.len());
    assert!(buckets > 10, "{buckets} buckets were met of {} sectors", written.len());
}

/// Files whose content is what a client wrote.
fn right(filer: &Filer, clients: Range<u8>) -> BTreeSet<u8> {
    let (fs, cred) = (vfs(filer), Cred::root());
    let read = |client: u8| -> Result<Vec<u8>, FsError> {
        let found = fs.lookup(&cred, fs.root(), name(client).as_bytes())?;
        Ok(fs.read(&cred, found.0.object, 0, 10_000)?.data.concat())
    };
    clients.filter(|client| read(*client).is_ok_and(|data| data == vec![*client; 5000])).collect()
}

/// Of these files those that cannot be read, and of which no report says so.
fn unnamed(filer: &Filer, clients: Range<u8>) -> Vec<String> {
    let wrong: Vec<u8> = clients.clone().filter(|client| !right(filer, clients.clone()).contains(client)).collect();
    let places = filer.by_name("tank").unwrap().damage_report().places;
    let paths: BTreeSet<_> = places.iter().filter_map(|place| place.path.clone()).collect();
    wrong.into_iter().map(|client| format!("/{}", name(client))).filter(|path| !paths.contains(path)).collect()
}

/// Sectors of both labels that somebody has written: configurations and uberblocks.
fn written_in_labels(world: &World) -> Vec<u64> {
    let content = world.content_of(DISK);
    let blocks = LABEL_BYTES..content.len() as u64 - LABEL_BYTES;
    let sectors = content.chunks(SECTOR).zip(0..).filter(|(sector, _)| sector.iter().any(|byte| *byte != 0));
    sectors.map(|(_, number)| number * SECTOR as u64).filter(|at| !blocks.contains(at)).collect()
}

/// A sector of a label costs nothing, and an inspection names it. The import writes configurations anew, and uberblocks in their
/// turn; what it has not is found by a scrub.
#[test]
fn one_rotten_sector_of_a_label_costs_nothing() {
    let world = furnished();
    let written = written_in_labels(&world);
    let (mut named, mut anew, mut old) = (0, 0, 0);
    for at in &written {
        let (rotten, _) = import(&world, *at, &READ_ONLY);
        let told = damage_told(&rotten);
        assert!(told.len() == 1 && told[0].contains(&format!("{at:#x}")), "{at:#x}: {told:?}");
        let (rotten, imported) = import(&world, *at, &ImportOptions::default());
        let (filer, report) = imported.unwrap_or_else(|error| panic!("{at:#x}: {error}"));
        let all = usize::from(CLIENTS);
        assert_eq!((readable(&filer), remembered(&filer), report.losses.len()), (all - 1, all, 0), "{at:#x}");
        let is_as_it_was = rotten.content_of(DISK)[*at as usize..][..SECTOR] == rotten_sector(&world, *at);
        let scrubbed = filer.scrub(&mut |_| true).unwrap();
        assert_eq!(scrubbed.lost_count, 0, "{at:#x}: {scrubbed:?}");
        named += scrubbed.repaired_count;
        anew += u64::from(!is_as_it_was);
        let again = filer.scrub(&mut |_| true).unwrap();
        assert_eq!((again.repaired_count, again.lost_count), (0, 0), "{at:#x}: {again:?}");
        let told = damage_told(&rotten);
        if is_of_uberblocks(&world, *at) {
            // The import has made newer ones, and nobody needs it: it is written over in its turn. Until then an inspection names it.
            old += 1;
            let is_there = rotten.content_of(DISK)[*at as usize..][..SECTOR] == rotten_sector(&world, *at);
            assert_eq!(told.len(), usize::from(is_there), "{at:#x}: {told:?}");
        } else {
            assert!(scrubbed.repaired_count == 1 || !is_as_it_was, "{at:#x} is rotten, and nobody says so");
            assert_eq!(told, Vec::<String>::new(), "{at:#x}");
        }
    }
    println!(
        "0 of {} sectors of labels refuse: {named} named by a scrub, {anew} written anew by the import, {old} of old uberblocks",
        written.len()
    );
    assert!(anew >= 4 && old >= 4, "{anew} of configurations and {old} of uberblocks");
}

fn rotten_sector(world: &World, at: u64) -> Vec<u8> {
    let mut sector = world.content_of(DISK)[at as usize..][..SECTOR].to_vec();
    let byte = sector.iter().position(|byte| *byte != 0).unwrap();
    sector[byte] ^= 0x10;
    sector
}

/// Whether uberblocks stand there, and no configuration.
fn is_of_uberblocks(world: &World, at: u64) -> bool {
    let back = world.content_of(DISK).len() as u64 - LABEL_BYTES;
    at.checked_sub(back).unwrap_or(at) >= UBERBLOCK_RING_OFFSET
}

/// Whose files are in the log alone.
const IN_THE_LOG: Range<u8> = CLIENTS..CLIENTS + 8;

/// Behind forty clients whose files are in the pool, eight were told that theirs are stable, and no group has come since.
fn with_live_frames() -> World {
    let world = furnished();
    let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    let (fs, cred) = (vfs(&filer), Cred::root());
    for client in IN_THE_LOG {
        let how = CreateHow::Guarded(mode(0o600));
        let file = kept(fs.create(ctx(&cred), fs.root(), name(client).as_bytes(), &how)).object;
        kept(fs.write(ctx(&cred), file, 0, Bytes::from(vec![client; 5000]), Stability::FileSync));
    }
    world.cut()
}

/// What is answered when it is durable: whoever waits writes the frame.
fn kept<T>(outcome: Outcome<T>) -> T {
    if let Wait::On(promise) = outcome.wait {
        let fate = promise.drive().or_else(|| promise.poll());
        assert!(fate.is_some_and(|fate| fate.is_ok()), "it is kept");
    }
    outcome.result.unwrap()
}

/// The log in the pool has live frames, and a sector of those is the only copy of what stands in it. All frames but the last one
/// have a witness: where one of them rots the import is refused, and says which records are gone; who accepts that loses those
/// and what came behind them, and nothing else. The last one is cut, as is one that was torn.
#[test]
fn one_rotten_sector_of_a_live_frame_refuses_until_its_loss_is_accepted() {
    let world = with_live_frames();
    let written = written(&world);
    let last = IN_THE_LOG.end - 1;
    let (mut refused, mut cut) = (0, 0);
    for at in &written {
        let (rotten, imported) = import(&world, *at, &ImportOptions::default());
        let (filer, may_lose) = match imported {
            Ok((filer, report)) => {
                assert_eq!(report.losses, Vec::<String>::new(), "{at:#x}");
                (filer, last..last + 1)
            }
            Err(FilerError::Open(OpenError::LogLost { report })) => {
                refused += 1;
                assert!(report.contains("records"), "{at:#x}: {report}");
                let accepted = rotten.try_import_without_threads(&Tuning::default(), &ACCEPT);
                let (filer, accepted) = accepted.unwrap_or_else(|error| panic!("{at:#x}: {error}"));
                // The replay may find more that is lost with it.
                assert!((accepted.losses.join("\n") + "\n").starts_with(&report), "{at:#x}: {accepted:?}");
                let left = right(&filer, IN_THE_LOG);
                assert!(left.len() < IN_THE_LOG.len(), "{at:#x} had no only copy, and the import was refused");
                assert!(left.iter().copied().eq(IN_THE_LOG.take(left.len())), "{at:#x}: {left:?} are left");
                (filer, IN_THE_LOG)
            }
            Err(error) => panic!("{at:#x}: {error}"),
        };
        let stays = || (1..IN_THE_LOG.end).filter(|client| !may_lose.contains(client));
        let right = right(&filer, 1..IN_THE_LOG.end);
        let wrong: Vec<u8> = stays().filter(|client| !right.contains(client)).collect();
        assert!(wrong.len() <= 1, "{at:#x}: {wrong:?} cannot be read");
        for client in wrong {
            assert_eq!(unnamed(&filer, client..client + 1), Vec::<String>::new(), "{at:#x}");
        }
        cut += u32::from(may_lose.len() == 1 && !right.contains(&last) && unnamed(&filer, last..last + 1).len() == 1);
        for _ in 0..3 {
            filer.sync().unwrap_or_else(|error| panic!("{at:#x}: {error}"));
        }
    }
    println!(
        "{refused} of {} sectors refuse, as they are the only copy; {cut} were cut off as the last frame",
        written.len()
    );
    // Two frames for each of the eight, but for the last one of all: one sector each, or two.
    assert!(refused >= 2 * IN_THE_LOG.len() - 1, "{refused} of {}", written.len());
    assert!((1..=2).contains(&cut), "{cut} sectors of the last frame");
}

/// Damage that an inspection of everything tells of, one line each; and all facts.
fn inspected(world: &World, verbose: bool) -> (Vec<String>, Vec<Fact>) {
    let source = ImportSource { paths: vec![DISK.into()], dirs: vec![] };
    let plan = Plan { trees: vec!["tank".into()], space: true, verbose, ..Plan::default() };
    let mut facts = Vec::new();
    inspect(&*world.platform().opener, &source, &plan, &FsWords, &mut |fact| facts.push(fact.clone())).unwrap();
    (facts.iter().filter(|fact| fact.is_damage()).map(Fact::to_string).collect(), facts)
}

fn damage_told(world: &World) -> Vec<String> {
    inspected(world, false).0
}

/// What much hangs from has two places; on a single disk names and inodes have, too; what stands for few files has one.
#[test]
fn what_lies_in_two_places() {
    let disks = [(DISK, 16 * MIB), ("/disks/other", 16 * MIB)];
    for (vdevs, is_single) in [("/disks/data", true), ("mirror /disks/data /disks/other", false)] {
        let count = if is_single { 1 } else { 2 };
        let world = furnish(&World::of(&disks[..count], vdevs));
        let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
        let (fs, cred) = (vfs(&filer), Cred::root());
        let small = fs.create(ctx(&cred), fs.root(), b"small", &CreateHow::Guarded(mode(0o600))).result.unwrap().object;
        fs.write(ctx(&cred), small, 0, Bytes::from_static(b"small"), Stability::Unstable).result.unwrap();
        filer.sync().unwrap();
        assert!(world.root_block().copy.is_some());
        // Each block, its height, and the class of its entries.
        let mut blocks: Vec<(BlockPtr, u8, Option<Class>)> = Vec::new();
        filer.pool().datasets()[0].root().tree.check(&filer.pool().io, &mut |visit| match visit {
            Visit::Block { bp, height, .. } => blocks.push((*bp, height, None)),
            Visit::Entry { key, .. } => blocks.last_mut().unwrap().2 = Some(key.class),
            Visit::Damage { .. } => panic!("{vdevs}: damage"),
        });
        for (bp, height, class) in &blocks {
            let is_twice = *height > 0 || is_single && *class != Some(Class::Small);
            assert_eq!(bp.copy.is_some(), is_twice, "{vdevs}: {bp}, {class:?}");
        }
        assert!(blocks.iter().any(|(_, height, _)| *height > 0));
        assert!(blocks.iter().any(|(_, _, class)| *class == Some(Class::Small)));
    }
}

/// Each place of everything that has two is told of when it alone is wrong.
#[test]
fn an_inspection_names_the_place_that_is_wrong() {
    let world = furnished();
    let (_, facts) = inspected(&world, true);
    let text = |value: &Value| if let Value::Text(text) = value { text.clone() } else { panic!("{value:?}") };
    let mut found = BTreeSet::new();
    for fact in &facts {
        let Some((_, copy)) = fact.fields.iter().find(|(name, _)| *name == "copy") else { continue };
        let copy = text(copy);
        let copy = copy.split(['x', '+']).nth(1).and_then(|offset| u64::from_str_radix(offset, 16).ok()).unwrap();
        for at in [fact.source.as_ref().unwrap().offset, LABEL_BYTES + copy] {
            let rotten = world.cut();
            rotten.poke(DISK, at, &[0x5a; 64]);
            let (told, _) = inspected(&rotten, false);
            let words = [format!("{at:#x}"), "its other copy is right".to_owned()];
            assert!(told.len() == 1 && words.iter().all(|word| told[0].contains(word)), "{fact}: {told:#?}");
        }
        found.insert(fact.what);
    }
    let twice = ["pool root", "space index", "space map", "deferred frees", "catalog leaf", "node", "leaf"];
    assert_eq!(found, BTreeSet::from(twice));
}

/// Both places of the list of datasets are wrong. No import gets by without it; a pool that is imported knows it by heart, and
/// once a scrub has told, the next group writes it anew.
#[test]
fn a_catalog_that_rots_while_the_pool_is_imported_is_written_anew() {
    let world = furnished();
    let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    filer.create_dataset("tank/other", PropertySet::new(), (0, 0)).unwrap();
    let (_, facts) = inspected(&world, true);
    let leaf = facts.iter().find(|fact| fact.what == "catalog leaf").unwrap();
    let copy = leaf.fields.iter().find(|(name, _)| *name == "copy").unwrap().1.to_string();
    let copy = copy.trim_matches('"').split(['x', '+']).nth(1).and_then(|at| u64::from_str_radix(at, 16).ok()).unwrap();
    for at in [leaf.source.as_ref().unwrap().offset, LABEL_BYTES + copy] {
        world.poke(DISK, at, &[0x5a; 64]);
    }
    for options in [ImportOptions::default(), READ_ONLY] {
        let refused = world.cut().try_import_without_threads(&Tuning::default(), &options).map(drop).unwrap_err();
        assert!(refused.to_string().contains("the catalog of the pool's datasets cannot be read"), "{refused}");
    }
    let told = damage_told(&world);
    assert!(told.len() == 1 && told[0].contains("catalog leaf"), "{told:#?}");
    filer.pool().io.drop_cache();
    let report = filer.scrub(&mut |_| true).unwrap();
    assert_eq!((report.lost_count, report.lost[0].dataset), (1, None), "{report:?}");
    filer.sync().unwrap();
    assert_eq!(damage_told(&world), Vec::<String>::new());
    assert_eq!(filer.scrub(&mut |_| true).unwrap().lost_count, 0);
    let (again, _) = world.cut().try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    assert!(again.by_name("tank/other").is_some() && readable(&again) == usize::from(CLIENTS) - 1);
    for _ in 0..3 {
        filer.sync().unwrap();
    }
    assert_eq!((filer.pool().io.leak_count(), filer.pool().io.allocator().bad_free_count()), (0, 0));
}

/// Both places of a list of what a group had freed are wrong. The import goes on without it, which costs the space that the
/// list names. One line of that import said so; whoever looked at the pool later read that nothing is wrong with it.
#[test]
fn a_list_of_frees_that_cannot_be_read_is_counted_as_lost_space() {
    let world = furnished();
    let (_, facts) = inspected(&world, true);
    let list = facts.iter().find(|fact| fact.what == "deferred frees").unwrap();
    let copy = list.fields.iter().find(|(name, _)| *name == "copy").unwrap().1.to_string();
    let copy = copy.trim_matches('"').split(['x', '+']).nth(1).and_then(|at| u64::from_str_radix(at, 16).ok()).unwrap();
    for at in [list.source.as_ref().unwrap().offset, LABEL_BYTES + copy] {
        world.poke(DISK, at, &[0x5a; 64]);
    }
    for options in [READ_ONLY, ImportOptions::default()] {
        let (filer, report) = world.cut().try_import_without_threads(&Tuning::default(), &options).unwrap();
        assert!(report.remarks.len() == 1 && report.remarks[0].contains("stays in use"), "{:?}", report.remarks);
        assert_eq!(filer.pool().io.leak_count(), 1);
    }
}

/// What one place of a block has lost is told by an inspection, and given to it again by a scrub.
#[test]
fn a_scrub_restores_a_copy_from_the_other_one() {
    let world = furnished();
    let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    let (mut blocks, mut copies) = (Vec::new(), 0);
    filer.pool().datasets()[0].root().tree.check(&filer.pool().io, &mut |visit| {
        if let Visit::Block { bp, .. } = visit {
            blocks.push(*bp);
        }
    });
    for bp in blocks.iter().filter(|bp| bp.copy.is_some()) {
        for dva in bp.dvas() {
            copies += 1;
            world.poke(DISK, LABEL_BYTES + dva.offset + 40, &[0x5a; 64]);
            let told = damage_told(&world);
            assert!(told.len() == 1 && told[0].contains("its other copy is right"), "{bp}: {told:#?}");
            let report = filer.scrub(&mut |_| true).unwrap();
            assert_eq!((report.repaired_count, report.lost_count), (1, 0), "{bp}: {report:?}");
            assert_eq!(damage_told(&world), Vec::<String>::new(), "{bp}");
        }
    }
    assert!(copies >= 8, "{copies} copies in {} blocks", blocks.len());
    assert_eq!(filer.pool().io.unrepaired_count(), 0);
}

/// Three of four slots of a label, or the other label's uberblocks, are no longer there when somebody needs them: a scrub is
/// who looks.
#[test]
fn a_scrub_makes_labels_and_uberblocks_whole() {
    let world = World::of(&[(DISK, 16 * MIB), ("/disks/other", 16 * MIB)], "mirror /disks/data /disks/other");
    let filer = world.create_without_threads(&Default::default());
    filer.sync().unwrap();
    let (end, slot) = (16 * MIB - LABEL_BYTES, 64 << 10);
    for offset in [0, slot, end, end + slot] {
        for at in [offset + 20, offset + 200] {
            world.poke(DISK, at, &[0x5a; 8]);
            let report = filer.scrub(&mut |_| true).unwrap();
            assert_eq!((report.repaired_count, report.lost_count), (1, 0), "{at:#x}: {report:?}");
            let again = filer.scrub(&mut |_| true).unwrap();
            assert_eq!((again.repaired_count, again.lost_count), (0, 0), "{at:#x}: {again:?}");
        }
    }
    // An older configuration in the place of the newest: a write that was lost.
    let old = world.content_of(DISK)[end as usize..][..2 * slot as usize].to_vec();
    filer.pool().roster.set_failmode(tally_members::label::FailMode::Continue).unwrap();
    world.poke(DISK, end, &old);
    assert_eq!(filer.scrub(&mut |_| true).unwrap().repaired_count, 1);
    // A slot that nothing was written to, and one that another disk's label was written to.
    let newest = end + filer.pool().roster.config().sequence % 2 * slot;
    for from in [None, Some("/disks/other")] {
        let content = from.map(|path| world.content_of(path)[newest as usize..][..slot as usize].to_vec());
        world.poke(DISK, newest, &content.unwrap_or_else(|| vec![0; slot as usize]));
        assert_eq!(filer.scrub(&mut |_| true).unwrap().repaired_count, 1);
    }
    // The newest uberblock was not written to one of its slots.
    let before = world.content_of(DISK);
    filer.sync().unwrap();
    let newest = uberblock::slot_offsets(16 * MIB, filer.pool().txgs.last_synced()).unwrap()[1];
    world.poke(DISK, newest, &before[newest as usize..][..SECTOR]);
    assert_eq!(filer.pool().secure_uberblocks().unwrap().repaired.len(), 1);
    for copy in 0..2 {
        // The group with which a scrub begins has the slot behind that one; one before the newest is damaged.
        let txg = filer.pool().txgs.last_synced();
        let places = uberblock::slot_offsets(16 * MIB, txg).unwrap();
        world.poke(DISK, places[copy] + 100, &[0x5a; 8]);
        let report = filer.scrub(&mut |_| true).unwrap();
        assert_eq!((report.repaired_count, report.lost_count), (1, 0), "{copy}: {report:?}");
        assert!(filer.pool().roster.damaged_uberblocks(|| filer.pool().txgs.last_synced()).is_empty());
    }
    let errors = filer.pool().roster.vdevs()[0].legs()[0].errors();
    assert_eq!((errors.checksum, errors.repaired), (14, 14), "{errors:?}");
    filer.export().unwrap();
    drop(filer);
    for path in [DISK, "/disks/other"] {
        let mut alone = world.cut();
        alone.take(&[path]);
        alone.import();
    }
}

/// A scrub was about to give one place of a node what the other one has, and its dataset was destroyed meanwhile: the place
/// had been given to a file by then, and the node was written over that (rules S4).
#[test]
fn a_scrub_writes_to_no_place_that_was_given_to_another() {
    let world = World::without_log(64 * MIB);
    let filer = world.create();
    let child = filer.create_dataset("tank/child", PropertySet::new(), (0, 0)).unwrap();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let how = CreateHow::Guarded(mode(0o600));
    // So many names that what is free behind them is long enough for a run.
    for number in 0..8000 {
        let name: String = noise(220, number).iter().map(|byte| char::from(b'0' + byte % 64)).collect();
        patient(|| child.create(ctx(&cred), child.root(), name.as_bytes(), &how)).unwrap();
    }
    let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &how)).unwrap().object;
    filer.sync().unwrap();
    let mut nodes = Vec::new();
    filer.pool().dataset(child.info().id).unwrap().root().tree.check(&filer.pool().io, &mut |visit| {
        if let Visit::Block { bp, .. } = visit {
            nodes.push(*bp);
        }
    });
    let node = nodes[nodes.len() / 2];
    let at = LABEL_BYTES + node.copy.unwrap().offset;
    world.poke(DISK, at + 40, &[0x5a; 64]);
    let stands_there = || world.content_of(DISK)[at as usize..][..SECTOR].to_vec();
    let rotten = stands_there();
    let mut parts = 0;
    filer
        .scrub(&mut |_| {
            if parts == 0 && filer.pool().roster.vdevs()[0].legs()[0].errors().checksum > 0 {
                filer.destroy_dataset("tank/child", false).unwrap();
                while parts < 24 && stands_there() == rotten {
                    let data = noise(MIB as usize, parts);
                    patient(|| fs.write(ctx(&cred), file, parts * MIB, data.clone(), Stability::FileSync)).unwrap();
                    parts += 1;
                    filer.sync().unwrap();
                }
            }
            true
        })
        .unwrap();
    assert!(parts > 0, "the damage was met");
    filer.pool().io.drop_cache();
    let expected: Vec<u8> = (0..parts).flat_map(|part| noise(MIB as usize, part)).collect();
    assert!(content(&*fs, file) == expected);
}

/// The only disk refused what a scrub gave to one place of a block. Nothing was lost, and the pool was suspended for it.
#[test]
fn a_place_that_takes_nothing_ends_no_pool() {
    let world = furnished();
    let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    let node = *filer.pool().datasets()[0].root().tree.root().unwrap();
    world.poke(DISK, LABEL_BYTES + node.copy.unwrap().offset + 40, &[0x5a; 64]);
    let faults = world.faults(DISK);
    let scrub = |refuses: bool| {
        let before = filer.pool().roster.vdevs()[0].legs()[0].errors().checksum;
        let report = filer.scrub(&mut |_| {
            let is_met = filer.pool().roster.vdevs()[0].legs()[0].errors().checksum > before;
            faults.writes.store(refuses && is_met, SeqCst);
            true
        });
        faults.writes.store(false, SeqCst);
        report.map(|report| (report.repaired_count, report.lost_count))
    };
    assert_eq!(scrub(true).unwrap(), (0, 1));
    filer.sync().unwrap();
    assert_eq!(scrub(false).unwrap(), (1, 0));
}

/// A disk of which an uberblock was damaged refused the next one, and was struck off: nothing of it was repaired.
#[test]
fn what_is_struck_off_counts_as_repaired_by_nobody() {
    let world = World::of(&[(DISK, 16 * MIB), ("/disks/other", 16 * MIB)], "mirror /disks/data /disks/other");
    let filer = world.create_without_threads(&Default::default());
    filer.sync().unwrap();
    let places = uberblock::slot_offsets(16 * MIB, filer.pool().txgs.last_synced()).unwrap();
    world.poke(DISK, places[0] + 100, &[0x5a; 8]);
    world.faults(DISK).durable_writes.store(true, SeqCst);
    let slots = filer.pool().secure_uberblocks().unwrap();
    assert_eq!(filer.pool().roster.vdevs()[0].legs().iter().filter(|leg| leg.takes_writes()).count(), 1);
    assert_eq!((slots.repaired.len(), slots.lost.len()), (0, 1), "{slots:?}");
}
