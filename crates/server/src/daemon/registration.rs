//! Being found through rpcbind, for as long as the daemon serves.

use std::net::SocketAddr;

use tally_nfs::rpcbind;

/// NFS, MOUNT and the lock manager are registered. Dropping it takes that back.
#[derive(Debug)]
pub(super) struct Registration {
    rpcbind: SocketAddr,
    port: u16,
}

impl Registration {
    /// Registers with the rpcbind at this address. Without it clients can still name the port, so a failure is a
    /// warning.
    pub(super) fn try_new(rpcbind: SocketAddr, port: u16) -> Option<Self> {
        match rpcbind::register(rpcbind, port) {
            Ok(other_locks) => {
                tracing::info!(port, "NFS and MOUNT are registered with rpcbind");
                if let Some(other) = other_locks {
                    tracing::warn!(
                        other,
                        "rpcbind has the lock manager of another: this machine mounts NFS itself, or a daemon was killed that \
                         listened there. Clients that mount without nolock may hang at their first lock"
                    );
                }
                Some(Self { rpcbind, port })
            }
            Err(error) => {
                tracing::warn!("not registered: {error}");
                None
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Err(error) = rpcbind::unregister(self.rpcbind, self.port) {
            tracing::warn!("rpcbind still says that NFS is here: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
