//! `tally arcstat`: how often reads found their blocks in memory, in the columns of the `arcstat` that people know, by kind of block. All pools together.

use clap::Args;
use tally_base::Size;

use super::columns::{Column, Columns, columns};
use super::iostat::Plan;
use super::table::Align;
use crate::control::report::PoolReport;
use crate::dates::utc;

/// Words of `arcstat`.
#[derive(Clone, Debug, Args)]
pub struct ArcstatArgs {
    /// Seconds between lines, and how many lines; without them, one line about all since the import
    #[arg(value_name = "INTERVAL [COUNT]", num_args = 0..=2)]
    words: Vec<String>,
    /// Fields, separated by commas; -v tells them
    #[arg(short = 'f', value_name = "FIELD,...", value_parser = columns::<Field>, default_value = DEFAULT_FIELDS, conflicts_with = "all")]
    fields: Columns<Field>,
    /// All fields
    #[arg(short = 'a')]
    all: bool,
    /// Exact numbers
    #[arg(short = 'p')]
    exact: bool,
    /// Between fields
    #[arg(short = 's', value_name = "SEPARATOR", default_value = "  ")]
    separator: String,
    /// Tell the fields, and no numbers
    #[arg(short = 'v')]
    pub(super) verbose: bool,
}

const DEFAULT_FIELDS: &str = "time,read,miss,miss%,dmis,dm%,mmis,mm%,size,c";

/// What can be shown.
const FIELDS: [(&str, &str); 22] = [
    ("time", "time of day, UTC"),
    ("read", "blocks that were asked for, per second; without an interval, since the import"),
    ("hits", "those that were in memory"),
    ("hit%", "the part of them that was"),
    ("miss", "those that were read from a disk"),
    ("miss%", "the part of them that was"),
    ("dread", "blocks of files"),
    ("dhit", "those that were in memory"),
    ("dh%", "the part of them that was"),
    ("dmis", "those that were read from a disk"),
    ("dm%", "the part of them that was"),
    ("dsize", "bytes of them in memory"),
    ("mread", "blocks of trees, and replies"),
    ("mhit", "those that were in memory"),
    ("mh%", "the part of them that was"),
    ("mmis", "those that were read from a disk"),
    ("mm%", "the part of them that was"),
    ("msize", "bytes of them in memory"),
    ("size", "bytes in memory"),
    ("arcsz", "the same"),
    ("c", "the most that there may be"),
    ("free", "what is left of that"),
];

/// One of [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field(&'static str);

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Of files, and of all else: hits, misses, bytes in memory.
    data: [u64; 3],
    meta: [u64; 3],
    bytes_max: u64,
}

impl Counts {
    /// Since the import.
    pub(super) fn of(pools: &[PoolReport]) -> Self {
        let mut all = Self::default();
        for pool in pools {
            all.bytes_max += pool.cache_bytes_max;
            for kind in &pool.cache {
                let sums = if kind.kind == "data" { &mut all.data } else { &mut all.meta };
                sums.iter_mut().zip([kind.hits, kind.misses, kind.bytes]).for_each(|(sum, more)| *sum += more);
            }
        }
        all
    }

    /// What has come since; what is in memory is as it is now.
    fn since(self, before: Self) -> Self {
        let less =
            |now: [u64; 3], old: [u64; 3]| [now[0].saturating_sub(old[0]), now[1].saturating_sub(old[1]), now[2]];
        Self { data: less(self.data, before.data), meta: less(self.meta, before.meta), ..self }
    }
}

/// A line: what was counted, and in how many seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    counts: Counts,
    seconds: f64,
    time: u64,
}

impl ArcstatArgs {
    /// When to look.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        Plan::parse(&self.words)
    }

    /// All fields, with what they mean.
    pub(super) fn told() -> String {
        FIELDS.iter().map(|(name, what)| format!("{name:>6}  {what}\n")).collect()
    }

    fn shown(&self) -> Vec<Field> {
        if self.all { FIELDS.iter().map(|(name, _)| Field(name)).collect() } else { self.fields.0.clone() }
    }

    /// The header.
    pub(super) fn header(&self) -> String {
        self.join(self.shown().iter().map(|field| field.0.to_owned()))
    }

    /// What has come since `before`, in so many seconds; with none, all since the import.
    pub(super) fn line(&self, now: Counts, before: Option<Counts>, seconds: f64, time: u64) -> String {
        let line = match before {
            None => Line { counts: now, seconds: 1.0, time },
            Some(before) => Line { counts: now.since(before), seconds, time },
        };
        self.join(self.shown().iter().map(|field| field.cell(&line, self.exact)))
    }

    fn join(&self, cells: impl Iterator<Item = String>) -> String {
        let widths = self.shown();
        let cells = cells.zip(&widths).map(|(cell, field)| format!("{cell:>width$}", width = field.width()));
        cells.collect::<Vec<_>>().join(&self.separator) + "\n"
    }
}

impl Field {
    const fn width(self) -> usize {
        if matches!(self.0.as_bytes(), b"time") { 8 } else { 5 }
    }
}

impl Column for Field {
    type Row = Line;

    const NAMES: &'static [&'static str] = &[
        "time", "read", "hits", "hit%", "miss", "miss%", "dread", "dhit", "dh%", "dmis", "dm%", "dsize", "mread",
        "mhit", "mh%", "mmis", "mm%", "msize", "size", "arcsz", "c", "free",
    ];

    fn of_name(name: &str) -> Option<Result<Self, String>> {
        FIELDS.iter().find(|(known, _)| *known == name).map(|(known, _)| Ok(Self(known)))
    }

    fn title(&self) -> (String, Align) {
        (self.0.into(), Align::Right)
    }

    fn cell(&self, line: &Line, is_exact: bool) -> String {
        let Counts { data, meta, bytes_max } = line.counts;
        let all = [data[0] + meta[0], data[1] + meta[1], data[2] + meta[2]];
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rate = |count: u64| (count as f64 / line.seconds.max(0.001)).round() as u64;
        let count = |count: u64| if is_exact { rate(count).to_string() } else { super::status::count(rate(count)) };
        let size = |bytes: u64| if is_exact { bytes.to_string() } else { Size(bytes).to_string() };
        let percent =
            |part: u64, of: [u64; 3]| (u128::from(part) * 100 / u128::from((of[0] + of[1]).max(1))).to_string();
        let (of, rest) = match self.0.split_at(1) {
            ("d", rest) => (data, rest),
            ("m", rest) if !self.0.starts_with("miss") => (meta, rest),
            _ => (all, self.0),
        };
        match rest {
            "time" => utc(line.time)
                .split(' ')
                .next_back()
                .map_or_else(String::new, |clock| format!("{clock}:{:02}", line.time % 60)),
            "read" => count(of[0] + of[1]),
            "hits" | "hit" => count(of[0]),
            "hit%" | "h%" => percent(of[0], of),
            "miss" | "mis" => count(of[1]),
            "miss%" | "m%" => percent(of[1], of),
            "size" | "arcsz" => size(of[2]),
            "c" => size(bytes_max),
            _ => size(bytes_max.saturating_sub(of[2])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::report::CacheReport;

    fn pools(hits: u64) -> Vec<PoolReport> {
        let kind = |kind: &str, hits, misses, bytes| CacheReport { kind: kind.into(), hits, misses, bytes };
        let cache = vec![kind("data", hits, 10, 4096), kind("leaves", 3, 1, 1 << 20), kind("nodes", 0, 0, 0)];
        vec![PoolReport { cache, cache_bytes_max: 8 << 20, ..PoolReport::default() }]
    }

    #[test]
    fn every_field_is_named_once_and_has_a_value() {
        assert_eq!(Field::NAMES, FIELDS.map(|(name, _)| name));
        let line = Line { counts: Counts::of(&pools(90)), seconds: 1.0, time: 0 };
        let cells: Vec<_> =
            FIELDS.iter().map(|(name, _)| format!("{name}={}", Field(name).cell(&line, true))).collect();
        let expected = "time=00:00:00 read=104 hits=93 hit%=89 miss=11 miss%=10 dread=100 dhit=90 dh%=90 dmis=10 dm%=10 dsize=4096 \
                        mread=4 mhit=3 mh%=75 mmis=1 mm%=25 msize=1048576 size=1052672 arcsz=1052672 c=8388608 free=7335936";
        assert_eq!(cells.join(" "), expected);
    }

    #[test]
    fn an_interval_is_told_per_second() {
        let (before, now) = (Counts::of(&pools(90)), Counts::of(&pools(290)));
        let line = Line { counts: now.since(before), seconds: 2.0, time: 0 };
        assert_eq!(
            ["read", "dhit", "dmis", "mread"].map(|name| Field(name).cell(&line, true)),
            ["100", "100", "0", "0"]
        );
        assert_eq!(Field("dsize").cell(&line, true), "4096");
    }
}
