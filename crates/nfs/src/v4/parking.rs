//! Who waits without a worker (rules V15): for a delegation to come back, until one of that file was given up, or for names, until they are there. When its time is over each goes on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::{Fate, Kept, Promise};

use super::house::House;
use super::naming::Ticket;
use super::state::FileId;
use super::state::bounds::PARKED_MAX;

/// For so long: a client on the same site has answered by then, and a worker is back at its request sooner than the client would ask again.
pub const PARKED: Duration = Duration::from_millis(50);

/// What becomes of who is kept out.
pub enum KeptOut {
    /// He goes on when this is over, and may be kept out still.
    Waits(Box<dyn Promise>),
    /// He comes again.
    ComesAgain,
}

/// Where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Parking {
    lots: Arc<Lots>,
}

#[derive(Default)]
struct Lots {
    places: Mutex<Places>,
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
}

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Something of this file is given up.
    File(FileId),
    /// All is answered that the name service was asked by then.
    Names(Ticket),
}

struct Place {
    awaited: Awaited,
    until: Instant,
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

    fn place(&self, awaited: Awaited) -> Option<Parked> {
        let mut places = self.lots.places.lock();
        let is_named = |place: &Place| matches!(place.awaited, Awaited::Names(_));
        let has_no_room = match awaited {
            // Who waits for names leaves half of them to who waits for files, by whatever version.
            Awaited::Names(_) => places.places.values().filter(|place| is_named(place)).count() >= PARKED_MAX / 2,
            Awaited::File(_) => false,
        };
        if has_no_room || places.places.len() >= PARKED_MAX {
            return None;
        }
        let number = places.next;
        places.next += 1;
        let place = Place { awaited, until: Instant::now() + PARKED, is_woken: false, then: None };
        places.places.insert(number, place);
        self.lots.count.store(places.places.len(), SeqCst);
        Some(Parked { lots: self.lots.clone(), number, is_waited_for: false })
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
            self.lots.end(|place| place.until <= now);
        }
    }
}

impl House {
    /// Whether somebody is parked, for whom there is to be a look at once in [`PARKED`].
    pub(crate) fn has_parked(&self) -> bool {
        self.parking.has_some()
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
        self.count.store(places.places.len(), SeqCst);
        drop(places);
        ended.into_iter().filter_map(|(_, place)| place.then).for_each(|then| then(Ok(Kept::default())));
    }

    fn leave(&self, number: u64) -> Option<Place> {
        let mut places = self.places.lock();
        let place = places.places.remove(&number);
        self.count.store(places.places.len(), SeqCst);
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
        let is_over =
            places.places.get(&self.number).is_none_or(|place| place.is_woken || place.until <= Instant::now());
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
