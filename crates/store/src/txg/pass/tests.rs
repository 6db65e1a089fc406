//! The slope from the side of those who wait. There is no clock: the disk's writes are the time.

use std::collections::VecDeque;
use std::sync::mpsc;

use tally_base::Broken;

use super::slope::{Brought, SMALL_BYTES_MAX};
use super::*;

const MIB: u64 = 1 << 20;
const RING: RingUse = RingUse::Logged(96 * MIB);
/// A third of the ring; memory has room for more.
const GROUP: u64 = 32 * MIB;

fn txgs() -> Arc<Txgs> {
    Txgs::new(Txg(1), 256 * MIB)
}

fn destination(client: u64, place: u64) -> Destination {
    Destination([0, client, place])
}

/// So much where nothing was.
fn new(bytes: u64) -> Brought {
    Brought { bytes, more_bytes: bytes, takes_ring: true }
}

/// What a WRITE of a mebibyte does, but for the wait.
fn write(txgs: &Arc<Txgs>, destination: Destination) -> Result<Txg, Box<dyn Promise>> {
    match txgs.pass(destination, MIB, RING) {
        Ok(_pass) => {
            let admission = txgs.admit(MIB, MIB).expect("the slope is below the walls");
            let hold = txgs.hold(Some(admission));
            txgs.charge_fold(hold.txg(), 0, 0, new(MIB));
            Ok(hold.txg())
        }
        Err(Wait::On(wait)) => Err(wait),
        Err(Wait::Ready) => panic!("who is refused waits"),
    }
}

/// Clients that write without a pause, each one mebibyte at a time.
struct Clients {
    txgs: Arc<Txgs>,
    /// How far each has come.
    places: Vec<u64>,
    /// Those that are not waiting.
    ready: VecDeque<usize>,
    /// When each began to wait, in writes of the disk.
    since: Vec<u64>,
    woken: mpsc::Receiver<usize>,
    sender: mpsc::Sender<usize>,
    longest: u64,
}

impl Clients {
    fn new(txgs: &Arc<Txgs>, count: usize) -> Self {
        let (sender, woken) = mpsc::channel();
        let (places, since) = (vec![0; count], vec![0; count]);
        Self { txgs: Arc::clone(txgs), places, ready: (0..count).collect(), since, woken, sender, longest: 0 }
    }

    /// All of them go on until all wait. The log takes no time.
    fn go_on(&mut self, now: u64) {
        loop {
            for client in self.woken.try_iter() {
                self.longest = self.longest.max(now - self.since[client]);
                self.ready.push_back(client);
            }
            let Some(client) = self.ready.pop_front() else { return };
            match write(&self.txgs, destination(client as u64, self.places[client])) {
                Ok(_) => {
                    self.places[client] += 1;
                    self.ready.push_back(client);
                    self.since[client] = now;
                }
                Err(wait) => {
                    let sender = self.sender.clone();
                    wait.then(Box::new(move |_| sender.send(client).expect("the client listens")));
                }
            }
        }
    }

    fn written(&self) -> u64 {
        self.places.iter().sum()
    }
}

/// Six clients that bring more than the disk takes. Before there was a slope they were let in at the log's pace until ring
/// or memory was full, and each group was larger than the one before.
#[test]
fn the_pool_takes_what_the_disk_takes_and_nobody_waits_long() {
    const GROUPS: u64 = 20;
    /// Writes of the disk for what is no data: trees, maps, flush, uberblock.
    const BESIDE: u64 = 4;
    let txgs = txgs();
    let mut clients = Clients::new(&txgs, 6);
    let mut now = 0;
    clients.go_on(now);
    for _ in 0..GROUPS {
        let txg = txgs.close();
        let data = txgs.dirty_bytes_of(txg);
        assert!(data > GROUP / 2 && data <= GROUP, "{} MiB in one group", data / MIB);
        let before = clients.written();
        for _ in 0..data / MIB {
            now += 1;
            txgs.wrote(txg, MIB);
            clients.go_on(now);
            let dirty = txgs.dirty_bytes();
            assert!(dirty <= 2 * GROUP, "{} MiB in memory", dirty / MIB);
        }
        now += BESIDE;
        txgs.synced(txg, 0);
        clients.go_on(now);
        assert_eq!((clients.written() - before) * MIB, data, "as much as was written");
    }
    // Its own turn behind the others, and what the disk did beside.
    assert!(clients.longest <= 6 + BESIDE + 1, "{} writes of the disk", clients.longest);
    let few = clients.places.iter().min().unwrap() + 2;
    assert!(clients.places.iter().all(|place| *place <= few), "each has its share: {:?}", clients.places);
}

/// Bulk that is to be stable keeps the ring at 7/8 of a third, above all that a small UNSTABLE request may have (15/16 of a
/// fourth): its turn never comes, nor that of the promises behind it.
#[test]
fn a_small_request_has_its_turn_beside_bulk_of_another_kind() {
    const SMALL: u64 = 64 << 10;
    let RingUse::Logged(ring) = RING else { unreachable!() };
    let txgs = txgs();
    let mut clients = Clients::new(&txgs, 6);
    clients.go_on(0);
    let unstable = txgs.pass(destination(100, 0), 4096, RingUse::Unstable(ring)).err();
    // Small promises take what bulk leaves them; one has to wait.
    let promise = (0..100).find_map(|place| match txgs.pass(destination(101, place), SMALL, RING) {
        Ok(_pass) => {
            let hold = txgs.hold(None);
            txgs.charge_fold(hold.txg(), 0, 0, new(SMALL));
            None
        }
        Err(wait) => Some(wait),
    });
    let is_over = |wait: &Option<Wait>| match wait {
        Some(Wait::On(wait)) => wait.poll().is_some(),
        Some(Wait::Ready) | None => true,
    };
    let mut now = 0;
    for group in 0..50 {
        let txg = txgs.close();
        for _ in 0..txgs.dirty_bytes_of(txg) / MIB {
            now += 1;
            txgs.wrote(txg, MIB);
            clients.go_on(now);
        }
        txgs.synced(txg, 0);
        clients.go_on(now);
        if [&unstable, &promise].iter().all(|wait| is_over(wait)) {
            println!("after {group} groups");
            return;
        }
    }
    panic!("after 50 groups: {} (unstable), {} (promise)", is_over(&unstable), is_over(&promise));
}

/// A WRITE to a placed file waits for memory alone. Once its group is synced the file is none any more, and the same WRITE
/// wants a place in the ring, which nobody has kept for it.
#[test]
fn room_that_was_kept_in_memory_is_none_in_the_ring() {
    let RingUse::Logged(ring) = RING else { unreachable!() };
    let txgs = txgs();
    let bring = |place, ring| {
        let _pass = txgs.pass(destination(0, place), MIB, ring).ok()?;
        let hold = txgs.hold(None);
        txgs.charge_fold(hold.txg(), 0, 0, Brought { takes_ring: ring != RingUse::None, ..new(MIB) });
        Some(())
    };
    while txgs.ahead_bytes() < 84 * MIB {
        bring(txgs.ahead_bytes(), RingUse::None).expect("there is room in memory");
    }
    let older = txgs.close();
    while txgs.ahead_bytes() < 112 * MIB {
        bring(txgs.ahead_bytes(), RING).expect("there is room in the ring");
    }
    let waits: Vec<_> = (1..=40).map(|place| txgs.pass(destination(1, place), MIB, RingUse::None).err()).collect();
    assert!(waits.iter().all(Option::is_some), "memory is full");
    txgs.synced(older, 0);
    let let_in =
        (1..=40).filter(|place| txgs.pass(destination(1, *place), MIB, RingUse::Unstable(ring)).is_ok()).count();
    assert_eq!(let_in, 0, "the ring is as full as before");
}

#[test]
fn who_is_refused_asks_for_a_group() {
    let txgs = txgs();
    let mut waits = Vec::new();
    for place in 0..40 {
        waits.extend(write(&txgs, destination(0, place)).err());
    }
    assert_eq!(waits.len(), 40 - 28);
    assert!(waits.iter().all(|wait| wait.poll().is_none()));
    assert_eq!(txgs.wait_for_work(std::time::Duration::from_secs(3600)), super::super::Next::Sync);
    let closed = txgs.close();
    txgs.synced(closed, 0);
    assert!(waits.iter().all(|wait| wait.poll() == Some(Ok(Kept::default()))));
    assert_eq!(txgs.ahead_bytes(), 12 * MIB, "room is kept for all of them");
    drop(waits);
    assert_eq!(txgs.ahead_bytes(), 0, "nobody will come");
}

#[test]
fn a_pass_that_leaves_nothing_in_memory_lets_the_next_one_in() {
    let txgs = txgs();
    let passes: Vec<_> = (0..28).map(|place| txgs.pass(destination(0, place), MIB, RING).ok().flatten()).collect();
    assert!(passes.iter().all(Option::is_some));
    let Err(wait) = write(&txgs, destination(1, 0)) else { panic!("no room is left") };
    let (sender, told) = mpsc::channel();
    wait.then(Box::new(move |fate| drop(sender.send(fate))));
    assert!(told.try_recv().is_err());
    drop(passes);
    assert_eq!(told.try_recv(), Ok(Ok(Kept::default())));
    assert!(write(&txgs, destination(1, 0)).is_ok());
}

#[test]
fn a_failure_wakes_all_and_whoever_comes_then_is_not_kept_waiting() {
    let txgs = txgs();
    let mut waits: VecDeque<_> = (0..30).filter_map(|place| write(&txgs, destination(0, place)).err()).collect();
    assert_eq!(waits.len(), 2);
    let (sender, told) = mpsc::channel();
    waits.pop_front().unwrap().then(Box::new(move |fate| drop(sender.send(fate))));
    txgs.fail(Broken("the disk is gone".into()));
    assert!(told.try_recv().unwrap().is_err());
    assert!(waits[0].poll().unwrap().is_err());
    assert!(txgs.pass(destination(7, 7), MIB, RING).is_ok_and(|pass| pass.is_none()), "others refuse it");
}

#[test]
fn after_the_stop_nobody_waits_here() {
    let txgs = txgs();
    let waits: Vec<_> = (0..29).filter_map(|place| write(&txgs, destination(0, place)).err()).collect();
    assert_eq!(waits.len(), 1);
    txgs.stop();
    assert!(txgs.pass(destination(0, 29), MIB, RING).is_ok());
    // The last groups are synced on, and so it is woken.
    let closed = txgs.close();
    txgs.synced(closed, 0);
    assert!(waits[0].poll().is_some());
}

/// Groups, as long as anybody wants one.
fn sync_what_is_wanted(txgs: &Arc<Txgs>) {
    sync_wanted(txgs, 10);
}

/// The same, where so many may be.
fn sync_wanted(txgs: &Arc<Txgs>, most: u64) {
    for _ in 0..most {
        let is_wanted = {
            let state = txgs.state.lock();
            state.wanted > state.synced
        };
        if !is_wanted {
            return;
        }
        let closed = txgs.close();
        txgs.synced(closed, 0);
    }
    panic!("groups are wanted for ever");
}

/// The fold goes on while one who was woken is on his way: when he comes there may be room for him and for what is kept.
#[test]
fn a_small_request_that_was_woken_takes_the_room_that_is_kept_for_it() {
    let txgs = txgs();
    let write = |place| match txgs.pass(destination(0, place), SMALL_BYTES_MAX, RING) {
        Ok(_pass) => {
            let hold = txgs.hold(None);
            txgs.charge_fold(hold.txg(), 0, 0, new(SMALL_BYTES_MAX));
            None
        }
        Err(wait) => Some(wait),
    };
    let most = GROUP / 16 * 15 / SMALL_BYTES_MAX;
    assert!((0..most).all(|place| write(place).is_none()));
    let waits: Vec<_> = (most..most + 20).filter_map(write).collect();
    assert_eq!(waits.len(), 20);
    for wait in waits {
        let Wait::On(wait) = wait else { panic!("who is refused waits") };
        wait.then(Box::new(|_| ()));
    }
    sync_what_is_wanted(&txgs);
    assert_eq!(txgs.ahead_bytes(), 20 * SMALL_BYTES_MAX, "room is kept for all of them");
    assert!((most..most + 20).all(|place| write(place).is_none()));
    assert_eq!(txgs.ahead_bytes(), 20 * SMALL_BYTES_MAX, "they have come, and no room is kept any more");
}

/// Who is woken may not come to ask for his room: his file is gone, or he may no longer write it.
#[test]
fn who_waits_behind_room_that_nobody_comes_for_is_woken_though_nothing_else_happens() {
    let txgs = txgs();
    let mut waits: VecDeque<_> = (0..28 + 60).filter_map(|place| write(&txgs, destination(0, place)).err()).collect();
    assert_eq!(waits.len(), 60);
    let (sender, told) = mpsc::channel();
    for wait in waits.drain(..) {
        let sender = sender.clone();
        wait.then(Box::new(move |fate| drop(sender.send(fate))));
    }
    sync_what_is_wanted(&txgs);
    assert_eq!(told.try_iter().count(), 60);
    assert_eq!(txgs.state.lock().slope.waiting(), 0);
}

/// The group that he asked for had nothing yet of what he waits for.
#[test]
fn who_waits_for_data_that_comes_into_a_later_group_asks_for_that_one() {
    let txgs = txgs();
    let passes: Vec<_> = (0..28).map(|place| txgs.pass(destination(0, place), MIB, RING).ok().flatten()).collect();
    let Err(wait) = write(&txgs, destination(1, 0)) else { panic!("no room is left") };
    sync_what_is_wanted(&txgs);
    assert!(wait.poll().is_none(), "they are still under way");
    for pass in passes {
        let hold = txgs.hold(Some(txgs.admit(MIB, MIB).expect("the slope is below the walls")));
        txgs.charge_fold(hold.txg(), 0, 0, new(MIB));
        drop(pass);
    }
    sync_what_is_wanted(&txgs);
    assert!(wait.poll().is_some(), "its group is durable");
}

/// Requests of all sizes over rings of all sizes, some under way while groups end, some hung up while they wait, some when
/// they are woken. Whatever their order: once no more come, all that wait are woken, and nothing is ahead for ever.
#[test]
fn whatever_comes_all_that_wait_come_to_their_end() {
    for seed in 1..=300_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let txgs = Txgs::new(Txg(1), [64 << 10, 4 * MIB, 64 * MIB][(seed % 3) as usize]);
        let (sender, told) = mpsc::channel();
        let mut under_way = Vec::new();
        let mut waits: Vec<Box<dyn Promise>> = Vec::new();
        let (mut listening, mut back) = (0, Vec::new());
        for _ in 0..400 {
            match draw(10) {
                0..5 => {
                    let fresh = (draw(50), [1, 4096, 64 << 10, (64 << 10) + 1, MIB][draw(5) as usize], draw(3));
                    let (place, bytes, ring) = back.pop().unwrap_or(fresh);
                    match txgs.pass(
                        destination(0, place),
                        bytes,
                        [RingUse::Unstable(256 << 10), RingUse::Logged(8 * MIB), RingUse::None][ring as usize],
                    ) {
                        Ok(pass) => under_way.push((pass, bytes)),
                        Err(Wait::On(wait)) if draw(4) == 0 => waits.push(wait),
                        Err(Wait::On(wait)) => {
                            let sender = sender.clone();
                            wait.then(Box::new(move |_| sender.send((place, bytes, ring)).expect("somebody listens")));
                            listening += 1;
                        }
                        Err(Wait::Ready) => panic!("who is refused waits"),
                    }
                }
                5..8 if !under_way.is_empty() => {
                    let (pass, bytes) = under_way.swap_remove(draw(under_way.len() as u64) as usize);
                    let hold = txgs.hold(None);
                    let more_bytes = [0, bytes / 2, bytes][draw(3) as usize];
                    txgs.charge_fold(hold.txg(), 0, 0, Brought { bytes, more_bytes, takes_ring: draw(2) == 0 });
                    drop((pass, hold));
                }
                8 if !waits.is_empty() => drop(waits.swap_remove(draw(waits.len() as u64) as usize)),
                8 => {
                    let closed = txgs.close();
                    (0..draw(20)).for_each(|_| txgs.wrote(closed, MIB));
                    txgs.synced(closed, 0);
                }
                // Some of those who are woken come again.
                _ => {
                    let woken: Vec<_> = told.try_iter().collect();
                    listening -= woken.len();
                    back.extend(woken.into_iter().filter(|_| draw(2) == 0));
                }
            }
        }
        drop((under_way, waits));
        // Each of those who have gone may have had the room alone.
        sync_wanted(&txgs, 3 * listening as u64 + 3);
        assert_eq!(told.try_iter().count(), listening, "seed {seed}: somebody waits for ever");
        (0..3).for_each(|_| {
            let closed = txgs.close();
            txgs.synced(closed, 0);
        });
        assert_eq!((txgs.ahead_waiting(), txgs.ahead_bytes()), (0, 0), "seed {seed}");
    }
}
