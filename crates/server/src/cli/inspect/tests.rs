use std::path::Path;
use std::sync::Arc;

use tally_disk::{Disk, Durability};
use tally_fakes::{MemDisk, MemOpener};

use super::{InspectArgs, run};
use crate::cli::{Console, Failure, Interrupts};

/// The golden image, with these bytes of it overwritten.
fn opener(zeroed: &[(&str, u64)]) -> MemOpener {
    let opener = MemOpener::default();
    for (name, size) in [("data", 16 << 20), ("slog", 2 << 20)] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fs/tests/golden/v2-{name}.zst"));
        let disk = MemDisk::from_bytes(&zstd::bulk::decompress(&std::fs::read(file).unwrap(), size).unwrap());
        for (_, offset) in zeroed.iter().filter(|(of, _)| *of == name) {
            disk.write(*offset, &[0xff; 4096], Durability::Cached).unwrap();
        }
        opener.put(format!("/disks/{name}"), Arc::new(disk));
    }
    opener
}

fn inspect(args: &InspectArgs, opener: &MemOpener, json: bool) -> (Result<(), Failure>, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never };
    let outcome = run(args, opener, Path::new("/"), json, &mut console);
    (outcome, String::from_utf8(out).unwrap())
}

fn all_disks() -> InspectArgs {
    InspectArgs { dir: vec!["disks".into()], ..InspectArgs::default() }
}

#[test]
fn a_sound_pool_is_told_and_is_no_failure() {
    let (outcome, text) = inspect(&all_disks(), &opener(&[]), false);
    assert!(outcome.is_ok());
    assert!(text.starts_with("/disks/data@0x10000: pool name=tank "), "{text}");
    assert!(text.contains(" tree dataset=2 ") && text.contains(" vdev space "), "{text}");
}

#[test]
fn damage_is_counted_and_is_a_failure() {
    let (outcome, text) = inspect(&all_disks(), &opener(&[("data", 0x10000), ("slog", 0x10000)]), false);
    let failure = outcome.unwrap_err();
    assert_eq!((failure.to_string().as_str(), failure.exit_status()), ("2 damaged places were found", 1));
    assert!(
        text.contains(
            "/disks/slog@0x10000: DAMAGE label slot label=0 slot=1: malformed label: it does not begin as one\n"
        ),
        "{text}"
    );
}

#[test]
fn json_is_one_object_a_line() {
    let args = InspectArgs { log: true, ..all_disks() };
    let (outcome, text) = inspect(&args, &opener(&[("data", 0x10000)]), true);
    assert!(matches!(outcome, Err(Failure::Damage { count: 1 })));
    let facts: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let frame = facts.iter().find(|fact| fact["what"] == "frame").unwrap();
    assert_eq!((&frame["part"], &frame["device"]), (&"log".into(), &"/disks/slog".into()));
    assert!(frame["fields"]["seq"].is_u64() && frame["offset"].is_u64());
    assert!(
        facts
            .iter()
            .any(|fact| fact["damage"] == "malformed label: it does not begin as one" && fact["offset"] == 0x10000)
    );
}

#[test]
fn what_is_not_there_is_said() {
    let elsewhere = InspectArgs { dir: vec!["elsewhere".into()], ..InspectArgs::default() };
    assert!(matches!(inspect(&elsewhere, &opener(&[]), false).0, Err(Failure::NoPool)));
    let missing = InspectArgs { paths: vec!["disks/data".into(), "disks/none".into()], ..InspectArgs::default() };
    let (outcome, text) = inspect(&missing, &opener(&[]), false);
    assert!(matches!(outcome, Err(Failure::Damage { .. })));
    assert!(text.contains("/disks/none@0x0: DAMAGE device: it cannot be opened"), "{text}");
    let args = InspectArgs { tree: vec!["tank/none".into()], ..all_disks() };
    assert!(matches!(inspect(&args, &opener(&[]), false).0, Err(Failure::NoDataset { .. })));
}
