//! How many workers there are, and what they are at.
//!
//! A worker that is ready to run and is not on a processor holds requests and replies that others could have carried
//! out: with 32 workers on two processors, the slowest hundredth of the requests of 64 clients took eight times as
//! long as the middle. So only a few run at once, and only a few sit in epoll, from where an event would have
//! them run; the rest is called when those wait for devices or locks. Who comes back from there is one too many, and goes
//! to the bench when enough others run: from epoll if it gets there, or from work that never ends.
//!
//! Until it is on a processor again nobody sees that it is back. Where all are taken by workers that have more to do it
//! waits for the system to end their turns, up to 4 ms each, one after the other: where hostile hosts kept them busy a write
//! of 32 KiB was 0.1 ms in its device and 3 more on no processor (docs/design/0022). Hence those who work on offer their
//! processors after each turn while anybody is away (rules P4).
//!
//! An offer is taken by whoever wants the processor, and other programs keep it for their whole turn: with four busy
//! loops beside the server and one READ that hung in its disk, a turn of work stood against an offer of milliseconds, and
//! the rate of all others fell to a seventh. So nobody is waited for who went long ago, and after an offer by which nobody
//! came back there is none for a quarter of what it took.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Who went away longer ago comes back from something that is slow, and a turn more is little to that.
const AWAY_MAX: Duration = Duration::from_millis(20);

/// After an offer in vain there is none for so many parts of what it took.
const VAIN_PARTS: u64 = 4;

/// Who works, who watches, and who sits still: what decides whether another worker is called or started.
pub(super) struct Crew {
    /// Times are nanoseconds since then.
    start: Instant,
    /// Most that run before another is called; and most that sit in epoll, ready to run.
    running_max: usize,
    all: AtomicUsize,
    /// Those that are in epoll, or are on their way there because they were called.
    watching: AtomicUsize,
    /// Those that are at work, and not in a device or behind a lock.
    running: AtomicUsize,
    /// Those that wait for a device or a lock, or for a processor after that.
    away: AtomicUsize,
    /// When the last of them went.
    went_ns: AtomicU64,
    /// How often one has come back.
    back: AtomicUsize,
    /// Until then no processor is offered again.
    offered_ns: AtomicU64,
    bench: Mutex<Bench>,
    called: Condvar,
}

/// Workers that nobody needs now.
#[derive(Default)]
struct Bench {
    sitting: usize,
    calls: usize,
    ended: bool,
}

impl Crew {
    pub(super) fn new(running_max: usize) -> Self {
        Self {
            start: Instant::now(),
            running_max: running_max.max(1),
            all: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            away: AtomicUsize::new(0),
            went_ns: AtomicU64::new(0),
            back: AtomicUsize::new(0),
            offered_ns: AtomicU64::new(0),
            bench: Mutex::default(),
            called: Condvar::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.load(SeqCst)
    }

    /// Whether somebody waits in epoll, and so takes the next event.
    pub(super) fn is_watched(&self) -> bool {
        self.watching.load(SeqCst) > 0
    }

    /// Whether nobody watches, and a processor may have nothing to do.
    pub(super) fn wants_one_more(&self) -> bool {
        !self.is_watched() && self.running.load(SeqCst) < self.running_max
    }

    /// Sends a worker from the bench to the epoll; false if the bench is empty.
    pub(super) fn call(&self) -> bool {
        let mut bench = self.bench.lock();
        if bench.sitting == 0 {
            return false;
        }
        // Somebody else may have been faster.
        if !self.is_watched() {
            bench.sitting -= 1;
            bench.calls += 1;
            self.watching.fetch_add(1, SeqCst);
            self.called.notify_one();
        }
        true
    }

    /// Counts a new worker, which is on its way to the epoll; gives its number, or nothing if there are `most`.
    pub(super) fn hire(&self, most: usize) -> Option<usize> {
        let hired = self.all.fetch_update(SeqCst, SeqCst, |all| (all < most).then_some(all + 1)).ok()?;
        self.watching.fetch_add(1, SeqCst);
        Some(hired)
    }

    /// Takes [`Self::hire`] back.
    pub(super) fn dismiss(&self) {
        self.all.fetch_sub(1, SeqCst);
        self.watching.fetch_sub(1, SeqCst);
    }

    /// A worker has nothing to do. Returns when it may wait in epoll, which can take long.
    pub(super) fn enter_watch(&self) {
        self.running.fetch_sub(1, SeqCst);
        if self.watching.fetch_add(1, SeqCst) < self.running_max {
            return;
        }
        let bench = self.bench.lock();
        // Under the lock of those who call: whoever finds nobody watching finds this one on the bench.
        if self.watching.fetch_sub(1, SeqCst) <= self.running_max || bench.ended {
            self.watching.fetch_add(1, SeqCst);
            return;
        }
        self.sit(bench);
    }

    /// A worker that has more to do leaves it to the others if too many run: one that comes back from a device was
    /// replaced meanwhile. True: it has sat on the bench, and counts as watching since it was called.
    pub(super) fn give_way(&self) -> bool {
        let step_back = |running: usize| (running > self.running_max).then(|| running - 1);
        if self.running.load(SeqCst) <= self.running_max
            || self.running.fetch_update(SeqCst, SeqCst, step_back).is_err()
        {
            return false;
        }
        let bench = self.bench.lock();
        // As above: those who were running may have gone to their devices, and found nobody to call.
        if self.wants_one_more() || bench.ended {
            self.running.fetch_add(1, SeqCst);
            return false;
        }
        self.sit(bench);
        true
    }

    /// Until somebody calls, or the end. Whoever leaves the bench watches.
    fn sit(&self, mut bench: MutexGuard<'_, Bench>) {
        bench.sitting += 1;
        while bench.calls == 0 && !bench.ended {
            self.called.wait(&mut bench);
        }
        if bench.calls > 0 {
            bench.calls -= 1;
        } else {
            self.watching.fetch_add(1, SeqCst);
        }
    }

    /// It comes from epoll.
    pub(super) fn leave_watch(&self) {
        self.running.fetch_add(1, SeqCst);
        self.watching.fetch_sub(1, SeqCst);
    }

    /// A worker that has more to do offers its processor to those who come back, if anybody is away; true if it did.
    pub(super) fn offer_processor(&self) -> bool {
        if self.away.load(SeqCst) == 0 {
            return false;
        }
        let began_ns = self.now_ns();
        let may_offer = self.may_offer(began_ns);
        if may_offer {
            let back = self.back.load(SeqCst);
            std::thread::yield_now();
            if self.back.load(SeqCst) == back {
                self.offered_in_vain(began_ns, self.now_ns());
            }
        }
        may_offer
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn may_offer(&self, now_ns: u64) -> bool {
        let is_near = u128::from(now_ns.saturating_sub(self.went_ns.load(Relaxed))) <= AWAY_MAX.as_nanos();
        is_near && now_ns >= self.offered_ns.load(Relaxed)
    }

    fn offered_in_vain(&self, began_ns: u64, ended_ns: u64) {
        self.offered_ns.store(ended_ns + ended_ns.saturating_sub(began_ns) / VAIN_PARTS, Relaxed);
    }

    /// It waits for a device or a lock.
    pub(super) fn sit_down(&self) {
        self.went_ns.store(self.now_ns(), Relaxed);
        self.away.fetch_add(1, SeqCst);
        self.running.fetch_sub(1, SeqCst);
    }

    /// It goes on.
    pub(super) fn stand_up(&self) {
        self.away.fetch_sub(1, SeqCst);
        self.back.fetch_add(1, SeqCst);
        self.running.fetch_add(1, SeqCst);
    }

    /// Everybody leaves the bench, and nobody sits down on it again.
    pub(super) fn end(&self) {
        self.bench.lock().ended = true;
        self.called.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// So many workers at work.
    fn crew(running_max: usize, running: usize) -> Arc<Crew> {
        let crew = Arc::new(Crew::new(running_max));
        for _ in 0..running {
            crew.hire(running).expect("there is a place");
            crew.leave_watch();
        }
        crew
    }

    /// A worker in a device is replaced, and is one too many when it comes back. Where work never ends, no worker ever
    /// went to the epoll, and so to the bench: with each such round one more ran, until all did.
    #[test]
    fn who_comes_back_when_enough_run_leaves_the_rest_to_them() {
        let crew = crew(2, 2);
        assert!(!crew.give_way(), "two may run");
        crew.sit_down();
        assert!(crew.wants_one_more() && !crew.call() && crew.hire(3).is_some(), "somebody takes its place");
        crew.leave_watch();
        crew.stand_up();
        let third = std::thread::spawn({
            let crew = Arc::clone(&crew);
            move || crew.give_way()
        });
        while crew.bench.lock().sitting == 0 {
            assert!(!third.is_finished(), "three run");
            std::thread::yield_now();
        }
        assert!(!crew.give_way(), "two are left");
        crew.sit_down();
        assert!(crew.wants_one_more() && crew.call(), "it is called when it is needed");
        assert!(third.join().unwrap() && crew.is_watched());
    }

    #[test]
    fn a_processor_is_offered_while_anybody_is_away() {
        let crew = crew(2, 2);
        assert!(!crew.offer_processor(), "nobody comes back");
        crew.sit_down();
        assert!(crew.may_offer(crew.went_ns.load(Relaxed)));
        crew.offer_processor();
        crew.stand_up();
        assert!(!crew.offer_processor(), "it is back");
    }

    /// One READ that hung made all others slower by what other programs took of each offer.
    #[test]
    fn vain_offers_end_and_cost_nothing_for_who_is_away_for_long() {
        let crew = crew(2, 2);
        crew.sit_down();
        let [went, long] = [crew.went_ns.load(Relaxed), AWAY_MAX.as_nanos() as u64];
        assert!(crew.may_offer(went + long) && !crew.may_offer(went + long + 1));
        crew.offered_in_vain(went, went + 5000);
        assert!(!crew.may_offer(went + 6249) && crew.may_offer(went + 6250));
    }

    #[test]
    fn at_the_end_nobody_gives_way() {
        let crew = crew(1, 2);
        crew.end();
        assert!(!crew.give_way());
        assert_eq!(crew.running.load(SeqCst), 2);
    }
}
