use bytes::Bytes;

use super::*;
use crate::layer::Piece;

const KIB: u64 = 1 << 10;
const RECORD: u64 = 128 * KIB;

fn file(size: u64, layout: Layout) -> Inode {
    let inode = Inode::root_directory(tally_base::Generation(1), (0, 0), tally_base::Time(1));
    Inode { size, layout, kind: tally_vfs::FileKind::File, ..inode }
}

fn write(layer: &mut DataLayer, inode: &mut Inode, range: &Range<u64>) {
    let bytes = Bytes::from(vec![1; (range.end - range.start) as usize]);
    layer.insert(range.start, Piece::Memory { bytes, logged: false });
    inode.size = inode.size.max(range.end);
}

/// A range that is written, what is new of its cost, and what it patches.
type Write = (Range<u64>, u64, i64);

/// Several WRITEs in one group: what each costs, in order.
#[test]
fn each_block_is_counted_once_a_group() {
    let leaves = EXTENTS_FOLD_BYTES;
    let block = |length: u64| length + EXTENT_BYTES;
    let cases: &[(&str, u64, &[Write])] = &[
        (
            "a byte, and another, into a stored block",
            4 * RECORD,
            &[(5..6, block(RECORD) + leaves, RECORD as i64 - 1), (9..10, 0, -1), (5..6, 0, -1)],
        ),
        ("a whole block, then a part of it", 4 * RECORD, &[(0..RECORD, block(RECORD) + leaves, 0), (7..9, 0, -2)]),
        (
            "two halves",
            4 * RECORD,
            &[(0..RECORD / 2, block(RECORD) + leaves, 64 * KIB as i64), (RECORD / 2..RECORD, 0, -64 * KIB as i64)],
        ),
        (
            "appended piece by piece",
            0,
            &[
                (0..8 * KIB, block(8 * KIB) + leaves, 0),
                (8 * KIB..16 * KIB, 8 * KIB + leaves, 0),
                (16 * KIB..RECORD + 10, (RECORD - 16 * KIB) + block(10) + leaves, 0),
            ],
        ),
        (
            "the dirty tail is filled with zeroes",
            0,
            &[
                (0..8 * KIB, block(8 * KIB) + leaves, 0),
                (2 * RECORD..3 * RECORD, block(RECORD) + RECORD - 8 * KIB + leaves, (RECORD - 8 * KIB) as i64),
            ],
        ),
        ("across a border", 4 * RECORD, &[(RECORD - 1..RECORD + 1, 2 * block(RECORD) + leaves, 2 * RECORD as i64 - 2)]),
    ];
    for (what, size, writes) in cases {
        let (mut inode, mut layer) = (file(*size, Layout::Extents), DataLayer::default());
        for (range, bytes, patch_bytes) in *writes {
            let cost = FoldCost::of(&inode, Some(&layer), std::iter::once(range.clone()));
            assert_eq!((cost.bytes - cost.known_bytes, cost.patch_bytes), (*bytes, *patch_bytes), "{what}: {range:?}");
            write(&mut layer, &mut inode, range);
        }
    }
}

#[test]
fn many_pieces_of_one_block_are_one_block() {
    let pieces = (0..RECORD).step_by(KIB as usize).map(|at| at..at + 1);
    let cost = FoldCost::of(&file(RECORD, Layout::Extents), None, pieces);
    assert_eq!(
        cost,
        FoldCost {
            bytes: RECORD + EXTENT_BYTES + EXTENTS_FOLD_BYTES,
            known_bytes: 0,
            patch_bytes: RECORD as i64 - 128
        }
    );
}

#[test]
fn only_a_cut_within_a_block_is_work() {
    for (size, new_size, is_patch) in [
        (4 * RECORD, 0, false),
        (4 * RECORD, RECORD, false),
        (4 * RECORD, RECORD + 1, true),
        (4 * RECORD, 9 * RECORD + 1, false),
    ] {
        let cost = FoldCost::of_resize(&file(size, Layout::Extents), None, new_size);
        assert_eq!(cost.patch_bytes > 0, is_patch, "{size} to {new_size}: {cost:?}");
    }
    let small = FoldCost::of_resize(&file(100, Layout::Small), None, 50);
    assert_eq!(small, FoldCost { bytes: SMALL_FOLD_BYTES, known_bytes: 0, patch_bytes: 0 });
}
