//! A machine with three disks, of which the server has two, and with neighbours.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

/// How long a flush takes.
const FLUSH: Duration = Duration::from_micros(50);
/// Between two looks of a server that writes by a clock.
const CLOCK: Duration = Duration::from_millis(5);

/// What neighbours do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Noise {
    None,
    /// To the server's own disk: 900 writes a second, 8 KiB each.
    Bytes,
    /// The same, each with a flush.
    Flushes,
    /// Once a second thirty flushes, one right behind the other.
    Bursts,
    /// Flushes, to the spare disk.
    Spare,
}

/// A disk's counters, as the kernel shows them.
pub(super) struct Disk {
    stat: File,
    counts: Mutex<[u64; 3]>,
}

impl Disk {
    fn new(block: &std::path::Path, name: &str) -> Self {
        let folder = block.join(name);
        fs::create_dir_all(folder.join("queue")).unwrap();
        fs::write(folder.join("queue/write_cache"), "write back\n").unwrap();
        fs::write(folder.join("queue/fua"), "0\n").unwrap();
        let disk = Self { stat: File::create(folder.join("stat")).unwrap(), counts: Mutex::default() };
        disk.count([0; 3]);
        disk
    }

    fn count(&self, more: [u64; 3]) {
        let mut counts = self.counts.lock();
        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        let [writes, sectors, flushes] = *counts;
        // Of one length always, so that no reader sees half of it.
        let text = format!("0 0 0 0 {writes:015} 0 {sectors:015} 0 0 0 0 0 0 0 0 {flushes:015} 0\n");
        self.stat.write_all_at(text.as_bytes(), 0).unwrap();
    }

    pub(super) fn write(&self, bytes: u64) {
        self.count([1, bytes.div_ceil(512), 0]);
    }

    pub(super) fn flush(&self) {
        thread::sleep(FLUSH);
        self.count([0, 0, 1]);
    }
}

/// All of it; clones are the same machine.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) own: Arc<Disk>,
    pub(super) log: Arc<Disk>,
    shared: Arc<Shared>,
}

struct Shared {
    folder: TempDir,
    ended: AtomicBool,
    requests: AtomicU64,
    /// Bytes that are put off, and whether a flush follows them.
    put_off: Mutex<(u64, bool)>,
    /// Threads of the server that have something to do behind a reply.
    busy: AtomicUsize,
    idle: (Mutex<()>, Condvar),
}

impl Machine {
    pub(super) fn new(noise: Noise) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path().join("block");
        let disk = |name| Arc::new(Disk::new(&block, name));
        let (own, log, spare) = (disk("own"), disk("log"), disk("spare"));
        let shared = Shared {
            folder,
            ended: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            put_off: Mutex::default(),
            busy: AtomicUsize::new(0),
            idle: Default::default(),
        };
        let machine = Self { own, log, shared: Arc::new(shared) };
        let noisy = if noise == Noise::Spare { spare } else { machine.own.clone() };
        machine.keep_doing(
            match noise {
                Noise::None => Duration::from_secs(3600),
                Noise::Bursts => Duration::from_secs(1),
                _ => Duration::from_millis(1),
            },
            move |_| match noise {
                Noise::None => {}
                Noise::Bytes => noisy.write(8192),
                Noise::Flushes | Noise::Spare => {
                    noisy.write(8192);
                    noisy.flush();
                }
                Noise::Bursts => (0..30).for_each(|_| {
                    noisy.write(8192);
                    noisy.flush();
                }),
            },
        );
        machine.keep_doing(CLOCK, |machine| {
            let (bytes, flush) = std::mem::take(&mut *machine.shared.put_off.lock());
            if bytes > 0 {
                machine.own.write(bytes);
            }
            if flush {
                machine.own.flush();
            }
        });
        machine
    }

    fn keep_doing(&self, every: Duration, what: impl Fn(&Self) + Send + 'static) {
        let machine = self.clone();
        thread::spawn(move || {
            while !machine.shared.ended.load(SeqCst) {
                what(&machine);
                thread::park_timeout(every.min(Duration::from_secs(1)));
            }
        });
    }

    /// Where the counters of its disks are.
    pub(super) fn block(&self) -> PathBuf {
        self.shared.folder.path().join("block")
    }

    /// Does something behind a reply.
    pub(super) fn spawn(&self, what: impl FnOnce(&Self) + Send + 'static) {
        self.shared.busy.fetch_add(1, SeqCst);
        let machine = self.clone();
        thread::spawn(move || {
            what(&machine);
            let _guard = machine.shared.idle.0.lock();
            machine.shared.busy.fetch_sub(1, SeqCst);
            machine.shared.idle.1.notify_all();
        });
    }

    /// Waits until nothing is done behind replies.
    pub(super) fn wait_for_others(&self) {
        let mut guard = self.shared.idle.0.lock();
        while self.shared.busy.load(SeqCst) > 0 {
            self.shared.idle.1.wait(&mut guard);
        }
    }

    /// Has it written by the clock.
    pub(super) fn put_off(&self, bytes: u64, flush: bool) {
        let mut put_off = self.shared.put_off.lock();
        put_off.0 += bytes;
        put_off.1 |= flush;
    }

    /// One request in ten.
    pub(super) fn is_tenth(&self) -> bool {
        self.shared.requests.fetch_add(1, SeqCst) % 10 == 9
    }

    pub(super) fn end(&self) {
        self.shared.ended.store(true, SeqCst);
    }
}
