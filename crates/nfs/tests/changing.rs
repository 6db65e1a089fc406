//! Version 4: compounds that change something. What they wait for, where they go on, and what their repetitions are told.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::time::Instant;

use support::client::{Answer, record, words};
use support::desk::bytes_of;
use support::gated::Promises;
use support::{KEY, POOL, TestExports};
use tally_base::{Broken, Fate};
use tally_nfs::handle::Handle;
use tally_nfs::link::Link;
use tally_nfs::service::{Job, Service, Step};
use tally_nfs::v3;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Attributes, Content, CreateHow, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr, Stability};

const OK: u32 = 0;
const NOENT: u32 = 2;
const IO: u32 = 5;
const ACCESS: u32 = 13;
const EXIST: u32 = 17;
const XDEV: u32 = 18;
const ISDIR: u32 = 21;
const INVAL: u32 = 22;
const ROFS: u32 = 30;
const SERVERFAULT: u32 = 10006;
const BADTYPE: u32 = 10007;
const DELAY: u32 = 10008;
const RESOURCE: u32 = 10018;
const NOFILEHANDLE: u32 = 10020;
const BAD_STATEID: u32 = 10025;
const ATTRNOTSUPP: u32 = 10032;
const BADXDR: u32 = 10036;
const BADOWNER: u32 = 10039;

const SIZE: u32 = 4;
const MODE: u32 = 33;
const OWNER: u32 = 36;
const COMMIT: u32 = 5;
const CREATE: u32 = 6;
const SETATTR: u32 = 34;
const WRITE: u32 = 38;

/// A service, and a connection to it, without a socket.
struct Scene {
    exports: Arc<TestExports>,
    service: Service,
    link: Arc<Link>,
}

/// The results of a compound: its status, and the number, status and rest of each operation up to the first whose length is not known.
struct Results {
    status: u32,
    count: u32,
    answer: Answer,
}

impl Results {
    fn parse(reply: &[u8]) -> Self {
        let (_, mut answer) = Answer::parse(reply.to_vec().into());
        assert_eq!(answer.opaque(), b"tag");
        let count = answer.u32();
        Self { status: answer.status, count, answer }
    }

    /// The next one has this number and status.
    fn next(&mut self, number: u32, status: u32) -> &mut Answer {
        assert_eq!((self.answer.u32(), self.answer.u32()), (number, status));
        &mut self.answer
    }

    /// The change of a directory: before, after, and it is atomic.
    fn change(&mut self) -> (u64, u64) {
        assert!(self.answer.bool(), "nobody came between");
        (self.answer.u64(), self.answer.u64())
    }

    /// A CREATE that made something.
    fn made(&mut self) -> (u64, u64) {
        self.next(CREATE, OK);
        let change = self.change();
        self.bitmap();
        change
    }

    fn bitmap(&mut self) -> Vec<u32> {
        (0..self.answer.u32()).map(|_| self.answer.u32()).collect()
    }
}

impl Scene {
    fn new() -> Self {
        let exports = TestExports::new();
        let link = Arc::new(Link::new(1, "127.0.0.1:700".parse().unwrap()));
        Self { service: Service::new(exports.clone()).speaking_4(), exports, link }
    }

    fn put(&self, object: ObjectRef) -> Encoder {
        let handle = Handle { pool: POOL, dataset: self.exports.tank.dataset(), object }.seal(&KEY);
        with(22, |words| _ = words.opaque(&handle))
    }

    fn put_root(&self) -> Encoder {
        self.put(self.exports.tank.root())
    }

    fn begin(&self, xid: u32, ops: &[Encoder]) -> (Job, Step) {
        self.begin_on(&self.link, xid, ops)
    }

    fn begin_on(&self, link: &Arc<Link>, xid: u32, ops: &[Encoder]) -> (Job, Step) {
        let arguments = words(|words| {
            words.opaque(b"tag").u32(0).u32(ops.len() as u32);
            ops.iter().for_each(|op| _ = words.append(op.clone()));
        });
        let record = record(xid, (0, &[0]), (v3::PROGRAM, tally_nfs::v4::VERSION), 1, arguments);
        let mut job = self.service.open(record.into(), link, Instant::now()).expect("a call");
        let step = self.service.run(&mut job);
        (job, step)
    }

    /// The reply of one that waits for nothing.
    fn run(&self, xid: u32, ops: &[Encoder]) -> Results {
        let (mut job, step) = self.begin(xid, ops);
        self.end(&mut job, step)
    }

    fn end(&self, job: &mut Job, step: Step) -> Results {
        let Step::Reply(reply) = step else { panic!("it waits, or is none") };
        let bytes = bytes_of(&reply);
        self.service.finish(job, &reply);
        Results::parse(&bytes)
    }

    fn status(&self, ops: &[Encoder]) -> u32 {
        let xid = 1000 + self.exports.tank.changes.load(SeqCst) as u32 * 1000 + ops.len() as u32;
        self.run(xid, ops).status
    }

    fn changes(&self) -> usize {
        self.exports.tank.changes.load(SeqCst)
    }

    fn file(&self, name: &[u8]) -> ObjectRef {
        let (tank, cred) = (&self.exports.tank.model, Cred::root());
        let how = CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
        tank.create(OpCtx { cred: &cred, reply: None }, tank.root(), name, &how).result.unwrap().object
    }

    fn has(&self, name: &[u8]) -> bool {
        self.exports.tank.lookup(&Cred::root(), self.exports.tank.root(), name).is_ok()
    }

    fn hold(&self) {
        *self.exports.tank.promises.lock() = Promises::ByHand;
    }
}

fn with(number: u32, fill: impl FnOnce(&mut Encoder)) -> Encoder {
    words(|words| {
        words.u32(number);
        fill(words);
    })
}

fn op(number: u32) -> Encoder {
    with(number, |_| {})
}

/// A `fattr4` of these attributes, whose values these are.
fn attributes(words: &mut Encoder, numbers: &[u32], values: &[u8]) {
    let mut map = [0_u32; 2];
    numbers.iter().for_each(|number| map[(number / 32) as usize] |= 1 << (number % 32));
    words.u32(2).u32(map[0]).u32(map[1]).opaque(values);
}

/// CREATE of a directory.
fn make(name: &[u8]) -> Encoder {
    with(CREATE, |words| {
        words.u32(2).opaque(name);
        attributes(words, &[MODE], &0o755_u32.to_be_bytes());
    })
}

fn remove(name: &[u8]) -> Encoder {
    with(28, |words| _ = words.opaque(name))
}

fn set(numbers: &[u32], values: &[u8]) -> Encoder {
    with(SETATTR, |words| {
        words.raw(&[0; 16]);
        attributes(words, numbers, values);
    })
}

fn write(stateid: u8, data: &[u8]) -> Encoder {
    with(WRITE, |words| _ = words.raw(&[stateid; 16]).u64(0).u32(2).opaque(data))
}

/// Waits for what a step waits for, and gives what became of it.
fn fate(step: Step) -> mpsc::Receiver<Fate> {
    let (Step::Wait(promise) | Step::Again(promise)) = step else { panic!("it waits for nothing") };
    let (told, fate) = mpsc::channel();
    promise.then(Box::new(move |outcome| _ = told.send(outcome)));
    fate
}

#[test]
fn names_are_made_moved_and_removed_and_their_directory_changes_with_each() {
    let scene = Scene::new();
    let rename = with(29, |words| _ = words.opaque(b"b").opaque(b"c"));
    let file = scene.file(b"file");
    let ops = [
        scene.put_root(),
        make(b"a"),
        scene.put_root(),
        make(b"b"),
        scene.put_root(),
        op(32),
        rename,
        remove(b"c"),
        scene.put(file),
        op(32),
        scene.put_root(),
        with(11, |words| _ = words.opaque(b"other")),
    ];
    let mut results = scene.run(1, &ops);
    assert_eq!((results.status, results.count), (OK, 12));
    let mut changes = Vec::new();
    for (number, is_change) in [(22, 0), (CREATE, 1), (22, 0), (CREATE, 1), (22, 0), (32, 0), (29, 2), (28, 1), (22, 0)]
    {
        results.next(number, OK);
        changes.extend((0..is_change).map(|_| results.change()));
        if number == CREATE {
            assert_eq!(results.bitmap(), [0, 1 << (MODE - 32)]);
        }
    }
    [32, 22, 11].into_iter().for_each(|number| _ = results.next(number, OK));
    changes.push(results.change());
    results.answer.end();
    let root = scene.exports.tank.getattr(scene.exports.tank.root()).unwrap();
    assert_eq!(changes.last().unwrap().1, root.change.0);
    // A RENAME in one directory tells of it twice.
    assert_eq!(changes[2], changes[3]);
    changes.remove(3);
    assert!(changes.windows(2).all(|pair| pair[0].0 < pair[0].1 && pair[0].1 == pair[1].0), "{changes:?}");
    assert!(scene.has(b"a") && scene.has(b"other") && !scene.has(b"b") && !scene.has(b"c"));
}

#[test]
fn content_and_attributes_are_set() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let mut values = 3_u64.to_be_bytes().to_vec();
    values.extend(0o600_u32.to_be_bytes());
    values.extend(words(|words| _ = words.opaque(b"1000")).into_vec());
    let commit = with(COMMIT, |words| _ = words.u64(0).u32(0));
    let ops = [scene.put(file), write(0, b"some bytes"), commit, set(&[SIZE, MODE, OWNER], &values)];
    let mut results = scene.run(1, &ops);
    assert_eq!(results.status, OK);
    results.next(22, OK);
    let answer = results.next(WRITE, OK);
    assert_eq!((answer.u32(), answer.u32()), (10, Stability::FileSync as u32));
    let verifier = answer.u64();
    assert_eq!(results.next(COMMIT, OK).u64(), verifier);
    results.next(SETATTR, OK);
    assert_eq!(results.bitmap(), [1 << SIZE, 1 << (MODE - 32) | 1 << (OWNER - 32)]);
    results.answer.end();
    let attr = scene.exports.tank.getattr(file).unwrap();
    assert_eq!((attr.size, attr.mode, attr.uid), (3, 0o600, 1000));
    let read = scene.exports.tank.read(&Cred::root(), file, 0, 100).unwrap();
    assert_eq!(read.data.concat(), b"som");
}

/// Rules V2. It was run again from its start, and told EXIST of what it had made itself.
#[test]
fn a_compound_goes_on_with_the_operation_that_found_no_room() {
    let scene = Scene::new();
    let ops = [scene.put_root(), make(b"a"), scene.put_root(), op(32), make(b"b"), op(31), op(10), make(b"c")];
    scene.exports.tank.throttle_behind(1);
    let before = scene.changes();
    let (mut job, step) = scene.begin(1, &ops);
    assert!(matches!(step, Step::Again(_)), "the second found no room");
    assert_eq!(scene.changes(), before + 1);
    let step = scene.service.run(&mut job);
    let mut results = scene.end(&mut job, step);
    assert_eq!((results.status, results.count), (OK, 8));
    assert_eq!(scene.changes(), before + 3);
    results.next(22, OK);
    results.made();
    results.next(22, OK);
    results.next(32, OK);
    results.made();
    results.next(31, OK);
    let handle = Handle { pool: POOL, dataset: scene.exports.tank.dataset(), object: scene.exports.tank.root() };
    assert_eq!(results.next(10, OK).opaque(), handle.seal(&KEY), "both handles are where they were");
    results.made();
    results.answer.end();
}

/// Rules V36: what a rule allowed before the wait it need not allow behind it. What was done stays done, and is told.
#[test]
fn behind_a_wait_the_rules_of_then_count() {
    let scene = Scene::new();
    scene.exports.tank.throttle_behind(1);
    let (mut job, step) = scene.begin(1, &[scene.put_root(), make(b"a"), scene.put_root(), make(b"b")]);
    assert!(matches!(step, Step::Again(_)));
    *scene.exports.tank_rule.lock() = "10.0.0.0/8(rw)".into();
    let step = scene.service.run(&mut job);
    let mut results = scene.end(&mut job, step);
    assert_eq!((results.status, results.count), (ACCESS, 4));
    results.next(22, OK);
    results.made();
    results.next(22, OK);
    results.next(CREATE, ACCESS);
    results.answer.end();
    assert!(scene.has(b"a") && !scene.has(b"b"));
}

/// Rules V1: one reply, behind all that it rests on.
#[test]
fn a_reply_waits_for_all_of_its_operations() {
    let scene = Scene::new();
    scene.hold();
    let (mut job, step) = scene.begin(1, &[scene.put_root(), make(b"a"), scene.put_root(), make(b"b"), op(10)]);
    let fate = fate(step);
    scene.exports.tank.keep_one();
    assert!(fate.try_recv().is_err(), "the second is not durable");
    scene.exports.tank.keep_one();
    let reply = scene.service.reply_after_wait(&mut job, fate.try_recv().unwrap());
    let results = Results::parse(&bytes_of(&reply));
    assert_eq!((results.status, results.count), (OK, 5));
}

/// Rules V3. The whole reply was an error, and a client did not know of the directory that it had made.
#[test]
fn what_stands_before_a_broken_promise_is_told() {
    let scene = Scene::new();
    scene.hold();
    let mut ops = vec![scene.put_root(), make(b"a"), scene.put_root(), make(b"b"), scene.put_root(), make(b"c")];
    let (mut job, step) = scene.begin(1, &ops);
    let told = fate(step);
    scene.exports.tank.keep_one();
    scene.exports.tank.break_one();
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    let mut results = Results::parse(&bytes_of(&reply));
    assert_eq!((results.status, results.count), (IO, 4));
    results.next(22, OK);
    results.made();
    results.next(22, OK);
    results.next(CREATE, IO);
    results.answer.end();
    // The error of one that failed waits as well (rules F9), and one of SETATTR says that nothing was set.
    ops = vec![scene.put_root(), set(&[MODE], &[0, 0, 1, 0o300])];
    let (mut job, step) = scene.begin(2, &ops);
    drop(fate(step));
    let reply = scene.service.reply_after_wait(&mut job, Err(Broken("the disk is gone".into())));
    let mut results = Results::parse(&bytes_of(&reply));
    results.next(22, OK);
    results.next(SETATTR, IO);
    assert_eq!(results.bitmap(), []);
    results.answer.end();
    let (_, step) = scene.begin(3, &[scene.put_root(), make(b"a")]);
    assert!(matches!(step, Step::Wait(_)), "EXIST rests on what is not durable");
}

/// A REMOVE that was answered and came again said NOENT, as in version 3 before replies were kept.
#[test]
fn a_repetition_is_told_what_its_first_transmission_was() {
    let scene = Scene::new();
    scene.file(b"file");
    let ops = [scene.put_root(), remove(b"file"), make(b"file")];
    let (mut job, step) = scene.begin(7, &ops);
    let Step::Reply(first) = step else { panic!("it waits for nothing") };
    scene.service.finish(&mut job, &first);
    let changes = scene.changes();
    let Step::Reply(again) = scene.begin(7, &ops).1 else { panic!("it is answered at once") };
    assert_eq!(again, first);
    assert_eq!(scene.changes(), changes);
    // One that is under way is attached to.
    scene.hold();
    let ops = [scene.put_root(), make(b"a")];
    let (mut job, step) = scene.begin(8, &ops);
    assert!(matches!(scene.begin(8, &ops).1, Step::Attached));
    let told = fate(step);
    scene.exports.tank.keep_one();
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    assert_eq!(scene.service.finish(&mut job, &reply).len(), 1);
    // What only looked is looked at again.
    let look = [scene.put_root(), op(10)];
    let (mut job, step) = scene.begin(9, &look);
    assert_eq!(scene.end(&mut job, step).status, OK);
    assert!(matches!(scene.begin(9, &look).1, Step::Reply(_)));
}

/// The pool was suspended as a compound waited, and is taken up again: each of its operations is asked for by its own number, as two of
/// them may be equal in all the rest.
#[test]
fn a_compound_in_doubt_is_told_of_each_operation_whether_it_was_carried_out() {
    let scene = Scene::new();
    scene.hold();
    let ops =
        [scene.put_root(), make(b"a"), scene.put_root(), make(b"b"), scene.put_root(), remove(b"b"), remove(b"none")];
    let (mut job, step) = scene.begin(1, &ops);
    drop(fate(step));
    let broken: Fate = Err(Broken("the pool is suspended".into()));
    scene.exports.tank.suspended.store(true, SeqCst);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&broken)));
    scene.service.forget_unwaited_replies(POOL);
    scene.exports.tank.suspended.store(false, SeqCst);
    assert!(scene.service.may_go_on(&job));
    *scene.exports.tank.promises.lock() = Promises::Ready;
    let changes = scene.changes();
    let step = scene.service.run(&mut job);
    let mut results = scene.end(&mut job, step);
    // What failed left nothing behind, and is tried again.
    assert_eq!(scene.changes(), changes + 1);
    assert_eq!((results.status, results.count), (NOENT, 7));
    assert!(scene.has(b"a") && !scene.has(b"b"));
    for number in [22, CREATE, 22, CREATE, 22, 28] {
        results.next(number, OK);
        if [CREATE, 28].contains(&number) {
            assert!(!results.answer.bool(), "of what was before nobody knows any more");
            assert_eq!(results.answer.u64(), results.answer.u64());
        }
        if number == CREATE {
            results.bitmap();
        }
    }
    results.next(28, NOENT);
    results.answer.end();
}

#[test]
fn an_operation_that_panics_costs_itself_and_what_was_done_is_told() {
    let scene = Scene::new();
    scene.hold();
    let file = scene.file(b"file");
    let ops = [scene.put_root(), make(b"a"), scene.put(file), write(0, b"x")];
    scene.exports.tank.panic_at_getattr.store(true, SeqCst);
    let (mut job, step) = scene.begin(1, &ops);
    let told = fate(step);
    scene.exports.tank.keep_one();
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    let mut results = Results::parse(&bytes_of(&reply));
    assert_eq!((results.status, results.count), (SERVERFAULT, 4));
    results.next(22, OK);
    results.made();
    results.next(22, OK);
    results.next(WRITE, SERVERFAULT);
    results.answer.end();
}

#[test]
fn wrong_uses_change_nothing_and_are_told_apart() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let child = {
        let child = &scene.exports.child;
        let handle = Handle { pool: POOL, dataset: child.dataset(), object: child.root() }.seal(&KEY);
        with(22, |words| _ = words.opaque(&handle))
    };
    let make_with = |kind: u32, fill: &dyn Fn(&mut Encoder)| {
        with(CREATE, |words| {
            words.u32(kind).opaque(b"new");
            fill(words);
        })
    };
    let none = |words: &mut Encoder| attributes(words, &[], &[]);
    let on_file = |op: Encoder| vec![scene.put(file), op];
    let on_root = |op: Encoder| vec![scene.put_root(), op];
    let rename = |from: &[u8], to: &[u8]| with(29, |words| _ = words.opaque(from).opaque(to));
    let string = |text: &[u8]| words(|words| _ = words.opaque(text)).into_vec();
    let time = |seconds: i64, nanoseconds: u32| words(|w| _ = w.u32(1).u64(seconds as u64).u32(nanoseconds)).into_vec();
    let cases: Vec<(&str, Vec<Encoder>, u32)> = vec![
        ("a file is made", on_root(make_with(1, &none)), BADTYPE),
        ("nothing that there is", on_root(make_with(9, &none)), BADTYPE),
        ("a directory with a size", on_root(make_with(2, &|w| attributes(w, &[SIZE], &[0; 8]))), INVAL),
        ("a name that is there", on_root(make(b"child")), EXIST),
        ("above the exports", vec![op(24), make(b"new")], ROFS),
        ("nowhere", vec![make(b"new")], NOFILEHANDLE),
        ("a link of nothing", vec![scene.put_root(), with(11, |words| _ = words.opaque(b"l"))], NOFILEHANDLE),
        ("a link of another dataset's", vec![child.clone(), op(32), scene.put_root(), rename(b"a", b"b")], XDEV),
        ("what a dataset is mounted on goes", on_root(remove(b"child")), ACCESS),
        ("what a dataset is mounted on moves", vec![scene.put_root(), op(32), rename(b"child", b"b")], ACCESS),
        ("an owner by name", on_file(set(&[OWNER], &string(b"root@localdomain"))), BADOWNER),
        ("an owner by no name", on_file(set(&[OWNER], &string(b""))), BADOWNER),
        ("an owner of 33 bits", on_file(set(&[OWNER], &string(b"4294967296"))), BADOWNER),
        ("what is only read", on_file(set(&[1], &[0, 0, 0, 1])), INVAL),
        ("what there is not", on_file(set(&[12], &[0; 4])), ATTRNOTSUPP),
        ("a time before all times", on_file(set(&[54], &time(-1, 0))), INVAL),
        ("a time behind all times", on_file(set(&[54], &time(i64::MAX, 0))), INVAL),
        ("more than a second of nanoseconds", on_file(set(&[48], &time(1, 1_000_000_000))), INVAL),
        ("values that end", on_file(set(&[MODE], &[0; 3])), BADXDR),
        ("values that nobody told of", on_file(set(&[MODE], &[0; 8])), BADXDR),
        ("the size of a directory", on_root(set(&[SIZE], &[0; 8])), ISDIR),
        ("somebody's state", on_file(write(7, b"x")), BAD_STATEID),
        ("a directory is written", on_root(write(0, b"x")), ISDIR),
        ("a directory is committed", on_root(with(COMMIT, |words| _ = words.u64(0).u32(0))), ISDIR),
        ("no stability", on_file(with(WRITE, |words| _ = words.raw(&[0; 16]).u64(0).u32(3).opaque(b""))), BADXDR),
    ];
    for (at, (what, ops, expected)) in cases.into_iter().enumerate() {
        let before = scene.changes();
        let mut results = scene.run(100 + at as u32, &ops);
        assert_eq!(results.status, expected, "{what}");
        assert!(expected == EXIST || scene.changes() == before, "{what}");
        if results.count == 2 && expected == BADOWNER {
            results.next(22, OK);
            results.next(SETATTR, BADOWNER);
            assert_eq!(results.bitmap(), [], "{what}");
            results.answer.end();
        }
    }
    *scene.exports.tank_rule.lock() = "*(ro,no_root_squash,insecure)".into();
    assert_eq!(scene.status(&[scene.put_root(), make(b"new")]), ROFS);
    assert!(!scene.has(b"new"));
}

/// Rules V16: what is answered with a megabyte leaves no room for the answer of a change, which then is not done.
#[test]
fn what_cannot_be_answered_is_not_done() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let tank = &scene.exports.tank.model;
    let cred = Cred::root();
    let ctx = OpCtx { cred: &cred, reply: None };
    tank.write(ctx, file, 0, vec![7; 1 << 20].into(), Stability::FileSync).result.unwrap();
    let read = with(25, |words| _ = words.raw(&[0; 16]).u64(0).u32(1 << 20));
    let ops = [scene.put(file), read.clone(), read, scene.put_root(), make(b"a")];
    let mut results = scene.run(1, &ops);
    assert_eq!((results.status, results.count), (RESOURCE, 5));
    results.next(22, OK);
    assert!(!scene.has(b"a"));
    // Where nobody will serve for now nothing was done either, and all of it may come again.
    scene.exports.tank.suspended.store(true, SeqCst);
    let (mut job, step) = scene.begin(2, &[scene.put_root(), make(b"a")]);
    assert_eq!(scene.end(&mut job, step).status, DELAY);
    scene.exports.tank.suspended.store(false, SeqCst);
    assert_eq!(scene.run(2, &[scene.put_root(), make(b"a")]).status, OK);
}
