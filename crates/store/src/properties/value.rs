//! Values of properties: typed inside, and in `zfs`'s spelling at the edge.

use std::fmt;

use tally_base::Size;

use super::mounting::{CanMount, Mountpoint};
use super::{Property, PropertyError};

/// Smallest record size: one sector.
pub const RECORD_SIZE_MIN: u32 = 4096;
/// Largest record size: a WRITE and a run of the pool are at most that long.
pub const RECORD_SIZE_MAX: u32 = 1 << 20;
/// Longest sharenfs value, bytes: it stands in the dataset's entry, which is one value of a tree.
pub const SHARENFS_BYTES_MAX: usize = 4096;
/// Longest sharesmb value, bytes: a name, and as many users as a list of them should have that is not a group.
pub const SHARESMB_BYTES_MAX: usize = 512;

/// What a reply promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// As the protocol says.
    #[default]
    Standard,
    /// Unstable writes are made stable before their reply, too.
    Always,
    /// Nothing: a crash loses the last seconds.
    Disabled,
}

/// What the log is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogBias {
    /// Synchronous writes go into the log, up to an eighth of its ring.
    Latency,
    /// Those of more than 32 KiB go to their final place, and are answered with their transaction group.
    Throughput,
    /// As much goes into the log as it takes sooner than a transaction group would be durable.
    #[default]
    Auto,
}

/// How new blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Blocks are stored as they are.
    Off,
    /// LZ4: faster than the devices that we know.
    #[default]
    Lz4,
    /// Zstandard: fewer bytes, at several times the processor time.
    Zstd,
}

/// Which files clients may be given to keep until somebody else would change them (RFC 8881 §10.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Delegating {
    /// Those that cost nobody else more than a moment: what is kept for reading.
    #[default]
    Auto,
    /// All that the server gives.
    On,
    /// None.
    Off,
}

/// A value that knows its property, so that no set can hold a wrong pair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // They are the properties.
pub enum Value {
    Sync(SyncMode),
    LogBias(LogBias),
    RecordSize(u32),
    Quota(Option<u64>),
    RefQuota(Option<u64>),
    ReadOnly(bool),
    Atime(bool),
    Compression(Compression),
    Delegations(Delegating),
    ShareNfs(String),
    ShareSmb(String),
    Mountpoint(Mountpoint),
    CanMount(CanMount),
}

impl Value {
    /// What holds where nothing was set.
    #[must_use]
    pub fn default_of(property: Property) -> Self {
        match property {
            Property::Sync => Self::Sync(SyncMode::default()),
            Property::LogBias => Self::LogBias(LogBias::default()),
            Property::RecordSize => Self::RecordSize(128 << 10),
            Property::Quota => Self::Quota(None),
            Property::RefQuota => Self::RefQuota(None),
            Property::ReadOnly => Self::ReadOnly(false),
            Property::Atime => Self::Atime(false),
            Property::Compression => Self::Compression(Compression::default()),
            Property::Delegations => Self::Delegations(Delegating::default()),
            Property::ShareNfs => Self::ShareNfs("off".into()),
            Property::ShareSmb => Self::ShareSmb("off".into()),
            Property::Mountpoint => Self::Mountpoint(Mountpoint::default()),
            Property::CanMount => Self::CanMount(CanMount::default()),
        }
    }

    /// Whose value it is.
    #[must_use]
    pub const fn property(&self) -> Property {
        match self {
            Self::Sync(_) => Property::Sync,
            Self::LogBias(_) => Property::LogBias,
            Self::RecordSize(_) => Property::RecordSize,
            Self::Quota(_) => Property::Quota,
            Self::RefQuota(_) => Property::RefQuota,
            Self::ReadOnly(_) => Property::ReadOnly,
            Self::Atime(_) => Property::Atime,
            Self::Compression(_) => Property::Compression,
            Self::Delegations(_) => Property::Delegations,
            Self::ShareNfs(_) => Property::ShareNfs,
            Self::ShareSmb(_) => Property::ShareSmb,
            Self::Mountpoint(_) => Property::Mountpoint,
            Self::CanMount(_) => Property::CanMount,
        }
    }

    /// Whether [`parse`] could have made it.
    pub(super) fn is_possible(&self) -> bool {
        match self {
            Self::RecordSize(bytes) => is_record_size(*bytes),
            Self::Quota(bytes) | Self::RefQuota(bytes) => *bytes != Some(0),
            Self::ShareNfs(rules) => rules.len() <= SHARENFS_BYTES_MAX,
            Self::ShareSmb(share) => share.len() <= SHARESMB_BYTES_MAX,
            Self::Sync(_) | Self::LogBias(_) | Self::ReadOnly(_) | Self::Atime(_) => true,
            Self::Mountpoint(at) => Mountpoint::parse(&at.to_string()).as_ref() == Some(at),
            Self::Compression(_) | Self::Delegations(_) | Self::CanMount(_) => true,
        }
    }

    /// As [`fmt::Display`], with sizes in bytes: what `-p` prints. No quota is 0 there, as in `zfs`.
    #[must_use]
    pub fn exact(&self) -> String {
        match self {
            Self::RecordSize(bytes) => bytes.to_string(),
            Self::Quota(bytes) | Self::RefQuota(bytes) => bytes.unwrap_or(0).to_string(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecordSize(bytes) => return Size(u64::from(*bytes)).fmt(f),
            Self::Quota(Some(bytes)) | Self::RefQuota(Some(bytes)) => return Size(*bytes).fmt(f),
            Self::ShareNfs(text) | Self::ShareSmb(text) => return f.pad(text),
            Self::Mountpoint(at) => return at.fmt(f),
            _ => {}
        }
        f.pad(match self {
            Self::Sync(SyncMode::Standard) => "standard",
            Self::Sync(SyncMode::Always) => "always",
            Self::Sync(SyncMode::Disabled) => "disabled",
            Self::LogBias(LogBias::Latency) => "latency",
            Self::LogBias(LogBias::Throughput) => "throughput",
            Self::LogBias(LogBias::Auto) | Self::Delegations(Delegating::Auto) => "auto",
            Self::Compression(Compression::Off) | Self::ReadOnly(false) | Self::Atime(false) => "off",
            Self::Delegations(Delegating::Off) | Self::CanMount(CanMount::Off) => "off",
            Self::CanMount(CanMount::On) => "on",
            Self::CanMount(CanMount::NoAuto) => "noauto",
            Self::Compression(Compression::Lz4) => "lz4",
            Self::Compression(Compression::Zstd) => "zstd",
            Self::ReadOnly(true) | Self::Atime(true) | Self::Delegations(Delegating::On) => "on",
            Self::Quota(None) | Self::RefQuota(None) => "none",
            Self::RecordSize(_) | Self::Quota(Some(_)) | Self::RefQuota(Some(_)) => unreachable!("printed above"),
            Self::ShareNfs(_) | Self::ShareSmb(_) | Self::Mountpoint(_) => unreachable!("printed above"),
        })
    }
}

/// Values that [`parse`] takes, those that people type: what a shell offers. Of sizes some, and of `sharenfs` and `sharesmb` the words.
#[must_use]
pub const fn usual_values(property: Property) -> &'static [&'static str] {
    match property {
        Property::Sync => &["standard", "always", "disabled"],
        Property::LogBias => &["auto", "latency", "throughput"],
        Property::RecordSize => &["4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M"],
        Property::Quota | Property::RefQuota => &["none"],
        Property::ReadOnly | Property::Atime => &["on", "off"],
        Property::Compression => &["lz4", "zstd", "off"],
        Property::Delegations => &["auto", "on", "off"],
        Property::ShareNfs | Property::ShareSmb => &["on", "off"],
        Property::Mountpoint => &["none", "legacy"],
        Property::CanMount => &["on", "off", "noauto"],
    }
}

/// Reads a value as typed. Whether a rule of sharenfs or an option of sharesmb makes sense only those can tell who share.
pub fn parse(property: Property, text: &str) -> Result<Value, PropertyError> {
    let bad = |expected: &str| PropertyError::BadValue { property, value: text.into(), expected: expected.into() };
    let switch = |wrap: fn(bool) -> Value| match text {
        "on" => Ok(wrap(true)),
        "off" => Ok(wrap(false)),
        _ => Err(bad("it is on or off")),
    };
    match property {
        Property::Sync => sync_mode(text).map(Value::Sync).ok_or_else(|| bad("it is standard, always or disabled")),
        Property::LogBias => match text {
            "latency" => Ok(Value::LogBias(LogBias::Latency)),
            "throughput" => Ok(Value::LogBias(LogBias::Throughput)),
            "auto" => Ok(Value::LogBias(LogBias::Auto)),
            _ => Err(bad("it is auto, latency or throughput")),
        },
        Property::RecordSize => {
            record_size(text).map(Value::RecordSize).ok_or_else(|| bad("it is a power of two from 4K to 1M"))
        }
        Property::Quota => quota(text).map(Value::Quota).ok_or_else(|| bad(QUOTA_EXPECTED)),
        Property::RefQuota => quota(text).map(Value::RefQuota).ok_or_else(|| bad(QUOTA_EXPECTED)),
        Property::ReadOnly => switch(Value::ReadOnly),
        Property::Atime => switch(Value::Atime),
        Property::Compression => match text {
            "off" => Ok(Value::Compression(Compression::Off)),
            "on" | "lz4" => Ok(Value::Compression(Compression::Lz4)),
            "zstd" | "zstd-3" => Ok(Value::Compression(Compression::Zstd)),
            level if level.starts_with("zstd-") => {
                Err(bad("it is off, lz4 or zstd, which is zstd-3: there are no other levels yet"))
            }
            "gzip" | "lzjb" | "zle" => Err(bad(NO_GZIP)),
            level if level.starts_with("gzip-") => Err(bad(NO_GZIP)),
            _ => Err(bad("it is off, lz4 or zstd")),
        },
        Property::Delegations => match text {
            "auto" => Ok(Value::Delegations(Delegating::Auto)),
            "on" => Ok(Value::Delegations(Delegating::On)),
            "off" => Ok(Value::Delegations(Delegating::Off)),
            _ => Err(bad("it is auto, on or off")),
        },
        Property::ShareNfs => share(text).map_err(|wrong| wrong.unwrap_or_else(|| bad(SHARE_EXPECTED))),
        Property::ShareSmb => {
            line(text, SHARESMB_BYTES_MAX).map(|text| Value::ShareSmb(text.into())).ok_or_else(|| bad(SMB_EXPECTED))
        }
        Property::Mountpoint => Mountpoint::parse(text).map(Value::Mountpoint).ok_or_else(|| bad(MOUNTPOINT_EXPECTED)),
        Property::CanMount => match text {
            "on" => Ok(Value::CanMount(CanMount::On)),
            "off" => Ok(Value::CanMount(CanMount::Off)),
            "noauto" => Ok(Value::CanMount(CanMount::NoAuto)),
            _ => Err(bad("it is on, off or noauto")),
        },
    }
}

const NO_GZIP: &str =
    "it is off, lz4 or zstd: lz4 is quicker than lzjb and zle, and zstd makes less of a block than gzip in less time";
const QUOTA_EXPECTED: &str = "it is none, or a size with its unit, like 500M or 1.5T";
const SHARE_EXPECTED: &str = "it is off, on, or a list of networks with options on one line of at most 4096 \
     bytes, like '192.168.1.0/24(rw,no_root_squash) 10.0.0.7(ro)'";

const SMB_EXPECTED: &str = "it is off, on, or options on one line of at most 512 bytes, like 'name=Docs,users=@staff'";
const MOUNTPOINT_EXPECTED: &str = "it is none, legacy, or a directory of this machine from / on, without . and .. and at most 512 bytes long, like /srv/home";

fn sync_mode(text: &str) -> Option<SyncMode> {
    match text {
        "standard" => Some(SyncMode::Standard),
        "always" => Some(SyncMode::Always),
        "disabled" => Some(SyncMode::Disabled),
        _ => None,
    }
}

fn record_size(text: &str) -> Option<u32> {
    let bytes = u32::try_from(text.parse::<Size>().ok()?.0).ok()?;
    is_record_size(bytes).then_some(bytes)
}

fn is_record_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (RECORD_SIZE_MIN..=RECORD_SIZE_MAX).contains(&bytes)
}

/// `Some(None)` is no quota; 0 means the same, as in `zfs`.
fn quota(text: &str) -> Option<Option<u64>> {
    if text == "none" {
        return Some(None);
    }
    let bytes = text.parse::<Size>().ok()?.0;
    Some((bytes > 0).then_some(bytes))
}

fn share(text: &str) -> Result<Value, Option<PropertyError>> {
    let trimmed = line(text, SHARENFS_BYTES_MAX).ok_or(None)?;
    let mut words = trimmed.split(|c: char| c.is_whitespace() || "(),".contains(c));
    if words.any(|word| word == "async") {
        return Err(Some(PropertyError::AsyncShare));
    }
    Ok(Value::ShareNfs(trimmed.into()))
}

/// One line of text, of so many bytes at most.
fn line(text: &str, bytes_max: usize) -> Option<&str> {
    let trimmed = text.trim();
    let is_line = !trimmed.is_empty() && trimmed.len() <= bytes_max && !trimmed.chars().any(char::is_control);
    is_line.then_some(trimmed)
}

impl From<Compression> for crate::bp::Compression {
    fn from(chosen: Compression) -> Self {
        match chosen {
            Compression::Off => Self::Off,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd => Self::Zstd(ZSTD_LEVEL),
        }
    }
}

/// What `compression=zstd` means: the level that zfs has as its default.
const ZSTD_LEVEL: i8 = 3;
