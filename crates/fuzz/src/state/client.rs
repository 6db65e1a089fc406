//! A client of the machine: its connection, its session or its owners' order, and calls that it was made.

use bytes::Bytes;
use tally_nfs::rpc::{Calls, Matched, Outgoing};
use tally_nfs::service::Service;
use tally_nfs::v4::state::CallId;
use tally_nfs::{v3, v4};
use tally_wire::nfs4::{
    CallbackSecParms4, CbClient4, ChannelAttrs4, ClientOwner4, Compound4Res, CreateSession4Args, CreateSession4Res,
    ExchangeId4Args, ExchangeId4Res, Getattr4Args, Netaddr4, NfsArgop4, NfsClientId4, NfsResop4, Nfsstat4, Open4Args,
    OpenClaim4, OpenOwner4, Openflag4, Opentype4, Putfh4Args, Sequence4Args, Setclientid4Args, Setclientid4Res,
    SetclientidConfirm4Args, StateProtect4A,
};
use tally_wire::{bitmap, decode, encode};

use crate::house::{TANK, Visit, handle};
use crate::rpc::record;

/// CREATE_SESSION4_FLAG_CONN_BACK_CHAN.
const CALLS_BACK: u32 = 2;
const PROGRAM: u32 = 0x4000_0000;
pub(crate) const SLOTS: usize = 4;
pub(crate) const OWNERS: usize = 2;

pub(crate) type Op = Vec<u8>;

pub(crate) fn op(asked: &NfsArgop4) -> Op {
    encode(asked)
}

pub(crate) fn put(id: u64) -> Op {
    op(&NfsArgop4::OpPutfh(Putfh4Args { object: handle(TANK, id).into() }))
}

pub(crate) fn get_attr(number: u32) -> Op {
    op(&NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(&[number]) }))
}

fn arguments(minor: u32, ops: &[Op]) -> Vec<u8> {
    let mut arguments = [0, minor, ops.len() as u32].map(u32::to_be_bytes).concat();
    ops.iter().for_each(|op| arguments.extend(op));
    arguments
}

/// A compound outside of sessions.
pub(crate) fn compound(visit: &Visit, xid: u32, minor: u32, ops: &[Op]) -> Compound4Res {
    carry(visit, xid, &arguments(minor, ops))
}

fn carry(visit: &Visit, xid: u32, arguments: &[u8]) -> Compound4Res {
    let results =
        visit.compound(record(0, (xid, v3::PROGRAM, v4::VERSION, 1), arguments)).expect("a call by all rules");
    let reply: Compound4Res = decode(&results).unwrap_or_else(|error| panic!("{error:?} in {results:x?}"));
    check(&reply, arguments);
    reply
}

/// What is before the last one is OK, the last one's status is the whole's, and there is a result of each where all are OK.
fn check(reply: &Compound4Res, arguments: &[u8]) {
    let asked = u32::from_be_bytes(arguments[8..12].try_into().expect("four bytes")) as usize;
    let told: Vec<_> = reply.resarray.iter().map(status_of).collect();
    let is_ok = |status: &Nfsstat4| *status == Nfsstat4::Nfs4Ok;
    assert!(told.len() <= asked && (told.len() == asked || !is_ok(&reply.status)), "{reply:?} to {asked}");
    if let Some((last, before)) = told.split_last() {
        assert!(before.iter().all(is_ok) && *last == reply.status, "{reply:?}");
    }
}

/// With which every result begins.
pub(crate) fn status_of(result: &NfsResop4) -> Nfsstat4 {
    let mut bytes = Vec::new();
    result.encode_arm(&mut bytes);
    decode(&bytes[..4]).expect("it was one before")
}

/// A request of a slot, and what it was told.
pub(crate) struct Last {
    pub(crate) arguments: Vec<u8>,
    pub(crate) reply: Compound4Res,
    pub(crate) is_kept: bool,
}

/// A call that the server has made.
pub(crate) struct Pending {
    pub(crate) connection: u64,
    pub(crate) xid: u32,
    pub(crate) id: CallId,
    pub(crate) arguments: Bytes,
}

pub(crate) struct Client {
    visit: Visit,
    pub(crate) minor: u32,
    name: u8,
    verifier: u8,
    pub(crate) id: u64,
    pub(crate) former: Vec<u64>,
    /// Of minor version 0, whether the server has taken it in when it came in last.
    pub(crate) is_confirmed: bool,
    /// Sequence of its next CREATE_SESSION.
    next_session: u32,
    /// Its session, and whose that is.
    pub(crate) session: Option<([u8; 16], u64)>,
    pub(crate) next: [u32; SLOTS],
    pub(crate) last: [Option<Last>; SLOTS],
    /// Of minor version 0: next of its owners of opens, and of locks.
    pub(crate) seqids: [[u32; OWNERS]; 2],
    calls: Calls<CallId>,
    xid: u32,
}

impl Client {
    pub(crate) fn new(visit: Visit, minor: u32, name: u8) -> Self {
        Self {
            visit,
            minor,
            name,
            verifier: 1,
            id: 0,
            former: Vec::new(),
            is_confirmed: false,
            next_session: 0,
            session: None,
            next: [1; SLOTS],
            last: [const { None }; SLOTS],
            seqids: [[1; OWNERS]; 2],
            calls: Calls::numbered_from(1 << 20),
            xid: 100,
        }
    }

    pub(crate) fn connection(&self) -> u64 {
        self.visit.link().id()
    }

    pub(crate) fn is_known(&self) -> bool {
        self.session.is_some() || self.minor == 0 && self.id != 0
    }

    /// What it was told is of no worth any more.
    pub(crate) fn forget_answers(&mut self) {
        self.last = [const { None }; SLOTS];
    }

    /// A compound outside of its session.
    pub(crate) fn ask(&mut self, ops: &[Op]) -> Compound4Res {
        self.xid += 1;
        compound(&self.visit, self.xid, self.minor, ops)
    }

    /// What it sent before, with another xid.
    pub(crate) fn send_again(&mut self, arguments: &[u8]) -> Compound4Res {
        self.xid += 1;
        carry(&self.visit, self.xid, arguments)
    }

    /// A compound in a slot: what it sent, too.
    pub(crate) fn ask_in(&mut self, slot: usize, sequence: u32, is_kept: bool, ops: &[Op]) -> (Vec<u8>, Compound4Res) {
        let (session, _) = self.session.expect("it has one");
        let head = op(&NfsArgop4::OpSequence(Sequence4Args {
            sa_sessionid: session,
            sa_sequenceid: sequence,
            sa_slotid: slot as u32,
            sa_highest_slotid: slot as u32,
            sa_cachethis: is_kept,
        }));
        let arguments = arguments(self.minor, &[&[head], ops].concat());
        self.xid += 1;
        let reply = carry(&self.visit, self.xid, &arguments);
        (arguments, reply)
    }

    /// Of version 3: the status.
    pub(crate) fn ask_plainly(&mut self, procedure: u32, arguments: &[u8]) -> bool {
        self.xid += 1;
        self.visit.serve(record(0, (self.xid, v3::PROGRAM, v3::VERSION, procedure), arguments), true)
    }

    /// Comes in: `how` says whether it has started anew, and whether it claims nothing any more. Which of its ids are over.
    pub(crate) fn enter(&mut self, how: u8) -> Vec<u64> {
        self.verifier = self.verifier.wrapping_add(how & 1);
        self.is_confirmed = false;
        match self.minor {
            0 => self.enter_0(how),
            _ => {
                self.introduce();
                let gone = self.make_session(how);
                if how & 2 == 0 && self.session.is_some() {
                    let (slot, next) = (0, self.next[0]);
                    let (_, reply) = self.ask_in(slot, next, false, &[op(&tally_wire::ask::complete())]);
                    self.next[0] += u32::from(reply.resarray.len() > 1);
                }
                gone
            }
        }
    }

    fn enter_0(&mut self, how: u8) -> Vec<u64> {
        let callback = CbClient4 {
            cb_program: PROGRAM,
            cb_location: Netaddr4 { na_r_netid: b"tcp".into(), na_r_addr: b"10.0.0.1.3.4".into() },
        };
        let client = NfsClientId4 { verifier: [self.verifier; 8], id: vec![self.name].into() };
        let asked = op(&NfsArgop4::OpSetclientid(Setclientid4Args { client, callback, callback_ident: 1 }));
        let Some(NfsResop4::OpSetclientid(Setclientid4Res::Nfs4Ok(known))) = self.ask(&[asked]).resarray.0.pop() else {
            return Vec::new();
        };
        if how & 4 != 0 {
            return Vec::new();
        }
        let (clientid, setclientid_confirm) = (known.clientid, known.setclientid_confirm);
        let confirm = SetclientidConfirm4Args { clientid, setclientid_confirm };
        if self.ask(&[op(&NfsArgop4::OpSetclientidConfirm(confirm))]).status != Nfsstat4::Nfs4Ok {
            return Vec::new();
        }
        self.is_confirmed = true;
        self.becomes(clientid)
    }

    fn becomes(&mut self, id: u64) -> Vec<u64> {
        if self.id != 0 && self.id != id {
            self.former.push(self.id);
        }
        self.id = id;
        self.former.retain(|former| *former != id);
        self.former.clone()
    }

    /// EXCHANGE_ID.
    fn introduce(&mut self) {
        let asked = op(&NfsArgop4::OpExchangeId(ExchangeId4Args {
            eia_clientowner: ClientOwner4 { co_verifier: [self.verifier; 8], co_ownerid: vec![self.name].into() },
            eia_flags: 0,
            eia_state_protect: StateProtect4A::Sp4None,
            eia_client_impl_id: Vec::new().into(),
        }));
        if let Some(NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known))) = self.ask(&[asked]).resarray.0.pop() {
            self.becomes(known.eir_clientid);
            self.next_session = known.eir_sequenceid;
        }
    }

    /// CREATE_SESSION: of this client all that was before is over.
    fn make_session(&mut self, how: u8) -> Vec<u64> {
        let channel = ChannelAttrs4 {
            ca_headerpadsize: 0,
            ca_maxrequestsize: 8192,
            ca_maxresponsesize: 8192,
            ca_maxresponsesize_cached: 2048,
            ca_maxoperations: 32,
            ca_maxrequests: SLOTS as u32,
            ca_rdma_ird: Vec::new().into(),
        };
        let asked = op(&NfsArgop4::OpCreateSession(CreateSession4Args {
            csa_clientid: self.id,
            csa_sequence: self.next_session,
            csa_flags: CALLS_BACK | u32::from(how >> 4 & 1),
            csa_fore_chan_attrs: channel.clone(),
            csa_back_chan_attrs: channel,
            csa_cb_program: PROGRAM,
            csa_sec_parms: vec![CallbackSecParms4::AuthNone].into(),
        }));
        let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(made))) = self.ask(&[asked]).resarray.0.pop()
        else {
            return Vec::new();
        };
        self.next_session = self.next_session.wrapping_add(1);
        self.session = Some((made.csr_sessionid, self.id));
        self.next = [1; SLOTS];
        self.forget_answers();
        self.former.clone()
    }

    /// OPEN that lets nobody beside it, of what is there.
    pub(crate) fn open_alone(&mut self, dir: u64, name: &[u8]) -> Nfsstat4 {
        let open = op(&NfsArgop4::OpOpen(Open4Args {
            seqid: 0,
            share_access: 3,
            share_deny: 3,
            owner: OpenOwner4 { clientid: self.id, owner: b"alone".into() },
            openhow: Openflag4::Default(Opentype4::Open4Nocreate),
            claim: OpenClaim4::ClaimNull(name.into()),
        }));
        let next = self.next[0];
        self.next[0] += 1;
        self.ask_in(0, next, false, &[put(dir), open]).1.status
    }

    /// A call goes out to it: as it is pending, or it is not taken.
    pub(crate) fn called(&self, outgoing: &Outgoing, id: CallId) -> Result<Pending, CallId> {
        let (known, arguments) = (id, outgoing.arguments.clone());
        let message = self.calls.begin(outgoing, id)?;
        let mut pieces = Vec::new();
        message.slices(4, &mut pieces);
        let xid = u32::from_be_bytes(pieces[0][..4].try_into().expect("an xid"));
        Ok(Pending { connection: self.connection(), xid, id: known, arguments })
    }

    /// It sends a reply. Whether the server hangs up.
    pub(crate) fn answers(&self, service: &Service, reply: Vec<u8>) -> bool {
        match self.calls.returned(&Bytes::from(reply)) {
            Matched::With(id, returned) => {
                service.call_returned(&id, &returned);
                false
            }
            Matched::Nothing { is_enough } => is_enough,
        }
    }

    pub(crate) fn leave(self) {
        self.visit.leave();
    }
}
