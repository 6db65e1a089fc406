//! Ranges that programs lock, beside those of clients of the same file system.

use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{Attributes as _, Deny};

use super::*;
use crate::under_way::{AWAITING_MAX, Interrupted, Task};
use crate::wire::raw::{FlushIn, LkIn, LkOut};

const RDLCK: u32 = 0;
const WRLCK: u32 = 1;
const UNLCK: u32 = 2;
const TO_THE_END: u64 = i64::MAX as u64;
const AGAIN: i32 = 11;
const ACCESS: i32 = 13;
const NOLCK: i32 = 37;

/// A program with a file open.
#[derive(Clone, Copy)]
struct Program {
    owner: u64,
    pid: u32,
    file: (u64, u64),
}

impl Program {
    fn asks(self, kind: u32, (first, last): (u64, u64)) -> LkIn {
        LkIn { fh: self.file.1, owner: self.owner, pid: self.pid, first, last, kind, ..LkIn::default() }
    }
}

impl Kernel {
    fn set_lock(&self, program: Program, kind: u32, range: (u64, u64)) -> Told {
        self.ask(32, program.file.0, &[program.asks(kind, range).as_bytes()])
    }

    /// The first and last byte of what is in the way, what for, and whose.
    fn get_lock(&self, program: Program, kind: u32, range: (u64, u64)) -> Option<(u64, u64, u32, u32)> {
        let told = self.ask(31, program.file.0, &[program.asks(kind, range).as_bytes()]).unwrap();
        let lock = LkOut::read_from_bytes(&told[..]).unwrap();
        (lock.kind != UNLCK).then_some((lock.first, lock.last, lock.kind, lock.pid))
    }

    fn flush(&self, program: Program) {
        let asked = FlushIn { fh: program.file.1, lock_owner: program.owner, ..FlushIn::default() };
        assert_eq!(self.ask(25, program.file.0, &[asked.as_bytes()]), Ok(vec![]));
    }

    /// A program comes that would wait.
    fn waits(&self, unique: u64, program: Program, range: (u64, u64)) -> (Job, Step) {
        let asked = program.asks(WRLCK, range);
        let len = (size_of::<InHeader>() + size_of::<LkIn>()) as u32;
        let head = InHeader { len, opcode: 33, unique, node: program.file.0, ..InHeader::default() };
        let message = [head.as_bytes(), asked.as_bytes()].concat().into();
        let job = Job { unique, message, since: Instant::now() };
        self.under_way.begin(unique);
        let step = self.door.run(&job);
        (job, step)
    }

    fn is_parked(&self, unique: u64, program: Program, range: (u64, u64)) {
        let (job, step) = self.waits(unique, program, range);
        assert!(matches!(step, Step::Again(Until::Freed)));
        self.under_way.park(job, None, false).unwrap();
    }

    /// Who is due. One that nobody has woken is not waited for.
    fn due(&self) -> Job {
        assert_eq!(self.under_way.due(), 1, "nobody is due");
        let Some(Task::Run(job)) = self.under_way.next() else { panic!("it is the end") };
        job
    }

    /// Who is due runs again, and has what he waited for.
    fn has_it_now(&self, unique: u64) {
        let job = self.due();
        assert_eq!(job.unique, unique);
        assert!(matches!(self.door.run(&job), Step::Reply(reply, With::Nothing) if !reply.is_error()));
        self.under_way.end(unique);
    }

    /// Two programs that have one file open, and the file.
    fn programs(&self) -> ([Program; 2], ObjectRef) {
        let (node, fh) = self.create(b"f", O_RDWR).unwrap();
        let other = self.open(node, O_RDWR).unwrap();
        let programs = [(11, 101, fh), (12, 102, other)];
        let object = self.vfs().numbered(ObjectId(node)).unwrap();
        (programs.map(|(owner, pid, fh)| Program { owner, pid, file: (node, fh) }), object)
    }
}

fn client(owner: u64) -> Holder {
    Holder { client: ClientNumber(5), owner: OwnerNumber(owner) }
}

fn bytes(first: u64, last: u64) -> Range {
    Range::between(first, last).unwrap()
}

fn write_lock(holder: Holder, range: Range) -> Lock {
    Lock { holder, range, kind: Kind::Write }
}

#[test]
fn programs_and_clients_keep_each_other_out() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    let vfs = kernel.vfs();
    assert_eq!(kernel.set_lock(one, WRLCK, (10, 19)), Ok(vec![]));
    assert_eq!(kernel.set_lock(other, RDLCK, (19, 30)), Err(AGAIN));
    assert_eq!(kernel.get_lock(other, RDLCK, (0, 100)), Some((10, 19, WRLCK, 101)));
    assert_eq!((kernel.get_lock(one, WRLCK, (0, 100)), kernel.get_lock(other, WRLCK, (20, 100))), (None, None));
    let held = Lock {
        holder: Holder { client: kernel.door.opens.client(), owner: OwnerNumber(11) },
        ..write_lock(client(1), bytes(10, 19))
    };
    assert_eq!(vfs.lock_unopened(object, write_lock(client(1), Range::ALL)), Err(NotLocked::Held(held)));
    // In the middle, and for reading.
    assert_eq!(
        (kernel.set_lock(one, UNLCK, (12, 13)), kernel.set_lock(other, WRLCK, (12, 13))),
        (Ok(vec![]), Ok(vec![]))
    );
    assert_eq!(
        (kernel.set_lock(one, RDLCK, (14, 19)), kernel.set_lock(other, RDLCK, (14, 19))),
        (Ok(vec![]), Ok(vec![]))
    );
    assert_eq!(kernel.source.freed.load(SeqCst), 3, "what may be free now clients hear of");

    // A client's, up to the end of all bytes, of which a program knows half.
    vfs.lock_unopened(object, write_lock(client(1), bytes(500, u64::MAX))).unwrap();
    assert_eq!(kernel.get_lock(one, RDLCK, (20, TO_THE_END)), Some((500, TO_THE_END, WRLCK, 0)));
    assert_eq!(kernel.set_lock(one, WRLCK, (499, TO_THE_END)), Err(AGAIN));
    vfs.unlock_range(object, client(1), Range::ALL).unwrap();
    assert_eq!(kernel.set_lock(one, WRLCK, (499, TO_THE_END)), Ok(vec![]));
    let behind = vfs.test_range(object, write_lock(client(1), bytes(u64::MAX, u64::MAX)));
    assert!(matches!(behind, Err(NotLocked::Held(_))), "to the end is to the end of all: {behind:?}");
}

#[test]
fn what_is_no_range_or_no_open_is_told() {
    let kernel = Kernel::new();
    let ([one, _], _) = kernel.programs();
    assert_eq!((kernel.set_lock(one, WRLCK, (9, 8)), kernel.set_lock(one, 7, (0, 8))), (Err(INVAL), Err(INVAL)));
    let asked = LkIn { kind: UNLCK, ..one.asks(RDLCK, (0, 9)) };
    assert_eq!(kernel.ask(31, one.file.0, &[asked.as_bytes()]), Err(INVAL));
    let flock = LkIn { lk_flags: 1, ..one.asks(WRLCK, (0, 9)) };
    assert_eq!(kernel.ask(32, one.file.0, &[flock.as_bytes()]), Err(NOSYS), "whole files are the kernel's");
    let closed = Program { file: (one.file.0, 5), ..one };
    assert_eq!(kernel.set_lock(closed, WRLCK, (0, 9)), Err(BADF));
    assert_eq!(kernel.set_lock(closed, UNLCK, (0, 9)), Ok(vec![]));
}

/// fcntl(2): what a process has goes when it closes any descriptor of the file. What an open description has (F_OFD_SETLK) goes with that, and nobody says whose it was.
#[test]
fn what_is_locked_goes_with_its_process_or_its_description() {
    let kernel = Kernel::new();
    let ([process, description], object) = kernel.programs();
    let vfs = kernel.vfs();
    let has = |program: Program| {
        vfs.has_ranges(object, Holder { client: kernel.door.opens.client(), owner: OwnerNumber(program.owner) })
    };
    kernel.set_lock(process, WRLCK, (0, 9)).unwrap();
    kernel.set_lock(process, WRLCK, (50, 59)).unwrap();
    kernel.set_lock(description, WRLCK, (20, 29)).unwrap();
    // Another process closes the file.
    kernel.flush(Program { owner: 77, ..process });
    assert!(has(process) && has(description));
    kernel.flush(Program { file: description.file, ..process });
    assert!(!has(process) && has(description), "by whichever descriptor");
    // Its first descriptor is gone for good only now, and it has locked through another one meanwhile.
    let anew = Program { file: (process.file.0, kernel.open(process.file.0, O_RDWR).unwrap()), ..process };
    kernel.set_lock(anew, WRLCK, (0, 9)).unwrap();
    kernel.release(process.file);
    assert!(has(process) && has(description));
    kernel.release(description.file);
    assert!(has(process) && !has(description));
    kernel.release(anew.file);
    assert!(!has(process));
    assert_eq!(vfs.test_range(object, write_lock(client(1), Range::ALL)), Ok(()));
}

#[test]
fn the_end_of_a_mount_unlocks_what_is_locked() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    kernel.set_lock(other, WRLCK, (10, 19)).unwrap();
    kernel.door.close_all();
    assert_eq!(kernel.vfs().test_range(object, write_lock(client(1), Range::ALL)), Ok(()));
    assert!(kernel.source.freed.load(SeqCst) > 0);
}

#[test]
fn who_waits_has_it_when_it_is_free_by_whichever_door() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    let vfs = kernel.vfs();
    // A program unlocks, or closes, or is gone with its description.
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    kernel.is_parked(1, other, (5, 6));
    kernel.set_lock(one, UNLCK, (5, 9)).unwrap();
    kernel.has_it_now(1);
    kernel.set_lock(other, UNLCK, (0, 99)).unwrap();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    kernel.is_parked(2, other, (5, 6));
    kernel.flush(one);
    kernel.has_it_now(2);
    kernel.is_parked(3, one, (0, 9));
    kernel.release(other.file);
    kernel.has_it_now(3);
    kernel.flush(one);
    // A host unlocks; a client closes what it had open.
    vfs.lock_unopened(object, write_lock(client(1), Range::ALL)).unwrap();
    kernel.is_parked(4, one, (0, 9));
    vfs.unlock_range(object, client(1), bytes(0, 4)).unwrap();
    let job = kernel.due();
    assert!(matches!(kernel.door.run(&job), Step::Again(Until::Freed)), "a half is not enough");
    kernel.under_way.park(job, None, false).unwrap();
    vfs.unlock_range(object, client(1), Range::ALL).unwrap();
    kernel.has_it_now(4);
    kernel.flush(one);
    let cred = Cred::root();
    let opening = tally_vfs::Opening {
        share: Share { access: Access::BOTH, deny: Deny::NONE },
        by: &|_| Ok(client(2)),
        wants: None,
    };
    vfs.open(OpCtx::of(&cred), ToOpen::Itself(object), opening).result.unwrap();
    vfs.lock_range(object, client(2), write_lock(client(3), Range::ALL)).unwrap();
    kernel.is_parked(5, one, (0, 9));
    vfs.close(object, client(2));
    kernel.has_it_now(5);
}

/// The holder unlocks when the other one has been refused, and stands nowhere yet.
#[test]
fn what_is_freed_behind_the_refusal_is_not_missed() {
    let kernel = Kernel::new();
    let ([one, other], _) = kernel.programs();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    let (job, step) = kernel.waits(1, other, (0, 9));
    assert!(matches!(step, Step::Again(Until::Freed)));
    kernel.set_lock(one, UNLCK, (0, 9)).unwrap();
    kernel.under_way.park(job, None, false).unwrap();
    kernel.has_it_now(1);
    kernel.set_lock(other, UNLCK, (0, 9)).unwrap();

    // Or before anybody would tell him.
    let other_kernel = Kernel::new();
    let ([one, _], object) = other_kernel.programs();
    let vfs = other_kernel.vfs();
    vfs.lock_unopened(object, write_lock(client(1), Range::ALL)).unwrap();
    vfs.before_watch(move |vfs| vfs.unlock_range(object, client(1), Range::ALL).unwrap());
    let (_, step) = other_kernel.waits(1, one, (0, 9));
    assert!(matches!(step, Step::Reply(reply, With::Nothing) if !reply.is_error()), "he asks once more");
}

/// Rules V20: a program waited for as long as a client is kept by courtesy that nobody will hear of again.
#[test]
fn who_is_late_gives_way_to_programs() {
    let kernel = Kernel::new();
    let ([one, _], object) = kernel.programs();
    let vfs = kernel.vfs();
    let is_late = || kernel.source.late.lock().push((object, client(1)));
    vfs.lock_unopened(object, write_lock(client(1), bytes(0, 9))).unwrap();
    assert_eq!(kernel.set_lock(one, WRLCK, (5, 5)), Err(AGAIN), "its lease is not over");
    kernel.is_parked(1, one, (5, 5));
    is_late();
    assert_eq!((kernel.get_lock(one, WRLCK, (5, 5)), kernel.source.late.lock().len()), (None, 0));
    kernel.has_it_now(1);
    kernel.flush(one);
    for would_wait in [true, false] {
        vfs.lock_unopened(object, write_lock(client(1), bytes(0, 9))).unwrap();
        is_late();
        if would_wait {
            let step = kernel.waits(2, one, (5, 5)).1;
            assert!(matches!(step, Step::Reply(reply, With::Nothing) if !reply.is_error()));
        } else {
            assert_eq!(kernel.set_lock(one, WRLCK, (5, 5)), Ok(vec![]));
        }
        kernel.flush(one);
    }
    // Another one beside it is there.
    vfs.lock_unopened(object, write_lock(client(2), bytes(0, 9))).unwrap();
    is_late();
    assert_eq!(kernel.set_lock(one, WRLCK, (5, 5)), Err(AGAIN));
}

/// The same of what a client denies to others.
#[test]
fn who_is_late_denies_nothing_to_programs() {
    let kernel = Kernel::new();
    let (node, fh) = kernel.create(b"f", O_RDWR).unwrap();
    kernel.release((node, fh));
    let vfs = kernel.vfs();
    let object = vfs.numbered(ObjectId(node)).unwrap();
    let denies = |vfs: &Model| {
        let share = Share { access: Access::READ, deny: Deny::WRITE };
        let opening = tally_vfs::Opening { share, by: &|_| Ok(client(1)), wants: None };
        vfs.open(OpCtx::of(&kernel.elsewhere()), ToOpen::Itself(object), opening).result.unwrap();
    };
    denies(&vfs);
    assert_eq!(kernel.open(node, O_RDWR), Err(ACCESS));
    assert!(kernel.open(node, 0).is_ok(), "to read it is nobody's");
    kernel.source.late.lock().push((object, client(1)));
    let fh = kernel.open(node, O_RDWR).unwrap();
    // Nor where the pool was taken up anew, and it was there first.
    let anew = Arc::new(vfs.mounted_anew());
    denies(&anew);
    *kernel.source.vfs.lock() = Some(anew);
    assert_eq!(kernel.write((node, fh), b"x", 0), Err(ACCESS));
    kernel.source.late.lock().push((object, client(1)));
    assert_eq!(kernel.write((node, fh), b"x", 0).map(drop), Ok(()));
}

/// Kept by nobody yet.
struct Open;

impl Promise for Open {
    fn poll(&self) -> Option<tally_base::Fate> {
        None
    }
    fn drive(&self) -> Option<tally_base::Fate> {
        None
    }
    fn then(self: Box<Self>, _: Box<dyn FnOnce(tally_base::Fate) + Send>) {}
}

/// Rules V24 and V25: a client did not come in a grace, a program locked what it had, the server died, and the client claimed it.
#[test]
fn nobody_is_told_of_a_range_that_a_client_may_still_claim() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    let vfs = kernel.vfs();
    let says = |said: Result<Wait, Wait>| kernel.source.given.lock().push_back(said);
    let asks = |program: Program| kernel.step(32, program.file.0, &[program.asks(WRLCK, (0, 9)).as_bytes()]);
    says(Ok(Wait::On(Box::new(Open))));
    assert!(matches!(asks(one), Step::Again(Until::Kept(_))));
    assert!(vfs.test_range(object, write_lock(client(1), Range::ALL)).is_err(), "it is nobody else's meanwhile");
    assert_eq!(kernel.set_lock(other, WRLCK, (0, 9)), Err(AGAIN));
    // There was no room for that, or it is not known for now.
    says(Err(Wait::On(Box::new(Open))));
    assert!(matches!(asks(one), Step::Again(Until::Kept(_))));
    says(Err(Wait::Ready));
    assert!(matches!(asks(one), Step::Again(Until::Moment)));
    assert_eq!(kernel.set_lock(one, WRLCK, (0, 9)), Ok(vec![]));

    // What a client denied that gave way; who was in nobody's way does not wait.
    vfs.unlock_range(object, client(1), Range::ALL).unwrap();
    let share = Share { access: Access::READ, deny: Deny::WRITE };
    [one, other].into_iter().for_each(|program| kernel.release(program.file));
    let opening = tally_vfs::Opening { share, by: &|_| Ok(client(1)), wants: None };
    vfs.open(OpCtx::of(&kernel.elsewhere()), ToOpen::Itself(object), opening).result.unwrap();
    kernel.source.late.lock().push((object, client(1)));
    says(Ok(Wait::On(Box::new(Open))));
    let open = OpenIn { flags: O_RDWR, open_flags: 0 };
    assert!(matches!(kernel.step(14, one.file.0, &[open.as_bytes()]), Step::Again(Until::Kept(_))));
    let opened = |vfs: &Model| vfs.in_the_way(object, None, Share { access: Access::READ, deny: Deny::BOTH });
    assert_eq!(opened(&vfs), [], "it is not open meanwhile");
    says(Ok(Wait::On(Box::new(Open))));
    assert!(kernel.open(one.file.0, O_RDWR).is_ok());
}

#[test]
fn who_is_interrupted_has_nothing() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    kernel.is_parked(1, other, (0, 9));
    assert_eq!(kernel.under_way.interrupt(1), Interrupted::LetGo);
    kernel.set_lock(one, UNLCK, (0, 9)).unwrap();
    assert_eq!((kernel.under_way.parked(), kernel.get_lock(one, WRLCK, (0, 99))), (0, None));
    assert_eq!(kernel.vfs().test_range(object, write_lock(client(1), Range::ALL)), Ok(()));
}

#[test]
fn who_waits_is_counted() {
    let kernel = Kernel::new();
    let ([one, other], _) = kernel.programs();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    let is_told =
        |unique| matches!(kernel.waits(unique, other, (0, 9)).1, Step::Reply(reply, _) if told(&reply) == NOLCK);
    assert_eq!((0..).position(is_told), Some(AWAITING_MAX));
    assert_eq!(kernel.set_lock(one, UNLCK, (0, 9)), Ok(vec![]), "others go on");
}

fn told(reply: &Reply) -> i32 {
    -OutHeader::read_from_bytes(&reply.framed(1).0).unwrap().error
}

/// Behind a restart clients claim again what they had locked.
#[test]
fn nothing_new_is_locked_where_others_may_still_claim_it() {
    let kernel = Kernel::new();
    let ([one, other], _) = kernel.programs();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    kernel.source.grace.store(true, SeqCst);
    for opcode in [31, 32, 33] {
        assert!(kernel.is_again(opcode, other.file.0, &[other.asks(WRLCK, (50, 59)).as_bytes()]), "{opcode}");
    }
    assert_eq!(kernel.set_lock(one, UNLCK, (0, 9)), Ok(vec![]));
    kernel.source.grace.store(false, SeqCst);
    assert_eq!(kernel.set_lock(other, WRLCK, (0, 9)), Ok(vec![]));
}

/// `tally pool clear`: nobody has locked anything any more, and another one may have had it since.
#[test]
fn what_was_locked_of_a_mount_that_is_over_is_lost_and_told() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    let free = kernel.create(b"g", O_RDWR).unwrap();
    kernel.write(one.file, b"before", 0).unwrap();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    kernel.is_parked(1, other, (0, 9));
    let anew = Arc::new(kernel.vfs().mounted_anew());
    *kernel.source.vfs.lock() = Some(anew.clone());
    // Whatever is asked first: all that is open is open there from then on.
    assert_eq!(anew.in_the_way(object, None, Share { access: Access::READ, deny: Deny::BOTH }), []);
    kernel.lookup(b"g").unwrap();
    assert_eq!(
        anew.in_the_way(object, None, Share { access: Access::READ, deny: Deny::BOTH }),
        [kernel.door.opens.client()]
    );
    assert_eq!(anew.test_range(object, write_lock(client(1), Range::ALL)), Ok(()));
    assert_eq!((kernel.read(one.file), kernel.write(other.file, b"behind", 0)), (Err(IO), Err(IO)));
    assert_eq!(kernel.set_lock(one, WRLCK, (0, 9)), Err(IO));
    let fsync = |file: (u64, u64)| kernel.ask(20, file.0, &[&file.1.to_ne_bytes(), &[0; 8]]);
    assert_eq!((fsync(one.file), fsync(other.file)), (Err(IO), Err(IO)));
    assert_eq!(kernel.write(free, b"mine", 0).map(|_| ()), Ok(()), "of this one nothing was locked");
    // Until all have closed it.
    kernel.release(one.file);
    assert_eq!(kernel.read(other.file), Err(IO));
    kernel.release(other.file);
    let file = (one.file.0, kernel.open(one.file.0, O_RDWR).unwrap());
    assert_eq!(kernel.read(file), Ok(b"before".to_vec()));
    assert_eq!(kernel.set_lock(Program { file, ..one }, WRLCK, (0, 9)), Ok(vec![]));
}

/// A RELEASE and an unlock, and a thread that had looked for the dataset before: what is open and locked by now is so in another table.
#[test]
fn what_ends_beside_a_mount_anew_ends_in_that() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    let old = kernel.vfs();
    let anew = Arc::new(old.mounted_anew());
    *kernel.source.vfs.lock() = Some(anew.clone());
    kernel.lookup(b"f").unwrap();
    for program in [one, other] {
        kernel
            .set_lock(Program { owner: 20 + program.owner, ..program }, WRLCK, (program.owner, program.owner))
            .unwrap();
    }
    let locked = &kernel.door.locked;
    assert_eq!(locked.unlock(&*old, object.id, 20 + one.owner, Range::ALL), Err(FsError::Unavailable));
    assert_eq!(locked.flush(&*old, object.id, 20 + one.owner), Err(FsError::Unavailable));
    assert!(matches!(locked.unlock(&*anew, object.id, 20 + one.owner, Range::ALL), Ok(Some(_))));
    for program in [one, other] {
        *kernel.source.stale.lock() = Some(old.clone());
        kernel.release(program.file);
    }
    assert_eq!(anew.test_range(object, write_lock(client(1), Range::ALL)), Ok(()));
    assert_eq!(anew.in_the_way(object, None, Share { access: Access::READ, deny: Deny::BOTH }), []);
}

/// The last one closes it between, and who opens it then was told EIO.
#[test]
fn what_was_unlocked_is_not_told_to_who_opens_it_behind_that() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    [one, other].into_iter().for_each(|program| kernel.release(program.file));
    kernel.door.opens.note_unlocked(object.id);
    assert!(!kernel.door.opens.is_gone(object.id));
    let fh = kernel.open(one.file.0, O_RDWR).unwrap();
    assert_eq!(kernel.read((one.file.0, fh)), Ok(vec![]));
    kernel.door.opens.note_unlocked(object.id);
    assert_eq!(kernel.read((one.file.0, fh)), Err(IO));
}

#[test]
fn what_is_closed_while_the_dataset_is_away_is_closed_when_it_is_back() {
    let kernel = Kernel::new();
    let ([one, other], object) = kernel.programs();
    kernel.set_lock(one, WRLCK, (0, 9)).unwrap();
    let vfs = kernel.source.vfs.lock().take().unwrap();
    [one, other].into_iter().for_each(|program| kernel.release(program.file));
    *kernel.source.vfs.lock() = Some(vfs.clone());
    kernel.lookup(b"f").unwrap();
    assert_eq!(vfs.in_the_way(object, None, Share { access: Access::READ, deny: Deny::BOTH }), []);
    assert_eq!(vfs.test_range(object, write_lock(client(1), Range::ALL)), Ok(()));
}

/// Who was kept out by a delegation need not ask again and again.
#[test]
fn who_waits_for_a_client_goes_on_when_that_has_given_it_back() {
    let kernel = Kernel::new();
    let file = kernel.create(b"f", O_RDWR).unwrap();
    kernel.release(file);
    let (vfs, cred) = (kernel.vfs(), Cred::root());
    let object = vfs.numbered(ObjectId(file.0)).unwrap();
    let opening =
        tally_vfs::Opening { share: Share::only(Access::BOTH), by: &|_| Ok(client(1)), wants: Some(Delegation::Write) };
    let ctx = OpCtx { client: Some(ClientNumber(5)), ..OpCtx::of(&cred) };
    assert_eq!(vfs.open(ctx, ToOpen::Itself(object), opening).result.unwrap().delegated, Some(Delegation::Write));
    kernel.under_way.begin(1);
    let head = InHeader { len: 56, opcode: 3, unique: 1, node: file.0, ..InHeader::default() };
    let job = Job { unique: 1, message: [head.as_bytes(), &[0; 16]].concat().into(), since: Instant::now() };
    assert!(matches!(kernel.door.run(&job), Step::Again(Until::GivenBack)));
    // He does not look by himself here.
    kernel.under_way.park(job, None, false).unwrap();
    tally_vfs::Delegations::give_back(&*vfs, object, ClientNumber(5));
    kernel.has_it_now(1);
}
