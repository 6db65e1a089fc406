//! What goes wrong beside the power: legs of mirrors that fail, rot, vanish and come back; requests that disks refuse;
//! rot where there is no second copy.
//!
//! | trouble | what happens | what must hold |
//! |---|---|---|
//! | `Legs` | one leg of each mirror refuses, also in an import, rots, is pulled out, comes back stale | everything: the other leg has it all |
//! | `Refusals` | a disk refuses a read, write, durable write or flush | what was answered; who was refused is told so |
//! | `Rot` | bits flip where nothing is mirrored, in a copy of the disks | what can be read is right; what is lost is named or answered with an error |

use std::sync::Arc;

use clap::ValueEnum;
use tally_fs::filer::ImportOptions;

use super::{Checked, State};
use crate::chance::Chance;
use crate::disk::{Fault, PowerDisk};
use crate::same::same_where_readable;

/// What goes wrong in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trouble {
    /// The power alone.
    None,
    /// One leg of each mirror.
    Legs,
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
}

impl Trouble {
    /// The pools that it happens to.
    pub(super) fn shapes(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::None => &[
                &["/d/data", "log", "/d/slog"],
                &["/d/data"],
                &["/d/data", "log", "mirror", "/d/slog", "/d/slog2"],
                &["mirror", "/d/data", "/d/data2", "log", "/d/slog"],
            ],
            Self::Legs => &[
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

impl State {
    fn disk(&self, path: &str) -> Option<&Arc<PowerDisk>> {
        self.machine.disks().iter().find(|(of, _)| of == path).map(|(_, disk)| disk)
    }

    /// Something goes wrong in a running machine.
    pub(super) fn trouble(&mut self, chance: &mut Chance) {
        match self.plan.trouble {
            Trouble::None | Trouble::Rot => {}
            Trouble::Legs => {
                let Some(victim) = self.some_victim(chance) else { return };
                let Some(disk) = self.disk(&victim) else { return };
                match chance.below(4) {
                    0 => disk.faults().all(),
                    1 => {
                        disk.rot(1 + chance.below(20), chance);
                        self.troubles.rotten.push(victim.clone());
                    }
                    _ => disk.faults().set(chance.pick(&Fault::ALL), 1 + chance.below(3) as u32),
                }
                self.note(format!("{victim} is in trouble"));
                self.troubles.stale.push(victim);
            }
            Trouble::Refusals => {
                let (path, disk) = chance.pick(self.machine.disks());
                let (fault, count) = (chance.pick(&Fault::ALL), 1 + chance.below(3) as u32);
                disk.faults().set(fault, count);
                self.note(format!("{path} refuses {fault:?} {count} times"));
                self.troubles.struck = true;
            }
        }
    }

    fn some_victim(&self, chance: &mut Chance) -> Option<String> {
        let victims = &self.troubles.victims;
        (!victims.is_empty()).then(|| chance.pick(victims))
    }

    /// Something goes wrong while the machine is off.
    pub(super) fn trouble_while_off(&mut self, chance: &mut Chance) -> Checked<()> {
        self.troubles.struck = false;
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
                    disk.rot(1 + chance.below(20), chance);
                    self.note(format!("{victim} rots"));
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

    /// Without the good leg of a mirror, the other one must not be taken for it.
    fn only_stale(&mut self, victim: &str) -> Checked<()> {
        if !self.troubles.stale.iter().any(|stale| stale == victim) {
            return Ok(());
        }
        let good = if let Some(first) = victim.strip_suffix('2') { first.to_owned() } else { format!("{victim}2") };
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
        // Refused, or the state is one that could be: it had missed nothing.
        let Ok(report) = other.import(&ImportOptions::default()) else { return Ok(()) };
        if !report.losses.is_empty() {
            return Ok(());
        }
        for part in &self.parts {
            let Some(fs) = other.server().filer.by_name(&part.name) else { continue };
            // If it has rotted, too, the last frame of the log may be missing: it has no witness here.
            let is_rotten = self.troubles.rotten.iter().any(|rotten| rotten == victim);
            let seen = part.oracle.find(is_rotten, |model| same_where_readable(&*fs, model));
            seen.map_err(|what| format!("{} from {victim} alone, which had missed something: {what}", part.name))?;
        }
        Ok(())
    }

    /// The power goes and bits flip, in a copy of the disks: what is imported is right as far as it can be read, or what is
    /// lost has a name. The history goes on without the rot.
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
        for part in &self.parts {
            let Some(fs) = other.server().filer.by_name(&part.name) else {
                return Err(format!("dataset {} is gone, and nobody says so", part.name));
            };
            let seen = part.oracle.find(is_log, |model| same_where_readable(&*fs, model));
            seen.map_err(|what| format!("{} after rot: {what}", part.name))?;
        }
        Ok(())
    }
}
