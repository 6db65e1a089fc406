//! `tally man`: a page of the manual for each command, from its grammar.
//!
//! What is told by `--help` and what `man` shows are one text. So are the page of metrics and docs/monitoring.md, which a test compares with what
//! /metrics prints. Other pages that are no command's are written by hand, in packaging/man.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command, CommandFactory, ValueHint};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::args::Cli;

/// Commands for administrators (man-pages(7)).
const SECTION: &str = "8";

/// Of the newest release, or of what will be one.
const DATE: &str = "2026-11-30";

/// Pages that are no command's.
const ABOUT_ALL: [(&str, &str); 7] = [
    ("tally-concepts", "7"),
    ("tally-from-zfs", "7"),
    ("tally-properties", "7"),
    ("tally-exports", "5"),
    ("tally-security", "7"),
    ("tally-events", "7"),
    ("tally-metrics", "7"),
];

/// Words of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where the pages go
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

impl ManArgs {
    /// Writes all of them.
    pub(super) fn write(&self) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        write_with_all_below(&all_commands(), None, &self.dir)?;
        fs::write(self.dir.join("tally-metrics.7"), metrics())
    }
}

/// As pages have them: `help` is an option there.
fn all_commands() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// The page of metrics, from the rows of the table.
fn metrics() -> String {
    let plain = |text: &str| text.replace('`', "").replace("\\|", "|");
    let mut page = Roff::new();
    page.control("TH", ["tally-metrics", "7", DATE, &format!("tally {}", env!("CARGO_PKG_VERSION")), "Tallystick"]);
    page.control("SH", ["NAME"]).text([roman("tally-metrics - what /metrics prints, for Prometheus")]);
    page.control("SH", ["DESCRIPTION"]).text([roman(
        "The server answers HTTP at the address that it prints when it starts, 127.0.0.1:12050 if the configuration says no other; Prometheus asks for /metrics there. \
         Each metric is followed by its labels and its type. Where a metric is per pool, dataset, disk, lane or client there is one of it for each. \
         tally zilstat, tally stat and tally top show the same counters.",
    )]);
    page.control("SH", ["METRICS"]);
    for row in include_str!("../../../../docs/monitoring.md").lines() {
        let Some([name, kind, meaning]) = row.strip_prefix("| ").and_then(metric_row) else { continue };
        page.control("TP", []).text([bold(plain(name)), roman(format!(" ({kind})"))]).text([roman(plain(meaning))]);
    }
    let example = "curl -s http://127.0.0.1:12050/metrics | grep tally_pool_state";
    page.control("SH", ["EXAMPLES"]).text([bold(example)]);
    page.control("SH", ["SEE ALSO"]).text([bold("tally-stat"), roman("(8), "), bold("tally-zilstat"), roman("(8)")]);
    page.to_roff()
}

/// The cells of a row that tells of a metric.
fn metric_row(row: &str) -> Option<[&str; 3]> {
    let cells: Vec<&str> = row.strip_suffix(" |")?.splitn(3, " | ").collect();
    let cells: [&str; 3] = cells.try_into().ok()?;
    ["`tally_", "`process_"].iter().any(|begin| cells[0].starts_with(begin)).then_some(cells)
}

fn write_with_all_below(command: &Command, above: Option<&str>, dir: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    let source = format!("tally {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).section(SECTION).date(DATE).manual("Tallystick").source(source);
    man.render(&mut page)?;
    see_also(above).to_writer(&mut page)?;
    fs::write(dir.join(format!("{name}.{SECTION}")), without_idle_breaks(page))?;
    shown_below(command).try_for_each(|below| write_with_all_below(below, Some(name), dir))
}

/// Those that have a page.
fn shown_below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// Where a command's page leads: to that of the command above, and from the first to those that are no command's.
fn see_also(above: Option<&str>) -> Roff {
    let pages = above.map_or(ABOUT_ALL.to_vec(), |above| vec![(above, SECTION)]);
    let mut words = Vec::new();
    for (name, section) in pages {
        let comma = if words.is_empty() { "" } else { ", " };
        words.extend([roman(comma), bold(name), roman(format!("({section})"))]);
    }
    let mut section = Roff::new();
    section.control("SH", ["SEE ALSO"]).text(words);
    section
}

/// A line is broken where a paragraph ends anyway, of which mandoc complains.
fn without_idle_breaks(page: Vec<u8>) -> Vec<u8> {
    let Ok(text) = String::from_utf8(page) else { unreachable!("help is text") };
    text.replace("\n.br\n\n.br\n", "\n.sp\n").into_bytes()
}

#[cfg(test)]
mod tests;
