//! What a mount is of, as whoever has the pools knows it.

use std::sync::Arc;

use tally_base::Wait;
use tally_vfs::{ClientNumber, ObjectRef, Vfs};

/// Where the dataset is.
pub enum Place {
    /// Served.
    Here(Arc<dyn Vfs>),
    /// It cannot answer for now: its pool is being taken up anew. Who asks waits.
    Away,
    /// It is not known any more.
    Gone,
}

/// The dataset of a mount, and those who have something of it by other ways.
pub trait Source: Send + Sync {
    /// Where it is now.
    fn place(&self) -> Place;

    /// Whether files are nobody's to read or change for now, as others may still claim what they have written before a restart (rules V27).
    fn awaits_claims(&self, vfs: &dyn Vfs) -> bool;

    /// Whether ranges are locked for nobody new for now, as clients may still claim again what they had locked before a restart (rules V26).
    fn is_in_grace(&self, vfs: &dyn Vfs) -> bool;

    /// Programs have unlocked something of an object, for which clients may wait.
    fn freed(&self, vfs: &dyn Vfs, object: ObjectRef);

    /// These have what a program needs, and go out of its way where the lease of each is over (rules V20). Whether it is worth another try.
    fn make_way(&self, in_the_way: &[ClientNumber]) -> bool;

    /// A program has what may have been a client's: what its answer waits for, so that this one does not claim it behind a restart (rules V24, V25).
    ///
    /// # Errors
    ///
    /// That cannot be written down for now: it is asked anew when this is over, or in a moment.
    fn given(&self, vfs: &dyn Vfs) -> Result<Wait, Wait>;

    /// Somebody was given this to keep, and is to be asked for it. Who was kept out by that asks again.
    fn recall(&self, vfs: &dyn Vfs, object: ObjectRef);

    /// The kernel has it mounted no more, or does not answer: nothing comes from here any more.
    fn ended(&self);
}
