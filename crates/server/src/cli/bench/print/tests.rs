use tally_bench::case::Case;
use tally_bench::client::As;
use tally_bench::report;
use tally_bench::work::{LogWork, Work};

use super::*;

fn a_report(verdict: Verdict, median: f64, collapsed: bool) -> Report {
    let work = Work {
        writes: 24_700,
        write_bytes: 140 << 20,
        flushes: 7,
        durable_events: 24_640,
        unknown_events: 0,
        log: Some(LogWork { bytes: 120 << 20, frames: 24_640 }),
    };
    let figure = Figure {
        name: "untar".into(),
        unit: "files/s".into(),
        rates: vec![median],
        median,
        lowest: median - 100.0,
        highest: median + 50.0,
        p50_ns: 150_000,
        p99_ns: 400_000,
        promises: 24_640,
        promised_bytes: 16 << 20,
        work: Some(work),
        settled: Some(work),
        collapsed,
    };
    Report {
        format: "tally-bench 1".into(),
        version: "0".into(),
        case: Case::Untar { files: 4096 },
        target: "nfs://127.0.0.1/tank".into(),
        whose: As::Root,
        started_seconds: 0,
        watched: Some("the daemon's counters of pool tank".into()),
        verdict,
        collapsed,
        figures: vec![figure],
        runs: Vec::new(),
    }
}

fn broken() -> Verdict {
    Verdict::NotDurable { kinds: vec!["CREATE: 0 of 200".into(), "LINK: 1 of 200".into()] }
}

#[test]
fn a_result_says_what_was_promised_what_was_done_and_the_verdict() {
    let expected = "\
untar of 4096 files of 4K, as root, of nfs://127.0.0.1/tank

PART   UNIT     MEDIAN  LOWEST  HIGHEST    P50    P99
untar  files/s    1000     900     1050  150us  400us

PART   PROMISES  EVENTS  PROMISED   LOG  FRAMES  POOL  WRITES  FLUSHES
untar     24.6K   24.6K       16M  120M   24.6K   20M   24.7K        7

NOT DURABLE: the reply came before what it promises was written and flushed
  CREATE: 0 of 200
  LINK: 1 of 200
watched: the daemon's counters of pool tank
";
    assert_eq!(report(&a_report(broken(), 1000.0, false), TableArgs::default()), expected);
}

#[test]
fn scripts_get_one_line_with_the_verdict_at_its_end() {
    let line = "untar\tfiles/s\t1000\t900\t1050\t150000\t400000\t24640\t24640\t16777216\t125829120\t24640\t20971520\t24700\t7\tHONEST, COLLAPSED\n";
    let plain = TableArgs { plain: true, exact: true };
    assert_eq!(report(&a_report(Verdict::Honest, 1000.0, true), plain), line);
}

#[test]
fn those_who_break_their_word_stand_below() {
    let reports = [
        ("quick".to_owned(), a_report(broken(), 5000.0, false)),
        ("honest".to_owned(), a_report(Verdict::Honest, 1000.0, false)),
    ];
    let expected = "\
untar of 4096 files of 4K, as root: untar, files/s

SERVER  MEDIAN  LOWEST  HIGHEST    P50    P99  VERDICT
honest    1000     900     1050  150us  400us  HONEST

not ranked, because they break their promises or nobody could see:

SERVER  MEDIAN  LOWEST  HIGHEST    P50    P99  VERDICT
quick     5000    4900     5050  150us  400us  NOT DURABLE
  quick: CREATE: 0 of 200, LINK: 1 of 200
";
    let groups = report::compare(&reports);
    assert_eq!(comparison(&groups, TableArgs::default()), expected);
    assert_eq!(comparison_json(&groups)[0]["unranked"][0]["server"], "quick");
}
