//! A client of minor version 1 with a session, over a scene.

use tally_wire::nfs4::{
    ChannelAttrs4, ClientOwner4, Compound4Res, CreateSession4Args, CreateSession4Res, ExchangeId4Args, ExchangeId4Res,
    NfsArgop4, NfsResop4, Nfsstat4, Sequence4Args, Sessionid4, StateProtect4A,
};

use super::compound::{Op, op};
use super::scene::Scene;

/// A client with a session.
pub struct Session {
    pub scene: Scene,
    pub client: u64,
    pub session: Sessionid4,
    pub xid: u32,
}

pub fn channel() -> ChannelAttrs4 {
    ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 8192,
        ca_maxresponsesize: 8192,
        ca_maxresponsesize_cached: 1024,
        ca_maxoperations: 8,
        ca_maxrequests: 4,
        ca_rdma_ird: Vec::new().into(),
    }
}

pub fn exchange_id(name: &[u8]) -> Op {
    op(&NfsArgop4::OpExchangeId(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: [1; 8], co_ownerid: name.into() },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::Sp4None,
        eia_client_impl_id: Vec::new().into(),
    }))
}

pub fn create_session(client: u64, sequence: u32) -> Op {
    op(&NfsArgop4::OpCreateSession(CreateSession4Args {
        csa_clientid: client,
        csa_sequence: sequence,
        csa_flags: 0,
        csa_fore_chan_attrs: channel(),
        csa_back_chan_attrs: channel(),
        csa_cb_program: 0x4000_0000,
        csa_sec_parms: Vec::new().into(),
    }))
}

impl Session {
    pub fn new() -> Self {
        let scene = Scene { minor: 1, ..Scene::new() };
        let mut reply = scene.run(1, &[exchange_id(b"a client")]);
        let Some(NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known))) = reply.resarray.0.pop() else { panic!() };
        let (client, sequence) = (known.eir_clientid, known.eir_sequenceid);
        let mut reply = scene.run(2, &[create_session(client, sequence)]);
        let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = reply.resarray.0.pop() else {
            panic!()
        };
        assert_eq!((created.csr_fore_chan_attrs.ca_maxrequests, created.csr_fore_chan_attrs.ca_maxoperations), (4, 8));
        Self { scene, client, session: created.csr_sessionid, xid: 100 }
    }

    /// SEQUENCE on the first slot.
    pub fn sequence(&self, sequence: u32, cache_this: bool) -> Op {
        self.sequence_on(0, sequence, cache_this)
    }

    pub fn sequence_on(&self, slot: u32, sequence: u32, cache_this: bool) -> Op {
        op(&NfsArgop4::OpSequence(Sequence4Args {
            sa_sessionid: self.session,
            sa_sequenceid: sequence,
            sa_slotid: slot,
            sa_highest_slotid: slot,
            sa_cachethis: cache_this,
        }))
    }

    /// A compound under another xid, which waits for nothing.
    pub fn run(&mut self, ops: &[Op]) -> Compound4Res {
        self.xid += 1;
        self.scene.run(self.xid, ops)
    }

    pub fn status(&mut self, ops: &[Op]) -> Nfsstat4 {
        self.run(ops).status
    }

    pub fn tank(&self) -> Op {
        self.scene.put_tank()
    }
}
