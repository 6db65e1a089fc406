use tally_fs::vfs::Stability;

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
    Payer { client: Some(IpAddr::V4((0x0a00_0000 + last).into())), dataset: Some((PoolGuid(7), DatasetId(1))) }
}

#[test]
fn a_wait_is_slot_and_device_or_else_the_group_s() {
    let (accounts, newest) = (Accounts::default(), Newest::default());
    let log =
        Kept { by: Keeper::Log(LaneId(3)), device: Duration::from_micros(90), record_bytes: 4_200, frame_bytes: 8_192 };
    accounts.enter(&newest, payer(1), &paid(log, 250));
    // The frame of another was under way when it came.
    accounts.enter(&newest, payer(1), &paid(log, 60));
    accounts.enter(&newest, payer(1), &paid(Kept::GROUP, 5_000));
    accounts.enter(&newest, payer(1), &Paid { ok: false, ..paid(Kept::default(), 0) });
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

#[test]
fn who_comes_too_late_for_an_account_shares_one() {
    let (accounts, newest) = (Accounts::default(), Newest::default());
    let clients = u32::try_from(ACCOUNTS_MAX).expect("a small number") + 3;
    for client in 0..clients {
        accounts.enter(&newest, payer(client), &paid(Kept::default(), 0));
    }
    // Who has one keeps it.
    accounts.enter(&newest, payer(0), &paid(Kept::default(), 0));
    let all = accounts.all();
    let kind = Kind::new(Procedure::Write, Stability::FileSync);
    let calls = |wanted: Payer| {
        let found = all.iter().find(|(payer, _)| *payer == wanted).expect("it has an account");
        found.1.kind(kind).calls.load(Relaxed)
    };
    assert_eq!((all.len(), calls(Payer::default()), calls(payer(0))), (ACCOUNTS_MAX + 1, 3, 2));
}
