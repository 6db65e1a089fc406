use super::{List, Opaque, Undecodable, Xdr, decode, encode};

type Short = Opaque<3>;

/// RFC 4506 §4: each of them as its text shows it.
#[test]
fn values_are_what_the_rfc_draws() {
    assert_eq!(encode(&0x0102_0304_u32), [1, 2, 3, 4]);
    assert_eq!(encode(&-2_i64), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(encode(&Short::from("ab")), [0, 0, 0, 2, b'a', b'b', 0, 0]);
    assert_eq!(encode(&[7_u8; 5]), [7, 7, 7, 7, 7, 0, 0, 0]);
    assert_eq!(encode(&List::<bool, 9>(vec![true, false])), [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(encode(&Some(Box::new(5_u32))), [0, 0, 0, 1, 0, 0, 0, 5]);
    assert_eq!(encode(&None::<Box<u32>>), [0; 4]);
}

#[test]
fn what_is_wrong_is_refused() {
    let refused = |bytes: &[u8]| decode::<Short>(bytes).unwrap_err();
    assert_eq!(refused(&[0, 0, 0, 4, 1, 2, 3, 4]), Undecodable::TooLong(4));
    assert_eq!(refused(&[0, 0, 0, 2, 1, 2, 0, 9]), Undecodable::Padding);
    assert_eq!(refused(&[0, 0, 0, 2, 1, 2]), Undecodable::Short);
    assert_eq!(refused(&[0, 0, 0, 0, 1]), Undecodable::LeftOver(1));
    assert_eq!(decode::<bool>(&[0, 0, 0, 2]), Err(Undecodable::Unknown("bool", 2)));
    // A count is not believed: no room is made for it.
    assert_eq!(decode::<List<u64, { u32::MAX }>>(&[0xff; 4]), Err(Undecodable::Short));
}

/// Tests send what is too long.
#[test]
fn encoding_looks_at_no_bound() {
    assert_eq!(encode(&Short::from([1; 4])), [0, 0, 0, 4, 1, 1, 1, 1]);
}

#[test]
fn decoding_takes_what_belongs_to_it() {
    let mut bytes: &[u8] = &[0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(*Short::decode(&mut bytes).unwrap(), [9]);
    assert_eq!(bytes, [0, 0, 0, 7]);
}
