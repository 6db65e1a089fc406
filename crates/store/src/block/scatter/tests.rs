use tally_base::{SECTOR, Txg};

use super::{decode_map, encode_map};
use crate::bp::{BlockKind, BlockPtr, Coding, Dva};

/// A map vouches for its own bytes, and so does one that faulty software has written, or somebody with an editor. A piece that
/// begins inside a sector went as far as the disk, which takes that for a bug of ours and panics.
#[test]
fn pieces_are_whole_sectors() {
    let sector = SECTOR as u64;
    let piece = |offset: u64, sectors: u32| Dva { vdev: 0, offset, sectors };
    let block = BlockPtr {
        dva: piece(0, 1),
        copy: None,
        lsize: 3 * SECTOR as u32,
        psize: 3 * SECTOR as u32,
        coding: Coding::Raw,
        kind: BlockKind::Data,
        birth: Txg(1),
        checksum: 7,
    };
    let cases = [
        (vec![piece(sector, 1), piece(4 * sector, 2)], true),
        (vec![piece(sector + 1, 1), piece(4 * sector, 2)], false),
        (vec![piece(sector, 1), piece(4 * sector - 512, 2)], false),
        (vec![piece(sector, 3), piece(8 * sector, 0)], false),
    ];
    for (pieces, is_sound) in cases {
        let bytes = encode_map(block.checksum, &pieces, &vec![0; pieces.len()]);
        assert_eq!(decode_map(&bytes, &block).is_ok(), is_sound, "{pieces:?}");
    }
}
