//! Commands on disks that make no sense: each is refused in words that say what to do, whether it was to be done or only to be
//! shown (`-n`), and nothing has changed behind it.

use std::path::PathBuf;

use tally_disk::Access;

use super::*;

/// Pool, mirror and spare of the table below, an exported pool, and disks that are free, too small, or somebody's.
fn place(data_dir: &Path, opener: &Arc<MemOpener>) -> Arc<dyn Disk> {
    for name in ["a", "b", "c", "e", "r", "s", "new", "held"] {
        opener.put(data_dir.join(name), Arc::new(MemDisk::new(32 << 20)));
    }
    opener.put(data_dir.join("small"), Arc::new(MemDisk::new(17 << 20)));
    opener.open(&data_dir.join("held"), Access::Exclusive).unwrap()
}

/// The part of `status` that tells of disks, and whether the disk that is free is that still.
fn standing(data_dir: &Path, opener: &MemOpener) -> (String, bool) {
    let (well, text) = tally(data_dir, &["pool", "status"]);
    assert!(well, "{text}");
    let disks = text.lines().filter(|line| line.starts_with('\t')).collect::<Vec<_>>().join("\n");
    let new = opener.open(&data_dir.join("new"), Access::ReadOnly).unwrap();
    (disks, tally_members::label::read(new.as_ref()).is_err())
}

#[test]
fn what_makes_no_sense_is_refused_in_words_that_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let _held = place(data_dir, &opener);
    let daemon = Running::start(data_dir, &opener);
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "mirror", "a", "b"], true, &[]),
            (&["pool", "create", "single", "c"], true, &[]),
            (&["pool", "create", "away", "e"], true, &[]),
            (&["pool", "export", "away"], true, &[]),
            (&["pool", "add", "dozer", "spare", "s"], true, &[]),
            (&["pool", "create", "looked", "r"], true, &[]),
            (&["pool", "export", "looked"], true, &[]),
            (&["pool", "import", "--readonly", "-d", &data_dir.display().to_string(), "looked"], true, &[]),
        ],
    );
    let before = standing(data_dir, &opener);
    let status = "`tally pool status` shows";
    // The command, what -n goes behind, and what must be said.
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("attach", &["dozer", "a", "c"], &["in use by another process, or by a pool that is imported here", status]),
        ("attach", &["dozer", "a", "held"], &["in use by another process", "must let go of it first"]),
        ("attach", &["dozer", "a", "e"], &["belongs to pool away (exported); force it"]),
        ("attach", &["dozer", "a", "small"], &["has 17825792 bytes and needs at least"]),
        ("attach", &["dozer", "a", "a"], &["is in use as this very disk", "name another disk"]),
        ("attach", &["dozer", "a", "b"], &["is a disk of this pool already", "name another one"]),
        ("attach", &["dozer", "a", "s"], &["waits as a spare; `tally pool remove` takes it out first"]),
        ("attach", &["dozer", "a", "nothing"], &["there is nothing at"]),
        ("attach", &["dozer", "x", "new"], &["pool 'dozer' has no disk 'x'", status]),
        ("attach", &["nobody", "a", "new"], &["no pool 'nobody' is imported; `tally pool list` shows"]),
        ("replace", &["dozer", "a", "a"], &["is in use as this very disk"]),
        ("replace", &["dozer", "a"], &["is in use as this very disk"]),
        ("replace", &["dozer", "a", "b"], &["is a disk of this pool already"]),
        ("replace", &["dozer", "a", "s"], &["is there and has everything, so that no spare stands in for it"]),
        ("replace", &["dozer", "a", "e"], &["belongs to pool away"]),
        ("replace", &["dozer", "a", "held"], &["in use by another process"]),
        ("replace", &["single", "c", "small"], &["needs at least"]),
        ("replace", &["dozer", "x", "new"], &["has no disk 'x'", status]),
        ("replace", &["dozer", "s", "new"], &["waits as a spare, and is in no mirror", "`tally pool remove`"]),
        (
            "detach",
            &["single", "c"],
            &["is the last one of its vdev that has everything; attach another disk to it first"],
        ),
        ("detach", &["dozer", "x"], &["has no disk 'x'", status]),
        ("detach", &["dozer", "s"], &["waits as a spare, and is in no mirror", "`tally pool remove`"]),
        ("offline", &["single", "c"], &["is the only one of its vdev that has everything", "attach another disk"]),
        ("offline", &["dozer", "x"], &["has no disk 'x'", status]),
        ("remove", &["dozer", "a"], &["is no spare; `tally pool detach` takes a disk out of its mirror"]),
        ("remove", &["dozer", "x"], &["has no disk 'x'", status]),
        ("add", &["dozer", "new"], &["`tally pool add POOL spare DEVICE...`"]),
        ("add", &["dozer", "log", "new"], &["other vdevs only come with `tally pool create`"]),
        ("add", &["dozer", "spare"], &["spare needs at least one device"]),
        ("add", &["dozer", "spare", "new", "new"], &["is named twice"]),
        ("add", &["dozer", "spare", "new", "small"], &["needs at least"]),
        ("add", &["dozer", "spare", "new", "a"], &["is part of the pool already", status]),
        ("add", &["dozer", "spare", "new", "s"], &["is part of the pool already", status]),
        ("add", &["dozer", "spare", "new", "c"], &["in use by another process, or by a pool that is imported here"]),
        ("add", &["dozer", "spare", "new", "e"], &["belongs to pool away (exported); force it"]),
        ("add", &["nobody", "spare", "new"], &["no pool 'nobody' is imported"]),
        ("create", &["mirror", "new"], &["cannot be a pool's name"]),
        ("create", &["dozer", "new"], &["dozer"]),
        ("create", &["other", "raidz", "new", "c"], &["raidz vdevs are not there yet"]),
        ("create", &["other", "new", "new"], &["is named twice"]),
        ("create", &["other", "new", "a"], &["in use by another process, or by a pool that is imported here", status]),
        ("create", &["other", "new", "held"], &["must let go of it first"]),
        ("create", &["other", "new", "e"], &["belongs to pool away (exported); force it"]),
        ("create", &["other", "new", "nothing"], &["there is nothing at"]),
        ("create", &["--file-size", "1M", "other", "new", "nothing"], &["has 1048576 bytes and needs at least"]),
        ("create", &["-o", "colour=red", "other", "new"], &["is nothing that a new pool"]),
        ("create", &["-O", "recordsize=3K", "other", "new"], &["power of two"]),
        ("destroy", &["nobody"], &["no pool 'nobody' is imported"]),
        ("destroy", &["away"], &["no pool 'away' is imported"]),
        ("destroy", &["looked"], &["is imported read-only", "`tally pool export looked`"]),
        ("upgrade", &["nobody"], &["no pool 'nobody' is imported"]),
        ("online", &["dozer", "a"], &["is in use already"]),
        ("online", &["dozer", "x"], &["has no disk 'x'", status]),
        ("online", &["dozer", "s"], &["waits as a spare, and is in no mirror"]),
        ("online", &["nobody", "a"], &["no pool 'nobody' is imported"]),
    ];
    for (command, words, expected) in cases {
        let mut answers = Vec::new();
        for flag in [None, Some("-n")] {
            let words: Vec<&str> = ["pool", command].into_iter().chain(flag).chain(words.iter().copied()).collect();
            let (well, text) = tally(data_dir, &words);
            assert!(!well, "{words:?}: {text}");
            for part in *expected {
                assert!(text.contains(part), "{words:?} does not say {part:?}: {text}");
            }
            answers.push(text);
        }
        assert_eq!(answers[0], answers[1], "-n refuses by the same words");
        assert_eq!(standing(data_dir, &opener), before, "{command} {words:?} has changed something");
    }
    daemon.stop();
}

/// What `-n` says is what is done next, and nothing is done by it.
#[test]
fn what_would_be_done_is_shown_and_not_done() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let _held = place(data_dir, &opener);
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "mirror", "a", "b"], true, &[])]);
    let steps: &[(&[&str], &[&str])] = &[
        (&["add", "-n", "dozer", "spare", "s"], &["would take in as spares of 'dozer'"]),
        (&["add", "dozer", "spare", "s"], &[]),
        (&["remove", "-n", "dozer", "s"], &["would take the spare", "erase its label"]),
        (&["attach", "-n", "dozer", "a", "new"], &["would erase", "copy 31.5M to it", "a further copy of"]),
        (&["replace", "-n", "dozer", "a", "new"], &["would erase", "copy 31.5M to it, and then take"]),
        (&["replace", "-fn", "dozer", "a", "e"], &["would erase"]),
        (&["detach", "-n", "dozer", "b"], &["would take", "once all", "are found on the disks that stay"]),
        (&["detach", "-fn", "dozer", "b"], &["would take", "without a look at its blocks"]),
        (&["offline", "-n", "dozer", "b"], &["would take", "until `tally pool online`\n"]),
        (&["offline", "-tn", "dozer", "b"], &["or the next import"]),
        (&["offline", "dozer", "b"], &[]),
        (&["online", "-n", "dozer", "b"], &["would take", "and give it what was written while it was away"]),
        (&["replace", "-n", "dozer", "b", "s"], &["to the spare", "which stands in for"]),
        (&["replace", "-n", "dozer", "b"], &["out of its mirror, erase it, and copy 31.5M to it anew"]),
        (&["replace", "dozer", "b", "s"], &["stands in for"]),
        (&["detach", "-n", "dozer", "s"], &["would take", "it waits as a spare again"]),
        (&["upgrade", "-n", "dozer"], &["Pool 'dozer' already has all supported and requested features enabled."]),
        (&["create", "-n", "other", "mirror", "new", "c"], &["would erase", "and make pool 'other' of: mirror"]),
        (
            &["create", "-n", "--file-size", "16M", "other", "c", "log", "made"],
            // On the real disk there is neither.
            &["would make", "made of 16M each, and make pool 'other' of:"],
        ),
        (&["create", "other", "mirror", "new", "c"], &[]),
        (&["destroy", "-n", "other"], &["would destroy 'other': 1 dataset with", "`tally pool import -D other`"]),
        (&["destroy", "other"], &[]),
    ];
    for (words, expected) in steps {
        let before = standing(data_dir, &opener);
        let all: Vec<&str> = ["pool"].into_iter().chain(words.iter().copied()).collect();
        let (well, text) = tally(data_dir, &all);
        assert!(well, "{all:?}: {text}");
        for part in *expected {
            assert!(text.contains(part), "{all:?} does not say {part:?}: {text}");
        }
        let is_only_shown = words[1].starts_with('-');
        assert_eq!(standing(data_dir, &opener) == before, is_only_shown, "{all:?}");
    }
    assert!(!data_dir.join("made").exists());
    let (_, history) = tally(data_dir, &["pool", "history", "dozer"]);
    assert!(!history.contains(" -n") && history.contains("pool offline dozer"), "{history}");
    daemon.stop();
}

/// Disks of which `b` is held by whoever only asks about it, from the moment in which a start opens `a` until that has tried `b`.
struct Asked {
    disks: Arc<MemOpener>,
    data_dir: PathBuf,
    asker: Mutex<Option<thread::JoinHandle<(bool, String)>>>,
    state: Mutex<[bool; 2]>,
    changed: Condvar,
}

const HELD: usize = 0;
const TRIED: usize = 1;

impl Asked {
    fn note(&self, what: usize) {
        self.state.lock().unwrap()[what] = true;
        self.changed.notify_all();
    }

    /// Until the other one has come so far. Where he rightly never comes it takes this long.
    fn wait_for(&self, what: usize) {
        let most = Duration::from_millis(500);
        drop(self.changed.wait_timeout_while(self.state.lock().unwrap(), most, |state| !state[what]).unwrap());
    }

    fn ask(&self) {
        let mut asker = self.asker.lock().unwrap();
        if asker.is_none() {
            let data_dir = self.data_dir.clone();
            let words = ["pool", "create", "-n", "other", "b"];
            *asker = Some(thread::spawn(move || tally(&data_dir, &words)));
        }
    }
}

impl Opener for Asked {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        let opened = self.disks.open(path, access);
        let is_of_command = matches!(thread::current().name(), Some("control" | "command"));
        match path.file_name().and_then(|name| name.to_str()) {
            Some("a") if access == Access::Exclusive && !is_of_command => {
                self.ask();
                self.wait_for(HELD);
            }
            Some("b") if access == Access::Exclusive && is_of_command => {
                self.note(HELD);
                self.wait_for(TRIED);
            }
            Some("b") if access == Access::Exclusive => self.note(TRIED),
            _ => {}
        }
        opened
    }

    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        self.disks.create(path, size, prewrite, progress)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.disks.list(directory)
    }
}

/// While a daemon started somebody asked what `pool create -n` would do with a disk. That opened it for itself alone, in the thread
/// of its connection, and the start found it in use: the mirror came up without it, and struck it off.
#[test]
fn whoever_only_asks_takes_no_disk_from_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let disks = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &disks);
    for name in ["a", "b"] {
        disks.create(&data_dir.join(name), 32 << 20, false, &mut |_| true).unwrap();
    }
    story(data_dir, &[(&["pool", "create", "dozer", "mirror", "a", "b"], true, &[])]);
    first.stop();
    let asked = Arc::new(Asked {
        disks,
        data_dir: data_dir.into(),
        asker: Mutex::default(),
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let again = Running::start_with(Running::args(data_dir), Arc::clone(&asked) as Arc<dyn Opener>).unwrap();
    let asker = asked.asker.lock().unwrap().take().expect("somebody has asked");
    let (well, text) = asker.join().unwrap();
    assert!(!well && text.contains("in use by another process, or by a pool that is imported here"), "{text}");
    story(data_dir, &[(&["pool", "list", "-H", "dozer"], true, &["\tONLINE\n"])]);
    again.stop();
}
