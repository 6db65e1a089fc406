//! Files that have no name any more, and that somebody has open: they are what they were until nobody has (rules V28).
//!
//! **The problem.** A file whose last name goes is freed in the group that removes it. But a program that has it open reads on, on any local disk; and
//! what it has written since, and what of its group the log alone has, has to be found behind a crash as for any other file, until whoever had it open has
//! had the time to claim it again.
//!
//! **The idea.** It does not lose its last name, but gets another one: in a directory of the dataset that nobody is shown, under its own number. So it is an
//! ordinary file for all that handles files (records, folds, replay, quotas, scrubs), and to free it is an ordinary removal. Whoever asks for its attributes is told
//! that it has no link.
//!
//! ```text
//!   REMOVE, or RENAME over it ─▶ somebody has it open? no ─▶ it goes, as ever
//!                                     │ yes
//!                                     ▼
//!   held: an entry in HELD ─▶ the last close, or nobody has claimed it behind an import ─▶ it goes
//! ```
//!
//! The directory is made when it is needed first. It has a number that is never drawn, no name anywhere, and itself for an entry, as a record that makes
//! an object has to name it.

use std::sync::atomic::Ordering;

use smallvec::smallvec;
use tally_base::ObjectId;
use tally_store::key::{Class, Key};
use tally_store::pool::SpaceClass;
use tally_vfs::{FIRST_ID, FileKind, FsError};

use crate::admission::{Ask, Refusal};
use crate::entry::decode_entry;
use crate::filesystem::Filesystem;
use crate::inode::{DOT_ENTRIES, HELD, Inode};
use crate::object::Locked;
use crate::ops::after;
use crate::record::{InodeAfter, Record, RecordKind, SizeRule};

/// Its own entry in itself.
const SELF: ObjectId = ObjectId(FIRST_ID);

/// Entries that are looked at at once.
const ENTRIES_MAX: usize = 256;

/// Under which name a file is held.
fn name_of(id: ObjectId) -> String {
    format!("{:016x}", id.0)
}

impl Filesystem {
    /// Whether somebody has a file open. Nobody opens one while its lock is held.
    pub(crate) fn is_open(&self, id: ObjectId) -> bool {
        self.claims.get().is_some_and(|claims| claims.is_open(id))
    }

    /// The same, or had it open before a restart and may claim it again.
    pub(crate) fn may_be_open(&self, id: ObjectId) -> bool {
        self.holds_all() || self.is_open(id)
    }

    /// Behind an import, of a pool whose list has clients which had something open: what loses its last name is held until [`Self::let_go_of_held`]. Or not.
    pub(crate) fn hold_all(&self, holds: bool) {
        self.holds_all.store(holds, Ordering::Relaxed);
    }

    pub(crate) fn holds_all(&self) -> bool {
        self.holds_all.load(Ordering::Relaxed)
    }

    /// Whether the last name of a file is about to go which somebody has open. That is noted, so that its last close is told; the caller has its lock, and
    /// carries the removal out. Should it fail all the same, that close frees nothing: it looks whether the file is held.
    pub(crate) fn note_to_be_held(&self, id: ObjectId, inode: &Inode) -> bool {
        let is_last = inode.nlink == 1 && inode.kind == FileKind::File;
        is_last && (self.claims.get().is_some_and(|claims| claims.note_removed(id)) || self.holds_all())
    }

    /// Sees to it that there is the directory. A file is about to be held, which one record does; this is another one.
    pub(crate) fn make_room_to_hold(&self) -> Result<(), Refusal> {
        let is_there = self.see(HELD, |sight| sight.inode()).is_ok_and(|inode| inode.is_some());
        if is_there {
            return Ok(());
        }
        let admitted = self.admit(&Ask::metadata(SpaceClass::Remove))?;
        let Ok(mut locked) = self.lock(&[HELD]) else { return Ok(()) };
        if locked.state(HELD).inode.is_some() {
            return Ok(());
        }
        let now = self.now();
        let mut directory = Inode::root_directory(self.draw_generation(), (0, 0), now);
        directory.mode = 0o700;
        directory.gain_entry(b".", false);
        let mut record = Record::default();
        self.put_entry(&mut record, HELD, SELF, b".", HELD, directory.kind);
        record.inodes = smallvec![after(HELD, &directory, SizeRule::Exact)];
        // What holds a file rests on this, and whoever waits for that waits for both.
        let _wait = self.carry_out(admitted, &mut locked, RecordKind::Mkdir, record);
        Ok(())
    }

    /// Adds to a record that a file whose last name goes is held. The caller has the locks of both.
    pub(crate) fn hold(
        &self,
        locked: &Locked,
        record: &mut Record,
        id: ObjectId,
        inode: &Inode,
    ) -> Result<(), FsError> {
        let mut directory = self.held_directory(locked)?;
        let (name, entry, now) = (name_of(id), self.draw_id(), self.now());
        directory.modify(now);
        directory.gain_entry(name.as_bytes(), false);
        let mut held = inode.clone();
        held.touch(now);
        held.gain_name(HELD, entry);
        self.put_entry(record, HELD, entry, name.as_bytes(), id, inode.kind);
        record.inodes.push(after(HELD, &directory, SizeRule::Exact));
        record.inodes.push(after(id, &held, SizeRule::Keep));
        Ok(())
    }

    fn held_directory(&self, locked: &Locked) -> Result<Inode, FsError> {
        locked.state(HELD).inode.clone().ok_or_else(|| self.broken(&"the directory of held files is gone"))
    }

    /// Frees a file that is held and that nobody has open. Nobody waits for it: what is refused now is left to [`Self::let_go_of_held`].
    pub(crate) fn let_go(&self, id: ObjectId) {
        let Ok(admitted) = self.admit(&Ask::metadata(SpaceClass::Remove)) else { return };
        let Ok(mut locked) = self.lock(&[HELD, id]) else { return };
        let Some(inode) = locked.state(id).inode.clone().filter(Inode::is_held) else { return };
        let Ok(mut directory) = self.held_directory(&locked) else { return };
        // By its handle it may have been opened again; or others had it open before a restart, and may claim it.
        if self.may_be_open(id) {
            return;
        }
        let name = name_of(id);
        directory.modify(self.now());
        directory.lose_entry(name.as_bytes(), false);
        let mut record = Record::default();
        self.drop_entry(&mut record, HELD, inode.entry, name.as_bytes());
        let gone = InodeAfter { object: id, inode: None, size: SizeRule::Keep };
        record.inodes = smallvec![after(HELD, &directory, SizeRule::Exact), gone];
        let _wait = self.carry_out(admitted, &mut locked, RecordKind::Remove, record);
    }

    /// Frees all held files that nobody has open: those of a life before, once nobody may claim them again, and what could not be freed when it was closed.
    /// Gives how many stay.
    pub fn let_go_of_held(&self) -> usize {
        self.hold_all(false);
        // What cannot be read may be some.
        let Ok(held) = self.held() else { return 1 };
        for id in &held {
            if !self.is_open(*id) {
                self.let_go(*id);
            }
        }
        if held.is_empty() { 0 } else { self.held().map_or(1, |left| left.len()) }
    }

    /// How many files are held, as their directory says. Where nothing was open since the import, and nobody may claim anything, no disk is asked: whatever there
    /// is goes.
    #[must_use]
    pub fn held_count(&self) -> u64 {
        if self.claims.get().is_none() && !self.holds_all() {
            return 0;
        }
        let directory = self.see(HELD, |sight| sight.inode()).ok().flatten();
        directory.map_or(0, |directory| directory.size.saturating_sub(DOT_ENTRIES + 1))
    }

    /// All files that are held.
    pub fn held(&self) -> Result<Vec<ObjectId>, FsError> {
        let (mut from, mut held) = (SELF.0 + 1, Vec::new());
        loop {
            let to = Key::new(Class::DirEntry, HELD.0, u64::MAX, 0);
            let found =
                self.see(HELD, |sight| sight.range(Key::new(Class::DirEntry, HELD.0, from, 0), to, ENTRIES_MAX));
            let found = found?;
            held.extend(found.iter().filter_map(|(_, value)| decode_entry(value)).map(|(object, _)| object));
            match found.last() {
                Some((last, _)) if found.len() == ENTRIES_MAX => from = last.a + 1,
                _ => return Ok(held),
            }
        }
    }
}
