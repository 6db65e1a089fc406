//! Pools whose clients wait: exported ones, those that the list promises and that are not imported, not yet or not since
//! a start failed on them, and those whose export or destruction failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tally_base::PoolGuid;
use tally_fs::filer::Handover;

use super::state::KnownPool;
use crate::control::message::Progress;
use crate::control::report::PoolReport;
use crate::exports::KnownExports;

/// Why each of them is away.
pub struct Absent(Mutex<BTreeMap<PoolGuid, Known>>);

struct Known {
    name: String,
    handle_key: [u8; 32],
    why: Why,
    retaining: Option<Retaining>,
}

/// What clients have of one that was exported, for the next import (rules V37).
struct Retaining {
    handover: Arc<Handover>,
    /// None as long as the export is under way.
    until: Option<Instant>,
}

enum Why {
    /// Somebody exported it: nobody needs to be told, unless the list of pools still has it.
    Exported(Option<String>),
    /// The start has not come to it, or is at it: how far.
    Coming(String),
    /// Something failed, and somebody has to do something.
    Failed(String),
}

impl Absent {
    /// All of the list, before the start has come to them.
    #[must_use]
    pub fn new(listed: &[KnownPool]) -> Self {
        let known = |pool: &KnownPool| Known {
            name: pool.name.clone(),
            handle_key: pool.handle_key,
            why: Why::Coming("It is about to be imported.".into()),
            retaining: None,
        };
        Self(Mutex::new(listed.iter().map(|pool| (pool.guid, known(pool))).collect()))
    }

    /// One is being let go. It counts as exported until something else is said of it.
    pub fn let_go(&self, pool: PoolGuid, name: String, handle_key: [u8; 32], handover: Option<Arc<Handover>>) {
        let retaining = handover.map(|handover| Retaining { handover, until: None });
        self.0.lock().insert(pool, Known { name, handle_key, why: Why::Exported(None), retaining });
    }

    /// It was exported: what clients have of it is retained until then.
    pub(super) fn retain_until(&self, pool: PoolGuid, until: Instant) {
        if let Some(retaining) = self.0.lock().get_mut(&pool).and_then(|known| known.retaining.as_mut()) {
            retaining.until = Some(until);
        }
    }

    /// What clients have of it, if that is retained.
    pub(super) fn handed_over(&self, pool: PoolGuid) -> Option<Arc<Handover>> {
        let known = self.0.lock();
        Some(Arc::clone(&known.get(&pool)?.retaining.as_ref()?.handover))
    }

    /// Nothing of it is retained any more.
    pub(super) fn retain_no_more(&self, pool: PoolGuid) {
        if let Some(known) = self.0.lock().get_mut(&pool) {
            known.retaining = None;
        }
    }

    /// Those of which something was retained for long enough.
    pub(super) fn retained_too_long(&self, now: Instant) -> Vec<PoolGuid> {
        let is_over =
            |known: &Known| known.retaining.as_ref().and_then(|it| it.until).is_some_and(|until| until <= now);
        self.0.lock().iter().filter(|(_, known)| is_over(known)).map(|(guid, _)| *guid).collect()
    }

    /// Tells how far the import of the pool with this guid, in digits, is.
    pub fn progress(&self, pool: &str, progress: &Progress) {
        if let Some((_, known)) = self.0.lock().iter_mut().find(|(guid, _)| guid.to_string() == pool) {
            known.why = Why::Coming(format!("It is being imported: {}.", progress.in_words()));
        }
    }

    /// Tells why it is not there.
    pub fn because(&self, pool: PoolGuid, why: String) {
        if let Some(known) = self.0.lock().get_mut(&pool) {
            known.why = Why::Failed(why);
        }
    }

    /// Nobody is on the way to those that have not come.
    pub fn nobody_comes(&self, why: &str) {
        for known in self.0.lock().values_mut().filter(|known| matches!(known.why, Why::Coming(_))) {
            known.why = Why::Failed(why.into());
        }
    }

    /// Of those that were exported: what is to be told if the list of pools still has them.
    pub fn still_listed(&self, told: impl Fn(PoolGuid) -> Option<String>) {
        for (guid, known) in &mut *self.0.lock() {
            if let Why::Exported(still_listed) = &mut known.why {
                *still_listed = told(*guid);
            }
        }
    }

    /// It is there, or nobody waits for it any more.
    pub fn forget(&self, pool: PoolGuid) {
        self.0.lock().remove(&pool);
    }

    /// Those with this name or guid, each with both.
    #[must_use]
    pub fn find(&self, word: &str) -> Vec<(String, PoolGuid)> {
        let pools = self.0.lock();
        let found =
            pools.iter().filter(|(guid, known)| known.name == word || guid.to_string().eq_ignore_ascii_case(word));
        found.map(|(guid, known)| (known.name.clone(), *guid)).collect()
    }

    /// What the protocol server needs to know of all of them.
    #[must_use]
    pub fn exports(&self) -> Vec<KnownExports> {
        let exports = |(&guid, known): (&PoolGuid, &Known)| KnownExports {
            guid,
            name: known.name.clone(),
            handle_key: known.handle_key,
            mounted: None,
            datasets: Vec::new(),
            handover: known.retaining.as_ref().map(|retaining| Arc::clone(&retaining.handover)),
        };
        self.0.lock().iter().map(exports).collect()
    }

    /// What `status` shows of those that should be there; all, or those of a name.
    #[must_use]
    pub fn reports(&self, name: Option<&str>) -> Vec<PoolReport> {
        let pools = self.0.lock();
        let report = |(guid, known): (&PoolGuid, &Known)| {
            let why = match &known.why {
                Why::Exported(still_listed) => still_listed.clone()?,
                Why::Coming(how_far) => how_far.clone(),
                Why::Failed(why) => {
                    // Where several have the name, only the guid tells which one.
                    let is_only = pools.values().filter(|other| other.name == known.name).count() == 1;
                    let word = if is_only { known.name.clone() } else { guid.to_string() };
                    format!(
                        "{why}\nOnce that is mended, `tally pool import {word}` takes it up; `tally pool forget {word}` ends \
                         the waiting, if its disks are gone for good."
                    )
                }
            };
            Some(PoolReport {
                name: known.name.clone(),
                guid: guid.to_string(),
                state: PoolReport::UNAVAILABLE.into(),
                messages: vec![format!("the pool is not imported; its clients wait.\n{why}")],
                ..PoolReport::default()
            })
        };
        pools.iter().filter(|(_, known)| name.is_none_or(|name| known.name == name)).filter_map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_pool_says_why_until_it_is_there() {
        let guid = PoolGuid(7);
        let listed = KnownPool { name: "tank".into(), guid, paths: Vec::new(), read_only: false, handle_key: [3; 32] };
        let absent = Absent::new(&[listed]);
        absent.progress(&guid.to_string(), &Progress { what: "replaying".into(), done: 3, total: 4 });
        let told = absent.reports(Some("tank"));
        assert_eq!((told.len(), told[0].state.as_str()), (1, PoolReport::UNAVAILABLE));
        assert!(told[0].messages[0].ends_with("It is being imported: replaying, 75 %."), "{:?}", told[0].messages);
        assert!(absent.reports(Some("other")).is_empty());
        absent.forget(guid);
        assert!(absent.reports(None).is_empty() && absent.exports().is_empty());
        // Nobody waits for a report on what was exported on purpose, but its clients do wait.
        absent.let_go(guid, "tank".into(), [3; 32], None);
        assert!(absent.reports(None).is_empty());
        assert_eq!(absent.exports()[0].handle_key, [3; 32]);
    }
}
