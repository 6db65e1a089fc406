use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn a_closed_group_waits_for_its_holders_and_the_next_takes_new_ones() {
    let txgs = Txgs::new(Txg(5), 1 << 20);
    let early = txgs.hold(None);
    let closing = {
        let txgs = Arc::clone(&txgs);
        std::thread::spawn(move || txgs.close())
    };
    while txgs.open() == Txg(5) {
        std::thread::yield_now();
    }
    let late = txgs.hold(None);
    assert_eq!((early.txg(), late.txg()), (Txg(5), Txg(6)));
    assert!(!closing.is_finished(), "somebody still holds the closing group");
    drop(early);
    assert_eq!(closing.join().unwrap(), Txg(5));
}

#[test]
fn waiters_hear_of_their_group_and_of_no_earlier_one() {
    let txgs = Txgs::new(Txg(1), 1 << 20);
    let heard = Arc::new(AtomicUsize::new(0));
    let Wait::On(promise) = txgs.promise(Txg(2)) else { panic!("group 2 is not synced yet") };
    let counter = Arc::clone(&heard);
    promise.then(Box::new(move |outcome| {
        assert_eq!(outcome, Ok(Kept::GROUP));
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let first = txgs.close();
    txgs.synced(first, 0);
    assert_eq!(heard.load(Ordering::SeqCst), 0);
    let second = txgs.close();
    txgs.synced(second, 0);
    assert_eq!(heard.load(Ordering::SeqCst), 1);
    assert!(matches!(txgs.promise(Txg(2)), Wait::Ready));
}

#[test]
fn admission_stops_at_the_limit_and_goes_on_after_the_sync() {
    let txgs = Txgs::new(Txg(1), 1000);
    let hold = txgs.hold(Some(txgs.admit(900, 900).unwrap()));
    assert!(matches!(txgs.admit(200, 200), Err(NotAdmitted::Dirty)));
    drop(hold);
    assert_eq!(txgs.wait_for_work(Duration::from_secs(60)), Next::Sync);
    let closed = txgs.close();
    txgs.synced(closed, 0);
    assert!(txgs.admit(200, 200).is_ok());
}

#[test]
fn an_operation_larger_than_the_limit_is_let_in_alone() {
    let txgs = Txgs::new(Txg(1), 1000);
    let alone = txgs.admit(5000, 5000).unwrap();
    assert!(txgs.admit(1, 1).is_err());
    drop(alone);
    assert_eq!(txgs.dirty_bytes(), 0);
}

#[test]
fn a_failure_reaches_those_who_wait_and_those_who_come_later() {
    let txgs = Txgs::new(Txg(1), 1000);
    let early = txgs.promise(Txg(1));
    let waiting = std::thread::spawn(move || early.block());
    while txgs.state.lock().waiters.is_empty() {
        std::thread::yield_now();
    }
    txgs.fail(Broken("the disk is gone".into()));
    assert_eq!(waiting.join().unwrap(), Err(Broken("the disk is gone".into())));
    assert!(txgs.promise(Txg(1)).block().is_err());
}

#[test]
fn a_waiter_that_panics_takes_nobody_with_it() {
    let txgs = Txgs::new(Txg(1), 1000);
    let told = Arc::new(AtomicUsize::new(0));
    let wait = |panics: bool| {
        let told = Arc::clone(&told);
        let Wait::On(promise) = txgs.promise(Txg(1)) else { panic!("the group is open") };
        promise.then(Box::new(move |_| {
            told.fetch_add(1, Ordering::SeqCst);
            assert!(!panics, "a bug, for this test");
        }));
    };
    [false, true, false].into_iter().for_each(wait);
    let closed = txgs.close();
    txgs.synced(closed, 0);
    assert_eq!(told.load(Ordering::SeqCst), 3);
}

#[test]
fn what_a_fold_may_take_is_set_aside_until_its_group_is_synced() {
    let txgs = Txgs::new(Txg(1), 1000);
    let dropped = txgs.admit(10, 100).unwrap();
    let hold = txgs.hold(Some(txgs.admit(10, 500).unwrap()));
    assert_eq!(txgs.fold_bytes(), 600);
    drop((dropped, hold));
    assert_eq!(txgs.fold_bytes(), 500);
    let closed = txgs.close();
    drop(txgs.hold(Some(txgs.admit(10, 7).unwrap())));
    txgs.synced(closed, 0);
    assert_eq!(txgs.fold_bytes(), 7);
    txgs.stop();
    assert!(txgs.admit(1, 1).is_err(), "after the stop nobody is admitted");
}

/// With an interval of nothing the thread that syncs looked again and again, and took a whole processor of an idle server.
#[test]
fn without_an_interval_a_group_is_wanted_when_something_is_dirty_and_nobody_looks_before() {
    let txgs = Txgs::at_once(Txg(1), 1 << 20);
    let waiting = Arc::clone(&txgs);
    let (sender, tasks) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        waiting.wait_for_work(Duration::ZERO)
    });
    let status = std::path::Path::new("/proc").join(tasks.recv().unwrap()).join("status");
    let is_asleep = || {
        std::fs::read_to_string(&status).unwrap().contains(
            "
State:	S",
        )
    };
    // Who looks without end may be found asleep once, and not time after time.
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let mut times = 0;
    while times < 50 {
        assert!(std::time::Instant::now() < until, "it does not sleep");
        std::thread::sleep(Duration::from_millis(2));
        times = if is_asleep() { times + 1 } else { 0 };
    }
    // A reader changes nothing.
    drop(txgs.hold(None));
    assert!(!thread.is_finished());
    drop(txgs.hold(Some(txgs.admit(1, 1).unwrap())));
    assert_eq!(thread.join().unwrap(), Next::Sync);
    let closed = txgs.close();
    txgs.synced(closed, 0);
    // The next one is wanted as well.
    drop(txgs.hold(Some(txgs.admit(1, 1).unwrap())));
    assert_eq!(txgs.wait_for_work(Duration::ZERO), Next::Sync);
}

#[test]
fn each_group_is_counted_by_who_asked_first() {
    let txgs = Txgs::new(Txg(1), 1 << 20);
    let end = || {
        let txg = txgs.close();
        txgs.synced(txg, 0);
    };
    txgs.want(Cause::Ring);
    let _wait = txgs.promise(Txg(1));
    end();
    let _wait = txgs.promise(Txg(2));
    txgs.want(Cause::Ring);
    end();
    drop(txgs.hold(txgs.admit(1, 1).ok()));
    assert_eq!(txgs.wait_for_work(Duration::from_nanos(1)), Next::Sync);
    end();
    end();
    let told: Vec<_> = txgs.causes().iter().filter(|(_, groups)| *groups > 0).collect();
    assert_eq!(told, [(Cause::Time, 1), (Cause::Ring, 1), (Cause::Reply, 1), (Cause::Chore, 1)]);
}
