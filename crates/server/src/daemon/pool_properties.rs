//! What `tally pool set` changes.

use tally_fs::filer::FilerError;
use tally_members::label::{FailMode, Feature, HangLimit, KNOWN_FEATURES, Release};
use tally_store::pool::ScrubEvery;

use super::error::{DiskError, PoolsError};
use super::features;
use super::pools::Pools;
use super::zfs_words;
use crate::control::message::Assignment;

/// What `tally pool set` can change.
enum PoolChange {
    FailMode(FailMode),
    ScrubEvery(ScrubEvery),
    /// After how long a leg that hangs is struck off.
    HangLimit(HangLimit),
    /// Which features may be enabled.
    Compatibility(Option<Release>),
    Enable(Feature),
    /// Whether what it says of mountpoints and shares holds on this machine.
    Mountpoints(bool),
    /// The machine's clock is right, although it is far from the pool's times.
    AcceptClock,
    /// Nothing is to be changed for that.
    IsSo,
}

impl PoolChange {
    fn parse(set: &Assignment) -> Result<Self, PoolsError> {
        let bad = || PoolsError::BadPoolProperty { name: set.property.clone(), value: set.value.clone() };
        match (set.property.as_str(), set.value.as_str()) {
            ("failmode", word) => FailMode::of_word(word).map(Self::FailMode).ok_or_else(bad),
            ("scrub", word) => ScrubEvery::of_word(word).map(Self::ScrubEvery).ok_or_else(bad),
            ("hang_limit", word) => HangLimit::of_word(word).map(Self::HangLimit).ok_or_else(bad),
            ("clock", "accept") => Ok(Self::AcceptClock),
            ("mountpoints", "accept") => Ok(Self::Mountpoints(true)),
            ("mountpoints", "ignore") => Ok(Self::Mountpoints(false)),
            ("compatibility", word) => features::parse_compatibility(word).map(Self::Compatibility),
            (feature, "enabled") if features::is_feature(feature) => features::find(feature).map(Self::Enable),
            (name, _) => match zfs_words::of_pools(name) {
                Some(foreign) => foreign.check(set).map(|()| Self::IsSo),
                None => Err(bad()),
            },
        }
    }
}

/// Properties and values that can be set, those that people type: what a shell offers.
pub(crate) fn usual_values() -> Vec<(String, Vec<&'static str>)> {
    let of_features = KNOWN_FEATURES.iter().map(|feature| (features::property(feature), vec!["enabled"]));
    [
        ("failmode", FailMode::ALL.map(FailMode::word).to_vec()),
        ("scrub", ScrubEvery::ALL.map(ScrubEvery::word).to_vec()),
        ("hang_limit", vec!["auto", "off"]),
        ("compatibility", vec!["off"]),
        ("mountpoints", vec!["accept", "ignore"]),
        ("clock", vec!["accept"]),
    ]
    .into_iter()
    .map(|(name, values)| (name.to_owned(), values))
    .chain(of_features)
    .collect()
}

impl Pools {
    /// Sets properties of a pool.
    pub fn set_pool_properties(&self, name: &str, assignments: &[Assignment]) -> Result<(), PoolsError> {
        let pool = self.pool(name)?;
        // All of them are understood before the first is set.
        for change in assignments.iter().map(PoolChange::parse).collect::<Result<Vec<_>, _>>()? {
            match change {
                PoolChange::FailMode(failmode) => {
                    pool.filer.pool().roster.set_failmode(failmode).map_err(DiskError::from)?;
                }
                PoolChange::ScrubEvery(every) => {
                    pool.filer.pool().set_scrub_every(every);
                    pool.filer.sync()?;
                }
                PoolChange::HangLimit(limit) => {
                    pool.filer.pool().roster.set_hang_limit(limit).map_err(DiskError::from)?;
                }
                PoolChange::Compatibility(limit) => {
                    let limit = limit.map_or_else(String::new, |limit| limit.to_string());
                    pool.filer.pool().roster.set_compatibility(&limit).map_err(DiskError::from)?;
                }
                PoolChange::Enable(feature) => {
                    pool.filer.pool().roster.enable_features(&[feature]).map_err(DiskError::from)?;
                }
                PoolChange::Mountpoints(is_accepted) => {
                    self.accept(&pool, is_accepted).map_err(|error| PoolsError::MountpointsUnwritten {
                        pool: name.into(),
                        why: error.to_string(),
                    })?;
                }
                PoolChange::IsSo => {}
                PoolChange::AcceptClock => pool.filer.pool().accept_clock().map_err(FilerError::from)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_set_stands_in_its_page() {
        let page = include_str!("../../../../packaging/man/tally-properties.7");
        for (property, values) in usual_values() {
            let property = property.split('@').next().unwrap_or_default().to_owned();
            let line = page.lines().find(|line| {
                let name = line.strip_prefix(".It Cm ").and_then(|line| line.split([' ', '@']).next());
                name == Some(&property)
            });
            let line = line.unwrap_or_else(|| panic!("no {property}"));
            assert!(values.iter().all(|value| line.contains(value)), "{property}: {line}");
        }
    }

    #[test]
    fn what_a_shell_offers_can_be_set() {
        for (property, values) in usual_values() {
            for value in values {
                let set = Assignment { property: property.clone(), value: value.into() };
                assert!(PoolChange::parse(&set).is_ok(), "{set:?}");
            }
        }
    }
}
