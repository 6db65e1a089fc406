use super::*;
use tally_base::{Rng, SystemRng};

fn sample() -> Handle {
    Handle {
        pool: PoolGuid(0x0102_0304_0506_0708),
        dataset: DatasetId(9),
        object: ObjectRef { id: ObjectId(77), generation: Generation(u64::MAX) },
    }
}

const KEY: [u8; 32] = [7; 32];

fn opens(bytes: &[u8], key: &[u8; 32]) -> Option<Handle> {
    Handle::parse(bytes).and_then(|unchecked| unchecked.verify(key))
}

#[test]
fn a_sealed_handle_opens_with_its_key_only() {
    let bytes = sample().seal(&KEY);
    assert_eq!(opens(&bytes, &KEY), Some(sample()));
    assert_eq!(opens(&bytes, &[8; 32]), None);
}

#[test]
fn the_layout_is_the_drawn_one() {
    let bytes = sample().seal(&KEY);
    assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[16..24], 9_u64.to_be_bytes());
    assert_eq!(bytes[24..32], 77_u64.to_be_bytes());
    assert_eq!(bytes[32..40], [255; 8]);
}

#[test]
fn every_flipped_bit_and_every_other_length_is_refused() {
    let bytes = sample().seal(&KEY);
    for bit in 0..HANDLE_BYTES * 8 {
        let mut forged = bytes;
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(opens(&forged, &KEY), None, "bit {bit}");
    }
    for length in (0..HANDLE_BYTES).chain([HANDLE_BYTES + 1, 64]) {
        let mut other = bytes.to_vec();
        other.resize(length, 0);
        assert_eq!(opens(&other, &KEY), None, "length {length}");
    }
}

/// A million handles that nobody signed: random ones, and true ones with other numbers in them.
#[test]
fn no_forged_handle_is_accepted() {
    let seed = SystemRng.next_u64();
    println!("seed {seed}");
    let mut state = seed;
    let mut next = move || {
        // SplitMix64: enough to scatter, and repeatable from the seed.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let honest = sample().seal(&KEY);
    for round in 0..1_000_000 {
        let mut forged = honest;
        if round % 2 == 0 {
            for chunk in forged[8..].chunks_exact_mut(8) {
                chunk.copy_from_slice(&next().to_be_bytes());
            }
        } else {
            let field = 8 + usize::try_from(next() % 6).unwrap() * 8;
            let other = next();
            if forged[field..field + 8] == other.to_be_bytes() {
                continue;
            }
            forged[field..field + 8].copy_from_slice(&other.to_be_bytes());
        }
        assert_eq!(opens(&forged, &KEY), None, "round {round} of seed {seed}");
    }
}
