//! The administrator's commands for disks: attach, detach, replace, in the steps of `crates/server/src/daemon/disks.rs`, with
//! requests between the steps and inside a copy, and the power cut at any write.
//!
//! A new disk may refuse requests while it joins, and the old one may have sectors that cannot be read. What must hold: a
//! command that says that it is done has lost nothing, whatever leaves the pool; one that fails, or is cut short, leaves a
//! pool that is imported with everything from the disks that were there, and those that were to come.

use std::path::Path;
use std::sync::Arc;

use tally_base::VdevGuid;
use tally_intent::Lane;
use tally_store::create::new_leg;
use tally_store::label::{LaneConfigLine, VdevClass, VdevConfig};
use tally_store::pool::Pool;
use tally_store::vdev::{LegState, Vdev, VdevLeg};

use super::requests::Next;
use super::run::History;
use super::{Checked, State};
use crate::chance::Chance;
use crate::disk::{Fault, PowerDisk};

/// Groups within which every live frame of a log must be on a leg that joins it.
const JOIN_SYNCS_MAX: u32 = 8;
/// Legs of a mirror, at most.
const LEGS_MAX: usize = 3;
/// Steps of a copy, one in so many, in which clients send something.
const REQUEST_ONE_IN: u64 = 8;
/// Writes within which the power goes in a command that is cut short: short ones are labels, long ones fall into a copy.
const CUT_WITHIN: [u64; 4] = [8, 24, 60, 200];

/// A disk of the running pool.
struct Place {
    vdev: Arc<Vdev>,
    config: VdevConfig,
    leg: Arc<VdevLeg>,
}

impl Place {
    fn path(&self) -> String {
        self.leg.path().to_string_lossy().into_owned()
    }
}

/// Why a step was not done: the world was in its way, or something is wrong.
enum Failed {
    Told(String),
    Found(String),
}

impl History {
    /// One command, on a vdev of chance.
    pub(super) fn disk_command(&self, chance: &mut Chance) -> Checked<()> {
        self.settle()?;
        let (place, legs, fresh) = {
            let mut state = self.0.lock();
            if state.is_off() || !state.sent.is_empty() || state.troubles.struck {
                return Ok(());
            }
            let places = places(state.machine.server().filer.pool());
            let place = places.into_iter().nth(chance.below(state.machine.disks().len() as u64) as usize);
            let Some(place) = place else { return Ok(()) };
            if place.leg.state() != LegState::Online {
                return Ok(());
            }
            let legs = place.vdev.legs().len();
            let fresh = state.fresh_disk(&place);
            (place, legs, fresh)
        };
        self.0.lock().totals.disk_commands += 1;
        self.plan_cut(chance);
        let done = match chance.below(4) {
            0 if legs > 1 => self.detach(&place),
            1 if legs < LEGS_MAX => self.attach(&place, &fresh, chance).map(|_| ()),
            2 | 3 => self.replace(&place, &fresh, chance),
            _ => Ok(()),
        };
        self.after_command(&place, done)
    }

    fn plan_cut(&self, chance: &mut Chance) {
        let state = self.0.lock();
        if !chance.one_in(8) {
            let within = chance.pick(&CUT_WITHIN);
            state.machine.power().plan_cut(Some(1 + chance.below(within)));
        }
    }

    /// What was in the way goes away, and what is out of the pool is out of the machine.
    fn after_command(&self, place: &Place, done: Result<(), Failed>) -> Checked<()> {
        let mut state = self.0.lock();
        for (_, disk) in state.machine.disks() {
            disk.faults().clear();
            disk.mend();
        }
        if state.is_off() {
            state.totals.cuts_in_disk_commands += 1;
            return Ok(());
        }
        state.machine.power().plan_cut(None);
        match done {
            Ok(()) => state.note("the command is done"),
            Err(Failed::Told(why)) if state.troubles.struck => state.note(format!("the command failed: {why}")),
            Err(Failed::Told(why) | Failed::Found(why)) => {
                return Err(format!("a command for {} failed: {why}", place.path()));
            }
        }
        let config = state.machine.server().filer.pool().roster.config();
        let is_leg =
            |path: &str| config.vdevs_present().any(|vdev| vdev.legs.iter().any(|leg| leg.path == Path::new(path)));
        let out: Vec<String> = state.machine.disks().iter().map(|(path, _)| path.clone()).collect();
        for path in out.into_iter().filter(|path| !is_leg(path)) {
            state.machine.swap(&path, None);
        }
        Ok(())
    }

    fn attach(&self, place: &Place, path: &str, chance: &mut Chance) -> Result<bool, Failed> {
        {
            let mut state = self.0.lock();
            state.note(format!("attach {path} to {}", place.path()));
            state.trouble_while_joining(place, path, chance);
        }
        let pool = Arc::clone(self.0.lock().machine.server().filer.pool());
        let told = |error: &dyn std::fmt::Display| Failed::Told(error.to_string());
        let leg = new_leg(&pool.platform, &place.config, Path::new(path), false).map_err(|error| told(&error))?;
        let guid = leg.guid();
        pool.roster.add_leg(&place.vdev, leg).map_err(|error| told(&error))?;
        self.requests(chance).map_err(Failed::Found)?;
        let mut is_whole = true;
        if place.config.class == VdevClass::Data {
            let copied = self.copy(&pool, place, guid, chance);
            is_whole = copied.inspect_err(|_| drop(pool.roster.detach(&place.vdev, guid)))?;
        }
        pool.roster.finish_resilver(&place.vdev, guid).map_err(|error| told(&error))?;
        for line in lanes_on(&pool, &place.config) {
            if let Some(lane) = pool.lane(line.lane).filter(|lane| !lane.has_ended()) {
                let joined = self.join_lane(&pool, &lane, &line, guid, chance);
                joined.inspect_err(|_| strike_off(&pool, &place.vdev, guid))?;
            }
        }
        Ok(is_whole)
    }

    /// Copies what is older, requests being served meanwhile. Gives whether nothing is missing.
    fn copy(&self, pool: &Arc<Pool>, place: &Place, guid: VdevGuid, chance: &mut Chance) -> Result<bool, Failed> {
        let mut found = Ok(());
        let copied = place.vdev.resilver(guid, &mut |_| {
            if found.is_ok() && chance.one_in(REQUEST_ONE_IN) {
                found = self.requests(chance);
            }
            found.is_ok()
        });
        found.map_err(Failed::Found)?;
        let report = copied.map_err(|error| Failed::Told(error.to_string()))?;
        let keepers: Vec<VdevGuid> =
            place.vdev.legs().iter().map(|leg| leg.guid()).filter(|leg| *leg != place.leg.guid()).collect();
        let mut lost = 0;
        let secured = self.sync(false, |_| {
            let report = pool.secure(&place.vdev, &keepers, &mut |_| true).map_err(|error| error.to_string())?;
            lost = report.lost_count;
            Ok(())
        });
        secured.map_err(Failed::Told)?;
        Ok(report.unreadable_bytes == 0 && lost == 0)
    }

    fn join_lane(
        &self,
        pool: &Arc<Pool>,
        lane: &Arc<Lane>,
        line: &LaneConfigLine,
        guid: VdevGuid,
        chance: &mut Chance,
    ) -> Result<(), Failed> {
        let failed = || Failed::Told("it does not take part in the log".into());
        let mut wider = line.clone();
        wider.legset.push(guid);
        let leg = pool.roster.lane_config(&wider).legs.into_iter().find(|leg| leg.guid == guid).ok_or_else(failed)?;
        lane.join_leg(leg);
        for _ in 0..JOIN_SYNCS_MAX {
            self.requests(chance).map_err(Failed::Found)?;
            self.sync_group().map_err(Failed::Told)?;
            if self.0.lock().is_off() {
                return Err(failed());
            }
            if lane.admit_leg(guid) {
                let admitted = pool.roster.admit_lane_leg(lane.id(), guid);
                return admitted.map(|_| ()).map_err(|error| Failed::Told(error.to_string()));
            }
        }
        Err(failed())
    }

    fn detach(&self, place: &Place) -> Result<(), Failed> {
        let pool = {
            let state = self.0.lock();
            state.note(format!("detach {}", place.path()));
            Arc::clone(state.machine.server().filer.pool())
        };
        let detached = pool.roster.detach(&place.vdev, place.leg.guid());
        detached.map_err(|error| {
            // The last leg that has everything stays, and so does the only one of a lane.
            self.0.lock().note(format!("refused: {error}"));
            self.0.lock().troubles.struck |= true;
            Failed::Told(error.to_string())
        })
    }

    fn replace(&self, place: &Place, path: &str, chance: &mut Chance) -> Result<(), Failed> {
        self.0.lock().note(format!("replace {} by {path}", place.path()));
        if self.attach(place, path, chance)? {
            return self.detach(place);
        }
        Err(Failed::Told(format!("{} could not be read everywhere, and stays", place.path())))
    }

    /// Some requests between two steps.
    fn requests(&self, chance: &mut Chance) -> Checked<()> {
        for _ in 0..chance.below(3) {
            let mut state = self.0.lock();
            if state.is_off() {
                return Ok(());
            }
            let op = state.choose_op(chance);
            let attempt = state.attempt(&op, chance)?;
            if let Next::Settle = state.carry_out(attempt, chance)? {
                state.drive_sent()?;
            }
        }
        Ok(())
    }
}

impl State {
    /// A disk as large as this one, at a path of its own, and without content.
    fn fresh_disk(&mut self, place: &Place) -> String {
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
    fn trouble_while_joining(&mut self, place: &Place, path: &str, chance: &mut Chance) {
        match chance.below(4) {
            0 => {
                let (fault, count) = (chance.pick(&Fault::ALL), 1 + chance.below(3) as u32);
                self.disk(path).expect("it was just made").faults().set(fault, count);
                self.note(format!("{path} refuses {fault:?} {count} times"));
                self.troubles.struck = true;
            }
            1 => {
                let Some(old) = self.disk(&place.path()).cloned() else { return };
                let hit = old.spoil(1 + chance.below(3), u32::MAX, chance);
                self.note(format!("{} cannot be read at {hit:x?}", place.path()));
                self.troubles.struck = true;
            }
            _ => {}
        }
    }
}

/// Every disk of the pool.
fn places(pool: &Pool) -> Vec<Place> {
    let config = pool.roster.config();
    let mut places = Vec::new();
    for vdev in pool.roster.vdevs() {
        let Some(config) = config.vdevs_present().find(|line| line.guid == vdev.guid()) else { continue };
        places.extend(vdev.legs().into_iter().map(|leg| Place { vdev: Arc::clone(vdev), config: config.clone(), leg }));
    }
    places
}

/// The lanes whose ring lies on a vdev.
fn lanes_on(pool: &Pool, vdev: &VdevConfig) -> Vec<LaneConfigLine> {
    pool.roster.config().lanes.iter().filter(|line| line.vdev == vdev.index).cloned().collect()
}

/// A disk that could not join the log is no leg of it, unless nothing else has what is in the pool.
fn strike_off(pool: &Pool, vdev: &Vdev, guid: VdevGuid) {
    if vdev.legs().iter().any(|other| other.guid() != guid && other.state() == LegState::Online) {
        let _ = pool.roster.drop_leg(guid, &std::io::Error::other("it could not join the log"));
    }
}
