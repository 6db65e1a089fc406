//! Reading ahead: what a stream of READs will want next is fetched before it asks.
//!
//! **The problem.** The blocks of one READ are fetched at once, and nothing beyond it. A client that reads a cold file
//! in order gets one turn of the disk for each of its READs, however many bytes the disk could have moved in that time.
//!
//! **The idea.** READs that had to go beyond what is cached are noted ([`streams`]), and those that go on where others
//! have ended make a stream. A stream has a *window*: what is asked for ahead of it. The window begins with little and
//! doubles as often as its reader comes for a block that is not there yet: so it grows until it hides what the device
//! takes to begin with a read at the speed at which this reader reads, and both are measured where it matters, at the
//! reader. What a window lacks is asked for in pieces of half a window, or three quarters beside other streams, but no
//! longer than a flight: so a slow disk gets long reads, and a fast one is not waited for.
//!
//! **Who does it.** The READ looks up the pointers, as far as the nodes on the way are cached, and plans the flights
//! that come of it ([`tally_store::io::Flight`]); the pool's threads for this ([`Ahead::run`]) carry them out. Whoever
//! comes for a block of a flight that nobody has begun does it himself; so does the READ, where its own first blocks
//! are not there: it gets them with what lies behind them, by one turn of the disk. Where a node is not cached, a READ
//! leaves an *errand* behind: to read it, and to plan what could not be planned. That is due one piece before the node
//! is needed. A world without threads calls [`Ahead::work_once`] where it likes.
//!
//! **A hint, and no more.** An errand may be dropped at any time: too many of them stand there, a disk is behind with
//! what somebody waits for, the share of the cache is taken, a node of the tree cannot be read. A stream learns of that
//! when it misses a block that it had asked for, and asks again.
//!
//! **Who waits for disks comes first.** While more READs that belong to no stream are at the disks than there are
//! disks, errands are dropped and nothing is planned. A READ of the begin of a file that goes on behind it does not
//! count: it may be the first of a stream, and of sixteen that begin at once each would keep the others from what their
//! second one wants; nor does one that a disk has kept for long ([`lone`]). Nor is anything planned on a vdev for whose
//! stable storage more requests wait than it has disks. What was planned before is carried out.

mod lone;
mod stream;
mod streams;
mod tasks;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::{DatasetId, ObjectId};
use tally_store::dataset::Dataset;
use tally_store::io::{self, Nodes, Standing};
use tally_store::key::{Class, Key};
use tally_store::pool::Pool;

use crate::schema::decode_pointer;
use lone::AllLone;
use stream::{Limits, Touch, Wanted};
use streams::{FileId, Noted, Streams};
use tasks::{Task, Tasks};

pub(crate) use lone::Lone;

/// Threads of a pool at most, however many disks it has: each may have a flight of some mebibytes in its hands.
const THREADS_MAX: usize = 8;
/// Threads for each disk: it is at work while one checks what another flight has brought.
const THREADS_PER_DISK: usize = 2;

/// The streams of a pool, and what is to be done for them.
pub(crate) struct Ahead {
    pool: Arc<Pool>,
    streams: Mutex<Streams>,
    tasks: Tasks,
    lone: AllLone,
}

/// Blocks of a file that will be wanted.
struct Errand {
    dataset: Arc<Dataset>,
    object: ObjectId,
    record_size: u64,
    wanted: Wanted,
}

/// A READ that goes beyond what is cached.
pub(crate) struct ColdRead<'a> {
    pub(crate) dataset: &'a Arc<Dataset>,
    pub(crate) object: ObjectId,
    /// The starts of its blocks, ascending, each with how it stands.
    pub(crate) blocks: &'a [(u64, Standing)],
    pub(crate) record_size: u64,
    pub(crate) file_bytes: u64,
}

impl Ahead {
    pub(crate) fn new(pool: &Arc<Pool>) -> Arc<Self> {
        Arc::new(Self {
            pool: Arc::clone(pool),
            streams: Mutex::default(),
            tasks: Tasks::default(),
            lone: AllLone::default(),
        })
    }

    /// How many threads are to [`Self::run`].
    pub(crate) fn thread_count(&self) -> usize {
        (THREADS_PER_DISK * self.disk_count()).min(THREADS_MAX)
    }

    fn disk_count(&self) -> usize {
        self.pool.roster.data_legs().count().max(1)
    }

    /// Takes note of a READ before it goes to the disks, and plans what its stream wants. What this gives is to be held
    /// until it has come back.
    pub(crate) fn note(&self, read: &ColdRead<'_>) -> Option<Lone<'_>> {
        let touch = touch(read)?;
        let file = FileId { dataset: read.dataset.birth.id, object: read.object };
        let limits = self.limits(read);
        // What is all of its file is no stream's, and is waited for like others.
        let goes_on = touch.file_blocks > 1;
        let noted = if goes_on { self.streams.lock().note(file, &touch, &limits) } else { Noted::default() };
        if let Some(wanted) = noted.wanted {
            let (dataset, record_size) = (Arc::clone(read.dataset), read.record_size);
            let errand = Errand { dataset, object: read.object, record_size, wanted };
            // What no thread has come to for so long takes room from others.
            self.drop_tasks(self.tasks.take_old(self.now()));
            if !self.gives_way() && !self.go(&errand, Nodes::Cached) {
                self.leave(Task::Errand(errand));
            }
        }
        let is_at_disk = read.blocks.iter().any(|(_, standing)| *standing == Standing::Stored);
        let may_begin_stream = touch.blocks.start == 0 && touch.blocks.end < touch.file_blocks;
        (is_at_disk && !noted.is_of_stream && !may_begin_stream).then(|| self.lone.come(&*self.pool.platform.clock))
    }

    fn limits(&self, read: &ColdRead<'_>) -> Limits {
        let fetched_bytes_max = read.dataset.io().fetched_bytes_max();
        Limits { now: self.now(), record_size: read.record_size, fetched_bytes_max }
    }

    fn now(&self) -> Duration {
        self.pool.platform.clock.monotonic()
    }

    fn leave(&self, task: Task) {
        self.drop_tasks(self.tasks.leave(task, self.now()));
    }

    /// Whoever waits for what they were to bring goes to the disk himself.
    fn drop_tasks(&self, tasks: impl IntoIterator<Item = Task>) {
        for task in tasks {
            if let Task::Flight(dataset, flight) = task {
                dataset.io().give_up(&flight);
            }
        }
    }

    /// The life of a thread: until [`Self::end`].
    pub(crate) fn run(&self) {
        while let Some(task) = self.tasks.wait() {
            self.carry_out(task);
        }
    }

    /// Does one thing, if there is any.
    pub(crate) fn work_once(&self) -> bool {
        self.tasks.take().map(|task| self.carry_out(task)).is_some()
    }

    /// Ends all threads once they have done what they are at.
    pub(crate) fn end(&self) {
        self.drop_tasks(self.tasks.end());
    }

    fn carry_out(&self, task: Task) {
        match task {
            Task::Flight(dataset, flight) => dataset.io().fetch(&flight),
            Task::Errand(errand) if !self.gives_way() => {
                self.go(&errand, Nodes::Any);
            }
            Task::Errand(_) => {}
        }
    }

    /// Whether others wait for the disks, see the module's head.
    fn gives_way(&self) -> bool {
        self.lone.count(self.now()) > self.disk_count()
    }

    /// Looks for the pointers, and plans the flights. No root is held meanwhile: the disk may keep this thread for as
    /// long as it likes, and a node that was freed is not what its pointer says. `false`: a node could not be had, of
    /// these blocks or of those that will be wanted next.
    fn go(&self, errand: &Errand, nodes: Nodes) -> bool {
        let (io, tree) = (errand.dataset.io(), errand.dataset.root().tree.clone());
        let Errand { object, record_size, wanted, .. } = errand;
        let scan = |blocks: &Range<u64>, visit: &mut dyn FnMut(Key, &[u8])| {
            let key = |block: u64| Key::new(Class::Extent, object.0, block.saturating_mul(*record_size), 0);
            let (from, to) = (key(blocks.start), key(blocks.end));
            blocks.is_empty() || io.scan_quietly(&tree, nodes, (&from, &to), visit)
        };
        let mut is_whole = true;
        for blocks in wanted.ranges() {
            let mut found: Vec<io::ToFetch> = Vec::new();
            is_whole &= scan(&blocks, &mut |key, value| {
                let is_asked_for = wanted.is_asked_for(key.a / record_size);
                found.extend(decode_pointer(value).map(|bp| io::ToFetch { bp, is_asked_for }));
            });
            for flight in io.plan_ahead(&found) {
                self.leave(Task::Flight(Arc::clone(&errand.dataset), flight));
            }
        }
        scan(&wanted.behind(), &mut |_, _| {}) && is_whole
    }
}

/// The blocks of a READ from the first to the last that nobody else has brought into the cache, if there are such.
fn touch(read: &ColdRead<'_>) -> Option<Touch> {
    let is_cold = |(_, standing): &&(u64, Standing)| *standing != Standing::Cached;
    let first = read.blocks.iter().find(is_cold)?.0 / read.record_size;
    let last = read.blocks.iter().rfind(is_cold)?.0 / read.record_size;
    let file_blocks = read.file_bytes.div_ceil(read.record_size);
    let any = |standing| read.blocks.iter().any(|(_, of)| *of == standing);
    let (is_missed, is_late) = (any(Standing::Stored), any(Standing::UnderWay));
    Some(Touch { blocks: first..last + 1, file_blocks, is_missed, is_late })
}
