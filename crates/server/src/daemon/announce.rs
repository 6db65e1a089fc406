//! What `tally serve` tells the person who started it: how to mount what is served.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// At most so many exports are spelled out.
const EXPORTS_SHOWN: usize = 4;

/// Where clients of version 4 look for a server.
const PORT: u16 = 2049;

/// What is served, where.
pub struct Announcement<'a> {
    /// Exported paths: `/tank`.
    pub paths: &'a [String],
    /// Names of the pools that should be there and are not.
    pub absent: &'a [String],
    /// On which addresses.
    pub addresses: &'a [IpAddr],
    /// On which port.
    pub port: u16,
    /// Where the dashboard is, if there is one.
    pub http: Option<SocketAddr>,
    /// Whether the rules and the addresses let other machines in.
    pub other_hosts: bool,
    /// What other machines call this one.
    pub host_name: &'a str,
    /// Whether version 4 is spoken.
    pub nfs4: bool,
}

impl Announcement<'_> {
    /// The text for stdout.
    #[must_use]
    pub fn text(&self) -> String {
        let addresses = self.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" and ");
        let versions = if self.nfs4 { "NFSv4 and NFSv3" } else { "NFSv3" };
        let mut text = format!("Serving {versions} on {addresses}, port {}.\n", self.port);
        for pool in self.absent {
            let _ = writeln!(text, "Pool '{}' is not imported: `tally pool status {}` tells why.", pool, pool);
        }
        if self.paths.is_empty() && self.absent.is_empty() {
            text += "Nothing is exported yet: set sharenfs on a dataset with `tally dataset set`.\n";
        }
        for path in self.paths.iter().take(EXPORTS_SHOWN) {
            text += &self.export(path);
        }
        let more = self.paths.len().saturating_sub(EXPORTS_SHOWN);
        if more > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\nand {more} more: `tally dataset get sharenfs`");
        }
        if let Some(http) = self.http {
            let _ = writeln!(text, "\nDashboard: http://{}:{}/", near(&[http.ip()]), http.port());
        }
        text
    }

    fn export(&self, path: &str) -> String {
        let (port, near) = (self.port, near(self.addresses));
        let mut text = format!("\n{path}\n");
        if self.nfs4 {
            let port = if port == PORT { String::new() } else { format!(",port={port}") };
            let _ = writeln!(text, "  Linux   sudo mount -t nfs -o vers=4.2{port} {near}:{path} /mnt");
        }
        let options = format!("vers=3,proto=tcp,port={port},mountport={port},mountproto=tcp,nolock,hard");
        let label = if self.nfs4 { "NFSv3" } else { "Linux" };
        let _ = writeln!(text, "  {label}   sudo mount -t nfs -o {options} {near}:{path} /mnt");
        let _ = writeln!(text, "  libnfs  nfs-ls 'nfs://{near}{path}?nfsport={port}&mountport={port}'");
        if self.other_hosts {
            let options = format!("vers=3,tcp,port={port},mountport={port},nolocks,hard,resvport");
            let _ = writeln!(text, "  macOS   sudo mount -t nfs -o {options} {}:{path} ~/mnt", self.host_name);
        }
        text
    }
}

/// An address by which this machine reaches itself; in brackets if it is IPv6.
fn near(addresses: &[IpAddr]) -> String {
    let usable = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    match usable.copied() {
        None => Ipv4Addr::LOCALHOST.to_string(),
        Some(IpAddr::V4(address)) if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        Some(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".into(),
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests;
