//! Writing a reply.

use bytes::Bytes;
use smallvec::SmallVec;

/// Appends words to a reply's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Most replies are smaller than this: an RPC header, a handle, attributes and wcc data.
    const TYPICAL_BYTES: usize = 384;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(Self::TYPICAL_BYTES) }
    }

    /// An empty one, for so many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// A 32-bit number, big-endian: 4 bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
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
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Bytes as they are: an encoding made elsewhere.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}

/// The results of a procedure: words, and for READ the file's bytes behind them, which are never copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The encoded words.
    pub words: Encoder,
    /// Opaque data behind the words; its length is the last of them, its padding is added when it is sent.
    pub data: SmallVec<[Bytes; 4]>,
}

impl From<Encoder> for Body {
    fn from(words: Encoder) -> Self {
        Self { words, data: SmallVec::new() }
    }
}
