//! Properties that users name: set, shown, inherited, and there after a restart and under another name.

use std::sync::Arc;

use tally_fakes::MemOpener;

use super::running::{Running, story, tally};

#[test]
fn properties_that_users_name() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &opener);
    let long = format!("com.example:long={}", "x".repeat(8000));
    let too_long = format!("com.example:long={}", "x".repeat((8 << 10) + 1));
    story(
        data_dir,
        &[
            (&["dataset", "create", "-p", "-o", "com.example:note=two words", "tank/a/b"], true, &[]),
            (&["dataset", "set", "com.example:owner=ann", "com.example:note=here", "atime=on", "tank"], true, &[]),
            (&["dataset", "set", "com.example:note=", "tank/a"], true, &[]),
            (&["dataset", "set", "Com.example:note=x", "tank/a"], false, &["'Com.example:note' is no name"]),
            (&["dataset", "set", "note=x", "tank/a"], false, &["which have a colon: com.example:note"]),
            (&["dataset", "set", &long, "tank/a/b"], true, &[]),
            (&["dataset", "set", &too_long, "tank/a/b"], false, &["one line of text of at most 8192 bytes"]),
            (&["dataset", "set", &long.replace("long", "more"), "tank/a/b"], false, &["have 8192 bytes together"]),
            (&["dataset", "inherit", "com.example:long", "tank/a/b"], true, &[]),
            (&["dataset", "rename", "tank/a", "tank/c"], true, &[]),
        ],
    );
    let get = |words: &[&str]| {
        let (well, text) = tally(data_dir, words);
        assert!(well, "{words:?}: {text}");
        text
    };
    let shown = || {
        let all = get(&["dataset", "get", "-H", "all", "tank/c/b"]);
        let users: Vec<&str> = all.lines().filter(|line| line.contains(':') && line.contains("com.example")).collect();
        let lines =
            ["tank/c/b\tcom.example:note\ttwo words\tlocal", "tank/c/b\tcom.example:owner\tann\tinherited from tank"];
        assert_eq!(users, lines);
        let asked = get(&["dataset", "get", "-H", "com.example:note,a:b", "tank/c"]);
        assert_eq!(asked, "tank/c\tcom.example:note\t\tlocal\ntank/c\ta:b\t-\t-\n");
    };
    shown();
    first.stop();

    let second = Running::start(data_dir, &opener);
    shown();
    let list = get(&["dataset", "list", "-o", "name,com.example:note,a:b", "-r", "tank"]);
    let expected = "NAME      COM.EXAMPLE:NOTE  A:B\ntank      here              -\ntank/c                      -\n\
                    tank/c/b  two words         -\n";
    assert_eq!(list, expected);
    let json = get(&["--json", "dataset", "list", "-o", "name,com.example:owner", "tank/c/b"]);
    assert!(json.contains("\"user\": {\n      \"com.example:owner\": \"ann\"\n    }"), "{json}");
    get(&["dataset", "inherit", "com.example:note", "tank/c/b"]);
    get(&["dataset", "inherit", "com.example:note", "tank/c"]);
    let above = get(&["dataset", "get", "-H", "com.example:note", "tank/c/b"]);
    assert_eq!(above, "tank/c/b\tcom.example:note\there\tinherited from tank\n");
    second.stop();
}
