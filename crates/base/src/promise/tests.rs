use std::sync::{Arc, Mutex};

use super::{Broken, Fate, FirstBroken, Kept, Promise, Wait, all_of};

/// A promise that the test keeps or breaks, and whose driver does so at once.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<State>>);

type Then = Box<dyn FnOnce(Fate) + Send>;

#[derive(Default)]
struct State {
    fate: Option<Fate>,
    driven: Option<Fate>,
    then: Option<Then>,
}

impl Slot {
    fn driven_to(fate: Fate) -> Self {
        Self(Arc::new(Mutex::new(State { driven: Some(fate), ..State::default() })))
    }

    fn settle(&self, fate: Fate) {
        let mut state = self.0.lock().unwrap();
        state.fate = Some(fate.clone());
        let then = state.then.take();
        drop(state);
        if let Some(then) = then {
            then(fate);
        }
    }

    fn is_waited_for(&self) -> bool {
        self.0.lock().unwrap().then.is_some()
    }

    fn boxed(&self) -> Box<dyn Promise> {
        Box::new(self.clone())
    }
}

impl Promise for Slot {
    fn poll(&self) -> Option<Fate> {
        self.0.lock().unwrap().fate.clone()
    }

    fn drive(&self) -> Option<Fate> {
        let driven = self.0.lock().unwrap().driven.clone()?;
        self.settle(driven.clone());
        Some(driven)
    }

    fn then(self: Box<Self>, then: Then) {
        let fate = self.poll();
        match fate {
            Some(fate) => then(fate),
            None => self.0.lock().unwrap().then = Some(then),
        }
    }
}

fn kept(record_bytes: u64) -> Fate {
    Ok(Kept { record_bytes, ..Kept::default() })
}

fn broken(why: &str) -> Fate {
    Err(Broken(why.into()))
}

/// Slots, and one promise for them.
fn scene(count: usize) -> (Vec<Slot>, Box<dyn Promise>, FirstBroken) {
    let slots: Vec<Slot> = (0..count).map(|_| Slot::default()).collect();
    let (promise, first) = all_of(slots.iter().map(Slot::boxed).collect());
    (slots, promise, first)
}

/// What a promise tells, once it does.
fn told_of(promise: Box<dyn Promise>) -> Arc<Mutex<Option<Fate>>> {
    let told: Arc<Mutex<Option<Fate>>> = Arc::default();
    let place = Arc::clone(&told);
    promise.then(Box::new(move |fate| *place.lock().unwrap() = Some(fate)));
    told
}

#[test]
fn several_are_kept_when_the_last_of_them_is_in_whichever_order() {
    let (slots, promise, _) = scene(3);
    assert_eq!(promise.poll(), None);
    let told = told_of(promise);
    for slot in [2, 0] {
        slots[slot].settle(kept(10));
        assert_eq!(*told.lock().unwrap(), None);
    }
    assert!(slots[1].is_waited_for());
    slots[1].settle(kept(5));
    assert_eq!(*told.lock().unwrap(), Some(kept(25)));
}

#[test]
fn the_first_that_is_broken_is_told_though_a_later_one_broke_before_it() {
    let (slots, promise, first) = scene(3);
    let told = told_of(promise);
    slots[2].settle(broken("third"));
    assert_eq!(*told.lock().unwrap(), None, "the second may break as well");
    slots[0].settle(kept(1));
    slots[1].settle(broken("second"));
    assert_eq!((told.lock().unwrap().clone(), first.place()), (Some(broken("second")), 1));
}

/// As in one log: who writes for the last one writes for all. What another log has is not there yet, and is waited for.
#[test]
fn the_last_one_is_driven_and_the_others_are_asked() {
    let (one, last) = (Slot::default(), Slot::driven_to(kept(2)));
    let (promise, first) = all_of(vec![one.boxed(), last.boxed()]);
    assert_eq!(promise.drive(), None, "the first one is of another log");
    one.settle(kept(1));
    assert_eq!(promise.drive(), Some(kept(3)));
    let (one, last) = (Slot::default(), Slot::driven_to(kept(2)));
    one.settle(broken("ended"));
    let (promise, other) = all_of(vec![one.boxed(), last.boxed()]);
    assert_eq!((promise.drive(), other.place()), (Some(broken("ended")), 0));
    let (promise, other) = all_of(vec![last.boxed(), Slot::driven_to(broken("ended")).boxed()]);
    assert_eq!((promise.drive(), other.place()), (Some(broken("ended")), 1));
    assert_eq!(first.place(), 0);
}

/// A compound may have as many as it has operations, all of them kept by then.
#[test]
fn as_many_as_there_may_be_are_waited_for() {
    let (slots, promise, _) = scene(1024);
    slots.iter().for_each(|slot| slot.settle(kept(1)));
    assert_eq!(Wait::On(promise).block(), kept(1024));
}
