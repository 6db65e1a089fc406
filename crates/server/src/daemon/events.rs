//! What has happened to pools and disks since the daemon was started, for `tally events`: the last of it, in memory.
//!
//! What commands do is told where they do it. What disks do is seen by a look four times a second: whoever meets an error holds locks,
//! and must not be kept. So what comes and goes between two looks is told by its end, or by the counts that it leaves.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tally_base::{PoolGuid, VdevGuid};
use tally_members::vdev::{LegErrors, LegState};

use super::pools::{Pools, ServedPool};
use super::scrub;
use super::ticker::Ticker;
use crate::control::report::EventReport;

/// So many are remembered; a disk that comes and goes each second has an hour of them.
const EVENTS_MAX: usize = 4096;
/// How often it is looked: a look is some counters.
const LOOK: Duration = Duration::from_millis(250);

/// Those that are remembered.
#[derive(Default)]
pub(super) struct Events(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    /// How many there were.
    count: u64,
    kept: VecDeque<EventReport>,
}

impl Events {
    pub(super) fn tell(&self, pool: &str, class: &str, text: String) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut ring = self.0.lock();
        ring.count += 1;
        let event = EventReport {
            number: ring.count,
            time_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            pool: pool.into(),
            class: class.into(),
            text,
        };
        ring.kept.push_back(event);
        if ring.kept.len() > EVENTS_MAX {
            ring.kept.pop_front();
        }
    }

    /// Those behind the one of this number.
    #[must_use]
    pub(super) fn since(&self, number: u64) -> Vec<EventReport> {
        self.0.lock().kept.iter().filter(|event| event.number > number).cloned().collect()
    }
}

/// Starts the thread that looks.
pub(super) fn watch(pools: &Arc<Pools>) -> io::Result<Ticker> {
    let pools = Arc::clone(pools);
    let mut seen = BTreeMap::new();
    Ticker::start("events", LOOK, move || look(&pools, &mut seen))
}

/// How a pool was at the last look.
#[derive(Default)]
struct Seen {
    is_suspended: bool,
    legs: BTreeMap<VdevGuid, (LegState, LegErrors)>,
    /// What runs over whole disks, by kind and disk.
    running: Vec<(String, String)>,
    space_alarms: Vec<String>,
    ended: Vec<String>,
}

fn look(pools: &Pools, seen: &mut BTreeMap<PoolGuid, Seen>) {
    let served = pools.all();
    seen.retain(|guid, _| served.iter().any(|pool| pool.guid() == *guid));
    for pool in served {
        let now = Seen::of(&pool);
        let (name, before) = (pool.filer.name(), seen.remove(&pool.guid()));
        now.news(before.as_ref(), &pool).into_iter().for_each(|(class, text)| pools.events.tell(&name, &class, text));
        seen.insert(pool.guid(), now);
    }
}

/// What a scrub that has ended has found, as the pool remembers it.
fn ended_scrub(served: &ServedPool) -> Option<String> {
    let scrub = scrub::standing(served.filer.pool(), &served.copies)?;
    matches!(&*scrub.state, "finished" | "stopped").then_some(scrub.words)
}

impl Seen {
    fn of(served: &ServedPool) -> Self {
        let pool = served.filer.pool();
        let legs = pool.roster.vdevs().iter().flat_map(|vdev| vdev.legs());
        Self {
            is_suspended: pool.fault().is_some(),
            legs: legs.map(|leg| (leg.guid(), (leg.state(), leg.errors()))).collect(),
            space_alarms: served.filer.space_alarms(),
            running: served.copies.running().into_iter().map(|copy| (copy.what, copy.device)).collect(),
            ended: served.copies.outcomes().into_iter().chain(ended_scrub(served)).collect(),
        }
    }

    /// What is new, by class. Without a look before this one, what is not as it should be.
    fn news(&self, before: Option<&Self>, served: &ServedPool) -> Vec<(String, String)> {
        let mut news = Vec::new();
        let (is_first, nothing) = (before.is_none(), Self::default());
        let before = before.unwrap_or(&nothing);
        let pool = served.filer.pool();
        if self.is_suspended && !before.is_suspended {
            let why = pool.fault().map(|fault| fault.0.clone()).unwrap_or_default();
            news.push(("pool_suspended".into(), why));
        }
        let legs: Vec<_> = pool.roster.vdevs().iter().flat_map(|vdev| vdev.legs()).collect();
        let paths: BTreeMap<VdevGuid, String> =
            legs.iter().map(|leg| (leg.guid(), leg.path().display().to_string())).collect();
        let why = |guid: VdevGuid| {
            let hung = legs.iter().find(|leg| leg.guid() == guid).and_then(|leg| leg.left_after());
            hung.map_or_else(String::new, |after| format!(": it has not answered for {} s", after.as_secs()))
        };
        for (guid, (state, errors)) in &self.legs {
            let path = paths.get(guid).cloned().unwrap_or_default();
            match before.legs.get(guid) {
                None if is_first && *state == LegState::Online => {}
                None if is_first => news.push(("statechange".into(), format!("{path} is {}", state.word()))),
                None => news.push(("vdev_attach".into(), format!("{path} is {}", state.word()))),
                Some((old, old_errors)) => {
                    if old.word() != state.word() {
                        news.push((
                            "statechange".into(),
                            format!("{path} was {}, and is {}{}", old.word(), state.word(), why(*guid)),
                        ));
                    }
                    // Whoever has cleared them begins anew.
                    let more = |new: u64, old: u64| new.saturating_sub(old);
                    let more = [
                        more(errors.read, old_errors.read),
                        more(errors.write, old_errors.write),
                        more(errors.checksum, old_errors.checksum),
                    ];
                    if more != [0; 3] {
                        let [read, write, checksum] = more;
                        let text = format!("{path}: {read} read, {write} write and {checksum} checksum errors more");
                        news.push(("errors".into(), text));
                    }
                }
            }
        }
        for guid in before.legs.keys().filter(|guid| !self.legs.contains_key(guid)) {
            news.push(("vdev_remove".into(), format!("disk {guid} has left the pool")));
        }
        for alarm in self.space_alarms.iter().filter(|alarm| !before.space_alarms.contains(alarm)) {
            news.push(("space_alarm".into(), alarm.clone()));
        }
        for (what, device) in self.running.iter().filter(|running| !before.running.contains(running)) {
            news.push((format!("{what}_start"), device.clone()));
        }
        for outcome in self.ended.iter().filter(|outcome| !before.ended.contains(outcome)) {
            let what = if outcome.starts_with("scrub") { "scrub_finish" } else { "resilver_finish" };
            news.push((what.into(), outcome.clone()));
        }
        news
    }
}
