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
        left: None,
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
        (Samba { left: Some(Left::Waiting), ..well.clone() }, "systemctl enable --now tally-smb.path"),
        (Samba { left: Some(Left::LookedAt), ..well.clone() }, "`testparm -s /run/tally/smb.conf.checked`"),
        (Samba { left: Some(Left::Refused), ..well.clone() }, "goes on with those before: /run/tally/smb.conf.refused"),
    ];
    for (samba, told) in cases {
        let found = found(&samba);
        assert!(found.len() == 1 && found[0].contains(told), "{told}: {found:?}");
        // Where nobody asks for a share any more, only what Samba has not heard of.
        let behind_the_last = samba.troubles(&report(Vec::new()));
        assert_eq!(behind_the_last.len(), usize::from(samba.left.is_some()), "{behind_the_last:?}");
    }
    let elsewhere = Samba { text: text("[global]\n"), left: Some(Left::Waiting), ..well };
    assert_eq!(elsewhere.troubles(&report(Vec::new())), [], "it does not read them");
}

#[test]
fn where_a_list_has_stopped_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smb.conf");
    let (now, later) = (SystemTime::now(), SystemTime::now() + 2 * LOOK_MAX);
    assert_eq!(Left::beside(&file, later), None);
    fs::write(refused(&file), "").unwrap();
    assert_eq!(Left::beside(&file, now), Some(Left::Refused));
    fs::write(looked_at(&file), "").unwrap();
    assert_eq!((Left::beside(&file, now), Left::beside(&file, later)), (None, Some(Left::LookedAt)));
    fs::write(unchecked(&file), "").unwrap();
    assert_eq!(Left::beside(&file, now), Some(Left::Waiting));
}

/// What is in smb.conf may have root run programs. What was left by one that was ended is looked at anew, and what was refused is forgotten with what is taken.
#[test]
fn words_of_others_are_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smb.conf");
    let apply = || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console { out: &mut out, err: &mut err, interrupts: Interrupts::Never };
        apply::apply(&file, &|_| None, &mut console).map_err(|failure| failure.to_string())
    };
    fs::write(unchecked(&file), "[Docs]\n\tguest ok = no\n\troot preexec = /tmp/x\u{1b}\n").unwrap();
    let told = apply().unwrap_err();
    assert!(told.contains("line 3 is none that the daemon writes") && !told.contains('\u{1b}'), "{told}");
    assert!(!file.exists() && refused(&file).exists() && !looked_at(&file).exists());
    fs::write(unchecked(&file), "[Docs]\n\troot preexec = /tmp/x\n").unwrap();
    assert!(apply().unwrap_err().contains("line 2 is none that the daemon writes"));
    fs::write(unchecked(&file), b"[Docs]\n\tpath = /srv/\xff\n").unwrap();
    assert!(apply().unwrap_err().contains("it is no text"));
    fs::write(looked_at(&file), "[Docs]\n").unwrap();
    apply().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "[Docs]\n");
    assert!(!refused(&file).exists() && !looked_at(&file).exists());
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
