//! Being found at port 111, for as long as the daemon serves: through this machine's rpcbind, or in its place.
//!
//! It is looked again and again how that stands. An rpcbind that was started anew has forgotten us and is told again, one that
//! comes up late is told then; and another NFS server that has taken our place there, as this machine's own does when somebody starts it, is
//! named by `tally pool status` before the minute is over.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use parking_lot::Mutex;
use tally_nfs::rpcbind::{self, Portmapper, RpcbindError, Transport};

use super::ticker::Ticker;
use crate::config::Rpcbind;
use crate::control::server::PortmapperReport;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(20);

/// What every rpcbind listens on besides, and systemd for it: before it finds that port 111 is taken. It stays when that is so.
pub(super) const RPCBIND_SOCKET: &str = "/run/rpcbind.sock";

/// How it stood at the last look.
pub(super) type Standing = Arc<Mutex<PortmapperReport>>;

/// What it goes by.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// What was configured.
    pub(super) setting: Rpcbind,
    /// Whether others than this machine can reach us.
    pub(super) is_reachable: bool,
    /// Where rpcbind would be.
    pub(super) rpcbind: SocketAddr,
    /// Where it listens for this machine alone.
    pub(super) socket: PathBuf,
    /// Addresses that are listened on.
    pub(super) addresses: Vec<IpAddr>,
    /// The port of NFS.
    pub(super) port: u16,
    pub(super) nfs4: bool,
    /// By what hosts tell it that they have started anew, where it locks for NFSv3.
    pub(super) heard_by: Vec<Transport>,
}

/// It is looked after. Dropping it takes back what was registered.
pub(super) struct Registration {
    _looks: Ticker,
}

impl Registration {
    /// Registers or answers, as the terms say, and sees to it from then on. Clients can always name the port, so that nothing comes of
    /// it is a warning.
    pub(super) fn start(terms: Terms, standing: &Standing) -> io::Result<Option<Self>> {
        standing.lock().setting = terms.setting.to_string();
        // Whom nobody else can reach is not to be found by others, unless that is asked for.
        if terms.setting == Rpcbind::Off || terms.setting == Rpcbind::Auto && !terms.is_reachable {
            return Ok(None);
        }
        let (mut found, standing) = (Found { terms, at: At::Nowhere, has_rpcbind: false }, Arc::clone(standing));
        found.look(&standing);
        Ok(Some(Self { _looks: Ticker::start("rpcbind", LOOK, move || found.look(&standing))? }))
    }
}

/// By whom clients are told of us.
enum At {
    Nowhere,
    Rpcbind,
    /// We answer them.
    Here {
        _portmapper: Portmapper,
        /// What stood at rpcbind's own socket when that began.
        before: Option<Socket>,
    },
}

/// A socket is made anew by each start: its number, and when that was.
type Socket = (u64, i64, i64);

fn socket_at(path: &Path) -> Option<Socket> {
    fs::metadata(path).ok().map(|socket| (socket.ino(), socket.ctime(), socket.ctime_nsec()))
}

struct Found {
    terms: Terms,
    at: At,
    /// This machine has an rpcbind. Where it is away it is started anew, and its place is nobody's meanwhile.
    has_rpcbind: bool,
}

impl Found {
    /// Sees to it once more, and tells what has changed.
    fn look(&mut self, standing: &Standing) {
        let trouble = self.see_to_it();
        let mut standing = standing.lock();
        let is_found = !matches!(self.at, At::Nowhere);
        if let Some(trouble) = trouble.as_ref().filter(|trouble| standing.trouble.as_ref() != Some(trouble)) {
            tracing::warn!("{trouble}");
        }
        if is_found && !standing.is_found {
            let port = self.terms.port;
            match self.at {
                At::Here { .. } => {
                    tracing::info!(port, "this machine has no rpcbind: clients that ask for ports are answered here")
                }
                _ => tracing::info!(port, "NFS and MOUNT are registered with rpcbind"),
            }
        }
        (standing.is_found, standing.trouble) = (is_found, trouble);
    }

    /// Registers, or begins to answer. Gives what is not as it should be.
    fn see_to_it(&mut self) -> Option<String> {
        let (rpcbind, port) = (self.terms.rpcbind, self.terms.port);
        if let At::Here { before, .. } = &self.at {
            return self.who_came_later(*before);
        }
        if self.terms.setting == Rpcbind::Serve {
            return self.answer().err();
        }
        let registered = rpcbind::register(rpcbind, port, &self.terms.heard_by);
        self.has_rpcbind |= !matches!(registered, Err(RpcbindError::Silent { .. }));
        match registered {
            Ok(others) => {
                self.at = At::Rpcbind;
                others.first().map(|other| {
                    format!(
                        "rpcbind has the {} of another, at port {}: this machine mounts NFS itself, or a daemon was \
                         killed that listened there. {}; {}",
                        other.what(),
                        other.port,
                        other.what_comes_of_it(),
                        self.mount_line()
                    )
                })
            }
            Err(RpcbindError::Silent { .. }) if self.terms.setting == Rpcbind::Auto && !self.has_rpcbind => {
                self.at = At::Nowhere;
                self.answer().err()
            }
            Err(error) => {
                self.at = At::Nowhere;
                Some(format!("not registered: {error}; {}", self.mount_line()))
            }
        }
    }

    /// An rpcbind that was to be started since, and found its place taken. Clients find us meanwhile, so that the place is kept until an
    /// administrator has time for it.
    fn who_came_later(&self, before: Option<Socket>) -> Option<String> {
        let now = socket_at(&self.terms.socket);
        let is_meant = self.terms.setting == Rpcbind::Auto && now.is_some() && now != before;
        is_meant.then(|| {
            "an rpcbind was started since, and cannot run: port 111 is answered here. To have it, \
             `systemctl stop tally; systemctl start rpcbind.socket; systemctl start tally`, which clients wait for; at the next \
             start of the machine it is first by itself"
                .into()
        })
    }

    fn answer(&mut self) -> Result<(), String> {
        let Terms { rpcbind, addresses, port, nfs4, heard_by, .. } = &self.terms;
        let before = socket_at(&self.terms.socket);
        match Portmapper::start(addresses, rpcbind.port(), *port, (*nfs4, heard_by)) {
            Ok(portmapper) => {
                self.at = At::Here { _portmapper: portmapper, before };
                Ok(())
            }
            Err(error) => {
                Err(format!("clients of NFSv3 do not find the port by themselves: {error}; {}", self.mount_line()))
            }
        }
    }

    /// What needs none of it.
    fn mount_line(&self) -> String {
        let port = self.terms.port;
        format!(
            "this mount asks nobody: mount -t nfs -o vers=3,proto=tcp,port={port},mountport={port},mountproto=tcp,nolock HOST:/PATH /mnt"
        )
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        if matches!(self.at, At::Rpcbind)
            && let Err(error) = rpcbind::unregister(self.terms.rpcbind, self.terms.port, &self.terms.heard_by)
        {
            tracing::warn!("rpcbind still says that NFS is here: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
