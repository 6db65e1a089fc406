//! What minor version 0 has of opens besides: they are found by their owners, whose order is kept elsewhere ([`super::super::orders`]), and those of an owner that
//! nobody knew are provisional until it confirms them (RFC 7530 §9.1.11).

use super::{Closing, Opens, Reserved};
use crate::v4::state::OwnerKey;
use crate::v4::state::stateid::{Asker, FileId, Stateid, next_seqid};
use crate::v4::status::Status;

impl Opens {
    /// Whose a stateid of minor version 0 is, whatever its seqid, and be it revoked: rows a to d of D6.
    pub fn owner_of(&self, asked: &Stateid) -> Result<OwnerKey, Status> {
        let shard = self.shards.at(asked.index()).read();
        let open = shard.look_past_revoked(&self.seal, *asked)?;
        Ok(OwnerKey { client: open.asked.client, name: open.asked.name })
    }

    /// Whether an owner has something open, or is about to.
    #[must_use]
    pub fn has_owner(&self, owner: &OwnerKey) -> bool {
        self.shards.of(owner.client).read().has_owner(owner.client, &owner.name)
    }

    /// An owner has forgotten what it had opened. Gives what has to be closed below.
    pub fn forget_owner(&self, owner: &OwnerKey) -> Vec<Closing> {
        self.shards.of(owner.client).write().forget_owner(owner.client, &owner.name)
    }

    /// OPEN_CONFIRM: what is confirmed already is not the one that is asked for.
    pub fn confirm(&self, asked: &Stateid, file: &FileId) -> Result<Stateid, Status> {
        let mut shard = self.shards.at(asked.index()).write();
        let number = shard.look(&self.seal, *asked, &Asker { minor: 0, client: None, file: Some(file) })?;
        let open = shard.at_mut(number).expect("it was looked at");
        if !open.is_provisional {
            return Err(Status::BadStateid);
        }
        open.is_provisional = false;
        open.seqid = next_seqid(open.seqid);
        Ok(self.found(&shard, number).stateid)
    }
}

impl Reserved<'_> {
    /// It cannot be used before its owner has confirmed it.
    pub fn is_provisional(mut self) -> Self {
        self.is_provisional = true;
        self
    }
}
