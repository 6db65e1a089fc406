use std::sync::atomic::AtomicU64;

use super::*;
use crate::account::Count;
use crate::delegation::{Act, Delegation};
use crate::holder::OwnerNumber;
use crate::ranges::Kind;
use crate::refused::{Claim, Within};
use crate::share::Deny;
use crate::{
    DELEGATIONS_OF_CLIENT_MAX, DELEGATIONS_OF_OBJECT_MAX, OPENS_OF_CLIENT_MAX, OPENS_OF_OBJECT_AND_CLIENT_MAX,
    OPENS_OF_OBJECT_MAX, RANGES_MAX, RANGES_OF_CLIENT_MAX, RANGES_OF_OBJECT_MAX,
};

pub(super) fn holder(client: u64, owner: u64) -> Holder {
    Holder { client: ClientNumber(client), owner: OwnerNumber(owner) }
}

fn claims() -> Claims {
    Claims::new(Arc::default())
}

/// Opens and ranges.
pub(super) fn count(opens: usize, ranges: usize) -> Count {
    Count { opens, ranges, delegations: 0 }
}

fn share(access: Access, deny: Deny) -> Share {
    Share { access, deny }
}

fn bytes(first: u64, last: u64) -> Range {
    Range::between(first, last).unwrap()
}

fn write(holder: Holder, first: u64, last: u64) -> Lock {
    Lock { holder, range: bytes(first, last), kind: Kind::Write }
}

const A: ObjectId = ObjectId(100);
/// Of the same shard.
const B: ObjectId = ObjectId(100 + SHARD_COUNT as u64);

impl Claims {
    /// C5 and C6, and that nothing is left where nothing should be.
    pub(super) fn check(&self) {
        let mut objects = 0;
        for (object, claimed) in self.shards.iter().flat_map(|shard| {
            let shard = shard.read();
            shard.values().for_each(Claimed::check);
            shard.iter().map(|(object, claimed)| (*object, claimed.is_empty())).collect::<Vec<_>>()
        }) {
            assert!(!claimed, "{object} stands in the table without a claim");
            objects += 1;
        }
        assert_eq!(self.object_count.load(Ordering::Relaxed), objects);
        self.check_delegations();
        assert_eq!(self.is_unclaimed(), objects == 0);
    }

    /// C8, and that what is counted of them is there.
    fn check_delegations(&self) {
        let mut count = 0;
        for (object, claimed) in self
            .shards
            .iter()
            .flat_map(|shard| shard.read().keys().copied().collect::<Vec<_>>())
            .map(|object| (object, self.delegated(object)))
        {
            count += claimed.len();
            for (client, kind) in claimed {
                assert!(kind == Delegation::Read || self.delegated(object).len() == 1, "C8");
                let share = Share {
                    access: Access::READ,
                    deny: if kind == Delegation::Read { Deny::WRITE } else { Deny::BOTH },
                };
                let denied = self.look(object, |claimed| claimed.in_the_way(None, share)).unwrap();
                assert!(denied.iter().all(|other| *other == client), "C8");
                let ranges = self.look(object, |claimed| claimed.ranges_but_of(client)).unwrap();
                assert!(ranges.iter().all(|range| (kind, *range) == (Delegation::Read, Kind::Read)), "C8");
            }
        }
        assert_eq!(self.delegation_count.load(Ordering::Relaxed), count);
    }

    fn is_left_behind(&self, client: u64) -> bool {
        !self.holdings.of_client(ClientNumber(client)).is_empty()
            || self.account.of_client(ClientNumber(client)) != Count::default()
    }
}

#[test]
fn row_a_what_nobody_else_has_open_is_granted() {
    let claims = claims();
    assert!(claims.is_unclaimed());
    let all = share(Access::BOTH, Deny::BOTH);
    assert_eq!(claims.open(A, holder(1, 1), all), Ok(()));
    assert_eq!(claims.open(B, holder(2, 1), all), Ok(()), "another object");
    assert_eq!(claims.share_of(A, holder(1, 1)), Some(all));
    assert_eq!(claims.share_of(A, holder(2, 1)), None);
    assert!(!claims.is_unclaimed());
    claims.check();
}

#[test]
fn rows_b_to_d_another_is_refused_and_told_whose_open_it_was() {
    let claims = claims();
    let readers = share(Access::READ, Deny::WRITE);
    claims.open(A, holder(1, 1), readers).unwrap();
    let conflict = Err(Refused::Conflict { with: Claim::Open { holder: holder(1, 1), share: readers } });
    let both = [holder(2, 1), holder(1, 2)];
    for other in both {
        assert_eq!(claims.open(A, other, Share::only(Access::WRITE)), conflict);
        assert_eq!(claims.open(A, other, share(Access::READ, Deny::READ)), conflict);
        assert_eq!(claims.share_of(A, other), None, "what fails registers nothing");
    }
    assert_eq!(claims.account.totals(), count(1, 0));
    assert_eq!(claims.open(A, both[0], readers), Ok(()));
    assert_eq!(claims.close(A, holder(1, 1)), Closed::OthersHaveIt);
    assert!(claims.open(A, both[1], Share::only(Access::BOTH)).is_err(), "the other one denies it as well");
    assert_eq!(claims.close(A, both[0]), Closed::Last);
    assert_eq!(claims.open(A, both[1], Share::only(Access::BOTH)), Ok(()));
}

#[test]
fn row_e_an_open_of_the_same_holder_adds_to_what_he_has() {
    let claims = claims();
    let (one, other) = (holder(1, 1), holder(2, 1));
    claims.open(A, one, share(Access::READ, Deny::WRITE)).unwrap();
    assert_eq!(claims.open(A, one, share(Access::WRITE, Deny::NONE)), Ok(()));
    assert_eq!(claims.share_of(A, one), Some(share(Access::BOTH, Deny::WRITE)));
    assert_eq!(claims.account.of_client(ClientNumber(1)), count(1, 0), "it is one open");
    assert!(claims.open(A, other, Share::only(Access::WRITE)).is_err());
    // An upgrade is asked against others as an open is, and what is refused leaves what was there.
    claims.open(A, other, Share::only(Access::READ)).unwrap();
    assert!(claims.open(A, one, share(Access::READ, Deny::READ)).is_err());
    assert_eq!(claims.share_of(A, one), Some(share(Access::BOTH, Deny::WRITE)));
    assert_eq!(claims.close(A, one), Closed::OthersHaveIt, "one close ends all of it");
    assert_eq!(claims.close(A, one), Closed::NotOpen);
}

#[test]
fn rows_f_and_g_what_a_downgrade_gives_up_is_free_for_others_at_once() {
    let claims = claims();
    let (one, other) = (holder(1, 1), holder(2, 1));
    assert_eq!(claims.downgrade(A, one, Share::only(Access::READ)), Err(Refused::NotOpened));
    claims.open(A, one, Share::only(Access::READ)).unwrap();
    claims.open(A, one, share(Access::BOTH, Deny::WRITE)).unwrap();
    assert_eq!(claims.downgrade(A, other, Share::only(Access::READ)), Err(Refused::NotOpened));
    assert_eq!(claims.downgrade(A, one, Share::only(Access::WRITE)), Err(Refused::Invalid));
    assert!(claims.open(A, other, Share::only(Access::WRITE)).is_err(), "what is refused gives up nothing");
    assert_eq!(claims.downgrade(A, one, Share::only(Access::READ)), Ok(()));
    assert_eq!(claims.open(A, other, share(Access::WRITE, Deny::WRITE)), Ok(()));
    assert_eq!(claims.downgrade(A, one, share(Access::BOTH, Deny::WRITE)), Err(Refused::Invalid), "it was given up");
}

#[test]
fn rows_h_to_j_reading_and_writing_go_by_what_others_deny() {
    let claims = claims();
    let (one, other) = (holder(1, 1), holder(2, 1));
    assert_eq!(claims.may_write(A, None), Ok(()));
    let asked = |who| (claims.may_read(A, who).is_ok(), claims.may_write(A, who).is_ok());
    for (deny, expected) in [
        (Deny::NONE, (true, true)),
        (Deny::READ, (false, true)),
        (Deny::WRITE, (true, false)),
        (Deny::BOTH, (false, false)),
    ] {
        claims.open(A, one, share(Access::READ, deny)).unwrap();
        assert_eq!(asked(Some(one)), (true, true), "his own");
        assert_eq!(asked(Some(other)), expected);
        assert_eq!(asked(None), expected);
        assert_eq!(claims.may_read(B, None), Ok(()));
        claims.close(A, one);
    }
    claims.open(A, one, share(Access::READ, Deny::WRITE)).unwrap();
    claims.open(A, other, share(Access::READ, Deny::WRITE)).unwrap();
    assert_eq!(asked(Some(one)), (true, false), "the other one denies it, too");
}

#[test]
fn a_removed_object_goes_with_its_last_open_and_who_ends_that_is_told() {
    let claims = claims();
    let (one, other, nlm) = (holder(1, 1), holder(2, 1), holder(3, 1));
    assert!(!claims.note_removed(A), "nobody has it open");
    claims.open(A, one, Share::only(Access::READ)).unwrap();
    claims.open(B, one, Share::only(Access::READ)).unwrap();
    claims.lock(A, None, write(nlm, 0, 9)).unwrap();
    assert!(claims.note_removed(A));
    assert!(claims.note_removed(A), "once more, as a replay may");
    claims.open(A, other, Share::only(Access::READ)).unwrap();
    assert_eq!(claims.close(A, one), Closed::OthersHaveIt);
    assert_eq!(claims.close(A, one), Closed::NotOpen);
    assert_eq!(claims.close(A, other), Closed::LastOfRemoved);
    assert_eq!(claims.close(A, other), Closed::NotOpen, "one alone is told");
    assert!(!claims.is_left_behind(3), "what was locked without an open goes with the object");
    assert_eq!(claims.close(B, one), Closed::Last);
    // With the object its removal is forgotten: nobody is told of that again.
    claims.open(A, one, Share::only(Access::READ)).unwrap();
    assert_eq!(claims.close(A, one), Closed::Last);
    claims.check();
}

#[test]
fn what_is_locked_of_an_object_that_nobody_has_open_does_not_keep_it() {
    let claims = claims();
    claims.lock(A, None, write(holder(3, 1), 0, 9)).unwrap();
    assert!(!claims.note_removed(A));
    assert!(claims.is_unclaimed() && !claims.is_left_behind(3));
}

#[test]
fn a_close_frees_what_was_locked_below_that_open() {
    let claims = claims();
    let (open, second, nlm) = (holder(1, 1), holder(1, 2), holder(9, 1));
    let (below, beside) = (holder(1, 11), holder(1, 12));
    assert_eq!(claims.lock(A, Some(open), write(below, 0, 9)), Err(Refused::NotOpened));
    assert!(claims.is_unclaimed());
    claims.open(A, open, Share::only(Access::BOTH)).unwrap();
    claims.open(A, second, Share::only(Access::BOTH)).unwrap();
    claims.lock(A, Some(open), write(below, 0, 9)).unwrap();
    claims.lock(A, Some(second), write(below, 20, 29)).unwrap();
    claims.lock(A, Some(second), write(beside, 40, 49)).unwrap();
    claims.lock(A, None, write(nlm, 60, 69)).unwrap();
    let denied = |first| claims.test(A, write(holder(5, 5), first, first)).err();
    let told = |lock| Some(Refused::Conflict { with: Claim::Lock(lock) });
    assert_eq!(denied(25), told(write(below, 20, 29)));
    assert_eq!(claims.close(A, open), Closed::OthersHaveIt);
    assert_eq!([5, 25].map(denied), [None, None], "it began below the one that is closed");
    assert_eq!(denied(45), told(write(beside, 40, 49)));
    assert_eq!(claims.close(A, second), Closed::Last);
    assert_eq!(denied(45), None);
    assert_eq!(denied(65), told(write(nlm, 60, 69)), "and who has no open keeps it");
    assert_eq!(claims.unlock(A, nlm, bytes(0, u64::MAX)), Ok(()));
    assert!(claims.is_unclaimed() && ![1, 9].into_iter().any(|client| claims.is_left_behind(client)));
}

#[test]
fn who_goes_leaves_nothing_and_is_told_what_is_free() {
    let claims = claims();
    let (one, two, other) = (holder(1, 1), holder(1, u64::MAX), holder(2, 1));
    for object in [A, B, ObjectId(7)] {
        claims.open(object, one, Share::only(Access::BOTH)).unwrap();
        claims.lock(object, Some(one), write(one, 0, 9)).unwrap();
        claims.lock(object, Some(one), write(two, 20, 29)).unwrap();
        let _ = claims.note_removed(object);
    }
    claims.open(B, other, Share::only(Access::READ)).unwrap();
    claims.open(ObjectId(7), two, Share::only(Access::READ)).unwrap();
    assert_eq!(claims.release_owner(holder(1, 2)), []);
    assert_eq!(claims.release_owner(one), [A], "others have the other two open");
    assert!(!claims.has_ranges(B, two), "it was locked below an open that is gone");
    assert_eq!(claims.account.of_client(ClientNumber(1)), count(1, 0));
    claims.lock(B, Some(other), write(two, 0, 9)).unwrap();
    assert_eq!(claims.release_client(ClientNumber(1)), [ObjectId(7)]);
    assert!(!claims.is_left_behind(1));
    assert_eq!(claims.share_of(B, other), Some(Share::only(Access::READ)));
    assert_eq!(claims.release_client(ClientNumber(1)), []);
    assert_eq!(claims.release_client(ClientNumber(2)), [B]);
    assert!(claims.is_unclaimed());
    claims.check();
}

/// One who unlocks may go on having it open, and is found by his client's end still.
#[test]
fn who_has_opened_and_locked_is_found_until_he_has_neither() {
    let claims = claims();
    let one = holder(1, 1);
    claims.open(A, one, Share::only(Access::BOTH)).unwrap();
    claims.lock(A, None, write(one, 0, 9)).unwrap();
    claims.unlock(A, one, bytes(0, 9)).unwrap();
    assert_eq!(claims.holdings.of_client(one.client), [A]);
    claims.lock(A, None, write(one, 0, 9)).unwrap();
    assert_eq!(claims.close(A, one), Closed::Last);
    assert_eq!(claims.holdings.of_client(one.client), [A]);
    assert_eq!(claims.release_client(one.client), []);
    assert!(claims.is_unclaimed() && !claims.is_left_behind(1));
}

#[test]
fn a_dataset_that_goes_gives_back_what_was_counted() {
    let account = Arc::<Account>::default();
    let (one, other) = (Claims::new(Arc::clone(&account)), Claims::new(Arc::clone(&account)));
    for claims in [&one, &other] {
        claims.open(A, holder(1, 1), Share::only(Access::BOTH)).unwrap();
        claims.lock(A, Some(holder(1, 1)), write(holder(1, 2), 0, 9)).unwrap();
    }
    assert_eq!(account.of_client(ClientNumber(1)), count(2, 2));
    drop(one);
    assert_eq!((account.of_client(ClientNumber(1)), account.totals()), (count(1, 1), count(1, 1)));
}

fn too_many(what: Counted, within: Within) -> Result<(), Refused> {
    Err(Refused::TooMany { what, within })
}

#[test]
fn opens_have_bounds_of_an_object_and_of_a_client() {
    let claims = claims();
    let open_as =
        |object, client, owner| claims.open(ObjectId(object), holder(client, owner), Share::only(Access::READ));
    let open = |object, owner| open_as(object, 1, owner);
    // Not in their order.
    let mut owners: Vec<u64> = (0..OPENS_OF_OBJECT_AND_CLIENT_MAX as u64).collect();
    owners.rotate_left(1000);
    for client in [2, 1, 4] {
        owners.iter().for_each(|owner| open_as(1, client, *owner).unwrap());
        assert_eq!(open_as(1, client, u64::MAX), too_many(Counted::Opens, Within::Client), "there is room for others");
    }
    for owner in 0..OPENS_OF_OBJECT_MAX as u64 - 3 * OPENS_OF_OBJECT_AND_CLIENT_MAX as u64 {
        open_as(1, 3, owner).unwrap();
    }
    claims.check();
    let refused = open_as(1, 5, 0);
    assert_eq!(refused, too_many(Counted::Opens, Within::Object));
    assert_eq!(open(1, 0), Ok(()), "no new one");
    for object in OPENS_OF_OBJECT_AND_CLIENT_MAX..OPENS_OF_CLIENT_MAX {
        open(object as u64 + 1, 0).unwrap();
    }
    assert_eq!(open(0, 0), too_many(Counted::Opens, Within::Client));
    assert_eq!(claims.share_of(ObjectId(0), holder(1, 0)), None);
    claims.check();
    assert_eq!(claims.open(ObjectId(0), holder(2, 0), Share::only(Access::READ)), Ok(()));
    assert_eq!(claims.release_client(ClientNumber(1)), []);
    assert!(!claims.is_left_behind(1));
}

#[test]
fn a_split_without_room_changes_nothing() {
    let claims = claims();
    let (one, other) = (holder(1, 1), holder(2, 1));
    for at in 0..RANGES_OF_OBJECT_MAX as u64 {
        claims.lock(A, None, write(one, at * 10, at * 10 + 4)).unwrap();
    }
    let full = too_many(Counted::Ranges, Within::Object);
    assert_eq!(claims.unlock(A, one, bytes(2, 2)), full);
    let read = Lock { kind: Kind::Read, ..write(one, 2, 2) };
    assert_eq!(claims.lock(A, None, read), full);
    assert_eq!(claims.lock(A, None, write(other, 7, 7)), full);
    assert_eq!(claims.test(A, write(other, 2, 2)), Err(Refused::Conflict { with: Claim::Lock(write(one, 0, 4)) }));
    // What needs no room is not refused, and makes room for others.
    assert_eq!(claims.lock(A, None, write(one, 0, 7)), Ok(()));
    assert_eq!(claims.lock(A, None, Lock { kind: Kind::Read, ..write(one, 0, 7) }), Ok(()));
    assert_eq!(claims.lock(A, None, write(one, 8, 24)), Ok(()));
    assert_eq!(claims.lock(A, None, write(other, 27, 27)), Ok(()));
    assert_eq!(claims.account.totals(), count(0, RANGES_OF_OBJECT_MAX));
}

#[test]
fn ranges_have_bounds_of_a_client_and_of_all() {
    let claims = claims();
    let fill = |client, objects: std::ops::Range<u64>| {
        for at in objects.flat_map(|object| (0..16).map(move |at| (object, at * 10))) {
            claims.lock(ObjectId(at.0), None, write(holder(client, at.0), at.1, at.1 + 4)).unwrap();
        }
    };
    let of_client = RANGES_OF_CLIENT_MAX as u64 / 16;
    fill(1, 0..of_client);
    let own = too_many(Counted::Ranges, Within::Client);
    assert_eq!(claims.lock(A, None, write(holder(1, 0), 500, 500)), own);
    assert_eq!(claims.unlock(ObjectId(0), holder(1, 0), bytes(2, 2)), own);
    let held = Err(Refused::Conflict { with: Claim::Lock(write(holder(1, 0), 0, 4)) });
    assert_eq!(claims.test(ObjectId(0), write(holder(2, 0), 2, 2)), held, "what is refused unlocks nothing");
    let clients = (RANGES_MAX / RANGES_OF_CLIENT_MAX) as u64;
    (2..=clients).for_each(|client| fill(client, client * of_client..(client + 1) * of_client));
    let new = ObjectId(u64::MAX);
    assert_eq!(claims.lock(new, None, write(holder(9, 0), 0, 0)), too_many(Counted::Ranges, Within::All));
    assert!(!claims.has_ranges(new, holder(9, 0)) && !claims.is_left_behind(9));
    claims.check();
}

/// Whatever comes first, exactly one is told that the object is free: who removed it, or who closed it last. Two threads meet on an object in each round, one a little
/// before the other or behind it. What went wrong is told when both have ended, as neither ends without the other.
#[test]
fn what_is_delegated_is_in_the_way_of_others_until_it_is_given_back() {
    let claims = claims();
    let (mine, others) = (ClientNumber(1), Some(ClientNumber(2)));
    claims.open(A, holder(1, 1), Share::only(Access::BOTH)).unwrap();
    assert_eq!(claims.delegate(A, holder(1, 1), Delegation::Write), Ok(true));
    assert_eq!(claims.delegate(A, holder(1, 1), Delegation::Read), Ok(false), "he has one");
    assert_eq!(claims.delegated(A).to_vec(), [(mine, Delegation::Write)]);
    assert_eq!(
        (claims.delegated_to(A, mine), claims.delegated_to(A, ClientNumber(2))),
        (Some(Delegation::Write), None)
    );
    let refused = Err(Refused::Conflict { with: Claim::Delegation { client: mine, kind: Delegation::Write } });
    for who in [others, None] {
        assert_eq!(claims.gate(A, who, Act::Reads), refused);
        assert_eq!(claims.gate(A, who, Act::Changes), refused);
        assert_eq!(claims.gate(A, who, Act::Looks), Ok(()));
        assert_eq!(claims.gate(B, who, Act::Changes), Ok(()), "another object");
    }
    assert_eq!(claims.gate(A, Some(mine), Act::Changes), Ok(()));
    assert_eq!(claims.open(A, holder(2, 1), Share::only(Access::READ)), refused);
    assert_eq!(claims.lock(A, None, write(holder(2, 1), 0, 9)), refused);
    assert_eq!(claims.test(A, write(holder(2, 1), 0, 9)), refused, "its holder may have locked it without a word");
    assert_eq!(claims.open(A, holder(1, 2), Share::only(Access::READ)), Ok(()), "the same client");
    // What an open has is told by closes: the delegation is none.
    assert_eq!((claims.close(A, holder(1, 1)), claims.close(A, holder(1, 2))), (Closed::OthersHaveIt, Closed::Last));
    assert_eq!(claims.gate(A, None, Act::Reads), refused);
    assert!(!claims.give_back(A, ClientNumber(2)) && !claims.give_back(B, mine));
    assert!(claims.give_back(A, mine) && !claims.give_back(A, mine));
    assert_eq!(claims.gate(A, None, Act::Changes), Ok(()));
    assert!(claims.is_unclaimed() && !claims.is_left_behind(1));
    claims.check();
}

/// Rows c, d, f and g of D9.
#[test]
fn of_one_client_other_owners_are_others_to_who_is_given_a_delegation() {
    let claims = claims();
    let cases = [
        (Share::only(Access::READ), true, false),
        (Share::only(Access::WRITE), false, false),
        (share(Access::READ, Deny::READ), false, false),
        (share(Access::READ, Deny::WRITE), true, false),
    ];
    for (at, (theirs, read, write)) in cases.into_iter().enumerate() {
        let object = ObjectId(1_000 + at as u64);
        claims.open(object, holder(1, 2), theirs).unwrap();
        assert_eq!(claims.delegate(object, holder(1, 1), Delegation::Write), Ok(write), "{theirs:?}");
        assert_eq!(claims.delegate(object, holder(1, 1), Delegation::Read), Ok(read), "{theirs:?}");
        assert_eq!(claims.delegate(object, holder(1, 2), Delegation::Write), Ok(!read), "{theirs:?}: he has it alone");
    }
    // What his client has locked below his own open is his.
    claims.open(A, holder(1, 1), Share::only(Access::BOTH)).unwrap();
    claims.lock(A, Some(holder(1, 1)), write(holder(1, 7), 0, 9)).unwrap();
    assert_eq!(claims.delegate(A, holder(1, 1), Delegation::Write), Ok(true));
    claims.check();
}

/// D9 rows c, d and f, and D10: who has a Read locks for reading at home, so that nobody else locks for writing beside it, in either order.
#[test]
fn a_range_that_is_locked_for_writing_is_beside_nobody_elses_delegation() {
    let claims = claims();
    let (keeper, host) = (holder(1, 1), holder(2, 1));
    let shared = |first, last| Lock { kind: Kind::Read, ..write(host, first, last) };
    claims.open(A, keeper, Share::only(Access::READ)).unwrap();
    claims.lock(A, None, shared(0, 9)).unwrap();
    assert_eq!(claims.delegate(A, keeper, Delegation::Write), Ok(false), "row f");
    assert_eq!(claims.delegate(A, keeper, Delegation::Read), Ok(true), "row d");
    let refused = Err(Refused::Conflict { with: Claim::Delegation { client: keeper.client, kind: Delegation::Read } });
    for first in [5, 20] {
        assert_eq!(claims.test(A, write(host, first, 25)), refused);
        assert_eq!(claims.lock(A, None, write(host, first, 25)), refused);
        assert_eq!(claims.lock(A, None, shared(first, 25)), Ok(()));
    }
    assert_eq!(claims.lock(A, Some(keeper), write(holder(1, 5), 50, 59)), Ok(()), "his own is not in his way");
    claims.check();
    assert!(claims.give_back(A, keeper.client));
    assert_eq!(claims.lock(A, None, write(host, 20, 25)), Ok(()));
    assert_eq!(claims.delegate(A, keeper, Delegation::Read), Ok(false), "row c");
    claims.unlock(A, host, Range::ALL).unwrap();
    assert_eq!(claims.delegate(A, keeper, Delegation::Read), Ok(true));
    claims.check();
}

#[test]
fn whose_share_is_in_the_way_is_told_before_whose_delegation() {
    let claims = claims();
    claims.open(A, holder(1, 1), share(Access::BOTH, Deny::WRITE)).unwrap();
    assert_eq!(claims.delegate(A, holder(1, 1), Delegation::Write), Ok(true));
    let told = claims.open(A, holder(2, 1), Share::only(Access::WRITE));
    assert!(matches!(told, Err(Refused::Conflict { with: Claim::Open { .. } })), "{told:?}");
    let told = claims.open(A, holder(2, 1), Share::only(Access::READ));
    assert!(matches!(told, Err(Refused::Conflict { with: Claim::Delegation { .. } })), "{told:?}");
    claims.check();
}

#[test]
fn a_client_that_goes_gives_back_what_it_was_given_and_an_object_that_is_free_takes_it_along() {
    let (one, other) = (ClientNumber(1), ClientNumber(2));
    let account = Arc::new(Account::default());
    let claims = Claims::new(Arc::clone(&account));
    for object in [A, B] {
        claims.open(object, holder(1, 1), Share::only(Access::READ)).unwrap();
        assert_eq!(claims.delegate(object, holder(1, 1), Delegation::Read), Ok(true));
    }
    claims.open(A, holder(2, 1), Share::only(Access::READ)).unwrap();
    assert_eq!(claims.delegate(A, holder(2, 1), Delegation::Read), Ok(true));
    assert!(claims.release_owner(holder(1, 1)).is_empty());
    assert_eq!(account.of_client(one), Count { delegations: 2, ..Count::default() }, "they are nobody's who opens");
    assert!(claims.release_client(one).is_empty());
    assert!(!claims.is_left_behind(1));
    assert_eq!(claims.delegated(A).to_vec(), [(other, Delegation::Read)]);
    assert!(claims.note_removed(A), "it is open");
    assert_eq!(claims.delegate(A, holder(1, 1), Delegation::Read), Ok(false), "it has no name");
    assert_eq!(claims.close(A, holder(2, 1)), Closed::LastOfRemoved);
    assert!(claims.is_unclaimed() && !claims.is_left_behind(2));
    // One that nobody has open goes at once, and a dataset that goes takes along what is left.
    claims.open(B, holder(2, 1), Share::only(Access::READ)).unwrap();
    assert_eq!(claims.delegate(B, holder(2, 1), Delegation::Write), Ok(true));
    assert_eq!(claims.close(B, holder(2, 1)), Closed::Last);
    assert!(!claims.note_removed(B) && claims.is_unclaimed());
    claims.open(A, holder(2, 1), Share::only(Access::READ)).unwrap();
    assert_eq!(claims.delegate(A, holder(2, 1), Delegation::Write), Ok(true));
    claims.check();
    drop(claims);
    assert_eq!(account.totals(), Count::default());
}

#[test]
fn delegations_have_bounds_of_an_object_of_a_client_and_of_all() {
    let claims = claims();
    for client in 0..DELEGATIONS_OF_OBJECT_MAX as u64 {
        assert_eq!(claims.delegate(A, holder(client, 1), Delegation::Read), Ok(true));
    }
    let last = holder(DELEGATIONS_OF_OBJECT_MAX as u64, 1);
    let too_many = |within| Err(Refused::TooMany { what: Counted::Delegations, within });
    assert_eq!(claims.delegate(A, last, Delegation::Read), too_many(Within::Object));
    assert_eq!(claims.delegate(A, last, Delegation::Write), Ok(false), "others hold it");
    for object in 0..DELEGATIONS_OF_CLIENT_MAX as u64 {
        assert_eq!(claims.delegate(ObjectId(1_000_000 + object), last, Delegation::Write), Ok(true));
    }
    assert_eq!(claims.delegate(B, last, Delegation::Write), too_many(Within::Client));
    assert!(claims.release_client(last.client).is_empty());
    assert_eq!(claims.delegate(B, last, Delegation::Write), Ok(true));
    assert_eq!(claims.account.totals().delegations, DELEGATIONS_OF_OBJECT_MAX + 1);
    claims.check();
}

#[test]
fn of_a_removed_object_exactly_one_is_told_that_it_is_free() {
    const ROUNDS: u64 = 20_000;
    let (claims, begun, ended) = (claims(), AtomicU64::new(0), AtomicU64::new(0));
    let closed = AtomicUsize::new(0);
    let (one, other) = (holder(1, 1), holder(2, 1));
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                meet(&begun, round, round % 61);
                let object = ObjectId(round);
                let by_close = claims.close(object, one) == Closed::LastOfRemoved;
                let by_release = claims.release_client(other.client) == [object];
                closed.store(usize::from(by_close) + usize::from(by_release), Ordering::Relaxed);
                ended.store(round, Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            let object = ObjectId(round);
            let opened = [one, other].map(|holder| claims.open(object, holder, Share::only(Access::BOTH)));
            begun.store(round, Ordering::Release);
            meet(&begun, round, round % 67);
            let is_free = !claims.note_removed(object);
            meet(&ended, round, 0);
            let told = closed.load(Ordering::Relaxed) + usize::from(is_free);
            if told != 1 || opened != [Ok(()); 2] || !claims.is_unclaimed() {
                wrong.push((round, told));
            }
        }
    });
    assert_eq!((wrong, claims.account.totals()), (vec![], count(0, 0)));
}

/// Waits for a round, and a moment longer.
fn meet(at: &AtomicU64, round: u64, moments: u64) {
    for looks in 0.. {
        if at.load(Ordering::Acquire) >= round {
            break;
        }
        if looks % 256 == 255 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
    (0..moments).for_each(|_| std::hint::spin_loop());
}

/// What a door that keeps somebody waiting was told.
#[derive(Default)]
struct Told(parking_lot::Mutex<Vec<(ObjectId, Range)>>);

impl Watch for Told {
    fn freed(&self, object: ObjectId, range: Range) {
        self.0.lock().push((object, range));
    }
}

impl Told {
    fn take(&self) -> Vec<(ObjectId, Range)> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Who waits for a range at one door is told when it is freed by another, however that comes.
#[test]
fn who_watches_is_told_of_what_is_given_up_and_of_nothing_else() {
    let claims = claims();
    let told = Arc::new(Told::default());
    let watch: Weak<dyn Watch> = Arc::downgrade(&(told.clone() as Arc<dyn Watch>));
    claims.watch(&watch);
    claims.watch(&watch);
    let (mine, other) = (holder(1, 1), holder(2, 9));
    let lock = |object| claims.lock(object, None, write(mine, 0, 99)).unwrap();
    let both = share(Access::BOTH, Deny::NONE);

    claims.open(A, mine, both).unwrap();
    claims.lock(A, Some(mine), write(holder(1, 2), 0, 99)).unwrap();
    lock(B);
    claims.lock(B, None, write(other, 0, 9)).unwrap_err();
    claims.unlock(A, other, Range::ALL).unwrap();
    assert_eq!(claims.close(A, other), Closed::NotOpen);
    assert_eq!(told.take(), [], "nobody has given up anything");

    claims.unlock(B, mine, bytes(5, 7)).unwrap();
    assert_eq!(told.take(), [(B, bytes(5, 7))]);
    claims.lock(B, None, Lock { kind: Kind::Read, ..write(mine, 0, 2) }).unwrap();
    assert_eq!(told.take(), [(B, bytes(0, 2))], "others may read there now");
    claims.close(A, mine);
    assert_eq!(told.take(), [(A, Range::ALL)], "with what was locked below it");
    assert!(claims.release_owner(mine).is_empty());
    assert_eq!(told.take(), [(B, Range::ALL)]);
    lock(A);
    assert!(claims.release_client(mine.client).is_empty());
    assert_eq!(told.take(), [(A, Range::ALL)]);
    lock(A);
    assert!(!claims.note_removed(A));
    assert_eq!(told.take(), [(A, Range::ALL)]);

    claims.open(A, mine, both).unwrap();
    assert_eq!(claims.delegate(A, mine, Delegation::Write), Ok(true));
    claims.close(A, mine);
    assert_eq!(told.take(), [], "an open is in no range's way");
    assert!(claims.give_back(A, mine.client) && !claims.give_back(A, mine.client));
    assert_eq!(told.take(), [(A, Range::ALL)], "who holds a Write locks without asking");

    // A pool is taken up anew: its table is another one then.
    lock(B);
    drop(claims);
    assert_eq!(told.take(), [(B, Range::ALL)]);
}

#[test]
fn a_door_that_is_gone_takes_no_room_among_those_who_watch() {
    let claims = claims();
    for _ in 0..100 {
        let told: Arc<dyn Watch> = Arc::new(Told::default());
        claims.watch(&Arc::downgrade(&told));
    }
    assert_eq!(claims.watchers.count(), 1);
}
