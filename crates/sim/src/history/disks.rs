//! The administrator's commands for disks: attach, detach, replace, scrub, offline, online, with requests between the steps
//! and inside a copy, and the power cut at any write. The steps are the store's own, [`tally_store::pool::membership`], as in the daemon.
//!
//! A new disk may refuse requests while it joins, and the old one may have sectors that cannot be read. What must hold:
//! a command that says that it is done has lost nothing, whatever leaves the pool; one that fails, or is cut short,
//! leaves a pool that is imported with everything from the disks that were there, and those that were to come. A disk that
//! was away and has been taken back lacks nothing, which is asked of that disk alone.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tally_base::{Broken, VdevGuid};
use tally_intent::Lane;
use tally_members::label::VdevClass;
use tally_members::roster::ReturnError;
use tally_members::vdev::{LegState, VdevLeg};
use tally_store::pool::membership::{Member, MembershipError, Onlooker, Stage};
use tally_store::pool::{Pool, ScrubJob, SecureError, SpaceFound, SyncError};

use super::requests::Next;
use super::run::History;
use super::{Checked, State, Syncs, Trouble};
use crate::chance::Chance;
use crate::disk::{Fault, PowerDisk};

/// Legs of a mirror, at most.
const LEGS_MAX: usize = 3;
/// Steps of a copy, one in so many, in which clients send something.
const REQUEST_ONE_IN: u64 = 8;
/// The same while blocks are checked, of which there are many more.
const REQUEST_ONE_IN_BLOCKS: u64 = 100;
/// Writes within which the power goes in a command that is cut short: short ones are labels, long ones fall into a
/// copy.
const CUT_WITHIN: [u64; 4] = [8, 24, 60, 200];

/// Steps of a copy, one in so many, behind which a disk joins another vdev.
const JOIN_ONE_IN: u64 = 20;

/// Steps of a scrub within which half of them are interrupted.
const INTERRUPTED_WITHIN: u64 = 300;

/// What a command does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Attach,
    Detach,
    Replace,
    Scrub,
    /// For good, or until the next import.
    Offline(bool),
    Online,
}

impl History {
    /// One command, on a vdev of chance.
    pub(super) fn disk_command(&self, chance: &mut Chance) -> Checked<()> {
        self.answer_all()?;
        if chance.one_in(4) {
            // Else hardly ever nothing is dirty, which a disk needs that is alone and cannot be read everywhere.
            self.sync_group()?;
        }
        self.late_writes_land(chance)?;
        if self.0.lock().plan.has_spares() && chance.one_in(2) {
            let state = self.0.lock();
            let is_ready = !state.is_off() && state.sent.is_empty() && !state.troubles.struck;
            drop(state);
            return if is_ready { self.spare_command(chance) } else { Ok(()) };
        }
        if let Some(left) = self.left_leg(chance) {
            return self.back_too_soon(&left, chance);
        }
        let (place, deed, path) = {
            let mut state = self.0.lock();
            if state.is_off() || !state.sent.is_empty() || state.troubles.struck {
                return Ok(());
            }
            let members = members(state.machine.server().filer.pool());
            let at = chance.below(state.machine.disks().len() as u64) as usize;
            let Some(place) = members.into_iter().nth(at) else { return Ok(()) };
            let deed = match state.plan.trouble {
                // A scrub writes no label, under whose lock no request may run.
                Trouble::Full if state.plan.syncs == Syncs::Around || chance.one_in(2) => Some(Deed::Scrub),
                _ => deed(&place, chance),
            };
            let Some(deed) = deed else { return Ok(()) };
            let config = state.machine.server().filer.pool().roster.config();
            if deed == Deed::Replace && config.spare(place.leg).is_some() {
                // Nobody would know for whom the new disk stands: the daemon refuses that.
                return Ok(());
            }
            state.doubt_spares(&config);
            let path = state.disk_for(deed, &place, chance);
            (place, deed, path)
        };
        self.0.lock().totals.disk_commands += 1;
        self.plan_cut(chance);
        let done = self.carry_out_command(deed, &place, &path, chance)?;
        if done.is_err() && matches!(deed, Deed::Online | Deed::Replace) {
            // Its late writes would land on blocks of today.
            let mut state = self.0.lock();
            let owes = state.disk(&path).is_some_and(|disk| disk.owes());
            state.troubles.struck |= owes;
        }
        self.after_command(&shown(&place), done)
    }

    /// Half of the time a leg that was left, as it hung: it is hardly ever drawn in the life in which it hangs.
    fn left_leg(&self, chance: &mut Chance) -> Option<Member> {
        let state = self.0.lock();
        if state.is_off() || !state.sent.is_empty() || state.troubles.struck {
            return None;
        }
        let owing = state.machine.disks().iter().find(|(_, disk)| disk.owes()).map(|(path, _)| path.clone())?;
        let is_away = |place: &Member| place.vdev.leg(place.leg).is_some_and(|leg| !leg.takes_writes());
        let members = members(state.machine.server().filer.pool());
        let left = members.into_iter().find(|place| shown(place) == owing).filter(is_away)?;
        chance.one_in(2).then_some(left)
    }

    /// It is wanted back before what it was asked has come home, which is refused.
    fn back_too_soon(&self, left: &Member, chance: &mut Chance) -> Checked<()> {
        let path = shown(left);
        self.0.lock().note(format!("online {path}, which hangs"));
        let done = self.carry_out_command(Deed::Online, left, &path, chance)?;
        {
            let mut state = self.0.lock();
            let owes = state.disk(&path).is_some_and(|disk| disk.owes());
            if let (Err(why), true, false) = (&done, owes, state.is_off()) {
                state.note(format!("it stays away: {why}"));
                state.totals.legs_not_taken_back += 1;
                return Ok(());
            }
        }
        self.after_command(&path, done)
    }

    /// `Err`: a request beside it has found something.
    fn carry_out_command(
        &self,
        deed: Deed,
        place: &Member,
        path: &str,
        chance: &mut Chance,
    ) -> Checked<Result<(), String>> {
        let (pool, old) = (Arc::clone(self.0.lock().machine.server().filer.pool()), shown(place));
        let mut asker = Asker { history: self, chance, beside: Some(place.config.guid), found: None };
        let new = Path::new(path);
        let is_whole = |whole: bool| if whole { Ok(()) } else { Err(format!("{old} could not be read everywhere")) };
        let done = match deed {
            Deed::Attach => pool.join(place, new, false, &mut asker).map(|_| Ok(())),
            Deed::Detach => self.detach(&pool, place, &mut asker),
            Deed::Replace => pool.replace(place, new, false, &mut asker).map(|(_, copied)| is_whole(copied.is_whole())),
            Deed::Offline(for_good) => pool.take_offline(place, for_good, &mut asker).map(Ok),
            Deed::Online => pool.take_back(place, &mut asker).map(|copied| {
                is_whole(copied.is_whole()).and_then(|()| self.check_taken_back(&pool, place, copied.is_partial))
            }),
            Deed::Scrub => {
                let mut steps_left =
                    if asker.chance.one_in(2) { asker.chance.below(INTERRUPTED_WITHIN) } else { u64::MAX };
                // What the parts before could not give stays in the count of the scrub that goes on, whatever the disks give by now.
                let before = pool.scrub_job().filter(ScrubJob::is_open).map_or(0, |job| job.report.lost_count);
                let expected = |in_parts: bool| if in_parts { before } else { 0 };
                let scrubbed = pool.scrub(
                    &mut |done| {
                        steps_left = steps_left.saturating_sub(1);
                        asker.on_progress(Stage::CheckingRest, done) && steps_left > 0
                    },
                    &mut |_| {},
                );
                match scrubbed {
                    // The next one goes on with it, in this life or a later one, whether it is paused or not.
                    Err(SecureError::Stopped) => {
                        let is_paused = asker.chance.one_in(2) && pool.pause_scrub();
                        self.0.lock().note(if is_paused { "the scrub is paused" } else { "the scrub is interrupted" });
                        let has_lost = |job: ScrubJob| job.report.lost_count != expected(job.in_parts);
                        Ok(is_whole(!pool.scrub_job().is_some_and(has_lost)))
                    }
                    scrubbed => {
                        let checked = scrubbed.map_err(|cause| MembershipError::NotChecked { path: new.into(), cause });
                        let in_parts = pool.scrub_job().is_some_and(|job| job.in_parts);
                        {
                            let mut state = self.0.lock();
                            state.totals.scrubs_in_parts += u64::from(checked.is_ok() && in_parts);
                            state.totals.scrubs_when_full += u64::from(checked.is_ok() && state.is_full);
                        }
                        if let Some(space) = checked.as_ref().ok().and_then(|report| report.space) {
                            self.0.lock().judge_space(&pool, space)?;
                        }
                        checked.map(|report| is_whole(report.lost_count == expected(in_parts)))
                    }
                }
            }
        };
        if let Some(found) = asker.found {
            return Err(found);
        }
        if matches!(done, Ok(Ok(()))) && matches!(deed, Deed::Attach | Deed::Replace | Deed::Online) {
            let mut state = self.0.lock();
            state.totals.copies_when_full += u64::from(state.is_full);
        }
        if matches!(done, Err(MembershipError::StaysAway { .. })) {
            let mut state = self.0.lock();
            state.totals.legs_that_stayed_away += u64::from(!state.is_off());
        }
        if matches!(done, Err(MembershipError::Return(ReturnError::NoLabel { .. }))) {
            // It was cut off before it had joined.
            self.0.lock().troubles.struck |= true;
        }
        if matches!(done, Err(MembershipError::Labels(_) | MembershipError::Refused { .. }))
            && matches!(deed, Deed::Detach | Deed::Offline(_) | Deed::Online)
        {
            // The last leg that has everything stays, and so does the only one of a lane.
            self.0.lock().troubles.struck |= true;
        }
        Ok(done.map_err(|error| error.to_string()).and_then(|done| done))
    }

    /// A leg that counts again has every block by itself, and on its medium: what it had refused, or lost when a flush failed, can be read as if
    /// it were there.
    pub(super) fn check_taken_back(&self, pool: &Pool, place: &Member, is_partial: bool) -> Result<(), String> {
        self.0.lock().totals.legs_taken_back += u64::from(is_partial);
        self.check_medium(pool, place).map_err(|why| format!("{} was taken back, and {why}", shown(place)))
    }

    /// Another leg is about to leave: this one has every block without it, in the same way.
    fn check_stays(&self, pool: &Pool, leaving: &Member) -> Result<(), String> {
        let stays = |leg: &Arc<VdevLeg>| leg.guid() != leaving.leg && leg.state() == LegState::Online;
        for leg in leaving.vdev.legs().iter().filter(|leg| stays(leg)) {
            let place = Member { vdev: Arc::clone(&leaving.vdev), config: leaving.config.clone(), leg: leg.guid() };
            self.check_medium(pool, &place).map_err(|why| format!("{} is to stay, and {why}", shown(&place)))?;
        }
        Ok(())
    }

    fn check_medium(&self, pool: &Pool, place: &Member) -> Result<(), String> {
        let disk = self.0.lock().disk(&shown(place)).cloned().ok_or("it is not there")?;
        let secured = disk.with_medium(|| pool.secure(&place.vdev, &[place.leg], &mut |_| true));
        let report = secured.map_err(|error| error.to_string())?;
        let state = self.0.lock();
        let is_sound = report.repaired_count == 0 && report.lost_count == 0;
        if is_sound || state.troubles.struck || state.is_off() {
            return Ok(());
        }
        Err(format!("{} blocks were not right on it, {} are lost", report.repaired_count, report.lost_count))
    }

    /// Now and then a disk that hangs answers again, and what was left lands: on no block of a leg that counts.
    fn late_writes_land(&self, chance: &mut Chance) -> Checked<()> {
        let (pool, late) = {
            let mut state = self.0.lock();
            if state.is_off() || !chance.one_in(4) {
                return Ok(());
            }
            let late: Vec<String> =
                state.machine.disks().iter().filter(|(_, disk)| disk.owes()).map(|(path, _)| path.clone()).collect();
            for path in &late {
                state.note(format!("{path} answers again"));
                state.disk(path).expect("it was just found").come_home();
            }
            state.totals.late_answers += late.len() as u64;
            (Arc::clone(state.machine.server().filer.pool()), late)
        };
        let counts = |place: &Member| place.vdev.leg(place.leg).is_some_and(|leg| leg.state() == LegState::Online);
        for place in members(&pool).iter().filter(|place| late.contains(&shown(place)) && counts(place)) {
            self.check_taken_back(&pool, place, false)?;
        }
        Ok(())
    }

    /// What stood for it stays for good.
    fn detach(
        &self,
        pool: &Pool,
        place: &Member,
        asker: &mut Asker<'_>,
    ) -> Result<Result<(), String>, MembershipError> {
        let stood_for = pool.roster.config().spare(place.leg).and_then(|spare| spare.stands_for);
        pool.make_sure(place, asker)?;
        let checked = self.check_stays(pool, place);
        if checked.is_err() {
            return Ok(checked);
        }
        pool.leave(place, asker)?;
        let kept = pool.roster.keep_orphaned_spares(place.config.guid)?;
        let mut state = self.0.lock();
        if let Some(leg) = stood_for {
            state.spares.watch.decline(leg);
        }
        state.totals.spares_kept += kept.len() as u64;
        Ok(Ok(()))
    }

    /// While one disk joins a vdev another one joins another vdev, or the same one, from its first label to its last.
    fn join_beside(&self, vdev: VdevGuid, chance: &mut Chance) -> Checked<()> {
        let (pool, place, path) = {
            let mut state = self.0.lock();
            if state.is_off() {
                return Ok(());
            }
            let pool = Arc::clone(state.machine.server().filer.pool());
            let may_have_more = |place: &Member| place.vdev.legs().len() < LEGS_MAX;
            let others: Vec<_> = members(&pool).into_iter().filter(may_have_more).collect();
            if others.is_empty() {
                return Ok(());
            }
            let place = chance.pick(&others);
            let path = state.fresh_disk(&place);
            let is_same = if place.config.guid == vdev { ", the same mirror" } else { "" };
            state.note(format!("meanwhile {path} joins {}{is_same}", shown(&place)));
            (pool, place, path)
        };
        let mut asker = Asker { history: self, chance, beside: None, found: None };
        let joined = pool.join(&place, Path::new(&path), false, &mut asker);
        asker.found.map_or(Ok(()), Err)?;
        let mut state = self.0.lock();
        let has_hung = state.machine.disks().iter().any(|(_, disk)| disk.owes());
        match joined {
            Ok(_) => state.totals.joins_beside += 1,
            Err(why) if state.is_off() || state.troubles.struck || has_hung => state.note(format!("it fails: {why}")),
            Err(why) => return Err(format!("a disk could not join while another one did: {why}")),
        }
        Ok(())
    }

    pub(super) fn plan_cut(&self, chance: &mut Chance) {
        let state = self.0.lock();
        if !chance.one_in(8) {
            let within = chance.pick(&CUT_WITHIN);
            state.machine.power().plan_cut(Some(1 + chance.below(within)));
        }
    }

    /// What was in the way goes away, and what is out of the pool is out of the machine.
    pub(super) fn after_command(&self, about: &str, done: Result<(), String>) -> Checked<()> {
        let mut state = self.0.lock();
        state.troubles.is_quiet = false;
        for (_, disk) in state.machine.disks() {
            disk.faults().clear();
            disk.mend();
        }
        if state.is_off() {
            state.totals.cuts_in_disk_commands += 1;
            return Ok(());
        }
        state.machine.power().plan_cut(None);
        let has_hung = state.machine.disks().iter().any(|(_, disk)| disk.owes());
        match done {
            Ok(()) => state.note("the command is done"),
            // A leg that hung in it, and was left, is one that has failed.
            Err(why) if state.troubles.struck || has_hung => state.note(format!("the command failed: {why}")),
            Err(why) => return Err(format!("a command for {about} failed: {why}")),
        }
        let config = state.machine.server().filer.pool().roster.config();
        let legs = config.vdevs_present().flat_map(|vdev| vdev.legs.iter().map(|leg| &leg.path));
        let paths: Vec<_> = legs.chain(config.spares.iter().map(|spare| &spare.path)).cloned().collect();
        let is_leg = |path: &str| paths.iter().any(|of| of == Path::new(path));
        state.take_spares(&config);
        let out: Vec<String> = state.machine.disks().iter().map(|(path, _)| path.clone()).collect();
        for path in out.into_iter().filter(|path| !is_leg(path)) {
            state.machine.swap(&path, None);
        }
        Ok(())
    }

    /// Some requests between two steps.
    fn requests(&self, chance: &mut Chance) -> Checked<()> {
        if self.0.lock().troubles.is_quiet {
            return Ok(());
        }
        for _ in 0..chance.below(3) {
            let mut state = self.0.lock();
            if state.is_off() {
                return Ok(());
            }
            let op = state.choose_op(chance);
            let attempt = state.attempt(&op, chance)?;
            if let Next::AnswerAll = state.carry_out(attempt, chance)? {
                state.drive_sent()?;
            }
            state.totals.requests_beside_walks += 1;
        }
        Ok(())
    }
}

/// The world around a command: requests are served meanwhile, and groups are those of the history.
pub(super) struct Asker<'a> {
    pub(super) history: &'a History,
    pub(super) chance: &'a mut Chance,
    /// The vdev that this is about: a disk may join that one, or another one, meanwhile, and then none.
    pub(super) beside: Option<VdevGuid>,
    /// What a request has found wrong.
    pub(super) found: Option<String>,
}

impl Onlooker for Asker<'_> {
    fn on_progress(&mut self, stage: Stage, _: u64) -> bool {
        let is_copy = matches!(stage, Stage::Copying | Stage::Bringing);
        let may_join = is_copy && self.found.is_none() && self.history.0.lock().plan.has_spares();
        if let Some(vdev) = self.beside.filter(|_| may_join)
            && self.chance.one_in(JOIN_ONE_IN)
        {
            self.beside = None;
            self.found = self.history.join_beside(vdev, self.chance).err();
        }
        let one_in = if stage == Stage::Copying { REQUEST_ONE_IN } else { REQUEST_ONE_IN_BLOCKS };
        if self.found.is_none() && self.chance.one_in(one_in) {
            self.found = self.history.requests(self.chance).err();
        }
        self.found.is_none()
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        let mut outcome = Ok(());
        let served = self.history.requests(self.chance);
        let synced = served.and_then(|()| {
            self.history.sync(true, |_| {
                outcome = pool.sync().map(|_| ());
                outcome.as_ref().map_err(ToString::to_string).copied()
            })
        });
        match synced {
            Ok(()) => outcome,
            Err(found) => {
                let error = SyncError::Suspended(Broken(found.clone()));
                self.found = Some(found);
                Err(error)
            }
        }
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
        // The power may be gone, and a disk that failed refuses, until it is opened anew: its label is left as it is.
        let pool = Arc::clone(self.history.0.lock().machine.server().filer.pool());
        if let Err(error) = pool.roster.release_label(&leg) {
            self.history.0.lock().keeps_label(&leg, &error);
        }
    }
}

/// What may be done with a disk.
fn deed(place: &Member, chance: &mut Chance) -> Option<Deed> {
    let legs = place.vdev.legs().len();
    let state = place.vdev.leg(place.leg).map(|leg| leg.state());
    if !matches!(state, Some(LegState::Online)) && !chance.one_in(4) {
        return Some(Deed::Online);
    }
    match chance.below(8) {
        0 if legs > 1 => Some(Deed::Detach),
        1 if legs < LEGS_MAX => Some(Deed::Attach),
        2 | 3 => Some(Deed::Replace),
        4 => Some(Deed::Scrub),
        5.. if legs > 1 => Some(Deed::Offline(chance.one_in(2))),
        _ => None,
    }
}

impl State {
    /// What a scrub says of space: there is nothing that nobody names, but where something has rotted, and nothing that is named
    /// twice, or free.
    fn judge_space(&mut self, pool: &Pool, space: SpaceFound) -> Checked<()> {
        if self.is_off() {
            return Ok(());
        }
        self.totals.scrubs_of_space += 1;
        let is_leak = space.leaked_bytes > 0 && !space.hidden && self.rotten.is_none();
        if is_leak || space.alarm_count > 0 {
            return Err(format!("a scrub finds {space:?}; {:?}", pool.space_alarms()));
        }
        Ok(())
    }

    /// The disk that a command brings in, or takes out. One that was struck off may replace itself.
    fn disk_for(&mut self, deed: Deed, place: &Member, chance: &mut Chance) -> String {
        let old = shown(place);
        let is_out = place.vdev.leg(place.leg).is_some_and(|leg| leg.state() == LegState::Faulted);
        if deed == Deed::Detach {
            self.note(format!("detach {old}"));
            return old;
        }
        if let Deed::Offline(for_good) = deed {
            self.note(format!("offline {old}{}", if for_good { "" } else { " for this life" }));
            return old;
        }
        if deed == Deed::Online {
            self.note(format!("online {old}"));
            self.trouble_while_joining(place, &old, chance);
            return old;
        }
        if deed == Deed::Scrub {
            self.note("scrub");
            // A full pool has nothing but the power that goes wrong.
            if self.plan.trouble == Trouble::Disks && chance.one_in(2) {
                self.spoil_old(place, chance);
            }
            return old;
        }
        if deed == Deed::Replace && is_out && chance.one_in(2) {
            self.note(format!("replace {old} by itself"));
            return old;
        }
        let path = self.fresh_disk(place);
        match deed {
            Deed::Replace => self.note(format!("replace {old} by {path}")),
            _ => self.note(format!("attach {path} to {old}")),
        }
        self.trouble_while_joining(place, &path, chance);
        path
    }

    /// Whether something that was removed or cut waits for the reaper.
    pub(super) fn has_orphans(&self) -> bool {
        let datasets = self.machine.server().filer.pool().datasets();
        datasets.iter().any(|dataset| dataset.root().orphan_count > 0)
    }

    /// A disk as large as this one, at a path of its own, and without content.
    fn fresh_disk(&mut self, place: &Member) -> String {
        self.disks_made += 1;
        let is_log = place.config.class == VdevClass::Log;
        let path = format!("/d/{}-{}", if is_log { "slog" } else { "data" }, self.disks_made);
        let shape = self.machine.shape();
        let bytes = if is_log { shape.log_bytes } else { shape.data_bytes };
        let disk = Arc::new(PowerDisk::new(self.machine.power(), bytes));
        self.machine.plug(&path, disk);
        path
    }

    /// The new disk refuses something while it joins, or the old ones have sectors that cannot be read.
    fn trouble_while_joining(&mut self, place: &Member, path: &str, chance: &mut Chance) {
        if self.plan.trouble == Trouble::Full {
            return;
        }
        match chance.below(4) {
            0 => {
                let (fault, count) = (chance.pick(&Fault::ALL), 1 + chance.below(3) as u32);
                self.disk(path).expect("it was just made").faults().set(fault, count);
                self.note(format!("{path} refuses {fault:?} {count} times"));
                self.troubles.struck = true;
            }
            1 => self.spoil_old(place, chance),
            _ => {}
        }
    }

    /// A disk that is there has sectors that cannot be read.
    fn spoil_old(&mut self, place: &Member, chance: &mut Chance) {
        let Some(old) = self.disk(&shown(place)).cloned() else { return };
        let is_online = |leg: &Arc<VdevLeg>| leg.state() == LegState::Online;
        if place.vdev.legs().into_iter().filter(is_online).count() < 2 {
            // What nobody else has is rot to the group that comes by, and is given up. So none does.
            if self.op > self.synced_op || self.has_orphans() {
                return;
            }
            self.troubles.is_quiet = true;
        }
        let hit = old.spoil(1 + chance.below(3), u32::MAX, chance);
        self.note(format!("{} cannot be read at {hit:x?}", shown(place)));
        self.troubles.struck = true;
    }
}

/// Where a disk is.
pub(super) fn shown(place: &Member) -> String {
    place.path().to_string_lossy().into_owned()
}

/// Every disk of the pool.
pub(super) fn members(pool: &Pool) -> Vec<Member> {
    let config = pool.roster.config();
    let mut members = Vec::new();
    for vdev in pool.roster.vdevs() {
        let Some(config) = config.vdevs_present().find(|line| line.guid == vdev.guid()) else { continue };
        let member = |leg: Arc<VdevLeg>| Member { vdev: Arc::clone(vdev), config: config.clone(), leg: leg.guid() };
        members.extend(vdev.legs().into_iter().map(member));
    }
    members
}
