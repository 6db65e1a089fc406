use tally_vfs::Stability;

use super::*;
use crate::v3::Procedure;

fn paid(kept: Kept, wait_us: u64) -> Paid {
    Paid {
        kind: Kind::new(Procedure::Write, Stability::FileSync),
        ok: true,
        data_bytes: 4096,
        queue: Duration::from_micros(1),
        work: Duration::from_micros(10),
        wait: Duration::from_micros(wait_us),
        kept,
        reply: Duration::from_micros(5),
    }
}

fn payer(last: u32) -> Payer {
    Payer::Client { address: IpAddr::V4((0x0a00_0000 + last).into()), pool: PoolGuid(7), dataset: DatasetId(1) }
}

#[test]
fn a_wait_is_slot_and_device_or_else_the_group_s() {
    let (accounts, newest) = (Accounts::default(), Newest::default());
    let log =
        Kept { by: Keeper::Log(LaneId(3)), device: Duration::from_micros(90), record_bytes: 4_200, frame_bytes: 8_192 };
    accounts.enter(&newest, payer(1), &paid(log, 250), 0);
    // The frame of another was under way when it came.
    accounts.enter(&newest, payer(1), &paid(log, 60), 0);
    accounts.enter(&newest, payer(1), &paid(Kept::GROUP, 5_000), 0);
    accounts.enter(&newest, payer(1), &Paid { ok: false, ..paid(Kept::default(), 0) }, 0);
    let all = accounts.all();
    let (whose, account) = &all[0];
    let sums = account.kind(Kind::new(Procedure::Write, Stability::FileSync));
    let us = |sum: &AtomicU64| sum.load(Relaxed) / 1_000;
    assert_eq!((all.len(), *whose, account.lane()), (1, payer(1), Some(LaneId(3))));
    assert_eq!((sums.calls.load(Relaxed), sums.errors.load(Relaxed), sums.data_bytes.load(Relaxed)), (4, 1, 16_384));
    assert_eq!((us(&sums.slot_ns), us(&sums.device_ns), us(&sums.group_ns)), (160, 150, 5_000));
    assert_eq!((us(&sums.queue_ns), us(&sums.work_ns), us(&sums.reply_ns)), (4, 40, 20));
    assert_eq!((account.commits.load(Relaxed), account.group_waits.load(Relaxed)), (2, 1));
    assert_eq!((account.record_bytes.load(Relaxed), account.frame_bytes.load(Relaxed)), (8_400, 16_384));
    assert_eq!(account.commits_by_size.each_ref().map(|count| count.load(Relaxed)), [0, 2, 0]);
    assert_eq!((account.slot.count(), account.device.count(), account.reply.count()), (2, 2, 2));
}

/// Commits of all accounts of the pool.
fn commits(accounts: &Accounts) -> u64 {
    accounts.all().iter().map(|(_, account)| account.commits.load(Relaxed)).sum()
}

fn commit() -> Paid {
    paid(Kept { by: Keeper::Log(LaneId(0)), device: Duration::ZERO, record_bytes: 100, frame_bytes: 4096 }, 10)
}

fn clients(accounts: &Accounts) -> Vec<Payer> {
    accounts.all().into_iter().map(|(payer, _)| payer).filter(|payer| payer.is_client()).collect()
}

/// Accounts were kept for ever, and given to whoever came first: two thousand addresses later a newcomer's commits were
/// missing from the sums of his pool.
#[test]
fn a_hundred_thousand_addresses_in_an_hour_leave_every_sum_right() {
    const ADDRESSES: u64 = 100_000;
    let accounts = Accounts::default();
    let (good, newcomer) = (payer(1 << 20), payer(1 << 21));
    let (of_good, of_newcomer) = (Newest::default(), Newest::default());
    let mut seen = std::collections::HashSet::new();
    for number in 0..ADDRESSES {
        let second = number * 3600 / ADDRESSES;
        // Each comes over a connection of its own, with a call about nothing before.
        let newest = Newest::default();
        accounts.enter(&newest, Payer::Nobody, &paid(Kept::default(), 0), second);
        accounts.enter(&newest, payer(u32::try_from(number).expect("a small number")), &commit(), second);
        accounts.enter(&of_good, good, &commit(), second);
        if number > ADDRESSES / 2 {
            accounts.enter(&of_newcomer, newcomer, &commit(), second);
        }
        if number % 1_000 == 0 {
            assert!(accounts.all().len() <= ACCOUNTS_MAX + 3);
            seen.extend(clients(&accounts));
        }
    }
    seen.extend(clients(&accounts));
    assert_eq!(commits(&accounts), 2 * ADDRESSES + ADDRESSES / 2 - 1, "the sum over the pool");
    let own = |wanted: Payer| {
        accounts.all().iter().find(|(payer, _)| *payer == wanted).map(|(_, one)| one.commits.load(Relaxed))
    };
    assert_eq!(own(good), Some(ADDRESSES), "who is active keeps his account");
    assert!(
        own(newcomer).is_some_and(|commits| commits > 1_000),
        "the idle have given way to him: {:?}",
        own(newcomer)
    );
    assert_eq!(own(Payer::Nobody), Some(0));
    assert!(seen.len() <= 13 * ACCOUNTS_MAX, "{} accounts in an hour, each with a label of its own", seen.len());
}

#[test]
fn who_may_see_nothing_gets_no_account() {
    let accounts = Accounts::default();
    for _ in 0..10 * ACCOUNTS_MAX {
        accounts.enter(&Newest::default(), Payer::Nobody, &paid(Kept::default(), 0), 0);
    }
    let all = accounts.all();
    let calls = all[0].1.kind(Kind::new(Procedure::Write, Stability::FileSync)).calls.load(Relaxed);
    assert_eq!((all.len(), all[0].0, calls as usize), (1, Payer::Nobody, 10 * ACCOUNTS_MAX));
}

#[test]
fn what_is_in_use_is_never_closed() {
    let accounts = Accounts::default();
    let newest = Newest::default();
    accounts.enter(&newest, payer(0), &commit(), 0);
    let read = accounts.all();
    for client in 1..=u32::try_from(ACCOUNTS_MAX).expect("a small number") {
        accounts.enter(&Newest::default(), payer(client), &commit(), IDLE_SECONDS);
    }
    // All but the one that is being read were used just now, so the last one found no place.
    let others = |accounts: &Accounts| accounts.all().iter().any(|(payer, _)| *payer == Payer::Others(PoolGuid(7)));
    assert!(others(&accounts) && clients(&accounts).contains(&payer(0)));
    drop(read);
    accounts.enter(&Newest::default(), payer(1 << 20), &commit(), IDLE_SECONDS + 1);
    assert!(!clients(&accounts).contains(&payer(0)) && clients(&accounts).contains(&payer(1 << 20)));
    // Its connection comes again, and finds what it had closed.
    accounts.enter(&newest, payer(0), &commit(), IDLE_SECONDS + 1);
    assert_eq!(commits(&accounts), ACCOUNTS_MAX as u64 + 3);
}

#[test]
fn nothing_is_lost_while_accounts_give_way() {
    const ROUNDS: u64 = 40_000;
    let accounts = Accounts::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let accounts = &accounts;
            scope.spawn(move || {
                // Twice as many as there are places, shared by all threads, and time flies.
                let connections: Vec<Newest> = (0..2 * ACCOUNTS_MAX).map(|_| Newest::default()).collect();
                for round in 0..ROUNDS {
                    let at = (round.wrapping_mul(2_654_435_761) + thread) as usize % connections.len();
                    let second = round * IDLE_SECONDS / 2_000;
                    let client = payer(u32::try_from(at).expect("a small number"));
                    accounts.enter(&connections[at], client, &commit(), second);
                }
            });
        }
    });
    assert_eq!(commits(&accounts), 4 * ROUNDS);
    assert!(clients(&accounts).len() <= ACCOUNTS_MAX);
    assert!(accounts.all().iter().any(|(payer, one)| matches!(payer, Payer::Gone(_)) && one.slot.count() > 1_000));
}
