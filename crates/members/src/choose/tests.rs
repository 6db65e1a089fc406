use super::*;
use crate::uberblock::tests::sample;

const POOL: PoolGuid = PoolGuid(0x0123_4567_89ab_cdef);

fn leg(guid: u64, stale: bool, ranks: &[(u64, u64)]) -> Candidate {
    let uberblocks = ranks.iter().map(|(open_gen, txg)| sample(*open_gen, *txg)).collect();
    Candidate { leg: VdevGuid(guid), stale, uberblocks }
}

/// What is on the legs, what the labels have seen, and the choice: (open generation, txg, highest txg) or the
/// beginning of the complaint.
type Case = (&'static str, Vec<Candidate>, u64, Result<(u64, u64, u64), &'static str>);

fn cases() -> Vec<Case> {
    let (voter, stale) = (false, true);
    vec![
        ("whole", vec![leg(1, voter, &[(1, 8), (1, 10), (1, 9)])], 9, Ok((1, 10, 10))),
        (
            "whole on one leg only",
            vec![leg(1, voter, &[(1, 9)]), leg(2, voter, &[(1, 9), (1, 10)])],
            9,
            Ok((1, 10, 10)),
        ),
        // The slot of 10 is damaged on all legs, so it is not among the candidates.
        ("torn, nothing tells of it", vec![leg(1, voter, &[(1, 8), (1, 9)])], 9, Ok((1, 9, 9))),
        ("gone, a label tells of it", vec![leg(1, voter, &[(1, 8), (1, 9)])], 10, Err("the newest uberblock")),
        (
            "gone, a stale leg has it",
            vec![leg(1, voter, &[(1, 9)]), leg(2, stale, &[(1, 10)])],
            9,
            Err("the newest uberblock"),
        ),
        ("stale leg behind", vec![leg(1, voter, &[(2, 12)]), leg(2, stale, &[(1, 10)])], 0, Ok((2, 12, 12))),
        // Groups that only a left-behind leg has seen are not numbered again.
        ("stale leg with a higher txg", vec![leg(1, voter, &[(2, 8)]), leg(2, stale, &[(1, 10)])], 0, Ok((2, 8, 10))),
        ("open generation before txg", vec![leg(1, voter, &[(1, 50)]), leg(2, voter, &[(2, 40)])], 0, Ok((2, 40, 50))),
        ("nothing", vec![leg(1, voter, &[]), leg(2, voter, &[])], 0, Err("no leg has a valid uberblock")),
        ("only stale legs", vec![leg(1, stale, &[(1, 10)])], 0, Err("no leg has a valid uberblock")),
    ]
}

#[test]
fn the_table_of_choices() {
    for (name, candidates, label_txg, expected) in cases() {
        let chosen = choose(POOL, &candidates, Txg(label_txg), &[]);
        match (chosen, expected) {
            (Ok(chosen), Ok((open_gen, txg, txg_max))) => {
                assert_eq!(chosen.uberblock.rank(), (open_gen, Txg(txg)), "{name}");
                assert_eq!(chosen.txg_max, Txg(txg_max), "{name}");
            }
            (Err(error), Err(complaint)) => assert!(error.to_string().starts_with(complaint), "{name}: {error}"),
            (chosen, _) => panic!("{name}: {chosen:?}"),
        }
    }
}

#[test]
fn two_writers_are_a_conflict_even_when_an_older_pair_agrees() {
    let mut other = sample(3, 7);
    other.root = vec![0xee; 64];
    let mut second = leg(2, false, &[(3, 6)]);
    second.uberblocks.push(other);
    let chosen = choose(POOL, &[leg(1, false, &[(3, 6), (3, 7)]), second], Txg(0), &[]);
    let expected = ChooseError::Conflict { open_gen: 3, txg: Txg(7), first: VdevGuid(2), second: VdevGuid(1) };
    assert_eq!(chosen, Err(expected));
}

#[test]
fn uberblocks_of_another_pool_do_not_count() {
    let mut foreign = leg(1, false, &[(9, 900)]);
    foreign.uberblocks[0].pool = PoolGuid(1);
    let chosen = choose(POOL, &[foreign, leg(2, false, &[(1, 5)])], Txg(0), &[]).unwrap();
    assert_eq!(chosen.uberblock.txg, Txg(5));
}

/// Case n of the log's table: a frame that was written after uberblock 10 was durable.
#[test]
fn a_frame_can_be_the_witness() {
    let chosen = choose(POOL, &[leg(1, false, &[(1, 9)])], Txg(9), &[]).unwrap();
    assert_eq!(chosen.witness(Txg(9), "a frame"), Ok(()));
    let error = chosen.witness(Txg(10), "a frame").unwrap_err();
    assert!(matches!(error, ChooseError::Witnessed { found: Txg(9), expected: Txg(10), .. }));
}

/// The pool went back from group 9 to 6, in generation 3.
#[test]
fn what_was_given_up_has_no_vote_and_tells_of_nothing() {
    let rewind = Rewind { kept: Txg(6), kept_gen: 2, dropped: Txg(10), open_gen: 3, time: Time(0), depth: 2 };
    let given_up = [(2, 6), (2, 7), (2, 8), (2, 9), (1, 5)];
    // A leg that was away has more of it.
    let away = leg(2, true, &[(2, 9), (2, 10)]);
    let chosen = choose(POOL, &[leg(1, false, &given_up), away.clone()], Txg(9), &[rewind]).unwrap();
    assert_eq!((chosen.uberblock.rank(), chosen.txg_max, chosen.rewind), ((2, Txg(6)), Txg(10), Some(rewind)));
    assert_eq!((chosen.witness(Txg(10), "a frame"), chosen.witness(Txg(11), "a frame").is_err()), (Ok(()), true));
    // There is a group behind it: nothing is special about that.
    let gone_on = [&given_up[..], &[(3, 11)]].concat();
    let chosen = choose(POOL, &[leg(1, false, &gone_on), away], Txg(9), &[rewind]).unwrap();
    assert_eq!((chosen.uberblock.rank(), chosen.rewind), ((3, Txg(11)), None));
}
