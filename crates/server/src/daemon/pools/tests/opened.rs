//! What clients of version 4 have open of pools and datasets that go (rules V37), over a service without a socket.

use tally_base::{Fate, Promise};
use tally_nfs::link::Link;
use tally_nfs::service::{Service, Step};
use tally_nfs::xdr::Encoder;
use tally_wire::nfs4::Nfsstat4::{Nfs4ErrAdminRevoked, Nfs4Ok};
use tally_wire::nfs4::{
    ChannelAttrs4, ClientOwner4, Compound4Args, Compound4Res, CreateSession4Args, CreateSession4Res, Createhow4,
    ExchangeId4Args, ExchangeId4Res, Fattr4, FreeStateid4Args, Lookup4Args, NfsArgop4, NfsResop4, Nfsstat4, Open4Args,
    Open4Res, OpenClaim4, OpenOwner4, Openflag4, Opentype4, Read4Args, ReclaimComplete4Args, Sequence4Args,
    Sequence4Res, StateProtect4A, Stateid4, TestStateid4Args, TestStateid4Res,
};
use tally_wire::{decode, encode};

use super::*;

struct Client {
    service: Service,
    link: Arc<Link>,
    session: [u8; 16],
    next: u32,
}

impl Client {
    fn new(pools: &Pools) -> Self {
        let link = Arc::new(Link::new(1, ([127, 0, 0, 1], 700).into()));
        let service = Service::new(pools.exports() as _).speaking_4();
        let mut client = Self { service, link, session: [0; 16], next: 1 };
        let introduced = client.send(vec![NfsArgop4::OpExchangeId(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: [1; 8], co_ownerid: b"a client".into() },
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
            ca_maxrequests: 1,
            ca_rdma_ird: Vec::new().into(),
        };
        let made = client.send(vec![NfsArgop4::OpCreateSession(CreateSession4Args {
            csa_clientid: known.eir_clientid,
            csa_sequence: known.eir_sequenceid,
            csa_flags: 0,
            csa_fore_chan_attrs: channel.clone(),
            csa_back_chan_attrs: channel,
            csa_cb_program: 0x4000_0000,
            csa_sec_parms: Vec::new().into(),
        })]);
        let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = made.resarray.0.last() else {
            panic!("{made:?}")
        };
        client.session = created.csr_sessionid;
        let complete = NfsArgop4::OpReclaimComplete(ReclaimComplete4Args { rca_one_fs: false });
        assert_eq!(client.run(vec![complete]).status, Nfs4Ok);
        client
    }

    fn send(&self, ops: Vec<NfsArgop4>) -> Compound4Res {
        let mut cred = Encoder::new();
        cred.u32(0).opaque(b"test").u32(0).u32(0).u32(0);
        let mut words = Encoder::new();
        words.u32(self.next).u32(0).u32(2).u32(100_003).u32(4).u32(1);
        words.u32(1).opaque(&cred.into_vec()).u64(0);
        words.raw(&encode(&Compound4Args { tag: b"".into(), minorversion: 1, argarray: ops.into() }));
        let mut job = self.service.open(words.into_vec().into(), &self.link, Instant::now()).expect("a call");
        let mut step = self.service.run(&mut job);
        let reply = loop {
            step = match step {
                Step::Reply(reply) => break reply,
                Step::Wait(promise) => {
                    let fate = fate(promise);
                    break self.service.reply_after_wait(&mut job, fate);
                }
                Step::Again(promise) => {
                    let _ = fate(promise);
                    self.service.run(&mut job)
                }
                Step::Attached => panic!("it was not here before"),
            }
        };
        self.service.finish(&mut job, &reply);
        let mut slices = Vec::new();
        reply.slices(4, &mut slices);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        decode(&bytes[24..]).expect("results")
    }

    /// Behind SEQUENCE.
    fn run(&mut self, ops: Vec<NfsArgop4>) -> Compound4Res {
        let sequence = NfsArgop4::OpSequence(Sequence4Args {
            sa_sessionid: self.session,
            sa_sequenceid: self.next,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        });
        self.next += 1;
        self.send(std::iter::once(sequence).chain(ops).collect())
    }

    /// What SEQUENCE says.
    fn flags(&mut self) -> u32 {
        match self.run(Vec::new()).resarray.0.pop() {
            Some(NfsResop4::OpSequence(Sequence4Res::Nfs4Ok(told))) => told.sr_status_flags,
            other => panic!("{other:?}"),
        }
    }

    /// A file in a dataset, made, and opened so that nobody else may.
    fn open(&mut self, path: &str) -> Stateid4 {
        self.open_by(path, 3, Openflag4::Open4Create(Createhow4::Unchecked4(Fattr4::of(&[]))))
    }

    fn open_by(&mut self, path: &str, access: u32, how: Openflag4) -> Stateid4 {
        let open = NfsArgop4::OpOpen(Open4Args {
            seqid: 0,
            share_access: access,
            share_deny: access,
            owner: OpenOwner4 { clientid: 0, owner: b"o".into() },
            openhow: how,
            claim: OpenClaim4::ClaimNull(b"f".into()),
        });
        let mut told = self.run(at(path, open));
        match told.resarray.0.pop() {
            Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) => opened.stateid,
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, path: &str, stateid: &Stateid4) -> Nfsstat4 {
        let read = NfsArgop4::OpRead(Read4Args { stateid: stateid.clone(), offset: 0, count: 100 });
        self.run(at(&format!("{path}/f"), read)).status
    }

    fn test(&mut self, stateid: &Stateid4) -> Nfsstat4 {
        let ts_stateids = vec![stateid.clone()].into();
        match self.run(vec![NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids })]).resarray.0.pop() {
            Some(NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told))) => told.tsr_status_codes.0[0],
            other => panic!("{other:?}"),
        }
    }

    fn free(&mut self, stateid: &Stateid4) -> Nfsstat4 {
        self.run(vec![NfsArgop4::OpFreeStateid(FreeStateid4Args { fsa_stateid: stateid.clone() })]).status
    }
}

fn fate(promise: Box<dyn Promise>) -> Fate {
    let (told, fate) = channel();
    promise.then(Box::new(move |outcome| _ = told.send(outcome)));
    fate.recv_timeout(PATIENCE).expect("it is kept or broken")
}

fn at(path: &str, then: NfsArgop4) -> Vec<NfsArgop4> {
    let names = path.split('/').map(|name| NfsArgop4::OpLookup(Lookup4Args { objname: name.as_bytes().into() }));
    std::iter::once(NfsArgop4::OpPutrootfh).chain(names).chain([then]).collect()
}

/// `SEQ4_STATUS_ADMIN_STATE_REVOKED`.
const ADMIN_REVOKED: u32 = 0x20;

/// Where nothing can be written down of who has what open: its list asked for ever for a promise that nobody could keep.
#[test]
fn a_pool_that_is_imported_for_reading_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let opener = Arc::new(MemOpener::default());
    opener.put("/a", Arc::new(MemDisk::new(32 << 20)));
    let pools = begin(dir.path(), &opener).keeping_clients(Some(Duration::from_secs(90)));
    pools.create("tank", &["/a".into()], &CreateOptions::default(), Vec::new()).expect("a pool");
    let everybody = Assignment { property: "sharenfs".into(), value: "rw,no_root_squash".into() };
    pools.set_properties("tank", &[everybody]).expect("a property");
    let mut client = Client::new(&pools);
    client.open("tank");
    assert_eq!(
        pools.pool("tank").expect("it is there").filer.datasets().len(),
        1,
        "what is kept of clients is in no list"
    );
    pools.export("tank", None).expect("it is let go");
    let order =
        ImportOrder { pool: "tank".into(), paths: vec!["/a".into()], read_only: true, ..ImportOrder::default() };
    pools.import(&order, &mut |_| {}).expect("it is there again");
    let mut client = Client::new(&pools);
    let stateid = client.open_by("tank", 1, Openflag4::Default(Opentype4::Open4Nocreate));
    assert_eq!(client.read("tank", &stateid), Nfs4Ok);
}

#[test]
fn what_was_open_of_a_pool_or_dataset_that_goes_is_revoked_and_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let opener = Arc::new(MemOpener::default());
    for name in ["/a", "/l"] {
        opener.put(name, Arc::new(MemDisk::new(32 << 20)));
    }
    let pools = pools(dir.path(), &opener);
    let words = ["/a", "log", "/l"].map(String::from);
    pools.create("tank", &words, &CreateOptions::default(), Vec::new()).expect("a pool");
    let everybody = Assignment { property: "sharenfs".into(), value: "rw,no_root_squash".into() };
    pools.set_properties("tank", &[everybody]).expect("a property");
    pools.create_dataset("tank/d", false, &[]).expect("a dataset");
    let mut client = Client::new(&pools);
    let (mine, other) = (client.open("tank"), client.open("tank/d"));
    assert_eq!((client.read("tank", &mine), client.read("tank/d", &other), client.flags()), (Nfs4Ok, Nfs4Ok, 0));

    pools.destroy_dataset("tank/d", false).expect("nothing is below it");
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!((client.test(&mine), client.test(&other)), (Nfs4Ok, Nfs4ErrAdminRevoked));
    assert_eq!((client.free(&other), client.flags()), (Nfs4Ok, 0));

    pools.export("tank", None).expect("it is let go");
    let while_away = client.flags();
    let paths = ["/a", "/l"].map(Into::into).to_vec();
    let order = ImportOrder { pool: "tank".into(), paths, ..ImportOrder::default() };
    pools.import(&order, &mut |_| {}).expect("it is there again");
    assert_eq!((while_away, client.flags()), (ADMIN_REVOKED, ADMIN_REVOKED));
    assert_eq!((client.read("tank", &mine), client.test(&mine)), (Nfs4ErrAdminRevoked, Nfs4ErrAdminRevoked));
    assert_eq!((client.free(&mine), client.flags()), (Nfs4Ok, 0));
    let again = client.open("tank");
    assert_eq!((client.read("tank", &again), client.flags()), (Nfs4Ok, 0));
}
