//! Finding records in a stream: each is a row of fragments behind a word that tells the fragment's length
//! and, in its highest bit, whether it is the last.
//!
//! ```text
//!  bit 31          30                              0
//!  ┌──────┬───────────────────────────────────────┐
//!  │ last │ bytes of this fragment                │  and then the fragment
//!  └──────┴───────────────────────────────────────┘
//! ```
//!
//! A peer may announce 2 GiB in four bytes, on a thousand connections. So an announcement allocates nothing:
//! the buffer of a record grows with what has arrived, to at most seventeen times that, and a record that would pass
//! [`RECORD_BYTES_MAX`] ends the connection when it is announced, as nothing behind it could be understood.
//! A connection without a partial record holds no buffer at all.
//!
//! The bytes of a large WRITE are received straight into the record's own buffer ([`Assembler::direct`]) and
//! go on from there as slices of it; only what arrives together with other requests is copied once.

use bytes::Bytes;

/// Largest record: the largest WRITE that we offer (1 MiB) with a generous header. Also the most that a
/// partial record can hold.
pub const RECORD_BYTES_MAX: usize = (1 << 20) + (16 << 10);

/// Most fragments of one record, so that a stream of empty fragments does not hold a worker for ever. The
/// clients we know send one.
const FRAGMENTS_MAX: u32 = 4096;

/// From here on the rest of a fragment is received without going through the worker's scratch buffer.
const DIRECT_BYTES_MIN: usize = 32 << 10;

/// A buffer that is too small is made so many times as large as what it holds, which has to be copied: once for a WRITE of
/// 1 MiB, of which one receive has brought 64 KiB.
const GROWTH: usize = 17;

/// Why a stream cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Its fragments together are longer than a record may be.
    #[error("a record of more than {RECORD_BYTES_MAX} bytes was announced; is the peer an NFS client?")]
    TooLong,
    /// It has more fragments than a record may have.
    #[error("a record came in more than {FRAGMENTS_MAX} fragments; is the peer an NFS client?")]
    TooManyFragments,
}

/// The state of one stream.
#[derive(Debug, Default)]
pub struct Assembler {
    /// A fragment's header, as far as it has come.
    header: [u8; 4],
    header_count: usize,
    /// What the current fragment still lacks.
    fragment_left: usize,
    last: bool,
    fragment_count: u32,
    /// Of the current record, what has come.
    record: Vec<u8>,
}

impl Assembler {
    /// Takes bytes from the stream; complete records go to `found`.
    pub fn feed(&mut self, mut bytes: &[u8], found: &mut Vec<Bytes>) -> Result<(), RecordError> {
        loop {
            if self.fragment_left > 0 {
                let (now, rest) = bytes.split_at(bytes.len().min(self.fragment_left));
                self.make_room(now.len());
                self.record.extend_from_slice(now);
                self.fragment_left -= now.len();
                bytes = rest;
                if self.fragment_left == 0 {
                    self.fragment_ends(found);
                }
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let (now, rest) = bytes.split_at(bytes.len().min(4 - self.header_count));
            for byte in now {
                if let Some(place) = self.header.get_mut(self.header_count) {
                    *place = *byte;
                }
                self.header_count += 1;
            }
            bytes = rest;
            if self.header_count == 4 {
                self.fragment_starts(found)?;
            }
        }
    }

    /// The buffer to receive into, where the current fragment is large: what lies behind its length is its
    /// free space. [`Assembler::received`] must follow.
    pub fn direct(&mut self) -> Option<&mut Vec<u8>> {
        if self.fragment_left < DIRECT_BYTES_MIN {
            return None;
        }
        self.make_room(self.fragment_left.min(DIRECT_BYTES_MIN));
        Some(&mut self.record)
    }

    /// `count` bytes were appended to the buffer that [`Assembler::direct`] gave.
    pub fn received(&mut self, count: usize, found: &mut Vec<Bytes>) -> Result<(), RecordError> {
        if count <= self.fragment_left {
            self.fragment_left -= count;
            if self.fragment_left == 0 {
                self.fragment_ends(found);
            }
            return Ok(());
        }
        // The buffer had more room than the fragment needed, and the next record's start came with it.
        let surplus = self.record.split_off(self.record.len() - (count - self.fragment_left));
        self.fragment_left = 0;
        self.fragment_ends(found);
        self.feed(&surplus, found)
    }

    /// Bytes of memory that a partial record holds.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.record.capacity()
    }

    /// Bytes of a partial record that have arrived.
    #[must_use]
    pub fn arrived_bytes(&self) -> usize {
        self.record.len()
    }

    /// Whether a record has begun and not ended.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.header_count > 0 || self.fragment_left > 0 || self.fragment_count > 0
    }

    fn fragment_starts(&mut self, found: &mut Vec<Bytes>) -> Result<(), RecordError> {
        let word = u32::from_be_bytes(self.header);
        let length = (word & 0x7fff_ffff) as usize;
        self.header_count = 0;
        self.last = word >> 31 == 1;
        self.fragment_count += 1;
        if length > RECORD_BYTES_MAX - self.record.len().min(RECORD_BYTES_MAX) {
            return Err(RecordError::TooLong);
        }
        if self.fragment_count > FRAGMENTS_MAX {
            return Err(RecordError::TooManyFragments);
        }
        self.fragment_left = length;
        if length == 0 {
            self.fragment_ends(found);
        }
        Ok(())
    }

    fn fragment_ends(&mut self, found: &mut Vec<Bytes>) {
        if self.last {
            self.fragment_count = 0;
            self.last = false;
            found.push(Bytes::from(std::mem::take(&mut self.record)));
        }
    }

    /// Room for `count` more bytes: exactly what the fragment lacks if that is little, else [`GROWTH`] times what is there.
    fn make_room(&mut self, count: usize) {
        if self.record.capacity() - self.record.len() < count {
            let grown = (self.record.len() * (GROWTH - 1)).max(count).min(self.fragment_left).max(count);
            self.record.reserve_exact(grown);
        }
    }
}

#[cfg(test)]
mod tests;
