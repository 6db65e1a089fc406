use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
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

/// Linux lets names be any bytes. One disk with such a name kept every pool from being written down.
#[test]
fn a_path_that_is_no_text_does_not_keep_pools_off_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = State::load(dir.path()).unwrap();
    let odd = PathBuf::from(OsStr::from_bytes(b"/disks/\xff"));
    state.remember(KnownPool { paths: vec!["/disks/a".into(), odd], ..pool("odd", 1) }).unwrap();
    state.remember(pool("tank", 2)).unwrap();
    let again = State::load(dir.path()).unwrap();
    assert_eq!(again.pools(), [KnownPool { paths: vec!["/disks/a".into()], ..pool("odd", 1) }, pool("tank", 2)]);
}

#[test]
fn a_garbled_list_is_not_taken_for_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(STATE_NAME);
    let whole = |body: &str| format!("{HEAD}1.\n{body}{END}");
    let pool = "[[pool]]\nname = \"t\"\nguid = \"0a\"\npaths = []\n";
    for text in [
        String::new(),
        "\0".repeat(512),
        "port = 2049\n".to_owned(),
        format!("{HEAD}one.\n{END}"),
        whole("pool = 3\n"),
        whole(pool),
        whole(&format!("{pool}handle_key = \"0\"\n")),
        whole(&format!("{pool}handle_key = \"{}\"\n", "é".repeat(32))),
    ] {
        fs::write(&path, &text).unwrap();
        let error = State::load(dir.path()).err().unwrap_or_else(|| panic!("{text}"));
        assert!(error.to_string().contains("--pool PATH"), "{error}");
    }
    fs::write(&path, b"\xff\xfe").unwrap();
    assert!(matches!(State::load(dir.path()), Err(StateError::Garbled { .. })));
}

/// A list of 0 bytes, or one that was cut between two pools, was a list of fewer pools.
#[test]
fn a_list_that_was_cut_anywhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(STATE_NAME);
    let mut state = State::load(dir.path()).unwrap();
    state.remember(pool("tank", 1)).unwrap();
    state.remember(pool("dozer", 2)).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(State::load(dir.path()), Err(StateError::Garbled { .. })), "{}", &whole[..length]);
    }
}

#[test]
fn lists_of_other_ages() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(STATE_NAME);
    State::load(dir.path()).unwrap().remember(pool("tank", 1)).unwrap();
    let now = fs::read_to_string(&path).unwrap();

    let newer = now.replace("format 1.", "format 2.") + "what = \"nobody knows\"\n";
    fs::write(&path, newer).unwrap();
    let error = State::load(dir.path()).err().unwrap().to_string();
    assert!(
        error.contains("newer tally") && error.contains("format 2") && error.contains("Start the newer one"),
        "{error}"
    );

    // What may be overlooked does not raise the format.
    let more = now.replace("[[pool]]\n", "colour = 3\n[[pool]]\nspeed = 1\n");
    fs::write(&path, more).unwrap();
    assert_eq!(State::load(dir.path()).unwrap().pools(), [pool("tank", 1)]);

    // Before there was a format there was another head, and no end.
    let body = now.split_once("\n\n").unwrap().1.replace(END, "");
    fs::write(&path, format!("{HEAD_BEFORE} Written by the daemon; use\n# more\n\n{body}")).unwrap();
    assert_eq!(State::load(dir.path()).unwrap().pools(), [pool("tank", 1)]);
}

#[test]
fn what_could_not_be_written_is_known_until_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = State::load(dir.path()).unwrap();
    state.remember(pool("tank", 1)).unwrap();
    let in_the_way = dir.path().join("pools.toml.new");
    fs::create_dir(&in_the_way).unwrap();
    assert!(
        state.remember(pool("dozer", 2)).is_err() && state.forget(PoolGuid(1)).is_err() && state.write_again().is_err()
    );
    assert!(state.unwritten().is_some());
    assert_eq!(state.entries(PoolGuid(1)), [None, Some(&pool("tank", 1))]);
    assert_eq!(state.entries(PoolGuid(2)), [Some(&pool("dozer", 2)), None]);
    fs::remove_dir(&in_the_way).unwrap();
    state.write_again().unwrap();
    assert!(state.unwritten().is_none());
    assert_eq!(State::load(dir.path()).unwrap().pools(), [pool("dozer", 2)]);
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

/// Whose mountpoints hold is kept over an export, and by guid and key: whoever knows a pool's guid makes another one of that guid.
#[test]
fn pools_whose_mountpoints_hold_are_kept_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let accepted = |guid: u64, host| Accepted { guid: PoolGuid(guid), handle_key: [guid as u8; 32], host: Some(host) };
    let mut state = State::load(dir.path()).unwrap();
    state.remember(pool("foreign", 3)).unwrap();
    assert!(!State::load(dir.path()).unwrap().accepts(PoolGuid(3), &[3; 32], 9), "nobody has accepted it");
    state.accept(accepted(3, 9)).unwrap();
    state.accept(accepted(4, u64::MAX)).unwrap();
    state.forget(PoolGuid(3)).unwrap();
    let again = State::load(dir.path()).unwrap();
    assert!(again.accepts(PoolGuid(3), &[3; 32], 9) && again.accepts(PoolGuid(4), &[4; 32], u64::MAX));
    assert!(!again.accepts(PoolGuid(3), &[3; 32], 8), "another machine has had it since");
    assert!(!again.accepts(PoolGuid(3), &[4; 32], 9), "another one of its guid");
    state.accept_no_more(PoolGuid(3)).unwrap();
    assert!(!State::load(dir.path()).unwrap().accepts(PoolGuid(3), &[3; 32], 9));
    // The newest of too many.
    for guid in 0..ACCEPTED_MAX as u64 + 2 {
        state.accepted.push(accepted(guid + 100, 1));
    }
    state.accept(accepted(7, 1)).unwrap();
    assert!(state.accepted.len() == ACCEPTED_MAX && state.accepts(PoolGuid(7), &[7; 32], 1));
    assert!(!state.accepts(PoolGuid(100), &[100; 32], 1));
}

/// What a daemon of before had imported it had mounted, too.
#[test]
fn a_list_of_before_accepts_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(STATE_NAME);
    let mut state = State::load(dir.path()).unwrap();
    state.remember(pool("tank", 1)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(!State::load(dir.path()).unwrap().accepts(PoolGuid(1), &[1; 32], 5));
    fs::write(&path, text.replace("accepted = []\n", "")).unwrap();
    let mut state = State::load(dir.path()).unwrap();
    assert!(state.accepts(PoolGuid(1), &[1; 32], 5) && !state.accepts(PoolGuid(1), &[2; 32], 5));
    // Which machine that was is not known, and then is not asked.
    state.remember_port(1).unwrap();
    let mut state = State::load(dir.path()).unwrap();
    assert!(state.accepts(PoolGuid(1), &[1; 32], 6));
    state.accept(Accepted { guid: PoolGuid(1), handle_key: [1; 32], host: Some(6) }).unwrap();
    assert!(!State::load(dir.path()).unwrap().accepts(PoolGuid(1), &[1; 32], 5));
}
