//! Rows of the tables in docs/log.md that end in a word of the import: what it refuses, what it says, what is there
//! afterwards. The rows themselves are decided in `crates/intent/src/recovery`, and tested there one by one.

mod world;

use std::sync::atomic::AtomicU64;

use tally_base::{DatasetId, SECTOR, log_checksum};
use tally_fs::filer::{Filer, FilerError, ImportOptions};
use tally_fs::record::RecordKind;
use tally_intent::FrameHeader;
use tally_store::properties::PropertySet;
use tally_vfs::{Cred, Identity, Names};
use world::{World, ctx, done, mode};

const MIB: u64 = 1 << 20;
const ACCEPT: ImportOptions = ImportOptions { force: false, read_only: false, accept_loss: true, destroyed: false };
const READ_ONLY: ImportOptions = ImportOptions { force: false, read_only: true, accept_loss: false, destroyed: false };
/// A byte of a frame's header that its checksum covers.
const IN_HEADER: u64 = 80;

fn one_leg() -> World {
    World::new(16 * MIB, 2 * MIB)
}

/// A change with a frame of its own, acknowledged.
fn make(filer: &Filer, dataset: &str, name: &str) {
    let fs = filer.by_name(dataset).unwrap();
    done(fs.mkdir(ctx(&Cred::root()), fs.root(), name.as_bytes(), &mode(0o700))).unwrap();
}

fn names(filer: &Filer, dataset: &str) -> Vec<String> {
    let fs = filer.by_name(dataset).unwrap();
    let page = fs.readdir(&Cred::root(), fs.root(), 2, 100, false).unwrap();
    page.entries.into_iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect()
}

/// The frames of the newest life on a log disk, in their order, by where they begin.
fn frames(world: &World, leg: &str) -> Vec<u64> {
    let content = world.content_of(leg);
    let sectors = content.chunks(SECTOR).zip((0..).step_by(SECTOR));
    let mut frames: Vec<_> = sectors
        .filter_map(|(sector, offset)| FrameHeader::decode(sector).map(|(header, _)| (header.seq, offset)))
        .collect();
    frames.sort_unstable();
    frames.into_iter().map(|(_, offset)| offset).collect()
}

/// Makes the newest frame but `back` unreadable by its checksum, on one leg.
fn rot(world: &World, leg: &str, back: usize) {
    let frame = *frames(world, leg).iter().nth_back(back).unwrap();
    let byte = world.content_of(leg)[(frame + IN_HEADER) as usize];
    world.poke(leg, frame + IN_HEADER, &[byte ^ 0x10]);
}

/// Why an import that nobody has asked to give anything up is refused. It changes nothing.
fn refusal(world: &World) -> FilerError {
    let before = world.cut();
    let refusal = world.try_import(&ImportOptions::default()).err().expect("the import is refused");
    assert!(world.is_same(&before), "a refused import changes nothing");
    refusal
}

fn assert_says(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "{words:?} is not said: {text}");
    }
}

#[test]
fn case_d_a_lost_acknowledged_frame_refuses_the_import_until_it_is_given_up() {
    let world = one_leg();
    let filer = world.create();
    ["a", "b", "c"].into_iter().for_each(|name| make(&filer, "tank", name));
    let world = world.cut();
    rot(&world, "/disks/slog", 1);
    assert_says(&refusal(&world).to_string(), &["lane 0: records 2-2 are gone", "--accept-loss", "--readonly"]);
    let (looked, report) = world.try_import(&READ_ONLY).unwrap();
    assert_eq!((names(&looked, "tank"), report.losses.len()), (vec!["a".to_owned()], 1), "{:?}", report.losses);
    drop(looked);
    let (filer, report) = world.try_import(&ACCEPT).unwrap();
    assert_eq!((names(&filer, "tank"), report.records_replayed), (vec!["a".to_owned()], 1));
    make(&filer, "tank", "d");
    let (filer, report) = world.cut().import();
    assert_eq!((names(&filer, "tank"), report.losses), (vec!["a".to_owned(), "d".to_owned()], vec![]));
}

#[test]
fn case_e_one_bad_leg_of_two_is_said_and_costs_nothing() {
    let disks = [("/disks/data", 16 * MIB), ("/disks/l", 2 * MIB), ("/disks/m", 2 * MIB)];
    for (first, second) in [("/disks/l", "/disks/m"), ("/disks/m", "/disks/l")] {
        let world = World::of(&disks, "/disks/data log mirror /disks/l /disks/m");
        let filer = world.create();
        ["a", "b", "c"].into_iter().for_each(|name| make(&filer, "tank", name));
        let world = world.cut();
        rot(&world, first, 1);
        rot(&world, second, 2);
        let (filer, report) = world.import();
        assert_eq!((names(&filer, "tank").len(), report.losses.len()), (3, 0));
        let repaired = report.remarks.iter().filter(|remark| remark.contains("1 frames were repaired"));
        assert_eq!(repaired.count(), 2, "{:?}", report.remarks);
    }
}

/// Changes the newest frame but `back`, and makes both of its checksums right again.
fn forge(world: &World, leg: &str, back: usize, change: impl FnOnce(&mut [u8])) {
    let at = *frames(world, leg).iter().nth_back(back).unwrap() as usize;
    let mut frame = world.content_of(leg)[at..at + SECTOR].to_vec();
    change(&mut frame);
    let payload_bytes = u32::from_le_bytes(frame[112..116].try_into().unwrap()) as usize;
    let of_payload = log_checksum(&frame[136..136 + payload_bytes]);
    frame[120..128].copy_from_slice(&of_payload.to_le_bytes());
    let of_header = log_checksum(&frame[..128]);
    frame[128..136].copy_from_slice(&of_header.to_le_bytes());
    world.poke(leg, at as u64, &frame);
}

/// What only a faulty program writes was refused whatever was accepted, and could not even be looked at.
#[test]
fn case_q_t_u_a_log_that_contradicts_itself_is_refused_until_the_loss_is_accepted() {
    type Lie = fn(&mut [u8]);
    let lies: [(&str, Lie, &[&str]); 3] = [
        ("q another epoch", |frame| frame[32] ^= 1, &["a"]),
        ("t a record too far", |frame| frame[80] += 1, &["a"]),
        ("u a record longer than its frame", |frame| frame[136..140].fill(0xff), &["a"]),
    ];
    for (what, lie, kept) in lies {
        let world = one_leg();
        let filer = world.create();
        ["a", "b", "c"].into_iter().for_each(|name| make(&filer, "tank", name));
        let world = world.cut();
        forge(&world, "/disks/slog", 1, lie);
        assert_says(&refusal(&world).to_string(), &["faulty software", "records 2-", "--accept-loss", "--readonly"]);
        let (looked, _) = world.try_import(&READ_ONLY).unwrap();
        assert_eq!(names(&looked, "tank"), kept, "{what}");
        drop(looked);
        let (filer, report) = world.try_import(&ACCEPT).unwrap();
        assert_eq!(names(&filer, "tank"), kept, "{what}: {:?}", report.losses);
        make(&filer, "tank", "later");
        let (filer, report) = world.cut().import();
        assert_eq!((names(&filer, "tank").len(), report.losses), (kept.len() + 1, vec![]), "{what}");
    }
}

/// The data disk comes back from a copy that somebody had made. The log disk is that of now, with all of its frames, but its
/// labels with the uberblocks are those of the copy, too.
#[test]
fn case_n_a_pool_that_was_rolled_back_below_its_log_is_refused() {
    let world = one_leg();
    let filer = world.create();
    make(&filer, "tank", "old");
    filer.sync().unwrap();
    let mut copy = world.cut();
    make(&filer, "tank", "new");
    filer.sync().unwrap();
    make(&filer, "tank", "newest");
    let mut world = world.cut();
    let (start, length) = (frames(&world, "/disks/slog")[0], filer.pool().lanes()[0].geometry().size);
    let ring = start as usize..(start + length) as usize;
    copy.poke("/disks/slog", start, &world.content_of("/disks/slog")[ring]);
    world.take(&["/disks/data", "/disks/slog"]);
    world.put(copy.take(&["/disks/data", "/disks/slog"]));
    let words = ["lane 0 of the intent log", "tells of txg"];
    assert_says(&refusal(&world).to_string(), &words);
    for options in [ACCEPT, READ_ONLY] {
        let refusal = world.try_import(&options).err().expect("no word makes it right").to_string();
        assert_says(&refusal, &words);
    }
}

/// Three datasets on one lane. A record between two of the first is gone; nobody knows whose it was.
fn with_a_lost_record() -> World {
    let world = one_leg();
    let filer = world.create();
    for dataset in ["tank/both", "tank/before", "tank/none"] {
        filer.create_dataset(dataset, PropertySet::new(), (0, 0)).unwrap();
    }
    filer.sync().unwrap();
    make(&filer, "tank/before", "a");
    make(&filer, "tank/both", "a");
    make(&filer, "tank/none", "lost");
    make(&filer, "tank/both", "b");
    make(&filer, "tank/both", "c");
    let world = world.cut();
    rot(&world, "/disks/slog", 2);
    world
}

/// The verdict was found and told to nobody: the import named the records that were gone, and none of the datasets that may
/// have lost them (rules F26).
#[test]
fn verdict_suspect_every_dataset_that_may_have_lost_the_record_is_named() {
    let world = with_a_lost_record();
    let refusal = refusal(&world).to_string();
    assert_says(&refusal, &["are gone", "tank/before", "tank/none", "tank,"]);
    assert!(!refusal.contains("tank/both"), "its history goes on behind the loss: {refusal}");
}

#[test]
fn verdict_whole_a_dataset_with_records_on_both_sides_of_a_loss_has_lost_nothing() {
    let (filer, _) = with_a_lost_record().try_import(&ACCEPT).unwrap();
    assert_eq!(names(&filer, "tank/both"), ["a", "b", "c"]);
    assert_eq!(names(&filer, "tank/before"), ["a"]);
    assert_eq!(names(&filer, "tank/none"), [""; 0]);
}

/// Records 2 of 4 is gone, and record 3 was witnessed: it is not applied to a dataset without record 2.
#[test]
fn verdict_lost_what_lies_behind_the_gap_is_withheld() {
    let world = one_leg();
    let filer = world.create();
    ["a", "b", "c", "d"].into_iter().for_each(|name| make(&filer, "tank", name));
    let world = world.cut();
    rot(&world, "/disks/slog", 2);
    assert_says(&refusal(&world).to_string(), &["records 2-2 are gone", "are gone, 2 behind them are withheld"]);
    let (filer, _) = world.try_import(&ACCEPT).unwrap();
    assert_eq!(names(&filer, "tank"), ["a"]);
}

#[test]
fn verdict_unknown_records_of_a_dataset_that_is_not_there_are_named() {
    let world = one_leg();
    let filer = world.create();
    make(&filer, "tank", "a");
    let lane = &filer.pool().lanes()[0];
    let room = lane.reserve(8).unwrap();
    let (stranger, kind) = (DatasetId(77), RecordKind::Create as u16);
    let appended = lane.append(room, stranger, &AtomicU64::new(1), filer.pool().txgs.open(), kind, &[&[0; 8]]).unwrap();
    lane.promise(appended.lsn, appended.body_bytes).block().unwrap();
    let world = world.cut();
    assert_says(&refusal(&world).to_string(), &["dataset 77: 1 records", "does not know"]);
    let (filer, report) = world.try_import(&ACCEPT).unwrap();
    assert_eq!((names(&filer, "tank"), report.records_replayed), (vec!["a".to_owned()], 1));
}
