use tally_base::{SECTOR, Txg, VdevIndex};

use super::{HEAD_BYTES, PIECE_BYTES, TAIL_BYTES, decode_map, encode_map, sum};
use crate::bp::{BlockKind, BlockPtr, Coding, Dva};

/// A map vouches for its own bytes, and so does one that faulty software has written, or somebody with an editor. What a disk
/// would take for a bug of ours is refused before it gets there.
#[test]
fn pieces_are_places_that_can_be() {
    let sector = SECTOR as u64;
    let piece = |offset: u64, sectors: u32| Dva { vdev: VdevIndex(0), offset, sectors };
    let block = BlockPtr {
        dva: piece(0, 1),
        copy: None,
        in_pieces: true,
        lsize: 3 * SECTOR as u32,
        psize: 3 * SECTOR as u32,
        coding: Coding::Raw,
        kind: BlockKind::Data,
        birth: Txg(1),
        written: Txg(1),
        checksum: 7,
    };
    let map = |pieces: &[Dva]| encode_map(block.checksum, pieces, &vec![0; pieces.len()]);
    let is_sound = |bytes: &[u8]| decode_map(bytes, &block).is_ok();
    let good = map(&[piece(sector, 1), piece(4 * sector, 2)]);
    assert!(is_sound(&good));
    assert!(!is_sound(&map(&[piece(sector, 3), piece(8 * sector, 0)])), "a piece of nothing");
    assert!(!is_sound(&map(&[piece(sector, 1), piece(8 * sector, 1)])), "less than the block");
    let of_second = HEAD_BYTES + PIECE_BYTES;
    for (at, byte, what) in [(4, 1, "parity"), (6, 1, "what is zero"), (15, 0xff, "a start beyond everything")] {
        let mut bytes = good.clone();
        bytes[of_second + at] = byte;
        let end = bytes.len() - TAIL_BYTES;
        let own = sum(&bytes[..end]);
        bytes[end..].copy_from_slice(&own.to_le_bytes());
        assert!(!is_sound(&bytes), "{what}");
    }
}
