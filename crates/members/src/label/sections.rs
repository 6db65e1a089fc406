//! The payload of a label as a list of sections.
//!
//! The problem: programs of several ages write one pool's labels, each of them whole, and the older one must neither lose
//! what the newer one has put there nor act as if it had understood it.
//!
//! The idea: what belongs together is a section with a number of its own and a length. Who does not know a number carries
//! the bytes along as they were read, through every change of the configuration; and one bit says whether ignorance of it
//! allows writing at all. A section never changes its layout: what has more to say is a section of another number, which
//! speaks of vdevs and legs by their guids, and of those that have gone meanwhile to nobody.
//!
//! ```text
//!   0 ┌──────────────────────────────────┐
//!     │ id                             2 │  ascending, so that none is there twice; 0 is none
//!   2 ├──────────────────────────────────┤
//!     │ flags                          2 │  bit 0: who does not know this section may not write
//!   4 ├──────────────────────────────────┤
//!     │ length                         4 │
//!   8 ├──────────────────────────────────┤
//!     │ its bytes                        │  then the next section, without a gap, up to the end of the payload
//!     └──────────────────────────────────┘
//! ```

use tally_base::codec::{Malformed, Put, Reader};

use super::{Bad, Unreadable};

/// What a program that does not know a section may not do without it.
const MUST_BE_KNOWN: u16 = 1 << 0;
const HEAD_BYTES: usize = 8;

/// A section as it stands in the label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Which one it is.
    pub id: u16,
    /// Who does not know it may not write the pool.
    pub must_be_known: bool,
    /// Its content without the header; only who knows `id` knows how to read it.
    pub bytes: Vec<u8>,
}

/// The sections of a payload, in their order. No length is believed before it was compared with what is there.
pub(super) fn split(payload: &[u8]) -> Result<Vec<Section>, Bad> {
    let mut reader = Reader::new(payload, "label");
    let mut sections: Vec<Section> = Vec::new();
    while !reader.rest().is_empty() {
        if reader.rest().len() < HEAD_BYTES {
            return Err(Malformed("label: bytes behind its last section").into());
        }
        let (id, flags, length) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > reader.rest().len() {
            return Err(Malformed("label: a section that is longer than what is left of the label").into());
        }
        let bytes = reader.bytes(length)?;
        match sections.last().map_or(0, |last| last.id) {
            _ if id == 0 => return Err(Malformed("label: a section without a number").into()),
            before if before == id => return Err(Malformed("label: a section that is there twice").into()),
            before if before > id => return Err(Malformed("label: sections out of their order").into()),
            _ => {}
        }
        if flags & !MUST_BE_KNOWN != 0 {
            let what = format!("flags {flags:#06x} on section {id} of its label");
            return Err(Bad::Unknown(Unreadable::Beyond { what }));
        }
        sections.push(Section { id, must_be_known: flags & MUST_BE_KNOWN != 0, bytes: bytes.to_vec() });
    }
    Ok(sections)
}

/// The payload of these sections.
///
/// # Panics
/// With two of one number: those that are carried along are none that this program writes.
pub(super) fn join(mut sections: Vec<Section>) -> Vec<u8> {
    sections.sort_by_key(|section| section.id);
    assert!(sections.first().is_none_or(|first| first.id > 0), "section 0 is none");
    assert!(sections.is_sorted_by(|one, next| one.id < next.id), "a section twice");
    let mut payload = Vec::with_capacity(sections.iter().map(|section| HEAD_BYTES + section.bytes.len()).sum());
    for section in &sections {
        payload.put_u16(section.id);
        payload.put_u16(if section.must_be_known { MUST_BE_KNOWN } else { 0 });
        payload.put_blob(&section.bytes);
    }
    payload
}
