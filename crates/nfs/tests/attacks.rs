//! Hosts that nobody trusts, in small: they do not read, never finish what they began, come in masses, or hang up. Each
//! test keeps one good client beside them, who must be served as if they were not there. `cargo xtask attacks` does the
//! same to the real binary, with thousands of connections, and measures.
//!
//! The tests run one after the other, and in a program of their own: some look at the memory of the whole process, and some at which of two
//! connections the server has heard of first. Beside all the others one of them failed, whose server had not read yet what was sent.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[path = "it/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "it is the other program's too")]
mod support;

use crate::support::House;
use crate::support::client::{Client, NFS, dir_name, mode, words, write_arguments};
use crate::support::gated::Promises;
use parking_lot::{Mutex, MutexGuard};
use socket2::{Domain, Socket, Type};
use tally_nfs::serve::ServeOptions;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;

const PATIENCE: Duration = Duration::from_secs(10);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock()
}

/// A connection from another address of this machine, with little room for replies.
fn stranger(house: &House, address: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    // Whoever is not read at all would write for ever.
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&house.address.into()).unwrap();
    socket.into()
}

fn marked(record: &[u8]) -> Vec<u8> {
    [&(u32::try_from(record.len()).unwrap() | 1 << 31).to_be_bytes(), record].concat()
}

/// A WRITE of a mebibyte, which takes its time to come.
fn long_write(good: &Client, file: &[u8]) -> Vec<u8> {
    let arguments = write_arguments(file, 0, &vec![7; 1 << 20], 2);
    marked(&good.record(9, NFS, Procedure::Write.number(), arguments))
}

/// So many bytes of a record of a mebibyte.
fn half_a_record(bytes: usize) -> Vec<u8> {
    [&(1_u32 << 31 | 1 << 20).to_be_bytes()[..], &vec![0; bytes]].concat()
}

/// Sends until the other side takes nothing more for a while; gives how many bytes it took.
fn send_until_refused(stream: &mut TcpStream, bytes: &[u8], most: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut sent = 0;
    while sent < most {
        let at = sent % bytes.len();
        match stream.write(&bytes[at..]) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(_) => break,
        }
    }
    sent
}

/// What a good client does, each of it once.
fn works(client: &mut Client, root: &[u8], name: &str) {
    assert_eq!(client.getattr(root).0, 0);
    let file = client.file(root, name.as_bytes());
    assert_eq!(client.write(&file, 0, &vec![7; 1 << 20], 2).0, 0);
}

fn is_served(house: &House, root: &[u8], name: &str) {
    let mut client = house.client();
    works(&mut client, root, name);
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Strangers from four addresses, each with a WRITE that waits for room in the pool, and behind it so many READs whose
/// replies it does not take that its socket is full. Then the WRITEs may go on, and wait for the sockets instead.
fn crowd_of_debtors(house: &House, good: &mut Client, file: &[u8], root: &[u8]) -> Vec<TcpStream> {
    const COUNT: usize = 30;
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    tank.throttle.store(COUNT, SeqCst);
    let write = write_arguments(file, 0, &vec![8; 200_000], 0);
    let write = marked(&good.record(1, NFS, Procedure::Write.number(), write));
    let read = words(|words| {
        words.opaque(file).u64(0).u32(256 << 10);
    });
    let reads = marked(&good.record(2, NFS, Procedure::Read.number(), read)).repeat(60);
    let mut strangers: Vec<TcpStream> =
        (2..6).cycle().take(COUNT).map(|number| stranger(house, [127, 0, 0, number])).collect();
    strangers.iter_mut().for_each(|stream| stream.write_all(&write).unwrap());
    tank.until_held(COUNT);
    strangers.iter_mut().for_each(|stream| stream.write_all(&reads).unwrap());
    *tank.promises.lock() = Promises::Ready;
    // Long enough for the server to have come as far as it can.
    (0..2000).for_each(|_| assert_eq!(good.getattr(root).0, 0));
    (0..COUNT).for_each(|_| tank.keep_one());
    strangers
}

/// Clients that ask for megabytes, take nothing, and send WRITEs besides. The WRITEs waited for their connections'
/// sockets, and their bytes counted in the bound at which the server reads from nobody: some forty connections stopped
/// it for everybody, as long as they stayed.
#[test]
fn who_does_not_read_stops_nobody_else() {
    let _alone = alone();
    let house =
        House::with(&ServeOptions { record_bytes_max: 8 << 20, output_bytes_max: 64 << 10, ..Default::default() });
    let mut good = house.client();
    let root = good.mount("/tank");
    let file = good.file(&root, b"f");
    assert_eq!(good.write(&file, 0, &vec![7; 256 << 10], 2).0, 0);
    let first = crowd_of_debtors(&house, &mut good, &file, &root);
    let second = crowd_of_debtors(&house, &mut good, &file, &root);
    works(&mut good, &root, "old");
    is_served(&house, &root, "new");
    drop((first, second));
    assert_eq!(house.server.stop(), 0);
}

/// NULL calls whose replies nobody reads. Twenty-eight bytes of each were counted, and six hundred were held.
#[test]
fn small_replies_count_with_all_that_they_hold() {
    let _alone = alone();
    let house = House::new();
    let mut good = house.client();
    let root = good.mount("/tank");
    let calls = marked(&good.record(1, NFS, 0, Encoder::new())).repeat(4096);
    let before = resident_bytes();
    let strangers: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = stranger(&house, [127, 0, 0, 2]);
            send_until_refused(&mut stream, &calls, 256 << 20);
            stream
        })
        .collect();
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes for four connections of 4 MiB each");
    works(&mut good, &root, "f");
    drop(strangers);
}

/// Records that are begun and never ended. At the bound whoever passed it was closed, so that it was always the honest
/// WRITE that went, and never those who stayed.
#[test]
fn half_a_record_takes_nobody_elses_place() {
    let _alone = alone();
    let house = House::with(&ServeOptions { debt_bytes_max: 4 << 20, ..Default::default() });
    let mut good = house.client();
    let root = good.mount("/tank");
    let half = half_a_record(300_000);
    let strangers: Vec<TcpStream> = (0..60)
        .map(|number| {
            let mut stream = stranger(&house, [127, 0, 0, if number % 2 == 0 { 1 } else { 2 }]);
            let _ = stream.write_all(&half);
            stream
        })
        .collect();
    // Until the server has read what has come. On a busy machine it had not when the good client, from the address of half of
    // them, was in the middle of a WRITE: their records were begun after his, and his was the oldest. Who comes later has the next test.
    (0..2000).for_each(|_| assert_eq!(good.getattr(&root).0, 0));
    for round in 0..5 {
        works(&mut good, &root, &format!("old-{round}"));
        is_served(&house, &root, &format!("new-{round}"));
    }
    drop(strangers);
}

/// They come anew with each moment, from the good client's own address, while his WRITE is on its way. It had begun before
/// any of them, and went as the oldest; seen of the real binary, once in some hours of attacks.
#[test]
fn a_record_that_comes_is_younger_than_half_a_record_begun_after_it() {
    const PIECES: usize = 16;
    let _alone = alone();
    let house = House::with(&ServeOptions { debt_bytes_max: 8 << 20, ..Default::default() });
    let mut good = house.client();
    let root = good.mount("/tank");
    let file = good.file(&root, b"f");
    let write = long_write(&good, &file);
    let half = half_a_record(900_000);
    let mut honest = TcpStream::connect(house.address).unwrap();
    honest.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut strangers = Vec::new();
    for piece in write.chunks(write.len() / PIECES) {
        honest.write_all(piece).expect("it is not hung up on");
        // The server has received it before the others come: a millisecond is as fine as ages are.
        (0..100).for_each(|_| assert_eq!(good.getattr(&root).0, 0));
        std::thread::sleep(Duration::from_millis(2));
        let mut stream = stranger(&house, [127, 0, 0, 1]);
        let _ = stream.write_all(&half);
        strangers.push(stream);
    }
    let mut head = [0; 8];
    honest.read_exact(&mut head).expect("the WRITE is answered");
    assert!(house.server.stats().connections_dismissed.load(SeqCst) > 4, "others went");
    drop(strangers);
}

/// They bring most of a record at once and then a byte whenever others may come. What had come excused their age for
/// seconds, so that with a byte each they were younger than a WRITE on its way.
#[test]
fn a_byte_now_and_then_makes_no_record_young() {
    let _alone = alone();
    let house = House::with(&ServeOptions { debt_bytes_max: 8 << 20, ..Default::default() });
    let mut good = house.client();
    let root = good.mount("/tank");
    let file = good.file(&root, b"f");
    let write = long_write(&good, &file);
    let half = half_a_record(900_000);
    let mut strangers: Vec<TcpStream> = (0..3).map(|_| stranger(&house, [127, 0, 0, 1])).collect();
    strangers.iter_mut().for_each(|stream| stream.write_all(&half).unwrap());
    // A millisecond is as fine as ages are.
    let mut is_received = || {
        (0..100).for_each(|_| assert_eq!(good.getattr(&root).0, 0));
        std::thread::sleep(Duration::from_millis(2));
    };
    is_received();
    let mut honest = TcpStream::connect(house.address).unwrap();
    honest.set_read_timeout(Some(PATIENCE)).unwrap();
    let (begin, rest) = write.split_at(200_000);
    honest.write_all(begin).unwrap();
    is_received();
    strangers.iter_mut().for_each(|stream| stream.write_all(&[0]).unwrap());
    is_received();
    let mut last = stranger(&house, [127, 0, 0, 1]);
    let _ = last.write_all(&half);
    is_received();
    honest.write_all(rest).expect("it is not hung up on");
    let mut head = [0; 8];
    honest.read_exact(&mut head).expect("the WRITE is answered");
    assert!(house.server.stats().connections_dismissed.load(SeqCst) > 0, "others went");
    drop((strangers, last));
}

/// Halves of records behind requests that take long, so that the server does not read on. That was nobody's fault for ever,
/// and whoever was read went before them.
#[test]
fn who_has_himself_paused_is_not_spared_for_ever() {
    const COUNT: usize = 260;
    // Little enough to arrive with the request before it, or it would not be read any more.
    const BYTES: usize = 15_000;
    let _alone = alone();
    let options = ServeOptions { debt_bytes_max: 8 << 20, requests_per_connection_max: 1, ..Default::default() };
    let house = House::with(&options);
    let mut good = house.client();
    let root = good.mount("/tank");
    let file = good.file(&root, b"f");
    let write = long_write(&good, &file);
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    let half = half_a_record(BYTES);
    let strangers: Vec<TcpStream> = (0..COUNT)
        .map(|number| {
            let mut arguments = dir_name(&root, format!("d-{number}").as_bytes());
            arguments.raw(&mode(0o755).into_vec());
            let mkdir = marked(&good.record(1, NFS, Procedure::MkDir.number(), arguments));
            let mut stream = stranger(&house, [127, 0, 0, 1]);
            stream.write_all(&[&mkdir[..], &half].concat()).unwrap();
            stream
        })
        .collect();
    tank.until_held(COUNT);
    *tank.promises.lock() = Promises::Ready;
    assert!(house.server.held().debt_bytes >= COUNT * BYTES, "all of it is read");
    // An honest pause is shorter.
    std::thread::sleep(Duration::from_millis(1500));
    let mut honest = TcpStream::connect(house.address).unwrap();
    honest.set_read_timeout(Some(PATIENCE)).unwrap();
    let (begin, rest) = write.split_at(60_000);
    honest.write_all(begin).unwrap();
    (0..100).for_each(|_| assert_eq!(good.getattr(&root).0, 0));
    std::thread::sleep(Duration::from_millis(2));
    let mut last = stranger(&house, [127, 0, 0, 1]);
    let _ = last.write_all(&[&half[..], &vec![0; 885_000]].concat());
    (0..100).for_each(|_| assert_eq!(good.getattr(&root).0, 0));
    honest.write_all(rest).expect("it is not hung up on");
    let mut head = [0; 8];
    honest.read_exact(&mut head).expect("the WRITE is answered");
    assert!(house.server.stats().connections_dismissed.load(SeqCst) > 0, "others went");
    drop((strangers, last));
}

/// The same from a hundred addresses, as a user of this machine has them, or a host with some networks of IPv6: each holds
/// less than an honest WRITE does. The honest one was of the address with most, and went each time.
#[test]
fn many_addresses_with_little_each_take_nobody_elses_place() {
    let _alone = alone();
    let house = House::with(&ServeOptions { debt_bytes_max: 16 << 20, ..Default::default() });
    let mut good = house.client();
    let root = good.mount("/tank");
    let half = [&(1_u32 << 31 | 400_000).to_be_bytes()[..], &vec![0; 300_000]].concat();
    let strangers: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = stranger(&house, [127, 0, 3, number]);
            let _ = stream.write_all(&half);
            stream
        })
        .collect();
    for round in 0..5 {
        works(&mut good, &root, &format!("old-{round}"));
        is_served(&house, &root, &format!("new-{round}"));
    }
    drop(strangers);
}

/// Connections that are opened and never used. They took all places there are.
#[test]
fn idle_connections_give_way() {
    let _alone = alone();
    let house = House::with(&ServeOptions { connections_max: 64, ..Default::default() });
    let mut good = house.client();
    let root = good.mount("/tank");
    let strangers: Vec<TcpStream> = (0..200).map(|number| stranger(&house, [127, 0, 1, number % 4])).collect();
    works(&mut good, &root, "from another address");
    // More from its own, and all of them came after its last request.
    let neighbours: Vec<TcpStream> = (0..200).map(|_| stranger(&house, [127, 0, 0, 1])).collect();
    works(&mut good, &root, "who has asked nothing goes first");
    for round in 0..5 {
        is_served(&house, &root, &format!("new-{round}"));
        works(&mut good, &root, &format!("old-{round}"));
    }
    assert!(house.server.stats().connections.load(SeqCst) <= 64);
    drop((strangers, neighbours));
}

/// Requests that waited for room when their connection ended. They were carried out for nobody, reads as well.
#[test]
fn nothing_is_done_for_who_has_hung_up() {
    const REQUESTS: usize = 50;
    let _alone = alone();
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    tank.throttle.store(REQUESTS, SeqCst);
    for number in 0..REQUESTS {
        let xid = client.xid();
        let mut arguments = dir_name(&root, format!("d-{number}").as_bytes());
        arguments.raw(&mode(0o755).into_vec());
        client.send(xid, NFS, Procedure::MkDir.number(), arguments);
    }
    tank.until_held(REQUESTS);
    let before = tank.changes.load(SeqCst);
    drop(client);
    while house.server.stats().connections.load(SeqCst) > 0 {
        std::thread::yield_now();
    }
    *tank.promises.lock() = Promises::Ready;
    (0..REQUESTS).for_each(|_| tank.keep_one());
    // Stopping waits until the house is empty.
    let exports = house.exports.clone();
    assert_eq!(house.server.stop(), 0);
    assert_eq!(exports.tank.changes.load(SeqCst), before);
}

/// A record that is begun and not gone on with, and one of which a byte comes now and then: neither was ever ended.
#[test]
fn what_is_begun_has_to_go_on() {
    let _alone = alone();
    let options = ServeOptions {
        record_silence_max: Duration::from_millis(400),
        record_time_max: Duration::from_millis(1200),
        ..Default::default()
    };
    let house = House::with(&options);
    let mut good = house.client();
    let root = good.mount("/tank");
    let mut silent = stranger(&house, [127, 0, 0, 2]);
    silent.write_all(&[0x80, 0, 1]).unwrap();
    let mut slow = stranger(&house, [127, 0, 0, 2]);
    slow.write_all(&[0x80, 0, 1, 0]).unwrap();
    while slow.write_all(&[0]).is_ok() {
        assert_eq!(good.getattr(&root).0, 0, "who sends whole requests stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(silent.read(&mut [0]).map_or(true, |count| count == 0), "it is closed");
    assert_eq!(house.server.stats().connections_dismissed.load(SeqCst), 2);
}

/// Clients that vanish while they read: nothing ended their connections before TCP gave up, after a quarter of an hour.
#[test]
fn replies_have_to_be_taken() {
    let _alone = alone();
    let house = House::with(&ServeOptions { unread_time_max: Duration::from_millis(400), ..Default::default() });
    let mut good = house.client();
    let root = good.mount("/tank");
    let calls = marked(&good.record(1, NFS, 0, Encoder::new())).repeat(4096);
    let mut gone = stranger(&house, [127, 0, 0, 2]);
    send_until_refused(&mut gone, &calls, 256 << 20);
    while house.server.stats().connections.load(SeqCst) > 1 {
        assert_eq!(good.getattr(&root).0, 0);
    }
    assert_eq!(house.server.held().debt_bytes, 0);
}

/// A line of the log for each hostile connection: two megabytes a second.
#[test]
fn strangers_write_no_log() {
    let _alone = alone();
    tracing::subscriber::set_global_default(Warnings).unwrap();
    let house = House::new();
    let mut good = house.client();
    let root = good.mount("/tank");
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 2]].repeat(100) {
        let mut stream = stranger(&house, [127, 0, 0, 2]);
        stream.write_all(bytes).unwrap();
        assert!(stream.read(&mut [0]).map_or(true, |count| count == 0), "it is closed");
    }
    works(&mut good, &root, "f");
    assert_eq!(WARNED.load(SeqCst), 2, "one line of each kind");
}

static WARNED: AtomicUsize = AtomicUsize::new(0);

/// Counts what is at least a warning.
struct Warnings;

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        WARNED.fetch_add(1, SeqCst);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Announcing costs the peer four bytes, and us nothing: a thousand connections that announce 2 GiB, and a
/// thousand that announce as much as is allowed and send a little of it.
#[test]
fn announcements_cost_no_memory() {
    let _alone = alone();
    let house = House::new();
    let before = resident_bytes();
    let announce = |mark: u32, bytes: &[u8]| -> Vec<TcpStream> {
        (0..1000)
            .map(|_| {
                let mut stream = TcpStream::connect(house.address).unwrap();
                stream.write_all(&[&mark.to_be_bytes(), bytes].concat()).unwrap();
                stream
            })
            .collect()
    };
    let refused = announce(0x7fff_ffff, &[0; 100]);
    for mut stream in refused {
        // Closed, or reset because our bytes came after that.
        assert!(stream.read(&mut [0; 1]).map_or(true, |count| count == 0));
    }
    let partial = announce(0x8010_0000, &[0; 1000]);
    let mut client = house.client();
    let root = client.mount("/tank");
    assert_eq!(client.getattr(&root).0, 0, "others are served");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    drop(partial);
}

/// A client that asks and never reads holds a bounded amount of replies, and gets all of them when it does.
#[test]
fn a_slow_reader_is_bounded_and_gets_everything() {
    const REQUESTS: usize = 400;
    const BYTES: usize = 256 << 10;
    let _alone = alone();
    let options = ServeOptions { output_bytes_max: 1 << 20, workers_max: 4, ..ServeOptions::default() };
    let house = House::with(&options);
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    assert_eq!(client.write(&file, 0, &vec![7; BYTES], 2).0, 0);
    let before = resident_bytes();
    let mut writer = house.client();
    std::mem::swap(&mut writer, &mut client);
    let mut reader = writer.twin();
    let xids: Vec<u32> = (0..REQUESTS).map(|_| writer.xid()).collect();
    let expected = xids.clone();
    let file = file.clone();
    let sender = std::thread::spawn(move || {
        for xid in xids {
            let read = words(|words| {
                words.opaque(&file).u64(0).u32(u32::try_from(BYTES).unwrap());
            });
            writer.send(xid, NFS, Procedure::Read.number(), read);
        }
    });
    // Until the server stalls: everything it takes on for now is done, another client is still served.
    for _ in 0..200 {
        assert_eq!(client.getattr(&root).0, 0);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes for a client that reads nothing; 100 MiB were asked for");
    let mut answered: Vec<u32> = (0..REQUESTS)
        .map(|_| {
            let (xid, answer) = reader.receive_answer();
            assert_eq!(answer.status, 0);
            xid
        })
        .collect();
    sender.join().unwrap();
    answered.sort_unstable();
    let mut expected = expected;
    expected.sort_unstable();
    assert!(answered == expected, "each request has one reply");
}
