//! `pool create --file-size`: what is looked at first, what stays, and who waits.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use tally_disk::{Access, Opener, SystemOpener};
use tally_server::config::ServeArgs;

use super::*;

/// Real files, of which those called `full` cannot be made; and those called `slow` stop half way while they are held.
#[derive(Default)]
struct Files {
    held: Mutex<bool>,
    let_go: Condvar,
    began: Mutex<Option<PathBuf>>,
}

impl Files {
    fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.let_go.notify_all();
    }
}

impl Opener for Files {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        SystemOpener.open(path, access)
    }

    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        if path.ends_with("full") {
            return Err(io::ErrorKind::StorageFull.into());
        }
        SystemOpener.create(path, size, prewrite, &mut |done| {
            *self.began.lock().unwrap() = Some(path.into());
            let waits = |held: &mut bool| *held && path.ends_with("slow");
            drop(self.let_go.wait_while(self.held.lock().unwrap(), waits).unwrap());
            progress(done)
        })
    }
}

/// A daemon without a pool of its own, and a folder for files.
fn started(data_dir: &Path, files: &Arc<Files>) -> (Running, PathBuf) {
    let config = data_dir.join("tally.toml");
    fs::write(&config, "first_pool = false\n").unwrap();
    let folder = data_dir.join("disks");
    fs::create_dir(&folder).unwrap();
    let args = ServeArgs { config: Some(config), ..Running::args(data_dir) };
    (Running::start_with(args, Arc::clone(files) as Arc<dyn Opener>).unwrap(), folder)
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A pool name with a mistake cost 12 GiB and the time to write them, and they stayed.
#[test]
fn a_command_that_cannot_be_carried_out_makes_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let files = Arc::new(Files::default());
    let (daemon, folder) = started(data_dir, &files);
    let path = |name: &str| folder.join(name).display().to_string();
    let [a, b, other, full, lost] = ["a", "b", "other", "full", "nowhere/c"].map(path);
    let made = |words: &[&str], well: bool, expected: &str| {
        let words = [&["pool", "create"][..], words].concat();
        let (went_well, text) = tally(data_dir, &words);
        assert!(went_well == well && text.contains(expected), "{words:?}: {text}");
    };
    made(&["--file-size", "32M", "dozer", &other], true, "created pool");
    let cases: &[(&[&str], &str)] = &[
        (&["--file-size", "32M", "9lives", &a], "cannot be a pool's name"),
        (&["--file-size", "32M", "log", &a], "cannot be a pool's name"),
        (&["--file-size", "32M", "dozer", &a], "imported already"),
        (&["--file-size", "32M", "p", "mirror", &a, &a], "/a is named twice"),
        (&["--file-size", "1M", "p", &a], "needs at least 16777216 (16M)"),
        (&["--file-size", "32M", "p", &a, &other], "in use by another process"),
        (&["--file-size", "32M", "p", &a, &lost], "cannot make"),
        (&["--file-size", "32M", "-O", "recordsize=3K", "p", &a], "power of two"),
        (&["--file-size", "900T", "p", &a], "free"),
        (&["--file-size", "18446744073709551615", "p", &a], ""),
    ];
    for (words, expected) in cases {
        *files.began.lock().unwrap() = None;
        made(words, false, expected);
        assert_eq!((names_in(&folder), &*files.began.lock().unwrap()), (vec!["other".into()], &None), "{words:?}");
    }
    // This cannot be known before.
    made(&["--file-size", "32M", "p", &a, &full], false, "cannot make");
    assert_eq!(names_in(&folder), ["other"]);
    made(&["--file-size", "32M", "p", "mirror", &a, &b], true, "created pool");
    assert_eq!(names_in(&folder), ["a", "b", "other"]);
    // Files that were there are nobody's to take away.
    story(data_dir, &[(&["pool", "destroy", "p"], true, &[])]);
    made(&["9lives", &a], false, "cannot be a pool's name");
    made(&["--file-size", "32M", "9lives", &a, &b], false, "cannot be a pool's name");
    assert_eq!(names_in(&folder), ["a", "b", "other"]);
    daemon.stop();
}

/// While files were written, which takes as long as disks do, no other command was carried out, and SIGTERM was not heard.
#[test]
fn nobody_waits_while_files_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_owned();
    let files = Arc::new(Files::default());
    let (daemon, folder) = started(&data_dir, &files);
    files.hold(true);
    let spawned = |words: Vec<String>| {
        let (sender, answer) = channel();
        let data_dir = data_dir.clone();
        thread::spawn(move || sender.send(tally(&data_dir, &words.iter().map(String::as_str).collect::<Vec<_>>())));
        answer
    };
    let words = |name: &str, file: &str| {
        let file = folder.join(file).display().to_string();
        ["pool", "create", "--file-size", "32M", name, &file].map(String::from).to_vec()
    };
    let creating = spawned(words("slow", "slow"));
    let given_up = Instant::now() + PATIENCE;
    while files.began.lock().unwrap().is_none() {
        assert!(Instant::now() < given_up, "no file is made");
        thread::sleep(Duration::from_millis(5));
    }
    // Another command has its turn.
    let refused = spawned(vec!["pool".into(), "export".into(), "slow".into()]).recv_timeout(PATIENCE);
    assert!(refused.expect("a command is answered").1.contains("no pool 'slow'"));

    daemon.stopper.stop();
    files.hold(false);
    daemon.stop();
    let (well, text) = creating.recv_timeout(PATIENCE).expect("an answer");
    assert!(!well && text.contains("shutting down"), "{text}");
    assert_eq!(names_in(&folder), Vec::<String>::new());
}

/// The end waited for files that were being made before it exported a pool. A disk that was slow with those, and knows of no
/// end, cost all pools their export.
#[test]
fn pools_are_put_away_whatever_is_being_made() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_owned();
    let files = Arc::new(Files::default());
    let (daemon, folder) = started(&data_dir, &files);
    let [sound, slow] = ["sound", "slow"].map(|name| folder.join(name).display().to_string());
    story(&data_dir, &[(&["pool", "create", "--file-size", "32M", "sound", &sound], true, &[])]);
    files.hold(true);
    let creating = {
        let (data_dir, slow) = (data_dir.clone(), slow.clone());
        thread::spawn(move || tally(&data_dir, &["pool", "create", "--file-size", "32M", "late", &slow]))
    };
    let given_up = Instant::now() + PATIENCE;
    while !files.began.lock().unwrap().as_ref().is_some_and(|path| path.ends_with("slow")) {
        assert!(Instant::now() < given_up, "no file is made");
        thread::sleep(Duration::from_millis(5));
    }
    daemon.stopper.stop();
    let given_up = Instant::now() + Duration::from_secs(20);
    let is_put_away = || tally(&data_dir, &["pool", "list", "-H"]).1 == "no pools are imported\n";
    while !is_put_away() && Instant::now() < given_up {
        thread::sleep(Duration::from_millis(20));
    }
    let was_put_away = is_put_away();
    files.hold(false);
    daemon.stop();
    assert!(was_put_away, "the pool waited for files of another one");
    let (well, text) = creating.join().unwrap();
    assert!(!well && text.contains("shutting down"), "{text}");
    assert_eq!(names_in(&folder), ["sound"]);
}

/// A file was made, and lay there unlocked while the next one was written out. Another pool was made of it and exported; then
/// the first command came to nothing, and took the file back, with that pool in it.
#[test]
fn what_was_made_for_one_pool_is_not_taken_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_owned();
    let files = Arc::new(Files::default());
    let (daemon, folder) = started(&data_dir, &files);
    files.hold(true);
    let [quick, slow] = ["quick", "slow"].map(|name| folder.join(name).display().to_string());
    let creating = {
        let (data_dir, quick, slow) = (data_dir.clone(), quick.clone(), slow.clone());
        thread::spawn(move || tally(&data_dir, &["pool", "create", "--file-size", "32M", "late", &quick, &slow]))
    };
    let given_up = Instant::now() + PATIENCE;
    while !files.began.lock().unwrap().as_ref().is_some_and(|path| path.ends_with("slow")) {
        assert!(Instant::now() < given_up, "the second file is not made");
        thread::sleep(Duration::from_millis(5));
    }
    let (was_taken, text) = tally(&data_dir, &["pool", "create", "other", &quick]);
    if was_taken {
        story(&data_dir, &[(&["pool", "export", "other"], true, &[])]);
    }
    daemon.stopper.stop();
    files.hold(false);
    daemon.stop();
    assert!(!creating.join().unwrap().0);
    let expected: &[&str] = if was_taken { &["quick"] } else { &[] };
    assert_eq!(names_in(&folder), expected, "the files of the other pool, if it was made");
    assert!(!was_taken && text.contains("in use by another process"), "{text}");
}

/// `-p` made the datasets above one whose name is none, and left them.
#[test]
fn a_dataset_that_cannot_be_made_leaves_none_above_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let daemon = Running::start(data_dir, &Arc::new(MemOpener::default()));
    let bad = ["dataset", "create", "-p", "tank/a/b/with blank"];
    story(data_dir, &[(&bad, false, &["only letters"]), (&["dataset", "create", "-p", "tank/x/.."], false, &[])]);
    assert_eq!(tally(data_dir, &["dataset", "list", "-H"]).1.lines().count(), 1);
    daemon.stop();
}

/// A pool that takes no change erased the label of a disk that was to join it, and refused the disk only then.
#[test]
fn a_disk_that_cannot_join_keeps_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    for name in ["a", "b"] {
        opener.put(data_dir.join(name), Arc::new(MemDisk::new(32 << 20)));
    }
    let daemon = Running::start(data_dir, &opener);
    let import = |name| ["pool", "import", "-d", &here, name];
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "a"], true, &[]),
            (&["pool", "create", "other", "b"], true, &[]),
            (&["pool", "export", "dozer"], true, &[]),
            (&["pool", "export", "other"], true, &[]),
            (&[&import("dozer")[..], &["--readonly"]].concat(), true, &[]),
            (&["pool", "attach", "-f", "dozer", "a", "b"], false, &["read-only", "without --readonly"]),
            (
                &["dataset", "set", "sharenfs=off", "dozer"],
                false,
                &["read-only", "[[export]]", "rules = \"off\"", "SIGHUP"],
            ),
            (&import("other"), true, &["imported pool 'other'"]),
        ],
    );
    daemon.stop();
}
