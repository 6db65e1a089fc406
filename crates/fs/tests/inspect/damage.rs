//! Inspect goes on after damage, names it, and never panics.

use tally_base::{SECTOR, block_checksum, log_checksum};
use tally_members::label::LABEL_BYTES;
use tally_store::inspect::{Fact, Part, Plan, Source};

use crate::image::{Image, make};

fn everything() -> Plan {
    let trees = ["tank", "tank/home"].map(str::to_owned).to_vec();
    Plan { labels: true, uberblocks: true, log: true, trees, space: true, data: true, verbose: true }
}

/// The place of the `nth` fact of a kind.
fn place(facts: &[Fact], what: &str, nth: usize) -> Source {
    places(facts, what, nth).swap_remove(0)
}

/// The same, and behind it the place of the other copy, if there is one.
fn places(facts: &[Fact], what: &str, nth: usize) -> Vec<Source> {
    let found = facts.iter().filter(|fact| fact.what == what && !fact.to_string().contains("live=no"));
    let fact = found.filter(|fact| fact.source.is_some()).nth(nth).unwrap();
    let line = fact.to_string();
    let copy = line.split_once(" copy=0:0x").and_then(|(_, place)| place.split_once('+'));
    let copy = copy.map(|(offset, _)| LABEL_BYTES + u64::from_str_radix(offset, 16).unwrap());
    let source = fact.source.clone().unwrap();
    let other = copy.map(|offset| Source { offset, ..source.clone() });
    std::iter::once(source).chain(other).collect()
}

/// One kind of damage.
struct Case {
    /// What is damaged: the kind of fact that tells where it lies, and which one of them.
    target: (&'static str, usize),
    /// Where behind its beginning.
    at: u64,
    /// What must be said, beside the place of the damage.
    says: &'static str,
    /// Kinds of facts that may be lost or change. Every other fact stays as it was.
    may_change: &'static [&'static [&'static str]],
}

const CASES: [Case; 13] = [
    Case {
        target: ("label slot", 1),
        at: 100,
        says: "DAMAGE label slot label=0 slot=1: malformed label",
        may_change: &[&["label slot", "leg", "pool", "vdev", "vdev leg", "lane"]],
    },
    Case {
        target: ("newest uberblock", 0),
        at: 300,
        says: "DAMAGE uberblock label=0: malformed uberblock",
        may_change: &[&["uberblock", "checkpoint", "uberblocks", "newest uberblock"]],
    },
    Case {
        target: ("frame", 3),
        at: 60,
        says: "DAMAGE lane lane=0 first_lsn=",
        may_change: &[&["frame", "record", "record inode", "record key", "ring", "lane content", "dataset's log"]],
    },
    Case {
        target: ("frame", 3),
        at: 200,
        says: "DAMAGE frame lane=0 live=yes",
        may_change: &[&["frame", "record", "record inode", "record key", "ring", "lane content", "dataset's log"]],
    },
    Case {
        target: ("pool root", 0),
        at: 50,
        says: "DAMAGE pool root txg=",
        // The one before it is shown, whose maps and trees are others.
        may_change: &[
            TREE,
            &[
                "pool root",
                "lane",
                "frame",
                "record",
                "record reply",
                "record inode",
                "record key",
                "record data",
                "record truncate",
                "seal",
                "ring",
                "lane content",
                "dataset's log",
                "dataset",
                "property",
                "space index",
                "space map",
                "deferred frees",
                "freed",
                "vdev space",
                "reply cache",
                "catalog",
                "catalog leaf",
            ],
        ],
    },
    Case {
        target: ("catalog leaf", 0),
        at: 40,
        says: "DAMAGE catalog",
        may_change: &[
            TREE,
            &["catalog", "catalog leaf", "dataset", "property", "record", "lane content", "dataset's log", "ring"],
        ],
    },
    Case { target: ("node", 0), at: 40, says: "DAMAGE node lsize=", may_change: &[TREE] },
    Case { target: ("leaf", 1), at: 40, says: "DAMAGE leaf lsize=", may_change: &[TREE] },
    Case {
        target: ("data block", 1),
        at: 4100,
        says: "DAMAGE data block lsize=131072",
        may_change: &[&["data block"]],
    },
    Case {
        target: ("space index", 0),
        at: 30,
        says: "DAMAGE space lsize=4096",
        may_change: &[&["space index", "space map", "vdev space"]],
    },
    Case {
        target: ("space map", 0),
        at: 7,
        says: "DAMAGE space lsize=4096",
        may_change: &[&["space map", "vdev space"]],
    },
    Case {
        target: ("deferred frees", 0),
        at: 64,
        says: "DAMAGE space lsize=4096",
        may_change: &[&["deferred frees", "freed"]],
    },
    Case { target: ("leaf", 6), at: 8, says: "DAMAGE leaf lsize=", may_change: &[TREE] },
];

const TREE: &[&str] = &["node", "leaf", "inode", "entry", "hash", "extent", "data block", "small", "tree"];

#[test]
fn each_part_can_be_damaged_and_the_rest_is_still_told() {
    let image = Image::golden();
    let (healthy, _) = image.inspect(&everything());
    for case in &CASES {
        let places = places(&healthy, case.target.0, case.target.1);
        let mut damaged = image.clone();
        for place in &places {
            damaged.rot(place.device.to_str().unwrap(), place.offset + case.at, 3);
        }
        let place = &places[0];
        let (facts, outcome) = damaged.inspect(&everything());
        let lines: Vec<_> = facts.iter().map(Fact::to_string).collect();
        let told = facts.iter().zip(&lines).filter(|(fact, line)| fact.is_damage() && line.contains(case.says));
        let sources: Vec<_> = told.map(|(fact, _)| fact.source.clone()).collect();
        let where_it_is = |source: &Option<Source>| {
            // What is lost of the log is told of the lane: the frame that tells where it was is gone.
            source.as_ref().is_some_and(|source| source == place || case.says.contains("lane lane=0 first_lsn"))
                || case.target.0 == "pool root"
        };
        assert!(outcome.damage_count > 0 && sources.iter().any(where_it_is), "{:?}: {lines:#?}", case.target);
        for fact in healthy.iter().filter(|fact| !case.may_change.iter().any(|kinds| kinds.contains(&fact.what))) {
            assert!(facts.contains(fact), "{:?}: this is not said any more: {fact}", case.target);
        }
    }
}

/// What lies in two places and is wrong in one of them is told with that place, and costs nothing.
#[test]
fn one_of_two_places_costs_nothing() {
    let image = Image::golden();
    let (healthy, _) = image.inspect(&everything());
    for what in ["pool root", "catalog leaf", "node", "leaf", "space index", "space map", "deferred frees"] {
        for place in places(&healthy, what, 0) {
            let mut damaged = image.clone();
            damaged.rot(place.device.to_str().unwrap(), place.offset + 7, 3);
            let (facts, outcome) = damaged.inspect(&everything());
            let lost: Vec<_> = healthy.iter().filter(|fact| !facts.contains(fact)).collect();
            assert!(lost.is_empty(), "{what}: {lost:#?}");
            let told =
                |fact: &&Fact| fact.is_damage() && fact.what == "block copy" && fact.source.as_ref() == Some(&place);
            assert!(outcome.damage_count == 1 && facts.iter().any(|fact| told(&fact)), "{what} at {place:?}");
        }
    }
}

#[test]
fn the_replies_are_part_of_the_summary() {
    let image = Image::golden();
    let lines = Plan { verbose: true, ..Plan::default() };
    let (healthy, _) = image.inspect(&lines);
    let place = place(&healthy, "reply cache", 0);
    let mut damaged = image;
    damaged.rot(place.device.to_str().unwrap(), place.offset, 1);
    let (facts, outcome) = damaged.inspect(&lines);
    assert_eq!(outcome.damage_count, 1);
    assert!(
        facts.iter().any(|fact| fact.is_damage() && fact.what == "reply cache" && fact.source == Some(place.clone()))
    );
}

#[test]
fn without_the_newest_uberblock_the_one_before_it_is_shown_and_the_log_tells_of_the_newest() {
    let mut image = Image::golden();
    let (healthy, _) = image.inspect(&everything());
    let newest = place(&healthy, "newest uberblock", 0);
    for (path, bytes) in image.disks.clone() {
        let second = bytes.len() as u64 - (256 << 10) + newest.offset;
        image.rot(&path, newest.offset, 1);
        image.rot(&path, second, 1);
    }
    let (facts, _) = image.inspect(&Plan::default());
    let lines: Vec<_> = facts.iter().map(Fact::to_string).collect();
    assert_eq!(lines.iter().filter(|line| line.contains("DAMAGE uberblock ")).count(), 4);
    assert!(lines.iter().any(|line| line.contains("a frame tells of a newer uberblock")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(" dataset dataset=2 name=tank/home")), "{lines:#?}");
}

#[test]
fn without_any_label_the_trees_are_still_found() {
    let mut image = Image::golden();
    for (path, bytes) in image.disks.clone() {
        for start in [0, bytes.len() as u64 - (256 << 10)] {
            image.rot(&path, start, 128 << 10);
        }
    }
    let (facts, _) = image.inspect(&Plan::default());
    let lines: Vec<_> = facts.iter().map(Fact::to_string).collect();
    assert!(lines.iter().any(|line| line.contains("no label of it is valid")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(" tree dataset=1 ") && !line.contains("DAMAGE")), "{lines:#?}");
}

#[test]
fn a_leg_that_lost_its_labels_is_known_by_its_path() {
    let mut image = Image::golden();
    for start in [0, (16 << 20) - (256 << 10)] {
        image.rot("/disks/data", start, 128 << 10);
    }
    let (facts, _) = image.inspect(&Plan::default());
    let told = |what, word: &str| facts.iter().any(|fact| fact.what == what && fact.to_string().contains(word));
    assert!(told("label slot", "DAMAGE") && told("tree", "dataset=2"), "{facts:#?}");
    assert!(told("dataset's log", "to_replay=8"), "{facts:#?}");
}

#[test]
fn rot_that_a_mirror_covers_is_told_with_its_leg() {
    let size = 16 << 20;
    let mut image = make(
        &["mirror", "/disks/a", "/disks/b", "log", "mirror", "/disks/c", "/disks/d"],
        &[("/disks/a", size), ("/disks/b", size), ("/disks/c", 2 << 20), ("/disks/d", 2 << 20)],
    );
    let (healthy, outcome) = image.inspect(&everything());
    assert_eq!(outcome.damage_count, 0, "{healthy:#?}");
    let leaf = place(&healthy, "leaf", 0);
    let frame = place(&healthy, "frame", 2);
    assert_eq!((leaf.device.to_str(), frame.device.to_str()), (Some("/disks/a"), Some("/disks/c")));
    image.rot("/disks/a", leaf.offset, 1);
    image.rot("/disks/d", frame.offset, 1);
    let (facts, outcome) = image.inspect(&everything());
    let damage: Vec<_> = facts.iter().filter(|fact| fact.is_damage()).map(Fact::to_string).collect();
    assert_eq!(outcome.damage_count, 2, "{damage:#?}");
    assert!(damage[0].starts_with("/disks/d@") && damage[0].contains("another leg has them"), "{damage:#?}");
    let expected = format!("/disks/a@{:#x}: DAMAGE block copy: ", leaf.offset);
    assert!(damage[1].starts_with(&expected), "{damage:#?}");
    let served = Source { device: "/disks/b".into(), ..leaf };
    assert!(facts.iter().any(|fact| fact.what == "leaf" && fact.source == Some(served.clone())), "read from the other");
}

#[test]
fn what_is_no_pool_is_named_and_a_missing_leg_is_no_damage() {
    let mut image = Image::golden();
    image.disks.remove(0);
    let (facts, _) = image.inspect(&Plan { labels: true, ..Plan::default() });
    let line = facts.iter().map(Fact::to_string).find(|line| line.contains("path=/disks/data"));
    assert!(line.is_some_and(|line| line.starts_with("-: leg ") && line.contains("no device that was given")));
    assert!(facts.iter().all(|fact| !fact.is_damage()), "{facts:#?}");
    let (facts, outcome) = image.inspect(&Plan::default());
    assert!(facts.iter().any(|fact| fact.part == Part::Log), "the log is there");
    assert!(outcome.damage_count > 0, "and the pool root is not");
}

/// Numbers that a seed alone repeats (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// Bytes that are likely to be read as something: most of a sparse disk is not.
struct Targets {
    used: Vec<usize>,
    uberblocks: Vec<usize>,
    labels: Vec<usize>,
    frames: Vec<usize>,
}

impl Targets {
    fn of(bytes: &[u8]) -> Self {
        let sectors = || bytes.chunks(SECTOR).enumerate().map(|(at, sector)| (at * SECTOR, sector));
        let with = |magic: &'static [u8]| {
            sectors().filter(|(_, sector)| sector.starts_with(magic)).map(|(at, _)| at).collect()
        };
        Self {
            used: sectors().filter(|(_, sector)| sector.iter().any(|byte| *byte != 0)).map(|(at, _)| at).collect(),
            uberblocks: with(b"TALLYUBR"),
            labels: with(b"TALLYLBL"),
            frames: with(b"tallyfrm"),
        }
    }
}

fn number_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Damages one byte range at random; the forged kinds get a right checksum, so that decoders see what is behind.
fn damage(random: &mut Random, bytes: &mut [u8], targets: &Targets) {
    let one_of = |random: &mut Random, of: &[usize]| if of.is_empty() { 0 } else { of[random.below(of.len())] };
    let sector = one_of(random, &targets.used);
    let uberblock = one_of(random, &targets.uberblocks);
    let (label, frame) = (one_of(random, &targets.labels), one_of(random, &targets.frames));
    match random.below(8) {
        0 => bytes[sector..sector + SECTOR].fill(0),
        1 => {
            let other = one_of(random, &targets.used);
            bytes.copy_within(other..other + SECTOR, sector);
        }
        2 => forge_uberblock(random, bytes, uberblock),
        3 => forge_frame(random, bytes, frame),
        4 => forge_label(random, bytes, label),
        5 => forge_root(random, bytes, &targets.uberblocks),
        _ => {
            let at = sector + random.below(SECTOR);
            bytes[at] ^= 1 << random.below(8);
        }
    }
}

/// A byte becomes one of the values at which arithmetic breaks.
fn strike(random: &mut Random, bytes: &mut [u8], from: usize, to: usize) {
    let mut at = from + random.below(to - from);
    // Half of the time a whole field: they lie on multiples of eight.
    at -= (at - from) % [1, 8][random.below(2)];
    let end = (at + [1, 1, 4, 8][random.below(4)]).min(to);
    bytes[at..end].fill([0, 1, 0x7f, 0x80, 0xff][random.below(5)]);
}

fn forge_uberblock(random: &mut Random, bytes: &mut [u8], at: usize) {
    strike(random, bytes, at + 16, at + 400);
    let checksum = log_checksum(&bytes[at..at + 4088]);
    bytes[at + 4088..at + 4096].copy_from_slice(&checksum.to_le_bytes());
}

fn forge_frame(random: &mut Random, bytes: &mut [u8], at: usize) {
    if bytes[at..at + 8] != *b"tallyfrm" {
        return;
    }
    let payload_end = at + 136 + number_at(bytes, at + 112).min(3900);
    if random.below(2) == 0 && payload_end > at + 136 {
        strike(random, bytes, at + 136, payload_end);
        let checksum = log_checksum(&bytes[at + 136..payload_end]);
        bytes[at + 120..at + 128].copy_from_slice(&checksum.to_le_bytes());
    } else {
        strike(random, bytes, at + 16, at + 128);
    }
    let checksum = log_checksum(&bytes[at..at + 128]);
    bytes[at + 128..at + 136].copy_from_slice(&checksum.to_le_bytes());
}

fn forge_label(random: &mut Random, bytes: &mut [u8], at: usize) {
    let end = at + 96 + number_at(bytes, at + 12).min(4000);
    if end > at + 96 {
        strike(random, bytes, at + 96, end);
    }
    let payload = block_checksum(&bytes[at + 96..end]);
    bytes[at + 72..at + 88].copy_from_slice(&payload.to_le_bytes());
    let checksum = log_checksum(&bytes[at..at + 88]);
    bytes[at + 88..at + 96].copy_from_slice(&checksum.to_le_bytes());
}

/// The pool root of the newest uberblock, with the checksums on the way to it.
fn forge_root(random: &mut Random, bytes: &mut [u8], uberblocks: &[usize]) {
    let txg = |at: &usize| u64::from_le_bytes(bytes[at + 32..at + 40].try_into().unwrap());
    let Some(newest) = uberblocks.iter().max_by_key(|at| txg(at)).copied() else { return };
    let pointer = newest + 80;
    let offset = u64::from_le_bytes(bytes[pointer..pointer + 8].try_into().unwrap());
    let Some(start) = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(256 << 10)) else { return };
    let psize = number_at(bytes, pointer + 32);
    let Some(end) = start.checked_add(psize).filter(|end| *end <= bytes.len() && psize > 4) else { return };
    strike(random, bytes, start + 4, end.min(start + 700));
    let block = block_checksum(&bytes[start..end]);
    bytes[pointer + 48..pointer + 64].copy_from_slice(&block.to_le_bytes());
    let checksum = log_checksum(&bytes[newest..newest + 4088]);
    bytes[newest + 4088..newest + 4096].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn no_damage_makes_it_panic() {
    let image = Image::golden();
    let targets: Vec<_> = image.disks.iter().map(|(_, bytes)| Targets::of(bytes)).collect();
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let (seed, rounds) = (number("TALLY_SEED"), number("TALLY_ROUNDS").unwrap_or(300));
    let seeds = seed.map_or(0..rounds, |seed| seed..seed + 1);
    let mut damaged_rounds = 0;
    for seed in seeds {
        println!("TALLY_SEED={seed}");
        let mut random = Random(seed);
        let mut damaged = image.clone();
        for _ in 0..1 + random.below(12) {
            let disk = random.below(targets.len());
            damage(&mut random, &mut damaged.disks[disk].1, &targets[disk]);
        }
        let plan = if random.below(4) == 0 { Plan::default() } else { everything() };
        let (facts, outcome) = damaged.inspect(&plan);
        assert!(!facts.is_empty());
        damaged_rounds += u64::from(outcome.damage_count > 0);
    }
    assert!(seed.is_some() || damaged_rounds * 3 > rounds * 2, "{damaged_rounds} of {rounds} rounds met damage");
}
