//! Work that waits for a worker.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tally_base::Fate;

/// Something to do.
pub(super) enum Task<C, W> {
    /// Carry a request of this connection out.
    Run(C),
    /// The wait of these is over: send their replies.
    Reply(Vec<(W, Fate)>),
    /// Look after those who wait for something that nobody says is free.
    Look,
}

/// Replies that one worker sends at a time, so that those of one connection leave together. No more, since
/// all of them wait when that worker loses its processor.
const REPLY_BATCH: usize = 8;

/// What waits: connections (`C`), and requests (`W`). Bounded by the connections that have requests in the house, and by
/// those requests: each is here at most once.
pub(super) struct Queue<C, W> {
    lists: Mutex<Lists<C, W>>,
}

struct Lists<C, W> {
    /// Each with one request or more, in turn.
    run: VecDeque<C>,
    reply: VecDeque<(W, Fate)>,
    looks: bool,
    /// How many tasks were taken.
    taken: u64,
}

impl<C, W> Default for Lists<C, W> {
    fn default() -> Self {
        Self { run: VecDeque::new(), reply: VecDeque::new(), looks: false, taken: 0 }
    }
}

impl<C, W> Default for Queue<C, W> {
    fn default() -> Self {
        Self { lists: Mutex::default() }
    }
}

impl<C, W> Queue<C, W> {
    pub(super) fn list(&self, connection: C) {
        self.lists.lock().run.push_back(connection);
    }

    pub(super) fn push_reply(&self, work: W, outcome: Fate) {
        self.lists.lock().reply.push_back((work, outcome));
    }

    /// Somebody is to look, once.
    pub(super) fn push_look(&self) {
        self.lists.lock().looks = true;
    }

    /// The next task, and whether more is waiting. Replies first: clients wait for them.
    pub(super) fn pop(&self) -> Option<(Task<C, W>, bool)> {
        let mut lists = self.lists.lock();
        let task = if std::mem::take(&mut lists.looks) {
            Task::Look
        } else if lists.reply.is_empty() {
            Task::Run(lists.run.pop_front()?)
        } else {
            let count = lists.reply.len().min(REPLY_BATCH);
            Task::Reply(lists.reply.drain(..count).collect())
        };
        lists.taken += 1;
        Some((task, !lists.run.is_empty() || !lists.reply.is_empty()))
    }

    pub(super) fn is_empty(&self) -> bool {
        let lists = self.lists.lock();
        lists.run.is_empty() && lists.reply.is_empty() && !lists.looks
    }

    /// How many tasks were taken since it is there, if more wait.
    pub(super) fn taken_while_more_wait(&self) -> Option<u64> {
        let lists = self.lists.lock();
        (!lists.run.is_empty() || !lists.reply.is_empty()).then_some(lists.taken)
    }

    /// Drops everything.
    pub(super) fn clear(&self) {
        let lists = std::mem::take(&mut *self.lists.lock());
        drop(lists);
    }
}
