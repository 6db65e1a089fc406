//! A pool with ten thousand datasets: making one more, or changing a property, must cost what it costs among a few.
//!
//! It did not: each command looked every dataset's directory up, and every transaction group folded and published all of
//! them anew, so that among two thousand a `dataset create` took twenty milliseconds of processor time.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tally_base::{DatasetId, Dseq, Generation, ObjectId, SECTOR, Txg};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::Filesystem;
use tally_fs::filer::{Filer, ImportOptions};
use tally_fs::inspect::FsWords;
use tally_members::discover::ImportSource;
use tally_members::label::LABEL_BYTES;
use tally_store::dataset::{Dataset, DatasetBirth, DatasetLine, DatasetRoot};
use tally_store::inspect::{Plan, inspect};
use tally_store::properties::{Compression, Property, PropertySet, effective, parse};
use tally_store::tree::Tree;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FIRST_ID, Stability};
use world::{Event, World, ctx, mode, noise, vfs};

const MANY: u64 = 10_000;
const MIB: u64 = 1 << 20;
/// Of the pools in which groups are looked at.
const DISK_BYTES: u64 = 256 * MIB;

/// Adds so many empty datasets at once, as many commands would.
fn add_many(filer: &Filer, count: u64) {
    add_many_below(filer, "tank", count);
}

fn add_many_below(filer: &Filer, parent: &str, count: u64) {
    let tank = filer.pool().dataset(filer.by_name(parent).unwrap().info().id).unwrap();
    let line = |number| DatasetLine { parent: tank.birth.id, name: format!("many-{number}"), ..tank.line() };
    let added = filer.pool().administer(|pool, _| {
        for number in 0..count {
            // Entries that are like each other would be compressed to nothing.
            let drawn = |at: u64| u64::from_le_bytes(noise(8, number * 8 + at)[..].try_into().unwrap());
            let root_generation = Generation(drawn(0));
            let birth = DatasetBirth { id: pool.draw_dataset_id(), name_key: drawn(1), root_generation, ..tank.birth };
            let root = DatasetRoot {
                tree: Tree::empty(),
                object_count: 0,
                verifier: drawn(2),
                replay_dseq: Dseq(drawn(3) >> 4),
                log_from: Txg(drawn(4) >> 4),
                next_object: ObjectId(FIRST_ID + 1 + (drawn(5) >> 4)),
                ..(*tank.root()).clone()
            };
            let name = format!("{parent}/many-{number}");
            pool.add_dataset(Arc::new(Dataset::new(birth, line(number), &name, effective(&[]), root)));
        }
    });
    added.unwrap();
}

/// What a command made the pool do.
#[derive(Debug)]
struct Cost {
    groups: u64,
    /// Blocks that were asked for.
    blocks_read: u64,
    /// Datasets that were folded and published.
    roots_made: u64,
    writes: u64,
    written_bytes: u64,
    flushes: u64,
    /// What was written, by offset and bytes on the disk.
    extents: Vec<(u64, u64)>,
}

fn roots(filer: &Filer) -> Vec<(DatasetId, Arc<DatasetRoot>)> {
    filer.pool().datasets().iter().map(|dataset| (dataset.birth.id, dataset.root())).collect()
}

fn cost_of(world: &World, filer: &Filer, command: impl FnOnce()) -> Cost {
    let blocks_read = || filer.pool().io.cache_stats().iter().map(|stats| stats.hits + stats.misses).sum::<u64>();
    let (read, before, group) = (blocks_read(), roots(filer), filer.pool().txgs.last_synced());
    world.start_journal();
    command();
    let mut cost = Cost {
        groups: filer.pool().txgs.last_synced().0 - group.0,
        blocks_read: blocks_read() - read,
        roots_made: 0,
        writes: 0,
        written_bytes: 0,
        flushes: 0,
        extents: Vec::new(),
    };
    for event in world.end_journal() {
        match event {
            Event::Write { offset, bytes, .. } => {
                cost.writes += 1;
                cost.written_bytes += bytes.len() as u64;
                cost.extents.push((offset, bytes.len() as u64));
            }
            Event::Flush { .. } => cost.flushes += 1,
        }
    }
    let now = roots(filer);
    let is_new = |(id, root): &&(DatasetId, Arc<DatasetRoot>)| {
        let old = before.binary_search_by_key(id, |(id, _)| *id);
        old.map_or(true, |at| !Arc::ptr_eq(&before[at].1, root))
    };
    cost.roots_made = now.iter().filter(is_new).count() as u64;
    cost
}

fn create(filer: &Filer, name: &str) {
    filer.create_dataset(name, PropertySet::new(), (0, 0)).unwrap();
}

#[test]
fn a_command_among_ten_thousand_datasets_costs_what_it_costs_among_a_few() {
    let world = World::new(256 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&Default::default());
    create(&filer, "tank/first");
    // Whether an entry and its inode share a leaf with their neighbours is drawn with each name: two blocks more or less.
    let some = (0..16).map(|number| cost_of(&world, &filer, || create(&filer, &format!("tank/second-{number}"))));
    let few = some.max_by_key(|cost| cost.blocks_read).expect("sixteen");
    add_many(&filer, MANY);
    let other = world.cut();
    drop(filer);
    let (filer, _) = other.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    // What the import changed in all of them.
    filer.sync().unwrap();
    filer.sync().unwrap();
    let many = cost_of(&other, &filer, || create(&filer, "tank/third"));
    println!("{few:?}\n{many:?}");
    assert_eq!((many.groups, many.flushes), (few.groups, few.flushes));
    assert!(many.roots_made <= few.roots_made, "only what has changed is folded: {many:?}");
    assert!(many.blocks_read <= few.blocks_read + 8, "only what is needed is looked up: {many:?}");
    // Of each group's catalog one leaf and the way to it, in two places.
    assert!(many.writes <= few.writes + 4, "{many:?}");
    assert!(many.written_bytes <= few.written_bytes + many.groups * (64 << 10), "{many:?}");

    let value = parse(Property::Compression, "off").unwrap();
    let set = cost_of(&other, &filer, || filer.set_property("tank", value).unwrap());
    assert_eq!((set.groups, set.roots_made), (1, 0), "all inherit it, and none of them is folded");
    assert!(set.blocks_read <= few.blocks_read, "{set:?}");
    let inherits = |name: &str| filer.by_name(name).unwrap().in_force().compression == Compression::Off;
    assert!(inherits("tank/many-9999") && inherits("tank/first"));

    let renamed = cost_of(&other, &filer, || filer.rename_dataset("tank/first", "tank/last").unwrap());
    assert!(renamed.blocks_read <= 4 * few.blocks_read, "{renamed:?}");
    let destroyed = cost_of(&other, &filer, || filer.destroy_dataset("tank/second-0", false).unwrap());
    assert!(destroyed.blocks_read <= 4 * few.blocks_read, "{destroyed:?}");
    assert!(filer.by_name("tank/first").is_none() && filer.by_name("tank/second-0").is_none());

    // The next life finds what this one has left.
    let (again, _) = other.cut().import();
    assert_eq!(again.datasets().len() as u64, MANY + 18);
    assert!(again.by_name("tank/last").is_some() && again.by_name("tank/third").is_some());
    assert_eq!(again.names().subtree("tank/many-77").len(), 1);
}

/// Each group wrote the entries of all datasets with the pool's root: 2.2 MB for ten thousand, and then, as the root has two
/// places, twice that.
#[test]
fn a_group_with_one_write_costs_what_it_costs_in_a_pool_of_one() {
    one_write_among(5_000, 32 << 10, None);
}

/// As many as there are file systems on the largest pools. The bound of time holds in a release build: a debug build looks
/// through all entries in each group.
#[test]
#[ignore = "for who looks at the times: cargo test --release -p tally-fs --test many fifty_thousand -- --ignored --nocapture"]
fn a_group_with_one_write_among_fifty_thousand_costs_a_path_more() {
    let longer_max = if cfg!(debug_assertions) { None } else { Some(LONGER_MAX) };
    one_write_among(50_000, 96 << 10, longer_max);
}

/// How much longer a group may take among many than alone, in a release build.
const LONGER_MAX: Duration = Duration::from_millis(5);

/// Groups of which the median is taken.
const GROUPS: usize = 9;

/// A group with one write in a pool of so many datasets writes so much more than in a pool of one, at most, and takes so much longer.
fn one_write_among(count: u64, bytes_max: u64, longer_max: Option<Duration>) {
    let world = World::without_log(DISK_BYTES);
    let filer = world.create_without_threads(&Default::default());
    let (fs, how) = (vfs(&filer), CreateHow::Guarded(mode(0o644)));
    fs.create(ctx(&Cred::root()), fs.root(), b"file", &how).result.unwrap();
    filer.sync().unwrap();
    let (alone, took_alone) = one_write(&world, &filer);
    add_many(&filer, count);
    filer.sync().unwrap();
    let (among_many, took) = one_write(&world, &filer);
    println!("alone {took_alone:?}, among {count} {took:?} at the median of {GROUPS} groups");
    assert_eq!((among_many.groups, among_many.roots_made), (1, 1));
    assert!(among_many.written_bytes <= alone.written_bytes + bytes_max, "{among_many:?}, alone {alone:?}");
    assert!(longer_max.is_none_or(|longer| took <= took_alone + longer), "{took:?}, alone {took_alone:?}");
    let (again, _) = world.cut().import();
    assert_eq!(again.datasets().len() as u64, count + 1);
}

/// What the last of some groups with one write each did, and how long they took at the median.
fn one_write(world: &World, filer: &Filer) -> (Cost, Duration) {
    let (fs, cred) = (vfs(filer), Cred::root());
    let file = fs.lookup(&cred, fs.root(), b"file").unwrap().0.object;
    // The first groups have what the file's creation, or that of the datasets, has left.
    let mut groups: Vec<_> = (0..GROUPS + 3)
        .map(|_| {
            fs.write(ctx(&cred), file, 0, vec![7; 100].into(), Stability::Unstable).result.map(drop).unwrap();
            let mut took = Duration::ZERO;
            let cost = cost_of(world, filer, || {
                let began = Instant::now();
                filer.sync().map(drop).unwrap();
                took = began.elapsed();
            });
            (cost, took)
        })
        .skip(3)
        .collect();
    let (last, _) = groups.pop().expect("several");
    let kinds = sectors_by_kind(world, &last);
    println!("{last:?}");
    kinds.iter().for_each(|(kind, sectors)| println!("  {sectors} sectors: {kind}"));
    assert_eq!(kinds.values().sum::<u64>() * SECTOR as u64, last.written_bytes, "each sector is of one kind");
    for kind in ["uberblock", "pool root", "catalog leaf"] {
        assert!(kinds.contains_key(kind), "a group without {kind}: {kinds:?}");
    }
    let mut times: Vec<_> = groups.into_iter().map(|(_, took)| took).collect();
    times.sort();
    (last, times[times.len() / 2])
}

/// How many sectors of each kind of block a group wrote, both places of those that have two. What `tally inspect` finds no
/// name for is a list of frees, or what a map is for that is not a tree's.
fn sectors_by_kind(world: &World, group: &Cost) -> BTreeMap<&'static str, u64> {
    let found = places(world);
    let mut sectors = BTreeMap::new();
    for (offset, bytes) in &group.extents {
        let mut kind = "others";
        for at in (*offset..offset + bytes).step_by(SECTOR) {
            let is_label = !(LABEL_BYTES..DISK_BYTES - LABEL_BYTES).contains(&at);
            // A block that is longer than a sector goes on up to the next that is known.
            kind = if is_label { "uberblock" } else { found.get(&at).copied().unwrap_or(kind) };
            *sectors.entry(kind).or_default() += 1;
        }
    }
    sectors
}

/// What begins where, of all that the newest uberblock leads to.
fn places(world: &World) -> BTreeMap<u64, &'static str> {
    let opener = MemOpener::default();
    opener.put("/disks/data", Arc::new(MemDisk::from_bytes(&world.content_of("/disks/data"))) as _);
    let plan = Plan { trees: vec!["tank".into()], space: true, verbose: true, ..Plan::default() };
    let source = ImportSource { paths: vec![], dirs: vec!["/disks".into()] };
    let mut found = BTreeMap::new();
    let outcome = inspect(&opener, &source, &plan, &FsWords, &mut |fact| {
        let is_told = fact.fields.iter().any(|(name, _)| *name == "lsize");
        // An extent's place is that of the leaf in which it stands, and a tree's that of its root, which is told of besides.
        let is_block = is_told && !matches!(fact.what, "extent" | "tree" | "catalog")
            || matches!(fact.what, "pool root" | "reply cache");
        let Some(first) = fact.source.as_ref().filter(|_| is_block) else { return };
        found.insert(first.offset, fact.what);
        let copy = fact.fields.iter().find(|(name, _)| *name == "copy").map(|(_, copy)| copy.to_string());
        if let Some(at) = copy.and_then(|copy| copy_place(&copy)) {
            found.insert(at, fact.what);
        }
    });
    assert_eq!(outcome.unwrap().damage_count, 0);
    found
}

/// Where the second place is on the disk, by the words for it: vdev, offset, bytes.
fn copy_place(words: &str) -> Option<u64> {
    let (_, rest) = words.split_once("0x")?;
    let (offset, _) = rest.split_once('+')?;
    Some(LABEL_BYTES + u64::from_str_radix(offset, 16).ok()?)
}

/// Each dataset had its full name in its entry, so that a rename of one wrote those of all below it.
#[test]
fn a_rename_costs_one_entry_whatever_is_below() {
    let world = World::new(256 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&Default::default());
    ["tank/a", "tank/a/b", "tank/c"].iter().for_each(|name| create(&filer, name));
    add_many_below(&filer, "tank/a/b", 3000);
    let other = world.cut();
    drop(filer);
    let (filer, _) = other.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    let few = cost_of(&other, &filer, || filer.rename_dataset("tank/c", "tank/d").unwrap());
    let many = cost_of(&other, &filer, || filer.rename_dataset("tank/a", "tank/d/e").unwrap());
    println!("{few:?}\n{many:?}");
    assert!(many.written_bytes <= few.written_bytes + (64 << 10), "{many:?}, and of one alone {few:?}");
    let there = |filer: &Filer| {
        assert_eq!(filer.pool().check_catalog(), Ok(()));
        assert_eq!(filer.names().subtree("tank/d/e/b").len(), 3001);
        assert!(filer.by_name("tank/d/e/b/many-2999").is_some() && filer.by_name("tank/a").is_none());
    };
    there(&filer);
    let (again, _) = other.cut().import();
    there(&again);
    let long = "x".repeat(244);
    assert!(again.rename_dataset("tank/d", &format!("tank/{long}")).is_err(), "those below would have too long names");
}

/// The first group of an import and the last of an export gave all entries to the catalog, each a write of all of it.
#[test]
fn an_import_and_an_export_write_no_entry_of_an_idle_dataset() {
    let around = |count: u64| {
        let world = World::without_log(256 * MIB);
        let filer = world.create_without_threads(&Default::default());
        let (fs, how) = (vfs(&filer), CreateHow::Guarded(mode(0o644)));
        fs.create(ctx(&Cred::root()), fs.root(), b"file", &how).result.unwrap();
        add_many(&filer, count);
        filer.sync().unwrap();
        fs.create(ctx(&Cred::root()), fs.root(), b"in the log", &how).wait.block().unwrap();
        let world = world.cut();
        drop(filer);
        let written = |events: Vec<Event>| -> u64 {
            events.iter().map(|event| if let Event::Write { bytes, .. } = event { bytes.len() as u64 } else { 0 }).sum()
        };
        // A replay, an export in good order, and what follows that.
        let mut bytes = Vec::new();
        for _ in 0..2 {
            world.start_journal();
            let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
            bytes.push(written(world.end_journal()));
            world.start_journal();
            filer.export().unwrap();
            bytes.push(written(world.end_journal()));
        }
        bytes
    };
    let (alone, among_many) = (around(1), around(5000));
    println!(
        "bytes of an import with a replay, an export, an import, an export: {alone:?}, among 5000: {among_many:?}"
    );
    for (alone, among_many) in alone.iter().zip(&among_many) {
        assert!(*among_many <= alone + (128 << 10), "{among_many} bytes among many, {alone} alone");
    }
}

/// Of a dataset that nobody uses little is kept: an idle daemon with ten thousand of them is to take 64 MiB more than one
/// with one, and this is most of it.
#[test]
fn a_dataset_that_nobody_uses_takes_little_memory() {
    assert!(size_of::<Filesystem>() <= 2048, "{} bytes", size_of::<Filesystem>());
    assert!(size_of::<Dataset>() <= 512, "{} bytes", size_of::<Dataset>());
}
