//! What has happened to pools and disks, for `tally events`: the last of it, in memory, and in each pool what happened to it
//! ([`tally_store::pool::Event`]), so that it is still known when the daemon or the machine was started anew.
//!
//! What ends or begins a pool's service is told where it does. What disks do is seen by a look: four times a second, behind each
//! command, and before events are shown. Whoever meets an error holds locks, and must not be kept. So what comes and goes
//! between two looks is told by its end, or by the counts that it leaves.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tally_base::{PoolGuid, Time, VdevGuid};
use tally_members::vdev::{LegErrors, LegState};
use tally_store::pool::Event;

use super::scrub;
use super::served::ServedPool;
use super::ticker::Ticker;
use crate::control::report::{EventClass, EventReport, errors_of};

/// So many are remembered; a disk that comes and goes each second has an hour of them.
const EVENTS_MAX: usize = 4096;
/// How often it is looked: a look is some counters.
const LOOK: Duration = Duration::from_millis(250);

/// Those that are remembered.
#[derive(Default)]
pub(super) struct Events {
    ring: Mutex<Ring>,
    /// How pools were at the last look.
    seen: Mutex<BTreeMap<PoolGuid, Seen>>,
}

#[derive(Default)]
struct Ring {
    /// How many there were.
    count: u64,
    kept: VecDeque<EventReport>,
}

impl Ring {
    fn push(&mut self, pool: &str, Event { time, class, text }: Event) {
        self.count += 1;
        self.kept.push_back(EventReport { number: self.count, time_ns: time.0, pool: pool.into(), class, text });
        if self.kept.len() > EVENTS_MAX {
            self.kept.pop_front();
        }
    }
}

impl Events {
    /// Takes in what a pool remembers of before, as it is imported. What is known already, as it was here before, stays one.
    pub(super) fn recall(&self, pool: &str, events: Vec<Event>) {
        let mut ring = self.ring.lock();
        let of_pool = ring.kept.iter().filter(|event| event.pool == pool);
        let known: HashSet<_> = of_pool.map(|event| (event.time_ns, event.text.clone())).collect();
        let unknown = events.into_iter().filter(|event| !known.contains(&(event.time.0, event.text.clone())));
        unknown.for_each(|event| ring.push(pool, event));
    }

    /// Those behind the one of this number, in the order of their times.
    #[must_use]
    pub(super) fn since(&self, number: u64) -> Vec<EventReport> {
        let mut events: Vec<_> = self.ring.lock().kept.iter().filter(|event| event.number > number).cloned().collect();
        events.sort_by_key(|event| event.time_ns);
        events
    }

    fn is_known(&self, pool: &str, text: &str) -> bool {
        self.ring.lock().kept.iter().any(|event| event.pool == pool && event.text == text)
    }

    /// Remembers what has happened to a pool, and has the pool remember it if it is `served`.
    pub(super) fn tell(&self, pool: &str, served: Option<&ServedPool>, class: EventClass, text: String) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        let event = Event { time, class: class.word().into(), text };
        if let Some(served) = served {
            // A disk with errors has them all the time: they wait for a group that others need.
            served.filer.pool().note_event(&event, class != EventClass::Errors);
        }
        self.ring.lock().push(pool, event);
    }

    /// Tells what is new since the last look, of the pools that are `served` by now.
    pub(super) fn look(&self, served: impl Fn() -> Vec<Arc<ServedPool>>) {
        // Whoever holds it looks, too.
        let Some(mut seen) = self.seen.try_lock_for(LOOK) else { return };
        let served = served();
        seen.retain(|guid, _| served.iter().any(|pool| pool.guid() == *guid));
        for pool in served {
            let (name, before) = (pool.filer.name(), seen.remove(&pool.guid()));
            let now = Seen::of(&pool).before_it_is_decided(before.as_ref());
            let is_first = before.is_none();
            for (class, text) in now.news(before.as_ref(), &pool) {
                // A pool remembers how its last scrub ended, also behind an import.
                if !(is_first && class == EventClass::ScrubFinish && self.is_known(&name, &text)) {
                    self.tell(&name, Some(&pool), class, text);
                }
            }
            seen.insert(pool.guid(), now);
        }
    }
}

/// Starts the thread that has somebody `look`.
pub(super) fn watch(look: impl FnMut() + Send + 'static) -> io::Result<Ticker> {
    Ticker::start("events", LOOK, look)
}

/// How a pool was at the last look.
#[derive(Default)]
struct Seen {
    is_suspended: bool,
    legs: BTreeMap<VdevGuid, (LegState, LegErrors)>,
    /// What runs over whole disks: the class of its beginning, and the disk.
    running: Vec<(EventClass, String)>,
    space_alarms: Vec<String>,
    ended: Vec<String>,
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
            running: served.copies.begun(),
            ended: served.copies.outcomes().into_iter().chain(ended_scrub(served)).collect(),
        }
    }

    /// A leg that is about to be left out, because it failed or by a command, stands as it did until the labels say which: a look in that moment told of one that was
    /// put away that it had failed.
    fn before_it_is_decided(mut self, before: Option<&Self>) -> Self {
        for (guid, (state, _)) in self.legs.iter_mut().filter(|(_, (state, _))| *state == LegState::Failing) {
            if let Some((old, _)) = before.and_then(|before| before.legs.get(guid)) {
                *state = *old;
            }
        }
        self
    }

    /// What is new, by class. Without a look before this one, what is not as it should be.
    fn news(&self, before: Option<&Self>, served: &ServedPool) -> Vec<(EventClass, String)> {
        let mut news = Vec::new();
        let (is_first, nothing) = (before.is_none(), Self::default());
        let before = before.unwrap_or(&nothing);
        let pool = served.filer.pool();
        if self.is_suspended && !before.is_suspended {
            let why = pool.fault().map(|fault| fault.0.clone()).unwrap_or_default();
            news.push((EventClass::PoolSuspended, why));
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
                None if is_first => news.push((EventClass::StateChange, format!("{path} is {}", state.word()))),
                None => news.push((EventClass::VdevAttach, format!("{path} is {}", state.word()))),
                Some((old, old_errors)) => {
                    if old.word() != state.word() {
                        news.push((
                            EventClass::StateChange,
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
                        news.push((EventClass::Errors, errors_of(&path, more)));
                    }
                }
            }
        }
        for guid in before.legs.keys().filter(|guid| !self.legs.contains_key(guid)) {
            news.push((EventClass::VdevRemove, format!("disk {guid} has left the pool")));
        }
        for alarm in self.space_alarms.iter().filter(|alarm| !before.space_alarms.contains(alarm)) {
            news.push((EventClass::SpaceAlarm, alarm.clone()));
        }
        news.extend(self.running.iter().filter(|running| !before.running.contains(running)).cloned());
        for outcome in self.ended.iter().filter(|outcome| !before.ended.contains(outcome)) {
            let is_scrub = outcome.starts_with("scrub");
            let class = if is_scrub { EventClass::ScrubFinish } else { EventClass::ResilverFinish };
            news.push((class, outcome.clone()));
        }
        news
    }
}
