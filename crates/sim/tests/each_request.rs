//! What a disk can do wrong, done at every one of its requests.
//!
//! An import with a replay, the sync of a group, a scrub, a disk that was away and comes back, one that joins, one that
//! replaces another, and a spare that stands in and is given back: each is run on a small pool of one disk, of a mirror of two, and
//! of a log device or two beside those, once for each request that a disk gets meanwhile, and in each way that something can befall this request. Then the power goes, the disks are well again, and the pool
//! is imported.
//!
//! | | what must hold |
//! |---|---|
//! | where another disk has everything | the work is done, who writes meanwhile is answered, and nothing is damaged afterwards |
//! | where none has | it is done, or it fails and says so; behind the fault everything that was answered is there |
//! | and what has rotted was there once | who asks for it gets an error, and the report names it, or the import is refused |
//! | a disk that the labels call good | has everything alone, unless it is the one that rotted |
//!
//! A scrub that says that nothing is lost has lost nothing. A copy that could not read everything has a list of what it may lack
//! (docs/design/0014): alone it gives the rest, and an error for that. The last frame of the log has no witness (rules F27): where it has
//! rotted, and no other disk has it, the last file may be as if it had never been answered. So it is if the write of that frame was
//! lost; and if it went astray over the frame before it, the file of that one may be as well, as both frames are gone then.
//!
//! And two at once, which are drawn: something befalls a request of another disk, too, and perhaps the power goes before it is over. Then
//! no disk is one that another stands in for.

mod small_pool;

use std::ops::Range;
use std::time::Duration;

use small_pool::{
    Clients, Command, Files, NEW, Start, agreed, carry_out, import_and_check, is_spare, leaves_an_older_state,
};
use tally_fs::filer::ImportOptions;
use tally_sim::chance::Chance;
use tally_sim::disk::{Kept, Lie, Mishap, Sort};
use tally_sim::machine::{Machine, POOL};
use tally_sim::sound::{sound, sound_above_rot};
use tally_vfs::{Cred, Identity, Names};

const ONE: &[&str] = &["/d/data"];
const MIRROR: &[&str] = &["mirror", "/d/data", "/d/data2"];
const THREE: &[&str] = &["mirror", "/d/data", "/d/data2", "/d/data3"];
const LOG: &[&str] = &["/d/data", "log", "/d/slog"];
const LOG_MIRROR: &[&str] = &["mirror", "/d/data", "/d/data2", "log", "mirror", "/d/slog", "/d/slog2"];

/// As long as a disk hangs that tries again and again.
const HANG: Duration = Duration::from_secs(120);
/// Over which of the pages that were written before a write goes astray that comes behind so many others: another one each time.
const ASTRAY: u64 = 7919;

/// What befalls a request.
#[derive(Clone, Copy, Debug)]
enum Way {
    Disk(Mishap),
    /// The power goes while it is carried out, and so much stays of what was not flushed.
    Cut(Kept),
}

/// What befalls the request behind so many others.
fn ways(behind: u64) -> [Way; 16] {
    [
        Way::Disk(Mishap::Once(Sort::Read)),
        Way::Disk(Mishap::ForGood(Sort::Read)),
        Way::Disk(Mishap::Once(Sort::Write)),
        Way::Disk(Mishap::ForGood(Sort::Write)),
        Way::Disk(Mishap::Once(Sort::Flush)),
        Way::Disk(Mishap::ForGood(Sort::Flush)),
        Way::Disk(Mishap::Gone),
        Way::Disk(Mishap::Rot),
        Way::Disk(Mishap::Half),
        Way::Disk(Mishap::Lies(Lie::Lost)),
        Way::Disk(Mishap::Lies(Lie::Misdirected(behind * ASTRAY))),
        Way::Disk(Mishap::TakesCache),
        Way::Disk(Mishap::Hangs(HANG)),
        Way::Disk(Mishap::Silence),
        Way::Cut(Kept { of_8: 0, tear: None }),
        Way::Cut(Kept { of_8: 4, tear: Some(512) }),
    ]
}

/// What is done meanwhile.
#[derive(Clone, Copy, Debug)]
enum Work {
    Import,
    Sync,
    Scrub,
    Of(Command),
}

/// Work, on which disks, and which of them something befalls.
#[derive(Clone, Copy, Debug)]
struct Case {
    words: &'static [&'static str],
    work: Work,
    victim: &'static str,
}

/// So many of the ways are a disk's, and come first.
const DISK_WAYS: u64 = 14;
/// What may stay of what was not flushed.
const KEPT: [Kept; 4] = [
    Kept { of_8: 0, tear: None },
    Kept { of_8: 8, tear: None },
    Kept { of_8: 4, tear: None },
    Kept { of_8: 4, tear: Some(512) },
];

/// What happens as well.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// To another disk, behind so many of its requests.
    other: (&'static str, Mishap, u64),
    /// And to all of them, at this write or flush.
    cut: Option<u64>,
    /// What stays of what was not flushed.
    kept: Kept,
}

/// What came of it: whether it was done, and what has been lost by its own words.
type Outcome = Result<Vec<String>, String>;

impl Case {
    /// Whether all that the victim has is on another disk as well, at any moment of the work.
    fn has_another(self) -> bool {
        match self.work {
            Work::Of(Command::Online(away) | Command::TakeSpare(away)) => [away, NEW].contains(&self.victim),
            Work::Of(Command::Attach(_)) => self.victim == NEW || self.words.contains(&"mirror"),
            _ => self.words.contains(&"mirror"),
        }
    }

    /// The work, with something befalling the request that comes behind `behind` others.
    fn run(self, start: &Start, way: Way, behind: u64) -> Run {
        self.run_beside(start, (way, behind), None)
    }

    fn run_beside(self, start: &Start, (way, behind): (Way, u64), beside: Option<Beside>) -> Run {
        let (mut machine, mut files) = match self.work {
            Work::Of(command) => start.machine(command),
            _ => start.running(),
        };
        match self.work {
            Work::Import => machine.lose_power_keeping(Kept { of_8: 8, tear: None }, &mut Chance::new(1, 1)),
            _ => files.make(&machine),
        }
        let disk = |path| machine.disks().iter().find(|(other, _)| other == path).expect("it is there").1.clone();
        let victim = disk(self.victim);
        if let Some(Beside { other: (other, mishap, behind), cut, .. }) = beside {
            disk(other).faults().plan(behind, mishap);
            machine.power().plan_cut(cut);
        }
        match way {
            Way::Disk(mishap) => victim.faults().plan(behind, mishap),
            Way::Cut(_) => machine.power().plan_cut(Some(behind + 1)),
        }
        let outcome = self.carry_out(&mut machine, &mut files);
        let is_over = match way {
            Way::Disk(_) => victim.faults().is_pending(),
            Way::Cut(_) => !machine.power().is_off(),
        };
        machine.power().plan_cut(None);
        Run { case: self, way, beside, machine, files, outcome, is_over }
    }

    fn carry_out(self, machine: &mut Machine, files: &mut Files) -> Outcome {
        if let Work::Import = self.work {
            let report = machine.import(&ImportOptions::default()).map_err(|error| error.to_string())?;
            return Ok(report.losses);
        }
        let filer = std::sync::Arc::clone(&machine.server().filer);
        match self.work {
            Work::Import => unreachable!("it was just done"),
            Work::Sync => filer.sync().map(|_| Vec::new()).map_err(|error| error.to_string()),
            Work::Scrub => {
                let report = filer.scrub(&mut |_| true).map_err(|error| error.to_string())?;
                assert_eq!(report.lost_count, report.lost.len() as u64, "there are few blocks");
                Ok(report.lost.into_iter().map(|lost| lost.block).collect())
            }
            Work::Of(command) => {
                let mut clients = Clients { machine, files: std::mem::take(files), steps: 0 };
                let done = carry_out(command, &mut clients);
                *files = clients.files;
                done.map(|()| Vec::new())
            }
        }
    }
}

/// A case that has been run.
struct Run {
    case: Case,
    way: Way,
    beside: Option<Beside>,
    machine: Machine,
    files: Files,
    outcome: Outcome,
    /// No request was left that it could have befallen.
    is_over: bool,
}

fn spoils(way: Way) -> bool {
    matches!(way, Way::Disk(Mishap::Rot | Mishap::Half | Mishap::Lies(_)))
}

impl Run {
    fn spoils(&self) -> bool {
        spoils(self.way) || self.beside.is_some_and(|beside| spoils(Way::Disk(beside.other.1)))
    }

    /// Whether all that has befallen somebody is on another disk as well.
    fn has_another(&self) -> bool {
        self.beside.is_none() && self.case.has_another()
    }

    fn check(&mut self, behind: u64) -> Result<(), String> {
        self.check_outcome()?;
        let kept = match (self.beside, self.way) {
            (Some(beside), _) => beside.kept,
            (None, Way::Disk(_)) => Kept { of_8: 8 * (behind % 2), tear: None },
            (None, Way::Cut(kept)) => kept,
        };
        self.machine.lose_power_keeping(kept, &mut Chance::new(1, 1));
        if self.spoils() && !self.has_another() {
            return self.check_damage(&mut self.machine.copy());
        }
        import_and_check(&mut self.machine.copy(), &self.files)?;
        self.check_alone()
    }

    /// What can be seen while the disk is as it is.
    fn check_outcome(&mut self) -> Result<(), String> {
        let is_redundant = self.has_another() && !matches!(self.case.work, Work::Of(_));
        // Labels and uberblocks of a disk that is read no more, or was struck off, are lost on that disk.
        let is_slot = |lost: &String| lost.starts_with("a label at") || lost.starts_with("an uberblock at");
        match (&self.outcome, self.way) {
            (_, Way::Cut(_)) if !self.is_over => return Ok(()),
            (Ok(_), _) if self.machine.power().is_off() => return Ok(()),
            (Ok(lost), _) if lost.is_empty() => {}
            (Ok(lost), _) if self.is_over && self.beside.is_none() => {
                return Err(format!("it says that {lost:?} are lost"));
            }
            (Ok(lost), _) if self.has_another() && !lost.iter().all(is_slot) => {
                return Err(format!("it says that {lost:?} are lost"));
            }
            (Ok(_), _) => {}
            (Err(error), _) if is_redundant || self.is_over && self.beside.is_none() => {
                return Err(format!("it fails: {error}"));
            }
            (Err(error), _) if error.is_empty() => return Err("it fails without a word".into()),
            (Err(_), _) => return Ok(()),
        }
        if is_redundant {
            self.files.make(&self.machine);
            if !self.files.0[&self.files.last()] {
                return Err("nobody is answered, and a whole disk is there".into());
            }
        }
        self.files_but_last().look(&self.machine).map(drop)
    }

    /// Those that no damage of the last frame explains.
    fn files_but_last(&self) -> Files {
        if self.spoils() && !self.has_another() { self.files_that_stay() } else { self.files.clone() }
    }

    fn goes_astray(&self) -> bool {
        let is_astray = |mishap| matches!(mishap, Mishap::Lies(Lie::Misdirected(_)));
        matches!(self.way, Way::Disk(mishap) if is_astray(mishap))
            || self.beside.is_some_and(|beside| is_astray(beside.other.1))
    }

    fn files_that_stay(&self) -> Files {
        let mut files = self.files.clone();
        files.forget_last();
        let mishaps = [self.way].into_iter().chain(self.beside.map(|beside| Way::Disk(beside.other.1)));
        if mishaps.filter(|way| spoils(*way)).count() > 1 || self.goes_astray() {
            files.forget_last();
        }
        files
    }

    /// What has rotted, and was there once, is told.
    fn check_damage(&self, machine: &mut Machine) -> Result<(), String> {
        let report = match machine.import(&ImportOptions::default()) {
            Ok(report) => report,
            Err(error) if error.to_string().is_empty() => return Err("it is refused without a word".into()),
            Err(_) => return Ok(()),
        };
        if !report.losses.is_empty() {
            return Ok(());
        }
        let told = self.look_and_ask(machine, &self.files_but_last())?;
        let has_seen_nothing = self.outcome.as_ref().is_ok_and(Vec::is_empty);
        if !told.is_empty() && matches!(self.case.work, Work::Scrub) && has_seen_nothing {
            return Err(format!("a scrub has seen nothing wrong, and {told:?} cannot be read"));
        }
        Ok(())
    }

    /// What cannot be read, all of which must be named.
    fn look_and_ask(&self, machine: &Machine, files: &Files) -> Result<Vec<String>, String> {
        let told = files.look(machine)?;
        // The others may be gone, and who is there and has rotted is listed once somebody has asked for it.
        let _whatever_they_are = self.files.look(machine);
        let server = machine.server();
        let fs = server.filer.by_name(POOL).ok_or("the dataset is gone")?;
        let damage = fs.damage_report();
        // A name that cannot be read is named by its directory, and only then.
        let is_found = |name: &str| fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).is_ok();
        let is_named = |name: &String| {
            let is_it = |of: &String| *of == format!("/{name}") || of == "/" && !is_found(name);
            damage.places.iter().any(|place| place.path.as_ref().is_none_or(is_it))
        };
        if let Some(name) = told.iter().find(|name| !is_named(name)) {
            return Err(format!("{name} cannot be read, and is not named: {damage:?}"));
        }
        let is_whole = told.is_empty() && damage.places.is_empty();
        if is_whole {
            sound(&server.filer)?
        } else {
            sound_above_rot(&server.filer)?
        }
        Ok(told)
    }

    /// Whoever counts has everything alone.
    fn check_alone(&self) -> Result<(), String> {
        let agreed = agreed(&self.machine);
        for (path, _) in self.machine.disks() {
            if leaves_an_older_state(&self.machine, path) {
                continue;
            }
            let mut other = self.machine.copy();
            other.swap(path, None);
            let what = |what| format!("without {path}: {what}");
            let must_hold = agreed.as_ref().is_some_and(|config| is_spare(config, path));
            let is_spoilt = self.spoils() && path != self.case.victim;
            if matches!(self.way, Way::Cut(_)) || must_hold && !is_spoilt {
                let outcome = import_and_check(&mut other, &self.files);
                let is_refused = outcome.as_ref().is_err_and(|what| what.starts_with("refused"));
                if must_hold || !is_refused {
                    outcome.map_err(what)?;
                }
            } else if other.import(&ImportOptions::default()).is_ok_and(|report| report.losses.is_empty()) {
                let files = if is_spoilt { self.files_that_stay() } else { self.files.clone() };
                self.look_and_ask(&other, &files).map_err(what)?;
            }
        }
        Ok(())
    }
}

/// Every way at every request; of copies, which have many of them, at every `step`th, each way at others.
fn each_request(words: &'static [&'static str], works: &[(Work, &'static str)], step: u64) {
    let start = Start::new(words);
    let mut failures = Vec::new();
    for (work, victim) in works.iter().copied() {
        let case = Case { words, work, victim };
        // A log's disk that leaves is not copied, and the others are asked little.
        let is_copy = matches!(work, Work::Of(command) if !matches!(command, Command::Detach("/d/slog2")));
        let step = if is_copy { step } else { 1 };
        let mut runs = 0;
        for number in 0..ways(0).len() {
            let mut behind = number as u64 % step;
            loop {
                let way = ways(behind)[number];
                let mut run = case.run(&start, way, behind);
                runs += 1;
                if let Err(what) = run.check(behind) {
                    failures.push(format!("{case:?}, {way:?} behind {behind}: {what} (it was {:?})", run.outcome));
                }
                if run.is_over {
                    break;
                }
                behind += step;
            }
        }
        println!("{case:?}: {runs} runs");
        assert!(runs > ways(0).len(), "{case:?}: nothing befell anybody");
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

const ON_ONE: [(Work, &str); 7] = [
    (Work::Import, "/d/data"),
    (Work::Sync, "/d/data"),
    (Work::Scrub, "/d/data"),
    (Work::Of(Command::Attach("/d/data")), "/d/data"),
    (Work::Of(Command::Attach("/d/data")), NEW),
    (Work::Of(Command::Replace("/d/data")), "/d/data"),
    (Work::Of(Command::Replace("/d/data")), NEW),
];

const ON_A_MIRROR: [(Work, &str); 12] = [
    (Work::Import, "/d/data"),
    (Work::Sync, "/d/data2"),
    (Work::Scrub, "/d/data"),
    (Work::Of(Command::Online("/d/data2")), "/d/data"),
    (Work::Of(Command::Online("/d/data2")), "/d/data2"),
    (Work::Of(Command::Replace("/d/data2")), "/d/data"),
    (Work::Of(Command::Replace("/d/data2")), "/d/data2"),
    (Work::Of(Command::Replace("/d/data2")), NEW),
    (Work::Of(Command::TakeSpare("/d/data2")), "/d/data"),
    (Work::Of(Command::TakeSpare("/d/data2")), NEW),
    (Work::Of(Command::GiveBackSpare("/d/data2")), "/d/data"),
    (Work::Of(Command::GiveBackSpare("/d/data2")), NEW),
];

const ON_A_LOG_DEVICE: [(Work, &str); 7] = [
    (Work::Import, "/d/slog"),
    (Work::Sync, "/d/slog"),
    (Work::Scrub, "/d/slog"),
    (Work::Of(Command::Attach("/d/slog")), "/d/slog"),
    (Work::Of(Command::Attach("/d/slog")), NEW),
    (Work::Of(Command::Replace("/d/slog")), "/d/slog"),
    (Work::Of(Command::Replace("/d/slog")), NEW),
];

const ON_MIRRORED_LOG_DEVICES: [(Work, &str); 9] = [
    (Work::Import, "/d/slog"),
    (Work::Sync, "/d/slog2"),
    (Work::Scrub, "/d/slog"),
    (Work::Of(Command::Online("/d/slog2")), "/d/slog"),
    (Work::Of(Command::Online("/d/slog2")), "/d/slog2"),
    (Work::Of(Command::Replace("/d/slog2")), "/d/slog"),
    (Work::Of(Command::Replace("/d/slog2")), "/d/slog2"),
    (Work::Of(Command::Replace("/d/slog2")), NEW),
    (Work::Of(Command::Detach("/d/slog2")), "/d/slog"),
];

/// Of the requests of a copy, one in so many.
const STEP: u64 = 9;
/// And of a copy of the log, where there are more disks.
const LOG_STEP: u64 = 3 * STEP;

#[test]
fn on_one_disk() {
    each_request(ONE, &ON_ONE, STEP);
}

#[test]
fn on_a_mirror() {
    each_request(MIRROR, &ON_A_MIRROR, STEP);
}

#[test]
fn on_a_log_device() {
    each_request(LOG, &ON_A_LOG_DEVICE, LOG_STEP);
}

#[test]
fn on_mirrored_log_devices() {
    each_request(LOG_MIRROR, &ON_MIRRORED_LOG_DEVICES, LOG_STEP);
}

#[test]
#[ignore = "minutes: every request of every copy"]
fn on_one_disk_without_exception() {
    each_request(ONE, &ON_ONE, 1);
}

#[test]
#[ignore = "minutes: every request of every copy"]
fn on_a_mirror_without_exception() {
    each_request(MIRROR, &ON_A_MIRROR, 1);
}

#[test]
#[ignore = "minutes: every request of every copy"]
fn on_a_log_device_without_exception() {
    each_request(LOG, &ON_A_LOG_DEVICE, 1);
}

#[test]
#[ignore = "minutes: every request of every copy"]
fn on_mirrored_log_devices_without_exception() {
    each_request(LOG_MIRROR, &ON_MIRRORED_LOG_DEVICES, 1);
}

/// Two things at once: to two of these disks, which and when the seed says.
fn two_at_once(words: &'static [&'static str], works: &[Work], disks: &[&'static str], seeds: Range<u64>) {
    let start = Start::new(words);
    let mut failures = Vec::new();
    for seed in seeds {
        let mut chance = Chance::new(seed, 2);
        let work = chance.pick(works);
        // A disk that joins is there where one does.
        let there: Vec<_> = disks.iter().filter(|path| matches!(work, Work::Of(_)) || **path != NEW).copied().collect();
        let first = chance.below(there.len() as u64) as usize;
        let second = (first + 1 + chance.below(there.len() as u64 - 1) as usize) % there.len();
        let requests = if matches!(work, Work::Of(_)) { 120 } else { 30 };
        let (behind, behind_other) = (chance.below(requests), chance.below(requests));
        let drawn = |behind, chance: &mut Chance| match ways(behind)[chance.below(DISK_WAYS) as usize] {
            Way::Disk(mishap) => mishap,
            Way::Cut(_) => unreachable!("they come last"),
        };
        let (way, mishap) = (Way::Disk(drawn(behind, &mut chance)), drawn(behind_other, &mut chance));
        let beside = Beside {
            other: (there[second], mishap, behind_other),
            cut: chance.one_in(2).then(|| 1 + chance.below(4 * requests)),
            kept: chance.pick(&KEPT),
        };
        let mut run = Case { words, work, victim: there[first] }.run_beside(&start, (way, behind), Some(beside));
        if let Err(what) = run.check(behind) {
            failures.push(format!(
                "seed {seed}, {work:?}, {} has {way:?} behind {behind}, {beside:?}: {what} (it was {:?})",
                there[first], run.outcome
            ));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

const TWO_ON_A_MIRROR: [Work; 7] = [
    Work::Import,
    Work::Sync,
    Work::Scrub,
    Work::Of(Command::Online("/d/data2")),
    Work::Of(Command::Replace("/d/data2")),
    Work::Of(Command::TakeSpare("/d/data2")),
    Work::Of(Command::GiveBackSpare("/d/data2")),
];

const TWO_ON_THREE: [Work; 7] = [
    Work::Import,
    Work::Sync,
    Work::Scrub,
    Work::Of(Command::Online("/d/data2")),
    Work::Of(Command::Replace("/d/data2")),
    Work::Of(Command::Detach("/d/data3")),
    Work::Of(Command::Attach("/d/data")),
];

const TWO_ON_LOG_DEVICES: [Work; 6] = [
    Work::Import,
    Work::Sync,
    Work::Scrub,
    Work::Of(Command::Online("/d/slog2")),
    Work::Of(Command::Replace("/d/slog2")),
    Work::Of(Command::Detach("/d/slog2")),
];

/// So many of each take some seconds.
const SEEDS: u64 = 100;

/// Others, and more of them, are run with `TALLY_SEED` and `TALLY_ROUNDS`.
fn seeds() -> Range<u64> {
    let number = |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let from = number("TALLY_SEED", 0);
    from..from + number("TALLY_ROUNDS", SEEDS)
}

#[test]
fn two_at_once_on_a_mirror() {
    two_at_once(MIRROR, &TWO_ON_A_MIRROR, &["/d/data", "/d/data2", NEW], seeds());
}

#[test]
fn two_at_once_on_three_disks() {
    two_at_once(THREE, &TWO_ON_THREE, &["/d/data", "/d/data2", "/d/data3", NEW], seeds());
}

#[test]
fn two_at_once_on_mirrored_log_devices() {
    two_at_once(LOG_MIRROR, &TWO_ON_LOG_DEVICES, &["/d/data", "/d/data2", "/d/slog", "/d/slog2", NEW], seeds());
}
