//! Who has to go: connections that owe too much, or for too long, and idle ones when others need their places.
//!
//! | who | when | which |
//! |---|---|---|
//! | a record that is begun | nothing of it came for 10 s, or it is 60 s old and slow; not while we do not read | that one |
//! | replies | the socket has taken nothing for 60 s | that one |
//! | debts together | above their bound, of an address or of the house | the oldest of the address with most [^1] |
//! | places | all are taken, and somebody comes | of the address with most, who never asked anything, then the longest idle |
//!
//! [^1]: of all, where no address has an eighth of the bound.
//!
//! A thread of its own looks at the times every other second (twice a second for leases, where there are such), and whether pools serve again for which requests wait; the bounds are looked at by whoever passes them.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use super::complaints::Complaint;
use super::hub::Hub;
use super::ledger::Sum;
use super::work::Connection;
use crate::v4::PARKED;

/// Between two looks at the times.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// The same, while requests wait for a suspended pool: nobody tells when it serves again.
const DOUBT_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes a second with which a record that is old is still waited for: whoever sends it over a bad link would begin it anew,
/// and never come to its end.
const RECORD_RATE_MIN: u64 = 1 << 10;
/// Between two looks at the clock of leases.
const LEASE_INTERVAL: Duration = Duration::from_millis(500);
/// Of all places so many are made free at once: to find the longest idle one takes a look at all connections.
const PLACES_PART: usize = 128;
/// An address with more than such a part of all debts that there may be goes before others.
const LARGE_PART: usize = 8;

/// The life of the thread that looks at the times.
pub(super) fn keep(hub: &Arc<Hub>) {
    let limits = &hub.options;
    let shortest = limits.record_silence_max.min(limits.record_time_max).min(limits.unread_time_max);
    let interval = LOOK_INTERVAL.min(shortest / 4);
    let (mut waited, mut leases) = (Duration::ZERO, Leases::default());
    loop {
        let step = if hub.doubtful.is_empty() { interval } else { DOUBT_INTERVAL.min(interval) };
        let step = if hub.service.has_leases() { step.min(LEASE_INTERVAL) } else { step };
        // Nobody is parked for longer (rules V15).
        let step = if hub.service.has_parked() { step.min(PARKED / 2) } else { step };
        if hub.sleep(step) {
            return;
        }
        hub.service.end_parking();
        leases.look(hub);
        if hub.service.has_waiters() {
            hub.queue.push_look();
            hub.wake_one();
        }
        hub.make_calls();
        for work in hub.doubtful.take_ready(&hub.service, |id| hub.connection(id)) {
            hub.push_run(work);
        }
        waited += step;
        if waited < interval {
            continue;
        }
        waited = Duration::ZERO;
        end_overdue(hub);
        hub.complaints.tell();
    }
}

/// Leases run while requests are carried out: who could not be answered has missed nothing (rules V21).
#[derive(Default)]
struct Leases {
    /// How many tasks were taken at the last look, if more waited.
    taken: Option<u64>,
}

impl Leases {
    fn look(&mut self, hub: &Hub) {
        let taken = hub.queue.taken_while_more_wait();
        // Something waits, and nothing was taken since: all workers hang.
        let is_stuck = taken.is_some() && taken == self.taken;
        self.taken = taken;
        if !is_stuck {
            hub.service.look_at_clock(hub.start.elapsed());
        }
    }
}

fn end_overdue(hub: &Arc<Hub>) {
    let now = hub.now_ms();
    let limits = &hub.options;
    let over = |since: u64, most: Duration| since != 0 && u128::from(now.saturating_sub(since)) > most.as_millis();
    for connection in hub.all_connections() {
        if connection.paused.load(SeqCst) {
            // What is missing may have been in the socket for long.
            connection.begin_record_anew(now);
        }
        let began = connection.record_began_ms.load(Relaxed);
        let silent = began != 0 && over(connection.heard_ms.load(Relaxed).max(began), limits.record_silence_max);
        let slow = connection.record_arrived.load(Relaxed) < now.saturating_sub(began) / 1000 * RECORD_RATE_MIN;
        if silent || (slow && over(began, limits.record_time_max)) {
            dismiss(hub, &connection, Complaint::RecordOverdue);
        } else if over(connection.unread_since_ms.load(Relaxed), limits.unread_time_max) {
            dismiss(hub, &connection, Complaint::RepliesOverdue);
        }
    }
}

/// More is owed than there may be: the oldest go until it is less. One worker sees to it, others go on.
pub(super) fn close_debtors(hub: &Arc<Hub>) {
    let Some(_alone) = hub.closing_debtors.try_lock() else { return };
    let all = hub.all_connections();
    let mut addresses: Vec<Arc<Sum>> = Vec::new();
    for connection in &all {
        let address = connection.account.address();
        if !addresses.iter().any(|known| Arc::ptr_eq(known, address)) {
            addresses.push(address.clone());
        }
    }
    for address in addresses.iter().filter(|address| address.owes_too_much()) {
        dismiss_oldest(hub, &all, Some(address), || address.owes_little());
    }
    while hub.ledger.house().owes_too_much() {
        let Some(largest) = addresses.iter().max_by_key(|address| address.debt_bytes()) else { return };
        let enough = || hub.ledger.house().owes_little();
        // Many addresses may be one host's, and whoever is about to write may then have most.
        let is_large = largest.debt_bytes() > hub.options.debt_bytes_max / LARGE_PART;
        if !dismiss_oldest(hub, &all, is_large.then_some(largest), enough) || !is_large {
            return;
        }
        // What its connections still hold is on its way out.
        let gone = largest.clone();
        addresses.retain(|address| !Arc::ptr_eq(address, &gone));
    }
}

/// Closes the connections that have owed longest, of an address or of all, until it is enough; false if there was none.
fn dismiss_oldest(
    hub: &Arc<Hub>,
    all: &[Arc<Connection>],
    address: Option<&Arc<Sum>>,
    enough: impl Fn() -> bool,
) -> bool {
    let mut debtors: Vec<(u64, &Arc<Connection>)> = all
        .iter()
        .filter(|connection| address.is_none_or(|address| Arc::ptr_eq(connection.account.address(), address)))
        .filter_map(|connection| Some((connection.owes_since_ms()?, connection)))
        .collect();
    debtors.sort_by_key(|(since, connection)| (*since, connection.link.id()));
    let mut found = false;
    for (_, connection) in debtors {
        if enough() {
            break;
        }
        found = true;
        dismiss(hub, connection, Complaint::InDebt);
    }
    found
}

/// Makes places free for who comes; false if everybody has requests that are carried out.
pub(super) fn free_places(hub: &Arc<Hub>) -> bool {
    let mut idle: Vec<_> = hub.all_connections().into_iter().filter(|connection| connection.is_idle()).collect();
    idle.sort_by_cached_key(|connection| {
        let places = Reverse(connection.account.address().place_count());
        (places, connection.has_asked.load(Relaxed), connection.idle_since_ms(), connection.link.id())
    });
    idle.truncate((hub.options.connections_max / PLACES_PART).max(1));
    idle.iter().for_each(|connection| dismiss(hub, connection, Complaint::Replaced));
    !idle.is_empty()
}

fn dismiss(hub: &Arc<Hub>, connection: &Arc<Connection>, why: Complaint) {
    hub.complaints.add(why, connection.link.peer());
    hub.service.stats().connections_dismissed.fetch_add(1, SeqCst);
    hub.close(connection);
}
