//! What its client is given, and could claim again behind a restart of the server.

use super::{Compound, Stop};
use crate::entry::Target;
use crate::v4::status::Status;
use crate::v4::tracking::Given;

impl Compound<'_> {
    /// A client would be given something that it could claim again: whether it may be, for now.
    pub(in crate::v4) fn may_be_given(&self, target: &Target) -> Result<Given, Stop> {
        self.scene.house.grant(&*target.pool, self.presence()?)
    }

    /// It was given that: its answer waits until that is written down, and that whoever had it before may not claim it (rules V23 and V24). What was done is not
    /// done again for that (rules V2), unless somebody had to go out of the list meanwhile.
    pub(in crate::v4) fn was_given(&mut self, target: &Target, given: Given) -> Result<(), Stop> {
        let promise = self.scene.house.given(&*target.pool, self.presence()?, given)?;
        if let (Some(promise), Some(mark)) = (promise, self.mark) {
            self.owed.add(mark, promise);
        }
        Ok(())
    }

    /// A client claims again what it had before a restart of the server.
    pub(in crate::v4) fn reclaim(&self, target: &Target) -> Result<(), Status> {
        self.scene.house.reclaim(&*target.pool, self.presence()?)
    }
}
