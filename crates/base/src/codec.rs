//! Little-endian fields in and out of byte strings: the encoding of everything of ours that varies in
//! size (records, tree values, configuration). Reading checks every length against what is there before it
//! takes or allocates anything, so that bytes from a damaged disk end in [`Malformed`] and never in a panic.

/// The bytes are not what the format says: too short, too long, or a value out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Why bytes whose checksum is right do not tell what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They are not what the format says.
    Malformed(Malformed),
    /// They have this, which the format keeps for what comes: a newer program has written it, and nothing is damaged.
    Newer(&'static str),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Newer(what) => write!(f, "{what}, written by a newer version of tally, which alone can read it"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<Malformed> for DecodeError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Reads fields from the front of a byte string.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; `what` names the structure in errors ("uberblock", "CREATE record").
    #[must_use]
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// The error for this structure, for ranges that the caller checks.
    #[must_use]
    pub fn malformed(&self) -> Malformed {
        Malformed(self.what)
    }

    /// Exactly `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed(self.what))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Exactly `N` bytes, as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed(self.what))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A 16-bit number.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// A 32-bit number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// A 64-bit number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A 128-bit number.
    pub fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    /// A byte string behind its 32-bit length.
    pub fn blob(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.u32()?;
        self.bytes(usize::try_from(count).map_err(|_| Malformed(self.what))?)
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed(self.what)) }
    }
}

/// Appends fields to a byte string: the mirror image of [`Reader`].
pub trait Put {
    /// Raw bytes.
    fn put(&mut self, bytes: &[u8]);

    /// One byte.
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    /// A 16-bit number.
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }
    /// A 32-bit number.
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    /// A 64-bit number.
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
    /// A 128-bit number.
    #[inline]
    fn put_u128(&mut self, value: u128) {
        self.put(&value.to_le_bytes());
    }
    /// A byte string behind its 32-bit length; longer ones are a bug of the caller.
    fn put_blob(&mut self, bytes: &[u8]) {
        self.put_u32(u32::try_from(bytes.len()).expect("a blob is bounded by its record, far below 4 GiB"));
        self.put(bytes);
    }
}

impl Put for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A structure of exactly `N` bytes that is put together before it is appended to anything: a vector would look for room
/// at each field, twenty-five times for an inode.
pub struct Fixed<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Fixed<N> {
    fn default() -> Self {
        Self { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> Fixed<N> {
    /// All of it. Panics if a field lacks: that is a bug of the caller.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8; N] {
        assert_eq!(self.length, N, "every field of a structure is put");
        &self.bytes
    }
}

impl<const N: usize> Put for Fixed<N> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read_back() {
        let mut bytes = Vec::new();
        bytes.put_u8(1);
        bytes.put_u16(2);
        bytes.put_u64(3);
        bytes.put_blob(b"four");
        bytes.put_u128(5);
        let mut reader = Reader::new(&bytes, "test");
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(2));
        assert_eq!(reader.u64(), Ok(3));
        assert_eq!(reader.blob(), Ok(&b"four"[..]));
        assert_eq!(reader.u128(), Ok(5));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        let mut reader = Reader::new(&[255, 255, 255, 255, 0], "test");
        assert_eq!(reader.blob(), Err(Malformed("test")));
    }

    #[test]
    fn left_over_bytes_are_refused() {
        let mut reader = Reader::new(&[1, 2], "test");
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.end(), Err(Malformed("test")));
    }
}
