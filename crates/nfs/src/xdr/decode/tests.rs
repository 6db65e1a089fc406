use super::*;

fn opaque(bytes: &[u8], most: usize) -> Result<Vec<u8>, Garbage> {
    let record = Bytes::copy_from_slice(bytes);
    Decoder::new(&record, 0).opaque(most).map(<[u8]>::to_vec)
}

#[test]
fn opaque_data_is_bounded_by_what_is_there() {
    assert_eq!(opaque(&[0, 0, 0, 2, 7, 8, 0, 0], 2), Ok(vec![7, 8]));
    assert_eq!(opaque(&[0, 0, 0, 0], 0), Ok(vec![]));
    assert_eq!(opaque(&[0, 0, 0, 2, 7, 8, 0, 0], 1), Err(Garbage), "longer than allowed");
    assert_eq!(opaque(&[0, 0, 0, 2, 7, 8, 0], 2), Err(Garbage), "padding cut off");
    assert_eq!(opaque(&[255, 255, 255, 255, 7, 8, 0, 0], usize::MAX), Err(Garbage), "length beyond the record");
    assert_eq!(opaque(&[0, 0, 0], 9), Err(Garbage), "length cut off");
}

#[test]
fn booleans_are_zero_or_one() {
    for (word, expected) in [(0, Ok(false)), (1, Ok(true)), (2, Err(Garbage)), (u32::MAX, Err(Garbage))] {
        let record = Bytes::copy_from_slice(&word.to_be_bytes());
        assert_eq!(Decoder::new(&record, 0).bool(), expected, "{word}");
    }
}

#[test]
fn reading_behind_the_end_fails_and_stays_there() {
    let record = Bytes::from_static(&[0, 0, 0, 1, 9]);
    let mut decoder = Decoder::new(&record, 0);
    assert_eq!(decoder.u32(), Ok(1));
    assert_eq!(decoder.u64(), Err(Garbage));
    assert_eq!(decoder.u32(), Err(Garbage));
    assert_eq!(decoder.position(), 4);
    assert_eq!(Decoder::new(&record, 77).u32(), Err(Garbage));
}
