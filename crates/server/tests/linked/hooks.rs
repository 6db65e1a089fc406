//! `tally events run`: programs are run for events, each once, whoever is started anew meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

/// A folder with hooks and what they write down, beside a daemon's.
struct Hooks {
    dir: tempfile::TempDir,
}

/// The program that runs them. Dropped, it is killed.
struct Runner(Child);

impl Drop for Runner {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Hooks {
    fn with(hook: &str) -> Self {
        let hooks = Self { dir: tempfile::tempdir().unwrap() };
        hooks.add("hook", hook);
        hooks
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn add(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path("events.d")).unwrap();
        let path = self.path("events.d").join(name);
        fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", self.dir.path().display())).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, data_dir: &Path) -> Runner {
        let journal = fs::OpenOptions::new().create(true).append(true).open(self.path("journal")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.args(["events", "run"]).arg(self.path("events.d")).arg("--state").arg(self.path("done.json"));
        command.arg("--socket").arg(data_dir.join("tally.sock"));
        command.stdin(Stdio::null()).stdout(journal.try_clone().unwrap()).stderr(journal);
        Runner(command.spawn().unwrap())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until all that was told is written down as told: what is cut off before that is told again.
    fn settle(&self) {
        let given_up = Instant::now() + PATIENCE;
        let told = || serde_json::from_str::<serde_json::Value>(&self.read("done.json")).unwrap_or_default();
        while told()["told"].as_object().map_or(0, serde_json::Map::len) < self.read("told").lines().count() {
            assert!(Instant::now() < given_up, "{}\n{}", told(), self.read("journal"));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a file has these words so often.
    fn wait_for(&self, name: &str, words: &str, count: usize) {
        let given_up = Instant::now() + PATIENCE;
        while self.read(name).matches(words).count() < count {
            let journal = self.read("journal");
            assert!(Instant::now() < given_up, "{name} does not say {words:?}: {}\n{journal}", self.read(name));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A daemon in a process of its own: at its end its connections break.
struct Served(Child);

/// A test that fails leaves none behind.
impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    fn start(data_dir: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.args([
            "serve",
            "--size",
            "64M",
            "--listen",
            "127.0.0.1",
            "--port",
            "0",
            "--http",
            "off",
            "--rpcbind",
            "off",
        ]);
        command.arg("--data-dir").arg(data_dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let served = Self(command.spawn().unwrap());
        let given_up = Instant::now() + PATIENCE;
        while UnixStream::connect(data_dir.join("tally.sock")).is_err() {
            assert!(Instant::now() < given_up, "the daemon does not start");
            thread::sleep(Duration::from_millis(20));
        }
        served
    }

    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn each_event_is_told_once_over_restarts_of_both() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let hooks = Hooks::with(r#"echo "$TALLY_POOL $TALLY_CLASS $TALLY_TEXT" >> told"#);
    let daemon = Served::start(data_dir);
    wait_for(data_dir, &["events"], "pool_import");
    let runner = hooks.run(data_dir);
    hooks.wait_for("journal", "told to nobody", 1);

    let a = data_dir.join("a").display().to_string();
    let create = ["pool", "create", "--file-size", "64M", "dozer", &a];
    story(data_dir, &[(&create, true, &[]), (&["pool", "scrub", "-w", "dozer"], true, &[])]);
    hooks.wait_for("told", "dozer scrub_finish", 1);
    assert!(!hooks.read("told").contains("tank"), "what was before is no news: {}", hooks.read("told"));
    // The daemon is started anew: what pools remember of before is nothing new, that they were imported is.
    daemon.stop();
    hooks.wait_for("journal", "waits for the daemon", 1);
    let daemon = Served::start(data_dir);
    hooks.wait_for("told", "tank pool_import", 1);
    // Something happens while nobody listens.
    hooks.settle();
    drop(runner);
    assert!(tally(data_dir, &["pool", "export", "dozer"]).0);
    let runner = hooks.run(data_dir);
    hooks.wait_for("told", "dozer pool_export", 1);
    // What is behind that comes after all that was before.
    assert!(tally(data_dir, &["pool", "export", "tank"]).0);
    hooks.wait_for("told", "tank pool_export", 1);
    let told = hooks.read("told");
    let mut lines: Vec<_> = told.lines().collect();
    lines.sort_unstable();
    let count = lines.len();
    lines.dedup();
    assert_eq!(lines.len(), count, "nothing twice: {told}");
    drop(runner);
    daemon.stop();
}

/// One hook hangs, and the next one is told all the same. Beside them stands one that nobody may run.
#[test]
fn a_hook_that_hangs_keeps_no_other_from_being_told() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let data_dir = dir.path();
    let hooks = Hooks::with(r#"echo "$TALLY_CLASS" >> told"#);
    hooks.add("a-hangs", "sleep 1000");
    hooks.add("never", "echo never >> told");
    fs::set_permissions(hooks.path("events.d/never"), fs::Permissions::from_mode(0o644)).unwrap();
    let daemon = Running::start(data_dir, &opener);
    let runner = hooks.run(data_dir);
    hooks.wait_for("journal", "told to nobody", 1);
    assert!(tally(data_dir, &["pool", "export", "tank"]).0);
    hooks.wait_for("told", "pool_export", 1);
    let journal = hooks.read("journal");
    assert!(journal.contains("a-hangs was killed") && journal.contains("never is not run"), "{journal}");
    assert!(!hooks.read("told").contains("never"));
    drop(runner);
    daemon.stop();
}

/// A daemon of its own is in no group of the hook's and no child of it. Each event left one more in the service's cgroup, until no hook
/// could be run.
#[test]
fn what_a_hook_leaves_behind_is_ended_also_if_it_is_a_daemon() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let data_dir = dir.path();
    // A session of its own, whose leader ends; and one whose leader lives and has children.
    let hooks = Hooks::with(
        "setsid sh -c '(sleep 1001 & echo $! >> left)'
setsid sh -c 'sh -c \"echo \\$\\$ >> left; sleep 1002 & echo \\$! >> left; wait\" & echo $$ >> left; wait' &
while [ $(wc -l < left) -lt 4 ]; do sleep 0.05; done; echo told >> told",
    );
    let daemon = Running::start(data_dir, &opener);
    let runner = hooks.run(data_dir);
    hooks.wait_for("journal", "told to nobody", 1);
    assert!(tally(data_dir, &["pool", "export", "tank"]).0);
    hooks.wait_for("journal", "processes behind, which were ended", 1);
    let left = hooks.read("left");
    assert_eq!(left.lines().count(), 4, "{left}");
    for pid in left.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} lives: {left}{}", hooks.read("journal"));
    }
    assert!(!hooks.read("journal").contains("cannot"), "{}", hooks.read("journal"));
    drop(runner);
    daemon.stop();
}

/// A hook that somebody is writing could not be begun, and the event was lost to it.
#[test]
fn a_hook_that_cannot_be_begun_yet_is_told_later() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let data_dir = dir.path();
    let hooks = Hooks::with(r#"echo "$TALLY_CLASS" >> told"#);
    let writes = fs::OpenOptions::new().append(true).open(hooks.path("events.d/hook")).unwrap();
    let daemon = Running::start(data_dir, &opener);
    let runner = hooks.run(data_dir);
    hooks.wait_for("journal", "told to nobody", 1);
    assert!(tally(data_dir, &["pool", "export", "tank"]).0);
    hooks.wait_for("journal", "tried again", 1);
    drop(writes);
    hooks.wait_for("told", "pool_export", 1);
    drop(runner);
    daemon.stop();
}

/// It could not be understood, as by a program that was taken back, and the service ended with that, every five seconds.
#[test]
fn a_memory_that_cannot_be_understood_is_put_aside_once() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let data_dir = dir.path();
    let hooks = Hooks::with(r#"echo "$TALLY_CLASS" >> told"#);
    fs::write(hooks.path("done.json"), "{\"is_new\":7}").unwrap();
    let daemon = Running::start(data_dir, &opener);
    let runner = hooks.run(data_dir);
    hooks.wait_for("done.json", "\"is_new\":false", 1);
    assert_eq!(hooks.read("done.json.bad"), "{\"is_new\":7}");
    drop(runner);
    let runner = hooks.run(data_dir);
    assert!(tally(data_dir, &["pool", "export", "tank"]).0);
    hooks.wait_for("told", "pool_export", 1);
    assert_eq!(hooks.read("told"), "pool_export\n", "what was before is no news");
    let journal = hooks.read("journal");
    assert_eq!(journal.matches("done.json cannot be understood").count(), 1, "{journal}");
    drop(runner);
    daemon.stop();
}

/// Who hears of it is elsewhere, and has several servers.
#[test]
fn the_webhook_posts_the_event_with_the_machine_it_is_of() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let data_dir = dir.path();
    let webhook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/events.d/webhook");
    // In the place of curl stands what writes down what it is to post, in one piece.
    let hooks = Hooks::with(&format!(
        "PATH=$PWD/programs:$PATH TALLY_WEBHOOK_URL=https://example.org/x exec /bin/sh {}",
        webhook.display()
    ));
    fs::create_dir(hooks.path("programs")).unwrap();
    let curl = hooks.path("programs/curl");
    fs::write(&curl, "#!/bin/sh\ncat > posting && mv posting posted\n").unwrap();
    fs::set_permissions(curl, fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Running::start(data_dir, &opener);
    let runner = hooks.run(data_dir);
    hooks.wait_for("journal", "told to nobody", 1);
    assert!(tally(data_dir, &["pool", "export", "tank"]).0);
    hooks.wait_for("posted", "pool_export", 1);
    let posted: serde_json::Value = serde_json::from_str(&hooks.read("posted")).unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let fields = ["host", "pool", "class", "text"].map(|field| posted[field].as_str().unwrap());
    assert_eq!(fields, [host.trim(), "tank", "pool_export", "it was exported"], "{posted}");
    let events = tally(data_dir, &["events", "--json"]).1;
    let mut shown = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(shown.any(|event| event["time_ns"] == posted["time_ns"]), "{posted}: {events}");
    drop(runner);
    daemon.stop();
}

/// The hooks that are shipped: without a sendmail they say so, and with one the mail has a head that nothing of an event gets into.
#[test]
fn the_shipped_hooks_say_what_they_lack_and_send() {
    let dir = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/events.d");
    let run = |hook: &str, settings: &[(&str, &str)]| {
        let mut command = Command::new("/bin/sh");
        command.arg(shipped.join(hook)).env_clear().env("PATH", "/nowhere");
        command.envs([
            ("TALLY_CLASS", "statechange"),
            ("TALLY_POOL", "tank"),
            ("TALLY_HOST", "nas"),
            ("TALLY_JSON", "{\"n\":1}"),
        ]);
        command.envs([("TALLY_TEXT", "/dev/sda is FAILED"), ("TALLY_TIME", "2026-11-30.12:00:00")]);
        let output = command.envs(settings.iter().copied()).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (well, said) = run("mail", &[("TALLY_SENDMAIL", "/no/such/sendmail")]);
    assert!(!well && said.contains("/no/such/sendmail") && said.contains("install"), "{said}");
    let (well, said) = run("webhook", &[]);
    assert!(!well && said.contains("TALLY_WEBHOOK_URL"), "{said}");
    let (well, said) = run("webhook", &[("TALLY_WEBHOOK_URL", "http://127.0.0.1:1/")]);
    assert!(!well && said.contains("curl"), "{said}");

    // What they call writes down what it gets.
    for (name, text) in [("sendmail", "echo \"$@\"; /bin/cat"), ("curl", "echo \"$@\"; /bin/cat")] {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{{ {text}; }} > {}.sent\n", path.display())).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let sendmail = dir.path().join("sendmail").display().to_string();
    let (well, said) = run("mail", &[("TALLY_SENDMAIL", &sendmail), ("TALLY_MAIL_TO", "ops@example.org")]);
    assert!(well, "{said}");
    let mail = fs::read_to_string(dir.path().join("sendmail.sent")).unwrap();
    assert!(
        mail.contains("-- ops@example.org\n") && mail.contains("\nSubject: [tally] statechange: tank on nas\n"),
        "{mail}"
    );
    assert!(mail.ends_with("\n\n2026-11-30.12:00:00 tank on nas: statechange\n/dev/sda is FAILED\n"), "{mail}");
    let here = dir.path().display().to_string();
    let (well, said) = run("webhook", &[("TALLY_WEBHOOK_URL", "https://example.org/x"), ("PATH", &here)]);
    assert!(well, "{said}");
    let sent = fs::read_to_string(dir.path().join("curl.sent")).unwrap();
    assert!(sent.contains("https://example.org/x") && sent.ends_with("{\"n\":1}\n"), "{sent}");
}

/// A program that one might begin with, as tally-events(7) has it: of disks it tells, and of nothing else.
#[test]
fn the_example_in_the_manual_tells_of_disks_alone() {
    let page = include_str!("../../../../packaging/man/tally-events.7");
    let example = page.split_once(".Bd -literal -offset indent\n").and_then(|(_, rest)| rest.split_once(".Ed\n"));
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("example", example.unwrap().0), ("logger", "#!/bin/sh\necho \"$@\"\n")] {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = |class: &str| {
        let mut command = Command::new(dir.path().join("example"));
        command.env_clear().env("PATH", dir.path()).env("TALLY_CLASS", class);
        let output = command.env("TALLY_HOST", "nas").env("TALLY_TEXT", "/dev/sda is FAILED").output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(run("statechange"), (true, "-p daemon.crit nas: /dev/sda is FAILED\n".into()));
    assert_eq!(run("scrub_start"), (true, String::new()));
}
