//! Reading a record's arguments.

use bytes::Bytes;

/// The arguments do not have the shape that the procedure's definition gives them: GARBAGE_ARGS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments of the call cannot be decoded")]
pub struct Garbage;

/// Walks over a record. Nothing is copied, and no length is believed before the bytes are there.
#[derive(Clone)]
pub struct Decoder<'a> {
    record: &'a Bytes,
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Reads `record` from byte `at`.
    #[must_use]
    pub fn new(record: &'a Bytes, at: usize) -> Self {
        Self { record, at }
    }

    /// How far it has come.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// What was read since [`Self::position`] was `at`.
    #[must_use]
    pub fn since(&self, at: usize) -> &'a [u8] {
        self.record.get(at..self.at).unwrap_or_default()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.at >= self.record.len()
    }

    /// A 32-bit number, big-endian; an error if fewer than 4 bytes are left.
    pub fn u32(&mut self) -> Result<u32, Garbage> {
        self.array().map(u32::from_be_bytes)
    }

    /// A 64-bit number, big-endian; an error if fewer than 8 bytes are left.
    pub fn u64(&mut self) -> Result<u64, Garbage> {
        self.array().map(u64::from_be_bytes)
    }

    /// A boolean: 0 or 1, and nothing else.
    pub fn bool(&mut self) -> Result<bool, Garbage> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbage),
        }
    }

    /// Fixed opaque data of `N` bytes; `N` is a multiple of four in every protocol we speak.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        let rest = self.record.get(self.at..).ok_or(Garbage)?;
        let taken = rest.first_chunk::<N>().ok_or(Garbage)?;
        self.at += N;
        Ok(*taken)
    }

    /// Variable opaque data of at most `most` bytes.
    pub fn opaque(&mut self, most: usize) -> Result<&'a [u8], Garbage> {
        let range = self.opaque_range(most)?;
        self.record.get(range).ok_or(Garbage)
    }

    /// The same as a slice that shares the record's buffer.
    pub fn opaque_shared(&mut self, most: usize) -> Result<Bytes, Garbage> {
        let range = self.opaque_range(most)?;
        // The range was found inside the record.
        Ok(self.record.slice(range))
    }

    /// Such a slice, for who keeps it: it would keep the whole record alive, and is charged for itself alone, so it does so only where it is most of
    /// that (rules P5).
    #[must_use]
    pub fn own(&self, data: Bytes) -> Bytes {
        if data.len() * 5 < self.record.len() * 4 { Bytes::copy_from_slice(&data) } else { data }
    }

    fn opaque_range(&mut self, most: usize) -> Result<std::ops::Range<usize>, Garbage> {
        let length = usize::try_from(self.u32()?).map_err(|_| Garbage)?;
        if length > most {
            return Err(Garbage);
        }
        let start = self.at;
        let end = start.checked_add(length).ok_or(Garbage)?;
        let padded = start.checked_add(length.checked_next_multiple_of(4).ok_or(Garbage)?).ok_or(Garbage)?;
        if padded > self.record.len() {
            return Err(Garbage);
        }
        self.at = padded;
        Ok(start..end)
    }
}

#[cfg(test)]
mod tests;
