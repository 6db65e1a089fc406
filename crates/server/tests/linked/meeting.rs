//! Commands where they meet something else: a disk that holds something, a daemon that says nothing, a table that is half understood, a shell.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::*;
use tally_disk::SystemOpener;

/// A daemon over real files, without a pool.
fn bare() -> (tempfile::TempDir, Running) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tally.toml"), "first_pool = false\n").unwrap();
    let daemon = Running::start_with(Running::args(dir.path()), Arc::new(SystemOpener)).unwrap();
    (dir, daemon)
}

/// The program, with this daemon. It ends within the time that is given, or counts as hanging.
fn program(data_dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.args(words).arg("--socket").arg(data_dir.join("tally.sock")).current_dir(data_dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ended(mut child: Child, within: Duration) -> Option<Output> {
    let given_up = Instant::now() + within;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > given_up {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
    Some(child.wait_with_output().unwrap())
}

fn swap(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 96 << 20];
    bytes[4086..4096].copy_from_slice(b"SWAPSPACE2");
    bytes[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
    bytes[1028..1032].copy_from_slice(&((96_u32 << 20) / 4096 - 1).to_le_bytes());
    fs::write(path, &bytes).unwrap();
    bytes
}

/// The name of the dataset is looked at by nobody until the disk is wiped and the pool is made.
#[test]
fn init_loses_nothing_for_a_dataset_that_cannot_be() {
    let (dir, daemon) = bare();
    let disk = dir.path().join("disk");
    for dataset in ["my files", "a/b", ""] {
        let before = swap(&disk);
        let words = ["init", "--yes", "--on", "disk", "--erase", "disk", "--dataset", dataset];
        let output = program(dir.path(), &words).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let (_, pools) = tally(dir.path(), &["pool", "list", "-H", "-o", "name"]);
        if !output.status.success() {
            assert!(!pools.contains("tank"), "'{dataset}': it failed, and made a pool:\n{said}");
            assert!(fs::read(&disk).unwrap() == before, "'{dataset}': it failed, and what was there is lost:\n{said}");
        } else {
            assert!(tally(dir.path(), &["pool", "destroy", "tank"]).0);
        }
    }
    daemon.stop();
}

/// Files of one name in two folders: who types it means one.
#[test]
fn one_name_erases_one_disk() {
    let (dir, daemon) = bare();
    for folder in ["a", "b"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        swap(&dir.path().join(folder).join("disk"));
    }
    let words = ["init", "--plan", "--on", "a/disk", "--on", "b/disk", "--erase", "disk"];
    let output = program(dir.path(), &words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.matches("wipefs").count() < 2, "both would be erased:\n{said}");
    daemon.stop();
}

/// wipefs finds in a pool what a client has written there, and knows nothing of pools: what it is told to wipe is a pool's.
#[test]
fn init_wipes_no_disk_of_a_pool() {
    let (dir, daemon) = bare();
    assert!(tally(dir.path(), &["pool", "create", "--file-size", "96M", "mine", "disk"]).0);
    assert!(tally(dir.path(), &["pool", "export", "mine"]).0);
    let disk = dir.path().join("disk");
    // The second header of LUKS2, where nothing of the pool's is.
    let mut header = [0; 512];
    header[..8].copy_from_slice(b"SKUL\xba\xbe\0\x02");
    header[256..264].copy_from_slice(&0x40_0000_u64.to_be_bytes());
    let file = fs::OpenOptions::new().write(true).open(&disk).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &header, 0x40_0000).unwrap();
    let found = Command::new("wipefs").args(["--no-act", "--json"]).arg(&disk).output().unwrap();
    assert!(String::from_utf8_lossy(&found.stdout).contains("crypto_LUKS"), "{found:?}");
    let before = fs::read(&disk).unwrap();
    for how in ["--yes", "--plan"] {
        let output = program(dir.path(), &["init", how, "--on", "disk", "--erase", "disk"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("belongs to pool mine (exported)"), "{output:?}");
        assert!(fs::read(&disk).unwrap() == before, "a pool has lost something");
    }
    // Nor is there a plan for what the daemon refuses.
    assert!(tally(dir.path(), &["pool", "create", "--file-size", "64M", "tank", "other"]).0);
    let output = program(dir.path(), &["init", "--plan", "--on", "third"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("a pool 'tank' is imported already"), "{output:?}");
    daemon.stop();
}

/// It is not the daemon that hangs.
#[test]
fn doctor_tells_a_systemd_that_hangs_from_a_daemon_that_does() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    let systemctl = dir.path().join("systemctl");
    fs::write(&systemctl, "#!/bin/sh\nexec sleep 60\n").unwrap();
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let child = program(dir.path(), &["doctor"]).env("PATH", path).spawn().unwrap();
    let output = ended(child, Duration::from_secs(60)).expect("doctor waits for ever");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("OK    daemon") && said.contains("WARN  machine"), "{said}");
    daemon.stop();
}

/// By hand beside the service: each event would be told twice.
#[test]
fn events_are_run_by_one() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    let state = dir.path().join("done.json");
    let words = ["events", "run", ".", "--state", "done.json"];
    let mut first = program(dir.path(), &words).spawn().unwrap();
    let given_up = Instant::now() + PATIENCE;
    while !state.exists() {
        assert!(Instant::now() < given_up, "it does not begin");
        thread::sleep(Duration::from_millis(20));
    }
    let second = ended(program(dir.path(), &words).spawn().unwrap(), PATIENCE).expect("it runs beside the first one");
    assert!(String::from_utf8_lossy(&second.stderr).contains("another `tally events run` keeps it"), "{second:?}");
    first.kill().unwrap();
    first.wait().unwrap();
    daemon.stop();
}

/// The command for what is wrong ends also where what is wrong is the daemon: one that was stopped, or hangs, lets connect and says nothing.
#[test]
fn doctor_says_that_the_daemon_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let _mute = UnixListener::bind(dir.path().join("tally.sock")).unwrap();
    let output = ended(program(dir.path(), &["doctor"]).spawn().unwrap(), Duration::from_secs(60));
    let output = output.expect("doctor waits for ever");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("FAIL  daemon"), "{output:?}");
}

/// What `-n` says would go is what goes, or is refused.
#[test]
fn a_dry_run_of_destroy_is_refused_where_destroy_is() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    for words in [["dataset", "create", "tank/a"], ["dataset", "create", "tank/a/b"]] {
        assert!(tally(dir.path(), &words).0);
    }
    for words in [&["tank/a"][..], &["-r", "tank"]] {
        let (tried, said) = tally(dir.path(), &[&["dataset", "destroy", "-n"], words].concat());
        let (done, why) = tally(dir.path(), &[&["dataset", "destroy"], words].concat());
        assert_eq!(tried, done, "{words:?}: -n says {said}, and without it {why}");
    }
    daemon.stop();
}

/// Of `*(rw) host(ro)` the second is not understood. With what is left that host writes, which the table forbids.
#[test]
fn a_table_of_exports_gives_nobody_more_than_it_says() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    assert!(tally(dir.path(), &["dataset", "create", "-o", "sharenfs=off", "tank/a"]).0);
    let table = dir.path().join("exports");
    for line in ["*(rw) guests.example(ro)", "10.0.0.0/8(rw,no_root_squash) 10.1.0.0/16(ro,nosuch)", "*(rw) @lab(ro)"] {
        fs::write(&table, format!("/tank/a {line}\n")).unwrap();
        let (_, planned) = tally(dir.path(), &["exports", "import", "--plan", &table.display().to_string()]);
        tally(dir.path(), &["exports", "import", "-f", &table.display().to_string()]);
        let (_, rules) = tally(dir.path(), &["dataset", "get", "-H", "-o", "value", "sharenfs", "tank/a"]);
        assert_eq!(rules.trim(), "off", "{line}: {planned}");
    }
    daemon.stop();
}

/// A file's name is one word to the shell, whatever stands in it.
#[test]
fn a_name_that_bash_completes_is_one_word() {
    let dir = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/completion/tally.bash");
    for name in ["/tmp/a;touch ran", "/tmp/$(touch ran)", "/tmp/two words"] {
        let asked = format!(
            "source {script}; tally() {{ printf '%s\\n' '{name}'; }}; COMP_LINE='tally pool create t /tmp/'; \
             COMP_POINT=${{#COMP_LINE}}; _tally 2> /dev/null; eval \"set -- ${{COMPREPLY[0]}}\"; printf '%s' \"$#:$1\""
        );
        let output = Command::new("bash").args(["--norc", "-c", &asked]).current_dir(dir.path()).output().unwrap();
        assert!(!dir.path().join("ran").exists(), "{name} is run at Enter");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("1:{name}"));
    }
}

/// Rules that can be read, and are longer than a property: also that is found out before anything is wiped.
#[test]
fn init_loses_nothing_for_rules_that_are_too_long() {
    let (dir, daemon) = bare();
    let disk = dir.path().join("disk");
    let before = swap(&disk);
    let mut words: Vec<String> = ["init", "--yes", "--on", "disk", "--erase", "disk"].map(str::to_owned).into();
    words.extend((0..210).flat_map(|net| ["--network".to_owned(), format!("192.168.{net}.0/255.255.255.0")]));
    let output = program(dir.path(), &words.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    let (_, pools) = tally(dir.path(), &["pool", "list", "-H", "-o", "name"]);
    assert!(output.status.success() || !pools.contains("tank"), "it failed, and made a pool");
    assert!(output.status.success() || fs::read(&disk).unwrap() == before, "it failed, and what was there is lost");
    daemon.stop();
}

/// As many have connected as the kernel lets wait, as one script a minute does within hours: then connecting is what waits for ever.
#[test]
fn doctor_says_that_nobody_takes_its_connection() {
    let dir = tempfile::tempdir().unwrap();
    let mute = UnixListener::bind(dir.path().join("tally.sock")).unwrap();
    rustix::net::listen(&mute, 0).unwrap();
    let path = dir.path().join("tally.sock");
    for _ in 0..3 {
        let path = path.clone();
        thread::spawn(move || UnixStream::connect(path).map(std::mem::forget));
    }
    thread::sleep(Duration::from_secs(1));
    let output = ended(program(dir.path(), &["doctor"]).spawn().unwrap(), Duration::from_secs(60));
    let output = output.expect("doctor waits for ever");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("FAIL  daemon"), "{output:?}");
}

/// Of a path that stands on two lines the second is not understood, as what is wrong with it is wrong with the line.
#[test]
fn a_line_that_cannot_be_read_takes_its_path_from_the_others() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    assert!(tally(dir.path(), &["dataset", "create", "-o", "sharenfs=off", "tank/a"]).0);
    let table = dir.path().join("exports");
    for line in [&b"/tank/a \"10.0.0.0/8(ro)\n"[..], b"/tank/a h\xe4user(ro)\n"] {
        fs::write(&table, [b"/tank/a *(rw)\n", line].concat()).unwrap();
        tally(dir.path(), &["exports", "import", "-f", &table.display().to_string()]);
        let (_, rules) = tally(dir.path(), &["dataset", "get", "-H", "-o", "value", "sharenfs", "tank/a"]);
        assert_eq!(rules.trim(), "off", "{}", String::from_utf8_lossy(line));
    }
    daemon.stop();
}

/// `zpool` wants -f for a pool of which a part stands on one disk and another on two: whoever left out a word has a pool that one disk takes along.
#[test]
fn vdevs_of_different_redundancy_want_force() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    for disk in ["/dev/a", "/dev/b", "/dev/c", "/dev/d", "/dev/e"] {
        opener.put(disk, Arc::new(MemDisk::new(64 << 20)));
    }
    let daemon = Running::start(dir.path(), &opener);
    for vdevs in [
        &["/dev/a", "mirror", "/dev/b", "/dev/c"][..],
        &["mirror", "/dev/a", "/dev/b", "mirror", "/dev/c", "/dev/d", "/dev/e"],
    ] {
        let (well, said) = tally(dir.path(), &[&["pool", "create", "-n", "zz"], vdevs].concat());
        assert!(!well, "{vdevs:?} is taken without a word: {said}");
        let (well, said) = tally(dir.path(), &[&["pool", "create", "-n", "-f", "zz"], vdevs].concat());
        assert!(well, "{said}");
    }
    daemon.stop();
}

/// As from a container: the kernel has no number for a process of another namespace, and says 0.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn a_command_from_another_namespace_of_processes_is_answered() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", env!("CARGO_BIN_EXE_tally"), "pool", "list"]);
    let output = command.arg("--socket").arg(dir.path().join("tally.sock")).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && said.contains("tank"), "{said}");
    daemon.stop();
}

/// systemd ends the unit of a hook that took too much memory (OOMPolicy=stop), and starts it anew: hooks before that one are told of the same event again and
/// again. Here the hook does it itself.
#[test]
fn an_event_whose_hooks_end_the_service_is_given_up() {
    let (dir, opener) = (tempfile::tempdir().unwrap(), Arc::new(MemOpener::default()));
    let daemon = Running::start(dir.path(), &opener);
    let hooks = dir.path().join("events.d");
    fs::create_dir(&hooks).unwrap();
    let mails = dir.path().join("mails");
    let hook = |name: &str, text: &str| {
        let path: PathBuf = hooks.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    hook("10-mail", &format!("echo mail >> {}", mails.display()));
    hook("20-large", "kill -9 $PPID");
    let state = dir.path().join("done.json").display().to_string();
    let words = ["events", "run", &hooks.display().to_string(), "--state", &state].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let first = program(dir.path(), &words).spawn().unwrap();
    let given_up = Instant::now() + PATIENCE;
    while !fs::read_to_string(&state).unwrap_or_default().contains("\"is_new\":false") {
        assert!(Instant::now() < given_up, "it does not begin");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(tally(dir.path(), &["pool", "scrub", "-w", "tank"]).0);
    ended(first, PATIENCE);
    for _ in 0..8 {
        ended(program(dir.path(), &words).spawn().unwrap(), Duration::from_secs(10));
    }
    let count = fs::read_to_string(&mails).unwrap_or_default().lines().count();
    assert!((1..=5).contains(&count), "{count} mails of one event");
    daemon.stop();
}
