use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A directory with programs of these names and texts, each of this mode.
fn programs(programs: &[(&str, &str, u32)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, mode) in programs {
        let path = dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", dir.path().display())).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
    }
    dir
}

fn hooks(dir: &tempfile::TempDir, time_max: Duration) -> Hooks {
    Hooks { time_max, again_in: [Duration::ZERO; 3], ..Hooks::of(dir.path().into(), None) }
}

fn event(text: &str) -> EventReport {
    EventReport {
        number: 1,
        time_ns: 7_000_000_000,
        pool: "tank".into(),
        class: "statechange".into(),
        text: text.into(),
    }
}

fn one(dir: &tempfile::TempDir, time_max: Duration) -> (Option<ExitStatus>, String) {
    hooks(dir, time_max).run_one(&dir.path().join("hook"), &event("/dev/sda is\nFAILED")).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_program_is_told_what_has_happened() {
    let dir = programs(&[(
        "hook",
        r#"echo "$TALLY_CLASS $TALLY_POOL $TALLY_TIME $TALLY_TIME_NS"; printf '%s\n' "$TALLY_TEXT" >&2; echo "$TALLY_JSON"; pwd; exit 3"#,
        0o755,
    )]);
    let (status, shown) = one(&dir, LONG);
    assert_eq!(status.unwrap().code(), Some(3));
    let expected =
        ["statechange tank 1970-01-01.00:00:07 7000000000\n", "/dev/sda is\\nFAILED\n", "\"class\":\"statechange\""];
    expected.iter().for_each(|part| assert!(shown.contains(part), "no {part:?}: {shown}"));
}

/// A text is what others make long, and there is little room in an environment.
#[test]
fn of_a_long_text_the_beginning_is_told_and_that_there_is_more() {
    let told = |text: &str| {
        let variables = variables(&event(text)).unwrap();
        let of = |name: &str| variables.iter().find(|(is, _)| *is == name).unwrap().1.clone();
        let json: serde_json::Value = serde_json::from_str(&of("TALLY_JSON")).unwrap();
        assert_eq!(words::harmless(json["text"].as_str().unwrap()), of("TALLY_TEXT"));
        (of("TALLY_TEXT"), json)
    };
    let whole = "\u{e4}".repeat(TEXT_CHARS_MAX);
    let (text, json) = told(&whole);
    assert!(text == whole && json["text"] == whole, "{text}");
    assert_eq!((&json["host"], &json["time_ns"]), (&host_name().into(), &7_000_000_000_u64.into()));
    let (text, _) = told(&format!("{whole}\u{e4}"));
    assert_eq!(text, format!("{whole} (and more, which `tally events` shows)"));
    assert_eq!(told("a\nb").1["text"], "a\nb");
}

/// It hangs, and so does a child of its.
#[test]
fn one_that_hangs_is_killed_with_all_that_it_has_begun() {
    let dir = programs(&[("hook", "sleep 1000 & echo $! > child; echo begun; wait", 0o755)]);
    let began = Instant::now();
    let (status, shown) = one(&dir, Duration::from_secs(2));
    assert_eq!((status, &*shown), (None, "begun\n"));
    assert!(began.elapsed() >= Duration::from_secs(2));
    is_gone(&dir);
}

/// It ends, and leaves something behind that has its output open.
#[test]
fn what_one_leaves_behind_is_killed() {
    let dir = programs(&[("hook", "sleep 1000 & echo $! > child; echo done", 0o755)]);
    let (status, shown) = one(&dir, LONG);
    assert!(status.unwrap().success());
    assert_eq!(shown, "done\n");
    is_gone(&dir);
}

/// The child whose number stands in the directory ends, or waits for init to take note of that.
fn is_gone(dir: &tempfile::TempDir) {
    let child = fs::read_to_string(dir.path().join("child")).unwrap();
    let state = || fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_else(|_| ") Z".into());
    let given_up = Instant::now() + LONG;
    while !state().contains(") Z") && !state().contains(") X") {
        assert!(Instant::now() < given_up, "{}", state());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn of_one_that_floods_the_beginning_is_shown() {
    let dir = programs(&[("hook", "yes 'a line that says nothing' | head -c 50000000; echo end", 0o755)]);
    let (status, shown) = one(&dir, LONG);
    assert!(status.unwrap().success());
    assert!(shown.starts_with("a line") && shown.ends_with("not shown)"), "{}", shown.len());
    assert!(shown.len() < OUTPUT_BYTES_MAX + 100);
    // And without end.
    let dir = programs(&[("hook", "exec yes", 0o755)]);
    assert_eq!(one(&dir, Duration::from_secs(1)).0, None);
}

#[test]
fn only_executable_files_are_run_and_the_others_are_named_once() {
    let dir = programs(&[
        ("20-second", "echo second >> ran", 0o755),
        ("10-first", "echo first >> ran", 0o755),
        ("not-executable", "echo no >> ran", 0o644),
        ("anybodys", "echo no >> ran", 0o777),
        ("old.dpkg-old", "echo no >> ran", 0o755),
        (".hidden", "echo no >> ran", 0o755),
    ]);
    fs::create_dir(dir.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("/nowhere", dir.path().join("nowhere")).unwrap();
    let mut hooks = hooks(&dir, LONG);
    hooks.run(&event("x"));
    assert_eq!(fs::read_to_string(dir.path().join("ran")).unwrap(), "first\nsecond\n");
    let said: Vec<_> = hooks.said.iter().collect();
    let about = |what: &str| said.iter().filter(|line| line.contains(what)).count();
    assert_eq!(
        [about("chmod +x"), about("chmod go-w"), about("it is no file"), about("No such file")],
        [1; 4],
        "{said:?}"
    );
}

#[test]
fn a_directory_that_is_not_there_and_a_program_that_is_none() {
    let dir = programs(&[]);
    let mut nowhere = Hooks::of(dir.path().join("nowhere"), None);
    nowhere.run(&event("x"));
    assert!(nowhere.said.iter().any(|line| line.contains("cannot list")), "{:?}", nowhere.said);
    let path = dir.path().join("hook");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    assert!(hooks(&dir, LONG).run_one(&path, &event("x")).is_err());
}

/// As a machine is that has no room for it: it is tried so often, and a program that is none once.
#[test]
fn what_will_pass_is_tried_again_a_few_times() {
    let dir = programs(&[("hook", "echo here", 0o755)]);
    let path = dir.path().join("hook");
    let writes = File::options().append(true).open(&path).unwrap();
    let error = hooks(&dir, LONG).run_one(&path, &event("x")).unwrap_err();
    assert!(will_pass(&error), "{error}");
    let mut patient = hooks(&dir, LONG);
    patient.again_in[2] = Duration::from_secs(2);
    let ended = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        drop(writes);
    });
    let (status, shown) = patient.run_one(&path, &event("x")).unwrap();
    assert!(status.unwrap().success() && shown == "here\n", "{shown}");
    ended.join().unwrap();
    let passing = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE].map(io::Error::from);
    assert!(passing.iter().all(will_pass));
    assert!(![Errno::NOENT, Errno::ACCESS, Errno::NOEXEC].map(io::Error::from).iter().any(will_pass));
}

/// A hook was looked at, and others had their turn; then it was run by its path, whatever it was by then.
#[test]
fn one_that_is_opened_to_others_meanwhile_is_not_run() {
    let dir = programs(&[("10-opens", "chmod go+w 20-opened", 0o755), ("20-opened", "echo no >> ran", 0o755)]);
    hooks(&dir, LONG).run(&event("x"));
    assert!(fs::metadata(dir.path().join("20-opened")).unwrap().mode() & 0o022 != 0, "the first one ran");
    assert!(!dir.path().join("ran").exists());
}

/// A link to what is root's, in a folder in which others put something else in its place.
#[test]
fn one_in_a_folder_of_others_is_not_run() {
    let (dir, theirs) = (programs(&[]), programs(&[("program", "echo no >> ran", 0o755)]));
    std::os::unix::fs::symlink(theirs.path().join("program"), dir.path().join("hook")).unwrap();
    let open = |mode| fs::set_permissions(theirs.path(), Permissions::from_mode(mode)).unwrap();
    open(0o777);
    let mut hooks = hooks(&dir, LONG);
    hooks.run(&event("x"));
    assert!(hooks.said.iter().any(|line| line.contains("in its place")), "{:?}", hooks.said);
    assert!(!theirs.path().join("ran").exists());
    // Nobody moves what is another's there.
    open(0o1777);
    hooks.run(&event("x"));
    assert!(theirs.path().join("ran").exists() && hooks.said.is_empty(), "{:?}", hooks.said);
}
