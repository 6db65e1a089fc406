//! The tree names no mirror: a machine without a way to the one that it would name has its own.

use super::archive_among;

#[test]
fn the_guest_comes_from_where_the_machine_s_own_packages_do() {
    let cases = [
        ("bookworm http://near/debian/\nbookworm-security http://far/debian-security/\n", Some("http://near/debian/")),
        ("trixie http://near/debian/\nbookworm http://other/old/\n", Some("http://other/old/")),
        ("nodistro https://somebody/node\ntrixie http://near/debian\n", Some("http://near/debian")),
        ("nodistro https://somebody/node\n", None),
        ("", None),
    ];
    for (listed, expected) in cases {
        assert_eq!(archive_among(listed).as_deref(), expected, "{listed}");
    }
}
