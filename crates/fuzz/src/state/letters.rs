//! What the letters of the machine's input mean.
//!
//! ```text
//!  low four bits   0-7   a compound of a client: how it is sent, and up to four operations, each a letter and two bytes
//!                  8     a client comes in, again or anew
//!                  9     it ends its session, or itself
//!                  10    time passes
//!                  11    a call is answered, well or badly, once or twice, or its connection is lost
//!                  12    a request comes again
//!                  13    version 3 reads, writes, cuts or removes
//!                  14    the server starts anew, or all clients are evicted
//!                  15    time passes, longer than a lease
//!  high four bits  which client
//! ```

use tally_nfs::xdr::Encoder;
use tally_wire::nfs4::{
    CbCompound4Args, CbCompound4Res, CbGetattr4Res, CbGetattr4Resok, CbNotifyLock4Res, CbRecall4Res, CbSequence4Res,
    CbSequence4Resok, DestroyClientid4Args, DestroySession4Args, FATTR4_TIME_DELEG_MODIFY, Fattr4, Fattr4Value,
    NfsArgop4, NfsCbArgop4, NfsCbResop4, Nfsstat4, Nfstime4,
};
use tally_wire::{decode, encode, numbers};

use super::client::{Last, SLOTS, op, status_of};
use super::operations::{Sending, client_id};
use super::{FILES, Machine, ONCE};
use crate::house::{FILE, TANK, handle};

impl Machine<'_> {
    pub(super) fn step(&mut self) {
        let letter = self.input.u8();
        let who = usize::from(letter >> 4) % 3;
        match letter & 15 {
            0..=7 => self.send(who),
            8 => {
                let how = self.input.u8();
                self.enter(who, how);
            }
            9 => self.part(who),
            10 => {
                let seconds = u64::from(self.input.u8());
                self.pass(seconds);
            }
            11 => self.answer(),
            12 => self.repeat(who),
            13 => self.plainly(who),
            14 => match self.input.u8() % 4 {
                0 => self.restart(),
                1 => self.evict_all(),
                _ => self.pass(1),
            },
            _ => self.pass(self.lease.as_secs() + 3),
        }
    }

    fn enter(&mut self, who: usize, how: u8) {
        let before = self.clients[who].id;
        let gone = self.clients[who].enter(how);
        // Of one that has started anew all may be over from now on.
        let started_anew = [before].into_iter().filter(|_| how & 1 != 0);
        started_anew.chain(gone).for_each(|id| self.ledger.let_go_of(id));
        if self.clients[who].is_confirmed {
            self.ledger.heard(self.clients[who].id, self.now);
        }
    }

    /// DESTROY_SESSION, DESTROY_CLIENTID; of minor version 0 nothing ends a client.
    fn part(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let Some((session, id)) = client.session else { return };
        if self.input.u8() & 1 == 0 {
            let ask = op(&NfsArgop4::OpDestroySession(DestroySession4Args { dsa_sessionid: session }));
            if client.ask(&[ask]).status == Nfsstat4::Nfs4Ok {
                client.session = None;
            }
        }
        let ask = op(&NfsArgop4::OpDestroyClientid(DestroyClientid4Args { dca_clientid: id }));
        if client.ask(&[ask]).status == Nfsstat4::Nfs4Ok {
            client.session = None;
            self.ledger.let_go_of(id);
        }
    }

    /// A compound, in a slot where there is a session.
    fn send(&mut self, who: usize) {
        if !self.clients[who].is_known() {
            self.enter(who, 0);
        }
        if !self.clients[who].is_known() {
            return;
        }
        let how = self.input.u8();
        let mut sending = Sending::default();
        for _ in 0..=(how & 3) {
            self.draw(who, &mut sending);
        }
        let client = &mut self.clients[who];
        let Some((_, id)) = client.session else {
            let reply = client.ask(&sending.ops);
            return self.note(who, client_id(&self.clients[who]), &sending, &reply.resarray);
        };
        let (slot, is_kept) = (usize::from(how >> 2) % SLOTS, how & 0x10 != 0);
        let next = client.next[slot];
        let sequence = if how >> 5 == 7 { next.wrapping_add(1 + u32::from(how & 1)) } else { next };
        let (arguments, reply) = client.ask_in(slot, sequence, is_kept, &sending.ops);
        let is_taken = reply.resarray.first().is_some_and(|first| status_of(first) == Nfsstat4::Nfs4Ok);
        assert!(!is_taken || sequence == next, "a sequence ahead was taken: {reply:?}");
        if is_taken {
            client.next[slot] = next.wrapping_add(1);
            self.ledger.heard(id, self.now);
            self.note(who, id, &sending, &reply.resarray[1..]);
            self.clients[who].last[slot] = Some(Last { arguments, reply, is_kept });
        }
    }

    /// The last request of a slot comes again: nothing is done, and the same is told.
    fn repeat(&mut self, who: usize) {
        let slot = usize::from(self.input.u8()) % SLOTS;
        let Some(last) = self.clients[who].last[slot].take() else { return };
        let reply = self.clients[who].send_again(&last.arguments);
        let is_taken = reply.resarray.first().is_some_and(|first| status_of(first) == Nfsstat4::Nfs4Ok);
        let is_uncached = reply.status == Nfsstat4::Nfs4ErrRetryUncachedRep && !last.is_kept;
        assert!(!is_taken || is_uncached || reply == last.reply, "{:?} and then {reply:?}", last.reply);
        self.clients[who].last[slot] = Some(last);
    }

    /// Calls that the server makes go out.
    pub(super) fn take_calls(&mut self) {
        let service = self.service();
        while let Some((connection, id, outgoing)) = service.next_call() {
            let client = self.clients.iter().find(|client| client.connection() == connection);
            match client.map(|client| client.called(&outgoing, id)) {
                Some(Ok(pending)) => self.pending.push(pending),
                Some(Err(id)) => service.call_lost(&id, false),
                None => service.call_lost(&id, false),
            }
        }
    }

    fn answer(&mut self) {
        let (which, how) = (usize::from(self.input.u8()), self.input.u8());
        if self.pending.is_empty() {
            return;
        }
        let at = which % self.pending.len();
        let service = self.service();
        let pending = &self.pending[at];
        if how & 15 == 15 {
            service.call_lost(&pending.id, true);
            self.pending.swap_remove(at);
            return;
        }
        let status = [
            Nfsstat4::Nfs4Ok,
            Nfsstat4::Nfs4Ok,
            Nfsstat4::Nfs4ErrBadStateid,
            Nfsstat4::Nfs4ErrDelay,
            Nfsstat4::Nfs4ErrBadhandle,
            Nfsstat4::Nfs4ErrServerfault,
        ][usize::from(how) % 6];
        let call: CbCompound4Args = decode(&pending.arguments).expect("a call as the RFC has it");
        if let (Some(NfsCbArgop4::OpCbRecall(recall)), true) = (call.argarray.last(), status != Nfsstat4::Nfs4Ok) {
            self.ledger.denied(&recall.stateid.other);
        }
        let results = encode(&answered(&call, status));
        let reply = [&pending.xid.to_be_bytes()[..], &[0, 0, 0, 1], &[0; 16], &results].concat();
        let (connection, is_twice) = (pending.connection, how & 0x80 != 0);
        let client = self.clients.iter().find(|client| client.connection() == connection).expect("it was called");
        client.answers(&service, reply);
        if !is_twice {
            self.pending.swap_remove(at);
        }
    }

    /// Who speaks version 3, of files whose handles it knows.
    fn plainly(&mut self, who: usize) {
        let (what, second) = (self.input.u8(), self.input.u8());
        let file = handle(TANK, [FILE, ONCE][usize::from(second & 1)]);
        let (dir, name) = FILES[usize::from(second) % 4];
        let (procedure, arguments) = of_3(what, &file, (&handle(TANK, dir), name));
        let _ = self.clients[who].ask_plainly(procedure, &arguments.into_vec());
    }
}

/// What a client answers that has understood, with this status of what was asked behind CB_SEQUENCE.
fn answered(call: &CbCompound4Args, status: Nfsstat4) -> CbCompound4Res {
    let [NfsCbArgop4::OpCbSequence(sequence), asked] = &call.argarray[..] else { panic!("{call:?}") };
    let sequence = CbSequence4Res::Nfs4Ok(CbSequence4Resok {
        csr_sessionid: sequence.csa_sessionid,
        csr_sequenceid: sequence.csa_sequenceid,
        csr_slotid: sequence.csa_slotid,
        csr_highest_slotid: 3,
        csr_target_highest_slotid: 3,
    });
    let told = match asked {
        NfsCbArgop4::OpCbNotifyLock(_) => NfsCbResop4::OpCbNotifyLock(CbNotifyLock4Res { cnlr_status: status }),
        NfsCbArgop4::OpCbRecall(_) => NfsCbResop4::OpCbRecall(CbRecall4Res { status }),
        NfsCbArgop4::OpCbGetattr(asked) if status == Nfsstat4::Nfs4Ok => {
            let time = || Nfstime4 { seconds: 5, nseconds: 1 };
            let mut values = vec![Fattr4Value::Fattr4Change(7), Fattr4Value::Fattr4Size(3)];
            if numbers(&asked.attr_request).contains(&FATTR4_TIME_DELEG_MODIFY) {
                values.extend([Fattr4Value::Fattr4TimeDelegAccess(time()), Fattr4Value::Fattr4TimeDelegModify(time())]);
            }
            let obj_attributes = Fattr4::of(&values);
            NfsCbResop4::OpCbGetattr(CbGetattr4Res::Nfs4Ok(CbGetattr4Resok { obj_attributes }))
        }
        NfsCbArgop4::OpCbGetattr(_) => NfsCbResop4::OpCbGetattr(CbGetattr4Res::Default(status)),
        other => panic!("{other:?}"),
    };
    CbCompound4Res { status, tag: b"".into(), resarray: vec![NfsCbResop4::OpCbSequence(sequence), told].into() }
}

/// GETATTR, WRITE, READ, SETATTR of a size, REMOVE.
fn of_3(what: u8, file: &[u8], (dir, name): (&[u8], &[u8])) -> (u32, Encoder) {
    let mut words = Encoder::new();
    match what % 5 {
        0 => words.opaque(file),
        1 => words.opaque(file).u64(0).u32(4).u32(2).opaque(b"from"),
        2 => words.opaque(file).u64(0).u32(9),
        3 => words.opaque(file).u32(0).u32(0).u32(0).u32(1).u64(u64::from(what)).u32(0).u32(0).u32(0),
        _ => words.opaque(dir).opaque(name),
    };
    ([1, 7, 6, 2, 12][usize::from(what % 5)], words)
}
