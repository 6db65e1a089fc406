//! What a pool keeps beside its files, and what stands in its labels besides: each such structure has its line.
//!
//! Numbers that are drawn, and what a clock says, are not compared: their place is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tally_base::{Time, Txg, VdevGuid};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::filer::ImportOptions;
use tally_fs::inspect::FsWords;
use tally_fs::{Filer, Filesystem};
use tally_intent::Lane;
use tally_members::discover::ImportSource;
use tally_members::label::{self, Rewind, Section, Spare};
use tally_members::vdev::VdevLeg;
use tally_store::inspect::{Fact, Part, Plan, Value, inspect};
use tally_store::pool::membership::{Onlooker, Stage};
use tally_store::pool::{Command, Event, Pool, ScrubEvery, SyncError};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{Attributes, Content, CreateHow, Cred, Identity, Names, ObjectRef, SetAttr, Stability};

use crate::world::{World, ctx, member, mode, noise, patient};

const MIB: u64 = 1 << 20;
const DISK: u64 = 64 * MIB;
const A: &str = "/disks/a";
const C: &str = "/disks/c";

/// Fields of which only the name is compared.
const DRAWN: &[&str] = &[
    "time",
    "mtime",
    "ctime",
    "birth",
    "generation",
    "began",
    "began_txg",
    "changed",
    "ran_ms",
    "total_bytes",
    "checked_bytes",
    "copied_bytes",
    "cursor",
    "leg",
    "stands_for",
    "settled",
    "first_txg",
    "last_txg",
    "block",
    "number",
    "reaped_to",
    "legset",
    "to",
];

/// Lets the disk join up to a step, and is interrupted there.
struct UpTo(u64);

impl Onlooker for UpTo {
    fn on_progress(&mut self, stage: Stage, done: u64) -> bool {
        stage != Stage::Copying || done < self.0
    }

    fn is_interrupted(&self) -> bool {
        true
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        pool.sync().map(|_| ())
    }

    fn keep_paths(&mut self, _: &Pool) -> std::io::Result<()> {
        Ok(())
    }

    fn run_lane(&mut self, _: Arc<Lane>) -> std::io::Result<()> {
        Ok(())
    }

    fn let_go(&mut self, _: Arc<VdevLeg>) {}

    fn goes_on(&mut self, _: u64, _: u64, _: Duration) {}
}

fn put(fs: &Filesystem, name: &str, bytes: u64, seed: u64) -> ObjectRef {
    let cred = Cred::root();
    let how = CreateHow::Guarded(mode(0o644));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    for at in (0..bytes).step_by(MIB as usize) {
        let part = noise(MIB.min(bytes - at) as usize, seed + at);
        patient(|| fs.write(ctx(&cred), file, at, part.clone(), Stability::Unstable)).unwrap();
    }
    file
}

/// A pool in which everything has begun and nothing is over.
fn furnished() -> World {
    let mut world = World::of(&[(A, DISK)], A);
    let filer = world.create_without_threads(&Default::default());
    let fs = filer.by_name("tank").unwrap();
    let rotten = put(&fs, "rotten", 200_000, 7);
    (0..6).for_each(|number| _ = put(&fs, &format!("file {number}"), MIB, 100 * number));
    put(&fs, "cut", 2 * MIB, 77);
    filer.export().unwrap();
    drop(filer);
    let tuning = Tuning { reap_extents_max: 4, scrub_stretch_bytes: MIB / 2, ..Tuning::default() };
    world.put(vec![(C.to_owned(), World::disk(DISK))]);
    let filer = world.try_import_without_threads(&tuning, &ImportOptions::default()).unwrap().0;
    rot(&world, &filer, rotten);
    note(&filer);
    let fs = filer.by_name("tank").unwrap();
    assert!(fs.read(&Cred::root(), rotten, 0, 100).is_err());
    assert!(filer.scrub(&mut |done| done < 3 * MIB).is_err() && filer.pool().pause_scrub());
    assert!(filer.pool().join(&member(&filer, A), Path::new(C), false, &mut UpTo(2 * MIB)).is_err());
    let (found, _) = fs.lookup(&Cred::root(), fs.root(), b"cut").unwrap();
    let size = SetAttr { size: Some(0), ..SetAttr::default() };
    patient(|| fs.setattr(ctx(&Cred::root()), found.object, &size, None)).unwrap();
    filer.sync().unwrap();
    let world = world.cut();
    [A, C].iter().for_each(|path| say_in_labels(world.at(path)));
    world
}

/// Damages the first block of a file.
fn rot(world: &World, filer: &Filer, file: ObjectRef) {
    let tree = filer.pool().datasets()[0].root().tree.clone();
    let mut place = None;
    tree.check(&filer.pool().io, &mut |visit| {
        if let Visit::Entry { key, value } = visit
            && key.class == tally_store::key::Class::Extent
            && (key.object, key.a) == (file.id.0, 0)
        {
            place = Some(tally_store::bp::BlockPtr::decode(value.try_into().unwrap()).unwrap().dva.offset);
        }
    });
    world.poke(A, label::LABEL_BYTES + place.expect("it has blocks"), &[0x5a; 64]);
    filer.pool().io.drop_cache();
}

fn note(filer: &Filer) {
    let pool = filer.pool();
    pool.set_scrub_every(ScrubEvery::Weekly);
    let (user, host, words) = ("0 (root)".into(), "host".into(), "tally pool set scrub=weekly tank".into());
    pool.note_command(&Command { time: Time(5), user, host, words });
    pool.note_event(&Event { time: Time(6), class: "statechange".into(), text: "something happened".into() }, true);
}

/// What other commands, and another program, have left in the labels.
fn say_in_labels(disk: &MemDisk) {
    let mut label = label::read(disk).unwrap();
    let config = &mut label.config;
    config.sequence += 1;
    config.spares.push(Spare { guid: VdevGuid(0xab), stands_for: None, size: DISK, path: "/disks/s".into() });
    let (kept, dropped, time) = (Txg(1), Txg(2), Time(7));
    config.rewinds.push(Rewind { kept, kept_gen: 1, dropped, open_gen: 2, time, depth: 1 });
    config.lanes[0].left.push((VdevGuid(0xcd), 0));
    config.carried.push(Section { id: 99, must_be_known: false, bytes: vec![9; 30] });
    label::write(disk, label.leg, config).unwrap();
}

/// Everything that inspect says with all details.
fn facts(world: &World) -> Vec<Fact> {
    let opener = MemOpener::default();
    for path in [A, C] {
        opener.put(path, Arc::new(MemDisk::from_bytes(&world.content_of(path))) as _);
    }
    let source = ImportSource { paths: vec![], dirs: vec!["/disks".into()] };
    let trees = vec!["tank".to_owned()];
    let plan = Plan { labels: true, uberblocks: true, log: true, trees, space: true, data: false, verbose: true };
    let mut facts = Vec::new();
    inspect(&opener, &source, &plan, &FsWords, &mut |fact| facts.push(fact.clone())).unwrap();
    facts
}

/// What is compared of a line.
fn shown(fact: &Fact) -> String {
    let mut fact = Fact { source: None, ..fact.clone() };
    for (name, value) in &mut fact.fields {
        if DRAWN.contains(name) {
            *value = Value::Text("…".into());
        }
    }
    fact.to_string()
}

/// `tally inspect` had words for all of these, and no test saw a line of them.
#[test]
fn everything_that_a_pool_keeps_has_a_line() {
    let facts = facts(&furnished());
    let is_of_them = |fact: &&Fact| match fact.part {
        Part::Labels => matches!(fact.what, "spare" | "rewind" | "section" | "missed groups" | "lane"),
        _ => {
            let has_cuts = fact.fields.iter().any(|(name, _)| *name == "cut_end");
            matches!(fact.what, "job" | "damage" | "command" | "event") || has_cuts
        }
    };
    assert_eq!(facts.iter().find(|fact| fact.is_damage()), None, "what is on record is no damage of the disks");
    let mut lines: Vec<_> = facts.iter().filter(is_of_them).map(shown).collect();
    lines.sort();
    lines.dedup();
    let text = lines.join("\n");
    assert_eq!(text, EXPECTED.trim(), "found:\n{text}");
}

const EXPECTED: &str = r#"
-: command number="…" time="…" user="0 (root)" host=host words="tally pool set scrub=weekly tank"
-: damage dataset=1 object=4 spot="Content(0)" first_txg="…" last_txg="…" by_read=yes by_scrub=yes block="…"
-: event number="…" time="…" class=statechange text="something happened"
-: inode object=18 kind=file mode=0644 nlink=1 uid=0 gid=0 size=0 used=1572864 mtime="…" ctime="…" birth="…" generation="…" parent=3 entry=19 layout=extents record_bytes=131072 reaped_to="…" cut_end=2097152 cut_from_before=524288:8
-: job kind=join leg="…" returns=no began="…" ran_ms="…" settled="…" is_brought=no is_copied=no copied_bytes="…" unreadable_bytes=0 checked_bytes="…" repaired=0 repaired_bytes=0 lost=0 unread=0 given_up=0 hides=no
-: job kind=schedule scrub=weekly
-: job kind=scrub state=paused began="…" began_txg="…" changed="…" ran_ms="…" total_bytes="…" checked_bytes="…" repaired=0 repaired_bytes=0 lost=0 unread=0 given_up=0 in_parts=no has_gaps=no
-: lane lane=0 vdev=0 bytes=1048576 frame_bytes_max=131072 frames_in_flight_max=4 legset_gen=1 legs=1 left=1 legset="…" left_with=00000000000000cd:0
-: missed groups leg="…" from=0 to="…"
-: orphan object=18 kind=cut reaped_to="…" cut_end=2097152 cut_from_before=524288:8
-: rewind time="…" kept_txg=1 kept_gen=1 dropped_txg=2 open_gen=2 depth=1
-: section section=99 bytes=30: not known to this program, which carries it along
-: spare spare=00000000000000ab path=/disks/s bytes=67108864 in_use=no
"#;
