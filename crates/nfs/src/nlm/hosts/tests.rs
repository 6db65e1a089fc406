use super::super::waiting::HostWait;
use super::*;
use tally_vfs::locks::{Kind, Range};

const AT: fn(u64) -> Duration = Duration::from_secs;

fn caller(host: u8, process: u32) -> HostProcess<'static> {
    let process = Process { handle: b"p@h", number: process };
    HostProcess { address: [10, 0, 0, host].into(), is_privileged: true, name: b"a host", process }
}

fn hosts() -> Hosts<u8> {
    Hosts::new(7)
}

/// A lock that is given.
fn lock(hosts: &mut Hosts<u8>, host: u8, process: u32, file: u8) -> Holder {
    let holder = hosts.begin(&caller(host, process), AT(0)).unwrap();
    assert!(hosts.settle(holder, file, true, AT(0)));
    holder
}

#[test]
fn owners_are_of_an_address_and_its_words_for_them() {
    let mut hosts = hosts();
    let first = lock(&mut hosts, 1, 5, 1);
    assert_eq!(lock(&mut hosts, 1, 5, 2), first);
    let others = [lock(&mut hosts, 1, 6, 1), lock(&mut hosts, 2, 5, 1)];
    assert!(others.iter().all(|other| *other != first && hosts.is_of_host(other.client)));
    assert_eq!((others[0].client, hosts.find(&caller(1, 5))), (first.client, first));
    // One address, however it is written.
    assert_eq!(hosts.find(&HostProcess { address: "::ffff:10.0.0.1".parse().unwrap(), ..caller(1, 5) }), first);
    let named = hosts.named(first).unwrap();
    assert_eq!(
        (named.address, &*named.host, named.process()),
        ([10, 0, 0, 1].into(), &b"a host"[..], caller(1, 5).process)
    );
    let nobody = hosts.find(&caller(9, 5));
    assert!(hosts.named(nobody).is_none() && hosts.is_of_host(nobody.client));
}

#[test]
fn an_owner_goes_with_what_it_had_and_a_host_a_while_later() {
    let mut hosts = hosts();
    let holder = lock(&mut hosts, 1, 5, 1);
    hosts.note(holder, 1, false, AT(10));
    assert!(hosts.named(holder).is_none() && hosts.count() == 1);
    assert_eq!(hosts.end_idle(AT(69)), Vec::<IpAddr>::new());
    // A request that is under way keeps it.
    let begun = hosts.begin(&caller(1, 5), AT(69)).unwrap();
    assert_eq!(hosts.end_idle(AT(500)), Vec::<IpAddr>::new());
    assert!(hosts.settle(begun, 1, false, AT(500)));
    assert_eq!(hosts.end_idle(AT(559)), Vec::<IpAddr>::new());
    assert_eq!(hosts.end_idle(AT(560)), [IpAddr::from([10, 0, 0, 1])]);
    assert_eq!((hosts.count(), hosts.owner_count, hosts.names_bytes, hosts.by_number.len()), (0, 0, 0, 0));
}

/// A LOCK beside the end of its host finds that it is nobody's; and who waits keeps his host.
#[test]
fn a_host_that_has_started_anew_has_nothing() {
    let mut hosts = hosts();
    let (one, other) = (lock(&mut hosts, 1, 5, 1), lock(&mut hosts, 2, 5, 1));
    let under_way = hosts.begin(&caller(1, 6), AT(1)).unwrap();
    let wait = HostWait {
        holder: under_way,
        file: 1,
        range: Range::between(0, 9).unwrap(),
        kind: Kind::Write,
        handle: bytes::Bytes::new(),
        by: None,
    };
    assert!(hosts.waiting.join(wait, AT(1)));
    let address = IpAddr::from([10, 0, 0, 1]);
    hosts.note_state(one, 3);
    let freed = hosts.free(address, Some(5), AT(2)).unwrap();
    assert_eq!(freed, Freed { address, held: vec![(one, 1)], is_all: true });
    assert!(!hosts.waiting.is_waited_for(&1) && hosts.named(one).is_none() && hosts.named(other).is_some());
    assert!(!hosts.settle(under_way, 1, true, AT(2)), "what it has got is to be given up");
    // The same notice again, as UDP has it, takes nothing from the new start.
    let anew = lock(&mut hosts, 1, 5, 1);
    assert_ne!(anew, one);
    assert_eq!(hosts.free(address, Some(5), AT(3)), None);
    assert!(hosts.named(anew).is_some());
    assert!(hosts.free(address, None, AT(3)).is_some(), "it says so itself");
    assert_eq!(hosts.free([10, 0, 0, 9].into(), Some(5), AT(3)), None);
}

#[test]
fn there_are_no_more_than_may_be() {
    let mut hosts = hosts();
    for process in 0..OWNERS_OF_HOST_MAX {
        lock(&mut hosts, 1, process as u32, 1);
    }
    assert_eq!(hosts.begin(&caller(1, u32::MAX), AT(0)), Err(Full));
    assert!(hosts.begin(&caller(2, 1), AT(0)).is_ok());
    for host in 1..HOSTS_MAX - 1 {
        let address = IpAddr::from([11, 0, (host >> 8) as u8, host as u8]);
        assert!(hosts.begin(&HostProcess { address, ..caller(1, 1) }, AT(0)).is_ok());
    }
    assert_eq!(hosts.begin(&HostProcess { address: [12, 0, 0, 1].into(), ..caller(1, 1) }, AT(0)), Err(Full));
}

/// Whoever asks from a port that anybody of the host may have is nobody that its kernel speaks for.
#[test]
fn who_asks_from_a_port_of_the_superusers_is_somebody_else() {
    let mut hosts = hosts();
    let (kernel, user) = (caller(1, 5), HostProcess { is_privileged: false, ..caller(1, 5) });
    let address = kernel.address;
    let of_user = hosts.begin(&user, AT(0)).unwrap();
    assert!(hosts.settle(of_user, 1, true, AT(0)) && hosts.speaks_for(address, false));
    let of_kernel = lock(&mut hosts, 1, 5, 1);
    assert_ne!(of_kernel, of_user);
    assert_eq!((hosts.find(&kernel), hosts.find(&user)), (of_kernel, of_user));
    assert!(hosts.speaks_for(address, true) && !hosts.speaks_for(address, false));
    hosts.note(of_kernel, 1, false, AT(1));
    assert!(hosts.speaks_for(address, false), "it has nothing any more");
}

/// A notice is sent more than once: what its host has locked between the two stays.
#[test]
fn what_a_host_has_said_before_it_was_known_is_remembered() {
    let mut hosts = hosts();
    let address = caller(1, 5).address;
    assert!(!hosts.said_before(address, 5) && hosts.said_before(address, 5));
    let held = lock(&mut hosts, 1, 5, 1);
    assert!(hosts.said_before(address, 5) && hosts.free(address, Some(5), AT(1)).is_none());
    // Also where it was known, and was idle for long.
    hosts.note(held, 1, false, AT(1));
    assert_eq!(hosts.end_idle(AT(100)), [address]);
    lock(&mut hosts, 1, 5, 1);
    assert!(hosts.said_before(address, 5) && !hosts.said_before(address, 7));
    // What a lock says of one that has said something takes nothing of that back.
    let other = caller(2, 5).address;
    assert!(!hosts.said_before(other, 5));
    let held = lock(&mut hosts, 2, 5, 1);
    hosts.note_state(held, 7);
    assert!(hosts.said_before(other, 5) && !hosts.said_before(other, 7));
}

/// A notice tells of a start: who has locked something since keeps it, and what else there is goes, also of who has said nothing.
#[test]
fn a_notice_frees_owners_of_other_starts() {
    let mut hosts = hosts();
    let address = caller(1, 5).address;
    let [old, mixed, silent, new] = [5, 6, 7, 8].map(|process| lock(&mut hosts, 1, process, process as u8));
    hosts.note_state(old, 3);
    // It is not known of what it has whether that was before or behind.
    [3, 9].into_iter().for_each(|state| hosts.note_state(mixed, state));
    [0, 0].into_iter().for_each(|state| hosts.note_state(silent, state));
    hosts.note_state(new, 9);
    let wait = |holder, file| HostWait {
        holder,
        file,
        range: Range::between(0, 9).unwrap(),
        kind: Kind::Write,
        handle: bytes::Bytes::new(),
        by: None,
    };
    assert!([wait(old, 20), wait(new, 21)].into_iter().all(|wait| hosts.waiting.join(wait, AT(1))));
    let under_way = hosts.begin(&caller(1, 5), AT(1)).unwrap();
    let freed = hosts.free(address, Some(9), AT(2)).unwrap();
    assert_eq!([20, 21].map(|file| hosts.waiting.is_waited_for(&file)), [false, true]);
    assert!(hosts.waiting.leave(new, &21, |_| true).is_empty());
    assert_eq!(freed, Freed { address, held: vec![(old, 5), (mixed, 6), (silent, 7)], is_all: false });
    assert_eq!(hosts.find(&caller(1, 8)), new);
    assert!(!hosts.settle(under_way, 5, true, AT(2)), "what it has got is to be given up");
    assert_eq!((hosts.owner_count, hosts.names_bytes, hosts.number_of(address)), (1, 3, Some(new.client)));
    assert!(hosts.said_before(address, 9) && hosts.free(address, Some(9), AT(3)).is_none());
    hosts.note(new, 8, false, AT(3));
    assert_eq!((hosts.owner_count, hosts.end_idle(AT(100))), (0, vec![address]));
}

#[test]
fn no_more_notices_are_remembered_than_may_be() {
    let mut hosts = hosts();
    let address = |number: usize| IpAddr::from([11, 0, (number >> 8) as u8, number as u8]);
    for number in 0..TOLD_MAX + 1 {
        assert!(!hosts.said_before(address(number), 5));
    }
    assert_eq!((hosts.told.len(), hosts.told_in_order.len()), (TOLD_MAX, TOLD_MAX));
    assert!(hosts.said_before(address(TOLD_MAX), 5) && !hosts.said_before(address(0), 5));
}

/// An owner that only waited is forgotten with its wait, and so is its host.
#[test]
fn who_waited_and_waits_no_more_has_nothing() {
    let mut hosts = hosts();
    let holder = hosts.begin(&caller(1, 5), AT(0)).unwrap();
    let wait = HostWait {
        holder,
        file: 1,
        range: Range::between(0, 9).unwrap(),
        kind: Kind::Write,
        handle: bytes::Bytes::new(),
        by: None,
    };
    assert!(hosts.waiting.join(wait, AT(0)) && hosts.settle(holder, 1, false, AT(0)));
    hosts.forget_left(AT(1));
    assert!(hosts.named(holder).is_some(), "he waits");
    hosts.waiting.forget_silent(AT(1000));
    hosts.forget_left(AT(1000));
    assert!(hosts.named(holder).is_none());
    assert_eq!(hosts.end_idle(AT(1060)).len(), 1);
}
