//! Who a client of this very machine is, and what becomes of one elsewhere whose port speaks for nobody.
//!
//! The user `nobody` connected to a daemon of root's over loopback, from an ordinary port, said by AUTH_SYS that he was
//! uid 0, read root's files and made a set-id program of root's in the first pool: `insecure` was the default, and
//! AUTH_SYS was all that anybody asked for. Over the real mount line that program was a root shell.

use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use crate::support::client::{Answer, Client, MOUNT, NFS, TOOWEAK, dir_name, mode, record, words};
use crate::support::desk::serve;
use crate::support::{House, TestExports};
use bytes::Bytes;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use smallvec::SmallVec;
use socket2::{Domain, Socket, Type};
use tally_nfs::handle::Handle as Named;
use tally_nfs::link::Link;
use tally_nfs::local::Owner;
use tally_nfs::service::Service;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Cred, Identity};

const ORDINARY: u16 = 40_000;
const PRIVILEGED: u16 = 900;
/// The client's user where he is not root.
const OWN: u32 = 1000;
const FOREIGN: u32 = 1001;
/// `anonuid=` of all rules here.
const ANON: u32 = 7;

/// Whom a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Uid(u32),
    /// AUTH_NONE.
    Nobody,
}

const CLAIMS: [Claim; 4] = [Claim::Uid(0), Claim::Uid(OWN), Claim::Uid(FOREIGN), Claim::Nobody];

/// What becomes of the four claims before a rule squashes them.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// They are believed.
    Believed,
    /// All but AUTH_NONE are this user's.
    Known(u32),
    /// They are refused.
    TooWeak,
}

impl Fate {
    /// The uid of what a request makes; `None` if it is refused.
    fn maker(self, claim: Claim, squash: &str) -> Option<u32> {
        let asker = match (self, claim) {
            (Self::TooWeak, _) => return None,
            (_, Claim::Nobody) => return Some(ANON),
            (Self::Believed, Claim::Uid(uid)) | (Self::Known(uid), Claim::Uid(_)) => uid,
        };
        Some(match squash {
            "all_squash" => ANON,
            "root_squash" if asker == 0 => ANON,
            _ => asker,
        })
    }
}

/// The record of a CREATE in the root of `/tank`.
fn create(exports: &TestExports, xid: u32, claim: Claim) -> Vec<u8> {
    let root = Named { pool: crate::support::POOL, dataset: exports.tank.dataset(), object: exports.tank.root() };
    let mut arguments = dir_name(&root.seal(&crate::support::KEY), format!("file {xid}").as_bytes());
    arguments.u32(1).raw(&mode(0o644).into_vec());
    call(xid, claim, NFS, Procedure::Create.number(), arguments)
}

fn mount(xid: u32, claim: Claim) -> Vec<u8> {
    let path = words(|words| {
        words.opaque(b"/tank");
    });
    call(xid, claim, MOUNT, 1, path)
}

fn call(xid: u32, claim: Claim, program: (u32, u32), procedure: u32, arguments: Encoder) -> Vec<u8> {
    match claim {
        Claim::Uid(uid) => record(xid, (uid, &[uid, 0]), program, procedure, arguments),
        Claim::Nobody => {
            let mut words = Encoder::new();
            words.u32(xid).u32(0).u32(2).u32(program.0).u32(program.1).u32(procedure);
            words.u64(0).u64(0).raw(&arguments.into_vec());
            words.into_vec()
        }
    }
}

/// What a reply without its mark says; `None` if it is AUTH_TOOWEAK.
fn accepted(reply: Bytes) -> Option<Answer> {
    let (_, answer) = Answer::parse(reply);
    (answer.status != TOOWEAK).then_some(answer)
}

/// The uid of what a CREATE has made, which carried the xid that its name says.
fn maker(reply: Bytes) -> Option<u32> {
    let mut answer = accepted(reply)?;
    assert_eq!(answer.status, 0);
    answer.post_handle();
    Some(answer.post_attr().expect("attributes of the new file").uid)
}

/// Never used twice: the server remembers them.
fn next_xid() -> u32 {
    static XID: AtomicU32 = AtomicU32::new(1);
    XID.fetch_add(1, Relaxed)
}

const SQUASHES: [&str; 3] = ["no_root_squash", "root_squash", "all_squash"];

fn rule(port_word: &str, squash: &str) -> String {
    format!("*(rw,{port_word},{squash},anonuid={ANON},anongid={ANON})")
}

/// {loopback, other host} x {ordinary, privileged port} x {whose the kernel says it is} x {secure, insecure, nothing
/// said} x {squash} x {whom the request names}, for MOUNT, CREATE and NULL.
#[test]
fn every_cell_of_who_is_served_as_whom() {
    use Fate::{Believed, Known, TooWeak};
    let here: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let there: SocketAddr = (Ipv4Addr::new(192, 0, 2, 7), 0).into();
    let own = || Owner::User(Cred { uid: OWN, gid: OWN, groups: SmallVec::new(), checked: false });
    #[rustfmt::skip]
    let rows = [
        // host, port, whose it is, under secure, under insecure
        (here,  ORDINARY,   Owner::Root,    Believed,   Believed),
        (here,  ORDINARY,   own(),          Known(OWN), Believed),
        (here,  ORDINARY,   Owner::Unknown, TooWeak,    Believed),
        (here,  PRIVILEGED, Owner::Root,    Believed,   Believed),
        (here,  PRIVILEGED, Owner::Unknown, Believed,   Believed),
        (there, ORDINARY,   Owner::Unknown, TooWeak,    Believed),
        (there, PRIVILEGED, Owner::Unknown, Believed,   Believed),
    ];
    let exports = TestExports::new();
    let service = Service::new(exports.clone());
    let mut cells = 0;
    for (host, port, owner, under_secure, under_insecure) in rows {
        for (word, fate) in [("secure", under_secure), ("sync", under_secure), ("insecure", under_insecure)] {
            for (squash, claim) in SQUASHES.iter().flat_map(|squash| CLAIMS.map(|claim| (squash, claim))) {
                let cell = format!("{} port {port} {owner:?} {word} {squash} {claim:?}", host.ip());
                *exports.tank_rule.lock() = rule(word, squash);
                let xid = next_xid();
                let link = Arc::new(Link::owned(xid.into(), SocketAddr::new(host.ip(), port), owner.clone()));
                let expected = fate.maker(claim, squash);
                let mounted = accepted(serve(&service, &link, mount(xid, claim)).into());
                assert_eq!(mounted.map(|answer| answer.status), expected.map(|_| 0), "MOUNT: {cell}");
                assert_eq!(maker(serve(&service, &link, create(&exports, xid, claim)).into()), expected, "{cell}");
                let null = serve(&service, &link, call(xid, claim, NFS, 0, Encoder::new()));
                assert_eq!(null.len(), 24, "NULL is for everybody: {cell}");
                cells += 3;
            }
        }
    }
    assert_eq!(cells, 7 * 3 * 12 * 3);
}

/// A user who is known does not get at another's answer by naming him, and his own come to him whomever he names.
#[test]
fn an_answer_is_remembered_for_who_it_was() {
    let exports = TestExports::new();
    let service = Service::new(exports.clone());
    *exports.tank_rule.lock() = rule("secure", "no_root_squash");
    let link = |uid: u32| {
        let owner = Owner::User(Cred { uid, gid: uid, groups: SmallVec::new(), checked: false });
        Arc::new(Link::owned(next_xid().into(), (Ipv4Addr::LOCALHOST, ORDINARY).into(), owner))
    };
    let request = |claim| create(&exports, 77, Claim::Uid(claim));
    let broken = link(OWN);
    let first = serve(&service, &broken, request(OWN));
    broken.close();
    assert_eq!(maker(first.clone().into()), Some(OWN));
    let again = link(OWN);
    assert_eq!(serve(&service, &again, request(0)), first, "again, under another name");
    again.close();
    let foreign = accepted(serve(&service, &link(FOREIGN), request(OWN)).into()).unwrap();
    assert_eq!(foreign.status, 17, "EXIST: carried out, and the file is there");
}

/// Does something as another user, in a thread of its own; what it starts is that user's too.
fn acting<T: Send>(uid: u32, deed: impl FnOnce() -> T + Send) -> T {
    let deed = || {
        let uid = Uid::from_raw(uid);
        set_thread_res_uid(uid, uid, uid).expect("this test needs root");
        deed()
    };
    thread::scope(|scope| scope.spawn(deed).join().unwrap())
}

/// A client from a port of this kind; a privileged one only root gets.
fn client(address: SocketAddr, privileged: bool) -> Client {
    if !privileged {
        return Client::connect(address);
    }
    let ports = 700..1023;
    let connected = ports.into_iter().find_map(|port| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()).ok()?;
        socket.connect(&address.into()).ok()?;
        Some(socket.into())
    });
    Client::over(connected.expect("a free privileged port"))
}

fn ask(client: &mut Client, record: &[u8]) -> Bytes {
    client.send_record(record);
    client.receive().expect("the server has closed")
}

/// The same over real sockets, between real users, as a daemon of root's and as one of an ordinary user's.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn the_kernel_says_whose_a_connection_is() {
    for daemon in [0, 65_534] {
        let house = acting(daemon, House::new);
        for (user, privileged) in [(0, false), (0, true), (OWN, false), (65_534, false)] {
            for (word, (squash, claim)) in ["secure", "insecure"].iter().flat_map(|word| {
                SQUASHES.iter().flat_map(|squash| CLAIMS.map(|claim| (squash, claim))).map(move |c| (word, c))
            }) {
                let cell = format!("daemon {daemon}, client {user}, privileged {privileged} {word} {squash} {claim:?}");
                *house.exports.tank_rule.lock() = rule(word, squash);
                let fate = if user == 0 || *word == "insecure" { Fate::Believed } else { Fate::Known(user) };
                let record = create(&house.exports, next_xid(), claim);
                let reply = acting(user, || ask(&mut client(house.address, privileged), &record));
                assert_eq!(maker(reply), fate.maker(claim, squash), "{cell}");
            }
        }
    }
}

/// The kernel says uid 0 of a socket whose process is gone. Whoever sends a request and goes is nobody then, not root.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn who_sends_and_goes_is_not_taken_for_root() {
    let house = House::new();
    *house.exports.tank_rule.lock() = rule("secure", "no_root_squash");
    let names = |xids: &[u32]| xids.iter().map(|xid| format!("file {xid}")).collect::<Vec<_>>();
    let (mut closed, mut shut) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let (xid, other) = (next_xid(), next_xid());
        let records = [xid, other].map(|xid| create(&house.exports, xid, Claim::Uid(0)));
        acting(OWN, || {
            Client::connect(house.address).send_record(&records[0]);
            let mut half = Client::connect(house.address);
            half.send_record(&records[1]);
            half.stream.shutdown(Shutdown::Write).unwrap();
            // An answer is welcome, and that it is refused too.
            half.receive()
        });
        closed.push(xid);
        shut.push(other);
    }
    let mut looker = house.client();
    let root = looker.mount("/tank");
    for name in names(&closed).iter().chain(&names(&shut)) {
        if let (0, Some((_, attr))) = looker.lookup(&root, name.as_bytes()) {
            assert_eq!(attr.uid, OWN, "{name}");
        }
    }
}
