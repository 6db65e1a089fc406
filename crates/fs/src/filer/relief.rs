//! Groups that are synced beside a long replay.
//!
//! A replay keeps one core busy, and the fold of what it made dirty another one for as long. One after the other they
//! take twice the time, and hold everything in memory. So when enough is dirty the group is closed and synced by a
//! helper, and the records go on in the next one, as requests do. A replay that stays below needs none.

use tally_base::Txg;
use tally_disk::{BegunWithin, Within};
use tally_store::pool::{Pool, SyncError};

/// Dirty bytes from which a group is worth a sync.
const DIRTY_BYTES: u64 = 64 << 20;

/// At most one sync at a time.
pub(super) struct Relief<'scope, 'env> {
    helpers: Within<'scope, 'env>,
    pool: &'env Pool,
    running: Option<BegunWithin<'scope, Result<Txg, SyncError>>>,
}

impl<'scope, 'env> Relief<'scope, 'env> {
    pub(super) fn new(helpers: Within<'scope, 'env>, pool: &'env Pool) -> Self {
        Self { helpers, pool, running: None }
    }

    /// Called between two records: starts a sync if there is enough for one, and waits for it if there is too much.
    pub(super) fn relieve(&mut self) -> Result<(), SyncError> {
        let most = self.pool.tuning.dirty_bytes_max / 2;
        let dirty = self.pool.txgs.dirty_bytes();
        if dirty < DIRTY_BYTES.min(most / 2) {
            return Ok(());
        }
        match &self.running {
            Some(sync) if !sync.has_ended() && dirty < most => return Ok(()),
            _ => self.finish()?,
        }
        let pool = self.pool;
        self.running = self.helpers.begin(|| pool.sync());
        // Where nobody else does it, the replay stands still meanwhile.
        if self.running.is_none() { pool.sync().map(drop) } else { Ok(()) }
    }

    /// Waits for the sync that is under way.
    pub(super) fn finish(&mut self) -> Result<(), SyncError> {
        let Some(sync) = self.running.take() else { return Ok(()) };
        sync.result().map(drop)
    }
}
