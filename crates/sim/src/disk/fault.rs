//! What a disk refuses.

use std::io;

use parking_lot::Mutex;

/// A kind of request that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Reading.
    Read,
    /// A write into the device's cache.
    Write,
    /// A durable write. What it was to write may be there, in part.
    DurableWrite,
    /// A flush. What was not flushed is on the medium in part, and no later flush saves the rest.
    Flush,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::DurableWrite, Self::Flush];
}

/// How many of the next requests of each kind fail.
#[derive(Debug, Default)]
pub struct Faults(Mutex<[u32; Fault::ALL.len()]>);

impl Faults {
    /// The next `count` requests of this kind fail.
    pub fn set(&self, fault: Fault, count: u32) {
        self.0.lock()[fault as usize] = count;
    }

    /// Every request fails from now on, as if the cable were out.
    pub fn all(&self) {
        *self.0.lock() = [u32::MAX; Fault::ALL.len()];
    }

    /// Nothing fails any more.
    pub fn clear(&self) {
        *self.0.lock() = [0; Fault::ALL.len()];
    }

    pub(super) fn strike(&self, fault: Fault) -> io::Result<()> {
        let left = &mut self.0.lock()[fault as usize];
        if *left == 0 {
            return Ok(());
        }
        *left = left.saturating_sub(u32::from(*left < u32::MAX));
        Err(io::Error::other(format!("a {fault:?} that the seed lets fail")))
    }
}
