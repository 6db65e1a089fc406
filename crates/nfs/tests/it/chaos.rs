//! Everything of version 3 at once, by chance: hosts that begin and do not end, that do not read, that hang up in every way there is, while
//! promises break, panics unwind and room comes and goes. Whatever happens between, when all of them are gone nothing is held
//! in anybody's name, and who comes then is served.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::House;
use crate::support::client::{Client, NFS, dir_name, mode, record, words, write_arguments};
use crate::support::gated::Promises;
use socket2::{Domain, SockRef, Socket, Type};
use tally_nfs::serve::ServeOptions;
use tally_nfs::stats::Held;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;

const PATIENCE: Duration = Duration::from_secs(30);

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn marked(record: &[u8]) -> Vec<u8> {
    [&(u32::try_from(record.len()).unwrap() | 1 << 31).to_be_bytes(), record].concat()
}

fn stranger(address: SocketAddr, from: [u8; 4]) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    socket.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    socket.connect(&address.into()).ok()?;
    Some(socket.into())
}

/// One host's connection, from its beginning to its end.
fn live(chance: &mut Chance, stream: &mut TcpStream, file: &[u8], root: &[u8], xid: &mut u32) {
    let call = |xid: &mut u32, chance: &mut Chance, procedure: Procedure, arguments: Encoder| {
        // Some come twice.
        *xid += u32::from(chance.below(4) > 0);
        marked(&record(*xid, (0, &[0]), NFS, procedure.number(), arguments))
    };
    for _ in 0..=chance.below(6) {
        let mut bytes = Vec::new();
        for _ in 0..=chance.below(20) {
            bytes.extend(match chance.below(8) {
                0..=2 => {
                    let read = words(|words| {
                        words.opaque(file).u64(0).u32(200_000);
                    });
                    call(xid, chance, Procedure::Read, read)
                }
                3 => call(xid, chance, Procedure::Write, write_arguments(file, 0, &vec![1; 60_000], 2)),
                4 => {
                    let mut arguments = dir_name(root, xid.to_string().as_bytes());
                    arguments.raw(&mode(0o755).into_vec());
                    call(xid, chance, Procedure::MkDir, arguments)
                }
                5 => call(xid, chance, Procedure::Null, Encoder::new()),
                6 => call(xid, chance, Procedure::Write, Encoder::new()),
                _ => {
                    let getattr = words(|words| {
                        words.opaque(root);
                    });
                    call(xid, chance, Procedure::GetAttr, getattr)
                }
            });
        }
        let cut = chance.below(3) == 0;
        let most = if cut { usize::try_from(chance.below(bytes.len() as u64)).unwrap() } else { bytes.len() };
        if stream.write_all(&bytes[..most]).is_err() {
            return;
        }
        if cut {
            thread::sleep(Duration::from_millis(chance.below(150)));
            if chance.below(2) == 0 {
                return;
            }
            let _ = stream.write_all(&bytes[most..]);
        }
        for _ in 0..chance.below(4) {
            let _ = stream.read(&mut [0; 30_000]);
        }
    }
    match chance.below(4) {
        0 => drop(stream.shutdown(Shutdown::Write)),
        1 => drop(SockRef::from(&*stream).set_linger(Some(Duration::ZERO))),
        2 => drop(stream.write_all(b"\x80\0\0\x08garbage!")),
        _ => {}
    }
}

#[test]
fn when_all_are_gone_nothing_is_held() {
    let seed = std::env::var("TALLY_CHAOS").map_or(1, |seed| seed.parse().unwrap());
    let seconds = std::env::var("TALLY_CHAOS_SECONDS").map_or(4, |seconds| seconds.parse().unwrap());
    let house = House::with(&ServeOptions {
        record_bytes_max: 1 << 20,
        debt_bytes_max: 2 << 20,
        output_bytes_max: 64 << 10,
        requests_per_connection_max: 8,
        connections_max: 12,
        record_silence_max: Duration::from_millis(200),
        record_time_max: Duration::from_millis(600),
        unread_time_max: Duration::from_millis(400),
        ..ServeOptions::default()
    });
    let mut first = house.client();
    let root = first.mount("/tank");
    let file = first.file(&root, b"f");
    assert_eq!(first.write(&file, 0, &vec![7; 256 << 10], 2).0, 0);
    let tank = &house.exports.tank;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for host in 0..5_u8 {
            let (ended, file, root, address) = (&ended, &file, &root, house.address);
            scope.spawn(move || {
                let mut chance = Chance(seed * 1000 + u64::from(host));
                let mut xid = u32::from(host) << 24;
                while !ended.load(SeqCst) {
                    let Some(mut stream) = stranger(address, [127, 0, 5, 1 + host % 3]) else { continue };
                    live(&mut chance, &mut stream, file, root, &mut xid);
                }
            });
        }
        let mut chance = Chance(seed);
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            let kinds = [Promises::Ready, Promises::Driven, Promises::ByHand, Promises::Broken, Promises::Panics];
            *tank.promises.lock() = kinds[usize::try_from(chance.below(5)).unwrap()];
            tank.throttle.store(usize::try_from(chance.below(6)).unwrap(), SeqCst);
            tank.panic_at_getattr.store(chance.below(8) == 0, SeqCst);
            if chance.below(4) == 0 {
                tank.reads.shut()
            } else {
                tank.reads.open()
            }
            thread::sleep(Duration::from_millis(chance.below(40)));
            for _ in 0..chance.below(20) {
                let then = tank.held.lock().pop_front();
                let Some(then) = then else { break };
                match chance.below(3) {
                    0 => drop(then),
                    1 => then(Err(tally_base::Broken("by chance".into()))),
                    _ => then(Ok(tally_base::Kept::default())),
                }
            }
        }
        ended.store(true, SeqCst);
    });
    *tank.promises.lock() = Promises::Ready;
    tank.throttle.store(0, SeqCst);
    tank.panic_at_getattr.store(false, SeqCst);
    tank.reads.open();
    drop(first);
    let started = Instant::now();
    let nothing = Held { work_bytes: 0, debt_bytes: 0 };
    while house.server.stats().connections.load(SeqCst) > 0 || house.server.held() != nothing {
        let held: Vec<_> = tank.held.lock().drain(..).collect();
        held.into_iter().for_each(|then| then(Ok(tally_base::Kept::default())));
        assert!(
            started.elapsed() < PATIENCE,
            "{} connections, {:?}",
            house.server.stats().connections.load(SeqCst),
            house.server.held()
        );
        thread::sleep(Duration::from_millis(5));
    }
    let mut last: Client = house.client();
    for round in 0..20 {
        assert_eq!(last.getattr(&root).0, 0);
        assert_eq!(last.write(&file, round, &vec![7; 200_000], 2).0, 0);
    }
    assert_eq!(house.server.stop(), 0);
}
