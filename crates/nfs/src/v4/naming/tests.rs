//! What is known and for how long, by a clock of the test's, and whether answers come in time. What operations make of it is in `tests/naming.rs`.

use std::io::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;

use super::Kind::{Group, User};
use super::asking::{FOR_GIVERS, OPEN_MAX};
use super::known::{FAILED_FOR, ID_KNOWN_FOR, KNOWN_FOR, KNOWN_MAX, NOBODY_FOR};
use super::*;
use crate::v4::parking::PARKED;

/// What it says next; nothing, where it fails.
struct Said {
    name: Mutex<Option<Option<&'static str>>>,
    id: Mutex<Option<Option<u32>>>,
    count: AtomicUsize,
}

impl Said {
    fn new(name: Option<Option<&'static str>>, id: Option<Option<u32>>) -> Self {
        Self { name: Mutex::new(name), id: Mutex::new(id), count: AtomicUsize::new(0) }
    }
}

impl NameService for Said {
    fn name(&self, _: Kind, _: u32) -> Result<Option<String>> {
        self.count.fetch_add(1, SeqCst);
        self.name.lock().map(|name| name.map(str::to_owned)).ok_or_else(|| Error::other("it fails"))
    }

    fn id(&self, _: Kind, _: &str) -> Result<Option<u32>> {
        self.count.fetch_add(1, SeqCst);
        self.id.lock().ok_or_else(|| Error::other("it fails"))
    }
}

fn desk() -> Desk {
    Desk { known: Known::default(), asking: Asking::default() }
}

impl Desk {
    /// Answers what is asked, as of then. Nobody else does.
    fn answer(&self, service: &dyn NameService, now: Instant) {
        while let Some((question, ticket)) = self.asking.next_at(now) {
            self.known.learn(&question, service, || now);
            self.asking.answered(&question, ticket, now);
        }
    }
}

const ABIT: Duration = Duration::from_millis(1);

/// Each row: what was said, for how long nobody is asked again, and what is told behind that until there is another answer.
#[test]
fn what_was_said_is_believed_for_a_while_and_what_is_old_is_told_meanwhile() {
    let alice: Found<Arc<str>> = Found::Is("alice".into());
    for (said, found, time, is_told_when_old) in [
        (Some(Some("alice")), alice.clone(), KNOWN_FOR, true),
        (Some(None), Found::Nobody, NOBODY_FOR, true),
        (None, Found::Unknown(None), FAILED_FOR, true),
        // What would be taken for a number, or for a name of another domain.
        (Some(Some("1000")), Found::Nobody, NOBODY_FOR, true),
        (Some(Some("alice@ad")), Found::Nobody, NOBODY_FOR, true),
        (Some(Some("")), Found::Nobody, NOBODY_FOR, true),
        (Some(Some("a\nb")), Found::Nobody, NOBODY_FOR, true),
    ] {
        let (desk, service, began) = (desk(), Said::new(said, None), Instant::now());
        assert!(matches!(desk.name(User, 1000, began), Found::Unknown(Some(_))));
        desk.answer(&service, began);
        for at in [began, began + time - ABIT] {
            assert_eq!(desk.name(User, 1000, at), found, "{said:?}");
            assert!(!desk.asking.has_waiting(), "{said:?}");
        }
        let later = began + time;
        assert_eq!(desk.name(User, 1000, later) == found, is_told_when_old, "{said:?}");
        assert_eq!(desk.name(User, 1000, later) == found, is_told_when_old, "{said:?}");
        *service.name.lock() = Some(Some("bob"));
        desk.answer(&service, later);
        assert_eq!(service.count.load(SeqCst), 2, "once more, for both");
        assert_eq!(desk.name(User, 1000, later), Found::Is("bob".into()));
        // Of a group with this number nothing was said.
        assert!(matches!(desk.name(Group, 1000, later), Found::Unknown(Some(_))));
    }
}

/// Who gives something to a name may have made it a moment ago: that there was none is not told for longer than it is believed.
#[test]
fn whom_somebody_is_given_to_is_asked_again() {
    for (said, found, time) in [
        (Some(None), Found::Nobody, NOBODY_FOR),
        (Some(Some(u32::MAX)), Found::Nobody, NOBODY_FOR),
        (None, Found::Unknown(None), FAILED_FOR),
    ] {
        let (desk, service, began) = (desk(), Said::new(None, said), Instant::now());
        assert!(matches!(desk.id(User, "alice", began), Found::Unknown(Some(_))));
        desk.answer(&service, began);
        assert_eq!(desk.id(User, "alice", began + time - ABIT), found);
        assert!(matches!(desk.id(User, "alice", began + time), Found::Unknown(Some(_))));
        *service.id.lock() = Some(Some(1000));
        desk.answer(&service, began + time);
        assert_eq!(desk.id(User, "alice", began + time + ID_KNOWN_FOR - ABIT), Found::Is(1000));
        // By then she may be somebody else.
        let later = began + time + ID_KNOWN_FOR;
        assert!(matches!(desk.id(User, "alice", later), Found::Unknown(Some(_))));
        // Nor is anything given where it cannot be said.
        *service.id.lock() = None;
        desk.answer(&service, later);
        assert_eq!((service.count.load(SeqCst), desk.id(User, "alice", later)), (3, Found::Unknown(None)));
        assert!(!desk.asking.has_waiting());
        assert!(matches!(desk.id(User, "alice", later + FAILED_FOR), Found::Unknown(Some(_))));
    }
}

/// A directory that begins anew knows nobody for a moment: that somebody is gone counts when it is said twice.
#[test]
fn who_was_there_is_gone_when_that_is_said_again() {
    let (desk, service, began) = (desk(), Said::new(Some(Some("alice")), Some(Some(1000))), Instant::now());
    let ask = |at| (desk.name(User, 1000, at), desk.id(User, "alice", at));
    let _asked = ask(began);
    desk.answer(&service, began);
    let alice = Found::Is("alice".into());
    assert_eq!(ask(began), (alice.clone(), Found::Is(1000)));
    (*service.name.lock(), *service.id.lock()) = (Some(None), Some(None));
    let later = began + KNOWN_FOR;
    let _asked = ask(later);
    desk.answer(&service, later);
    assert_eq!(ask(later), (alice, Found::Unknown(None)), "it is told, and given nothing");
    let later = later + FAILED_FOR;
    let _asked = ask(later);
    desk.answer(&service, later);
    assert_eq!(ask(later), (Found::Nobody, Found::Nobody));
}

/// A listing of many owners takes all the time that there is: who gives something to a name comes before them, and finds a place; and nobody waits behind them.
#[test]
fn who_gives_something_comes_before_those_who_look() {
    let (asking, now) = (Asking::default(), Instant::now());
    let look = |id, at| asking.ask(Question::Name(User, id), at, || false);
    assert_eq!((0..).take(OPEN_MAX).filter(|id| look(*id, now).is_some()).count(), OPEN_MAX - FOR_GIVERS);
    let alice = Question::Id(User, "alice".into());
    assert!(asking.ask(alice.clone(), now, || false).is_some());
    assert_eq!(asking.next_at(now).map(|(question, _)| question), Some(alice.clone()));
    let later = now + PARKED + ABIT;
    asking.answered(&alice, Ticket::nth(897), later);
    let (first, _) = asking.next_at(later).expect("there are more");
    assert_eq!((first, look(5000, later)), (Question::Name(User, 0), None), "that is asked for, and not waited for");
}

#[test]
fn what_is_late_is_waited_for_by_nobody_until_something_is_in_time() {
    let (asking, now) = (Asking::default(), Instant::now());
    let ask = |id, at| asking.ask(Question::Name(User, id), at, || false);
    let begin = |at| asking.next_at(at).expect("something is to be asked");
    let one = ask(1, now).expect("worth it");
    let (first, ticket) = begin(now);
    assert_eq!((ticket, ask(1, now + PARKED)), (one, Some(one)), "it is asked once");
    assert!(asking.is_open(one, now + PARKED));
    let late = now + PARKED + ABIT;
    assert_eq!((ask(1, late), ask(2, late), asking.is_open(one, late)), (None, None, false));
    // Another thread is told something in time: who asks anew waits, and not for the first one.
    let (second, ticket) = begin(late);
    assert_eq!(asking.answered(&second, ticket, late), None, "for the first one nobody waits any more");
    let three = ask(3, late).expect("worth it again");
    assert!(asking.is_open(three, late));
    let (third, ticket) = begin(late);
    assert_eq!(asking.answered(&third, ticket, late), None);
    assert!(!asking.is_open(three, late));
    // The first one comes after all, and that is the last that is known.
    asking.answered(&first, one, late);
    assert_eq!(ask(4, late), None);
    let (fourth, ticket) = begin(late);
    asking.answered(&fourth, ticket, late + PARKED);
    assert!(ask(5, late + PARKED).is_some());
}

#[test]
fn what_is_known_by_now_is_not_asked_again() {
    let (asking, now) = (Asking::default(), Instant::now());
    let told = asking.ask(Question::Name(User, 1), now, || true).expect("worth a look");
    assert!(!asking.has_waiting() && !asking.is_open(told, now));
}

#[test]
fn there_are_bounds_of_what_is_asked_and_of_what_is_known() {
    let (desk, service, now) = (desk(), Said::new(Some(Some("alice")), None), Instant::now());
    let asked = (0..).take(2 * OPEN_MAX).filter(|id| matches!(desk.name(User, *id, now), Found::Unknown(Some(_))));
    assert_eq!(asked.count(), OPEN_MAX - FOR_GIVERS);
    desk.answer(&service, now);
    assert_eq!(service.count.load(SeqCst), OPEN_MAX - FOR_GIVERS);
    for id in 0..10 * KNOWN_MAX as u32 {
        desk.known.learn(&Question::Name(User, id), &service, || now);
    }
    let known = (0..10 * KNOWN_MAX as u32).filter(|id| desk.known.name(User, *id).is_some()).count();
    assert!((KNOWN_MAX / 2..=KNOWN_MAX + KNOWN_MAX / 8).contains(&known), "{known}");
}

/// A bug in what is asked would leave its question open for ever, and a thread less.
#[test]
fn a_bug_costs_one_question() {
    struct Broken;
    impl NameService for Broken {
        fn name(&self, _: Kind, id: u32) -> Result<Option<String>> {
            assert!(id != 1, "a bug, planted by the test");
            Ok(Some("alice".into()))
        }
        fn id(&self, _: Kind, _: &str) -> Result<Option<u32>> {
            Ok(None)
        }
    }
    let naming = Naming::of_domain("example.org", &(Arc::new(Broken) as _), Parking::default()).unwrap();
    let desk = &naming.0.as_ref().unwrap().desk;
    let began = Instant::now();
    while desk.name(User, 1, Instant::now()) != Found::Unknown(None) || desk.known.name(User, 1).is_none() {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    while desk.name(User, 2, Instant::now()) != Found::Is("alice".into()) {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
