//! Work that may meet a disk that hangs, for somebody who cannot wait for the disk.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

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
