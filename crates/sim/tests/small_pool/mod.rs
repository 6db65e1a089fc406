//! A small pool with files in it, put aside; clients that write while something is done to its disks; and what must be found
//! afterwards, with all disks and with each of them lost.

#![allow(dead_code)] // Each test binary uses its part.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tally_base::Wait;
use tally_disk::Disk;
use tally_fs::filer::ImportOptions;
use tally_intent::Lane;
use tally_members::create::add_spares;
use tally_members::label::{self, Feature, FeatureSet, Release};
use tally_members::vdev::VdevLeg;
use tally_sim::disk::{Pages, PowerDisk};
use tally_sim::machine::{Machine, POOL, Shape};
use tally_sim::sound::sound;
use tally_store::pool::Pool;
use tally_store::pool::membership::{Member, Onlooker, Stage};
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;
use tally_vfs::{Content, CreateHow, Cred, FsError, Identity, Names, ObjectRef, OpCtx, SetAttr, Stability, Vfs};

const MIB: u64 = 1 << 20;
/// The disk that joins.
pub(crate) const NEW: &str = "/d/new";
/// Steps of a copy or a check, one in so many, in which a client writes.
const WRITE_ONE_IN: u64 = 7;

/// A command, and the disk that it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Attach(&'static str),
    Detach(&'static str),
    Replace(&'static str),
    Offline(&'static str),
    /// Of a disk that was away while something was written.
    Online(&'static str),
    /// The new disk is a spare, and stands in for one that was struck off while something was written.
    TakeSpare(&'static str),
    /// It is given back, as that one is there again.
    GiveBackSpare(&'static str),
    /// The new disk becomes a spare.
    AddSpare,
    /// It is one, and goes.
    RemoveSpare,
    /// A feature is enabled, and used for the first time.
    Upgrade,
}

/// One that programs may overlook that do not know it, as this one.
pub(crate) const FEATURE: Feature =
    Feature { set: FeatureSet::Compat, bit: 0, name: "cache_devices", since: Release { major: 0, minor: 1 } };

/// A pool with files in it, put aside.
pub(crate) struct Start {
    shape: Shape,
    content: Vec<Pages>,
    files: Files,
}

impl Start {
    pub(crate) fn new(words: &[&str]) -> Self {
        let tuning = Tuning { cache_bytes: 1 << 20, ..Tuning::default() };
        let vdevs = words.iter().map(|word| (*word).to_owned()).collect();
        let shape = Shape { vdevs, data_bytes: 16 * MIB, log_bytes: 2 * MIB, tuning };
        let mut machine = Machine::new(shape.clone(), 1);
        machine.create(PropertySet::new()).unwrap();
        let mut files = Files::default();
        (0..6).for_each(|_| files.make(&machine));
        machine.server().filer.sync().unwrap();
        machine.server().filer.export().unwrap();
        assert!(files.0.values().all(|is_stable| *is_stable));
        let content = machine.disks().iter().map(|(_, disk)| disk.content()).collect();
        Self { shape, content, files }
    }

    /// Its disks, and nothing on them.
    pub(crate) fn blank(&self) -> Machine {
        Machine::new(self.shape.clone(), 3)
    }

    /// The pool, imported, with records in its log.
    pub(crate) fn running(&self) -> (Machine, Files) {
        let mut machine = Machine::holding(self.shape.clone(), 2, &self.content);
        machine.import(&ImportOptions::default()).unwrap();
        let mut files = self.files.clone();
        (0..3).for_each(|_| files.make(&machine));
        (machine, files)
    }

    /// The same with a new disk beside it.
    pub(crate) fn machine(&self, command: Command) -> (Machine, Files) {
        let (mut machine, mut files) = self.running();
        let is_log = |path: &str| path.contains("slog");
        let bytes = match command {
            Command::Attach(path) | Command::Replace(path) if is_log(path) => self.shape.log_bytes,
            _ => self.shape.data_bytes,
        };
        if let Command::Online(path) = command {
            let pool = Arc::clone(machine.server().filer.pool());
            let mut nobody = Clients { machine: &mut machine, files: Files::default(), steps: 0 };
            pool.take_offline(&member(&pool, path), true, &mut nobody).unwrap();
            (0..3).for_each(|_| files.make(&machine));
            pool.sync().unwrap();
            files.make(&machine);
        }
        machine.plug(NEW, Arc::new(PowerDisk::new(machine.power(), bytes)));
        if let Command::TakeSpare(path) | Command::GiveBackSpare(path) = command {
            let pool = Arc::clone(machine.server().filer.pool());
            add_spares(&pool.roster, &pool.platform, &[NEW.into()], false).unwrap();
            pool.roster.drop_leg(member(&pool, path).leg, &io::Error::other("its cable")).unwrap();
            (0..3).for_each(|_| files.make(&machine));
            pool.sync().unwrap();
            files.make(&machine);
            if let Command::GiveBackSpare(_) = command {
                let mut client = Clients { machine: &machine, files, steps: 0 };
                carry_out(Command::TakeSpare(path), &mut client).unwrap();
                carry_out(Command::Online(path), &mut client).unwrap();
                files = client.files;
            }
        }
        if let Command::RemoveSpare = command {
            let pool = machine.server().filer.pool();
            add_spares(&pool.roster, &pool.platform, &[NEW.into()], false).unwrap();
        }
        (machine, files)
    }

    /// Runs the command and cuts the power at its event number `cut`. Gives the machine as it was in that moment, what
    /// was answered, and whether the command came to its end.
    pub(crate) fn run(&self, command: Command, cut: u64) -> (Machine, Files, bool) {
        let (machine, files) = self.machine(command);
        machine.power().plan_cut(Some(cut));
        let mut client = Clients { machine: &machine, files, steps: 0 };
        let is_done = carry_out(command, &mut client).is_ok();
        let Clients { files, .. } = client;
        (machine, files, is_done)
    }
}

pub(crate) fn carry_out(command: Command, client: &mut Clients<'_>) -> Result<(), String> {
    let pool = Arc::clone(client.machine.server().filer.pool());
    let done = match command {
        Command::AddSpare => {
            let added = add_spares(&pool.roster, &pool.platform, &[NEW.into()], false);
            return added.map_err(|error| error.to_string());
        }
        Command::RemoveSpare => {
            let spare = pool.roster.config().spares[0].guid;
            let remark = pool.roster.remove_spare(&pool.platform, spare).map_err(|error| error.to_string())?;
            return remark.map_or(Ok(()), Err);
        }
        Command::Upgrade => {
            let enabled = pool.roster.enable_features(&[FEATURE]);
            return enabled.and_then(|()| pool.roster.activate(&FEATURE)).map_err(|error| error.to_string());
        }
        Command::Attach(path) => pool.join(&member(&pool, path), Path::new(NEW), false, client).map(drop),
        Command::Replace(path) => pool.replace(&member(&pool, path), Path::new(NEW), false, client).map(drop),
        Command::Offline(path) => pool.take_offline(&member(&pool, path), true, client),
        Command::TakeSpare(path) => {
            let spare = pool.roster.config().spares[0].guid;
            pool.take_spare(&member(&pool, path), spare, client).map(drop)
        }
        Command::GiveBackSpare(_) => pool.give_back_spare(&member(&pool, NEW), client).map(drop),
        Command::Online(path) => pool.take_back(&member(&pool, path), client).map(drop),
        Command::Detach(path) => {
            let place = member(&pool, path);
            pool.make_sure(&place, client).and_then(|_| pool.leave(&place, client))
        }
    };
    done.map_err(|error| error.to_string())
}

/// Files by name, and whether somebody was told that they are stable.
#[derive(Clone, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<String, bool>);

impl Files {
    fn content(name: &str) -> Bytes {
        let length = 1 + name.bytes().fold(7usize, |sum, byte| sum * 31 % 20_011 + usize::from(byte));
        name.bytes().cycle().take(length).collect()
    }

    /// A client makes a file, durably.
    pub(crate) fn make(&mut self, machine: &Machine) {
        let name = format!("file {}", self.0.len());
        let fs = machine.server().filer.by_name(POOL).expect("it is imported");
        let cred = Cred::root();
        let ctx = OpCtx::of(&cred);
        let how = CreateHow::Guarded(SetAttr { mode: Some(0o600), ..SetAttr::default() });
        let made = fs.create(ctx, fs.root(), name.as_bytes(), &how);
        let mut is_stable = is_kept(made.wait);
        if let Ok(attr) = made.result {
            let written = fs.write(ctx, attr.object, 0, Self::content(&name), Stability::FileSync);
            is_stable &= is_kept(written.wait) && written.result.is_ok();
        } else {
            is_stable = false;
        }
        self.0.insert(name, is_stable);
    }

    /// The file that was made last.
    pub(crate) fn last(&self) -> String {
        format!("file {}", self.0.len() - 1)
    }

    /// The names are in another order, in which `file 9` comes behind `file 34`.
    pub(crate) fn forget_last(&mut self) {
        self.0.remove(&self.last());
    }

    /// What was answered is there.
    pub(crate) fn check(&self, machine: &Machine) -> Result<(), String> {
        let told = self.look(machine)?;
        if told.is_empty() { Ok(()) } else { Err(format!("{} cannot be read", told.join(", "))) }
    }

    /// What was answered is there, or whoever asks is told that it cannot be read: gives the names of that.
    pub(crate) fn look(&self, machine: &Machine) -> Result<Vec<String>, String> {
        let fs = machine.server().filer.by_name(POOL).ok_or("the dataset is gone")?;
        let mut told = Vec::new();
        for (name, _) in self.0.iter().filter(|(_, is_stable)| **is_stable) {
            let found = fs.lookup(&Cred::root(), fs.root(), name.as_bytes());
            match found.and_then(|(attr, _)| read(&*fs, attr.object, attr.size)) {
                Ok(found) if found != Self::content(name) => return Err(format!("{name} has something else in it")),
                Ok(_) => {}
                Err(FsError::Io) => told.push(name.clone()),
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        Ok(told)
    }
}

fn is_kept(wait: Wait) -> bool {
    match wait {
        Wait::Ready => true,
        Wait::On(promise) => promise.drive().or_else(|| promise.poll()).is_some_and(|fate| fate.is_ok()),
    }
}

fn read(fs: &dyn Vfs, object: ObjectRef, size: u64) -> Result<Vec<u8>, FsError> {
    Ok(fs.read(&Cred::root(), object, 0, size as u32)?.data.concat())
}

/// Who writes while a disk joins or leaves.
pub(crate) struct Clients<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) files: Files,
    pub(crate) steps: u64,
}

impl Onlooker for Clients<'_> {
    fn on_progress(&mut self, _: Stage, _: u64) -> bool {
        self.steps += 1;
        if self.steps.is_multiple_of(WRITE_ONE_IN) && !self.machine.power().is_off() {
            self.files.make(self.machine);
        }
        true
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), tally_store::pool::SyncError> {
        if !self.machine.power().is_off() {
            self.files.make(self.machine);
        }
        pool.sync().map(|_| ())
    }

    /// An import looks at every disk of the machine.
    fn keep_paths(&mut self, _: &Pool) -> io::Result<()> {
        Ok(())
    }

    /// Whoever waits for a lane writes its frames; the world has no thread.
    fn run_lane(&mut self, _: Arc<Lane>) -> io::Result<()> {
        Ok(())
    }

    fn let_go(&mut self, leg: Arc<VdevLeg>) {
        // The power may be gone, and a disk that failed refuses: its label is left as it is.
        let _ = self.machine.server().filer.pool().roster.release_label(&leg);
    }
}

pub(crate) fn member(pool: &Pool, path: &str) -> Member {
    let config = pool.roster.config();
    let of = |line: &&label::VdevConfig| line.legs.iter().any(|leg| leg.path == Path::new(path));
    let line = config.vdevs_present().find(of).expect("the disk is there");
    let leg = line.legs.iter().find(|leg| leg.path == Path::new(path)).unwrap().guid;
    let vdev = pool.roster.vdevs().iter().find(|vdev| vdev.guid() == line.guid).unwrap();
    Member { vdev: Arc::clone(vdev), config: line.clone(), leg }
}

/// The configuration that the labels agree on, if they do.
pub(crate) fn agreed(machine: &Machine) -> Option<label::PoolConfig> {
    let labels: Vec<_> =
        machine.disks().iter().filter_map(|(_, disk)| label::read(disk.as_ref() as &dyn Disk).ok()).collect();
    let newest = labels.iter().map(|label| &label.config).max_by_key(|config| config.rank())?.clone();
    let is_leg =
        |path: &str| newest.vdevs_present().any(|vdev| vdev.legs.iter().any(|leg| leg.path == Path::new(path)));
    let all = machine.disks().iter().filter(|(path, _)| is_leg(path)).all(|(_, disk)| {
        label::read(disk.as_ref() as &dyn Disk).is_ok_and(|label| label.config.rank() == newest.rank())
    });
    all.then_some(newest)
}

/// Whether without this disk there is one alone that was away and does not know it: the pool is found as it was when that
/// disk left (docs/on-disk.md).
pub(crate) fn leaves_an_older_state(machine: &Machine, path: &str) -> bool {
    let own = |path: &Path| {
        let disk = machine.disks().iter().find(|(other, _)| Path::new(other) == path)?;
        label::read(disk.1.as_ref() as &dyn Disk).ok()
    };
    let labels: Vec<_> = machine.disks().iter().filter_map(|(path, _)| own(Path::new(path))).collect();
    let Some(newest) = labels.iter().map(|label| &label.config).max_by_key(|config| config.rank()) else {
        return false;
    };
    let mut vdevs = newest.vdevs_present().filter(|vdev| vdev.legs.iter().any(|leg| leg.path == Path::new(path)));
    let does_not_know = |leg: &label::LegConfig| {
        let own = own(&leg.path);
        let says_so =
            own.as_ref().and_then(|own| own.config.leg(leg.guid)).is_some_and(|(_, leg)| leg.stale_since.is_some());
        leg.stale_since.is_some() && own.is_some() && !says_so
    };
    vdevs.any(|vdev| vdev.legs.iter().filter(|leg| leg.path != Path::new(path)).any(does_not_know))
}

/// Whether a disk may be lost: another of its mirror has everything.
pub(crate) fn is_spare(config: &label::PoolConfig, path: &str) -> bool {
    let is_good = |leg: &&label::LegConfig| leg.stale_since.is_none() && leg.missed.is_empty();
    config.vdevs_present().any(|vdev| {
        let good: Vec<_> = vdev.legs.iter().filter(is_good).collect();
        let is_in_lanes =
            |guid| config.lanes.iter().filter(|lane| lane.vdev == vdev.index).all(|lane| lane.legset.contains(&guid));
        let others = good.iter().filter(|leg| leg.path != Path::new(path) && is_in_lanes(leg.guid));
        vdev.legs.iter().any(|leg| leg.path == Path::new(path)) && others.count() > 0
    })
}

/// The machine has its disks again: an import finds everything, and space is counted right.
pub(crate) fn import_and_check(machine: &mut Machine, files: &Files) -> Result<(), String> {
    import_and_check_with(machine, files, &ImportOptions::default())
}

/// The same, of a pool that is asked for so.
pub(crate) fn import_and_check_with(
    machine: &mut Machine,
    files: &Files,
    options: &ImportOptions,
) -> Result<(), String> {
    let report = machine.import(options).map_err(|error| format!("refused: {error}"))?;
    if !report.losses.is_empty() {
        return Err(format!("losses: {:?}", report.losses));
    }
    files.check(machine)?;
    sound(&machine.server().filer)
}
