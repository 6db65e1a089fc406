//! State of version 4: what three clients of minor versions 0 to 2 ask one after the other, with stateids that they were given, in slots and in the order
//! of their owners, beside a client of version 3; a clock that jumps, restarts, evictions, and calls that are answered or not.
//!
//! Letters of the input say what happens next ([`letters`]). What clients are told stands in a [`Ledger`](ledger::Ledger), which finds two of them with what
//! keeps each other out. At the end all clients are evicted: then nothing is left, and who comes then has every file alone.

pub(crate) mod client;
mod ledger;
mod letters;
mod noting;
mod operations;

use std::sync::OnceLock;
use std::time::Duration;

use tally_nfs::service::Service;
use tally_nfs::v4::state::Which;
use tally_wire::nfs4::{
    FATTR4_LEASE_TIME, Fattr4Value, Getattr4Args, Getattr4Res, NfsArgop4, NfsResop4, Nfsstat4, Stateid4,
};
use tally_wire::{bitmap, encode};

use crate::heap;
use crate::house::{DIR, FILE, House, TANK_ROOT};
use crate::input::Input;
use client::{Client, Pending};
use ledger::Ledger;

/// All that clients have, and a compound of each of them.
const HEAP_BYTES: usize = 16 << 20;
/// An input that is longer only does more of the same.
const STEPS_MAX: usize = 96;
/// The file "once", which is in the root.
const ONCE: u64 = 14;

/// Files that clients open: in which directory, and called what.
const FILES: [(u64, &[u8]); 4] = [(DIR, b"file"), (TANK_ROOT, b"once"), (TANK_ROOT, b"made"), (TANK_ROOT, b"other")];

struct Machine<'a> {
    house: &'static House,
    input: Input<'a>,
    clients: [Client; 3],
    ledger: Ledger,
    /// All that were told, the newest last.
    stateids: Vec<Stateid4>,
    pending: Vec<Pending>,
    now: Duration,
    lease: Duration,
}

/// Whether anything was opened.
pub(crate) fn machine(data: &[u8]) -> bool {
    let house = House::open();
    heap::at_most(HEAP_BYTES, || {
        let first = house.visit(700);
        house.give_room();
        let lease = lease(&first);
        let others = [0; 2].map(|_| house.visit_beside(700));
        let [second, third] = others;
        let clients = [Client::new(first, 1, b'a'), Client::new(second, 2, b'b'), Client::new(third, 0, b'c')];
        let (stateids, pending) = (Vec::new(), Vec::new());
        let (input, ledger, now) = (Input::new(data), Ledger::new(lease), Duration::ZERO);
        let mut machine = Machine { house, input, clients, ledger, stateids, pending, now, lease };
        machine.house.service().look_at_clock(machine.now);
        for _ in 0..STEPS_MAX {
            if machine.input.is_empty() {
                break;
            }
            machine.step();
            machine.take_calls();
        }
        machine.end()
    })
}

/// For how long a client may be silent, as the server tells.
fn lease(visit: &crate::house::Visit) -> Duration {
    static LEASE: OnceLock<Duration> = OnceLock::new();
    *LEASE.get_or_init(|| {
        let ask = NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(&[FATTR4_LEASE_TIME]) });
        let reply = client::compound(visit, 1, 0, &[encode(&NfsArgop4::OpPutrootfh), encode(&ask)]);
        let Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok))) = reply.resarray.last() else { panic!("{reply:?}") };
        match ok.obj_attributes.values().expect("it is by all rules")[..] {
            [Fattr4Value::Fattr4LeaseTime(seconds)] => Duration::from_secs(seconds.into()),
            ref other => panic!("{other:?}"),
        }
    })
}

impl Machine<'_> {
    fn service(&self) -> std::sync::Arc<Service> {
        self.house.service()
    }

    /// So many seconds go by, and the server answers all the time.
    fn pass(&mut self, seconds: u64) {
        let service = self.service();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            service.look_at_clock(self.now);
        }
        service.look_after_waiters();
        service.look_after_clients();
    }

    /// It starts anew.
    fn restart(&mut self) {
        self.house.restart();
        self.service().look_at_clock(self.now);
        self.ledger.forget();
        self.pending.clear();
        self.clients.iter_mut().for_each(Client::forget_answers);
    }

    fn evict_all(&mut self) {
        let service = self.service();
        let holdings = service.holdings().expect("version 4 is spoken");
        for seen in holdings.clients(Which { client: None, most: usize::MAX }).shown {
            let _ = holdings.evict(seen.known.client);
            self.ledger.let_go_of(seen.known.client.0);
        }
    }

    /// Nothing is left of clients that are gone.
    fn end(mut self) -> bool {
        let was_used = !self.stateids.is_empty();
        self.pass(3 * self.lease.as_secs());
        self.evict_all();
        let service = self.service();
        let left = service.holdings().expect("version 4 is spoken").counts();
        let [sessions, opens, locks, delegations] = [left.sessions, left.opens, left.locks, left.delegations];
        assert_eq!(
            [left.clients, sessions, opens, locks, delegations],
            [0; 5],
            "of clients, sessions, opens, locks, delegations"
        );
        if was_used {
            self.has_all_alone();
        }
        self.clients.into_iter().for_each(Client::leave);
        was_used
    }

    /// Who comes then has every file for himself, once nobody may claim it again: a grace begins with the first who asks for something.
    fn has_all_alone(&mut self) {
        let mut last = Client::new(self.house.visit_beside(700), 1, b'z');
        last.enter(0);
        for (dir, name) in FILES {
            if last.open_alone(dir, name) == Nfsstat4::Nfs4ErrGrace {
                self.pass(3 * self.lease.as_secs());
            }
            let status = last.open_alone(dir, name);
            assert!([Nfsstat4::Nfs4Ok, Nfsstat4::Nfs4ErrNoent].contains(&status), "{status:?} of {name:?}");
        }
        last.leave();
    }
}

const _: () = assert!(FILE < ONCE);
