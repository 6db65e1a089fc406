//! An administrator exports a pool and takes it back: clients of NFSv4 have what they had, if it is back within a lease and nobody else has had it (rules V37).

use tally_wire::nfs4::Nfsstat4::{self, Nfs4ErrAdminRevoked, Nfs4ErrDelay, Nfs4ErrDenied, Nfs4Ok};
use tally_wire::nfs4::{
    Lookup4Args, NfsArgop4, NfsResop4, OpenDelegation4, Read4Args, Sequence4Res, Stateid4, TestStateid4Args,
    TestStateid4Res,
};

use tally_server::config::ServeArgs;

use super::evicting::{Client, id, serving, speaking_4};
use super::*;

/// `SEQ4_STATUS_ADMIN_STATE_REVOKED`.
const ADMIN_REVOKED: u32 = 0x20;

const EXPORT: &[&str] = &["pool", "export", "tank"];
const IMPORT: &[&str] = &["pool", "import", "tank"];

fn done(data_dir: &Path, words: &[&str]) {
    story(data_dir, &[(words, true, &[])]);
}

/// What SEQUENCE says of what was revoked, which needs no pool.
fn flags(client: &mut Client) -> u32 {
    let sequence = client.sequence();
    match client.send(vec![sequence]).resarray.0.pop() {
        Some(NfsResop4::OpSequence(Sequence4Res::Nfs4Ok(told))) => told.sr_status_flags,
        other => panic!("{other:?}"),
    }
}

fn tested(client: &mut Client, stateid: &Stateid4) -> Nfsstat4 {
    let sequence = client.sequence();
    let test = NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids: vec![stateid.clone()].into() });
    match client.send(vec![sequence, test]).resarray.0.pop() {
        Some(NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told))) => told.tsr_status_codes.0[0],
        other => panic!("{other:?}"),
    }
}

fn read(client: &mut Client, name: &str, stateid: &Stateid4) -> Nfsstat4 {
    let file = NfsArgop4::OpLookup(Lookup4Args { objname: name.as_bytes().into() });
    let read = NfsArgop4::OpRead(Read4Args { stateid: stateid.clone(), offset: 0, count: 100 });
    client.run(vec![file, read]).status
}

#[test]
fn clients_of_a_pool_that_is_exported_and_imported_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (data_dir, opener) = (dir.path(), Arc::new(MemOpener::default()));
    let (daemon, server) = speaking_4(data_dir, &opener);
    let mut one = Client::called(server, "one").claims_nothing();
    let mut other = Client::new(server, "other").claims_nothing();
    let [mine, theirs] = [&mut one, &mut other].map(|client| client.open("f").expect("it is made"));
    one.open_for("g", 2).expect("it is made");
    let OpenDelegation4::OpenDelegateRead(kept) = one.open_for("g", 1).expect("it is there").delegation else {
        panic!("it is given")
    };
    assert_eq!((one.lock("f", &mine), other.lock("f", &theirs)), (Nfs4Ok, Nfs4ErrDenied));
    for _ in 0..2 {
        done(data_dir, EXPORT);
        assert_eq!((flags(&mut one), read(&mut one, "f", &mine)), (0, Nfs4ErrDelay));
        assert_eq!((tested(&mut one, &mine), tested(&mut one, &kept.stateid)), (Nfs4Ok, Nfs4Ok));
        done(data_dir, IMPORT);
        assert_eq!(other.lock("f", &theirs), Nfs4ErrDenied, "nobody gets in between");
        assert_eq!((flags(&mut one), read(&mut one, "f", &mine)), (0, Nfs4Ok));
        assert_eq!((tested(&mut one, &mine), tested(&mut one, &kept.stateid)), (Nfs4Ok, Nfs4Ok));
        // Nobody waits for claims either.
        other.open("h").expect("there is no grace");
    }
    // Who is evicted meanwhile keeps nobody out behind the import.
    done(data_dir, EXPORT);
    let (_, clients) = tally(data_dir, &["client", "list", "-H"]);
    done(data_dir, &["client", "evict", "--yes", &id(&clients, "\tone")]);
    done(data_dir, IMPORT);
    assert_eq!(other.lock("f", &theirs), Nfs4Ok);
    daemon.stop();
}

/// Another one has had it in service: nobody here knows what its clients were given there.
#[test]
fn what_another_machine_had_meanwhile_is_nobodys() {
    let [dir, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (data_dir, opener) = (dir.path(), Arc::new(MemOpener::default()));
    let (daemon, server) = speaking_4(data_dir, &opener);
    let mut one = Client::new(server, "one").claims_nothing();
    let mine = one.open("f").expect("it is made");
    done(data_dir, EXPORT);
    std::fs::write(elsewhere.path().join("tally.toml"), "first_pool = false\n").unwrap();
    let there = Running::start(elsewhere.path(), &opener);
    let dirs = data_dir.display().to_string();
    done(elsewhere.path(), &["pool", "import", "-d", &dirs, "tank"]);
    done(elsewhere.path(), EXPORT);
    assert_eq!(flags(&mut one), 0, "nobody knows of that yet");
    done(data_dir, IMPORT);
    assert_eq!((flags(&mut one), tested(&mut one, &mine)), (ADMIN_REVOKED, Nfs4ErrAdminRevoked));
    there.stop();
    daemon.stop();
}

/// It is told while the pool is away, and what comes behind that is nobody's.
#[test]
fn what_is_kept_of_an_exported_pool_is_over_behind_a_lease() {
    let dir = tempfile::tempdir().unwrap();
    let (data_dir, opener) = (dir.path(), Arc::new(MemOpener::default()));
    let args = ServeArgs { nfs4: true, lease_time: Some("5".parse().unwrap()), ..Running::args(data_dir) };
    let (daemon, server) = serving(args, &opener);
    let mut one = Client::new(server, "one").claims_nothing();
    let mine = one.open("f").expect("it is made");
    done(data_dir, EXPORT);
    let (given_up, lease) = (Instant::now() + PATIENCE, Instant::now() + Duration::from_secs(4));
    while flags(&mut one) == 0 {
        assert!(Instant::now() < given_up, "it is kept for ever");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(Instant::now() > lease, "it was not kept for a lease");
    assert_eq!(tested(&mut one, &mine), Nfs4ErrAdminRevoked);
    done(data_dir, IMPORT);
    assert_eq!((flags(&mut one), tested(&mut one, &mine)), (ADMIN_REVOKED, Nfs4ErrAdminRevoked));
    daemon.stop();
}
