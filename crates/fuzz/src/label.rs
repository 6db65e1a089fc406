//! One slot of a label.

use tally_base::{block_checksum, log_checksum};
use tally_members::label::{self, FORMAT_VERSION};

use crate::heap;

/// Where in a slot the header's fields lie; the drawing is in `tally_members::label`.
const PAYLOAD_BYTES_AT: usize = 12;
const PAYLOAD_CHECKSUM_AT: usize = 72;
const HEADER_CHECKSUM_AT: usize = 88;
const PAYLOAD_AT: usize = 96;

/// Room for the configuration twice, with its strings and lists.
const HEAP_BYTES: usize = 256 << 10;
const HEAP_FACTOR: usize = 64;

/// A flag and a slot. With bit 0 of the flag it is one of our format.
pub(crate) fn slot(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let Some((flags, slot)) = data.split_first() else { return false };
        let mut slot = slot.to_vec();
        seal(&mut slot, flags & 1 == 1);
        let Ok(label) = label::decode(&slot) else { return false };
        let again = label::encode(label.leg, &label.config).expect("what was read can be written");
        assert_eq!(label::decode(&again).as_ref(), Ok(&label), "what was written reads the same");
        true
    })
}

/// Sets lengths and checksums right; with `is_ours` also magic and version.
pub(crate) fn seal(slot: &mut Vec<u8>, is_ours: bool) {
    slot.resize(slot.len().max(PAYLOAD_AT), 0);
    let (header, payload) = slot.split_at_mut(PAYLOAD_AT);
    if is_ours {
        header[..8].copy_from_slice(b"TALLYLBL");
        header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    }
    let length = u32::from_le_bytes(header[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].try_into().expect("four bytes"));
    let length = (length as usize).min(payload.len());
    header[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].copy_from_slice(&(length as u32).to_le_bytes());
    header[PAYLOAD_CHECKSUM_AT..HEADER_CHECKSUM_AT].copy_from_slice(&block_checksum(&payload[..length]).to_le_bytes());
    let checksum = log_checksum(&header[..HEADER_CHECKSUM_AT]);
    header[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}
