use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn has_room(account: &Account) -> bool {
    account.room() == Room::Free
}

/// Who comes late gets less, and who holds nothing gets its first request.
#[test]
fn the_more_there_are_the_less_each_gets() {
    let ledger = Ledger::new(1 << 20, 1 << 20);
    let mut accounts = Vec::new();
    for number in 0..30 {
        let account = ledger.open(address(number));
        while has_room(&account) {
            account.begin(64);
        }
        accounts.push(account);
    }
    assert!(ledger.house().work.free() > 0 && has_room(&ledger.open(address(250))));
    assert!(accounts[0].request_count() > 4 * accounts[29].request_count());
    for account in &accounts {
        (0..account.request_count()).for_each(|_| _ = account.end(64));
    }
    assert_eq!((ledger.house().held().work_bytes, accounts[0].request_count()), (0, 0));
}

#[test]
fn an_address_has_half_of_the_house_and_gives_it_back() {
    let ledger = Ledger::new(1000, 1000);
    let (one, two, other) = (ledger.open(address(1)), ledger.open(address(1)), ledger.open(address(2)));
    assert!(!one.owe(Debt::Record, 400));
    assert!(two.owe(Debt::Replies, 200), "more than half");
    assert!(!two.owe(Debt::Replies, 150), "less than before");
    assert!(!other.owe(Debt::Backlog, 400));
    assert!(one.address().owes_too_much() && !other.is_over_debt());
    assert!(!other.may_owe(7, 1 << 20) && other.may_owe(6, 1 << 20) && !other.may_owe(6, 5) && other.may_owe(0, 0));
    one.begin(501);
    assert!(!has_room(&two) && has_room(&other));
    assert!(one.end(501), "others are told");
    assert_eq!(one.address().place_count(), 2);
    drop((one, two));
    assert_eq!(ledger.house().debt_bytes(), 400);
    assert_eq!(ledger.addresses.lock().len(), 1);
}

#[test]
fn an_address_of_ipv6_is_its_network() {
    let of = |text: &str| owner(text.parse().unwrap());
    assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2:ffff::1"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:10.0.0.1"), address(1));
    assert_eq!(of("2001:db8:1:2::1"), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, 0)));
}

/// Two workers settle what one connection owes, one as its socket fills and one as it takes all again. Whoever looks at
/// the sums meanwhile never sees more than was ever owed: he would close somebody for it.
#[test]
fn a_debt_that_is_gone_before_it_is_there_is_nobodys() {
    let ledger = Ledger::new(1000, 1000);
    let (one, other) = (ledger.open(address(1)), ledger.open(address(2)));
    let ended = std::sync::atomic::AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        for bytes in [0, 100] {
            let (one, ended) = (&one, &ended);
            scope.spawn(move || {
                while !ended.load(SeqCst) {
                    one.owe(Debt::Replies, bytes);
                    one.owe(Debt::Replies, 100 - bytes);
                }
            });
        }
        let until = std::time::Instant::now() + std::time::Duration::from_secs(2);
        let mut most = 0;
        while std::time::Instant::now() < until && most <= 200 {
            most = most.max(ledger.house().debt_bytes());
        }
        ended.store(true, SeqCst);
        most
    });
    assert!(most <= 200, "{most} bytes are owed of 100");
    drop(one);
    assert!(!other.is_over_debt());
    assert_eq!(ledger.house().debt_bytes(), 0);
}
