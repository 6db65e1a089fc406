use super::*;

#[test]
fn a_job_is_read_as_it_was_written_and_nothing_else_is_one() {
    let cursor = Cursor { dataset: DatasetId(4), key: Key::new(Class::Extent, 9, 4096, 0) };
    let report = SecureReport {
        checked_bytes: 1,
        repaired_count: 2,
        lost_count: 3,
        given_up_count: 4,
        ..SecureReport::default()
    };
    for (cursor, state) in [(None, JobState::Running), (Some(cursor), JobState::Paused), (None, JobState::Finished)] {
        let began = ScrubJob::new(Time(5), Txg(6), 7);
        let ran = Duration::from_secs(8);
        let job = ScrubJob { state, cursor, ran, has_gaps: true, changed: Time(9), report: report.clone(), ..began };
        let value = job.encode();
        assert_eq!((value.len(), ScrubJob::decode(&value)), (136, Ok(job)));
        for at in [0, 1, 2, 5, 130] {
            let mut other = value.to_vec();
            other[at] = 9;
            assert!(ScrubJob::decode(&other).is_err(), "byte {at}");
        }
        assert!(ScrubJob::decode(&value[..100]).is_err());
    }
}
