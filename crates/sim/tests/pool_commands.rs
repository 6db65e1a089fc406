//! Commands that write the labels of a whole pool, with the power cut at every write and flush of them: create, import, import of a
//! pool that was destroyed, export, destroy, each property that stands in labels, and a suspended pool that goes on.
//!
//! What must hold, with nothing of what was not flushed, all of it, some writes or some sectors: the pool is as it was before the
//! command or as the command leaves it, and behind a command that says that it is done it is the latter. Everything that was answered
//! is there, and space is counted right. Where nothing or all has stayed, the same must hold without any one disk that the labels agree
//! may be lost; and without any other disk an import is refused, or finds everything.

mod small_pool;

use std::sync::Arc;

use small_pool::{Files, Start, agreed, import_and_check, import_and_check_with, is_spare, leaves_an_older_state};
use tally_fs::filer::{CreateOptions, ImportOptions, Suspended};
use tally_members::create;
use tally_members::label::{FailMode, HangLimit, PoolConfig};
use tally_sim::chance::Chance;
use tally_sim::disk::Kept;
use tally_sim::machine::Machine;
use tally_store::properties::PropertySet;

const ONE: &[&str] = &["/d/data"];
const MIRROR: &[&str] = &["mirror", "/d/data", "/d/data2"];
const MIRRORS: &[&str] = &["mirror", "/d/data", "/d/data2", "log", "mirror", "/d/slog", "/d/slog2"];

const ALL_STAYS: Kept = Kept { of_8: 8, tear: None };
/// What stays of what was not flushed.
const KEPT: [Kept; 4] =
    [Kept { of_8: 0, tear: None }, ALL_STAYS, Kept { of_8: 4, tear: None }, Kept { of_8: 4, tear: Some(512) }];

/// One that was destroyed is wanted.
const DESTROYED: ImportOptions = ImportOptions { force: false, read_only: false, accept_loss: false, destroyed: true };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Create,
    Import,
    ImportDestroyed,
    Export,
    Destroy,
    FailMode,
    HangLimit,
    Compatibility,
    /// Clear, of a pool that is suspended.
    GoOn,
}

/// What a command is given to.
struct Given {
    machine: Machine,
    files: Files,
    suspended: Option<Suspended>,
}

impl Command {
    const ALL: [Self; 9] = [
        Self::Create,
        Self::Import,
        Self::ImportDestroyed,
        Self::Export,
        Self::Destroy,
        Self::FailMode,
        Self::HangLimit,
        Self::Compatibility,
        Self::GoOn,
    ];

    fn given(self, start: &Start) -> Given {
        if self == Self::Create {
            return Given { machine: start.blank(), files: Files::default(), suspended: None };
        }
        let (mut machine, files) = start.running();
        let mut suspended = None;
        match self {
            Self::Import => machine.lose_power_keeping(ALL_STAYS, &mut Chance::new(1, 1)),
            Self::ImportDestroyed => {
                machine.server().filer.destroy().unwrap();
                machine.lose_power_keeping(ALL_STAYS, &mut Chance::new(1, 1));
            }
            Self::GoOn => suspended = Some(suspend(&mut machine)),
            _ => {}
        }
        Given { machine, files, suspended }
    }

    /// Whether it was done.
    fn carry_out(self, given: &mut Given) -> bool {
        let machine = &mut given.machine;
        match self {
            Self::Create => return machine.create(PropertySet::new()).is_ok(),
            Self::Import => return machine.import(&ImportOptions::default()).is_ok(),
            Self::ImportDestroyed => return machine.import(&DESTROYED).is_ok(),
            Self::GoOn => return machine.resume(given.suspended.as_ref().expect("it is suspended")).is_ok(),
            _ => {}
        }
        let filer = Arc::clone(&machine.server().filer);
        let roster = &filer.pool().roster;
        match self {
            Self::Export => filer.export().is_ok(),
            Self::Destroy => filer.destroy().is_ok(),
            Self::FailMode => roster.set_failmode(FailMode::Continue).is_ok(),
            Self::HangLimit => roster.set_hang_limit(HangLimit::Seconds(7)).is_ok(),
            _ => roster.set_compatibility("0.1").is_ok(),
        }
    }

    /// What a property is; and what it was before, and is to be.
    fn value(self, config: &PoolConfig) -> Option<(String, [String; 2])> {
        let (now, states) = match self {
            Self::FailMode => (
                format!("{:?}", config.supplement.failmode),
                [FailMode::Wait, FailMode::Continue].map(|mode| format!("{mode:?}")),
            ),
            Self::HangLimit => {
                (config.hang_limit.to_string(), [HangLimit::Auto, HangLimit::Seconds(7)].map(|limit| limit.to_string()))
            }
            Self::Compatibility => (config.feature_notes.compatibility.clone(), ["", "0.1"].map(str::to_owned)),
            _ => return None,
        };
        Some((now, states))
    }

    /// What is found once the power is back.
    fn check(self, machine: &mut Machine, files: &Files, is_done: bool) -> Result<(), String> {
        let found = import_and_check(machine, files);
        let is_refused = found.as_ref().is_err_and(|what| what.starts_with("refused"));
        match self {
            Self::Create if is_refused && !is_done => return create_again(machine),
            Self::Destroy if !is_refused && is_done => {
                return Err("it was destroyed, and is imported like any other".into());
            }
            Self::Destroy if is_refused => import_and_check_with(machine, files, &DESTROYED)?,
            Self::ImportDestroyed if is_refused && !is_done => import_and_check_with(machine, files, &DESTROYED)?,
            _ => found?,
        }
        let value = self.value(&machine.server().filer.pool().roster.config());
        match value {
            Some((now, [before, behind])) if now != behind && (is_done || now != before) => {
                Err(format!("it is {now}, and neither was so nor was set so"))
            }
            _ => Ok(()),
        }
    }
}

/// Half a pool is in nobody's way who insists.
fn create_again(machine: &mut Machine) -> Result<(), String> {
    let disks = create::CreateOptions { force: true, ..create::CreateOptions::default() };
    let options = CreateOptions { disks, ..CreateOptions::default() };
    machine.create_with(&options).map_err(|error| format!("it can be neither imported nor made: {error}"))
}

/// All disks fail for a moment.
fn suspend(machine: &mut Machine) -> Suspended {
    machine.disks().iter().for_each(|(_, disk)| disk.faults().all());
    machine.server().filer.sync().unwrap_err();
    machine.disks().iter().for_each(|(_, disk)| disk.faults().clear());
    machine.put_away().expect("it says that it is not well")
}

/// What is found behind a cut, with all disks, and with each of them lost; gives how many states that were.
fn check_cut(given: &Given, kept: Kept, (command, is_done): (Command, bool)) -> Result<u64, String> {
    let mut cut = given.machine.copy();
    cut.lose_power_keeping(kept, &mut Chance::new(1, 1));
    command.check(&mut cut.copy(), &given.files, is_done)?;
    let mut states = 1;
    if kept.tear.is_some() || !kept.of_8.is_multiple_of(8) {
        return Ok(states);
    }
    let agreed = agreed(&cut);
    for (path, _) in cut.disks().iter().filter(|(path, _)| !leaves_an_older_state(&cut, path)) {
        let mut other = cut.copy();
        other.swap(path, None);
        // Half of a new pool has nothing yet that another disk could have.
        let is_pool = is_done || command != Command::Create;
        let must_hold = is_pool && agreed.as_ref().is_some_and(|config| is_spare(config, path));
        if must_hold {
            command.check(&mut other, &given.files, is_done).map_err(|what| format!("without {path}: {what}"))?;
            states += 1;
            continue;
        }
        for options in [ImportOptions::default(), DESTROYED] {
            match import_and_check_with(&mut other.copy(), &given.files, &options) {
                Err(what) if !what.starts_with("refused") => return Err(format!("without {path}: {what}")),
                found => states += u64::from(found.is_ok()),
            }
        }
    }
    Ok(states)
}

fn cut_everywhere(words: &[&str]) {
    let start = Start::new(words);
    for command in Command::ALL {
        let (mut cut, mut states, mut in_labels) = (0, 0, 0);
        loop {
            cut += 1;
            let mut given = command.given(&start);
            given.machine.power().plan_cut(Some(cut));
            let is_done = command.carry_out(&mut given);
            let is_off = given.machine.power().is_off();
            assert!(is_done || is_off, "{command:?} fails by itself");
            in_labels += u64::from(given.machine.power().went_in_label());
            for kept in KEPT {
                let checked = check_cut(&given, kept, (command, is_done && !is_off));
                states += checked.unwrap_or_else(|what| panic!("{command:?}, cut at event {cut}, {kept:?}: {what}"));
            }
            if !is_off {
                break;
            }
        }
        println!("{words:?}, {command:?}: {} events, {in_labels} of them writes to labels, {states} states", cut - 1);
        assert!(in_labels >= 2, "{command:?} writes both labels of a disk at least, and {in_labels} were cut");
    }
}

#[test]
fn of_one_disk() {
    cut_everywhere(ONE);
}

#[test]
fn of_a_mirror() {
    cut_everywhere(MIRROR);
}

#[test]
fn of_mirrors_with_a_log_on_mirrored_devices() {
    cut_everywhere(MIRRORS);
}
