//! Work that may meet a disk that hangs, for somebody who cannot wait for the disk.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What `work` gives, if it does so in time. If not it goes on in a thread of its own, until the disk lets it.
pub(super) fn within<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    begin(work)?.recv_timeout(time).ok()
}

/// Begins `work` in a thread of its own, and gives where its outcome will come; `None` if there is no thread for it.
pub(super) fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    // Whoever asked may be gone by then.
    let spawned = thread::Builder::new().name("patience".into()).spawn(move || drop(sender.send(work())));
    spawned.ok().map(|_| receiver)
}

/// What is found for these in time; who is looking goes no further then than what he is at.
pub(super) fn found_within<K, V>(
    time: Duration,
    wanted: BTreeSet<K>,
    look: impl Fn(K) -> V + Send + 'static,
) -> HashMap<K, V>
where
    K: Copy + Eq + Hash + Send + 'static,
    V: Send + 'static,
{
    let (found, until) = (Arc::new(Mutex::new(HashMap::new())), Instant::now() + time);
    let shared = Arc::clone(&found);
    let look_for_all = move || {
        for one in wanted.into_iter().take_while(|_| Instant::now() < until) {
            let what = look(one);
            shared.lock().insert(one, what);
        }
    };
    let _in_time = within(time, look_for_all);
    std::mem::take(&mut *found.lock())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_in_time_is_told_and_nobody_looks_on() {
        let (looks, release) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(())));
        let (looked, held) = (Arc::clone(&looks), Arc::clone(&release));
        let disk = release.lock();
        let found = found_within(Duration::from_millis(50), (1..=5).collect(), move |one| {
            *looked.lock() += 1;
            let _hangs = (one == 3).then(|| held.lock());
            one * 10
        });
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [(1, 10), (2, 20)]);
        drop(disk);
        while Arc::strong_count(&looks) > 1 {
            std::thread::yield_now();
        }
        assert_eq!(*looks.lock(), 3, "not behind the time that there was");
    }
}
