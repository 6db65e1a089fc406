use super::*;
use proptest::prelude::*;

fn mark(last: bool, length: usize) -> [u8; 4] {
    (u32::try_from(length).unwrap() | if last { 1 << 31 } else { 0 }).to_be_bytes()
}

fn stream(records: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for fragments in records {
        for (at, fragment) in fragments.iter().enumerate() {
            bytes.extend(mark(at + 1 == fragments.len(), fragment.len()));
            bytes.extend(fragment);
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_cut_of_the_stream_gives_the_same_records(
        records in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90_000), 1..4), 1..4),
        cuts in prop::collection::vec(1_usize..70_000, 1..40),
        direct in any::<bool>(),
    ) {
        let bytes = stream(&records);
        let mut assembler = Assembler::default();
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let cut = (*cut).min(rest.len());
            match assembler.direct() {
                Some(buffer) if direct => {
                    let count = cut.min(buffer.capacity() - buffer.len());
                    buffer.extend_from_slice(&rest[..count]);
                    assembler.received(count, &mut found).unwrap();
                    rest = &rest[count..];
                }
                _ => {
                    assembler.feed(&rest[..cut], &mut found).unwrap();
                    rest = &rest[cut..];
                }
            }
        }
        let expected: Vec<Vec<u8>> = records.iter().map(|fragments| fragments.concat()).collect();
        prop_assert_eq!(found.iter().map(|record| record.to_vec()).collect::<Vec<_>>(), expected);
        prop_assert!(!assembler.is_partial());
        prop_assert_eq!(assembler.held_bytes(), 0);
    }
}

#[test]
fn an_announcement_allocates_nothing() {
    let mut assembler = Assembler::default();
    assembler.feed(&mark(true, RECORD_BYTES_MAX), &mut Vec::new()).unwrap();
    assert_eq!(assembler.held_bytes(), 0);
    assembler.feed(&[0; 1000], &mut Vec::new()).unwrap();
    assert!(assembler.held_bytes() <= 2000, "{}", assembler.held_bytes());
}

#[test]
fn too_long_records_are_refused_when_announced() {
    for length in [RECORD_BYTES_MAX + 1, 0x7fff_ffff] {
        let refused = Assembler::default().feed(&mark(true, length), &mut Vec::new());
        assert_eq!(refused, Err(RecordError::TooLong), "{length}");
    }
    let mut assembler = Assembler::default();
    assembler.feed(&mark(false, 4), &mut Vec::new()).unwrap();
    assembler.feed(&[0; 4], &mut Vec::new()).unwrap();
    assert_eq!(assembler.feed(&mark(true, RECORD_BYTES_MAX - 3), &mut Vec::new()), Err(RecordError::TooLong));
}

#[test]
fn a_stream_of_empty_fragments_ends() {
    let bytes = mark(false, 0).repeat(5000);
    assert_eq!(Assembler::default().feed(&bytes, &mut Vec::new()), Err(RecordError::TooManyFragments));
}
