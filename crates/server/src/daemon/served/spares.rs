//! What a pool's spares are about: which of them are missed, which were given back by hand, and what `status` says of each.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tally_base::VdevGuid;
use tally_members::label::{PoolConfig, Spare};
use tally_store::pool::spares::SpareWatch;

use super::ServedPool;
use crate::control::report::SpareReport;

/// What a pool's spares are about, beyond its labels.
#[derive(Default)]
pub(in crate::daemon) struct Spares {
    pub(in crate::daemon) watch: Mutex<SpareWatch>,
    /// Somebody looks at the disks that wait.
    pub(in crate::daemon) looking: AtomicBool,
    /// At this one.
    pub(in crate::daemon) looked_at: Mutex<Option<VdevGuid>>,
}

impl ServedPool {
    /// Somebody has given back by command what stood for this leg: no spare is taken for it again at once.
    pub(in crate::daemon) fn decline_spare(&self, leg: VdevGuid) {
        self.spares.watch.lock().decline(leg);
    }

    /// A disk has left this mirror: what stood for it stays for good. Gives remarks.
    pub(in crate::daemon) fn keep_spares(&self, vdev: VdevGuid) -> Vec<String> {
        match self.filer.pool().roster.keep_orphaned_spares(vdev) {
            Ok(kept) => {
                let words = |path: &PathBuf| {
                    format!("{} is a disk of the mirror for good now, and no spare any more", path.display())
                };
                kept.iter().map(words).collect()
            }
            // The disk has left all the same.
            Err(error) => {
                vec![format!("note: what stood for it is called a spare still: {error}; this is tried again")]
            }
        }
    }

    /// For `status`.
    pub(in crate::daemon) fn spare_reports(&self, config: &PoolConfig) -> Vec<SpareReport> {
        let watch = self.spares.watch.lock();
        let report = |spare: &Spare| {
            let in_use = config.leg(spare.guid).is_some();
            let absence = watch.absence(spare.guid).filter(|_| !in_use);
            let stands_for = spare.stands_for.filter(|_| in_use);
            SpareReport {
                name: spare.path.display().to_string(),
                guid: spare.guid.to_string(),
                state: if in_use {
                    "INUSE"
                } else if absence.is_some() {
                    "UNAVAIL"
                } else {
                    "AVAIL"
                }
                .into(),
                size: spare.size,
                stands_for: stands_for.map(|leg| path_of(config, leg).display().to_string()),
                why: absence.map(str::to_owned),
            }
        };
        config.spares.iter().map(report).collect()
    }
}

/// Where the disk or spare of this guid was when labels were last written.
pub(in crate::daemon) fn path_of(config: &PoolConfig, guid: VdevGuid) -> PathBuf {
    let leg = config.leg(guid).map(|(_, leg)| &leg.path);
    leg.or_else(|| config.spare(guid).map(|spare| &spare.path)).cloned().unwrap_or_default()
}
