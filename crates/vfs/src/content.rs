//! Reading and writing what is in a file.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::attributes::Attr;

/// Largest file, bytes: offsets stay in the positive range of a signed 64-bit number.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;
/// Longest WRITE that a protocol asks its clients for, bytes. A client's kernel sends a file of up to this size as one FILE_SYNC
/// WRITE instead of WRITEs and a COMMIT. Whoever keeps a part of what one has brought keeps its buffer, so what may be kept goes
/// by this (rules P5).
pub const WRITE_BYTES_MAX: u32 = 1 << 20;

/// How stable a WRITE must be, or has become (RFC 1813 §3.3.7, `stable_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// May be lost until a COMMIT.
    Unstable,
    /// Data and what is needed to read it back.
    DataSync,
    /// Data and all attributes.
    FileSync,
}

/// Result of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes taken: all of them.
    pub count: u32,
    /// What the reply may promise once its wait is over.
    pub stability: Stability,
    /// Write verifier, captured under the file's lock (rules F16).
    pub verifier: u64,
}

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Content. Zeroes may be content.
    Data,
    /// A hole, which reads as zeroes. Every file has one at its end.
    Hole,
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundAt {
    /// Its first byte from where the look began.
    pub offset: u64,
    /// That is the end of the file: of content there is none up to it.
    pub is_end: bool,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOut {
    /// The bytes, in order, as pieces; together at most what was asked for.
    pub data: SmallVec<[Bytes; 4]>,
    /// Whether they reach the end of the file.
    pub eof: bool,
    /// The file's attributes.
    pub attr: Attr,
}
