//! Who has mounted what, as far as they said.

use std::collections::BTreeSet;
use std::net::IpAddr;

use parking_lot::Mutex;

/// Most bytes of paths that are kept; further mounts work and are not listed. Whoever asks gets all of it, stranger or not.
const BYTES_MAX: usize = 32 << 10;
/// Most of them from one client, so that none fills the list alone.
const CLIENT_BYTES_MAX: usize = 4 << 10;
/// What a line costs beside its path.
const LINE_BYTES: usize = 64;

/// Who has mounted what, as clients tell: in memory alone, as nothing rests on it.
#[derive(Debug, Default)]
pub struct MountTable {
    lines: Mutex<BTreeSet<(IpAddr, Vec<u8>)>>,
}

impl MountTable {
    /// A client has mounted `path`.
    pub fn add(&self, client: IpAddr, path: &[u8]) {
        let mut lines = self.lines.lock();
        let (mut bytes, mut of_client) = (cost(path), cost(path));
        for (other, path) in &*lines {
            bytes += cost(path);
            of_client += if *other == client { cost(path) } else { 0 };
        }
        if bytes <= BYTES_MAX && of_client <= CLIENT_BYTES_MAX {
            lines.insert((client, path.to_owned()));
        }
    }

    /// A client has unmounted `path`.
    pub fn remove(&self, client: IpAddr, path: &[u8]) {
        self.lines.lock().remove(&(client, path.to_owned()));
    }

    /// A client has unmounted everything.
    pub fn remove_all(&self, client: IpAddr) {
        self.lines.lock().retain(|(other, _)| *other != client);
    }

    /// All mounts, as address and path; what was mounted before the last start is not among them.
    #[must_use]
    pub fn list(&self) -> Vec<(IpAddr, Vec<u8>)> {
        self.lines.lock().iter().cloned().collect()
    }
}

fn cost(path: &[u8]) -> usize {
    LINE_BYTES + path.len()
}
