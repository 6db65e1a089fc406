//! What an administrator asks beside disks and datasets: who is not well, labels, what is to be waited for.

use clap::Parser;
use tally_server::cli::{self, Cli, Console, Interrupts};

use super::*;

fn disks<const N: usize>(data_dir: &Path, opener: &MemOpener, names: [&str; N]) -> [Arc<Failing>; N] {
    names.map(|name| {
        let disk = Failing::new(32 << 20);
        opener.put(data_dir.join(name), Arc::clone(&disk) as Arc<dyn Disk>);
        disk
    })
}

#[test]
fn who_is_well_is_told_in_a_line_and_who_is_not_in_full() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let [_, b] = disks(data_dir, &opener, ["a", "b"]);
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "mirror", "a", "b"], true, &[]),
            (&["pool", "status", "-x"], true, &["all pools are healthy\n"]),
            (&["pool", "status", "-x", "dozer"], true, &["pool 'dozer' is healthy\n"]),
            (&["--json", "pool", "status", "-x"], true, &["[]"]),
            (&["pool", "reopen", "dozer"], true, &["no disk of 'dozer' is away"]),
        ],
    );
    b.fails.store(true, Ordering::SeqCst);
    story(
        data_dir,
        &[
            (&["dataset", "create", "dozer/x"], true, &[]),
            (&["pool", "status", "-x"], false, &["pool: dozer", "state: DEGRADED", "FAULTED", "1 pool is not well"]),
            (&["pool", "status", "-x", "tank"], true, &["pool 'tank' is healthy"]),
            (&["--json", "pool", "status", "-x"], false, &["\"name\": \"dozer\""]),
            (&["pool", "reopen", "dozer"], false, &["the cable is out", "Do this again"]),
        ],
    );
    let (_, all) = tally(data_dir, &["pool", "status", "-x"]);
    assert!(!all.contains("tank"), "{all}");
    b.fails.store(false, Ordering::SeqCst);
    story(
        data_dir,
        &[
            (&["pool", "reopen", "dozer"], true, &["b is online"]),
            (&["pool", "status", "-x"], true, &["all pools are healthy"]),
            (&["pool", "wait", "-t", "scrub,free", "dozer"], true, &[]),
            (&["pool", "wait", "gone"], false, &["no pool 'gone'"]),
        ],
    );
    daemon.stop();
}

/// A wait for a scrub ends when that does, and one for a copy of which there is none does not wait for it.
#[test]
fn a_wait_is_for_what_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let [a] = disks(data_dir, &opener, ["a"]);
    story(data_dir, &[(&["pool", "create", "dozer", "a"], true, &[])]);
    // Every read is one that can be held.
    a.long.store(0, Ordering::SeqCst);
    a.let_through(Some(0));
    story(
        data_dir,
        &[
            (&["pool", "scrub", "dozer"], true, &["has begun"]),
            (&["pool", "wait", "-t", "resilver,replace,remove", "dozer"], true, &[]),
        ],
    );
    let here = data_dir.to_owned();
    let waiting = thread::spawn(move || tally(&here, &["pool", "wait", "dozer"]));
    thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished(), "the scrub is not over");
    a.let_through(None);
    assert_eq!(waiting.join().unwrap(), (true, String::new()));
    wait_for(data_dir, &["pool", "status", "dozer"], "scrub repaired 0 blocks");
    daemon.stop();
}

#[test]
fn a_label_is_erased_where_nobody_wants_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let _disks = disks(data_dir, &opener, ["a", "b", "c", "d"]);
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "mirror", "a", "b"], true, &[]),
            (&["pool", "create", "other", "c"], true, &[]),
            (&["pool", "labelclear", "a"], false, &["a disk of pool 'dozer', which is imported", "pool detach dozer"]),
            (&["pool", "labelclear", "-f", "a"], false, &["which is imported"]),
            (&["pool", "labelclear", "d"], false, &["has no label"]),
            (&["pool", "labelclear", "nowhere"], false, &["nowhere"]),
            (&["pool", "export", "dozer"], true, &[]),
            (&["pool", "labelclear", "a"], false, &["'dozer'", "was exported", "-f erases"]),
            (&["pool", "labelclear", "-fn", "a"], true, &["would erase", "'dozer'"]),
            (&["pool", "labelclear", "-f", "a"], true, &["erased the label", "'dozer'"]),
            (&["pool", "labelclear", "a"], false, &["has no label"]),
            // The other one is whole, and knows that one is missing.
            (&["pool", "import", "dozer"], true, &[]),
            (&["pool", "status", "dozer"], true, &["MISSING"]),
            (&["pool", "destroy", "other"], true, &[]),
            (&["pool", "labelclear", "c"], true, &["erased the label", "'other'"]),
            (&["pool", "import", "-D"], true, &["no such pools were found"]),
        ],
    );
    daemon.stop();
}

/// Who did what, and when, is asked when something is wrong: perhaps after a crash, on another machine.
#[test]
fn what_was_done_to_a_pool_stands_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let _disks = disks(data_dir, &opener, ["a", "b"]);
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "a"], true, &[]),
            (&["dataset", "create", "-o", "sync=disabled", "dozer/x"], true, &[]),
            (&["dataset", "create", "dozer/x"], false, &["exists already"]),
            (&["pool", "attach", "dozer", "a", "b"], true, &[]),
            (&["pool", "status", "dozer"], true, &[]),
            (&["pool", "export", "dozer"], true, &[]),
            (&["pool", "history", "dozer"], false, &["no pool 'dozer'"]),
            (&["pool", "import", "dozer"], true, &[]),
            (&["dataset", "rename", "dozer/x", "dozer/y"], true, &[]),
        ],
    );
    let words_of = |text: &str| -> Vec<String> {
        let words = |line: &str| Some(line.split_once(" tally ")?.1.replace(&data_dir.display().to_string(), ""));
        text.lines().filter_map(words).collect()
    };
    let expected = [
        "pool create dozer /a",
        "dataset create -o sync=disabled dozer/x",
        "pool attach dozer a /b",
        "pool export dozer",
        "pool import dozer",
        "dataset rename dozer/x dozer/y",
    ];
    let (_, text) = tally(data_dir, &["pool", "history", "dozer"]);
    assert!(text.starts_with("History for 'dozer':\n20"), "{text}");
    assert_eq!(words_of(&text), expected, "{text}");
    daemon.stop();

    let daemon = Running::start(data_dir, &opener);
    let (_, text) = tally(data_dir, &["pool", "history", "-l"]);
    let by = |line: &String| line.split_once(" [user ").map(|(words, by)| (words.to_owned(), by.contains(" on ")));
    let expected: Vec<_> = expected.map(|words| Some((words.to_owned(), true))).into();
    assert_eq!(words_of(&text).iter().map(by).collect::<Vec<_>>(), expected, "{text}");
    story(
        data_dir,
        &[(&["--json", "pool", "history"], true, &["\"words\": \"tally pool export dozer\"", "\"user\": \""])],
    );
    daemon.stop();
}

#[test]
fn what_has_happened_is_told_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    let [_, b] = disks(data_dir, &opener, ["a", "b"]);
    story(data_dir, &[(&["pool", "create", "dozer", "mirror", "a", "b"], true, &[])]);
    b.fails.store(true, Ordering::SeqCst);
    story(data_dir, &[(&["dataset", "create", "dozer/x"], true, &[])]);
    let text = wait_for(data_dir, &["events"], "statechange");
    assert!(text.contains("is FAULTED"), "{text}");
    story(data_dir, &[(&["pool", "scrub", "-w", "dozer"], true, &[]), (&["pool", "export", "dozer"], true, &[])]);
    let (_, text) = tally(data_dir, &["events"]);
    let at = |class: &str| text.find(class).unwrap_or_else(|| panic!("no {class}: {text}"));
    assert!(at("pool_import") < at("statechange") && at("statechange") < at("pool_export"), "{text}");
    story(data_dir, &[(&["--json", "events"], true, &["\"class\":\"pool_export\"", "\"number\":1"])]);
    daemon.stop();
}

/// What was seen between two looks only was told by nobody, and a start of the daemon forgot all.
#[test]
fn what_has_happened_is_known_behind_a_start_and_what_was_short_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    disks(data_dir, &opener, ["a", "b"]);
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "mirror", "a", "b"], true, &[]),
            (&["pool", "offline", "dozer", "b"], true, &[]),
            (&["pool", "online", "dozer", "b"], true, &[]),
            (&["pool", "wait", "dozer"], true, &[]),
            (&["pool", "scrub", "-w", "dozer"], true, &[]),
        ],
    );
    let told = wait_for(data_dir, &["events"], "scrub_finish");
    let is_of_dozer = |line: &&str| line.contains(" dozer: ");
    let of_dozer = |text: &str| text.lines().filter(is_of_dozer).map(str::to_owned).collect::<Vec<_>>();
    let before = of_dozer(&told);
    assert!(before.iter().any(|line| line.ends_with("was ONLINE, and is OFFLINE")), "{told}");
    assert!(before.iter().any(|line| line.contains("resilver_finish")), "{told}");
    daemon.stop();

    let daemon = Running::start(data_dir, &opener);
    let told = of_dozer(&wait_for(data_dir, &["events"], "dozer: "));
    assert_eq!(told[..before.len()], before, "{told:#?}");
    let behind: Vec<_> = told[before.len()..].iter().map(|line| line.split_once(' ').unwrap().1.trim()).collect();
    assert!(behind[0].starts_with("pool_import"), "{told:#?}");
    std::thread::sleep(std::time::Duration::from_millis(600));
    let (_, later) = tally(data_dir, &["events"]);
    assert_eq!(of_dozer(&later).len(), before.len() + 1, "a scrub ends once, and a pool is imported once: {later}");
    story(data_dir, &[(&["pool", "export", "dozer"], true, &[]), (&["pool", "import", "dozer"], true, &[])]);
    let (_, later) = tally(data_dir, &["events"]);
    assert_eq!(of_dozer(&later).len(), before.len() + 3, "what was known before the export stays one event: {later}");
    daemon.stop();
}

/// Where a command writes that goes on until somebody ends it: the next write behind `is_over` is refused, as by a pipe whose
/// reader has gone.
#[derive(Clone, Default)]
struct Told {
    text: Arc<Mutex<Vec<u8>>>,
    is_over: Arc<AtomicBool>,
}

impl std::io::Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.lock().unwrap().extend_from_slice(bytes);
        self.flush().map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.is_over.load(Ordering::SeqCst) { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

impl Told {
    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }

    fn wait_for(&self, expected: &str) -> String {
        let given_up = Instant::now() + PATIENCE;
        while !self.text().contains(expected) {
            assert!(Instant::now() < given_up, "nothing of {expected:?} is told: {}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.text()
    }
}

/// `events -f` tells what was, and then each event once, when it happens, until nobody listens any more.
#[test]
fn events_are_followed_and_each_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let daemon = Running::start(data_dir, &opener);
    disks(data_dir, &opener, ["a", "b"]);
    story(data_dir, &[(&["pool", "create", "dozer", "mirror", "a", "b"], true, &[])]);
    wait_for(data_dir, &["events"], "dozer: ");
    let told = Told::default();
    let follows = {
        let (told, data_dir) = (told.clone(), data_dir.to_owned());
        std::thread::spawn(move || follow(&data_dir, told))
    };
    let before = told.wait_for("dozer: ");
    assert!(!before.contains("scrub_finish"), "{before}");
    story(data_dir, &[(&["pool", "scrub", "-w", "dozer"], true, &[])]);
    told.wait_for("scrub_finish");
    story(data_dir, &[(&["pool", "offline", "dozer", "b"], true, &[])]);
    let text = told.wait_for("is OFFLINE");
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "an event is told twice: {text}");
    assert!(text.find("scrub_finish") < text.find("is OFFLINE"), "{text}");
    told.is_over.store(true, Ordering::SeqCst);
    assert!(follows.join().unwrap().is_err(), "who listens has gone");
    daemon.stop();
}

/// `tally events -f` with its output there.
fn follow(data_dir: &Path, mut out: Told) -> Result<(), String> {
    let mut cli = Cli::try_parse_from(["tally", "events", "-f"]).unwrap();
    cli.socket = Some(data_dir.join("tally.sock"));
    let mut err = Vec::new();
    let mut console = Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never };
    cli::run(&cli, data_dir, &mut console).map_err(|failure| failure.to_string())
}
