//! What one compound has of owners under way (rules V18).

use std::sync::Arc;

use super::{Came, Coming, Orders};
use crate::v4::state::{Brought, FileId, OwnerKey, Told};
use crate::v4::status::Status;

/// One operation of an owner; a LOCK that is of two stands here twice.
#[derive(Debug)]
struct Held {
    orders: Arc<Orders>,
    owner: OwnerKey,
    seqid: u32,
    /// Which operation of its compound it is.
    nth: u32,
    is_confirmed: bool,
    /// None as long as it is carried out.
    told: Option<Told>,
}

/// The operations of owners that a compound carries out, in their order. Dropped, those of an owner come again from the first on that waits for something;
/// what was done before is done.
#[derive(Debug, Default)]
pub struct Turns {
    held: Vec<Held>,
    /// Operations whose results wait for something to be durable.
    waiting: Vec<u32>,
}

/// An operation of a compound.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Asking {
    pub owner: OwnerKey,
    pub brought: Brought,
    pub seqid: u32,
    pub fingerprint: u64,
    /// Which operation of its compound it is.
    pub nth: u32,
}

impl Turns {
    /// An operation comes, or goes on that found no room before.
    pub fn begin(
        &mut self,
        orders: &Arc<Orders>,
        asking: Asking,
        has_any: &dyn Fn(&OwnerKey) -> bool,
    ) -> Result<Came, Status> {
        let Asking { owner, brought, seqid, fingerprint, nth } = asking;
        if let Some(held) = self.held.iter().find(|held| held.nth == nth && held.owner == owner) {
            return Ok(Came::Now { is_confirmed: held.is_confirmed, is_anew: false });
        }
        let is_behind = self.held.iter().any(|held| held.owner == owner);
        let begun = orders.begin(Coming { owner, brought, seqid, fingerprint, is_behind }, has_any)?;
        if let Came::Now { is_confirmed, .. } = begun {
            let orders = orders.clone();
            self.held.push(Held { orders, owner, seqid, nth, is_confirmed, told: None });
        }
        Ok(begun)
    }

    /// That operation of the compound is done, if it was one of an owner: this is what it is told once that is durable.
    pub fn end(&mut self, nth: u32, status: Status, results: &[u8], file: Option<FileId>) {
        for held in self.held.iter_mut().filter(|held| held.nth == nth) {
            held.told = Some(Told { status, results: results.into(), file });
        }
    }

    /// That operation is to come again, and nobody is told of it.
    pub fn leave(&mut self, nth: u32) {
        self.held.iter_mut().filter(|held| held.nth == nth).for_each(|held| held.told = None);
    }

    /// Whether that operation is one of an owner.
    #[must_use]
    pub fn has(&self, nth: u32) -> bool {
        self.held.iter().any(|held| held.nth == nth)
    }

    /// Its results wait for something.
    pub fn wait(&mut self, nth: u32) {
        self.waiting.push(nth);
    }

    /// All that was done is told.
    pub fn settle(mut self) {
        self.waiting.clear();
    }

    /// All is told up to that operation, of which it is told that it failed.
    pub fn settle_broken(mut self, nth: u32) {
        self.waiting.retain(|waiting| *waiting > nth);
        let mut owners = Vec::new();
        for held in self.held.iter_mut().filter(|held| held.nth >= nth) {
            if held.nth == nth {
                held.told = Some(Status::Io.into());
                owners.push(held.owner);
            } else if owners.contains(&held.owner) {
                // What its owner did behind it is not told.
                held.told = None;
            }
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        let mut withdrawn = Vec::new();
        for Held { orders, owner, seqid, nth, told, .. } in self.held.drain(..) {
            if withdrawn.contains(&owner) {
                continue;
            }
            match told.filter(|_| !self.waiting.contains(&nth)) {
                Some(told) => orders.end(&owner, seqid, told),
                None => {
                    orders.withdraw(&owner);
                    withdrawn.push(owner);
                }
            }
        }
    }
}
