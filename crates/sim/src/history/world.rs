//! What happens around the requests: the machine is off for seconds or for weeks, its clock is wrong, datasets come, go
//! and change their names, and the pool is nearly full.

use std::sync::Arc;
use std::time::Duration;

use tally_base::Clock;
use tally_fs::filer::Filer;
use tally_store::properties::{Property, PropertySet, SyncMode, parse};
use tally_vfs::{Attributes, Content, Cred, FsError, Identity, Names as _, OpCtx, SetAttr, Stability};

use super::lives::shown;
use super::run::History;
use super::{Checked, State, Trouble};
use crate::chance::{Chance, Stream};
use crate::machine::POOL;
use crate::op::Op;

/// What datasets are called, below the pool.
pub(super) const DATASETS: [&str; 3] = ["home", "mail", "box"];
/// Datasets of a history, over all its lives, at most: each of them is compared at every import.
const DATASETS_MAX: usize = 6;
/// Where lives begin with older groups, one in so many ends behind the end of a dataset.
const DESTROYED_ONE_IN: u64 = 3;
/// An outage behind which everything that is remembered for a while only would be forgotten, if it aged meanwhile.
const LONG_OUTAGE: Duration = Duration::from_secs(125);
/// How long a machine is off that does not stay so.
const REBOOT_SECONDS: u64 = 90;
/// By how much, in seconds: a drift, a time zone, a battery that is empty, and years that no file was ever written in.
const WRONG_BY_SECONDS: [i64; 8] =
    [-2, 30, -3600, 7200, -86_400 * 400, -1_699_000_000, 86_400 * 365 * 76, 86_400 * 365 * 206];
/// Bytes of one write of the ballast, and of a record of its file.
const BALLAST_BYTES: u64 = 128 << 10;

impl State {
    /// The machine is off for a while, and its clock may be another when it is on again.
    pub(super) fn go_by(&mut self, chance: &mut Chance) {
        let was_wrong = self.machine.clock().is_wrong();
        let away = match chance.below(16) {
            0..8 => Duration::ZERO,
            8..13 => Duration::from_secs(1 + chance.below(REBOOT_SECONDS)),
            13 | 14 => LONG_OUTAGE + Duration::from_secs(chance.below(7200)),
            15 => Duration::from_secs(86_400 * (1 + chance.below(30))),
            _ => return,
        };
        self.machine.clock().pass(away);
        self.time_off_ns += away.as_nanos() as u64;
        match chance.below(10) {
            0 => self.machine.clock().set_wrong_by(1_000_000_000 * chance.pick(&WRONG_BY_SECONDS)),
            1..4 => self.machine.clock().set_wrong_by(0),
            _ => {}
        }
        let jumps = was_wrong != self.machine.clock().is_wrong();
        self.totals.lives_after_gap += u64::from(jumps || away >= LONG_OUTAGE);
        if jumps || !away.is_zero() {
            self.note(format!("off for {away:?}; the clock says {}", self.machine.clock().now().0 / 1_000_000_000));
        }
    }

    /// What a command does by itself, as if a client had asked: made or removed mount points. Gives its number.
    pub(super) fn take_of_command(&mut self, op: &Op) -> Option<usize> {
        let limits = self.machine.server().limits(POOL);
        let root = Cred::root();
        let part = &mut self.parts[0];
        let before = part.oracle.before(op, limits);
        let expected = op.run_on(&part.oracle.live, &root);
        if expected.result.is_err() {
            return None;
        }
        self.op += 1;
        self.meanwhile.follow(op);
        let _promised = part.oracle.take((op, &root), self.op, &before, limits);
        part.seen.changes(op, &expected, &before, self.op);
        Some(self.op)
    }

    /// The command waits for its mount point, and if the power went then nobody would end the wait: it has one thread.
    fn no_cut(&self) {
        self.machine.power().plan_cut(None);
    }

    fn keep(&mut self, op: Option<usize>) {
        if let Some(op) = op
            && self.parts[0].oracle.sync != SyncMode::Disabled
        {
            self.parts[0].oracle.raise_floor(op, self.round);
        }
    }

    /// A dataset is gone: so is everything that was known of it, and its handles open nothing.
    pub(super) fn forget_part(&mut self, at: usize) -> Checked<()> {
        self.meanwhile.end();
        self.parts[at].is_there = false;
        self.parts[at].doomed = false;
        self.note(format!("{} is gone", self.parts[at].name));
        self.past.retain(|past| past.op.objects().iter().all(|object| object.dataset != at));
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.objects).into_iter().partition(|object| object.dataset == at);
        self.objects = left;
        for object in gone {
            self.must_be_stale(&object.handle)?;
        }
        Ok(())
    }

    /// The parts that are there.
    pub(super) fn parts_there(&self) -> Vec<usize> {
        (0..self.parts.len()).filter(|at| self.parts[*at].is_there).collect()
    }

    pub(super) fn some_part(&self, chance: &mut Chance) -> usize {
        chance.pick(&self.parts_there())
    }
}

/// The datasets below the pool's own.
struct Names {
    /// Those that are there.
    children: Vec<usize>,
    /// Names that none of them has.
    free: Vec<&'static str>,
    /// All that ever were.
    count: usize,
}

impl History {
    /// Makes, renames or destroys a dataset.
    pub(super) fn dataset_command(&self, chance: &mut Chance) -> Checked<()> {
        let Some(Names { children, free, count }) = self.ready_for_a_command()? else { return Ok(()) };
        match chance.below(3) {
            _ if children.is_empty() && count >= DATASETS_MAX => Ok(()),
            0 if !children.is_empty() => self.destroy_dataset(chance.pick(&children)),
            1 if !children.is_empty() && !free.is_empty() => {
                self.rename_dataset(chance.pick(&children), chance.pick(&free))
            }
            _ if count < DATASETS_MAX && !free.is_empty() => {
                let sync = chance.pick(&[SyncMode::Standard, SyncMode::Always, SyncMode::Disabled]);
                self.create_dataset(chance.pick(&free), sync)
            }
            _ => Ok(()),
        }
    }

    /// Destroys a dataset at the end of a life, which the next one may have again: it may begin with an older group.
    pub(super) fn destroy_what_may_come_back(&self) -> Checked<()> {
        let mut chance = {
            let state = self.0.lock();
            if state.is_off() || !state.plan.goes_back() {
                return Ok(());
            }
            Chance::of(state.plan.seed, Stream::Destroy, state.totals.lives)
        };
        if !chance.one_in(DESTROYED_ONE_IN) {
            return Ok(());
        }
        let Some(Names { children, .. }) = self.ready_for_a_command()? else { return Ok(()) };
        if children.is_empty() { Ok(()) } else { self.destroy_dataset(chance.pick(&children)) }
    }

    /// What a command for a dataset finds, if there can be one now.
    fn ready_for_a_command(&self) -> Checked<Option<Names>> {
        // In a full pool there is no room for a mount point, and where disks fail the command may wait for a group.
        let may = |state: &State| {
            let trouble = state.plan.trouble;
            !state.is_beside() && !trouble.strikes_off() && trouble != Trouble::Full
        };
        if !may(&self.0.lock()) {
            return Ok(None);
        }
        // A command waits for the log by itself, and nobody syncs a group for it here: so there must be room, and a
        // lane.
        self.sync_group()?;
        self.answer_all()?;
        let state = self.0.lock();
        let is_whole = !state.is_off() && state.machine.server().is_whole();
        // A mount point is a name in the pool's own dataset.
        let is_whole = is_whole && state.parts[0].oracle.bound.quota.is_none();
        if !is_whole || !state.sent.is_empty() || state.is_in_trouble() {
            return Ok(None);
        }
        let children: Vec<usize> = state.parts_there().into_iter().filter(|at| *at > 0).collect();
        let full = |name: &str| format!("{POOL}/{name}");
        let is_free = |name: &&&str| children.iter().all(|at| state.parts[*at].name != full(name));
        let free: Vec<&'static str> = DATASETS.iter().filter(is_free).copied().collect();
        Ok(Some(Names { children, free, count: state.parts.len() }))
    }

    pub(super) fn create_dataset(&self, name: &'static str, sync: SyncMode) -> Checked<()> {
        let full = format!("{POOL}/{name}");
        let mut properties = PropertySet::new();
        properties.set(parse(Property::Sync, shown(sync)).expect("a mode"));
        let made = {
            let mut state = self.0.lock();
            state.totals.dataset_commands += 1;
            state.note(format!("dataset create {full}"));
            state.no_cut();
            let dir = state.root(0);
            state.take_of_command(&Op::Mkdir { dir, name })
        };
        let command = full.clone();
        self.command(move |filer| {
            filer.create_dataset(&command, properties, (0, 0)).map(|_| ()).map_err(|error| error.to_string())
        })?;
        let mut state = self.0.lock();
        if state.is_off() {
            state.born = Some((full, sync));
            return Ok(());
        }
        state.keep(made);
        state.add_part(&full, sync)
    }

    fn destroy_dataset(&self, at: usize) -> Checked<()> {
        let name = {
            let mut state = self.0.lock();
            state.totals.dataset_commands += 1;
            state.parts[at].doomed = true;
            let name = state.parts[at].name.clone();
            state.note(format!("dataset destroy {name}"));
            name
        };
        let command = name.clone();
        self.command(move |filer| filer.destroy_dataset(&command, false).map_err(|error| error.to_string()))?;
        let mut state = self.0.lock();
        if state.is_off() {
            return Ok(());
        }
        state.forget_part(at)?;
        let dir = state.root(0);
        state.take_of_command(&Op::Rmdir { dir, name: component(&name) });
        Ok(())
    }

    fn rename_dataset(&self, at: usize, to: &'static str) -> Checked<()> {
        let (from, to_full) = (self.0.lock().parts[at].name.clone(), format!("{POOL}/{to}"));
        let made = {
            let mut state = self.0.lock();
            state.totals.dataset_commands += 1;
            state.note(format!("dataset rename {from} {to_full}"));
            state.no_cut();
            let dir = state.root(0);
            let made = state.take_of_command(&Op::Mkdir { dir: Arc::clone(&dir), name: to });
            // The new name is in the first of two groups; the old mount point goes between them.
            let op = state.op;
            state.parts.iter_mut().for_each(|part| part.oracle.begin_group(op));
            state.take_of_command(&Op::Rmdir { dir, name: component(&from) });
            state.parts[at].renamed = Some(to_full.clone());
            made
        };
        let command = (from, to_full.clone());
        self.command(move |filer| filer.rename_dataset(&command.0, &command.1).map_err(|error| error.to_string()))?;
        let mut state = self.0.lock();
        if state.is_off() {
            return Ok(());
        }
        state.parts.iter_mut().for_each(|part| part.oracle.end_group());
        state.keep(made);
        state.parts[at].renamed = None;
        state.parts[at].name = to_full;
        Ok(())
    }

    /// A command of the administrator, which syncs groups.
    fn command(&self, how: impl FnOnce(&Filer) -> Result<(), String>) -> Checked<()> {
        self.sync(false, how)
    }
}

fn component(full: &str) -> &'static str {
    let last = full.rsplit('/').next().unwrap_or_default();
    DATASETS.iter().find(|name| **name == last).copied().expect("it was made with one of these names")
}

/// Fills a pool with a file that nobody looks at, but for so many bytes.
pub(super) fn fill(filer: &Filer, free_bytes: u64) -> Checked<()> {
    let name = format!("{POOL}/ballast");
    let mut properties = PropertySet::new();
    properties.set(parse(Property::RecordSize, "128K").expect("a size"));
    let fs = filer.create_dataset(&name, properties, (0, 0)).map_err(|error| error.to_string())?;
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let (root, mut chance) = (fs.root(), Chance::new(1, 1));
    let made = fs.create(ctx, root, b"ballast", &tally_vfs::CreateHow::Guarded(SetAttr::default()));
    let file = made.result.map_err(|error| error.to_string())?.object;
    let mut end = 0;
    loop {
        let noise: Vec<u8> = (0..BALLAST_BYTES / 8).flat_map(|_| chance.next().to_le_bytes()).collect();
        match fs.write(ctx, file, end, noise.into(), Stability::Unstable).result {
            Ok(_) => end += BALLAST_BYTES,
            Err(FsError::Throttled) => drop(filer.sync().map_err(|error| error.to_string())?),
            Err(FsError::NoSpace) => break,
            Err(error) => return Err(format!("the ballast: {error}")),
        }
    }
    let size = Some(end.saturating_sub(free_bytes));
    let cut = fs.setattr(ctx, file, &SetAttr { size, ..SetAttr::default() }, None);
    cut.result.map_err(|error| format!("the ballast: {error}"))?;
    // What is freed is free only behind the group after the next.
    for _ in 0..3 {
        filer.sync().map_err(|error| error.to_string())?;
    }
    Ok(())
}
