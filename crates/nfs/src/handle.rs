//! File handles: what a client holds for months, brings back after a restart, and must not be able to make.
//!
//! A handle names pool, dataset, object and generation, and carries a MAC under a key that lives in the
//! pool. So a handle survives restarts and renames of the dataset (I4), and nobody reaches an object that the
//! server has not shown them by counting object ids up. Which exports rule applies is not in the handle: it
//! is looked up again at each request, so that a change of the rules takes effect at once.
//!
//! ```text
//!  byte 0        1             8            16           24           32           40              56
//!  ┌─────────┬──────────────┬────────────┬────────────┬────────────┬────────────┬────────────────┐
//!  │ version │ zero (7)     │ pool guid  │ dataset    │ object     │ generation │ MAC (16)       │
//!  └─────────┴──────────────┴────────────┴────────────┴────────────┴────────────┴────────────────┘
//! ```
//!
//! Version 4 of the protocol has a handle for what stands above the exports and is none itself ([`Above`]):
//!
//! ```text
//!  byte 0        1             8            16           24
//!  ┌─────────┬──────────────┬────────────┬────────────┐
//!  │ 2       │ zero (7)     │ pool guid  │ dataset    │      both 0: the root of all
//!  └─────────┴──────────────┴────────────┴────────────┘
//! ```
//!
//! Nothing in it is a secret: what it leads to is looked up for whoever asks.
//!
//! Numbers are big-endian. The MAC is the first half of BLAKE3's keyed hash of bytes 0..40: 128 bits, so a
//! guess succeeds once in 2^128 requests, however many a client sends.

use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
use tally_vfs::ObjectRef;

/// Length of a handle; RFC 1813 allows 64.
pub const HANDLE_BYTES: usize = 56;
const SIGNED_BYTES: usize = 40;
const MAC_BYTES: usize = HANDLE_BYTES - SIGNED_BYTES;
const VERSION: u8 = 1;
const _: () = assert!(HANDLE_BYTES <= 64);

/// Length of a handle of what stands above the exports.
pub const ABOVE_BYTES: usize = 24;
const VERSION_ABOVE: u8 = 2;

/// What stands above the exports: a dataset that a client may not see but for the way through it, or the root of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// The root of all.
    Root,
    /// A dataset.
    Dataset(PoolGuid, DatasetId),
}

impl Above {
    /// Its handle.
    #[must_use]
    pub fn encode(self) -> [u8; ABOVE_BYTES] {
        let mut bytes = [0; ABOVE_BYTES];
        bytes[0] = VERSION_ABOVE;
        if let Self::Dataset(pool, dataset) = self {
            bytes[8..16].copy_from_slice(&pool.0.to_be_bytes());
            bytes[16..24].copy_from_slice(&dataset.0.to_be_bytes());
        }
        bytes
    }

    /// What a handle names, if it is such a one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ABOVE_BYTES] = bytes.try_into().ok()?;
        if bytes[0] != VERSION_ABOVE || bytes[1..8] != [0; 7] {
            return None;
        }
        let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes inside a handle"));
        Some(match (word(8), word(16)) {
            (0, 0) => Self::Root,
            (pool, dataset) => Self::Dataset(PoolGuid(pool), DatasetId(dataset)),
        })
    }
}

/// An encoded handle.
pub type HandleBytes = [u8; HANDLE_BYTES];

/// What a handle names. Its MAC is not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Whose key its MAC is made with.
    pub pool: PoolGuid,
    /// Which dataset of it.
    pub dataset: DatasetId,
    /// Which object of that.
    pub object: ObjectRef,
}

impl Handle {
    /// Encodes it, with a MAC under the pool's key behind.
    #[must_use]
    pub fn seal(&self, key: &[u8; 32]) -> HandleBytes {
        let signed = self.signed();
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..SIGNED_BYTES].copy_from_slice(&signed);
        bytes[SIGNED_BYTES..].copy_from_slice(&mac(key, &signed));
        bytes
    }

    /// Decodes without believing anything: the pool must be known before its key can be asked for.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Unchecked> {
        let bytes: &HandleBytes = bytes.try_into().ok()?;
        if bytes[0] != VERSION || bytes[1..8] != [0; 7] {
            return None;
        }
        let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes inside a handle"));
        let object = ObjectRef { id: ObjectId(word(24)), generation: Generation(word(32)) };
        let handle = Self { pool: PoolGuid(word(8)), dataset: DatasetId(word(16)), object };
        Some(Unchecked { handle, mac: *bytes.last_chunk().expect("a handle is longer than its MAC") })
    }

    fn signed(&self) -> [u8; SIGNED_BYTES] {
        let mut bytes = [0; SIGNED_BYTES];
        bytes[0] = VERSION;
        bytes[8..16].copy_from_slice(&self.pool.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.dataset.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.object.id.0.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.object.generation.0.to_be_bytes());
        bytes
    }
}

/// A handle whose MAC has not been compared.
#[derive(Clone, Copy, Debug)]
pub struct Unchecked {
    handle: Handle,
    mac: [u8; MAC_BYTES],
}

impl Unchecked {
    /// The pool it claims, for finding the key.
    #[must_use]
    pub fn pool(&self) -> PoolGuid {
        self.handle.pool
    }

    /// The handle, if this pool's key signed it. The comparison takes the same time wherever it differs.
    #[must_use]
    pub fn verify(&self, key: &[u8; 32]) -> Option<Handle> {
        let expected = mac(key, &self.handle.signed());
        let difference = expected.iter().zip(&self.mac).fold(0, |sum, (a, b)| sum | (a ^ b));
        (std::hint::black_box(difference) == 0).then_some(self.handle)
    }
}

fn mac(key: &[u8; 32], signed: &[u8; SIGNED_BYTES]) -> [u8; MAC_BYTES] {
    *blake3::keyed_hash(key, signed).as_bytes().first_chunk().expect("half of a hash")
}

#[cfg(test)]
mod tests;
