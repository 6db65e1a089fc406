//! A thread that looks at something every so often: samples for the history, disks that hang, memory that runs short.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The thread. It ends when this is dropped, behind the look that it is at.
pub(super) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts it; `look` is called for the first time after one `interval`.
    pub(super) fn start(name: &str, interval: Duration, mut look: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                look();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was printed; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}
