use super::*;

#[test]
fn a_job_is_read_as_it_was_written_and_nothing_else_is_one() {
    let leg = VdevGuid(77);
    let new = JoinJob::new(leg, Some(VdevGuid(5)), Time(9));
    let cursor = Some(Cursor { dataset: DatasetId(4), key: Key::new(Class::Extent, 9, 4096, 0) });
    let report = ResilverReport { copied_bytes: 1, unreadable_bytes: 2, unread: std::iter::once(3..4).collect() };
    let secured = SecureReport {
        checked_bytes: 5,
        repaired_count: 6,
        repaired_bytes: 7,
        lost_count: 8,
        unread_count: 9,
        given_up_count: 10,
        ..SecureReport::default()
    };
    let (settled, ran) = (Some(Txg(11)), Duration::from_secs(12));
    let on_its_way =
        JoinJob { settled, ran, is_brought: true, is_copied: true, report, secured, cursor, ..new.clone() };
    let alone = JoinJob { replaces: None, ..new.clone() };
    let returns = JoinJob { settled, cursor, ..JoinJob::of_return(leg, Time(9)) };
    for job in [new, on_its_way, alone, returns] {
        let value = job.encode();
        assert_eq!((value.len(), join_of(&key(leg), &value)), (168, Some(Ok(job))));
        for at in [0, 1, 5, 165] {
            let mut other = value.to_vec();
            other[at] = 99;
            assert!(JoinJob::decode(leg, &other).is_err(), "byte {at}");
        }
        let mut other = value.to_vec();
        other[64] = 200;
        assert!(JoinJob::decode(leg, &other).is_err(), "a range that ends before it begins");
        assert!(JoinJob::decode(leg, &value[..100]).is_err());
    }
    assert!(join_of(&Key::new(Class::Job, 1, 0, 0), &[]).is_none(), "a scrub");
}
