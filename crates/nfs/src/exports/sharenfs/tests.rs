use super::*;

fn rule(value: &str, client: &str) -> Option<Rule> {
    parse_sharenfs(value).unwrap().rule(client.parse().unwrap())
}

#[test]
fn who_gets_what() {
    /// Read-only, squash, secure.
    type Access = (bool, Squash, bool);
    let cases: &[(&str, &str, Option<Access>)] = &[
        ("off", "127.0.0.1", None),
        ("on", "192.0.2.7", Some((false, Squash::Root, true))),
        ("on", "127.0.0.1", Some((false, Squash::Root, true))),
        ("on", "2001:db8::1", Some((false, Squash::Root, true))),
        ("rw,no_root_squash", "192.0.2.7", Some((false, Squash::None, true))),
        ("10.0.0.0/8(ro)", "10.255.0.1", Some((true, Squash::Root, true))),
        ("10.0.0.0/8(ro)", "11.0.0.1", None),
        ("10.0.0.0/255.0.0.0(ro)", "10.9.9.9", Some((true, Squash::Root, true))),
        ("*(ro) 10.0.0.0/8(rw,secure)", "10.0.0.1", Some((false, Squash::Root, true))),
        ("*(ro) 10.0.0.0/8(rw,secure)", "9.0.0.1", Some((true, Squash::Root, true))),
        ("10.0.0.0/8(rw) 10.1.2.3(ro,all_squash)", "10.1.2.3", Some((true, Squash::All, true))),
        ("10.0.0.0/8", "::ffff:10.1.2.3", Some((false, Squash::Root, true))),
        ("0.0.0.0/0(ro)", "10.1.2.3", Some((true, Squash::Root, true))),
        ("0.0.0.0/0(ro)", "2001:db8::1", None),
        ("2001:db8::/32(rw) ::/0(ro)", "2001:db8::1", Some((false, Squash::Root, true))),
        ("2001:db8::/32(rw) ::/0(ro)", "2001:db9::1", Some((true, Squash::Root, true))),
        ("127.0.0.1(rw,no_root_squash) ::1(rw,no_root_squash)", "::1", Some((false, Squash::None, true))),
        ("192.0.2.1", "192.0.2.1", Some((false, Squash::Root, true))),
        ("192.0.2.1", "192.0.2.2", None),
        ("192.0.2.1(rw,insecure)", "192.0.2.1", Some((false, Squash::Root, false))),
        ("rw,insecure,secure", "192.0.2.1", Some((false, Squash::Root, true))),
    ];
    for (value, client, expected) in cases {
        let found = rule(value, client).map(|rule| (rule.read_only, rule.squash, rule.secure));
        assert_eq!(found, *expected, "{value} for {client}");
    }
}

#[test]
fn anonymous_ids() {
    let rule = rule("*(all_squash,anonuid=1000,anongid=100)", "10.0.0.1").unwrap();
    assert_eq!((rule.anon_uid, rule.anon_gid), (1000, 100));
}

#[test]
fn what_is_refused() {
    let cases: &[(&str, ShareError)] = &[
        ("", ShareError::Empty),
        ("  ", ShareError::Empty),
        ("rw,async", ShareError::Async),
        ("*(async)", ShareError::Async),
        ("*(rw", ShareError::Bracket("*(rw".into())),
        ("*(rw) *(ro)", ShareError::Twice("*".into())),
        ("10.0.0.0/8 10.1.0.0/8", ShareError::Twice("10.0.0.0/8".into())),
        ("10.0.0.0/33(rw)", ShareError::Network("10.0.0.0/33".into())),
        ("10.0.0.0/255.0.255.0(rw)", ShareError::Network("10.0.0.0/255.0.255.0".into())),
        ("host.example(rw)", ShareError::Network("host.example".into())),
        ("*(anonuid=x)", ShareError::Id("anonuid=x".into())),
        ("*(anonuid=4294967296)", ShareError::Id("anonuid=4294967296".into())),
        ("*(krb5)", ShareError::Option("krb5".into())),
        ("nonsense", ShareError::Option("nonsense".into())),
    ];
    for (value, expected) in cases {
        assert_eq!(parse_sharenfs(value), Err(expected.clone()), "{value}");
    }
}

#[test]
fn other_hosts_are_told_from_this_one() {
    for (value, other) in [("off", false), ("on", true), ("127.0.0.1 ::1", false), ("127.0.0.0/8 10.0.0.1", true)] {
        assert_eq!(parse_sharenfs(value).unwrap().reaches_other_hosts(), other, "{value}");
    }
}
