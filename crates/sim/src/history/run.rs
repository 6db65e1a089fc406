//! Running a plan.

mod syncs;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tally_base::Promise;
use tally_store::properties::{Property, PropertySet, SyncMode, Value, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{FileKind, Identity};

use super::choose::{Act, BURST_WRITES_MAX};
use super::requests::Next;
use super::spares::{self, Spares};
use super::standstill::OUTAGE_ONE_IN;
use super::times::Seen;
use super::waits::Patience;
use super::world::{DATASETS, fill};
use super::{Checked, Meanwhile, Part, Plan, State, Totals, Trace, Trouble, Troubles};
use crate::chance::{Chance, Stream};
use crate::client::Client;
use crate::machine::{Machine, POOL, Shape};
use crate::op::{Known, Object, Op};
use crate::oracle::{Oracle, new_model};
use crate::panics::PANICKED_AT;

/// How a run ended badly.
#[derive(Debug)]
pub struct Failure {
    /// What was found wrong.
    pub message: String,
    /// What led to it.
    pub trace: Vec<String>,
}

/// Blocks of a pool that rot in turn behind one import, each in a world of its own.
const BLOCKS_OF_A_LIFE: usize = 2;

/// Behind one import in so many comes another one, and nothing between them.
const IDLE_LIFE_ONE_IN: u64 = 5;

/// Before one step in so many a client reads a file in order.
const READ_IN_ORDER_ONE_IN: u64 = 12;

/// Groups after which a request must have been admitted: one makes room for it, unless others take the room.
const TRIES_MAX: usize = 20;
/// The same while another thread syncs: looks, not groups.
const TRIES_BESIDE_MAX: usize = 1_000_000;
/// Groups that the reaper may take beyond these, for all that files of these worlds have.
const REAPING_GROUPS_MAX: usize = 2_000;

/// Runs a plan to its end.
pub fn run(plan: &Plan) -> Result<Totals, Failure> {
    run_as(plan, History::live_on)
}

/// Runs a plan in this manner.
pub(super) fn run_as(plan: &Plan, how: impl FnOnce(History) -> Checked<Totals>) -> Result<Totals, Failure> {
    let trace = Trace::default();
    PANICKED_AT.take();
    let outcome = catch_unwind(AssertUnwindSafe(|| History::new(plan, &trace).and_then(how)));
    let message = match outcome {
        Ok(Ok(totals)) => return Ok(totals),
        // A request that panics is caught by the server, and answered.
        Ok(Err(message)) => match PANICKED_AT.take() {
            place if place.is_empty() => message,
            place => format!("{message} (a panic at {place} was caught)"),
        },
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("panic at {}: {}", PANICKED_AT.take(), text.unwrap_or_default())
        }
    };
    let trace = std::mem::take(&mut *trace.lock());
    Err(Failure { message, trace })
}

/// A run's state, which the hook inside of device writes needs, too.
pub(super) struct History(pub(super) Arc<Mutex<State>>);

impl History {
    pub(super) fn new(plan: &Plan, trace: &Trace) -> Checked<Self> {
        let mut chance = Chance::of(plan.seed, Stream::World, 0);
        let shape = shape(plan, &mut chance);
        let troubles = Troubles::of(&shape.vdevs, &mut chance);
        // The third client is a machine of ordinary users.
        let clients = [(1, 0), (2, 0), (3, 1)];
        let clients = clients.map(|(number, user)| Client::new(number, user, chance.next() as u32)).into();
        let mut state = State {
            plan: plan.clone(),
            trace: Arc::clone(trace),
            totals: Totals::default(),
            machine: Machine::new(shape, plan.seed),
            troubles,
            clients,
            parts: Vec::new(),
            born: None,
            is_full: false,
            objects: Vec::new(),
            sent: Vec::new(),
            in_doubt: Vec::new(),
            stands_still: false,
            past: VecDeque::new(),
            next_past: 0,
            ends: VecDeque::new(),
            has_synced: false,
            round: 0,
            time_off_ns: 0,
            disks_made: 0,
            op: 0,
            step: 0,
            synced_op: 0,
            closed_op: 0,
            groups: VecDeque::new(),
            closing: None,
            may_be_back: None,
            dataset_ids: BTreeSet::new(),
            spares: Spares::default(),
            rotten: None,
            meanwhile: Meanwhile::default(),
        };
        let shape = state.machine.shape();
        state.note(format!(
            "create {} of {} with a log of {}",
            shape.vdevs.join(" "),
            shape.data_bytes,
            shape.log_bytes
        ));
        let mut properties = PropertySet::new();
        let sizes: &[&str] = if plan.trouble == Trouble::Refusals { &["128K"] } else { &["4K", "16K", "128K"] };
        properties.set(parse(Property::RecordSize, chance.pick(sizes)).expect("a size"));
        state.machine.create(properties).map_err(|error| format!("create: {error}"))?;
        state.add_part(POOL, SyncMode::Standard)?;
        let sync = chance.one_in(2).then(|| chance.pick(&[SyncMode::Standard, SyncMode::Always, SyncMode::Disabled]));
        // Beside what is promised there is to be less: when it goes, what is kept free for its sake goes with it.
        let step_bytes = if plan.reserves() { 8 << 10 } else { 128 << 10 };
        let free_bytes = (plan.trouble == Trouble::Full).then(|| step_bytes * (1 + chance.below(10)));
        let history = Self(Arc::new(Mutex::new(state)));
        if plan.reserves() && free_bytes.is_some() {
            history.first_reservations(&mut Chance::of(plan.seed, Stream::Reserve, 1))?;
        }
        if let Some(free_bytes) = free_bytes {
            history.fill_with_ballast(free_bytes)?;
        }
        if plan.has_spares() {
            history.first_spares(&mut Chance::of(plan.seed, Stream::Spares, 0))?;
        }
        if let Some(sync) = sync {
            history.create_dataset(DATASETS[0], sync)?;
        }
        Ok(history)
    }

    fn fill_with_ballast(&self, free_bytes: u64) -> Checked<()> {
        let mut state = self.0.lock();
        fill(&state.machine.server().filer, free_bytes)?;
        // The directory that the ballast is mounted on stands in the root, too.
        let dir = state.root(0);
        state.take_of_command(&Op::Mkdir { dir, name: "ballast" });
        let op = state.op;
        state.parts[0].oracle.begin_group(op);
        state.parts[0].oracle.end_group();
        Ok(())
    }

    /// All lives, to the last.
    pub(super) fn live_on(self) -> Checked<Totals> {
        loop {
            let exported = self.live()?;
            let mut state = self.0.lock();
            state.totals.lives += 1;
            let mut chance = Chance::of(state.plan.seed, Stream::Life, state.totals.lives);
            if state.plan.trouble == Trouble::Rot && chance.one_in(3) {
                state.rot_in_a_copy(&mut chance)?;
            }
            drop(state);
            let goes_on = self.go_on()?;
            let mut state = self.0.lock();
            if !goes_on {
                state.begin_life(exported, Stream::Import)?;
            }
            if state.plan.trouble == Trouble::Rot && chance.one_in(2) {
                state.rot_and_go_on(Some(BLOCKS_OF_A_LIFE), &mut chance)?;
            }
            if state.step >= state.plan.steps {
                return Ok(state.totals);
            }
            drop(state);
            self.idle_lives()?;
        }
    }

    /// Imports behind which nobody asks for anything: what they draw is told by no entry of a dataset, and holds all the same.
    fn idle_lives(&self) -> Checked<()> {
        let mut chance = {
            let state = self.0.lock();
            Chance::of(state.plan.seed, Stream::Idle, state.totals.lives)
        };
        while chance.one_in(IDLE_LIFE_ONE_IN) {
            self.0.lock().note("idle life");
            let exported = chance.one_in(2) && self.export()?;
            let mut state = self.0.lock();
            state.totals.idle_lives += 1;
            state.begin_life(exported, Stream::IdleImport)?;
        }
        Ok(())
    }

    /// One life: until the power goes, or the pool is exported. Gives whether it was.
    fn live(&self) -> Checked<bool> {
        let (end, planned, beside) = {
            let state = self.0.lock();
            let mut chance = Chance::of(state.plan.seed, Stream::Life, state.totals.lives);
            let length = chance.pick(&[3u64, 10, 30, 60]);
            let scale = chance.below(9);
            let beside = state.is_beside();
            let planned = (!chance.one_in(4) && !beside).then(|| 1 + chance.below(1 << scale));
            state.machine.power().plan_cut(planned);
            state.note(format!("life; cut after {planned:?} writes"));
            if state.plan.suspends() {
                state.draw_what_is_left();
            }
            ((state.step + 1 + chance.below(length) as usize).min(state.plan.steps), planned, beside)
        };
        debug_assert!(planned.is_none() || !beside);
        if beside {
            self.beside_syncs(|| self.steps_to(end))?;
            self.sync_group()?;
            self.answer_all()?;
        } else {
            self.steps_to(end)?;
            self.destroy_what_may_come_back()?;
        }
        if self.0.lock().is_off() {
            return Ok(false);
        }
        let exported = Chance::of(self.0.lock().plan.seed, Stream::Export, end as u64).one_in(4);
        if exported { self.export() } else { Ok(false) }
    }

    pub(super) fn steps_to(&self, end: usize) -> Checked<()> {
        loop {
            {
                let state = self.0.lock();
                if state.is_off() || state.step >= end {
                    return Ok(());
                }
            }
            self.step()?;
        }
    }

    fn step(&self) -> Checked<()> {
        let (act, mut chance) = {
            let mut state = self.0.lock();
            let step = state.step;
            state.step += 1;
            if state.plan.skipped.contains(&step) {
                return Ok(());
            }
            if state.is_beside() {
                let mut chance = Chance::of(state.plan.seed, Stream::ListingOfStep, step as u64);
                state.meanwhile(&mut chance)?;
            }
            let mut chance = Chance::of(state.plan.seed, Stream::Ahead, step as u64);
            if chance.one_in(READ_IN_ORDER_ONE_IN) && state.rotten.is_none() {
                state.read_in_order(&mut chance)?;
            } else if chance.one_in(4) {
                state.fetch_ahead(chance.below(8));
            }
            let mut chance = Chance::of(state.plan.seed, Stream::Outage, step as u64);
            if state.plan.has_outages() && !state.is_off() && chance.one_in(OUTAGE_ONE_IN) {
                drop(state);
                return self.outage(&mut chance);
            }
            if state.is_off() {
                return Ok(());
            }
            (state.choose(), Chance::of(state.plan.seed, Stream::Step, step as u64))
        };
        match act {
            Act::Sync => self.sync_group(),
            Act::RecordSize(bytes) => {
                let value = parse(Property::RecordSize, &bytes.to_string()).expect("a size");
                self.sync(true, move |filer| filer.set_property(POOL, value).map_err(|error| error.to_string()))
            }
            Act::SyncMode(part, mode) => self.set_sync(part, mode),
            Act::AnswerAll => self.answer_all(),
            Act::Look => self.0.lock().look(),
            Act::Read => {
                let mut state = self.0.lock();
                state.ask_as_user()?;
                state.read(&mut chance)
            }
            Act::Reconnect => {
                let mut state = self.0.lock();
                let client = chance.below(state.clients.len() as u64) as usize;
                state.note(format!("client {client} reconnects"));
                state.clients[client].reconnect();
                Ok(())
            }
            Act::Again => {
                let repeated = self.0.lock().repeat(&mut chance)?;
                repeated.map_or(Ok(()), |attempt| self.carry_out(attempt, &mut chance))
            }
            Act::Burst => self.burst(&mut chance),
            Act::Row => self.row(&mut chance),
            Act::LogBias(part, bias) => {
                let (name, value) = {
                    let state = self.0.lock();
                    let value = Value::LogBias(bias);
                    state.note(format!("logbias={value} on {}", state.parts[part].name));
                    (state.parts[part].name.clone(), value)
                };
                self.sync(true, move |filer| filer.set_property(&name, value).map_err(|error| error.to_string()))
            }
            Act::Dataset => self.dataset_command(&mut chance),
            Act::Quota => self.set_quota(&mut chance),
            Act::Disks => self.disk_command(&mut chance),
            Act::Trouble => {
                self.0.lock().trouble(&mut chance);
                Ok(())
            }
            Act::Op(op) => {
                let attempt = self.0.lock().attempt(&op, &mut chance)?;
                self.carry_out(attempt, &mut chance)
            }
        }
    }

    /// Fills the ring of the log, so that it wraps, and groups are closed because it is full.
    fn burst(&self, chance: &mut Chance) -> Checked<()> {
        let (object, writes) = {
            let state = self.0.lock();
            let part = state.some_part(chance);
            (state.object(chance, part, Some(FileKind::File)), 4 + chance.below(BURST_WRITES_MAX))
        };
        for _ in 0..writes {
            let attempt = {
                let mut state = self.0.lock();
                if state.is_off() {
                    return Ok(());
                }
                let op = state.burst_write(chance, &object);
                state.attempt(&op, chance)?
            };
            self.carry_out(attempt, chance)?;
        }
        Ok(())
    }

    /// Writes a file in one row, with COMMITs in it.
    fn row(&self, chance: &mut Chance) -> Checked<()> {
        let ops = self.0.lock().row(chance);
        for op in ops {
            let attempt = {
                let mut state = self.0.lock();
                if state.is_off() {
                    return Ok(());
                }
                state.attempt(&op, chance)?
            };
            self.carry_out(attempt, chance)?;
        }
        Ok(())
    }

    /// A part of a COMMIT gets into the log, and others may come before the next one.
    fn behind_part(&self, promise: &dyn Promise, object: &Object, chance: &mut Chance) -> Checked<()> {
        for op in 0..chance.below(3) {
            let mut state = self.0.lock();
            if state.is_off() || state.is_in_trouble() {
                break;
            }
            let op = if op == 0 { state.write_into(chance, object) } else { state.choose_op(chance) };
            let attempt = state.attempt(&op, chance)?;
            if let Next::AnswerAll = state.carry_out(attempt, chance)? {
                state.drive_sent()?;
            }
        }
        if promise.drive().or_else(|| promise.poll()).is_some() || self.0.lock().is_off() {
            return Ok(());
        }
        self.answer_all()?;
        if promise.poll().is_some() || self.0.lock().is_off() {
            return Ok(());
        }
        // The log has ended, and nobody else waits for the group.
        self.sync_group()
    }

    pub(super) fn carry_out(&self, mut attempt: super::requests::Attempt, chance: &mut Chance) -> Checked<()> {
        let beside = self.0.lock().is_beside();
        let tries = if beside { TRIES_BESIDE_MAX } else { TRIES_MAX };
        let mut throttled = Patience::default();
        // What the reaper has not freed yet may be what is waited for.
        let (mut left, mut reaping_left) = (tries, REAPING_GROUPS_MAX);
        while left > 0 {
            left -= 1;
            let next = self.0.lock().carry_out(attempt, chance)?;
            match next {
                Next::Done => return Ok(()),
                Next::AnswerAll => return self.answer_all(),
                Next::Part(again, promise) => {
                    attempt = *again;
                    let object = Arc::clone(attempt.object());
                    self.behind_part(&*promise, &object, chance)?;
                    let state = self.0.lock();
                    if state.is_off() {
                        state.give_up(attempt);
                        return Ok(());
                    }
                }
                Next::AfterSync(again) => {
                    attempt = *again;
                    if beside {
                        let looked = throttled.check_again(self.0.lock().machine.clock());
                        looked.map_err(|what| format!("throttled {what}"))?;
                        std::thread::yield_now();
                    } else {
                        self.sync_group()?;
                        let mut state = self.0.lock();
                        if state.is_off() {
                            state.give_up(attempt);
                            return Ok(());
                        }
                        // Each reply that waits has somebody who writes the log for it: what is gathered takes room,
                        // too.
                        state.drive_sent()?;
                        if reaping_left > 0 && state.has_orphans() {
                            (left, reaping_left) = (left + 1, reaping_left - 1);
                        }
                    }
                }
            }
        }
        Err(format!("a request was refused for {tries} groups"))
    }

    fn export(&self) -> Checked<bool> {
        self.answer_all()?;
        let mut state = self.0.lock();
        if state.is_off() {
            return Ok(false);
        }
        state.note("export");
        state.begin_sync();
        let outcome = state.machine.server().filer.export();
        if state.is_off() {
            return Ok(false);
        }
        if outcome.is_err() && state.is_in_trouble() {
            // It is put away, and clients wait for nothing.
            state.machine.power().cut();
            return Ok(false);
        }
        state.end_sync(outcome.map_err(|error| error.to_string()))?;
        Ok(!state.is_off())
    }
}

/// A machine of a kind that somebody would build, or smaller.
fn shape(plan: &Plan, chance: &mut Chance) -> Shape {
    let trouble = plan.trouble;
    let cache_bytes = chance.pick(&[64u64 << 10, 64 << 20]);
    let tuning = Tuning {
        cache_bytes,
        // Where there is little memory each group reads its space maps anew.
        space_map_bytes: if cache_bytes < 1 << 20 { 0 } else { 32 << 20 },
        dirty_bytes_max: chance.pick(&[1u64 << 20, 256 << 20]),
        // A file of these worlds has some dozens of extents at the most.
        // Most pools of these worlds have less content than the default, and the cursor of a scrub would hardly move.
        scrub_stretch_bytes: Chance::of(plan.seed, Stream::Reaper, 1).pick(&[1 << 14, 1 << 18, 64 << 20]),
        reap_extents_max: Chance::of(plan.seed, Stream::Reaper, 0).pick(&[1, 5, Tuning::default().reap_extents_max]),
        ..Tuning::default()
    };
    Shape {
        vdevs: chance
            .pick(if plan.has_spares() { spares::SHAPES } else { trouble.shapes() })
            .iter()
            .map(|word| (*word).to_owned())
            .collect(),
        data_bytes: match trouble {
            Trouble::Full => 16 << 20,
            // What is reserved is to be no reason why a pool is full that is not meant to be.
            _ => chance.pick(&[16u64, 96, 96]).max(if plan.reserves() { 96 } else { 16 }) << 20,
        },
        log_bytes: chance.pick(&[2u64, 4, 16]) << 20,
        tuning,
    }
}

impl State {
    pub(super) fn add_part(&mut self, name: &str, sync: SyncMode) -> Checked<()> {
        let dataset = self.parts.len();
        let oracle = Oracle::new(new_model(), sync);
        let model = oracle.live.root();
        self.parts.push(Part {
            name: name.into(),
            is_there: true,
            doomed: false,
            renamed: None,
            seen: Seen::default(),
            oracle,
            verifier: None,
            old_verifiers: Vec::new(),
            gone: Vec::new(),
            gone_ids: BTreeMap::new(),
            record_sizes: HashMap::new(),
        });
        let id = self.machine.server().filer.by_name(name).ok_or("a dataset that was just made")?.dataset();
        if !self.dataset_ids.insert(id) {
            return Err(format!("{name} is dataset {id}, and so was another one"));
        }
        let handle = self.machine.server().root_handle(name);
        self.objects.push(Arc::new(Known { handle, model, kind: FileKind::Directory, dataset, record_size: 0 }));
        Ok(())
    }
}
