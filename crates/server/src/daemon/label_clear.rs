//! `tally pool labelclear`: a disk that is no pool's any more forgets that it was one's.

use std::io;
use std::path::Path;

use tally_disk::{Access, Disk};
use tally_members::discover;
use tally_members::label::{self, PoolState, Unreadable};

use super::error::LabelClearError;
use super::pools::Pools;
use super::served::ServedPool;

impl Pools {
    /// Erases the labels of a disk; with `dry_run` only says what that would do. Gives what was done.
    pub fn clear_label(&self, path: &Path, force: bool, dry_run: bool) -> Result<String, LabelClearError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => LabelClearError::InUse { path: path.into() },
            _ => LabelClearError::Io { path: path.into(), error },
        };
        let opener = &self.platform.opener;
        // Without its lock, which a pool of ours would have.
        let seen = opener.open(path, Access::ReadOnly).map_err(failed)?;
        let whose = self.may_forget(path, seen.as_ref(), force)?;
        drop(seen);
        if dry_run {
            return Ok(format!("would erase the label of {}: {whose}", path.display()));
        }
        let disk = opener.open(path, Access::Exclusive).map_err(failed)?;
        // What was read before the lock decides nothing (rules F24).
        let whose = self.may_forget(path, disk.as_ref(), force)?;
        if force { label::wipe(disk.as_ref()) } else { label::erase(disk.as_ref()) }.map_err(failed)?;
        tracing::info!(path = %path.display(), "a label was erased: {whose}");
        Ok(format!("erased the label of {}: {whose}", path.display()))
    }

    /// Whose label it is, if it may go.
    fn may_forget(&self, path: &Path, disk: &dyn Disk, force: bool) -> Result<String, LabelClearError> {
        let path = path.to_owned();
        let label = match label::read(disk) {
            Ok(label) => label,
            Err(Unreadable::NoLabel) => return Err(LabelClearError::None { path }),
            Err(why) if force => return Ok(why.to_string()),
            Err(why) => return Err(LabelClearError::Unknown { path, why: why.to_string() }),
        };
        let config = &label.config;
        if discover::leg_inside(disk, &label).is_some() {
            return Err(LabelClearError::Around { path });
        }
        let imported = self.held().into_iter().find(|served| served.guid() == config.pool);
        let is_member = |served: &ServedPool| {
            let config = served.filer.pool().roster.config();
            config.leg(label.leg).is_some() || config.spare(label.leg).is_some()
        };
        if imported.as_deref().is_some_and(is_member) {
            return Err(LabelClearError::Imported { path, pool: config.name.clone() });
        }
        let whose = format!("it was a disk of pool '{}' ({})", config.name, config.pool);
        let how = match config.state {
            _ if force => return Ok(whose),
            PoolState::Destroyed => return Ok(whose),
            _ if imported.is_some() => return Ok(whose),
            PoolState::Exported => "was exported".to_owned(),
            PoolState::Active => format!("was last in use on {}", config.host.name),
        };
        Err(LabelClearError::Importable { path, pool: config.name.clone(), guid: config.pool.to_string(), how })
    }
}
