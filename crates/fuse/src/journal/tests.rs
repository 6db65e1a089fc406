//! What is written down is what is read, behind any number of times that it was written anew.

use std::os::fd::AsFd as _;

use proptest::prelude::*;
use tally_base::{Generation, ObjectId};
use tally_vfs::ObjectRef;
use tally_vfs::locks::{Kind, Range};

use super::*;

fn kept(journal: &Journal) -> State {
    let files = journal.files().map(|file| file.try_clone_to_owned().unwrap());
    let [a, b] = files;
    // Whoever keeps them may give them in any order.
    Journal::resume([b, a]).unwrap().1
}

fn file(number: u64) -> ObjectRef {
    ObjectRef { id: ObjectId(number), generation: Generation(1) }
}

/// One of what may happen to three files, by three owners and eight opens.
fn any_entry() -> impl Strategy<Value = Entry<'static>> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write)];
    let gives = prop_oneof![(0..3_u64).prop_map(Gives::Verifier), Just(Gives::Lost), Just(Gives::Gone)];
    let range = (0..20_u64, 0..20_u64).prop_map(|(a, b)| Range::between(a.min(b), a.max(b)).unwrap());
    prop_oneof![
        (0..3_u64, 0..8_u64, any::<u64>()).prop_map(|(number, fh, unique)| Entry::Opened {
            unique,
            object: file(number),
            fh: fh * 3 + number
        }),
        (0..3_u64, 0..8_u64).prop_map(|(number, fh)| Entry::Released { object: ObjectId(number), fh: fh * 3 + number }),
        (0..3_u64, 0..3_u64, 0..8_u64, range.clone(), kind).prop_map(|(number, owner, fh, range, kind)| {
            Entry::Locked { object: file(number), by: Locker { owner, fh: fh * 3 + number, pid: 7 }, range, kind }
        }),
        (0..3_u64, 0..3_u64, range).prop_map(|(number, owner, range)| Entry::Unlocked {
            object: ObjectId(number),
            owner,
            range
        }),
        (0..3_u64, gives).prop_map(|(number, gives)| Entry::Due { object: ObjectId(number), gives }),
        (0..3_u64).prop_map(|number| Entry::Settled { object: ObjectId(number) }),
        any::<(u64, u64)>().prop_map(|(unique, offset)| Entry::Appends { unique, offset }),
        any::<bool>().prop_map(|can_resend| Entry::Agreed { can_resend }),
        Just(Entry::Left { message: b"a request" }),
        Just(Entry::TakenUp),
        Just(Entry::EndsWell),
    ]
}

proptest! {
    /// Whether it was written anew behind each entry or never, the same is there; and a range is locked as whoever locked it last has it.
    #[test]
    fn what_was_noted_is_found(entries in prop::collection::vec(any_entry(), 0..60)) {
        let (plain, anew) = (Journal::begin(b"tank").unwrap(), Journal::begin(b"tank").unwrap());
        let mut bytes = std::collections::BTreeMap::new();
        let mut through = std::collections::BTreeMap::<_, std::collections::BTreeSet<u64>>::new();
        let mut opens = std::collections::BTreeSet::new();
        for entry in &entries {
            plain.note(entry);
            anew.note(entry);
            anew.renew(&mut anew.at.lock()).unwrap();
            match *entry {
                Entry::Opened { fh, .. } => drop(opens.insert(fh)),
                Entry::Locked { object, by, range, kind } => {
                    (range.first()..=range.last()).for_each(|at| { let _ = bytes.insert((object.id.0, by.owner, at), kind); });
                    through.entry((object.id.0, by.owner)).or_default().insert(by.fh);
                }
                Entry::Unlocked { object, owner, range } => {
                    bytes.retain(|key, _| (key.0, key.1) != (object.0, owner) || !(range.first()..=range.last()).contains(&key.2));
                }
                Entry::Released { object, fh } if opens.remove(&fh) => {
                    for (key, fhs) in &mut through {
                        if key.0 == object.0 && fhs.remove(&fh) && fhs.is_empty() {
                            bytes.retain(|(file, owner, _), _| (*file, *owner) != *key);
                        }
                    }
                }
                _ => {}
            }
            through.retain(|key, _| bytes.keys().any(|(file, owner, _)| (*file, *owner) == *key));
        }
        let (plain, anew) = (kept(&plain), kept(&anew));
        let mut found = std::collections::BTreeMap::new();
        for ((object, owner), held) in &plain.owners {
            for (range, kind) in &held.ranges {
                (range.first()..=range.last()).for_each(|at| { let _ = found.insert((object.0, *owner, at), *kind); });
            }
        }
        prop_assert_eq!(found, bytes);
        // Of a state that was written anew the numbers of whose it is are not those of the other.
        let mut anew = anew;
        anew.id = plain.id;
        prop_assert_eq!(anew, plain);
    }
}

#[test]
fn a_record_that_was_cut_off_was_never_written() {
    for cut in [1, 63, 64, 4096] {
        let journal = Journal::begin(b"tank").unwrap();
        journal.note(&Entry::Opened { unique: 5, object: file(3), fh: 9 });
        let before = kept(&journal);
        let end = journal.at.lock().end;
        journal.note(&Entry::Left { message: &[7; 5000] });
        let active = journal.at.lock().active;
        rustix::fs::ftruncate(journal.files[active].as_fd(), end + cut).unwrap();
        assert_eq!(kept(&journal), before, "cut at {cut}");
        assert_eq!(before.opens.get(&9), Some(&(file(3), 5)));
        // What comes next is behind what is whole.
        let files = journal.files().map(|file| file.try_clone_to_owned().unwrap());
        let (next, _) = Journal::resume(files).unwrap();
        next.note(&Entry::Released { object: ObjectId(3), fh: 9 });
        assert!(kept(&next).opens.is_empty());
    }
}

/// Another version has kinds that this one does not know: what is behind such a record may be a lock.
#[test]
fn a_record_that_is_not_known_is_not_passed_over() {
    let journal = Journal::begin(b"tank").unwrap();
    journal.note(&Entry::Opened { unique: 5, object: file(3), fh: 9 });
    let mut strange = Entry::TakenUp.encoded();
    strange[4] = 99;
    let at = journal.at.lock();
    journal.files[at.active].write_all_at(&strange, at.end).unwrap();
    drop(at);
    let files = journal.files().map(|file| file.try_clone_to_owned().unwrap());
    assert!(matches!(Journal::resume(files), Err(NotKept::Unknown)));
    assert!(journal.state().is_none());
}

/// The process was killed anywhere while it wrote the other file: the one of before counts.
#[test]
fn half_of_what_is_written_anew_is_nothing() {
    let journal = Journal::begin(b"tank").unwrap();
    journal.note(&Entry::Opened { unique: 5, object: file(3), fh: 9 });
    let before = kept(&journal);
    let other = &journal.files[1 - journal.at.lock().active];
    other.set_len(0).unwrap();
    let half = Entry::Mount { id: [9; 16], about: b"tank" }.encoded();
    other.write_all_at(&half, HEAD_BYTES).unwrap();
    assert_eq!(kept(&journal), before);
}

#[test]
fn what_cannot_be_written_down_is_not_taken_over() {
    let journal = Journal::begin(b"tank").unwrap();
    let active = journal.at.lock().active;
    // Nothing more fits.
    let files = journal.files().map(|file| file.try_clone_to_owned().unwrap());
    journal.at.lock().end = i64::MAX as u64;
    journal.note(&Entry::TakenUp);
    assert!(!journal.is_whole() && journal.files[active].metadata().unwrap().len() == 0);
    assert!(matches!(Journal::resume(files), Err(NotKept::Unknown)));
}

#[test]
fn what_is_written_often_takes_no_more_room() {
    let journal = Journal::begin(b"tank").unwrap();
    let most = 2 * ANEW_FROM;
    for round in 0..most / 64 {
        journal.note(&Entry::Opened { unique: round, object: file(3), fh: round * 8 });
        journal.note(&Entry::Released { object: ObjectId(3), fh: round * 8 });
    }
    let bytes: u64 = journal.files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= ANEW_FROM + 1024, "{bytes}");
    assert_eq!((kept(&journal).opens.len(), kept(&journal).next), (0, (most / 64 - 1) * 8 + 1));
}
