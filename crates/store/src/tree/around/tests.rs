//! Every node of a tree rots in turn, and then there are changes, first and last in each leaf, new ones behind all others,
//! and a joining of neighbours. Each key must give what was put, or an error where the node was, and nothing else; also
//! once the device gives the old bytes again. Before, each of these was the end of the pool: an untouched neighbour that
//! could not be joined was enough.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use tally_base::Txg;
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::numbered;

use super::*;
use crate::alloc::Allocator;
use crate::block::BlockError;
use crate::bp::Dva;
use crate::io::BlockIo;
use crate::key::Class;
use crate::tree::{Tree, Visit};

/// Ids below this one were drawn before the node rots.
const FIRST_NEW: u64 = 2000;

struct World {
    mem: Arc<MemBlockDev>,
    io: Arc<BlockIo>,
}

type Model = BTreeMap<Key, Bytes>;

impl World {
    fn new() -> Self {
        let mem = Arc::new(MemBlockDev::new(512 << 20));
        let devs = numbered([mem.clone() as _]);
        let alloc = Arc::new(Allocator::create(&devs, &[]));
        Self { mem, io: BlockIo::new(devs, alloc, 8 << 20, Helpers::Threads) }
    }

    fn apply(&self, tree: &Tree, model: &mut Model, txg: Txg, changes: &BTreeMap<Key, Change>) -> Tree {
        for (key, change) in changes {
            match change {
                Change::Put(value) => model.insert(*key, value.clone()),
                Change::Delete => model.remove(key),
            };
        }
        let changes: Vec<_> = changes.iter().map(|(key, change)| (*key, change.clone())).collect();
        let mut out = self.io.writer(txg);
        let around = Around { first_new: FIRST_NEW, ..Around::NOTHING };
        let tree = tree
            .apply_around(&self.io, &mut out, &changes, &around, &|bp| self.io.free(bp, txg))
            .expect("no node is the end of a tree");
        out.finish().expect("the device takes writes");
        self.io.drop_cache();
        tree
    }
}

fn value(key: &Key, salt: u8) -> Bytes {
    let mut value = key.encode().to_vec();
    value.resize(100, salt);
    value.into()
}

/// Inodes, entries, hashes and extents of as many objects as two levels of nodes need.
fn old_keys() -> impl Iterator<Item = Key> {
    let objects = 3..1500u64;
    let inodes = objects.clone().map(|id| Key::new(Class::Inode, id, 0, 0));
    let entries = objects.clone().map(|id| Key::new(Class::DirEntry, id % 5 + 3, id, 0));
    let hashes = objects.clone().map(|id| Key::new(Class::DirHash, id % 5 + 3, id.wrapping_mul(0x9e37_79b9_7f4a), id));
    let extents = objects.flat_map(|id| (0..20).map(move |at| Key::new(Class::Extent, id, at * 4096, 0)));
    inodes.chain(entries).chain(hashes).chain(extents)
}

fn puts(keys: impl Iterator<Item = Key>, salt: u8) -> BTreeMap<Key, Change> {
    keys.map(|key| (key, Change::Put(value(&key, salt)))).collect()
}

fn nodes(io: &BlockIo, tree: &Tree) -> Vec<(BlockPtr, u8)> {
    let mut nodes = Vec::new();
    tree.check(io, &mut |visit| match visit {
        Visit::Block { bp, height, .. } | Visit::Damage { bp, height, .. } => nodes.push((*bp, height)),
        Visit::Entry { .. } => {}
    });
    nodes
}

/// What a group brings: new objects, and changes of old keys in every hundredth place.
fn group() -> BTreeMap<Key, Change> {
    let new = (FIRST_NEW..FIRST_NEW + 20).flat_map(|id| {
        let of = |class, object, a, b| Key::new(class, object, a, b);
        [of(Class::Inode, id, 0, 0), of(Class::DirEntry, 4, id, 0), of(Class::DirHash, 4, id << 20, id)]
    });
    let mut changes = puts(new, 2);
    for (at, key) in old_keys().collect::<BTreeSet<_>>().into_iter().enumerate() {
        match at % 100 {
            0 => changes.insert(key, Change::Delete),
            50 => changes.insert(key, Change::Put(value(&key, 3))),
            _ => None,
        };
    }
    changes
}

/// Compares every key with the model; those that cannot be read must lie in one of `ranges`. Gives their number.
fn compare(world: &World, tree: &Tree, model: &Model, all: &BTreeSet<Key>, may_fail: impl Fn(&Key) -> bool) -> usize {
    let mut failed = 0;
    for key in all {
        match tree.get(&world.io, key) {
            Ok(found) => assert_eq!(found.as_ref(), model.get(key), "{key:?}"),
            Err(error) => {
                assert!(may_fail(key), "{key:?}: {error}");
                failed += 1;
            }
        }
    }
    failed
}

#[test]
fn whatever_node_rots_changes_go_in_around_it_and_nothing_that_is_wrong_is_read() {
    let world = World::new();
    let mut model = Model::new();
    let tree = world.apply(&Tree::empty(), &mut model, Txg(1), &puts(old_keys(), 1));
    assert_eq!(tree.height(), 2);
    let group = group();
    let all: BTreeSet<Key> = old_keys().chain(group.keys().copied()).collect();
    let old_nodes = nodes(&world.io, &tree);
    let inner_count = old_nodes.iter().filter(|(_, height)| *height > 0).count();
    assert!(inner_count >= 2 && old_nodes.len() > 200);
    for (bp, height) in old_nodes.iter().filter(|(bp, height)| *height > 0 || bp.dva.offset / 4096 % 31 == 0) {
        world.mem.rot(bp.dva.offset, 10);
        world.io.drop_cache();
        let unreadable: BTreeSet<Key> = all.iter().filter(|key| tree.get(&world.io, key).is_err()).copied().collect();
        let mut model = model.clone();
        let changed = world.apply(&tree, &mut model, Txg(2), &group);
        // What was put can be read, whatever was there.
        let is_put = |key: &Key| matches!(group.get(key), Some(Change::Put(_)));
        let may_fail = |key: &Key| unreadable.contains(key) && !is_put(key);
        let failed = compare(&world, &changed, &model, &all, may_fail);
        assert!(failed > 0 && failed <= unreadable.len(), "{failed} of {} at height {height}", unreadable.len());
        // Once more, above the markers.
        let again = puts(all.iter().copied().step_by(77), 4);
        let changed = world.apply(&changed, &mut model, Txg(3), &again);
        let is_put = |key: &Key| is_put(key) || again.contains_key(key);
        compare(&world, &changed, &model, &all, |key| unreadable.contains(key) && !is_put(key));
        let named: Vec<_> = nodes(&world.io, &changed).into_iter().map(|(bp, _)| bp.dva).collect();
        assert_eq!(named.iter().collect::<HashSet<&Dva>>().len(), named.len(), "no block is named twice");
        // The device gives the old bytes again: nothing that was deleted or replaced comes back.
        world.mem.rot(bp.dva.offset, 10);
        world.io.drop_cache();
        compare(&world, &changed, &model, &all, |key| unreadable.contains(key) && !is_put(key));
    }
    assert_eq!(world.io.allocator().bad_free_count(), 0);
}

/// Creates alone: the last leaf of inodes has rotted, and new inodes stand behind it. It keeps its place, and if it comes
/// back it is as it was.
#[test]
fn a_node_that_only_new_keys_come_behind_of_is_whole_if_it_comes_back() {
    let world = World::new();
    let mut model = Model::new();
    let tree = world.apply(&Tree::empty(), &mut model, Txg(1), &puts(old_keys(), 1));
    let last_old = Key::new(Class::Inode, 1499, 0, 0);
    let (mut leaf, mut of_leaf) = (None, None);
    tree.check(&world.io, &mut |visit| match visit {
        Visit::Block { bp, .. } => leaf = Some(*bp),
        Visit::Entry { key, .. } if key == last_old => of_leaf = leaf,
        _ => {}
    });
    let leaf = of_leaf.expect("it is in a leaf");
    world.mem.rot(leaf.dva.offset, 10);
    world.io.drop_cache();
    let mut changed = tree;
    for (txg, from) in [(2, FIRST_NEW), (3, FIRST_NEW + 50)] {
        let new = puts((from..from + 50).map(|id| Key::new(Class::Inode, id, 0, 0)), 2);
        changed = world.apply(&changed, &mut model, Txg(txg), &new);
        assert!(new.keys().all(|key| changed.get(&world.io, key).is_ok_and(|found| found.is_some())));
        assert!(changed.get(&world.io, &last_old).is_err());
    }
    world.mem.rot(leaf.dva.offset, 10);
    world.io.drop_cache();
    let all: BTreeSet<Key> = model.keys().copied().collect();
    assert_eq!(compare(&world, &changed, &model, &all, |_| false), 0);
    assert_eq!(changed.check(&world.io, &mut |_| {}).damage_count, 0);
}

/// A scan that goes around what it cannot read gives everything else, and one that does not ends there.
#[test]
fn a_scan_goes_around_what_cannot_be_read() {
    let world = World::new();
    let mut model = Model::new();
    let tree = world.apply(&Tree::empty(), &mut model, Txg(1), &puts(old_keys(), 1));
    for (bp, _) in nodes(&world.io, &tree).into_iter().skip(1).step_by(29) {
        world.mem.rot(bp.dva.offset, 10);
        world.io.drop_cache();
        let (from, to) = (Key::new(Class::Inode, 100, 0, 0), Key::new(Class::Extent, 1400, 0, 0));
        let readable: Vec<Key> = model.range(from..to).map(|(key, _)| *key).collect();
        let readable: Vec<Key> = readable.into_iter().filter(|key| tree.get(&world.io, key).is_ok()).collect();
        let mut scan = tree.range(&world.io, &from, &to).around_damage();
        let (mut found, mut failures) = (Vec::new(), 0);
        while let Some(entry) = scan.next() {
            match entry {
                Ok((key, _)) => found.push(key),
                Err(error) => {
                    failures += 1;
                    assert!(matches!(error, BlockError::Unreadable { bp: of, .. } if of == bp), "{error}");
                    assert!(tree.get(&world.io, &scan.failed_at()).is_err());
                }
            }
        }
        assert!(failures <= 1);
        assert_eq!(found, readable);
        world.mem.rot(bp.dva.offset, 10);
    }
}
