use super::*;
use crate::control::report::errors_of;

fn event(time_ns: u64, class: &str, text: &str) -> EventReport {
    let at = (NOON * 1_000_000_000).saturating_add(time_ns);
    EventReport { number: time_ns, time_ns: at, pool: "tank".into(), class: class.into(), text: text.into() }
}

/// One who has seen a daemon already.
fn seasoned() -> Memory {
    Memory::default()
}

const NOON: u64 = 1_800_000_000;

#[test]
fn the_same_is_told_once_an_hour() {
    let mut memory = seasoned();
    let failed = |time_ns| event(time_ns, "statechange", "/dev/sda was ONLINE, and is FAILED");
    assert_eq!(memory.judge(&failed(1), NOON), Verdict::Tell);
    assert_eq!(memory.judge(&failed(1), NOON), Verdict::Done, "it waits for its programs");
    assert_eq!(memory.judge(&failed(2), NOON), Verdict::Again, "while the first one waits");
    memory.told(&failed(1), NOON + 5);
    assert_eq!(memory.judge(&failed(3), NOON + 6), Verdict::Again);
    assert_eq!(memory.judge(&event(4, "statechange", "/dev/sdb was ONLINE, and is FAILED"), NOON + 6), Verdict::Tell);
    assert_eq!(memory.judge(&failed(5), NOON + 5 + AGAIN_SECONDS), Verdict::Tell, "an hour later");
    memory.told(&failed(5), NOON + 2 * AGAIN_SECONDS);
    assert_eq!(memory.judge(&failed(6), NOON), Verdict::Tell, "a clock that was put back silences nobody");
    for done in 1..=3 {
        assert_eq!(memory.judge(&failed(done), NOON), Verdict::Done);
    }
}

/// The last that anybody hears of a disk is how it is.
#[test]
fn what_comes_again_within_the_hour_is_told_when_it_is_over() {
    let mut memory = seasoned();
    let (failed, well) = ("/dev/sda was ONLINE, and is FAILED", "/dev/sda was FAILED, and is ONLINE");
    for (time_ns, text) in [(1, failed), (2, well)] {
        assert_eq!(memory.judge(&event(time_ns, "statechange", text), NOON), Verdict::Tell);
        memory.told(&event(time_ns, "statechange", text), NOON);
    }
    assert_eq!(memory.judge(&event(3, "statechange", failed), NOON + 1), Verdict::Again);
    assert_eq!(memory.judge(&event(4, "statechange", failed), NOON + 2), Verdict::Again, "the newest counts");
    assert_eq!(memory.due(NOON + AGAIN_SECONDS - 1), []);
    let kept: Memory = serde_json::from_slice(&serde_json::to_vec(&memory).unwrap()).unwrap();
    for mut memory in [memory, kept] {
        let due = memory.due(NOON + AGAIN_SECONDS);
        assert_eq!(due, [event(4, "statechange", failed)]);
        assert_eq!(memory.due(NOON + AGAIN_SECONDS), [], "its programs run");
        memory.told(&due[0], NOON + AGAIN_SECONDS);
        assert_eq!(memory.due(NOON + 3 * AGAIN_SECONDS), []);
    }
}

#[test]
fn what_was_one_too_many_is_told_when_there_is_room() {
    let mut memory = seasoned();
    let disk = |number: u64| event(number, "statechange", &format!("disk {number}"));
    (0..TOLD_MAX as u64).for_each(|number| assert_eq!(memory.judge(&disk(number), NOON), Verdict::Tell));
    assert!(matches!(memory.judge(&event(1000, "suspended", "its disks are gone"), NOON), Verdict::TooMany(Some(_))));
    (0..TOLD_MAX as u64).for_each(|number| memory.told(&disk(number), NOON));
    assert_eq!(memory.due(NOON + 1), [], "others were told");
    assert_eq!(memory.due(NOON + AGAIN_SECONDS), [event(1000, "suspended", "its disks are gone")]);
}

#[test]
fn errors_of_a_disk_are_the_same_however_many_they_are() {
    let mut memory = seasoned();
    let errors = |time_ns, disk: &str| event(time_ns, EventClass::Errors.word(), &errors_of(disk, [time_ns, 0, 0]));
    assert_eq!(memory.judge(&errors(1, "/dev/sda"), NOON), Verdict::Tell);
    assert_eq!(memory.judge(&errors(2, "/dev/sda"), NOON), Verdict::Again);
    assert_eq!(memory.judge(&errors(3, "/dev/sdb"), NOON), Verdict::Tell);
}

#[test]
fn a_flood_is_one_event_more() {
    let mut memory = seasoned();
    let (mut told, mut floods) = (0, Vec::new());
    for number in 0..100_000 {
        match memory.judge(&event(number + 1, "statechange", &format!("disk {number}")), NOON) {
            Verdict::Tell => told += 1,
            Verdict::TooMany(flood) => floods.extend(flood),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((told, floods.len(), memory.waiting.len()), (TOLD_MAX, 1, TOLD_MAX + 1));
    assert!(memory.known.len() == DONE_MAX && memory.done.len() == DONE_MAX, "bounded");
    memory.told(&floods[0], NOON);
    assert_eq!(memory.judge(&event(100_001, "x", "y"), NOON), Verdict::TooMany(None));
    // What was dropped is done.
    assert_eq!(memory.judge(&event(200, "statechange", "disk 199"), NOON), Verdict::Done);
}

#[test]
fn what_is_done_is_done_behind_a_restart_and_what_was_cut_off_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("done.json");
    let mut memory = Memory::load(&path).unwrap();
    assert!(memory.begin(&[event(1, "pool_import", "before")], NOON), "a first answer is no news");
    for number in 2..=3 {
        assert_eq!(memory.judge(&event(number, "x", &number.to_string()), NOON), Verdict::Tell);
    }
    memory.told(&event(2, "x", "2"), NOON);
    memory.save(&path).unwrap();

    let mut memory = Memory::load(&path).unwrap();
    assert!(!memory.begin(&[event(4, "x", "4")], NOON));
    let verdicts = [event(1, "pool_import", "before"), event(2, "x", "2"), event(3, "x", "3"), event(4, "x", "4")];
    let verdicts = verdicts.map(|event| memory.judge(&event, NOON));
    assert_eq!(verdicts, [Verdict::Done, Verdict::Done, Verdict::Tell, Verdict::Tell]);
}

/// A clock that once said 2099 must not have everything before that be done.
#[test]
fn one_wrong_time_silences_nothing() {
    let mut memory = seasoned();
    memory.done(&event(u64::MAX, "x", "the future"), NOON);
    for number in 0..=DONE_MAX as u64 {
        memory.done(&event(number + 1, "x", "x"), NOON);
    }
    assert_eq!(memory.judge(&event(DONE_MAX as u64 + 2, "x", "now"), NOON), Verdict::Tell);
}

/// The service ended with it, every five seconds, for ever.
#[test]
fn what_cannot_be_understood_is_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("done.json");
    for text in [&b""[..], b"[1", b"{\"done\":[[1]]}", b"\xff"] {
        fs::write(&path, text).unwrap();
        let mut memory = Memory::load(&path).unwrap();
        assert_eq!(fs::read(dir.path().join("done.json.bad")).unwrap(), text);
        assert!(!path.exists() && memory.begin(&[], NOON), "{text:?}");
    }
    // One that cannot be read is left where it is.
    fs::create_dir(&path).unwrap();
    assert!(Memory::load(&path).is_err() && path.is_dir());
}

/// A package that is taken back finds what the newer one wrote, and one that is newer what the older one did.
#[test]
fn what_another_version_wrote_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("done.json");
    let mut memory = seasoned();
    let event = event(1, "x", "x");
    memory.told(&event, NOON);
    let newer = serde_json::to_value(&memory).unwrap();
    for field in newer.as_object().unwrap().keys().filter(|field| *field != "done") {
        let mut other = newer.clone();
        let fields = other.as_object_mut().unwrap();
        fields.remove(field);
        fields.insert("later".into(), serde_json::json!({ "is": [1] }));
        fs::write(&path, other.to_string()).unwrap();
        assert_eq!(Memory::load(&path).unwrap().judge(&event, NOON), Verdict::Done, "without {field}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was put aside");
}

/// What a pool remembers of last year is not told where it comes now.
#[test]
fn what_is_older_than_a_week_is_no_news() {
    let mut memory = seasoned();
    let old = event(0, "pool_suspended", "last week");
    assert_eq!(memory.judge(&old, NOON + AGE_SECONDS_MAX + 1), Verdict::Old);
    let mut memory = seasoned();
    assert_eq!(memory.judge(&old, NOON + AGE_SECONDS_MAX), Verdict::Tell);
}

/// One that ends the service each time is given up, whatever else is told in between.
#[test]
fn what_is_cut_off_is_counted_by_itself() {
    let mut memory = seasoned();
    let (deadly, other) = (event(1, "statechange", "a"), event(2, "statechange", "b"));
    for times in 1..=BEGUN_MAX {
        assert_eq!(memory.begun(&deadly), times);
        memory = serde_json::from_slice(&serde_json::to_vec(&memory).unwrap()).unwrap();
        assert_eq!(memory.begun(&other), 1);
        memory.told(&other, NOON);
    }
    memory.told(&deadly, NOON);
    assert_eq!(memory.begun(&deadly), 1, "it has ended");
}
