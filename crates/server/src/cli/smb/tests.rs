use super::*;
use crate::cli::Interrupts;

fn report(shares: Vec<SmbShare>) -> SmbReport {
    SmbReport { include: "/run/tally/smb.conf".into(), shares }
}

fn share(name: &str, problem: Option<&str>) -> SmbShare {
    SmbShare {
        name: Some(name.into()),
        dataset: format!("tank/{name}"),
        dir: Some(format!("/srv/{name}").into()),
        is_mixed: problem.is_some(),
        problem: problem.map(str::to_owned),
    }
}

#[test]
fn a_share_is_told_with_where_it_is_and_whether_it_is_there() {
    let nameless = SmbShare { name: None, dir: None, ..share("x", Some("no name")) };
    let expected = "\
SHARE  DATASET    DIRECTORY  USED BY      STATE
Docs   tank/Docs  /srv/Docs  SMB alone    shared
-      tank/x     -          others, too  not shared: no name
";
    assert_eq!(lines(&[share("Docs", None), nameless], TableArgs::default()), expected);
}

#[test]
fn what_keeps_samba_from_it_is_told_and_nothing_else() {
    let well = Samba {
        is_installed: true,
        smb_conf: "/etc/samba/smb.conf".into(),
        text: Some("[global]\ninclude = /run/tally/smb.conf\n".into()),
        is_waiting: false,
    };
    let found = |samba: &Samba| {
        let troubles = samba.troubles(&report(vec![share("Docs", None)]));
        troubles.into_iter().map(|(found, todo)| format!("{found}: {todo}")).collect::<Vec<_>>()
    };
    assert_eq!(found(&well), Vec::<String>::new());
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        (Samba { is_installed: false, text: None, ..well.clone() }, "apt-get install samba"),
        (Samba { text: None, ..well.clone() }, "/etc/samba/smb.conf cannot be read"),
        (Samba { text: text("[global]\n"), ..well.clone() }, "add the line `include = /run/tally/smb.conf`"),
        (
            Samba { text: text("include = /run/tally/smb.conf\n[DOCS]\n"), ..well.clone() },
            "has a share 'Docs' of its own",
        ),
        (Samba { is_waiting: true, ..well.clone() }, "systemctl enable --now tally-smb.path"),
    ];
    for (samba, told) in cases {
        let found = found(&samba);
        assert!(found.len() == 1 && found[0].contains(told), "{told}: {found:?}");
        assert_eq!(samba.troubles(&report(Vec::new())), [], "nobody asks for a share");
    }
}

/// Nothing fails where there is no Samba, and what was written is there for one that comes later.
#[test]
fn without_samba_a_list_takes_its_place_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smb.conf");
    let apply = || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never };
        apply::apply(&file, &|_| None, &mut console).unwrap();
        String::from_utf8([out, err].concat()).unwrap()
    };
    assert!(apply().contains("nothing new") && !file.exists());
    fs::write(unchecked(&file), "[Docs]\n").unwrap();
    assert_eq!(apply(), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), "[Docs]\n");
    assert!(!unchecked(&file).exists());
    assert!(apply().contains("nothing new"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "[Docs]\n");
}
