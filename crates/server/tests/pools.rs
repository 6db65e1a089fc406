//! What a start makes of pools that were destroyed, exported, or are broken: none of them keeps the daemon or another pool
//! from its clients, and nothing comes back that somebody has put away.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tally_disk::{Access, Disk, Durability, Geometry, Opener};
use tally_fakes::{MemDisk, MemOpener};
use tally_server::config::ServeArgs;

mod running;

use running::{Running, browse, story, tally};

/// So long a test waits for what should come in an instant, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn make_disks(opener: &MemOpener, dir: &Path, names: &[&str]) {
    for name in names {
        opener.create(&dir.join(name), 32 << 20, false, &mut |_| true).unwrap();
    }
}

fn listed(data_dir: &Path) -> String {
    tally(data_dir, &["pool", "list", "-H"]).1
}

/// Behind `pool destroy tank` no start worked any more: the files of the first pool were to be imported, and held a
/// destroyed one.
#[test]
fn a_destroyed_first_pool_stays_so_and_the_daemon_starts() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &opener);
    story(data_dir, &[(&["dataset", "create", "tank/x"], true, &[]), (&["pool", "destroy", "tank"], true, &[])]);
    first.stop();

    for _ in 0..2 {
        let again = Running::start(data_dir, &opener);
        let command = format!("tally pool import -D -d {} tank", data_dir.display());
        assert!(again.said.len() == 1 && again.said[0].contains("'tank' was destroyed"), "{:?}", again.said);
        assert!(again.said[0].contains(&command), "{:?}", again.said);
        assert_eq!(listed(data_dir), "no pools are imported\n");
        again.stop();
    }
    let third = Running::start(data_dir, &opener);
    story(
        data_dir,
        &[
            (&["pool", "import"], true, &["no such pools were found", "-D finds destroyed ones"]),
            (&["pool", "import", "tank"], false, &["tank was destroyed", "`tally pool import -D`"]),
            (&["pool", "import", "-D"], true, &["state: DESTROYED", "`tally pool import -D -d "]),
            (&["--json", "pool", "import", "-D"], true, &["\"state\": \"DESTROYED\""]),
            (&["pool", "import", "-D", "tank"], true, &["imported pool 'tank'"]),
            (&["dataset", "list"], true, &["tank/x"]),
        ],
    );
    third.stop();
    let fourth = Running::start(data_dir, &opener);
    assert!(listed(data_dir).ends_with("\tONLINE\n"));
    fourth.stop();
}

/// One destroyed image in a directory kept the sound pools beside it from being served.
#[test]
fn what_is_destroyed_or_broken_does_not_stop_what_is_sound() {
    let (dir, disks) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data_dir, disks) = (dir.path(), disks.path().canonicalize().unwrap());
    let opener = Arc::new(MemOpener::default());
    make_disks(&opener, &disks, &["a", "b", "c", "d", "e"]);
    let daemon = Running::start(data_dir, &opener);
    let path = |name: &str| disks.join(name).display().to_string();
    let create = |words: &[&str]| {
        let words: Vec<String> =
            words.iter().map(|word| if word.len() == 1 { path(word) } else { (*word).into() }).collect();
        let words: Vec<&str> = ["pool", "create"].into_iter().chain(words.iter().map(String::as_str)).collect();
        story(data_dir, &[(&words, true, &[])]);
    };
    create(&["gone", "a"]);
    create(&["sound", "b"]);
    create(&["cut", "c", "d"]);
    create(&["rotten", "e"]);
    for words in [["destroy", "gone"], ["export", "sound"], ["export", "cut"], ["export", "rotten"]] {
        story(data_dir, &[(&["pool", words[0], words[1]], true, &[])]);
    }
    daemon.stop();
    opener.remove(&disks.join("d"));
    let rot = MemDisk::new(32 << 20);
    let rotten = opener.remove(&disks.join("e")).unwrap();
    let mut label = vec![0; 64 << 10];
    rotten.read(0, &mut label).unwrap();
    label[5000..5100].fill(0xaa);
    rot.write(0, &label, Durability::Cached).unwrap();
    opener.put(disks.join("e"), Arc::new(rot));

    let other = tempfile::tempdir().unwrap();
    let daemon = Running::try_start(other.path(), &opener, &[&disks, Path::new("/not/there")]).unwrap();
    let said = daemon.said.join("\n");
    for part in [
        "imported pool 'sound'",
        "pool 'gone' (",
        &format!("tally pool import -D -d {} gone", disks.display()),
        "pool 'cut' (",
        "has no usable leg",
        "/not/there: No such file",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(listed(other.path()).lines().count(), 1, "{}", listed(other.path()));
    daemon.stop();

    // Where nothing is sound there is nothing to serve, and each has its reason.
    opener.remove(&disks.join("b"));
    let nothing = tempfile::tempdir().unwrap();
    let error = Running::try_start(nothing.path(), &opener, &[&disks]).err().expect("nothing to serve").to_string();
    assert!(error.contains("'gone'") && error.contains("'cut'") && !error.contains("sound"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Running::try_start(nothing.path(), &opener, &[empty.path()]).err().expect("nothing there").to_string();
    assert!(error.contains("no pool was found in"), "{error}");
}

/// A pool of the list is destroyed, and its destroyer was killed before it came to the list.
#[test]
fn a_destroyed_pool_of_the_list_is_taken_off_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &opener);
    let list = std::fs::read(data_dir.join("pools.toml")).unwrap();
    story(data_dir, &[(&["pool", "destroy", "tank"], true, &[])]);
    first.stop();
    std::fs::write(data_dir.join("pools.toml"), list).unwrap();
    let second = Running::start(data_dir, &opener);
    assert!(second.said[0].contains("taken off the list"), "{:?}", second.said);
    assert_eq!(listed(data_dir), "no pools are imported\n");
    second.stop();
    assert!(!std::fs::read_to_string(data_dir.join("pools.toml")).unwrap().contains("[[pool]]"));
}

/// A first pool that somebody had exported came back at the next start; and one whose files were carried away was made
/// anew.
#[test]
fn an_exported_first_pool_stays_exported() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "export", "tank"], true, &[])]);
    first.stop();
    let second = Running::start(data_dir, &opener);
    let command = format!("`tally pool import -d {} tank`", data_dir.display());
    assert!(second.said[0].contains("was exported") && second.said[0].contains(&command), "{:?}", second.said);
    assert_eq!(listed(data_dir), "no pools are imported\n");
    second.stop();

    let files = ["tank.img", "log.img"].map(|name| data_dir.join(name));
    let away = files.each_ref().map(|file| opener.remove(file).unwrap());
    let third = Running::start(data_dir, &opener);
    assert!(third.said[0].contains("only a first start makes one"), "{:?}", third.said);
    assert_eq!(listed(data_dir), "no pools are imported\n");
    for (file, disk) in files.iter().zip(away) {
        opener.put(file, disk);
    }
    story(data_dir, &[(&["pool", "import", "tank"], true, &["imported pool 'tank'"])]);
    third.stop();
    // Without the list, too, nothing is made over what somebody has put away.
    std::fs::remove_file(data_dir.join("pools.toml")).unwrap();
    let fourth = Running::start(data_dir, &opener);
    assert!(fourth.said[0].contains("was exported"), "{:?}", fourth.said);
    fourth.stop();
}

/// A disk whose cable somebody pulls.
struct Pulled {
    disk: MemDisk,
    is_out: AtomicBool,
}

impl Pulled {
    fn check(&self) -> io::Result<()> {
        if self.is_out.load(Ordering::Relaxed) { Err(io::Error::other("the cable is out")) } else { Ok(()) }
    }
}

impl Disk for Pulled {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.check()?;
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.check()?;
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.check()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

/// Gives a command whose pool has no disk any more. A group of the pool's own may come first and find that out: then the pool is suspended,
/// is not destroyed either, and says so; so it is cleared, and the command given again.
fn pull_at(data_dir: &Path, disk: &Pulled, words: &[&str]) {
    for attempt in 0..20_u32 {
        // What is on its way of a group is behind it by then, also on a machine that has much else to do.
        std::thread::sleep(Duration::from_millis(100 * u64::from(attempt)));
        disk.is_out.store(true, Ordering::Relaxed);
        let (went_well, text) = tally(data_dir, words);
        assert!(!went_well, "{words:?}: {text}");
        // Why it was not may be that it is suspended: where it is away it says so.
        if text.contains("UNAVAIL") {
            assert!(text.contains("pool 'one' was not "), "{words:?}: {text}");
            assert!(text.contains("`tally pool import one`"), "{words:?}: {text}");
            return;
        }
        assert!(text.contains("is suspended"), "{words:?}: {text}");
        disk.is_out.store(false, Ordering::Relaxed);
        story(data_dir, &[(&["pool", "clear", "one"], true, &[])]);
    }
    panic!("a group was first twenty times");
}

/// A pool whose export failed was in no list any more: its alarm ended, and its clients waited.
#[test]
fn a_pool_whose_export_failed_stays_in_sight() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let disk = Arc::new(Pulled { disk: MemDisk::new(32 << 20), is_out: AtomicBool::new(false) });
    opener.put("/elsewhere/a", Arc::clone(&disk) as Arc<dyn Disk>);
    make_disks(&opener, data_dir, &["l"]);
    story(data_dir, &[(&["pool", "create", "one", "/elsewhere/a", "log", "l"], true, &[])]);
    for words in [["pool", "export", "one"], ["pool", "destroy", "one"]] {
        story(data_dir, &[(&["dataset", "create", &format!("one/{}", words[1])], true, &[])]);
        pull_at(data_dir, &disk, &words);
        story(
            data_dir,
            &[
                (&["pool", "status", "one"], true, &["state: UNAVAIL", "It was not", "tally pool import one"]),
                (&["pool", "status"], true, &["state: UNAVAIL"]),
                (&["--json", "pool", "status", "one"], true, &["\"state\": \"UNAVAIL\""]),
            ],
        );
        disk.is_out.store(false, Ordering::Relaxed);
        story(
            data_dir,
            &[
                (&["pool", "import", "one"], true, &["imported pool 'one'"]),
                (&["pool", "status", "one"], true, &["state: ONLINE"]),
                (&["dataset", "list"], true, &[&format!("one/{}", words[1])]),
            ],
        );
    }
    story(data_dir, &[(&["pool", "export", "one"], true, &[])]);
    assert!(!listed(data_dir).contains("one"), "what was exported on purpose is no alarm");
    daemon.stop();
}

/// A pool whose disks were gone was UNAVAIL for ever; a new one of its name hid it, and the two told Prometheus the
/// contrary of each other.
#[test]
fn a_pool_that_is_gone_for_good_can_be_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    make_disks(&opener, data_dir, &["a", "b"]);
    let first = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "one", "a"], true, &[])]);
    let guid = guid_of(data_dir, "one");
    first.stop();
    let old = opener.remove(&data_dir.join("a")).unwrap();

    let second = Running::start(data_dir, &opener);
    let forget = |word: &str| tally(data_dir, &["pool", "forget", word]);
    story(
        data_dir,
        &[
            (&["pool", "status", "one"], true, &["state: UNAVAIL", "`tally pool forget one`"]),
            (
                &["pool", "get", "-H", "all", "one"],
                true,
                &["\tsize\t-\t-\n", "\thealth\tUNAVAIL\t-\n", "\tfailmode\t-\t-\n", &guid],
            ),
            (&["pool", "forget", "tank"], false, &["'tank' is imported"]),
            (&["pool", "forget", "never"], false, &["no pool 'never' is away"]),
            (&["pool", "create", "one", "b"], true, &[]),
            (&["pool", "status", "one"], true, &["state: ONLINE", "state: UNAVAIL"]),
            (&["pool", "forget", "one"], false, &["several pools are called 'one'", &guid]),
        ],
    );
    // The old one comes back: two of one name cannot be imported, by whatever word.
    opener.put(data_dir.join("a"), old);
    for word in [guid.clone(), guid.to_uppercase()] {
        story(data_dir, &[(&["pool", "import", &word], false, &["a pool 'one' is imported already"])]);
    }
    let given_up = Instant::now() + PATIENCE;
    // An observation is given to others for half a second: the first ones may be from before there was a second pool.
    let states = loop {
        let metrics = browse(&second.announcement, "/metrics");
        let of_one = metrics.lines().filter(|line| line.starts_with("tally_pool_state{pool=\"one\""));
        let states: Vec<String> = of_one.map(str::to_owned).collect();
        if states.len() == 8 {
            break states;
        }
        assert!(Instant::now() < given_up, "two pools of four states each: {states:?}");
        thread::sleep(Duration::from_millis(50));
    };
    let series: BTreeSet<&str> = states.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(series.len(), 8, "{states:?}");
    let (well, text) = forget(&guid);
    assert!(well && text.contains("'one'") && text.contains(&guid) && text.contains("stale file handle"), "{text}");
    let (_, status) = tally(data_dir, &["pool", "status", "one"]);
    assert!(status.contains("state: ONLINE") && !status.contains("UNAVAIL"), "{status}");
    second.stop();
    let third = Running::start(data_dir, &opener);
    assert!(!listed(data_dir).contains("UNAVAIL"), "{}", listed(data_dir));
    third.stop();
}

fn guid_of(data_dir: &Path, pool: &str) -> String {
    let (_, json) = tally(data_dir, &["--json", "pool", "status", pool]);
    let (_, rest) = json.split_once("\"guid\": \"").unwrap();
    rest[..16].to_owned()
}

/// With a full state folder `export one` said that the pool was only not imported by itself at the next start; it was
/// exported, and was imported then. The list was never tried again.
#[test]
fn what_is_true_when_the_list_could_not_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    make_disks(&opener, data_dir, &["a", "b"]);
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "one", "a"], true, &[])]);
    let in_the_way = data_dir.join("pools.toml.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let (export, destroy) =
        ("The list still has the pool: a start before that imports it again", "finds it destroyed, and takes it off");
    let (unlisted, status) = ("does not import the pool by itself", ["pool", "status"]);
    story(
        data_dir,
        &[
            (&["pool", "export", "one"], false, &["exported pool 'one'\nBut the list of pools", "tried again", export]),
            (&["pool", "status", "one"], true, &["state: UNAVAIL", "was exported, but the list of pools"]),
            (&["pool", "create", "two", "b"], false, &["created pool 'two'", "But the list of pools", unlisted]),
            (&["pool", "status", "two"], true, &["state: ONLINE", "the list of pools", unlisted]),
            (&["--json", "pool", "status", "two"], true, &[unlisted]),
            (&["pool", "import", "one"], true, &["imported pool 'one'"]),
            (&["pool", "destroy", "one"], false, &["destroyed pool 'one'", destroy]),
            (&status, true, &["pool: tank", "the list of pools", "This pool is on it."]),
        ],
    );
    let list = || std::fs::read_to_string(data_dir.join("pools.toml")).unwrap();
    assert!(list().contains("\"one\"") && !list().contains("\"two\""), "{}", list());
    std::fs::remove_dir(&in_the_way).unwrap();
    // Nobody gives another command.
    let given_up = Instant::now() + PATIENCE;
    while list().contains("\"one\"") || !list().contains("\"two\"") {
        assert!(Instant::now() < given_up, "the list is not written: {}", list());
        thread::sleep(Duration::from_millis(100));
    }
    let (_, text) = tally(data_dir, &status);
    assert!(!text.contains("the list of pools"), "{text}");
    daemon.stop();
}

/// Where the list of a first start could not be written the files of the pool that served were removed.
#[test]
fn a_first_pool_serves_without_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let in_the_way = data_dir.join("pools.toml.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let daemon = Running::start(data_dir, &Arc::new(MemOpener::default()));
    assert!(daemon.said.last().unwrap().contains("the list of pools"), "{:?}", daemon.said);
    story(data_dir, &[(&["pool", "status"], true, &["state: ONLINE", "does not import the pool by itself"])]);
    std::fs::remove_dir(&in_the_way).unwrap();
    // The next command tries again, whatever comes of it.
    story(data_dir, &[(&["pool", "export", "never"], false, &[]), (&["dataset", "create", "tank/x"], true, &[])]);
    assert!(std::fs::read_to_string(data_dir.join("pools.toml")).unwrap().contains("\"tank\""));
    daemon.stop();
}

/// An empty list was no pools: a first pool was made, and no other one was served.
#[test]
fn an_empty_list_is_not_no_pools() {
    let dir = tempfile::tempdir().unwrap();
    let opener = Arc::new(MemOpener::default());
    Running::start(dir.path(), &opener).stop();
    std::fs::write(dir.path().join("pools.toml"), "").unwrap();
    let error = Running::try_start(dir.path(), &opener, &[]).err().expect("an empty list").to_string();
    assert!(error.contains("it is empty") && error.contains("`tally serve --pool PATH`"), "{error}");
    // As it says.
    std::fs::remove_file(dir.path().join("pools.toml")).unwrap();
    let daemon = Running::try_start(dir.path(), &opener, &[dir.path()]).unwrap();
    assert!(listed(dir.path()).ends_with("\tONLINE\n"));
    daemon.stop();
}

/// A dataset that an `[[export]]` kept closed was renamed. The rule held for it until the next start, and behind that whoever
/// its `sharenfs` let in got in.
#[test]
fn a_renamed_dataset_keeps_its_table_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let table = |names: &[&str]| {
        let tables = names.iter().map(|name| format!("[[export]]\ndataset = {name:?}\nrules = \"off\"\n"));
        std::fs::write(data_dir.join("tally.toml"), tables.collect::<String>()).unwrap();
    };
    let rules = |dataset: &str| tally(data_dir, &["dataset", "get", "-H", "sharenfs", dataset]).1;
    let is_closed = |dataset: &str| rules(dataset).contains("sharenfs\toff\t[[export]] of ");
    table(&["tank/a"]);
    let first = Running::start(data_dir, &opener);
    story(
        data_dir,
        &[
            (&["dataset", "create", "-p", "-o", "sharenfs=10.0.0.0/8(rw)", "tank/a"], true, &[]),
            (&["dataset", "rename", "tank/a", "tank/b"], true, &[]),
            (&["dataset", "rename", "tank/b", "tank/c"], true, &[]),
        ],
    );
    assert!(is_closed("tank/c"), "{}", rules("tank/c"));
    // What cannot be kept is not promised.
    let in_the_way = data_dir.join("pools.toml.new");
    std::fs::create_dir(&in_the_way).unwrap();
    story(
        data_dir,
        &[
            (
                &["dataset", "rename", "tank/c", "tank/d"],
                false,
                &["'tank/c' was not renamed", "[[export]] for 'tank/d'"],
            ),
            (&["dataset", "list"], true, &["tank/c"]),
        ],
    );
    assert!(is_closed("tank/c"), "{}", rules("tank/c"));
    std::fs::remove_dir(&in_the_way).unwrap();
    first.stop();

    let second = Running::start(data_dir, &opener);
    assert!(is_closed("tank/c"), "{}", rules("tank/c"));
    story(data_dir, &[(&["dataset", "create", "tank/a"], true, &[])]);
    assert!(is_closed("tank/a") && is_closed("tank/c"), "the table says tank/a: {}", rules("tank/a"));
    second.stop();

    // Whoever writes a table for the new name has taken notice.
    table(&["tank/a", "tank/c"]);
    let third = Running::start(data_dir, &opener);
    assert!(is_closed("tank/a") && is_closed("tank/c"));
    third.stop();
    table(&["tank/a"]);
    let fourth = Running::start(data_dir, &opener);
    assert!(rules("tank/c").contains("10.0.0.0/8(rw)"), "{}", rules("tank/c"));
    fourth.stop();
}

/// The disk of a pool that had been missing for long came back, with a pool of its name in service meanwhile: at the next start
/// the old one had the name, and clients of the other waited, or found the old one's files.
#[test]
fn a_pool_that_comes_back_takes_nobodys_name() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    make_disks(&opener, data_dir, &["a", "b"]);
    let first = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "one", "a"], true, &[])]);
    first.stop();
    let disk = opener.remove(&data_dir.join("a")).unwrap();
    let second = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "one", "b"], true, &[]), (&["dataset", "create", "one/new"], true, &[])]);
    second.stop();
    opener.put(data_dir.join("a"), disk);
    for _ in 0..3 {
        let again = Running::start(data_dir, &opener);
        story(
            data_dir,
            &[
                (&["dataset", "list"], true, &["one/new"]),
                (
                    &["pool", "status", "one"],
                    true,
                    &["state: ONLINE", "state: UNAVAIL", "another pool 'one' was in service after it"],
                ),
            ],
        );
        again.stop();
    }
}

/// Disks in memory, and a directory that cannot be read.
struct Unreadable(Arc<MemOpener>);

impl Opener for Unreadable {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        self.0.open(path, access)
    }

    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        self.0.create(path, size, prewrite, progress)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        if directory.ends_with("unreadable") {
            Err(io::Error::other("the cable is out"))
        } else {
            self.0.list(directory)
        }
    }
}

/// One place behind `--pool` that could not be read kept the pools in the others from being served.
#[test]
fn a_place_that_cannot_be_read_does_not_stop_what_is_sound() {
    let (dir, disks) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let unreadable = disks.path().join("unreadable");
    std::fs::create_dir(&unreadable).unwrap();
    let sound = disks.path().join("sound");
    std::fs::create_dir(&sound).unwrap();
    let memory = Arc::new(MemOpener::default());
    make_disks(&memory, &sound, &["a"]);
    let daemon = Running::start(dir.path(), &memory);
    story(
        dir.path(),
        &[
            (&["pool", "create", "one", &sound.join("a").display().to_string()], true, &[]),
            (&["pool", "export", "one"], true, &[]),
        ],
    );
    daemon.stop();
    let opener = Arc::new(Unreadable(memory));
    let other = tempfile::tempdir().unwrap();
    let with = |places: &[&Path]| {
        let pool = places.iter().map(|place| place.to_path_buf()).collect();
        Running::start_with(ServeArgs { pool, ..Running::args(other.path()) }, Arc::clone(&opener) as Arc<dyn Opener>)
    };
    let error = with(&[&unreadable]).err().expect("there is nothing to serve").to_string();
    assert!(error.contains("the cable is out") && error.contains("unreadable"), "{error}");
    let daemon = with(&[&unreadable, &sound]).unwrap_or_else(|error| panic!("the daemon does not start: {error}"));
    let said = daemon.said.join("\n");
    assert!(said.contains("imported pool 'one'") && said.contains("unreadable: the cable is out"), "{said}");
    daemon.stop();
}

/// A dataset too many: the pool goes back to before it, by what is shown, and goes on from there.
#[test]
fn a_pool_goes_back_to_before_a_mistake() {
    // Groups come by themselves, every five seconds, and where the machine is so busy that several do there is no way back.
    let is_in_time = (0..5).any(|_| goes_back_to_before_a_mistake());
    assert!(is_in_time, "this machine is too slow for a mistake");
}

/// Of so many groups everything is there: what those before name may be in use again.
const GROUPS_WHOLE: u64 = 4;

/// False: it was too late for that.
fn goes_back_to_before_a_mistake() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["dataset", "create", "tank/kept"], true, &[])]);
    // Other groups may come by themselves where the machine is busy.
    let status = tally(data_dir, &["--json", "pool", "status", "tank"]).1;
    let open = status.split("\"txg_open\": ").nth(1).and_then(|rest| rest.split([',', '\n']).next()).unwrap();
    let before = open.trim().parse::<u64>().unwrap() - 1;
    story(
        data_dir,
        &[
            (&["dataset", "create", "tank/mistake"], true, &[]),
            (&["pool", "import", "--rewind", "-n", "tank"], false, &["is imported"]),
            (&["pool", "export", "tank"], true, &[]),
        ],
    );
    let shown = tally(data_dir, &["--json", "pool", "import", "--rewind", "-n", "tank"]).1;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let newest = shown["from"].as_u64().unwrap();
    if newest - before >= GROUPS_WHOLE {
        daemon.stop();
        return false;
    }
    let (to, mistake) = (before.to_string(), format!("  group {}, of ", before + 1));
    let dropped = format!("{} groups and ", newest - before);
    let back = ["pool", "import", "--rewind", &to, "tank"];
    story(
        data_dir,
        &[
            (&[&back[..], &["-n"]].concat(), true, &["Pool 'tank' goes back to", &mistake, "It could also go back to"]),
            (&["pool", "list"], true, &["no pools are imported"]),
            (
                &["pool", "import", "--rewind", "0", "-n", "tank"],
                false,
                &["cannot go back to group 0", "what is whole"],
            ),
            (&[&back[..], &["--readonly"]].concat(), true, &["goes back to", "imported pool 'tank'"]),
            (&["pool", "export", "tank"], true, &[]),
            (&[&back[..], &["--yes"]].concat(), true, &["imported pool 'tank'", &dropped]),
            (&["dataset", "list", "-H"], true, &["tank/kept"]),
            (&["dataset", "create", "tank/mistake"], true, &[]),
            (&["pool", "export", "tank"], true, &[]),
            (&["pool", "import", "tank"], true, &["imported pool 'tank'"]),
            (&["dataset", "list", "-H"], true, &["tank/kept", "tank/mistake"]),
        ],
    );
    daemon.stop();
    true
}
