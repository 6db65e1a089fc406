//! `tally stat`: what clients call, and what it costs them.

use clap::{Args, Subcommand};
use tally_base::Size;

use super::holdings::HeldArgs;
use super::table::{Align, Table, TableArgs};
use super::words::duration;
use crate::control::observation::{AccountReport, KindReport};
use crate::control::report::{OpReport, OpsReport, PoolReport};
use crate::control::spread::Quantiles;

/// What is counted.
#[derive(Debug, Subcommand)]
pub enum StatCommand {
    /// Calls by procedure, and operations of compounds: how many, and how long they worked and waited for the log (p50 and p99)
    Ops {
        #[command(flatten)]
        table: TableArgs,
    },
    /// What the block caches hold, by kind of block, and how often reads found it there
    Cache {
        #[command(flatten)]
        table: TableArgs,
    },
    /// What was fetched ahead of readers, how often they found it there, and what nobody came for
    Prefetch {
        #[command(flatten)]
        table: TableArgs,
    },
    /// What each client has asked for, and where its time went
    Clients(AccountArgs),
    /// What each dataset was asked for, and where the time went
    Exports(AccountArgs),
    /// Sessions of NFSv4 clients; `tally client list` shows the clients
    Sessions(HeldArgs),
    /// Files that NFSv4 clients have open: who, what for, and since when
    Opens(HeldArgs),
    /// Ranges of files that NFSv4 clients have locked
    Locks(HeldArgs),
}

/// Words of `stat clients` and `stat exports`.
#[derive(Clone, Debug, Default, Args)]
pub struct AccountArgs {
    /// Seconds between samples, and how many; without them, one about all since the start
    #[arg(value_name = "INTERVAL [COUNT]", num_args = 0..=2)]
    pub(super) words: Vec<String>,

    /// Each procedure with its stable_how, too, and whom it was called by or about
    #[arg(short)]
    pub(super) verbose: bool,

    #[command(flatten)]
    pub(super) table: TableArgs,
}

/// By what accounts are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Client,
    Export,
}

impl By {
    fn names(self, account: &AccountReport) -> (&str, &str) {
        match self {
            Self::Client => (&account.client, &account.dataset),
            Self::Export => (&account.dataset, &account.client),
        }
    }
}

/// One line for each client or dataset, whoever waited longest for stable storage first; `verbose`: below it one for
/// each of the others and each kind of call.
pub(super) fn accounts(accounts: &[AccountReport], by: By, args: &AccountArgs) -> String {
    let title = if by == By::Client { "CLIENT" } else { "EXPORT" };
    let numbers = ["CALLS", "ERRORS", "DATA", "TIME", "QUEUE", "WORK", "SLOT", "DEVICE", "GROUP", "REPLY", "SHARE"];
    let columns: Vec<_> =
        std::iter::once((title, Align::Left)).chain(numbers.map(|title| (title, Align::Right))).collect();
    let mut table = Table::new(&columns);
    let all = total(accounts.iter().flat_map(|account| &account.kinds));
    let mut names: Vec<&str> = accounts.iter().map(|account| by.names(account).0).collect();
    names.sort_unstable();
    names.dedup();
    let of_name =
        |name: &str| accounts.iter().filter(|account| by.names(account).0 == name).collect::<Vec<&AccountReport>>();
    let mut groups: Vec<(KindReport, &str)> = names
        .into_iter()
        .map(|name| (total(of_name(name).into_iter().flat_map(|account| &account.kinds)), name))
        .collect();
    groups.sort_by_key(|(sum, name)| (std::cmp::Reverse((sum.wait_ns(), sum.calls)), *name));
    for (sum, name) in groups {
        table.row(cells(name.to_owned(), &sum, &all, args.table));
        for account in of_name(name).into_iter().filter(|_| args.verbose) {
            let other = by.names(account).1;
            for kind in &account.kinds {
                table.row(cells(format!("  {other}  {}", kind.name()), kind, &all, args.table));
            }
        }
    }
    table.print(args.table)
}

fn total<'a>(kinds: impl Iterator<Item = &'a KindReport>) -> KindReport {
    kinds.fold(KindReport::default(), |mut sum, kind| {
        sum.add(kind);
        sum
    })
}

fn cells(name: String, sum: &KindReport, all: &KindReport, style: TableArgs) -> Vec<String> {
    let time = |ns: u64| if style.exact { ns.to_string() } else { duration(ns) };
    let data = if style.exact { sum.data_bytes.to_string() } else { Size(sum.data_bytes).to_string() };
    let times = [sum.time_ns(), sum.queue_ns, sum.work_ns, sum.slot_ns, sum.device_ns, sum.group_ns, sum.reply_ns];
    // Of all the waiting for stable storage: what this one costs the others.
    let share = u128::from(sum.wait_ns()) * 100 / u128::from(all.wait_ns().max(1));
    let name = if style.plain { name.trim_start().replace("  ", "\t") } else { name };
    let counts = [name, sum.calls.to_string(), sum.errors.to_string(), data];
    counts.into_iter().chain(times.map(time)).chain([format!("{share}%")]).collect()
}

/// One line for each procedure, below them one for each operation of compounds, and one for everything that modifies.
pub(super) fn ops(report: &OpsReport, style: TableArgs) -> String {
    let numbers = ["CALLS", "ERRORS", "WORK50", "WORK99", "WAIT50", "WAIT99"].map(|title| (title, Align::Right));
    let columns: Vec<_> = std::iter::once(("PROCEDURE", Align::Left)).chain(numbers).collect();
    let mut table = Table::new(&columns);
    let time = |ns: u64| if style.exact { ns.to_string() } else { duration(ns) };
    let operations = report.operations.iter().map(|op| (if style.plain { "compound " } else { "  " }, op));
    for (before, op) in report.procedures.iter().map(|op| ("", op)).chain(operations) {
        let mut cells = vec![format!("{before}{}", op_name(op)), op.calls.to_string(), op.errors.to_string()];
        cells.extend([op.execute, op.wait].iter().flat_map(|q| [time(q.p50_ns), time(q.p99_ns)]));
        table.row(cells);
    }
    let mut text = table.print(style);
    if !style.plain && report.whole.count > 0 {
        let line = |name: &str, q: Quantiles| {
            format!("{name}: p50 {}, p99 {}, max {}\n", duration(q.p50_ns), duration(q.p99_ns), duration(q.max_ns))
        };
        text += &format!("\n{} requests that modify, from last byte read to reply sent\n", report.whole.count);
        text += &line("  with the log's device", report.whole);
        text += &line("  without it", report.own);
    }
    if !style.plain {
        text += &beside(report);
    }
    text
}

/// What was counted beside procedures, if there was any of it.
fn beside(report: &OpsReport) -> String {
    let counts = [
        (report.panics, "operations ended in a bug of the server and were answered with an error; its log says where"),
        (report.refused, "calls were refused: unknown programs or procedures, garbage, bad credentials"),
        (report.retransmissions, "retransmitted requests were answered from memory"),
        (report.throttled, "requests were run again because too much was not in the pool yet"),
        (report.calls_made, "calls were made to clients of NFSv4"),
        (report.replies_unmatched, "replies came to no call that was made: clients that answer late, or lie"),
        (report.connections_refused, "connections were refused: there were too many"),
        (
            report.connections_dismissed,
            "connections were closed: they held too much, for too long, or a place that others needed",
        ),
    ];
    let lines: String =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// One line for each pool and kind of block.
pub(super) fn caches(pools: &[PoolReport], style: TableArgs) -> String {
    let numbers = ["BYTES", "HITS", "MISSES", "FOUND"].map(|title| (title, Align::Right));
    let columns: Vec<_> = [("POOL", Align::Left), ("KIND", Align::Left)].into_iter().chain(numbers).collect();
    let mut table = Table::new(&columns);
    for pool in pools {
        for cache in &pool.cache {
            let bytes = if style.exact { cache.bytes.to_string() } else { Size(cache.bytes).to_string() };
            let asked = u128::from(cache.hits) + u128::from(cache.misses);
            let found = format!("{}%", u128::from(cache.hits) * 100 / asked.max(1));
            let counts = [bytes, cache.hits.to_string(), cache.misses.to_string(), found];
            table.row([pool.name.clone(), cache.kind.clone()].into_iter().chain(counts).collect());
        }
    }
    table.print(style)
}

/// One line for each pool.
pub(super) fn prefetch(pools: &[PoolReport], style: TableArgs) -> String {
    let numbers = ["BYTES", "HITS", "MISSES", "FOUND", "UNREAD"].map(|title| (title, Align::Right));
    let columns: Vec<_> = std::iter::once(("POOL", Align::Left)).chain(numbers).collect();
    let mut table = Table::new(&columns);
    let size = |bytes: u64| if style.exact { bytes.to_string() } else { Size(bytes).to_string() };
    for pool in pools.iter().filter(|pool| pool.is_imported()) {
        let of = &pool.prefetch;
        let asked = u128::from(of.hits) + u128::from(of.misses);
        let found = format!("{}%", u128::from(of.hits) * 100 / asked.max(1));
        let counts = [size(of.bytes), of.hits.to_string(), of.misses.to_string(), found, size(of.unread_bytes)];
        table.row(std::iter::once(pool.name.clone()).chain(counts).collect());
    }
    table.print(style)
}

fn op_name(op: &OpReport) -> String {
    op.stable_how.as_ref().map_or_else(|| op.procedure.clone(), |how| format!("{} {how}", op.procedure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::report::{CacheReport, PrefetchReport};

    #[test]
    fn what_was_fetched_ahead_is_told_by_pool() {
        let prefetch = PrefetchReport { hits: 90, misses: 10, bytes: 11_796_480, unread_bytes: 131_072 };
        let pool = PoolReport { name: "tank".into(), state: "ONLINE".into(), prefetch, ..PoolReport::default() };
        let gone = PoolReport { state: PoolReport::UNAVAILABLE.into(), ..pool.clone() };
        let text = super::prefetch(&[pool, gone], TableArgs { plain: true, exact: true });
        assert_eq!(text, "tank\t11796480\t90\t10\t90%\t131072\n");
    }

    #[test]
    fn caches_are_told_by_kind() {
        let cache = CacheReport { kind: "leaves".into(), bytes: 3 << 20, hits: 97, misses: 3 };
        let pool = PoolReport { name: "tank".into(), cache: vec![cache], ..PoolReport::default() };
        let text = caches(&[pool], TableArgs { plain: true, exact: true });
        assert_eq!(text.lines().next(), Some("tank\tleaves\t3145728\t97\t3\t97%"));
    }

    #[test]
    fn who_waits_longest_comes_first() {
        let kind = |procedure: &str, how: Option<&str>, calls: u64| KindReport {
            procedure: procedure.into(),
            stable_how: how.map(str::to_owned),
            calls,
            data_bytes: 4096 * calls,
            work_ns: 10_000 * calls,
            device_ns: if how.is_some() { 90_000 * calls } else { 0 },
            ..KindReport::default()
        };
        let account = |client: &str, dataset: &str, kinds: Vec<KindReport>| AccountReport {
            client: client.into(),
            dataset: dataset.into(),
            kinds,
            ..AccountReport::default()
        };
        let all = [
            account("10.0.0.1", "tank", vec![kind("READ", None, 100)]),
            account("10.0.0.2", "tank", vec![kind("WRITE", Some("FILE_SYNC"), 30)]),
            account("10.0.0.2", "tank/home", vec![kind("WRITE", Some("FILE_SYNC"), 10)]),
        ];
        let args = AccountArgs { verbose: true, ..AccountArgs::default() };
        let expected = "\
EXPORT                       CALLS  ERRORS  DATA    TIME  QUEUE   WORK  SLOT  DEVICE  GROUP  REPLY  SHARE
tank                           130       0  520K  4.00ms    0ns  1.30ms   0ns  2.70ms    0ns    0ns    75%
";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = accounts(&all, By::Export, &args);
        assert_eq!(squeeze(&text.lines().take(2).collect::<Vec<_>>().join(" ")), squeeze(expected));
        let names: Vec<String> =
            text.lines().map(|line| line.chars().take(30).collect::<String>()).map(|line| squeeze(&line)).collect();
        assert!(names[3].starts_with("10.0.0.2 WRITE FILE_SYNC"), "{text}");
        let plain = AccountArgs { table: TableArgs { plain: true, exact: true }, ..AccountArgs::default() };
        let text = accounts(&all, By::Client, &plain);
        assert_eq!(text.lines().next(), Some("10.0.0.2\t40\t0\t163840\t4000000\t0\t400000\t0\t3600000\t0\t0\t100%"));
    }

    #[test]
    fn procedures_are_lines() {
        let q = |p50_ns, p99_ns| Quantiles { count: 7, p50_ns, p99_ns, max_ns: p99_ns };
        let op = OpReport {
            procedure: "CREATE".into(),
            stable_how: None,
            calls: 7,
            errors: 1,
            data_bytes: 0,
            execute: q(9_000, 20_000),
            wait: q(90_000, 4_000_000),
        };
        let putfh = OpReport { procedure: "putfh".into(), calls: 9, execute: q(300, 900), ..OpReport::default() };
        let report = OpsReport {
            procedures: vec![op],
            operations: vec![putfh],
            whole: q(99_000, 4_020_000),
            ..OpsReport::default()
        };
        let expected = "\
PROCEDURE  CALLS  ERRORS  WORK50  WORK99  WAIT50  WAIT99
CREATE         7       1  9.00us  20.0us  90.0us  4.00ms
  putfh        9       0   300ns   900ns     0ns     0ns

7 requests that modify, from last byte read to reply sent
  with the log's device: p50 99.0us, p99 4.02ms, max 4.02ms
  without it: p50 0ns, p99 0ns, max 0ns
";
        assert_eq!(ops(&report, TableArgs::default()), expected);
        let plain = ops(&report, TableArgs { plain: true, exact: true });
        assert_eq!(plain, "CREATE\t7\t1\t9000\t20000\t90000\t4000000\ncompound putfh\t9\t0\t300\t900\t0\t0\n");
        // These were counted and shown nowhere.
        let (calls_made, replies_unmatched) = (12, 5);
        let report =
            OpsReport { panics: 3, connections_refused: 70, calls_made, replies_unmatched, ..OpsReport::default() };
        let text = ops(&report, TableArgs::default());
        assert!(
            text.contains("\n3 operations ended in a bug") && text.contains("\n70 connections were refused"),
            "{text}"
        );
    }
}
