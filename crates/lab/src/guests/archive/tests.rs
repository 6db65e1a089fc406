use super::address_among;

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
        assert_eq!(address_among(listed, "bookworm").as_deref(), expected, "{listed}");
    }
}
