//! Where a run stops to look, with events as words.

use super::*;
use crate::crash_images::media::SECTOR;

/// Disks 0 and 1: `W`, `w` and `f` with the disk, or a number of answered steps.
fn events(words: &str) -> Vec<Event> {
    let event = |word: &str| {
        let disk = word[1..].parse().unwrap_or_default();
        match &word[..1] {
            "f" => Event::Flush { disk },
            "s" => Event::Mark(format!("{STEP}{disk}")),
            how => Event::Write { disk, offset: 0, data: 0..SECTOR, durable: how == "W" },
        }
    };
    words.split(' ').map(event).collect()
}

fn share(every: usize, cuts: u64) -> Share {
    Share { every, cuts, seed: None }
}

#[test]
fn borders_are_where_something_became_durable() {
    let borders = |words: &str, every| -> Vec<(usize, String)> {
        let stations = all(&events(words), 2, &share(every, 0), 1);
        stations.iter().map(|station| (station.event, station.what.option())).collect()
    };
    let expected = |found: &[(usize, usize)]| -> Vec<(usize, String)> {
        found.iter().map(|(event, number)| (*event, format!("--border {number}"))).collect()
    };
    // What came before the client began does not count, but what was cached then does.
    assert_eq!(borders("W0 w1 s0 f0 f1 W0 f0 f0 w0 f1 f0", 1), expected(&[(2, 0), (4, 1), (5, 2), (10, 3)]));
    assert_eq!(borders("W0 w1 s0 f0 f1 W0 f0 f0 w0 f1 f0", 2), expected(&[(2, 0), (5, 2)]));
    assert_eq!(borders("W0 w1 f1", 1), expected(&[]));
}

#[test]
fn cuts_come_while_something_is_uncertain() {
    let stations = all(&events("W0 s0 f0 W0 f0 w1 s1 f0 f1 f1"), 2, &share(1000, 500), 1);
    let cuts: std::collections::BTreeSet<_> =
        stations.iter().filter(|station| matches!(station.what, What::Cut(..))).map(|station| station.event).collect();
    assert_eq!(cuts, [3, 5, 7, 8].into());
    assert_eq!(stations.len(), 501);
    assert!(stations.is_sorted_by_key(|station| station.event));
}

#[test]
fn one_station_is_repeated_behind_the_border_before_it() {
    let events = events("s0 W0 f0 W0 s1 w0 f0 W1");
    let option = |wanted: &str| -> Vec<String> {
        let stations = alone(all(&events, 2, &share(1, 50), 7), |what| what.option() == wanted);
        stations.iter().map(|station| station.what.option()).collect()
    };
    assert_eq!(option("--border 2"), ["--border 1", "--border 2"]);
    assert_eq!(option("--border 0"), ["--border 0"]);
    assert_eq!(option("--border 99"), Vec::<String>::new());
    let all = all(&events, 2, &share(1, 50), 7);
    let at = all.iter().position(|station| station.what.option() == "--cut 17").unwrap();
    let before = all[..at].iter().rfind(|station| matches!(station.what, What::Border(_))).unwrap();
    assert_eq!(option("--cut 17"), [before.what.option(), "--cut 17".to_owned()]);
}
