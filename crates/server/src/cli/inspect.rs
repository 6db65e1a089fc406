//! `tally inspect`: what stands on the devices of a pool that is not imported. It asks no daemon, takes no lock and
//! changes nothing; the looking is done in [`tally_store::inspect`].

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::{Map, json};
use tally_disk::Opener;
use tally_fs::inspect::FsWords;
use tally_members::discover::ImportSource;
use tally_store::inspect::{Fact, Outcome, Plan, Standing, Value, inspect};

use super::console::{Console, Failure};
use super::words::device;

/// Where to look, and at what. Without a part: all of them, as a summary.
#[derive(Clone, Debug, Default, Args)]
pub struct InspectArgs {
    /// Disks and files of the pool
    #[arg(value_name = "PATH", required_unless_present = "dir", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Look at every disk and file in this directory; may be repeated
    #[arg(short = 'd', long = "dir", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Vec<PathBuf>,

    /// Every slot of every label, with the vdevs and lanes of the newest one
    #[arg(long)]
    pub labels: bool,

    /// Every uberblock
    #[arg(long)]
    pub uberblocks: bool,

    /// Live frames and records of the intent log; with -v also old frames, and what each record says
    #[arg(long)]
    pub log: bool,

    /// Every entry of a dataset's tree; with -v its nodes and leaves, too; may be repeated
    #[arg(long, value_name = "DATASET")]
    pub tree: Vec<String>,

    /// Every space map and list of deferred frees
    #[arg(long)]
    pub space: bool,

    /// Read and check the content of files, too
    #[arg(long)]
    pub data: bool,

    /// One step more detail
    #[arg(short = 'v', long)]
    pub verbose: bool,
}

impl InspectArgs {
    fn plan(&self) -> Plan {
        Plan {
            labels: self.labels,
            uberblocks: self.uberblocks,
            log: self.log,
            trees: self.tree.clone(),
            space: self.space,
            data: self.data,
            verbose: self.verbose,
        }
    }

    fn source(&self, here: &Path) -> ImportSource {
        let path = |path: &PathBuf| device(&path.to_string_lossy(), here);
        ImportSource {
            paths: self.paths.iter().map(path).collect(),
            dirs: self.dir.iter().map(|dir| here.join(dir)).collect(),
        }
    }
}

/// Prints the facts, one a line, and the count of damaged places. Damage is a failure: exit status 1.
pub(super) fn run(
    args: &InspectArgs,
    opener: &dyn Opener,
    here: &Path,
    as_json: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let mut printed = Ok(());
    let mut print = |fact: &Fact| {
        if printed.is_ok() {
            let line = if as_json { json_of(fact).to_string() } else { fact.to_string() };
            printed = writeln!(console.out, "{line}");
        }
    };
    let outcome = inspect(opener, &args.source(here), &args.plan(), &FsWords, &mut print).map_err(Failure::Look)?;
    printed?;
    console.out.flush()?;
    verdict(&outcome)
}

fn verdict(outcome: &Outcome) -> Result<(), Failure> {
    if outcome.pool_count == 0 {
        return Err(Failure::NoPool);
    }
    if let Some(name) = outcome.absent.first() {
        return Err(Failure::NoDataset { name: name.clone(), damage_count: outcome.damage_count });
    }
    match outcome.damage_count {
        0 => Ok(()),
        count => Err(Failure::Damage { count }),
    }
}

/// One object for each fact, one a line: a pool has millions of entries, and a list of them would not end.
fn json_of(fact: &Fact) -> serde_json::Value {
    let fields: Map<_, _> = fact.fields.iter().map(|(name, value)| ((*name).to_owned(), json_value(value))).collect();
    let mut object = Map::new();
    object.insert("part".into(), fact.part.word().into());
    object.insert("what".into(), fact.what.into());
    if let Some(source) = &fact.source {
        object.insert("device".into(), source.device.to_string_lossy().into());
        object.insert("offset".into(), source.offset.into());
    }
    match &fact.standing {
        Standing::Sound => {}
        Standing::Note(text) => drop(object.insert("note".into(), text.as_str().into())),
        Standing::Damage(text) => drop(object.insert("damage".into(), text.as_str().into())),
    }
    object.insert("fields".into(), fields.into());
    object.into()
}

/// Guids as people know them, times as exact nanoseconds.
fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Number(number) => json!(number),
        Value::Hex(_) => json!(value.to_string()),
        Value::Octal(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Flag(flag) => json!(flag),
        Value::Time(time) => json!(time.0),
        Value::FileTime(time) => json!(time.0),
    }
}

#[cfg(test)]
mod tests;
