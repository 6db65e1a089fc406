//! A block rots, and then clients go on. Each block of a small pool in turn is spoilt on the data device, in each of its
//! places (the log is on a device of its own); then there is a WRITE within the block, a cut, a REMOVE, a RENAME over, a
//! CREATE and a COMMIT, most of them logged; the group is synced; the power goes; the pool is imported as usual. Each of
//! these was the end of the pool once: the fold met the block, the pool was suspended, and the import replayed the same
//! records into the same fold.
//!
//! What must hold: the pool serves and can be imported for writing; a read gives what was acknowledged, or says that it
//! cannot; it can only not where the block was; and what is allocated is named by something.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use tally_fs::Filer;
use tally_fs::damage::{DamageReport, Part};
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr};
use tally_store::key::Class;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, Outcome, SetAttr, Stability, Vfs};
use world::{World, ctx, done, mode, noise, patient_by_hand, vfs};

const MIB: u64 = 1 << 20;
const LABEL: u64 = tally_members::label::LABEL_BYTES;
const DATA: &str = "/disks/data";
/// Names of files, by what becomes of them.
const TOUCHED: [&str; 5] = ["written", "cut", "removed", "over", "unstable"];

fn pattern(length: usize, seed: u8) -> Bytes {
    (0..length).map(|i| ((i / 7) as u8).wrapping_mul(31) ^ (i as u8) ^ seed).collect()
}

/// What clients were told: contents by path.
type Model = BTreeMap<String, Vec<u8>>;

/// A client, who believes what was acknowledged.
struct Client {
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    model: Model,
    refused: usize,
}

impl Client {
    fn new(filer: &Arc<Filer>, model: Model) -> Self {
        Self { filer: Arc::clone(filer), fs: vfs(filer), model, refused: 0 }
    }

    /// The pool was imported again.
    fn follow(&mut self, filer: &Arc<Filer>) {
        (self.filer, self.fs) = (Arc::clone(filer), vfs(filer));
    }

    fn patient<T>(&self, attempt: impl Fn() -> Outcome<T>) -> Result<T, FsError> {
        patient_by_hand(&self.filer, attempt)
    }

    fn dir(&self, path: &str) -> Result<ObjectRef, FsError> {
        let Some((dir, _)) = path.split_once('/') else { return Ok(self.fs.root()) };
        Ok(self.fs.lookup(&Cred::root(), self.fs.root(), dir.as_bytes())?.0.object)
    }

    fn file(&self, path: &str) -> Result<ObjectRef, FsError> {
        let name = path.rsplit('/').next().unwrap();
        Ok(self.fs.lookup(&Cred::root(), self.dir(path)?, name.as_bytes())?.0.object)
    }

    fn create(&mut self, path: &str, content: &[u8]) -> Result<(), FsError> {
        let (cred, dir) = (Cred::root(), self.dir(path)?);
        let name = path.rsplit('/').next().unwrap();
        let how = CreateHow::Guarded(mode(0o600));
        let file = self.patient(|| self.fs.create(ctx(&cred), dir, name.as_bytes(), &how))?.object;
        self.model.insert(path.into(), Vec::new());
        self.write_to(path, file, 0, content, Stability::FileSync)
    }

    fn write(&mut self, path: &str, offset: usize, bytes: &[u8], stability: Stability) -> Result<(), FsError> {
        let file = self.file(path)?;
        self.write_to(path, file, offset, bytes, stability)
    }

    fn write_to(
        &mut self,
        path: &str,
        file: ObjectRef,
        offset: usize,
        bytes: &[u8],
        stability: Stability,
    ) -> Result<(), FsError> {
        let (cred, data) = (Cred::root(), Bytes::copy_from_slice(bytes));
        self.patient(|| self.fs.write(ctx(&cred), file, offset as u64, data.clone(), stability))?;
        let content = self.model.get_mut(path).unwrap();
        content.resize(content.len().max(offset + bytes.len()), 0);
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        if stability == Stability::Unstable {
            self.patient(|| self.fs.commit(ctx(&cred), file, 0, 0))?;
        }
        Ok(())
    }

    fn cut(&mut self, path: &str, size: usize) -> Result<(), FsError> {
        let (cred, file) = (Cred::root(), self.file(path)?);
        let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
        self.patient(|| self.fs.setattr(ctx(&cred), file, &set, None))?;
        self.model.get_mut(path).unwrap().resize(size, 0);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), FsError> {
        let (cred, dir) = (Cred::root(), self.dir(path)?);
        let name = path.rsplit('/').next().unwrap();
        self.patient(|| self.fs.remove(ctx(&cred), dir, name.as_bytes()))?;
        self.model.remove(path);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), FsError> {
        let (cred, dir) = (Cred::root(), self.dir(from)?);
        let [a, b] = [from, to].map(|path| path.rsplit('/').next().unwrap().as_bytes());
        self.patient(|| self.fs.rename(ctx(&cred), dir, a, dir, b))?;
        let content = self.model.remove(from).unwrap();
        self.model.insert(to.into(), content);
        Ok(())
    }

    /// What was refused has changed nothing that was promised.
    fn may_be_refused(&mut self, outcome: Result<(), FsError>) {
        match outcome {
            Ok(()) => {}
            Err(FsError::Io) => self.refused += 1,
            Err(error) => panic!("{error}: neither done nor damaged"),
        }
    }

    /// Everything that clients do after the block has rotted.
    fn work(&mut self) {
        for (dir, size) in [("large", 300_000), ("small", 3000), ("middle", 10_000)] {
            let path = |name: &str| format!("{dir}/{name}");
            let outcome = self.write(&path("written"), size / 2, b"new bytes", Stability::FileSync);
            self.may_be_refused(outcome);
            let outcome = self.cut(&path("cut"), size / 3);
            self.may_be_refused(outcome);
            let outcome = self.remove(&path("removed"));
            self.may_be_refused(outcome);
            let outcome = self.create(&path("created"), b"a new file");
            self.may_be_refused(outcome);
            if self.model.contains_key(&path("created")) {
                let outcome = self.rename(&path("created"), &path("over"));
                self.may_be_refused(outcome);
            }
            let outcome = self.write(&path("unstable"), size - 5, b"a new end", Stability::Unstable);
            self.may_be_refused(outcome);
            let outcome = self.create(&path("last"), &pattern(5000, 9));
            self.may_be_refused(outcome);
        }
    }

    /// Compares everything; gives the paths that could not be read. `is_damaged` says which may not.
    fn compare(&self, what: &str) -> Vec<String> {
        let mut unreadable = Vec::new();
        for (path, content) in &self.model {
            match self.read(path) {
                Ok(found) => {
                    assert!(found == *content, "{what}: {path}: wrong bytes, {} of {}", found.len(), content.len())
                }
                Err(FsError::Io) => unreadable.push(path.clone()),
                Err(error) => panic!("{what}: {path}: {error}"),
            }
        }
        for path in ["large/removed", "small/removed", "middle/removed", "large/created", "small/created"] {
            if !self.model.contains_key(path) {
                let found = self.file(path).map(drop);
                assert!(matches!(found, Err(FsError::NotFound | FsError::Io)), "{what}: {path}: {found:?}");
            }
        }
        unreadable
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, FsError> {
        let file = self.file(path)?;
        let size = self.fs.getattr(file)?.size;
        let mut content = Vec::new();
        while (content.len() as u64) < size {
            let part = self.fs.read(&Cred::root(), file, content.len() as u64, 1 << 20)?;
            part.data.iter().for_each(|piece| content.extend_from_slice(piece));
        }
        Ok(content)
    }
}

/// A pool with files of all layouts, synced.
fn filled(world: &World) -> Client {
    let filer = world.create_without_threads(&CreateOptions::default());
    drive_lanes(&filer);
    let mut client = Client::new(&filer, Model::new());
    let cred = Cred::root();
    for (dir, size) in [("large", 300_000), ("small", 3000), ("middle", 10_000)] {
        client.patient(|| client.fs.mkdir(ctx(&cred), client.fs.root(), dir.as_bytes(), &mode(0o700))).unwrap();
        for (seed, name) in TOUCHED.iter().chain(["untouched", "neighbour"].iter()).enumerate() {
            client.create(&format!("{dir}/{name}"), &pattern(size, seed as u8)).unwrap();
        }
        filer.sync().unwrap();
    }
    // Enough names and inodes for several leaves of each.
    for number in 0..150 {
        let name = format!("small/a-name-that-is-long-enough-to-fill-leaves-{number:0100}");
        client.create(&name, &pattern(200, number)).unwrap();
    }
    filer.sync().unwrap();
    client
}

/// The log's threads; groups are synced by the test alone.
fn drive_lanes(filer: &Arc<Filer>) {
    for (name, body) in filer.background() {
        if name.starts_with("lane") {
            std::thread::spawn(body);
        }
    }
}

/// Every block of the dataset's tree, and of its files.
fn blocks(filer: &Filer) -> Vec<BlockPtr> {
    let mut blocks = Vec::new();
    for dataset in filer.pool().datasets() {
        dataset.root().tree.check(&filer.pool().io, &mut |visit| match visit {
            Visit::Block { bp, .. } | Visit::Damage { bp, .. } => blocks.push(*bp),
            Visit::Entry { key, value } if key.class == Class::Extent => {
                let bytes: &[u8; BLOCK_PTR_BYTES] = value.try_into().unwrap();
                blocks.push(BlockPtr::decode(bytes).unwrap());
            }
            Visit::Entry { .. } => {}
        });
    }
    blocks
}

/// Every sector of the pool is named by something, or the block that rotted named it.
fn account(filer: &Filer, named_by_the_rotten: u64, what: &str) {
    let pool = filer.pool();
    let blocks = blocks(filer);
    assert!(blocks.iter().all(|bp| pool.io.allocator().is_busy(&bp.dva)), "{what}: named and free");
    let mut starts: Vec<_> = blocks.iter().map(|bp| bp.dva.offset).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|two| two[0] != two[1]), "{what}: named twice");
    let named: u64 =
        blocks.iter().map(BlockPtr::asize).sum::<u64>() + pool.top_bytes() + pool.io.allocator().own_bytes();
    let allocated = pool.io.allocator().space().allocated;
    let leaked = allocated - named;
    assert!(leaked <= named_by_the_rotten, "{what}: {leaked} bytes are named by nothing");
    assert_eq!(pool.io.allocator().bad_free_count(), 0, "{what}");
}

/// Bytes of all that is below each block: what is lost sight of with it.
fn below(filer: &Filer, block: &BlockPtr) -> u64 {
    let all: u64 = blocks(filer).iter().map(BlockPtr::asize).sum();
    if block.kind == tally_store::bp::BlockKind::Data { 0 } else { all }
}

fn import(world: &World) -> Arc<Filer> {
    let (filer, report) = world
        .try_import_without_threads(&Tuning::default(), &ImportOptions::default())
        .expect("one block ends no pool");
    assert!(report.losses.is_empty(), "{:?}", report.losses);
    drive_lanes(&filer);
    filer
}

/// All copies of a block are damaged.
fn spoil(world: &World, block: &BlockPtr) {
    block.dvas().for_each(|dva| world.poke(DATA, LABEL + dva.offset + 8, &[0x5a; 64]));
}

/// The sweep. `synced` says whether the work's group is synced before the power goes, or replayed.
fn sweep(synced: bool, every: usize) {
    let world = World::new(32 * MIB, 4 * MIB);
    let before = filled(&world);
    let (scout, targets) = {
        let scout = import(&world.cut());
        let targets = blocks(&scout);
        (scout, targets)
    };
    let mut refused = 0;
    for target in targets.iter().step_by(every) {
        let what = format!("{target}");
        let cut = world.cut();
        spoil(&cut, target);
        let filer = import(&cut);
        let mut client = Client::new(&filer, before.model.clone());
        let rotten_before = client.compare(&what);
        client.work();
        refused += client.refused;
        if synced {
            filer.sync().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(filer.pool().fault().is_none());
        }
        let after = cut.cut();
        drop(filer);
        let filer = import(&after);
        client.follow(&filer);
        let unreadable = client.compare(&what);
        // What could be read before can be read now, but for the files that were touched where the block was.
        for path in &unreadable {
            let is_touched = rotten_before.contains(path) || TOUCHED.iter().any(|name| path.ends_with(name));
            assert!(is_touched, "{what}: {path} cannot be read");
        }
        assert!(unreadable.len() <= rotten_before.len() + 1, "{what}: {rotten_before:?}, then {unreadable:?}");
        // It goes on: what is new anywhere else can be written, and files that rotted can be removed or written anew.
        for path in &unreadable {
            if client.file(path).is_ok() {
                let content = pattern(client.model[path].len(), 77);
                client.write(path, 0, &content, Stability::FileSync).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
        filer.sync().unwrap_or_else(|error| panic!("{what}: {error}"));
        let still = client.compare(&what);
        assert!(still.iter().all(|path| client.file(path).is_err()), "{what}: {still:?} was written anew");
        filer.sync().unwrap();
        filer.sync().unwrap();
        account(&filer, below(&scout, target), &what);
        filer.export().unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    assert!(refused > 0, "some of it is refused before it is promised");
}

#[test]
fn whatever_block_rots_the_pool_goes_on_and_is_imported() {
    sweep(true, 1);
}

#[test]
fn whatever_block_rots_the_log_is_replayed_above_it() {
    sweep(false, 1);
}

/// The pool on a world's disks with one file of `size` bytes, whose block at `offset` is then spoilt; imported anew.
fn with_a_rotten_block(size: usize, offset: u64) -> (World, Arc<Filer>, Client) {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    drive_lanes(&filer);
    let mut client = Client::new(&filer, Model::new());
    client.patient(|| client.fs.mkdir(ctx(&Cred::root()), client.fs.root(), b"dir", &mode(0o700))).unwrap();
    client.create("dir/file", &pattern(size, 1)).unwrap();
    filer.sync().unwrap();
    let block = extents(&filer, "tank").into_iter().find(|(at, _)| *at == offset).unwrap().1;
    let cut = world.cut();
    spoil(&cut, &block);
    let filer = import(&cut);
    client.follow(&filer);
    (cut, filer, client)
}

/// The extents of a dataset's only file, by offset.
fn extents(filer: &Filer, dataset: &str) -> Vec<(u64, BlockPtr)> {
    let mut extents = Vec::new();
    let filesystem = filer.by_name(dataset).unwrap();
    let dataset = filer.pool().dataset(filesystem.info().id).unwrap();
    dataset.root().tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Entry { key, value } if key.class == Class::Extent => {
            extents.push((key.a, BlockPtr::decode(value.try_into().unwrap()).unwrap()));
        }
        _ => {}
    });
    extents
}

/// The leaves of a dataset's tree that hold entries of a class.
fn leaves(filer: &Filer, dataset: &str, class: Class) -> Vec<BlockPtr> {
    let (mut leaf, mut leaves) = (None, Vec::new());
    let dataset = filer.pool().dataset(filer.by_name(dataset).unwrap().info().id).unwrap();
    dataset.root().tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Block { bp, .. } => leaf = Some(*bp),
        Visit::Entry { key, .. } if key.class == class => leaves.extend(leaf.take()),
        _ => {}
    });
    leaves
}

/// Somebody who restores files from a backup must know which. Only the log said it, in block pointers.
#[test]
fn what_could_not_be_read_is_named_until_it_is_whole_again() {
    const BLOCK: usize = 128 << 10;
    let (world, filer, mut client) = with_a_rotten_block(3 * BLOCK, BLOCK as u64);
    let named = |filer: &Filer| filer.by_name("tank").unwrap().damage_report();
    assert_eq!(named(&filer), DamageReport::default(), "nothing was met yet");
    assert_eq!(client.read("dir/file"), Err(FsError::Io));
    let place = named(&filer).places.pop().unwrap();
    assert_eq!((place.path.as_deref(), place.part), (Some("/dir/file"), Part::Content(BLOCK as u64)));
    // Part of it is written: the block stays damaged, and the others are what they were.
    client.write("dir/file", BLOCK + 5, b"new", Stability::FileSync).unwrap();
    filer.sync().unwrap();
    assert_eq!(named(&filer).places, std::slice::from_ref(&place));
    let file = client.file("dir/file").unwrap();
    for (at, is_good) in [(0, true), (BLOCK, false), (2 * BLOCK, true)] {
        let read = client.fs.read(&Cred::root(), file, at as u64, BLOCK as u32);
        assert_eq!(read.is_ok(), is_good, "at {at}");
    }
    // The import knows of none, and meets it again.
    let again = import(&world.cut());
    client.follow(&again);
    assert_eq!(client.read("dir/file"), Err(FsError::Io));
    assert_eq!(named(&again).places, [place]);
    client.write("dir/file", BLOCK, &pattern(BLOCK, 7), Stability::FileSync).unwrap();
    again.sync().unwrap();
    assert_eq!(client.compare("written anew"), Vec::<String>::new());
    assert_eq!(named(&again), DamageReport::default());
}

/// Reads fail one after the other: their number is bounded in memory, and what is beyond is counted.
#[test]
fn what_is_not_named_is_counted() {
    let (_, filer, client) = with_a_rotten_block(128 << 10, 0);
    for _ in 0..3 {
        assert_eq!(client.read("dir/file"), Err(FsError::Io));
    }
    let report = filer.by_name("tank").unwrap().damage_report();
    assert_eq!((report.places.len(), report.beyond), (1, 0), "once, however often it is met");
}

/// A leaf of extents of a destroyed dataset cannot be read: its blocks stay allocated, and nobody was told. The leaf
/// itself stayed, too.
#[test]
fn what_a_destroyed_dataset_leaves_behind_is_counted() {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create();
    let fs = filer.create_dataset("tank/child", PropertySet::new(), (0, 0)).unwrap();
    let mut client = Client { fs, ..Client::new(&filer, Model::new()) };
    client.create("file", &pattern(1 << 20, 1)).unwrap();
    filer.sync().unwrap();
    let left: u64 = extents(&filer, "tank/child").iter().map(|(_, block)| block.asize()).sum();
    assert!(left > 0);
    let cut = world.cut();
    let of_extents = leaves(&filer, "tank/child", Class::Extent).pop().unwrap();
    spoil(&cut, &of_extents);
    let (filer, _) = cut.import();
    filer.destroy_dataset("tank/child", false).unwrap();
    for _ in 0..3 {
        filer.sync().unwrap();
    }
    assert_eq!(filer.pool().io.leak_count(), 1, "one leaf's");
    let named: u64 = blocks(&filer).iter().map(BlockPtr::asize).sum::<u64>();
    let named = named + filer.pool().top_bytes() + filer.pool().io.allocator().own_bytes();
    assert_eq!(filer.pool().io.allocator().space().allocated - named, left, "the blocks that it named, and no more");
}

/// The last block of a file had rotted. A client wrote all of it anew, and that was acknowledged; then the file grew in
/// the same group, by less than a block. What was written was given up, for the sake of what lay behind the old end.
#[test]
fn what_is_written_over_a_rotten_last_block_stays_when_the_file_grows() {
    let (_world, filer, mut client) = with_a_rotten_block(150_000, BLOCK as u64);
    client.write("dir/file", BLOCK, &pattern(20_000, 7), Stability::FileSync).unwrap();
    client.cut("dir/file", 200_000).unwrap();
    assert_eq!(client.compare("before the group"), Vec::<String>::new());
    filer.sync().unwrap();
    filer.pool().io.drop_cache();
    assert_eq!(client.compare("behind the group"), Vec::<String>::new());
}

/// A disk that reads nothing for a while has not rotted: nothing is given up for it, and the import finds all that was
/// acknowledged.
#[test]
fn a_disk_that_reads_nothing_suspends_the_pool_and_costs_no_content() {
    let world = World::new(32 * MIB, 4 * MIB);
    let mut before = filled(&world);
    let cut = world.cut();
    let filer = import(&cut);
    before.fs = vfs(&filer);
    for path in ["large/written", "small/written", "middle/written"] {
        before.write(path, 100, b"in the log", Stability::FileSync).unwrap();
    }
    before.cut("large/cut", 200_000).unwrap();
    filer.pool().io.drop_cache();
    cut.faults(DATA).reads.store(true, SeqCst);
    filer.sync().unwrap_err();
    assert!(filer.pool().fault().is_some());
    let filer = import(&cut.cut());
    before.fs = vfs(&filer);
    filer.sync().unwrap();
    assert_eq!(before.compare("behind the failure"), Vec::<String>::new());
}

/// One place of a leaf had rotted, and the disk with the other one read nothing for a while. That the first disk reads
/// everything else says nothing of the other: the leaf was given up, and the disk that was back a moment later had it.
#[test]
fn nothing_is_given_up_while_the_disk_of_the_other_place_reads_nothing() {
    let paths = ["/disks/a", "/disks/b"];
    let disks = [(paths[0], 32 * MIB), (paths[1], 32 * MIB), ("/disks/slog", 4 * MIB)];
    let world = World::of(&disks, "/disks/a /disks/b log /disks/slog");
    let filer = world.create_without_threads(&CreateOptions::default());
    drive_lanes(&filer);
    let mut client = Client::new(&filer, Model::new());
    for name in ["one", "two", "three"] {
        client.create(name, b"small").unwrap();
    }
    filer.sync().unwrap();
    client.write("one", 0, b"in the log", Stability::FileSync).unwrap();
    let leaf = leaves(&filer, "tank", Class::Inode).pop().unwrap();
    let copy = leaf.copy.unwrap();
    assert_ne!(leaf.dva.vdev, copy.vdev);
    world.poke(paths[leaf.dva.vdev.place()], LABEL + leaf.dva.offset + 8, &[0x5a; 64]);
    filer.pool().io.drop_cache();
    world.faults(paths[copy.vdev.place()]).reads.store(true, SeqCst);
    filer.sync().unwrap_err();
    assert!(filer.pool().fault().is_some());
    let filer = import(&world.cut());
    client.follow(&filer);
    filer.sync().unwrap();
    assert_eq!(client.compare("behind the failure"), Vec::<String>::new());
}

/// The leaf of the inodes rots when the changes were acknowledged and before their group looks for the old inodes.
/// Memory has the new ones; so nothing ends, what was changed is as it was promised, and what was removed is gone.
#[test]
fn an_inode_that_rots_behind_the_change_ends_no_group() {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    drive_lanes(&filer);
    let mut client = Client::new(&filer, Model::new());
    for (name, size) in [("long", 300_000), ("short", 3000), ("removed", 300_000), ("cut", 300_000), ("other", 3000)] {
        client.create(name, &pattern(size, size as u8)).unwrap();
    }
    filer.sync().unwrap();
    client.write("long", 150_000, b"in the middle", Stability::FileSync).unwrap();
    client.write("short", 100, b"in the middle", Stability::FileSync).unwrap();
    client.cut("cut", 100_000).unwrap();
    client.remove("removed").unwrap();
    client.create("new", b"with an inode behind all others").unwrap();
    let rotten = leaves(&filer, "tank", Class::Inode);
    for leaf in &rotten {
        spoil(&world, leaf);
    }
    filer.pool().io.drop_cache();
    filer.sync().unwrap();
    assert!(filer.pool().fault().is_none());
    assert_eq!(client.compare("behind the group"), ["other"]);
    assert_eq!(client.file("removed").map(drop), Err(FsError::NotFound));
    let told = filer.by_name("tank").unwrap().damage_report().places;
    assert!(told.iter().any(|place| place.part == Part::Attributes), "{told:?}");
    let after = world.cut();
    drop(filer);
    let filer = import(&after);
    client.follow(&filer);
    assert_eq!(client.compare("behind the import"), ["other"]);
    for _ in 0..3 {
        filer.sync().unwrap();
    }
    account(&filer, 0, "inodes name no blocks");
    filer.export().unwrap();
}

/// Where a tree has a key of each class last.
fn last_leaves(filer: &Filer, classes: &[Class]) -> Vec<BlockPtr> {
    let (mut leaf, mut last) = (None, BTreeMap::new());
    let dataset = filer.pool().dataset(filer.by_name("tank").unwrap().info().id).unwrap();
    dataset.root().tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Block { bp, .. } => leaf = Some(*bp),
        Visit::Entry { key, .. } => {
            last.insert(key.class, leaf.unwrap());
        }
        Visit::Damage { .. } => panic!("nothing has rotted yet"),
    });
    classes.iter().map(|class| last[class]).collect()
}

const BLOCK: usize = 128 << 10;

/// A pool whose last leaves of names and of extents rot, the import above them, and a file of three blocks in that
/// leaf.
fn above_rotten_last_leaves() -> (World, Arc<Filer>, Client) {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    drive_lanes(&filer);
    let mut before = Client::new(&filer, Model::new());
    let mkdir = |name: &str| {
        let root = before.fs.root();
        before.patient(|| before.fs.mkdir(ctx(&Cred::root()), root, name.as_bytes(), &mode(0o700))).unwrap();
    };
    ["work", "names"].into_iter().for_each(mkdir);
    before.create("work/file", &pattern(300_000, 1)).unwrap();
    // More names than one leaf takes, behind those of the directory that will be worked in.
    for number in 0..1000 {
        before.create(&format!("names/{number}"), b"").unwrap();
        if number % 250 == 0 {
            filer.sync().unwrap();
        }
    }
    filer.sync().unwrap();
    let cut = world.cut();
    for leaf in last_leaves(&import(&world.cut()), &[Class::DirEntry, Class::DirHash, Class::Extent]) {
        spoil(&cut, &leaf);
    }
    let filer = import(&cut);
    let client = Client::new(&filer, before.model.clone());
    assert_eq!(read_block(&client, "work/file", 0), Err(FsError::Io), "its extents are in the leaf");
    (cut, filer, client)
}

fn read_block(client: &Client, path: &str, block: usize) -> Result<Vec<u8>, FsError> {
    let found = client.fs.read(&Cred::root(), client.file(path)?, (block * BLOCK) as u64, BLOCK as u32)?;
    Ok(found.data.concat())
}

/// A directory was made above rotten leaves of names, and had none when its group was synced: every LOOKUP in it was
/// answered EIO from then on, and no file could be created in it.
#[test]
fn a_directory_that_is_made_above_a_rotten_leaf_of_names_is_not_damaged_by_it() {
    let (mut cut, mut filer, mut client) = above_rotten_last_leaves();
    let work = client.dir("work/").unwrap();
    let new = client.patient(|| client.fs.mkdir(ctx(&Cred::root()), work, b"new", &mode(0o700))).unwrap().object;
    let is_there = |client: &Client, name: &str| match client.fs.lookup(&Cred::root(), new, name.as_bytes()) {
        Err(FsError::NotFound) => false,
        found => found.map(|_| true).unwrap_or_else(|error| panic!("{name}: {error}")),
    };
    let names = ["x", "y", "z"];
    // Names come and go again, one in each group, until there are none as at first.
    let lists: [&[&str]; 8] = [&[], &["x"], &["x", "y"], &["x", "y", "z"], &["y", "z"], &["z"], &[], &["x"]];
    let mut there: &[&str] = &[];
    for list in lists {
        for name in names {
            let how = CreateHow::Guarded(mode(0o600));
            match (there.contains(&name), list.contains(&name)) {
                (false, true) => {
                    client.patient(|| client.fs.create(ctx(&Cred::root()), new, name.as_bytes(), &how)).unwrap();
                }
                (true, false) => {
                    client.patient(|| client.fs.remove(ctx(&Cred::root()), new, name.as_bytes())).unwrap();
                }
                _ => {}
            }
        }
        there = list;
        filer.sync().unwrap();
        cut = cut.cut();
        drop(filer);
        filer = import(&cut);
        client.follow(&filer);
        for name in names {
            assert_eq!(is_there(&client, name), list.contains(&name), "{name} of {list:?}");
        }
        let page = client.fs.readdir(&Cred::root(), new, 0, 100_000, false).unwrap();
        assert_eq!(page.entries.len(), list.len() + 2);
    }
}

/// A file grew by a hole above a rotten leaf of extents, by a write beyond its end or by SETATTR: the hole was answered
/// EIO, and, worse, so was what was acknowledged into a part of a block there, where nothing was ever stored.
#[test]
fn a_hole_that_a_file_gets_above_a_rotten_leaf_of_extents_can_be_read_and_written() {
    for by_write in [true, false] {
        let (mut cut, mut filer, mut client) = above_rotten_last_leaves();
        let grow = |client: &mut Client, path: &str, blocks: usize| {
            if by_write {
                client.write(path, blocks * BLOCK - 7, b"the end", Stability::FileSync).unwrap();
            } else {
                let size = SetAttr { size: Some((blocks * BLOCK) as u64), ..SetAttr::default() };
                let file = client.file(path).unwrap();
                client.patient(|| client.fs.setattr(ctx(&Cred::root()), file, &size, None)).unwrap();
            }
        };
        client.create("new", b"").unwrap();
        // The one had three blocks, the other none.
        let holes = [("work/file", 3), ("new", 0)];
        for (path, _) in holes {
            grow(&mut client, path, 8);
        }
        let mut parts = Vec::new();
        for block in [6, 5, 4] {
            filer.sync().unwrap();
            cut = cut.cut();
            drop(filer);
            filer = import(&cut);
            client.follow(&filer);
            for (path, from) in holes {
                for of in from..7 {
                    let mut expected = vec![0; BLOCK];
                    if parts.contains(&of) {
                        expected[9..15].copy_from_slice(b"a part");
                    }
                    assert_eq!(read_block(&client, path, of), Ok(expected), "block {of} of {path}, {by_write}");
                }
                client.write(path, block * BLOCK + 9, b"a part", Stability::FileSync).unwrap();
            }
            parts.push(block);
        }
        assert_eq!(read_block(&client, "work/file", 0), Err(FsError::Io), "nothing is made up");
    }
}

/// A file in several leaves of extents was cut above the last one, which had rotted, and then grew again: the hole
/// begins in a leaf that can be read, so it got no first block, and goes on in the one that cannot. It was answered
/// EIO, and what was acknowledged into a part of a block there was given up.
#[test]
fn a_hole_that_begins_before_a_rotten_leaf_of_extents_can_be_read_and_written() {
    for in_one_group in [false, true] {
        hole_across_a_rotten_leaf(in_one_group);
    }
}

fn hole_across_a_rotten_leaf(in_one_group: bool) {
    use tally_store::properties::{Property, parse};
    const PIECE: usize = 4096;
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    drive_lanes(&filer);
    filer.set_property("tank", parse(Property::RecordSize, "4K").unwrap()).unwrap();
    let mut client = Client::new(&filer, Model::new());
    client.create("file", b"").unwrap();
    for part in 0..10 {
        client.write("file", part * 60 * PIECE, &pattern(60 * PIECE, 1), Stability::FileSync).unwrap();
        filer.sync().unwrap();
    }
    let mut cut = world.cut();
    let leaf = last_leaves(&import(&world.cut()), &[Class::Extent])[0];
    let sound = cut.content_of(DATA)[(LABEL + leaf.dva.offset + 8) as usize..][..64].to_vec();
    spoil(&cut, &leaf);
    let mut filer = import(&cut);
    client.follow(&filer);
    let piece = |client: &Client, at: usize| -> Result<Vec<u8>, FsError> {
        Ok(client.fs.read(&Cred::root(), client.file("file")?, (at * PIECE) as u64, PIECE as u32)?.data.concat())
    };
    assert_eq!(piece(&client, 10).map(|found| found.len()), Ok(PIECE), "its first leaf is not the last");
    assert_eq!(piece(&client, 599), Err(FsError::Io), "its last leaf has rotted");
    for pieces in [20, 600] {
        let (file, size) = (client.file("file").unwrap(), Some((pieces * PIECE) as u64));
        let set = SetAttr { size, ..SetAttr::default() };
        client.patient(|| client.fs.setattr(ctx(&Cred::root()), file, &set, None)).unwrap();
        if !in_one_group {
            filer.sync().unwrap();
        }
    }
    filer.sync().unwrap();
    let mut found = vec![piece(&client, 30), piece(&client, 598)];
    client.write("file", 598 * PIECE + 9, b"a part", Stability::FileSync).unwrap();
    filer.sync().unwrap();
    cut = cut.cut();
    drop(filer);
    filer = import(&cut);
    client.follow(&filer);
    found.push(piece(&client, 598));
    let mut written = vec![0; PIECE];
    written[9..15].copy_from_slice(b"a part");
    let is_read = found.iter().map(|found| found.as_ref().map(Vec::len)).collect::<Vec<_>>();
    let expected = [Ok(vec![0; PIECE]), Ok(vec![0; PIECE]), Ok(written)];
    assert!(found == expected, "in one group: {in_one_group}: {is_read:?}");
    // The disk gives the leaf again: what it had was cut off.
    drop(filer);
    cut = cut.cut();
    cut.poke(DATA, LABEL + leaf.dva.offset + 8, &sound);
    filer = import(&cut);
    client.follow(&filer);
    for at in [30, 545, 598] {
        let expected = if at == 598 { &expected[2] } else { &expected[0] };
        assert!(piece(&client, at) == *expected, "in one group: {in_one_group}: block {at}");
    }
}

/// Files were made long above a rotten leaf of extents, while blocks were not compressed: each got a block of zeroes
/// for its hole, as long as a record, for which nobody had asked the pool for room. The fold of what was acknowledged
/// found none, and that was the end of the pool.
#[test]
fn holes_above_a_rotten_leaf_of_extents_are_written_only_as_far_as_there_is_room() {
    use tally_store::properties::{Property, parse};
    let (_world, filer, mut client) = above_rotten_last_leaves();
    for (property, value) in [(Property::Compression, "off"), (Property::RecordSize, "1M")] {
        filer.set_property("tank", parse(property, value).unwrap()).unwrap();
    }
    let names: Vec<String> = (0..200).map(|number| format!("long{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        client.create(name, b"").unwrap();
        if number % 20 == 0 {
            filer.sync().unwrap();
        }
    }
    filer.sync().unwrap();
    let size = SetAttr { size: Some(8 * MIB), ..SetAttr::default() };
    let mut count = 0;
    for name in &names {
        let file = client.file(name).unwrap();
        let outcome = client.fs.setattr(ctx(&Cred::root()), file, &size, None);
        if let Err(error) = outcome.result {
            assert!(matches!(error, FsError::Throttled | FsError::NoSpace), "{error}");
            break;
        }
        done(outcome).unwrap();
        count += 1;
    }
    filer.sync().unwrap_or_else(|error| panic!("{count} files were acknowledged as long: {error}"));
}

/// A block was written to its place ahead of its group, and a few bytes of it once more. It rotted, and the fold met it at the
/// place where what was not overwritten begins: the list named content within a block, where nothing that reads or writes the
/// block would ever find it whole again.
#[test]
fn a_placed_block_that_rots_is_named_by_where_it_begins() {
    const BLOCK: usize = 128 << 10;
    let world = World::new(32 * MIB, 4 * MIB);
    let properties = PropertySet::from_iter([parse(Property::LogBias, "throughput").unwrap()]);
    let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
    drive_lanes(&filer);
    let mut client = Client::new(&filer, Model::new());
    client.create("file", &[]).unwrap();
    let (cred, file, data) = (Cred::root(), client.file("file").unwrap(), noise(2 * BLOCK, 3));
    let write = |at, data: Bytes| {
        client.patient(|| client.fs.write(ctx(&cred), file, at, data.clone(), Stability::Unstable)).unwrap();
    };
    write(0, data.clone());
    write(BLOCK as u64, Bytes::from_static(b"new"));
    filer.pool().io.drop_cache();
    let on_disk = world.content_of(DATA);
    let part = &data[BLOCK + 4096..][..64];
    let place = on_disk.chunks(64).position(|bytes| bytes == part).expect("it was placed");
    world.poke(DATA, 64 * place as u64, &[0x55; 64]);
    filer.sync().unwrap();
    let told: Vec<_> = filer.by_name("tank").unwrap().damage_met().places.iter().map(|place| place.part).collect();
    assert_eq!(told, [Part::Content(BLOCK as u64)]);
}
