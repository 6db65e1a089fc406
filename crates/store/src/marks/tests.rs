use super::*;

const HOME: DatasetId = DatasetId(4);
const HOUR: u64 = AGE_MAX.as_nanos() as u64;

fn place(session: u8, slot: u32, sequence: u32) -> SlotMark {
    SlotMark { session: [session; 16], slot, operation: 1, sequence, fingerprint: 5 }
}

fn remember(marks: &Marks, txg: u64, place: &SlotMark) {
    marks.remember(HOME, Txg(txg), Time(txg), place, [txg as u8; 17]);
}

/// Rules V5: the group that is written may not have what is of the next one, which may be lost.
#[test]
fn a_mark_is_written_with_its_group_and_not_before() {
    let marks = Marks::default();
    remember(&marks, 7, &place(1, 0, 1));
    remember(&marks, 8, &place(1, 1, 1));
    let (there, gone) = marks.take(Txg(7), Time(7));
    assert_eq!((there.len(), gone), (1, Vec::new()));
    assert_eq!(there.keys().next(), Some(&key_of(&place(1, 0, 1))));
    assert_eq!(marks.all(Txg(7)), there);
    assert_eq!(marks.pending().len(), 1);
    assert_eq!(marks.take(Txg(8), Time(8)).0.len(), 1);
    // One that takes its place before it is written.
    remember(&marks, 9, &place(1, 0, 2));
    remember(&marks, 10, &SlotMark { operation: 3, ..place(1, 0, 3) });
    let (there, gone) = marks.take(Txg(9), Time(9));
    assert_eq!((there.len(), gone), (0, vec![key_of(&place(1, 0, 1))]), "its client has been answered");
    assert_eq!(marks.recall(HOME, &place(1, 0, 2)), None);
    assert_eq!(marks.recall(HOME, &SlotMark { operation: 3, ..place(1, 0, 3) }), Some([10; 17]));
}

#[test]
fn what_is_read_is_what_was_written_and_ages_by_its_session() {
    let marks = Marks::default();
    for slot in 0..4 {
        remember(&marks, 7, &place(1, slot, 9));
        remember(&marks, 7, &place(2, slot, 9));
    }
    let (there, _) = marks.take(Txg(7), Time(7));
    let (read, mut remarks) = (Marks::default(), Vec::new());
    assert_eq!(read.load(there.clone(), LostMarks::default(), &|_, _, time| time < Time(HOUR), &mut remarks), Time(7));
    assert_eq!((read.all(Txg(7)), remarks.len()), (there.clone(), 0));
    assert_eq!(read.recall(HOME, &place(2, 3, 9)), Some([7; 17]));
    assert_eq!(read.recall(DatasetId(5), &place(2, 3, 9)), None);
    // One session is used by a replay: all that it has done stays.
    read.remember(HOME, Txg(8), Time(7 + HOUR), &place(1, 0, 10), [1; 17]);
    let (_, gone) = read.take(Txg(8), Time(8 + HOUR));
    assert_eq!((gone.len(), read.count()), (4, 4));
    assert_eq!((read.known(&place(1, 3, 9)), read.known(&place(2, 3, 9))), (Known::Request, Known::Nothing));
    // Sessions that live do not age.
    assert_eq!(marks.take(Txg(8), Time(10 * HOUR)), (BTreeMap::new(), Vec::new()));
    marks.begin_life();
    assert_eq!(marks.take(Txg(8), Time(10 * HOUR)).1.len(), 8);

    let marks_there = there.clone();
    let (mut rotten, marks) = (there, Marks::default());
    let (key, value) = rotten.pop_first().unwrap();
    rotten.insert(key, value.slice(1..));
    marks.load(rotten, LostMarks::default(), &|_, _, _| true, &mut remarks);
    assert_eq!((marks.count(), remarks.len()), (7, 1));
    assert_eq!(marks.take(Txg(9), Time(9)).1, vec![key], "it goes with the next group");
    // Sound, and of a time that nobody has issued.
    let (marks, mut remarks) = (Marks::default(), Vec::new());
    let newest = marks.load(marks_there, LostMarks::default(), &|_, _, time| time < Time(7), &mut remarks);
    assert_eq!((marks.count(), remarks.len(), newest), (0, 8, Time(0)));
}

/// Rules V35: sessions of lives before make room for those that live.
#[test]
fn there_are_only_so_many_and_the_dead_go_first() {
    let marks = Marks::default();
    let at = |session: u32, slot| {
        let mut bytes = [16; 16];
        bytes[..4].copy_from_slice(&session.to_be_bytes());
        SlotMark { session: bytes, slot, operation: 1, sequence: 1, fingerprint: 5 }
    };
    let most = 64 * 64;
    marks.bound(FOLDS * (most * MARK_BYTES + NODES_BYTES) as u64);
    for (session, slot) in (0..64).flat_map(|session| (0..64).map(move |slot| (session, slot))) {
        remember(&marks, u64::from(session), &at(session, slot));
    }
    marks.begin_life();
    assert_eq!(marks.count(), most);
    for slot in 0..64 {
        remember(&marks, 1000, &at(u32::MAX, slot));
    }
    assert!(marks.count() <= most && marks.fold_bytes() <= FOLDS * (most * MARK_BYTES + NODES_BYTES) as u64);
    assert_eq!(marks.known(&at(0, 0)), Known::Nothing, "the oldest of the dead, as a whole");
    assert_eq!((marks.known(&at(10, 0)), marks.known(&at(u32::MAX, 0))), (Known::Request, Known::Request));
    // Where all of them live it is the one that has been silent for longest.
    let marks = Marks::default();
    marks.bound(FOLDS * (4 * MARK_BYTES + NODES_BYTES) as u64);
    for (time, session, slot) in [(1, 1, 0), (2, 2, 0), (3, 2, 1), (4, 1, 1), (5, 3, 0)] {
        remember(&marks, time, &at(session, slot));
    }
    let known = [1, 2, 3].map(|session| marks.known(&at(session, 0)));
    assert_eq!((known, marks.count()), ([Known::Request, Known::Nothing, Known::Request], 3));
}

/// As the catalog has had it since there are marks.
#[test]
fn a_mark_is_written_byte_by_byte() {
    let session = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let (slot, operation, sequence) = (0x0102_0304, 5, 0x0a0b_0c0d);
    let place = SlotMark { session, slot, operation, sequence, fingerprint: 0x1122_3344_5566_7788 };
    let marks = Marks::default();
    marks.remember(HOME, Txg(7), Time(9), &place, [0xaa; 17]);
    let (there, _) = marks.take(Txg(7), Time(9));
    let (key, value) = there.first_key_value().unwrap();
    let expected: Vec<u8> = [51].into_iter().chain(session).chain([1, 2, 3, 4, 0, 0, 0, 5]).collect();
    assert_eq!(key.encode()[..], expected);
    let (dataset, txg, time) = (4_u64.to_le_bytes(), 7_u64.to_le_bytes(), 9_u64.to_le_bytes());
    let (sequence, print) = ([0x0d, 0x0c, 0x0b, 0x0a], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(value[..], [&[1][..], &dataset, &txg, &time, &sequence, &print, &[0xaa; 17]].concat());
}

/// A pool that is exported and imported while its clients have their sessions took those for sessions of a life before.
#[test]
fn sessions_that_live_do_not_age_wherever_their_pool_was() {
    let marks = Marks::default();
    [1, 2, 3].into_iter().for_each(|session| remember(&marks, 7, &place(session, 0, 9)));
    let (there, _) = marks.take(Txg(7), Time(7));
    let (marks, mut remarks) = (Marks::default(), Vec::new());
    marks.load(there, LostMarks::default(), &|_, _, _| true, &mut remarks);
    // A replay changes nothing of that.
    remember(&marks, 8, &place(3, 1, 9));
    marks.begin_life();
    marks.keep(&[[1; 16], [9; 16]]);
    // Who changes something lives.
    remember(&marks, 9, &place(2, 1, 1));
    assert_eq!(marks.take(Txg(9), Time(10 * HOUR)).1.len(), 2);
    assert_eq!(
        [1, 2, 3].map(|session| marks.known(&place(session, 0, 9))),
        [Known::Request, Known::Request, Known::Nothing]
    );
}
