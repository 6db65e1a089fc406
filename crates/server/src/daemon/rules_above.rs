//! Rules of the configuration's `[[export]]` tables, which stand above `sharenfs`.
//!
//! A table goes by a name, and a dataset may get another one. What a table was to close must not open by that, neither at
//! once nor at the next start, which reads the same file. So a table holds for datasets of its name, and also for those that
//! had it and were renamed since: that is written down beside the list of pools before the rename begins, and ends when the
//! table is taken out, when the file has a table for the new name, or when the dataset is destroyed.

use tally_disk::Platform;
use tally_fs::filer::is_or_holds;
use tally_store::tuning::Tuning;

use super::error::PoolsError;
use super::pools::Pools;
use super::state::{State, StateError};
use crate::config::{ExportRule, Moved};
use crate::exports::{holding, rule_above};

impl Pools {
    /// Puts other rules of the configuration file in force.
    pub fn set_rules_above(&self, file: Vec<ExportRule>) {
        *self.file_rules.lock() = file;
        self.rules_hold();
        self.refresh_exports();
        self.warn_of_rules_for_nothing();
    }

    /// Tells of rules of the configuration that are for no dataset there is: what they were to close may be open. And of
    /// those that hold under another name than they have.
    pub fn warn_of_rules_for_nothing(&self) {
        let (table, moved) = (self.live.table(), self.state.lock().moved().to_vec());
        for Moved { table, to } in &moved {
            tracing::warn!(
                "the [[export]] for dataset {table} holds for {to}, too, which had that name; write a table for {to} into the \
                 configuration"
            );
        }
        let has_moved = |rule: &&ExportRule| moved.iter().any(|moved| moved.table == rule.dataset);
        for rule in self.file_rules.lock().iter().filter(|rule| !table.has(&rule.dataset) && !has_moved(rule)) {
            tracing::warn!(
                dataset = rule.dataset,
                rules = rule.rules,
                "an [[export]] of the configuration is for no dataset that is there; `tally dataset list` shows those that are"
            );
        }
    }

    /// The rules for a dataset, and for those below it, will hold for it under its new name, also over a restart. To be undone
    /// with what it gives if the dataset is not renamed after all.
    pub(super) fn rules_follow(&self, from: &str, to: &str) -> Result<Vec<Moved>, PoolsError> {
        let before = self.state.lock().moved().to_vec();
        let below = |name: &str| is_or_holds(from, name).then(|| format!("{to}{}", &name[from.len()..]));
        // Those that moved before move on; the others stay with their name, and move.
        let again = before.iter().map(|moved| {
            let to = below(&moved.to).unwrap_or_else(|| moved.to.clone());
            Moved { table: moved.table.clone(), to }
        });
        let file = self.file_rules.lock().clone();
        let first =
            file.iter().filter_map(|rule| Some(Moved { table: rule.dataset.clone(), to: below(&rule.dataset)? }));
        let moved: Vec<Moved> = again.chain(first).filter(|moved| moved.holds(&file)).collect();
        self.write_moved(&moved).map_err(|source| PoolsError::RulesCannotFollow {
            from: from.into(),
            to: to.into(),
            why: source.to_string(),
        })?;
        self.rules_hold();
        Ok(before)
    }

    /// The dataset keeps its name.
    pub(super) fn rules_go_back(&self, before: &[Moved]) {
        // What cannot be taken back closes a dataset of that name, if somebody makes one.
        let _warned_of = self.write_moved(before);
        self.rules_hold();
    }

    /// A dataset is destroyed, with those below it.
    pub(super) fn rules_end(&self, dataset: &str) {
        let mut moved = self.state.lock().moved().to_vec();
        moved.retain(|moved| !is_or_holds(dataset, &moved.to));
        self.rules_go_back(&moved);
    }

    /// Where the rules for a dataset come from, if from the configuration: its table, and the rules.
    pub(super) fn rules_above(&self, dataset: &str) -> Option<ExportRule> {
        rule_above(&self.above.lock(), dataset).cloned()
    }

    /// The list of a process that begins, with the rules of the configuration file in force.
    #[must_use]
    pub fn begin(platform: Platform, tuning: Tuning, state: State, above: Vec<ExportRule>) -> Self {
        let pools = Self::new(platform, tuning, state, above);
        pools.rules_hold();
        pools.refresh_exports();
        pools
    }

    /// Works out the rules that hold.
    pub(super) fn rules_hold(&self) {
        let file = self.file_rules.lock().clone();
        let mut moved = self.state.lock().moved().to_vec();
        moved.retain(|moved| moved.holds(&file));
        // What does not hold any more is looked at in the same way at the next start.
        let _same_again = self.write_moved(&moved);
        *self.above.lock() = holding(&file, &moved);
    }

    fn write_moved(&self, moved: &[Moved]) -> Result<(), StateError> {
        if self.state.lock().moved() == moved {
            return Ok(());
        }
        self.change_list(|state: &mut State| state.set_moved(moved.to_vec()))
    }
}
