use super::*;

fn value(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_value_comes_back_from_its_parts() {
    for (length, count) in
        [(0, 1), (1, 1), (PART_BYTES, 1), (PART_BYTES + 1, 2), (2 * PART_BYTES, 2), (XATTR_VALUE_MAX, 3)]
    {
        let name = vec![b'n'; XATTR_NAME_MAX];
        let parts = parts(&name, &value(length));
        assert_eq!(parts.len(), count, "{length} bytes");
        assert!(parts.iter().zip(0..).all(|(part, number)| part.len() <= VALUE_BYTES_MAX && may_be_part(number, part)));
        let first = First::decode(&parts[0]).unwrap();
        assert_eq!((&first.name[..], first.value_bytes, first.parts()), (&name[..], length, count as u64));
        assert_eq!(first.whole(&parts[1..]).unwrap(), value(length));
        assert_eq!(first.charge(), xattr_charge(&name, length));
    }
    assert_eq!(PARTS_MAX, 3);
}

#[test]
fn what_is_not_whole_is_none() {
    let all = parts(b"user.a", &value(XATTR_VALUE_MAX));
    let first = First::decode(&all[0]).unwrap();
    for behind in [&all[..0], &all[1..2], &all[..], &[all[2].clone(), all[2].clone()]] {
        assert_eq!(first.whole(behind), None);
    }
    let short = parts(b"user.a", b"value");
    for length in 0..short[0].len() {
        assert_eq!(First::decode(&short[0].slice(..length)), None, "cut to {length} bytes");
        assert!(!may_be_part(0, &short[0].slice(..length)));
    }
    let longer = Bytes::from([&short[0][..], b"x"].concat());
    assert_eq!(First::decode(&longer), None);
    let mut nameless = short[0].to_vec();
    nameless[0] = 0;
    assert_eq!(First::decode(&nameless.into()), None);
    for (part, value) in [(1, Bytes::new()), (1, value(PART_BYTES + 1).into()), (PARTS_MAX, value(1).into())] {
        assert!(!may_be_part(part, &value), "part {part} of {} bytes", value.len());
    }
}

#[test]
fn no_flipped_bit_panics() {
    let part = &parts(b"user.name", b"a value")[0];
    for at in 0..part.len() * 8 {
        let mut damaged = part.to_vec();
        damaged[at / 8] ^= 1 << (at % 8);
        let _ = First::decode(&damaged.into());
    }
}

#[test]
fn an_account_is_kept() {
    let one = XattrAccount::default().and(40);
    assert_eq!(one, XattrAccount { count: 1, bytes: 40 });
    assert_eq!(one.and(7).without(40), XattrAccount { count: 1, bytes: 7 });
    assert_eq!(one.without(9), XattrAccount::default(), "of none nothing is left");
    assert_eq!(XattrAccount::default().without(9), XattrAccount::default());
    let encoded = |account: XattrAccount| {
        let mut bytes = Vec::new();
        account.encode(&mut bytes);
        assert_eq!(bytes.len(), XattrAccount::BYTES);
        XattrAccount::decode(&bytes)
    };
    assert_eq!(encoded(one), Ok(one));
    let most = XattrAccount { count: XATTRS_MAX, bytes: XATTRS_BYTES_MAX };
    assert_eq!(encoded(most), Ok(most));
    for wrong in [XattrAccount::default(), most.and(0), XattrAccount { count: 1, bytes: XATTRS_BYTES_MAX + 1 }] {
        assert!(encoded(wrong).is_err(), "{wrong:?}");
    }
}
