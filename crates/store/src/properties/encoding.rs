//! A property set as bytes: what stands in a dataset's entry (drawn in `crate::dataset::entry`).
//!
//! | number | property | value |
//! |---|---|---|
//! | 1 | sync | u8: 0 standard, 1 always, 2 disabled |
//! | 2 | logbias | u8: 0 latency, 1 throughput, 2 auto |
//! | 3 | recordsize | u32 |
//! | 4 | refquota | u64, 0 none |
//! | 5, 6 | readonly, atime | u8: 0, 1 |
//! | 7 | compression | u8: 0 off, 1 lz4, 2 zstd; level i8, 0 the program's own choice |
//! | 8 | sharenfs | text |
//! | 9 | quota | u64, 0 none |
//! | 10 | delegations | u8: 0 auto, 1 on, 2 off |
//! | 11 | mountpoint | text: none, legacy, or a path |
//! | 12 | canmount | u8: 0 on, 1 off, 2 noauto |
//! | 13 | sharesmb | text |
//! | 256 | one that users name, each once | length of the name u8, name, text |
//!
//! A number that is not known, and a value that was received and not set here, stays as it is, and is in force nowhere.

use std::collections::BTreeMap;

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};

use super::mounting::{CanMount, MOUNTPOINT_BYTES_MAX, Mountpoint};
use super::user::{READ_BYTES_MAX, UserProperty};
use super::value::{Compression, Delegating, LogBias, SHARENFS_BYTES_MAX, SHARESMB_BYTES_MAX, SyncMode, Value};
use super::{Property, PropertySet};

/// Properties that users name.
const USER: u16 = 256;
/// Set on the dataset itself.
const LOCAL: u8 = 0;
/// The zstd level of a set that names none.
const OWN_LEVEL: u8 = 0;

/// Bytes before each value.
const HEAD_BYTES: usize = 5;
/// Bytes of all properties that are not known, with their heads.
pub(super) const OTHERS_BYTES_MAX: usize = 8 << 10;
/// The longest encoding of a set.
pub(crate) const SET_BYTES_MAX: usize = Property::ALL.len() * (HEAD_BYTES + 8)
    + SHARENFS_BYTES_MAX
    + SHARESMB_BYTES_MAX
    + MOUNTPOINT_BYTES_MAX
    + OTHERS_BYTES_MAX
    + READ_BYTES_MAX;

/// Bytes of properties that users name, with their heads.
pub(super) fn user_bytes(users: &BTreeMap<String, String>) -> usize {
    users.iter().map(|(name, value)| HEAD_BYTES + 1 + name.len() + value.len()).sum()
}

/// A property that this program does not know, or that it does not put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Other {
    pub(super) number: u16,
    pub(super) source: u8,
    pub(super) bytes: Bytes,
}

impl PropertySet {
    /// Bytes of its encoding: by so much a dataset's entry is longer for it.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        self.encode().len()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |number: u16, source: u8, bytes: &[u8]| {
            out.put_u16(number);
            out.put_u8(source);
            out.put_u16(bytes.len() as u16);
            out.put(bytes);
        };
        self.iter().for_each(|value| put(number_of(value.property()), LOCAL, &encode_value(value)));
        self.users().for_each(|(name, value)| put(USER, LOCAL, &UserProperty::encode(name, value)));
        self.others.iter().for_each(|other| put(other.number, other.source, &other.bytes));
        out
    }

    /// Refuses what nobody could have set: a set that is read back has a good checksum, and no more than that. `None`: a
    /// property that is known has a value that only newer programs know.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut reader = Reader::new(bytes, "property");
        let (mut set, mut others_bytes) = (Self::new(), 0);
        while !reader.rest().is_empty() {
            let (number, source, length) = (reader.u16()?, reader.u8()?, usize::from(reader.u16()?));
            let bytes = reader.bytes(length)?;
            if (number, source) == (USER, LOCAL) {
                let UserProperty { name, value } = UserProperty::decode(bytes)?;
                if set.users.insert(name, value).is_some() {
                    return Err(reader.malformed());
                }
                continue;
            }
            let known = Property::ALL.into_iter().find(|property| number_of(*property) == number);
            let Some(property) = known.filter(|_| source == LOCAL) else {
                others_bytes += HEAD_BYTES + length;
                set.others.push(Other { number, source, bytes: Bytes::copy_from_slice(bytes) });
                continue;
            };
            let Some(value) = decode_value(property, bytes)? else { return Ok(None) };
            if !value.is_possible() || set.set(value).is_some() {
                return Err(reader.malformed());
            }
        }
        if others_bytes > OTHERS_BYTES_MAX || user_bytes(&set.users) > READ_BYTES_MAX {
            Err(reader.malformed())
        } else {
            Ok(Some(set))
        }
    }

    /// Bytes of what is carried along, with their heads.
    pub(super) fn others_bytes(&self) -> usize {
        self.others.iter().map(|other| HEAD_BYTES + other.bytes.len()).sum()
    }

    /// Numbers and bytes of what is carried along.
    pub(crate) fn others(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.others.iter().map(|other| (other.number, &other.bytes[..]))
    }
}

const fn number_of(property: Property) -> u16 {
    match property {
        Property::Sync => 1,
        Property::LogBias => 2,
        Property::RecordSize => 3,
        Property::RefQuota => 4,
        Property::ReadOnly => 5,
        Property::Atime => 6,
        Property::Compression => 7,
        Property::ShareNfs => 8,
        Property::Quota => 9,
        Property::Delegations => 10,
        Property::Mountpoint => 11,
        Property::CanMount => 12,
        Property::ShareSmb => 13,
    }
}

fn encode_value(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Sync(SyncMode::Standard) | Value::LogBias(LogBias::Latency) => out.put_u8(0),
        Value::Sync(SyncMode::Always) | Value::LogBias(LogBias::Throughput) => out.put_u8(1),
        Value::Sync(SyncMode::Disabled) | Value::LogBias(LogBias::Auto) => out.put_u8(2),
        Value::RecordSize(bytes) => out.put_u32(*bytes),
        Value::Quota(bytes) | Value::RefQuota(bytes) => out.put_u64(bytes.unwrap_or(0)),
        Value::ReadOnly(on) | Value::Atime(on) => out.put_u8(u8::from(*on)),
        Value::Compression(chosen) => {
            out.put_u8(match chosen {
                Compression::Off => 0,
                Compression::Lz4 => 1,
                Compression::Zstd => 2,
            });
            out.put_u8(OWN_LEVEL);
        }
        Value::Delegations(chosen) => out.put_u8(match chosen {
            Delegating::Auto => 0,
            Delegating::On => 1,
            Delegating::Off => 2,
        }),
        Value::ShareNfs(text) | Value::ShareSmb(text) => out.put(text.as_bytes()),
        Value::Mountpoint(at) => out.put(at.to_string().as_bytes()),
        Value::CanMount(chosen) => out.put_u8(match chosen {
            CanMount::On => 0,
            CanMount::Off => 1,
            CanMount::NoAuto => 2,
        }),
    }
    out
}

fn decode_value(property: Property, bytes: &[u8]) -> Result<Option<Value>, Malformed> {
    let mut reader = Reader::new(bytes, property.name());
    let malformed = reader.malformed();
    let value = match property {
        Property::Sync => {
            one_of(reader.u8()?, [SyncMode::Standard, SyncMode::Always, SyncMode::Disabled]).map(Value::Sync)
        }
        Property::LogBias => {
            one_of(reader.u8()?, [LogBias::Latency, LogBias::Throughput, LogBias::Auto]).map(Value::LogBias)
        }
        Property::RecordSize => Some(Value::RecordSize(reader.u32()?)),
        Property::Quota => Some(Value::Quota(bound(&mut reader)?)),
        Property::RefQuota => Some(Value::RefQuota(bound(&mut reader)?)),
        Property::ReadOnly => one_of(reader.u8()?, [false, true]).map(Value::ReadOnly),
        Property::Atime => one_of(reader.u8()?, [false, true]).map(Value::Atime),
        Property::Compression => {
            let chosen = one_of(reader.u8()?, [Compression::Off, Compression::Lz4, Compression::Zstd]);
            chosen.filter(|_| bytes.get(1) == Some(&OWN_LEVEL)).map(Value::Compression)
        }
        Property::Delegations => {
            one_of(reader.u8()?, [Delegating::Auto, Delegating::On, Delegating::Off]).map(Value::Delegations)
        }
        Property::ShareNfs => {
            let rules = String::from_utf8(bytes.to_vec()).map_err(|_| malformed)?;
            return Ok(Some(Value::ShareNfs(rules)));
        }
        Property::ShareSmb => {
            let share = String::from_utf8(bytes.to_vec()).map_err(|_| malformed)?;
            return Ok(Some(Value::ShareSmb(share)));
        }
        Property::Mountpoint => {
            let text = std::str::from_utf8(bytes).map_err(|_| malformed)?;
            // As it would be written again.
            let at = Mountpoint::parse(text).filter(|at| at.to_string() == text).ok_or(malformed)?;
            return Ok(Some(Value::Mountpoint(at)));
        }
        Property::CanMount => {
            one_of(reader.u8()?, [CanMount::On, CanMount::Off, CanMount::NoAuto]).map(Value::CanMount)
        }
    };
    // What follows a value that is not known says something about that.
    let is_whole = value.is_none() || reader.rest().len() == usize::from(property == Property::Compression);
    if is_whole { Ok(value) } else { Err(malformed) }
}

/// 0 is none.
fn bound(reader: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
    Ok(Some(reader.u64()?).filter(|bytes| *bytes > 0))
}

fn one_of<T: Copy, const N: usize>(number: u8, values: [T; N]) -> Option<T> {
    values.get(usize::from(number)).copied()
}
