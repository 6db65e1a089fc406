//! Who waits without a worker (rules V15): for a delegation to come back, until one of that file was given up, or for names, until they are there. When its time is over each goes on.
//!
//! A host that claims a lock again, and must not be told to come again, is *held* (N8) until the next look at hosts, and the next, for as long as it takes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::{Fate, Kept, Promise};

use super::house::House;
use super::naming::Ticket;
use super::state::bounds::{HELD_MAX, HELD_OF_HOST_MAX, PARKED_MAX};
use super::state::{ClientKey, FileId};

/// For so long: a client on the same site has answered by then, and a worker is back at its request sooner than the client would ask again.
pub const PARKED: Duration = Duration::from_millis(50);

/// What becomes of who is kept out.
pub enum KeptOut {
    /// He goes on when this is over, and may be kept out still.
    Waits(Box<dyn Promise>),
    /// He comes again.
    ComesAgain,
}

/// What becomes of who claims something again for a host, as long as nobody knows whether he may.
pub enum Holding {
    /// He looks again with those who look at hosts.
    Held(Box<dyn Promise>),
    /// He is told nothing: there is no room.
    NoRoom,
    /// He is told to come again: in another pool his host loses all that it has else, as it claims one behind the other.
    TooLong,
}

/// Where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Parking {
    lots: Arc<Lots>,
}

#[derive(Default)]
struct Lots {
    places: Mutex<Places>,
    /// How many have a time that ends.
    count: AtomicUsize,
}

impl std::fmt::Debug for Lots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lots").field("count", &self.count).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Places {
    next: u64,
    places: HashMap<u64, Place>,
    /// How many of these are held.
    held: usize,
    /// Nobody is any more.
    is_closed: bool,
}

impl Places {
    fn timed(&self) -> usize {
        self.places.len() - self.held
    }

    fn is_over(&mut self, place: &Place) {
        self.held -= usize::from(place.until.is_none());
    }
}

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Something of this file is given up.
    File(FileId),
    /// All is answered that the name service was asked by then.
    Names(Ticket),
    /// Somebody looks at hosts, of which this is one.
    Look(IpAddr),
}

struct Place {
    awaited: Awaited,
    /// Nothing: until then it is held.
    until: Option<Instant>,
    /// It was given up before somebody began to wait for it.
    is_woken: bool,
    then: Option<Box<dyn FnOnce(Fate) + Send>>,
}

impl Parking {
    /// A place for who waits for something of a file, if there is room: what is given up from here on it is told.
    pub(super) fn park(&self, file: FileId) -> Option<Parked> {
        self.place(Awaited::File(file))
    }

    /// The same for who has asked for names: what is answered from here on it is told.
    pub(super) fn park_for_names(&self, asked: Ticket) -> Option<Parked> {
        self.place(Awaited::Names(asked))
    }

    /// The same for who is held for this host, until the next look.
    pub(super) fn hold(&self, host: IpAddr) -> Option<Parked> {
        self.place(Awaited::Look(host))
    }

    fn place(&self, awaited: Awaited) -> Option<Parked> {
        let mut places = self.lots.places.lock();
        let is_named = |place: &Place| matches!(place.awaited, Awaited::Names(_));
        let has_no_room = match awaited {
            // Who waits for names leaves half of them to who waits for files, by whatever version.
            Awaited::Names(_) => places.places.values().filter(|place| is_named(place)).count() >= PARKED_MAX / 2,
            Awaited::File(_) => false,
            Awaited::Look(_) => {
                let of_host = || places.places.values().filter(|place| place.awaited == awaited).count();
                places.is_closed || places.held >= HELD_MAX || of_host() >= HELD_OF_HOST_MAX
            }
        };
        let is_timed = !matches!(awaited, Awaited::Look(_));
        if has_no_room || is_timed && places.timed() >= PARKED_MAX {
            return None;
        }
        let number = places.next;
        places.next += 1;
        places.held += usize::from(!is_timed);
        let until = is_timed.then(|| Instant::now() + PARKED);
        places.places.insert(number, Place { awaited, until, is_woken: false, then: None });
        self.lots.count.store(places.timed(), SeqCst);
        Some(Parked { lots: self.lots.clone(), number, is_waited_for: false })
    }

    /// Those that are held look again.
    pub(super) fn wake_held(&self) {
        self.lots.end(|place| matches!(place.awaited, Awaited::Look(_)));
    }

    /// The same, and nobody is held from here on.
    pub(super) fn end_holding(&self) {
        self.lots.places.lock().is_closed = true;
        self.wake_held();
    }

    /// Something of a file was given up.
    pub(super) fn wake(&self, file: &FileId) {
        if self.has_some() {
            self.lots.end(|place| place.awaited == Awaited::File(*file));
        }
    }

    /// Names are known: nothing is open that was asked before this, or nothing at all.
    pub(super) fn wake_named(&self, oldest: Option<Ticket>) {
        if self.has_some() {
            let is_there = |asked: Ticket| oldest.is_none_or(|oldest| asked < oldest);
            self.lots.end(|place| matches!(place.awaited, Awaited::Names(asked) if is_there(asked)));
        }
    }

    /// Whether anybody has a place.
    pub(super) fn has_some(&self) -> bool {
        self.lots.count.load(SeqCst) > 0
    }

    /// Those whose time is over go on.
    pub(super) fn end_late(&self) {
        if self.has_some() {
            let now = Instant::now();
            self.lots.end(|place| place.until.is_some_and(|until| until <= now));
        }
    }
}

impl House {
    /// Whether somebody is parked, for whom there is to be a look at once in [`PARKED`].
    pub(crate) fn has_parked(&self) -> bool {
        self.parking.has_some()
    }

    /// A place for who claims something again for this host. Its other pools wait for it meanwhile, each as long as it waits for anybody.
    pub(crate) fn hold_for_host(&self, host: IpAddr) -> Holding {
        if self.tracking.is_held_up(ClientKey::of_host(host.to_canonical()), self.now()) {
            return Holding::TooLong;
        }
        self.parking.hold(host).map_or(Holding::NoRoom, |held| Holding::Held(Box::new(held)))
    }

    /// The server ends: nobody is held any more.
    pub(crate) fn end_holding(&self) {
        self.parking.end_holding();
    }

    /// Ends the wait of those who have been parked for long enough.
    pub(crate) fn end_parking(&self) {
        self.parking.end_late();
    }
}

impl Lots {
    /// These go on. What they do then is done without the lock: they go into a queue.
    fn end(&self, which: impl Fn(&Place) -> bool) {
        let mut places = self.places.lock();
        places.places.values_mut().filter(|place| which(place)).for_each(|place| place.is_woken = true);
        let ended: Vec<_> = places.places.extract_if(|_, place| place.is_woken && place.then.is_some()).collect();
        ended.iter().for_each(|(_, place)| places.is_over(place));
        self.count.store(places.timed(), SeqCst);
        drop(places);
        ended.into_iter().filter_map(|(_, place)| place.then).for_each(|then| then(Ok(Kept::default())));
    }

    fn leave(&self, number: u64) -> Option<Place> {
        let mut places = self.places.lock();
        let place = places.places.remove(&number);
        place.iter().for_each(|place| places.is_over(place));
        self.count.store(places.timed(), SeqCst);
        place
    }
}

/// A place. Kept when something was given up, and when its time is over.
pub(super) struct Parked {
    lots: Arc<Lots>,
    number: u64,
    is_waited_for: bool,
}

impl Promise for Parked {
    fn poll(&self) -> Option<Fate> {
        let places = self.lots.places.lock();
        let is_late = |place: &Place| place.until.is_some_and(|until| until <= Instant::now());
        let is_over = places.places.get(&self.number).is_none_or(|place| place.is_woken || is_late(place));
        is_over.then(|| Ok(Kept::default()))
    }

    fn drive(&self) -> Option<Fate> {
        None
    }

    fn then(mut self: Box<Self>, then: Box<dyn FnOnce(Fate) + Send>) {
        let mut places = self.lots.places.lock();
        if let Some(place) = places.places.get_mut(&self.number).filter(|place| !place.is_woken) {
            place.then = Some(then);
            drop(places);
            self.is_waited_for = true;
            return;
        }
        drop(places);
        drop(self);
        then(Ok(Kept::default()));
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if !self.is_waited_for {
            drop(self.lots.leave(self.number));
        }
    }
}

/// Kept from the start: who was in the way is gone, or what was asked is there.
pub(super) struct Over;

impl Promise for Over {
    fn poll(&self) -> Option<Fate> {
        Some(Ok(Kept::default()))
    }

    fn drive(&self) -> Option<Fate> {
        self.poll()
    }

    fn then(self: Box<Self>, then: Box<dyn FnOnce(Fate) + Send>) {
        then(Ok(Kept::default()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
    use tally_vfs::MountNumber;

    use super::*;
    use crate::v4::state::Mounted;

    fn file(number: u64) -> FileId {
        let of = Mounted { pool: PoolGuid(1), dataset: DatasetId(1), mount: MountNumber(1) };
        FileId { of, object: tally_vfs::ObjectRef { id: ObjectId(number), generation: Generation(1) } }
    }

    fn waits(parked: Parked) -> mpsc::Receiver<Fate> {
        let (told, fates) = mpsc::channel();
        Box::new(parked).then(Box::new(move |fate| told.send(fate).unwrap()));
        fates
    }

    #[test]
    fn who_is_parked_goes_on_when_something_is_given_up_or_time_is_over() {
        let parking = Parking::default();
        let mut fates: Vec<_> = (0..3).map(|nth| waits(parking.park(file(nth)).unwrap())).collect();
        parking.wake(&file(1));
        assert!(fates.remove(1).try_recv().is_ok() && fates.iter().all(|fate| fate.try_recv().is_err()));
        parking.end_late();
        assert!(fates[0].try_recv().is_err());
        std::thread::sleep(PARKED);
        parking.end_late();
        assert!(fates.iter().all(|fate| fate.try_recv().is_ok()) && !parking.has_some());
    }

    #[test]
    fn what_was_given_up_before_somebody_waits_is_not_missed() {
        let parking = Parking::default();
        let parked = parking.park(file(1)).unwrap();
        parking.wake(&file(1));
        assert!(parked.poll().is_some());
        assert!(waits(parked).try_recv().is_ok() && !parking.has_some());
    }

    #[test]
    fn there_are_no_more_than_may_be() {
        let parking = Parking::default();
        let parked: Vec<_> = (0..PARKED_MAX).map_while(|_| parking.park(file(1))).collect();
        assert!(parked.len() == PARKED_MAX && parking.park(file(2)).is_none());
        drop(parked);
        assert!(parking.park(file(2)).is_some() && !parking.has_some());
    }
}
