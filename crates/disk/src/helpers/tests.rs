use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::thread;

use super::Helpers;

#[test]
fn each_piece_is_done_once_in_order_where_there_are_no_threads() {
    for (helpers, depth) in [(Helpers::Serial, 16), (Helpers::Threads, 1), (Helpers::Threads, 4)] {
        let done = Mutex::new(Vec::new());
        helpers.each(100, depth, &|at| done.lock().unwrap().push((at, thread::current().id())));
        let done = done.into_inner().unwrap();
        let is_alone = done.iter().all(|(_, id)| *id == thread::current().id());
        if helpers == Helpers::Serial || depth == 1 {
            assert!(is_alone && done.iter().map(|(at, _)| at).is_sorted(), "{helpers:?} {depth}");
        }
        assert_eq!(done.iter().map(|(at, _)| *at).collect::<BTreeSet<_>>(), (0..100).collect(), "{helpers:?} {depth}");
    }
}

/// Each piece waits for another one: by one thread none of them would end.
#[test]
fn as_many_pieces_are_under_way_as_may_be() {
    let meet = Barrier::new(4);
    Helpers::Threads.each(8, 4, &|_| {
        meet.wait();
    });
}

#[test]
fn what_is_begun_is_waited_for_whoever_wants_its_result() {
    assert!(Helpers::Serial.begin("none", || 1).is_none());
    assert_eq!(Helpers::Threads.begin("one", || 1).unwrap().result(), Some(1));
    assert_eq!(Helpers::Threads.begin("dies", || panic!("for this test")).unwrap().result(), None::<()>);
    let (sender, ended) = std::sync::mpsc::channel();
    drop(Helpers::Threads.begin("dropped", move || {
        thread::sleep(std::time::Duration::from_millis(20));
        sender.send(()).unwrap();
    }));
    ended.try_recv().expect("it has ended before it was dropped");
}

#[test]
fn what_is_begun_within_a_call_may_borrow_and_ends_with_it() {
    let done = Mutex::new(0);
    let result = Helpers::Threads.within(|helpers| {
        let begun = helpers.begin(|| *done.lock().unwrap() += 1).unwrap();
        begun.result();
        let _ = helpers.begin(|| *done.lock().unwrap() += 1);
        5
    });
    assert_eq!((result, done.into_inner().unwrap()), (5, 2));
    assert!(Helpers::Serial.within(|helpers| helpers.begin(|| 1).is_none()));
}
