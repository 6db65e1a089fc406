//! A mount whose kernel is a test: a socket that keeps messages apart stands for /dev/fuse.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use parking_lot::Mutex;
use rustix::fs::{Mode, open};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair, sockopt};
use tally_base::{Broken, Kept, ObjectId, Wait};
use tally_vfs::locks::{Kind, Lock, Range};
use tally_vfs::model::{Model, ModelOptions};
use tally_vfs::{Access, Attributes as _, Deny, Holder, Locks as _, ObjectRef, Opens as _, OwnerNumber, Share, Vfs};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::source::Place;
use crate::wire::ROOT;
use crate::wire::raw::{CreateIn, EntryOut, InHeader, InitOut, LkIn, MkDirIn, OpenIn, OpenOut, OutHeader};

mod handing_over;

/// What should come in an instant is waited for so long.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOKUP: u32 = 1;
const MKDIR: u32 = 9;
const OPEN: u32 = 14;
const INIT: u32 = 26;
const SETLKW: u32 = 33;
const CREATE: u32 = 35;
const INTERRUPT: u32 = 36;
const O_RDWR: u32 = 2;

struct Sourced {
    vfs: Arc<Model>,
    /// Held where nobody is to go on.
    gate: Mutex<()>,
    is_away: AtomicBool,
    ended: AtomicUsize,
}

impl Source for Sourced {
    fn place(&self) -> Place {
        let _passed = self.gate.lock();
        if self.is_away.load(Ordering::SeqCst) { Place::Away } else { Place::Here(self.vfs.clone()) }
    }
    fn awaits_claims(&self, _: &dyn Vfs) -> bool {
        false
    }
    fn is_in_grace(&self, _: &dyn Vfs) -> bool {
        false
    }
    fn freed(&self, _: &dyn Vfs, _: ObjectRef) {}
    fn make_way(&self, _: &[ClientNumber]) -> bool {
        false
    }
    fn given(&self, _: &dyn Vfs) -> Result<Wait, Wait> {
        Ok(Wait::Ready)
    }
    fn recall(&self, _: &dyn Vfs, _: ObjectRef) {}
    fn ended(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// The kernel's side of a mount.
struct Played {
    kernel: OwnedFd,
    source: Arc<Sourced>,
    session: Session,
}

/// An answer: the request's number, its errno, what is behind.
type Answer = (u64, Option<Errno>, Vec<u8>);

fn pair() -> (OwnedFd, OwnedFd) {
    let (kernel, device) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_timeout(&kernel, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    (kernel, device)
}

fn sourced() -> Arc<Sourced> {
    let vfs = Arc::new(Model::new(&ModelOptions::default()));
    Arc::new(Sourced { vfs, gate: Mutex::new(()), is_away: AtomicBool::new(false), ended: AtomicUsize::new(0) })
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let given_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < given_up, "{what}");
        thread::yield_now();
    }
}

impl Played {
    fn start() -> Self {
        let (kernel, device) = pair();
        let source = sourced();
        let session = Session::start(device, source.clone(), None).unwrap();
        Self { kernel, source, session }
    }

    fn asks(&self, unique: u64, (opcode, node): (u32, u64), body: &[&[u8]]) {
        let body = body.concat();
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let head = InHeader { len, opcode, unique, node, ..InHeader::default() };
        rustix::io::write(&self.kernel, &[head.as_bytes(), &body].concat()).unwrap();
    }

    fn hears(&self) -> Answer {
        let mut buffer = vec![0; 1 << 16];
        let bytes = rustix::io::read(&self.kernel, &mut buffer).expect("an answer");
        let (head, body) = OutHeader::read_from_prefix(&buffer[..bytes]).unwrap();
        assert_eq!(head.len as usize, bytes);
        let errno = (head.error != 0).then(|| Errno::from_raw_os_error(-head.error));
        (head.unique, errno, body.to_vec())
    }

    fn told(&self, unique: u64, what: (u32, u64), body: &[&[u8]]) -> Answer {
        self.asks(unique, what, body);
        self.hears()
    }

    fn create(&self, unique: u64, name: &[u8]) {
        let asked = CreateIn { flags: O_RDWR, mode: 0o100_644, ..CreateIn::default() };
        self.asks(unique, (CREATE, ROOT), &[asked.as_bytes(), name, b"\0"]);
    }

    /// A file that is open.
    fn created(&self) -> (ObjectRef, u64) {
        self.create(1, b"f");
        let (unique, errno, told) = self.hears();
        assert_eq!((unique, errno), (1, None));
        let (entry, rest) = EntryOut::read_from_prefix(&told).unwrap();
        let fh = OpenOut::read_from_prefix(rest).unwrap().0.fh;
        (self.source.vfs.numbered(ObjectId(entry.node)).unwrap(), fh)
    }

    fn mkdir(&self, unique: u64) {
        self.asks(unique, (MKDIR, ROOT), &[MkDirIn { mode: 0o755, umask: 0 }.as_bytes(), b"d\0"]);
    }
}

fn is_open(vfs: &Model, object: ObjectRef) -> bool {
    !vfs.in_the_way(object, None, Share { access: Access::READ, deny: Deny::BOTH }).is_empty()
}

fn named(vfs: &Model, name: &[u8]) -> Option<ObjectRef> {
    let found = tally_vfs::Names::lookup(vfs, &tally_vfs::Cred::root(), tally_vfs::Identity::root(vfs), name);
    found.ok().map(|(attr, _)| attr.object)
}

type Then = Box<dyn FnOnce(Fate) + Send>;

/// Promises that a test keeps.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<VecDeque<Then>>>);

impl Promise for ByHand {
    fn poll(&self) -> Option<Fate> {
        None
    }
    fn drive(&self) -> Option<Fate> {
        None
    }
    fn then(self: Box<Self>, then: Then) {
        self.0.lock().push_back(then);
    }
}

impl ByHand {
    fn ends(&self, fate: Fate) {
        until("a promise was given", || !self.0.lock().is_empty());
        let then = self.0.lock().pop_front().unwrap();
        then(fate);
    }
}

/// The same of what is changed in a mount.
fn by_hand(played: &Played) -> ByHand {
    let promises = ByHand::default();
    let given = promises.clone();
    played.source.vfs.promise(move || Wait::On(Box::new(given.clone())));
    promises
}

#[test]
fn a_kernel_is_told_what_is_wanted_of_it() {
    let played = Played::start();
    let offers = u32::MAX;
    let words = [7, 45, 1 << 20, offers];
    let (unique, errno, told) = played.told(1, (INIT, 0), &[words.as_bytes()]);
    let answer = InitOut::read_from_bytes(&told[..]).unwrap();
    let flock = 1 << 10;
    assert_eq!((unique, errno, answer.major, answer.minor), (1, None, 7, wire::MINOR));
    assert_eq!(answer.flags & (can::POSIX_LOCKS | flock), can::POSIX_LOCKS, "flock stays with the kernel");
    // What is no request is nobody's.
    rustix::io::write(&played.kernel, b"nonsense").unwrap();
    assert_eq!(played.told(2, (LOOKUP, ROOT), &[b"f\0"]).1, Some(Errno::NOENT));
}

#[test]
fn who_is_interrupted_while_he_waits_has_done_nothing() {
    let played = Played::start();
    played.source.is_away.store(true, Ordering::SeqCst);
    played.mkdir(2);
    until("it waits", || played.session.parked() == 1);
    assert_eq!(played.told(3, (INTERRUPT, 0), &[2_u64.as_bytes()]), (2, Some(Errno::INTR), vec![]));
    assert_eq!(played.told(4, (INTERRUPT, 0), &[2_u64.as_bytes()]), (4, Some(Errno::AGAIN), vec![]), "as it is gone");
    played.source.is_away.store(false, Ordering::SeqCst);
    assert_eq!(played.told(5, (LOOKUP, ROOT), &[b"d\0"]).1, Some(Errno::NOENT));
}

#[test]
fn who_waits_for_a_range_has_it_or_is_interrupted() {
    let played = Played::start();
    let (file, fh) = played.created();
    let vfs = &played.source.vfs;
    let lock = Lock {
        holder: Holder { client: ClientNumber(5), owner: OwnerNumber(1) },
        range: Range::ALL,
        kind: Kind::Write,
    };
    vfs.lock_unopened(file, lock).unwrap();
    let asked = LkIn { fh, owner: 9, last: 9, kind: 1, ..LkIn::default() };
    let waits = |unique| {
        played.asks(unique, (SETLKW, file.id.0), &[asked.as_bytes()]);
        until("it waits", || played.session.parked() == 1);
    };
    waits(2);
    assert_eq!(played.told(3, (INTERRUPT, 0), &[2_u64.as_bytes()]), (2, Some(Errno::INTR), vec![]));
    waits(4);
    vfs.unlock_range(file, lock.holder, Range::ALL).unwrap();
    assert_eq!(played.hears(), (4, None, vec![]));
    assert!(vfs.lock_unopened(file, lock).is_err());
}

/// A pool was suspended for ten minutes, and whoever came to a file then that a client was given to keep got EIO at once.
#[test]
fn how_long_somebody_is_kept_out_is_not_counted_while_he_waits_for_something_else() {
    let played = Played::start();
    let (file, _) = played.created();
    let under_way = &played.session.shared.under_way;
    let (hour, from) = (Duration::from_secs(3600), Instant::now());
    under_way.begin(9);
    assert_eq!((under_way.kept_out(9, from), under_way.kept_out(9, from + hour)), (Duration::ZERO, hour));
    under_way.is_not_kept_out(9);
    assert_eq!((under_way.kept_out(9, from + hour), under_way.kept_out(9, from + 2 * hour)), (Duration::ZERO, hour));
    under_way.end(9);
    // One that waits for its pool.
    played.source.is_away.store(true, Ordering::SeqCst);
    played.asks(3, (OPEN, file.id.0), &[OpenIn { flags: O_RDWR, open_flags: 0 }.as_bytes()]);
    until("it waits", || played.session.parked() == 1);
    under_way.kept_out(3, from);
    until("it is looked for its pool again", || under_way.kept_out(3, from + hour) < hour);
}

/// A name whose record a device did not take.
#[test]
fn a_promise_that_is_broken_is_an_error() {
    let played = Played::start();
    let promises = by_hand(&played);
    played.mkdir(2);
    promises.ends(Err(Broken("the pool is suspended".into())));
    assert_eq!(played.hears(), (2, Some(Errno::IO), vec![]));
    played.mkdir(3);
    promises.ends(Ok(Kept::default()));
    assert_eq!(played.hears().1, Some(Errno::EXIST), "what is told is sure as well");
    played.create(4, b"f");
    promises.ends(Err(Broken("the pool is suspended".into())));
    assert_eq!(played.hears(), (4, Some(Errno::IO), vec![]));
    let file = named(&played.source.vfs, b"f").unwrap();
    until("it is closed", || !is_open(&played.source.vfs, file));
}

/// The kernel has given up a mount, and takes no answers: no program has what was opened for it.
#[test]
fn what_was_opened_for_nobody_is_closed() {
    let played = Played::start();
    let promises = by_hand(&played);
    played.create(2, b"f");
    until("it is made", || named(&played.source.vfs, b"f").is_some());
    let file = named(&played.source.vfs, b"f").unwrap();
    assert!(is_open(&played.source.vfs, file));
    shutdown(&played.kernel, Shutdown::Read).unwrap();
    promises.ends(Ok(Kept::default()));
    until("it is closed", || !is_open(&played.source.vfs, file));
    played.asks(3, (OPEN, file.id.0), &[OpenIn { flags: O_RDWR, open_flags: 0 }.as_bytes()]);
    until("it is closed again", || !is_open(&played.source.vfs, file) && played.session.shared.under_way.parked() == 0);
    assert_eq!(played.source.ended.load(Ordering::SeqCst), 0, "requests are read still");
}

#[test]
fn the_end_of_requests_is_the_end_of_the_mount() {
    let Played { kernel, source, session } = Played::start();
    let played = Played { kernel, source: source.clone(), session };
    let (file, fh) = played.created();
    let asked = LkIn { fh, owner: 9, last: 9, kind: 1, ..LkIn::default() };
    assert_eq!(played.told(2, (SETLKW, file.id.0), &[asked.as_bytes()]), (2, None, vec![]));
    // Nobody answers this one any more.
    source.is_away.store(true, Ordering::SeqCst);
    played.mkdir(3);
    until("it waits", || played.session.parked() == 1);
    source.is_away.store(false, Ordering::SeqCst);
    drop(played.kernel);
    until("it is over", || source.ended.load(Ordering::SeqCst) == 1);
    let nobody = Holder { client: ClientNumber(5), owner: OwnerNumber(1) };
    let lock = Lock { holder: nobody, range: Range::ALL, kind: Kind::Write };
    assert_eq!(source.vfs.lock_unopened(file, lock), Ok(()), "what was locked is free");
    assert!(!is_open(&source.vfs, file));
}

/// The last reader has gone while a request that was parked is run again, and opens a file for a program that is no more.
#[test]
fn who_is_run_again_at_the_end_leaves_nothing_open() {
    let played = Played::start();
    let source = played.source.clone();
    source.is_away.store(true, Ordering::SeqCst);
    played.create(2, b"f");
    until("it waits", || played.session.parked() == 1);
    let gate = source.gate.lock();
    source.is_away.store(false, Ordering::SeqCst);
    until("it is run", || played.session.parked() == 0);
    let Played { kernel, session, .. } = played;
    drop(kernel);
    until("nobody reads", || session.shared.readers.load(Ordering::SeqCst) == 0);
    assert_eq!(source.ended.load(Ordering::SeqCst), 0, "somebody is at it still");
    drop(gate);
    until("it is over", || source.ended.load(Ordering::SeqCst) == 1);
    let file = named(&source.vfs, b"f").expect("it is made");
    assert!(!is_open(&source.vfs, file));
}

#[test]
fn a_descriptor_that_cannot_be_read_ends_it() {
    let device = open("/dev/null", OFlags::WRONLY, Mode::empty()).unwrap();
    let source = sourced();
    let _session = Session::start(device, source.clone(), None).unwrap();
    until("it is over", || source.ended.load(Ordering::SeqCst) == 1);
}

/// Whoever made it may have it wait or not, and change that later: it is asked when it has something.
#[test]
fn it_is_the_same_whether_a_descriptor_waits() {
    let (kernel, device) = pair();
    let same = device.try_clone().unwrap();
    let source = sourced();
    let session = Session::start(device, source.clone(), None).unwrap();
    assert!(fcntl_getfl(&same).unwrap().contains(OFlags::NONBLOCK), "no reader is where it hears of no end");
    let played = Played { kernel, source, session };
    assert_eq!(played.told(2, (LOOKUP, ROOT), &[b"f\0"]).1, Some(Errno::NOENT));
    fcntl_setfl(same.as_fd(), fcntl_getfl(&same).unwrap() - OFlags::NONBLOCK).unwrap();
    assert_eq!(played.told(3, (LOOKUP, ROOT), &[b"f\0"]).1, Some(Errno::NOENT));
}
