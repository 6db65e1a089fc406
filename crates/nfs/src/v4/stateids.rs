//! What a stateid names: something open, locked or delegated; and the operations that are about any of these.

use tally_vfs::Holder;

use super::below::below;
use super::house::House;
use super::state::{ClientId, FileId, Freeing, Locked, OwnerKey, Stateid};
use super::status::Status;
use crate::exports::Exports;

impl House {
    /// Of which file it is, if this client has it.
    pub(super) fn file_of(&self, asked: &Stateid, client: ClientId) -> Result<FileId, Status> {
        match (asked.is_of_lock(), asked.is_of_delegation()) {
            (_, true) => self.delegations().find(asked, client, None).map(|delegated| delegated.file),
            (true, _) => self.locks().find(asked, 1, Some(client), None).map(|locked| locked.file),
            _ => self.opens().find(asked, 1, Some(client), None).map(|found| found.file),
        }
    }

    /// The open that an operation with this stateid goes by, which may be a lock's below it.
    pub(super) fn open_of(
        &self,
        asked: &Stateid,
        minor: u32,
        client: Option<ClientId>,
        file: &FileId,
    ) -> Result<Holder, Status> {
        match asked.is_of_lock() {
            true => self.locks().find(asked, minor, client, Some(file)).map(|locked| locked.below),
            false => self.opens().find(asked, minor, client, Some(file)).map(|found| found.holder()),
        }
    }

    /// TEST_STATEID.
    pub(super) fn test_stateid(&self, asked: &Stateid, client: ClientId) -> Status {
        if asked.is_of_delegation() {
            return self.delegations().find(asked, client, None).map_or_else(|status| status, |_| Status::Ok);
        }
        match asked.is_of_lock() {
            true => self.locks().find(asked, 1, Some(client), None).map_or_else(|status| status, |_| Status::Ok),
            false => self.opens().test(asked, client),
        }
    }

    /// FREE_STATEID: of what is open, locked or delegated, LOCKS_HELD.
    pub(super) fn free_stateid(&self, exports: &dyn Exports, asked: &Stateid, client: ClientId) -> Result<(), Status> {
        if asked.is_of_delegation() {
            return self.free_delegation(asked, client);
        }
        if !asked.is_of_lock() {
            return self.opens().free(asked, client);
        }
        let Some(freeing) = self.locks().free(asked, client)? else { return Ok(()) };
        let (file, holder) = (freeing.locked().file, freeing.locked().holder);
        if below(exports, &file).is_some_and(|below| below.has_ranges(file.object, holder)) {
            return Err(Status::LocksHeld);
        }
        freeing.freed();
        Ok(())
    }

    /// RELEASE_LOCKOWNER: of who has locked something, LOCKS_HELD. Nothing is left of him otherwise.
    pub(super) fn release_owner(&self, exports: &dyn Exports, owner: &OwnerKey) -> Result<(), Status> {
        let freeing = self.locks().release(owner)?;
        let has_ranges = |freeing: &Freeing<'_>| {
            let Locked { file, holder, .. } = freeing.locked();
            below(exports, file).is_some_and(|below| below.has_ranges(file.object, *holder))
        };
        if freeing.iter().any(has_ranges) {
            return Err(Status::LocksHeld);
        }
        freeing.into_iter().for_each(Freeing::freed);
        self.orders().release(owner, &|owner| self.locks().has_owner(owner));
        Ok(())
    }
}
