//! What shells offer at Tab: by the command that their scripts call, and by the shells themselves, at a terminal.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use tally_fakes::MemOpener;

use crate::running::{Running, tally};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tally");

/// The candidates for the last of these words, without what they are.
fn offered(data_dir: &Path, words: &[&str]) -> Vec<String> {
    let asked = [&["complete", "--", "tally"], words].concat();
    let (well, text) = tally(data_dir, &asked);
    assert!(well, "{text}");
    text.lines().map(|line| line.split('\t').next().expect("a word").to_owned()).collect()
}

#[test]
fn names_of_this_server_are_offered() {
    let (dir, opener) = (tempfile::tempdir().expect("a directory"), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    for words in [
        &["dataset", "create", "tank/home"][..],
        &["dataset", "create", "tank/home/ann"],
        &["dataset", "set", "com.example:note=x", "tank"],
    ] {
        assert!(tally(dir.path(), words).0, "{words:?}");
    }
    let (_, status) = tally(dir.path(), &["pool", "status"]);
    let disks: Vec<&str> = status.split_whitespace().filter(|word| word.starts_with('/')).collect();
    assert_eq!(disks.len(), 2, "{status}");
    let cases: &[(&[&str], &[&str])] = &[
        (&["po"], &["pool"]),
        (&["pool", "expo"], &["export"]),
        (&["pool", "status", ""], &["tank"]),
        (&["zpool", "status", "ta"], &["tank"]),
        (&["pool", "status", "x"], &[]),
        (&["pool", "offline", "tank", "/"], &disks),
        (&["pool", "set", "failmode="], &["failmode=wait", "failmode=continue"]),
        (&["pool", "set", "failmode=wait", "ta"], &["tank"]),
        (&["pool", "get", "size,he"], &["size,health"]),
        (&["pool", "list", "-o", "name,hea"], &["name,health"]),
        (&["dataset", "list", "tank/"], &["tank/home", "tank/home/ann"]),
        (&["zfs", "destroy", "tank/home/"], &["tank/home/ann"]),
        (&["dataset", "set", "sync="], &["sync=standard", "sync=always", "sync=disabled"]),
        (&["dataset", "set", "sync=always", "quot"], &["quota=none", "quota="]),
        (&["dataset", "set", "sync=always", "tank/home/a"], &["tank/home/ann"]),
        (&["dataset", "create", "-o", "compression=z"], &["compression=zstd"]),
        (&["dataset", "get", "com."], &["com.example:note"]),
        (&["dataset", "get", "sync,sy"], &[]),
        (&["dataset", "list", "-o", "name,mountp"], &["name,mountpoint"]),
        (&["zfs", "list", "-o", "name,quo"], &["name,quota"]),
        (&["dataset", "list", "-t", "files"], &["filesystem"]),
        (&["pool", "status", "--j"], &["--json"]),
        (&["zilstat", "-p", ""], &["tank"]),
    ];
    for (words, expected) in cases {
        let found = offered(dir.path(), words);
        let (mut is, mut wanted) = (found.clone(), expected.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        (is.sort(), wanted.sort());
        assert_eq!(is, wanted, "{words:?}");
    }
    // What is not built is nothing to offer.
    let verbs = offered(dir.path(), &["dataset", ""]);
    assert!(verbs.contains(&"create".to_owned()) && !verbs.contains(&"snapshot".to_owned()), "{verbs:?}");
    daemon.stop();
}

#[test]
fn without_a_daemon_the_grammar_is_left_and_a_mute_one_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(offered(dir.path(), &["pool", "status", ""]), [""; 0]);
    assert_eq!(offered(dir.path(), &["dataset", "set", "atime="]), ["atime=on", "atime=off"]);
    let _mute = UnixListener::bind(dir.path().join("tally.sock")).expect("a socket");
    let began = Instant::now();
    assert_eq!(offered(dir.path(), &["pool", "expo"]), ["export"]);
    assert_eq!(offered(dir.path(), &["pool", "status", ""]), [""; 0]);
    assert!(began.elapsed() < Duration::from_secs(30), "it did not come back by itself");
}

/// What is typed there, and a command that it runs first.
struct Shell {
    name: &'static str,
    command: &'static str,
    script: &'static str,
    first: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell { name: "bash", command: "bash --norc --noprofile -i", script: "tally.bash", first: "source ./tally.bash" },
    // As a package brings it: a file of functions, found by its first line.
    Shell {
        name: "zsh",
        command: "zsh -f -i",
        script: "_tally",
        first: "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d $PWD/dump",
    },
    Shell { name: "fish", command: "fish --no-config -i", script: "tally.fish", first: "source ./tally.fish" },
];

/// Each line is typed with Tab in the place of what it leaves out, and carried out: so the daemon says what was meant.
#[test]
#[ignore = "needs zsh and fish; `cargo xtask test` runs it"]
fn each_shell_completes() {
    thread::scope(|scope| SHELLS.iter().for_each(|shell| drop(scope.spawn(|| completes(shell)))));
}

fn completes(shell: &Shell) {
    let (dir, opener) = (tempfile::tempdir().expect("a directory"), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    assert!(tally(dir.path(), &["dataset", "create", "tank/home"]).0);
    let (well, script) = tally(dir.path(), &["completions", shell.name]);
    assert!(well && !script.is_empty());
    fs::write(dir.path().join(shell.script), script).expect("a script");
    let typed = [
        shell.first,
        "tally dataset se\tsync=alw\ttank/ho\t",
        "tally zfs se\tcompression=z\tatime=on tank/ho\t",
        "tally pool set failm\tc\tta\t",
        "exit",
    ];
    let seen = at_a_terminal(dir.path(), shell.command, &typed);
    let get = |words: &[&str]| tally(dir.path(), words).1;
    let of_dataset = get(&["dataset", "get", "-H", "-o", "value", "sync,atime,compression", "tank/home"]);
    assert_eq!(of_dataset, "always\non\nzstd\n", "{}: {seen}", shell.name);
    let of_pool = get(&["pool", "get", "-H", "-o", "value", "failmode", "tank"]);
    assert_eq!(of_pool, "continue\n", "{}: {seen}", shell.name);
    daemon.stop();
}

/// Types these lines, a moment after one another, and gives what was to be seen.
fn at_a_terminal(dir: &Path, command: &str, lines: &[&str]) -> String {
    let folder = Path::new(PROGRAM).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut script = Command::new("timeout");
    script.args(["120", "script", "--quiet", "--return", "--command", command, "/dev/null"]);
    script.current_dir(dir).env("PATH", path).env("HOME", dir).env("TERM", "dumb");
    script.env("TALLY_SOCKET", dir.join("tally.sock")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("script, of bsdutils");
    let mut keys = script.stdin.take().expect("a pipe");
    for line in lines {
        // A shell that reads its own files looks at keys when it is done; some drop what came before.
        thread::sleep(Duration::from_secs(1));
        for key in line.split_inclusive('\t') {
            keys.write_all(key.as_bytes()).expect("a terminal");
            thread::sleep(Duration::from_millis(300));
        }
        keys.write_all(b"\n").expect("a terminal");
    }
    let output = script.wait_with_output().expect("an end");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
