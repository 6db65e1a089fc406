//! The end of a pool in this process: exported, destroyed, or forgotten by those who wait for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use tally_base::{PoolGuid, Size};
use tally_fs::filer::{Filer, FilerError};

use super::chronicle::Said;
use super::error::{DiskError, End, PoolsError};
use super::pools::Pools;
use super::served::ServedPool;
use super::ticker::Ticker;
use super::work::Event;
use super::{manager, silence};
use crate::control::report::EventClass;

/// How long a request that is still at a disk may keep it open, and how often that is looked at. A disk that hangs for longer
/// was refused before.
const HELD_MAX: Duration = Duration::from_secs(5);
/// See [`HELD_MAX`].
const HELD_PAUSE: Duration = Duration::from_millis(10);

/// How often it is looked whether what was retained of an exported pool is over.
const LOOK_AT_RETAINED: Duration = Duration::from_secs(1);

/// The daemon's own thread, which imports, hears when what clients have of an exported pool was retained for a lease.
pub(super) fn watch_retained(pools: &Arc<Pools>, sender: Sender<Event>) -> io::Result<Ticker> {
    let pools = Arc::clone(pools);
    Ticker::start("retained", LOOK_AT_RETAINED, move || {
        if !pools.absent.retained_too_long(Instant::now()).is_empty() {
            // A daemon that is at its end retains nothing.
            let _ends = sender.send(Event::RetainedTooLong);
        }
    })
}

impl Pools {
    /// What a start after the sudden end of this process will have to do.
    #[must_use]
    pub fn last_words(&self) -> String {
        let lanes = |pool: &Arc<ServedPool>| pool.filer.pool().lanes().iter().map(|lane| lane.fill().used).sum::<u64>();
        let line = |pool: &Arc<ServedPool>| {
            let lost = match pool.filer.exposure().0 {
                0 => String::new(),
                bytes => format!(" {} acknowledged with sync=disabled are lost.", Size(bytes)),
            };
            let (name, log) = (pool.filer.name(), Size(lanes(pool)));
            format!("Pool '{name}' was not exported: the next start replays up to {log} of its log.{lost}")
        };
        self.held().iter().map(line).collect::<Vec<_>>().join(" ")
    }

    /// The pool that the daemon's own thread is letting go of, if it is at that: by a command, or at the end.
    pub(super) fn going(&self) -> Vec<Arc<ServedPool>> {
        self.going.lock().clone()
    }

    /// All pools whose disks are open: those that are being let go first, and then those that are served, by name.
    pub(super) fn held(&self) -> Vec<Arc<ServedPool>> {
        let mut held = self.going();
        let mut served = self.all();
        served.retain(|pool| !held.iter().any(|going| Arc::ptr_eq(going, pool)));
        held.append(&mut served);
        held
    }

    /// Writes a pool out and lets go of it. Its clients wait until it is imported again. Copies to disks that join or come back are interrupted,
    /// and go on then. Refused while a disk leaves, or hangs. Gives its guid.
    pub(super) fn export(&self, name: &str, said: Option<&Said>) -> Result<PoolGuid, PoolsError> {
        self.check_unmounted(name)?;
        let pool = self.pool_to_let_go(name)?;
        said.inspect(|said| said.write_down(&pool));
        self.end(&pool, End::Exported, Filer::export)?;
        self.unlist(pool.guid());
        Ok(pool.guid())
    }

    /// Whether a pool can be destroyed, as far as that can be told without letting go of it. One that is suspended has nowhere
    /// to say so.
    pub(super) fn check_destroy(&self, name: &str) -> Result<Arc<ServedPool>, PoolsError> {
        let pool = self.pool(name)?;
        if pool.filer.pool().read_only() {
            return Err(PoolsError::ReadOnlyDestroy { name: name.into() });
        }
        if pool.filer.pool().fault().is_some() {
            return Err(DiskError::Suspended { pool: name.into() }.into());
        }
        no_disk_is_silent(&pool)?;
        pool.copies.check_destroy()?;
        Ok(pool)
    }

    /// Destroys a pool. Refused while a disk is copied, or hangs, and where nothing can be written. Gives its guid.
    pub(super) fn destroy(&self, name: &str, said: Option<&Said>) -> Result<PoolGuid, PoolsError> {
        self.check_unmounted(name)?;
        self.check_destroy(name)?;
        let pool = self.pool_to_let_go(name)?;
        said.inspect(|said| said.write_down(&pool));
        self.end(&pool, End::Destroyed, Filer::destroy)?;
        self.absent.forget(pool.guid());
        self.refresh_exports();
        self.unlist(pool.guid());
        Ok(pool.guid())
    }

    /// Puts a pool away. One that cannot be is away all the same, and stays in sight: its threads have ended, and what was
    /// acknowledged is in its log.
    fn end(
        &self,
        pool: &Arc<ServedPool>,
        end: End,
        how: fn(&Filer) -> Result<(), FilerError>,
    ) -> Result<(), PoolsError> {
        let (guid, name) = (pool.guid(), pool.filer.name());
        let keeps = self.lease.filter(|_| matches!(end, End::Exported));
        let handover = keeps.and_then(|_| pool.filer.hand_over());
        // Before it goes: as long as nobody has it for lost, nothing is.
        self.absent.let_go(guid, name.clone(), pool.handle_key(), handover.clone());
        let ended = self.put_away(pool, how);
        match (handover, keeps, &ended) {
            (Some(handover), Some(lease), Ok(())) => {
                handover.left_by(&pool.filer);
                self.absent.retain_until(guid, Instant::now() + lease);
            }
            (Some(_), ..) => self.retain_no_more(guid),
            (None, ..) => {}
        }
        let class = match end {
            End::Exported => EventClass::PoolExport,
            End::Destroyed => EventClass::PoolDestroy,
        };
        self.tell(&name, class, ended.as_ref().map_or_else(ToString::to_string, |()| format!("it was {end}")));
        ended.map_err(|source| {
            self.absent.because(guid, format!("It was not {end}: {source}"));
            PoolsError::NotPutAway { name, end, source: Box::new(source) }
        })
    }

    /// What clients have of exported pools is retained for a lease: they are told that it is over where nobody has imported one by then.
    pub(super) fn end_retaining(&self) {
        self.absent.retained_too_long(Instant::now()).into_iter().for_each(|pool| self.retain_no_more(pool));
    }

    fn retain_no_more(&self, pool: PoolGuid) {
        self.absent.retain_no_more(pool);
        self.refresh_exports();
    }

    /// Waits no more for a pool that is away, by its name or guid. Gives its name and guid.
    pub fn forget(&self, word: &str) -> Result<(String, PoolGuid), PoolsError> {
        let is_it = |pool: &&Arc<ServedPool>| pool.filer.name() == word || pool.guid().to_string() == word;
        let is_imported = self.all().iter().any(|pool| is_it(&pool));
        let mut away = self.absent.find(word);
        let name = word.to_owned();
        let one = match away.pop() {
            Some(one) if away.is_empty() && !is_imported => one,
            Some(one) => {
                let guids = away.iter().chain([&one]).map(|(_, guid)| guid.to_string()).collect();
                return Err(PoolsError::ForgetWhich { name, guids });
            }
            None if is_imported => return Err(PoolsError::ForgetImported { name }),
            None => return Err(PoolsError::NotAway { name }),
        };
        self.absent.forget(one.1);
        self.refresh_exports();
        self.unlist(one.1);
        Ok(one)
    }

    /// A pool of the list was found destroyed: nobody waits for it any more.
    pub(super) fn forget_destroyed(&self, pool: PoolGuid) {
        self.absent.forget(pool);
        self.refresh_exports();
        self.unlist(pool);
    }

    /// A pool that may be let go: no disk of it hangs, no copy runs on it, and none begins any more; a scrub and a copy to a disk that joins or comes back are
    /// interrupted. A disk that owes an answer may write what it was given at any time, also when the pool is long imported
    /// elsewhere; and whoever let go of it would wait for that disk.
    fn pool_to_let_go(&self, name: &str) -> Result<Arc<ServedPool>, PoolsError> {
        let pool = self.pool(name)?;
        no_disk_is_silent(&pool)?;
        pool.copies.close()?;
        Ok(pool)
    }

    /// Lets go of a pool and ends it, by export or for good; until that is over its disks count as open.
    pub(super) fn put_away(
        &self,
        pool: &Arc<ServedPool>,
        how: fn(&Filer) -> Result<(), FilerError>,
    ) -> Result<(), FilerError> {
        self.going.lock().push(Arc::clone(pool));
        self.let_go(pool);
        let result = how(&pool.filer);
        pool.join();
        *self.let_go_at.lock() = Some(Instant::now());
        // Whoever finds that no pool is going any more must find this, too.
        self.comes_on();
        self.going.lock().retain(|going| !Arc::ptr_eq(going, pool));
        result
    }

    /// Waits a moment, if a pool was let go of so lately that a request which was under way may have its disks open still: then what found them in use is to be
    /// tried again.
    pub(super) fn may_be_closing(&self) -> bool {
        let may_be = self.let_go_at.lock().is_some_and(|at| at.elapsed() < HELD_MAX);
        if may_be {
            self.comes_on();
            thread::sleep(HELD_PAUSE);
        }
        may_be
    }

    /// No new request reaches the pool from here on; those that run keep it alive.
    fn let_go(&self, pool: &Arc<ServedPool>) {
        self.served.write().retain(|served| !Arc::ptr_eq(served, pool));
        self.refresh_exports();
    }

    /// Exports every pool at the end of the process, and keeps the list for the next start. Copies are stopped first:
    /// those to disks that join go on with the next import. A pool with a disk that hangs is the last: the others need not wait
    /// for that disk. Nor need they for the end of a copy, which may meet a disk that hangs and is not known yet. Gives
    /// what went wrong.
    pub fn export_all(&self) -> Vec<(String, FilerError)> {
        let mut failures = Vec::new();
        let mut pools = self.all();
        pools.sort_by_key(|pool| {
            (!silence::silent(std::slice::from_ref(pool)).is_empty(), !pool.copies.running().is_empty())
        });
        self.comes_on();
        for pool in pools {
            pool.copies.stop_all();
            manager::exports(&pool.filer.name());
            if let Err(error) = self.put_away(&pool, Filer::export) {
                failures.push((pool.filer.name(), error));
            }
        }
        failures
    }
}

/// A disk that owes an answer may write what it was given at any time: its pool cannot be let go.
pub(super) fn no_disk_is_silent(pool: &Arc<ServedPool>) -> Result<(), PoolsError> {
    let Some(leg) = silence::silent(std::slice::from_ref(pool)).pop() else { return Ok(()) };
    let (name, path, seconds) = (pool.filer.name(), leg.path, leg.silent_for.as_secs());
    Err(if leg.has_left {
        PoolsError::Owed { name, path, seconds }
    } else {
        PoolsError::Silent { name, path, seconds }
    })
}
