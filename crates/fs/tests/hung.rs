//! A disk that neither answers nor refuses keeps whoever has asked it, for as long as it likes. Nobody else is to wait for
//! it: not who comes for the same block once the disk has left its mirror, and not who puts the pool away.

mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_store::properties::{Property, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, Stability, Vfs};
use world::{Faults, World, ctx, mode, noise, patient_by_hand, vfs};

const MIB: u64 = 1 << 20;
const RECORD: usize = 128 << 10;
const BLOCKS: u64 = 64;
const A: &str = "/disks/a";
/// Long enough that only who waits for ever is caught.
const PATIENCE: Duration = Duration::from_secs(30);

/// A mirror that was just imported, with a file in it. The nodes of its tree are cached, and of its blocks the last one.
struct Cold {
    world: World,
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    file: ObjectRef,
}

impl Cold {
    fn new() -> Self {
        let disks = [(A, 64 * MIB), ("/disks/b", 64 * MIB), ("/disks/slog", 16 * MIB)];
        let world = World::of(&disks, "mirror /disks/a /disks/b log /disks/slog").without_helpers();
        let properties = [parse(Property::Compression, "off").unwrap()].into_iter().collect();
        let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
        let (fs, cred) = (vfs(&filer), Cred::root());
        let how = CreateHow::Guarded(mode(0o644));
        let file = fs.create(ctx(&cred), fs.root(), b"file", &how).result.expect("an empty pool").object;
        for block in 0..BLOCKS {
            let data = noise(RECORD, block);
            let write = || fs.write(ctx(&cred), file, block * RECORD as u64, data.clone(), Stability::Unstable);
            patient_by_hand(&filer, write).expect("there is room");
        }
        filer.export().expect("a clean export");
        let (filer, _) =
            world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).expect("an import");
        let cold = Self { fs: vfs(&filer), world, filer, file };
        assert!(cold.read(BLOCKS - 1).recv().is_ok_and(|is_right| is_right == Ok(true)));
        cold
    }

    /// Has a thread read a block: whether it is what was written.
    fn read(&self, block: u64) -> Receiver<Result<bool, FsError>> {
        let (fs, file) = (Arc::clone(&self.fs), self.file);
        in_a_thread(move || {
            let read = fs.read(&Cred::root(), file, block * RECORD as u64, RECORD as u32)?;
            Ok(read.data.concat() == noise(RECORD, block))
        })
    }

    fn faults(&self) -> Arc<Faults> {
        self.world.faults(A)
    }

    fn detach(&self) {
        let roster = &self.filer.pool().roster;
        let vdev = roster.vdevs()[0].clone();
        let leg = vdev.legs().into_iter().find(|leg| leg.path().to_str() == Some(A)).expect("it is a leg");
        roster.detach(&vdev, leg.guid()).expect("the other one has everything");
    }
}

fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (answer, answered) = channel();
    std::thread::spawn(move || answer.send(work()));
    answered
}

fn wait_for(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "it does not come");
        std::thread::yield_now();
    }
}

#[test]
fn a_block_that_somebody_reads_from_a_disk_that_hangs_is_read_from_the_others_once_it_is_detached() {
    let cold = Cold::new();
    let faults = cold.faults();
    let held = faults.reads_held.write().unwrap();
    // No stream, and no steps. Each leg has its turn at every other mebibyte.
    let (block, stuck) = [3, 11, 26, 30, 47, 52]
        .into_iter()
        .find_map(|block| {
            let reader = cold.read(block);
            wait_for_either(&faults, 0, &reader).then_some((block, reader))
        })
        .expect("some of it is the first leg's turn");
    cold.detach();
    assert_eq!(cold.read(block).recv_timeout(PATIENCE), Ok(Ok(true)), "the other leg has it");
    assert!(stuck.try_recv().is_err(), "its disk hangs");
    drop(held);
    assert_eq!(stuck.recv_timeout(PATIENCE), Ok(Ok(true)));
    assert_eq!(cold.read(block).recv_timeout(PATIENCE), Ok(Ok(true)));
    cold.filer.export().expect("a clean export");
}

/// Whether it hangs. If not, it has read what was written.
fn wait_for_either(faults: &Faults, waited: u64, reader: &Receiver<Result<bool, FsError>>) -> bool {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        match reader.try_recv() {
            Ok(read) => {
                assert_eq!(read, Ok(true));
                return false;
            }
            Err(_) if faults.reads_waited.load(SeqCst) > waited => return true,
            Err(_) => std::thread::yield_now(),
        }
    }
    panic!("it neither hangs nor ends");
}

#[test]
fn what_is_fetched_ahead_from_a_disk_that_hangs_is_read_from_the_others_once_it_is_detached() {
    let cold = Cold::new();
    let faults = cold.faults();
    for block in 0..4 {
        assert_eq!(cold.read(block).recv(), Ok(Ok(true)));
    }
    let held = faults.reads_held.write().unwrap();
    let fetchers: Vec<_> = (0..4)
        .map(|_| {
            let filer = Arc::clone(&cold.filer);
            in_a_thread(move || while filer.read_ahead_once() {})
        })
        .collect();
    wait_for(|| faults.reads_waited.load(SeqCst) > 0);
    cold.detach();
    for block in 4..BLOCKS {
        assert_eq!(cold.read(block).recv_timeout(PATIENCE), Ok(Ok(true)), "block {block}: the other leg has it");
    }
    drop(held);
    fetchers.into_iter().for_each(|fetcher| fetcher.recv_timeout(PATIENCE).expect("its disk answers"));
    for block in 0..BLOCKS {
        assert_eq!(cold.read(block).recv_timeout(PATIENCE), Ok(Ok(true)), "block {block}");
    }
    cold.filer.export().expect("a clean export");
}

#[test]
fn an_export_does_not_wait_for_what_is_fetched_ahead_from_a_disk_that_hangs() {
    let cold = Cold::new();
    let faults = cold.faults();
    for block in 0..4 {
        assert_eq!(cold.read(block).recv(), Ok(Ok(true)));
    }
    let held = faults.reads_held.write().unwrap();
    let start = |bodies: Vec<(String, tally_fs::filer::Body)>| -> Vec<JoinHandle<()>> {
        bodies.into_iter().map(|(_, body)| std::thread::spawn(body)).collect()
    };
    let (needed, fetching) = (start(cold.filer.needed()), start(cold.filer.fetching_ahead()));
    wait_for(|| faults.reads_waited.load(SeqCst) > 0);
    let filer = Arc::clone(&cold.filer);
    let exported = in_a_thread(move || filer.export().is_ok());
    assert_eq!(exported.recv_timeout(PATIENCE), Ok(true), "it needs nothing of what hangs");
    wait_for(|| needed.iter().all(JoinHandle::is_finished));
    assert!(!fetching.iter().all(JoinHandle::is_finished), "one of them is at the disk");
    drop(held);
    wait_for(|| fetching.iter().all(JoinHandle::is_finished));
    let options = ImportOptions::default();
    let (filer, report) = cold.world.try_import_without_threads(&Tuning::default(), &options).expect("an import");
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    let cold = Cold { fs: vfs(&filer), filer, ..cold };
    for block in 0..BLOCKS {
        assert_eq!(cold.read(block).recv_timeout(PATIENCE), Ok(Ok(true)), "block {block}");
    }
}

/// READs of no stream go before what is fetched ahead. Those that a disk keeps for ever kept everybody else from that,
/// also when the disk had left the mirror.
#[test]
fn readers_whom_a_disk_keeps_do_not_end_reading_ahead() {
    let cold = Cold::new();
    let faults = cold.faults();
    let held = faults.reads_held.write().unwrap();
    let stuck: Vec<_> = [23, 26, 32, 39, 43, 47, 52, 58]
        .into_iter()
        .filter_map(|block| {
            let (waited, reader) = (faults.reads_waited.load(SeqCst), cold.read(block));
            wait_for_either(&faults, waited, &reader).then_some(reader)
        })
        .collect();
    assert!(stuck.len() > 2, "{} are kept", stuck.len());
    cold.detach();
    std::thread::sleep(Duration::from_millis(2100));
    for block in 0..20 {
        assert_eq!(cold.read(block).recv_timeout(PATIENCE), Ok(Ok(true)));
        while cold.filer.read_ahead_once() {}
    }
    let stats = cold.filer.pool().io.prefetch_stats();
    assert!(stats.hits > 10, "{stats:?}");
    drop(held);
    stuck.into_iter().for_each(|reader| assert_eq!(reader.recv_timeout(PATIENCE), Ok(Ok(true))));
    cold.filer.export().expect("a clean export");
}
