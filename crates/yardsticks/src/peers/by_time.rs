//! Servers by time, in the machine whose clock counts instructions ([`tally_lab::guests::Emulated`]): ours and the kernel's
//! over XFS, ext4 and OpenZFS, by Linux' client in versions 3 and 4.2, each cell once on a fresh disk, with the unmount
//! in it. A cell repeats to a hundredth, on whatever machine, so there are no medians, and what is kept stands in the tree.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::page;
use crate::figures::{Bar, short};
use tally_lab::cargo;
use tally_lab::guests::{Emulated, Luggage};

/// How the guest's disk keeps what it was told: at once, or in a volatile cache until a flush.
const CACHES: [(&str, &str); 2] = [("through", "a disk without a cache"), ("back", "a disk with a volatile cache")];
const VERSIONS: [&str; 2] = ["3", "4.2"];
const USERS: [&str; 2] = ["root", "user"];
const WORKLOADS: [(&str, &str); 4] =
    [("untar", "tar -x"), ("copy", "cp -a"), ("library", "cp -r"), ("remove", "rm -r")];
/// The guest's name for a contender, what tables call it, and whether it is ours.
const CONTENDERS: [(&str, &str, bool); 5] = [
    ("tally", "Tallystick", true),
    ("tally-on", "Tallystick, `delegations=on`", true),
    ("knfsd-xfs", "knfsd, XFS", false),
    ("knfsd-ext4", "knfsd, ext4", false),
    ("zfs", "knfsd, OpenZFS", false),
];
const XFS: &str = "knfsd-xfs";
const OPEN_ZFS: &str = "zfs";
/// One guest is given up after so long: all cells of one kind of disk take two hours.
const LIMIT: Duration = Duration::from_secs(4 * 3600);

/// One run of one contender, as the guest tells it.
#[derive(Clone, Debug)]
struct Cell {
    words: BTreeMap<String, String>,
}

/// What of everything is run.
struct Choice<'a> {
    only: &'a [String],
}

impl Choice<'_> {
    /// Whoever names none of a kind wants all of it.
    fn takes<'n>(&self, kind: impl Iterator<Item = &'n str> + Clone, name: &str) -> bool {
        let named = |name: &str| self.only.iter().any(|word| word.trim_start_matches('v') == name);
        named(name) || !kind.into_iter().any(named)
    }

    fn check(&self) -> Result<()> {
        let mut known = names().chain(VERSIONS).chain(USERS).chain(caches()).chain(workloads());
        let known: Vec<_> = known.by_ref().collect();
        match self.only.iter().find(|word| !known.contains(&word.trim_start_matches('v'))) {
            Some(word) => bail!("{word} is none of {}", known.join(", ")),
            None => Ok(()),
        }
    }

    /// As the guest's script takes them: those of a bar first.
    fn cells(&self) -> Vec<String> {
        let mut cells = Vec::new();
        for workload in workloads().filter(|name| self.takes(workloads(), name)) {
            for user in USERS.into_iter().filter(|name| self.takes(USERS.into_iter(), name)) {
                for contender in names().filter(|name| self.takes(names(), name)) {
                    for version in VERSIONS.into_iter().filter(|name| self.takes(VERSIONS.into_iter(), name)) {
                        // Version 3 knows no delegations.
                        if (contender, version) != ("tally-on", "3") {
                            cells.push(format!("{contender},{version},{workload},{user}"));
                        }
                    }
                }
            }
        }
        cells
    }
}

fn names() -> impl Iterator<Item = &'static str> + Clone {
    CONTENDERS.iter().map(|(name, _, _)| *name)
}

fn caches() -> impl Iterator<Item = &'static str> + Clone {
    CACHES.iter().map(|(name, _)| *name)
}

fn workloads() -> impl Iterator<Item = &'static str> + Clone {
    WORKLOADS.iter().map(|(name, _)| *name)
}

/// Runs what is chosen, and writes the page's second part.
pub(super) fn run(only: &[String], files: u32) -> Result<()> {
    let choice = Choice { only };
    choice.check()?;
    let Some(emulated) = Emulated::prepare()? else {
        eprintln!("The guest needs root and its packages; nothing was measured.");
        return Ok(());
    };
    cargo::build_tally()?;
    for cache in caches().filter(|name| choice.takes(caches(), name)) {
        let variables =
            vec![("CACHE", cache.to_owned()), ("FILES", files.to_string()), ("CELLS", choice.cells().join(" "))];
        let mut trouble = None;
        let tally = emulated.run(&Luggage { variables, ..Luggage::default() }, LIMIT, |line| {
            println!("{line}");
            if let Some(words) = line.strip_prefix("run ") {
                // Kept at once: a guest runs for hours, and what it has measured is measured.
                let kept = Book::open().and_then(|mut book| book.put(Cell::from_words(words)).save());
                trouble = trouble.take().or(kept.err());
            }
        })?;
        ensure!(tally.failed == 0, "a contender failed in the guest");
        trouble.map_or(Ok(()), Err)?;
    }
    let book = Book::open()?;
    print!("{}", book.section());
    page::write_by_time(&book.section())
}

/// Writes the page's second part of what is there.
pub(super) fn write_page() -> Result<()> {
    page::write_by_time(&Book::open()?.section())
}

impl Cell {
    fn from_words(words: &str) -> Self {
        let words = words.split_whitespace().filter_map(|word| word.split_once('='));
        Self { words: words.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    fn word(&self, name: &str) -> &str {
        self.words.get(name).map_or("", String::as_str)
    }

    fn count(&self, name: &str) -> f64 {
        self.word(name).parse().unwrap_or(f64::NAN)
    }

    /// As the guest told it, but in the order of names.
    fn to_words(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.join(" ")
    }

    /// What makes it one cell of a table.
    fn place(&self) -> [&str; 5] {
        ["cache", "workload", "user", "contender", "version"].map(|name| self.word(name))
    }

    /// How many files there were.
    fn files(&self) -> u64 {
        self.word("files").parse().unwrap_or_default()
    }

    /// Microseconds a file, with the unmount.
    fn us(&self) -> f64 {
        (self.count("work_us") + self.count("unmount_us")) / self.count("files")
    }

    /// Whether the files had other times afterwards than they were sent with.
    fn lost_times(&self) -> bool {
        self.word("times") == "lost"
    }

    /// What a counter rose by for each file, with the unmount.
    fn of_each(&self, counter: &str) -> f64 {
        (self.count(&format!("ended.{counter}")) - self.count(&format!("before.{counter}"))) / self.count("files")
    }
}

/// The newest run of each cell, of each number of files.
#[derive(Default)]
struct Book {
    cells: Vec<Cell>,
}

/// What stands above the runs.
const HEAD: &str =
    "# Runs of `cargo xtask bench peers --by-time`, as the guest told of them; docs/peers.md is made of it.\n";

impl Book {
    fn path() -> PathBuf {
        cargo::workspace().join("docs/peers-by-time.txt")
    }

    fn open() -> Result<Self> {
        match std::fs::read_to_string(Self::path()) {
            Ok(text) => Ok(Self::from_text(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn from_text(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self { cells: lines.map(Cell::from_words).collect() }
    }

    fn to_text(&self) -> String {
        let mut lines: Vec<_> = self.cells.iter().collect();
        lines.sort_by_key(|cell| (cell.place(), cell.files()));
        lines.iter().fold(HEAD.to_owned(), |text, cell| text + &cell.to_words() + "\n")
    }

    fn put(&mut self, cell: Cell) -> &Self {
        self.cells.retain(|other| (other.place(), other.files()) != (cell.place(), cell.files()));
        self.cells.push(cell);
        self
    }

    fn save(&self) -> Result<()> {
        Ok(std::fs::write(Self::path(), self.to_text())?)
    }

    fn cell(&self, place: [&str; 5], files: u64) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.place() == place && cell.files() == files)
    }

    /// Of how many files there are runs in this table, most first.
    fn files_of(&self, place: [&str; 3]) -> Vec<u64> {
        let mut files: Vec<_> = self.cells.iter().filter(|cell| cell.place()[..3] == place).map(Cell::files).collect();
        files.sort_unstable_by(|one, other| other.cmp(one));
        files.dedup();
        files
    }

    /// One's time by another's, and of how many files: of the most that both had.
    fn ratio(&self, above: [&str; 5], below: [&str; 5]) -> Option<(f64, u64)> {
        let of_both = |files| Some((self.cell(above, files)?.us() / self.cell(below, files)?.us(), files));
        self.files_of([above[0], above[1], above[2]]).into_iter().find_map(of_both)
    }

    /// Everything between the marks.
    fn section(&self) -> String {
        let mut text = self.bars();
        for (cache, title) in CACHES {
            for (workload, command) in WORKLOADS {
                for user in USERS {
                    for files in self.files_of([cache, workload, user]) {
                        text += &self.table([cache, workload, user], files, &format!("{title}: {user}'s `{command}`"));
                    }
                }
            }
        }
        text
    }

    /// What is promised of untar, as root.
    fn bars(&self) -> String {
        let mut text = String::from("| what | disk | files | bar | figure | kept |\n|---|---|---:|---|---|---|\n");
        for (cache, _) in CACHES {
            let place = |contender, version| [cache, "untar", "root", contender, version];
            let own = place("tally", "3");
            for (what, bar, above, below) in [
                ("untar, v3: our time ÷ that over XFS", 0.85, own, place(XFS, "3")),
                ("untar, v3: our time ÷ that over OpenZFS", 0.75, own, place(OPEN_ZFS, "3")),
                ("untar, v4.2: our time ÷ our own of v3", 0.80, place("tally", "4.2"), own),
                ("untar, v4.2 with `delegations=on`: our time ÷ our own of v3", 0.80, place("tally-on", "4.2"), own),
            ] {
                let Some((figure, files)) = self.ratio(above, below) else { continue };
                let (bar, kept) = Bar::AtMost(bar).judge(figure);
                let _ = writeln!(text, "| {what} | {cache} | {files} | {bar} | {figure:.3} | {kept} |");
            }
        }
        for (cache, _) in CACHES {
            let (mut behind, mut cells) = (Vec::new(), 0);
            for (place, ratio) in self.duels(cache) {
                cells += 1;
                // What was not counted is no number, and not won.
                if ratio.partial_cmp(&1.0) != Some(Ordering::Less) {
                    behind.push(format!("{place}: {ratio:.3}"));
                }
            }
            if cells > 0 {
                let kept = if behind.is_empty() { "yes" } else { "**no**" };
                let figure = if behind.is_empty() { format!("all {cells}") } else { behind.join("; ") };
                let _ =
                    writeln!(text, "| each cell: our time ÷ the best peer's | {cache} | | < 1 | {figure} | {kept} |");
            }
        }
        text + "\n"
    }

    /// Our time in each cell, as the server comes, by the best time of a peer.
    fn duels(&self, cache: &str) -> Vec<(String, f64)> {
        let mut duels = Vec::new();
        for (workload, command) in WORKLOADS {
            for user in USERS {
                for version in VERSIONS {
                    let place = |name| [cache, workload, user, name, version];
                    let peers = CONTENDERS.iter().filter(|(_, _, ours)| !ours).map(|(name, _, _)| place(name));
                    let ratios = peers.filter_map(|peer| {
                        let (ratio, files) = self.ratio(place("tally"), peer)?;
                        let keeps_its_word = self.cell(peer, files).is_some_and(|cell| !cell.lost_times());
                        keeps_its_word.then_some(ratio)
                    });
                    let worst = ratios.max_by(f64::total_cmp);
                    duels.extend(worst.map(|ratio| (format!("{user}'s `{command}`, v{version}"), ratio)));
                }
            }
        }
        duels
    }

    fn table(&self, [cache, workload, user]: [&str; 3], files: u64, title: &str) -> String {
        let mut text = format!("### {title}, {files} files\n\n| |");
        for version in VERSIONS {
            let _ = write!(text, " v{version}, µs | of it unmount | requests | writes | flushes |");
        }
        text += "\n|---|";
        text += &"---:|".repeat(5 * VERSIONS.len());
        text += "\n";
        for (contender, title, _) in CONTENDERS {
            let cells = VERSIONS.map(|version| self.cell([cache, workload, user, contender, version], files));
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let _ = write!(text, "| {title} |");
            for cell in cells {
                text += &cell.map_or_else(|| " – |".repeat(5), Cell::columns);
            }
            text += "\n";
        }
        text + "\n"
    }
}

impl Cell {
    fn columns(&self) -> String {
        let unmount = self.count("unmount_us") / self.count("files");
        let [rpcs, writes, flushes] = ["rpcs", "writes", "flushes"].map(|counter| short(self.of_each(counter)));
        let lost = if self.lost_times() { ", times lost" } else { "" };
        format!(" **{:.0}**{lost} | {unmount:.0} | {rpcs} | {writes} | {flushes} |", self.us())
    }
}

#[cfg(test)]
mod tests;
