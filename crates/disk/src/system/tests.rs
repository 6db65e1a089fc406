use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use super::*;

#[test]
fn a_created_file_has_all_its_blocks() {
    let dir = tempfile::tempdir().unwrap();
    for (name, prewrite) in [("allocated", false), ("written", true)] {
        let path = dir.path().join(name);
        let mut heard = Vec::new();
        SystemOpener
            .create(&path, 9 << 20, prewrite, &mut |done| {
                heard.push(done);
                true
            })
            .unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), 9 << 20);
        assert!(metadata.blocks() * 512 >= 9 << 20, "{name}: only {} blocks", metadata.blocks());
        assert_eq!(metadata.mode() & 0o777, 0o600, "{name}");
        if prewrite {
            assert_eq!(heard, [4 << 20, 8 << 20, 9 << 20]);
        }
        let disk = SystemOpener.open(&path, Access::Exclusive).unwrap();
        let mut buf = AlignedBuf::zeroed(4096);
        disk.read((9 << 20) - 4096, &mut buf).unwrap();
        assert!(buf.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn what_exists_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("precious");
    fs::write(&path, b"diary").unwrap();
    let error = SystemOpener.create(&path, 4096, true, &mut |_| true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"diary");
}

#[test]
fn a_failed_creation_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge");
    assert!(SystemOpener.create(&path, 1 << 60, false, &mut |_| true).is_err(), "an exbibyte is not there");
    assert!(!path.exists());
    let stopped = SystemOpener.create(&path, 9 << 20, true, &mut |done| done < 8 << 20).unwrap_err();
    assert!(stopped.kind() == ErrorKind::Interrupted && !path.exists(), "{stopped}");
    let odd = SystemOpener.create(&path, 4097, false, &mut |_| true).unwrap_err();
    assert_eq!(odd.kind(), ErrorKind::InvalidInput);
    assert!(!path.exists());
}

#[test]
fn a_directory_lists_what_can_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b", "a"] {
        fs::write(dir.path().join(name), b"").unwrap();
    }
    fs::create_dir(dir.path().join("below")).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
    let names: Vec<_> =
        SystemOpener.list(dir.path()).unwrap().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["a", "b", "link"]);
}
