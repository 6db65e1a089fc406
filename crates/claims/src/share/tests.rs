use super::*;

fn share(access: u32, deny: u32) -> Share {
    Share { access: Access::from_bits(access).unwrap(), deny: Deny::from_bits(deny).unwrap() }
}

fn opened(shares: &[(u32, u32)]) -> Opened {
    let mut shares = shares.iter().map(|&(access, deny)| share(access, deny));
    let first = Opened::new(shares.next().unwrap());
    shares.fold(first, Opened::and)
}

#[test]
fn bits_that_mean_nothing_are_none() {
    for bits in [0, 4, 7, 0x100, 0x101, u32::MAX] {
        assert_eq!(Access::from_bits(bits), None);
        assert_eq!(Deny::from_bits(bits), (bits == 0).then_some(Deny::NONE));
    }
    for bits in 1..=3 {
        assert_eq!(Access::from_bits(bits).map(Access::bits), Some(bits));
        assert_eq!(Deny::from_bits(bits).map(Deny::bits), Some(bits));
    }
    assert!(Access::BOTH.has(Access::READ) && Access::WRITE.has(Access::WRITE));
    assert!(!Access::READ.has(Access::BOTH) && !Access::READ.has(Access::WRITE));
}

/// All sixteen of what one does and another denies, written out: columns are denies NONE, READ, WRITE, BOTH.
#[test]
fn rows_b_to_d_what_conflicts_does_so_both_ways() {
    let table = [(Access::READ, "-x-x"), (Access::WRITE, "--xx"), (Access::BOTH, "-xxx")];
    for (access, row) in table {
        for (deny, word) in (0..4).zip(row.chars()) {
            // Who denies only reads, or only writes, so that this alone is in the way of it.
            for others in 1..=3 {
                let (one, other) = (Share { access, deny: Deny::NONE }, share(others, deny));
                assert_eq!(one.conflicts_with(other), word == 'x', "{one:?} {other:?}");
                assert_eq!(other.conflicts_with(one), word == 'x', "{other:?} {one:?}");
            }
        }
    }
}

#[test]
fn row_e_the_union_of_all_that_was_opened() {
    for one in 0..12u32 {
        for other in 0..12u32 {
            let pair = |at: u32| (at / 4 + 1, at % 4);
            let expected = share(pair(one).0 | pair(other).0, pair(one).1 | pair(other).1);
            assert_eq!(opened(&[pair(one), pair(other)]).share(), expected);
        }
    }
}

#[test]
fn row_f_a_downgrade_to_what_was_opened_keeps_that_alone() {
    let all = opened(&[(1, 2), (2, 0), (3, 1)]);
    assert_eq!(all.downgraded(share(1, 2)), Some(opened(&[(1, 2)])));
    assert_eq!(all.downgraded(share(2, 0)), Some(opened(&[(2, 0)])));
    // Of two that were opened, the union.
    assert_eq!(all.downgraded(share(3, 2)), Some(opened(&[(1, 2), (2, 0)])));
    assert_eq!(all.downgraded(share(3, 1)), Some(opened(&[(2, 0), (3, 1)])));
    // To what it has already.
    assert_eq!(all.downgraded(share(3, 3)), Some(all));
    // What was given up does not come back.
    assert_eq!(all.downgraded(share(1, 2)).unwrap().downgraded(share(3, 2)), None);
}

#[test]
fn row_g_what_was_never_opened_is_no_downgrade() {
    let all = opened(&[(1, 2), (2, 0)]);
    // A deny that another open of the owner's needs does not get lost, nor does one come that was not there.
    for (access, deny) in [(1, 0), (3, 0), (2, 2), (1, 1), (1, 3), (3, 1), (3, 3), (2, 1)] {
        assert_eq!(all.downgraded(share(access, deny)), None, "{access} {deny}");
    }
    // One open of both is not two.
    assert_eq!(opened(&[(3, 0)]).downgraded(share(1, 0)), None);
}
