use super::*;
use crate::control::report::PoolReport;

fn seen(seconds: f64, commits: u64) -> Observation {
    let account = |client: &str, dataset: &str, commits: u64| AccountReport {
        client: client.into(),
        pool: "tank".into(),
        dataset: dataset.into(),
        lane: Some(0),
        commits,
        commits_by_size: [commits, 0, 0],
        record_bytes: 300 * commits,
        frame_bytes: 2048 * commits,
        slot: Spread(vec![(2_000, commits)]),
        device: Spread(vec![(90_000, commits)]),
        reply: Spread(vec![(9_000, commits)]),
        ..AccountReport::default()
    };
    let lane = LaneReport {
        frames: commits / 2,
        frames_by_size: [commits / 2, 0, 0],
        bytes: 2048 * commits,
        record_bytes: 300 * commits,
        ..LaneReport::default()
    };
    Observation {
        uptime_seconds: seconds,
        pools: vec![PoolReport { name: "tank".into(), lanes: vec![lane], ..PoolReport::default() }],
        accounts: vec![
            account("10.0.0.1", "tank", commits / 4),
            account("10.0.0.2", "tank/home", commits - commits / 4),
        ],
        ..Observation::default()
    }
}

#[test]
fn a_line_is_what_has_come_since_the_last_one() {
    let args = ZilstatArgs::default();
    let before = Sums::of(&seen(10.0, 4_000), &args);
    let mut interval = Sums::of(&seen(12.0, 12_000), &args).since(&before);
    interval.raise(&Sums { seconds: 1.0, n_bytes: 2_000_000, b_bytes: 3 << 20, ..Sums::default() });
    let text = header() + &interval.print(&args, true);
    let squeezed: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        squeezed,
        [
            "N-Bytes N-Bytes/s N-Max-Rate B-Bytes B-Bytes/s B-Max-Rate ops <=4kB 4-32kB >=32kB commits c/frame \
             slot p50/p99/max device p50/p99/max reply p50/p99/max",
            "2.29M 1.14M 1.91M 15.6M 7.81M 3M 4000 4000 0 0 8000 2.00 \
             2.00us/2.00us/2.00us 90.0us/90.0us/90.0us 9.00us/9.00us/9.00us",
        ]
    );
}

#[test]
fn of_one_client_its_own_requests_are_counted() {
    let args = ZilstatArgs { client: Some("10.0.0.1".into()), plain: true, exact: true, ..ZilstatArgs::default() };
    let sums = Sums::of(&seen(10.0, 4_000), &args);
    let expected = "300000\t30000\t-\t2048000\t204800\t-\t1000\t1000\t0\t0\t1000\t-\t\
                    2000\t2000\t2000\t90000\t90000\t90000\t9000\t9000\t9000\n";
    assert_eq!(sums.print(&args, false), expected);
    let nobody = ZilstatArgs { client: Some("10.0.0.3".into()), ..ZilstatArgs::default() };
    assert_eq!(Sums::of(&seen(10.0, 4_000), &nobody).commits, 0);
}

#[test]
fn what_can_never_match_is_said() {
    let seen = seen(1.0, 0);
    let cases = [
        (ZilstatArgs { pool: Some("tonk".into()), ..ZilstatArgs::default() }, "no pool 'tonk'"),
        (ZilstatArgs { dataset: Some("tank/x".into()), ..ZilstatArgs::default() }, "no dataset 'tank/x'"),
        (ZilstatArgs { lane: Some(9), ..ZilstatArgs::default() }, "no lane 9 of the intent log; there are: 0"),
        (ZilstatArgs { client: Some("me".into()), ..ZilstatArgs::default() }, "'me' is no address"),
    ];
    for (args, message) in cases {
        let refusal = args.check(&seen).expect_err(message);
        assert!(refusal.contains(message), "{refusal}");
    }
    assert_eq!(ZilstatArgs::default().check(&seen), Ok(()));
}
