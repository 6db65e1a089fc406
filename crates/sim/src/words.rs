//! Compounds of version 4 as bytes, by the codec that is generated from the RFCs' own XDR: the server's is by hand.

use bytes::Bytes;
use tally_nfs::rpc::{Outgoing, Returned};
use tally_nfs::{v3, v4};
use tally_vfs::Cred;
use tally_wire::nfs4::{
    Allocate4Args, BindConnToSession4Args, CallbackSecParms4, CbClient4, CbCompound4Args, CbCompound4Res,
    CbGetattr4Res, CbGetattr4Resok, CbRecall4Res, CbSequence4Args, CbSequence4Res, CbSequence4Resok, ChannelAttrs4,
    ChannelDirFromClient4, ClientOwner4, Close4Args, Compound4Args, Compound4Res, Create4Args, CreateSession4Args,
    Createhow4, Createtype4, Deallocate4Args, Delegreturn4Args, ExchangeId4Args, Fattr4, Fattr4Value, FreeStateid4Args,
    Getattr4Args, Lock4Args, Locker4, Lockt4Args, Locku4Args, Netaddr4, NfsArgop4, NfsCbArgop4, NfsCbResop4,
    NfsClientId4, NfsLockType4, NfsResop4, Nfsstat4, Open4Args, OpenClaim4, OpenDelegationType4, OpenDowngrade4Args,
    OpenOwner4, OpenToLockOwner4, Openflag4, Opentype4, Putfh4Args, Read4Args, ReclaimComplete4Args, Remove4Args,
    Rename4Args, Sequence4Args, Sessionid4, Setclientid4Args, SetclientidConfirm4Args, StableHow4, StateProtect4A,
    Stateid4, TestStateid4Args, Write4Args,
};
use tally_wire::{bitmap, decode, encode};

type Checked<T> = Result<T, String>;

/// An operation with its arguments, encoded.
pub(crate) type Op = Vec<u8>;

/// `change` and `size` by their numbers.
const SHOWN: [u32; 2] = [3, 4];
/// `CREATE_SESSION4_FLAG_CONN_BACK_CHAN`.
const CALLS_BACK: u32 = 2;
/// `CREATE_SESSION4_FLAG_PERSIST`.
pub(crate) const PERSISTS: u32 = 1;
/// `SEQ4_STATUS_RECALLABLE_STATE_REVOKED`.
const RECALLABLE_REVOKED: u32 = 0x40;

/// What an OPEN does about its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// NOCREATE.
    Find,
    /// UNCHECKED.
    Make,
    /// UNCHECKED with size 0.
    Cut,
    /// GUARDED.
    New,
    /// EXCLUSIVE4_1 with this verifier.
    Exclusive(u64),
}

/// The slot that a compound is carried out in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InSlot {
    pub(crate) session: Sessionid4,
    pub(crate) slot: u32,
    pub(crate) sequence: u32,
}

pub(crate) fn sequence(of: InSlot) -> Op {
    encode(&NfsArgop4::OpSequence(Sequence4Args {
        sa_sessionid: of.session,
        sa_sequenceid: of.sequence,
        sa_slotid: of.slot,
        sa_highest_slotid: 3,
        sa_cachethis: true,
    }))
}

pub(crate) fn exchange_id(name: &[u8], start: u64) -> Op {
    encode(&NfsArgop4::OpExchangeId(ExchangeId4Args {
        eia_clientowner: ClientOwner4 { co_verifier: start.to_be_bytes(), co_ownerid: name.into() },
        eia_flags: 0,
        eia_state_protect: StateProtect4A::Sp4None,
        eia_client_impl_id: Vec::new().into(),
    }))
}

pub(crate) fn create_session(client: u64, sequence: u32, lasts: bool) -> Op {
    let channel = || ChannelAttrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: 16384,
        ca_maxresponsesize: 16384,
        ca_maxresponsesize_cached: 2048,
        ca_maxoperations: 16,
        ca_maxrequests: 4,
        ca_rdma_ird: Vec::new().into(),
    };
    encode(&NfsArgop4::OpCreateSession(CreateSession4Args {
        csa_clientid: client,
        csa_sequence: sequence,
        csa_flags: CALLS_BACK | if lasts { PERSISTS } else { 0 },
        csa_fore_chan_attrs: channel(),
        csa_back_chan_attrs: channel(),
        csa_cb_program: 0x4000_0000,
        csa_sec_parms: vec![CallbackSecParms4::AuthNone].into(),
    }))
}

/// This connection is one of the session, for requests and for calls.
pub(crate) fn bind(session: Sessionid4) -> Op {
    encode(&NfsArgop4::OpBindConnToSession(BindConnToSession4Args {
        bctsa_sessid: session,
        bctsa_dir: ChannelDirFromClient4::Cdfc4ForeOrBoth,
        bctsa_use_conn_in_rdma_mode: false,
    }))
}

pub(crate) fn complete() -> Op {
    encode(&NfsArgop4::OpReclaimComplete(ReclaimComplete4Args { rca_one_fs: false }))
}

pub(crate) fn put(handle: &[u8]) -> Op {
    encode(&NfsArgop4::OpPutfh(Putfh4Args { object: handle.into() }))
}

pub(crate) fn save() -> Op {
    encode(&NfsArgop4::OpSavefh)
}

pub(crate) fn get_handle() -> Op {
    encode(&NfsArgop4::OpGetfh)
}

pub(crate) fn get_change() -> Op {
    encode(&NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(&SHOWN) }))
}

fn opening(owner: &[u8], (access, deny): (u32, u32), openhow: Openflag4, claim: OpenClaim4) -> Op {
    let owner = OpenOwner4 { clientid: 0, owner: owner.into() };
    encode(&NfsArgop4::OpOpen(Open4Args { seqid: 0, share_access: access, share_deny: deny, owner, openhow, claim }))
}

pub(crate) fn open(owner: &[u8], share: (u32, u32), how: How, name: &str) -> Op {
    use tally_wire::nfs4::Creatverfattr;
    let none = || Fattr4::of(&[]);
    let how = match how {
        How::Find => Openflag4::Default(Opentype4::Open4Nocreate),
        How::Make => Openflag4::Open4Create(Createhow4::Unchecked4(none())),
        How::Cut => Openflag4::Open4Create(Createhow4::Unchecked4(Fattr4::of(&[Fattr4Value::Fattr4Size(0)]))),
        How::New => Openflag4::Open4Create(Createhow4::Guarded4(none())),
        How::Exclusive(verifier) => Openflag4::Open4Create(Createhow4::Exclusive41(Creatverfattr {
            cva_verf: verifier.to_be_bytes(),
            cva_attrs: none(),
        })),
    };
    opening(owner, share, how, OpenClaim4::ClaimNull(name.as_bytes().into()))
}

/// What its client had open, and perhaps to keep, be it for writing.
pub(crate) fn open_again(owner: &[u8], share: (u32, u32), keeps: Option<bool>) -> Op {
    let claim = OpenClaim4::ClaimPrevious(match keeps {
        Some(true) => OpenDelegationType4::OpenDelegateWrite,
        Some(false) => OpenDelegationType4::OpenDelegateRead,
        None => OpenDelegationType4::OpenDelegateNone,
    });
    opening(owner, share, Openflag4::Default(Opentype4::Open4Nocreate), claim)
}

pub(crate) fn close(of: &Stateid4) -> Op {
    encode(&NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: of.clone() }))
}

pub(crate) fn downgrade(of: &Stateid4, (share_access, share_deny): (u32, u32)) -> Op {
    let open_stateid = of.clone();
    encode(&NfsArgop4::OpOpenDowngrade(OpenDowngrade4Args { open_stateid, seqid: 0, share_access, share_deny }))
}

const fn kind(writes: bool) -> NfsLockType4 {
    if writes { NfsLockType4::WriteLt } else { NfsLockType4::ReadLt }
}

/// LOCK of so many bytes by an owner below an open.
pub(crate) fn lock(below: &Stateid4, owner: &[u8], writes: bool, (offset, length): (u64, u64), reclaim: bool) -> Op {
    let lock_owner = OpenOwner4 { clientid: 0, owner: owner.into() };
    let open_stateid = below.clone();
    let locker = Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner });
    encode(&NfsArgop4::OpLock(Lock4Args { locktype: kind(writes), reclaim, offset, length, locker }))
}

pub(crate) fn test(owner: &[u8], writes: bool, (offset, length): (u64, u64)) -> Op {
    let owner = OpenOwner4 { clientid: 0, owner: owner.into() };
    encode(&NfsArgop4::OpLockt(Lockt4Args { locktype: kind(writes), offset, length, owner }))
}

pub(crate) fn unlock(of: &Stateid4, (offset, length): (u64, u64)) -> Op {
    let lock_stateid = of.clone();
    encode(&NfsArgop4::OpLocku(Locku4Args { locktype: kind(true), seqid: 0, lock_stateid, offset, length }))
}

pub(crate) fn give_back(deleg_stateid: &Stateid4) -> Op {
    encode(&NfsArgop4::OpDelegreturn(Delegreturn4Args { deleg_stateid: deleg_stateid.clone() }))
}

pub(crate) fn test_stateid(of: &Stateid4) -> Op {
    encode(&NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids: vec![of.clone()].into() }))
}

pub(crate) fn free_stateid(of: &Stateid4) -> Op {
    encode(&NfsArgop4::OpFreeStateid(FreeStateid4Args { fsa_stateid: of.clone() }))
}

/// The stateid that stands for no open.
pub(crate) fn nobodys() -> Stateid4 {
    Stateid4 { seqid: 0, other: [0; 12] }
}

pub(crate) fn read(by: &Stateid4, offset: u64, count: u32) -> Op {
    encode(&NfsArgop4::OpRead(Read4Args { stateid: by.clone(), offset, count }))
}

pub(crate) fn write(by: &Stateid4, offset: u64, data: &[u8], is_stable: bool) -> Op {
    let stable = if is_stable { StableHow4::FileSync4 } else { StableHow4::Unstable4 };
    encode(&NfsArgop4::OpWrite(Write4Args { stateid: by.clone(), offset, stable, data: data.into() }))
}

pub(crate) fn allocate(by: &Stateid4, aa_offset: u64, aa_length: u64) -> Op {
    encode(&NfsArgop4::OpAllocate(Allocate4Args { aa_stateid: by.clone(), aa_offset, aa_length }))
}

pub(crate) fn deallocate(by: &Stateid4, da_offset: u64, da_length: u64) -> Op {
    encode(&NfsArgop4::OpDeallocate(Deallocate4Args { da_stateid: by.clone(), da_offset, da_length }))
}

pub(crate) fn make_directory(name: &str) -> Op {
    let (objtype, objname) = (Createtype4::Nf4Dir, name.as_bytes().into());
    encode(&NfsArgop4::OpCreate(Create4Args { objtype, objname, createattrs: Fattr4::of(&[]) }))
}

pub(crate) fn remove(name: &str) -> Op {
    encode(&NfsArgop4::OpRemove(Remove4Args { target: name.as_bytes().into() }))
}

pub(crate) fn rename(from: &str, to: &str) -> Op {
    encode(&NfsArgop4::OpRename(Rename4Args { oldname: from.as_bytes().into(), newname: to.as_bytes().into() }))
}

/// SETCLIENTID of a client that nobody can call.
pub(crate) fn set_client_id(name: &[u8], start: u64) -> Op {
    let cb_location = Netaddr4 { na_r_netid: Vec::new().into(), na_r_addr: Vec::new().into() };
    encode(&NfsArgop4::OpSetclientid(Setclientid4Args {
        client: NfsClientId4 { verifier: start.to_be_bytes(), id: name.into() },
        callback: CbClient4 { cb_program: 0, cb_location },
        callback_ident: 0,
    }))
}

pub(crate) fn confirm_client_id(clientid: u64, setclientid_confirm: [u8; 8]) -> Op {
    encode(&NfsArgop4::OpSetclientidConfirm(SetclientidConfirm4Args { clientid, setclientid_confirm }))
}

/// A call's record, without its mark, of root by AUTH_SYS.
pub(crate) fn record(minorversion: u32, xid: u32, ops: &[Op]) -> Bytes {
    record_by(&Cred::root(), minorversion, xid, ops)
}

/// The same of somebody.
pub(crate) fn record_by(who: &Cred, minorversion: u32, xid: u32, ops: &[Op]) -> Bytes {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    // Stamp, an empty name, uid, gid and groups.
    let cred = words(&[&[0, 0, who.uid, who.gid, who.groups.len() as u32], &who.groups[..]].concat());
    let mut record = words(&[xid, 0, 2, v3::PROGRAM, v4::VERSION, 1, 1, cred.len() as u32]);
    record.extend(cred);
    record.extend(words(&[0, 0]));
    let mut arguments = encode(&Compound4Args { tag: b""[..].into(), minorversion, argarray: Vec::new().into() });
    // The list's length, which is its last word, becomes that of these.
    arguments.truncate(arguments.len() - 4);
    record.extend(arguments);
    record.extend(words(&[ops.len() as u32]));
    record.extend(ops.concat());
    record.into()
}

/// What stands behind the header of a reply, which has to be one to a call that was carried out.
pub(crate) fn results_in(bytes: &[u8]) -> Checked<Vec<u8>> {
    let header: Vec<u32> =
        bytes.chunks(4).skip(1).take(5).map(|word| word.try_into().map_or(u32::MAX, u32::from_be_bytes)).collect();
    if header != [1, 0, 0, 0, 0] || bytes.len() < 24 {
        return Err(format!("a compound is answered with the header {header:?}"));
    }
    Ok(bytes[24..].to_vec())
}

/// The results of a compound of these, to their last byte: one of each operation, up to the first that is not OK.
pub(crate) fn results(bytes: &[u8], ops: &[Op]) -> Checked<Told> {
    let reply: Compound4Res = decode(bytes).map_err(|error| format!("{error:?} in the results of {ops:x?}"))?;
    let count = reply.resarray.0.len();
    if count != ops.len() && reply.status == Nfsstat4::Nfs4Ok || count > ops.len() {
        return Err(format!("{count} results of {} operations", ops.len()));
    }
    Ok(Told { status: reply.status, results: reply.resarray.0 })
}

/// What a client is called for.
#[derive(Clone, Debug)]
pub(crate) enum Called {
    Recall(Stateid4),
    /// How a file is by now that it has for writing.
    Look(Vec<u8>),
}

/// A call of the server's: CB_SEQUENCE, and CB_RECALL or CB_GETATTR.
pub(crate) fn called_for(call: &Outgoing) -> Checked<(CbSequence4Args, Called)> {
    let asked: CbCompound4Args = decode(&call.arguments).map_err(|error| format!("{error:?} in a call"))?;
    match &asked.argarray[..] {
        [NfsCbArgop4::OpCbSequence(sequence), NfsCbArgop4::OpCbRecall(recall)] => {
            Ok((sequence.clone(), Called::Recall(recall.stateid.clone())))
        }
        [NfsCbArgop4::OpCbSequence(sequence), NfsCbArgop4::OpCbGetattr(look)]
            if look.attr_request == bitmap(&SHOWN) =>
        {
            Ok((sequence.clone(), Called::Look(look.fh.0.clone())))
        }
        other => Err(format!("a client is called for {other:?}")),
    }
}

fn answer(asked: &CbSequence4Args, status: Nfsstat4, result: NfsCbResop4) -> Returned {
    let sequence = CbSequence4Res::Nfs4Ok(CbSequence4Resok {
        csr_sessionid: asked.csa_sessionid,
        csr_sequenceid: asked.csa_sequenceid,
        csr_slotid: asked.csa_slotid,
        csr_highest_slotid: 3,
        csr_target_highest_slotid: 3,
    });
    let all = vec![NfsCbResop4::OpCbSequence(sequence), result];
    Returned::Results(encode(&CbCompound4Res { status, tag: b""[..].into(), resarray: all.into() }).into())
}

/// What a client says to a recall.
pub(crate) fn answer_to(asked: &CbSequence4Args, status: Nfsstat4) -> Returned {
    answer(asked, status, NfsCbResop4::OpCbRecall(CbRecall4Res { status }))
}

/// What it says of a file's change and size; none: that it has none.
pub(crate) fn attributes_are(asked: &CbSequence4Args, is: Option<(u64, u64)>) -> Returned {
    let (status, result) = match is {
        None => (Nfsstat4::Nfs4ErrBadhandle, CbGetattr4Res::Default(Nfsstat4::Nfs4ErrBadhandle)),
        Some((change, size)) => {
            let values = [Fattr4Value::Fattr4Change(change), Fattr4Value::Fattr4Size(size)];
            (Nfsstat4::Nfs4Ok, CbGetattr4Res::Nfs4Ok(CbGetattr4Resok { obj_attributes: Fattr4::of(&values) }))
        }
    };
    answer(asked, status, NfsCbResop4::OpCbGetattr(result))
}

/// What a compound was told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: Nfsstat4,
    pub(crate) results: Vec<NfsResop4>,
}

impl Told {
    pub(crate) fn is_ok(&self) -> bool {
        self.status == Nfsstat4::Nfs4Ok
    }

    /// What each operation was told, up to the first that was not OK.
    pub(crate) fn statuses(&self) -> Vec<Nfsstat4> {
        let mut statuses = vec![Nfsstat4::Nfs4Ok; self.results.len()];
        if let Some(last) = statuses.last_mut() {
            *last = self.status;
        }
        statuses
    }

    /// Whether SEQUENCE itself was refused, which stands first.
    pub(crate) fn is_refused_at_sequence(&self) -> bool {
        self.results.len() == 1 && !self.is_ok()
    }

    /// The first stateid that was given, by OPEN, LOCK, LOCKU or OPEN_DOWNGRADE.
    pub(crate) fn stateid(&self) -> Option<Stateid4> {
        use tally_wire::nfs4::{Lock4Res, Locku4Res, Open4Res, OpenDowngrade4Res};
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok)) => Some(ok.stateid.clone()),
            NfsResop4::OpLock(Lock4Res::Nfs4Ok(ok)) => Some(ok.lock_stateid.clone()),
            NfsResop4::OpLocku(Locku4Res::Nfs4Ok(stateid)) => Some(stateid.clone()),
            NfsResop4::OpOpenDowngrade(OpenDowngrade4Res::Nfs4Ok(ok)) => Some(ok.open_stateid.clone()),
            _ => None,
        })
    }

    /// What OPEN gave to keep, whether it is asked for with the same word, and whether it is for writing.
    pub(crate) fn given_to_keep(&self) -> Checked<Option<(Stateid4, bool, bool)>> {
        use tally_wire::nfs4::{Open4Res, OpenDelegation4};
        let given = self.results.iter().find_map(|result| match result {
            NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok)) => Some(&ok.delegation),
            _ => None,
        });
        match given {
            None | Some(OpenDelegation4::OpenDelegateNone | OpenDelegation4::OpenDelegateNoneExt(_)) => Ok(None),
            Some(OpenDelegation4::OpenDelegateRead(read)) => Ok(Some((read.stateid.clone(), read.recall, false))),
            Some(OpenDelegation4::OpenDelegateWrite(write)) => Ok(Some((write.stateid.clone(), write.recall, true))),
            Some(other) => Err(format!("OPEN gives {other:?}")),
        }
    }

    /// What TEST_STATEID says of one.
    pub(crate) fn tested(&self) -> Option<Nfsstat4> {
        use tally_wire::nfs4::TestStateid4Res;
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(ok)) => ok.tsr_status_codes.0.first().copied(),
            _ => None,
        })
    }

    /// Whether SEQUENCE says that something was taken that was to be given back.
    pub(crate) fn says_that_it_lost(&self) -> Option<bool> {
        use tally_wire::nfs4::Sequence4Res;
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpSequence(Sequence4Res::Nfs4Ok(ok)) => Some(ok.sr_status_flags & RECALLABLE_REVOKED != 0),
            _ => None,
        })
    }

    /// What GETFH gave.
    pub(crate) fn handle(&self) -> Option<Vec<u8>> {
        use tally_wire::nfs4::Getfh4Res;
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpGetfh(Getfh4Res::Nfs4Ok(ok)) => Some(ok.object.0.clone()),
            _ => None,
        })
    }

    fn attributes(&self) -> Option<(u64, u64)> {
        use tally_wire::nfs4::Getattr4Res;
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok)) => match ok.obj_attributes.values().ok()?[..] {
                [Fattr4Value::Fattr4Change(change), Fattr4Value::Fattr4Size(size)] => Some((change, size)),
                _ => None,
            },
            _ => None,
        })
    }

    /// What GETATTR gave: the change.
    pub(crate) fn change(&self) -> Option<u64> {
        self.attributes().map(|(change, _)| change)
    }

    /// And the size.
    pub(crate) fn size(&self) -> Option<u64> {
        self.attributes().map(|(_, size)| size)
    }

    /// What READ gave.
    pub(crate) fn data(&self) -> Option<&[u8]> {
        use tally_wire::nfs4::Read4Res;
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpRead(Read4Res::Nfs4Ok(ok)) => Some(&ok.data.0[..]),
            _ => None,
        })
    }
}
