use super::*;

/// What of these words would be run on disks that hold nothing.
fn steps(words: &[&str]) -> Result<Vec<String>, String> {
    let cli = Cli::try_parse_from(["tally", "init"].iter().chain(words)).unwrap();
    let super::super::args::Command::Init(args) = cli.command else { panic!("it is init") };
    let answers = Answers::of(&args, Path::new("/here"));
    let steps = answers.steps(&[], &[]).map_err(|failure| failure.to_string())?;
    Ok(steps.iter().map(Step::line).collect())
}

const SHARE: &str = "tally dataset create -o 'sharenfs=127.0.0.1(rw,no_root_squash) ::1(rw,no_root_squash)' tank/share";

#[test]
fn the_commands_are_as_they_would_be_typed() {
    let cases: [(&[&str], &str); 6] = [
        (&["--on", "a"], "tally pool create tank /here/a"),
        (&["--on", "a", "--on", "b c"], "tally pool create tank mirror /here/a '/here/b c'"),
        (&["--on", "a", "--on", "b", "--mirror", "1"], "tally pool create tank /here/a /here/b"),
        (
            &["--on", "/a", "--on", "/b", "--on", "/c", "--on", "/d", "--log", "/l"],
            "tally pool create tank mirror /a /b mirror /c /d log /l",
        ),
        (
            &["--on", "/a", "--on", "/b", "--on", "/c", "--mirror", "3", "--log", "/l", "--log", "/m"],
            "tally pool create tank mirror /a /b /c log mirror /l /m",
        ),
        (&["--on", "/it's"], r"tally pool create tank '/it'\''s'"),
    ];
    for (words, create) in cases {
        assert_eq!(steps(words).unwrap(), [create, SHARE], "{words:?}");
    }
    let words =
        ["--on", "/a", "--network", "10.0.0.0/8", "--network", "2001:db8::/32", "--pool", "p", "--dataset", "d"];
    let share = "tally dataset create -o 'sharenfs=127.0.0.1(rw,no_root_squash) ::1(rw,no_root_squash) 10.0.0.0/8(rw) 2001:db8::/32(rw)' p/d";
    assert_eq!(steps(&words).unwrap()[1], share);
    let refused = steps(&["--on", "/a", "--on", "/b", "--on", "/c"]).unwrap_err();
    assert!(refused.contains("3 disks make no mirrors of 2") && refused.contains("--mirror 3"), "{refused}");
}

#[test]
fn disks_are_chosen_by_number_or_path() {
    let disks = ["/dev/disk/by-id/x", "/dev/sdb"].map(|path| Candidate { path: path.into(), ..Candidate::default() });
    let paths = |answer| chosen(&disks, answer).map_err(|failure| failure.to_string());
    assert_eq!(paths(" 2 1 /dev/sdz ").unwrap(), ["/dev/sdb", "/dev/disk/by-id/x", "/dev/sdz"].map(PathBuf::from));
    assert!(paths("").unwrap().is_empty());
    for wrong in ["0", "3"] {
        assert!(paths(wrong).unwrap_err().contains("no disk"), "{wrong}");
    }
}
