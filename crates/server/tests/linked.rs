//! The whole daemon in this process, over disks in memory: what a command changes is there after a restart.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tally_bench::wire::{Connection, Stable, Target};
use tally_disk::{Disk, Durability, Geometry, Opener};
use tally_fakes::{MemDisk, MemOpener};

mod running;

use disks::{Failing, Hanging};
use running::{Running, browse, story, tally};

#[path = "linked/completing.rs"]
mod completing;
#[path = "linked/delegations.rs"]
mod delegations;
#[path = "linked/disks.rs"]
mod disks;
#[path = "linked/evicting.rs"]
mod evicting;
#[path = "linked/features.rs"]
mod features;
#[path = "linked/given_up.rs"]
mod given_up;
#[path = "linked/habits.rs"]
mod habits;
#[path = "linked/handing_over.rs"]
mod handing_over;
#[path = "linked/hooks.rs"]
mod hooks;
#[path = "linked/housekeeping.rs"]
mod housekeeping;
#[path = "linked/init.rs"]
mod init;
#[path = "linked/local_locks.rs"]
mod local_locks;
#[path = "linked/locking_for_3.rs"]
mod locking_for_3;
#[path = "linked/manual.rs"]
mod manual;
#[path = "linked/meeting.rs"]
mod meeting;
#[path = "linked/members.rs"]
mod members;
#[path = "linked/mounting.rs"]
mod mounting;
#[path = "linked/mountpoints.rs"]
mod mountpoints;
#[path = "linked/naming.rs"]
mod naming;
#[path = "linked/new_files.rs"]
mod new_files;
#[path = "linked/newer.rs"]
mod newer;
#[path = "linked/pulled.rs"]
mod pulled;
#[path = "linked/refusals.rs"]
mod refusals;
#[path = "linked/resuming.rs"]
mod resuming;
#[path = "linked/sharing.rs"]
mod sharing;
#[path = "linked/signals.rs"]
mod signals;
#[path = "linked/smb2.rs"]
mod smb2;
#[path = "linked/socket_group.rs"]
mod socket_group;
#[path = "linked/taking_over.rs"]
mod taking_over;
#[path = "linked/user_properties.rs"]
mod user_properties;

/// So long a test waits for what should come in an instant, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of each of the two labels of a disk.
const LABEL_BYTES: u64 = tally_members::label::LABEL_BYTES;

/// Whoever asks until the answer has these words. What never comes is a failure with the last answer, and not a test
/// that does not end.
fn wait_for(data_dir: &Path, words: &[&str], expected: &str) -> String {
    let given_up = Instant::now() + PATIENCE;
    loop {
        let (well, text) = tally(data_dir, words);
        assert!(well, "{words:?}: {text}");
        if text.contains(expected) {
            return text;
        }
        assert!(Instant::now() < given_up, "{words:?} does not say {expected:?} in {PATIENCE:?}: {text}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_first_start_makes_a_pool_and_a_second_one_finds_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());

    let first = Running::start(data_dir, &opener);
    assert!(first.said[0].starts_with("Making pool 'tank'"), "{:?}", first.said);
    assert!(
        first.announcement.contains("\n/tank\n") && !first.announcement.contains("macOS"),
        "{}",
        first.announcement
    );
    let steps: &[(&[&str], bool, &str)] = &[
        (&["pool", "list", "-H"], true, "\tONLINE\n"),
        (&["dataset", "create", "-p", "-o", "refquota=10M", "tank/home/ann"], true, ""),
        (&["dataset", "create", "tank/home/ann"], false, "exists already"),
        (&["dataset", "set", "sync=disabled", "tank/home"], true, ""),
        (&["dataset", "set", "sharenfs=10.0.0.0/8(rw)", "tank/home"], true, "--listen"),
        (&["dataset", "set", "sharenfs=10.0.0.0/8", "tank/home"], false, "`10.0.0.0/8` says neither ro nor rw"),
        (&["dataset", "set", "sharenfs=10.0.0.0/8(rw,async)", "tank/home"], false, "sync=disabled"),
        (&["dataset", "set", "refquota=1G", "recordsize=3K", "tank"], false, "power of two"),
        (&["dataset", "set", "quota=1G", "tank"], true, ""),
        (&["dataset", "get", "-H", "quota", "tank"], true, "tank\tquota\t1G\tlocal\n"),
        (&["dataset", "set", "quota=1", "tank/home/ann"], true, ""),
        (&["dataset", "rename", "tank/home", "tank/home/ann/home"], false, "own descendant"),
        (&["dataset", "create", "tank/wide"], true, ""),
        (
            &["dataset", "rename", "tank/wide", "tank/home/ann/wide"],
            false,
            "'tank/home/ann' may hold 1B with all below it",
        ),
        (&["dataset", "destroy", "tank/wide"], true, ""),
        (&["dataset", "inherit", "quota", "tank/home/ann"], true, ""),
        (&["dataset", "set", "refquota=1", "tank/home"], true, ""),
        (&["dataset", "inherit", "refquota", "tank/home"], true, ""),
        (&["pool", "create", "p", "raidz", "a", "b", "c"], false, "raidz vdevs are not there yet: use single devices"),
        (&["dataset", "get", "-H", "refquota", "tank"], true, "tank\trefquota\tnone\tdefault\n"),
        (&["pool", "status"], true, "sync=disabled: clients are told"),
        (&["pool", "export", "tonk"], false, "no pool 'tonk'"),
        (&["pool", "set", "failmode=panic", "tank"], false, "failmode=wait|continue"),
        (&["pool", "get", "-H", "failmode", "tank"], true, "tank\tfailmode\twait\tdefault\n"),
        (&["pool", "set", "failmode=continue", "tank"], true, ""),
    ];
    for (words, well, expected) in steps {
        let (went_well, text) = tally(data_dir, words);
        assert!(went_well == *well && text.contains(expected), "{words:?}: {text}");
    }
    first.stop();

    let second = Running::start(data_dir, &opener);
    assert_eq!(second.said, ["imported pool 'tank'; there was nothing to replay"]);
    let failmode = tally(data_dir, &["pool", "get", "-H", "failmode", "tank"]);
    assert_eq!(failmode, (true, "tank\tfailmode\tcontinue\tlocal\n".into()));
    let get = ["dataset", "get", "-Hp", "sync,refquota,sharenfs", "tank/home/ann"];
    let expected = "tank/home/ann\tsync\tdisabled\tinherited from tank/home\n\
                    tank/home/ann\trefquota\t10485760\tlocal\n\
                    tank/home/ann\tsharenfs\t10.0.0.0/8(rw)\tinherited from tank/home\n";
    assert_eq!(tally(data_dir, &get), (true, expected.into()));
    assert!(tally(data_dir, &["dataset", "rename", "tank/home", "tank/people"]).0);
    assert!(!tally(data_dir, &["dataset", "destroy", "tank/people"]).0, "it has a child");
    assert!(tally(data_dir, &["dataset", "destroy", "-r", "tank/people"]).0);
    assert_eq!(tally(data_dir, &["dataset", "list", "-H"]).1.lines().count(), 1);
    second.stop();
}

#[test]
fn pools_come_and_go_while_the_daemon_runs() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let say = |words: &[&str]| {
        let (well, text) = tally(data_dir, words);
        assert!(well, "{words:?}: {text}");
        text
    };
    for name in ["a", "b", "c", "l", "m"] {
        opener.create(&data_dir.join(name), 32 << 20, false, &mut |_| true).unwrap();
    }
    say(&["pool", "create", "dozer", "mirror", "a", "b", "log", "l"]);
    say(&["pool", "attach", "dozer", "l", "m"]);
    say(&["pool", "replace", "dozer", "a", "c"]);
    let (well, text) = tally(data_dir, &["pool", "detach", "dozer", "mirror-0"]);
    assert!(!well && text.contains("no disk 'mirror-0'"), "{text}");
    let status = say(&["pool", "status", "dozer"]);
    let devices: Vec<&str> = status.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let path = |name: &str| data_dir.join(name).display().to_string();
    for (device, there) in
        [("mirror-0", true), (&path("b"), true), (&path("c"), true), (&path("m"), true), (&path("a"), false)]
    {
        assert_eq!(devices.contains(&device), there, "{device}: {status}");
    }
    say(&["dataset", "create", "dozer/x"]);
    say(&["pool", "export", "dozer"]);
    let here = data_dir.display().to_string();
    let found = say(&["pool", "import", "-d", &here]);
    assert!(found.contains("pool: dozer") && found.contains("state: ONLINE"), "{found}");
    say(&["pool", "import", "-d", &here, "dozer"]);
    assert!(say(&["dataset", "list"]).contains("dozer/x"));
    say(&["pool", "destroy", "dozer"]);
    assert!(!say(&["pool", "list"]).contains("dozer"));
    daemon.stop();
}

/// Whoever asks after a pool that should be there is told that its clients wait, and why, until it is there.
#[test]
fn a_pool_that_should_be_there_and_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    Running::start(data_dir, &opener).stop();
    let files: Vec<_> = std::fs::read_to_string(data_dir.join("pools.toml"))
        .unwrap()
        .split('"')
        .filter(|word| word.starts_with('/'))
        .map(std::path::PathBuf::from)
        .collect();
    let away: Vec<_> = files.iter().map(|file| opener.remove(file).unwrap()).collect();

    let daemon = Running::start(data_dir, &opener);
    assert!(daemon.announcement.contains("Pool 'tank' is not imported"), "{}", daemon.announcement);
    assert!(!daemon.announcement.contains("Nothing is exported"), "{}", daemon.announcement);
    for words in [&["pool", "status"][..], &["pool", "status", "tank"]] {
        let (well, text) = tally(data_dir, words);
        assert!(well && text.contains("state: UNAVAIL") && text.contains("its clients wait"), "{text}");
    }
    assert_eq!(tally(data_dir, &["pool", "list", "-H"]), (true, "tank\t-\t-\t-\t-\tUNAVAIL\n".into()));
    let (well, text) = tally(data_dir, &["pool", "export", "tank"]);
    assert!(!well && text.contains("no pool 'tank'"), "{text}");

    for (file, disk) in files.iter().zip(away) {
        opener.put(file, disk);
    }
    let here = data_dir.display().to_string();
    assert!(tally(data_dir, &["pool", "import", "-d", &here, "tank"]).0);
    assert!(tally(data_dir, &["pool", "list", "-H"]).1.ends_with("\tONLINE\n"));
    daemon.stop();
}

/// A mirror's disk that was away while the pool changed comes back STALE. The daemon has it open, so `replace` used
/// to find it "in use by another process", and the only way was to know that it must be detached first. The log's
/// disk needs no help: after a replay there is nothing that it could have missed.
#[test]
fn a_disk_that_missed_changes_replaces_itself() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let say = |words: &[&str]| {
        let (well, text) = tally(data_dir, words);
        assert!(well, "{words:?}: {text}");
        text
    };
    let [a, b, l, m] = ["a", "b", "l", "m"].map(|name| data_dir.join(name));
    for disk in [&a, &b, &l, &m] {
        opener.create(disk, 32 << 20, false, &mut |_| true).unwrap();
    }
    let here = data_dir.display().to_string();
    say(&["pool", "create", "dozer", "mirror", "a", "b", "log", "mirror", "l", "m"]);
    say(&["pool", "export", "dozer"]);
    let away = [&b, &m].map(|disk| (disk, opener.remove(disk).unwrap()));
    say(&["pool", "import", "-d", &here, "dozer"]);
    say(&["dataset", "create", "dozer/made-meanwhile"]);
    say(&["pool", "export", "dozer"]);
    for (disk, bytes) in away {
        opener.put(disk, bytes);
    }
    say(&["pool", "import", "-d", &here, "dozer"]);
    let status = say(&["pool", "status", "dozer"]);
    assert!(status.matches("has missed changes").count() == 1 && status.contains("/b has missed"), "{status}");

    let replace = |disk: &Path| tally(data_dir, &["pool", "replace", "dozer", &disk.display().to_string()]);
    let (well, text) = replace(&b);
    assert!(well && text.contains("was replaced"), "{text}");
    let status = say(&["pool", "status", "dozer"]);
    assert!(status.contains("state: ONLINE") && !status.contains("missed"), "{status}");
    let (well, text) = replace(&a);
    assert!(!well && text.contains("in use"), "a disk that serves does not replace itself: {text}");

    // The copies have everything: the others go, and the pool still has its dataset.
    say(&["pool", "export", "dozer"]);
    opener.remove(&a);
    opener.remove(&l);
    say(&["pool", "import", "-d", &here, "dozer"]);
    assert!(say(&["dataset", "list"]).contains("dozer/made-meanwhile"));
    daemon.stop();
}

#[test]
fn a_pool_whose_log_device_is_gone_is_taken_up_step_by_step() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    let put = |name: &str, disk: &Arc<MemDisk>| opener.put(data_dir.join(name), Arc::clone(disk) as Arc<dyn Disk>);
    let disks = ["a", "l", "m"].map(|name| (name, Arc::new(MemDisk::new(32 << 20))));
    disks.iter().for_each(|(name, disk)| put(name, disk));

    let first = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "a", "log", "l"], true, &[])]);
    story(data_dir, &[(&["dataset", "create", "dozer/x"], true, &[])]);
    // The power goes, and the log device with it.
    let [a, l] = [0, 1].map(|index| Arc::new(MemDisk::from_bytes(&disks[index].1.content())));
    first.stop();
    put("a", &a);
    opener.remove(&data_dir.join("l"));

    let second = Running::start(data_dir, &opener);
    let import = ["pool", "import", "-d", &here, "dozer"];
    let with = |option: &'static str| [&import[..], &[option]].concat();
    let log = data_dir.join("l").display().to_string();
    story(
        data_dir,
        &[
            (&["pool", "status", "dozer"], true, &["UNAVAIL", &log, "--accept-loss"]),
            (
                &import,
                false,
                &[&log, "dozer, dozer/$v4, dozer/x", "bring the missing log device back", "--accept-loss"],
            ),
            (&with("--readonly"), true, &["missing: the log device", &log]),
            (&["dataset", "create", "dozer/y"], false, &["read-only"]),
            (&["pool", "export", "dozer"], true, &[]),
            (&with("--accept-loss"), true, &["given up: the log device", &log, "dozer/x"]),
            (
                &["pool", "status", "dozer"],
                true,
                &["state: DEGRADED", "MISSING", "changes wait for transaction groups", "given up at the import"],
            ),
            (&["dataset", "create", "dozer/y"], true, &[]),
            (&["pool", "replace", "dozer", "l", "m"], true, &["was replaced"]),
            (&["pool", "status", "-v", "dozer"], true, &["state: ONLINE", "losses that were accepted", "dozer/x"]),
            (&["pool", "export", "dozer"], true, &[]),
        ],
    );
    // The old device is back, and nobody's any more.
    put("l", &l);
    story(
        data_dir,
        &[
            (&import, true, &["nothing to replay"]),
            (&["dataset", "list"], true, &["dozer/x", "dozer/y"]),
            (&["pool", "status", "-v", "dozer"], true, &["state: ONLINE", "losses that were accepted"]),
        ],
    );
    second.stop();
}

#[test]
fn a_pool_that_another_daemon_has_is_refused() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let opener = Arc::new(MemOpener::default());
    opener.put("/disks/a", Arc::new(MemDisk::new(32 << 20)) as Arc<dyn Disk>);
    let daemons = dirs.each_ref().map(|dir| Running::start(dir.path(), &opener));
    story(dirs[0].path(), &[(&["pool", "create", "dozer", "/disks/a"], true, &[])]);
    let import = ["pool", "import", "-d", "/disks", "dozer"];
    let other = dirs[1].path();
    story(other, &[(&import, false, &["/disks/a", "in use by another process"])]);
    story(other, &[(&[&import[..], &["-f"]].concat(), false, &["in use by another process"])]);
    story(dirs[0].path(), &[(&["pool", "export", "dozer"], true, &[])]);
    story(other, &[(&import, true, &["imported pool 'dozer'"])]);
    daemons.into_iter().for_each(Running::stop);
}

#[test]
fn a_browser_sees_the_pool_while_the_daemon_runs() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Running::start(dir.path(), &Arc::new(MemOpener::default()));
    assert!(tally(dir.path(), &["dataset", "create", "-o", "sync=disabled", "tank/home"]).0);
    let cases = [
        ("/", "<title>Tallystick</title>"),
        ("/metrics", "\",state=\"ONLINE\"} 1\n"),
        ("/metrics", "tally_log_size_bytes{pool=\"tank\",lane=\"0\"} "),
        ("/metrics", "tally_dataset_sync{dataset=\"tank/home\",sync=\"disabled\"} 1\n"),
        ("/api/history", "\"interval_seconds\":2.0"),
    ];
    for (path, expected) in cases {
        // An observation is given to others for half a second: the first ones may be from before there was a pool.
        let mut answer = String::new();
        let started = Instant::now();
        while !answer.contains(expected) && started.elapsed() < Duration::from_secs(20) {
            answer = browse(&daemon.announcement, path);
        }
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(expected), "{path}: {answer}");
    }
    let announcement = daemon.announcement.clone();
    daemon.stop();
    assert_eq!(browse(&announcement, "/"), "");
}

/// The second leg of a mirrored log hung: a request waited for minutes, and `status` said ONLINE, without an error. It
/// has to say which disk owes an answer while it does, also when what hangs is a label, with the roster locked behind
/// it.
#[test]
fn a_disk_that_hangs_is_named_while_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let m = Arc::new(Hanging { disk: MemDisk::new(32 << 20), hangs: Mutex::new(false), goes_on: Condvar::new() });
    for name in ["a", "l"] {
        opener.put(data_dir.join(name), Arc::new(MemDisk::new(32 << 20)));
    }
    opener.put(data_dir.join("m"), Arc::clone(&m) as Arc<dyn Disk>);
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "a", "log", "mirror", "l", "m"], true, &[])]);
    for command in [&["pool", "set", "failmode=continue", "dozer"][..], &["dataset", "create", "dozer/x"]] {
        m.set(true);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| tally(data_dir, command));
            let given_up = Instant::now() + PATIENCE;
            let status = loop {
                let (_, status) = tally(data_dir, &["pool", "status", "dozer"]);
                if status.contains("has owed an answer") || Instant::now() > given_up {
                    break status;
                }
                thread::sleep(Duration::from_millis(100));
            };
            let (_, json) = tally(data_dir, &["--json", "pool", "status", "dozer"]);
            m.set(false);
            assert!(status.contains("/m has owed an answer for "), "{command:?}: {status}");
            assert!(json.contains("\"silent_seconds\":"), "{json}");
            assert!(waiting.join().unwrap().0);
        });
    }
    let (_, status) = tally(data_dir, &["pool", "status", "dozer"]);
    assert!(!status.contains("owed"), "{status}");
    daemon.stop();
}

/// A daemon at a port that is known, with a pool of one disk that can fail, and where its clients find it.
fn serving(data_dir: &Path, opener: &Arc<MemOpener>, options: &[&str]) -> (Running, Arc<Failing>, Target) {
    let disk = Failing::new(32 << 20);
    opener.put(data_dir.join("a"), Arc::clone(&disk) as Arc<dyn Disk>);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let args = tally_server::config::ServeArgs { port: Some(port), ..Running::args(data_dir) };
    let daemon = Running::start_with(args, Arc::clone(opener) as Arc<dyn Opener>).unwrap();
    let sharenfs = "sharenfs=127.0.0.0/8(rw,no_root_squash,insecure)";
    let create = [&["pool", "create", "-O", sharenfs], options, &["dozer", "a"]].concat();
    story(data_dir, &[(&create, true, &[])]);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    (daemon, disk, Target { nfs: address, mount: address, export: "/dozer".into() })
}

/// Gives the pool a file of so many MiB of noise, and tells what it begins with.
fn fill(target: &Target, mebibytes: u64) -> Vec<u8> {
    let root = Connection::mount(target).unwrap();
    let mut client = Connection::open(target.nfs).unwrap();
    let file = client.create(&root, "noise").unwrap();
    let next = |last: &u64| Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    let noise: Vec<u8> =
        std::iter::successors(Some(7), next).take(1 << 20).map(|number: u64| (number >> 56) as u8).collect();
    for at in 0..mebibytes {
        let part: Vec<u8> = noise.iter().map(|byte| byte ^ at as u8).collect();
        client.write(&file, at << 20, &part, Stable::FileSync).unwrap();
    }
    noise
}
