//! The epoll that all workers wait on.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

/// The token of the wake; listeners follow, then connections.
pub(super) const WAKE: u64 = 0;

/// What happened to which token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) token: u64,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) broken: bool,
}

/// An epoll, and an eventfd in it that wakes one waiting worker at each write: it is edge-triggered and never
/// read, as its counter cannot reach 2^64 by ones.
pub(super) struct Poller {
    epoll: OwnedFd,
    wake: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, wake })
    }

    /// Watches `source` for one readable event.
    pub(super) fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), interest(true, false))?)
    }

    /// Arms `source` for one more event.
    pub(super) fn arm(&self, source: impl AsFd, token: u64, read: bool, write: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(token), interest(read, write))?)
    }

    pub(super) fn remove(&self, source: impl AsFd) {
        // It fails only if the source is not watched, and that is what was asked for.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Ends the wait of one worker at the epoll, or the next one's.
    pub(super) fn wake(&self) {
        // A write of one to an eventfd fails only when its counter is full, and then it wakes as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits for one event; without `block` only looks. One at a time, so that each goes to another worker.
    pub(super) fn wait(&self, block: bool) -> io::Result<Option<Ready>> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; 1];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if block { None } else { Some(&now) };
        let (events, _) = match epoll::wait(&self.epoll, &mut events, timeout) {
            Ok(found) => found,
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(events.first().map(|event| {
            let flags = event.flags;
            Ready {
                token: event.data.u64(),
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                broken: flags.intersects(EventFlags::ERR | EventFlags::HUP),
            }
        }))
    }
}

fn interest(read: bool, write: bool) -> EventFlags {
    let mut flags = EventFlags::ONESHOT;
    flags.set(EventFlags::IN, read);
    flags.set(EventFlags::OUT, write);
    flags
}
