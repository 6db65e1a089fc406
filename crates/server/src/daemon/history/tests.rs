use std::thread;

use super::*;
use crate::control::observation::{AccountReport, KindReport};
use crate::control::report::{LaneReport, OpReport, OpsReport, PoolReport};
use crate::control::spread::Spread;

fn observation(seconds: f64, writes: u64) -> Observation {
    let kind = KindReport {
        procedure: "WRITE".into(),
        calls: writes,
        data_bytes: 4096 * writes,
        device_ns: 90_000 * writes,
        work_ns: 10_000 * writes,
        ..KindReport::default()
    };
    let account = AccountReport {
        client: "10.0.0.1".into(),
        dataset: "tank".into(),
        kinds: vec![kind],
        commits: writes,
        device: Spread(vec![(90_000, writes)]),
        ..AccountReport::default()
    };
    let lane = LaneReport { frames: writes / 2, bytes: 4096 * writes, used: 77, ..LaneReport::default() };
    let op = OpReport { procedure: "WRITE".into(), calls: writes, data_bytes: 4096 * writes, ..OpReport::default() };
    let read = OpReport { procedure: "read".into(), data_bytes: 8 * writes, ..OpReport::default() };
    Observation {
        uptime_seconds: seconds,
        pools: vec![PoolReport { name: "tank".into(), lanes: vec![lane], dirty_bytes: 5, ..PoolReport::default() }],
        ops: OpsReport {
            procedures: vec![op],
            operations: vec![read],
            whole_times: Spread(vec![(100_000, writes)]),
            ..OpsReport::default()
        },
        accounts: vec![account],
        ..Observation::default()
    }
}

#[test]
fn a_sample_is_what_has_come_between() {
    let sample = Sample::between(&observation(10.0, 100), &observation(12.0, 300));
    assert_eq!(
        (sample.calls, sample.commits, sample.written_bytes, sample.read_bytes),
        (200, 200, 200 * 4096, 200 * 8)
    );
    assert_eq!((sample.frames, sample.log_bytes, sample.dirty_bytes), (100, 200 * 4096, 5));
    assert!((sample.seconds - 2.0).abs() < 1e-9);
    assert_eq!((sample.device.p99_ns, sample.device.counts.iter().sum::<u32>()), (90_000, 200));
    assert_eq!(sample.request.counts.iter().position(|count| *count > 0), Some(4), "100 us lie between 64 and 128");
    assert_eq!((sample.lanes[0].used, sample.lanes[0].frames), (77, 100));
    let busy = &sample.busy[0];
    assert_eq!((busy.calls, busy.wait_ns, busy.time_ns), (200, 200 * 90_000, 200 * 100_000));
}

#[test]
fn the_ring_keeps_the_newest_and_compares_clients_over_the_last_few() {
    let history = History::default();
    for number in 0..SAMPLES_MAX as u64 + 10 {
        history.push(Sample::between(&observation(0.0, 0), &observation(2.0, number)));
    }
    let report = history.report(0);
    assert_eq!((report.samples.len(), report.samples[0].number, report.next), (SAMPLES_MAX, 10, 910));
    assert_eq!(report.busiest.len(), 1);
    assert_eq!(report.busiest[0].calls, 905 + 906 + 907 + 908 + 909, "ten seconds of them");
    assert!((report.busiest_seconds - 10.0).abs() < 1e-9);
    assert_eq!(history.report(908).samples.iter().map(|sample| sample.calls).collect::<Vec<_>>(), [908, 909]);
    let kept = history.samples.lock().iter().filter(|sample| !sample.busy.is_empty()).count();
    assert_eq!(kept, BUSY_SAMPLES, "older samples have given theirs back");
}

#[test]
fn the_thread_takes_samples_until_it_is_dropped() {
    let history = Arc::new(History::default());
    let look = || Arc::new(observation(1.0, 1));
    let sampler = super::sample(look, Arc::clone(&history), Duration::from_millis(1)).unwrap();
    while history.report(0).next < 3 {
        thread::yield_now();
    }
    drop(sampler);
    assert_eq!(Arc::strong_count(&history), 1, "the thread has ended");
}
