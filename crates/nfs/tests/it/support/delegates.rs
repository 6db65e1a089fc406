//! Operations about delegations, and what is told of them.

use tally_wire::nfs4::{
    Delegreturn4Args, NfsArgop4, NfsResop4, NfsSpaceLimit4, Nfsstat4, Open4Args, Open4Res, Open4Resok, OpenClaim4,
    OpenDelegation4, OpenDelegationType4, OpenOwner4, Openflag4, Opentype4, StableHow4, Stateid4, TestStateid4Args,
    TestStateid4Res, Write4Args,
};

use super::called::Called;
use super::compound::{Op, lookup, op, put_root};
use super::opener::{READ, open};

/// OPEN of what is there, by this claim.
pub fn open_by(claim: OpenClaim4, share_access: u32, share_deny: u32) -> Op {
    open_of(b"o", claim, share_access, share_deny)
}

/// The same, of this owner.
pub fn open_of(owner: &[u8], claim: OpenClaim4, share_access: u32, share_deny: u32) -> Op {
    op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access,
        share_deny,
        owner: OpenOwner4 { clientid: 0, owner: owner.into() },
        openhow: Openflag4::Default(Opentype4::Open4Nocreate),
        claim,
    }))
}

pub fn give_back(deleg_stateid: Stateid4) -> Op {
    op(&NfsArgop4::OpDelegreturn(Delegreturn4Args { deleg_stateid }))
}

pub fn test(stateid: Stateid4) -> Op {
    op(&NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids: vec![stateid].into() }))
}

pub fn write_by(stateid: Stateid4, data: &[u8]) -> Op {
    let stable = StableHow4::FileSync4;
    op(&NfsArgop4::OpWrite(Write4Args { stateid, offset: 0, stable, data: data.into() }))
}

/// What an OPEN gave, if it did.
pub fn opened(result: Option<NfsResop4>) -> Option<Open4Resok> {
    match result {
        Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) => Some(opened),
        _ => None,
    }
}

/// One for reading, and whether it is asked for already.
pub fn delegated(opened: &Open4Resok) -> Option<(Stateid4, bool)> {
    match &opened.delegation {
        OpenDelegation4::OpenDelegateRead(read) => Some((read.stateid.clone(), read.recall)),
        other => {
            let none = [OpenDelegationType4::OpenDelegateNone, OpenDelegationType4::OpenDelegateNoneExt];
            assert!(none.contains(&other.on()), "{other:?}");
            None
        }
    }
}

/// One for writing, whether it is asked for already, and how much may be written before the server is asked.
pub fn delegated_to_write(opened: &Open4Resok) -> Option<(Stateid4, bool, u64)> {
    match &opened.delegation {
        OpenDelegation4::OpenDelegateWrite(write) => match write.space_limit {
            NfsSpaceLimit4::NfsLimitSize(space) => Some((write.stateid.clone(), write.recall, space)),
            ref other => panic!("{other:?}"),
        },
        other => {
            let read = OpenDelegationType4::OpenDelegateRead;
            let none = [OpenDelegationType4::OpenDelegateNone, OpenDelegationType4::OpenDelegateNoneExt, read];
            assert!(none.contains(&other.on()), "{other:?}");
            None
        }
    }
}

/// Why there is none (`why_no_delegation4`), where the client has said what it wants.
pub fn why_none(opened: &Open4Resok) -> u32 {
    match &opened.delegation {
        OpenDelegation4::OpenDelegateNoneExt(why) => why.on() as u32,
        other => panic!("{other:?}"),
    }
}

/// What TEST_STATEID says of one.
pub fn tested(result: Option<NfsResop4>) -> Nfsstat4 {
    match result {
        Some(NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told))) => told.tsr_status_codes.0[0],
        other => panic!("{other:?}"),
    }
}

impl Called {
    /// What the last of these gave, in the tank.
    pub fn in_tank(&mut self, ops: &[Op]) -> (Nfsstat4, Option<NfsResop4>) {
        let mut reply = self.run(&[&[put_root(), lookup(b"tank")], ops].concat());
        (reply.status, reply.resarray.0.pop())
    }

    /// The same, of a file of it.
    pub fn on(&mut self, name: &[u8], asked: Op) -> (Nfsstat4, Option<NfsResop4>) {
        self.in_tank(&[lookup(name), asked])
    }

    /// The delegation that an OPEN to read gives.
    pub fn delegated(&mut self, name: &[u8]) -> Option<Stateid4> {
        let (status, result) = self.in_tank(&[open(name, READ, 0)]);
        assert_eq!(status, Nfsstat4::Nfs4Ok);
        delegated(&opened(result).unwrap()).map(|(stateid, _)| stateid)
    }
}
