use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// As Linux 6.12 prints it: 17 fields, the last two those of flushes.
const STAT: &str = "  100 1 2000 30  400 5 8000 60 0 70 80 0 0 0 0  25 90\n";

#[test]
fn what_counts_as_durable_depends_on_the_write_cache() {
    let work = |durable_events, unknown_events| Work {
        writes: 400,
        write_bytes: 8000 * 512,
        flushes: 25,
        durable_events,
        unknown_events,
        log: None,
    };
    let cases = [(Cache::None, work(425, 0)), (Cache::Volatile, work(25, 0)), (Cache::VolatileWithFua, work(25, 400))];
    for (cache, expected) in cases {
        let mut work = Work::default();
        add(&mut work, STAT, cache).unwrap();
        assert_eq!(work, expected, "{cache:?}");
    }
}

#[test]
fn a_stat_that_cannot_be_used_is_an_error() {
    for text in ["", "1 2 3", "a b c", "1 2 3 4 5 6 7 8 9 10 11"] {
        assert!(add(&mut Work::default(), text, Cache::Volatile).is_err(), "'{text}'");
    }
}

/// A kernel's folder with a disk, a partition of it, and a mirror of both disks.
fn kernel() -> tempfile::TempDir {
    let sys = tempfile::tempdir().unwrap();
    let make = |path: &str, text: &str| {
        let path = sys.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (disk, cache, fua) in [("sda", "write back\n", "0\n"), ("sdb", "write through\n", "1\n")] {
        make(&format!("devices/{disk}/stat"), STAT);
        make(&format!("devices/{disk}/queue/write_cache"), cache);
        make(&format!("devices/{disk}/queue/fua"), fua);
    }
    make("devices/sda/sda1/partition", "1\n");
    make("devices/sda/sda1/stat", "1 1 1\n");
    make("devices/md0/stat", STAT);
    fs::create_dir_all(sys.path().join("devices/md0/slaves")).unwrap();
    fs::create_dir_all(sys.path().join("block")).unwrap();
    for (name, place) in [("sda", "sda"), ("sdb", "sdb"), ("md0", "md0"), ("sda1", "sda/sda1")] {
        symlink(sys.path().join("devices").join(place), sys.path().join("block").join(name)).unwrap();
    }
    for (name, place) in [("sda1", "sda/sda1"), ("sdb", "sdb")] {
        symlink(sys.path().join("devices").join(place), sys.path().join("devices/md0/slaves").join(name)).unwrap();
    }
    sys
}

#[test]
fn partitions_and_stacked_disks_stand_for_the_disks_below() {
    let sys = kernel();
    let find = |words: &[&str]| {
        let words: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        Devices::find_below(&sys.path().join("block"), &words)
    };
    let cases: [(&[&str], &str, u64); 5] = [
        (&["sda"], "the kernel's counters of sda (write back)", 25),
        (&["sda1"], "the kernel's counters of sda (write back)", 25),
        (&["/nowhere/sdb"], "the kernel's counters of sdb (write through)", 425),
        // Each disk counts once, however often it is named.
        (&["sda", "sda1", "sda"], "the kernel's counters of sda (write back)", 25),
        (&["md0"], "the kernel's counters of sda (write back), sdb (write through)", 450),
    ];
    for (words, source, durable_events) in cases {
        let mut devices = find(words).unwrap();
        assert_eq!((devices.source().as_str(), devices.work().unwrap().durable_events), (source, durable_events));
    }
    assert!(find(&["sdz"]).is_err() && find(&[]).is_err() && find(&["/"]).is_err());
}
