//! Signals: one to leave in good order, a second one to leave at once, SIGHUP to read the exports again.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::leaving;
use super::pools::Pools;
use super::work::Event;

/// Turns signals into events for as long as the process lives. A second SIGINT or SIGTERM ends it at once.
pub(super) fn watch(events: Sender<Event>, pools: Arc<Pools>) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut stopping = false;
        for signal in signals.forever() {
            let event = if signal == SIGHUP { Event::Reload } else { Event::Stop };
            if signal != SIGHUP {
                if std::mem::replace(&mut stopping, true) {
                    leaving::at_once(&pools, "it was told so twice");
                }
                leaving::begin(&pools);
            }
            // The daemon's thread may be gone, at its end; a second signal is for that, too.
            let _ = events.send(event);
        }
    })?;
    Ok(())
}
