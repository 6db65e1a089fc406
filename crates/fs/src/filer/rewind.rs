//! Going back to an older group ([`tally_store::pool::GoneBack`]): what of the log is given up with it, in words.

use std::collections::BTreeMap;

use tally_base::{DatasetId, Time};
use tally_store::pool::{GoneBack, LogContent};

use super::Filer;
use crate::record::{Record, newer};

/// Where an import went back to, and what that gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewindReport {
    /// Where it went, and which groups that gives up.
    pub groups: GoneBack,
    /// Records that are still in the log, by the names of their datasets.
    pub records: Vec<DroppedRecords>,
}

/// Records of one dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedRecords {
    /// Full name of the one whose records they are.
    pub dataset: String,
    /// How many of its records are given up.
    pub count: u64,
    /// When the first and the last of the changes were made, as far as they can be read.
    pub times: Option<(Time, Time)>,
}

impl Filer {
    /// What was dropped, and nothing may show again: times go on behind those of the records.
    pub(super) fn learn_dropped(&self, content: &LogContent) -> Vec<DroppedRecords> {
        let mut found: BTreeMap<DatasetId, DroppedRecords> = BTreeMap::new();
        for ((dataset, _), record) in &content.dropped {
            let name = || match self.filesystem(*dataset) {
                Some(filesystem) => filesystem.name(),
                None => format!("a dataset that was made later (number {dataset})"),
            };
            let of_dataset =
                found.entry(*dataset).or_insert_with(|| DroppedRecords { dataset: name(), count: 0, times: None });
            of_dataset.count += 1;
            let (head, body) = (&record.head, &record.body);
            let decoded = newer(head).is_none().then(|| Record::decode(head.shape.form, body).ok()).flatten();
            let changes = decoded.iter().flat_map(|record| &record.inodes).filter_map(|after| after.inode.as_ref());
            let Some(time) = changes.map(|inode| inode.change).max() else { continue };
            self.pool.learn_time(time);
            let (first, last) = of_dataset.times.unwrap_or((time, time));
            of_dataset.times = Some((first.min(time), last.max(time)));
        }
        found.into_values().collect()
    }
}
