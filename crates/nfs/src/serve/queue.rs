//! Work that waits for a worker.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tally_base::Fate;

use super::connection::Connection;
use super::hub::Charge;
use crate::service::Job;

/// A request with the connection it came on. Dropping it gives back what it was charged, and lets nobody wait for it:
/// wherever a request is lost, with its connection, its promise or its worker, it comes by here.
pub(super) struct Work {
    pub(super) job: Job,
    pub(super) connection: Arc<Connection>,
    pub(super) charge: Charge,
}

impl Drop for Work {
    fn drop(&mut self) {
        let hub = self.charge.hub();
        let Some((reply, attached)) = hub.service.abandon(&mut self.job) else { return };
        hub.tell(&self.connection, reply.clone());
        for other in attached.iter().filter_map(|link| hub.connection(link.id())) {
            hub.tell(&other, reply.clone());
        }
    }
}

/// Something to do.
pub(super) enum Task {
    /// Carry a request of this connection out.
    Run(Arc<Connection>),
    /// The wait of these is over: send their replies.
    Settle(Vec<(Box<Work>, Fate)>),
}

/// Replies that are settled at a time by one worker, so that those of one connection leave together. No more, since
/// all of them wait when that worker loses its processor.
const SETTLE_BATCH: usize = 8;

/// What waits. Bounded by the connections that have requests in the house, and by those requests: each is here at most
/// once.
#[derive(Default)]
pub(super) struct Queue {
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    /// Each with one request or more, in turn.
    run: VecDeque<Arc<Connection>>,
    settled: VecDeque<(Box<Work>, Fate)>,
}

impl Queue {
    pub(super) fn list(&self, connection: Arc<Connection>) {
        self.lists.lock().run.push_back(connection);
    }

    pub(super) fn push_settled(&self, work: Box<Work>, outcome: Fate) {
        self.lists.lock().settled.push_back((work, outcome));
    }

    /// The next task, and whether more is waiting. Replies first: clients wait for them.
    pub(super) fn pop(&self) -> Option<(Task, bool)> {
        let mut lists = self.lists.lock();
        let task = if lists.settled.is_empty() {
            Task::Run(lists.run.pop_front()?)
        } else {
            let count = lists.settled.len().min(SETTLE_BATCH);
            Task::Settle(lists.settled.drain(..count).collect())
        };
        Some((task, !lists.run.is_empty() || !lists.settled.is_empty()))
    }

    pub(super) fn is_empty(&self) -> bool {
        let lists = self.lists.lock();
        lists.run.is_empty() && lists.settled.is_empty()
    }

    /// Drops everything.
    pub(super) fn clear(&self) {
        let lists = std::mem::take(&mut *self.lists.lock());
        drop(lists);
    }
}
