use super::*;

const HOME: DatasetId = DatasetId(1);

fn key(client: u8, xid: u32) -> Key {
    let mut key = [0; 40];
    key[0] = client;
    key[16..20].copy_from_slice(&xid.to_le_bytes());
    key
}

fn seconds(count: u64) -> Time {
    Time::new(count, 0)
}

#[test]
fn an_answer_is_recalled_until_it_is_too_old() {
    let cache = ReplyCache::default();
    cache.remember(HOME, Txg(1), seconds(1000), key(1, 7), [9; 17]);
    assert_eq!(cache.recall(HOME, seconds(1100), &key(1, 7), of(0)), Some([9; 17]));
    assert_eq!(cache.recall(DatasetId(2), seconds(1100), &key(1, 7), of(0)), None, "of another dataset");
    assert_eq!(cache.recall(HOME, seconds(1100), &key(1, 8), of(0)), None, "of another request");
    assert_eq!(cache.recall(HOME, seconds(1121), &key(1, 7), of(0)), None, "after two minutes");
}

fn numbered(number: u8) -> Key {
    let mut key = key(1, 7);
    key[39] = number;
    key
}

/// Who asks by his number alone.
fn of(number: u64) -> impl Fn(u64) -> bool {
    move |sender| sender == number
}

/// Two programs of one client mean two things by equal requests: each gets his own answer, also behind an import, and who cannot
/// be told apart the last one. (When that was the only one which was kept, the first program's repetition was told of what the
/// second one had made.)
#[test]
fn of_equal_requests_each_is_remembered_as_what_it_was() {
    let cache = ReplyCache::default();
    cache.remember(HOME, Txg(1), seconds(1), numbered(1), [1; 17]);
    assert_eq!(cache.recall(HOME, seconds(1), &numbered(0), |_| true), Some([1; 17]), "a repetition");
    assert_eq!(cache.recall(HOME, seconds(1), &numbered(2), of(2)), None, "another one");
    cache.remember(HOME, Txg(2), seconds(1), numbered(2), [2; 17]);
    let after = ReplyCache::default();
    for (_, block) in cache.fold(Txg(2)) {
        after.load(&block).unwrap();
    }
    for cache in [cache, after] {
        let found = |number| cache.recall(HOME, seconds(2), &numbered(0), of(number));
        assert_eq!([found(1), found(2), found(3)], [Some([1; 17]), Some([2; 17]), None]);
        assert_eq!(cache.recall(HOME, seconds(2), &numbered(0), |_| true), Some([2; 17]), "the last one");
        assert_eq!(cache.recall(HOME, seconds(2), &numbered(0), |number| number != 2), Some([1; 17]));
        assert_eq!(cache.count(), 2);
    }
}

/// A program's MKDIR was durable when another one sent the equal one, which is why the first answer was dropped. The group with
/// the second was lost, and the block without the first was written with the group before: neither was known, and the
/// first program's repetition found that its directory exists.
#[test]
fn an_answer_that_is_durable_is_not_dropped_for_a_younger_one_that_may_be_lost() {
    let cache = ReplyCache::default();
    cache.remember(HOME, Txg(4), seconds(1), numbered(1), [1; 17]);
    cache.remember(HOME, Txg(5), seconds(1), numbered(2), [2; 17]);
    let after_crash = ReplyCache::default();
    for (_, block) in cache.fold(Txg(4)) {
        after_crash.load(&block).unwrap();
    }
    assert_eq!(after_crash.recall(HOME, seconds(2), &numbered(0), |_| true), Some([1; 17]));
}

/// Of equal ones, too, the oldest go first where room is short or time is over, and what is left is found.
#[test]
fn equal_requests_take_no_more_room_than_others_and_age_as_they_do() {
    let cache = ReplyCache::default();
    for second in 0..2 * ENTRIES_PER_CLIENT_MAX as u64 {
        let mut key = key(1, 7);
        key[32..].copy_from_slice(&second.to_be_bytes());
        cache.remember(HOME, Txg(1), seconds(second / 8), key, [second as u8; 17]);
    }
    assert_eq!(cache.count(), ENTRIES_PER_CLIENT_MAX);
    let found = |number, now| cache.recall(HOME, seconds(now), &numbered(0), of(number)).is_some();
    assert!(!found(255, 63) && found(256, 63) && found(511, 63));
    assert!(!found(510, 183 + 1) && cache.count() == 0);
    assert!(cache.buckets.iter().all(|bucket| bucket.lock().index.is_empty() && bucket.lock().of_client.is_empty()));
}

#[test]
fn an_answer_is_not_written_with_a_group_older_than_its_own() {
    let cache = ReplyCache::default();
    cache.remember(HOME, Txg(4), seconds(1), key(1, 1), [1; 17]);
    cache.remember(HOME, Txg(5), seconds(1), key(1, 2), [2; 17]);
    let after_crash = ReplyCache::default();
    for (_, block) in cache.fold(Txg(4)) {
        after_crash.load(&block).unwrap();
    }
    assert_eq!(after_crash.recall(HOME, seconds(2), &key(1, 1), of(0)), Some([1; 17]));
    assert_eq!(
        after_crash.recall(HOME, seconds(2), &key(1, 2), of(0)),
        None,
        "its group was lost, and so is the answer"
    );
    assert_eq!(cache.fold(Txg(5)).len(), 1, "the younger entry still has to be written");
    assert!(cache.fold(Txg(6)).is_empty(), "nothing is left to write");
}

#[test]
fn one_client_cannot_push_out_another() {
    let cache = ReplyCache::default();
    // Both clients must share a bucket for this to mean anything.
    let other =
        (2..=255).find(|client| std::ptr::eq(cache.bucket(&key(*client, 0)), cache.bucket(&key(1, 0)))).unwrap();
    cache.remember(HOME, Txg(1), seconds(1), key(other, 0), [5; 17]);
    for xid in 0..10 * ENTRIES_PER_CLIENT_MAX as u32 {
        cache.remember(HOME, Txg(1), seconds(1), key(1, xid), [6; 17]);
    }
    assert_eq!(cache.recall(HOME, seconds(2), &key(other, 0), of(0)), Some([5; 17]));
    assert_eq!(cache.count(), ENTRIES_PER_CLIENT_MAX + 1);
}

#[test]
fn damaged_blocks_are_malformed() {
    let cache = ReplyCache::default();
    cache.remember(HOME, Txg(1), seconds(1), key(1, 1), [1; 17]);
    let (_, block) = cache.fold(Txg(1)).remove(0);
    assert!(ReplyCache::default().load(&block[..block.len() - 1]).is_err());
    assert!(ReplyCache::default().load(&[255; 100]).is_err());
}

/// A group that cannot write its replies has nowhere to go, so room for them is kept back (rules F19).
#[test]
fn what_is_kept_back_covers_every_block() {
    let cache = ReplyCache::default();
    for round in 0..3000_u32 {
        cache.remember(HOME, Txg(1), seconds(u64::from(round) / 20), key((round % 40) as u8, round / 2), [1; 17]);
        let _ = cache.recall(HOME, seconds(u64::from(round) / 10), &key((round % 7) as u8, round), of(0));
    }
    cache.purge(DatasetId(9));
    let blocks = cache.fold(Txg(1));
    let entries: usize = blocks.iter().map(|(_, block)| block.len() / ENTRY_BYTES).sum();
    assert_eq!(cache.count(), entries);
    assert!(entries > 500, "{entries}");
    let written: usize = blocks.iter().map(|(_, block)| block.len().next_multiple_of(SECTOR)).sum();
    assert!(3 * written as u64 <= cache.fold_bytes(), "{written} bytes are written");
    cache.purge(HOME);
    assert_eq!((cache.count(), cache.fold_bytes()), (0, 0));
}
