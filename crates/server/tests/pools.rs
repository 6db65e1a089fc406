//! What a start makes of pools that were destroyed, exported, or are broken: none of them keeps the daemon or another pool
//! from its clients, and nothing comes back that somebody has put away.

use std::path::Path;
use std::sync::Arc;

use tally_disk::{Disk, MemDisk, MemOpener, Opener};

mod running;

use running::{Running, story, tally};

fn make_disks(opener: &MemOpener, dir: &Path, names: &[&str]) {
    for name in names {
        opener.create(&dir.join(name), 32 << 20, false, &mut |_| {}).unwrap();
    }
}

fn listed(data_dir: &Path) -> String {
    tally(data_dir, &["pool", "list", "-H"]).1
}

/// Behind `pool destroy tank` no start worked any more: the files of the first pool were to be imported, and held a
/// destroyed one.
#[test]
fn a_destroyed_first_pool_stays_so_and_the_daemon_starts() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &opener);
    story(data_dir, &[(&["dataset", "create", "tank/x"], true, &[]), (&["pool", "destroy", "tank"], true, &[])]);
    first.stop();

    for _ in 0..2 {
        let again = Running::start(data_dir, &opener);
        let command = format!("tally pool import -D -d {} tank", data_dir.display());
        assert!(again.said.len() == 1 && again.said[0].contains("'tank' was destroyed"), "{:?}", again.said);
        assert!(again.said[0].contains(&command), "{:?}", again.said);
        assert_eq!(listed(data_dir), "no pools are imported\n");
        again.stop();
    }
    let third = Running::start(data_dir, &opener);
    story(
        data_dir,
        &[
            (&["pool", "import"], true, &["no pools were found"]),
            (&["pool", "import", "tank"], false, &["tank was destroyed", "`tally pool import -D`"]),
            (&["pool", "import", "-D"], true, &["state: DESTROYED", "`tally pool import -D -d "]),
            (&["--json", "pool", "import", "-D"], true, &["\"state\": \"DESTROYED\""]),
            (&["pool", "import", "-D", "tank"], true, &["imported pool 'tank'"]),
            (&["dataset", "list"], true, &["tank/x"]),
        ],
    );
    third.stop();
    let fourth = Running::start(data_dir, &opener);
    assert!(listed(data_dir).ends_with("\tONLINE\n"));
    fourth.stop();
}

/// One destroyed image in a directory kept the sound pools beside it from being served.
#[test]
fn what_is_destroyed_or_broken_does_not_stop_what_is_sound() {
    let (dir, disks) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data_dir, disks) = (dir.path(), disks.path().canonicalize().unwrap());
    let opener = Arc::new(MemOpener::default());
    make_disks(&opener, &disks, &["a", "b", "c", "d", "e"]);
    let daemon = Running::start(data_dir, &opener);
    let path = |name: &str| disks.join(name).display().to_string();
    let create = |words: &[&str]| {
        let words: Vec<String> =
            words.iter().map(|word| if word.len() == 1 { path(word) } else { (*word).into() }).collect();
        let words: Vec<&str> = ["pool", "create"].into_iter().chain(words.iter().map(String::as_str)).collect();
        story(data_dir, &[(&words, true, &[])]);
    };
    create(&["gone", "a"]);
    create(&["sound", "b"]);
    create(&["cut", "c", "d"]);
    create(&["rotten", "e"]);
    for words in [["destroy", "gone"], ["export", "sound"], ["export", "cut"], ["export", "rotten"]] {
        story(data_dir, &[(&["pool", words[0], words[1]], true, &[])]);
    }
    daemon.stop();
    opener.remove(&disks.join("d"));
    let rot = MemDisk::new(32 << 20);
    let rotten = opener.remove(&disks.join("e")).unwrap();
    let mut label = vec![0; 64 << 10];
    rotten.read(0, &mut label).unwrap();
    label[5000..5100].fill(0xaa);
    rot.write(0, &label, tally_disk::Durability::Cached).unwrap();
    opener.put(disks.join("e"), Arc::new(rot));

    let other = tempfile::tempdir().unwrap();
    let daemon = Running::try_start(other.path(), &opener, &[&disks, Path::new("/not/there")]).unwrap();
    let said = daemon.said.join("\n");
    for part in [
        "imported pool 'sound'",
        "pool 'gone' (",
        &format!("tally pool import -D -d {} gone", disks.display()),
        "pool 'cut' (",
        "has no usable leg",
        "/not/there: No such file",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(listed(other.path()).lines().count(), 1, "{}", listed(other.path()));
    daemon.stop();

    // Where nothing is sound there is nothing to serve, and each has its reason.
    opener.remove(&disks.join("b"));
    let nothing = tempfile::tempdir().unwrap();
    let error = Running::try_start(nothing.path(), &opener, &[&disks]).err().expect("nothing to serve").to_string();
    assert!(error.contains("'gone'") && error.contains("'cut'") && !error.contains("sound"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Running::try_start(nothing.path(), &opener, &[empty.path()]).err().expect("nothing there").to_string();
    assert!(error.contains("no pool was found in"), "{error}");
}

/// A pool of the list is destroyed, and its destroyer was killed before it came to the list.
#[test]
fn a_destroyed_pool_of_the_list_is_taken_off_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &opener);
    let list = std::fs::read(data_dir.join("pools.toml")).unwrap();
    story(data_dir, &[(&["pool", "destroy", "tank"], true, &[])]);
    first.stop();
    std::fs::write(data_dir.join("pools.toml"), list).unwrap();
    let second = Running::start(data_dir, &opener);
    assert!(second.said[0].contains("taken off the list"), "{:?}", second.said);
    assert_eq!(listed(data_dir), "no pools are imported\n");
    second.stop();
    assert!(!std::fs::read_to_string(data_dir.join("pools.toml")).unwrap().contains("[[pool]]"));
}

/// A first pool that somebody had exported came back at the next start; and one whose files were carried away was made
/// anew.
#[test]
fn an_exported_first_pool_stays_exported() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let first = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "export", "tank"], true, &[])]);
    first.stop();
    let second = Running::start(data_dir, &opener);
    let command = format!("`tally pool import -d {} tank`", data_dir.display());
    assert!(second.said[0].contains("was exported") && second.said[0].contains(&command), "{:?}", second.said);
    assert_eq!(listed(data_dir), "no pools are imported\n");
    second.stop();

    let files = ["tank.img", "log.img"].map(|name| data_dir.join(name));
    let away = files.each_ref().map(|file| opener.remove(file).unwrap());
    let third = Running::start(data_dir, &opener);
    assert!(third.said[0].contains("only a first start makes one"), "{:?}", third.said);
    assert_eq!(listed(data_dir), "no pools are imported\n");
    for (file, disk) in files.iter().zip(away) {
        opener.put(file, disk);
    }
    story(data_dir, &[(&["pool", "import", "tank"], true, &["imported pool 'tank'"])]);
    third.stop();
    // Without the list, too, nothing is made over what somebody has put away.
    std::fs::remove_file(data_dir.join("pools.toml")).unwrap();
    let fourth = Running::start(data_dir, &opener);
    assert!(fourth.said[0].contains("was exported"), "{:?}", fourth.said);
    fourth.stop();
}
