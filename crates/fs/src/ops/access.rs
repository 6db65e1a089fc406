//! Access times, where the property `atime` asks for them.
//!
//! They are kept as `relatime` has it elsewhere: one that is not older than the last change stays for a day, so that
//! reading a file again and again changes nothing. A new one is in memory at once and on disk with the next transaction
//! group. It is never logged and no reply waits for it: after a crash a file may have been read without a trace. Where
//! there is no room for a change, or none is allowed, the access goes unnoticed (rules P8).

use std::time::Duration;

use smallvec::smallvec;
use tally_base::{FileTime, Time};
use tally_store::pool::SpaceClass;
use tally_vfs::Attr;

use super::after;
use crate::admission::Ask;
use crate::filesystem::Filesystem;
use crate::record::{Record, SizeRule};

/// How long an access time stays although the object is read.
const STAYS: Duration = Duration::from_secs(24 * 60 * 60);

impl Filesystem {
    /// The object with these attributes was read.
    pub(crate) fn note_access(&self, attr: &Attr) {
        if !self.dataset.effective().atime || !is_due(attr, self.pool.now()) {
            return;
        }
        let ask = Ask { records: smallvec![], ..Ask::metadata(SpaceClass::Write) };
        let Ok(admitted) = self.admit(&ask) else { return };
        let id = attr.object.id;
        let Ok(mut locked) = self.lock(&[id]) else { return };
        let Some(mut inode) = locked.state(id).inode.clone() else { return };
        // An access is no change: its time need not be one that nothing else has.
        let now = self.pool.now();
        // Another reader, or somebody with the same id, may have been here between the locks.
        if inode.generation != attr.object.generation || !is_due(&inode.attr(id), now) {
            return;
        }
        inode.atime = now.into();
        let record = Record { inodes: smallvec![after(id, &inode, SizeRule::Exact)], ..Record::default() };
        self.with_hold(admitted, |txg| self.apply(&mut locked, txg, record, false));
    }
}

/// Whether an access at `now` is worth a change.
fn is_due(attr: &Attr, now: Time) -> bool {
    let is_old = FileTime::from(now).0.saturating_sub(attr.atime.0) >= STAYS.as_nanos() as i64;
    is_old || attr.atime <= attr.mtime || attr.atime <= attr.ctime.into()
}
