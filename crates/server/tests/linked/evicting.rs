//! Who holds what by NFSv4, as an administrator sees it, and the end of a client that he wants gone: over sockets, by the commands.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use tally_nfs::xdr::Encoder;
use tally_server::config::ServeArgs;
use tally_wire::nfs4::Nfsstat4::{self, Nfs4ErrBadsession, Nfs4ErrNoGrace, Nfs4Ok};
use tally_wire::nfs4::{
    CallbackSecParms4, ChannelAttrs4, ClientOwner4, Compound4Args, Compound4Res, CreateSession4Args, CreateSession4Res,
    Createhow4, ExchangeId4Args, ExchangeId4Res, Fattr4, Lock4Args, Locker4, Lookup4Args, NfsArgop4, NfsLockType4,
    NfsResop4, Open4Args, Open4Res, Open4Resok, OpenClaim4, OpenOwner4, OpenToLockOwner4, Openflag4,
    ReclaimComplete4Args, Sequence4Args, StateOwner4, StateProtect4A, Stateid4,
};
use tally_wire::{decode, encode};

use super::*;

/// CREATE_SESSION4_FLAG_CONN_BACK_CHAN.
const CALLS_BACK: u32 = 2;

/// A client of NFSv4.1 with a session, on a connection of its own.
pub(super) struct Client {
    stream: TcpStream,
    session: [u8; 16],
    next: u32,
}

impl Client {
    /// One that calls itself that.
    pub(super) fn new(server: SocketAddr, name: &str) -> Self {
        Self::with(server, name, 0, Vec::new())
    }

    /// The same, which can be called over its connection; it answers nothing.
    pub(super) fn called(server: SocketAddr, name: &str) -> Self {
        Self::with(server, name, CALLS_BACK, vec![CallbackSecParms4::AuthNone])
    }

    fn with(server: SocketAddr, name: &str, csa_flags: u32, sec_parms: Vec<CallbackSecParms4>) -> Self {
        let stream = TcpStream::connect(server).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut client = Self { stream, session: [0; 16], next: 1 };
        let introduced = client.send(vec![NfsArgop4::OpExchangeId(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: [1; 8], co_ownerid: name.as_bytes().into() },
            eia_flags: 0,
            eia_state_protect: StateProtect4A::Sp4None,
            eia_client_impl_id: Vec::new().into(),
        })]);
        let Some(NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known))) = introduced.resarray.0.last() else {
            panic!("{introduced:?}")
        };
        let channel = ChannelAttrs4 {
            ca_headerpadsize: 0,
            ca_maxrequestsize: 8192,
            ca_maxresponsesize: 8192,
            ca_maxresponsesize_cached: 1024,
            ca_maxoperations: 8,
            ca_maxrequests: 3,
            ca_rdma_ird: Vec::new().into(),
        };
        let made = client.send(vec![NfsArgop4::OpCreateSession(CreateSession4Args {
            csa_clientid: known.eir_clientid,
            csa_sequence: known.eir_sequenceid,
            csa_flags,
            csa_fore_chan_attrs: channel.clone(),
            csa_back_chan_attrs: channel,
            csa_cb_program: 0x4000_0000,
            csa_sec_parms: sec_parms.into(),
        })]);
        let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = made.resarray.0.last() else {
            panic!("{made:?}")
        };
        client.session = created.csr_sessionid;
        client
    }

    pub(super) fn claims_nothing(mut self) -> Self {
        let complete = NfsArgop4::OpReclaimComplete(ReclaimComplete4Args { rca_one_fs: false });
        assert_eq!(self.run(vec![complete]).status, Nfs4Ok);
        self
    }

    pub(super) fn send(&mut self, ops: Vec<NfsArgop4>) -> Compound4Res {
        let mut cred = Encoder::new();
        cred.u32(0).opaque(b"test").u32(0).u32(0).u32(0);
        let mut words = Encoder::new();
        words.u32(self.next).u32(0).u32(2).u32(100_003).u32(4).u32(1);
        words.u32(1).opaque(&cred.into_vec()).u64(0);
        words.raw(&encode(&Compound4Args { tag: b"".into(), minorversion: 1, argarray: ops.into() }));
        let record = words.into_vec();
        let mark = u32::try_from(record.len()).expect("a short one") | 1 << 31;
        self.stream.write_all(&[&mark.to_be_bytes()[..], &record].concat()).expect("it is sent");
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).expect("an answer");
        let mut reply = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        self.stream.read_exact(&mut reply).expect("all of it");
        decode(&reply[24..]).expect("results")
    }

    pub(super) fn sequence(&mut self) -> NfsArgop4 {
        self.next += 1;
        NfsArgop4::OpSequence(Sequence4Args {
            sa_sessionid: self.session,
            sa_sequenceid: self.next - 1,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        })
    }

    /// In the pool's root, behind SEQUENCE.
    pub(super) fn run(&mut self, ops: Vec<NfsArgop4>) -> Compound4Res {
        let sequence = self.sequence();
        let tank = NfsArgop4::OpLookup(Lookup4Args { objname: b"tank".into() });
        self.send([sequence, NfsArgop4::OpPutrootfh, tank].into_iter().chain(ops).collect())
    }

    /// A file in there, which is made if it is not there.
    pub(super) fn open(&mut self, name: &str) -> Result<Stateid4, Nfsstat4> {
        self.open_for(name, 3).map(|opened| opened.stateid)
    }

    /// The same, to read it (1), write it (2), or both.
    pub(super) fn open_for(&mut self, name: &str, share_access: u32) -> Result<Open4Resok, Nfsstat4> {
        let open = NfsArgop4::OpOpen(Open4Args {
            seqid: 0,
            share_access,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: b"o".into() },
            openhow: Openflag4::Open4Create(Createhow4::Unchecked4(Fattr4::of(&[]))),
            claim: OpenClaim4::ClaimNull(name.as_bytes().into()),
        });
        let mut told = self.run(vec![open]);
        match told.resarray.0.pop() {
            Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) => Ok(opened),
            _ => Err(told.status),
        }
    }

    /// Locks bytes 10 to 19 of it.
    pub(super) fn lock(&mut self, name: &str, below: &Stateid4) -> Nfsstat4 {
        let lock_owner = StateOwner4 { clientid: 0, owner: b"process 7".into() };
        let below = OpenToLockOwner4 { open_seqid: 0, open_stateid: below.clone(), lock_seqid: 0, lock_owner };
        let (locktype, locker) = (NfsLockType4::WriteLt, Locker4::True(below));
        let lock = NfsArgop4::OpLock(Lock4Args { locktype, reclaim: false, offset: 10, length: 10, locker });
        let file = NfsArgop4::OpLookup(Lookup4Args { objname: name.as_bytes().into() });
        self.run(vec![file, lock]).status
    }
}

pub(super) fn speaking_4(data_dir: &Path, opener: &Arc<MemOpener>) -> (Running, SocketAddr) {
    serving(ServeArgs { nfs4: true, ..Running::args(data_dir) }, opener)
}

pub(super) fn serving(args: ServeArgs, opener: &Arc<MemOpener>) -> (Running, SocketAddr) {
    let daemon = Running::start_with(args, Arc::clone(opener) as Arc<dyn Opener>).expect("it starts");
    let (_, port) = daemon.announcement.split_once("port ").expect("it says so");
    let port = port.split_once(|c: char| !c.is_ascii_digit()).expect("and more").0.parse().expect("a port");
    (daemon, ([127, 0, 0, 1], port).into())
}

/// The first cell of the line that has these words.
pub(super) fn id(text: &str, words: &str) -> String {
    let line = text.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words}: {text}"));
    line.split('\t').next().unwrap().to_owned()
}

#[test]
fn what_clients_hold_is_seen_and_who_is_evicted_is_told_and_keeps_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let (data_dir, opener) = (dir.path(), Arc::new(MemOpener::default()));
    let (daemon, server) = speaking_4(data_dir, &opener);
    story(
        data_dir,
        &[(&["client", "list"], true, &["nothing to show"]), (&["stat", "opens"], true, &["nothing to show"])],
    );
    let mut one = Client::new(server, "one \u{1b}[2J").claims_nothing();
    let mut other = Client::new(server, "other").claims_nothing();
    let held = one.open("f").expect("it is made");
    assert_eq!(one.lock("f", &held), Nfs4Ok);
    let wanted = other.open("f").expect("nobody denies it");
    assert_eq!(other.lock("f", &wanted), Nfsstat4::Nfs4ErrDenied);

    let (well, clients) = tally(data_dir, &["client", "list", "-H"]);
    assert!(well && clients.contains("one \\x1b[2J") && !clients.contains('\u{1b}'), "{clients}");
    let of_one = id(&clients, "one ");
    story(
        data_dir,
        &[
            (&["client", "list", "-H", &of_one], true, &["127.0.0.1\t4.1\t1\t1\t1\t", "\tactive\t"]),
            (&["client", "list", "--json", "127.0.0.1"], true, &["\"name\": \"other\"", "\"courtesy\": false"]),
            (&["stat", "sessions", "-H"], true, &["127.0.0.1\t3\t0\t1\t0\tother"]),
            (
                &["stat", "opens", "-H", "-l", "1"],
                true,
                &["127.0.0.1\tboth\tnone\t", "\theld\ttank\t/f\n", "and 1 more"],
            ),
            (&["stat", "locks", "-H"], true, &["\twrite\t10\t19\t", "\tprocess 7\ttank\t/f\n"]),
            (&["stat", "ops", "-H"], true, &["compound open\t2\t0\t", "compound lock\t2\t1\t", "compound_modify\t"]),
            (&["client", "evict", "10.9.9.9"], false, &["no client of NFSv4 with the id or the address '10.9.9.9'"]),
            (&["client", "evict", "-n", &of_one], true, &["one"]),
        ],
    );
    assert!(one.run(Vec::new()).status == Nfs4Ok, "nothing was done yet");
    let said = "1 opens and 1 locks are free";
    story(data_dir, &[(&["client", "evict", "--yes", &of_one], true, &[said])]);

    assert_eq!(one.run(Vec::new()).status, Nfs4ErrBadsession, "it is told");
    assert_eq!(other.lock("f", &wanted), Nfs4Ok, "and keeps nobody out");
    let (well, locks) = tally(data_dir, &["stat", "locks", "-H"]);
    assert!(well && locks.lines().count() == 1 && !locks.contains(&of_one), "{locks}");

    // Behind a restart the other may claim what it has, and who was evicted nothing (rules V24).
    daemon.stop();
    let (daemon, server) = speaking_4(data_dir, &opener);
    let claim = |name: &str| {
        let mut client = Client::new(server, name);
        let claim = OpenClaim4::ClaimPrevious(tally_wire::nfs4::OpenDelegationType4::OpenDelegateNone);
        let open = NfsArgop4::OpOpen(Open4Args {
            seqid: 0,
            share_access: 3,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: b"o".into() },
            openhow: Openflag4::Default(tally_wire::nfs4::Opentype4::Open4Nocreate),
            claim,
        });
        let file = NfsArgop4::OpLookup(Lookup4Args { objname: b"f".into() });
        client.run(vec![file, open]).status
    };
    assert_eq!((claim("one \u{1b}[2J"), claim("other")), (Nfs4ErrNoGrace, Nfs4Ok));
    daemon.stop();
}

#[test]
fn a_daemon_without_version_4_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let args = ServeArgs { no_nfs4: true, ..Running::args(dir.path()) };
    let opener: Arc<dyn Opener> = Arc::new(MemOpener::default());
    let daemon = Running::start_with(args, opener).expect("it starts");
    story(dir.path(), &[(&["client", "list"], false, &["does not speak NFSv4"])]);
    daemon.stop();
}
