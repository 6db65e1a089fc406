//! The book as Markdown: one table for each part, and one of the referee's verdicts.

use std::collections::BTreeMap;

use super::contenders::{CONTENDERS, Contender, Disks, Keeps};
use super::runs::{Book, Part, Run};
use super::settings::{Setting, Workload};
use crate::figures::{short, shown};
use crate::report::median;

/// How the tables name what a contender's replies are worth.
fn word(keeps: Keeps) -> &'static str {
    match keeps {
        Keeps::Word => "kept",
        Keeps::WordUntilPowerCut => "lost with the power",
        Keeps::Nothing => "**not kept**",
    }
}

/// What a contender's replies are worth, by the referee where it was asked and could see.
pub(super) fn keeps(book: &Book, contender: &Contender) -> Keeps {
    match book.verdicts.get(contender.name).map(|verdict| verdict.is.as_str()) {
        Some("honest") => Keeps::Word,
        Some("not-durable") => Keeps::Nothing,
        _ => contender.keeps,
    }
}

/// Whom a contender stands beside: those whose word is worth as much, and who have equal disks.
pub(super) fn group(book: &Book, contender: &Contender) -> (Keeps, Disks) {
    match keeps(book, contender) {
        Keeps::Word => (Keeps::Word, contender.disks),
        less => (less, Disks::One),
    }
}

/// Those who ran a part, group by group, each from the quickest on.
pub(super) fn ranked(book: &Book, part: &Part) -> Vec<&'static Contender> {
    let ran = CONTENDERS.iter().filter(|contender| part.runs_of(contender.name).next().is_some());
    let mut ranked: Vec<_> = ran.collect();
    let time = |contender: &Contender| median(part.values(contender.name, Run::seconds));
    ranked.sort_by(|a, b| group(book, a).cmp(&group(book, b)).then(time(a).total_cmp(&time(b))));
    ranked
}

/// What the columns of a setting mean.
pub(super) fn legend(setting: &Setting, part: &Part) -> String {
    let (writes, flushes) = part.unit;
    let columns = format!(
        "Counts are for each file (or round): requests; the replies among them that promise something; writes and \
         flushes that the kernel counts on all disks until the last reply; and KiB written until the server was \
         stopped and had nothing left to write. One `pwrite` of 4 KiB with O_DIRECT and O_DSYNC counts as {writes} \
         writes and {flushes} flushes: an empty flush is a write too. On disks without FUA ours flush after a plain write \
         instead, once."
    );
    let turns = "Turns are what the slow disks charge 8 ms for: a flush that found something to write.";
    let times =
        "Times are those of the guest, and say nothing about servers in user space against those in the kernel.";
    wrapped(&format!("{columns} {}", if setting.durable_us > 0 { turns } else { times }))
}

/// A paragraph of lines that are not too long.
pub(super) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it begins with one");
        if line.chars().count() + 1 + word.chars().count() > 120 {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    format!("{}\n", lines.join("\n"))
}

pub(super) fn of_part(book: &Book, setting: &Setting, workload: &Workload, part: &Part) -> String {
    let items = part.runs.first().map_or(0.0, Run::items);
    let rounds = part.runs.first().map_or(0, |run| part.runs_of(&run.contender).count());
    let turns = if setting.durable_us > 0 { " turns |" } else { "" };
    let rule = if setting.durable_us > 0 { "---:|" } else { "" };
    let mut text = format!(
        "### {}: {items} {}s, {rounds} runs\n\n\
         | contender | word | s, median (lowest … highest) | {}s/s \
         | requests | promises |{turns} writes | flushes | KiB |\n\
         |---|---|---|---:|---:|---:|{rule}---:|---:|---:|\n",
        capital(workload.title),
        workload.item,
        workload.item
    );
    for contender in ranked(book, part) {
        text += &row(book, setting, part, contender);
    }
    text + "\n"
}

fn row(book: &Book, setting: &Setting, part: &Part, contender: &Contender) -> String {
    let middle = |figure: &dyn Fn(&Run) -> f64| short(median(part.values(contender.name, figure)));
    let mut cells = vec![
        contender.title.to_owned(),
        word(keeps(book, contender)).to_owned(),
        shown(&part.values(contender.name, Run::seconds)),
        middle(&Run::items_per_second),
        middle(&|run| run.count("rpcs") / run.items()),
        middle(&|run| run.durable() / run.items()),
    ];
    if setting.durable_us > 0 {
        cells.push(middle(&|run| run.turns().unwrap_or(f64::NAN)));
    }
    cells.extend([
        middle(&|run| run.of_all_disks("writes")),
        middle(&|run| run.of_all_disks("flushes")),
        middle(&Run::kib_in_all),
    ]);
    format!("| {} |\n", cells.join(" | "))
}

/// What the referee said of each.
pub(super) fn verdicts(book: &Book) -> String {
    if book.verdicts.is_empty() {
        return String::new();
    }
    let mut text = "## Who keeps their word\n\n".to_owned();
    text += &wrapped(
        "`tally bench probe` in the same guest, by the kernel's counters of the disks: 200 lone requests of each kind, \
         and how many of their replies came after a durable event. Memory is no disk, so a log there is not judged.",
    );
    text += "\n| contender | verdict | what it does not keep |\n|---|---|---|\n";
    for contender in &CONTENDERS {
        let Some(verdict) = book.verdicts.get(contender.name) else { continue };
        let mut broken: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (kind, of) in &verdict.kinds {
            if of.split_once('/').is_none_or(|(kept, all)| kept != all) {
                broken.entry(of).or_default().push(kind);
            }
        }
        let broken = broken.iter().map(|(of, kinds)| format!("{}: {}", of.replace('/', " of "), kinds.join(", ")));
        let broken: Vec<_> = broken.collect();
        let word = verdict.is.replace('-', " ").to_uppercase();
        text += &format!("| {} | {word} | {} |\n", contender.title, broken.join("; "));
    }
    text + "\n"
}

/// With a capital letter, where it begins with one.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
