//! The door of a mount over the model of a file system: what the kernel would send, and what it is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use tally_vfs::model::Model;
use tally_vfs::{
    Access, Holder, Identity as _, Locks as _, Names as _, Opens as _, OwnerNumber, Series, Share, ToOpen,
};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::wire::raw::{
    AttrOut, CreateIn, EntryOut, GetXattrIn, InHeader, MkDirIn, OpenIn, OpenOut, OutHeader, ReadIn, ReleaseIn,
    Rename2In, SetXattrIn, WriteIn,
};

mod locking;

/// The model, and what others have of it.
struct Sourced {
    vfs: Mutex<Option<Arc<Model>>>,
    /// One before that, which somebody sees still.
    stale: Mutex<Option<Arc<Model>>>,
    grace: AtomicBool,
    freed: AtomicUsize,
    awaits: AtomicBool,
    recalled: AtomicUsize,
    /// What is said of the list of who may claim something.
    given: Mutex<VecDeque<Result<Wait, Wait>>>,
    /// What clients have whose leases are over.
    late: Mutex<Vec<(ObjectRef, Holder)>>,
}

impl Source for Sourced {
    fn place(&self) -> Place {
        let stale = self.stale.lock().take();
        stale.or_else(|| self.vfs.lock().clone()).map_or(Place::Away, |vfs| Place::Here(vfs))
    }
    fn awaits_claims(&self, _: &dyn Vfs) -> bool {
        self.awaits.load(SeqCst)
    }
    fn is_in_grace(&self, _: &dyn Vfs) -> bool {
        self.grace.load(SeqCst)
    }
    fn freed(&self, _: &dyn Vfs, _: ObjectRef) {
        self.freed.fetch_add(1, SeqCst);
    }
    fn make_way(&self, in_the_way: &[ClientNumber]) -> bool {
        let mut late = self.late.lock();
        let is_late = |client: &ClientNumber| late.iter().any(|(_, holder)| holder.client == *client);
        if !in_the_way.iter().all(is_late) {
            return false;
        }
        let vfs = self.vfs.lock().clone().unwrap();
        for (object, holder) in late.extract_if(.., |(_, holder)| in_the_way.contains(&holder.client)) {
            vfs.unlock_range(object, holder, Range::ALL).unwrap();
            vfs.close(object, holder);
        }
        true
    }
    fn given(&self, _: &dyn Vfs) -> Result<Wait, Wait> {
        self.given.lock().pop_front().unwrap_or(Ok(Wait::Ready))
    }
    fn recall(&self, _: &dyn Vfs, _: ObjectRef) {
        self.recalled.fetch_add(1, SeqCst);
    }
    fn ended(&self) {}
}

struct Kernel {
    source: Arc<Sourced>,
    door: Door,
    under_way: Arc<UnderWay>,
}

/// What a program is told: the body, or its errno.
type Told = Result<Vec<u8>, i32>;

impl Kernel {
    fn new() -> Self {
        let source = Arc::new(Sourced {
            vfs: Mutex::new(Some(Arc::new(Model::new(&tally_vfs::model::ModelOptions::default())))),
            stale: Mutex::default(),
            grace: AtomicBool::new(false),
            freed: AtomicUsize::new(0),
            awaits: AtomicBool::new(false),
            recalled: AtomicUsize::new(0),
            given: Mutex::default(),
            late: Mutex::default(),
        });
        let under_way = Arc::new(UnderWay::default());
        let door = Door::new(source.clone(), ClientNumber::of(Series::HERE, 7), under_way.clone(), (None, None));
        Self { door, source, under_way }
    }

    fn vfs(&self) -> Arc<Model> {
        self.source.vfs.lock().clone().unwrap()
    }

    fn step(&self, opcode: u32, node: u64, body: &[&[u8]]) -> Step {
        let body = body.concat();
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let head = InHeader { len, opcode, unique: 1, node, uid: 1000, gid: 100, ..InHeader::default() };
        let message: Bytes = [head.as_bytes(), &body].concat().into();
        self.door.run(&Job { unique: 1, message, since: Instant::now() })
    }

    fn ask(&self, opcode: u32, node: u64, body: &[&[u8]]) -> Told {
        let reply = match self.step(opcode, node, body) {
            Step::Reply(reply, _) => reply,
            Step::Wait(promise, reply, _) => {
                tally_base::Wait::On(promise).block().unwrap();
                reply
            }
            Step::Silent => panic!("nothing is answered"),
            Step::Again(_) => panic!("it is to be run again"),
        };
        let (head, body) = reply.framed(1);
        let head = OutHeader::read_from_bytes(&head).unwrap();
        if head.error == 0 { Ok(body.concat()) } else { Err(-head.error) }
    }

    fn is_again(&self, opcode: u32, node: u64, body: &[&[u8]]) -> bool {
        matches!(self.step(opcode, node, body), Step::Again(_))
    }

    fn create(&self, name: &[u8], flags: u32) -> Result<(u64, u64), i32> {
        let asked = CreateIn { flags, mode: 0o100_644, ..CreateIn::default() };
        let told = self.ask(35, ROOT, &[asked.as_bytes(), name, b"\0"])?;
        let (entry, rest) = EntryOut::read_from_prefix(&told).unwrap();
        Ok((entry.node, OpenOut::read_from_prefix(rest).unwrap().0.fh))
    }

    fn open(&self, node: u64, flags: u32) -> Result<u64, i32> {
        let told = self.ask(14, node, &[OpenIn { flags, open_flags: 0 }.as_bytes()])?;
        Ok(OpenOut::read_from_bytes(&told[..]).unwrap().fh)
    }

    fn write(&self, (node, fh): (u64, u64), data: &[u8], write_flags: u32) -> Told {
        let asked = WriteIn { fh, size: data.len() as u32, write_flags, ..WriteIn::default() };
        self.ask(16, node, &[asked.as_bytes(), data])
    }

    fn read(&self, (node, fh): (u64, u64)) -> Told {
        self.ask(15, node, &[ReadIn { fh, size: 100, ..ReadIn::default() }.as_bytes()])
    }

    fn release(&self, (node, fh): (u64, u64)) {
        assert_eq!(self.ask(18, node, &[ReleaseIn { fh, ..ReleaseIn::default() }.as_bytes()]), Ok(vec![]));
    }

    fn lookup(&self, name: &[u8]) -> Result<EntryOut, i32> {
        self.ask(1, ROOT, &[name, b"\0"]).map(|told| EntryOut::read_from_bytes(&told[..]).unwrap())
    }

    fn set(&self, node: u64, set: SetAttrIn) -> Result<u32, i32> {
        let told = self.ask(4, node, &[set.as_bytes()])?;
        Ok(AttrOut::read_from_bytes(&told[..]).unwrap().attr.mode)
    }

    /// The superuser, over another door.
    fn elsewhere(&self) -> Cred {
        Cred::root()
    }
}

/// What should come in an instant is waited for so long.
const PATIENCE: Duration = Duration::from_secs(30);
const O_RDWR: u32 = 2;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;
const NOENT: i32 = 2;
const IO: i32 = 5;
const BADF: i32 = 9;
const EXIST: i32 = 17;
const INVAL: i32 = 22;
const ROFS: i32 = 30;
const NOSYS: i32 = 38;
const STALE: i32 = 116;

#[test]
fn a_file_is_made_written_and_read() {
    let kernel = Kernel::new();
    let file = kernel.create(b"f", O_RDWR).unwrap();
    assert_eq!(kernel.write(file, b"hello", 0), Ok([5, 0, 0, 0, 0, 0, 0, 0].to_vec()));
    assert_eq!(kernel.read(file), Ok(b"hello".to_vec()));
    let seen = kernel.lookup(b"f").unwrap();
    assert_eq!(
        (seen.node, seen.attr.ino, seen.attr.size, seen.attr.uid, seen.attr.gid),
        (file.0, file.0, 5, 1000, 100)
    );
    assert_eq!((seen.attr.mode, seen.entry_valid, seen.attr_valid), (0o100_644, 0, 0));
    assert_eq!(
        kernel.open(file.0, O_TRUNC | 1).map(|fh| kernel.read((file.0, fh))),
        Ok(Err(BADF)),
        "open to write alone"
    );
    assert_eq!(kernel.lookup(b"f").unwrap().attr.size, 0);
    assert_eq!(kernel.read((file.0, 77)), Err(BADF));
    assert_eq!(kernel.ask(4711, ROOT, &[]), Err(NOSYS));
    assert_eq!(kernel.ask(3, 4711, &[&[0; 16]]), Err(STALE));
}

/// The kernel has asked whether a file may be opened that it knew of. One that came meanwhile it has not seen.
#[test]
fn what_came_between_the_look_and_the_create_is_looked_at_again() {
    let kernel = Kernel::new();
    kernel.create(b"f", O_RDWR).unwrap();
    assert_eq!(kernel.create(b"f", O_RDWR), Err(STALE));
    assert_eq!(kernel.create(b"f", O_RDWR | O_EXCL), Err(EXIST));
}

#[test]
fn what_is_open_outlives_its_name_until_the_last_close() {
    let kernel = Kernel::new();
    let made = kernel.create(b"f", O_RDWR).unwrap();
    kernel.write(made, b"hello", 0).unwrap();
    let opened = [0, 1].map(|_| (made.0, kernel.open(made.0, 0).unwrap()));
    kernel.release(made);
    assert_eq!(kernel.ask(10, ROOT, &[b"f\0"]), Ok(vec![]));
    assert_eq!(kernel.lookup(b"f").map(|_| ()), Err(NOENT));
    for (nth, file) in opened.into_iter().enumerate() {
        assert_eq!(kernel.read(file), Ok(b"hello".to_vec()), "{nth} closed");
        kernel.release(file);
    }
    assert_eq!(kernel.ask(3, made.0, &[&[0; 16]]), Err(STALE), "the last one was closed");
    // What the kernel closes twice, or never had.
    kernel.release(opened[0]);
}

#[test]
fn the_end_of_a_mount_closes_what_is_open() {
    let kernel = Kernel::new();
    let file = kernel.create(b"f", O_RDWR).unwrap();
    kernel.open(file.0, 0).unwrap();
    kernel.ask(10, ROOT, &[b"f\0"]).unwrap();
    assert!(kernel.ask(3, file.0, &[&[0; 16]]).is_ok());
    kernel.door.close_all();
    assert_eq!(kernel.ask(3, file.0, &[&[0; 16]]), Err(STALE));
}

/// A pool that was suspended is taken up anew, and has forgotten who had what open; the programs have not.
#[test]
fn what_the_file_system_has_forgotten_is_opened_again() {
    let kernel = Kernel::new();
    let file = kernel.create(b"f", O_RDWR).unwrap();
    let opened = (file.0, kernel.open(file.0, O_RDWR).unwrap());
    kernel.vfs().forget_opens();
    kernel.write(opened, b"hello", 0).unwrap();
    assert_eq!(kernel.read(file), Ok(b"hello".to_vec()));
    kernel.release(opened);
    kernel.vfs().forget_opens();
    assert_eq!(kernel.read(opened), Err(BADF), "of what is closed it is none");
}

/// `tally pool clear` takes a pool up as behind a crash. A program that has written before it was told by fsync, and by close, that all is well.
#[test]
fn what_may_be_lost_is_told_to_all_who_have_the_file_open() {
    let kernel = Kernel::new();
    let file = kernel.create(b"f", O_RDWR).unwrap();
    let other = (file.0, kernel.open(file.0, O_RDWR).unwrap());
    let fsync = |file: (u64, u64)| kernel.ask(20, file.0, &[&file.1.to_ne_bytes(), &[0; 8]]);
    let flush = |file: (u64, u64)| kernel.ask(25, file.0, &[&file.1.to_ne_bytes(), &[0; 16]]);
    kernel.write(file, b"kept", 0).unwrap();
    assert_eq!((fsync(file), flush(other)), (Ok(vec![]), Ok(vec![])));
    kernel.vfs().crash();
    assert_eq!((fsync(file), fsync(file), flush(other)), (Err(IO), Err(IO), Err(IO)));
    kernel.write(file, b"more", 0).unwrap();
    assert_eq!(fsync(other), Err(IO), "what was written before is not there by that");
    kernel.release(other);
    assert_eq!(flush(file), Err(IO));
    kernel.release(file);
    let anew = (file.0, kernel.open(file.0, O_RDWR).unwrap());
    kernel.write(anew, b"anew", 0).unwrap();
    assert_eq!(fsync(anew), Ok(vec![]));
    // Between two writes that nobody has committed, and behind which is one verifier.
    kernel.vfs().crash();
    kernel.write(anew, b"again", 0).unwrap();
    assert_eq!(fsync(anew), Err(IO));
}

/// The kernel says where it believes the end to be, and that it is to be appended: over what a client has appended meanwhile, or behind a hole where one has cut the file.
#[test]
fn what_is_appended_goes_to_the_end() {
    let kernel = Kernel::new();
    let (node, fh) = kernel.create(b"f", O_RDWR).unwrap();
    kernel.write((node, fh), b"a client's", 0).unwrap();
    let append = |data: &[u8], offset: u64, write_flags: u32| {
        let flags = 0o2_000 | O_RDWR;
        let asked = WriteIn { fh, offset, size: data.len() as u32, write_flags, flags, ..WriteIn::default() };
        kernel.ask(16, node, &[asked.as_bytes(), data]).unwrap();
    };
    append(b" and ours", 0, 0);
    append(b"!", 100, 0);
    assert_eq!(kernel.read((node, fh)), Ok(b"a client's and ours!".to_vec()));
    append(b"A", 0, 1);
    assert_eq!(kernel.read((node, fh)), Ok(b"A client's and ours!".to_vec()), "pages go where they are");
}

#[test]
fn set_id_bits_go_when_the_kernel_says_so() {
    let kernel = Kernel::new();
    let (node, fh) = kernel.create(b"f", O_RDWR).unwrap();
    let mode = |bits| SetAttrIn { valid: MODE, mode: bits, ..SetAttrIn::default() };
    assert_eq!(kernel.set(node, mode(0o6755)), Ok(0o106_755));
    kernel.write((node, fh), b"x", 0).unwrap();
    assert_eq!(kernel.lookup(b"f").unwrap().attr.mode, 0o106_755);
    kernel.write((node, fh), b"x", 1 << 2).unwrap();
    assert_eq!(kernel.lookup(b"f").unwrap().attr.mode, 0o100_755);
    kernel.set(node, mode(0o6755)).unwrap();
    let cut = |valid| SetAttrIn { valid: SIZE | FH | valid, fh, ..SetAttrIn::default() };
    assert_eq!(kernel.set(node, cut(0)), Ok(0o106_755));
    assert_eq!(kernel.set(node, cut(KILL_SUIDGID)), Ok(0o100_755));
    kernel.set(node, mode(0o6755)).unwrap();
    let given = SetAttrIn { valid: UID, uid: 7, ..SetAttrIn::default() };
    assert_eq!(kernel.set(node, given), Ok(0o100_755), "who gives a file away gives no rights");
}

#[test]
fn times_are_the_programs_or_now() {
    let kernel = Kernel::new();
    let (node, _) = kernel.create(b"f", O_RDWR).unwrap();
    let set = SetAttrIn { valid: ATIME | MTIME | MTIME_NOW, atime: -5, atime_ns: 6, mtime: 1, ..SetAttrIn::default() };
    kernel.set(node, set).unwrap();
    let attr = kernel.lookup(b"f").unwrap().attr;
    assert_eq!((attr.atime, attr.atime_ns), (-5, 6));
    assert!(attr.mtime == attr.ctime && attr.mtime > 1_000_000);
}

#[test]
fn names_are_moved_listed_and_not_exchanged() {
    let kernel = Kernel::new();
    let dir = MkDirIn { mode: 0o755, umask: 0 };
    let told = kernel.ask(9, ROOT, &[dir.as_bytes(), b"d\0"]).unwrap();
    let dir = EntryOut::read_from_bytes(&told[..]).unwrap().node;
    let rename = |flags, to: &[u8]| {
        let asked = Rename2In { new_dir: dir, flags, padding: 0 };
        kernel.ask(45, ROOT, &[asked.as_bytes(), b"f\0", to, b"\0"])
    };
    kernel.create(b"f", O_RDWR).unwrap();
    assert_eq!(rename(0, b"g"), Ok(vec![]));
    kernel.create(b"f", O_RDWR).unwrap();
    assert_eq!((rename(1, b"g"), rename(2, b"g"), rename(1, b"h")), (Err(EXIST), Err(INVAL), Ok(vec![])));
    let list = |opcode| kernel.ask(opcode, dir, &[ReadIn { size: 4096, ..ReadIn::default() }.as_bytes()]).unwrap();
    let opened = kernel.ask(27, dir, &[OpenIn { flags: 0, open_flags: 0 }.as_bytes()]).unwrap();
    assert!(OpenOut::read_from_bytes(&opened[..]).is_ok(), "without this the kernel does not believe it");
    let names = |told: &[u8]| {
        [&b"g"[..], b"h"].map(|name| told.windows(9).any(|part| part == [&[1, 0, 0, 0, 8, 0, 0, 0][..], name].concat()))
    };
    assert_eq!(names(&list(44)), [true, true], "with kinds, as with attributes");
    assert_eq!(list(28).len(), 4 * 32);
    // The root has one number for the kernel, however it is come by.
    let told = kernel.ask(1, dir, &[b"..\0"]).unwrap();
    assert_eq!(EntryOut::read_from_bytes(&told[..]).unwrap().node, ROOT);
}

#[test]
fn extended_attributes_are_those_of_users() {
    let kernel = Kernel::new();
    let (node, _) = kernel.create(b"f", O_RDWR).unwrap();
    let set = |name: &[u8], flags| {
        let asked = SetXattrIn { size: 2, flags };
        kernel.ask(21, node, &[asked.as_bytes(), name, b"\0vw"])
    };
    let get = |name: &[u8], size| kernel.ask(22, node, &[GetXattrIn { size, padding: 0 }.as_bytes(), name, b"\0"]);
    let (no_data, range, unsupported) = (61, 34, 95);
    assert_eq!((set(b"user.a", 2), set(b"user.a", 1), set(b"user.a", 1)), (Err(no_data), Ok(vec![]), Err(EXIST)));
    assert_eq!(
        (set(b"security.capability", 0), get(b"system.posix_acl_access", 9)),
        (Err(unsupported), Err(unsupported))
    );
    assert_eq!((get(b"user.a", 2), get(b"user.a", 1)), (Ok(b"vw".to_vec()), Err(range)));
    assert_eq!(get(b"user.a", 0), Ok([2, 0, 0, 0, 0, 0, 0, 0].to_vec()));
    assert_eq!(kernel.ask(23, node, &[GetXattrIn { size: 99, padding: 0 }.as_bytes()]), Ok(b"user.a\0".to_vec()));
    assert_eq!((kernel.ask(24, node, &[b"user.a\0"]), get(b"user.a", 2)), (Ok(vec![]), Err(no_data)));
}

/// What others have of a file keeps programs waiting in their system calls.
#[test]
fn who_is_kept_out_waits() {
    let kernel = Kernel::new();
    let (node, fh) = kernel.create(b"f", O_RDWR).unwrap();
    kernel.release((node, fh));
    let read = ReadIn { fh: 1, size: 9, ..ReadIn::default() };
    kernel.open(node, 0).unwrap();
    kernel.source.awaits.store(true, SeqCst);
    assert!(kernel.is_again(15, node, &[read.as_bytes()]), "others may still claim what they have written");
    assert!(kernel.lookup(b"f").is_ok(), "who only looks sees what is there");
    kernel.source.awaits.store(false, SeqCst);
    kernel.release((node, 1));

    // A client of NFSv4 has the file for writing.
    let (vfs, cred) = (&kernel.vfs(), kernel.elsewhere());
    let object = vfs.lookup(&cred, vfs.root(), b"f").unwrap().0.object;
    let holder = tally_vfs::Holder { client: ClientNumber(5), owner: OwnerNumber(1) };
    let opening =
        tally_vfs::Opening { share: Share::only(Access::BOTH), by: &|_| Ok(holder), wants: Some(Delegation::Write) };
    let ctx = OpCtx { client: Some(holder.client), ..OpCtx::of(&cred) };
    let opened = vfs.open(ctx, ToOpen::Itself(object), opening).result.unwrap();
    assert_eq!(opened.delegated, Some(Delegation::Write));
    assert!(kernel.is_again(14, node, &[OpenIn { flags: 0, open_flags: 0 }.as_bytes()]));
    assert!(kernel.is_again(3, node, &[&[0; 16]]), "it may know of a later size");
    assert_eq!(kernel.source.recalled.load(SeqCst), 2);
    // For ten minutes, of which none count in which it waited for something else.
    let job = || {
        let head = InHeader { len: 56, opcode: 3, unique: 2, node, ..InHeader::default() };
        let message = [head.as_bytes(), &[0; 16]].concat().into();
        Job { unique: 2, message, since: Instant::now() - 2 * KEPT_OUT_MAX }
    };
    kernel.under_way.begin(2);
    assert!(matches!(kernel.door.run(&job()), Step::Again(Until::GivenBack)));
    kernel.under_way.is_not_kept_out(2);
    kernel.under_way.kept_out(2, Instant::now() - KEPT_OUT_MAX);
    assert!(matches!(kernel.door.run(&job()), Step::Reply(reply, With::Nothing) if reply.is_error()));
    tally_vfs::Delegations::give_back(&**vfs, object, holder.client);
    assert!(kernel.open(node, 0).is_ok());
}

/// Five opens on a disk that hangs kept each reader of a mount, as the files of one shard waited for the first of them.
#[test]
fn who_opens_a_file_on_a_disk_that_hangs_keeps_no_others() {
    let kernel = Kernel::new();
    let files: Vec<_> = (0..500).map(|number| kernel.create(format!("{number}").as_bytes(), O_RDWR).unwrap()).collect();
    files.iter().for_each(|file| kernel.release(*file));
    let ((hangs, is_hanging), (goes_on, waits)) = (mpsc::channel(), mpsc::channel());
    kernel.vfs().before_look(move |_| {
        hangs.send(()).unwrap();
        waits.recv().unwrap();
    });
    let (told, opened) = mpsc::channel();
    let (kernel, [first, others @ ..]) = (&kernel, &files[..]) else { panic!("there are some") };
    thread::scope(|scope| {
        let one = scope.spawn(|| kernel.open(first.0, 0));
        is_hanging.recv().unwrap();
        scope.spawn(move || {
            others.iter().for_each(|(node, _)| _ = kernel.open(*node, 0).unwrap());
            told.send(()).unwrap();
        });
        let others = opened.recv_timeout(PATIENCE);
        goes_on.send(()).unwrap();
        assert!(one.join().unwrap().is_ok());
        assert_eq!(others, Ok(()), "one of them waits for the disk of the first");
    });
}

#[test]
fn what_is_only_read_says_so_and_has_nothing_due() {
    let kernel = Kernel::new();
    let (node, fh) = kernel.create(b"f", O_RDWR).unwrap();
    kernel.vfs().set_read_only(true);
    assert_eq!((kernel.create(b"g", O_RDWR), kernel.open(node, O_RDWR)), (Err(ROFS), Err(ROFS)));
    assert_eq!(kernel.ask(20, node, &[&fh.to_ne_bytes(), &[0; 8]]), Ok(vec![]), "fsync");
    assert_eq!(kernel.ask(30, ROOT, &[&[0; 16]]), Ok(vec![]), "fsync of a folder");
}
