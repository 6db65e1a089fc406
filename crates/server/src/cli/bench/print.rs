//! Results as tables: the rates, what the disks did for them, and the verdict, which is never left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tally_base::Size;
use tally_bench::referee::Verdict;
use tally_bench::report::{Figure, Group, Report, Row};

use crate::cli::status::count;
use crate::cli::table::TableArgs;
use crate::cli::table::{Align, Table};
use crate::cli::words::duration;

const RATES: [(&str, Align); 7] = [
    ("PART", Align::Left),
    ("UNIT", Align::Left),
    ("MEDIAN", Align::Right),
    ("LOWEST", Align::Right),
    ("HIGHEST", Align::Right),
    ("P50", Align::Right),
    ("P99", Align::Right),
];
const WORK: [(&str, Align); 9] = [
    ("PART", Align::Left),
    ("PROMISES", Align::Right),
    ("EVENTS", Align::Right),
    ("PROMISED", Align::Right),
    ("LOG", Align::Right),
    ("FRAMES", Align::Right),
    ("POOL", Align::Right),
    ("WRITES", Align::Right),
    ("FLUSHES", Align::Right),
];

/// One result.
pub(super) fn report(report: &Report, style: TableArgs) -> String {
    if style.plain {
        return plain(report, style);
    }
    let mut text = format!("{}, as {}, of {}\n", report.case, report.whose, report.target);
    if !report.figures.is_empty() {
        let (mut rates, mut work) = (Table::new(&RATES), Table::new(&WORK));
        for figure in &report.figures {
            rates.row(rate_cells(figure, style));
            work.row(work_cells(figure, style));
        }
        text += &format!("\n{}\n{}", rates.print(style), work.print(style));
    }
    text + "\n" + &verdict(report)
}

/// For scripts: one line for each part, the verdict at its end.
fn plain(report: &Report, style: TableArgs) -> String {
    let line = |figure: &Figure| {
        let mut cells = rate_cells(figure, style);
        cells.extend(work_cells(figure, style).into_iter().skip(1));
        cells.push(report.verdict_words());
        cells.join("\t") + "\n"
    };
    match report.figures.as_slice() {
        [] => report.verdict_words() + "\n",
        figures => figures.iter().map(line).collect(),
    }
}

fn rate_cells(figure: &Figure, style: TableArgs) -> Vec<String> {
    let time = |ns: u64| if style.exact { ns.to_string() } else { duration(ns) };
    let mut cells = vec![figure.name.clone(), figure.unit.clone()];
    cells.extend([figure.median, figure.lowest, figure.highest].map(|value| rate(value, style)));
    cells.extend([figure.p50_ns, figure.p99_ns].map(time));
    cells
}

/// Three digits that matter.
fn rate(value: f64, style: TableArgs) -> String {
    match value {
        _ if style.exact => format!("{value}"),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Events belong to the time until the last reply, bytes and operations to all that followed from it.
fn work_cells(figure: &Figure, style: TableArgs) -> Vec<String> {
    let number = |value: u64| if style.exact { value.to_string() } else { count(value) };
    let bytes = |value: u64| if style.exact { value.to_string() } else { Size(value).to_string() };
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".into());
    let (work, settled) = (figure.work, figure.settled);
    let log = settled.and_then(|work| work.log);
    vec![
        figure.name.clone(),
        number(figure.promises),
        or_dash(work.map(|work| number(work.durable_events))),
        bytes(figure.promised_bytes),
        or_dash(log.map(|log| bytes(log.bytes))),
        or_dash(log.map(|log| number(log.frames))),
        or_dash(settled.map(|work| bytes(work.pool_bytes()))),
        or_dash(settled.map(|work| number(work.writes))),
        or_dash(settled.map(|work| number(work.flushes))),
    ]
}

fn verdict(report: &Report) -> String {
    let kinds = report.runs.iter().filter_map(|run| run.findings.as_ref()).map(|findings| &findings.kinds);
    let kinds = kinds.map(|kinds| kinds.iter().filter(|kind| kind.is_judged()).count()).max().unwrap_or(0);
    let watched = report.watched.as_deref().unwrap_or("nobody's counters");
    let mut text = match &report.verdict {
        Verdict::Honest => {
            format!("HONEST: {kinds} kinds of lone requests, each with a durable write or a flush before its reply\n")
        }
        Verdict::NotDurable { kinds } => format!(
            "NOT DURABLE: the reply came before what it promises was written and flushed\n{}",
            kinds.iter().map(|kind| format!("  {kind}\n")).collect::<String>()
        ),
        Verdict::Unverified { reason } => format!("UNVERIFIED: {reason}\n"),
    };
    // Writing to a string cannot fail.
    for (name, refused) in refusals(report) {
        let _ = writeln!(text, "not judged: {name} ({refused})");
    }
    for figure in report.figures.iter().filter(|figure| figure.collapsed) {
        let reached = Size(figure.settled.map_or(0, |work| work.write_bytes));
        let promised = Size(figure.promised_bytes);
        let _ = writeln!(text, "COLLAPSED: {}: {promised} were promised, and {reached} reached the disks", figure.name);
    }
    text + &format!("watched: {watched}\n")
}

/// Kinds that the server does not do, with what it says of each.
fn refusals(report: &Report) -> BTreeMap<&str, &str> {
    let kinds = report.runs.iter().filter_map(|run| run.findings.as_ref()).flat_map(|findings| &findings.kinds);
    let refused = kinds.filter(|kind| !kind.is_judged());
    refused.filter_map(|kind| Some((kind.name.as_str(), kind.refused.as_deref()?))).collect()
}

/// Groups of the same work, each ranked; below those of whom it is not known that they keep their word.
pub(super) fn comparison(groups: &[Group<'_>], style: TableArgs) -> String {
    groups.iter().map(|group| one_group(group, style)).collect::<Vec<_>>().join(if style.plain { "" } else { "\n" })
}

fn one_group(group: &Group<'_>, style: TableArgs) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        ("SERVER", left),
        ("MEDIAN", right),
        ("LOWEST", right),
        ("HIGHEST", right),
        ("P50", right),
        ("P99", right),
        ("VERDICT", left),
    ];
    let table = |rows: &[Row<'_>]| {
        let mut table = Table::new(&columns);
        for row in rows {
            let mut cells = rate_cells(row.figure, style).split_off(2);
            cells.insert(0, row.label.to_owned());
            cells.push(row.report.verdict_words());
            table.row(cells);
        }
        table.print(style)
    };
    if style.plain {
        return table(&group.ranked) + &table(&group.unranked);
    }
    let mut text =
        format!("{}, as {}: {}, {}\n\n{}", group.case, group.whose, group.part, group.unit, table(&group.ranked));
    if group.ranked.is_empty() {
        text += "nobody to rank\n";
    }
    if !group.unranked.is_empty() {
        text += &format!(
            "\nnot ranked, because they break their promises or nobody could see:\n\n{}",
            table(&group.unranked)
        );
        text += &group.unranked.iter().map(reason).collect::<String>();
    }
    text
}

fn reason(row: &Row<'_>) -> String {
    let reason = match &row.report.verdict {
        Verdict::NotDurable { kinds } => kinds.join(", "),
        Verdict::Unverified { reason } => reason.clone(),
        Verdict::Honest => "fewer bytes reached the disks than were promised".into(),
    };
    format!("  {}: {reason}\n", row.label)
}

/// The same for programs.
pub(super) fn comparison_json(groups: &[Group<'_>]) -> Value {
    let row = |row: &Row<'_>| {
        json!({
            "server": row.label,
            "median": row.figure.median,
            "lowest": row.figure.lowest,
            "highest": row.figure.highest,
            "verdict": row.report.verdict,
            "collapsed": row.report.collapsed,
        })
    };
    let group = |group: &Group<'_>| {
        json!({
            "case": group.case,
            "whose": group.whose,
            "part": group.part,
            "unit": group.unit,
            "ranked": group.ranked.iter().map(row).collect::<Vec<_>>(),
            "unranked": group.unranked.iter().map(row).collect::<Vec<_>>(),
        })
    };
    groups.iter().map(group).collect()
}

#[cfg(test)]
mod tests;
