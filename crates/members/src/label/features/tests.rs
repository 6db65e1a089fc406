use super::super::tests::sample;
use super::super::{Bad, Label, Unreadable, decode, encode};
use super::*;
use tally_base::VdevGuid;

const LEG: VdevGuid = VdevGuid(0x21);
const SPECIAL: Feature =
    Feature { set: FeatureSet::Incompat, bit: 5, name: "allocation_classes", since: Release { major: 0, minor: 6 } };
const CACHE: Feature =
    Feature { set: FeatureSet::Compat, bit: 0, name: "cache_devices", since: Release { major: 0, minor: 5 } };

fn line(set: FeatureSet, bit: u8, name: &str, since: &str) -> FeatureLine {
    FeatureLine { set, bit, name: name.into(), since: since.into() }
}

fn read_again(config: &PoolConfig) -> Result<PoolConfig, Bad> {
    decode(&encode(LEG, config).unwrap()).map(|Label { config, .. }| config)
}

fn refusal(config: &PoolConfig) -> String {
    match read_again(config) {
        Err(Bad::Unknown(why @ Unreadable::Features { .. })) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn notes_come_back() {
    let mut config = sample();
    config.feature_notes.compatibility = "0.6".into();
    config.feature_notes.enable(&SPECIAL);
    config.feature_notes.enable(&CACHE);
    config.feature_notes.enable(&SPECIAL);
    assert_eq!(config.feature_notes.lines.len(), 2);
    let lines: [&[u8]; 6] =
        [&[2, 0, 0, 0, 13, 0], b"cache_devices", &[3, 0], b"0.5", &[2, 5, 18, 0], b"allocation_classes"];
    let section = [&[5, 0, 0, 0, 56, 0, 0, 0, 3, 0], &b"0.6"[..], &lines.concat(), &[3, 0], b"0.6"].concat();
    assert!(encode(LEG, &config).unwrap().windows(section.len()).any(|window| window == section));
    assert_eq!(read_again(&config), Ok(config));
}

#[test]
fn notes_that_nobody_could_have_written_are_damage() {
    let good = line(FeatureSet::RoCompat, 1, "x", "0.2");
    let spoiled = [
        vec![good.clone(), good.clone()],
        vec![good.clone(), line(FeatureSet::Compat, 1, "x", "0.2")],
        vec![line(FeatureSet::Compat, 64, "x", "0.2")],
        vec![line(FeatureSet::Compat, 1, "", "0.2")],
        vec![line(FeatureSet::Compat, 1, "\u{1b}[2J", "0.2")],
        vec![line(FeatureSet::Compat, 1, "x", &"0".repeat(65))],
    ];
    for lines in spoiled {
        let mut config = sample();
        config.feature_notes.lines.clone_from(&lines);
        assert!(matches!(read_again(&config), Err(Bad::Impossible(_))), "{lines:?}");
    }
    let mut config = sample();
    config.feature_notes.compatibility = "a b".into();
    assert!(matches!(read_again(&config), Err(Bad::Impossible(_))));
}

/// An older program knows what the newer one has said of itself, and without that what is in its own table.
#[test]
fn who_is_too_old_says_what_it_lacks_and_who_has_it() {
    let mut config = sample();
    config.features.incompat = 1 << 5 | 1 << 3;
    config.feature_notes.enable(&SPECIAL);
    let told = refusal(&config);
    assert!(told.contains(&format!("what tally {} does not know: ", env!("CARGO_PKG_VERSION"))), "{told}");
    let both = "feature@block_cloning (shared blocks); feature@allocation_classes, of tally 0.6; use a newer tally";
    assert!(told.ends_with(both), "{told}");
    config.features.incompat = 1 << 5;
    let told = refusal(&config);
    assert!(told.ends_with("feature@allocation_classes, of tally 0.6; use tally 0.6 or a newer one"), "{told}");
    config.features.incompat = 1 << 63;
    assert!(refusal(&config).ends_with("bit 63 of incompat; use a newer tally"), "{}", refusal(&config));
    // A newer program has sections that this one cannot even take apart: its bits speak.
    config.features.incompat = 1;
    let mut slot = encode(LEG, &config).unwrap().to_vec();
    slot[100] ^= 1;
    let told = decode(&slot).unwrap_err();
    let Bad::Unknown(told) = told else { panic!("{told:?}") };
    assert!(told.to_string().contains("feature@raidz (vdevs with parity); use"), "{told}");
}

/// Two names for one bit, or two bits of one name, would tell somebody the wrong thing.
#[test]
fn no_bit_and_no_name_is_there_twice() {
    let known = KNOWN_FEATURES.iter().map(|feature| (feature.set, feature.bit, feature.name));
    let all: Vec<_> = RESERVED.iter().map(|(set, bit, name, _)| (*set, *bit, *name)).chain(known).collect();
    for (at, one) in all.iter().enumerate() {
        assert!(is_word(one.2) && one.1 < 64);
        assert!(all[at + 1..].iter().all(|other| (one.0, one.1) != (other.0, other.1) && one.2 != other.2), "{one:?}");
    }
    assert!(KNOWN_FEATURES.iter().all(|feature| feature.since <= this_release()));
}

#[test]
fn features_allow_what_ignorance_permits() {
    let known = Features { compat: 1, ro_compat: 1, incompat: 1 };
    for (compat, ro_compat, incompat, usable) in [
        (1, 1, 1, Usable::ReadWrite),
        (0xff, 0, 0, Usable::ReadWrite),
        (0, 3, 0, Usable::ReadOnly(2)),
        (0, 3, 6, Usable::No(6)),
    ] {
        assert_eq!(Features { compat, ro_compat, incompat }.usable_by(&known), usable);
    }
}

#[test]
fn what_is_unknown_is_active_or_only_allowed() {
    let mut config = sample();
    config.features.compat = 0b101;
    config.feature_notes.enable(&CACHE);
    config.feature_notes.enable(&SPECIAL);
    let unknown = config.features_unknown(&[CACHE]);
    let expected =
        [(line(FeatureSet::Compat, 2, "", ""), true), (line(FeatureSet::Incompat, 5, SPECIAL.name, "0.6"), false)];
    assert_eq!(unknown, expected);
    assert_eq!(
        read_again(&config).map(|read| read.features_unknown(&[])).unwrap().len(),
        3,
        "a line keeps nobody away"
    );
}

#[test]
fn versions_are_two_numbers_or_three() {
    let release = |text: &str| text.parse::<Release>().map(|release| release.to_string());
    assert_eq!(release("0.4"), Ok("0.4".into()));
    assert_eq!(release("1.12.3"), Ok("1.12".into()));
    for text in ["", "1", "0.x", "0.4.1.1", "0.+4", "0.70000"] {
        assert_eq!(release(text), Err(NoRelease), "{text}");
    }
}
