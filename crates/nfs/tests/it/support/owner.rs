//! Operations of owners of minor version 0, and who introduces himself before them.

use tally_wire::nfs4::{
    CbClient4, Close4Args, ExistLockOwner4, Fattr4, Fattr4Value, Lock4Args, Lock4Res, Locker4, Lockt4Args, Locku4Args,
    Locku4Res, Netaddr4, NfsArgop4, NfsClientId4, NfsLockType4, NfsResop4, Open4Args, Open4Res, Open4Resok, OpenClaim4,
    OpenConfirm4Args, OpenConfirm4Res, OpenDowngrade4Args, OpenOwner4, OpenToLockOwner4, Openflag4, Opentype4,
    Read4Args, ReleaseLockowner4Args, Setclientid4Args, Setclientid4Res, SetclientidConfirm4Args, StableHow4,
    StateOwner4, Stateid4, Write4Args,
};

use super::compound::{Op, lookup, op, put_root};
use tally_wire::nfs4::{Compound4Res, Createhow4};

/// Whose an operation is, and its seqid.
#[derive(Clone, Debug)]
pub struct Owner {
    pub client: u64,
    pub name: Vec<u8>,
    pub next: u32,
}

impl Owner {
    pub fn new(client: u64, name: &[u8]) -> Self {
        // Any will do at first.
        Self { client, name: name.to_vec(), next: 41 }
    }

    /// With this seqid.
    pub fn at(&self, next: u32) -> Self {
        Self { next, ..self.clone() }
    }

    pub fn open_as(&self, (access, deny): (u32, u32), how: Openflag4, claim: OpenClaim4) -> Op {
        op(&NfsArgop4::OpOpen(Open4Args {
            seqid: self.next,
            share_access: access,
            share_deny: deny,
            owner: OpenOwner4 { clientid: self.client, owner: self.name.clone().into() },
            openhow: how,
            claim,
        }))
    }

    pub fn open(&self, name: &[u8], access: u32, deny: u32) -> Op {
        self.open_as((access, deny), find(), OpenClaim4::ClaimNull(name.into()))
    }

    /// Makes a file that is not there, for reading and writing.
    pub fn make(&self, name: &[u8]) -> Op {
        let how = Createhow4::Guarded4(Fattr4::of(&[Fattr4Value::Fattr4Mode(0o600)]));
        self.open_as((3, 0), Openflag4::Open4Create(how), OpenClaim4::ClaimNull(name.into()))
    }

    pub fn confirm(&self, open_stateid: Stateid4) -> Op {
        op(&NfsArgop4::OpOpenConfirm(OpenConfirm4Args { open_stateid, seqid: self.next }))
    }

    pub fn close(&self, open_stateid: Stateid4) -> Op {
        op(&NfsArgop4::OpClose(Close4Args { seqid: self.next, open_stateid }))
    }

    pub fn downgrade(&self, open_stateid: Stateid4, share_access: u32, share_deny: u32) -> Op {
        let seqid = self.next;
        op(&NfsArgop4::OpOpenDowngrade(OpenDowngrade4Args { open_stateid, seqid, share_access, share_deny }))
    }
}

/// Of an owner of locks.
impl Owner {
    pub fn lock_as(&self, (kind, reclaim): (NfsLockType4, bool), (offset, length): (u64, u64), locker: Locker4) -> Op {
        op(&NfsArgop4::OpLock(Lock4Args { locktype: kind, reclaim, offset, length, locker }))
    }

    /// By which it begins below an open of that owner.
    pub fn below(&self, opener: &Self, open: &Stateid4) -> Locker4 {
        Locker4::True(OpenToLockOwner4 {
            open_seqid: opener.next,
            open_stateid: open.clone(),
            lock_seqid: self.next,
            lock_owner: self.of_locks(),
        })
    }

    pub fn lock_below(&self, opener: &Self, open: &Stateid4, kind: NfsLockType4, range: (u64, u64)) -> Op {
        self.lock_as((kind, false), range, self.below(opener, open))
    }

    pub fn lock_again(&self, of: &Stateid4, kind: NfsLockType4, range: (u64, u64)) -> Op {
        let locker = Locker4::False(ExistLockOwner4 { lock_stateid: of.clone(), lock_seqid: self.next });
        self.lock_as((kind, false), range, locker)
    }

    pub fn unlock(&self, of: &Stateid4, (offset, length): (u64, u64)) -> Op {
        let (seqid, lock_stateid) = (self.next, of.clone());
        op(&NfsArgop4::OpLocku(Locku4Args { locktype: NfsLockType4::WriteLt, seqid, lock_stateid, offset, length }))
    }

    pub fn test(&self, kind: NfsLockType4, (offset, length): (u64, u64)) -> Op {
        op(&NfsArgop4::OpLockt(Lockt4Args { locktype: kind, offset, length, owner: self.of_locks() }))
    }

    pub fn release(&self) -> Op {
        op(&NfsArgop4::OpReleaseLockowner(ReleaseLockowner4Args { lock_owner: self.of_locks() }))
    }

    fn of_locks(&self) -> StateOwner4 {
        StateOwner4 { clientid: self.client, owner: self.name.clone().into() }
    }
}

/// The stateid that LOCK or LOCKU gave.
pub fn locked(reply: &Compound4Res) -> Stateid4 {
    match reply.resarray.last() {
        Some(NfsResop4::OpLock(Lock4Res::Nfs4Ok(told))) => told.lock_stateid.clone(),
        Some(NfsResop4::OpLocku(Locku4Res::Nfs4Ok(unlocked))) => unlocked.clone(),
        other => panic!("{other:?}"),
    }
}

pub fn find() -> Openflag4 {
    Openflag4::Default(Opentype4::Open4Nocreate)
}

pub fn read_by(of: &Stateid4) -> Op {
    op(&NfsArgop4::OpRead(Read4Args { stateid: of.clone(), offset: 0, count: 100 }))
}

pub fn write_by(of: &Stateid4, data: &[u8]) -> Op {
    let (offset, stable) = (0, StableHow4::FileSync4);
    op(&NfsArgop4::OpWrite(Write4Args { stateid: of.clone(), offset, stable, data: data.into() }))
}

/// The way to a name in the tank, and what is asked there.
pub fn at(name: &[u8], last: Op) -> Vec<Op> {
    vec![put_root(), lookup(b"tank"), lookup(name), last]
}

pub fn in_tank(last: Op) -> Vec<Op> {
    vec![put_root(), lookup(b"tank"), last]
}

pub fn introduce(name: &[u8], start: u8) -> Op {
    let cb_location = Netaddr4 { na_r_netid: b"tcp".into(), na_r_addr: b"10.0.0.1.3.4".into() };
    op(&NfsArgop4::OpSetclientid(Setclientid4Args {
        client: NfsClientId4 { verifier: [start; 8], id: name.into() },
        callback: CbClient4 { cb_program: 0x4000_0000, cb_location },
        callback_ident: 1,
    }))
}

/// What SETCLIENTID gave: the id, and its confirmation.
pub fn introduced(reply: &Compound4Res) -> (u64, Op) {
    match reply.resarray.last() {
        Some(NfsResop4::OpSetclientid(Setclientid4Res::Nfs4Ok(told))) => {
            let (clientid, setclientid_confirm) = (told.clientid, told.setclientid_confirm);
            let confirm = SetclientidConfirm4Args { clientid, setclientid_confirm };
            (clientid, op(&NfsArgop4::OpSetclientidConfirm(confirm)))
        }
        other => panic!("{other:?}"),
    }
}

pub fn opened(reply: &Compound4Res) -> Open4Resok {
    let of = |result: &NfsResop4| match result {
        NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened)) => Some(opened.clone()),
        _ => None,
    };
    reply.resarray.iter().find_map(of).unwrap_or_else(|| panic!("{reply:?}"))
}

pub fn confirmed(reply: &Compound4Res) -> Stateid4 {
    match reply.resarray.last() {
        Some(NfsResop4::OpOpenConfirm(OpenConfirm4Res::Nfs4Ok(confirmed))) => confirmed.open_stateid.clone(),
        other => panic!("{other:?}"),
    }
}
