//! Directories are moved in a tree that somebody has made deep, and who waits for whom meanwhile.
//!
//! A directory must not come to stand below itself, so RENAME looks at the parents of where it is to go: all of them, one
//! after the other, under the one lock of all moves in the dataset, and before it asked whether the caller may do it at all.
//! 104 kB of refused RENAMEs below a tree of 40,000 levels stopped the server for 14 seconds.

mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tally_fs::{Filer, Filesystem};
use tally_vfs::{Cred, FsError, Identity, Names, ObjectRef, RENAME_PARENTS_MAX, Vfs};
use world::{World, ctx, done, mode};

const DISK: u64 = 128 << 20;
/// Long enough that only who waits for ever is caught.
const PATIENCE: Duration = Duration::from_secs(60);

fn make(fs: &dyn Vfs, dir: ObjectRef, name: &str, bits: u32) -> ObjectRef {
    loop {
        match done(fs.mkdir(ctx(&Cred::root()), dir, name.as_bytes(), &mode(bits))) {
            Err(FsError::Throttled) => {}
            made => return made.unwrap().object,
        }
    }
}

fn rename(fs: &dyn Vfs, cred: &Cred, from: (ObjectRef, &str), to: (ObjectRef, &str)) -> Result<(), FsError> {
    done(fs.rename(ctx(cred), from.0, from.1.as_bytes(), to.0, to.1.as_bytes()))
}

/// Directories below each other in the root, the lowest one last.
fn nest(fs: &dyn Vfs, depth: usize) -> Vec<ObjectRef> {
    let mut chain = vec![fs.root()];
    (0..depth).for_each(|_| chain.push(make(fs, chain[chain.len() - 1], "d", 0o755)));
    chain
}

fn tank(filer: &Filer) -> Arc<Filesystem> {
    filer.by_name("tank").unwrap()
}

#[test]
fn a_refused_rename_looks_at_no_parents() {
    let world = World::new(DISK, DISK);
    let fs = tank(&world.create());
    let lowest = nest(&*fs, 300)[300];
    let mine = make(&*fs, fs.root(), "mine", 0o777);
    make(&*fs, make(&*fs, mine, "full", 0o755), "in it", 0o755);
    let closed = make(&*fs, fs.root(), "closed", 0o700);
    make(&*fs, make(&*fs, closed, "full", 0o777), "in it", 0o755);
    let open = make(&*fs, lowest, "open", 0o777);
    let stranger = Cred { uid: 1001, gid: 1001, groups: SmallVec::new(), checked: false };
    for (from, to) in [((mine, "full"), lowest), ((closed, "full"), lowest), ((closed, "full"), open)] {
        assert_eq!(rename(&*fs, &stranger, from, (to, "x")), Err(FsError::Access));
        assert_eq!(fs.parents_seen(), 0, "{from:?} {to:?}");
    }
    assert_eq!(rename(&*fs, &stranger, (mine, "full"), (open, "x")), Err(FsError::Access), "its owner is another");
    assert_eq!(fs.parents_seen(), 0);
    assert_eq!(rename(&*fs, &Cred::root(), (mine, "full"), (lowest, "x")), Ok(()), "whoever may do it still can");
    assert_eq!(fs.parents_seen(), 300);
}

#[test]
fn a_rename_looks_at_so_many_parents_and_no_more() {
    let world = World::new(DISK, DISK);
    let fs = tank(&world.create());
    let lowest = nest(&*fs, RENAME_PARENTS_MAX + 10).pop().unwrap();
    make(&*fs, make(&*fs, fs.root(), "full", 0o755), "in it", 0o755);
    let renamed = rename(&*fs, &Cred::root(), (fs.root(), "full"), (lowest, "x"));
    assert_eq!((renamed, fs.parents_seen()), (Err(FsError::NameTooLong), RENAME_PARENTS_MAX as u64));
}

/// A tree of 2,000 levels of which nothing has been looked at since the import but its two lowest, and shallow directories
/// beside it.
struct Place {
    world: World,
    filer: Arc<Filer>,
    fs: Arc<Filesystem>,
    lowest: ObjectRef,
    above_lowest: ObjectRef,
}

impl Place {
    fn new() -> Self {
        let world = World::new(DISK, DISK);
        let before = world.create();
        let chain = nest(&*tank(&before), 2000);
        for name in ["full", "moving"] {
            make(&*tank(&before), make(&*tank(&before), chain[0], name, 0o755), "in", 0o755);
        }
        before.export().unwrap();
        drop(before);
        let (filer, _) = world.import();
        let fs = tank(&filer);
        let place = Self { world, filer, fs, lowest: chain[2000], above_lowest: chain[1999] };
        // What happens beside the walk has been read before.
        let inner = place.find(place.find(place.fs.root(), "full"), "in");
        place.rename((place.fs.root(), "moving"), (inner, "y")).unwrap();
        place.rename((inner, "y"), (place.fs.root(), "moving")).unwrap();
        assert_eq!(place.find(place.above_lowest, "d"), place.lowest);
        place.fs.readdir(&Cred::root(), place.above_lowest, 0, 10, true).unwrap();
        place
    }

    fn find(&self, dir: ObjectRef, name: &str) -> ObjectRef {
        self.fs.lookup(&Cred::root(), dir, name.as_bytes()).unwrap().0.object
    }

    fn rename(&self, from: (ObjectRef, &str), to: (ObjectRef, &str)) -> Result<(), FsError> {
        rename(&*self.fs, &Cred::root(), from, to)
    }

    /// Moves `full` below the lowest directory; while that reads the parents, `name` moves from `dir` to `full/in`. Gives what
    /// both were told.
    fn two_moves(&self, dir: ObjectRef, name: &'static str) -> (Result<(), FsError>, Result<(), FsError>) {
        let (root, lowest) = (self.fs.root(), self.lowest);
        let inner = self.find(self.find(root, "full"), "in");
        let faults = self.world.faults("/disks/data");
        let held = faults.reads_held.write().unwrap();
        let walker = spawn(&self.fs, (root, "full"), (lowest, "x"));
        let started = Instant::now();
        while faults.reads_waited.load(SeqCst) == 0 {
            assert!(started.elapsed() < PATIENCE, "the parents were read before");
            std::thread::yield_now();
        }
        let beside = spawn(&self.fs, (dir, name), (inner, "y"));
        let beside = beside.recv_timeout(PATIENCE).expect("it waits for somebody else's walk");
        drop(held);
        (walker.recv_timeout(PATIENCE).expect("the walk ends"), beside)
    }
}

type Move = (ObjectRef, &'static str);

fn spawn(fs: &Arc<Filesystem>, from: Move, to: Move) -> Receiver<Result<(), FsError>> {
    let (answer, answered) = channel();
    let fs = Arc::clone(fs);
    std::thread::spawn(move || answer.send(rename(&*fs, &Cred::root(), from, to)));
    answered
}

#[test]
fn a_move_does_not_wait_for_a_walk() {
    let place = Place::new();
    assert_eq!(place.two_moves(place.fs.root(), "moving"), (Ok(()), Ok(())));
    assert_eq!(place.find(place.find(place.lowest, "x"), ".."), place.lowest);
    place.filer.export().unwrap();
}

/// The walk has come by the lowest directory when that moves below what is to move below it.
#[test]
fn a_walk_that_a_move_has_overtaken_begins_anew() {
    let place = Place::new();
    assert_eq!(place.two_moves(place.above_lowest, "d"), (Err(FsError::Invalid), Ok(())));
    let inner = place.find(place.find(place.fs.root(), "full"), "in");
    assert_eq!(place.find(place.lowest, ".."), inner);
    place.filer.export().unwrap();
}
