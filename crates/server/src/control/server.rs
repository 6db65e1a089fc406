//! What a daemon says of itself, and of how clients find it. Like the other reports this is also what `--json` prints.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Of its program.
    pub version: String,
    /// Addresses that it listens on.
    pub addresses: Vec<IpAddr>,
    /// Port of NFS and MOUNT.
    pub port: u16,
    /// Whether version 4 is spoken.
    pub nfs4: bool,
    /// Whether a rule lets other machines in.
    pub exports_to_others: bool,
    /// Paths that are exported.
    pub exports: u64,
    /// Where clients look for a port that their mount does not name.
    pub portmapper: PortmapperReport,
}

/// How clients of NFSv3 find the port, as it was at the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortmapperReport {
    /// `rpcbind` of the configuration.
    pub setting: String,
    /// Rpcbind tells them, or we do.
    pub is_found: bool,
    /// What is not as it should be, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}
