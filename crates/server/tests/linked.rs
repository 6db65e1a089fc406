//! The whole daemon in this process, over disks in memory: what a command changes is there after a restart.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use clap::Parser;
use tally_disk::{MemOpener, Opener};
use tally_server::cli::{self, Cli, Console, ServeArgs};
use tally_server::daemon::{Daemon, Launch, Stopper};

/// A daemon on its own thread.
struct Running {
    stopper: Stopper,
    thread: JoinHandle<Vec<String>>,
    said: Vec<String>,
    announcement: String,
}

impl Running {
    fn start(data_dir: &Path, opener: &Arc<MemOpener>) -> Self {
        let args = ServeArgs {
            data_dir: Some(data_dir.into()),
            port: Some(0),
            listen: vec!["127.0.0.1".parse().unwrap()],
            size: Some("64M".parse().unwrap()),
            ..ServeArgs::default()
        };
        let mut said = Vec::new();
        let opener = Arc::clone(opener) as Arc<dyn Opener>;
        let daemon = Daemon::start(Launch { args, opener, signals: false }, &mut |line| said.push(line.into()));
        let daemon = daemon.unwrap_or_else(|error| panic!("the daemon does not start: {error}"));
        let (stopper, announcement) = (daemon.stopper(), daemon.announcement());
        Self { stopper, thread: thread::spawn(move || daemon.run()), said, announcement }
    }

    fn stop(self) {
        self.stopper.stop();
        assert_eq!(self.thread.join().unwrap(), Vec::<String>::new());
    }
}

/// Runs a command: whether it went well, and what it printed.
fn tally(data_dir: &Path, words: &[&str]) -> (bool, String) {
    let mut cli = Cli::try_parse_from(["tally"].iter().chain(words)).unwrap();
    cli.socket = Some(data_dir.join("tally.sock"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let result = cli::run(&cli, data_dir, &mut Console { out: &mut out, err: &mut err });
    let text = String::from_utf8(out).unwrap() + &String::from_utf8(err).unwrap();
    match result {
        Ok(()) => (true, text),
        Err(failure) => (false, text + &failure.to_string()),
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
        (&["dataset", "create", "-p", "-o", "quota=10M", "tank/home/ann"], true, ""),
        (&["dataset", "create", "tank/home/ann"], false, "exists already"),
        (&["dataset", "set", "sync=disabled", "tank/home"], true, ""),
        (&["dataset", "set", "sharenfs=10.0.0.0/8(rw)", "tank/home"], true, "--listen"),
        (&["dataset", "set", "sharenfs=10.0.0.0/8(rw,async)", "tank/home"], false, "sync=disabled"),
        (&["dataset", "set", "quota=1G", "recordsize=3K", "tank"], false, "power of two"),
        (&["dataset", "get", "-H", "quota", "tank"], true, "tank\tquota\tnone\tdefault\n"),
        (&["pool", "status"], true, "sync=disabled: clients are told"),
        (&["pool", "export", "tonk"], false, "no pool 'tonk'"),
        (&["pool", "set", "failmode=continue", "tank"], false, "failmode=wait"),
    ];
    for (words, well, expected) in steps {
        let (went_well, text) = tally(data_dir, words);
        assert!(went_well == *well && text.contains(expected), "{words:?}: {text}");
    }
    first.stop();

    let second = Running::start(data_dir, &opener);
    assert_eq!(second.said, ["imported pool 'tank'; there was nothing to replay"]);
    let get = ["dataset", "get", "-Hp", "sync,quota,sharenfs", "tank/home/ann"];
    let expected = "tank/home/ann\tsync\tdisabled\tinherited from tank/home\n\
                    tank/home/ann\tquota\t10485760\tlocal\n\
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
        opener.create(&data_dir.join(name), 32 << 20, false, &mut |_| {}).unwrap();
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
        opener.create(disk, 32 << 20, false, &mut |_| {}).unwrap();
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
