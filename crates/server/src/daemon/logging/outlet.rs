//! A file to which lines go, and from which nobody comes back late.
//!
//! ```text
//!  any thread ── push ──▶ waiting lines, at most 1 MiB ── taken all at once ──▶ the writer ──▶ a file, maybe for ever
//!                 │ full, or lines were dropped since they were last taken
//!                 └────▶ dropped, counted
//! ```
//!
//! Once a line is dropped, all are until the writer comes: what is missing is missing in one place, and told there.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};

/// Some thousands of lines.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The way to a file.
pub(super) struct Outlet(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// There is something to write.
    come: Condvar,
    /// All is written.
    done: Condvar,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Since the writer came last.
    dropped: u64,
    dropped_in_all: u64,
    /// The writer has something in hand.
    writing: bool,
}

impl Outlet {
    /// A way to `file`; into nothing if there is none. `tell` hears how many lines were dropped.
    pub(super) fn start(file: Option<File>, tell: impl Fn(u64) + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        if let Some(file) = file {
            // Without a thread what does not fit is dropped, and counted.
            let _ = thread::Builder::new().name("log".into()).spawn(move || theirs.write_all(file, &tell));
        }
        Self(shared)
    }

    /// Takes lines, or drops them. Never waits for the file.
    pub(super) fn push(&self, lines: &[u8]) {
        let mut waiting = self.0.waiting.lock();
        if waiting.dropped > 0 || waiting.bytes.len() + lines.len() > WAITING_BYTES_MAX {
            waiting.dropped += count_lines(lines);
            waiting.dropped_in_all += count_lines(lines);
        } else {
            waiting.bytes.extend_from_slice(lines);
        }
        drop(waiting);
        self.0.come.notify_one();
    }

    /// How many were dropped.
    pub(super) fn lines_dropped(&self) -> u64 {
        self.0.waiting.lock().dropped_in_all
    }

    /// Waits until all is written, or so long.
    pub(super) fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut waiting = self.0.waiting.lock();
        while !waiting.bytes.is_empty() || waiting.writing {
            if self.0.done.wait_until(&mut waiting, until).timed_out() {
                return;
            }
        }
    }
}

impl Shared {
    /// The life of the writer.
    fn write_all(&self, mut file: File, tell: &dyn Fn(u64)) {
        let mut untold = 0;
        loop {
            let mut waiting = self.waiting.lock();
            while waiting.bytes.is_empty() && waiting.dropped == 0 {
                self.come.wait(&mut waiting);
            }
            let (bytes, dropped) = (std::mem::take(&mut waiting.bytes), std::mem::take(&mut waiting.dropped));
            waiting.writing = true;
            drop(waiting);
            // What cannot be written is told with the next lines that get through: nobody asks a full disk without end.
            let lost = if write(&mut file, &bytes) { 0 } else { count_lines(&bytes) };
            untold += dropped + lost;
            if lost == 0 && untold > 0 {
                tell(std::mem::take(&mut untold));
            }
            let mut waiting = self.waiting.lock();
            waiting.dropped_in_all += lost;
            waiting.writing = false;
            drop(waiting);
            self.done.notify_all();
        }
    }
}

/// Writes all of it, however long that takes; false if it cannot be written.
fn write(file: &mut File, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Somebody who shares the terminal has made it so.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(&*file, PollFlags::OUT)], None);
            }
            Err(_) => return false,
        }
    }
    true
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests;
