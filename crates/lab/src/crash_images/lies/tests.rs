//! What becomes of events when somebody lies.

use super::*;

fn durable(disk: usize) -> Event {
    Event::Write { disk, offset: 0, data: 0..512, durable: true }
}

fn cached(disk: usize) -> Event {
    Event::Write { disk, offset: 0, data: 0..512, durable: false }
}

fn answered(steps: usize) -> Event {
    Event::Mark(format!("step:{steps}"))
}

#[test]
fn an_answer_comes_before_the_write_that_it_waited_for() {
    let flush = || Event::Flush { disk: 1 };
    let events =
        [durable(0), answered(0), cached(0), durable(1), flush(), answered(1), durable(1), flush(), answered(2)];
    let told = [durable(0), answered(0), cached(0), answered(1), durable(1), flush(), answered(2), durable(1), flush()];
    assert_eq!(answered_too_early(&events), told);
}

#[test]
fn a_disk_forgets_only_its_own_promises_and_only_once_the_client_has_begun() {
    let before = [durable(0), Event::Flush { disk: 0 }];
    let after: Vec<Event> = (0..50).flat_map(|_| [durable(0), durable(1), Event::Flush { disk: 0 }]).collect();
    let events = [&before[..], &[answered(0)], &after].concat();
    let told = forgetful(&events, 0, 1);
    assert_eq!(told[..3], events[..3]);
    let count = |wanted: Event| told[3..].iter().filter(|event| **event == wanted).count();
    assert_eq!(count(durable(1)), 50);
    assert_eq!(count(durable(0)) + count(cached(0)), 50);
    assert!((10..40).contains(&count(cached(0))), "{}", count(cached(0)));
    assert!((10..40).contains(&count(Event::Flush { disk: 0 })));
}
