//! What its client is given, and could claim again behind a restart of the server.

use tally_base::Wait;
use tally_vfs::Right;

use super::{Compound, Stop};
use crate::entry::Target;
use crate::v4::status::Status;
use crate::v4::tracking::{Given, Noted};

impl Compound<'_> {
    /// A client would be given something that it could claim again, `to_write`: perhaps for writing. Whether it may be, for now.
    pub(in crate::v4) fn may_be_given(&self, target: &Target, to_write: bool) -> Result<Given, Stop> {
        let writes = to_write.then(|| target.vfs.dataset());
        self.scene.house.grant(&*target.pool, self.presence()?, writes)
    }

    /// It was given that: its answer waits until that is written down, and that whoever had it before may not claim it (rules V23 and V24). What was done is not
    /// done again for that (rules V2), unless somebody had to go out of the list meanwhile. Whether that may be something for writing.
    pub(in crate::v4) fn was_given(&mut self, target: &Target, given: Given) -> Result<bool, Stop> {
        let Noted { promise, may_write } = self.scene.house.given(&*target.pool, self.presence()?, given)?;
        self.wait_for(promise.map_or(Wait::Ready, Wait::On));
        Ok(may_write)
    }

    /// Who has not said that he claims nothing more again asks for nothing new (RFC 8881 §18.51.3). In minor version 0 there is no word for that.
    pub(in crate::v4) fn check_completed(&self) -> Result<(), Status> {
        if self.minor() > 0 && !self.presence()?.has_reclaimed() { Err(Status::Grace) } else { Ok(()) }
    }

    /// Whether it may have had something for writing there.
    pub(in crate::v4) fn reclaim_write(&self, target: &Target) -> bool {
        let presence = self.presence();
        presence.is_ok_and(|presence| self.scene.house.reclaim_write(&*target.pool, presence, target.vfs.dataset()))
    }

    /// An operation reads or changes a file that is there, by no open of its client. In the grace another one may still claim what it has written there and not sent: until it has
    /// that is nobody else's to see, nor to change (rules V27). What a client has claimed nobody else can have had for writing, so by that it goes on.
    pub(in crate::v4) fn past_claims(&self, target: &Target, right: Right) -> Result<(), Status> {
        if matches!(right, Right::Open(_) | Right::Delegated(_)) {
            return Ok(());
        }
        let (house, exports) = (self.scene.house, self.scene.exports);
        let who = self.presence().ok();
        if house.awaits_claims(exports, &*target.pool, target.vfs.dataset(), who) { Err(Status::Grace) } else { Ok(()) }
    }

    /// A client claims again what it had before a restart of the server.
    pub(in crate::v4) fn reclaim(&self, target: &Target) -> Result<(), Status> {
        self.scene.house.reclaim(&*target.pool, self.presence()?)
    }
}
