//! Names and numbers at the borders of what they may be, for every procedure that takes one, over a socket. The rules
//! behind the socket are those of `tally_vfs::suite`, which the model here and the real file system both keep.

use crate::support::House;
use crate::support::client::{Client, NFS, dir_name, mode, size, words};
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;

const NOENT: u32 = 2;
const EXIST: u32 = 17;
const ACCES: u32 = 13;
const INVAL: u32 = 22;
const FBIG: u32 = 27;
const NAMETOOLONG: u32 = 63;
const NOTEMPTY: u32 = 66;
const TOOSMALL: u32 = 10005;

const NUMBERS: [u64; 8] = [0, 1, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];
const COUNTS: [u32; 5] = [0, 1, (1 << 31) - 1, 1 << 31, u32::MAX];

fn of(handle: &[u8]) -> Encoder {
    words(|words| {
        words.opaque(handle);
    })
}

/// A procedure with a name in it: its words, from the root, a file and the name; and which status `.` and `..` have.
struct Named {
    what: &'static str,
    procedure: Procedure,
    words: fn(&[u8], &[u8], &[u8]) -> Encoder,
    dot: u32,
    dot_dot: u32,
    /// For a name of 255 bytes that nobody has.
    fresh: u32,
}

fn behind(mut first: Encoder, rest: impl FnOnce(&mut Encoder)) -> Encoder {
    rest(&mut first);
    first
}

fn procedures() -> Vec<Named> {
    let named = |what, procedure, words, dot, dot_dot, fresh| Named { what, procedure, words, dot, dot_dot, fresh };
    vec![
        named("LOOKUP", Procedure::Lookup, |root, _, name| dir_name(root, name), 0, 0, NOENT),
        named(
            "CREATE",
            Procedure::Create,
            |root, _, name| {
                behind(dir_name(root, name), |words| {
                    words.u32(1).raw(&mode(0o644).into_vec());
                })
            },
            EXIST,
            EXIST,
            0,
        ),
        named(
            "MKDIR",
            Procedure::MkDir,
            |root, _, name| {
                behind(dir_name(root, name), |words| {
                    words.raw(&mode(0o755).into_vec());
                })
            },
            EXIST,
            EXIST,
            0,
        ),
        named(
            "SYMLINK",
            Procedure::SymLink,
            |root, _, name| {
                behind(dir_name(root, name), |words| {
                    words.raw(&mode(0o777).into_vec()).opaque(b"target");
                })
            },
            EXIST,
            EXIST,
            0,
        ),
        named(
            "MKNOD",
            Procedure::MkNod,
            |root, _, name| {
                behind(dir_name(root, name), |words| {
                    words.u32(7).raw(&mode(0o644).into_vec());
                })
            },
            EXIST,
            EXIST,
            0,
        ),
        named("REMOVE", Procedure::Remove, |root, _, name| dir_name(root, name), INVAL, INVAL, NOENT),
        named("RMDIR", Procedure::RmDir, |root, _, name| dir_name(root, name), INVAL, NOTEMPTY, NOENT),
        named(
            "RENAME from",
            Procedure::Rename,
            |root, _, name| {
                behind(dir_name(root, name), |words| {
                    words.opaque(root).opaque(b"somewhere");
                })
            },
            INVAL,
            INVAL,
            NOENT,
        ),
        named(
            "RENAME to",
            Procedure::Rename,
            |root, _, name| {
                behind(dir_name(root, b"moved"), |words| {
                    words.opaque(root).opaque(name);
                })
            },
            INVAL,
            INVAL,
            0,
        ),
        named(
            "LINK",
            Procedure::Link,
            |root, file, name| {
                behind(of(file), |words| {
                    words.opaque(root).opaque(name);
                })
            },
            EXIST,
            EXIST,
            0,
        ),
    ]
}

#[test]
fn names_in_every_procedure_that_takes_one() {
    for Named { what, procedure, words, dot, dot_dot, fresh } in procedures() {
        let house = House::new();
        let mut client = house.client();
        let root = client.mount("/tank");
        let file = client.file(&root, b"moved");
        let long = [b'n'; 256];
        let cases: [(&[u8], u32); 10] = [
            (b"", ACCES),
            (b"/", ACCES),
            (b"a/b", ACCES),
            (b"\0", ACCES),
            (b"a\0b", ACCES),
            (b".", dot),
            (b"..", dot_dot),
            (&long, NAMETOOLONG),
            (&[0xff; 256], NAMETOOLONG),
            // Last, since it may make or move something.
            (&long[..255], fresh),
        ];
        for (name, expected) in cases {
            let answer = client.call(procedure, words(&root, &file, name));
            assert_eq!(answer.status, expected, "{what} {:?}", name.escape_ascii().to_string());
        }
        assert_eq!(client.getattr(&root).0, 0, "{what}: the server lives");
    }
}

/// A name longer than any: refused before it is looked at, and the next request is answered.
#[test]
fn names_that_are_longer_than_a_name_can_be() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"moved");
    for length in [257, 4096, 100_000] {
        let name = vec![b'n'; length];
        for Named { what, procedure, words, .. } in procedures() {
            let xid = client.xid();
            client.send(xid, NFS, procedure.number(), words(&root, &file, &name));
            let (answered, found) = client.receive_header().expect("never silence");
            // Carried out and refused, or arguments that are garbage.
            let refused = matches!(found[..], [1, 0, 0, 0, 0, NAMETOOLONG, ..] | [1, 0, 0, 0, 4, ..]);
            assert!(answered == xid && refused, "{what} with {length} bytes: {found:?}");
        }
    }
}

fn list(client: &mut Client, dir: &[u8], cookie: u64, plus: Option<u32>, most: u32) -> (u32, usize) {
    let arguments = words(|words| {
        words.opaque(dir).u64(cookie).u64(0);
        plus.map(|count| words.u32(count));
        words.u32(most);
    });
    let procedure = if plus.is_some() { Procedure::ReadDirPlus } else { Procedure::ReadDir };
    let mut answer = client.call(procedure, arguments);
    answer.post_attr();
    if answer.status != 0 {
        return (answer.status, 0);
    }
    answer.u64();
    let mut count = 0;
    while answer.bool() {
        let (_, _, cookie_of_entry) = (answer.u64(), answer.opaque(), answer.u64());
        assert!(cookie_of_entry > cookie && cookie_of_entry < 1 << 63);
        if plus.is_some() {
            answer.post_attr();
            answer.post_handle();
        }
        count += 1;
    }
    let eof = answer.bool();
    answer.end();
    assert!(count > 0 || eof, "a listing that never ends: {cookie} {plus:?} {most}");
    (0, count)
}

#[test]
fn cookies_and_counts_of_listings() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let dir = client.mkdir(&root, b"d").1.unwrap();
    for number in 0..10 {
        client.file(&dir, format!("name {number}").as_bytes());
    }
    for cookie in NUMBERS {
        let behind = match cookie {
            0 => 12,
            1 => 11,
            _ => 0,
        };
        for most in COUNTS {
            let is_enough = most > 1000;
            let expected = if is_enough { (0, behind) } else { (TOOSMALL, 0) };
            assert_eq!(list(&mut client, &dir, cookie, None, most), expected, "READDIR {cookie} {most}");
            for dir_count in COUNTS {
                let found = list(&mut client, &dir, cookie, Some(dir_count), most);
                let all = if dir_count > 1000 { behind } else { behind.min(1) };
                let expected = if is_enough { (0, all) } else { (TOOSMALL, 0) };
                assert_eq!(found, expected, "READDIRPLUS {cookie} {dir_count} {most}");
            }
        }
    }
}

#[test]
fn offsets_and_counts_of_content() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    client.write(&file, 0, b"content", 2);
    for offset in NUMBERS {
        for count in COUNTS {
            let (status, read) = client.read(&file, offset, count);
            let left = b"content".get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            let expected = &left[..left.len().min(count as usize)];
            let (data, eof) = read.unwrap();
            assert_eq!((status, &data[..]), (0, expected), "READ {offset} {count}");
            assert_eq!(eof, offset.saturating_add(u64::from(count)) >= 7, "READ {offset} {count}");
            let mut arguments = of(&file);
            arguments.u64(offset).u32(count);
            assert_eq!(client.call(Procedure::Commit, arguments).status, 0, "COMMIT {offset} {count}");
            // A count that is not that of the data.
            let mut lying = of(&file);
            lying.u64(offset).u32(count).u32(2).opaque(b"xy");
            let status = client.call(Procedure::Write, lying).status;
            assert!(matches!(status, INVAL | FBIG), "WRITE {offset} of {count} with two bytes: {status}");
        }
        // Nothing is always written, except where no file reaches.
        let expected = if offset < 1 << 63 { 0 } else { FBIG };
        assert_eq!(client.write(&file, offset, b"", 2).0, expected, "WRITE of nothing at {offset}");
    }
    assert_eq!(client.getattr(&file).1.unwrap().size, 7, "none of it has changed the file");
}

#[test]
fn sizes() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    for wanted in NUMBERS {
        let mut arguments = of(&file);
        arguments.raw(&size(wanted).into_vec()).bool(false);
        let expected = if wanted < 1 << 63 { 0 } else { FBIG };
        assert_eq!(client.call(Procedure::SetAttr, arguments).status, expected, "SETATTR size {wanted}");
        let now = client.getattr(&file).1.unwrap().size;
        assert_eq!(now, wanted.min((1 << 63) - 1), "SETATTR size {wanted}");
        let (status, _) = client.read(&file, wanted.saturating_sub(1), 5);
        assert_eq!(status, 0, "READ at the end of {wanted}");
        let status = client.write(&file, now, b"x", 2).0;
        assert_eq!(status, if now < (1 << 63) - 1 { 0 } else { FBIG }, "WRITE behind {wanted}");
    }
}
