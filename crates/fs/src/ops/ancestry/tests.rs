use super::*;

fn ids(numbers: &[u64]) -> Vec<ObjectId> {
    numbers.iter().copied().map(ObjectId).collect()
}

#[test]
fn what_moved_under_a_walk_is_known() {
    let mut moved = Moved::default();
    let chain = ids(&[3, 5, 7]);
    assert!(moved.has_spared(0, &chain), "nothing moved");
    moved.note(ObjectId(5));
    assert!(!moved.has_spared(0, &chain));
    assert!(moved.has_spared(1, &chain), "that was before");
    moved.note(ObjectId(4));
    assert!(moved.has_spared(1, &chain), "nobody came by that one");
}

#[test]
fn more_moves_than_are_kept_spare_nobody() {
    let mut moved = Moved::default();
    let most = MOVES_KEPT as u64;
    (0..most).for_each(|_| moved.note(ObjectId(9)));
    assert!(moved.has_spared(0, &ids(&[3])), "all of them are known");
    moved.note(ObjectId(9));
    assert!(!moved.has_spared(0, &ids(&[3])), "the first one is forgotten");
    assert!(moved.has_spared(1, &ids(&[3])));
    assert_eq!(moved.last.len(), MOVES_KEPT);
}
