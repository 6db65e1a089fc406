//! What hosts of NFSv3 claim again behind a start of the server, or the coming of a pool: by which numbers they are told, and what becomes of a claim that comes too early. Call by call.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tally_base::Fate;
use tally_nfs::handle::Handle;
use tally_nfs::service::{Job, Service, Step};
use tally_vfs::Identity;

use crate::support::desk::bytes_of;
use crate::support::gated::Gated;
use crate::support::host::{
    Ask, BLOCKED, DENIED, GRACE, GRANTED, Host, LOCK, NAMES, UNLOCK, answers, ask, host, listed, locking, next_call,
    notices, restart, scene, words_of,
};
use crate::support::scene::{Scene, fate};
use crate::support::{AWAY_POOL, KEY};

/// The two notices that a host is told by this number.
fn told(number: u8, state: u32) -> [(IpAddr, String, u32); 2] {
    NAMES.map(|name| ([10, 0, 0, number].into(), name.into(), state))
}

/// The pool goes, and comes as from another machine: nothing of what was open or locked in it is left, but its list.
fn comes_anew(scene: &Scene) {
    scene.exports.export(false);
    scene.exports.mount_anew();
    let mut clients = scene.exports.clients.lock();
    let anew = clients.as_ref().expect("it has a list").model.mounted_anew();
    *clients = Some(Arc::new(Gated::new(Arc::new(anew))));
    drop(clients);
    scene.exports.import();
}

/// A host does nothing on a number that it knows: a pool that comes later has another one.
#[test]
fn each_time_that_locks_are_lost_has_a_number_of_its_own() {
    let scene = scene();
    let file = scene.file(b"f");
    let (one, lock) = (host(1), ask(&scene, LOCK, file));
    let again = Ask { is_reclaim: true, ..lock.clone() };
    assert_eq!(one.says(&scene, &lock), GRANTED);
    let scene = restart(scene);
    assert_eq!(notices(&scene), told(1, 5));
    assert_eq!(one.says(&scene, &again), GRANTED);
    assert_eq!(notices(&scene), [], "once");
    for state in [7, 9] {
        comes_anew(&scene);
        assert_eq!(notices(&scene), told(1, state));
        assert_eq!(host(2).says(&scene, &lock), GRACE);
        assert_eq!(one.says(&scene, &again), GRANTED);
        assert_eq!(notices(&scene), []);
    }
    // What goes, and comes back as it was, has lost nothing.
    scene.exports.export(true);
    scene.exports.import();
    assert_eq!(notices(&scene), []);
    assert_eq!(one.says(&scene, &again), GRANTED, "which it has all the same");
}

/// The notice is not sent before its number is durable, and is when it is.
#[test]
fn nobody_is_told_a_number_that_could_not_be_written_down() {
    let scene = scene();
    let file = scene.file(b"f");
    assert_eq!(host(1).says(&scene, &ask(&scene, LOCK, file)), GRANTED);
    let scene = restart(scene);
    let left = AtomicU32::new(2);
    let draw = move || match left.load(SeqCst) {
        0 => Ok(11),
        left_now => {
            left.store(left_now - 1, SeqCst);
            Err(io::ErrorKind::StorageFull.into())
        }
    };
    let service = Service::new(scene.exports.clone()).speaking_4().locking_for_3(Box::new(draw), &NAMES);
    let scene = Scene { service, ..scene };
    assert_eq!([notices(&scene), notices(&scene)], [[], []]);
    assert_eq!(notices(&scene), told(1, 11));
}

/// Whoever is told asks the portmapper of the server where that is, and claims nothing more where it does not say.
#[test]
fn nobody_is_told_of_a_start_that_could_not_be_found_yet() {
    let scene = scene();
    let file = scene.file(b"f");
    assert_eq!(host(1).says(&scene, &ask(&scene, LOCK, file)), GRANTED);
    let scene = restart(scene);
    let scene = Scene { service: scene.service.telling_when_found(), ..scene };
    assert_eq!(notices(&scene), []);
    scene.service.can_be_found();
    assert_eq!(notices(&scene), told(1, 5));
}

/// Who waits for a lock sleeps in a program; a notice goes behind him.
#[test]
fn who_waits_is_called_before_others_are_told_of_a_start() {
    let scene = scene();
    let file = scene.file(b"f");
    let lock = Ask { blocks: true, ..ask(&scene, LOCK, file) };
    assert_eq!([1, 2].map(|number| host(number).says(&scene, &lock)), [GRANTED, BLOCKED]);
    assert_eq!(host(1).says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    assert_eq!(listed(&scene).len(), 2);
    let anew = scene.exports.keep_clients().model.mounted_anew();
    *scene.exports.clients.lock() = Some(Arc::new(Gated::new(Arc::new(anew))));
    let calls: Vec<_> = std::iter::from_fn(|| next_call(&scene)).collect();
    assert_eq!(calls.iter().map(|call| call.procedure).collect::<Vec<_>>(), [5, 6, 6]);
    scene.service.host_call_done(&calls[0], &answers(GRANTED));
    assert_eq!(host(1).says(&scene, &Ask { is_reclaim: true, ..lock }), DENIED);
}

/// A claim that is not answered: what ends its wait.
struct Held {
    job: Job,
    woken: Receiver<Fate>,
}

impl Held {
    fn of((job, step): (Job, Step)) -> Self {
        assert!(matches!(step, Step::Again(_)), "it is held");
        Self { job, woken: fate(step) }
    }

    /// It is looked at again, as others are.
    fn goes_on(mut self, scene: &Scene) -> (Job, Step) {
        scene.service.look_after_hosts();
        self.woken.try_recv().expect("it was woken").unwrap();
        let step = scene.service.run(&mut self.job);
        (self.job, step)
    }

    fn says(self, scene: &Scene) -> u32 {
        let (_, Step::Reply(reply)) = self.goes_on(scene) else { panic!("it is answered") };
        words_of(&bytes_of(&reply).into())[0]
    }
}

/// Linux claims once: on DENIED_GRACE_PERIOD it forgets the lock, and its process does not.
#[test]
fn what_is_claimed_of_a_pool_that_is_not_there_yet_waits_for_it() {
    let scene = scene();
    let file = scene.file(b"f");
    let (one, lock) = (host(1), ask(&scene, LOCK, file));
    let again = Ask { is_reclaim: true, ..lock.clone() };
    assert_eq!(one.says(&scene, &lock), GRANTED);
    scene.exports.export(false);
    let scene = restart(scene);
    assert_eq!(one.says(&scene, &lock), GRACE, "it comes again by itself");
    let mut held = Held::of(one.begin(&scene, &again));
    for _ in 0..3 {
        held = Held::of(held.goes_on(&scene));
    }
    scene.exports.import();
    assert_eq!(held.says(&scene), GRANTED);
    assert_eq!(host(2).says(&scene, &lock), GRACE);

    // Nor is it known who may claim what as long as the list cannot be read.
    let scene = restart(scene);
    let clients = scene.exports.keep_clients();
    clients.unlistable.store(true, SeqCst);
    let held = Held::of(one.begin(&scene, &again));
    let held = Held::of(held.goes_on(&scene));
    assert_eq!(one.says(&scene, &lock), GRACE);
    clients.unlistable.store(false, SeqCst);
    assert_eq!(held.says(&scene), GRANTED);
    // Nor while its pool is suspended, where nothing of a file can be read.
    let scene = restart(scene);
    let tank = &scene.exports.tank;
    tank.suspended.store(true, SeqCst);
    let held = Held::of(one.begin(&scene, &again));
    let held = Held::of(held.goes_on(&scene));
    tank.suspended.store(false, SeqCst);
    assert_eq!(held.says(&scene), GRANTED);
    // Known is as well who may not.
    assert_eq!(host(2).says(&scene, &again), GRACE);
}

/// Whoever finds no room sends it again; and one whose connection is gone has no place.
#[test]
fn no_more_claims_are_kept_than_may_be_and_none_behind_the_end() {
    let scene = scene();
    let file = scene.file(b"f");
    let again = Ask { is_reclaim: true, ..ask(&scene, LOCK, file) };
    scene.exports.export(false);
    let one: Host = host(1);
    let held: Vec<_> = (0..8).map(|_| Held::of(one.begin(&scene, &again))).collect();
    assert!(matches!(one.begin(&scene, &again).1, Step::Attached), "its host has enough");
    let other = Held::of(host(2).begin(&scene, &again));
    drop(other);
    scene.service.end_holding();
    for mut held in held {
        held.woken.try_recv().expect("it was woken").unwrap();
        assert!(matches!(scene.service.run(&mut held.job), Step::Attached), "nobody is answered");
    }
}

/// Behind the grace nothing is claimed, however early the claim was made.
#[test]
fn what_waited_for_longer_than_the_grace_is_refused() {
    let scene = scene();
    let (file, mut clock) = (scene.file(b"f"), Duration::ZERO);
    let (one, lock) = (host(1), ask(&scene, LOCK, file));
    assert_eq!(one.says(&scene, &lock), GRANTED);
    let scene = locking(scene.restart());
    assert_eq!(notices(&scene), told(1, 5));
    scene.exports.export(true);
    let held = Held::of(one.begin(&scene, &Ask { is_reclaim: true, ..lock.clone() }));
    scene.exports.import();
    scene.pass(&mut clock, Duration::from_secs(95));
    assert_eq!(host(2).says(&scene, &lock), GRANTED);
    assert_eq!(held.says(&scene), GRACE);
}

/// Of a pool that stays away: its claim comes first, and is not answered, and its host claims what it has in others behind that. These wait for it, and it is answered before they do so no longer.
#[test]
fn a_pool_that_stays_away_costs_no_locks_of_another() {
    let scene = scene();
    let (file, mut clock) = (scene.file(b"f"), Duration::ZERO);
    let (one, lock) = (host(1), ask(&scene, LOCK, file));
    let again = Ask { is_reclaim: true, ..lock.clone() };
    let handle = Handle { pool: AWAY_POOL, dataset: scene.exports.tank.dataset(), object: file }.seal(&KEY);
    let of_other = Ask { file: handle.as_slice().to_vec(), ..again.clone() };
    assert_eq!(one.says(&scene, &lock), GRANTED);
    let scene = restart(scene);
    assert_eq!(notices(&scene), told(1, 5));
    let mut held = Held::of(one.begin(&scene, &of_other));
    while clock < Duration::from_secs(160) {
        scene.pass(&mut clock, Duration::from_secs(5));
        held = Held::of(held.goes_on(&scene));
        assert_eq!(host(2).says(&scene, &lock), GRACE, "{clock:?}: it is waited for");
    }
    scene.pass(&mut clock, Duration::from_secs(6));
    assert_eq!(held.says(&scene), GRACE, "that one is lost");
    assert_eq!(one.says(&scene, &of_other), GRACE, "and what it has there besides");
    assert_eq!(one.says(&scene, &again), GRANTED);
    scene.pass(&mut clock, Duration::from_secs(20));
    assert_eq!(host(2).says(&scene, &lock), DENIED);
    // Where nobody waits for it any more a claim is held for as long as it takes; and nobody waits for a host that may claim nothing there.
    let held = Held::of(one.begin(&scene, &of_other));
    drop(Held::of(host(2).begin(&scene, &of_other)));
    drop(Held::of(held.goes_on(&scene)));
    let scene = restart(scene);
    let (mut clock, mut held) = (Duration::ZERO, Held::of(host(3).begin(&scene, &of_other)));
    while clock < Duration::from_secs(95) {
        scene.pass(&mut clock, Duration::from_secs(5));
        held = Held::of(held.goes_on(&scene));
    }
    assert_eq!(host(3).says(&scene, &lock), GRANTED);
}

/// A word that was said before the host was known, and comes again, is not said of what it has locked since.
#[test]
fn a_notice_of_a_host_that_is_not_known_counts_once() {
    let scene = scene();
    let file = scene.file(b"f");
    let (one, lock) = (host(1), ask(&scene, LOCK, file));
    one.notifies(&scene, 5);
    assert_eq!(one.says(&scene, &lock), GRANTED);
    one.notifies(&scene, 5);
    assert_eq!(listed(&scene), ["n-00000000000000000000ffff0a000001"]);
    assert_eq!(host(2).says(&scene, &lock), DENIED);
    one.notifies(&scene, 7);
    assert_eq!(host(2).says(&scene, &lock), GRANTED);
}
