//! Pools whose clients wait: exported ones, and those that the list promises and that are not imported, not yet or not
//! since a start failed on them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tally_base::PoolGuid;

use super::state::KnownPool;
use crate::control::message::Progress;
use crate::control::report::PoolReport;
use crate::exports::KnownExports;

/// Of a pool that the start has not come to.
const EXPECTED: &str = "It is about to be imported.";

/// Why each of them is away.
pub struct Absent(Mutex<BTreeMap<PoolGuid, Known>>);

struct Known {
    name: String,
    handle_key: [u8; 32],
    /// `None` if somebody exported it: nobody needs to be told.
    why: Option<String>,
}

impl Absent {
    /// All of the list, before the start has come to them.
    #[must_use]
    pub fn new(listed: &[KnownPool]) -> Self {
        let known = |pool: &KnownPool| Known {
            name: pool.name.clone(),
            handle_key: pool.handle_key,
            why: Some(EXPECTED.into()),
        };
        Self(Mutex::new(listed.iter().map(|pool| (pool.guid, known(pool))).collect()))
    }

    /// One is exported.
    pub fn exported(&self, pool: PoolGuid, name: String, handle_key: [u8; 32]) {
        self.0.lock().insert(pool, Known { name, handle_key, why: None });
    }

    /// Tells how far the import of the pool with this guid, in digits, is.
    pub fn progress(&self, pool: &str, progress: &Progress) {
        let percent = progress.done.saturating_mul(100).checked_div(progress.total);
        let how_far = percent.map(|percent| format!(", {percent} %")).unwrap_or_default();
        self.because(pool, format!("It is being imported: {}{how_far}.", progress.what));
    }

    /// Tells why it is not there.
    pub fn because(&self, pool: &str, why: String) {
        if let Some((_, known)) = self.0.lock().iter_mut().find(|(guid, _)| guid.to_string() == pool) {
            known.why = Some(why);
        }
    }

    /// Tells why nobody tries to import it.
    pub fn if_expected(&self, pool: PoolGuid, why: &str) {
        if let Some(known) = self.0.lock().get_mut(&pool).filter(|known| known.why.as_deref() == Some(EXPECTED)) {
            known.why = Some(why.into());
        }
    }

    /// It is there.
    pub fn forget(&self, pool: PoolGuid) {
        self.0.lock().remove(&pool);
    }

    /// What the protocol server needs to know of all of them.
    #[must_use]
    pub fn exports(&self) -> Vec<KnownExports> {
        let exports = |(&guid, known): (&PoolGuid, &Known)| KnownExports {
            guid,
            handle_key: known.handle_key,
            mounted: None,
            datasets: Vec::new(),
        };
        self.0.lock().iter().map(exports).collect()
    }

    /// What `status` shows of those that should be there; all, or the one of a name.
    #[must_use]
    pub fn reports(&self, name: Option<&str>) -> Vec<PoolReport> {
        let report = |(guid, known): (&PoolGuid, &Known)| {
            Some(PoolReport {
                name: known.name.clone(),
                guid: guid.to_string(),
                state: PoolReport::UNAVAILABLE.into(),
                messages: vec![format!("the pool is not imported; its clients wait.\n{}", known.why.as_ref()?)],
                ..PoolReport::default()
            })
        };
        let pools = self.0.lock();
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
        absent.exported(guid, "tank".into(), [3; 32]);
        assert!(absent.reports(None).is_empty());
        assert_eq!(absent.exports()[0].handle_key, [3; 32]);
    }
}
