//! Writing a reply.

use bytes::Bytes;
use smallvec::SmallVec;

/// Bytes of files, each with how many others stand before it.
pub type Shared = SmallVec<[(usize, Bytes); 2]>;

/// Appends what a reply says: words, and between them bytes of files, which are never copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    bytes: Vec<u8>,
    shared: Shared,
}

impl Encoder {
    /// Most replies are smaller than this: an RPC header, a handle, attributes and wcc data.
    const TYPICAL_BYTES: usize = 384;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(Self::TYPICAL_BYTES)
    }

    /// An empty one, for so many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), shared: SmallVec::new() }
    }

    /// A 32-bit number, big-endian: 4 bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Another number in the place of one that was written when [`Self::len`] was `at`.
    pub fn replace_u32(&mut self, at: usize, value: u32) -> &mut Self {
        let mut own = at;
        for (before, piece) in &self.shared {
            if *before < own {
                own -= piece.len();
            }
        }
        self.bytes[own..own + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// A 64-bit number, big-endian: 8 bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A boolean: 4 bytes, 0 or 1.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.u32(u32::from(value))
    }

    /// Variable opaque data, padded.
    pub fn opaque(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).expect("replies hold far less than 4 GiB"));
        self.bytes.extend_from_slice(bytes);
        self.pad(bytes.len());
        self
    }

    /// Behind data of so many bytes. What is here already may be no multiple of four, as padding of what is shared is, and the data is not.
    fn pad(&mut self, length: usize) {
        self.bytes.resize(self.bytes.len() + length.next_multiple_of(4) - length, 0);
    }

    /// The same, in pieces that stay where they are.
    pub fn opaque_shared(&mut self, pieces: impl IntoIterator<Item = Bytes>) -> &mut Self {
        let at = self.bytes.len() + 4;
        let before = self.shared.len();
        self.shared.extend(pieces.into_iter().map(|piece| (at, piece)));
        let length: usize = self.shared[before..].iter().map(|(_, piece)| piece.len()).sum();
        self.u32(u32::try_from(length).expect("replies hold far less than 4 GiB"));
        self.pad(length);
        self
    }

    /// Bytes as they are: an encoding made elsewhere.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// What was written by another one, behind what is here.
    pub fn append(&mut self, other: Self) -> &mut Self {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.shared.extend(other.shared.into_iter().map(|(before, piece)| (at + before, piece)));
        self
    }

    /// Takes back what was written since [`Self::len`] was `length`.
    pub fn truncate(&mut self, length: usize) {
        while self.shared.last().is_some_and(|(at, _)| at + self.shared_bytes() > length) {
            self.shared.pop();
        }
        self.bytes.truncate(length.saturating_sub(self.shared_bytes()));
    }

    /// What was written since [`Self::len`] was `at`, behind all that is shared.
    #[must_use]
    pub fn since(&self, at: usize) -> &[u8] {
        &self.bytes[at - self.shared_bytes()..]
    }

    fn shared_bytes(&self) -> usize {
        self.shared.iter().map(|(_, piece)| piece.len()).sum()
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_bytes()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written, where nothing of it is shared.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        assert!(self.shared.is_empty(), "bytes of files would be lost");
        self.bytes
    }

    /// A copy of all that was written.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let (mut bytes, mut at) = (Vec::with_capacity(self.len()), 0);
        for (before, piece) in &self.shared {
            bytes.extend_from_slice(&self.bytes[at..*before]);
            bytes.extend_from_slice(piece);
            at = *before;
        }
        bytes.extend_from_slice(&self.bytes[at..]);
        bytes
    }

    /// The same, and nothing of it shared.
    #[must_use]
    pub fn into_plain(self) -> Self {
        if self.shared.is_empty() { self } else { Self { bytes: self.to_vec(), shared: SmallVec::new() } }
    }

    /// The bytes that are its own, and the shared ones between them.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Shared) {
        (self.bytes, self.shared)
    }
}

#[cfg(test)]
mod tests;
