//! Clients of minor version 1 that open files, several of them over one scene.

use std::sync::Arc;

use tally_nfs::link::Link;
use tally_wire::nfs4::{
    Close4Args, Compound4Res, DestroyClientid4Args, DestroySession4Args, FreeStateid4Args, NfsArgop4, NfsResop4,
    Nfsstat4, Open4Args, Open4Res, Open4Resok, OpenClaim4, OpenOwner4, Openflag4, Opentype4, Read4Args, Sequence4Res,
    Sessionid4, Stateid4, TestStateid4Args, TestStateid4Res,
};

use super::compound::{Op, op};
use super::scene::Scene;
use super::session::{Newcomer, complete, sequence};

pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const BOTH: u32 = 3;

/// A client with a session, and the sequence of its one slot.
pub struct Opener {
    pub scene: Arc<Scene>,
    pub link: Arc<Link>,
    pub client: u64,
    pub session: Sessionid4,
    pub next: u32,
    xid: u32,
}

impl Opener {
    pub fn new() -> Self {
        let scene = Arc::new(Scene { minor: 1, ..Scene::new() });
        Self::beside(&scene, "a client", 1)
    }

    /// Another one, over connection `number`.
    pub fn beside(scene: &Arc<Scene>, name: &str, number: u64) -> Self {
        Self::try_beside(scene, name, (number, 1)).expect("it is let in")
    }

    /// One from the address 127.0.1.`address`, if it is let in.
    pub fn try_beside(scene: &Arc<Scene>, name: &str, (number, address): (u64, u8)) -> Result<Self, Nfsstat4> {
        let link = Arc::new(Link::new(number, (std::net::Ipv4Addr::new(127, 0, 1, address), 700).into()));
        let mut one =
            Self { scene: scene.clone(), link, client: 0, session: [0; 16], next: 1, xid: 1000 * number as u32 };
        let entered = Newcomer::named(name.as_bytes()).enter(|ops| one.send(ops))?;
        (one.client, one.session) = (entered.client, entered.session);
        assert_eq!(one.status(&[complete()]), Nfsstat4::Nfs4Ok);
        Ok(one)
    }

    /// A compound outside of any session.
    pub fn send(&mut self, ops: &[Op]) -> Compound4Res {
        self.xid += 1;
        let (mut job, step) = self.scene.begin_on(&self.link, self.xid, ops);
        self.scene.end(&mut job, step, ops)
    }

    pub fn sequence(&mut self) -> Op {
        self.next += 1;
        sequence(self.session, 0, self.next - 1, false)
    }

    /// A compound in the tank, behind SEQUENCE and PUTFH.
    pub fn compound(&mut self, ops: &[Op]) -> Compound4Res {
        let head = [self.sequence(), self.scene.put_tank()];
        self.send(&[&head[..], ops].concat())
    }

    pub fn run(&mut self, ops: &[Op]) -> Vec<NfsResop4> {
        self.compound(ops).resarray.0.into_iter().skip(2).collect()
    }

    pub fn status(&mut self, ops: &[Op]) -> Nfsstat4 {
        self.compound(ops).status
    }

    /// What SEQUENCE says.
    pub fn flags(&mut self) -> u32 {
        let sequence = self.sequence();
        match self.send(&[sequence]).resarray.0.pop() {
            Some(NfsResop4::OpSequence(Sequence4Res::Nfs4Ok(told))) => told.sr_status_flags,
            other => panic!("{other:?}"),
        }
    }

    pub fn opened(&mut self, open: Op) -> Open4Resok {
        match self.run(&[open]).pop() {
            Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) => opened,
            other => panic!("{other:?}"),
        }
    }

    /// What TEST_STATEID says.
    pub fn tested(&mut self, stateids: &[&Stateid4]) -> Vec<Nfsstat4> {
        let ts_stateids = stateids.iter().copied().cloned().collect::<Vec<_>>().into();
        match self.run(&[op(&NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids }))]).pop() {
            Some(NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told))) => told.tsr_status_codes.0,
            other => panic!("{other:?}"),
        }
    }

    /// DESTROY_SESSION and DESTROY_CLIENTID.
    pub fn leave(&mut self) -> [Nfsstat4; 2] {
        let session = op(&NfsArgop4::OpDestroySession(DestroySession4Args { dsa_sessionid: self.session }));
        let client = op(&NfsArgop4::OpDestroyClientid(DestroyClientid4Args { dca_clientid: self.client }));
        [session, client].map(|ask| self.send(&[ask]).status)
    }
}

pub fn open_as(owner: &[u8], name: &[u8], (access, deny): (u32, u32), how: Openflag4) -> Op {
    op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: access,
        share_deny: deny,
        owner: OpenOwner4 { clientid: 0, owner: owner.into() },
        openhow: how,
        claim: OpenClaim4::ClaimNull(name.into()),
    }))
}

pub fn find() -> Openflag4 {
    Openflag4::Default(Opentype4::Open4Nocreate)
}

pub fn open(name: &[u8], access: u32, deny: u32) -> Op {
    open_as(b"o", name, (access, deny), find())
}

pub fn close(of: Stateid4) -> Op {
    op(&NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: of }))
}

pub fn free(fsa_stateid: Stateid4) -> Op {
    op(&NfsArgop4::OpFreeStateid(FreeStateid4Args { fsa_stateid }))
}

pub fn read_by(of: Stateid4) -> Op {
    op(&NfsArgop4::OpRead(Read4Args { stateid: of, offset: 0, count: 100 }))
}
