use std::os::unix::fs::MetadataExt;

use super::*;

fn pool(name: &str, guid: u64) -> KnownPool {
    let paths = vec!["/disks/a".into(), "/disks/b".into()];
    KnownPool { name: name.into(), guid: PoolGuid(guid), paths, read_only: false, handle_key: [guid as u8; 32] }
}

#[test]
fn what_is_remembered_is_there_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = State::load(dir.path()).unwrap();
    assert!(state.pools().is_empty());
    state.remember(pool("tank", 0xab)).unwrap();
    state.remember(pool("dozer", 7)).unwrap();
    state.remember(KnownPool { read_only: true, ..pool("tank", 0xab) }).unwrap();
    state.forget(PoolGuid(7)).unwrap();
    state.remember_port(12049).unwrap();

    let again = State::load(dir.path()).unwrap();
    assert_eq!(again.port(), Some(12049));
    assert_eq!(again.pools(), [KnownPool { read_only: true, ..pool("tank", 0xab) }]);
    let metadata = fs::metadata(dir.path().join(STATE_NAME)).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o600, "it holds keys");
}

#[test]
fn a_garbled_list_is_not_taken_for_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(STATE_NAME);
    let good = "[[pool]]\nname = \"t\"\nguid = \"0a\"\npaths = []\n";
    for text in [
        "pool = 3".to_owned(),
        good.to_owned(),
        format!("{good}handle_key = \"0\"\n"),
        format!("{good}handle_key = \"{}\"\n", "é".repeat(32)),
        format!("{good}handle_key = \"{}\"\nspeed = 1\n", "0".repeat(64)),
    ] {
        fs::write(&path, &text).unwrap();
        let error = State::load(dir.path()).err().unwrap_or_else(|| panic!("{text}"));
        assert!(error.to_string().contains("--pool PATH"), "{error}");
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

/// A link `pools.toml.new` had root write over the file that it led to.
#[test]
fn a_planted_link_is_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let precious = dir.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, dir.path().join("pools.toml.new")).unwrap();
    State::load(dir.path()).unwrap().remember_port(12049).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(State::load(dir.path()).unwrap().port(), Some(12049));
}
