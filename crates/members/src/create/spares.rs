//! Disks that come to a pool as spares: all of a command are looked at before anything is written to the first.

use std::path::{Path, PathBuf};

use tally_disk::Platform;

use super::{CreateError, NewSpare, new_spare};
use crate::label::{self, LABEL_BYTES, LabelError, PoolConfig, SPARES_MAX, Spare, VdevClass};
use crate::roster::{Roster, RosterError};

/// Why a disk does not become a spare.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum NewSpareError {
    /// The new disk cannot be used.
    #[error(transparent)]
    New(#[from] CreateError),
    /// It is a disk of this pool already.
    #[error("{} is part of the pool already; `tally pool status` shows as what", path.display())]
    Ours { path: PathBuf },
    /// There are so many.
    #[error("a pool takes at most {SPARES_MAX} spares; `tally pool remove` takes one out")]
    TooMany,
    /// Its label could not be written.
    #[error("cannot write to {}: {cause}; see to that disk and do this again, or name another one", path.display())]
    Write { path: PathBuf, cause: LabelError },
    /// The labels of the pool could not be changed.
    #[error(transparent)]
    Labels(#[from] RosterError),
}

/// Takes these disks in as spares: all of them, or none. Each is large enough for the smallest data vdev at least.
pub fn add_spares(roster: &Roster, platform: &Platform, paths: &[PathBuf], force: bool) -> Result<(), NewSpareError> {
    roster.check_changeable()?;
    let new = openable_spares(roster, platform, paths, force)?;
    let lines: Vec<Spare> = new.iter().map(NewSpare::line).collect();
    let with_them = PoolConfig { spares: [roster.config().spares, lines.clone()].concat(), ..roster.config() };
    let label = |spare: &NewSpare| {
        let failed = |cause: LabelError| NewSpareError::Write { path: spare.path.clone(), cause };
        let disk = spare.disk.as_ref();
        label::wipe(disk).map_err(|error| failed(error.into()))?;
        label::write_spare(disk, spare.guid, &with_them).map_err(failed)
    };
    let labelled = new.iter().try_for_each(label);
    let added = labelled.and_then(|()| Ok(roster.update(|config| config.spares.extend(lines))?));
    if added.is_err() {
        // They are nobody's then. One whose label stays takes `-f`.
        new.iter().for_each(|spare| drop(label::wipe(spare.disk.as_ref())));
    }
    added.map(drop)
}

/// Whether these disks could be taken in as spares; nothing is written.
pub fn check_spares(roster: &Roster, platform: &Platform, paths: &[PathBuf], force: bool) -> Result<(), NewSpareError> {
    roster.check_changeable()?;
    let new = openable_spares(roster, platform, paths, force)?;
    Ok(roster.check_update(|config| config.spares.extend(new.iter().map(NewSpare::line)))?)
}

/// Locks them, and writes nothing.
fn openable_spares(
    roster: &Roster,
    platform: &Platform,
    paths: &[PathBuf],
    force: bool,
) -> Result<Vec<NewSpare>, NewSpareError> {
    let config = roster.config();
    if config.spares.len() + paths.len() > SPARES_MAX {
        return Err(NewSpareError::TooMany);
    }
    let data = config.vdevs_present().filter(|vdev| vdev.class == VdevClass::Data);
    let needed = data.map(|vdev| vdev.data_bytes + 2 * LABEL_BYTES).min().unwrap_or(0);
    let mut new: Vec<NewSpare> = Vec::new();
    for path in paths {
        check_not_ours(&config, path)?;
        new.push(new_spare(platform, path, needed, force).map_err(|error| error.seen_from(&config))?);
    }
    Ok(new)
}

/// A path that the pool has already. The disk could not be opened, and nobody would know why.
fn check_not_ours(config: &PoolConfig, path: &Path) -> Result<(), NewSpareError> {
    let legs = config.vdevs_present().flat_map(|vdev| &vdev.legs).map(|leg| &leg.path);
    let all = legs.chain(config.spares.iter().map(|spare| &spare.path));
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut all = all.filter(|known| *known == path || real(known) == real(path));
    if all.next().is_some() { Err(NewSpareError::Ours { path: path.to_owned() }) } else { Ok(()) }
}
