use std::sync::Arc;

use tally_base::{SystemClock, SystemRng};
use tally_disk::{Helpers, Host, Platform, ThreadFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::filer::CreateOptions;
use tally_members::label::{FeatureSet, Release, Section};
use tally_store::tuning::Tuning;

use super::*;
use crate::daemon::state::State;

/// Features of a program that is newer than this one.
const SHOWN: [Feature; 2] = [
    Feature { set: FeatureSet::Incompat, bit: 0, name: "raidz", since: Release { major: 0, minor: 4 } },
    Feature { set: FeatureSet::Incompat, bit: 3, name: "block_cloning", since: Release { major: 0, minor: 5 } },
];

/// What is shown is done next, and nothing is done by it.
#[test]
fn an_upgrade_that_is_only_shown_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let opener = Arc::new(MemOpener::default());
    opener.put(dir.path().join("a"), Arc::new(MemDisk::new(32 << 20)));
    let platform = Platform {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SystemRng),
        opener,
        fanout: Arc::new(ThreadFanout::default()),
        host: Host { id: 1, name: "here".into() },
        helpers: Helpers::Threads,
    };
    let pools = Pools::begin(platform, Tuning::default(), State::load(dir.path()).unwrap(), Vec::new());
    let words = [dir.path().join("a").display().to_string()];
    let pool = pools.create("dozer", &words, &CreateOptions::default(), Vec::new()).unwrap();
    let (names, config) = (["dozer".to_owned()], || pool.filer.pool().roster.config());
    // A newer program has left as much in the labels as they take.
    let carry = |bytes: usize| {
        let section = Section { id: 900, must_be_known: false, bytes: vec![7; bytes] };
        pool.filer.pool().roster.update(|config| config.carried = vec![section])
    };
    let most = (0..16).rev().fold(0, |most, bit| if carry(most | 1 << bit).is_ok() { most | 1 << bit } else { most });
    carry(most).unwrap();
    let refused = pools.would_upgrade_to(&names, &SHOWN).unwrap_err().to_string();
    assert!(refused.contains("shorter paths"), "{refused}");
    assert_eq!(pools.upgrade_to(&names, &SHOWN).unwrap_err().to_string(), refused, "the command says the same");
    carry(0).unwrap();
    let before = config();
    let shown = pools.would_upgrade_to(&names, &SHOWN).unwrap();
    assert_eq!(shown, ["would enable the following features on 'dozer':", "  raidz", "  block_cloning"]);
    assert_eq!(config(), before);
    let done = pools.upgrade_to(&names, &SHOWN).unwrap();
    assert_eq!(done[1..], shown[1..]);
    assert!(config().features_lacking(&SHOWN).is_empty());
    let again = pools.would_upgrade_to(&names, &SHOWN).unwrap();
    assert_eq!(again, ["Pool 'dozer' already has all supported and requested features enabled."]);
    pools.export("dozer", None).unwrap();
    let closed = pools.would_upgrade_to(&names, &SHOWN).unwrap_err().to_string();
    assert!(closed.contains("no pool 'dozer' is imported"), "{closed}");
}
