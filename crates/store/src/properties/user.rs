//! Properties that users name, as `zfs` has them: `com.example:note`. Nothing here knows what they mean.
//!
//! They stand in the dataset's entry, beside those that we know, and not under keys of their own: so a rename, a destroy and
//! a crash need no word about them, and an import has them with the entry. What that costs: a group that changes the dataset
//! writes them again. Hence the bounds, which also follow from the entry's 32 KiB, and from what programs write back that do
//! not know of them: 8 KiB of all that they do not know, beyond which they refuse the dataset. No feature's bit keeps those
//! away, so no more is set. A value may have nearly the 8 KiB that `zfs` allows, if it is alone.

use tally_base::codec::{Malformed, Put, Reader};

use super::encoding::OTHERS_BYTES_MAX;
use super::{PropertyError, PropertySet};

/// Longest name: its length is a byte.
const NAME_BYTES_MAX: usize = 255;
/// Longest value, which is that of `zfs`.
pub const USER_VALUE_BYTES_MAX: usize = 8 << 10;
/// Bytes of all that may be set on one dataset, as they are stored, with whatever else is carried along there: what a program
/// that does not know them writes back.
pub const USER_BYTES_MAX: usize = OTHERS_BYTES_MAX;
/// The same of those that are read: so many could be set once.
pub(super) const READ_BYTES_MAX: usize = 10 << 10;

/// One of them, with a name and a value that may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserProperty {
    pub(super) name: String,
    pub(super) value: String,
}

/// Whether this is the name of a property that users name, and of none that we know: it has a colon.
#[must_use]
pub fn is_user_name(name: &str) -> bool {
    name.contains(':')
}

impl UserProperty {
    /// One that is to be set.
    pub fn new(name: &str, value: &str) -> Result<Self, PropertyError> {
        check_user_name(name)?;
        if value.len() > USER_VALUE_BYTES_MAX || value.chars().any(char::is_control) {
            return Err(PropertyError::UserValue { name: name.into(), bytes: value.len() });
        }
        Ok(Self { name: name.into(), value: value.into() })
    }

    pub(super) fn encode(name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + name.len() + value.len());
        out.put_u8(name.len() as u8);
        out.put(name.as_bytes());
        out.put(value.as_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, "user property");
        let length = usize::from(reader.u8()?);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("user property"));
        let (name, value) = (text(reader.bytes(length)?)?, text(reader.rest())?);
        Self::new(&name, &value).map_err(|_| Malformed("user property"))
    }
}

/// Whether a name is one.
pub fn check_user_name(name: &str) -> Result<(), PropertyError> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":+-._".contains(&byte);
    let is_good = is_user_name(name) && !name.starts_with('-') && name.len() <= NAME_BYTES_MAX;
    if is_good && name.bytes().all(is_letter) { Ok(()) } else { Err(PropertyError::UserName { name: name.into() }) }
}

/// A value that holds, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedUser {
    /// Its name, with the colon that tells it from the pool's own properties.
    pub name: String,
    /// The value in force: its own, or that of the nearest dataset above.
    pub value: String,
    /// Where the value comes from.
    pub source: super::Source,
}

/// What holds at the end of `chain` (dataset names with their sets, root first), by name: the nearest one wins.
#[must_use]
pub fn user_sources(chain: &[(&str, &PropertySet)]) -> Vec<SourcedUser> {
    let mut found = std::collections::BTreeMap::new();
    for (at, (dataset, set)) in chain.iter().enumerate() {
        for (name, value) in set.users() {
            let source = match at + 1 == chain.len() {
                true => super::Source::Local,
                false => super::Source::Inherited((*dataset).to_owned()),
            };
            found.insert(name, SourcedUser { name: name.into(), value: value.into(), source });
        }
    }
    found.into_values().collect()
}
