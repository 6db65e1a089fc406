//! Whether clients are given files to keep is a property of datasets: set and shown by the commands, and asked at each OPEN.

use tally_wire::nfs4::OpenDelegation4;

use super::evicting::{Client, speaking_4};
use super::*;

/// Whether whoever opens a new file to read it may keep it.
fn is_given(client: &mut Client, name: &str) -> bool {
    client.open_for(name, 2).expect("it is made");
    match client.open_for(name, 1).expect("it is there").delegation {
        OpenDelegation4::OpenDelegateRead(_) => true,
        OpenDelegation4::OpenDelegateNone => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_clients_are_given_to_keep_says_a_property() {
    let dir = tempfile::tempdir().unwrap();
    let (data_dir, opener) = (dir.path(), Arc::new(MemOpener::default()));
    let (daemon, server) = speaking_4(data_dir, &opener);
    let get = |source: &str| {
        let (well, text) = tally(data_dir, &["dataset", "get", "-H", "delegations", "tank", "tank/a"]);
        assert!(well && text == source, "{text}");
    };
    story(data_dir, &[(&["dataset", "create", "tank/a"], true, &[])]);
    get("tank\tdelegations\tauto\tdefault\ntank/a\tdelegations\tauto\tdefault\n");
    let mut client = Client::called(server, "one").claims_nothing();
    assert!(is_given(&mut client, "f"), "the default");
    for (value, expected) in [("off", false), ("on", true), ("auto", true), ("off", false)] {
        story(data_dir, &[(&["dataset", "set", &format!("delegations={value}"), "tank"], true, &[])]);
        assert_eq!(is_given(&mut client, &format!("{value} {expected}")), expected, "{value}");
    }
    // What was given before the property was set stays.
    story(
        data_dir,
        &[
            (&["client", "list", "--json"], true, &["\"delegations\": 3"]),
            (&["dataset", "set", "delegations=write", "tank"], false, &["it is auto, on or off"]),
            (&["dataset", "set", "delegations=on", "tank/a"], true, &[]),
        ],
    );
    daemon.stop();
    let (daemon, server) = speaking_4(data_dir, &opener);
    get("tank\tdelegations\toff\tlocal\ntank/a\tdelegations\ton\tlocal\n");
    // The same one again: others would wait for its claims.
    let mut client = Client::called(server, "one").claims_nothing();
    assert!(!is_given(&mut client, "behind a restart"));
    story(data_dir, &[(&["dataset", "inherit", "delegations", "tank/a"], true, &[])]);
    get("tank\tdelegations\toff\tlocal\ntank/a\tdelegations\toff\tinherited from tank\n");
    daemon.stop();
}
