//! A pool on a partition that ends where its disk ends, as the last one of a DOS label does (GPT has its second table there).
//! The end labels of the partition are the disk's as well. A scan of /dev took the disk for the leg, and the partition was
//! busy then: after each restart the pool was UNAVAIL, as its root was looked for where the partition table had moved it.

use std::path::Path;
use std::sync::Arc;

use tally_disk::{Access, Disk, Durability, Geometry, Opener, Platform, SystemOpener};
use tally_fakes::{FaultyDisk, MemDisk, World};

use super::*;
use crate::assemble::{Assembled, ImportError, ImportOptions, PoolSelect, import};
use crate::label::LABEL_BYTES;
use crate::roster::tests::{LEG_BYTES, claim, commit, pool, reopen};

/// Where the partition begins.
const START: u64 = 1 << 20;

/// What lies before it: the table, a boot loader.
const TABLE: u8 = 0xee;

/// The last partition of a disk: the disk's bytes from `start` on.
struct Partition {
    disk: Arc<FaultyDisk>,
    start: u64,
}

impl Disk for Partition {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(self.start + offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        self.disk.write(self.start + offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(self.start + offset, length)
    }

    fn geometry(&self) -> Geometry {
        let geometry = self.disk.geometry();
        Geometry { size: geometry.size - self.start, ..geometry }
    }
}

/// A pool of these words, made when the disk `whole` could not be seen; its partition is `/d/m`, of `leg_bytes`.
fn world_with(whole: &'static str, leg_bytes: u64, words: &str) -> World {
    let world = World::new(&[("b", LEG_BYTES), (whole, START + leg_bytes)]);
    world.disk(whole).write(0, &[TABLE; START as usize], Durability::Durable).unwrap();
    let disk = world.disks.iter().find(|(name, _)| *name == whole).map(|(_, disk)| Arc::clone(disk)).unwrap();
    world.present(&["b"]);
    world.opener.put("/d/m", Arc::new(Partition { disk, start: START }));
    drop(pool(&world, words));
    world.present(&["b", whole]);
    world
}

/// The state of every leg as `a:ONLINE b:STALE`, by the path at which it was found.
fn states(outcome: &Result<Assembled, ImportError>) -> String {
    let assembled = match outcome {
        Ok(assembled) => assembled,
        Err(error) => return error.to_string(),
    };
    let legs = assembled.vdevs.iter().chain(&assembled.logs).flat_map(|vdev| vdev.legs());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    legs.map(|leg| format!("{}:{}", name(leg.path()), leg.state().word())).collect::<Vec<_>>().join(" ")
}

fn found(world: &World) -> Result<Assembled, ImportError> {
    reopen(world).map(|(assembled, _)| assembled)
}

fn damage_front(disk: &dyn Disk) {
    disk.write(0, &[0; LABEL_BYTES as usize], Durability::Durable).unwrap();
}

/// Nothing was written in front of the partition.
fn assert_table(world: &World, whole: &str) {
    assert!(world.disk(whole).bytes(0, START as usize).iter().all(|byte| *byte == TABLE), "{whole}");
}

/// As a lone disk; in a mirror, where it may be larger than its sibling; and as a log, which takes what it needs. The disk's
/// name comes before the partition's or behind it.
#[test]
fn a_disk_that_ends_with_a_leg_is_not_the_leg() {
    let shapes = [
        ("/d/m", LEG_BYTES, "m:ONLINE"),
        ("mirror /d/b /d/m", LEG_BYTES, "b:ONLINE m:ONLINE"),
        ("mirror /d/b /d/m", LEG_BYTES + (3 << 20), "b:ONLINE m:ONLINE"),
        ("/d/b log /d/m", LEG_BYTES * 80, "b:ONLINE m:ONLINE"),
    ];
    for whole in ["a", "z"] {
        for (words, leg_bytes, expected) in shapes {
            let world = world_with(whole, leg_bytes, words);
            for txg in 2..=4 {
                let assembled = found(&world);
                assert_eq!(states(&assembled), expected, "{whole}: {words}, {leg_bytes} bytes, txg {txg}");
                let assembled = assembled.unwrap();
                claim(&world, &assembled.roster);
                commit(&assembled.roster, txg).unwrap();
            }
            assert_table(&world, whole);
        }
    }
}

/// The same when the partition, too, is known only by its end.
#[test]
fn a_partition_with_a_damaged_front_is_the_leg_and_not_its_disk() {
    for whole in ["a", "z"] {
        for leg_bytes in [LEG_BYTES, LEG_BYTES + (3 << 20)] {
            let world = world_with(whole, leg_bytes, "mirror /d/b /d/m");
            let partition = world.opener.open(Path::new("/d/m"), Access::Exclusive).unwrap();
            damage_front(partition.as_ref());
            drop(partition);
            let assembled = found(&world);
            assert_eq!(states(&assembled), "b:ONLINE m:ONLINE", "{whole}: {leg_bytes}");
            claim(&world, &assembled.unwrap().roster);
            assert_table(&world, whole);
        }
    }
}

/// A disk has a few bytes behind its last whole sector, and its partition ends before them: its label is the disk's all the
/// same, since both are looked for in whole sectors.
#[test]
fn a_partition_that_ends_with_the_last_whole_sector_is_the_leg_and_not_its_disk() {
    struct Longer(Arc<FaultyDisk>);
    impl Disk for Longer {
        fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, buf)
        }

        fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
            self.0.write(offset, buf, durability)
        }

        fn flush(&self) -> io::Result<()> {
            self.0.flush()
        }

        fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
            self.0.discard(offset, length)
        }

        fn geometry(&self) -> Geometry {
            let geometry = self.0.geometry();
            Geometry { size: geometry.size + 1024, ..geometry }
        }
    }
    for (is_damaged, leg_bytes) in
        [(false, LEG_BYTES), (false, LEG_BYTES + (3 << 20)), (true, LEG_BYTES + (3 << 20)), (true, LEG_BYTES)]
    {
        let world = world_with("a", leg_bytes, "mirror /d/b /d/m");
        let disk = world.disks.iter().find(|(name, _)| *name == "a").map(|(_, disk)| Arc::clone(disk)).unwrap();
        world.opener.put("/d/a", Arc::new(Longer(disk)));
        if is_damaged {
            let partition = world.opener.open(Path::new("/d/m"), Access::Exclusive).unwrap();
            damage_front(partition.as_ref());
        }
        assert_eq!(states(&found(&world)), "b:ONLINE m:ONLINE", "damaged {is_damaged}, {leg_bytes} bytes");
    }
}

/// The disk is there and the kernel has not found its partitions yet. As a leg of a mirror it was claimed: a label was written
/// over the table, and blocks were "repaired" in wrong places.
#[test]
fn a_disk_without_its_partition_is_missing_and_not_written() {
    let world = world_with("a", LEG_BYTES, "mirror /d/b /d/m");
    let partition = world.opener.remove(Path::new("/d/m")).unwrap();
    let assembled = found(&world);
    assert_eq!(states(&assembled), "b:ONLINE m:MISSING");
    drop(assembled);
    world.present(&["a"]);
    let text = states(&found(&world));
    assert!(text.starts_with("no pool tank was found; seen: /d/a: ") && text.contains("byte 1048576"), "{text}");
    world.opener.put("/d/m", partition);
    world.present(&["a", "b"]);
    assert_eq!(states(&found(&world)), "b:ONLINE m:ONLINE");
    assert_table(&world, "a");
}

/// Names that change hands: whoever looks finds the partition at `/d/m`, and whoever takes it gets the disk.
struct Renamed(World);

impl Opener for Renamed {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        let is_taken = access == Access::Exclusive && path == Path::new("/d/m");
        self.0.opener.open(if is_taken { Path::new("/d/a") } else { path }, access)
    }

    fn create(&self, path: &Path, _: u64, _: bool, _: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        unreachable!("nobody makes {}", path.display())
    }
}

#[test]
fn a_disk_around_a_leg_is_known_under_the_lock_as_well() {
    let world = world_with("a", LEG_BYTES, "mirror /d/b /d/m");
    let platform = world.platform();
    let platform = Platform { opener: Arc::new(Renamed(world)), ..platform };
    let source = ImportSource { paths: vec!["/d/b".into(), "/d/m".into()], dirs: Vec::new() };
    let outcome = import(&platform, &source, &PoolSelect::Name("tank".into()), &ImportOptions::default());
    assert_eq!(states(&outcome.map(|(assembled, _)| assembled)), "b:ONLINE m:MISSING");
}

/// A leg that is larger than it must be needs no front, and one that has grown no end.
#[test]
fn a_larger_leg_is_known_by_either_end() {
    let made = || {
        let world = World::new(&[("b", LEG_BYTES), ("m", LEG_BYTES + START)]);
        drop(pool(&world, "mirror /d/b /d/m"));
        world
    };
    let world = made();
    damage_front(world.disk("m"));
    assert_eq!(states(&found(&world)), "b:ONLINE m:ONLINE");

    let mut world = made();
    let grown = FaultyDisk::new("m", LEG_BYTES + (9 << 20), &world.journal);
    grown.write(0, &world.disk("m").bytes(0, (LEG_BYTES + START) as usize), Durability::Durable).unwrap();
    world.swap("m", &grown);
    assert_eq!(states(&found(&world)), "b:ONLINE m:ONLINE");
}

/// A copy with a good front beside the leg itself, whose front is damaged and which has gone on: nobody but the operator may
/// choose.
#[test]
fn an_older_copy_is_not_preferred_for_its_front() {
    for copy_bytes in [LEG_BYTES, LEG_BYTES + START, LEG_BYTES + (9 << 20)] {
        let world = World::new(&[("b", LEG_BYTES), ("m", LEG_BYTES + START)]);
        let made = pool(&world, "mirror /d/b /d/m");
        let copy = MemDisk::new(copy_bytes);
        let bytes = world.disk("m").bytes(0, copy_bytes.min(LEG_BYTES + START) as usize);
        copy.write(0, &bytes, Durability::Durable).unwrap();
        commit(&made.roster, 2).unwrap();
        drop(made);
        damage_front(world.disk("m"));
        world.opener.put("/d/copy", Arc::new(copy));
        let outcome = found(&world);
        assert!(matches!(outcome, Err(ImportError::TwoCopies { .. })), "{copy_bytes}: {}", states(&outcome));
    }
}

/// A leg that somebody has cut into partitions is still the leg.
#[test]
fn a_leg_with_a_front_is_not_passed_over_for_what_lies_in_it() {
    let world = World::new(&[("b", LEG_BYTES), ("m", LEG_BYTES + (3 << 20))]);
    drop(pool(&world, "mirror /d/b /d/m"));
    let disk = Arc::clone(&world.disks[1].1);
    world.opener.put("/d/m1", Arc::new(Partition { disk, start: START }));
    let outcome = found(&world);
    assert!(matches!(outcome, Err(ImportError::TwoCopies { .. })), "{}", states(&outcome));
}

/// Files in a directory: an image of the disk beside one of its partition.
#[test]
fn an_image_of_a_disk_beside_one_of_its_partition_is_no_second_leg() {
    let memory = World::new(&[("m", LEG_BYTES)]);
    drop(pool(&memory, "/d/m"));
    let bytes = memory.disk("m").bytes(0, LEG_BYTES as usize);
    for (disk, part) in [("disk", "part"), ("whole", "part")] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(part), &bytes).unwrap();
        std::fs::write(dir.path().join(disk), [vec![TABLE; START as usize], bytes.clone()].concat()).unwrap();
        let source = ImportSource { paths: Vec::new(), dirs: vec![dir.path().to_owned()] };
        let scan = scan(&SystemOpener, &source).unwrap();
        let paths: Vec<_> = scan.pools[0].legs.iter().map(|leg| leg.path.clone()).collect();
        assert_eq!(paths, [dir.path().join(part)], "only the leg is listed");
        assert!(scan.refused.is_empty(), "{:?}", scan.refused);
        let platform = Platform { opener: Arc::new(SystemOpener), ..memory.platform() };
        let select = PoolSelect::Name("tank".into());
        let outcome = import(&platform, &source, &select, &ImportOptions::default()).map(|(assembled, _)| assembled);
        assert_eq!(states(&outcome), "part:ONLINE");
        claim(&memory, &outcome.unwrap().roster);
    }
}
