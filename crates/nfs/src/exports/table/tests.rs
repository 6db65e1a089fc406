use proptest::prelude::*;

use super::*;
use crate::exports::{parse_sharenfs, plain_sharenfs};

/// Path and rules of each, and lines with what is said of them.
fn read(file: &str) -> (Vec<(String, String)>, Vec<String>, Vec<String>) {
    let ExportsTable { exports, refused, notes } = read_exports(file.as_bytes());
    let said =
        |remarks: Vec<Remark>| remarks.into_iter().map(|remark| format!("{}: {}", remark.line, remark.text)).collect();
    let exports = exports.into_iter().map(|export| (export.path, export.sharenfs.unwrap_or_default()));
    (exports.collect(), said(refused), said(notes))
}

#[test]
fn what_stands_in_such_a_file() {
    let cases = [
        ("/srv 10.0.0.0/8(rw)", "/srv", "10.0.0.0/8(rw)"),
        (
            "/srv 10.0.0.0/255.0.0.0(rw) 192.0.2.7(ro,no_root_squash) *()",
            "/srv",
            "10.0.0.0/8(rw) 192.0.2.7(ro,no_root_squash) *(ro)",
        ),
        ("/srv\t10.0.0.1", "/srv", "10.0.0.1(ro)"),
        (
            "/srv -rw,no_root_squash 10.0.0.1 10.0.0.2(ro) 10.0.0.3(root_squash)",
            "/srv",
            "10.0.0.1(rw,no_root_squash) 10.0.0.2(ro,no_root_squash) 10.0.0.3(rw)",
        ),
        ("/srv 10.0.0.1(rw) # the build host (rw)", "/srv", "10.0.0.1(rw)"),
        ("# all of it\n\n  /srv \\\n   10.0.0.1(rw) \\\n   10.0.0.2(ro)\n", "/srv", "10.0.0.1(rw) 10.0.0.2(ro)"),
        ("\"/srv/with blank\" 10.0.0.1(rw)", "/srv/with blank", "10.0.0.1(rw)"),
        ("/srv/with\\040blank 10.0.0.1(rw)", "/srv/with blank", "10.0.0.1(rw)"),
        ("/srv/a\\043b\\134c 10.0.0.1(rw)", "/srv/a#b\\c", "10.0.0.1(rw)"),
        ("/srv//x/./y/ 2001:db8::/32(rw,sync,subtree_check,fsid=3f2a,sec=sys)", "/srv/x/y", "2001:db8::/32(rw)"),
        (
            "/srv *(rw,all_squash,anonuid=1000,anongid=100,insecure,no_subtree_check,crossmnt,nohide)",
            "/srv",
            "*(rw,all_squash,anonuid=1000,anongid=100,insecure)",
        ),
        ("/ 10.0.0.1(rw)", "/", "10.0.0.1(rw)"),
        ("/srv 10.0.0.1(rw)\r\n", "/srv", "10.0.0.1(rw)"),
        ("/srv 10.0.0.1(rw)\n/srv 10.0.0.2(ro)", "/srv", "10.0.0.1(rw) 10.0.0.2(ro)"),
    ];
    for (file, path, rules) in cases {
        assert_eq!(read(file), (vec![(path.into(), rules.into())], vec![], vec![]), "{file}");
    }
}

#[test]
fn what_is_not_taken_is_told_with_its_line() {
    let cases = [
        ("/srv filer(rw)", "1: filer: `filer` is a host's name"),
        ("/srv *.example.org(rw)", "1: *.example.org: `*.example.org` is a pattern"),
        ("/srv @build(rw)", "1: @build: `@build` is a netgroup"),
        ("/srv gss/krb5(rw)", "1: gss/krb5: `gss/krb5` asks for Kerberos"),
        ("#\n\n/srv 10.0.0.1(rw,async)", "3: 10.0.0.1: `async` is refused"),
        ("/srv 10.0.0.1(rw,sec=krb5i:krb5p)", "1: 10.0.0.1: `sec=krb5i:krb5p` cannot be had"),
        ("/srv 10.0.0.1(rw,colour)", "1: 10.0.0.1: unknown option `colour`; known are ro, rw"),
        ("/srv 10.0.0.1(rw", "1: `10.0.0.1(rw` is no client"),
        ("/srv 10.0.0.1(rw)x", "is no client"),
        ("/srv 10.0.0.1(rw)\n/srv \\\n 10.0.0.1(ro)", "2: 10.0.0.1: `10.0.0.1` stands twice"),
        ("srv 10.0.0.1(rw)", "1: `srv` is no path"),
        ("/srv/../etc 10.0.0.1(rw)", "leads up"),
        ("\"/srv 10.0.0.1(rw)\n/x 10.0.0.1(rw)", "1: a quote is not closed"),
        ("/srv 10.0.0.300(rw)", "is not an address"),
        ("/srv\\377 10.0.0.1(rw)", "is not text"),
        ("/srv 10.0.0.1(anonuid=x)", "needs a number"),
        ("/srv 10.0.0.1(refer=/x@10.0.0.2)", "clients are not sent to other servers"),
    ];
    for (file, told) in cases {
        let (_, refused, _) = read(file);
        assert_eq!(refused.len(), 1, "{file}: {refused:?}");
        assert!(refused[0].contains(told), "{file}: {refused:?}");
    }
    // What is wrong with one takes all from its path, as a network that is left may have it in it, and nothing from other paths.
    let (exports, refused, _) =
        read("/a filer(rw) 10.0.0.1(rw,async,colour)\n/b 10.0.0.1(rw) 10.0.0.2(rw,pnfs)\n/c 10.0.0.1(rw)\n");
    assert_eq!(
        exports,
        [("/a".into(), String::new()), ("/b".into(), String::new()), ("/c".into(), "10.0.0.1(rw)".into())]
    );
    assert_eq!(refused.len(), 4, "{refused:?}");
}

/// exports(5) warns of both.
#[test]
fn what_may_not_be_meant_is_noted() {
    let (exports, refused, notes) = read("/srv 10.0.0.0/8 (rw)\n/pub\n/root 10.0.0.1(ro,fsid=0)");
    assert_eq!(exports[0].1, "10.0.0.0/8(ro) *(rw)");
    assert_eq!((exports[1].1.as_str(), refused.len()), ("*(ro)", 0));
    let told =
        ["1: `(rw)` has no client before it", "2: /pub names no client: that is everybody", "3: fsid=0 makes no root"];
    assert!(notes.len() == 3 && notes.iter().zip(told).all(|(note, told)| note.starts_with(told)), "{notes:?}");
}

/// Pieces that such files are made of, in an order that nobody would write.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "/srv",
        "/",
        " ",
        "\t",
        "\n",
        "\\\n",
        "\"",
        "#",
        "(",
        ")",
        ",",
        "-",
        "=",
        "@",
        "*",
        ":",
        "[",
        "]",
        "\\040",
        "\\777",
        "\\00",
        "rw",
        "ro",
        "async",
        "10.0.0.1",
        "10.0.0.0/8",
        "2001:db8::/32",
        "::ffff:10.0.0.1",
        "anonuid=",
        "99999999999",
        "fsid=0",
        "sec=",
        "root=",
        "rw=",
        "filer",
        "..",
        "\r",
        "\0",
    ];
    prop_oneof![
        8 => proptest::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ]
}

/// The kernel goes by the first network of a line that has the host in it, and `sharenfs` by the smallest.
#[test]
fn a_network_behind_one_that_holds_it_is_noted() {
    let file =
        b"/a 10.0.0.0/8(ro) 10.1.0.0/16(rw)\n/b 10.1.0.0/16(rw) 10.0.0.0/8(ro)\n/c 10.0.0.0/8(ro) 10.1.0.1(rw) *(rw)\n";
    let table = read_exports(file);
    let noted: Vec<_> = table.notes.iter().map(|note| (note.line, note.text.contains("lies in 10.0.0.0/8"))).collect();
    assert_eq!((noted, table.refused), (vec![(1, true)], vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever stands there is read to its end, and what comes of it says the same by itself.
    #[test]
    fn whatever_stands_there_is_read(pieces in proptest::collection::vec(piece(), 0..60)) {
        let file = pieces.concat();
        let lines = file.iter().filter(|byte| **byte == b'\n').count() + 1;
        let table = read_exports(&file);
        for export in &table.exports {
            prop_assert!(export.path.starts_with('/') && (1..=lines).contains(&export.line));
            if let Some(rules) = &export.sharenfs {
                prop_assert!(parse_sharenfs(rules).is_ok_and(|rules| !rules.is_off()), "{rules}");
                prop_assert_eq!(plain_sharenfs(rules), Ok(None));
            }
        }
        for remark in table.refused.iter().chain(&table.notes) {
            prop_assert!((1..=lines).contains(&remark.line), "{remark:?}");
        }
    }

    /// Nor does a value of the property, and what is kept of it says the same.
    #[test]
    fn whatever_is_typed_is_answered(pieces in proptest::collection::vec(piece(), 0..12)) {
        let value = String::from_utf8_lossy(&pieces.concat()).into_owned();
        if let (Ok(rules), Ok(Some(plain))) = (parse_sharenfs(&value), plain_sharenfs(&value)) {
            prop_assert_eq!(parse_sharenfs(&plain), Ok(rules));
        }
    }
}
