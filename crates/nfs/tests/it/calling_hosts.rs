//! Calls to hosts of NFSv3 over sockets: hosts that a test plays, each at an address of its own with a portmapper, a lock manager and a status monitor, and a server that calls them.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tally_nfs::rpcbind::Transport;
use tally_nfs::serve::{ServeOptions, Server};
use tally_nfs::service::{DrawsStart, Service};
use tally_nfs::xdr::{Decoder, Encoder};

use crate::support::TestExports;
use crate::support::client::record;
use crate::support::host::{
    Ask, BLOCKED, DENIED, GRACE, GRANTED, LOCK, NAMES, NLM, NSM, UNLOCK, ask_of, numbers, restart_of,
};
use crate::support::scene::Scene;

/// Nothing here takes that long.
const PATIENCE: Duration = Duration::from_secs(30);
/// By which the hosts know the server: another one than they would be called from if nobody took care.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

static NETS: AtomicU8 = AtomicU8::new(1);

/// A server that finds the portmappers of hosts at this port.
fn serve(exports: &Arc<TestExports>, portmapper: u16, draw: DrawsStart) -> Server {
    let service = Arc::new(Service::new(exports.clone()).speaking_4().locking_for_3(draw, &NAMES));
    let options = ServeOptions { hosts_portmapper: portmapper, ..ServeOptions::default() };
    Server::start(service, &[SocketAddr::new(SERVER, 0)], &options).unwrap()
}

/// A host, and what is called there.
struct Played {
    address: IpAddr,
    locks: TcpListener,
    monitor: UdpSocket,
}

impl Played {
    /// Its portmapper is at the port of others, or, of the first, at any: gives it.
    fn new((net, number): (u8, u8), portmapper: u16) -> (Self, u16) {
        let address = IpAddr::from([127, 1 + (std::process::id() % 250) as u8, net, number]);
        let locks = TcpListener::bind((address, 0)).unwrap();
        let monitor = UdpSocket::bind((address, 0)).unwrap();
        monitor.set_read_timeout(Some(PATIENCE)).unwrap();
        let socket = UdpSocket::bind((address, portmapper)).unwrap();
        let at = socket.local_addr().unwrap().port();
        let ports = [locks.local_addr().unwrap().port(), monitor.local_addr().unwrap().port()];
        // It ends with the test.
        thread::spawn(move || map(&socket, ports));
        (Self { address, locks, monitor }, at)
    }

    fn asks(&self, server: &Server, ask: &Ask) -> u32 {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(self.address, 0).into()).unwrap();
        socket.connect(&server.addresses()[0].into()).unwrap();
        let mut stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let call = record(1, (0, &[0]), NLM, ask.procedure, ask.words(3));
        stream.write_all(&[&(call.len() as u32 | 1 << 31).to_be_bytes()[..], &call].concat()).unwrap();
        // mark, header, cookie with its length, and what it is told
        let mut answer = [0; 4 + 24 + 12 + 4];
        stream.read_exact(&mut answer).unwrap();
        u32::from_be_bytes(answer[40..].try_into().unwrap())
    }

    /// It is called, by the address that it knows: what stands behind the header, and what it answers if it does.
    fn is_called(&self, stat: Option<u32>) -> Vec<u8> {
        let (mut stream, peer) = self.locks.accept().unwrap();
        assert_eq!(peer.ip(), SERVER);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).unwrap();
        let mut call = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        stream.read_exact(&mut call).unwrap();
        let head = [0, 2, NLM.0, NLM.1, 5, 0, 0, 0, 0].iter().flat_map(|word: &u32| word.to_be_bytes());
        assert_eq!(call[4..40], head.collect::<Vec<_>>(), "GRANTED, as nobody");
        if let Some(stat) = stat {
            let mut words = Encoder::new();
            words.raw(&call[..4]).u32(1).u32(0).u64(0).u32(0).opaque(b"cookie").u32(stat);
            let answer = words.into_vec();
            stream.write_all(&[&(answer.len() as u32 | 1 << 31).to_be_bytes()[..], &answer].concat()).unwrap();
        }
        call.split_off(40)
    }

    /// It is told that the server has started anew: by which name and number.
    fn is_told(&self) -> (String, u32) {
        let mut call = [0; 512];
        let (count, server) = self.monitor.recv_from(&mut call).unwrap();
        let head = [0, 2, NSM.0, NSM.1, 6, 0, 0, 0, 0].iter().flat_map(|word: &u32| word.to_be_bytes());
        assert_eq!(call[4..40], head.collect::<Vec<_>>(), "SM_NOTIFY");
        let answer = [&call[..4], &[0, 0, 0, 1][..], &[0; 16]].concat();
        self.monitor.send_to(&answer, server).unwrap();
        let arguments = call[40..count].to_vec().into();
        let mut words = Decoder::new(&arguments, 0);
        (String::from_utf8(words.opaque(64).unwrap().to_vec()).unwrap(), words.u32().unwrap())
    }
}

/// The life of a portmapper: where the lock manager is, and the status monitor.
fn map(socket: &UdpSocket, ports: [u16; 2]) {
    let mut call = [0; 256];
    loop {
        let (count, asker) = socket.recv_from(&mut call).unwrap();
        assert_eq!(count, 56, "GETPORT");
        let port = u32::from(ports[usize::from(call[40..44] == NSM.0.to_be_bytes())]);
        let answer = [&call[..4], &[0, 0, 0, 1][..], &[0; 16], &port.to_be_bytes()].concat();
        socket.send_to(&answer, asker).unwrap();
    }
}

/// Two hosts, the first of which has what the second waits for; and what they ask for.
fn begin() -> (Scene, Server, [Played; 2], Ask, u16) {
    let scene = Scene::new();
    scene.exports.keep_clients();
    let file = scene.file(b"f");
    let lock = Ask { blocks: true, ..ask_of(&scene.exports, LOCK, file) };
    // No test has another one's ports.
    let net = NETS.fetch_add(1, SeqCst);
    let (one, portmapper) = Played::new((net, 1), 0);
    let (two, _) = Played::new((net, 2), portmapper);
    let server = serve(&scene.exports, portmapper, numbers());
    assert_eq!([&one, &two].map(|host| host.asks(&server, &lock)), [GRANTED, BLOCKED]);
    (scene, server, [one, two], lock, portmapper)
}

#[test]
fn a_host_that_waits_is_called_and_takes_the_lock() {
    let (scene, server, [one, two], lock, portmapper) = begin();
    let unlock = Ask { procedure: UNLOCK, ..lock.clone() };
    let again = Ask { is_reclaim: true, ..lock.clone() };
    assert_eq!(one.asks(&server, &unlock), GRANTED);
    let arguments = two.is_called(Some(GRANTED)).into();
    let mut words = Decoder::new(&arguments, 0);
    assert!(words.opaque(8).is_ok_and(|cookie| cookie.len() == 8) && words.bool().unwrap());
    assert_eq!((words.opaque(64).unwrap(), words.opaque(64).unwrap()), (&b"host"[..], &lock.file[..]));
    assert_eq!((words.opaque(64).unwrap(), words.u32().unwrap()), (&b"process"[..], 7));
    assert_eq!(one.asks(&server, &Ask { blocks: false, ..lock.clone() }), DENIED);

    // Both were in the list when it ended, and are told: the first has nothing to claim.
    assert_eq!(server.stop(), 0);
    restart_of(&scene.exports);
    let server = serve(&scene.exports, portmapper, Box::new(|| Ok(15)));
    for host in [&one, &two] {
        assert_eq!(NAMES.map(|_| host.is_told()), NAMES.map(|name| (name.to_owned(), 15)));
    }
    assert_eq!(one.asks(&server, &lock), GRACE);
    assert_eq!(two.asks(&server, &again), GRANTED);
    assert_eq!(server.stop(), 0);
}

/// The answer to the first call is lost, and the host has the lock.
#[test]
fn a_host_that_hangs_up_on_a_call_keeps_the_lock() {
    let (_scene, server, [one, two], lock, _) = begin();
    let unlock = Ask { procedure: UNLOCK, ..lock.clone() };
    assert_eq!(one.asks(&server, &unlock), GRANTED);
    two.is_called(None);
    assert_eq!(one.asks(&server, &lock), BLOCKED);
    // When it unlocks, the one that waits behind it is called.
    assert_eq!(two.asks(&server, &unlock), GRANTED);
    one.is_called(Some(GRANTED));
    assert_eq!(two.asks(&server, &Ask { blocks: false, ..lock }), DENIED);
    assert_eq!(server.stop(), 0);
}

/// What a host says goes wrong, and the next one is heard all the same.
#[test]
fn a_bug_in_what_hears_hosts_ends_with_its_call() {
    let (scene, server, [one, two], lock, _) = begin();
    assert_eq!(server.heard_by(), [Transport::Tcp, Transport::Udp]);
    *scene.exports.tank.before_an_unlock.lock() = Some(Box::new(|| panic!("a bug, planted by the test")));
    let says = |host: &Played, state: u32| {
        let mut words = Encoder::new();
        words.opaque(b"host").u32(state);
        let socket = UdpSocket::bind((host.address, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(&record(1, (0, &[0]), NSM, 6, words), server.addresses()[0]).unwrap();
        socket
    };
    let _nothing_comes = says(&one, 5);
    let (mut answer, socket) = ([0; 24], says(&two, 5));
    assert_eq!(socket.recv(&mut answer).unwrap(), answer.len());
    assert_eq!(server.stats().panics.load(SeqCst), 1);
    assert_eq!(two.asks(&server, &Ask { range: (50, 1), ..lock }), GRANTED);
    assert_eq!(server.stop(), 0);
}

/// A claim that is held does not keep the server from ending.
#[test]
fn a_claim_that_is_held_ends_with_the_server() {
    let (scene, server, [one, _], lock, _) = begin();
    scene.exports.export(false);
    let again = Ask { is_reclaim: true, ..lock.clone() };
    let call = record(1, (0, &[0]), NLM, LOCK, again.words(3));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(one.address, 0).into()).unwrap();
    socket.connect(&server.addresses()[0].into()).unwrap();
    let mut stream: TcpStream = socket.into();
    stream.write_all(&[&(call.len() as u32 | 1 << 31).to_be_bytes()[..], &call].concat()).unwrap();
    // What comes behind it is answered: it is held by then.
    assert_eq!(one.asks(&server, &lock), GRACE);
    assert_eq!(server.stop(), 0);
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0, "it is not answered");
}
