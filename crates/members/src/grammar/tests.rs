use super::*;

/// `D` a disk, `M` a mirror, `l` before both for a log; then the devices.
fn shown(specs: &[VdevSpec]) -> String {
    let spec = |spec: &VdevSpec| {
        let class = if spec.class == VdevClass::Log { "l" } else { "" };
        let kind = if spec.kind == VdevKind::Mirror { "M" } else { "D" };
        let paths: Vec<_> = spec.paths.iter().map(|path| path.display().to_string()).collect();
        format!("{class}{kind}({})", paths.join(" "))
    };
    specs.iter().map(spec).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_grammar_of_zpool() {
    for (words, expected) in [
        ("A", Ok("D(A)")),
        ("A B", Ok("D(A) D(B)")),
        ("mirror A B", Ok("M(A B)")),
        ("mirror A B C", Ok("M(A B C)")),
        ("mirror A B mirror C D", Ok("M(A B) M(C D)")),
        ("A mirror B C", Ok("D(A) M(B C)")),
        ("mirror A B mirror C D log mirror E F log mirror G H", Ok("M(A B) M(C D) lM(E F) lM(G H)")),
        ("A log B", Ok("D(A) lD(B)")),
        ("A log B C", Ok("D(A) lD(B) lD(C)")),
        ("log L A", Err("a pool needs at least one device for data")),
        ("/x/mirror ./log", Ok("D(/x/mirror) D(log)")),
        ("raidz.img sparefile cached", Ok("D(raidz.img) D(sparefile) D(cached)")),
        ("", Err("a pool needs at least one device for data")),
        ("log L", Err("a pool needs at least one device for data")),
        ("mirror A", Err("invalid vdev specification: mirror needs at least two devices, and got 1")),
        ("mirror", Err("invalid vdev specification: mirror needs at least two devices, and got 0")),
        ("A mirror log L", Err("invalid vdev specification: mirror needs at least two devices, and got 0")),
        ("A log", Err("invalid vdev specification: log needs at least one device")),
        ("A log log B", Err("invalid vdev specification: log needs at least one device")),
        ("A B A", Err("invalid vdev specification: A is named twice")),
        ("A log ./A", Err("invalid vdev specification: A is named twice")),
        ("mirror /d/A /d//A", Err("invalid vdev specification: /d/A is named twice")),
        ("raidz A B C", Err("raidz vdevs are not there yet")),
        ("raidz1 A B C", Err("raidz1 vdevs are not there yet")),
        ("draid2:4d A B C", Err("draid2:4d vdevs are not there yet")),
        ("A cache B", Err("cache vdevs are not there yet")),
        ("A spare B", Err("a pool gets its spares when it is there")),
        ("A sparefile spare:2", Err("spare:2 vdevs are not there yet")),
        ("A special mirror B C", Err("special vdevs are not there yet")),
        ("A -f", Err("\"-f\" is not a device")),
    ] {
        let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        match (parse_vdev_args(&words), expected) {
            (Ok(specs), Ok(expected)) => assert_eq!(shown(&specs), expected, "{words:?}"),
            (Err(error), Err(expected)) => assert!(error.to_string().starts_with(expected), "{words:?}: {error}"),
            (parsed, _) => panic!("{words:?}: {parsed:?}"),
        }
    }
}
