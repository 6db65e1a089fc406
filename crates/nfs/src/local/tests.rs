use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use super::*;
use crate::link::Link;

fn pair(listen: &str, connect: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((listen, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let theirs = TcpStream::connect((connect, port)).unwrap();
    (listener.accept().unwrap().0, theirs)
}

fn owner_of(ours: &TcpStream) -> Owner {
    owner(ours.peer_addr().unwrap(), ours.local_addr().unwrap()).unwrap()
}

fn own() -> Owner {
    match rustix::process::geteuid().as_raw() {
        0 => Owner::Root,
        uid => Owner::User(cred(uid).unwrap()),
    }
}

#[test]
fn the_kernel_tells_whose_the_other_end_is() {
    for (listen, connect) in [("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("::1", "::1")] {
        let (ours, theirs) = pair(listen, connect);
        assert_eq!(owner_of(&ours), own(), "{theirs:?}");
    }
}

/// A client's socket of IPv6 may speak IPv4.
#[test]
fn a_mapped_address_is_found() {
    let (ours, theirs) = pair("127.0.0.1", "::ffff:127.0.0.1");
    assert!(theirs.local_addr().unwrap().is_ipv6());
    assert_eq!(owner_of(&ours), own());
}

/// Of a socket that nobody has any more the kernel says uid 0, which must not make anybody root.
#[test]
fn a_connection_without_a_process_is_nobodys() {
    let (ours, theirs) = pair("127.0.0.1", "127.0.0.1");
    drop(theirs);
    assert_eq!(owner_of(&ours), Owner::Unknown, "closed");
    let (ours, theirs) = pair("127.0.0.1", "127.0.0.1");
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(owner_of(&ours), Owner::Unknown, "it will say nothing more");
    let (ours, theirs) = pair("127.0.0.1", "127.0.0.1");
    SockRef::from(&theirs).set_linger(Some(Duration::ZERO)).unwrap();
    let near = ours.peer_addr().unwrap();
    drop(theirs);
    assert_eq!(sock_diag::user(near, ours.local_addr().unwrap()).unwrap(), None, "broken off");
}

/// A client breaks its connection off while a request of it still waits here, and somebody else connects from the same
/// port: the kernel's answer is about him.
#[test]
fn who_comes_after_a_broken_connection_does_not_vouch_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |from: SocketAddr| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&address.into()).unwrap();
        socket
    };
    let first = connect("127.0.0.1:0".parse().unwrap());
    let (ours, peer) = listener.accept().unwrap();
    let ours = Arc::new(ours);
    let (old, fresh) = (Link::over(1, peer, &ours), Link::over(2, peer, &ours));
    assert_eq!(*fresh.owner(), own(), "while it stands");
    first.set_linger(Some(Duration::ZERO)).unwrap();
    drop(first);
    let _second = connect(peer);
    let now = sock_diag::user(peer, address).unwrap();
    assert_eq!(now, Some(rustix::process::geteuid().as_raw()), "the second client has the port");
    assert_eq!(*old.owner(), Owner::Unknown);
}

/// Somebody listens at the very address that is asked about: he is not connected.
#[test]
fn a_listener_is_no_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = listener.local_addr().unwrap();
    assert_eq!(sock_diag::user(near, "127.0.0.1:1".parse().unwrap()).unwrap(), None);
}

#[test]
fn users_and_their_groups() {
    let nobody = cred(4_242_424).unwrap();
    assert_eq!((nobody.uid, nobody.gid, nobody.groups.len()), (4_242_424, NO_GROUP, 0), "no such user");
    let root = cred(0).unwrap();
    assert_eq!((root.uid, root.gid), (0, 0));
    assert!(root.groups.contains(&0));
}

#[test]
fn who_is_here_and_which_port_speaks_for_its_machine() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    for (local, peer, expected) in [
        ("127.0.0.1:1", "127.0.0.1:2", true),
        ("127.0.0.1:1", "127.9.9.9:2", true),
        ("[::1]:1", "[::1]:2", true),
        ("192.0.2.1:1", "192.0.2.1:2", true),
        ("[::ffff:192.0.2.1]:1", "192.0.2.1:2", true),
        ("192.0.2.1:1", "198.51.100.2:2", false),
        ("[fe80::1]:1", "[fe80::2]:2", false),
    ] {
        assert_eq!(is_local(address(local), address(peer)), expected, "{peer} at {local}");
    }
    for (port, expected) in [(0, true), (1023, true), (1024, false), (65_535, false)] {
        assert_eq!(is_privileged(port, false), expected, "{port}");
    }
}

/// This machine has more addresses than those of its loopback, and a user of it may come by any of them, to any. His ports are
/// judged as this machine gives them, as they are given now: where low ones are everybody's, one spoke for root.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn who_comes_by_another_address_of_this_machine_is_of_this_machine() {
    // In a network of its own, of which the thread is the only member.
    std::thread::spawn(|| {
        #[expect(deprecated, reason = "it shares descriptors with others or not; these are all its own")]
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET).expect("this test needs root");
        for words in
            ["link set lo up", "address add 192.0.2.9/32 dev lo", "-6 address add 2001:db8::9/128 dev lo nodad"]
        {
            let done = std::process::Command::new("ip").args(words.split(' ')).status().unwrap();
            assert!(done.success(), "ip {words}");
        }
        for (from, to, port) in
            [("192.0.2.9", "127.0.0.1", 0), ("192.0.2.9", "127.0.0.1", 900), ("2001:db8::9", "::1", 901)]
        {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let listener = TcpListener::bind(SocketAddr::new(to, 0)).unwrap();
            let socket = Socket::new(Domain::for_address(listener.local_addr().unwrap()), Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::new(from, port).into()).unwrap();
            socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            let (ours, peer) = listener.accept().unwrap();
            let ours = Arc::new(ours);
            let before = Link::over(1, peer, &ours);
            assert_eq!(*before.owner(), own(), "from {peer}");
            assert_eq!(before.is_privileged(), port != 0);
            fs::write(UNPRIVILEGED_PORTS, "0").unwrap();
            assert!(!Link::over(2, peer, &ours).is_privileged(), "{peer}: anybody may have this port now");
            fs::write(UNPRIVILEGED_PORTS, "1024").unwrap();
        }
    })
    .join()
    .unwrap();
}
