use proptest::prelude::*;

use super::*;
use crate::mount;

const NFS: u16 = 2049;

fn table() -> Table {
    Table::new(&["0.0.0.0".parse().unwrap(), "::".parse().unwrap()], 111, NFS, (true, &[]))
}

fn way(is_udp: bool, is_near: bool) -> Way {
    Way { is_udp, is_v6: false, at: Some("192.0.2.7".parse().unwrap()), is_near }
}

/// A call with AUTH_NONE.
fn call(program: u32, version: u32, procedure: u32, fill: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut words = Encoder::new();
    words.u32(77).u32(0).u32(2).u32(program).u32(version).u32(procedure).u64(0).u64(0);
    fill(&mut words);
    words.into_vec().into()
}

/// Status and results of an accepted call, without the mark.
fn told(table: &Table, call: Bytes, way: &Way) -> (u32, Vec<u8>) {
    let reply = bytes(&table.answer(call, way).expect("an answer"));
    let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
    assert_eq!([word(4), word(8), word(12)], [77, 1, 0], "an accepted reply to this call");
    (word(24), reply[28..].to_vec())
}

fn port(program: u32, version: u32, protocol: u32) -> u32 {
    let (status, results) = told(
        &table(),
        call(PROGRAM, 2, 3, |words| {
            words.u32(program).u32(version).u32(protocol).u32(0);
        }),
        &way(true, false),
    );
    assert_eq!(status, 0);
    u32::from_be_bytes(results.try_into().unwrap())
}

#[test]
fn ports_are_told() {
    let cases = [
        (v3::PROGRAM, 3, TCP, 2049),
        (v3::PROGRAM, 4, TCP, 2049),
        // Whoever asks for a version that is not there hears of it from the program.
        (v3::PROGRAM, 2, TCP, 2049),
        (v3::PROGRAM, 3, UDP, 0),
        (mount::PROGRAM, 3, TCP, 2049),
        (nlm::PROGRAM, 4, TCP, 2049),
        (PROGRAM, 2, UDP, 111),
        (100_024, 1, TCP, 0),
        (v3::PROGRAM, 3, 99, 0),
    ];
    for (program, version, protocol, expected) in cases {
        assert_eq!(port(program, version, protocol), expected, "{program} {version} {protocol}");
    }
}

#[test]
fn addresses_are_told() {
    let cases: [(&str, &str, &str); 8] = [
        ("tcp", "198.51.100.3.0.111", "198.51.100.3.8.1"),
        ("tcp", "", "192.0.2.7.8.1"),
        ("", "", "192.0.2.7.8.1"),
        ("tcp", "not an address", "192.0.2.7.8.1"),
        ("tcp6", "2001:db8::1.0.111", "2001:db8::1.8.1"),
        ("tcp6", "", "::.8.1"),
        ("udp", "", ""),
        ("ticlts", "", ""),
    ];
    for (transport, known, expected) in cases {
        for version in [3, 4] {
            let asked = call(PROGRAM, version, 3, |words| {
                words.u32(v3::PROGRAM).u32(3);
                words.opaque(transport.as_bytes()).opaque(known.as_bytes()).opaque(b"");
            });
            let (status, results) = told(&table(), asked, &way(false, false));
            let results = Bytes::from(results);
            let address = Decoder::new(&results, 0).opaque(ADDRESS_BYTES_MAX).map(<[u8]>::to_vec);
            assert_eq!((status, address), (0, Ok(expected.as_bytes().to_vec())), "{transport:?} {known:?}");
        }
    }
}

#[test]
fn nobody_is_registered_and_what_is_not_there_is_refused() {
    for version in VERSIONS {
        for procedure in [1, 2] {
            assert_eq!(told(&table(), call(PROGRAM, version, procedure, |_| ()), &way(true, true)), (0, vec![0; 4]));
        }
        assert_eq!(told(&table(), call(PROGRAM, version, 0, |_| ()), &way(true, false)).0, 0);
        assert_eq!(told(&table(), call(PROGRAM, version, 3, |_| ()), &way(true, false)).0, 4, "no arguments");
        // CALLIT and all that is newer.
        for procedure in 5..13 {
            assert_eq!(told(&table(), call(PROGRAM, version, procedure, |_| ()), &way(true, true)).0, 3);
        }
    }
    assert_eq!(told(&table(), call(PROGRAM, 5, 0, |_| ()), &way(true, true)).0, 2);
    assert_eq!(told(&table(), call(100_003, 3, 0, |_| ()), &way(true, true)).0, 1);
}

/// N5: `mount.nfs` of this machine finds no status monitor, and starts one for its kernel; hosts find ours, by what it is heard by.
#[test]
fn the_status_monitor_is_told_to_others_alone() {
    let any = ["0.0.0.0".parse().unwrap()];
    for heard_by in [&[Transport::Tcp, Transport::Udp][..], &[Transport::Tcp]] {
        let table = Table::new(&any, 111, NFS, (true, heard_by));
        for (protocol, transport) in [(TCP, "tcp"), (UDP, "udp")] {
            let port = |is_near| {
                let asked = call(PROGRAM, 2, 3, |words| {
                    words.u32(nsm::PROGRAM).u32(1).u32(protocol).u32(0);
                });
                let (_, results) = told(&table, asked, &way(true, is_near));
                u32::from_be_bytes(results.try_into().unwrap())
            };
            let is_heard = heard_by.iter().any(|it| it.protocol() == protocol);
            assert_eq!([true, false].map(port), [0, if is_heard { NFS.into() } else { 0 }], "{transport}");
            let asked = call(PROGRAM, 4, 3, |words| {
                words.u32(nsm::PROGRAM).u32(1);
                words.opaque(transport.as_bytes()).opaque(b"").opaque(b"");
            });
            assert_eq!(told(&table, asked, &way(true, true)).1, [0; 4]);
        }
    }
}

/// Of a datagram the sender is anybody's word: a long answer to a short question hits whom it names.
#[test]
fn a_list_goes_to_strangers_over_tcp_alone() {
    for version in VERSIONS {
        let dump = || call(PROGRAM, version, 4, |_| ());
        assert_eq!(told(&table(), dump(), &way(true, false)).0, 3);
        for way in [way(true, true), way(false, false)] {
            let (status, results) = told(&table(), dump(), &way);
            assert_eq!(status, 0);
            assert!(results.windows(4).any(|word| word == v3::PROGRAM.to_be_bytes()) && results.ends_with(&[0; 4]));
        }
    }
}

proptest! {
    /// Whatever is sent, and however it is cut: an answer or none, no panic; and over UDP to others no answer that is longer
    /// than the question by more than a header and an address.
    #[test]
    fn any_bytes(
        head in prop::collection::vec(any::<u32>(), 0..4),
        version in 0_u32..6,
        procedure in 0_u32..14,
        rest in prop::collection::vec(any::<u8>(), 0..300),
        as_is in any::<bool>(),
    ) {
        let bytes_sent = if as_is { rest } else {
            let words = head;
            let mut sent = call(PROGRAM, version, procedure, |out| { words.iter().for_each(|word| { out.u32(*word); }); }).to_vec();
            sent.extend(rest);
            sent
        };
        for way in [way(true, false), way(true, true), way(false, false)] {
            let reply = table().answer(bytes_sent.clone().into(), &way);
            if way.is_udp && !way.is_near {
                prop_assert!(reply.is_none_or(|reply| bytes(&reply).len() <= bytes_sent.len() + 64));
            }
        }
    }
}

/// Over sockets: both transports, and a crowd of connections that say nothing.
#[test]
fn it_answers_beside_those_who_say_nothing() {
    // At an address of its own: the ports of TCP at the usual one are kept by connections that other tests have ended.
    let free = UdpSocket::bind("127.0.111.2:0").unwrap().local_addr().unwrap();
    let portmapper = Portmapper::start(&[free.ip()], free.port(), NFS, (true, &[])).unwrap();
    let ask = || {
        call(PROGRAM, 2, 3, |words| {
            words.u32(v3::PROGRAM).u32(3).u32(TCP).u32(0);
        })
    };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for garbage in [&b""[..], b"x", &[1; CALL_BYTES_MAX]] {
        socket.send_to(garbage, free).unwrap();
    }
    socket.send_to(&ask(), free).unwrap();
    let mut answer = [0; 64];
    let count = socket.recv(&mut answer).unwrap();
    assert_eq!((count, &answer[count - 4..count]), (28, &2049_u32.to_be_bytes()[..]));

    let silent: Vec<_> = (0..2 * CONNECTIONS_MAX).map(|_| TcpStream::connect(free).unwrap()).collect();
    let mut stream = TcpStream::connect(free).unwrap();
    let mark = u32::try_from(ask().len()).unwrap() | 1 << 31;
    // In two pieces, and twice.
    for _ in 0..2 {
        stream.write_all(&mark.to_be_bytes()).unwrap();
        stream.write_all(&ask()).unwrap();
        let mut answer = [0; 32];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[28..], 2049_u32.to_be_bytes());
    }
    // A record that is announced and too long ends its connection.
    stream.write_all(&(u32::MAX >> 1).to_be_bytes()).unwrap();
    assert_eq!(stream.read(&mut [0; 4]).unwrap_or(0), 0);
    assert!(Portmapper::start(&[free.ip()], free.port(), NFS, (true, &[])).is_err(), "the port is taken");
    drop((portmapper, silent));
    drop(Portmapper::start(&[free.ip()], free.port(), NFS, (true, &[])).expect("it is free again"));
}
