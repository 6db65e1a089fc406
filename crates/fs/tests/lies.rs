//! A pool whose blocks are sound and say what cannot be: counters at the ends of their range, parents in a circle.
//!
//! Checksums find rot. What a faulty program wrote has a good checksum, so nothing that is read may be taken for
//! possible because it could be read: none of it may end in a panic, in a suspended pool, or in a number that a client
//! would believe.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tally_base::codec::{DecodeError, Reader};
use tally_base::{Generation, ObjectId, Time, Txg};
use tally_disk::{Disk, Durability};
use tally_fakes::MemDisk;
use tally_fs::damage::Part;
use tally_fs::filer::ImportOptions;
use tally_fs::inode::{Inode, Layout};
use tally_fs::{Filer, Filesystem};
use tally_members::label::LABEL_BYTES;
use tally_members::uberblock::{self, Uberblock};
use tally_store::block::BlockError;
use tally_store::bp::{BlockKind, BlockPtr, Compression};
use tally_store::dataset::{Dataset, DatasetBirth, DatasetClient, DatasetLine, DatasetRoot, DatasetWriter};
use tally_store::key::{Class, Key};
use tally_store::tree::{Around, Change, Tree, Visit};
use tally_store::tuning::Tuning;
use tally_vfs::{
    Attr, Attributes, Content, CreateHow, Cred, FILE_SIZE_MAX, FileKind, FsError, Identity, LINK_MAX, Names, ObjectRef,
    Outcome, SetAttr, SetXattr, Stability, Vfs, Xattrs,
};
use world::{World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;

/// Fills a dataset with what it was given, once.
struct Forger {
    entries: Vec<(Key, Bytes)>,
    root: DatasetRoot,
    /// The bytes of its only leaf, in place of the entries.
    leaf: Option<Bytes>,
    written: AtomicBool,
}

impl DatasetClient for Forger {
    fn fold(&self, _: Txg, old: &DatasetRoot, mut out: DatasetWriter<'_>) -> Result<DatasetRoot, BlockError> {
        if self.written.swap(true, Ordering::SeqCst) {
            return Ok(old.clone());
        }
        if let Some(leaf) = &self.leaf {
            let leaf = BlockPtr { kind: BlockKind::Leaf, ..out.put(leaf.clone(), Compression::Off)? };
            let head = [&[0; 8][..], &1_u64.to_le_bytes(), &leaf.encode()].concat();
            let tree = Tree::decode(head[..].try_into().unwrap()).unwrap();
            return Ok(DatasetRoot { tree, ..self.root.clone() });
        }
        let changes: Vec<_> = self.entries.iter().map(|(key, value)| (*key, Change::Put(value.clone()))).collect();
        Ok(DatasetRoot { tree: out.merge(&Tree::empty(), &changes, &Around::NOTHING)?, ..self.root.clone() })
    }

    fn synced(&self, _: Txg) {}
}

/// What is written instead of the truth.
type LieOfInodes = fn(ObjectId, &mut Inode);
type LieOfRoots = fn(&mut DatasetRoot);

/// `dir` with `dir/sub` and `dir/file`, `file` with a second name `link`, a long `large` and a symbolic link.
fn furnish(fs: &dyn Vfs) {
    let cred = Cred::root();
    let how = || CreateHow::Guarded(mode(0o644));
    let dir = done(fs.mkdir(ctx(&cred), fs.root(), b"dir", &mode(0o755))).unwrap().object;
    done(fs.mkdir(ctx(&cred), dir, b"sub", &mode(0o755))).unwrap();
    done(fs.create(ctx(&cred), dir, b"file", &how())).unwrap();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &how())).unwrap().object;
    done(fs.write(ctx(&cred), file, 0, vec![7; 5000].into(), Stability::FileSync)).unwrap();
    done(fs.link(ctx(&cred), file, fs.root(), b"link")).unwrap();
    let large = done(fs.create(ctx(&cred), fs.root(), b"large", &how())).unwrap().object;
    done(fs.write(ctx(&cred), large, 0, vec![9; 300_000].into(), Stability::FileSync)).unwrap();
    done(fs.symlink(ctx(&cred), fs.root(), b"symlink", b"file", &SetAttr::default())).unwrap();
    done(fs.mkdir(ctx(&cred), fs.root(), b"other", &mode(0o755))).unwrap();
    for (object, length) in [(large, 65_536), (dir, 10)] {
        done(fs.set_xattr(ctx(&cred), object, b"user.a", &vec![8; length], SetXattr::Either)).unwrap();
    }
}

/// A pool with a dataset `tank/forged`: a copy of `tank` with lies in it, as an import finds it.
fn forged(inodes: LieOfInodes, roots: LieOfRoots) -> Result<(World, Arc<Filer>), tally_fs::filer::FilerError> {
    rewritten(|entries, root| {
        for (key, value) in entries.iter_mut().filter(|(key, _)| key.class == Class::Inode) {
            let mut inode = decoded(value);
            inodes(ObjectId(key.object), &mut inode);
            *value = encoded(&inode);
        }
        roots(root);
    })
}

fn decoded(value: &[u8]) -> Inode {
    Inode::decode(&mut Reader::new(value, "inode")).unwrap()
}

fn encoded(inode: &Inode) -> Bytes {
    let mut bytes = Vec::new();
    inode.encode(&mut bytes);
    bytes.into()
}

/// The same with whatever entries and root `rewrite` makes of the true ones.
fn rewritten(
    rewrite: impl FnOnce(&mut Vec<(Key, Bytes)>, &mut DatasetRoot),
) -> Result<(World, Arc<Filer>), tally_fs::filer::FilerError> {
    written_with(None, rewrite)
}

/// The same, or a tree of one leaf with these bytes.
fn written_with(
    leaf: Option<Bytes>,
    rewrite: impl FnOnce(&mut Vec<(Key, Bytes)>, &mut DatasetRoot),
) -> Result<(World, Arc<Filer>), tally_fs::filer::FilerError> {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    furnish(&*fs);
    filer.sync().unwrap();
    let pool = filer.pool();
    let tank = pool.dataset(fs.dataset()).unwrap();
    let mut root = (*tank.root()).clone();
    let (from, to) = (Key::new(Class::Inode, 0, 0, 0), Key::new(Class::Orphan, u64::MAX, 0, 0));
    let mut entries = root.tree.range(&pool.io, &from, &to).map(|entry| entry.unwrap()).collect();
    root.tree = Tree::empty();
    let empty = root.clone();
    rewrite(&mut entries, &mut root);
    let birth = DatasetBirth { id: pool.draw_dataset_id(), ..tank.birth };
    let line = DatasetLine { parent: tank.birth.id, name: "forged".into(), ..tank.line() };
    let dataset = Arc::new(Dataset::new(birth, line, "tank/forged", (*tank.effective()).clone(), empty));
    let forger: Arc<dyn DatasetClient> = Arc::new(Forger { entries, root, leaf, written: false.into() });
    dataset.attach(Arc::downgrade(&forger));
    pool.administer(|pool, _| pool.add_dataset(dataset)).unwrap();
    let cut = world.cut();
    let (filer, _) = cut.try_import(&ImportOptions::default())?;
    Ok((cut, filer))
}

/// What an operation comes to when its client is patient.
fn patient<T>(mut attempt: impl FnMut() -> Outcome<T>) -> Result<T, FsError> {
    for _ in 0..100 {
        match done(attempt()) {
            Err(FsError::Throttled) => {}
            result => return result,
        }
    }
    Err(FsError::Throttled)
}

fn assert_possible(attr: &Attr, what: &str) {
    assert!(attr.nlink >= 1 && attr.nlink <= LINK_MAX, "{what}: {} links of {attr:?}", attr.nlink);
    assert!(attr.size <= FILE_SIZE_MAX && attr.used <= FILE_SIZE_MAX, "{what}: {attr:?}");
}

/// Does everything that counts something, twice over. Every single operation may be refused.
fn use_all(fs: &Filesystem, what: &str) {
    let cred = Cred::root();
    let root = fs.root();
    let look = |dir: ObjectRef, name: &[u8]| fs.lookup(&cred, dir, name).map(|(attr, _)| attr.object);
    for round in 0..2u8 {
        let name = [b'n', b'0' + round];
        for dir in [Ok(root), look(root, b"dir"), look(root, b"other")].into_iter().flatten() {
            let made = patient(|| fs.create(ctx(&cred), dir, &name, &CreateHow::Guarded(mode(0o644))));
            if let Ok(made) = made {
                let _ = patient(|| fs.write(ctx(&cred), made.object, 0, vec![1; 9000].into(), Stability::FileSync));
            }
            let _ = patient(|| fs.mkdir(ctx(&cred), dir, b"more", &mode(0o755)));
            let _ = patient(|| fs.rmdir(ctx(&cred), dir, b"more"));
            let _ = patient(|| fs.rename(ctx(&cred), dir, b"sub", root, &[b's', round]));
            let _ = patient(|| fs.rename(ctx(&cred), root, &[b's', round], dir, b"sub"));
            let _ = patient(|| fs.rmdir(ctx(&cred), dir, b"sub"));
            let _ = patient(|| fs.remove(ctx(&cred), dir, b"file"));
        }
        for name in [&b"large"[..], b"link", b"symlink"] {
            let Ok(file) = look(root, name) else { continue };
            use_xattrs(fs, file);
            let _ = patient(|| fs.write(ctx(&cred), file, 200_000, vec![3; 70_000].into(), Stability::Unstable));
            let _ = patient(|| fs.commit(ctx(&cred), file, 0, 0));
            let _ = patient(|| fs.link(ctx(&cred), file, root, &[b'l', round, name[0]]));
            let _ = patient(|| fs.setattr(ctx(&cred), file, &SetAttr { size: Some(100), ..SetAttr::default() }, None));
            let _ = patient(|| fs.remove(ctx(&cred), root, name));
        }
        for dir in [Ok(root), look(root, b"dir")].into_iter().flatten() {
            use_xattrs(fs, dir);
            let Ok(page) = fs.readdir(&cred, dir, 0, 100, true) else { continue };
            page.entries.iter().filter_map(|entry| entry.attr.as_ref()).for_each(|attr| assert_possible(attr, what));
        }
        let space = fs.statfs().unwrap();
        assert!(space.total_bytes < 1 << 63 && space.free_bytes <= space.total_bytes, "{what}: {space:?}");
        assert!(space.total_files < 1 << 48 && space.free_files <= space.total_files, "{what}: {space:?}");
    }
}

fn use_xattrs(fs: &Filesystem, object: ObjectRef) {
    let cred = Cred::root();
    let _ = fs.list_xattrs(&cred, object, 0);
    for name in [&b"user.a"[..], b"user.b"] {
        let _ = fs.xattr(&cred, object, name);
        let _ = patient(|| fs.set_xattr(ctx(&cred), object, name, &[9; 40_000], SetXattr::Either));
        let _ = patient(|| fs.set_xattr(ctx(&cred), object, name, b"short", SetXattr::Replace));
        let _ = patient(|| fs.remove_xattr(ctx(&cred), object, name));
    }
}

/// Extended attributes whose parts are not what they say, with good checksums; and accounts of what is not there.
#[test]
fn extended_attributes_that_are_none_are_said_to_be_so() {
    type Lie = fn(&mut Vec<(Key, Bytes)>, usize);
    let lies: [(&str, Lie); 8] = [
        ("no value at all", |entries, first| entries[first].1 = Bytes::new()),
        ("a name that goes on behind the end", |entries, first| entries[first].1.truncate(7)),
        ("a value that is too short", |entries, first| entries[first].1.truncate(9000)),
        ("a part that is gone", |entries, first| _ = entries.remove(first + 1)),
        ("a part that is short", |entries, first| entries[first + 1].1.truncate(1)),
        ("no first part", |entries, first| _ = entries.remove(first)),
        ("a part too many", |entries, first| {
            let (key, value) = entries[first + 2].clone();
            entries.insert(first + 3, (Key { b: 3, ..key }, value));
        }),
        ("another number of parts", |entries, first| entries[first + 2].0.b = 77),
    ];
    for (what, lie) in lies {
        let made = rewritten(|entries, _| {
            let is_long = |(key, value): &(Key, Bytes)| key.class == Class::Xattr && value.len() > 9000;
            let first = entries.iter().position(is_long).expect("there is a long one");
            lie(entries, first);
        });
        let (_world, filer) = made.unwrap();
        let (fs, cred) = (filer.by_name("tank/forged").unwrap(), Cred::root());
        let large = fs.lookup(&cred, fs.root(), b"large").unwrap().0.object;
        let told = fs.xattr(&cred, large, b"user.a").map(|value| value.len());
        let is_honest = told == Err(FsError::Io) || told == Err(FsError::NoXattr);
        assert!(is_honest, "{what}: {told:?}");
        use_all(&fs, what);
        filer.sync().unwrap();
        assert!(filer.pool().fault().is_none(), "{what}");
    }
    // Its inode says that it has as many as there can be, or none.
    survives("accounts", |_, inode| inode.xattrs.count = if inode.xattrs.is_empty() { 0 } else { 128 }, |_| {});
    survives("none", |_, inode| (inode.xattrs.count, inode.xattrs.bytes) = (0, 0), |_| {});
    survives("one byte", |_, inode| inode.xattrs.bytes = 1, |_| {});
}

/// An import may refuse the lie by name; if it does not, the pool must live with it.
fn survives(what: &str, inodes: LieOfInodes, roots: LieOfRoots) {
    survives_forged(what, forged(inodes, roots));
}

fn survives_forged(what: &str, made: Result<(World, Arc<Filer>), tally_fs::filer::FilerError>) {
    let (world, filer) = match made {
        Ok(made) => made,
        Err(error) => {
            let said = error.to_string();
            return assert!(said.contains("damaged") || said.contains("faulty software"), "{what}: {error}");
        }
    };
    let fs = filer.by_name("tank/forged").unwrap();
    use_all(&fs, what);
    filer.sync().unwrap_or_else(|error| panic!("{what}: {error}"));
    use_all(&fs, what);
    for _ in 0..3 {
        filer.sync().unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    assert!(!fs.has_orphans(), "{what}: one group would follow the other for ever");
    let info = fs.info();
    assert!(info.object_count < 1 << 48 && info.used_bytes < 1 << 63, "{what}: {info:?}");
    let (again, _) = world.cut().import();
    use_all(&again.by_name("tank/forged").unwrap(), what);
    again.sync().unwrap_or_else(|error| panic!("{what}, after another import: {error}"));
}

fn nothing(_: &mut DatasetRoot) {}

/// A pool of the time when files up to 16 KiB were kept under one key: they stay so until they are written.
#[test]
fn a_file_that_is_too_large_for_its_key_is_read_and_changed() {
    /// The file's content, changed in the file system and here.
    type Use = fn(&dyn Vfs, ObjectRef, &mut Vec<u8>);
    fn write(fs: &dyn Vfs, file: ObjectRef, content: &mut Vec<u8>, offset: usize, length: usize) {
        let cred = Cred::root();
        done(fs.write(ctx(&cred), file, offset as u64, vec![3; length].into(), Stability::FileSync)).unwrap();
        content.resize(content.len().max(offset + length), 0);
        content[offset..offset + length].fill(3);
    }
    fn resize(fs: &dyn Vfs, file: ObjectRef, content: &mut Vec<u8>, size: usize) {
        let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
        done(fs.setattr(ctx(&Cred::root()), file, &set, None)).unwrap();
        content.resize(size, 0);
    }
    let uses: [(&str, Use); 7] = [
        ("read", |_, _, _| {}),
        ("touched", |fs, file, _| done(fs.setattr(ctx(&Cred::root()), file, &mode(0o600), None)).unwrap()),
        ("overwritten in part", |fs, file, content| write(fs, file, content, 100, 10)),
        ("extended by a write", |fs, file, content| write(fs, file, content, 4990, 300)),
        ("overwritten far away", |fs, file, content| write(fs, file, content, 400_000, 10)),
        ("cut", |fs, file, content| resize(fs, file, content, 4500)),
        ("cut to what would be small, and extended", |fs, file, content| {
            resize(fs, file, content, 1000);
            resize(fs, file, content, 200_000);
        }),
    ];
    for (what, using) in uses {
        let (world, filer) = rewritten(|entries, root| {
            let (id, inode) = entries
                .iter_mut()
                .filter(|(key, _)| key.class == Class::Inode)
                .map(|(key, value)| (key.object, value))
                .find(|(_, value)| decoded(value).size == 5000)
                .unwrap();
            let mut changed = decoded(inode);
            root.used_bytes = root.used_bytes - changed.used + 5000;
            (changed.layout, changed.used) = (Layout::Small, 5000);
            *inode = encoded(&changed);
            entries.retain(|(key, _)| key.class != Class::Extent || key.object != id);
            entries.push((Key::new(Class::Small, id, 0, 0), vec![7; 5000].into()));
            entries.sort_by_key(|(key, _)| *key);
        })
        .unwrap();
        let mut content = vec![7; 5000];
        let cred = Cred::root();
        let all = |fs: &Filesystem, file: ObjectRef| fs.read(&cred, file, 0, 1 << 20).unwrap().data.concat();
        let find = |fs: &Filesystem| fs.lookup(&cred, fs.root(), b"file").unwrap().0.object;
        let fs = filer.by_name("tank/forged").unwrap();
        let file = find(&fs);
        assert!(all(&fs, file) == content, "{what}: before");
        using(&*fs, file, &mut content);
        assert!(all(&fs, file) == content, "{what}: in memory");
        let (from_log, _) = world.cut().import();
        let from_log = from_log.by_name("tank/forged").unwrap();
        assert!(all(&from_log, find(&from_log)) == content, "{what}: from the log");
        filer.sync().unwrap();
        assert!(all(&fs, file) == content, "{what}: synced");
        let (again, _) = world.cut().import();
        let again = again.by_name("tank/forged").unwrap();
        assert!(all(&again, find(&again)) == content, "{what}: after an import");
        assert!(again.info().used_bytes < 2 << 20, "{what}: {:?}", again.info());
    }
}

#[test]
fn the_truth_survives() {
    survives("the truth", |_, _| {}, nothing);
}

#[test]
fn counters_of_inodes() {
    let lies: [(&str, LieOfInodes); 13] = [
        ("no subdirectories", |_, inode| inode.nlink = if inode.kind == FileKind::Directory { 2 } else { inode.nlink }),
        ("directories with one link", |_, inode| inode.nlink = 1),
        ("most links", |_, inode| inode.nlink = u32::MAX),
        ("as many links as there may be", |_, inode| inode.nlink = LINK_MAX),
        ("empty directories", |_, inode| inode.size = 2 * u64::from(inode.kind == FileKind::Directory)),
        ("no size", |_, inode| inode.size = 0),
        ("most bytes", |_, inode| inode.size = FILE_SIZE_MAX),
        ("more bytes", |_, inode| inode.size = u64::MAX),
        ("most bytes on disk", |_, inode| inode.used = u64::MAX),
        ("as many bytes on disk as there may be", |_, inode| inode.used = FILE_SIZE_MAX),
        ("fewest bytes on disk", |_, inode| inode.used = 0),
        ("changed at the end of time", |_, inode| inode.change = Time(u64::MAX)),
        ("the other layout", |_, inode| {
            inode.layout = match inode.layout {
                tally_fs::inode::Layout::Small => tally_fs::inode::Layout::Extents,
                tally_fs::inode::Layout::Extents => tally_fs::inode::Layout::Small,
            }
        }),
    ];
    for (what, lie) in lies {
        survives(what, lie, nothing);
    }
}

/// Sections stand in each record that names their object: they must have room beside everything else in it.
#[test]
fn sections_of_inodes() {
    fn sections(length: u16) -> Bytes {
        let head = [[77, 0], (length - 4).to_le_bytes()].concat();
        [head, vec![7; usize::from(length - 4)]].concat().into()
    }
    let lies: [(&str, LieOfInodes); 3] = [
        ("sections", |_, inode| inode.sections = sections(512)),
        ("sections longer than they may be", |_, inode| inode.sections = sections(513)),
        ("sections longer than a record", |_, inode| inode.sections = sections(30_000)),
    ];
    for (what, lie) in lies {
        survives(what, lie, nothing);
    }
    let (_world, filer) = forged(lies[0].1, nothing).unwrap();
    assert!(filer.by_name("tank/forged").unwrap().damage_report().places.is_empty());
    use_all(&filer.by_name("tank/forged").unwrap(), "sections");
}

#[test]
fn counters_of_dataset_roots() {
    let lies: [(&str, LieOfRoots); 11] = [
        ("no objects", |root| root.object_count = 0),
        ("most objects", |root| root.object_count = u64::MAX),
        ("nothing used", |root| root.used_bytes = 0),
        ("everything used", |root| root.used_bytes = u64::MAX),
        ("orphans that are not there", |root| root.orphan_count = 3),
        ("most orphans", |root| root.orphan_count = u64::MAX),
        ("the last id", |root| root.next_object = ObjectId(u64::MAX)),
        ("the last record", |root| root.replay_dseq = tally_base::Dseq(u64::MAX)),
        ("logged from the last group on", |root| root.log_from = Txg(u64::MAX)),
        // What can be read, and nothing that follows it: the next object or record made a pool that nobody could import.
        ("the last id that can be read", |root| root.next_object = ObjectId((1 << 62) - 1)),
        ("the last record that can be read", |root| root.replay_dseq = tally_base::Dseq((1 << 62) - 1)),
    ];
    for (what, lie) in lies {
        survives(what, |_, _| {}, lie);
    }
}

#[test]
fn orphans_that_are_not_there_are_not_waited_for() {
    let (_world, filer) = forged(|_, _| {}, |root| root.orphan_count = 3).unwrap();
    filer.sync().unwrap();
    assert!(!filer.by_name("tank/forged").unwrap().has_orphans(), "or one group would follow the other for ever");
}

/// A large file is removed, and the power goes before its group is synced. Its replay leaves the file to the reaper, who
/// was only called behind a group, and an idle pool has none: the space stayed taken until somebody changed something.
#[test]
fn the_reaper_goes_on_from_an_import() {
    let large = |_, inode: &mut Inode| {
        if inode.kind == FileKind::File {
            inode.used = 2 << 30;
        }
    };
    let (world, filer) = forged(large, nothing).unwrap();
    let fs = filer.by_name("tank/forged").unwrap();
    done(fs.remove(ctx(&Cred::root()), fs.root(), b"large")).unwrap();
    let (after, report) =
        world.cut().try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    let fs = after.by_name("tank/forged").unwrap();
    assert_eq!((report.records_replayed, fs.has_orphans()), (1, true));
    after.background().into_iter().for_each(|(_, body)| drop(std::thread::spawn(body)));
    for _ in 0..10_000 {
        if !fs.has_orphans() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("nobody changes anything, and the file keeps its space");
}

/// A pool with a removed file that was left to the reaper, and a rotten leaf among what the reaper looks at.
fn rotten_below_the_reaper(class: Class) -> World {
    let large = |_, inode: &mut Inode| {
        if inode.kind == FileKind::File {
            inode.used = 2 << 30;
        }
    };
    let (world, _) = forged(large, nothing).unwrap();
    let by_hand = world.cut();
    let (filer, _) = by_hand.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    let fs = filer.by_name("tank/forged").unwrap();
    let cred = Cred::root();
    done_later(&filer, fs.remove(ctx(&cred), fs.root(), b"large")).unwrap();
    assert!(fs.has_orphans());
    let mut leaf = None;
    let (root, mut last) = (filer.pool().dataset(fs.dataset()).unwrap().root(), None);
    root.tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Block { bp, .. } => last = Some(*bp),
        Visit::Entry { key, .. } if key.class == class => leaf = last,
        _ => {}
    });
    let cut = by_hand.cut();
    let leaf = leaf.expect("there is one");
    leaf.dvas().for_each(|dva| cut.poke("/disks/data", LABEL_BYTES + dva.offset, &[0x55; 64]));
    cut
}

/// The leaf that names a removed file for the reaper has rotted. What the file took cannot be found any more: that is told, the
/// pool goes on, and the reaper does not ask for one group after the other.
#[test]
fn an_orphan_that_cannot_be_found_is_a_leak_and_nobody_waits_for_it() {
    let cut = rotten_below_the_reaper(Class::Orphan);
    let (filer, report) = cut.import();
    assert_eq!(report.losses, [""; 0]);
    let fs = filer.by_name("tank/forged").unwrap();
    for _ in 0..10_000 {
        if !fs.has_orphans() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(!fs.has_orphans(), "or one group would follow the other for ever");
    let told: Vec<_> = fs.damage_report().places.iter().map(|place| (place.part, place.path.clone())).collect();
    assert_eq!(told, [(Part::Space, Some("/".to_owned()))]);
    assert!(filer.pool().io.leak_count() > 0);
    // Another file is left to the reaper beside the leaf that is lost, and that one is freed.
    let cred = Cred::root();
    patient(|| fs.remove(ctx(&cred), fs.root(), b"file")).unwrap();
    patient(|| fs.remove(ctx(&cred), fs.root(), b"link")).unwrap();
    filer.sync().unwrap();
    filer.sync().unwrap();
    assert!(!fs.has_orphans());
    let leaks = filer.pool().io.leak_count();
    for _ in 0..3 {
        filer.sync().unwrap();
    }
    assert_eq!(filer.pool().io.leak_count(), leaks, "what was told once is not counted with each group");
    let (filer, report) = cut.cut().import();
    assert_eq!(report.losses, [""; 0]);
    filer.sync().unwrap();
}

/// A leaf that names the blocks of a removed file has rotted before the reaper came by. Nobody has asked anything of the
/// reaper: the space is lost, that is told, and neither the pool nor the reaper stops there.
#[test]
fn a_rest_that_cannot_be_found_whole_is_a_leak_and_ends_no_group() {
    for class in [Class::Extent, Class::Inode] {
        let cut = rotten_below_the_reaper(class);
        let (filer, _) = cut.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
        let fs = filer.by_name("tank/forged").unwrap();
        filer.sync().unwrap_or_else(|error| panic!("{class:?}: {error}"));
        assert!(!fs.has_orphans(), "{class:?}: or one group would follow the other for ever");
        let (told, leaks) = (fs.damage_report().places, filer.pool().io.leak_count());
        let part = if class == Class::Extent { Part::Space } else { Part::Attributes };
        // Nobody can say where it was: its name is gone.
        assert!(told.iter().any(|place| (place.part, &place.path) == (part, &None)), "{class:?}: {told:?}");
        assert_eq!(leaks > 0, class == Class::Extent, "{class:?}: {leaks}");
        filer.sync().unwrap();
        assert_eq!(filer.pool().io.leak_count(), leaks, "{class:?}: told once");
        let (filer, report) = cut.cut().import();
        assert_eq!(report.losses, [""; 0]);
        filer.sync().unwrap();
    }
}

/// What an operation comes to in a pool in which nothing happens by itself.
fn done_later<T>(filer: &Filer, outcome: Outcome<T>) -> Result<T, FsError> {
    filer.sync().unwrap();
    done(outcome)
}

#[test]
fn a_rename_among_parents_in_a_circle_ends() {
    // `dir` and `other` each say that they lie in the other one.
    let (_world, filer) = forged(
        |id, inode| {
            if inode.kind == FileKind::Directory && id.0 > 3 && inode.parent.0 == 3 {
                inode.parent = id;
            }
        },
        nothing,
    )
    .unwrap();
    let fs = filer.by_name("tank/forged").unwrap();
    let cred = Cred::root();
    let find = |dir, name: &[u8]| fs.lookup(&cred, dir, name).unwrap().0.object;
    let (dir, other) = (find(fs.root(), b"dir"), find(fs.root(), b"other"));
    let (answer, answered) = std::sync::mpsc::channel();
    let renaming = Arc::clone(&fs);
    std::thread::spawn(move || {
        let renamed = renaming.rename(ctx(&Cred::root()), dir, b"sub", other, b"sub");
        answer.send(done(renamed)).unwrap();
    });
    let result = answered.recv_timeout(std::time::Duration::from_secs(20)).expect("the walk to the root ends");
    assert_eq!(result, Err(FsError::Io), "it is damage, and no question of the rename's");
}

/// Where the uberblocks of a disk are that are not empty: offset and content.
fn uberblocks_of(disk: &MemDisk) -> Vec<(u64, Uberblock)> {
    let slots = uberblock::read_all(disk).into_iter();
    slots.filter_map(|slot| Some((slot.offset, slot.content.ok()??))).collect()
}

/// An uberblock of a generation that no label knows. It was chosen, the import took the next generation of the labels, and
/// what it synced ranked behind the one that it had started from: the next import found that again, and a label that
/// told of newer ones.
#[test]
fn an_uberblock_of_a_generation_that_no_label_knows() {
    let mut world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    furnish(&*vfs(&filer));
    filer.sync().unwrap();
    world = world.cut();
    let disks = world.take(&["/disks/data", "/disks/slog"]);
    for (_, disk) in &disks {
        let found = uberblocks_of(disk);
        let newest = found.iter().map(|(_, uberblock)| uberblock.txg).max().unwrap();
        for (offset, uberblock) in found.into_iter().filter(|(_, uberblock)| uberblock.txg == newest) {
            let lie = Uberblock { open_gen: uberblock.open_gen + 1000, ..uberblock };
            disk.write(offset, &lie.encode(), Durability::Durable).unwrap();
        }
    }
    world.put(disks);
    let (filer, _) = world.import();
    done(vfs(&filer).mkdir(ctx(&Cred::root()), vfs(&filer).root(), b"later", &mode(0o755))).unwrap();
    filer.sync().unwrap();
    let (again, _) = world.cut().import();
    vfs(&again).lookup(&Cred::root(), vfs(&again).root(), b"later").unwrap();
}

/// Makes the content of all files unreadable, and whatever else of its pointers.
fn spoil_content(entries: &mut [(Key, Bytes)], spoil: impl Fn(&mut BlockPtr)) {
    for (_, value) in entries.iter_mut().filter(|(key, _)| key.class == Class::Extent) {
        let mut bp = BlockPtr::decode(value[..].try_into().unwrap()).unwrap();
        bp.checksum += 1;
        spoil(&mut bp);
        *value = bp.encode().to_vec().into();
    }
}

/// An entry of this name: its directory, its number, its object.
fn entry_named(entries: &[(Key, Bytes)], name: &[u8]) -> (ObjectId, ObjectId, ObjectId) {
    let is_it = |(key, value): &&(Key, Bytes)| key.class == Class::DirEntry && value[9..] == *name;
    let (key, value) = entries.iter().find(is_it).unwrap();
    (ObjectId(key.object), ObjectId(key.a), ObjectId(u64::from_le_bytes(value[..8].try_into().unwrap())))
}

/// An object says that this is its name.
fn say_name(entries: &mut [(Key, Bytes)], object: ObjectId, (dir, entry): (ObjectId, ObjectId)) {
    let inode = Key::new(Class::Inode, object.0, 0, 0);
    let (_, value) = entries.iter_mut().find(|(key, _)| *key == inode).unwrap();
    *value = encoded(&Inode { parent: dir, entry, ..decoded(value) });
}

/// Damage of `large` is told by its path.
fn assert_damage_is_told(filer: &Filer) {
    let fs = filer.by_name("tank/forged").unwrap();
    let large = fs.lookup(&Cred::root(), fs.root(), b"large").unwrap().0.object;
    assert_eq!(fs.read(&Cred::root(), large, 0, 1).map(|_| ()), Err(FsError::Io));
    let told: Vec<_> = fs.damage_report().places.into_iter().map(|place| (place.part, place.path)).collect();
    assert_eq!(told, [(Part::Content(0), Some("/large".to_owned()))]);
}

/// The bytes of a block are of the group that wrote them, whenever this tree got them: damage that was met below a younger
/// pointer was taken for healed.
#[test]
fn damage_of_bytes_that_are_older_than_their_pointer_is_told() {
    let (_world, filer) = rewritten(|entries, _| spoil_content(entries, |bp| bp.birth = Txg(1 << 40))).unwrap();
    assert_damage_is_told(&filer);
}

/// What an object says of its name is compared with what the directory says of it.
#[test]
fn a_name_that_is_another_objects_is_not_believed() {
    let mut large = ObjectId(0);
    let (_world, filer) = rewritten(|entries, _| {
        large = entry_named(entries, b"large").2;
        let (dir, entry, _) = entry_named(entries, b"symlink");
        say_name(entries, large, (dir, entry));
        spoil_content(entries, |_| {});
    })
    .unwrap();
    assert_eq!(filer.by_name("tank/forged").unwrap().path_of(large), None);
    assert_damage_is_told(&filer);
}

/// `dir` and `other` have names in each other and say so, and a file says that it lies in one of them: the way up does not end
/// at the root.
#[test]
fn names_in_a_circle_are_not_followed_for_ever() {
    let mut large = ObjectId(0);
    let (_world, filer) = rewritten(|entries, root| {
        let [dir, other, file] = [&b"dir"[..], b"other", b"large"].map(|name| entry_named(entries, name).2);
        large = file;
        for (parent, object, kind) in
            [(dir, other, FileKind::Directory), (other, dir, FileKind::Directory), (dir, large, FileKind::File)]
        {
            let entry = root.next_object;
            root.next_object = entry.next();
            let value = [&object.0.to_le_bytes()[..], &[kind as u8], b"again"].concat();
            entries.push((Key::new(Class::DirEntry, parent.0, entry.0, 0), value.into()));
            say_name(entries, object, (parent, entry));
        }
        entries.sort_by_key(|(key, _)| *key);
        spoil_content(entries, |_| {});
    })
    .unwrap();
    assert_eq!(filer.by_name("tank/forged").unwrap().path_of(large), None);
    assert_damage_is_told(&filer);
}

/// A root says up to which group the log's records are in the trees. One that says more than its uberblock's group would skip
/// what was acknowledged since.
#[test]
fn a_root_that_is_ahead_of_its_uberblock_is_refused() {
    let mut world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    furnish(&*vfs(&filer));
    filer.sync().unwrap();
    filer.sync().unwrap();
    world = world.cut();
    let disks = world.take(&["/disks/data", "/disks/slog"]);
    for (_, disk) in &disks {
        let mut found = uberblocks_of(disk);
        found.sort_by_key(|(_, uberblock)| uberblock.txg);
        let newest = found.last().unwrap().1.clone();
        for (offset, uberblock) in found {
            let is_newest = uberblock.txg == newest.txg;
            let lie = Uberblock { root: newest.root.clone(), ..uberblock };
            let bytes = if is_newest { vec![0; 4096] } else { lie.encode().to_vec() };
            disk.write(offset, &bytes, Durability::Durable).unwrap();
        }
    }
    world.put(disks);
    let refused = world.try_import(&ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("(malformed pool root)"), "{refused}");
}

/// Puts on the reaper's list what is not for it.
fn put_orphans(entries: &mut Vec<(Key, Bytes)>, root: &mut DatasetRoot, orphans: &[(ObjectId, u64, u64, Bytes)]) {
    let entry =
        |(id, kind, b, value): &(ObjectId, u64, u64, Bytes)| (Key::new(Class::Orphan, id.0, *kind, *b), value.clone());
    entries.extend(orphans.iter().map(entry));
    entries.sort_by_key(|(key, _)| *key);
    root.orphan_count = orphans.len() as u64;
}

/// Cuts of a file: how far the reaper has come, the end, from where on what is older does not exist.
fn forged_cuts(at: u64, end: u64, from: u64, before: u64) -> Bytes {
    [at, end, from, before].map(u64::to_le_bytes).concat().into()
}

/// A file says that it has cuts, and is on the list for that.
fn put_cuts(entries: &mut Vec<(Key, Bytes)>, root: &mut DatasetRoot, name: &[u8], cuts: &Bytes) -> ObjectId {
    let object = entry_named(entries, name).2;
    let inode = Key::new(Class::Inode, object.0, 0, 0);
    let (_, value) = entries.iter_mut().find(|(key, _)| *key == inode).unwrap();
    let sections = [&[1, 0, cuts.len() as u8, 0][..], cuts].concat().into();
    *value = encoded(&Inode { sections, ..decoded(value) });
    put_orphans(entries, root, &[(object, 2, 0, cuts.clone())]);
    object
}

/// The reaper's list says what cannot be: it names objects twice, or such as have names.
#[test]
fn the_list_of_the_reaper() {
    type Lie = fn(&mut Vec<(Key, Bytes)>, &mut DatasetRoot);
    fn one() -> Bytes {
        Bytes::from_static(&[1])
    }
    let lies: [(&str, Lie); 8] = [
        ("a removed file twice", |entries, root| {
            let id = entry_named(entries, b"large").2;
            put_orphans(entries, root, &[(id, 0, 0, one()), (id, 0, 1, one())]);
        }),
        ("removed, and cut", |entries, root| {
            let cuts = forged_cuts(0, 1 << 20, 0, 1 << 30);
            let id = put_cuts(entries, root, b"large", &cuts);
            put_orphans(entries, root, &[(id, 0, 0, one())]);
        }),
        ("directories", |entries, root| {
            let (dir, _, sub) = entry_named(entries, b"sub");
            let top = entry_named(entries, b"dir").0;
            put_orphans(entries, root, &[(top, 0, 0, one()), (dir, 0, 0, one()), (sub, 2, 0, one())]);
        }),
        ("objects that are not there", |entries, root| {
            let orphans: Vec<_> = (0..3000).map(|id| (ObjectId(id << 40), id % 4, 0, one())).collect();
            put_orphans(entries, root, &orphans);
        }),
        ("files without cuts, and words that are none", |entries, root| {
            let (large, file) = (entry_named(entries, b"large").2, entry_named(entries, b"link").2);
            put_orphans(entries, root, &[(large, 2, 0, one()), (file, 2, 0, Bytes::new())]);
        }),
        ("a cut at the end of numbers", |entries, root| {
            put_cuts(entries, root, b"large", &forged_cuts(0, u64::MAX, u64::MAX - 1, u64::MAX));
        }),
        ("a cut of what is to come", |entries, root| {
            put_cuts(entries, root, b"large", &forged_cuts(1 << 17, u64::MAX, 1, u64::MAX));
        }),
        ("two extents in one place", |entries, root| {
            let id = put_cuts(entries, root, b"large", &forged_cuts(0, u64::MAX, 0, 1 << 30));
            let extents = entries.iter().filter(|(key, _)| key.class == Class::Extent && key.object == id.0);
            let twice: Vec<_> = extents.map(|(key, value)| (Key { b: 1, ..*key }, value.clone())).collect();
            entries.extend(twice);
            entries.sort_by_key(|(key, _)| *key);
        }),
    ];
    for (what, lie) in lies {
        survives_forged(what, rewritten(lie));
    }
}

/// What has a name is not for the reaper.
#[test]
fn a_file_that_has_names_is_not_reaped() {
    let (_world, filer) = rewritten(|entries, root| {
        let id = entry_named(entries, b"large").2;
        put_orphans(entries, root, &[(id, 0, 0, Bytes::from_static(&[1]))]);
    })
    .unwrap();
    filer.sync().unwrap();
    filer.sync().unwrap();
    let fs = filer.by_name("tank/forged").unwrap();
    let large = fs.lookup(&Cred::root(), fs.root(), b"large").unwrap().0.object;
    assert!(fs.read(&Cred::root(), large, 0, 300_000).unwrap().data.concat() == vec![9; 300_000]);
    assert!(!fs.has_orphans());
}

/// A leaf that is none, and an extent whose pointer is none, with good checksums. Every disk had every block right, so a scrub
/// said that nothing is wrong, and what they stood for was gone.
#[test]
fn a_scrub_counts_what_was_written_wrong() {
    let nonsense = Some(vec![0xaa; 4096].into());
    let no_pointer = |entries: &mut Vec<(Key, Bytes)>, _: &mut DatasetRoot| {
        let (_, value) = entries.iter_mut().find(|(key, _)| key.class == Class::Extent).unwrap();
        value.truncate(63);
    };
    let made = [(written_with(nonsense, |_, _| {}), "a node of its tree"), (rewritten(no_pointer), "at 0: ")];
    for (made, named) in made {
        let (_world, filer) = made.unwrap();
        let id = filer.names().find("tank/forged").unwrap().dataset();
        let report = filer.scrub(&mut |_| true).unwrap();
        let told: Vec<_> = report.lost.iter().map(|lost| (lost.dataset, lost.to_string().contains(named))).collect();
        assert_eq!((report.lost_count, told), (1, vec![(Some(id), true)]), "{:?}", report.lost);
        assert_eq!(report.unread_count, 0, "another look finds nothing else");
        assert!(filer.pool().fault().is_none());
    }
}

/// What an inode of a newer program has in places that are zeroes now: where, and which byte.
const OF_NEWER_PROGRAMS: [(usize, u8, &str); 6] = [
    (0, 3, "an inode of another form"),
    (89, 24, "a file with blocks of more than 1 MiB"),
    (91, 2, "an inode with a flag"),
    (108, 1, "an inode with reserved space"),
    (116, 1, "an inode with an access control list"),
    (120, 1, "an inode of a project"),
];

/// It was taken for damage: `status` listed the file as lost, and a record of the log wrote its own idea of it over what only the newer
/// program knows.
#[test]
fn an_inode_of_a_newer_program_is_left_as_it_is_and_is_no_damage() {
    for (at, byte, what) in OF_NEWER_PROGRAMS {
        let mut newer = Bytes::new();
        let mut id = 0;
        let made = rewritten(|entries, _| {
            let is_large = |(key, value): &&mut (Key, Bytes)| {
                key.class == Class::Inode && decoded(value).kind == FileKind::File && decoded(value).size == 300_000
            };
            let (key, value) = entries.iter_mut().find(is_large).expect("there is a large file");
            let mut bytes = value.to_vec();
            bytes[at] = byte;
            *value = bytes.into();
            (newer, id) = (value.clone(), key.object);
        });
        let (world, filer) = made.unwrap();
        let told = Inode::decode(&mut Reader::new(&newer, "inode")).unwrap_err();
        assert_eq!(told, DecodeError::Newer(what));
        assert!(told.to_string().contains("written by a newer version"), "{told}");

        let cred = Cred::root();
        let fs = filer.by_name("tank/forged").unwrap();
        let others = fs.readdir(&cred, fs.root(), 0, 100, true).unwrap().entries;
        assert!(others.iter().any(|entry| &entry.name[..] == b"large"), "its name is there");
        assert_eq!(fs.lookup(&cred, fs.root(), b"large").map(drop), Err(FsError::Io), "{what}");
        let object = ObjectRef { id: ObjectId(id), generation: Generation(1) };
        let cut = SetAttr { size: Some(0), ..SetAttr::default() };
        assert_eq!(patient(|| fs.setattr(ctx(&cred), object, &cut, None)).map(drop), Err(FsError::Io), "{what}");
        assert_eq!(patient(|| fs.remove(ctx(&cred), fs.root(), b"large")).map(drop), Err(FsError::Io), "{what}");
        use_all(&fs, what);
        filer.sync().unwrap();
        let listed = fs.damage_met().places;
        assert!(listed.iter().all(|place| place.object != ObjectId(id)), "{what} is damage: {listed:?}");

        // Whatever else was done, what the newer program has written is there.
        let there = |filer: &Filer| {
            let root = filer.by_name("tank/forged").unwrap();
            let dataset = filer.pool().dataset(root.dataset()).unwrap();
            dataset.root().tree.get(&filer.pool().io, &Key::new(Class::Inode, id, 0, 0)).unwrap()
        };
        assert_eq!(there(&filer), Some(newer.clone()), "{what}");
        let (again, _) = world.cut().import();
        assert_eq!(there(&again), Some(newer), "{what}, behind a cut");
    }
}

/// A newer program has removed a file of its own, and its reaper was not through. The older one freed what it had, and what only the newer one
/// knows of it with it.
#[test]
fn a_removed_file_of_a_newer_program_waits_for_that() {
    let mut id = 0;
    let newer = |entries: &mut Vec<(Key, Bytes)>, root: &mut DatasetRoot| {
        let is_large = |(key, value): &&mut (Key, Bytes)| {
            key.class == Class::Inode && decoded(value).kind == FileKind::File && decoded(value).size == 300_000
        };
        let (key, value) = entries.iter_mut().find(is_large).expect("there is a large file");
        let mut bytes = value.to_vec();
        bytes[0] = 3;
        *value = bytes.into();
        id = key.object;
        let orphan = (Key::new(Class::Orphan, id, 0, 0), Bytes::from_static(&[1]));
        entries.insert(entries.partition_point(|(key, _)| *key < orphan.0), orphan);
        root.orphan_count = 1;
    };
    let (_world, filer) = rewritten(newer).unwrap();
    let fs = filer.by_name("tank/forged").unwrap();
    filer.sync().unwrap();
    use_all(&fs, "it");
    filer.sync().unwrap();
    assert!(!fs.has_orphans(), "or one group would follow the other for ever");
    let dataset = filer.pool().dataset(fs.dataset()).unwrap();
    let (from, to) = (Key::new(Class::Extent, id, 0, 0), Key::new(Class::Extent, id, u64::MAX, 0));
    let root = dataset.root();
    let extents = root.tree.range(&filer.pool().io, &from, &to).count();
    assert!(extents > 1, "{extents} extents of it are left");
    let orphan = root.tree.get(&filer.pool().io, &Key::new(Class::Orphan, id, 0, 0)).unwrap();
    assert!(orphan.is_some(), "it stays listed");
}
