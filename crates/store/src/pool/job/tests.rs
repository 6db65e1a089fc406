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
    let space = SpaceFound { leaked_bytes: 11, hidden: true, given_bytes: 12, alarm_count: 13 };
    let judged = SecureReport { space: Some(space), ..report.clone() };
    let standings = [
        (None, JobState::Running, report.clone()),
        (Some(cursor), JobState::Paused, report),
        (None, JobState::Finished, judged),
    ];
    for (cursor, state, report) in standings {
        let began = ScrubJob::new(Time(5), Txg(6), 7);
        let ran = Duration::from_secs(8);
        let job = ScrubJob { state, cursor, ran, has_gaps: true, changed: Time(9), report, ..began };
        let value = job.encode();
        assert_eq!((value.len(), ScrubJob::decode(&value)), (160, Ok(job.clone())));
        for at in [0, 1, 5, 130] {
            let mut other = value.to_vec();
            other[at] = 9;
            assert!(ScrubJob::decode(&other).is_err(), "byte {at}");
        }
        let mut other = value.to_vec();
        other[2] ^= 4;
        assert!(job.report.space.is_none() || ScrubJob::decode(&other).is_err(), "what was found, and not looked for");
        other[2] = 16;
        assert!(ScrubJob::decode(&other).is_err(), "a flag that nobody knows");
        assert!(ScrubJob::decode(&value[..100]).is_err());
    }
}
