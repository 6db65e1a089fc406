use super::*;

const KINDS: [Delegation; 2] = [Delegation::Read, Delegation::Write];
const ACTS: [Act; 3] = [Act::Looks, Act::Reads, Act::Changes];
const OTHERS: [OthersHave; 3] = [OthersHave::Nothing, OthersHave::Something, OthersHave::Conflicting];

#[test]
fn d10_row_a_a_client_is_never_in_its_own_way() {
    for (held, act) in KINDS.into_iter().flat_map(|held| ACTS.map(|act| (held, act))) {
        assert_eq!(conflict(act, true, held), Conflict::Nothing, "{act:?} {held:?}");
    }
}

#[test]
fn d10_rows_b_to_f_what_others_hold() {
    let rows = [
        ('b', Delegation::Read, Act::Looks, Conflict::Nothing),
        ('b', Delegation::Read, Act::Reads, Conflict::Nothing),
        ('c', Delegation::Read, Act::Changes, Conflict::Recall),
        ('d', Delegation::Write, Act::Looks, Conflict::Ask),
        ('e', Delegation::Write, Act::Reads, Conflict::Recall),
        ('f', Delegation::Write, Act::Changes, Conflict::Recall),
    ];
    for (row, held, act, then) in rows {
        assert_eq!(conflict(act, false, held), then, "row {row}");
    }
}

#[test]
fn what_an_open_comes_to() {
    let opening = |access, deny| Act::opening(Share { access, deny });
    assert_eq!(opening(Access::READ, Deny::NONE), Act::Reads);
    for access in [Access::WRITE, Access::BOTH] {
        assert_eq!(opening(access, Deny::NONE), Act::Changes);
    }
    for deny in [Deny::READ, Deny::WRITE, Deny::BOTH] {
        assert_eq!(opening(Access::READ, deny), Act::Changes, "who has it delegated opens it without a word");
    }
}

#[test]
fn what_a_lock_comes_to() {
    assert_eq!([Kind::Read, Kind::Write].map(Act::locking), [Act::Reads, Act::Changes]);
}

#[test]
fn d9_rows_a_and_b_who_holds_one_or_is_in_anothers_way_is_given_none() {
    for held in [Held::ByHimself, Held::ByOthers(Delegation::Write)] {
        for (wanted, others) in KINDS.into_iter().flat_map(|wanted| OTHERS.map(|others| (wanted, others))) {
            assert!(!is_given(wanted, held, others), "{wanted:?} {held:?} {others:?}");
        }
    }
}

#[test]
fn d9_rows_c_and_d_a_read_is_given_where_no_other_client_may_write() {
    for held in [Held::Not, Held::ByOthers(Delegation::Read)] {
        let given = OTHERS.map(|others| is_given(Delegation::Read, held, others));
        assert_eq!(given, [true, true, false], "{held:?}");
    }
}

#[test]
fn d9_rows_e_to_g_a_write_is_given_where_no_other_client_has_anything() {
    let given = |held| OTHERS.map(|others| is_given(Delegation::Write, held, others));
    assert_eq!(given(Held::ByOthers(Delegation::Read)), [false; 3]);
    assert_eq!(given(Held::Not), [true, false, false]);
}

#[test]
fn reads_are_kept_in_order_and_a_write_alone() {
    let [one, two, three] = [1, 2, 3].map(ClientNumber);
    let mut held = Delegated::default();
    [three, one, two].into_iter().for_each(|client| held.give(client, Delegation::Read));
    assert!(held.all().eq([one, two, three].map(|client| (client, Delegation::Read))));
    assert!(held.take(two) && !held.take(two) && held.take(three));
    assert_eq!((held.held(one), held.held(two)), (Held::ByHimself, Held::ByOthers(Delegation::Read)));
    assert!(!held.take(two) && held.take(one) && held.is_none() && !held.take(one));
    held.give(two, Delegation::Write);
    assert_eq!(held.in_the_way(Some(one), Act::Reads), Some((two, Delegation::Write)));
    assert_eq!((held.in_the_way(Some(two), Act::Changes), held.in_the_way(None, Act::Looks)), (None, None));
    assert!(!held.take(one) && held.count() == 1 && held.take(two) && held.is_none());
}
