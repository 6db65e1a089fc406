use std::sync::atomic::AtomicU64;

use tally_base::Time;

use super::*;
use crate::{CountingDisk, Disk, Durability, Geometry};

/// A clock that moves while somebody sleeps, in which clients come.
struct Busy<'a> {
    ns: AtomicU64,
    pauses: Mutex<Vec<Duration>>,
    come: Box<dyn Fn(Duration) + Send + Sync + 'a>,
}

impl<'a> Busy<'a> {
    fn with(come: impl Fn(Duration) + Send + Sync + 'a) -> Self {
        Self { ns: AtomicU64::new(0), pauses: Mutex::default(), come: Box::new(come) }
    }

    fn pass(&self, time: Duration) {
        self.ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    fn pauses_ms(&self) -> Vec<u128> {
        std::mem::take(&mut *self.pauses.lock()).iter().map(Duration::as_millis).collect()
    }
}

impl Clock for Busy<'_> {
    fn now(&self) -> Time {
        Time(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.ns.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) {
        self.pauses.lock().push(time);
        self.pass(time);
        (self.come)(self.monotonic());
    }
}

const SECTOR: usize = 4096;

fn disk() -> CountingDisk {
    static NUMBER: AtomicU64 = AtomicU64::new(10_000);
    CountingDisk::new(Arc::new(Numbered(NUMBER.fetch_add(1, Ordering::Relaxed))))
}

fn request(disk: &dyn Disk) {
    disk.write(0, &[1; SECTOR], Durability::Durable).unwrap();
}

/// A scrub read as much as the disk gave while a client worked, whose commits took fifteen times as long.
#[test]
fn a_walk_has_a_piece_in_fifty_milliseconds_while_clients_come_and_all_when_they_have_gone() {
    let disk = disk();
    let there = std::sync::atomic::AtomicBool::new(true);
    let clock = Busy::with(|_| {
        if there.load(Ordering::Relaxed) {
            request(&disk);
        }
    });
    let turn = || disk.turns().take(&clock, Share::Fiftieth);
    request(&disk);
    for round in 0..5 {
        assert_eq!((turn(), clock.pauses_ms()), (Turn::Piece, vec![20, 20, 10]), "round {round}");
        // What is left of its millisecond it may use.
        clock.pass(TURN / 2);
        assert_eq!((turn(), clock.pauses_ms()), (Turn::Piece, vec![]), "round {round}");
        clock.pass(TURN);
        request(&disk);
    }
    there.store(false, Ordering::Relaxed);
    assert_eq!((turn(), clock.pauses_ms()), (Turn::Whole, vec![20]));
    for _ in 0..5 {
        assert_eq!((turn(), clock.pauses_ms()), (Turn::Whole, vec![]), "alone it waits for nobody");
    }
    request(&disk);
    assert_eq!((turn(), clock.pauses_ms()), (Turn::Whole, vec![20]), "one who has come and gone");
}

type Request<'a> = (&'a str, &'a dyn Fn(&dyn Disk));

/// Of every kind of request, and on every disk of the device: a log beside the pool is where clients wait.
#[test]
fn whoever_asks_the_device_for_anything_keeps_a_walk_waiting_and_a_walk_does_not() {
    let [pool, log, elsewhere] = [901, 901, 902].map(|number| CountingDisk::new(Arc::new(Numbered(number))));
    let requests: [Request<'_>; 5] = [
        ("read", &|disk| disk.read(0, &mut [0; SECTOR]).unwrap()),
        ("read of parts", &|disk| disk.read_parts(0, &mut [crate::AlignedBuf::zeroed(SECTOR)]).unwrap()),
        ("write", &|disk| disk.write(0, &[1; SECTOR], Durability::Cached).unwrap()),
        ("durable write", &|disk| disk.write(0, &[1; SECTOR], Durability::Durable).unwrap()),
        ("flush", &|disk| disk.flush().unwrap()),
    ];
    for (name, request) in requests {
        for (asked, keeps_waiting) in [(&pool, true), (&log, true), (&elsewhere, false)] {
            let clock = Busy::with(|_| {});
            pool.turns().take(&clock, Share::Fiftieth);
            clock.pauses_ms();
            request(asked);
            assert_eq!(
                (pool.turns().take(&clock, Share::Fiftieth), clock.pauses_ms().len()),
                (Turn::Whole, usize::from(keeps_waiting)),
                "{name}"
            );
            aside(|| request(asked));
            assert_eq!(clock.pauses_ms().len(), 0);
            pool.turns().take(&clock, Share::Fiftieth);
            assert_eq!(clock.pauses_ms(), Vec::<u128>::new(), "{name} of a walk");
        }
    }
}

/// A disk that owes an answer for ever, or a count that is never made good, must not end a scrub.
#[test]
fn a_request_that_hangs_leaves_a_walk_its_pieces() {
    let disk = disk();
    let owed = Asked::now(&disk.devices);
    let clock = Busy::with(|_| {});
    for _ in 0..3 {
        assert_eq!((disk.turns().take(&clock, Share::Fiftieth), clock.pauses_ms()), (Turn::Piece, vec![20, 20, 10]));
        clock.pass(TURN);
    }
    drop(owed);
    assert_eq!((disk.turns().take(&clock, Share::Fiftieth), clock.pauses_ms()), (Turn::Whole, vec![20]));
}

/// A request that had come before the first look and was answered before the second one.
#[test]
fn who_is_answered_within_the_wait_is_waited_for_again() {
    let disk = disk();
    let owed = Mutex::new(Some(Asked::now(&disk.devices)));
    let clock = Busy::with(|_| drop(owed.lock().take()));
    assert_eq!((disk.turns().take(&clock, Share::Fiftieth), clock.pauses_ms()), (Turn::Whole, vec![20, 20]));
}

/// A clock that is moved by nobody else lets a walk go on at once, whoever comes.
#[test]
fn a_clock_that_stands_still_keeps_nobody_waiting_for_ever() {
    struct Still;
    impl Clock for Still {
        fn now(&self) -> Time {
            Time(0)
        }
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }
    for share in [Share::Fiftieth, Share::Quarter] {
        let disk = disk();
        request(&disk);
        assert_eq!(disk.turns().take(&Still, share), Turn::Whole);
        let _owed = Asked::now(&disk.devices);
        assert_eq!(disk.turns().take(&Still, share), Turn::Piece);
    }
}

/// A copy beside clients that never paused had as little of its disks as a scrub has: 20 MB/s, and days without a mirror.
#[test]
fn a_copy_has_a_quarter_of_the_time_while_clients_come_and_all_when_they_have_gone() {
    let disk = disk();
    let there = std::sync::atomic::AtomicBool::new(true);
    let clock = Busy::with(|_| {
        if there.load(Ordering::Relaxed) {
            request(&disk);
        }
    });
    let turn = || disk.turns().take(&clock, Share::Quarter);
    request(&disk);
    clock.pass(100 * TURN);
    assert_eq!((turn(), clock.pauses_ms()), (Turn::Piece, vec![50]), "nothing is known of how long a piece takes");
    // A disk's piece is over in its millisecond, or takes twelve, or hangs.
    for (took_ms, pause_ms) in [(1, 3), (4, 12), (12, 36), (500, 50)] {
        clock.pass(TURN / 2);
        assert_eq!((turn(), clock.pauses_ms()), (Turn::Piece, vec![]), "what is left of its millisecond it may use");
        clock.pass(took_ms * TURN - TURN / 2);
        assert_eq!((turn(), clock.pauses_ms()), (Turn::Piece, vec![pause_ms]), "{took_ms} ms");
    }
    there.store(false, Ordering::Relaxed);
    let mut alone = Duration::ZERO;
    while turn() == Turn::Piece {
        clock.pass(TURN);
        alone += TURN;
    }
    assert_eq!((clock.pauses_ms(), alone), (vec![3, 3, 3, 3, 3, 3], 6 * TURN), "nobody has come for 20 ms");
    for _ in 0..5 {
        assert_eq!((turn(), clock.pauses_ms()), (Turn::Whole, vec![]), "alone it waits for nobody");
    }
}

/// It waits less than clients pause. What it found quiet in one wait is as quiet as they let it be: once they have come again the
/// count of quiet begins anew.
#[test]
fn a_copy_takes_a_pause_of_a_few_milliseconds_for_no_end() {
    let disk = disk();
    let count = AtomicU64::new(0);
    // Every fourth wait.
    let clock = Busy::with(|_| {
        if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
            request(&disk);
        }
    });
    for _ in 0..100 {
        assert_eq!(disk.turns().take(&clock, Share::Quarter), Turn::Piece);
        clock.pass(TURN);
    }
}

/// Of a walk that reads one disk and writes another, clients of either are clients.
#[test]
fn turns_on_several_disks_heed_the_clients_of_each() {
    let (one, other) = (disk(), disk());
    let turns = Turns::on_all([one.turns(), other.turns()]);
    let whose = AtomicU64::new(0);
    let busy = || if whose.load(Ordering::Relaxed) == 0 { &one } else { &other };
    let clock = Busy::with(|_| request(busy()));
    for number in 0..2 {
        whose.store(number, Ordering::Relaxed);
        request(busy());
        assert_eq!((turns.take(&clock, Share::Fiftieth), clock.pauses_ms()), (Turn::Piece, vec![20, 20, 10]));
        clock.pass(2 * TURN);
    }
    assert_eq!((Turn::Piece.of(1 << 20), Turn::Piece.of(4096), Turn::Whole.of(1 << 20)), (256 << 10, 4096, 1 << 20));
}

/// A disk on a device with this number.
struct Numbered(u64);

impl Disk for Numbered {
    fn read(&self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8], _: Durability) -> std::io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: 1 << 20, rotational: false, write_through: true }
    }

    fn devices(&self) -> Vec<u64> {
        vec![self.0]
    }
}
