//! What is left to the threads: errands, and flights that nobody has begun.
//!
//! It is a hint like all that goes ahead of a reader, and the queue has a bound: in number, and in time, since all
//! threads may be at a disk that hangs. What it does not take or keep is given back to be dropped ([`super::Ahead`]
//! does that, as a flight has room in the cache).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tally_store::dataset::Dataset;
use tally_store::io::Flight;

use super::Errand;

/// Errands and flights that wait for a thread. What comes on top is dropped.
const TASKS_MAX: usize = 256;
/// How long it may wait. All threads may be at a disk that hangs, and a flight has room in the cache.
const TASK_AGE_MAX: Duration = Duration::from_secs(10);

pub(super) enum Task {
    Errand(Errand),
    /// Of blocks of this dataset.
    Flight(Arc<Dataset>, Arc<Flight>),
}

#[derive(Default)]
pub(super) struct Tasks {
    queue: Mutex<Queue>,
    /// There is a task, or there will be none any more.
    called: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Each with the time at which it was left.
    tasks: VecDeque<(Duration, Task)>,
    is_over: bool,
}

impl Tasks {
    /// Leaves one to whatever thread comes first. What there is no place for is given back.
    #[must_use]
    pub(super) fn leave(&self, task: Task, now: Duration) -> Option<Task> {
        let mut queue = self.queue.lock();
        if queue.tasks.len() >= TASKS_MAX {
            // Readers have carried these out, while no thread came to it: all of them may be at one disk.
            queue.tasks.retain(|(_, task)| !matches!(task, Task::Flight(_, flight) if !flight.is_planned()));
        }
        if queue.is_over || queue.tasks.len() >= TASKS_MAX {
            return Some(task);
        }
        queue.tasks.push_back((now, task));
        drop(queue);
        self.called.notify_one();
        None
    }

    /// Takes out what no thread has come to for too long.
    #[must_use]
    pub(super) fn take_old(&self, now: Duration) -> Vec<Task> {
        let mut queue = self.queue.lock();
        let count = queue.tasks.partition_point(|(left_at, _)| *left_at + TASK_AGE_MAX < now);
        queue.tasks.drain(..count).map(|(_, task)| task).collect()
    }

    /// The next one, if there is any.
    pub(super) fn take(&self) -> Option<Task> {
        self.queue.lock().tasks.pop_front().map(|(_, task)| task)
    }

    /// Waits for the next one. `None`: there will be none any more.
    pub(super) fn wait(&self) -> Option<Task> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_over {
                return None;
            }
            match queue.tasks.pop_front() {
                Some((_, task)) => return Some(task),
                None => self.called.wait(&mut queue),
            }
        }
    }

    /// Nothing is taken any more. Gives what was there.
    #[must_use]
    pub(super) fn end(&self) -> Vec<Task> {
        let left = {
            let mut queue = self.queue.lock();
            queue.is_over = true;
            std::mem::take(&mut queue.tasks)
        };
        self.called.notify_all();
        left.into_iter().map(|(_, task)| task).collect()
    }
}
