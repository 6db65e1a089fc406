//! A pool with a disk that hangs, and is taken out of its mirror meanwhile.

use std::io;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tally_base::{SystemClock, SystemRng};
use tally_disk::{Disk, Durability, Geometry, Helpers, Host, ThreadFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::filer::CreateOptions;
use tally_nfs::exports::Exports;
use tally_vfs::{Cred, Identity, Names, OpCtx, SetAttr};

use super::*;
use crate::control::message::Assignment;
use crate::daemon::importing::ImportOrder;
use crate::daemon::silence;

mod accepted;
mod opened;

/// So long the test waits for what should come in an instant, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A disk that answers no write of a block while somebody holds it; labels and logs are written durably.
struct Hanging {
    disk: MemDisk,
    held: Mutex<()>,
}

impl Disk for Hanging {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        let _answered = (durability == Durability::Cached).then(|| self.held.lock());
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

fn pools(data_dir: &Path, opener: &Arc<MemOpener>) -> Arc<Pools> {
    Arc::new(begin(data_dir, opener))
}

fn begin(data_dir: &Path, opener: &Arc<MemOpener>) -> Pools {
    begin_on(1, data_dir, opener)
}

/// Of another machine.
fn begin_on(machine: u64, data_dir: &Path, opener: &Arc<MemOpener>) -> Pools {
    let platform = Platform {
        clock: Arc::new(SystemClock::default()),
        rng: Arc::new(SystemRng),
        opener: Arc::clone(opener) as _,
        fanout: Arc::new(ThreadFanout::default()),
        helpers: Helpers::Threads,
        host: Host { id: machine, name: "here".into() },
    };
    let tuning = Tuning { txg_interval: Duration::from_millis(100), ..Tuning::default() };
    Pools::begin(platform, tuning, State::load(data_dir).expect("an empty directory"), Vec::new())
}

/// A leg of a mirror hung in the middle of a sync. `export` was refused, and said that the disk could be detached; then
/// it began, and waited for the sync, which waited for the disk: no command of any pool was answered any more. Nor did
/// the end of the process know of a disk that had left, and it waited as long.
#[test]
fn a_pool_is_not_let_go_while_somebody_waits_for_a_disk_that_has_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let opener = Arc::new(MemOpener::default());
    let m = Arc::new(Hanging { disk: MemDisk::new(32 << 20), held: Mutex::new(()) });
    for name in ["/a", "/l"] {
        opener.put(name, Arc::new(MemDisk::new(32 << 20)));
    }
    opener.put("/m", Arc::clone(&m) as Arc<dyn Disk>);
    let pools = pools(dir.path(), &opener);
    let words = ["mirror", "/a", "/m", "log", "/l"].map(String::from);
    let served = pools.create("tank", &words, &CreateOptions::default(), Vec::new()).expect("a pool");

    let hung = m.held.lock();
    let fs = served.filer.by_name("tank").expect("its first dataset");
    let root = Cred::root();
    let made = fs.mkdir(OpCtx::of(&root), fs.root(), b"d", &SetAttr::default());
    assert!(made.result.is_ok());
    let given_up = Instant::now() + PATIENCE;
    while silence::silent(std::slice::from_ref(&served)).is_empty() {
        assert!(Instant::now() < given_up, "no group meets the disk");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(matches!(pools.export("tank", None), Err(PoolsError::Silent { .. })));
    pools.detach("tank", "/m", true, &mut |_| {}).expect("it may leave");

    let known_count = silence::silent(std::slice::from_ref(&served)).len();
    let (sender, answer) = channel();
    let exporter = Arc::clone(&pools);
    let exporting = thread::spawn(move || sender.send(exporter.export("tank", None)));
    let answer = answer.recv_timeout(PATIENCE);
    drop(hung);
    exporting.join().expect("no panic").ok();
    assert_eq!(
        (answer.is_ok(), known_count),
        (true, 1),
        "whether a command is answered, and disks that the end knows of"
    );
    let error = answer.expect("a command is answered").expect_err("a sync waits for the disk");
    assert!(error.to_string().contains("/m is no part of 'tank' any more"), "{error}");
    // Nobody waits for it any more, once the sync is over.
    let given_up = Instant::now() + PATIENCE;
    while pools.export("tank", None).is_err() {
        assert!(Instant::now() < given_up, "the pool is never let go");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A request was under way when its pool was exported, and kept the disks open for some milliseconds more: the import behind that found them in use, by another
/// process as it said.
#[test]
fn a_pool_can_be_imported_right_behind_its_export() {
    let dir = tempfile::tempdir().expect("a directory");
    let opener = Arc::new(MemOpener::default());
    for name in ["/a", "/l"] {
        opener.put(name, Arc::new(MemDisk::new(32 << 20)));
    }
    let pools = pools(dir.path(), &opener);
    let words = ["/a", "log", "/l"].map(String::from);
    let served = pools.create("tank", &words, &CreateOptions::default(), Vec::new()).expect("a pool");
    let under_way = served.filer.by_name("tank").expect("its first dataset");
    drop(served);
    pools.export("tank", None).expect("it is let go");
    let answers = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        drop(under_way);
    });
    let paths = ["/a", "/l"].map(Into::into).to_vec();
    let order = ImportOrder { pool: "tank".into(), paths, ..ImportOrder::default() };
    let imported = pools.import(&order, &mut |_| {});
    answers.join().expect("no panic");
    assert!(imported.is_ok(), "{:?}", imported.err());
}

/// A dataset that the configuration closes gets another name, and another one is made under the old name. The first one stays
/// closed as long as nobody changes the configuration, also when it is read again; and what the configuration names is closed
/// at any time.
#[test]
fn what_the_configuration_closes_stays_closed_when_its_name_is_used_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let opener = Arc::new(MemOpener::default());
    for name in ["/a", "/l"] {
        opener.put(name, Arc::new(MemDisk::new(32 << 20)));
    }
    let pools = pools(dir.path(), &opener);
    let words = ["/a", "log", "/l"].map(String::from);
    let served = pools.create("tank", &words, &CreateOptions::default(), Vec::new()).expect("a pool");
    let everybody = Assignment { property: "sharenfs".into(), value: "rw".into() };
    pools.set_properties("tank", &[everybody]).expect("a property");
    let closed = || vec![ExportRule { dataset: "tank/secret".into(), rules: "off".into() }];
    pools.set_rules_above(closed());
    let open = || {
        let is_open = |name: &&str| {
            let dataset = served.filer.by_name(name)?.dataset();
            pools.live.pool(served.guid())?.rule(dataset, std::net::Ipv4Addr::LOCALHOST.into())
        };
        ["tank/secret", "tank/hidden"].into_iter().filter(|name| is_open(name).is_some()).collect::<Vec<_>>()
    };
    pools.create_dataset("tank/secret", false, &[]).expect("a dataset");
    assert_eq!(open(), [""; 0]);
    pools.rename_dataset("tank/secret", "tank/hidden").expect("another name");
    assert_eq!(open(), [""; 0]);
    pools.create_dataset("tank/secret", false, &[]).expect("a dataset");
    let when_made = open();
    pools.set_rules_above(closed());
    assert_eq!((when_made, open()), (vec![], vec![]), "when it is made, and when the configuration is read again");
}
