//! Archives as `tar` writes them.

use super::*;

fn header(name: &str, mode: &str, size: &str, kind: u8) -> Vec<u8> {
    let mut header = vec![0; BLOCK];
    let fields = [(0, name), (100, mode), (108, "0001750\0"), (116, "0003720\0"), (124, size), (136, "07346545000\0")];
    for (at, field) in fields {
        header[at..at + field.len()].copy_from_slice(field.as_bytes());
    }
    header[156] = kind;
    header
}

fn archive(members: &[(Vec<u8>, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (header, content) in members {
        bytes.extend(header);
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

#[test]
fn files_and_folders_are_read() {
    let folder = header("d0000/", "0000755\0", "00000000000\0", b'5');
    let file = header("d0000/f", "0000640\0", "00000001001\0", b'0');
    let content = [7; 513];
    let members = parse(&archive(&[(folder, &[]), (file, &content)])).unwrap();
    let member = |path: &str, mode, content| Member {
        path: path.into(),
        mode,
        owner: (0o1750, 0o3720),
        mtime: 1_000_000_000,
        content,
    };
    assert_eq!(members, [member("d0000", 0o755, None), member("d0000/f", 0o640, Some(content.to_vec()))]);
}

#[test]
fn what_is_no_archive_is_refused() {
    let cases: [(&str, Vec<u8>); 5] = [
        ("it has no end", Vec::new()),
        ("it has no end", header("d/", "0000755\0", "00000000000\0", b'5')),
        ("it is cut off", header("f", "0000644\0", "77777777777\0", b'0')),
        ("is no octal number", archive(&[(header("f", "x", "00000000000\0", b'0'), &[])])),
        ("of type '2'", archive(&[(header("f", "0000644\0", "00000000000\0", b'2'), &[])])),
    ];
    for (expected, bytes) in cases {
        let error = format!("{:#}", parse(&bytes).unwrap_err());
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
}
