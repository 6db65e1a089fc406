use super::*;
use crate::exports::Squash;

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
        ("10.0.0.0/8(rw)", "::ffff:10.1.2.3", Some((false, Squash::Root, true))),
        ("0.0.0.0/0(ro)", "10.1.2.3", Some((true, Squash::Root, true))),
        ("0.0.0.0/0(ro)", "2001:db8::1", None),
        ("2001:db8::/32(rw) ::/0(ro)", "2001:db8::1", Some((false, Squash::Root, true))),
        ("2001:db8::/32(rw) ::/0(ro)", "2001:db9::1", Some((true, Squash::Root, true))),
        ("127.0.0.1(rw,no_root_squash) ::1(rw,no_root_squash)", "::1", Some((false, Squash::None, true))),
        ("192.0.2.1(rw)", "192.0.2.1", Some((false, Squash::Root, true))),
        ("192.0.2.1(rw)", "192.0.2.2", None),
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
    let rule = rule("*(rw,all_squash,anonuid=1000,anongid=100)", "10.0.0.1").unwrap();
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
        ("10.0.0.0/8(rw) 10.1.0.0/8(rw)", ShareError::Twice("10.0.0.0/8".into())),
        ("10.0.0.0/33(rw)", ShareError::Network("10.0.0.0/33".into())),
        ("10.0.0.0/255.0.255.0(rw)", ShareError::Network("10.0.0.0/255.0.255.0".into())),
        ("host/example(rw)", ShareError::Network("host/example".into())),
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
fn names_are_told_from_what_is_nothing() {
    for (value, told) in [
        ("host.example(rw)", "`host.example` is a host's name, and names are not looked up: write its address"),
        ("*.example.org(rw)", "is a pattern for names"),
        ("build[0-9](rw)", "is a pattern for names"),
        ("@build(rw)", "is a netgroup"),
        ("10.0.0.0/8(rw,sec=krb5)", "cannot be proven yet"),
        ("10.0.0.0/8(rw,hide)", "set sharenfs=off on what is to be hidden"),
    ] {
        let error = parse_sharenfs(value).map(|_| ()).expect_err(value).to_string();
        assert!(error.contains(told), "{value}: {error}");
    }
}

/// A program of the day before reads what is kept: it has no words but those that were always there.
#[test]
fn what_is_kept_has_the_first_words_alone() {
    for kept in ["on", "off", "rw", "10.0.0.0/8(rw,sync) *(ro,no_subtree_check)"] {
        assert_eq!(plain_sharenfs(kept), Ok(None), "{kept}");
    }
    for (typed, kept) in [
        ("10.0.0.0/8(rw,crossmnt) 192.0.2.7(ro)", "10.0.0.0/8(rw) 192.0.2.7(ro)"),
        ("*(rw,fsid=0,sec=sys,anonuid=7)", "*(rw,anonuid=7)"),
    ] {
        assert_eq!(plain_sharenfs(typed), Ok(Some(kept.into())), "{typed}");
    }
}

#[test]
fn other_hosts_are_told_from_this_one() {
    for (value, other) in
        [("off", false), ("on", true), ("127.0.0.1(rw) ::1(rw)", false), ("127.0.0.0/8(rw) 10.0.0.1(rw)", true)]
    {
        assert_eq!(parse_sharenfs(value).unwrap().reaches_other_hosts(), other, "{value}");
    }
}

/// In exports(5) `all_squash` and `root_squash` are two options. Here the last word was the only one that counted, so that a
/// line carried over from there, whose hosts were all one user, left root as root.
#[test]
fn everybody_squashed_stays_squashed_whatever_is_said_of_root() {
    let (none, root, all) = (Squash::None, Squash::Root, Squash::All);
    let cases = [
        ("rw", root),
        ("rw,no_root_squash", none),
        ("rw,no_root_squash,root_squash", root),
        ("rw,root_squash,no_root_squash", none),
        ("rw,all_squash", all),
        ("rw,all_squash,no_root_squash", all),
        ("rw,all_squash,root_squash", all),
        ("rw,no_root_squash,all_squash", all),
        ("rw,all_squash,no_all_squash", root),
        ("rw,all_squash,no_root_squash,no_all_squash", none),
        ("rw,no_all_squash", root),
    ];
    for (options, expected) in cases {
        for value in [options.to_owned(), format!("10.0.0.0/8({options})")] {
            assert_eq!(rule(&value, "10.0.0.1").map(|rule| rule.squash), Some(expected), "{value}");
        }
    }
}

/// `ro` is what exports(5) takes where neither is said, and `rw` was taken here: whoever brought a line along gave more away
/// than they knew. Whoever wrote a line for here would lose their writes by the other reading, so neither is taken.
#[test]
fn a_rule_says_whether_it_lets_write() {
    for value in ["10.0.0.0/8", "*", "*()", "*(sync,no_subtree_check)", "*(rw) 10.0.0.1(all_squash)", "no_root_squash"]
    {
        let refused = parse_sharenfs(value).expect_err(value);
        assert!(matches!(refused, ShareError::Access(_)), "{value}: {refused}");
    }
    let refused = parse_sharenfs("*(ro) 10.0.0.1(sync)").unwrap_err().to_string();
    assert!(refused.contains("`10.0.0.1(sync)`") && refused.contains("ro") && refused.contains("rw"), "{refused}");
    for (value, read_only) in [("*(ro)", true), ("*(rw)", false), ("*(ro,rw)", false), ("rw,ro", true), ("on", false)] {
        assert_eq!(rule(value, "10.0.0.1").map(|rule| rule.read_only), Some(read_only), "{value}");
    }
}

/// A client over IPv4 may reach a socket of IPv6, and has an address in `::ffff:0:0/96` then; the same is written in rules.
#[test]
fn an_ipv4_network_in_the_form_of_ipv6_is_that_network() {
    let cases = [
        ("::ffff:127.0.0.2(ro) *(rw)", "127.0.0.2", true),
        ("::ffff:127.0.0.2(ro) *(rw)", "::ffff:127.0.0.2", true),
        ("::ffff:127.0.0.2(ro) *(rw)", "127.0.0.3", false),
        ("::ffff:10.0.0.0/104(ro) *(rw)", "10.255.0.1", true),
        ("::ffff:10.0.0.0/104(ro) 10.1.0.0/16(rw)", "10.1.0.1", false),
        ("[::ffff:a01:203]/128(ro) 10.0.0.0/8(rw)", "10.1.2.3", true),
        ("::ffff:0.0.0.0/96(ro) 10.0.0.0/8(rw)", "11.0.0.1", true),
        ("::ffff:0.0.0.0/96(ro) *(rw)", "2001:db8::1", false),
    ];
    for (value, client, read_only) in cases {
        assert_eq!(rule(value, client).map(|rule| rule.read_only), Some(read_only), "{value} for {client}");
    }
    assert!(matches!(parse_sharenfs("10.0.0.1(ro) ::ffff:10.0.0.1(rw)"), Err(ShareError::Twice(_))));
    assert!(matches!(parse_sharenfs("::ffff:10.0.0.0/24(rw)"), Err(ShareError::Mapped(..))), "it is not 10.0.0.0/24");
    assert_eq!(rule("::/0(rw)", "10.0.0.1"), None, "as 0.0.0.0/0 is of IPv4 alone");
    assert!(!parse_sharenfs("::ffff:127.0.0.1(rw)").unwrap().reaches_other_hosts());
}
