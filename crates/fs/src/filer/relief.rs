//! Groups that are synced beside a long replay.
//!
//! A replay keeps one core busy, and the fold of what it made dirty another one for as long. One after the other they
//! take twice the time, and hold everything in memory. So when enough is dirty the group is closed and synced in a
//! thread of its own, and the records go on in the next one, as requests do. A replay that stays below needs no thread.

use std::thread::{Scope, ScopedJoinHandle};

use tally_base::Txg;
use tally_store::pool::{Pool, SyncError};

/// Dirty bytes from which a group is worth a sync.
const DIRTY_BYTES: u64 = 64 << 20;

/// At most one sync at a time.
pub(super) struct Relief<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    pool: &'env Pool,
    running: Option<ScopedJoinHandle<'scope, Result<Txg, SyncError>>>,
}

impl<'scope, 'env> Relief<'scope, 'env> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, pool: &'env Pool) -> Self {
        Self { scope, pool, running: None }
    }

    /// Called between two records: starts a sync if there is enough for one, and waits for it if there is too much.
    pub(super) fn relieve(&mut self) -> Result<(), SyncError> {
        let most = self.pool.tuning.dirty_bytes_max / 2;
        let dirty = self.pool.txgs.dirty_bytes();
        if dirty < DIRTY_BYTES.min(most / 2) {
            return Ok(());
        }
        match &self.running {
            Some(sync) if !sync.is_finished() && dirty < most => return Ok(()),
            _ => self.finish()?,
        }
        let pool = self.pool;
        if !pool.tuning.helper_threads {
            return pool.sync().map(drop);
        }
        self.running = Some(self.scope.spawn(|| pool.sync()));
        Ok(())
    }

    /// Waits for the sync that is under way.
    pub(super) fn finish(&mut self) -> Result<(), SyncError> {
        let Some(sync) = self.running.take() else { return Ok(()) };
        sync.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(drop)
    }
}
