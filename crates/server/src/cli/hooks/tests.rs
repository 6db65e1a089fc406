use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use super::*;
use crate::control::listener::{Asker, ControlSocket, NotDone, Service};
use crate::control::report::EventClass;

/// A daemon in which things happen faster than anybody can tell of: it remembers the last 4,096.
struct Flood(AtomicU64);

const EVENTS: u64 = 100_000;
const REMEMBERED: u64 = 4096;
/// So much happens between two questions.
const STEP: u64 = 3000;

impl Service for Flood {
    fn handle(&self, request: Request, _: &Asker) -> Result<Reply, NotDone> {
        let Request::Events { since } = request else { return Err("events alone".to_owned().into()) };
        let last = (self.0.fetch_add(STEP, Ordering::Relaxed) + STEP).min(EVENTS);
        let first = (since + 1).max(last.saturating_sub(REMEMBERED) + 1);
        let event = |number| EventReport {
            number,
            time_ns: now() * 1_000_000_000 + number,
            pool: "tank".into(),
            class: "statechange".into(),
            text: format!("disk {number} is FAILED"),
        };
        Ok(Reply::Events((first..=last).map(event).collect()))
    }
}

fn follower(dir: &Path) -> (Follower, Receiver<EventReport>) {
    let state = dir.join("done.json");
    let memory = Arc::new(Mutex::new(Memory::load(&state).unwrap()));
    let (line, in_line) = sync_channel(WAITING_MAX);
    (Follower { memory, state, line, again: 0, summed: Instant::now() }, in_line)
}

/// With programs that never end: nobody takes an event from the line.
#[test]
fn a_hundred_thousand_events_are_told_of_as_a_hundred_and_one() {
    let dir = tempfile::tempdir().unwrap();
    let socket = ControlSocket::bind(&dir.path().join("tally.sock"), None).unwrap();
    socket.serve(Arc::new(Flood(AtomicU64::new(0)))).unwrap();
    let (mut follower, in_line) = follower(dir.path());
    follower.memory.lock().begin(&[], now());
    let mut client = Client::connect(Some(socket.path())).unwrap();
    let mut since = 0;
    while since < EVENTS {
        let Reply::Events(events) = client.ask(&Request::Events { since }, &mut |_| {}).unwrap() else {
            panic!("events were asked for")
        };
        since = follower.take(events, since);
    }
    let told: Vec<_> = in_line.try_iter().collect();
    assert_eq!(told.len(), memory::TOLD_MAX + 1);
    assert_eq!(told.iter().filter(|event| event.is(EventClass::Flood)).count(), 1);
    assert_eq!(follower.again, EVENTS - memory::TOLD_MAX as u64, "and all others were counted");
    // The file is bounded, too.
    assert!(std::fs::metadata(&follower.state).unwrap().len() < 1 << 20);
}

/// The service ran before there was a pool. What happened to the first one was taken for what was before.
#[test]
fn what_comes_behind_an_empty_answer_is_news() {
    let dir = tempfile::tempdir().unwrap();
    let (mut follower, in_line) = follower(dir.path());
    assert_eq!(follower.take(Vec::new(), 0), 0);
    let event = EventReport {
        number: 1,
        time_ns: now() * 1_000_000_000,
        pool: "tank".into(),
        class: "pool_import".into(),
        text: "it is".into(),
    };
    assert_eq!(follower.take(vec![event.clone()], 0), 1);
    assert_eq!(in_line.try_iter().collect::<Vec<_>>(), [event]);
}
