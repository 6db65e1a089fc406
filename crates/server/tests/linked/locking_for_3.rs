//! Locks of NFSv3 over sockets: hosts at two addresses of this machine, a client of version 4 beside them, the commands that show who has what, and a restart.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, UdpSocket};

use socket2::{Domain, Socket, Type};
use tally_bench::wire::Handle;
use tally_server::config::ServeArgs;
use tally_wire::nfs4::Nfsstat4;

use super::evicting::{Client, serving};
use super::*;

const NLM: (u32, u32) = (100_021, 4);
const NSM: (u32, u32) = (100_024, 1);
const LOCK: u32 = 2;
const UNLOCK: u32 = 4;
const GRANTED: u32 = 0;
const DENIED: u32 = 1;
const GRACE: u32 = 4;

fn opaque(bytes: &[u8]) -> Vec<u8> {
    let padding = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
    [&(bytes.len() as u32).to_be_bytes()[..], bytes, &padding].concat()
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// As root.
fn call((program, version): (u32, u32), procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let root = [numbers(&[0]), opaque(b"m"), numbers(&[0, 0, 0])].concat();
    [&numbers(&[7, 0, 2, program, version, procedure, 1]), &opaque(&root), &numbers(&[0, 0]), arguments].concat()
}

/// A host at this address of the machine.
struct Host(IpAddr);

impl Host {
    /// What it is told behind the cookie, of ten bytes from 10 on.
    fn asks(&self, server: SocketAddr, file: &Handle, procedure: u32, is_reclaim: bool) -> u32 {
        let lock = [opaque(b"host"), opaque(&file.0), opaque(b"process"), numbers(&[7, 0, 10, 0, 10])].concat();
        let arguments = match procedure {
            UNLOCK => [opaque(b"cook"), lock].concat(),
            _ => [opaque(b"cook"), numbers(&[0, 1]), lock, numbers(&[is_reclaim.into(), 3])].concat(),
        };
        let record = call(NLM, procedure, &arguments);
        let mark = (record.len() as u32 | 1 << 31).to_be_bytes();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(self.0, 0).into()).unwrap();
        socket.connect(&server.into()).unwrap();
        let mut stream: std::net::TcpStream = socket.into();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[&mark[..], &record].concat()).unwrap();
        // mark, header, cookie, and what it is told
        let mut answer = [0; 4 + 24 + 8 + 4];
        stream.read_exact(&mut answer).unwrap();
        u32::from_be_bytes(answer[36..].try_into().unwrap())
    }

    /// It says by a datagram that it has started anew.
    fn notifies(&self, server: SocketAddr) {
        let socket = UdpSocket::bind((self.0, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let notice = [opaque(b"any name"), numbers(&[5])].concat();
        socket.send_to(&call(NSM, 6, &notice), server).unwrap();
        let mut answer = [0; 24];
        assert_eq!(socket.recv(&mut answer).unwrap(), answer.len());
        assert_eq!(answer[4..], numbers(&[1, 0, 0, 0, 0]), "it is heard");
    }
}

#[test]
fn hosts_lock_beside_clients_of_version_4_and_claim_what_they_had() {
    let dir = tempfile::tempdir().unwrap();
    let opener = Arc::new(MemOpener::default());
    let [one, two] = [1, 2].map(|number| Host([127, 0, 0, number].into()));
    let config = dir.path().join("tally.toml");
    std::fs::write(
        &config,
        "nlm = true\n[[export]]\ndataset = \"tank\"\nrules = \"127.0.0.0/8(rw,insecure,no_root_squash)\"\n",
    )
    .unwrap();
    let args = || ServeArgs { nfs4: true, lease_time: Some("5".parse().unwrap()), ..Running::args(dir.path()) };

    let (daemon, server) = serving(args(), &opener);
    let mut client = Client::new(server, "one of version 4").claims_nothing();
    let opened = client.open("f").expect("it is made");
    let target = Target { nfs: server, mount: server, export: "/tank".into() };
    let root = Connection::mount(&target).unwrap();
    let file = Connection::open(server).unwrap().lookup(&root, "f").unwrap();
    assert_eq!(one.asks(server, &file, LOCK, false), GRANTED);
    assert_eq!(two.asks(server, &file, LOCK, false), DENIED);
    assert_eq!(client.lock("f", &opened), Nfsstat4::Nfs4ErrDenied);
    story(
        dir.path(),
        &[
            (&["stat", "locks"], true, &["127.0.0.1", "process 7", "write", "10", "19", "held", "/f"]),
            (&["client", "list"], true, &["127.0.0.1", "one of version 4", "host"]),
        ],
    );
    one.notifies(server);
    assert_eq!(client.lock("f", &opened), Nfsstat4::Nfs4Ok);
    assert_eq!(two.asks(server, &file, LOCK, false), DENIED);
    drop(client);
    story(dir.path(), &[(&["client", "evict", "-y", "127.0.0.1"], true, &["ended client"])]);
    assert_eq!(two.asks(server, &file, LOCK, false), GRANTED);
    daemon.stop();

    // Behind a restart it is its own for as long as it may claim it, and longer if it does.
    let (daemon, server) = serving(args(), &opener);
    assert_eq!(one.asks(server, &file, LOCK, false), GRACE);
    assert_eq!(one.asks(server, &file, LOCK, true), GRACE, "who had nothing claims nothing");
    assert_eq!(two.asks(server, &file, LOCK, true), GRANTED);
    let begun = Instant::now();
    while one.asks(server, &file, LOCK, false) == GRACE {
        assert!(begun.elapsed() < PATIENCE, "the grace ends");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(one.asks(server, &file, LOCK, false), DENIED);
    assert_eq!(two.asks(server, &file, UNLOCK, false), GRANTED);
    assert_eq!(one.asks(server, &file, LOCK, false), GRANTED);
    daemon.stop();
}
