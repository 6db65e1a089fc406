//! Properties of datasets: what may be set, what it means when it is not, and how it comes down the tree.
//!
//! A dataset stores only what was set on it ([`PropertySet`]). What holds for it is worked out from the sets
//! of its ancestors and its own, root first: the nearest one that has a property wins, and the default stands
//! in where none has. The alternative, copying inherited values into each child, makes `inherit` impossible
//! to undo and every `set` a walk over all descendants.
//!
//! `quota` and `refquota` are not inherited, as a bound of one dataset says nothing of another. The first is for the dataset
//! on which it was set with all below it, the second for that dataset alone: the words are ZFS' own. Nor is `canmount`; and `mountpoint`
//! comes down with the names below the dataset on which it was set, as two cannot be mounted in one place.

mod effective;
mod encoding;
mod mounting;
mod user;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use encoding::Other;

pub use effective::{Effective, Placed, Source, Sourced, effective, sources};
pub(crate) use encoding::SET_BYTES_MAX;
pub use mounting::{CanMount, MOUNTPOINT_BYTES_MAX, Mountpoint};
pub use user::{
    SourcedUser, USER_BYTES_MAX, USER_VALUE_BYTES_MAX, UserProperty, check_user_name, is_user_name, user_sources,
};
pub use value::{
    Compression, Delegating, LogBias, RECORD_SIZE_MAX, RECORD_SIZE_MIN, SHARENFS_BYTES_MAX, SHARESMB_BYTES_MAX,
    SyncMode, Value, parse, usual_values,
};

/// What can be set on a dataset. The order is that of `tally dataset get`; it is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Property {
    /// What a reply promises: `standard`, `always` or `disabled`.
    Sync,
    /// Whether large synchronous writes go through the log (`latency`), around it (`throughput`), or where they are durable
    /// sooner (`auto`).
    LogBias,
    /// Largest block of a file.
    RecordSize,
    /// Most bytes that the dataset and its descendants may take together.
    Quota,
    /// Most bytes that the dataset may take, without its descendants.
    RefQuota,
    /// Whether changes are refused.
    ReadOnly,
    /// Whether reading a file or a directory changes its access time, at most once a day between two changes.
    Atime,
    /// How blocks are compressed.
    Compression,
    /// Whether clients may be given files to keep until somebody else would change them: `auto`, `on` or `off`.
    Delegations,
    /// To whom the dataset is exported, and how.
    ShareNfs,
    /// Whether Samba is to share the dataset, and how.
    ShareSmb,
    /// Where the machine that serves it has it mounted: `none`, `legacy` or a path.
    Mountpoint,
    /// Whether it is mounted there by itself: `on`, `off` or `noauto`.
    CanMount,
}

impl Property {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Sync,
        Self::LogBias,
        Self::RecordSize,
        Self::Quota,
        Self::RefQuota,
        Self::ReadOnly,
        Self::Atime,
        Self::Compression,
        Self::Delegations,
        Self::ShareNfs,
        Self::ShareSmb,
        Self::Mountpoint,
        Self::CanMount,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::LogBias => "logbias",
            Self::RecordSize => "recordsize",
            Self::Quota => "quota",
            Self::RefQuota => "refquota",
            Self::ReadOnly => "readonly",
            Self::Atime => "atime",
            Self::Compression => "compression",
            Self::Delegations => "delegations",
            Self::ShareNfs => "sharenfs",
            Self::ShareSmb => "sharesmb",
            Self::Mountpoint => "mountpoint",
            Self::CanMount => "canmount",
        }
    }

    /// Whether a child dataset takes its parent's value.
    #[must_use]
    pub const fn inheritable(self) -> bool {
        !matches!(self, Self::Quota | Self::RefQuota | Self::CanMount)
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Property {
    type Err = PropertyError;

    fn from_str(name: &str) -> Result<Self, PropertyError> {
        let found = Self::ALL.into_iter().find(|property| property.name() == name);
        found.ok_or_else(|| PropertyError::UnknownProperty { name: name.into() })
    }
}

/// Why a property cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum PropertyError {
    /// No property of that name.
    #[error(
        "there is no property '{name}'; datasets have sync, logbias, recordsize, quota, refquota, readonly, atime, \
         compression, delegations, sharenfs, sharesmb, mountpoint and canmount, and those that users name, which have a colon: com.example:note"
    )]
    UnknownProperty {
        /// The name, as it was given.
        name: String,
    },
    /// The value is none of the property's.
    #[error("'{value}' is no value of {property}: {expected}")]
    BadValue {
        property: Property,
        /// The value, as it was given.
        value: String,
        /// What would be accepted.
        expected: String,
    },
    /// A name that no property can have.
    #[error(
        "'{name}' is no name of a user property: lowercase letters, digits and : + - . _, with a colon, not a dash first, \
         and at most 255 of them"
    )]
    UserName {
        /// The name, as it was given.
        name: String,
    },
    /// A value that is too long, or no line of text.
    #[error(
        "{name} cannot be set to that: a value is one line of text of at most {USER_VALUE_BYTES_MAX} bytes; this one has {bytes}"
    )]
    UserValue {
        name: String,
        /// How long it is.
        bytes: usize,
    },
    /// There is no room for it beside the others.
    #[error(
        "{name} cannot be set: the user properties of a dataset have {USER_BYTES_MAX} bytes together, and with it they would \
         have {bytes}; inherit others, or set them on other datasets"
    )]
    UserRoom {
        name: String,
        /// What all would take.
        bytes: usize,
    },
    /// A sharenfs option that would break promises.
    #[error(
        "sharenfs does not take 'async': a server that answers before the data is safe is asked for with \
         sync=disabled on the dataset, where `tally pool status` shows what is at risk"
    )]
    AsyncShare,
}

/// The values that were set on one dataset itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertySet {
    known: BTreeMap<Property, Value>,
    users: BTreeMap<String, String>,
    /// What newer programs have set. It stays as it is.
    others: Vec<Other>,
}

impl PropertySet {
    /// Nothing set.
    #[must_use]
    pub const fn new() -> Self {
        Self { known: BTreeMap::new(), users: BTreeMap::new(), others: Vec::new() }
    }

    /// Sets a value; it knows its property. Gives the one it replaces.
    pub fn set(&mut self, value: Value) -> Option<Value> {
        self.known.insert(value.property(), value)
    }

    /// Forgets the value, so that the inherited or default one holds again.
    pub fn clear(&mut self, property: Property) -> Option<Value> {
        self.known.remove(&property)
    }

    /// The value set here.
    #[must_use]
    pub fn value(&self, property: Property) -> Option<&Value> {
        self.known.get(&property)
    }

    /// All values set here, in the order of [`Property::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.known.values()
    }

    /// Sets a property that users name, if there is room for it.
    pub fn set_user(&mut self, property: UserProperty) -> Result<(), PropertyError> {
        let UserProperty { name, value } = property;
        let mut users = self.users.clone();
        users.insert(name.clone(), value);
        let bytes = encoding::user_bytes(&users) + self.others_bytes();
        if bytes > USER_BYTES_MAX {
            return Err(PropertyError::UserRoom { name, bytes });
        }
        self.users = users;
        Ok(())
    }

    /// Forgets it, so that the inherited one holds again, or none.
    pub fn clear_user(&mut self, name: &str) {
        self.users.remove(name);
    }

    /// Those set here, by name, with their values.
    pub fn users(&self) -> impl Iterator<Item = (&str, &str)> {
        self.users.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether nothing is set that this program knows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.users.is_empty()
    }
}

impl FromIterator<Value> for PropertySet {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        Self { known: values.into_iter().map(|value| (value.property(), value)).collect(), ..Self::new() }
    }
}

#[cfg(test)]
mod tests;
