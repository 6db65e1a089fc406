use tally_base::{Dseq, Generation, LaneId, ObjectId, Time};

use super::*;
use crate::dataset::{DatasetBirth, DatasetLine, DatasetRoot};
use crate::properties::PropertySet;
use crate::tree::Tree;

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
        log_txg: Txg(5),
        replay_dseq: Dseq(6),
        logged: true,
        log_from: Txg(0),
        next_object: ObjectId(7),
        verifier: 8,
        used_bytes: 9,
        object_count: 0,
        orphan_count: 0,
    };
    DatasetEntry { birth, line: DatasetLine { name: format!("tank/{id}"), local: PropertySet::new() }, root }
}

fn root() -> PoolRoot {
    PoolRoot {
        next_dataset: 3,
        datasets: vec![entry(1), entry(2)],
        reply_blocks: [None; BUCKETS],
        tombstones: BTreeMap::from([(DatasetId(9), Txg(4))]),
    }
}

fn decoded(root: &PoolRoot) -> Result<PoolRoot, Malformed> {
    let mut bytes = root.encode();
    // An allocator without vdevs: zero, sectors of a region, vdevs, lists.
    for word in [0, 8 * tally_base::SECTOR as u32, 0, 0] {
        bytes.put_u32(word);
    }
    PoolRoot::decode(&bytes.into()).map(|(root, _)| root)
}

type Lie = (&'static str, fn(&mut PoolRoot));

#[test]
fn what_cannot_have_been_drawn_is_malformed() {
    assert_eq!(decoded(&root()).unwrap().next_dataset, 3);
    let lies: [Lie; 11] = [
        ("no dataset id is left", |root| root.next_dataset = u64::MAX),
        ("an id that will be drawn again", |root| root.next_dataset = 2),
        ("one id twice", |root| root.datasets[1].birth.id = DatasetId(1)),
        ("a tombstone for ever", |root| _ = root.tombstones.insert(DatasetId(9), Txg(u64::MAX))),
        ("a root directory that was never drawn", |root| root.datasets[0].birth.root_object = ObjectId(7)),
        ("no object id is left", |root| root.datasets[0].root.next_object = ObjectId(u64::MAX)),
        ("the last record", |root| root.datasets[0].root.replay_dseq = Dseq(u64::MAX)),
        ("logged from the last group on", |root| root.datasets[0].root.log_from = Txg(u64::MAX)),
        ("everything is in the trees", |root| root.datasets[0].root.log_txg = Txg(u64::MAX)),
        ("an object id at the end", |root| root.datasets[1].root.next_object = ObjectId(1 << 62)),
        ("records at the end", |root| root.datasets[1].root.replay_dseq = Dseq(1 << 62)),
    ];
    for (what, lie) in lies {
        let mut root = root();
        lie(&mut root);
        assert!(decoded(&root).is_err(), "{what}");
    }
}

#[test]
fn accounts_are_bounded_instead() {
    let mut root = root();
    root.datasets[0].root.used_bytes = u64::MAX;
    root.datasets[0].root.object_count = u64::MAX;
    root.datasets[0].root.orphan_count = u64::MAX;
    let read = &decoded(&root).unwrap().datasets[0].root;
    assert_eq!((read.used_bytes, read.object_count, read.orphan_count), (1 << 62, 0, 0));
}
