//! Work that may meet a disk that hangs, for somebody who cannot wait for the disk.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What `work` gives, if it does so in time. If not it goes on in a thread of its own, until the disk lets it.
pub(super) fn within<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    // Whoever asked may be gone by then.
    let spawned = thread::Builder::new().name("patience".into()).spawn(move || drop(sender.send(work())));
    spawned.ok().and_then(|_| receiver.recv_timeout(time).ok())
}
