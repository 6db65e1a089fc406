//! What threads that share a few processors owe each other.
//!
//! A thread that answers requests says when it is going to sit still, in a device or behind a lock, so that its
//! processor goes to another one ([`blocking`]); and one that works for long in the background gives its processor up
//! now and then ([`LongWork`], rules P4). Neither changes what is done, only who does it when.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Whoever has threads that serve many is told when one of them sits still, so that another can take its place.
pub trait Seat {
    /// The thread is about to wait for something that takes long: a device, or a lock that others hold over one.
    fn sits_down(&self);

    /// That is over, and the thread has its processor again.
    fn stands_up(&self);
}

thread_local! {
    static SEAT: RefCell<Option<Rc<dyn Seat>>> = const { RefCell::new(None) };
}

/// From now on `seat` is told when this thread waits in [`blocking`].
pub fn seat_this_thread(seat: Rc<dyn Seat>) {
    SEAT.set(Some(seat));
}

/// Does what may take long without using a processor. Waits within waits are one wait; a thread that serves nobody just
/// does it.
pub fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    let Some(seat) = SEAT.take() else { return wait() };
    seat.sits_down();
    let _back = Back(seat);
    wait()
}

/// Ends the wait, also when it panics.
struct Back(Rc<dyn Seat>);

impl Drop for Back {
    fn drop(&mut self) {
        self.0.stands_up();
        SEAT.set(Some(Rc::clone(&self.0)));
    }
}

/// So long a piece of background work keeps its processor. A thread that becomes ready otherwise waits until the system
/// ends the turn of the one that runs, which is after some 3 ms: ten times what a durable write takes.
const TURN: Duration = Duration::from_micros(200);

/// A long piece of work that nobody waits for, beside others who answer requests.
pub struct LongWork {
    turn: Instant,
}

impl Default for LongWork {
    fn default() -> Self {
        Self { turn: Instant::now() }
    }
}

impl LongWork {
    /// Between two steps: lets others have the processor if it is time.
    pub fn step(&mut self) {
        if self.turn.elapsed() >= TURN {
            std::thread::yield_now();
            self.turn = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct Counted {
        down: Cell<u32>,
        up: Cell<u32>,
    }

    impl Seat for Counted {
        fn sits_down(&self) {
            self.down.set(self.down.get() + 1);
        }

        fn stands_up(&self) {
            self.up.set(self.up.get() + 1);
        }
    }

    #[test]
    fn waits_within_waits_are_one_and_a_panic_ends_it() {
        assert_eq!(blocking(|| 1), 1);
        let seat = Rc::new(Counted::default());
        seat_this_thread(Rc::clone(&seat) as Rc<dyn Seat>);
        assert_eq!(blocking(|| blocking(|| (seat.down.get(), seat.up.get()))), (1, 0));
        assert_eq!((seat.down.get(), seat.up.get()), (1, 1));
        let panicked = std::panic::catch_unwind(|| blocking(|| panic!("as planned")));
        assert!(panicked.is_err());
        assert_eq!((seat.down.get(), seat.up.get()), (2, 2));
        blocking(|| ());
        assert_eq!((seat.down.get(), seat.up.get()), (3, 3));
    }
}
