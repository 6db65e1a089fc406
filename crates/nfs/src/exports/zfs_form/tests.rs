use super::*;
use crate::exports::{parse_sharenfs, plain_sharenfs};

#[test]
fn hosts_behind_options_are_rules() {
    let cases = [
        ("rw=@10.0.0.0/8", "10.0.0.0/8(rw)"),
        ("rw=@10.0.0.0/8,no_root_squash", "10.0.0.0/8(rw,no_root_squash)"),
        ("rw=@10.0.0.0/8:@192.168.0.0/16,ro=192.0.2.7", "10.0.0.0/8(rw) 192.168.0.0/16(rw) 192.0.2.7(ro)"),
        (
            "rw=@10.0.0.0/8:@192.168.0.0/16,ro=@172.16.0.0/12,root=@10.0.0.1,no_root_squash,sec=sys,crossmnt",
            "10.0.0.0/8(rw,no_root_squash) 192.168.0.0/16(rw,no_root_squash) 172.16.0.0/12(ro,no_root_squash) 10.0.0.1(rw,no_root_squash)",
        ),
        ("sec=sys,rw=@10.0.0.0/8,root=@10.0.0.1", "10.0.0.0/8(rw) 10.0.0.1(rw,no_root_squash)"),
        (
            "rw=@10.1.0.0/16,ro=@10.2.0.0/16,root=@10.0.0.0/8",
            "10.1.0.0/16(rw,no_root_squash) 10.2.0.0/16(ro,no_root_squash)",
        ),
        ("ro,rw=@10.0.0.0/8", "10.0.0.0/8(rw) *(ro)"),
        ("rw,root=@10.0.0.1", "*(rw) 10.0.0.1(rw,no_root_squash)"),
        ("rw=@10.0.0.0/8,root=@10.0.0.0/8", "10.0.0.0/8(rw,no_root_squash)"),
        (
            "rw=@10.0.0.0/8,all_squash,anon=7,root=@10.0.0.1",
            "10.0.0.0/8(rw,all_squash,anonuid=7) 10.0.0.1(rw,all_squash,anonuid=7)",
        ),
        ("rw=[2001:db8::]/32:@[2001:db9::1]:*", "2001:db8::/32(rw) 2001:db9::1(rw) *(rw)"),
        ("rw,crossmnt", "*(rw)"),
        ("rw,fsid=7,insecure_locks,subtree_check,insecure", "*(rw,insecure)"),
    ];
    for (value, plain) in cases {
        assert_eq!(plain_sharenfs(value), Ok(Some(plain.into())), "{value}");
        assert_eq!(parse_sharenfs(value), parse_sharenfs(plain), "{value}");
        assert_eq!(plain_sharenfs(plain), Ok(None), "what is kept needs no other words");
    }
}

#[test]
fn what_is_not_there_is_answered() {
    let cases = [
        ("rw=filer.example.org", "`filer.example.org` is a host's name"),
        ("rw=@build", "`@build` is a netgroup"),
        ("rw=*.example.org", "`*.example.org` is a pattern"),
        ("rw=.example.org", "a host's name"),
        ("rw=-10.0.0.1", "`-10.0.0.1` cannot be had"),
        ("rw=@10.0.0.0/8,sec=krb5p", "`sec=krb5p` cannot be had: who a client is cannot be proven yet"),
        ("rw=@10.0.0.0/8,sec=sys:krb5", "Kerberos"),
        ("rw=@10.0.0.0/8,xprtsec=mtls", "connections are not encrypted yet"),
        ("rw=@10.0.0.0/8,root=@192.0.2.1", "`192.0.2.1` stands behind root="),
        ("root=@192.0.2.1", "stands behind root="),
        ("rw=@10.0.0.0/8,ro=@10.0.0.0/8", "stands twice"),
        ("rw=@10.0.0.0/8,async", "`async` is refused"),
        ("rw=@10.0.0.0/8,nosuid", "clients mount with that option"),
        ("rw=@10.0.0.0/8,colour", "unknown option `colour`; known are ro"),
        ("rw=", "is not an address"),
        ("no_root_squash,crossmnt", "says neither ro nor rw"),
    ];
    for (value, told) in cases {
        let error = parse_sharenfs(value).map(|_| ()).expect_err(value).to_string();
        assert!(error.contains(told), "{value}: {error}");
    }
    let many = format!(
        "rw={}",
        (0..300).map(|host| format!("10.0.{}.{}", host / 256, host % 256)).collect::<Vec<_>>().join(":")
    );
    assert_eq!(parse_sharenfs(&many), Err(ShareError::TooMany));
}
