//! The account: who holds which bytes and places, and who gives way when there are no more.
//!
//! Everything that a stranger can make the server hold is one of three things, and each belongs to a connection, to the
//! address it comes from, and to the house, that is all of them.
//!
//! ```text
//!         what it is                                   connection         address   house       at the bound
//!  work   requests that can be carried out             16 MiB, 256 pcs.   half      256 MiB     reading stops
//!  debt   what waits for the peer to go on:            4 MiB of replies,  half      256 MiB     the oldest debt of the
//!         half a record, replies that it does not      or less where much                       address with most goes
//!         take, and requests that wait behind those    is held
//!  place  the connection itself                        –                  –         4,096       the longest idle of the
//!                                                                                               address with most goes
//! ```
//!
//! The two sorts of bytes are kept apart because of who ends them. Work ends by itself: stopping to read until it has
//! is safe, and TCP tells the clients. A debt ends when the peer likes, so it must never stop anybody else: the peer
//! gets a time for it (`warden`), and at the bound the one that has waited longest is closed, never who came last. Of
//! one address it is, the one with most, so that one host cannot push another out; an honest client that shares its
//! address with an attacker is protected by his progress. So is everybody where no address has much: an attacker may
//! have many.
//!
//! **Shares.** A connection that holds something already may add to it only up to an eighth of what is free, in the
//! house and for its address. So the more there are, the less each gets; one that holds nothing always gets its first
//! request. Switches share their buffers in this way (Choudhury and Hahne, "Dynamic queue
//! length thresholds").
//!
//! **What is counted** is memory: a request with its record and everything around it, a partial record's buffer, a
//! reply with the blocks that it pins ([`crate::rpc::Reply::held_bytes`]). Replies count from when a socket is found
//! full: before that they are on their way.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::stats::{Held, Holder};

/// A connection's part of what is free.
const SHARE_PARTS: usize = 8;
/// Most work of one connection: what a gigabyte a second brings in 16 ms.
const WORK_OF_CONNECTION_MAX: usize = 16 << 20;
/// Who could not be read since too much work was in the house is read again when so many quarters of the bound are
/// used, so that it does not swing about the bound.
const RESUME_QUARTERS: usize = 3;

/// Bytes with a bound.
#[derive(Debug)]
struct Pot {
    held: AtomicUsize,
    max: usize,
}

impl Pot {
    fn new(max: usize) -> Self {
        Self { held: AtomicUsize::new(0), max }
    }

    fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    fn free(&self) -> usize {
        self.max.saturating_sub(self.held())
    }

    fn is_over(&self) -> bool {
        self.held() > self.max
    }

    fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, SeqCst);
    }

    /// True if it fell below the mark at which reading goes on.
    fn give_back(&self, bytes: usize) -> bool {
        let before = self.held.fetch_sub(bytes, SeqCst);
        let mark = self.max / 4 * RESUME_QUARTERS;
        before > mark && before - bytes <= mark
    }
}

/// What the connections of an address, or of the house, hold together.
#[derive(Debug)]
pub(super) struct Sum {
    work: Pot,
    debt: Pot,
    places: AtomicUsize,
}

impl Sum {
    fn new(work_max: usize, debt_max: usize) -> Arc<Self> {
        Arc::new(Self { work: Pot::new(work_max), debt: Pot::new(debt_max), places: AtomicUsize::new(0) })
    }

    pub(super) fn debt_bytes(&self) -> usize {
        self.debt.held()
    }

    pub(super) fn place_count(&self) -> usize {
        self.places.load(SeqCst)
    }

    pub(super) fn owes_too_much(&self) -> bool {
        self.debt.is_over()
    }

    /// Whether so much is free again that nobody has to go for a while.
    pub(super) fn owes_little(&self) -> bool {
        self.debt.held() <= self.debt.max - self.debt.max / 16
    }
}

impl Holder for Sum {
    fn held(&self) -> Held {
        Held { work_bytes: self.work.held(), debt_bytes: self.debt.held() }
    }
}

/// The sums of the house and of each address, of which connections' accounts are parts.
pub(super) struct Ledger {
    house: Arc<Sum>,
    addresses: Mutex<HashMap<IpAddr, Arc<Sum>>>,
}

impl Ledger {
    pub(super) fn new(work_max: usize, debt_max: usize) -> Arc<Self> {
        Arc::new(Self { house: Sum::new(work_max, debt_max), addresses: Mutex::default() })
    }

    pub(super) fn house(&self) -> &Arc<Sum> {
        &self.house
    }

    /// The account of a new connection.
    pub(super) fn open(self: &Arc<Self>, peer: IpAddr) -> Account {
        let owner = owner(peer);
        let mut addresses = self.addresses.lock();
        let (work_max, debt_max) = (self.house.work.max / 2, self.house.debt.max / 2);
        let address = addresses.entry(owner).or_insert_with(|| Sum::new(work_max, debt_max)).clone();
        address.places.fetch_add(1, SeqCst);
        drop(addresses);
        Account {
            ledger: self.clone(),
            owner,
            address,
            request_count: AtomicUsize::new(0),
            apart_count: AtomicUsize::new(0),
            work: AtomicUsize::new(0),
            debts: Default::default(),
            owing: Mutex::default(),
        }
    }
}

/// Who pays: an address, and of IPv6 the network of 64 bits, which every host has to itself.
fn owner(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// What a peer may owe.
#[derive(Clone, Copy, Debug)]
pub(super) enum Debt {
    /// The rest of a record.
    Record,
    /// To take replies.
    Replies,
    /// The same; requests wait for it.
    Backlog,
}

/// One connection's account. What is left in it is given back when it is dropped.
pub(super) struct Account {
    ledger: Arc<Ledger>,
    owner: IpAddr,
    address: Arc<Sum>,
    request_count: AtomicUsize,
    /// Requests that are set apart.
    apart_count: AtomicUsize,
    work: AtomicUsize,
    debts: [AtomicUsize; 3],
    /// Held while a debt changes: the sums take each as one, or they would be given back what they have not got yet.
    owing: Mutex<()>,
}

/// Whether a connection may bring more work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Some of its own has to end first.
    Taken,
    /// All of its address wait, or all there are, since too much work is in the house.
    CrowdedOut,
}

impl Account {
    pub(super) fn address(&self) -> &Arc<Sum> {
        &self.address
    }

    /// Requests in the house that count for it.
    pub(super) fn request_count(&self) -> usize {
        self.request_count.load(SeqCst)
    }

    /// Whether it has none, nor any that is set apart.
    pub(super) fn has_no_requests(&self) -> bool {
        self.request_count() == 0 && self.apart_count.load(SeqCst) == 0
    }

    /// Counts a request in.
    pub(super) fn begin(&self, bytes: usize) {
        self.request_count.fetch_add(1, SeqCst);
        self.add_work(bytes);
    }

    /// Counts it out; true if others may be read again for that.
    pub(super) fn end(&self, bytes: usize) -> bool {
        self.request_count.fetch_sub(1, SeqCst);
        self.give_back_work(bytes)
    }

    /// A request may wait for very long, and what comes behind it must not: from now on it counts for the house alone. True if
    /// others may be read again for that.
    pub(super) fn set_apart(&self, bytes: usize) -> bool {
        self.apart_count.fetch_add(1, SeqCst);
        self.request_count.fetch_sub(1, SeqCst);
        self.work.fetch_sub(bytes, SeqCst);
        self.address.work.give_back(bytes)
    }

    /// It counts as all others again.
    pub(super) fn take_back(&self, bytes: usize) {
        self.request_count.fetch_add(1, SeqCst);
        self.work.fetch_add(bytes, SeqCst);
        self.address.work.add(bytes);
        self.apart_count.fetch_sub(1, SeqCst);
    }

    /// One that is set apart is another connection's from now on.
    pub(super) fn hand_over(&self, heir: &Self) {
        heir.apart_count.fetch_add(1, SeqCst);
        self.apart_count.fetch_sub(1, SeqCst);
    }

    /// Counts one out that was set apart; true if others may be read again for that.
    pub(super) fn end_apart(&self, bytes: usize) -> bool {
        self.apart_count.fetch_sub(1, SeqCst);
        self.ledger.house.work.give_back(bytes)
    }

    pub(super) fn add_work(&self, bytes: usize) {
        self.work.fetch_add(bytes, SeqCst);
        self.address.work.add(bytes);
        self.ledger.house.work.add(bytes);
    }

    /// True if others may be read again for that.
    pub(super) fn give_back_work(&self, bytes: usize) -> bool {
        self.work.fetch_sub(bytes, SeqCst);
        let of_address = self.address.work.give_back(bytes);
        self.ledger.house.work.give_back(bytes) || of_address
    }

    /// Whether it may bring more work. Asked once for each decision: between two questions the answer changes.
    pub(super) fn room(&self) -> Room {
        if self.address.work.is_over() || self.ledger.house.work.is_over() {
            return Room::CrowdedOut;
        }
        let held = self.work.load(SeqCst);
        let free = self.address.work.free().min(self.ledger.house.work.free());
        let has_share = held == 0 || held <= (free / SHARE_PARTS).min(WORK_OF_CONNECTION_MAX);
        if has_share { Room::Free } else { Room::Taken }
    }

    /// Whether so many bytes of replies may wait for it.
    pub(super) fn may_owe(&self, held: usize, most: usize) -> bool {
        let free = || self.address.debt.free().min(self.ledger.house.debt.free());
        held == 0 || (held <= most && held <= free() / SHARE_PARTS)
    }

    /// So much it owes now. True: more than before, and somebody has to go.
    pub(super) fn owe(&self, what: Debt, bytes: usize) -> bool {
        let Some(debt) = self.debts.get(what as usize) else { return false };
        let _as_one = self.owing.lock();
        let before = debt.swap(bytes, SeqCst);
        if before == bytes {
            return false;
        }
        let sums = [&self.address, &self.ledger.house];
        sums.iter().for_each(|sum| sum.debt.add(bytes));
        sums.iter().for_each(|sum| _ = sum.debt.give_back(before));
        bytes > before && self.is_over_debt()
    }

    /// Whether it owes something of this kind.
    pub(super) fn owes(&self, what: Debt) -> bool {
        self.debts.get(what as usize).is_some_and(|debt| debt.load(SeqCst) > 0)
    }

    /// Whether its address or the house owes too much.
    pub(super) fn is_over_debt(&self) -> bool {
        self.address.owes_too_much() || self.ledger.house.owes_too_much()
    }

    /// It is forgiven everything: its connection is closed.
    pub(super) fn forgive(&self) {
        for what in [Debt::Record, Debt::Replies, Debt::Backlog] {
            self.owe(what, 0);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.forgive();
        let mut addresses = self.ledger.addresses.lock();
        if self.address.places.fetch_sub(1, SeqCst) == 1 {
            addresses.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests;
