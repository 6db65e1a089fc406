//! One seed: a machine, its lives, and what is done in them.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tally_base::{ObjectId, Promise, Rng, Time, Wait};
use tally_disk::{MemOpener, SerialFanout};
use tally_fs::Filesystem;
use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_fs::model::Model;
use tally_fs::vfs::{
    Attr, CreateHow, Cred, FileKind, FsError, NodeKind, ObjectRef, OpCtx, Outcome, SetAttr, SetTime, Stability, Vfs,
};
use tally_store::assemble::PoolSelect;
use tally_store::discover::ImportSource;
use tally_store::grammar::parse_vdev_args;
use tally_store::platform::{Host, Platform, Tuning};
use tally_store::properties::{Property, PropertySet, parse};

use super::Chance;
use super::check::{same, same_attr, sound};
use super::oracle::{Effect, Line, Ticks, new_model};
use super::power::{Power, PowerDisk};

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Operations in all, over all lives.
    pub steps: usize,
    /// Where groups are synced.
    pub syncs: Syncs,
    /// Steps that are left out, to make a trace shorter.
    pub skipped: Vec<usize>,
}

/// Where groups are synced, beside the commands for it in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// Between operations.
    Between,
    /// Between operations, and other operations run inside the sync's device writes: the same seed, the same order.
    Around,
    /// In a thread that does nothing else. A seed does not repeat this, so the power is cut only after the thread has ended
    /// and another group was synced.
    Beside,
}

/// What a run has come through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub operations: u64,
    pub lives: u64,
    pub cuts: u64,
    pub cuts_in_import: u64,
    pub syncs: u64,
    pub replayed: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.lives += other.lives;
        self.cuts += other.cuts;
        self.cuts_in_import += other.cuts_in_import;
        self.syncs += other.syncs;
        self.replayed += other.replayed;
    }
}

/// How a run ended badly.
#[derive(Debug)]
pub struct Failure {
    pub message: String,
    pub trace: Vec<String>,
}

/// Runs a plan to its end.
pub fn run(plan: &Plan) -> Result<Totals, Failure> {
    let trace = Arc::<Mutex<Vec<String>>>::default();
    let outcome = catch_unwind(AssertUnwindSafe(|| Machine::new(plan, &trace).and_then(|machine| machine.live_on())));
    let message = match outcome {
        Ok(Ok(totals)) => return Ok(totals),
        Ok(Err(message)) => message,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("panic: {}", text.unwrap_or_default())
        }
    };
    let trace = std::mem::take(&mut *trace.lock());
    Err(Failure { message, trace })
}

/// Looks for a shorter history that fails, too, within so many runs.
pub fn shrink(plan: &Plan, failure: Failure, mut runs: usize) -> (Plan, Failure) {
    let (mut plan, mut failure) = (plan.clone(), failure);
    let mut attempt = |candidate: Plan, best: &mut (Plan, Failure)| -> bool {
        if runs == 0 {
            return false;
        }
        runs -= 1;
        match run(&candidate) {
            Err(shorter) => {
                *best = (candidate, shorter);
                true
            }
            Ok(_) => false,
        }
    };
    let mut best = (plan.clone(), failure);
    let mut cut = plan.steps / 2;
    while cut > 0 {
        let candidate = Plan { steps: best.0.steps.saturating_sub(cut), ..best.0.clone() };
        if !attempt(candidate, &mut best) {
            cut /= 2;
        }
    }
    let mut chunk = best.0.steps.div_ceil(4).max(1);
    loop {
        let mut at = 0;
        while at < best.0.steps {
            let mut candidate = best.0.clone();
            candidate.skipped.extend((at..at + chunk).filter(|step| !best.0.skipped.contains(step)));
            if candidate.skipped.len() > best.0.skipped.len() {
                attempt(candidate, &mut best);
            }
            at += chunk;
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    (plan, failure) = best;
    (plan, failure)
}

/// A seeded [`Rng`] for guids, generations and verifiers.
struct SeededRng(Mutex<Chance>);

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        let mut chance = self.0.lock();
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&chance.next().to_le_bytes()[..part.len()]);
        }
    }
}

/// An object under both its names.
#[derive(Clone, Copy, Debug)]
struct Handle {
    real: ObjectRef,
    model: ObjectRef,
    kind: FileKind,
    record_size: u64,
}

/// A modifying operation. Objects are places in the table of handles.
#[derive(Clone, Debug)]
enum Op {
    Create { dir: usize, name: &'static str, how: CreateHow },
    Mkdir { dir: usize, name: &'static str },
    Symlink { dir: usize, name: &'static str, length: usize },
    Mknod { dir: usize, name: &'static str, node: NodeKind },
    Remove { dir: usize, name: &'static str },
    Rmdir { dir: usize, name: &'static str },
    Rename { from_dir: usize, from: &'static str, to_dir: usize, to: &'static str },
    Link { object: usize, dir: usize, name: &'static str },
    SetAttr { object: usize, set: SetAttr },
    Write { object: usize, offset: u64, length: u64, fill: u64, stability: Stability },
    Commit { object: usize, offset: u64, count: u32 },
}

/// What the two sides answer, as far as it must agree.
#[derive(Debug)]
enum Answer {
    Nothing,
    Made(Attr),
    Written { count: u32, stability: Stability, verifier: u64 },
    Committed(u64),
}

/// Somebody who waits.
struct Held {
    op: usize,
    promise: Box<dyn Promise>,
    promised: Promised,
}

/// What a kept wait has promised.
#[derive(Clone, Copy, Debug)]
enum Promised {
    /// The history up to this operation.
    Log(usize),
    /// A durable group that contains this operation.
    Group(usize),
}

/// What is to be done next.
enum Act {
    Op(Op),
    Sync,
    RecordSize(u64),
    Settle,
    Look,
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"];

struct Machine {
    state: Arc<Mutex<State>>,
}

struct State {
    plan: Plan,
    trace: Arc<Mutex<Vec<String>>>,
    totals: Totals,
    clock: Arc<Ticks>,
    rng: Arc<SeededRng>,
    tuning: Tuning,
    vdevs: Vec<String>,
    disks: Vec<(String, Arc<PowerDisk>)>,
    power: Arc<Power>,
    filer: Option<Arc<Filer>>,
    fs: Option<Arc<Filesystem>>,
    live: Model,
    /// Before and after the group that is being synced; one while none is.
    lines: Vec<Line>,
    /// The operations that the newest durable group has.
    synced_op: usize,
    handles: Vec<Handle>,
    gone: Vec<ObjectRef>,
    op: usize,
    step: usize,
    last_change: HashMap<ObjectId, usize>,
    /// The newest write to a file, logged or not.
    last_write: HashMap<ObjectId, usize>,
    /// The operations of the group that is being synced, and all before it.
    closed_op: usize,
    held: Vec<Held>,
    /// Objects of the model from here on were made in this life.
    first_id: ObjectId,
    verifier: Option<u64>,
    old_verifiers: Vec<u64>,
}

type Checked<T> = Result<T, String>;

impl Machine {
    fn new(plan: &Plan, trace: &Arc<Mutex<Vec<String>>>) -> Checked<Self> {
        let mut chance = Chance::new(plan.seed, 0xd15c);
        let power = Arc::new(Power::default());
        let shapes: [&[&str]; 4] = [
            &["/d/data", "log", "/d/slog"],
            &["/d/data"],
            &["/d/data", "log", "mirror", "/d/slog", "/d/slog2"],
            &["mirror", "/d/data", "/d/data2", "log", "/d/slog"],
        ];
        let vdevs: Vec<String> = chance.pick(&shapes).iter().map(|word| (*word).to_owned()).collect();
        let log_bytes = chance.pick(&[4u64, 16]) << 20;
        let disk = |path: &String| {
            let size = if path.contains("slog") { log_bytes } else { 96 << 20 };
            (path.clone(), Arc::new(PowerDisk::new(&power, size)))
        };
        let disks = vdevs.iter().filter(|word| word.starts_with('/')).map(disk).collect();
        let tuning = Tuning {
            cache_bytes: chance.pick(&[64u64 << 10, 64 << 20]),
            dirty_bytes_max: chance.pick(&[1u64 << 20, 256 << 20]),
            helper_threads: false,
            ..Tuning::default()
        };
        let live = new_model();
        let mut state = State {
            plan: plan.clone(),
            trace: Arc::clone(trace),
            totals: Totals::default(),
            clock: Arc::default(),
            rng: Arc::new(SeededRng(Mutex::new(Chance::new(plan.seed, 0x4e6)))),
            tuning,
            vdevs,
            disks,
            power,
            filer: None,
            fs: None,
            lines: vec![Line::new(&live, 0)],
            live,
            synced_op: 0,
            handles: Vec::new(),
            gone: Vec::new(),
            op: 0,
            step: 0,
            last_change: HashMap::new(),
            last_write: HashMap::new(),
            closed_op: 0,
            held: Vec::new(),
            first_id: ObjectId(0),
            verifier: None,
            old_verifiers: Vec::new(),
        };
        let mut properties = PropertySet::new();
        properties.set(parse(Property::RecordSize, chance.pick(&["4K", "16K", "128K"])).unwrap());
        let options = CreateOptions { properties, ..CreateOptions::default() };
        state.note(format!("create {} with a log of {log_bytes}", state.vdevs.join(" ")));
        let specs = parse_vdev_args(&state.vdevs).unwrap();
        let filer = Filer::create(&state.platform(), &state.tuning, "tank", &specs, &options)
            .map_err(|error| format!("create: {error}"))?;
        state.start(filer);
        let root =
            Handle { real: state.fs().root(), model: state.live.root(), kind: FileKind::Directory, record_size: 0 };
        state.handles.push(root);
        Ok(Self { state: Arc::new(Mutex::new(state)) })
    }

    /// All lives, to the last.
    fn live_on(self) -> Checked<Totals> {
        loop {
            let clean = self.live()?;
            let over = {
                let mut state = self.state.lock();
                state.totals.lives += 1;
                state.reimport(clean)?;
                state.step >= state.plan.steps
            };
            if over {
                let mut state = self.state.lock();
                state.stop();
                return Ok(state.totals);
            }
        }
    }

    /// One life: until the power goes, or the pool is exported. Gives whether it was.
    fn live(&self) -> Checked<bool> {
        let (end, planned) = {
            let state = &mut *self.state.lock();
            let mut chance = Chance::new(state.plan.seed, 0x11fe + state.totals.lives);
            let length = chance.pick(&[3u64, 10, 30, 60]);
            let scale = chance.below(9);
            let beside = state.plan.syncs == Syncs::Beside;
            let planned = (!chance.one_in(4) && !beside).then(|| 1 + chance.below(1 << scale));
            state.power.plan_cut(planned, chance.next());
            ((state.step + 1 + chance.below(length) as usize).min(state.plan.steps), planned)
        };
        self.state.lock().note(format!("life; cut after {planned:?} writes"));
        if self.state.lock().plan.syncs == Syncs::Beside {
            self.beside_syncs(|| self.steps_to(end))?;
            self.sync(|filer| filer.sync().map(|_| ()).map_err(|error| error.to_string()))?;
            self.settle()?;
        } else {
            self.steps_to(end)?;
        }
        if self.state.lock().power.is_off() {
            return Ok(false);
        }
        let exported = Chance::new(self.state.lock().plan.seed, 0xe4d + end as u64).one_in(4);
        if exported { self.export() } else { Ok(false) }
    }

    fn steps_to(&self, end: usize) -> Checked<()> {
        loop {
            {
                let state = self.state.lock();
                if state.power.is_off() || state.step >= end {
                    return Ok(());
                }
            }
            self.step()?;
        }
    }

    /// Does `work` while another thread syncs one group after the other.
    fn beside_syncs(&self, work: impl FnOnce() -> Checked<()>) -> Checked<()> {
        let filer = Arc::clone(self.state.lock().filer());
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    filer.sync().map_err(|error| format!("sync beside: {error}"))?;
                }
                Ok(())
            });
            let worked = catch_unwind(AssertUnwindSafe(work));
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            let synced = syncing.join().unwrap_or_else(|_| Err("the syncing thread panicked".into()));
            match worked {
                Ok(worked) => worked.and(synced),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn is_beside(&self) -> bool {
        self.state.lock().plan.syncs == Syncs::Beside
    }

    fn step(&self) -> Checked<()> {
        let act = {
            let mut state = self.state.lock();
            let step = state.step;
            state.step += 1;
            if state.plan.skipped.contains(&step) {
                return Ok(());
            }
            state.choose()
        };
        match act {
            Act::Sync => self.sync(|filer| filer.sync().map(|_| ()).map_err(|error| error.to_string())),
            Act::RecordSize(bytes) => {
                let value = parse(Property::RecordSize, &bytes.to_string()).unwrap();
                self.sync(move |filer| filer.set_property("tank", value).map_err(|error| error.to_string()))
            }
            Act::Settle => self.settle(),
            Act::Look => {
                let state = self.state.lock();
                same(&**state.fs(), &state.live)
                    .map_err(|what| format!("while alive: {what}"))
                    .or_else(|what| if state.power.is_off() { Ok(()) } else { Err(what) })
            }
            Act::Op(op) => {
                let tries = if self.is_beside() { 1_000_000 } else { 20 };
                for _ in 0..tries {
                    let again = self.state.lock().carry_out(&op)?;
                    match again {
                        Next::Done => return Ok(()),
                        Next::AfterSync if self.is_beside() => std::thread::yield_now(),
                        Next::AfterSync => {
                            self.sync(|filer| filer.sync().map(|_| ()).map_err(|error| error.to_string()))?;
                            if self.state.lock().power.is_off() {
                                return Ok(());
                            }
                        }
                        Next::Settle => return self.settle(),
                    }
                }
                Err(format!("{op:?} was refused for 20 groups"))
            }
        }
    }

    /// Syncs by `how`; operations may run inside its device writes.
    fn sync(&self, how: impl FnOnce(&Filer) -> Result<(), String>) -> Checked<()> {
        let (filer, power) = {
            let mut state = self.state.lock();
            state.begin_sync();
            (Arc::clone(state.filer()), Arc::clone(&state.power))
        };
        let faults = Arc::<Mutex<Option<String>>>::default();
        if self.state.lock().plan.syncs == Syncs::Around {
            let (state, faults) = (Arc::clone(&self.state), Arc::clone(&faults));
            power.set_hook(Some(Box::new(move || {
                // While an operation itself writes, the state is taken: nothing runs inside an operation.
                let Some(mut state) = state.try_lock() else { return };
                if let Err(fault) = state.interlude() {
                    faults.lock().get_or_insert(fault);
                }
            })));
        }
        let outcome = how(&filer);
        power.set_hook(None);
        drop(filer);
        if let Some(fault) = faults.lock().take() {
            return Err(fault);
        }
        self.state.lock().end_sync(outcome)
    }

    /// Everybody who waits is answered, by the log or by a group.
    fn settle(&self) -> Checked<()> {
        if self.state.lock().drive_held()? {
            return Ok(());
        }
        if self.is_beside() {
            // The other thread is at it; it may also have ended, then the next settling comes after a sync.
            return Ok(());
        }
        self.sync(|filer| filer.sync().map(|_| ()).map_err(|error| error.to_string()))?;
        let mut state = self.state.lock();
        // What began inside of that sync belongs to the next group.
        let closed_op = state.closed_op;
        if state.drive_held()? || state.power.is_off() || state.held.iter().all(|held| held.op > closed_op) {
            return Ok(());
        }
        Err("a wait was not over after its group was synced".into())
    }

    fn export(&self) -> Checked<bool> {
        self.settle()?;
        let filer = Arc::clone(self.state.lock().filer());
        let mut state = self.state.lock();
        if state.power.is_off() {
            return Ok(false);
        }
        state.note("export");
        state.begin_sync();
        let outcome = filer.export();
        if state.power.is_off() {
            return Ok(false);
        }
        state.end_sync(outcome.map_err(|error| error.to_string()))?;
        Ok(true)
    }
}

/// How an operation goes on.
enum Next {
    Done,
    AfterSync,
    Settle,
}

impl State {
    fn filer(&self) -> &Arc<Filer> {
        self.filer.as_ref().expect("it is alive")
    }

    fn fs(&self) -> &Arc<Filesystem> {
        self.fs.as_ref().expect("it is alive")
    }

    fn note(&self, line: impl std::fmt::Display) {
        self.trace.lock().push(format!("{:4} {line}", self.step));
    }

    fn platform(&self) -> Platform {
        let opener = MemOpener::default();
        for (path, disk) in &self.disks {
            opener.put(path, Arc::clone(disk) as _);
        }
        Platform {
            clock: Arc::clone(&self.clock) as _,
            rng: Arc::clone(&self.rng) as _,
            opener: Arc::new(opener),
            fanout: Arc::new(SerialFanout),
            host: Host { id: 1, name: "test".into() },
        }
    }

    fn start(&mut self, filer: Arc<Filer>) {
        for lane in filer.pool().lanes().iter() {
            lane.set_inline(true);
        }
        self.fs = filer.by_name("tank");
        self.filer = Some(filer);
    }

    fn stop(&mut self) {
        self.held.clear();
        self.fs = None;
        self.filer = None;
    }

    // ---- choosing ----

    fn directory(&self, chance: &mut Chance) -> usize {
        if chance.one_in(40) {
            return chance.below(self.handles.len() as u64) as usize;
        }
        let dirs: Vec<usize> = (0..self.handles.len())
            .filter(|at| self.handles[*at].kind == FileKind::Directory)
            .filter(|at| chance.one_in(10) || self.live.getattr(self.handles[*at].model).is_ok())
            .collect();
        if dirs.is_empty() || chance.one_in(3) { 0 } else { chance.pick(&dirs) }
    }

    fn object(&self, chance: &mut Chance, kind: Option<FileKind>) -> usize {
        let fit: Vec<usize> = (1..self.handles.len())
            .filter(|at| kind.is_none_or(|kind| self.handles[*at].kind == kind))
            .filter(|at| chance.one_in(15) || self.live.getattr(self.handles[*at].model).is_ok())
            .collect();
        if fit.is_empty() || chance.one_in(60) {
            return chance.below(self.handles.len() as u64) as usize;
        }
        // A few files get most of it, so that their changes meet.
        if chance.one_in(2) {
            fit[fit.len() - 1 - chance.below(fit.len().min(3) as u64) as usize]
        } else {
            chance.pick(&fit)
        }
    }

    fn choose(&self) -> Act {
        let mut chance = Chance::new(self.plan.seed, (1 << 32) + self.step as u64);
        match chance.below(100) {
            0..8 => Act::Sync,
            8..12 => Act::Settle,
            12..15 => Act::Look,
            15 => Act::RecordSize(chance.pick(&[4096, 16384, 131_072])),
            _ => Act::Op(self.choose_op(&mut chance)),
        }
    }

    fn choose_op(&self, chance: &mut Chance) -> Op {
        let name = chance.pick(&NAMES);
        match chance.below(100) {
            0..14 => Op::Create { dir: self.directory(chance), name, how: create_how(chance) },
            14..20 => Op::Mkdir { dir: self.directory(chance), name },
            20..22 => Op::Symlink { dir: self.directory(chance), name, length: 1 + chance.below(4000) as usize },
            22..24 => {
                let node = chance.pick(&[NodeKind::Fifo, NodeKind::Socket, NodeKind::CharDevice(3, 4)]);
                Op::Mknod { dir: self.directory(chance), name, node }
            }
            24..31 => Op::Remove { dir: self.directory(chance), name },
            31..34 => Op::Rmdir { dir: self.directory(chance), name },
            34..44 => {
                let (from_dir, to_dir) = (self.directory(chance), self.directory(chance));
                Op::Rename { from_dir, from: name, to_dir, to: chance.pick(&NAMES) }
            }
            44..50 => {
                let kind = if chance.one_in(4) { None } else { Some(FileKind::File) };
                Op::Link { object: self.object(chance, kind), dir: self.directory(chance), name }
            }
            50..54 => Op::SetAttr { object: self.object(chance, None), set: attributes(chance) },
            54..62 => {
                let object = self.object(chance, Some(FileKind::File));
                let size = Some(self.place(chance, object));
                Op::SetAttr { object, set: SetAttr { size, ..SetAttr::default() } }
            }
            62..90 => {
                let object = self.object(chance, Some(FileKind::File));
                let stability =
                    chance.pick(&[Stability::Unstable, Stability::Unstable, Stability::FileSync, Stability::DataSync]);
                let (offset, length) = (self.place(chance, object), length(chance));
                Op::Write { object, offset, length, fill: chance.next(), stability }
            }
            _ => {
                let object = self.object(chance, Some(FileKind::File));
                if chance.one_in(2) {
                    return Op::Commit { object, offset: 0, count: 0 };
                }
                Op::Commit { object, offset: self.place(chance, object), count: length(chance) as u32 }
            }
        }
    }

    /// An offset that is likely to matter.
    fn place(&self, chance: &mut Chance, object: usize) -> u64 {
        let size = self.live.getattr(self.handles[object].model).map_or(0, |attr| attr.size);
        match chance.below(8) {
            0 | 1 => 0,
            2 => size,
            3 => chance.below(size + 1),
            4 => chance.below(size + 1) / 4096 * 4096,
            5 => chance.below(8) * 131_072,
            6 => chance.below(40_000),
            _ => chance.below(700_000),
        }
    }

    // ---- doing ----

    /// A few operations inside a device write of a sync.
    fn interlude(&mut self) -> Checked<()> {
        let mut chance = Chance::new(self.plan.seed, (2 << 32) + self.power.events());
        if self.power.is_off() || !chance.one_in(4) {
            return Ok(());
        }
        for _ in 0..1 + chance.below(3) {
            let op = self.choose_op(&mut chance);
            match self.carry_out(&op)? {
                Next::Done | Next::AfterSync => {}
                Next::Settle => {
                    self.drive_held()?;
                }
            }
            if self.power.is_off() {
                break;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, op: &Op) -> Checked<Next> {
        let mut chance = Chance::new(self.plan.seed, (3 << 32) + self.op as u64 + ((self.step as u64) << 40));
        let data = self.data_of(op);
        let before = self.before(op);
        let fs = Arc::clone(self.fs());
        let outcome = self.call(op, &*fs, &data, |handle| handle.real);
        if outcome.result.as_ref().is_err_and(|error| *error == FsError::Throttled) {
            self.note(format!("{} throttled", self.show(op)));
            return Ok(if self.power.is_off() { Next::Done } else { Next::AfterSync });
        }
        if self.power.is_off() && matches!(outcome.result, Err(FsError::Io | FsError::Unavailable)) {
            self.note(format!("{}: the power went", self.show(op)));
            return Ok(Next::Done);
        }
        if matches!(outcome.result, Err(FsError::NoSpace)) {
            self.note(format!("{}: no space", self.show(op)));
            return Ok(Next::Done);
        }
        self.op += 1;
        self.totals.operations += 1;
        let op_number = self.op;
        let shown = self.show(op);
        let expected = self.call(op, &self.live, &data, |handle| handle.model);
        let wait = outcome.wait;
        self.note(format!(
            "#{op_number} {shown}{}",
            outcome.result.as_ref().map_or_else(|error| format!(": {error}"), |_| String::new())
        ));
        // States before and after a SETATTR may look alike, so what a file from an earlier life keeps of its EXCLUSIVE create
        // is not known after a cut.
        let is_old = before.existing.is_some_and(|(object, _)| object.id < self.first_id);
        if is_old && matches!(op, Op::Create { how: CreateHow::Exclusive(_), .. }) {
            return self.raise(op_number, wait, Promised::Log(0), &mut chance);
        }
        let promised = match self.agree(&outcome.result, &expected.result)? {
            false => Promised::Log(self.seen(op)),
            true => {
                self.learn(op, &outcome.result, &expected.result);
                self.take(op, &data, &before)
            }
        };
        self.raise(op_number, wait, promised, &mut chance)
    }

    fn raise(&mut self, op: usize, wait: Wait, promised: Promised, chance: &mut Chance) -> Checked<Next> {
        match wait {
            Wait::Ready => {
                self.kept(op, promised)?;
                Ok(Next::Done)
            }
            Wait::On(promise) => {
                self.held.push(Held { op, promise, promised });
                Ok(if chance.one_in(3) { Next::Done } else { Next::Settle })
            }
        }
    }

    /// Drives those who wait; gives whether nobody is left.
    fn drive_held(&mut self) -> Checked<bool> {
        let mut left = Vec::new();
        for held in std::mem::take(&mut self.held) {
            match held.promise.drive().map(|driven| driven.outcome).or_else(|| held.promise.poll()) {
                None => left.push(held),
                Some(Ok(())) => self.kept(held.op, held.promised)?,
                Some(Err(_)) if self.power.is_off() => {}
                Some(Err(broken)) => return Err(format!("#{}: {broken}", held.op)),
            }
        }
        self.held = left;
        Ok(self.held.is_empty())
    }

    /// A wait is over.
    fn kept(&mut self, op: usize, promised: Promised) -> Checked<()> {
        match promised {
            Promised::Log(floor) => {
                self.lines.iter_mut().for_each(|line| line.raise_floor(floor));
                Ok(())
            }
            Promised::Group(wanted) if wanted <= self.synced_op => Ok(()),
            // Which operations a group of the other thread has is not known here.
            Promised::Group(_) if self.plan.syncs == Syncs::Beside => Ok(()),
            Promised::Group(wanted) => Err(format!(
                "#{op} was answered, but #{wanted} is in no durable group (the newest ends with #{})",
                self.synced_op
            )),
        }
    }

    fn call(&self, op: &Op, vfs: &dyn Vfs, data: &Bytes, of: impl Fn(&Handle) -> ObjectRef) -> Outcome<Answer> {
        let cred = Cred::root();
        let ctx = OpCtx { cred: &cred, reply: None };
        let at = |place: usize| of(&self.handles[place]);
        let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
        match op {
            Op::Create { dir, name, how } => answer(vfs.create(ctx, at(*dir), name.as_bytes(), how), Answer::Made),
            Op::Mkdir { dir, name } => answer(vfs.mkdir(ctx, at(*dir), name.as_bytes(), &mode(0o755)), Answer::Made),
            Op::Symlink { dir, name, length } => {
                let target = vec![b'x'; *length];
                answer(vfs.symlink(ctx, at(*dir), name.as_bytes(), &target, &mode(0o777)), Answer::Made)
            }
            Op::Mknod { dir, name, node } => {
                answer(vfs.mknod(ctx, at(*dir), name.as_bytes(), *node, &mode(0o600)), Answer::Made)
            }
            Op::Remove { dir, name } => answer(vfs.remove(ctx, at(*dir), name.as_bytes()), |()| Answer::Nothing),
            Op::Rmdir { dir, name } => answer(vfs.rmdir(ctx, at(*dir), name.as_bytes()), |()| Answer::Nothing),
            Op::Rename { from_dir, from, to_dir, to } => {
                answer(vfs.rename(ctx, at(*from_dir), from.as_bytes(), at(*to_dir), to.as_bytes()), |()| {
                    Answer::Nothing
                })
            }
            Op::Link { object, dir, name } => {
                answer(vfs.link(ctx, at(*object), at(*dir), name.as_bytes()), Answer::Made)
            }
            Op::SetAttr { object, set } => answer(vfs.setattr(ctx, at(*object), set, None), |()| Answer::Nothing),
            Op::Write { object, offset, stability, .. } => {
                answer(vfs.write(ctx, at(*object), *offset, data.clone(), *stability), |written| Answer::Written {
                    count: written.count,
                    stability: written.stability,
                    verifier: written.verifier,
                })
            }
            Op::Commit { object, offset, count } => {
                answer(vfs.commit(ctx, at(*object), *offset, *count), Answer::Committed)
            }
        }
    }

    fn data_of(&self, op: &Op) -> Bytes {
        let Op::Write { length, fill, .. } = op else { return Bytes::new() };
        match fill % 6 {
            0 => vec![0; *length as usize].into(),
            1 | 2 => vec![(fill >> 8) as u8 | 1; *length as usize].into(),
            _ => {
                let mut chance = Chance::new(*fill, 1);
                let mut bytes = Vec::with_capacity(*length as usize + 8);
                while bytes.len() < *length as usize {
                    bytes.extend_from_slice(&chance.next().to_le_bytes());
                }
                bytes.truncate(*length as usize);
                bytes.into()
            }
        }
    }

    /// The file that a CREATE finds, and its size.
    fn existing(&self, op: &Op) -> Option<(ObjectRef, u64)> {
        let Op::Create { dir, name, .. } = op else { return None };
        let found = self.live.lookup(&Cred::root(), self.handles[*dir].model, name.as_bytes());
        found.ok().map(|(attr, _)| (attr.object, attr.size))
    }

    fn before(&mut self, op: &Op) -> Before {
        let due = self.due_of(op);
        Before { existing: self.existing(op), named: self.named(op), placed: self.placed(op), due }
    }

    fn inline_max(&self) -> u64 {
        self.filer().pool().lanes()[0].fill().size / 8
    }

    /// The part of a WRITE that goes to the pool ahead; `None` if its record carries it.
    fn placed(&self, op: &Op) -> Option<Range<u64>> {
        let Op::Write { object, offset, length, stability, .. } = op else { return None };
        if *stability > Stability::Unstable && *length <= self.inline_max() {
            return None;
        }
        let record_size = self.handles[*object].record_size.max(1);
        let (first, last) = (offset.next_multiple_of(record_size), (offset + length) / record_size * record_size);
        Some(if first < last { first..last } else { 0..0 })
    }

    /// What a COMMIT finds to be done.
    fn due_of(&mut self, op: &Op) -> Vec<(Range<u64>, bool)> {
        let Op::Commit { object, offset, count } = op else { return Vec::new() };
        let object = self.handles[*object].model;
        let size = self.live.getattr(object).map_or(0, |attr| attr.size);
        let end = if *count == 0 { size } else { size.min(offset + u64::from(*count)) };
        self.lines[0].dirty(object).within((*offset).min(end)..end)
    }

    /// The objects whose handles an operation is given.
    fn looked_at(&self, op: &Op) -> Vec<ObjectId> {
        let places: &[usize] = match op {
            Op::Create { dir, .. }
            | Op::Mkdir { dir, .. }
            | Op::Symlink { dir, .. }
            | Op::Mknod { dir, .. }
            | Op::Remove { dir, .. }
            | Op::Rmdir { dir, .. } => &[*dir],
            Op::Rename { from_dir, to_dir, .. } => &[*from_dir, *to_dir],
            Op::Link { object, dir, .. } => &[*object, *dir],
            Op::SetAttr { object, .. } | Op::Write { object, .. } | Op::Commit { object, .. } => &[*object],
        };
        places.iter().map(|at| self.handles[*at].model.id).collect()
    }

    /// The newest change of what a refused operation looked at (rules F9).
    fn seen(&self, op: &Op) -> usize {
        self.looked_at(op).iter().filter_map(|id| self.last_change.get(id)).copied().max().unwrap_or(0)
    }

    /// Whether both succeeded; an error if they differ.
    fn agree(&self, real: &Result<Answer, FsError>, model: &Result<Answer, FsError>) -> Checked<bool> {
        let alike = |error: FsError| if error == FsError::BadType { FsError::Invalid } else { error };
        match (real, model) {
            (Err(real), Err(model)) if alike(*real) == alike(*model) => Ok(false),
            // Two handles, one of them stale and the other no directory: which is told first is nobody's concern.
            (Err(FsError::Stale), Err(FsError::NotDirectory)) | (Err(FsError::NotDirectory), Err(FsError::Stale)) => {
                Ok(false)
            }
            (Ok(Answer::Made(real)), Ok(Answer::Made(model))) => same_attr(real, model).map(|()| true),
            (
                Ok(Answer::Written { count, stability, .. }),
                Ok(Answer::Written { count: expected, stability: asked, .. }),
            ) if count == expected && stability >= asked => Ok(true),
            (Ok(Answer::Nothing), Ok(Answer::Nothing)) | (Ok(Answer::Committed(_)), Ok(Answer::Committed(_))) => {
                Ok(true)
            }
            _ => Err(format!("answered {real:?} instead of {model:?}")),
        }
    }

    /// Takes in what a success has told: new objects, the verifier.
    fn learn(&mut self, op: &Op, real: &Result<Answer, FsError>, model: &Result<Answer, FsError>) {
        let makes = matches!(op, Op::Create { .. } | Op::Mkdir { .. } | Op::Symlink { .. } | Op::Mknod { .. });
        if let (Ok(Answer::Made(real)), Ok(Answer::Made(model)), true) = (real, model, makes)
            && self.handles.iter().all(|handle| handle.model != model.object)
        {
            let record_size = u64::from(self.filer().datasets()[0].effective.recordsize);
            self.handles.push(Handle { real: real.object, model: model.object, kind: real.kind, record_size });
            if self.handles.len() > 60 {
                let live = &self.live;
                self.handles.retain(|handle| live.getattr(handle.model).is_ok());
            }
        }
        if let Ok(Answer::Written { verifier, .. } | Answer::Committed(verifier)) = real {
            let first = *self.verifier.get_or_insert(*verifier);
            assert_eq!(first, *verifier, "the verifier changed within a life");
            assert!(!self.old_verifiers.contains(verifier), "the verifier is that of a life whose data may be lost");
        }
    }

    /// The objects that an operation finds under its names, before it is carried out.
    fn named(&self, op: &Op) -> Vec<ObjectId> {
        let names: &[(usize, &str)] = match op {
            Op::Create { dir, name, .. }
            | Op::Mkdir { dir, name }
            | Op::Symlink { dir, name, .. }
            | Op::Mknod { dir, name, .. }
            | Op::Remove { dir, name }
            | Op::Rmdir { dir, name }
            | Op::Link { dir, name, .. } => &[(*dir, name)],
            Op::Rename { from_dir, from, to_dir, to } => &[(*from_dir, from), (*to_dir, to)],
            Op::SetAttr { .. } | Op::Write { .. } | Op::Commit { .. } => &[],
        };
        let find = |(dir, name): &(usize, &str)| {
            let found = self.live.lookup(&Cred::root(), self.handles[*dir].model, name.as_bytes());
            found.ok().map(|(attr, _)| attr.object.id)
        };
        names.iter().filter_map(find).collect()
    }

    /// Tells the lines what a successful operation did, and gives what its wait promises.
    fn take(&mut self, op: &Op, data: &Bytes, before: &Before) -> Promised {
        let number = self.op;
        let mut changed: Vec<ObjectId> = self.looked_at(op).into_iter().chain(before.named.iter().copied()).collect();
        let seen = changed.iter().filter_map(|id| self.last_change.get(id)).copied().max().unwrap_or(0);
        let of = |at: &usize| self.handles[*at].model;
        let effect = match op {
            Op::Create { how, .. } if before.existing.is_some() => {
                let (object, was) = before.existing.expect("it was just seen");
                match how {
                    CreateHow::Unchecked(SetAttr { size: Some(size), .. }) if was != *size => {
                        changed = vec![object.id];
                        Effect::Resized { object, size: *size }
                    }
                    _ => return Promised::Log(seen),
                }
            }
            Op::SetAttr { object, set } => match set.size {
                Some(size) => Effect::Resized { object: of(object), size },
                None if *set == SetAttr::default() => return Promised::Log(seen),
                None => Effect::Same,
            },
            Op::Write { length: 0, .. } => return Promised::Log(seen),
            // Two names of one object: nothing is done.
            Op::Rename { .. } if before.named.len() == 2 && before.named[0] == before.named[1] => {
                return Promised::Log(seen);
            }
            Op::Write { object, offset, length, .. } => {
                self.last_write.insert(of(object).id, number);
                match before.placed.clone() {
                    Some(placed) => Effect::Unlogged { object: of(object), offset: *offset, length: *length, placed },
                    None => Effect::Written { object: of(object), offset: *offset, data: data.clone() },
                }
            }
            Op::Commit { object, .. } => {
                let due = &before.due;
                let bytes: u64 = due.iter().filter(|(_, placed)| !placed).map(|(part, _)| part.end - part.start).sum();
                if due.is_empty() {
                    return Promised::Log(seen);
                }
                if due.iter().any(|(_, placed)| *placed) || bytes > self.inline_max() {
                    return Promised::Group(self.last_write.get(&of(object).id).copied().unwrap_or(0));
                }
                Effect::Committed { object: of(object), parts: due.iter().map(|(part, _)| part.clone()).collect() }
            }
            _ => Effect::Same,
        };
        let mut lines = std::mem::take(&mut self.lines);
        let again = |model: &Model| {
            self.call(op, model, data, |handle| handle.model).result.expect("what the live model did, too");
        };
        lines.iter_mut().for_each(|line| line.take(&self.live, number, &effect, &again));
        self.lines = lines;
        if matches!(effect, Effect::Unlogged { .. }) {
            let stable = matches!(op, Op::Write { stability, .. } if *stability > Stability::Unstable);
            return if stable { Promised::Group(number) } else { Promised::Log(0) };
        }
        for id in changed {
            self.last_change.insert(id, number);
        }
        Promised::Log(number)
    }

    // ---- groups ----

    fn begin_sync(&mut self) {
        self.note("sync");
        self.totals.syncs += 1;
        let line = Line::new(&self.live, self.op);
        self.lines.push(line);
        self.closed_op = self.op;
    }

    fn end_sync(&mut self, outcome: Result<(), String>) -> Checked<()> {
        match outcome {
            Ok(()) => {
                self.note("synced");
                self.lines.remove(0);
                self.synced_op = self.closed_op;
                Ok(())
            }
            Err(error) if self.power.is_off() => {
                self.note(format!("sync failed: {error}"));
                Ok(())
            }
            Err(error) => Err(format!("sync: {error}")),
        }
    }

    // ---- lives ----

    /// The power goes, if it has not; what survives is imported, and must be a state that the oracle knows.
    fn reimport(&mut self, exported: bool) -> Checked<()> {
        let (mut exported, was_exported) = (exported, exported);
        self.held.clear();
        self.stop();
        let seed = self.plan.seed;
        for attempt in 0.. {
            let stream = (4 << 32) + self.totals.lives * 16 + attempt;
            let mut chance = Chance::new(seed, stream);
            self.power.cut();
            let power = Arc::new(Power::default());
            for (_, disk) in &mut self.disks {
                *disk = Arc::new(disk.survivor(&power, &mut chance));
            }
            self.power = power;
            self.totals.cuts += u64::from(!exported);
            let scale = chance.pick(&[8, 60]);
            let planned = (attempt < 4 && chance.one_in(3)).then(|| 1 + chance.below(scale));
            self.power.plan_cut(planned, chance.next());
            self.note(format!("import{}", planned.map_or(String::new(), |at| format!(", cut after {at} writes"))));
            let paths = self.disks.iter().map(|(path, _)| Path::new(path).into()).collect();
            let source = ImportSource { paths, dirs: vec![] };
            let select = PoolSelect::Name("tank".into());
            let options = ImportOptions::default();
            let outcome = Filer::import(&self.platform(), &self.tuning, &source, &select, &options, &mut |_| {});
            if self.power.is_off() {
                self.totals.cuts_in_import += 1;
                exported = false;
                continue;
            }
            let (filer, report) = outcome.map_err(|error| format!("the import is refused: {error}"))?;
            self.power.plan_cut(None, 0);
            self.note(format!("imported; {} records replayed {:?}", report.records_replayed, report.remarks));
            self.totals.replayed += report.records_replayed;
            if !report.losses.is_empty() {
                return Err(format!("losses: {:?}", report.losses));
            }
            if exported && (!report.was_clean || report.records_replayed > 0) {
                return Err(format!("not clean after an export: {report:?}"));
            }
            self.start(filer);
            self.adopt(report.was_clean)?;
            // After a clean export nothing is lost, also when the power went before the labels said so. A cut in the import
            // that follows may change the verifier, and need not.
            let verifier = self.verifier.take();
            if report.was_clean {
                self.verifier = verifier;
            } else if !was_exported {
                self.old_verifiers.extend(verifier);
            }
            return sound(self.filer()).map_err(|what| format!("after the import: {what}"));
        }
        unreachable!("the fifth attempt is not cut");
    }

    /// Finds the state that the import has, and goes on from there.
    fn adopt(&mut self, was_clean: bool) -> Checked<()> {
        let fs = Arc::clone(self.fs());
        let mut differences = Vec::new();
        let mut found = None;
        for (at, line) in self.lines.iter().enumerate().rev() {
            for (op, model) in line.states() {
                match same(&*fs, model) {
                    Ok(()) => {
                        found = Some((op, model.fork()));
                        break;
                    }
                    Err(what) => differences.push(format!("    group line {at}, after #{op}: {what}")),
                }
            }
            if found.is_some() {
                break;
            }
        }
        let Some((op, model)) = found else {
            return Err(format!("the import has a state that never was:\n{}", differences.join("\n")));
        };
        self.note(format!("the state after #{op} of #{}", self.op));
        if was_clean && same(&*fs, &self.live).is_err() {
            return Err("the pool says that it was exported, and something is missing".into());
        }
        for handle in std::mem::take(&mut self.handles) {
            match (fs.getattr(handle.real), model.getattr(handle.model)) {
                (Ok(real), Ok(expected)) => {
                    same_attr(&real, &expected).map_err(|what| format!("by its handle: {what}"))?;
                    self.handles.push(handle);
                }
                (Err(FsError::Stale), Err(FsError::Stale)) => self.gone.push(handle.real),
                (real, expected) => return Err(format!("a handle gives {real:?} instead of {expected:?}")),
            }
        }
        for gone in &self.gone {
            if fs.getattr(*gone).is_ok() {
                return Err(format!("a handle of something lost opens object {}", gone.id));
            }
        }
        let excess = self.gone.len().saturating_sub(200);
        self.gone.drain(..excess);
        self.live = model;
        self.lines = vec![Line::new(&self.live, self.op)];
        self.synced_op = self.op;
        let newest = self.handles.iter().map(|handle| handle.model.id.0).max().unwrap_or(0);
        self.first_id = ObjectId(newest + 1);
        self.last_change.clear();
        self.last_write.clear();
        Ok(())
    }

    fn show(&self, op: &Op) -> String {
        format!("{op:?}")
    }
}

/// What stood there before an operation.
struct Before {
    /// The file that a CREATE finds, and its size.
    existing: Option<(ObjectRef, u64)>,
    named: Vec<ObjectId>,
    /// The part of a WRITE that goes to the pool ahead; `None` if its record carries it.
    placed: Option<Range<u64>>,
    /// What a COMMIT finds to be done, and whether it is in the pool ahead.
    due: Vec<(Range<u64>, bool)>,
}

fn answer<T>(outcome: Outcome<T>, to: impl FnOnce(T) -> Answer) -> Outcome<Answer> {
    Outcome { result: outcome.result.map(to), changes: outcome.changes, wait: outcome.wait }
}

fn create_how(chance: &mut Chance) -> CreateHow {
    let set = SetAttr {
        mode: Some(chance.pick(&[0o600, 0o644, 0o755])),
        size: if chance.one_in(3) { Some(chance.pick(&[0, 0, 1, 5000, 200_000])) } else { None },
        ..SetAttr::default()
    };
    match chance.below(4) {
        0 => CreateHow::Exclusive(chance.below(3)),
        1 => CreateHow::Guarded(set),
        _ => CreateHow::Unchecked(set),
    }
}

fn attributes(chance: &mut Chance) -> SetAttr {
    match chance.below(4) {
        0 => SetAttr::default(),
        1 => SetAttr { mode: Some(chance.below(0o1000) as u32), ..SetAttr::default() },
        2 => SetAttr { uid: Some(chance.below(5) as u32), gid: Some(chance.below(5) as u32), ..SetAttr::default() },
        _ => SetAttr { mtime: Some(SetTime::Client(Time(chance.below(1000)))), ..SetAttr::default() },
    }
}

fn length(chance: &mut Chance) -> u64 {
    match chance.below(10) {
        0 | 1 => 1 + chance.below(100),
        2 | 3 => 1 + chance.below(6000),
        4 | 5 => 4096 * (1 + chance.below(8)),
        6 => 131_072 * (1 + chance.below(2)),
        7 => 16_384 - 8 + chance.below(16),
        8 => chance.below(40_000),
        _ => 1 + chance.below(300 << 10),
    }
}
