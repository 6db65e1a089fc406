use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;

#[test]
fn the_call_byte_by_byte() {
    let words: Vec<u32> = request(SET, (100_003, 3, TCP), 2049)
        .chunks(4)
        .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(words, [1, 0, 2, 100_000, 2, 1, 0, 0, 0, 0, 100_003, 3, 6, 2049]);
}

#[test]
fn answers() {
    let answer = |words: &[u32]| Bytes::from(words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>());
    let parse = |answer: &Bytes| Ok(result(answer, 1)?.bool()?);
    assert!(matches!(parse(&answer(&[1, 1, 0, 0, 0, 0, 1])), Ok(true)));
    assert!(matches!(parse(&answer(&[1, 1, 0, 0, 0, 0, 0])), Ok(false)));
    for bad in [&[2, 1, 0, 0, 0, 0, 1][..], &[1, 1, 1, 0, 0, 0, 1], &[1, 1, 0], &[]] {
        assert!(matches!(parse(&answer(bad)), Err(CallError::Malformed)), "{bad:?}");
    }
}

/// Ports by program, version and protocol.
type Mappings = BTreeMap<(u32, u32, u32), u32>;

/// More than any of these tests sends.
const REQUESTS_MAX: usize = 64;

/// An rpcbind that keeps its mappings in memory, and hears everything.
struct Portmapper {
    address: SocketAddr,
    mappings: Arc<Mutex<Mappings>>,
}

impl Portmapper {
    /// Answers `requests` of them, then is gone.
    fn start(requests: usize) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let mappings = Arc::default();
        let portmapper = Self { address, mappings: Arc::clone(&mappings) };
        std::thread::spawn(move || {
            for _ in 0..requests {
                let mut bytes = [0; 128];
                let (count, from) = socket.recv_from(&mut bytes).unwrap();
                let words: Vec<u32> =
                    bytes[..count].chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
                let [xid, 0, 2, 100_000, 2, procedure, 0, 0, 0, 0, program, version, protocol, port] = words[..] else {
                    panic!("no call of PMAP: {words:?}");
                };
                let mut mappings = mappings.lock().unwrap();
                let result = match procedure {
                    GETPORT => mappings.get(&(program, version, protocol)).copied().unwrap_or(0),
                    SET if mappings.contains_key(&(program, version, protocol)) => 0,
                    SET => u32::from(mappings.insert((program, version, protocol), port).is_none()),
                    UNSET => u32::from(mappings.remove(&(program, version, protocol)).is_some()),
                    _ => panic!("procedure {procedure}"),
                };
                let answer: Vec<u8> = [xid, 1, 0, 0, 0, 0, result].iter().flat_map(|word| word.to_be_bytes()).collect();
                socket.send_to(&answer, from).unwrap();
            }
        });
        portmapper
    }

    fn mappings(&self) -> Vec<((u32, u32, u32), u32)> {
        self.mappings.lock().unwrap().iter().map(|(key, port)| (*key, *port)).collect()
    }
}

#[test]
fn all_programs_are_registered_and_taken_back() {
    let portmapper = Portmapper::start(REQUESTS_MAX);
    // What a daemon that was killed has left, which had our port.
    portmapper.mappings.lock().unwrap().extend([((100_021, 4, TCP), 2049), ((100_005, 3, TCP), 2049)]);
    for _ in 0..2 {
        assert_eq!(register(portmapper.address, 2049, &[]).unwrap(), []);
        let expected = [((100_003, 3, TCP), 2049), ((100_005, 3, TCP), 2049), ((100_021, 4, TCP), 2049)];
        assert_eq!(portmapper.mappings(), expected, "NFS, MOUNT, and the lock manager");
        unregister(portmapper.address, 2049, &[]).unwrap();
        assert_eq!(portmapper.mappings(), []);
    }
}

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// One that locks for version 3 is found by the hosts' status monitors, too, unless the machine has its own.
#[test]
fn the_status_monitor_is_registered_where_there_are_locks() {
    let portmapper = Portmapper::start(REQUESTS_MAX);
    assert_eq!(register(portmapper.address, 2049, &BOTH).unwrap(), []);
    let monitor = [((100_024, 1, TCP), 2049), ((100_024, 1, UDP), 2049)];
    assert_eq!(portmapper.mappings()[3..], monitor);
    unregister(portmapper.address, 2049, &BOTH).unwrap();
    assert_eq!(portmapper.mappings(), []);
    // It has no socket for datagrams.
    assert_eq!(register(portmapper.address, 2049, &BOTH[..1]).unwrap(), []);
    assert_eq!(portmapper.mappings()[3..], monitor[..1]);
    unregister(portmapper.address, 2049, &BOTH[..1]).unwrap();
    portmapper.mappings.lock().unwrap().insert((100_024, 1, UDP), 7);
    let others = register(portmapper.address, 2049, &BOTH).unwrap();
    assert_eq!(others, [Other { program: 100_024, port: 7 }]);
    assert!(others[0].what() == "status monitor" && others[0].what_comes_of_it().contains("stays locked"));
    unregister(portmapper.address, 2049, &BOTH).unwrap();
    assert_eq!(portmapper.mappings(), [((100_024, 1, UDP), 7)]);
}

/// The machine mounts NFS itself: its kernel's lock manager answers the servers of those mounts, and is left alone.
#[test]
fn another_lock_manager_is_told_of_and_left_alone() {
    let portmapper = Portmapper::start(REQUESTS_MAX);
    portmapper.mappings.lock().unwrap().insert((100_021, 4, TCP), 7);
    assert_eq!(register(portmapper.address, 2049, &[]).unwrap(), [Other { program: 100_021, port: 7 }]);
    let expected = [((100_003, 3, TCP), 2049), ((100_005, 3, TCP), 2049), ((100_021, 4, TCP), 7)];
    assert_eq!(portmapper.mappings(), expected, "NFS, MOUNT, and what is somebody else's");
    unregister(portmapper.address, 2049, &[]).unwrap();
    assert_eq!(portmapper.mappings(), expected[2..]);
    unregister(portmapper.address, 2049, &[]).unwrap();
}

/// A kernel's NFS server stood in rpcbind's list. Whatever stood there was taken away at our start, and again at our end,
/// and the machine's clients found it no more.
#[test]
fn another_server_keeps_its_place_at_start_and_end_and_after_a_crash() {
    let others = [((100_003, 3, TCP), 20_049), ((100_003, 4, TCP), 20_049), ((100_005, 3, TCP), 20_048)];
    for there in [&others[..1], &others[2..], &others[..]] {
        let portmapper = Portmapper::start(REQUESTS_MAX);
        portmapper.mappings.lock().unwrap().extend(there.iter().copied());
        let error = register(portmapper.address, 2049, &[]).unwrap_err();
        assert!(matches!(error, RpcbindError::Taken { .. }) && error.to_string().contains("rpcinfo -d"), "{error}");
        assert_eq!(portmapper.mappings(), there, "at the start, and nothing of ours beside it");
        unregister(portmapper.address, 2049, &[]).unwrap();
        assert_eq!(portmapper.mappings(), there, "at the end, or at the next start");
    }
}

/// Another server came while ours ran, after somebody took our place away.
#[test]
fn who_came_meanwhile_stays() {
    let portmapper = Portmapper::start(REQUESTS_MAX);
    register(portmapper.address, 2049, &[]).unwrap();
    portmapper.mappings.lock().unwrap().insert((100_003, 3, TCP), 20_049);
    unregister(portmapper.address, 2049, &[]).unwrap();
    assert_eq!(portmapper.mappings(), [((100_003, 3, TCP), 20_049)]);
}

#[test]
fn where_nobody_answers_the_error_says_where_and_what_to_do() {
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let text = register(address, 2049, &[]).unwrap_err().to_string();
    assert!(text.contains(&address.to_string()) && text.contains("name the port"), "{text}");
}
