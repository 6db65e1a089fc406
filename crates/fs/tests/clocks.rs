//! Clocks that are wrong, and time that passes while nobody serves: what is remembered, and what changes are stamped with.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tally_base::{Clock, Time};
use tally_fs::filer::Filer;
use tally_fs::vfs::{Cred, OpCtx, ReplyKey, Vfs};
use world::{World, done, mode, vfs};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;
/// In the year 2026.
const NOW: u64 = 1_790_000_000 * SECOND;

/// A clock of day that can be set, and one that only goes on.
struct Told {
    day: AtomicU64,
    up: AtomicU64,
}

impl Clock for Told {
    fn now(&self) -> Time {
        Time(self.day.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.up.load(Ordering::SeqCst))
    }
}

impl Told {
    fn at(day: u64) -> Arc<Self> {
        Arc::new(Self { day: day.into(), up: SECOND.into() })
    }

    fn set(&self, day: u64) {
        self.day.store(day, Ordering::SeqCst);
    }

    /// Time passes.
    fn pass(&self, nanoseconds: u64) {
        self.day.fetch_add(nanoseconds, Ordering::SeqCst);
        self.up.fetch_add(nanoseconds, Ordering::SeqCst);
    }
}

fn new_pool(clock: &Arc<Told>) -> (World, Arc<Filer>) {
    let world = World::new(64 * MIB, 16 * MIB).with_clock(Arc::clone(clock) as _);
    let filer = world.create();
    (world, filer)
}

/// The machine starts again, at `day` by its clock.
fn after_a_cut(world: &World, day: u64) -> (World, Arc<Told>, Arc<Filer>) {
    let clock = Told::at(day);
    let world = world.cut().with_clock(Arc::clone(&clock) as _);
    let (filer, _) = world.import();
    (world, clock, filer)
}

fn key(number: u8) -> ReplyKey {
    let mut key = [0; 40];
    key[20] = number;
    ReplyKey(key)
}

fn make_with_answer(filer: &Filer, number: u8) {
    let (fs, cred) = (vfs(filer), Cred::root());
    let context = OpCtx { cred: &cred, reply: Some(key(number)) };
    done(fs.mkdir(context, fs.root(), &[b'd', number], &mode(0o755))).unwrap();
}

fn remembers(filer: &Filer, number: u8) -> bool {
    filer.by_name("tank").unwrap().remembered(&key(number)).is_some()
}

/// A REMOVE's reply was lost in a power cut, the machine took two minutes to start, and the client that asked again was told
/// that there is no such file: answers had aged by the outage that they are kept for.
#[test]
fn an_outage_of_a_day_does_not_empty_the_reply_cache() {
    for outage in [125 * SECOND, DAY - SECOND, 3 * DAY] {
        let clock = Told::at(NOW);
        let (world, filer) = new_pool(&clock);
        make_with_answer(&filer, 1);
        filer.sync().unwrap();
        clock.pass(60 * SECOND);
        make_with_answer(&filer, 2);
        let (world, clock, filer) = after_a_cut(&world, clock.now().0 + outage);
        assert!(remembers(&filer, 1) && remembers(&filer, 2), "in the pool, and in the log");
        clock.pass(30 * SECOND);
        // Again, before anything else was answered: those from before the first outage are as old as they were.
        let (_, clock, filer) = after_a_cut(&world, clock.now().0 + outage);
        assert!(remembers(&filer, 1) && remembers(&filer, 2), "after the second outage of {outage} ns");
        clock.pass(121 * SECOND);
        assert!(!remembers(&filer, 1) && !remembers(&filer, 2), "two minutes of service are over");
    }
}

/// The clock is set while the pool serves: nobody has waited any longer for that.
#[test]
fn a_clock_that_jumps_does_not_empty_the_reply_cache() {
    let clock = Told::at(NOW);
    let (_, filer) = new_pool(&clock);
    make_with_answer(&filer, 1);
    for day in [NOW + 600 * SECOND, NOW + 400 * DAY, NOW] {
        clock.set(day);
        assert!(remembers(&filer, 1), "{day}");
    }
    clock.pass(121 * SECOND);
    assert!(!remembers(&filer, 1));
}
