use tally_base::Time;

use super::*;

const LIFE: Life = Life { number: 2, random: 3, change_floor: Time(4) };

fn root() -> PoolRoot {
    PoolRoot {
        next_dataset: 3,
        log_txg: Txg(5),
        tombstones: BTreeMap::from([(DatasetId(9), Txg(4))]),
        ..PoolRoot::new(LIFE)
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
    let read = decoded(&root()).unwrap();
    assert_eq!(read.life, LIFE);
    assert_eq!((read.next_dataset, read.log_txg, &read.tombstones), (3, Txg(5), &root().tombstones));
    let lies: [Lie; 7] = [
        ("no dataset id is left", |root| root.next_dataset = u64::MAX),
        ("a tombstone for ever", |root| _ = root.tombstones.insert(DatasetId(9), Txg(u64::MAX))),
        ("no life", |root| root.life.number = 0),
        ("the last life", |root| root.life.number = 1 << 62),
        ("changes that never end", |root| root.life.change_floor = Time(u64::MAX)),
        ("everything is in the trees", |root| root.log_txg = Txg(u64::MAX)),
        ("a group at the end", |root| root.log_txg = Txg(1 << 62)),
    ];
    for (what, lie) in lies {
        let mut root = root();
        lie(&mut root);
        assert!(decoded(&root).is_err(), "{what}");
    }
}

#[test]
fn a_root_of_the_first_version_is_refused() {
    let mut bytes = root().encode();
    bytes[0] = 1;
    assert!(PoolRoot::decode(&bytes.into()).is_err());
}
