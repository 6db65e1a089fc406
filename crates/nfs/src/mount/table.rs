//! Who has mounted what, as far as they said.

use std::collections::BTreeSet;
use std::net::IpAddr;

use parking_lot::Mutex;

/// Most lines that are kept; further mounts work and are not listed.
const LINES_MAX: usize = 1024;

/// Mounts in memory.
#[derive(Debug, Default)]
pub struct MountTable {
    lines: Mutex<BTreeSet<(IpAddr, String)>>,
}

impl MountTable {
    /// A client has mounted `path`.
    pub fn add(&self, client: IpAddr, path: String) {
        let mut lines = self.lines.lock();
        if lines.len() < LINES_MAX {
            lines.insert((client, path));
        }
    }

    /// A client has unmounted `path`.
    pub fn remove(&self, client: IpAddr, path: &str) {
        self.lines.lock().remove(&(client, path.to_owned()));
    }

    /// A client has unmounted everything.
    pub fn remove_all(&self, client: IpAddr) {
        self.lines.lock().retain(|(other, _)| *other != client);
    }

    /// All lines.
    #[must_use]
    pub fn list(&self) -> Vec<(IpAddr, String)> {
        self.lines.lock().iter().cloned().collect()
    }
}
