//! What a request asks for: to look, or to change something. Every request has its class here and nowhere else, so that a
//! new one cannot be forgotten.

use rustix::process::Uid;

use super::message::Request;

/// What somebody may do, or has to be allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Is told what the daemon knows anyway.
    Look,
    /// Changes something, or has a daemon that may be root's open what the asker names.
    Command,
}

impl Access {
    /// What the user of a peer may do: root and the daemon's own user everything. Others come by the socket's group alone.
    #[must_use]
    pub fn of(peer: Uid, own: Uid) -> Self {
        if peer.is_root() || peer == own { Self::Command } else { Self::Look }
    }
}

impl Request {
    /// What has to be allowed to whoever asks this.
    #[must_use]
    pub const fn access(&self) -> Access {
        match self {
            Self::PoolStatus { .. }
            | Self::PoolGet { .. }
            | Self::PoolHistory { .. }
            | Self::Events { .. }
            | Self::DatasetList { .. }
            | Self::DatasetGet { .. }
            | Self::StatOps
            | Self::Record { .. }
            | Self::Exports
            | Self::Holdings { .. }
            | Self::Mounts
            | Self::Smb
            | Self::Server
            | Self::Observe => Access::Look,
            // Reads disks and folders that the asker names, with the rights of the daemon.
            Self::PoolFind { .. }
            | Self::PoolTry { .. }
            | Self::PoolCreate { .. }
            | Self::PoolImport { .. }
            | Self::PoolRewind { .. }
            | Self::PoolExport { .. }
            | Self::PoolDestroy { .. }
            | Self::PoolForget { .. }
            | Self::PoolSet { .. }
            | Self::PoolUpgrade { .. }
            | Self::PoolAttach { .. }
            | Self::PoolAdd { .. }
            | Self::PoolRemove { .. }
            | Self::PoolDetach { .. }
            | Self::PoolReplace { .. }
            | Self::PoolOffline { .. }
            | Self::PoolOnline { .. }
            | Self::PoolClear { .. }
            | Self::PoolLabelClear { .. }
            | Self::PoolReopen { .. }
            | Self::PoolSync { .. }
            | Self::PoolScrub { .. }
            | Self::DatasetCreate { .. }
            | Self::DatasetDestroy { .. }
            | Self::DatasetSet { .. }
            | Self::DatasetInherit { .. }
            | Self::DatasetRename { .. }
            | Self::Mount { .. }
            | Self::ClientEvict { .. } => Access::Command,
        }
    }
}
