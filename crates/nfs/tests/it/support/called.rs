//! A client that is called back: over one connection it asks, and reads calls from the server, which it answers or not.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tally_nfs::rpc::{Call, Identity};
use tally_nfs::{v3, v4};
use tally_wire::nfs4::{
    AuthsysParms, BindConnToSession4Args, CallbackSecParms4, CbCompound4Args, CbCompound4Res, CbNotifyLock4Args,
    CbNotifyLock4Res, CbRecall4Args, CbRecall4Res, CbSequence4Args, CbSequence4Res, CbSequence4Resok, ChannelAttrs4,
    ChannelDirFromClient4, Compound4Res, NfsArgop4, NfsCbArgop4, NfsCbResop4, NfsResop4, Nfsstat4, Sequence4Res,
    Sessionid4,
};
use tally_wire::{decode, encode};

use super::House;
use super::client::{Answer, Client, record};
use super::compound::{Op, arguments, op, results};
use super::session::{Entered, Newcomer, channel, complete, sequence};

pub const PROGRAM: u32 = 0x4000_0001;
/// CREATE_SESSION4_FLAG_CONN_BACK_CHAN.
pub const CALLS_BACK: u32 = 2;

/// A client with a session, and the sequence of its one slot.
pub struct Called {
    pub wire: Client,
    pub id: u64,
    pub session: Sessionid4,
    /// What CREATE_SESSION granted: flags, and the backchannel.
    pub granted: (u32, ChannelAttrs4),
    pub next: u32,
    /// Records of calls that came before what was waited for.
    calls: VecDeque<Bytes>,
}

/// A call of the server's: CB_SEQUENCE, and CB_NOTIFY_LOCK or CB_RECALL.
#[derive(Clone, Debug)]
pub struct CallBack {
    pub xid: u32,
    pub program: (u32, u32),
    pub identity: Identity,
    pub minor: u32,
    pub sequence: CbSequence4Args,
    pub asked: NfsCbArgop4,
}

impl CallBack {
    fn read(record: &Bytes) -> Self {
        let call = Call::parse(record.clone()).expect("a call by all rules");
        assert_eq!(call.procedure, 1, "CB_COMPOUND");
        let at = call.arguments().position();
        let CbCompound4Args { minorversion, argarray, .. } = decode(&record[at..]).expect("as RFC 8881 has it");
        let [NfsCbArgop4::OpCbSequence(sequence), asked] = &argarray[..] else { panic!("{argarray:?}") };
        let (program, minor) = ((call.program, call.version), minorversion);
        let (sequence, asked) = (sequence.clone(), asked.clone());
        Self { xid: call.xid, program, identity: call.identity, minor, sequence, asked }
    }

    /// That a lock may be free.
    pub fn notify(&self) -> &CbNotifyLock4Args {
        let NfsCbArgop4::OpCbNotifyLock(notify) = &self.asked else { panic!("{:?}", self.asked) };
        notify
    }

    /// That a delegation is to be given back.
    pub fn recall(&self) -> &CbRecall4Args {
        let NfsCbArgop4::OpCbRecall(recall) = &self.asked else { panic!("{:?}", self.asked) };
        recall
    }

    /// Slot and sequence.
    pub fn place(&self) -> (u32, u32) {
        (self.sequence.csa_slotid, self.sequence.csa_sequenceid)
    }

    /// What a client answers who has understood.
    pub fn results(&self) -> CbCompound4Res {
        self.results_with(Nfsstat4::Nfs4Ok)
    }

    /// The same, with this status of what was asked behind CB_SEQUENCE.
    pub fn results_with(&self, status: Nfsstat4) -> CbCompound4Res {
        let asked = &self.sequence;
        let sequence = CbSequence4Res::Nfs4Ok(CbSequence4Resok {
            csr_sessionid: asked.csa_sessionid,
            csr_sequenceid: asked.csa_sequenceid,
            csr_slotid: asked.csa_slotid,
            csr_highest_slotid: 3,
            csr_target_highest_slotid: 3,
        });
        let told = match &self.asked {
            NfsCbArgop4::OpCbNotifyLock(_) => NfsCbResop4::OpCbNotifyLock(CbNotifyLock4Res { cnlr_status: status }),
            NfsCbArgop4::OpCbRecall(_) => NfsCbResop4::OpCbRecall(CbRecall4Res { status }),
            other => panic!("{other:?}"),
        };
        CbCompound4Res { status, tag: b"".into(), resarray: vec![NfsCbResop4::OpCbSequence(sequence), told].into() }
    }
}

/// The words of a reply to a call that was carried out, with these results.
pub fn accepted(results: &[u8]) -> Vec<u8> {
    [&[0; 16][..], results].concat()
}

impl Called {
    pub fn new(house: &House, name: &[u8]) -> Self {
        Self::with(house, name, 1, CALLS_BACK, &[CallbackSecParms4::AuthNone], channel())
    }

    /// One that has reclaimed all that it wants to.
    pub fn with(
        house: &House,
        name: &[u8],
        verifier: u8,
        flags: u32,
        parms: &[CallbackSecParms4],
        back: ChannelAttrs4,
    ) -> Self {
        let mut wire = house.client();
        let newcomer = Newcomer { verifier, flags, back, program: PROGRAM, parms, ..Newcomer::named(name) };
        let entered = newcomer.enter(|ops| wire.compound(1, ops)).expect("it is let in");
        let Entered { client: id, session, created } = entered;
        let granted = (created.csr_flags, created.csr_back_chan_attrs);
        let mut called = Self { wire, id, session, granted, next: 1, calls: VecDeque::new() };
        assert_eq!(called.run(&[complete()]).status, Nfsstat4::Nfs4Ok);
        called
    }

    /// The same client and session over another connection.
    pub fn over(&self, house: &House) -> Self {
        let (wire, granted, calls) = (house.client(), self.granted.clone(), VecDeque::new());
        Self { wire, id: self.id, session: self.session, granted, next: self.next, calls }
    }

    /// The same, bound for callbacks, too.
    pub fn beside(&self, house: &House) -> Self {
        let mut beside = self.over(house);
        let bind = op(&NfsArgop4::OpBindConnToSession(BindConnToSession4Args {
            bctsa_sessid: self.session,
            bctsa_dir: ChannelDirFromClient4::Cdfc4BackOrBoth,
            bctsa_use_conn_in_rdma_mode: false,
        }));
        assert_eq!(beside.wire.compound(1, &[bind]).status, Nfsstat4::Nfs4Ok);
        beside
    }

    /// A compound in the session.
    pub fn run(&mut self, ops: &[Op]) -> Compound4Res {
        let (xid, all) = self.ask(ops);
        loop {
            let record = self.wire.receive().expect("the server has closed");
            if record[4..8] == [0, 0, 0, 0] {
                self.calls.push_back(record);
                continue;
            }
            let (answered, answer) = Answer::parse(record);
            assert_eq!(answered, xid);
            return results(&answer, &all);
        }
    }

    /// Sends a compound in the session: its xid, and all operations.
    pub fn ask(&mut self, ops: &[Op]) -> (u32, Vec<Op>) {
        let head = sequence(self.session, 0, self.next, false);
        self.next += 1;
        let (xid, all) = (self.wire.xid(), [&[head], ops].concat());
        let record = record(xid, (0, &[0]), (v3::PROGRAM, v4::VERSION), 1, arguments(1, &all));
        self.wire.send_record(&record);
        (xid, all)
    }

    /// What SEQUENCE says.
    pub fn flags(&mut self) -> u32 {
        match self.run(&[]).resarray.0.pop() {
            Some(NfsResop4::OpSequence(Sequence4Res::Nfs4Ok(told))) => told.sr_status_flags,
            other => panic!("{other:?}"),
        }
    }

    /// The next call, if one comes in that time.
    pub fn call_within(&mut self, time: Duration) -> Option<CallBack> {
        if self.calls.is_empty() {
            self.wire.stream.set_read_timeout(Some(time)).unwrap();
            let mut mark = [0; 1];
            let came = self.wire.stream.peek(&mut mark);
            self.wire.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            match came {
                Ok(0) => panic!("the server has closed"),
                Ok(_) => self.calls.push_back(self.wire.receive().unwrap()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.calls.pop_front().map(|record| CallBack::read(&record))
    }

    /// The next call, which is about to come.
    pub fn call(&mut self) -> CallBack {
        self.call_within(Duration::from_secs(10)).expect("a call")
    }

    /// That no call comes.
    pub fn is_not_called(&mut self) -> bool {
        self.call_within(Duration::from_millis(300)).is_none()
    }

    pub fn answer(&mut self, call: &CallBack) {
        self.answer_with(call, Nfsstat4::Nfs4Ok);
    }

    /// With this status of what was asked.
    pub fn answer_with(&mut self, call: &CallBack, status: Nfsstat4) {
        self.reply(call.xid, &accepted(&encode(&call.results_with(status))));
    }

    /// A reply of these words behind xid and REPLY.
    pub fn reply(&mut self, xid: u32, words: &[u8]) {
        self.wire.send_record(&[&xid.to_be_bytes()[..], &[0, 0, 0, 1], words].concat());
    }

    /// Whether the server closes the connection, which it says at once or not at all.
    pub fn is_closed(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(5);
        self.wire.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        loop {
            match std::io::Read::read(&mut self.wire.stream, &mut [0; 64]) {
                Ok(0) => return true,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
                Err(_) => return false,
                Ok(_) if Instant::now() > until => return false,
                Ok(_) => {}
            }
        }
    }
}

/// AUTH_SYS as this user.
pub fn auth_sys(uid: u32) -> CallbackSecParms4 {
    let (stamp, gid) = (9, 12);
    CallbackSecParms4::AuthSys(AuthsysParms { stamp, machinename: b"me".into(), uid, gid, gids: vec![13].into() })
}
