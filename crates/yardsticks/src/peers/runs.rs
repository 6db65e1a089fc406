//! What the guest's script wrote down, and the book in which the newest runs of each part are kept.
//!
//! A part is one workload on one kind of main disk: all of its contenders ran alternately, so they may be compared. The
//! command can be told to run some parts only; those replace their like in `target/bench/peers.json`, and the page is
//! made of whatever is there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// One run of one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) contender: String,
    pub(super) workload: String,
    /// Everything that was counted, by the script's names.
    pub(super) counts: BTreeMap<String, f64>,
}

/// What the script wrote down.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Heard {
    pub(super) runs: Vec<Run>,
    /// Contenders that could not be had, with the reason.
    pub(super) skipped: BTreeMap<String, String>,
    /// What 4 KiB with O_DSYNC took on the log device, measured between the runs.
    pub(super) dsync_us: Vec<f64>,
    /// How often the guest's kernel counts one such write: as writes, and as flushes.
    pub(super) unit: (f64, f64),
    pub(super) kernel: String,
    pub(super) verdicts: BTreeMap<String, Verdict>,
}

/// What the referee of `tally bench` said of a contender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// `honest`, `not-durable` or `unverified`.
    pub(super) is: String,
    /// Kinds of requests, with how many replies of how many met an event of a disk.
    pub(super) kinds: BTreeMap<String, String>,
}

impl Heard {
    /// Reads the script's lines: a kind, then words NAME=VALUE; of `skip` the second word and then a sentence.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut heard = Self::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').with_context(|| format!("a line without words: {line}"))?;
            let words: BTreeMap<&str, &str> = rest.split_whitespace().filter_map(|word| word.split_once('=')).collect();
            let word = |name: &str| words.get(name).copied().with_context(|| format!("no {name}= in: {line}"));
            match kind {
                "run" => heard.runs.push(Run::from_words(word("contender")?, word("workload")?, &words)),
                "dsync" => heard.dsync_us.push(word("us")?.parse()?),
                "unit" => {
                    heard.unit = (word("writes")?.parse()?, word("flushes")?.parse()?);
                    word("kernel")?.clone_into(&mut heard.kernel);
                }
                "skip" => {
                    let reason = rest.split_once(' ').map_or("no reason given", |(_, reason)| reason);
                    heard.skipped.insert(word("contender")?.to_owned(), reason.to_owned());
                }
                "verdict" => {
                    heard.verdicts.insert(word("contender")?.to_owned(), Verdict::from_words(word("is")?, &words));
                }
                _ => bail!("a line of an unknown kind: {line}"),
            }
        }
        Ok(heard)
    }
}

impl Verdict {
    fn from_words(is: &str, words: &BTreeMap<&str, &str>) -> Self {
        let kinds = words.iter().filter(|(_, value)| value.contains('/'));
        let kinds = kinds.map(|(name, value)| (name.replacen('_', " ", 1), (*value).to_owned())).collect();
        Self { is: is.to_owned(), kinds }
    }
}

impl Run {
    fn from_words(contender: &str, workload: &str, words: &BTreeMap<&str, &str>) -> Self {
        let counts = words.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.parse().ok()?))).collect();
        Self { contender: contender.to_owned(), workload: workload.to_owned(), counts }
    }

    /// A count by its name; NaN if the run has none, which no table shows.
    pub(super) fn count(&self, name: &str) -> f64 {
        self.counts.get(name).copied().unwrap_or(f64::NAN)
    }

    /// What a counter of all disks together rose by from the first request to the last reply, for each item.
    pub(super) fn of_all_disks(&self, counter: &str) -> f64 {
        let disks = ["main", "log", "log2"].map(|disk| self.until_reply(&format!("{disk}.{counter}")));
        disks.iter().sum::<f64>() / self.items()
    }

    /// KiB written to all disks for each item, with what was written after the last reply.
    pub(super) fn kib_in_all(&self) -> f64 {
        let disks = ["main", "log", "log2"].map(|disk| self.until_stopped(&format!("{disk}.sectors")));
        disks.iter().sum::<f64>() / 2.0 / self.items()
    }

    /// Turns of slow disks' platters that somebody waited for, for each item. None on disks that have no platter.
    pub(super) fn turns(&self) -> Option<f64> {
        let turns = |disk: &str| self.until_reply(&format!("{disk}.turns"));
        let log = turns("log");
        let turns = turns("main") + if log.is_nan() { 0.0 } else { log };
        (!turns.is_nan()).then_some(turns / self.items())
    }

    pub(super) fn items_per_second(&self) -> f64 {
        self.items() / self.seconds()
    }

    /// What a disk's counter rose by from the first request to the last reply.
    pub(super) fn until_reply(&self, counter: &str) -> f64 {
        self.count(&format!("after.{counter}")) - self.count(&format!("before.{counter}"))
    }

    /// The same until the server was stopped and had written everything.
    pub(super) fn until_stopped(&self, counter: &str) -> f64 {
        self.count(&format!("settled.{counter}")) - self.count(&format!("before.{counter}"))
    }

    pub(super) fn seconds(&self) -> f64 {
        self.count("ms") / 1000.0
    }

    /// Files, or rounds of the loop.
    pub(super) fn items(&self) -> f64 {
        self.count("items")
    }

    /// Requests whose reply promised something.
    pub(super) fn durable(&self) -> f64 {
        self.count("durable")
    }
}

/// The newest runs of one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) setting: String,
    pub(super) workload: String,
    pub(super) date: String,
    pub(super) skipped: BTreeMap<String, String>,
    pub(super) dsync_us: Vec<f64>,
    pub(super) unit: (f64, f64),
    pub(super) runs: Vec<Run>,
}

impl Part {
    /// One contender's runs, in the order in which they were taken.
    pub(super) fn runs_of(&self, contender: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.contender == contender)
    }

    /// A figure of each of a contender's runs.
    pub(super) fn values(&self, contender: &str, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs_of(contender).map(figure).collect()
    }
}

/// All parts, and the machine on which the last of them ran.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Book {
    pub(super) machine: String,
    pub(super) parts: Vec<Part>,
    pub(super) verdicts: BTreeMap<String, Verdict>,
}

impl Book {
    fn path() -> PathBuf {
        tally_lab::cargo::target_folder().join("bench/peers.json")
    }

    /// The book as the last run left it; an empty one before the first.
    pub(super) fn open() -> Result<Self> {
        match std::fs::read(Self::path()) {
            Ok(text) => {
                serde_json::from_slice(&text).context("target/bench/peers.json is of another version; remove it")
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a part in the place of its like.
    pub(super) fn put(&mut self, part: Part) {
        let like = |other: &&mut Part| (&other.setting, &other.workload) == (&part.setting, &part.workload);
        match self.parts.iter_mut().find(like) {
            Some(old) => *old = part,
            None => self.parts.push(part),
        }
    }

    pub(super) fn part(&self, setting: &str, workload: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.setting == setting && part.workload == workload)
    }

    pub(super) fn save(&self) -> Result<()> {
        let path = Self::path();
        std::fs::create_dir_all(path.parent().context("the book lies in no folder")?)?;
        std::fs::write(&path, serde_json::to_vec_pretty(self)?)?;
        println!("figures: {}", path.display());
        Ok(())
    }
}
