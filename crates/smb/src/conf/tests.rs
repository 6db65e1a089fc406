use proptest::prelude::*;

use super::*;
use crate::share::parse_sharesmb;

fn asked(dataset: &str, value: &str, dir: &str) -> Asked {
    Asked {
        dataset: dataset.into(),
        share: parse_sharesmb(value).unwrap().unwrap(),
        set_on: dataset.into(),
        dir: (!dir.is_empty()).then(|| dir.into()),
        is_mounted: !dir.is_empty(),
        has_place: false,
        is_read_only: false,
        refquota: None,
        is_exported: false,
        is_accepted: true,
    }
}

fn place(dir: &str, is_exported: bool) -> Place {
    Place { dir: dir.into(), is_exported }
}

fn text_of(asked: Vec<Asked>, mounted: &[Place]) -> String {
    text(&plan(asked, mounted), Path::new("/run/tally/smb.conf"))
}

/// Sections by name, each with its parameters: as Samba reads lines.
fn read(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut sections: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        assert!(!line.ends_with('\\'), "it goes on in the next line: {line}");
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            sections.push((name.to_owned(), BTreeMap::new()));
            continue;
        }
        let (key, value) = line.split_once(" = ").expect("a parameter");
        let (_, section) = sections.last_mut().expect("a section");
        assert_eq!(section.insert(key.to_owned(), value.to_owned()), None, "{key} stands twice");
    }
    sections
}

#[test]
fn a_share_is_what_its_property_says() {
    let docs = asked("tank/docs", "name=Docs,users=@staff:ann", "/srv/docs");
    let expected = "\
# Written by tally, from the property sharesmb of its datasets, and anew when they or their mounts change: nothing is to be changed here.
# Samba reads it by a line in smb.conf: include = /run/tally/smb.conf

[Docs]
\tcomment = tank/docs
\tpath = /srv/docs
\tavailable = yes
\tread only = no
\tguest ok = no
\tvalid users = @staff ann
\tstrict sync = yes
\tsync always = no
\tkernel oplocks = no
\tkernel share modes = no
\tea support = yes
\tstore dos attributes = yes
\tvfs objects = catia fruit streams_xattr
\tfruit:metadata = stream
\tfruit:resource = file
\toplocks = yes
\tlevel2 oplocks = yes
\tdurable handles = yes
\tposix locking = no
\tkernel change notify = no

[global]
";
    assert_eq!(text_of(vec![docs], &[]), expected);
}

#[test]
fn each_cell_of_the_table() {
    let one = |value: &str, change: &dyn Fn(&mut Asked), mounted: &[Place]| {
        let mut it = asked("tank/x", value, "/srv/x");
        change(&mut it);
        read(&text_of(vec![it], mounted)).swap_remove(0).1
    };
    let says = |section: &BTreeMap<String, String>, expected: &[(&str, &str)]| {
        for (key, value) in expected {
            assert_eq!(section.get(*key).map(String::as_str), Some(*value), "{key} of {section:?}");
        }
    };
    let of_use = |is_alone: bool| {
        let yes = |is_it: bool| if is_it { "yes" } else { "no" };
        let keeps = ["oplocks", "level2 oplocks", "durable handles"].map(|key| (key, yes(is_alone)));
        [&keeps[..], &[("posix locking", yes(!is_alone)), ("kernel change notify", yes(!is_alone))]].concat()
    };
    let (alone, mixed) = (of_use(true), of_use(false));
    let exported = |it: &mut Asked| it.is_exported = true;
    says(&one("on", &|_| {}, &[]), &alone);
    says(&one("on", &exported, &[]), &mixed);
    says(&one("exclusive=on", &exported, &[]), &alone);
    says(&one("exclusive=off", &|_| {}, &[]), &mixed);
    // What is mounted in its directory is in the share, too; what is beside it is not.
    says(&one("on", &|_| {}, &[place("/srv/x/below", true)]), &mixed);
    says(&one("on", &|_| {}, &[place("/srv/xy", true), place("/srv", true), place("/srv/x/below", false)]), &alone);
    says(&one("guest=yes", &|_| {}, &[]), &[("guest ok", "yes")]);
    says(&one("on", &|it| it.is_read_only = true, &[]), &[("read only", "yes")]);
    let without_macs = one("macos=off", &|_| {}, &[]);
    says(&without_macs, &[("vfs objects", "streams_xattr")]);
    assert!(!without_macs.keys().any(|key| key.starts_with("fruit")), "{without_macs:?}");
    // Backups of Macs: the dataset for itself, and no more than it may have.
    let backups =
        [("fruit:time machine", "yes"), ("fruit:time machine max size", "536870912000"), ("available", "yes")];
    says(&one("timemachine=500G", &|_| {}, &[]), &[&backups[..], &alone].concat());
    says(
        &one("timemachine=500G", &|it| it.refquota = Some(7 << 30), &[]),
        &[("fruit:time machine max size", "7516192768")],
    );
    says(
        &one("timemachine=500G", &|it| it.refquota = Some(1 << 50), &[]),
        &[("fruit:time machine max size", "536870912000")],
    );
    says(&one("timemachine=500G", &exported, &[]), &[("available", "no")]);
    says(&one("timemachine=500G,exclusive=on", &exported, &[]), &[("available", "no")]);
    says(&one("timemachine=500G", &|_| {}, &[place("/srv/x/y", true)]), &[("available", "no")]);
    // What is not mounted.
    says(&one("on", &|it| it.is_mounted = false, &[]), &[("available", "no"), ("path", "/srv/x")]);
    let nowhere = |it: &mut Asked| (it.dir, it.is_mounted) = (None, false);
    says(&one("on", &nowhere, &[]), &[("available", "no"), ("path", "/nonexistent")]);
}

#[test]
fn of_two_with_one_name_one_is_shared() {
    let shares = [
        asked("tank/a", "name=My Files", "/srv/a"),
        asked("tank/b", "name=myfiles", "/srv/b"),
        asked("tank/c", "name=Other", "/srv/c"),
    ];
    let planned = plan(shares.into(), &[]);
    assert_eq!(planned[1].problem, Some(Problem::Taken("tank/a".into())));
    let text = text(&planned, Path::new("x"));
    let names: Vec<_> = read(&text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["My Files", "Other", "global"]);
    // One that cannot have its name takes no other.
    let mut inherits = asked("global", "on", "/srv/g");
    inherits.set_on = "global".into();
    assert!(matches!(plan(vec![inherits], &[])[0].problem, Some(Problem::Name(ShareError::Reserved(_)))));
}

/// A pool that somebody else has made shares nothing by itself, and takes no name from what is shared here.
#[test]
fn what_is_not_accepted_is_not_shared() {
    let foreign = Asked { is_accepted: false, ..asked("alien/docs", "name=Docs", "/srv/alien") };
    let planned = plan(vec![foreign, asked("tank/docs", "name=docs", "/srv/docs")], &[]);
    assert_eq!(planned[0].problem, Some(Problem::NotAccepted("alien".into())));
    assert_eq!(planned[1].problem, None);
    let text = text(&planned, Path::new("x"));
    assert!(!text.contains("alien"), "{text}");
    assert!(planned[0].problem.as_ref().unwrap().to_string().contains("; `tally pool set mountpoints=accept alien`"));
}

#[test]
fn a_directory_that_smb_conf_cannot_name_is_not_shared() {
    for dir in [
        "/srv/a\n[global]\nroot preexec = id",
        "/srv/%U",
        "/srv/a\"",
        "/srv/a\\",
        "/srv/a ",
        "/srv/a  b",
        "/srv/\u{85}",
        "/srv/a\tb",
        "srv",
    ] {
        let planned = plan(vec![asked("tank/x", "on", dir)], &[]);
        assert_eq!(planned[0].problem, Some(Problem::Path), "{dir:?}");
        assert_eq!(read(&text(&planned, Path::new("/x"))), [("global".to_owned(), BTreeMap::new())], "{dir:?}");
    }
    for dir in ["/srv/my files", "/srv/a;b #c", "/srv/ä", "/srv/[x]", "/srv/a=b"] {
        let planned = plan(vec![asked("tank/x", "on", dir)], &[]);
        assert_eq!(planned[0].problem, None, "{dir:?}");
        assert_eq!(read(&text(&planned, Path::new("/x")))[0].1["path"], dir);
    }
    use std::os::unix::ffi::OsStrExt as _;
    assert!(!is_writable(Path::new(std::ffi::OsStr::from_bytes(b"/srv/\xff"))));
}

/// A name is a line of smb.conf, and may come from a pool that somebody else has made.
#[test]
fn a_name_of_two_lines_is_not_written() {
    let it = asked("usb/x\n[evil]\nroot preexec = id", "name=Docs", "/srv/docs");
    let sections = read(&text_of(vec![it], &[]));
    assert_eq!(sections.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["Docs", "global"]);
    assert!(!sections[0].1.contains_key("comment"));
}

proptest! {
    /// Whatever is typed and mounted: what Samba reads is one section with the parameters that are known, and none that somebody put there.
    #[test]
    fn nobody_writes_a_section_or_a_parameter(value in "\\PC{0,40}|name=[ -~]{1,20}(,users=[ -~]{1,20})?|.{0,30}", dir in "/[ -~\n\r\t]{0,20}|/.{0,20}") {
        let Ok(Some(share)) = parse_sharesmb(&value) else { return Ok(()) };
        let it = Asked { share, ..asked("tank/x", "on", &dir) };
        let planned = plan(vec![it], &[]);
        let text = text(&planned, Path::new("/run/tally/smb.conf"));
        prop_assert_eq!(crate::strange_line(&text), None);
        let sections = read(&text);
        let expected = usize::from(planned[0].problem.is_none());
        prop_assert_eq!(sections.len(), expected + 1);
        prop_assert_eq!(&sections[expected], &("global".to_owned(), BTreeMap::new()));
        if expected == 1 {
            let name = planned[0].name.as_ref().map(ShareName::as_str);
            prop_assert_eq!(Some(&*sections[0].0), name);
            prop_assert_eq!(&sections[0].1["path"], &dir);
            let plain = read(&text_of(vec![asked("tank/x", "on", "/srv")], &[])).swap_remove(0).1;
            let is_known = |key: &String| plain.contains_key(key) || key == "valid users" || key.starts_with("fruit:time machine");
            prop_assert!(sections[0].1.keys().all(is_known), "{:?}", sections);
        }
    }
}
