use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use tally_base::codec::Reader;
use tally_base::{SECTOR, Txg, VdevIndex};
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::{BlockDevs, numbered};

use super::*;
use crate::alloc::{AllocRoot, Allocator};
use crate::bp::Dva;
use crate::key::Class;

/// A pool with one tree, as a txg engine would use it.
struct World {
    mem: Vec<Arc<MemBlockDev>>,
    devs: BlockDevs,
    io: Arc<BlockIo>,
    tree: Tree,
    model: BTreeMap<Key, Bytes>,
    root: Option<BlockPtr>,
    txg: Txg,
}

const CACHE_BYTES: u64 = 8 << 20;
const ROOT_BYTES: usize = 200;

impl World {
    fn new(dev_bytes: &[u64]) -> Self {
        let mem: Vec<_> = dev_bytes.iter().map(|bytes| Arc::new(MemBlockDev::new(*bytes))).collect();
        let devs = numbered(mem.iter().map(|dev| dev.clone() as _));
        let alloc = Arc::new(Allocator::create(&devs, &[(VdevIndex(0), 1 << 20, 1 << 20)]));
        let io = BlockIo::new(devs.clone(), alloc, CACHE_BYTES, Helpers::Threads);
        Self { mem, devs, io, tree: Tree::empty(), model: BTreeMap::new(), root: None, txg: Txg(0) }
    }

    fn change(&mut self, changes: &BTreeMap<Key, Change>) -> Result<(), BlockError> {
        for (key, change) in changes {
            match change {
                Change::Put(value) => self.model.insert(*key, value.clone()),
                Change::Delete => self.model.remove(key),
            };
        }
        let changes: Vec<_> = changes.iter().map(|(key, change)| (*key, change.clone())).collect();
        let txg = self.txg.next();
        let mut out = self.io.writer(txg);
        let tree = self.tree.apply(&self.io, &mut out, &changes)?;
        if let Some(root) = self.root.take() {
            self.io.free(&root, txg);
        }
        let (root, _) = out.commit(ROOT_BYTES, |alloc| {
            let mut bytes = tree.encode().to_vec();
            alloc.encode(&mut bytes);
            bytes
        })?;
        self.io.flush(&tally_disk::SerialFanout)?;
        self.io.allocator().released(txg);
        (self.tree, self.root, self.txg) = (tree, Some(root), txg);
        Ok(())
    }

    /// What an import does: everything from the root pointer.
    fn reload(&mut self) {
        let bytes =
            BlockIo::read_root(&self.devs, &self.root.expect("a txg was committed")).expect("the root is sound");
        let mut reader = Reader::new(&bytes, "test root");
        self.tree = Tree::decode(&reader.array().expect("80 bytes")).expect("a tree");
        let alloc = AllocRoot::decode(&mut reader).expect("an allocator");
        let alloc = Arc::new(
            Allocator::load(&self.devs, &alloc, self.txg, Helpers::Threads, &mut Vec::new()).expect("sound space maps"),
        );
        self.io = BlockIo::new(self.devs.clone(), alloc, CACHE_BYTES, Helpers::Threads);
    }

    /// The tree is the model, every block is sound, and every sector is accounted for.
    fn check(&self) {
        let mut seen = HashSet::new();
        let mut entries = Vec::new();
        let summary = self.tree.check(&self.io, &mut |visit| match visit {
            Visit::Block { bp, .. } => assert!(seen.insert(bp.dva), "{bp} is named twice"),
            Visit::Entry { key, value } => entries.push((key, Bytes::copy_from_slice(value))),
            Visit::Damage { error, .. } => panic!("{error}"),
        });
        assert!(entries.iter().map(|(key, value)| (key, value)).eq(self.model.iter()), "the walk is the model");
        assert_eq!(self.tree.entry_count(), self.model.len() as u64);
        assert!(seen.iter().all(|dva| self.io.allocator().is_busy(dva)));
        let space = self.io.allocator().space();
        let reachable = summary.allocated_bytes + self.root.map_or(0, |root| root.asize());
        assert_eq!(space.allocated, reachable + self.io.allocator().own_bytes(), "{space:?}");
        assert_eq!(space.total, space.allocated + space.deferred + space.free);
        assert_eq!(self.io.allocator().bad_free_count(), 0);
    }

    /// What a scan of everything gives.
    fn scan(&self, from: &Key, to: &Key) -> Vec<(Key, Bytes)> {
        self.tree.range(&self.io, from, to).collect::<Result<_, _>>().expect("sound leaves")
    }

    fn leaf_fill(&self, class: Class) -> f64 {
        let (mut bytes, mut leaves) = (0, 0);
        let mut last = None;
        self.tree.check(&self.io, &mut |visit| match visit {
            Visit::Block { bp, height: 0, .. } => last = Some(bp.lsize as usize),
            Visit::Entry { key, .. } if key.class == class => {
                if let Some(size) = last.take() {
                    bytes += size;
                    leaves += 1;
                }
            }
            _ => {}
        });
        bytes as f64 / (leaves * leaf::bytes_max(class)).max(1) as f64
    }
}

fn key(class: Class, object: u64, a: u64) -> Key {
    Key::new(class, object, a, 0)
}

fn puts(keys: impl Iterator<Item = Key>, value_bytes: usize) -> BTreeMap<Key, Change> {
    keys.map(|key| {
        let mut value = key.encode().to_vec();
        value.resize(value_bytes, key.object as u8);
        (key, Change::Put(Bytes::from(value)))
    })
    .collect()
}

const FIRST: Key = Key::new(Class::Inode, 0, 0, 0);
const LAST: Key = Key::new(Class::Orphan, u64::MAX, u64::MAX, u64::MAX);

/// A batch of a random test: what it does, where, to how many keys, with values how long.
#[derive(Clone, Debug)]
struct Batch {
    delete: bool,
    class: u8,
    start: u64,
    step: u64,
    count: u64,
    value_bytes: usize,
}

impl Batch {
    fn changes(&self, number: usize) -> BTreeMap<Key, Change> {
        let class = Class::ALL[usize::from(self.class)];
        (0..self.count)
            .map(|at| {
                let at = self.start + at * self.step;
                let value = Bytes::from(vec![(at as u8) ^ (number as u8); self.value_bytes]);
                (key(class, at / 8, at % 8), if self.delete { Change::Delete } else { Change::Put(value) })
            })
            .collect()
    }
}

fn batches() -> impl Strategy<Value = Vec<Vec<Batch>>> {
    let sizes = prop_oneof![4 => 0_usize..200, 1 => 1000_usize..9000, 1 => Just(VALUE_BYTES_MAX)];
    let batch =
        (prop::bool::weighted(0.4), 0_u8..7, 0_u64..3000, prop_oneof![Just(1_u64), 2..40_u64], 1_u64..600, sizes)
            .prop_map(|(delete, class, start, step, count, value_bytes)| Batch {
                delete,
                class,
                start,
                step,
                count: if value_bytes > 1000 { count / 20 + 1 } else { count },
                value_bytes,
            });
    prop::collection::vec(prop::collection::vec(batch, 1..4), 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 300, ..ProptestConfig::default() })]

    /// Random txgs against an ordered map, with imports between them, and every sector accounted for.
    #[test]
    fn a_tree_is_an_ordered_map(txgs in batches(), two_devs: bool, reload_every in 1_usize..5) {
        let mut world = World::new(if two_devs { &[96 << 20, 200 << 20] } else { &[256 << 20] });
        for (number, txg) in txgs.iter().enumerate() {
            let changes = txg.iter().flat_map(|batch| batch.changes(number)).collect();
            world.change(&changes).expect("there is space");
            world.check();
            if number % reload_every == 0 {
                world.reload();
                world.check();
            }
            for (key, change) in changes.iter().step_by(7) {
                let found = world.tree.get(&world.io, key).expect("a sound tree");
                prop_assert_eq!(found.as_ref(), match change { Change::Put(value) => Some(value), Change::Delete => None });
            }
            let from = key(Class::ALL[number % 7], 40, 3);
            let to = key(Class::ALL[(number * 3) % 7], 200, 0);
            let expected: Vec<_> = if from < to {
                world.model.range(from..to).map(|(key, value)| (*key, value.clone())).collect()
            } else {
                Vec::new()
            };
            prop_assert_eq!(world.scan(&from, &to), expected);
        }
        // Everything goes, and nothing stays.
        let all = world.model.keys().map(|key| (*key, Change::Delete)).collect();
        world.change(&all).expect("there is space");
        prop_assert_eq!(&world.tree, &Tree::empty());
        world.check();
    }

    /// Whatever the bytes of a block are, looking at them is safe.
    #[test]
    fn damaged_nodes_are_errors(flips in prop::collection::vec((0_usize..1500, any::<u8>()), 1..6), cut in 0_usize..1500) {
        let entries: Vec<_> = (0..30)
            .map(|at| leaf::Entry { key: key(Class::Inode, at, 0), value: Bytes::from(vec![at as u8; at as usize]) })
            .collect();
        let children: Vec<_> = (0..16)
            .map(|at| inner::Child { key: key(Class::Inode, at, 0), bp: pointer(BlockKind::Leaf, at) })
            .collect();
        let mut leaf_bytes = leaf::encode(&entries);
        let mut inner_bytes = inner::encode(1, &children);
        assert!(leaf::check(&leaf_bytes).is_ok() && inner::check(&inner_bytes).is_ok());
        for bytes in [&mut leaf_bytes, &mut inner_bytes] {
            for (at, flip) in &flips {
                if let Some(byte) = bytes.get_mut(*at) {
                    *byte ^= flip;
                }
            }
            bytes.truncate(cut.max(bytes.len() - 300));
        }
        let wanted = key(Class::Inode, 7, 0);
        if leaf::check(&leaf_bytes).is_ok() {
            let leaf = Leaf::view(&leaf_bytes).expect("checked");
            leaf.find(&wanted);
            leaf.lower_bound(&wanted);
            assert!((0..leaf.count()).all(|at| leaf_bytes.get(leaf.value(at)).is_some()));
        }
        if inner::check(&inner_bytes).is_ok() {
            let node = Inner::view(&inner_bytes).expect("checked");
            assert!(node.child(node.position(&wanted)).is_ok());
        }
    }
}

fn pointer(kind: BlockKind, at: u64) -> BlockPtr {
    BlockPtr {
        dva: Dva { vdev: VdevIndex(0), offset: at * SECTOR as u64, sectors: 1 },
        copy: None,
        in_pieces: false,
        lsize: 4000,
        psize: 4000,
        coding: crate::bp::Coding::Raw,
        kind,
        birth: Txg(1),
        written: Txg(1),
        checksum: 1,
    }
}

#[test]
fn sequences_fill_their_leaves() {
    let mut world = World::new(&[256 << 20]);
    for txg in 0..40 {
        // What unpacking an archive does: new objects at the end of several classes, in several txgs.
        let objects = txg * 500..(txg + 1) * 500;
        let mut changes = puts(objects.clone().map(|at| key(Class::Inode, at, 0)), 200);
        changes.extend(puts(objects.clone().map(|at| key(Class::DirEntry, 3, at)), 40));
        // One of three directories gets the file, so that its entries end in the middle of the class.
        changes.extend(puts(objects.map(|at| key(Class::DirEntry, 10 + txg % 3, at)), 40));
        world.change(&changes).expect("there is space");
    }
    world.check();
    assert!(world.leaf_fill(Class::Inode) > 0.95, "{}", world.leaf_fill(Class::Inode));
    assert!(world.leaf_fill(Class::DirEntry) > 0.85, "{}", world.leaf_fill(Class::DirEntry));
}

#[test]
fn a_tree_that_shrank_is_not_sparse() {
    let mut world = World::new(&[256 << 20]);
    world.change(&puts((0..40_000).map(|at| key(Class::Inode, at, 0)), 100)).expect("there is space");
    let full = world.tree.check(&world.io, &mut |_| {});
    for round in 0..10 {
        let gone = world.model.keys().filter(|key| key.object % 10 == round && key.object % 100 != round);
        let changes = gone.map(|key| (*key, Change::Delete)).collect();
        world.change(&changes).expect("there is space");
    }
    world.check();
    let sparse = world.tree.check(&world.io, &mut |_| {});
    assert_eq!(sparse.entry_count, 4000);
    assert!(sparse.leaf_count <= full.leaf_count / 6, "{} leaves of {}", sparse.leaf_count, full.leaf_count);
}

#[test]
fn classes_have_their_own_leaves_and_sizes() {
    let mut world = World::new(&[256 << 20]);
    let mut changes = puts((0..200).map(|at| key(Class::Small, at, 0)), 4096);
    changes.extend(puts((0..200).map(|at| key(Class::Inode, at, 0)), 200));
    changes.extend(puts((0..3).map(|at| key(Class::Xattr, at, 0)), VALUE_BYTES_MAX));
    world.change(&changes).expect("there is space");
    world.check();
    let mut sizes: BTreeMap<Class, u32> = BTreeMap::new();
    let mut size = 0;
    world.tree.check(&world.io, &mut |visit| match visit {
        Visit::Block { bp, height: 0, .. } => size = bp.lsize,
        Visit::Entry { key, .. } => {
            let largest = sizes.entry(key.class).or_default();
            *largest = size.max(*largest);
        }
        _ => {}
    });
    assert!((60 << 10..=64 << 10).contains(&sizes[&Class::Small]), "{sizes:?}");
    assert!((15 << 10..=16 << 10).contains(&sizes[&Class::Inode]), "{sizes:?}");
    assert!(sizes[&Class::Xattr] < (33 << 10), "a value that is larger than a leaf has one of its own: {sizes:?}");
}

#[test]
fn changes_that_change_nothing_write_nothing() {
    let mut world = World::new(&[64 << 20]);
    let same = puts((0..5000).map(|at| key(Class::Inode, at, 0)), 100);
    world.change(&same).expect("there is space");
    let before = world.tree.clone();
    let mut again = same.clone();
    again.extend((6000..6100).map(|at| (key(Class::Inode, at, 0), Change::Delete)));
    world.change(&again).expect("there is space");
    assert_eq!(world.tree, before);
    world.check();
}

#[test]
fn an_old_version_stays_readable_until_its_blocks_are_released() {
    let mut world = World::new(&[64 << 20]);
    let first = puts((0..5000).map(|at| key(Class::Inode, at, 0)), 100);
    world.change(&first).expect("there is space");
    let (old_tree, old_model) = (world.tree.clone(), world.model.clone());
    world.change(&puts((0..5000).map(|at| key(Class::Inode, at, 0)), 150)).expect("there is space");
    world.io.drop_cache();
    let old: Result<Vec<_>, _> = old_tree.range(&world.io, &FIRST, &LAST).collect();
    assert_eq!(old.expect("nothing was reused"), old_model.into_iter().collect::<Vec<_>>());
}

/// A device of the smallest size fills up, says so, and can be emptied again.
#[test]
fn a_full_pool_of_16_mib_can_be_emptied() {
    let mut world = World::new(&[16 << 20]);
    let mut number = 0;
    let full = loop {
        let noise = (0..100_u64).map(|at| {
            let object = number * 100 + at;
            let value: Vec<u8> = (0..100)
                .flat_map(|word| (object * 100 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
                .collect();
            (key(Class::Small, object, 0), Change::Put(Bytes::from(value)))
        });
        // The reservation of the layers above: what a txg may still need to free space again.
        if world.io.allocator().space().free < 2 << 20 {
            break number;
        }
        world.change(&noise.collect()).expect("there is space");
        world.check();
        number += 1;
    };
    assert!(full > 80, "only {full} txgs fitted");
    world.reload();
    world.check();
    let all: Vec<_> = world.model.keys().copied().collect();
    for keys in all.chunks(100) {
        world.change(&keys.iter().map(|key| (*key, Change::Delete)).collect()).expect("removal needs little space");
        world.check();
    }
    world.change(&BTreeMap::new()).expect("there is space");
    world.change(&BTreeMap::new()).expect("there is space");
    let space = world.io.allocator().space();
    assert!(space.allocated < 64 << 10, "{space:?}");
}

#[test]
fn a_pool_without_space_says_so() {
    let mut world = World::new(&[4 << 20]);
    let noise = |at: u64| {
        (0..512)
            .flat_map(|word| (at * 512 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let changes = (0..1000).map(|at| (key(Class::Small, at, 0), Change::Put(Bytes::from(noise(at))))).collect();
    assert!(matches!(world.change(&changes), Err(BlockError::NoSpace(_))));
}

/// The walk goes on behind damage and names what is missing.
#[test]
fn a_walk_goes_on_after_damage() {
    let mut world = World::new(&[64 << 20]);
    world.change(&puts((0..20_000).map(|at| key(Class::Inode, at, 0)), 100)).expect("there is space");
    let mut leaves = Vec::new();
    world.tree.check(&world.io, &mut |visit| {
        if let Visit::Block { bp, height: 0, .. } = visit {
            leaves.push(*bp);
        }
    });
    let rotten = leaves[leaves.len() / 2];
    world.mem[0].rot(rotten.dva.offset + 10, 1);
    world.io.drop_cache();
    let mut named = Vec::new();
    let mut lost = None;
    let summary = world.tree.check(&world.io, &mut |visit| {
        if let Visit::Damage { bp, from, to, .. } = visit {
            named.push(*bp);
            lost = from.zip(to);
        }
    });
    assert_eq!(named, [rotten]);
    let (from, to) = lost.expect("a leaf in the middle has neighbours");
    assert_eq!(summary.entry_count, world.model.len() as u64 - (to.object - from.object));
    assert_eq!(summary.leaf_count, leaves.len() as u64 - 1);
    assert!(world.tree.get(&world.io, &from).is_err());
    assert!(world.tree.get(&world.io, &to).expect("a sound leaf").is_some());
    let scanned: Vec<_> = world.tree.range(&world.io, &FIRST, &LAST).collect();
    assert!(scanned.last().expect("entries before it").is_err(), "a scan ends at the damage, with an error");
    assert_eq!(scanned.len() as u64, from.object + 1);
}

/// A newer program has put something into a catalog, under a class whose number is reserved, and no feature says so: it is
/// refused, and not passed over. Of one that is spoken for an import says what it is.
#[test]
fn a_leaf_of_a_reserved_class_is_refused() {
    let entry = leaf::Entry { key: key(Class::Inode, 1, 0), value: Bytes::from_static(b"value") };
    let mut bytes = leaf::encode(&[entry]);
    for class in 0..=u8::MAX {
        bytes[4] = class;
        let is_known = Class::ALL.iter().chain(&Class::CATALOG).any(|known| *known as u8 == class);
        assert_eq!(leaf::Leaf::view(&bytes).is_ok(), is_known, "class {class}");
        let is_reserved = class == 7 || (33..52).contains(&class) && !is_known;
        assert_eq!(of_newer_programs(&bytes).is_some(), is_reserved, "class {class}");
    }
}

#[test]
fn roots_are_checked() {
    let mut world = World::new(&[64 << 20]);
    world.change(&puts((0..5000).map(|at| key(Class::Inode, at, 0)), 100)).expect("there is space");
    let bytes = world.tree.encode();
    assert_eq!(Tree::decode(&bytes), Ok(world.tree.clone()));
    assert_eq!(Tree::decode(&Tree::empty().encode()), Ok(Tree::empty()));
    for (at, value) in [(0, 1), (1, 0), (1, 9), (2, 1), (46, 2), (47, 2)] {
        let mut damaged = bytes;
        damaged[at] = value;
        assert!(Tree::decode(&damaged).is_err(), "byte {at} = {value}");
    }
    // A height that the blocks do not have is found when they are read.
    let mut damaged = bytes;
    damaged[1] = 2;
    let tree = Tree::decode(&damaged).expect("it could be so");
    assert!(matches!(tree.get(&world.io, &FIRST), Err(BlockError::Malformed { .. })));
    // A change goes in around the root, and what is below it stays what it was: something that cannot be read.
    let change = [(key(Class::Inode, 7, 0), Change::Put(Bytes::from_static(b"new")))];
    let tree = tree.apply(&world.io, &mut world.io.writer(Txg(9)), &change).expect("one block ends nothing");
    assert!(tree.get(&world.io, &FIRST).is_err());
    assert_eq!(tree.get(&world.io, &change[0].0).expect("it was just put"), Some(Bytes::from_static(b"new")));
}

/// Blocks with right checksums, as faulty software might write them.
struct Forger(World);

impl Forger {
    fn new() -> Self {
        Self(World::new(&[64 << 20]))
    }

    fn put(&self, kind: BlockKind, bytes: &[u8]) -> BlockPtr {
        let mut out = self.0.io.writer(Txg(1));
        let bp = out.put(kind, bytes, crate::bp::Compression::Off).expect("there is space");
        out.finish().expect("there is a device");
        bp
    }

    fn leaf(&self, keys: &[Key]) -> BlockPtr {
        let entry = |key: &Key| leaf::Entry { key: *key, value: Bytes::from_static(b"value") };
        self.put(BlockKind::Leaf, &leaf::encode(&keys.iter().map(entry).collect::<Vec<_>>()))
    }

    fn inner(&self, height: u8, children: &[(Key, BlockPtr)]) -> BlockPtr {
        let child = |(key, bp): &(Key, BlockPtr)| inner::Child { key: *key, bp: *bp };
        self.put(BlockKind::TreeNode, &inner::encode(height, &children.iter().map(child).collect::<Vec<_>>()))
    }
}

/// A node that every child of its parent named was gone through once for each, and so were its own children: eight
/// levels of that never ended, in an import's look for orphans as in `tally inspect`. Three are enough to count.
#[test]
fn a_node_that_is_named_many_times_is_gone_through_once() {
    let forger = Forger::new();
    let mut below = forger.leaf(&[key(Class::Inode, 3, 0)]);
    for height in 1..=3 {
        let children: Vec<_> = (0..100).map(|at| (key(Class::Inode, 3 + at, 0), below)).collect();
        below = forger.inner(height, &children);
    }
    let tree = Tree { root: Some(below), height: 3, entry_count: 1 };
    let mut visit_count = 0;
    let summary = tree.check(&forger.0.io, &mut |_| visit_count += 1);
    assert!(visit_count < 1000, "{visit_count} visits of four blocks");
    assert!(summary.damage_count > 0);
    let scanned: Vec<_> = tree.range(&forger.0.io, &FIRST, &LAST).take(1000).collect();
    assert!(scanned.len() < 1000 && scanned.last().is_some_and(Result::is_err), "{} entries of one", scanned.len());
}

/// Neighbours were joined by what the node above them said of their class and height, and the joined one was written as
/// if it were so: one leaf with entries of two classes.
#[test]
fn neighbours_that_are_not_what_is_said_above_them_are_not_joined() {
    let forger = Forger::new();
    let (first, second, third) = (key(Class::Inode, 3, 0), key(Class::Inode, 8, 0), key(Class::Inode, 20, 0));
    let other_class = forger.leaf(&[key(Class::DirEntry, 3, 4)]);
    let behind_the_next = forger.leaf(&[key(Class::Inode, 9, 0), key(Class::Inode, 30, 0)]);
    let sound = forger.leaf(&[first]);
    let change = [(first, Change::Put(Bytes::from_static(b"another value")))];
    for neighbour in [other_class, behind_the_next] {
        let root = forger.inner(1, &[(first, sound), (second, neighbour), (third, forger.leaf(&[third]))]);
        let tree = Tree { root: Some(root), height: 1, entry_count: 4 };
        let tree = tree.apply(&forger.0.io, &mut forger.0.io.writer(Txg(9)), &change).expect("it is left alone");
        assert_eq!(damaged_nodes(&forger.0.io, &tree), [neighbour]);
    }
    // Two levels: the neighbour stands as high as its parent.
    let low = forger.inner(1, &[(first, sound)]);
    let high = forger.inner(2, &[(second, forger.inner(1, &[(second, forger.leaf(&[second]))]))]);
    let root = forger.inner(2, &[(first, low), (second, high)]);
    let tree = Tree { root: Some(root), height: 2, entry_count: 2 };
    let tree = tree.apply(&forger.0.io, &mut forger.0.io.writer(Txg(9)), &change).expect("it is left alone");
    assert_eq!(damaged_nodes(&forger.0.io, &tree), [high]);
}

fn damaged_nodes(io: &BlockIo, tree: &Tree) -> Vec<BlockPtr> {
    let mut damaged = Vec::new();
    tree.check(io, &mut |visit| {
        if let Visit::Damage { bp, .. } = visit {
            damaged.push(*bp);
        }
    });
    damaged
}

/// A root that claims as many entries as there are numbers: one more was one too many, and the sync panicked.
#[test]
fn a_root_that_claims_too_many_entries_can_be_changed() {
    let forger = Forger::new();
    let leaf = forger.leaf(&[key(Class::Inode, 3, 0)]);
    for (entry_count, change) in
        [(u64::MAX, Change::Put(Bytes::from_static(b"new"))), (0, Change::Delete), (1, Change::Delete)]
    {
        let object = if change == Change::Delete { 3 } else { 4 };
        let tree = Tree { root: Some(leaf), height: 0, entry_count };
        let mut out = forger.0.io.writer(Txg(9));
        tree.apply(&forger.0.io, &mut out, &[(key(Class::Inode, object, 0), change)]).expect("the leaf is sound");
    }
}

/// Leaves are joined with those that a walk has passed, where entries go meanwhile. What was visited was visited again then: a
/// scrub took its block for one that two name, gave nothing back, and could have told an alarm.
#[test]
fn a_walk_by_steps_visits_no_entry_twice_however_leaves_are_joined() {
    let mut world = World::new(&[64 << 20]);
    let keys: Vec<_> = (0..400).map(|at| key(Class::Extent, 5, at)).collect();
    world.change(&puts(keys.iter().copied(), 80)).unwrap();
    let (mut from, mut seen, mut steps) = (None, Vec::new(), 0);
    loop {
        let mut visit = |key: Key, _: &[u8]| seen.push(key);
        let step = world.tree.step(&world.io, from.as_ref(), Class::Extent, Txg(0), &mut visit);
        let Some(next) = step.next else { break };
        (from, steps) = (Some(next), steps + 1);
        // All but a few around the place where the walk is.
        let at = keys.partition_point(|key| *key < next);
        let stay = |place: usize| place + 4 > at && place < at + 4;
        let go = keys.iter().enumerate().filter(|(place, key)| steps == 1 && !stay(*place) && **key >= keys[0]);
        world.change(&go.map(|(_, key)| (*key, Change::Delete)).collect()).unwrap();
    }
    assert!(steps > 0, "there is one leaf, and nothing was joined");
    let visited = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(visited, seen.len(), "some were visited twice");
    assert!(world.model.keys().all(|key| seen.contains(key)));
}
