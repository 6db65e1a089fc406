//! `tally pool iostat`: reads and writes, first the average since import, then of each interval. With `-l` how long
//! they took, with `-q` how many there are now, with `-w` how their times are distributed.

mod doublings;
mod latency;
mod sizes;

use std::time::Duration;

use clap::Args;
use tally_base::Size;

use super::table::TableArgs;
use super::words::harmless;
use crate::control::report::{IoActive, IoCounters, IoSizes, IoTimes, PoolReport, VdevReport};

/// What the words of the command ask for: `[POOL...] [INTERVAL [COUNT]]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) names: Vec<String>,
    /// Time between samples; `None` for a single one.
    pub(super) interval: Option<Duration>,
    /// Samples; `None` until interrupted.
    pub(super) count: Option<u64>,
}

impl Plan {
    /// Reads the words: numbers at the end are interval and count, as in `zpool iostat`. A pool's name starts
    /// with a letter, so the two cannot be confused.
    pub(super) fn parse(words: &[String]) -> Result<Self, String> {
        let is_number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let names_end = words.iter().position(is_number).unwrap_or(words.len());
        let (names, numbers) = words.split_at(names_end);
        let mut plan = Self { names: names.to_vec(), interval: None, count: Some(1) };
        match numbers {
            [] => {}
            [interval] => (plan.interval, plan.count) = (Some(seconds(interval)?), None),
            [interval, count] => {
                let count = count.parse().ok().filter(|&count| count > 0);
                plan.interval = Some(seconds(interval)?);
                plan.count = Some(count.ok_or("the count of samples is a whole number above 0")?);
            }
            _ => return Err("behind the pools come at most an interval and a count".into()),
        }
        Ok(plan)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: Option<f64> = text.parse().ok().filter(|seconds| (0.01..1e6).contains(seconds));
    value.map(Duration::from_secs_f64).ok_or_else(|| format!("'{text}' is no interval: write seconds, like 1 or 0.5"))
}

/// What is shown, and how.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct IostatArgs {
    /// Each disk, too
    #[arg(short)]
    pub(super) verbose: bool,

    /// How long requests took on average: of the disk's reads, writes, durable writes (the log's and the labels') and
    /// flushes
    #[arg(short)]
    pub(super) latency: bool,

    /// How many requests the disk has at this moment, and how many records wait for a frame of the log
    #[arg(short)]
    pub(super) queues: bool,

    /// Print histograms of the same times instead, in steps of doubled length
    #[arg(short = 'w', conflicts_with_all = ["latency", "queues"])]
    pub(super) histograms: bool,

    /// Print histograms of how long the requests were, in bytes, in steps of doubled length
    #[arg(short = 'r', conflicts_with_all = ["latency", "queues", "histograms"])]
    pub(super) sizes: bool,

    /// Without the first sample, which is about all since import
    #[arg(short = 'y')]
    pub(super) skip_first: bool,

    /// As without it: the header is printed once
    #[arg(short = 'n', hide = true)]
    once: bool,

    #[command(flatten)]
    pub(super) table: TableArgs,
}

impl IostatArgs {
    /// Whether histograms are printed, and no lines below a header.
    pub(super) const fn has_histograms(self) -> bool {
        self.histograms || self.sizes
    }
}

/// The header.
pub(super) fn header(name_width: usize, args: IostatArgs) -> String {
    let mut columns = vec!["alloc", "free", "read", "write", "read", "write"];
    let mut above = ["capacity", "operations", "bandwidth"].map(|title| format!("{title:^16}")).to_vec();
    if args.latency {
        above.push(format!("{:^34}", "disk wait"));
        columns.extend(latency::KINDS);
    }
    if args.queues {
        above.push(format!("{:^43}", "active, and pending for the log"));
        columns.extend(latency::KINDS.iter().chain(&["pend"]));
    }
    let columns = columns.iter().map(|title| format!("{title:>7}")).collect::<Vec<_>>().join("  ");
    let lines = format!("{:name_width$}  {}\n{:<name_width$}  {columns}\n", "", above.join("  "), "pool");
    lines.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Width of the first column.
pub(super) fn name_width(pools: &[PoolReport], verbose: bool) -> usize {
    let lines = pools.iter().flat_map(|pool| lines(pool, verbose));
    lines.map(|line| line.name.chars().count()).max().unwrap_or(0).max("pool".len())
}

/// One sample: the difference between `now` and `before` over the time between them; without `before`, the
/// average since import.
pub(super) fn sample(now: &[PoolReport], before: Option<&[PoolReport]>, args: IostatArgs, name_width: usize) -> String {
    let mut text = String::new();
    for pool in now {
        let earlier = before.and_then(|pools| pools.iter().find(|old| old.guid == pool.guid));
        let since = earlier.map_or(0.0, |old| old.imported_seconds);
        // Imported again in between: its counters started anew.
        let earlier = earlier.filter(|old| old.imported_seconds < pool.imported_seconds);
        let elapsed = (pool.imported_seconds - if earlier.is_some() { since } else { 0.0 }).max(0.001);
        let old_lines = earlier.map(|old| lines(old, args.verbose)).unwrap_or_default();
        for line in lines(pool, args.verbose) {
            let old = old_lines.iter().find(|old| old.name == line.name);
            text += &match (args.histograms, args.sizes) {
                (true, _) => latency::histogram(&line.name, &line.times_since(old), args.table),
                (_, true) => sizes::histogram(&line.name, &line.sizes_since(old), args.table),
                _ => line.print(old, elapsed, args, name_width),
            };
        }
    }
    text
}

/// A pool, a vdev or a leg.
struct Line {
    name: String,
    space: Option<(u64, u64)>,
    io: IoCounters,
    times: IoTimes,
    sizes: IoSizes,
    active: IoActive,
    /// Records that wait for a frame of the log.
    pending: u64,
}

fn lines(pool: &PoolReport, verbose: bool) -> Vec<Line> {
    let mut all = vec![Line {
        name: pool.name.clone(),
        space: Some((pool.allocated, pool.free)),
        io: pool.io,
        times: pool.vdevs.iter().fold(IoTimes::default(), |sum, vdev| sum.with(&vdev.times)),
        sizes: pool.vdevs.iter().fold(IoSizes::default(), |sum, vdev| sum.with(&vdev.sizes)),
        active: pool.vdevs.iter().fold(IoActive::default(), |sum, vdev| sum.with(vdev.active)),
        pending: pool.lanes.iter().map(|lane| lane.pending).sum(),
    }];
    if verbose {
        pool.vdevs.iter().for_each(|vdev| add(&mut all, pool, vdev, 1));
    }
    all
}

fn add(all: &mut Vec<Line>, pool: &PoolReport, vdev: &VdevReport, depth: usize) {
    let mark = if depth == 1 && vdev.class == "log" { " (log)" } else { "" };
    all.push(Line {
        name: format!("{}{}{mark}", "  ".repeat(depth), harmless(&vdev.name)),
        space: vdev.space.map(|space| (space.allocated, space.free)),
        io: vdev.io,
        times: vdev.times.clone(),
        sizes: vdev.sizes.clone(),
        active: vdev.active,
        pending: pool.lanes.iter().filter(|lane| lane.vdev == vdev.name).map(|lane| lane.pending).sum(),
    });
    vdev.children.iter().for_each(|child| add(all, pool, child, depth + 1));
}

impl Line {
    fn times_since(&self, old: Option<&Self>) -> IoTimes {
        old.map_or_else(|| self.times.clone(), |old| self.times.since(&old.times))
    }

    fn sizes_since(&self, old: Option<&Self>) -> IoSizes {
        old.map_or_else(|| self.sizes.clone(), |old| self.sizes.since(&old.sizes))
    }

    fn print(&self, before: Option<&Self>, elapsed: f64, args: IostatArgs, name_width: usize) -> String {
        let (style, old) = (args.table, before.map(|before| before.io).unwrap_or_default());
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rate = |new: u64, old: u64| (new.saturating_sub(old) as f64 / elapsed).round() as u64;
        let size = |bytes: u64| if style.exact { bytes.to_string() } else { Size(bytes).to_string() };
        let operations = |count| if style.exact { u64::to_string(&count) } else { super::status::count(count) };
        let (allocated, free) = match self.space {
            Some((allocated, free)) => (size(allocated), size(free)),
            None => ("-".into(), "-".into()),
        };
        let mut cells = vec![
            allocated,
            free,
            operations(rate(self.io.read_ops, old.read_ops)),
            operations(rate(self.io.write_ops, old.write_ops)),
            size(rate(self.io.read_bytes, old.read_bytes)),
            size(rate(self.io.write_bytes, old.write_bytes)),
        ];
        if args.latency {
            cells.extend(latency::averages(&self.times_since(before), style));
        }
        if args.queues {
            cells.extend(latency::active(self.active).map(|count| count.to_string()));
            cells.push(self.pending.to_string());
        }
        if style.plain {
            return format!("{}\t{}\n", self.name.trim_start(), cells.join("\t"));
        }
        let cells = cells.iter().map(|cell| format!("{cell:>7}")).collect::<Vec<_>>().join("  ");
        format!("{:<name_width$}  {cells}\n", self.name)
    }
}

#[cfg(test)]
mod tests;
