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
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, Identity, Names, ObjectRef, SetAttr, Stability, Vfs};
use world::{World, content, ctx, mode, noise, vfs};

const RECORD: u64 = 4 << 10;
const BLOCKS: u64 = 200;
/// Bytes of a WRITE that fills the pool.
const CHUNK: usize = 256 << 10;
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

    /// Syncs a group, behind which the file is changed again before it is folded.
    fn sync_below_a_change(&self) {
        let txgs = &self.filer.pool().txgs;
        let held = txgs.hold(None);
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| self.filer.sync().expect("there is room"));
            while txgs.open() == held.txg() {
                std::thread::yield_now();
            }
            let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
            self.fs.setattr(ctx(&self.cred), self.file, &set, None).result.expect("its owner asks");
            drop(held);
            syncing.join().expect("it was synced");
        });
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

    /// A leaf rots, and the machine starts again.
    fn rot(&mut self, leaf: &BlockPtr) {
        let rotten = self.world.cut();
        flip(&rotten, leaf);
        self.world = rotten.cut();
        self.filer = imported(&self.world);
        self.fs = vfs(&self.filer);
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

/// Where the first leaf of a class lies.
fn first_leaf(filer: &Filer, class: Class) -> BlockPtr {
    let pool = filer.pool();
    let (mut leaf, mut last) = (None, None);
    pool.datasets()[0].root().tree.check(&pool.io, &mut |visit| match visit {
        Visit::Block { bp, .. } => last = Some(*bp),
        Visit::Entry { key, .. } if key.class == class => leaf = leaf.or(last),
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

/// What was cut and not freed yet counted as the file's when a WRITE was charged: a file that had been cut grew for nothing as
/// long as the reaper was behind, here by half under a quota that lets it grow by a tenth, and stayed so. Who writes waits for the
/// reaper instead. Seed 1000360 found it.
#[test]
fn a_file_that_was_cut_does_not_grow_again_for_nothing() {
    for stays_dirty in [false, true] {
        let mut cutting = Cutting::new();
        cutting.resize(0);
        cutting.sync();
        cutting.reap(20);
        // Where it grows first there is nothing of what is cut, which a block in its place would free.
        cutting.write(100, 100, 2);
        cutting.sync();
        let quota_bytes = cutting.filer.datasets()[0].used_bytes + 10 * RECORD;
        let quota = parse(Property::RefQuota, &quota_bytes.to_string()).unwrap();
        cutting.filer.set_property("tank", quota).expect("a quota");
        cutting.resize(0);
        if stays_dirty {
            cutting.sync_below_a_change()
        } else {
            cutting.sync()
        }
        assert!(cutting.is_waiting());
        let (mut end, mut groups) = (0, 0);
        let refused = loop {
            let data = noise(if end == 0 { 84 } else { 66 } * RECORD as usize, end);
            match cutting.fs.write(ctx(&cutting.cred), cutting.file, end, data.clone(), Stability::Unstable).result {
                Ok(_) => {
                    end += data.len() as u64;
                    cutting.is.extend_from_slice(&data);
                }
                Err(FsError::Throttled) => {}
                Err(error) => break error,
            }
            groups += 1;
            assert!(groups < 100, "it neither grows nor is refused");
            if stays_dirty { cutting.sync_below_a_change() } else { cutting.sync() }
        };
        assert_eq!(refused, FsError::Quota);
        cutting.reap(20);
        let used_bytes = cutting.filer.datasets()[0].used_bytes;
        assert!(used_bytes <= quota_bytes, "{used_bytes} of {quota_bytes}");
        assert_eq!(end, 84 * RECORD, "what was cut is there for it, once it is freed");
    }
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

/// A few bytes are written where a block was that is cut and not freed yet. The fold completes a block with what is stored
/// there, and that is nothing.
#[test]
fn a_block_that_is_written_in_part_takes_nothing_from_what_was_cut() {
    let mut cutting = Cutting::new();
    cutting.resize(10 * RECORD);
    cutting.sync();
    cutting.resize(BLOCKS * RECORD);
    cutting.sync();
    assert!(cutting.is_waiting());
    let (at, data) = (BLOCKS * RECORD - RECORD / 2, noise(100, 2));
    cutting.is[at as usize..][..100].copy_from_slice(&data);
    cutting.fs.write(ctx(&cutting.cred), cutting.file, at, data, Stability::Unstable).result.expect("there is room");
    cutting.sync();
    cutting.cut_power();
    cutting.reap(20);
    assert_eq!(cutting.extents(), 10 + 1);
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

/// Whoever lets a file grow and cuts off what it did not need does not carry out what is still to be freed behind.
#[test]
fn small_cuts_before_a_large_one_leave_it_to_the_reaper() {
    let mut cutting = Cutting::new();
    cutting.resize(0);
    cutting.sync();
    cutting.write(100, 5, 2);
    cutting.sync();
    for number in 0..6 {
        let before = cutting.extents();
        cutting.resize((number * 10 + 102) * RECORD);
        cutting.write(number * 10 + 110, 5, 3 + number);
        cutting.sync();
        let now = cutting.extents();
        assert!(before <= now + REAPED as u64 + 3, "{before}, then {now}");
    }
    cutting.cut_power();
    assert!(cutting.is_waiting());
    cutting.reap(20);
    let there = cutting.is.chunks(RECORD as usize).filter(|block| block.iter().any(|byte| *byte != 0)).count();
    assert_eq!((cutting.extents(), cutting.used_blocks()), (there as u64, there as u64));
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
    let leaf = first_leaf(&cutting.filer, Class::Extent);
    cutting.rot(&leaf);
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

/// The reaper's list cannot be read, so the count of what waits is nothing. A file of it is cut again and is on the list once
/// more: the count took it for one that had been counted, stayed at nothing, and no reaper came by.
#[test]
fn a_file_that_was_lost_from_the_list_is_reaped_once_it_is_cut_again() {
    let mut cutting = Cutting::new();
    cutting.resize(0);
    cutting.sync();
    assert!(cutting.is_waiting());
    let list = first_leaf(&cutting.filer, Class::Orphan);
    cutting.rot(&list);
    cutting.sync();
    cutting.sync();
    assert!(!cutting.is_waiting(), "nobody waits for what is not found");
    cutting.write(0, BLOCKS, 2);
    cutting.sync();
    cutting.resize(0);
    cutting.sync();
    cutting.reap(40);
    assert_eq!((cutting.extents(), cutting.used_blocks()), (0, 0));
}

/// A leaf of a cut is passed over, so its file stays on the list and waits for nothing. When it changes while another file is
/// reaped, it does not count as one that waits: who changes a file in each group would keep all waiting who lack room.
#[test]
fn a_file_of_which_a_leaf_was_passed_over_waits_for_nothing() {
    let mut cutting = Cutting::new();
    cutting.resize(0);
    cutting.sync();
    let leaf = first_leaf(&cutting.filer, Class::Extent);
    cutting.rot(&leaf);
    for _ in 0..30 {
        cutting.sync();
    }
    assert!(!cutting.is_waiting());
    let made = cutting.fs.create(ctx(&cutting.cred), cutting.fs.root(), b"other", &CreateHow::Guarded(mode(0o644)));
    let other = made.result.expect("there is room").object;
    let data = noise((BLOCKS * RECORD) as usize, 2);
    cutting.fs.write(ctx(&cutting.cred), other, 0, data, Stability::Unstable).result.expect("there is room");
    cutting.sync();
    let none = SetAttr { size: Some(0), ..SetAttr::default() };
    cutting.fs.setattr(ctx(&cutting.cred), other, &none, None).result.expect("a size");
    cutting.sync();
    assert!(cutting.is_waiting());
    for number in 0..30 {
        let mode = mode(0o600 + number % 2);
        cutting.fs.setattr(ctx(&cutting.cred), cutting.file, &mode, None).result.expect("a mode");
        cutting.sync();
    }
    assert!(!cutting.is_waiting(), "all is reaped that can be");
}

/// The pool is full, and what a dataset has cut would make room for all. Another dataset waits for it as its own does.
#[test]
fn who_lacks_room_waits_for_the_reaper_of_another_dataset() {
    let mut cutting = Cutting::new();
    cutting.filer.create_dataset("tank/other", PropertySet::new(), (0, 0)).expect("a name");
    let other = cutting.filer.by_name("tank/other").expect("it was just made");
    let made = other.create(ctx(&cutting.cred), other.root(), b"file", &CreateHow::Guarded(mode(0o644)));
    let file = made.result.expect("there is room").object;
    let cred = Cred::root();
    let write = |fs: &dyn Vfs, file, at: u64| {
        fs.write(ctx(&cred), file, at, noise(CHUNK, at), Stability::Unstable).result.map(drop)
    };
    let mut end = 0;
    loop {
        match write(&*cutting.fs, cutting.file, end) {
            Ok(()) => end += CHUNK as u64,
            Err(FsError::Throttled) => drop(cutting.filer.sync().expect("there is room")),
            Err(error) => break assert_eq!(error, FsError::NoSpace),
        }
    }
    for _ in 0..3 {
        cutting.filer.sync().expect("there is room");
    }
    assert_eq!(write(&*other, file, 0), Err(FsError::NoSpace));
    cutting.resize(0);
    cutting.filer.sync().expect("there is room");
    for _ in 0..1000 {
        match write(&*other, file, 0) {
            Ok(()) => return,
            Err(error) => assert_eq!(error, FsError::Throttled),
        }
        cutting.filer.sync().expect("there is room");
    }
    panic!("the reaper makes room");
}
