//! What going back to an older group gives up, in words, before anybody is asked.

use tally_base::Time;
use tally_fs::filer::{ImportOptions, RewindReport};
use tally_members::discover::ImportSource;

use super::error::PoolsError;
use super::importing::{ImportOrder, select, words};
use super::pools::Pools;
use crate::control::message::{OnProgress, RewindShown};
use crate::dates::utc;

impl Pools {
    /// Looks at the group that an order would go back to, as far as its datasets, and changes nothing.
    pub(super) fn look_back(&self, order: &ImportOrder, progress: OnProgress<'_>) -> Result<RewindShown, PoolsError> {
        let source = ImportSource { paths: order.paths.clone(), dirs: order.dirs.clone() };
        let chosen = select(&order.pool);
        self.name_is_free(&chosen, &source)?;
        let options = ImportOptions { read_only: true, ..order.options() };
        let mut tell = |state: tally_fs::filer::Progress| {
            self.comes_on();
            progress(words(state));
        };
        let (filer, report) = self.read_in(&source, &chosen, &options, order, &|_| {}, &mut tell)?;
        let name = filer.name();
        let ended = filer.export();
        debug_assert!(ended.is_ok(), "who has written nothing has nothing to write");
        let rewind = report.rewind.expect("it was asked to go back");
        Ok(RewindShown { to: rewind.groups.to.0.0, from: rewind.groups.newest().0, lines: lines(&name, &rewind) })
    }
}

fn lines(pool: &str, rewind: &RewindReport) -> Vec<String> {
    let (to, time) = rewind.groups.to;
    let mut lines = vec![format!("Pool '{pool}' goes back to transaction group {to} of {}. That gives up:", at(time))];
    for (txg, time) in &rewind.groups.groups {
        let when = time.map_or_else(|| "which cannot be read".to_owned(), |time| format!("of {}", at(time)));
        lines.push(format!("  group {txg}, {when}"));
    }
    for records in &rewind.records {
        let when = records.times.map_or_else(String::new, |(first, last)| format!(", {} to {}", at(first), at(last)));
        let (count, dataset) = (records.count, &records.dataset);
        lines.push(format!("  {count} changes in the intent log, of {dataset}{when}"));
    }
    if rewind.records.is_empty() {
        lines.push("  no change that is still in the intent log".to_owned());
    }
    if !rewind.groups.is_sure() {
        lines.push(
            "What came behind it cannot be read, so nobody can tell whether space that it names was used again since: scrub the \
             pool when it is there."
                .to_owned(),
        );
    }
    let others = rewind.groups.possible.iter().filter(|(txg, _)| *txg != to);
    let others: Vec<_> = others.map(|(txg, time)| format!("{txg} of {}", at(*time))).collect();
    if !others.is_empty() {
        lines.push(format!("It could also go back to group {}.", others.join(", ")));
    }
    lines.push(
        "Clients may have been told of all that is given up, and hold files that are not there any more: mount again. There \
         is no way back to it."
            .to_owned(),
    );
    lines
}

fn at(time: Time) -> String {
    let seconds = time.0 / 1_000_000_000;
    format!("{}:{:02} UTC", utc(seconds), seconds % 60)
}

/// What there is to say once it is done.
pub(super) fn outcome(rewind: &RewindReport) -> String {
    let (to, time) = rewind.groups.to;
    let count: u64 = rewind.records.iter().map(|records| records.count).sum();
    format!(
        "it went back to transaction group {to} of {}; {} groups and {count} changes in the intent log were given up; \
         `tally pool scrub` tells whether all that it names is whole",
        at(time),
        rewind.groups.groups.len()
    )
}
