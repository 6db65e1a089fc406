use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn numbers_behind_the_pools_are_interval_and_count() {
    let second = Some(Duration::from_secs(1));
    let cases = [
        ("", 0, None, Some(1)),
        ("tank", 1, None, Some(1)),
        ("tank dozer 1", 2, second, None),
        ("1 5", 0, second, Some(5)),
        ("tank 0.5 2", 1, Some(Duration::from_millis(500)), Some(2)),
    ];
    for (text, names, interval, count) in cases {
        let plan = Plan::parse(&words(text)).unwrap();
        assert_eq!((plan.names.len(), plan.interval, plan.count), (names, interval, count), "{text}");
    }
    for text in ["0", "1 0", "1 2 3", "1 tank", "1 2.5"] {
        assert!(Plan::parse(&words(text)).is_err(), "{text}");
    }
}

fn pool(seconds: f64, writes: u64) -> PoolReport {
    let io = IoCounters { write_ops: writes, write_bytes: writes * 4096, ..IoCounters::default() };
    let log = VdevReport { name: "/l".into(), class: "log".into(), io, ..VdevReport::default() };
    PoolReport {
        name: "tank".into(),
        guid: "01".into(),
        allocated: 1 << 20,
        free: 3 << 30,
        imported_seconds: seconds,
        io,
        vdevs: vec![log],
        ..PoolReport::default()
    }
}

#[test]
fn a_sample_is_the_difference_over_its_time() {
    let (before, now) = ([pool(10.0, 1000)], [pool(12.0, 9000)]);
    let args = IostatArgs { verbose: true, ..IostatArgs::default() };
    let width = name_width(&now, true);
    let expected = "                capacity         operations        bandwidth
pool          alloc     free     read    write     read    write
";
    assert_eq!(header(width, args), expected);
    let expected = "\
tank             1M       3G        0    4.00K       0B    15.6M
  /l (log)        -        -        0    4.00K       0B    15.6M
";
    assert_eq!(sample(&now, Some(&before), args, width), expected);
    let plain = IostatArgs { table: TableArgs { plain: true, exact: true }, ..IostatArgs::default() };
    let since_import = "tank\t1048576\t3221225472\t0\t750\t0\t3072000\n";
    assert_eq!(sample(&now, None, plain, width), since_import);
    assert_eq!(sample(&now, Some(&[pool(99.0, 99_999)]), plain, width), since_import, "imported again");
}

#[test]
fn latencies_and_queues_are_more_columns() {
    let mut now = [pool(10.0, 1000)];
    now[0].vdevs[0].times.durable_write = crate::control::spread::Spread(vec![(90_000, 10)]);
    now[0].vdevs[0].active.durable_write = 1;
    now[0].lanes = vec![crate::control::report::LaneReport { vdev: "/l".into(), pending: 7, ..Default::default() }];
    let args = IostatArgs { latency: true, queues: true, verbose: true, ..IostatArgs::default() };
    let width = name_width(&now, true);
    let header = header(width, args);
    let text = sample(&now, None, args, width);
    let last = |line: Option<&str>| line.map(|line| line.split_whitespace().skip(7).collect::<Vec<_>>().join(" "));
    assert_eq!(last(header.lines().nth(1)).as_deref(), Some("read write syncw flush read write syncw flush pend"));
    assert_eq!(last(text.lines().next()).as_deref(), Some("- - 90.0us - 0 0 1 0 7"));
    let widths = header.lines().skip(1).chain(text.lines()).map(str::len).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(widths.len(), 1, "{header}{text}");
}
