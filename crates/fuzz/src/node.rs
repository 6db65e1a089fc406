//! Nodes of a tree, leaves and inner ones, and the blocks in which they are kept.
//!
//! An input is the encoding of a tree's root, and blocks behind it. In every pointer the offset is the number of a block
//! ([`crate::blocks`]).

use std::sync::Arc;

use bytes::Bytes;
use tally_base::{Txg, VdevIndex};
use tally_disk::Helpers;
use tally_members::blockdev::numbered;
use tally_store::alloc::Allocator;
use tally_store::io::BlockIo;
use tally_store::key::{Class, Key};
use tally_store::tree::{Change, TREE_BYTES, Tree, Visit, WalkSummary};

use crate::blocks::Blocks;
use crate::heap;
use crate::input::Input;

/// Where in a tree's encoding its root pointer stands.
pub(crate) const ROOT_AT: usize = 16;
/// Leaves of small content have up to 64 KiB.
const SLOT_BYTES: u64 = 64 << 10;
const DEVICE_BYTES: u64 = 32 << 20;
const CACHE_BYTES: u64 = 1 << 20;
/// A few keys are enough to see that a tree answers.
const KEYS_MAX: usize = 64;
/// Entries that a walk looks at: nodes that name the same child many times unfold without an end that matters.
const VISITS_MAX: usize = 20_000;

/// The largest block (16 MiB), which a pointer may claim of packed bytes, while it is checked and while it is cached; and
/// what a merge holds.
const HEAP_BYTES: usize = 64 << 20;

/// See the module's head.
pub(crate) fn tree(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES, || {
        let mut input = Input::new(data);
        let mut root = [0; TREE_BYTES];
        let head = input.bytes(TREE_BYTES);
        root[..head.len()].copy_from_slice(head);
        let mut blocks = Blocks::in_a_row(&mut input, SLOT_BYTES);
        blocks.resolve(&mut root[ROOT_AT..]);
        let Ok(tree) = Tree::decode(&root) else { return false };
        assert_eq!(Tree::decode(&tree.encode()).as_ref(), Ok(&tree), "what was written reads the same");
        let devs = numbered([Arc::new(blocks.device(0, DEVICE_BYTES)) as _]);
        let alloc = Arc::new(Allocator::create(&devs, &[(VdevIndex(0), 0, DEVICE_BYTES / 4)]));
        let io = BlockIo::new(devs, alloc, CACHE_BYTES, Helpers::Serial);
        let Some(walked) = walk(&tree, &io) else { return true };
        look_up(&tree, &io, &walked);
        change(&tree, &io, &walked);
        walked.damage_count == 0
    })
}

struct Walked {
    keys: Vec<Key>,
    damage_count: u64,
    entry_count: u64,
}

/// Goes through the whole tree; `None` if it unfolds into too much.
fn walk(tree: &Tree, io: &BlockIo) -> Option<Walked> {
    let (mut keys, mut visit_count) = (Vec::new(), 0);
    let summary = tree.check(io, &mut |visit| {
        visit_count += 1;
        match visit {
            Visit::Entry { key, .. } if keys.len() < KEYS_MAX => keys.push(key),
            Visit::Damage { error, .. } => drop(error.to_string()),
            _ => {}
        }
    });
    let WalkSummary { damage_count, entry_count, .. } = summary;
    (visit_count < VISITS_MAX).then_some(Walked { keys, damage_count, entry_count })
}

fn look_up(tree: &Tree, io: &BlockIo, walked: &Walked) {
    for key in &walked.keys {
        let found = tree.get(io, key);
        assert!(walked.damage_count > 0 || matches!(found, Ok(Some(_))), "{key:?} was seen and is not found");
    }
    let (from, to) = (Key::new(Class::Inode, 0, 0, 0), Key::MAX);
    let found = tree.range(io, &from, &to).take(VISITS_MAX).filter(Result::is_ok).count() as u64;
    assert!(walked.damage_count > 0 || found == walked.entry_count, "{found} entries of {}", walked.entry_count);
    for class in Class::ALL {
        tree.visit_class(io, class, &mut |_| {});
        let _ = tree.range(io, &Key::new(class, 7, 0, 0), &to).next();
    }
}

/// Deletes the first key, changes the last one, and adds one of each class.
fn change(tree: &Tree, io: &Arc<BlockIo>, walked: &Walked) {
    let value = Bytes::from_static(b"a value that was not there before");
    let mut changes: Vec<(Key, Change)> =
        Class::ALL.map(|class| (Key::new(class, 0x1234, 5, 6), Change::Put(value.clone()))).to_vec();
    changes.extend(walked.keys.last().map(|key| (*key, Change::Put(value))));
    changes.extend(walked.keys.first().map(|key| (*key, Change::Delete)));
    changes.sort_by_key(|(key, _)| *key);
    changes.dedup_by_key(|(key, _)| *key);
    let mut out = io.writer(Txg(9));
    let Ok(changed) = tree.apply(io, &mut out, &changes) else { return };
    if walked.damage_count > 0 || out.finish().is_err() {
        return;
    }
    let again = walk(&changed, io).expect("a tree grows by eight entries");
    assert_eq!(again.damage_count, 0, "a sound tree is changed into a sound one");
    for (key, change) in &changes {
        let found = changed.get(io, key).expect("the tree is sound");
        let expected = match change {
            Change::Put(value) => Some(value.clone()),
            Change::Delete => None,
        };
        assert_eq!(found, expected, "{key:?} after its change");
    }
}
