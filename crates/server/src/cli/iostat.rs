//! `tally pool iostat`: reads and writes, first the average since import, then of each interval.

use std::time::Duration;

use tally_base::Size;

use super::args::TableArgs;
use crate::control::report::{IoCounters, PoolReport, VdevReport};

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

/// The header.
pub(super) fn header(name_width: usize) -> String {
    let columns = ["alloc", "free", "read", "write", "read", "write"];
    let columns = columns.map(|title| format!("{title:>7}")).join("  ");
    format!(
        "{:name_width$}  {:^16}  {:^16}  {:^16}\n{:<name_width$}  {columns}\n",
        "", "capacity", "operations", "bandwidth", "pool"
    )
    .lines()
    .map(|line| line.trim_end().to_owned() + "\n")
    .collect()
}

/// Width of the first column.
pub(super) fn name_width(pools: &[PoolReport], verbose: bool) -> usize {
    let lines = pools.iter().flat_map(|pool| lines(pool, verbose));
    lines.map(|line| line.name.chars().count()).max().unwrap_or(0).max("pool".len())
}

/// One sample: the difference between `now` and `before` over the time between them; without `before`, the
/// average since import.
pub(super) fn sample(
    now: &[PoolReport],
    before: Option<&[PoolReport]>,
    verbose: bool,
    style: TableArgs,
    name_width: usize,
) -> String {
    let mut text = String::new();
    for pool in now {
        let earlier = before.and_then(|pools| pools.iter().find(|old| old.guid == pool.guid));
        let since = earlier.map_or(0.0, |old| old.imported_seconds);
        // Imported again in between: its counters started anew.
        let earlier = earlier.filter(|old| old.imported_seconds < pool.imported_seconds);
        let elapsed = (pool.imported_seconds - if earlier.is_some() { since } else { 0.0 }).max(0.001);
        let old_lines = earlier.map(|old| lines(old, verbose)).unwrap_or_default();
        for line in lines(pool, verbose) {
            let old = old_lines.iter().find(|old| old.name == line.name).map(|old| old.io).unwrap_or_default();
            text += &line.print(old, elapsed, style, name_width);
        }
    }
    text
}

/// A pool, a vdev or a leg.
struct Line {
    name: String,
    space: Option<(u64, u64)>,
    io: IoCounters,
}

fn lines(pool: &PoolReport, verbose: bool) -> Vec<Line> {
    let mut all = vec![Line { name: pool.name.clone(), space: Some((pool.allocated, pool.free)), io: pool.io }];
    if verbose {
        pool.vdevs.iter().for_each(|vdev| add(&mut all, vdev, 1));
    }
    all
}

fn add(all: &mut Vec<Line>, vdev: &VdevReport, depth: usize) {
    let mark = if depth == 1 && vdev.class == "log" { " (log)" } else { "" };
    all.push(Line {
        name: format!("{}{}{mark}", "  ".repeat(depth), vdev.name),
        space: vdev.space.map(|space| (space.allocated, space.free)),
        io: vdev.io,
    });
    vdev.children.iter().for_each(|child| add(all, child, depth + 1));
}

impl Line {
    fn print(&self, old: IoCounters, elapsed: f64, style: TableArgs, name_width: usize) -> String {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rate = |new: u64, old: u64| (new.saturating_sub(old) as f64 / elapsed).round() as u64;
        let size = |bytes: u64| if style.exact { bytes.to_string() } else { Size(bytes).to_string() };
        let operations = |count| if style.exact { u64::to_string(&count) } else { super::status::count(count) };
        let (allocated, free) = match self.space {
            Some((allocated, free)) => (size(allocated), size(free)),
            None => ("-".into(), "-".into()),
        };
        let cells = [
            allocated,
            free,
            operations(rate(self.io.read_ops, old.read_ops)),
            operations(rate(self.io.write_ops, old.write_ops)),
            size(rate(self.io.read_bytes, old.read_bytes)),
            size(rate(self.io.write_bytes, old.write_bytes)),
        ];
        if style.plain {
            return format!("{}\t{}\n", self.name.trim_start(), cells.join("\t"));
        }
        format!("{:<name_width$}  {}\n", self.name, cells.map(|cell| format!("{cell:>7}")).join("  "))
    }
}

#[cfg(test)]
mod tests;
