//! Rules and disks as data; the folder itself is driven by every case.

use std::fs::File;
use std::ops::Range;
use std::time::Duration;

use crate::disk::Disk;
use crate::rules::{Action, Request, Rules};

const ANY: Range<u64> = 0..4096;

#[test]
fn the_first_rule_that_fits_counts_and_a_change_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let rules = Rules::new(path.clone());
    assert_eq!(rules.judge("a", Request::Read, &ANY), None, "no file, no rules");
    std::fs::write(&path, "# why\nlog-* durable * fail 2\na write 4096-8192 lose\na flush * sleep:8\n").unwrap();
    assert_eq!(rules.judge("log-m", Request::Write, &ANY), None, "a cached write is none through the cache");
    for expected in [Some(Action::Fail), Some(Action::Fail), None] {
        assert_eq!(rules.judge("log-m", Request::Durable, &ANY), expected);
    }
    assert_eq!(rules.judge("a", Request::Durable, &(0..4096)), None, "beside the range");
    assert_eq!(rules.judge("a", Request::Durable, &(0..4097)), Some(Action::Lose));
    assert_eq!(rules.judge("a", Request::Flush, &ANY), Some(Action::Sleep(Duration::from_millis(8))));
    std::fs::write(&path, "a read * hang").unwrap();
    assert_eq!(rules.judge("a", Request::Flush, &ANY), None);
    assert_eq!(rules.judge("a", Request::Read, &ANY), Some(Action::Hang));
    std::fs::write(&path, "a read * explode").unwrap();
    assert_eq!(rules.judge("a", Request::Read, &ANY), Some(Action::Hang), "what cannot be read changes nothing");
}

#[test]
fn what_is_lost_is_what_was_neither_flushed_nor_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, [0; 8]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let disk = Disk::new(file);
    disk.write(0, &[1; 2], false).unwrap();
    disk.flush();
    disk.write(1, &[2; 4], false).unwrap();
    disk.write(3, &[3; 3], true).unwrap();
    disk.write(2, &[4; 1], false).unwrap();
    assert_eq!(disk.read(0, 9).unwrap(), [1, 2, 4, 3, 3, 3, 0, 0]);
    disk.lose().unwrap();
    assert_eq!(disk.read(0, 9).unwrap(), [1, 1, 0, 3, 3, 3, 0, 0]);
}
