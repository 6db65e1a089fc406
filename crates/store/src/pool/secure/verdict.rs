//! What comes of one block: it is read from each leg that is to keep it, and given to those that lack it.

use bytes::Bytes;
use tally_base::{DatasetId, SECTOR, Txg, VdevGuid};
use tally_disk::aside;
use tally_members::vdev::{Secured, Vdev};

use super::super::Pool;
use super::{LostBlock, SecureError, Securing, online};
use crate::block::parts::{Part, parts};
use crate::bp::BlockPtr;
use crate::key::Key;

/// A vdev whose blocks are made sure of.
pub(super) struct Subject<'a> {
    pub(super) vdev: &'a Vdev,
    pub(super) keepers: Keepers<'a>,
}

/// Legs that are to have every block right.
pub(super) enum Keepers<'a> {
    These(&'a [VdevGuid]),
    /// One that joins, and lacks all that is looked at.
    Joining(VdevGuid),
    /// Whichever count at that moment.
    Online,
}

impl Subject<'_> {
    pub(super) fn keepers(&self) -> Vec<VdevGuid> {
        match self.keepers {
            Keepers::These(guids) => guids.to_vec(),
            Keepers::Joining(leg) => vec![leg],
            Keepers::Online => online(self.vdev),
        }
    }
}

/// What has come of one block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    Lost { unread: bool },
}

impl Pool {
    /// Gives a block to the legs that count, where they lack it and any other has it right. Whether it may be readable now.
    pub(super) fn heals(&self, bp: &BlockPtr) -> bool {
        let Some(parts) = parts(&self.io.devs, bp).ok().filter(|_| !bp.is_given_up()) else { return false };
        let is_healed = |part: &Part| {
            let mut vdevs = self.roster.data_vdevs();
            let Some(vdev) = vdevs.find(|vdev| vdev.index() == part.dva.vdev) else { return false };
            let subject = Subject { vdev, keepers: Keepers::Online };
            let secured = self.secure_part(&subject, part, bp.written);
            matches!(secured, Ok(Secured::Sound | Secured::Given | Secured::Repaired))
        };
        // All pieces of a block, or one copy of it.
        if bp.in_pieces { parts.iter().all(is_healed) } else { parts.iter().any(is_healed) }
    }

    /// Sees to it that these legs have a part of a block that was `written` in this group. A leg that counts, is given it and fails before that is
    /// durable, has missed the group.
    fn secure_part(&self, subject: &Subject<'_>, part: &Part, written: Txg) -> Result<Secured, SecureError> {
        let vdev = subject.vdev;
        let (counted, offset, length) = (online(vdev), part.dva.offset, part.dva.sectors as usize * SECTOR);
        let is_right = |bytes: &[u8]| part.is_right(bytes);
        let secured = match subject.keepers {
            Keepers::Joining(leg) => vdev.secure_missed(offset, length, &is_right, leg),
            Keepers::These(_) | Keepers::Online => vdev.secure(offset, length, &is_right, &subject.keepers()),
        };
        // Where legs that join alone lacked it the others were given nothing. Where it failed, all that were given it have refused it.
        let is_given = !matches!(secured, Ok(Secured::Sound | Secured::Given));
        self.roster.note_given(vdev, &counted, written, is_given)?;
        Ok(secured?)
    }
}

impl Securing<'_> {
    /// A block is right wherever it is to be.
    pub(super) fn note_right(&mut self, bp: &BlockPtr) -> Result<(), SecureError> {
        self.pool.io.note_repaired(bp);
        self.note_checked(bp.dva.bytes())
    }

    pub(super) fn note_checked(&mut self, bytes: u64) -> Result<(), SecureError> {
        self.report.checked_bytes += bytes;
        if (self.progress)(self.report.checked_bytes) { Ok(()) } else { Err(SecureError::Stopped) }
    }

    /// Whether it is lost, and was counted.
    pub(super) fn block_of(&mut self, id: DatasetId, bp: &BlockPtr, key: Option<Key>) -> Result<bool, SecureError> {
        let Verdict::Lost { unread } = self.block(bp)? else { return Ok(false) };
        let is_named = self.is_named(id, bp, key);
        if is_named {
            self.pool.io.note_unrepaired(bp);
            let content = key.map(|key| self.content_of(&key));
            self.note_lost(unread, LostBlock::of(id, content, bp));
        }
        Ok(is_named)
    }

    /// Whether the newest tree has the block still. Content that was replaced since its pointer was read is nobody's loss; a
    /// node is, as what hung below it was not looked at.
    pub(super) fn is_named(&self, id: DatasetId, bp: &BlockPtr, key: Option<Key>) -> bool {
        let Some(dataset) = self.pool.dataset(id) else { return false };
        let Some(key) = key else { return true };
        let newest = dataset.root().tree.get(&self.pool.io, &key);
        let block = |value: Option<Bytes>| value.and_then(|value| self.pool.schema.block(&key, &value));
        newest.map_or(true, |value| block(value).is_some_and(|newest| newest.dva == bp.dva))
    }

    pub(super) fn content_of(&self, key: &Key) -> (u64, u64) {
        let (object, offset) = self.pool.schema.content_of(key);
        (object.0, offset)
    }

    pub(super) fn block(&mut self, bp: &BlockPtr) -> Result<Verdict, SecureError> {
        // Nobody reads it any more, whatever a device gives.
        if bp.is_given_up() {
            return Ok(Verdict::Kept);
        }
        // A pointer that leads nowhere keeps nobody, and a map that no leg has is lost wherever it lies; but one that a device refuses may be
        // read another day, and leads on to pieces.
        let parts = match aside(|| parts(&self.pool.io.devs, bp)) {
            Ok(parts) => parts,
            Err(error) => return Ok(Verdict::Lost { unread: error.is_of_device() }),
        };
        let mut verdict = Verdict::Kept;
        let (subjects, mut looked_at) = (self.subjects, 0);
        for part in &parts {
            let Some(subject) = subjects.iter().find(|subject| subject.vdev.index() == part.dva.vdev) else { continue };
            looked_at += 1;
            if let Verdict::Lost { unread } = self.part(subject, part, bp.written)?
                && !self.restore(subject, part, &parts, bp.written)?
            {
                let before = verdict == Verdict::Lost { unread: true };
                verdict = Verdict::Lost { unread: unread || before };
            }
        }
        if verdict == Verdict::Kept && looked_at == parts.len() {
            self.pool.io.note_repaired(bp);
        }
        Ok(verdict)
    }

    /// Gives a range that no leg of its vdev has right what the block's other copy says (rules S4): to whoever is to have it, and where only a leg that joins is, to those
    /// that count, too. Whether those that are to have it do.
    fn restore(
        &mut self,
        subject: &Subject<'_>,
        part: &Part,
        parts: &[Part],
        written: Txg,
    ) -> Result<bool, SecureError> {
        let read = || parts.iter().find_map(|other| other.read_for(part, &self.pool.io.devs));
        let Some(bytes) = aside(read) else { return Ok(false) };
        let (counted, keepers) = (online(subject.vdev), subject.keepers());
        let restored = subject.vdev.restore(part.dva.offset, &bytes, &keepers)?;
        let only_join = !keepers.iter().any(|leg| counted.contains(leg));
        let is_mended = !only_join || subject.vdev.restore(part.dva.offset, &bytes, &counted)?;
        self.pool.roster.note_given(subject.vdev, &counted, written, true)?;
        self.note_given(restored && is_mended, bytes.len());
        Ok(restored)
    }

    fn note_given(&mut self, is_given: bool, length: usize) {
        if is_given {
            self.report.repaired_count += 1;
            self.report.repaired_bytes += length as u64;
        }
    }

    fn part(&mut self, subject: &Subject<'_>, part: &Part, written: Txg) -> Result<Verdict, SecureError> {
        let length = part.dva.sectors as usize * SECTOR;
        let secured = self.pool.secure_part(subject, part, written)?;
        // What a joining leg was brought, and has lost, is none that it lacks.
        let is_lost = secured == Secured::Given && !matches!(subject.keepers, Keepers::Joining(_));
        self.note_given(is_lost || secured == Secured::Repaired, length);
        self.note_checked(length as u64)?;
        Ok(match secured {
            Secured::Sound | Secured::Given | Secured::Repaired => Verdict::Kept,
            Secured::Lost { unread } => Verdict::Lost { unread },
        })
    }
}
