use std::sync::Arc;

use tally_base::{SystemClock, SystemRng};
use tally_disk::{Helpers, Host, Platform, ThreadFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::filer::CreateOptions;
use tally_members::label::Section;
use tally_store::tuning::Tuning;

use super::super::state::State;
use super::*;

const fn feature(bit: u8, name: &'static str, minor: u16) -> Feature {
    Feature { set: FeatureSet::Incompat, bit, name, since: Release { major: 0, minor } }
}

const SHOWN: [Feature; 2] = [feature(0, "raidz", 4), feature(3, "block_cloning", 5)];

fn shown(config: &PoolConfig) -> Vec<(String, String, bool)> {
    reports(config, &SHOWN).into_iter().map(|report| (report.property, report.state, report.lacking)).collect()
}

fn line(property: &str, state: &str, lacking: bool) -> (String, String, bool) {
    (property.into(), state.into(), lacking)
}

#[test]
fn a_pool_shows_what_it_uses_and_what_it_could_use() {
    let mut config = PoolConfig::default();
    assert_eq!(compatibility(&config), "off");
    let both = [line("feature@raidz", "disabled", true), line("feature@block_cloning", "disabled", true)];
    assert_eq!(shown(&config), both);
    config.feature_notes.compatibility = "0.4".into();
    config.features.incompat = 1;
    config.features.compat = 1 << 7 | 1;
    let expected = [
        line("feature@raidz", "active", false),
        line("feature@block_cloning", "disabled", false),
        line("unsupported@cache_devices", "compatible", false),
        line("unsupported@compat-bit-7", "compatible", false),
    ];
    assert_eq!(shown(&config), expected);
    assert_eq!(compatibility(&config), "0.4");
}

#[test]
fn a_limit_is_a_version_that_this_program_can_speak_of() {
    assert_eq!(parse_compatibility("off").unwrap(), None);
    assert_eq!(parse_compatibility("0.1").unwrap(), Some(FIRST_RELEASE));
    for word in ["", "0.0", "legacy", "99.0", "0.1.x"] {
        let refused = parse_compatibility(word).unwrap_err().to_string();
        assert!(refused.contains("'off', or a version from 0.1 to"), "{refused}");
    }
}

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
    let pools = Pools::new(platform, Tuning::default(), State::load(dir.path()).unwrap(), Vec::new());
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
