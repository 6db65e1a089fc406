//! A file that is cut leaves more behind than one group may free. Groups are short all the same, and what was cut is gone at
//! once for whoever reads, also where the file grows again over it before the reaper has come by.

mod world;

use std::sync::Arc;

use tally_base::SECTOR;
use tally_disk::Disk;
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_members::label::LABEL_BYTES;
use tally_store::bp::BlockPtr;
use tally_store::key::{Class, Key};
use tally_store::properties::{Property, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, ObjectRef, SetAttr, Stability, Vfs};
use world::{World, content, ctx, mode, noise, vfs};

const RECORD: u64 = 4 << 10;
const BLOCKS: u64 = 200;
/// Extents that a group may look at.
const REAPED: usize = 16;

/// A file of [`BLOCKS`] blocks in a pool where nothing happens by itself.
struct Cutting {
    world: World,
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
    file: ObjectRef,
    is: Vec<u8>,
}

impl Cutting {
    fn new() -> Self {
        let world = World::new(64 << 20, 16 << 20);
        let properties = [(Property::RecordSize, "4K"), (Property::Compression, "off")];
        let properties = properties.map(|(property, value)| parse(property, value).unwrap()).into_iter().collect();
        let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
        let cred = Cred::root();
        let fs = vfs(&filer);
        let made = fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644)));
        let file = made.result.expect("an empty pool").object;
        filer.export().expect("nothing is in the way");
        let filer = imported(&world);
        let mut cutting = Self { fs: vfs(&filer), world, filer, cred, file, is: Vec::new() };
        cutting.write(0, BLOCKS, 1);
        cutting.sync();
        cutting
    }

    fn write(&mut self, block: u64, count: u64, number: u64) {
        let (from, bytes) = ((block * RECORD) as usize, (count * RECORD) as usize);
        let data = noise(bytes, number);
        self.is.resize(self.is.len().max(from + bytes), 0);
        self.is[from..from + bytes].copy_from_slice(&data);
        let how = Stability::Unstable;
        self.fs.write(ctx(&self.cred), self.file, from as u64, data, how).result.expect("there is room");
    }

    fn resize(&mut self, bytes: u64) {
        let set = SetAttr { size: Some(bytes), ..SetAttr::default() };
        self.fs.setattr(ctx(&self.cred), self.file, &set, None).result.expect("a size");
        self.is.resize(bytes as usize, 0);
    }

    fn check(&self) {
        let found = content(&*self.fs, self.file);
        assert_eq!(found.len(), self.is.len());
        let wrong =
            found.chunks(RECORD as usize).zip(self.is.chunks(RECORD as usize)).position(|(one, other)| one != other);
        assert_eq!(wrong, None, "that block is not what was written");
    }

    fn sync(&self) {
        self.filer.sync().expect("there is room");
        self.check();
    }

    /// The power goes, and comes back.
    fn cut_power(&mut self) {
        self.world = self.world.cut();
        self.filer = imported(&self.world);
        self.fs = vfs(&self.filer);
        self.check();
    }

    fn used_blocks(&self) -> u64 {
        self.filer.pool().datasets()[0].root().used_bytes / RECORD
    }

    fn extents(&self) -> u64 {
        let root = self.filer.pool().datasets()[0].root();
        let key = |offset| Key::new(Class::Extent, self.file.id.0, offset, 0);
        root.tree.range(&self.filer.pool().io, &key(0), &key(u64::MAX)).count() as u64
    }

    /// Syncs until the reaper has done its work, and not once more than it may take.
    fn reap(&mut self, groups_max: u64) {
        for _ in 0..groups_max {
            if !self.is_waiting() {
                break;
            }
            self.sync();
        }
        assert!(!self.is_waiting(), "{} extents are left", self.extents());
        self.check();
    }

    fn is_waiting(&self) -> bool {
        self.filer.pool().datasets()[0].root().orphan_count > 0
    }
}

/// Where the first leaf of extents lies.
fn first_leaf(filer: &Filer) -> BlockPtr {
    let pool = filer.pool();
    let (mut leaf, mut last) = (None, None);
    pool.datasets()[0].root().tree.check(&pool.io, &mut |visit| match visit {
        Visit::Block { bp, .. } => last = Some(*bp),
        Visit::Entry { key, .. } if key.class == Class::Extent => leaf = leaf.or(last),
        _ => {}
    });
    leaf.expect("there is one")
}

/// Damages a block in all its places, or mends it again.
fn flip(world: &World, block: &BlockPtr) {
    for dva in block.dvas() {
        let (at, mut sector) = (LABEL_BYTES + dva.offset, [0; SECTOR]);
        world.at("/disks/data").read(at, &mut sector).unwrap();
        world.poke("/disks/data", at, &[!sector[0]]);
    }
}

fn imported(world: &World) -> Arc<Filer> {
    let tuning = Tuning { reap_extents_max: REAPED, ..Tuning::default() };
    world.try_import_without_threads(&tuning, &ImportOptions::default()).expect("it was a pool").0
}

#[test]
fn a_cut_is_freed_in_bounded_groups() {
    let mut cutting = Cutting::new();
    cutting.resize(0);
    let mut before = cutting.extents();
    assert_eq!(before, BLOCKS);
    let mut groups = 0;
    while before > 0 {
        cutting.sync();
        let now = cutting.extents();
        assert!(before - now <= REAPED as u64 && now < before, "{before}, then {now}");
        (before, groups) = (now, groups + 1);
    }
    assert!(groups >= BLOCKS / REAPED as u64);
    cutting.reap(1);
    assert_eq!(cutting.used_blocks(), 0, "nothing is charged any more");
}

/// A small cut goes with its group, as ever.
#[test]
fn a_little_is_freed_at_once() {
    let mut cutting = Cutting::new();
    cutting.resize((BLOCKS - 10) * RECORD);
    cutting.sync();
    assert_eq!((cutting.extents(), cutting.is_waiting()), (BLOCKS - 10, false));
}

#[test]
fn a_file_that_grows_again_shows_nothing_of_what_it_had() {
    let mut cutting = Cutting::new();
    cutting.resize(10 * RECORD + 100);
    cutting.sync();
    cutting.resize(BLOCKS * RECORD);
    cutting.check();
    cutting.sync();
    cutting.cut_power();
    cutting.write(150, 3, 2);
    cutting.sync();
    cutting.write(20, 1, 3);
    cutting.sync();
    cutting.cut_power();
    cutting.reap(20);
    assert_eq!(cutting.extents(), 11 + 3 + 1, "what was written since is there");
}

/// Each cut further back leaves what was written between the two.
#[test]
fn cuts_upon_cuts() {
    let mut cutting = Cutting::new();
    for (number, from) in [20, 40, 60, 80, 100, 120].into_iter().enumerate() {
        cutting.resize(from * RECORD);
        cutting.sync();
        cutting.resize(BLOCKS * RECORD);
        cutting.write(from + 5, 60, 10 + number as u64);
        cutting.sync();
        cutting.cut_power();
    }
    cutting.resize(30 * RECORD);
    cutting.sync();
    cutting.resize(BLOCKS * RECORD);
    cutting.write(29, 2, 99);
    cutting.reap(40);
    // 0..20 of the first, 25..30 of the second, 29 and 30 of the last.
    assert_eq!(cutting.extents(), 20 + 5 + 1);
    cutting.resize(0);
    cutting.sync();
    cutting.reap(3);
    assert_eq!((cutting.extents(), cutting.used_blocks()), (0, 0));
}

/// A file that changes in each group is reaped by its own fold.
#[test]
fn a_file_that_never_rests_is_reaped() {
    let mut cutting = Cutting::new();
    cutting.resize(0);
    for number in 0..20 {
        cutting.write(number * 7 % 50, 4, 5 + number);
        cutting.sync();
    }
    assert!(!cutting.is_waiting());
    let there = cutting.is.chunks(RECORD as usize).filter(|block| block.iter().any(|byte| *byte != 0)).count();
    assert_eq!(cutting.extents(), there as u64);
}

#[test]
fn a_file_that_goes_meanwhile_takes_all_along() {
    let mut cutting = Cutting::new();
    cutting.resize(5 * RECORD);
    cutting.sync();
    assert!(cutting.is_waiting());
    cutting.fs.remove(ctx(&cutting.cred), cutting.fs.root(), b"file").result.expect("it is there");
    for _ in 0..20 {
        cutting.filer.sync().expect("there is room");
    }
    assert_eq!((cutting.extents(), cutting.is_waiting(), cutting.used_blocks()), (0, false, 0));
}

/// A leaf of what was cut cannot be read. The reaper passes it over and comes to its end; and when the leaf can be read again,
/// what it has still does not exist.
#[test]
fn what_was_cut_does_not_come_back_with_its_leaf() {
    let mut cutting = Cutting::new();
    cutting.resize(0);
    cutting.sync();
    cutting.resize(BLOCKS * RECORD);
    cutting.sync();
    let rotten = cutting.world.cut();
    let leaf = first_leaf(&cutting.filer);
    flip(&rotten, &leaf);
    cutting.world = rotten.cut();
    cutting.filer = imported(&cutting.world);
    cutting.fs = vfs(&cutting.filer);
    for _ in 0..30 {
        cutting.filer.sync().expect("damage ends no group");
    }
    assert!(!cutting.is_waiting(), "or one group would follow the other for ever");
    assert!(cutting.filer.pool().io.leak_count() > 0, "what could not be found is told");
    let read = cutting.fs.read(&cutting.cred, cutting.file, 0, (BLOCKS * RECORD) as u32);
    assert!(read.is_err(), "nobody knows what was there");
    let mended = cutting.world.cut();
    flip(&mended, &leaf);
    cutting.world = mended;
    cutting.cut_power();
    assert!(cutting.extents() > 0);
    cutting.resize(0);
    cutting.sync();
    cutting.reap(20);
    assert_eq!(cutting.used_blocks(), 0, "what was left is freed with the next cut");
}
