//! A client of minor version 1 with a session, over a scene.

use tally_wire::nfs4::{
    CallbackSecParms4, ChannelAttrs4, ClientOwner4, Compound4Res, CreateSession4Args, CreateSession4Res,
    CreateSession4Resok, ExchangeId4Args, ExchangeId4Res, NfsArgop4, NfsResop4, Nfsstat4, ReclaimComplete4Args,
    Sequence4Args, Sessionid4, StateProtect4A,
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

/// Who comes in by EXCHANGE_ID and CREATE_SESSION, and as what.
pub struct Newcomer<'a> {
    pub name: &'a [u8],
    pub verifier: u8,
    /// `CREATE_SESSION4_FLAG_*`.
    pub flags: u32,
    pub fore: ChannelAttrs4,
    pub back: ChannelAttrs4,
    pub program: u32,
    pub parms: &'a [CallbackSecParms4],
}

/// Who is in.
pub struct Entered {
    pub client: u64,
    pub session: Sessionid4,
    pub created: CreateSession4Resok,
}

impl<'a> Newcomer<'a> {
    /// One that is not called back.
    pub fn named(name: &'a [u8]) -> Self {
        let (fore, back) = (channel(), channel());
        Self { name, verifier: 1, flags: 0, fore, back, program: 0x4000_0000, parms: &[] }
    }

    pub fn introduction(&self) -> Op {
        op(&NfsArgop4::OpExchangeId(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: [self.verifier; 8], co_ownerid: self.name.into() },
            eia_flags: 0,
            eia_state_protect: StateProtect4A::Sp4None,
            eia_client_impl_id: Vec::new().into(),
        }))
    }

    pub fn session(&self, client: u64, sequence: u32) -> Op {
        op(&NfsArgop4::OpCreateSession(CreateSession4Args {
            csa_clientid: client,
            csa_sequence: sequence,
            csa_flags: self.flags,
            csa_fore_chan_attrs: self.fore.clone(),
            csa_back_chan_attrs: self.back.clone(),
            csa_cb_program: self.program,
            csa_sec_parms: self.parms.to_vec().into(),
        }))
    }

    /// Comes in over whatever carries its compounds, if it is let in.
    pub fn enter(&self, mut send: impl FnMut(&[Op]) -> Compound4Res) -> Result<Entered, Nfsstat4> {
        let mut told = send(&[self.introduction()]);
        let Some(NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known))) = told.resarray.0.pop() else {
            return Err(told.status);
        };
        let client = known.eir_clientid;
        let mut told = send(&[self.session(client, known.eir_sequenceid)]);
        let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = told.resarray.0.pop() else {
            return Err(told.status);
        };
        Ok(Entered { client, session: created.csr_sessionid, created })
    }
}

pub fn exchange_id(name: &[u8]) -> Op {
    Newcomer::named(name).introduction()
}

pub fn create_session(client: u64, sequence: u32) -> Op {
    Newcomer::named(b"").session(client, sequence)
}

/// RECLAIM_COMPLETE.
pub fn complete() -> Op {
    op(&NfsArgop4::OpReclaimComplete(ReclaimComplete4Args { rca_one_fs: false }))
}

/// SEQUENCE on a slot, and whether the reply is to be kept.
pub fn sequence(session: Sessionid4, slot: u32, sequence: u32, cache_this: bool) -> Op {
    op(&NfsArgop4::OpSequence(Sequence4Args {
        sa_sessionid: session,
        sa_sequenceid: sequence,
        sa_slotid: slot,
        sa_highest_slotid: slot,
        sa_cachethis: cache_this,
    }))
}

impl Session {
    pub fn new() -> Self {
        let scene = Scene { minor: 1, ..Scene::new() };
        let mut xid = 0;
        let entered = Newcomer::named(b"a client").enter(|ops| {
            xid += 1;
            scene.run(xid, ops)
        });
        let Entered { client, session, created } = entered.expect("it is let in");
        assert_eq!((created.csr_fore_chan_attrs.ca_maxrequests, created.csr_fore_chan_attrs.ca_maxoperations), (4, 8));
        Self { scene, client, session, xid: 100 }
    }

    /// SEQUENCE on the first slot.
    pub fn sequence(&self, sequence: u32, cache_this: bool) -> Op {
        self.sequence_on(0, sequence, cache_this)
    }

    pub fn sequence_on(&self, slot: u32, number: u32, cache_this: bool) -> Op {
        sequence(self.session, slot, number, cache_this)
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
