//! One at a time for each file: whoever gives a host a range of it, or takes one back (N3).
//!
//! A host's own LOCK, CANCEL and UNLOCK come beside the calls to it. Each of these is two steps, one in the table of claims and one in who waits, and with another one between them a host is told that it has a range which
//! is another's by then. The table's own lock would do, but stands below the file system; and one for all files would have who locks in one pool wait for the disks of another.
//!
//! *Order.* It is taken before the lock of the hosts, and nobody who has it takes another one: what is free by what he did he tells others behind it.

use std::collections::HashSet;

use parking_lot::{Condvar, Mutex};
use tally_base::blocking;

use crate::v4::state::FileId;

/// For which files somebody is at it.
#[derive(Default)]
pub(super) struct Singly {
    files: Mutex<HashSet<FileId>>,
    is_over: Condvar,
}

/// Nobody else is, of this file.
pub(super) struct Alone<'a> {
    among: &'a Singly,
    file: FileId,
}

impl Singly {
    /// Waits for whoever is at it.
    pub(super) fn begin(&self, file: FileId) -> Alone<'_> {
        let mut files = self.files.lock();
        while !files.insert(file) {
            blocking(|| self.is_over.wait(&mut files));
        }
        Alone { among: self, file }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.among.files.lock().remove(&self.file);
        self.among.is_over.notify_all();
    }
}
