//! Requests whose pool was suspended, or left, while their change was on its way: nobody knows whether it is on disk.
//!
//! They are kept without an answer until the pool serves again, and are then run again (see [`crate::service`]). The warden
//! looks for that. What is kept is bounded by what clients had under way when the pool stopped: everything that comes later is
//! told to come again. Above the bound a request is answered with an I/O error, as under `failmode=continue`.
//!
//! What is kept counts for the house and no longer for its connection: one that had its most under way would not be read
//! again before the pool serves, and other pools' files, which a client asks for on the same connection, with it. Half a
//! record that nobody reads is a debt besides, and after a second the oldest there is: an honest client would have been
//! the first to go. Nor is a connection idle for which something is kept.
//!
//! A client may lose its connection meanwhile, and send the request again on another one: it is kept for that one then.

use std::sync::Arc;

use parking_lot::Mutex;

use super::work::{Connection, Work};
use crate::service::{Job, Service};

/// Bytes of requests that are kept: clients of other pools need the house's memory as well.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// And no more than such a part of what all requests may have.
const KEPT_PART: usize = 4;

/// See the module's head.
pub(super) struct Doubtful {
    bytes_max: usize,
    #[allow(clippy::vec_box)] // Everybody else hands them on boxed.
    works: Mutex<Vec<Box<Work>>>,
}

impl Doubtful {
    /// Where all requests together may have so many bytes.
    pub(super) fn new(record_bytes_max: usize) -> Self {
        Self { bytes_max: KEPT_BYTES_MAX.min(record_bytes_max / KEPT_PART), works: Mutex::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.works.lock().is_empty()
    }

    /// Whether one more may be kept.
    pub(super) fn has_room(&self, work: &Work) -> bool {
        let kept: usize = self.works.lock().iter().map(|kept| kept.charge.bytes()).sum();
        kept + work.charge.bytes() <= self.bytes_max
    }

    /// Whether the same request is kept, and will be answered.
    pub(super) fn has_like(&self, job: &Job) -> bool {
        self.works.lock().iter().any(|kept| kept.job.is_like(job))
    }

    /// Keeps a request until its pool serves.
    pub(super) fn keep(&self, mut work: Box<Work>) {
        work.charge.set_apart();
        self.works.lock().push(work);
    }

    /// Gives those whose pool serves, to be run again. Those that are left, or whose connection is gone by then, nobody is
    /// answered for: whoever still wants it sends it again, and the pool knows by its key what became of it. Up to then they
    /// are kept, so that he is not told that nothing was done; and on whichever connection he asks, which `connection` finds
    /// by its number, it is that one's from then on.
    #[allow(clippy::vec_box)]
    pub(super) fn take_ready(
        &self,
        service: &Service,
        connection: impl Fn(u64) -> Option<Arc<Connection>>,
    ) -> Vec<Box<Work>> {
        let mut works = self.works.lock();
        works.iter_mut().for_each(|work| hand_over(service, &connection, work));
        let (mut left, waiting): (Vec<_>, Vec<_>) = works.drain(..).partition(|work| service.is_left(&work.job));
        let (ready, waiting): (Vec<_>, _) = waiting.into_iter().partition(|work| service.may_go_on(&work.job));
        *works = waiting;
        drop(works);
        let (mut ready, gone): (Vec<_>, Vec<_>) = ready.into_iter().partition(|work| work.connection.link.is_alive());
        left.extend(gone);
        for mut work in left {
            service.leave(&mut work.job);
        }
        ready.iter_mut().for_each(|work| work.charge.take_back());
        ready
    }

    /// The server ends: their clients ask the next one.
    pub(super) fn leave_all(&self, service: &Service) {
        let works = std::mem::take(&mut *self.works.lock());
        for mut work in works {
            service.leave(&mut work.job);
        }
    }
}

/// If the connection of a request is gone, and it was sent again on another one, it is that one's.
fn hand_over(service: &Service, connection: impl Fn(u64) -> Option<Arc<Connection>>, work: &mut Work) {
    while !work.connection.link.is_alive()
        && let Some(heir) = service.hand_over(&mut work.job)
    {
        if let Some(connection) = connection(heir.id()) {
            work.charge.hand_over(&connection);
            work.connection = connection;
        }
    }
}
