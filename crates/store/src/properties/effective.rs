//! What holds for a dataset, worked out from its ancestors' sets and its own.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CanMount, Compression, Delegating, LogBias, Mountpoint, Property, PropertySet, SyncMode, Value};

/// Everything that holds for one dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// What a reply promises.
    pub sync: SyncMode,
    /// What the log is used for.
    pub logbias: LogBias,
    /// Largest block of a file, bytes: a power of two.
    pub recordsize: u32,
    /// Most bytes of this dataset together with its descendants.
    pub quota: Option<u64>,
    /// Most bytes of this dataset, without its descendants.
    pub refquota: Option<u64>,
    /// Whether changes are refused.
    pub readonly: bool,
    /// Whether reading changes access times.
    pub atime: bool,
    /// How new blocks are compressed.
    pub compression: Compression,
    /// Which files clients may be given to keep.
    pub delegations: Delegating,
    /// To whom it is exported: `off`, `on` or rules.
    pub sharenfs: String,
    /// How Samba is to share it: `off`, `on` or options.
    pub sharesmb: String,
    /// Where it is mounted.
    pub mountpoint: Placed,
    /// Whether it is mounted there by itself.
    pub canmount: CanMount,
}

/// A mountpoint as it was set, on a dataset so many names above. It does without the name of the one below, which may be renamed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placed {
    set: Mountpoint,
    depth: usize,
}

impl Placed {
    /// What it is for the dataset for which it holds, by its name.
    #[must_use]
    pub fn of(&self, name: &str) -> Mountpoint {
        self.set.below(name, self.depth)
    }
}

/// What holds at the end of `chain`: the sets from the pool's root dataset down to the dataset itself. An
/// empty chain gives the defaults.
#[must_use]
pub fn effective(chain: &[&PropertySet]) -> Effective {
    let mut result = Effective {
        sync: SyncMode::default(),
        logbias: LogBias::default(),
        recordsize: 0,
        quota: None,
        refquota: None,
        readonly: false,
        atime: false,
        compression: Compression::default(),
        delegations: Delegating::default(),
        sharenfs: String::new(),
        sharesmb: String::new(),
        mountpoint: Placed::default(),
        canmount: CanMount::default(),
    };
    for property in Property::ALL {
        // One field each; a property without its arm does not compile.
        let nearest = nearest(chain, property);
        let depth = nearest.map_or(0, |(index, _)| chain.len() - 1 - index);
        match nearest.map_or_else(|| Value::default_of(property), |(_, value)| value.clone()) {
            Value::Sync(value) => result.sync = value,
            Value::LogBias(value) => result.logbias = value,
            Value::RecordSize(value) => result.recordsize = value,
            Value::Quota(value) => result.quota = value,
            Value::RefQuota(value) => result.refquota = value,
            Value::ReadOnly(value) => result.readonly = value,
            Value::Atime(value) => result.atime = value,
            Value::Compression(value) => result.compression = value,
            Value::Delegations(value) => result.delegations = value,
            Value::ShareNfs(value) => result.sharenfs = value,
            Value::ShareSmb(value) => result.sharesmb = value,
            Value::Mountpoint(set) => result.mountpoint = Placed { set, depth },
            Value::CanMount(value) => result.canmount = value,
        }
    }
    result
}

/// The nearest set from the end of the chain that has the property, by index.
fn nearest<'a>(chain: &[&'a PropertySet], property: Property) -> Option<(usize, &'a Value)> {
    let last = chain.len().checked_sub(1)?;
    let first = if property.inheritable() { 0 } else { last };
    (first..=last).rev().find_map(|index| Some((index, chain[index].value(property)?)))
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Nobody set it, here or above: the default holds.
    Default,
    /// It was set on this dataset.
    Local,
    /// It was set on the ancestor of this name.
    Inherited(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::Local => f.pad("local"),
            Self::Inherited(from) => f.pad(&format!("inherited from {from}")),
        }
    }
}

/// A value and where it comes from: one line of `tally dataset get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced {
    /// What holds; it knows its property.
    pub value: Value,
    /// Where the value comes from.
    pub source: Source,
}

/// All properties at the end of `chain` (dataset names with their sets, root first), in the order of
/// [`Property::ALL`].
#[must_use]
pub fn sources(chain: &[(&str, &PropertySet)]) -> Vec<Sourced> {
    let sets: Vec<&PropertySet> = chain.iter().map(|(_, set)| *set).collect();
    let line = |property| match nearest(&sets, property) {
        None => Sourced { value: Value::default_of(property), source: Source::Default },
        Some((index, value)) if index + 1 == chain.len() => Sourced { value: value.clone(), source: Source::Local },
        Some((index, value)) => {
            let name = chain.last().map_or("", |(name, _)| name);
            let value = match value {
                Value::Mountpoint(set) => Value::Mountpoint(set.below(name, chain.len() - 1 - index)),
                value => value.clone(),
            };
            Sourced { value, source: Source::Inherited(chain[index].0.to_owned()) }
        }
    };
    Property::ALL.into_iter().map(line).collect()
}
