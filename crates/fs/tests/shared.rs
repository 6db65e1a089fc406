//! What long WRITEs have brought is in the cache as it came, beside its neighbours in one buffer (docs/design/0021): what is
//! kept alive for it is by the account of the allocator.
//!
//! The account is the whole process's, so there is one test here. The disks are files, whose content is nobody's memory.

mod world;

use std::path::Path;
use std::sync::Arc;

use peak_alloc::PeakAlloc;
use tally_base::{SystemClock, SystemRng, Wait};
use tally_disk::{Helpers, Host, Platform, SerialFanout, SystemOpener};
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_members::assemble::PoolSelect;
use tally_members::discover::ImportSource;
use tally_members::grammar::parse_vdev_args;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, Outcome, Stability, Vfs};
use world::{ctx, mode, noise, vfs};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Less, and no block shares a buffer.
const CACHE_BYTES: u64 = 128 * MIB;
/// Tables, and what is known of the pool and its files.
const REST_BYTES: u64 = 4 * MIB;

fn platform() -> Platform {
    Platform {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SystemRng),
        opener: Arc::new(SystemOpener),
        fanout: Arc::new(SerialFanout),
        helpers: Helpers::Threads,
        host: Host { id: 1, name: "test".into() },
    }
}

fn tuning() -> Tuning {
    Tuning { cache_bytes: CACHE_BYTES, dirty_bytes_max: 1024 * MIB, ..Tuning::default() }
}

fn pool_in(dir: &Path, log_bytes: u64, record_size: &str) -> Arc<Filer> {
    let mut words = Vec::new();
    for (name, bytes) in [("data", 4096 * MIB), ("log", log_bytes)] {
        let path = dir.join(name);
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        words.push(path.to_str().unwrap().to_owned());
    }
    words.insert(1, "log".into());
    let specs = parse_vdev_args(&words).unwrap();
    let texts = [(Property::LogBias, "latency"), (Property::RecordSize, record_size)];
    let properties = PropertySet::from_iter(texts.map(|(property, text)| parse(property, text).unwrap()));
    let options = CreateOptions { properties, ..CreateOptions::default() };
    Filer::create(&platform(), &tuning(), "tank", &specs, &options).unwrap()
}

fn admitted<T>(filer: &Filer, ask: impl Fn() -> Outcome<T>) -> (T, Wait) {
    loop {
        let outcome = ask();
        match outcome.result {
            Err(FsError::Throttled) => {
                filer.sync().unwrap();
            }
            result => return (result.unwrap(), outcome.wait),
        }
    }
}

fn file(filer: &Filer, fs: &dyn Vfs, name: &str) -> ObjectRef {
    let cred = Cred::root();
    admitted(filer, || fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)))).0.object
}

fn write(filer: &Filer, fs: &dyn Vfs, file: ObjectRef, at: u64, length: u64) -> Wait {
    let data = noise(length as usize, at + file.id.0);
    admitted(filer, || fs.write(ctx(&Cred::root()), file, at, data.clone(), Stability::FileSync)).1
}

/// The cache may keep a quarter alive beside what it says (rules P5).
fn check(what: &str, empty: u64, filer: &Filer) {
    let (taken, said) = (HEAP.current_usage() as u64 - empty, filer.pool().io.stats().cache_bytes);
    println!("{what}: the cache says {} KiB and took {}", said / KIB, taken / KIB);
    assert!(said > 20 * MIB && said <= CACHE_BYTES, "{what}: the cache says {} KiB", said / KIB);
    assert!(taken <= said * 5 / 4 + REST_BYTES, "{what}: the cache says {} KiB and took {}", said / KIB, taken / KIB);
}

#[test]
fn what_is_shared_is_what_the_cache_says() {
    whole_writes();
    writes_that_are_half_written_over();
    what_a_frame_has_brought();
    what_follows();
    writes_of_which_a_third_is_whole_blocks();
}

/// The whole blocks of a WRITE are placed, and what is beside them is copied by its group.
fn writes_of_which_a_third_is_whole_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let filer = pool_in(dir.path(), 64 * MIB, "128K");
    filer.set_property("tank", parse(Property::LogBias, "throughput").unwrap()).unwrap();
    let fs = vfs(&filer);
    let empty = HEAP.current_usage() as u64;
    let file = file(&filer, &*fs, "file");
    for number in 0..200 {
        let data = noise(376 << 10, number);
        let at = number * 512 * KIB + 4 * KIB;
        admitted(&filer, || fs.write(ctx(&Cred::root()), file, at, data.clone(), Stability::Unstable));
    }
    filer.sync().unwrap();
    check("a third is whole blocks", empty, &filer);
}

/// Less than half of what the cache holds: each block of it is there still.
fn whole_writes() {
    let dir = tempfile::tempdir().unwrap();
    let filer = pool_in(dir.path(), 2048 * MIB, "128K");
    let fs = vfs(&filer);
    let empty = HEAP.current_usage() as u64;
    let files: Vec<_> = (0..50).map(|number| file(&filer, &*fs, &format!("file {number}"))).collect();
    for file in &files {
        write(&filer, &*fs, *file, 0, MIB).block().unwrap();
    }
    filer.sync().unwrap();
    check("whole", empty, &filer);
    let misses = filer.pool().io.stats().misses;
    for file in &files {
        fs.read(&Cred::root(), *file, 0, MIB as u32).unwrap();
    }
    assert_eq!(filer.pool().io.stats().misses, misses, "blocks that were read although they had just been written");
    check("whole, and read", empty, &filer);
}

fn writes_that_are_half_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let filer = pool_in(dir.path(), 2048 * MIB, "128K");
    let fs = vfs(&filer);
    let empty = HEAP.current_usage() as u64;
    for number in 0..100 {
        let file = file(&filer, &*fs, &format!("file {number}"));
        write(&filer, &*fs, file, 0, MIB).block().unwrap();
        write(&filer, &*fs, file, 0, 511 * KIB).block().unwrap();
    }
    filer.sync().unwrap();
    check("half written over", empty, &filer);
}

/// A long WRITE and many short ones, each time in one frame of 4 MiB.
fn what_a_frame_has_brought() {
    let dir = tempfile::tempdir().unwrap();
    let filer = pool_in(dir.path(), 2048 * MIB, "128K");
    let fs = vfs(&filer);
    let short: Vec<_> = (0..23).map(|number| file(&filer, &*fs, &format!("short {number}"))).collect();
    for number in 0..24 {
        let long = file(&filer, &*fs, &format!("long {number}"));
        let mut last = write(&filer, &*fs, long, 0, MIB);
        for short in &short {
            last = write(&filer, &*fs, *short, number % 2 * 128 * KIB, 128 * KIB);
        }
        last.block().unwrap();
    }
    drop((fs, filer));
    let empty = HEAP.current_usage() as u64;
    let source = ImportSource { paths: vec![dir.path().join("data"), dir.path().join("log")], dirs: vec![] };
    let (select, options) = (PoolSelect::Name("tank".into()), ImportOptions::default());
    let (filer, report) = Filer::import(&platform(), &tuning(), &source, &select, &options, &mut |_| {}).unwrap();
    assert!(report.records_replayed > 24 * 24, "{} records", report.records_replayed);
    check("replayed", empty, &filer);
}

/// Of each of many WRITEs one short block is left in memory, and follows when its file is placed.
fn what_follows() {
    let dir = tempfile::tempdir().unwrap();
    let filer = pool_in(dir.path(), 512 * MIB, "4K");
    let fs = vfs(&filer);
    let empty = HEAP.current_usage() as u64;
    let file = file(&filer, &*fs, "file");
    let unstable = |at: u64| {
        let data = noise(MIB as usize, at);
        let written = fs.write(ctx(&Cred::root()), file, at, data, Stability::Unstable);
        assert!(written.result.is_ok(), "the group is not closed before all of it has come");
    };
    (0..40).for_each(|number| unstable(number * 4 * KIB));
    // An eighth of the ring stays in memory.
    let (stays, placed) = (64 * MIB, 24 * MIB);
    (0..(stays + placed) / MIB).for_each(|number| unstable((2 + number) * MIB));
    let (taken, said) = (HEAP.current_usage() as u64 - empty, filer.pool().io.stats().cache_bytes);
    println!("followed: the cache says {} KiB, and with what is dirty it is {} KiB", said / KIB, taken / KIB);
    assert!(said > placed, "the cache says {} KiB", said / KIB);
    // All that is left of it is dirty or in the cache.
    let content = 2 * MIB + stays + placed;
    assert!(taken <= content * 5 / 4 + REST_BYTES, "{} KiB of {}", taken / KIB, content / KIB);
}
