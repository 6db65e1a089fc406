//! For how long a disk is waited for that does not answer, and who does what it is asked.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use tally_disk::{
    AlignedBuf, CountingDisk, Disk, Durability, Fanout, Geometry, Limit, Patience, PatientDisk, ThreadFanout,
};
use tally_fakes::MemDisk;

const SECTOR: usize = tally_base::SECTOR;
/// Long enough that only who waits for ever is caught.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers nothing while somebody holds it, and notes who has asked.
struct Held {
    disk: MemDisk,
    held: RwLock<()>,
    asked_by: Mutex<Vec<ThreadId>>,
}

impl Held {
    fn new() -> Arc<Self> {
        Arc::new(Self { disk: MemDisk::new(1 << 20), held: RwLock::default(), asked_by: Mutex::default() })
    }

    fn wait(&self) {
        self.asked_by.lock().push(std::thread::current().id());
        drop(self.held.read());
    }
}

impl Disk for Held {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.wait();
        self.disk.read(offset, buf)
    }
    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.wait();
        self.disk.write(offset, buf, durability)
    }
    fn flush(&self) -> io::Result<()> {
        self.wait();
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

/// Lets whoever waits leave after so many milliseconds, if at all.
#[derive(Default)]
struct After {
    ms: AtomicU64,
    may_leave: AtomicBool,
    has_left: AtomicBool,
    questions: AtomicU64,
}

impl Patience for After {
    fn limit(&self) -> Limit {
        let limit = Some(self.ms.load(Ordering::SeqCst)).filter(|ms| *ms > 0).map(Duration::from_millis);
        limit.map_or(Limit::Alone, Limit::After)
    }
    fn may_leave(&self, waited: Duration) -> bool {
        assert!(self.limit().is_over(waited));
        self.questions.fetch_add(1, Ordering::SeqCst);
        self.may_leave.load(Ordering::SeqCst)
    }
    fn has_left(&self) -> bool {
        self.has_left.load(Ordering::SeqCst)
    }
}

fn patient(ms: u64, may_leave: bool, fanout: &Arc<dyn Fanout>) -> (Arc<Held>, Arc<PatientDisk>, Arc<After>) {
    let (held, after) = (Held::new(), Arc::new(After::default()));
    after.ms.store(ms, Ordering::SeqCst);
    after.may_leave.store(may_leave, Ordering::SeqCst);
    let disk = Arc::new(PatientDisk::new(Arc::new(CountingDisk::new(Arc::clone(&held) as Arc<dyn Disk>))));
    disk.set_patience(Arc::clone(fanout), Arc::clone(&after) as Arc<dyn Patience>);
    (held, disk, after)
}

fn threads() -> Arc<dyn Fanout> {
    Arc::new(ThreadFanout::default())
}

fn until(is_so: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it does not come");
        std::thread::yield_now();
    }
}

#[test]
fn a_request_that_hangs_is_left_and_is_at_the_disk_until_it_is_answered() {
    let (held, disk, _) = patient(100, true, &threads());
    let (other_held, other, _) = patient(100, true, &threads());
    let hangs = held.held.write();
    let targets: [(Arc<dyn Disk>, u64); 2] = [(Arc::clone(&disk) as _, 0), (Arc::clone(&other) as _, 4096)];
    let outcomes = threads().write(&targets, &[7; SECTOR], Durability::Durable);
    let left = outcomes[0].as_ref().unwrap_err();
    assert_eq!((left.kind(), left.to_string()), (io::ErrorKind::TimedOut, "has not answered for 0 s".into()));
    assert!(outcomes[1].is_ok());
    assert_eq!(other_held.disk.content()[4096..4096 + SECTOR], [7; SECTOR]);
    for left in [disk.flush(), disk.write(8192, &[1; SECTOR], Durability::Cached), disk.read(0, &mut [0; SECTOR])] {
        assert_eq!(left.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    // What holds the disk open is what was left, and it says since when.
    let below = Arc::downgrade(disk.counting());
    assert!(disk.counting().silent_for().is_some());
    drop((disk, targets));
    assert!(below.upgrade().is_some());
    drop(hangs);
    until(|| below.upgrade().is_none());
    let content = held.disk.content();
    assert!(content[..SECTOR] == [7; SECTOR] && content[8192..8192 + SECTOR] == [1; SECTOR], "the late writes land");
}

#[test]
fn whoever_may_not_leave_waits_until_the_disk_answers() {
    let (held, disk, after) = patient(50, false, &threads());
    let hangs = held.held.write();
    let (sender, answered) = channel();
    let asking = Arc::clone(&disk);
    std::thread::spawn(move || sender.send(asking.flush()));
    until(|| after.questions.load(Ordering::SeqCst) > 2);
    assert!(answered.try_recv().is_err());
    drop(hangs);
    assert!(answered.recv_timeout(PATIENCE).is_ok_and(|outcome| outcome.is_ok()));
}

#[test]
fn a_disk_that_was_left_is_not_waited_for_by_anybody_else() {
    let (held, disk, after) = patient(3_600_000, true, &threads());
    let hangs = held.held.write();
    let (sender, answered) = channel();
    let asking = Arc::clone(&disk);
    std::thread::spawn(move || sender.send(asking.flush().map_err(|error| error.kind())));
    until(|| !held.asked_by.lock().is_empty());
    after.has_left.store(true, Ordering::SeqCst);
    assert_eq!(answered.recv_timeout(PATIENCE), Ok(Err(io::ErrorKind::TimedOut)));
    drop(hangs);
}

/// A pool on one disk pays for no change of threads, and neither does one without a limit.
#[test]
fn a_disk_without_a_limit_is_asked_in_place() {
    let fanout = threads();
    let (held, disk, _) = patient(0, true, &fanout);
    disk.write(0, &[3; SECTOR], Durability::Durable).unwrap();
    disk.flush().unwrap();
    disk.read(0, &mut [0; SECTOR]).unwrap();
    fanout.each(vec![disk.work(|disk| disk.flush())]).pop().unwrap().unwrap();
    fanout.write(&[(Arc::clone(&disk) as _, 0)], &[4; SECTOR], Durability::Durable).pop().unwrap().unwrap();
    let (sender, answered) = channel();
    let parts = vec![AlignedBuf::zeroed(SECTOR)];
    disk.begin_read(0, parts, move |parts, outcome| sender.send(outcome.map(|()| parts)).unwrap());
    assert_eq!(answered.try_recv().expect("it is read in place").unwrap()[0][..], [4; SECTOR]);
    let own = std::thread::current().id();
    assert_eq!(*held.asked_by.lock(), vec![own; 6]);
    // Of several the caller does one.
    let (other, second, _) = patient(0, true, &fanout);
    fanout.write(&[(disk as _, 0), (second as _, 0)], &[5; SECTOR], Durability::Durable);
    let by_caller = |held: &Held| held.asked_by.lock().last() == Some(&own);
    assert!(by_caller(&held) && !by_caller(&other));
}
