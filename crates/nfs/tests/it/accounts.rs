//! Who pays, as the service counts it: addresses are a stranger's choice, and there are more of them than places.
//!
//! There were 2,048 accounts, for whoever came first, with or without a right to anything, and for ever. What later
//! clients did was booked on nothing: `zilstat` and the sums over a pool in `/metrics` missed it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::support::client::{Client, NFS, words};
use crate::support::{House, POOL, TestExports};
use bytes::Bytes;
use tally_nfs::link::Link;
use tally_nfs::service::{Service, Step};
use tally_nfs::stats::Kind;
use tally_nfs::stats::accounts::{ACCOUNTS_MAX, Payer};
use tally_nfs::v3::Procedure;
use tally_vfs::Stability;

const ADDRESSES: u32 = 100_000;

/// The record of a GETATTR, as a client sends it.
fn getattr(client: &Client, handle: &[u8]) -> Bytes {
    let arguments = words(|words| {
        words.opaque(handle);
    });
    let record = client.record(1, NFS, Procedure::GetAttr as u32, arguments);
    Bytes::from(record)
}

fn from(address: u32) -> Arc<Link> {
    Arc::new(Link::new(address.into(), SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + address), 700))))
}

/// One request from its record to its reply.
fn carry_out(service: &Service, link: &Arc<Link>, record: &Bytes) {
    let mut job = service.open(record.clone(), link, Instant::now()).unwrap();
    let Step::Reply(reply) = service.run(&mut job) else { panic!("a GETATTR waits for nothing here") };
    service.finish(&mut job, &reply);
    service.sent(&job, Instant::now());
}

#[test]
fn every_call_of_a_hundred_thousand_addresses_counts_for_the_pool() {
    let house = House::new();
    let mut client = house.client();
    let record = getattr(&client, &client.twin().mount("/tank"));
    let exports: Arc<TestExports> = Arc::clone(&house.exports);
    let service = Service::new(exports);
    for address in 0..ADDRESSES {
        carry_out(&service, &from(address), &record);
    }
    let newcomer = from(ADDRESSES);
    (0..500).for_each(|_| carry_out(&service, &newcomer, &record));
    // And as many who may see nothing.
    *house.exports.tank_rule.lock() = "127.0.0.1(rw)".into();
    for address in 0..ADDRESSES {
        carry_out(&service, &from(2 * ADDRESSES + address), &record);
    }

    let all = service.stats().accounts.all();
    let kind = Kind::new(Procedure::GetAttr, Stability::FileSync);
    let calls = |wanted: &dyn Fn(&Payer) -> bool| -> u64 {
        all.iter().filter(|(payer, _)| wanted(payer)).map(|(_, account)| account.kind(kind).calls.load(Relaxed)).sum()
    };
    assert_eq!(all.len(), ACCOUNTS_MAX + 2, "one of each client that came in time, of the others, and of nobody");
    assert_eq!(calls(&|payer| *payer == Payer::Nobody), u64::from(ADDRESSES), "they have no account, and still count");
    assert_eq!(calls(&|payer| *payer != Payer::Nobody), u64::from(ADDRESSES) + 500, "the sum over the pool is exact");
    assert_eq!(calls(&|payer| *payer == Payer::Others(POOL)), u64::from(ADDRESSES) + 500 - ACCOUNTS_MAX as u64);
    assert_eq!(client.getattr(&[1]).0, 10_001, "and the server answers");
}
