//! Hot spares (docs/design/0058): they come and go, are taken for disks that are away, by themselves behind five minutes of the
//! machine's clock or by name, and are given back, with requests between the steps and the power cut at any write.
//!
//! ```text
//!   add ─▶ waits ─▶ taken: five minutes, or by name ─▶ the disk is back: given back ─▶ waits ─▶ remove
//!                                                    └▶ the disk is detached: it stays for good
//! ```
//!
//! When what is done, [`SpareWatch`] says, as in the daemon; it is of the process, and forgets what was before. What must
//! hold beside all that holds of disk commands: a spare that is said to stand in has every block by itself; one that was given
//! back waits, and its own label says so, or does behind the daemon's next look, where its disk had failed; and behind each import
//! every spare is there, but where the power went in the middle of a command that would have made it one, or none, and it is in one
//! place at the most.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tally_base::{Clock, VdevGuid};
use tally_disk::Disk;
use tally_members::create::add_spares;
use tally_members::label::{self, PoolConfig, VdevClass};
use tally_members::vdev::{LegState, VdevLeg};
use tally_store::pool::Pool;
use tally_store::pool::membership::Member;
use tally_store::pool::spares::{AWAY_MIN, SpareErrand, SpareWatch};

use super::disks::{Asker, members, shown};
use super::run::History;
use super::{Checked, Plan, State, Trouble};
use crate::chance::Chance;
use crate::disk::{Fault, PowerDisk};

/// Spares of a pool, at most.
const SPARES_MAX: usize = 2;
/// Pools in which a disk of data can be stood in for.
pub(super) const SHAPES: &[&[&str]] = &[
    &["mirror", "/d/data", "/d/data2", "log", "mirror", "/d/slog", "/d/slog2"],
    &["mirror", "/d/data", "/d/data2", "log", "/d/slog"],
    &["mirror", "/d/data", "/d/data2"],
    &["mirror", "/d/data", "/d/data2", "mirror", "/d/data3", "/d/data4"],
];

/// What a history knows of the spares of its pool.
#[derive(Default)]
pub(super) struct Spares {
    /// Of the process.
    pub(super) watch: SpareWatch,
    /// Those that there are.
    known: BTreeSet<VdevGuid>,
    /// Of these, those that may be none any more, if the power goes now.
    in_doubt: BTreeSet<VdevGuid>,
    /// Disks that may be one more, if the power goes now.
    coming: usize,
    /// Legs that have left, and whose labels still call them that.
    unreleased: BTreeSet<VdevGuid>,
}

impl Plan {
    /// Whether the pool has spares. All other seeds do what they did.
    pub(super) fn has_spares(&self) -> bool {
        self.trouble == Trouble::Disks && matches!(self.seed % 32, 6 | 12 | 26 | 30)
    }
}

impl History {
    /// The first spare comes with the pool.
    pub(super) fn first_spares(&self, chance: &mut Chance) -> Checked<()> {
        (0..1 + chance.below(SPARES_MAX as u64)).try_for_each(|_| self.add_spare())
    }

    /// Something with a spare, or the look that the daemon takes every ten seconds.
    pub(super) fn spare_command(&self, chance: &mut Chance) -> Checked<()> {
        match chance.below(8) {
            0 => {
                self.plan_cut_at_spare(chance);
                self.add_spare()
            }
            1 => self.remove_spare(chance),
            2 => self.take_by_name(chance),
            3 => self.pull(chance),
            _ => self.look_at_spares(chance),
        }
    }

    fn pool(&self) -> Arc<Pool> {
        Arc::clone(self.0.lock().machine.server().filer.pool())
    }

    fn plan_cut_at_spare(&self, chance: &mut Chance) {
        if chance.one_in(2) {
            self.plan_cut(chance);
        }
    }

    fn add_spare(&self) -> Checked<()> {
        let pool = self.pool();
        let path = {
            let mut state = self.0.lock();
            if pool.roster.config().spares.len() >= SPARES_MAX {
                state.machine.power().plan_cut(None);
                return Ok(());
            }
            state.disks_made += 1;
            let path = format!("/d/spare-{}", state.disks_made);
            let disk = Arc::new(PowerDisk::new(state.machine.power(), state.machine.shape().data_bytes));
            state.machine.plug(&path, disk);
            state.note(format!("add spare {path}"));
            state.spares.coming = 1;
            path
        };
        let added = add_spares(&pool.roster, &pool.platform, &[PathBuf::from(&path)], false);
        self.after_spare_command("a new spare", added.map_err(|error| error.to_string()))?;
        let mut state = self.0.lock();
        if state.is_off() {
            return Ok(());
        }
        let config = pool.roster.config();
        let Some(line) = config.spares.iter().find(|spare| spare.path == Path::new(&path)) else {
            return if state.troubles.struck { Ok(()) } else { Err(format!("{path} was added, and is no spare")) };
        };
        state.spares.known.insert(line.guid);
        state.spares.coming = 0;
        state.totals.spares_added += 1;
        Ok(())
    }

    fn remove_spare(&self, chance: &mut Chance) -> Checked<()> {
        let pool = self.pool();
        let waiting: Vec<_> = pool.roster.config().spares_available().cloned().collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let spare = chance.pick(&waiting);
        {
            let mut state = self.0.lock();
            state.note(format!("remove {}", spare.path.display()));
            state.spares.in_doubt.insert(spare.guid);
        }
        self.plan_cut_at_spare(chance);
        let removed = pool.roster.remove_spare(&pool.platform, spare.guid);
        let done = removed.map_err(|error| error.to_string()).and_then(|remark| remark.map_or(Ok(()), Err));
        self.after_spare_command("a spare that goes", done)?;
        let mut state = self.0.lock();
        if state.is_off() {
            return Ok(());
        }
        if pool.roster.config().spare(spare.guid).is_some() {
            return if state.troubles.struck { Ok(()) } else { Err("a spare was removed, and is one still".into()) };
        }
        state.spares.known.remove(&spare.guid);
        state.totals.spares_removed += 1;
        Ok(())
    }

    /// `tally pool replace`, with the name of a spare.
    fn take_by_name(&self, chance: &mut Chance) -> Checked<()> {
        let pool = self.pool();
        let config = pool.roster.config();
        let is_away = |place: &Member| {
            let state = place.vdev.leg(place.leg).map(|leg| leg.state());
            let is_data = place.config.class == VdevClass::Data && config.spare(place.leg).is_none();
            let is_stood_for = config.spares_in_use().any(|(spare, _)| spare.stands_for == Some(place.leg));
            is_data && !is_stood_for && !matches!(state, Some(LegState::Online | LegState::Resilvering) | None)
        };
        let away: Vec<_> = members(&pool).into_iter().filter(is_away).collect();
        let waiting: Vec<_> = config.spares_available().map(|spare| spare.guid).collect();
        if away.is_empty() || waiting.is_empty() {
            return Ok(());
        }
        let errand = SpareErrand::Take { spare: chance.pick(&waiting), away: chance.pick(&away).leg };
        self.0.lock().totals.spares_by_name += 1;
        self.run_errand(&pool, errand, chance).map(drop)
    }

    /// A disk of a mirror that is whole does not answer any more, is struck off by the group that comes, and is there again
    /// behind it; but nobody takes it back.
    fn pull(&self, chance: &mut Chance) -> Checked<()> {
        let pool = self.pool();
        let is_online = |leg: &Arc<VdevLeg>| leg.state() == LegState::Online;
        let is_whole = |place: &Member| {
            let legs = place.vdev.legs();
            place.config.class == VdevClass::Data && legs.len() > 1 && legs.iter().all(is_online)
        };
        let whole: Vec<_> = members(&pool).into_iter().filter(is_whole).collect();
        // One that is silent and was not asked yet counts as well as the other, which would be the last one.
        let hangs = |disk: &Arc<PowerDisk>| disk.owes() || disk.faults().is_silent();
        if whole.is_empty() || self.0.lock().machine.disks().iter().any(|(_, disk)| hangs(disk)) {
            return Ok(());
        }
        let path = shown(&chance.pick(&whole));
        let disk = {
            let state = self.0.lock();
            state.note(format!("{path} is pulled"));
            let Some(disk) = state.disk(&path).cloned() else { return Ok(()) };
            disk.faults().all();
            disk
        };
        let synced = self.sync_group();
        disk.faults().clear();
        synced
    }

    /// The look that the daemon takes, now and then with five minutes before it.
    fn look_at_spares(&self, chance: &mut Chance) -> Checked<()> {
        let pool = self.pool();
        let errands = {
            let mut state = self.0.lock();
            let clock = Arc::clone(state.machine.clock());
            let _remembered = state.spares.watch.look(&pool, clock.monotonic());
            if chance.one_in(2) {
                clock.pass(AWAY_MIN + Duration::from_secs(chance.below(60)));
            }
            let errands = state.spares.watch.look(&pool, clock.monotonic());
            state.note(format!("a look at spares: {errands:?}"));
            errands
        };
        for errand in errands {
            let leg = match errand {
                SpareErrand::Take { away: leg, .. } | SpareErrand::GoOn { leg } => Some(leg),
                SpareErrand::Return { spare } | SpareErrand::GiveBack { spare } => Some(spare),
                SpareErrand::Keep { .. } => None,
            };
            // It has left meanwhile, as the copy before this one was of the disk in its place: the daemon drops that, too.
            if let Some(leg) = leg.filter(|leg| pool.member(*leg).is_none()) {
                self.0.lock().note(format!("{leg} has left"));
                continue;
            }
            let is_done = self.run_errand(&pool, errand, chance)?;
            let mut state = self.0.lock();
            if state.is_off() || state.troubles.struck {
                return Ok(());
            }
            let now = state.machine.clock().monotonic();
            state.spares.watch.note(errand, is_done, now);
        }
        Ok(())
    }

    /// Gives whether it came to its end.
    fn run_errand(&self, pool: &Arc<Pool>, errand: SpareErrand, chance: &mut Chance) -> Checked<bool> {
        {
            let mut state = self.0.lock();
            state.note(format!("{errand:?}"));
            state.doubt_spares(&pool.roster.config());
            if let SpareErrand::Take { spare, .. } = errand
                && chance.one_in(8)
            {
                state.spare_refuses(&pool.roster.config(), spare, chance);
            }
        }
        self.plan_cut_at_spare(chance);
        let place = |guid| pool.member(guid).ok_or("a disk of the pool");
        let beside = match errand {
            SpareErrand::Take { away: leg, .. } | SpareErrand::Return { spare: leg } | SpareErrand::GoOn { leg } => {
                pool.member(leg).map(|place| place.config.guid)
            }
            SpareErrand::Keep { vdev } => Some(vdev),
            SpareErrand::GiveBack { .. } => None,
        };
        let mut asker = Asker { history: self, chance, beside, found: None };
        let done = match errand {
            SpareErrand::Take { spare, away } => pool.take_spare(&place(away)?, spare, &mut asker).map(drop),
            SpareErrand::Return { spare } => pool.take_back(&place(spare)?, &mut asker).map(drop),
            SpareErrand::GoOn { leg } => pool.go_on_joining(&place(leg)?, &mut asker).map(drop),
            SpareErrand::GiveBack { spare } => pool.give_back_spare(&place(spare)?, &mut asker).map(drop),
            SpareErrand::Keep { vdev } => pool.roster.keep_orphaned_spares(vdev).map(drop).map_err(Into::into),
        };
        if let Some(found) = asker.found {
            return Err(found);
        }
        let is_done = done.is_ok();
        self.after_spare_command("an errand of a spare", done.map_err(|error| error.to_string()))?;
        if is_done && !self.0.lock().is_off() {
            self.check_errand(pool, errand)?;
        }
        Ok(is_done)
    }

    fn after_spare_command(&self, about: &str, done: Result<(), String>) -> Checked<()> {
        {
            let mut state = self.0.lock();
            state.totals.spare_commands += 1;
            let is_off = state.is_off();
            state.totals.cuts_in_spare_commands += u64::from(is_off);
        }
        self.after_command(about, done)
    }

    /// What an errand says that it has done.
    fn check_errand(&self, pool: &Pool, errand: SpareErrand) -> Checked<()> {
        let config = pool.roster.config();
        match errand {
            SpareErrand::Take { spare, away } => {
                let in_use = config.spares_in_use().find(|(line, _)| line.guid == spare);
                if in_use.is_none_or(|(line, _)| line.stands_for != Some(away)) {
                    return Err("a spare was taken, and the labels do not say for whom".into());
                }
                self.check_taken_back(pool, &pool.member(spare).ok_or("it was just found")?, false)?;
                self.0.lock().totals.spares_taken += 1;
            }
            SpareErrand::GoOn { leg: spare } | SpareErrand::Return { spare } => {
                self.check_taken_back(pool, &pool.member(spare).ok_or("it has come back")?, false)?;
            }
            SpareErrand::GiveBack { spare } => {
                let line = config.spares_available().find(|line| line.guid == spare);
                let path = line.ok_or("a spare was given back, and is in use, or none any more")?.path.clone();
                // Its disk refused the label: the daemon's next look sets that right, with the disk opened anew, which can be when it owes no
                // answer any more. Until then the label is as it was, and the next import looks.
                let (keeps_label, is_held) = {
                    let state = self.0.lock();
                    let is_held = state.disk(&path.to_string_lossy()).is_some_and(|disk| disk.owes());
                    (state.spares.unreleased.contains(&spare), is_held)
                };
                if keeps_label && !is_held {
                    pool.roster.look_at_spare(&pool.platform, spare)?;
                    self.0.lock().spares.unreleased.remove(&spare);
                }
                let mut state = self.0.lock();
                if !(keeps_label && is_held) {
                    state.waits(&path)?;
                }
                state.totals.spares_given_back += 1;
            }
            SpareErrand::Keep { .. } => {}
        }
        self.0.lock().take_spares(&config);
        Ok(())
    }
}

impl State {
    /// The disk of a spare that is being taken refuses something.
    fn spare_refuses(&mut self, config: &PoolConfig, spare: VdevGuid, chance: &mut Chance) {
        let path = config.spare(spare).map(|spare| spare.path.to_string_lossy().into_owned()).unwrap_or_default();
        let (fault, count) = (chance.pick(&Fault::ALL), 1 + chance.below(3) as u32);
        let Some(disk) = self.disk(&path) else { return };
        disk.faults().set(fault, count);
        self.note(format!("{path} refuses {fault:?} {count} times"));
        self.troubles.struck = true;
    }

    /// Spares in use may stay for good where the disks for which they stand leave.
    pub(super) fn doubt_spares(&mut self, config: &PoolConfig) {
        self.spares.in_doubt.extend(config.spares_in_use().map(|(spare, _)| spare.guid));
    }

    /// These are the spares now.
    pub(super) fn take_spares(&mut self, config: &PoolConfig) {
        self.spares.known = config.spares.iter().map(|spare| spare.guid).collect();
        self.spares.in_doubt.clear();
        self.spares.coming = 0;
    }

    pub(super) fn keeps_label(&mut self, leg: &VdevLeg, error: &io::Error) {
        self.note(format!("{} keeps its label: {error}", leg.path().display()));
        self.spares.unreleased.insert(leg.guid());
    }

    /// The disk says of itself that it is a spare.
    fn waits(&self, path: &Path) -> Checked<()> {
        let path = path.to_string_lossy();
        let disk = self.disk(&path).ok_or_else(|| format!("{path} is a spare, and not in the machine"))?;
        match label::read(disk.as_ref() as &dyn Disk) {
            Ok(label) if label.is_spare() => Ok(()),
            Ok(_) => Err(format!("{path} waits as a spare, and its label calls it a disk of a mirror")),
            Err(error) => Err(format!("{path} waits as a spare, and its label cannot be read: {error}")),
        }
    }

    /// Behind an import every spare is where it was left, and once.
    pub(super) fn check_spares(&mut self) -> Checked<()> {
        if !self.plan.has_spares() {
            return Ok(());
        }
        let pool = Arc::clone(self.machine.server().filer.pool());
        let config = pool.roster.config();
        let found: BTreeSet<_> = config.spares.iter().map(|spare| spare.guid).collect();
        let gone: Vec<_> =
            self.spares.known.difference(&found).filter(|it| !self.spares.in_doubt.contains(it)).collect();
        let more = found.difference(&self.spares.known).count();
        if !gone.is_empty() || more > self.spares.coming || found.len() != config.spares.len() {
            return Err(format!("the spares are {found:?}, and were {:?}", self.spares.known));
        }
        for spare in &config.spares {
            let legs = config.vdevs_present().flat_map(|vdev| &vdev.legs);
            match legs.filter(|leg| leg.guid == spare.guid).count() {
                0 => {
                    let looked = pool.roster.look_at_spare(&pool.platform, spare.guid);
                    looked.map_err(|why| format!("the spare {}: {why}", spare.path.display()))?;
                    self.waits(&spare.path)?;
                }
                1 if spare.stands_for.is_some() => self.totals.lives_on_spares += 1,
                count => return Err(format!("{} is in {count} places: {spare:?}", spare.path.display())),
            }
        }
        self.spares.unreleased.clear();
        self.take_spares(&config);
        Ok(())
    }
}
