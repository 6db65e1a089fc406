//! `docs/peers.md`: what the command writes between its two marks. Around them people write.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::bars;
use super::charts;
use super::contenders::CONTENDERS;
use super::runs::Book;
use super::settings::{SETTINGS, Setting, WORKLOADS};
use super::tables::{self, capital};
use tally_lab::cargo;

const BEGIN: &str = "<!-- written by cargo xtask bench peers -->";
const END: &str = "<!-- end of what cargo xtask bench peers writes -->";
const BEGIN_BY_TIME: &str = "<!-- written by cargo xtask bench peers --by-time -->";
const END_BY_TIME: &str = "<!-- end of what cargo xtask bench peers --by-time writes -->";

fn path() -> PathBuf {
    cargo::workspace().join("docs/peers.md")
}

/// Writes what the book has into the page, and draws its charts.
pub(super) fn write(book: &Book) -> Result<()> {
    charts::draw(book, &cargo::workspace().join("docs/charts"))?;
    put([BEGIN, END], &section(book))
}

/// Writes what is known by time into its place on the page.
pub(super) fn write_by_time(section: &str) -> Result<()> {
    put([BEGIN_BY_TIME, END_BY_TIME], section)
}

fn put(marks: [&str; 2], section: &str) -> Result<()> {
    let text = std::fs::read_to_string(path()).with_context(|| format!("cannot read {}", path().display()))?;
    std::fs::write(path(), replaced(&text, marks, section)?)?;
    println!("written: {}", path().display());
    Ok(())
}

fn replaced(text: &str, [begin, end]: [&str; 2], section: &str) -> Result<String> {
    let (before, rest) = text.split_once(begin).context("docs/peers.md has lost the mark where its figures begin")?;
    let (_, after) = rest.split_once(end).context("docs/peers.md has lost the mark where its figures end")?;
    ensure!(!after.contains(begin), "docs/peers.md has two places for its figures");
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", section.trim()))
}

/// Everything between the marks.
pub(super) fn section(book: &Book) -> String {
    let mut text = machine(book);
    text += &bars::promised(book);
    text += &bars::best_peers(book);
    text += &tables::verdicts(book);
    for setting in &SETTINGS {
        text += &of_setting(book, setting).unwrap_or_default();
    }
    text
}

fn machine(book: &Book) -> String {
    let mut dates: Vec<_> = book.parts.iter().map(|part| part.date.as_str()).collect();
    dates.sort_unstable();
    dates.dedup();
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for contender in &CONTENDERS {
        // The newest part knows best.
        if let Some(reason) = book.parts.iter().rev().find_map(|part| part.skipped.get(contender.name)) {
            missing.entry(reason).or_default().push(contender.title);
        }
    }
    let missing = missing.iter().map(|(reason, titles)| format!(" Left out: {} ({reason}).", titles.join("; ")));
    let skipped: String = missing.collect();
    tables::wrapped(&format!("Measured on {}. {}{skipped}", dates.join(", "), book.machine)) + "\n"
}

/// One setting's tables and charts; none if nothing ran there.
fn of_setting(book: &Book, setting: &Setting) -> Option<String> {
    let any = book.parts.iter().find(|part| part.setting == setting.name)?;
    let mut text = format!("## {}\n\n{}\n", capital(setting.title), tables::legend(setting, any));
    for workload in &WORKLOADS {
        let Some(part) = book.part(setting.name, workload.name) else { continue };
        text += &tables::of_part(book, setting, workload, part);
        if charts::has(setting, workload) {
            text += &format!("![{}]({})\n\n", charts::title(setting, workload), charts::file(setting, workload));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_replace_their_like_and_nothing_else() {
        let page = format!("# Peers\n\n{BEGIN}\nold\n{END}\n\nReasons.\n");
        let marks = [BEGIN, END];
        let new = replaced(&page, marks, "new\n").unwrap();
        assert_eq!(new, format!("# Peers\n\n{BEGIN}\n\nnew\n\n{END}\n\nReasons.\n"));
        assert_eq!(replaced(&new, marks, "new").unwrap(), new);
        assert!(replaced("# Peers\n", marks, "new").is_err());
        assert!(replaced(&page, [BEGIN_BY_TIME, END_BY_TIME], "new").is_err());
    }
}
