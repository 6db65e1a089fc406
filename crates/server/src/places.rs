//! The places of a small server: who comes always finds one, for who says nothing gives his up.
//!
//! A bound on connections that closes whoever comes is a gift to the first who opens that many and does nothing: 48
//! sockets with a byte each kept Prometheus away, and 64 idle watchers the next command. So a guest is *busy* while
//! somebody works for him, and *idle* while he is waited for; where all places are taken, who has been idle longest is
//! hung up on. His thread finds the connection at its end and ends as well.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::net::Shutdown;

/// What may be done where everybody is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAllAreBusy {
    /// Who comes is refused.
    Refuse,
    /// The one that was there first goes.
    DropFirst,
}

/// A bounded number of places.
pub(crate) struct Places<S> {
    most: usize,
    if_all_are_busy: IfAllAreBusy,
    guests: Mutex<Guests<S>>,
}

/// In the order in which they became what they are.
struct Guests<S> {
    next_number: u64,
    list: VecDeque<Guest<S>>,
}

struct Guest<S> {
    number: u64,
    stream: Arc<S>,
    busy: bool,
}

impl<S: AsFd> Places<S> {
    pub(crate) fn new(most: usize, if_all_are_busy: IfAllAreBusy) -> Arc<Self> {
        let guests = Mutex::new(Guests { next_number: 0, list: VecDeque::new() });
        Arc::new(Self { most, if_all_are_busy, guests })
    }

    /// A place for a connection that has just come, and is idle.
    pub(crate) fn take(self: &Arc<Self>, stream: &Arc<S>) -> Option<Place<S>> {
        let mut guests = self.guests.lock();
        if guests.list.len() >= self.most {
            let idle = guests.list.iter().position(|guest| !guest.busy);
            let first = (self.if_all_are_busy == IfAllAreBusy::DropFirst).then_some(0);
            let gone = guests.list.remove(idle.or(first)?)?;
            // It fails if that guest was faster, which is as good.
            let _ = rustix::net::shutdown(&*gone.stream, Shutdown::Both);
        }
        let number = guests.next_number;
        guests.next_number += 1;
        guests.list.push_back(Guest { number, stream: Arc::clone(stream), busy: false });
        Some(Place { places: Arc::clone(self), number })
    }
}

/// A guest's place, given back when dropped.
pub(crate) struct Place<S> {
    places: Arc<Places<S>>,
    number: u64,
}

impl<S> Place<S> {
    /// Somebody works for him.
    pub(crate) fn is_busy(&self) {
        self.becomes(true);
    }

    /// He is waited for.
    pub(crate) fn is_idle(&self) {
        self.becomes(false);
    }

    fn becomes(&self, busy: bool) {
        let list = &mut self.places.guests.lock().list;
        let found = list.iter().position(|guest| guest.number == self.number);
        if let Some(guest) = found.and_then(|at| list.remove(at)) {
            list.push_back(Guest { busy, ..guest });
        }
    }
}

impl<S> Drop for Place<S> {
    fn drop(&mut self) {
        self.places.guests.lock().list.retain(|guest| guest.number != self.number);
    }
}
