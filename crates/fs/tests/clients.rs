//! What a pool keeps of clients: nobody is shown it, and it is there behind whatever happens to the pool.

mod world;

use tally_fs::filer::CreateOptions;
use tally_store::properties::{PropertySet, SyncMode, Value};
use tally_vfs::{Content, Cred, FsError, Identity, Names, SetAttr};
use world::{World, ctx, done};

const MIB: u64 = 1 << 20;

/// Of a pool that waits for nothing else and takes no writes either.
#[test]
fn what_is_kept_of_clients_is_durable_and_in_no_list() {
    let world = World::new(64 * MIB, 16 * MIB);
    let mut properties = PropertySet::new();
    properties.set(Value::Sync(SyncMode::Disabled));
    properties.set(Value::ReadOnly(true));
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    assert!(filer.clients().is_none(), "a pool has none before there is something to keep");
    let clients = filer.make_clients().unwrap();
    assert_eq!(filer.make_clients().unwrap().dataset(), clients.dataset(), "there is one");
    let cred = Cred::root();
    done(clients.symlink(ctx(&cred), clients.root(), b"1-abc", b"of a client", &SetAttr::default())).unwrap();
    assert_eq!(filer.datasets().len(), 1);
    assert!(filer.by_name("tank/$v4").is_none());
    assert!(filer.check_new("tank/$v4").is_err(), "no command makes one, or takes its name");

    let (cut, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    let clients = cut.clients().expect("it is there behind a cut");
    let (link, _) = clients.lookup(&cred, clients.root(), b"1-abc").unwrap();
    assert_eq!(clients.readlink(link.object).unwrap().0, "of a client");
    assert_eq!(cut.datasets().len(), 1);
    done(clients.remove(ctx(&cred), clients.root(), b"1-abc")).unwrap();
    assert_eq!(done(clients.remove(ctx(&cred), clients.root(), b"1-abc")), Err(FsError::NotFound));
    cut.export().unwrap();
}
