//! What a whole pool takes of the memory, by the account of the allocator: its caches and what is dirty, and a quarter of that
//! for everything else. Each part has an account of its own, and each was right while the process held many times as much.
//!
//! The account is the whole process's, so there is one test here. The disks are files, whose content is nobody's memory.

mod world;

use std::sync::Arc;
use std::thread::JoinHandle;

use peak_alloc::PeakAlloc;
use tally_base::{SystemClock, SystemRng};
use tally_disk::{Helpers, Host, Platform, SerialFanout, SystemOpener};
use tally_fs::Filer;
use tally_fs::filer::CreateOptions;
use tally_members::grammar::parse_vdev_args;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, Outcome, Stability, Vfs};
use world::{ctx, mode, noise, vfs};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const MIB: u64 = 1 << 20;
const CACHE_BYTES: u64 = 24 * MIB;
const DIRTY_BYTES: u64 = 24 * MIB;
/// All that the process may have on its heap at any moment.
const HEAP_MAX: u64 = (CACHE_BYTES + DIRTY_BYTES) * 5 / 4;
/// A block of a large file.
const RECORD_BYTES: u64 = 128 << 10;
/// Of a large file: more than cache and dirty limit together.
const LARGE_BYTES: u64 = 60 * MIB;
const SMALL_COUNT: u64 = 1000;

fn pool_in(dir: &std::path::Path) -> (Arc<Filer>, Vec<JoinHandle<()>>) {
    let path = dir.join("data");
    std::fs::File::create(&path).unwrap().set_len(1024 * MIB).unwrap();
    let specs = parse_vdev_args(&[path.to_str().unwrap().to_owned()]).unwrap();
    let platform = Platform {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SystemRng),
        opener: Arc::new(SystemOpener),
        fanout: Arc::new(SerialFanout),
        helpers: Helpers::Threads,
        host: Host { id: 1, name: "test".into() },
    };
    let tuning = Tuning { cache_bytes: CACHE_BYTES, dirty_bytes_max: DIRTY_BYTES, ..Tuning::default() };
    let filer = Filer::create(&platform, &tuning, "tank", &specs, &CreateOptions::default()).unwrap();
    let threads = filer.background().into_iter().map(|(_, body)| std::thread::spawn(body)).collect();
    (filer, threads)
}

/// As a server does: a client that is told to wait waits.
fn admitted<T>(ask: impl Fn() -> Outcome<T>) -> T {
    loop {
        let outcome = ask();
        match (outcome.wait.block().expect("the pool works"), outcome.result) {
            (_, Err(FsError::Throttled)) => {}
            (_, result) => return result.unwrap(),
        }
    }
}

fn file(fs: &dyn Vfs, name: &str) -> ObjectRef {
    let cred = Cred::root();
    admitted(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)))).object
}

/// With the first byte at `skip`: blocks that are written whole are placed at once, others stay in memory.
fn write_large(fs: &dyn Vfs, name: &str, skip: u64, stability: Stability) {
    let (cred, large) = (Cred::root(), file(fs, name));
    for at in 0..LARGE_BYTES / MIB {
        let data = noise(MIB as usize - 2 * skip as usize, at);
        admitted(|| fs.write(ctx(&cred), large, at * MIB + skip, data.clone(), stability));
    }
    admitted(|| fs.commit(ctx(&cred), large, 0, 0));
}

/// The first half of each block of a file, block by block.
fn write_halves(fs: &dyn Vfs, name: &str) {
    let (cred, large) = (Cred::root(), fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).unwrap().0.object);
    for at in 0..LARGE_BYTES / RECORD_BYTES {
        let data = noise(RECORD_BYTES as usize / 2, at);
        admitted(|| fs.write(ctx(&cred), large, at * RECORD_BYTES, data.clone(), Stability::Unstable));
    }
}

fn read_all(fs: &dyn Vfs, large: ObjectRef) {
    for at in 0..LARGE_BYTES / MIB {
        fs.read(&Cred::root(), large, at * MIB, MIB as u32).unwrap();
    }
}

#[test]
fn a_pool_takes_its_cache_and_its_dirty_limit_and_little_beside() {
    let dir = tempfile::tempdir().unwrap();
    let (filer, threads) = pool_in(dir.path());
    let fs = vfs(&filer);
    let cred = Cred::root();
    let check = |what: &str, work: &dyn Fn()| {
        HEAP.reset_peak_usage();
        work();
        let peak = HEAP.peak_usage() as u64;
        assert!(peak <= HEAP_MAX, "{what}: {} MiB of heap, and {} are allowed", peak / MIB, HEAP_MAX / MIB);
        println!("{what}: {} MiB", peak / MIB);
    };
    check("large files, unstable", &|| write_large(&*fs, "a", 0, Stability::Unstable));
    check("large files, each write stable", &|| write_large(&*fs, "b", 0, Stability::FileSync));
    check("blocks that are not whole", &|| write_large(&*fs, "c", 1000, Stability::Unstable));
    check("files of some bytes", &|| {
        for number in 0..SMALL_COUNT {
            let small = file(&*fs, &format!("small {number}"));
            let data = noise(1 + number as usize % 9000, number);
            admitted(|| fs.write(ctx(&cred), small, 300_000 * (number % 2), data.clone(), Stability::Unstable));
        }
    });
    let read = || {
        for name in [&b"a"[..], b"b", b"c"] {
            read_all(&*fs, fs.lookup(&cred, fs.root(), name).unwrap().0.object);
        }
        for number in 0..SMALL_COUNT {
            let (attr, _) = fs.lookup(&cred, fs.root(), format!("small {number}").as_bytes()).unwrap();
            fs.read(&cred, attr.object, 300_000 * (number % 2), 9000).unwrap();
        }
    };
    check("reading", &read);
    // Room that was lent for what is fetched ahead is back by then, and full, unless the threads for that were late.
    check("reading again", &read);
    let full = filer.pool().io.stats().cache_bytes;
    assert!(full > CACHE_BYTES * 3 / 4, "the work fills the cache: {} MiB", full / MIB);
    check("parts of blocks, above a full cache", &|| write_halves(&*fs, "a"));
    check("removing", &|| {
        for name in [&b"a"[..], b"b", b"c"] {
            admitted(|| fs.remove(ctx(&cred), fs.root(), name));
        }
        for number in 0..SMALL_COUNT {
            admitted(|| fs.remove(ctx(&cred), fs.root(), format!("small {number}").as_bytes()));
        }
        (0..3).for_each(|_| assert!(filer.sync().is_ok()));
    });
    let left = filer.pool().io.stats().cache_bytes;
    assert!(left < CACHE_BYTES / 8, "blocks of removed files leave the cache: {} MiB are left", left / MIB);
    drop(fs);
    filer.export().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
