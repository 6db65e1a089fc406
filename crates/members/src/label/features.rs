//! What a pool uses beyond the plain format: bits in three sets by what ignorance of them would break, and what is told
//! of each.
//!
//! The problem: a bit says to a program that does not know it what it may not do, and nothing that helps a person. And
//! what a program can write it must not write of its own accord: with the first such structure the pool is shut to all
//! older programs.
//!
//! The idea: beside the bits, which stand in the fixed part of a label, a section has a *line* for each feature that
//! somebody allowed: its place, its name, and the version of tally with which it came. So an older program refuses it by
//! its name. Features are chosen, with the words that `zpool` has for it:
//!
//! ```text
//!   disabled ──── `pool upgrade`, `pool create` ────▶ enabled ──── the first structure that needs it ────▶ active
//!   no line, no bit     Roster::enable_features       a line       Roster::activate, before it     a line and a bit
//! ```
//!
//! A feature that is enabled and not active has changed nothing on the disks, so its line keeps no program away.

use std::fmt;
use std::str::FromStr;

use super::PoolConfig;

/// Three sets of bits. A program that does not know a bit of
/// `compat` may use the pool as if it were not there; of `ro_compat`, may only read; of `incompat`, may not open it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Harmless to those who do not know it.
    pub compat: u64,
    /// Harmless to those who only read.
    pub ro_compat: u64,
    /// Changes the meaning of what is on disk.
    pub incompat: u64,
}

/// Which of the three sets a bit is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeatureSet {
    /// Of [`Features::compat`]: who does not know the bit may read and write.
    Compat,
    /// Of [`Features::ro_compat`]: who does not know it may only read.
    RoCompat,
    /// Of [`Features::incompat`]: who does not know it may not open the pool.
    Incompat,
}

/// A version of tally, as far as features go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// The 0 of 0.4.
    pub major: u16,
    /// The 4 of 0.4.
    pub minor: u16,
}

/// A feature that this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// In which set its bit is.
    pub set: FeatureSet,
    /// Which bit of it.
    pub bit: u8,
    /// What stands behind `feature@`.
    pub name: &'static str,
    /// The first version that knows it.
    pub since: Release,
}

/// What this program knows beyond the format, and can enable: nothing. Whoever adds one takes it out of [`RESERVED`].
pub const KNOWN_FEATURES: &[Feature] = &[];

/// [`KNOWN_FEATURES`] as bits.
pub const KNOWN: Features = bits_of(KNOWN_FEATURES);

/// The version from which on there are pools of this format.
pub const FIRST_RELEASE: Release = Release { major: 0, minor: 1 };

/// The bits that are spoken for: their names, which are those of ZFS where it has the like, and what they are of.
const RESERVED: [(FeatureSet, u8, &str, &str); 9] = [
    (FeatureSet::Compat, 0, "cache_devices", "cache devices"),
    (FeatureSet::RoCompat, 0, "zpool_checkpoint", "a checkpoint"),
    (FeatureSet::Incompat, 0, "raidz", "vdevs with parity"),
    (FeatureSet::Incompat, 1, "raidz_expansion", "a raidz vdev that takes in another disk"),
    (FeatureSet::Incompat, 2, "encryption", "sealed blocks"),
    (FeatureSet::Incompat, 3, "block_cloning", "shared blocks"),
    (FeatureSet::Incompat, 4, "device_removal", "removed vdevs with a map"),
    (FeatureSet::Incompat, 5, "allocation_classes", "special vdevs"),
    (FeatureSet::Incompat, 6, "copies", "more copies than one of data"),
];

/// Bounds of a line's texts.
pub(super) const TEXT_BYTES_MAX: usize = 64;

/// What the labels say of a feature that somebody has allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeatureLine {
    /// In which set its bit is.
    pub set: FeatureSet,
    /// Which bit of it.
    pub bit: u8,
    /// What stands behind `feature@`; empty where no label tells.
    pub name: String,
    /// The first version that knows it, in words; empty where no label tells.
    pub since: String,
}

/// What the labels say beside the bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureNotes {
    /// Only what programs of this version know may be enabled; empty: everything. As a newer program may have set it.
    pub compatibility: String,
    /// Those that are enabled or active, by set and bit.
    pub lines: Vec<FeatureLine>,
}

/// How far a feature is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureState {
    /// Nobody has allowed it.
    Disabled,
    /// It will be used when something needs it.
    Enabled,
    /// There may be structures of it.
    Active,
}

impl FeatureState {
    /// As `zpool get` has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::Active => "active",
        }
    }
}

/// What a pool's features allow this program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usable {
    /// Everything.
    ReadWrite,
    /// Reading; the bits are those of `ro_compat` that it does not know.
    ReadOnly(u64),
    /// Nothing; the bits are those of `incompat` that it does not know.
    No(u64),
}

impl Features {
    /// What a program that knows `known` may do with this pool.
    #[must_use]
    pub const fn usable_by(&self, known: &Self) -> Usable {
        let incompat = self.incompat & !known.incompat;
        let ro_compat = self.ro_compat & !known.ro_compat;
        if incompat != 0 {
            Usable::No(incompat)
        } else if ro_compat != 0 {
            Usable::ReadOnly(ro_compat)
        } else {
            Usable::ReadWrite
        }
    }

    /// The bits of a set.
    #[must_use]
    pub const fn of(&self, set: FeatureSet) -> u64 {
        match set {
            FeatureSet::Compat => self.compat,
            FeatureSet::RoCompat => self.ro_compat,
            FeatureSet::Incompat => self.incompat,
        }
    }

    /// Sets a bit.
    pub(crate) const fn set(&mut self, set: FeatureSet, bit: u8) {
        let bits = match set {
            FeatureSet::Compat => &mut self.compat,
            FeatureSet::RoCompat => &mut self.ro_compat,
            FeatureSet::Incompat => &mut self.incompat,
        };
        *bits |= 1 << bit;
    }
}

const fn bits_of(known: &[Feature]) -> Features {
    let mut features = Features { compat: 0, ro_compat: 0, incompat: 0 };
    let mut at = 0;
    while at < known.len() {
        features.set(known[at].set, known[at].bit);
        at += 1;
    }
    features
}

impl FeatureSet {
    /// All three, in the order of their numbers on disk.
    pub const ALL: [Self; 3] = [Self::Compat, Self::RoCompat, Self::Incompat];

    /// Its name in a label.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Compat => "compat",
            Self::RoCompat => "ro_compat",
            Self::Incompat => "incompat",
        }
    }
}

impl Feature {
    fn line(&self) -> FeatureLine {
        FeatureLine { set: self.set, bit: self.bit, name: self.name.into(), since: self.since.to_string() }
    }
}

impl FeatureNotes {
    fn line(&self, set: FeatureSet, bit: u8) -> Option<&FeatureLine> {
        self.lines.iter().find(|line| (line.set, line.bit) == (set, bit))
    }

    /// Everything that this program knows is enabled, as far as the limit goes.
    pub(crate) fn of_new_pool(compatibility: Option<Release>) -> Self {
        let mut notes = Self {
            compatibility: compatibility.map_or_else(String::new, |limit| limit.to_string()),
            ..Self::default()
        };
        for feature in KNOWN_FEATURES {
            if notes.allows(feature) {
                notes.enable(feature);
            }
        }
        notes
    }

    /// Notes that a feature may be used.
    pub(crate) fn enable(&mut self, feature: &Feature) {
        if self.line(feature.set, feature.bit).is_none() {
            self.lines.push(feature.line());
            self.lines.sort();
        }
    }

    /// What is told of these bits: what the labels have, or else what this program knows of numbers that are spoken for.
    pub(super) fn tell(&self, set: FeatureSet, bits: u64) -> Vec<FeatureLine> {
        let told = |bit: u8| {
            self.line(set, bit).cloned().unwrap_or_else(|| {
                let reserved = RESERVED.iter().find(|reserved| (reserved.0, reserved.1) == (set, bit));
                let name = reserved.map_or_else(String::new, |reserved| reserved.2.to_owned());
                FeatureLine { set, bit, name, since: String::new() }
            })
        };
        (0..64).filter(|bit| bits >> bit & 1 != 0).map(told).collect()
    }

    /// Whether a feature may be enabled.
    #[must_use]
    pub fn allows(&self, feature: &Feature) -> bool {
        match self.compatibility.as_str() {
            "" => true,
            // Only a newer program can have set what this one does not understand.
            limit => limit.parse::<Release>().is_ok_and(|limit| feature.since <= limit),
        }
    }
}

impl PoolConfig {
    /// How far a feature is in use.
    #[must_use]
    pub fn feature_state(&self, feature: &Feature) -> FeatureState {
        if self.features.of(feature.set) >> feature.bit & 1 != 0 {
            FeatureState::Active
        } else if self.feature_notes.line(feature.set, feature.bit).is_some() {
            FeatureState::Enabled
        } else {
            FeatureState::Disabled
        }
    }

    /// Features of the pool that are none of `known`, and whether each is active.
    #[must_use]
    pub fn features_unknown(&self, known: &[Feature]) -> Vec<(FeatureLine, bool)> {
        let known = bits_of(known);
        let of_set = |set: FeatureSet| self.feature_notes.tell(set, self.features.of(set) & !known.of(set));
        let active = FeatureSet::ALL.into_iter().flat_map(of_set).map(|line| (line, true));
        let is_idle = |line: &&FeatureLine| (self.features.of(line.set) | known.of(line.set)) >> line.bit & 1 == 0;
        let idle = self.feature_notes.lines.iter().filter(is_idle).map(|line| (line.clone(), false));
        active.chain(idle).collect()
    }

    /// Those that keep this program from writing the pool.
    fn features_only_read(&self) -> Vec<FeatureLine> {
        match self.features.usable_by(&KNOWN) {
            Usable::ReadOnly(bits) => self.feature_notes.tell(FeatureSet::RoCompat, bits),
            Usable::ReadWrite | Usable::No(_) => Vec::new(),
        }
    }

    /// Why this program may not write the pool, if its features say so: behind the pool's name.
    #[must_use]
    pub fn why_only_read(&self) -> Option<String> {
        let unknown = self.features_only_read();
        let (names, program) = (in_words(&unknown), who_knows(&unknown));
        let why = format!("uses what {PROGRAM} can only read: {names}; import it with --readonly, or use {program}");
        (!unknown.is_empty()).then_some(why)
    }

    /// The features of the pool that this program does not know, enabled or in use, and the version that knows them all.
    #[must_use]
    pub fn newer_features(&self) -> Option<String> {
        let unknown: Vec<_> = self.features_unknown(KNOWN_FEATURES).into_iter().map(|(line, _)| line).collect();
        (!unknown.is_empty()).then(|| format!("{}; use {}", in_words(&unknown), who_knows(&unknown)))
    }

    /// Those of `known` that could be enabled and are not: what `pool upgrade` would do.
    #[must_use]
    pub fn features_lacking(&self, known: &[Feature]) -> Vec<Feature> {
        let lacks = |feature: &&Feature| {
            self.feature_state(feature) == FeatureState::Disabled && self.feature_notes.allows(feature)
        };
        known.iter().filter(lacks).copied().collect()
    }
}

/// Features in words: the names that they have, and the versions that know them.
pub(crate) fn in_words(unknown: &[FeatureLine]) -> String {
    let words = |line: &FeatureLine| {
        let reserved = RESERVED.iter().find(|reserved| (reserved.0, reserved.1) == (line.set, line.bit));
        match (line.name.as_str(), line.since.as_str(), reserved) {
            ("", ..) => format!("bit {} of {}", line.bit, line.set.word()),
            (name, "", Some((.., words))) => format!("feature@{name} ({words})"),
            (name, "", None) => format!("feature@{name}"),
            (name, since, _) => format!("feature@{name}, of tally {since}"),
        }
    };
    unknown.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// The program to use for all of these.
pub(crate) fn who_knows(unknown: &[FeatureLine]) -> String {
    let releases: Option<Vec<Release>> = unknown.iter().map(|line| line.since.parse().ok()).collect();
    let newest = releases.and_then(|releases| releases.into_iter().max());
    newest.map_or_else(|| "a newer tally".into(), |newest| format!("tally {newest} or a newer one"))
}

/// What is reserved under a name, in words.
#[must_use]
pub fn reserved(name: &str) -> Option<&'static str> {
    RESERVED.iter().find(|reserved| reserved.2 == name).map(|reserved| reserved.3)
}

/// This program.
pub(crate) const PROGRAM: &str = concat!("tally ", env!("CARGO_PKG_VERSION"));

/// This program's version, as features go by it.
#[must_use]
pub fn this_release() -> Release {
    env!("CARGO_PKG_VERSION").parse().expect("the package has a version")
}

/// A word that is no version of tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRelease;

impl FromStr for Release {
    type Err = NoRelease;

    /// `0.4`, or `0.4.1`, which has the features of 0.4.
    fn from_str(text: &str) -> Result<Self, NoRelease> {
        let number = |word: &str| match word.bytes().all(|byte| byte.is_ascii_digit()) {
            true => word.parse().map_err(|_| NoRelease),
            false => Err(NoRelease),
        };
        let numbers = text.split('.').map(number).collect::<Result<Vec<u16>, _>>()?;
        match numbers.as_slice() {
            [major, minor] | [major, minor, _] => Ok(Self { major: *major, minor: *minor }),
            _ => Err(NoRelease),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Whether a text can stand in a line or be a compatibility: it is shown on terminals.
pub(super) fn is_word(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:,".contains(&byte))
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compat {:#x}, ro_compat {:#x}, incompat {:#x}", self.compat, self.ro_compat, self.incompat)
    }
}

#[cfg(test)]
mod tests;
