//! Who may do what at the control socket: root and the daemon's user everything, its group looks, and others nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::*;

/// User and group that every machine has, and no member of which is anything else.
const DAEMON: u32 = 1;
const NOBODY: u32 = 65_534;

/// How a command of this user and group ends, and what it says.
fn as_another(folder: &Path, (uid, gid): (u32, u32), words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(folder.join("tally"));
    command.args(words).env("TALLY_SOCKET", folder.join("tally.sock")).current_dir("/").uid(uid).gid(gid);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
#[ignore = "needs root, who alone can be another user; `cargo xtask test` runs it"]
fn the_group_looks_and_others_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_tally"), folder.join("tally")).unwrap();
    fs::write(folder.join("tally.toml"), "socket_group = \"daemon\"\n").unwrap();
    let daemon = Running::start(folder, &Arc::new(MemOpener::default()));
    let socket = fs::metadata(folder.join("tally.sock")).unwrap();
    assert_eq!((socket.mode() & 0o777, socket.uid(), socket.gid()), (0o660, 0, DAEMON));

    let member = (DAEMON, DAEMON);
    let looks: [&[&str]; 9] = [
        &["pool", "status"],
        &["pool", "list"],
        &["pool", "get", "all", "tank"],
        &["pool", "history"],
        &["dataset", "list"],
        &["dataset", "get", "all", "tank"],
        &["stat", "ops"],
        &["events"],
        &["client", "list"],
    ];
    for words in looks {
        let (code, text) = as_another(folder, member, words);
        assert_eq!(code, Some(0), "{words:?}: {text}");
    }
    let changes: [&[&str]; 9] = [
        &["dataset", "create", "tank/x"],
        &["dataset", "set", "sync=disabled", "tank"],
        &["pool", "set", "failmode=continue", "tank"],
        &["pool", "export", "tank"],
        &["pool", "destroy", "tank"],
        &["pool", "scrub", "tank"],
        &["pool", "sync"],
        // It would have the daemon open what a user names.
        &["pool", "import", "-d", "/root"],
        &["pool", "attach", "-n", "tank", "x", "/etc/shadow"],
    ];
    for words in changes {
        let (code, text) = as_another(folder, member, words);
        assert!(
            code == Some(1) && text.contains("change nothing") && text.contains("sudo"),
            "{words:?}: {code:?} {text}"
        );
    }
    let (code, text) = as_another(folder, (NOBODY, NOBODY), &["pool", "status"]);
    assert!(code == Some(1) && text.contains("lets in") && text.contains("tally"), "{text}");
    // Nothing of that was done.
    let (_, text) = tally(folder, &["dataset", "get", "-H", "sync", "tank"]);
    assert_eq!(text, "tank\tsync\tstandard\tdefault\n");
    daemon.stop();
}
