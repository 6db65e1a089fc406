//! Names of owners: a keyed hash of each is kept, as no answer has the name, so an owner is as long as any other, and nobody chooses names that meet in a table.

use tally_base::Rng;

use super::ClientId;

/// A keyed hash of an owner's name.
pub type OwnerName = [u8; 16];

/// An owner: whose, and by which name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct OwnerKey {
    pub client: ClientId,
    pub name: OwnerName,
}

/// The key of such hashes: one of owners of opens, another one of those of locks.
pub(super) struct Namer([u8; 32]);

impl Namer {
    pub(super) fn new(rng: &dyn Rng) -> Self {
        let mut key = [0; 32];
        rng.fill(&mut key);
        Self(key)
    }

    /// What is kept of an owner's name.
    pub(super) fn name(&self, owner: &[u8]) -> OwnerName {
        *blake3::keyed_hash(&self.0, owner).as_bytes().first_chunk().expect("half of a hash")
    }
}
