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
