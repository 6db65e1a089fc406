//! Owners by names of a domain: as the name service of this very machine has them.

use std::process::Command;

use tally_server::config::ServeArgs;
use tally_wire::bitmap;
use tally_wire::nfs4::Nfsstat4::{Nfs4ErrBadowner, Nfs4Ok};
use tally_wire::nfs4::{
    FATTR4_OWNER, FATTR4_OWNER_GROUP, Fattr4, Fattr4Value, Getattr4Args, Getattr4Res, Lookup4Args, NfsArgop4,
    NfsResop4, Setattr4Args, Stateid4,
};

use super::evicting::{Client, serving};
use super::*;

fn file() -> NfsArgop4 {
    NfsArgop4::OpLookup(Lookup4Args { objname: b"f".into() })
}

fn told(client: &mut Client) -> Vec<Fattr4Value> {
    let get = NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(&[FATTR4_OWNER, FATTR4_OWNER_GROUP]) });
    match client.run(vec![file(), get]).resarray.0.pop() {
        Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok))) => ok.obj_attributes.values().expect("two"),
        other => panic!("{other:?}"),
    }
}

fn owners(user: &str, group: &str) -> Vec<Fattr4Value> {
    vec![Fattr4Value::Fattr4Owner(user.as_bytes().into()), Fattr4Value::Fattr4OwnerGroup(group.as_bytes().into())]
}

/// Of this process, as id(1) says it.
fn id(flags: &str) -> String {
    let said = Command::new("id").arg(flags).output().expect("id of coreutils").stdout;
    String::from_utf8(said).unwrap().trim_end().to_owned()
}

#[test]
fn owners_are_users_and_groups_of_this_machine_where_a_domain_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let opener = Arc::new(MemOpener::default());
    let args = || ServeArgs { nfs4: true, ..Running::args(dir.path()) };
    let named = |name: String| format!("{name}@example.org");

    let with_domain = ServeArgs { nfs4_domain: Some("example.org".parse().unwrap()), ..args() };
    let (daemon, server) = serving(with_domain, &opener);
    let mut client = Client::new(server, "one").claims_nothing();
    client.open_for("f", 2).expect("it is made");
    let mine = owners(&named(id("-un")), &named(id("-gn")));
    assert_eq!(told(&mut client), mine);
    let mut set = |values: &[Fattr4Value]| {
        let stateid = Stateid4 { seqid: 0, other: [0; 12] };
        let set = NfsArgop4::OpSetattr(Setattr4Args { stateid, obj_attributes: Fattr4::of(values) });
        client.run(vec![file(), set]).status
    };
    assert_eq!(set(&mine), Nfs4Ok);
    assert_eq!(set(&owners("nobody-is-called-so@example.org", "0")), Nfs4ErrBadowner);
    daemon.stop();

    let (daemon, server) = serving(args(), &opener);
    let mut client = Client::new(server, "one").claims_nothing();
    assert_eq!(told(&mut client), owners(&id("-u"), &id("-g")), "without it they are numbers");
    daemon.stop();
}
