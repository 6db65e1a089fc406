//! MOUNT gives a handle for a path: the one that is meant, to somebody who might have found it by LOOKUP.
//!
//! It compared paths before it took `.` out of them, so that `/tank/./child` was the directory below the dataset that is mounted
//! there, under the parent's rule. It walked as the superuser, and handed out what lies below closed directories. And it took
//! names for text: one with other bytes was not there, until somebody made the name that it was mistaken for.

use crate::support::House;
use crate::support::client::{Client, Handle, words};

const NOENT: u32 = 2;
const ACCES: u32 = 13;

fn mount(client: &mut Client, path: impl AsRef<[u8]>) -> Result<Handle, u32> {
    let arguments = words(|words| {
        words.opaque(path.as_ref());
    });
    let mut answer = client.mount_call(1, arguments);
    if answer.status == 0 { Ok(answer.opaque()) } else { Err(answer.status) }
}

fn dump(client: &mut Client) -> Vec<Vec<u8>> {
    let mut answer = client.mount_call(2, tally_nfs::xdr::Encoder::new());
    let (mut lines, mut more) = (Vec::new(), answer.status == 1);
    while more {
        answer.opaque();
        lines.push(answer.opaque());
        more = answer.bool();
    }
    lines
}

#[test]
fn a_path_with_dots_is_the_path_without() {
    let house = House::new();
    let mut client = house.client();
    let child = mount(&mut client, "/tank/child").unwrap();
    let paths = ["/tank/./child", "/tank/child/.", "//tank//child/", "/./tank/././child", "tank/child"];
    for path in paths {
        assert_eq!(mount(&mut client, path), Ok(child.clone()), "{path}");
    }
    *house.exports.child_rule.lock() = "off".into();
    for path in paths {
        assert_eq!(mount(&mut client, path), Err(ACCES), "{path}: the rule is the child's");
    }
    for path in ["/tank/../tank/child", "/tank/child/..", "/..", "/tank/./../tank"] {
        assert_eq!(mount(&mut client, path), Err(ACCES), "{path}");
    }
}

/// As knfsd says it: clients have a better sentence for that than for NOENT. Below what is exported it is told what is not there.
#[test]
fn what_is_not_exported_is_not_told_from_what_is_not_there() {
    let house = House::new();
    let mut client = house.client();
    for path in ["/", "", "/nowhere", "/tan", "/tank1", "/nowhere/tank"] {
        assert_eq!(mount(&mut client, path), Err(ACCES), "{path:?}");
    }
    assert_eq!(mount(&mut client, "/tank/nowhere"), Err(NOENT));
}

#[test]
fn who_could_not_look_there_does_not_mount_there() {
    let house = House::new();
    let mut root = house.client();
    let tank = mount(&mut root, "/tank").unwrap();
    let closed = root.mkdir(&tank, b"closed").1.unwrap();
    let open = root.mkdir(&closed, b"open").1.unwrap();
    let set = words(|words| {
        words.opaque(&closed).raw(&crate::support::client::mode(0o700).into_vec()).bool(false);
    });
    assert_eq!(root.call(tally_nfs::v3::Procedure::SetAttr, set).status, 0);
    let mut user = house.client().acting_as(1000, &[1000]);
    for path in ["/tank/closed/open", "/tank/closed/none"] {
        assert_eq!(mount(&mut user, path), Err(ACCES), "{path}: whether it is there is nobody's business");
    }
    assert_eq!(mount(&mut user, "/tank/closed"), Ok(closed), "its name can be seen in the root");
    assert_eq!(mount(&mut root, "/tank/closed/open"), Ok(open));
    *house.exports.tank_rule.lock() = "*(rw,insecure)".into();
    assert_eq!(mount(&mut root, "/tank/closed/open"), Err(ACCES), "their root is nobody here");
}

#[test]
fn a_name_is_its_bytes() {
    let house = House::new();
    let mut client = house.client();
    let tank = mount(&mut client, "/tank").unwrap();
    let meant = client.mkdir(&tank, b"caf\xe9").1.unwrap();
    assert_eq!(mount(&mut client, b"/tank/caf\xe9"), Ok(meant.clone()));
    let taken_for_it = client.mkdir(&tank, "caf\u{fffd}".as_bytes()).1.unwrap();
    assert_eq!(mount(&mut client, b"/tank/caf\xe9"), Ok(meant));
    assert_eq!(mount(&mut client, "/tank/caf\u{fffd}"), Ok(taken_for_it));
    assert!(dump(&mut client).contains(&b"/tank/caf\xe9".to_vec()), "as the client said it");
}

/// Whoever mounted much had everybody who asked get all of it: a megabyte for 40 bytes.
#[test]
fn the_list_of_mounts_is_short() {
    let house = House::new();
    let mut client = house.client();
    for number in 0..2000 {
        let path = format!("/tank{}{}", "/".repeat(number % 900), "/.".repeat(number / 900));
        mount(&mut client, path).unwrap();
    }
    let bytes: usize = dump(&mut client).iter().map(Vec::len).sum();
    assert!(bytes <= 4096, "{bytes} bytes of one client");
    assert_eq!(mount(&mut client, "/tank").map(|handle| handle.len()), Ok(56), "what is not listed works");
}
