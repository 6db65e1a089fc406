use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;
use crate::control::holdings::{DelegationCounts, GraceReport};
use crate::control::observation::{KindReport, ObservedDataset};
use crate::control::report::{
    CacheReport, DatasetReport, ErrorCounters, Exposure, OpReport, OpsReport, PrefetchReport, TxgReport,
};

/// One of everything, with names that have to be escaped.
fn everything() -> Observation {
    let times = || Spread(vec![(7_000, 3), (90_000, 5), (20_000_000_000, 1)]);
    let op =
        OpReport { procedure: "WRITE".into(), stable_how: Some("FILE_SYNC".into()), calls: 9, ..OpReport::default() };
    let putfh = OpReport { procedure: "putfh".into(), calls: 12, errors: 2, ..OpReport::default() };
    let kind = KindReport { procedure: "WRITE".into(), calls: 9, device_ns: 1_500_000_000, ..KindReport::default() };
    let account = |client: &str| AccountReport {
        client: client.into(),
        pool: "tank".into(),
        dataset: "tank/a \"b\"\\c".into(),
        kinds: vec![kind.clone()],
        slot: times(),
        device: times(),
        reply: times(),
        ..AccountReport::default()
    };
    let leg = |name: &str, state: &str| VdevReport {
        name: name.into(),
        class: "data".into(),
        state: state.into(),
        errors: ErrorCounters { checksum: 4, ..ErrorCounters::default() },
        ..VdevReport::default()
    };
    let mirror = VdevReport {
        children: vec![leg("/dev/a", "ONLINE"), leg("/dev/b", "RESILVERING")],
        ..leg("mirror-0", "DEGRADED")
    };
    let pool = PoolReport {
        name: "tank".into(),
        guid: "00000000000000ab".into(),
        state: "DEGRADED".into(),
        size: 1 << 40,
        cache: vec![CacheReport { kind: "leaves".into(), bytes: 16384, hits: 7, misses: 2 }],
        prefetch: PrefetchReport { hits: 90, misses: 10, bytes: 11_796_480, unread_bytes: 4096 },
        vdevs: vec![mirror],
        lanes: vec![LaneReport { lane: 3, frames: 9, write: times(), ..LaneReport::default() }],
        exposure: Exposure { possible: true, bytes: 77, seconds: 1.5 },
        txg_causes: [("ring".to_owned(), 5)].into(),
        txgs: vec![TxgReport { txg: 8, open_seconds: 5.0, ..TxgReport::default() }],
        ..PoolReport::default()
    };
    let gone = PoolReport { name: "gone".into(), state: PoolReport::UNAVAILABLE.into(), ..PoolReport::default() };
    let former = PoolReport { name: "tank".into(), guid: "00000000000000cd".into(), ..gone.clone() };
    let dataset = DatasetReport { name: "tank".into(), ..DatasetReport::default() };
    Observation {
        pools: vec![pool, gone, former],
        datasets: vec![ObservedDataset { dataset, sync: "disabled".into(), exposed_bytes: 77, exposed_seconds: 1.5 }],
        holdings: Some(HoldingCounts {
            clients: 5,
            courtesy: 2,
            sessions: 6,
            opens: 7,
            locks: 8,
            delegations: 9,
            delegations_since: DelegationCounts { granted: 19, recalled: 10, returned: 8, revoked: 2 },
            graces: vec![GraceReport { pool: "tank".into(), clients: 5, came: 2, seconds_left: 61 }],
        }),
        ops: OpsReport { procedures: vec![op], operations: vec![putfh], whole_times: times(), ..OpsReport::default() },
        accounts: vec![account("10.0.0.1"), account("*"), account(AccountReport::GONE)],
        ..Observation::default()
    }
}

fn rendered(seen: &Observation) -> String {
    render(seen, &seen.datasets, 1.0e9)
}

#[test]
fn lines_say_what_was_seen() {
    let text = rendered(&everything());
    let expected = [
        "tally_nfs4_clients{state=\"active\"} 3",
        "tally_nfs4_clients{state=\"courtesy\"} 2",
        "tally_nfs4_grace_clients{pool=\"tank\"} 3",
        "tally_nfs4_grace_seconds{pool=\"tank\"} 61",
        "tally_nfs4_locks 8",
        "tally_nfs4_delegations 9",
        "tally_nfs4_delegations_granted_total 19",
        "tally_nfs4_delegations_recalled_total 10",
        "tally_nfs4_delegations_returned_total 8",
        "tally_nfs4_delegations_revoked_total 2",
        "tally_nfs4_operations_total{operation=\"putfh\"} 12",
        "tally_nfs4_operation_errors_total{operation=\"putfh\"} 2",
        "tally_nfs_requests_total{procedure=\"WRITE\",stable_how=\"FILE_SYNC\"} 9",
        "tally_client_wait_seconds_total{client=\"10.0.0.1\",dataset=\"tank/a \\\"b\\\"\\\\c\",phase=\"device\"} 1.5",
        "tally_nfs_request_duration_seconds_bucket{le=\"0.000008192\"} 3",
        "tally_nfs_request_duration_seconds_bucket{le=\"0.000131072\"} 8",
        "tally_nfs_request_duration_seconds_bucket{le=\"8.589934592\"} 8",
        "tally_nfs_request_duration_seconds_bucket{le=\"+Inf\"} 9",
        "tally_nfs_request_duration_seconds_sum 20.000471",
        "tally_pool_state{pool=\"tank\",guid=\"00000000000000ab\",state=\"DEGRADED\"} 1",
        "tally_pool_state{pool=\"tank\",guid=\"00000000000000cd\",state=\"UNAVAIL\"} 1",
        "tally_pool_state{pool=\"gone\",guid=\"\",state=\"UNAVAIL\"} 1",
        "tally_pool_size_bytes{pool=\"tank\"} 1099511627776",
        "tally_vdev_state{pool=\"tank\",vdev=\"/dev/b\",class=\"data\",state=\"RESILVERING\"} 1",
        "tally_vdev_errors_total{pool=\"tank\",vdev=\"/dev/a\",kind=\"checksum\"} 4",
        "tally_dataset_sync{dataset=\"tank\",sync=\"disabled\"} 1",
        "tally_log_frames_total{pool=\"tank\",lane=\"3\"} 9",
        "tally_cache_bytes{pool=\"tank\",kind=\"leaves\"} 16384",
        "tally_cache_misses_total{pool=\"tank\",kind=\"leaves\"} 2",
        "tally_prefetch_hits_total{pool=\"tank\"} 90",
        "tally_prefetch_misses_total{pool=\"tank\"} 10",
        "tally_prefetch_bytes_total{pool=\"tank\"} 11796480",
        "tally_prefetch_unread_bytes_total{pool=\"tank\"} 4096",
        "tally_txg_total{pool=\"tank\",cause=\"ring\"} 5",
        "tally_txg_phase_seconds{pool=\"tank\",phase=\"open\"} 5",
        "process_start_time_seconds 1000000000",
    ];
    for line in expected {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("size_bytes{pool=\"gone\"}"), "nothing is known of a pool that is not there");
    assert!(!text.contains(AccountReport::GONE), "what was told of a client is not told again");
}

/// The rules of the format: help and type before the first sample, one family in one place, no sample twice, steps that
/// only rise and end in the count.
#[test]
fn the_text_keeps_the_rules_of_the_format() {
    let text = rendered(&everything());
    let (mut kinds, mut seen, mut current) = (BTreeMap::new(), BTreeSet::new(), String::new());
    let mut last_bucket: Option<(String, u64)> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(current, name, "help comes first");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            current = rest.split(' ').next().unwrap().to_owned();
            assert!(rest.len() > current.len() + 5, "{rest}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && seen.insert(series.to_owned()), "{line}");
        let name = series.split('{').next().unwrap();
        let kind = &kinds[&current];
        let suffix = name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{name} among {current}"));
        assert!(if kind == "histogram" { ["_bucket", "_sum", "_count"].contains(&suffix) } else { suffix.is_empty() });
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let count = value as u64;
        match suffix {
            "_bucket" => {
                let labels = series.split("le=").next().unwrap().to_owned();
                if let Some((before, least)) = &last_bucket {
                    assert!(*before != labels || *least <= count, "{line}");
                }
                last_bucket = Some((labels, count));
            }
            "_count" => assert_eq!(last_bucket.take().map(|(_, count)| count), Some(count), "{line}"),
            _ => {}
        }
    }
    assert!(kinds.len() > 40, "{kinds:?}");
}

#[test]
fn the_manual_has_every_metric_and_no_other() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitoring.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let text = rendered(&everything());
    let told: BTreeSet<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let rows = manual.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next());
    let documented: BTreeSet<_> =
        rows.filter(|name| name.starts_with("tally_") || name.starts_with("process_")).collect();
    assert_eq!(told, documented);
}

/// Prometheus' own judgement.
#[test]
#[ignore = "needs promtool (Debian: package prometheus); `cargo xtask test` runs it"]
fn promtool_has_nothing_to_say_of_the_metrics() {
    let (succeeded, said) = promtool(&["check", "metrics"], &rendered(&everything()));
    assert!(succeeded && said.is_empty(), "{said}");
}

/// The alerts, as the package brings them.
#[test]
#[ignore = "needs promtool (Debian: package prometheus); `cargo xtask test` runs it"]
fn promtool_has_nothing_to_say_of_the_rules() {
    let rules = include_str!("../../../../../packaging/alerts.yml");
    let alerts = rules.matches("alert: ").count();
    let (succeeded, said) = promtool(&["check", "rules", "/dev/stdin"], rules);
    assert!(succeeded && said.contains(&format!("SUCCESS: {alerts} rules found")), "{said}");
}

/// Whether it was content with a text on its standard input, and all that it said.
fn promtool(arguments: &[&str], text: &str) -> (bool, String) {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = command.spawn().expect("promtool is installed");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    (output.status.success(), said)
}
