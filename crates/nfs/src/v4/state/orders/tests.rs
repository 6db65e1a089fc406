use std::sync::Arc;

use super::*;
use crate::v4::state::bounds::OWNER_BYTES_MAX;

pub(super) fn key(client: u64, name: u32) -> OwnerKey {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&name.to_be_bytes());
    OwnerKey { client: ClientId(client), name: bytes }
}

pub(super) fn nobody(_: &OwnerKey) -> bool {
    false
}

/// An operation that a compound has alone, and what it is told.
fn done(orders: &Arc<Orders>, owner: OwnerKey, seqid: u32, results: &[u8]) -> Result<Came, Status> {
    done_where(orders, owner, seqid, results, &nobody)
}

fn done_where(
    orders: &Arc<Orders>,
    owner: OwnerKey,
    seqid: u32,
    results: &[u8],
    is_open: &dyn Fn(&OwnerKey) -> bool,
) -> Result<Came, Status> {
    let mut turns = Turns::default();
    let asking = Asking { owner, brought: Brought::Open, seqid, fingerprint: 7, nth: 2 };
    let came = turns.begin(orders, asking, is_open)?;
    turns.end(2, Status::Ok, results, None);
    turns.settle();
    Ok(came)
}

const NEW: Result<Came, Status> = Ok(Came::Now { is_confirmed: false, is_anew: false });

#[test]
fn a_client_meets_its_own_bound_and_who_has_nothing_open_gives_way() {
    let orders = Arc::new(Orders::default());
    let most = OWNERS_OF_CLIENT_MAX as u32;
    for name in 0..most {
        assert_eq!(done(&orders, key(1, name), 5, b"told"), NEW);
    }
    let all = |_: &OwnerKey| true;
    assert_eq!(done_where(&orders, key(1, most), 5, b"", &all), Err(Status::Resource));
    assert_eq!(done_where(&orders, key(2, 0), 5, b"", &all), NEW, "another client has room");
    // Eight were looked at, and are as if they had come now: the next that is idle is behind them.
    assert_eq!(done(&orders, key(1, most), 5, b""), NEW);
    assert_eq!(orders.counts().0, OWNERS_OF_CLIENT_MAX + 1);
    let told = Told { status: Status::Ok, results: b"told".as_slice().into(), file: None };
    assert_eq!(done(&orders, key(1, 0), 5, b""), Ok(Came::Before(told)), "it was looked at");
    assert_eq!(done(&orders, key(1, 8), 5, b""), NEW, "this one has gone");
    orders.table.lock().check_all();
}

/// Rules V35: four clients are denied LOCKs by long names of others, each owner below what is open, and as much is kept as there may be.
#[test]
fn what_many_are_told_keeps_nobody_from_going_on() {
    let orders = Arc::new(Orders::default());
    let all = |_: &OwnerKey| true;
    let (honest, denied) = (key(9, 0), [7; OWNER_BYTES_MAX + 32]);
    let most = (OWNERS_KEPT_BYTES_MAX / denied.len()) as u32;
    assert_eq!(done_where(&orders, honest, 5, b"open", &all), NEW);
    orders.confirm(&honest);
    for nth in 0..most + 100 {
        assert_eq!(done_where(&orders, key(u64::from(nth % 4), nth), 5, &denied, &all), NEW);
        assert!(orders.counts().1 <= OWNERS_KEPT_BYTES_MAX);
    }
    assert_eq!(orders.counts(), (most as usize + 101, most as usize * denied.len()), "all are there");
    let told = |results: &[u8]| Ok(Came::Before(Told { status: Status::Ok, results: results.into(), file: None }));
    let faulted = Ok(Came::Before(Status::ServerFault.into()));
    assert_eq!(done_where(&orders, honest, 5, b"", &all), faulted, "the oldest");
    assert_eq!(done_where(&orders, key(3, 99), 5, b"", &all), faulted);
    assert_eq!(done_where(&orders, key(0, 100), 5, b"", &all), told(&denied));
    // CLOSE, and once more.
    let mut turns = Turns::default();
    let close = Asking { owner: honest, brought: Brought::Other, seqid: 6, fingerprint: 7, nth: 2 };
    assert_eq!(turns.begin(&orders, close, &all), Ok(Came::Now { is_confirmed: true, is_anew: false }));
    turns.end(2, Status::Ok, &denied, None);
    turns.settle();
    assert_eq!(Turns::default().begin(&orders, close, &all), told(&denied));
    assert_eq!(done_where(&orders, key(1, 101), 5, b"", &all), faulted, "it gave way");
    [0, 1, 2, 3, 9].into_iter().for_each(|client| orders.forget_client(ClientId(client)));
    assert_eq!(orders.counts(), (0, 0));
}

#[test]
fn what_failed_without_being_looked_at_leaves_nobody_behind() {
    let orders = Arc::new(Orders::default());
    let mut turns = Turns::default();
    let asking = Asking { owner: key(1, 1), brought: Brought::Open, seqid: 5, fingerprint: 7, nth: 2 };
    assert_eq!(turns.begin(&orders, asking, &nobody), NEW);
    turns.end(2, Status::StaleClientId, &[], None);
    turns.settle();
    assert_eq!(orders.counts(), (0, 0));
    // Nor does what was dropped as it waited.
    let mut turns = Turns::default();
    assert_eq!(turns.begin(&orders, asking, &nobody), NEW);
    turns.end(2, Status::Ok, b"told", None);
    turns.wait(2);
    drop(turns);
    assert_eq!(orders.counts(), (0, 0));
}

/// A compound of two owners: the first one's promise broke. The second one's operation is done, and told to whoever asks again.
#[test]
fn what_broke_of_one_owner_is_nothing_to_the_other() {
    let orders = Arc::new(Orders::default());
    let asking = |name, seqid, nth| Asking { owner: key(1, name), brought: Brought::Open, seqid, fingerprint: 7, nth };
    let mut turns = Turns::default();
    for (nth, (name, seqid)) in (2..).zip([(1, 5), (2, 5), (1, 6)]) {
        turns.begin(&orders, asking(name, seqid, nth), &nobody).unwrap();
        turns.end(nth, Status::Ok, b"told", None);
    }
    turns.wait(2);
    turns.settle_broken(2);
    let mut turns = Turns::default();
    assert_eq!(turns.begin(&orders, asking(1, 5, 2), &nobody), Ok(Came::Before(Status::Io.into())));
    assert_eq!(turns.begin(&orders, asking(1, 6, 2), &nobody), Ok(Came::Now { is_confirmed: false, is_anew: true }));
    let told = Told { status: Status::Ok, results: b"told".as_slice().into(), file: None };
    assert_eq!(turns.begin(&orders, asking(2, 5, 3), &nobody), Ok(Came::Before(told)));
}
