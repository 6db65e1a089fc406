//! Acknowledged changes that a replay cannot carry out: what a person is told before they are given up, and after.

use std::collections::BTreeSet;

use tally_store::key::Class;

use crate::entry::decode_entry;
use crate::record::Record;
use crate::replay::ReplayError;

/// Names that are told; a person who sees so many will ask `tally inspect`.
const NAMES_MAX: usize = 8;

/// A record that does not fit what is in the pool, and with it all behind it in its dataset's history.
#[derive(Debug, thiserror::Error)]
#[error("dataset {dataset}: {source}; {} lost with it{}", changes(*withheld), named(changed))]
pub struct ReplayLoss {
    /// Full name of the one whose records they are.
    pub dataset: String,
    /// What is wrong with the first.
    pub source: ReplayError,
    /// How many they are, the first among them.
    pub withheld: u64,
    /// What those behind the first changed: names, and the numbers of objects without one.
    pub changed: BTreeSet<String>,
}

impl ReplayLoss {
    /// With the records `behind` the one that cannot be replayed, as far as they are records.
    pub(super) fn new(
        dataset: String,
        source: ReplayError,
        withheld: u64,
        behind: impl Iterator<Item = Result<Record, ReplayError>>,
    ) -> Self {
        let mut changed = BTreeSet::new();
        for name in behind.flatten().flat_map(|record| names(&record)) {
            if changed.len() > NAMES_MAX {
                break;
            }
            changed.insert(name);
        }
        Self { dataset, source, withheld, changed }
    }
}

/// What a record makes, moves or changes.
fn names(record: &Record) -> Vec<String> {
    let entries = record.keys.iter().filter(|(key, _)| key.class == Class::DirEntry);
    let made = entries.filter_map(|(_, value)| Some(decode_entry(value.as_ref()?)?.1));
    let made: Vec<_> = made.map(|name| format!("\"{}\"", name.escape_ascii())).collect();
    let objects = record.inodes.iter().map(|after| format!("object {}", after.object));
    if made.is_empty() { objects.collect() } else { made }
}

fn changes(count: u64) -> String {
    if count == 1 { "1 change is".into() } else { format!("{count} changes are") }
}

fn named(changed: &BTreeSet<String>) -> String {
    let shown: Vec<_> = changed.iter().take(NAMES_MAX).map(String::as_str).collect();
    match (shown.is_empty(), changed.len() > NAMES_MAX) {
        (true, _) => String::new(),
        (_, more) => format!(", of {}{}", shown.join(", "), if more { " and others" } else { "" }),
    }
}
