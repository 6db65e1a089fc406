//! Signals: one to leave in good order, a second one to leave at once, SIGHUP to read the exports again.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Event;

/// How long the last words may take to find: they ask pools that may be stuck, which may be why somebody
/// sends a second signal.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// Turns signals into events for as long as the process lives. A second SIGINT or SIGTERM ends it at once, after
/// `last_words` were printed.
pub(super) fn watch(events: Sender<Event>, last_words: impl Fn() -> String + Send + Sync + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let last_words = std::sync::Arc::new(last_words);
        let mut stopping = false;
        for signal in signals.forever() {
            let event = if signal == SIGHUP { Event::Reload } else { Event::Stop };
            if signal != SIGHUP && std::mem::replace(&mut stopping, true) {
                let words = std::sync::Arc::clone(&last_words);
                eprintln!("tally: leaving at once. {}", within(LAST_WORDS_MAX, move || words()));
                std::process::exit(1);
            }
            if events.send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// What `words` gives, if it does so in time.
fn within(time: Duration, words: impl FnOnce() -> String + Send + 'static) -> String {
    let (sender, receiver) = mpsc::channel();
    let spawned = thread::Builder::new().spawn(move || sender.send(words()));
    let unknown = || "What the log holds is replayed at the next start.".to_owned();
    match spawned {
        Ok(_) => receiver.recv_timeout(time).unwrap_or_else(|_| unknown()),
        Err(_) => unknown(),
    }
}
