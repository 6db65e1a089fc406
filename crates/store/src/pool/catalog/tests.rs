use std::sync::Arc;

use tally_base::{Dseq, Generation, LaneId, ObjectId, SECTOR, Time};
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::numbered;
use tally_members::label::{FeatureLine, FeatureSet, PoolConfig};

use super::*;
use crate::alloc::Allocator;
use crate::bp::Compression;
use crate::dataset::{DatasetBirth, DatasetLine, DatasetRoot};
use crate::pool::Life;
use crate::properties::PropertySet;
use crate::run::RedundantMetadata;

const MIB: u64 = 1 << 20;

const LIFE: Life = Life { number: 2, random: 3, change_floor: Time(4) };

fn entry(id: u64) -> DatasetEntry {
    let birth = DatasetBirth {
        id: DatasetId(id),
        guid: 1,
        created: Time(1),
        created_txg: Txg(1),
        lane: LaneId(0),
        name_key: 2,
        root_object: ObjectId(3),
        root_generation: Generation(4),
    };
    let root = DatasetRoot {
        tree: Tree::empty(),
        replay_dseq: Dseq(6),
        logged: true,
        log_from: Txg(0),
        next_object: ObjectId(7),
        life: 2,
        verifier: 8,
        change_floor: Time(9),
        used_bytes: 9,
        object_count: 0,
        orphan_count: 0,
        reserved_bytes: 0,
    };
    let line =
        DatasetLine { parent: NO_DATASET, name: id.to_string(), local: PropertySet::new(), carried: Bytes::new() };
    DatasetEntry { birth, line, root }
}

/// A pool of one device, and a catalog in it that grows group by group.
struct Bench {
    dev: Arc<MemBlockDev>,
    io: Arc<BlockIo>,
    catalog: Catalog,
    known: Entries,
    txg: Txg,
    root: Option<BlockPtr>,
}

impl Bench {
    fn new() -> Self {
        let dev = Arc::new(MemBlockDev::new(32 * MIB));
        let devs = numbered([dev.clone() as _]);
        let alloc = Arc::new(Allocator::create(&devs, &[]));
        let io = BlockIo::new(devs, alloc, MIB, Helpers::Threads);
        Self { dev, io, catalog: Catalog::new(Tree::empty()), known: Entries::new(), txg: Txg(0), root: None }
    }

    /// One group: bytes that it has written.
    fn group(&mut self, changed: &[DatasetEntry], gone: &[DatasetId]) -> u64 {
        self.txg = self.txg.next();
        let changed: Entries = changed.iter().map(|entry| (key_of(entry.birth.id), entry.encode())).collect();
        let gone: Vec<_> = gone.iter().copied().map(key_of).collect();
        self.known.extend(changed.clone());
        self.known.retain(|key, _| !gone.contains(key));
        let before = self.dev.written_bytes();
        let mut out = self.io.writer(self.txg).with_copies(RedundantMetadata::Most, |_, _| true);
        let all = || self.known.clone();
        self.catalog.fold(&self.io, &mut out, changed, &gone, all).unwrap();
        self.root.take().inspect(|old| self.io.free(old, self.txg));
        let (root, _) = out.commit(64, |_| vec![0; 64]).unwrap();
        self.root = Some(root);
        self.io.forget_freed();
        self.io.allocator().released(self.txg);
        self.dev.written_bytes() - before
    }

    fn read(&self) -> Result<Top, OpenError> {
        let next_dataset = self.known.last_key_value().map_or(1, |(key, _)| key.object + 1);
        Top::read(PoolRoot { next_dataset, catalog: self.catalog.tree.clone(), ..PoolRoot::new(LIFE) }, &self.io)
    }

    fn assert_read(&self) {
        let read = self.read().unwrap();
        let entries: Entries = read.datasets.iter().map(|entry| (key_of(entry.birth.id), entry.encode())).collect();
        assert!(entries == self.known, "{} of {}", entries.len(), self.known.len());
        let all = read.datasets.iter().map(|entry| entry.birth.id);
        assert!(all.clone().is_sorted() && all.clone().all(|id| read.find(id).unwrap().birth.id == id));
    }

    /// Nothing but the catalog, the root and the allocator's own is allocated.
    fn assert_sound(&mut self) {
        for _ in 0..3 {
            self.group(&[], &[]);
        }
        let blocks = blocks_of(&self.catalog.tree, &self.io);
        let reachable = blocks.iter().map(|(bp, _)| bp).chain(&self.root).map(BlockPtr::asize).sum::<u64>();
        let alloc = self.io.allocator();
        assert_eq!((alloc.space().allocated, alloc.bad_free_count()), (reachable + alloc.own_bytes(), 0));
    }

    /// Makes every place of a block wrong.
    fn rot(&self, bp: &BlockPtr) {
        for dva in bp.dvas() {
            self.dev.rot(dva.offset, dva.sectors as usize * SECTOR);
        }
        self.io.drop_cache();
    }

    fn leaf(&self) -> BlockPtr {
        let blocks = blocks_of(&self.catalog.tree, &self.io);
        blocks.iter().map(|(bp, _)| *bp).filter(|bp| bp.kind == BlockKind::Leaf).nth(1).unwrap()
    }
}

#[test]
fn a_group_writes_what_it_changes() {
    let mut bench = Bench::new();
    bench.group(&(1..=5000).map(entry).collect::<Vec<_>>(), &[]);
    bench.assert_read();
    let mut changed = entry(2500);
    changed.root.verifier = 99;
    let bytes = bench.group(&[changed.clone()], &[]);
    assert!(bytes <= 64 << 10, "{bytes}");
    bench.assert_read();
    bench.group(&[entry(5001)], &[DatasetId(17), DatasetId(5000)]);
    bench.assert_read();
    // What is told again is not written again.
    let tree = bench.catalog.tree.clone();
    bench.group(&[changed], &[]);
    assert_eq!(bench.catalog.tree, tree);
    bench.assert_sound();
}

#[test]
fn every_block_of_it_has_two_places() {
    let mut bench = Bench::new();
    bench.group(&(1..=500).map(entry).collect::<Vec<_>>(), &[]);
    let blocks = blocks_of(&bench.catalog.tree, &bench.io);
    assert!(blocks.len() > 3 && blocks.iter().all(|(bp, damage)| bp.copy.is_some() && damage.is_none()));
}

#[test]
fn what_rots_is_written_anew_by_the_group_that_meets_it() {
    let mut bench = Bench::new();
    bench.group(&(1..=500).map(entry).collect::<Vec<_>>(), &[]);
    let leaf = bench.leaf();
    bench.rot(&leaf);
    assert!(matches!(bench.read(), Err(OpenError::Catalog(_))), "an import leaves nobody out");
    // It is not met.
    bench.group(&[entry(1)], &[]);
    assert!(bench.read().is_err());
    bench.group(&(1..=500).map(entry).collect::<Vec<_>>(), &[]);
    bench.assert_read();
    bench.assert_sound();
    assert_eq!(bench.io.leak_count(), 0, "the rotten leaf's own place is known");
}

#[test]
fn what_somebody_else_finds_rotten_is_written_anew_by_the_next_group() {
    let mut bench = Bench::new();
    bench.group(&(1..=500).map(entry).collect::<Vec<_>>(), &[]);
    bench.rot(&bench.leaf());
    bench.catalog.note_damage();
    bench.group(&[], &[DatasetId(500)]);
    bench.assert_read();
    bench.assert_sound();
}

#[test]
fn below_a_rotten_node_places_are_lost_and_nothing_else() {
    let mut bench = Bench::new();
    bench.group(&(1..=500).map(entry).collect::<Vec<_>>(), &[]);
    let root = *bench.catalog.tree.root().unwrap();
    assert_eq!(root.kind, BlockKind::TreeNode);
    bench.rot(&root);
    bench.group(&[entry(3)], &[]);
    bench.assert_read();
    assert_eq!((bench.io.leak_count(), bench.io.allocator().bad_free_count()), (1, 0));
}

/// What a pointer leads to is sound, and is no leaf of a catalog: it may be a block of somebody else, and is not freed. The
/// merge that met it gave it up, as a rotten one, and then it was freed.
#[test]
fn a_block_that_says_what_it_must_not_stays_in_its_place() {
    for meets in [|_: &mut Bench| {}, |bench: &mut Bench| bench.catalog.note_damage()] {
        let mut bench = Bench::new();
        let mut out = bench.io.writer(Txg(1));
        let foreign = out.put(BlockKind::Leaf, &[7; 5000], Compression::Off).unwrap();
        out.finish().unwrap();
        let mut encoded = Tree::empty().encode();
        encoded[8] = 3;
        encoded[16..].copy_from_slice(&foreign.encode());
        bench.catalog = Catalog::new(Tree::decode(&encoded).unwrap());
        assert_eq!(blocks_of(&bench.catalog.tree, &bench.io), [(foreign, Some(Damage::Foreign))]);
        meets(&mut bench);
        bench.group(&(1..=3).map(entry).collect::<Vec<_>>(), &[]);
        bench.assert_read();
        for _ in 0..3 {
            bench.group(&[], &[]);
        }
        let alloc = bench.io.allocator();
        assert_eq!((bench.io.leak_count(), alloc.bad_free_count(), alloc.is_busy(&foreign.dva)), (1, 0, true));
    }
}

#[test]
fn one_leaf_that_is_all_there_is_may_rot() {
    let mut bench = Bench::new();
    bench.group(&(1..=3).map(entry).collect::<Vec<_>>(), &[]);
    let root = *bench.catalog.tree.root().unwrap();
    assert_eq!(root.kind, BlockKind::Leaf);
    bench.rot(&root);
    bench.group(&[entry(4)], &[DatasetId(1)]);
    bench.assert_read();
    bench.assert_sound();
    assert_eq!(bench.io.leak_count(), 0);
}

/// There is room for what a group changes, and none for all of it: the group does not fail, and the first one that has room
/// writes it anew.
#[test]
fn what_rots_in_a_full_pool_waits_for_room() {
    let mut bench = Bench::new();
    let some = |seed: u64| {
        let mut entry = entry(seed);
        let noise = (0..20).map(|at| format!("{:x}", tally_base::name_hash(seed, &[at])));
        entry.line.name = noise.collect::<String>()[..255].to_owned();
        entry
    };
    bench.group(&(1..=5000).map(some).collect::<Vec<_>>(), &[]);
    let blocks = blocks_of(&bench.catalog.tree, &bench.io);
    bench.rot(&blocks.iter().find(|(bp, _)| bp.kind == BlockKind::Leaf).unwrap().0);
    let alloc = Arc::clone(&bench.io.alloc);
    let mut taken = Vec::new();
    while alloc.space().free > MIB * 3 / 4 {
        taken.push(alloc.alloc(bench.txg.next(), MIB / 8).unwrap());
    }
    for round in 0..3 {
        bench.group(&[DatasetEntry { line: some(6000 + round).line, ..some(7 + round) }], &[DatasetId(3 + round)]);
    }
    assert!(bench.read().is_err(), "there was no room");
    taken.iter().for_each(|dva| alloc.free(*dva, bench.txg.next()));
    for _ in 0..3 {
        bench.group(&[], &[]);
    }
    bench.assert_read();
    bench.assert_sound();
}

#[test]
fn a_catalog_holds_nothing_but_datasets_and_all_of_them() {
    let mut bench = Bench::new();
    let mut out = bench.io.writer(Txg(1));
    let value = |id| Change::Put(entry(id).encode());
    let mixed = [(Key::new(Class::Inode, 1, 0, 0), value(1)), (key_of(DatasetId(2)), value(2))];
    let root = |catalog| PoolRoot { next_dataset: 9, catalog, ..PoolRoot::new(LIFE) };
    let tree = Tree::empty().apply(&bench.io, &mut out, &mixed).unwrap();
    assert!(matches!(Top::read(root(tree), &bench.io), Err(OpenError::Root(_))));
    let tree = Tree::empty().apply(&bench.io, &mut out, &mixed[1..]).unwrap();
    assert_eq!(Top::read(root(tree.clone()), &bench.io).unwrap().datasets.len(), 1);
    let damage = (Key::new(Class::Damage, 2, 5, 4096), Change::Put(Bytes::from_static(b"in a form of tomorrow")));
    let with_damage = tree.apply(&bench.io, &mut out, std::slice::from_ref(&damage)).unwrap();
    let read = Top::read(root(with_damage), &bench.io).unwrap();
    assert_eq!((read.datasets.len(), read.kept.keys().collect::<Vec<_>>()), (1, vec![&damage.0]));
    let command = (Key::new(Class::History, 1, 0, 0), Change::Put(Bytes::from_static(b"in a form of tomorrow")));
    let with_command = tree.apply(&bench.io, &mut out, std::slice::from_ref(&command)).unwrap();
    let read = Top::read(root(with_command), &bench.io).unwrap();
    assert!(read.kept.contains_key(&command.0), "a log of commands keeps nobody from his files");
    let mut encoded = tree.encode();
    encoded[8] = 2;
    assert!(Top::read(root(Tree::decode(&encoded).unwrap()), &bench.io).is_err(), "one of two is missing");
    bench.txg = Txg(1);
}

/// One rotten node with marks kept a pool from everybody, with all its files.
#[test]
fn marks_that_cannot_be_read_are_lost_alone() {
    const SESSIONS: u8 = 60;
    let mark = |session: u8, slot: u64| {
        let half = u64::from_be_bytes([session; 8]);
        (Key::new(Class::Mark, half, half, slot << 32), Change::Put(Bytes::from_static(&[7; 54])))
    };
    let mut all: Vec<_> = (1..=300).map(|id| (key_of(DatasetId(id)), Change::Put(entry(id).encode()))).collect();
    all.extend((0..SESSIONS).flat_map(|session| (0..64).map(move |slot| mark(session, slot))));
    let event = Key::new(Class::Event, 1, 0, 0);
    all.push((event, Change::Put(Bytes::from_static(b"something"))));
    let written = || {
        let bench = Bench::new();
        let mut out = bench.io.writer(Txg(1)).with_copies(RedundantMetadata::Most, |_, _| true);
        let tree = Tree::empty().apply(&bench.io, &mut out, &all).unwrap();
        out.finish().unwrap();
        (bench, tree)
    };
    let (bench, tree) = written();
    let mut blocks: Vec<(BlockPtr, Option<Class>)> = Vec::new();
    tree.check(&bench.io, &mut |visit| match visit {
        Visit::Block { bp, .. } => blocks.push((*bp, None)),
        Visit::Entry { key, .. } => blocks.last_mut().unwrap().1 = Some(key.class),
        Visit::Damage { .. } => unreachable!(),
    });
    let (mut lost_at_all, mut refused) = (0, 0);
    for (bp, class) in blocks {
        let (bench, tree) = written();
        bench.rot(&bp);
        let root = PoolRoot { next_dataset: 301, catalog: tree, ..PoolRoot::new(LIFE) };
        let top = match Top::read(root, &bench.io) {
            Err(OpenError::Catalog(_)) if class != Some(Class::Mark) => {
                refused += 1;
                continue;
            }
            top => top.unwrap(),
        };
        assert_eq!(
            (class, top.datasets.len(), top.kept.keys().collect::<Vec<_>>()),
            (Some(Class::Mark), 300, vec![&event])
        );
        let there = |session| top.marks.keys().filter(|key| key.object == u64::from_be_bytes([session; 8])).count();
        let lost: Vec<_> = (0..SESSIONS).filter(|session| there(*session) < 64).collect();
        assert!((1..10).contains(&lost.len()), "{lost:?}");
        lost_at_all += lost.len();
        for session in 0..SESSIONS {
            let is_lost = lost.contains(&session);
            assert!(!is_lost || top.lost_marks.may_have(&[session; 16]), "{session} of {lost:?}");
            // The next one may have had a mark at the end of the node.
            let is_beside = lost.iter().any(|lost| lost.abs_diff(session) <= 1);
            assert!(is_beside || !top.lost_marks.may_have(&[session; 16]), "{session} of {lost:?}");
        }
    }
    assert!(lost_at_all >= usize::from(SESSIONS) && refused >= 3, "{lost_at_all} sessions, {refused} nodes");
}

/// A newer program has put something under a class that is kept for it, in a leaf beside ours. The import called that damage, "written
/// so, by a bug", and told nobody that another program reads it.
#[test]
fn what_a_newer_program_keeps_in_the_catalog_is_told_by_name() {
    let root = |catalog| PoolRoot { next_dataset: 9, catalog, ..PoolRoot::new(LIFE) };
    for (class, expected) in
        [(38, Some("dead lists in its catalog")), (7, Some("names of objects in its trees")), (60, None)]
    {
        let bench = Bench::new();
        let mut out = bench.io.writer(Txg(1));
        // Events stand behind all others: their leaf becomes that of the class.
        let ours = [
            (key_of(DatasetId(2)), Change::Put(entry(2).encode())),
            (Key::new(Class::Event, 1, 0, 0), Change::Put(Bytes::from_static(b"something"))),
        ];
        let tree = Tree::empty().apply(&bench.io, &mut out, &ours).unwrap();
        let forge = |bp: &BlockPtr, at: &dyn Fn(&mut [u8])| {
            let mut bytes = bench.io.read(bp).unwrap().to_vec();
            at(&mut bytes);
            let mut out = bench.io.writer(Txg(2));
            let forged = out.put(bp.kind, &bytes, crate::bp::Compression::Off).unwrap();
            out.finish().unwrap();
            // What was just written counts as checked.
            bench.io.drop_cache();
            forged
        };
        out.finish().unwrap();
        let node = *tree.root().unwrap();
        assert_eq!((tree.height(), tree.entry_count()), (1, 2));
        let forged = forge(&node, &|bytes| bytes[16 + 25] = class);
        let mut encoded = tree.encode();
        encoded[16..80].copy_from_slice(&forged.encode());
        let refused = Top::read(root(Tree::decode(&encoded).unwrap()), &bench.io).unwrap_err();
        let is_told = matches!(&refused, OpenError::Newer { what, .. } if Some(*what) == expected);
        assert_eq!(is_told, expected.is_some(), "class {class} of a node: {refused}");
        // A leaf alone.
        let alone = Tree::empty().apply(&bench.io, &mut bench.io.writer(Txg(3)), &ours[1..]).unwrap();
        let forged = forge(alone.root().unwrap(), &|bytes| bytes[4] = class);
        let mut encoded = alone.encode();
        encoded[16..80].copy_from_slice(&forged.encode());
        let refused = Top::read(root(Tree::decode(&encoded).unwrap()), &bench.io).unwrap_err();
        let is_told = matches!(&refused, OpenError::Newer { what, .. } if Some(*what) == expected);
        assert_eq!(is_told, expected.is_some(), "class {class} of a leaf: {refused}");
        if expected.is_some() {
            assert!(refused.to_string().contains("no feature in its labels says which version"), "{refused}");
        }
    }
    let (set, name, since) = (FeatureSet::Incompat, "snapshots".to_owned(), "0.4".to_owned());
    let mut config = PoolConfig::default();
    config.feature_notes.lines = vec![FeatureLine { set, bit: 9, name, since }];
    let told = OpenError::newer("dead lists in its catalog").by_labels(&config).to_string();
    assert!(told.contains("feature@snapshots, of tally 0.4; use tally 0.4 or a newer one"), "{told}");
}

#[test]
fn an_entry_stands_under_its_own_key() {
    let root = PoolRoot { next_dataset: 9, ..PoolRoot::new(LIFE) };
    let read = |key: &Key| entry_of(&root, key, &entry(2).encode());
    assert_eq!(read(&key_of(DatasetId(2))).unwrap().birth.id, DatasetId(2));
    assert!(read(&Key::new(Class::Dataset, 2, 1, 0)).is_err() && read(&Key::new(Class::Dataset, 2, 0, 1)).is_err());
    let mut late = entry(2);
    late.root.change_floor = TIME_ROOM_END;
    assert!(entry_of(&root, &key_of(DatasetId(2)), &late.encode()).is_err(), "changes that never end");
    assert!(read(&Key::new(Class::Inode, 2, 0, 0)).is_err() && read(&key_of(DatasetId(9))).is_err());
}

#[test]
fn a_name_is_that_of_those_above_and_a_component() {
    let named = |id: u64, parent: u64, name: &str| {
        let mut entry = entry(id);
        (entry.line.parent, entry.line.name) = (DatasetId(parent), name.to_owned());
        entry
    };
    let names =
        |datasets: &[DatasetEntry]| names_of(datasets).into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>();
    // A dataset that was moved below a younger one.
    assert_eq!(names(&[named(1, 0, "t"), named(2, 3, "b"), named(3, 1, "a")]), ["t", "t/a/b", "t/a"]);
    assert_eq!(
        names(&[named(1, 0, "t"), named(2, 5, "b"), named(3, 2, "c")]),
        ["t", "", ""],
        "of one that is not there"
    );
    assert_eq!(names(&[named(1, 0, "t"), named(2, 3, "b"), named(3, 2, "a")]), ["t", "", ""], "in a circle");
    let long = "x".repeat(200);
    assert_eq!(
        names(&[named(1, 0, "t"), named(2, 1, &long), named(3, 2, &"y".repeat(52))]).iter().map(String::len).max(),
        Some(255)
    );
    assert_eq!(
        names(&[named(1, 0, "t"), named(2, 1, &long), named(3, 2, &"y".repeat(53))])[2],
        "",
        "longer than names are"
    );
}

#[test]
fn two_datasets_of_one_name_are_no_catalog() {
    let mut bench = Bench::new();
    let mut twin = entry(2);
    twin.line.name = "1".into();
    let mut out = bench.io.writer(Txg(1));
    let both =
        [(key_of(DatasetId(1)), Change::Put(entry(1).encode())), (key_of(DatasetId(2)), Change::Put(twin.encode()))];
    let catalog = Tree::empty().apply(&bench.io, &mut out, &both).unwrap();
    let root = PoolRoot { next_dataset: 9, catalog, ..PoolRoot::new(LIFE) };
    assert!(matches!(Top::read(root, &bench.io), Err(OpenError::Root(_))));
    bench.txg = Txg(1);
}
