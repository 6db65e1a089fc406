//! A raidz vdev on paper, before the bytes of format 2 are frozen: whether what pointers, maps of pieces, space maps and lists
//! of frees say is enough for blocks with parity. Nothing of it is product code; what it taught is
//! docs/design/0050-what-two-spikes-taught.md.
//!
//! ```text
//!   logical sector s of the vdev: slot s mod w, row s / w of that slot
//!   a block of d data sectors, at sector s:   row 0   P Q d0 d1 d2 d3
//!   (raidz2 of six, d = 6)                    row 1   P Q d4 d5
//!                                             pad     . .          asize = roundup(d + p·ceil(d/(w−p)), p+1)
//! ```

const SECTOR: usize = 4096;

/// The shape of a vdev: slots, and how many of them may be lost.
#[derive(Clone, Copy, Debug)]
struct Shape {
    slots: usize,
    parity: usize,
}

const SIX: Shape = Shape { slots: 6, parity: 2 };

impl Shape {
    const fn data_slots(self) -> usize {
        self.slots - self.parity
    }

    fn asize(self, data: usize) -> usize {
        (data + self.parity * data.div_ceil(self.data_slots())).next_multiple_of(self.parity + 1)
    }

    /// The most data that so many sectors hold: what a map of pieces is filled up to, as no pointer says it.
    fn data_max(self, asize: usize) -> usize {
        (0..=asize).rev().find(|data| self.asize(*data) <= asize).unwrap()
    }

    /// The rows of a block, each the sectors of it from its start on: parity first, then data.
    fn rows(self, data: usize) -> Vec<std::ops::Range<usize>> {
        let (mut at, mut left, mut rows) = (0, data, Vec::new());
        while left > 0 {
            let length = self.parity + left.min(self.data_slots());
            rows.push(at..at + length);
            at += length;
            left -= length - self.parity;
        }
        rows
    }
}

/// In GF(2^8) with x^8 + x^4 + x^3 + x^2 + 1.
const fn double(byte: u8) -> u8 {
    byte << 1 ^ if byte & 0x80 != 0 { 0x1d } else { 0 }
}

fn multiply(one: u8, other: u8) -> u8 {
    (0..8).rev().fold(0, |sum, bit| double(sum) ^ if other >> bit & 1 != 0 { one } else { 0 })
}

fn power(exponent: usize) -> u8 {
    (0..exponent).fold(1, |power, _| double(power))
}

fn inverse(byte: u8) -> u8 {
    (1..=255).find(|other| multiply(byte, *other) == 1).expect("zero alone has none")
}

/// P and Q of a row by Horner: Q weighs the last sector 1, the one before it 2, and so on.
fn parity(data: &[&[u8]]) -> [Vec<u8>; 2] {
    let mut sums = [vec![0; SECTOR], vec![0; SECTOR]];
    for sector in data {
        for (at, byte) in sector.iter().enumerate() {
            sums[0][at] ^= byte;
            sums[1][at] = double(sums[1][at]) ^ byte;
        }
    }
    sums
}

/// The missing data sectors of a row, of which at most two sectors in all are missing, parity included.
fn rebuild(row: &[Option<Vec<u8>>]) -> Vec<Vec<u8>> {
    let (given, data) = row.split_at(2);
    let zero = vec![0; SECTOR];
    let there: Vec<&[u8]> = data.iter().map(|sector| sector.as_deref().unwrap_or(&zero)).collect();
    let missing: Vec<usize> = (0..data.len()).filter(|at| data[*at].is_none()).collect();
    let weight = |at: usize| power(data.len() - 1 - at);
    let sums = parity(&there);
    let lack = |which: usize| -> Option<Vec<u8>> {
        Some(given[which].as_ref()?.iter().zip(&sums[which]).map(|(one, other)| one ^ other).collect())
    };
    let scaled = |bytes: Vec<u8>, factor: u8| -> Vec<u8> { bytes.iter().map(|byte| multiply(*byte, factor)).collect() };
    let found = match (missing.as_slice(), lack(0), lack(1)) {
        ([], ..) => Vec::new(),
        ([_], Some(p), _) => vec![p],
        ([one], None, Some(q)) => vec![scaled(q, inverse(weight(*one)))],
        ([one, other], Some(p), Some(q)) => {
            // a + b = p and x·a + y·b = q: a = (q + y·p) / (x + y).
            let (x, y) = (weight(*one), weight(*other));
            let mixed = q.iter().zip(&p).map(|(q, p)| q ^ multiply(*p, y)).collect();
            let first = scaled(mixed, inverse(x ^ y));
            let second = first.iter().zip(&p).map(|(a, p)| a ^ p).collect();
            vec![first, second]
        }
        lost => panic!("more than parity makes good: {:?}", lost.0),
    };
    let mut found = found.into_iter();
    data.iter().map(|sector| sector.clone().unwrap_or_else(|| found.next().unwrap())).collect()
}

fn content(seed: usize, sectors: usize) -> Vec<Vec<u8>> {
    let byte = |at: usize| (at.wrapping_mul(0x9e37_79b9).wrapping_add(seed * 77) >> 7) as u8;
    (0..sectors).map(|sector| (0..SECTOR).map(|at| byte(sector * SECTOR + at)).collect()).collect()
}

/// A run of several blocks, as one long write a slot: which is what makes raidz of variable width bearable on disks that seek.
#[test]
fn a_run_is_one_write_a_slot_and_survives_every_loss_of_two() {
    let sizes = [1, 6, 4, 17, 2];
    let start = 9;
    let mut logical: Vec<Vec<u8>> = Vec::new();
    let mut blocks = Vec::new();
    for (seed, data) in sizes.into_iter().enumerate() {
        let (at, content) = (start + logical.len(), content(seed, data));
        let mut rest = content.iter();
        for row in SIX.rows(data) {
            let sectors: Vec<&[u8]> = rest.by_ref().take(row.len() - 2).map(Vec::as_slice).collect();
            logical.extend(parity(&sectors));
            logical.extend(sectors.iter().map(|sector| sector.to_vec()));
        }
        logical.resize(at - start + SIX.asize(data), vec![0; SECTOR]);
        blocks.push((at, content));
    }
    // Slot by slot: what a disk is written is one range of it.
    let mut disks = vec![std::collections::BTreeMap::new(); SIX.slots];
    for (at, sector) in logical.iter().enumerate() {
        let s = start + at;
        disks[s % SIX.slots].insert(s / SIX.slots, sector.clone());
    }
    for disk in &disks {
        let rows: Vec<usize> = disk.keys().copied().collect();
        assert!(rows.windows(2).all(|pair| pair[1] == pair[0] + 1), "{rows:?}");
    }
    for first in 0..SIX.slots {
        for second in first..SIX.slots {
            let read = |s: usize| {
                let slot = s % SIX.slots;
                (slot != first && slot != second).then(|| disks[slot][&(s / SIX.slots)].clone())
            };
            for (at, content) in &blocks {
                let mut found = Vec::new();
                for row in SIX.rows(content.len()) {
                    found.extend(rebuild(&row.map(|sector| read(at + sector)).collect::<Vec<_>>()));
                }
                assert!(found == *content, "slots {first} and {second} are gone");
            }
        }
    }
}

/// No row has two sectors on one slot, wherever its block begins, in every shape that there may be.
#[test]
fn a_row_is_a_stripe_by_itself() {
    for parity in 1..=3 {
        for slots in parity + 1..=16 {
            let shape = Shape { slots, parity };
            for data in 1..=40 {
                let rows = shape.rows(data);
                assert!(rows.iter().all(|row| row.len() <= slots), "{shape:?} {data}");
                assert_eq!(rows.iter().map(|row| row.len() - parity).sum::<usize>(), data);
                assert!(rows.last().unwrap().end <= shape.asize(data));
            }
        }
    }
}

/// What fields of format 2 must hold.
#[test]
fn sizes_fit_the_fields_that_format_2_has_for_them() {
    // 16 MiB of data.
    const BLOCK_SECTORS_MAX: usize = 4096;
    let shapes = || (1..=3).flat_map(|parity| (parity + 1..=255).map(move |slots| Shape { slots, parity }));
    let longest = shapes().map(|shape| shape.asize(BLOCK_SECTORS_MAX)).max().unwrap();
    assert_eq!(longest, 16_384);
    assert!(u16::try_from(longest).is_ok(), "sectors of a place and of a piece");
    for shape in shapes().filter(|shape| shape.slots <= 16) {
        for data in 1..=64 {
            let asize = shape.asize(data);
            let max = shape.data_max(asize);
            // Several lengths have one asize, so a reader must be told the data of a piece, and of a map go by the most.
            assert!(max >= data && shape.asize(max) == asize, "{shape:?} {data}");
        }
    }
    assert_eq!([1, 2, 3, 4, 5].map(|data| SIX.asize(data)), [3, 6, 6, 6, 9]);
    assert_eq!(SIX.data_max(6), 4);
    // A map of one sector takes three: more than the two sectors of data that it may stand for. So whether a map is too long
    // cannot be asked of its allocated sectors.
    assert!(SIX.asize(1) > 2);
}

/// Whatever is allocated and freed in blocks, no hole is left that nothing fits into.
#[test]
fn every_hole_has_room_for_a_block() {
    for parity in 1..=3 {
        for slots in parity + 1..=16 {
            let shape = Shape { slots, parity };
            assert_eq!(shape.asize(1), parity + 1);
            assert!((1..=64).all(|data| shape.asize(data).is_multiple_of(parity + 1)), "{shape:?}");
        }
    }
}

/// Where the number of slots is a multiple of p + 1, blocks begin on some slots only, and full rows keep their parity there.
#[test]
fn parity_gathers_on_some_slots_of_some_shapes() {
    let slots_with_parity = |shape: Shape| {
        let starts = (0..shape.slots * (shape.parity + 1)).step_by(shape.parity + 1);
        let slots = starts.flat_map(|start| (0..shape.parity).map(move |at| (start + at) % shape.slots));
        slots.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(slots_with_parity(SIX), 4, "slots 2 and 5 have none, and are read half as often again");
    assert_eq!(slots_with_parity(Shape { slots: 10, parity: 2 }), 10);
    assert_eq!(slots_with_parity(Shape { slots: 4, parity: 1 }), 2);
    assert_eq!(slots_with_parity(Shape { slots: 11, parity: 3 }), 11);
}
