use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use super::*;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 7));
const US: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A portmapper of the host that has such a port for one who asks, and where it is.
fn portmapper(port: u16) -> u16 {
    let socket = UdpSocket::bind((HOST, 0)).unwrap();
    let at = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut call = [0; 256];
        let (count, asker) = socket.recv_from(&mut call).unwrap();
        assert_eq!(count, 56, "GETPORT");
        let answer = [&call[..4], &words(&[1, 0, 0, 0, 0, port.into()])].concat();
        socket.send_to(&answer, asker).unwrap();
    });
    at
}

/// A lock manager there, which says this to a call behind its xid, or nothing, and hangs up; and who has called it.
fn lock_manager(says: Option<&'static [u32]>) -> (u16, thread::JoinHandle<IpAddr>) {
    let listener = TcpListener::bind((HOST, 0)).unwrap();
    let at = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        // A mark, a header without credentials, and four bytes of arguments.
        let mut call = [0; 4 + 40 + 4];
        stream.read_exact(&mut call).unwrap();
        if let Some(says) = says {
            let answer = [&call[4..8], &words(says)].concat();
            stream.write_all(&[&words(&[answer.len() as u32 | 1 << 31]), &answer[..]].concat()).unwrap();
        }
        peer.ip()
    });
    (at, thread)
}

fn heard(portmapper: u16) -> Heard {
    make(&HostCall::to_for_tests(HOST, Some(US)), portmapper)
}

/// A lock is given up on the word that a host was not called, and on no other.
#[test]
fn whether_a_host_was_called() {
    assert_eq!(heard(portmapper(0)), Heard::NotCalled, "it has no such program");
    // A port that nobody else gets, and where nobody listens.
    let nobody = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    nobody.bind(&SocketAddr::new(HOST, 0).into()).unwrap();
    let port = nobody.local_addr().unwrap().as_socket().unwrap().port();
    assert_eq!(heard(portmapper(port)), Heard::NotCalled, "nobody is there");
    let cases: [(Option<&[u32]>, Heard); 5] = [
        (None, Heard::Nothing),
        (Some(&[1, 0, 0, 0, 0, 8]), Heard::Results(Bytes::from_static(&[0, 0, 0, 8]))),
        (Some(&[1, 0, 0, 0, 1]), Heard::NotCalled),
        (Some(&[1, 1, 0, 2, 2]), Heard::NotCalled),
        (Some(&[7]), Heard::Nothing),
    ];
    for (says, expected) in cases {
        let (at, thread) = lock_manager(says);
        assert_eq!(heard(portmapper(at)), expected, "{says:?}");
        assert_eq!(thread.join().unwrap(), US, "it knows us by that address");
    }
}

/// From an address that is ours no more nobody can call, and the host is called all the same.
#[test]
fn who_knows_us_by_an_address_that_is_gone_is_called_from_another() {
    let (at, thread) = lock_manager(Some(&[1, 0, 0, 0, 0]));
    let call = HostCall::to_for_tests(HOST, Some([192, 0, 2, 1].into()));
    assert_eq!(make(&call, portmapper(at)), Heard::Results(Bytes::new()));
    assert!(thread.join().unwrap().is_loopback());
}
