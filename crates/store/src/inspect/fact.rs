//! What an inspection says: one fact a line, each with the place that it was read from.

use std::fmt;
use std::path::{Path, PathBuf};

use tally_base::{DatasetId, Dseq, FileTime, LaneId, Lsn, PoolGuid, Time, Txg, VdevGuid, VdevIndex};

/// The parts of a pool that can be looked at, in the order in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The pool as its newest label describes it.
    Pool,
    /// Labels of all legs.
    Labels,
    /// Uberblocks of all legs.
    Uberblocks,
    /// The intent log: lanes, frames, records.
    Log,
    /// The pool root, datasets and their trees.
    Trees,
    /// Space maps and deferred frees.
    Space,
}

impl Part {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Labels => "labels",
            Self::Uberblocks => "uberblocks",
            Self::Log => "log",
            Self::Trees => "trees",
            Self::Space => "space",
        }
    }
}

/// Where something was read: a device, and a byte offset from its very beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path of the device.
    pub device: PathBuf,
    /// Byte offset on that disk or in that file.
    pub offset: u64,
}

impl Source {
    pub(super) fn new(device: &Path, offset: u64) -> Self {
        Self { device: device.to_owned(), offset }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:#x}", shown(&self.device.to_string_lossy()), self.offset)
    }
}

/// One field of a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A guid or another number that people know by its sixteen hexadecimal digits.
    Hex(u64),
    /// Permission bits, printed in base 8.
    Octal(u32),
    /// Words. What came from a disk may contain anything; it is escaped when it is printed.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// Server time, printed in UTC to the nanosecond.
    Time(Time),
    /// What a program has said of a file, printed in the same way.
    FileTime(FileTime),
}

/// Fields in the order in which they are printed.
pub type Fields = Vec<(&'static str, Value)>;

/// How a fact is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Read, and right by its checksum and by what it must be.
    Sound,
    /// Something to know, and no damage.
    Note(String),
    /// Something is not as it was written, and this is what is wrong.
    Damage(String),
}

/// One thing that was found on disk, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Which part of the pool it belongs to.
    pub part: Part,
    /// What was found: "label slot", "frame", "inode".
    pub what: &'static str,
    /// Where; nothing for what is absent.
    pub source: Option<Source>,
    /// What it says: names with values, in order.
    pub fields: Fields,
    /// Whether it is sound.
    pub standing: Standing,
}

impl Fact {
    /// A sound fact without fields.
    #[must_use]
    pub fn new(part: Part, what: &'static str) -> Self {
        Self { part, what, source: None, fields: Vec::new(), standing: Standing::Sound }
    }

    /// Names the place.
    #[must_use]
    pub fn at(mut self, source: impl Into<Option<Source>>) -> Self {
        self.source = source.into();
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Adds a field where there is something to say.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds fields.
    #[must_use]
    pub fn with_all(mut self, fields: Fields) -> Self {
        self.fields.extend(fields);
        self
    }

    /// Makes it damage.
    #[must_use]
    pub fn damaged(mut self, why: impl fmt::Display) -> Self {
        self.standing = Standing::Damage(why.to_string());
        self
    }

    /// Makes it a note.
    #[must_use]
    pub fn note(mut self, text: impl fmt::Display) -> Self {
        self.standing = Standing::Note(text.to_string());
        self
    }

    /// Whether it is damage.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self.standing, Standing::Damage(_))
    }
}

/// `place: what field=value …`, and for damage and notes what is to be said about it.
impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{source}: ")?,
            None => write!(f, "-: ")?,
        }
        if self.is_damage() {
            write!(f, "DAMAGE ")?;
        }
        write!(f, "{}", self.what)?;
        for (name, value) in &self.fields {
            write!(f, " {name}={value}")?;
        }
        match &self.standing {
            Standing::Sound => Ok(()),
            Standing::Note(text) | Standing::Damage(text) => write!(f, ": {}", escaped(text)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Hex(number) => write!(f, "{number:016x}"),
            Self::Octal(number) => write!(f, "{number:04o}"),
            Self::Text(text) => write!(f, "{}", shown(text)),
            Self::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
            Self::Time(time) => write_time(f, time.seconds().cast_signed(), time.subsec_nanos()),
            Self::FileTime(time) => write_time(f, time.seconds(), time.subsec_nanos()),
        }
    }
}

/// As it is when it is one plain word, else in quotes, so that fields stay apart.
fn shown(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { format!("\"{}\"", escaped(text)) }
}

/// Without control characters: names on a disk are anybody's, and a terminal obeys them.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() || c == '"' { c.escape_debug().collect() } else { vec![c] }).collect()
}

/// Bytes as text that can be told apart from any other bytes: what is not UTF-8 stands as `\x..`.
#[must_use]
pub fn text_of(bytes: &[u8]) -> Value {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Value::Text(text)
}

/// `2026-11-21T10:30:00.123456789Z`.
fn write_time(f: &mut fmt::Formatter<'_>, seconds: i64, nanoseconds: u32) -> fmt::Result {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil((days + DAYS_BEFORE_1970).cast_unsigned());
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}Z")
}

/// Days from the first of January 1600 to that of 1970.
const DAYS_BEFORE_1970: i64 = 135_140;

/// Year, month and day of a day number since 1600: whole years first, then whole months. The times of 64 bits of
/// nanoseconds begin in 1677 or end in 2554, so the loop is short.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1600;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in months {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<FileTime> for Value {
    fn from(time: FileTime) -> Self {
        Self::FileTime(time)
    }
}

impl From<Time> for Value {
    fn from(time: Time) -> Self {
        Self::Time(time)
    }
}

macro_rules! numbers {
    ($variant:ident: $($kind:ty => |$value:ident| $number:expr),* $(,)?) => {
        $(impl From<$kind> for Value {
            fn from($value: $kind) -> Self {
                Self::$variant($number)
            }
        })*
    };
}

numbers!(Number: u64 => |n| n, u32 => |n| n.into(), u16 => |n| n.into(), u8 => |n| n.into(), Txg => |n| n.0,
    Lsn => |n| n.0, Dseq => |n| n.0, LaneId => |n| n.0, DatasetId => |n| n.0, tally_base::ObjectId => |n| n.0,
    VdevIndex => |n| n.0.into());
numbers!(Hex: PoolGuid => |n| n.0, VdevGuid => |n| n.0, tally_base::Generation => |n| n.0);

#[cfg(test)]
mod tests;
