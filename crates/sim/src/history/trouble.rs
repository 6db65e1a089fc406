//! What goes wrong beside the power: legs of mirrors that fail, rot, vanish and come back; requests that disks refuse;
//! rot where there is no second copy.
//!
//! | trouble | what happens | what must hold |
//! |---|---|---|
//! | `Full` | the pool is nearly full, and full now and then, while scrubs hold what was freed, and disks join and leave | everything; what makes room is never refused for want of it |
//! | `Disks` | disks are attached, detached and replaced, some of which refuse requests or cannot be read everywhere | everything; a command that says that it is done has lost nothing |
//! | `Legs` | one leg of each mirror refuses, also in an import, rots, lies about a write, has sectors that cannot be read, hangs for a while or for good, is pulled out, comes back stale | everything: the other leg has it all |
//! | `Turns` | the same, but for rot and lies; and once a leg is struck off, the other one refuses something, too | what was answered; who was refused is told so |
//! | `Refusals` | a disk refuses a read, write, durable write or flush, or hangs | what was answered; who was refused is told so |
//! | `Rot` | bits flip where nothing is mirrored, in a copy of the disks | what can be read is right; what is lost is named or answered with an error |
//! | `Rot`, too | one block [rots and stays so](super::above), in a fork | the pool goes on; the damaged alone cannot be read, and is named |

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use tally_fs::filer::{FilerError, ImportOptions};
use tally_members::assemble::ImportError;
use tally_members::vdev::LegState;
use tally_store::alloc::{LoadError, SectorError};
use tally_store::block::BlockError;
use tally_store::pool::{OpenError, SyncError};

use super::{Checked, State};
use crate::chance::Chance;
use crate::disk::{Fault, Lie, PowerDisk};
use crate::same::same_where_readable;

/// What goes wrong in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trouble {
    /// The power alone.
    None,
    /// The power alone, and a pool that is nearly full.
    Full,
    /// Disks are attached, detached and replaced.
    Disks,
    /// One leg of each mirror.
    Legs,
    /// One leg of a mirror, and then the other.
    Turns,
    /// Some requests of any disk.
    Refusals,
    /// Rot without redundancy.
    Rot,
}

/// The trouble of a history, so far.
#[derive(Default)]
pub(super) struct Troubles {
    /// The leg of each mirror that things happen to.
    victims: Vec<String>,
    /// Victims that are out.
    aside: Vec<(String, Arc<PowerDisk>)>,
    /// Victims that may have missed something.
    stale: Vec<String>,
    /// Victims that have rotted.
    rotten: Vec<String>,
    /// A request was refused in this life, so that others may be.
    pub(super) struck: bool,
    /// Nothing may be changed: a disk that is alone cannot be read everywhere.
    pub(super) is_quiet: bool,
    /// All disks of a vdev refuse requests.
    pub(super) is_outage: bool,
}

impl Trouble {
    /// Whether legs are struck off while the pool runs.
    #[must_use]
    pub fn strikes_off(self) -> bool {
        !matches!(self, Self::None | Self::Full | Self::Rot)
    }

    /// The pools that it happens to.
    pub(super) fn shapes(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::None => &[
                &["/d/data", "log", "/d/slog"],
                &["/d/data"],
                &["/d/data", "log", "mirror", "/d/slog", "/d/slog2"],
                &["mirror", "/d/data", "/d/data2", "log", "/d/slog"],
            ],
            Self::Disks => &[
                &["/d/data", "log", "/d/slog"],
                &["/d/data"],
                &["mirror", "/d/data", "/d/data2", "log", "mirror", "/d/slog", "/d/slog2"],
            ],
            Self::Full => &[&["/d/data", "log", "/d/slog"], &["/d/data"]],
            Self::Legs | Self::Turns => &[
                &["mirror", "/d/data", "/d/data2", "log", "mirror", "/d/slog", "/d/slog2"],
                &["mirror", "/d/data", "/d/data2"],
                &["/d/data", "log", "mirror", "/d/slog", "/d/slog2"],
                &["mirror", "/d/data", "/d/data2", "log", "/d/slog"],
            ],
            Self::Refusals => &[
                &["/d/data", "log", "/d/slog"],
                &["/d/data"],
                &["/d/data", "log", "/d/slog", "/d/slog2"],
                &["mirror", "/d/data", "/d/data2", "log", "/d/slog"],
            ],
            Self::Rot => &[&["/d/data", "log", "/d/slog"], &["/d/data"], &["/d/data", "log", "/d/slog", "/d/slog2"]],
        }
    }
}

impl Troubles {
    /// Draws a victim from each mirror.
    pub(super) fn of(vdevs: &[String], chance: &mut Chance) -> Self {
        let is_mirror = |first: &str| vdevs.windows(2).any(|pair| pair[0] == "mirror" && pair[1] == first);
        let mut victims = Vec::new();
        for (first, second) in [("/d/data", "/d/data2"), ("/d/slog", "/d/slog2")] {
            if is_mirror(first) {
                victims.push(chance.pick(&[first, second]).to_owned());
            }
        }
        Self { victims, ..Self::default() }
    }
}

/// The other leg of the mirror that this one is in.
fn other_leg(path: &str) -> String {
    path.strip_suffix('2').map_or_else(|| format!("{path}2"), str::to_owned)
}

/// Whether an import was refused because a disk is missing, or what only that has: an uberblock, or a part of the log.
fn says_that_something_is_missing(error: &FilerError) -> bool {
    let is_disk =
        |error: &ImportError| matches!(error, ImportError::VdevUnavailable { .. } | ImportError::Choose { .. });
    match error {
        FilerError::Import(error) => is_disk(error),
        FilerError::Open(error) => matches!(error, OpenError::Choose(_) | OpenError::LogLost { .. }),
        _ => false,
    }
}

/// Whether an import was refused because of a block that no disk has as it was written.
fn says_that_something_cannot_be_read(error: &FilerError) -> bool {
    let FilerError::Open(error) = error else { return false };
    match error {
        OpenError::Block(_) | OpenError::Root(_) | OpenError::Space(LoadError::Sector(SectorError::Block(_))) => true,
        // The only space map: nothing can be written.
        OpenError::Sync(SyncError::Block(BlockError::NoSpace(no_space))) => no_space.fenced + no_space.refused > 0,
        _ => false,
    }
}

/// Some requests of this disk take as long as disks take that try again and again.
fn hang(disk: &PowerDisk, chance: &mut Chance) -> (u32, Duration) {
    let (count, time) = (1 + chance.below(5) as u32, Duration::from_secs(chance.pick(&[1, 7, 30, 120])));
    disk.faults().hang(count, time);
    (count, time)
}

impl State {
    pub(super) fn disk(&self, path: &str) -> Option<&Arc<PowerDisk>> {
        self.machine.disks().iter().find(|(of, _)| of == path).map(|(_, disk)| disk)
    }

    /// Something goes wrong in a running machine.
    pub(super) fn trouble(&mut self, chance: &mut Chance) {
        match self.plan.trouble {
            Trouble::Disks if chance.one_in(2) => self.leg_hangs(chance),
            Trouble::None | Trouble::Full | Trouble::Disks | Trouble::Rot => {}
            Trouble::Turns if chance.one_in(2) => self.other_victim(chance),
            Trouble::Legs | Trouble::Turns => self.leg_in_trouble(chance),
            Trouble::Refusals => {
                let (path, disk) = chance.pick(self.machine.disks());
                if chance.one_in(4) {
                    let (count, time) = hang(&disk, chance);
                    self.note(format!("{path} hangs {count} times for {time:?}"));
                    return;
                }
                let (fault, count) = (chance.pick(&Fault::ALL), 1 + chance.below(3) as u32);
                disk.faults().set(fault, count);
                self.note(format!("{path} refuses {fault:?} {count} times"));
                self.troubles.struck = true;
            }
        }
    }

    /// Something goes wrong with a victim, which the other leg makes good.
    fn leg_in_trouble(&mut self, chance: &mut Chance) {
        let Some(victim) = self.some_victim(chance) else { return };
        let Some(disk) = self.disk(&victim).cloned() else { return };
        let forgets = self.plan.trouble == Trouble::Legs;
        if disk.owes() && chance.one_in(2) {
            disk.come_home();
            self.note(format!("{victim} answers again"));
            return;
        }
        match chance.below(9) {
            0 | 1 => disk.faults().all(),
            8 => disk.faults().fall_silent(),
            2 if forgets => {
                let pages = disk.rot(1 + chance.below(20), chance);
                self.note(format!("{victim} rots at {pages:x?}"));
                self.troubles.rotten.push(victim.clone());
            }
            3 if forgets => {
                let lie = if chance.one_in(2) { Lie::Lost } else { Lie::Misdirected(chance.next()) };
                disk.faults().lie(chance.below(20) as u32, lie);
                self.note(format!("{victim} will lie: {lie:?}"));
                self.troubles.rotten.push(victim.clone());
            }
            4 => {
                let tries = chance.pick(&[1, 3, u32::MAX]);
                let hit = disk.spoil(1 + chance.below(64), tries, chance);
                self.note(format!("{victim} cannot be read at {hit:x?}, {tries} times"));
            }
            5 => {
                let (count, time) = hang(&disk, chance);
                self.note(format!("{victim} hangs {count} times for {time:?}"));
                return;
            }
            _ => disk.faults().set(chance.pick(&Fault::ALL), 1 + chance.below(3) as u32),
        }
        self.note(format!("{victim} is in trouble"));
        self.troubles.stale.push(victim);
    }

    /// A leg of a mirror that is whole does not answer any more.
    fn leg_hangs(&mut self, chance: &mut Chance) {
        if self.troubles.struck || self.machine.disks().iter().any(|(_, disk)| disk.owes()) {
            return;
        }
        let Some(server) = self.machine.running() else { return };
        let vdevs = server.filer.pool().roster.vdevs();
        let whole = vdevs
            .iter()
            .map(|vdev| vdev.legs())
            .filter(|legs| legs.len() > 1 && legs.iter().all(|leg| leg.state() == LegState::Online));
        let paths: Vec<String> = whole.flatten().map(|leg| leg.path().to_string_lossy().into_owned()).collect();
        if paths.is_empty() {
            return;
        }
        let path = chance.pick(&paths);
        let Some(disk) = self.disk(&path) else { return };
        disk.faults().fall_silent();
        self.note(format!("{path} falls silent"));
    }

    /// A leg was struck off in this life, and now the other one refuses something: the pool may stand still, and the
    /// lane may end, but what was answered stays.
    fn other_victim(&mut self, chance: &mut Chance) {
        let struck_off = self.struck_off();
        let beside = struck_off.iter().map(|path| other_leg(path)).filter(|path| !struck_off.contains(path));
        let others: Vec<String> = beside.filter(|path| self.disk(path).is_some()).collect();
        if others.is_empty() {
            return self.leg_in_trouble(chance);
        }
        let victim = chance.pick(&others);
        let (fault, count) = (chance.pick(&Fault::ALL), 1 + chance.below(3) as u32);
        self.disk(&victim).expect("it was just found").faults().set(fault, count);
        self.note(format!("{victim} is alone, and refuses {fault:?} {count} times"));
        self.troubles.struck = true;
    }

    /// The disks that the running pool has struck off, or that it never had.
    fn struck_off(&self) -> Vec<String> {
        let Some(server) = self.machine.running() else { return Vec::new() };
        let vdevs = server.filer.pool().roster.vdevs();
        let legs = vdevs.iter().flat_map(|vdev| vdev.legs());
        let out = legs.filter(|leg| !matches!(leg.state(), LegState::Online));
        out.map(|leg| leg.path().to_string_lossy().into_owned()).collect()
    }

    /// Counts a cut behind which a leg is missing something.
    pub(super) fn count_struck_off(&mut self) {
        self.totals.cuts_after_strike += u64::from(!self.struck_off().is_empty());
    }

    fn some_victim(&self, chance: &mut Chance) -> Option<String> {
        let victims = &self.troubles.victims;
        (!victims.is_empty()).then(|| chance.pick(victims))
    }

    /// Something goes wrong while the machine is off.
    pub(super) fn trouble_while_off(&mut self, chance: &mut Chance) -> Checked<()> {
        (self.troubles.struck, self.troubles.is_outage) = (false, false);
        if self.plan.trouble == Trouble::Turns {
            self.troubles_change_sides(chance);
        }
        if self.plan.trouble != Trouble::Legs {
            return Ok(());
        }
        let Some(victim) = self.some_victim(chance) else { return Ok(()) };
        match chance.below(8) {
            0 | 1 => {
                if let Some(disk) = self.machine.swap(&victim, None) {
                    self.note(format!("{victim} is out"));
                    self.troubles.stale.push(victim.clone());
                    self.troubles.aside.push((victim, disk));
                }
            }
            2 | 3 => {
                for (path, disk) in std::mem::take(&mut self.troubles.aside) {
                    self.note(format!("{path} is back"));
                    let disk = Arc::new(disk.copy(self.machine.power()));
                    self.machine.plug(&path, disk);
                }
            }
            4 => {
                if let Some(disk) = self.disk(&victim) {
                    let pages = disk.rot(1 + chance.below(20), chance);
                    self.note(format!("{victim} rots at {pages:x?}"));
                    self.troubles.rotten.push(victim);
                }
            }
            5 | 6 => {
                if let Some(disk) = self.disk(&victim) {
                    let (fault, count) = (chance.pick(&Fault::ALL), 1 + chance.below(6) as u32);
                    disk.faults().set(fault, count);
                    self.note(format!("{victim} will refuse {fault:?} {count} times"));
                    self.troubles.stale.push(victim);
                }
            }
            _ => self.only_stale(&victim)?,
        }
        Ok(())
    }

    /// A log mirror that is whole again has another victim. One of data stays as it is: what has missed changes does
    /// not come back by itself.
    fn troubles_change_sides(&mut self, chance: &mut Chance) {
        if chance.one_in(2) {
            for victim in self.troubles.victims.iter_mut().filter(|victim| victim.contains("slog")) {
                *victim = other_leg(victim);
            }
        }
    }

    /// Without the good leg of a mirror, the other one must not be taken for it.
    fn only_stale(&mut self, victim: &str) -> Checked<()> {
        // Where the pool may be gone back, nobody knows yet what that leg has missed.
        if !self.troubles.stale.iter().any(|stale| stale == victim) || self.may_be_back.is_some() {
            return Ok(());
        }
        let good = other_leg(victim);
        let mut other = self.machine.copy();
        other.swap(&good, None);
        if other.disks().len() < 2 {
            // Nobody is left to say what it has missed.
            return Ok(());
        }
        for (path, disk) in self.troubles.aside.iter().filter(|(path, _)| path == victim) {
            other.plug(path, Arc::new(disk.copy(other.power())));
        }
        self.note(format!("import without {good}"));
        let is_rotten = self.troubles.rotten.iter().any(|rotten| rotten == victim);
        // Refused, because something is missing, or the state is one that could be: it had missed nothing.
        let report = match other.import(&ImportOptions::default()) {
            Ok(report) => report,
            Err(error) if says_that_something_is_missing(&error) => return Ok(()),
            Err(error) if is_rotten && says_that_something_cannot_be_read(&error) => return Ok(()),
            Err(error) => return Err(format!("the import without {good} is refused: {error}")),
        };
        if !report.losses.is_empty() {
            return Err(format!("the import without {good} gives up what nobody has given up: {:?}", report.losses));
        }
        for part in self.parts.iter().filter(|part| part.is_there) {
            let Some(fs) = other.server().filer.by_name(&part.name) else { continue };
            // If it has rotted, too, the last frame of the log may be missing: it has no witness here.
            let seen = part.oracle.find(is_rotten, |left| same_where_readable(&*fs, &left.model, false));
            seen.map_err(|what| format!("{} from {victim} alone, which had missed something: {what}", part.name))?;
        }
        Ok(())
    }

    /// The power goes and bits flip, in a copy of the disks: what is imported is right as far as it can be read, or
    /// what is lost has a name. The history goes on without the rot.
    pub(super) fn rot_in_a_copy(&mut self, chance: &mut Chance) -> Checked<()> {
        let mut other = self.machine.copy();
        other.lose_power(chance);
        let (path, disk) = chance.pick(other.disks());
        let pages = disk.rot(chance.pick(&[1, 1, 3, 20]), chance);
        self.note(format!("in a copy {path} rots at {pages:x?}"));
        let has_slog = other.disks().iter().any(|(path, _)| path.contains("slog"));
        let is_log = path.contains("slog") || !has_slog;
        let mut options = ImportOptions::default();
        let report = match other.import(&options) {
            Ok(report) => report,
            Err(error) => {
                self.note(format!("refused: {error}"));
                self.totals.named += 1;
                options.accept_loss = true;
                other.lose_power(chance);
                // What cannot be imported at all says so again.
                let Ok(report) = other.import(&options) else { return Ok(()) };
                if report.losses.is_empty() && report.remarks.is_empty() {
                    return Err(format!("{error}: and then a loss is accepted that nobody names"));
                }
                return Ok(());
            }
        };
        self.note(format!("imported: {:?} {:?}", report.losses, report.remarks));
        if !report.losses.is_empty() {
            self.totals.named += 1;
            return Ok(());
        }
        for part in self.parts.iter().filter(|part| part.is_there) {
            let Some(fs) = other.server().filer.by_name(&part.name) else {
                // A cut in the middle of a command for it may have decided either way.
                if part.doomed || part.renamed.is_some() {
                    continue;
                }
                return Err(format!("dataset {} is gone, and nobody says so", part.name));
            };
            let seen = part.oracle.find(is_log, |left| same_where_readable(&*fs, &left.model, true));
            seen.map_err(|what| format!("{} after rot: {what}", part.name))?;
        }
        Ok(())
    }
}
