//! Locks of NFSv3 that are given to who waits for them: whose they are when a call or its answer is lost, and what else the host says meanwhile. Call by call; where two come at once, each at its place.

use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::{Seat, seat_this_thread};
use tally_nfs::handle::Handle;
use tally_nfs::nlm::overtaking::KEPT_MAX;
use tally_nfs::v4::Heard;
use tally_vfs::{CreateHow, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr};

use crate::support::gated::{Gated, Promises};
use crate::support::host::{
    Ask, BLOCKED, CANCEL, DENIED, GRACE, GRANTED, Host, LOCK, UNLOCK, answers, ask, calls, host, host_at, next_call,
    scene,
};
use crate::support::scene::Scene;
use crate::support::{Child, KEY, POOL};

/// The first had ten bytes that the second waits for, and has unlocked them: the second is to be called.
fn waits(scene: &Scene, file: ObjectRef) -> ([Host; 2], Ask) {
    let (hosts, lock) = ([1, 2].map(host), Ask { blocks: true, ..ask(scene, LOCK, file) });
    assert_eq!([GRANTED, BLOCKED], [0, 1].map(|at| hosts[at].says(scene, &lock)));
    assert_eq!(hosts[0].says(scene, &Ask { procedure: UNLOCK, ..lock.clone() }), GRANTED);
    (hosts, lock)
}

/// One thread looks at what is free, for all pools. Somebody waits for a disk of this one with its list in his hands, as who locks in it for the first time: the range is another one's at a later look.
#[test]
fn a_list_whose_disk_hangs_keeps_no_look() {
    let scene = scene();
    let file = scene.file(b"f");
    let (hosts, lock) = ([1, 2, 3].map(host), Ask { blocks: true, ..ask(&scene, LOCK, file) });
    assert_eq!([GRANTED, BLOCKED], [0, 1].map(|at| hosts[at].says(&scene, &lock)));
    let ((begins, begun), (go, gone), (looks, looked)) = (mpsc::channel(), mpsc::channel(), mpsc::channel());
    let hangs = move || {
        begins.send(()).unwrap();
        gone.recv().unwrap();
    };
    *scene.exports.keep_clients().before_remove.lock() = Some(Box::new(hangs));
    let (there, lock) = (Ask { range: (50, 1), ..lock.clone() }, &lock);
    let was_looked = thread::scope(|scope| {
        scope.spawn(|| assert_eq!(hosts[2].says(&scene, &there), GRANTED));
        begun.recv().unwrap();
        scope.spawn(|| {
            assert_eq!(hosts[0].says(&scene, &Ask { procedure: UNLOCK, ..lock.clone() }), GRANTED);
            looks.send(next_call(&scene).is_none()).unwrap();
        });
        // It is short where it does not hang.
        let was_looked = looked.recv_timeout(Duration::from_secs(20));
        go.send(()).unwrap();
        was_looked
    });
    assert_eq!(was_looked, Ok(true));
    calls(&scene, &hosts[1]);
}

/// While a pool is suspended nobody is given anything of it, and nothing is asked of its list.
#[test]
fn of_a_pool_that_is_suspended_nothing_is_given() {
    let scene = scene();
    let file = scene.file(b"f");
    let lock = Ask { blocks: true, ..ask(&scene, LOCK, file) };
    assert_eq!([1, 2].map(|number| host(number).says(&scene, &lock)), [GRANTED, BLOCKED]);
    // Another one comes into the list, which is durable only later: until then each look would ask.
    let clients = scene.exports.keep_clients();
    *clients.promises.lock() = Promises::ByHand;
    let _waits = host(3).begin(&scene, &Ask { range: (50, 1), ..lock.clone() });
    scene.exports.tank.suspended.store(true, SeqCst);
    let changes = clients.changes.load(SeqCst);
    assert_eq!(host(1).says(&scene, &Ask { procedure: UNLOCK, ..lock }), GRANTED);
    assert!(next_call(&scene).is_none() && next_call(&scene).is_none());
    assert_eq!(clients.changes.load(SeqCst), changes);
    *clients.promises.lock() = Promises::Ready;
    scene.exports.tank.suspended.store(false, SeqCst);
    calls(&scene, &host(2));
}

/// How a doubt ends, and whether the lock is its own still.
type Ending = (fn(&Scene, &Host, &Ask), bool);

/// Linux takes the first call; where its answer is lost it says no to the second, as nobody waits any more. It has the lock.
#[test]
fn a_call_that_was_delivered_leaves_the_lock_with_its_host() {
    let endings: [Ending; 4] = [
        (|scene, two, lock| assert_eq!(two.says(scene, lock), GRANTED, "it asks again, and has it"), true),
        (|scene, two, lock| assert_eq!(two.says(scene, &Ask { procedure: UNLOCK, ..lock.clone() }), GRANTED), false),
        (|scene, two, lock| assert_eq!(two.says(scene, &Ask { procedure: CANCEL, ..lock.clone() }), GRANTED), false),
        (|scene, two, _| two.notifies(scene, 9), false),
    ];
    for (end, is_its_own) in endings {
        let scene = scene();
        let (file, mut clock) = (scene.file(b"f"), Duration::ZERO);
        let ([one, two], lock) = waits(&scene, file);
        let call = calls(&scene, &two);
        scene.service.host_call_done(&call, &Heard::Nothing);
        assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), DENIED);
        scene.pass(&mut clock, Duration::from_secs(11));
        let again = calls(&scene, &two);
        scene.service.host_call_done(&again, &answers(DENIED));
        for _ in 0..30 {
            assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), DENIED, "it may have taken the first");
            scene.pass(&mut clock, Duration::from_secs(10));
            assert!(next_call(&scene).is_none(), "it has said all that it will");
        }
        end(&scene, &two, &lock);
        assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), if is_its_own { DENIED } else { GRANTED });
    }
}

/// A host that hangs, and takes it when it does so no more; or loses the connection for good, and nobody takes it away.
#[test]
fn a_host_that_was_called_and_says_nothing_is_called_until_it_does() {
    let scene = scene();
    let (file, mut clock) = (scene.file(b"f"), Duration::ZERO);
    let ([one, two], _) = waits(&scene, file);
    for heard in
        [Heard::Nothing, Heard::NotCalled, Heard::NotCalled, Heard::NotCalled, Heard::Nothing, answers(GRANTED)]
    {
        let call = calls(&scene, &two);
        scene.service.host_call_done(&call, &heard);
        assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), DENIED);
        assert!(next_call(&scene).is_none());
        scene.pass(&mut clock, Duration::from_secs(61));
    }
    assert!(next_call(&scene).is_none());
    assert_eq!(two.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), GRANTED);
}

/// What is refused while its pool is away is given up there, or when it is back: it is not nobody's.
#[test]
fn what_a_host_refuses_while_its_pool_is_away_is_given_up() {
    let scene = scene();
    let file = scene.file(b"f");
    let ([one, two], lock) = waits(&scene, file);
    let call = calls(&scene, &two);
    scene.exports.export(true);
    scene.service.host_call_done(&call, &answers(DENIED));
    scene.exports.import();
    assert_eq!(one.says(&scene, &lock), GRANTED);

    // Or of a dataset that is being destroyed, and stays.
    let (child, cred) = (&scene.exports.child, Cred::root());
    let how = CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
    let object = child.create(OpCtx::of(&cred), child.root(), b"g", &how).result.unwrap().object;
    let handle = Handle { pool: POOL, dataset: child.dataset(), object }.seal(&KEY).as_slice().to_vec();
    let (lock, mut clock) = (Ask { file: handle, ..lock }, Duration::ZERO);
    assert_eq!([&one, &two].map(|host| host.says(&scene, &lock)), [GRANTED, BLOCKED]);
    assert_eq!(one.says(&scene, &Ask { procedure: UNLOCK, ..lock.clone() }), GRANTED);
    let call = calls(&scene, &two);
    *scene.exports.child_is.lock() = Child::Going;
    scene.service.host_call_done(&call, &answers(DENIED));
    *scene.exports.child_is.lock() = Child::There;
    assert_eq!(one.says(&scene, &Ask { blocks: false, ..lock.clone() }), DENIED);
    scene.pass(&mut clock, Duration::from_secs(11));
    let call = calls(&scene, &two);
    scene.service.host_call_done(&call, &answers(DENIED));
    assert_eq!(one.says(&scene, &lock), GRANTED);
}

/// What he has beside it he may have unlocked since: that does not come back with what is taken back.
#[test]
fn what_is_unlocked_while_its_owner_is_called_stays_so() {
    let scene = scene();
    let file = scene.file(b"f");
    let ([one, two, three], lock) = ([1, 2, 3].map(host), Ask { blocks: true, ..ask(&scene, LOCK, file) });
    let (shared, middle) = (Ask { is_exclusive: false, ..lock.clone() }, Ask { range: (10, 10), ..lock.clone() });
    assert_eq!(two.says(&scene, &Ask { range: (0, 40), ..shared.clone() }), GRANTED);
    assert_eq!(one.says(&scene, &Ask { range: (10, 2), ..shared.clone() }), GRANTED);
    assert_eq!(two.says(&scene, &middle), BLOCKED);
    let unlock = |range| Ask { range, ..ask(&scene, UNLOCK, file) };
    assert_eq!(one.says(&scene, &unlock((0, 0))), GRANTED);
    let call = calls(&scene, &two);
    assert_eq!(two.says(&scene, &unlock((30, 10))), GRANTED);
    scene.service.host_call_done(&call, &answers(DENIED));
    assert_eq!(three.says(&scene, &Ask { range: (30, 10), ..lock.clone() }), GRANTED);
    assert_eq!(
        three.says(&scene, &Ask { range: (10, 1), ..shared }),
        GRANTED,
        "of which he has what he had: for reading"
    );
    assert_eq!(three.says(&scene, &Ask { range: (10, 1), blocks: false, ..lock }), DENIED);
}

/// A process is killed while its LOCK waits here for a disk; what its host says then waits for nothing, and comes first.
#[test]
fn a_lock_that_is_carried_out_behind_its_unlock_locks_nothing() {
    for procedure in [UNLOCK, CANCEL] {
        let scene = scene();
        let file = scene.file(b"f");
        let (one, two, lock) = (host(1), host(2), ask(&scene, LOCK, file));
        let late = two.comes(&scene, &lock);
        let other = two.comes(&scene, &Ask { process: 8, range: (50, 1), ..lock.clone() });
        assert_eq!(two.says(&scene, &ask(&scene, procedure, file)), GRANTED);
        assert_eq!(Host::goes_on(&scene, late), [GRACE], "a process that is there comes again");
        assert_eq!(Host::goes_on(&scene, other), [GRANTED], "nobody has given that up");
        assert_eq!(one.says(&scene, &lock), GRANTED);
        assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
        assert_eq!(two.says(&scene, &lock), GRANTED, "what comes behind it is something new");
    }
}

/// The same, where others of that host have given so much up that nobody knows any more.
#[test]
fn a_lock_of_which_too_much_came_behind_locks_nothing() {
    let scene = scene();
    let (file, another) = (scene.file(b"f"), scene.file(b"g"));
    let (one, two, lock) = (host(1), host(2), ask(&scene, LOCK, file));
    let late = two.comes(&scene, &lock);
    assert_eq!(two.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    for _ in 0..KEPT_MAX {
        assert_eq!(two.says(&scene, &Ask { process: 8, ..ask(&scene, UNLOCK, another) }), GRANTED);
    }
    assert_eq!(Host::goes_on(&scene, late), [GRACE]);
    assert_eq!(one.says(&scene, &lock), GRANTED);
}

/// Any user of a host may say what its kernel says, but for the port that he says it from.
#[test]
fn what_a_kernel_has_locked_no_user_of_its_host_gives_up() {
    let scene = scene();
    let file = scene.file(b"f");
    let (kernel, user, other) = (Host { state: 3, ..host(1) }, host_at(1, 4000), host(2));
    let lock = ask(&scene, LOCK, file);
    assert_eq!(kernel.says(&scene, &lock), GRANTED);
    for procedure in [UNLOCK, CANCEL] {
        assert_eq!(user.says(&scene, &ask(&scene, procedure, file)), GRANTED, "he has nothing to give up");
        assert_eq!(other.says(&scene, &lock), DENIED);
    }
    user.frees_all(&scene);
    assert_eq!(user.says(&scene, &Ask { is_exclusive: false, ..lock.clone() }), DENIED, "nor for others to read");
    let anew = Host { state: 5, ..user.clone() };
    assert_eq!(anew.says(&scene, &Ask { range: (50, 1), ..lock.clone() }), GRANTED);
    assert_eq!(other.says(&scene, &lock), DENIED);
    // Whom the kernel waits for: a user does not cancel that either.
    assert_eq!(other.says(&scene, &ask(&scene, LOCK, scene.file(b"g"))), GRANTED);
    kernel.frees_all(&scene);
    assert_eq!(other.says(&scene, &lock), GRANTED);
    user.frees_all(&scene);
    assert_eq!(other.says(&scene, &Ask { range: (50, 1), ..lock }), GRANTED, "and he frees what is his");
}

/// Says that its thread is about to wait.
struct Sits(mpsc::Sender<()>);

impl Seat for Sits {
    fn sits_down(&self) {
        let _nobody_listens_any_more = self.0.send(());
    }

    fn stands_up(&self) {}
}

/// Does something in another thread, which is over behind this, or waits for who calls this.
fn beside(scene: &Arc<Scene>, act: impl FnOnce(&Scene) -> u32 + Send + 'static) -> JoinHandle<u32> {
    let ((told, waits), scene) = (mpsc::channel(), scene.clone());
    let thread = thread::spawn(move || {
        seat_this_thread(Rc::new(Sits(told.clone())));
        let says = act(&scene);
        let _nobody_listens_any_more = told.send(());
        says
    });
    waits.recv().expect("one of both");
    thread
}

/// A step of a file system at which something happens.
type At = fn(&Gated) -> &Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// What is to come of something that is said when another one is at a certain step.
#[derive(Default, Clone)]
struct Crossing(Arc<Mutex<Option<JoinHandle<u32>>>>);

impl Crossing {
    fn at(scene: &Arc<Scene>, step: At, host: &Host, ask: Ask) -> Self {
        let (crossing, host, there) = (Self::default(), host.clone(), scene.clone());
        let here = crossing.clone();
        let act = move || *here.0.lock() = Some(beside(&there, move |scene| host.says(scene, &ask)));
        *step(&scene.exports.tank).lock() = Some(Box::new(act));
        crossing
    }

    /// It has come to that step, and what was said was told this.
    fn told(self) -> u32 {
        self.0.lock().take().expect("it came to that step").join().unwrap()
    }
}

/// The range is locked for who waits, and before he is to be called he asks again, finds it, and is told that he has it.
#[test]
fn a_lock_that_comes_while_it_is_given_is_not_taken_back() {
    let scene = Arc::new(scene());
    let file = scene.file(b"f");
    let ([one, two], lock) = ([1, 2].map(host), Ask { blocks: true, ..ask(&scene, LOCK, file) });
    assert_eq!([&one, &two].map(|host| host.says(&scene, &lock)), [GRANTED, BLOCKED]);
    let crossing = Crossing::at(&scene, |tank| &tank.behind_a_lock, &two, lock.clone());
    assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    assert_eq!(crossing.told(), GRANTED);
    assert!(next_call(&scene).is_none(), "he knows");
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), DENIED);
}

/// He has said no, and asks again before the range is given up: what he is told then he has.
#[test]
fn a_lock_that_comes_while_it_is_given_up_is_had_or_waited_for() {
    let scene = Arc::new(scene());
    let file = scene.file(b"f");
    let ([one, two], lock) = waits(&scene, file);
    let call = calls(&scene, &two);
    let crossing = Crossing::at(&scene, |tank| &tank.before_an_unlock, &two, lock);
    scene.service.host_call_done(&call, &answers(DENIED));
    assert_eq!(crossing.told(), GRANTED);
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), DENIED);
}

/// He unlocks all that he has while more is locked for him: nothing of that comes back.
#[test]
fn what_is_unlocked_while_more_is_given_is_nobodys() {
    let scene = Arc::new(scene());
    let file = scene.file(b"f");
    let ([one, two], lock) = ([1, 2].map(host), Ask { blocks: true, ..ask(&scene, LOCK, file) });
    assert_eq!(one.says(&scene, &Ask { range: (5, 5), ..lock.clone() }), GRANTED);
    assert_eq!(two.says(&scene, &Ask { range: (0, 2), is_exclusive: false, ..lock.clone() }), GRANTED);
    assert_eq!(two.says(&scene, &lock), BLOCKED);
    assert_eq!(two.says(&scene, &ask(&scene, LOCK, scene.file(b"g"))), GRANTED, "he is known as long as he has that");
    let all = Ask { range: (0, 0), ..ask(&scene, UNLOCK, file) };
    let crossing = Crossing::at(&scene, |tank| &tank.behind_a_lock, &two, all.clone());
    assert_eq!(one.says(&scene, &all), GRANTED);
    assert_eq!(crossing.told(), GRANTED);
    assert!(next_call(&scene).is_none());
    assert_eq!(one.says(&scene, &Ask { range: (0, 0), ..lock }), GRANTED);
}

/// Two who wait for the same: the second is not kept from it by the first, who cancels while it is his turn.
#[test]
fn a_cancellation_while_it_is_given_lets_the_next_have_it() {
    let scene = Arc::new(scene());
    let file = scene.file(b"f");
    let ([one, two, three], lock) = ([1, 2, 3].map(host), Ask { blocks: true, ..ask(&scene, LOCK, file) });
    assert_eq!([&one, &two, &three].map(|host| host.says(&scene, &lock)), [GRANTED, BLOCKED, BLOCKED]);
    let cancel = Ask { procedure: CANCEL, ..lock.clone() };
    let crossing = Crossing::at(&scene, |tank| &tank.behind_a_lock, &two, cancel);
    assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    assert_eq!(crossing.told(), GRANTED);
    let call = calls(&scene, &three);
    scene.service.host_call_done(&call, &answers(GRANTED));
    assert_eq!([&one, &two].map(|host| host.says(&scene, &ask(&scene, LOCK, file))), [DENIED; 2]);
}
