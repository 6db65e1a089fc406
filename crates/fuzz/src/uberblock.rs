//! One sector of an uberblock ring.

use tally_base::{SECTOR, log_checksum};
use tally_members::uberblock::Uberblock;
use tally_store::bp::BlockPtr;

use crate::heap;

const CHECKED_BYTES: usize = SECTOR - 8;
/// The sector twice, and its lanes and root.
const HEAP_BYTES: usize = 64 << 10;

/// A sector; what is missing is zero.
pub(crate) fn sector(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES, || {
        let mut sector = data.to_vec();
        seal(&mut sector);
        let Ok(uberblock) = Uberblock::decode(&sector) else { return false };
        let again = uberblock.encode();
        assert_eq!(Uberblock::decode(&again).as_ref(), Ok(&uberblock), "what was written reads the same");
        let _ = (uberblock.hash(), uberblock.rank());
        if let Some(root) = uberblock.root.first_chunk() {
            let _ = BlockPtr::decode(root).map(|root| root.to_string());
        }
        true
    })
}

/// Makes it a sector with the right checksum.
pub(crate) fn seal(sector: &mut Vec<u8>) {
    sector.resize(CHECKED_BYTES, 0);
    sector.extend(log_checksum(sector).to_le_bytes());
}
