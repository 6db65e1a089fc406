//! Somebody else who uses the disk that is watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::disk::Disk;

/// What he does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Noise {
    None,
    /// 7 MB/s, and no flush.
    Bytes,
    /// A small write and a flush, 10 times in a second.
    Flushes,
    /// The same without a pause.
    Storm,
    /// Nothing for a while, then 16 MiB and flushes.
    Bursts,
}

/// He works until he is dropped.
pub(crate) struct Neighbour(Arc<AtomicBool>);

impl Neighbour {
    pub(crate) fn start(noise: Noise, disk: Arc<Disk>) -> Self {
        let ended = Arc::new(AtomicBool::new(noise == Noise::None));
        let neighbour = Self(Arc::clone(&ended));
        thread::spawn(move || {
            while !ended.load(Relaxed) {
                let (pause, bytes, flushes) = match noise {
                    Noise::None => return,
                    Noise::Bytes => (50, 350 << 10, 0),
                    Noise::Flushes => (100, 4096, 1),
                    Noise::Storm => (0, 4096, 1),
                    Noise::Bursts => (250, 16 << 20, 20),
                };
                thread::sleep(Duration::from_millis(pause));
                disk.write(bytes);
                (0..flushes).for_each(|_| disk.flush());
            }
        });
        neighbour
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
