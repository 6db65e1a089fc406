//! Room for one block: in one piece if there is one, or else in as many as it takes (see [`crate::block::scatter`]).

use tally_base::{SECTOR, Txg};

use super::Allocator;
use crate::block::NoSpace;
use crate::block::scatter::{Place, map_bytes};
use crate::bp::Dva;

impl Allocator {
    /// Room for a block of so many sectors, which `txg` writes.
    pub(crate) fn place(&self, txg: Txg, sectors: u32) -> Result<Place, NoSpace> {
        if sectors <= 1 {
            return self.alloc_sectors(txg, sectors, sectors).map(Place::Whole);
        }
        let bytes = u64::from(sectors) * SECTOR as u64;
        match self.alloc_run_or_else(txg, bytes, bytes) {
            Ok(dva) => Ok(Place::Whole(dva)),
            Err(_) => self.place_in_pieces(txg, sectors),
        }
    }

    fn place_in_pieces(&self, txg: Txg, sectors: u32) -> Result<Place, NoSpace> {
        let mut pieces: Vec<Dva> = Vec::new();
        let mut missing = sectors;
        let mut take = || {
            while missing > 0 {
                let piece = self.alloc_sectors(txg, missing, 1)?;
                missing -= piece.sectors;
                pieces.push(piece);
            }
            self.alloc(txg, map_bytes(pieces.len()) as u64)
        };
        match take() {
            // A map as long as the block could not be told from the block.
            Ok(map) if map.sectors < sectors => Ok(Place::Pieces(map, pieces)),
            outcome => {
                outcome.into_iter().chain(pieces).for_each(|range| self.abandon(range));
                Err(self.no_space(u64::from(sectors) * SECTOR as u64))
            }
        }
    }
}
