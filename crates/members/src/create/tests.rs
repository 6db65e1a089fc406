use tally_disk::SystemOpener;
use tally_fakes::World;

use super::*;
use crate::blockdev::BlockDev;
use crate::grammar::parse_vdev_args;
use crate::roster::tests::{claim, commit, pool, reopen};

const MIB: u64 = 1 << 20;

fn specs(words: &str) -> Vec<VdevSpec> {
    let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
    parse_vdev_args(&words).unwrap()
}

fn refusal(world: &World, name: &str, words: &str, options: &CreateOptions) -> String {
    let outcome = create(&world.platform(), name, &specs(words), options);
    outcome.map(|_| ()).expect_err("this must be refused").to_string()
}

/// Device sizes, and the data area and ring that come of them.
#[test]
fn rings_by_size() {
    const GIB: u64 = 1 << 30;
    for (size, data_bytes, ring_bytes) in [
        (16 * MIB, 16_252_928, MIB),
        (64 * MIB + 5000, 66_588_672, MIB),
        (GIB, 1_073_217_536, 16_769_024 / 4096 * 4096),
        (100 * GIB, 107_373_658_112, GIB),
    ] {
        let world = World::new(&[("a", size)]);
        let options = CreateOptions { prewrite_rings: false, ..CreateOptions::default() };
        let made = create(&world.platform(), "tank", &specs("/d/a"), &options).unwrap();
        let vdev = &made.config.vdevs[0];
        assert_eq!(vdev.data_bytes, data_bytes, "{size}");
        let found = vdev.ring.unwrap();
        assert_eq!(found.length, ring_bytes, "{size}");
        assert_eq!(found.start % 4096, 0);
        let (before, after) = (found.start, data_bytes - found.start - found.length);
        assert!(before.abs_diff(after) <= 8192, "{size}: {before} bytes before the ring and {after} after it");
        assert_eq!(made.config.lanes[0].size, found.length);
    }
}

#[test]
fn log_devices_are_rings_and_spare_the_pool() {
    let world = World::new(&[("a", 16 * MIB), ("b", 32 * MIB), ("l", 2 * MIB), ("m", 3 * MIB), ("n", 8 * MIB)]);
    let options = CreateOptions { log_bytes_max: 4 * MIB, ..CreateOptions::default() };
    let made = create(&world.platform(), "tank", &specs("mirror /d/a /d/b log mirror /d/l /d/m log /d/n"), &options);
    let config = made.unwrap().config;
    let shown: Vec<_> = config
        .vdevs
        .iter()
        .map(|vdev| (vdev.index.0, vdev.class, vdev.kind, vdev.data_bytes, vdev.ring.map(|ring| ring.length)))
        .collect();
    use crate::label::VdevKind::{Disk, Mirror};
    assert_eq!(
        shown,
        [
            (0, VdevClass::Data, Mirror, 16 * MIB - 512 * 1024, None),
            (1, VdevClass::Log, Mirror, 2 * MIB - 512 * 1024, Some(2 * MIB - 512 * 1024)),
            (2, VdevClass::Log, Disk, 4 * MIB, Some(4 * MIB)),
        ]
    );
    let lanes: Vec<_> = config.lanes.iter().map(|line| (line.lane, line.vdev, line.legset.len())).collect();
    assert_eq!(lanes, [(LaneId(0), VdevIndex(1), 2), (LaneId(1), VdevIndex(2), 1)]);
}

#[test]
fn a_pool_of_16_mib_works() {
    let world = World::new(&[("a", 16 * MIB)]);
    let made = pool(&world, "/d/a");
    let end = made.vdevs[0].data_bytes();
    made.vdevs[0].write(end - 4096, &[3; 4096]).unwrap();
    made.vdevs[0].flush().unwrap();
    commit(&made.roster, 2).unwrap();
    drop(made);
    let (again, chosen) = reopen(&world).unwrap();
    assert_eq!(chosen.uberblock.txg, Txg(2));
    assert_eq!(*again.vdevs[0].read(end - 4096, 4096, &|_| true).unwrap(), [3; 4096]);
}

#[test]
fn refusals() {
    let world = World::new(&[("a", 16 * MIB), ("tiny", 16 * MIB - 4096), ("l", 2 * MIB - 4096)]);
    let plain = CreateOptions::default();
    for (name, words, expected) in [
        ("tank", "/d/absent", "cannot use /d/absent: there is nothing at /d/absent"),
        ("tank", "/d/tiny", "/d/tiny has 16773120 bytes and needs at least 16777216"),
        ("tank", "/d/a log /d/l", "/d/l has 2093056 bytes and needs at least 2097152"),
        ("", "/d/a", "\"\" cannot be a pool's name"),
        ("9tank", "/d/a", "\"9tank\" cannot be a pool's name"),
        ("ta/nk", "/d/a", "\"ta/nk\" cannot be a pool's name"),
        ("mirror", "/d/a", "\"mirror\" cannot be a pool's name"),
        ("raidz2", "/d/a", "\"raidz2\" cannot be a pool's name"),
    ] {
        let text = refusal(&world, name, words, &plain);
        assert!(text.starts_with(expected), "{name} {words}: {text}");
    }
    assert!(world.journal.lock().is_empty(), "a refusal has written nothing");
    create(&world.platform(), "logbook", &specs("/d/a"), &plain).expect("only the bare words are taken");
}

#[test]
fn devices_of_other_pools_are_taken_only_by_force() {
    let world = World::new(&[("a", 16 * MIB), ("b", 16 * MIB)]);
    let first = pool(&world, "/d/a");
    let plain = CreateOptions::default();
    assert!(refusal(&world, "pond", "/d/a", &plain).contains("in use by another process"));
    drop(first);
    let writes = world.journal.lock().len();
    let text = refusal(&world, "pond", "/d/b /d/a", &plain);
    assert!(text.starts_with("/d/a belongs to pool tank (in use"), "{text}");
    assert_eq!(world.journal.lock().len(), writes, "b was not touched either");
    let forced = CreateOptions { force: true, ..plain };
    let made = create(&world.platform(), "pond", &specs("/d/a"), &forced).unwrap();
    claim(&world, &made.roster);
    let label = label::read(world.disk("a")).unwrap();
    assert_eq!((label.config.name.as_str(), label.config.sequence), ("pond", 1), "nothing of tank is left");
    made.roster.destroy(Txg(0)).unwrap();
    drop(made);
    create(&world.platform(), "tank", &specs("/d/a"), &plain).expect("a destroyed pool's disk is free");
}

/// What somebody else has on a disk is not written over unasked.
#[test]
fn a_device_with_a_file_system_is_taken_only_by_force() {
    let world = World::new(&[("a", 16 * MIB), ("b", 16 * MIB)]);
    let mut sector = vec![0; 4096];
    sector[0x438..0x43a].copy_from_slice(b"\x53\xef");
    world.disk("a").write(0, &sector, tally_disk::Durability::Durable).unwrap();
    let writes = world.journal.lock().len();
    let plain = CreateOptions::default();
    let text = refusal(&world, "pond", "/d/b /d/a", &plain);
    assert_eq!(
        text,
        "/d/a holds an ext2, ext3 or ext4 file system; with -f all of that is lost, or name another device"
    );
    assert_eq!(world.journal.lock().len(), writes, "nothing was written");
    create(&world.platform(), "pond", &specs("/d/a"), &CreateOptions { force: true, ..plain })
        .expect("it was asked for");
}

/// A disk whose beginning could not be read was taken for an empty one.
#[test]
fn a_device_that_cannot_be_read_is_taken_only_by_force() {
    let plain = CreateOptions::default();
    // The sector with what another has there, and the end, where a RAID says what it is.
    for bad in [0, 16 * MIB - (64 << 10)] {
        let world = World::new(&[("a", 16 * MIB), ("b", 16 * MIB)]);
        world.disk("a").make_bad(bad);
        let text = refusal(&world, "pond", "/d/b /d/a", &plain);
        let expected = "cannot read what is on /d/a: a sector that cannot be read; see to that disk, or name another one. With -f \
                        it is written over, whatever it holds";
        assert_eq!(text, expected, "at {bad}");
        assert!(world.journal.lock().is_empty(), "nothing was written");
        create(&world.platform(), "pond", &specs("/d/a"), &CreateOptions { force: true, ..plain })
            .expect("it was asked for");
    }
}

/// A pool of a program of another age is a pool: it says what it is, and nothing is written over it unasked.
#[test]
fn a_device_of_another_format_is_taken_only_by_force() {
    let world = World::new(&[("a", 16 * MIB), ("b", 16 * MIB)]);
    world.disk("a").write(0, label::tests::LABEL_OF_VERSION_1, tally_disk::Durability::Durable).unwrap();
    let writes = world.journal.lock().len();
    let plain = CreateOptions::default();
    let sentence = "it was made by a version before 0.1.0, in format 1, and this program cannot read that; copy its content \
                    with the program that made it";
    let text = refusal(&world, "pond", "/d/b /d/a", &plain);
    assert_eq!(text, format!("/d/a belongs to a pool ({sentence}); force it if that pool is not needed any more"));
    let imported = reopen(&world).map(|_| ()).unwrap_err();
    assert_eq!(imported.to_string(), format!("no pool tank was found; seen: /d/a: {sentence}"));
    assert_eq!(world.journal.lock().len(), writes, "nothing was written");
    let forced = CreateOptions { force: true, ..plain };
    let made = create(&world.platform(), "pond", &specs("/d/a"), &forced).unwrap();
    claim(&world, &made.roster);
    assert_eq!(label::read(world.disk("a")).unwrap().config.name, "pond");
}

#[test]
fn a_ring_is_written_out_on_request() {
    for prewrite_rings in [false, true] {
        let world = World::new(&[("a", 16 * MIB)]);
        let options = CreateOptions { prewrite_rings, ..CreateOptions::default() };
        let made = create(&world.platform(), "tank", &specs("/d/a"), &options).unwrap();
        let ring = made.config.vdevs[0].ring.unwrap();
        let start = LABEL_BYTES + ring.start;
        let in_ring = |offset: u64| offset >= start && offset < start + ring.length;
        let written = world.journal.lock().iter().any(|entry| in_ring(entry.offset));
        assert_eq!(written, prewrite_rings);
    }
}

/// The same through files: locks, O_DIRECT and all.
#[test]
fn a_mirror_of_files_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(&[]);
    let platform = Platform { opener: Arc::new(SystemOpener), ..world.platform() };
    let paths = ["a", "b"].map(|name| dir.path().join(name));
    for path in &paths {
        platform.opener.create(path, 16 * MIB, false, &mut |_| true).unwrap();
    }
    let words = format!("mirror {} {}", paths[0].display(), paths[1].display());
    let made = create(&platform, "tank", &specs(&words), &CreateOptions::default()).unwrap();
    claim(&world, &made.roster);
    commit(&made.roster, 1).unwrap();
    let source = crate::discover::ImportSource { paths: Vec::new(), dirs: vec![dir.path().to_owned()] };
    let again = || {
        let name = crate::assemble::PoolSelect::Name("tank".into());
        crate::assemble::import(&platform, &source, &name, &crate::assemble::ImportOptions::default())
    };
    assert!(matches!(again(), Err(crate::assemble::ImportError::InUse { .. })));
    drop(made);
    std::os::unix::fs::symlink(&paths[0], dir.path().join("link")).unwrap();
    let (found, chosen) = again().expect("a link to a leg is that leg");
    assert_eq!(chosen.uberblock.txg, Txg(1));
    assert!(found.notes.is_empty(), "{:?}", found.notes);
}
