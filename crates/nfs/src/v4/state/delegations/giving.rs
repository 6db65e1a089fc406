//! One that is on its way to a client, or back: held while the file system is asked.

use std::time::Duration;

use bytes::Bytes;

use super::{Delegated, Delegations};
use crate::v4::state::ClientId;
use crate::v4::state::stateid::{FileId, Revoked};

/// One that may be given. Dropped, it was not.
#[derive(Debug)]
#[must_use = "what is reserved and dropped was not given"]
pub struct Reserving<'a> {
    delegations: &'a Delegations,
    client: ClientId,
    file: FileId,
    number: u64,
    is_done: bool,
}

impl<'a> Reserving<'a> {
    pub(super) fn new(delegations: &'a Delegations, (client, file): (ClientId, FileId), number: u64) -> Self {
        Self { delegations, client, file, number, is_done: false }
    }

    /// Of which file.
    #[must_use]
    pub fn file(&self) -> &FileId {
        &self.file
    }

    /// The file system has given it, of a file with that change; one of a life before is asked for with its grant. Nothing, where somebody is kept out by it already, or the client has gone: it has to be given back.
    pub fn granted(
        mut self,
        (handle, change): (Bytes, u64),
        is_recalled: Option<Duration>,
    ) -> Result<Delegated, Ending<'a>> {
        self.is_done = true;
        let Self { delegations, client, file, number, .. } = self;
        let mut shard = delegations.shards.at(number as u32).write();
        match shard.grant(number, (handle, change), is_recalled) {
            true => Ok(delegations.delegated(shard.get(number).expect("it was granted"), number)),
            false => Err(Ending::new(delegations, (client, file), number)),
        }
    }

    /// It was not given, or is given back: as long as this is there nobody is given it anew.
    pub fn ending(mut self) -> Ending<'a> {
        self.is_done = true;
        let Self { delegations, client, file, number, .. } = self;
        delegations.shards.at(number as u32).write().end(number);
        Ending::new(delegations, (client, file), number)
    }
}

impl Drop for Reserving<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.delegations.shards.at(self.number as u32).write().remove(self.number);
        }
    }
}

/// One that is being given back below. Dropped, it is gone.
#[derive(Debug)]
#[must_use = "it is to be given back below first"]
pub struct Ending<'a> {
    delegations: &'a Delegations,
    client: ClientId,
    file: FileId,
    number: u64,
    is_done: bool,
}

impl<'a> Ending<'a> {
    pub(super) fn new(delegations: &'a Delegations, (client, file): (ClientId, FileId), number: u64) -> Self {
        Self { delegations, client, file, number, is_done: false }
    }

    /// Whose it was.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// Of which file.
    #[must_use]
    pub fn file(&self) -> &FileId {
        &self.file
    }

    /// It was given back.
    pub fn returned(self) {
        drop(self);
    }

    /// It was taken.
    pub fn revoked(mut self, why: Revoked) {
        self.is_done = true;
        self.delegations.shards.at(self.number as u32).write().revoke(self.number, why);
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.delegations.shards.at(self.number as u32).write().remove(self.number);
        }
    }
}
