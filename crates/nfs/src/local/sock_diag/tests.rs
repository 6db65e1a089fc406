use super::*;

#[test]
fn the_request_byte_by_byte() {
    let bytes = request("127.0.0.2:40000".parse().unwrap(), "127.0.0.1:2049".parse().unwrap());
    let mut expected = Vec::new();
    expected.extend(72_u32.to_ne_bytes());
    expected.extend(20_u16.to_ne_bytes());
    expected.extend(1_u16.to_ne_bytes());
    expected.extend([1_u32.to_ne_bytes(), [0; 4], [2, 6, 0, 0], [255; 4], [0x9c, 0x40, 0x08, 0x01]].concat());
    expected.extend([[127, 0, 0, 2], [0; 4], [0; 4], [0; 4], [127, 0, 0, 1], [0; 4], [0; 4], [0; 4]].concat());
    expected.extend([[0; 4], [255; 4], [255; 4]].concat());
    assert_eq!(bytes, expected);
    let v6 = request("[fe80::2%3]:1".parse().unwrap(), "[fe80::1%3]:2".parse().unwrap());
    assert_eq!((v6[16], &v6[60..64]), (10, &3_u32.to_ne_bytes()[..]), "IPv6, and on which interface");
}

fn answer(state: u8, uid: u32, inode: u32) -> Vec<u8> {
    let mut bytes = vec![0; 88];
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[17] = state;
    bytes[80..84].copy_from_slice(&uid.to_ne_bytes());
    bytes[84..88].copy_from_slice(&inode.to_ne_bytes());
    bytes
}

/// The kernel says uid 0 of a socket that no process has, and of one that is on its way out or not yet there.
#[test]
fn only_an_established_socket_with_an_inode_has_a_user() {
    for state in 0..=12 {
        let expected = (state == ESTABLISHED).then_some(7);
        assert_eq!(read_answer(&answer(state, 7, 9)).unwrap(), expected, "state {state}");
        assert_eq!(read_answer(&answer(state, 0, 0)).unwrap(), None, "state {state}, nobody's");
    }
}

#[test]
fn errors_and_what_is_no_answer() {
    let mut error = vec![0; 36];
    error[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
    error[16..20].copy_from_slice(&(-2_i32).to_ne_bytes());
    assert_eq!(read_answer(&error).unwrap(), None, "there is no such socket");
    error[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
    assert_eq!(read_answer(&error).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    let whole = answer(ESTABLISHED, 7, 9);
    for cut in 0..whole.len() {
        assert!(read_answer(&whole[..cut]).is_err(), "cut to {cut}");
    }
    assert!(read_answer(&[0; 88]).is_err(), "another kind of message");
}
