//! `tally stat`: what clients call, and what it costs them.

use clap::Subcommand;

use super::args::TableArgs;
use super::table::{Align, Table};
use crate::control::report::{OpsReport, Quantiles};

/// What is counted.
#[derive(Debug, Subcommand)]
pub enum StatCommand {
    /// Calls by procedure: how many, and how long they worked and waited for the log (p50 and p99)
    Ops {
        #[command(flatten)]
        table: TableArgs,
    },
}

/// One line for each procedure, and one for everything that modifies.
pub(super) fn ops(report: &OpsReport, style: TableArgs) -> String {
    let numbers = ["CALLS", "ERRORS", "WORK50", "WORK99", "WAIT50", "WAIT99"].map(|title| (title, Align::Right));
    let columns: Vec<_> = std::iter::once(("PROCEDURE", Align::Left)).chain(numbers).collect();
    let mut table = Table::new(&columns);
    let time = |ns: u64| if style.exact { ns.to_string() } else { duration(ns) };
    for op in &report.procedures {
        let mut cells = vec![op.procedure.clone(), op.calls.to_string(), op.errors.to_string()];
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
    text
}

/// Three digits and a unit.
pub(super) fn duration(ns: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let value = ns as f64;
    let (scaled, unit) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (value / 1e3, "us"),
        1_000_000..1_000_000_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::report::OpReport;

    #[test]
    fn durations_have_three_digits() {
        let cases = [(999, "999ns"), (1_234, "1.23us"), (45_678, "45.7us"), (456_789, "457us"), (8_000_000, "8.00ms")];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn procedures_are_lines() {
        let q = |p50_ns, p99_ns| Quantiles { count: 7, p50_ns, p99_ns, max_ns: p99_ns };
        let op = OpReport {
            procedure: "CREATE".into(),
            calls: 7,
            errors: 1,
            execute: q(9_000, 20_000),
            wait: q(90_000, 4_000_000),
        };
        let report = OpsReport { procedures: vec![op], whole: q(99_000, 4_020_000), ..OpsReport::default() };
        let expected = "\
PROCEDURE  CALLS  ERRORS  WORK50  WORK99  WAIT50  WAIT99
CREATE         7       1  9.00us  20.0us  90.0us  4.00ms

7 requests that modify, from last byte read to reply sent
  with the log's device: p50 99.0us, p99 4.02ms, max 4.02ms
  without it: p50 0ns, p99 0ns, max 0ns
";
        assert_eq!(ops(&report, TableArgs::default()), expected);
        let plain = ops(&report, TableArgs { plain: true, exact: true });
        assert_eq!(plain, "CREATE\t7\t1\t9000\t20000\t90000\t4000000\n");
    }
}
