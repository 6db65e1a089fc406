use super::*;
use crate::control::report::{ErrorCounters, Exposure, ScrubReport, SpareReport};

const VERBOSE: Detail = Detail { verbose: true, slow: false, exact: false };

fn leg(name: &str, state: &str, checksum: u64) -> VdevReport {
    let errors = ErrorCounters { checksum, ..ErrorCounters::default() };
    VdevReport { name: name.into(), class: "data".into(), state: state.into(), errors, ..VdevReport::default() }
}

fn spare(name: &str, state: &str, stands_for: Option<&str>, why: Option<&str>) -> SpareReport {
    let (stands_for, why) = (stands_for.map(str::to_owned), why.map(str::to_owned));
    SpareReport { name: name.into(), state: state.into(), stands_for, why, ..SpareReport::default() }
}

#[test]
fn a_degraded_mirror_with_a_log() {
    let mirror = VdevReport {
        children: vec![leg("/disks/a", "ONLINE", 0), leg("/disks/b", "MISSING", 1200)],
        ..leg("mirror-0", "DEGRADED", 0)
    };
    let log = VdevReport { class: "log".into(), ..leg("/disks/log", "ONLINE", 0) };
    let lane = LaneReport {
        vdev: "/disks/log".into(),
        size: 256 << 20,
        used: 64 << 20,
        commit_bytes: 29 << 20,
        frames: 1_000_000,
        records: 2_345_678,
        write_ns_p50: 90_100,
        write_ns_p99: 8_200_000,
        ..LaneReport::default()
    };
    let pool = PoolReport {
        name: "tank".into(),
        state: "DEGRADED".into(),
        txg: 42,
        vdevs: vec![mirror, log],
        lanes: vec![lane],
        spares: vec![
            spare("/disks/s", "INUSE", Some("/disks/b"), None),
            spare("/disks/t", "AVAIL", None, None),
            spare("/disks/u", "UNAVAIL", None, Some("it does not answer")),
        ],
        exposure: Exposure { possible: true, bytes: 3 << 19, seconds: 2.25 },
        messages: vec!["/disks/b is missing.\nReplace it with `tally pool replace`.".into()],
        ..PoolReport::default()
    };
    let expected = "  pool: tank
 state: DEGRADED
status: some datasets have sync=disabled: clients are told that data is safe when it is not.
        A power cut now would lose 1.50M that were acknowledged up to 2.2 s ago.
status: /disks/b is missing.
        Replace it with `tally pool replace`.
config:

\tNAME          STATE     READ WRITE CKSUM
\ttank          DEGRADED     0     0     0
\t  mirror-0    DEGRADED     0     0     0
\t    /disks/a  ONLINE       0     0     0
\t    /disks/b  MISSING      0     0 1.20K
\tlogs
\t  /disks/log  ONLINE       0     0     0
\tspares
\t  /disks/s    INUSE     for /disks/b
\t  /disks/t    AVAIL
\t  /disks/u    UNAVAIL   it does not answer

log:    txg 42 is on disk

\tLANE    SIZE  FILL  COMMIT     FRAMES    RECORDS      P50      P99  VDEV
\t0       256M   25%     29M    1000000    2345678   90.1us    8.2ms  /disks/log

errors: No known data errors; disks have failed requests, see above
";
    assert_eq!(print(std::slice::from_ref(&pool), VERBOSE), expected);
    let exact = print(&[pool], Detail { exact: true, ..Detail::default() });
    assert!(exact.contains("\t    /disks/b  MISSING      0     0  1200\n"), "{exact}");
}

/// Any counter that was not zero was called "repaired from other disks", also where nothing could be repaired.
#[test]
fn what_was_repaired_is_told_apart_from_what_could_not_be() {
    let cases: &[(u64, u64, u64, &[&str])] = &[
        (0, 0, 0, &["errors: No known data errors\n"]),
        (3, 0, 0, &["errors: No known data errors; disks have failed requests"]),
        (3, 3, 0, &["No known data errors; 3 blocks were repaired from other disks", "pool replace"]),
        (1, 0, 1, &["errors: 1 block was damaged on every disk: reading gives an I/O error.", "backup"]),
        (3, 2, 1, &["errors: 1 block was damaged on every disk", "2 blocks were repaired from other disks", "backup"]),
    ];
    for (checksum, repaired, unrepaired, expected) in cases {
        let mut disk = leg("/t.img", "ONLINE", *checksum);
        disk.errors.repaired = *repaired;
        let pool = PoolReport { vdevs: vec![disk], unrepaired: *unrepaired, ..PoolReport::default() };
        let text = print(&[pool], Detail::default());
        for part in *expected {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

/// As `zpool status` has it: what runs, how far it is, and what came of the last one.
#[test]
fn a_copy_shows_how_far_it_is() {
    let copy = CopyReport {
        what: "resilver".into(),
        device: "/disks/b".into(),
        partial: false,
        phase: "copying".into(),
        done_bytes: 3 << 30,
        total_bytes: 8 << 30,
        seconds: 3725.2,
        bytes_per_second: 200e6,
        seconds_left: Some(90_061.0),
    };
    let preparing = CopyReport { phase: "preparing".into(), device: "/disks/c".into(), ..CopyReport::default() };
    let partial = CopyReport { partial: true, ..copy.clone() };
    let scrub = CopyReport { what: "scrub".into(), phase: "checking".into(), ..CopyReport::default() };
    let pool = PoolReport {
        scrub: Some(ScrubReport { began: 951_868_799, ..ScrubReport::default() }),
        copies: vec![copy, partial, scrub, preparing],
        copies_ended: vec!["resilvered 1.00G to /disks/d in 5 s".into()],
        ..PoolReport::default()
    };
    let text = print(&[pool], Detail::default());
    let expected = "  scan: resilver of /disks/b in progress for 01:02:05: copying
        3G / 8G at 191M/s, 37.5% done, 1 days 01:01:01 to go
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("partial resilver of /disks/b in progress for 01:02:05: copying"), "{text}");
    let of_scrub = "  scan: scrub in progress since Tue Feb 29 23:59:59 2000\n        checking, for 00:00:00 so far: 0B / 0B at 0B/s";
    assert!(text.contains(of_scrub), "{text}");
    assert!(text.contains("/disks/c in progress for 00:00:00: preparing"), "{text}");
    assert!(
        text.contains("no estimated completion time\n  scan: resilvered 1.00G to /disks/d in 5 s\nconfig:"),
        "{text}"
    );
}

#[test]
fn a_healthy_pool_is_short() {
    let pool = PoolReport {
        name: "tank".into(),
        state: "ONLINE".into(),
        vdevs: vec![leg("/t.img", "ONLINE", 0)],
        ..PoolReport::default()
    };
    let expected = "  pool: tank
 state: ONLINE
config:

\tNAME      STATE   READ WRITE CKSUM
\ttank      ONLINE     0     0     0
\t  /t.img  ONLINE     0     0     0

errors: No known data errors
";
    assert_eq!(print(&[pool], Detail::default()), expected);
}

#[test]
fn counts_fit_five_characters() {
    let cases = [(0, "0"), (999, "999"), (1000, "1.00K"), (12_345, "12.3K"), (654_321, "654K"), (u64::MAX, "18447P")];
    for (value, expected) in cases {
        assert_eq!(count(value), expected);
    }
}

/// What had been answered with an I/O error was in the log at best: nobody could tell which files to restore.
#[test]
fn what_could_not_be_read_is_named() {
    let place = |what: &str, path: Option<&str>, offset| DamagedObject {
        dataset: "tank/home".into(),
        object: 17,
        path: path.map(str::to_owned),
        what: what.into(),
        offset,
    };
    let pool = PoolReport {
        name: "tank".into(),
        state: "ONLINE".into(),
        vdevs: vec![leg("/t.img", "ONLINE", 1)],
        damage: vec![
            place("content", Some("/mail/in\u{1b}box"), Some(262_144)),
            place("names", Some("/"), None),
            place("attributes", None, None),
        ],
        damage_beyond: 5,
        leaks: 2,
        ..PoolReport::default()
    };
    let text = print(std::slice::from_ref(&pool), VERBOSE);
    let expected = "        could not be read:

\ttank/home:/mail/in\\u{1b}box, content at 262144
\ttank/home:/, names in it
\ttank/home:<object 17>, attributes
\tand more, met 5 times
        2 blocks could not be read when what they name was to be given back: that space is lost
";
    assert!(text.ends_with(expected), "{text}");
    assert!(
        print(&[pool], Detail::default()).contains("3 places could not be read; `tally pool status -v` names them\n")
    );
}

#[test]
fn slow_requests_have_a_column_of_their_own_for_who_asks() {
    let slow = VdevReport { slow: 1200, ..leg("/a", "ONLINE", 0) };
    let pool = PoolReport { name: "tank".into(), state: "ONLINE".into(), vdevs: vec![slow], ..PoolReport::default() };
    let text = print(std::slice::from_ref(&pool), Detail { slow: true, ..Detail::default() });
    let expected = "\tNAME  STATE   READ WRITE CKSUM  SLOW
\ttank  ONLINE     0     0     0     0
\t  /a  ONLINE     0     0     0 1.20K
";
    assert!(text.contains(expected), "{text}");
    assert!(!print(&[pool], VERBOSE).contains("SLOW"));
}
