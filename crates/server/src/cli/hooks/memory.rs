//! Which events are done, and what was told within the last hour: a file of JSON, written anew each time and put in the old one's place.
//!
//! The daemon counts events from its start, and pools remember theirs behind that, so a number says nothing across two daemons: an event is
//! known by what it is and when it was. The newest [`DONE_MAX`] are kept, twice what a daemon remembers. What is older
//! than one that was dropped counts as done: a pool that comes back after a year has nothing to tell.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tally_base::name_hash;

use super::say;
use crate::control::report::{EventClass, EventReport};

/// Events that are known to be done.
const DONE_MAX: usize = 8192;
/// The same is told once in so many seconds.
const AGAIN_SECONDS: u64 = 3600;
/// What is older is no news: a pool that comes from another machine brings its events along.
const AGE_SECONDS_MAX: u64 = 7 * 24 * 3600;
/// So many events are told in an hour.
pub(super) const TOLD_MAX: usize = 100;
/// So often programs are begun for an event whose run is cut off each time: one of them may be what ends the service.
pub(super) const BEGUN_MAX: u32 = 3;
/// So many wait until the hour is over.
const POSTPONED_MAX: usize = 500;
/// More than that is no state of ours.
const STATE_BYTES_MAX: u64 = 4 << 20;

/// What is to be done with an event.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing: it is.
    Done,
    /// Nothing, as it is no news any more; or the clock was wrong when it happened.
    Old,
    /// Nothing yet: the same was told within the hour. The newest of it is [`Memory::due`] when that is over.
    Again,
    /// Nothing yet: others were told. With the event that says so, the first time.
    TooMany(Option<EventReport>),
    /// Programs are run, and then it is [`Memory::told`].
    Tell,
}

/// The memory.
#[derive(Default, Serialize, Deserialize)]
// Packages go up and down, and what one adds another one lacks.
#[serde(default)]
pub(super) struct Memory {
    /// Whether no daemon has answered yet.
    is_new: bool,
    /// Everything up to this time that is not known is done.
    forgotten_until_ns: u64,
    /// When they were, and what, in the order in which they were done.
    done: VecDeque<(u64, u64)>,
    /// What was told, and when, in seconds since 1970.
    told: BTreeMap<u64, u64>,
    /// The newest of each that comes again, or was one too many, until it may be told: what a disk is by now is told in the end.
    postponed: BTreeMap<u64, EventReport>,
    /// For which programs were begun and did not end, and how often: those that the service ended with.
    cut_off: BTreeMap<u64, u32>,
    /// Those of `done`.
    #[serde(skip)]
    known: HashSet<u64>,
    /// What waits for its programs, and of each the event.
    #[serde(skip)]
    waiting: BTreeMap<u64, u64>,
}

impl Memory {
    /// Of one who has heard of nothing.
    fn new() -> Self {
        Self { is_new: true, ..Self::default() }
    }

    /// What stands in the file. Where there is none nothing is known; and no more where it cannot be understood, which is then put
    /// aside: a service that ended with it would do so for ever.
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::new());
            }
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(STATE_BYTES_MAX).read_to_end(&mut text)?;
        let mut memory: Self = match serde_json::from_slice(&text) {
            Ok(memory) => memory,
            Err(error) => {
                let aside = aside(path);
                fs::rename(path, &aside)?;
                say(&format!(
                    "{} cannot be understood ({error}), so it is not known which events are done; it is now {}, and may be deleted",
                    path.display(),
                    aside.display()
                ));
                return Ok(Self::new());
            }
        };
        memory.known = memory.done.iter().map(|(_, id)| *id).collect();
        Ok(memory)
    }

    /// Writes it down, in the place of what stood there.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("new");
        let written = self.write(&beside).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // Half of it is of no use to anybody, and takes room.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_data()
    }

    /// The first answer of all: what has happened so far is no news. Says whether it was that.
    pub(super) fn begin(&mut self, events: &[EventReport], now: u64) -> bool {
        let is_new = std::mem::take(&mut self.is_new);
        if is_new {
            events.iter().for_each(|event| self.done(event, now));
        }
        is_new
    }

    /// What is to be done with an event, at this second since 1970.
    pub(super) fn judge(&mut self, event: &EventReport, now: u64) -> Verdict {
        let (id, same) = (id(event), same(event));
        if self.known.contains(&id) || event.time_ns <= self.forgotten_until_ns || self.waiting.get(&same) == Some(&id)
        {
            return Verdict::Done;
        }
        if event.time_ns / 1_000_000_000 < now.saturating_sub(AGE_SECONDS_MAX) {
            self.done(event, now);
            return Verdict::Old;
        }
        // A clock that was put back ends the wait.
        self.told.retain(|_, told| now >= *told && now - *told < AGAIN_SECONDS);
        if self.told.contains_key(&same) || self.waiting.contains_key(&same) {
            self.postpone(same, event, now);
            return Verdict::Again;
        }
        if self.told.len() + self.waiting.len() >= TOLD_MAX {
            self.postpone(same, event, now);
            return Verdict::TooMany(self.flood(event, now));
        }
        self.waiting.insert(same, id);
        Verdict::Tell
    }

    fn postpone(&mut self, same: u64, event: &EventReport, now: u64) {
        if self.postponed.len() < POSTPONED_MAX || self.postponed.contains_key(&same) {
            self.postponed.insert(same, event.clone());
        }
        self.done(event, now);
    }

    /// What was postponed and may be told by now.
    pub(super) fn due(&mut self, now: u64) -> Vec<EventReport> {
        if self.postponed.is_empty() {
            return Vec::new();
        }
        self.told.retain(|_, told| now >= *told && now - *told < AGAIN_SECONDS);
        let room = TOLD_MAX.saturating_sub(self.told.len() + self.waiting.len());
        let may = |same: &u64| !self.told.contains_key(same) && !self.waiting.contains_key(same);
        let due: Vec<_> =
            self.postponed.iter().filter(|(same, _)| may(same)).take(room).map(|(_, it)| it.clone()).collect();
        self.waiting.extend(due.iter().map(|event| (same(event), id(event))));
        due
    }

    /// The event that says that there are too many, if nobody was told so within the hour.
    fn flood(&mut self, event: &EventReport, now: u64) -> Option<EventReport> {
        let flood = EventReport {
            number: event.number,
            time_ns: now.saturating_mul(1_000_000_000),
            pool: event.pool.clone(),
            class: EventClass::Flood.word().into(),
            text: format!("more than {TOLD_MAX} events within an hour; `tally events` shows the others"),
        };
        let same = same(&flood);
        let is_first = !self.told.contains_key(&same) && !self.waiting.contains_key(&same);
        is_first.then(|| {
            self.waiting.insert(same, id(&flood));
            flood
        })
    }

    /// Programs are run for it: how often that was begun, this time too.
    pub(super) fn begun(&mut self, event: &EventReport) -> u32 {
        if self.cut_off.len() >= POSTPONED_MAX {
            self.cut_off.clear();
        }
        let times = self.cut_off.entry(id(event)).or_default();
        *times += 1;
        *times
    }

    /// All programs of it have ended.
    pub(super) fn told(&mut self, event: &EventReport, now: u64) {
        let same = same(event);
        self.waiting.remove(&same);
        self.cut_off.remove(&id(event));
        // One that has come since is told when the hour is over.
        if self.postponed.get(&same).is_some_and(|postponed| id(postponed) == id(event)) {
            self.postponed.remove(&same);
        }
        self.told.insert(same, now);
        self.done(event, now);
    }

    fn done(&mut self, event: &EventReport, now: u64) {
        let id = id(event);
        if !self.known.insert(id) {
            return;
        }
        self.done.push_back((event.time_ns, id));
        if self.done.len() > DONE_MAX
            && let Some((time_ns, id)) = self.done.pop_front()
        {
            self.known.remove(&id);
            // One of a clock that was wrong closes nobody's mouth until that time.
            if time_ns / 1_000_000_000 <= now {
                self.forgotten_until_ns = self.forgotten_until_ns.max(time_ns);
            }
        }
    }
}

/// Nobody else keeps this file while this one is there: two would tell each event twice, and put away what the other one has written.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path.with_extension("lock"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(io::Error::other("another `tally events run` keeps it")),
        Err(error) => Err(error.into()),
    }
}

/// Whether there was no room for it.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What is put there instead of being deleted: `done.json.bad`.
fn aside(path: &Path) -> PathBuf {
    let mut aside = path.to_owned().into_os_string();
    aside.push(".bad");
    aside.into()
}

/// What an event is known by. It stands in files.
fn id(EventReport { number: _, time_ns, pool, class, text }: &EventReport) -> u64 {
    name_hash(0, format!("{time_ns}\0{pool}\0{class}\0{text}").as_bytes())
}

/// What two events are the same by: their words, and of a disk's errors the disk, as their count is another each time. A flood is the
/// same whichever pool it comes from.
fn same(event: &EventReport) -> u64 {
    let EventReport { pool, class, text, .. } = event;
    let what = if event.is(EventClass::Flood) {
        class.clone()
    } else {
        format!("{pool}\0{class}\0{}", event.disk_with_errors().unwrap_or(text))
    };
    name_hash(0, what.as_bytes())
}

#[cfg(test)]
mod tests;
