//! `tally init` and `tally doctor`: from nothing to a served dataset in one command, and what is never overwritten.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::*;
use tally_disk::SystemOpener;

/// A daemon over real files, and a folder for them.
struct Bare {
    dir: tempfile::TempDir,
    daemon: Option<Running>,
}

impl Bare {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tally.toml"), "first_pool = false\n").unwrap();
        let daemon = Running::start_with(Running::args(dir.path()), Arc::new(SystemOpener)).unwrap();
        Self { dir, daemon: Some(daemon) }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Runs the program: how it ends, and all that it says. What is typed comes from stdin.
    fn init(&self, words: &[&str], typed: &str) -> (Option<i32>, String) {
        self.init_with(&std::env::var("PATH").unwrap(), words, typed)
    }

    /// The same where programs are looked for here.
    fn init_with(&self, programs: &str, words: &[&str], typed: &str) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command
            .env("PATH", programs)
            .arg("init")
            .args(words)
            .arg("--socket")
            .arg(self.path("tally.sock"))
            .current_dir(self.dir.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    fn tally(&self, words: &[&str]) -> (bool, String) {
        tally(self.dir.path(), words)
    }

    /// A file that says that it is a swap, which every wipefs knows.
    fn swap(&self, name: &str) -> Vec<u8> {
        let pages = (96_u32 << 20) / 4096;
        let mut bytes = vec![0; 96 << 20];
        bytes[4086..4096].copy_from_slice(b"SWAPSPACE2");
        bytes[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
        bytes[1028..1032].copy_from_slice(&(pages - 1).to_le_bytes());
        std::fs::write(self.dir.path().join(name), &bytes).unwrap();
        bytes
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }
}

#[test]
fn one_command_makes_a_served_dataset_of_files_that_are_not_there() {
    let bare = Bare::start();
    let (code, doctor) = doctor(&bare);
    assert!(code == Some(1) && doctor.contains("WARN  pool       no pool is imported"), "{code:?} {doctor}");

    let words = ["--on", "a.img", "--on", "b.img", "--size", "64M"];
    let (code, plan) = bare.init(&[&words[..], &["--plan"]].concat(), "");
    let create =
        format!("tally pool create --file-size 64M tank mirror {} {}\n", bare.path("a.img"), bare.path("b.img"));
    assert!(
        code == Some(0) && plan.starts_with(&create) && plan.contains("\ntally dataset create -o 'sharenfs="),
        "{plan}"
    );
    assert!(!Path::new(&bare.path("a.img")).exists(), "a plan makes nothing");
    // Nobody agrees.
    let (code, said) = bare.init(&words, "n\n");
    assert!(code == Some(1) && said.contains("nothing was done") && !Path::new(&bare.path("a.img")).exists(), "{said}");

    let (code, said) = bare.init(&[&words[..], &["--yes"]].concat(), "");
    assert!(code == Some(0) && said.starts_with(&create), "{code:?} {said}");
    assert!(said.contains("mount -t nfs -o vers=4.2,port=") && said.contains("127.0.0.1:/tank/share /mnt"), "{said}");
    let (_, list) = bare.tally(&["dataset", "list", "-H", "-o", "name"]);
    assert_eq!(list, "tank\ntank/share\n");
    let (_, doctor) = super::init::doctor(&bare);
    assert!(doctor.contains("OK    exports    datasets that are exported: 1, to this machine alone"), "{doctor}");
    assert!(doctor.contains("OK    scrub      tank: it was not scrubbed yet; the next one is due on"), "{doctor}");

    // Once more: the files are a pool's, and the name is taken.
    let (code, said) = bare.init(&["--on", "a.img", "--pool", "other", "--yes"], "");
    assert!(code == Some(1) && said.contains("in use"), "{said}");
    assert!(bare.tally(&["pool", "export", "tank"]).0);
    let (code, said) = bare.init(&["--on", "a.img", "--pool", "other", "--yes"], "");
    assert!(code == Some(1) && said.contains("belongs to pool tank"), "{said}");
    assert!(bare.tally(&["pool", "import", "-d", &bare.path(""), "tank"]).0, "nothing of it was touched");
}

/// How `tally doctor` ends, and what it says.
fn doctor(bare: &Bare) -> (Option<i32>, String) {
    doctor_with(&std::env::var("PATH").unwrap(), bare)
}

fn doctor_with(programs: &str, bare: &Bare) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    let output =
        command.env("PATH", programs).arg("doctor").arg("--socket").arg(bare.path("tally.sock")).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// On a file where the unit only lets it read the daemon of the next start finds no pool. One that is started by hand makes it.
#[test]
fn a_file_that_the_unit_keeps_from_the_daemon_is_named() {
    use std::os::unix::fs::PermissionsExt;

    let bare = Bare::start();
    let folder = std::fs::canonicalize(bare.dir.path()).unwrap();
    let programs = folder.join("programs");
    std::fs::create_dir(&programs).unwrap();
    // What this machine's systemd says is nothing to go by.
    let systemctl = |settings: &str| {
        let path = programs.join("systemctl");
        std::fs::write(&path, format!("#!/bin/sh\nprintf '%s\\n' {settings}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let words = ["--on", "a.img", "--size", "64M", "--yes"];
    let ours = format!("LoadState=loaded MainPID={}", std::process::id());
    // Another daemon's is nothing to go by either.
    systemctl(&format!("LoadState=loaded MainPID=1 ReadOnlyPaths={}", folder.display()));
    assert!(!doctor_with(&path, &bare).1.contains("sandbox"));
    systemctl(&format!("{ours} ReadOnlyPaths={}", folder.display()));
    let (code, said) = bare.init_with(&path, &words, "");
    let named = format!("tally.service cannot write to {}: it has ReadOnlyPaths=", bare.path("a.img"));
    assert!(code == Some(0) && said.contains(&format!("warning: {named}")), "{code:?} {said}");
    let (code, said) = doctor_with(&path, &bare);
    assert!(code == Some(1) && said.contains(&format!("WARN  sandbox    {named}")), "{code:?} {said}");
    assert!(said.contains(&format!("ReadWritePaths={}", folder.display())), "{said}");
    systemctl(&format!("{ours} ProtectHome=read-only"));
    let (_, said) = doctor_with(&path, &bare);
    assert!(said.contains("OK    sandbox    tally.service gets at"), "{said}");
    systemctl("LoadState=not-found");
    assert!(!doctor_with(&path, &bare).1.contains("sandbox"));
}

#[test]
fn what_holds_something_is_lost_only_by_its_name() {
    let bare = Bare::start();
    let before = bare.swap("disk");
    let holds = |said: &str| said.contains("has swap on it");
    for (words, typed) in [(&["--on", "disk"][..], "yes\n"), (&["--on", "disk"], ""), (&["--on", "disk", "--yes"], "")]
    {
        let (code, said) = bare.init(words, typed);
        assert!(code == Some(1) && holds(&said) && said.contains("--erase disk"), "{words:?}: {code:?} {said}");
    }
    let (code, said) = bare.init(&["--on", "disk", "--yes", "--erase", "dusk"], "");
    assert!(code == Some(1) && holds(&said), "another name: {said}");
    assert!(std::fs::read(bare.path("disk")).unwrap() == before, "nothing of it was touched");

    // Its name, and then that the commands are to be run.
    let (code, said) = bare.init(&["--on", "disk"], "disk\ny\n");
    assert!(
        code == Some(0) && said.contains(&format!("wipefs --all {}\ntally pool create", bare.path("disk"))),
        "{said}"
    );
    assert!(bare.tally(&["pool", "list", "-H"]).1.contains("tank"));
    assert!(bare.tally(&["pool", "destroy", "tank"]).0);
    // What the daemon refuses is found out before anything is wiped.
    let before = bare.swap("second");
    let (code, said) = bare.init(&["--on", "second", "--erase", "second", "--yes", "--pool", "no/name"], "");
    assert_eq!(code, Some(1), "{said}");
    assert!(std::fs::read(bare.path("second")).unwrap() == before, "nothing of it was touched: {said}");
}

#[test]
fn without_a_daemon_or_a_disk_there_is_a_sentence() {
    let bare = Bare::start();
    let (code, said) = bare.init(&["--yes"], "");
    assert!(code == Some(2) && said.contains("--on DISK"), "{said}");
    let (code, said) = bare.init(&["--on", "/dev/null"], "");
    assert!(code == Some(1) && said.contains("neither a disk nor a file"), "{said}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.args(["init", "--on", "x.img", "--yes", "--socket", "/nowhere/tally.sock"]).current_dir(bare.dir.path());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("no daemon answers"), "{said}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    let output = command.args(["doctor", "--socket", "/nowhere/tally.sock"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(2) && said.starts_with("FAIL  daemon") && said.lines().count() == 1, "{said}");
}

/// A loop device, given back when it is dropped.
struct Loop(PathBuf);

impl Loop {
    fn of(file: &str) -> Self {
        let made = Command::new("losetup").args(["--find", "--show", file]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self(String::from_utf8(made.stdout).unwrap().trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// Block devices: by their number in the list nobody can choose them here, as loop devices are not in it. One that is a swap, and one that
/// is mounted.
#[test]
#[ignore = "needs loop devices; `cargo xtask test` runs it"]
fn block_devices_are_made_a_pool_and_what_is_mounted_is_not() {
    let bare = Bare::start();
    bare.swap("disk");
    std::fs::write(bare.path("other"), vec![0; 96 << 20]).unwrap();
    let (disk, other) = (Loop::of(&bare.path("disk")), Loop::of(&bare.path("other")));
    let (path, name) = (disk.0.display().to_string(), disk.0.file_name().unwrap().to_string_lossy().into_owned());
    let (code, said) = bare.init(&["--on", &path, "--yes"], "");
    assert!(code == Some(1) && said.contains("has swap on it") && said.contains(&format!("--erase {name}")), "{said}");

    assert!(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&other.0).status().unwrap().success());
    let at = bare.path("mounted");
    std::fs::create_dir(&at).unwrap();
    assert!(Command::new("mount").arg(&other.0).arg(&at).status().unwrap().success());
    let other = other.0.display().to_string();
    let (code, said) = bare.init(&["--on", &other, "--erase", &other, "--yes"], "");
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    assert!(code == Some(1) && said.contains("is mounted at") && said.contains("Nothing was done"), "{said}");
    // As udev has it for a moment, behind whoever has closed it: a disk that nobody used was in use.
    let looked_at = std::fs::File::open(&disk.0).unwrap();
    looked_at.lock().unwrap();
    let ended = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1000));
        drop(looked_at);
    });
    let (code, said) = bare.init(&["--on", &path, "--erase", &name, "--yes"], "");
    ended.join().unwrap();
    assert!(code == Some(0), "{said}");
    assert!(bare.tally(&["pool", "destroy", "tank"]).0);
}
