use std::ops::{Deref, DerefMut};

use aligned_vec::{AVec, ConstAlign};

/// Bytes that start on a 4 KiB border in memory, as O_DIRECT asks. Grows like a `Vec`.
#[derive(Clone)]
pub struct AlignedBuf(AVec<u8, ConstAlign<4096>>);

static ZEROES: [u8; tally_base::SECTOR] = [0; tally_base::SECTOR];

impl AlignedBuf {
    /// An empty buffer with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(AVec::with_capacity(4096, capacity))
    }

    /// `length` zeroes.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        let mut buf = Self::with_capacity(length);
        buf.resize(length);
        buf
    }

    /// These bytes, once more.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::with_capacity(bytes.len());
        copy.extend_from_slice(bytes);
        copy
    }

    /// Sets the length; new bytes are zero.
    pub fn resize(&mut self, length: usize) {
        // Copied in pieces: what the vector has for this goes from byte to byte in a build that is not optimised.
        self.0.reserve(length.saturating_sub(self.0.len()));
        while self.0.len() < length {
            let missing = length - self.0.len();
            self.0.extend_from_slice(ZEROES.get(..missing).unwrap_or(&ZEROES));
        }
        self.0.truncate(length);
    }

    /// Appends a copy of `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Makes room for `capacity` bytes in all, and no more than that.
    pub fn reserve_to(&mut self, capacity: usize) {
        self.0.reserve_exact(capacity.saturating_sub(self.0.len()));
    }

    /// Copies it into `parts`, one after the other, which are as long together.
    pub fn part_into(&self, parts: &mut [Self]) {
        let mut rest = &self[..];
        for part in parts {
            let (first, behind) = rest.split_at(part.len());
            part.copy_from_slice(first);
            rest = behind;
        }
    }

    /// Forgets the content and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes that fit without growing.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
