//! Features are chosen, and who does not know one says which it is and who has it.

use std::path::Path;
use std::sync::Arc;

use tally_disk::{Access, Opener};
use tally_fakes::MemOpener;
use tally_members::label::{self, FeatureLine, FeatureSet, PoolConfig};

use super::running::{Running, tally};

#[test]
fn features_are_shown_limited_and_enabled() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    for name in ["a", "b"] {
        opener.create(&data_dir.join(name), 32 << 20, false, &mut |_| true).unwrap();
    }
    let nothing = "Every feature flags pool has all supported and requested features enabled.\n";
    let steps: &[(&[&str], bool, &str)] = &[
        (&["pool", "create", "-o", "compatibility=99.0", "p", "a"], false, "or a version from 0.1 to 0.1"),
        (&["pool", "create", "-o", "colour=red", "p", "a"], false, "'colour=red' is nothing that a new pool"),
        (&["pool", "create", "-o", "compatibility=0.1", "p", "a"], true, ""),
        (&["pool", "get", "-H", "compatibility", "p", "tank"], true, "p\tcompatibility\t0.1\tlocal\n"),
        (&["pool", "get", "-H", "compatibility", "tank"], true, "tank\tcompatibility\toff\tdefault\n"),
        (&["pool", "set", "compatibility=off", "p"], true, ""),
        (&["pool", "set", "compatibility=legacy", "p"], false, "'off', or a version"),
        (&["pool", "get", "-H", "all", "p"], true, "p\tcompatibility\toff\tdefault\n"),
        (&["pool", "get", "feature@raidz", "p"], false, "does not know feature@raidz (vdevs with parity)"),
        (&["pool", "set", "feature@nonsense=enabled", "p"], false, "does not know feature@nonsense;"),
        (&["pool", "upgrade"], true, nothing),
        (&["pool", "upgrade", "p"], true, "Pool 'p' already has all supported and requested features enabled."),
        (&["pool", "upgrade", "-a"], true, "Pool 'tank' already has"),
        (&["pool", "upgrade", "q"], false, "no pool 'q'"),
        (&["--json", "pool", "list", "p"], true, "\"compatibility\": \"off\",\n    \"features\": []"),
    ];
    for (words, well, expected) in steps {
        let (went_well, text) = tally(data_dir, words);
        assert!(went_well == *well && text.contains(expected), "{words:?}: {text}");
    }
    daemon.stop();
}

/// What a newer program would have left in the labels.
fn leave(opener: &MemOpener, path: &Path, change: impl Fn(&mut PoolConfig)) {
    let disk = opener.open(path, Access::Exclusive).unwrap();
    let mut label = label::read(disk.as_ref()).unwrap();
    label.config.sequence += 1;
    change(&mut label.config);
    label::write(disk.as_ref(), label.leg, &label.config).unwrap();
}

fn line(set: FeatureSet, bit: u8, name: &str, since: &str) -> FeatureLine {
    FeatureLine { set, bit, name: name.into(), since: since.into() }
}

#[test]
fn a_pool_of_a_newer_program_is_refused_by_what_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let say = |words: &[&str], well: bool, expected: &str| {
        let (went_well, text) = tally(data_dir, words);
        assert!(went_well == well && text.contains(expected), "{words:?}: {text}");
    };
    let path = data_dir.join("a");
    opener.create(&path, 32 << 20, false, &mut |_| true).unwrap();
    say(&["pool", "create", "dozer", "a"], true, "");
    say(&["pool", "export", "dozer"], true, "");
    let import = ["pool", "import", "-d", &data_dir.display().to_string(), "dozer"].map(str::to_owned);
    let import: Vec<&str> = import.iter().map(String::as_str).collect();
    let list = &import[..4];

    // What others may overlook, and what is only allowed.
    leave(&opener, &path, |config| {
        config.features.compat = 1;
        config.feature_notes.lines =
            vec![line(FeatureSet::Compat, 0, "cache_devices", "0.5"), line(FeatureSet::Incompat, 0, "raidz", "0.4")];
    });
    say(&import, true, "imported pool 'dozer'");
    say(&["pool", "get", "-H", "feature@all", "dozer"], true, "dozer\tunsupported@cache_devices\tcompatible\tlocal\n");
    say(&["pool", "get", "-H", "unsupported@raidz", "dozer"], true, "dozer\tunsupported@raidz\tinactive\tlocal\n");
    say(&["--json", "pool", "list", "dozer"], true, "\"property\": \"unsupported@cache_devices\",");
    say(&["pool", "export", "dozer"], true, "");

    // What keeps them from writing.
    leave(&opener, &path, |config| {
        config.features.ro_compat = 1;
        config.feature_notes.lines.insert(1, line(FeatureSet::RoCompat, 0, "zpool_checkpoint", "0.6"));
    });
    let why = "feature@zpool_checkpoint, of tally 0.6; import it with --readonly, or use tally 0.6 or a newer one";
    say(list, true, why);
    say(&import, false, why);
    let reading: Vec<&str> = import.iter().copied().chain(["--readonly"]).collect();
    say(&reading, true, "imported pool 'dozer'");
    say(&["pool", "get", "-H", "all", "dozer"], true, "dozer\tunsupported@zpool_checkpoint\treadonly\tlocal\n");
    say(&["pool", "set", "compatibility=0.1", "dozer"], false, "read-only");
    say(&["pool", "export", "dozer"], true, "");

    // What keeps them out.
    leave(&opener, &path, |config| config.features.incompat = 1);
    let why = "feature@raidz, of tally 0.4; use tally 0.4 or a newer one";
    say(&import, false, why);
    say(&reading, false, why);
    say(&["pool", "create", "dozer", "a"], false, why);
    daemon.stop();
}
