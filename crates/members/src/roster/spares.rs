//! Hot spares: disks that wait for the pool are opened when their time has come, and go. How they come is in
//! [`crate::create`].
//!
//! How the labels tell a spare that waits from one that is in use is [`Spare`]'s. A spare that waits is not held open: nobody
//! needs it, and its label tells whoever finds it whose it is. So each step here opens the disk, looks at its label under the lock
//! (rules F24), and closes it again.
//!
//! ```text
//!   add:     its label is erased ─▶ its label: a spare ─▶ labels of the pool: its line
//!   take:    its label is looked at ─▶ labels: for whom it stands ─▶ it joins as any leg does
//!   give back: it leaves as any leg does ─▶ its label: a spare
//!   remove:  labels of the pool: no line ─▶ its label is erased
//! ```
//!
//! A cut behind the first step of `add` leaves a disk that says it is a spare, and that no pool has: it takes `-f` to use it
//! again. One before the last step of `give back` leaves a label that calls the disk a leg, of a configuration that does not hold
//! any more; that is set right by the next look at the spares ([`Roster::look_at_spare`]).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tally_base::{PoolGuid, VdevGuid};
use tally_disk::{Access, Disk, Platform};

use super::{Roster, RosterError};
use crate::discover::leg_inside;
use crate::label::{self, LabelError, PoolConfig, Spare};
use crate::vdev::{LegState, VdevLeg};

/// Why something could not be done with a spare.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum SpareError {
    /// The disk is not there, or is another one.
    #[error("the spare {} cannot be used: {why}; `tally pool remove` takes it out of the pool", path.display())]
    Gone { path: PathBuf, why: String },
    /// It is needed.
    #[error(
        "{} is in the place of another disk; `tally pool detach` gives it back first, or it stays when that one is detached",
        path.display()
    )]
    InUse { path: PathBuf },
    /// Its label could not be written.
    #[error("cannot write to {}: {cause}; `tally pool remove` takes it out of the pool", path.display())]
    Write { path: PathBuf, cause: LabelError },
    /// Somebody is at it.
    #[error("{} is being taken for another disk just now, or another process has it in use; try again when that is over", path.display())]
    Held { path: PathBuf },
    /// The labels of the pool could not be changed.
    #[error(transparent)]
    Labels(#[from] RosterError),
}

impl Roster {
    /// Takes a spare that waits out of the pool. Gives a remark where its label could not be erased.
    pub fn remove_spare(&self, platform: &Platform, guid: VdevGuid) -> Result<Option<String>, SpareError> {
        let config = self.config();
        let why = "is no spare of the pool";
        let spare = config.spare(guid).ok_or(RosterError::Leg { leg: guid, why })?.clone();
        let in_use = || SpareError::InUse { path: spare.path.clone() };
        if config.leg(guid).is_some() {
            return Err(in_use());
        }
        // Held until it is out: one that is about to be taken is held by whoever takes it.
        let disk = open(platform, &config, &spare);
        if matches!(disk, Err(Refusal::InUse)) {
            return Err(SpareError::Held { path: spare.path });
        }
        let mut is_in_use = false;
        self.update(|config| {
            is_in_use = config.leg(guid).is_some();
            config.spares.retain(|spare| spare.guid != guid || is_in_use);
        })?;
        if is_in_use {
            return Err(in_use());
        }
        let erased = disk
            .map_err(|refusal| refusal.to_string())
            .and_then(|disk| label::wipe(disk.as_ref()).map_err(|error| error.to_string()));
        Ok(erased.err().map(|why| {
            format!(
                "note: {} is no spare any more, but its label is not erased: {why}. Whoever uses the disk again has to say -f",
                spare.path.display()
            )
        }))
    }

    /// Opens a spare that waits, to stand in for a leg: a leg of its guid, which [`Roster::add_leg`] takes up. For whom it
    /// stands is durable when this returns.
    pub fn take_spare(
        &self,
        platform: &Platform,
        guid: VdevGuid,
        stands_for: VdevGuid,
    ) -> Result<Arc<VdevLeg>, SpareError> {
        let config = self.config();
        let why = "is no spare of the pool";
        let spare = config.spare(guid).ok_or(RosterError::Leg { leg: guid, why })?.clone();
        if config.leg(guid).is_some() {
            return Err(SpareError::InUse { path: spare.path });
        }
        let gone = |refusal: Refusal| SpareError::Gone { path: spare.path.clone(), why: refusal.to_string() };
        let disk = open(platform, &config, &spare).map_err(gone)?;
        // It was given back, and the power went: uberblocks of today under a label that calls it whole would be believed. That it says otherwise
        // may be what it has refused before (rules S57).
        let failed = |cause| SpareError::Write { path: spare.path.clone(), cause };
        label::write_spare(disk.as_ref(), guid, &config).map_err(failed)?;
        self.hand_spares_on(&[guid], stands_for)?;
        // Somebody may have taken it out of the pool before the disk was held.
        if self.config().spare(guid).is_none() {
            return Err(RosterError::Leg { leg: guid, why }.into());
        }
        Ok(Arc::new(VdevLeg::new(guid, spare.path, Some(disk), LegState::Stale)))
    }

    /// Whether a spare that waits could be opened to stand in for a leg; nothing is written.
    pub fn check_spare(&self, platform: &Platform, guid: VdevGuid) -> Result<(), SpareError> {
        let config = self.config();
        let why = "is no spare of the pool";
        let spare = config.spare(guid).ok_or(RosterError::Leg { leg: guid, why })?;
        let gone = |refusal: Refusal| SpareError::Gone { path: spare.path.clone(), why: refusal.to_string() };
        open(platform, &config, spare).map(drop).map_err(gone)
    }

    /// These spares stand for another leg from now on.
    pub fn hand_spares_on(&self, spares: &[VdevGuid], stands_for: VdevGuid) -> Result<(), RosterError> {
        let is_meant = |spare: &Spare| spares.contains(&spare.guid) && spare.stands_for != Some(stands_for);
        if self.config().spares.iter().any(is_meant) {
            self.update(|config| {
                config.spares.iter_mut().filter(|spare| is_meant(spare)).for_each(|spare| {
                    spare.stands_for = Some(stands_for);
                });
            })?;
        }
        Ok(())
    }

    /// A spare in this mirror whose leg has left for good is a leg like any other, and no spare any more. Gives the paths of such.
    /// Nothing else may run there: elsewhere a command may be about to hand a spare on.
    pub fn keep_orphaned_spares(&self, of: VdevGuid) -> Result<Vec<PathBuf>, RosterError> {
        let is_orphaned = |config: &PoolConfig, spare: &Spare| {
            let has_left = spare.stands_for.is_none_or(|leg| config.leg(leg).is_none());
            config.leg(spare.guid).is_some_and(|(vdev, _)| vdev.guid == of) && has_left
        };
        let config = self.config();
        let orphaned: Vec<_> = config.spares.iter().filter(|spare| is_orphaned(&config, spare)).collect();
        if !orphaned.is_empty() {
            self.update(|config| {
                let stay = config.spares.iter().filter(|spare| !is_orphaned(config, spare)).cloned().collect();
                config.spares = stay;
            })?;
        }
        Ok(orphaned.into_iter().map(|spare| spare.path.clone()).collect())
    }

    /// Whether a spare that waits is where it should be. One whose label still calls it a leg, as the power went when it was
    /// given back, gets the label that it should have. An error says what was found instead.
    pub fn look_at_spare(&self, platform: &Platform, guid: VdevGuid) -> Result<(), String> {
        let config = self.config();
        let Some(spare) = config.spares_available().find(|spare| spare.guid == guid) else { return Ok(()) };
        if spare_label(platform, &config, guid)?.is_spare() || self.check_changeable().is_err() {
            return Ok(());
        }
        let disk = open(platform, &config, spare).map_err(|refusal| refusal.to_string())?;
        label::write_spare(disk.as_ref(), guid, &config).map_err(|error| error.to_string())
    }

    /// A leg has left: its label is erased, or says that it waits as a spare again. A courtesy that takes as long as its disk
    /// likes; see [`VdevLeg::erase_label`].
    pub fn release_label(&self, leg: &VdevLeg) -> io::Result<()> {
        let config = self.config();
        match leg.disk() {
            Some(disk) if config.spare(leg.guid()).is_some() => {
                label::write_spare(disk.as_ref(), leg.guid(), &config).map_err(io::Error::other)
            }
            _ => leg.erase_label(),
        }
    }
}

/// Why the disk of a spare cannot be had.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("another process has it in use")]
    InUse,
    #[error("{0}")]
    Other(String),
}

/// The disk of a spare that waits, locked.
fn open(platform: &Platform, config: &PoolConfig, spare: &Spare) -> Result<Arc<dyn Disk>, Refusal> {
    let disk = platform.opener.open(&spare.path, Access::Exclusive).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Refusal::InUse,
        _ => Refusal::Other(error.to_string()),
    })?;
    check_label(disk.as_ref(), config, spare.guid).map_err(Refusal::Other)?;
    Ok(disk)
}

/// What the disk of a spare that waits says of itself; no lock is asked for. An error says what was found instead.
pub fn spare_label(platform: &Platform, config: &PoolConfig, guid: VdevGuid) -> Result<label::Label, String> {
    let spare = config.spare(guid).ok_or("it is no spare of the pool")?;
    let disk = platform.opener.open(&spare.path, Access::ReadOnly).map_err(|error| error.to_string())?;
    check_label(disk.as_ref(), config, guid)
}

fn check_label(disk: &dyn Disk, config: &PoolConfig, guid: VdevGuid) -> Result<label::Label, String> {
    let label = label::read(disk).map_err(|why| why.to_string())?;
    check_own(disk, &label, (config.pool, guid)).map_err(str::to_owned)?;
    Ok(label)
}

/// Whether a disk with this label is the one of that guid in the pool: of a leg that comes back, and of a spare.
pub(super) fn check_own(
    disk: &dyn Disk,
    label: &label::Label,
    (pool, guid): (PoolGuid, VdevGuid),
) -> Result<(), &'static str> {
    if label.config.pool != pool || label.leg != guid {
        return Err("another disk is there");
    }
    // The partition with which this one ends, perhaps, and others lie before it.
    if leg_inside(disk, label).is_some() {
        return Err("it is no disk of the pool, but ends with one");
    }
    Ok(())
}
