use super::*;

#[test]
fn uses_of_a_disk_and_of_its_parts_are_found() {
    let text = r#"{"blockdevices": [{"name":"sda","path":"/dev/sda","size":1000,"model":"X ","type":"disk","mountpoints":[null],"ro":false,
        "children":[
            {"name":"sda1","path":"/dev/sda1","size":1,"model":null,"type":"part","mountpoints":["/boot","/other"],"ro":false},
            {"name":"sda2","path":"/dev/sda2","size":1,"model":null,"type":"part","mountpoints":["[SWAP]"],"ro":false},
            {"name":"sda3","path":"/dev/sda3","size":1,"model":null,"type":"part","mountpoints":[null],"ro":false,
             "children":[{"name":"vg-root","path":"/dev/mapper/vg-root","size":1,"model":null,"type":"lvm","mountpoints":["/"],"ro":false}]}]}]}"#;
    let listed: Listed = serde_json::from_str(text).unwrap();
    let mut uses = Vec::new();
    collect_uses(&listed.blockdevices[0], &listed.blockdevices[0], &mut uses);
    let expected = [
        "sda1 is mounted at /boot",
        "sda1 is mounted at /other",
        "sda2 is swap",
        "sda is part of vg-root",
        "vg-root is mounted at /",
    ];
    assert_eq!(uses, expected);
    let disk = Candidate { path: "/dev/sda".into(), uses, ..Candidate::default() };
    assert!(disk.objection().unwrap().contains("/dev/sda cannot be used: sda1 is mounted at /boot"));
}

#[test]
fn files_are_looked_at_and_those_that_are_not_there_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    assert!(Candidate::at(&path).unwrap().is_to_be_made);
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    let blank = Candidate::at(&path).unwrap();
    assert!(!blank.is_to_be_made && blank.contents.is_empty() && blank.objection().is_none(), "{blank:?}");
    // A swap of 256 pages, as mkswap writes it: its version, its last page, and the magic at the end of its first page.
    let mut swap = vec![0; 1 << 20];
    swap[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
    swap[1028..1032].copy_from_slice(&255_u32.to_le_bytes());
    swap[4086..4096].copy_from_slice(b"SWAPSPACE2");
    fs::write(&path, swap).unwrap();
    assert_eq!(Candidate::at(&path).unwrap().contents, ["swap"]);
    assert!(Candidate::at(dir.path()).unwrap_err().contains("neither a disk nor a file"));
    assert!(Candidate::at(Path::new("/dev/no-such-disk")).unwrap_err().contains("cannot look at"));
}
