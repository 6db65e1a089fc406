//! What `-n` says is what the command does, and nobody is in the way of others by asking.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tally_base::{SystemClock, SystemRng};
use tally_disk::{Disk, Durability, Geometry, Helpers, Host, Platform, ThreadFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::filer::CreateOptions;
use tally_members::label::Section;
use tally_members::roster::Roster;
use tally_store::tuning::Tuning;

use super::*;
use crate::daemon::importing::ImportOrder;
use crate::daemon::state::State;

const DISK: u64 = 32 << 20;
/// So long the test waits for what should come in an instant, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long somebody looks at a disk.
const LOOK: Duration = Duration::from_millis(500);

fn pools(data_dir: &Path, opener: &Arc<MemOpener>) -> Arc<Pools> {
    let platform = Platform {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SystemRng),
        opener: Arc::clone(opener) as _,
        fanout: Arc::new(ThreadFanout::default()),
        helpers: Helpers::Threads,
        host: Host { id: 1, name: "here".into() },
    };
    Arc::new(Pools::begin(platform, Tuning::default(), State::load(data_dir).expect("an empty directory"), Vec::new()))
}

/// Fills the labels, so that so many bytes are left of what somebody may wish for.
fn fill(roster: &Roster, left: usize) {
    let carry = |bytes: usize| {
        let section = Section { id: 900, must_be_known: false, bytes: vec![7; bytes] };
        roster.update(|config| config.carried = vec![section])
    };
    let (mut low, mut high) = (0, 1 << 20);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        // What is longer than before is refused, and what is shorter is not.
        carry(0).expect("it is shorter");
        if carry(middle).is_ok() { low = middle } else { high = middle }
    }
    carry(0).expect("it is shorter");
    carry(low - left).expect("there is room for it");
}

/// `-n` said that a disk would be taken in where the labels of the pool had no room for another one, and the command was refused.
#[test]
fn what_the_labels_have_no_room_for_is_foreseen() {
    let dir = tempfile::tempdir().expect("a directory");
    let opener = Arc::new(MemOpener::default());
    for name in ["/a", "/b", "/c", "/s"] {
        opener.put(name, Arc::new(MemDisk::new(DISK)));
    }
    let pools = pools(dir.path(), &opener);
    let words = ["mirror", "/a", "/b"].map(String::from);
    let served = pools.create("tank", &words, &CreateOptions::default(), Vec::new()).expect("a pool");
    pools.add("tank", &["spare", "/s"].map(String::from), false).expect("a spare");
    let roster = &served.filer.pool().roster;
    let (name, c) = ("tank".to_owned(), PathBuf::from("/c"));
    let attach = Request::PoolAttach { name: name.clone(), device: "/a".into(), new_device: c.clone(), force: false };
    let replace =
        Request::PoolReplace { name: name.clone(), device: "/a".into(), new_device: Some(c.clone()), force: false };
    let add = Request::PoolAdd { name, vdevs: ["spare", "/c"].map(String::from).into(), force: false };
    for request in [&attach, &replace, &add] {
        pools.would(request).expect("there is room");
    }
    fill(roster, 8);
    let foreseen = [&attach, &replace, &add].map(|request| pools.would(request).map_err(|error| error.to_string()));
    let refused = [
        pools.attach("tank", "/a", &c, false, &mut |_| {}).map_err(|error| error.to_string()),
        pools.replace("tank", "/a", Some(&c), false, &mut |_| {}).map_err(|error| error.to_string()),
        pools
            .add("tank", &["spare", "/c"].map(String::from), false)
            .map(|_| Vec::new())
            .map_err(|error| error.to_string()),
    ];
    for (refused, foreseen) in refused.iter().zip(&foreseen) {
        let refused = refused.as_ref().expect_err("the labels are full");
        assert!(refused.contains("shorter paths"), "{refused}");
        let numbers_aside = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let foreseen = foreseen.as_ref().map_err(|error| numbers_aside(error));
        assert_eq!(foreseen, Err(numbers_aside(refused)));
    }
}

/// A disk that takes its time with the first read behind a sign.
struct Slow {
    disk: MemDisk,
    is_next: AtomicBool,
    has_begun: AtomicBool,
}

impl Disk for Slow {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.is_next.swap(false, Ordering::SeqCst) {
            self.has_begun.store(true, Ordering::SeqCst);
            thread::sleep(LOOK);
        }
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

/// Somebody asked with `-n` whether a disk could be attached, and in that moment its pool was imported: it was "in use by another process".
#[test]
fn an_import_waits_for_who_only_looks() {
    let dir = tempfile::tempdir().expect("a directory");
    let opener = Arc::new(MemOpener::default());
    let slow =
        Arc::new(Slow { disk: MemDisk::new(DISK), is_next: AtomicBool::new(false), has_begun: AtomicBool::new(false) });
    opener.put("/a", Arc::new(MemDisk::new(DISK)));
    opener.put("/b", Arc::clone(&slow) as Arc<dyn Disk>);
    let pools = pools(dir.path(), &opener);
    for (name, disk) in [("tank", "/a"), ("other", "/b")] {
        pools.create(name, &[disk.to_owned()], &CreateOptions::default(), Vec::new()).expect("a pool");
    }
    pools.export("other", None).expect("it is let go");
    slow.is_next.store(true, Ordering::SeqCst);
    let asker = Arc::clone(&pools);
    let asking = thread::spawn(move || {
        let (name, device, new_device) = ("tank".into(), "/a".into(), "/b".into());
        asker.would(&Request::PoolAttach { name, device, new_device, force: true }).map_err(|error| error.to_string())
    });
    let given_up = Instant::now() + PATIENCE;
    while !slow.has_begun.load(Ordering::SeqCst) {
        assert!(Instant::now() < given_up, "nobody looks at the disk");
        thread::sleep(Duration::from_millis(1));
    }
    let order = ImportOrder { pool: "other".into(), paths: vec!["/b".into()], ..ImportOrder::default() };
    let imported = pools.import(&order, &mut |_| {}).map(drop).map_err(|error| error.to_string());
    let would = asking.join().expect("no panic");
    assert_eq!(imported, Ok(()));
    assert!(would.is_ok_and(|words| words[0].contains("would erase /b")));
    // Who only looks does not wait, and is told whose it is by now.
    let attach = Request::PoolAttach { name: "tank".into(), device: "/a".into(), new_device: "/b".into(), force: true };
    let refused = pools.would(&attach).expect_err("it is in use").to_string();
    assert!(refused.contains("is in use"), "{refused}");
}
