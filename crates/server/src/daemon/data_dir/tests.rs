use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

/// Beside a daemon whose socket is elsewhere, another one started on the same directory. Each wrote the list of pools
/// without the other's, and at the next start a pool was missing.
#[test]
fn one_daemon_at_a_time_wherever_its_socket_is() {
    let dir = tempfile::tempdir().unwrap();
    let open = || DataDir::open(dir.path()).unwrap();
    let lock = open().lock().unwrap();
    assert!(matches!(open().lock(), Err(DataDirError::Taken { .. })));
    drop(lock);
    open().lock().unwrap();
}

#[test]
fn where_others_may_write_nothing_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, is_refused) in [(0o700, false), (0o755, false), (0o775, true), (0o707, true), (0o1777, true)] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        let opened = DataDir::open(dir.path());
        assert_eq!(matches!(opened, Err(DataDirError::Open { .. })), is_refused, "{mode:o}: {opened:?}");
    }
}

/// The directory was `nobody`'s: he had made it before, with a list of pools of his own, and links for root to follow.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn a_directory_of_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(65_534), None).expect("this test needs root");
    let error = DataDir::open(dir.path()).unwrap_err();
    assert!(matches!(error, DataDirError::Foreign { owner: 65_534, .. }) && error.to_string().contains("--data-dir"));
}

#[test]
fn a_link_in_place_of_the_lock_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    symlink(&elsewhere, dir.path().join(LOCK_NAME)).unwrap();
    assert!(matches!(DataDir::open(dir.path()).unwrap().lock(), Err(DataDirError::Io { .. })));
    assert!(!elsewhere.exists());
}

/// Who may write to the directory above puts another one in its place, once it has been looked at, and what is written by
/// name goes there.
#[test]
fn where_others_may_write_above_it_nothing_is_believed() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("tally");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    for (mode, is_refused) in [(0o755, false), (0o1777, false), (0o777, true)] {
        fs::set_permissions(above.path(), fs::Permissions::from_mode(mode)).unwrap();
        let opened = DataDir::open(&dir);
        assert_eq!(opened.is_err(), is_refused, "{mode:o}: {opened:?}");
    }
}

/// Files of the first pool were durable, and their directory's own name was not: a power cut might have taken it along.
#[test]
fn each_new_directory_is_durable_in_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path();
    let synced = std::cell::RefCell::new(Vec::new());
    let sync = |parent: &Path| {
        let children: Vec<_> = fs::read_dir(parent)?.map(|child| child.unwrap().file_name()).collect();
        synced.borrow_mut().push((parent.to_owned(), children.len()));
        sync_dir(parent)
    };
    make_dirs(&top.join("a/b/c"), &sync).unwrap();
    assert_eq!(*synced.borrow(), [(top.to_owned(), 1), (top.join("a"), 1), (top.join("a/b"), 1)]);
    assert_eq!(fs::metadata(top.join("a")).unwrap().mode() & 0o777, 0o700);
    make_dirs(&top.join("a/b/c"), &sync).unwrap();
    make_dirs(&top.join("a/d"), &sync).unwrap();
    assert_eq!(synced.borrow()[3..], [(top.join("a"), 2)]);
    fs::write(top.join("file"), "").unwrap();
    assert!(make_dirs(&top.join("file/x"), &sync).is_err());
}
