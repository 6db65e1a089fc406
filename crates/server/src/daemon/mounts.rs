//! What this machine has mounted: a list, beside that of pools.
//!
//! A mount begins with a command and ends when the kernel has it mounted no more, of which its [`Session`] hears. Commands that would take a dataset or a pool from below one ask here, in the
//! daemon's own thread, in which mounts begin as well.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::{DatasetId, PoolGuid};
use tally_fuse::Session;

use super::bell::Bell;
use super::fd_store::{self, Parts};
use crate::mount_table::Device;

/// Most mounts: each has threads of its own.
pub(super) const MOUNTS_MAX: usize = 1024;

/// How long requests that were read are waited for at the end.
const AT_A_DISK_MAX: Duration = Duration::from_secs(10);

/// The list.
pub(super) struct Mounts {
    list: Mutex<Vec<Mount>>,
    next: AtomicU64,
    /// For who shares what is mounted.
    changed: Arc<Bell>,
}

/// One of them.
struct Mount {
    seen: Seen,
    /// From when on it is served.
    session: Option<Session>,
    /// By this whoever comes behind this process serves it.
    kept: Option<Parts>,
}

/// What is known of one.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) number: u64,
    pub(super) pool: PoolGuid,
    pub(super) dataset: DatasetId,
    pub(super) dir: PathBuf,
    pub(super) device: Option<Device>,
    pub(super) since: Instant,
    /// Requests that wait to be run again.
    pub(super) waiting: usize,
}

impl Mounts {
    /// None, and whom to tell of each.
    pub(super) fn new(changed: &Arc<Bell>) -> Self {
        Self { list: Mutex::default(), next: AtomicU64::default(), changed: Arc::clone(changed) }
    }

    /// Lists one, which is to be served from a moment later on. Nothing, where there are too many.
    pub(super) fn begin(
        &self,
        (pool, dataset): (PoolGuid, DatasetId),
        dir: PathBuf,
        device: Option<Device>,
        kept: Option<Parts>,
    ) -> Option<u64> {
        let mut list = self.list.lock();
        if list.len() >= MOUNTS_MAX {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seen = Seen { number, pool, dataset, dir, device, since: Instant::now(), waiting: 0 };
        list.push(Mount { seen, session: None, kept });
        Some(number)
    }

    /// It is served so; it may have ended meanwhile.
    pub(super) fn serves(&self, number: u64, session: Session) {
        if let Some(mount) = self.list.lock().iter_mut().find(|mount| mount.seen.number == number) {
            mount.session = Some(session);
        }
        self.changed.ring();
    }

    /// It is mounted no more.
    pub(super) fn end(&self, number: u64) {
        self.list.lock().retain(|mount| {
            let goes = mount.seen.number == number;
            mount.kept.iter().filter(|_| goes).for_each(Parts::forget);
            !goes
        });
        self.changed.ring();
    }

    /// What programs have open and locked is so in datasets that have come meanwhile.
    pub(super) fn take_over(&self) {
        self.sessions().iter().for_each(Session::take_over);
    }

    /// What groups have made durable since is owed by no commit any more.
    pub(super) fn settle(&self) {
        self.sessions().iter().for_each(Session::settle);
    }

    /// Nobody waits for the list while one of these waits for a disk.
    fn sessions(&self) -> Vec<Session> {
        self.list.lock().iter().filter_map(|mount| mount.session.clone()).collect()
    }

    /// Leaves those that are kept to whoever comes behind this process: no request is read from here on. Gives them, by pool.
    pub(super) fn hand_over(&self) -> Vec<(PoolGuid, Session)> {
        let mut handed = Vec::new();
        for mount in self.list.lock().iter_mut() {
            let Some(kept) = &mount.kept else { continue };
            if !fd_store::is_asked_again() && kept.keep().is_err() {
                // It ends with this process.
                continue;
            }
            handed.extend(mount.session.take().map(|session| (mount.seen.pool, session)));
        }
        // All at once: one that waits for a disk keeps no other one from it.
        handed.iter().for_each(|(_, session)| session.hand_over());
        let until = Instant::now() + AT_A_DISK_MAX;
        handed.retain(|(_, session)| {
            let is_over = session.is_handed_over(until);
            if !is_over {
                tracing::warn!(
                    "a request of a program is at a disk still: it is asked for again, or lost with its mount"
                );
            }
            is_over
        });
        handed
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Seen> {
        let seen = |mount: &Mount| {
            let waiting = mount.session.as_ref().map_or(0, Session::parked);
            Seen { waiting, ..mount.seen.clone() }
        };
        self.list.lock().iter().map(seen).collect()
    }
}
