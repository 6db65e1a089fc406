//! What shells offer at Tab: by the command that their scripts call, and by the shells themselves, at a terminal.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tally_fakes::MemOpener;

use super::PATIENCE;
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
        is.sort();
        wanted.sort();
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

/// A shell that shows [`PROMPT`] when it waits for a line, and a command that has it complete.
struct Shell {
    name: &'static str,
    command: &'static str,
    script: &'static str,
    first: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        command: "PS1='ready> ' bash --norc --noprofile -i",
        script: "tally.bash",
        first: "source ./tally.bash",
    },
    // As a package brings it: a file of functions, found by its first line.
    Shell {
        name: "zsh",
        command: "PS1='ready> ' zsh -f -i",
        script: "_tally",
        first: "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d $PWD/dump",
    },
    // What it suggests by itself stands behind the cursor as if it was typed.
    Shell {
        name: "fish",
        command: "fish --no-config -i -C 'set -g fish_autosuggestion_enabled 0; function fish_prompt; echo -n \"ready> \"; end'",
        script: "tally.fish",
        first: "source ./tally.fish",
    },
];

const PROMPT: &str = "ready>";

/// What is typed, in pieces, and how the line ends behind the Tab of each.
const LINES: [[(&str, &str); 3]; 3] = [
    [("tally dataset se\t", "tally dataset set"), ("sync=alw\t", " sync=always"), ("tank/ho\t", " tank/home")],
    [
        ("tally zfs se\t", "tally zfs set"),
        ("compression=z\t", " compression=zstd"),
        ("atime=on tank/ho\t", " tank/home"),
    ],
    [("tally pool set failm\t", " failmode="), ("c\t", " failmode=continue"), ("ta\t", " tank")],
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
    let mut terminal = Terminal::with(shell.command, dir.path());
    terminal.carry_out(&[(shell.first, "")]);
    LINES.iter().for_each(|line| terminal.carry_out(line));
    let get = |words: &[&str]| tally(dir.path(), words).1;
    let of_dataset = get(&["dataset", "get", "-H", "-o", "value", "sync,atime,compression", "tank/home"]);
    assert_eq!(of_dataset, "always\non\nzstd\n", "{}: {}", shell.name, terminal.text());
    let of_pool = get(&["pool", "get", "-H", "-o", "value", "failmode", "tank"]);
    assert_eq!(of_pool, "continue\n", "{}: {}", shell.name, terminal.text());
    drop(terminal);
    daemon.stop();
}

/// A terminal with a shell. Nothing is typed before what came before has had its effect: a shell that is busy drops keys, and one is slower
/// than another.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Terminal {
    fn with(command: &str, dir: &Path) -> Self {
        let folder = Path::new(PROGRAM).parent().expect("a folder");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", command, "/dev/null"]).stdin(Stdio::piped());
        script.current_dir(dir).env("PATH", path).env("HOME", dir).env("TERM", "dumb").env("SHELL", "/bin/sh");
        script.env("TALLY_SOCKET", dir.join("tally.sock")).stdout(Stdio::piped());
        let mut script = script.spawn().expect("script, of bsdutils");
        let keys = script.stdin.take().expect("a pipe");
        let mut shows = script.stdout.take().expect("a pipe");
        let (to_us, output) = channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = shows.read(&mut piece) {
                let _ = to_us.send(piece[..count].to_vec());
            }
        });
        let mut terminal = Self { script, keys, output, seen: Vec::new() };
        terminal.wait_for(|seen| last_line(seen) == PROMPT);
        terminal
    }

    /// Types a line, waits for how it ends behind each piece, and then until it is carried out.
    fn carry_out(&mut self, pieces: &[(&str, &str)]) {
        for (piece, end) in pieces {
            self.keys.write_all(piece.as_bytes()).expect("a terminal");
            self.wait_for(|seen| last_line(seen).ends_with(end));
        }
        // A word that is said behind it, and is not there as it is typed.
        self.seen.clear();
        self.keys.write_all(b"; echo do\"\"ne\n").expect("a terminal");
        self.wait_for(|seen| seen.contains("\ndone") && last_line(seen) == PROMPT);
    }

    fn wait_for(&mut self, is_there: impl Fn(&str) -> bool) {
        let given_up = Instant::now() + PATIENCE;
        while !is_there(&self.text()) {
            let left = given_up.saturating_duration_since(Instant::now());
            let piece = self.output.recv_timeout(left).unwrap_or_else(|why| panic!("{why}: {}", self.text()));
            self.seen.extend(piece);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell's terminal goes with it.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The line in which the cursor is, as a dumb terminal has it, without what is blank at its end.
fn last_line(seen: &str) -> String {
    let (mut line, mut at) = (Vec::new(), 0_usize);
    let mut chars = seen.chars();
    while let Some(char) = chars.next() {
        match char {
            '\n' => (line, at) = (Vec::new(), 0),
            '\r' => at = 0,
            '\u{8}' => at = at.saturating_sub(1),
            '\u{7}' => {}
            // What it would do to a terminal that is not dumb: up to a letter.
            '\u{1b}' => drop(chars.find(char::is_ascii_alphabetic)),
            char => {
                line.resize(line.len().max(at + 1), ' ');
                line[at] = char;
                at += 1;
            }
        }
    }
    line.iter().collect::<String>().trim_end().to_owned()
}

#[test]
fn a_line_is_what_stands_there_in_the_end() {
    let cases = [
        ("ready> ", "ready>"),
        ("#      \r \r\rready> \u{1b}[?2004h", "ready>"),
        ("done\r\nready> tally po\u{7}\u{8}\u{8}pool ", "ready> tally pool"),
        ("\rready> tally \rready> tally pool", "ready> tally pool"),
    ];
    for (seen, line) in cases {
        assert_eq!(last_line(seen), line, "{seen:?}");
    }
}
