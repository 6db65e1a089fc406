//! By what right an operation reads and writes a file: the stateid that it brings, or that one before it has left as the present one.

use std::convert::Infallible;

use tally_vfs::{Access, ClientNumber, FsError, Right, Share};

use super::Compound;
use crate::entry::Target;
use crate::v4::state::{ClientId, FileId, Special, Stateid};
use crate::v4::status::Status;
use crate::v4::way::{self, Refusable};

impl Compound<'_> {
    /// The stateid of what an operation opened, or closed: those behind it may ask for it as the present one.
    pub(in crate::v4) fn note_stateid(&mut self, stateid: Stateid) {
        self.owed.stateids[0] = Some(stateid);
    }

    /// SAVEFH keeps it, too (RFC 8881 §16.2.3.1.2).
    pub(in crate::v4) fn save_stateid(&mut self) {
        self.owed.stateids[1] = self.owed.stateids[0];
    }

    /// RESTOREFH gives it back.
    pub(in crate::v4) fn restore_stateid(&mut self) {
        self.owed.stateids[0] = self.owed.stateids[1];
    }

    /// What a stateid stands for that may be the present one (RFC 8881 §16.2.3.1.2).
    pub(in crate::v4) fn present(&self, asked: Stateid) -> Result<Stateid, Status> {
        match asked.special(self.minor())? {
            Some(Special::Current) => self.owed.stateids[0].ok_or(Status::BadStateid),
            _ => Ok(asked),
        }
    }

    /// By what right an operation with this stateid writes the file, or sets its size.
    pub(in crate::v4) fn right(&self, asked: Stateid, file: &Target) -> Result<Right, Status> {
        self.right_beside(self.owed.stateids[0], asked, file)
    }

    /// The same where this is the present stateid.
    fn right_beside(&self, present: Option<Stateid>, asked: Stateid, file: &Target) -> Result<Right, Status> {
        let asked = match asked.special(self.minor())? {
            // Of a handle that was only looked up the present one is the anonymous one.
            Some(Special::Current) => match present {
                Some(present) => present,
                None => return self.unopened(file),
            },
            Some(Special::Anonymous | Special::ReadBypass) => return self.unopened(file),
            None => asked,
        };
        if self.minor() > 0 && asked.is_of_delegation() {
            return self.delegated(asked, file).map(|delegated| Right::Delegated(ClientNumber(delegated.client.0)));
        }
        let client = self.client();
        let of = FileId::of(&*file.vfs, file.object);
        let holder = self.scene.house.open_of(&asked, self.minor(), client, &of)?;
        if self.minor() == 0 {
            self.word_of(ClientId(holder.client.0)).map_err(|_| Status::BadStateid)?;
        }
        Ok(Right::Open(holder))
    }

    /// By none, as long as nobody may claim an open or a lock again that forbids it, or what he has written and not sent; nor before it is written down that nobody may, as he would behind another crash
    /// (rules V25 and V27).
    pub(in crate::v4) fn unopened(&self, file: &Target) -> Result<Right, Status> {
        if self.scene.house.is_in_grace(&*file.pool) {
            return Err(Status::Grace);
        }
        self.past_claims(file, Right::Unopened).map(|()| Right::Unopened)
    }

    /// The same for reading, where one stateid stands for who would read whatever others deny (RFC 8881 §8.2.3).
    pub(in crate::v4) fn right_to_read(&self, asked: Stateid, file: &Target) -> Result<Right, Status> {
        match asked.special(self.minor())? {
            Some(Special::ReadBypass) => self.past_claims(file, Right::Mode).map(|()| Right::Mode),
            _ => self.right(asked, file),
        }
    }

    /// The same of the saved handle's file, which has a stateid of its own.
    pub(in crate::v4) fn right_to_read_saved(&self, asked: Stateid, file: &Target) -> Result<Right, Status> {
        match asked.special(self.minor())? {
            Some(Special::ReadBypass) => self.past_claims(file, Right::Mode).map(|()| Right::Mode),
            _ => self.right_beside(self.owed.stateids[1], asked, file),
        }
    }

    /// Reads, writes or cuts a file without an open, past denies of clients whose lease is over.
    pub(in crate::v4) fn past_the_late<T: Refusable>(
        &self,
        file: &Target,
        access: Access,
        attempt: impl FnMut() -> T,
    ) -> T {
        let makes_way = |outcome: &T| {
            let is_denied = outcome.refused() == Some(FsError::Locked);
            let in_the_way = || file.vfs.in_the_way(file.object, None, Share::only(access));
            Ok::<_, Infallible>(is_denied && self.scene.house.end_late(self.scene.exports, &in_the_way()))
        };
        let Ok(outcome) = way::past(attempt, makes_way);
        outcome
    }
}
