//! `tally top`: a view that renews itself, for whoever sits before a server that is slow right now.
//!
//! ```text
//!   watcher thread ──(observation, or why there is none)──▶ Watch ──▶ view::draw ──▶ terminal
//!        ▲ asks the daemon, sleeps                            ▲ keys
//! ```
//!
//! The watcher is a thread of its own, so that a daemon that does not answer leaves the keys working. What is shown is
//! a function of the [`Watch`] alone, and is tested on a terminal that is none.
//!
//! The terminal is in raw mode and on its second screen meanwhile. It is given back when [`Screen`] is dropped, by a
//! panic (ratatui's hook) and by SIGTERM, SIGHUP and SIGINT, which end the loop like `q`.

mod view;
mod watch;

use std::io::{IsTerminal, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::console::{Failure, Session};
use super::watch::observe;
use crate::control::client::Client;
use crate::control::observation::Observation;
use crate::process;
use watch::Watch;

/// Words of `top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Seconds between looks
    #[arg(value_name = "INTERVAL", default_value = "1", value_parser = interval)]
    interval: Duration,
}

/// Shortest interval, seconds: a person cannot read faster.
const INTERVAL_MIN: f64 = 0.1;
/// Longest interval, seconds.
const INTERVAL_MAX: f64 = 3600.0;
/// A key is answered within this.
const KEY_WAIT: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (INTERVAL_MIN..=INTERVAL_MAX).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("write seconds, from {INTERVAL_MIN} to {INTERVAL_MAX}"))
}

/// What the watcher has to say.
type Seen = Result<Box<Observation>, String>;

/// Shows it until somebody has seen enough.
pub(super) fn run(session: Session<'_>, args: &TopArgs) -> Result<(), Failure> {
    if session.json || !stdout().is_terminal() {
        let other = "`tally zilstat 1` prints lines, and `tally --json stat clients 1` JSON";
        return Err(Failure::Usage(format!("`tally top` needs a terminal; {other}")));
    }
    // Where no daemon runs at all, that is told on an ordinary screen.
    let client = Client::connect(session.socket)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (sender, seen) = sync_channel(1);
    let (socket, interval) = (session.socket.map(std::path::Path::to_owned), args.interval);
    thread::Builder::new()
        .name("watcher".into())
        .spawn(move || watcher(client, socket.as_deref(), interval, &sender))?;
    let mut screen = Screen::new()?;
    show(&mut screen.0, &seen, &stop)
}

/// Asks again and again, and connects again when the daemon has gone. It ends when nobody listens.
fn watcher(client: Client, socket: Option<&std::path::Path>, interval: Duration, sender: &SyncSender<Seen>) {
    let mut client = Some(client);
    loop {
        let seen = match client.take().map_or_else(|| Client::connect(socket).map_err(Failure::from), Ok) {
            Err(error) => Err(error),
            Ok(mut connected) => observe(&mut connected).inspect(|_| client = Some(connected)),
        };
        if sender.send(seen.map(Box::new).map_err(|error| error.to_string())).is_err() {
            return;
        }
        thread::sleep(interval);
    }
}

fn show(terminal: &mut DefaultTerminal, seen: &Receiver<Seen>, stop: &AtomicBool) -> Result<(), Failure> {
    let mut watch = Watch::new(process::host_name());
    let mut changed = true;
    while !stop.load(Ordering::Relaxed) {
        while let Ok(seen) = seen.try_recv() {
            changed |= watch.take(seen);
        }
        if changed {
            terminal.draw(|frame| view::draw(&watch, frame))?;
        }
        changed = event::poll(KEY_WAIT)?;
        if changed && quits(&event::read()?, &mut watch) {
            return Ok(());
        }
    }
    Ok(())
}

/// Carries a key out; whether it was the last.
fn quits(event: &Event, watch: &mut Watch) -> bool {
    let Event::Key(key) = event else { return false };
    if key.kind != KeyEventKind::Press {
        return false;
    }
    match key.code {
        KeyCode::Char('c') => return key.modifiers.contains(KeyModifiers::CONTROL),
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('p' | ' ') => watch.toggle_pause(),
        KeyCode::Char('s') => watch.sort_otherwise(),
        KeyCode::Tab => watch.next_pool(),
        _ => {}
    }
    false
}

/// The terminal while it is ours.
struct Screen(DefaultTerminal);

impl Screen {
    fn new() -> std::io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

#[cfg(test)]
mod tests;
