use super::{bitmap, numbers};
use crate::codec::{Undecodable, encode};
use crate::nfs4::{FATTR4_SIZE, Fattr4, Fattr4Value, NfsFtype4};

#[test]
fn a_bitmap_is_as_long_as_its_highest_number_needs() {
    assert_eq!(*bitmap(&[]), []);
    assert_eq!(*bitmap(&[1, 0, 33]), [3, 2]);
    assert_eq!(numbers(&vec![3, 2, 0, 1 << 31].into()), [0, 1, 33, 127]);
}

#[test]
fn values_stand_in_the_order_of_their_numbers() {
    let (size, kind) = (Fattr4Value::Fattr4Size(5), Fattr4Value::Fattr4Type(NfsFtype4::Nf4Dir));
    let both = Fattr4::of(&[size.clone(), kind.clone()]);
    assert_eq!(encode(&both), [0, 0, 0, 1, 0, 0, 0, 0x12, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5]);
    assert_eq!(both.values(), Ok(vec![kind, size.clone()]));
    assert_eq!(size.bytes(), [0, 0, 0, 0, 0, 0, 0, 5]);
}

#[test]
fn no_value_is_left_over_or_missing() {
    let values = |bytes: &[u8]| Fattr4 { attrmask: bitmap(&[FATTR4_SIZE]), attr_vals: bytes.into() }.values();
    assert_eq!(values(&[0; 12]), Err(Undecodable::LeftOver(4)));
    assert_eq!(values(&[0; 4]), Err(Undecodable::Short));
    let unknown = Fattr4 { attrmask: bitmap(&[14, 127]), attr_vals: [0; 4].into() };
    assert_eq!(unknown.values(), Err(Undecodable::Unknown("Fattr4Value", 127)));
}
