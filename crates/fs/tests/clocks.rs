//! Clocks that are wrong, and time that passes while nobody serves: what is remembered, and what changes are stamped with.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tally_base::{Clock, FileTime, Time};
use tally_fs::filer::{Filer, ImportOptions};
use tally_store::tuning::Tuning;
use tally_vfs::{Attr, CreateHow, Cred, OpCtx, Replies, ReplyKey, Stability};
use world::{World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;
/// In the year 2026.
const NOW: u64 = 1_790_000_000 * SECOND;
/// In 2099, and in 2230: what a clock without a battery may say; the kernel allows up to 2232.
const FAR: [u64; 2] = [4_080_000_000 * SECOND, 8_210_000_000 * SECOND];

/// A clock of day that can be set, and one that only goes on.
struct Told {
    day: AtomicU64,
    up: AtomicU64,
    sleeps: AtomicU64,
}

impl Clock for Told {
    fn now(&self) -> Time {
        Time(self.day.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.up.load(Ordering::SeqCst))
    }

    fn sleep(&self, time: Duration) {
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        self.pass(u64::try_from(time.as_nanos()).unwrap());
    }
}

impl Told {
    fn at(day: u64) -> Arc<Self> {
        Arc::new(Self { day: day.into(), up: SECOND.into(), sleeps: 0.into() })
    }

    fn set(&self, day: u64) {
        self.day.store(day, Ordering::SeqCst);
    }

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

fn make(filer: &Filer, name: &str) -> Attr {
    let (fs, cred) = (vfs(filer), Cred::root());
    done(fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o644)))).unwrap()
}

fn is_near(time: FileTime, other: Time) -> bool {
    time.0.abs_diff(FileTime::from(other).0) < 2 * SECOND
}

fn key(number: u8) -> ReplyKey {
    let mut key = [0; 40];
    key[20] = number;
    ReplyKey(key)
}

fn make_with_answer(filer: &Filer, number: u8) {
    let (fs, cred) = (vfs(filer), Cred::root());
    let context = OpCtx { reply: Some(key(number)), ..OpCtx::of(&cred) };
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

/// One import while the clock said 2099, and every later time was of 2099, for ever. One in 2230, and the pool could not be
/// imported any more: it "was written by faulty software".
#[test]
fn a_clock_that_was_wrong_for_one_start_spoils_nothing() {
    for wrong in FAR.into_iter().chain([NOW + 30 * DAY, NOW - 5 * DAY, 0]) {
        let clock = Told::at(NOW);
        let (world, filer) = new_pool(&clock);
        let first = make(&filer, "first");
        clock.pass(60 * SECOND);
        let (world, clock, filer) = after_a_cut(&world, wrong);
        let during = make(&filer, "during");
        assert!(during.change > first.change, "never back");
        clock.pass(60 * SECOND);
        make(&filer, "logged");
        filer.sync().unwrap();
        make(&filer, "logged too");
        let (world, clock, filer) = after_a_cut(&world, NOW + 1000 * SECOND);
        let after = make(&filer, "after");
        assert!(after.change > during.change, "never back");
        assert!(is_near(after.mtime, clock.now()), "the clock is right again, after {wrong}: {:?}", after.mtime);
        filer.export().unwrap();
        world.import();
    }
}

/// The same while the pool serves: somebody types a wrong year, and puts it right an hour later.
#[test]
fn a_clock_that_jumps_while_the_pool_serves_is_not_followed() {
    let clock = Told::at(NOW);
    let (_, filer) = new_pool(&clock);
    for wrong in FAR {
        clock.pass(60 * SECOND);
        let right = clock.now().0;
        make(&filer, &format!("before-{wrong}"));
        clock.set(wrong);
        clock.pass(3600 * SECOND);
        let during = make(&filer, &format!("during-{wrong}"));
        assert!(
            is_near(during.mtime, Time(right + 3600 * SECOND)),
            "by the clock that nobody sets: {:?}",
            during.mtime
        );
        filer.sync().unwrap();
        clock.set(right + 3601 * SECOND);
        assert!(is_near(make(&filer, &format!("after-{wrong}")).mtime, clock.now()));
    }
}

/// A pool that nobody changes syncs nothing: that days pass is no jump.
#[test]
fn days_without_a_change_are_no_jump() {
    let clock = Told::at(NOW);
    let (_, filer) = new_pool(&clock);
    make(&filer, "first");
    filer.sync().unwrap();
    clock.pass(5 * DAY);
    assert_eq!(make(&filer, "second").mtime, clock.now().into());
}

/// An UNSTABLE WRITE ten seconds after the last group had a time that no uberblock covered. A crash lost it, the machine came
/// back with an old clock, and another change got the same time.
#[test]
fn no_time_of_a_lost_change_comes_again() {
    for idle in [0, 5 * SECOND, 100 * SECOND, 3 * 3600 * SECOND] {
        let clock = Told::at(NOW);
        let world = World::new(64 * MIB, 16 * MIB).with_clock(Arc::clone(&clock) as _);
        let filer = world.create_without_threads(&Default::default());
        let (fs, cred) = (vfs(&filer), Cred::root());
        let how = CreateHow::Guarded(mode(0o644));
        let file = fs.create(ctx(&cred), fs.root(), b"file", &how).result.unwrap().object;
        filer.sync().unwrap();
        clock.pass(idle);
        let write = |data: &'static [u8]| fs.write(ctx(&cred), file, 0, data.into(), Stability::Unstable).result;
        if write(b"lost").is_err() {
            // It is told to wait for a group.
            filer.sync().unwrap();
            write(b"lost").unwrap();
        }
        let lost = fs.getattr(file).unwrap().change;
        let seen_late = lost.0.abs_diff(clock.now().0);
        assert!(seen_late < SECOND, "its time is that of the clock, {seen_late} ns apart");
        let clock = Told::at(NOW);
        let world = world.cut().with_clock(Arc::clone(&clock) as _);
        let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
        let (fs, cred) = (vfs(&filer), Cred::root());
        fs.write(ctx(&cred), file, 0, b"another".as_slice().into(), Stability::Unstable).result.unwrap();
        let again = fs.getattr(file).unwrap().change;
        assert!(again > lost, "idle for {idle} ns: {again:?} after {lost:?}");
    }
}

/// A CREATE after a while of idleness had the clock's time, above the lease, since its record tells it; an UNSTABLE WRITE behind
/// it had that time and one nanosecond more, and was answered at once. A crash lost both, the record too: its frame was
/// still under way. The machine came back with an old clock, and the same times came again.
#[test]
fn no_time_that_rests_on_a_lost_record_comes_again() {
    for is_synced_late in [false, true] {
        let clock = Told::at(NOW);
        let world = World::new(64 * MIB, 16 * MIB).with_clock(Arc::clone(&clock) as _);
        let filer = world.create_without_threads(&Default::default());
        let (fs, cred) = (vfs(&filer), Cred::root());
        let how = CreateHow::Guarded(mode(0o644));
        let file = fs.create(ctx(&cred), fs.root(), b"file", &how).result.unwrap().object;
        filer.sync().unwrap();
        clock.pass(100 * SECOND);
        // Nobody drives its promise, so its frame is never written.
        fs.create(ctx(&cred), fs.root(), b"in-flight", &how).result.unwrap();
        if is_synced_late {
            clock.pass(100 * SECOND);
        }
        let write = |data: &'static [u8]| fs.write(ctx(&cred), file, 0, data.into(), Stability::Unstable).result;
        if write(b"lost").is_err() {
            // It is told to wait for a group, which tells the time of the CREATE.
            filer.sync().unwrap();
            write(b"lost").unwrap();
        }
        let lost = fs.getattr(file).unwrap().change;
        let clock = Told::at(NOW);
        let world = world.cut().with_clock(Arc::clone(&clock) as _);
        let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
        let (fs, cred) = (vfs(&filer), Cred::root());
        fs.write(ctx(&cred), file, 0, b"another".as_slice().into(), Stability::Unstable).result.unwrap();
        let again = fs.getattr(file).unwrap().change;
        assert!(again > lost, "{again:?} after {lost:?}");
    }
}

/// What a scrub reads itself, nodes of trees on its way, maps of pieces, blocks, looked like a client's requests, if it counted.
#[test]
fn a_scrub_waits_for_clients_and_not_for_itself() {
    let clock = Told::at(NOW);
    let (_world, filer) = new_pool(&clock);
    let (fs, cred) = (vfs(&filer), Cred::root());
    for number in 0..40 {
        let file = make(&filer, &format!("file {number}")).object;
        let data = vec![number; if number % 4 == 0 { 200_000 } else { 3000 }];
        done(fs.write(ctx(&cred), file, 0, data.into(), Stability::FileSync)).unwrap();
    }
    filer.sync().unwrap();
    let scrub = |client: &mut dyn FnMut()| {
        let (before, mut steps) = (clock.sleeps.load(Ordering::SeqCst), 0);
        let report = filer.scrub(&mut |_| {
            steps += 1;
            client();
            true
        });
        assert_eq!(report.unwrap().lost_count, 0);
        (clock.sleeps.load(Ordering::SeqCst) - before, steps)
    };
    let (waits, steps) = scrub(&mut || {});
    assert!(waits <= 1 && steps > 20, "the groups before it are behind: {waits} waits in {steps} steps");
    let mut number = 0;
    let (waits, steps) = scrub(&mut || {
        number += 1;
        make(&filer, &format!("beside {number}"));
        // Its record is on another disk; its group is not.
        filer.sync().unwrap();
    });
    assert!(waits >= 20, "{waits} waits in {steps} steps with a client in each");
}
