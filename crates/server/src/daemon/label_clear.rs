//! `tally pool labelclear`: a disk that is no pool's any more forgets that it was one's.

use std::io;
use std::path::{Path, PathBuf};

use tally_disk::{Access, Disk};
use tally_members::discover;
use tally_members::label::{self, PoolState, Unreadable};

use super::pools::{Pools, ServedPool};

/// Why a label was not erased.
#[derive(Debug, thiserror::Error)]
pub enum LabelClearError {
    /// It is in use here.
    #[error(
        "{} is a disk of pool '{pool}', which is imported; take it out with `tally pool detach {pool} {}`, or export the pool first",
        path.display(), path.display()
    )]
    Imported {
        /// The disk.
        path: PathBuf,
        /// Its pool.
        pool: String,
    },
    /// Somebody may want its pool.
    #[error(
        "{} is a disk of pool '{pool}' ({guid}), which {how}: it can be imported, and will lack this disk. \
         If nobody wants it, -f erases the label all the same",
        path.display()
    )]
    Importable {
        /// The disk.
        path: PathBuf,
        /// Its pool.
        pool: String,
        /// Its pool's guid.
        guid: String,
        /// What is known of the pool.
        how: String,
    },
    /// It has one of its partitions', at its end.
    #[error(
        "{} ends with a disk of a pool, and is larger: that is a partition of it, or what was made of one. Name that, and not the whole \
         disk",
        path.display()
    )]
    Around {
        /// The disk.
        path: PathBuf,
    },
    /// There is none.
    #[error("{} has no label that could be erased", path.display())]
    None {
        /// The disk.
        path: PathBuf,
    },
    /// It is somebody's that this program does not know.
    #[error("{}: {why}; -f erases the label all the same", path.display())]
    Unknown {
        /// The disk.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody took it meanwhile, or has it open.
    #[error("{} is in use by another process: whoever has it open must let go of it first", path.display())]
    InUse {
        /// The disk.
        path: PathBuf,
    },
    /// The disk refuses.
    #[error("{}: {error}. See to it and do this again: part of the label may be erased", path.display())]
    Io {
        /// The disk.
        path: PathBuf,
        /// How.
        error: io::Error,
    },
}

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
