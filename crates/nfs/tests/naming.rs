//! Owners by names of this machine's users and groups, where the domain of those is known (RFC 8881 §5.9).

mod support;

use support::compound::{Op, by_number, get_attr, set};
use support::scene::Scene;
use tally_nfs::service::Service;
use tally_vfs::{Attributes, Cred, ObjectRef, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{FATTR4_OWNER, FATTR4_OWNER_GROUP, Fattr4, Fattr4Value, Getattr4Res, NfsResop4, Nfsstat4};

const OK: Nfsstat4 = Nfs4Ok;
/// Every machine has these, as users and as groups.
const ROOT: u32 = 0;
const DAEMON: u32 = 1;
/// Whom none has a name for.
const NAMELESS: u32 = 4_000_000_000;

fn scene(domain: Option<&str>) -> (Scene, ObjectRef) {
    let scene = Scene::new();
    let service = Service::new(scene.exports.clone()).speaking_4();
    let service = match domain {
        Some(domain) => service.naming_owners(domain),
        None => service,
    };
    let file = scene.file(b"f");
    (Scene { service, ..scene }, file)
}

fn owned(scene: &Scene, file: ObjectRef, uid: u32, gid: u32) {
    let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
    scene.exports.tank.model.setattr(OpCtx::of(&Cred::root()), file, &set, None).result.unwrap();
}

/// As it is told.
fn told(scene: &Scene, file: ObjectRef) -> [String; 2] {
    let asked = [scene.put(file), get_attr(&[FATTR4_OWNER, FATTR4_OWNER_GROUP])];
    let Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok))) = scene.run(1, &asked).resarray.0.pop() else {
        panic!("no attributes")
    };
    let found = by_number(&ok.obj_attributes);
    let (Some(Fattr4Value::Fattr4Owner(owner)), Some(Fattr4Value::Fattr4OwnerGroup(group))) =
        (found.get(&FATTR4_OWNER), found.get(&FATTR4_OWNER_GROUP))
    else {
        panic!("{found:?}")
    };
    [owner, group].map(|name| String::from_utf8(name.to_vec()).unwrap())
}

fn sets(scene: &Scene, file: ObjectRef, value: Fattr4Value) -> Nfsstat4 {
    let asked: [Op; 2] = [scene.put(file), set(Fattr4::of(&[value]))];
    scene.run(2, &asked).status
}

#[test]
fn who_has_a_name_is_told_by_it_where_the_domain_is_known() {
    let (scene, file) = scene(Some("example.org"));
    owned(&scene, file, DAEMON, ROOT);
    assert_eq!(told(&scene, file), ["daemon@example.org", "root@example.org"]);
    owned(&scene, file, NAMELESS, NAMELESS);
    assert_eq!(told(&scene, file), ["4000000000"; 2]);
    let (scene, file) = self::scene(None);
    owned(&scene, file, DAEMON, ROOT);
    assert_eq!(told(&scene, file), ["1", "0"]);
}

/// Rules V38: a name that nobody has is not taken for nobody.
#[test]
fn a_name_of_the_domain_or_a_number_is_taken_and_nothing_else() {
    let (scene, file) = scene(Some("example.org"));
    let owner = |name: &str| Fattr4Value::Fattr4Owner(name.as_bytes().into());
    let group = |name: &str| Fattr4Value::Fattr4OwnerGroup(name.as_bytes().into());
    for (value, expected) in [
        (owner("daemon@example.org"), OK),
        (group("daemon@EXAMPLE.org"), OK),
        (owner("nobody-is-called-so@example.org"), Nfs4ErrBadowner),
        (owner("root@example.com"), Nfs4ErrBadowner),
        (owner("root"), Nfs4ErrBadowner),
        (owner("@example.org"), Nfs4ErrBadowner),
        (owner("ro\0ot@example.org"), Nfs4ErrBadowner),
        (group("root@example.org@example.org"), Nfs4ErrBadowner),
        (group(&"g".repeat(10_000)), Nfs4ErrBadowner),
        (owner(""), Nfs4ErrInval),
    ] {
        assert_eq!(sets(&scene, file, value.clone()), expected, "{value:?}");
        let [owner, group] = told(&scene, file);
        assert!([&owner, &group].iter().all(|name| ["daemon@example.org", "root@example.org"].contains(&&***name)));
    }
    assert_eq!(told(&scene, file), ["daemon@example.org"; 2]);
    assert_eq!(sets(&scene, file, owner("0")), OK);
    assert_eq!(told(&scene, file), ["root@example.org", "daemon@example.org"]);
}
