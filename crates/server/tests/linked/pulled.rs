//! A disk is pulled in the middle of each command on disks, behind any of its requests, and is back when the command has ended.
//!
//! The command is done or says what to do next, and comes to its end; the daemon and its other pool go on; a client beside it
//! has only waited. With the disk back, what the words say brings all disks back, the command can be given again if it was not
//! done, and everything is there that was acknowledged: before it, and while the disk was away.
//!
//! By default a disk is pulled behind each of the first and of the last requests and some between; `-- --ignored` takes them all.

use std::sync::mpsc::{Receiver, channel};

use super::*;

/// A disk that is pulled behind so many requests.
struct Pulled {
    disk: MemDisk,
    left: Mutex<u64>,
    asked: AtomicUsize,
}

impl Pulled {
    fn put(data_dir: &Path, opener: &MemOpener, name: &str) -> Arc<Self> {
        let pulled = Self { disk: MemDisk::new(32 << 20), left: Mutex::new(u64::MAX), asked: AtomicUsize::new(0) };
        let pulled = Arc::new(pulled);
        opener.put(data_dir.join(name), Arc::clone(&pulled) as Arc<dyn Disk>);
        pulled
    }

    /// From now on so many requests are carried out, and no other one.
    fn pull_behind(&self, requests: u64) {
        *self.left.lock().unwrap() = requests;
        self.asked.store(0, Ordering::SeqCst);
    }

    fn ask(&self) -> io::Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut left = self.left.lock().unwrap();
        *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the disk was pulled"))?;
        Ok(())
    }
}

impl Disk for Pulled {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.ask()?;
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.ask()?;
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.ask()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

/// What is tried.
struct Case {
    /// How the pool `dozer` is made.
    vdevs: &'static [&'static str],
    /// What is done first.
    first: &'static [&'static [&'static str]],
    command: &'static [&'static str],
    /// Which disks are pulled in turn.
    pulled: &'static [&'static str],
    /// What `status` calls disks when it is done and all are back; nothing: they are no part of a pool.
    then: &'static [(&'static str, &'static str)],
}

const NEW: &str = "new";
/// In a command: where the disks are.
const HERE: &str = "HERE";
/// Instead of a command: this disk was away while something was written, and is there again.
const LOSE: &str = "lose";
const MIRROR: &[&str] = &["mirror", "a", "b"];
const ALL_WELL: &[(&str, &str)] = &[("a", "ONLINE"), ("b", "ONLINE"), (NEW, "")];
const CASES: &[Case] = &[
    Case {
        vdevs: &["mirror", "a", "b", "c"],
        first: &[],
        command: &["pool", "detach", "dozer", "c"],
        pulled: &["a", "c"],
        then: &[("a", "ONLINE"), ("b", "ONLINE"), ("c", "")],
    },
    Case {
        vdevs: MIRROR,
        first: &[],
        command: &["pool", "offline", "dozer", "b"],
        // The other one is not asked for anything.
        pulled: &["a"],
        then: &[("a", "ONLINE"), ("b", "OFFLINE")],
    },
    Case {
        vdevs: MIRROR,
        first: &[&["pool", "offline", "dozer", "b"], &["dataset", "create", "dozer/before"]],
        command: &["pool", "online", "dozer", "b"],
        pulled: &["a", "b"],
        then: ALL_WELL,
    },
    Case {
        vdevs: MIRROR,
        first: &[],
        command: &["pool", "add", "dozer", "spare", NEW],
        pulled: &["a", NEW],
        then: &[("a", "ONLINE"), ("b", "ONLINE"), (NEW, "AVAIL")],
    },
    Case {
        vdevs: MIRROR,
        first: &[&["pool", "add", "dozer", "spare", NEW]],
        command: &["pool", "remove", "dozer", NEW],
        pulled: &["a", NEW],
        then: ALL_WELL,
    },
    Case { vdevs: MIRROR, first: &[], command: &["pool", "export", "dozer"], pulled: &["a"], then: &[("a", "")] },
    Case { vdevs: &["a"], first: &[], command: &["pool", "export", "dozer"], pulled: &["a"], then: &[("a", "")] },
    Case {
        vdevs: MIRROR,
        first: &[],
        command: &["pool", "create", "other", "mirror", NEW, "c"],
        pulled: &[NEW],
        then: &[(NEW, "ONLINE"), ("c", "ONLINE")],
    },
    Case {
        vdevs: MIRROR,
        first: &[],
        command: &["pool", "create", "other", NEW],
        pulled: &[NEW],
        then: &[(NEW, "ONLINE")],
    },
    Case {
        vdevs: MIRROR,
        first: &[],
        command: &["pool", "attach", "dozer", "a", NEW],
        pulled: &["a", NEW],
        then: &[("a", "ONLINE"), ("b", "ONLINE"), (NEW, "ONLINE")],
    },
    Case {
        vdevs: &["a"],
        first: &[],
        command: &["pool", "attach", "dozer", "a", NEW],
        pulled: &["a", NEW],
        then: &[("a", "ONLINE"), (NEW, "ONLINE")],
    },
    Case {
        vdevs: MIRROR,
        first: &[],
        command: &["pool", "replace", "dozer", "b", NEW],
        pulled: &["a", "b", NEW],
        then: &[("a", "ONLINE"), ("b", ""), (NEW, "ONLINE")],
    },
    Case {
        vdevs: &["a"],
        first: &[],
        command: &["pool", "replace", "dozer", "a", NEW],
        pulled: &["a", NEW],
        then: &[("a", ""), (NEW, "ONLINE")],
    },
    Case { vdevs: MIRROR, first: &[], command: &["pool", "scrub", "-w", "dozer"], pulled: &["a"], then: ALL_WELL },
    Case {
        vdevs: &["a"],
        first: &[],
        command: &["pool", "scrub", "-w", "dozer"],
        pulled: &["a"],
        then: &[("a", "ONLINE")],
    },
    Case {
        vdevs: MIRROR,
        first: &[&["pool", "export", "dozer"]],
        command: &["pool", "import", "-d", HERE, "dozer"],
        pulled: &["a"],
        then: ALL_WELL,
    },
    Case {
        vdevs: &["a"],
        first: &[&["pool", "export", "dozer"]],
        command: &["pool", "import", "-d", HERE, "dozer"],
        pulled: &["a"],
        then: &[("a", "ONLINE")],
    },
    // The groups that it gives up are those of scrubs.
    Case {
        vdevs: MIRROR,
        first: &[
            &["pool", "scrub", "-w", "dozer"],
            &["pool", "scrub", "-w", "dozer"],
            &["pool", "scrub", "-w", "dozer"],
            &["pool", "export", "dozer"],
        ],
        command: &["pool", "import", "-d", HERE, "-y", "--rewind", "dozer"],
        pulled: &["a"],
        then: ALL_WELL,
    },
    Case {
        vdevs: MIRROR,
        first: &[&["pool", "destroy", "dozer"]],
        command: &["pool", "import", "-D", "-d", HERE, "dozer"],
        pulled: &["a"],
        then: ALL_WELL,
    },
    Case { vdevs: MIRROR, first: &[], command: &["pool", "destroy", "dozer"], pulled: &["a"], then: &[("a", "")] },
    Case { vdevs: &["a"], first: &[], command: &["pool", "destroy", "dozer"], pulled: &["a"], then: &[("a", "")] },
    // The pool is suspended.
    Case {
        vdevs: &["a"],
        first: &[&[LOSE, "a"]],
        command: &["pool", "clear", "dozer"],
        pulled: &["a"],
        then: &[("a", "ONLINE")],
    },
    Case {
        vdevs: MIRROR,
        first: &[&[LOSE, "b"]],
        command: &["pool", "reopen", "dozer"],
        pulled: &["a", "b"],
        then: ALL_WELL,
    },
    // Once the disk that it stands in for is there again it is given back.
    Case {
        vdevs: MIRROR,
        first: &[&["pool", "add", "dozer", "spare", NEW], &[LOSE, "b"]],
        command: &["pool", "replace", "dozer", "b", NEW],
        pulled: &["a", NEW],
        then: &[("a", "ONLINE"), ("b", "ONLINE")],
    },
    Case {
        vdevs: &["mirror", "a", "b", "c"],
        first: &[],
        command: &["pool", "detach", "-f", "dozer", "c"],
        pulled: &["a", "c"],
        then: &[("a", "ONLINE"), ("b", "ONLINE"), ("c", "")],
    },
    Case {
        vdevs: MIRROR,
        first: &[&["pool", "create", "other", NEW], &["pool", "export", "other"]],
        command: &["pool", "labelclear", "-f", NEW],
        pulled: &[NEW],
        then: ALL_WELL,
    },
    // What `upgrade` does with labels, which has nothing to enable yet.
    Case {
        vdevs: MIRROR,
        first: &[],
        command: &["pool", "set", "compatibility=0.1", "dozer"],
        pulled: &["a"],
        then: ALL_WELL,
    },
    Case {
        vdevs: &["a"],
        first: &[],
        command: &["pool", "set", "compatibility=0.1", "dozer"],
        pulled: &["a"],
        then: &[("a", "ONLINE")],
    },
];

impl Case {
    /// Whether nobody can wait for the pool: it was destroyed, and its handles are stale.
    fn destroys(&self) -> bool {
        let is_destroy = |words: &[&str]| words[..2] == ["pool", "destroy"];
        is_destroy(self.command) || self.first.iter().any(|words| is_destroy(words))
    }
}

/// What a client was told is stable before the command.
const DATA_BYTES: usize = 96 << 10;
/// And what it is told while the disk is away, or when it is back.
const MEANWHILE: &[u8] = b"written while a disk was away";

fn data() -> Vec<u8> {
    let next = |last: &u64| Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(3), next).take(DATA_BYTES).map(|number: u64| (number >> 56) as u8).collect()
}

/// Whether somebody who reads this knows what to do next: a command, or to give this one again.
fn says_what_is_next(said: &str) -> bool {
    let said = said.to_lowercase();
    let mut words = said.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
    words.any(|word| word == "again" || word == "-f")
        || ["`tally pool ", "name another"].iter().any(|words| said.contains(words))
}

/// A daemon, its directory, and where its clients find `dozer`.
struct Place {
    dir: tempfile::TempDir,
    opener: Arc<MemOpener>,
    target: Target,
    daemon: Running,
}

/// What came of a command.
struct Outcome {
    /// How many requests the disk got.
    asked: usize,
    well: bool,
    said: String,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let opener = Arc::new(MemOpener::default());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let args = tally_server::config::ServeArgs { port: Some(port), ..Running::args(dir.path()) };
        let daemon = Running::start_with(args, Arc::clone(&opener) as Arc<dyn Opener>).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { dir, opener, target: Target { nfs: address, mount: address, export: "/dozer".into() }, daemon }
    }

    fn say(&self, words: &[&str]) -> String {
        let (well, text) = self.ask(words);
        assert!(well, "{words:?}: {text}");
        text
    }

    /// A command that comes to its end, whatever that is.
    fn ask(&self, words: &[&str]) -> (bool, String) {
        let (sender, end) = channel();
        let here = self.dir.path().display().to_string();
        let own = words.iter().map(|word| if *word == HERE { here.clone() } else { (*word).to_owned() });
        let data_dir = self.dir.path().to_owned();
        let own: Vec<String> = own.collect();
        thread::spawn(move || {
            let words: Vec<&str> = own.iter().map(String::as_str).collect();
            sender.send(tally(&data_dir, &words))
        });
        end.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{words:?} does not end"))
    }

    fn import(&self) {
        let (well, mut text) = self.ask(&["pool", "import", "-d", HERE, "dozer"]);
        // A disk took that in before it failed.
        if !well && text.contains("was destroyed; `tally pool import -D`") {
            text = self.say(&["pool", "import", "-D", "-d", HERE, "dozer"]);
        } else {
            assert!(well, "{text}");
        }
        assert!(!text.contains("given up"), "{text}");
    }

    /// Runs the case with this disk pulled behind so many requests.
    fn run(&self, case: &Case, pulled: &str, requests: u64) -> Outcome {
        let data_dir = self.dir.path();
        let disks = ["a", "b", "c", NEW].map(|name| (name, Pulled::put(data_dir, &self.opener, name)));
        let victim = &disks.iter().find(|(name, _)| *name == pulled).unwrap().1;
        let create = ["pool", "create", "-O", "sharenfs=127.0.0.0/8(rw,no_root_squash,insecure)", "dozer"];
        self.say(&[&create, case.vdevs].concat());
        let root = Connection::mount(&self.target).unwrap();
        let mut client = Connection::open(self.target.nfs).unwrap();
        let file = client.create(&root, "file").unwrap();
        client.write(&file, 0, &data(), Stable::FileSync).unwrap();
        drop(client);
        for words in case.first {
            match words {
                [LOSE, name] => self.lose(&disks.iter().find(|(other, _)| other == name).unwrap().1),
                words => drop(self.say(words)),
            }
        }
        victim.pull_behind(requests);
        let (well, said) = self.ask(case.command);
        let asked = victim.asked.load(Ordering::SeqCst);
        self.say(&["dataset", "create", "tank/there"]);
        self.say(&["dataset", "destroy", "tank/there"]);
        let writing = (!case.destroys()).then(|| self.write_meanwhile(root));
        victim.pull_behind(u64::MAX);
        let is_imported = self.bring_back("dozer");
        if let (true, Some(writing)) = (is_imported, &writing) {
            is_answered(case, writing);
        }
        if !well {
            self.give_again(case, &said);
        }
        self.bring_back("other");
        self.check(case, writing.as_ref().filter(|_| !is_imported));
        Outcome { asked, well, said }
    }

    /// The disk was away while a dataset was made, or would have been.
    fn lose(&self, disk: &Pulled) {
        disk.pull_behind(0);
        let _ = self.ask(&["dataset", "create", "dozer/lost"]);
        disk.pull_behind(u64::MAX);
    }

    /// A client writes while the disk is away. It is answered, or waits for the pool, when this returns; and then by what this gives.
    fn write_meanwhile(&self, root: tally_bench::wire::Handle) -> Receiver<Result<(), String>> {
        let (sender, answer) = channel();
        let address = self.target.nfs;
        thread::spawn(move || {
            let again = |mut request: Box<dyn FnMut() -> Result<(), String> + '_>| loop {
                match request() {
                    Err(status) if status.contains("JUKEBOX") => thread::sleep(Duration::from_millis(5)),
                    outcome => return outcome,
                }
            };
            let mut client = Connection::open(address).unwrap();
            let mut file = None;
            let mut outcome = again(Box::new(|| {
                file = Some(client.create(&root, "meanwhile").map_err(|error| format!("{error:#}"))?);
                Ok(())
            }));
            if let Some(file) = file {
                outcome = again(Box::new(|| {
                    let written = client.write(&file, 0, MEANWHILE, Stable::FileSync);
                    written.map(drop).map_err(|error| format!("{error:#}"))
                }));
            }
            let _ = sender.send(outcome);
        });
        let (told, answers) = channel();
        let given_up = Instant::now() + PATIENCE;
        loop {
            if let Ok(outcome) = answer.recv_timeout(Duration::from_millis(2)) {
                let _ = told.send(outcome);
                return answers;
            }
            let (is_known, status) = self.ask(&["pool", "status", "dozer"]);
            if !is_known || status.contains("state: SUSPENDED") || status.contains("state: UNAVAIL") {
                return answer;
            }
            assert!(Instant::now() < given_up, "a client waits for a pool that is well: {status}");
        }
    }

    /// With the disk back, what `status` says is done. Whether the pool is imported.
    fn bring_back(&self, pool: &str) -> bool {
        let (is_known, status) = self.ask(&["pool", "status", pool]);
        if !is_known {
            return false;
        }
        if status.contains("state: UNAVAIL") {
            self.import();
        } else if status.contains("state: SUSPENDED") {
            self.say(&["pool", "clear", pool]);
        }
        let given_up = Instant::now() + PATIENCE;
        let (well, text) = loop {
            // A copy may go on by itself, and may begin to behind the wait.
            self.say(&["pool", "wait", pool]);
            let (well, text) = self.ask(&["pool", "reopen", pool]);
            let is_under_way = ["is still running", "is being brought up to date"].iter().any(|way| text.contains(way));
            if well || !is_under_way || Instant::now() > given_up {
                break (well, text);
            }
        };
        if !well {
            // It was to become a disk of a new pool, and never got a label.
            assert!(
                text.contains(&format!("/{NEW} cannot")) && text.contains("`tally pool replace` takes it in"),
                "{text}"
            );
            self.say(&["pool", "replace", pool, NEW]);
        }
        self.say(&["pool", "wait", pool]);
        true
    }

    /// What was not done can be done now; or it was, or goes on by itself in a moment.
    fn give_again(&self, case: &Case, said: &str) {
        let (mut well, mut text) = self.ask(case.command);
        if !well
            && !case.command.contains(&"-f")
            && ["-f", "force it"].iter().any(|way| said.contains(way) || text.contains(way))
        {
            let [pool, verb, words @ ..] = case.command else { panic!("{:?}", case.command) };
            (well, text) = self.ask(&[&[*pool, *verb, "-f"], words].concat());
        }
        let given_up = Instant::now() + PATIENCE;
        while !well && !is_as_wanted(&self.say(&["pool", "status"]), case.then) {
            assert!(Instant::now() < given_up, "{:?} said {said}\nand given again: {text}", case.command);
            // As whoever reads that would: the new disk is there, and the old one still.
            if case.command[1] == "replace" && text.contains("`tally pool detach`") {
                let _ = self.ask(&["pool", "detach", "dozer", case.command[3]]);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// With the disk back, everything is there, and the command is done.
    fn check(&self, case: &Case, writing: Option<&Receiver<Result<(), String>>>) {
        let status = self.say(&["pool", "status"]);
        assert!(is_as_wanted(&status, case.then), "{:?}: {status}", case.command);
        if self.ask(&["pool", "status", "dozer"]).0 {
            self.say(&["pool", "export", "dozer"]);
        }
        if case.command[1] == "destroy" {
            assert!(!self.ask(&["pool", "import", "-d", HERE, "dozer"]).0, "it is destroyed");
            self.say(&["pool", "import", "-D", "-d", HERE, "dozer"]);
        } else {
            self.import();
        }
        if let Some(writing) = writing {
            is_answered(case, writing);
        }
        let root = Connection::mount(&self.target).unwrap();
        let mut client = Connection::open(self.target.nfs).unwrap();
        let file = client.lookup(&root, "file").unwrap();
        let (half, mut found) = (DATA_BYTES as u32 / 2, Vec::new());
        for at in [0, half] {
            found.extend(client.read(&file, u64::from(at), half).unwrap());
        }
        assert!(found == data(), "{:?}: the file is another one", case.command);
        if !case.destroys() {
            let meanwhile = client.lookup(&root, "meanwhile").unwrap();
            assert_eq!(client.read(&meanwhile, 0, MEANWHILE.len() as u32).unwrap(), MEANWHILE);
        }
        drop(client);
        if case.command[1] == "labelclear" {
            // It is nobody's: nobody has to force it.
            self.say(&["pool", "create", "other", NEW]);
        }
        if case.first.iter().any(|words| words[0] == "dataset") {
            assert!(self.say(&["dataset", "list"]).contains("dozer/before"));
        }
        self.say(&["pool", "destroy", "dozer"]);
        let _ = self.ask(&["pool", "destroy", "other"]);
    }
}

/// The pool is there: its client was answered, or is now.
fn is_answered(case: &Case, writing: &Receiver<Result<(), String>>) {
    let answered = writing.recv_timeout(PATIENCE).expect("the pool is there, and a client waits still");
    assert_eq!(answered, Ok(()), "{:?}: a client has only to wait", case.command);
}

/// Whether `status` calls these disks so.
fn is_as_wanted(status: &str, then: &[(&str, &str)]) -> bool {
    then.iter().all(|(disk, wanted)| {
        let own = format!("/{disk}");
        let mut lines =
            status.lines().map(str::split_whitespace).filter_map(|mut words| Some((words.next()?, words.next())));
        let line = lines.find(|(name, state)| {
            name.ends_with(&own) && state.is_some_and(|word| word.chars().all(|c| c.is_ascii_uppercase()))
        });
        line.and_then(|(_, state)| state).unwrap_or_default() == *wanted
    })
}

/// Behind which requests of so many the disk is pulled: at first and at last behind each, and at some between.
fn sample(asked: usize) -> BTreeSet<u64> {
    let asked = asked as u64;
    let between = (1..4).map(|part| asked * part / 4);
    (0..2).chain(between).chain(asked.saturating_sub(3)..asked).filter(|at| *at < asked).collect()
}

fn pull(cases: &[Case], moments: impl Fn(usize) -> BTreeSet<u64>) {
    let place = Place::new();
    let here = place.dir.path().display().to_string();
    let mut speechless = Vec::new();
    for case in cases {
        for pulled in case.pulled {
            let Outcome { asked, well, said } = place.run(case, pulled, u64::MAX);
            assert!(well, "{:?}: {said}", case.command);
            assert!(asked > 0, "{:?} never asks {pulled}", case.command);
            for at in moments(asked) {
                let shown = format!("{:?} of {:?}, {pulled} pulled behind {at} of {asked}", case.command, case.vdevs);
                println!("{shown}");
                let Outcome { well, said, .. } = place.run(case, pulled, at);
                println!("    {well}: {said}");
                let is_named = ["dozer", "'other'", &here].iter().any(|name| said.contains(name));
                if !(well || is_named && says_what_is_next(&said)) {
                    speechless.push(format!("{shown}: {said}"));
                }
            }
        }
    }
    place.daemon.stop();
    assert!(speechless.is_empty(), "nobody knows what to do next:\n{}", speechless.join("\n"));
}

#[test]
fn a_disk_that_is_pulled_in_the_middle_of_a_command_costs_nothing() {
    pull(CASES, sample);
}

#[test]
#[ignore = "minutes"]
fn a_disk_that_is_pulled_at_any_request_of_a_command_costs_nothing() {
    pull(CASES, |asked| (0..asked as u64).collect());
}
