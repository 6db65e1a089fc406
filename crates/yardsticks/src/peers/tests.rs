//! From what the guest's script writes down to the page's rows.

use super::runs::{Book, Heard, Part};
use super::{Choice, bars, page, settings, tables};

/// Two rounds of ours, of an honest peer that turns the disk twice as often, and of one that does not keep its word.
fn book() -> Book {
    let mut text =
        String::from("unit writes=2.000 flushes=2.000 kernel=6.1\nskip contender=zfs the guest has no OpenZFS\n");
    for (contender, ms, turns) in [("tally", 10_000, 1000), ("knfsd-ext4", 20_000, 2000), ("knfsd-btrfs", 5000, 100)] {
        for _ in 0..2 {
            text += &format!(
                "dsync us=100\nrun contender={contender} workload=untar items=100 ms={ms} rpcs=610 durable=600 \
                 before.main.turns=5 after.main.turns={} before.main.flushes=0 after.main.flushes={turns} \
                 before.log.flushes=0 after.log.flushes=0 before.log2.flushes=0 after.log2.flushes=0 \
                 before.frames=1 after.frames=601\n",
                turns + 5
            );
        }
    }
    text += "verdict contender=knfsd-btrfs is=not-durable CREATE=0/200 WRITE_FILE_SYNC=200/200\n";
    let heard = Heard::parse(&text).unwrap();
    let part = Part {
        setting: "hard-disk".into(),
        workload: "untar".into(),
        date: "2026-01-01".into(),
        skipped: heard.skipped,
        dsync_us: heard.dsync_us,
        unit: heard.unit,
        runs: heard.runs,
    };
    Book { machine: String::new(), parts: vec![part], verdicts: heard.verdicts }
}

#[test]
fn who_does_not_keep_the_word_stands_last_and_is_nobodys_peer() {
    let book = book();
    let ranked: Vec<_> = tables::ranked(&book, &book.parts[0]).iter().map(|contender| contender.name).collect();
    assert_eq!(ranked, ["tally", "knfsd-ext4", "knfsd-btrfs"]);
    let best = bars::best_peers(&book);
    assert!(best.contains(
        "| hard-disk | untar | Tallystick, log in the pool | knfsd, ext4 | rate | 2.00 (2.00 … 2.00) | yes |"
    ));
    assert!(!best.contains("btrfs"));
    assert!(tables::verdicts(&book).contains("| knfsd, btrfs | NOT DURABLE | 0 of 200: CREATE |"));
}

#[test]
fn bars_follow_from_counts() {
    let bars = bars::promised(&book());
    assert!(
        bars.contains("durable writes of the log for each promise | ≤ 1.02 | 1.00 (1.00 … 1.00) | yes |"),
        "{bars}"
    );
    // Twice the rate at half the turns: as many turns a second.
    assert!(
        bars.contains("knfsd on ext4's × its turns for each file ÷ ours | ≥ 0.9 | 1.00 (1.00 … 1.00) | yes |"),
        "{bars}"
    );
    assert!(page::section(&book()).contains("Left out: knfsd, OpenZFS (the guest has no OpenZFS)."));
}

#[test]
fn a_line_that_nobody_understands_is_an_error() {
    for line in ["run workload=untar", "walk contender=tally", "dsync us=quick", "run"] {
        assert!(Heard::parse(line).is_err(), "{line}");
    }
}

#[test]
fn whoever_names_none_of_a_kind_wants_all_of_it() {
    let boots = |words: &[&str]| -> Vec<(&str, bool)> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        Choice::of(&words).unwrap().boots().into_iter().map(|(setting, judged)| (setting.name, judged)).collect()
    };
    assert_eq!(boots(&[]), [("hard-disk", false), ("log-device", false), ("two-hard-disks", false), ("fast", true)]);
    assert_eq!(boots(&["hard-disk", "untar"]), [("hard-disk", false)]);
    assert_eq!(boots(&["referee"]), [("fast", true)]);
    assert_eq!(boots(&["referee", "two-hard-disks"]), [("two-hard-disks", false), ("fast", true)]);
    assert!(Choice::of(&["nobody".to_owned()]).is_err());
    assert!(settings::Setting::find("fast").is_some());
}
