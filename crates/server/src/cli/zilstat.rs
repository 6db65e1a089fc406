//! `tally zilstat`: what the intent log is given and writes, in the columns of the `zilstat` that people know, and
//! beside them what it never had: how many requests a frame serves, and where their wait goes.

use std::time::Duration;

use clap::Args;
use tally_base::Size;

use super::completion::Names;
use super::iostat::Plan;
use super::table::TableArgs;
use super::words::duration;
use crate::control::observation::{AccountReport, Observation};
use crate::control::report::LaneReport;
use crate::control::spread::{Quantiles, Spread};

/// Words of `zilstat`.
#[derive(Clone, Debug, Default, Args)]
pub struct ZilstatArgs {
    /// Seconds between lines, and how many lines; without them, one line about all since the start
    #[arg(value_name = "INTERVAL [COUNT]", num_args = 0..=2)]
    words: Vec<String>,

    /// Only this pool
    #[arg(short = 'p', long, value_name = "POOL", add = Names::Pool)]
    pool: Option<String>,

    /// Only this dataset: ops and sizes are then those of requests' records, not of frames
    #[arg(short = 'd', long, value_name = "DATASET", add = Names::Dataset)]
    dataset: Option<String>,

    /// Only this client, by address: ops and sizes are then those of requests' records, not of frames
    #[arg(short = 'c', long, value_name = "ADDRESS")]
    client: Option<String>,

    /// Only this lane of the log, by number
    #[arg(short = 'l', long, value_name = "LANE")]
    lane: Option<u64>,

    /// No header, and a single tab between fields
    #[arg(short = 'H')]
    plain: bool,

    /// Exact numbers: bytes and nanoseconds
    #[arg(long)]
    exact: bool,
}

/// Rates are the highest of pieces of an interval that are this long.
const PIECE: Duration = Duration::from_secs(1);

impl ZilstatArgs {
    /// When to look.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        Plan::parse(&self.words)
    }

    /// How to print.
    pub(super) fn style(&self) -> TableArgs {
        TableArgs { plain: self.plain, exact: self.exact }
    }

    /// The time between two looks.
    pub(super) fn piece(plan: &Plan) -> Duration {
        plan.interval.map_or(PIECE, |interval| interval.min(PIECE))
    }

    fn wants_lane(&self, pool: &str, lane: Option<u64>) -> bool {
        self.pool.as_ref().is_none_or(|wanted| wanted == pool) && (self.lane.is_none() || self.lane == lane)
    }

    fn wants(&self, account: &AccountReport) -> bool {
        self.wants_lane(&account.pool, account.lane)
            && self.dataset.as_ref().is_none_or(|wanted| *wanted == account.dataset)
            && self.client.as_ref().is_none_or(|wanted| *wanted == account.client)
    }

    /// Says what is wrong where nothing can ever match.
    pub(super) fn check(&self, seen: &Observation) -> Result<(), String> {
        if let Some(pool) = self.pool.as_ref().filter(|name| !seen.pools.iter().any(|pool| pool.name == **name)) {
            return Err(format!("no pool '{pool}' is imported; `tally pool list` shows those that are"));
        }
        if let Some(name) =
            self.dataset.as_ref().filter(|name| !seen.datasets.iter().any(|found| found.dataset.name == **name))
        {
            return Err(format!("there is no dataset '{name}'; `tally dataset list` shows those that are"));
        }
        let lanes = || seen.pools.iter().flat_map(|pool| &pool.lanes).map(|lane| lane.lane);
        if let Some(lane) = self.lane.filter(|wanted| !lanes().any(|lane| lane == *wanted)) {
            let known = lanes().map(|lane| lane.to_string()).collect::<Vec<_>>().join(", ");
            return Err(format!("there is no lane {lane} of the intent log; there are: {known}"));
        }
        if let Some(client) = self.client.as_ref().filter(|text| text.parse::<std::net::IpAddr>().is_err()) {
            return Err(format!("'{client}' is no address; `tally stat clients` shows those that have called"));
        }
        Ok(())
    }
}

/// Sums over what was asked for, since the start or in an interval.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct Sums {
    seconds: f64,
    /// Bytes of records.
    n_bytes: u64,
    /// Highest rate in a piece of the interval, bytes per second.
    n_max_rate: u64,
    /// Bytes written to the log.
    b_bytes: u64,
    b_max_rate: u64,
    /// Frames; of some clients or datasets only, their requests with records.
    ops: u64,
    ops_by_size: [u64; 3],
    /// Requests that waited for the log.
    commits: u64,
    /// Requests that waited for a transaction group.
    group_waits: u64,
    slot: Spread,
    device: Spread,
    reply: Spread,
}

/// With what a script would have to make of the distributions by itself.
#[derive(Debug, serde::Serialize)]
pub(super) struct WithQuantiles<'a> {
    #[serde(flatten)]
    sums: &'a Sums,
    slot_quantiles: Quantiles,
    device_quantiles: Quantiles,
    reply_quantiles: Quantiles,
}

impl Sums {
    /// As JSON has it.
    pub(super) fn with_quantiles(&self) -> WithQuantiles<'_> {
        WithQuantiles {
            sums: self,
            slot_quantiles: self.slot.quantiles(),
            device_quantiles: self.device.quantiles(),
            reply_quantiles: self.reply.quantiles(),
        }
    }

    /// Since the start.
    pub(super) fn of(seen: &Observation, args: &ZilstatArgs) -> Self {
        let mut sums = Self { seconds: seen.uptime_seconds, ..Self::default() };
        let by_payer = args.dataset.is_some() || args.client.is_some();
        for account in seen.accounts.iter().filter(|account| args.wants(account)) {
            sums.commits += account.commits;
            sums.group_waits += account.group_waits;
            sums.slot = sums.slot.with(&account.slot);
            sums.device = sums.device.with(&account.device);
            sums.reply = sums.reply.with(&account.reply);
            if by_payer {
                sums.add(account.record_bytes, account.frame_bytes, account.commits, account.commits_by_size);
            }
        }
        let lanes = seen.pools.iter().flat_map(|pool| pool.lanes.iter().map(|lane| (pool.name.as_str(), lane)));
        let wanted = lanes.filter(|(pool, lane)| !by_payer && args.wants_lane(pool, Some(lane.lane)));
        for LaneReport { record_bytes, bytes, frames, frames_by_size, .. } in wanted.map(|(_, lane)| lane) {
            sums.add(*record_bytes, *bytes, *frames, *frames_by_size);
        }
        sums
    }

    fn add(&mut self, n_bytes: u64, b_bytes: u64, ops: u64, by_size: [u64; 3]) {
        self.n_bytes += n_bytes;
        self.b_bytes += b_bytes;
        self.ops += ops;
        self.ops_by_size.iter_mut().zip(by_size).for_each(|(sum, more)| *sum += more);
    }

    /// What has come since `before`. A pool that was imported meanwhile counts from there.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut by_size = self.ops_by_size;
        by_size.iter_mut().zip(before.ops_by_size).for_each(|(sum, old)| *sum = sum.saturating_sub(old));
        Self {
            seconds: (self.seconds - before.seconds).max(0.001),
            n_bytes: self.n_bytes.saturating_sub(before.n_bytes),
            b_bytes: self.b_bytes.saturating_sub(before.b_bytes),
            ops: self.ops.saturating_sub(before.ops),
            ops_by_size: by_size,
            commits: self.commits.saturating_sub(before.commits),
            group_waits: self.group_waits.saturating_sub(before.group_waits),
            slot: self.slot.since(&before.slot),
            device: self.device.since(&before.device),
            reply: self.reply.since(&before.reply),
            ..Self::default()
        }
    }

    /// Raises the highest rates to those of a piece.
    pub(super) fn raise(&mut self, piece: &Self) {
        self.n_max_rate = self.n_max_rate.max(piece.rate(piece.n_bytes));
        self.b_max_rate = self.b_max_rate.max(piece.rate(piece.b_bytes));
    }

    /// Takes the highest rates of another look at the same interval.
    pub(super) fn with_rates_of(self, other: &Self) -> Self {
        Self { n_max_rate: other.n_max_rate, b_max_rate: other.b_max_rate, ..self }
    }

    fn rate(&self, bytes: u64) -> u64 {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rate = (bytes as f64 / self.seconds.max(0.001)).round() as u64;
        rate
    }

    /// One line. `watched`: it is about an interval, and not about all since the start, of which nobody knows the
    /// highest rate.
    pub(super) fn print(&self, args: &ZilstatArgs, watched: bool) -> String {
        let style = args.style();
        let size = |bytes: u64| if style.exact { bytes.to_string() } else { Size(bytes).to_string() };
        let peak = |rate: u64| if watched { size(rate) } else { "-".into() };
        let by_payer = args.dataset.is_some() || args.client.is_some();
        #[allow(clippy::cast_precision_loss)]
        let per_frame = match self.ops {
            0 => "-".into(),
            _ if by_payer => "-".into(),
            frames => format!("{:.2}", self.commits as f64 / frames as f64),
        };
        let [small, medium, large] = self.ops_by_size.map(|count| count.to_string());
        let counts = [
            size(self.n_bytes),
            size(self.rate(self.n_bytes)),
            peak(self.n_max_rate),
            size(self.b_bytes),
            size(self.rate(self.b_bytes)),
            peak(self.b_max_rate),
            self.ops.to_string(),
            small,
            medium,
            large,
            self.commits.to_string(),
            per_frame,
        ];
        let waits = [&self.slot, &self.device, &self.reply].map(Spread::quantiles);
        if style.plain {
            let waits = waits.iter().flat_map(|q| [q.p50_ns, q.p99_ns, q.max_ns]);
            let waits = waits.map(|ns| if style.exact { ns.to_string() } else { duration(ns) });
            return counts.into_iter().chain(waits).collect::<Vec<_>>().join("\t") + "\n";
        }
        let time = |ns: u64| if style.exact { ns.to_string() } else { duration(ns) };
        let wait = |q: &Quantiles| match q.count {
            0 => "-".to_owned(),
            _ => format!("{}/{}/{}", time(q.p50_ns), time(q.p99_ns), time(q.max_ns)),
        };
        line(&counts, &waits.each_ref().map(wait))
    }
}

/// Widths of the columns.
const WIDTHS: [usize; 12] = [10, 10, 10, 10, 10, 10, 7, 7, 6, 6, 8, 7];
const WAIT_WIDTH: usize = 21;

fn line(counts: &[String; 12], waits: &[String; 3]) -> String {
    let counts = counts.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$}"));
    let waits = waits.iter().map(|cell| format!("{cell:>WAIT_WIDTH$}"));
    counts.chain(waits).collect::<Vec<_>>().join(" ") + "\n"
}

/// The header.
pub(super) fn header() -> String {
    let counts = [
        "N-Bytes",
        "N-Bytes/s",
        "N-Max-Rate",
        "B-Bytes",
        "B-Bytes/s",
        "B-Max-Rate",
        "ops",
        "<=4kB",
        "4-32kB",
        ">=32kB",
        "commits",
        "c/frame",
    ];
    line(
        &counts.map(str::to_owned),
        &["slot p50/p99/max", "device p50/p99/max", "reply p50/p99/max"].map(str::to_owned),
    )
}

#[cfg(test)]
mod tests;
