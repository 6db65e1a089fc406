//! What tests and benchmarks ask often, in the short words that they would use: operations of a client that is root, has one owner of opens and one of
//! locks, and wants nothing of what the protocol offers besides.

use crate::nfs4::{
    ChannelAttrs4, ClientOwner4, Close4Args, Create4Args, CreateSession4Args, Createhow4, Createtype4, Creatverfattr,
    ExchangeId4Args, Fattr4, Fattr4Value, Link4Args, Lock4Args, Locker4, Locku4Args, Lookup4Args, NfsArgop4,
    NfsLockType4, Open4Args, OpenClaim4, OpenDelegationType4, OpenOwner4, OpenToLockOwner4, Openflag4, Opentype4,
    Putfh4Args, Read4Args, Readdir4Args, ReclaimComplete4Args, Remove4Args, Rename4Args, Sequence4Args, Sessionid4,
    StableHow4, StateProtect4A, Stateid4, Write4Args,
};

/// `share_access`: to read and to write.
pub const BOTH: u32 = 3;
/// `csa_flags`: what was carried out in it is remembered over a restart.
pub const PERSISTENT: u32 = 1;
/// Longest request and reply that [`create_session`] asks for, bytes.
const MESSAGE_BYTES: u32 = 64 << 10;
/// Longest reply that a slot keeps, bytes.
const KEPT_BYTES: u32 = 4 << 10;

/// What an OPEN does about its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// NOCREATE.
    Find,
    /// UNCHECKED.
    Make,
    /// GUARDED.
    New,
    /// EXCLUSIVE4_1 with this verifier.
    Exclusive(u64),
}

/// A slot of a session, and what is asked in it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its session.
    pub session: Sessionid4,
    /// The sequence of its request.
    pub sequence: u32,
}

/// SEQUENCE, in a session of one slot.
#[must_use]
pub fn sequence(slot: Slot) -> NfsArgop4 {
    NfsArgop4::OpSequence(Sequence4Args {
        sa_sessionid: slot.session,
        sa_sequenceid: slot.sequence,
        sa_slotid: 0,
        sa_highest_slotid: 0,
        sa_cachethis: true,
    })
}

/// EXCHANGE_ID, of a client that started once.
#[must_use]
pub fn exchange_id(name: &str) -> NfsArgop4 {
    NfsArgop4::OpExchangeId(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: [1; 8], co_ownerid: name.into() },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::Sp4None,
        eia_client_impl_id: Vec::new().into(),
    })
}

/// CREATE_SESSION, of one slot and without a way back.
#[must_use]
pub fn create_session(client: u64, sequence: u32, flags: u32) -> NfsArgop4 {
    let channel = ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: MESSAGE_BYTES,
        ca_maxresponsesize: MESSAGE_BYTES,
        ca_maxresponsesize_cached: KEPT_BYTES,
        ca_maxoperations: 16,
        ca_maxrequests: 1,
        ca_rdma_ird: Vec::new().into(),
    };
    NfsArgop4::OpCreateSession(CreateSession4Args {
        csa_clientid: client,
        csa_sequence: sequence,
        csa_flags: flags,
        csa_fore_chan_attrs: channel.clone(),
        csa_back_chan_attrs: channel,
        csa_cb_program: 0x4000_0000,
        csa_sec_parms: Vec::new().into(),
    })
}

/// RECLAIM_COMPLETE.
#[must_use]
pub fn complete() -> NfsArgop4 {
    NfsArgop4::OpReclaimComplete(ReclaimComplete4Args { rca_one_fs: false })
}

/// PUTFH.
#[must_use]
pub fn put(handle: &[u8]) -> NfsArgop4 {
    NfsArgop4::OpPutfh(Putfh4Args { object: handle.into() })
}

/// LOOKUP.
#[must_use]
pub fn look(name: &str) -> NfsArgop4 {
    NfsArgop4::OpLookup(Lookup4Args { objname: name.into() })
}

/// CREATE of a directory.
#[must_use]
pub fn make_directory(name: &str) -> NfsArgop4 {
    let createattrs = Fattr4::of(&[Fattr4Value::Fattr4Mode(0o755)]);
    NfsArgop4::OpCreate(Create4Args { objtype: Createtype4::Nf4Dir, objname: name.into(), createattrs })
}

fn opening(openhow: Openflag4, claim: OpenClaim4) -> NfsArgop4 {
    let owner = OpenOwner4 { clientid: 0, owner: b"opens".into() };
    NfsArgop4::OpOpen(Open4Args { seqid: 0, share_access: BOTH, share_deny: 0, owner, openhow, claim })
}

/// OPEN, to read and to write.
#[must_use]
pub fn open(how: How, name: &str) -> NfsArgop4 {
    let mode = || Fattr4::of(&[Fattr4Value::Fattr4Mode(0o644)]);
    let how = match how {
        How::Find => None,
        How::Make => Some(Createhow4::Unchecked4(mode())),
        How::New => Some(Createhow4::Guarded4(mode())),
        How::Exclusive(verifier) => {
            Some(Createhow4::Exclusive41(Creatverfattr { cva_verf: verifier.to_be_bytes(), cva_attrs: mode() }))
        }
    };
    let how = how.map_or(Openflag4::Default(Opentype4::Open4Nocreate), Openflag4::Open4Create);
    opening(how, OpenClaim4::ClaimNull(name.into()))
}

/// OPEN of the current file, which was open before a restart of the server.
#[must_use]
pub fn open_again() -> NfsArgop4 {
    let claim = OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateNone);
    opening(Openflag4::Default(Opentype4::Open4Nocreate), claim)
}

/// CLOSE.
#[must_use]
pub fn close(open: &Stateid4) -> NfsArgop4 {
    NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: open.clone() })
}

/// LOCK for writing, below an open.
#[must_use]
pub fn lock(open: &Stateid4, (offset, length): (u64, u64), reclaim: bool) -> NfsArgop4 {
    let lock_owner = OpenOwner4 { clientid: 0, owner: b"locks".into() };
    let open_stateid = open.clone();
    let locker = Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner });
    NfsArgop4::OpLock(Lock4Args { locktype: NfsLockType4::WriteLt, reclaim, offset, length, locker })
}

/// LOCKU.
#[must_use]
pub fn unlock(lock: &Stateid4, (offset, length): (u64, u64)) -> NfsArgop4 {
    let (locktype, lock_stateid) = (NfsLockType4::WriteLt, lock.clone());
    NfsArgop4::OpLocku(Locku4Args { locktype, seqid: 0, lock_stateid, offset, length })
}

/// READ.
#[must_use]
pub fn read(by: &Stateid4, offset: u64, count: u32) -> NfsArgop4 {
    NfsArgop4::OpRead(Read4Args { stateid: by.clone(), offset, count })
}

/// WRITE, durable when it is answered.
#[must_use]
pub fn write(by: &Stateid4, offset: u64, data: &[u8]) -> NfsArgop4 {
    let (stateid, stable) = (by.clone(), StableHow4::FileSync4);
    NfsArgop4::OpWrite(Write4Args { stateid, offset, stable, data: data.into() })
}

/// REMOVE.
#[must_use]
pub fn remove(name: &str) -> NfsArgop4 {
    NfsArgop4::OpRemove(Remove4Args { target: name.into() })
}

/// RENAME, from the saved directory to the current one.
#[must_use]
pub fn rename(from: &str, to: &str) -> NfsArgop4 {
    NfsArgop4::OpRename(Rename4Args { oldname: from.into(), newname: to.into() })
}

/// LINK of the saved file into the current directory.
#[must_use]
pub fn link(name: &str) -> NfsArgop4 {
    NfsArgop4::OpLink(Link4Args { newname: name.into() })
}

/// READDIR behind a cookie with its verifier, names alone.
#[must_use]
pub fn list((cookie, cookieverf): (u64, [u8; 8])) -> NfsArgop4 {
    let (dircount, maxcount, attr_request) = (MESSAGE_BYTES / 2, MESSAGE_BYTES / 2, Vec::new().into());
    NfsArgop4::OpReaddir(Readdir4Args { cookie, cookieverf, dircount, maxcount, attr_request })
}
