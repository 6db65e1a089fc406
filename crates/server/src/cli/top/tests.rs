use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyEvent;

use super::watch::Sort;
use super::*;
use crate::control::observation::{AccountReport, KindReport};
use crate::control::report::{Exposure, LaneReport, OpReport, OpsReport, PoolReport, TxgReport};
use crate::control::spread::Spread;

/// A server after so many seconds, in which two clients have written steadily.
#[allow(clippy::cast_precision_loss)]
fn observation(seconds: u64) -> Box<Observation> {
    let account = |client: &str, dataset: &str, commits: u64| {
        let kind = KindReport {
            procedure: "write".into(),
            calls: commits,
            data_bytes: 4096 * commits,
            work_ns: 10_000 * commits,
            device_ns: 90_000 * commits,
            ..KindReport::default()
        };
        AccountReport {
            client: client.into(),
            pool: "tank".into(),
            dataset: dataset.into(),
            kinds: vec![kind],
            commits,
            device: Spread(vec![(90_000, commits), (3_000_000, commits / 50)]),
            ..AccountReport::default()
        }
    };
    let (slow, fast) = (100 * seconds, 300 * seconds);
    let lane = LaneReport {
        size: 256 << 20,
        used: 32 << 20,
        frames: 200 * seconds,
        records: 400 * seconds,
        write: Spread(vec![(90_000, 200 * seconds)]),
        ..LaneReport::default()
    };
    let group = |txg: u64| TxgReport {
        txg,
        open_seconds: 5.0,
        quiescing_seconds: 0.000_1,
        syncing_seconds: 0.01 * (txg % 7) as f64,
        dirty_bytes: 3 << 20,
        ..TxgReport::default()
    };
    let pool = PoolReport {
        name: "tank".into(),
        guid: "1".into(),
        state: "ONLINE".into(),
        size: 1 << 40,
        allocated: 300 << 30,
        dirty_bytes: 3 << 20,
        dirty_bytes_max: 1 << 30,
        ahead_waiting: 3,
        txg_open: 60,
        txgs: (20..59).map(group).collect(),
        lanes: vec![lane],
        exposure: Exposure { possible: true, bytes: 5 << 20, seconds: 2.5 },
        ..PoolReport::default()
    };
    let op = OpReport { procedure: "write".into(), calls: slow + fast, ..OpReport::default() };
    Box::new(Observation {
        uptime_seconds: 7300.0 + seconds as f64,
        pools: vec![pool],
        ops: OpsReport {
            procedures: vec![op],
            whole_times: Spread(vec![(100_000, slow + fast)]),
            ..OpsReport::default()
        },
        accounts: vec![account("192.168.100.101", "tank", slow), account("10.0.0.2", "tank/home/ann", fast)],
        ..Observation::default()
    })
}

fn watched(seconds: std::ops::RangeInclusive<u64>) -> Watch {
    let mut watch = Watch::new("box".into());
    for second in seconds {
        watch.take(Ok(observation(second)));
    }
    watch
}

fn screen(watch: &Watch, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(watch, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn everything_is_on_an_old_terminal() {
    let lines = screen(&watched(1..=60), 80, 24);
    let expected = [
        (0, " tallystick  box  up 2 h  400 calls/s  requests 100us/100us"),
        (1, " tank: a power cut would take 5M acknowledged up to 2.5 s ago (sync=disabled)"),
        (2, " tank       ONLINE    ███░░░░░░░ 300G of 1T  dirty █░░░░░░░░░ 3M"),
    ];
    for (at, line) in expected {
        assert_eq!(lines[at], line);
    }
    let text = lines.join("\n");
    for words in [
        "transaction groups  60 is open",
        " open    ███████",
        "5.00s",
        " sync    ",
        "20.0ms",
        " newest  58, 3M dirty; 3 wait",
        "log lanes",
        "█░░░░░ 12%",
        "2.0 90.0us/90.0us",
        "durable requests/s  400",
        "log device p99  3.00ms",
        "clients, by wait  (2 active)",
        "75%      300       300   1.17M   100us",
        "q quit",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    assert!(text.find("10.0.0.2") < text.find("192.168.100.101"), "who waits longest comes first\n{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
}

#[test]
fn a_large_terminal_is_used() {
    let text = screen(&watched(1..=200), 120, 40).join("\n");
    assert!(text.contains("  connections 0") && text.contains("tank/home/ann"), "{text}");
}

#[test]
fn a_daemon_that_went_away_is_told_and_what_was_known_stays() {
    let mut watch = watched(1..=3);
    assert!(watch.take(Err("no daemon answers at /x\nStart one".into())));
    let lines = screen(&watch, 80, 24);
    assert!(lines[1].starts_with(" NOT CONNECTED for 0 s, trying again: no daemon answers at /x"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("ONLINE")), "{lines:?}");
    watch.take(Ok(observation(0)));
    assert!(watch.lost.is_none() && watch.points.is_empty(), "a new start makes no interval with the old one");
    for (width, height) in [(80, 24), (20, 5), (1, 1)] {
        screen(&Watch::new("box".into()), width, height);
        screen(&watch, width, height);
    }
}

#[test]
fn keys() {
    let mut watch = watched(1..=2);
    let press = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
    let cases = [
        (KeyCode::Char('q'), KeyModifiers::NONE, true),
        (KeyCode::Esc, KeyModifiers::NONE, true),
        (KeyCode::Char('c'), KeyModifiers::CONTROL, true),
        (KeyCode::Char('c'), KeyModifiers::NONE, false),
        (KeyCode::Char('s'), KeyModifiers::NONE, false),
        (KeyCode::Char('p'), KeyModifiers::NONE, false),
        (KeyCode::Tab, KeyModifiers::NONE, false),
    ];
    for (code, modifiers, last) in cases {
        assert_eq!(quits(&press(code, modifiers), &mut watch), last, "{code}");
    }
    assert!(watch.paused && watch.sort == Sort::Calls && watch.pool().is_some());
    assert!(!watch.take(Ok(observation(3))), "paused");
    assert!(screen(&watch, 80, 24)[0].contains("PAUSED"));
    assert!(interval("0.5").is_ok() && interval("0").is_err() && interval("x").is_err() && interval("nan").is_err());
}
