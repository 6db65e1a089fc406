use std::sync::Arc;

use tally_base::{Dseq, Generation, LaneId, ObjectId, SECTOR, Time};
use tally_members::blockdev::{MemBlockDev, numbered};

use super::*;
use crate::alloc::Allocator;
use crate::dataset::{DatasetBirth, DatasetLine, DatasetRoot};
use crate::pool::Life;
use crate::properties::PropertySet;
use crate::run::RedundantMetadata;

const MIB: u64 = 1 << 20;

const LIFE: Life = Life { number: 2, random: 3, change_floor: Time(4) };

fn entry(id: u64) -> DatasetEntry {
    let birth = DatasetBirth {
        id: DatasetId(id),
        created: Time(1),
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
    };
    DatasetEntry { birth, line: DatasetLine { name: format!("tank/{id}"), local: PropertySet::new() }, root }
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
        let io = BlockIo::new(devs, alloc, MIB);
        Self { dev, io, catalog: Catalog::new(Tree::empty()), known: Entries::new(), txg: Txg(0), root: None }
    }

    /// One group: bytes that it has written.
    fn group(&mut self, changed: &[DatasetEntry], gone: &[DatasetId]) -> u64 {
        self.txg = self.txg.next();
        let changed: Entries = changed.iter().map(|entry| (entry.birth.id, entry.encode())).collect();
        self.known.extend(changed.clone());
        self.known.retain(|id, _| !gone.contains(id));
        let before = self.dev.written_bytes();
        let mut out = self.io.writer(self.txg).with_copies(RedundantMetadata::Most, |_, _| true);
        let all = || self.known.clone();
        self.catalog.fold(&self.io, &mut out, changed, gone, all).unwrap();
        self.root.take().inspect(|old| self.io.free(old, self.txg));
        let (root, _) = out.commit(64, |_| vec![0; 64]).unwrap();
        self.root = Some(root);
        self.io.forget_freed();
        self.io.allocator().released(self.txg);
        self.dev.written_bytes() - before
    }

    fn read(&self) -> Result<Top, OpenError> {
        let next_dataset = self.known.last_key_value().map_or(1, |(id, _)| id.0 + 1);
        Top::read(PoolRoot { next_dataset, catalog: self.catalog.tree.clone(), ..PoolRoot::new(LIFE) }, &self.io)
    }

    fn assert_read(&self) {
        let read = self.read().unwrap();
        let entries: Entries = read.datasets.iter().map(|entry| (entry.birth.id, entry.encode())).collect();
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
        entry.line.name = format!("tank/{}", noise.collect::<String>())[..255].to_owned();
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
        bench.group(&[DatasetEntry { line: some(round).line, ..some(7 + round) }], &[DatasetId(3 + round)]);
    }
    assert!(bench.read().is_err(), "there was no room");
    taken.iter().for_each(|dva| alloc.free(*dva, bench.txg.next()));
    for _ in 0..3 {
        bench.group(&[], &[]);
    }
    bench.assert_read();
    bench.assert_sound();
}

type Lie = (&'static str, fn(&mut DatasetEntry));

#[test]
fn what_cannot_have_been_drawn_is_malformed() {
    let root = PoolRoot { next_dataset: 3, ..PoolRoot::new(LIFE) };
    let read = |entry: &DatasetEntry| entry_of(&root, &key_of(DatasetId(2)), &entry.encode());
    assert_eq!(read(&entry(2)).unwrap().line.name, "tank/2");
    let lies: [Lie; 11] = [
        ("a name that is longer than names are", |entry| entry.line.name.extend(std::iter::repeat_n('x', 250))),
        ("an id that will be drawn again", |entry| entry.birth.id = DatasetId(3)),
        ("another one's key", |entry| entry.birth.id = DatasetId(1)),
        ("a root directory that was never drawn", |entry| entry.birth.root_object = ObjectId(7)),
        ("written in a life that has not begun", |entry| entry.root.life = 3),
        ("changes that never end", |entry| entry.root.change_floor = Time(u64::MAX)),
        ("no object id is left", |entry| entry.root.next_object = ObjectId(u64::MAX)),
        ("the last record", |entry| entry.root.replay_dseq = Dseq(u64::MAX)),
        ("logged from the last group on", |entry| entry.root.log_from = Txg(u64::MAX)),
        ("an object id at the end", |entry| entry.root.next_object = ObjectId(1 << 62)),
        ("records at the end", |entry| entry.root.replay_dseq = Dseq(1 << 62)),
    ];
    for (what, lie) in lies {
        let mut entry = entry(2);
        lie(&mut entry);
        assert!(read(&entry).is_err(), "{what}");
    }
    for cut in [0, 1, 8] {
        let bytes = entry(2).encode();
        let more = [&bytes[..], &[0]].concat();
        assert!(entry_of(&root, &key_of(DatasetId(2)), &bytes[..bytes.len() - 1 - cut]).is_err());
        assert!(entry_of(&root, &key_of(DatasetId(2)), &more).is_err());
    }
    let at = entry(2).encode().len() - (10 * 8 + 1);
    let mut frozen = entry(2).encode().to_vec();
    frozen[at] = 5;
    assert!(entry_of(&root, &key_of(DatasetId(2)), &frozen).is_err(), "a cursor of its own is not known yet");
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
    let mut encoded = tree.encode();
    encoded[8] = 2;
    assert!(Top::read(root(Tree::decode(&encoded).unwrap()), &bench.io).is_err(), "one of two is missing");
    bench.txg = Txg(1);
}

#[test]
fn accounts_are_bounded_instead() {
    let mut lying = entry(2);
    lying.root.used_bytes = u64::MAX;
    lying.root.object_count = u64::MAX;
    lying.root.orphan_count = u64::MAX;
    let read = DatasetEntry::decode(&lying.encode()).unwrap().root;
    assert_eq!((read.used_bytes, read.object_count, read.orphan_count), (1 << 62, 0, 0));
}
