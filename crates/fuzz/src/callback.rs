//! What clients answer to calls: CB_RECALL, CB_NOTIFY_LOCK and CB_GETATTR, each with whatever bytes the input has for it.
//!
//! A client keeps a file for writing and has another one locked; a second one looks at the first file, opens it, and waits for the lock, so that the first
//! is called, and later the second. The input's letters say what is answered to which call and over whose connection, what is asked again, and how time
//! passes. In an answer stand words for what was called: `#session_______0`, and `#place_0`, which is slot and sequence.
//! At the end both go, and nothing may be left.

use std::time::Duration;

use tally_nfs::v4::state::Which;
use tally_wire::nfs4::{
    CbCompound4Args, Delegreturn4Args, Lock4Args, Locker4, Locku4Args, NfsArgop4, NfsCbArgop4, NfsLockType4, NfsResop4,
    Open4Args, Open4Res, OpenClaim4, OpenDelegation4, OpenOwner4, OpenToLockOwner4, Openflag4, Opentype4, Stateid4,
};
use tally_wire::{ask, decode};

use crate::heap;
use crate::house::{FILE, House, TANK_ROOT};
use crate::input::Input;
use crate::state::client::{Client, Op, Pending, get_attr, op, put};

/// What two clients have, and what they answer.
const HEAP_BYTES: usize = 8 << 20;
const HEAP_FACTOR: usize = 64;
const STEPS_MAX: usize = 48;
/// The file "once", in the root.
const ONCE: &[u8] = b"once";
const BOTH: u32 = 3;
const READ: u32 = 1;
const SIZE: u32 = 4;

/// Whether an answer was taken for one.
pub(crate) fn answers(data: &[u8]) -> bool {
    let house = House::open();
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let mut stage = Stage::set(house);
        let mut input = Input::new(data);
        for _ in 0..STEPS_MAX {
            if input.is_empty() {
                break;
            }
            stage.step(&mut input);
            stage.take_calls();
        }
        stage.end()
    })
}

struct Stage {
    house: &'static House,
    /// Who keeps, and who is kept out.
    clients: [Client; 2],
    kept: Stateid4,
    lock: Stateid4,
    waiting: Op,
    pending: Vec<Pending>,
    now: Duration,
    is_answered: bool,
}

fn open(name: &[u8], access: u32) -> Op {
    op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: access,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"o".into() },
        openhow: Openflag4::Default(Opentype4::Open4Nocreate),
        claim: OpenClaim4::ClaimNull(name.into()),
    }))
}

fn lock_waiting(open_stateid: &Stateid4) -> Op {
    let lock_owner = OpenOwner4 { clientid: 0, owner: b"l".into() };
    let open_stateid = open_stateid.clone();
    let locker = Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner });
    let (locktype, reclaim) = (NfsLockType4::WritewLt, false);
    op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim, offset: 0, length: 10, locker }))
}

/// What an OPEN gave.
fn opened(result: Option<NfsResop4>) -> (Stateid4, OpenDelegation4) {
    match result {
        Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok))) => (ok.stateid, ok.delegation),
        other => panic!("{other:?}"),
    }
}

impl Stage {
    fn set(house: &'static House) -> Self {
        let first = house.visit(700);
        house.give_room();
        let mut keeps = Client::new(first, 2, b'a');
        let mut kept_out = Client::new(house.visit_beside(700), 2, b'b');
        let now = Duration::ZERO;
        house.service().look_at_clock(now);
        [&mut keeps, &mut kept_out].into_iter().for_each(|client| _ = client.enter(0));
        let (of_once, _) = opened(last(&mut keeps, &[put(TANK_ROOT), open(ONCE, BOTH)]));
        let lock =
            last(&mut keeps, &[put(TANK_ROOT), op(&ask::look("once")), op(&ask::lock(&of_once, (0, 10), false))]);
        let Some(NfsResop4::OpLock(tally_wire::nfs4::Lock4Res::Nfs4Ok(lock))) = lock else { panic!("{lock:?}") };
        let (_, kept) = opened(last(&mut keeps, &[put(crate::house::DIR), open(b"file", BOTH)]));
        let OpenDelegation4::OpenDelegateWrite(kept) = kept else { panic!("{kept:?}") };
        // What the first keeps of this one comes back before the second may open it.
        let mut stage = Self {
            house,
            clients: [keeps, kept_out],
            kept: kept.stateid,
            lock: lock.lock_stateid,
            waiting: Vec::new(),
            pending: Vec::new(),
            now,
            is_answered: false,
        };
        stage.wait_for_lock();
        stage
    }

    /// The second opens what the first has locked, and waits for it.
    fn wait_for_lock(&mut self) {
        let result = last(&mut self.clients[1], &[put(TANK_ROOT), open(ONCE, BOTH)]);
        if let Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok))) = result {
            self.waiting = lock_waiting(&ok.stateid);
        }
        self.take_calls();
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let letter = input.u8();
        match letter & 7 {
            0 => self.answer(letter, input.blob(), None),
            1 => {
                let xid = u32::from(input.u8());
                self.answer(letter, input.blob(), Some(xid));
            }
            2 => _ = self.run(1, &[put(FILE), get_attr(SIZE)]),
            3 => _ = self.run(1, &[put(crate::house::DIR), open(b"file", READ)]),
            4 if self.waiting.is_empty() => self.wait_for_lock(),
            4 => {
                let waiting = self.waiting.clone();
                self.run(1, &[put(TANK_ROOT), op(&ask::look("once")), waiting]);
            }
            5 => self.let_go(letter),
            6 => self.pass(u64::from(letter >> 3)),
            _ => self.lose(letter),
        }
    }

    /// A record that says that it is a reply: to this call, or with this xid.
    fn answer(&mut self, letter: u8, body: &[u8], xid: Option<u32>) {
        let at = usize::from(letter >> 3) % self.pending.len().max(1);
        let known = self.pending.get(at);
        let xid = xid.or(known.map(|pending| pending.xid)).unwrap_or_default();
        let mut body = body.to_vec();
        if let Some(pending) = known {
            fill_in(&mut body, &pending.arguments);
        }
        let connection = known.map(|pending| pending.connection);
        let is_of_first = connection.is_none_or(|connection| connection == self.clients[0].connection());
        let client = &self.clients[usize::from(!is_of_first ^ (letter == 0xf8))];
        let service = self.house.service();
        let before = service.holdings().expect("version 4 is spoken").delegations_since();
        client.answers(&service, [&xid.to_be_bytes()[..], &[0, 0, 0, 1], &body].concat());
        self.is_answered |= is_carried_out(&body);
        let after = service.holdings().expect("version 4 is spoken").delegations_since();
        assert!(after.granted >= before.granted, "an answer gives nothing");
    }

    fn let_go(&mut self, letter: u8) {
        let lock_stateid = self.lock.clone();
        match letter >> 3 & 1 {
            0 => {
                let asked =
                    Locku4Args { locktype: NfsLockType4::WriteLt, seqid: 0, lock_stateid, offset: 0, length: 10 };
                let result = self.run(0, &[put(TANK_ROOT), op(&ask::look("once")), op(&NfsArgop4::OpLocku(asked))]);
                if let Some(stateid) = result.iter().flat_map(crate::told::stateids).next_back() {
                    self.lock = stateid.clone();
                }
            }
            _ => {
                let asked = NfsArgop4::OpDelegreturn(Delegreturn4Args { deleg_stateid: self.kept.clone() });
                self.run(0, &[put(FILE), op(&asked)]);
            }
        }
    }

    /// The connection of a call is lost, or another one has not taken it.
    fn lose(&mut self, letter: u8) {
        if self.pending.is_empty() {
            return;
        }
        let at = usize::from(letter >> 3) % self.pending.len();
        let pending = self.pending.swap_remove(at);
        self.house.service().call_lost(&pending.id, letter & 0x80 == 0);
    }

    fn pass(&mut self, seconds: u64) {
        let service = self.house.service();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            service.look_at_clock(self.now);
        }
        service.look_after_waiters();
    }

    fn run(&mut self, who: usize, ops: &[Op]) -> Vec<NfsResop4> {
        let client = &mut self.clients[who];
        if client.session.is_none() {
            return Vec::new();
        }
        let next = client.next[0];
        let (_, reply) = client.ask_in(0, next, false, ops);
        client.next[0] += u32::from(reply.resarray.len() > 1);
        reply.resarray.0
    }

    fn take_calls(&mut self) {
        let service = self.house.service();
        while let Some((connection, id, outgoing)) = service.next_call() {
            let client = self.clients.iter().find(|client| client.connection() == connection);
            match client.expect("nobody else can be called").called(&outgoing, id) {
                Ok(pending) => self.pending.push(pending),
                Err(id) => service.call_lost(&id, false),
            }
        }
    }

    /// Both are gone, and nothing is left.
    fn end(self) -> bool {
        let service = self.house.service();
        let holdings = service.holdings().expect("version 4 is spoken");
        for seen in holdings.clients(Which { client: None, most: usize::MAX }).shown {
            let _ = holdings.evict(seen.known.client);
        }
        let left = holdings.counts();
        assert_eq!([left.clients, left.sessions, left.opens, left.locks, left.delegations, left.recalled], [0; 6]);
        self.clients.into_iter().for_each(Client::leave);
        self.is_answered
    }
}

/// The last result, behind SEQUENCE.
fn last(client: &mut Client, ops: &[Op]) -> Option<NfsResop4> {
    let next = client.next[0];
    client.next[0] += 1;
    client.ask_in(0, next, false, ops).1.resarray.0.pop()
}

/// Whether a body says that it was carried out, whatever came of it.
fn is_carried_out(body: &[u8]) -> bool {
    body.get(..16).is_some_and(|head| head.iter().all(|byte| *byte == 0))
}

/// Puts what a call says into what is answered to it.
fn fill_in(body: &mut [u8], call: &[u8]) {
    let call: CbCompound4Args = decode(call).expect("a call as the RFC has it");
    let Some(NfsCbArgop4::OpCbSequence(sequence)) = call.argarray.first() else { panic!("{call:?}") };
    let place = [sequence.csa_sequenceid, sequence.csa_slotid].map(u32::to_be_bytes).concat();
    for at in (0..body.len()).step_by(4) {
        let here = &mut body[at..];
        if here.starts_with(b"#session_______0") {
            here[..16].copy_from_slice(&sequence.csa_sessionid);
        } else if here.starts_with(b"#place_0") {
            here[..8].copy_from_slice(&place);
        }
    }
}
