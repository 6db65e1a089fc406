use proptest::prelude::*;

use super::*;

/// What a reader sees of 0..64 over a lower content of all `b'.'`; zeroes are shown as `b'0'`.
fn shown(layer: &DataLayer) -> Vec<u8> {
    let mut out = Vec::new();
    for (range, seen) in layer.view(0..64) {
        assert_eq!(range.start, out.len() as u64, "the view has neither gaps nor overlaps");
        match seen {
            Seen::Piece(Piece::Memory { bytes, .. }) => out.extend_from_slice(&bytes),
            Seen::Piece(Piece::Placed { .. }) => unreachable!("nothing is placed here"),
            Seen::Zero => out.resize(range.end as usize, b'0'),
            Seen::Below => out.resize(range.end as usize, b'.'),
        }
    }
    out
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Cut(u64),
    Punch(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..60, prop::collection::vec(b'a'..=b'z', 1..16)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        1 => (0u64..64).prop_map(Step::Cut),
        2 => (0u64..64, 1u64..20).prop_map(|(at, length)| Step::Punch(at, at + length)),
    ]
}

proptest! {
    #[test]
    fn a_layer_shows_what_an_array_would(steps in prop::collection::vec(step(), 1..40)) {
        let mut layer = DataLayer::default();
        let mut model = vec![b'.'; 64];
        for step in steps {
            match step {
                Step::Write(at, bytes) => {
                    for (i, byte) in bytes.iter().enumerate() {
                        if let Some(cell) = model.get_mut(at as usize + i) {
                            *cell = *byte;
                        }
                    }
                    let logged = bytes.len() % 2 == 0;
                    layer.insert(at, Piece::Memory { bytes: bytes.into(), logged });
                }
                Step::Punch(from, to) => {
                    model[from as usize..to.min(64) as usize].fill(b'0');
                    layer.punch(from..to);
                    let ranges: Vec<_> = layer.punched().ranges().collect();
                    prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{ranges:?}");
                }
                Step::Cut(size) => {
                    model[size as usize..].fill(b'0');
                    layer.truncate(size);
                }
            }
            prop_assert_eq!(shown(&layer), model.clone());
            let unlogged = |(_, piece): (u64, &Piece)| match piece {
                Piece::Memory { bytes, logged: false } => bytes.len() as u64,
                _ => 0,
            };
            prop_assert_eq!(layer.unlogged_bytes(), layer.pieces().map(unlogged).sum::<u64>());
            for start in 0..60 {
                let (range, end) = (start..start + 4, start as usize + 4);
                if let Some(bytes) = layer.of_long_piece(&range, 6) {
                    prop_assert_eq!(&bytes[..], &model[start as usize..end]);
                }
                let is_of_one = |(offset, piece): (u64, &Piece)| {
                    piece.length() >= 6 && offset <= range.start && offset + piece.length() >= range.end
                };
                prop_assert_eq!(layer.of_long_piece(&range, 6).is_some(), layer.pieces().any(is_of_one));
            }
        }
    }
}
